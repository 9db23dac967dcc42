"""Bodies that are not events, each of another kind, and the reason that each must be counted by.

All of them fit on one line and count as one, so that every way into the daemon carries them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

Event = dict[str, object]


def _json(**changed: object) -> Callable[[Event], bytes]:
    return lambda event: json.dumps(event | changed).encode()


def _without(name: str) -> Callable[[Event], bytes]:
    return lambda event: json.dumps({key: value for key, value in event.items() if key != name}).encode()


def _bytes(body: bytes) -> Callable[[Event], bytes]:
    return lambda _: body


KINDS: tuple[tuple[str, Callable[[Event], bytes], str], ...] = (
    ("JSON cut in half", lambda event: (body := json.dumps(event).encode())[: len(body) // 2], "not_json"),
    ("text", _bytes(b"hello"), "not_json"),
    ("a null key", lambda event: b"{null: 1, " + json.dumps(event).encode()[1:], "not_json"),
    ("broken UTF-8", lambda event: json.dumps(event).encode().replace(b'"kind": "', b'"kind": "\xff\xfe'), "not_utf8"),
    ("gzip", _bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"), "not_utf8"),
    ("pickle", _bytes(b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94."), "not_msgpack"),
    ("10,000 levels", _bytes(b'{"":' * 10_000), "too_deep"),
    ("null", _bytes(b"null"), "not_an_object"),
    ("a string", _bytes(b'"started"'), "not_an_object"),
    ("a list for a map", _bytes(b"[[1]]"), "not_an_object"),
    ("no kind", _without("kind"), "missing_kind"),
    ("an unknown kind", _json(kind="exploded"), "unknown_kind"),
    ("no id", _without("task_id"), "missing_id"),
    ("an empty id", _json(task_id=""), "missing_id"),
    ("an id that is a number", _json(task_id=7), "bad_id"),
    ("an id that is a list", _json(task_id=["a"]), "bad_id"),
    ("NaN for a time", _json(time=float("nan")), "bad_time"),
    ("year 9999", _json(time="9999-12-31T23:59:59Z"), "bad_time"),
    ("a negative time", _json(time=-1.5), "bad_time"),
    ("a time in words", _json(time="yesterday"), "bad_time"),
    ("attempt 0", _json(attempt=0), "bad_field"),
    ("a task that is a map", _json(task={}), "bad_field"),
)
