"""What is put together about an alert when it fires: through the real parts."""

from __future__ import annotations

import numpy as np

from collector.alerting.past import MOST_VALUES, Past
from collector.promql.frame import Frame
from collector.shell.pipeline import Limits
from tests.unit.parts import T0, event, pipeline
from tests.unit.shell.test_pipeline import failed, feed, live

DEAD = "groups:\n- name: g\n  rules:\n  - alert: Dead\n    expr: increase(task_dead_lettered_total[1m]) > 0\n"


def test_how_it_went_and_who_was_in_it() -> None:
    """Events by slot, workers and callers of the latest tasks, and a share that has grown."""
    made = pipeline()
    feed(made, *(failed(f"a{n}", T0 + 1, worker="w1", caller="web") for n in range(4)))
    live(made, T0 + 1)
    live(made, T0 + 100)
    late = [event("failed", f"b{n}", T0 + 110, error="New", worker="w2") for n in range(5)]
    feed(made, *late, received_at=T0 + 111)
    (alert,) = [one for one in live(made, T0 + 111) if one.state == "firing"]
    found = alert.evidence
    assert dict(found.workers)["w2"] == 5
    assert (found.slots_of, found.slot_seconds) == ("task_failed_total", 15.0)
    assert sum(found.slots) == 9
    assert found.slots[-1] == 5
    assert found.fired_24h == 2
    assert [(one.what, one.count, one.of, one.count_before, one.of_before) for one in found.changed] == [
        ("New", 5, 5, 0, 4),
        ("worker w2", 5, 5, 0, 4),
    ]


def test_the_deploy_whose_share_has_grown() -> None:
    """The share of a label that names deploys is compared with before, whichever event of a task carries it."""
    made = pipeline(limits=Limits(deploy_labels=("version", "deploy")))
    old = [failed(f"a{n}", T0 + 1, labels={"version": "1.0", "deploy": "x"}) for n in range(4)]
    feed(made, *old)
    live(made, T0 + 1)
    live(made, T0 + 100)
    sent = [event("sent", f"b{n}", T0 + 109, labels={"version": "1.1"}) for n in range(5)]
    late = [event("failed", f"b{n}", T0 + 110, error="E") for n in range(5)]
    feed(
        made, *sent, *late, *(failed(f"c{n}", T0 + 110, labels={"other": "1"}) for n in range(2)), received_at=T0 + 111
    )
    (alert,) = [one for one in live(made, T0 + 111) if one.state == "firing"]
    shares = [(one.what, one.count, one.of, one.count_before, one.of_before) for one in alert.evidence.changed]
    assert ("version 1.1", 5, 5, 0, 4) in shares
    assert not any("1.0" in what or "deploy" in what for what, *_ in shares)


def test_no_deploy_is_kept_that_nobody_asked_for() -> None:
    """Without the setting labels of events leave no trace."""
    made = pipeline()
    feed(made, failed("a", T0 + 1, labels={"version": "1.0"}))
    (trail,) = made.stitcher.parts.keep.homes[0].open.values()
    assert trail.deploy == ""


def test_open_dead_letters() -> None:
    """An alert about dead letters says how many are open."""
    made = pipeline(DEAD)
    feed(made, *(event("dead_lettered", f"d{n}", T0 + 1, error="E") for n in range(3)))
    (alert,) = live(made, T0 + 1)
    assert alert.evidence.open_dead_letters == 3


GROWING = (
    "groups:\n- name: g\n  interval: 5s\n  rules:\n  - alert: Many\n"
    "    expr: sum by (task) (increase(task_failed_total[1m])) >= 4\n"
)


def test_how_the_value_of_the_rule_itself_went() -> None:
    """What the expression gave at the last slots, also before it alerted, and what it gives now, between two."""
    made = pipeline(GROWING)
    found = []
    for number in range(5):
        feed(made, failed(f"a{number}", T0 + 5 * number + 1), received_at=T0 + 5 * number + 2)
        found += [one for one in live(made, T0 + 5 * number + 2) if one.state == "firing"]
    (alert,) = found
    assert alert.evidence.values == (1, 2, 3, 4)


def test_the_past_of_a_rule_is_bounded() -> None:
    """With many rows fewer slots are kept; what is not known, or no number, ends the way back."""
    past = Past()
    rows = tuple((("n", f"{number}"),) for number in range(MOST_VALUES // 4))
    for slot in range(10):
        past.note(Frame(rows, np.full(len(rows), float(slot))))
    assert past.of(rows[7]) == (6, 7, 8, 9)
    past.note(Frame(rows, np.full(len(rows), np.nan)))
    past.note(Frame(rows, np.ones(len(rows))))
    assert past.of(rows[0]) == (1,)
    for value in (0.0, 0.0, 2.0, 0.0):
        past.note(Frame(((("n", "late"),),), np.array([value])))
    assert past.of((("n", "late"),)) == (2, 0)
    past.note(1.0)
    assert past.of((("n", "no such"),)) == ()
