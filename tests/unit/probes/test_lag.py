"""What a group's commits say of it: measured by its own habit, and silent where nothing waits."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.probes.lag import FIRST, SHORTEST, Place, Verdict, seen, verdict, waiting

EVERY = 10.0


def watch(
    steps: list[tuple[int, int]], *, has_members: bool | None = True, every: float = EVERY
) -> list[Verdict | None]:
    """The verdicts of looks at (committed, end), in turn; all that lies between waits."""
    place: Place | None = None
    said: list[Verdict | None] = []
    for number, (committed, end) in enumerate(steps):
        now = number * every
        former, place = place, seen(place, committed, end, now)
        place = waiting(place, None if place.is_void else max(0, end - committed), now)
        said.append(verdict(former, place, now, has_members=has_members))
    return said


@pytest.mark.parametrize(("has_members", "word"), [(True, "stall"), (False, "stop"), (None, "stall")])
def test_a_group_that_does_not_go_on_is_named_for_who_is_in_it(has_members, word):
    """Nobody in it: stopped. Somebody, or nobody knows: it stalls. Not before a minute, however fast it is."""
    said = watch([(4, 9), *[(5, 9)] * 10], has_members=has_members)
    stands = int(SHORTEST / EVERY) + 2
    assert set(said[:stands]) == {None}
    assert set(said[stands:]) == {word}


def test_a_group_that_was_never_seen_going_on_is_given_time():
    """How long it usually takes is not known: five minutes are."""
    said = watch([(5, 9)] * 40)
    stands = int(FIRST / EVERY) + 1
    assert set(said[:stands]) == {None}
    assert set(said[stands:]) == {"stall"}


def test_a_group_is_measured_by_its_own_habit():
    """One that commits every two minutes is left alone for three times as long."""
    slow = [(number // 12 * 100, 10_000) for number in range(60)]  # a step of 100 every 12 looks
    stands = [(400, 10_000)] * 40
    said = watch([*slow, *stands])
    assert set(said[:84]) == {None}
    assert said[-1] == "stall"


def test_a_quiet_topic_is_no_stall():
    """Nothing waits for hours; then a record comes, and the clock begins with it, not with the last commit."""
    said = watch([*[(9, 9)] * 500, *[(9, 10)] * 7, (10, 10), *[(10, 10)] * 100])
    assert set(said) == {None}


def test_a_group_that_is_put_back_is_named_once():
    """At the look at which it is seen; then it goes on, and is judged as ever."""
    assert watch([(9, 10), (3, 10), (5, 10), (10, 10)]) == [None, "rewind", None, None]


@pytest.mark.parametrize(
    "steps",
    [
        [(50, 9)] * 20,  # committed in a log that is no more
        [(50, 60), *[(50, 9)] * 20],
        [(5, 60), *[(5, 9)] * 20],  # the new log is longer than what was committed in the old one
    ],
)
def test_a_commit_of_another_log_says_nothing(steps):
    """A topic that was made anew: what its former self knew of a group is void until the group commits again."""
    place = None
    for number, (committed, end) in enumerate(steps):
        place = seen(place, committed, end, number * EVERY)
    assert place is not None
    assert place.is_void
    assert set(watch(steps)) == {None}
    again = seen(place, 7, 9, 1_000.0)
    assert not again.is_void
    assert verdict(place, again, 1_000.0, has_members=True) is None


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60),
    st.booleans(),
    st.sampled_from([1.0, 10.0, 600.0]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_is_said_of_a_group_that_goes_on(moves, has_members, every):
    """Whatever comes and however much of it waits: who commits something new at each look neither stops nor stalls."""
    committed, end, steps = 0, 5, []
    for fresh, more in moves:
        committed, end = committed + 1 + fresh, end + 1 + fresh + more
        steps.append((committed, end))
    assert set(watch(steps, has_members=has_members, every=every)) == {None}
