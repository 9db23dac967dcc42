"""RQ's hook and the life of its thread, around workers that only exist here."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from collector.hooks.tasktrail_emit import Sender
from tests.brokers.process import wait_until


class Worker:
    """Does what it is given; one of the jobs fails."""

    name = "w1"

    def work(self, *jobs):
        """All of them, one after the other."""
        for job in jobs:
            self.execute_job(job, None)

    def execute_job(self, job, queue):
        """Run one."""
        if job.fails:
            job._status = "failed"
            self.handle_job_failure(job, queue)

    def handle_job_failure(self, job, queue):
        """It has failed."""


def job(name: str, *, fails: bool = False) -> SimpleNamespace:
    """A job that was sent before."""
    ended_at = SimpleNamespace(timestamp=lambda: 7.0)
    return SimpleNamespace(id=name, data=b'["f"]', origin="q", meta={}, ended_at=ended_at, fails=fails)


@pytest.fixture
def hook(monkeypatch):
    """The hook; `hook.told` is what it has told of which job."""
    rq = ModuleType("rq")
    rq.Worker = rq.SimpleWorker = Worker
    monkeypatch.setitem(sys.modules, "rq", rq)
    monkeypatch.delitem(sys.modules, "collector.hooks.tasktrail_rq", raising=False)
    made = importlib.import_module("collector.hooks.tasktrail_rq")
    sender, told = Sender(), []
    sender.to = lambda lines: told.extend(map(json.loads, lines))
    monkeypatch.setattr(made, "SENDER", sender)
    made.told = lambda: [(one["task_id"], one["kind"]) for one in told]
    yield made
    monkeypatch.delitem(sys.modules, "collector.hooks.tasktrail_rq")


def test_a_job_outside_of_work_is_told(hook):
    """A worker whose own loop calls `execute_job` is not disturbed, and what it does is told all the same."""
    worker = hook.SimpleWorker()
    worker.execute_job(job("1"), None)
    worker.execute_job(job("2", fails=True), None)
    expected = [("1", "started"), ("1", "succeeded"), ("2", "started"), ("2", "failed")]
    assert wait_until(lambda: len(hook.told()) >= len(expected), 60)
    assert hook.told() == expected


def test_no_thread_outlives_work(hook):
    """The relay of each call of `work` ends with it, once all is told; each fact is told once."""
    worker, expected = hook.SimpleWorker(), []
    for number in range(5):
        worker.work(job(f"{number}a"), job(f"{number}b"))
        expected += [(f"{number}{end}", kind) for end in "ab" for kind in ("started", "succeeded")]
    relays = lambda: [one for one in threading.enumerate() if one.name == "tasktrail-relay"]  # noqa: E731
    assert wait_until(lambda: not relays(), 60)
    worker.execute_job(job("z"), None)
    assert wait_until(lambda: ("z", "succeeded") in hook.told(), 60)
    assert sorted(hook.told()[:-2]) == sorted(expected)
