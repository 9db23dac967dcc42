"""Requests in the words of a target's author, laid out as Alertmanager lays them out; what is not said stays ours.

Takes what the templates of a routes file gave, by option. Cut to what the service takes, but not escaped: markup is the
author's, and what labels and annotations say was made harmless before it came here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from collector.channels.services import SERVICES, Draft
from collector.channels.texts import Form, shorten

Words: TypeAlias = Mapping[str, Any]
_ATTACHED = (
    "title",
    "title_link",
    "pretext",
    "text",
    "fallback",
    "callback_id",
    "image_url",
    "thumb_url",
    "footer",
    "color",
    "fields",
    "actions",
    "mrkdwn_in",
)
_FIELD = ("title", "value")
_ACTION = ("type", "text", "url", "style", "name", "value", "msg")
_CONFIRM = ("title", "text", "ok_text", "dismiss_text")
_MOST_SLACK = 8_000
_RED, _GREEN = 0x992D22, 0x2ECC71
_SEVERITIES = frozenset(("critical", "error", "warning", "info"))
_FALSE = frozenset(("false", "no", "off", ""))


def payload(service: str, draft: Draft) -> dict[str, Any]:
    """The request to a service: in the words that the notification brings, else in ours."""
    ours = SERVICES[service].payload(draft)
    words = draft.notification.words
    if words is None or draft.is_plain or service not in _LAID_OUT:
        return ours
    return _LAID_OUT[service](draft, words, ours)


def _cut(text: Any, most: int) -> str:
    return shorten(str(text), Form(limit=most), most)


def _some(values: Words, names: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: values[name] for name in names if values.get(name)}


def _slack(draft: Draft, words: Words, ours: dict[str, Any]) -> dict[str, Any]:
    top = {**_some(ours, ["channel"]), **_some(words, ("channel", "username", "icon_emoji", "icon_url", "link_names"))}
    if not any(name in words for name in _ATTACHED):
        return {**ours, **top, **({"text": _cut(words["message_text"], 4_000)} if words.get("message_text") else {})}
    told, form = draft.notification, draft.form
    is_over = told.status == "resolved"
    attached = {
        "title": form.escape(shorten(told.title, form, 1_024)),
        "title_link": told.external_url,
        "fallback": form.escape(shorten(told.title, form, 1_024)),
        "text": form.escape(shorten(told.text, form, form.limit)),
        "color": "good" if is_over else "danger",
        **words,
    }
    attached |= {name: _cut(attached[name], 1_024) for name in ("title", "fallback")}
    attached |= {name: _cut(attached[name], _MOST_SLACK) for name in ("text", "pretext") if name in attached}
    attached["mrkdwn_in"] = words.get("mrkdwn_in") or ["fallback", "pretext", "text"]
    if words.get("fields"):
        is_short = words.get("short_fields", False)
        attached["fields"] = [
            {**{name: one.get(name, "") for name in _FIELD}, "short": _is_true(one.get("short", is_short))}
            for one in _mappings(words["fields"])
        ]
    if words.get("actions"):
        attached["actions"] = [_action(one) for one in _mappings(words["actions"])]
    return {"text": words.get("message_text", ""), **top, "attachments": [_some(attached, _ATTACHED)]}


def _action(one: Words) -> dict[str, Any]:
    confirm = one.get("confirm")
    asked = {"confirm": _some(confirm, _CONFIRM)} if isinstance(confirm, dict) else {}
    return {**_some(one, _ACTION), **asked}


def _mappings(values: Any) -> list[dict[str, Any]]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def _is_true(value: Any) -> bool:
    return str(value).lower() not in _FALSE


def _discord(draft: Draft, words: Words, ours: dict[str, Any]) -> dict[str, Any]:
    told, form = draft.notification, draft.form
    who = _some(words, ("username", "avatar_url"))
    if not any(name in words for name in ("title", "message", "content")):
        return {**ours, **who}
    embed = {
        "title": _cut(words.get("title", told.title), 256),
        "description": _cut(words["message"], 4_096)
        if "message" in words
        else form.escape(shorten(told.text, form, form.limit)),
        "color": _GREEN if told.status == "resolved" else _RED,
    }
    # Only `content` calls anybody, and whom it calls its author has written there.
    calls: dict[str, Any] = {} if words.get("content") else {"allowed_mentions": {"parse": []}}
    return {"content": _cut(words.get("content", ""), 2_000), "embeds": [embed], **calls, **who}


def _telegram(_: Draft, words: Words, ours: dict[str, Any]) -> dict[str, Any]:
    quiet = {"disable_notification": True} if words.get("disable_notifications") else {}
    mode = words.get("parse_mode", "HTML")
    text = words.get("message", "").strip()
    is_cut = SERVICES["telegram"].form.measure(text) > SERVICES["telegram"].form.limit
    if not text or (mode and is_cut):  # a cut would split the markup, and nothing would be taken
        return {**ours, **quiet}
    said = {name: value for name, value in ours.items() if name != "parse_mode"}
    return {**said, "text": _cut(text, 4_096), **({"parse_mode": mode} if mode else {}), **quiet}


def _pagerduty(_: Draft, words: Words, ours: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = {**ours["payload"], **_some(words, ("source", "class", "component", "group"))}
    if words.get("description"):
        inner["summary"] = _cut(words["description"], 1_024)
    if words.get("severity") in _SEVERITIES:
        inner["severity"] = words["severity"]
    if isinstance(words.get("details"), dict):
        inner["custom_details"] = {**inner["custom_details"], **words["details"]}
    images = [_some(one, ("src", "alt", "href")) for one in _mappings(words.get("images")) if one.get("src")]
    links = [_some(one, ("href", "text")) for one in _mappings(words.get("links")) if one.get("href")]
    return {
        **ours,
        "payload": inner,
        "links": [*links, *ours["links"]],
        **({"images": images} if images else {}),
        **_some(words, ("client", "client_url")),
    }


def _mattermost(draft: Draft, words: Words, ours: dict[str, Any]) -> dict[str, Any]:
    """Slack's attachments, with an author besides."""
    names = ("username", "icon_url", "icon_emoji", "type", "props", "priority")
    top = {**_some(ours, ["channel"]), **_some(words, ("channel", *names))}
    if "attachments" in words:
        attached = [_some(one, (*_AUTHORED, "fields")) for one in _mappings(words["attachments"])]
        return {**top, "text": _cut(words.get("text", ""), 16_000), "attachments": attached}
    laid = _slack(draft, {name: value for name, value in words.items() if name not in names}, ours)
    for attached in laid.get("attachments", ()):
        attached.update(_some(words, _AUTHORED[len(_ATTACHED) :]))
        attached.pop("mrkdwn_in", None)
    return {**laid, **top}


_AUTHORED = (*_ATTACHED, "author_name", "author_link", "author_icon", "footer_icon")


def _rocketchat(draft: Draft, words: Words, ours: dict[str, Any]) -> dict[str, Any]:
    """Slack's attachments, with buttons of its own; an emoji or a picture stands for the sender."""
    laid = _slack(draft, {name: value for name, value in words.items() if name not in ("icon_url", "emoji")}, ours)
    for attached in laid.get("attachments", ()):
        attached.pop("mrkdwn_in", None)
        attached.pop("fallback", None)
    avatar = {"avatar": words["icon_url"]} if words.get("icon_url") else {}
    return {**laid, **_some(words, ["emoji"]), **avatar}


def _webex(_: Draft, words: Words, ours: dict[str, Any]) -> dict[str, Any]:
    said = shorten(words.get("message", ""), Form(limit=7_000, unit="bytes"), 7_000)
    return {**ours, "markdown": said} if said else ours


_LAID_OUT: Mapping[str, Callable[[Draft, Words, dict[str, Any]], dict[str, Any]]] = {
    "slack": _slack,
    "discord": _discord,
    "telegram": _telegram,
    "pagerduty": _pagerduty,
    "mattermost": _mattermost,
    "rocketchat": _rocketchat,
    "webex": _webex,
}
"""By the name of the service."""
