"""The lines of evidence besides tasks and errors."""

from __future__ import annotations

import msgspec

from collector.model.alert import Evidence, Offender, Share
from collector.routing.evidence_text import evidence_lines, sparkline
from collector.routing.message import Wording, compose

FULL = Evidence(
    workers=(("w1", 9), ("w2", 1)),
    queues=(("fast", 6), ("slow", 4)),
    callers=(("web", 10),),
    changed=(Share(what="Timeout", count=8, of=10, count_before=1, of_before=20),),
    slots=(0.0, 1.0, 4.0),
    slot_seconds=15.0,
    slots_of="task_failed_total",
    open_dead_letters=3,
    fired_24h=4,
)


def test_all_of_it(alert):
    """What changed, who is in it, what is open and how it went stand in one line each."""
    one = alert("firing", 1.0)
    one.evidence = FULL
    assert evidence_lines([one], ()) == [
        "",
        "changed: Timeout is 80% of 10, was 5% of 20 before",
        "workers of the latest 10: w1 9, w2 1",
        "queues of the latest 10: fast 6, slow 4",
        "callers of the latest 10: web 10",
        "dead letters still open: 3 (tasktrail dead-letters list)",
        "task_failed_total, every 15 s until now: \u2581\u2583\u2588 (at most 4)",
    ]


def test_what_the_head_says_is_not_said_again(alert):
    """The queue is in the head where the alerts share it; nothing is said of what is not known."""
    one = alert("firing", 1.0)
    one.evidence = msgspec.structs.replace(FULL, changed=(), slots=(), open_dead_letters=None, workers=(), callers=())
    assert evidence_lines([one], (("queue", "fast"),)) == []


def test_episode(alert):
    """A message says between which values the alert moved, and how often it fired in a day."""
    one = alert("firing", 1.0)
    one.value, one.lowest, one.highest, one.evidence = 5.0, 2.0, 17.0, FULL
    _, text = compose([one], Wording())
    assert "value 5 (from 2 to 17 so far), fired 4 times in 24 h" in text


def test_what_it_was_called_with(alert):
    """Where that is shown it is a line of its task's own, as short as any."""
    one = alert("firing", 1.0)
    one.evidence = Evidence(offenders=(Offender(task_id="x", arguments="(1,\n'a')"), Offender(task_id="y")))
    assert evidence_lines([one], ())[2:] == ["- x: ", "  called with (1, 'a')", "- y: "]
    one.evidence = Evidence(offenders=(Offender(task_id="x", arguments="x" * 9999),))
    assert max(map(len, evidence_lines([one], ()))) < 300


def test_sparkline():
    """One block a value; the least that is not 0 differs from 0."""
    assert sparkline([0, 1, 100]) == "\u2581\u2582\u2588"
    assert sparkline([0, 0]) == "\u2581\u2581"
    assert sparkline([-2, 0, 2], -2) == "\u2581\u2585\u2588"


def test_how_the_value_went(alert):
    """The value's own way stands before the events that it is made of, with its ends."""
    one = alert("firing", 1.0)
    one.evidence = msgspec.structs.replace(FULL, values=(0.1, 0.2, 0.4))
    lines = evidence_lines([one], ())
    (line,) = (line for line in lines if line.startswith("its value"))
    assert line == "its value at the last evaluations: \u2583\u2585\u2588 (from 0.1 to 0.4)"
    assert lines.index(line) < next(n for n, other in enumerate(lines) if other.startswith("task_failed_total"))
