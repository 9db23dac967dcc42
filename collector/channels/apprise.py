"""Every service that apprise knows, one target at a time, off the loop.

What apprise keeps for itself is taken from it: its throttle sleeps in the thread (delivery spaces the sends), its
retries (delivery retries), its pools (a hanging call must not hold up the end of the process), and its log, which
shows whole URLs. It answers only yes or no; what the service said is overheard from the requests that it makes.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
import importlib
import logging
import warnings
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any

import msgspec

from collector.channels import texts, thread
from collector.channels.chat import ChatConfig
from collector.channels.chat_urls import from_plugin, most
from collector.channels.texts import Form
from collector.channels.verdict import refusal, seconds_to_wait, tag, veil
from collector.model.alert import Notification
from collector.model.errors import ChannelError
from collector.model.secret import Secret

MOST_SPACING = 1.0
"""Apprise spaces most services by 5.5 s, more than they ask for; past this a 429 says when to come again."""
_BAD_STATUS = frozenset((400, 413, 422))
"""Answers that may speak of the content: it is said once more, without anything that could be markup."""
_TYPES = {"firing": "failure", "resolved": "success"}


class AppriseConfig(msgspec.Struct, frozen=True, kw_only=True):
    """An apprise URL that was understood. `service`: what apprise calls it."""

    url: Secret
    name: str
    service: str
    spacing_seconds: float
    limit: int
    """Characters of title and text together."""
    title_limit: int
    """0 where the title is a part of the text."""

    @property
    def description(self) -> str:
        """For people, beside the name: the service."""
        return f"{self.service} by apprise"

    def open(self) -> AppriseChannel:
        """A channel to this target."""
        return AppriseChannel(self)

    @property
    def form(self) -> Form:
        """What the service takes, as far as apprise knows it."""
        escape = texts.as_it_is if self.service == "E-Mail" else texts.unmentioned
        return Form(limit=self.limit, unit="bytes", title_limit=self.title_limit, escape=escape)

    def preview(self, notification: Notification) -> str:
        """Title and text that would be handed to apprise."""
        title, text = texts.fit(notification.title, notification.text, self.form)
        return f"{title}\n{(notification.words or {}).get('html') or text}"


def from_url(url: str) -> AppriseConfig | ChatConfig:
    """Any apprise URL; to where we write ourselves, a target of our own kind.

    Raises ChannelError, with what to write instead, for one that apprise does not understand.
    """
    plugin = _plugin(url)
    scheme = url.partition("://")[0].lower()
    # In many services' URLs the host is the token; only what a service declares as its host may be shown.
    is_host = "host" in plugin.template_tokens and not plugin.template_tokens["host"].get("private")
    host = f"{plugin.host}{f':{plugin.port}' if plugin.port else ''}" if is_host and plugin.host else ""
    name = f"{scheme}://{host}#{tag(url)}"
    return from_plugin(plugin, url, name) or AppriseConfig(
        url=Secret(url),
        name=name,
        service=str(plugin.service_name),
        spacing_seconds=min(float(type(plugin).request_rate_per_sec), MOST_SPACING),
        limit=most(plugin) or max(plugin.body_maxlen - len("\r\n"), 100),
        title_limit=max(plugin.title_maxlen, 0),
    )


class _Heard(msgspec.Struct):
    """What was overheard of one try: status, Retry-After and Date of each answer; apprise's last complaint."""

    answers: list[tuple[int, str | None, str | None]] = msgspec.field(default_factory=list)
    complaint: str = ""
    is_taken: bool = False


class AppriseChannel:
    """One service. At most one thread at a time: a try that hangs is waited for, never doubled."""

    def __init__(self, config: AppriseConfig) -> None:
        self._config = config
        self._server: Any = None
        self._under_way: tuple[str, Future[_Heard]] | None = None

    @property
    def name(self) -> str:
        """Scheme, host where there is one, and a tag."""
        return self._config.name

    @property
    def spacing_seconds(self) -> float:
        """What apprise thinks the service wants, within reason."""
        return self._config.spacing_seconds

    async def send(self, notification: Notification) -> None:
        """Hand to apprise and wait for its answer. Raises ChannelError when it is no."""
        heard = None
        if self._under_way is not None:  # the caller's patience ended before the last try did
            key, future = self._under_way
            last = await asyncio.wrap_future(future)
            heard = last if key == notification.key else None
        if heard is None:
            future = thread.start(f"channel {self.name}", functools.partial(self._notify, notification))
            self._under_way = notification.key, future
            heard = await asyncio.wrap_future(future)
        self._under_way = None
        if not heard.is_taken:
            raise self._error(heard)

    async def close(self) -> None:
        """Nothing to give back: apprise opens a connection for each send."""

    def _notify(self, notification: Notification) -> _Heard:
        """One try, in its thread."""
        if self._server is None:
            self._server = _server(self._config.url.reveal())
        form = self._config.form
        heard = self._try(notification, form)
        if not heard.is_taken and any(answer[0] in _BAD_STATUS for answer in heard.answers[-1:]):
            heard = self._try(notification, form.plain(), is_plain=True)
        return heard

    def _try(self, notification: Notification, form: Form, *, is_plain: bool = False) -> _Heard:
        heard = _Heard()
        _listening.set(heard)
        title, text = texts.fit(notification.title, notification.text, form)
        page = None if is_plain else (notification.words or {}).get("html")
        heard.is_taken = bool(
            self._server.notify(
                title=title,
                body=page or text,
                notify_type=_TYPES[notification.status],
                body_format="html" if page else "text",
            )
        )
        return heard

    def _error(self, heard: _Heard) -> ChannelError:
        detail = veil(heard.complaint, self._config.url.reveal(), self.name)
        refused = [answer for answer in heard.answers if not 200 <= answer[0] < 300]
        if refused:
            status, retry_after, date = refused[-1]
            return refusal(self.name, status, retry_after=seconds_to_wait(retry_after, date), detail=detail)
        return ChannelError(f"{self.name} did not take it: {detail or 'apprise does not say why'}", retryable=True)


_listening: ContextVar[_Heard | None] = ContextVar("_listening", default=None)


def _overhear(record: logging.LogRecord) -> bool:
    """Keep apprise's complaint for the try in whose thread it is made, and let no output have it: it may show URLs."""
    heard = _listening.get()
    if heard is not None:
        heard.complaint = record.getMessage()
    return False


@functools.cache
def _library() -> Any:
    """Apprise, imported when it is first used, and made quiet."""
    log = logging.getLogger("apprise")
    log.setLevel(logging.WARNING)
    log.addFilter(_overhear)
    logging.getLogger("urllib3").setLevel(logging.WARNING)  # at DEBUG it writes the paths of chat webhooks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of its 150 services import what Python is about to drop
        library: Any = importlib.import_module("apprise")  # here, since it takes a third of a second
        library.manager_plugins.NotificationManager().load_modules()
        import requests  # noqa: PLC0415  apprise's own client

    send = requests.Session.send

    @functools.wraps(send)
    def overheard(session: Any, request: Any, **options: Any) -> Any:
        answer = send(session, request, **options)
        heard = _listening.get()
        if heard is not None:
            heard.answers.append((answer.status_code, answer.headers.get("Retry-After"), answer.headers.get("Date")))
        return answer

    # Apprise gives no way to learn a status or a Retry-After, and nearly all of its services go through here. Outside
    # of a try of ours nothing is changed.
    requests.Session.send = overheard  # type: ignore[assignment, method-assign]
    return library


def _plugin(url: str) -> Any:
    """Apprise's object for the URL, with its own pace, retries and length refusals switched off."""
    apprise = _library()
    asset = apprise.AppriseAsset(app_id="Tasktrail", app_desc="Tasktrail", async_mode=False)
    asset._service_timeout = 0.0  # noqa: SLF001  else it runs the call in a pool that the process's end waits for
    plugin = apprise.Apprise.instantiate(url, asset=asset)
    if plugin is None:
        raise ChannelError(_hint(url), retryable=False)
    return plugin


def _server(url: str) -> Any:
    plugin = _plugin(url)
    plugin.request_rate_per_sec = 0
    plugin.retry = 0
    if "overflow=" not in url:
        plugin.overflow_mode = "truncate"  # a text too long for the service is cut, not refused
    server = _library().Apprise()
    server.add(plugin)
    return server


def _hint(url: str) -> str:
    """What is wrong with a URL that apprise does not understand, without showing more of it than its scheme."""
    manager = _library().manager_plugins.NotificationManager()
    scheme, mark, _ = url.partition("://")
    scheme = scheme.lower()
    if not mark or not scheme.isascii():
        return "a target is a URL, as in webhook+https://HOST/PATH, log: or any that apprise knows (slack://...)"
    known = sorted(manager.schemas())
    if scheme in known:
        plugin = manager[scheme]
        form = next(iter(plugin.templates), "").replace("{schema}", scheme)
        return f"apprise knows {scheme}:// but cannot read the rest of this URL; its form is {form}"
    if scheme in ("http", "https"):
        return f"apprise knows no service at this address; write webhook+{scheme}:// for Alertmanager's JSON"
    near = difflib.get_close_matches(scheme, known, 1)
    return f"apprise knows no service {scheme}://" + (f"; did you mean {near[0]}://" if near else "")
