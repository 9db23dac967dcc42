"""`/api/v1/status/...`: what clients ask to learn whom they speak with."""

from __future__ import annotations

import platform

from aiohttp import web

from collector import __version__
from collector.web import answers
from collector.web.prometheus import Parameters, endpoint, success
from collector.web.view import VIEW

SPOKEN = "3.0.0"
"""The version of Prometheus whose API this is: clients compare it to know what they may ask."""


@endpoint
async def buildinfo(_request: web.Request, _parameters: Parameters) -> web.StreamResponse:
    """The version that is spoken, and ours as its build."""
    build = {"revision": __version__, "branch": "tasktrail", "buildUser": "", "buildDate": "", "goVersion": ""}
    return success(
        {"version": f"{SPOKEN}+tasktrail.{__version__}", **build, "pythonVersion": platform.python_version()}
    )


@endpoint
async def runtimeinfo(request: web.Request, _parameters: Parameters) -> web.StreamResponse:
    """Since when this process runs."""
    view = request.app[VIEW]
    return success({"startTime": answers.rfc3339(view.started_at), "serverTime": answers.rfc3339(view.now())})
