"""The demo's parts: a hastened rule file, the simulated fleet, and the view that is drawn of them."""

from __future__ import annotations

import asyncio
import io
import json
import socket

import msgspec
import pytest
from rich.console import Console

from collector.cli import bench, demo, summary
from collector.cli.fleet import OUTAGE, REDRIVE_AT, Fleet
from collector.cli.live import COLUMNS, LiveView
from collector.cli.main import main
from collector.config import rulefiles
from collector.config.settings import Settings
from collector.formats import native
from collector.model.alert import Notification
from collector.model.clock import ManualClock
from collector.wiring.plugs import Feed
from tests.unit.parts import T0, Kept, Running, batch, running, until


def test_a_hastened_rule_file_is_still_one() -> None:
    """The shipped rules in the demo's tempo are valid, evaluated each second, with short windows."""
    for spec in rulefiles.load(["shipped"], demo.hastened):
        assert spec.interval == 1
        for rule in spec.rules:
            assert max(rule.expr.windows, default=0) <= 720
            assert rule.hold <= 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rate(x[5m] offset 30m)", "rate(x[10s] offset 60s)"),
        ("increase(x[30s])", "increase(x[5s])"),
        ("    for: 1m", "    for: 2s"),
        ("- name: g\n", "- name: g\n    interval: 1s\n"),
    ],
)
def test_every_time_is_a_thirtieth(text: str, expected: str) -> None:
    """Windows, offsets and holds shrink alike, windows to 5 s at least."""
    assert demo.hastened(text) == expected


def story(seconds: int, step: float) -> list[dict[str, object]]:
    """What the fleet does up to a second, asked for in steps."""
    fleet, events = Fleet(T0), []
    at = T0
    while at < T0 + seconds:
        at += step
        events += [json.loads(body) for body in fleet.due(at)]
    return events


def test_the_fleet_tells_a_story() -> None:
    """Events come in order of their time; the bad stretch leaves dead letters, and the redrive ends all of them."""
    events = story(25, 0.05)
    times = [event["time"] for event in events]
    assert times == sorted(times)
    dead = {event["task_id"] for event in events if event["kind"] == "dead_lettered"}
    assert dead
    assert {event["task"] for event in events if event["kind"] == "retried"} == {"billing.charge"}
    assert all(T0 + OUTAGE[0] <= event["time"] for event in events if event["kind"] == "failed")
    redriven = {event["task_id"] for event in events if event.get("caller") == "operator"}
    assert redriven <= dead
    assert min(event["time"] for event in events if event.get("caller") == "operator") >= T0 + REDRIVE_AT
    done = {event["task_id"] for event in events if event["kind"] == "succeeded"}
    assert redriven <= done
    decoded = native.decode(batch([json.dumps(event).encode() for event in events]))
    assert not decoded.rejects


def test_a_busy_port_is_replaced_by_a_free_one() -> None:
    """The demo takes the usual port where it is free, and any other where it is not."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = f"127.0.0.1:{taken.getsockname()[1]}"
        other = demo.free_address(wanted)
    assert other != wanted
    assert demo.free_address(other) == other


class Delivers:
    """A source with the first seconds of the fleet."""

    async def run(self, intake) -> None:
        """All at once, then rest."""
        intake.connected("a fleet")
        await intake.take(batch(Fleet(T0 - 8).due(T0), received_at=T0, is_head=True))
        await asyncio.Event().wait()


@pytest.fixture
def console() -> Console:
    """A terminal that writes into memory."""
    return Console(record=True, width=160, height=40, force_terminal=True, color_system=None, file=io.StringIO())


async def played(made: Running) -> None:
    """Twelve seconds go by, each of them seen."""
    for step in range(12):
        made.clock.at = T0 + step
        made.daemon.woken()
        await until(lambda: made.daemon._sampled_at == made.clock.at)


async def test_the_view_shows_what_flows_and_what_alerts(console) -> None:
    """The picture has a row per task with all its numbers, and the newest alerts with their evidence below."""
    view = LiveView(console, "http://x")
    async with running(
        Settings(state="none"),
        feeds=(Feed(name="demo", clock="event", build=Delivers),),
        channels=(view,),
        rewrite=demo.hastened,
    ) as made:
        drawing = asyncio.ensure_future(view.draw(made.daemon))
        console.print(view._picture(made.daemon))
        await played(made)
        await until(lambda: view._said)
        console.print(view._picture(made.daemon))
        drawing.cancel()
    text = console.export_text()
    assert "no alert yet" in text
    for title, _, _ in COLUMNS:
        assert title in text
    for word in ("billing.charge", "payments", "DeadLetter", "firing", "ProviderTimeout"):
        assert word in text


class Remembers(Kept):
    """One that knows its end, too."""

    is_closed = False

    async def close(self) -> None:
        """The end."""
        self.is_closed = True


async def test_the_last_line_sums_up_what_was_shown() -> None:
    """What flowed and went wrong, each alert once however often it was told, and how to go on."""
    kept = Remembers()
    heard = summary.Listener(kept)
    async with running(
        Settings(state="none"),
        feeds=(Feed(name="demo", clock="event", build=Delivers),),
        channels=(heard,),
        rewrite=demo.hastened,
    ) as made:
        await played(made)
        await until(lambda: any(one.status == "firing" for one in kept.sent))
        events = [json.loads(body)["kind"] for body in Fleet(T0 - 8).due(T0)]
        told = {alert.fingerprint for one in kept.sent for alert in one.alerts}
        said = summary.line(made.daemon, heard)
    assert said.startswith(
        f"shown: {len(events):,} events, {events.count('succeeded')} tasks done, {events.count('retried')} retries, "
        f"{events.count('dead_lettered')} dead letters, {events.count('dead_lettered')} of them open; "
        f"{len(told)} alerts fired, 0 resolved. "
    )
    ended = msgspec.structs.replace(kept.sent[0].alerts[0], state="resolved")
    for _ in range(2):
        await heard.send(msgspec.structs.replace(kept.sent[0], alerts=(ended,)))
    assert f"; {len(told)} alerts fired, 1 resolved. " in summary.line(made.daemon, heard)
    await heard.close()
    assert kept.is_closed


async def test_the_view_keeps_the_last_alerts(console) -> None:
    """Of many alerts the last ones have a line each and the newest is whole; at the end all of them stay to be read."""
    view = LiveView(console, "http://x")
    for number in range(20):
        await view.send(
            Notification(
                key=str(number),
                at=T0,
                receiver="r",
                status="firing",
                group_labels=(),
                common_labels=(),
                common_annotations=(),
                alerts=(),
                title=f"alert {number}",
                text=f"text {number}.",
            )
        )
    async with running(Settings(state="none"), clock=ManualClock(T0)) as made:
        console.print(view._picture(made.daemon))
    drawn = console.export_text()
    assert [number for number in range(20) if f"text {number}." in drawn] == [19]
    assert "alert 11" not in drawn
    assert "alert 12" in drawn
    await view.close()
    closing = console.export_text()
    assert [number for number in range(20) if f"text {number}." in closing] == list(range(12, 20))


def test_bench_prints_its_figures(monkeypatch, capsys) -> None:
    """The benchmark in memory prints the cost of decoding alone, of the whole, and of a trail."""
    monkeypatch.setattr(bench, "TRAILS", 2000)
    assert main(["bench", "--messages", "3000", "--repeats", "1"]) == 0
    out = capsys.readouterr().out
    for word in ("3,000 messages", "decoding alone", "decoding, stitching, counting, rules", "memory per open trail"):
        assert word in out
