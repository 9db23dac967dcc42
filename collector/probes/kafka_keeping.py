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
from aiokafka.errors import KafkaError, for_code

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
                wanted = [TopicPartition(topic, int(number)) for topic, _, number in map(_parted, places)]
                found = await _settings(admin, sorted({at.topic for at in wanted}))
                begins = await _begins(admin, consumer, wanted)
        except (KafkaError, OSError, TimeoutError) as error:
            raise SourceError(str(error) or type(error).__name__) from error
        finally:
            closing = [asyncio.ensure_future(one) for one in (self._clients.close(consumer), admin.close())]
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)
        found.begins = begins
        return found


def _parted(place: str) -> tuple[str, str, str]:
    return place.rpartition("/")


async def _settings(admin: AIOKafkaAdminClient, topics: Sequence[str]) -> Keeping:
    found, refused = Keeping(), dict[str, str]()
    names = dict.fromkeys((POLICY, AGE, SIZE))
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, names) for topic in topics]
    for reply in await admin.describe_configs(resources):
        for code, _, _, topic, entries in reply.resources:
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
    return found


async def _begins(
    admin: AIOKafkaAdminClient, consumer: AIOKafkaConsumer, wanted: Sequence[TopicPartition]
) -> dict[str, int]:
    """Only of topics that are there: the client would ask for others until its patience ends."""
    there = set(await admin.list_topics())
    places = [at for at in wanted if at.topic in there]
    offsets = await consumer.beginning_offsets(places) if places else {}
    return {f"{at.topic}/{at.partition}": offset for at, offset in offsets.items()}
