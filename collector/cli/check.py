"""`tasktrail check`: every problem of every file at once, each with its place and what to do."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from collector.alerting.findings import findings
from collector.alerting.rulefile import load as load_rules
from collector.model.errors import Problem, ProblemsError
from collector.plugs import shipped
from collector.promql import compile_expr
from collector.settings import load as load_settings

Check = Callable[[str, str], list[Problem]]


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `check`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders of YAML files, or `shipped`")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where nothing was found, 1 otherwise, 2 where a path is not there."""
    files = [file for path in arguments.paths for file in _files(path)]
    problems: list[Problem] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(str(file), 1, 1, f"cannot be read: {error}"))
            continue
        try:
            problems += _check_of(text)(str(file), text)
        except ProblemsError as error:
            problems += error.problems
    for problem in sorted(problems):
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems in {len({problem.file for problem in problems})} files", file=sys.stderr)
        return 1
    print(f"{len(files)} files, no problem")
    return 0


def _files(path: str) -> list[Path]:
    """The files behind an argument. Raises ProblemsError."""
    root = shipped() if path == "shipped" else Path(path)
    found = sorted(root.rglob("*.y*ml")) if root.is_dir() else [root]
    if not root.exists() or not found:
        raise ProblemsError([Problem(path, 1, 1, "there is no file to check here")])
    return found


def _rules(path: str, text: str) -> list[Problem]:
    return findings(load_rules(path, text, compile_expr))


def _settings(path: str, text: str) -> list[Problem]:
    load_settings(path, text, os.environ)
    return []


def _unread(kind: str) -> Check:
    def check(path: str, _text: str) -> list[Problem]:
        return [Problem(path, 1, 1, f"{kind} are not read by this version: leave the file out of this check")]

    return check


# a key at the top of a file → what checks a file that has it; the first key decides, without any it is configuration
KINDS: tuple[tuple[str, Check], ...] = (
    ("groups", _rules),
    ("rule_files", _unread("unit tests of rules")),
    ("tests", _unread("unit tests of rules")),
    ("route", _unread("route files")),
    ("receivers", _unread("route files")),
    ("defaults", _unread("task contracts")),
)


def _check_of(text: str) -> Check:
    """The check for a file, by the keys at its top. What is no YAML is checked as a rule file, which says where."""
    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return _rules
    keys = {key.value for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()
    return next((check for key, check in KINDS if key in keys), _settings)
