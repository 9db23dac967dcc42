"""Envelopes are opened without parsing where their form is known, and give what parsing them gives."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.formats.celery_envelope import Tails, opened
from collector.formats.celery_wire import regular

TAG = "0f8fad5b-d9cb-469f-a165-70867728950e"
REST = len(TAG) + len('"}}')


def message(body: bytes = b"{}", tag: str = TAG, hostname: str = "w1@a", **properties: Any) -> bytes:
    """What kombu publishes."""
    envelope = {
        "body": base64.b64encode(body).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"hostname": hostname},
        "properties": {"delivery_mode": 1, "body_encoding": "base64", **properties, "delivery_tag": tag},
    }
    return json.dumps(envelope).encode()


BODY = b"some\xfb\xff text"
KNOWN = message(BODY)


def outcome(one: bytes, tails: Tails) -> bytes | None:
    """Its body; None: it is not regular."""
    try:
        (body,) = opened([one], tails)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return body


def parsed(one: bytes) -> bytes | None:
    """The same by parsing all of it."""
    try:
        return regular(one).body
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def test_a_known_tail_is_not_parsed_again() -> None:
    """One per sender and routing key is learned; what only parsing could see in the others is not seen."""
    tails = Tails()
    bodies = [b"%d" % number * number for number in range(100)]
    sent = [message(body, hostname=f"w{number % 3}@a") for number, body in enumerate(bodies)]
    assert opened(sent, tails) == bodies
    assert len(tails.known) == 3
    odd = message(b"odd", hostname="w1@a").replace(TAG.encode(), b"\xff" * len(TAG))
    assert parsed(odd) is None
    assert outcome(odd, tails) == b"odd"


def test_tails_are_bounded() -> None:
    """Ever new senders, and long tails, take no more than a megabyte."""
    tails = Tails()
    assert len(opened([message(hostname=f"w{number}@a") for number in range(2500)], tails)) == 2500
    assert 0 < len(tails.known) <= 1000
    before = len(tails.known)
    assert opened([message(hostname="w" * 2000)], tails) == [b"{}"]
    assert len(tails.known) == before


@given(
    place=st.integers(0, len(KNOWN) - REST - 1),
    put=st.binary(max_size=3) | st.sampled_from([b'"', b"\\", b"=", b'","body":"', b'"body"', b"}", b" "]),
    taken=st.integers(0, 3),
)
def test_what_is_changed_anywhere_is_read_as_parsing_reads_it(place: int, put: bytes, taken: int) -> None:
    """Whether the tail was known before or is learned from the changed one; where the tag is, nothing is promised."""
    changed = KNOWN[:place] + put + KNOWN[place + taken :]
    tails = Tails()
    assert outcome(KNOWN, tails) == BODY
    if b"\\/" not in changed:  # no base64 to who does not parse: it is read record by record then
        assert outcome(changed, tails) == parsed(changed)
    for one in (KNOWN, message(b"[1, 2]")):
        assert outcome(one, tails) == parsed(one)


@pytest.mark.parametrize("end", [b"", b'"}]', b'"}}}', b"'}}", b'"}} ', b'"}}\n', b'" }'])
@pytest.mark.parametrize("others", [0, 9])
def test_a_known_tail_with_another_end(end: bytes, others: int) -> None:
    """Whether its sender was heard just before, or longer ago."""
    tails = Tails()
    for one in (KNOWN, KNOWN, *(message(hostname=f"w{number}@b") for number in range(others))):
        assert outcome(one, tails) is not None
    changed = KNOWN[: -len('"}}')] + end
    assert outcome(changed, tails) == parsed(changed)


@pytest.mark.parametrize(
    "first",
    [
        KNOWN.replace(b'"headers"', b'"body": "QUJD", "headers"'),
        KNOWN.replace(b'"headers"', b'"b\\u006fdy": "QUJD", "headers"'),
        KNOWN.replace(b'{"body": "c29t', b'{"body": "c29\\u0074'),
        KNOWN.replace(b'{"body": ', b'{"body":  '),
        KNOWN.replace(b'"}}', b'"} }'),
        message(tag="short"),
        message(tag="1"),
    ],
)
def test_what_could_mislead_is_not_learned(first: bytes) -> None:
    """Two bodies, escapes, other spaces, other tags: each is parsed each time."""
    tails = Tails()
    assert outcome(first, tails) == parsed(first) is not None
    assert not tails.known
    second = first.replace(base64.b64encode(BODY), b"QUJD")
    assert outcome(second, tails) == parsed(second)
