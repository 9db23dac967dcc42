"""Timelines, traces and evidence: what people and alerts are shown."""

from __future__ import annotations

import msgspec

from tests.unit.trail.conftest import T


def failed(bench, at, task_id, error="ValueError", **fields):
    """A task that failed for good."""
    told = {"worker": "w", "attempt": 1}
    bench.stitch(
        bench.event("sent", at, task_id, caller="web", trace_id="f" * 32, **fields),
        bench.event("started", at + 1, task_id, **told),
        bench.event("failed", at + 2, task_id, error=error, error_message="password=hunter2 " + "x" * 900, **told),
    )


def test_the_timeline_as_json(bench):
    """It has the keys of the contract; times are Unix seconds."""
    failed(bench, 0, "a")
    bench.stitch(bench.event("sent", 1, "child", parent_id="a"))
    view = msgspec.to_builtins(bench.stitcher.reader.find("a"))
    assert view["attempts"] == [
        {
            "attempt": 1,
            "worker": "w",
            "started": T + 1,
            "ended": T + 2,
            "outcome": "failed",
            "error": "ValueError",
            "run_seconds": 1.0,
        }
    ]
    assert (view["task_id"], view["task"], view["queue"], view["state"]) == ("a", "pay", "q", "failed")
    assert [event["kind"] for event in view["events"]] == ["sent", "started", "failed"]
    assert (view["trace_id"], view["parent_id"], view["children"]) == ("f" * 32, "", ["child"])


def test_the_summary_counts_every_kind(bench):
    """A line of `replay --trails` has every kind, also those that did not happen."""
    failed(bench, 0, "a")
    summary = next(bench.stitcher.reader.trails()).summary()
    assert (summary["task"], summary["state"], summary["failed"], summary["retried"]) == ("pay", "failed", 1, 0)


def test_a_message_is_masked_and_cut(bench):
    """No secret of an error message is kept, and no more than 300 characters of it."""
    failed(bench, 0, "a")
    message = bench.stitcher.reader.find("a").error_message
    assert "hunter2" not in message
    assert len(message) == 300


def test_a_class_that_says_more_is_masked(bench):
    """What stands in the error class's place holds no secret and no address; it stays one class."""
    for n in range(3):
        failed(bench, n, f"a{n}", error=f"Refused: password=hunter{n} of ann@example.org")
    masked = "Refused: password=*** of ***"
    assert bench.stitcher.reader.find("a0").error == masked
    found = bench.stitcher.reader.evidence([0], ["failed"], T - 60)
    assert found.top_errors == ((masked, 3),)
    assert {one.error for one in found.offenders} == {masked}


def test_a_trace_joins_trails(bench):
    """By trace id, and by parent and root ids below those."""
    bench.stitch(
        bench.event("sent", 0, "root", trace_id="t1"),
        bench.event("sent", 1, "child", parent_id="root"),
        bench.event("sent", 2, "grandchild", parent_id="child", root_id="root"),
        bench.event("sent", 3, "stranger", trace_id="t2"),
        bench.event("received", 4, "late"),
        bench.event("sent", 3.5, "late", trace_id="t1"),
    )
    view = bench.stitcher.reader.trace("t1")
    assert [task.task_id for task in view.tasks] == ["root", "late", "child", "grandchild"]
    assert bench.stitcher.reader.trace("unknown") is None
    bench.expire(500)
    assert [task.task_id for task in bench.stitcher.reader.trace("t1").tasks] == ["root", "late", "child", "grandchild"]


def test_a_huge_trace_is_cut_and_others_are_whole(bench):
    """Sixty thousand trails of one trace are cut with a mark; another trace is complete."""
    for n in range(3_000):
        bench.stitch(bench.event("sent", 0, f"big{n}", trace_id="big"))
    bench.stitch(bench.event("sent", 0, "small", trace_id="small"))
    assert len(bench.stitcher.reader.trace("big").tasks) == 1_000
    assert len(bench.stitcher.reader.trace("small").tasks) == 1


def test_evidence_names_the_newest_offenders(bench):
    """Up to five tasks, newest first, with what is known of them, and the commonest error classes."""
    for n in range(8):
        failed(bench, n * 10, f"t{n}", error="ValueError" if n % 4 else "KeyError")
    found = bench.stitcher.reader.evidence([bench.rows.row("pay", "q", "s")], ["failed"], T - 1)
    assert [offender.task_id for offender in found.offenders] == ["t7", "t6", "t5", "t4", "t3"]
    first = found.offenders[0]
    assert (first.state, first.error, first.attempts, first.worker) == ("failed", "ValueError", 1, "w")
    assert (first.caller, first.trace_id, first.at) == ("web", "f" * 32, T + 72)
    assert found.top_errors == (("ValueError", 6), ("KeyError", 2))
    other = bench.stitcher.reader.evidence([bench.rows.row("other", "q", "s")], ["failed"], T)
    assert other.offenders == other.top_errors == ()


def test_evidence_of_forgotten_tasks_still_names_them(make_bench):
    """The id and the error class outlive the trail."""
    bench = make_bench(open_trails=1)
    bench.stitch(bench.event("retried", 0, "gone", error="KeyError"), bench.event("sent", 1, "next"))
    offender = bench.stitcher.reader.evidence([0], ["retried"], T - 1).offenders[0]
    assert (offender.task_id, offender.error, offender.state) == ("gone", "KeyError", "")


def test_evidence_of_latency_names_the_slowest(bench):
    """Longest first, whatever else ran in the same minute."""
    for n in range(50):
        told = {"worker": "w", "attempt": 1}
        bench.stitch(bench.event("succeeded", n / 10, f"t{n}", run_seconds=float(n * 7 % 50), **told))
    found = bench.stitcher.reader.evidence([0], ["run"], T - 1)
    runs = [bench.stitcher.reader.find(offender.task_id).attempts[0].run_seconds for offender in found.offenders]
    assert runs == [49.0, 48.0, 47.0, 46.0, 45.0]


def test_evidence_of_flight_names_the_oldest(bench):
    """The tasks that have been running for longest."""
    for n in range(8):
        bench.stitch(bench.event("started", n, f"t{n}"))
    bench.stitch(bench.event("succeeded", 9, "t0"))
    found = bench.stitcher.reader.evidence([0], ["flight_up"], T)
    assert [offender.task_id for offender in found.offenders] == ["t1", "t2", "t3", "t4", "t5"]


def test_what_is_told_late_stands_where_it_belongs(bench):
    """A repeated fact fills in the parent, which then has its child, and the error of the try that it ended."""
    bench.stitch(bench.event("sent", 0, "a"), bench.event("sent", 1, "child", attempt=1))
    for attempt in (1, 2):
        bench.stitch(
            bench.event("started", 2 * attempt, "child", attempt=attempt),
            bench.event("retried", 2 * attempt + 1, "child", attempt=attempt),
        )
    bench.stitch(
        bench.event("sent", 1, "child", attempt=1, parent_id="a"),
        bench.event("retried", 3, "child", attempt=1, error="KeyError"),
    )
    view = bench.stitcher.reader.find("child")
    assert (view.parent_id, bench.stitcher.reader.find("a").children) == ("a", ["child"])
    assert [attempt.error for attempt in view.attempts] == ["KeyError", ""]
