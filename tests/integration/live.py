"""The real daemon as a process, and a webhook that listens to it: what the end-to-end tests are made of."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from tests.brokers.process import Broker, free_port, log_of, spawn, wait_until

ROOT = Path(__file__).resolve().parents[2]


class Daemon:
    """One `tasktrail run` on a free port, without state unless the arguments name some."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log_path = folder / f"daemon-{self.port}.log"
        call = [sys.executable, "-m", "collector", "run", "--listen", f"127.0.0.1:{self.port}", "--state", "none"]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*call, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self.log_path.read_text(errors="replace")

    def ask(
        self, path: str, body: bytes | None = None, content_type: str = "application/x-ndjson"
    ) -> tuple[int, bytes]:
        """GET, or POST where there is a body; status 0 where nobody answers."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {} if body is None else {"Content-Type": content_type}
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError as error:
            return 0, repr(error).encode()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        """The JSON that a path gives."""
        return json.loads(self.ask(path)[1])

    def wait_ready(self, seconds: float = 90.0) -> Daemon:
        """Wait for /-/ready; the log where it does not come."""
        self.wait(lambda: self.ask("/-/ready")[0] == 200, seconds, "it is not ready")
        return self

    def wait(self, happened: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for something to become true; the log where it does not."""
        ended = lambda: self.process.poll() is not None  # noqa: E731
        is_so = wait_until(lambda: ended() or happened(), seconds)
        assert not ended(), f"the daemon ended with {self.process.returncode}:\n{self.log[-4000:]}"
        assert is_so, f"{what} after {seconds:.0f} s:\n{self.log[-4000:]}"

    def source(self, scheme: str) -> dict[str, Any]:
        """What /api/sources says of the source of a scheme."""
        listed = self.json("/api/sources")["sources"]
        return next(source for source in listed if source["name"].startswith(scheme))

    def metrics(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """/metrics: sample name to labels and values."""
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(self.ask("/metrics")[1].decode()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    def dead_letters(self) -> list[dict[str, Any]]:
        """All records of the ledger, newest first."""
        found: list[dict[str, Any]] = self.json("/api/dead-letters?limit=1000")["dead_letters"]
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """Pending and firing alerts."""
        alerts: list[dict[str, Any]] = self.json("/api/v1/alerts")["data"]["alerts"]
        return alerts

    def firing(self, name: str) -> list[dict[str, Any]]:
        """The firing alerts of a rule."""
        return [one for one in self.alerts() if one["labels"]["alertname"] == name and one["state"] == "firing"]

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 15.0) -> tuple[int, float]:
        """Signal it; its exit code, and how long it took. AssertionError where it does not end."""
        began = time.monotonic()
        self.process.send_signal(number)
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end in {seconds:.0f} s:\n{self.log[-4000:]}") from None
        return code, time.monotonic() - began

    def end(self) -> None:
        """End it at once, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def daemon(folder: Path, *arguments: str) -> Iterator[Daemon]:
    """A daemon that is ready; ended at the end."""
    running = Daemon(folder, *arguments)
    try:
        yield running.wait_ready()
    finally:
        running.end()


@dataclass
class Hook:
    """A webhook target: what it was told and when (wall clock). `hang`: answers nothing before the test's end.

    `keys`: the dedup key of each message. It answers with `status`, after `pause_seconds`.
    """

    url: str
    got: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    status: int = 200
    pause_seconds: float = 0.0
    hang: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """All alerts of all messages, in the order in which they came."""
        return [alert for _, body in self.got for alert in body["alerts"]]


@contextmanager
def hook(*, hang: bool = False) -> Iterator[Hook]:
    """A webhook target on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.keys.append(self.headers["Idempotency-Key"])
            told.got.append((time.time(), json.loads(body)))
            if told.hang:
                told.over.wait()
            told.over.wait(told.pause_seconds)
            self.send_response(told.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A daemon that gave up waiting is no news."""

    server = Server(("127.0.0.1", 0), Handler)
    told = Hook(f"webhook+http://127.0.0.1:{server.server_port}/", hang=hang)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        told.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def ndjson(events: Sequence[dict[str, Any]]) -> bytes:
    """Events as lines."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def died(task_id: str, task: str = "pay.settle", **more: Any) -> list[dict[str, Any]]:
    """A task that fails for good and is dead-lettered, now."""
    base = {"task_id": task_id, "task": task, "queue": "payments", "attempt": 1, "time": time.time(), **more}
    return [
        {**base, "kind": "started", "worker": "w1"},
        {**base, "kind": "failed", "worker": "w1", "error": "ValueError"},
        {**base, "kind": "dead_lettered", "error": "ValueError"},
    ]


async def produce(bootstrap: str, topic: str, records: Sequence[tuple[bytes | None, int]]) -> None:
    """Write bodies, each to its partition."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=20, max_batch_size=1 << 18, max_request_size=1 << 26
    )
    async with producer:
        # A record without a body is a tombstone, which needs a key; all others have none.
        pending = [
            await producer.send(topic, body, key=None if body is not None else b"gone", partition=partition)
            for body, partition in records
        ]
        await asyncio.gather(*pending)


def command_of(broker: Broker) -> list[str]:
    """The command line of a broker's first process; a server may have put another name in its place."""
    process = Path(f"/proc/{broker.pids[0]}")
    return [str((process / "exe").readlink()), *(process / "cmdline").read_bytes().decode().split("\0")[1:-1]]


def revive(broker: Broker, command: Sequence[str], ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Start a killed broker again, on its folder and its port."""
    broker.pids = [spawn(command, broker.folder, detached=False)]
    assert wait_until(ready, seconds), f"{broker.name} did not come back:\n{log_of(broker.folder)[-2000:]}"
