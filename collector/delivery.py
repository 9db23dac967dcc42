"""Delivery: notifications in, one bounded queue and one worker per target, nothing decided but when to try again.

A notification leaves its queue in one of the ways of `DropReason`, or by being sent; each is reported once. Targets
share nothing, so one that hangs delays no other. What a target was told is written in the book (routing's grouping)
when the target has confirmed it, and not before.
"""

from __future__ import annotations

import asyncio
import random
from bisect import insort
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Literal, Protocol

import msgspec

from collector.model.alert import Channel, Notification
from collector.model.clock import Clock
from collector.model.errors import ChannelError
from collector.routing.message import rank
from collector.routing.notice import broken_target

DropReason = Literal["superseded", "overflow", "expired", "refused", "no_target", "stopping"]
"""Said anew by its group · no room · not taken before its deadline · final error · nobody to send to · shut down."""

_CLOSE_SECONDS = 1.0
FAILING_SECONDS = 60.0
"""A target that fails for so long, in a row, is one that nobody can be reached by."""
_order = attrgetter("order")
_worth = attrgetter("worth")


class Report(Protocol):
    """Whom delivery tells what happens, one function per happening. `target` is the channel's name."""

    def sent(self, target: str, notification: Notification, tries: int, seconds: float) -> None:
        """Confirmed, so many tries and seconds after it was submitted."""
        ...

    def retrying(self, target: str, notification: Notification, error: ChannelError, wait_seconds: float) -> None:
        """Not taken; the target is left alone for so long."""
        ...

    def dropped(self, target: str, notification: Notification, reason: DropReason) -> None:
        """Left its queue without being sent."""
        ...

    def broken(self, target: str, error: ChannelError) -> None:
        """A target that took notifications, or was never asked, now refuses them for good."""
        ...

    def mended(self, target: str) -> None:
        """A broken target took one."""
        ...


class Book(Protocol):
    """Where it is written what each target was told."""

    def confirm(self, notification: Notification, now: float) -> None:
        """The target took it."""
        ...

    def release(self, notification: Notification, now: float, *, refused: bool = False) -> None:
        """Nobody tries any longer."""
        ...


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of every target. The n-th wait in a row is a random part of first * 2^(n-1), at most longest."""

    queue_size: int = 1_000
    deadline_seconds: float = 3_600.0
    try_seconds: float = 20.0
    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 60.0


class Delivery:
    """All targets. `channels`: by the target names that notifications carry."""

    def __init__(  # noqa: PLR0913  all that it touches is given to it
        self,
        channels: Mapping[str, Channel],
        book: Book,
        report: Report,
        *,
        clock: Clock,
        settings: DeliverySettings | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.book, self.report, self.clock, self.chance = book, report, clock, chance
        self.settings = settings or DeliverySettings()
        self.closes_at: float | None = None
        self._lanes = {target: _Lane(self, channel) for target, channel in channels.items()}
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Deliver until drained. Raises what a channel raises besides ChannelError: that is a bug."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes.values():
                self._tasks.append(group.create_task(lane.run(), name=f"deliver {lane.channel.name}"))

    def submit(self, notification: Notification) -> None:
        """Take a notification for its target. Never waits."""
        lane = self._lanes.get(notification.target)
        if lane is None:
            self.report.dropped(notification.target, notification, "no_target")
            self.book.release(notification, self.clock.now(), refused=True)
        elif self.closes_at is not None:
            self.report.dropped(lane.channel.name, notification, "stopping")
        else:
            lane.put(notification)

    def broken(self) -> frozenset[str]:
        """The targets that refuse for good, or have not taken anything for FAILING_SECONDS of trying."""
        now = self.clock.monotonic()
        return frozenset(target for target, lane in self._lanes.items() if lane.is_broken(now))

    def waiting(self) -> dict[str, int]:
        """How many notifications wait or are under way, by target."""
        return {target: lane.waiting() for target, lane in self._lanes.items()}

    async def drain(self, seconds: float) -> dict[str, int]:
        """Take no more, try what is queued for so long, close the channels. Gives how many were left, by target."""
        self.closes_at = self.clock.monotonic() + seconds
        for lane in self._lanes.values():
            lane.wake.set()
        if self._tasks:
            _, hanging = await asyncio.wait(self._tasks, timeout=seconds)
            for task in hanging:
                task.cancel()
            if hanging:
                await asyncio.wait(hanging)
        left = {target: lane.abandon() for target, lane in self._lanes.items()}
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        return left

    def tell_others(self, broken: _Lane, notice: Notification) -> None:
        """Queue a notice for every target but the one that it is about."""
        for target, lane in self._lanes.items():
            if lane is not broken and self.closes_at is None:
                lane.put(msgspec.structs.replace(notice, target=target))


class _Item:
    """One notification on its way to one target. Times by the monotonic clock."""

    __slots__ = (
        "expires_at",
        "failed_at",
        "group",
        "not_before",
        "notification",
        "order",
        "submitted_at",
        "tries",
        "worth",
    )

    def __init__(self, notification: Notification, order: int, now: float, deadline_seconds: float) -> None:
        self.notification = notification
        self.group = (notification.receiver, notification.group_key)
        self.order = order
        self.submitted_at = now
        self.expires_at = now + deadline_seconds
        self.not_before = now
        self.tries = 0
        self.failed_at = -1  # how many its target had taken when this one failed last
        # The least is the first to go when there is no room: ended, then not urgent, then old.
        self.worth = (notification.status == "firing", -min(map(rank, notification.alerts[:1]), default=0), order)


class _Lane:
    """One target: its queue, in order, and its worker."""

    def __init__(self, delivery: Delivery, channel: Channel) -> None:
        self.channel = channel
        self.wake = asyncio.Event()
        self._delivery = delivery
        self._settings = delivery.settings
        self._clock = delivery.clock
        self._queue: list[_Item] = []
        self._groups: dict[tuple[str, str], int] = {}  # how many wait of each
        self._current: _Item | None = None
        self._order = 0
        self._failures = 0  # in a row
        self._successes = 0
        self._rests_until = 0.0
        self._broken_since: float | None = None
        self._failing_since = 0.0  # while there are failures

    def put(self, notification: Notification) -> None:
        """Queue it. Where the target fails or the queue is full it takes the place of what its group said before."""
        self._order += 1
        item = _Item(notification, self._order, self._clock.monotonic(), self._settings.deadline_seconds)
        if self._failures or len(self._queue) >= self._settings.queue_size:
            for older in self._said(item.group):
                self._remove(older)
                item.order = min(item.order, older.order)
                self._drop(older, "superseded")
        self._add(item)
        if len(self._queue) > self._settings.queue_size:
            least = min(self._queue, key=_worth)
            self._remove(least)
            self._drop(least, "overflow")
        self.wake.set()

    def waiting(self) -> int:
        """In the queue or under way."""
        return len(self._queue) + (self._current is not None)

    def is_broken(self, now: float) -> bool:
        """Whether nobody is reached by this target, as far as was tried."""
        return self._broken_since is not None or (self._failures > 0 and now - self._failing_since >= FAILING_SECONDS)

    async def run(self) -> None:
        """Send in order, until the delivery closes and there is nothing left to try in time."""
        while True:
            now = self._clock.monotonic()
            self._expire(now)
            item = self._next(now) if self._rests_until <= now else None
            if item is not None:
                self._remove(item)
                await self._try(item)
                continue
            next_try = max(self._rests_until, min((item.not_before for item in self._queue), default=0.0))
            closes_at = self._delivery.closes_at
            if closes_at is not None and (not self._queue or next_try >= closes_at):
                return
            await self._sleep(
                min([next_try, *(item.expires_at for item in self._queue)]) - now if self._queue else None
            )

    def abandon(self) -> int:
        """Drop what is left at the end; gives how many."""
        left = [*self._queue, *([self._current] if self._current else [])]
        self._queue.clear()
        self._groups.clear()
        for item in left:
            self._drop(item, "stopping")
        return len(left)

    async def close(self) -> None:
        """Close the channel, which may hang as everything else may."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.channel.close()
        except TimeoutError:
            pass  # the process ends; there is nobody left to whom it matters

    def _add(self, item: _Item) -> None:
        insort(self._queue, item, key=_order)
        self._groups[item.group] = self._groups.get(item.group, 0) + 1

    def _remove(self, item: _Item) -> None:
        self._queue.remove(item)
        self._groups[item.group] -= 1
        if not self._groups[item.group]:
            del self._groups[item.group]

    def _said(self, group: tuple[str, str]) -> list[_Item]:
        """What waits of this group. The count spares a storm of groups the look through the queue for each."""
        return [item for item in self._queue if item.group == group] if group in self._groups else []

    def _next(self, now: float) -> _Item | None:
        """The first in order; but while the target fails, first those that it was not asked since it last took one.

        So a message that the target cannot stand does not hold up the others, and a target that is away is asked no
        more often by a long queue than by a short one.
        """
        ready = [item for item in self._queue if item.not_before <= now]
        if self._failures:
            return next((item for item in ready if item.failed_at != self._successes), ready[0] if ready else None)
        return ready[0] if ready else None

    async def _sleep(self, seconds: float | None) -> None:
        self.wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        except TimeoutError:
            pass

    async def _try(self, item: _Item) -> None:
        began = self._clock.monotonic()
        item.tries += 1
        self._current = item
        self._rests_until = began + self.channel.spacing_seconds
        error: ChannelError | None = None
        try:
            async with asyncio.timeout(self._settings.try_seconds):
                await self.channel.send(item.notification)
        except TimeoutError:
            error = ChannelError(
                f"{self.channel.name} gave no answer in {self._settings.try_seconds:g} s", retryable=True
            )
        except ChannelError as refused:
            error = refused
        self._current = None
        if error is None:
            self._sent(item)
        else:
            self._failed(item, error)
        await asyncio.sleep(0)  # a channel that never waits must not keep the loop for a whole queue

    def _sent(self, item: _Item) -> None:
        now = self._clock.monotonic()
        if self._failures > 1:  # the target was away, not one message at fault: the rest goes out at once, in order
            for other in self._queue:
                other.not_before = now
        self._failures = 0
        self._successes += 1
        self._delivery.report.sent(self.channel.name, item.notification, item.tries, now - item.submitted_at)
        self._delivery.book.confirm(item.notification, self._clock.now())
        if self._broken_since is not None:
            since, self._broken_since = self._broken_since, None
            self._delivery.report.mended(self.channel.name)
            notice = broken_target(self.channel.name, "It was refused", since, self._clock.now(), is_mended=True)
            self._delivery.tell_others(self, notice)

    def _failed(self, item: _Item, error: ChannelError) -> None:
        now = self._clock.monotonic()
        self._failing_since = self._failing_since if self._failures else now
        self._failures += 1
        wait = self._wait(self._failures) if error.retry_after is None else error.retry_after
        self._rests_until = max(self._rests_until, now + wait)
        if not error.retryable:
            self._drop(item, "refused")
            self._mark_broken(error)
            return
        self._delivery.report.retrying(self.channel.name, item.notification, error, wait)
        if item.group in self._groups:
            self._drop(item, "superseded")
            return
        item.failed_at = self._successes
        item.not_before = now + max(wait, self._wait(item.tries))
        self._add(item)

    def _mark_broken(self, error: ChannelError) -> None:
        if self._broken_since is not None:
            return
        self._broken_since = self._clock.now()
        self._delivery.report.broken(self.channel.name, error)
        notice = broken_target(self.channel.name, str(error), self._broken_since, self._broken_since)
        self._delivery.tell_others(self, notice)

    def _wait(self, failures: int) -> float:
        """Full jitter: any part of a time that doubles with every failure, so that targets are not met in step."""
        most = min(
            self._settings.longest_wait_seconds, self._settings.first_wait_seconds * 2.0 ** min(failures - 1, 30)
        )
        return self._delivery.chance() * most

    def _expire(self, now: float) -> None:
        for item in [item for item in self._queue if item.expires_at <= now]:
            self._remove(item)
            self._drop(item, "expired")

    def _drop(self, item: _Item, reason: DropReason) -> None:
        self._delivery.report.dropped(self.channel.name, item.notification, reason)
        if reason in ("expired", "overflow", "refused"):
            self._delivery.book.release(item.notification, self._clock.now(), refused=reason == "refused")
