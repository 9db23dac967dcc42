"""What is shipped around the code: the wheel, the image, the unit, and the scripts that build them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "systemd" / "tasktrail.service"
DRAIN_SECONDS = 10


def unit() -> dict[str, list[str]]:
    """The unit's settings; a setting may be given several times."""
    settings: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


@pytest.mark.slow
def test_the_wheel_holds_the_code_and_what_users_may_name(tmp_path):
    """`--rules shipped` and the runbooks work from an installed wheel, without the repository."""
    call = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(call, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("tasktrail-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in [*(ROOT / "rules").glob("*.yaml"), *(ROOT / "rules" / "runbooks").glob("*.md")]:
        assert f"collector/shipped/{path.relative_to(ROOT / 'rules')}" in names
    for path in (ROOT / "collector").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in names
    assert not [name for name in names if name.startswith(("tests/", "rules/"))]


@pytest.mark.slow
def test_without_a_compiler_it_is_installed_as_python(tmp_path):
    """The core is a matter of speed alone: nobody needs a compiler to install a monitor."""
    call = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(
        call, cwd=ROOT, check=True, capture_output=True, text=True, env={**os.environ, "CC": "/nonexistent/cc"}
    )
    (made,) = tmp_path.iterdir()
    assert made.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(made).namelist() if name.endswith(".so")]
    assert "is not compiled" in done.stdout + done.stderr


def test_what_the_image_copies_is_given_to_its_builder():
    """A file that `.dockerignore` leaves out is not there, whatever the Dockerfile says."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    copies = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert {f"!{name}" for line in copies for name in line.split()} <= set(ignored)


def test_the_unit_leaves_time_to_drain():
    """The manager's patience is longer than the daemon's own deadline, and the watchdog is on."""
    settings = unit()
    assert int(settings["TimeoutStopSec"][0]) > DRAIN_SECONDS
    assert settings["Type"] == ["notify"]
    assert int(settings["WatchdogSec"][0]) > 0
    assert settings["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert settings["ExecStart"][0].split()[1] == "run"


def test_the_unit_gives_state_and_socket_a_place():
    """State and socket are where the program looks for them without being told."""
    assert unit()["StateDirectory"] == unit()["RuntimeDirectory"] == ["tasktrail"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path):
    """No unknown setting, no bad value, and an exposure that systemd itself calls OK."""
    copy = tmp_path / "tasktrail.service"
    copy.write_text(UNIT.read_text().replace("/opt/tasktrail/bin/tasktrail", "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert "tasktrail.service" not in verified.stdout + verified.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(copy)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert rated.returncode == 0, rated.stdout + rated.stderr


def test_the_image_runs_the_daemon_itself_as_nobody_in_particular():
    """Process 1 is the daemon and not a shell; it is not root; its state outlives the container."""
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    lines = [line.split(maxsplit=1) for line in last.splitlines() if line and not line.startswith((" ", "#"))]
    settings = {words[0]: words[-1] for words in lines}
    assert settings["ENTRYPOINT"] == '["tasktrail"]'
    assert settings["CMD"] == '["run"]'
    assert settings["USER"] not in ("root", "0")
    assert settings["VOLUME"] == "/var/lib/tasktrail"
    assert "/-/healthy" in last.partition("HEALTHCHECK")[2]


def test_scripts_name_no_package_index():
    """Where packages come from is the business of the machine, not of the repository."""
    for name in ("Makefile", ".ci/run", "Dockerfile", "pyproject.toml"):
        text = (ROOT / name).read_text()
        assert "://" not in text.replace("http://127.0.0.1", ""), name
