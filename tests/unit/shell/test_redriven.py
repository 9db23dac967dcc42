"""What was redriven and dies again is a dead letter again, also where nobody but its places tells of its life."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from collector.deadletter.record import Verdict
from collector.formats import FORMATS
from collector.model.contract import Contract, Contracts
from collector.model.record import Batch
from collector.model.redrive import HEADER, Mark
from tests.unit.parts import T0, pipeline

REDRIVEN = Verdict(state="redriven", actor="ann", reason="repaired")


def keys(at: float, **contents: tuple[str, object]) -> Batch:
    """Keys of Redis, polled."""
    bodies = [json.dumps(content).encode() for _, content in contents.values()]
    about = [{"key": key, "type": kind} for key, (kind, _) in contents.items()]
    return Batch(source="s", place="p", bodies=bodies, receipts=[1] * len(bodies), received_at=at,
                 times=[at] * len(bodies), tap="redis-key", about=about)  # fmt: skip


def dramatiq(at: float, mark: str, *, is_dead: bool) -> Iterator[Batch]:
    """A message in its queue, or in its dead-letter queue; each time it has another id in Redis."""
    options = {"redis_message_id": f"r{mark}", "retries": 2, **({HEADER: mark} if mark else {})}
    message = {"queue_name": "q", "actor_name": "a", "args": [], "kwargs": {}, "options": options, "message_id": "m",
               "message_timestamp": int(T0 * 1000)}  # fmt: skip
    content = ("hash", {f"r{mark}": json.dumps(message)})
    if is_dead:
        scores = ("zset", [[f"r{mark}", at * 1000]])
        yield keys(at + 0.5, **{"dramatiq:q.XQ": scores, "dramatiq:q.XQ.msgs": content})
    else:
        yield keys(at, **{"dramatiq:q.msgs": content})


def stamp(at: float | None) -> str:
    """As RQ writes times."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if at is not None else ""


def rq(at: float, mark: str, *, is_dead: bool) -> Iterator[Batch]:
    """A job's hash, and with that, where it failed, the entry of its results."""
    began, ended = (at - 1, at) if is_dead else (None, None)
    job = {
        "created_at": stamp(T0),
        "origin": "q",
        "description": "a()",
        "enqueued_at": stamp(at - 3 if is_dead else at),
        "status": "failed" if is_dead else "queued",
        "started_at": stamp(began),
        "ended_at": stamp(ended),
        **({HEADER: mark} if mark else {}),
    }
    yield keys(at + 0.5, **{"rq:job:m": ("hash", job)})
    if is_dead:
        entry = {"type": "2", "execution_id": f"e{mark}", "execution_started_at": str(at - 1),
                 "execution_ended_at": str(at), "worker_name": "w"}  # fmt: skip
        about = [{"stream": "rq:results:m", "id": "1-0", "fields": entry}]
        yield Batch(source="s", place="rq:results:m", bodies=[b""], receipts=["1-0"], received_at=at + 0.5,
                    times=[at + 0.5], tap="redis-stream", about=about)  # fmt: skip


def celery(at: float, mark: str, *, is_dead: bool) -> Iterator[Batch]:
    """The copy of a dead letter on RabbitMQ; of a message that waits there is none."""
    headers = {"id": "m", "task": "a", "x-death": [{"queue": "q", "reason": "rejected", "count": 1}]}
    about = [
        {
            "exchange": "dlx",
            "routing_key": "q",
            "properties": {},
            "headers": {**headers, **({HEADER: mark} if mark else {})},
        }
    ]
    if is_dead:
        yield Batch(source="s", place="dlx", bodies=[b"[]"], receipts=[1], received_at=at, times=[at], tap="amqp",
                    about=about)  # fmt: skip


@pytest.mark.parametrize("sees_it_wait", [True, False])
@pytest.mark.parametrize("told", [dramatiq, rq, celery])
def test_a_second_death_is_a_second_record(told: Callable[..., Iterator[Batch]], *, sees_it_wait: bool) -> None:
    """Whether or not it was seen waiting in between; a redrive that is seen twice is one."""
    made = pipeline(contracts=Contracts([Contract(match="*", semantics="must_complete")]))
    decode = FORMATS[told.__name__].new()

    def read(at: float, mark: str, *, is_dead: bool) -> list[str]:
        for batch in told(at, mark, is_dead=is_dead):
            made.ingest.count(made.axes[0], decode, batch, at + 1.0)
            made.ingest.expire(at + 1.0)
        return [one.state for one in made.undertaker.ledger.records.values()]

    assert read(T0 + 5.0, "", is_dead=True) == ["open"]
    (name,) = made.undertaker.ledger.records
    made.undertaker.judge(name, REDRIVEN, T0 + 10.0)
    mark = str(Mark(name, 1, "m"))
    if sees_it_wait:
        assert read(T0 + 12.0, mark, is_dead=False) == ["redriven"]
        assert read(T0 + 13.0, mark, is_dead=False) == ["redriven"]
    assert read(T0 + 20.0, mark, is_dead=True) == ["redriven", "open"]
    if told is not celery:  # what is polled is read again
        assert read(T0 + 20.0, mark, is_dead=True) == ["redriven", "open"]
