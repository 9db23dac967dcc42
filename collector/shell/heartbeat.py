"""Proof of life: a URL of somebody else's, asked for as long as an alert would be made and delivered.

Whoever listens there (a dead man's switch) calls people when it stays silent: for what we cannot say ourselves. So it
stops with our loop, our rules, our delivery; a source that is down does not stop it once that was delivered, as
somebody knows then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import aiohttp
import msgspec

from collector.model.secret import Secret
from collector.shell.telemetry import Telemetry

TIMEOUT = 10.0
LATE = 3
"""Intervals of a rule group after which its rules do not make progress, besides LATE_SECONDS."""
LATE_SECONDS = 30.0


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at."""

    trouble: str = ""
    """What is wrong with the loop."""
    blind: frozenset[str] = frozenset()
    """Sources that are down."""
    told: frozenset[str] = frozenset()
    """Sources of which a target has confirmed to have heard that they are."""
    late: tuple[str, ...] = ()
    """Rule groups that were not evaluated in time."""
    stuck: frozenset[str] = frozenset()
    """All targets, where nobody is reached by any of them; of one that is broken the others are told."""


def why_silent(signs: Signs) -> str:
    """Why the heart must not be heard; "" where all makes progress."""
    if signs.trouble:
        return signs.trouble
    if signs.late:
        return f"rules are not evaluated: {', '.join(signs.late)}"
    if signs.stuck:
        return f"nothing is delivered to {', '.join(sorted(signs.stuck))}"
    unsaid = sorted(signs.blind - signs.told)
    return f"sources are down and nobody was told yet: {', '.join(unsaid)}" if unsaid else ""


def late(groups: Iterable[tuple[str, float, float | None]], since: float, now: float) -> tuple[str, ...]:
    """The groups whose last evaluation is too long ago: name, interval and when that was; `since`, the start."""
    return tuple(
        name for name, interval, at in groups if now - (since if at is None else at) > LATE * interval + LATE_SECONDS
    )


async def beat(url: Secret, seconds: float, signs: Callable[[], Signs], telemetry: Telemetry) -> None:
    """Ask for the URL until cancelled. Of the URL only its host is ever said."""
    where = urlsplit(url.reveal()).hostname or "the heartbeat URL"
    said = ""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session:
        while True:
            trouble = why_silent(signs())
            if not trouble:
                trouble = await _ask(session, url)
            telemetry.heartbeat(is_heard=not trouble)
            if trouble != said:
                telemetry.said("heartbeat to %s: %s", where, trouble or "is heard")
                said = trouble
            await asyncio.sleep(seconds)


async def _ask(session: aiohttp.ClientSession, url: Secret) -> str:
    """What went wrong; "" for nothing."""
    try:
        async with session.get(url.reveal()) as answer:
            return "" if answer.status < 400 else f"it answers {answer.status}"
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return f"it is not reached, {type(error).__name__}"  # the error's text may hold the URL
