"""Keeps what must outlive the process: alerts, what was told of them, and what is still to be sent.

Stands between the parts, which give plain values, and the one store, which writes them. Whatever changed since the
last `flush` goes to the disk as one transaction, so that a decision and its notification are there both or neither.
Without a store it forgets everything. After a start it holds back ends until the sources have said where they stand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain

from collector.alerting.lifecycle import AlertRule
from collector.keeping.ledgerfile import ledger_found, ledger_statements
from collector.model.alert import Alert, Notification
from collector.model.clock import Clock
from collector.model.labels import Labels, fingerprint
from collector.model.saved import RuleName, SavedAlert, Unsent
from collector.routing.resumption import held
from collector.series.sampled import LOOK_BACK
from collector.shell.delivery import Delivery
from collector.shell.pipeline import REMOVED, Pipeline, reads_sources
from collector.state import rows
from collector.state.store import Store

SETTLE_SECONDS = 30.0
"""So long after a start, at most, ends wait for the sources to be read to their heads."""
ALIVE_SECONDS = 2.0
"""How often it is written that we are alive: a later start counts from there what nobody saw."""
STUCK_SECONDS = 5.0
"""A disk that has taken nothing for so long is not one to rely on."""
REMEMBERED_SECONDS = 7200.0
"""Ended alerts are kept for so long: what a source gives once more after a restart must not begin them again."""
FORGET_SECONDS = 60.0
"""How often those that ended earlier are thrown away."""
REWRITE_SECONDS = 60.0
"""Everything is written anew no more often than this."""
_ALIVE = "alive"
_BROKEN = "broken "


class Keeper:
    """The state of one process; fits `collector.shell.surroundings.Outbox`."""

    def __init__(self, store: Store | None, pipeline: Pipeline, clock: Clock) -> None:
        self._store = store
        self._pipeline = pipeline
        self._clock = clock
        self._statements: list[rows.Statement] = []
        self._rows = self._told = 0
        self._numbers: dict[int, int] = {}  # of the store's statement that keeps a row, until it is known to be kept
        self._new_rows: list[int] = []
        self._alive_at = self._forgot_at = -math.inf
        self._lost = 0
        self._rewritten_at = -math.inf
        self._oldest = (0, math.inf)  # the first statement that waits, and since when it is the first
        self._settles_until: float | None = None
        self._lost_until = -math.inf

    # The start

    def restore(self, delivery: Delivery, *, lost_until: float | None = None) -> None:
        """Go on where a former process stood; nothing where there was none.

        `lost_until`: up to this instant events may have been counted that no window holds any more; None where there
        are none such. An alert of before is not ended by a window that reaches back behind it.
        """
        if self._store is None:
            return
        found = rows.found(self._store)
        now = self._clock.now()
        self._rows = max([0, *(one.row for one in found.unsent)])
        self._told = found.last_told
        alive_at = found.numbers.get(_ALIVE)
        unseen = 0.0 if alive_at is None or lost_until is None else max(0.0, now - alive_at)
        restored = self._restored(found.alerts, now, unseen)
        self._pipeline.grouping.restore(found.groups, now, [one for one in restored if one.state == "firing"])
        self._pipeline.resume_past(found.past)
        self._regroup(restored, found, now)
        broken = {name.removeprefix(_BROKEN): at for name, at in found.numbers.items() if name.startswith(_BROKEN)}
        delivery.restore(found.unsent, broken)
        told = chain.from_iterable(group.held() for group in self._pipeline.grouping.groups())
        delivery.hold(told, self._pipeline.wording.external_url)
        self._settles_until = now + SETTLE_SECONDS
        if found.alerts:
            self._lost_until = -math.inf if lost_until is None else lost_until
            for rule in self._rules():
                rule.holds_back_until = math.inf
        self._pipeline.undertaker.ledger.restore(*ledger_found(self._store))
        self._pipeline.undertaker.resume()
        telemetry = self._pipeline.telemetry
        telemetry.restored(len(found.alerts), len(found.groups), len(found.unsent), found.unread)
        self.flush()

    def _restored(self, saved: Iterable[SavedAlert], now: float, unseen: float) -> list[Alert]:
        """Give alerts back to their rules. Copies of them all; those whose rule is gone have ended."""
        exact = {rule.saved_name: rule for rule in reversed(self._rules())}
        moved = {_without_file(name): rule for name, rule in exact.items()}
        restored: list[Alert] = []
        for one in saved:
            rule = exact.get(one.name) or moved.get(_without_file(one.name))
            if rule is not None:
                restored.append(rule.restore(one, unseen))
            elif one.alert.state == "firing":
                one.alert.state, one.alert.resolved_at, one.alert.resolve_reason = "resolved", now, REMOVED
                restored.append(one.alert)
            if rule is None or rule.saved_name != one.name:
                self._statements.append(rows.alert(one.name, one.alert.fingerprint, None))
                if rule is not None:
                    rule.touched[one.alert.labels] = None
        return restored

    def _regroup(self, alerts: Iterable[Alert], found: rows.Found, now: float) -> None:
        """Tell groups what fires, and of the ends that had not reached them when the former process was killed."""
        grouping = self._pipeline.grouping
        told = held(found.groups)
        waiting = {(one.alert.fingerprint, one.alert.active_at): one for one in found.past if one.alert is not None}
        for alert in alerts:
            past = waiting.get((alert.fingerprint, alert.active_at))
            known = told.get(alert.fingerprint) if past is None else past.alert
            if alert.state == "resolved" and known and known.state == "firing" and known.active_at <= alert.active_at:
                self._pipeline.turned(alert)
                grouping.insert([alert], now, live=past is None, pages=past is not None and past.pages)
            elif alert.state != "firing":
                continue
            elif past is None:
                grouping.insert([alert], now)
            told.pop(alert.fingerprint, None)
        self._pipeline.desk.resume(told.values(), now)

    def settle(self) -> None:
        """Let restored alerts end once every source was read to its head, or has had its time."""
        if self._settles_until is None:
            return
        now = self._clock.now()
        if now < self._settles_until and not all(axis.is_at_head for axis in self._pipeline.axes):
            return
        if not self._pipeline.undertaker.recount():
            return  # there is more of it: the next turn goes on
        self._settles_until = None
        for rule in [rule for rule in self._rules() if rule.holds_back_until == math.inf]:
            rule.holds_back_until = max(now, self._lost_until + _reach(rule)) if reads_sources(rule) else now

    @property
    def trouble(self) -> str:
        """What is wrong with our own writer, or nothing; that a disk takes nothing is none of it."""
        return "" if self._store is None or self._store.is_alive else "the writer of the state has ended"

    def end(self) -> None:
        """Hand over the last, and until when somebody watched."""
        self._alive_at = -math.inf
        self.flush()

    # What changed goes to the disk

    def flush(self) -> None:
        """Hand over all that changed since, as one."""
        statements, self._statements = self._statements, []
        for rule in self._rules():
            if rule.touched:
                name = rule.saved_name
                statements += [_alert(name, labels, saved) for labels, saved in rule.changes()]
        for change in self._pipeline.grouping.changes():
            statements += rows.group(change)
        statements += map(rows.past, self._pipeline.grouping.past_changes())
        statements += ledger_statements(self._pipeline.undertaker.ledger.changes())
        if self._store is None:
            return
        now = self._clock.now()
        if now - self._alive_at >= ALIVE_SECONDS:
            self._alive_at = now
            statements.append(rows.meta(_ALIVE, now))
        if now - self._forgot_at >= FORGET_SECONDS:
            self._forgot_at = now
            statements.append(rows.forgotten(now - REMEMBERED_SECONDS))
        if statements:
            number = self._store.put_all(statements)
            self._numbers |= dict.fromkeys(self._new_rows, number)
            self._new_rows = []

    def rules_changed(self) -> None:
        """Rule files were read again: the alerts are written anew."""
        self._statements.append(rows.EMPTY[0])
        for rule in self._rules():
            rule.touch_all()

    def watch(self, delivery: Delivery) -> None:
        """Once a second: say how the writing goes, and write everything anew where some of it was given up."""
        store, telemetry = self._store, self._pipeline.telemetry
        if store is None:
            return
        health, now = store.health, self._clock.monotonic()
        if health.oldest != self._oldest[0] or not health.waiting:
            self._oldest = health.oldest, now
        is_stuck = now - self._oldest[1] > STUCK_SECONDS
        error = health.error or (f"the disk has taken nothing for {now - self._oldest[1]:.0f} s" if is_stuck else "")
        telemetry.state(not error, health.waiting, health.lost, error)
        if health.lost != self._lost and not error and now - self._rewritten_at > REWRITE_SECONDS:
            self._lost, self._rewritten_at = health.lost, now
            self._rewrite(delivery)

    def _rewrite(self, delivery: Delivery) -> None:
        """Write everything anew; only who was told what is not known any more."""
        unsent = delivery.unsent()
        self._statements = [*rows.EMPTY, *self._statements, *map(rows.unsent, unsent)]
        self._new_rows = [one.row for one in unsent]
        for target, since in delivery.refusing().items():
            self.mark(target, since)
        for rule in self._rules():
            rule.touch_all()
        self._pipeline.grouping.touch_all()
        self._pipeline.undertaker.ledger.touch_all()
        self._pipeline.desk.save_all(self._clock.now())

    # What is to be sent

    def add(self, notification: Notification, now: float) -> int:
        """Keep it; gives its row."""
        self._rows += 1
        one = Unsent(row=self._rows, notification=notification, tries=0, not_before=now, rests_until=0.0)
        self._statements.append(rows.unsent(one))
        self._new_rows.append(self._rows)
        return self._rows

    def tried(self, row: int, tries: int, not_before: float, rests_until: float) -> None:
        """It was not taken, and is tried again."""
        self._statements.append(rows.tried(row, tries, not_before, rests_until))

    def remove(self, row: int) -> None:
        """It left its queue without being sent."""
        self._numbers.pop(row, None)
        self._statements.append(rows.gone(row))

    def sent(self, row: int, notification: Notification, tries: int, now: float) -> None:
        """Its target confirmed it."""
        self._told += 1
        self.remove(row)
        self._statements += rows.told(self._told, notification, tries, now)

    def mark(self, target: str, broken_since: float | None) -> None:
        """A target refuses for good since then, or no more."""
        self._statements.append(rows.meta(_BROKEN + target, broken_since))

    def is_kept(self, row: int) -> bool:
        """Whether a row is on the disk by now."""
        if self._store is None or (self._new_rows and row >= self._new_rows[0]):
            return False
        number = self._numbers.get(row)
        return number is None or self._store.is_done(number)

    def read(self, row: int) -> Notification | None:
        """What stands in a row; None where it cannot be read."""
        return None if self._store is None else rows.unsent_at(self._store, row)

    async def unkept(self, seconds: float) -> str:
        """Hand over all that changed; why it is not on the disk after at most so long, for people; "": it is."""
        self.flush()
        if self._store is None:
            return "the daemon keeps no state: a restart forgets it"
        last = self._store.put_all(())  # not all of it is handed over by `flush`
        if await self._store.durable(seconds, last):
            return ""
        error = self._store.health.error or "it takes nothing"
        return f"the disk does not take it ({error}): a restart before it does forgets it"

    async def kept(self, row: int, seconds: float) -> bool:
        """Whether a row is on the disk, after at most so long."""
        number = self._numbers.pop(row, None)
        return self._store is None or number is None or await self._store.durable(seconds, number)

    def _rules(self) -> list[AlertRule]:
        return [rule for group in self._pipeline.ticker.groups for rule in group.rules if isinstance(rule, AlertRule)]


def _alert(name: RuleName, labels: Labels, saved: SavedAlert | None) -> rows.Statement:
    return rows.alert(name, saved.alert.fingerprint if saved else fingerprint(labels), saved)


def _without_file(name: RuleName) -> tuple[str, str, Labels]:
    return name.group, name.rule, name.labels


def _reach(rule: AlertRule) -> float:
    """How far back it reads, also through what is recorded for it; a present value as far as a sample counts."""
    recorded = sum(max(one.windows, default=0.0) for one in rule.recordings)
    return max(rule.windows, default=LOOK_BACK) + recorded
