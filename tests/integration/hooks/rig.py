"""Real workers of real frameworks with a hook copied beside them, their truth, and what a daemon counted of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import brokers
from tests.brokers import install
from tests.brokers.process import Broker, wait_until
from tests.integration.live import Daemon

APPS = Path(__file__).parent / "apps"
HOOKS = Path(__file__).resolve().parents[3] / "collector" / "hooks"

# One environment per framework: what they ask of redis-py does not go together.
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "celery": ("celery[redis]==5.7.0",),
    "celery54": ("celery==5.4.0", "kombu==5.4.2", "redis==5.0.8", "packaging"),
    "rq3": ("rq==3.0.0",),
    "rq2": ("rq==2.12.0",),
    "dramatiq": ("dramatiq[redis]==2.2.1",),
    "taskiq": ("taskiq==0.13.0", "taskiq-redis==1.2.4"),
    "saq": ("saq[redis]==0.26.4", "typing-extensions"),
    "arq": ("arq==0.28.0",),
    "huey": ("huey==3.5.4", "redis"),
    "streaq": ("streaq==7.2.0",),
}
KINDS = {"published": "sent", "start": "started", "end": "succeeded"}


def environment(name: str) -> Path:
    """The folder `bin` of a framework's virtual environment, made once per machine. Unavailable where pip fails."""
    home = install.cache() / "venvs" / name
    wanted = " ".join(REQUIREMENTS[name])
    stamp = home / "installed"
    with install.alone(f"venv-{name}"):
        if not stamp.exists() or stamp.read_text() != wanted:
            calls = [[sys.executable, "-m", "venv", "--clear", str(home)], _pip(home, *REQUIREMENTS[name])]
            for call in calls:
                done = subprocess.run(call, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
                if done.returncode:
                    raise brokers.Unavailable(f"no environment for {name}: {(done.stdout + done.stderr)[-400:]}")
            stamp.write_text(wanted)
    return home / "bin"


def _pip(home: Path, *packages: str) -> list[str]:
    return [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]


@dataclass
class Site:
    """One application: its folder, its broker, its workers."""

    name: str
    folder: Path
    redis: Broker
    url: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)
    """Environment of all its processes besides."""

    def __post_init__(self) -> None:
        """Copy the application and, alone, the hook."""
        self.app = self.name.rstrip("0123456789")
        self.bin = environment(self.name)
        for path in (APPS / "truth.py", APPS / f"app_{self.app}.py", HOOKS / f"tasktrail_{self.app}.py"):
            shutil.copy(path, self.folder)

    def run(self, code: str, *, tasks: int = 0, seconds: float = 600.0) -> str:
        """Python of the application's environment, in its folder; its output."""
        done = subprocess.run(
            [str(self.bin / "python"), "-c", code],
            cwd=self.folder, env=self._environment(tasks), capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def start(self) -> None:
        """Start the workers, each with a process group of its own."""
        commands = json.loads(self.run(f"import json, app_{self.app} as app; print(json.dumps(app.WORKERS))"))
        for command in commands:
            with (self.folder / "log").open("ab") as log:
                self.workers.append(
                    subprocess.Popen(
                        [str(self.bin / command[0]), *command[1:]],
                        cwd=self.folder,
                        env=self._environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def publish(self, tasks: int) -> None:
        """Publish so many tasks from a process of its own, which ends afterwards."""
        self.run(f"import app_{self.app} as app; app.produce()", tasks=tasks)

    def truth(self) -> Counter[tuple[str, str]]:
        """How often each (task, kind) happened, as the tasks themselves wrote it down.

        A framework may run an attempt twice: that is a redelivery, and what then succeeds again a duplicate success.
        """
        counts: Counter[tuple[str, str]] = Counter()
        seen = set()
        for line in self.lines():
            kind = KINDS.get(line["what"]) or ("retried" if line["retry"] else "failed")
            key = (line["id"], kind, line.get("attempt"))
            if key in seen and kind == "started":
                counts[line["name"], "redelivered"] += 1
            elif key in seen and kind == "succeeded":
                kind = "duplicate_success"
            seen.add(key)
            counts[line["name"], kind] += 1
        return counts

    def lines(self) -> list[dict[str, Any]]:
        """The truth, line by line."""
        path = self.folder / "truth"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def finished(self) -> int:
        """How many tasks have ended for good."""
        return len({line["id"] for line in self.lines() if line["what"] == "end" or line.get("retry") is False})

    def wait_finished(self, tasks: int, seconds: float) -> None:
        """Wait until so many have ended; the workers' log where they have not."""
        in_time = wait_until(lambda: self.finished() >= tasks, seconds)
        assert in_time, f"{self.finished()} of {tasks} have ended:\n{self.log[-3000:]}"

    @property
    def log(self) -> str:
        """What the workers said."""
        return (self.folder / "log").read_text(errors="replace")

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 10.0) -> None:
        """End the workers, politely first."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(number)
        for worker in self.workers:
            try:
                worker.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        self.workers.clear()

    def _environment(self, tasks: int = 0) -> dict[str, str]:
        path = f"{self.bin}{os.pathsep}{os.environ.get('PATH', '')}"
        return {
            **os.environ, "PATH": path, "PYTHONPATH": str(self.folder), "PYTHONUNBUFFERED": "1", "C_FORCE_ROOT": "1",
            "APP_REDIS": self.redis.address, "APP_TASKS": str(tasks), "APP_TRUTH": str(self.folder / "truth"),
            "TASKTRAIL_URL": self.url, **self.more,
        }  # fmt: skip


def counted(daemon: Daemon) -> Counter[tuple[str, str]]:
    """How often the daemon counted each (task, kind); tasks without the name of the module they are in."""
    counts: Counter[tuple[str, str]] = Counter()
    for name, samples in daemon.metrics().items():
        if name.startswith("task_") and name.endswith("_total"):
            for labels, value in samples:
                if value:
                    counts[labels["task"].rpartition(".")[2], name[5:-6]] += int(value)
    return counts
