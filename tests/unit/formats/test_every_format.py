"""What every format in the table promises, whatever the bytes are."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.formats import FORMATS, REASONS
from collector.model.event import KINDS, TASK_KINDS, Event, unix_seconds
from collector.model.record import Batch

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
@settings(max_examples=300, deadline=None)
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


def _assert_regular(event: Event) -> None:
    assert event.kind in KINDS
    assert bool(event.task_id) or event.kind not in TASK_KINDS
    assert event.traceparent is None
    for moment in (event.time, event.eta, event.expires):
        assert moment is None or (isinstance(moment, float) and unix_seconds(moment) == moment)
    assert event.trace_id is None or len(event.trace_id) == 32
    msgspec.json.encode(event)  # all text in it can be written again
