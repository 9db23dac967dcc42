"""What a receiver may tell: one struct of options per kind of target, with the keys that Alertmanager gives it.

Beside each struct stand its rules, which `receivers` reads: what excludes what, what is needed, what `global` supplies.
Nothing is translated here; paths of `*_file` options stay paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, TypeAlias

import msgspec

from collector.documents import Duration, Place
from collector.documents.reader import Plain
from collector.model.secret import Secret

Names: TypeAlias = tuple[str, ...]


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """The header `Authorization: TYPE CREDENTIALS`."""

    type: str = "Bearer"
    credentials: Secret | None = None
    credentials_file: str | None = None


class BasicAuth(msgspec.Struct, frozen=True, kw_only=True):
    """User and password."""

    username: str = ""
    username_file: str | None = None
    password: Secret | None = None
    password_file: str | None = None


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is believed, and what is shown to it."""

    ca: str | None = None
    ca_file: str | None = None
    cert: str | None = None
    cert_file: str | None = None
    key: Secret | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False
    min_version: str | None = None
    max_version: str | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one header."""

    values: list[str] = []
    secrets: list[Secret] = []
    files: list[str] = []


class Http(msgspec.Struct, frozen=True, kw_only=True):
    """`http_config`."""

    authorization: Authorization | None = None
    basic_auth: BasicAuth | None = None
    oauth2: Plain | None = None
    bearer_token: Secret | None = None
    bearer_token_file: str | None = None
    proxy_url: str | None = None
    no_proxy: str | None = None
    proxy_from_environment: bool = False
    proxy_connect_header: Plain | None = None
    follow_redirects: bool = True
    enable_http2: bool = True
    tls_config: Tls | None = None
    http_headers: dict[str, Header] = {}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What every kind has. `excluding`: at most one of each; `needed`: one of each, `global` counted in."""

    excluding: ClassVar[tuple[Names, ...]] = ()
    needed: ClassVar[tuple[Names, ...]] = ()
    inherits: ClassVar[Mapping[str, str]] = {}
    """Option → the key of `global` that stands for it where none of its group is written."""
    urls: ClassVar[Names] = ()
    """Options that are http or https URLs."""

    place: Place
    send_resolved: bool = True
    http_config: Http | None = None


class Apprise(Options, frozen=True, kw_only=True):
    """Ours: any service that apprise knows."""

    excluding: ClassVar[tuple[Names, ...]] = (("url", "url_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("url", "url_file"),)
    url: Secret | None = None
    url_file: str | None = None
    title: str | None = None
    body: str | None = None


class Alertmanager(Options, frozen=True, kw_only=True):
    """Ours: hand over to an Alertmanager, which groups and routes by itself."""

    excluding: ClassVar[tuple[Names, ...]] = (("url", "url_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("url", "url_file"),)
    urls: ClassVar[Names] = ("url",)
    url: Secret | None = None
    url_file: str | None = None


class Webhook(Options, frozen=True, kw_only=True):
    """Alertmanager's JSON."""

    excluding: ClassVar[tuple[Names, ...]] = (("url", "url_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("url", "url_file"),)
    urls: ClassVar[Names] = ("url",)
    url: Secret | None = None
    url_file: str | None = None
    max_alerts: int = 0
    timeout: Duration = Duration(0)
    payload: Plain | None = None


class Email(Options, frozen=True, kw_only=True):
    """Mail."""

    excluding: ClassVar[tuple[Names, ...]] = (
        ("auth_password", "auth_password_file"),
        ("auth_secret", "auth_secret_file"),
    )
    needed: ClassVar[tuple[Names, ...]] = (("to",), ("smarthost",), ("from_",))
    inherits: ClassVar[Mapping[str, str]] = {
        "smarthost": "smtp_smarthost",
        "from_": "smtp_from",
        "hello": "smtp_hello",
        "auth_username": "smtp_auth_username",
        "auth_password": "smtp_auth_password",
        "auth_password_file": "smtp_auth_password_file",
        "auth_secret": "smtp_auth_secret",
        "auth_secret_file": "smtp_auth_secret_file",
        "auth_identity": "smtp_auth_identity",
        "require_tls": "smtp_require_tls",
        "tls_config": "smtp_tls_config",
        "force_implicit_tls": "smtp_force_implicit_tls",
    }
    send_resolved: bool = False
    to: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    hello: str | None = None
    smarthost: str | None = None
    auth_username: str | None = None
    auth_password: Secret | None = None
    auth_password_file: str | None = None
    auth_secret: Secret | None = None
    auth_secret_file: str | None = None
    auth_identity: str | None = None
    headers: dict[str, str] = {}
    html: str | None = None
    text: str | None = None
    require_tls: bool | None = None
    tls_config: Tls | None = None
    force_implicit_tls: bool | None = None
    threading: Plain | None = None


class Slack(Options, frozen=True, kw_only=True):
    """Slack, by webhook or bot token."""

    excluding: ClassVar[tuple[Names, ...]] = (("api_url", "api_url_file", "app_token", "app_token_file"),)
    needed: ClassVar[tuple[Names, ...]] = excluding
    inherits: ClassVar[Mapping[str, str]] = {
        "api_url": "slack_api_url",
        "api_url_file": "slack_api_url_file",
        "app_token": "slack_app_token",
        "app_token_file": "slack_app_token_file",
        "app_url": "slack_app_url",
    }
    urls: ClassVar[Names] = ("api_url", "app_url")
    send_resolved: bool = False
    api_url: Secret | None = None
    api_url_file: str | None = None
    app_token: Secret | None = None
    app_token_file: str | None = None
    app_url: str | None = None
    channel: str | None = None
    username: str | None = None
    color: str | None = None
    title: str | None = None
    title_link: str | None = None
    pretext: str | None = None
    text: str | None = None
    message_text: str | None = None
    fields: Plain | None = None
    short_fields: bool = False
    footer: str | None = None
    fallback: str | None = None
    callback_id: str | None = None
    icon_emoji: str | None = None
    icon_url: str | None = None
    image_url: str | None = None
    thumb_url: str | None = None
    link_names: bool = False
    mrkdwn_in: list[str] = []
    actions: Plain | None = None
    update_message: bool = False
    post_updates_to_thread: bool = False
    timeout: Duration = Duration(0)


class Pagerduty(Options, frozen=True, kw_only=True):
    """PagerDuty, by events of version 2 (`routing_key`) or 1 (`service_key`)."""

    excluding: ClassVar[tuple[Names, ...]] = (("routing_key", "routing_key_file"), ("service_key", "service_key_file"))
    needed: ClassVar[tuple[Names, ...]] = (("routing_key", "routing_key_file", "service_key", "service_key_file"),)
    inherits: ClassVar[Mapping[str, str]] = {"url": "pagerduty_url"}
    urls: ClassVar[Names] = ("url",)
    routing_key: Secret | None = None
    routing_key_file: str | None = None
    service_key: Secret | None = None
    service_key_file: str | None = None
    url: str | None = None
    client: str | None = None
    client_url: str | None = None
    description: str | None = None
    details: Plain | None = None
    images: Plain | None = None
    links: Plain | None = None
    source: str | None = None
    severity: str | None = None
    class_: str | None = msgspec.field(default=None, name="class")
    component: str | None = None
    group: str | None = None
    timeout: Duration = Duration(0)


class Responder(msgspec.Struct, frozen=True, kw_only=True):
    """Whom Opsgenie calls."""

    id: str | None = None
    name: str | None = None
    username: str | None = None
    type: str | None = None


class Opsgenie(Options, frozen=True, kw_only=True):
    """Opsgenie."""

    excluding: ClassVar[tuple[Names, ...]] = (("api_key", "api_key_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("api_key", "api_key_file"),)
    inherits: ClassVar[Mapping[str, str]] = {
        "api_key": "opsgenie_api_key",
        "api_key_file": "opsgenie_api_key_file",
        "api_url": "opsgenie_api_url",
    }
    urls: ClassVar[Names] = ("api_url",)
    api_key: Secret | None = None
    api_key_file: str | None = None
    api_url: str | None = None
    message: str | None = None
    description: str | None = None
    source: str | None = None
    details: dict[str, str] = {}
    entity: str | None = None
    responders: list[Responder] = []
    actions: str | None = None
    tags: str | None = None
    note: str | None = None
    priority: str | None = None
    update_alerts: bool = False


class Telegram(Options, frozen=True, kw_only=True):
    """A Telegram bot."""

    excluding: ClassVar[tuple[Names, ...]] = (("bot_token", "bot_token_file"), ("chat_id", "chat_id_file"))
    needed: ClassVar[tuple[Names, ...]] = (("bot_token", "bot_token_file"), ("chat_id", "chat_id_file"))
    inherits: ClassVar[Mapping[str, str]] = {
        "bot_token": "telegram_bot_token",
        "bot_token_file": "telegram_bot_token_file",
        "api_url": "telegram_api_url",
    }
    urls: ClassVar[Names] = ("api_url",)
    bot_token: Secret | None = None
    bot_token_file: str | None = None
    chat_id: int | None = None
    chat_id_file: str | None = None
    api_url: str | None = None
    message_thread_id: int = 0
    message: str | None = None
    disable_notifications: bool = False
    parse_mode: str | None = None
    timeout: Duration = Duration(0)


class Discord(Options, frozen=True, kw_only=True):
    """A Discord webhook."""

    excluding: ClassVar[tuple[Names, ...]] = (("webhook_url", "webhook_url_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("webhook_url", "webhook_url_file"),)
    urls: ClassVar[Names] = ("webhook_url",)
    webhook_url: Secret | None = None
    webhook_url_file: str | None = None
    content: str | None = None
    title: str | None = None
    message: str | None = None
    username: str | None = None
    avatar_url: str | None = None


class Teams(Options, frozen=True, kw_only=True):
    """A Microsoft Teams connector or, as `msteamsv2`, a workflow."""

    excluding: ClassVar[tuple[Names, ...]] = (("webhook_url", "webhook_url_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("webhook_url", "webhook_url_file"),)
    urls: ClassVar[Names] = ("webhook_url",)
    webhook_url: Secret | None = None
    webhook_url_file: str | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None


class Pushover(Options, frozen=True, kw_only=True):
    """Pushover."""

    excluding: ClassVar[tuple[Names, ...]] = (("user_key", "user_key_file"), ("token", "token_file"))
    needed: ClassVar[tuple[Names, ...]] = excluding
    user_key: Secret | None = None
    user_key_file: str | None = None
    token: Secret | None = None
    token_file: str | None = None
    title: str | None = None
    message: str | None = None
    url: str | None = None
    url_title: str | None = None
    device: str | None = None
    sound: str | None = None
    priority: str | None = None
    retry: Duration | None = None
    expire: Duration | None = None
    ttl: Duration | None = None
    html: bool = False
    monospace: bool = False
