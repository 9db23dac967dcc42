"""Which of apprise's URLs are served in the service's own words, and what they say.

A URL that asks for more than one place, or for anything that only apprise does, stays with apprise.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from collector.channels.chat import ChatConfig
from collector.channels.services import SERVICES
from collector.channels.verdict import tag
from collector.model.secret import Secret

_HARMLESS = frozenset(("avatar", "footer", "image", "format", "region", "retry", "wait", "thread", "mode", "secret"))
"""Options of apprise that change nothing of a text, or are obeyed."""

_SIGNED = frozenset(("feishu", "lark"))
"""Whose robots may ask for signatures, and whose URL has no place for the secret in apprise: ours is `?secret=`."""


def from_plugin(plugin: Any, url: str, name: str) -> ChatConfig | None:
    """The target of a URL as apprise understood it; None where apprise is to serve it."""
    read = _READ.get(type(plugin).__name__)
    asked = {key.lower(): value for key, value in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    if read is None or not asked.keys() <= _HARMLESS or not plugin.verify_certificate:
        return None
    try:
        config = read(plugin, name)
    except (AttributeError, TypeError, ValueError):  # an apprise of another version, that names its parts otherwise
        return None
    secret = asked.get("secret")
    if config is not None and secret and config.service in _SIGNED:
        config = msgspec.structs.replace(config, sign_secret=Secret(secret))
    return config


def most(plugin: Any) -> int:
    """Of how many characters or bytes a text may be that apprise is to bring to a service of ours; 0: not ours.

    Half of what the service takes: what apprise makes of the markup in it is its own affair.
    """
    known = _SERVICE.get(type(plugin).__name__)
    return SERVICES[known].form.limit // 2 if known else 0


def target(service: str, url: str, name: str = "", options: Mapping[str, str] | None = None, **more: Any) -> ChatConfig:
    """A target at an address of a service's own kind."""
    where = f"{url}#{sorted((options or {}).items())}"
    return ChatConfig(
        service=service,
        url=Secret(url),
        name=name or f"{service}://#{tag(where)}",
        options={key: Secret(value) for key, value in (options or {}).items()},
        **more,
    )


def _slack(plugin: Any, name: str) -> ChatConfig | None:
    if len(plugin.channels) > 1 or (plugin.channels and "@" in str(plugin.channels[0])):
        return None
    channel = str(plugin.channels[0]).removeprefix("+") if plugin.channels and plugin.channels[0] else ""
    options = {"channel": channel} if channel else {}
    if plugin.mode == "hook":
        path = f"{plugin.token_a}/{plugin.token_b}/{plugin.token_c}"
        return target("slack", f"https://hooks.slack.com/services/{path}", name, options)
    if plugin.mode == "bot" and channel:
        bearer = {"Authorization": Secret(f"Bearer {plugin.access_token}")}
        return target("slack", "https://slack.com/api/chat.postMessage", name, options, headers=bearer)
    return None


def _discord(plugin: Any, name: str) -> ChatConfig | None:
    if plugin.template or plugin.ping or plugin.tts:
        return None
    thread = f"&thread_id={quote(str(plugin.thread_id), safe='')}" if plugin.thread_id else ""
    path = f"{plugin.webhook_id}/{plugin.webhook_token}"
    return target("discord", f"https://discord.com/api/webhooks/{path}?wait=true{thread}", name)


def _telegram(plugin: Any, name: str) -> ChatConfig | None:
    if len(plugin.targets) != 1:
        return None  # without any, apprise finds out who spoke to the bot
    chat, topic = plugin.targets[0]
    options = {"chat": str(chat), **({"topic": str(topic)} if topic else {})}
    return target("telegram", f"https://api.telegram.org/bot{plugin.bot_token}/sendMessage", name, options)


def _pagerduty(plugin: Any, name: str) -> ChatConfig | None:
    host = "events.eu.pagerduty.com" if plugin.region_name == "eu" else "events.pagerduty.com"
    return target("pagerduty", f"https://{host}/v2/enqueue", name, {"key": plugin.integration_key})


def _ntfy(plugin: Any, name: str) -> ChatConfig | None:
    if len(plugin.topics) != 1:
        return None
    url = "https://ntfy.sh/"
    if plugin.mode == "private":
        port = f":{plugin.port}" if plugin.port else ""
        url = f"http{'s' * bool(plugin.secure)}://{plugin.host}{port}/"
    headers = {}
    if plugin.auth == "token" and plugin.token:
        headers["Authorization"] = Secret(f"Bearer {plugin.token}")
    elif plugin.user:
        pair = f"{plugin.user}:{plugin.password or ''}"
        headers["Authorization"] = Secret(f"Basic {base64.b64encode(pair.encode()).decode()}")
    return target("ntfy", url, name, {"topic": plugin.topics[0]}, headers=headers)


def _dingtalk(plugin: Any, name: str) -> ChatConfig | None:
    if plugin.targets:
        return None  # numbers to call
    url = f"https://oapi.dingtalk.com/robot/send?access_token={quote(plugin.token, safe='')}"
    return target("dingtalk", url, name, sign_secret=Secret(plugin.secret) if plugin.secret else None)


def _feishu(plugin: Any, name: str) -> ChatConfig | None:
    return target("feishu", f"https://open.feishu.cn/open-apis/bot/v2/hook/{quote(plugin.token, safe='')}", name)


def _lark(plugin: Any, name: str) -> ChatConfig | None:
    return target("lark", f"https://open.larksuite.com/open-apis/bot/v2/hook/{quote(plugin.token, safe='')}", name)


def _wecom(plugin: Any, name: str) -> ChatConfig | None:
    return target("wecom", f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={quote(plugin.key, safe='')}", name)


_READ: Mapping[str, Callable[[Any, str], ChatConfig | None]] = {
    "NotifySlack": _slack,
    "NotifyDiscord": _discord,
    "NotifyTelegram": _telegram,
    "NotifyPagerDuty": _pagerduty,
    "NotifyNtfy": _ntfy,
    "NotifyDingTalk": _dingtalk,
    "NotifyFeishu": _feishu,
    "NotifyLark": _lark,
    "NotifyWeComBot": _wecom,
}
"""By the class of apprise's plugin."""

_SERVICE = {name: read.__name__.removeprefix("_") for name, read in _READ.items()}
