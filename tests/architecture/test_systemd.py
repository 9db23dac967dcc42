"""The unit file as systemd itself judges it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "systemd" / "tasktrail.service"
MOST = 2.0
"""Of 10: what a service that talks to the network, and may do nothing else, can reach is 1."""


@pytest.fixture
def analyze() -> str:
    """Systemd's own tool, new enough to judge a file that is not installed."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    if int(version.partition(".")[0].partition("~")[0]) < 252:
        pytest.skip(f"systemd-analyze {version} cannot judge a file")
    return tool


def test_the_service_is_exposed_to_little(analyze: str) -> None:
    """The sandbox is closed but for what a monitor needs: sockets, its state, and nothing else."""
    call = [analyze, "security", "--offline=true", "--json=short", f"--threshold={MOST * 10:.0f}", str(UNIT)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    open_ = {row["json_field"] for row in json.loads(done.stdout) if row["exposure"] not in (None, "0.0")}
    assert open_, "it judged nothing"
    assert not open_ & {"CapabilityBoundingSet_CAP_SYS_ADMIN", "ProtectSystem", "ProtectHome", "NoNewPrivileges"}
