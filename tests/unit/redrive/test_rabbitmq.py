"""Redrive on a RabbitMQ that only exists here: what is taken, in which order, and what is refused."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from collector.model.errors import SourceError
from collector.model.redrive import HEADER
from collector.redrive import rabbitmq
from collector.redrive.message import MARKERS, Place
from collector.redrive.rabbitmq import MOST_RETURNS, RabbitRedrive

EMPTY = SimpleNamespace(delivery=SimpleNamespace(name="Basic.GetEmpty"))


class Properties(SimpleNamespace):
    """Of a message."""

    def __init__(self, **given) -> None:
        super().__init__(**{"headers": None, "message_id": None, "correlation_id": None, "user_id": None, **given})


def place(task_id: str) -> Place:
    """A dead letter of a task."""
    return Place(id=f"r-{task_id}", place="dead", receipt="", target="orders", partition=None, task_id=task_id)


class Broker:
    """One channel, one dead-letter queue, and all that happened, in order."""

    def __init__(self, *messages: tuple[bytes, Properties]) -> None:
        self.queue = [
            SimpleNamespace(
                body=body,
                header=SimpleNamespace(properties=properties),
                delivery=SimpleNamespace(name="Basic.GetOk", delivery_tag=tag),
            )
            for tag, (body, properties) in enumerate(messages, 1)
        ]
        self.done: list[tuple] = []
        self.takes = True
        self.locked = 0

    async def connect(self):
        """Itself."""
        return self

    async def channel(self, _connection):
        """Itself."""
        return self

    async def close(self, _connection=None):
        """What is held goes back."""
        self.done.append(("close",))

    def spoken(self, _doing, _used=None):
        """It raises what it means."""
        return nullcontext()

    async def queue_declare(self, name, **more):
        """Notes who makes one."""
        if more.get("exclusive") and self.locked:
            self.locked -= 1
            raise SourceError("RESOURCE_LOCKED")
        if not more.get("passive"):
            self.done.append(("declare", name))
        return SimpleNamespace(message_count=0)

    async def basic_get(self, _name, **_):
        """The next one."""
        return self.queue.pop(0) if self.queue else EMPTY

    async def basic_publish(self, body, *, routing_key, properties, **_):
        """Confirmed, or returned."""
        if not self.takes:
            raise SourceError("returned")
        self.done.append(("publish", routing_key, body, dict(properties.headers or {})))

    async def basic_ack(self, tag):
        """Gone."""
        self.done.append(("ack", tag))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Nobody else holds anything here that could come back."""
    monkeypatch.setattr(rabbitmq, "_WAIT", 0.0)
    monkeypatch.setattr(rabbitmq, "_BETWEEN", 0.0)


async def opened(*messages, writes=True) -> tuple[RabbitRedrive, Broker]:
    """A redrive that is connected."""
    broker = Broker(*messages)
    made = RabbitRedrive(broker)
    await made.open(writes=writes)
    return made, broker


async def test_it_is_published_then_noted_then_acknowledged():
    """Only what is wanted, of whichever id it is known by; what lies between stays for the end to give back."""
    made, broker = await opened(
        (b"1", Properties(correlation_id="other")),
        (b"2", Properties(headers={"id": "a", "x": 1}, user_id="them")),
        (b'{"message_id": "b"}', Properties()),
        (b"4", Properties(message_id="late")),
    )
    found = await made.read([place("a"), place("b")])
    await made.send([(found[f"r-{name}"], f"mark-{name}") for name in ("a", "b")])
    assert broker.done[2:] == [
        ("publish", "orders", b"2", {"id": "a", "x": 1, HEADER: "mark-a"}),
        ("publish", "orders", b'{"message_id": "b"}', {HEADER: "mark-b"}),
        ("publish", MARKERS, b"r-a\nr-b", {}),
        ("ack", 2),
        ("ack", 3),
    ]
    assert [message.body for message in broker.queue] == [b"4"]
    assert await made.read([place("a")]) == {}
    await made.close()


async def test_two_deaths_of_a_task_are_two_messages():
    """The older goes first, and the mark of an earlier round is known."""
    made, _ = await opened(
        (b"1", Properties(headers={"id": "a"})), (b"2", Properties(headers={"id": "a", HEADER: b"id=r;n=1;task=a"}))
    )
    first = (await made.read([place("a")]))["r-a"]
    await made.send([(first, "mark")])
    second = (await made.read([place("a")]))["r-a"]
    assert [(one.content.body, one.marked) for one in (first, second)] == [(b"1", ""), (b"2", "id=r;n=1;task=a")]


async def test_what_is_returned_is_not_taken_away():
    """The message stays where it lies, and is not noted."""
    made, broker = await opened((b"1", Properties(headers={"id": "a"})))
    broker.takes = False
    found = await made.read([place("a")])
    with pytest.raises(SourceError, match="returned"):
        await made.send([(found["r-a"], "mark")])
    assert [what for what, *_ in broker.done] == ["declare", "declare"]


async def test_a_queue_that_counts_what_is_given_back_is_left_in_time():
    """Before its delivery limit deletes what nobody has redriven."""
    made, _ = await opened((b"1", Properties(headers={"x-delivery-count": MOST_RETURNS + 1})))
    with pytest.raises(SourceError, match="shovel"):
        await made.read([place("a")])


async def test_what_lies_before_the_wanted_ones_is_bounded(monkeypatch):
    """In number and in bytes."""
    monkeypatch.setattr(rabbitmq, "MOST_HELD", 1)
    made, _ = await opened((b"1", Properties()), (b"2", Properties()))
    with pytest.raises(SourceError, match="lie before those"):
        await made.read([place("a")])


async def test_only_one_at_a_time_writes():
    """A killed one is waited for; one that goes on is an error. Who only counts makes nothing."""
    broker = Broker()
    broker.locked = 3
    await RabbitRedrive(broker).open(writes=True)
    assert broker.done == [("declare", rabbitmq.LOCK), ("declare", MARKERS)]
    broker.locked = 1_000
    with pytest.raises(SourceError, match="RESOURCE_LOCKED"):
        await RabbitRedrive(broker).open(writes=True)
    _, other = await opened(writes=False)
    assert other.done == []
