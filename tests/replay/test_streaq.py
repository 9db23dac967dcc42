"""Captures of streaq workers against what their tasks logged."""

from __future__ import annotations

import pytest

from tests.replay.truth import captures, differences, replayed


@pytest.mark.parametrize("name", captures("streaq"))
def test_a_replay_has_the_truth(name: str) -> None:
    """Counts and final states of every job are those that were logged: nothing of these runs is hidden."""
    assert differences(name) == []


@pytest.mark.parametrize("name", captures("streaq"))
def test_nothing_is_malformed(name: str) -> None:
    """Keys, results and notifications are understood, and each fact is told once."""
    events = replayed(name)["events"]
    assert (events["malformed"], events["duplicate"]) == (0, 0)
