"""Kafka topics: every partition, read from explicit positions, with no group and no commit.

Takes the topics (or a pattern), gives batches of one partition each, with record times, headers and the offset where
reading goes on. Notices new topics and partitions by itself. Never creates a topic, never joins a group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiokafka.errors import (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError
from collector.model.record import Intake
from collector.sources import kafka_client, kafka_groups, kafka_records
from collector.sources.kafka_client import KafkaOptions
from collector.sources.kafka_tail import Tail

__all__ = ["KafkaOptions", "KafkaSource"]

_REFUSED = (
    AuthenticationFailedError,
    AuthenticationMethodNotSupported,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)


class KafkaSource:
    """Tails the partitions until it is cancelled. Raises SourceError when the cluster refuses, or falls silent."""

    def __init__(self, options: KafkaOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()

    async def run(self, intake: Intake) -> None:
        """Read for ever. A new call makes a new client, and goes on at the intake's positions."""
        options = self._options
        servers = ", ".join(options.servers)
        consumer = kafka_client.build(options)
        kafka_records.keep_from_creating_topics(consumer)
        try:
            try:
                await kafka_client.within(options.deadline, consumer.start(), f"{servers}: no answer")
            except KafkaConnectionError as error:
                # It says that no server could be used, but not why.
                asked = kafka_records.knock(consumer)
                raise await kafka_client.within(options.deadline, asked, f"{servers}: no answer") or error from error
            reading = Tail(options, self._clock, consumer, intake).follow()
            if options.groups:
                await _together(reading, kafka_groups.follow(options, self._clock, intake))
            else:
                await reading
        except _REFUSED as error:
            raise SourceError(f"{servers}: {_text(error)}", retryable=False) from error
        except (KafkaError, OSError) as error:
            raise SourceError(f"{servers}: {_text(error)}") from error
        finally:
            await kafka_client.close(consumer)


async def _together(*running: Coroutine[Any, Any, None]) -> None:
    """Until the first one fails: its error is raised, and none is left behind."""
    tasks = [asyncio.ensure_future(one) for one in running]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
