"""celery-exporter's own alert rules and their promtool tests, unmodified, from a checkout outside this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.live import ROOT

CHECKOUT = "TASKTRAIL_TEST_CELERY_EXPORTER"


@pytest.fixture
def mixin() -> Path:
    """The folder of its rules; without a checkout a skip with the reason."""
    folder = os.environ.get(CHECKOUT)
    if not folder:
        pytest.skip(f"{CHECKOUT} names no checkout of celery-exporter")
    return Path(folder) / "celery-mixin"


@pytest.mark.parametrize("call", [("check", "prometheus_alerts.yaml"), ("test", "tests/tests.yaml")])
def test_its_rules_and_tests_hold(mixin: Path, call: tuple[str, str]) -> None:
    """They are understood, and give the verdicts that promtool gives."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "collector", *call]
    done = subprocess.run(command, cwd=mixin, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
