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
from collector.alerting.ruletest import load as load_tests
from collector.alerting.ruletest import unknown_alerts
from collector.model.errors import Problem, ProblemsError
from collector.plugs import shipped
from collector.promql import compile_expr
from collector.ruletesting import rules_of
from collector.settings import load as load_settings

Check = Callable[[str, str], list[Problem]]


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `check`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders of YAML files, or `shipped`")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where nothing was found, 1 otherwise, 2 where a path is not there."""
    files = list(dict.fromkeys(file for path in arguments.paths for file in _files(path)))
    named = {Path(path) for path in arguments.paths}
    problems: list[Problem] = []
    passed_over: list[str] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(str(file), 1, 1, f"cannot be read: {error}"))
            continue
        kind, check = _kind_of(text)
        if check is None and file in named:
            problems.append(Problem(str(file), 1, 1, f"{kind} are not read by this version: leave the file out"))
        elif check is None:
            passed_over.append(f"{file}: passed over, {kind} are not read by this version")
        else:
            problems += _found(check, str(file), text)
    for line in passed_over:
        print(line)
    problems = sorted(dict.fromkeys(problems))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems in {len({problem.file for problem in problems})} files", file=sys.stderr)
        return 1
    print(f"{len(files) - len(passed_over)} files, no problem")
    return 0


def _found(check: Check, file: str, text: str) -> list[Problem]:
    try:
        return check(file, text)
    except ProblemsError as error:
        return list(error.problems)


def _files(path: str) -> list[Path]:
    """The files behind an argument. Raises ProblemsError."""
    root = shipped() if path == "shipped" else Path(path)
    found = sorted(root.rglob("*.y*ml")) if root.is_dir() else [root]
    if not root.exists() or not found:
        raise ProblemsError([Problem(path, 1, 1, "there is no file to check here")])
    return found


def _rules(path: str, text: str) -> list[Problem]:
    return findings(load_rules(path, text, compile_expr))


def _tests(path: str, text: str) -> list[Problem]:
    file = load_tests(path, text, compile_expr)
    try:
        specs, missing = rules_of(file)
    except ProblemsError as error:  # the rule files say that themselves where they are checked, too
        return list(error.problems)
    return missing + unknown_alerts(file, specs)


def _settings(path: str, text: str) -> list[Problem]:
    load_settings(path, text, os.environ)
    return []


# a key at the top of a file → what checks a file that has it; the first key decides, without any it is configuration
KINDS: tuple[tuple[str, str, Check | None], ...] = (
    ("groups", "rule files", _rules),
    ("rule_files", "unit tests of rules", _tests),
    ("tests", "unit tests of rules", _tests),
    ("evaluation_interval", "unit tests of rules", _tests),
    ("route", "route files", None),
    ("receivers", "route files", None),
    ("defaults", "task contracts", None),
)


def _kind_of(text: str) -> tuple[str, Check | None]:
    """What a file is, and its check, by the keys at its top. What is no YAML goes to the check that says where."""
    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return "rule files", _rules
    keys = {key.value for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()
    return next(((kind, check) for key, kind, check in KINDS if key in keys), ("configuration", _settings))
