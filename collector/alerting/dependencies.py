"""Which recording rules a rule reads, through however many others: found once after loading."""

from __future__ import annotations

from collections.abc import Iterable

from collector.alerting.expression import Selector
from collector.alerting.recording import RecordRule
from collector.alerting.rule import Rule


def connect(rules: Iterable[Rule]) -> None:
    """Tell every rule its recording rules, in the order in which they have to be evaluated."""
    rules = list(rules)
    records = [rule for rule in rules if isinstance(rule, RecordRule)]
    direct = {id(rule): [record for record in records if _reads(rule.selectors, record.name)] for rule in rules}
    for rule in rules:
        found: list[Rule] = []
        _gather(rule, direct, {id(rule)}, found)
        rule.recordings = tuple(found)


def _gather(rule: Rule, direct: dict[int, list[RecordRule]], seen: set[int], found: list[Rule]) -> None:
    for record in direct[id(rule)]:
        if id(record) not in seen:
            seen.add(id(record))
            _gather(record, direct, seen, found)
            found.append(record)


def _reads(selectors: Iterable[Selector], name: str) -> bool:
    return any(
        selector.name == name
        if selector.name is not None
        else all(matcher.matches(name) for matcher in selector.matchers if matcher.name == "__name__")
        for selector in selectors
    )
