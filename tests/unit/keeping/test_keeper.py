"""Restarts: what was decided, told and not yet told goes on where it stood, whatever became of the process."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from collector.cli.main import main
from collector.config.settings import Settings, load
from collector.keeping.remembered import Remembered
from collector.model.alert import Notification
from collector.model.clock import ManualClock
from collector.model.errors import ChannelError, TasktrailError
from collector.model.labels import labels_of
from collector.routing.external import Posted
from collector.routing.keeping import Silence
from collector.routing.matchers import matcher
from collector.shell import sendqueue
from collector.shell.delivery import KEPT_SECONDS
from collector.state import rows
from collector.state.store import Store
from collector.wiring.plugs import Feed
from tests.unit.parts import FAILING, T0, Kept, batch, event, running, until

HELD = FAILING.replace("    labels:", "    for: 10s\n    labels:")


class Target(Kept):
    """Keeps what it takes; refuses with `error` where there is one."""

    error: ChannelError | None = None

    def __init__(self, name: str = "kept") -> None:
        super().__init__()
        self.name = name
        self.tries = 0

    async def send(self, notification) -> None:
        """One try."""
        self.tries += 1
        if self.error is not None:
            raise self.error
        await super().send(notification)

    @property
    def said(self) -> list[str]:
        """The states it was told, in order."""
        return [notification.status for notification in self.sent]


class Life:
    """One daemon after the other on one directory, one rule file and one clock. Windows are lost between them."""

    def __init__(self, folder) -> None:
        self.rules = folder / "rules.yaml"
        self.rules.write_text(FAILING)
        self.settings = Settings(state=str(folder / "state"), rules=(str(self.rules),))
        self.database = folder / "state" / "state.db"
        self.clock = ManualClock(T0)

    def start(self, *channels, feeds=(), keeps_windows=False):
        """The next daemon."""
        for checkpoint in () if keeps_windows else Path(self.settings.state).glob("checkpoint*"):
            checkpoint.unlink()
        return running(self.settings, clock=self.clock, channels=channels, feeds=feeds)

    async def at(self, made, seconds: float) -> None:
        """Turn the clock to so many seconds after T0, and let the daemon see it."""
        self.clock.at = T0 + seconds
        made.daemon.woken()
        await until(lambda: made.daemon._sampled_at == self.clock.at)
        await asyncio.sleep(0.03)  # what is decided at the end of the turn

    async def fail(self, made, task_id: str, **fields) -> None:
        """A task fails now."""
        await made.daemon.push(event("failed", task_id, self.clock.at, error="E", **fields), "application/x-ndjson")
        await made.daemon.turn()


@pytest.fixture
def life(tmp_path):
    """A directory to live in."""
    return Life(tmp_path)


def states(made) -> list[str]:
    """Of all alerts."""
    return [alert.state for alert in made.daemon.pipeline.alerts()]


@pytest.mark.case("K02.1")
async def test_a_restart_says_nothing_twice(life) -> None:
    """What was told is not told again; its end is, when the window has passed over what nobody saw; then it is over."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
    life.clock.at = T0 + 2
    async with life.start(channel) as made:
        for seconds in (3, 5, 8, 10):
            await life.at(made, seconds)
        assert states(made) == ["firing"]
        assert channel.said == ["firing"]
        for seconds in (15, 25):
            await life.at(made, seconds)
        await until(lambda: len(channel.sent) == 2)
    first, last = channel.sent
    assert (first.status, last.status) == ("firing", "resolved")
    assert first.alerts[0].active_at == last.alerts[0].active_at == T0
    assert first.key != last.key
    life.clock.at = T0 + 27
    async with life.start(channel) as made:
        await life.at(made, 40)
        assert made.daemon.alerts() == []
    assert len(channel.sent) == 2


async def test_a_start_is_not_held_back_after_a_restart(life) -> None:
    """What begins to fire after a restart is told at once, while ends of before still wait."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
    life.clock.at = T0 + 2
    async with life.start(channel) as made:
        await life.at(made, 3)
        await life.fail(made, "b", task="other")
        await until(lambda: len(channel.sent) == 2)
        assert {dict(one.group_labels)["task"] for one in channel.sent} == {"a", "other"}
        assert states(made) == ["firing", "firing"]


async def test_what_was_not_sent_is_sent_by_the_next(life, caplog) -> None:
    """A notification that its target did not take keeps its key and its words, and says how old it is."""
    channel, again = Target(), Target()
    channel.error = ChannelError("busy", retryable=True, retry_after=600.0)
    with caplog.at_level(logging.INFO, "tasktrail"):
        async with life.start(channel) as made:
            await life.fail(made, "a")
            await until(lambda: channel.tries)
            (waiting,) = made.daemon.delivery._lanes["kept"]._queue.items
            key, text = waiting.notification.key, waiting.notification.text
    assert "1 notification not sent, and kept for the next start" in caplog.text
    life.clock.at = T0 + 130
    async with life.start(again) as made:
        await life.at(made, 131)
        assert again.tries == 0, "the target has asked for rest"
        life.clock.at = T0 + 601
        made.daemon.delivery._lanes["kept"].wake.set()
        await until(lambda: again.sent)
    (sent,) = again.sent[:1]
    assert sent.key == key
    assert sent.text == f"(decided 2 min 10 s ago, sent after a restart)\n{text}"


async def test_a_long_queue_stands_on_the_disk(life, monkeypatch) -> None:
    """What waits far behind is only there; the next daemon sends it whole, in its order, and says how old it is."""
    monkeypatch.setattr(sendqueue, "AT_HAND", 2)
    channel, again = Target(), Target()
    channel.error = ChannelError("away", retryable=True, retry_after=600.0)
    names = [f"task{number}" for number in range(7)]

    def short(made) -> int:
        return sum(not one.is_whole for one in made.daemon.delivery._lanes["kept"]._queue.items)

    async with life.start(channel) as made:
        for number, name in enumerate(names):
            life.clock.at = T0 + number
            await life.fail(made, name, task=name)
            await until(lambda number=number: made.daemon.delivery.waiting()["kept"] == number + 1)
            await until(lambda number=number: made.daemon._keeper.is_kept(number + 1))
        assert (made.daemon.delivery.waiting(), short(made)) == ({"kept": 7}, 4)
        assert all(one.notification.alerts for one in made.daemon.delivery.unsent())
    life.clock.at = T0 + 660 + 6
    async with life.start(again) as made:
        assert short(made) == 5
        await until(lambda: len(again.sent) >= 7)
    sent = [one for one in again.sent if one.status == "firing"]
    assert [dict(one.alerts[0].labels)["task"] for one in sent] == names
    assert all(one.text.startswith("(decided 11 min ") and "owner" in one.text for one in sent)


async def test_what_waited_through_a_long_absence_is_sent_all_the_same(life) -> None:
    """Time in which no daemon tried is no part of a notification's deadline; the end of its alert follows it."""
    channel, again = Target(), Target()
    channel.error = ChannelError("busy", retryable=True)
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.tries)
    life.clock.at = T0 + 7205
    async with life.start(again) as made:
        await until(lambda: again.sent)
        for seconds in (7210, 7225, 7240):
            await life.at(made, seconds)
        await until(lambda: len(again.sent) == 2)
    assert again.said == ["firing", "resolved"]
    assert again.sent[0].text.startswith("(decided 2 h 0 min ago, sent after a restart)\n")


@pytest.mark.case("K09.1")
async def test_the_repeat_goes_on(life) -> None:
    """After a restart the repeat_interval counts from when the target was told, not from the start."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
    life.clock.at = T0 + 14_395
    async with life.start(channel) as made:
        await life.fail(made, "b")
        await life.at(made, 14_398)
        assert len(channel.sent) == 1
        for seconds in (14_402, 14_412):
            await life.fail(made, f"c{seconds}")
            await life.at(made, seconds)
        await until(lambda: len(channel.sent) == 2)
    assert channel.said == ["firing", "firing"]


@pytest.mark.case("K09.1")
async def test_for_goes_on_without_the_time_that_nobody_saw(life) -> None:
    """A pending alert fires when it has held for its time, of which the down-time is no part."""
    life.rules.write_text(HELD)
    channel = Target()
    async with life.start(channel) as made:
        for seconds in (0, 5, 8):
            await life.at(made, seconds)
            await life.fail(made, f"a{seconds}")
        assert states(made) == ["pending"]
    life.clock.at = T0 + 1005
    async with life.start(channel) as made:
        await life.at(made, 1005)
        await life.fail(made, "b")
        assert states(made) == ["pending"]
        await life.at(made, 1010)
        (alert,) = made.daemon.pipeline.alerts()
        assert (alert.state, alert.active_at) == ("firing", T0)
        await until(lambda: channel.sent)


async def test_a_rule_that_is_gone_ends_its_alerts(life) -> None:
    """A rule that was renamed while nobody was there resolves what it had fired, with that reason."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
    life.rules.write_text(FAILING.replace("alert: Failing", "alert: Renamed"))
    life.clock.at = T0 + 3
    async with life.start(channel) as made:
        await life.at(made, 12)
        await until(lambda: len(channel.sent) == 2)
    (alert,) = channel.sent[1].alerts
    assert (alert.state, alert.resolve_reason) == ("resolved", "the rule was taken out of the rule files")
    async with life.start(channel) as made:
        await life.at(made, 40)
    assert len(channel.sent) == 2


@pytest.mark.case("K02.1")
async def test_an_end_that_groups_did_not_hear_of_is_told(life, monkeypatch) -> None:
    """A kill between a rule's end of an alert and its way to the groups loses no end: the next start tells it."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
        monkeypatch.setattr(made.daemon.pipeline.grouping, "insert", lambda *_alerts, **_how: None)
        for seconds in (5, 10, 15):
            await life.at(made, seconds)
        assert states(made) == ["resolved"]
    assert channel.said == ["firing"]
    life.clock.at = T0 + 3600
    async with life.start(channel) as made:
        await until(lambda: len(channel.sent) == 2)
        assert made.daemon.desk.grouping.firing == {}
    assert channel.said == ["firing", "resolved"]
    async with life.start(channel) as made:
        await life.at(made, 3610)
        assert made.daemon.desk.grouping.groups() == []
    assert len(channel.sent) == 2


async def test_an_end_in_a_backlog_that_was_not_heard_of_is_no_news(life, monkeypatch) -> None:
    """The same along a backlog: its summary is told that the episode is over, instead of that it fires."""
    channel = Target()
    async with life.start(channel, feeds=(Feed(name="s", build=Behind),)) as made:
        insert = made.daemon.pipeline.grouping.insert

        def forgets_ends(alerts, now, **how):
            insert([one for one in alerts if one.state != "resolved"], now, **how)

        monkeypatch.setattr(made.daemon.pipeline.grouping, "insert", forgets_ends)
        await until(lambda: made.daemon.pipeline.store.frontier == T0 - 3000)
    async with life.start(channel) as made:
        await life.at(made, 5)
        await life.at(made, 16)
        await until(lambda: channel.sent)
    (summary,) = channel.sent
    assert "while the monitor was away" in summary.title


OUT = Posted(labels=labels_of({"alertname": "Out", "severity": "page"}), starts_at=T0)


async def test_alerts_from_outside_go_on(life) -> None:
    """After a restart they fire, are told once, and end by the word of who posted them."""
    channel = Target()
    async with life.start(channel) as made:
        made.daemon.desk.post([OUT], T0)
        await until(lambda: channel.sent)
    life.clock.at = T0 + 5
    async with life.start(channel) as made:
        (name,) = made.daemon.desk.grouping.firing
        assert made.daemon.desk.external.ends_at(name) == T0 + 305
        await life.at(made, 20)
        assert channel.said == ["firing"]
        made.daemon.desk.post([msgspec.structs.replace(OUT, ends_at=T0 + 21)], T0 + 22)
        await life.at(made, 30)
        await until(lambda: len(channel.sent) == 2)
    assert [(one.state, one.resolved_at) for one in channel.sent[1].alerts] == [("resolved", T0 + 21)]


async def test_alerts_from_outside_end_where_nobody_says_them_again(life) -> None:
    """After a restart one ends after resolve_timeout, as it would have without."""
    channel = Target()
    async with life.start(channel) as made:
        made.daemon.desk.post([OUT], T0)
        await until(lambda: channel.sent)
    life.clock.at = T0 + 5
    async with life.start(channel) as made:
        await life.at(made, 304)
        assert channel.said == ["firing"]
        await life.at(made, 305)
        await life.at(made, 315)
        await until(lambda: len(channel.sent) == 2)
    assert channel.said == ["firing", "resolved"]


async def test_a_drill_ends_with_its_daemon(life) -> None:
    """A drill that was under way is ended by the next daemon, and everybody who heard of it hears that."""
    channel = Target()
    async with life.start(channel) as made:
        made.daemon.desk.drill((), T0, 60.0)
        await until(lambda: channel.sent)
    life.clock.at = T0 + 5
    async with life.start(channel) as made:
        await life.at(made, 6)
        await life.at(made, 12)
        await until(lambda: len(channel.sent) == 2)
        assert len(made.daemon.desk.external) == 0
    assert channel.said == ["firing", "resolved"]


async def test_flapping_goes_on(life) -> None:
    """What began again after a restart flaps as it would have without, and it is said how often it fired in a day."""
    channel = Target()
    async with life.start(channel, keeps_windows=True) as made:
        await life.fail(made, "a")
        for seconds in (5, 10, 15, 25):
            await life.at(made, seconds)
        await until(lambda: channel.said == ["firing", "resolved"])
    life.clock.at = T0 + 30
    async with life.start(channel, keeps_windows=True) as made:
        await life.fail(made, "b")
        await life.at(made, 35)
        await until(lambda: len(channel.sent) == 3)
    again = channel.sent[2]
    assert again.title.startswith("[FLAPPING]")
    assert again.alerts[0].evidence.fired_24h == 2


async def test_a_restart_is_no_start(life) -> None:
    """However often it is started anew, an alert that fires all the while does not flap."""
    channel = Target()
    async with life.start(channel, keeps_windows=True) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
    for seconds in (1, 2, 3):
        life.clock.at = T0 + seconds
        async with life.start(channel, keeps_windows=True) as made:
            ((name, _),) = made.daemon.desk.grouping.firing.items()
            assert made.daemon.desk.flapping.of(name, life.clock.at) is None
            await life.at(made, seconds)
    assert len(channel.sent) == 1


class Holding(Target):
    """A channel whose target must hear again and again what fires."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] = []

    def hold(self, alerts, external_url) -> None:
        """What a former process has told."""
        assert external_url == "http://mon"
        self.held += [dict(alert.labels)["task"] for alert in alerts]


async def test_what_was_told_is_said_again_by_the_next(life) -> None:
    """A channel that says things again is given what fires and was told to its target, and nothing else."""
    written = load("config.yaml", "external_url: http://mon\n", {})  # as it stands in a file, so it is stored
    life.settings = msgspec.structs.replace(life.settings, external_url=written.external_url)
    channel, other, again = Holding(), Target("other"), Holding()
    async with life.start(channel, other) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent and other.sent)
        channel.error = ChannelError("busy", retryable=True, retry_after=600.0)
        await life.at(made, 1)
        await life.fail(made, "b", task="untold")
        await until(lambda: channel.tries == 2)
    assert channel.held == []
    async with life.start(again, other):
        assert again.held == ["a"]


async def test_a_rule_that_moved_keeps_its_alerts(life, tmp_path) -> None:
    """The same rule in another file goes on with its alerts."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
    moved = tmp_path / "moved.yaml"
    life.rules.rename(moved)
    life.settings = msgspec.structs.replace(life.settings, rules=(str(moved),))
    life.clock.at = T0 + 2
    for _ in range(2):
        async with life.start(channel) as made:
            (alert,) = made.daemon.pipeline.alerts()
            assert (alert.active_at, alert.rule) == (T0, f"{moved}:6")
    assert len(channel.sent) == 1


async def test_a_reload_is_kept_too(life) -> None:
    """An alert that a reload ended does not come back with the next start."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
        life.rules.write_text(FAILING.replace("alert: Failing", "alert: Renamed"))
        assert made.daemon.reload() == []
        await made.daemon.turn()
        assert [
            alert.labels for alert in made.daemon.pipeline.alerts() if ("alertname", "Failing") in alert.labels
        ] == []
    async with life.start(channel) as made:
        assert [
            alert.labels for alert in made.daemon.pipeline.alerts() if ("alertname", "Failing") in alert.labels
        ] == []


async def test_a_broken_target_is_announced_once(life) -> None:
    """The default receiver hears that a target refuses, and does not hear it again after a restart."""
    good, bad = Target("good"), Target("bad")

    def notices() -> list[Notification]:
        return [one for one in good.sent if one.receiver == "tasktrail"]

    bad.error = ChannelError("gone", retryable=False)
    async with life.start(good, bad) as made:
        await life.fail(made, "a")
        await until(lambda: len(good.sent) == 2)
    life.clock.at = T0 + 2
    async with life.start(good, bad) as made:
        tries = bad.tries
        await life.fail(made, "b", task="other")
        await until(lambda: bad.tries > tries)
        await until(lambda: len(good.sent) == 3)
        bad.error = None
        await life.at(made, 120)
        await life.fail(made, "c", task="third")
        await until(lambda: [one.status for one in notices()] == ["firing", "resolved"])
    assert [one.alerts[0].active_at for one in notices()] == [T0, T0]


async def test_who_was_told_what_is_on_record(life) -> None:
    """With the key, the target and the time."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
        store: Store = made.daemon._keeper._store
        await until(lambda: store.rows("SELECT key, target, receiver, status FROM told"))
        told = store.rows("SELECT key, target, receiver, status FROM told")
        assert store.rows("SELECT count(*) FROM outbox") == [(0,)]
    assert told == [(channel.sent[0].key, "kept", "default", "firing")]


async def test_a_page_does_not_wait_for_a_disk(life, monkeypatch, caplog) -> None:
    """Where the disk does not answer, a notification goes out after a second all the same, and that is said."""
    release = asyncio.Event()
    asked: list[float] = []

    async def hangs(_store, seconds, _number=None) -> bool:
        asked.append(seconds)
        await release.wait()
        return False

    monkeypatch.setattr(Store, "durable", hangs)
    channel = Target()
    with caplog.at_level(logging.INFO, "tasktrail"):
        async with life.start(channel) as made:
            await life.fail(made, "a")
            await until(lambda: asked)
            assert channel.sent == []
            release.set()
            await until(lambda: channel.sent)
            metric = made.daemon.pipeline.telemetry.get("tasktrail_notifications_unkept", ("kept",))
    assert asked[0] <= KEPT_SECONDS
    assert metric == 1
    assert "goes out before the disk has taken it" in caplog.text


async def test_the_directory_is_held_against_a_second(life) -> None:
    """A second daemon on the directory does not start, and says who has it."""
    async with life.start():
        with pytest.raises(TasktrailError, match="uses it"):
            async with life.start():
                pass


async def test_it_is_said_what_is_kept(life, caplog) -> None:
    """Start-up says where state is kept, and the metric that it is; without a directory that it is not."""
    with caplog.at_level(logging.INFO, "tasktrail"):
        async with life.start() as made:
            assert made.daemon.pipeline.telemetry.get("tasktrail_state_durable") == 1
        assert f"are kept in {life.settings.state}" in caplog.text
        life.settings = msgspec.structs.replace(life.settings, state="none")
        async with life.start() as made:
            assert made.daemon.pipeline.telemetry.get("tasktrail_state_durable") == 0
        assert "memory only" in caplog.text


async def test_what_people_decide_is_said_to_be_kept_or_why_not(life, monkeypatch, capsys) -> None:
    """A full disk is not called a daemon without a state; both are said to whoever makes a silence."""
    says = []
    kept = life.settings.state
    for state, statement, seconds in ((kept, "", 60.0), (kept, "BEGIN IMMEDIATE", 0.05), ("none", "", 60.0)):
        monkeypatch.setattr("collector.daemon.KEPT_SECONDS", seconds)
        life.settings = msgspec.structs.replace(life.settings, state=state)
        async with life.start() as made:
            with closing(sqlite3.connect(life.database)) as other:
                other.execute(statement)
                call = ["silence", "add", "a=b", "-c", "c", "--url", made.url]
                assert await asyncio.to_thread(main, call) == 0
        says.append(capsys.readouterr().err.partition("(")[0])
    assert says == ["", "but the disk does not take it ", "but the daemon keeps no state: a restart forgets it\n"]


class Again:
    """A source that gives once more what it gave before the restart, and is behind until it is let go."""

    def __init__(self) -> None:
        self.caught_up = asyncio.Event()

    async def run(self, intake) -> None:
        """All of it, with its own times."""
        intake.connected("reads")
        bodies = [event("failed", "a", T0, error="E"), event("started", "b", T0 + 3000)]
        await intake.take(batch(bodies, received_at=T0 + 3000, times=[T0, T0 + 3000], is_head=False))
        await self.caught_up.wait()
        await intake.take(batch([], received_at=T0 + 3000, times=[], is_head=True))
        await asyncio.Event().wait()


async def test_what_is_read_once_more_is_not_told_once_more(life) -> None:
    """An alert that was over before a restart does not come back with the events that a source gives again."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        for seconds in (5, 10, 15, 25):
            await life.at(made, seconds)
        await until(lambda: channel.said == ["firing", "resolved"])
        await life.at(made, 2000)
        assert states(made) == []
    life.clock.at = T0 + 3010
    source = Again()
    async with life.start(channel, feeds=(Feed(name="s", build=lambda: source),)) as made:
        await until(lambda: made.daemon.pipeline.store.frontier == T0 + 3000)
        source.caught_up.set()
        await life.at(made, 3020)
        await life.at(made, 3060)
    assert channel.said == ["firing", "resolved"]


class Backlog:
    """A source that is up and behind, until it is let go."""

    def __init__(self) -> None:
        self.caught_up = asyncio.Event()

    async def run(self, intake) -> None:
        """Stand at its head, then fall behind, then catch up."""
        intake.connected("reads")
        await intake.take(batch([event("started", "x", T0)], received_at=T0, times=[T0], is_head=False))
        await self.caught_up.wait()
        await intake.take(batch([], received_at=T0, times=[], is_head=True))
        await asyncio.Event().wait()


OWN = """
groups:
- name: g
  interval: 5s
  rules:
  - alert: Own
    expr: tasktrail_reload_success < 1
"""


@pytest.mark.parametrize("is_read", [True, False], ids=["until-it-is-read", "at-most-30-s"])
async def test_ends_wait_until_the_sources_are_read(life, is_read) -> None:
    """After a restart nothing resolves before every source was read to its head, or half a minute has passed."""
    life.rules.write_text(OWN)
    channel = Target()
    async with life.start(channel) as made:
        made.daemon.pipeline.telemetry.set("tasktrail_reload_success", (), 0.0)
        await life.at(made, 5)
        await until(lambda: channel.sent)
    source = Backlog()
    life.clock.at = T0 + 6
    feeds = (Feed(name="behind", build=lambda: source),)
    async with life.start(channel, feeds=feeds) as made:
        await life.at(made, 10)
        await life.at(made, 20)
        assert states(made) == ["firing"]
        if is_read:
            source.caught_up.set()
            await until(lambda: all(axis.is_at_head for axis in made.daemon.axes))
            await life.at(made, 21)
            await life.at(made, 25)
        else:
            await life.at(made, 35)
            assert states(made) == ["firing"]
            await life.at(made, 37)
            await life.at(made, 40)
        assert states(made) == ["resolved"]


async def test_what_was_given_up_is_written_anew(life, monkeypatch) -> None:
    """Where the bound in memory was hit while the disk took nothing, all is written once more when it does."""
    channel = Target()
    async with life.start(channel) as made:
        await life.fail(made, "a")
        await until(lambda: channel.sent)
        store: Store = made.daemon._keeper._store
        assert await store.durable()
        with monkeypatch.context() as patched:
            patched.setattr(store, "put_all", lambda _statements: setattr(store, "_lost", 1) or 0)
            await life.at(made, 1)
            await life.fail(made, "b", task="other")
            await until(lambda: len(channel.sent) == 2)
        await life.at(made, 3)
        assert await store.durable(number=store.put_all([]))
        assert len(store.rows("SELECT * FROM alerts")) == len(store.rows("SELECT * FROM groups")) == 2
    life.clock.at = T0 + 4
    async with life.start(channel) as made:
        assert states(made) == ["firing", "firing"]
        await life.at(made, 8)
    assert len(channel.sent) == 2


async def test_what_was_given_up_is_written_anew_for_targets_and_people_too(life, monkeypatch) -> None:
    """After a loss the outbox, refusing targets, silences and acks are on the disk as they are in memory."""
    away, refusing = Target("away"), Target("refusing")
    away.error = lost = ChannelError("away", retryable=True)
    async with life.start(away, refusing) as made:
        desk, store = made.daemon.desk, made.daemon._keeper._store
        await life.fail(made, "a")
        await until(lambda: refusing.sent and away.tries)
        desk.silence(silence("other"), T0)
        desk.ack(desk.grouping.firing, "ann", "", T0, 600.0)
        await life.at(made, 1)
        assert await store.durable()
        with monkeypatch.context() as patched:
            patched.setattr(store, "put_all", lambda _statements: 0)
            refusing.error, away.error = ChannelError("gone", retryable=False), None
            await life.fail(made, "b", task="other")
            await until(lambda: refusing.tries == 2)
            await life.at(made, 4)
            await until(lambda: len(away.sent) == 3)  # both alerts, and that the other target refuses
            away.error = lost
            await life.fail(made, "c", task="third")
            await until(lambda: away.tries >= 5 and not made.daemon.delivery.waiting()["refusing"])
            desk.silence(silence("third"), T0 + 4)
            (acked,) = desk.acks.listed(T0 + 4)
            desk.acks.end(acked.fingerprint)
            desk.ack([name for name in desk.grouping.firing if name != acked.fingerprint], "ben", "", T0 + 4, 600.0)
        store._lost = 1
        await life.at(made, 6)
        number = store.put_all([])
        assert await store.durable(number=number)
        ((target, tries),) = store.rows("SELECT target, tries FROM outbox")
        assert (target, tries > 0) == ("away", True)
        assert [name for (name,) in store.rows("SELECT name FROM meta WHERE name LIKE 'broken%'")] == [
            "broken refusing"
        ]
        kept = Remembered(store)
        assert [ack.author for ack in kept.acks()] == ["ben", "ben"]
        assert {one.matchers[0].value for one in kept.silences()} == {"other", "third"}
    sent, away.error = len(away.sent), None
    life.clock.at = T0 + 9
    async with life.start(away, refusing) as made:
        await until(lambda: len(away.sent) > sent)
        assert not made.daemon.delivery.waiting()["away"]
    (last,) = away.sent[sent:]
    assert dict(last.group_labels)["task"] == "third"


async def test_what_is_written_anew_is_what_was_decided(life) -> None:
    """The age that a message is given after a restart does not become a part of what is kept of it."""
    away = Target()
    away.error = ChannelError("away", retryable=True)
    async with life.start(away) as made:
        await life.fail(made, "a")
        await until(lambda: away.tries)
    async with life.start(away) as made:
        (kept,) = rows.found(made.daemon._keeper._store).unsent
        (anew,) = made.daemon.delivery.unsent()
        assert (anew.row, anew.notification, anew.tries >= kept.tries) == (kept.row, kept.notification, True)


def silence(value: str) -> Silence:
    """One that no alert matches, known by a value."""
    matchers = (matcher("nobody", "=", value),)
    return Silence(id="", matchers=matchers, starts_at=T0, ends_at=T0 + 600, created_by="ann", comment="known")


class Behind:
    """A source with a backlog that is not read to its end."""

    async def run(self, intake) -> None:
        """An hour-old failure, and then nothing for long."""
        intake.connected("reads")
        bodies = [event("failed", "old", T0 - 3600, error="E"), event("started", "b", T0 - 3000)]
        await intake.take(batch(bodies, received_at=T0, times=[T0 - 3600, T0 - 3000], is_head=False))
        await asyncio.Event().wait()


async def test_what_a_backlog_told_is_summed_up_by_the_next(life) -> None:
    """What fired and ended in a backlog is told in its summary, also where the daemon dies before its end."""
    channel = Target()
    async with life.start(channel, feeds=(Feed(name="s", build=Behind),)) as made:
        await until(lambda: made.daemon.pipeline.store.frontier == T0 - 3000)
        assert channel.sent == []
    async with life.start(channel) as made:
        await life.at(made, 5)
        await life.at(made, 16)
        await until(lambda: channel.sent)
        store: Store = made.daemon._keeper._store
        await until(lambda: store.rows("SELECT count(*) FROM past") == [(0,)])
    (summary,) = channel.sent
    assert "while the monitor was away" in summary.title
    assert [alert.active_at for alert in summary.alerts] == [T0 - 3600]
