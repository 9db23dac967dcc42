"""What rules record, as metrics that other rules may read: with their labels, where the expressions tell them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from collector.alerting.checks.ground import Ground, Known
from collector.alerting.checks.result_labels import Names, result_labels
from collector.alerting.rulefile import RuleFile, RuleSpec
from collector.promql.syntax import parse

_MOST_ROUNDS = 5
"""Of rules that read what rules record. Each round knows better, and none too much."""


def with_recorded(ground: Ground, files: Sequence[RuleFile]) -> Ground:
    """The ground with all that the files record."""
    rules = [rule for file in files for group in file.groups for rule in group.rules if rule.kind == "record"]
    half_known = [name for file in files for name in file.half_known]
    labels: dict[str, Names] = dict.fromkeys((*half_known, *(rule.name for rule in rules)))
    for _ in range(_MOST_ROUNDS):
        around = _with(ground, labels)
        found: dict[str, Names] = dict.fromkeys(half_known)
        for rule in rules:
            own = _labels(rule, around)
            other = found.get(rule.name, own)
            found[rule.name] = None if own is None or other is None else own | other
        if found == labels:
            break
        labels = found
    return _with(ground, labels)


def _with(ground: Ground, labels: dict[str, Names]) -> Ground:
    recorded = {name: Known(labels=names) for name, names in labels.items()}
    return msgspec.structs.replace(ground, metrics={**recorded, **ground.metrics})


def _labels(rule: RuleSpec, ground: Ground) -> Names:
    left = result_labels(parse(rule.expr.text), ground)
    if left is None:
        return None
    written = dict(rule.written_labels)
    taken = {name for name, text in written.items() if not text}
    return (left | written.keys()) - taken
