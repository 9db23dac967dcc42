"""`/api/acks` and `/api/drills`: what Alertmanager's API has no words for."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from collector.model.labels import Labels, labels_of
from collector.routing.acks import LASTS
from collector.routing.keeping import Ack
from collector.routing.matchers import hold, parse_matchers
from collector.web import answers, v2
from collector.web.view import VIEW

DRILL_SECONDS = 120.0
"""A drill's alert ends by itself after so long."""


class _Wanted(msgspec.Struct):
    author: str = ""
    reason: str = ""
    fingerprints: list[str] = []
    matchers: list[str] = []
    """All that fires and fulfils these is acked, besides those that are named."""
    seconds: float = LASTS


class _Drill(msgspec.Struct):
    labels: dict[str, str] = {}
    seconds: float = DRILL_SECONDS


def listed(ack: Ack) -> dict[str, Any]:
    """One ack as plain data; times in Unix seconds."""
    return {**msgspec.structs.asdict(ack), "labels": dict(ack.labels)}


async def acks(request: web.Request) -> web.StreamResponse:
    """All that hold."""
    view = request.app[VIEW]
    return answers.json({"acks": [listed(one) for one in view.desk.acks.listed(view.now())]})


async def post(request: web.Request) -> web.StreamResponse:
    """Ack alerts by fingerprint or by matchers; 404 where none of them fires."""
    view = request.app[VIEW]
    wanted = await v2.body(request, _Wanted)
    names = dict.fromkeys(wanted.fingerprints)
    if wanted.matchers:
        try:
            conditions = [one for text in wanted.matchers for one in parse_matchers(text)]
        except ValueError as error:
            raise v2.Refused({"error": str(error)}) from error
        if not conditions:
            raise v2.Refused({"error": "at least one matcher required"})
        firing = view.desk.grouping.firing
        names |= dict.fromkeys(name for name, (alert, _) in firing.items() if hold(conditions, alert.labels))
    if not any(name in view.desk.grouping.firing for name in names):
        raise v2.Refused({"error": "no such alert fires"}, 404)
    try:
        made = view.desk.ack(names, wanted.author, wanted.reason, view.now(), wanted.seconds)
    except ValueError as error:
        raise v2.Refused({"error": str(error)}) from error
    view.woken()
    return answers.json({"acks": [listed(one) for one in made], "unkept": await view.unkept()})


async def delete(request: web.Request) -> web.StreamResponse:
    """Take an ack back."""
    view = request.app[VIEW]
    fingerprint = request.match_info["fingerprint"]
    if not view.desk.acks.end(fingerprint):
        raise v2.Refused({"error": f"no ack of {fingerprint} holds"}, 404)
    view.woken()
    return answers.kept(web.Response(status=204), await view.unkept())


async def drill(request: web.Request) -> web.StreamResponse:
    """Send a drill on its way; answers with its id and who is to hear of it."""
    view = request.app[VIEW]
    wanted = await v2.body(request, _Drill)
    labels: Labels = labels_of(wanted.labels)
    made = view.desk.drill(labels, view.now(), min(max(wanted.seconds, 1.0), 3600.0))
    view.woken()
    return answers.json(made, status=201)


async def drilled(request: web.Request) -> web.StreamResponse:
    """What became of a drill so far."""
    view = request.app[VIEW]
    found = view.desk.drilled(request.match_info["id"], view.now())
    return answers.json(found) if found else answers.not_found("no such drill is under way")


async def end_drill(request: web.Request) -> web.StreamResponse:
    """End a drill before its time."""
    view = request.app[VIEW]
    drill_id = request.match_info["id"]
    if view.desk.drilled(drill_id, view.now()) is None:
        return answers.not_found("no such drill is under way")
    view.desk.end_drill(drill_id, view.now())
    view.woken()
    return web.Response(status=204)
