"""Matchers that no label value can satisfy: the selector is empty for ever."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.anchors import dead_alternatives
from collector.alerting.checks.ground import Known, Subject
from collector.model.errors import Problem
from collector.model.labels import Matcher
from collector.promql.reading import matchers_of, name_of, selectors, text_of

_SIGNS = frozenset("\\.+*?()[]{}^$")
_PROBES = ("", "a", "Z-9_", "x.y/z", "\n", "ü ~", "0" * 70)
"""A pattern that takes all of these takes everything, as far as people write them."""


def never_matches(subject: Subject) -> Iterator[Problem]:
    """Matchers of one label that contradict each other, exclude everything, or cannot hold by themselves."""
    for selector in selectors(subject.tree):
        known = subject.ground.of(name_of(selector))
        by_label: dict[str, list[Matcher]] = {}
        for one in matchers_of(selector):
            by_label.setdefault(one.name, []).append(one)
        for matchers in by_label.values():
            reason = _reason(matchers, known)
            if reason:
                yield subject.wrong(f"`{text_of(selector)}` never matches: {reason}")
            else:
                yield from (
                    subject.wrong(f"the part `{part}` of `{_shown(one)}` never matches: {why}")
                    for one in matchers
                    if one.op in {"=~", "!~"}
                    for part, why in dead_alternatives(one.value)
                )


def _reason(matchers: list[Matcher], known: Known) -> str:
    """Why no value satisfies all matchers of a label, and what to do; "" where one may."""
    for one in matchers:
        if one.op == "!~" and not any(map(one.matches, _PROBES)):
            return f'`{_shown(one)}` excludes every value: remove it, or write `{one.name}=""`'
    name = matchers[0].name
    values = _candidates(matchers)
    if values is not None and not any(all(one.matches(value) for one in matchers) for value in values):
        return f"`{', '.join(map(_shown, matchers))}` contradict each other: use one `=~` with every value"
    closed = known.values.get(name)
    if closed is not None and not any(all(one.matches(value) for one in matchers) for value in closed | {""}):
        return f"`{', '.join(map(_shown, matchers))}`, and `{name}` is one of {', '.join(sorted(closed))}"
    return ""


def _candidates(matchers: list[Matcher]) -> list[str] | None:
    """All values that one of the matchers leaves; None where there is no end of them."""
    for one in matchers:
        if len(matchers) > 1 and one.op == "=":
            return [one.value]
        if len(matchers) > 1 and one.op == "=~" and not _SIGNS & set(one.value):
            return one.value.split("|")
    return None


def _shown(one: Matcher) -> str:
    return f'{one.name}{one.op}"{one.value}"'
