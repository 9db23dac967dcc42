"""What the tests of the shell are made of: batches of native events, a channel that keeps, a running daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec

from collector import app
from collector.alerting.rulefile import GroupSpec, load
from collector.config.settings import Settings
from collector.daemon import Daemon
from collector.model.alert import Notification
from collector.model.clock import Clock, ManualClock
from collector.model.record import Batch
from collector.promql import compile_expr
from collector.shell.axis import Axis
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry

T0 = 1_750_000_005.0
"""A slot of every interval that the tests use."""

FAILING = """
groups:
- name: g
  interval: 5s
  rules:
  - alert: Failing
    expr: sum by (task) (increase(task_failed_total[10s])) > 0
    labels: {severity: page, owner: me}
    annotations: {summary: '{{ $value }} failed'}
"""


def event(kind: str, task_id: str, at: float | None = None, **fields: object) -> bytes:
    """A native event as JSON, of task `a` in queue `q` unless said otherwise."""
    body = {"kind": kind, "task_id": task_id, "task": "a", "queue": "q", "time": at, **fields}
    return msgspec.json.encode({name: value for name, value in body.items() if value is not None})


def batch(bodies: Iterable[bytes], *, place: str = "p", received_at: float = T0, **fields: object) -> Batch:
    """A batch of bodies with receipts from 1 on."""
    listed = list(bodies)
    receipts = list(range(1, len(listed) + 1))
    return Batch(source="s", place=place, bodies=listed, receipts=receipts, received_at=received_at, **fields)


def groups(text: str, file: str = "rules.yaml") -> tuple[GroupSpec, ...]:
    """The groups of a rule file."""
    return load(file, text, compile_expr).groups


def pipeline(text: str = FAILING, limits: Limits | None = None, **options: object) -> Pipeline:
    """A pipeline with one source `s` that is up, on these rules."""
    made = Pipeline(limits or Limits(), groups(text), telemetry=Telemetry(), **options)
    made.axes.append(Axis(name="s", application="", is_up=True, was_tried=True))
    return made


class Kept:
    """A channel that keeps what it is sent."""

    name = "kept"
    spacing_seconds = 0.0

    def __init__(self) -> None:
        self.sent: list[Notification] = []

    async def send(self, notification: Notification) -> None:
        """Keep it."""
        self.sent.append(notification)

    async def close(self) -> None:
        """Nothing to close."""


async def until(holds: Callable[[], object]) -> None:
    """Give the loop turns until something holds; the test's own time-out is for what never does."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  there is no event for what is looked at
            await asyncio.sleep(0.005)


class Machine(ManualClock):
    """A machine whose wall clock somebody sets: it goes with the hand, and so far beside it."""

    def __init__(self, at: float = T0) -> None:
        super().__init__(at)
        self.set_by = 0.0

    def now(self) -> float:
        """What the wall clock shows."""
        return self.at + self.set_by


class Running:
    """A whole daemon, as `run` starts it, on a clock that stands where the test puts it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stop, self.hurry = asyncio.Event(), asyncio.Event()
        self.daemon: Daemon
        self.url = ""
        self.ended: asyncio.Future[int]


@asynccontextmanager
async def running(settings: Settings, *, clock: Clock | None = None, **parts: object) -> AsyncIterator[Running]:
    """Start it on a free port, give it, stop it and wait for its end."""
    made = Running(clock or ManualClock(T0))
    began = asyncio.Event()

    def started(daemon: Daemon, port: int) -> None:
        made.daemon, made.url = daemon, f"http://127.0.0.1:{port}"
        began.set()

    wanted = msgspec.structs.replace(settings, listen="127.0.0.1:0", state=settings.state or "none")
    work = app.run(wanted, made.stop, hurry=made.hurry, clock=made.clock, parts=app.Parts(started=started, **parts))
    made.ended = asyncio.ensure_future(work)
    beginning = asyncio.ensure_future(began.wait())
    await asyncio.wait([made.ended, beginning], return_when=asyncio.FIRST_COMPLETED)
    if made.ended.done():
        beginning.cancel()
        made.ended.result()
    try:
        yield made
    finally:
        made.stop.set()
        await asyncio.wait([made.ended])
