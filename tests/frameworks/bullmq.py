"""Real BullMQ on a Redis of its own: workers and producers as processes, and the truth that they log themselves."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.brokers import launch
from tests.brokers.process import wait_until
from tests.frameworks import node

SCRIPT = Path(__file__).with_name("bullmq_tasks.mjs")


class Bullmq:
    """Queues on one server. `truth`: by task id, what producers and processors said of it."""

    def __init__(
        self, url: str, folder: Path, queues: Sequence[str], prefix: str = "bull", *, otel: bool = False
    ) -> None:
        self.url = url
        self.log = folder / "truth.jsonl"
        self.log.touch()
        self.environment = {
            **os.environ,
            "NODE_MODULES_AT": str(node.modules("bullmq", node.BULLMQ)),
            "TRUTH": str(self.log),
            "REDIS_PORT": str(urlsplit(url).port),
            "QUEUES": ",".join(queues),
            "PREFIX": prefix,
            "OTEL": "1" if otel else "0",
        }
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def worker(self, name: str) -> None:
        """Start a worker and wait until it is at work."""
        out = self.log.with_name(f"{name}.log").open("wb")
        call = ["node", str(SCRIPT), "worker", name]
        self.workers[name] = subprocess.Popen(call, env=self.environment, stdout=out, stderr=out)
        out.close()
        process = self.workers[name]
        wait_until(lambda: process.poll() is not None or self.count("ready", worker=name) == 1, 30.0)
        assert self.count("ready", worker=name) == 1, self.log.with_name(f"{name}.log").read_text()[-2000:]

    def kill(self, name: str) -> None:
        """End a worker as a crash would."""
        self.workers[name].kill()
        self.workers.pop(name).wait()

    def produce(self, *steps: dict[str, Any]) -> None:
        """Run a producer to its end."""
        subprocess.run(
            ["node", str(SCRIPT), "produce", json.dumps(steps)], env=self.environment, check=True, timeout=60
        )

    def rows(self) -> list[dict[str, Any]]:
        """All lines of the log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]

    def count(self, *words: str, **fields: str) -> int:
        """How many lines say one of these words, with these fields."""
        return sum(row["ev"] in words and all(row.get(k) == v for k, v in fields.items()) for row in self.rows())

    def wait(self, count: int, *words: str, **fields: str) -> None:
        """Wait until so many lines say it."""
        assert wait_until(lambda: self.count(*words, **fields) >= count, 30.0), (words, fields, self.rows()[-5:])

    def truth(self) -> dict[str, Counter[str]]:
        """By task id: how often it was published, started, ended, raised for good or to be retried, moved."""
        tasks: dict[str, Counter[str]] = {}
        for row in self.rows():
            if "id" in row:
                word = ("retried" if row["retry"] else "failed") if row["ev"] == "raise" else row["ev"]
                tasks.setdefault(row["id"], Counter())[word] += 1
        return tasks

    def close(self) -> None:
        """End the workers."""
        for process in self.workers.values():
            process.terminate()
        for process in self.workers.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def bullmq(folder: Path, *queues: str, prefix: str = "bull", otel: bool = False) -> Iterator[Bullmq]:
    """BullMQ on a fresh server. Raises Unavailable where there is no Redis or no Node."""
    node.modules("bullmq", node.BULLMQ)
    broker = launch("redis")
    running = Bullmq(broker.address, folder, queues, prefix, otel=otel)
    try:
        yield running
    finally:
        running.close()
        broker.stop()
