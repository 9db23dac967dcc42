"""Which series one metric has, and which of them a selector matches.

A selection is asked for at every evaluation, so it tests only the series born since it was last asked for; its label
tuple is the same object until its membership changes, and caches hang on that identity.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from collector.model.labels import Labels, Matcher
from collector.series.reading import Series
from collector.series.window import Array

_MOST_SELECTIONS = 1_000  # per metric; ad hoc queries bring ever new ones, the oldest leaves


class Selection:
    """The members that some matchers match."""

    def __init__(self, matchers: tuple[Matcher, ...]) -> None:
        self._matchers = matchers
        self._seen = 0
        self._epoch = -1
        self.labels: tuple[Labels, ...] = ()
        self.columns: Array = np.empty(0, np.int64)
        self.made: dict[tuple[str, tuple[int, ...]], Series] = {}
        """Series sets made of this membership, by metric name and `le` marks; they go when it changes."""

    def refresh(self, members: Members) -> None:
        """Take in what was born, or all anew where something was removed."""
        if self._epoch != members.epoch:
            self._seen, self._epoch = 0, members.epoch
            self.labels, self.columns = (), np.empty(0, np.int64)
            self.made.clear()
        if self._seen == len(members.labels):
            return
        found = self._matching(members.labels)
        self._seen = len(members.labels)
        if found:
            self.labels = (*self.labels, *(members.labels[position] for position in found))
            born = np.array([members.columns[position] for position in found], np.int64)
            self.columns = np.concatenate([self.columns, born])
            self.made.clear()

    def _matching(self, labels: list[Labels]) -> list[int]:
        """Positions of those not yet seen that every matcher accepts."""
        found = list(range(self._seen, len(labels)))
        for matcher in self._matchers:
            name, test = matcher.name, matcher.test
            found = [position for position in found if test(dict(labels[position]).get(name, ""))]
        return found


class Members:
    """The series of one metric: label sets and their columns, in order of birth."""

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self.columns = array("q")
        self.owners = array("q")
        """A number of the caller's for each series; here it is only kept."""
        self.places: dict[Labels, int] = {}
        """Label set -> its position in the lists."""
        self.epoch = 0
        """Grows when members leave."""
        self._selections: dict[tuple[tuple[str, str, str], ...], Selection] = {}

    def add(self, labels: Labels, column: int, owner: int = 0) -> None:
        """Take in a new series."""
        self.places[labels] = len(self.labels)
        self.labels.append(labels)
        self.columns.append(column)
        self.owners.append(owner)

    def remove(self, gone: Iterable[int]) -> None:
        """Let go of the series at some positions."""
        left = set(gone)
        stay = [position for position in range(len(self.labels)) if position not in left]
        self.labels = [self.labels[position] for position in stay]
        self.columns = array("q", [self.columns[position] for position in stay])
        self.owners = array("q", [self.owners[position] for position in stay])
        self.places = {labels: position for position, labels in enumerate(self.labels)}
        self.epoch += 1

    def select(self, matchers: tuple[Matcher, ...]) -> Selection:
        """The up-to-date selection of these matchers."""
        key = tuple((matcher.name, matcher.op, matcher.value) for matcher in matchers)
        selection = self._selections.get(key)
        if selection is None:
            if len(self._selections) >= _MOST_SELECTIONS:
                del self._selections[next(iter(self._selections))]
            selection = self._selections[key] = Selection(matchers)
        selection.refresh(self)
        return selection
