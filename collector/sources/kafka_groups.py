"""Committed offsets of consumer groups, asked every second: how far others have come. We join no group."""

from __future__ import annotations

import asyncio

import msgspec

from collector.model.clock import Clock
from collector.model.record import Batch, Intake
from collector.sources import kafka_client
from collector.sources.kafka_client import KafkaOptions

EVERY = 1.0  # seconds
PLACE = "groups"


async def follow(options: KafkaOptions, clock: Clock, intake: Intake) -> None:
    """Ask for ever. Raises SourceError and KafkaError."""
    admin = kafka_client.admin(options)
    refused = f"{', '.join(options.servers)}: no answer to what the groups have committed"
    try:
        await kafka_client.within(options.deadline, admin.start(), refused)
        while True:
            for group in options.groups:
                offsets = await kafka_client.within(options.deadline, admin.list_consumer_group_offsets(group), refused)
                committed = {f"{place.topic}/{place.partition}": one.offset for place, one in offsets.items()}
                await intake.take(_batch(options.name, group, committed, clock.now()))
            await asyncio.sleep(EVERY)
    finally:
        closing = asyncio.ensure_future(admin.close())
        await asyncio.wait([closing], timeout=kafka_client.CLOSE_SECONDS)


def _batch(source: str, group: str, committed: dict[str, int], now: float) -> Batch:
    return Batch(
        source=source,
        place=PLACE,
        bodies=[msgspec.json.encode(committed)],
        receipts=[group],
        received_at=now,
        tap="kafka-group-offsets",
        about=[{"group": group}],
        is_head=True,
    )
