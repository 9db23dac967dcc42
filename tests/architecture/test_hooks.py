"""Hooks as files: short, alone, and readable by the Python of old workers."""

from __future__ import annotations

import ast
import sys

import pytest

from tests.hooks.sender import FILES, HOOKS, sender_of

FRAMEWORKS = {"celery", "rq", "dramatiq", "arq", "taskiq", "saq", "huey", "streaq"}


def test_there_is_a_hook_per_framework():
    """Each framework that does not say enough by itself has its file, and hand-written consumers have one."""
    assert {path.stem.removeprefix("tasktrail_") for path in FILES} == {*FRAMEWORKS, "emit"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_hook_is_short_and_alone(path):
    """A hook has under 150 lines, and imports the standard library and its own framework only."""
    text = path.read_text()
    assert len(text.splitlines()) < 150
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names <= {path.stem.removeprefix("tasktrail_")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_sender_is_the_same_everywhere(path):
    """The lines that send are the same text in all hooks."""
    assert sender_of(path.read_text()) == sender_of((HOOKS / "tasktrail_emit.py").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_hook_is_written_for_old_workers(path):
    """The syntax is that of Python 3.8, and the file says so."""
    text = path.read_text()
    ast.parse(text, feature_version=(3, 8))
    assert "Python 3.8 or later" in text


def test_nothing_of_the_rest_imports_a_hook():
    """Hooks are for workers: the daemon would start their threads."""
    rest = (path for path in HOOKS.parent.rglob("*.py") if HOOKS not in path.parents)
    assert not [path.name for path in rest if "collector.hooks" in path.read_text()]
