"""What waits on a subscription: given in order and in pieces, with the time up to which all was given."""

from __future__ import annotations

import asyncio

import hiredis
import pytest

from collector.model.clock import SystemClock
from collector.model.errors import SourceError
from collector.sources import redis_pubsub
from collector.sources.redis_pubsub import Subscription
from collector.sources.redis_wire import RedisAddress


class Hands(SystemClock):
    """A clock whose wall time is set by hand."""

    at = 100.0

    def now(self) -> float:
        """What was set."""
        return self.at


class Socket(asyncio.Transport):
    """One that remembers what was written, and whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.written: list[bytes] = []

    def pause_reading(self) -> None:
        """Not until it is resumed."""
        self.is_read = False

    def resume_reading(self) -> None:
        """Again."""
        self.is_read = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written.append(bytes(data))


PONG = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"


def published(*bodies: bytes) -> bytes:
    """What the server sends."""
    return b"".join(b"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$%d\r\n%b\r\n" % (len(one), one) for one in bodies)


def come(to: Subscription, data: bytes) -> None:
    """Bytes off the socket, as asyncio hands them over."""
    while data:
        buffer = to.get_buffer(-1)
        part, data = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(part)] = part
        to.buffer_updated(len(part))


def subscription(held: int = 1 << 30) -> tuple[Subscription, Hands, Socket]:
    """One that is connected."""
    clock, socket = Hands(), Socket()
    made = Subscription(RedisAddress(host="127.0.0.1", port=1), clock, held)
    made.connection_made(socket)
    return made, clock, socket


async def all_of(one: Subscription) -> list[list[bytes]]:
    """What it gives, until nothing waits."""
    taken = []
    while not one.is_empty:
        taken.append((await one.take(0)).bodies)
    return taken


async def test_a_flood_is_given_in_pieces_and_in_order() -> None:
    """No piece is much longer than the others, and a message that is torn over two reads is whole."""
    one, _, _ = subscription()
    bodies = [b"%d" % number * 40 for number in range(5000)]
    come(one, published(*bodies))
    taken = await all_of(one)
    assert [body for piece in taken for body in piece] == bodies
    assert len(taken) > 3
    assert max(map(len, taken)) < 1000


async def test_what_was_heard_is_what_came_before_an_answer() -> None:
    """A crash loses what waits, here and at the server: only what an answered question follows is known to be given."""
    one, clock, socket = subscription()
    assert one.heard_until == 100.0
    clock.at = 101.0
    come(one, published(*[b"x" * 400] * 2000))
    await one.take(0)
    assert socket.written == [hiredis.pack_command(("PING",))]
    clock.at = 107.0
    come(one, published(b"before the answer") + PONG + published(b"after it"))
    await one.take(0)
    assert one.heard_until == 100.0
    await all_of(one)
    assert one.heard_until == 101.0
    clock.at = 120.0
    one.connection_lost(None)
    assert one.heard_until == 101.0


async def test_the_first_of_a_piece_says_when_it_came() -> None:
    """What has waited did not come just now."""
    one, clock, _ = subscription()
    come(one, published(*[b"x" * 400] * 1000))
    clock.at = 107.0
    assert (await one.take(0)).came_at == 100.0
    await all_of(one)
    assert (await one.take(0)).came_at == 107.0


async def test_a_server_that_says_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the answer waits, or where nobody looked: after ten seconds of waiting in vain."""
    monkeypatch.setattr(redis_pubsub, "_PATIENCE", 0.05)
    monkeypatch.setattr(redis_pubsub, "_ASKED_EVERY", 0.0)
    one, _, _ = subscription()
    for _ in range(3):
        await one.take(0.02)
        come(one, PONG)
    for _ in range(3):
        await one.take(0.02)
    with pytest.raises(SourceError, match="no answer to PING"):
        await one.take(0.02)


async def test_an_answer_is_found_among_messages() -> None:
    """Somebody who asks is not kept waiting by what waits, and takes nothing of it away."""
    one, _, _ = subscription()
    come(one, published(*[b"x" * 400] * 2000))
    asking = asyncio.ensure_future(one.ask("CLIENT", "SETNAME", "x"))
    await asyncio.sleep(0)
    come(one, published(b"y") + b"+OK\r\n" + published(b"z"))
    assert await asking == b"OK"
    assert sum(map(len, await all_of(one))) == 2002


async def test_what_came_before_the_loss_is_given_first() -> None:
    """All of it; then the loss is told."""
    one, _, _ = subscription()
    come(one, published(*[b"x" * 400] * 2000))
    one.connection_lost(None)
    assert sum(map(len, await all_of(one))) == 2000
    with pytest.raises(SourceError, match="closed the connection"):
        await one.take(0)


async def test_being_cut_off_names_the_limit() -> None:
    """Where messages were left with the server, the loss names the setting that would have kept the connection."""
    one, _, _ = subscription(held=400_000)
    come(one, published(*[b"x" * 400] * 2000))
    one.connection_lost(None)
    await all_of(one)
    with pytest.raises(SourceError, match="raise the server's `client-output-buffer-limit pubsub`"):
        await one.take(0)


async def test_what_is_no_protocol_ends_it() -> None:
    """Good messages before it are given."""
    one, _, _ = subscription()
    come(one, published(b"good") + b"?nonsense\r\n" + published(b"never"))
    assert (await one.take(0)).bodies == [b"good"]
    with pytest.raises(SourceError, match="Protocol error"):
        await one.take(0)


async def test_the_socket_is_left_alone_while_too_much_waits() -> None:
    """And is read again when half of it is gone."""
    one, _, socket = subscription(held=400_000)
    come(one, published(*[b"x" * 400] * 1000))
    assert not socket.is_read
    taken = []
    while not one.is_empty:
        await one.take(0)
        taken.append((one._held, socket.is_read))
    assert all(is_read == (held <= 200_000) for held, is_read in taken)
    assert any(is_read and held for held, is_read in taken)
