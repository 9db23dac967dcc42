"""`/api/v2/silences` and `/api/v2/silence/{id}`: to look at, make, change and end silences, as amtool does."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from aiohttp import web

from collector.model.labels import Matcher
from collector.routing.keeping import Silence
from collector.routing.matchers import matcher
from collector.routing.silences import Unknown
from collector.web import answers, v2
from collector.web.view import VIEW

OPS: dict[tuple[bool, bool], Literal["=", "!=", "=~", "!~"]] = {
    (True, False): "=",
    (False, False): "!=",
    (True, True): "=~",
    (False, True): "!~",
}
"""`isEqual`, `isRegex` → operator."""


class _Matcher(msgspec.Struct, rename="camel"):
    name: str | None = None
    value: str | None = None
    is_regex: bool | None = None
    is_equal: bool | None = None


class _Silence(msgspec.Struct, rename="camel"):
    id: str = ""
    matchers: list[_Matcher] | None = None
    starts_at: str | None = None
    ends_at: str | None = None
    created_by: str | None = None
    comment: str | None = None


async def silences(request: web.Request) -> web.StreamResponse:
    """All, also those that have expired."""
    view, wanted = request.app[VIEW], v2.filters(request)
    now = view.now()
    return answers.json(
        [
            listed(one, now)
            for one in view.desk.silences.listed(now)
            if v2.fits(wanted, {each.name: each.value for each in one.matchers})
        ]
    )


async def silence(request: web.Request) -> web.StreamResponse:
    """One."""
    view = request.app[VIEW]
    found = view.desk.silences.get(request.match_info["id"])
    return answers.json(listed(found, view.now())) if found else web.Response(status=404)


async def post(request: web.Request) -> web.StreamResponse:
    """Make one, or change the one whose id is given; answers with the id that it has now, and why it is not kept."""
    view = request.app[VIEW]
    now = view.now()
    wanted = checked(await v2.body(request, _Silence), now)
    try:
        made = view.desk.silence(wanted, now)
    except Unknown as unknown:
        raise v2.Refused(f"silence {unknown} not found", 404) from None
    except ValueError as error:
        raise v2.Refused(str(error)) from error
    view.woken()
    return answers.kept(answers.json({"silenceID": made.id}), await view.unkept())


async def delete(request: web.Request) -> web.StreamResponse:
    """End one now."""
    view = request.app[VIEW]
    try:
        view.desk.end_silence(request.match_info["id"], view.now())
    except Unknown:
        return web.Response(status=404)
    view.woken()
    return answers.kept(web.Response(), await view.unkept())


def checked(given: _Silence, now: float) -> Silence:
    """The silence that was posted. Raises Refused, in Alertmanager's words."""
    for name, value in (
        ("matchers", given.matchers),
        ("startsAt", given.starts_at),
        ("endsAt", given.ends_at),
        ("createdBy", given.created_by),
        ("comment", given.comment),
    ):
        if value is None:
            raise v2.missing(name)
    if not given.matchers:
        raise v2.Refused({"code": 612, "message": "matchers in body should have at least 1 items"}, 422)
    starts_at, ends_at = v2.instant(given.starts_at, "startsAt"), v2.instant(given.ends_at, "endsAt")
    if ends_at is None:
        raise v2.Refused("invalid silence: invalid zero end timestamp")
    if starts_at is None:
        starts_at = now
    if starts_at >= ends_at:
        raise v2.Refused("Failed to create silence: start time must be before end time")
    if ends_at < now:
        raise v2.Refused("Failed to create silence: end time can't be in the past")
    return Silence(
        id=given.id,
        matchers=tuple(_matcher(index, one) for index, one in enumerate(given.matchers or ())),
        starts_at=starts_at,
        ends_at=ends_at,
        created_by=given.created_by or "",
        comment=given.comment or "",
    )


def _matcher(index: int, given: _Matcher) -> Matcher:
    for name, value in (("name", given.name), ("value", given.value), ("isRegex", given.is_regex)):
        if value is None:
            raise v2.missing(f"matchers.{index}.{name}")
    if not given.name:
        raise v2.Refused(f'invalid silence: invalid label matcher {index}: invalid label name ""')
    try:
        return matcher(given.name, OPS[given.is_equal is not False, bool(given.is_regex)], given.value or "")
    except ValueError as error:
        raise v2.Refused(f"invalid silence: invalid label matcher {index}: {error}") from error


def listed(one: Silence, now: float) -> dict[str, Any]:
    """One silence as Alertmanager lists it."""
    return {
        "id": one.id,
        "status": {"state": one.state(now)},
        "updatedAt": v2.written(one.updated_at),
        "comment": one.comment,
        "createdBy": one.created_by,
        "endsAt": v2.written(one.ends_at),
        "matchers": [
            {
                "isEqual": each.op in ("=", "=~"),
                "isRegex": each.op in ("=~", "!~"),
                "name": each.name,
                "value": each.value,
            }
            for each in one.matchers
        ],
        "startsAt": v2.written(one.starts_at),
    }
