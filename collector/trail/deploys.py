"""Which deploy each task belongs to: the first of certain labels that its events carry, kept with its trail.

Only where a configuration names such labels; then a batch whose events have labels is gone over once more.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.model.event import LONGEST_TEXT, Event
from collector.trail.keep import Keep
from collector.trail.rows import Texts


class Deploys:
    """Works on open trails. `keys`: names of labels, such as `version`; of those that an event has the first counts."""

    def __init__(self, keep: Keep, texts: Texts, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self._keep = keep
        self._texts = texts

    def note(self, source: str, application: str, events: Sequence[Event]) -> None:
        """After they were stitched: what the events of a batch say of their tasks' deploys."""
        opened = self._keep.home(f"={application}" if application else source).open
        for event in events:
            labels = event.labels
            if not labels:
                continue
            deploy = next((f"{key} {labels[key]}" for key in self.keys if labels.get(key)), "")
            trail = opened.get(event.task_id) if deploy else None
            if trail is not None:
                trail.deploy = self._texts.intern(deploy[:LONGEST_TEXT])
