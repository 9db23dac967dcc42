"""What Tasktrail says of itself: one table of metrics, one function per happening, called per batch, never per event.

Takes happenings from the shell; gives counters for /metrics, samples for rules, and lines for the log. Decides nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from collector.model.alert import Notification
from collector.model.errors import ChannelError
from collector.model.labels import Labels, labels_of
from collector.model.record import Gap, Outcome
from collector.model.secret import mask
from collector.model.shown import counted

log = logging.getLogger("tasktrail")

# name → (type, help, label names). Counters are written without their `_total`.
METRICS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tasktrail_source_up": ("gauge", "1 while the source delivers, 0 while it is down.", ("source",)),
    "tasktrail_source_lag_seconds": ("gauge", "How far behind its head a source is being read.", ("source",)),
    "tasktrail_source_restarts": ("counter", "How often a source's client was thrown away and rebuilt.", ("source",)),
    "tasktrail_source_gaps": ("counter", "Holes in what a source delivered.", ("source", "reason")),
    "tasktrail_source_missed_records": ("counter", "Records missed in gaps of known or estimated size.", ("source",)),
    "tasktrail_events": ("counter", "Events by what became of them.", ("source", "outcome")),
    "tasktrail_rejected": ("counter", "Records that could not be used, by reason.", ("source", "reason")),
    "tasktrail_evictions": ("counter", "State that left before its time, by reason.", ("reason",)),
    "tasktrail_trails": ("gauge", "Open trails held.", ()),
    "tasktrail_kept_trails": ("gauge", "Parts of trails that are kept in the state file.", ()),
    "tasktrail_kept_bytes": ("gauge", "About what they take there.", ()),
    "tasktrail_bound_used_ratio": ("gauge", "How full a bound is, from 0 to 1.", ("bound",)),
    "tasktrail_reload_success": (
        "gauge",
        "1 where the last reload of rules was taken, 0 where the old ones were kept.",
        (),
    ),
    "tasktrail_rule_failures": ("counter", "Rule evaluations that failed.", ("group", "rule")),
    "tasktrail_rule_slots_missed": (
        "counter",
        "Slots at which a rule was left out: it is slow, or the process had stood still.",
        ("group", "rule", "reason"),
    ),
    "tasktrail_clock_ahead_seconds": ("gauge", "How far ours is ahead of the machine's, since that was set back.", ()),
    "tasktrail_loop_stall_seconds": ("gauge", "The longest uninterrupted step of evaluation since start.", ()),
    "tasktrail_notifications": ("counter", "Notifications by what became of them.", ("receiver", "outcome")),
    "tasktrail_notification_seconds": ("counter", "Time from decision to confirmed sending, summed.", ("receiver",)),
    "tasktrail_target_broken": ("gauge", "1 while a target refuses notifications for good.", ("receiver",)),
    "tasktrail_notifications_unkept": ("counter", "Notifications sent before the disk had taken them.", ("receiver",)),
    "tasktrail_alerts": ("gauge", "Alerts that fire: of our own rules, or from outside.", ("from",)),
    "tasktrail_silences": ("gauge", "Silences that are kept, also those that are pending or have expired.", ()),
    "tasktrail_acks": ("gauge", "Alerts that somebody has acked.", ()),
    "tasktrail_heartbeat": ("gauge", "1 while the heartbeat URL hears of us, 0 while it does not.", ()),
    "tasktrail_checkpoint_time_seconds": ("gauge", "When the last checkpoint was taken, Unix seconds.", ()),
    "tasktrail_checkpoint_loop_seconds": ("counter", "How long checkpoints kept the loop busy.", ()),
    "tasktrail_checkpoint_seconds": ("counter", "How long checkpoints took until they were on the disk.", ()),
    "tasktrail_checkpoint_bytes": ("counter", "What checkpoints wrote.", ()),
    "tasktrail_checkpoints": ("counter", "Checkpoints by what became of them.", ("outcome",)),
    "tasktrail_state_durable": ("gauge", "1 where state survives a restart, 0 where it is memory only.", ()),
    "tasktrail_state_failing": ("gauge", "1 while the disk does not take state that it should keep.", ()),
    "tasktrail_state_waiting": ("gauge", "Statements that are not on the disk yet.", ()),
    "tasktrail_state_lost": ("counter", "Statements that were given up for want of room.", ()),
    "tasktrail_state_set_aside": (
        "gauge",
        "1 for each file of the state that was damaged at the start, and set aside.",
        ("file",),
    ),
}


EXPOSED: frozenset[str] = frozenset(
    name if kind == "gauge" else f"{name}_total" for name, (kind, _, _) in METRICS.items()
)
"""The names that `samples` gives and /metrics shows."""


LEFT_OUT: dict[str, str] = {
    "slow": "it is slow and the others keep their times",
    "standstill": "the process had stood still",
}
"""Why a rule is not evaluated at a slot."""


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was set aside: where it stood, why, and how it begins (masked)."""

    source: str
    place: str
    receipt: str
    reason: str
    detail: str
    first_bytes: str
    at: float
    traceback: str = ""


class Telemetry:
    """Our own numbers. A prometheus-client collector (`collect`) and a source of samples for rules (`samples`)."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in METRICS}
        self.rejected: deque[Rejected] = deque(maxlen=200)
        self.set("tasktrail_state_durable", (), 0.0)
        self._takes = {"store": True, "checkpoints": True}
        """Whether the disk took what was last written of each part of the state."""
        self.set("tasktrail_loop_stall_seconds", (), 0.0)
        self.set("tasktrail_reload_success", (), 1.0)  # a process that runs has loaded its rules

    # What everything below is made of.

    def add(self, name: str, labels: tuple[str, ...], amount: float = 1.0) -> None:
        """Raise a counter."""
        values = self._values[name]
        values[labels] = values.get(labels, 0.0) + amount

    def set(self, name: str, labels: tuple[str, ...], value: float) -> None:
        """Set a gauge."""
        self._values[name][labels] = value

    def get(self, name: str, labels: tuple[str, ...] = ()) -> float:
        """The present value, 0 where nothing was said yet."""
        return self._values[name].get(labels, 0.0)

    # What happens to sources.

    def source_named(self, source: str) -> None:
        """A source exists; until it connects it is down."""
        self.set("tasktrail_source_up", (source,), 0.0)
        self.set("tasktrail_source_lag_seconds", (source,), 0.0)

    def source_connected(self, source: str, detail: str, *, is_deaf: bool = False) -> None:
        """A source reaches its broker."""
        self.set("tasktrail_source_up", (source,), 1.0)
        log.log(logging.WARNING if is_deaf else logging.INFO, "source %s: connected, %s", source, mask(detail))

    def source_lost(self, source: str, error: str, wait_seconds: float) -> None:
        """A source lost its broker and is tried again after a wait."""
        self.set("tasktrail_source_up", (source,), 0.0)
        self.add("tasktrail_source_restarts", (source,))
        log.warning("source %s: down, %s; trying again in %.1f s", source, mask(error), wait_seconds)

    def source_ended(self, source: str) -> None:
        """A finite source was read to its end."""
        log.info("source %s: read to its end", source)

    def source_seen(self, source: str, events: int) -> None:
        """The first line about what a source delivers."""
        log.info("source %s: %s", source, f"{counted(events, 'event')} seen" if events else "no event yet")

    def lagging(self, source: str, seconds: float) -> None:
        """How far behind its head a source is being read."""
        self.set("tasktrail_source_lag_seconds", (source,), seconds)

    def gap(self, gap: Gap) -> None:
        """A hole in what a source delivered."""
        self.add("tasktrail_source_gaps", (gap.source, gap.reason))
        if gap.estimate:
            self.add("tasktrail_source_missed_records", (gap.source,), gap.estimate)
        log.warning("source %s: %s (%s)", gap.source, gap, gap.reason)

    def batch_counted(self, source: str, outcome: Outcome) -> None:
        """What became of a batch."""
        for name in ("accepted", "duplicate", "malformed", "ignored"):
            if count := getattr(outcome, name):
                self.add("tasktrail_events", (source, name), count)

    def record_rejected(self, rejected: Rejected) -> None:
        """A record could not be used. Logged once per source and reason, then only counted and kept."""
        key = (rejected.source, rejected.reason)
        if not self.get("tasktrail_rejected", key):
            log.warning(
                "source %s: rejected %s@%s as %s: %s; it begins %r (further ones are counted only)%s",
                rejected.source,
                rejected.place,
                rejected.receipt,
                rejected.reason,
                rejected.detail,
                rejected.first_bytes,
                rejected.traceback and f"\n{rejected.traceback}",
            )
        self.add("tasktrail_rejected", key)
        self.rejected.append(rejected)

    def records_rejected(self, source: str, reason: str, count: int) -> None:
        """More records that could not be used, beyond those that were told one by one."""
        self.add("tasktrail_rejected", (source, reason), count)

    # What happens to rules and alerts.

    def rule_failed(self, group: str, rule: str, error: str, trace: str = "") -> None:
        """A rule could not be evaluated; it is unhealthy and the others go on."""
        if not self.get("tasktrail_rule_failures", (group, rule)):
            log.warning(
                "rule %s in group %s failed: %s (further failures are counted only)%s",
                rule,
                group,
                mask(error),
                trace and f"\n{mask(trace)}",
            )
        self.add("tasktrail_rule_failures", (group, rule))

    def slots_missed(self, group: str, rules: Sequence[str], reason: str, slots: int = 1) -> None:
        """Rules of a group were left out at slots, for a reason of LEFT_OUT."""
        name = "tasktrail_rule_slots_missed"
        if not all(self.get(name, (group, rule, reason)) for rule in rules):
            named, why = ", ".join(rules), LEFT_OUT[reason]
            log.warning(
                "group %s: %s left out at %d slots, because %s (more are only counted)", group, named, slots, why
            )
        for rule in rules:
            self.add(name, (group, rule, reason), slots)

    def alert_turned(self, state: str, labels: Labels) -> None:
        """An alert began to fire or ended."""
        log.info("alert %s %s", state, " ".join(f"{name}={value}" for name, value in labels))

    # What happens to the loop and the process.

    def stalled(self, seconds: float) -> None:
        """Evaluation held the loop for so long in one step."""
        if seconds > self.get("tasktrail_loop_stall_seconds"):
            self.set("tasktrail_loop_stall_seconds", (), seconds)

    def state_damaged(self, problem: str) -> None:
        """Something of the stored state could not be used."""
        log.warning("state: %s; the state before it is used, where there is one", problem)

    def checkpointed(self, at: float, busy: float, seconds: float, size: int) -> None:
        """A checkpoint that was taken at `at` is on the disk."""
        if not self._takes["checkpoints"]:
            log.info("state: checkpoints are written again")
        self.add("tasktrail_checkpoints", ("written",))
        self.add("tasktrail_checkpoint_loop_seconds", (), busy)
        self.add("tasktrail_checkpoint_seconds", (), seconds)
        self.add("tasktrail_checkpoint_bytes", (), size)
        self.set("tasktrail_checkpoint_time_seconds", (), at)
        self._disk_takes("checkpoints", is_so=True)

    def checkpoint_failed(self, error: str) -> None:
        """The disk did not take a checkpoint; it is tried again with the next."""
        if self._takes["checkpoints"]:
            log.error("state: a checkpoint could not be written, %s; tried again every second", error)
        self.add("tasktrail_checkpoints", ("failed",))
        self._disk_takes("checkpoints", is_so=False)

    def _disk_takes(self, what: str, *, is_so: bool) -> None:
        """State is durable while the disk takes all of its parts."""
        self._takes[what] = is_so
        is_durable = all(self._takes.values())
        self.set("tasktrail_state_durable", (), float(is_durable))
        self.set("tasktrail_state_failing", (), float(not is_durable))

    def sizes(self, trails: int, evictions: Mapping[str, int]) -> None:
        """What is held, and what left before its time."""
        self.set("tasktrail_trails", (), trails)
        for reason, count in evictions.items():
            self._values["tasktrail_evictions"][(reason,)] = count

    def kept(self, trails: int, size: int) -> None:
        """What the state file has of trails."""
        self.set("tasktrail_kept_trails", (), trails)
        self.set("tasktrail_kept_bytes", (), size)

    def fullness(self, used: Mapping[str, float]) -> None:
        """How full each bound is."""
        for bound, part in used.items():
            self.set("tasktrail_bound_used_ratio", (bound,), part)

    def clock(self, ahead: float) -> None:
        """How far our clock is ahead of the machine's."""
        if ahead > 1.0 > self._values["tasktrail_clock_ahead_seconds"].get((), 0.0):
            log.error("the machine's clock was set back by %.0f s: ours is ahead until it has caught up", ahead)
        self.set("tasktrail_clock_ahead_seconds", (), ahead)

    def reloaded(self, problems: Sequence[str]) -> None:
        """Rule files were read again; with problems the old ones were kept."""
        self.set("tasktrail_reload_success", (), 0.0 if problems else 1.0)
        if problems:
            log.error("reload: kept the old rules, the new ones have problems:\n%s", "\n".join(problems))
        else:
            log.info("reload: the new rules hold")

    def said(self, line: str, *values: object) -> None:
        """One line about the process itself: start, stop, what is switched off."""
        log.info(line, *values)

    def state_opened(self, directory: str, set_aside: str, taken_over: Mapping[str, int]) -> None:
        """Where state is kept, and whether the file that was there was damaged; the rows that are left of it."""
        self._disk_takes("store", is_so=True)
        log.info("state: alerts, what was told of them and what is to be sent are kept in %s", directory)
        if set_aside:
            self.set_aside(set_aside)
            left = (
                ", ".join(f"{table} {count}" for table, count in taken_over.items())
                or "nothing, all that was decided is lost"
            )
            log.error("state: the file was damaged; it is set aside as %s; taken over of it: %s", set_aside, left)

    def set_aside(self, name: str) -> None:
        """A file of the state was damaged, and has this name now."""
        self.set("tasktrail_state_set_aside", (name,), 1.0)

    def restored(self, alerts: int, groups: int, unsent: int, unread: int) -> None:
        """What a former process had left."""
        if alerts or groups or unsent:
            found = f"{counted(alerts, 'alert')} and {counted(groups, 'group')}"
            log.info("state: restored %s; to be sent: %s", found, counted(unsent, "notification"))
        if unread:
            log.error("state: %s left out, as unreadable", counted(unread, "row"))

    def state(self, is_durable: bool, waiting: int, lost: int, error: str) -> None:  # noqa: FBT001 it is what is told
        """How the writing of state goes."""
        was_durable = self._takes["store"]
        if was_durable and not is_durable:
            log.error("state: not on the disk, kept in memory until it is: %s", error)
        elif is_durable and not was_durable:
            log.info("state: on the disk again")
        self._disk_takes("store", is_so=is_durable)
        self.set("tasktrail_state_waiting", (), waiting)
        if lost:
            self.set("tasktrail_state_lost", (), lost)

    # What happens in delivery, by the names of `collector.shell.delivery.Report`.

    def target_understood(self, target: str, description: str) -> None:
        """A target was understood; its description carries no secret."""
        log.info("target %s: %s", target, description)

    def sent(self, target: str, notification: Notification, tries: int, seconds: float) -> None:
        """A target confirmed a notification."""
        self.add("tasktrail_notifications", (target, "sent"))
        self.add("tasktrail_notification_seconds", (target,), seconds)
        log.info("target %s: sent %r (try %d)", target, notification.title, tries)

    def retrying(self, target: str, notification: Notification, error: ChannelError, wait_seconds: float) -> None:
        """A target did not take a notification this time."""
        self.add("tasktrail_notifications", (target, "retried"))
        log.warning("target %s: %s; %r again in %.1f s", target, mask(str(error)), notification.title, wait_seconds)

    def dropped(self, target: str, notification: Notification, reason: str) -> None:
        """A notification left its queue without being sent."""
        self.add("tasktrail_notifications", (target, reason))
        log.warning("target %s: dropped %r, %s", target, notification.title, reason)

    def unkept(self, target: str, notification: Notification) -> None:
        """A notification goes out before it is on the disk."""
        self.add("tasktrail_notifications_unkept", (target,))
        log.warning("target %s: %r goes out before the disk has taken it", target, notification.title)

    def broken(self, target: str, error: ChannelError) -> None:
        """A target refuses for good: somebody must repair it."""
        self.set("tasktrail_target_broken", (target,), 1.0)
        log.error("target %s: refuses notifications, %s", target, mask(str(error)))

    def mended(self, target: str) -> None:
        """A broken target took one."""
        self.set("tasktrail_target_broken", (target,), 0.0)
        log.info("target %s: takes notifications again", target)

    def desk(self, rules: int, outside: int, silences: int, acks: int) -> None:
        """How many alerts fire, and what people have done about them."""
        self.set("tasktrail_alerts", ("rules",), rules)
        self.set("tasktrail_alerts", ("outside",), outside)
        self.set("tasktrail_silences", (), silences)
        self.set("tasktrail_acks", (), acks)

    def heartbeat(self, *, is_heard: bool) -> None:
        """The heartbeat URL was asked for, or was not, on purpose."""
        self.set("tasktrail_heartbeat", (), float(is_heard))

    # What others read.

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """Every number under its metric name, as rules see it."""
        for name, (kind, _, label_names) in METRICS.items():
            exposed = name if kind == "gauge" else name + "_total"
            for values, number in self._values[name].items():
                yield exposed, labels_of(zip(label_names, values, strict=True)), number

    def collect(self, started_at: float | None = None) -> Iterable[Metric]:
        """For a prometheus-client registry; with `started_at`, when the counters began."""
        for name, (kind, text, label_names) in METRICS.items():
            rows = sorted(self._values[name].items())
            if kind == "gauge":
                gauge = GaugeMetricFamily(name, text, labels=label_names)
                for values, number in rows:
                    gauge.add_metric(values, number)
                yield gauge
                continue
            counter = CounterMetricFamily(name, text, labels=label_names)
            for values, number in rows:
                counter.add_metric(values, number, created=started_at)
            yield counter
