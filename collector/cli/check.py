"""`tasktrail check`: every problem of every file at once, each with its place and what to do."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

import yaml

from collector.alerting.checks import findings
from collector.alerting.rulefile import RuleFile, load_parts
from collector.alerting.ruletest import TestFile, unknown_alerts
from collector.alerting.ruletest import load as load_tests
from collector.cli.ground import ground
from collector.model.errors import Problem, ProblemsError
from collector.plugs import shipped
from collector.promql import compile_expr
from collector.ruletesting import rules_of
from collector.settings import Settings
from collector.settings import load as load_settings

Checked: TypeAlias = RuleFile | Settings | TestFile
Read: TypeAlias = Callable[[str, str], tuple[Checked, list[Problem]]]
"""Path and text to what of a file is right, and what is not. Raises ProblemsError where nothing is of use then."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `check`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders of YAML files, or `shipped`")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where nothing was found, 1 otherwise, 2 where a path is not there."""
    files = list({file.resolve(): file for path in arguments.paths for file in _files(path)}.values())
    named = {Path(path) for path in arguments.paths}
    problems: list[Problem] = []
    checked: list[Checked] = []
    passed_over: list[str] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(str(file), 1, 1, f"cannot be read: {error}"))
            continue
        kind, read = _kind_of(text)
        if read is None and file in named:
            problems.append(Problem(str(file), 1, 1, f"{kind} are not read by this version: leave the file out"))
        elif read is None:
            passed_over.append(f"{file}: passed over, {kind} are not read by this version")
        else:
            try:
                right, wrong = read(str(file), text)
            except ProblemsError as error:
                problems += error.problems
            else:
                checked.append(right)
                problems += wrong
    problems += _findings(checked)
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


def _findings(checked: list[Checked]) -> Iterator[Problem]:
    """What is found in rules that have no problem by themselves, also where others of their file have."""
    rule_files = [one for one in checked if isinstance(one, RuleFile)]
    labels = [label for one in checked if isinstance(one, Settings) for label in one.labels]
    return findings(rule_files, ground(rule_files, labels))


def _files(path: str) -> list[Path]:
    """The files behind an argument. Raises ProblemsError."""
    root = shipped() if path == "shipped" else Path(path)
    found = sorted(root.rglob("*.y*ml")) if root.is_dir() else [root]
    if not root.exists() or not found:
        raise ProblemsError([Problem(path, 1, 1, "there is no file to check here")])
    return found


def _rules(path: str, text: str) -> tuple[RuleFile, list[Problem]]:
    return load_parts(path, text, compile_expr)


def _tests(path: str, text: str) -> tuple[TestFile, list[Problem]]:
    """Raises ProblemsError for its rule files, too: where they are checked themselves, they say the same."""
    file = load_tests(path, text, compile_expr)
    specs, missing = rules_of(file)
    return file, missing + unknown_alerts(file, specs)


def _settings(path: str, text: str) -> tuple[Settings, list[Problem]]:
    return load_settings(path, text, os.environ), []


# a key at the top of a file → what reads a file that has it; the first key decides, without any it is configuration
KINDS: tuple[tuple[str, str, Read | None], ...] = (
    ("groups", "rule files", _rules),
    ("rule_files", "unit tests of rules", _tests),
    ("tests", "unit tests of rules", _tests),
    ("evaluation_interval", "unit tests of rules", _tests),
    ("route", "route files", None),
    ("receivers", "route files", None),
    ("defaults", "task contracts", None),
)


def _kind_of(text: str) -> tuple[str, Read | None]:
    """What a file is, and what reads it, by the keys at its top. What is no YAML goes to the reader that says where."""
    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return "rule files", _rules
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    keys = {key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode)}
    if keys.isdisjoint(Settings.__struct_fields__):
        # a key that is misspelt is still a sign of what was meant
        keys |= {near for key in keys for near in get_close_matches(key, [kind[0] for kind in KINDS], 1, 0.8)}
    return next(((kind, check) for key, kind, check in KINDS if key in keys), ("configuration", _settings))
