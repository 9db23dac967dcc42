"""The routes, in one table, and the listener that serves them."""

from __future__ import annotations

import asyncio
import html
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from collector.model.errors import TooManyError
from collector.model.secret import Secret
from collector.web import (
    acks,
    acts,
    answers,
    bodies,
    dead_letters,
    exposition,
    labels,
    partial,
    query,
    queues,
    rules,
    status,
    tasks,
    v2,
    v2_alerts,
    v2_silences,
    v2_status,
)
from collector.web.guard import guard
from collector.web.query import QUERIES, SIMULTANEOUS
from collector.web.view import VIEW, View

_Counted = TypeVar("_Counted")

LARGEST_BODY = 16 * 1024 * 1024
"""Bytes of one push, after decompression."""

LARGEST_HELD = 4 * LARGEST_BODY
"""Bytes of all pushes that are on their way in; further ones are told to come again."""
SLOWEST_BODY = 60.0
"""Seconds that a push may take to come in."""
HELD: web.AppKey[Counter[str]] = web.AppKey("held", Counter)

MOST_CONNECTIONS = 500
"""Connections that are held open, so that descriptors are left for sources and targets."""

FIRST_BYTES = 200
"""Of a push that could not be read whole: what is kept for people."""


async def healthy(request: web.Request) -> web.Response:
    """200 while our own loop and ticker make progress."""
    trouble = request.app[VIEW].trouble
    return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)


async def ready(request: web.Request) -> web.Response:
    """200 once every source was tried."""
    is_ready = request.app[VIEW].is_ready
    return web.Response(
        text="ready\n" if is_ready else "not yet: a source was not tried\n", status=200 if is_ready else 503
    )


async def reload(request: web.Request) -> web.Response:
    """Read the rule files again; 400 with every problem where the old ones were kept."""
    problems = request.app[VIEW].reload()
    if problems:
        return web.Response(text="\n".join(["kept the old rules:", *problems, ""]), status=400)
    return web.Response(text="reloaded\n")


async def metrics(request: web.Request) -> web.StreamResponse:
    """The exposition, family by family, in the format that is asked for."""
    encoder, content_type, is_open = exposition.negotiated(request.headers.get("Accept", ""))
    response = web.StreamResponse(headers={"Content-Type": content_type, "Vary": "Accept"})
    await response.prepare(request)
    async for piece in exposition.render(request.app[VIEW].metrics(with_created=is_open), encoder):
        await response.write(piece)
    await response.write_eof()
    return response


async def sources(request: web.Request) -> web.Response:
    """Every source: up, lag, what was read; 503 while one is down."""
    view = request.app[VIEW]
    now = view.now()
    listed = [
        {
            "name": axis.name,
            "up": axis.is_up,
            "detail": axis.detail,
            "error": axis.error,
            "clock": axis.clock,
            "lag_seconds": axis.lag_seconds(now),
            "last_record_at": axis.read_at if axis.totals.read else None,
            "events": axis.totals,
            "places": {
                name: {"position": place.position, "head": place.is_head} for name, place in axis.places.items()
            },
            "gaps": axis.gaps,
            "rejected": [one for one in view.rejected if one.source == axis.name][-20:],
        }
        for axis in view.axes
    ]
    return answers.json({"sources": listed}, status=200 if all(axis.is_up for axis in view.axes) else 503)


async def task(request: web.Request) -> web.Response:
    """A trail's timeline."""
    task_id = request.match_info["id"]
    timeline = await request.app[VIEW].task(task_id)
    return answers.json(timeline) if timeline is not None else answers.not_found(f"no task {task_id!r} is remembered")


async def trace(request: web.Request) -> web.Response:
    """All trails of one trace."""
    trace_id = request.match_info["id"]
    found = await request.app[VIEW].trace(trace_id)
    return answers.json(found) if found is not None else answers.not_found(f"no trace {trace_id!r} is remembered")


async def push(request: web.Request) -> web.Response:
    """Events from outside: NDJSON, a JSON array, or msgpack. 2xx when they are counted, 400 where none can be.

    Where some cannot be used, the answer says why: `rejected` holds how many by reason, and the first few of them.
    """
    outcome, refusals = await _taken(request, request.app[VIEW].push)
    is_useless = outcome.malformed > 0 and outcome.malformed == outcome.read
    answer = msgspec.to_builtins(outcome)
    if refusals.reasons:
        answer["rejected"] = msgspec.to_builtins(refusals)
    return answers.json(answer, status=400 if is_useless else 200)


async def traces(request: web.Request) -> web.Response:
    """OTLP spans, protobuf or JSON: 200 in OTLP's words, with what could not be used; 400 where nothing could."""
    is_json = request.content_type == "application/json"
    if not is_json and request.content_type != "application/x-protobuf":
        raise web.HTTPUnsupportedMediaType(text="write Content-Type application/x-protobuf or application/json\n")
    outcome, refusals = await _taken(request, request.app[VIEW].push_traces)
    is_useless = outcome.malformed > 0 and outcome.malformed == outcome.read
    if is_useless:
        raise web.HTTPBadRequest(text=f"no span in the body could be read: {partial.sentence(refusals)}\n")
    return web.Response(body=partial.answer(refusals, is_json=is_json), content_type=request.content_type)


async def _taken(request: web.Request, take: Callable[[bytes, str], Awaitable[_Counted]]) -> _Counted:
    """What became of the body. Raises what is answered where it holds too much, or cannot be read.

    Such an answer and its traceback hold each other until the garbage collector comes, and with them what the frames
    hold: so the body is emptied here, and no error of a deeper frame goes on from here.
    """
    body = bytearray()
    held, view = request.app[HELD], request.app[VIEW]
    try:
        await _read(request, body, held)
        try:
            return await take(bytes(body), request.content_type)
        except TooManyError as error:
            why = str(error)
        view.refuse(bytes(body[:FIRST_BYTES]), "too_large", why)
        raise web.HTTPRequestEntityTooLarge(LARGEST_BODY, len(body), text=f"{why}\n")
    finally:
        held["bytes"] -= len(body)
        body.clear()


async def _read(request: web.Request, body: bytearray, held: Counter[str]) -> None:
    """The whole body into `body`. Raises what is answered where it is too large, too slow, broken, or one too many."""
    view = request.app[VIEW]
    try:
        async with asyncio.timeout(SLOWEST_BODY), aclosing(bodies.pieces(request)) as pieces:
            async for piece in pieces:
                body += piece
                held["bytes"] += len(piece)
                if len(body) > LARGEST_BODY:
                    view.refuse(bytes(body[:FIRST_BYTES]), "too_large", f"a push of more than {LARGEST_BODY} bytes")
                    raise web.HTTPRequestEntityTooLarge(max_size=LARGEST_BODY, actual_size=len(body))
                if held["bytes"] > LARGEST_HELD:
                    raise web.HTTPServiceUnavailable(
                        text="too many pushes at once: send it again later\n", headers={"Retry-After": "1"}
                    )
    except bodies.BrokenError as error:
        view.refuse(bytes(body[:FIRST_BYTES]), error.reason, str(error))
        raise error.answer() from error
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text=f"the body did not come in {SLOWEST_BODY:g} s\n") from error


async def runbook(request: web.Request) -> web.Response:
    """A runbook page, as the Markdown it is written in."""
    name = request.match_info["name"]
    text = request.app[VIEW].runbook(name.removesuffix(".md"))
    if text is None:
        return answers.not_found(f"no runbook {name!r}")
    if "text/html" not in request.headers.get("Accept", ""):
        return web.Response(text=text, content_type="text/markdown")
    page = f"<!doctype html><meta charset=utf-8><title>{html.escape(name)}</title><pre>{html.escape(text)}</pre>"
    return web.Response(text=page, content_type="text/html")


async def index(_request: web.Request) -> web.Response:
    """What there is to ask."""
    return web.Response(text="Tasktrail\n\n" + "\n".join(f"{method:5} {path}" for method, path, _ in ROUTES) + "\n")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_GET, _BOTH = ("GET",), ("GET", "POST")
# Prometheus' query API, by what stands after /api/v1/; a posted form asks as a query string does
QUERY_API: dict[str, tuple[tuple[str, ...], Handler]] = {
    "query": (_BOTH, query.query),
    "query_range": (_BOTH, query.query_range),
    "query_exemplars": (_BOTH, query.query_exemplars),
    "format_query": (_BOTH, query.format_query),
    "series": (_BOTH, labels.series),
    "labels": (_BOTH, labels.labels),
    "label/{name}/values": (_GET, labels.label_values),
    "metadata": (_GET, labels.metadata),
    "rules": (_GET, rules.rules),
    "alerts": (_GET, rules.alerts),
    "status/buildinfo": (_GET, status.buildinfo),
    "status/runtimeinfo": (_GET, status.runtimeinfo),
}
# Alertmanager's API, by what stands after /api/v2/
ALERTMANAGER_API: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "status", v2_status.status),
    ("GET", "receivers", v2_alerts.receivers),
    ("GET", "alerts", v2_alerts.alerts),
    ("POST", "alerts", v2_alerts.post),
    ("GET", "alerts/groups", v2_alerts.groups),
    ("GET", "silences", v2_silences.silences),
    ("POST", "silences", v2_silences.post),
    ("GET", "silence/{id}", v2_silences.silence),
    ("DELETE", "silence/{id}", v2_silences.delete),
)
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", index),
    ("GET", "/metrics", metrics),
    ("GET", "/-/healthy", healthy),
    ("GET", "/healthz", healthy),
    ("GET", "/-/ready", ready),
    ("GET", "/readyz", ready),
    ("POST", "/-/reload", reload),
    ("GET", "/api/sources", sources),
    *((method, f"/api/v1/{path}", handler) for path, (methods, handler) in QUERY_API.items() for method in methods),
    ("GET", "/api/tasks", tasks.tasks),
    ("GET", "/api/coverage", tasks.coverage),
    ("GET", "/api/queues", queues.queues),
    ("GET", "/api/tasks/{id:(?s:.+)}", task),
    ("GET", "/api/traces/{id}", trace),
    ("GET", "/api/dead-letters", v2.endpoint(dead_letters.dead_letters)),
    ("POST", "/api/dead-letters/ack", v2.endpoint(dead_letters.ack)),
    ("POST", "/api/dead-letters/resolve", v2.endpoint(dead_letters.resolve)),
    ("GET", "/api/dead-letters/export", v2.endpoint(dead_letters.export)),
    ("GET", "/api/dead-letters/{id}", dead_letters.dead_letter),
    ("GET", "/runbooks/{name}", runbook),
    ("POST", "/v1/events", push),
    ("POST", "/v1/traces", traces),
    *((method, f"/api/v2/{path}", v2.endpoint(handler)) for method, path, handler in ALERTMANAGER_API),
    ("GET", "/api/acks", acks.acks),
    ("POST", "/api/acks", v2.endpoint(acks.post)),
    ("DELETE", "/api/acks/{fingerprint}", v2.endpoint(acks.delete)),
    ("POST", "/api/drills", v2.endpoint(acks.drill)),
    ("GET", "/api/drills/{id}", acks.drilled),
    ("DELETE", "/api/drills/{id}", acks.end_drill),
    ("GET", f"{acts.PREFIX}{{link}}", acts.show),
    ("POST", f"{acts.PREFIX}{{link}}", acts.act),
)


HARMLESS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer, where it does not say otherwise: nothing in it runs, is framed, or tells others where it was."""


async def _harmless(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HARMLESS.items():
        response.headers.setdefault(name, value)


def application(
    view: View, *, token: Secret | None = None, public_metrics: bool = False, external_url: str = ""
) -> web.Application:
    """The aiohttp application over a view."""
    asked_by_post = frozenset(f"/api/v1/{path}" for path, (methods, _) in QUERY_API.items() if "POST" in methods)
    doors = guard(
        token,
        public_metrics=public_metrics,
        posted_reads=asked_by_post,
        signed=acts.PREFIX,
        external_host=urlsplit(external_url).netloc,
    )
    app = web.Application(middlewares=[doors])
    app.on_response_prepare.append(_harmless)
    app[VIEW] = view
    app[HELD] = Counter()
    app[QUERIES] = asyncio.Semaphore(SIMULTANEOUS)
    for method, path, handler in ROUTES:
        app.router.add_route(method, path, handler)
    return app


class Listener:
    """The socket in front of an application."""

    def __init__(self, app: web.Application, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, handle_signals=False, auto_decompress=False
        )
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen; the port that was taken. Raises OSError where that is not possible."""
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(self._accepted, host, port, ssl=self._tls)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening and end what is open."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _accepted(self) -> asyncio.BaseProtocol:
        """The handler of a new connection. Past the bound the oldest goes that asks nothing at the moment."""
        server = self._runner.server
        assert server is not None  # noqa: S101  set up before it listens
        held = [one for one in server.connections if one.transport is not None]
        if len(held) >= MOST_CONNECTIONS:
            idle = (one for one in held if one._current_request is None)  # noqa: SLF001
            if (oldest := next(idle, None)) is not None:
                oldest.force_close()
        return server()
