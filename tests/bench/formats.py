"""What decoding costs beyond msgspec itself, per event: `python -m tests.bench.formats`.

Rounds of the ceiling (one strict decoder in a C loop) and of `native.decode` alternate, so that a busy machine slows
both alike; medians of CPU seconds are shown.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import msgspec

from collector.formats import native
from collector.model.event import Event
from collector.model.record import Batch

BATCH = 500
ROUNDS = 101
_REGULAR = {
    "kind": "started",
    "task_id": "0af76519-16cd-43dd-8448-eb211c80319c",
    "time": 1_790_000_000.123,
    "task": "payments.settle",
    "queue": "payments",
    "worker": "worker-07@host",
    "trace_id": "0af7651916cd43dd8448eb211c80319c",
    "attempt": 1,
}
_TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _bodies(change: Callable[[int], bytes], fields: Mapping[str, str] | None = None) -> Batch:
    bodies = [change(number) for number in range(BATCH)]
    records = None if fields is None else [fields] * BATCH
    return Batch(source="bench", place="0", bodies=bodies, receipts=list(range(BATCH)), received_at=0.0, fields=records)


def _json(**changed: object) -> bytes:
    return msgspec.json.encode(_REGULAR | changed)


CASES: dict[str, Batch] = {
    "regular, JSON": _bodies(lambda _: _json()),
    "regular, msgpack": _bodies(lambda _: msgspec.msgpack.encode(_REGULAR)),
    "1% malformed": _bodies(lambda number: _json() if number % 100 else _json()[:-9]),
    "times as text": _bodies(lambda _: _json(time="2026-09-21T14:13:20.123Z")),
    "with traceparent": _bodies(lambda _: _json(traceparent=_TRACEPARENT)),
    "headers of others": _bodies(lambda _: _json(), {"content-type": "application/json", "tenant": "t1"}),
    "headers that fill": _bodies(lambda _: _json(), {"traceparent": _TRACEPARENT}),
    "lists of 100": _bodies(lambda _: b"[" + b",".join([_json()] * 100) + b"]"),
    "all malformed": _bodies(lambda _: _json()[:-9]),
}


def _cost(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    """Print one line a case: nanoseconds per event."""
    print(
        f"a regular event has {len(_json())} bytes; ns of CPU per event, medians of {ROUNDS} rounds of {BATCH} bodies"
    )
    ceiling = msgspec.json.Decoder(Event).decode
    regular = CASES["regular, JSON"].bodies
    costs: dict[str, list[float]] = {name: [] for name in ("msgspec alone", *CASES)}
    events = {name: max(1, len(native.decode(batch).events)) for name, batch in CASES.items()}
    events["all malformed"] = events["msgspec alone"] = BATCH
    for _ in range(ROUNDS):
        costs["msgspec alone"].append(_cost(lambda: [ceiling(body) for body in regular]))
        for name, batch in CASES.items():
            costs[name].append(_cost(lambda batch=batch: native.decode(batch)))
    for name, seconds in costs.items():
        print(f"{name:>18} {statistics.median(seconds) / events[name] * 1e9:8.0f}")


if __name__ == "__main__":
    main()
