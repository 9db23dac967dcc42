"""Packages of Node that tests run against, installed once per machine into a folder of ours."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.brokers.install import alone, cache
from tests.brokers.process import Unavailable

BULLMQ = (
    "bullmq@6.7.0",
    "ioredis@6.0.0",
    "bullmq-otel@2.0.1",
    "@opentelemetry/api@1.9.1",
    "@opentelemetry/sdk-trace-node@2.12.1",
)


def modules(name: str, packages: Sequence[str]) -> Path:
    """A folder whose `node_modules` has the packages. Raises Unavailable where Node or the packages cannot be had."""
    home = cache() / f"node-{name}"
    with alone(f"node-{name}"):
        if home.is_dir():
            return home
        if not shutil.which("node") or not shutil.which("npm"):
            raise Unavailable("no Node with npm on PATH")
        folder = Path(tempfile.mkdtemp(dir=cache()))
        (folder / "package.json").write_text('{"private": true}')
        call = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
        done = subprocess.run(
            call, cwd=folder, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            raise Unavailable(f"npm could not fetch {name}: {done.stderr.strip()[-400:]}")
        folder.rename(home)
    return home
