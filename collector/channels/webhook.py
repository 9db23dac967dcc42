"""Alertmanager's webhook: its JSON, version 4, field for field, with our evidence under one more key of each alert."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

import msgspec

from collector.channels.post import Poster
from collector.channels.verdict import refusal, tag, veil
from collector.model.alert import Alert, Evidence, Notification
from collector.model.errors import ChannelError
from collector.model.secret import Secret

NO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time: what Alertmanager writes where an alert has not ended."""


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where to post. `max_alerts` bounds one body, 0 being no bound; the rest are counted in `truncatedAlerts`."""

    url: Secret
    name: str
    timeout_seconds: float = 10.0
    connect_seconds: float = 5.0
    max_alerts: int = 1_000
    spacing_seconds: float = 0.0
    headers: Mapping[str, Secret] = {}
    """Sent besides our own, which they may replace: what the receiving side asks for."""

    @property
    def description(self) -> str:
        """For people, beside the name: what will be sent."""
        return "Alertmanager's webhook JSON"

    def open(self) -> WebhookChannel:
        """A channel to this target."""
        return WebhookChannel(self)

    def preview(self, notification: Notification) -> str:
        """The JSON that would be posted, indented."""
        return msgspec.json.format(body(notification, self.max_alerts)).decode()


def from_url(url: str) -> WebhookConfig:
    """`webhook+https://[user:password@]host[:port]/path?query`. Raises ChannelError for what is none."""
    plain = url.partition("+")[2]
    try:
        parts = urlsplit(plain)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host:
        raise ChannelError("a webhook needs a host: webhook+https://HOST[:PORT]/PATH", retryable=False)
    where = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
    return WebhookConfig(url=Secret(plain), name=f"webhook+{where}#{tag(url)}")


class WebhookChannel:
    """Posts each notification once. The dedup key goes in the header `Idempotency-Key`."""

    def __init__(self, config: WebhookConfig) -> None:
        self._config = config
        self._poster = Poster(config.name, config.timeout_seconds, config.connect_seconds)

    @property
    def name(self) -> str:
        """Scheme, host, port and a tag."""
        return self._config.name

    @property
    def spacing_seconds(self) -> float:
        """As configured."""
        return self._config.spacing_seconds

    async def send(self, notification: Notification) -> None:
        """POST; 2xx is confirmed. Raises ChannelError for every other answer, and for none."""
        config = self._config
        url = config.url.reveal()
        headers = {name: value.reveal() for name, value in config.headers.items()}
        data = body(notification, config.max_alerts)
        answer = await self._poster.post(url, data, {"Idempotency-Key": notification.key, **headers})
        if not answer.is_2xx:
            said = veil(answer.text, url, self.name, config.headers.values())
            raise refusal(self.name, answer.status, retry_after=answer.wait, detail=said)

    async def close(self) -> None:
        """Give back the connections."""
        await self._poster.close()


class _Alert(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str
    generator_url: str = msgspec.field(name="generatorURL")
    fingerprint: str
    evidence: Evidence | None


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    receiver: str
    status: str
    alerts: list[_Alert]
    group_labels: dict[str, str]
    common_labels: dict[str, str]
    common_annotations: dict[str, str]
    external_url: str = msgspec.field(name="externalURL")
    version: str
    group_key: str
    truncated_alerts: int


_encoder = msgspec.json.Encoder()


def body(notification: Notification, max_alerts: int = 0) -> bytes:
    """The JSON of a notification, or the payload that its target's author wrote; of at most so many alerts, 0: all."""
    if notification.words is not None and "payload" in notification.words:
        return _encoder.encode(notification.words["payload"])
    alerts = notification.alerts[:max_alerts] if max_alerts else notification.alerts
    return _encoder.encode(
        _Body(
            receiver=notification.receiver,
            status=notification.status,
            alerts=[_alert(alert, notification.external_url) for alert in alerts],
            group_labels=dict(notification.group_labels),
            common_labels=dict(notification.common_labels),
            common_annotations=dict(notification.common_annotations),
            external_url=notification.external_url,
            version="4",
            group_key=notification.group_key,
            truncated_alerts=len(notification.alerts) - len(alerts),
        )
    )


def _alert(alert: Alert, external_url: str) -> _Alert:
    return _Alert(
        status=alert.state,
        labels=dict(alert.labels),
        annotations=dict(alert.annotations),
        starts_at=rfc3339(alert.active_at if alert.fired_at is None else alert.fired_at),
        ends_at=NO_TIME if alert.resolved_at is None else rfc3339(alert.resolved_at),
        generator_url=alert.generator_url or external_url,
        fingerprint=alert.fingerprint,
        evidence=alert.evidence,
    )


def rfc3339(at: float) -> str:
    """Unix seconds as Go writes them, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
