"""What both redrives are tried with: a daemon that has seen many die, and the command, killed on its way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.live import ROOT, Daemon


class Redrive:
    """One call of the command after the other."""

    def __init__(self, daemon: Daemon, target: str, folder: Path) -> None:
        self.daemon = daemon
        self.target = target
        self.folder = folder

    def call(self, *more: str) -> list[str]:
        """The command line."""
        words = ["dead-letters", "redrive", "--url", self.daemon.base, "--target", self.target, "--reason", "repaired"]
        return [sys.executable, "-m", "collector", *words, "--actor", "ann", "--rate", "0", "--json", *more]

    def run(self, *more: str, code: int = 0) -> dict[str, Any]:
        """What it says at its end."""
        done = subprocess.run(self.call(*more), cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def counts(self) -> tuple[int, int]:
        """How many records there are, and of how many of them something is owed."""
        causes = self.daemon.json("/api/dead-letters?by=fingerprint").get("causes", [])
        return sum(one["total"] for one in causes), sum(one["open"] for one in causes)

    def killed(self, *more: str) -> bool:
        """Start it, and kill it as soon as anything is sent; whether it was still on its way."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        before = self.counts()[1]
        process = subprocess.Popen(self.call(*more), cwd=self.folder, env=environment, stdout=subprocess.DEVNULL)
        try:
            moved = lambda: self.counts()[1] < before or process.poll() is not None  # noqa: E731
            self.daemon.wait(moved, 60, "nothing is sent")
            return process.poll() is None
        finally:
            process.kill()
            process.wait()
