"""What review misses in rule files that can be used: one table, each row a check in a file of its own.

To add a check: its file, its line here, and its samples in tests/unit/alerting/findings (NAME.bad.yaml with
NAME.expected, NAME.good.yaml). A check takes one rule and gives problems: place, reason, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from collector.alerting.checks.dead_runbook import dead_runbook
from collector.alerting.checks.division import division
from collector.alerting.checks.empty_label import empty_label
from collector.alerting.checks.ground import Ground, Identity, Known, Subject, identity
from collector.alerting.checks.long_window import long_window
from collector.alerting.checks.never_matches import never_matches
from collector.alerting.checks.rate_of_gauge import rate_of_gauge
from collector.alerting.checks.raw_counter import raw_counter
from collector.alerting.checks.recorded import with_recorded
from collector.alerting.checks.repeated_rule import repeated_rule
from collector.alerting.checks.short_for import short_for
from collector.alerting.checks.template_regex import template_regex
from collector.alerting.checks.unknown_label import unknown_label
from collector.alerting.checks.unknown_metric import unknown_metric
from collector.alerting.checks.unowned_page import unowned_page
from collector.alerting.checks.value_in_label import value_in_label
from collector.alerting.rulefile import RuleFile, RuleSpec
from collector.model.errors import Problem

__all__ = ["CHECKS", "Ground", "Known", "findings"]

CHECKS: tuple[Callable[[Subject], Iterable[Problem]], ...] = (
    unowned_page,
    dead_runbook,
    unknown_metric,
    unknown_label,
    empty_label,
    never_matches,
    rate_of_gauge,
    raw_counter,
    division,
    value_in_label,
    short_for,
    long_window,
    repeated_rule,
    template_regex,
)


def findings(files: Sequence[RuleFile], ground: Ground) -> Iterator[Problem]:
    """Everything that is found in files that are used together. What they record is known to all of them."""
    rules = [(group, rule) for file in files for group in file.groups for rule in group.rules]
    ground = with_recorded(ground, files)
    first: dict[Identity, RuleSpec] = {}
    for _, rule in rules:
        first.setdefault(identity(rule), rule)
    for group, rule in rules:
        subject = Subject(group, rule, ground, first)
        yield from dict.fromkeys(problem for check in CHECKS for problem in check(subject))
