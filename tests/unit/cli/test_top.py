"""`tasktrail top` of a daemon that only exists here."""

from __future__ import annotations

import io
import json
from urllib.parse import unquote_plus

import pytest
from rich.console import Console

from collector.cli import client, top
from collector.cli.main import main
from collector.model.errors import TasktrailError

SAMPLES = {
    "tasks_in_flight": [({"task": "bill", "queue": "pay"}, "3"), ({"task": "mail", "queue": "bulk"}, "40")],
    "task_started_total": [({"task": "bill", "queue": "pay"}, "0.25"), ({"task": "mail", "queue": "bulk"}, "1234.5")],
    "task_failed_total": [({"task": "bill", "queue": "pay"}, "2")],
    "task_run_seconds_bucket": [({"task": "bill", "queue": "pay"}, "NaN"), ({"task": "mail", "queue": "bulk"}, "0.25")],
    "dead_letters_open": [({"task": "bill", "queue": "pay"}, "12")],
    '{state="ready"}': [({"queue": "bulk", "source": "a"}, "7"), ({"queue": "pay", "source": "a"}, "1")],
    "queue_oldest_age_seconds": [({"queue": "pay", "source": "a"}, "75")],
    "tasktrail_source_up": [({"source": "kaf\x1bka"}, "0")],
}


def alert(name, state="firing", evidence=None, **labels):
    """As the API lists one."""
    labels = {"alertname": name, "severity": "page", **labels}
    return {"state": state, "labels": labels, "annotations": {"summary": f"about {name}"}, "evidence": evidence}


ALERTS = [
    alert("DeadLetter", task="bill", queue="pay"),
    alert("Backlog", queue="bulk"),
    alert("Soon", state="pending", task="mail"),
    alert("Watchdog", severity="none"),
]


class Daemon:
    """Answers as the daemon does."""

    def __init__(self):
        self.alerts = ALERTS
        self.is_gone = False

    def ask(self, method, path):
        """One request."""
        assert method == "GET"
        if self.is_gone:
            raise TasktrailError("http://h: no daemon answers there")
        if path == "/api/v1/alerts":
            return {"data": {"alerts": self.alerts}}

        assert path.startswith("/api/v1/query?query=")
        query = unquote_plus(path.partition("=")[2])
        found = next((samples for part, samples in SAMPLES.items() if part in query), [])
        return {"data": {"result": [{"metric": labels, "value": [1.0, value]} for labels, value in found]}}


@pytest.fixture
def daemon(monkeypatch):
    """In the place of a real one."""
    made = Daemon()
    monkeypatch.setattr(client, "Client", lambda _arguments: made)
    return made


def drawn(found, trouble=""):
    """The lines of a picture, without its frames."""
    out = Console(file=io.StringIO(), width=200)
    out.print(top.picture(found, "http://h", trouble))
    return [" ".join(line.replace("│", " ").split()) for line in out.file.getvalue().splitlines()]


def test_the_most_urgent_comes_first_with_all_that_is_known_of_it(daemon):
    """What is not known is not there, rather than 0; an alert is counted where it is about a row."""
    lines = drawn(top.look(daemon))
    assert lines[0].endswith("http://h 2 firing")
    assert lines[1:4] == ["down: kaf\\x1bka", "DeadLetter: about DeadLetter", "Backlog: about Backlog"]
    assert lines.index("bill pay 3 0.2 2 12 1") < lines.index("mail bulk 40 1,234.5 250ms")
    assert lines.index("pay a 1 1m 15s 1") < lines.index("bulk a 7 1")


def test_it_is_printed_once_where_there_is_no_terminal(daemon, capsys):
    """As JSON too, every number under its name."""
    assert main(["top"]) == 0
    assert capsys.readouterr().out.count("DeadLetter: about DeadLetter") == 1
    assert main(["top", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["labels"]["alertname"] for one in found["alerts"]] == ["DeadLetter", "Backlog"]
    assert found["sources_down"] == ["kaf\x1bka"]
    names = ("task", "queue", "in_flight", "failed", "retried", "p95_run_seconds", "dead_letters", "alerts")
    assert [[row[name] for name in names] for row in found["tasks"]] == [
        ["bill", "pay", 3.0, 2.0, None, None, 12.0, 1],
        ["mail", "bulk", 40.0, None, None, 0.25, None, 0],
    ]
    assert [(row["queue"], row["ready"], row["oldest_age_seconds"]) for row in found["queues"]] == [
        ("pay", 1.0, 75.0),
        ("bulk", 7.0, None),
    ]


def test_a_daemon_that_goes_away_leaves_what_was_seen_last(daemon):
    """With a word about it; one that was never there ends the call with 2, as does a time that is none."""
    found = top.look(daemon)
    assert drawn(found, "no daemon answers there")[1] == "not asked since: no daemon answers there"
    daemon.is_gone = True
    assert main(["top"]) == 2


def test_many_alerts_and_no_work_are_a_few_lines(daemon, monkeypatch):
    """How many more there are is said."""
    daemon.alerts = [alert(f"A{number}") for number in range(9)]
    for name in list(SAMPLES):
        monkeypatch.setitem(SAMPLES, name, [])
    lines = drawn(top.look(daemon))
    assert lines[1 + top.MOST_ALERTS :] == ["and 4 more: tasktrail alerts", "no tasks yet", "no queues yet"]


def test_many_rows_are_a_few_lines(daemon, monkeypatch):
    """The most urgent of them, each with its own alerts; how many more there are is said, and JSON has them all."""
    count = 2_000
    named = [{"task": f"t{number}", "queue": "q"} for number in range(count)]
    monkeypatch.setitem(SAMPLES, "tasks_in_flight", [(labels, "1") for labels in named])
    daemon.alerts = [alert("Failing", **labels) for labels in (*named, named[7])]
    found = top.look(daemon)
    assert len(found["tasks"]) == count + 2
    assert [(row["task"], row["alerts"]) for row in found["tasks"][:2]] == [("t7", 2), ("t0", 1)]
    lines = drawn(found)
    assert f"and {count + 2 - top.MOST_ROWS:,} more tasks: tasktrail top --json" in lines


def test_tasks_without_a_name_have_their_alerts(daemon, monkeypatch):
    """An alert lacks a label that is empty, as does one that is not about tasks: what it shows tells them apart."""
    monkeypatch.setitem(SAMPLES, "tasks_in_flight", [({"queue": "q"}, "1"), ({}, "2"), ({"task": "a"}, "3")])
    daemon.alerts = [
        alert("Failing", evidence={"offenders": [{"task": "", "queue": "q"}]}, queue="q"),
        alert("Failing", evidence={"offenders": [{"task": "", "queue": ""}]}),
        alert("Failing", evidence={"offenders": [{"task": "a", "queue": ""}, {"task": "", "queue": ""}]}),
        alert("SourceBlind", evidence={"offenders": []}, source="s"),
    ]
    found = top.look(daemon)["tasks"]
    counts = {(row["task"], row["queue"]): row["alerts"] for row in found if row["in_flight"]}
    assert counts == {("", "q"): 1, ("", ""): 1, ("a", ""): 0}
