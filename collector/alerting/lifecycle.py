"""One alerting rule's alerts through their lives: pending, firing, resolved; as Prometheus has it, and blindness.

Takes the elements of one evaluation, gives copies of the alerts that it changed. Where a source of the rule says
nothing (blind), alerts may start, but none ends, and the clock of `for` and `keep_firing_for` stands still.
Evaluations are generators: ten thousand alerts at once are many short steps, not one long one.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Generator
from typing import TypeAlias

import msgspec

from collector.alerting.expression import Rows, RuleError
from collector.alerting.functions import Scene
from collector.alerting.past import Past
from collector.alerting.rule import Rule
from collector.alerting.rulefile import GroupSpec, RuleSpec
from collector.alerting.template import expand, is_repeatable
from collector.gotext.floats import format_float
from collector.model.alert import Alert, Evidence
from collector.model.labels import Labels, fingerprint, labels_of
from collector.model.saved import RuleName, SavedAlert

Steps: TypeAlias = Generator[None, None, list[Alert]]
"""Work that stops now and then, so that others get their turn, and in the end gives the alerts that changed."""

CHUNK = 100
"""Alerts between two stops."""

RESOLVED_KEPT_SECONDS = 15 * 60.0
"""How long a resolved alert stays to be seen, as in Prometheus."""

_ABSENCE = re.compile(r"\babsent(?:_over_time)?\s*\(")


class _Element(msgspec.Struct, frozen=True):
    """One element of a result."""

    row: Labels
    """Its own labels, with `__name__` where it has one."""
    value: float
    summary: str = ""
    """Where it stands for many: what to say instead of the annotation `summary`."""

    def says(self, other: _Element) -> bool:
        """Whether texts made of both are the same: -0 equals 0 and reads differently."""
        return self == other and (self.value != 0 or math.copysign(1, self.value) == math.copysign(1, other.value))


class _Life(msgspec.Struct):
    """One alert, and what its clocks need."""

    alert: Alert
    element: _Element
    """What the alert's value and texts were made of."""
    held: float = 0.0
    """Seconds of blindness while pending: they do not count for `for`."""
    gone_since: float | None = None
    """When the expression stopped to hold, while `keep_firing_for` runs."""
    is_restored: bool = False
    """Of a former process, and its expression was not seen to hold since."""
    newest: tuple[_Element, Scene] | None = None
    """What an evaluation between slots has seen since: for whoever tells of the alert before the next slot."""
    sleeps_until: float = -math.inf
    """Up to this instant a former process has decided: an evaluation that goes there once more changes nothing."""

    def stand_still(self, seconds: float) -> None:
        """Let no clock count these seconds."""
        if self.alert.state == "pending":
            self.held += seconds
        if self.gone_since is not None:
            self.gone_since += seconds


class AlertRule(Rule):
    """An alerting rule with its alerts."""

    def __init__(self, spec: RuleSpec, group: GroupSpec) -> None:
        super().__init__(spec, group)
        self.reads_absence = self.calls(_ABSENCE)
        """Whether the expression tells that something is not there: blind, it cannot know."""
        self.past = Past()
        self._lives: dict[Labels, _Life] = {}
        self._has_fixed_labels = all(template.plain is not None for _, template in spec.labels)
        self._has_fixed_texts = all(is_repeatable(template) for _, template in spec.annotations)
        self._identities: dict[Labels, Labels] = {}
        """Of the last evaluation: the labels of an alert by those of its element, where only they decide."""
        self._last_slot: float | None = None
        self.holds_back_until = -math.inf
        """Before this instant no restored alert ends because its expression does not hold: it may not know better."""
        self.touched: dict[Labels, None] = {}
        """Alerts that are others than when they were saved last; newer words alone are not worth saving."""

    def alerts(self) -> list[Alert]:
        """Copies of all alerts: pending, firing, and those that resolved in the last 15 minutes."""
        return [copy.copy(life.alert) for life in self._lives.values()]

    def kept_firing(self) -> dict[Labels, float]:
        """Since when the expression of each alert does not hold that `keep_firing_for` keeps, Unix seconds."""
        return {labels: life.gone_since for labels, life in self._lives.items() if life.gone_since is not None}

    def state(self) -> str:
        """`firing`, `pending` or `inactive`: the highest of its alerts."""
        states = {life.alert.state for life in self._lives.values()}
        return next((state for state in ("firing", "pending") if state in states), "inactive")

    def start(self, rows: Rows, at: float, scene: Scene, *, is_blind: bool = False) -> Steps:
        """Between slots: only begin what is new. Nothing else moves; what is said of it is kept for `newest`."""
        elements = yield from self._elements(rows, scene)
        return (yield from self._begin(elements, at, scene, is_blind=is_blind))

    def evaluate(self, rows: Rows, at: float, scene: Scene, *, is_blind: bool = False) -> Steps:
        """At a slot: begin, hold, fire, resolve and forget. Raises RuleError where two elements are one alert."""
        elements = yield from self._elements(rows, scene)
        pause = self._pause(at, is_blind=is_blind)
        begun = yield from self._begin(elements, at, scene, is_blind=is_blind)
        changed = {alert.labels: alert for alert in begun}
        for count, (labels, life) in enumerate(list(self._lives.items())):
            if count % CHUNK == CHUNK - 1:
                yield
            if labels not in changed and self._move(life, elements.get(labels), at, scene, pause, is_blind=is_blind):
                changed[labels] = copy.copy(life.alert)
        self._last_slot = at
        return list(changed.values())

    def samples(self, at: float) -> list[tuple[str, Labels, float, float]]:
        """The series `ALERTS` and `ALERTS_FOR_STATE` as Prometheus writes them: name, labels, instant, value."""
        found = []
        for labels, life in self._lives.items():
            if life.alert.state != "resolved":
                with_state = labels_of([*labels, ("alertstate", life.alert.state)])
                found.append(("ALERTS", with_state, at, 1.0))
                found.append(("ALERTS_FOR_STATE", labels, at, float(int(life.alert.active_at))))
        return found

    # What outlives an evaluation

    def show(self, labels: Labels, evidence: Evidence) -> None:
        """Keep what an alert is about with it, for as long as it is listed."""
        life = self._lives.get(labels)
        if life is not None:
            life.alert.evidence = evidence
            self.touched[labels] = None

    def newest(self, labels: Labels) -> Alert | None:
        """A copy of an alert that fires, in the words of the last evaluation, at a slot or between; None: none does.

        The alert itself stays as the last slot left it.
        """
        life = self._lives.get(labels)
        if life is None or life.alert.state != "firing":
            return None
        alert = copy.copy(life.alert)
        if life.newest is not None:
            self._reword(alert, *life.newest)
        return alert

    def went(self, labels: Labels) -> tuple[float, ...]:
        """The values of an alert's row at the last slots and now, oldest first; nothing where there was no slot."""
        life = self._lives.get(labels)
        past = () if life is None else self.past.of(life.element.row)
        if life is None or not past:
            return past
        if life.newest is not None:
            return (*past, life.newest[0].value)
        is_of_a_slot = self._last_slot is not None and life.alert.active_at <= self._last_slot
        return past if is_of_a_slot else (*past, life.alert.value)

    @property
    def saved_name(self) -> RuleName:
        """By what a later process knows it again."""
        return RuleName(file=self.group.file, group=self.group.name, rule=self.name, labels=self.spec.written_labels)

    def changes(self) -> list[tuple[Labels, SavedAlert | None]]:
        """The alerts that changed since this was asked last; None where one is forgotten."""
        touched, self.touched = self.touched, {}
        name = self.saved_name
        return [(labels, self._saved(name, self._lives.get(labels))) for labels in touched]

    def touch_all(self) -> None:
        """Let `changes` give every alert once more."""
        self.touched.update(dict.fromkeys(self._lives))

    def restore(self, saved: SavedAlert, unseen_seconds: float) -> Alert:
        """Go on with an alert of a former process; its clocks do not count the seconds that nobody saw. Gives a copy.

        Until `holds_back_until` it does not end for want of data.
        """
        alert = copy.copy(saved.alert)
        alert.rule = self.place
        life = _Life(alert, _Element((), math.nan), saved.held, saved.gone_since, is_restored=True)
        life.sleeps_until = saved.changed_at
        life.stand_still(unseen_seconds)
        self._lives[alert.labels] = life
        return copy.copy(alert)

    @staticmethod
    def _saved(name: RuleName, life: _Life | None) -> SavedAlert | None:
        if life is None:
            return None
        return SavedAlert(name=name, alert=copy.copy(life.alert), held=life.held, gone_since=life.gone_since)

    def adopt(self, former: AlertRule) -> None:
        """Take over the alerts of the rule that this one was before its file was read again."""
        self._lives, former._lives = former._lives, {}
        self._last_slot = former._last_slot
        self.past = former.past
        self.holds_back_until = former.holds_back_until
        for life in self._lives.values():
            life.alert.rule = self.place
            life.element = _Element((), math.nan)  # so that the next slot makes its texts anew
            life.newest = None

    def retire(self, at: float, reason: str) -> list[Alert]:
        """The rule is no more: forget all alerts; copies of those that were firing, resolved."""
        ended = [copy.copy(life.alert) for life in self._lives.values() if life.alert.state == "firing"]
        self._lives = {}
        for alert in ended:
            alert.state, alert.resolved_at, alert.resolve_reason = "resolved", at, reason
        return ended

    # one evaluation

    def _pause(self, at: float, *, is_blind: bool) -> float:
        """Seconds since the last slot that clocks do not count."""
        return at - self._last_slot if is_blind and self._last_slot is not None else 0.0

    def _elements(self, rows: Rows, scene: Scene) -> Generator[None, None, dict[Labels, _Element]]:
        """The elements by the labels of their alerts; over the group's limit, one for all that are new."""
        elements: dict[Labels, _Element] = {}
        known, self._identities = self._identities, {}
        for count, (row, value) in enumerate(rows):
            if count % CHUNK == CHUNK - 1:
                yield
            labels = known.get(row) or self._identity(row, value, scene)
            if labels in elements:
                raise RuleError("two elements of the result have the same labels once the rule's labels are applied")
            elements[labels] = _Element(row, value)
            if self._has_fixed_labels:
                self._identities[row] = labels
        limit = self.group.limit
        return self._summarised(elements, limit) if limit and len(elements) > limit else elements

    def _summarised(self, elements: dict[Labels, _Element], limit: int) -> dict[Labels, _Element]:
        """What was active goes on by itself; all that is new is one alert, so that a limit never means silence."""
        message = f"over the group's limit of {limit} with {len(elements)} alerts"
        self.complain(message)
        plain = [(name, template.plain) for name, template in self.spec.labels if template.plain]
        summary = labels_of([*plain, ("alertname", self.name)])
        kept = {labels: element for labels, element in elements.items() if self._is_active(labels)}
        text = f"{self.name}: {message}; those that are new are not sent one by one"
        kept.setdefault(summary, _Element((), float(len(elements)), text))
        return kept

    def _identity(self, row: Labels, value: float, scene: Scene) -> Labels:
        own = {name: text for name, text in row if name != "__name__"}
        for name, template in self.spec.labels:
            text, failure = expand(template, row, value, scene)
            if failure:
                self.template_failed(f"label `{name}`: {failure}")
                text = "<error expanding template>"
            own[name] = text
        own["alertname"] = self.name
        return labels_of(own)

    def _annotations(self, element: _Element, scene: Scene) -> Labels:
        row, value = element.row, element.value
        texts = {}
        for name, template in self.spec.annotations:
            text, failure = expand(template, row, value, scene)
            if failure:
                self.template_failed(f"annotation `{name}`: {failure}")
                shown = ", ".join(f"{label}={content}" for label, content in row if label != "__name__")
                text = f"{self.name}, value {format_float(value, 'g')}, {shown} (the template of this text failed)"
            texts[name] = text
        if element.summary:
            texts["summary"] = element.summary
        return labels_of(texts)

    def _reword(self, alert: Alert, element: _Element, scene: Scene) -> None:
        """Let an alert say what an element says."""
        alert.annotations = self._annotations(element, scene)
        alert.lowest = min(alert.value if alert.lowest is None else alert.lowest, element.value)
        alert.highest = max(alert.value if alert.highest is None else alert.highest, element.value)
        alert.value = element.value
        alert.stands_for_many |= bool(element.summary)

    def _is_active(self, labels: Labels) -> bool:
        life = self._lives.get(labels)
        return life is not None and life.alert.state != "resolved"

    def _begin(self, elements: dict[Labels, _Element], at: float, scene: Scene, *, is_blind: bool) -> Steps:
        if is_blind and self.reads_absence:
            return []
        begun: list[Alert] = []
        for labels, element in elements.items():
            life = self._lives.get(labels)
            if life is not None and (life.alert.state != "resolved" or at <= life.sleeps_until):
                life.newest = element, scene
                continue
            alert = Alert(
                labels=labels,
                annotations=self._annotations(element, scene),
                fingerprint=fingerprint(labels),
                state="pending" if self.spec.hold else "firing",
                value=element.value,
                active_at=at,
                fired_at=None if self.spec.hold else at,
                blind=is_blind,
                stands_for_many=bool(element.summary),
                group=self.group.name,
                rule=self.place,
            )
            self._lives[labels] = _Life(alert, element)
            self.touched[labels] = None
            begun.append(copy.copy(alert))
            if len(begun) % CHUNK == 0:
                yield
        return begun

    def _move(  # noqa: PLR0913 - all of an instant
        self, life: _Life, element: _Element | None, at: float, scene: Scene, pause: float, *, is_blind: bool
    ) -> bool:
        """Bring one alert to the instant. True where it changed."""
        alert = life.alert
        if alert.state == "resolved":
            self._forget(alert, at)
            return False
        if at <= life.sleeps_until:
            return False
        before = (alert.state, alert.blind)
        clocks = (life.held, life.gone_since)
        is_new_text = False
        is_held_back = element is None and life.is_restored and at < self.holds_back_until
        if is_held_back and not pause and self._last_slot is not None:
            pause = at - self._last_slot
        life.stand_still(min(pause, at - alert.active_at))
        if element is not None:
            is_new_text = self._continue(life, element, at, scene)
        elif not is_blind and not is_held_back:
            self._end(life, at)
        alert.blind = is_blind
        if before != (alert.state, alert.blind) or clocks != (life.held, life.gone_since):
            self.touched[alert.labels] = None
        is_moved = before != (alert.state, alert.blind) and alert.labels in self._lives
        return is_moved or (is_new_text and alert.state == "firing")

    def _continue(self, life: _Life, element: _Element, at: float, scene: Scene) -> bool:
        """An alert whose expression still holds. True where its value or texts are others than before."""
        alert = life.alert
        is_new_text = False
        if not life.element.says(element) or not self._has_fixed_texts:
            before = alert.value, alert.annotations
            self._reword(alert, element, scene)
            is_new_text = before != (alert.value, alert.annotations)
            life.element = element
        life.newest = life.gone_since = None
        if at >= self.holds_back_until:
            life.is_restored = False
        if alert.state == "pending" and _has_passed(at - alert.active_at - life.held, self.spec.hold):
            alert.state = "firing"
            alert.fired_at = at
        return is_new_text

    def _end(self, life: _Life, at: float) -> None:
        """An alert whose expression holds no more: forgotten, kept firing for a while, or resolved."""
        alert = life.alert
        if alert.state == "pending":
            self.touched[alert.labels] = None
            del self._lives[alert.labels]
        else:
            if life.newest is not None:  # it has been told so, perhaps
                self._reword(alert, *life.newest)
                life.newest = None
            if life.gone_since is None:
                life.gone_since = at
            if _has_passed(at - life.gone_since, self.spec.keep_firing_for):
                alert.state = "resolved"
                alert.resolved_at = at

    def _forget(self, alert: Alert, at: float) -> None:
        if alert.resolved_at is not None and at - alert.resolved_at > RESOLVED_KEPT_SECONDS:
            del self._lives[alert.labels]


def _has_passed(elapsed: float, wanted: float) -> bool:
    """Compared in milliseconds, the grain of instants: differences of large floats are a little off."""
    return round(elapsed * 1000) >= round(wanted * 1000)
