"""What is Kafka's own: times, headers, transactions, retention, topics that come and go, a cluster that is silent."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.consumer import fetcher
from msgspec.structs import replace

from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.sources import kafka_records
from collector.sources.kafka import KafkaOptions, KafkaSource
from tests import brokers
from tests.brokers.process import Broker, free_port
from tests.contract_suites.rigs import KafkaRig, Notes, create_topic, kafka_topic, running, until

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def admin_of(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """An administrator's client."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def trim(rig: KafkaRig, before: int) -> None:
    """Delete the records of partition 0 below an offset, as retention does."""
    async with admin_of(rig.bootstrap) as admin:
        await admin.delete_records({TopicPartition(rig.topic, 0): RecordsToDelete(before_offset=before)})


async def read(rig: KafkaRig, count: int, notes: Notes | None = None) -> Notes:
    """Run the source until so many records have come."""
    notes = notes or Notes()
    async with running(rig.source(), notes):
        await until(lambda: len(notes.bodies) >= count)
    return notes


@pytest.fixture(params=["raw", "plain"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reading: the fast one, and the one for clients it does not fit."""
    if request.param == "plain":
        monkeypatch.setattr(kafka_records, "raw_is_sound", lambda: False)
    return request.param


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression_is_read(kafka: str, reader: str, codec: str | None) -> None:
    """Records come the same whatever the producer compressed them with, also over several batches."""
    async with kafka_topic(kafka) as rig:
        producer = AIOKafkaProducer(bootstrap_servers=kafka, compression_type=codec, linger_ms=5)
        async with producer:
            for number in range(1200):
                await producer.send(rig.topic, b"%d" % number, partition=0)
        notes = await read(rig, 1200)
        assert notes.bodies == [b"%d" % number for number in range(1200)]
        assert [receipt for batch in notes.batches for receipt in batch.receipts] == list(range(1200))


async def test_headers_keys_and_tombstones(kafka: str, reader: str) -> None:
    """Headers become fields of their record alone, what is no text as surrogates; a tombstone is an empty body."""
    async with kafka_topic(kafka) as rig:
        async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
            await producer.send_and_wait(rig.topic, b"a", key=b"k", partition=0)
            headers = [("task", b"mail"), ("bad", b"\xff")]
            await producer.send_and_wait(rig.topic, b"b", headers=headers, partition=0)
            await producer.send_and_wait(rig.topic, None, key=b"k", partition=0)
        notes = await read(rig, 3)
    fields = [field for batch in notes.batches for field in (batch.fields or [None] * len(batch.bodies))]
    assert notes.bodies == [b"a", b"b", b""]
    assert fields == [None, {"task": "mail", "bad": "\udcff"}, None]


async def test_log_append_time_is_taken_as_it_is(apache: str, reader: str) -> None:
    """On a topic with the broker's time, the sender's time does not count."""
    async with kafka_topic(apache, message_timestamp_type="LogAppendTime") as rig:
        before = time.time() - 1
        async with AIOKafkaProducer(bootstrap_servers=apache) as producer:
            await producer.send_and_wait(rig.topic, b"a", timestamp_ms=1_600_000_000_000, partition=0)
        notes = await read(rig, 1)
    (at,) = next(batch.times for batch in notes.batches if batch.bodies)
    assert before < at <= time.time()


async def test_old_times_count_in_a_backlog_but_not_at_the_head(kafka: str, reader: str) -> None:
    """A record that was waiting has its own time; an old one that is appended at the head arrives now."""
    async with kafka_topic(kafka) as rig, AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        old = int((time.time() - 600) * 1000)
        recent = int((time.time() - 20) * 1000)
        await producer.send_and_wait(rig.topic, b"backlog", timestamp_ms=old, partition=0)
        notes = Notes()
        async with running(rig.source(), notes):
            await until(lambda: rig.place() in notes.heads)
            arrival = time.time()
            await producer.send_and_wait(rig.topic, b"dead letter", timestamp_ms=old, partition=0)
            await producer.send_and_wait(rig.topic, b"fresh", timestamp_ms=recent, partition=0)
            await until(lambda: len(notes.bodies) == 3)
    backlog, dead_letter, fresh = [at for batch in notes.batches for at in batch.times]
    assert backlog == old / 1000
    assert arrival - 1 < dead_letter <= time.time()
    assert fresh == recent / 1000


async def test_a_time_ahead_of_now_is_now(kafka: str) -> None:
    """A sender's clock that runs ahead does not carry an event into the future."""
    async with kafka_topic(kafka) as rig, AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        ahead = int((time.time() + 1800) * 1000)
        await producer.send_and_wait(rig.topic, b"a", timestamp_ms=ahead, partition=0)
        notes = await read(rig, 1)
    batch = next(batch for batch in notes.batches if batch.bodies)
    assert batch.times == [batch.received_at]


async def test_aborted_transactions_are_not_facts(apache: str, reader: str) -> None:
    """Records of an aborted transaction do not come, committed ones do, and the end is reached behind the markers."""
    async with kafka_topic(apache) as rig:
        async with AIOKafkaProducer(bootstrap_servers=apache, transactional_id=rig.topic) as producer:
            async with producer.transaction():
                await producer.send(rig.topic, b"committed", partition=0)
            with pytest.raises(ZeroDivisionError):  # noqa: PT012 - what raises is the block
                async with producer.transaction():
                    await producer.send_and_wait(rig.topic, b"aborted", partition=0)
                    raise ZeroDivisionError
        await rig.write([b"plain"])
        notes = Notes()
        async with running(rig.source(), notes):
            await until(lambda: len(notes.bodies) == 2 and rig.place() in notes.heads)
    assert notes.bodies == [b"committed", b"plain"]
    assert str(notes.positions[rig.place()]).partition("/")[0] == "5"


async def test_a_start_without_position_goes_back_so_far_only(apache: str) -> None:
    """With no position, records older than `start_max_age` are not read; with no age, the oldest is the first."""
    async with kafka_topic(apache) as rig, AIOKafkaProducer(bootstrap_servers=apache) as producer:
        for age in (7200, 1800, 10):
            stamp = int((time.time() - age) * 1000)
            await producer.send_and_wait(rig.topic, b"%d" % age, timestamp_ms=stamp, partition=0)
        assert (await read(rig, 2)).bodies == [b"1800", b"10"]
        rig.options = replace(rig.options, start_max_age=None)
        assert (await read(rig, 3)).bodies == [b"7200", b"1800", b"10"]
        rig.options = replace(rig.options, start_max_age=1.0)
        notes = Notes()
        async with running(rig.source(), notes):
            await until(lambda: rig.place() in notes.heads)
            await rig.write([b"new"])
            await until(lambda: bool(notes.bodies))
        assert notes.bodies == [b"new"]


@pytest.mark.case("K06.1")
@pytest.mark.parametrize(("policy", "estimate", "first"), [("oldest", 4, b"6"), ("newest", 8, b"new")])
async def test_what_retention_took_is_a_gap(apache: str, policy: str, estimate: int, first: bytes) -> None:
    """A stored position that the broker no longer has is a gap with the number of records that were missed."""
    async with kafka_topic(apache) as rig:
        rig.options = replace(rig.options, out_of_range=policy)
        await rig.write([b"%d" % number for number in range(10)])
        await trim(rig, 6)
        notes = Notes({rig.place(): 2})
        async with running(rig.source(), notes):
            await until(lambda: bool(notes.gaps) and rig.place() in notes.heads)
            await rig.write([b"new"])
            await until(lambda: b"new" in notes.bodies)
    (gap,) = notes.gaps
    assert (gap.source, gap.place, gap.estimate, gap.reason) == ("k", rig.place(), estimate, "retention")
    assert gap.start <= gap.end <= time.time()
    assert notes.bodies[0] == first


async def test_retention_can_overtake_a_reader_at_work(apache: str, reader: str) -> None:
    """Records that go while the source is held up are a gap, and reading goes on behind them."""

    class Held(Notes):
        go_on = asyncio.Event()

        async def take(self, batch):
            outcome = await super().take(batch)
            if batch.bodies == [b"0"]:
                await self.go_on.wait()
            return outcome

    async with kafka_topic(apache) as rig:
        notes = Held()
        Held.go_on = asyncio.Event()
        await rig.write([b"0"])
        async with running(rig.source(), notes):
            await until(lambda: notes.bodies == [b"0"])
            # What the client fetched ahead is kept small: a gap needs records that it has not got yet.
            for number in range(1, 30):
                await rig.write([b"%d" % number + b"x" * 1_000_000])
            await trim(rig, 29)
            Held.go_on.set()
            await until(lambda: any(body.startswith(b"29") for body in notes.bodies))
    assert sum(gap.estimate for gap in notes.gaps) == 30 - len(notes.bodies)
    assert notes.gaps


async def test_a_position_behind_the_end_is_another_topics(kafka: str) -> None:
    """A position that the topic has not reached means that it was made anew: a gap of unknown size."""
    async with kafka_topic(kafka) as rig:
        await rig.write([b"0", b"1"])
        notes = await read(rig, 2, Notes({rig.place(): 500}))
    (gap,) = notes.gaps
    assert (gap.estimate, gap.reason) == (None, "recreated")
    assert notes.bodies == [b"0", b"1"]


@pytest.mark.parametrize(
    ("newest", "bodies", "reason"),
    [(2000, [b"unseen"], "truncated"), (5000, [], "truncated"), (500, [b"seen", b"seen", b"unseen"], "recreated")],
)
async def test_a_log_that_lost_its_end_is_not_read_again(
    apache: str, newest: int, bodies: list[bytes], reason: str
) -> None:
    """Behind an election of a leader that was behind, what is no younger than what was read does not come again."""
    began = int(time.time() * 1000) - 10_000
    async with kafka_topic(apache) as rig:
        assert rig.producer is not None
        for at, body in ((1000, b"seen"), (2000, b"seen"), (3000, b"unseen")):
            await rig.producer.send_and_wait(rig.topic, body, partition=0, timestamp_ms=began + at)
        notes = Notes({rig.place(): f"500/{began + newest}"})
        async with running(rig.source(), notes):
            await until(lambda: rig.place() in notes.heads and len(notes.bodies) >= len(bodies), 60)
    (gap,) = notes.gaps
    assert (gap.estimate, gap.reason, gap.start <= gap.end) == (None, reason, True)
    assert notes.bodies == bodies


@pytest.mark.parametrize("is_running", [True, False], ids=["while-it-reads", "while-it-is-away"])
async def test_a_topic_made_anew_is_read_from_its_start(
    apache: str,
    monkeypatch: pytest.MonkeyPatch,
    is_running: bool,  # noqa: FBT001 - a case
) -> None:
    """Also where it has grown beyond the position meanwhile: nothing in the new one was read, and a gap says so."""
    monkeypatch.setattr("collector.sources.kafka_client._METADATA_MS", 500)
    monkeypatch.setattr("collector.sources.kafka_tail._DISCOVERY", 0.2)
    async with kafka_topic(apache, 1) as rig:
        old, new = [b"old%d" % number for number in range(3)], [b"new%d" % number for number in range(5)]
        await rig.write(old)
        notes = Notes()

        async def anew() -> None:
            await rig.producer.stop()  # it would make the topic again by asking for it
            async with admin_of(apache) as admin:
                await admin.delete_topics([rig.topic])
                await until(lambda: not is_running or notes.details[-1].startswith("waits for"))
            await asyncio.sleep(0.5)
            await create_topic(apache, rig.topic, 1)
            rig.producer = AIOKafkaProducer(bootstrap_servers=apache)
            await rig.producer.start()
            await rig.write(new)

        async with running(rig.source(), notes):
            await until(lambda: notes.bodies == old)
            if is_running:
                await anew()
                await until(lambda: len(notes.bodies) == 8, 60)
        if not is_running:
            await anew()
            async with running(rig.source(), notes):
                await until(lambda: len(notes.bodies) == 8, 60)
    assert notes.bodies == [*old, *new]
    assert [(gap.estimate, gap.reason) for gap in notes.gaps] == [(None, "recreated")]


async def test_stop_means_stop(kafka: str) -> None:
    """With `out_of_range: stop` a lost position is an error that no retry cures."""
    async with kafka_topic(kafka) as rig:
        rig.options = replace(rig.options, out_of_range="stop")
        with pytest.raises(SourceError, match="position 500") as caught:
            await rig.source().run(Notes({rig.place(): 500}))
    assert not caught.value.retryable


@pytest.mark.slow
async def test_a_missing_topic_is_awaited_and_not_made(kafka: str) -> None:
    """The source says which topic is missing, never creates it, and reads it from its first record once it is there."""
    async with kafka_topic(kafka) as rig:
        missing = f"m{uuid.uuid4().hex[:12]}"
        rig.options = replace(rig.options, topics=(rig.topic, missing))
        notes = Notes()
        async with running(rig.source(), notes), admin_of(kafka) as admin:
            await until(lambda: rig.place() in notes.heads)
            assert notes.details == [
                f"reads 2 partitions of {rig.topic}; waits for topic {missing}, which does not exist"
            ]
            await asyncio.sleep(6)  # longer than metadata is kept
            assert missing not in await admin.list_topics()
            await create_topic(kafka, missing, 1)
            await rig.producer.send_and_wait(missing, b"first")
            await until(lambda: notes.places.get(f"{missing}/0") == [b"first"], 30)
            assert notes.details[-1].startswith("reads 3 partitions")


@pytest.mark.slow
async def test_new_topics_and_partitions_are_noticed(apache: str) -> None:
    """A pattern takes in topics that are made later, and partitions that are added; what was read is not read again."""
    prefix = f"p{uuid.uuid4().hex[:8]}"
    await create_topic(apache, f"{prefix}-a", 1)
    options = KafkaOptions(name="k", servers=(apache,), pattern=f"{prefix}-.*")
    notes = Notes()
    async with AIOKafkaProducer(bootstrap_servers=apache, metadata_max_age_ms=500) as producer:
        await producer.send_and_wait(f"{prefix}-a", b"0", partition=0)
        async with running(KafkaSource(options), notes), admin_of(apache) as admin:
            await until(lambda: notes.bodies == [b"0"])
            await create_topic(apache, f"{prefix}-b", 1)
            await producer.send_and_wait(f"{prefix}-b", b"1", partition=0)
            await admin.create_partitions({f"{prefix}-a": NewPartitions(2)})
            await until(lambda: notes.bodies == [b"0", b"1"], 30)
            await producer.send_and_wait(f"{prefix}-a", b"2", partition=0)
            await until(lambda: f"{prefix}-a/1" in notes.heads and len(notes.bodies) == 3, 30)
    assert notes.places[f"{prefix}-a/0"] == [b"0", b"2"]


async def test_nothing_is_left_on_the_cluster(kafka: str) -> None:
    """Reading makes no consumer group and no topic."""
    async with kafka_topic(kafka) as rig, admin_of(kafka) as admin:
        before = set(await admin.list_topics())
        await rig.write([b"0"])
        await read(rig, 1)
        assert set(await admin.list_topics()) <= before
        assert "tasktrail" not in str(await admin.list_consumer_groups())


@pytest.mark.parametrize("stuck", ["_proc_fetch_request", "chunks", "_fetch_task"])
async def test_a_client_that_is_stuck_is_given_up(kafka: str, monkeypatch: pytest.MonkeyPatch, stuck: str) -> None:
    """Where the broker answers but the client fetches nothing, keeps what it has, or has ended, there is an error."""
    async with kafka_topic(kafka) as rig:
        rig.options = replace(rig.options, deadline=2.0)
        notes = Notes()
        task = asyncio.ensure_future(rig.source().run(notes))
        await until(lambda: rig.place() in notes.heads)
        match stuck:
            case "_proc_fetch_request":
                monkeypatch.setattr(fetcher.Fetcher, stuck, lambda *_: asyncio.sleep(0.1))
            case "chunks":
                monkeypatch.setattr(kafka_records.RawReader, stuck, lambda _: iter(()))
            case _:
                monkeypatch.setattr(fetcher.Fetcher, "_get_actions_per_node", lambda *_: 1 / 0)
        await rig.write([b"0"])
        with pytest.raises(SourceError, match=r"no answer about|do not come|fetcher has ended"):
            async with asyncio.timeout(20):
                await task


async def test_a_slow_intake_is_not_a_silent_cluster(kafka: str) -> None:
    """Time in which a batch is being counted does not count against the broker."""

    class Slow(Notes):
        async def take(self, batch):
            if batch.bodies == [b"0"]:
                await asyncio.sleep(3)
            return await super().take(batch)

    async with kafka_topic(kafka) as rig:
        rig.options = replace(rig.options, deadline=2.0)
        notes = Slow()
        async with running(rig.source(), notes):
            await until(lambda: rig.place() in notes.heads)
            await rig.write([b"0"])
            await until(lambda: notes.bodies == [b"0"])
            await rig.write([b"1"], lane=1)
            await until(lambda: notes.bodies == [b"0", b"1"])


def test_the_fast_reader_fits_the_installed_client() -> None:
    """With the client in the lock-step range, the raw path gives what the client's own iteration gives."""
    kafka_records.raw_is_sound.cache_clear()
    assert kafka_records.raw_is_sound()


@pytest.mark.parametrize(
    ("owner", "name"),
    [(fetcher.PartitionRecords, "_unpack_records"), (fetcher.Fetcher, "_create_fetch_waiter")],
)
def test_a_changed_client_is_read_the_public_way(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    """Where the client's inside is not what we know, the check says so instead of reading wrongly."""
    kafka_records.raw_is_sound.cache_clear()
    if name == "_unpack_records":
        monkeypatch.setattr(owner, name, lambda _: iter(()))
    else:
        monkeypatch.delattr(owner, name)
    assert not kafka_records.raw_is_sound()
    kafka_records.raw_is_sound.cache_clear()


@pytest.fixture
def own_kafka() -> Iterator[Broker]:
    """A broker that a test may kill."""
    try:
        broker = brokers.launch("kafka")
    except brokers.Unavailable as why:
        pytest.skip(str(why))
    yield broker
    broker.stop()


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_a_lost_cluster_is_an_error(own_kafka: Broker, how: str) -> None:
    """A broker that died, and one that holds its connections but answers nothing, end the source by its deadline."""
    async with kafka_topic(own_kafka.address) as rig:
        await rig.write([b"0"])
        rig.options = replace(rig.options, deadline=4.0)
        notes = Notes()
        await rig.producer.stop()
        task = asyncio.ensure_future(rig.source().run(notes))
        await until(lambda: rig.place() in notes.heads)
        getattr(own_kafka, how)()
        with pytest.raises(SourceError, match=r"no answer|do not come") as caught:
            async with asyncio.timeout(20):
                await task
        assert caught.value.retryable


async def test_a_silent_cluster_does_not_hold_up_the_stop(own_kafka: Broker) -> None:
    """Cancelling a source whose broker answers nothing ends it within the bound of its close."""
    async with kafka_topic(own_kafka.address) as rig:
        await rig.producer.stop()
        notes = Notes()
        task = asyncio.ensure_future(rig.source().run(notes))
        await until(lambda: rig.place() in notes.heads)
        own_kafka.pause()
        await asyncio.sleep(1.5)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=6.0)
        assert done


async def test_a_cluster_that_is_not_there_says_why() -> None:
    """Where nobody listens, the error names the address and the reason."""
    port = free_port()
    source = KafkaSource(KafkaOptions(name="k", servers=(f"127.0.0.1:{port}",), topics=("t",)))
    with pytest.raises(SourceError, match=rf"127.0.0.1:{port}.*Connect") as caught:
        await source.run(Notes())
    assert caught.value.retryable


async def test_a_server_that_answers_nothing_is_given_up() -> None:
    """A port that accepts and stays silent is an error after the deadline, at the start too."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        options = KafkaOptions(name="k", servers=(address,), topics=("t",), deadline=1.0)
        with pytest.raises(SourceError, match=address):
            async with asyncio.timeout(20):
                await KafkaSource(options).run(Notes())


async def test_a_password_lets_us_in_or_keeps_us_out(own_kafka: Broker) -> None:
    """SASL credentials are used; wrong ones are an error that waiting does not cure, and that does not show them."""
    if not own_kafka.sasl:
        pytest.skip(f"{own_kafka.name} has no SASL")
    async with kafka_topic(own_kafka.address) as rig:
        await rig.write([b"0"])
        rig.options = replace(
            rig.options,
            servers=(own_kafka.sasl,),
            security="SASL_PLAINTEXT",
            username="tester",
            password=Secret("secret"),
        )
        assert (await read(rig, 1)).bodies == [b"0"]
        rig.options = replace(rig.options, password=Secret("guessed"))
        with pytest.raises(SourceError, match="uthentication") as caught:
            await rig.source().run(Notes())
    assert not caught.value.retryable
    assert "guessed" not in str(caught.value)


async def test_unusable_tls_files_are_named() -> None:
    """A certificate file that is not there is a final error of the source that names it."""
    options = KafkaOptions(name="mine", servers=("127.0.0.1:1",), topics=("t",), security="SSL", ca_file="/none.pem")
    with pytest.raises(SourceError, match="TLS files of mine") as caught:
        await KafkaSource(options).run(Notes())
    assert not caught.value.retryable
