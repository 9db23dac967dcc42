"""The services that are written to in their own words, as one table: limits, markup, pace, request, meaning of answers.

Limits are those of the services' own pages, counted the strict way where a page leaves the unit open:

- Slack: 4,000 characters are shown as one message (40,000 are taken); `&<>` are escaped, `<!channel>` needs the `<`;
  one message a second (docs.slack.dev: chat.postMessage, formatting, rate limits).
- Discord: `content` of 2,000 characters, `allowed_mentions` names who may be called; 5 requests in 5 s and 30 in a
  minute per webhook (discord.com/developers/docs: webhook resource, allowed mentions, rate limits).
- Telegram: 4,096 characters after the markup is read; HTML needs `&<>` escaped; 20 messages a minute to a group
  (core.telegram.org/bots/api#sendmessage, /bots/faq).
- PagerDuty Events v2: `summary` of 1,024 characters, `dedup_key` of 255, an event of 512 KB
  (developer.pagerduty.com/docs/events-api-v2).
- ntfy: 4,096 bytes of message, more becomes a file; 1 KB of title; 60 requests, then one in 5 s
  (docs.ntfy.sh/publish, release notes of 2.28.0).
- DingTalk: 20,000 bytes a request, 20 messages a minute, else ten minutes of silence; only `at` calls anybody
  (open.dingtalk.com/document/robots/custom-robot-access).
- Feishu and Lark: 20 KB a request, 5 a second and 100 a minute; in a `post` the tag `text` is text and nothing else
  (open.feishu.cn/document/client-docs/bot-v3/add-custom-bot).
- Mattermost: 16,383 characters of Markdown, `@all` and its like call; Rocket.Chat: 5,000 by default, the same marks;
  Webex: 7,439 bytes of Markdown (docs: incoming webhooks, chat.postMessage, create a message).
- WeCom: `content` of 2,048 bytes, 20 messages a minute; `<@userid>` calls in a text, too
  (developer.work.weixin.qq.com/document/path/91770).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from collector.channels import texts
from collector.channels.pace import Pace
from collector.channels.texts import Form, fit, message, shorten
from collector.model.alert import Notification
from collector.model.severity import urgency

_MOST_DETAIL = 6_000
_SILENT = {"link_preview_options": {"is_disabled": True}}
_SUPPRESS_EMBEDS = 4


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is made of. `options`: what the target's URL or file says besides where it is."""

    notification: Notification
    form: Form
    options: Mapping[str, str]
    is_plain: bool = False

    def whole(self) -> str:
        """Title and text in one."""
        return message(self.notification.title, self.notification.text, self.form)

    def parts(self) -> tuple[str, str]:
        """Title and text."""
        return fit(self.notification.title, self.notification.text, self.form)


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One service. `payload` makes the JSON of a request; answers are told apart by the code that they carry."""

    title: str
    form: Form
    pace: Pace
    payload: Callable[[Draft], dict[str, Any]]
    code: Callable[[Mapping[str, Any]], str] = lambda _: ""
    """The code of a refusal in an answer of 200; "" where it was taken."""
    busy: Mapping[str, float] = {}
    """Codes that say: not so fast; with the seconds to wait."""
    final: frozenset[str] = frozenset()
    """Codes that no further try changes."""
    bad: frozenset[str] = frozenset()
    """Codes that speak of the content."""
    bad_words: tuple[str, ...] = ("",)
    """An answer of 400, 413 or 422 with one of these in it speaks of the content."""


def _slack(draft: Draft) -> dict[str, Any]:
    quiet = {"mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    return {"text": draft.whole(), **quiet, **_channel(draft)}


def _discord(draft: Draft) -> dict[str, Any]:
    return {"content": draft.whole(), "allowed_mentions": {"parse": []}, "flags": _SUPPRESS_EMBEDS}


def _telegram(draft: Draft) -> dict[str, Any]:
    mode = {} if draft.is_plain else {"parse_mode": "HTML"}
    topic = draft.options.get("topic")
    thread = {"message_thread_id": int(topic)} if topic else {}
    return {"chat_id": draft.options["chat"], "text": draft.whole(), **_SILENT, **mode, **thread}


def _pagerduty(draft: Draft) -> dict[str, Any]:
    told = draft.notification
    known = dict(told.common_labels)
    event: dict[str, Any] = {
        "routing_key": draft.options["key"],
        "dedup_key": hashlib.sha256(f"{told.receiver}:{told.group_key}".encode()).hexdigest(),
        "event_action": "resolve" if told.status == "resolved" else "trigger",
    }
    payload: dict[str, Any] = {
        "summary": draft.form.escape(shorten(" ".join(told.title.split()), draft.form, draft.form.limit)),
        "source": told.external_url or "tasktrail",
        "severity": _PAGERDUTY[min(map(urgency, (alert.labels for alert in told.alerts)), default=2)],
        **{
            key: known[name]
            for key, name in (("component", "task"), ("group", "queue"), ("class", "alertname"))
            if known.get(name)
        },
    }
    if draft.is_plain:
        return {**event, "payload": payload}
    payload["custom_details"] = {"text": told.text[:_MOST_DETAIL], "firing": told.count("firing"), "key": told.key}
    runbook = dict(told.common_annotations).get("runbook_url", "")
    links = [{"href": runbook, "text": "runbook"}] if runbook.startswith(("https://", "http://")) else []
    client = {"client": "Tasktrail", **({"client_url": told.external_url} if told.external_url else {})}
    return {**event, "payload": payload, "links": links, **client}


_PAGERDUTY = ("critical", "error", "warning", "info")
_NTFY = (5, 4, 3, 2)


def _ntfy(draft: Draft) -> dict[str, Any]:
    told = draft.notification
    title, text = draft.parts()
    rank = min(map(urgency, (alert.labels for alert in told.alerts)), default=2)
    is_over = told.status == "resolved"
    click = {"click": told.external_url} if told.external_url else {}
    return {
        "topic": draft.options["topic"],
        "title": title,
        "message": text or title,
        "priority": 3 if is_over else _NTFY[rank],
        "tags": ["white_check_mark" if is_over else "rotating_light"],
        **click,
    }


def _dingtalk(draft: Draft) -> dict[str, Any]:
    return {"msgtype": "text", "text": {"content": draft.whole()}, "at": {"isAtAll": False}}


def _feishu(draft: Draft) -> dict[str, Any]:
    if draft.is_plain:
        return {"msg_type": "text", "content": {"text": draft.whole()}}
    title, text = draft.parts()
    post = {"title": title, "content": [[{"tag": "text", "text": text or title}]]}
    return {"msg_type": "post", "content": {"post": {"zh_cn": post}}}


def _wecom(draft: Draft) -> dict[str, Any]:
    return {"msgtype": "text", "text": {"content": draft.whole()}}


def _mattermost(draft: Draft) -> dict[str, Any]:
    return {"text": draft.whole(), **_channel(draft)}


def _rocketchat(draft: Draft) -> dict[str, Any]:
    return {"text": draft.whole(), "parseUrls": False, **_channel(draft)}


def _webex(draft: Draft) -> dict[str, Any]:
    return {"roomId": draft.options["room"], "markdown": draft.whole()}


def _channel(draft: Draft) -> dict[str, Any]:
    return {"channel": draft.options["channel"]} if draft.options.get("channel") else {}


def _unsuccessful(answer: Mapping[str, Any]) -> str:
    return "" if answer.get("success", True) is True else str(answer.get("error") or "no success")


def _errcode(answer: Mapping[str, Any]) -> str:
    return "" if answer.get("errcode", 0) == 0 else str(answer["errcode"])


def _feishu_code(answer: Mapping[str, Any]) -> str:
    code = answer.get("code", answer.get("StatusCode", 0))
    return "" if code == 0 else str(code)


def _not_ok(answer: Mapping[str, Any]) -> str:
    return "" if answer.get("ok", True) is True else str(answer.get("error") or answer.get("error_code") or "not ok")


_FEISHU_FORM = Form(limit=18_000, unit="json", title_limit=1_000)  # the rest of 20 KB is the JSON around it
_FEISHU = Service(
    title="Feishu",
    form=_FEISHU_FORM,
    pace=Pace(4, 2.5),  # under five a second, and under a hundred a minute
    payload=_feishu,
    code=_feishu_code,
    busy={"11232": 10.0, "99991400": 10.0},
    final=frozenset(("19001", "19002", "19021", "19022", "19024")),
    bad=frozenset(("9499", "230001", "230025")),
)

_SLACK_FINAL = frozenset((
    "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "no_permission",
    "missing_scope", "channel_not_found", "not_in_channel", "is_archived", "restricted_action",
))  # fmt: skip

SERVICES: Mapping[str, Service] = {
    "slack": Service(
        title="Slack",
        form=Form(limit=4_000, escape=texts.entities),
        pace=Pace(1, 1.0),
        payload=_slack,
        code=_not_ok,
        busy={"ratelimited": 30.0, "rate_limited": 30.0, "message_limit_exceeded": 60.0},
        final=_SLACK_FINAL,
        bad=frozenset(("no_text", "msg_too_long", "invalid_blocks", "invalid_attachments", "invalid_arguments")),
        bad_words=("invalid_payload", "no_text", "msg_too_long", "invalid_blocks", "too_many_attachments"),
    ),
    "discord": Service(
        title="Discord",
        form=Form(limit=2_000, escape=texts.markdown, around="**{}**"),
        pace=Pace(5, 10.0),
        payload=_discord,
        bad_words=("50035", "50006", "content"),
    ),
    "telegram": Service(
        title="Telegram",
        form=Form(limit=4_096, escape=texts.entities, around="<b>{}</b>"),
        pace=Pace(18, 60.0),
        payload=_telegram,
        code=_not_ok,
        bad_words=("parse", "too long", "entit", "text"),
    ),
    "pagerduty": Service(
        title="PagerDuty", form=Form(limit=1_024), pace=Pace(60, 30.0), payload=_pagerduty, bad_words=("",)
    ),
    "ntfy": Service(
        title="ntfy",
        form=Form(limit=4_096, unit="bytes", title_limit=512),
        pace=Pace(30, 60.0),
        payload=_ntfy,
        bad_words=("",),
    ),
    "dingtalk": Service(
        title="DingTalk",
        form=Form(limit=18_000, unit="json", escape=texts.unmentioned),
        pace=Pace(18, 60.0),
        payload=_dingtalk,
        code=_errcode,
        busy={"130101": 60.0, "410100": 60.0, "90030": 600.0, "90018": 60.0, "-1": 5.0},
        final=frozenset(("300001", "300005", "310000", "40035", "40014", "400013", "400101")),
        bad=frozenset(("460101", "43004", "400105", "40058", "45002")),
    ),
    "feishu": _FEISHU,
    "lark": msgspec.structs.replace(_FEISHU, title="Lark"),
    "mattermost": Service(
        title="Mattermost",
        form=Form(limit=16_000, escape=texts.markdown, around="**{}**"),
        pace=Pace(10, 2.0),
        payload=_mattermost,
        bad_words=("invalid", "too long", "parse"),
    ),
    "rocketchat": Service(
        title="Rocket.Chat",
        form=Form(limit=5_000, escape=texts.markdown, around="*{}*"),
        pace=Pace(5, 2.0),
        payload=_rocketchat,
        code=_unsuccessful,
        final=frozenset(("error-not-allowed", "error-invalid-channel", "error-room-not-found", "unauthorized")),
        bad=frozenset(("error-message-size-exceeded",)),
        bad_words=("message-size", "invalid"),
    ),
    "webex": Service(
        title="Webex",
        form=Form(limit=7_000, unit="bytes", escape=texts.webex, around="**{}**"),
        pace=Pace(5, 2.0),
        payload=_webex,
        bad_words=("message", "text", "markdown"),
    ),
    "wecom": Service(
        title="WeCom",
        form=Form(limit=2_048, unit="bytes", escape=texts.unmentioned),
        pace=Pace(18, 60.0),
        payload=_wecom,
        code=_errcode,
        busy={"45009": 60.0, "45033": 10.0, "-1": 5.0},
        final=frozenset(("93000", "93004", "93008", "40014", "41001")),
        bad=frozenset(("40058", "44004", "45002", "40008")),
    ),
}


def signed(url: str, service: str, secret: str, now: float) -> tuple[str, dict[str, str]]:
    """A DingTalk address, and the fields of a Feishu request, of a robot that asks for signatures. `now`: Unix seconds.

    The two differ in what is key and what is message, and in the unit of time.
    """
    if service == "dingtalk":
        stamp = f"{now * 1000:.0f}"
        digest = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
        sign = quote(base64.b64encode(digest), safe="")
        return f"{url}&timestamp={stamp}&sign={sign}", {}
    stamp = f"{now:.0f}"
    digest = hmac.new(f"{stamp}\n{secret}".encode(), digestmod=hashlib.sha256).digest()
    return url, {"timestamp": stamp, "sign": base64.b64encode(digest).decode()}
