"""RabbitMQ's queues: all of a virtual host by its management API, else those that are known, by passive declares.

Passively a queue tells what waits and who consumes; what was handed over and is not acknowledged only the API tells.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias
from urllib.parse import quote

import aiohttp
import msgspec

from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.probes.celery import is_work
from collector.probes.reading import Reading, State

MOST_DECLARED = 5_000
"""Queues that are declared passively: what more would cost, the management API gives for one question."""
LARGEST = 32 * 1024 * 1024
"""Bytes of an answer of the management API."""
ANSWER_SECONDS = 20.0
_COLUMNS = "name,messages_ready,messages_unacknowledged,consumers,head_message_timestamp"
_OURS = ("tasktrail.", "amq.gen")
_PUT_OFF, _DEAD = ".DQ", ".XQ"

Place: TypeAlias = Callable[[str], tuple[str, State | None]]
"""A queue of the broker → what its work is called, and the state of what is ready in it; None: it is no work."""


class Lengths(Protocol):
    """Passive declares, as the sources make them."""

    async def lengths(self, queues: Sequence[str]) -> dict[str, tuple[int, int] | None]:
        """Messages that wait and consumers; None: not known. A queue that is not there is left out."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


class _Row(msgspec.Struct):
    """A queue as the API has it; the numbers are null in the first seconds of its life."""

    name: str
    messages_ready: int | None = None
    messages_unacknowledged: int | None = None
    consumers: int | None = None
    head_message_timestamp: float | None = None


_rows = msgspec.json.Decoder(list[_Row])


def plain(queue: str) -> tuple[str, State | None]:
    """Every queue that holds work is its own."""
    return queue, "ready" if is_work(queue) and not queue.startswith(_OURS) else None


def dramatiq(queue: str) -> tuple[str, State | None]:
    """What is put off lies in a queue beside; dead letters are no work."""
    if queue.endswith(_PUT_OFF):
        return queue.removesuffix(_PUT_OFF), "delayed"
    return (queue, None) if queue.endswith(_DEAD) else plain(queue)


class DeclaredProbe:
    """`Probe` by passive declares: of the queues that are named, and of those that are known."""

    def __init__(self, broker: Lengths, queues: Collection[str] = (), place: Place = plain, beside: str = "") -> None:
        """`beside`: what the name of a second queue of the same work ends with."""
        self._broker = broker
        self._queues = queues
        self._place = place
        self._beside = beside

    async def look(self, known: Collection[str], now: float) -> Reading:  # noqa: ARG002 no times are told
        """Lengths and consumers."""
        reading = Reading()
        names = dict.fromkeys([*self._queues, *sorted(known)])
        work = [queue for queue in names if self._place(queue)[1] == "ready"]
        asked = [name for queue in work for name in ([queue, queue + self._beside] if self._beside else [queue])]
        if len(asked) > MOST_DECLARED:
            reading.says = f"only the lengths of {MOST_DECLARED} queues are asked for: name management=URL for all"
            asked = asked[:MOST_DECLARED]
        found = await self._broker.lengths(asked) if asked else {}
        depths: dict[str, dict[State, int | None]] = {}
        for name, told in found.items():
            queue, state = self._place(name)
            if state is not None:
                depths.setdefault(queue, {})[state] = None if told is None else told[0]
        for queue, lengths in depths.items():
            told = found.get(queue)
            reading.depth(queue, lengths, consumers=None if told is None else told[1])
        return reading

    async def close(self) -> None:
        """End the connection."""
        await self._broker.close()


class ManagementProbe:
    """`Probe` by one question to the management API."""

    def __init__(self, base: str, vhost: str, login: tuple[str, Secret], place: Place = plain) -> None:
        user, password = login
        self._url = f"{base.rstrip('/')}/api/queues/{quote(vhost, safe='')}?columns={_COLUMNS}"
        self._authorization = Secret(base64.b64encode(f"{user}:{password.reveal()}".encode()).decode())
        self._place = place
        self._session: aiohttp.ClientSession | None = None
        self.trips = 0
        """Round trips so far."""

    async def look(self, known: Collection[str], now: float) -> Reading:  # noqa: ARG002 the API knows all that is there
        """All queues of the virtual host."""
        try:
            rows = _rows.decode(await self._ask())
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, OSError) as error:
            raise SourceError(f"management API: {str(error) or type(error).__name__}") from error
        reading = Reading()
        parts: dict[str, dict[State, int | None]] = {}
        of_queue: dict[str, _Row] = {}
        for row in rows:
            queue, state = self._place(row.name)
            if state is None:
                continue
            lengths = parts.setdefault(queue, {})
            lengths[state] = row.messages_ready
            if state == "ready":
                lengths["unacked"] = row.messages_unacknowledged
                of_queue[queue] = row
        for queue, lengths in parts.items():
            whole = of_queue.get(queue)
            consumers = None if whole is None else whole.consumers
            reading.depth(queue, lengths, oldest=_age(whole, now), consumers=consumers)
        return reading

    async def _ask(self) -> bytes:
        if self._session is None:
            headers = {"Authorization": f"Basic {self._authorization.reveal()}"}
            self._session = aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS))
        self.trips += 1
        async with self._session.get(self._url, allow_redirects=False) as answer:
            if answer.status != 200:
                is_refused = answer.status in {401, 403, 404}
                raise SourceError(f"the management API answers {answer.status}", retryable=not is_refused)
            text = bytearray()
            async for part in answer.content.iter_chunked(1 << 16):
                text += part
                if len(text) > LARGEST:
                    raise SourceError(f"the management API answers more than {LARGEST} bytes", retryable=False)
        return bytes(text)

    async def close(self) -> None:
        """End the connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _age(row: _Row | None, now: float) -> float | None:
    """Seconds since the first message was published, where publishers say when."""
    if row is None or row.messages_ready is None:
        return None
    if row.messages_ready == 0:
        return 0.0
    return None if row.head_message_timestamp is None else now - row.head_message_timestamp
