"""`tasktrail routes` beside `amtool config routes`: the same receivers, in the same order; the same tree and files."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from collector.cli.main import main
from collector.routing.routefile import load
from collector.routing.unreachable import unreachable, unused
from collector.wiring import targets
from tests import alertmanager
from tests.integration.routing_files import Files

pytestmark = pytest.mark.slow

WARNING = re.compile(r"(?:time|ts|level|caller)=")
"""How newer versions begin what they log, on standard output, about matchers of the older grammar."""
BLOCKS, FILES, SETS = 8, 40, 3
"""So many files, each with so many label sets, a block."""


@pytest.fixture(scope="session")
def amtool() -> str:
    """The real tool."""
    return alertmanager.program("amtool")


def theirs(amtool: str, *call: str) -> tuple[int, str]:
    """Whether amtool fails, and what it prints."""
    done = subprocess.run([amtool, *call], capture_output=True, text=True, timeout=60, check=False)
    lines = [line for line in done.stdout.splitlines(keepends=True) if not WARNING.match(line)]
    return int(done.returncode != 0), "".join(lines).replace("\xa0", " ")  # older ones indent the tree with these


def ours(*call: str) -> tuple[int, str]:
    """The same of tasktrail."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(call)
    return int(code != 0), out.getvalue()


def files(amtool: str, block: int, folder: Path) -> list[tuple[Path, list[list[str]]]]:
    """Files of a block with their label sets."""
    newer = alertmanager.version(amtool) >= (0, 27)
    found = []
    for number in range(FILES):
        made = Files(block * FILES + number, newer=newer)
        path = folder / f"routes-{number}.yml"
        path.write_text(made.text(), encoding="utf-8")
        found.append((path, [made.labels() for _ in range(SETS)]))
    return found


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_same_receivers(amtool: str, tmp_path: Path, block: int) -> None:
    """For files and label sets by chance both tools name the same receivers in the same order, and show one tree."""
    calls = []
    for path, sets in files(amtool, block, tmp_path):
        calls += [(path, ["test", *labels]) for labels in sets]
        calls.append((path, ["show"]))

    def ask(call: tuple[Path, list[str]]) -> tuple[int, str]:
        path, (action, *labels) = call
        return theirs(amtool, "config", "routes", action, f"--config.file={path}", *labels)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, calls))
    wrong = []
    for (path, (action, *labels)), answer in zip(calls, answers, strict=True):
        got = ours("routes", action, "--routes", str(path), *labels)
        if got != answer:
            wrong.append((path.read_text(encoding="utf-8"), action, labels, got, answer))
    assert not wrong, f"{len(wrong)} of {len(calls)} differ, the first: {wrong[0]}"
    assert sum(failed for failed, _ in answers) < len(calls) // 10, "the files are mostly refused: nothing was compared"


WHOLE = """
global: {smtp_smarthost: 'localhost:25', smtp_from: a@example.org, slack_api_url: 'https://hooks.slack.com/services/A/B/C'}
route:
  receiver: default
  group_by: [alertname]
  routes:
  - matchers: ['severity="page"']
    receiver: pager
    group_wait: 5s
    mute_time_intervals: [night]
    continue: true
receivers:
- name: default
- name: pager
  webhook_configs: [{url: 'http://localhost:9/'}]
  slack_configs: [{channel: '#x'}]
  email_configs: [{to: b@example.org}]
  pagerduty_configs: [{routing_key: abc}]
inhibit_rules:
- source_matchers: ['severity="page"']
  target_matchers: ['severity="info"']
  equal: [task]
time_intervals:
- name: night
  time_intervals:
  - times: [{start_time: '22:00', end_time: '24:00'}]
    weekdays: ['monday:friday']
    days_of_month: ['1:5', '-3:-1']
    months: ['january:march']
    years: ['2020:2030']
"""
# What is written in the place of what; both tools take the result, or both refuse it.
CHANGES = (
    ("receiver: default\n", "receiver: nobody\n"),
    ("receiver: default\n", ""),
    ("receiver: pager", "receiver: pagr"),
    ("- name: pager", "- name: default"),
    ("- name: pager", "- nam: pager"),
    ("- name: pager", "- labels: {}"),
    ("group_by: [alertname]", "group_by: ['...']"),
    ("group_by: [alertname]", "group_by: ['...', alertname]"),
    ("group_by: [alertname]", "group_by: [alertname, alertname]"),
    ("group_by: [alertname]", "group_by: []"),
    ("group_by: [alertname]", "group_by: ['']"),
    ("group_by: [alertname]", "group_by: alertname"),
    ("group_by: [alertname]", "matchers: ['a=b']"),
    ("group_by: [alertname]", "match: {a: b}"),
    ("group_by: [alertname]", "continue: true"),
    ("group_by: [alertname]", "mute_time_intervals: [night]"),
    ("group_by: [alertname]", "active_time_intervals: [night]"),
    ("group_by: [alertname]", "group_interval: 0s"),
    ("group_by: [alertname]", "repeat_interval: 0s"),
    ("group_by: [alertname]", "group_wait: 0s"),
    ("group_by: [alertname]", "group_wait: 5"),
    ("group_by: [alertname]", "group_wait: 0"),
    ("group_by: [alertname]", "group_wait: 1d12h"),
    ("group_wait: 5s", "match: {'a b': c}"),
    ("group_wait: 5s", "match_re: {a: '('}"),
    ("group_wait: 5s", "match_re: {a: b}"),
    ('severity="page"\'', 'severity=~"("\''),
    ('severity="page"\'', "severity'"),
    ('severity="page"\'', "severity=\"page'"),
    ('severity="page"\'', "severity=pa\"ge'"),
    ('severity="page"\'', "severity=page'"),
    ('severity="page"\'', "severity==page'"),
    ("mute_time_intervals: [night]", "mute_time_intervals: [day]"),
    ("mute_time_intervals: [night]", "active_time_intervals: [night]"),
    ("mute_time_intervals: [night]", "mute_time_interval: [night]"),
    ("{routing_key: abc}", "{}"),
    ("{routing_key: abc}", "{service_key: abc}"),
    ("{routing_key: abc}", "{routing_key: abc, details: {a: b}}"),
    ("{url: 'http://localhost:9/'}", "{}"),
    ("{url: 'http://localhost:9/'}", "{url: 'localhost:9'}"),
    ("{url: 'http://localhost:9/'}", "{url: 'http://localhost:9/', max_alerts: 3, send_resolved: false}"),
    ("{url: 'http://localhost:9/'}", "{url: 'http://h/', http_config: {basic_auth: {username: a, password: b}}}"),
    ("{url: 'http://localhost:9/'}", "{url: 'http://h/', http_config: {basic_aut: {}}}"),
    ("{channel: '#x'}", "{channel: '#x', api_url: 'https://h/', api_url_file: /x}"),
    ("{channel: '#x'}", "{channel: '#x', title: x, fields: [{title: a, value: b}]}"),
    ("{to: b@example.org}", "{}"),
    ("{to: b@example.org}", "{to: a, headers: {Subject: x}}"),
    ("smtp_from: a@example.org, ", ""),
    ("smtp_smarthost: 'localhost:25', ", ""),
    ("slack_api_url:", "slack_api_url_file: /x, slack_api_url:"),
    ("slack_api_url: 'https://hooks.slack.com/services/A/B/C'", "resolve_timeout: 1m"),
    ("'22:00'", "'25:00'"),
    ("'22:00'", "'9:00'"),
    ("'22:00'", "'24:00'"),
    ("monday:friday", "Monday:FRIDAY"),
    ("monday:friday", "mon"),
    ("'1:5'", "'0:5'"),
    ("'1:5'", "'-1:5'"),
    ("'1:5'", "'5:-20'"),
    ("'1:5'", "'20:-20'"),
    ("'1:5'", "5"),
    ("january:march", "1:3"),
    ("january:march", "march:january"),
    ("january:march", "maerz"),
    ("'2020:2030'", "2020"),
    ("'2020:2030'", "'2030:2020'"),
    ("years: ['2020:2030']", "location: Europe/Berlin"),
    ("years: ['2020:2030']", "location: Europe/Berlinn"),
    ("years: ['2020:2030']", "location: Local"),
    ("years: ['2020:2030']", "location: ''"),
    ("years: ['2020:2030']", "year: [2020]"),
    ("- name: night", "- name: night\n- name: night"),
    ("- name: night", "- times: []"),
    ("equal: [task]", "equal: [task, '']"),
    ("equal: [task]", "source_match: {a: b}\n  target_match_re: {c: d.*}"),
    ("equal: [task]", "source_match_re: {a: '['}"),
    ("inhibit_rules:", "templates: ['*.tmpl']\ninhibit_rules:"),
    ("inhibit_rules:", "mute_time_intervals: [{name: day}]\ninhibit_rules:"),
    ("inhibit_rules:", "inhibit_rule: []\ninhibit_rules:"),
    ("time_intervals:\n- name", "mute_time_intervals:\n- name"),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[1].strip() or f"no {change[0].strip()}")
def test_the_same_files_are_refused(amtool: str, tmp_path: Path, change: tuple[str, str]) -> None:
    """A file that amtool refuses is refused by us, and one that it takes is taken."""
    before, after = change
    text = WHOLE.replace(before, after, 1)
    assert text != WHOLE
    path = tmp_path / "alertmanager.yml"
    path.write_text(text, encoding="utf-8")
    (tmp_path / "a.tmpl").write_text("")
    refused, _ = theirs(amtool, "check-config", str(path))
    assert ours("routes", "show", "--routes", str(path))[0] == refused


def test_the_example_of_the_readme(amtool: str, tmp_path: Path) -> None:
    """It is read without a problem; without what is ours, amtool takes it, and both route alike."""
    text = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(# routes.yaml\n.*?)```", text, re.DOTALL)
    routing = load("routes.yaml", example)
    assert (targets.undone(routing), unreachable(routing), unused(routing)) == ([], [], [])
    assert any(route.escalate for route in routing.route.routes)
    plain = "".join(
        line for line in example.splitlines(keepends=True) if "escalate" not in line and "apprise" not in line
    )
    path = tmp_path / "routes.yaml"
    path.write_text(plain, encoding="utf-8")
    assert theirs(amtool, "check-config", str(path))[0] == 0
    for label in ("severity=page", "severity=info", "severity=none"):
        answer = theirs(amtool, "config", "routes", "test", f"--config.file={path}", label)
        assert ours("routes", "test", "--routes", str(path), label) == answer
