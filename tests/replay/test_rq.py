"""Captures of RQ workers against what their tasks logged."""

from __future__ import annotations

import pytest

from tests.replay.truth import captures, differences, replayed


@pytest.mark.parametrize("name", captures("rq"))
def test_a_replay_has_the_truth(name: str) -> None:
    """Counts and final states of every job are those that were logged: nothing of these runs is hidden."""
    assert differences(name) == []


@pytest.mark.parametrize("name", captures("rq"))
def test_repeated_jobs_are_not_redelivered(name: str) -> None:
    """Each repetition of a job is a life of its own: three successes, none of them a duplicate."""
    repeated = [trail for trail in replayed(name)["trails"].values() if trail["sent"] == 3]
    assert [(trail["started"], trail["succeeded"], trail.get("redelivered", 0)) for trail in repeated] == [(3, 3, 0)]
