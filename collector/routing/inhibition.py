"""Inhibition: alerts that speak for others. Rules and firing alerts in; who is quiet, because of whom, out.

An alert is inhibited while another one that fires fulfils a rule's source side, it fulfils the target side, and both
have the same values in the rule's `equal` labels (a label that is not there is empty). What fulfils both sides of a
rule cannot be inhibited by an alert that does, too, and so not by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from collector.documents import Place
from collector.model.alert import Alert
from collector.model.labels import Labels, Matcher
from collector.routing.matchers import hold


class InhibitRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, compiled."""

    name: str = ""
    sources: tuple[Matcher, ...] = ()
    targets: tuple[Matcher, ...] = ()
    equal: tuple[str, ...] = ()
    place: Place | None = None


class Inhibited(msgspec.Struct, frozen=True):
    """Why an alert is quiet: the rule, and the fingerprint and labels of the alert that speaks for it."""

    rule: InhibitRule
    fingerprint: str
    labels: Labels

    def __str__(self) -> str:
        """For people."""
        name = dict(self.labels).get("alertname", self.fingerprint)
        return f"inhibited by {name}{f' ({self.rule.name})' * bool(self.rule.name)}"


def inhibited_by(rules: Sequence[InhibitRule], labels: Labels, firing: Iterable[Alert]) -> Inhibited | None:
    """The first rule, in their order, that keeps an alert with these labels quiet while those others fire."""
    index = Inhibition(rules)
    for alert in firing:
        index.note(alert)
    return index.by(labels)


class Inhibition:
    """The same question for many alerts: the firing source alerts of each rule, by their values of `equal`."""

    def __init__(self, rules: Sequence[InhibitRule]) -> None:
        self._rules = [(rule, _Sources()) for rule in rules]

    def note(self, alert: Alert) -> None:
        """An alert fires, or has ended."""
        for rule, sources in self._rules:
            if hold(rule.sources, alert.labels):
                same = sources.setdefault(_values(rule, alert.labels), {})
                if alert.state == "firing":
                    same[alert.fingerprint] = alert.labels
                else:
                    same.pop(alert.fingerprint, None)
                if not same:
                    del sources[_values(rule, alert.labels)]

    def by(self, labels: Labels) -> Inhibited | None:
        """Who keeps an alert with these labels quiet, or nobody."""
        for rule, sources in self._rules:
            if not sources or not hold(rule.targets, labels):
                continue
            is_two_sided = hold(rule.sources, labels)
            for fingerprint, source in sources.get(_values(rule, labels), {}).items():
                if not (is_two_sided and hold(rule.targets, source)):
                    return Inhibited(rule, fingerprint, source)
        return None


class _Sources(dict[tuple[str, ...], dict[str, Labels]]):
    """Values of `equal` → fingerprint → labels."""


def _values(rule: InhibitRule, labels: Labels) -> tuple[str, ...]:
    values = dict(labels)
    return tuple(values.get(name, "") for name in rule.equal)
