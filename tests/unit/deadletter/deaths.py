"""Deaths and verdicts to hold a ledger against."""

from __future__ import annotations

from collector.deadletter.ledger import Ledger
from collector.deadletter.record import Found, Verdict
from collector.model.death import Death

T = 1_790_000_000.0


def death(task_id="a", at=0.0, **fields):
    """A death at T + `at`, of task `pay` in queue `q`."""
    said = {"home": "s", "task": "pay", "queue": "q", "source": "s", "when": T + at, "error": "ValueError", **fields}
    return Death(task_id=task_id, at=T + at, **said)


def verdict(state="discarded", **fields):
    """Somebody's verdict."""
    return Verdict(state=state, **{"actor": "ann", "reason": "not needed", **fields})


class Kept(Ledger):
    """A ledger with shorter ways to tell it things."""

    def die(self, task_id="a", at=0.0, found=None, review_within=None, **fields):
        """Open one; gives its id and what it was to the ledger."""
        told = self.open(death(task_id, at, **fields), found or Found(), "payments", review_within)
        return self.latest(fields.get("home", "s"), task_id).id, told

    def states(self):
        """State by task id."""
        return {one.task_id: one.state for one in self.records.values()}
