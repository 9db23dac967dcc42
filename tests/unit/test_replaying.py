"""A replay: recorded time alone, and what became of it."""

from __future__ import annotations

import msgspec

from collector.replaying import Replay
from tests.unit.parts import FAILING, T0, batch, event, groups


def replayed(*bodies: bytes, beyond: float = 0.0, text: str = FAILING) -> dict[str, object]:
    """The result of a replay of these bodies, as JSON would have it."""
    replay = Replay(groups(text))
    if bodies:
        replay.count(batch(bodies))
    for _ in replay.walk():
        pass
    for _ in replay.finish(beyond):
        pass
    result: dict[str, object] = msgspec.to_builtins(replay.result())
    return result


def test_an_episode_has_its_times() -> None:
    """An alert is listed with when it became active, fired and resolved, as of recorded time."""
    result = replayed(event("failed", "1", T0 + 1, error="E"), event("sent", "2", T0 + 30))
    (episode,) = result["alerts"]
    assert episode["alertname"] == "Failing"
    assert episode["labels"] == {"alertname": "Failing", "owner": "me", "severity": "page", "task": "a"}
    assert (episode["state"], episode["active_at"], episode["fired_at"], episode["resolved_at"]) == (
        "resolved",
        T0 + 1,
        T0 + 1,
        T0 + 15,
    )


def test_each_episode_of_an_alert_is_its_own() -> None:
    """An alert that fires twice is two episodes, the earlier one first."""
    result = replayed(event("failed", "1", T0 + 1), event("failed", "2", T0 + 61), event("sent", "3", T0 + 100))
    assert [one["active_at"] for one in result["alerts"]] == [T0 + 1, T0 + 61]


def test_what_never_fired_is_left_out() -> None:
    """An alert that was only pending is no episode."""
    held = FAILING.replace("    labels:", "    for: 1m\n    labels:")
    assert replayed(event("failed", "1", T0 + 1), event("sent", "2", T0 + 100), text=held)["alerts"] == []


def test_now_ends_at_the_last_record_or_beyond_it() -> None:
    """What would resolve after the last record does so only where the replay goes on beyond it."""
    bodies = [event("failed", "1", T0 + 1)]
    assert replayed(*bodies)["alerts"][0]["resolved_at"] is None
    assert replayed(*bodies, beyond=60)["alerts"][0]["resolved_at"] == T0 + 15


def test_notifications_are_said_at_their_own_instants() -> None:
    """What would have been sent is listed with its instant, receiver and text, each told once."""
    result = replayed(event("failed", "1", T0 + 1), event("sent", "2", T0 + 60))
    (begun, ended) = result["notifications"]
    assert (begun["at"], begun["status"], begun["receiver"]) == (T0 + 1, "firing", "default")
    assert (ended["at"], ended["status"]) == (T0 + 21, "resolved")  # a group_interval after it was last looked at
    assert begun["alerts"] == [result["alerts"][0]["fingerprint"]]
    assert begun["group_labels"] == {"alertname": "Failing", "task": "a"}
    assert "1 failed" in begun["text"]


def test_what_still_waited_at_the_end_is_counted() -> None:
    """A decision that waits for a missing fact is made at the end, as nothing more can come."""
    result = replayed(event("succeeded", "1", T0 + 1), event("started", "1", T0 + 2, attempt=1))
    assert result["tasks"]["a"]["redelivered"] == 1


def test_events_are_counted_by_what_became_of_them() -> None:
    """The five numbers are those of the events, one per line or element of a list."""
    result = replayed(event("sent", "1", T0), b"[%b]" % event("sent", "1", T0), b"{", b'{"kind":"heartbeat"}')
    assert result["events"] == {"read": 4, "accepted": 1, "duplicate": 1, "malformed": 1, "ignored": 1}


def test_nothing_gives_an_empty_result() -> None:
    """Without any event there are no tasks, no alerts and no notifications."""
    result = replayed()
    assert (result["tasks"], result["alerts"], result["notifications"]) == ({}, [], [])
    assert replayed(b"{")["events"]["malformed"] == 1


def test_a_source_of_its_own_name() -> None:
    """Series are labelled with the replay's source."""
    replay = Replay(groups(FAILING), source="test")
    replay.count(batch([event("failed", "1", T0)]))
    assert replay.pipeline.rows.names(0) == ("a", "q", "test")
