"""How long queues of a RabbitMQ are, by declaring each passively: it tells, and changes nothing.

Each question goes over a channel of its own, because a queue that is not there closes it; as many as there are channels
are asked at once, in one round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from collector.model.errors import SourceError
from collector.sources.amqp_wire import ANSWER_SECONDS, AmqpAddress, channel, close, connect, spoken

CHANNELS = 100
_GONE = ("NOT_FOUND", "no queue")
_ELSES = ("RESOURCE_LOCKED", "ACCESS_REFUSED")

Length = tuple[int, int] | None


class Depths:
    """One connection, made when it is needed."""

    def __init__(self, address: AmqpAddress) -> None:
        self._address = address
        self._connection: Any = None
        self._channels: list[Any] = []
        self._gone: dict[str, None] = {}
        """Queues that were not there; the one that was asked for longest ago is first."""

    async def lengths(self, queues: Sequence[str]) -> dict[str, Length]:
        """Messages that wait and consumers, by queue; None where we may not know it. One that is not there is left out.

        Of those that were not there before some are looked for at a time: each costs a channel. Raises SourceError.
        """
        if self._connection is None:
            self._connection = await connect(self._address)
        self._channels += [None] * (min(CHANNELS, len(queues)) - len(self._channels))
        wanted = dict.fromkeys(queues)
        gone = [queue for queue in self._gone if queue in wanted]
        asked = [queue for queue in wanted if queue not in self._gone] + gone[:CHANNELS]
        found: dict[str, Length] = {}
        for begin in range(0, len(asked), CHANNELS):
            await self._ask(asked[begin : begin + CHANNELS], found)
        again = dict.fromkeys([*gone[CHANNELS:], *asked])
        self._gone = {queue: None for queue in again if queue not in found}
        return found

    async def _ask(self, queues: Sequence[str], found: dict[str, Length]) -> None:
        """At most as many as there are channels, together."""
        asking = [asyncio.ensure_future(self._length(*one, found)) for one in enumerate(queues)]
        try:
            await asyncio.gather(*asking)
        finally:
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _length(self, number: int, queue: str, found: dict[str, Length]) -> None:
        used, self._channels[number] = self._channels[number], None  # until it is known that it was not closed
        if used is None:
            used = await channel(self._connection, self._address)
        try:
            with spoken(self._address, f"queue {queue}", used):
                said = await used.queue_declare(queue, passive=True, timeout=ANSWER_SECONDS)
        except SourceError as error:
            if any(word in str(error) for word in _ELSES):
                found[queue] = None
            elif not any(word in str(error) for word in _GONE):
                raise
        else:
            self._channels[number] = used
            found[queue] = int(said.message_count), int(said.consumer_count)

    async def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        self._channels.clear()
        if connection is not None:
            await close(connection)
