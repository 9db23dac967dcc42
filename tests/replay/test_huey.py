"""Captures of Huey consumers against what their tasks logged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.replay.truth import Unseen, captures, manifest, replayed, stale, unexplained

POPPED = "Popped = gone: from outside depth, schedule and stored failures, and no message of what was quick."
MODULE = "Message fields by position: name is `module.taskname`."
NONE = "None results are not stored: not started, not success of None."
LOST = "A killed worker loses it without trace."

UNSEEN = [
    Unseen(fact="task", got=("",), reason=POPPED),
    Unseen(fact="task", when=lambda true: true["expect"] != "lost", reason=MODULE),
    # Of what succeeds with None at a later try, which is seen to be due.
    *(
        Unseen(fact=fact, when=lambda true: bool(true["retried"] and true["succeeded"]), got=got, reason=NONE)
        for fact, got in {"started": (1,), "succeeded": (0,), "state": ("retrying",)}.items()
    ),
    *(
        Unseen(fact=fact, when=lambda true: true["expect"] == "lost", got=(0,), reason=LOST)
        for fact in ("sent", "started")
    ),
    Unseen(fact="state", when=lambda true: true["expect"] == "lost", got=("",), reason=LOST),
]


@pytest.mark.parametrize("name", captures("huey"))
def test_what_can_be_seen_is_as_the_tasks_logged_it(name: str) -> None:
    """Every failure, retry, revocation and stored value is told once; nothing else is told but what is unseen."""
    assert unexplained(name, UNSEEN) == []


def test_nothing_is_called_unseen_that_is_seen() -> None:
    """Each line of the list of what cannot be seen is needed."""
    assert stale(captures("huey"), UNSEEN) == []


@pytest.mark.parametrize("name", captures("huey"))
def test_names_end_with_that_of_the_task(name: str) -> None:
    """A name that is told is the task's, behind that of its module."""
    truth: dict[str, Any] = manifest()[name]["truth"]["tasks"]
    told = {task_id: trail["task"] for task_id, trail in replayed(name)["trails"].items() if trail["task"]}
    assert told
    assert all(task.endswith("." + truth[task_id]["name"]) for task_id, task in told.items())


@pytest.mark.parametrize("name", captures("huey"))
def test_nothing_is_malformed(name: str) -> None:
    """Messages, values, errors and revocations are understood, and each is told once."""
    events = replayed(name)["events"]
    assert (events["malformed"], events["duplicate"]) == (0, 0)
