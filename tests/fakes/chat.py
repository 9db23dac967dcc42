"""Chat, paging and mail services on the loopback, as strict as the real ones: limits, markup, pace, and moods.

Each service has its own path on one HTTP server; mail has a server of its own. What a service took is kept as its
readers would see it: markup read, who was called. Times are the loop's.
"""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
import html.parser
import json
import re
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.answers import ACCEPTED, BAD_MARKUP, MOST_BODY, TOO_LONG, errcode, telegram_error, too_many

MOST_MAIL_LINE = 998
"""Bytes, by RFC 5322."""
Mood = str
"""`429`, `500`, `hang`, `bad markup`, or a status as text."""


@dataclass
class Message:
    """What a service took. `text` is as shown, with the title; `called` names who was called by it."""

    service: str
    text: str
    at: float
    raw: dict[str, Any]
    called: list[str] = field(default_factory=list)
    query: dict[str, str] = field(default_factory=dict)


class Refused(Exception):  # noqa: N818  it is what services do
    """The service's answer to a request that it does not take."""

    def __init__(self, answer: web.Response) -> None:
        super().__init__(answer.status)
        self.answer = answer


def utf16(text: str) -> int:
    """Length as Discord's, Slack's and Telegram's clients count."""
    return len(text.encode("utf-16-le")) // 2


class Chat:
    """All services. `limits`: by service, so many requests in so many seconds. `moods`: answers that come first."""

    def __init__(self) -> None:
        self.taken: list[Message] = []
        self.log: list[tuple[float, str, int]] = []
        """Every request: when, to which service, and the status of the answer."""
        self.moods: dict[str, list[Mood]] = defaultdict(list)
        self.down: set[str] = set()
        self.limits: dict[str, tuple[int, float]] = {}
        self.port = 0
        self.mail_port = 0
        self.released = asyncio.Event()
        self._recent: dict[str, deque[float]] = defaultdict(deque)
        self._runner: web.AppRunner | None = None
        self._mail: asyncio.Server | None = None

    @property
    def base(self) -> str:
        """Where the services are."""
        return f"http://127.0.0.1:{self.port}"

    def of(self, service: str) -> list[Message]:
        """What one service took."""
        return [message for message in self.taken if message.service == service]

    async def start(self) -> None:
        """Listen."""
        app = web.Application(client_max_size=2**20)
        for path, service, read in (
            ("/slack/services/{a}/{b}/{c}", "slack", self._slack),
            ("/slack/api/chat.postMessage", "slack", self._slack),
            ("/discord/api/webhooks/{id}/{token}", "discord", self._discord),
            ("/telegram/bot{token}/sendMessage", "telegram", self._telegram),
            ("/pagerduty/v2/enqueue", "pagerduty", self._pagerduty),
            ("/dingtalk/robot/send", "dingtalk", self._dingtalk),
            ("/feishu/open-apis/bot/v2/hook/{token}", "feishu", self._feishu),
            ("/lark/open-apis/bot/v2/hook/{token}", "lark", self._feishu),
            ("/wecom/cgi-bin/webhook/send", "wecom", self._wecom),
            ("/mattermost/hooks/{key}", "mattermost", self._mattermost),
            ("/rocketchat/api/v1/chat.postMessage", "rocketchat", self._rocketchat),
            ("/webex/v1/messages", "webex", self._webex),
            ("/", "ntfy", self._ntfy),
        ):
            app.router.add_post(path, self._handler(service, read))
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._mail = await asyncio.start_server(self._smtp, "127.0.0.1", 0, limit=2**20)
        self.mail_port = self._mail.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Let hanging requests go, and close."""
        self.released.set()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._mail is not None:
            self._mail.close()

    # one request

    def _handler(
        self, service: str, read: Callable[[dict[str, Any]], Message]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            now = asyncio.get_running_loop().time()
            try:
                self._pace(service, now)
                await self._mood(service, request)
                if "/slack/api/" in request.path and not request.headers.get("Authorization", "").startswith("Bearer "):
                    raise Refused(web.json_response({"ok": False, "error": "not_authed"}))  # noqa: TRY301
                message = read(self._json(service, await request.read()))
                message.at, message.service, message.query = now, service, dict(request.query)
                self.taken.append(message)
                answer = ACCEPTED[service]()
            except Refused as refused:
                answer = refused.answer
            self.log.append((now, service, answer.status))
            return answer

        return handle

    def _pace(self, service: str, now: float) -> None:
        count, seconds = self.limits.get(service, (10**9, 1.0))
        recent = self._recent[service]
        while recent and recent[0] <= now - seconds:
            recent.popleft()
        if len(recent) >= count:
            raise Refused(too_many(service, recent[0] + seconds - now))
        recent.append(now)

    async def _mood(self, service: str, request: web.Request) -> None:
        if service in self.down:
            raise Refused(web.json_response({"error": "down"}, status=503))
        if not self.moods[service]:
            return
        mood = self.moods[service].pop(0)
        if mood == "hang":
            await self.released.wait()
            raise Refused(web.Response(status=500))
        if mood == "429":
            raise Refused(too_many(service, 0.05))
        if mood == "bad markup":
            raise Refused(BAD_MARKUP[service]())
        quoted = f"no such thing: {request.path_qs} {request.headers.get('Authorization', '')} {await request.text()}"
        raise Refused(web.Response(status=int(mood), text=quoted))  # as some do: what they were asked, word by word

    @staticmethod
    def _json(service: str, body: bytes) -> dict[str, Any]:
        try:
            found = json.loads(body.decode())
        except ValueError:
            raise Refused(BAD_MARKUP[service]()) from None
        if service in MOST_BODY and len(body) > MOST_BODY[service]:
            raise Refused(TOO_LONG[service]())
        return found

    # how each reads a message

    def _slack(self, sent: dict[str, Any]) -> Message:
        attached = [part.get(name, "") for part in sent.get("attachments", []) for name in ("pretext", "title", "text")]
        text = "\n".join(part for part in (sent.get("text", ""), *attached) if part)
        if not text:
            raise Refused(web.Response(status=400, text="no_text"))
        if attached:
            if any(len(part) > 8_000 for part in attached):
                raise Refused(web.Response(status=400, text="msg_too_long"))
            return Message("slack", text, 0, sent, re.findall(r"<[!@#]([^>]+)>", text))
        if utf16(text) > 4_000:
            raise Refused(web.Response(status=400, text="msg_too_long"))
        called = re.findall(r"<[!@#]([^>]+)>", text)
        if sent.get("link_names"):
            called += re.findall(r"@(everyone|here|channel)\b", text)
        if re.search(r"&(?!amp;|lt;|gt;)", text) or ("<" in text and not called):
            raise Refused(web.Response(status=400, text="invalid_payload"))
        shown = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return Message("slack", shown, 0, sent, called)

    def _discord(self, sent: dict[str, Any]) -> Message:
        text = sent.get("content", "")
        embeds = sent.get("embeds", [])
        if any(utf16(one["title"]) > 256 or utf16(one["description"]) > 4_096 for one in embeds):
            raise Refused(TOO_LONG["discord"]())
        if not text and not any(one["title"] or one["description"] for one in embeds):
            raise Refused(web.json_response({"code": 50006, "message": "Cannot send an empty message"}, status=400))
        if utf16(text) > 2_000:
            raise Refused(TOO_LONG["discord"]())
        allowed = sent.get("allowed_mentions", {"parse": ["everyone", "roles", "users"]})["parse"]
        called = re.findall(r"@(everyone|here)\b", text) if "everyone" in allowed else []
        if "users" in allowed:
            called += re.findall(r"(?<!\\)<@[!&]?(\d+)>", text)
        text = "\n".join([text, *(f"{one['title']}\n{one['description']}" for one in embeds)]) if embeds else text
        return Message("discord", re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text), 0, sent, called)

    def _telegram(self, sent: dict[str, Any]) -> Message:
        text = sent.get("text", "")
        if sent.get("parse_mode") == "HTML":
            reader = TelegramHtml()
            reader.feed(text)
            reader.close()
            if reader.open or reader.wrong:
                raise Refused(BAD_MARKUP["telegram"]())
            text = "".join(reader.texts)
        if not text.strip():
            raise Refused(telegram_error(400, "Bad Request: message text is empty"))
        if utf16(text) > 4_096:
            raise Refused(TOO_LONG["telegram"]())
        return Message("telegram", text, 0, sent, re.findall(r"@(all|everyone|here)\b", text))

    def _pagerduty(self, sent: dict[str, Any]) -> Message:
        action, payload = sent.get("event_action"), sent.get("payload") or {}
        wrong = []
        if action not in {"trigger", "acknowledge", "resolve"}:
            wrong.append("event_action")
        if not sent.get("dedup_key") or len(sent["dedup_key"]) > 255:
            wrong.append("dedup_key")
        if action == "trigger":
            wrong += [name for name in ("summary", "source", "severity") if not payload.get(name)]
            if len(payload.get("summary", "")) > 1_024:
                wrong.append("summary")
            if payload.get("severity") not in {"critical", "error", "warning", "info"}:
                wrong.append("severity")
        if wrong:
            raise Refused(web.json_response({"status": "invalid event", "errors": wrong}, status=400))
        return Message("pagerduty", payload.get("summary", ""), 0, sent)

    def _ntfy(self, sent: dict[str, Any]) -> Message:
        if not sent.get("topic"):
            raise Refused(web.json_response({"code": 40009, "http": 400, "error": "topic invalid"}, status=400))
        if len(sent.get("message", "").encode()) > 4_096 or len(sent.get("title", "").encode()) > 1_024:
            raise Refused(TOO_LONG["ntfy"]())
        return Message("ntfy", f"{sent.get('title', '')}\n{sent['message']}", 0, sent)

    def _dingtalk(self, sent: dict[str, Any]) -> Message:
        text = sent["markdown"]["text"] if sent.get("msgtype") == "markdown" else sent["text"]["content"]
        if not text.strip():
            raise Refused(errcode(400, 43004, "empty content"))
        at = sent.get("at", {})
        called = ["all"] if at.get("isAtAll") else list(at.get("atMobiles", []))
        return Message("dingtalk", text, 0, sent, called + re.findall(r"@(all|所有人)", text))

    def _feishu(self, sent: dict[str, Any]) -> Message:
        if sent.get("msg_type") == "text":
            text = sent["content"]["text"]
            return Message("feishu", text, 0, sent, re.findall(r"<at [^>]*>", text))
        post = sent["content"]["post"]["zh_cn"]
        parts = [part for line in post["content"] for part in line]
        called = [part.get("user_id", "") for part in parts if part["tag"] == "at"]
        text = "".join(part.get("text", "") for part in parts)
        return Message("feishu", f"{post['title']}\n{text}", 0, sent, called)

    def _wecom(self, sent: dict[str, Any]) -> Message:
        text = sent["text"]["content"]
        if not text.strip():
            raise Refused(errcode(200, 44004, "empty content"))
        if len(text.encode()) > 2_048:
            raise Refused(TOO_LONG["wecom"]())
        called = [*sent["text"].get("mentioned_list", []), *re.findall(r"<@([^>]+)>", text)]
        return Message("wecom", text, 0, sent, called)

    def _mattermost(self, sent: dict[str, Any]) -> Message:
        return self._marked("mattermost", sent, 16_383)

    def _rocketchat(self, sent: dict[str, Any]) -> Message:
        return self._marked("rocketchat", sent, 5_000)

    @staticmethod
    def _marked(service: str, sent: dict[str, Any], most: int) -> Message:
        attached = [part.get(name, "") for part in sent.get("attachments", []) for name in ("pretext", "title", "text")]
        text = "\n".join(part for part in (sent.get("text", ""), *attached) if part)
        if not text.strip() or utf16(sent.get("text", "")) > most:
            raise Refused(BAD_MARKUP[service]())
        called = re.findall(r"(?<![\w@])@(all|channel|here|everyone)\b", text)
        return Message(service, re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text), 0, sent, called)

    def _webex(self, sent: dict[str, Any]) -> Message:
        text = sent.get("markdown", "")
        if not text.strip() or len(text.encode()) > 7_439 or not sent.get("roomId"):
            raise Refused(BAD_MARKUP["webex"]())
        called = re.findall(r"(?<!\\)<@(\w+)", text)
        shown = re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text.replace("  \n", "\n"))
        return Message("webex", shown, 0, sent, called)

    async def _smtp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """As much of SMTP as a client without TLS needs."""

        async def say(line: str) -> None:
            writer.write(f"{line}\r\n".encode())
            await writer.drain()

        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if "mail" in self.down:
                await say("421 go away")
                return
            await say("220 fake ESMTP")
            while line := (await reader.readline()).decode(errors="replace").strip():
                word = line.split()[0].upper()
                if word == "EHLO":
                    await say("250-fake\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN")
                elif word == "AUTH":
                    refused = bool(self.moods["mail"]) and bool(self.moods["mail"].pop(0))
                    await say("535 5.7.8 no such user" if refused else "235 ok")
                elif word == "DATA":
                    await say("354 go on")
                    data = await reader.readuntil(b"\r\n.\r\n")
                    if max(map(len, data.split(b"\r\n"))) > MOST_MAIL_LINE:
                        await say("550 5.6.0 line too long")
                        continue
                    self._keep_mail(data[:-5])
                    await say("250 taken")
                elif word == "QUIT":
                    await say("221 bye")
                    return
                else:
                    await say("250 ok")

    def _keep_mail(self, data: bytes) -> None:
        mail = email.message_from_bytes(data, policy=email.policy.default)
        part = mail.get_body(("plain", "html"))
        text = "" if part is None else part.get_content()
        now = asyncio.get_running_loop().time()
        raw = {"headers": {name: str(value) for name, value in mail.items()}}
        self.taken.append(Message("mail", f"{mail['subject']}\n{text}", now, raw))
        self.log.append((now, "mail", 250))


class TelegramHtml(html.parser.HTMLParser):
    """Telegram's HTML: a few tags, properly nested, and four named entities."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.open: list[str] = []
        self.wrong = False
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        """One of its tags, or an error."""
        self.wrong |= tag not in {"b", "i", "u", "s", "code", "pre", "a"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """The last that was opened."""
        self.wrong |= not self.open or self.open.pop() != tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.wrong |= "<" in data or "&" in data
        self.texts.append(data)

    def handle_entityref(self, name: str) -> None:
        """`&lt;` and its three brothers."""
        found = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}.get(name)
        self.wrong |= found is None
        self.texts.append(found or "")

    def unknown_decl(self, data: str) -> None:  # noqa: ARG002
        """Nothing of the kind."""
        self.wrong = True

    def handle_decl(self, decl: str) -> None:  # noqa: ARG002
        """Nothing of the kind."""
        self.wrong = True

    def handle_comment(self, data: str) -> None:  # noqa: ARG002
        """Nothing of the kind."""
        self.wrong = True
