"""What became of rule tests: what was expected against what came, in promtool's sense, and how the two differ.

Takes values of both sides; gives outcomes that print as a diff for people and as plain data for JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from collector.alerting.notation import NAME
from collector.alerting.ruletest import ExpectedNotification
from collector.gotext.floats import format_float
from collector.model.alert import Alert, Notification
from collector.model.labels import Labels

Item: TypeAlias = dict[str, Any]
"""One element of a side as plain data: labels, and value, annotations or what a notification says."""

_INDENT = "    "


class Outcome(msgspec.Struct, kw_only=True):
    """One case: both sides, and whether they are the same."""

    kind: Literal["promql", "alert", "notification"]
    name: str
    """The expression, the alert's name, or the receiver's."""
    eval_time: float
    """Seconds after the test's start."""
    line: int
    column: int
    got: list[Item]
    exp: list[Item]
    ok: bool
    error: str = ""
    """Why there is nothing to compare."""

    def data(self) -> Item:
        """As `test --json` prints it."""
        name = {"promql": "expr", "alert": "alertname", "notification": "receiver"}[self.kind]
        found = {"kind": self.kind, name: self.name, "eval_time": float(self.eval_time), "line": self.line}
        found |= {"got": self.got, "exp": self.exp, "ok": self.ok}
        return found | {"error": self.error} if self.error else found


class TestResult(msgspec.Struct, kw_only=True):
    """One test with its cases."""

    name: str
    cases: list[Outcome] = []
    error: str = ""
    """Why the test ended early: a rule failed."""
    notes: list[str] = []
    """What decides nothing and should be known: templates that failed."""


# Comparing


def samples(
    got: Sequence[tuple[Labels, float]], expected: Sequence[tuple[Labels, float]], *, fuzzy: bool
) -> tuple[list[Item], list[Item], bool]:
    """Both sides of an expression, sorted, and whether they are equal. NaN is equal to nothing, as in promtool."""
    ours, theirs = sorted(got, key=_labels_first), sorted(expected, key=_labels_first)
    is_equal = len(ours) == len(theirs) and all(
        labels == wanted and (value == number or (fuzzy and _are_neighbours(value, number)))
        for (labels, value), (wanted, number) in zip(ours, theirs, strict=True)
    )
    return [_sample(one) for one in ours], [_sample(one) for one in theirs], is_equal


def _labels_first(sample: tuple[Labels, float]) -> tuple[Labels, str]:
    return sample[0], format_float(sample[1], "g")


def _are_neighbours(one: float, other: float) -> bool:
    return other in {math.nextafter(one, -math.inf), math.nextafter(one, math.inf)}


def _sample(sample: tuple[Labels, float]) -> Item:
    labels, value = sample
    return {"labels": dict(labels), "value": value if math.isfinite(value) else format_float(value, "g")}


def alerts(
    got: Sequence[tuple[Labels, Labels]], expected: Sequence[tuple[Labels, Labels]]
) -> tuple[list[Item], list[Item], bool]:
    """Both sides of an alert, sorted, and whether labels and annotations are the same."""
    ours, theirs = sorted(got), sorted(expected)
    return [_alert(one) for one in ours], [_alert(one) for one in theirs], ours == theirs


def _alert(one: tuple[Labels, Labels]) -> Item:
    return {"labels": dict(one[0]), "annotations": dict(one[1])}


def notifications(
    got: Sequence[tuple[float, Notification]], expected: Sequence[ExpectedNotification]
) -> tuple[list[Item], list[Item], bool]:
    """Both sides of a receiver, in the order of sending; what the expectation leaves out is as it came."""
    ours = [_said(at, notification) for at, notification in got]
    theirs = [_wanted(one) for one in expected]
    is_equal = len(ours) == len(theirs) and all(
        all(mine.get(name) == value for name, value in wanted.items())
        for mine, wanted in zip(ours, theirs, strict=True)
    )
    return ours, theirs, is_equal


def _said(at: float, notification: Notification) -> Item:
    return {
        "at": at,
        "status": notification.status,
        "labels": dict(notification.group_labels),
        "firing": _sets(one for one in notification.alerts if one.state == "firing"),
        "resolved": _sets(one for one in notification.alerts if one.state == "resolved"),
        "title": notification.title,
    }


def _sets(found: Iterator[Alert]) -> list[dict[str, str]]:
    return [dict(labels) for labels in sorted(alert.labels for alert in found)]


def _wanted(one: ExpectedNotification) -> Item:
    found = {
        "at": None if one.at is None else float(one.at),
        "status": one.status,
        "labels": None if one.group_labels is None else dict(one.group_labels),
        "firing": None if one.firing is None else [dict(labels) for labels in one.firing],
        "resolved": None if one.resolved is None else [dict(labels) for labels in one.resolved],
        "title": one.title,
    }
    return {name: value for name, value in found.items() if value is not None}


# Telling


def explain(outcome: Outcome) -> list[str]:
    """Lines that show both sides of a failed case, and what is not the same."""
    if outcome.error:
        return [outcome.error]
    return [
        "expected:",
        *_side(outcome.exp),
        "got:",
        *_side(outcome.got),
        "differs:",
        *(_INDENT + line for line in _differences(outcome)),
    ]


def _side(items: Sequence[Item]) -> list[str]:
    return [_INDENT + line for item in items for line in _shown(item)] or [f"{_INDENT}nothing"]


def _shown(item: Item) -> list[str]:
    """One element: its labels and value on a line, all else below."""
    head = metric_text(item["labels"]) if "labels" in item else ""
    if "value" in item:
        return [f"{head} {_number(item['value'])}"]
    if "status" in item:
        head = " ".join(part for part in (_at(item), item["status"], head) if part)
    lines = [head]
    lines += [f"{_INDENT}{name}: {_quoted(text)}" for name, text in item.get("annotations", {}).items()]
    lines += [
        f"{_INDENT}{state}: {metric_text(labels)}"
        for state in ("firing", "resolved")
        for labels in item.get(state, ())
        if "status" in item
    ]
    return lines + ([f"{_INDENT}title: {_quoted(item['title'])}"] if "title" in item else [])


def _at(item: Item) -> str:
    return f"at {duration_text(item['at'])}" if "at" in item else ""


def _differences(outcome: Outcome) -> Iterator[str]:
    """Equal elements are passed over; those with the same labels, and the last two left over, are held side by side."""
    exp, got = list(outcome.exp), list(outcome.got)
    if outcome.kind == "notification":
        pairs = list(zip(exp, got, strict=False))
        exp, got = exp[len(pairs) :], got[len(pairs) :]
    else:
        pairs = _paired(exp, got)
    for wanted, mine in pairs:
        yield from _compared(wanted, mine)
    for item in exp:
        yield f"missing: {_shown(item)[0]}"
    for item in got:
        yield f"not expected: {_shown(item)[0]}"


def _paired(exp: list[Item], got: list[Item]) -> list[tuple[Item, Item]]:
    """Elements of the same labels, taken out of both lists; and the last two, if only they are left."""
    pairs = []
    for wanted in list(exp):
        mine = next((one for one in got if one["labels"] == wanted["labels"]), None)
        if mine is not None:
            pairs.append((wanted, mine))
            exp.remove(wanted)
            got.remove(mine)
    if len(exp) == len(got) == 1:
        pairs.append((exp.pop(), got.pop()))
    return pairs


def _compared(wanted: Item, mine: Item) -> Iterator[str]:
    about = metric_text(mine.get("labels", {}))
    for part, value in wanted.items():
        other = mine[part]
        if value == other == "NaN":
            yield f"{about}: NaN is equal to nothing, not even NaN: test `x != x` instead"
        elif isinstance(value, dict):
            for name in sorted(value.keys() | other.keys()):
                if value.get(name) != other.get(name):
                    what = f"{part.removesuffix('s')} {name}"
                    yield f"{about}: {what}: expected {_quoted(value.get(name))}, got {_quoted(other.get(name))}"
        elif value != other:
            yield f"{about}: {part}: expected {_word(part, value)}, got {_word(part, other)}"


def _word(part: str, value: Any) -> str:
    if part == "at":
        return duration_text(value)
    if isinstance(value, list):
        return ", ".join(map(metric_text, value)) or "nothing"
    return _number(value) if part == "value" else _quoted(value)


def _quoted(text: str | None) -> str:
    return (
        "nothing" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    )


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else format_float(value, "g")


def metric_text(labels: dict[str, str]) -> str:
    """A metric as PromQL writes it."""
    pairs = ", ".join(f"{name}={_quoted(value)}" for name, value in labels.items() if name != NAME)
    name = labels.get(NAME, "")
    return f"{name}{{{pairs}}}" if pairs or not name else name


def duration_text(seconds: float) -> str:
    """Seconds as Prometheus writes durations: `1h30m`, `0s`."""
    milliseconds = round(seconds * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
