"""Rule tests on the real engine: promtool's verdicts, and what Tasktrail adds, written as test files."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector import ruletesting
from collector.alerting import ruletest
from collector.model.errors import ProblemsError
from collector.promql import compile_expr

FILES = Path(__file__).parent / "ruletests"
SHIPPED = sorted((Path(__file__).parents[2] / "rules").glob("*_test.yaml"))


def results(path, text=None):
    """What became of the tests of a file."""
    file = ruletest.load(str(path), path.read_text(encoding="utf-8") if text is None else text, compile_expr)
    specs, missing = ruletesting.rules_of(file)
    assert not missing
    return list(ruletesting.run(file, specs))


def holds(result):
    """Whether a test passes."""
    return not result.error and all(case.ok for case in result.cases)


def told(result):
    """All that is wrong with a test."""
    return [result.error, *((case.name, case.exp, case.got, case.error) for case in result.cases if not case.ok)]


@pytest.mark.parametrize("name", ["passing", "events"])
def test_passing(name):
    """Tests that pass with promtool pass, and so do those of events."""
    found = results(FILES / f"{name}_test.yaml")
    assert found
    assert {result.name: told(result) for result in found if not holds(result)} == {}


def test_failing():
    """Tests that fail with promtool fail."""
    found = results(FILES / "failing_test.yaml")
    assert len(found) > 5
    assert [result.name for result in found if holds(result)] == []


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_shipped_rules(path):
    """The shipped rules' own tests pass."""
    found = results(path)
    assert sum(len(result.cases) for result in found) > 50
    assert {result.name: told(result) for result in found if not holds(result)} == {}


def written(tmp_path, rules, test):
    """The one result of a test of these rules, both as YAML."""
    (tmp_path / "rules.yaml").write_text("groups:\n- name: g\n  rules:\n" + rules)
    (result,) = results(tmp_path / "a_test.yaml", "rule_files: [rules.yaml]\ntests:\n" + test)
    return result


CASE = "- promql_expr_test:\n  - {expr: x, eval_time: 1m, exp_samples: [{labels: x, value: 1}]}\n"


def test_two_rules_of_one_name(tmp_path):
    """Two rules that give one series two values end the test, as with promtool; its cases are not looked at."""
    rules = "  - {record: x, expr: vector(1)}\n  - {record: x, expr: vector(2)}\n"
    result = written(tmp_path, rules, CASE)
    assert "rule `x` failed at 0s: `x` has another value for this instant already" in result.error
    assert [case.error for case in result.cases] == ["not looked at: a rule failed before"]


def test_two_rules_that_agree(tmp_path):
    """Two rules that give one series the same value are fine."""
    assert holds(written(tmp_path, "  - {record: x, expr: vector(1)}\n  - {record: x, expr: vector(1)}\n", CASE))


def test_a_rule_against_a_series(tmp_path):
    """A rule that writes what a test puts in, with another value, ends the test."""
    test = CASE.replace("- promql", "- input_series: [{series: x, values: 1x5}]\n  promql")
    assert holds(written(tmp_path, "  - {record: x, expr: vector(1)}\n", test))
    assert "rule `x` failed at 0s" in written(tmp_path, "  - {record: x, expr: vector(2)}\n", test).error


def test_a_rule_that_fails(tmp_path):
    """A rule that cannot be evaluated ends the test with its place and the time."""
    series = "- input_series: [{series: 'a{b=\"1\"}', values: '_ 1x5'}, {series: 'a{b=\"2\"}', values: '_ 1x5'}]\n"
    test = series + "  alert_rule_test:\n  - {alertname: A, eval_time: 0s}\n  - {alertname: A, eval_time: 2m}\n"
    result = written(tmp_path, "  - {alert: A, expr: a + on() a}\n", test)
    assert result.error.startswith(f"{tmp_path}/rules.yaml:4: rule `A` failed at 1m: ")
    assert [case.ok for case in result.cases] == [True, False]


def test_over_the_limit(tmp_path):
    """A rule that gives more than its group's limit ends the test, as with promtool."""
    (tmp_path / "rules.yaml").write_text("groups:\n- name: g\n  limit: 1\n  rules: [{alert: A, expr: '{x=~\".+\"}'}]\n")
    series = "{series: 'a{x=\"1\"}', values: 1}, {series: 'a{x=\"2\"}', values: 1}"
    text = f"rule_files: [rules.yaml]\ntests: [{{input_series: [{series}]}}]\n"
    (result,) = results(tmp_path / "a_test.yaml", text)
    assert "over the group's limit of 1" in result.error


def test_a_template_that_fails(tmp_path):
    """It decides nothing, and is told once."""
    rules = "  - alert: A\n    expr: vector(1)\n    annotations: {summary: '{{ humanize \"x\" }}'}\n"
    result = written(tmp_path, rules, "- alert_rule_test:\n  - {alertname: B, eval_time: 5m}\n")
    assert holds(result)
    (note,) = result.notes
    assert note.startswith("A: template of annotation `summary`")


def test_tests_know_nothing_of_one_another(tmp_path):
    """Each test begins with nothing."""
    test = (
        "- input_events: [{at: 1s, kind: sent, task_id: a}]\n"
        "  promql_expr_test:\n  - {expr: sum(task_sent_total), eval_time: 1m, exp_samples: [{value: 1}]}\n"
    )
    found = results(tmp_path / "a_test.yaml", "tests:\n" + test * 2)
    assert [told(result) for result in found] == [[""], [""]]


def test_rules_by_pattern(tmp_path):
    """Rule files are found by patterns relative to the test file, each once; a name that is not there is told."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.rules.yaml").write_text(f"groups: [{{name: {name}, rules: []}}]")
    text = "rule_files: [b.rules.yaml, '*.rules.yaml', c.yaml]\ngroup_eval_order: [b, a]\n"
    file = ruletest.load(str(tmp_path / "a_test.yaml"), text, compile_expr)
    specs, missing = ruletesting.rules_of(file)
    assert [spec.name for spec in specs] == ["b", "a"]
    assert [str(problem) for problem in missing] == [
        f"{tmp_path}/a_test.yaml:1:44: there is no file `c.yaml` beside this one: check the path"
    ]


def test_broken_rules(tmp_path):
    """Problems of rule files are told at their places in those."""
    (tmp_path / "rules.yaml").write_text("groups: [{name: g, rules: [{alert: A, expr: 'sum('}]}]")
    file = ruletest.load(str(tmp_path / "a_test.yaml"), "rule_files: [rules.yaml]", compile_expr)
    with pytest.raises(ProblemsError, match=r"rules.yaml:1:46: the expression cannot be used"):
        ruletesting.rules_of(file)
