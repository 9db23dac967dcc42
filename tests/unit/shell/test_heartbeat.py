"""The heartbeat: heard while alerts would come, silent with whatever would keep them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from collector.model.secret import Secret
from collector.shell.heartbeat import Signs, beat, late, why_silent
from collector.shell.telemetry import Telemetry
from tests.unit.parts import until


@pytest.mark.parametrize(
    ("signs", "why"),
    [
        (Signs(), ""),
        (Signs(trouble="the loop has not moved"), "the loop has not moved"),
        (Signs(late=("g",)), "rules are not evaluated: g"),
        (Signs(stuck=frozenset({"pager"})), "nothing is delivered to pager"),
        (Signs(blind=frozenset({"kafka"})), "sources are down and nobody was told yet: kafka"),
        (Signs(blind=frozenset({"kafka"}), told=frozenset({"kafka"})), ""),
    ],
)
def test_what_silences_it(signs: Signs, why: str) -> None:
    """Our loop, rules and delivery do; a source that is down only as long as nobody was told."""
    assert why_silent(signs) == why


def test_rules_are_late_after_three_intervals_and_half_a_minute() -> None:
    """Counted from the last evaluation, or from the start where there was none."""
    assert late([("a", 10, 100), ("b", 10, None)], since=95, now=155) == ()
    assert late([("a", 10, 100), ("b", 10, None)], since=95, now=156) == ("b",)
    assert late([("a", 10, 100), ("b", 10, None)], since=95, now=161) == ("a", "b")


async def test_the_url_is_asked_for_as_long_as_all_is_well(caplog) -> None:
    """Pings come while nothing is wrong and stop when something is; the URL's path is never said."""
    asked: list[str] = []

    async def hear(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response()

    app = web.Application()
    app.router.add_get("/hunter2", hear)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    state, telemetry = {"signs": Signs()}, Telemetry()
    caplog.set_level("DEBUG", "tasktrail")
    work = asyncio.create_task(
        beat(Secret(f"http://127.0.0.1:{port}/hunter2"), 0.01, lambda: state["signs"], telemetry)
    )
    await until(lambda: len(asked) >= 3)
    assert telemetry.get("tasktrail_heartbeat") == 1
    state["signs"] = Signs(trouble="stuck")
    await until(lambda: not telemetry.get("tasktrail_heartbeat"))
    count = len(asked)
    await asyncio.sleep(0.05)
    assert len(asked) == count
    await runner.cleanup()
    state["signs"] = Signs()
    await until(lambda: "not reached" in caplog.text)
    work.cancel()
    await asyncio.wait([work])
    assert "hunter2" not in caplog.text
