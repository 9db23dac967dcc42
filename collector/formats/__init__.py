"""Formats: bytes into events, one file per wire form. To add one: its file, and its line in `FORMATS`."""

from __future__ import annotations

from collector.formats import native
from collector.formats.decoded import LONGEST_BODY, REASONS, Decode, Decoded, Reject, first_bytes

__all__ = ["FORMATS", "LONGEST_BODY", "REASONS", "Decode", "Decoded", "Reject", "first_bytes"]

FORMATS: dict[str, Decode] = {
    "native": native.decode,
}
