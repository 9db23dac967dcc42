"""How full each bound is."""

from __future__ import annotations

import math

import pytest

from collector.formats import native
from collector.shell.fullness import used
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.trail.keep import Bounds
from tests.unit.parts import T0, batch, event, pipeline


@pytest.mark.case("K04.2")
def test_each_bound_says_how_full_it_is() -> None:
    """Trails, ids, dead letters, names, series and what waits to be sent, each as a part of its bound."""
    made = Pipeline(Limits(bounds=Bounds(open_trails=8, dead_letters=4), rows=20, series=40), (), telemetry=Telemetry())
    made.axes = pipeline().axes
    bodies = [event("started", f"{number}", T0, task=f"t{number}", worker="w") for number in range(4)]
    bodies += [event("dead_lettered", "9", T0, error="E")]
    made.ingest.count(made.axes[0], native.decode, batch(bodies), math.inf)
    made.ingest.observe()
    made.axes[0].filled = 0.7
    full = used(made, {"a": 250, "b": 10}, 1000)
    assert {name: full[name] for name in ("open_trails", "dead_letters", "connections", "outbox")} == {
        "open_trails": 5 / 8,
        "dead_letters": 1 / 4,
        "connections": 0.7,
        "outbox": 0.25,
    }
    assert 4 / 20 <= full["names"] <= 7 / 20
    assert 0 < full["series"] < 1
    assert 0 < full["trail_bytes"] < 1e-4
    assert all(0 <= part <= 1 for part in full.values())


def test_a_bound_that_is_passed_is_full() -> None:
    """A queue with one under way besides is no more than full, and nobody to send to is empty."""
    made = pipeline()
    assert used(made, {"a": 1001}, 1000)["outbox"] == 1.0
    assert used(made, {}, 1000)["outbox"] == 0.0
