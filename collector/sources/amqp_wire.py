"""One AMQP connection and the queues of our own on it. Every question has a deadline; every failure is one sentence.

Takes where a broker is, gives channels and what was delivered as a capture holds it. aio-pika keeps the connection;
deliveries are read from the protocol layer below it, without its message objects, which cost more than the rest.
The library is imported when the first connection is made: it is an extra.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import socket
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from collector.model.errors import SourceError
from collector.model.secret import Secret

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 10.0
CLOSE_SECONDS = 1.0
FRAMES = 1_000
"""Frames that wait to be written; the library's own bound is 10."""
HEARTBEAT_SECONDS = 10

PROPERTIES = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "message_type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""What a capture keeps of a message's properties; headers stand beside them."""

DEEPEST = 16
"""Levels of nested tables in headers; `x-death` has three."""


class AmqpAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker is, and who we are there."""

    host: str = "127.0.0.1"
    port: int = 5672
    vhost: str = "/"
    username: str = "guest"
    password: Secret | None = None
    """None: the password `guest`, which RabbitMQ takes from its own host."""
    tls: bool = False
    ca_file: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What our own queues may hold while we are slow, and how long they outlive us."""

    messages: int = 50_000
    size: int = 128 * 1024 * 1024
    """Bytes."""
    seconds: float = 60.0
    """A message that waits longer is dropped by the broker."""
    expires: float = 60.0
    """A queue that nobody reads is deleted after so many seconds, should the connection's end not have done it."""
    prefetch: int = 500
    """Messages that the broker hands over before we have counted them."""

    def arguments(self) -> dict[str, Any]:
        """As the broker wants them."""
        return {
            "x-max-length": self.messages,
            "x-max-length-bytes": self.size,
            "x-overflow": "drop-head",
            "x-message-ttl": int(self.seconds * 1000),
            "x-expires": int(self.expires * 1000),
        }


def library() -> Any:
    """aio-pika. Raises SourceError where the extra is not installed."""
    try:
        import aio_pika  # noqa: PLC0415 an extra: only who reads AMQP needs it
        import aiormq  # noqa: PLC0415 what it is made of
    except ImportError as error:
        how = "pip install 'tasktrail[amqp]' (from a checkout: pip install '.[amqp]')"
        raise SourceError(f"RabbitMQ sources need aio-pika: {how}", retryable=False) from error
    # A channel that the broker closes is answered over a queue; where that is full the answer is dropped, and with it
    # the connection as soon as the number is used again. Many close at once when many queues are not there.
    aiormq.Connection.FRAME_BUFFER_SIZE = FRAMES
    # Its own log repeats, with tracebacks, what becomes a SourceError here.
    for name in ("aio_pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return aio_pika


@contextmanager
def spoken(address: AmqpAddress, doing: str, used: Any = None) -> Iterator[None]:
    """Turns whatever the library raises into a SourceError that says what was being done.

    `used`: the channel, which knows why it was closed.
    """
    try:
        yield
    except TimeoutError as error:
        raise SourceError(f"{address}: no answer to {doing} for {ANSWER_SECONDS:.0f} s") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # The library cancels those who wait on a connection that it loses.
        raise SourceError(f"{address}: the connection was lost") from error
    except Exception as error:
        name = type(error).__name__
        if isinstance(error, SourceError) or not (isinstance(error, OSError) or _is_librarys(error)):
            raise
        if name == "InvalidFrameError" and "Connection.OpenOk" in str(error):  # it hides the broker's words
            words = f"there is no virtual host `{address.vhost}`, or user `{address.username}` may not use it"
            raise SourceError(f"{address}: {words}", retryable=False) from error
        if name == "ChannelInvalidStateError":
            raise SourceError(f"{address}: {_reason(used)}") from error
        final = "Authentication" in name or name in {"ConnectionNotAllowed", "ChannelAccessRefused"}
        raise SourceError(f"{address}: {doing}: {_sentence(error)}", retryable=not final) from error


def _is_librarys(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in {"aio_pika", "aiormq", "pamqp"}


def _sentence(error: Exception) -> str:
    """The broker's own words where it gave any."""
    words = [str(part) for part in error.args if isinstance(part, str) and part]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return words[-1] if words else (str(error) or "the connection was lost")


def _reason(used: Any) -> str:
    """Why a channel, or its connection, was closed."""
    closing = getattr(used, "closing", None)
    error = closing.exception() if closing is not None and closing.done() and not closing.cancelled() else None
    return f"the connection was closed: {_sentence(error)}" if isinstance(error, Exception) else "it was closed"


async def connect(address: AmqpAddress) -> Any:
    """An aio-pika connection. Raises SourceError."""
    aio_pika = library()
    context = None
    with spoken(address, "the certificates"):
        if address.tls:
            context = ssl.create_default_context(cafile=address.ca_file or None)
    with spoken(address, "connecting"):
        async with asyncio.timeout(CONNECT_SECONDS):
            return await aio_pika.connect(
                host=address.host,
                port=address.port,
                login=address.username or "guest",
                password="guest" if address.password is None else address.password.reveal(),
                virtualhost=address.vhost,
                ssl=address.tls,
                ssl_context=context,
                heartbeat=HEARTBEAT_SECONDS,
                client_properties={"connection_name": "tasktrail"},
            )


async def close(connection: Any) -> None:
    """End a connection; a broker that does not answer is not waited for."""
    with suppress(Exception):
        async with asyncio.timeout(CLOSE_SECONDS):
            await connection.close()


async def channel(connection: Any, address: AmqpAddress, *, confirms: bool = False) -> Any:
    """A channel of the protocol layer; with `confirms` one whose publishing waits for the broker's word."""
    with spoken(address, "opening a channel"):
        async with asyncio.timeout(ANSWER_SECONDS):
            opened = await connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
            return await opened.get_underlay_channel()


async def exists(connection: Any, address: AmqpAddress, exchange: str) -> bool:
    """Whether there is an exchange of this name. Asks on a channel of its own, because a no closes the channel."""
    asked = await channel(connection, address)
    try:
        with spoken(address, f"exchange {exchange}"):
            await asked.exchange_declare(exchange, passive=True, timeout=ANSWER_SECONDS)
    except SourceError as error:
        if "NOT_FOUND" in str(error):
            return False
        raise
    with suppress(Exception):
        async with asyncio.timeout(CLOSE_SECONDS):
            await asked.close()
    return True


class OwnQueue:
    """A queue of our own, bound to an exchange of theirs: exclusive, capped, expiring. Made by `own_queue`."""

    def __init__(self, used: Any, name: str, address: AmqpAddress, woken: asyncio.Event) -> None:
        self.name = name
        self.waiting: deque[Any] = deque()
        """Delivered, not handed over yet; the limits' prefetch bounds it."""
        self._channel = used
        self._address = address
        self._woken = woken

    async def deliver(self, message: Any) -> None:
        """The library's callback."""
        self.waiting.append(message)
        self._woken.set()

    async def ready(self) -> int:
        """How many messages the broker still holds for us. Raises SourceError: also where queue or channel are gone."""
        with spoken(self._address, f"queue {self.name}", self._channel):
            said = await self._channel.queue_declare(self.name, passive=True, timeout=ANSWER_SECONDS)
        return int(said.message_count)

    async def bind(self, exchange: str, keys: tuple[str, ...]) -> None:
        """Bind; where it is bound already nothing changes. Raises SourceError where the exchange is gone."""
        for key in keys:
            with spoken(self._address, f"binding to exchange {exchange}", self._channel):
                await self._channel.queue_bind(self.name, exchange, key, timeout=ANSWER_SECONDS)

    async def counted(self, tag: int) -> None:
        """Everything up to this delivery was counted: the broker may hand over more."""
        with spoken(self._address, "acknowledging", self._channel):
            await self._channel.basic_ack(tag, multiple=True, wait=False)


async def own_queue(
    connection: Any, address: AmqpAddress, purpose: str, limits: Limits, woken: asyncio.Event
) -> OwnQueue:
    """Declare a queue and consume it; to be bound then. Only our own deliveries are ever acknowledged on it."""
    used = await channel(connection, address)
    name = f"tasktrail.{purpose}.{socket.gethostname()}.{secrets.token_hex(4)}"
    queue = OwnQueue(used, name, address, woken)
    with spoken(address, f"declaring queue {name}"):
        await used.basic_qos(prefetch_count=limits.prefetch, timeout=ANSWER_SECONDS)
        await used.queue_declare(
            name, exclusive=True, auto_delete=True, arguments=limits.arguments(), timeout=ANSWER_SECONDS
        )
        await used.basic_consume(name, queue.deliver, no_ack=False, timeout=ANSWER_SECONDS)
    return queue


def about(message: Any, exchange: str) -> dict[str, Any]:
    """A delivery as a capture line holds it, but for its body. `exchange`: the one that our queue is bound to."""
    properties = message.header.properties
    given = {name: getattr(properties, name, None) for name in PROPERTIES}
    return {
        "exchange": exchange,
        "routing_key": message.delivery.routing_key,
        "redelivered": bool(message.delivery.redelivered),
        "properties": {name: plain(value) for name, value in given.items() if value is not None},
        "headers": plain(properties.headers or {}),
    }


def plain(value: Any, depth: int = 0) -> Any:
    """A header's value as JSON has it: tables as objects, times in ISO form, bytes as text or `{"b64": ...}`."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes | bytearray):
        return _text(bytes(value))
    if depth >= DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {str(name): plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, depth + 1) for inner in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}
