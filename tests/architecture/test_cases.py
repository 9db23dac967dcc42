"""Each fault that people met elsewhere has a test that would notice it here."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases import CASES

TESTS = Path(__file__).parents[1]
MARKED = re.compile(r"^@pytest\.mark\.case\((.+)\)$", re.MULTILINE)


def test_each_case_has_a_test_and_each_test_a_known_case():
    """What the tests bear is what the table has."""
    files = TESTS.rglob("test_*.py")
    marks = [mark for file in files for mark in MARKED.findall(file.read_text(encoding="utf-8"))]
    assert {name for mark in marks for name in re.findall(r'"(.+?)"', mark)} == set(CASES)
