"""What the formats of arq, taskiq, Huey and streaq promise beyond the captures: hostile values, what is told when."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.formats import FORMATS, REASONS, arq, huey, streaq, taskiq
from tests.unit.formats.test_every_format import _assert_regular
from tests.unit.formats.test_redis_frameworks import T0, batch, key, told

NAMES = ("arq", "taskiq", "huey", "streaq")
MILLIS = int(T0 * 1000)


def packed(value):
    """A pickle as a key's content holds it."""
    return {"b64": base64.b64encode(value if isinstance(value, bytes) else pickle.dumps(value)).decode()}


def job(**more):
    """Arq's job `a`."""
    return key("arq:job:a", packed({"t": None, "f": "tasks.add", "a": (), "k": {}, "et": MILLIS} | more), "string")


def result(**more):
    """The result of arq's job `a`."""
    fields = {
        "t": 1,
        "f": "tasks.add",
        "et": MILLIS,
        "s": True,
        "r": None,
        "st": MILLIS + 5,
        "ft": MILLIS + 9,
        "q": "q",
    }
    return key("arq:result:a", packed(fields | more), "string")


def note(name, command):
    """A keyspace notification."""
    return {"channel": f"__keyspace@3__:{name}", "pattern": "*"}, command.encode()


def entry(data, entry_id="1790000000000-0"):
    """An entry of taskiq's stream `jobs`."""
    text = data if isinstance(data, str) else json.dumps(data)
    return {"stream": "jobs", "id": entry_id, "fields": {"data": text}}, b""


def message(**more):
    """Taskiq's message of the task `a`."""
    return {"task_id": "a", "task_name": "tasks.add", "labels": {}, "args": [], "kwargs": {}} | more


def outcome(name="a", **more):
    """A stored result of taskiq's."""
    fields = {"is_err": False, "log": None, "return_value": 1, "execution_time": 0.5, "labels": {}, "error": None}
    return key(name, packed(fields | more), "string")


class Bomb:
    """What a pickle would do."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


_TEXTS = st.text(max_size=12) | st.sampled_from(["a", "0", "-1", "9" * 40, "1e999", "nan", "["])
_SCALARS = _TEXTS | st.integers() | st.none() | st.booleans() | st.floats()
_FIELD_NAMES = st.sampled_from(
    [
        *("t", "f", "et", "s", "r", "st", "ft", "q", "w", "ct", "task_id", "task_name", "labels", "_retries", "is_err"),
        *("return_value", "error", "exc_type", "exc_message", "execution_time", "retries", "traceback", "a", "r:a"),
    ]
)
_DICTS = st.recursive(
    st.dictionaries(_FIELD_NAMES, _SCALARS, max_size=10),
    lambda inner: st.dictionaries(_FIELD_NAMES, inner | _SCALARS | st.lists(_SCALARS, max_size=3), max_size=10),
    max_leaves=4,
)
_GOOD = st.sampled_from([job()[1], result()[1], outcome()[1], json.dumps(message()), "1", "2", "3"])
_CONTENTS = (
    _GOOD
    | _SCALARS.filter(lambda one: not isinstance(one, float))
    | (_DICTS | _SCALARS).map(packed)
    | st.binary(max_size=30).map(packed)
    | st.dictionaries(_TEXTS, (_DICTS | _SCALARS).map(packed), max_size=3)
    | st.lists(st.tuples(_TEXTS | _DICTS.map(packed), st.floats(allow_nan=False, allow_infinity=False)), max_size=3)
    | st.lists(_DICTS.map(packed) | _TEXTS, max_size=3)
)
_BODIES = (
    _CONTENTS.map(lambda thing: json.dumps(thing).encode())
    | (_DICTS.map(pickle.dumps) | st.binary(max_size=30))
    | st.sampled_from([b"set", b"del", b"incrby", b"expired", b"sadd", b"null", b"[" * 5000])
)
_PLACES = st.sampled_from(
    [
        *("arq:job:a", "arq:in-progress:a", "arq:retry:a", "arq:result:a", "arq:queue", "arq:abort", "other", "", "a"),
        *("jobs", "kept:a", "huey.redis.q", "huey.schedule.q", "huey.results.q", "streaq:q:channels:a"),
        *("streaq:q:task:data:a", "streaq:q:task:retry:a", "streaq:q:task:results:a", "streaq:q:index:running"),
        *("streaq:q:queues:delayed:x", "streaq:q:queues:x", "streaq:q:health:w", "__keyspace@0__:arq:in-progress:a"),
        *(
            "__keyspace@0__:arq:retry:a",
            "__keyspace@0__:streaq:q:task:retry:a",
            "__keyspace@0__:streaq:q:index:running",
        ),
    ]
)
_ABOUTS = st.builds(
    lambda place, kind, fields, pttl: {
        "key": place, "channel": place, "stream": place, "type": kind, "fields": fields, "pttl": pttl, "id": "1-0",
    },
    _PLACES,
    st.sampled_from(["hash", "string", "zset", "set", "list", "stream", "none", 7]),
    st.dictionaries(st.sampled_from(["data", "task_id"]), _TEXTS | _DICTS.map(str), max_size=2) | _SCALARS,
    st.integers() | st.none(),
)  # fmt: skip
_BATCHES = st.lists(
    st.tuples(
        st.sampled_from(["redis-key", "redis-pubsub", "redis-stream"]),
        st.lists(st.tuples(_ABOUTS, _BODIES), max_size=4),
        st.floats(T0, T0 + 100),
    ),
    max_size=6,
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300, deadline=None)
@given(batches=_BATCHES)
def test_hostile_records_are_counted_by_reason(name, batches):
    """Whatever keys and channels hold, nothing raises, every reject has a known reason, every event is regular."""
    decode = FORMATS[name].new()
    for tap, records, at in batches:
        out = decode(batch(*records, tap=tap, at=at))
        assert {reject.reason for reject in out.rejects} <= set(REASONS)
        assert len(out.sources) == len(out.events)
        assert out.sources == sorted(out.sources)
        for event in out.events:
            _assert_regular(event)
        for about, body in records:
            FORMATS[name].is_mine(tap, about, body)


@pytest.mark.parametrize(
    ("new", "record", "tap", "reason"),
    [
        (arq.Decoder, key("arq:result:a", {"b64": "%"}, "string"), "redis-key", "bad_field"),
        (arq.Decoder, key("arq:result:a", packed(b"no pickle"), "string"), "redis-key", "not_pickle"),
        (arq.Decoder, key("arq:job:a", packed([1]), "string"), "redis-key", "not_an_object"),
        (arq.Decoder, key("arq:job:a", b"[" * 20_000, "string"), "redis-key", "too_deep"),
        (arq.Decoder, result(st="soon"), "redis-key", "bad_time"),
        (arq.Decoder, result(t=-1), "redis-key", "bad_field"),
        (taskiq.Decoder, entry("{"), "redis-stream", "not_json"),
        (taskiq.Decoder, entry(message(task_id=7)), "redis-stream", "bad_field"),
        (taskiq.Decoder, entry(message(task_id="")), "redis-stream", "missing_id"),
        (taskiq.Decoder, entry(message(labels={"_retries": "many"})), "redis-stream", "bad_field"),
        (taskiq.Decoder, outcome(labels={"_retries": -4}), "redis-key", "bad_field"),
        (huey.Decoder, key("huey.redis.q", [packed("a text")], "list"), "redis-key", "bad_field"),
        (huey.Decoder, key("huey.results.q", {"a": packed(b"\x80")}), "redis-key", "not_pickle"),
        (streaq.Decoder, ({"channel": "streaq:q:channels:a"}, b"\xff" * 9), "redis-pubsub", "not_pickle"),
        (streaq.Decoder, ({"stream": "streaq:q:queues:x", "fields": {}}, b""), "redis-stream", "missing_id"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(new, record, tap, reason):
    """A record that cannot be read has its reason, and tells nothing."""
    out = new()(batch(record, tap=tap))
    assert ([reject.reason for reject in out.rejects], out.events) == ([reason], [])


@pytest.mark.parametrize("name", NAMES)
def test_pickles_are_not_executed(name, tmp_path):
    """A value that would do something when it is unpickled does nothing, and others behind it are told."""
    bomb, path = pickle.dumps({"f": Bomb(str(tmp_path / "boom"))}), tmp_path / "boom"
    records = {
        "arq": [key("arq:result:b", packed(bomb), "string"), result()],
        "taskiq": [key("kept:b", packed(bomb), "string"), outcome()],
        "huey": [key("huey.results.q", {"b": packed(bomb), "a": packed("fine")})],
        "streaq": [key("streaq:q:task:results:b", packed(bomb), "string"), key("streaq:q:health:w", '"w"', "string")],
    }
    decode = FORMATS[name].new()
    events = [*decode(batch(*records[name])).events, *decode(batch(at=T0 + 60)).events]
    assert not path.exists()
    assert events


def test_one_bad_member_leaves_the_others():
    """In Huey's collections each member is read by itself."""
    fields = {"a": packed("fine"), "b": packed(b"\x80\x05"), "c": packed("good"), "rt:tasks": packed((None, False))}
    out = huey.Decoder()(batch(key("huey.results.q", fields)))
    assert {event.task_id for event in out.events} == {"a", "c"}
    assert [reject.reason for reject in out.rejects] == ["not_pickle"]


# arq


def test_a_quick_job_is_told_by_its_result():
    """What no poll has seen has its name, times and outcome all the same, once."""
    decode = arq.Decoder()
    out = decode(batch(result()))
    assert told(out) == [("sent", None), ("started", 1), ("succeeded", 1)]
    assert [event.time for event in out.events] == [T0, T0 + 0.005, T0 + 0.009]
    assert {(event.task, event.queue) for event in out.events} == {("tasks.add", "q")}
    assert decode(batch(result(), key("arq:retry:a", "1", "string"), at=T0 + 60)).events == []


def test_a_notification_that_is_behind_the_result_is_no_other_try():
    """On a busy machine a job may be read to its end before it is heard that it began: it ran once."""
    decode = arq.Decoder()
    assert told(decode(batch(result()))) == [("sent", None), ("started", 1), ("succeeded", 1)]
    late = [note("arq:in-progress:a", "set"), note("arq:in-progress:a", "del"), note("arq:result:a", "set")]
    assert told(decode(batch(*late, at=T0 + 4, tap="redis-pubsub"))) == []
    assert told(decode(batch(at=T0 + 60))) == []


def test_notifications_that_are_behind_the_end_open_no_other_life():
    """All that was heard too late was before it: that it was put, and each try. Used again, it is read again."""
    decode = arq.Decoder()
    ends = [("sent", None), ("started", 1), ("retried", 1), ("started", 2), ("succeeded", 2)]
    assert told(decode(batch(result(t=2)))) == ends
    put, tried = note("arq:job:a", "set"), [note("arq:in-progress:a", "set"), note("arq:in-progress:a", "del")]
    assert told(decode(batch(put, *tried, *tried, at=T0 + 4, tap="redis-pubsub"))) == []
    assert told(decode(batch(at=T0 + 60))) == []
    decode(batch(put, *tried[:1], at=T0 + 61, tap="redis-pubsub"))
    assert told(decode(batch(job(et=MILLIS + 61_000), at=T0 + 61.1))) == [("sent", None)]
    assert told(decode(batch(at=T0 + 70))) == [("started", 1)]


@pytest.mark.parametrize("text", ["max 3 retries exceeded", "function 'f' not found", "job expired"])
def test_a_job_that_arq_gives_up_ran_no_more(text):
    """Of a result that says so the last try is none; the one before is the one that failed."""
    refused = b"carq.worker\nJobExecutionFailed\n(V" + text.encode() + b"\ntR."
    assert told(arq.Decoder()(batch(key("arq:result:a", packed(_result_with(refused, t=3)), "string")))) == [
        ("sent", None), ("started", 1), ("retried", 1), ("started", 2), ("failed", 2),
    ]  # fmt: skip
    assert told(arq.Decoder()(batch(key("arq:result:a", packed(_result_with(refused, t=1)), "string")))) == [
        ("sent", None),
        ("failed", None),
    ]


def _result_with(raised, **more):
    """A result whose `r` is that pickle."""
    fields = {"t": 1, "f": "tasks.add", "et": MILLIS, "s": False, "st": MILLIS, "ft": MILLIS + 1, "q": "q"} | more
    return pickle.dumps(fields, 0)[:-1] + b"(Vr\n" + raised[:-1] + b"u."


def test_a_retry_is_told_when_the_next_try_runs():
    """That a try which stopped is tried again is certain by what comes next, or when that is long due."""
    decode = arq.Decoder()
    begun = [note("arq:in-progress:a", "set"), note("arq:retry:a", "incrby")]
    stopped = note("arq:in-progress:a", "del")
    assert told(decode(batch(job()))) == [("sent", None)]
    assert told(decode(batch(*begun, stopped, tap="redis-pubsub", at=T0 + 1))) == [("started", 1)]
    assert told(decode(batch(*begun, stopped, tap="redis-pubsub", at=T0 + 2))) == [("retried", 1), ("started", 2)]
    assert told(decode(batch(at=T0 + 30))) == [("retried", 2)]


def test_a_worker_that_died_is_no_retry():
    """Where the sign of a running job went by itself, its try was given back; by notification or by its time."""
    decode = arq.Decoder()
    sign = key("arq:in-progress:a", "1", "string")
    sign[0]["pttl"] = 4000
    gone = key("arq:in-progress:a", None, "none")
    assert told(decode(batch(job(), sign))) == [("sent", None), ("started", 1)]
    assert told(decode(batch(gone, at=T0 + 4.1))) == [("requeued", 1)]
    assert told(decode(batch(key("arq:retry:a", "2", "string"), at=T0 + 5))) == []
    assert told(decode(batch(at=T0 + 6))) == [("started", 2)]


def test_a_job_that_had_all_its_tries_is_given_up_and_not_tried_once_more():
    """A look that finds it while it is given up sees the counter of one more try, and a sign that a worker has it."""
    decode = arq.Decoder()
    sign = key("arq:in-progress:a", "1", "string")
    sign[0]["pttl"] = 4000
    decode(batch(job(), key("arq:retry:a", "1", "string"), sign))
    assert told(decode(batch(key("arq:retry:a", "2", "string"), sign, at=T0 + 1))) == []
    refused = key("arq:result:a", packed(_result_with(b"carq.worker\nJobExecutionFailed\n(Vmax\ntR.", t=2)), "string")
    assert told(decode(batch(refused, at=T0 + 1.1))) == [("failed", 1)]


def test_an_id_that_is_used_again_begins_again():
    """A job with a later time of enqueuing is another one."""
    decode = arq.Decoder()
    decode(batch(result()))
    later = {"et": MILLIS + 60_000, "st": MILLIS + 60_005, "ft": MILLIS + 60_009}
    assert told(decode(batch(result(**later), at=T0 + 61))) == [("sent", None), ("started", 1), ("succeeded", 1)]
    assert told(decode(batch(result(), at=T0 + 62))) == []


# taskiq


def test_a_result_waits_for_the_name():
    """A result that is read before its entry is told with the task's name; one without an entry, a little later."""
    decode = taskiq.Decoder()
    assert told(decode(batch(outcome("kept:a"), outcome("kept:b")))) == []
    out = decode(batch(entry(message()), tap="redis-stream"))
    assert told(out) == [("sent", None), ("started", 1), ("succeeded", 1)]
    assert {event.task for event in out.events} == {"tasks.add"}
    assert told(decode(batch(at=T0 + 10))) == [("started", 1), ("succeeded", 1)]


def test_results_of_any_serializer_that_is_text_are_read():
    """JSON does as a pickle does, and under no prefix."""
    decode = taskiq.Decoder()
    decode(batch(entry(message()), tap="redis-stream"))
    error = {"exc_type": "KeyError", "exc_message": ["missing"]}
    text = json.dumps({"is_err": True, "return_value": None, "execution_time": 0.5, "labels": {}, "error": error})
    events = decode(batch(key("a", json.dumps(text).encode(), "string"))).events
    assert [(event.kind, event.error, event.error_message) for event in events[1:]] == [
        ("failed", "KeyError", "missing")
    ]


def test_the_trace_is_that_of_the_label():
    """`traceparent` among the labels is the trace; what is none is none."""
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    for told_as, trace in ((parent, "a" * 32), ("nonsense", None), (7, None)):
        out = taskiq.Decoder()(batch(entry(message(labels={"traceparent": told_as})), tap="redis-stream"))
        assert [event.trace_id for event in out.events] == [trace]


# Huey


def test_what_was_stored_before_is_not_told():
    """Results of no known time, from before anybody looked, are no news; those that come later are."""
    decode = huey.Decoder()
    about, old = key("huey.results.q", {"a": packed("fine")})
    assert decode(batch(({**about, "before": True}, old))).events == []
    new = {"a": packed("fine"), "b": packed("good")}
    assert {event.task_id for event in decode(batch(key("huey.results.q", new))).events} == {"b"}


# streaq


@pytest.mark.parametrize(("added", "kind"), [(True, "retried"), (False, "requeued")])
def test_a_task_that_another_worker_took_over_was_not_retried(added, kind):
    """One that is counted again without being added again to those that run had a worker that died."""
    decode = streaq.Decoder()
    counted, running = note("streaq:q:task:retry:a", "incrby"), note("streaq:q:index:running", "sadd")
    data = key("streaq:q:task:data:a", packed({"f": "tasks.add", "a": (), "k": {}, "t": MILLIS}), "string")
    batches = [
        batch(data),
        batch(counted, running, tap="redis-pubsub", at=T0 + 1),
        batch(counted, *[running] * added, tap="redis-pubsub", at=T0 + 5),
        batch(at=T0 + 9),
    ]
    events = [event for one in batches for event in told(decode(one))]
    assert events == [("sent", None), ("started", 1), (kind, 1), ("started", 2)]
