"""`tasktrail test` and `tasktrail check` on test files: exit codes, and what is printed for whom."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from collector.cli.main import main

RULES = "groups: [{name: g, rules: [{record: r, expr: 'sum(up)'}, {alert: A, expr: up == 0}]}]\n"
TESTS = """rule_files: [rules.yaml]
tests:
  - name: first
    input_series: [{series: up, values: '3.5 0'}]
    promql_expr_test:
      - {expr: r, eval_time: 0s, exp_samples: [{labels: r, value: %s}]}
      - {expr: up / 0, eval_time: 0s, exp_samples: [{value: .inf}]}
    alert_rule_test:
      - {alertname: A, eval_time: 1m, exp_alerts: [{}]}
"""


@pytest.fixture
def file(tmp_path):
    """A test file whose one sample is expected to be so much."""
    (tmp_path / "rules.yaml").write_text(RULES)

    def make(value="3.5", text=TESTS):
        path = tmp_path / f"{value}_test.yaml"
        path.write_text(text % value if "%s" in text else text)
        return str(path)

    return make


def test_all_hold(file, capsys):
    """Where everything holds the exit code is 0."""
    assert main(["test", file()]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed"


def test_one_does_not(file, capsys):
    """Where something does not, the exit code is 1, and place, both sides and the difference are shown."""
    assert main(["test", file(), path := file("4")]) == 1
    out = capsys.readouterr().out
    assert f"{path}:6:9: r at 0s" in out
    assert "r: value: expected 4, got 3.5" in out
    assert out.splitlines()[-1] == "5 passed, 1 failed"


def test_json(file, capsys):
    """The one object has the form of the contract."""
    assert main(["test", "--json", path := file("4")]) == 1
    found = json.loads(capsys.readouterr().out)
    (test,) = found["files"][0]["tests"]
    alert, sample, infinite = test["cases"]
    assert (found["passed"], found["failed"], found["files"][0]["file"], test["name"]) == (2, 1, path, "first")
    assert sample == {
        "kind": "promql",
        "expr": "r",
        "eval_time": 0.0,
        "line": 6,
        "got": [{"labels": {"__name__": "r"}, "value": 3.5}],
        "exp": [{"labels": {"__name__": "r"}, "value": 4.0}],
        "ok": False,
    }
    assert infinite["got"] == infinite["exp"] == [{"labels": {}, "value": "+Inf"}]
    assert (alert["kind"], alert["alertname"], alert["eval_time"], alert["ok"]) == ("alert", "A", 60.0, True)
    assert alert["got"] == [{"labels": {"alertname": "A"}, "annotations": {}}]


def test_broken_file(file, capsys):
    """A file that cannot be used fails with its problems at their places, and the others are tested all the same."""
    assert main(["test", "--json", path := file("x"), file()]) == 1
    said = capsys.readouterr()
    assert f"{path}:6:67: expected a number, got `x`" in said.err
    found = json.loads(said.out)
    assert (found["passed"], found["failed"], [len(one["tests"]) for one in found["files"]]) == (3, 1, [0, 1])


def test_no_file(tmp_path, capsys):
    """A file that is not there is a wrong call."""
    assert main(["test", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml:1:1: cannot be read" in capsys.readouterr().err


def test_no_rule_file(file, capsys):
    """A rule file that is not there is a warning, as with promtool."""
    assert main(["test", file(text="rule_files: [none.yaml]\ntests: [{}]")]) == 0
    assert "there is no file `none.yaml`" in capsys.readouterr().err


def test_rule_that_fails(file, tmp_path, capsys):
    """A test that ends with a rule's failure fails, though it has no case."""
    series = "{series: 'up{a=\"%s\"}', values: 1}"
    text = f"rule_files: [rules.yaml]\ntests: [{{input_series: [{series % 1}, {series % 2}]}}]"
    (tmp_path / "rules.yaml").write_text(RULES.replace("sum(up)", "up + on() up"))
    assert main(["test", file(text=text)]) == 1
    out = capsys.readouterr().out
    assert "rule `r` failed at 0s" in out
    assert out.splitlines()[-1] == "0 passed, 1 failed"


def test_junit(file, tmp_path):
    """The results are written for CI: a suite per file, a case per test, a failure per difference, a broken file."""
    target = tmp_path / "results.xml"
    assert main(["test", "--junit", str(target), file(), file("4"), file("x")]) == 1
    good, bad, broken = ET.parse(target).getroot()
    assert [(one.get("tests"), one.get("failures"), one.get("errors")) for one in (good, bad, broken)] == [
        ("1", "0", "0"),
        ("1", "1", "0"),
        ("0", "0", "1"),
    ]
    failure = bad.find("testcase/failure")
    assert "expected 4, got 3.5" in failure.text
    assert "expected a number" in broken.find("testcase/error").get("message")


def test_junit_nowhere(file, tmp_path):
    """Where the results cannot be written the call is wrong."""
    assert main(["test", "--junit", str(tmp_path / "no" / "results.xml"), file()]) == 2


def test_check(file, capsys):
    """`check` knows test files: problems, rule files that are not there, alerts that no rule gives."""
    assert main(["check", file()]) == 0
    assert main(["check", path := file("x")]) == 1
    assert f"{path}:6:67: expected a number" in capsys.readouterr().err
    text = "rule_files: [rules.yaml, none.yaml]\ntests: [{alert_rule_test: [{alertname: AA}]}]"
    assert main(["check", path := file(text=text)]) == 1
    assert capsys.readouterr().err.splitlines()[:2] == [
        f"{path}:1:26: there is no file `none.yaml` beside this one: check the path",
        f"{path}:2:40: no rule in the files that are tested gives the alert `AA`: did you mean `A`?",
    ]


def test_check_of_a_test_with_broken_rules(file, tmp_path, capsys):
    """What is wrong with the rules of a test is told at its place, once."""
    path = file(text="rule_files: [rules.yaml]\ntests: []")
    (tmp_path / "rules.yaml").write_text("groups: [{name: g, rules: [{alert: A, expr: 'sum('}]}]")
    assert main(["check", path, str(tmp_path / "rules.yaml")]) == 1
    assert capsys.readouterr().err.count("rules.yaml:1:46") == 1
