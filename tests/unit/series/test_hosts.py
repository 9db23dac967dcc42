"""celery-exporter's series by host: what was there before, what comes after, and that the sum is always ours."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from series_fleet import Fleet, match

from collector.model.labels import labels_of
from collector.series import hosts
from collector.series.hosts import host_of

T0 = 1_790_000_000


def labels(host, **more):
    """The exporter's labels of the fleet's one task on a host."""
    known = {"hostname": host, "job": "celery-exporter", "name": "t", "queue_name": "q", "source": "s"}
    return labels_of({**known, **more})


@pytest.mark.parametrize(
    ("worker", "host"), [("celery@box-1", "box-1"), ("w1@a@b", "a@b"), ("plain", "plain"), ("ends@", "ends@")]
)
def test_a_host_stands_behind_the_at(worker, host):
    """As the exporter has it; a name without one is the host."""
    assert host_of(worker) == host


def counted(fleet, fact, at, worker=None, **names):
    """Observe a fact of a worker, as the stitcher notes it."""
    fleet.noted(worker)
    fleet.fact(fact, at, **names)
    fleet.flush()


def test_facts_and_durations_are_told_apart_by_host(fleet):
    """Each worker's host has its own series; what no worker is named for is `None`; two workers of a host are one."""
    fleet.store.count_by_host()
    for worker in ("a@one", "b@one", "a@two", None):
        counted(fleet, "started", T0 + 1, worker)
    counted(fleet, "failed", T0 + 1, "a@two", error="E")
    fleet.noted("a@one")
    fleet.measured("run", 2.0, T0 + 1)
    fleet.flush()
    fleet.store.advance(T0 + 1)
    assert fleet.value("celery_task_started_total") == {labels("one"): 2, labels("two"): 1, labels("None"): 1}
    assert fleet.value("celery_task_failed_total", exception="E") == {labels("two", exception="E"): 1}
    assert fleet.value("celery_task_runtime_count") == {labels("one"): 1}
    assert fleet.increase("celery_task_started_total", T0, T0 + 1, hostname="one") == [2]


def test_run_times_are_those_of_successes(fleet):
    """The run of a try that failed is in our own histogram and not in the exporter's; a wait always is."""
    fleet.store.count_by_host()
    for error, seconds in ((None, 1.0), ("E", 5.0)):
        fleet.noted("a@one")
        fleet.fact("failed" if error else "succeeded", T0 + 1, error=error)
        fleet.measured("run", seconds, T0 + 1)
        fleet.measured("wait", seconds, T0 + 1)
    fleet.flush()
    fleet.store.advance(T0 + 1)
    assert fleet.value("celery_task_runtime_sum") == {labels("one"): 1}
    assert fleet.value("celery_task_queue_wait_time_sum") == {labels("one"): 6}
    assert list(fleet.value("task_run_seconds_sum").values()) == [6]


@pytest.mark.parametrize("is_named_first", [True, False])
def test_other_counters_are_there_at_0(fleet, is_named_first):
    """Where a label set has failed and never succeeded, the successes are 0 and not absent: rules add the two up."""
    if is_named_first:
        fleet.store.count_by_host()
    counted(fleet, "failed", T0 + 1, "a@one", error="E")
    fleet.store.count_by_host()
    fleet.store.advance(T0 + 1)
    host = "one" if is_named_first else "None"
    assert fleet.value("celery_task_succeeded_total") == {labels(host): 0}
    assert fleet.increase("celery_task_succeeded_total", T0 - 300, T0 + 1) == [0]
    assert not fleet.store.born(fleet.one("celery_task_succeeded_total")).any()
    assert fleet.store.select("celery_task_sent_total", ()) == ()
    counted(fleet, "succeeded", T0 + 2, "a@one")
    fleet.store.advance(T0 + 2)
    assert fleet.value("celery_task_succeeded_total")[labels("one")] == 1


@pytest.mark.parametrize("seed", range(6))
def test_the_sum_over_hosts_is_what_we_count(seed):
    """Whenever the names are first named, windows, past instants and quantiles over all hosts are those of our own."""
    chance = random.Random(seed)
    fleet = Fleet(keep=(60.0, 300.0, 3600.0))
    begins = chance.uniform(0, 600)
    has_begun = False
    for second in range(0, 660, 3):
        if not has_begun and second >= begins:
            has_begun = True
            fleet.store.count_by_host()
        for _ in range(chance.randrange(4)):
            at = T0 + second + chance.uniform(-20, 5)
            worker = chance.choice([None, "a@one", "a@two"])
            fleet.noted(worker)
            task = chance.choice("tu")
            fleet.fact("started", at, task=task)
            fleet.fact("failed", at, task=task, error=chance.choice("EF"))
            fleet.noted(worker)
            fleet.measured("run", chance.lognormvariate(0, 1), at, task=task)
            fleet.flush()
        fleet.store.advance(T0 + second)
    end = fleet.store.frontier
    for fact, task, back in product(("started", "failed"), "tu", (10, 60, 299, 600)):
        ours, theirs = f"task_{fact}_total", f"celery_task_{fact}_total"
        own = sum(fleet.increase(ours, end - back, end, task=task))
        assert sum(fleet.increase(theirs, end - back, end, name=task)) == own
        own = sum(fleet.value(ours, end - back, task=task).values())
        assert sum(fleet.value(theirs, end - back, name=task).values()) == own
    for window in (60, 300):
        own, foreign = fleet.one("task_run_seconds_bucket"), fleet.one("celery_task_runtime_bucket")
        quantiles = [
            fleet.store.quantile(one, np.zeros(len(one.labels), np.int64), 1, 0.9, end - window, end)
            for one in (own, foreign)
        ]
        assert quantiles[0] == quantiles[1]
    assert sum(fleet.value("celery_task_runtime_count").values()) == sum(fleet.value("task_run_seconds_count").values())


def test_hosts_are_capped_and_the_rest_is_counted(fleet, monkeypatch):
    """Beyond the cap further hosts are one, and that is counted; nothing is lost of the sum."""
    monkeypatch.setattr(hosts, "MOST_HOSTS", 3)
    fleet.store.count_by_host()
    for number in range(10):
        counted(fleet, "started", T0 + 1, f"w@host{number}")
    fleet.store.advance(T0 + 1)
    found = fleet.value("celery_task_started_total")
    assert found == {**{labels(f"host{number}"): 1 for number in range(3)}, labels("_other"): 7}
    assert fleet.store.evictions["hosts"] == 7


def test_series_beyond_the_cap_are_one():
    """Where the store is full the exporter's series share one, and that is counted."""
    fleet = Fleet(cap=4)
    fleet.store.count_by_host()
    for number in range(5):
        counted(fleet, "started", T0 + 1, f"w@host{number}")
    fleet.store.advance(T0 + 1)
    assert sum(fleet.value("celery_task_started_total").values()) == 5
    assert fleet.store.evictions["celery_series_cap"] >= 1
    assert sum(fleet.value("task_started_total").values()) == 5


def test_series_that_find_no_room_are_not_remembered_one_by_one():
    """Where the store is full, what is kept does not grow with the names that still come."""
    fleet = Fleet(cap=4)
    fleet.store.count_by_host()
    sizes = []
    for number in range(40):
        counted(fleet, "started", T0 + 1, f"w@host{number % 8}", task=f"t{number % 5}")
        sizes.append(len(fleet.store.hosts._columns))
    fleet.store.advance(T0 + 1)
    assert max(sizes) <= 4
    assert sum(fleet.value("celery_task_started_total").values()) == 40


def test_idle_hosts_leave_and_come_back():
    """A host whose worker is gone for long leaves; what comes later from it begins anew."""
    fleet = Fleet(idle_seconds=400.0)
    fleet.store.count_by_host()
    counted(fleet, "started", T0 + 1, "w@gone")
    for minute in range(1, 20):
        counted(fleet, "started", T0 + 60 * minute, "w@stays")
        fleet.store.advance(T0 + 60 * minute)
    assert fleet.value("celery_task_started_total") == {labels("stays"): 19}
    counted(fleet, "started", T0 + 1200, "w@gone")
    fleet.store.advance(T0 + 1200)
    assert fleet.value("celery_task_started_total")[labels("gone")] == 1
    assert fleet.store.select("celery_task_started_total", match(hostname="None")) == ()
