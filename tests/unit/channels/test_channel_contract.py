"""What every channel that speaks HTTP owes: one suite, each channel by one line of `KINDS`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from email.utils import formatdate

import pytest

from collector.channels import from_url
from collector.model.errors import ChannelError

SECRET = "S3CR3T-token"
KINDS = {
    "webhook": "webhook+http://user:{secret}@127.0.0.1:{port}/hooks/{secret}?key={secret}",
    "apprise": "json://user:{secret}@127.0.0.1:{port}/hooks/{secret}?+X-Key={secret}&rto=0.6",
}


@pytest.fixture(params=KINDS)
async def channel(request, service):
    """An open channel of each kind to the service."""
    channel = from_url(KINDS[request.param].format(port=service.port, secret=SECRET)).open()
    yield channel
    await channel.close()


async def refused(channel, notification):
    """The error with which the channel refuses."""
    with pytest.raises(ChannelError) as caught:
        await channel.send(notification())
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("status", [200, 201, 204])
async def test_taken(channel, service, status, notification):
    """2xx is confirmed, and the one request holds what the notification says."""
    service.answers = [(status, {}, "")]
    await channel.send(notification())
    ((head, headers, body),) = service.requests
    assert head.startswith(f"POST /hooks/{SECRET}")
    assert headers["content-type"] == "application/json"
    assert "DeadLetter" in body
    assert "payments" in body


async def test_busy(channel, service, notification):
    """429 is worth another try, after as many seconds as the target names."""
    service.answers = [(429, {"Retry-After": "20"}, "slow down")]
    error = await refused(channel, notification)
    assert (error.retryable, error.retry_after) == (True, 20.0)
    assert "429" in str(error)
    assert len(service.requests) == 1


async def test_busy_until_a_date(channel, service, notification):
    """A Retry-After that is a date is measured by the target's own clock."""
    service.answers = [
        (503, {"Retry-After": formatdate(1_000_030, usegmt=True), "Date": formatdate(1_000_000, usegmt=True)}, "")
    ]
    assert (await refused(channel, notification)).retry_after == 30.0


@pytest.mark.parametrize("said", ["99999999999", "inf", "Wed, 21 Oct 2099 07:28:00 GMT"])
async def test_no_target_keeps_us_quiet_for_long(channel, service, said, notification):
    """A target that wants to be left alone for days is asked again after ten minutes: pages do not live longer."""
    service.answers = [(429, {"Retry-After": said, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, "")]
    assert (await refused(channel, notification)).retry_after == 600.0


@pytest.mark.parametrize("said", ["soon", "-1", "nan"])
async def test_strange_retry_after(channel, service, said, notification):
    """A Retry-After that makes no sense is none."""
    service.answers = [(429, {"Retry-After": said}, "")]
    error = await refused(channel, notification)
    assert (error.retryable, error.retry_after) == (True, None)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413, 422])
async def test_refused(channel, service, status, notification):
    """Other 4xx are final: only where the content may be at fault it is said once more, in another form."""
    service.answers = [(status, {}, f"no such hook: /hooks/{SECRET}")]
    error = await refused(channel, notification)
    assert error.retryable is False
    assert str(status) in str(error)
    assert "127.0.0.1" in str(error)
    may_differ = status in {400, 413, 422} and "json://" in channel.name
    assert len(service.requests) == 1 + may_differ


async def test_broken_twice(channel, service, notification):
    """5xx is worth another try; the channel itself tries once and keeps working."""
    service.answers = [(503, {}, ""), (500, {}, ""), (200, {}, "")]
    assert [(await refused(channel, notification)).retryable for _ in range(2)] == [True, True]
    await channel.send(notification())
    assert len(service.requests) == 3


async def test_slow(channel, service, notification):
    """An answer that takes its time, within the time-out, is an answer."""
    service.answers = ["slow"]
    await channel.send(notification())
    assert len(service.requests) == 1


async def test_closed_in_the_middle(channel, service, notification):
    """A connection that ends without an answer is worth another try."""
    service.answers = ["close"]
    assert (await refused(channel, notification)).retryable is True


async def test_nobody_there(channel, service, notification):
    """A port where nobody listens is worth another try."""
    gone = from_url(
        f"webhook+http://127.0.0.1:1/{SECRET}" if "webhook" in channel.name else f"json://127.0.0.1:1/{SECRET}"
    )
    closed = gone.open()
    assert (await refused(closed, notification)).retryable is True
    await closed.close()


async def test_hangs_and_loop_goes_on(channel, service, notification):
    """A target that never answers holds up neither the loop nor the caller that loses patience."""
    service.answers = ["hang"]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await channel.send(notification())
    service.released.set()
    service.answers = [(200, {}, "")]
    while len(service.requests) < 2:  # a try that hung may still fail for its own reason, once
        with contextlib.suppress(ChannelError):
            await channel.send(notification())


@pytest.mark.case("K11.1")
async def test_no_secret_in_any_log(channel, service, caplog, notification):
    """Nothing that a channel or its library logs, at any level, shows a part of the URL that may be secret."""
    caplog.set_level(logging.DEBUG)
    for answer in [(404, {}, SECRET), (429, {}, ""), "close", (200, {}, "")]:
        service.answers = [answer]
        try:
            await channel.send(notification())
        except ChannelError as error:
            assert SECRET not in repr(error)  # noqa: PT017
    assert SECRET not in caplog.text
    assert SECRET not in channel.name
    assert SECRET not in repr(vars(channel))


async def test_understood(channel, service):
    """A target's name says where it goes, its description what it is and not the name again; neither shows a secret."""
    for url in KINDS.values():
        config = from_url(url.format(port=service.port, secret=SECRET))
        assert "127.0.0.1" in config.name
        assert "127.0.0.1" not in config.description
        assert SECRET not in config.name + config.description


async def test_two_targets_have_two_names(service):
    """Two targets that differ only in a secret have different names."""
    for url in KINDS.values():
        one, two = (from_url(url.format(port=1, secret=secret)).name for secret in ("aaaa", "bbbb"))
        assert one != two


async def test_close_without_use(channel):
    """A channel that never sent anything is closed like any other, also twice."""
    await channel.close()
    await channel.close()
