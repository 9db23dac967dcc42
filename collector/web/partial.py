"""What OTLP answers to an export of which not everything could be used: its `partial_success`, as JSON or protobuf.

Source: opentelemetry-proto 1.x, `ExportTraceServiceResponse`; where all was taken that is an empty message.
"""

from __future__ import annotations

import msgspec

from collector.model.record import Refusals

_PARTIAL_SUCCESS, _REJECTED_SPANS, _ERROR_MESSAGE = 1, 1, 2
_VARINT, _BYTES = 0, 2


def sentence(refusals: Refusals) -> str:
    """Why spans could not be used: how many by reason, and what is wrong with the first few."""
    counts = ", ".join(f"{count} {reason}" for reason, count in refusals.reasons.items())
    return f"{counts}: {'; '.join(one.detail for one in refusals.first)}"


def answer(refusals: Refusals, *, is_json: bool) -> bytes:
    """The body of a 200."""
    if not refusals.reasons:
        return b"{}" if is_json else b""
    count, why = sum(refusals.reasons.values()), sentence(refusals)
    if is_json:  # 64-bit numbers are text in protobuf's JSON
        return msgspec.json.encode({"partialSuccess": {"rejectedSpans": str(count), "errorMessage": why}})
    rejected = _varint(_REJECTED_SPANS << 3 | _VARINT) + _varint(count)
    return _field(_PARTIAL_SUCCESS, rejected + _field(_ERROR_MESSAGE, why.encode()))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
