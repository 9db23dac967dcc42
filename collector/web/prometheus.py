"""The form of Prometheus' HTTP API: what is asked (parameters of a query string or of a form), what is answered.

Errors carry Prometheus' words where it has some, so that clients which look at them find what they know.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

from aiohttp import web
from multidict import MultiDict

from collector.documents.scalars import parse_duration
from collector.promql import PromqlError, Selector, compile_selector
from collector.web import answers

Kind: TypeAlias = Literal["bad_data", "execution", "canceled", "timeout"]
STATUS: dict[Kind, int] = {"bad_data": 400, "execution": 422, "canceled": 499, "timeout": 503}

TRUNCATED = "results truncated due to limit"

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)")
_WHOLE = re.compile(r"[-+]?\d{1,18}")
FOREVER = 9_007_199_254_740.0
"""The last instant that is told apart, Unix seconds; its negative is the first."""
_BOUNDS = {"-292273086-05-16T16:47:06Z": -FOREVER, "292277025-08-18T07:12:54.999999999Z": FOREVER}
"""How Go writes the least and the greatest time of Prometheus."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ApiError(Exception):
    """What is wrong with a request, or with its evaluation."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind


def parse_time(text: str) -> float:
    """Unix seconds, whole milliseconds, of a number of seconds or of RFC 3339. Raises ValueError."""
    if _NUMBER.fullmatch(text) and abs(seconds := float(text)) <= FOREVER:
        return round(seconds, 3)
    if _RFC3339.fullmatch(text):
        try:
            return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1) / 1000
        except ValueError:
            pass
    if text in _BOUNDS:
        return _BOUNDS[text]
    raise ValueError(f'cannot parse "{text}" to a valid timestamp')


def parse_span(text: str) -> float:
    """Seconds of a number of them or of a duration in Prometheus' spelling. Raises ValueError."""
    if _NUMBER.fullmatch(text):
        seconds = float(text)
        if abs(seconds) > 9.2e9:
            raise ValueError(f'cannot parse "{text}" to a valid duration. It overflows int64')
        return seconds
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(f'cannot parse "{text}" to a valid duration') from None


class Parameters:
    """The parameters of a request; those of a posted form come before those of the query string."""

    def __init__(self, values: MultiDict[str]) -> None:
        self._values = values

    @classmethod
    async def of(cls, request: web.Request) -> Parameters:
        """Read them. Raises ApiError where the form is no form."""
        values: MultiDict[str] = MultiDict()
        if request.method == "POST" and request.content_type == "application/x-www-form-urlencoded":
            try:
                form = await request.post()
            except (ValueError, web.HTTPRequestEntityTooLarge) as error:
                raise ApiError("bad_data", f"error parsing form values: {error}") from error
            for name, value in form.items():
                values.add(name, str(value))
        values.extend(request.query)
        return cls(values)

    def text(self, name: str) -> str:
        """The first value, "" where there is none."""
        return self._values.get(name, "")

    def every(self, name: str) -> list[str]:
        """All values."""
        return self._values.getall(name, [])

    def time(self, name: str, default: float | None = None) -> float:
        """An instant. Raises ApiError."""
        text = self.text(name)
        if not text and default is not None:
            return default
        return self._read(name, parse_time)

    def span(self, name: str) -> float:
        """A duration in seconds. Raises ApiError."""
        return self._read(name, parse_span)

    def _read(self, name: str, read: Callable[[str], float]) -> float:
        try:
            return read(self.text(name))
        except ValueError as error:
            raise invalid(name, error) from error

    def count(self, name: str = "limit") -> int:
        """A limit; 0 is none. Raises ApiError."""
        text = self.text(name)
        if not text:
            return 0
        if not _WHOLE.fullmatch(text):
            raise invalid(name, f'strconv.Atoi: parsing "{text}": invalid syntax')
        if int(text) < 0:
            raise invalid(name, f"{name} must be non-negative")
        return int(text)

    def selectors(self, name: str = "match[]") -> list[Selector]:
        """What each `match[]` selects. Raises ApiError."""
        try:
            found = [compile_selector(text) for text in self.every(name)]
        except PromqlError as error:
            raise invalid(name, error) from error
        if any(one.name is None and not any(not m.matches("") for m in one.matchers) for one in found):
            raise invalid(name, "match[] must contain at least one non-empty matcher")
        return found


def invalid(name: str, why: object) -> ApiError:
    """A parameter that cannot be used."""
    return ApiError("bad_data", f'invalid parameter "{name}": {why}')


def truncated(found: list[Any], limit: int, warnings: list[str]) -> list[Any]:
    """The first `limit` of what was found (0: all), with a warning where something is left out."""
    if not limit or len(found) <= limit:
        return found
    warnings.append(TRUNCATED)
    return found[:limit]


def success(data: Any, warnings: Sequence[str] = ()) -> web.Response:
    """The envelope of a good answer."""
    body = {"status": "success", "data": data}
    return answers.json({**body, "warnings": list(warnings)} if warnings else body)


Endpoint: TypeAlias = Callable[[web.Request, Parameters], Awaitable[web.StreamResponse]]


def endpoint(work: Endpoint) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that reads the parameters, and answers what goes wrong as Prometheus does."""

    @functools.wraps(work)
    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            return await work(request, await Parameters.of(request))
        except ApiError as error:
            kind, message = error.kind, str(error)
        except PromqlError as error:
            kind, message = "execution", str(error)
        return answers.json({"status": "error", "errorType": kind, "error": message}, status=STATUS[kind])

    return handler


def timestamp(milliseconds: int) -> str:
    """An instant as a JSON number, as Prometheus writes it."""
    seconds, rest = divmod(milliseconds, 1000)
    if milliseconds < 0 and rest:
        return f"{milliseconds / 1000!r}"
    return f"{seconds}.{rest:03d}" if rest else str(seconds)
