"""How long queues of a RabbitMQ are, by declaring each passively: it tells, and changes nothing.

Each queue is asked for on a channel of its own, because one that is not there closes it; all are asked at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from collector.model.errors import SourceError
from collector.sources.amqp_wire import ANSWER_SECONDS, AmqpAddress, channel, close, connect, spoken

_GONE = ("NOT_FOUND", "no queue")
_ELSES = ("RESOURCE_LOCKED", "ACCESS_REFUSED")


class Depths:
    """One connection, made when it is needed."""

    def __init__(self, address: AmqpAddress) -> None:
        self._address = address
        self._connection: Any = None
        self._channels: dict[str, Any] = {}

    async def lengths(self, queues: Sequence[str]) -> dict[str, tuple[int, int] | None]:
        """Messages that wait and consumers, by queue; None where we may not know it. One that is not there is left out.

        Raises SourceError.
        """
        if self._connection is None:
            self._connection = await connect(self._address)
        for queue in [queue for queue in self._channels if queue not in queues]:
            await self._let_go(queue)
        asking = [asyncio.ensure_future(self._length(queue)) for queue in queues]
        try:
            replies = await asyncio.gather(*asking)
        finally:
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return {queue: reply for queue, reply in zip(queues, replies, strict=True) if reply != ()}  # type: ignore[misc]

    async def _length(self, queue: str) -> tuple[int, int] | tuple[()] | None:
        """Nothing where there is no such queue."""
        used = self._channels.get(queue)
        if used is None:
            used = self._channels[queue] = await channel(self._connection, self._address)
        try:
            with spoken(self._address, f"queue {queue}", used):
                said = await used.queue_declare(queue, passive=True, timeout=ANSWER_SECONDS)
        except SourceError as error:
            del self._channels[queue]
            if any(word in str(error) for word in _GONE):
                return ()
            if any(word in str(error) for word in _ELSES):
                return None
            raise
        return int(said.message_count), int(said.consumer_count)

    async def _let_go(self, queue: str) -> None:
        used = self._channels.pop(queue)
        with spoken(self._address, "closing a channel"):
            await asyncio.wait_for(used.close(), ANSWER_SECONDS)

    async def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        self._channels.clear()
        if connection is not None:
            await close(connection)
