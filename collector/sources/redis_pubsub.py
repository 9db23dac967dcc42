"""One Redis connection that listens: patterns in, messages out, parsed by hiredis just before they are counted.

redis-py's reader costs five times as much per message. Nothing that is published is kept by the server for a listener
that does not read, so reading goes on while bytes wait here, up to a bound; beyond it the server holds them, and cuts
the connection when its own limit is reached. Who listens learns that by the SourceError, as any loss. What waits is
not parsed yet: as objects it would have left the processor's cache by its turn.

Every second the server is asked whether it is there. It answers in the order of what it sends, so the answer also says
that everything published before the question has come.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
import msgspec

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError
from collector.sources.redis_messages import take_apart
from collector.sources.redis_wire import RedisAddress, dial, greeting, refusal

HELD = 64 * 1024 * 1024
"""Bytes that may wait here before the connection is not read any more."""
_TOO_MUCH = "too much was waiting for us: raise the server's `client-output-buffer-limit pubsub`"
_READ = 64 * 1024
"""Bytes that are read at once; a turn of the loop does so up to 32 times."""
_ENOUGH = 500
"""Messages that are given at once, and a few more."""
_ASKED_EVERY = 1.0  # seconds between questions whether the server is there
_PATIENCE = 10.0  # seconds that it may take to say so


class Messages(msgspec.Struct, gc=False):
    """What was published, in columns, and the wall clock at which the first of it came (or now)."""

    patterns: list[bytes]
    channels: list[bytes]
    bodies: list[bytes]
    came_at: float = 0.0


class Subscription(asyncio.BufferedProtocol):
    """Made by `subscribe`; ends by `close`. One task takes from it."""

    def __init__(self, address: RedisAddress, clock: Clock, held: int) -> None:
        self._address = address
        self._clock = clock
        self._most = held
        self._waiting: deque[tuple[float, bytes]] = deque()
        """What is not parsed yet, each piece with the wall clock at which it came."""
        self._held = 0
        """Bytes of it."""
        self._buffer = memoryview(bytearray(_READ))
        self._parser = hiredis.Reader()
        self._messages = Messages([], [], [])
        self._replies: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None
        self._something = asyncio.Event()
        self._lost: SourceError | None = None
        self._asked_at: float | None = None
        """The wall clock at which the question was asked that is not answered yet."""
        self._ask_next = -math.inf
        self._quiet = 0.0
        """Seconds that were waited since in vain."""
        self.heard_until = clock.now()
        """The wall clock up to which all that was published has been given: when the last question was asked that has
        been answered."""
        self._is_paused = False
        self._full_at: float | None = None
        """When messages were last left with the server."""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        self._transport = transport  # type: ignore[assignment]  # of a stream it is one

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what comes next."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Something came: it waits, unless somebody waits for an answer."""
        self._waiting.append((self._clock.now(), bytes(self._buffer[:nbytes])))
        self._held += nbytes
        self._quiet = 0.0
        while self._replies and self._waiting:
            self._parse()
        self._something.set()
        if self._held > self._most and self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _parse(self) -> None:
        """Take a piece apart."""
        came_at, piece = self._waiting.popleft()
        self._held -= len(piece)
        messages = self._messages
        messages.came_at = messages.came_at or came_at
        try:
            others = take_apart(self._parser, piece, messages.patterns, messages.channels, messages.bodies)
        except hiredis.ProtocolError as error:
            self._waiting.clear()
            self._held = 0
            self._lose(SourceError(f"{self._address}: {error}"))
            return
        for reply in others:
            self._other(reply)

    def _other(self, reply: Any) -> None:
        """An answer to a command; the server's word that it listens, or that it is there, is one of its own kind."""
        if isinstance(reply, list) and reply and reply[0] == b"pong":
            if self._asked_at is not None:
                self.heard_until, self._asked_at = self._asked_at, None
        elif self._replies and not self._replies[0].done():
            self._replies.popleft().set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        is_late = self._full_at is not None and self._clock.monotonic() - self._full_at < _PATIENCE
        why = f": {_TOO_MUCH}" if self._is_paused or is_late else ""
        self._lose(SourceError(f"{self._address}: {exc or 'the server closed the connection'}{why}"))

    def _lose(self, error: SourceError) -> None:
        self._lost = self._lost or error
        self._something.set()
        for future in self._replies:
            if not future.done():
                future.set_exception(self._lost)
                future.exception()  # whoever waits for it gets it; nobody may
        self._replies.clear()

    # What its owner calls

    async def ask(self, *words: str | bytes) -> Any:
        """The reply to a command, before anything is subscribed to. Raises SourceError."""
        if self._lost is not None:
            raise self._lost
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies.append(future)
        self._write(words)
        try:
            async with asyncio.timeout(_PATIENCE):
                reply = await future
        except TimeoutError as error:
            raise SourceError(f"{self._address}: no answer to {words[0]!s} for {_PATIENCE:.0f} s") from error
        if isinstance(reply, hiredis.ReplyError):
            raise refusal(self._address, words[0], reply)
        return reply

    async def take(self, seconds: float) -> Messages:
        """What has come, or the first of it, once something has or so many seconds have passed.

        Raises SourceError when the connection is lost; what came before the loss is given first.
        """
        self._ask_again()
        if self.is_empty and self._lost is None:
            try:
                async with asyncio.timeout(seconds):
                    await self._something.wait()
            except TimeoutError:
                self._see_to_it(seconds)
        self._something.clear()
        while self._waiting and len(self._messages.bodies) < _ENOUGH:
            self._parse()
        taken, self._messages = self._messages, Messages([], [], [])
        taken.came_at = taken.came_at or self._clock.now()
        if not taken.bodies and self._lost is not None:
            raise self._lost
        if self._is_paused and self._held <= self._most // 2 and self._transport is not None and self._lost is None:
            self._is_paused = False
            self._full_at = self._clock.monotonic()
            self._transport.resume_reading()
        return taken

    def _ask_again(self) -> None:
        """Ask the server whether it is there, where it has answered the question before."""
        now = self._clock.monotonic()
        if self._asked_at is None and now >= self._ask_next and self._lost is None:
            self._ask_next = now + _ASKED_EVERY
            self._asked_at = self._clock.now()
            self._write(("PING",))

    def _see_to_it(self, seconds: float) -> None:
        """So many were waited in vain. Raises SourceError where the server should have said that it is there.

        What counts is how long was waited: one's own pause, in which the answer came unseen, is no fault of the server.
        """
        if self.is_empty and self._asked_at is not None:
            self._quiet += seconds
            if self._quiet > _PATIENCE:
                raise SourceError(f"{self._address}: no answer to PING for {_PATIENCE:.0f} s")

    def _write(self, words: Sequence[str | bytes]) -> None:
        assert self._transport is not None  # noqa: S101 it was connected
        self._transport.write(hiredis.pack_command(tuple(words)))  # type: ignore[arg-type]  # its stub takes one word

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here."""
        return not self._messages.bodies and not self._waiting

    def close(self) -> None:
        """At once, without a farewell."""
        if self._transport is not None:
            self._transport.abort()


async def subscribe(
    address: RedisAddress, patterns: Sequence[str | bytes], clock: Clock | None = None, held: int = HELD
) -> Subscription:
    """A connection that listens to these patterns. Raises SourceError."""
    made = Subscription(address, clock or SystemClock(), held)
    await dial(address, lambda: made)
    try:
        for words in greeting(address):
            await made.ask(*words)
        await made.ask("PSUBSCRIBE", *patterns)
    except BaseException:
        made.close()
        raise
    return made
