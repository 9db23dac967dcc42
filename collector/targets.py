"""Targets of a route file to channels: which kind is served by what, as one table, and what to write where none is.

Secret files are read here, relative to the route file. Most of Alertmanager's own kinds become an apprise URL.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from collector import channels, ownwords
from collector.channels import ChannelConfig, alertmanager, chat_urls, webhook
from collector.documents.substitute import secret
from collector.model.errors import ChannelError, Problem, ProblemsError
from collector.model.files import read_text
from collector.model.secret import Secret
from collector.ownwords import Worded
from collector.routing import kinds
from collector.routing.group import Target
from collector.routing.kinds import Http, Options
from collector.routing.receivers import TargetSpec
from collector.routing.routefile import Routing

ReadFile = Callable[[str], str]
"""A path to the text of a secret file. Raises OSError or ValueError."""


class _NoFileError(Exception):
    """A secret stands in a file, and files are not to be read."""


class _Given:
    """The options of one target, with the secrets that stand in files."""

    def __init__(self, options: Any, read_file: ReadFile | None) -> None:
        self.options = options
        self._read_file = read_file

    def secret(self, name: str) -> str:
        """An option, or what the file behind its `_file` option holds; "" without both. Raises ChannelError."""
        return _secret_of(self.options, name, self._read_file)

    def http(self) -> dict[str, Secret]:
        """The headers of `http_config`."""
        return _headers(self.options.http_config, self._read_file) if self.options.http_config else {}


def _secret_of(options: Any, name: str, read_file: ReadFile | None) -> str:
    value, path = getattr(options, name, None), getattr(options, f"{name}_file", None)
    if value is not None:
        return value.reveal() if isinstance(value, Secret) else str(value)
    if path is None:
        return ""
    if read_file is None:
        raise _NoFileError
    try:
        return secret(f"file:{path}", read_file).reveal().strip()
    except ValueError as error:
        raise ChannelError(str(error), retryable=False) from None


def _headers(http: Http, read_file: ReadFile | None) -> dict[str, Secret]:
    found: dict[str, Secret] = {}
    for name, header in http.http_headers.items():
        values = [*header.values, *(one.reveal() for one in header.secrets)]
        if values:
            found[name] = Secret(", ".join(values))
    if token := _secret_of(http, "bearer_token", read_file):
        found["Authorization"] = Secret(f"Bearer {token}")
    if http.authorization:
        credentials = _secret_of(http.authorization, "credentials", read_file)
        found["Authorization"] = Secret(f"{http.authorization.type} {credentials}")
    if http.basic_auth:
        user = http.basic_auth.username or _secret_of(http.basic_auth, "username", read_file)
        pair = f"{user}:{_secret_of(http.basic_auth, 'password', read_file)}"
        found["Authorization"] = Secret(f"Basic {base64.b64encode(pair.encode()).decode()}")
    return found


# One function per kind that is served: options in, a checked channel configuration out. Raises ChannelError.


def _apprise(given: _Given) -> ChannelConfig:
    written = (given.options.title, given.options.body)
    words = ownwords.compiled(*written)
    config = channels.from_url(given.secret("url"))
    return config if words is None else Worded(inner=config, words=words, name=config.name, source=written)


def _webhook(given: _Given) -> ChannelConfig:
    options: kinds.Webhook = given.options
    config = webhook.from_url(f"webhook+{given.secret('url')}")
    return msgspec.structs.replace(
        config,
        max_alerts=options.max_alerts,
        timeout_seconds=float(options.timeout) or config.timeout_seconds,
        headers=given.http(),
    )


def _slack(given: _Given) -> ChannelConfig:
    options: kinds.Slack = given.options
    where = {"channel": options.channel} if options.channel else {}
    if token := given.secret("app_token"):
        if not where:
            raise ChannelError("a bot needs to know its `channel`", retryable=False)
        bearer = {"Authorization": Secret(f"Bearer {token}")}
        return chat_urls.target("slack", options.app_url or _SLACK_API, options=where, headers=bearer)
    return chat_urls.target("slack", given.secret("api_url"), options=where)


_SLACK_API = "https://slack.com/api/chat.postMessage"


def _discord(given: _Given) -> ChannelConfig:
    url = given.secret("webhook_url")
    return chat_urls.target("discord", f"{url}{'&' if '?' in url else '?'}wait=true")


def _workflow(given: _Given) -> ChannelConfig:
    return channels.from_url(given.secret("webhook_url"))  # apprise knows the service by its addresses


def _connector(given: _Given) -> ChannelConfig:
    url = given.secret("webhook_url")
    try:
        return channels.from_url(url)
    except ChannelError:
        ended = "Microsoft has ended connectors: make a workflow, and use `msteamsv2_configs`"
        raise ChannelError(ended, retryable=False) from None


def _telegram(given: _Given) -> ChannelConfig:
    options: kinds.Telegram = given.options
    topic = {"topic": str(options.message_thread_id)} if options.message_thread_id else {}
    base = (options.api_url or "https://api.telegram.org").rstrip("/")
    url = f"{base}/bot{given.secret('bot_token')}/sendMessage"
    return chat_urls.target("telegram", url, options={"chat": given.secret("chat_id"), **topic})


def _email(given: _Given) -> ChannelConfig:
    options: kinds.Email = given.options
    host, _, port = (options.smarthost or "").rpartition(":")
    is_implicit = port == "465" if options.force_implicit_tls is None else options.force_implicit_tls
    mode = "ssl" if is_implicit else "starttls" if options.require_tls else ""
    user = quote(options.auth_username or "", safe="")
    password = quote(given.secret("auth_password"), safe="")
    login = f"{user}:{password}@" if user and password else ""
    query = {"from": options.from_ or "", "to": options.to or "", **({"mode": mode} if mode else {})}
    written = "&".join(f"{key}={quote(value, safe='@')}" for key, value in query.items())
    return channels.from_url(f"{'mailtos' if mode else 'mailto'}://{login}{host}:{port}/?{written}")


def _pagerduty(given: _Given) -> ChannelConfig:
    key = given.secret("routing_key")
    if not key:
        raise ChannelError("only `routing_key` is served: make an integration of Events API v2", retryable=False)
    url = given.options.url or "https://events.pagerduty.com/v2/enqueue"
    return chat_urls.target("pagerduty", url, options={"key": key})


def _alertmanager(given: _Given) -> ChannelConfig:
    return msgspec.structs.replace(alertmanager.at_address(given.secret("url")), headers=given.http())


def _opsgenie(given: _Given) -> ChannelConfig:
    region = "?region=eu" if ".eu." in (given.options.api_url or "") else ""
    return channels.from_url(f"opsgenie://{quote(given.secret('api_key'), safe='')}/{region}")


def _pushover(given: _Given) -> ChannelConfig:
    return channels.from_url(f"pover://{given.secret('user_key')}@{given.secret('token')}")


def _victorops(given: _Given) -> ChannelConfig:
    return channels.from_url(f"splunk://{quote(given.options.routing_key, safe='')}@{given.secret('api_key')}")


class _Kind(msgspec.Struct, frozen=True):
    """How a kind is served, and by which of its options; without `build`, what to write in its place."""

    build: Callable[[_Given], ChannelConfig] | None
    used: str = ""
    instead: str = ""


_WHERE = "webhook_url webhook_url_file"
_BY_HTTP = "http_config"

KINDS: Mapping[str, _Kind] = {
    "apprise": _Kind(_apprise, "url url_file title body"),
    "webhook": _Kind(_webhook, f"url url_file max_alerts timeout {_BY_HTTP}"),
    "slack": _Kind(_slack, "api_url api_url_file app_token app_token_file app_url channel"),
    "discord": _Kind(_discord, _WHERE),
    "msteams": _Kind(_connector, _WHERE),
    "msteamsv2": _Kind(_workflow, _WHERE),
    "telegram": _Kind(_telegram, "bot_token bot_token_file chat_id chat_id_file message_thread_id api_url"),
    "email": _Kind(
        _email,
        "to from smarthost auth_username auth_password auth_password_file require_tls force_implicit_tls",
    ),
    "pagerduty": _Kind(_pagerduty, "routing_key routing_key_file url"),
    "opsgenie": _Kind(_opsgenie, "api_key api_key_file api_url"),
    "pushover": _Kind(_pushover, "user_key user_key_file token token_file"),
    "victorops": _Kind(_victorops, "api_key api_key_file routing_key"),
    "alertmanager": _Kind(_alertmanager, f"url url_file {_BY_HTTP}"),
    "sns": _Kind(None, instead="`apprise_configs` with url: sns://ACCESS_KEY/SECRET/REGION/TOPIC"),
    "wechat": _Kind(None, instead="`apprise_configs` with url: wecombot://BOT_KEY"),
    "webex": _Kind(None, instead="`apprise_configs` with url: wxteams://WEBHOOK_TOKEN"),
    "jira": _Kind(None, instead="`webhook_configs` to what makes issues of alerts"),
    "incidentio": _Kind(None, instead="`webhook_configs` with the same URL, the token under http_config.authorization"),
    "rocketchat": _Kind(None, instead="`apprise_configs` with url: rockets://WEBHOOK@HOST/#CHANNEL"),
    "mattermost": _Kind(None, instead="`apprise_configs` with url: mmosts://HOST/WEBHOOK_KEY"),
}
_HTTP_DONE = frozenset(("authorization", "basic_auth", "bearer_token", "bearer_token_file", "http_headers"))
"""What of `http_config` a webhook is given; the rest is named."""


def undone(routing: Routing) -> list[Problem]:
    """What targets ask for and do not get, each with what to write instead. Reads no file."""
    found: list[Problem] = []
    for spec in _specs(routing):
        kind = KINDS[spec.kind]
        if kind.build is None:
            found.append(_unserved(spec))
            continue
        try:
            kind.build(_Given(spec.options, None))
        except _NoFileError:
            pass
        except ChannelError as error:
            found.append(_problem(spec, error))
            continue
        found += _unused(spec, kind)
    return found


def understood(routing: Routing) -> tuple[list[ChannelConfig], dict[str, list[Target]]]:
    """The channels of a routing, and by receiver whom it tells.

    Raises ProblemsError with every target that cannot be served; problems show no secret.
    """
    problems: list[Problem] = []
    configs: dict[str, ChannelConfig] = {}
    told: dict[str, list[Target]] = {}
    read_file = partial(_read, Path(routing.path).parent)
    for receiver in routing.receivers.values():
        targets: dict[str, Target] = {}
        for spec in receiver.targets:
            build = KINDS[spec.kind].build
            if build is None:
                problems.append(_unserved(spec))
                continue
            try:
                config = build(_Given(spec.options, read_file))
            except ChannelError as error:
                problems.append(_problem(spec, error))
                continue
            if configs.setdefault(config.name, config) != config:  # the same place, asked for in another way
                config = msgspec.structs.replace(config, name=f"{config.name} of {receiver.name}")  # type: ignore[type-var]
                configs[config.name] = config
            # Nobody else tells an Alertmanager of an end, and it is the one to decide who hears of it.
            targets[config.name] = Target(config.name, spec.send_resolved or spec.kind == "alertmanager")
        told[receiver.name] = list(targets.values())
    if problems:
        raise ProblemsError(problems)
    return list(configs.values()), told


def _specs(routing: Routing) -> list[TargetSpec]:
    return [spec for receiver in routing.receivers.values() for spec in receiver.targets]


def _unserved(spec: TargetSpec) -> Problem:
    return spec.place.problem(f"`{spec.kind}_configs` is not served by this version: use {KINDS[spec.kind].instead}")


def _problem(spec: TargetSpec, error: ChannelError) -> Problem:
    return spec.place.problem(f"this target of `{spec.kind}_configs` cannot be used: {error}")


def _unused(spec: TargetSpec, kind: _Kind) -> list[Problem]:
    """Options that are written and have no effect."""
    options: Options = spec.options
    used = {*kind.used.split(), "send_resolved"}
    keys = [field.encode_name for field in msgspec.structs.fields(type(options)) if field.encode_name != "place"]
    found = [
        options.place.key(key).problem(
            f"`{key}` has no effect in this version: remove it, messages have texts of our own"
        )
        for key in keys
        if key not in used and options.place.has(key)
    ]
    if _BY_HTTP in used and options.place.has(_BY_HTTP):
        place = options.place.at(_BY_HTTP)
        found += [
            place.key(key).problem(f"`{key}` has no effect in this version: remove it from `http_config`")
            for key in Http.__struct_fields__
            if key not in _HTTP_DONE and place.has(key)
        ]
    return found


def _read(folder: Path, path: str) -> str:
    return read_text(folder / path)
