"""Broken route files, each named for its mistake: what is said, and where, as it stands beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.model.errors import ProblemsError
from collector.routing.routefile import load

FILES = sorted((Path(__file__).parent / "broken").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_that_is_wrong_is_said_with_its_place(path: Path) -> None:
    """Every problem of a file is found at once, at its line and column, with what to do; and no others."""
    expected = path.with_suffix(".expected").read_text(encoding="utf-8").splitlines()
    with pytest.raises(ProblemsError) as refused:
        load(path.name, path.read_text(encoding="utf-8"))
    assert [str(problem) for problem in refused.value.problems] == expected
    assert "hunter2" not in str(refused.value)


def test_there_are_enough_of_them() -> None:
    """The folder is not empty by accident."""
    assert len(FILES) >= 15
