"""RabbitMQ as a node of its own: own name, own port mapper, own folder, nothing shared with an installed service."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tests.brokers import install
from tests.brokers.process import Broker, Unavailable, free_port, spawn, tried

_SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's wrapper on PATH insists on the service's own folders


def launch(detached: bool) -> Broker:  # noqa: FBT001 - one row's signature in a table
    """A fresh node; Unavailable where there is none and none can be installed."""
    program = install.apt("rabbitmq-server", "rabbitmq-server")
    epmd = install.apt("epmd", "erlang-base")
    script = str(_SCRIPT) if _SCRIPT.exists() else program

    def start(folder: str) -> tuple[Broker, Callable[[], bool]]:
        port, mapper = free_port(), free_port()
        environment = _environment(folder, port, mapper)
        pids = [
            spawn([epmd, "-port", str(mapper)], folder, detached=detached, environment=environment),
            spawn([script], folder, detached=detached, environment=environment),
        ]
        broker = Broker("RabbitMQ", f"amqp://guest:guest@127.0.0.1:{port}/", pids)
        broker.environment = environment
        return broker, lambda: _version("127.0.0.1", port) != ""

    broker = tried("RabbitMQ", start)
    broker.name = f"RabbitMQ {_version(*broker.host_port)}"
    return broker


def control(broker: Broker, *words: str) -> str:
    """What `rabbitmqctl` prints, for a node that was launched here. Unavailable where it was not, or where it fails."""
    program = _SCRIPT.with_name("rabbitmqctl")
    if not broker.environment or not program.exists():
        raise Unavailable("rabbitmqctl speaks only to a node that the tests have started")
    call = [str(program), "-q", "-n", broker.environment["RABBITMQ_NODENAME"], *words]
    done = subprocess.run(
        call, env={**os.environ, **broker.environment}, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise Unavailable(f"rabbitmqctl {words[0]}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


def name_of(url: str) -> str:
    """RabbitMQ and its version, as it says itself."""
    parts = urlsplit(url)
    version = _version(parts.hostname or "127.0.0.1", parts.port or 5672)
    if not version:
        raise Unavailable(f"no RabbitMQ answers at {parts.hostname}:{parts.port}")
    return f"RabbitMQ {version}"


def _environment(folder: str, port: int, mapper: int) -> dict[str, str]:
    return {
        "HOME": folder,  # the cookie lies there
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"tasktrail{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_BASE": folder,
        "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
        "RABBITMQ_LOG_BASE": f"{folder}/log.d",
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq",
        "RABBITMQ_CONF_ENV_FILE": f"{folder}/rabbitmq-env.conf",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
        "RABBITMQ_ALLOW_INPUT": "1",  # the script becomes the node, so that its pid is the node's
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
    }


def _version(host: str, port: int) -> str:
    """The version in the server's greeting, or "" where nobody greets."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            greeting = connection.recv(65536)
    except OSError:
        return ""
    found = re.search(rb"\x07versionS\x00\x00\x00.([\d.]+)", greeting, re.DOTALL)
    return found[1].decode() if found else ""
