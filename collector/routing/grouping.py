"""Grouping: changed alerts in, notifications ripe to speak out, with Alertmanager's timing and its notification log.

A group speaks first after group_wait, of changes after group_interval, of nothing new after repeat_interval. What each
target was told is a log per group and target, which moves only when `confirm` says that the target took it. Between
`due` and `confirm` a notification counts as told, so that no flush says it twice; `release` gives it back.

Differences from Alertmanager, on purpose: an alert more urgent than all that its group has told speaks at once; what
was decided and could not be delivered before it ended is told as resolved, with its times, and not forgotten; what
ends while it is muted, and was told before, is told as resolved when the mute ends.

A group whose every firing alert is acked is quiet; while one waits for an ack, the steps of its route's `escalate` are
reached, each a group of its own that hears of the same alerts. An alert that flaps is told as that, and then rests.

Groups live as long as their alerts, so the bound on alerts (a rule's `limit`) is the bound here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from collector.model.alert import Alert, Notification
from collector.model.labels import NO_LABELS, Labels
from collector.model.saved import GroupChange, SavedPast
from collector.routing import message
from collector.routing.acks import Acks
from collector.routing.draft import Links, dedup_key, draft, group_key, no_links
from collector.routing.dressing import Dressing
from collector.routing.flapping import Flapping
from collector.routing.group import Group, Target
from collector.routing.inhibition import Inhibited, Inhibition, InhibitRule
from collector.routing.intervals import Intervals
from collector.routing.ladder import Ladder
from collector.routing.message import Wording
from collector.routing.resumption import Resumption, SavedGroups, held
from collector.routing.route import BUILT_IN, Route, destinations, muted

Gate: TypeAlias = Callable[[Alert, float], str]
"""Why an alert is not spoken of at an instant, Unix seconds; "" where it may be."""

AGAIN_SECONDS = 60.0
"""How long a target rests from a notification that it did not take before its deadline."""
MOST_PAST = 10_000
"""Episodes of a backlog that are kept for the summary; the oldest leave first and are counted in it."""
NO_TARGET = (Target(""),)
"""Stands for the targets of a receiver that has none here: what it would be told is on record."""
ALERTS_PER_NOTIFICATION = 50
"""To look at so many alerts costs as much as to make a notification of one."""
MOST_NEWEST = 50
"""Of a message so many alerts, the most urgent, are told as they are now; the others as their rules gave them last."""

__all__ = ["Gate", "Grouping", "Target", "dedup_key", "group_key"]


class Grouping:
    """All groups of one routing tree.

    `receivers` names each receiver's targets: one without any tells nobody; to one that is not named, notifications
    are made for no target. `gates` are asked, besides inhibition and time intervals, whether an alert may be spoken of.
    """

    def __init__(  # noqa: PLR0913  what a routing file has
        self,
        route: Route = BUILT_IN,
        receivers: Mapping[str, Sequence[Target]] | None = None,
        wording: Wording | None = None,
        *,
        inhibit_rules: Sequence[InhibitRule] = (),
        intervals: Intervals | None = None,
        gates: Sequence[Gate] = (),
        acks: Acks | None = None,
        flapping: Flapping | None = None,
        links: Links = no_links,
    ) -> None:
        self._route, self._receivers = route, receivers or {}
        self._inhibition, self._intervals, self._gates = Inhibition(inhibit_rules), intervals or {}, gates
        self._acks = Acks() if acks is None else acks
        self._flapping, self._links = flapping, links
        self._wording = wording or Wording()
        self.firing: dict[str, tuple[Alert, float]] = {}
        """All alerts that fire, by fingerprint, with when that was last said. Not to be changed."""
        self._groups: dict[tuple[str, str], Group] = {}  # by receiver and group key
        self._heap: list[tuple[float, int, Group]] = []
        self._pushes = 0
        self._ladder = Ladder(self._groups, self._receivers, self._acks, self._schedule)
        self.dressing = Dressing()
        """What alerts get from contracts on their way in, and from their rules on their way out."""
        self._past: dict[tuple[str, float], tuple[Alert, bool]] = {}
        self._forgotten = 0
        self._past_touched: dict[tuple[str, float], None] = {}
        self._touched: dict[tuple[str, str], None] = {}  # places of groups that are others than when saved last

    def __len__(self) -> int:
        return len(self._groups)

    def insert(self, alerts: Iterable[Alert], now: float, *, live: bool = True, pages: bool = False) -> None:
        """Take alerts that began to fire or ended; pending ones are passed over. They are copied.

        `live=False`: decided along a backlog, so they wait for `go_live`. `pages`: of a rule that reads dead letters,
        lost or overdue tasks; what such a rule found in the past is told like something new.
        """
        for alert in alerts:
            if alert.state == "pending":
                continue
            taken = self.dressing.dressed(alert)
            self._note(taken, now, live=live)
            if live or self._is_known(taken):
                self._inhibition.note(taken)
                self._insert(taken, now)
            else:
                self._gather(taken, pages=pages)

    def go_live(self, now: float) -> None:
        """The backlog was read to its end: tell what still fires and what pages, and sum up the rest in one message."""
        (past, self._past), (more, self._forgotten) = (self._past, {}), (self._forgotten, 0)
        self._past_touched.update(dict.fromkeys(past))
        latest = dict(sorted(past))  # of each alert the start of its last episode
        for (fingerprint, active_at), (alert, pages) in past.items():
            if alert.state == "firing":
                self._inhibition.note(alert)
                self._insert(alert, now)
            elif pages and active_at == latest[fingerprint]:  # it pages once; its former episodes are summed up
                self._insert_ended(alert, now)
            else:
                for route in destinations(self._route, alert.labels):
                    group = self._group(route, NO_LABELS, now, away=True)
                    group.put(group.token(alert), alert)
                    group.more = more

    def due(self, now: float, most: int = 100) -> list[Notification]:
        """What to tell now, for as much work as `most` notifications are; `next_due` then says that there is more."""
        ripe: list[Notification] = []
        cost = 0.0
        while cost < most:
            at = self.next_due()
            if at is None or at > now:
                break
            group = heapq.heappop(self._heap)[2]
            cost += len(group.alerts) / ALERTS_PER_NOTIFICATION
            said = self._flush(group, now)
            cost += max([len(said), *(min(len(one.alerts), MOST_NEWEST) for one in said)])
            ripe += said
        return ripe

    def next_due(self) -> float | None:
        """When `due` has something to look at next, Unix seconds; None while there is no group."""
        while self._heap:
            at, _, group = self._heap[0]
            if at == group.flush_at and self._groups.get((group.route.receiver, group.key)) is group:
                return at
            heapq.heappop(self._heap)  # the group was put to another time, or is gone
        return None

    def confirm(self, notification: Notification, now: float) -> None:
        """The target took it: from now on it counts as told."""
        group = self._groups.get((notification.receiver, notification.group_key))
        log = group and group.logs.get(notification.target)
        if not group or not log:
            return
        last = log.handed if log.key == notification.key else log.told
        log.told = msgspec.structs.replace(
            group.told(notification.alerts, now), held=last.held if last else frozenset()
        )
        if log.key == notification.key:
            log.handed = None
        self._touch(group)
        group.prune()

    def release(self, notification: Notification, now: float, *, refused: bool = False) -> None:
        """The target did not take it, and nobody tries any longer: it is offered again after AGAIN_SECONDS.

        `refused`: the target will not have it, so it is not offered before something changes or repeat_interval passes.
        """
        group = self._groups.get((notification.receiver, notification.group_key))
        log = group and group.logs.get(notification.target)
        if not group or not log or log.key != notification.key:  # the group has spoken again since
            return
        if refused:
            log.told = log.handed and msgspec.structs.replace(log.handed, is_taken=False)
        log.handed = None
        log.not_before = now + AGAIN_SECONDS
        self._touch(group)
        group.prune()

    def heed(self, broken: frozenset[str], now: float) -> None:
        """These targets take nothing now: where nobody of a step can be reached, the next step is due at once."""
        if not self._ladder.heed(broken):
            return
        for group in list(self._groups.values()):
            if group.waiting is not None:
                self._spoken_of(group, now)
                self._ladder.climb(group, now)

    def groups(self) -> list[Group]:
        """All groups, as they are. Not to be changed."""
        return list(self._groups.values())

    def find(self, receiver: str, key: str) -> Group | None:
        """One group by its receiver and key."""
        return self._groups.get((receiver, key))

    def heard(self, fingerprint: str) -> list[tuple[str, str, float]]:
        """Receiver, target and time of each that was told, and confirmed, that an alert fires."""
        return sorted(heard for group in self._groups.values() for heard in group.heard(fingerprint))

    def why_inhibited(self, labels: Labels) -> Inhibited | None:
        """Who speaks for an alert with these labels, or nobody."""
        return self._inhibition.by(labels)

    def muted(self) -> dict[tuple[str, str], dict[str, str]]:
        """By receiver and group key: the fingerprints that the group's last flush left out, and why."""
        return {place: dict(group.muted) for place, group in self._groups.items() if group.muted}

    def changes(self) -> list[GroupChange]:
        """What is to be saved: the groups that changed since this was asked last."""
        touched, self._touched = self._touched, {}
        found = []
        for receiver, key in touched:
            group = self._groups.get((receiver, key))
            saved = None if group is None else group.saved()
            found.append(GroupChange(receiver, key, saved, [] if group is None else group.members()))
        return found

    def past_changes(self) -> list[SavedPast]:
        """The same of the episodes of a backlog."""
        touched, self._past_touched = self._past_touched, {}
        found = []
        for name, at in touched:
            alert, pages = self._past.get((name, at), (None, False))
            found.append(SavedPast(f"{name}@{at}", alert, pages))
        return found

    def restore_past(self, saved: Iterable[SavedPast]) -> None:
        """Go on with the episodes of a backlog that a former process did not read to its end."""
        for one in saved:
            if one.alert is not None:
                self._past[one.alert.fingerprint, one.alert.active_at] = one.alert, one.pages

    def touch_all(self) -> None:
        """Let `changes` give everything once more: what was saved is not to be relied on."""
        self._past_touched.update(dict.fromkeys(self._past))
        for group in self._groups.values():
            self._touch(group)
            group.touched.update(group.alerts, group.later)

    def restore(self, groups: SavedGroups, now: float, firing: Iterable[Alert] = ()) -> None:
        """Go on with groups of a former process, and what was `firing`, in a group or not: none of it begins anew."""
        self.firing |= {alert.fingerprint: (alert, now) for alert in (*firing, *held(groups).values())}
        resumption = Resumption(self._route, self._groups, self._group, self._schedule)
        self._touched.update(dict.fromkeys(resumption.resume(groups, now)))

    def _touch(self, group: Group) -> None:
        self._touched[group.route.receiver, group.key] = None

    def _note(self, alert: Alert, now: float, *, live: bool) -> None:
        """What is known of an alert besides its groups."""
        known = alert.fingerprint in self.firing
        is_firing = alert.state == "firing"
        if is_firing:
            self.firing[alert.fingerprint] = alert, now
        else:
            self.firing.pop(alert.fingerprint, None)
            self._acks.end(alert.fingerprint)
        if live and self._flapping is not None and known != is_firing:
            is_again = is_firing and self._flapping.is_known(alert.fingerprint)
            # A start after an end that nobody was told of is none.
            if not is_again or not any(group.is_told(alert.fingerprint) for group in self._found(alert)):
                self._flapping.note(alert.fingerprint, now, is_start=is_firing)

    def _found(self, alert: Alert) -> Iterator[Group]:
        """The groups that an alert belongs to, as far as there are any."""
        for route in destinations(self._route, alert.labels):
            group = self._groups.get((route.receiver, group_key(route, route.group_labels(alert.labels))))
            if group is not None:
                yield group

    def _is_known(self, alert: Alert) -> bool:
        """Whether the alert is in a group already: what becomes of it is then no matter of the past."""
        return any(alert.fingerprint in group.alerts for group in self._found(alert))

    def _gather(self, alert: Alert, *, pages: bool) -> None:
        place = alert.fingerprint, alert.active_at
        self._past[place] = alert, pages
        self._past_touched[place] = None
        if len(self._past) > MOST_PAST:
            oldest = next(iter(self._past))
            self._past_touched[oldest] = None
            del self._past[oldest]
            self._forgotten += 1

    def _insert(self, alert: Alert, now: float) -> None:
        for route in destinations(self._route, alert.labels):
            labels = route.group_labels(alert.labels)
            if alert.state == "resolved":
                group = self._groups.get((route.receiver, group_key(route, labels)))
                for each in (group, *group.steps.values()) if group is not None else ():
                    if alert.fingerprint in each.alerts:  # else nobody was to hear that it fired
                        each.put(alert.fingerprint, alert)
                        self._touch(each)
                continue
            group = self._group(route, labels, now)
            for each in (group, *(step for number, step in group.steps.items() if number < group.reached)):
                each.put(alert.fingerprint, alert)
                if each.later.pop(alert.fingerprint, None) is not None:
                    each.touched.add(alert.fingerprint)
                self._touch(each)
            if group.flushed:
                speaks_now = message.rank(alert) < group.rank < message.LEAST
            else:  # it may have waited already, before we knew of it
                fired_at = alert.active_at if alert.fired_at is None else alert.fired_at
                speaks_now = fired_at + route.group_wait <= now
            if speaks_now and group.flush_at > now:
                self._schedule(group, now)

    def _insert_ended(self, alert: Alert, now: float) -> None:
        """Tell as firing, and at the next flush as resolved."""
        self._insert(msgspec.structs.replace(alert, state="firing", resolved_at=None), now)
        for route in destinations(self._route, alert.labels):
            group = self._group(route, route.group_labels(alert.labels), now)
            group.later[alert.fingerprint] = alert
            group.touched.add(alert.fingerprint)

    def _group(self, route: Route, labels: Labels, now: float, *, away: bool = False) -> Group:
        key = f"{route.key}:away" if away else group_key(route, labels)
        group = self._groups.get((route.receiver, key))
        if group is None:
            group = self._groups[route.receiver, key] = Group(route, labels, key, away=away)
            self._schedule(group, now if away else now + route.group_wait)
        return group

    def _schedule(self, group: Group, at: float) -> None:
        group.flush_at = at
        self._touch(group)
        self._pushes += 1
        heapq.heappush(self._heap, (at, self._pushes, group))

    def _flush(self, group: Group, now: float) -> list[Notification]:
        """What each target is to be told now; the group looks again one group_interval later, and goes when empty."""
        if group.parent is not None and group.parent.waiting is not None and group.parent.alerts:
            self._spoken_of(group.parent, now)
            self._ladder.climb(group.parent, now)  # which may make this group one that speaks
        if not group.alerts:
            if not self._ladder.stays(group):
                self._touch(group)
                del self._groups[group.route.receiver, group.key]
            return []
        group.flushed = True
        self._schedule(group, now + group.route.group_interval)
        alerts = self._spoken_of(group, now)
        self._ladder.climb(group, now)
        if self._acks.cover((alert.fingerprint for alert in alerts if alert.state == "firing"), now):
            return []
        group.rank = message.rank(alerts[0]) if alerts and alerts[0].state == "firing" else message.LEAST
        targets = self._receivers.get(group.route.receiver, NO_TARGET) if alerts else ()
        news = group.news(targets, group.told(alerts, now))
        if news:
            alerts[:MOST_NEWEST] = map(self.dressing.as_now, alerts[:MOST_NEWEST])
        drafts: dict[bool, Notification] = {}
        ripe: list[Notification] = []
        for target, log, here in news:
            if target.send_resolved not in drafts:
                told = [alert for alert in alerts if target.send_resolved or alert.state == "firing"]
                drafts[target.send_resolved] = draft(group, told, now, self._wording, self._links)
            one = drafts[target.send_resolved]
            log.handed, log.key = here, one.key
            ripe.append(msgspec.structs.replace(one, target=target.name))
        rests = any(now < group.logs[target.name].not_before for target in targets)
        if not rests and group.later:
            group.alerts |= group.later
            group.touched |= group.later.keys()
            group.later.clear()
        group.prune()
        return ripe

    def _spoken_of(self, group: Group, now: float) -> list[Alert]:
        """The alerts that are not muted, in the order of a message; why the others are is noted at the group."""
        why = muted(group.route, self._intervals, now)
        group.muted = {}
        for token, alert in group.alerts.items():
            reason = why or ("" if group.away else self._reason(alert, now))
            if reason:
                group.muted[token] = reason
        rest = [alert for token, alert in group.alerts.items() if token not in group.muted]
        if self._flapping is not None and not group.away:
            known = [(one, self._flapping.of(one.fingerprint, now)) for one in rest]
            rest = [said for one, changes in known if (said := group.as_flapping(one, changes, now)) is not None]
        return message.order(rest)

    def _reason(self, alert: Alert, now: float) -> str:
        """Why an alert is not spoken of now."""
        if by := self._inhibition.by(alert.labels):
            return str(by)
        return next((reason for gate in self._gates if (reason := gate(alert, now))), "")
