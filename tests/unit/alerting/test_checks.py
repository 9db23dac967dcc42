"""Every check finds what it is for, with its place and what to do, and nothing in what is fine."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from collector.alerting.checks import CHECKS, findings
from collector.alerting.rulefile import load
from collector.cli.ground import ground
from collector.model.errors import TasktrailError
from collector.promql import compile_expr

SAMPLES = Path(__file__).parent / "findings"
EVALUATED = re.compile(r"^eval instant at \S+ (.+)$", re.MULTILINE)
NAMES = [check.__name__ for check in CHECKS]


def found(*paths: Path) -> list[str]:
    """The findings of files that are checked together, without their folder."""
    files = [load(str(path), path.read_text(encoding="utf-8"), compile_expr) for path in paths]
    return [str(problem).replace(f"{SAMPLES}/", "") for problem in sorted(findings(files, ground(files)))]


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_sample_gives_its_messages(name):
    """What the check is for is found, each at its place, and nothing else besides."""
    expected = (SAMPLES / f"{name}.expected").read_text(encoding="utf-8").splitlines()
    assert expected
    assert found(SAMPLES / f"{name}.bad.yaml") == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_good_sample_is_clean(name):
    """What looks like it and is fine is let through by every check."""
    assert found(SAMPLES / f"{name}.good.yaml") == []


def test_each_check_has_its_samples_and_its_file():
    """One check is one file with one line in the table, one good and one bad sample."""
    folder = Path(__file__).parents[3] / "collector" / "alerting" / "checks"
    assert {path.name.split(".")[0] for path in SAMPLES.glob("*.yaml")} == set(NAMES)
    assert all((folder / f"{name}.py").is_file() for name in NAMES)


def write(folder, name, text):
    """A rule file."""
    path = folder / name
    path.write_text(f"groups:\n- name: g\n  rules:\n{text}", encoding="utf-8")
    return path


def test_what_another_file_records_is_known(tmp_path):
    """A metric that begins like ours is known where a file that is checked together records it."""
    reads = write(tmp_path, "reads.yaml", "  - {alert: A, expr: 'task_queue:usual > 1'}\n")
    records = write(tmp_path, "records.yaml", "  - {record: 'task_queue:usual', expr: sum(tasks_in_flight)}\n")
    assert len(found(reads)) == 1
    assert found(reads, records) == []


def test_a_rule_repeated_in_another_file_names_it(tmp_path):
    """The message says in which file the first one is."""
    rule = "  - {alert: A, expr: tasks_in_flight > 1}\n"
    one, other = write(tmp_path, "one.yaml", rule), write(tmp_path, "other.yaml", rule)
    (message,) = found(one, other)
    assert message.startswith(f"{other}:4:5: `A` with the same labels and expression is on {one}:4 already")


def test_labels_of_events_are_labels_of_metrics(tmp_path):
    """A label that the configuration takes from events is known to every task metric."""
    path = write(tmp_path, "rules.yaml", "  - {alert: A, expr: 'tasks_in_flight{tenant=\"a\"} > 1'}\n")
    files = [load(str(path), path.read_text(encoding="utf-8"), compile_expr)]
    assert len(list(findings(files, ground(files)))) == 1
    assert list(findings(files, ground(files, ["tenant"]))) == []


def test_no_expression_is_too_strange(tmp_path):
    """Whatever PromQL allows can be looked at: every expression of the language's own cases, alone and combined."""
    cases = (Path(__file__).parents[2] / "promql").glob("*.test")
    written = {
        text for path in cases for text in re.findall(r"(?m)^eval instant at \S+ (.+)$", path.read_text("utf-8"))
    }
    rules = []
    for text in sorted(written):
        for expr in (text, f"tasks_in_flight / on (taks) ({text}) > 1", f"({text}) unless -task_failed_total"):
            with suppress(TasktrailError):
                if compile_expr(expr).type in {"vector", "scalar"}:
                    rules.append(f"  - {{alert: A, expr: {json.dumps(expr)}}}\n")
    assert len(rules) > 500
    path = write(tmp_path, "rules.yaml", "".join(rules))
    lines = found(path)
    assert len(lines) > 100
    assert all(line.startswith(f"{path}:") for line in lines)


RECORDED = """
      - record: queue:failed:rate5m
        expr: sum by (queue) (rate(task_failed_total[5m]))
        labels: {stage: one}
      - record: queue:failed:max
        expr: max by (queue, stage) (queue:failed:rate5m)
      - record: failed:any
        expr: queue:failed:max > 0
        labels: {queue: ''}
      - alert: A
        expr: sum by (task) (queue:failed:rate5m) > 1
      - alert: B
        expr: queue:failed:max{task="a"} > 1
        annotations: {summary: '{{ $labels.queue }} {{ $labels.stage }} {{ $labels.error }}'}
      - alert: C
        expr: failed:any
        annotations: {summary: '{{ $labels.stage }} {{ $labels.queue }}'}
"""
RECORDED_WELL = """
      - record: queue:failed:rate5m
        expr: sum by (queue) (rate(task_failed_total[5m]))
        labels: {stage: one}
      - record: from:elsewhere
        expr: somebody_elses_metric > 1
      - record: from:elsewhere
        expr: queue:failed:rate5m
      - alert: A
        expr: sum by (queue) (queue:failed:rate5m) > 1
        annotations: {summary: '{{ $labels.queue }}'}
      - alert: B
        expr: from:elsewhere{anything="x"}
        annotations: {summary: '{{ $labels.whatever }}'}
"""


def test_labels_of_what_is_recorded(tmp_path):
    """What a recording rule leaves of labels, and what it adds and takes away, is known to those who read it."""
    path = write(tmp_path, "rules.yaml", RECORDED)
    assert [line.removeprefix(f"{path}:") for line in found(path)] == [
        "14:15: `queue:failed:rate5m` has no label `task`: it has queue, stage",
        "16:15: `queue:failed:max` has no label `task`: it has queue, stage",
        "17:23: `$labels.error` is always empty: the expression leaves no such label; it has queue, stage",
        "20:23: `$labels.queue` is always empty: the expression leaves no such label; it has stage",
    ]
    assert found(write(tmp_path, "good.yaml", RECORDED_WELL)) == []
