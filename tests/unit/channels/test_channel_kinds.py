"""What only one channel does: the webhook's JSON, apprise's manners, the log's forms; and the URLs that name them."""

from __future__ import annotations

import asyncio
import io
import json
import threading

import pytest

from collector.channels import apprise, chat_urls, from_url, webhook
from collector.channels.log import LogConfig
from collector.channels.verdict import refusal
from collector.model.errors import ChannelError

ALERT = {
    "status": "firing",
    "labels": {"alertname": "DeadLetter", "n": "0", "owner": "payments", "task": "pay.settle"},
    "annotations": {"summary": "a dead letter"},
    "startsAt": "2026-09-21T14:13:20.250Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://mon:9810",
    "fingerprint": "4b9cbbc0d2a3f4a5",
}


def test_webhook_json(notification):
    """The body is Alertmanager's webhook message, version 4, with the evidence under one more key of each alert."""
    body = json.loads(webhook.body(notification()))
    (alert,) = body.pop("alerts")
    evidence = alert.pop("evidence")
    assert body == {
        "version": "4",
        "groupKey": '{}:{alertname="DeadLetter"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "default",
        "groupLabels": {"alertname": "DeadLetter"},
        "commonLabels": {"alertname": "DeadLetter", "task": "pay.settle"},
        "commonAnnotations": {"summary": "a dead letter"},
        "externalURL": "http://mon:9810",
    }
    assert alert == ALERT | {"fingerprint": notification().alerts[0].fingerprint}
    assert evidence["offenders"][0]["task_id"] == "d1"
    assert evidence["top_errors"] == [["ValueError", 1]]


def test_webhook_resolved(notification):
    """A resolved alert carries its end."""
    (alert,) = json.loads(webhook.body(notification("resolved")))["alerts"]
    assert (alert["status"], alert["endsAt"]) == ("resolved", "2026-09-21T14:14:20.000Z")


def test_webhook_is_bounded(notification):
    """A body holds so many alerts, and counts those that it leaves out."""
    body = json.loads(webhook.body(notification(count=5), max_alerts=2))
    assert (len(body["alerts"]), body["truncatedAlerts"]) == (2, 3)


async def test_webhook_headers(service, notification):
    """The dedup key and the user's credentials travel in headers."""
    channel = from_url(f"webhook+http://me:pw@127.0.0.1:{service.port}/x").open()
    await channel.send(notification())
    await channel.close()
    ((head, headers, _),) = service.requests
    assert head == "POST /x HTTP/1.1"
    assert headers["idempotency-key"] == "0123456789abcdef"
    assert headers["authorization"] == "Basic bWU6cHc="


async def test_webhook_does_not_follow(service, notification):
    """A redirect is refused: followed, a POST would become a GET of a page that says 200."""
    service.answers = [(302, {"Location": "/login"}, "")]
    channel = from_url(f"webhook+http://127.0.0.1:{service.port}/x").open()
    with pytest.raises(ChannelError, match="302 Found") as caught:
        await channel.send(notification())
    await channel.close()
    assert caught.value.retryable is False
    assert len(service.requests) == 1


async def test_webhook_time_out(service, notification):
    """A webhook that does not answer in its time is worth another try."""
    service.answers = ["hang"]
    config = from_url(f"webhook+http://127.0.0.1:{service.port}/x")
    channel = webhook.WebhookConfig(url=config.url, name=config.name, timeout_seconds=0.1).open()
    with pytest.raises(ChannelError, match=r"no answer in 0\.1 s") as caught:
        await channel.send(notification())
    await channel.close()
    assert caught.value.retryable is True


async def test_apprise_title_and_text(service, notification):
    """Title, text and kind reach the service as they are."""
    channel = from_url(f"json://127.0.0.1:{service.port}/").open()
    await channel.send(notification())
    await channel.send(notification("resolved"))
    first, second = service.bodies
    assert first["title"] == "[FIRING] DeadLetter (page, owner payments)"
    assert first["message"].splitlines() == [
        "severity: page   owner: payments",
        "runbook: http://mon/runbooks/dead-letters",
    ]
    assert [first["type"], second["type"]] == ["failure", "success"]


async def test_apprise_hanging_try_is_not_doubled(service, notification):
    """A try that outlives the caller's patience is waited for at the next call, and its answer counts."""
    service.answers = ["slow"]
    channel = from_url(f"json://127.0.0.1:{service.port}/").open()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await channel.send(notification())
    await channel.send(notification())
    assert len(service.requests) == 1


async def test_apprise_threads_do_not_hold_up_the_end(service, notification):
    """A thread that waits for a hanging service is no reason for the process to stay."""
    service.answers = ["hang"]
    channel = from_url(f"json://127.0.0.1:{service.port}/").open()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await channel.send(notification())
    assert [one.daemon for one in threading.enumerate() if one.name == f"channel {channel.name}"] == [True]
    service.released.set()
    with pytest.raises(ChannelError):
        await channel.send(notification())


async def test_apprise_own_retries_are_off(service, notification):
    """Retrying is delivery's: what the URL says about it is not obeyed by the channel."""
    service.answers = [(503, {}, "")]
    channel = from_url(f"json://127.0.0.1:{service.port}/?retry=3&wait=0").open()
    with pytest.raises(ChannelError):
        await channel.send(notification())
    assert len(service.requests) == 1


def test_apprise_pace():
    """Apprise's own throttle is off, and ours keeps at most a second between two messages."""
    assert (
        apprise._server("pover://uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")[0].request_rate_per_sec
        == 0
    )
    assert from_url("pover://uuuuuuuuuuuuuuuuuuuuuuuuuuuuuu@aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").spacing_seconds == 1.0
    assert from_url("json://localhost/").spacing_seconds == 0.0


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("discord://1234567/S3CR3T-C_abcdef", ["1234567", "S3CR3T"]),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#x", ["T1JJ3T3L2", "A1BRTD4JD", "TIiajkdn"]),
        ("tgram://123456789:abcdefg_hijklmnop/12315544/", ["123456789", "abcdefg"]),
    ],
)
def test_chat_names(url, secrets):
    """In chat services' URLs every part may be the secret, so a name shows the service and nothing else."""
    config = from_url(url)
    assert not [secret for secret in secrets if secret in config.name + config.description]
    assert f"{url.partition('://')[0]}://#" in config.name


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#x/#y",
        "tgram://123456789:abcdefg_hijklmnop/12315544/12315545/",
        "ntfy://localhost/a/b",
        "ntfy://localhost/a?priority=high",
        "discord://123456789012345678/abcdefghij?tts=yes",
    ],
)
def test_what_only_apprise_does(url):
    """A URL that asks for several places, or for what only apprise does, stays with apprise."""
    assert "by apprise" in from_url(url).description


def test_an_apprise_that_names_things_otherwise():
    """A plugin without the parts that are looked for is served by apprise."""

    class NotifySlack:
        verify_certificate = True

    assert chat_urls.from_plugin(NotifySlack(), "slack://x", "slack://#x") is None


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("webhook+http://", "a webhook needs a host"),
        ("webhook+http://[::1/x", "a webhook needs a host"),
        ("webhook+http://h:port/x", "a webhook needs a host"),
        ("log:xml", "`log:` or `log:json`"),
        ("slakc://S3CR3T", "did you mean slack://"),
        ("qqqqqqqq://S3CR3T", "apprise knows no service qqqqqqqq://"),
        ("slack://S3CR3T", "cannot read the rest of this URL; its form is slack://"),
        ("https://example.invalid/S3CR3T", r"write webhook\+https://"),
        ("S3CR3T", "a target is a URL"),
        ("", "a target is a URL"),
    ],
)
def test_not_understood(url, says, caplog):
    """A URL that names no target is answered with what to write, and not repeated."""
    with pytest.raises(ChannelError, match=says) as caught:
        from_url(url)
    assert caught.value.retryable is False
    assert "S3CR3T" not in str(caught.value) + caplog.text


def test_understood():
    """Targets are named by what they are."""
    assert from_url("log:").description == "readable blocks on standard output"
    assert from_url("log:json").description == "JSON lines on standard output"
    assert from_url("webhook+https://u:p@[::1]:8443/x").description == "Alertmanager's webhook JSON"
    assert from_url("json://localhost:8080/x").description == "JSON by apprise"


async def test_log_block(notification):
    """The text form is a block: time and title, the text set in, an empty line."""
    stream = io.StringIO()
    channel = LogConfig(stream=stream).open()
    await channel.send(notification())
    await channel.close()
    assert stream.getvalue() == (
        "2026-09-21T14:13:21Z [FIRING] DeadLetter (page, owner payments)\n"
        "  severity: page   owner: payments\n"
        "  runbook: http://mon/runbooks/dead-letters\n\n"
    )


async def test_log_json(capsys, notification):
    """The JSON form is one object a line, on standard output."""
    channel = from_url("log:json").open()
    await channel.send(notification())
    (line,) = capsys.readouterr().out.splitlines()
    known = json.loads(line)
    assert known["group_labels"] == {"alertname": "DeadLetter"}
    assert (known["status"], known["receiver"], known["key"]) == ("firing", "default", "0123456789abcdef")
    assert channel.name == "log:json"


async def test_log_closed(notification):
    """An output that is closed takes nothing, for good."""
    stream = io.StringIO()
    stream.close()
    with pytest.raises(ChannelError) as caught:
        await LogConfig(stream=stream).open().send(notification())
    assert caught.value.retryable is False


class Stuck(io.StringIO):
    """A pipe that nobody reads."""

    def __init__(self):
        super().__init__()
        self.read = threading.Event()

    def write(self, text):
        """Blocks like a full pipe."""
        self.read.wait(5)
        return super().write(text)


async def test_log_that_nobody_reads(notification):
    """An output that nobody reads stops neither the loop nor further sends, which are refused for now."""
    stream = Stuck()
    channel = LogConfig(stream=stream).open()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await channel.send(notification())
    with pytest.raises(ChannelError, match="nobody reads") as caught:
        await channel.send(notification())
    assert caught.value.retryable is True
    stream.read.set()


def test_odd_status():
    """A status that no standard knows is judged by its class."""
    assert refusal("x", 599).retryable is True
    assert refusal("x", 499).retryable is False
