"""Recording rules: the elements of a result under a new name, and stale markers for those that went away."""

from __future__ import annotations

from collector.alerting.expression import Rows, RuleError
from collector.alerting.rule import Rule
from collector.model.labels import Labels, labels_of


class RecordRule(Rule):
    """A recording rule."""

    def series(self, rows: Rows) -> dict[Labels, float]:
        """What to write: labels (without name) and value. Raises RuleError for equal labels, and over the limit."""
        written = dict(self.spec.written_labels)
        found: dict[Labels, float] = {}
        for row, value in rows:
            labels = labels_of({**{name: text for name, text in row if name != "__name__"}, **written})
            if labels in found:
                raise RuleError("two elements of the result have the same labels once the rule's labels are applied")
            found[labels] = value
        if self.group.limit and len(found) > self.group.limit:
            raise RuleError(f"over the group's limit of {self.group.limit} with {len(found)} series")
        return found
