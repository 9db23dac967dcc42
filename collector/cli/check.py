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
from collector.cli import named
from collector.cli.explain import explained
from collector.cli.ground import ground
from collector.cli.refused import refused
from collector.config import routefiles
from collector.config.settings import Settings
from collector.config.settings import load_parts as load_settings
from collector.config.shipped import shipped
from collector.config.taskfile import load as load_contracts
from collector.model.contract import Contracts
from collector.model.errors import Problem, ProblemsError
from collector.model.files import read_text, unread
from collector.model.shown import counted
from collector.promql import compile_expr
from collector.routing.routefile import Routing
from collector.routing.routefile import load_parts as load_routes
from collector.routing.unreachable import misspelt, unreachable, unused
from collector.ruletesting import rules_of
from collector.series.celery import UNMEASURED
from collector.wiring import targets

Whole: TypeAlias = RuleFile | Settings | TestFile | Contracts | Routing
"""What a file says."""
Read: TypeAlias = Callable[[str, str], tuple[Whole, list[Problem]]]
"""Path and text to what of a file is right, and what is not. Raises ProblemsError where nothing is of use then."""
GIVEN = ("alertname", "severity", "owner", "team", "semantics")
"""Labels that alerts have from their rule, and from contracts."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `check`."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders of YAML files, or `shipped`")
    parser.add_argument(
        "--explain", metavar="SAMPLE", help="a file of messages, one a line: what each `mapping` makes of them"
    )


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where nothing was found, 1 otherwise, 2 where a path is not there."""
    files = list({file.resolve(): file for path in arguments.paths for file in _files(path)}.values())
    problems: list[Problem] = []
    whole: list[Whole] = []
    for file in files:
        try:
            text = read_text(file)
            right, wrong = _reader_of(text)(str(file), text)
        except (OSError, UnicodeDecodeError) as error:
            problems.append(unread(file, error))
        except ProblemsError as error:
            problems += error.problems
        else:
            whole.append(right)
            problems += wrong
    whole += list(_named(whole))
    known = {(problem.file, problem.line) for problem in problems}
    problems += (one for one in _findings(whole) if (one.file, one.line) not in known)  # one word a line is enough
    problems = sorted(dict.fromkeys(problems))
    for line in _remarks(whole, problems):
        print(line)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        places = len({problem.file for problem in problems})
        print(f"{counted(len(problems), 'problem')} in {counted(places, 'file')}", file=sys.stderr)
        return 1
    if arguments.explain:
        return explained(arguments.explain, [one for one in whole if isinstance(one, Settings)])
    print(f"{counted(len(files), 'file')}, no problem")
    return 0


def _named(whole: list[Whole]) -> Iterator[Whole]:
    """What configurations name and was not read already: `run` holds rules against contracts, and so is done here."""
    read = {Path(one.path).resolve() for one in whole if isinstance(one, RuleFile)}
    for settings in (one for one in whole if isinstance(one, Settings)):
        yield from (one for one in named.rules(settings) if Path(one.path).resolve() not in read)
        yield from named.contracts(settings)


def _findings(whole: list[Whole]) -> Iterator[Problem]:
    """What is found in files that have no problem by themselves."""
    for routing in (one for one in whole if isinstance(one, Routing)):
        yield from (*routing.undone, *targets.undone(routing, reads_secrets=True), *unreachable(routing))
    rule_files, labels = _ruled(whole)
    contracts = (one for one in whole if isinstance(one, Contracts))
    yield from findings(rule_files, ground(rule_files, labels, contracts))


def _ruled(whole: list[Whole]) -> tuple[list[RuleFile], list[str]]:
    """The rule files, and the labels of events that a configuration makes labels of metrics."""
    rule_files = [one for one in whole if isinstance(one, RuleFile)]
    return rule_files, [label for one in whole if isinstance(one, Settings) for label in one.labels]


def _labels(whole: list[Whole]) -> set[str]:
    """All labels that alerts are known to have: of metrics, of these rules, and what every alert may get."""
    rule_files, labels = _ruled(whole)
    metrics = ground(rule_files, labels).metrics.values()
    rules = (rule for file in rule_files for group in file.groups for rule in group.rules)
    return {*GIVEN, *labels}.union(
        *(one.labels or () for one in metrics), *(dict(rule.written_labels) for rule in rules)
    )


def _remarks(whole: list[Whole], problems: list[Problem]) -> Iterator[str]:
    """What is no problem, and good to know: idle parts, misspelt labels, secrets not here, what nothing measures.

    What is without use in a file that has `problems` is not: they may be why.
    """
    routings = [one for one in whole if isinstance(one, Routing)]
    wrong = {problem.file for problem in problems}
    right, known = [one for one in routings if one.path not in wrong], _labels(whole)
    idle = sorted(one for each in right for one in (*unused(each), *misspelt(each, known)))
    yield from (f"{problem} (no problem)" for problem in idle)
    lacking = sorted(one for each in routings for one in targets.lacking(each))
    yield from (f"{problem} (no problem here; `run` needs it)" for problem in lacking)
    for file in whole:
        for group in file.groups if isinstance(file, RuleFile) else ():
            for rule in group.rules:
                for name in sorted({selector.name or "" for selector in rule.expr.selectors} & UNMEASURED):
                    message = (
                        f"remark: nothing measures `{name}` in this version: it is absent, never 0, "
                        f"and what `{rule.name}` says of it stays silent"
                    )
                    yield str(rule.place.at("expr").content().problem(message))


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
    routefiles.of_tests(file)
    return file, missing + unknown_alerts(file, specs)


def _settings(path: str, text: str) -> tuple[Settings, list[Problem]]:
    settings, problems = load_settings(path, text, os.environ)
    return settings, problems + refused(path, text, settings, problems)


def _routes(path: str, text: str) -> tuple[Routing, list[Problem]]:
    routing, problems = load_routes(path, text)
    unserved = targets.unserved(routing)
    return routing, [problem for problem in problems if not any(place.holds(problem) for place in unserved)]


def _nothing(path: str, _text: str) -> tuple[Whole, list[Problem]]:
    raise ProblemsError([Problem(path, 1, 1, "this file is empty: write into it what it is for, or remove it")])


def _contracts(path: str, text: str) -> tuple[Contracts, list[Problem]]:
    return load_contracts(path, text), []


# a key at the top of a file → what reads a file that has it; the first key decides, without any it is configuration
READERS: dict[str, Read] = {
    "groups": _rules,
    "rule_files": _tests,
    "tests": _tests,
    "evaluation_interval": _tests,
    "route": _routes,
    "receivers": _routes,
    "inhibit_rules": _routes,
    "time_intervals": _routes,
    "defaults": _contracts,
}


def _reader_of(text: str) -> Read:
    """What reads a file, by the keys at its top. What is no YAML goes to the reader that says where."""
    if not text.strip():
        return _nothing
    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return _rules
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    if any(key.value == "tasks" and isinstance(value, yaml.SequenceNode) for key, value in pairs):
        return _contracts  # in a configuration it is the path of such a file
    keys = {key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode)}
    if keys.isdisjoint(Settings.__struct_fields__):
        # a key that is misspelt is still a sign of what was meant
        keys |= {near for key in keys for near in get_close_matches(key, READERS, 1, 0.8)}
    return next((read for key, read in READERS.items() if key in keys), _settings)
