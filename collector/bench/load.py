"""The messages that are measured on: native JSON events as a busy application sends them.

40 tasks in 3 queues, tasks interleaved so that many trails are open at once; of a hundred tasks five are retried once
and two fail for good and are dead-lettered. About 217 bytes a message.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

TASKS = tuple(f"shop.{area}.{verb}" for area in ("orders", "mail", "stock", "search") for verb in (
    "create", "update", "delete", "sync", "check", "report", "import", "export", "notify", "archive",
))  # fmt: skip
QUEUES = ("default", "bulk", "critical")
OPEN = 5_000
"""Trails that are open at once."""
SHAKY = frozenset(TASKS[::8])
"""The tasks that have trouble."""
RETRIED, FAILED = 0.25, 0.05


def messages(count: int, now: float, *, seed: int = 1, open_trails: int = OPEN) -> list[bytes]:
    """`count` messages, the last of them at `now` (Unix seconds), 25,000 a second."""
    chance = random.Random(seed)  # noqa: S311 a load, not a secret
    encode = msgspec.json.Encoder().encode
    lives: list[Iterator[dict[str, object]]] = []
    out: list[bytes] = []
    start = now - count / 25_000
    while len(out) < count:
        if len(lives) < open_trails:
            lives.append(_life(chance))
        index = chance.randrange(len(lives))
        fields = next(lives[index], None)
        if fields is None:
            lives[index] = lives[-1]
            lives.pop()
            continue
        out.append(encode({**fields, "time": round(start + len(out) / 25_000, 6)}))
    return out


def _life(chance: random.Random) -> Iterator[dict[str, object]]:
    base = {
        "task_id": f"{chance.getrandbits(128):032x}",
        "task": chance.choice(TASKS),
        "queue": chance.choice(QUEUES),
        "trace_id": f"{chance.getrandbits(128):032x}",
    }
    fate = chance.random() if base["task"] in SHAKY else 0.5
    yield {"kind": "sent", **base, "caller": "web-frontend"}
    attempts = 2 if fate < RETRIED else 1
    for attempt in range(1, attempts + 1):
        run = {"worker": f"worker-{chance.randrange(32)}@node", "attempt": attempt}
        if attempt == 1:
            yield {"kind": "received", **base, "worker": run["worker"]}
        yield {"kind": "started", **base, **run}
        run["run_seconds"] = round(chance.expovariate(4.0), 4)
        if attempt < attempts:
            yield {"kind": "retried", **base, **run, "error": "TimeoutError"}
        elif fate > 1.0 - FAILED:
            yield {"kind": "failed", **base, **run, "error": "ValueError", "error_message": "no such item"}
            yield {"kind": "dead_lettered", **base, "attempt": attempt, "error": "ValueError"}
        else:
            yield {"kind": "succeeded", **base, **run}
