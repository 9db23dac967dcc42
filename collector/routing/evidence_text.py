"""The evidence of alerts as lines of text: offending tasks, errors, what changed, who is in it, how it went.

Bounded in lines and in the length of each. Nothing is escaped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from collector.model.alert import Alert, Evidence, Offender, Share
from collector.model.graphemes import cut
from collector.model.labels import Labels
from collector.model.secret import mask
from collector.model.shown import counted, shown

_MOST_PARTS = 5
_SHORT = 120
_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def line_of(text: str, most: int) -> str:
    """The text on one line of at most so many characters: a traceback must not break the layout."""
    return cut(shown(" ".join(text[: 4 * most].split())), most)


def evidence_lines(alerts: Sequence[Alert], shared: Labels, external_url: str = "") -> list[str]:
    """The offending tasks of all alerts together, newest first, and the commonest error classes."""
    offenders: dict[tuple[str, str], Offender] = {}
    errors: Counter[str] = Counter()
    for alert in alerts:
        if alert.evidence is None:
            continue
        errors.update(dict(alert.evidence.top_errors))
        for offender in alert.evidence.offenders:
            offenders.setdefault((offender.task, offender.task_id), offender)
    lines: list[str] = []
    if offenders:
        newest = sorted(offenders.values(), key=lambda offender: -offender.at)[:_MOST_PARTS]
        lines += ["", "offending tasks, newest first:"]
        for offender in newest:
            lines += _offender(offender, shared, external_url)
    if errors:
        total = errors.total()
        named = (f"{line_of(name, _SHORT)} {n:,} ({n / total:.0%})" for name, n in errors.most_common(_MOST_PARTS))
        lines += ["", f"top errors: {', '.join(named)}"]
    found = [alert.evidence for alert in alerts if alert.evidence is not None]
    return lines + _around(found, shared)


def _around(found: Sequence[Evidence], shared: Labels) -> list[str]:
    """What changed, who is in it, how it went, what is still open: each a line, where it is known."""
    lines = [_share(share) for evidence in found[:1] for share in evidence.changed]
    for name in ("workers", "queues", "callers"):
        split: Counter[str] = Counter()
        for evidence in found:
            split.update(dict(getattr(evidence, name)))
        if name == "queues" and (len(split) < 2 or any(label == "queue" for label, _ in shared)):
            continue
        if split:
            parts = ", ".join(f"{line_of(part, _SHORT)} {n:,}" for part, n in split.most_common(_MOST_PARTS))
            lines.append(f"{name} of the latest {split.total():,}: {parts}")
    open_ones = [evidence.open_dead_letters for evidence in found if evidence.open_dead_letters is not None]
    if open_ones:
        lines.append(f"dead letters still open: {sum(open_ones):,} (tasktrail dead-letters list)")
    if found and len(found[0].values) > 1:
        low, high = min(found[0].values), max(found[0].values)
        went = sparkline(found[0].values, min(low, 0.0))
        lines.append(f"its value at the last evaluations: {went} (from {low:.6g} to {high:.6g})")
    if found and any(found[0].slots):
        first = found[0]
        seconds = f"{first.slot_seconds:g} s"
        lines.append(
            f"{first.slots_of}, every {seconds} until now: {sparkline(first.slots)} (at most {max(first.slots):g})"
        )
    return ["", *lines] if lines else []


def _share(share: Share) -> str:
    before = f"{share.count_before / share.of_before:.0%} of {share.of_before:,}" if share.of_before else "none"
    return (
        f"changed: {line_of(share.what, _SHORT)} is {share.count / share.of:.0%} of {share.of:,}, was {before} before"
    )


def sparkline(values: Sequence[float], low: float = 0.0) -> str:
    """One block a value, from `low` to the highest."""
    most = max(values, default=low) - low
    if most <= 0:
        return _BLOCKS[0] * len(values)
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[max(0, min(top, math.ceil((value - low) / most * top)))] for value in values)


def _offender(offender: Offender, shared: Labels, external_url: str) -> list[str]:
    """The lines of one task; its name and queue only where the head has not named them."""
    tries = counted(offender.attempts, "attempt") if offender.attempts else ""
    what = (offender.state, offender.error, tries)
    known = dict(shared)
    where = (
        ("task", "" if known.get("task") == offender.task else offender.task),
        ("queue", "" if known.get("queue") == offender.queue else offender.queue),
        ("worker", offender.worker),
        ("caller", offender.caller),
        ("trace", offender.trace_id),
    )
    lines = [f"- {line_of(offender.task_id, _SHORT)}: {', '.join(line_of(text, _SHORT) for text in what if text)}"]
    place = "  ".join(f"{name} {line_of(text, _SHORT)}" for name, text in where if text)
    if place:
        lines.append(f"  {place}")
    if offender.arguments:
        lines.append(f"  called with {line_of(offender.arguments, 2 * _SHORT)}")
    if offender.error_message:
        lines.append(f"  {line_of(mask(offender.error_message), 2 * _SHORT)}")
    if external_url:
        lines.append(f"  {external_url.rstrip('/')}/api/tasks/{quote(offender.task_id, safe='')}")
    return lines
