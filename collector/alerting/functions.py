"""What a template may call besides Go's own functions: Prometheus' list and Alertmanager's, as one table."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote_plus, urlsplit

import msgspec

from collector.alerting.expression import Rows
from collector.alerting.humanize import (
    humanize,
    humanize1024,
    humanize_duration,
    humanize_percentage,
    humanize_timestamp,
    to_float,
    to_milliseconds,
)
from collector.documents.scalars import Regex, parse_duration
from collector.gotext import AnyMap, Function, Markup, Moment, Samples, Span, Structure, TemplateError
from collector.gotext.alertmanager import ALERTMANAGER
from collector.gotext.times import LEAST
from collector.model.errors import TasktrailError

_WORD = re.compile(r"\w+(?:['\u2019.:]\w+)*")
_LETTER = re.compile(r"[^\W\d_]")
_BEYOND = float(1 << 63)
_GROUP = re.compile(r"\$(?:(\w+)|\{(\w+)\}|(\$))")


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What surrounds one expansion: the instant, where links point, and who answers queries."""

    at: float
    external_url: str = ""
    external_labels: dict[str, str] = {}
    query: Callable[[str, float], Rows] | None = None


def _query(scene: Scene, text: str) -> Samples:
    if scene.query is None:
        raise TemplateError("no series can be asked here")
    try:
        rows = scene.query(text, scene.at)
    except TasktrailError as error:
        raise TemplateError(str(error)) from None
    return Samples(Structure("template.sample", {"Labels": dict(labels), "Value": value}) for labels, value in rows)


def _first(samples: Samples | None) -> Structure:
    if not samples:
        raise TemplateError("first() called on vector with no elements")
    return samples[0]


def _label(name: str, sample: Structure) -> str:
    value: str = sample.fields["Labels"].get(name, "")
    return value


def _sort_by_label(name: str, samples: Samples | None) -> Samples:
    return Samples(sorted(samples or (), key=lambda sample: _label(name, sample)))


@lru_cache(maxsize=256)
def _regex(pattern: str) -> Any:
    try:
        return Regex(pattern).compiled
    except ValueError as error:
        raise TemplateError(str(error)) from None


def _match(pattern: str, text: str) -> bool:
    return _regex(pattern).search(text) is not None


def _replace_all(pattern: str, replacement: str, text: str) -> str:
    """Go's `$1`, `${1}` and `${name}`; a group that is not there is empty."""

    def expand(match: Any) -> str:
        def group(reference: re.Match[str]) -> str:
            name = reference.group(1) or reference.group(2)
            if name is None:
                return "$"
            try:
                return match.group(int(name) if name.isdigit() else name) or ""
            except (IndexError, KeyError):
                return ""

        return _GROUP.sub(group, replacement)

    result: str = _regex(pattern).sub(expand, text)
    return result


def _title(text: str) -> str:
    """Every word with its first letter as in a title, wherever in the word it stands; the rest as it is."""
    return _WORD.sub(lambda word: _LETTER.sub(lambda letter: letter.group().title(), word.group(), count=1), text)


def _split_host_port(text: str) -> tuple[str, str] | None:
    """Host and port of `host:port` or `[host]:port`, else None."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    return None if {"[", "]"} & set(host + port) else (host, port)


def _strip_port(text: str) -> str:
    parts = _split_host_port(text)
    return parts[0] if parts else text


def _strip_domain(text: str) -> str:
    host, port = _split_host_port(text) or (text, "")
    try:
        ip_address(host)
    except ValueError:
        name = host.split(".")[0]
        joined = f"[{name}]" if ":" in name and port else name
        return f"{joined}:{port}" if port else name
    return text


def _parse_duration(text: str) -> float:
    sign = -1.0 if text.startswith("-") else 1.0
    try:
        return sign * parse_duration(text.removeprefix("-"))
    except ValueError as error:
        raise TemplateError(str(error)) from None


def _to_duration(value: Any) -> Span:
    """A number of seconds; what does not fit is Go's least, as there."""
    nanoseconds = to_float(value) * 1e9
    return Span(int(nanoseconds) if abs(nanoseconds) < _BEYOND else LEAST)


def _link(tab: int) -> Function:
    return Function(lambda text: f"/graph?g0.expr={quote_plus(text)}&g0.tab={tab}", ("string",))


FUNCTIONS: dict[str, Function] = {
    **ALERTMANAGER,
    "query": Function(_query, ("string",), needs_context=True),
    "first": Function(_first, ("samples",)),
    "label": Function(_label, ("string", "sample")),
    "value": Function(lambda sample: sample.fields["Value"], ("sample",)),
    "strvalue": Function(lambda sample: _label("__value__", sample), ("sample",)),
    "sortByLabel": Function(_sort_by_label, ("string", "samples")),
    "args": Function(lambda *values: AnyMap((f"arg{i}", value) for i, value in enumerate(values)), (), "any"),
    "match": Function(_match, ("string", "string")),
    "reReplaceAll": Function(_replace_all, ("string", "string", "string")),
    "title": Function(_title, ("string",)),
    "toUpper": Function(str.upper, ("string",)),
    "toLower": Function(str.lower, ("string",)),
    "safeHtml": Function(Markup, ("string",)),
    "urlQueryEscape": Function(quote_plus, ("string",)),
    "stripPort": Function(_strip_port, ("string",)),
    "stripDomain": Function(_strip_domain, ("string",)),
    "humanize": Function(humanize, ("any",)),
    "humanize1024": Function(humanize1024, ("any",)),
    "humanizeDuration": Function(humanize_duration, ("any",)),
    "humanizePercentage": Function(humanize_percentage, ("any",)),
    "humanizeTimestamp": Function(humanize_timestamp, ("any",)),
    "toTime": Function(lambda value: Moment(to_milliseconds(value) * 1_000_000), ("any",)),
    "toDuration": Function(_to_duration, ("any",)),
    "parseDuration": Function(_parse_duration, ("string",)),
    "now": Function(lambda scene: float(scene.at), needs_context=True),
    "externalURL": Function(lambda scene: scene.external_url, needs_context=True),
    "pathPrefix": Function(lambda scene: urlsplit(scene.external_url).path, needs_context=True),
    "graphLink": _link(0),
    "tableLink": _link(1),
}
