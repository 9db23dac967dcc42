"""Rule files on disk: names to files, files to groups, or every problem of all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from collector.alerting.rulefile import GroupSpec
from collector.alerting.rulefile import load as load_text
from collector.config.shipped import shipped
from collector.model.errors import Problem, ProblemsError
from collector.model.files import read_text, unread
from collector.promql import compile_expr

OTHERS = frozenset(("routes", "tasks"))
"""How the files are called that stand beside rules in a folder, and are none."""


def load(rules: Sequence[str], rewrite: Callable[[str], str] = str) -> list[GroupSpec]:
    """The groups of all that is named; `rewrite` goes over each text first. Raises ProblemsError."""
    return read(files(rules), rewrite)


def files(rules: Sequence[str]) -> list[Path]:
    """The files behind `rules:`; `shipped` is the package's own. Raises ProblemsError for what is not there."""
    found: list[Path] = []
    problems: list[Problem] = []
    for name in rules:
        path = shipped() if name == "shipped" else Path(name)
        pages = (
            sorted(page for page in path.glob("*.y*ml") if not page.stem.endswith("_test") and page.stem not in OTHERS)
            if path.is_dir()
            else [path]
        )
        if not path.exists() or not pages:
            problems.append(
                Problem(name, 1, 1, "no rule file is here: give the path of one, a folder of them, or `shipped`")
            )
        found += [page for page in pages if page not in found]
    if problems:
        raise ProblemsError(problems)
    return found


def read(paths: Iterable[Path], rewrite: Callable[[str], str] = str) -> list[GroupSpec]:
    """The groups of these files, in their order. Raises ProblemsError with every problem of every file."""
    specs: list[GroupSpec] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            specs += load_text(str(path), rewrite(read_text(path)), compile_expr).groups
        except ProblemsError as error:
            problems += error.problems
        except (OSError, UnicodeDecodeError) as error:
            problems.append(unread(path, error))
    if problems:
        raise ProblemsError(problems)
    return specs
