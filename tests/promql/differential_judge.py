"""Runs one test file on both sides: gives ours as a file of promtool's with our answers in it, and promtool's verdict.

promtool compares to the last bit and says of each case that differs what came instead; the names of the tests and
the texts of the cases say which case it was.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import yaml

from collector.alerting import ruletest
from collector.alerting.verdict import Outcome, metric_text
from collector.model.errors import ProblemsError
from collector.promql import PromqlError, compile_expr
from collector.ruletesting import rules_of, run

Document = dict[str, Any]


class Differing(NamedTuple):
    """A case on which the two sides differ. Sides are texts as promtool prints them, or `error: ...`."""

    file: str
    test: str
    about: str
    """The expression, the alert's name, or "" for the test as a whole."""
    eval_time: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.file}, {self.test}: {self.about} at {self.eval_time}\n   ours {self.ours}\n theirs {self.theirs}"


class Answered(NamedTuple):
    """A test file with our answers as what is expected, and where we gave none but an error."""

    document: Document
    errors: dict[tuple[str, str, str], str]
    """By test, expression ("" for the test as a whole) and time."""

    @property
    def cases(self) -> int:
        """How many there are."""
        return sum(len(_cases(test)) for test in self.document["tests"])


def answered(path: Path, document: Document) -> Answered:
    """Our answers to every case of a document, as `tasktrail test` finds them; the file is left with them in it.

    Expressions that we refuse at load are taken out for us and stand in the file for promtool. Raises ProblemsError.
    """
    found, errors, refused = json.loads(json.dumps(document)), {}, []
    for test in found["tests"]:
        for case in list(test.get("promql_expr_test", ())):
            if message := _refusal(case["expr"]):
                errors[test["name"], case["expr"], case["eval_time"]] = message
                test["promql_expr_test"].remove(case)
                refused.append((test["promql_expr_test"], case))
    path.write_text(dumped(found), encoding="utf-8")
    file = ruletest.load(str(path), path.read_text(encoding="utf-8"), compile_expr)
    specs, missing = rules_of(file)
    if missing:
        raise ProblemsError(missing)
    for test, result in zip(found["tests"], run(file, specs), strict=True):
        if result.error:
            errors[test["name"], "", ""] = result.error
        for case, outcome in zip(_cases(test), result.cases, strict=True):
            if outcome.error:
                errors[test["name"], case.get("expr", case.get("alertname")), case["eval_time"]] = outcome.error
            else:
                _expect(case, outcome)
    for cases, case in refused:
        cases.append(case)
    path.write_text(dumped(found), encoding="utf-8")
    return Answered(found, errors)


def _refusal(expr: str) -> str:
    try:
        compile_expr(expr)
    except PromqlError as error:
        return str(error)
    return ""


def dumped(document: Document) -> str:
    """The document as a file."""
    return yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=10_000)


def _cases(test: Document) -> list[Document]:
    """In the order in which our outcomes stand."""
    return [*test.get("alert_rule_test", ()), *test.get("promql_expr_test", ())]


def _expect(case: Document, outcome: Outcome) -> None:
    if outcome.kind == "promql":
        case["exp_samples"] = [{"labels": _metric(one["labels"]), "value": float(one["value"])} for one in outcome.got]
    else:
        case["exp_alerts"] = [
            {"exp_labels": one["labels"], "exp_annotations": one["annotations"]} for one in outcome.got
        ]


def _metric(labels: dict[str, str]) -> str:
    return metric_text(labels) if labels else "{}"


# The other side


class Tool(NamedTuple):
    """A promtool."""

    path: str
    version: int
    """3, or 2, which writes no report and is asked one test at a time."""


def judged(tool: Tool, paths: Sequence[Path], answers: Sequence[Answered]) -> list[Differing]:
    """Every case of these files for which promtool finds something else than we did, or only one side fails."""
    failures = _reported(tool, paths) if tool.version > 2 else _one_by_one(tool, paths, answers)
    return [one for path, answer in zip(paths, answers, strict=True) for one in _compared(path.name, answer, failures)]


Failures = dict[tuple[str, str], list[str]]
"""What promtool said, by file and test."""


def _reported(tool: Tool, paths: Sequence[Path]) -> Failures:
    report = paths[0].parent / "junit.xml"
    done = _called(tool, [f"--junit={report}", *(path.name for path in paths)], paths[0].parent)
    if not report.exists():
        raise AssertionError(f"promtool said nothing: {done.stdout}{done.stderr}")
    found: Failures = {}
    for suite in ET.fromstring(report.read_text(encoding="utf-8")).iter("testsuite"):
        for case in suite.iter("testcase"):
            said = [one.text or one.get("message", "") for one in case if one.tag in {"failure", "error"}]
            found[suite.get("name", ""), case.get("name", "")] = said
    return found


def _one_by_one(tool: Tool, paths: Sequence[Path], answers: Sequence[Answered]) -> Failures:
    found: Failures = {}
    for path, answer in zip(paths, answers, strict=True):
        for test in answer.document["tests"]:
            single = path.with_name(f"single_{path.name}")
            single.write_text(dumped({**answer.document, "tests": [test]}), encoding="utf-8")
            said = _called(tool, [single.name], path.parent).stderr.replace("  FAILED:\n", "", 1).strip("\n")
            parts = re.split(r"\n(?=    (?:expr|name|alertname|rule): )", said)
            found[path.name, test["name"]] = [part for part in parts if part]
    return found


def _called(tool: Tool, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [tool.path, "test", "rules", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)


_EXPR = re.compile(r'    expr: (?P<about>"(?:[^"\\]|\\.)*"), time: (?P<time>\w+),(?P<rest>.*)', re.DOTALL)
_ALERT = re.compile(
    r"(?:    name: [^\n]*,\n)?    alertname: (?P<about>[^\n]*), time: (?P<time>\w+), (?P<rest>.*)", re.DOTALL
)
_SIDES = re.compile(r"\s*exp:(?P<exp>.*?),?\s*\n\s*got:(?P<got>.*)", re.DOTALL)


def _compared(file: str, answer: Answered, failures: Failures) -> Iterator[Differing]:
    for test in answer.document["tests"]:
        name = test["name"]
        if (file, name) not in failures:
            raise AssertionError(f"promtool did not run {name} of {file}")
        errors = {(about, at): text for (one, about, at), text in answer.errors.items() if one == name}
        has_ended = ("", "") in errors
        for about, at, theirs, ours in map(_read, failures[file, name]):
            mine = errors.pop((about, at), None)
            if has_ended and not about:  # rules failed on both sides, and nothing after that was looked at
                errors.clear()
            elif mine is None:
                yield Differing(file, name, about, at, ours, theirs)
            elif not theirs.startswith("error:"):
                yield Differing(file, name, about, at, f"error: {mine}", theirs)
        for (about, at), mine in errors.items():
            yield Differing(file, name, about, at, f"error: {mine}", "an answer")


def _read(said: str) -> tuple[str, str, str, str]:
    """Expression or alert ("" for a test that ended), time, their side and ours."""
    found = _EXPR.fullmatch(said) or _ALERT.fullmatch(said)
    if found is None:
        return "", "", f"error: {said.strip()}", "no error"
    about = json.loads(found["about"]) if found["about"].startswith('"') else found["about"]
    sides = _SIDES.fullmatch(found["rest"])
    if sides is None:
        return about, found["time"], f"error: {found['rest'].strip().removeprefix('err: ')}", "an answer"
    return about, found["time"], sides["got"].strip(), sides["exp"].strip()


_QUOTED = r'"(?:[^"\\]|\\.)*"'
_SAMPLE = re.compile(rf"\{{(?P<labels>(?:[^\"}}]|{_QUOTED})*)\}} (?P<value>\S+?)(?:, |$)")
_LABEL = re.compile(rf"(?P<name>[^=,\s]+)=(?P<text>{_QUOTED})")
_ALERT_PARTS = re.compile(rf"(?:Labels|Annotations):\{{((?:[^\"}}]|{_QUOTED})*)\}}")

Labels = dict[str, str]


def samples(side: str) -> list[tuple[Labels, float]] | None:
    """The samples of a side, in its order; None where it is something else."""
    if side == "nil":
        return []
    found = list(_SAMPLE.finditer(side))
    if not found or "".join(one.group() for one in found) != side:
        return None
    return [(_labels(one["labels"]), float(one["value"])) for one in found]


def alerts(side: str) -> list[Labels]:
    """Labels and annotations of the alerts of a side, in turn."""
    return [_labels(one.group(1)) for one in _ALERT_PARTS.finditer(side)]


def _labels(text: str) -> Labels:
    """Go's quoting is Python's."""
    return {one["name"].strip('"'): ast.literal_eval(one["text"]) for one in _LABEL.finditer(text)}
