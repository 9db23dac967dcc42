"""BullMQ's queues: lists and sorted sets by state. A queue without its `meta` key is invisible, and not empty."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from collector.probes.reading import Reading
from collector.probes.redis import PAUSE, PER_PAUSE, Command, Finder, Steps, ask_each, number, total

PREFIX = "bull"
_META = ":meta"
_KEPT = "opts.maxLenEvents"
_GLOB = re.compile(r"([*?\[\]\\])")
_NAME = re.compile(rb"\bname=(\S*)")
_NAMED = 20


class BullmqQueues:
    """`Kind`. Queues are named as tasks name them: without the prefix."""

    def __init__(self, prefix: str = "", queues: Collection[str] = ()) -> None:
        self._named = [f"{prefix or PREFIX}:{queue}" for queue in queues]
        escaped = _GLOB.sub(r"\\\1", prefix) or "*"
        self._finder = Finder(f"{escaped}:*{_META}")

    def look(self, known: Collection[str], now: float) -> Steps:
        """`meta` keys, lengths and the first of each queue, when that was added."""
        if not self._named:
            yield from self._finder.go_on(now)
        bases = self._named or [key.decode("utf-8", "replace").removesuffix(_META) for key in self._finder.found]
        metas = yield from ask_each(bases, lambda base: [("HEXISTS", base + _META, _KEPT)])
        there = [base for base, (reply,) in zip(bases, metas, strict=True) if reply == 1]
        clients = yield ([("CLIENT", "LIST", "TYPE", "normal"), ("TIME",)] if there else PAUSE)
        workers = _workers(clients[0]) if there else None
        rows = yield from ask_each(there, _questions)
        heads = [_head(row) for row in rows]
        asked = [(base, head) for base, head in zip(there, heads, strict=True) if head is not None]
        times = yield from ask_each(asked, lambda job: [("HGET", f"{job[0]}:".encode() + job[1], "timestamp")])
        since = {base: _seconds(text) for (base, _), (text,) in zip(asked, times, strict=True)}
        reading = Reading()
        for at, (base, row, head) in enumerate(zip(there, rows, heads, strict=True)):
            if at % PER_PAUSE == 0:
                yield PAUSE
            began = since.get(base)
            waiting = total(row[:3])
            oldest = 0.0 if waiting == 0 else now - began if head is not None and began is not None else None
            lengths = {
                "ready": None if waiting is None else waiting - _is_marker(row[6]),
                "unacked": number(row[3]),
                "delayed": total(row[4:6]),
            }
            reading.depth(
                base.rpartition(":")[2],
                lengths,  # type: ignore[arg-type]  # its keys are states
                oldest=oldest,
                consumers=None if workers is None else workers[_client(base)],
            )
        missing = [base for base in self._named if base not in there]
        if missing:
            listed = ", ".join(missing[:_NAMED])
            reading.says = f"invisible, and not empty: {listed} (no `meta` key here; PostgreSQL is not read)"
            reading.unknown.update(queue for base in missing if (queue := base.rpartition(":")[2]) in known)
        return reading


def _questions(base: str) -> list[Command]:
    return [
        ("LLEN", f"{base}:wait"),
        ("LLEN", f"{base}:paused"),
        ("ZCARD", f"{base}:prioritized"),
        ("LLEN", f"{base}:active"),
        ("ZCARD", f"{base}:delayed"),
        ("ZCARD", f"{base}:waiting-children"),
        ("LINDEX", f"{base}:wait", "-1"),
        ("LINDEX", f"{base}:wait", "-2"),
    ]


def _is_marker(item: Any) -> bool:
    """Whether the next in a list is what BullMQ 4 puts there to wake workers, and no job."""
    return isinstance(item, bytes) and item.startswith(b"0:")


def _head(row: Sequence[Any]) -> bytes | None:
    """The job that is taken next."""
    item = row[7] if _is_marker(row[6]) else row[6]
    return item if isinstance(item, bytes) else None


def _seconds(reply: Any) -> float | None:
    try:
        return int(reply) / 1000
    except (TypeError, ValueError):
        return None


def _client(base: str) -> str:
    """What the connection on which a worker of a queue waits is named, up to the worker's own name."""
    prefix, _, queue = base.rpartition(":")
    return f"{prefix}:{base64.b64encode(queue.encode()).decode()}"


def _workers(reply: Any) -> Counter[str] | None:
    """Workers by queue, as BullMQ itself counts them: by the names of connections. None where that is not allowed."""
    if not isinstance(reply, bytes | str):
        return None
    text = reply if isinstance(reply, bytes) else reply.encode()
    names = (found.decode("utf-8", "replace") for found in _NAME.findall(text))
    return Counter(name.partition(":w:")[0] for name in names)
