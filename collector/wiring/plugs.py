"""The plugs: which kind of source reads which URL, as one table; and the files that travel with the package."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from collector.config.source_urls import SourceUrl
from collector.formats import FORMATS, Decode, Format, arguments, bullmq, mapping, messages, native
from collector.formats.recognise import recognising
from collector.model.record import ClockName, Source
from collector.sources.redis_watches import WATCHES
from collector.wiring import clients
from collector.wiring.clients import is_messages, listed, with_roles

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
    is_fleeting: bool = False
    """Its broker keeps nothing for it while it is away."""
    build: Callable[[], Source] | None = None


def _bullmq(url: SourceUrl) -> Decode:
    prefix = url.options.get("prefix", "")
    return bullmq.Decoder(prefix, failed_is_dead_letter=url.options.get("failed_is_dead_letter") == "true")


class Plug(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of source."""

    build: Callable[[SourceUrl], Callable[[], Source]]
    form: str = "native"
    """The format of what it delivers."""
    decode: Callable[[SourceUrl], Decode] | None = None
    """Makes the decoder, where that depends on the source's options."""
    is_pushed: bool = False
    is_tailed: bool = False
    is_fleeting: bool = False


SOURCES: dict[str, Plug] = {
    "kafka": Plug(build=clients.kafka, is_tailed=True),
    "redis-stream": Plug(build=clients.redis_stream, is_tailed=True),
    "amqp": Plug(build=clients.amqp, is_tailed=True, is_fleeting=True),
    "amqps": Plug(build=clients.amqp, is_tailed=True, is_fleeting=True),
    "celery+amqp": Plug(build=clients.celery_amqp, form="celery", is_tailed=True, is_fleeting=True),
    "celery+amqps": Plug(build=clients.celery_amqp, form="celery", is_tailed=True, is_fleeting=True),
    "dramatiq+amqp": Plug(build=clients.dramatiq_amqp, form="dramatiq", is_tailed=True, is_fleeting=True),
    "dramatiq+amqps": Plug(build=clients.dramatiq_amqp, form="dramatiq", is_tailed=True, is_fleeting=True),
    "bullmq+redis": Plug(build=clients.bullmq, form="bullmq", decode=_bullmq, is_tailed=True),
    "bullmq+rediss": Plug(build=clients.bullmq, form="bullmq", decode=_bullmq, is_tailed=True),
    **{
        f"{name}+{redis}": Plug(build=clients.redis_watch, form=name, is_tailed=True, is_fleeting=True)
        for name in WATCHES
        for redis in ("redis", "rediss")
    },
    "celery+redis": Plug(build=clients.celery_redis, form="celery", is_tailed=True, is_fleeting=True),
    "celery+rediss": Plug(build=clients.celery_redis, form="celery", is_tailed=True, is_fleeting=True),
    "celery+redis+socket": Plug(build=clients.celery_redis, form="celery", is_tailed=True, is_fleeting=True),
    "unix": Plug(build=clients.unix, is_pushed=True),
    "file": Plug(build=clients.file),
    "stdin": Plug(build=clients.file),
}


def pushed(name: str = PUSHED, application: str = "", clock: ClockName = "broker") -> Feed:
    """The feed of our own endpoints: native events, and OTLP exports."""
    decode = recognising({form: FORMATS[form] for form in ("otlp", "native")})
    return Feed(name=name, application=application, clock=clock, decode=decode, is_pushed=True)


def _decode(url: SourceUrl, plug: Plug, *, show_arguments: bool) -> Decode:
    """How a source's records are read: by its mapping, as messages in places of a role, or in its own form."""
    if url.mapping is not None:
        return mapping.decoder(url.mapping)
    if is_messages(url):
        return messages.decoder(listed(url, "retry"), listed(url, "dead_letter"))
    form = url.options.get("format", plug.form)
    decode = FORMATS[form].new() if plug.decode is None else plug.decode(url)
    return arguments.showing(decode, form) if show_arguments else decode


def feed(url: SourceUrl, *, show_arguments: bool = False) -> Feed:
    """The feed of a configured source; `show_arguments`: it says what calls were made with, too.

    One of scheme `http` sets the options of our own endpoint.
    """
    clock = url.clock or "broker"
    if url.scheme == PUSHED:
        return pushed(name=url.name, application=url.application, clock=clock)
    plug = SOURCES[url.scheme]
    return Feed(
        name=url.name,
        application=url.application,
        clock=clock,
        decode=_decode(url, plug, show_arguments=show_arguments),
        is_pushed=plug.is_pushed,
        is_tailed=plug.is_tailed,
        is_fleeting=plug.is_fleeting,
        build=plug.build(url),
    )


class _Captured(msgspec.Struct, frozen=True):
    """Which records of a capture are those of a source: what kind of source delivers them, and which of that kind."""

    schemes: tuple[str, ...]
    word: str
    """What a line calls the place that was read."""
    names: Callable[[SourceUrl], tuple[str, ...]]
    """The places that a source reads."""


# by how they were tapped; the records of frameworks say themselves what they are
_CAPTURED: dict[str, _Captured] = {
    "kafka": _Captured(("kafka",), "topic", with_roles),
    "kafka-group-offsets": _Captured(("kafka",), "group", lambda url: listed(url, "groups")),
    "redis-stream": _Captured(("redis-stream",), "stream", with_roles),
    "redis-key": _Captured(("redis-stream",), "key", lambda url: with_roles(url) if is_messages(url) else ()),
    "amqp": _Captured(("amqp", "amqps"), "exchange", lambda url: url.path[-1:]),
}


def captured(urls: Iterable[SourceUrl]) -> dict[str, Format]:
    """Sources as forms of what a capture holds of their topics, streams and exchanges.

    So it is read as `run` reads it: by the source's mapping, as messages, or in the format that it names.
    """
    schemes = {scheme for one in _CAPTURED.values() for scheme in one.schemes}
    return {
        f"source {url.name}": Format(
            new=partial(_decode, url, SOURCES[url.scheme], show_arguments=False), is_mine=partial(_delivers, url)
        )
        for url in urls
        if url.scheme in schemes
    }


def _delivers(url: SourceUrl, tap: str, about: Mapping[str, Any], _body: bytes) -> bool:
    """Whether a record of a capture is one that this source delivers."""
    one = _CAPTURED.get(tap)
    if one is None or url.scheme not in one.schemes:
        return False
    place = str(about.get(one.word))
    pattern = url.options.get("topic_pattern")
    is_matched = pattern is not None and one.word == "topic" and re.fullmatch(pattern, place) is not None
    return is_matched or place in one.names(url)
