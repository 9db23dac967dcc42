"""Captures of taskiq workers against what their tasks logged."""

from __future__ import annotations

import pytest

from tests.replay.truth import Unseen, captures, replayed, stale, unexplained

UNSEEN = [
    # Of what was reclaimed from the killed worker, and done within milliseconds.
    Unseen(
        fact="started",
        when=lambda true: true["started"] > 1 and not true["retried"],
        got=(1,),
        reason="The second run reads like the first but for times_delivered.",
    )
]


@pytest.mark.parametrize("name", captures("taskiq"))
def test_a_replay_has_the_truth(name: str) -> None:
    """Counts and final states of every task are those that were logged, but for what is unseen."""
    assert unexplained(name, UNSEEN) == []


def test_nothing_is_called_unseen_that_is_seen() -> None:
    """Each line of the list of what cannot be seen is needed."""
    assert stale(captures("taskiq"), UNSEEN) == []


@pytest.mark.parametrize("name", captures("taskiq"))
def test_nothing_is_malformed(name: str) -> None:
    """Entries, what was asked of the group, and results are all understood."""
    events = replayed(name)["events"]
    assert (events["malformed"], events["duplicate"]) == (0, 0)
