"""A real Celery worker over a real broker, for tests: started, fed, killed, and what its tasks logged."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

from tests.brokers.process import is_alive, log_of, spawn, wait_until
from tests.frameworks import venvs

HERE = Path(__file__).parent
CELERY = "celery[redis]==5.7.0"


class Jobs:
    """The application of `celery_jobs.py` on one broker."""

    def __init__(self, folder: Path, broker: str, results: str = "", **environment: str) -> None:
        self.python = venvs.python("celery-redis", CELERY)
        self.folder = folder
        self.truth = folder / "truth"
        self.environment = {
            **os.environ,
            "BROKER": broker,
            "RESULTS": results,
            "TRUTH": str(self.truth),
            "PYTHONPATH": str(HERE),
            **environment,
        }
        self.workers: list[int] = []

    def start_worker(self, name: str, *options: str) -> int:
        """A worker with events, and more `options`; gives its process id once it is ready."""
        folder = self.folder / name
        folder.mkdir()
        call = [
            self.python,
            "-m",
            "celery",
            "-A",
            "celery_jobs",
            "worker",
            "-n",
            f"{name}@here",
            "-l",
            "INFO",
            *options,
        ]
        pid = spawn(call, str(folder), detached=False, environment=self.environment)
        self.workers.append(pid)
        assert wait_until(lambda: " ready." in log_of(str(folder)), 60.0), log_of(str(folder))[-3000:]
        return pid

    def produce(self, *arguments: str) -> None:
        """Run the producer to its end."""
        call = [self.python, str(HERE / "celery_jobs.py"), *arguments]
        subprocess.run(call, env=self.environment, check=True, timeout=120)

    def facts(self) -> dict[str, Counter[str]]:
        """Task id → what was logged of it."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for line in self.truth.read_text().splitlines():
            told = json.loads(line)
            found[told["id"]][told["fact"]] += 1
            found[told["id"]]["task=" + told["task"]] = 1
        return found

    def stop(self) -> None:
        """End all workers, with their children."""
        for pid in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, self.workers)), 10.0)
