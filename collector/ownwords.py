"""Titles and bodies that a receiver's author wrote: Go templates with Alertmanager's data, around any channel.

Compiled when the routes are read; expanded at every send. Where one fails our own text stands in its place, and says
so: a message that is not worded as wished is better than none.
"""

from __future__ import annotations

import msgspec

from collector.alerting.functions import FUNCTIONS, Scene
from collector.channels import ChannelConfig
from collector.gotext import Moment, Pairs, Slice, Structure, Template, TemplateError
from collector.gotext.times import ZERO
from collector.model.alert import Alert, Channel, Notification
from collector.model.errors import ChannelError


class Words(msgspec.Struct, frozen=True):
    """The templates of one target; None: our own text."""

    title: Template | None
    body: Template | None

    def said(self, notification: Notification) -> Notification:
        """The notification in these words."""
        title, problem = _expand("title", self.title, notification, notification.title)
        text, other = _expand("body", self.body, notification, notification.text)
        text = "\n".join(part for part in (text, problem, other) if part)
        return msgspec.structs.replace(notification, title=title, text=text)


def compiled(title: str | None, body: str | None) -> Words | None:
    """The templates of a target; None where it has none. Raises ChannelError with the place inside of the template."""
    if title is None and body is None:
        return None
    return Words(_compile("title", title), _compile("body", body))


class Worded(msgspec.Struct, frozen=True, kw_only=True):
    """A target that is told in its own words."""

    inner: ChannelConfig
    words: Words
    name: str
    source: tuple[str | None, str | None]
    """The texts of the templates: two targets are the same only where these are."""

    @property
    def description(self) -> str:
        """The target's own."""
        return f"{self.inner.description}, in words of the routes file"

    def open(self) -> Channel:
        """A channel to the target."""
        return WordedChannel(self.inner.open(), self.words, self.name)

    def preview(self, notification: Notification) -> str:
        """What would be sent."""
        return self.inner.preview(self.words.said(notification))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Worded) and (self.inner, self.source) == (other.inner, other.source)

    def __hash__(self) -> int:
        return hash((self.name, self.source))


class WordedChannel:
    """Words every notification anew, and hands it on."""

    def __init__(self, inner: Channel, words: Words, name: str) -> None:
        self._inner = inner
        self._words = words
        self.name = name

    @property
    def spacing_seconds(self) -> float:
        """The target's own."""
        return self._inner.spacing_seconds

    async def send(self, notification: Notification) -> None:
        """As the target does."""
        await self._inner.send(self._words.said(notification))

    async def close(self) -> None:
        """As the target does."""
        await self._inner.close()


def _compile(what: str, text: str | None) -> Template | None:
    try:
        return None if text is None else Template(text, FUNCTIONS)
    except TemplateError as error:
        raise ChannelError(f"`{what}` is no template: {error}", retryable=False) from None


def _expand(what: str, template: Template | None, notification: Notification, ours: str) -> tuple[str, str]:
    """The text, and what is to be said of it where it failed."""
    if template is None:
        return ours, ""
    scene = Scene(at=notification.at, external_url=notification.external_url)
    try:
        return template.execute(_data(notification), {}, scene), ""
    except TemplateError as error:
        return ours, f"(the template of `{what}` failed: {error})"


def _data(notification: Notification) -> Structure:
    """Alertmanager's `template.Data`, and our own texts as `Title` and `Text`."""
    alerts = Slice(_alert(alert, notification.external_url) for alert in notification.alerts)
    alerts.fields = {
        name: Slice(one for one in alerts if one.fields["Status"] == state)
        for name, state in (("Firing", "firing"), ("Resolved", "resolved"))
    }
    return Structure(
        "template.Data",
        {
            "Receiver": notification.receiver,
            "Status": notification.status,
            "Alerts": alerts,
            "GroupLabels": Pairs(notification.group_labels),
            "CommonLabels": Pairs(notification.common_labels),
            "CommonAnnotations": Pairs(notification.common_annotations),
            "ExternalURL": notification.external_url,
            "Title": notification.title,
            "Text": notification.text,
        },
    )


def _alert(alert: Alert, external_url: str) -> Structure:
    starts = alert.active_at if alert.fired_at is None else alert.fired_at
    return Structure(
        "template.Alert",
        {
            "Status": alert.state,
            "Labels": Pairs(alert.labels),
            "Annotations": Pairs(alert.annotations),
            "StartsAt": _time(starts),
            "EndsAt": Moment(ZERO) if alert.resolved_at is None else _time(alert.resolved_at),
            "GeneratorURL": alert.generator_url or external_url,
            "Fingerprint": alert.fingerprint,
        },
    )


def _time(at: float) -> Moment:
    return Moment(round(at * 1e6) * 1000)
