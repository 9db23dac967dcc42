"""One trace that never ends, among others."""

from __future__ import annotations

import pytest

ENDLESS = 20_000
OTHERS = 100


@pytest.mark.case("K08.1")
def test_an_endless_trace_leaves_the_others_whole(make_bench):
    """It is cut at its bound and says so; every other trace has all of its tasks."""
    bench = make_bench()
    made = 0
    for other in range(OTHERS):
        several = [bench.event("sent", 1.0, f"o{other}.{part}", trace_id=f"{other:032x}") for part in range(3)]
        endless = [
            bench.event("sent", 1.0, f"e{made + number}", trace_id="e" * 32) for number in range(ENDLESS // OTHERS)
        ]
        made += len(endless)
        bench.stitch(*endless, *several)
    view = bench.stitcher.reader.trace("e" * 32)
    assert view.truncated
    assert 0 < len(view.tasks) <= 1_000
    for other in range(OTHERS):
        view = bench.stitcher.reader.trace(f"{other:032x}")
        assert [one.task_id for one in view.tasks] == [f"o{other}.{part}" for part in range(3)]
        assert not view.truncated
    assert bench.counts() == {"sent": ENDLESS + 3 * OTHERS}
