"""Rule files on disk: what a name stands for, and what is said of files that cannot be used."""

from __future__ import annotations

import pytest

from collector.config import rulefiles
from collector.model.errors import ProblemsError
from tests.unit.parts import FAILING


def test_rule_files_of_a_folder(tmp_path) -> None:
    """A folder stands for its rule files in order, without their tests; a file given twice is read once."""
    for name in ("b.yaml", "a.yml", "a_test.yaml", "notes.txt", "routes.yaml", "tasks.yaml"):
        (tmp_path / name).write_text(FAILING)
    assert [path.name for path in rulefiles.files([str(tmp_path), str(tmp_path / "b.yaml")])] == ["a.yml", "b.yaml"]
    assert rulefiles.files(["shipped"])


def test_rule_files_that_cannot_be_read(tmp_path) -> None:
    """What is missing, empty or no text is named, all at once."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProblemsError, match="no rule file") as refused:
        rulefiles.files([str(tmp_path / "empty"), "/nowhere"])
    assert len(refused.value.problems) == 2
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "wrong.yaml").write_text("groups: 7")
    with pytest.raises(ProblemsError, match="this is no text") as refused:
        rulefiles.load([str(tmp_path)])
    assert {problem.file for problem in refused.value.problems} == {
        str(tmp_path / "bad.yaml"),
        str(tmp_path / "wrong.yaml"),
    }
