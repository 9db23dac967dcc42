"""The audit of dependencies fails for known faults alone."""

from __future__ import annotations

import pytest

from tests.audit import verdict

SOUND = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "Dependency not found: b (1)"}
FAULTY = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3", "4"]}]}


@pytest.mark.parametrize(
    ("packages", "why", "lines", "is_faulty"),
    [
        ([], "no answer within 60 s", ["dependencies were not audited: no answer within 60 s"], False),
        ([UNKNOWN], "", ["dependencies were not audited: Dependency not found"], False),
        ([SOUND, UNKNOWN], "", ["1 of 2 dependencies audited, no known fault"], False),
        ([SOUND, FAULTY], "", ["c 2: PYSEC-1, mended in 3, 4"], True),
    ],
)
def test_what_it_says(packages, why, lines, is_faulty):
    """A package that the service does not know, or a service that does not answer, is said and is no failure."""
    assert verdict(packages, why) == (lines, is_faulty)
