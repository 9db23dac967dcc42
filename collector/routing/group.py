"""One group: the alerts of one route that share its group labels, and what each target was told of them.

What is news to a target is decided here; when a group is asked is decided by `grouping`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from collector.model.alert import Alert
from collector.model.labels import Labels
from collector.model.saved import SavedGroup, SavedLog, SavedMember, Told, Waiting
from collector.routing import message
from collector.routing.flapping import Changes
from collector.routing.route import Route

FLAPS = "flapping: its changes are told when it has been quiet"
"""Why an alert is left out that still waits for somebody to ack it."""


class Target(msgspec.Struct, frozen=True):
    """One place that a receiver tells."""

    name: str
    send_resolved: bool = True


class Log:
    """One target's memory of one group."""

    __slots__ = ("handed", "key", "not_before", "told")

    def __init__(self) -> None:
        self.told: Told | None = None
        self.handed: Told | None = None  # given out, not yet confirmed
        self.key = ""  # of the notification that `handed` is about
        self.not_before = 0.0

    def saved(self) -> SavedLog:
        """As a plain value."""
        return SavedLog(self.told, self.handed, self.key, self.not_before)

    def restore(self, saved: SavedLog) -> None:
        """As it was saved."""
        self.told, self.handed, self.key, self.not_before = saved.told, saved.handed, saved.key, saved.not_before

    def inherit(self, saved: SavedLog, token: str) -> None:
        """What a target was told of one alert in a group that is no more."""
        last = saved.handed or saved.told
        if last is None or token not in last.firing | last.resolved | last.held:
            return
        old = self.told or Told(frozenset(), frozenset(), last.at)
        self.told = Told(
            old.firing | (last.firing & {token}),
            old.resolved | (last.resolved & {token}),
            max(old.at, last.at),
            old.held | (last.held & {token}),
            old.is_taken and last.is_taken,
        )


class Group:
    """The alerts of one route that share its group labels, and what each target was told of them."""

    __slots__ = (
        "alerts", "away", "flush_at", "flushed", "key", "labels", "later", "logs", "more", "muted", "number", "parent",
        "rank", "reached", "route", "steps", "touched", "waiting", "why",
    )  # fmt: skip

    def __init__(self, route: Route, labels: Labels, key: str, *, away: bool) -> None:
        self.route = route
        self.labels = labels
        self.key = key
        self.away = away  # the summary of a backlog: told once, whole
        self.more = 0  # how many the summary counts besides its alerts
        self.alerts: dict[str, Alert] = {}
        self.muted: dict[str, str] = {}  # whom the last flush left out, and why
        self.later: dict[str, Alert] = {}  # ends of alerts that are to be told as firing first
        self.logs: dict[str, Log] = {}
        self.flush_at = 0.0
        self.flushed = False
        self.rank = message.LEAST  # of the most urgent alert that it spoke of
        self.touched: set[str] = set()  # tokens of the alerts that are others than when they were saved last
        self.waiting: Waiting | None = None  # for an ack
        self.reached = 0  # steps of the escalation
        self.steps: dict[int, Group] = {}  # what the receivers of its steps are told, by the step's number
        self.parent: Group | None = None  # whose step this is
        self.number = 0  # which of its steps this is
        self.why = ""  # this step was reached

    def as_flapping(self, alert: Alert, changes: Changes | None, now: float) -> Alert | None:
        """The alert as it is spoken of, given how it flaps; None, and a mute, where it does and everybody knows."""
        if changes is None or changes.since is None:
            return alert
        since = max(changes.since, now - self.route.repeat_interval + 1)
        if alert.state == "firing" and not self.knows(alert.fingerprint, since):
            return msgspec.structs.replace(alert, flapping=True)
        self.muted[alert.fingerprint] = FLAPS
        return None

    def unmuted(self) -> list[str]:
        """The fingerprints of what fires and may be spoken of, as the last flush saw it."""
        return [
            token
            for token, alert in self.alerts.items()
            if alert.state == "firing" and self.muted.get(token, FLAPS) == FLAPS
        ]

    def heard(self, token: str) -> list[tuple[str, str, float]]:
        """Receiver, target and time of each that was told, and confirmed, that an alert fires."""
        return [
            (self.route.receiver, target, told.at) for target, told in self._taken() if token in told.firing | told.held
        ]

    def is_told(self, token: str) -> bool:
        """Whether all that its targets heard last of an alert is that it fires."""
        last = [told for log in self.logs.values() if (told := log.handed or log.told) is not None]
        return bool(last) and all(token in told.firing | told.held for told in last)

    def held(self) -> list[tuple[str, Alert]]:
        """Target and alert of each that fires, where the target has confirmed that it was told so."""
        firing = {token: alert for token, alert in self.alerts.items() if alert.state == "firing"}
        return [
            (target, firing[token])
            for target, told in self._taken()
            for token in firing.keys() & (told.firing | told.held)
        ]

    def _taken(self) -> Iterator[tuple[str, Told]]:
        """What each target has confirmed last, where it has not refused."""
        for target, log in self.logs.items():
            if log.told is not None and log.told.is_taken:
                yield target, log.told

    def knows(self, token: str, since: float) -> bool:
        """Whether every target that was told of the group heard since then that this alert fires."""
        entries = [log.handed or log.told for log in self.logs.values()]
        return bool(entries) and all(
            entry is not None and entry.at >= since and (token in entry.firing or token in entry.held)
            for entry in entries
        )

    def token(self, alert: Alert) -> str:
        """What makes two alerts of this group one: the label set; in a summary the episode."""
        return f"{alert.fingerprint}@{alert.active_at}" if self.away else alert.fingerprint

    def told(self, alerts: Iterable[Alert], at: float) -> Told:
        """What a notification of these alerts says."""
        by_state: dict[str, set[str]] = {"firing": set(), "resolved": set()}
        for alert in alerts:
            by_state[alert.state].add(self.token(alert))
        return Told(frozenset(by_state["firing"]), frozenset(by_state["resolved"]), at)

    def told_to(self, log: Log, here: Told) -> Told:
        """The same, with what this target knows of those that are muted."""
        if not self.muted or (entry := log.handed or log.told) is None:
            return here
        return msgspec.structs.replace(here, held=(entry.firing | entry.held) & self.muted.keys())

    def news(self, targets: Sequence[Target], present: Told) -> list[tuple[Target, Log, Told]]:
        """The targets that are to be told of the group as it is at an instant, each with its log and what it hears.

        To one that hears of no ends they count as told.
        """
        found = []
        for target in targets:
            log = self.logs.setdefault(target.name, Log())
            here = self.told_to(log, present)
            if here.at < log.not_before or not self.is_news(log, here, send_resolved=target.send_resolved):
                continue
            if here.firing or target.send_resolved:
                found.append((target, log, here))
            else:
                log.told, log.handed = here, None  # hears of no ends, but its next start is news again
        return found

    def is_news(self, log: Log, here: Told, *, send_resolved: bool) -> bool:
        """Whether a target with this log is to be told of the group as it is now."""
        entry = log.handed or log.told
        if self.away:
            return entry is None or not here.resolved <= entry.resolved
        if entry is None:
            return bool(here.firing)  # never tell of an end whose start was not told
        if not here.firing <= entry.firing:
            return True
        if not here.firing:
            return bool(entry.firing or here.resolved & entry.held)
        if send_resolved and not here.resolved <= entry.resolved:
            return True
        return here.at - entry.at >= self.route.repeat_interval

    def prune(self) -> None:
        """Forget ended alerts that every target knows of, or need not know of."""
        if any(log.handed is not None for log in self.logs.values()) or (self.away and self.muted):
            return
        owed: set[str] = set()
        for log in self.logs.values():
            if log.told is not None:
                owed |= log.told.firing | log.told.held
            elif self.away:
                return
        for token in [token for token, alert in self.alerts.items() if alert.state == "resolved"]:
            if token not in owed:
                del self.alerts[token]
                self.touched.add(token)

    def put(self, token: str, alert: Alert) -> None:
        """Take an alert in, or in the place of what it was; newer words alone are not worth saving."""
        before = self.alerts.get(token)
        if before is None or (before.state, before.active_at) != (alert.state, alert.active_at):
            self.touched.add(token)
        self.alerts[token] = alert

    def saved(self) -> SavedGroup:
        """Without its alerts, as a plain value."""
        return SavedGroup(
            receiver=self.route.receiver,
            key=self.key,
            route=self.route.key,
            labels=self.labels,
            away=self.away,
            more=self.more,
            flush_at=self.flush_at,
            flushed=self.flushed,
            rank=self.rank,
            logs={target: log.saved() for target, log in self.logs.items()},
            waiting=self.waiting,
            reached=self.reached,
            step_of=None if self.parent is None else (self.parent.route.receiver, self.parent.key),
            number=self.number,
            why=self.why,
        )

    def members(self) -> list[SavedMember]:
        """The alerts that changed since this was asked last."""
        touched, self.touched = self.touched, set()
        return [SavedMember(token, self.alerts.get(token), self.later.get(token)) for token in sorted(touched)]

    def restore(self, saved: SavedGroup, members: Iterable[SavedMember]) -> None:
        """As it was saved."""
        self.more, self.flush_at, self.flushed, self.rank = saved.more, saved.flush_at, saved.flushed, saved.rank
        self.waiting, self.reached, self.why = saved.waiting, saved.reached, saved.why
        for member in members:
            if member.alert is not None:
                self.alerts[member.token] = member.alert
            if member.later is not None:
                self.later[member.token] = member.later
        for target, log in saved.logs.items():
            self.logs[target] = Log()
            self.logs[target].restore(log)
