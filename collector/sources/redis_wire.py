"""One Redis connection: questions out, replies in, parsed by hiredis. Every question has a deadline.

redis-py's reader costs more per entry than reading and counting it do, and its time-outs are its own. A connection
that was cancelled, timed out or refused in the middle of an answer is never used again: it is closed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, TypeAlias

import hiredis
import msgspec

from collector.model.errors import SourceError
from collector.model.secret import Secret

_READ = 1 << 18
_CONNECT_SECONDS = 10.0
_FINAL = ("NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "ERR invalid password", "ERR DB index", "ERR AUTH")
"""How errors begin that waiting does not cure."""

Command: TypeAlias = Sequence[str | bytes]


class RedisAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, and who we are there."""

    host: str = "127.0.0.1"
    port: int = 6379
    database: int = 0
    username: str = ""
    password: Secret | None = None
    tls: bool = False
    ca_file: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class RedisConnection:
    """Made by `connect`; ends by `close`."""

    def __init__(self, address: RedisAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._parser = hiredis.Reader()

    async def ask(self, *words: str | bytes, seconds: float = 5.0) -> Any:
        """The reply (bytes, int, list, None). Raises SourceError: an error reply, a lost connection, no answer."""
        reply = (await self.ask_many([words], seconds))[0]
        if isinstance(reply, hiredis.ReplyError):
            raise self.refused(words, reply)
        return reply

    async def ask_many(self, commands: Sequence[Command], seconds: float = 5.0) -> list[Any]:
        """The replies to commands that are sent in one go, in their order; an error reply stands in its place.

        Raises SourceError: a lost connection, no answer to all of them within `seconds`.
        """
        self._writer.write(b"".join(map(hiredis.pack_command, commands)))  # type: ignore[arg-type]  # its stub: one word
        replies: list[Any] = []
        try:
            async with asyncio.timeout(seconds):
                while len(replies) < len(commands):
                    replies.append(await self._reply())
        except TimeoutError as error:
            raise SourceError(f"{self._address}: no answer to {commands[0][0]!s} for {seconds:.0f} s") from error
        return replies

    def tell(self, *words: str | bytes) -> None:
        """Send a command whose answer is heard, not waited for."""
        self._writer.write(hiredis.pack_command(words))  # type: ignore[arg-type]  # its stub takes one word only

    async def heard(self) -> list[Any]:
        """What the server says unasked (the messages of a subscription): waits for the first, gives all that came."""
        heard = [await self._reply()]
        while (reply := self._parser.gets()) is not False:
            heard.append(reply)
        return heard

    def refused(self, words: Command, reply: object) -> SourceError:
        """An error reply as an error of ours."""
        text = str(reply)
        return SourceError(f"{self._address}: {words[0]!s}: {text}", retryable=not text.startswith(_FINAL))

    async def _reply(self) -> Any:
        try:
            while (reply := self._parser.gets()) is False:
                data = await self._reader.read(_READ)
                if not data:
                    raise SourceError(f"{self._address}: the server closed the connection")
                self._parser.feed(data)
        except (OSError, hiredis.ProtocolError) as error:
            raise SourceError(f"{self._address}: {error}") from error
        return reply

    def close(self) -> None:
        """At once, without a farewell."""
        self._writer.transport.abort()


async def connect(address: RedisAddress) -> RedisConnection:
    """A connection that is authenticated, named and in its database. Raises SourceError."""
    try:
        context = ssl.create_default_context(cafile=address.ca_file or None) if address.tls else None
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context, limit=_READ)
    except TimeoutError as error:
        raise SourceError(f"{address}: no connection within {_CONNECT_SECONDS:.0f} s") from error
    except OSError as error:  # also what TLS refuses
        raise SourceError(f"{address}: {error.strerror or error}") from error
    connection = RedisConnection(address, reader, writer)
    try:
        if address.password is not None:
            who = [address.username] if address.username else []
            await connection.ask("AUTH", *who, address.password.reveal())
        await connection.ask("CLIENT", "SETNAME", "tasktrail")
        if address.database:
            await connection.ask("SELECT", str(address.database))
    except BaseException:
        connection.close()
        raise
    return connection
