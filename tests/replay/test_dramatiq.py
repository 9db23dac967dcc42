"""Dramatiq's captures, on both brokers, against what its tasks logged."""

from __future__ import annotations

import pytest

from tests.replay.truth import Unseen, captures, manifest, replayed, stale, unexplained

CAPTURES = captures("dramatiq")
NO_START = "No started fact: what a worker holds is prefetched, not necessarily running."
NO_SUCCESS = "Success = .msgs hdel after acks srem, and nothing else, without telling success from any ack."
NO_ACK = "RabbitMQ shows publishing, delivery and depth: an acknowledgement is in none of them."
SAMPLED = "Polled keys are samples: what came and went between two polls is not in the file."

UNSEEN = [
    Unseen(fact="started", got=(0,), reason=NO_START),
    Unseen(fact="succeeded", got=(0,), capture="redis", reason=NO_SUCCESS),
    Unseen(fact="state", got=("sent", "deferred", "received", "retrying"), capture="redis", reason=NO_SUCCESS),
    Unseen(fact="succeeded", got=(0,), capture="rabbit", reason=NO_ACK),
    Unseen(fact="state", got=("received",), capture="rabbit", reason=NO_ACK),
    # The second message of a pipeline is published when the first one is done, and was done itself within 10 ms.
    *(
        Unseen(fact=fact, got=got, capture="redis", when=lambda true: true.get("note") == "pipeline", reason=SAMPLED)
        for fact, got in {"sent": (0,), "task": ("",), "state": ("",)}.items()
    ),
]


@pytest.mark.parametrize("name", CAPTURES)
def test_what_can_be_seen_is_as_the_tasks_logged_it(name: str) -> None:
    """Everything sent, every retry and every dead letter is told once; nothing else is told but what is unseen."""
    assert unexplained(name, UNSEEN) == []


def test_nothing_is_called_unseen_that_is_seen() -> None:
    """Each line of the list of what cannot be seen is needed."""
    assert stale(CAPTURES, UNSEEN) == []


@pytest.mark.parametrize("name", CAPTURES)
def test_every_dead_letter_is_told(name: str) -> None:
    """Those that the truth calls dead are, once each, and no others."""
    trails = replayed(name)["trails"]
    dead = {task_id: trail["dead_lettered"] for task_id, trail in trails.items() if trail["dead_lettered"]}
    assert dead == dict.fromkeys(manifest()[name]["truth"]["dead_lettered"], 1)


@pytest.mark.parametrize("name", CAPTURES)
def test_nothing_is_malformed(name: str) -> None:
    """Keyspace notes, lengths and lists of ids are understood: they say nothing of a task."""
    events = replayed(name)["events"]
    assert (events["malformed"], events["duplicate"]) == (0, 0)
