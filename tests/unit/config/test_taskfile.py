"""Contracts of tasks: which one holds, and what is wrong with a file, at its place."""

from __future__ import annotations

import pytest

from collector.config.taskfile import load
from collector.model.contract import UNASSIGNED, Backoff, Contract, Contracts
from collector.model.errors import ProblemsError

FILE = """
defaults:
  owner: platform
  max_attempts: 5
  review_within: 1d
tasks:
  - match: pay.refund
    semantics: must_complete
    deadline: 5m
    objective: 0.999
    backoff: {min: 1s, max: 1m, factor: 2}
    not_retryable: [CardDeclined]
    owner: payments
    runbook_url: https://runbooks.example.org/refund
  - {match: 'pay.*', queue: 'slow-*', semantics: must_complete, deadline: 1h}
  - {match: 'pay.*', semantics: must_complete, deadline: 10m}
  - {match: 'mail.*', semantics: best_effort}
"""


def test_the_first_entry_that_matches_holds_with_the_defaults():
    """By name, then by queue; what it leaves out the defaults say."""
    contracts = load("tasks.yaml", FILE)
    refund = contracts.of("pay.refund", "orders")
    assert (refund.owner, refund.deadline, refund.max_attempts, refund.review_within) == ("payments", 300.0, 5, 86_400)
    assert refund.backoff == Backoff(min=1.0, max=60.0, factor=2.0)
    assert contracts.of("pay.charge", "slow-1").deadline == 3600.0
    assert contracts.of("pay.charge", "orders").deadline == 600.0
    assert contracts.of("mail.send").semantics == "best_effort"
    assert contracts.plain() == ("pay.refund",)


def test_what_nobody_declared_promises_nothing():
    """Whatever the defaults say."""
    found = load("tasks.yaml", FILE).of("other")
    assert (found.semantics, found.owner, found.deadline, found.is_declared) == ("undeclared", UNASSIGNED, None, False)


def test_a_backoff_grows_to_its_longest():
    """1 s, 2 s, 4 s … 1 min."""
    backoff = Backoff(min=1.0, max=60.0, factor=2.0)
    assert [backoff.before(retry) for retry in (1, 2, 3, 7, 10_000)] == [1, 2, 4, 60, 60]


def test_what_was_looked_up_is_bounded(monkeypatch):
    """Millions of names cost no more than the bound."""
    monkeypatch.setattr("collector.model.contract.MOST_REMEMBERED", 10)
    contracts = Contracts([Contract(match="a*", semantics="best_effort")])
    assert all(contracts.of(f"a{number}").semantics == "best_effort" for number in range(100))
    assert len(contracts._found) <= 10


WRONG = {
    "semantics: sometimes": (3, "must_complete"),
    "semantics: null": (2, "no `semantics`"),
    "owner: x": (2, "no `semantics`"),
    "semantics: must_complete": (3, "needs an `owner`"),
    "semantics: best_effort\n    objective: 0.9": (4, "add the `deadline`"),
    "semantics: best_effort\n    objective: 99": (4, "1"),
    "semantics: best_effort\n    deadline: soon": (4, "soon"),
    "semantics: best_effort\n    max_attempts: 0": (4, "1"),
    "semantics: best_effort\n    retryable: [A, B]\n    not_retryable: [B]": (5, "B cannot be both"),
    "semantics: best_effort\n    backoff: {min: 1m, max: 1s}": (4, "below the shortest"),
    "semantics: best_effort\n    backoff: {factor: 0.5}": (4, "1"),
    "semantics: best_effort\n    idempotency_key: order": (4, "labels.NAME"),
    "semantics: best_effort\n    idempotency_key: labels.": (4, "labels.NAME"),
    "semantics: best_effort\n    ownr: x": (4, "owner"),
    "semantics: best_effort\n    runbook_url: nowhere": (4, "http"),
    "semantics: best_effort\n  - match: a\n    semantics: best_effort": (4, "never used"),
}


@pytest.mark.parametrize("terms", WRONG)
def test_a_wrong_contract_is_refused_at_its_place(terms):
    """Every problem with its line, and what to do."""
    line, words = WRONG[terms]
    with pytest.raises(ProblemsError) as caught:
        load("tasks.yaml", f"tasks:\n  - match: a\n    {terms}\n")
    assert any(problem.line == line and words in problem.message for problem in caught.value.problems), (
        caught.value.problems
    )


@pytest.mark.parametrize(("earlier", "later"), [("*", "a"), ("a.*", "a.b"), ("a.*", "a.b.*"), ("a.?", "a.?")])
def test_an_entry_behind_one_that_takes_all_of_it_is_a_finding(earlier, later):
    """What can never be used is not there for show."""
    lines = [f"  - {{match: '{glob}', semantics: best_effort}}" for glob in (earlier, later)]
    text = "\n".join(["tasks:", *lines, ""])
    with pytest.raises(ProblemsError, match="never used"):
        load("tasks.yaml", text)
