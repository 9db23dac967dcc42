"""Scalar types with a reader of their own.

Each reader takes text, gives the value, or raises ValueError that says what is wrong and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NewType
from urllib.parse import urlsplit

import re2

from collector.model.secret import mask_url

_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_UNIT_MILLISECONDS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)
_LONGEST_MILLISECONDS = 9_223_372_036_854  # what Prometheus' durations can hold, about 292 years
_MAX_DIGITS = 20

WHOLE_NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)")  # 010 is ten to some and eight to others, so it is neither


class Duration(float):
    """Seconds, written as Prometheus writes durations: `30s`, `5m`, `1h30m`, `100ms`."""

    __slots__ = ()


Url = NewType("Url", str)
"""An `http://` or `https://` URL with a host: a plain text, which travels with alerts into JSON and the state."""


class Regex:
    """A regular expression by an engine whose time grows only with the length of the text."""

    __slots__ = ("compiled", "text")

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.log_errors = False
        try:
            self.compiled = re2.compile(text, options=options)
        except re2.error as error:
            raise ValueError(f"`{text}` is no regular expression that RE2 takes: {_said(error)}") from None
        self.text = text

    def __repr__(self) -> str:
        return f"Regex({self.text!r})"

    def matches(self, text: str) -> bool:
        """Whether the whole text matches: anchored at both ends, as in Prometheus."""
        return self.compiled.fullmatch(text) is not None


def parse_duration(text: str) -> float:
    """Seconds of a duration in Prometheus' spelling. Raises ValueError."""
    if text == "0":
        return 0.0
    match = _DURATION.fullmatch(text)
    if not text or match is None or len(text) > _MAX_DIGITS * len(_UNIT_MILLISECONDS):
        raise ValueError(f"`{text}` is not a duration: write whole numbers with units, such as 30s, 5m or 1h30m")
    parts = zip(match.groups(), _UNIT_MILLISECONDS, strict=True)
    milliseconds = sum(int(number) * unit for number, unit in parts if number)
    if milliseconds > _LONGEST_MILLISECONDS:
        raise ValueError(f"`{text}` is too long: the longest duration is 292y")
    return milliseconds / 1000


def _duration(text: str) -> Duration:
    return Duration(parse_duration(text))


def parse_url(text: str) -> Url:
    """An http or https URL with a host. Raises ValueError, which shows no credentials."""
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_whole = False
    if not is_whole or any(character.isspace() for character in text):
        raise ValueError(f"`{_shown_url(text)}` is not an http or https URL: write it as https://host/path")
    return Url(text)


def _shown_url(text: str) -> str:
    try:
        return mask_url(text)
    except ValueError:
        return "***"


def _said(error: re2.error) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    # type -> its reader, and what it expects, for messages about lists and mappings in its place
    Duration: (_duration, "a duration such as 30s, 5m or 1h30m"),
    Url: (parse_url, "an http or https URL"),
    Regex: (Regex, "a regular expression"),
}
