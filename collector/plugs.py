"""The plugs: which kind of source reads which URL, as one table; and the files that travel with the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from collector.formats import FORMATS, Decode, native
from collector.model.record import ClockName, Source
from collector.source_urls import SourceUrl
from collector.sources.celery_redis import CeleryRedisOptions, CeleryRedisSource, Past
from collector.sources.file import STDIN, FileOptions, FileSource
from collector.sources.kafka import KafkaOptions, KafkaSource
from collector.sources.push import UnixOptions, UnixSource
from collector.sources.redis_stream import RedisStreamOptions, RedisStreamSource
from collector.sources.redis_wire import RedisAddress

PUSHED = "http"
"""The name of the source that is always there: the listener's own POST /v1/events."""


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """A source as the daemon runs it. `build` gives a new client each time; None: it is pushed to."""

    name: str
    application: str = ""
    clock: ClockName = "broker"
    decode: Decode = native.decode
    is_pushed: bool = False
    """Others send to it: there is no past to read."""
    is_tailed: bool = False
    """It reads for ever, and says every second that there is nothing more."""
    build: Callable[[], Source] | None = None


def _kafka(url: SourceUrl) -> Callable[[], Source]:
    given = {
        field: url.options[option]
        for option, field in {
            "topic_pattern": "pattern",
            "start": "out_of_range",
            "security_protocol": "security",
            "sasl_mechanism": "sasl_mechanism",
            "ssl_cafile": "ca_file",
            "ssl_certfile": "cert_file",
            "ssl_keyfile": "key_file",
        }.items()
        if option in url.options
    }
    options = KafkaOptions(
        name=url.name,
        servers=tuple(f"{host}:{port}" for host, port in url.hosts),
        topics=url.items,
        start_max_age=url.start_max_age,
        username=url.options.get("sasl_username", url.user),
        password=url.secrets.get("sasl_password", url.password),
        key_password=url.secrets.get("ssl_password"),
        check_hostname=url.options.get("ssl_check_hostname", "true") == "true",
        **given,  # type: ignore[arg-type]  # the table of options has checked the words
    )
    return lambda: KafkaSource(options)


def _redis_stream(url: SourceUrl) -> Callable[[], Source]:
    host, port = url.hosts[0]
    options = RedisStreamOptions(
        name=url.name,
        address=RedisAddress(
            host=host,
            port=port,
            database=int(url.path[0]),
            username=url.user,
            password=url.password,
            tls=url.options.get("tls") == "true",
            ca_file=url.options.get("ssl_cafile", ""),
        ),
        streams=url.items,
        start_max_age=url.start_max_age,
    )
    return lambda: RedisStreamSource(options)


def _celery_redis(url: SourceUrl) -> Callable[[], Source]:
    is_socket = url.scheme == "celery+redis+socket"
    host, port = url.hosts[0] if url.hosts else ("", 0)
    given = url.options.get("db", "" if is_socket or not url.path else url.path[0]) or "0"
    number = given if given != "*" else (url.path[0] if url.path and not is_socket else "0")
    fanout = url.options.get("fanout_prefix", "true")
    options = CeleryRedisOptions(
        name=url.name,
        address=RedisAddress(
            host=host,
            port=port,
            database=int(number),
            username=url.user,
            password=url.password,
            tls=url.scheme == "celery+rediss",
            ca_file=url.options.get("ssl_cafile", ""),
            path=url.path[0] if is_socket else "",
        ),
        database=given,
        prefix=url.options.get("global_keyprefix"),
        fanout_prefix={"true": "/{db}.", "false": ""}.get(fanout, fanout),
        exchange=url.options.get("event_exchange", "celeryev"),
        results=url.options.get("results", "true") == "true",
        enable_events=url.options.get("enable_events") == "true",
        queues=tuple(name.strip() for name in url.options.get("queues", "").split(",") if name.strip()),
    )
    past = Past()
    return lambda: CeleryRedisSource(options, past)


def _unix(url: SourceUrl) -> Callable[[], Source]:
    options = UnixOptions(name=url.name, path=url.path[0])
    return lambda: UnixSource(options)


def _file(url: SourceUrl) -> Callable[[], Source]:
    options = FileOptions(name=url.name, path=url.path[0] if url.path else STDIN)
    return lambda: FileSource(options)


class Plug(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of source."""

    build: Callable[[SourceUrl], Callable[[], Source]]
    form: str = "native"
    """The format of what it delivers."""
    is_pushed: bool = False
    is_tailed: bool = False


SOURCES: dict[str, Plug] = {
    "kafka": Plug(build=_kafka, is_tailed=True),
    "redis-stream": Plug(build=_redis_stream, is_tailed=True),
    "celery+redis": Plug(build=_celery_redis, form="celery", is_tailed=True),
    "celery+rediss": Plug(build=_celery_redis, form="celery", is_tailed=True),
    "celery+redis+socket": Plug(build=_celery_redis, form="celery", is_tailed=True),
    "unix": Plug(build=_unix, is_pushed=True),
    "file": Plug(build=_file),
    "stdin": Plug(build=_file),
}


def feed(url: SourceUrl) -> Feed:
    """The feed of a configured source. One of scheme `http` sets the options of our own endpoint."""
    clock = url.clock or "broker"
    if url.scheme == PUSHED:
        return Feed(name=url.name, application=url.application, clock=clock, is_pushed=True)
    plug = SOURCES[url.scheme]
    return Feed(
        name=url.name,
        application=url.application,
        clock=clock,
        decode=FORMATS[plug.form].new(),
        is_pushed=plug.is_pushed,
        is_tailed=plug.is_tailed,
        build=plug.build(url),
    )


def shipped() -> Path:
    """The folder of the shipped rules: inside an installed package, or `rules/` of a checkout."""
    inside = Path(__file__).with_name("shipped")
    return inside if inside.is_dir() else Path(__file__).parent.parent / "rules"


def runbooks() -> dict[str, str]:
    """The shipped runbook pages: name → Markdown."""
    return {page.stem: page.read_text(encoding="utf-8") for page in sorted((shipped() / "runbooks").glob("*.md"))}
