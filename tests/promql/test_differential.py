"""Random expressions and rules on random series, asked here and of promtool: no difference without an explanation.

`TASKTRAIL_TEST_SEED` (a number) asks other questions than the usual ones; a failure names the smallest expression
that differs.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from differential_explained import EXPLAINED, explained, is_asked
from differential_expressions import SHAPES, Expression, Maker
from differential_judge import Answered, Differing, Tool, answered, dumped, judged
from differential_rules import TEMPLATES, RuleMaker
from differential_series import INTERVALS, series

from collector.cli.main import main
from tests.brokers.process import Unavailable
from tests.promtool import any_promtool

SEED = int(os.environ.get("TASKTRAIL_TEST_SEED", "1"))
EXPRESSIONS, PER_TEST = 2400, 30
RULE_FILES = 24
STARTS = ("1000000000", "2024-02-29T23:30:00Z", "951782399.5")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def tool() -> Tool:
    """promtool; without it a skip with the reason, or where CI=true a failure."""
    try:
        return Tool(*any_promtool())
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must compare with promtool: {why}", pytrace=False)
        pytest.skip(str(why))


class Asked:
    """Files that were answered here, and the expressions behind their cases."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[Path] = []
        self.answers: list[Answered] = []
        self.expressions: dict[str, Expression] = {}

    def ask(self, document: dict) -> None:
        """Answer one more file."""
        path = self.folder / f"{len(self.paths)}_test.yaml"
        self.answers.append(answered(path, document))
        self.paths.append(path)

    @property
    def cases(self) -> int:
        """Of all files."""
        return sum(answer.cases for answer in self.answers)

    def unexplained(self, tool: Tool) -> tuple[list[Differing], Counter[str]]:
        """What differs without a reason, and how often each reason was one."""
        found = judged(tool, self.paths, self.answers)
        reasons = Counter(map(explained, found))
        return [one for one in found if not explained(one)], reasons


def a_test(chance: random.Random, name: str, version: int = 3) -> dict:
    """A test with series and without cases."""
    interval = f"{chance.choice(INTERVALS)}s" if version > 2 else "59s999ms"
    test = {"name": name, "interval": interval, "input_series": series(chance)}
    if version < 3:  # nor is there a sample at 0
        for one in test["input_series"]:
            one["values"] = f"_ {one['values']}"
    return test | ({"start_timestamp": chance.choice(STARTS)} if chance.random() < 0.3 and version > 2 else {})


def expressions(folder: Path, seed: int, count: int, version: int = 3) -> Asked:
    """Files with so many expressions, fewer for a promtool 2; every function, aggregation and operator in turn."""
    chance, asked = random.Random(seed), Asked(folder)
    maker = Maker(chance)
    made = [maker.outermost(SHAPES[number % len(SHAPES)], chance.choice((1, 2, 2, 3))) for number in range(count)]
    chance.shuffle(made)
    asked.expressions = {one.text: one for one in made}
    tests = [a_test(chance, f"test {number}", version) for number in range(count // PER_TEST)]
    for number, test in enumerate(tests):
        chosen = {one.text for one in made[number * PER_TEST : (number + 1) * PER_TEST]}
        test["promql_expr_test"] = [
            {"expr": text, "eval_time": a_time(chance)} for text in sorted(chosen) if is_asked(text, version)
        ]
    for number, interval in enumerate(("30s", "1m", "45s", "2m")):
        asked.ask({"evaluation_interval": interval, "tests": tests[number::4]})
    return asked


def a_time(chance: random.Random) -> str:
    """On and between the samples, and after the last of them; as promtool writes it."""
    minutes, seconds = chance.choice((0, 3, 5, 7, 10, 12, 15, 20, 25)), chance.choice((0, 0, 0, chance.randint(1, 59)))
    return "".join(f"{count}{unit}" for count, unit in ((minutes, "m"), (seconds, "s")) if count) or "0s"


def rules(folder: Path, seed: int, count: int) -> Asked:
    """So many rule files, each with two tests of its alerts and recorded series; every template is in some of them."""
    chance, asked = random.Random(seed), Asked(folder)
    maker, per_file = RuleMaker(chance), -(-2 * len(TEMPLATES) // count)
    for number in range(count):
        templates = [TEMPLATES[(number * per_file + at) % len(TEMPLATES)] for at in range(per_file)]
        name = f"{number}_rules.yaml"
        (folder / name).write_text(dumped(maker.rules(tuple(templates))), encoding="utf-8")
        tests = [a_test(chance, f"test {one}") | maker.cases() for one in range(2)]
        head = {"rule_files": [name], "evaluation_interval": chance.choice(("30s", "1m", "45s"))}
        asked.ask({**head, "group_eval_order": ["early", "late"], "tests": tests})
    return asked


def smallest(tool: Tool, asked: Asked, differing: Differing) -> Differing:
    """The same difference in the smallest part of the expression that has it."""
    whole = asked.expressions.get(differing.about)
    if whole is None:
        return differing
    at = next(number for number, path in enumerate(asked.paths) if path.name == differing.file)
    document = asked.answers[at].document
    test = next(test for test in document["tests"] if test["name"] == differing.test)
    cases = [{"expr": part.text, "eval_time": differing.eval_time} for part in whole.inside()]
    parts = Asked(asked.folder / "parts")
    parts.folder.mkdir(exist_ok=True)
    parts.ask({**document, "tests": [{**test, "promql_expr_test": cases}]})
    return min((*parts.unexplained(tool)[0], differing), key=lambda one: len(one.about))


def report(tool: Tool, asked: Asked, found: list[Differing]) -> str:
    """What a person needs to see why."""
    shown = [f"{smallest(tool, asked, one)}" for one in found[:5]]
    return "\n".join([f"{len(found)} of {asked.cases} differ (TASKTRAIL_TEST_SEED={SEED})", *shown])


def test_expressions(tool, tmp_path):
    """Expressions give what promtool finds, to the last bit, or differ for a reason in the table."""
    asked = expressions(tmp_path, SEED, EXPRESSIONS, tool.version)
    found, reasons = asked.unexplained(tool)
    assert asked.cases >= (2000 if tool.version > 2 else 600)
    assert not found, report(tool, asked, found)
    assert reasons.total() < asked.cases / 5, reasons


def test_rules(tool, tmp_path):
    """Alerts with their labels and texts, recorded series and ALERTS are those that promtool finds."""
    if tool.version < 3:
        pytest.skip("rule files with the labels and the offset of a group need promtool 3")
    asked = rules(tmp_path, SEED, RULE_FILES)
    found, _ = asked.unexplained(tool)
    fired = sum(len(case.get("exp_alerts", ())) for answer in asked.answers for test in answer.document["tests"]
                for case in test["alert_rule_test"])  # fmt: skip
    assert fired > 100
    assert not found, report(tool, asked, found)


def test_verdicts(tool, tmp_path, capsys):
    """`tasktrail test` holds the same cases for failed as promtool, where expectations are wrong."""
    asked = expressions(tmp_path, SEED + 1, 600, tool.version)
    (answer, path) = (asked.answers[0], asked.paths[0])
    for test in answer.document["tests"]:
        test["promql_expr_test"] = [case for case in test["promql_expr_test"] if "exp_samples" in case]
    differ_anyhow = failed_there(tool, path, answer)
    for test in answer.document["tests"]:
        for case in test["promql_expr_test"][::3]:
            case["exp_samples"] = [*case["exp_samples"][1:], {"labels": "more", "value": 1.5e99}]
    theirs = failed_there(tool, path, answer) - differ_anyhow
    assert main(["test", "--json", str(path)]) == 1
    times = [[case["eval_time"] for case in test["promql_expr_test"]] for test in answer.document["tests"]]
    ours = {
        (test["name"], case["expr"], at)
        for test, ats in zip(json.loads(capsys.readouterr().out)["files"][0]["tests"], times, strict=True)
        for case, at in zip(test["cases"], ats, strict=True)
        if not case["ok"]
    }
    assert ours - differ_anyhow == theirs != set()


def failed_there(tool: Tool, path: Path, answer: Answered) -> set[tuple[str, str, str]]:
    """Test, expression and time of what promtool holds for failed in a file as it is now."""
    path.write_text(dumped(answer.document), encoding="utf-8")
    return {(one.test, one.about, one.eval_time) for one in judged(tool, [path], [Answered(answer.document, {})])}


@pytest.mark.parametrize("changed", ["1 + 1", "sum(level) + 1"])
def test_finds_what_differs(tool, tmp_path, changed):
    """An answer of ours that is wrong is a difference, and no row of the table explains it."""
    asked = Asked(tmp_path)
    test = {
        **a_test(random.Random(SEED), "one", tool.version),
        "promql_expr_test": [{"expr": changed, "eval_time": "5m"}],
    }
    asked.ask({"tests": [test]})
    asked.answers[0].document["tests"][0]["promql_expr_test"][0]["exp_samples"][0]["value"] = 41.5
    asked.paths[0].write_text(dumped(asked.answers[0].document), encoding="utf-8")
    (found,), _ = asked.unexplained(tool)
    assert (found.about, samples_of(found.ours)) == (changed, "4.15E+01")


def samples_of(side: str) -> str:
    """The number of the only sample."""
    return side.rpartition(" ")[2]


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_row_explains_no_other_number(name):
    """No row of the table takes a plain wrong number for its own."""
    wrong = Differing("f", "t", 'sum(up{job="a"})', "5m", '{job="a"} 1E+00', '{job="a"} 2E+00')
    assert not EXPLAINED[name].holds(wrong)
