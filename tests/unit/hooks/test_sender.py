"""What all hooks share: a buffer that never waits and never raises, and a thread that sends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from collector.hooks import tasktrail_emit
from collector.hooks.tasktrail_emit import Sender, emit, task
from tests.brokers.process import wait_until
from tests.hooks.sender import HOOKS


class Far:
    """A far end: what it was given, and whether it takes it now."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.opened = threading.Event()
        self.opened.set()
        self.refuses = False
        self.asked = 0

    def __call__(self, lines: list[bytes]) -> None:
        """Be sent to."""
        self.asked += 1
        self.opened.wait()
        if self.refuses:
            raise OSError("not now")
        self.lines += lines

    @property
    def events(self) -> list[dict]:
        """Events of tasks, in order."""
        return [event for event in map(json.loads, self.lines) if event["kind"] != "heartbeat"]

    @property
    def dropped(self) -> int:
        """What was told as dropped."""
        beats = [event for event in map(json.loads, self.lines) if event["kind"] == "heartbeat"]
        return sum(int(event["labels"]["dropped"]) for event in beats)


@pytest.fixture
def far(monkeypatch) -> Iterator[Far]:
    """The far end of the sender that `emit` and `task` use."""
    end, sender = Far(), Sender()
    sender.to = end
    monkeypatch.setattr(tasktrail_emit, "SENDER", sender)
    yield end
    end.opened.set()


def flush() -> None:
    """Let all be sent."""
    tasktrail_emit.SENDER.flush(10)


def test_a_run_is_told_as_it_went(far):
    """A block of `task` is a start, then a success, a failure, or a retry where the error is named; errors go on."""
    with task("1", task="t", queue="q"):
        pass
    with pytest.raises(KeyError), task("2", attempt=3):
        raise KeyError("x")
    with pytest.raises(OSError, match="away"), task("3", retried=(OSError,)):
        raise OSError("away" * 999)
    flush()
    told = [(event["task_id"], event["kind"], event["error"]) for event in far.events]
    assert told == [
        ("1", "started", None), ("1", "succeeded", None), ("2", "started", None), ("2", "failed", "KeyError"),
        ("3", "started", None), ("3", "retried", "OSError"),
    ]  # fmt: skip
    assert (far.events[0]["task"], far.events[0]["queue"], far.events[3]["attempt"]) == ("t", "q", 3)
    assert len(far.events[5]["error_message"]) == 1000
    assert all(event["worker"].endswith(f":{os.getpid()}") and event["time"] > 1.7e9 for event in far.events)


def test_what_finds_no_room_is_counted_and_told(far):
    """While the far end takes nothing, emitting goes on without waiting; each event arrives, or is told as dropped."""
    far.opened.clear()
    for number in range(30_000):
        emit("sent", number)
    assert len(tasktrail_emit.SENDER.waiting) == Sender.limit
    far.opened.set()
    assert wait_until(lambda: not tasktrail_emit.SENDER.waiting, 20)
    emit("sent", "last")
    flush()
    assert len(far.events) + far.dropped == 30_001
    assert far.dropped == 20_000
    assert [event["task_id"] for event in far.events[:2]] == ["0", "1"]


def test_what_is_refused_is_sent_again(far):
    """A far end that refuses for a while gets each event once, in order."""
    far.refuses = True
    for number in range(700):
        emit("sent", number)
    assert wait_until(lambda: far.asked > 3, 10)
    far.refuses = False
    flush()
    assert [event["task_id"] for event in far.events] == [str(number) for number in range(700)]
    assert not far.dropped


def test_nothing_is_raised_into_a_worker(far):
    """What cannot be made into an event is a dropped one; of text that is no UTF-8 the rest is told."""
    circle: list = []
    circle.append(circle)
    emit("sent", "1", labels=5)
    emit("sent", "2", caller=circle)
    emit("sent", "3", caller="a\udcffb", eta=object)
    flush()
    assert [(event["task_id"], event["caller"]) for event in far.events] == [("2", "[[...]]"), ("3", "a?b")]
    assert far.dropped == 1


def test_a_worker_touches_no_socket(far, monkeypatch):
    """Emitting neither connects nor sends: that is the work of a thread of its own."""
    here = threading.get_ident()
    seen = []
    monkeypatch.setattr(tasktrail_emit.SENDER, "to", lambda _: seen.append(threading.get_ident()))
    for number in range(1000):
        emit("sent", number)
    flush()
    assert seen
    assert here not in seen


def test_the_end_of_a_process_is_bounded(far):
    """A far end that takes nothing holds up the end of a process for the time given, and no longer."""
    far.opened.clear()
    emit("sent", "1")
    flushing = threading.Thread(target=tasktrail_emit.SENDER.flush, args=(0.2,))
    flushing.start()
    flushing.join(10)
    assert not flushing.is_alive()
    assert tasktrail_emit.SENDER.waiting


FORKING = """
import os, sys, threading, time
import tasktrail_emit as hook
opened = threading.Event()
def to(lines):
    opened.wait()
    os.write(1, b"".join(lines))
hook.SENDER.to = to
for number in range(200):
    hook.emit("sent", f"parent-{number}")
children = []
for child in range(3):
    if not (pid := os.fork()):
        opened = threading.Event()
        opened.set()
        for number in range(100):
            hook.emit("sent", f"child-{child}-{number}")
        hook.SENDER.flush(10)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
opened.set()
"""


def test_a_fork_sends_nothing_twice():
    """A child begins with an empty buffer and a thread of its own; what its parent held is sent by the parent alone."""
    done = subprocess.run([sys.executable, "-c", FORKING], cwd=HOOKS, capture_output=True, check=True, timeout=60)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ids = [event["task_id"] for event in events]
    expected = {f"parent-{number}" for number in range(200)}
    expected |= {f"child-{child}-{number}" for child in range(3) for number in range(100)}
    assert sorted(ids) == sorted(expected)
    assert len({event["worker"] for event in events}) == 4


@pytest.fixture
def listener() -> Iterator[Callable[..., list]]:
    """Starts an HTTP listener that answers with these statuses, the last one for ever; gives what it was asked."""
    servers = []

    def start(*statuses: int) -> tuple[str, list]:
        asked: list = []
        left = list(statuses)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked.append((self.path, self.headers["Authorization"], body))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/v1/events", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("status", "times"), [(503, 2), (401, 2), (400, 1), (413, 1)])
def test_an_answer_that_waiting_cannot_change_is_final(far, listener, status, times):
    """A batch is sent again after a refusal, but not after the answer that it cannot be read; the token goes along."""
    sender = tasktrail_emit.SENDER
    sender.to, asked = listener(status, 200)
    sender.token = "secret"
    emit("sent", "1")
    flush()
    assert [(path, token) for path, token, _ in asked] == [("/v1/events", "Bearer secret")] * times
    assert json.loads(asked[0][2])["task_id"] == "1"
