"""Captures of real runs against what the tasks themselves logged: one replay, and every difference named.

The captures and their manifest were made by running the frameworks; `truth` was summed up from logs of producers and
tasks, never from the capture. What cannot be seen from outside is listed by the tests as `Unseen`, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from collector.cli import replay

CAPTURES = Path(__file__).with_name("captures")
STATES = {"dead-lettered": "dead_lettered", "queued": "sent"}
"""Final states that the manifest calls otherwise."""


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """Differences that a capture cannot but have."""

    fact: str
    """`sent started succeeded retried failed state task`."""
    reason: str
    """Why it cannot be seen from outside: the wire reference's sentence."""
    capture: str = ""
    """Part of the capture's name; "": all of them."""
    task: str = ""
    """The task's name; "": every task."""
    ids: tuple[str, ...] = ()
    """The task ids; empty: every one."""
    when: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """What the truth says of such a task."""
    got: tuple[Any, ...] = ()
    """What is seen instead; empty: anything."""


class Difference(msgspec.Struct, frozen=True):
    """One fact of one task that is not as the truth has it."""

    capture: str
    task_id: str
    task: str
    fact: str
    expected: Any
    got: Any

    def is_explained(self, unseen: Unseen) -> bool:
        """Whether this is what `unseen` speaks of."""
        return (
            unseen.fact == self.fact
            and unseen.capture in self.capture
            and unseen.task in ("", self.task)
            and (not unseen.ids or self.task_id in unseen.ids)
            and (not unseen.got or self.got in unseen.got)
            and unseen.when(manifest()[self.capture]["truth"]["tasks"].get(self.task_id, {}))
        )


@cache
def manifest() -> dict[str, Any]:
    """The truth by the name of the capture file."""
    return {one["file"]: one for one in json.loads((CAPTURES / "manifest.json").read_bytes())["files"]}


def captures(framework: str) -> list[str]:
    """The capture files of one framework."""
    return [name for name, one in manifest().items() if one["framework"] == framework]


@cache
def replayed(*names: str, form: str | None = None) -> dict[str, Any]:
    """What `tasktrail replay --trails --json` prints of these captures."""
    arguments = ["--trails", "--json", *([f"--as={form}"] if form else []), *(str(CAPTURES / name) for name in names)]
    result: dict[str, Any] = json.loads(replay_json(arguments))
    return result


def replay_json(arguments: list[str]) -> bytes:
    """The command's standard output."""
    import argparse  # noqa: PLC0415 only here
    import contextlib  # noqa: PLC0415
    import io  # noqa: PLC0415

    parser = argparse.ArgumentParser()
    replay.configure(parser)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert replay.main(parser.parse_args(arguments)) == 0
    return out.getvalue().encode()


def differences(name: str) -> list[Difference]:
    """How a replay of the capture differs from the truth, task by task, and then by sums over each task name."""
    trails = replayed(name)["trails"]
    truth = manifest()[name]["truth"]["tasks"]
    found = []
    for task_id, true in truth.items():
        trail = trails.get(task_id, {})
        expected = {
            "task": true["name"],
            "sent": true["published"] + _repetitions(true),
            "started": true["started"],
            "succeeded": true["succeeded"],
            "retried": true["retried"],
            "failed": int(true.get("expect") == "failed"),
        }
        if true.get("expect"):
            expected["state"] = STATES.get(true["expect"], true["expect"])
        for fact, value in expected.items():
            got = trail.get(fact, "" if fact in ("task", "state") else 0)
            if fact == "succeeded":
                got += trail.get("duplicate_success", 0)
            if got != value:
                found.append(Difference(name, task_id, true["name"], fact, value, got))
    found += [Difference(name, task_id, trail["task"], "state", "", trail["state"]) for task_id, trail in trails.items()
              if task_id not in truth]  # fmt: skip
    return found


def _repetitions(true: dict[str, Any]) -> int:
    """How often RQ published a task anew under its id, after user code had done so once."""
    repeat = re.fullmatch(r"Repeat\(times=(\d+)\)", true.get("note") or "")
    return int(repeat[1]) if repeat else 0


def unexplained(name: str, unseen: list[Unseen]) -> list[Difference]:
    """The differences that no line of `unseen` explains."""
    return [one for one in differences(name) if not any(map(one.is_explained, unseen))]


def stale(names: list[str], unseen: list[Unseen]) -> list[Unseen]:
    """Lines of `unseen` that explain nothing (any more)."""
    found = [one for name in names for one in differences(name)]
    return [line for line in unseen if not any(one.is_explained(line) for one in found)]
