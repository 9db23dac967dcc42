"""`tasktrail top` on a terminal: it follows a real daemon, and an interrupt is its usual end."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable

from tests.brokers.process import wait_until
from tests.integration.live import ROOT, Daemon, died, ndjson

PATIENCE = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A terminal of its own with the command on it; what was drawn so far, without its escapes."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        call = [sys.executable, "-m", "collector", "top", *arguments]
        environment = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen(
            call,
            cwd=ROOT,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - whoever runs us may ignore it, and nothing else runs yet
        )
        os.close(slave)
        self.raw = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while piece := os.read(self.master, 65_536):
                self.raw += piece.decode(errors="replace")
        except OSError:  # the other side is closed
            return

    def shows(self, pattern: str) -> bool:
        """Whether it was ever drawn."""
        return re.search(pattern, _ESCAPES.sub("", self.raw)) is not None

    def wait(self, pattern: str) -> None:
        """Until it is drawn."""
        wait_until(lambda: self.shows(pattern), PATIENCE)
        assert self.shows(pattern), self.raw[-3000:]


def test_it_is_redrawn_as_the_daemon_counts_and_ends_when_it_is_told_to(run: Callable[..., Daemon]) -> None:
    """What comes later is drawn later; when the daemon is gone that is said; Ctrl-C gives the screen back, and 0."""
    daemon = run("--rules", "shipped")
    screen = Screen("--url", daemon.base, "--every", "200ms")
    try:
        screen.wait("no tasks yet")
        daemon.ask("/v1/events", ndjson(died("a", task="bill", queue="pay")))
        screen.wait(r"bill +│ pay +│")
        screen.wait(r"DeadLetter: .*bill")
        daemon.end()
        screen.wait("not asked since: .*no daemon answers there")
        assert "\x1b[?1049h" in screen.raw
        assert "\x1b[?1049l" not in screen.raw
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(PATIENCE) == 0
        wait_until(lambda: "\x1b[?1049l" in screen.raw, PATIENCE)
        assert "\x1b[?1049l" in screen.raw
    finally:
        screen.process.kill()
        screen.process.wait()
        os.close(screen.master)
