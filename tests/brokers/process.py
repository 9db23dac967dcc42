"""Processes on free loopback ports: start, wait until ready within a deadline, end by pid."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_TRIES = 3
PATIENCE = 180.0
"""Seconds: a fresh machine that does much else reads a broker's files slowly; who waits less takes a lesser broker."""
_children: dict[int, subprocess.Popen[bytes]] = {}


class Unavailable(Exception):  # noqa: N818 - a state of the machine, not a fault
    """A broker cannot run here; the text says why."""


class Broker:
    """A running broker: its name with version, its address, and the processes that make it (none if it is not ours)."""

    def __init__(self, name: str, address: str, pids: Iterable[int] = (), folder: str = "") -> None:
        self.name = name
        self.address = address
        self.pids = list(pids)
        self.folder = folder
        self.environment: dict[str, str] = {}
        """RabbitMQ's, for its own tools."""
        self.sasl = ""
        """Kafka's second address, where one has to say `tester` and `secret` (SASL PLAIN, no TLS)."""

    @property
    def host_port(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self.address.rpartition("@")[2].rpartition("//")[2].partition("/")[0].split(":")
        return host, int(port)

    def pause(self) -> None:
        """Make it deaf: connections stay open, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._signal(signal.SIGKILL)
        self._reap(5.0)

    def end(self, seconds: float = 10.0) -> None:
        """End it politely, or at once where it takes longer; its data stay."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if not self._reap(seconds):
            self.kill()

    def stop(self) -> None:
        """End it and remove its data."""
        self.end()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                continue

    def _reap(self, seconds: float) -> bool:
        wait_until(lambda: not any(map(is_alive, self.pids)), seconds)
        gone = not any(map(is_alive, self.pids))
        if gone:
            self.pids = []
        return gone


def is_alive(pid: int) -> bool:
    """Whether a process runs; a child of ours that has ended is reaped on the way."""
    if pid in _children:
        return _children[pid].poll() is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(ready: Callable[[], bool], seconds: float) -> bool:
    """Ask until the answer is yes (True) or the time is over (False)."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def spawn(command: Sequence[str], folder: str, *, detached: bool, environment: Mapping[str, str] | None = None) -> int:
    """Start a process with its output in `folder/log`; unless detached it dies with us, however we end."""
    with (Path(folder) / "log").open("ab") as log:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=None if detached or sys.platform != "linux" else _die_with_parent,  # noqa: PLW1509
        )
    _children[child.pid] = child
    return child.pid


def log_of(folder: str) -> str:
    """What the processes in a folder have said so far."""
    path = Path(folder) / "log"
    return path.read_text(errors="replace") if path.exists() else ""


def tried(what: str, start: Callable[[str], tuple[Broker, Callable[[], bool]]]) -> Broker:
    """Start a broker in a fresh folder until it is ready; a second and third time where it ended (a port was taken).

    `start` gets the folder, gives the broker and the question whether it is ready. Raises Unavailable.
    """
    tail = ""
    for _ in range(_TRIES):
        folder = tempfile.mkdtemp(prefix="tasktrail-test-")
        broker, ready = start(folder)
        broker.folder = folder

        def settled(broker: Broker = broker, ready: Callable[[], bool] = ready) -> bool:
            return not all(map(is_alive, broker.pids)) or ready()

        in_time = wait_until(settled, PATIENCE)
        if in_time and all(map(is_alive, broker.pids)):
            return broker
        tail = " | ".join(log_of(folder).splitlines()[-3:])
        broker.stop()
        if not in_time:
            break
    raise Unavailable(f"{what} did not get ready: {tail[:600]}")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
