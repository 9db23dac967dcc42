"""Alerts get from their task's contract what their rule does not say, on the way to the groups."""

from __future__ import annotations

from collector.model.alert import Alert
from collector.model.contract import Contract, Contracts
from collector.model.labels import labels_of
from collector.routing.dressing import Dressing
from collector.routing.grouping import Grouping

PAY = Contract(
    match="pay.*", semantics="must_complete", owner="payments", deadline=60.0, runbook_url="https://wiki/pay"
)
MAIL = Contract(match="mail.*", semantics="best_effort", owner="growth")


def alert(task="pay.settle", state="firing", annotations=None, **labels) -> Alert:
    """An alert about a task."""
    return Alert(
        labels=labels_of({"alertname": "A", "severity": "page", "task": task, **labels}),
        annotations=labels_of(annotations or {}),
        fingerprint=f"of {task}",
        state=state,
        value=1.0,
        active_at=10.0,
        fired_at=10.0,
    )


def dressing(*contracts: Contract) -> Dressing:
    """With these contracts."""
    made = Dressing()
    made.contracts = Contracts(contracts or (PAY, MAIL))
    return made


def test_an_alert_gets_owner_semantics_and_runbook_and_keeps_its_fingerprint() -> None:
    """Where the rule sets none; what it was made from stays as it is."""
    bare = alert(owner="unassigned")
    worn = dressing().dressed(bare)
    assert dict(worn.labels)["owner"] == "payments"
    assert dict(worn.labels)["semantics"] == "must_complete"
    assert dict(worn.annotations) == {"runbook_url": "https://wiki/pay"}
    assert worn.fingerprint == bare.fingerprint
    assert dict(bare.labels)["owner"] == "unassigned"


def test_what_the_rule_says_stays() -> None:
    """An owner, a team or a runbook of the rule goes before the contract's."""
    own = dressing().dressed(alert(owner="me", semantics="mine", annotations={"runbook_url": "https://own"}))
    assert (dict(own.labels)["owner"], dict(own.labels)["semantics"]) == ("me", "mine")
    assert dict(own.annotations) == {"runbook_url": "https://own"}
    assert "owner" not in dict(dressing().dressed(alert(team="us")).labels)


def test_what_nobody_declared_is_said_to_be_undeclared() -> None:
    """It is nobody's, and says so."""
    labels = dict(dressing().dressed(alert("other")).labels)
    assert (labels["semantics"], labels["owner"]) == ("undeclared", "unassigned")


def test_best_effort_pages_nobody() -> None:
    """What would page is told under the shipped rules' word for what can wait; what does not page stays what it is."""
    made = dressing()
    assert dict(made.dressed(alert("mail.send")).labels)["severity"] == "warn"
    assert dict(made.dressed(alert("mail.more", severity="info")).labels)["severity"] == "info"
    assert dict(made.dressed(alert()).labels)["severity"] == "page"


def test_without_contracts_or_task_nothing_is_added() -> None:
    """An alert about no task, or without a tasks file, goes as it came."""
    bare = alert()
    assert Dressing().dressed(bare).labels == bare.labels
    nobody = alert(task="")
    assert dressing().dressed(nobody).labels == nobody.labels


def test_an_alert_ends_as_what_it_began() -> None:
    """Contracts that changed in between hold for the next one."""
    made = dressing()
    made.dressed(alert())
    made.contracts = Contracts()
    assert dict(made.dressed(alert(state="resolved")).labels)["owner"] == "payments"
    assert dict(made.dressed(alert()).labels)["owner"] == "unassigned"


def test_asking_for_labels_changes_nothing() -> None:
    """They are those that are told, at the beginning and at the end, however often they are asked for before."""
    made = dressing()
    assert made.labels(alert()) == made.dressed(alert()).labels
    made.contracts = Contracts()
    ended = alert(state="resolved")
    assert made.labels(ended) == made.labels(ended) == made.dressed(ended).labels
    assert dict(made.labels(alert()))["owner"] == "unassigned"
    assert Dressing().labels(alert()) == alert().labels


def test_groups_are_told_the_owner() -> None:
    """Routing, grouping and messages see the labels of the contract."""
    grouping = Grouping()
    grouping.dressing.contracts = Contracts((PAY,))
    grouping.insert([alert()], 10.0)
    (said,) = grouping.due(10.0)
    assert "owner payments" in said.title
    assert dict(said.common_labels)["owner"] == "payments"
