"""The whole configuration as one typed tree: Settings, or every problem at once.

`load` reads a file, `override` lays the command line over it and checks what only the whole can tell. `load_parts` and
`override_parts` give what is right as well, for those who look further for problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from collector.config.mappings import MappingDocument, compiled
from collector.config.schemes import FILES, SCHEMES
from collector.config.source_urls import SourceUrl, UrlError, parse_source
from collector.documents import Duration, Place, Url, read
from collector.documents.reader import Rest
from collector.documents.scalars import parse_url
from collector.documents.substitute import secret
from collector.model.errors import Problem, ProblemsError
from collector.model.files import is_regular, read_text
from collector.model.secret import Secret

DEFAULT_LISTEN = "127.0.0.1:9810"
_MAX_SECRET_BYTES = 65_536

_PATHS: Mapping[str, str] = {
    "rules": "shipped",
    "tasks": "",
    "routes": "",
    "state": "none",
    "token_file": "",
    "tls_cert_file": "",
    "tls_key_file": "",
}
"""The settings that are paths, each with the word that is none."""

Count = Annotated[int, msgspec.Meta(ge=1)]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept in memory; what leaves early is counted with its reason."""

    open_trails: Count = 500_000
    open_age: Duration = Duration(86_400)
    trail_bytes: Count = 1 << 30
    finished_ids: Count = 1_000_000
    finished_age: Duration = Duration(900)
    series: Count = 100_000
    series_idle: Duration = Duration(90_000)
    kept_age: Duration = Duration(604_800)
    """Kept trails go after it, and the oldest ones where all of them take more than `kept_bytes`."""
    kept_bytes: Count = 512 * 1024 * 1024


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """What Tasktrail says of itself on stderr."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the file as it stands here, but for paths: there they are relative to the file's folder."""

    rules: tuple[str, ...] = ("shipped",)
    """Paths of rule files, or `shipped`."""
    tasks: str | None = None
    routes: str | None = None
    notify: tuple[Secret, ...] = ()
    state: str | None = None
    """A directory, `none`, or None: the first of the usual places."""
    listen: str = DEFAULT_LISTEN
    external_url: Url | None = None
    token_file: str | None = None
    public_metrics: bool = False
    tls_cert_file: str | None = None
    """PEM: the listener speaks TLS with this certificate. `tls_key_file`: its key, where it stands in another file."""
    tls_key_file: str | None = None
    heartbeat_url: Secret | None = None
    """Asked for (GET) every `heartbeat_interval`, as long as alerts would come."""
    heartbeat_interval: Duration = Duration(60)
    compat: Literal["celery-exporter"] | None = None
    """Whose names /metrics shows besides ours."""
    grace: Duration = Duration(5)
    bounds: Bounds = Bounds()
    labels: tuple[str, ...] = ()
    """Keys of events' `labels` that become metric labels."""
    deploy_labels: tuple[str, ...] = ()
    """Keys of events' `labels` that name a deploy: an alert says where one's share among its tasks has grown."""
    show_arguments: bool = False
    """Whether tasks and messages show what tasks were called with."""
    external_labels: dict[str, str] = {}
    log: Log = Log()


class Settings(_Written, frozen=True, kw_only=True):
    """The configuration, whole and checked."""

    sources: tuple[SourceUrl, ...] = ()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the listener."""
        return _address(self.listen)


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says. Lists: `sources` and `notify` add, `rules` replaces."""

    sources: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    tasks: str | None = None
    routes: str | None = None
    notify: tuple[str, ...] = ()
    state: str | None = None
    listen: str | None = None
    external_url: str | None = None
    token_file: str | None = None
    public_metrics: bool | None = None


class _SourceDocument(msgspec.Struct, kw_only=True):
    SHORTHAND: ClassVar[str] = "url"
    place: Place
    url: str
    mapping: MappingDocument | None = None
    others: Rest = msgspec.field(default_factory=Rest)


class _Document(_Written, frozen=True, kw_only=True):
    """The file, with sources not parsed yet."""

    place: Place
    sources: list[_SourceDocument] = []


def load(path: str, text: str, environ: Mapping[str, str]) -> Settings:
    """The settings of a configuration file. Raises ProblemsError with every problem in it."""
    settings, problems = load_parts(path, text, environ)
    if problems:
        raise ProblemsError(problems)
    return settings


def load_parts(path: str, text: str, environ: Mapping[str, str]) -> tuple[Settings, list[Problem]]:
    """What of a configuration file is right, and every problem in it. Raises ProblemsError where nothing is.

    Paths are relative to the file's folder, those of secret files, too, which are read here.
    """
    folder = Path(path).parent if is_regular(path) else Path()  # a pipe has none of its own
    read_file = partial(_read_file, folder)
    document, problems = read(path, text, _Document, environ=environ, read_file=read_file)
    sources = _sources(document.sources, problems, read_file)
    place = document.place
    problems += [place.at("sources", index).problem(message) for index, message in _repeated(sources)]
    settings = Settings(
        sources=tuple(_source_beside(folder, source) for source in sources if source is not None),
        **{name: _beside(folder, getattr(document, name), _PATHS.get(name)) for name in _Written.__struct_fields__},
    )
    message = _listen_problem(settings.listen)
    if message:
        problems.append(place.at("listen").problem(message))
    return settings, problems


def override(settings: Settings, overrides: Overrides) -> Settings:
    """The settings with the command line laid over them, checked as a whole. Raises ProblemsError."""
    merged, problems = override_parts(settings, overrides)
    if problems:
        raise ProblemsError(problems)
    return merged


def override_parts(settings: Settings, overrides: Overrides) -> tuple[Settings, list[Problem]]:
    """What of settings and command line is right, and every problem of the latter and of the whole.

    Problems of an option carry its name where those of a file carry the path.
    """
    problems: list[Problem] = []
    read_secret = partial(secret, read_file=partial(_read_file, Path()))
    sources: list[SourceUrl | None] = list(settings.sources)
    for number, url in enumerate(overrides.sources, 1):
        try:
            sources.append(parse_source(url, {}, read_secret))
        except UrlError as error:
            problems += [Problem("--source", number, 1, message) for _, message in error.faults]
            sources.append(None)
    first = len(settings.sources)  # those before it are the file's, where it is said of them
    problems += [
        Problem("--source", index - first + 1, 1, said) for index, said in _repeated(sources) if index >= first
    ]
    notify: list[Secret] = []
    for number, target in enumerate(overrides.notify, 1):
        try:
            notify.append(read_secret(target))
        except ValueError as error:
            problems.append(Problem("--notify", number, 1, str(error)))
    given = {
        name: value
        for name in overrides.__struct_fields__
        if name not in ("sources", "notify") and (value := getattr(overrides, name)) not in (None, ())
    }
    merged = msgspec.structs.replace(
        settings,
        sources=tuple(source for source in sources if source is not None),
        notify=(*settings.notify, *notify),
        **given,
    )
    problems += _problems_of_whole(merged, overrides)
    return merged, problems


def _problems_of_whole(settings: Settings, overrides: Overrides) -> list[Problem]:
    problems = []
    message = _listen_problem(settings.listen)
    if message and overrides.listen:  # else it is the file's, where it is said
        problems.append(Problem("--listen", 1, 1, message))
    elif not message and not settings.token_file and not _is_loopback(settings.address[0]):
        message = f"`{settings.listen}` is open to others: listen on 127.0.0.1, or give --token-file"
        problems.append(Problem("--listen" if overrides.listen else "listen", 1, 1, message))
    if overrides.external_url:
        try:
            parse_url(overrides.external_url)
        except ValueError as error:
            problems.append(Problem("--external-url", 1, 1, str(error)))
    return problems


def _sources(
    documents: list[_SourceDocument], problems: list[Problem], read_file: Callable[[str], str]
) -> list[SourceUrl | None]:
    found: list[SourceUrl | None] = []
    for document in documents:
        mapped = compiled(document.mapping, problems) if document.mapping else None
        try:
            source = parse_source(document.url, document.others, partial(secret, read_file=read_file))
            found.append(msgspec.structs.replace(source, mapping=mapped))
        except UrlError as error:
            for key, message in error.faults:
                place = document.place.key(key) if key else document.place.at("url")
                problems.append(place.problem(message))
            found.append(None)
    return found


def _beside(folder: Path, value: Any, word: str | None) -> Any:
    """A setting with its paths relative to the folder; `word`: what is no path, None where nothing of it is one."""
    if isinstance(value, tuple):
        return tuple(_beside(folder, one, word) for one in value)
    return value if word is None or value in (None, "", word) else str(folder / value)


def _source_beside(folder: Path, source: SourceUrl) -> SourceUrl:
    """The same for a source: its certificates, and the file or socket that it reads. Its name is as it was."""
    options = {key: str(folder / text) if key in FILES else text for key, text in source.options.items()}
    path = source.path if SCHEMES[source.scheme].port else tuple(str(folder / part) for part in source.path)
    return msgspec.structs.replace(source, options=options, path=path)


def _repeated(sources: list[SourceUrl | None] | list[SourceUrl]) -> list[tuple[int, str]]:
    """Index and message of every source whose name another one has already."""
    seen: set[str] = set()
    repeated = []
    for index, source in enumerate(sources):
        if source is not None and source.name in seen:
            repeated.append((index, f"two sources are named `{source.name}`: give one another `name`"))
        elif source is not None:
            seen.add(source.name)
    return repeated


def _address(listen: str) -> tuple[str, int]:
    """Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"`{listen}` is no address: write host:port, such as {DEFAULT_LISTEN}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def shown(host: str) -> str:
    """A host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _listen_problem(listen: str) -> str:
    try:
        _address(listen)
    except ValueError as error:
        return str(error)
    return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _read_file(directory: Path, path: str) -> str:
    return read_text(directory / path, _MAX_SECRET_BYTES)
