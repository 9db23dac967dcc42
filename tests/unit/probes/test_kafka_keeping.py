"""What deletes a topic's records, and when; and what is said where nobody may know."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError

from collector.model.errors import SourceError
from collector.model.keeping import Kept
from collector.probes.kafka import KafkaClients
from collector.probes.kafka_keeping import KafkaKeeping, kept

REFUSED, UNKNOWN = 29, 3


@pytest.mark.parametrize(
    ("policy", "age", "size", "expected"),
    [
        ("delete", "604800000", "-1", Kept(604800.0, "Kafka, dlt: retention.ms 604800000")),
        ("delete", "0", "-1", Kept(0.0, "Kafka, dlt: retention.ms 0")),
        ("delete", "1500", "99", Kept(1.5, "Kafka, dlt: retention.ms 1500 or retention.bytes 99")),
        ("delete", "-1", "99", Kept(None, "Kafka, dlt: retention.bytes 99")),
        ("delete", "-1", "-1", Kept(None, "never: Kafka keeps all of dlt")),
        ("compact", "60000", "99", Kept(None, "Kafka, dlt: a newer record of its key (cleanup.policy compact)")),
        (
            "compact,delete",
            "60000",
            "-1",
            Kept(60.0, "Kafka, dlt: retention.ms 60000 or a newer record of its key (cleanup.policy compact)"),
        ),
    ],
)
def test_the_settings_of_a_topic_say_what_deletes_its_records(policy, age, size, expected):
    """Age where it is bounded and the policy deletes; what has no time is named all the same."""
    assert kept("dlt", {"cleanup.policy": policy, "retention.ms": age, "retention.bytes": size}) == expected


class Cluster:
    """Answers as aiokafka's clients do: topic → error code and settings."""

    def __init__(self, **topics):
        self.topics = topics
        self.unseen = set()
        self.is_down = False
        self.closed = []

    async def start(self):
        """Both."""
        if self.is_down:
            raise KafkaConnectionError

    async def describe_configs(self, resources):
        """One reply."""
        rows = []
        for resource in resources:
            code, settings = self.topics[resource.name]
            assert set(resource.configs) == {"cleanup.policy", "retention.ms", "retention.bytes"}
            rows.append((code, "", 2, resource.name, [(name, value, False) for name, value in settings.items()]))
        return [SimpleNamespace(resources=rows)]

    async def describe_topics(self):
        """Those that may be seen, each with two partitions."""
        partitions = [{"partition": number} for number in (0, 1)]
        there = [name for name, (code, _) in self.topics.items() if code in {0, REFUSED} and name not in self.unseen]
        return [{"topic": name, "partitions": partitions} for name in there]

    async def beginning_offsets(self, places):
        """All begin at 7; the client asks for what is not there until its patience ends."""
        if any(at.partition > 1 or self.topics[at.topic][0] == UNKNOWN for at in places):
            raise KafkaTimeoutError
        return dict.fromkeys(places, 7)

    async def close(self):
        """Of the admin client."""
        self.closed.append("admin")

    async def thrown(self, _consumer):
        """Of the consumer."""
        self.closed.append("consumer")

    def asked(self):
        """What asks it."""
        return KafkaKeeping(KafkaClients(lambda: self, lambda: self, self.thrown))


WEEK = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


async def test_what_may_not_be_asked_is_unknown_and_said_to_be():
    """Topics that are refused or answered with nonsense, not those that are gone; all others are known."""
    cluster = Cluster(
        a=(0, WEEK),
        b=(REFUSED, {}),
        c=(UNKNOWN, {}),
        d=(0, {**WEEK, "retention.ms": "soon"}),
        e=(0, {"retention.ms": "1"}),
    )
    found = await cluster.asked().ask(["a/0", "a/1", "b/0", "c/0", "d/0", "e/0"])
    assert found.kept == {"a": Kept(604800.0, "Kafka, a: retention.ms 604800000")} | dict.fromkeys("bcde", Kept())
    assert found.begins == dict.fromkeys(["a/0", "a/1", "b/0", "d/0", "e/0"], 7)
    assert found.says == (
        "when dead letters of b and 2 more are deleted is not known: TopicAuthorizationFailedError; "
        "it needs DescribeConfigs on the topic"
    )
    assert sorted(cluster.closed) == ["admin", "consumer"]
    assert (await Cluster(a=(0, WEEK)).asked().ask(["a/0"])).says == ""


async def test_what_is_gone_is_told_and_hides_nothing_of_the_rest():
    """A topic, and a partition of one that was made anew; one that may not be seen may be there all the same."""
    cluster = Cluster(a=(0, WEEK), b=(REFUSED, {}), c=(UNKNOWN, {}), d=(0, WEEK))
    cluster.unseen = {"b", "d"}
    found = await cluster.asked().ask(["a/0", "a/7", "b/0", "c/0", "c/1", "d/0"])
    assert (found.gone, found.begins) == ({"a/7", "c/0", "c/1"}, {"a/0": 7})
    assert found.kept["a"] == Kept(604800.0, "Kafka, a: retention.ms 604800000")


async def test_a_cluster_that_does_not_answer_is_an_error_of_the_source():
    """Both clients are thrown away."""
    cluster = Cluster()
    cluster.is_down = True
    with pytest.raises(SourceError, match="KafkaConnectionError"):
        await cluster.asked().ask(["a/0"])
    assert sorted(cluster.closed) == ["admin", "consumer"]
