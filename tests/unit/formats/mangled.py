"""Records of every format as its taps give them, and the same with something wrong in what they say."""

from __future__ import annotations

import base64
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from collector.formats import FORMATS
from collector.formats.capture import unpack
from collector.model.record import Batch

CAPTURES = Path(__file__).parents[2] / "replay" / "captures"
AT = 1.79e9

Record = tuple[str, dict[str, Any], bytes, Any, float]
"""Tap, `about`, body, fields, the broker's time."""

WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 7, 0.5, -0.0, 1e15, 1e18, 1e300, -1e300, 2**53, 2**63, 2**64 - 1, -(2**63), 10**400),
    *(
        "",
        "0",
        "-1",
        "7",
        "1e999",
        "nan",
        "inf",
        "²",
        "٣",
        "9" * 400,
        "9" * 5000,
        "x" * 5000,
        "a:b:c",
        "-",
        "1-x",
        "\0",
    ),
    *(
        "2026-09-21T14:13:20Z",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00+14:00",
        "{",
        "[]",
        "{}",
        "null",
        "[[]]",
    ),
    *([], {}, [[]], [{}], [None, None], ["a", 1], ["a", 1e300], [["a", 1e300]], {"": None}, {"a": {"b": []}}),
    *({"b64": ""}, {"b64": "!"}, {"b64": 1}, {"b64": "gAR9lC4="}, {"b64": "gARdlC4="}, {"b64": "gARLAS4="}),
)
"""What stands where something else was expected: all of it can be said in JSON."""


@cache
def records() -> dict[str, list[list[Record]]]:
    """By format, by capture: its records in their order."""
    found: dict[str, list[list[Record]]] = {name: [] for name in FORMATS}
    for path in sorted(CAPTURES.glob("*.jsonl")):
        lines = path.read_bytes().splitlines()
        by_form: dict[str, list[Record]] = {}
        whole = Batch(source="s", place="p", bodies=lines, receipts=range(len(lines)), received_at=AT)
        for batch in unpack(whole):
            assert batch.about is not None
            assert batch.times is not None
            fields = batch.fields or [None] * len(batch.bodies)
            for record in zip(batch.about, batch.bodies, fields, batch.times, strict=True):
                form = next((name for name, one in FORMATS.items() if one.is_mine(batch.tap, *record[:2])), "native")
                by_form.setdefault(form, []).append((batch.tap, *record))
        for form, listed in by_form.items():
            found[form].append(listed)
    return found


def draw(form: str, seed: int) -> Batch:
    """Some records of one tap that follow each other, a few of them mangled."""
    chance = random.Random(seed)
    listed = chance.choice(records()[form])
    start = chance.randrange(len(listed))
    tap = listed[start][0]
    several = [one for one in listed[start:] if one[0] == tap][: chance.randint(1, 12)]
    several = [mangle(chance, one) if chance.random() < 0.6 else one for one in several]
    if chance.random() < 0.3:
        chance.shuffle(several)
    _, abouts, bodies, fields, times = (list(column) for column in zip(*several, strict=True))
    return Batch(
        source="s",
        place="p/0",
        bodies=bodies,
        receipts=list(range(len(bodies))),
        received_at=AT,
        times=times if chance.random() < 0.7 else None,
        fields=fields,
        tap=tap if chance.random() < 0.95 else chance.choice(["redis-key", "redis-pubsub", "redis-stream", "amqp"]),
        about=abouts if chance.random() < 0.95 else None,
    )


def mangle(chance: random.Random, record: Record) -> Record:
    """One record with one to three things wrong in it."""
    tap, about, body, fields, at = record
    for _ in range(chance.randint(1, 3)):
        if fields and chance.random() < 0.4:
            wrong = [one for one in WRONG if isinstance(one, str)]
            fields = {**fields, chance.choice(list(fields)): chance.choice([*wrong, "\udcff\udc80"])}
        elif chance.random() < 0.4:
            about = _wrong_in(chance, about)
            about = about if isinstance(about, dict) else {}
        else:
            body = _wrong_body(chance, body)
    return tap, about, body, fields, at


def _wrong_body(chance: random.Random, body: bytes) -> bytes:
    if chance.random() < 0.75:
        try:
            return json.dumps(_wrong_in(chance, msgspec.json.decode(body))).encode()
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return _wrong_bytes(chance, body)


def _wrong_bytes(chance: random.Random, raw: bytes) -> bytes:
    at = chance.randrange(len(raw) + 1)
    cut = chance.randint(0, 2)
    return raw[:at] + chance.randbytes(chance.randint(0, 2)) + (raw[at + cut :] if chance.random() < 0.9 else b"")


def _wrong_in(chance: random.Random, value: Any) -> Any:
    """The value with one place of it changed, taken away or put in; also inside of what is written as text."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        if chance.random() < 0.15:
            return {other: one for other, one in value.items() if other != name}
        return {**value, name: _wrong_in(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        if chance.random() < 0.2:
            return value[:at] + value[at + 1 :]
        return [*value[:at], _wrong_in(chance, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value and chance.random() < 0.6:
        return _wrong_text(chance, value)
    return chance.choice(WRONG)


def _wrong_text(chance: random.Random, text: str) -> str:
    if text[0] in "{[":
        try:
            return json.dumps(_wrong_in(chance, msgspec.json.decode(text)))
        except msgspec.DecodeError:
            pass
    if len(text) > 40:
        try:
            return base64.b64encode(_wrong_body(chance, base64.b64decode(text, validate=True))).decode()
        except ValueError:
            pass
    return _wrong_bytes(chance, text.encode()).decode("utf-8", "replace")
