"""The words of a notification: alerts in, title and plain text out, for a person at 3 a.m.

Name, severity, owner and runbook come first, so that they survive every cut that a channel makes; what is long is
bounded here and says how much more there is. Nothing is escaped: markup differs from channel to channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from collector.model.alert import Alert
from collector.model.labels import Labels
from collector.model.severity import urgency
from collector.model.shown import counted
from collector.routing.evidence_text import evidence_lines, line_of

LEAST = 4
"""Ranks after every severity."""

MOST_ALERTS = 10
MOST_RUNBOOK_LINES = 8
MOST_TEXT = 6_000
"""Characters of a whole text; a line that would go past is left out, with a mark."""
_LONG = 400
_SHORT = 120
_SAID = frozenset(("alertname", "severity", "owner", "team", "task", "queue"))
"""Labels that a message says in words, where its alerts share them."""


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """What messages need besides the alerts. `runbooks`: name to Markdown text, where there is nothing to link to."""

    external_url: str = ""
    runbooks: Mapping[str, str] = {}


def rank(alert: Alert) -> int:
    """The alert's urgency; lower is more urgent."""
    return urgency(alert.labels)


def order(alerts: Iterable[Alert]) -> list[Alert]:
    """Firing before resolved, then the most urgent, then by start and labels: the same on every replica."""
    return sorted(alerts, key=lambda alert: (alert.state != "firing", rank(alert), alert.active_at, alert.labels))


def common(sets: Iterable[Labels]) -> Labels:
    """The pairs that all of these label sets have."""
    rest = iter(sets)
    shared = next(rest, ())
    for labels in rest:
        if labels is not shared:
            shared = tuple([pair for pair in shared if pair in labels])
    return shared


def compose(alerts: Sequence[Alert], wording: Wording) -> tuple[str, str]:
    """Title and text of one group's alerts, given in `order`."""
    shared = common(alert.labels for alert in alerts)
    firing = [alert for alert in alerts if alert.state == "firing"]
    lead = alerts[0]
    link, page = _runbook(lead, wording)
    lines = [f"severity: {_severity(lead)}   owner: {_owner(lead)}", link]
    rest = [f"{name}: {line_of(value, _SHORT)}" for name, value in shared if name not in _SAID]
    lines += [line for line in (_place(shared), "   ".join(rest)) if line]
    lines += ["", *_headline(lead)]
    if len(alerts) == 1:
        lines += _facts(lead)
    else:
        lines += _listed(alerts, len(firing), frozenset(shared), wording)
    if firing and page:
        lines += ["", "from the runbook:", *page]
    lines += evidence_lines(firing[:MOST_ALERTS], shared, wording.external_url)
    return _title(alerts, len(firing), shared), _bounded(lines)


def compose_away(alerts: Sequence[Alert], more: int, wording: Wording) -> tuple[str, str]:
    """Title and text of what fired and ended while nobody watched; `more` is how many besides these."""
    start = min(alert.active_at for alert in alerts)
    end = max(alert.resolved_at or alert.active_at for alert in alerts)
    lines = [f"These fired and ended between {iso(start)} and {iso(end)}:", ""]
    for alert in alerts[: 2 * MOST_ALERTS]:
        lines.append(f"- {_name(alert)} ({_severity(alert)}, owner {_owner(alert)}) {_place(alert.labels)}".rstrip())
        lines.append(f"  {_lasted(alert)}")
    unsaid = len(alerts[2 * MOST_ALERTS :]) + more
    if unsaid:
        lines.append(_more(unsaid, wording))
    count = len(alerts) + more
    return f"[RESOLVED] while the monitor was away: {counted(count, 'alert')} fired and ended", _bounded(lines)


def iso(at: float) -> str:
    """Unix seconds as UTC, ISO 8601, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """Seconds in the two largest units that are not zero: `1d 3h`, `4m 10s`, `0.3s`."""
    if seconds < 1:
        return f"{max(seconds, 0.0):.1f}s"
    parts, rest = [], round(seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def _title(alerts: Sequence[Alert], firing: int, shared: Labels) -> str:
    status = ("FLAPPING" if all(one.flapping for one in alerts[:firing]) else "FIRING") if firing else "RESOLVED"
    count = f" {firing or len(alerts):,}" if len(alerts) > 1 else ""
    if any(name == "alertname" for name, _ in shared):
        name = _name(alerts[0])
    else:
        names = sorted({_name(alert) for alert in alerts})
        name = f"{', '.join(names[:3])}{' ...' * (len(names) > 3)}"
    place = _place(shared)
    where = f": {place}" if place else ""
    return line_of(f"[{status}{count}] {name} ({_severity(alerts[0])}, owner {_owner(alerts[0])}){where}", 2 * _SHORT)


def _headline(alert: Alert) -> list[str]:
    """What the rule's author says of it."""
    notes = dict(alert.annotations)
    is_over = alert.state == "resolved"
    lines = [line_of(f"{'it was: ' * is_over}{notes.get('summary') or _name(alert)}", _LONG)]
    if not is_over and notes.get("description"):
        lines.append(line_of(notes["description"], _LONG))
    return lines


def _facts(alert: Alert) -> list[str]:
    """Since when and how much; or how long it lasted."""
    if alert.state == "firing":
        lines = [f"firing since {iso(alert.active_at)}, value {alert.value:.6g}{_span(alert)}{_often(alert)}"]
    else:
        lines = [f"resolved: {_lasted(alert)}"]
    if alert.flapping:
        lines.append("flapping: it begins and ends again and again; the next is said when it has been quiet for 15 min")
    if alert.blind:
        lines.append("blind: a source of this rule says nothing now; the alert is kept as it was")
    if alert.resolve_reason:
        lines.append(f"ended because: {line_of(alert.resolve_reason, _LONG)}")
    return lines


def _span(alert: Alert) -> str:
    """Between which values it moved in this episode; whether high or low is bad only the rule's author knows."""
    if alert.lowest is None or alert.highest is None or alert.lowest == alert.highest:
        return ""
    return f" (from {alert.lowest:.6g} to {alert.highest:.6g} so far)"


def _often(alert: Alert) -> str:
    fired = alert.evidence.fired_24h if alert.evidence else 0
    return f", fired {fired:,} times in 24 h" if fired > 1 else ""


def _listed(alerts: Sequence[Alert], firing: int, shared: frozenset[tuple[str, str]], wording: Wording) -> list[str]:
    """The first alerts of many, each by what sets it apart from the others; then how many more there are."""
    lines = ["", f"{firing:,} firing, {len(alerts) - firing:,} resolved:"]
    for alert in alerts[:MOST_ALERTS]:
        own = [f"{name}={line_of(value, _SHORT)}" for name, value in alert.labels if (name, value) not in shared]
        summary = dict(alert.annotations).get("summary", "")
        lines.append(f"- {'  '.join(own) or line_of(summary, _LONG) or _name(alert)}")
        if own and summary and summary != dict(alerts[0].annotations).get("summary"):
            lines.append(f"  {line_of(summary, _LONG)}")
        lines += [f"  {line}" for line in _facts(alert)]
    if len(alerts) > MOST_ALERTS:
        lines.append(_more(len(alerts) - MOST_ALERTS, wording))
    return lines


def _more(count: int, wording: Wording) -> str:
    return f"and {count:,} more{': ' * bool(wording.external_url)}{wording.external_url}"


def _lasted(alert: Alert) -> str:
    end = alert.active_at if alert.resolved_at is None else alert.resolved_at
    return f"lasted {duration(end - alert.active_at)}, {iso(alert.active_at)} to {iso(end)}"


def _runbook(alert: Alert, wording: Wording) -> tuple[str, list[str]]:
    """The line with the link; and, where there is nothing to build a link on, the first lines of the page itself."""
    url = dict(alert.annotations).get("runbook_url", "")
    if not url:
        return "runbook: none given", []
    if "://" in url:
        return f"runbook: {line_of(url, _LONG)}", []
    if wording.external_url:
        link = f"{wording.external_url.rstrip('/')}/{url.lstrip('/')}"
        return f"runbook: {line_of(link, _LONG)}", []
    name = url.rstrip("/").rpartition("/")[2].removesuffix(".md")
    lines = map(str.strip, wording.runbooks.get(name, "").splitlines())
    page = [line for line in lines if line and not line.startswith("#")]  # headings without their page say nothing
    return f"runbook: {line_of(name, _SHORT)}", [f"  {line_of(line, 2 * _SHORT)}" for line in page[:MOST_RUNBOOK_LINES]]


def _place(labels: Labels) -> str:
    """`pay.settle on payments`, as far as the labels say."""
    known = dict(labels)
    task, queue = known.get("task", ""), known.get("queue", "")
    if task and queue:
        return f"{line_of(task, _SHORT)} on {line_of(queue, _SHORT)}"
    return line_of(task or (queue and f"queue {queue}"), _SHORT)


def _name(alert: Alert) -> str:
    return line_of(_label(alert.labels, "alertname"), _SHORT) or "alert without a name"


def _severity(alert: Alert) -> str:
    return line_of(_label(alert.labels, "severity"), _SHORT) or "none"


def _owner(alert: Alert) -> str:
    return line_of(_label(alert.labels, "owner") or _label(alert.labels, "team"), _SHORT) or "unassigned"


def _label(labels: Labels, name: str) -> str:
    return next((value for key, value in labels if key == name), "")


def _bounded(lines: Sequence[str]) -> str:
    """The lines as one text, as many as fit."""
    room = MOST_TEXT
    for count, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return "\n".join((*lines[:count], "(cut)"))
    return "\n".join(lines)
