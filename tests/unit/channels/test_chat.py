"""Every service in its own words, against services as strict as the real ones, and through the real delivery."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import time
import traceback

import msgspec
import pytest

from collector.channels import chat, from_url
from collector.channels.pace import Pace
from collector.model.clock import SystemClock
from collector.model.errors import ChannelError
from collector.model.secret import Secret
from collector.routing.routefile import load
from collector.shell.delivery import Delivery, DeliverySettings
from collector.wiring import targets
from tests.fakes.chat import Chat

RECEIVERS = """
route: {{receiver: slack}}
receivers:
- name: slack
  slack_configs: [{{api_url: '{base}/slack/services/T0/B0/S3CR3T', channel: '#ops'}}]
- name: slack-bot
  slack_configs: [{{app_token: xoxb-S3CR3T, app_url: '{base}/slack/api/chat.postMessage', channel: '#ops'}}]
- name: discord
  discord_configs: [{{webhook_url: '{base}/discord/api/webhooks/1/S3CR3T'}}]
- name: telegram
  telegram_configs: [{{bot_token: '1:S3CR3T', chat_id: -100, api_url: '{base}/telegram'}}]
- name: pagerduty
  pagerduty_configs: [{{routing_key: S3CR3T, url: '{base}/pagerduty/v2/enqueue'}}]
- name: mattermost
  mattermost_configs: [{{webhook_url: '{base}/mattermost/hooks/S3CR3T', channel: ops}}]
- name: rocketchat
  rocketchat_configs: [{{api_url: '{base}/rocketchat', token: S3CR3T, token_id: S3CR3Tid, channel: ops}}]
- name: webex
  webex_configs:
  - {{api_url: '{base}/webex/v1/messages', room_id: r1, http_config: {{authorization: {{credentials: S3CR3T}}}}}}
"""
URLS = {
    "ntfy": ("ntfy://me:S3CR3T@127.0.0.1:{port}/ops", ""),
    "dingtalk": ("dingtalk://S3CR3T/", "/dingtalk/robot/send?access_token=S3CR3T"),
    "dingtalk-signed": ("dingtalk://S3CR3Tsign@S3CR3T/", "/dingtalk/robot/send?access_token=S3CR3T"),
    "feishu": ("feishu://S3CR3T", "/feishu/open-apis/bot/v2/hook/S3CR3T"),
    "lark": ("lark://S3CR3T", "/lark/open-apis/bot/v2/hook/S3CR3T"),
    "wecom": ("wecombot://S3CR3T", "/wecom/cgi-bin/webhook/send?key=S3CR3T"),
    "apprise-ntfy": ("ntfy://127.0.0.1:{port}/ops?priority=high", ""),
    "mail": ("mailto://me:S3CR3T@127.0.0.1:{mail_port}/?from=a@example.org&to=b@example.org", ""),
}
NAMES = ("slack", "slack-bot", "discord", "telegram", "pagerduty", "mattermost", "rocketchat", "webex", *URLS)
SERVICE = {"slack-bot": "slack", "dingtalk-signed": "dingtalk", "apprise-ntfy": "ntfy"}


@pytest.fixture
async def fake():
    """The services."""
    fake = Chat()
    await fake.start()
    yield fake
    await fake.stop()


def config_of(name, fake):
    """A target's configuration as the daemon makes it, but for the address of services that have only one."""
    if name in URLS:
        url, path = URLS[name]
        config = from_url(url.format(port=fake.port, mail_port=fake.mail_port))
        return msgspec.structs.replace(config, url=Secret(fake.base + path)) if path else config
    configs, told = targets.understood(load("routes.yaml", RECEIVERS.format(base=fake.base)))
    (target,) = told[name]
    return next(config for config in configs if config.name == target.name)


def nasty(size):
    """Texts of one size: plain, of emoji, of markup alone, of lines, and one that calls everybody."""
    everyone = '@everyone @here <!channel> <!everyone|x> <@U123> <@all> <at user_id="all"></at> @all @channel <@&1> '
    markup = "*_~`|<>[](){}#+-=.!\\&\"'^$%@/:;, \t"
    for text in ("x", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "字", markup, "line of a log\n", everyone):
        yield (text * (size // len(text) + 1))[:size]


def trouble():
    """A real traceback."""
    try:
        raise ValueError("<b>bad</b> & `worse` **x**")  # noqa: TRY301  a traceback is what is wanted
    except ValueError:
        return traceback.format_exc() * 30


HEAD = "severity: page   owner: payments\nrunbook: https://mon.example/runbooks/dead_letters_x\n"


@pytest.mark.case("K15.1")
@pytest.mark.parametrize("name", NAMES)
async def test_all_texts_are_taken(name, fake, notification):
    """Texts of every length and make are taken at the first try, with title, owner and runbook, and call nobody."""
    channel = config_of(name, fake).open()
    texts = [text for size in (1, 1_999, 2_000, 2_001, 10_000) for text in nasty(size)]
    texts += [trouble(), "x\U0001f600" * 3_000, ""]
    for text in texts:
        told = msgspec.structs.replace(notification(), text=HEAD + text)
        await channel.send(told)
    await channel.close()
    service = SERVICE.get(name, name)
    taken = fake.of(service)
    assert len(taken) == len(fake.log) == len(texts)
    for message in taken:
        assert not message.called
        assert "DeadLetter" in message.text
        assert "payments" in message.text
        if service != "pagerduty":
            assert "https://mon.example/runbooks/dead_letters_x" in message.text
        assert "\ufffd" not in message.text


@pytest.mark.parametrize(
    "name", ["slack", "discord", "telegram", "mattermost", "rocketchat", "webex", "wecom", "feishu", "dingtalk", "ntfy"]
)
async def test_what_is_read_is_what_was_said(name, fake, notification):
    """A short text with all markup reaches its readers as it was written."""
    text = HEAD + "a*b _c_ ~d~ `e` |f| <g> [h](i) & \\j \"k\" 'l' # m > n &amp; &lt;"
    channel = config_of(name, fake).open()
    await channel.send(msgspec.structs.replace(notification(), text=text))
    await channel.close()
    (message,) = fake.of(name)
    assert text in message.text.replace("\u200b", "")


@pytest.mark.case("K15.1")
@pytest.mark.parametrize("name", NAMES[:-2])
async def test_bad_markup_is_said_plainly(name, fake, notification):
    """After a refusal of the content the same is said once more, plainly; after a second refusal no more."""
    service = SERVICE.get(name, name)
    channel = config_of(name, fake).open()
    fake.moods[service] = ["bad markup"]
    await channel.send(notification())
    assert len(fake.of(service)) == 1
    assert len(fake.log) == 2
    fake.moods[service] = ["bad markup", "bad markup"]
    with pytest.raises(ChannelError) as caught:
        await channel.send(notification())
    await channel.close()
    assert caught.value.retryable is False
    assert "S3CR3T" not in str(caught.value)
    assert len(fake.log) == 4


@pytest.mark.parametrize("name", NAMES[:-2])
async def test_too_many(name, fake, notification):
    """A service that is written to too often is asked again after the time that it names."""
    service = SERVICE.get(name, name)
    channel = config_of(name, fake).open()
    fake.moods[service] = ["429"]
    with pytest.raises(ChannelError) as caught:
        await channel.send(notification())
    await channel.close()
    assert caught.value.retryable is True
    assert caught.value.retry_after is not None


async def test_pagerduty_pairs(fake, notification):
    """Trigger and resolve of one group have one dedup key, and another group has another."""
    channel = config_of("pagerduty", fake).open()
    for told in (notification(), notification("resolved"), msgspec.structs.replace(notification(), group_key="other")):
        await channel.send(told)
    await channel.close()
    first, second, other = (message.raw for message in fake.taken)
    assert [first["event_action"], second["event_action"]] == ["trigger", "resolve"]
    assert first["dedup_key"] == second["dedup_key"] != other["dedup_key"]
    assert first["payload"]["component"] == "pay.settle"


async def test_signatures(fake, notification):
    """A robot that asks for signatures gets them: DingTalk's in the address, Feishu's in the message."""
    for url, path in (
        ("feishu://S3CR3T?secret=hush", "/feishu/open-apis/bot/v2/hook/S3CR3T"),
        ("dingtalk://hush@S3CR3T/", "/dingtalk/robot/send?access_token=S3CR3T"),
    ):
        channel = msgspec.structs.replace(from_url(url), url=Secret(fake.base + path)).open()
        await channel.send(notification())
        await channel.close()
    feishu, dingtalk = fake.taken
    digest = hmac.new(f"{feishu.raw['timestamp']}\nhush".encode(), b"", hashlib.sha256).digest()
    assert feishu.raw["sign"] == base64.b64encode(digest).decode()
    assert abs(int(feishu.raw["timestamp"]) - time.time()) < 3_600
    stamp, sign = dingtalk.query["timestamp"], dingtalk.query["sign"]
    digest = hmac.new(b"hush", f"{stamp}\nhush".encode(), hashlib.sha256).digest()
    assert sign == base64.b64encode(digest).decode()


class Book:
    """Book and report: counts."""

    def __init__(self):
        self.keys = []
        self.lost = []

    def confirm(self, notification, _now):
        """Taken."""
        self.keys.append(notification.key)

    def dropped(self, _target, notification, reason):
        """Lost."""
        self.lost.append((notification.key, reason))

    def __getattr__(self, name):
        """The rest does not matter here."""
        return lambda *_, **__: None


async def deliver(configs, told, until):
    """Run a delivery of these notifications until a condition holds."""
    book = Book()
    channels = {config.name: config.open() for config in configs}
    settings = DeliverySettings(first_wait_seconds=0.02, longest_wait_seconds=0.05)
    delivery = Delivery(channels, book, book, clock=SystemClock(), settings=settings)
    running = asyncio.create_task(delivery.run())
    for one in told:
        for name in channels:
            delivery.submit(msgspec.structs.replace(one, target=name))
    try:
        async with asyncio.timeout(30):
            while not (running.done() or until(book)):  # noqa: ASYNC110  the services are no more than lists
                await asyncio.sleep(0.01)
    finally:
        await delivery.drain(0.01)
        await running
    return book


def many(notification, count):
    """Notifications of so many groups."""
    return [
        msgspec.structs.replace(notification(), key=f"k{n}", group_key=f"g{n}", title=f"DeadLetter {n}!")
        for n in range(count)
    ]


@pytest.mark.case("K02.2")
@pytest.mark.parametrize("name", ["discord", "slack", "dingtalk"])
async def test_a_storm_keeps_the_limit(name, fake, notification):
    """Sixty alerts at once: the service's limit is kept, so it never complains, and none is lost."""
    fake.limits[name] = (10, 0.2)
    config = msgspec.structs.replace(config_of(name, fake), pace=Pace(10, 0.25))
    book = await deliver([config], many(notification, 60), lambda book: len(book.keys) == 60)
    assert sorted(book.keys) == sorted(f"k{n}" for n in range(60))
    assert {status for _, _, status in fake.log} == {200}
    assert len(fake.log) == 60
    times = [message.at for message in fake.taken]
    assert all(later - early > 0.2 for early, later in zip(times, times[10:], strict=False))


async def test_a_storm_on_a_tighter_limit(fake, notification):
    """A limit that is tighter than ours is obeyed by what its 429 says; none is lost."""
    fake.limits["discord"] = (10, 0.2)
    config = msgspec.structs.replace(config_of("discord", fake), pace=Pace(1_000, 1.0))
    book = await deliver([config], many(notification, 60), lambda book: len(book.keys) == 60)
    assert not [reason for _, reason in book.lost if reason != "stopping"]
    assert len({message.text for message in fake.taken}) == 60


@pytest.mark.parametrize("mood", ["hang", "down"])
async def test_one_that_is_away_delays_nobody(mood, fake, notification):
    """While one target hangs or is down another gets every alert, and the first gets its own when it is back."""
    if mood == "hang":
        fake.moods["discord"] = ["hang"]
    else:
        fake.down.add("discord")
    configs = [
        msgspec.structs.replace(config_of(name, fake), pace=Pace(1_000, 1.0)) for name in ("discord", "telegram")
    ]
    steps = itertools.count()

    def until(book):
        if len(fake.of("telegram")) < 20:
            assert next(steps) < 2_000
            return False
        if mood == "hang":
            return True
        fake.down.clear()
        return len(fake.of("discord")) == 20

    await deliver(configs, many(notification, 20), until)
    assert len({message.text for message in fake.of("telegram")}) == 20
    assert len(fake.of("discord")) == (0 if mood == "hang" else 20)


def test_the_paces_are_the_services():
    """No pace of ours is faster than what a service's own pages allow in a minute."""
    allowed = {"slack": 60, "discord": 30, "telegram": 20, "dingtalk": 20, "wecom": 20, "feishu": 100, "lark": 100}
    for name, most in allowed.items():
        pace = chat.SERVICES[name].pace
        assert pace.count * 60 / pace.seconds <= most
