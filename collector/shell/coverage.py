"""Which tasks somebody has promised something about: what was seen, held against contracts and rules.

Takes what trails were seen to do; gives a row per task with what is missing, and a first draft of a tasks file for a
person to finish: it is refused until each task has an owner.
"""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from collector.alerting.lifecycle import AlertRule
from collector.alerting.rule import Rule
from collector.model.contract import UNASSIGNED, Contract, Contracts
from collector.trail.listing import Seen

ROUND = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Seconds that a drafted deadline may have: somebody has to remember it."""
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


def covered(seen: Mapping[str, Seen], contracts: Contracts | None, rules: Iterable[Rule]) -> list[Covered]:
    """A row per task, by name."""
    watching = [rule for rule in rules if isinstance(rule, AlertRule)]
    declared = contracts or Contracts()
    return [_covered(one, declared, watching) for _, one in sorted(seen.items())]


def _covered(one: Seen, contracts: Contracts, rules: Sequence[AlertRule]) -> Covered:
    queues = sorted(queue for queue in one.queues if queue)
    contract = contracts.of(one.task, queues[0] if queues else "")
    count = sum(_is_about(rule, one.task) for rule in rules)
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


def _is_about(rule: AlertRule, task: str) -> bool:
    """Whether an alert of the rule can name the task."""
    return any(
        selector.name is not None
        and selector.name.startswith(("task", "dead_letter"))
        and all(matcher.matches(task) for matcher in selector.matchers if matcher.name == "task")
        for selector in rule.inputs
    )


def draft(seen: Mapping[str, Seen], contracts: Contracts | None) -> str:
    """A tasks file for what was seen and nobody declared. To be edited: it promises what happened, not what should."""
    declared = contracts or Contracts()
    lines = [
        "# A first draft, of what was seen. For each task: decide its semantics, name its owner, correct the rest.",
        "",
    ]
    rows = (one for _, one in sorted(seen.items()))
    entries = [one for one in rows if not declared.of(one.task, min(one.queues, default="")).is_declared]
    lines.append("tasks:" if entries else "tasks: []")
    for one in entries:
        lines += _entry(one)
    return "\n".join(lines) + "\n"


def _entry(one: Seen) -> list[str]:
    lines = [
        f"  # seen: {one.trails} tasks in {', '.join(map(json.dumps, sorted(one.queues)))}",
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
