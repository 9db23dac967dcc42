"""The form of Alertmanager's API v2: filters, times, bodies and errors, as its clients write and read them.

An error is a JSON string where Alertmanager's handlers give one, and `{"code", "message"}` where its schema does.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias, TypeVar

import msgspec
from aiohttp import web

from collector.documents import Regex
from collector.model.labels import Matcher
from collector.routing.matchers import parse_matcher
from collector.web import answers, bodies
from collector.web.prometheus import parse_time

LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of one post."""
SLOWEST_BODY = 30.0
"""Seconds that a post may take to come in."""
TRUE = frozenset(("true", "1", "yes", "ok", "y", "on", "selected", "checked", "t", "enabled"))
NO_TIME = "0001-01-01T00:00:00"
"""How Go's zero time begins: no time was given."""
_SCHEMA = 600
"""Codes of the schema begin here; 602 is a field that is missing."""

T = TypeVar("T")
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Refused(Exception):  # noqa: N818  what a client is told
    """What is wrong with a request; `body` is the answer's JSON."""

    def __init__(self, body: Any, status: int = 400) -> None:
        super().__init__(str(body))
        self.body = body
        self.status = status


def endpoint(handler: Handler) -> Handler:
    """Turns Refused, and a body that is broken, into an answer."""

    @functools.wraps(handler)
    async def wrapped(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refused as refused:
            return answers.json(refused.body, status=refused.status)
        except bodies.BrokenError as error:
            status = error.answer().status
            told = answers.json({"code": status, "message": str(error)}, status)
            told.force_close()
            return told

    return wrapped


def missing(name: str, where: str = "body") -> Refused:
    """A field that the schema wants."""
    return Refused({"code": _SCHEMA + 2, "message": f"{name} in {where} is required"}, 422)


async def body(request: web.Request, kind: type[T]) -> T:
    """The JSON body as a type. Raises Refused and BrokenError."""
    if request.content_type != "application/json":
        message = f'unsupported media type "{request.content_type}", only [application/json] are allowed'
        raise Refused({"code": 415, "message": message}, 415)
    held = bytearray()
    try:
        async with asyncio.timeout(SLOWEST_BODY), aclosing(bodies.pieces(request)) as pieces:
            async for piece in pieces:
                held += piece
                if len(held) > LARGEST_BODY:
                    raise Refused({"code": 413, "message": f"more than {LARGEST_BODY} bytes"}, 413)
    except TimeoutError as error:
        raise Refused({"code": 400, "message": f"the body could not be read: {error}"}) from error
    try:
        return msgspec.json.decode(held, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused({"code": 400, "message": f"parsing the body failed, because {error}"}) from error


def flag(request: web.Request, name: str, *, default: bool = True) -> bool:
    """A boolean parameter: what says yes in no way says no."""
    text = request.query.get(name)
    return default if not text else text.lower() in TRUE


def filters(request: web.Request) -> list[Matcher]:
    """The matchers of all `filter` parameters, one each. Raises Refused."""
    found: list[Matcher] = []
    for text in request.query.getall("filter", []):
        try:
            found.append(parse_matcher(text))
        except ValueError as error:
            raise Refused(f"bad matcher format: {error}") from error
    return found


def receivers(request: web.Request) -> Callable[[Iterable[str]], bool]:
    """Whether any of some receivers is asked for. Raises Refused."""
    text = request.query.get("receiver", "")
    if not text:
        return lambda _names: True
    try:
        matches = Regex(text).matches
    except ValueError as error:
        raise Refused(f"failed to parse receiver param: {error}") from error
    return lambda names: any(map(matches, names))


def fits(matchers: Iterable[Matcher], values: Mapping[str, str]) -> bool:
    """Whether a filter takes a label set: an empty value asks whether the label is there."""
    for one in matchers:
        if one.value == "" and (one.name in values) == (one.op in ("!=", "!~")):
            continue
        if not one.matches(values.get(one.name, "")):
            return False
    return True


_DATE = re.compile(r"\d{4}-")


_FIRST, _LAST = -62_135_596_800.0, 253_402_300_800.0
"""What can be written as a date again, in UTC: the years 1 to 9999."""


def instant(text: str | None, name: str) -> float | None:
    """Unix seconds of a time; None where there is none. Raises Refused."""
    if not text or text.startswith(NO_TIME):
        return None
    try:
        at = parse_time(text) if _DATE.match(text) else _no_date(text)
        return at if _FIRST <= at < _LAST else _no_date(text)
    except ValueError:
        raise Refused({"code": 601, "message": f'{name} in body must be of type date-time: "{text}"'}, 422) from None


def _no_date(text: str) -> float:
    raise ValueError(text)


@functools.lru_cache(maxsize=4096)
def written(at: float) -> str:
    """A time with its milliseconds, as Alertmanager writes it."""
    return answers.rfc3339(round(at, 3)) if at % 1 else answers.rfc3339(at)
