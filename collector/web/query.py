"""`/api/v1/query` and `query_range`: expressions on the live windows, evaluated in steps, bounded in time and size.

Functions that want samples see event-fed series every 15 s, the interval of a rule group that sets none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
from aiohttp import web

from collector.alerting.group import DEFAULT_INTERVAL_SECONDS as INTERVAL
from collector.promql import Expr, Frame, PromqlError, compile_expr, pretty
from collector.web import answers, results
from collector.web.budget import LONGEST, Metered, Pace
from collector.web.prometheus import TRUNCATED, ApiError, Parameters, endpoint, invalid, success, timestamp
from collector.web.view import VIEW

MOST_INSTANTS = 11_000
SIMULTANEOUS = 4
"""Queries that are evaluated side by side; others wait, and their waiting counts."""
QUERIES: web.AppKey[asyncio.Semaphore] = web.AppKey("queries", asyncio.Semaphore)

_NOT_IN_RANGES = {"matrix": "range vector", "string": "string"}


@endpoint
async def query(request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """The value of an expression at an instant, now unless `time` says another."""
    view = request.app[VIEW]
    limit = parameters.count()
    at = parameters.time("time", round(view.now(), 3))
    pace = Pace(request, view, _timeout(parameters))
    expr = _compiled(parameters)
    async with request.app[QUERIES]:
        pace.start()
        metered = Metered(view.store, pace)
        stamp = timestamp(round(at * 1000))
        if expr.type == "matrix":
            ranges = expr.ranges(metered, at, INTERVAL)
            pieces, count = results.matrix(ranges, limit), sum(len(times) > 0 for times, _ in ranges.series)
        elif isinstance(value := expr.evaluate(metered, at, INTERVAL), Frame):
            pieces, count = results.vector(value, stamp, limit), len(value)
        else:
            text = answers.text(value if isinstance(value, str) else answers.number(value))
            pieces, count = iter([f"{stamp},{text}"]), 0
    warnings = metered.warnings + [TRUNCATED] * (0 < limit < count)
    return await _written(request, expr.type, pieces, warnings)


@endpoint
async def query_range(request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """The values of an expression at every `step` from `start` to `end`."""
    view = request.app[VIEW]
    limit = parameters.count()
    start, end, step = _grid(parameters)
    pace = Pace(request, view, _timeout(parameters))
    expr = _compiled(parameters)
    if expr.type in _NOT_IN_RANGES:
        kind = _NOT_IN_RANGES[expr.type]
        raise invalid("query", f'invalid expression type "{kind}" for range query, must be Scalar or instant Vector')
    async with request.app[QUERIES]:
        pace.start()
        metered = Metered(view.store, pace)
        collected = results.Collected()
        for at in range(start, end + 1, step):
            metered.begin()
            value = expr.evaluate(metered, at / 1000, INTERVAL, start=start / 1000, end=end / 1000)
            frame = value if isinstance(value, Frame) else Frame(((),), np.array([value], float))
            collected.add(timestamp(at), frame)
            await pace.rest()
        await collected.order(pace)
    warnings = metered.warnings + [TRUNCATED] * (0 < limit < len(collected.ordered))
    return await _written(request, "matrix", collected.matrix(limit), warnings)


@endpoint
async def format_query(_request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """The expression, laid out."""
    try:
        return success(pretty(parameters.text("query")))
    except PromqlError as error:
        raise invalid("query", error) from error


@endpoint
async def query_exemplars(_request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """None: events carry no exemplars, evidence is with the alerts. The parameters are checked all the same."""
    _compiled(parameters)
    return success([])


def _compiled(parameters: Parameters) -> Expr:
    try:
        return compile_expr(parameters.text("query"))
    except PromqlError as error:
        raise invalid("query", error) from error


def _timeout(parameters: Parameters) -> float:
    return parameters.span("timeout") if parameters.text("timeout") else LONGEST


def _grid(parameters: Parameters) -> tuple[int, int, int]:
    """Start, end and step in milliseconds. Raises ApiError."""
    start, end = parameters.time("start"), parameters.time("end")
    if end < start:
        raise invalid("end", "end timestamp must not be before start time")
    step = parameters.span("step")
    if step < 0.001:
        message = "zero or negative query resolution step widths are not accepted. Try a positive integer"
        raise invalid("step", message)
    if (end - start) // step > MOST_INSTANTS:
        message = (
            f"exceeded maximum resolution of {MOST_INSTANTS:,} points per timeseries. "
            "Try decreasing the query resolution (?step=XX)"
        )
        raise ApiError("bad_data", message)
    return round(start * 1000), round(end * 1000), int(step * 1000)


async def _written(request: web.Request, kind: str, pieces: Iterator[str], warnings: list[str]) -> web.StreamResponse:
    """The answer around the pieces of its result, each written in a step of its own."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    text = f'{{"status":"success","data":{{"resultType":"{kind}","result":['
    for count, piece in enumerate(pieces):
        await response.write(f"{text}{',' if count else ''}{piece}".encode())
        text = ""
        await asyncio.sleep(0)
    text += "]}"
    if warnings:
        text += f',"warnings":{answers.text(warnings)}'
    await response.write(f"{text}}}".encode())
    await response.write_eof()
    return response
