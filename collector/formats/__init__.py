"""Formats: bytes into events, one file per wire form. To add one: its file, and its line in `FORMATS`."""

from __future__ import annotations

from collector.formats import arq, bullmq, celery, dramatiq, huey, messages, native, otlp, rq, saq, streaq, taskiq
from collector.formats.decoded import LONGEST_BODY, REASONS, Decode, Decoded, Format, Reject, beginning, first_bytes

__all__ = ["FORMATS", "LONGEST_BODY", "REASONS", "Decode", "Decoded", "Format", "Reject", "beginning", "first_bytes"]

# In the order in which a capture's records are offered to them: native takes what is nobody else's.
FORMATS: dict[str, Format] = {
    "celery": celery.FORMAT,
    "bullmq": bullmq.FORMAT,
    "dramatiq": dramatiq.FORMAT,
    "rq": rq.FORMAT,
    "saq": saq.FORMAT,
    "arq": arq.FORMAT,
    "streaq": streaq.FORMAT,
    "taskiq": taskiq.FORMAT,
    "huey": huey.FORMAT,
    "otlp": otlp.FORMAT,
    "messages": messages.FORMAT,
    "native": native.FORMAT,
}
