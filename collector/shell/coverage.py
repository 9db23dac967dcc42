"""Which tasks somebody has promised something about: what was seen, held against contracts and rules.

Takes what trails were seen to do; gives a row per task with what is missing, and a first draft of a tasks file for a
person to finish: it is refused until each task has an owner.
"""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from collector.alerting.lifecycle import AlertRule
from collector.alerting.rule import Rule
from collector.model.contract import UNASSIGNED, Contract, Contracts
from collector.model.labels import Matcher
from collector.model.shown import counted
from collector.trail.listing import Seen

ROUND = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Seconds that a drafted deadline may have: somebody has to remember it."""
STEP = 100
"""Tasks that are looked at in one uninterrupted step."""
_FIRST_LINE = (
    "# A first draft, of what was seen. For each task: decide its semantics, name its owner, correct the rest."
)
_SPARE = 3
"""A drafted deadline is at least so many times what 99 of 100 took."""


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """One task name, and what it lacks of `contract owner runbook rule dead_letters`."""

    task: str
    queues: list[str]
    trails: int
    semantics: str
    owner: str
    runbook_url: str
    rules: int
    """Alerting rules that can be about it."""
    missing: list[str]


class Coverage(msgspec.Struct, frozen=True):
    """What is known of all tasks."""

    tasks: list[Covered]
    """By name."""
    draft: str
    """A tasks file for what nobody declared. To be edited: it promises what happened, not what should."""


def coverage(seen: Mapping[str, Seen], contracts: Contracts | None, rules: Iterable[Rule]) -> Iterator[Coverage | None]:
    """None after each short step, and at last the coverage."""
    declared, watching = contracts or Contracts(), _Watching(rules)
    tasks: list[Covered] = []
    entries: list[str] = []
    for number, (_, one) in enumerate(sorted(seen.items()), 1):
        row = _covered(one, declared, watching)
        tasks.append(row)
        if "contract" in row.missing:
            entries += _entry(one)
        if number % STEP == 0:
            yield None
    lines = [_FIRST_LINE, "", "tasks:" if entries else "tasks: []", *entries, ""]
    yield Coverage(tasks, "\n".join(lines))


def _covered(one: Seen, contracts: Contracts, watching: _Watching) -> Covered:
    queues = sorted(queue for queue in one.queues if queue)
    contract = contracts.of(one.task, queues[0] if queues else "")
    count = watching.count(one.task)
    return Covered(
        task=one.task,
        queues=queues,
        trails=one.trails,
        semantics=contract.semantics,
        owner=contract.owner,
        runbook_url=contract.runbook_url,
        rules=count,
        missing=[name for name, is_there in _has(one, contract, count).items() if not is_there],
    )


def _has(one: Seen, contract: Contract, rules: int) -> dict[str, bool]:
    is_kept = one.is_dead_lettered or contract.is_declared  # best-effort work may be dropped, other work is kept here
    return {
        "contract": contract.is_declared,
        "owner": contract.owner != UNASSIGNED,
        "runbook": bool(contract.runbook_url),
        "rule": rules > 0,
        "dead_letters": is_kept,
    }


class _Watching:
    """How many alerting rules can name a task: most can name any, and only the others are asked about each."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._of_any = 0
        self._of_some: list[list[list[Matcher]]] = []
        """Of a rule, for each of its selectors, what the task must match."""
        for rule in rules:
            chosen = [
                [matcher for matcher in selector.matchers if matcher.name == "task"]
                for selector in (rule.inputs if isinstance(rule, AlertRule) else ())
                if selector.name is not None and selector.name.startswith(("task_", "tasks_", "dead_letter"))
            ]
            if all(chosen):
                self._of_some.append(chosen)
            else:
                self._of_any += 1

    def count(self, task: str) -> int:
        """Of a task of this name."""
        return self._of_any + sum(
            any(all(matcher.matches(task) for matcher in matchers) for matchers in chosen) for chosen in self._of_some
        )


def _entry(one: Seen) -> list[str]:
    lines = [
        f"  # seen: {counted(one.trails, 'task')} in {', '.join(map(json.dumps, sorted(one.queues)))}",
        f"  - match: {json.dumps(glob.escape(one.task))}",
        "    semantics: must_complete  # or best_effort, for what may be dropped",
        f"    owner: {UNASSIGNED}  # who repairs it?",
    ]
    if one.totals:
        slow = sorted(one.totals)[math.ceil(0.99 * len(one.totals)) - 1]
        deadline = next((seconds for seconds in ROUND if seconds >= _SPARE * slow), ROUND[-1])
        lines.append(f"    deadline: {deadline}s  # 99% of {len(one.totals)} were done in {slow:.3g} s")
    if one.attempts:
        lines.append(f"    max_attempts: {one.attempts}  # the most that were seen")
    retryable = sorted(set(one.retried) - set(one.failed))
    if retryable:
        lines.append(f"    retryable: {json.dumps(retryable)}")
    if final := sorted(set(one.failed) - set(one.retried)):
        lines.append(f"    not_retryable: {json.dumps(final)}")
    return lines
