"""`tasktrail bench`: how fast the pipeline is on this machine, as ratios within one run.

Without `--kafka` it measures on messages in memory against decoding alone; with it the whole way from a topic.
"""

from __future__ import annotations

import argparse
import gc
import logging
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import msgspec
import uvloop
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from collector.bench import alerts, events, kafka, rules
from collector.bench.load import OPEN, messages
from collector.cli.core import is_compiled
from collector.config import rulefiles
from collector.formats import native
from collector.model.event import Event
from collector.model.record import Batch
from collector.shell.axis import Axis
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import Target, instant_of

BATCH = 500
TRAILS = 100_000


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `bench`."""
    parser.add_argument(
        "--kafka", metavar="HOST:PORT", help="a broker to measure on; a topic `tasktrail.bench.*` is made there"
    )
    parser.add_argument("--messages", type=int, default=600_000, metavar="N", help="how many (600000)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of each side, in turn (3)")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0."""
    gc.set_threshold(50_000, 20, 100)
    logging.getLogger("tasktrail").setLevel(logging.CRITICAL)  # the alerts of the load are nobody's
    load = messages(arguments.messages, time.time())
    size = sum(map(len, load)) / len(load)
    core = "compiled" if is_compiled() else "plain Python"
    print(f"{len(load):,} messages of {size:.0f} B, 40 tasks x 3 queues, {OPEN:,} in work at once; core: {core}")
    if arguments.kafka:
        uvloop.run(_on_kafka(arguments.kafka, load, arguments.repeats))
    else:
        _in_memory(load, arguments.repeats)
    figure = subprocess.run(  # noqa: S603 ourselves
        [sys.executable, "-m", "collector.bench.memory", str(TRAILS)], check=True, capture_output=True, text=True
    )
    print(figure.stdout.strip())
    for report in (rules.report, events.report, alerts.report):
        for line in report():
            print(line)
    return 0


async def _on_kafka(servers: str, load: Sequence[bytes], repeats: int) -> None:
    topic = f"tasktrail.bench.{time.time_ns():x}"
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, kafka.PARTITIONS, 1)])
        await kafka.fill(servers, topic, load)
        ceilings: list[float] = []
        wholes: list[float] = []
        stall = 0.0
        for _ in range(repeats):
            ceilings.append(await kafka.ceiling(servers, topic, len(load)))
            spent, step = await kafka.pipeline(servers, topic, len(load))
            wholes.append(spent)
            stall = max(stall, step)
        await admin.delete_topics([topic])
    finally:
        await admin.close()
    _print("getmany and decoding alone", ceilings, len(load))
    _print("the whole pipeline, shipped rules", wholes, len(load))
    print(f"longest step of evaluation: {stall * 1000:.1f} ms")
    print(f"ratio {statistics.median(ceilings) / statistics.median(wholes):.2f}")


def _in_memory(load: Sequence[bytes], repeats: int) -> None:
    decode = msgspec.json.Decoder(Event).decode
    ceilings: list[float] = []
    wholes: list[float] = []
    for _ in range(repeats):
        began = time.process_time()
        for body in load:
            decode(body)
        ceilings.append(time.process_time() - began)
        wholes.append(_whole(load))
    _print("decoding alone", ceilings, len(load))
    _print("decoding, stitching, counting, rules", wholes, len(load))


def _whole(load: Sequence[bytes]) -> float:
    pipeline = Pipeline(Limits(), rulefiles.load(["shipped"]), telemetry=Telemetry())
    axis = Axis(name="bench", application="", clock="event")
    pipeline.axes.append(axis)
    gc.collect()
    began = time.process_time()
    for start in range(0, len(load), BATCH):
        bodies = list(load[start : start + BATCH])
        batch = Batch(
            source="bench", place="memory", bodies=bodies, receipts=[*range(len(bodies))], received_at=time.time()
        )
        pipeline.ingest.count(axis, native.decode, batch, math.inf)
        for _ in pipeline.advance(Target(instant_of(axis.places["memory"].newest), time.time())):
            pass
    return time.process_time() - began


def _print(what: str, seconds: Sequence[float], count: int) -> None:
    median = statistics.median(seconds)
    print(f"{what}: {median:.2f} CPU s, {median / count * 1e6:.2f} us a message, {count / median:,.0f} a second")
