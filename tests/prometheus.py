"""A real Prometheus, whose notifier sends to our `/api/v2/alerts`.

`TASKTRAIL_TEST_PROMETHEUS` names a program; else that of the Debian package is taken, which is installed where this is
root's.
"""

from __future__ import annotations

import os
import shutil

import pytest

from tests.brokers.install import apt
from tests.brokers.process import Unavailable


def program() -> str:
    """The path of `prometheus`; without it the test is skipped, or fails where CI=true."""
    try:
        found = os.environ.get("TASKTRAIL_TEST_PROMETHEUS") or shutil.which("prometheus")
        return found or apt("prometheus", "prometheus")
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run against a real Prometheus: {why}", pytrace=False)
        pytest.skip(str(why))
