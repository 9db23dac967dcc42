"""Hand-over to a real Alertmanager, as Prometheus does it: alerts with times, said again while they fire.

`POST /api/v2/alerts`: an alert is held there until its `endsAt`, so one that fires is sent again every minute with an
end that lies four minutes ahead; one that ended is said for fifteen minutes. That it groups, routes and mutes by itself
is the reason to hand over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from collector.channels.post import Poster
from collector.channels.verdict import refusal, tag, veil
from collector.channels.webhook import rfc3339
from collector.model.alert import Alert, Notification
from collector.model.clock import Clock, SystemClock
from collector.model.errors import ChannelError
from collector.model.secret import Secret

RESEND_SECONDS = 60.0
AHEAD_SECONDS = 4 * RESEND_SECONDS
RESOLVED_SECONDS = 900.0
MOST_HELD = 20_000
"""Alerts that are remembered for sending again; past it the first that came leave."""
_BATCH = 500
_PATH = "/api/v2/alerts"


class AlertmanagerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is: `http://host:port[/prefix]`, with or without the path of its API."""

    url: Secret
    name: str
    headers: Mapping[str, Secret] = {}
    timeout_seconds: float = 10.0
    resend_seconds: float = RESEND_SECONDS

    @property
    def description(self) -> str:
        """For people, beside the name."""
        return "an Alertmanager, which groups and routes by itself"

    def open(self) -> AlertmanagerChannel:
        """A channel to this target."""
        return AlertmanagerChannel(self, SystemClock())

    def preview(self, notification: Notification) -> str:
        """The JSON that would be posted."""
        alerts = [_posted(alert, notification.external_url, notification.at) for alert in notification.alerts]
        return msgspec.json.format(msgspec.json.encode(alerts)).decode()


def at_address(url: str) -> AlertmanagerConfig:
    """The Alertmanager at this address. Raises ChannelError for what is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise ChannelError("an Alertmanager is at http://HOST:PORT[/PREFIX]", retryable=False)
    where = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
    path = parts.path.rstrip("/").removesuffix(_PATH) + _PATH
    whole = parts._replace(path=path, fragment="").geturl()
    return AlertmanagerConfig(url=Secret(whole), name=f"alertmanager+{where}#{tag(url)}")


class _Posted(msgspec.Struct, frozen=True, rename="camel"):
    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str
    generator_url: str = msgspec.field(name="generatorURL")


class AlertmanagerChannel:
    """Posts what it is told at once, and says what fires again from a task of its own."""

    spacing_seconds = 0.0

    def __init__(self, config: AlertmanagerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._poster = Poster(config.name, config.timeout_seconds)
        self._held: dict[str, tuple[Alert, str]] = {}
        self._again: asyncio.Task[None] | None = None
        self._one = asyncio.Lock()  # posts one after the other: an end is not overtaken by what was said before it

    @property
    def name(self) -> str:
        """Scheme, host, port and a tag."""
        return self._config.name

    def hold(self, alerts: Iterable[Alert], external_url: str) -> None:
        """Say again what a former process has told and what still fires, at once and from then on."""
        self._hold(alerts, external_url, first=0.0)

    async def send(self, notification: Notification) -> None:
        """Post the alerts of the notification. Raises ChannelError where they were not taken."""
        async with self._one:
            alerts = [(alert, notification.external_url) for alert in notification.alerts]
            try:
                await self._post(alerts, self._clock.now())
            except ChannelError as error:
                if not error.retryable:  # nobody will say these ends any more: there they end by themselves
                    for alert in notification.alerts:
                        if alert.resolved_at is not None:
                            self._held.pop(alert.fingerprint, None)
                raise
            self._hold(notification.alerts, notification.external_url, first=self._config.resend_seconds)

    async def close(self) -> None:
        """Say nothing any more. What fires ends there by itself, when nobody says it again."""
        if self._again is not None:
            self._again.cancel()
            await asyncio.wait([self._again])
            self._again = None
        await self._poster.close()

    async def say_again(self) -> None:
        """Post once more what fires, and what ended of late. Raises ChannelError."""
        now = self._clock.now()
        for fingerprint, (alert, _) in list(self._held.items()):
            if alert.resolved_at is not None and alert.resolved_at + RESOLVED_SECONDS < now:
                del self._held[fingerprint]
        names = list(self._held)
        for start in range(0, len(names), _BATCH):
            async with self._one:  # what is held may be another by now
                held = [self._held[name] for name in names[start : start + _BATCH] if name in self._held]
                if held:
                    await self._post(held, self._clock.now())

    def _hold(self, alerts: Iterable[Alert], external_url: str, *, first: float) -> None:
        for alert in alerts:
            self._held.pop(alert.fingerprint, None)
            self._held[alert.fingerprint] = (msgspec.structs.replace(alert), external_url)
        while len(self._held) > MOST_HELD:
            del self._held[next(iter(self._held))]
        if self._again is None:
            self._again = asyncio.create_task(self._say_again(first), name=f"hold {self.name}")

    async def _say_again(self, first: float) -> None:
        wait = first
        while True:
            await asyncio.sleep(wait)
            wait = self._config.resend_seconds
            try:
                await self.say_again()
            except ChannelError:
                continue  # the next minute tries again; what is new is reported by the delivery

    async def _post(self, alerts: Iterable[tuple[Alert, str]], now: float) -> None:
        config = self._config
        url = config.url.reveal()
        data = msgspec.json.encode([_posted(alert, external, now) for alert, external in alerts])
        headers = {name: value.reveal() for name, value in config.headers.items()}
        answer = await self._poster.post(url, data, headers)
        if not answer.is_2xx:
            said = veil(answer.text, url, self.name, config.headers.values())
            raise refusal(self.name, answer.status, retry_after=answer.wait, detail=said)


def _posted(alert: Alert, external_url: str, now: float) -> _Posted:
    starts = alert.active_at if alert.fired_at is None else alert.fired_at
    # An end that lies ahead is none there yet: so it does by a clock of ours that waits for the machine's.
    ends = now + AHEAD_SECONDS if alert.resolved_at is None else min(alert.resolved_at, now)
    return _Posted(
        labels={name: value for name, value in alert.labels if value},
        annotations=dict(alert.annotations),
        starts_at=rfc3339(min(starts, ends)),
        ends_at=rfc3339(ends),
        generator_url=_address(alert.generator_url) or _address(external_url),
    )


def _address(text: str) -> str:
    """An Alertmanager refuses alerts whose generatorURL is none."""
    return text if text.startswith(("http://", "https://")) else ""
