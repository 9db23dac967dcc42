"""Delivery: notifications in, one bounded queue and one worker per target, nothing decided but when to try again.

A notification leaves its queue in one of the ways of `DropReason`, or by being sent; each is reported once. Targets
share nothing, so one that hangs delays no other. What a target was told is written in the book (routing's grouping)
when the target has confirmed it, and not before. With an outbox each notification is on the disk before the first try,
for which is waited KEPT_SECONDS at most, and goes from there when it leaves its queue; at the end it stays there.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from collector.model.alert import Alert, Channel, Notification
from collector.model.clock import Clock
from collector.model.errors import ChannelError
from collector.model.saved import Unsent
from collector.routing.notice import aged, broken_target
from collector.shell.sendqueue import DeliverySettings, DropReason, Item, SendQueue
from collector.shell.surroundings import Book, Holder, Outbox, Report

KEPT_SECONDS = 1.0
"""So long a disk may take to keep a notification; then it is sent all the same: a page does not wait for a disk."""
_CLOSE_SECONDS = 1.0
FAILING_SECONDS = 60.0
"""A target that fails for so long, in a row, is one that nobody can be reached by."""


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
        outbox: Outbox | None = None,
        announce: Collection[str] = (),
    ) -> None:
        """`announce`: the targets that are told of a broken one; where that leaves none, all others are."""
        self.outbox, self._announce = outbox, announce
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
        elif self.closes_at is not None and self.outbox is None:
            self.report.dropped(lane.channel.name, notification, "stopping")
        else:
            lane.put(notification)

    def restore(self, rows: Iterable[Unsent], broken: Mapping[str, float]) -> None:
        """Go on with what a former process has not sent, in its order; before `run`.

        `broken`: targets that refused for good, and since when.
        """
        for target, since in broken.items():
            if target in self._lanes:
                self._lanes[target].is_broken_since(since)
        for row in rows:
            lane = self._lanes.get(row.notification.target)
            if lane is not None:
                lane.restore(row)
                continue
            self.report.dropped(row.notification.target, row.notification, "no_target")
            self.book.release(row.notification, self.clock.now(), refused=True)
            if self.outbox is not None:
                self.outbox.remove(row.row)

    def hold(self, told: Iterable[tuple[str, Alert]], external_url: str) -> None:
        """Targets, and what a former process has told them that still fires: some are to hear it again and again."""
        alerts: dict[str, list[Alert]] = {}
        for target, alert in told:
            alerts.setdefault(target, []).append(alert)
        for target, held in alerts.items():
            channel: object = self._lanes[target].channel if target in self._lanes else None
            if isinstance(channel, Holder):
                channel.hold(held, external_url)

    def broken(self) -> frozenset[str]:
        """The targets that refuse for good, or have not taken anything for FAILING_SECONDS of trying."""
        now = self.clock.monotonic()
        return frozenset(target for target, lane in self._lanes.items() if lane.is_broken(now))

    def unsent(self) -> list[Unsent]:
        """What the outbox is to hold: all that waits or is under way, by its row."""
        rows = [row for lane in self._lanes.values() for row in lane.unsent()]
        return sorted(rows, key=lambda row: row.row)

    def refusing(self) -> dict[str, float]:
        """The targets that refuse for good, and since when."""
        return {target: lane.broken_since for target, lane in self._lanes.items() if lane.broken_since is not None}

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
        """Queue a notice for the targets that are told of broken ones, but never for the one that it is about."""
        others = {target: lane for target, lane in self._lanes.items() if lane is not broken}
        for target in [target for target in others if target in self._announce] or others:
            lane = others[target]
            if self.closes_at is None:
                lane.put(msgspec.structs.replace(notice, target=target))


class _Lane:
    """One target: its queue, in order, and its worker."""

    def __init__(self, delivery: Delivery, channel: Channel) -> None:
        self.channel = channel
        self.wake = asyncio.Event()
        self._delivery = delivery
        self._settings = delivery.settings
        self._clock = delivery.clock
        most = delivery.settings.queue_size if delivery.outbox is None else delivery.settings.kept_size
        self._queue = SendQueue(most)
        self._current: Item | None = None
        self._order = 0
        self._failures = 0  # in a row
        self._successes = 0
        self._rests_until = 0.0
        self._broken_since: float | None = None
        self._failing_since = 0.0  # while there are failures

    def put(self, notification: Notification) -> None:
        """Queue it. Where the target fails or the queue is full it takes the place of what its group said before."""
        now, outbox = self._clock.monotonic(), self._delivery.outbox
        item = self._item(notification, now + self._settings.deadline_seconds)
        if outbox is not None:
            item.row = outbox.add(notification, self._clock.now())
        self._queued(item, is_only_word=self._failures > 0)

    def restore(self, row: Unsent) -> None:
        """Queue what a former process has decided and not sent, with its age noted.

        Its deadline begins anew: nobody has tried in between.
        """
        now = self._clock.monotonic()
        shift = now - self._clock.now()
        said = aged(row.notification, self._clock.now())
        item = self._item(said, now + self._settings.deadline_seconds)
        item.row, item.is_kept, item.tries = row.row, True, row.tries
        item.as_kept = row.notification
        item.not_before = row.not_before + shift
        self._rests_until = max(self._rests_until, row.rests_until + shift)
        item.made_old = True
        self._queued(item, is_only_word=False)

    def _queued(self, item: Item, *, is_only_word: bool) -> None:
        for left, reason in self._queue.put(item, is_only_word=is_only_word):
            self._drop(left, reason)
        if self._delivery.outbox is not None:
            self._queue.shorten(self._delivery.outbox.is_kept)
        self.wake.set()

    def is_broken_since(self, since: float) -> None:
        """The target refused already when the former process ended."""
        self._broken_since = since

    @property
    def broken_since(self) -> float | None:
        """Since when the target refuses for good; None while it does not."""
        return self._broken_since

    def unsent(self) -> Iterator[Unsent]:
        """What stands in the outbox, as it is to stand there now."""
        shift = self._clock.now() - self._clock.monotonic()
        for item in [*([self._current] if self._current else []), *self._queue.items]:
            if item.row is not None and (said := self._as_kept(item)) is not None:
                yield Unsent(
                    row=item.row,
                    notification=said,
                    tries=item.tries,
                    not_before=item.not_before + shift,
                    rests_until=self._rests_until + shift,
                )

    def _as_kept(self, item: Item) -> Notification | None:
        """The item as it stands in the outbox; None where that cannot be read any more."""
        outbox = self._delivery.outbox
        if item.is_whole or outbox is None or item.row is None:
            return item.as_kept
        return outbox.read(item.row)

    def _is_made_whole(self, item: Item) -> bool:
        """Take alerts and texts back from the outbox; what cannot be read there is given back to its group."""
        said = self._as_kept(item)
        if said is None:
            self._drop(item, "unreadable")
            return False
        if not item.is_whole:
            item.as_kept, item.is_whole = said, True
            item.notification = aged(said, self._clock.now()) if item.made_old else said
        return True

    def _item(self, notification: Notification, expires_at: float) -> Item:
        self._order += 1
        return Item(notification, self._order, self._clock.monotonic(), expires_at)

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
            item = None
            if self._rests_until <= now:
                item = self._queue.next(now, self._successes, is_failing=self._failures > 0)
            if item is not None:
                self._queue.remove(item)
                if self._is_made_whole(item):
                    await self._try(item)
                continue
            next_try = max(self._rests_until, min((item.not_before for item in self._queue.items), default=0.0))
            closes_at = self._delivery.closes_at
            if closes_at is not None and (not self._queue or next_try >= closes_at):
                return
            await self._sleep(
                min([next_try, *(item.expires_at for item in self._queue.items)]) - now if self._queue else None
            )

    def abandon(self) -> int:
        """Leave what is left at the end, which an outbox keeps for the next start; gives how many."""
        left = [*self._queue.clear(), *([self._current] if self._current else [])]
        for item in left:
            if item.row is None:
                self._drop(item, "stopping")
        return len(left)

    async def close(self) -> None:
        """Close the channel, which may hang as everything else may."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.channel.close()
        except TimeoutError:
            pass  # the process ends; there is nobody left to whom it matters

    async def _sleep(self, seconds: float | None) -> None:
        self.wake.clear()
        try:
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        except TimeoutError:
            pass

    async def _keep(self, item: Item) -> None:
        """Wait until it is on the disk, but no longer than a page may wait."""
        outbox = self._delivery.outbox
        if outbox is None or item.is_kept:
            return
        item.is_kept = True
        outbox.flush()
        left = item.submitted_at + KEPT_SECONDS - self._clock.monotonic()
        if item.row is not None and not await outbox.kept(item.row, max(0.0, left)):
            self._delivery.report.unkept(self.channel.name, item.notification)

    async def _try(self, item: Item) -> None:
        self._current = item
        await self._keep(item)
        began = self._clock.monotonic()
        item.tries += 1
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

    def _sent(self, item: Item) -> None:
        now = self._clock.monotonic()
        if self._failures > 1:  # the target was away, not one message at fault: the rest goes out at once, in order
            for other in self._queue.items:
                other.not_before = now
        self._failures = 0
        self._successes += 1
        self._delivery.report.sent(self.channel.name, item.notification, item.tries, now - item.submitted_at)
        self._delivery.book.confirm(item.notification, self._clock.now())
        outbox = self._delivery.outbox
        if outbox is not None and item.row is not None:
            outbox.sent(item.row, item.notification, item.tries, self._clock.now())
            outbox.flush()
        if self._broken_since is not None:
            since, self._broken_since = self._broken_since, None
            self._mark(None)
            self._delivery.report.mended(self.channel.name)
            notice = broken_target(self.channel.name, "It was refused", since, self._clock.now(), is_mended=True)
            self._delivery.tell_others(self, notice)

    def _failed(self, item: Item, error: ChannelError) -> None:
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
        if self._queue.has(item.group):
            self._drop(item, "superseded")
            return
        item.failed_at = self._successes
        item.not_before = now + max(wait, self._wait(item.tries))
        self._queue.add(item)
        outbox = self._delivery.outbox
        if outbox is not None and item.row is not None:
            shift = self._clock.now() - now
            outbox.tried(item.row, item.tries, item.not_before + shift, self._rests_until + shift)

    def _mark_broken(self, error: ChannelError) -> None:
        if self._broken_since is not None:
            return
        self._broken_since = self._clock.now()
        self._mark(self._broken_since)
        self._delivery.report.broken(self.channel.name, error)
        notice = broken_target(self.channel.name, str(error), self._broken_since, self._broken_since)
        self._delivery.tell_others(self, notice)

    def _mark(self, broken_since: float | None) -> None:
        if self._delivery.outbox is not None:
            self._delivery.outbox.mark(self.channel.name, broken_since)

    def _wait(self, failures: int) -> float:
        """Full jitter: any part of a time that doubles with every failure, so that targets are not met in step."""
        most = min(
            self._settings.longest_wait_seconds, self._settings.first_wait_seconds * 2.0 ** min(failures - 1, 30)
        )
        return self._delivery.chance() * most

    def _expire(self, now: float) -> None:
        for item in self._queue.expire(now):
            self._drop(item, "expired")

    def _drop(self, item: Item, reason: DropReason) -> None:
        self._delivery.report.dropped(self.channel.name, item.notification, reason)
        if item.row is not None and self._delivery.outbox is not None:
            self._delivery.outbox.remove(item.row)
        if reason in ("expired", "overflow", "refused", "unreadable"):
            self._delivery.book.release(item.notification, self._clock.now(), refused=reason == "refused")
