"""Ten thousand trails that are due at one instant: gone through in bounded steps, each once."""

from __future__ import annotations

import pytest

from collector.model.contract import Contract
from collector.trail.transitions import FACT_CODE, FINDINGS, STRIDE
from tests.unit.trail.conftest import T
from tests.unit.trail.findings_bench import Court

MANY = 10_000
MOST = 2_000
"""What one step may cost, counted in trails that are only looked at; a verdict costs sixteen of them."""
DECIDED = {FACT_CODE["overdue"], FINDINGS}


def done_by(court):
    """What was decided so far: overdue and stuck tasks, trails let go or put away."""
    stitcher = court.stitcher
    plain = [*stitcher.promises.out.codes, *stitcher.findings.out.codes, *court.out.codes]
    named = [code for code, _, _ in (*stitcher.promises.out.errors, *stitcher.findings.out.errors)]
    decided = sum(code % STRIDE in DECIDED for code in (*plain, *named))
    return decided + MANY - sum(len(home.open) for home in stitcher.parts.keep.homes)


@pytest.mark.parametrize(
    ("contract", "bounds", "kind", "due", "most"),
    [
        (Contract(match="pay", semantics="must_complete", deadline=50.0), {}, "sent", 55, MOST // 16),
        (Contract(match="pay", semantics="best_effort", time_limit=50.0), {}, "started", 55, MOST // 16 + 1),
        (None, {"open_seconds": 100.0}, "started", 101, MOST),
        (None, {"horizon_seconds": 60.0}, "succeeded", 61, MOST),
    ],
)
def test_ten_thousand_that_are_due_at_once_are_decided_in_bounded_steps(contract, bounds, kind, due, most):
    """Deadlines, limits, the age of open trails and the end of finished ones: no step does more than it may."""
    court = Court(*(() if contract is None else (contract,)), **bounds)
    court.stitch(*(court.event(kind, 0, f"{number}", worker="w1") for number in range(MANY)))
    court.walk(due - 0.1)
    assert done_by(court) == 0
    steps, before = 0, 0
    is_more = True
    while is_more:
        is_more = court.stitcher.expire(T + due, court.out, MOST)
        steps, step, before = steps + 1, done_by(court) - before, done_by(court)
        assert step <= most
    assert before == MANY
    assert steps >= MANY // most
