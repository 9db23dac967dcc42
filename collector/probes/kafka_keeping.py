"""What deletes the records of Kafka's topics, and when: their settings, and where each partition begins by now.

Asked seldom, of a few topics, over connections that are closed again. It needs `DescribeConfigs` on the topics; where
that is refused, or the broker does not know the question, it is unknown, and said to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code

from collector.model.errors import SourceError
from collector.model.keeping import Keeping, Kept
from collector.probes.kafka import ANSWER_SECONDS, CLOSE_SECONDS, KafkaClients

POLICY, AGE, SIZE = "cleanup.policy", "retention.ms", "retention.bytes"


def kept(topic: str, settings: Mapping[str, str]) -> Kept:
    """How long a topic with these settings keeps a record. Raises KeyError and ValueError where they are none."""
    policies = settings[POLICY].split(",")
    is_deleted = "delete" in policies
    age, size = int(settings[AGE]), int(settings[SIZE])
    words = [f"{AGE} {age}"] if is_deleted and age >= 0 else []
    words += [f"{SIZE} {size}"] if is_deleted and size >= 0 else []
    words += [f"a newer record of its key ({POLICY} compact)"] if "compact" in policies else []
    by = f"Kafka, {topic}: {' or '.join(words)}" if words else f"never: Kafka keeps all of {topic}"
    return Kept(age / 1000 if is_deleted and age >= 0 else None, by)


class KafkaKeeping:
    """Of one cluster."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients

    async def ask(self, places: Collection[str]) -> Keeping:
        """What is known of places `topic/partition`. Raises SourceError where the cluster cannot be asked."""
        admin, consumer = self._clients.admin(), self._clients.consumer()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await admin.start()
                await consumer.start()
                wanted = [
                    TopicPartition(topic, int(number))
                    for topic, _, number in (place.rpartition("/") for place in places)
                ]
                there = await _partitions(admin)
                found, gone = await _settings(admin, sorted({at.topic for at in wanted}), there)
                begins = await _begins(consumer, [at for at in wanted if at.partition in there.get(at.topic, ())])
        except (KafkaError, OSError, TimeoutError) as error:
            raise SourceError(str(error) or type(error).__name__) from error
        finally:
            closing = [asyncio.ensure_future(one) for one in (self._clients.close(consumer), admin.close())]
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)
        found.begins = begins
        found.gone = frozenset(_place(at) for at in wanted if at.topic in gone or _is_lost(at, there.get(at.topic, ())))
        return found


def _place(at: TopicPartition) -> str:
    return f"{at.topic}/{at.partition}"


def _is_lost(at: TopicPartition, there: Collection[int]) -> bool:
    """Whether its topic is there by now with fewer partitions. Without any it is only coming or going."""
    return bool(there) and at.partition not in there


async def _partitions(admin: AIOKafkaAdminClient) -> dict[str, set[int]]:
    """Of the topics that may be seen."""
    found = await admin.describe_topics()
    return {row["topic"]: {one["partition"] for one in row["partitions"]} for row in found}


async def _settings(
    admin: AIOKafkaAdminClient, topics: Sequence[str], there: Collection[str]
) -> tuple[Keeping, set[str]]:
    """How long topics keep what lies there; and those that are gone: one that may not be seen is not among them."""
    found, refused, gone = Keeping(), dict[str, str](), set[str]()
    names = dict.fromkeys((POLICY, AGE, SIZE))
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, names) for topic in topics]
    for reply in await admin.describe_configs(resources):
        for code, _, _, topic, entries in reply.resources:
            if code == UnknownTopicOrPartitionError.errno and topic not in there:
                found.kept[topic] = Kept()
                gone.add(topic)
                continue
            try:
                if code:
                    raise for_code(code)
                found.kept[topic] = kept(topic, {name: value for name, value, *_ in entries})
            except (KafkaError, KeyError, ValueError) as error:
                found.kept[topic] = Kept()
                refused[topic] = type(error).__name__
    if refused:
        topic, why = next(iter(refused.items()))
        found.says = (
            f"when dead letters of {topic}{f' and {len(refused) - 1} more' if len(refused) > 1 else ''} are deleted is "
            f"not known: {why}; it needs DescribeConfigs on the topic"
        )
    return found, gone


async def _begins(consumer: AIOKafkaConsumer, places: Sequence[TopicPartition]) -> dict[str, int]:
    """Only of partitions that are there: the client would ask for others until its patience ends."""
    offsets = await consumer.beginning_offsets(places) if places else {}
    return {_place(at): offset for at, offset in offsets.items()}
