"""A body of very many parts is refused before anything of it is built: each part may cost as much as an event."""

from __future__ import annotations

import pytest

from collector.formats import FORMATS
from collector.formats.decoded import MOST_COMMAS, MOST_CONTAINERS, SMALL_BODY, MalformedError, check_length
from collector.model.record import Batch

LISTS = b'{"kind":["sent"],"time":[' + b"[1]," * MOST_CONTAINERS + b"[1]]}"
VALUES = b'{"time":[' + b"1," * (MOST_COMMAS + 1) + b"1]}"


@pytest.mark.parametrize("body", [LISTS, VALUES, b"{" * (2 * MOST_CONTAINERS)])
def test_many_parts_are_too_large(body):
    """Lists, objects and values are counted, not built."""
    with pytest.raises(MalformedError) as refused:
        check_length(body)
    assert refused.value.reason == "too_large"


@pytest.mark.parametrize("body", [b"[" * SMALL_BODY, b"x" * 1_000_000, b'{"a":1},' * MOST_CONTAINERS])
def test_what_is_small_or_simple_is_not(body):
    """A short body may hold anything, and a long one long texts, or as many objects as there is room for."""
    check_length(body)


@pytest.mark.parametrize(
    ("form", "tap", "about"),
    [
        ("native", "kafka", {}),
        ("celery", "redis-pubsub", {"channel": "/0.celeryev/task.sent"}),
        ("rq", "redis-key", {"key": "rq:job:1", "type": "hash"}),
        ("saq", "redis-key", {"key": "saq:job:default:1", "type": "string"}),
        ("arq", "redis-key", {"key": "arq:job:1", "type": "string"}),
        ("dramatiq", "redis-key", {"key": "dramatiq:default.msgs", "type": "hash"}),
        ("taskiq", "redis-stream", {"stream": "taskiq"}),
    ],
)
def test_each_kind_of_format_refuses_it(form, tap, about):
    """Whatever reads it: one reject, no event."""
    batch = Batch(
        source="s", place="p", bodies=[LISTS], receipts=[0], received_at=0.0, times=[0.0], tap=tap, about=[about]
    )
    out = FORMATS[form].new()(batch)
    assert not out.events
    assert [reject.reason for reject in out.rejects] == ["too_large"]
