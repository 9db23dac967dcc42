"""Handing over to an Alertmanager: what is posted, and for how long it is said again."""

from __future__ import annotations

import asyncio
from datetime import datetime

import msgspec
import pytest

from collector.channels import alertmanager
from collector.model.clock import ManualClock
from collector.model.errors import ChannelError


def unix(text):
    """RFC 3339 to Unix seconds."""
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture
def channel(service):
    """A channel on a clock that is set by hand."""
    clock = ManualClock(1_790_000_100.0)
    config = alertmanager.at_address(f"http://127.0.0.1:{service.port}/am/")
    channel = alertmanager.AlertmanagerChannel(config, clock)
    channel.hand = clock
    return channel


async def test_what_fires(channel, service, notification):
    """An alert that fires is posted with its start, and an end that lies four minutes ahead."""
    await channel.send(notification())
    await channel.close()
    ((head, _, _),) = service.requests
    ((posted,),) = service.bodies
    assert head == "POST /am/api/v2/alerts HTTP/1.1"
    assert posted["labels"]["alertname"] == "DeadLetter"
    assert unix(posted["startsAt"]) == 1_790_000_000.25
    assert unix(posted["endsAt"]) == 1_790_000_100 + 240
    assert posted["generatorURL"] == "http://mon:9810"


async def test_said_again(channel, service, notification):
    """What fires is said again with a later end, what ended with its own, and that for fifteen minutes."""
    await channel.send(notification())
    channel.hand.at += 60
    await channel.say_again()
    await channel.send(notification("resolved"))
    await channel.say_again()
    channel.hand.at += 800
    await channel.say_again()
    channel.hand.at += 1_000
    await channel.say_again()
    await channel.close()
    ends = [unix(posted["endsAt"]) for (posted,) in service.bodies]
    assert ends == [1_790_000_340, 1_790_000_400, *[1_790_000_060] * 3]


async def test_an_end_is_never_ahead(channel, service, notification):
    """Where our clock is ahead of the machine's, the alert still ends there at once, after it began."""
    channel.hand.at -= 3600
    await channel.send(notification("resolved"))
    await channel.close()
    ((posted,),) = service.bodies
    assert unix(posted["startsAt"]) <= unix(posted["endsAt"]) == 1_790_000_100 - 3600


async def test_a_minute_later_by_itself(service, notification):
    """The channel says it again without being asked, also after a refusal in between, until it is closed."""
    config = alertmanager.at_address(f"http://127.0.0.1:{service.port}")
    channel = msgspec.structs.replace(config, resend_seconds=0.01).open()
    service.answers = [(200, {}, ""), (503, {}, ""), (200, {}, "")]
    await channel.send(notification())
    async with asyncio.timeout(10):
        while len(service.requests) < 4:  # noqa: ASYNC110  the service is no more than a list of requests
            await asyncio.sleep(0.01)
    await channel.close()
    assert {posted["labels"]["n"] for (posted,) in service.bodies} == {"0"}


async def test_refused(channel, service, notification):
    """What the Alertmanager will not take is not said again."""
    service.answers = [(400, {}, "bad label"), (200, {}, "")]
    with pytest.raises(ChannelError, match="bad label"):
        await channel.send(notification())
    await channel.say_again()
    await channel.close()
    assert len(service.requests) == 1


async def test_an_end_that_is_refused_for_good(channel, service, notification):
    """Of what nobody will say the end of, nobody says any more that it fires."""
    service.answers = [(200, {}, ""), (400, {}, "bad label"), (200, {}, "")]
    await channel.send(notification())
    with pytest.raises(ChannelError, match="bad label"):
        await channel.send(notification("resolved"))
    await channel.say_again()
    await channel.close()
    assert len(service.requests) == 2


async def test_an_end_while_it_is_said_again(channel, service, notification, monkeypatch):
    """An end that comes in the middle of saying all again is not followed by older words that it fires."""
    monkeypatch.setattr(alertmanager, "_BATCH", 1)
    await channel.send(notification(count=3))
    again = asyncio.create_task(channel.say_again())
    async with asyncio.timeout(10):
        while len(service.requests) < 2:  # noqa: ASYNC110  the service is no more than a list of requests
            await asyncio.sleep(0)
    await asyncio.gather(again, channel.send(notification("resolved", count=3)))
    await channel.close()
    said = {posted["labels"]["n"]: unix(posted["endsAt"]) for body in service.bodies for posted in body}
    assert said == dict.fromkeys("012", 1_790_000_060)


async def test_what_a_former_process_has_told(channel, service, notification):
    """It is said at once, and again, until its end is told."""
    (alert,) = notification().alerts
    channel.hold([alert], "http://mon:9810")
    async with asyncio.timeout(10):
        while not service.requests:  # noqa: ASYNC110  the service is no more than a list of requests
            await asyncio.sleep(0.01)
    await channel.say_again()
    await channel.send(notification("resolved"))
    await channel.say_again()
    await channel.close()
    ends = [unix(posted["endsAt"]) for (posted,) in service.bodies]
    assert ends == [1_790_000_340, 1_790_000_340, 1_790_000_060, 1_790_000_060]


async def test_bounded(channel, service, notification, monkeypatch):
    """No more alerts are remembered than the bound says; the first leave."""
    monkeypatch.setattr(alertmanager, "MOST_HELD", 3)
    await channel.send(notification(count=5))
    await channel.say_again()
    await channel.close()
    assert [posted["labels"]["n"] for posted in service.bodies[-1]] == ["2", "3", "4"]


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http://h:x", "nonsense"])
def test_no_address(url):
    """What is no address of an Alertmanager is refused with the form of one."""
    with pytest.raises(ChannelError, match="http://HOST:PORT"):
        alertmanager.at_address(url)
