"""The commands of the README do what is printed beside them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from collector.cli.main import main
from tests.integration.live import ROOT, Daemon

TOKENS = ("T00000000", "B00000000", "x" * 24)
"""Of the form that Slack's tokens have."""


def block(first: str) -> list[str]:
    """The console block of the README that starts with a command."""
    blocks: list[str] = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (found,) = (one for one in blocks if one.startswith(f"$ {first}"))
    return found.splitlines()


def commands(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Each command (with its here-document) and the lines that are printed after it."""
    found: list[tuple[list[str], list[str]]] = []
    is_document = False
    for line in lines:
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif is_document:
            found[-1][0].append(line)
        else:
            found[-1][1].append(line)
        is_document = line.endswith("<<'END'") or (is_document and line != "END")
    return [("\n".join(command), printed) for command, printed in found]


def test_the_push_of_the_quick_start(run: Callable[..., Daemon], tmp_path: Path) -> None:
    """Pasted as they are, the events are counted as printed, the task is found and its alerts are listed."""
    (start, _), *asked = commands(block("tasktrail run &"))
    daemon = run(*start.removeprefix("tasktrail run").removesuffix("&").split())
    answers = []
    for command, printed in asked:
        call = ["bash", "-c", command.replace(":9810", f":{daemon.port}")]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert not printed or done.stdout.splitlines() == printed
        answers.append(msgspec.json.decode(done.stdout))
    counted, task, alerts = answers
    assert counted["accepted"] == 3
    assert task["state"] == "dead_lettered"
    names = {alert["labels"]["alertname"] for alert in alerts["data"]["alerts"]}
    assert names >= {"DeadLetter", "TaskFailing"}


def test_the_rules_and_their_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pasted into files of the names that stand in their first lines, the examples of rules, tasks and routes pass."""
    for text in re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        if named := re.match(r"# (\w+\.yaml)\n", text):
            (tmp_path / named[1]).write_text(text)
    for name in ("slack-url", "pagerduty-key"):
        (tmp_path / name).write_text("https://hooks.slack.com/services/A/B/C")
    assert main(["test", str(tmp_path / "rules_test.yaml")]) == 0
    names = ("rules.yaml", "rules_test.yaml", "tasks.yaml", "routes.yaml")
    assert main(["check", *(str(tmp_path / name) for name in names)]) == 0
    capsys.readouterr()


def test_the_first_page_is_understood(run: Callable[..., Daemon]) -> None:
    """With a Kafka that is not there it says what it understood and keeps trying; also with a chat as the target."""
    (_, (command, _)) = commands(block("pip install ."))
    assert "localhost:9092" in command
    options = command.removeprefix("tasktrail run ").replace("localhost:9092", "127.0.0.1:1").split()
    daemon = run(*options, "--notify", f"slack://{'/'.join(TOKENS)}")
    daemon.wait(lambda: "target slack" in daemon.log.lower(), 10, "the target is not named")
    assert "target log: " in daemon.log
    assert not any(token in daemon.log for token in TOKENS), "a token is a secret"
    assert daemon.ask("/api/sources")[0] == 503
