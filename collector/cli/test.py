"""`tasktrail test`: unit tests of rules in promtool's format, and what Tasktrail adds to it, run on the real engine."""

from __future__ import annotations

import argparse
import sys
from xml.etree import ElementTree as ET

import msgspec

from collector.alerting.ruletest import load
from collector.alerting.verdict import Outcome, TestResult, duration_text, explain
from collector.config import routefiles
from collector.model.errors import Problem, ProblemsError
from collector.model.files import read_text, unread, why
from collector.promql import compile_expr
from collector.ruletesting import rules_of, run


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `test`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="test files")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--junit", metavar="FILE", help="write the results as JUnit XML, too")


class FileResult(msgspec.Struct, kw_only=True):
    """One test file: its tests, or why none could be run."""

    file: str
    tests: list[TestResult] = []
    problems: list[Problem] = []
    warnings: list[Problem] = []

    @property
    def passed(self) -> int:
        """Cases that hold."""
        return sum(case.ok for test in self.tests for case in test.cases)

    @property
    def failed(self) -> int:
        """Cases that do not, tests that ended without one, and problems of the file."""
        failed = sum(not case.ok for test in self.tests for case in test.cases)
        ended = sum(bool(test.error) and all(case.ok for case in test.cases) for test in self.tests)
        return failed + ended + len(self.problems)


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where everything holds, 1 where something does not, 2 where a file cannot be read or written."""
    texts = {path: _text(path) for path in arguments.files}
    results = [_tested(path, text) for path, text in texts.items()]
    for result in results:
        for problem in (*result.problems, *result.warnings):
            print(problem, file=sys.stderr)
    if arguments.json:
        print(msgspec.json.encode(_data(results)).decode())
    else:
        for result in results:
            _print(result)
        _print_sums(results)
    if arguments.junit:
        _write_junit(arguments.junit, results)
    return 1 if any(result.failed for result in results) else 0


def _text(path: str) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemsError([unread(path, error)]) from error


def _tested(path: str, text: str) -> FileResult:
    try:
        file = load(path, text, compile_expr)
        specs, missing = rules_of(file)
        routing = routefiles.of_tests(file)
    except ProblemsError as error:
        return FileResult(file=path, problems=list(error.problems))
    return FileResult(file=path, tests=list(run(file, specs, routing)), warnings=missing)


# For programs


def _data(results: list[FileResult]) -> dict[str, object]:
    return {
        "files": [_file_data(result) for result in results],
        "passed": sum(result.passed for result in results),
        "failed": sum(result.failed for result in results),
    }


def _file_data(result: FileResult) -> dict[str, object]:
    found: dict[str, object] = {"file": result.file, "tests": [_test_data(test) for test in result.tests]}
    return found | {"problems": list(map(str, result.problems))} if result.problems else found


def _test_data(test: TestResult) -> dict[str, object]:
    found: dict[str, object] = {"name": test.name, "cases": [case.data() for case in test.cases]}
    found |= {"error": test.error} if test.error else {}
    return found | {"notes": test.notes} if test.notes else found


def _write_junit(path: str, results: list[FileResult]) -> None:
    """A suite per file, a case per test, a failure per case that does not hold."""
    root = ET.Element("testsuites", name="tasktrail test")
    for result in results:
        failed = sum(_fails(test) for test in result.tests)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=result.file,
            tests=str(len(result.tests)),
            failures=str(failed),
            errors=str(len(result.problems)),
        )
        if result.problems:
            case = ET.SubElement(suite, "testcase", name="the file", classname=result.file)
            for problem in result.problems:
                ET.SubElement(case, "error", message=_clean(str(problem)))
        for test in result.tests:
            case = ET.SubElement(suite, "testcase", name=_clean(test.name), classname=result.file)
            for message, text in _failures(result.file, test):
                ET.SubElement(case, "failure", message=_clean(message)).text = _clean(text)
    try:
        ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise ProblemsError([Problem(path, 1, 1, f"cannot be written: {why(error)}")]) from error


def _fails(test: TestResult) -> bool:
    return bool(test.error) or not all(case.ok for case in test.cases)


def _failures(file: str, test: TestResult) -> list[tuple[str, str]]:
    found = [(_headline(file, case), "\n".join(explain(case))) for case in test.cases if not case.ok]
    return [(test.error, test.error), *found] if test.error else found


def _clean(text: str) -> str:
    """Without the characters that XML has no way to write."""
    return "".join(sign for sign in text if sign in "\t\n" or " " <= sign <= "\ud7ff" or "\ue000" <= sign != "\uffff")


# For people


def _headline(file: str, case: Outcome) -> str:
    name = " ".join(case.name.split())
    what = name if case.kind == "promql" else f"{case.kind} {name}"
    return f"{file}:{case.line}:{case.column}: {what} at {duration_text(case.eval_time)}"


def _print(result: FileResult) -> None:
    for test in result.tests:
        count = f"{len(test.cases)} case{'' if len(test.cases) == 1 else 's'}"
        print(f"{'FAIL' if _fails(test) else 'ok  '}  {result.file}: {test.name} ({count})")
        for note in test.notes:
            print(f"      note: {note}")
        if test.error:
            print("\n".join(f"      {line}" for line in test.error.splitlines()))
        for case in test.cases:
            if not case.ok:
                print(f"      {_headline(result.file, case)}")
                print("\n".join(f"        {line}" for line in explain(case)))


def _print_sums(results: list[FileResult]) -> None:
    passed, failed = (sum(getattr(result, name) for result in results) for name in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
