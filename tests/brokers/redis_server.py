"""Redis on a free loopback port, without persistence."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from tests.brokers import install
from tests.brokers.process import Broker, Unavailable, free_port, spawn, tried


def launch(detached: bool) -> Broker:  # noqa: FBT001 - one row's signature in a table
    """A fresh server; Unavailable where there is none and none can be installed."""
    program = install.apt("redis-server", "redis-server")

    def start(folder: str) -> tuple[Broker, Callable[[], bool]]:
        port = free_port()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        pid = spawn([program, *options], folder, detached=detached)
        return Broker("Redis", f"redis://127.0.0.1:{port}/0", [pid]), lambda: _version("127.0.0.1", port) != ""

    broker = tried("Redis", start)
    broker.name = f"Redis {_version(*broker.host_port)}"
    return broker


def name_of(url: str) -> str:
    """Redis and its version, as it says itself."""
    parts = urlsplit(url)
    version = _version(parts.hostname or "127.0.0.1", parts.port or 6379, unquote(parts.password or ""))
    if not version:
        raise Unavailable(f"no Redis answers at {parts.hostname}:{parts.port}")
    return f"Redis {version}"


def answers(host: str, port: int) -> bool:
    """Whether a server answers there."""
    return _version(host, port) != ""


def _version(host: str, port: int, password: str = "") -> str:
    """The server's version, or "" where nobody answers."""
    greeting = f"AUTH {password}\r\n" if password else ""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(f"{greeting}INFO server\r\n".encode())
            reply = b""
            while b"redis_version:" not in reply or b"\r\n" not in reply.split(b"redis_version:")[1]:
                if not (more := connection.recv(65536)):
                    return ""
                reply += more
    except OSError:
        return ""
    return reply.split(b"redis_version:")[1].split(b"\r\n")[0].decode()
