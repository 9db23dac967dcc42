"""One POST over HTTP: bytes out, the answer in, every failure on the way as a ChannelError that shows no secret."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
import msgspec

from collector.channels.verdict import seconds_to_wait
from collector.model.errors import ChannelError

_MOST_ANSWER = 4_000


class Answer(msgspec.Struct, frozen=True):
    """What a service said: status, the first of its text, and for how many seconds it wants to be left alone."""

    status: int
    text: str = ""
    wait: float | None = None

    @property
    def is_2xx(self) -> bool:
        """Whether HTTP calls it a success."""
        return 200 <= self.status < 300


class Poster:
    """The connections of one channel, opened when they are first used."""

    def __init__(self, name: str, timeout_seconds: float = 10.0, connect_seconds: float = 5.0) -> None:
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._connect_seconds = connect_seconds
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, data: bytes, headers: Mapping[str, str]) -> Answer:
        """POST JSON. Raises ChannelError, retryable, where there is no answer."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._timeout_seconds, connect=self._connect_seconds)
            self._session = aiohttp.ClientSession(timeout=timeout)
        every = {"Content-Type": "application/json", "User-Agent": "tasktrail", **headers}
        try:
            # A redirected POST would become a GET and look like a success, so redirects are refused as they are.
            async with self._session.post(url, data=data, headers=every, allow_redirects=False) as answer:
                text = (await answer.content.read(_MOST_ANSWER)).decode(errors="replace")
                wait = seconds_to_wait(answer.headers.get("Retry-After"), answer.headers.get("Date"))
                return Answer(answer.status, text, wait)
        except TimeoutError:
            error = f"{self._name} gave no answer in {self._timeout_seconds:g} s"
            raise ChannelError(error, retryable=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as failed:
            # The library's text may hold the whole URL; its type says enough. ValueError: no header, no URL.
            raise ChannelError(
                f"{self._name} is not reached: {_cause(failed)}", retryable=not isinstance(failed, ValueError)
            ) from None

    async def close(self) -> None:
        """Give back the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _cause(error: BaseException) -> str:
    """The operating system's word where there is one, else the name of the error."""
    number = getattr(error, "strerror", None)
    return str(number) if number else type(error).__name__
