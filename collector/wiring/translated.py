"""The targets of Alertmanager's own kinds, and of ours, as channels to the same service: one function a kind.

Options in, a checked channel configuration out; secrets that stand in files are read here. Most kinds become an
apprise URL. Each raises ChannelError, with what to write instead.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from collector import channels
from collector.channels import ChannelConfig, alertmanager, chat_urls, webhook
from collector.documents.substitute import secret
from collector.model.errors import ChannelError
from collector.model.secret import Secret
from collector.routing import kinds
from collector.routing.kinds import Http

ReadFile = Callable[[str], str]
"""A path to the text of a secret file. Raises OSError, ValueError or NoFileError."""


class NoFileError(Exception):
    """A secret stands in a file that is not to be read, or not here."""


class Given:
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


TEMPLATED = "{{"
SUBJECT, _REPLY = "Subject", "Reply-To"


def _secret_of(options: Any, name: str, read_file: ReadFile | None) -> str:
    value, path = getattr(options, name, None), getattr(options, f"{name}_file", None)
    if value is not None:
        return value.reveal() if isinstance(value, Secret) else str(value)
    if path is None:
        return ""
    if read_file is None:
        raise NoFileError
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


def apprise(given: Given) -> ChannelConfig:
    """Any service that apprise knows."""
    return channels.from_url(given.secret("url"))


def webhook_target(given: Given) -> ChannelConfig:
    """Alertmanager's JSON, with the headers of `http_config`."""
    options: kinds.Webhook = given.options
    config = webhook.from_url(f"webhook+{given.secret('url')}")
    return msgspec.structs.replace(
        config,
        max_alerts=options.max_alerts,
        timeout_seconds=float(options.timeout) or config.timeout_seconds,
        headers=given.http(),
    )


def slack(given: Given) -> ChannelConfig:
    """By webhook, or by bot to its channel."""
    options: kinds.Slack = given.options
    where = {"channel": options.channel} if options.channel and TEMPLATED not in options.channel else {}
    if token := given.secret("app_token"):
        if not options.channel:
            raise ChannelError("a bot needs to know its `channel`", retryable=False)
        bearer = {"Authorization": Secret(f"Bearer {token}")}
        return chat_urls.target("slack", options.app_url or _SLACK_API, options=where, headers=bearer)
    return chat_urls.target("slack", given.secret("api_url"), options=where)


_SLACK_API = "https://slack.com/api/chat.postMessage"


def discord(given: Given) -> ChannelConfig:
    """By webhook, which says whether it took a message."""
    url = given.secret("webhook_url")
    return chat_urls.target("discord", f"{url}{'&' if '?' in url else '?'}wait=true")


def workflow(given: Given) -> ChannelConfig:
    """Teams by a workflow."""
    return channels.from_url(given.secret("webhook_url"))  # apprise knows the service by its addresses


def connector(given: Given) -> ChannelConfig:
    """Teams by a connector, of which there are hardly any left."""
    url = given.secret("webhook_url")
    try:
        return channels.from_url(url)
    except ChannelError:
        ended = "Microsoft has ended connectors: make a workflow, and use `msteamsv2_configs`"
        raise ChannelError(ended, retryable=False) from None


def telegram(given: Given) -> ChannelConfig:
    """A bot that writes to a chat."""
    options: kinds.Telegram = given.options
    topic = {"topic": str(options.message_thread_id)} if options.message_thread_id else {}
    base = (options.api_url or "https://api.telegram.org").rstrip("/")
    url = f"{base}/bot{given.secret('bot_token')}/sendMessage"
    return chat_urls.target("telegram", url, options={"chat": given.secret("chat_id"), **topic})


def email(given: Given) -> ChannelConfig:
    """Mail, by apprise."""
    options: kinds.Email = given.options
    host, _, port = (options.smarthost or "").rpartition(":")
    is_implicit = port == "465" if options.force_implicit_tls is None else options.force_implicit_tls
    mode = "ssl" if is_implicit else "starttls" if options.require_tls else ""
    user = quote(options.auth_username or "", safe="")
    password = quote(given.secret("auth_password"), safe="")
    login = f"{user}:{password}@" if user and password else ""
    query = {"from": options.from_ or "", "to": options.to or "", **({"mode": mode} if mode else {})}
    for name, value in options.headers.items():
        if name.title() != SUBJECT:  # which is our title, and a template
            query["reply" if name.title() == _REPLY else f"+{name}"] = value
    written = "&".join(f"{quote(key, safe='+')}={quote(value, safe='@')}" for key, value in query.items())
    return channels.from_url(f"{'mailtos' if mode else 'mailto'}://{login}{host}:{port}/?{written}")


def pagerduty(given: Given) -> ChannelConfig:
    """Events of version 2."""
    key = given.secret("routing_key")
    if not key:
        raise ChannelError("only `routing_key` is served: make an integration of Events API v2", retryable=False)
    url = given.options.url or "https://events.pagerduty.com/v2/enqueue"
    return chat_urls.target("pagerduty", url, options={"key": key})


def alertmanager_target(given: Given) -> ChannelConfig:
    """Handed over."""
    return msgspec.structs.replace(alertmanager.at_address(given.secret("url")), headers=given.http())


def opsgenie(given: Given) -> ChannelConfig:
    """Opsgenie, by apprise."""
    options: kinds.Opsgenie = given.options
    asked = {
        "region": "eu" if ".eu." in (options.api_url or "") else None,
        "priority": options.priority,
        "tags": options.tags,
        "entity": options.entity,
        **{f"+{name}": value for name, value in options.details.items()},
    }
    called = [f"{_CALLED.get(one.type or '', '#')}{one.id or one.name or one.username}" for one in options.responders]
    whom = "/".join(quote(one, safe="") for one in called)
    return channels.from_url(f"opsgenie://{quote(given.secret('api_key'), safe='')}/{whom}{_query(asked)}")


_CALLED = {"team": "#", "user": "@", "escalation": "^", "schedule": "*"}
"""How apprise writes whom Opsgenie calls, by Alertmanager's word for it."""


def pushover(given: Given) -> ChannelConfig:
    """Pushover, by apprise."""
    options: kinds.Pushover = given.options
    asked = {
        **{name: getattr(options, name) for name in ("sound", "priority", "url", "url_title")},
        "interval": None if options.retry is None else f"{options.retry:.0f}",
        "expire": None if options.expire is None else f"{options.expire:.0f}",
    }
    device = f"/{quote(options.device, safe=',')}" if options.device else ""
    query = _query(asked)
    slash = "/" if query and not device else ""
    url = f"pover://{given.secret('user_key')}@{given.secret('token')}{device}{slash}{query}"
    return channels.from_url(url)


def _query(asked: Mapping[str, str | None]) -> str:
    written = "&".join(f"{quote(name, safe='+')}={quote(value, safe='')}" for name, value in asked.items() if value)
    return f"?{written}" if written else ""


def victorops(given: Given) -> ChannelConfig:
    """Splunk On-Call, by apprise."""
    return channels.from_url(f"splunk://{quote(given.options.routing_key, safe='')}@{given.secret('api_key')}")


def mattermost(given: Given) -> ChannelConfig:
    """By webhook, as to Slack."""
    channel = given.options.channel or ""
    where = {"channel": channel} if channel and TEMPLATED not in channel else {}
    return chat_urls.target("mattermost", given.secret("webhook_url"), options=where)


def rocketchat(given: Given) -> ChannelConfig:
    """By a user's token."""
    options: Any = given.options
    where = {"channel": options.channel} if options.channel and TEMPLATED not in options.channel else {}
    headers = {"X-Auth-Token": Secret(given.secret("token")), "X-User-Id": Secret(given.secret("token_id"))}
    url = f"{str(options.api_url).rstrip('/')}/api/v1/chat.postMessage"
    return chat_urls.target("rocketchat", url, options=where, headers=headers)


def webex(given: Given) -> ChannelConfig:
    """To a room, with the token of `http_config`."""
    headers = given.http()
    if "Authorization" not in headers:
        raise ChannelError("a bot's token is missing: write it under http_config.authorization", retryable=False)
    return chat_urls.target("webex", given.options.api_url, options={"room": given.options.room_id}, headers=headers)


def incidentio(given: Given) -> ChannelConfig:
    """Alertmanager's JSON, with the token of the alert source."""
    options: Any = given.options
    config = webhook.from_url(f"webhook+{given.secret('url')}")
    token = given.secret("alert_source_token")
    bearer = {"Authorization": Secret(f"Bearer {token}")} if token else {}
    return msgspec.structs.replace(
        config,
        max_alerts=options.max_alerts or config.max_alerts,
        timeout_seconds=float(options.timeout) or config.timeout_seconds,
        headers={**given.http(), **bearer},
    )
