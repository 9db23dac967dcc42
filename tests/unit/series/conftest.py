"""The store that most tests of series start from."""

from __future__ import annotations

import pytest
from series_fleet import Fleet


@pytest.fixture
def fleet():
    """A store that keeps 5 minutes."""
    return Fleet()
