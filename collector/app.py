"""The composition root: settings in, a running process out. Start forward, stop backward, against one deadline.

Readable top to bottom: rules, pipeline, targets, daemon, listener, sources; then wait; then the same way back.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from collector import __version__, channels, supervisor
from collector.alerting.rulefile import GroupSpec
from collector.alerting.rulefile import load as load_rule_file
from collector.axis import Axis
from collector.daemon import Daemon
from collector.delivery import Delivery
from collector.intake import Lane
from collector.model.alert import Channel
from collector.model.clock import Clock, SystemClock
from collector.model.errors import ChannelError, Problem, ProblemsError, TasktrailError
from collector.model.record import Source
from collector.model.secret import Secret
from collector.pipeline import Limits, Pipeline
from collector.plugs import PUSHED, Feed, feed, runbooks, shipped
from collector.promql import compile_expr
from collector.routing.grouping import Target as Receiver
from collector.routing.message import Wording
from collector.settings import Settings
from collector.telemetry import Telemetry
from collector.trail.keep import Bounds
from collector.web.server import Listener, application

DRAIN_SECONDS = 4.0
"""What is queued for targets is tried for so long at the end."""
TURN_SECONDS = 1.0
"""What was counted is evaluated for so long at the end."""
STOP_SECONDS = 3.0
"""Sources have so long to close."""


def rule_files(rules: Sequence[str]) -> list[Path]:
    """The files behind `rules:`; `shipped` is the package's own. Raises ProblemsError for what is not there."""
    files: list[Path] = []
    problems: list[Problem] = []
    for name in rules:
        path = shipped() if name == "shipped" else Path(name)
        found = sorted(page for page in path.glob("*.y*ml") if not page.stem.endswith("_test")) if path.is_dir() else [path]
        if not path.exists() or not found:
            problems.append(Problem(name, 1, 1, "no rule file is here: give the path of one, a folder of them, or `shipped`"))
        files += found
    if problems:
        raise ProblemsError(problems)
    return files


def load_rules(rules: Sequence[str], rewrite: Callable[[str], str] = str) -> list[GroupSpec]:
    """The groups of all rule files. Raises ProblemsError with every problem of every file."""
    specs: list[GroupSpec] = []
    problems: list[Problem] = []
    for path in rule_files(rules):
        try:
            text = path.read_text(encoding="utf-8")
            specs += load_rule_file(str(path), rewrite(text), compile_expr).groups
        except ProblemsError as error:
            problems += error.problems
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(str(path), 1, 1, f"cannot be read: {error}"))
    if problems:
        raise ProblemsError(problems)
    return specs


def limits(settings: Settings) -> Limits:
    """The bounds of the configuration as the pipeline takes them."""
    bounds = settings.bounds
    return Limits(
        bounds=Bounds(
            open_trails=bounds.open_trails,
            open_seconds=bounds.open_age,
            bytes=bounds.trail_bytes,
            finished_ids=bounds.finished_ids,
            finished_seconds=bounds.finished_age,
        ),
        grace=settings.grace,
        series=bounds.series,
        idle_seconds=bounds.series_idle,
    )


class Parts(msgspec.Struct, kw_only=True):
    """What a caller may put in place of what the settings say: demo and tests do."""

    feeds: tuple[Feed, ...] = ()
    channels: tuple[Channel, ...] = ()
    rewrite: Callable[[str], str] = str
    """Goes over the text of rule files before they are read."""
    started: Callable[[Daemon, int], None] = lambda _daemon, _port: None
    """Told when the listener has its port."""


async def run(
    settings: Settings,
    stop: asyncio.Event,
    *,
    hurry: asyncio.Event | None = None,
    clock: Clock | None = None,
    parts: Parts | None = None,
) -> int:
    """Run the daemon until `stop` is set, then drain; `hurry` ends the draining at once. Gives the exit code.

    Raises ProblemsError or TasktrailError before anything has started; any other exception is a bug, and ends the
    process.
    """
    clock, parts, hurry = clock or SystemClock(), parts or Parts(), hurry or asyncio.Event()
    telemetry = Telemetry()
    pages = runbooks()
    read_rules = partial(load_rules, settings.rules, parts.rewrite)
    targets = [*parts.channels, *open_targets(settings, telemetry)]
    pipeline = Pipeline(
        limits(settings),
        read_rules(),
        telemetry=telemetry,
        receivers={"default": [Receiver(target.name) for target in targets]},
        wording=Wording(external_url=settings.external_url or "", runbooks=pages),
        monotonic=clock.monotonic,
        watches=True,
    )
    delivery = Delivery({target.name: target for target in targets}, pipeline.grouping, telemetry, clock=clock)
    daemon = Daemon(pipeline, delivery, clock, pages, read_rules)
    pulled = lanes(settings, parts, daemon, clock)
    listener = Listener(application(daemon, token=token(settings), public_metrics=settings.public_metrics))
    port = await opened(listener, settings.address)
    _say_hello(settings, telemetry, len(targets), port)
    # What exists by now lives as long as the process: the collector need not look at it again.
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
    parts.started(daemon, port)
    try:
        async with asyncio.TaskGroup() as group:
            working = [
                group.create_task(daemon.tick(), name="tick"),
                group.create_task(supervisor.watch(daemon), name="supervisor"),
                *(group.create_task(lane.supervise(build), name=f"source {lane.axis.name}") for lane, build in pulled),
            ]
            delivering = group.create_task(delivery.run(), name="delivery")
            await stop.wait()
            telemetry.said("stopping: sources, then what is ripe, then what is queued")
            supervisor.notify("STOPPING=1")
            await _ended(working)
            await _last_turn(daemon)
            left = await _drained(delivery, hurry)
            delivering.cancel()
    finally:
        await listener.close()
    unsent = sum(left.values())
    telemetry.said("stopped%s", f"; {unsent} notifications were not sent" if unsent else "")
    return 0


def open_targets(settings: Settings, telemetry: Telemetry) -> list[Channel]:
    """The targets of `notify`. Raises ProblemsError with every one that is not understood; it shows no secret."""
    opened_targets: list[Channel] = []
    problems: list[Problem] = []
    for number, url in enumerate(settings.notify, 1):
        try:
            config = channels.from_url(url.reveal())
        except ChannelError as error:
            problems.append(Problem("notify", number, 1, str(error)))
            continue
        if any(config.name == target.name for target in opened_targets):
            problems.append(Problem("notify", number, 1, f"the target {config.name} is named twice: remove one"))
            continue
        telemetry.target_understood(config.name, config.description)
        opened_targets.append(config.open())
    if problems:
        raise ProblemsError(problems)
    return opened_targets


def lanes(settings: Settings, parts: Parts, daemon: Daemon, clock: Clock) -> list[tuple[Lane, Callable[[], Source]]]:
    """A lane per source, all known to the daemon; gives those that are pulled, with how to build their client."""
    feeds = [*map(feed, settings.sources), *parts.feeds]
    if all(one.build is not None for one in feeds):
        feeds.append(Feed(name=PUSHED))
    pulled: list[tuple[Lane, Callable[[], Source]]] = []
    for one in feeds:
        axis = Axis(name=one.name, application=one.application, clock=one.clock, is_finite=one.is_finite)
        lane = Lane(axis, one.decode, daemon.pipeline.ingest, clock, daemon.pipeline.telemetry, daemon.woken)
        daemon.pipeline.axes.append(axis)
        daemon.lanes.append(lane)
        if one.build is None:
            daemon.pushed = lane
            lane.connected("POST /v1/events")
        else:
            pulled.append((lane, one.build))
    return pulled


def token(settings: Settings) -> Secret | None:
    """The bearer token. Raises ProblemsError where its file cannot be read or is empty."""
    if settings.token_file is None:
        return None
    try:
        text = Path(settings.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemsError([Problem(settings.token_file, 1, 1, f"the token cannot be read: {error}")]) from error
    if not text:
        raise ProblemsError([Problem(settings.token_file, 1, 1, "the token is empty: write one line into this file")])
    return Secret(text)


async def opened(listener: Listener, address: tuple[str, int]) -> int:
    """The port that is listened on. Raises TasktrailError where the address cannot be had."""
    host, port = address
    try:
        return await listener.open(host, port)
    except OSError as error:
        await listener.close()
        raise TasktrailError(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --listen") from error


def _say_hello(settings: Settings, telemetry: Telemetry, targets: int, port: int) -> None:
    telemetry.said("tasktrail %s listens on http://%s:%d", __version__, settings.address[0], port)
    if settings.state != "none":
        telemetry.said("state is kept in memory only in this version: a restart forgets it")
    if not targets:
        telemetry.said("no --notify target: alerts are only logged and listed at /api/v1/alerts")
    if not settings.external_url:
        telemetry.said("no --external-url: messages carry the first lines of the runbook in place of a link")
    for name in ("tasks", "routes"):
        if getattr(settings, name):
            raise TasktrailError(f"`{name}` files are not in this version: remove the setting")


async def _last_turn(daemon: Daemon) -> None:
    """Evaluate what was counted, and say what is ripe; a long backlog is left where it stands."""
    try:
        async with asyncio.timeout(TURN_SECONDS):
            await daemon.last_turn()
    except TimeoutError:
        daemon.say()


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel, and wait; what does not end in time is left to the end of the process."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=STOP_SECONDS)


async def _drained(delivery: Delivery, hurry: asyncio.Event) -> dict[str, int]:
    """Try what is queued, until it is sent, the deadline is reached, or somebody is in a hurry."""
    draining = asyncio.ensure_future(delivery.drain(DRAIN_SECONDS))
    hurried = asyncio.ensure_future(hurry.wait())
    await asyncio.wait((draining, hurried), return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if draining.done():
        return draining.result()
    draining.cancel()
    return delivery.waiting()
