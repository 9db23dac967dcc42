"""What real frameworks give up is one record each, over `kill -9`: those that keep no dead messages of their own too.

TASKTRAIL_DEAD: how many of each framework, 40 unless told otherwise.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from tests import brokers
from tests.frameworks import journal, venvs
from tests.frameworks.bullmq import Bullmq
from tests.integration.live import Daemon
from tests.integration.test_probes import had
from tests.integration.test_redis_frameworks import FRAMEWORKS, Stage

COUNT = int(os.environ.get("TASKTRAIL_DEAD", "40"))
PATIENCE = 90.0 + COUNT / 2
TASKS = "tasks:\n- {match: '*', semantics: must_complete, owner: shop}\n"
HUEY = ("huey", ["huey==3.5.4", "redis"], "huey_jobs", ["-m", "huey.bin.huey_consumer", "huey_jobs.huey", "-w", "4"])
ALL = {name: FRAMEWORKS[name] for name in ("saq-0.26.4", "arq-0.28.0", "taskiq-0.13.0", "streaq-7.2.0")}
ALL |= {"huey-3.5.4": HUEY}
AT = {"arq": "/work?", "taskiq": "/work?prefix=kept&"}
"""How the URL goes on behind the database; else with its options."""
FOUND = {
    "saq": (("explode", "KeyError", 1, ""), ("flaky", "ConnectionError", 3, "")),
    "arq": (("explode", "KeyError", 1, ""), ("flaky", "JobExecutionFailed", 3, "")),
    "taskiq": (("explode", "KeyError", 1, ""), ("flaky", "ConnectionError", 3, "")),
    "streaq": (("explode", "KeyError", 1, ""), ("flaky", "StreaqError", 3, "")),
    "huey": (("huey_jobs.explode", "KeyError", 1, ""), ("huey_jobs.flaky", "ConnectionError", 3, "")),
    "bullmq": (("explode", "TypeError", 1, "bull:work:failed"), ("flaky", "RangeError", 3, "bull:work:failed")),
}
"""Source → of each cause its task, error, attempts, and the place that keeps it, where one does."""


def killed(made: Stage) -> None:
    """Its workers are ended with all that they have started: nothing they do matters any more."""
    for pid in made.workers:
        os.killpg(pid, signal.SIGKILL)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """All that is to be ended."""
    with ExitStack() as made:
        yield made


class Fleet:
    """All frameworks at work, each in a database of its own of one Redis."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        server = had(brokers.launch, "redis")
        stack.callback(server.stop)
        base = server.address.rpartition("/")[0]
        self.bull = had(Bullmq, server.address, folder, ["work"])
        self.sources = [f"bullmq+{base}/0?name=bullmq"]
        self.stages: dict[str, Stage] = {}
        for database, (name, (form, needed, jobs, command)) in enumerate(ALL.items(), 1):
            own = folder / form
            own.mkdir()
            made = self.stages[form] = Stage(had(venvs.python, name, *needed), jobs, f"{base}/{database}", own, command)
            stack.callback(killed, made)
            self.sources.append(f"{form}+{made.url}{AT.get(form, '?')}name={form}")
        with redis.Redis.from_url(self.stages["saq"].url) as client:
            # SAQ's sweep takes a job that has just been fetched for one that is lost, and ends it beside its worker.
            client.set("saq:work:sweep", 1)

    def die(self, stack: ExitStack, daemon: Daemon) -> None:
        """So many of each are given up, half of them at once and half after three tries."""
        for made in self.stages.values():
            made.environment["DEAD"] = str(COUNT // 2)
            made.produce("dead")
        # What Huey has taken before a poll has seen it wait has no name.
        daemon.wait(lambda: sent(daemon, "huey") == COUNT, PATIENCE, "Huey's queue is not seen")
        for made in self.stages.values():
            made.work("w1")
        half: dict[str, Any] = {"times": COUNT // 2}
        self.bull.produce(
            {"add": "explode", "data": {"kind": "explode"}, **half},
            {"add": "flaky", "data": {"kind": "flaky", "fails": COUNT}, "opts": {"attempts": 3}, **half},
        )
        self.bull.worker("w1")
        stack.callback(self.bull.kill, "w1")

    def sent(self) -> set[tuple[str, str]]:
        """Source and id of all of them, as those say who sent them."""
        ids = {("bullmq", row["id"]) for row in self.bull.rows() if row["ev"] == "publish"}
        for form, made in self.stages.items():
            ids |= {(form, row["id"]) for row in journal.rows(made.journal) if row["event"] == "sent"}
        return ids


def sent(daemon: Daemon, source: str) -> float:
    """How many of a source the daemon has seen sent."""
    found = daemon.metrics().get("task_sent_total", [])
    return sum(value for labels, value in found if labels["source"] == source)


def ledger(daemon: Daemon) -> dict[str, dict[str, Any]]:
    """All records by id."""
    lines = daemon.ask("/api/dead-letters/export")[1].splitlines()
    return {one["id"]: one for one in map(json.loads, lines)}


def told(records: dict[str, dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """How many of each source and cause there are.

    arq and streaq count one try more when they give one up; a poll that comes just then takes it for one that ran.
    """
    names = ("source", "task", "error", "attempts", "place", "owner", "queue", "state")
    most = {"arq": 3, "streaq": 3}
    rows = ({**one, "attempts": min(one["attempts"], most.get(one["source"], 99))} for one in records.values())
    return Counter(tuple(row[name] for name in names) for row in rows)


@pytest.mark.redis
@pytest.mark.slow
def test_what_each_framework_gives_up_is_on_record_once(
    stack: ExitStack, run: Callable[..., Daemon], tmp_path: Path
) -> None:
    """With its task, queue, error, attempts and owner, by cause; kill -9 neither loses nor doubles any."""
    fleet = Fleet(stack, tmp_path)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    arguments = [word for url in fleet.sources for word in ("--source", url)]
    arguments += ["--tasks", str(tmp_path / "tasks.yaml"), "--state", str(tmp_path / "state")]
    daemon = run(*arguments)
    fleet.die(stack, daemon)
    each = COUNT // 2
    expected = Counter({(form, *one, "shop", "work", "open"): each for form, both in FOUND.items() for one in both})
    daemon.wait(lambda: told(ledger(daemon)) == expected, PATIENCE, "not all are on record")
    before = ledger(daemon)
    assert {(one["source"], one["task_id"]) for one in before.values()} == fleet.sent()
    for form in FOUND:
        causes = daemon.json(f"/api/dead-letters?by=fingerprint&source={form}")["causes"]
        assert [(one["total"], one["open"]) for one in causes] == [(each, each)] * 2
    daemon.process.kill()
    daemon.process.wait()
    daemon = run(*arguments)
    is_open = lambda: sum(value for _, value in daemon.metrics().get("dead_letters_open", []))  # noqa: E731
    daemon.wait(lambda: is_open() == len(before), PATIENCE, "records and counts differ")
    after = ledger(daemon)
    assert after.keys() == before.keys()
    assert told(after) == expected
