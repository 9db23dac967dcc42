"""Source URLs, read by the table of schemes.

Takes a URL and the keys written beside it; gives one plain value, from which whoever builds sources takes what it
needs. Credentials never stand in anything that prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from collector.config.schemes import COMMON, SCHEMES, Option, Scheme
from collector.documents.reader import unknown
from collector.documents.scalars import parse_duration
from collector.formats.mapping import Mapped
from collector.model.record import ClockName
from collector.model.secret import Secret

DEFAULT_START_MAX_AGE = "1h"


class SourceUrl(msgspec.Struct, frozen=True, kw_only=True):
    """One source as configured. Empty text is: not given."""

    scheme: str
    name: str
    """As configured, else scheme, host and path without credentials: the label `source`."""
    hosts: tuple[tuple[str, int], ...] = ()
    user: str = ""
    password: Secret | None = None
    path: tuple[str, ...] = ()
    """The parts of the path, decoded; of `file` and `unix` one part, the whole path."""
    items: tuple[str, ...] = ()
    """The topics of kafka, the streams of redis-stream."""
    options: dict[str, str] = {}
    secrets: dict[str, Secret] = {}
    clock: ClockName | None = None
    """None: the default of the kind of source."""
    application: str = ""
    start_max_age: float = 3600.0
    """Seconds."""
    mapping: Mapped | None = None
    """How its messages are read as events; None: by its format."""


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]/]+))(?::(?P<port>[0-9]{1,5}))?")


Fault: TypeAlias = tuple[str, str]
"""The option that is wrong ("" for the URL itself), and what is wrong with it."""


class UrlError(ValueError):
    """A source that cannot be read as written; with everything that is wrong with it."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(message for _, message in faults))


def parse_source(url: str, written: Mapping[str, str], read_secret: Callable[[str], Secret]) -> SourceUrl:
    """The source of a URL and of the keys written beside it (options of the URL's query are the same options).

    Raises UrlError, whose messages never show credentials.
    """
    name, scheme = _scheme(url)
    known = {**COMMON, **scheme.options}
    rest = url[len(name) + 1 :]
    try:
        parts = urlsplit(rest)
    except ValueError:
        raise UrlError(("", f"not a URL: write {scheme.form}")) from None
    query = parse_qsl(parts.query, keep_blank_values=True)
    faults = [*_option_faults(name, known, query, written), *_host_faults(scheme, parts.netloc.rpartition("@")[2])]
    values = {key: text for key, text in {**dict(query), **written}.items() if key in known}
    faults += _path_faults(scheme, parts.path, values)
    secrets: dict[str, Secret] = {}
    for key in [key for key in values if known[key].is_secret]:
        try:
            secrets[key] = read_secret(values.pop(key))
        except ValueError as error:
            faults.append((key if key in written else "", str(error)))
    if faults:
        raise UrlError(*faults)
    credentials, _, authority = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    if password:
        secrets.setdefault("password", Secret(unquote(password)))
    path, items = _path(scheme, parts.path, values)
    clock = values.pop("clock", None)
    return SourceUrl(
        scheme=name,
        name=values.pop("name", "") or (f"{name}://{authority}{parts.path}" if authority + parts.path else name),
        hosts=tuple(_host(part, scheme.port) for part in authority.split(",")) if scheme.port else (),
        user=unquote(user),
        password=secrets.pop("password", None),
        path=path,
        items=items,
        application=values.pop("application", ""),
        start_max_age=parse_duration(values.pop("start_max_age", DEFAULT_START_MAX_AGE)),
        clock=msgspec.convert(clock, ClockName | None),
        options=values,
        secrets=secrets,
    )


def _scheme(url: str) -> tuple[str, Scheme]:
    match = _SCHEME.match(url)
    if match is None:
        raise UrlError(("", "a source is a URL: write, for example, kafka://host:9092/topic"))
    name = match.group(1).lower()
    if name not in SCHEMES:
        whole = [scheme for scheme in SCHEMES if name in re.split("[+-]", scheme)]
        part = f"`{name}` is only a part of a kind of source: write one of {', '.join(whole)}"
        raise UrlError(("", part if whole else unknown("kind of source", name, SCHEMES)))
    return name, SCHEMES[name]


def _option_faults(
    name: str, known: Mapping[str, Option], query: list[tuple[str, str]], written: Mapping[str, str]
) -> list[Fault]:
    faults = []
    for key, text in [*query, *written.items()]:
        place = key if key in written else ""
        if key not in known:
            faults.append((place, unknown(f"option of {name} sources", key, known)))
            continue
        option = known[key]
        try:
            option.check(text)
        except ValueError as error:
            faults.append((place, f"`{key}`: {error}"))
        if option.choices and text not in option.choices:
            faults.append((place, f"`{key}` is one of {', '.join(option.choices)}"))
    keys = [key for key, _ in query]
    twice = [key for key in sorted(set(keys)) if keys.count(key) + (key in written) > 1]
    return faults + [(key if key in written else "", f"the option `{key}` is given twice: keep one") for key in twice]


def _host(text: str, default_port: int) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[v6]` or `[v6]:port`. Raises ValueError."""
    match = _HOST.fullmatch(text)
    if match is None or not 0 < int(match.group("port") or default_port) < 65536:
        raise ValueError(text)
    return unquote(match.group("v6") or match.group("host")), int(match.group("port") or default_port)


def _host_faults(scheme: Scheme, authority: str) -> list[Fault]:
    if not scheme.port:
        return [("", f"this kind of source names no host: write {scheme.form}")] if authority else []
    parts = authority.split(",")
    if len(parts) > 1 and not scheme.takes_hosts:
        return [("", f"this kind of source takes one host: write {scheme.form}")]
    try:
        for part in parts:
            _host(part, scheme.port)
    except ValueError:
        return [("", f"the host has to be `host` or `host:port`: write {scheme.form}")]
    return []


def _path_faults(scheme: Scheme, path: str, values: Mapping[str, str]) -> list[Fault]:
    parts = [part for part in path.split("/") if part]
    message = _form_fault(scheme, path, parts) or (_items_fault(scheme, parts, values) if scheme.items else "")
    return [("", message)] if message else []


def _form_fault(scheme: Scheme, path: str, parts: list[str]) -> str:
    """What is wrong with the path's form; "" for nothing."""
    if not scheme.port and not parts and scheme is not SCHEMES["stdin"]:
        return f"the path is missing: write {scheme.form}"
    if scheme.path and not re.fullmatch(scheme.path, path):
        return f"the path has another form: write {scheme.form}"
    if not scheme.items:
        is_number = len(parts) < 2 and all(part.isascii() and part.isdigit() for part in parts)
        return f"the path is the number of the database: write {scheme.form}" * (scheme.database and not is_number)
    if scheme.database and parts and not (parts[0].isascii() and parts[0].isdigit()):
        return f"the path starts with the number of the database: write {scheme.form}"
    if scheme.database and not parts and not scheme.names_all:
        return f"the path starts with the number of the database: write {scheme.form}"
    return f"too many parts in the path: write {scheme.form}" * (len(parts) - scheme.database > 1)


def _items_fault(scheme: Scheme, parts: list[str], values: Mapping[str, str]) -> str:
    """What is wrong with what is named to read; "" for nothing."""
    ways = [len(parts) > scheme.database, bool(values.get(scheme.items)), "topic_pattern" in values]
    if sum(ways) == 1 or (scheme.names_all and not any(ways)):
        return ""
    pattern = " or `topic_pattern`" if "topic_pattern" in scheme.options else ""
    how = "given twice" if any(ways) else "missing"
    return f"what to read is {how}: name it once, in the path, in `{scheme.items}`{pattern}: {scheme.form}"


def _path(scheme: Scheme, path: str, values: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of the path, and what to read there; takes the list out of `values` where it stands there."""
    if not scheme.port:
        return ((unquote(path),) if path else ()), ()
    parts = [part for part in path.split("/") if part]
    listed = ",".join(parts[scheme.database :]) if scheme.items else ""
    if scheme.items in values:
        listed = values.pop(scheme.items)
    items = tuple(unquote(item.strip()) for item in listed.split(",") if item.strip())
    return tuple(map(unquote, parts)), items
