"""What each service answers: taken, not so fast, bad markup, too long; in the words of the real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web


def telegram_error(status: int, said: str, **more: Any) -> web.Response:
    """Telegram's form of a refusal."""
    return web.json_response({"ok": False, "error_code": status, "description": said, **more}, status=status)


def errcode(status: int, code: int, said: str) -> web.Response:
    """The form that DingTalk and WeCom share: HTTP says yes, the code says no."""
    return web.json_response({"errcode": code, "errmsg": said}, status=status if status != 400 else 200)


def feishu_code(code: int, said: str) -> web.Response:
    """Feishu's form."""
    return web.json_response({"code": code, "msg": said, "data": {}})


def too_many(service: str, wait: float) -> web.Response:
    """Not so fast, in each one's words."""
    if service == "discord":
        headers = {"Retry-After": f"{wait:.3f}"}
        return web.json_response({"message": "rate limited", "retry_after": wait}, status=429, headers=headers)
    if service == "telegram":
        return telegram_error(429, "Too Many Requests", parameters={"retry_after": wait})
    if service == "dingtalk":
        return errcode(200, 130101, "send too fast, exceed 20 times per minute")
    if service == "wecom":
        return errcode(200, 45009, "api freq out of limit")
    if service in {"feishu", "lark"}:
        return feishu_code(11232, "frequency limit")
    return web.Response(status=429, headers={"Retry-After": f"{wait:.3f}"}, text="rate_limited")


DISCORD_BAD = {"code": 50035, "message": "Invalid Form Body", "errors": {"content": {"_errors": []}}}
BAD_MARKUP: dict[str, Callable[[], web.Response]] = {
    "slack": lambda: web.Response(status=400, text="invalid_payload"),
    "discord": lambda: web.json_response(DISCORD_BAD, status=400),
    "telegram": lambda: telegram_error(400, "Bad Request: can't parse entities: Unsupported start tag"),
    "pagerduty": lambda: web.json_response({"status": "invalid event", "errors": ["payload"]}, status=400),
    "mattermost": lambda: web.json_response({"id": "web.incoming_webhook.invalid.app_error"}, status=400),
    "rocketchat": lambda: web.json_response({"success": False, "error": "error-message-size-exceeded"}),
    "webex": lambda: web.json_response({"message": "Unable to post the message"}, status=400),
    "ntfy": lambda: web.json_response({"code": 40024, "http": 400, "error": "invalid request"}, status=400),
    "dingtalk": lambda: errcode(200, 400105, "unsupported msgtype"),
    "feishu": lambda: feishu_code(9499, "Bad Request"),
    "lark": lambda: feishu_code(9499, "Bad Request"),
    "wecom": lambda: errcode(200, 40058, "invalid Request Parameter"),
}
TOO_LONG: dict[str, Callable[[], web.Response]] = {
    "discord": BAD_MARKUP["discord"],
    "telegram": lambda: telegram_error(400, "Bad Request: message is too long"),
    "ntfy": lambda: web.json_response({"code": 41301, "http": 413, "error": "message too large"}, status=413),
    "dingtalk": lambda: errcode(200, 460101, "message too long, exceed 20000 bytes"),
    "feishu": lambda: feishu_code(9499, "Bad Request: body is over 20 KB"),
    "lark": lambda: feishu_code(9499, "Bad Request: body is over 20 KB"),
    "wecom": lambda: errcode(200, 45002, "content size out of limit"),
    "pagerduty": lambda: web.Response(status=413, text="too large"),
}
MOST_BODY = {"dingtalk": 20_000, "feishu": 20_480, "lark": 20_480, "pagerduty": 524_288}
ACCEPTED: dict[str, Callable[[], web.Response]] = {
    "slack": lambda: web.Response(text="ok"),
    "discord": lambda: web.json_response({"id": "1"}),
    "telegram": lambda: web.json_response({"ok": True, "result": {"message_id": 1}}),
    "pagerduty": lambda: web.json_response({"status": "success", "message": "Event processed"}, status=202),
    "mattermost": lambda: web.Response(text="ok"),
    "rocketchat": lambda: web.json_response({"success": True}),
    "webex": lambda: web.json_response({"id": "1"}),
    "ntfy": lambda: web.json_response({"id": "x", "event": "message"}),
    "dingtalk": lambda: errcode(200, 0, "ok"),
    "feishu": lambda: feishu_code(0, "success"),
    "lark": lambda: feishu_code(0, "success"),
    "wecom": lambda: errcode(200, 0, "ok"),
}
