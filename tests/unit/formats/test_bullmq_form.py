"""BullMQ's form: what each word means, what hashes add, and what is malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.formats import FORMATS, Decoded
from collector.formats.bullmq import Decoder, life
from collector.formats.bullmq.job import error_of
from collector.formats.bullmq.keys import split, task_id
from collector.model.record import Batch

T0 = 1_795_970_000_000
TRACE = "0af7651916cd43dd8448eb211c80319c"
TYPE_ERROR = "TypeError: no `here`\nsecond line\n    at run (file:///srv/app/tasks.mjs:29:64)\n    at next"


def entries(*said: dict[str, str], at: int = 0, queue: str = "bull:mail", is_head: bool = True) -> Batch:
    """A live batch of entries, 10 ms apart from `at` ms on."""
    ids = [f"{T0 + at + 10 * number}-0" for number in range(len(said))]
    return Batch(
        source="s",
        place=f"{queue}:events",
        bodies=[b""] * len(said),
        receipts=ids,
        received_at=T0 / 1000 + 1000,
        times=[int(one[:-2]) / 1000 for one in ids],
        fields=list(said),
        tap="redis-stream",
        is_head=is_head,
    )


def hashes(*, after: int | None = None, queue: str = "bull:mail", **jobs: dict[str, Any] | bytes) -> Batch:
    """Hashes by job id (`j1`); `after`: they were read after the entry of that ms, None: polled at some time."""
    told = {} if after is None else {"after": f"{T0 + after}-0"}
    return Batch(
        source="s",
        place=f"{queue}:events",
        bodies=[job if isinstance(job, bytes) else json.dumps(job).encode() for job in jobs.values()],
        receipts=list(jobs),
        received_at=T0 / 1000 + 1000,
        times=[T0 / 1000] * len(jobs),
        tap="redis-key",
        about=[{"db": 0, "key": f"{queue}:{name[1:]}", "type": "hash", "pttl": -1, **told} for name in jobs],
    )


def word(event: str, job: str = "1", **more: str) -> dict[str, str]:
    """One entry."""
    return {"event": event, "jobId": job, **more}


def queued(job: str = "1") -> list[dict[str, str]]:
    """An ordinary add."""
    return [word("added", job, name="send"), word("waiting", job)]


def run(*batches: Batch, **options: Any) -> list[Decoded]:
    """What one decoder makes of batches."""
    decode = Decoder(**options)
    return [decode(batch) for batch in batches]


def told(*batches: Batch, **options: Any) -> list[tuple[str, int | None]]:
    """Kinds and attempts of all events."""
    return [(event.kind, event.attempt) for out in run(*batches, **options) for event in out.events]


ACTIVE = word("active", prev="waiting")
AGAIN = word("waiting", prev="active")
LATER = word("delayed", delay=str(T0 + 500))
DONE = word("completed", prev="active", returnvalue='{"ok":1}')
FAILED = word("failed", prev="active", failedReason="no")
EXHAUSTED = word("retries-exhausted", attemptsMade="1")


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ([*queued(), ACTIVE, DONE], [("sent", 1), ("started", 1), ("succeeded", 1)]),
        ([word("added", name="x"), LATER], [("sent", 1)]),
        ([word("added", name="x"), word("waiting-children")], [("sent", 1)]),
        (
            [*queued(), ACTIVE, LATER, word("waiting", prev="delayed"), ACTIVE, FAILED, EXHAUSTED],
            [("sent", 1), ("started", 1), ("retried", 1), ("started", 2), ("failed", 2)],
        ),
        ([*queued(), ACTIVE, AGAIN, ACTIVE], [("sent", 1), ("started", 1), ("retried", 1), ("started", 2)]),
        (
            [*queued(), ACTIVE, FAILED, word("waiting", prev="failed"), ACTIVE, DONE],
            [("sent", 1), ("started", 1), ("failed", 1), ("started", 2), ("succeeded", 2)],
        ),
        ([*queued(), word("removed", prev="wait")], [("sent", 1), ("revoked", None)]),
        ([*queued(), ACTIVE, DONE, word("removed", prev="completed")], [("sent", 1), ("started", 1), ("succeeded", 1)]),
        ([*queued(), word("duplicated"), word("deduplicated", deduplicationId="d")], [("sent", 1)]),
        ([*queued(), ACTIVE, word("progress", data="33")], [("sent", 1), ("started", 1)]),
        ([word("waiting")], [("sent", 1)]),
        ([DONE], [("succeeded", None)]),
        ([*queued(), ACTIVE, word("waiting-children", prev="active")], [("sent", 1), ("started", 1), ("requeued", 1)]),
        ([word("added", name="x"), LATER, word("delayed", delay=str(T0 + 900))], [("sent", 1)]),
    ],
)
def test_words(said, kinds):
    """Each way of a job through its queue is told by the facts that it means."""
    assert told(entries(*said)) == kinds


def test_every_entry_is_counted_once():
    """Events, rejects and what says nothing are together as many as there were records."""
    out = run(
        entries(*queued(), ACTIVE, AGAIN, word("stalled"), {"event": "drained"}, {"event": "mine", "n": "1"}),
        hashes(j1={"name": "send"}),
    )
    assert sum(len(one.events) + len(one.rejects) + one.ignored for one in out) == 8


def test_what_an_event_holds():
    """Names, times by the stream's ids, when a delayed job is due, and the reason of a failure."""
    (out,) = run(entries(word("added", name="send"), LATER, ACTIVE, FAILED, queue="{a:b}:eu:mail"))
    sent, started, failed = out.events
    assert (sent.task_id, sent.task, sent.queue) == ("mail:1", "send", "mail")
    assert (sent.time, sent.eta, started.time) == (T0 / 1000 + 0.01, T0 / 1000 + 0.5, T0 / 1000 + 0.02)
    assert (failed.error, failed.error_message) == (None, "no")
    assert out.sources == [1, 2, 3]


def test_a_millisecond_keeps_its_order():
    """Entries of one millisecond have times in their order."""
    batch = entries(*queued(), ACTIVE)
    batch.receipts = [f"{T0}-{number}" for number in (0, 1, 2)]
    (out,) = run(batch)
    assert out.events[0].time < out.events[1].time < T0 / 1000 + 0.001


# Stalls


def test_a_stall_is_another_start_of_the_attempt():
    """`waiting` and `stalled` are no retry, and the start that follows is held until it is known to run."""
    assert told(entries(*queued(), ACTIVE, AGAIN, word("stalled"), ACTIVE, DONE)) == [
        ("sent", 1),
        ("started", 1),
        ("started", 1),
        ("succeeded", 1),
    ]


@pytest.mark.parametrize(
    ("following", "kind"), [(word("stalled"), None), (ACTIVE, "retried"), (word("added", "2"), "retried")]
)
def test_a_batch_may_end_before_the_word_that_decides(following, kind):
    """What is last in a full batch is decided by the first entry of the next one of its queue."""
    first, others, second = run(
        entries(*queued(), ACTIVE, AGAIN, is_head=False),
        entries(*queued("9"), queue="bull:render", is_head=False),
        entries(following, at=1000, is_head=False),
    )
    assert [event.kind for event in first.events] == ["sent", "started"]
    assert [event.kind for event in others.events] == ["sent"]
    decided = [event for event in second.events if event.kind != "started"]
    assert [event.kind for event in decided] == [kind] * (kind is not None)
    assert all(event.time == T0 / 1000 + 0.03 for event in decided)


@pytest.mark.case("K13.1")
@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ([*queued(), ACTIVE, AGAIN, word("stalled")], "job stalled more than allowable limit"),
        (
            [word("added", name="x"), word("waiting-children"), word("waiting", prev="waiting-children")],
            "child bull:render:5 failed",
        ),
    ],
)
def test_a_failure_without_a_run_has_no_start(before, reason):
    """The start that only fails a job (stalled too often, a child failed) is none; any other one is."""
    unrun = told(entries(*before, ACTIVE, {**FAILED, "failedReason": reason}))
    ran = told(entries(*before, ACTIVE, {**FAILED, "failedReason": f"{reason}, they say"}))
    assert unrun == [*told(entries(*before)), ("failed", 1)]
    assert ran == [*told(entries(*before)), ("started", 1), ("failed", 1)]


def test_a_held_start_does_not_wait_for_ever():
    """A start that may be none is told with its own time once nothing ended it for two seconds."""
    stalled = entries(*queued(), ACTIVE, AGAIN, word("stalled"), ACTIVE)
    (first, soon, later) = run(stalled, entries(*queued("2"), at=1000), entries(*queued("3"), at=2100))
    assert [event.kind for event in first.events] == ["sent", "started"]
    assert [event.task_id for event in soon.events] == ["mail:2"]
    assert [(event.kind, event.task_id) for event in later.events] == [("sent", "mail:3"), ("started", "mail:1")]
    assert later.events[1].time == T0 / 1000 + 0.05


def test_a_hash_lets_a_start_go_at_once():
    """A live hash that knows of no failure to come tells a start after a stall as it comes."""
    stalled = entries(*queued(), ACTIVE, AGAIN, word("stalled"), ACTIVE)
    assert told(hashes(after=50, j1={"ats": "2", "pb": "w2"}), stalled)[-1] == ("started", 1)
    assert len(told(hashes(after=50, j1={"ats": "2", "pb": "w2", "defa": "stalled"}), stalled)) == 2


# Hashes


def test_a_live_hash_completes_the_events():
    """Worker, error, trace, parent and run time are on the event when the hash was read after its entry."""
    job = {
        "name": "send",
        "opts": json.dumps({"attempts": 3, "tm": json.dumps({"traceparent": f"00-{TRACE}-b7ad6b7169203331-03"})}),
        "parentKey": "bull:orders:17",
        "ats": "1",
        "atm": "1",
        "pb": "w1",
        "processedOn": str(T0),
        "finishedOn": str(T0 + 250),
        "stacktrace": json.dumps([TYPE_ERROR]),
        "failedReason": "no",
    }
    _, out = run(hashes(after=30, j1=job), entries(*queued(), ACTIVE, FAILED))
    sent, started, failed = out.events
    assert {(event.trace_id, event.span_id, event.parent_id) for event in out.events} == {
        (TRACE, "b7ad6b7169203331", "orders:17")
    }
    assert (sent.worker, started.worker, failed.worker) == (None, "w1", "w1")
    assert (failed.error, failed.error_message, failed.run_seconds) == ("TypeError", "no", 0.25)


@pytest.mark.parametrize("give_back", [LATER, AGAIN])
def test_a_move_is_told_from_a_retry(give_back):
    """Where the hash counted no attempt, the job was only given back; where it did, it failed and is tried again."""
    said = entries(*queued(), ACTIVE, give_back)
    moved = {"name": "send", "ats": "1", "delay": "400"}
    failed = {**moved, "atm": "1", "stacktrace": json.dumps([TYPE_ERROR])}
    assert told(hashes(after=30, j1=moved), said)[-1] == ("requeued", 1)
    _, out = run(hashes(after=30, j1=failed), said)
    retried = out.events[-1]
    assert (retried.kind, retried.error, retried.error_message) == ("retried", "TypeError", "no `here`\nsecond line")


def test_a_hash_of_before_decides_nothing():
    """A hash that was read before an entry, or at some time, may not know of it: that looks like a retry."""
    said = entries(*queued(), ACTIVE, LATER)
    moved = {"name": "send", "ats": "1"}
    assert told(hashes(after=20, j1=moved), said)[-1] == ("retried", 1)
    assert told(hashes(j1=moved), said)[-1] == ("retried", 1)


def test_errors_of_several_attempts():
    """In a backlog each failure has the error of its own attempt, from the one hash there is."""
    said = entries(*queued(), ACTIVE, LATER, ACTIVE, AGAIN, ACTIVE, DONE)
    traces = json.dumps(["RangeError: 1\n    at x", "TypeError\n    at y"])
    _, out = run(hashes(after=70, j1={"ats": "3", "atm": "3", "finishedOn": str(T0), "stacktrace": traces}), said)
    assert [event.error for event in out.events if event.kind == "retried"] == ["RangeError", "TypeError"]


def test_an_id_that_is_used_again_begins_anew():
    """After its removal a job id is another job's: attempts begin at 1, and the hash is of the latest only."""
    life_of_one = [*queued(), ACTIVE, LATER, ACTIVE, DONE]
    job = {"ats": "1", "atm": "1", "pb": "w2", "finishedOn": str(T0), "processedOn": str(T0), "parentKey": "bull:o:1"}
    _, out = run(hashes(after=90, j1=job), entries(*life_of_one, *queued(), ACTIVE, DONE))
    assert [event.attempt for event in out.events if event.kind == "started"] == [1, 2, 1]
    assert [event.worker for event in out.events if event.kind == "started"] == [None, None, "w2"]
    assert [event.parent_id for event in out.events if event.kind == "sent"] == [None, "o:1"]


def test_whoever_comes_late_learns_attempts_from_the_hash():
    """Of a job whose beginning was not seen the hash tells how many attempts there were; without it none is named."""
    job = {"name": "send", "ats": "4", "atm": "2", "pb": "w1", "stacktrace": json.dumps([TYPE_ERROR] * 2)}
    assert told(hashes(after=0, j1=job), entries(ACTIVE)) == [("started", 3)]
    assert told(entries(ACTIVE, LATER)) == [("started", None), ("retried", None)]


def test_a_polled_hash_completes_afterwards():
    """What a later poll knows is told by the same facts once more: same kind, attempt and time."""
    job = {
        "name": "send",
        "ats": "1",
        "atm": "1",
        "pb": "w1",
        "stacktrace": json.dumps([TYPE_ERROR]),
        "finishedOn": "1",
    }
    first, second = run(entries(*queued(), ACTIVE, FAILED), hashes(j1=job))
    facts = {(event.kind, event.attempt, event.time) for event in first.events}
    assert {(event.kind, event.attempt, event.time) for event in second.events} <= facts
    assert [(event.kind, event.worker, event.error) for event in second.events] == [
        ("started", "w1", None),
        ("failed", "w1", "TypeError"),
    ]


def test_a_polled_hash_may_be_ahead_of_the_stream():
    """A hash that knows more than the stream so far waits for it."""
    job = {"name": "send", "ats": "1", "atm": "1", "pb": "w1", "finishedOn": "1"}
    _, out = run(hashes(j1=job), entries(*queued(), ACTIVE, DONE))
    assert [(event.kind, event.worker) for event in out.events] == [
        ("sent", None),
        ("started", None),
        ("succeeded", None),
        ("started", "w1"),
        ("succeeded", "w1"),
    ]


def test_flows_have_their_root_where_all_parents_are_known():
    """A grandchild names the head of its flow, once the hashes on the way up were seen."""
    batches = [
        hashes(after=10, jtop={"name": "top"}, jmid={"name": "mid", "parentKey": "bull:mail:top"}),
        entries(*queued("top"), *queued("mid")),
        hashes(after=90, jleaf={"name": "leaf", "parentKey": "bull:mail:mid"}),
        entries(*queued("leaf"), at=80),
    ]
    assert run(*batches)[3].events[0].root_id is None  # the middle one's hash was read before it was added
    batches[0] = hashes(after=30, jtop={"name": "top"}, jmid={"name": "mid", "parentKey": "bull:mail:top"})
    leaf = run(*batches)[3].events[0]
    assert (leaf.parent_id, leaf.root_id) == ("mail:mid", "mail:top")


def test_failed_jobs_as_dead_letters():
    """With the option a job that failed for good is a dead letter too; without it it is not."""
    said = entries(*queued(), ACTIVE, FAILED, EXHAUSTED)
    assert told(said, failed_is_dead_letter=True)[-2:] == [("failed", 1), ("dead_lettered", 1)]
    assert told(said)[-1] == ("failed", 1)


# Bounds and malformed forms


def test_what_is_remembered_is_bounded(monkeypatch):
    """Of any number of open jobs no more are kept than two generations hold, and a forgotten one goes on."""
    monkeypatch.setattr(life, "MOST_LIVES", 10)
    decode = Decoder()
    for number in range(100):
        decode(entries(*queued(str(number))))
    assert len(decode._steps.memory._young) + len(decode._steps.memory._old) <= 20
    assert [event.attempt for event in decode(entries(word("active", "3"))).events] == [None]


def test_old_hashes_make_room_for_a_whole_batch(monkeypatch):
    """However many hashes were handed over before, those of a batch complete all of its events."""
    monkeypatch.setattr("collector.formats.bullmq.decode._MOST_HASHES", 10)
    decode = Decoder()
    for start in range(0, 70, 7):
        jobs = [str(number) for number in range(start, start + 7)]
        decode(hashes(after=1000, **{f"j{job}": {"name": "send", "ats": "1", "pb": "w"} for job in jobs}))
        out = decode(entries(*[word("active", job) for job in jobs]))
        assert [event.worker for event in out.events] == ["w"] * 7
    assert len(decode._ahead) <= 20


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (entries({"jobId": "1"}), "missing_kind"),
        (entries({"event": "", "jobId": "1"}), "missing_kind"),
        (entries({"event": "active"}), "missing_id"),
        (entries({"event": "progress"}), "missing_id"),
        (entries(word("active", "x" * 1000)), "bad_id"),
        (entries(*queued(), ACTIVE, word("delayed", delay="soon")), "bad_time"),
        (entries(word("added", name="x"), word("delayed", delay="12")), "bad_time"),
        (hashes(j1=b"{"), "not_json"),
        (hashes(j1=b"[" * 20_000), "not_an_object"),
        (hashes(j1=b'{"name":' + b"[" * 20_000), "too_deep"),
        (hashes(j1=b'{"name":"\xff"}'), "not_utf8"),
        (hashes(j1={"opts": "{"}), "bad_field"),
        (hashes(j1={"stacktrace": "[1]"}), "bad_field"),
        (hashes(j1={"atm": "many"}), "bad_field"),
        (hashes(j1={"finishedOn": {"b64": "/w=="}}), "bad_field"),
    ],
)
def test_malformed_records_are_counted_by_reason(batch, reason):
    """What cannot be read is one reject with its reason, and the next job is read as ever."""
    decode = Decoder()
    assert [reject.reason for reject in decode(batch).rejects] == [reason]
    assert [event.kind for event in decode(entries(*queued("9"), at=5000)).events] == ["sent"]


def test_made_up_ids_are_malformed():
    """An entry whose id is no time has none."""
    batch = entries(*queued(), ACTIVE)
    batch.receipts = ["5-1", f"{T0}-x", f"{T0}-2"]
    (out,) = run(batch)
    assert [reject.reason for reject in out.rejects] == ["bad_time", "bad_time"]
    assert [event.kind for event in out.events] == ["started"]


def test_long_texts_are_cut():
    """A name and a reason are no longer than an event may hold."""
    (out,) = run(entries(word("added", name="n" * 5000), word("waiting"), {**FAILED, "failedReason": "r" * 5000}))
    assert (len(out.events[0].task), len(out.events[1].error_message)) == (1000, 1000)


# Keys, errors, recognition


@pytest.mark.parametrize(
    ("base", "parts"),
    [
        ("bull:mail", ("bull", "mail")),
        ("{hosp}:mail", ("{hosp}", "mail")),
        ("{a:b}:mail", ("{a:b}", "mail")),
        ("{a:b}:eu:mail", ("{a:b}:eu", "mail")),
        ("acme:eu:mail", ("acme:eu", "mail")),
        ("bull:mail:eu", ("bull", "mail:eu")),
        ("shop{1}:mail", ("shop{1}", "mail")),
        ("nothing", ("nothing", "")),
        ("{open:mail", ("{open", "mail")),
    ],
)
def test_prefix_and_queue(base, parts):
    """A queue's name has no colon, a prefix may have some; but for the usual one, behind which all is the queue's."""
    assert split(base) == parts


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("bull:mail:1", "mail:1"),
        ("bull:mail:eu:1", "mail:eu:1"),
        ("acme:eu:mail:1", "mail:1"),
        ("{a:b}:mail:1", "mail:1"),
        ("acme:mail:repeat:x:1790000000000", "mail:repeat:x:1790000000000"),
        ("mail:1", "mail:1"),
        ("nothing", ""),
    ],
)
def test_the_task_of_a_jobs_key(key, expected):
    """Queue and job id, whatever prefix is before them."""
    assert task_id(key) == expected


def test_a_known_prefix_may_have_colons():
    """A prefix that is configured is taken off as it is."""
    assert split("my:app:mail", "my:app") == ("my:app", "mail")
    assert task_id("my:app:mail:repeat:x:1", "my:app") == "mail:repeat:x:1"


@pytest.mark.parametrize(
    ("trace", "error"),
    [
        (TYPE_ERROR, ("TypeError", "no `here`\nsecond line")),
        ("Error\n    at x", ("Error", None)),
        ("Error [ERR_SOCKET]: gone: away\n    at x", ("Error", "gone: away")),
        ("AggregateError: ", ("AggregateError", None)),
        ("my.own.Error_1: a", ("my.own.Error_1", "a")),
        ("just words", (None, "just words")),
        ("", (None, None)),
    ],
)
def test_errors_of_stack_traces(trace, error):
    """Class and message are before the first frame; what has no class has none."""
    assert error_of(trace) == error


@pytest.mark.parametrize(
    ("tap", "about", "body", "is_mine"),
    [
        ("redis-stream", {"stream": "bull:mail:events", "fields": {"event": "active", "jobId": "1"}}, b"", True),
        ("redis-stream", {"stream": "bull:mail:events", "fields": {"event": "drained"}}, b"", True),
        ("redis-stream", {"stream": "shop:events", "fields": {"event": '{"kind":"sent"}'}}, b"", False),
        ("redis-stream", {"stream": "bull:mail", "fields": {"event": "active", "jobId": "1"}}, b"", False),
        ("redis-key", {"key": "bull:mail:1", "type": "hash"}, b'{"name":"a","opts":"{}","timestamp":"1"}', True),
        ("redis-key", {"key": "bull:mail:meta", "type": "hash"}, b'{"opts.maxLenEvents":"10000"}', False),
        ("redis-key", {"key": "rq:job:1", "type": "hash"}, b'{"origin":"a","timeout":"1"}', False),
        ("redis-pubsub", {"channel": "__keyspace@0__:bull:mail:1"}, b"hset", False),
        ("native", {}, b"{}", False),
    ],
)
def test_it_takes_only_what_is_its_own(tap, about, body, is_mine):
    """Of a capture's records these are BullMQ's, and no others."""
    assert FORMATS["bullmq"].is_mine(tap, about, body) is is_mine
