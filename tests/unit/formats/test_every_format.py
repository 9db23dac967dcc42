"""What every format in the table promises, whatever the bytes are."""

from __future__ import annotations

import json
from itertools import groupby
from operator import itemgetter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.formats import FORMATS, REASONS
from collector.model.event import KINDS, LONGEST_TEXT, TASK_KINDS, Event, unix_seconds
from collector.model.record import Batch
from tests.unit.formats import mangled

_GOOD = {"kind": "started", "task_id": "a", "time": 1_790_000_000.5, "task": "t", "queue": "q", "attempt": 1}
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2026-09-21T14:13:20Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.sampled_from(Event.__struct_fields__) | st.text(max_size=4)
_OBJECTS = st.builds(
    lambda kind, changed: _GOOD | {"kind": kind} | changed,
    st.sampled_from(KINDS),
    st.dictionaries(_NAMES, _VALUES, max_size=3),
)
_THINGS = _OBJECTS | st.lists(_OBJECTS | _VALUES, max_size=3)


def _packed(thing: object) -> bytes:
    try:
        return msgspec.msgpack.encode(thing)
    except OverflowError:  # integers of more than 64 bits
        return b"\x81"


_ENCODED = _THINGS.map(lambda thing: json.dumps(thing).encode()) | _THINGS.map(_packed)
_CHOPPED = st.builds(
    lambda body, at, byte: body[:at] + byte + body[at + 1 :], _ENCODED, st.integers(0, 200), st.binary(max_size=1)
)
_BODIES = st.lists(_ENCODED | _CHOPPED | st.binary(max_size=40), max_size=6)
_FIELDS = st.none() | st.dictionaries(_NAMES, st.text(max_size=6), max_size=4)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), bodies=_BODIES)
def test_no_bytes_break_a_format(name, data, bodies):
    """Nothing raises; what comes out is in order, is regular, is told by a known reason, and a rerun says the same."""
    fields = data.draw(st.none() | st.lists(_FIELDS, min_size=len(bodies), max_size=len(bodies)))
    batch = Batch(
        source="s", place="p", bodies=bodies, receipts=list(range(len(bodies))), received_at=1.79e9, fields=fields
    )
    out = FORMATS[name].new()(batch)
    assert out == FORMATS[name].new()(batch)
    indexes = list(range(len(bodies))) if out.sources is None else out.sources
    assert len(indexes) == len(out.events)
    assert indexes == sorted(indexes)
    rejected = [reject.index for reject in out.rejects]
    assert rejected == sorted(rejected)
    assert {reject.reason for reject in out.rejects} <= set(REASONS)
    silent = set(range(len(bodies))) - {*indexes, *rejected}
    nothing = {index for index in silent if bodies[index].strip() in (b"\x90", b"\xdc\0\0", b"\xdd\0\0\0\0")}
    nothing |= {index for index in silent if b"[" in bodies[index] or name != "native"}
    assert len(silent - nothing) <= out.ignored
    for event in out.events:
        _assert_regular(event)


MOST_TOLD = 2000
"""Facts of one record, and things that are wrong with it: a broker's counter must not become so many events."""


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "native"])
@settings(max_examples=100, deadline=None)
@given(seeds=st.lists(st.integers(0, 1 << 32), min_size=1, max_size=4))
def test_nothing_that_a_tap_hands_over_breaks_a_format(name, seeds):
    """Nothing raises, reasons are known, events are regular and not without bound, and a rerun says the same."""
    decode, again = FORMATS[name].new(), FORMATS[name].new()
    for batch in (mangled.draw(name, seed) for seed in seeds):  # one decoder: it remembers
        out = decode(batch)
        assert out == again(batch)
        indexes = list(range(len(out.events))) if out.sources is None else out.sources
        assert len(indexes) == len(out.events)
        assert indexes == sorted(indexes)
        assert {*indexes, *(reject.index for reject in out.rejects)} <= set(range(len(batch.bodies)))
        assert {reject.reason for reject in out.rejects} <= set(REASONS)
        assert out.channels is None or len(out.channels) == len(out.events)
        assert len(out.events) + len(out.rejects) <= MOST_TOLD * len(batch.bodies)
        for about, body in zip(batch.about or (), batch.bodies, strict=False):
            assert {one.is_mine(batch.tap, about, body) for one in FORMATS.values()} <= {True, False}
        for event in out.events:
            _assert_regular(event)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "native"])
def test_what_is_mangled_is_read_otherwise(name):
    """The records that are mangled are those of the format: as they are, they give events."""
    count = 0
    for listed in mangled.records()[name]:
        for tap, run in groupby(listed, key=itemgetter(0)):
            _, abouts, bodies, fields, times = (list(column) for column in zip(*run, strict=True))
            batch = Batch(
                source="s", place="p/0", bodies=bodies, receipts=range(len(bodies)), received_at=mangled.AT,
                times=times, fields=fields, tap=tap, about=abouts,
            )  # fmt: skip
            count += len(FORMATS[name].new()(batch).events)
    assert count


def _assert_regular(event: Event) -> None:
    assert event.kind in KINDS
    assert bool(event.task_id) or event.kind not in TASK_KINDS
    assert event.traceparent is None
    for name in ("task_id", "task", "queue", "worker", "caller", "parent_id", "root_id", "error", "error_message"):
        text = getattr(event, name)
        assert text is None or (isinstance(text, str) and len(text) <= LONGEST_TEXT), name
        assert text != "" or name == "task_id", name
    assert event.attempt is None or 1 <= event.attempt <= 1_000_000
    assert event.run_seconds is None or (isinstance(event.run_seconds, float) and 0 <= event.run_seconds < 1e10)
    for moment in (event.time, event.eta, event.expires):
        assert moment is None or (isinstance(moment, float) and unix_seconds(moment) == moment)
    assert event.trace_id is None or len(event.trace_id) == 32
    msgspec.json.encode(event)  # all text in it can be written again
