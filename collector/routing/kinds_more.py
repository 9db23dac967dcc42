"""The rarer kinds of targets, and what a receiver may hold of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from collector.documents import Duration, Place
from collector.documents.reader import Plain
from collector.model.secret import Secret
from collector.routing import kinds
from collector.routing.kinds import Names, Options


class Victorops(Options, frozen=True, kw_only=True):
    """VictorOps, now Splunk On-Call."""

    excluding: ClassVar[tuple[Names, ...]] = (("api_key", "api_key_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("api_key", "api_key_file"), ("routing_key",))
    inherits: ClassVar[Mapping[str, str]] = {
        "api_key": "victorops_api_key",
        "api_key_file": "victorops_api_key_file",
        "api_url": "victorops_api_url",
    }
    urls: ClassVar[Names] = ("api_url",)
    api_key: Secret | None = None
    api_key_file: str | None = None
    api_url: str | None = None
    routing_key: str | None = None
    message_type: str | None = None
    state_message: str | None = None
    entity_display_name: str | None = None
    monitoring_tool: str | None = None
    custom_fields: dict[str, str] = msgspec.field(default_factory=dict)


class Sns(Options, frozen=True, kw_only=True):
    """Amazon's notification service."""

    excluding: ClassVar[tuple[Names, ...]] = (("topic_arn", "target_arn", "phone_number"),)
    needed: ClassVar[tuple[Names, ...]] = excluding
    api_url: str | None = None
    sigv4: Plain | None = None
    topic_arn: str | None = None
    target_arn: str | None = None
    phone_number: str | None = None
    subject: str | None = None
    message: str | None = None
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    use_aws_http_client: bool = False


class Wechat(Options, frozen=True, kw_only=True):
    """WeChat Work, by an application."""

    excluding: ClassVar[tuple[Names, ...]] = (("api_secret", "api_secret_file"),)
    needed: ClassVar[tuple[Names, ...]] = (("api_secret", "api_secret_file"), ("corp_id",))
    inherits: ClassVar[Mapping[str, str]] = {
        "api_secret": "wechat_api_secret",
        "api_secret_file": "wechat_api_secret_file",
        "api_url": "wechat_api_url",
        "corp_id": "wechat_api_corp_id",
    }
    urls: ClassVar[Names] = ("api_url",)
    send_resolved: bool = False
    api_secret: Secret | None = None
    api_secret_file: str | None = None
    api_url: str | None = None
    corp_id: str | None = None
    message: str | None = None
    to_user: str | None = None
    to_party: str | None = None
    to_tag: str | None = None
    agent_id: str | None = None
    message_type: str | None = None


class Webex(Options, frozen=True, kw_only=True):
    """Cisco Webex."""

    needed: ClassVar[tuple[Names, ...]] = (("room_id",), ("http_config",))
    inherits: ClassVar[Mapping[str, str]] = {"api_url": "webex_api_url"}
    urls: ClassVar[Names] = ("api_url",)
    api_url: str | None = None
    message: str | None = None
    room_id: str | None = None


class Jira(Options, frozen=True, kw_only=True):
    """Jira issues."""

    needed: ClassVar[tuple[Names, ...]] = (("project",), ("issue_type",), ("api_url",))
    inherits: ClassVar[Mapping[str, str]] = {"api_url": "jira_api_url"}
    urls: ClassVar[Names] = ("api_url",)
    api_url: str | None = None
    api_type: str | None = None
    project: str | None = None
    summary: Plain | None = None
    description: Plain | None = None
    labels: list[str] = msgspec.field(default_factory=list)
    priority: str | None = None
    issue_type: str | None = None
    reopen_transition: str | None = None
    resolve_transition: str | None = None
    wont_fix_resolution: str | None = None
    reopen_duration: Duration | None = None
    fields: Plain | None = None


class Rocketchat(Options, frozen=True, kw_only=True):
    """Rocket.Chat, by a user's token."""

    excluding: ClassVar[tuple[Names, ...]] = (("token", "token_file"), ("token_id", "token_id_file"))
    needed: ClassVar[tuple[Names, ...]] = excluding
    inherits: ClassVar[Mapping[str, str]] = {
        "api_url": "rocketchat_api_url",
        "token": "rocketchat_token",
        "token_file": "rocketchat_token_file",
        "token_id": "rocketchat_token_id",
        "token_id_file": "rocketchat_token_id_file",
    }
    urls: ClassVar[Names] = ("api_url",)
    api_url: str | None = None
    token: Secret | None = None
    token_file: str | None = None
    token_id: Secret | None = None
    token_id_file: str | None = None
    channel: str | None = None
    color: str | None = None
    title: str | None = None
    title_link: str | None = None
    text: str | None = None
    message_text: str | None = None
    fields: Plain | None = None
    short_fields: bool = False
    emoji: str | None = None
    icon_url: str | None = None
    image_url: str | None = None
    thumb_url: str | None = None
    link_names: bool = False
    actions: Plain | None = None


class Incidentio(Options, frozen=True, kw_only=True):
    """incident.io."""

    excluding: ClassVar[tuple[Names, ...]] = (("url", "url_file"), ("alert_source_token", "alert_source_token_file"))
    needed: ClassVar[tuple[Names, ...]] = (("url", "url_file"),)
    urls: ClassVar[Names] = ("url",)
    url: str | None = None
    url_file: str | None = None
    alert_source_token: Secret | None = None
    alert_source_token_file: str | None = None
    metadata: Plain | None = None
    max_alerts: int = 0
    timeout: Duration = Duration(0)


class Mattermost(Options, frozen=True, kw_only=True):
    """A Mattermost webhook."""

    excluding: ClassVar[tuple[Names, ...]] = (("webhook_url", "webhook_url_file"),)
    needed: ClassVar[tuple[Names, ...]] = excluding
    inherits: ClassVar[Mapping[str, str]] = {
        "webhook_url": "mattermost_webhook_url",
        "webhook_url_file": "mattermost_webhook_url_file",
    }
    urls: ClassVar[Names] = ("webhook_url",)
    webhook_url: Secret | None = None
    webhook_url_file: str | None = None
    channel: str | None = None
    username: str | None = None
    text: str | None = None
    fallback: str | None = None
    color: str | None = None
    pretext: str | None = None
    author_name: str | None = None
    author_link: str | None = None
    author_icon: str | None = None
    title: str | None = None
    title_link: str | None = None
    fields: Plain | None = None
    thumb_url: str | None = None
    footer: str | None = None
    footer_icon: str | None = None
    image_url: str | None = None
    icon_url: str | None = None
    icon_emoji: str | None = None
    attachments: Plain | None = None
    type: str | None = None
    props: Plain | None = None
    priority: Plain | None = None


class ReceiverDocument(msgspec.Struct, kw_only=True):
    """A receiver as written. The order of the kinds is the one in which a receiver's targets are told."""

    place: Place
    name: str = ""
    labels: dict[str, str] = {}
    # ours
    apprise_configs: list[kinds.Apprise] = []
    alertmanager_configs: list[kinds.Alertmanager] = []
    # Alertmanager's
    webhook_configs: list[kinds.Webhook] = []
    email_configs: list[kinds.Email] = []
    pagerduty_configs: list[kinds.Pagerduty] = []
    opsgenie_configs: list[kinds.Opsgenie] = []
    wechat_configs: list[Wechat] = []
    slack_configs: list[kinds.Slack] = []
    victorops_configs: list[Victorops] = []
    pushover_configs: list[kinds.Pushover] = []
    sns_configs: list[Sns] = []
    telegram_configs: list[kinds.Telegram] = []
    discord_configs: list[kinds.Discord] = []
    webex_configs: list[Webex] = []
    msteams_configs: list[kinds.Teams] = []
    msteamsv2_configs: list[kinds.Teams] = []
    jira_configs: list[Jira] = []
    incidentio_configs: list[Incidentio] = []
    rocketchat_configs: list[Rocketchat] = []
    mattermost_configs: list[Mattermost] = []


SUFFIX = "_configs"
KINDS = tuple(name.removesuffix(SUFFIX) for name in ReceiverDocument.__struct_fields__ if name.endswith(SUFFIX))
"""The kinds of targets; in a receiver the key is `KIND_configs`."""
