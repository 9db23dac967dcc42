"""The shipped rules over what must complete: what is given up, or is late and not over, keeps its alert."""

from __future__ import annotations

import math

import pytest

from collector.config.shipped import shipped
from collector.formats import native
from collector.model.contract import Contract, Contracts
from collector.shell.ticker import Target
from tests.unit.parts import T0, batch, event, pipeline

PAY = Contract(match="pay", semantics="must_complete", owner="payments")
BY_NOON = Contract(match="noon", semantics="must_complete", owner="payments", deadline=60.0)
MAIL = Contract(match="mail", semantics="best_effort", owner="growth", deadline=60.0)
SLOT = 15.0


class Shipped:
    """A pipeline with the shipped rules and these contracts, and what fires by them."""

    def __init__(self) -> None:
        rules = (shipped() / "shipped.yaml").read_text(encoding="utf-8")
        self.made = pipeline(rules, contracts=Contracts((PAY, BY_NOON, MAIL)))
        self.firing: set[str] = set()

    def told(self, at: float, *events: bytes) -> set[str]:
        """Takes events that came at an instant, goes there, and gives the names of what fires then."""
        taken = batch(events, is_head=True, received_at=at)
        self.made.ingest.count(self.made.axes[0], native.decode, taken, math.inf)
        for alert in (one for changed in self.made.advance(Target(at, at), at) for one in changed):
            change = self.firing.add if alert.state == "firing" else self.firing.discard
            change(dict(alert.labels)["alertname"])
        return self.firing - {"Watchdog"}


def given_up(kind: str, task: str, count: int, **fields: str) -> list[bytes]:
    """So many tasks, each given up in the same way."""
    return [event(kind, f"{task}{n}", T0 + 1, task=task, error="E", **fields) for n in range(count)]


@pytest.mark.parametrize(
    ("kinds", "task", "count", "is_growing"),
    [
        (["failed"], "pay", 10, True),
        (["failed"], "pay", 9, False),
        (["dead_lettered"], "pay", 10, True),
        (["dead_lettered"], "other", 10, True),
        (["failed", "dead_lettered"], "pay", 9, False),  # told twice of the same, counted once
        (["failed", "dead_lettered"], "other", 10, True),
        (["failed"], "other", 15, False),  # nobody said that these must complete: `TaskFailing` counts them
    ],
)
def test_ten_dead_letters_within_an_hour_page_whoever_keeps_them(
    kinds: list[str],
    task: str,
    count: int,
    is_growing: bool,  # noqa: FBT001
) -> None:
    """Those that the framework keeps, and those of what must complete where it keeps none."""
    made = Shipped()
    made.told(T0)
    fires = made.told(T0 + SLOT, *(one for kind in kinds for one in given_up(kind, task, count)))
    assert ("DeadLettersGrowing" in fires) == is_growing


@pytest.mark.parametrize("end", ["succeeded", "revoked"])
def test_what_must_complete_and_is_late_keeps_its_alert_until_it_is_over(end: str) -> None:
    """Also when the quarter of an hour that `TaskOverdue` looks back has long passed."""
    made = Shipped()
    made.told(T0, event("sent", "x", T0, task="noon"), event("started", "x", T0, task="noon", worker="w"))
    assert "TaskOverdue" in made.told(T0 + 75)
    assert "TaskOverdue" in made.told(T0 + 4 * 3_600)
    assert "TaskOverdue" not in made.told(T0 + 4 * 3_600 + SLOT, event(end, "x", T0 + 4 * 3_600, task="noon"))


def test_what_was_late_and_is_done_resolves() -> None:
    """As before: a quarter of an hour after its deadline."""
    made = Shipped()
    made.told(T0, event("sent", "x", T0, task="noon"))
    assert "TaskOverdue" in made.told(T0 + 75)
    assert "TaskOverdue" in made.told(T0 + 90, event("succeeded", "x", T0 + 90, task="noon"))
    assert "TaskOverdue" not in made.told(T0 + 75 + 900)


def test_what_need_not_complete_is_late_for_a_quarter_of_an_hour() -> None:
    """Nobody has to decide anything about it."""
    made = Shipped()
    made.told(T0, event("sent", "x", T0, task="mail"))
    assert "TaskOverdue" in made.told(T0 + 75)
    assert "TaskOverdue" not in made.told(T0 + 75 + 900)
