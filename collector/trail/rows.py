"""Names as small ints: (task, queue, source) rows and error classes, both capped with an overflow that is counted on.

A row is what series are keyed by; the hot loop never touches a label set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.model.personal import masked

OVERFLOW = "_other"
"""The name under which everything beyond a cap is counted."""
PARTIAL = -1
"""In place of a row: the event names a task or a queue, but not both."""
NAMELESS = -2
"""In place of a row: the event names neither."""


class Rows:
    """Interns (task, queue, source); beyond `cap` rows, each source has one overflow row.

    Remembers for each task the queue last seen with it, for events that name none.
    """

    def __init__(self, cap: int = 10_000) -> None:
        self.cap = cap
        self.queues: dict[str | None, str | None] = {}
        """Task -> the queue last seen; the stitcher sets it for rows below `cap`."""
        self.overflowed = 0
        """How often a name was asked for that had no room."""
        self._names: list[tuple[str, str, str]] = []
        self._rows: dict[tuple[str, str, str], int] = {}
        self._of_task: dict[str, list[int]] = {}
        self._tables: dict[str, dict[str | None, dict[str | None, int]]] = {}
        self._looked_up = 0

    def __len__(self) -> int:
        return len(self._names)

    def row(self, task: str, queue: str, source: str) -> int:
        """The row of these names, made where it is new; "" is a name too."""
        key = (task, queue, source)
        row = self._rows.get(key)
        if row is None:
            if len(self._names) >= self.cap and task != OVERFLOW:
                self.overflowed += 1
                return self.row(OVERFLOW, OVERFLOW, source)
            row = self._rows[key] = len(self._names)
            self._names.append(key)
            self._of_task.setdefault(task, []).append(row)
        return row

    def since(self, first: int) -> list[tuple[str, str, str]]:
        """The names of the rows from a number on."""
        return self._names[first:]

    def restore(self, names: Sequence[tuple[str, str, str]]) -> None:
        """Go on with these rows, in their order. Only while there is none."""
        for row, key in enumerate(names):
            self._rows[key] = row
            self._names.append(key)
            self._of_task.setdefault(key[0], []).append(row)

    def names(self, row: int) -> tuple[str, str, str]:
        """Task, queue and source of a row."""
        return self._names[row]

    def of_task(self, task: str) -> Sequence[int]:
        """All rows of a task, over queues and sources."""
        return self._of_task.get(task, ())

    def tasks(self) -> Iterable[str]:
        """Every task name that was seen, the overflow among them."""
        return self._of_task

    def queue_of(self, task: str) -> str:
        """The queue with which a task was seen first; "" where it has none."""
        return next((queue for row in self._of_task.get(task, ()) if (queue := self._names[row][1])), "")

    def tables(self, source: str) -> dict[str | None, dict[str | None, int]]:
        """The look-up table of one source, for the hot loop: task -> queue, as events name them -> row or negative."""
        return self._tables.setdefault(source, {})

    def lookup(self, task: str | None, queue: str | None, source: str) -> int:
        """The row of an event's own names, or PARTIAL or NAMELESS; what it finds goes into `tables`."""
        code = self.row(task, queue, source) if task and queue else PARTIAL if task or queue else NAMELESS
        if self._looked_up < 4 * self.cap:
            self._looked_up += 1
            self.tables(source).setdefault(task, {})[queue] = code
        return code


class Errors:
    """Interns error class names; 0 is "", and beyond `cap` all are one."""

    def __init__(self, cap: int = 1_000) -> None:
        self.cap = cap
        self._ids: dict[str, int] = {"": 0, OVERFLOW: 1}
        self._names: list[str] = ["", OVERFLOW]

    def __len__(self) -> int:
        return len(self._names)

    def intern(self, name: str | None, *, is_ours: bool = False) -> int:
        """The id of an error class; None is "". Names of our own, which are few, always find room."""
        if not name:
            return 0
        found = self._ids.get(name)
        if found is None:  # a sender may write more than a class; what is shown everywhere holds nothing private
            name = masked(name)
            found = self._ids.get(name)
        if found is None:
            if len(self._names) >= self.cap and not is_ours:
                return 1
            found = self._ids[name] = len(self._names)
            self._names.append(name)
        return found

    def either(self, one: int, other: int) -> int:
        """Which of two classes is believed that one fact was said to have, in whichever order: any before none."""
        return min(one, other, key=lambda error: (not error, self._names[error]))

    def since(self, first: int) -> list[str]:
        """The error classes from an id on."""
        return self._names[first:]

    def restore(self, names: Sequence[str]) -> None:
        """Go on with these error classes, in the order of their ids."""
        self._names = list(names)
        self._ids = {name: error for error, name in enumerate(names)}

    def name(self, error: int) -> str:
        """The error class of an id."""
        return self._names[error]


class Texts:
    """One object per distinct worker or caller name, so that a hundred thousand trails do not hold as many copies."""

    def __init__(self, cap: int = 20_000) -> None:
        self._cap = cap
        self.known: dict[str, str] = {}

    def intern(self, text: str) -> str:
        """The same text, as the shared object where there is room for one."""
        found = self.known.get(text)
        if found is None:
            if len(self.known) < self._cap:
                self.known[text] = text
            return text
        return found
