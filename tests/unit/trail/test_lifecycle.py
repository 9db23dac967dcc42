"""The lifecycle table."""

from __future__ import annotations

import pytest

from collector.model.event import KIND_CODE, TASK_KINDS
from collector.trail.lifecycle import FINAL_STATES, LIFECYCLE, OPEN_STATES, STATES, state_of
from collector.trail.transitions import FACTS, STRIDE


def test_every_kind_has_its_row_in_order():
    """The table has each kind of task event once, in the order of the codes."""
    assert tuple(LIFECYCLE) == TASK_KINDS
    assert FACTS[: len(TASK_KINDS)] == TASK_KINDS
    assert len(FACTS) <= STRIDE


def test_no_state_is_dead():
    """Every state but those that contracts and eta give is given by some kind."""
    given = {step.state for step in LIFECYCLE.values()}
    assert given | {"deferred", "lost", "unknown"} == set(STATES)


@pytest.mark.parametrize("kind", TASK_KINDS)
def test_final_kinds_are_final_states(kind):
    """A kind is final exactly when its state is, and every final kind stops flight."""
    step = LIFECYCLE[kind]
    assert step.is_final == (step.state in FINAL_STATES)
    assert step.is_final != (step.state in OPEN_STATES)
    assert step.stops_flight or not step.is_final


@pytest.mark.parametrize("final", FINAL_STATES)
@pytest.mark.parametrize("kind", TASK_KINDS)
def test_there_is_no_way_back_from_a_final_state(final, kind):
    """Whatever follows a final end, the state stays final, and never gets lower."""
    state = state_of([(KIND_CODE[final], 1, False), (KIND_CODE[kind], 9, False)])
    assert state in FINAL_STATES
    assert FINAL_STATES.index(state) <= FINAL_STATES.index(final)


def test_no_fact_is_no_state():
    """`unknown` is the state of nothing."""
    assert state_of([]) == "unknown"


def test_the_attempt_comes_before_the_place():
    """A later attempt that was only received is further than an earlier one that was retried."""
    facts = [(KIND_CODE["retried"], 1, False), (KIND_CODE["received"], 2, False)]
    assert state_of(facts) == "received"
