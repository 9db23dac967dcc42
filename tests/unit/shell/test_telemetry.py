"""What Tasktrail says of itself: numbers for rules and scrapers, lines for people, no secret in either."""

from __future__ import annotations

import logging

import pytest

from collector.model.errors import ChannelError
from collector.model.record import Gap, Outcome
from collector.shell.telemetry import EXPOSED, METRICS, Rejected, Telemetry
from tests.unit.parts import T0

SECRET = "redis://user:hunter2@host"
NOTE = type("Note", (), {"title": "t"})()


def rejected(reason: str = "not_json", trace: str = "") -> Rejected:
    """A record that was set aside."""
    return Rejected(
        source="s", place="p", receipt="7", reason=reason, detail="d", first_bytes="{", at=T0, traceback=trace
    )


def test_what_is_exposed_is_what_rules_see() -> None:
    """Each number has the same name, labels and value on /metrics and as a sample for rules."""
    telemetry = Telemetry()
    telemetry.source_named("s")
    telemetry.batch_counted("s", Outcome(read=3, accepted=2, malformed=1))
    telemetry.stalled(0.5)
    samples = {(name, labels): value for name, labels, value in telemetry.samples()}
    exposed = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for metric in telemetry.collect()
        for sample in metric.samples
    }
    assert samples == exposed
    assert samples["tasktrail_events_total", (("outcome", "accepted"), ("source", "s"))] == 2
    assert {name for name, _ in samples} <= EXPOSED


def test_every_metric_has_a_help_text() -> None:
    """The table says for each metric what it is, in a sentence."""
    assert [name for name, (_, text, _) in METRICS.items() if not text.endswith(".")] == []


def test_a_hole_of_a_whole_source_is_in_no_place(caplog: pytest.LogCaptureFixture) -> None:
    """The line about a gap names the place where there is one, and leaves no empty word where there is none."""
    caplog.set_level("WARNING", "tasktrail")
    for place in ("", "orders/3"):
        Telemetry().gap(Gap(source="s", place=place, start=T0, end=T0, estimate=None, reason="crash"))
    assert [message.partition(",")[0] for message in caplog.messages] == ["source s: gap", "source s: gap in orders/3"]


@pytest.mark.parametrize(
    ("estimate", "is_rough", "words"),
    [
        (3, False, "gap, 3 records"),
        (3, True, "gap, about 3 records"),
        (None, True, "gap, an unknown number of records"),
    ],
)
def test_the_size_of_a_hole_is_said_as_it_is_known(
    caplog: pytest.LogCaptureFixture, *, estimate: int | None, is_rough: bool, words: str
) -> None:
    """Counted, estimated or unknown."""
    hole = Gap(source="s", place="", start=T0, end=T0, estimate=estimate, is_rough=is_rough, reason="crash")
    Telemetry().gap(hole)
    assert caplog.messages == [f"source s: {words} were not seen (crash)"]


def test_a_source_that_is_deaf_warns(caplog: pytest.LogCaptureFixture) -> None:
    """What should tell of the work is off: a warning; any other word of a source that is connected is none."""
    caplog.set_level(logging.INFO)
    Telemetry().source_connected("s", "task events are on")
    Telemetry().source_connected("s", "task events are off", is_deaf=True)
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]


@pytest.mark.parametrize(
    ("left", "words"),
    [({}, ": nothing, all that was decided is lost"), ({"alerts": 2, "silences": 1}, ": alerts 2, silences 1")],
)
def test_what_is_left_of_a_damaged_state_is_said(
    caplog: pytest.LogCaptureFixture, left: dict[str, int], words: str
) -> None:
    """How many rows of what were taken over, and that there were none where nothing could be read."""
    caplog.set_level("WARNING", "tasktrail")
    Telemetry().state_opened("d", "state.db.damaged-1", left)
    assert caplog.messages[-1].endswith(words)


HAPPENINGS = [
    ("source_connected", ("s", SECRET), "tasktrail_source_up", ("s",), 1.0),
    ("source_lost", ("s", SECRET, 1.5), "tasktrail_source_restarts", ("s",), 1.0),
    ("lagging", ("s", 3.0), "tasktrail_source_lag_seconds", ("s",), 3.0),
    ("rule_failed", ("g", "r", "many-to-many"), "tasktrail_rule_failures", ("g", "r"), 1.0),
    ("stalled", (0.25,), "tasktrail_loop_stall_seconds", (), 0.25),
    ("reloaded", (["f:1:1: wrong"],), "tasktrail_reload_success", (), 0.0),
    ("reloaded", ([],), "tasktrail_reload_success", (), 1.0),
    ("record_rejected", (rejected(),), "tasktrail_rejected", ("s", "not_json"), 1.0),
    ("sent", ("t", NOTE, 1, 0.25), "tasktrail_notification_seconds", ("t",), 0.25),
    (
        "retrying",
        ("t", NOTE, ChannelError(SECRET, retryable=True), 1.0),
        "tasktrail_notifications",
        ("t", "retried"),
        1.0,
    ),
    ("dropped", ("t", NOTE, "expired"), "tasktrail_notifications", ("t", "expired"), 1.0),
    ("broken", ("t", ChannelError(SECRET, retryable=False)), "tasktrail_target_broken", ("t",), 1.0),
    ("mended", ("t",), "tasktrail_target_broken", ("t",), 0.0),
]


@pytest.mark.parametrize(("happening", "arguments", "metric", "labels", "value"), HAPPENINGS)
def test_each_happening_is_counted_and_shows_no_secret(
    happening: str,
    arguments: tuple[object, ...],
    metric: str,
    labels: tuple[str, ...],
    value: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A happening moves its number, and what is logged of it has no password in it."""
    telemetry = Telemetry()
    with caplog.at_level(logging.DEBUG, "tasktrail"):
        getattr(telemetry, happening)(*arguments)
    assert telemetry.get(metric, labels) == value
    assert "hunter2" not in caplog.text


def test_what_repeats_is_logged_once(caplog) -> None:
    """Rejected records and failing rules are logged the first time of each kind, and counted every time."""
    telemetry = Telemetry()
    with caplog.at_level(logging.DEBUG, "tasktrail"):
        for _ in range(3):
            telemetry.record_rejected(rejected())
            telemetry.rule_failed("g", "r", "why")
        telemetry.record_rejected(rejected("internal_error", "Traceback: here"))
    assert len(caplog.records) == 3
    assert "Traceback: here" in caplog.text
    assert telemetry.get("tasktrail_rejected", ("s", "not_json")) == 3
    assert telemetry.get("tasktrail_rule_failures", ("g", "r")) == 3


def test_rejected_records_are_bounded() -> None:
    """The last ones are kept, however many come."""
    telemetry = Telemetry()
    for number in range(500):
        telemetry.record_rejected(rejected(trace=str(number)))
    assert [one.traceback for one in telemetry.rejected] == [str(number) for number in range(300, 500)]


def test_a_stall_is_the_longest() -> None:
    """A shorter step does not hide a longer one."""
    telemetry = Telemetry()
    telemetry.stalled(0.3)
    telemetry.stalled(0.1)
    assert telemetry.get("tasktrail_loop_stall_seconds") == 0.3


def test_sizes_are_as_they_are() -> None:
    """Trails held and evictions are shown as they stand, not added up."""
    telemetry = Telemetry()
    telemetry.sizes(5, {"age": 2})
    telemetry.sizes(4, {"age": 7})
    assert telemetry.get("tasktrail_trails") == 4
    assert telemetry.get("tasktrail_evictions", ("age",)) == 7


def test_missed_slots_are_said_once_and_counted(caplog) -> None:
    """A rule that is left out at slots is named in the log once for each reason, and counted for ever."""
    caplog.set_level("WARNING", "tasktrail")
    telemetry = Telemetry()
    telemetry.slots_missed("g", ["Slow"], "slow")
    telemetry.slots_missed("g", ["Slow"], "slow")
    telemetry.slots_missed("g", ["Slow", "Quick"], "standstill", 7)
    assert telemetry.get("tasktrail_rule_slots_missed", ("g", "Slow", "slow")) == 2
    assert telemetry.get("tasktrail_rule_slots_missed", ("g", "Quick", "standstill")) == 7
    assert [line.split(" left out")[0] for line in caplog.messages] == ["group g: Slow", "group g: Slow, Quick"]


def test_lines_for_people(caplog) -> None:
    """Sources, targets, alerts and the process say what happened to them."""
    telemetry = Telemetry()
    with caplog.at_level(logging.INFO, "tasktrail"):
        telemetry.source_seen("s", 0)
        telemetry.source_seen("s", 7)
        telemetry.source_ended("s")
        telemetry.target_understood("t", "webhook to host")
        telemetry.alert_turned("firing", (("alertname", "A"),))
        telemetry.said("stopped%s", "")
    assert [record.getMessage() for record in caplog.records] == [
        "source s: no event yet",
        "source s: 7 events seen",
        "source s: read to its end",
        "target t: webhook to host",
        "alert firing alertname=A",
        "stopped",
    ]
