"""What the service manager is told, and that only our own loop decides about it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from collector import supervisor
from tests.unit.parts import until


class Health:
    """The two things of a view that the supervisor looks at."""

    is_ready = False
    trouble = ""


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """The socket that systemd listens on."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        yield listener


def heard(manager: socket.socket) -> list[str]:
    """What was said since."""
    said = []
    while True:
        try:
            said.append(manager.recv(100).decode())
        except BlockingIOError:
            return said


async def test_ready_is_said_once_every_source_was_tried(manager, monkeypatch) -> None:
    """READY comes when the daemon is ready, once; before and after it the watchdog is fed."""
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    view, said = Health(), []
    task = asyncio.ensure_future(supervisor.watch(view))
    await until(lambda: said.extend(heard(manager)) or "WATCHDOG=1" in said)
    assert "READY=1" not in said
    view.is_ready = True
    await until(lambda: said.extend(heard(manager)) or "READY=1" in said)
    del said[:]
    await until(lambda: said.extend(heard(manager)) or len(said) >= 3)
    task.cancel()
    assert set(said) == {"WATCHDOG=1"}


async def test_a_stuck_loop_does_not_feed_the_watchdog(manager, monkeypatch) -> None:
    """While our own loop is in trouble nothing is said, so that the manager restarts the process."""
    monkeypatch.setenv("WATCHDOG_USEC", "10000")
    view = Health()
    view.is_ready, view.trouble = True, "the loop has not moved"
    task = asyncio.ensure_future(supervisor.watch(view))
    await asyncio.sleep(0.05)
    assert heard(manager) == ["READY=1"]
    view.trouble = ""
    said: list[str] = []
    await until(lambda: said.extend(heard(manager)) or "WATCHDOG=1" in said)
    task.cancel()


def test_without_a_manager_nothing_is_said(monkeypatch) -> None:
    """Outside of systemd, or where its socket is gone, saying something does nothing."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert supervisor.notify("READY=1") is None
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/socket")
    assert supervisor.notify("READY=1") is None


def test_an_abstract_socket_is_understood(monkeypatch) -> None:
    """A name that begins with @ is one of the abstract namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0tasktrail-test-notify")
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", "@tasktrail-test-notify")
        supervisor.notify("STOPPING=1")
        assert heard(listener) == ["STOPPING=1"]
