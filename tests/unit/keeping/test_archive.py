"""Kept trails in the whole daemon: they outlive memory and process, are listed with the rest, leave for a reason."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import aiohttp
import msgspec
import pytest

from collector.cli.main import main
from collector.config.settings import Bounds, Settings
from collector.formats import native
from collector.keeping.archive import Archive, Kept
from collector.model.clock import ManualClock
from collector.shell.ticker import Target
from collector.state.store import open_store
from tests.unit.parts import FAILING, T0, Running, batch, event, pipeline, running

TRACE = "0af7651916cd43dd8448eb211c80319c"
FIRST = [
    event("sent", "a1", T0, task="pay.card", trace_id=TRACE),
    event("started", "a1", T0 + 1, task="pay.card", worker="w1", attempt=1),
    event("succeeded", "a1", T0 + 2, task="pay.card", worker="w1", attempt=1),
    event("sent", "b/1?", T0 + 1, task="mail", parent_id="a1", trace_id=TRACE),
    event("started", "b/1?", T0 + 2, task="mail"),
    event("failed", "b/1?", T0 + 3, task="mail", error="TimeoutError"),
    event("sent", "plain", T0 + 4),
    event("succeeded", "plain", T0 + 5),
]


async def holds(check: Callable[[], object]) -> None:
    """Give the loop turns until something holds."""
    async with asyncio.timeout(90):
        while not check():  # noqa: ASYNC110  there is no event for what is looked at
            await asyncio.sleep(0.01)


class Asked:
    """A running daemon and what asks it."""

    def __init__(self, made: Running, http: aiohttp.ClientSession) -> None:
        self.made, self._http = made, http
        self.stitcher = made.daemon.pipeline.stitcher
        made.daemon.pushed_to().axis.clock = "event"

    async def push(self, *bodies: bytes) -> None:
        """Events that are counted."""
        async with self._http.post(f"{self.made.url}/v1/events", data=b"\n".join(bodies)) as answer:
            assert answer.status == 200

    async def get(self, path: str, **params: str):
        """The answer, or its status."""
        async with self._http.get(f"{self.made.url}{path}", params=params) as answer:
            return msgspec.json.decode(await answer.read()) if answer.status == 200 else answer.status

    async def later(self, seconds: float, check: Callable[[], object]) -> None:
        """So much later, something holds."""
        self.made.clock.at += seconds
        beat = event("sent", f"beat{self.made.clock.at}", self.made.clock.at)
        await self.push(beat)
        self.made.daemon.woken()
        await holds(check)
        await holds(lambda: not len(self.stitcher.sieve))
        await holds(lambda: not self.made.daemon.archive._is_writing)

    async def forgotten(self, *task_ids: str) -> None:
        """Memory has forgotten these."""
        for _ in range(8):
            goal = self.made.clock.at + 95
            await self.later(100, lambda goal=goal: self.made.daemon.pipeline.store.frontier >= goal)
        assert [self.stitcher.reader.find(one) for one in task_ids] == [None] * len(task_ids)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """With a state, and a memory that is short."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(FAILING)
    bounds = Bounds(finished_age=120.0)
    return Settings(rules=(str(rules),), state=str(tmp_path / "state"), bounds=bounds)


async def test_what_failed_is_found_when_memory_and_process_are_gone(settings, capsys) -> None:
    """With its trace, and what came of it later; from HTTP and from the commands; a plain success is not."""
    clock = ManualClock(T0)
    async with running(settings, clock=clock) as made, aiohttp.ClientSession() as http:
        asked = Asked(made, http)
        await asked.push(*FIRST)
        await asked.forgotten("a1", "b/1?", "plain")
        await asked.push(event("started", "b/1?", clock.at, task="mail", worker="w9", attempt=2))
        await asked.push(event("succeeded", "b/1?", clock.at + 1, task="mail", worker="w9", attempt=2))
        await asked.forgotten("b/1?")
        before = [await asked.get(path) for path in (f"/api/tasks/{quote('b/1?', safe='')}", f"/api/traces/{TRACE}")]
        assert [one["kind"] for one in before[0]["events"]] == ["sent", "started", "failed", "started", "succeeded"]
        assert (before[0]["state"], before[0]["trace_id"]) == ("succeeded", TRACE)
        assert sorted(one["task_id"] for one in before[1]["tasks"]) == ["a1", "b/1?"]
        assert await asked.get("/api/tasks/plain") == 404
    async with running(settings, clock=clock) as made, aiohttp.ClientSession() as http:
        asked = Asked(made, http)
        after = [await asked.get(path) for path in (f"/api/tasks/{quote('b/1?', safe='')}", f"/api/traces/{TRACE}")]
        assert after == before
        to = "--url", made.url
        line = ["tasks", "--state", "failed", "--task", "ma*", "--since", "1h", "--error", "Timeout", "--json", *to]
        assert await asyncio.to_thread(main, line) == 0
        listed = msgspec.json.decode(capsys.readouterr().out)
        assert [(one["task_id"], one["state"]) for one in listed["tasks"]] == [("b/1?", "failed")]
        assert await asyncio.to_thread(main, ["task", "b/1?", *to]) == 0
        assert "TimeoutError" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["trace", TRACE, *to]) == 0
        assert "2 tasks" in capsys.readouterr().out


async def test_pages_go_over_memory_and_what_was_kept(settings) -> None:
    """Each once, newest first; what memory knows of a task holds, and not what was kept of it before."""
    async with running(settings) as made, aiohttp.ClientSession() as http:
        asked = Asked(made, http)
        await asked.push(*(event("failed", f"old{number}", T0 + number, error="E") for number in range(5)))
        await asked.forgotten("old0")
        at = made.clock.at
        await asked.push(event("failed", "both", at, error="E"))
        homes = asked.stitcher.parts.keep.homes
        await asked.later(100, lambda: all("both" not in home.open for home in homes))
        shelf = made.daemon.archive._shelf
        assert len(await shelf.ask(lambda: shelf.parts("both"), [])) == 1
        await asked.push(event("succeeded", "both", at + 1), event("failed", "new", made.clock.at, error="E"))
        found, after = [], ""
        for _ in range(20):
            page = await asked.get("/api/tasks", state="failed", limit="2", **({"after": after} if after else {}))
            found += [one["task_id"] for one in page["tasks"]]
            if (after := page["next"]) is None:
                break
        assert found == ["new", "old4", "old3", "old2", "old1", "old0"]
        assert [one["task_id"] for one in (await asked.get("/api/tasks", state="succeeded"))["tasks"]] == ["both"]
        assert (await asked.get("/api/tasks", task="a", since="1", queue="q", error="E", limit="3"))["next"]


async def archive_of(tmp_path: Path, count: int, **bounds: float) -> tuple[Archive, object]:
    """An archive that has so many failures to keep."""
    made = pipeline()
    store = open_store(tmp_path, "x")
    archive = Archive(made, ManualClock(T0), store, tmp_path, Kept(**bounds))
    made.axes[0].clock = "event"
    feed = [event("failed", f"n{number}", T0 + number / count, error="E") for number in range(count)]
    made.ingest.count(made.axes[0], native.decode, batch(feed, is_head=True), math.inf)
    for at in (100, 200, 300):
        for _ in made.advance(Target(T0 + at, T0 + at), T0 + at):
            pass
    return archive, store


async def written(archive: Archive) -> None:
    """All is on the disk."""
    async with asyncio.timeout(90):
        while len(archive._sieve) or archive._is_writing:
            await archive.write()
            await asyncio.sleep(0.005)


async def test_every_failure_is_kept_and_leaves_by_age_or_bytes(tmp_path) -> None:
    """In batches of which one is on its way at a time; each that leaves is counted under its reason."""
    archive, store = await archive_of(tmp_path, 3_000, bytes=1_000_000, seconds=1_000.0)
    await written(archive)
    shelf = archive._shelf
    count, size = await shelf.ask(shelf.size, None)
    assert (count, sum(archive.evictions.values())) == (3_000, 0)
    assert size > 1_000_000
    while await archive.retain(shelf):
        await written(archive)
    kept, size = await shelf.ask(shelf.size, None)
    assert 1_000_000 - 2 * size / kept < size <= 1_000_000
    assert archive.evictions["kept_bytes"] == 3_000 - kept
    assert await shelf.ask(lambda: shelf.parts("n0"), None) == []
    archive._clock.at += 2_000
    while await archive.retain(shelf):
        await written(archive)
    assert await shelf.ask(shelf.size, None) == (0, 0)
    assert archive.evictions["kept_age"] == kept
    archive.close()
    assert store.close(60)


async def test_what_waits_at_the_stop_is_written(tmp_path) -> None:
    """A later process finds it."""
    archive, store = await archive_of(tmp_path, 20)
    archive.close()
    assert store.close(60)
    again = open_store(tmp_path, "x")
    assert again.rows("SELECT count(*) FROM kept") == [(20,)]
    assert again.close(60)


async def test_a_lost_task_that_never_ends_stays_listed(settings) -> None:
    """While it is open, after a restart, and when memory has let it go."""
    clock = ManualClock(T0)
    settings = msgspec.structs.replace(settings, bounds=Bounds(finished_age=120.0, open_age=3600.0))

    async def lost(asked: Asked) -> list[str]:
        return [one["task_id"] for one in (await asked.get("/api/tasks", state="lost"))["tasks"]]

    async with running(settings, clock=clock) as made, aiohttp.ClientSession() as http:
        asked = Asked(made, http)
        await asked.push(*(event("heartbeat", "", T0 - back, worker="w1") for back in (6, 4, 2, 0)))
        await asked.push(event("started", "gone", T0, worker="w1", attempt=1))
        await asked.later(60, lambda: asked.stitcher.reader.find("gone").state == "lost")
        assert await lost(asked) == ["gone"]
    async with running(settings, clock=clock) as made, aiohttp.ClientSession() as http:
        asked = Asked(made, http)
        assert await lost(asked) == ["gone"]
        await asked.later(4000, lambda: asked.stitcher.reader.find("gone") is None)
        assert await lost(asked) == ["gone"]
