"""Every kind of source URL: its form and its options, as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import get_args
from urllib.parse import urlsplit

import msgspec

from collector.documents.scalars import Regex, parse_duration
from collector.model.record import ClockName


class Option(msgspec.Struct, frozen=True):
    """What may be written behind a name."""

    choices: tuple[str, ...] = ()
    check: Callable[[str], object] = str
    is_secret: bool = False


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL of this scheme looks like."""

    form: str
    """An example, for messages."""
    port: int = 0
    """The default; 0 where the scheme names no host."""
    takes_hosts: bool = False
    """Whether several hosts may be given, with commas."""
    database: bool = False
    """Whether the path starts with a database number."""
    path: str = ""
    """An expression for the whole path, where it has a form of its own."""
    items: str = ""
    """What the last part of the path lists, and the option that may list it instead."""
    names_all: bool = False
    """Whether naming nothing means all there is, in database 0 where none is named."""
    options: Mapping[str, Option] = {}


_FLAG = Option(("true", "false"))
_FORM = Option(("native", "messages"))
_START = Option(("oldest", "newest", "stop"))
"""Where reading goes on where the broker no longer has the position."""
FILES = frozenset(("ssl_cafile", "ssl_certfile", "ssl_keyfile"))
"""Options that are paths."""
_TEXT = Option()
_SECRET = Option(is_secret=True)


def _http_url(text: str) -> str:
    """An address of an API. Raises ValueError."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError("write http://host:port, without user and password: they are those of the source")
    return text


_AMQP: Mapping[str, Option] = {"password": _SECRET, "ssl_cafile": _TEXT}
_CELERY_AMQP: Mapping[str, Option] = {
    **_AMQP,
    "event_exchange": _TEXT,
    "dead_letter_exchange": _TEXT,
    "dead_letter_routing_key": _TEXT,
    "queues": _TEXT,
    "management": Option(check=_http_url),
}
_DRAMATIQ_AMQP: Mapping[str, Option] = {
    **_AMQP,
    "firehose": _FLAG,
    "peek": _TEXT,
    "queues": _TEXT,
    "management": Option(check=_http_url),
}
_VHOST = r"/?[^/]*/?"
_PLACE_IN_VHOST = r"/?(?:/[^/]+)?/(?:exchange|queue)/[^/]+/?"


WATCHED: tuple[str, ...] = ("rq", "saq", "dramatiq", "arq", "taskiq", "huey", "streaq")
"""Frameworks that keep their tasks in Redis, and are read by watching it; each has its row in `redis_watches.py`."""


def _queues_in_redis(framework: str, queues: str, own: Mapping[str, Option]) -> dict[str, Scheme]:
    """The two schemes of a framework that keeps its queues in Redis; `queues`: how they are written in the URL."""
    options = {"queues": _TEXT, "prefix": _TEXT, **own, "password": _SECRET, "ssl_cafile": _TEXT}
    return {
        scheme: Scheme(
            form=f"{scheme}://host:6379/0{queues}",
            port=6379,
            database=True,
            items="queues",
            names_all=True,
            options=options,
        )
        for scheme in (f"{framework}+redis", f"{framework}+rediss")
    }


_WATCHED_SCHEMES = {
    scheme: row
    for name in WATCHED
    for scheme, row in _queues_in_redis(name, "[/queue,queue...]", {"poll": Option(check=parse_duration)}).items()
}


def _database(text: str) -> None:
    """Raises ValueError for what is neither a database number nor all of them."""
    if text != "*" and not (text.isascii() and text.isdigit()):
        msg = "the number of a database, or * for the channels of all"
        raise ValueError(msg)


_CELERY_REDIS: Mapping[str, Option] = {
    "db": Option(check=_database),
    "password": _SECRET,
    "ssl_cafile": _TEXT,
    "global_keyprefix": _TEXT,
    "fanout_prefix": _TEXT,
    "event_exchange": _TEXT,
    "queues": _TEXT,
    "results": _FLAG,
    "enable_events": _FLAG,
}

SCHEMES: dict[str, Scheme] = {
    "kafka": Scheme(
        form="kafka://host:9092/topic[,topic...]",
        port=9092,
        takes_hosts=True,
        items="topics",
        options={
            "topics": _TEXT,
            "topic_pattern": Option(check=Regex),
            "security_protocol": Option(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
            "sasl_mechanism": Option(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
            "sasl_username": _TEXT,
            "sasl_password": _SECRET,
            "ssl_cafile": _TEXT,
            "ssl_certfile": _TEXT,
            "ssl_keyfile": _TEXT,
            "ssl_password": _SECRET,
            "ssl_check_hostname": _FLAG,
            "start": _START,
            "format": _FORM,
            "retry": _TEXT,
            "dead_letter": _TEXT,
            "groups": _TEXT,
        },
    ),
    "redis-stream": Scheme(
        form="redis-stream://host:6379/0/stream[,stream...]",
        port=6379,
        database=True,
        items="streams",
        options={
            "streams": _TEXT,
            "start": _START,
            "password": _SECRET,
            "tls": _FLAG,
            "ssl_cafile": _TEXT,
            "format": _FORM,
            "retry": _TEXT,
            "dead_letter": _TEXT,
        },
    ),
    **{
        f"{framework}+amqp{tls}": Scheme(
            form=f"{framework}+amqp{tls}://user:password@host:{port}/vhost", port=port, path=_VHOST, options=options
        )
        for framework, options in {"celery": _CELERY_AMQP, "dramatiq": _DRAMATIQ_AMQP}.items()
        for tls, port in {"": 5672, "s": 5671}.items()
    },
    **{
        f"amqp{tls}": Scheme(
            form=f"amqp{tls}://user:password@host:{port}/vhost/exchange/NAME or .../queue/NAME",
            port=port,
            path=_PLACE_IN_VHOST,
            options={**_AMQP, "routing_key": _TEXT},
        )
        for tls, port in {"": 5672, "s": 5671}.items()
    },
    **_queues_in_redis("bullmq", "/queue[,queue...]", {"failed_is_dead_letter": _FLAG}),
    **_WATCHED_SCHEMES,
    "celery+redis": Scheme(form="celery+redis://host:6379/0", port=6379, database=True, options=_CELERY_REDIS),
    "celery+rediss": Scheme(form="celery+rediss://host:6379/0", port=6379, database=True, options=_CELERY_REDIS),
    "celery+redis+socket": Scheme(form="celery+redis+socket:///path/to/redis.sock?db=0", options=_CELERY_REDIS),
    "http": Scheme(form="http://127.0.0.1:9810/v1/events", port=9810),
    "unix": Scheme(form="unix:///run/tasktrail/events.sock"),
    "file": Scheme(form="file:///path/to/events.ndjson"),
    "stdin": Scheme(form="stdin:"),
}
COMMON: Mapping[str, Option] = {
    "name": _TEXT,
    "clock": Option(get_args(ClockName)),
    "application": _TEXT,
    "start_max_age": Option(check=parse_duration),
    "probe_every": Option(check=parse_duration),
}
