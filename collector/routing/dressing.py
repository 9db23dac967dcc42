"""What an alert of a task gets from the task's contract on its way to the groups: owner, semantics, runbook.

Takes alerts as their rules made them, gives copies. The fingerprint stays that of the rule's labels. What an alert was
given when it began to fire it keeps to its end, so that its end goes where its beginning went. On its way into a
message it gets the words and the evidence of that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TypeAlias

import msgspec

from collector.model.alert import Alert
from collector.model.contract import UNASSIGNED, Contract, Contracts
from collector.model.labels import Labels, labels_of
from collector.model.severity import SEVERITIES

NOT_URGENT = "warn"
"""The severity, as the shipped rules spell it, of an alert about best-effort tasks whose rule asks to page."""
_PAGING = 0

Newest: TypeAlias = Callable[[Alert, Labels], Alert | None]
"""A firing alert and its rule's labels to that alert as its rule has it now; None where there is nothing newer."""


class Dressing:
    """Contracts, laid over alerts. Without contracts alerts stay as they are."""

    def __init__(self) -> None:
        self.contracts: Contracts | None = None
        self.newest: Newest = lambda _alert, _own: None
        self._worn: dict[str, tuple[float, Contract, Labels]] = {}

    def dressed(self, alert: Alert) -> Alert:
        """A copy of the alert, with what its task's contract says and its rule does not."""
        taken = copy(alert)
        contract = self._kept(alert)
        if contract is not None:
            taken.labels = _labels(alert.labels, contract)
            taken.annotations = _with_runbook(alert.annotations, contract.runbook_url)
        return taken

    def as_now(self, alert: Alert) -> Alert:
        """A dressed alert; if it fires, in the words, with the value and evidence of now. What it wears it keeps."""
        own = self._worn[alert.fingerprint][2] if alert.fingerprint in self._worn else alert.labels
        if alert.state != "firing" or (newest := self.newest(alert, own)) is None:
            return alert
        return msgspec.structs.replace(
            alert,
            annotations=_with_runbook(newest.annotations, dict(alert.annotations).get("runbook_url", "")),
            value=newest.value,
            lowest=newest.lowest,
            highest=newest.highest,
            evidence=newest.evidence,
        )

    def labels(self, alert: Alert) -> Labels:
        """Those of the alert as it is told; nothing is remembered of having asked."""
        contract = self._contract(alert)
        return alert.labels if contract is None else _labels(alert.labels, contract)

    def _kept(self, alert: Alert) -> Contract | None:
        """The contract, which the alert keeps to its end."""
        contract = self._contract(alert)
        if alert.state == "resolved":
            self._worn.pop(alert.fingerprint, None)
        elif contract is not None:
            self._worn[alert.fingerprint] = alert.active_at, contract, alert.labels
        return contract

    def _contract(self, alert: Alert) -> Contract | None:
        began, contract, _ = self._worn.get(alert.fingerprint, (0.0, None, ()))
        if contract is not None and began == alert.active_at:
            return contract
        labels = dict(alert.labels)
        task = labels.get("task")
        if self.contracts is None or not task:
            return None
        return self.contracts.of(task, labels.get("queue", ""))


def _with_runbook(annotations: Labels, url: str) -> Labels:
    """With this runbook where they name none."""
    found = dict(annotations)
    return labels_of({**found, "runbook_url": url}) if url and not found.get("runbook_url") else annotations


def _labels(labels: Labels, contract: Contract) -> Labels:
    """With owner and semantics where the rule names none (`unassigned` names none); best-effort work pages nobody."""
    found = dict(labels)
    if found.get("owner", UNASSIGNED) == UNASSIGNED and not found.get("team"):
        found["owner"] = contract.owner
    found.setdefault("semantics", contract.semantics)
    if contract.semantics == "best_effort" and SEVERITIES.get(found.get("severity", "").lower()) == _PAGING:
        found["severity"] = NOT_URGENT
    return labels_of(found)
