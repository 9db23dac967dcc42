"""`tasktrail check`: every problem of every file at once, each with its place and what to do."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path

import yaml

from collector import routefiles, targets
from collector.alerting.checks import findings
from collector.alerting.rulefile import RuleFile
from collector.alerting.rulefile import load as load_rules
from collector.alerting.ruletest import TestFile, unknown_alerts
from collector.alerting.ruletest import load as load_tests
from collector.cli.ground import ground
from collector.model.errors import Problem, ProblemsError
from collector.plugs import shipped
from collector.promql import compile_expr
from collector.routing.routefile import Routing
from collector.routing.routefile import load as load_routes
from collector.routing.unreachable import unreachable, unused
from collector.ruletesting import rules_of
from collector.settings import Settings
from collector.settings import load as load_settings

Checked = RuleFile | Settings | TestFile | Routing
Read = Callable[[str, str], Checked]
"""Path and text to what a file says. Raises ProblemsError."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `check`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders of YAML files, or `shipped`")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where nothing was found, 1 otherwise, 2 where a path is not there."""
    files = list({file.resolve(): file for path in arguments.paths for file in _files(path)}.values())
    named = {Path(path) for path in arguments.paths}
    problems: list[Problem] = []
    whole: list[Checked] = []
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
                whole.append(read(str(file), text))
            except ProblemsError as error:
                problems += error.problems
    problems += _findings(whole)
    for line in [*passed_over, *_remarks(whole)]:
        print(line)
    problems = sorted(dict.fromkeys(problems))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems in {len({problem.file for problem in problems})} files", file=sys.stderr)
        return 1
    print(f"{len(files) - len(passed_over)} files, no problem")
    return 0


def _findings(whole: list[Checked]) -> Iterator[Problem]:
    """What is found in files that have no problem by themselves."""
    for routing in (one for one in whole if isinstance(one, Routing)):
        yield from (*routing.undone, *targets.undone(routing), *unreachable(routing))
    rule_files = [one for one in whole if isinstance(one, RuleFile)]
    labels = [label for one in whole if isinstance(one, Settings) for label in one.labels]
    yield from findings(rule_files, ground(rule_files, labels))


def _remarks(whole: list[Checked]) -> list[str]:
    """What is no problem, and good to know: what a route file defines and does not use."""
    found = [problem for one in whole if isinstance(one, Routing) for problem in unused(one)]
    return [f"{problem} (no problem)" for problem in sorted(found)]


def _files(path: str) -> list[Path]:
    """The files behind an argument. Raises ProblemsError."""
    root = shipped() if path == "shipped" else Path(path)
    found = sorted(root.rglob("*.y*ml")) if root.is_dir() else [root]
    if not root.exists() or not found:
        raise ProblemsError([Problem(path, 1, 1, "there is no file to check here")])
    return found


def _rules(path: str, text: str) -> RuleFile:
    return load_rules(path, text, compile_expr)


def _tests(path: str, text: str) -> TestFile:
    """Raises ProblemsError for its rule files, too: where they are checked themselves, they say the same."""
    file = load_tests(path, text, compile_expr)
    specs, missing = rules_of(file)
    routefiles.of_tests(file)
    if problems := missing + unknown_alerts(file, specs):
        raise ProblemsError(problems)
    return file


def _settings(path: str, text: str) -> Settings:
    return load_settings(path, text, os.environ)


# a key at the top of a file → what reads a file that has it; the first key decides, without any it is configuration
KINDS: tuple[tuple[str, str, Read | None], ...] = (
    ("groups", "rule files", _rules),
    ("rule_files", "unit tests of rules", _tests),
    ("tests", "unit tests of rules", _tests),
    ("evaluation_interval", "unit tests of rules", _tests),
    ("route", "route files", load_routes),
    ("receivers", "route files", load_routes),
    ("inhibit_rules", "route files", load_routes),
    ("time_intervals", "route files", load_routes),
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
