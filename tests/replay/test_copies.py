"""The captures are copies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.replay.truth import CAPTURES

ORIGINALS = Path(os.environ.get("TASKTRAIL_TEST_CAPTURES", Path(__file__).parents[3] / "shared/wire/captures"))


@pytest.mark.skipif(not ORIGINALS.is_dir(), reason="the originals are not on this machine")
def test_the_captures_are_those_that_were_taken() -> None:
    """Every capture is byte for byte the one that was recorded, and none is missing."""
    originals = {path.name: path.read_bytes() for path in ORIGINALS.iterdir() if path.is_file()}
    assert {path.name: path.read_bytes() for path in CAPTURES.iterdir()} == originals
