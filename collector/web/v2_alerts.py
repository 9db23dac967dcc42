"""`/api/v2/alerts`, `/api/v2/alerts/groups`, `/api/v2/receivers`: what fires, and how it stands.

Ten thousand alerts are many short steps: others have their turn between two pieces of an answer.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec
from aiohttp import web

from collector.model.alert import Alert
from collector.model.labels import Labels, Matcher, labels_of
from collector.routing.desk import Desk
from collector.routing.external import Posted
from collector.routing.standing import Standing
from collector.web import answers, v2
from collector.web.view import VIEW

PIECE = 100
"""Alerts in one step."""
RESEND = 300.0
"""Seconds after which an alert of ours would have ended, if nobody said again that it fires."""

_encode = msgspec.json.encode


class Wanted:
    """Which alerts are asked for."""

    def __init__(self) -> None:
        self.active = self.silenced = self.inhibited = True
        self.filters: list[Matcher] = []
        self.receivers: Callable[[Iterable[str]], bool] = lambda _names: True

    @classmethod
    def of(cls, request: web.Request) -> Wanted:
        """Raises Refused for what is not understood."""
        wanted = cls()
        wanted.active = v2.flag(request, "active")
        wanted.silenced = v2.flag(request, "silenced")
        wanted.inhibited = v2.flag(request, "inhibited")
        v2.flag(request, "unprocessed")  # nothing is: every alert is grouped as it comes
        wanted.filters = v2.filters(request)
        wanted.receivers = v2.receivers(request)
        return wanted

    def has(self, alert: Alert, standing: Standing) -> bool:
        """Whether an alert is wanted."""
        if not v2.fits(self.filters, dict(alert.labels)):
            return False
        if standing.state == "active":
            return self.active
        return (self.silenced or not standing.silenced_by) and (self.inhibited or not standing.inhibited_by)


async def alerts(request: web.Request) -> web.StreamResponse:
    """All alerts that fire, by fingerprint, as JSON that comes piece by piece."""
    wanted, view = Wanted.of(request), request.app[VIEW]
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    async for piece in pieces(view.desk, view.now(), wanted):
        await response.write(piece)
    await response.write_eof()
    return response


async def pieces(desk: Desk, now: float, wanted: Wanted | None = None) -> AsyncIterator[bytes]:
    """The answer, some alerts at a time."""
    firing = desk.grouping.firing
    wanted = wanted or Wanted()
    yield b"["
    is_first = True
    names = sorted(firing)
    for start in range(0, len(names), PIECE):
        found: list[bytes] = []
        for name in names[start : start + PIECE]:
            if name in firing:  # it may have ended since
                alert, updated_at = firing[name]
                standing = desk.standing(alert, now)
                if wanted.has(alert, standing) and wanted.receivers(standing.receivers):
                    found.append(_encode(listed(desk, alert, updated_at, standing, now)))
        if found:
            yield (b"" if is_first else b",") + b",".join(found)
            is_first = False
        await asyncio.sleep(0)
    yield b"]"


async def groups(request: web.Request) -> web.StreamResponse:
    """The groups with their alerts, by labels and receiver."""
    wanted, desk = Wanted.of(request), request.app[VIEW].desk
    is_muted_wanted = v2.flag(request, "muted")
    now = request.app[VIEW].now()
    found: list[tuple[tuple[Labels, str], Any]] = []
    count = 0
    for group in desk.grouping.groups():
        if not wanted.receivers([group.route.receiver]):
            continue
        members = []
        for alert in list(group.alerts.values()):
            count += 1
            if count % PIECE == 0:
                await asyncio.sleep(0)
            if alert.state != "firing":
                continue
            standing = desk.standing(alert, now)
            if wanted.has(alert, standing) and (is_muted_wanted or not standing.muted_by):
                _, updated_at = desk.grouping.firing.get(alert.fingerprint, (alert, now))
                names = tuple(sorted(name for name in standing.receivers if wanted.receivers([name])))
                untold = {name: standing.untold[name] for name in names if name in standing.untold}
                here = msgspec.structs.replace(standing, receivers=names, untold=untold)
                members.append(listed(desk, alert, updated_at, here, now))
        if members:
            members.sort(key=lambda one: one["fingerprint"])
            body = {"labels": dict(group.labels), "receiver": {"name": group.route.receiver}, "alerts": members}
            found.append(((group.labels, group.route.receiver), body))
    return answers.json([body for _, body in sorted(found, key=lambda one: _ORDER(one[0]))])


def _before(one: tuple[Labels, str], other: tuple[Labels, str]) -> int:
    """Alertmanager's order of groups: fewer labels, then who lacks the first name that the other has, then values."""
    if one[0] == other[0]:
        return -1 if one[1] < other[1] else 1
    if len(one[0]) != len(other[0]):
        return len(one[0]) - len(other[0])
    (name, value), (other_name, other_value) = next(
        pair for pair in zip(one[0], other[0], strict=True) if pair[0] != pair[1]
    )
    if name != other_name:
        return 1 if name < other_name else -1
    return -1 if value < other_value else 1


_ORDER = functools.cmp_to_key(_before)


async def receivers(request: web.Request) -> web.StreamResponse:
    """The names of all receivers."""
    desk = request.app[VIEW].desk
    names = list(desk.routing.receivers) if desk.routing else [desk.route.receiver]
    return answers.json([{"name": name} for name in names])


class _Posted(msgspec.Struct, rename="camel"):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    starts_at: str | None = None
    ends_at: str | None = None
    generator_url: str | None = msgspec.field(default=None, name="generatorURL")


async def post(request: web.Request) -> web.StreamResponse:
    """Alerts from outside. What is none is named in the answer; the others are taken all the same."""
    view = request.app[VIEW]
    taken: list[Posted] = []
    faults: list[str] = []
    posted = await v2.body(request, list[_Posted])
    for index, one in enumerate(posted):
        if one.labels is None:
            raise v2.missing(f"{index}.labels")
        try:
            taken.append(_checked(one))
        except ValueError as error:
            faults.append(str(error))
    for start in range(0, len(taken), PIECE):
        try:
            view.desk.post(taken[start : start + PIECE], view.now())
        except ValueError as error:
            raise v2.Refused(str(error), 503) from error
        view.woken()
        await asyncio.sleep(0)
    if faults:
        raise v2.Refused("; ".join(faults[:20]))
    return web.Response()


def _checked(one: _Posted) -> Posted:
    """Raises ValueError, in Alertmanager's words."""
    labels = labels_of(one.labels or {})
    if not labels:
        raise ValueError("at least one label pair required")
    if any(not name for name, _ in labels):
        raise ValueError('invalid label set: invalid name ""')
    starts_at, ends_at = v2.instant(one.starts_at, "startsAt"), v2.instant(one.ends_at, "endsAt")
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise ValueError("start time must be before end time")
    return Posted(
        labels=labels,
        annotations=labels_of(one.annotations or {}),
        starts_at=starts_at,
        ends_at=ends_at,
        generator_url=one.generator_url or "",
    )


def listed(desk: Desk, alert: Alert, updated_at: float, standing: Standing, now: float) -> dict[str, Any]:
    """One alert as Alertmanager lists it, with our own fields besides, where there is something to say."""
    ends_at = desk.external.ends_at(alert.fingerprint) or now + RESEND
    body: dict[str, Any] = {
        "annotations": dict(alert.annotations),
        "endsAt": v2.written(ends_at),
        "fingerprint": alert.fingerprint,
        "receivers": [{"name": name} for name in standing.receivers],
        "startsAt": v2.written(alert.active_at if alert.fired_at is None else alert.fired_at),
        "status": {
            "inhibitedBy": standing.inhibited_by,
            "mutedBy": standing.muted_by,
            "silencedBy": standing.silenced_by,
            "state": standing.state,
        },
        "updatedAt": v2.written(updated_at),
        "generatorURL": alert.generator_url,
        "labels": dict(alert.labels),
    }
    if standing.ack:
        ack = standing.ack
        body["ack"] = {"author": ack.author, "reason": ack.reason, "expiresAt": v2.written(ack.expires_at)}
    if standing.untold:
        body["untold"] = standing.untold
    if standing.is_flapping:
        body["flapping"] = True
    if alert.blind:
        body["blind"] = True
    return body
