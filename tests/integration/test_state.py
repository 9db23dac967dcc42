"""The state directory of a real daemon: one at a time, through a full disk, over a crash."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.brokers.process import free_port
from tests.integration.live import ROOT, Daemon, Hook, died, ndjson

pytestmark = pytest.mark.slow
FULL = 16_384
"""Bytes: where files may not grow beyond, as on a full disk, SQLite's log cannot be written, and our own log can."""


def value_of(daemon: Daemon, name: str) -> float:
    """A metric without labels."""
    ((_, value),) = daemon.metrics()[name]
    return value


def test_a_second_daemon_on_the_directory(run: Callable[..., Daemon], tmp_path: Path) -> None:
    """It exits with 2 and one line that names the first; once that is gone, by kill -9 even, the directory is free."""
    state = str(tmp_path / "state")
    first = run("--state", state)
    call = [sys.executable, "-m", "collector", "run", "--listen", f"127.0.0.1:{free_port()}", "--state", state]
    second = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 2
    assert second.stderr.strip().splitlines() == [
        f"tasktrail run: --state {state}: the daemon with pid {first.process.pid} uses it; name another directory"
    ]
    first.end()
    assert "are kept in" in run("--state", state).log


def test_a_full_disk(run: Callable[..., Daemon], told: Hook, tmp_path: Path) -> None:
    """While the disk is full alerts are told as ever, and it is said; once there is room all of it is on the disk."""
    call = ("--state", str(tmp_path / "state"), "--notify", told.url)
    daemon = run(*call)
    daemon.wait(lambda: value_of(daemon, "tasktrail_state_durable") == 1, 10, "state is not kept")
    limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (FULL, limits[1]))
    daemon.ask("/v1/events", ndjson(died("a")))
    daemon.wait(lambda: len(told.alerts) >= 2, 10, "it is not told")
    daemon.wait(lambda: value_of(daemon, "tasktrail_state_durable") == 0, 10, "nobody says that the disk is full")
    assert value_of(daemon, "tasktrail_state_failing") == 1
    assert value_of(daemon, "tasktrail_state_waiting") > 0
    assert daemon.ask("/-/healthy")[0] == 200, "a full disk must not restart the monitor: that would lose what waits"
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, limits)
    daemon.wait(lambda: value_of(daemon, "tasktrail_state_durable") == 1, 10, "it does not come back")
    assert "state: not on the disk" in daemon.log
    assert "state: on the disk again" in daemon.log
    before = len(told.got)
    daemon.end()

    again = run(*call)
    assert {one["labels"]["alertname"] for one in again.alerts() if one["state"] == "firing"} >= {"DeadLetter"}
    again.ask("/v1/events", ndjson(died("b", task="mail.send")))
    again.wait(lambda: len(told.got) > before, 10, "it tells nothing more")
    assert {alert["labels"]["task"] for _, body in told.got[before:] for alert in body["alerts"]} == {"mail.send"}


def test_a_damaged_file(run: Callable[..., Daemon], tmp_path: Path) -> None:
    """A state file that is no database is set aside under a name that the log and the metrics give."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.db").write_bytes(b"not a database" * 100)
    daemon = run("--state", str(tmp_path / "state"))
    ((labels, value),) = daemon.metrics()["tasktrail_state_set_aside"]
    assert value == 1
    assert (tmp_path / "state" / labels["file"]).read_bytes() == b"not a database" * 100
    assert labels["file"] in daemon.log
