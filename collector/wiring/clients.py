"""From a configured source to what makes its client: a function per kind of source."""

from __future__ import annotations

from collections.abc import Callable

from collector.config.source_urls import SourceUrl
from collector.documents.scalars import parse_duration
from collector.model.record import Source
from collector.sources.amqp import AmqpOptions, AmqpSource, Tap
from collector.sources.amqp_signs import Signs
from collector.sources.amqp_wire import AmqpAddress, library
from collector.sources.bullmq import BullmqOptions, BullmqSource
from collector.sources.celery_redis import CeleryRedisOptions, CeleryRedisSource, Past
from collector.sources.file import STDIN, FileOptions, FileSource
from collector.sources.kafka import KafkaOptions, KafkaSource
from collector.sources.push import UnixOptions, UnixSource
from collector.sources.redis_stream import RedisStreamOptions, RedisStreamSource
from collector.sources.redis_watch import RedisWatchOptions
from collector.sources.redis_watcher import RedisWatchSource
from collector.sources.redis_watches import WATCHES
from collector.sources.redis_wire import RedisAddress


def listed(url: SourceUrl, option: str) -> tuple[str, ...]:
    """An option that lists things with commas."""
    return tuple(part.strip() for part in url.options.get(option, "").split(",") if part.strip())


def is_messages(url: SourceUrl) -> bool:
    """Whether what is read are messages of hand-written consumers: said so, or by what only such a source has."""
    says = url.options.get("format") == "messages"
    return says or any(url.options.get(option) for option in ("retry", "dead_letter", "groups"))


def kafka_options(url: SourceUrl) -> KafkaOptions:
    """The cluster that a `kafka://` names, and what to read there."""
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
    return KafkaOptions(
        name=url.name,
        servers=tuple(f"{host}:{port}" for host, port in url.hosts),
        topics=with_roles(url) if url.items else (),
        groups=listed(url, "groups"),
        start_max_age=url.start_max_age,
        username=url.options.get("sasl_username", url.user),
        password=url.secrets.get("sasl_password", url.password),
        key_password=url.secrets.get("ssl_password"),
        check_hostname=url.options.get("ssl_check_hostname", "true") == "true",
        **given,  # type: ignore[arg-type]  # the table of options has checked the words
    )


def kafka(url: SourceUrl) -> Callable[[], Source]:
    """`kafka://`."""
    options = kafka_options(url)
    return lambda: KafkaSource(options)


def redis_address(url: SourceUrl) -> RedisAddress:
    """Of any source on a Redis; over a socket the database is an option, and `*` stands for the one of the path."""
    is_socket = "+socket" in url.scheme
    host, port = url.hosts[0] if url.hosts else ("", 0)
    in_path = url.path[0] if url.path and not is_socket else ""
    number = url.options.get("db", "").removeprefix("*") or in_path or "0"
    return RedisAddress(
        host=host,
        port=port,
        database=int(number),
        username=url.user,
        password=url.password,
        tls=url.scheme.endswith("+rediss") or url.options.get("tls") == "true",
        ca_file=url.options.get("ssl_cafile", ""),
        path=url.path[0] if is_socket else "",
    )


def with_roles(url: SourceUrl) -> tuple[str, ...]:
    """The topics or streams that are named to read, and the retry and dead-letter places that are named in full."""
    named = [name for role in ("retry", "dead_letter") for name in listed(url, role) if not set(name) & set("*?[")]
    return tuple(dict.fromkeys([*url.items, *named]))


def redis_stream(url: SourceUrl) -> Callable[[], Source]:
    """`redis-stream://`."""
    options = RedisStreamOptions(
        name=url.name,
        address=redis_address(url),
        streams=with_roles(url),
        groups=is_messages(url),
        start_max_age=url.start_max_age,
        out_of_range=url.options.get("start", "oldest"),  # type: ignore[arg-type]  # the table has checked the word
    )
    return lambda: RedisStreamSource(options)


def redis_watch(url: SourceUrl) -> Callable[[], Source]:
    """`rq+redis://` and the other frameworks that are watched in Redis."""
    options = RedisWatchOptions(
        name=url.name,
        address=redis_address(url),
        watch=WATCHES[url.scheme.partition("+")[0]],
        prefix=url.options.get("prefix", ""),
        queues=url.items,
        poll=parse_duration(url.options.get("poll", "0s")),
        start_max_age=url.start_max_age,
    )
    return lambda: RedisWatchSource(options)


def amqp_address(url: SourceUrl, vhost: str) -> AmqpAddress:
    """Of any source on a RabbitMQ."""
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


def _on_rabbitmq(options: AmqpOptions) -> Callable[[], Source]:
    """How to build a source there. Raises SourceError where the extra is not installed: no waiting heals that."""
    library()
    signs = Signs()
    return lambda: AmqpSource(options, signs=signs)


def amqp(url: SourceUrl) -> Callable[[], Source]:
    """`amqp://…/exchange/NAME` and `…/queue/NAME`."""
    *vhost, what, name = url.path
    keys = listed(url, "routing_key") or ("#",)
    options = AmqpOptions(
        name=url.name,
        address=amqp_address(url, vhost[0] if vhost else "/"),
        taps=(Tap(exchange=name, keys=keys),) if what == "exchange" else (),
        queue=name if what == "queue" else "",
    )
    return _on_rabbitmq(options)


def celery_amqp(url: SourceUrl) -> Callable[[], Source]:
    """`celery+amqp://`."""
    dead_keys = ("#", *listed(url, "dead_letter_routing_key"))
    dead = [Tap(exchange=name, keys=dead_keys, role="dead_letters") for name in listed(url, "dead_letter_exchange")]
    management = url.options.get("management", "")
    options = AmqpOptions(
        name=url.name,
        address=amqp_address(url, url.path[0] if url.path else "/"),
        taps=(Tap(exchange=url.options.get("event_exchange", "celeryev"), role="events"), *dead),
        management=management,
        find_dead_letters=True,
        hint="" if dead or management else "reads no dead letters: name dead_letter_exchange=NAME, or management=URL",
    )
    return _on_rabbitmq(options)


def dramatiq_amqp(url: SourceUrl) -> Callable[[], Source]:
    """`dramatiq+amqp://`."""
    vhost = url.path[0] if url.path else "/"
    is_traced = url.options.get("firehose") == "true"
    firehose = Tap(exchange="amq.rabbitmq.trace", keys=("publish.#", "deliver.#"), role="firehose")
    options = AmqpOptions(
        name=url.name,
        address=amqp_address(url, vhost),
        taps=(firehose,) if is_traced else (),
        peeks=listed(url, "peek"),
        management=url.options.get("management", ""),
        hint=f"the firehose is silent until `rabbitmqctl trace_on -p {vhost}`, costs the broker a copy of every "
        "message, and ends with a restart of the node"
        if is_traced
        else "Dramatiq publishes to the default exchange, which nothing can be bound beside: for each task use the "
        "hook in the worker, or firehose=true; for dead letters peek=QUEUE.XQ; for lengths management=URL",
    )
    return _on_rabbitmq(options)


def bullmq(url: SourceUrl) -> Callable[[], Source]:
    """`bullmq+redis://`."""
    options = BullmqOptions(
        name=url.name,
        address=redis_address(url),
        queues=() if "*" in url.items else url.items,
        prefix=url.options.get("prefix", ""),
        start_max_age=url.start_max_age,
    )
    return lambda: BullmqSource(options)


def celery_redis(url: SourceUrl) -> Callable[[], Source]:
    """`celery+redis://`, `celery+rediss://`, `celery+redis+socket://`."""
    is_socket = url.scheme == "celery+redis+socket"
    given = url.options.get("db", "" if is_socket or not url.path else url.path[0]) or "0"
    fanout = url.options.get("fanout_prefix", "true")
    options = CeleryRedisOptions(
        name=url.name,
        address=redis_address(url),
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


def unix(url: SourceUrl) -> Callable[[], Source]:
    """`unix://`."""
    options = UnixOptions(name=url.name, path=url.path[0])
    return lambda: UnixSource(options)


def file(url: SourceUrl) -> Callable[[], Source]:
    """`file://` and `stdin:`."""
    options = FileOptions(name=url.name, path=url.path[0] if url.path else STDIN)
    return lambda: FileSource(options)
