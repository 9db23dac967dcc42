"""`/api/v1/rules` and `/api/v1/alerts`: rule groups as Prometheus lists them, with our `blind` besides."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from collector.alerting.group import Group
from collector.alerting.lifecycle import AlertRule
from collector.alerting.rule import Rule
from collector.model.labels import Labels
from collector.promql import Selector
from collector.web import answers
from collector.web.prometheus import Parameters, endpoint, invalid, success
from collector.web.view import VIEW, View

TYPES = {"": (True, True), "alert": (True, False), "record": (False, True)}
"""`type=`: whether alerting and recording rules are wanted."""
_BOOLEANS = {**dict.fromkeys(("", "0", "f", "false"), False), **dict.fromkeys(("1", "t", "true"), True)}
NEVER = "0001-01-01T00:00:00Z"
"""How Prometheus writes the time of an evaluation that did not happen yet."""


@endpoint
async def alerts(request: web.Request, _parameters: Parameters) -> web.StreamResponse:
    """Pending and firing alerts."""
    groups = request.app[VIEW].groups
    rules = [rule for group in groups for rule in group.rules if isinstance(rule, AlertRule)]
    return success({"alerts": [one for rule in rules for one in _active(rule)]})


@endpoint
async def rules(request: web.Request, parameters: Parameters) -> web.StreamResponse:
    """Rule groups with their rules and alerts, filtered and paged as in Prometheus."""
    view = request.app[VIEW]
    wanted = _Wanted(parameters)
    most, token = _page(parameters)
    names, files = set(parameters.every("rule_group[]")), set(parameters.every("file[]"))
    found: list[dict[str, Any]] = []
    answer: dict[str, Any] = {"groups": found}
    has_begun = not token
    for group in view.groups:
        has_begun = has_begun or token == _token(group)
        if not has_begun or (names and group.name not in names) or (files and group.spec.file not in files):
            continue
        listed = [_rule(view, rule, wanted) for rule in group.rules if wanted.has(rule)]
        if listed and most and len(found) == most:
            answer["groupNextToken"] = _token(group)
            break
        if listed:
            found.append({**_group(group), "rules": listed})
    if not has_begun:
        raise invalid("group_next_token", f"invalid group_next_token '{token}'. were rule groups changed?")
    return success(answer)


class _Wanted:
    """Which rules are asked for. Raises ApiError for what is not understood."""

    def __init__(self, parameters: Parameters) -> None:
        kind, exclude = parameters.text("type").lower(), parameters.text("exclude_alerts").lower()
        if kind not in TYPES:
            raise invalid("type", f'not supported value "{kind}"')
        if exclude not in _BOOLEANS:
            raise invalid("exclude_alerts", f'error converting exclude_alerts: "{exclude}": invalid syntax')
        self.alerts, self.records = TYPES[kind]
        self.with_alerts = not _BOOLEANS[exclude]
        self._names = set(parameters.every("rule_name[]"))
        self._selectors = parameters.selectors()

    def has(self, rule: Rule) -> bool:
        is_wanted = self.alerts if isinstance(rule, AlertRule) else self.records
        return is_wanted and (not self._names or rule.name in self._names) and _matches(rule, self._selectors)


def _matches(rule: Rule, selectors: Sequence[Selector]) -> bool:
    """As Prometheus has it: the labels as written, where templates match nothing."""
    own = {name: value for name, value in rule.spec.written_labels if "{{" not in value}
    return not selectors or any(
        all(matcher.matches(own.get(matcher.name, "")) for matcher in selector.matchers) for selector in selectors
    )


def _page(parameters: Parameters) -> tuple[int, str]:
    limit, token = parameters.text("group_limit"), parameters.text("group_next_token")
    if token and not limit:
        message = "group_limit needs to be present in order to paginate over the groups"
        raise invalid("group_next_token", message)
    most = parameters.count("group_limit")
    if limit and not most:
        raise invalid("group_limit", "group_limit needs to be greater than 0")
    return most, token


def _token(group: Group) -> str:
    return hashlib.sha256(f"{group.spec.file};{group.name}".encode()).hexdigest()


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "file": group.spec.file,
        "interval": float(group.interval),
        "limit": group.spec.limit,
        "evaluationTime": sum(rule.evaluation_seconds for rule in group.rules),
        "lastEvaluation": NEVER if group.evaluated_at is None else answers.rfc3339(group.evaluated_at),
    }


def _rule(view: View, rule: Rule, wanted: _Wanted) -> dict[str, Any]:
    common = {
        "name": rule.name,
        "query": rule.spec.expr.text.strip(),
        "labels": dict(rule.spec.written_labels),
        "health": rule.health,
        "evaluationTime": rule.evaluation_seconds,
        "lastEvaluation": NEVER if rule.evaluated_at is None else answers.rfc3339(rule.evaluated_at),
        "blind": view.is_blind(rule),
    }
    if rule.last_error:
        common["lastError"] = rule.last_error
    if rule.pace.missed:
        common["slotsMissed"] = rule.pace.missed
    if not isinstance(rule, AlertRule):
        return {**common, "type": "recording"}
    return {
        **common,
        "type": "alerting",
        "state": rule.state(),
        "duration": float(rule.spec.hold),
        "keepFiringFor": float(rule.spec.keep_firing_for),
        "annotations": {name: template.text for name, template in rule.spec.annotations},
        "alerts": _active(rule) if wanted.with_alerts else None,
    }


def _active(rule: AlertRule) -> list[dict[str, Any]]:
    gone_since: dict[Labels, float] = rule.kept_firing()
    listed = []
    for alert in rule.alerts():
        if alert.state != "resolved":
            listed.append(answers.alert(alert))
            if alert.labels in gone_since:
                listed[-1]["keepFiringSince"] = answers.rfc3339(gone_since[alert.labels])
    return listed
