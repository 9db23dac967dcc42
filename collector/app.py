"""The composition root: settings in, a running process out. Start forward, stop backward, against one deadline.

Readable top to bottom: rules, state, pipeline, targets, daemon, listener, sources; then wait; then the same way back.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from collector import __version__, supervisor
from collector.alerting.rulefile import GroupSpec
from collector.config import contractfile, rulefiles
from collector.config.settings import Settings, shown
from collector.config.shipped import runbooks
from collector.daemon import Daemon
from collector.keeping.archive import Archive, Kept
from collector.keeping.checkpoints import Checkpoints
from collector.keeping.keeper import Keeper
from collector.keeping.remembered import Remembered
from collector.model.alert import Channel
from collector.model.clock import Clock, SteadyClock
from collector.model.contract import Contracts
from collector.model.errors import Problem, ProblemsError, TasktrailError
from collector.model.record import Source
from collector.model.secret import Secret
from collector.model.shown import counted
from collector.routing.message import Wording
from collector.shell import heap
from collector.shell.axis import Axis
from collector.shell.delivery import Delivery
from collector.shell.heartbeat import beat
from collector.shell.intake import Lane
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.state.opened import State, open_state
from collector.trail.keep import Bounds
from collector.web.server import Listener, application
from collector.wiring import doors
from collector.wiring.audience import Audience, understood
from collector.wiring.doors import Doors
from collector.wiring.plugs import Feed, feed, pushed
from collector.wiring.soundings import probing

DRAIN_SECONDS = 4.0
"""What is queued for targets is tried for so long at the end."""
TURN_SECONDS = 1.0
"""What was counted is evaluated for so long at the end."""
STOP_SECONDS = 2.5
"""Sources have so long to close."""
DEADLINE_SECONDS = 8.0
"""All of the stop takes no longer: a service manager gives 10 s."""
CLOSE_SECONDS = 1.5
"""The listener, and what was only cancelled now, have so long."""
SAVE_SECONDS = 2.0
"""The last checkpoint has so long."""
HURRIED_SECONDS = 0.1
"""The same, where somebody is in a hurry."""
UNREAD = {
    "labels": "`labels` of events do not become labels of metrics in this version: remove the setting",
}
"""Settings that do nothing yet: refused, so that nobody relies on them."""


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
        celery_exporter=settings.compat == "celery-exporter",
        deploy_labels=settings.deploy_labels,
        show_arguments=settings.show_arguments,
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
    process. A source or channel that cannot be ended in time is left behind as a task.
    """
    clock, parts, hurry = clock or SteadyClock(), parts or Parts(), hurry or asyncio.Event()
    read_rules = partial(rulefiles.load, settings.rules, parts.rewrite)
    is_unsent = not settings.notify and not parts.channels and not settings.routes
    if is_unsent:  # whoever names no target yet shall see what would have been sent
        settings = msgspec.structs.replace(settings, notify=(Secret("log:"),))
    read_contracts = partial(contractfile.load, settings.tasks)
    specs, contracts, audience, guarded = checked(
        read_rules, read_contracts, partial(audience_of, settings), partial(doors.read, settings)
    )
    loaded = _Loaded(specs, read_rules, contracts, read_contracts, audience, guarded, is_unsent)
    state = open_state(settings.state, os.environ, clock.now())
    try:
        return await _run(settings, stop, hurry, clock, parts, loaded, state)
    finally:
        state.close(HURRIED_SECONDS if hurry.is_set() else CLOSE_SECONDS)


class _Loaded(msgspec.Struct, frozen=True):
    """What was read from files, without a problem. `is_unsent`: nobody named a target."""

    specs: list[GroupSpec]
    read_rules: Callable[[], list[GroupSpec]]
    contracts: Contracts | None
    read_contracts: Callable[[], Contracts | None]
    audience: Audience
    doors: Doors
    is_unsent: bool


async def _run(  # noqa: PLR0913, PLR0915, PLR0917  the whole process
    settings: Settings,
    stop: asyncio.Event,
    hurry: asyncio.Event,
    clock: Clock,
    parts: Parts,
    loaded: _Loaded,
    state: State,
) -> int:
    telemetry, pages, audience = Telemetry(), runbooks(), loaded.audience
    targets = [*parts.channels, *(config.open() for config in audience.configs)]
    for channel in parts.channels:
        audience.add(channel.name)
    make = partial(
        Pipeline,
        limits(settings),
        loaded.specs,
        telemetry=telemetry,
        routing=audience.routing,
        receivers=audience.receivers,
        wording=Wording(external_url=settings.external_url or "", runbooks=pages),
        external_labels=settings.external_labels,
        cpu=clock.cpu,
        keep=None if state.store is None else Remembered(state.store),
        contracts=loaded.contracts,
    )
    checkpoints = None if state.directory is None else opened(state.directory, clock, telemetry)
    pipeline = make() if checkpoints is None else checkpoints.restored(make)
    keeper = Keeper(state.store, pipeline, clock)
    delivery = Delivery(
        {target.name: target for target in targets},
        pipeline.grouping,
        telemetry,
        clock=clock,
        outbox=None if state.store is None else keeper,
        announce=[target.name for target in audience.receivers[audience.default]],
    )
    daemon = Daemon(pipeline, delivery, clock, pages, loaded.read_rules, keeper, loaded.read_contracts)
    most = Kept(seconds=settings.bounds.kept_age, bytes=settings.bounds.kept_bytes)
    archive = daemon.archive = Archive(pipeline, clock, state.store, state.directory, most)
    pulled = lanes(settings, parts, daemon, clock)
    if checkpoints is not None:
        checkpoints.place(daemon.lanes, daemon.gate, keeper.unkept)
    listener = Listener(
        application(
            daemon,
            token=loaded.doors.token,
            public_metrics=settings.public_metrics,
            external_url=settings.external_url or "",
        ),
        loaded.doors.tls,
    )
    port = await listening(listener, settings.address)
    daemon.pushed_to().connected("POST /v1/events and /v1/traces")
    _say_hello(settings, telemetry, port)
    if loaded.contracts is not None:
        telemetry.said("%s: %d contracts", settings.tasks, len(loaded.contracts.declared))
    for config in audience.configs:
        telemetry.target_understood(config.name, config.description)
    if loaded.is_unsent:
        telemetry.said("no --notify target: alerts are printed on standard output, and listed at /api/v1/alerts")
    if not targets:
        telemetry.said("no receiver has a target: nothing is sent; alerts are listed at /api/v1/alerts")
    if state.store is None:
        telemetry.said("state is kept in memory only (--state none): a restart forgets it")
    else:
        health = state.store.health
        telemetry.state_opened(str(state.directory), health.set_aside, health.taken_over)
    keeper.restore(delivery, lost_until=clock.now() if checkpoints is None else checkpoints.lost_until)
    # What exists by now lives as long as the process: the collector need not look at it again.
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
    parts.started(daemon, port)
    working = [
        asyncio.create_task(daemon.tick(), name="tick"),
        asyncio.create_task(supervisor.watch(daemon), name="supervisor"),
        asyncio.create_task(heap.tend(), name="heap"),
        *([] if state.store is None else [asyncio.create_task(archive.run(), name="kept trails")]),
        *_hearts(settings, daemon),
        *probing(settings, pipeline, clock, state.store),
        *(asyncio.create_task(lane.supervise(build), name=f"source {lane.axis.name}") for lane, build in pulled),
    ]
    delivering = asyncio.create_task(delivery.run(), name="delivery")
    saving = [] if checkpoints is None else [asyncio.create_task(checkpoints.keep(), name="checkpoints")]
    try:
        await _until(stop, [*working, *saving, delivering])
        telemetry.said("stopping: sources, then what is ripe, then what is queued")
        supervisor.notify("STOPPING=1")
        unsent = await _stopped(daemon, delivery, working, hurry)
        keeper.end()
        archive.close()
        kept = "" if state.store is None else ", and kept for the next start"
        telemetry.said("stopped%s", f"; {counted(unsent, 'notification')} not sent{kept}" if unsent else "")
    finally:
        for task in (*working, delivering):
            task.cancel()
        closing = asyncio.ensure_future(listener.close())
        left = [*working, delivering, closing]
        await asyncio.wait(left, timeout=HURRIED_SECONDS if hurry.is_set() else CLOSE_SECONDS)
    _look_at([*left, *saving])  # a bug ends the process here, and the last checkpoint before it holds
    if checkpoints is not None:
        await _saved(checkpoints, saving)
    return 0


def opened(directory: Path, clock: Clock, telemetry: Telemetry) -> Checkpoints:
    """The checkpoints of a directory. Raises TasktrailError where it cannot be read."""
    try:
        return Checkpoints(directory, clock, telemetry)
    except OSError as error:
        raise TasktrailError(f"--state {directory}: {error.strerror}; name another directory") from error


T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")


def checked(
    first: Callable[[], T1], second: Callable[[], T2], third: Callable[[], T3], fourth: Callable[[], T4]
) -> tuple[T1, T2, T3, T4]:
    """What four readers give. Raises ProblemsError with the problems of all of them."""
    found: list[Any] = []
    problems: list[Problem] = []
    for read in (first, second, third, fourth):
        try:
            found.append(read())
        except ProblemsError as error:
            problems += error.problems
    if problems:
        raise ProblemsError(problems)
    return found[0], found[1], found[2], found[3]


def audience_of(settings: Settings) -> Audience:
    """Who is told. Raises ProblemsError, also for settings that do nothing yet."""
    unread = [Problem(name, 1, 1, message) for name, message in UNREAD.items() if getattr(settings, name)]
    if not unread:
        return understood(settings)
    try:
        understood(settings)
    except ProblemsError as error:
        unread += error.problems
    raise ProblemsError(unread)


def lanes(settings: Settings, parts: Parts, daemon: Daemon, clock: Clock) -> list[tuple[Lane, Callable[[], Source]]]:
    """A lane per source, all known to the daemon; gives those that are pulled, with how to build their client."""
    read = partial(feed, show_arguments=settings.show_arguments)
    feeds = [*map(read, settings.sources), *parts.feeds]
    if all(one.build is not None for one in feeds):
        feeds.append(pushed())
    pulled: list[tuple[Lane, Callable[[], Source]]] = []
    for one in feeds:
        axis = Axis(
            name=one.name,
            application=one.application,
            clock=one.clock,
            is_pushed=one.is_pushed,
            is_tailed=one.is_tailed,
            is_fleeting=one.is_fleeting,
        )
        pipeline = daemon.pipeline
        lane = Lane(axis, one.decode, pipeline.ingest, clock, pipeline.telemetry, daemon.woken, daemon.gate)
        daemon.pipeline.axes.append(axis)
        daemon.lanes.append(lane)
        if one.build is None:
            daemon.pushed = lane
        else:
            pulled.append((lane, one.build))
    return pulled


async def listening(listener: Listener, address: tuple[str, int]) -> int:
    """The port that is listened on. Raises TasktrailError where the address cannot be had."""
    host, port = address
    try:
        return await listener.open(host, port)
    except OSError as error:
        await listener.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        raise TasktrailError(f"cannot listen on {shown(host)}:{port}: {why}; choose another --listen") from error


def _say_hello(settings: Settings, telemetry: Telemetry, port: int) -> None:
    scheme = "https" if settings.tls_cert_file else "http"
    telemetry.said("tasktrail %s listens on %s://%s:%d", __version__, scheme, shown(settings.address[0]), port)
    if not settings.external_url:
        telemetry.said("no --external-url: messages carry the first lines of the runbook in place of a link")


def _hearts(settings: Settings, daemon: Daemon) -> list[asyncio.Task[None]]:
    """The heartbeat's task, where one is wanted."""
    if settings.heartbeat_url is None:
        return []
    work = beat(settings.heartbeat_url, settings.heartbeat_interval, daemon.signs, daemon.pipeline.telemetry)
    return [asyncio.create_task(work, name="heartbeat")]


async def _until(stop: asyncio.Event, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the stop. Raises what ends a task before: nobody knows how to go on without it."""
    stopping = asyncio.ensure_future(stop.wait())
    running: set[asyncio.Future[Any]] = {stopping, *tasks}
    try:
        while not stopping.done():
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a file that was read to its end is no failure
    finally:
        stopping.cancel()


def _look_at(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Raises what ended one of them, where it has ended: while stopping a bug is no less of one."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()


async def _stopped(
    daemon: Daemon, delivery: Delivery, working: Sequence[asyncio.Task[None]], hurry: asyncio.Event
) -> int:
    """Stop in order, until it is done, the deadline is reached, or somebody is in a hurry. Gives what was not sent."""
    ending = asyncio.ensure_future(_end(daemon, delivery, working))
    hurried = asyncio.ensure_future(hurry.wait())
    await asyncio.wait((ending, hurried), timeout=DEADLINE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if ending.done():
        return sum(ending.result().values())
    ending.cancel()
    return sum(delivery.waiting().values())


async def _saved(checkpoints: Checkpoints, saving: Sequence[asyncio.Task[None]]) -> None:
    """The last checkpoint, as far as there is time for it; `saving`: the task that wrote those before."""
    tasks = [asyncio.ensure_future(checkpoints.close()), *saving]
    await asyncio.wait(tasks, timeout=SAVE_SECONDS)
    _look_at(tasks)


async def _end(daemon: Daemon, delivery: Delivery, working: Sequence[asyncio.Task[None]]) -> dict[str, int]:
    """Sources first, so that nothing new comes; then what is ripe is said; then what is queued is sent."""
    for task in working:
        task.cancel()
    done, hanging = await asyncio.wait(working, timeout=STOP_SECONDS)
    for task in hanging:
        daemon.pipeline.telemetry.said("%s did not end in %g s, and is left behind", task.get_name(), STOP_SECONDS)
    _look_at(done)
    try:
        async with asyncio.timeout(TURN_SECONDS):  # of a long backlog the rest is left where it stands
            await daemon.finish()
    except TimeoutError:
        daemon.say()
    return await delivery.drain(DRAIN_SECONDS)
