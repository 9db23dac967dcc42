"""Rules that are slow, that break, or that need no source: each at its own times, whatever the others do."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import pytest

from collector.alerting.group import Group
from collector.formats import native
from collector.model.labels import labels_of
from collector.series.store import Store
from collector.shell.pipeline import Pipeline
from collector.shell.ticker import Target
from tests.unit.parts import T0, batch, event, pipeline

TWO = """
groups:
- name: slow
  interval: 1s
  rules:
  - {alert: Slow, expr: task_sent_total > 100}
- name: quick
  interval: 1s
  rules:
  - {alert: Quick, expr: 'sum by (task) (increase(task_failed_total[10s])) > 0'}
"""
NAME = "tasktrail_rule_slots_missed"


class Bench:
    """A pipeline on a wall clock that evaluations move: each rule's takes what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, text: str = TWO) -> None:
        self.wall, self.spent = T0, 0.0
        self.costs: dict[str, float] = {}
        self.slots: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """Slots at which each rule was evaluated, and how late by the wall that was."""
        result, slot = Group._result, Group._slot

        def costly(group, rule, querier, at):
            self.spent += self.costs.get(rule.name, 0.0)
            self.wall += self.costs.get(rule.name, 0.0)
            return result(group, rule, querier, at)

        def noted(group, rule, querier, at, *, is_blind):
            self.slots[rule.name].append((round(at - T0, 3), self.wall - at))
            return slot(group, rule, querier, at, is_blind=is_blind)

        monkeypatch.setattr(Group, "_result", costly)
        monkeypatch.setattr(Group, "_slot", noted)
        self.made = pipeline(text, cpu=lambda: self.spent)

    def until(self, seconds: float, step: float = 0.25) -> None:
        """Turn live, as the daemon does, until that long after T0."""
        while self.wall < T0 + seconds:
            now = self.wall
            for _ in self.made.advance(Target(now, now), now):
                pass
            self.wall = max(self.wall, now + step)

    def instants(self, rule: str) -> list[float]:
        """Slots at which a rule was evaluated, seconds after T0."""
        return [at for at, _ in self.slots[rule]]

    def missed(self, rule: str) -> float:
        """Slots at which it was left out for being slow."""
        return self.made.telemetry.get(NAME, (rule.lower(), rule, "slow"))


@pytest.fixture
def bench(monkeypatch) -> Bench:
    """A slow group and a quick one."""
    return Bench(monkeypatch)


@pytest.mark.case("K22.1")
def test_a_slow_group_misses_slots_and_says_so(bench, caplog) -> None:
    """A group that takes three times its interval is evaluated seldom; every slot it misses is counted and named."""
    caplog.set_level("WARNING", "tasktrail")
    bench.costs = {"Slow": 3.0}
    bench.until(120)
    slots = bench.instants("Slow")
    assert len(slots) < 20
    assert len(slots) + bench.missed("Slow") == bench.made.ticker.next_stop() - T0
    (line,) = (line for line in caplog.messages if "left out" in line)
    assert line.startswith("group slow: Slow left out at 1 slots, because it is slow")
    assert bench.made.ticker.groups[0].rules[0].pace.missed == bench.missed("Slow")


@pytest.mark.case("K22.1")
def test_the_others_keep_their_times(bench) -> None:
    """Beside a slow group a quick one is evaluated at each of its slots, seldom late, and never missed."""
    bench.costs = {"Slow": 3.0}
    bench.until(120)
    slots = bench.instants("Quick")
    assert slots == list(range(int(slots[-1]) + 1))
    assert slots[-1] >= 117
    assert bench.missed("Quick") == 0
    late = [late for at, late in bench.slots["Quick"] if at > 20 and late > 0.5]
    assert len(late) < 0.4 * len(slots)
    assert max(late) <= 3.25


def test_what_is_quick_again_has_all_its_slots_again(bench) -> None:
    """A rule that was slow for a while is evaluated at every slot once it no longer is."""
    bench.costs = {"Slow": 3.0}
    bench.until(60)
    bench.costs = {}
    bench.until(90)
    assert [at for at in bench.instants("Slow") if at > 80] == list(range(81, 90))


def test_between_slots_a_slow_rule_is_held_back_first(bench) -> None:
    """A rule that is dear ten times a second keeps its slots, and starts less often between them."""
    bench.costs = {"Quick": 0.1}
    axis = bench.made.axes[0]
    (rule,) = bench.made.ticker.groups[1].rules
    starts: list[float] = []
    start = rule.start

    def noted(rows, at, scene, *, is_blind=False):
        starts.append(at - T0)
        return start(rows, at, scene, is_blind=is_blind)

    rule.start = noted
    for step in range(400):
        body = event("failed", str(step), bench.wall, error="E")
        bench.made.ingest.count(axis, native.decode, batch([body], received_at=bench.wall, is_head=True), math.inf)
        bench.until(bench.wall - T0 + 0.05, step=0.05)
    gaps = [later - earlier for earlier, later in pairwise(starts) if earlier > 5]
    assert min(gaps) >= 0.4 - 0.001
    assert bench.missed("Quick") == 0
    assert bench.instants("Quick") == list(range(len(bench.instants("Quick"))))


def test_a_rule_that_breaks_stops_nobody(monkeypatch) -> None:
    """An error of our own in one rule, also where it is asked whether its inputs changed, leaves the others alone."""
    made = pipeline(TWO)
    select = Store.select

    def broken(store, name, matchers):
        if name == "task_sent_total":
            raise KeyError(name)
        return select(store, name, matchers)

    monkeypatch.setattr(Store, "select", broken)
    body = event("failed", "1", T0 + 1, error="E")
    made.ingest.count(made.axes[0], native.decode, batch([body], received_at=T0 + 1, is_head=True), math.inf)
    changed = [one for part in made.advance(Target(T0 + 1, T0 + 1), T0 + 1) for one in part]
    assert [dict(one.labels)["alertname"] for one in changed] == ["Quick"]
    slow, quick = (group.rules[0] for group in made.ticker.groups)
    assert (slow.health, quick.health) == ("err", "ok")
    assert slow.last_error == "internal error: KeyError('task_sent_total')"
    assert made.telemetry.get("tasktrail_rule_failures", ("slow", "Slow")) >= 1


OWN = """
groups:
- name: g
  interval: 5s
  rules:
  - {alert: Lagging, expr: lag > 10, for: 10s}
  - {record: lag, expr: 'max by (source) (tasktrail_source_lag_seconds)'}
  - {alert: Failing, expr: 'increase(task_failed_total[10s]) > 0'}
  - {alert: Both, expr: lag > 10 and on() task_failed_total}
"""
NOW = T0 + 3600


def behind(made: Pipeline, frontier: float, now: float) -> list[tuple[str, str, float]]:
    """A turn while the source is behind: name and state of what changed, and its instant, seconds after NOW or T0."""
    made.store.put("tasktrail_source_lag_seconds", labels_of({"source": "s"}), now, now - frontier)
    return [
        (dict(one.labels)["alertname"], one.state, one.resolved_at or one.fired_at or one.active_at)
        for part in made.advance(Target(frontier, now), now)
        for one in part
    ]


def test_rules_on_our_own_numbers_do_not_wait_for_a_backlog() -> None:
    """While the only source is an hour behind, a rule that reads no event goes through its life by the wall's time."""
    made = pipeline(OWN)
    told = [one for step in range(16) for one in behind(made, T0 + step, NOW + step)]
    assert [one for one in told if one[0] == "Lagging"] == [
        ("Lagging", "pending", NOW),
        ("Lagging", "firing", NOW + 10),
    ]
    assert made.store.frontier == T0 + 15
    assert made.ticker.groups[0].rules[0].evaluated_at == NOW + 15


def test_they_are_told_as_news_and_the_past_stays_the_past(monkeypatch) -> None:
    """What fires by the wall's time while the daemon catches up is live; what the backlog gives meanwhile is not."""
    made = pipeline(OWN)
    inserted = []
    insert = made.grouping.insert

    def noted(alerts, now, *, live=True, pages=False):
        inserted.extend((dict(one.labels)["alertname"], live) for one in alerts)
        insert(alerts, now, live=live, pages=pages)

    monkeypatch.setattr(made.grouping, "insert", noted)
    made.axes[0].clock = "event"
    body = event("failed", "1", T0 + 1, error="E")
    made.ingest.count(made.axes[0], native.decode, batch([body]), math.inf)
    for step in range(16):
        behind(made, T0 + step, NOW + step)
    assert ("Lagging", True) in inserted
    assert ("Failing", False) in inserted
    assert ("Failing", True) not in inserted


def test_what_reads_both_follows_the_sources(monkeypatch) -> None:
    """A rule that reads an event, itself or through what is recorded, is evaluated along the backlog."""
    bench = Bench(monkeypatch, OWN)
    for step in range(12):
        behind(bench.made, T0 + step, NOW + step)
    assert bench.instants("Both") == bench.instants("Failing") == [0, 5, 10]
    assert [at for at in bench.instants("lag") if at >= 3600] == [3600, 3605, 3610]


def test_caught_up_no_slot_is_lost_or_evaluated_twice(monkeypatch) -> None:
    """Where the frontier reaches the present, rules of either kind go on with their next slot."""
    bench = Bench(monkeypatch, OWN)
    for step in range(12):
        behind(bench.made, NOW - 12 + 2 * step, NOW + step)
    for step in range(12, 23):
        behind(bench.made, NOW + step, NOW + step)
    assert [at for at in bench.instants("lag") if at >= 3600] == [3600, 3605, 3610, 3615, 3620]
    slots = bench.instants("Failing")
    assert slots == sorted(set(slots))
    assert slots[-1] == 3620


def test_recorded_time_is_the_only_time_of_a_replay(monkeypatch) -> None:
    """Without a wall's time rules on our own numbers are evaluated with the others."""
    bench = Bench(monkeypatch, OWN)
    for _ in bench.made.advance(Target(T0 + 10, T0 + 10)):
        pass
    assert bench.instants("lag")[-1] == bench.instants("Failing")[-1] == 10
