"""What a listing's query says of time and size. Each raises ValueError, with a sentence, for what cannot be meant."""

from __future__ import annotations

import math

from collector.documents.scalars import parse_duration


def since(text: str, now: float) -> float:
    """A duration back from now, or Unix seconds; the beginning of time where nothing is said."""
    if not text:
        return -math.inf
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if math.isfinite(at):
        return at
    try:
        return now - parse_duration(text)
    except ValueError as error:
        raise ValueError(f"since: {error}, or Unix seconds") from error


def limit(text: str, most: int) -> int:
    """How many to a page."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not is_number or not 1 <= int(text) <= most:
        raise ValueError(f"`limit` is a number from 1 to {most}")
    return int(text)
