"""One Redis connection: questions out, replies in, parsed by hiredis. Every question has a deadline.

redis-py's reader costs more per entry than reading and counting it do, and its time-outs are its own. A connection
that was cancelled, timed out or refused in the middle of an answer is never used again: it is closed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
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
    path: str = ""
    """Of a unix socket, instead of host and port."""

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


class RedisConnection:
    """Made by `connect`; ends by `close`."""

    def __init__(self, address: RedisAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._parser = hiredis.Reader()
        self._turn = asyncio.Lock()
        """Whose question is under way: answers come in the order of questions."""

    async def ask(self, *words: str | bytes, seconds: float = 5.0, tolerated: str = "") -> Any:
        """The reply (bytes, int, list, None). Raises SourceError: an error reply, a lost connection, no answer.

        An error reply of the kind that is `tolerated` is None.
        """
        reply = (await self.ask_many([words], seconds))[0]
        if isinstance(reply, hiredis.ReplyError):
            if tolerated and str(reply).startswith(tolerated):
                return None
            raise refusal(self.address, words[0], reply)
        return reply

    async def ask_many(self, commands: Sequence[Command], seconds: float = 5.0) -> list[Any]:
        """The replies to commands that are sent in one go, in their order; an error reply stands in its place.

        Raises SourceError: a lost connection, no answer to all of them within `seconds`.
        """
        replies: list[Any] = []
        try:
            async with asyncio.timeout(seconds), self._turn:
                self._writer.write(b"".join(map(hiredis.pack_command, commands)))  # type: ignore[arg-type]  # its stub
                while len(replies) < len(commands):
                    replies.append(await self._reply())
        except TimeoutError as error:
            raise SourceError(f"{self.address}: no answer to {commands[0][0]!s} for {seconds:.0f} s") from error
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

    async def _reply(self) -> Any:
        try:
            while (reply := self._parser.gets()) is False:
                data = await self._reader.read(_READ)
                if not data:
                    raise SourceError(f"{self.address}: the server closed the connection")
                self._parser.feed(data)
        except (OSError, hiredis.ProtocolError) as error:
            raise SourceError(f"{self.address}: {error}") from error
        return reply

    def close(self) -> None:
        """At once, without a farewell."""
        self._writer.transport.abort()


def refusal(address: RedisAddress, word: str | bytes, reply: object) -> SourceError:
    """The error that an error reply is."""
    text = str(reply)
    return SourceError(f"{address}: {word!s}: {text}", retryable=not text.startswith(_FINAL))


def greeting(address: RedisAddress) -> list[tuple[str, ...]]:
    """The commands that a new connection begins with: who we are, our name, the database."""
    words: list[tuple[str, ...]] = []
    if address.password is not None:
        words.append(("AUTH", *([address.username] if address.username else []), address.password.reveal()))
    words.append(("CLIENT", "SETNAME", "tasktrail"))
    if address.database:
        words.append(("SELECT", str(address.database)))
    return words


async def dial(address: RedisAddress, protocol: Callable[[], asyncio.BaseProtocol]) -> asyncio.Transport:
    """Connect a protocol to the server. Raises SourceError."""
    loop = asyncio.get_running_loop()
    try:
        context = ssl.create_default_context(cafile=address.ca_file or None) if address.tls else None
        async with asyncio.timeout(_CONNECT_SECONDS):
            if address.path:
                return (await loop.create_unix_connection(protocol, address.path))[0]
            return (await loop.create_connection(protocol, address.host, address.port, ssl=context))[0]
    except TimeoutError as error:
        raise SourceError(f"{address}: no connection within {_CONNECT_SECONDS:.0f} s") from error
    except OSError as error:  # also what TLS refuses
        raise SourceError(f"{address}: {error.strerror or error}") from error


async def connect(address: RedisAddress) -> RedisConnection:
    """A connection that is authenticated, named and in its database. Raises SourceError."""
    reader = asyncio.StreamReader(limit=_READ)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport = await dial(address, lambda: protocol)
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    connection = RedisConnection(address, reader, writer)
    try:
        for words in greeting(address):
            await connection.ask(*words)
    except BaseException:
        connection.close()
        raise
    return connection
