"""How the loop is shared among rules: who is held back, and by how much."""

from __future__ import annotations

import math

import pytest

from collector.alerting.budget import BETWEEN_SLOTS, REPEATEDLY, Pace, settle, share


@pytest.mark.parametrize(
    ("loads", "most"),
    [
        ([], math.inf),
        ([0.1, 0.15], math.inf),
        ([3.0], 0.25),
        ([3.0, 3.0], 0.125),
        ([0.05, 3.0], 0.2),
        ([0.05, 0.15, 0.15], 0.1),
        ([0.01] * 15 + [9.0], 0.1),
    ],
)
def test_those_that_take_most_are_cut_to_one_share(loads, most):
    """While all fit nobody is held back; beyond that the large ones are cut and the small ones keep what they take."""
    assert share(loads, 0.25) == pytest.approx(most)


def pace(*costs):
    """A rule whose evaluations cost so much."""
    made = Pace()
    for cost in costs:
        made.spent(cost)
    return made


def test_a_rule_is_slow_only_if_it_is_so_repeatedly():
    """One quick evaluation among the last few shows what the rule costs; before there are enough, nothing is said."""
    assert [pace(*[2.0] * count).cost for count in range(REPEATEDLY + 1)] == [0, 0, 0, 2]
    assert pace(0.1, 2.0, 2.0).cost == 0.1


def test_between_slots_it_bites_before_it_does_at_slots():
    """A rule that is dear for ten times a second but not for once in its interval keeps all its slots."""
    dear, cheap = pace(*[0.1] * 3), pace(*[0.001] * 3)
    settle([(dear, 15.0), (cheap, 15.0)], [dear, cheap])
    assert (dear.stride, cheap.stride, cheap.pause) == (1, 1, BETWEEN_SLOTS)
    assert dear.pause == pytest.approx(0.1 / 0.24)


def test_at_slots_the_stride_grows_with_the_cost():
    """A rule that takes three seconds every second is evaluated once in twelve, and always when it is quick again."""
    slow, quick = pace(*[3.0] * 3), pace(*[0.0] * 3)
    settle([(slow, 1.0), (quick, 1.0)], [slow, quick])
    assert (slow.stride, quick.stride) == (12, 1)
    slow.spent(0.0)
    settle([(slow, 1.0), (quick, 1.0)], [slow, quick])
    assert (slow.stride, slow.pause) == (1, BETWEEN_SLOTS)
