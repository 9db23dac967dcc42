"""Workers as series: how many of each class are up, and how many tasks they say they have in hand.

Host names are no labels: a class is a worker's name without its host, process and number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable

from collector.model.labels import Labels, labels_of
from collector.model.stale import STALE
from collector.series.store import Store

UP, ACTIVE = "worker_up", "worker_active"
_ANEW_SECONDS = 60.0
MOST_CLASSES = 200
OTHER = "_other"
_BREAK = re.compile(r"[-_.:/]")


def class_of(worker: str) -> str:
    """The class of a worker: `celery` of `celery@host-1`, `mailer` of `mailer-7d9f-2`; its name where nothing is left.

    What stands behind the last breaks of the name and has a digit in it is a number or a hash.
    """
    name = worker.partition("@")[0] or worker
    end = len(name)
    for place in reversed([found.start() for found in _BREAK.finditer(name)]):
        part = name[place + 1 : end]
        if part and not any(map(str.isdigit, part)):
            break
        end = place
    return name[:end].rstrip("0123456789") or name


Seen = Callable[[], Iterable[tuple[str, str, bool, int]]]
"""Each worker: source, name, whether it is up, and its tasks in hand, -1 where it does not say."""


class Fleet:
    """Writes how many workers there are into the store."""

    def __init__(self, store: Store, seen: Seen, is_known: Callable[[str], bool]) -> None:
        self._store = store
        self._seen = seen
        self._is_known = is_known
        self._written: dict[tuple[str, Labels], float] = {}
        self._version = -1
        self._written_at = -math.inf

    def write(self, at: float, version: int) -> None:
        """Write the samples where `version` says that something changed, or their time has come."""
        if version == self._version and at < self._written_at + _ANEW_SECONDS:
            return
        self._version, self._written_at = version, at
        before, self._written = self._written, self._counted()
        for name, labels in before:
            if (name, labels) not in self._written:
                self._store.put(name, labels, at, STALE)
        for (name, labels), value in self._written.items():
            self._store.put(name, labels, at, value)

    def _counted(self) -> dict[tuple[str, Labels], float]:
        """Of sources that can be believed: of the others it is not known who is up."""
        counts: dict[tuple[str, Labels], float] = {}
        classes: set[str] = set()
        known: dict[str, bool] = {}
        for source, worker, is_up, active in self._seen():
            if not known.setdefault(source, self._is_known(source)):
                continue
            kind = class_of(worker)
            if kind not in classes and len(classes) >= MOST_CLASSES:
                kind = OTHER
            classes.add(kind)
            labels = labels_of({"class": kind, "source": source})
            counts[UP, labels] = counts.get((UP, labels), 0.0) + is_up
            if active >= 0:
                counts[ACTIVE, labels] = counts.get((ACTIVE, labels), 0.0) + active
        return counts
