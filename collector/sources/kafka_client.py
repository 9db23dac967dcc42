"""The Kafka client: its options, how it is built, asked, and thrown away, each within a deadline of ours."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar

import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.helpers import create_ssl_context

from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.sources import kafka_records

T = TypeVar("T")

_FETCH_WAIT_MS = 500
_METADATA_MS = 5_000
_MEGABYTE = 1 << 20
CLOSE_SECONDS = 5.0


class KafkaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster and what to read there. Either `topics` or `pattern` (a regular expression, whole names)."""

    name: str
    servers: tuple[str, ...]
    """Bootstrap addresses, `host:port`."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start_max_age: float | None = 3600.0
    """How far back reading starts where there is no position, seconds; None: from the oldest record."""
    out_of_range: Literal["oldest", "newest", "stop"] = "oldest"
    """Where reading goes on when the broker no longer has the position."""
    groups: tuple[str, ...] = ()
    """Consumer groups of others whose committed offsets are asked every second."""
    chunk: int = 1000
    """Records per batch, at most."""
    check_crcs: bool = False
    """Whether a damaged record batch ends the source. A monitor had better read on and count what it cannot decode; a
    sum over every byte is also a fifth of what reading costs."""
    deadline: float = 20.0
    """Seconds without any sign of life of a partition after which the client is given up."""
    security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    username: str = ""
    password: Secret | None = None
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    key_password: Secret | None = None
    check_hostname: bool = True


def build(options: KafkaOptions, partition_bytes: int = _MEGABYTE) -> AIOKafkaConsumer:
    """A consumer without a group that commits nothing; not started. Raises SourceError for unusable TLS files."""
    return AIOKafkaConsumer(
        **_connection(options),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        check_crcs=options.check_crcs,
        fetch_max_wait_ms=_FETCH_WAIT_MS,
        fetch_max_bytes=16 * _MEGABYTE,
        max_partition_fetch_bytes=partition_bytes,
    )


def admin(options: KafkaOptions) -> AIOKafkaAdminClient:
    """A client that asks what others have committed; not started. Raises SourceError for unusable TLS files."""
    return AIOKafkaAdminClient(**_connection(options))


def producer(options: KafkaOptions, transactional_id: str) -> AIOKafkaProducer:
    """A producer of transactions; not started. Raises SourceError for unusable TLS files."""
    return AIOKafkaProducer(
        **_connection(options),
        transactional_id=transactional_id,
        linger_ms=5,
        max_request_size=64 * _MEGABYTE,
    )


def _connection(options: KafkaOptions) -> dict[str, Any]:
    secret = options.password
    return {
        "bootstrap_servers": list(options.servers),
        "client_id": "tasktrail",
        "request_timeout_ms": int(options.deadline * 1000),
        "metadata_max_age_ms": _METADATA_MS,
        "security_protocol": options.security,
        "ssl_context": _tls(options) if options.security.endswith("SSL") else None,
        "sasl_mechanism": options.sasl_mechanism,
        "sasl_plain_username": options.username or None,
        "sasl_plain_password": secret.reveal() if secret is not None else None,
    }


def _tls(options: KafkaOptions) -> ssl.SSLContext:
    secret = options.key_password
    try:
        context: ssl.SSLContext = create_ssl_context(
            cafile=options.ca_file or None,
            certfile=options.cert_file or None,
            keyfile=options.key_file or None,
            password=secret.reveal() if secret is not None else None,
        )
    except (OSError, ssl.SSLError) as error:
        raise SourceError(f"TLS files of {options.name}: {error}", retryable=False) from error
    context.check_hostname = options.check_hostname
    return context


async def within(seconds: float, question: Awaitable[T], what: str) -> T:
    """An answer in time, else SourceError: `what` for so many seconds."""
    try:
        return await asyncio.wait_for(question, seconds)
    except TimeoutError as error:
        raise SourceError(f"{what} for {seconds:.0f} s") from error


async def close(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer within five seconds, whatever it hangs on.

    A consumer whose fetcher has failed does not get as far as its connections; those are closed for it.
    """
    stop = asyncio.ensure_future(consumer.stop())
    await asyncio.wait([stop], timeout=CLOSE_SECONDS)
    if not stop.done() or stop.cancelled() or stop.exception() is not None:
        stop.cancel()
        kafka_records.abandon(consumer)
