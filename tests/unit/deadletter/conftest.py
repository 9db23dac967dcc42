"""A ledger for each test."""

from __future__ import annotations

import pytest

from tests.unit.deadletter.deaths import Kept


@pytest.fixture
def ledger():
    """One with the usual bounds."""
    return Kept()
