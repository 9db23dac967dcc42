"""The walk of the frontier: where it stops, what is evaluated there, and that how it is cut does not matter."""

from __future__ import annotations

import math
import random

import pytest

from collector.alerting.lifecycle import AlertRule
from collector.formats import native
from collector.replaying import Replay
from collector.shell import ticker
from collector.shell.axis import Axis
from collector.shell.pipeline import Pipeline
from collector.shell.ticker import Target, instant_of, target
from tests.unit.parts import FAILING, T0, batch, event, groups, pipeline

NOW = T0 + 1000


def axis(*, newest: float | None = None, is_head: bool = False, clock: str = "broker", **fields: object) -> Axis:
    """A source that was read so far."""
    made = Axis(**{"name": "s", "application": "", "clock": clock, "is_up": True, "was_tried": True, **fields})
    if newest is not None or is_head:
        made.advance(batch([b"x"] if newest else [], is_head=is_head), [newest] if newest else [])
    return made


BEHIND = {"newest": T0}
DOWN = {"newest": T0, "is_up": False}
HEAD = {"newest": T0, "is_head": True}


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([BEHIND], Target(T0, NOW)),
        ([HEAD], Target(NOW, NOW)),
        ([BEHIND, HEAD], Target(NOW, NOW)),
        ([BEHIND, {"newest": T0 + 5}], Target(T0, NOW)),
        ([BEHIND, DOWN], Target(T0, NOW)),
        ([DOWN], Target(NOW, NOW)),
        ([{"is_pushed": True}], Target(NOW, NOW)),
        ([BEHIND, {"is_pushed": True}], Target(T0, NOW)),
        ([{**BEHIND, "clock": "event"}], Target(T0 - 5, None)),
        ([{"is_pushed": True, "clock": "event"}], Target(-math.inf, NOW)),
        ([{"is_pushed": True, "clock": "event"}, HEAD], Target(NOW, NOW)),
        ([{"is_pushed": True, "clock": "event"}, DOWN], Target(NOW, NOW)),
    ],
)
def test_how_far_the_frontier_may_go(sources: list[dict[str, object]], expected: Target) -> None:
    """A source at its head makes the present complete, a backlog alone holds the frontier, a dead one does not."""
    assert target([axis(**one) for one in sources], NOW, 5.0) == expected


@pytest.mark.parametrize("sources", [[{}], [HEAD, {"is_up": False, "was_tried": False}]])
def test_a_source_that_has_not_said_where_it_stands_is_waited_for_a_while(sources: list[dict[str, object]]) -> None:
    """Until the patience ends nothing is evaluated while a source may have a backlog; then it goes on without it."""
    axes = [axis(**one) for one in sources]
    assert target(axes, NOW, 5.0, NOW + 1).at == -math.inf
    assert target(axes, NOW, 5.0, NOW).is_live


def test_instants_are_whole_milliseconds_not_before() -> None:
    """An instant is the first millisecond at which what came is seen; a float's fuzz behind one is at it."""
    assert instant_of(T0 + 0.0004) == T0 + 0.001
    assert instant_of(T0 + 0.001) == T0 + 0.001
    assert instant_of(T0 + 0.1 + 2e-7) == T0 + 0.1


class Evaluations:
    """Where each rule was evaluated: at slots, and between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slots: list[float] = []
        self.starts: list[float] = []
        evaluate, start = AlertRule.evaluate, AlertRule.start

        def at_slot(rule, rows, at, scene, *, is_blind=False):
            self.slots.append(at - T0)
            return evaluate(rule, rows, at, scene, is_blind=is_blind)

        def between(rule, rows, at, scene, *, is_blind=False):
            self.starts.append(round(at - T0, 3))
            return start(rule, rows, at, scene, is_blind=is_blind)

        monkeypatch.setattr(AlertRule, "evaluate", at_slot)
        monkeypatch.setattr(AlertRule, "start", between)


@pytest.fixture
def evaluations(monkeypatch) -> Evaluations:
    """Notes of all evaluations."""
    return Evaluations(monkeypatch)


def feed(made: Pipeline, *bodies: bytes) -> None:
    """Count events on the sender's time."""
    made.axes[0].clock = "event"
    made.ingest.count(made.axes[0], native.decode, batch(bodies, is_head=True), math.inf)


def live(made: Pipeline, at: float, wall: float | None = None) -> list[tuple[str, str, float]]:
    """Walk to the present; the alerts that changed, with their state and the instant."""
    wall = at if wall is None else wall
    return [(one.state, dict(one.labels).get("task", ""), made.store.frontier - T0)
            for changed in made.advance(Target(at, wall), wall) for one in changed]  # fmt: skip


def missed(made: Pipeline) -> dict[tuple[str, ...], float]:
    """Slots left out, by group, rule and reason."""
    return {
        tuple(dict(labels)[label] for label in ("group", "rule", "reason")): value
        for name, labels, value in made.telemetry.samples()
        if name == "tasktrail_rule_slots_missed_total"
    }


def failed(task_id: str, at: float, task: str = "a") -> bytes:
    """A final failure."""
    return event("failed", task_id, at, task=task, error="E")


def test_slots_are_aligned(evaluations) -> None:
    """A group is evaluated at whole multiples of its interval, each once, however often the ticker walks."""
    made = pipeline()
    for step in range(60):
        live(made, T0 + 1 + step * 0.25)
    assert evaluations.slots == [0, 5, 10, 15]


def test_between_slots_a_change_starts_an_alert(evaluations) -> None:
    """A rule whose input changed is evaluated at once; one whose inputs did not is left alone."""
    made = pipeline(FAILING + "  - alert: Other\n    expr: task_succeeded_total > 100\n")
    live(made, T0 + 0.5)
    evaluations.starts.clear()
    live(made, T0 + 1)
    assert evaluations.starts == []
    feed(made, failed("1", T0 + 1.05))
    assert live(made, T0 + 1.1) == [("firing", "a", pytest.approx(1.1))]
    assert evaluations.starts == [1.1]


def test_between_slots_nothing_ends(evaluations) -> None:
    """Only a slot resolves: between slots an alert whose expression holds no more is left as it is."""
    made = pipeline()
    feed(made, failed("1", T0 + 1))
    live(made, T0 + 1)
    feed(made, event("succeeded", "2", T0 + 13), failed("3", T0 + 13, task="b"))
    assert live(made, T0 + 13) == [("firing", "b", 13)]
    assert live(made, T0 + 15) == [("resolved", "a", 15)]


def test_at_most_ten_evaluations_a_second(evaluations) -> None:
    """Between slots a rule is evaluated at most ten times a second, and what was held back is evaluated then."""
    made = pipeline()
    feed(made, *(failed(str(number), T0 + 0.01 * number) for number in range(400)))
    for step in range(400):
        live(made, T0 + 0.01 * step + 0.005)
    assert len(evaluations.starts) <= 41
    gaps = [later - earlier for earlier, later in zip(evaluations.starts, evaluations.starts[1:], strict=False)]
    assert min(gaps) >= 0.099


def test_what_was_held_back_has_a_time() -> None:
    """Until a rule may be evaluated again the ticker says when that is, and afterwards no more."""
    made = pipeline()
    feed(made, failed("1", T0 + 1))
    live(made, T0 + 1)
    assert made.ticker.held_until == math.inf
    feed(made, failed("2", T0 + 1.03, task="b"))
    assert live(made, T0 + 1.05) == []
    assert made.ticker.held_until == pytest.approx(T0 + 1.1)
    assert live(made, T0 + 1.1) == [("firing", "b", pytest.approx(1.1))]
    assert made.ticker.held_until == math.inf


def test_a_broker_backlog_is_paced_by_the_wall(evaluations) -> None:
    """Along a backlog on the broker's time every slot is evaluated, and rules between them ten times a wall second."""
    made = pipeline()
    feed(made, *(failed(str(number), T0 + number) for number in range(1, 60)))
    for until in (20, 40, 59):
        live(made, T0 + until, NOW)
    assert evaluations.slots == list(range(0, 60, 5))
    assert len(evaluations.starts) == 1


def test_slots_between_the_facts_of_a_backlog_are_not_lost(evaluations) -> None:
    """Where one walk passes facts that lie far apart, the slots in which each could alert are all evaluated."""
    made = pipeline()
    feed(made, failed("1", T0 + 1), failed("2", T0 + 5001, task="b"), event("sent", "3", T0 + 20_000))
    told = live(made, T0 + 20_000, T0 + 30_000)
    assert [(state, task) for state, task, _ in told] == [
        ("firing", "a"),
        ("resolved", "a"),
        ("firing", "b"),
        ("resolved", "b"),
    ]


def test_quiet_stretches_of_a_backlog_are_skipped(evaluations) -> None:
    """Along a backlog slots at which nothing can change are not evaluated."""
    made = pipeline()
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1_000_000))
    live(made, T0 + 1_000_000, T0 + 2_000_000)
    assert len(evaluations.slots) < 12
    assert missed(made) == {}


@pytest.mark.parametrize(
    "expr",
    ["task_failed_total and on() hour() >= 0", "time() > task_failed_total", "chained", "minute(task_sent_total)"],
)
def test_what_reads_the_clock_is_not_skipped(evaluations, expr: str) -> None:
    """A rule that changes though nothing happens is evaluated at every slot, also through a recording rule."""
    text = f"groups:\n- name: g\n  interval: 5s\n  rules:\n  - alert: A\n    expr: {expr}\n"
    text += "  - record: chained\n    expr: day_of_week() + on() group_left() task_failed_total\n"
    made = pipeline(text)
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1000))
    live(made, T0 + 1000, T0 + 2000)
    assert evaluations.slots == [*range(0, 1001, 5)]


def test_a_word_in_a_text_is_no_clock(evaluations) -> None:
    """What stands inside a text of an expression does not keep quiet stretches from being skipped."""
    made = pipeline(FAILING.replace("task_failed_total[10s]", 'task_failed_total{task!="time()"}[10s]'))
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1_000_000))
    live(made, T0 + 1_000_000, T0 + 2_000_000)
    assert len(evaluations.slots) < 12


def test_a_long_standstill_is_counted(evaluations) -> None:
    """After the process stood still for long the missed slots are skipped, and counted."""
    made = pipeline()
    live(made, T0)
    live(made, T0 + 5 * 2000)
    assert evaluations.slots == [0, 10_000]
    assert missed(made) == {("g", "Failing", "standstill"): 1999}


def test_a_short_standstill_is_made_up_for(evaluations) -> None:
    """After a short one every slot is evaluated."""
    made = pipeline()
    live(made, T0)
    live(made, T0 + 20)
    assert evaluations.slots == [0, 5, 10, 15, 20]


def test_time_does_not_go_back() -> None:
    """A target behind the frontier moves nothing."""
    made = pipeline()
    live(made, T0 + 20)
    assert list(made.ticker.walk(Target(T0 + 10, T0 + 10))) == []
    assert list(made.ticker.walk(Target(-math.inf, T0 + 21))) == []
    assert made.store.frontier == T0 + 20


def test_decisions_of_trails_are_stops() -> None:
    """What a trail decides when grace is over is counted at that instant, and a rule that reads it starts there."""
    text = FAILING.replace("task_failed_total", "task_redelivered_total")
    made = pipeline(text)
    feed(made, event("succeeded", "1", T0 + 1.25), event("started", "1", T0 + 1.75, attempt=1))
    told = [(one.state, one.active_at) for changed in made.advance(Target(T0 + 20)) for one in changed]
    assert told[0] == ("firing", pytest.approx(T0 + 6.75))


def test_a_failing_rule_is_reported_and_stops_nobody() -> None:
    """A rule that cannot be evaluated is counted as failed, and the rules behind it go on."""
    clash = "  - alert: Bad\n    expr: task_sent_total * on(queue) task_sent_total\n"
    head, rules = FAILING.split("  rules:\n")
    made = pipeline(f"{head}  rules:\n{clash}{rules}")
    feed(made, event("sent", "1", T0 + 1), event("sent", "2", T0 + 1, task="b"), failed("3", T0 + 1))
    assert ("firing", "a", 1) in live(made, T0 + 1)
    live(made, T0 + 5)
    assert made.telemetry.get("tasktrail_rule_failures", ("g", "Bad")) >= 1


def test_many_alerts_are_begun_in_short_steps() -> None:
    """A rule that starts many alerts gives the loop turns in between."""
    made = pipeline()
    feed(made, *(failed(str(number), T0 + 1, task=f"t{number}") for number in range(1000)))
    steps = [len(changed) for changed in made.advance(Target(T0 + 1, T0 + 1), T0 + 1)]
    assert sum(steps) == 1000
    assert max(steps) <= 50
    assert len(steps) > 20


def test_a_slot_never_waits_for_another_group() -> None:
    """Groups with other intervals keep their own slots; the next stop is the soonest of them."""
    text = "groups:\n- {name: a, interval: 3s, rules: [{alert: A, expr: x}]}\n"
    text += "- {name: b, interval: 7s, rules: [{alert: B, expr: x}]}\n"
    made = pipeline(text)
    live(made, 21_000_000_000.0)
    assert made.ticker.next_stop() == 21_000_000_003.0
    live(made, 21_000_000_006.5)
    assert made.ticker.next_stop() == 21_000_000_007.0


def story(seed: int) -> list[bytes]:
    """Failures, retries, late facts and repeats of three tasks over ten minutes, disordered within grace."""
    chance = random.Random(seed)
    lines: list[tuple[float, bytes]] = []
    for number in range(300):
        at = T0 + round(chance.uniform(0, 600), 3)
        task = chance.choice("abc")
        end = chance.choice(("succeeded", "failed", "retried"))
        facts = [("started", at), (end, at + chance.uniform(0.1, 3))]
        if chance.random() < 0.2:
            facts.append(("started", at + 4))
        for kind, time in facts:
            body = event(kind, str(number), round(time, 3), task=task, attempt=1, error="E" if kind == end else None)
            lines.append((time + chance.uniform(0, 4), body))
    return [body for _, body in sorted(lines)]


RULES = """
groups:
- name: g
  interval: 5s
  rules:
  - record: failures
    expr: sum by (task) (increase(task_failed_total[20s]))
  - alert: Recorded
    expr: failures >= 2
  - alert: Held
    expr: sum by (task) (increase(task_retried_total[30s])) > 1
    for: 10s
    keep_firing_for: 5s
  - alert: Redelivered
    expr: sum by (task) (increase(task_redelivered_total[10s])) > 0
- name: slow
  interval: 15s
  rules:
  - alert: Slow
    expr: histogram_quantile(0.9, sum by (task, le) (rate(task_run_seconds_bucket[1m]))) > 2
"""


def episodes(lines: list[bytes], cuts: list[int]) -> list[tuple[str, str, float, float | None, float | None]]:
    """What is alerted when the lines come in batches that end at these numbers."""
    replay = Replay(groups(RULES))
    for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        if lines[start:end]:
            replay.count(batch(lines[start:end]))
        for _ in replay.walk():
            pass
    for _ in replay.finish(120):
        pass
    found = replay.episodes.values()
    return sorted(
        (one.rule, str(one.labels), one.active_at, one.fired_at, one.resolved_at) for one in found
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_the_same_facts_give_the_same_alerts_however_they_are_cut(seed: int) -> None:
    """On recorded time a backlog in one piece and its facts one by one give the same alerts at the same instants."""
    lines = story(seed)
    whole = episodes(lines, [])
    assert len(whole) > 5
    assert episodes(lines, list(range(1, len(lines)))) == whole
    chance = random.Random(seed)
    assert episodes(lines, sorted(chance.sample(range(len(lines)), 20))) == whole


@pytest.mark.parametrize("seed", range(4))
def test_live_and_along_a_backlog_the_same_is_alerted(seed: int) -> None:
    """Turning live every 100 ms as the facts happen gives the alerts that a walk along the same facts gives."""
    lines = story(seed)
    made = pipeline(RULES)
    by_time = sorted((native.decode(batch([line])).events[0].time or 0.0, line) for line in lines)
    episodes_seen = {}
    for step in range(7300):
        at = round(T0 + step / 10, 1)
        due = [line for time, line in by_time if time <= at]
        del by_time[: len(due)]
        if due:
            feed(made, *due)
        for changed in made.advance(Target(at, at), at):
            episodes_seen.update({(one.rule, str(one.labels), one.active_at): one for one in changed if one.fired_at})
    found = sorted((*key, one.fired_at, one.resolved_at) for key, one in episodes_seen.items())
    walked = episodes(lines, [])
    # A decision of a trail is a stop of the walk; the live turn that sees it comes up to 100 ms later.
    assert [(rule, labels, at) for rule, labels, _, _, at in found] == [
        (rule, labels, at) for rule, labels, _, _, at in walked
    ]
    for alive, along in zip(found, walked, strict=True):
        assert 0 <= alive[2] - along[2] < 0.1


def test_most_missed_is_what_a_standstill_is_measured_by() -> None:
    """The bound on made-up slots is a thousand intervals."""
    assert ticker.MOST_MISSED == 1000
