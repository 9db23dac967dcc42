"""The plugs: which kind of source reads which URL, as one table; and the files that travel with the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from collector.documents.scalars import parse_duration
from collector.formats import FORMATS, Decode, bullmq, mapping, messages, native
from collector.formats.recognise import recognising
from collector.model.record import ClockName, Source
from collector.source_urls import SourceUrl
from collector.sources.amqp import AmqpOptions, AmqpSource, Tap
from collector.sources.amqp_wire import AmqpAddress
from collector.sources.bullmq import BullmqOptions, BullmqSource
from collector.sources.file import STDIN, FileOptions, FileSource
from collector.sources.kafka import KafkaOptions, KafkaSource
from collector.sources.push import UnixOptions, UnixSource
from collector.sources.redis_stream import RedisStreamOptions, RedisStreamSource
from collector.sources.redis_watch import RedisWatchOptions
from collector.sources.redis_watcher import RedisWatchSource
from collector.sources.redis_watches import WATCHES
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


def _listed(url: SourceUrl, option: str) -> tuple[str, ...]:
    """An option that lists things with commas."""
    return tuple(part.strip() for part in url.options.get(option, "").split(",") if part.strip())


def _is_messages(url: SourceUrl) -> bool:
    """Whether what is read are messages of hand-written consumers: said so, or by what only such a source has."""
    says = url.options.get("format") == "messages"
    return says or any(url.options.get(option) for option in ("retry", "dead_letter", "groups"))


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
        groups=_listed(url, "groups"),
        start_max_age=url.start_max_age,
        username=url.options.get("sasl_username", url.user),
        password=url.secrets.get("sasl_password", url.password),
        key_password=url.secrets.get("ssl_password"),
        check_hostname=url.options.get("ssl_check_hostname", "true") == "true",
        **given,  # type: ignore[arg-type]  # the table of options has checked the words
    )
    return lambda: KafkaSource(options)


def _redis_address(url: SourceUrl) -> RedisAddress:
    host, port = url.hosts[0]
    return RedisAddress(
        host=host,
        port=port,
        database=int(url.path[0]) if url.path else 0,
        username=url.user,
        password=url.password,
        tls=url.scheme.endswith("+rediss") or url.options.get("tls") == "true",
        ca_file=url.options.get("ssl_cafile", ""),
    )


def _redis_stream(url: SourceUrl) -> Callable[[], Source]:
    options = RedisStreamOptions(
        name=url.name,
        address=_redis_address(url),
        streams=url.items,
        groups=_is_messages(url),
        start_max_age=url.start_max_age,
    )
    return lambda: RedisStreamSource(options)


def _redis_watch(url: SourceUrl) -> Callable[[], Source]:
    options = RedisWatchOptions(
        name=url.name,
        address=_redis_address(url),
        watch=WATCHES[url.scheme.partition("+")[0]],
        prefix=url.options.get("prefix", ""),
        queues=url.items,
        poll=parse_duration(url.options.get("poll", "0s")),
        start_max_age=url.start_max_age,
    )
    return lambda: RedisWatchSource(options)


def _amqp_address(url: SourceUrl, vhost: str) -> AmqpAddress:
    host, port = url.hosts[0]
    return AmqpAddress(
        host=host,
        port=port,
        vhost=vhost,
        username=url.user or "guest",
        password=url.password,
        tls=url.scheme.endswith("s"),
        ca_file=url.options.get("ssl_cafile", ""),
    )


def _amqp(url: SourceUrl) -> Callable[[], Source]:
    *vhost, what, name = url.path
    keys = _listed(url, "routing_key") or ("#",)
    options = AmqpOptions(
        name=url.name,
        address=_amqp_address(url, vhost[0] if vhost else "/"),
        taps=(Tap(exchange=name, keys=keys),) if what == "exchange" else (),
        queue=name if what == "queue" else "",
    )
    return lambda: AmqpSource(options)


def _celery_amqp(url: SourceUrl) -> Callable[[], Source]:
    dead_keys = ("#", *_listed(url, "dead_letter_routing_key"))
    dead = [Tap(exchange=name, keys=dead_keys, role="dead_letters") for name in _listed(url, "dead_letter_exchange")]
    management = url.options.get("management", "")
    options = AmqpOptions(
        name=url.name,
        address=_amqp_address(url, url.path[0] if url.path else "/"),
        taps=(Tap(exchange=url.options.get("event_exchange", "celeryev"), role="events"), *dead),
        management=management,
        find_dead_letters=True,
        hint="" if dead or management else "reads no dead letters: name dead_letter_exchange=NAME, or management=URL",
    )
    return lambda: AmqpSource(options)


def _dramatiq_amqp(url: SourceUrl) -> Callable[[], Source]:
    vhost = url.path[0] if url.path else "/"
    is_traced = url.options.get("firehose") == "true"
    firehose = Tap(exchange="amq.rabbitmq.trace", keys=("publish.#", "deliver.#"), role="firehose")
    options = AmqpOptions(
        name=url.name,
        address=_amqp_address(url, vhost),
        taps=(firehose,) if is_traced else (),
        peeks=_listed(url, "peek"),
        management=url.options.get("management", ""),
        hint=f"the firehose is silent until `rabbitmqctl trace_on -p {vhost}`, costs the broker a copy of every "
        "message, and ends with a restart of the node"
        if is_traced
        else "Dramatiq publishes to the default exchange, which nothing can be bound beside: for each task use the "
        "hook in the worker, or firehose=true; for dead letters peek=QUEUE.XQ; for lengths management=URL",
    )
    return lambda: AmqpSource(options)


def _bullmq(url: SourceUrl) -> Callable[[], Source]:
    options = BullmqOptions(
        name=url.name,
        address=_redis_address(url),
        queues=() if "*" in url.items else url.items,
        prefix=url.options.get("prefix", ""),
        start_max_age=url.start_max_age,
    )
    return lambda: BullmqSource(options)


def _bullmq_decode(url: SourceUrl) -> Decode:
    prefix = url.options.get("prefix", "")
    return bullmq.Decoder(prefix, failed_is_dead_letter=url.options.get("failed_is_dead_letter") == "true")


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
    decode: Callable[[SourceUrl], Decode] | None = None
    """Makes the decoder, where that depends on the source's options."""
    is_pushed: bool = False
    is_tailed: bool = False


SOURCES: dict[str, Plug] = {
    "kafka": Plug(build=_kafka, is_tailed=True),
    "redis-stream": Plug(build=_redis_stream, is_tailed=True),
    "amqp": Plug(build=_amqp, is_tailed=True),
    "amqps": Plug(build=_amqp, is_tailed=True),
    "celery+amqp": Plug(build=_celery_amqp, form="celery", is_tailed=True),
    "celery+amqps": Plug(build=_celery_amqp, form="celery", is_tailed=True),
    "dramatiq+amqp": Plug(build=_dramatiq_amqp, form="dramatiq", is_tailed=True),
    "dramatiq+amqps": Plug(build=_dramatiq_amqp, form="dramatiq", is_tailed=True),
    "bullmq+redis": Plug(build=_bullmq, form="bullmq", decode=_bullmq_decode, is_tailed=True),
    "bullmq+rediss": Plug(build=_bullmq, form="bullmq", decode=_bullmq_decode, is_tailed=True),
    **{
        f"{name}+{redis}": Plug(build=_redis_watch, form=name, is_tailed=True)
        for name in WATCHES
        for redis in ("redis", "rediss")
    },
    "unix": Plug(build=_unix, is_pushed=True),
    "file": Plug(build=_file),
    "stdin": Plug(build=_file),
}


def pushed(name: str = PUSHED, application: str = "", clock: ClockName = "broker") -> Feed:
    """The feed of our own endpoints: native events, and OTLP exports."""
    decode = recognising({form: FORMATS[form] for form in ("otlp", "native")})
    return Feed(name=name, application=application, clock=clock, decode=decode, is_pushed=True)


def _decode(url: SourceUrl, plug: Plug) -> Decode:
    """How a source's records are read: by its mapping, as messages in places of a role, or in its own form."""
    if url.mapping is not None:
        return mapping.decoder(url.mapping)
    if _is_messages(url):
        return messages.decoder(_listed(url, "retry"), _listed(url, "dead_letter"))
    return FORMATS[url.options.get("format", plug.form)].new() if plug.decode is None else plug.decode(url)


def feed(url: SourceUrl) -> Feed:
    """The feed of a configured source. One of scheme `http` sets the options of our own endpoint."""
    clock = url.clock or "broker"
    if url.scheme == PUSHED:
        return pushed(name=url.name, application=url.application, clock=clock)
    plug = SOURCES[url.scheme]
    return Feed(
        name=url.name,
        application=url.application,
        clock=clock,
        decode=_decode(url, plug),
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
