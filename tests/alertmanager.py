"""Alertmanager itself and its command line tool, to hold our routing against theirs.

`TASKTRAIL_TEST_AMTOOL` and `TASKTRAIL_TEST_ALERTMANAGER` name programs that are there already; else those of the Debian
package `prometheus-alertmanager` are taken, which is installed where this is root's; else they are built through the Go
module proxy into the cache of test downloads, which takes some minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.brokers.install import alone, apt, cache
from tests.brokers.process import Unavailable

VERSION = "v0.28.1"
"""Of the Go module: the last whose pages are part of its source, so that a plain build is whole."""
MODULE = "github.com/prometheus/alertmanager/cmd"
LONGEST_BUILD = 1800
PACKAGE = "prometheus-alertmanager"
# program → the variable that names it, and what Debian calls it
PROGRAMS = {
    "amtool": ("TASKTRAIL_TEST_AMTOOL", "amtool"),
    "alertmanager": ("TASKTRAIL_TEST_ALERTMANAGER", "prometheus-alertmanager"),
}


def program(name: str) -> str:
    """The path of `amtool` or `alertmanager`; without it the test is skipped, or fails where CI=true."""
    try:
        return _found(name)
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run against a real {name}: {why}", pytrace=False)
        pytest.skip(str(why))


def version(path: str) -> tuple[int, int]:
    """Major and minor; (99, 0) where a build does not say, as with one from the Go proxy."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r"version (\d+)\.(\d+)", done.stdout + done.stderr)
    return (int(found[1]), int(found[2])) if found else (99, 0)


def _found(name: str) -> str:
    variable, debian = PROGRAMS[name]
    if named := os.environ.get(variable):
        return named
    for each in (name, debian):
        if found := shutil.which(each):
            return found
    try:
        return apt(debian, PACKAGE)
    except Unavailable:
        if not shutil.which("go"):
            raise
    with alone("alertmanager"):
        built = cache() / f"{name}-{VERSION}"
        if not built.exists():
            _build(name, built)
    return str(built)


def _build(name: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="alertmanager-") as folder:
        Path(folder, "go.mod").write_text("module tools\n", encoding="utf-8")
        source = f'//go:build tools\npackage tools\nimport _ "{MODULE}/{name}"\n'
        Path(folder, "tools.go").write_text(source, encoding="utf-8")
        environment = {**os.environ, "GOPATH": f"{folder}/go", "GOFLAGS": "-mod=mod -modcacherw", "GOWORK": "off"}
        for command in (["get", f"{MODULE}/{name}@{VERSION}"], ["build", "-o", str(path), f"{MODULE}/{name}"]):
            try:
                done = subprocess.run(
                    ["go", *command], capture_output=True, text=True, timeout=LONGEST_BUILD, check=False, cwd=folder,
                    env=environment,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unavailable(f"{name} could not be built: {error}") from error
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no word"])[-1]
                raise Unavailable(f"{name} could not be built: go {command[0]}: {last}")
