"""What the listener asks of the daemon, and nothing more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from aiohttp import web
from prometheus_client.metrics_core import Metric

from collector.alerting.group import Group
from collector.alerting.rule import Rule
from collector.deadletter.ledger import Ledger
from collector.deadletter.record import DeadLetter, Verdict
from collector.model.record import Outcome, Refusals
from collector.routing.desk import Desk
from collector.series.store import Store
from collector.shell.axis import Axis
from collector.shell.coverage import Coverage
from collector.shell.telemetry import Rejected
from collector.trail.listing import Page, Wanted


class View(Protocol):
    """The daemon as HTTP sees it."""

    @property
    def is_ready(self) -> bool:
        """Whether every source was tried once."""
        ...

    @property
    def trouble(self) -> str:
        """What is wrong with our own loop, or nothing. A broker's outage is none of it."""
        ...

    @property
    def axes(self) -> Sequence[Axis]:
        """The sources."""
        ...

    @property
    def rejected(self) -> Iterable[Rejected]:
        """The last records that could not be used."""
        ...

    @property
    def started_at(self) -> float:
        """When the process started, Unix seconds."""
        ...

    @property
    def store(self) -> Store:
        """The series."""
        ...

    @property
    def groups(self) -> Sequence[Group]:
        """The rule groups."""
        ...

    @property
    def desk(self) -> Desk:
        """Silences, acks, alerts from outside, drills: what people do about alerts."""
        ...

    def woken(self) -> None:
        """Something was changed that the loop should look at now."""
        ...

    def is_blind(self, rule: Rule) -> bool:
        """Whether a source that the rule reads cannot be believed now."""
        ...

    def now(self) -> float:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        ...

    def metrics(self, *, with_created: bool) -> Iterable[Metric]:
        """Everything for /metrics, some series at a time; with when each counter began, where that is wanted."""
        ...

    async def task(self, task_id: str) -> Any | None:
        """A trail's timeline, ready for JSON."""
        ...

    async def trace(self, trace_id: str) -> Any | None:
        """A trace, ready for JSON."""
        ...

    def listing(self, wanted: Wanted) -> Iterator[Page | None]:
        """None after each short step, and at last the trails that are wanted."""
        ...

    async def with_kept(self, wanted: Wanted, page: Page) -> Page:
        """A page of what is remembered, with what only the state file has."""
        ...

    def coverage(self) -> Iterator[Coverage | None]:
        """None after each short step, and at last the tasks, what each lacks, and a draft."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The dead letters. To be read only: `judge` changes them."""
        ...

    def judge(self, name: str, verdict: Verdict) -> DeadLetter:
        """Take a verdict down. Raises KeyError for no such record, and ValueError."""
        ...

    async def unkept(self) -> str:
        """Why what was decided is not on the disk, after a while of waiting for it, for people; "": it is."""
        ...

    def runbook(self, name: str) -> str | None:
        """A runbook page's Markdown."""
        ...

    async def push(self, body: bytes, content_type: str) -> tuple[Outcome, Refusals]:
        """Count pushed events. Returns when they are counted, with what could not be used. Raises TooManyError."""
        ...

    async def push_traces(self, body: bytes, content_type: str) -> tuple[Outcome, Refusals]:
        """Count the messaging spans of an OTLP export. Returns as `push` does. Raises TooManyError."""
        ...

    def refuse(self, first_bytes: bytes, reason: str, detail: str) -> None:
        """Count a pushed body that could not be read whole."""
        ...

    def reload(self) -> Sequence[str]:
        """Read rule files again; the problems, where the old ones were kept."""
        ...


VIEW: web.AppKey[View] = web.AppKey("view")
