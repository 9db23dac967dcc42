"""A chat or paging service in its own words: one request a notification, and what its answer means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from collector.channels import worded
from collector.channels.pace import Pace, Pacer
from collector.channels.post import Answer, Poster
from collector.channels.services import SERVICES, Draft, signed
from collector.channels.verdict import refusal, veil
from collector.model.alert import Notification
from collector.model.clock import SystemClock
from collector.model.errors import ChannelError
from collector.model.secret import Secret

_BAD_STATUS = frozenset((400, 413, 422))


class ChatConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One target. `service`: a name of `SERVICES`; `url`: where requests go, often a secret as a whole."""

    service: str
    url: Secret
    name: str
    options: Mapping[str, Secret] = {}
    """What the service's payload needs: chat, channel, topic, key."""
    headers: Mapping[str, Secret] = {}
    sign_secret: Secret | None = None
    pace: Pace | None = None
    """In place of the service's own."""
    timeout_seconds: float = 10.0

    @property
    def description(self) -> str:
        """For people, beside the name: the service."""
        return SERVICES[self.service].title

    def open(self) -> ChatChannel:
        """A channel to this target."""
        return ChatChannel(self)

    def preview(self, notification: Notification) -> str:
        """The JSON that would be posted, indented; secrets as stars."""
        shown = {name: str(value) if name == "key" else value.reveal() for name, value in self.options.items()}
        return json.dumps(_payload(self, notification, shown), ensure_ascii=False, indent=2)


class ChatChannel:
    """Writes to one target, in bursts that the service takes."""

    def __init__(self, config: ChatConfig) -> None:
        self._config = config
        self._clock = SystemClock()
        self._poster = Poster(config.name, config.timeout_seconds)
        self._pacer = Pacer(config.pace or SERVICES[config.service].pace, self._clock)

    @property
    def name(self) -> str:
        """The service, host where it is no secret, and a tag."""
        return self._config.name

    @property
    def spacing_seconds(self) -> float:
        """By what was sent of late."""
        return self._pacer.spacing()

    async def send(self, notification: Notification) -> None:
        """Post it; where the service complains of the content, once more as plain text. Raises ChannelError."""
        answer = await self._post(notification)
        if self._is_bad_content(answer):
            answer = await self._post(notification, is_plain=True)
        self._judge(answer)

    async def close(self) -> None:
        """Give back the connections."""
        await self._poster.close()

    async def _post(self, notification: Notification, *, is_plain: bool = False) -> Answer:
        config = self._config
        options = {name: value.reveal() for name, value in config.options.items()}
        payload = _payload(config, notification, options, is_plain=is_plain)
        url = config.url.reveal()
        if config.sign_secret is not None:
            url, fields = signed(url, config.service, config.sign_secret.reveal(), self._clock.now())
            payload |= fields
        self._pacer.started()
        headers = {name: value.reveal() for name, value in config.headers.items()}
        return await self._poster.post(url, msgspec.json.encode(payload), headers)

    def _is_bad_content(self, answer: Answer) -> bool:
        service = SERVICES[self._config.service]
        if answer.is_2xx:
            return service.code(_fields(answer)) in service.bad
        said = answer.text.lower()
        return answer.status in _BAD_STATUS and any(word in said for word in service.bad_words)

    def _judge(self, answer: Answer) -> None:
        """Raises ChannelError for whatever is not a yes."""
        service = SERVICES[self._config.service]
        fields = _fields(answer)
        said = self._veiled(answer.text)
        if not answer.is_2xx:
            wait = answer.wait if answer.wait is not None else _asked_wait(fields)
            raise refusal(self.name, answer.status, retry_after=wait, detail=said)
        code = service.code(fields)
        if code:
            is_final = code in service.final or code in service.bad
            wait = service.busy.get(code, answer.wait) if answer.wait is None else answer.wait
            raise ChannelError(f"{self.name} refused it: {said[:160]}", retryable=not is_final, retry_after=wait)

    def _veiled(self, said: str) -> str:
        config = self._config
        secrets = [*config.options.values(), *config.headers.values()]
        if config.sign_secret is not None:
            secrets.append(config.sign_secret)
        return veil(" ".join(said.split()), config.url.reveal(), self.name, secrets)


def _payload(
    config: ChatConfig, notification: Notification, options: Mapping[str, str], *, is_plain: bool = False
) -> dict[str, Any]:
    service = SERVICES[config.service]
    form = service.form.plain() if is_plain else service.form
    draft = Draft(notification=notification, form=form, options=options, is_plain=is_plain)
    return worded.payload(config.service, draft)


def _fields(answer: Answer) -> dict[str, Any]:
    """The answer as a JSON object; empty where it is none."""
    try:
        found = msgspec.json.decode(answer.text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _asked_wait(fields: Mapping[str, Any]) -> float | None:
    """Seconds to wait as Discord and Telegram write them in their answers."""
    nested = fields.get("parameters")
    asked = fields.get("retry_after", nested.get("retry_after") if isinstance(nested, dict) else None)
    return min(max(float(asked), 0.0), 600.0) if isinstance(asked, int | float) else None
