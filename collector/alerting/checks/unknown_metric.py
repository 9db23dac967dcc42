"""A metric that nothing gives: the rule is silent for ever."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from collector.alerting.checks.ground import Subject
from collector.model.errors import Problem
from collector.promql.reading import name_of, selectors

OURS = ("task_", "tasks_", "tasktrail_", "dead_letter")
"""Names that begin so are ours; others may come from anywhere, and are looked at only where they nearly are one."""
_PARTS = ("_bucket", "_count", "_sum")
_NEAR, _VERY_NEAR = 0.8, 0.9


def unknown_metric(subject: Subject) -> Iterator[Problem]:
    """Names that are not known, where they are ours or close to a known one."""
    known = subject.ground.metrics
    for name in dict.fromkeys(name_of(selector) for selector in selectors(subject.tree)):
        if name is None or name in known:
            continue
        if all(name + part in known for part in _PARTS):
            yield subject.wrong(f"`{name}` is a histogram: read `{name}_bucket`, `{name}_count` or `{name}_sum`")
            continue
        close = get_close_matches(name, known, n=1, cutoff=_NEAR if name.startswith(OURS) else _VERY_NEAR)
        if close:
            yield subject.wrong(f"nothing gives the metric `{name}`: did you mean `{close[0]}`?")
        elif name.startswith(OURS):
            advice = "see the list of metrics in the README, or check it together with the file that records it"
            yield subject.wrong(f"nothing gives the metric `{name}`: {advice}")
