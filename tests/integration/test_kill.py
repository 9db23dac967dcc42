"""`kill -9` at random moments under load: what was decided is told, under one key, and no end is forgotten.

TASKTRAIL_KILLS: how many times it is killed; 10 unless told otherwise. TASKTRAIL_KILL_WINDOW: over what the rules look;
5s unless told otherwise, so that a slow start-up does not end an alert. `make soak` asks for 2s, where it may.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.live import Daemon, Hook, ndjson

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("TASKTRAIL_KILLS", "10"))
WINDOW = os.environ.get("TASKTRAIL_KILL_WINDOW", "5s")
AT_ONCE = 6
"""Tasks that fail at any time; when one was told of, the next begins."""
RULES = f"""
groups:
  - name: kill
    interval: 1s
    rules:
      - alert: Failing
        expr: sum by (task) (increase(task_failed_total[{WINDOW}])) > 0
      - alert: Held
        expr: sum by (task) (increase(task_failed_total[{WINDOW}])) > 0
        for: 2s
"""
ALERTS = ("Failing", "Held")
ROUTES = """
route: {{receiver: hook, group_by: [alertname, task], group_wait: 0s, group_interval: 1s}}
receivers: [{{name: hook, webhook_configs: [{{url: "{url}"}}]}}]
"""


class Load:
    """Tasks that fail until each of their alerts was told; then others."""

    def __init__(self, told: Hook) -> None:
        self.told = told
        self.begun: list[str] = []
        self.goes_on = True
        self.daemon: Daemon | None = None
        self._numbers = itertools.count()

    def firing(self) -> set[tuple[str, str]]:
        """Of which alerts it was told that they fire."""
        return {name_of(one) for one in self.told.alerts if one["status"] == "firing"}

    def unheard(self) -> list[str]:
        """The tasks that still have to fail."""
        firing = self.firing()
        return [task for task in self.begun if any((alert, task) not in firing for alert in ALERTS)]

    def push(self) -> None:
        """One round of events."""
        unheard = self.unheard()
        while self.goes_on and len(unheard) < AT_ONCE:
            unheard.append(f"task-{len(self.begun)}")
            self.begun.append(unheard[-1])
        events = [
            {"kind": "failed", "task_id": f"id-{next(self._numbers)}", "task": task, "queue": "q", "error": "E"}
            for task in unheard
        ]
        if self.daemon is not None and events:
            self.daemon.ask("/v1/events", ndjson(events))


@contextmanager
def loading(load: Load) -> Iterator[None]:
    """Push, in a thread, some twenty times a second."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.05):
            load.push()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def name_of(alert: dict) -> tuple[str, str]:
    """Which alert it is."""
    return alert["labels"]["alertname"], alert["labels"]["task"]


@pytest.mark.case("K02.1")
def test_killed_again_and_again(run: Callable[..., Daemon], told: Hook, tmp_path: Path) -> None:
    """Every start and every end arrives at least once, and exactly once where the receiver honours the dedup key."""
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "routes.yaml").write_text(ROUTES.format(url=told.url.removeprefix("webhook+")))
    call = ("--rules", "rules.yaml", "--routes", "routes.yaml", "--state", str(tmp_path / "state"))
    chance = random.Random(os.environ.get("TASKTRAIL_SEED"))  # its seed is the time unless one is given
    told.pause_seconds = 0.3  # so that a kill falls between what it was told and what it answers, too
    load = Load(told)
    with loading(load):
        for _ in range(KILLS):
            load.daemon = run(*call)
            time.sleep(chance.uniform(0.0, 4.0))
            load.daemon.end()
        load.goes_on = False
        last = load.daemon = run(*call)
        last.wait(lambda: not load.unheard(), 60, "not every start is told")
    wanted = {(alert, task) for alert in ALERTS for task in load.begun}
    ended = lambda: {name_of(one) for one in told.alerts if one["status"] == "resolved"}  # noqa: E731
    last.wait(lambda: ended() == wanted, 60, "an end is missing")

    once: dict[str, dict] = {}
    for key, (_, body) in zip(told.keys, list(told.got), strict=True):
        (alert,) = body["alerts"]
        same = once.setdefault(key, alert)
        assert [same[name] for name in ("fingerprint", "status", "startsAt")] == [
            alert[name] for name in ("fingerprint", "status", "startsAt")
        ], "one key for two things"
    story: dict[tuple[str, str], list[str]] = {}
    for alert in once.values():
        story.setdefault(name_of(alert), []).append(alert["status"])
    assert {name: told for name, told in story.items() if told != ["firing", "resolved"]} == {}
    print(f"{KILLS} kills, {len(load.begun)} tasks, {len(once)} notifications, {len(told.got)} messages")
