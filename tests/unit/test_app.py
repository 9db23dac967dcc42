"""The whole process in a test: it starts, alerts, stops in order and in time, and ends loudly where it has a bug."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from collector import app
from collector.config.schemes import SCHEMES, WATCHED
from collector.config.settings import Bounds, Settings
from collector.config.source_urls import parse_source
from collector.documents import Duration
from collector.keeping.checkpoints import Checkpoints
from collector.model.clock import ManualClock, SteadyClock
from collector.model.errors import ProblemsError, TasktrailError
from collector.model.secret import Secret
from collector.trail.keep import Bounds as TrailBounds
from collector.wiring import doors
from collector.wiring.plugs import Feed, feed
from tests.unit.parts import FAILING, T0, Kept, Machine, batch, event, running, until

SETTINGS = Settings(state="none", listen="127.0.0.1:0")


@pytest.fixture
def settings(tmp_path):
    """Settings with one rule file."""
    path = tmp_path / "rules.yaml"
    path.write_text(FAILING)
    return msgspec.structs.replace(SETTINGS, rules=(str(path),))


class Once:
    """A source that delivers bodies and rests, or ends."""

    def __init__(self, *bodies: bytes, ends: bool = False, at: float = T0) -> None:
        self._bodies = bodies
        self._ends = ends
        self._at = at
        self.cancelled = False

    async def run(self, intake) -> None:
        """Deliver."""
        intake.connected("reads")
        times = [self._at] * len(self._bodies)
        await intake.take(batch(self._bodies, received_at=self._at, times=times, is_head=True))
        if self._ends:
            return
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True


class Later:
    """A source whose broker is on the machine's clock; it delivers one body when it is told to."""

    def __init__(self, body: bytes, machine: Machine) -> None:
        self._body, self._machine = body, machine
        self.go = asyncio.Event()

    async def run(self, intake) -> None:
        """Be at the end, then deliver."""
        intake.connected("reads")
        await intake.take(batch([], received_at=self._machine.now(), is_head=True))
        await self.go.wait()
        now = self._machine.now()
        await intake.take(batch([self._body], received_at=now, times=[now], is_head=True))
        await asyncio.Event().wait()


FAILED = event("failed", "bad", T0, error="E")


async def test_an_event_becomes_a_notification(settings, caplog) -> None:
    """From a source over rules and routing to a channel; and start-up says what it reads, sends to and lacks."""
    channel = Kept()
    with caplog.at_level(logging.INFO, "tasktrail"):
        async with running(settings, feeds=(Feed(name="one", build=lambda: Once(FAILED)),), channels=(channel,)):
            await until(lambda: channel.sent)
    (notification,) = channel.sent
    assert (notification.status, dict(notification.group_labels)["alertname"]) == ("firing", "Failing")
    said = caplog.text
    assert "listens on http://127.0.0.1:" in said
    assert "memory only" in said
    assert "source one: connected, reads" in said
    assert "no --external-url" in said
    assert "no --notify" not in said
    assert said.index("stopping: ") < said.index("stopped")


@pytest.mark.parametrize("over_a_restart", [False, True])
async def test_a_clock_that_is_set_back_blinds_nobody(settings, tmp_path, over_a_restart) -> None:
    """What fails after it alerts at once, on the clock of a broker that was set back too; it is said."""
    settings = msgspec.structs.replace(settings, state=str(tmp_path / "state"))
    machine, channel = Machine(T0), Kept()
    if over_a_restart:
        async with running(settings, clock=SteadyClock(machine)) as made:
            await made.daemon.push(event("sent", "before", T0), "")
    steady = SteadyClock(machine)
    made_of = {"feeds": (Feed(name="one", build=lambda: source),), "channels": (channel,)}
    source = Later(event("failed", "bad", error="E"), machine)
    if over_a_restart:
        machine.set_by = -3600.0
    async with running(settings, clock=steady, **made_of) as made:
        await until(lambda: made.daemon.is_ready)
        machine.set_by = -3600.0
        source.go.set()
        async with asyncio.timeout(10):
            while not channel.sent:
                machine.at += 0.1
                await asyncio.sleep(0.005)
        telemetry = made.daemon.pipeline.telemetry
        await until(lambda: telemetry.get("tasktrail_clock_ahead_seconds") > 3500)
    assert dict(channel.sent[0].group_labels)["alertname"] == "Failing"


A = "redis-stream://h:1/0/a"


@pytest.mark.parametrize(
    ("names", "positions"),
    [
        ([A, "redis-stream://h:1/0/a,b"], [None, "1-0"]),
        ([A, "redis-stream://h:1/0/b,a", A], [None, "1-0", "2-0"]),
        ([A, "redis-stream://h:1/1/a"], [None, None]),
        ([A, "redis-stream://h:2/0/a"], [None, None]),
        ([A, "payments", "other", A, "payments"], [None, None, None, "1-0", "2-0"]),
    ],
)
async def test_another_list_of_sources_reads_nothing_twice(settings, tmp_path, names, positions) -> None:
    """One that is named by what it reads goes on where each of it was read to, and one that is put back where it was.

    Another server's is another.
    """
    settings = msgspec.structs.replace(settings, state=str(tmp_path / "state"))
    found = []

    class Stream:
        async def run(self, intake) -> None:
            found.append(intake.position("a"))
            intake.connected("reads")
            bodies = [event("sent", f"{len(found)}", T0)]
            await intake.take(batch(bodies, place="a", position=f"{len(found)}-0", is_head=True))
            await asyncio.Event().wait()

    for number, name in enumerate(names, 1):
        async with running(settings, feeds=(Feed(name=name, build=Stream, is_tailed=True),)) as made:
            places = made.daemon.lanes[0].axis.places
            await until(lambda places=places, at=f"{number}-0": "a" in places and places["a"].position == at)
    assert found == positions


async def test_what_was_seen_is_said_once(settings, caplog) -> None:
    """Some seconds after the start it is said of each source what it has delivered, once."""
    with caplog.at_level(logging.INFO, "tasktrail"):
        async with running(settings, feeds=(Feed(name="one", build=lambda: Once(FAILED)),)) as made:
            await until(lambda: made.daemon.axes[0].totals.read)
            for seconds in (6, 8, 10):
                made.clock.at = T0 + seconds
                made.daemon.woken()
                await until(lambda: made.daemon._sampled_at == made.clock.at)
    assert caplog.text.count("source one: 1 event seen") == 1
    assert caplog.text.count("source http: no event yet") == 1


async def test_what_was_pushed_needs_no_source(settings) -> None:
    """Without any source the push endpoint is there, under the name http."""
    async with running(settings) as made:
        assert [(axis.name, axis.is_up, axis.is_pushed) for axis in made.daemon.axes] == [("http", True, True)]
        assert made.daemon.is_ready


async def test_a_configured_push_endpoint_has_its_own_name(settings) -> None:
    """A source of scheme http names and places what is pushed."""
    url = parse_source("http://127.0.0.1:9810/v1/events?clock=event&application=shop&name=pushed", {}, Secret)
    async with running(msgspec.structs.replace(settings, sources=(url,))) as made:
        (axis,) = made.daemon.axes
        assert (axis.name, axis.application, axis.clock) == ("pushed", "shop", "event")


async def test_a_finite_source_ends_without_ending_the_process(settings) -> None:
    """A file that was read to its end stays up, and the daemon goes on."""
    async with running(settings, feeds=(Feed(name="file", build=lambda: Once(FAILED, ends=True)),)) as made:
        await until(made.daemon.alerts)
        await asyncio.sleep(0)
        assert not made.ended.done()
        assert made.daemon.axes[0].is_up


async def test_a_start_up_backlog_is_walked(settings) -> None:
    """What a source holds from before the start is evaluated along its own time, and told as the past."""
    channel = Kept()
    hour_old = Once(event("failed", "old", T0 - 3600), event("failed", "new", T0 - 1), at=T0)
    feeds = (Feed(name="one", clock="event", build=lambda: hour_old),)
    async with running(settings, feeds=feeds, channels=(channel,)) as made:
        await until(lambda: made.daemon.axes[0].totals.read)
        for second in range(1, 20):
            made.clock.at = T0 + second
            made.daemon.woken()
            await until(lambda: made.daemon._sampled_at == made.clock.at)
        await until(lambda: len(channel.sent) == 3)
        assert [one.active_at for one in made.daemon.pipeline.alerts()] == [T0 - 1]
    summary, begun, ended = channel.sent
    assert "while the monitor was away" in summary.title
    assert summary.alerts[0].active_at == T0 - 3600
    assert (begun.status, ended.status) == ("firing", "resolved")


class Stubborn:
    """A source that does not end when it is cancelled, until the test lets it go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.gone = asyncio.Event()

    async def run(self, intake) -> None:
        """Hang on."""
        intake.connected("reads")
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        self.gone.set()


async def test_a_source_that_hangs_is_left_behind(settings, monkeypatch, caplog) -> None:
    """A source that does not end when it is told to does not keep the process from ending."""
    monkeypatch.setattr(app, "STOP_SECONDS", 0.05)
    monkeypatch.setattr(app, "CLOSE_SECONDS", 0.05)
    stubborn = Stubborn()
    caplog.set_level(logging.INFO, "tasktrail")
    async with running(settings, feeds=(Feed(name="stubborn", build=lambda: stubborn),)) as made:
        await until(lambda: made.daemon.is_ready)
    assert made.ended.result() == 0
    assert not stubborn.gone.is_set()
    assert "source stubborn did not end" in caplog.text
    stubborn.let_go.set()
    await stubborn.gone.wait()


class Hanging(Kept):
    """A channel that never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def send(self, _notification) -> None:
        """Never confirm."""
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_second_signal_ends_at_once(settings) -> None:
    """While the queues are drained, a second signal skips to the end."""
    channel = Hanging()
    async with running(settings, feeds=(Feed(name="one", build=lambda: Once(FAILED)),), channels=(channel,)) as made:
        await channel.asked.wait()
        made.stop.set()
        await asyncio.sleep(0.01)
        assert not made.ended.done()
        made.hurry.set()
        assert await made.ended == 0


async def test_draining_has_a_deadline(settings, monkeypatch, caplog) -> None:
    """A target that does not answer holds up the end until the deadline, and what it did not take is said."""
    monkeypatch.setattr(app, "DRAIN_SECONDS", 0.05)
    channel = Hanging()
    with caplog.at_level(logging.INFO, "tasktrail"):
        feeds = (Feed(name="one", build=lambda: Once(FAILED)),)
        async with running(settings, feeds=feeds, channels=(channel,)):
            await channel.asked.wait()
    assert "1 notification not sent" in caplog.text


async def test_the_whole_stop_has_a_deadline(settings, monkeypatch) -> None:
    """Whatever hangs while the daemon stops, it ends."""
    monkeypatch.setattr(app, "DEADLINE_SECONDS", 0.05)
    channel = Hanging()
    async with running(settings, feeds=(Feed(name="one", build=lambda: Once(FAILED)),), channels=(channel,)) as made:
        await channel.asked.wait()
    assert made.ended.result() == 0


async def test_what_is_ripe_at_the_end_is_sent(settings) -> None:
    """An alert that a last batch caused is evaluated and sent before the process ends."""
    channel = Kept()
    source = Once(FAILED)
    async with running(settings, feeds=(Feed(name="one", build=lambda: source),), channels=(channel,)) as made:
        await until(lambda: made.daemon.axes[0].totals.read)
    assert source.cancelled
    assert len(channel.sent) == 1


class Broken:
    """A source with a bug."""

    async def run(self, intake) -> None:
        """Fail as nobody expects."""
        intake.connected("reads")
        raise ZeroDivisionError


async def test_a_bug_ends_the_process(settings) -> None:
    """An error that nobody declared ends the daemon with that error, and gives the port back."""
    async with running(settings, feeds=(Feed(name="broken", build=Broken),)) as made:
        await asyncio.wait([made.ended])
    with pytest.raises(ZeroDivisionError):
        made.ended.result()


async def test_a_bug_while_stopping_is_not_hidden(settings) -> None:
    """A source that fails when it is told to end makes the end a failure."""

    class Late(Once):
        async def run(self, intake) -> None:
            try:
                await super().run(intake)
            finally:
                raise ZeroDivisionError

    async with running(settings, feeds=(Feed(name="late", build=Late),)) as made:
        await until(lambda: made.daemon.is_ready)
    with pytest.raises(ZeroDivisionError):
        made.ended.result()


async def fails_at_the_end(checkpoints: Checkpoints) -> None:
    """A bug that shows only while the daemon stops."""
    await checkpoints._is_ending.wait()
    raise ZeroDivisionError


async def fails(checkpoints: Checkpoints) -> None:
    """A bug in the last one."""
    checkpoints._is_ending.set()
    checkpoints._log.close()
    raise ZeroDivisionError


async def test_what_fires_on_over_a_restart_does_not_flap(settings, tmp_path) -> None:
    """An alert that never ended, and that nobody is told of, is no other after a restart than before."""
    (tmp_path / "rules.yaml").write_text(
        "groups: [{name: g, rules: [{alert: Watchdog, expr: vector(1), labels: {severity: none}}]}]"
    )
    kept = msgspec.structs.replace(settings, state=str(tmp_path / "state"))
    for at in (T0, T0 + 60):
        async with running(kept, clock=ManualClock(at)) as made:
            grouping = made.daemon.pipeline.grouping
            await until(lambda: grouping.firing)  # noqa: B023  awaited within its turn
            (changes,) = made.daemon.pipeline.desk.flapping.changes.values()
            assert (changes.started_at, changes.starts) == (T0, 1)


@pytest.mark.parametrize(("name", "stand_in"), [("keep", fails_at_the_end), ("close", fails)])
async def test_a_bug_in_the_last_checkpoint_is_not_hidden(settings, tmp_path, monkeypatch, name, stand_in) -> None:
    """Where the last checkpoint, or the one before it, fails as nobody expects, the end is a failure."""
    monkeypatch.setattr(Checkpoints, name, stand_in)
    async with running(msgspec.structs.replace(settings, state=str(tmp_path / "state"))) as made:
        await until(lambda: made.daemon.is_ready)
    with pytest.raises(ZeroDivisionError):
        made.ended.result()


async def test_a_bug_while_draining_is_not_hidden(settings) -> None:
    """A channel that fails as nobody expects while the queues are drained makes the end a failure."""

    class Late(Hanging):
        async def send(self, _notification) -> None:
            self.asked.set()
            await made.stop.wait()
            await asyncio.sleep(0.05)
            raise ZeroDivisionError

    channel = Late()
    async with running(settings, feeds=(Feed(name="one", build=lambda: Once(FAILED)),), channels=(channel,)) as made:
        await channel.asked.wait()
    with pytest.raises(ExceptionGroup) as failed:
        made.ended.result()
    assert failed.group_contains(ZeroDivisionError)


async def problems_of(settings: Settings) -> list[str]:
    """What a start is refused with."""
    with pytest.raises(ProblemsError) as refused:
        await app.run(settings, asyncio.Event(), clock=ManualClock(T0))
    return [str(problem) for problem in refused.value.problems]


async def test_every_problem_is_reported_at_once(settings, tmp_path) -> None:
    """Rules, targets, token and settings that cannot be used are refused together, before anything has started."""
    wrong = msgspec.structs.replace(
        settings,
        rules=(*settings.rules, str(tmp_path / "missing.yaml")),
        notify=(Secret("nonsense"), Secret("nonsense2")),
        token_file=str(tmp_path / "token"),
        tasks="tasks.yaml",
        routes="routes.yaml",
        labels=("tenant",),
    )
    found = "\n".join(await problems_of(wrong))
    for word in ("missing.yaml", "notify:1", "notify:2", "token", "tasks.yaml:1:1", "routes.yaml:1:1", "`labels`"):
        assert word in found


async def test_texts_of_alerts_name_the_external_labels(settings, tmp_path) -> None:
    """What the configuration says of this daemon is what `$externalLabels` of a template is."""
    path = tmp_path / "rules.yaml"
    path.write_text(FAILING.replace("{{ $value }} failed", "{{ $externalLabels.region }}"))
    channel = Kept()
    wanted = msgspec.structs.replace(settings, rules=(str(path),), external_labels={"region": "eu-1"})
    async with running(wanted, feeds=(Feed(name="one", build=lambda: Once(FAILED)),), channels=(channel,)):
        await until(lambda: channel.sent)
    assert dict(channel.sent[0].common_annotations)["summary"] == "eu-1"


async def test_a_target_named_twice_is_refused(settings) -> None:
    """The same target twice would be told everything twice."""
    url = Secret("webhook+http://127.0.0.1:9/hook")
    (problem,) = await problems_of(msgspec.structs.replace(settings, notify=(url, url)))
    assert "twice" in problem


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "one line"),
        (" \n", "one line"),
        ("geheim\r\nx\n", "one line"),
        ("gehe\x1bim", "one line"),
        ("geh\u00e9im", "one line"),
        (None, "cannot be read: No such file or directory: check the path"),
    ],
)
async def test_a_token_must_be_there(settings, tmp_path, content: str | None, word: str) -> None:
    """A token file without a token, or with more than that, is refused, and nothing of what it holds is shown."""
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    (problem,) = await problems_of(msgspec.structs.replace(settings, token_file=str(path)))
    assert word in problem
    assert "im" not in problem


def test_a_token_is_the_line_of_its_file(settings, tmp_path) -> None:
    """White space around the token is not part of it, and it prints as stars."""
    path = tmp_path / "token"
    path.write_text(" s3cret\n")
    token = doors.read(msgspec.structs.replace(settings, token_file=str(path))).token
    assert token is not None
    assert (token.reveal(), str(token)) == ("s3cret", "***")


async def test_a_busy_port_is_one_line(settings) -> None:
    """An address that cannot be had is refused with a sentence that says what to choose."""
    async with running(settings) as made:
        port = made.url.rpartition(":")[2]
        busy = msgspec.structs.replace(settings, listen=f"127.0.0.1:{port}")
        with pytest.raises(TasktrailError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another --listen"):
            await app.run(busy, asyncio.Event(), clock=ManualClock(T0))


async def test_a_listener_on_ipv6(settings, caplog) -> None:
    """A v6 address is listened on, and shown in brackets."""
    wanted = msgspec.structs.replace(settings, listen="[::1]:0")
    stop = asyncio.Event()
    with caplog.at_level(logging.INFO, "tasktrail"):
        parts = app.Parts(started=lambda _daemon, _port: stop.set())
        assert await app.run(wanted, stop, clock=ManualClock(T0), parts=parts) == 0
    assert "listens on http://[::1]:" in caplog.text


def test_bounds_are_those_of_the_configuration() -> None:
    """Each bound of the configuration is the one that holds."""
    bounds = Bounds(
        open_trails=1,
        open_age=Duration(2),
        trail_bytes=3,
        finished_ids=4,
        finished_age=Duration(5),
        series=6,
        series_idle=Duration(7),
    )
    limits = app.limits(msgspec.structs.replace(SETTINGS, bounds=bounds, grace=8))
    assert limits.bounds == TrailBounds(open_trails=1, open_seconds=2, bytes=3, finished_ids=4, finished_seconds=5)
    assert (limits.series, limits.idle_seconds, limits.grace) == (6, 7, 8)


URLS = [
    ("kafka://h:9092/a,b?security_protocol=SASL_SSL&sasl_mechanism=PLAIN&sasl_username=u&sasl_password=p", False),
    ("redis-stream://u:p@h:6379/2/st?tls=true", False),
    *((f"{name}+{redis}://u:p@h", False) for name in WATCHED for redis in ("redis", "rediss")),
    ("unix:///tmp/x.sock", True),
    ("file:///tmp/x.ndjson", False),
    ("stdin:", False),
]


@pytest.mark.parametrize(("url", "is_pushed"), URLS)
def test_every_scheme_has_its_source(url: str, *, is_pushed: bool) -> None:
    """Each scheme builds a new client each time, which shows no secret."""
    made = feed(parse_source(url, {}, Secret))
    assert made.build is not None
    first, second = made.build(), made.build()
    assert first is not second
    assert made.is_pushed is is_pushed
    assert "'p'" not in repr(vars(first))


OF_THE_FORMAT = {"format", "retry", "dead_letter"}
"""What changes how records are read, not how they are fetched."""
WRITTEN = {"tls": "true", "poll": "7s"}
PLACES = {"kafka": "kafka://h/", "redis-stream": "redis-stream://h/0/", "rq+redis": "rq+redis://h/0/"}
OPTIONS = [
    (scheme, name, WRITTEN.get(name) or (option.choices[-1] if option.choices else "written"))
    for scheme in PLACES
    for name, option in SCHEMES[scheme].options.items()
    if name not in OF_THE_FORMAT
]


@pytest.mark.parametrize(("scheme", "name", "value"), OPTIONS)
def test_every_option_of_a_source_reaches_its_client(scheme: str, name: str, value: str) -> None:
    """No option is accepted and then forgotten: each changes what the client is built with."""
    path = "" if name in {"topics", "streams", "queues", "topic_pattern"} else "t"
    plain, wanted = (
        feed(parse_source(PLACES[scheme] + place, {"name": "n", **written}, Secret)).build()
        for place, written in (("t", {}), (path, {name: value}))
    )
    assert wanted._options != plain._options


@pytest.mark.parametrize("option", ["format=messages", "retry=*-retry", "dead_letter=*.dead"])
@pytest.mark.parametrize("place", [PLACES["kafka"], PLACES["redis-stream"]])
def test_options_of_the_format_change_how_records_are_read(place: str, option: str) -> None:
    """With any of them a message without a kind is no broken event."""
    body = batch([b'{"id": "1", "type": "a"}'], place="t/0")
    plain, messages = (feed(parse_source(place + rest, {}, Secret)).decode(body) for rest in ("t", f"t?{option}"))
    assert [reject.reason for reject in plain.rejects] == ["missing_kind"]
    assert [event.kind for event in messages.events] == ["sent"]


def test_settings_show_no_secret() -> None:
    """The repr of settings, which stands in tracebacks, has stars for targets, passwords and tokens."""
    url = parse_source("kafka://u:hunter2@h/a?sasl_password=hunter3", {}, Secret)
    settings = msgspec.structs.replace(SETTINGS, sources=(url,), notify=(Secret("webhook+http://h/?token=hunter4"),))
    assert "hunter" not in repr(settings)
