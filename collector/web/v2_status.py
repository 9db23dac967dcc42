"""`/api/v2/status`: what Alertmanager's clients ask to learn whom they speak with, and by which routes."""

from __future__ import annotations

from aiohttp import web

from collector import __version__
from collector.routing.original import of_route
from collector.web import answers, v2
from collector.web.view import VIEW

SPOKEN = "0.28.0"
"""The version of Alertmanager whose API this is."""


async def status(request: web.Request) -> web.StreamResponse:
    """No cluster, the configuration without its secrets, and our version as the build of theirs."""
    view = request.app[VIEW]
    desk = view.desk
    return answers.json(
        {
            "cluster": {"name": "", "peers": [], "status": "disabled"},
            "config": {"original": desk.routing.original if desk.routing else of_route(desk.route)},
            "uptime": v2.written(view.started_at),
            "versionInfo": {
                "branch": "tasktrail",
                "buildDate": "",
                "buildUser": "",
                "goVersion": "",
                "revision": __version__,
                "version": SPOKEN,
            },
        }
    )
