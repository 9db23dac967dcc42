"""Prometheus' own command line tool, to ask the query API as its users do; built once, where Go is there.

`TASKTRAIL_TEST_PROMTOOL` names one that is there already; else one of 3.x on the PATH, else it is built through the Go
module proxy into the cache of test downloads, which takes some minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.brokers.install import alone, apt, cache
from tests.brokers.process import Unavailable

VERSION = "v0.314.0"
"""Of the Go module; Prometheus 3.14."""
PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
LONGEST_BUILD = 1800
_TOOLS = f'//go:build tools\npackage tools\nimport _ "{PACKAGE}"\n'


def promtool() -> str:
    """The path of a promtool 3. Raises Unavailable with the reason."""
    if named := os.environ.get("TASKTRAIL_TEST_PROMTOOL"):
        return named
    if (found := shutil.which("promtool")) and "version 3" in _run([found, "--version"], 10).stdout:
        return found
    with alone("promtool"):
        built = cache() / f"promtool-{VERSION}"
        if not built.exists():
            _build(built)
        return str(built)


def any_promtool() -> tuple[str, int]:
    """The path of a promtool and its major version: 3 where that can be had, else Debian's 2. Raises Unavailable."""
    try:
        path = promtool()
    except Unavailable as why:
        try:
            path = apt("promtool", "prometheus")
        except Unavailable as neither:
            raise Unavailable(f"{why}; {neither}") from neither
    told = re.search(r"version (\d+)", _run([path, "--version"], 10).stdout)
    return path, int(told[1]) if told else 3  # one that was built from the module does not know its version


def _build(path: Path) -> None:
    if not shutil.which("go"):
        raise Unavailable("promtool 3 is not on the PATH, and building it needs Go")
    with tempfile.TemporaryDirectory(prefix="promtool-") as folder:
        Path(folder, "go.mod").write_text("module tools\n", encoding="utf-8")
        Path(folder, "tools.go").write_text(_TOOLS, encoding="utf-8")
        environment = {**os.environ, "GOPATH": f"{folder}/go", "GOFLAGS": "-mod=mod -modcacherw", "GOWORK": "off"}
        for command in (["get", f"{PACKAGE}@{VERSION}"], ["build", "-o", str(path), PACKAGE]):
            done = _run(["go", *command], LONGEST_BUILD, folder, environment)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no word"])[-1]
                raise Unavailable(f"promtool could not be built: go {command[0]}: {last}")


def _run(
    command: list[str], seconds: float, folder: str | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, cwd=folder, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
