"""Celery events over Redis: events per CPU second of the daemon and of celery-exporter, on one stream, in one run.

Takes turns: each program in its own process, attached to one Redis, is given the same prepared stream as fast as it
takes it (the publisher waits while the server holds more than a little for it), and what counts is the CPU time of
the reading process alone. celery-exporter (on the package index: prometheus-exporter-celery) is installed in an
environment of its own. For people; nothing asserts on it.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import brokers
from tests.brokers.process import free_port, log_of, spawn, wait_until
from tests.frameworks import venvs

PEER = "prometheus-exporter-celery==0.11.2"
OLDER = ("celery[redis]==5.5.3", "kombu==5.5.4", "packaging")
"""What it was released with: it pins an older Redis client than today's kombu takes."""
ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
HELD = 2_000_000
"""Bytes that may wait at the server for the reader."""
PIPELINE = 100

Message = tuple[bytes, bytes]
"""Channel and envelope."""


def events_of(index: int, at: float, rng: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Routing key and event of all that one task says: 4% fail, 4% are retried once."""
    task_id, worker = str(uuid.UUID(int=rng.getrandbits(128), version=4)), f"w{index % 8}@node-{index % 3}"
    names = {"name": f"shop.task{index % 40}", "args": "(1234, 'eur')", "kwargs": "{'customer': 812}"}
    lineage = {"root_id": task_id, "parent_id": None, "eta": None, "expires": None}
    base = {"utcoffset": 0.0, "pid": 4711, "clock": index, "uuid": task_id}
    fate = rng.random()
    for retries in range(2 if fate < 0.04 else 1):
        sent = {"hostname": "gen4711@web", **base, **names, **lineage, "retries": retries, "queue": f"q{index % 3}"}
        sent |= {"parent_id": task_id if retries else None, "exchange": "", "routing_key": f"q{index % 3}"}
        yield "task.sent", {**sent, "timestamp": at, "type": "task-sent"}
        mine = {"hostname": worker, **base}
        received = {**mine, **names, **lineage, "retries": retries, "parent_id": sent["parent_id"]}
        yield "task.multi", {**received, "timestamp": at + 0.01, "type": "task-received"}
        yield "task.multi", {**mine, "timestamp": at + 0.02, "type": "task-started"}
        if fate < 0.04 and not retries:
            failed = {"exception": "ConnectionError('away')", "traceback": 'Traceback:\n  File "a.py"\n' * 8}
            yield "task.multi", {**mine, **failed, "timestamp": at + 0.05, "type": "task-retried"}
        elif fate > 0.96:
            failed = {"exception": "KeyError('missing')", "traceback": 'Traceback:\n  File "a.py"\n' * 8}
            yield "task.multi", {**mine, **failed, "timestamp": at + 0.05, "type": "task-failed"}
        else:
            done = {"result": "'done'", "runtime": 0.031}
            yield "task.multi", {**mine, **done, "timestamp": at + 0.05, "type": "task-succeeded"}
        at += 1.0


def stream(events: int, seed: int, width: int = 200) -> tuple[list[Message], int, int]:
    """So many events of interleaved tasks as messages, and how many are of a task that is sent again for a retry.

    Workers send lists: mostly of one event, at times of two or three.
    """
    rng = random.Random(seed)
    began = time.time() - 60
    running: list[Iterator[tuple[str, dict[str, Any]]]] = []
    messages: list[Message] = []
    buffered: list[dict[str, Any]] = []
    made = count = again = 0
    while count < events:
        while len(running) < width:
            running.append(events_of(made, began + made * 0.001, rng))
            made += 1
        index = rng.randrange(width)
        told = next(running[index], None)
        if told is None:
            running.pop(index)
            continue
        count += 1
        key, event = told
        if key == "task.sent":
            again += event["retries"] > 0
            messages.append(message(key, event))
        else:
            buffered.append(event)
            if len(buffered) >= rng.choice((1, 1, 1, 2, 3)):
                messages.append(message(key, buffered))
                buffered = []
    if buffered:
        messages.append(message("task.multi", buffered))
    return messages, count, again


def message(key: str, body: Any) -> Message:
    """What kombu publishes."""
    envelope = {
        "body": base64.b64encode(json.dumps(body).encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"hostname": "w1@node-a"},
        "properties": {
            "delivery_mode": 1,
            "delivery_info": {"exchange": "celeryev", "routing_key": key},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }
    return f"/0.celeryev/{key}".encode(), json.dumps(envelope).encode()


class Publisher:
    """A bare connection that publishes, and sees how far the reader is."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.file = self.socket.makefile("rb")

    def close(self) -> None:
        """End the connection."""
        self.file.close()
        self.socket.close()

    def ask(self, *words: bytes) -> bytes:
        """The text of a reply of one line or one bulk."""
        self.socket.sendall(packed(*words))
        head = self.file.readline()
        return self.file.read(int(head[1:]) + 2) if head.startswith(b"$") else head

    def waiting(self) -> int:
        """Bytes that the server holds for those who listen; -1: nobody does."""
        listed = [dict(part.partition("=")[::2] for part in line.split())
                  for line in self.ask(b"CLIENT", b"LIST").decode().splitlines() if line.strip()]  # fmt: skip
        held = [int(one["omem"]) for one in listed if int(one["psub"])]
        return max(held, default=-1)

    def publish(self, messages: list[Message]) -> None:
        """All messages, no faster than they are read."""
        for start in range(0, len(messages), PIPELINE):
            part = messages[start : start + PIPELINE]
            self.socket.sendall(b"".join(packed(b"PUBLISH", *one) for one in part))
            for _ in part:
                self.file.readline()
            while (held := self.waiting()) > HELD:
                time.sleep(0.01)
            if held < 0:
                raise SystemExit("the reader was lost")
        wait_until(lambda: self.waiting() == 0, 300)


def packed(*words: bytes) -> bytes:
    """A command."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def settled(pid: int) -> float:
    """The CPU seconds of a process once it has no more to do: what it read it may still be counting."""
    before, now = -1.0, cpu_seconds(pid)
    while now - before > 0.05:
        time.sleep(1.0)
        before, now = now, cpu_seconds(pid)
    return now


def told(port: int) -> str:
    """The metrics page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def counted(port: int, prefix: str) -> int:
    """The sum of a program's counters of task events."""
    kinds = ["sent", "received", "started", "succeeded", "failed", "retried"]
    wanted = tuple(f"{prefix}{kind}_total{{" for kind in kinds)
    return round(sum(float(line.rpartition(" ")[2]) for line in told(port).splitlines() if line.startswith(wanted)))


@contextmanager
def reader(call: list[str], publisher: Publisher) -> Iterator[int]:
    """A program that listens; ended at the end. Gives its process id."""
    with tempfile.TemporaryDirectory() as folder:
        pid = spawn(call, folder, detached=False, environment={"PYTHONPATH": str(ROOT)})
        try:
            if not wait_until(lambda: publisher.waiting() >= 0, 60):
                raise SystemExit(log_of(folder)[-2000:])
            yield pid
        finally:
            os.kill(pid, 9)
            wait_until(lambda: publisher.waiting() < 0, 20)


def turn(
    call: Callable[[int], list[str]], publisher: Publisher, messages: list[Message], prefix: str
) -> tuple[int, float]:
    """Events counted and CPU seconds of one program on the stream."""
    port = free_port()
    with reader(call(port), publisher) as pid:
        before = settled(pid)
        publisher.publish(messages)
        spent = settled(pid) - before
        return counted(port, prefix), spent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=600_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    python = venvs.python("celery-exporter", PEER, *OLDER)
    broker = brokers.launch("redis")
    host, port = broker.host_port
    version = subprocess.run(
        [python, "-c", "import celery, kombu; print(celery.__version__, kombu.__version__)"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    programs: dict[str, tuple[Callable[[int], list[str]], str]] = {
        "tasktrail run": (
            lambda listen: [sys.executable, "-m", "collector", "run", "--state", "none", "--listen",
                            f"127.0.0.1:{listen}", "--source", f"celery+redis://{host}:{port}/0"],
            "task_",
        ),
        PEER: (
            lambda listen: [python, "-c", "from src.cli import cli; cli()", "--broker-url", broker.address, "--host",
                            "127.0.0.1", "--port", str(listen), "--log-level", "ERROR"],
            "celery_task_",
        ),
    }  # fmt: skip
    rates: dict[str, list[float]] = {name: [] for name in programs}
    publisher = Publisher(host, port)
    print(f"{broker.name}, Celery {version[0]}, kombu {version[1]}; shipped rules; CPU seconds of the reading process")
    print("counted: by Tasktrail without `task-sent` of a retry, by which nobody asks for more work")
    print(f"{'program':38}{'published':>11}{'retries':>9}{'counted':>10}{'CPU s':>9}{'events/CPU s':>15}")
    try:
        for number in range(given.turns):
            messages, count, again = stream(given.events, number)
            for name, (call, prefix) in programs.items():
                seen, spent = turn(call, publisher, messages, prefix)
                rates[name].append(count / spent)
                print(
                    f"{name:38}{count:>11,}{again:>9,}{seen:>10,}{spent:>9.2f}{count / spent:>15,.0f}"
                    + ("" if seen in {count, count - again} else "  some were lost"),
                    flush=True,
                )
    finally:
        publisher.close()
        broker.stop()
    ours, peers = (statistics.median(rates[name]) for name in programs)
    print(f"medians: {ours:,.0f} against {peers:,.0f} events per CPU second: {ours / peers:.1f} times")


if __name__ == "__main__":
    main()
