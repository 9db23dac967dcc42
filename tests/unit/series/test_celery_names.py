"""celery-exporter's names: views on what trails feed, made when they are named."""

from __future__ import annotations

import re

import pytest
from series_fleet import Fleet, match

from collector.model.labels import Matcher, labels_of
from collector.series import celery
from collector.series.observe import METRICS

T0 = 1_790_000_000


def other_than(name, value):
    """The matcher `name!="value"`."""
    return (Matcher(name=name, op="!=", value=value, test=value.__ne__),)


def labels(**more):
    """The exporter's labels of the fleet's one task."""
    known = {"hostname": "None", "job": "celery-exporter", "name": "t", "queue_name": "q", "source": "s"}
    return labels_of({**known, **more})


def test_every_name_leads_to_one_of_our_metrics(fleet):
    """The table names nothing that does not exist."""
    ours = {metric.name for metric in METRICS}
    assert {re.sub("_(bucket|count|sum)$", "", name) for name in celery.NAMES.values()} <= ours
    assert all(fleet.store.select(name, ()) == () for name in celery.NAMES)


@pytest.mark.parametrize("fact", ["sent", "received", "started", "succeeded", "rejected", "revoked"])
def test_counters_are_the_same_columns_under_other_labels(fleet, fact):
    """What was counted is there at once, and goes on being counted, once."""
    fleet.facts(fact, T0 + 1, T0 + 2)
    fleet.store.advance(T0 + 2)
    assert fleet.value(f"celery_task_{fact}_total") == {labels(): 2}
    fleet.facts(fact, T0 + 3)
    fleet.facts(fact, T0 + 3, task="new")
    fleet.store.advance(T0 + 3)
    assert fleet.value(f"celery_task_{fact}_total") == {labels(): 3, labels(name="new"): 1}
    assert fleet.increase(f"celery_task_{fact}_total", T0 + 2, T0 + 3) == [1, 1]
    assert fleet.store.catalogue.size == 4


def test_failures_carry_the_exception_and_what_is_unknown_is_none(fleet):
    """An empty name, queue or error is `None`, as the exporter writes it."""
    fleet.facts("failed", T0 + 1, error="ValueError")
    fleet.facts("retried", T0 + 1, error="", queue="")
    fleet.store.advance(T0 + 1)
    assert fleet.value("celery_task_failed_total") == {labels(exception="ValueError"): 1}
    unknown = match(exception="None")
    assert fleet.value("celery_task_retried_total", exception="None") == {
        labels(exception="None", queue_name="None"): 1
    }
    assert fleet.store.select("celery_task_retried_total", (*unknown, *other_than("queue_name", "None"))) == ()
    assert fleet.store.select("celery_task_failed_total", match(job="other")) == ()


def test_run_times_have_buckets_count_and_sum(fleet):
    """The exporter's histogram of run times is ours, for quantiles and bucket by bucket."""
    fleet.measured("run", 0.02, T0 + 1)
    fleet.measured("run", 7.0, T0 + 1)
    fleet.flush()
    fleet.store.advance(T0 + 1)
    assert fleet.one("celery_task_runtime_bucket").kind == "histogram"
    assert fleet.value("celery_task_runtime_bucket", le="0.025") == {labels(le="0.025"): 1}
    assert fleet.value("celery_task_runtime_count") == {labels(): 2}
    assert fleet.value("celery_task_runtime_sum") == {labels(): 7.02}


def test_a_view_follows_series_that_leave(fleet):
    """When a series leaves, its view does; when it comes back it is a new one."""
    short = Fleet(idle_seconds=400.0)
    short.facts("sent", T0 + 1)
    short.facts("sent", T0 + 1, task="stays")
    short.store.advance(T0 + 1)
    before = short.one("celery_task_sent_total").labels
    for minute in range(1, 20):
        short.facts("sent", T0 + 60 * minute, task="stays")
        short.store.advance(T0 + 60 * minute)
    assert before == (labels(), labels(name="stays"))
    assert short.value("celery_task_sent_total") == {labels(name="stays"): 20}
    short.facts("sent", T0 + 1200)
    short.store.advance(T0 + 1200)
    assert short.value("celery_task_sent_total")[labels()] == 1


def test_a_rule_on_their_names_keeps_our_windows():
    """What is announced for a view is kept for what it shows."""
    fleet = Fleet(keep=())
    fleet.store.keep(3600, "celery_task_failed_total")
    assert 3600 * 10**6 in {level.span for level in fleet.store.catalogue.counts.levels}


def test_samples_under_their_names_are_series_of_their_own(fleet):
    """Unit tests of rules give the exporter's series as samples; gauges nobody feeds are not there."""
    fleet.facts("failed", T0 + 1, error="E")
    fleet.store.put("celery_task_failed_total", labels(name="sampled"), T0 + 1, 5.0)
    fleet.store.advance(T0 + 1)
    assert [one.kind for one in fleet.store.select("celery_task_failed_total", ())] == ["counter", "sampled"]
    assert fleet.store.select("celery_worker_up", ()) == ()


def test_labels_of_an_alert_lead_back_to_tasks():
    """Evidence is looked up by our labels."""
    assert celery.own_labels({"name": "t", "queue_name": "None", "severity": "page"}) == {
        "task": "t",
        "queue": "",
        "severity": "page",
    }
