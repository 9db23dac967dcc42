"""Alertmanager's own receivers in the words of their author, against services as strict as the real ones."""

from __future__ import annotations

import msgspec
import pytest

from collector.model.errors import ChannelError
from collector.routing.routefile import load
from collector.wiring import targets
from tests.fakes.chat import Chat
from tests.unit.channels.conftest import make_notification

RECEIVERS = """
route: {{receiver: slack}}
receivers:
- name: slack
  slack_configs:
  - api_url: '{base}/slack/services/T0/B0/S3CR3T'
    channel: '#{{{{ .GroupLabels.alertname | toLower }}}}'
    username: '{{{{ .Receiver }}}}'
    title: '*{{{{ .CommonLabels.task }}}}*'
    text: '<!here> {{{{ .CommonAnnotations.summary }}}}'
    fields: [{{title: at, value: '{{{{ .Status }}}}', short: true}}]
    actions: [{{type: button, text: look, url: '{{{{ .ExternalURL }}}}'}}]
- name: slack-color
  slack_configs: [{{api_url: '{base}/slack/services/T0/B1/S3CR3T', color: '{{{{ .Status }}}}'}}]
- name: slack-user
  slack_configs: [{{api_url: '{base}/slack/services/T0/B2/S3CR3T', username: me}}]
- name: discord
  discord_configs:
  - webhook_url: '{base}/discord/api/webhooks/1/S3CR3T'
    content: '@here'
    title: '{{{{ .CommonLabels.task }}}}'
    message: '{{{{ .CommonAnnotations.summary }}}}'
- name: telegram
  telegram_configs:
  - {{bot_token: '1:S3CR3T', chat_id: -100, api_url: '{base}/telegram', message: '<b>{{{{ .CommonLabels.task }}}}</b> {{{{ .CommonAnnotations.summary }}}}'}}
- name: telegram-plain
  telegram_configs:
  - {{bot_token: '2:S3CR3T', chat_id: -100, api_url: '{base}/telegram', parse_mode: '', message: '{{{{ .CommonAnnotations.summary }}}}'}}
- name: pagerduty
  pagerduty_configs:
  - routing_key: S3CR3T
    url: '{base}/pagerduty/v2/enqueue'
    description: '{{{{ .CommonLabels.task }}}} {{{{ .CommonAnnotations.summary }}}}'
    severity: '{{{{ if eq .Status "firing" }}}}warning{{{{ end }}}}'
    class: '{{{{ .GroupLabels.alertname }}}}'
    details: {{n: '{{{{ .Alerts | len }}}}', summary: '{{{{ .CommonAnnotations.summary }}}}'}}
    links: [{{href: 'https://mon/', text: '{{{{ .Receiver }}}}'}}]
- name: mattermost
  mattermost_configs:
  - webhook_url: '{base}/mattermost/hooks/S3CR3T'
    text: '{{{{ .CommonAnnotations.summary }}}}'
    author_name: '{{{{ .Receiver }}}}'
    priority: {{priority: urgent, requested_ack: true}}
- name: rocketchat
  rocketchat_configs:
  - {{api_url: '{base}/rocketchat', token: S3CR3T, token_id: S3CR3Ti, channel: a, emoji: ':fire:', text: '{{{{ .CommonAnnotations.summary }}}}'}}
- name: webex
  webex_configs:
  - api_url: '{base}/webex/v1/messages'
    room_id: r1
    http_config: {{authorization: {{credentials: S3CR3T}}}}
    message: '**{{{{ .CommonLabels.task }}}}** {{{{ .CommonAnnotations.summary }}}}'
- name: mail
  email_configs:
  - to: b@example.org
    from: a@example.org
    smarthost: 127.0.0.1:{mail_port}
    require_tls: false
    text: '{{{{ .CommonAnnotations.summary }}}}'
    headers: {{Subject: '{{{{ .CommonLabels.task }}}}', X-Team: ops}}
"""  # noqa: E501
NAMES = (
    "slack",
    "slack-color",
    "discord",
    "telegram",
    "telegram-plain",
    "pagerduty",
    "mail",
    "mattermost",
    "rocketchat",
    "webex",
)


CHATS = ("slack", "discord", "telegram", "pagerduty", "mattermost", "rocketchat", "webex")


@pytest.fixture
async def fake():
    """The services."""
    fake = Chat()
    await fake.start()
    yield fake
    await fake.stop()


def told(summary="it failed", task="pay"):
    """A notification with this summary."""
    labels = (("alertname", "DeadLetter"), ("task", task))
    return msgspec.structs.replace(
        make_notification(), common_labels=labels, common_annotations=(("summary", summary),)
    )


async def sent(fake, name, notification):
    """What the receiver's service took."""
    text = RECEIVERS.format(base=fake.base, mail_port=fake.mail_port)
    configs, receivers = targets.understood(load("routes.yaml", text))
    (target,) = receivers[name]
    channel = next(config for config in configs if config.name == target.name).open()
    try:
        await channel.send(notification)
    finally:
        await channel.close()
    return fake.taken[-1]


async def test_slack(fake):
    """An attachment as Alertmanager lays it out: markup as written, and whom the author calls."""
    taken = await sent(fake, "slack", told())
    (attached,) = taken.raw["attachments"]
    assert (taken.raw["channel"], taken.raw["username"], taken.called) == ("#deadletter", "default", ["here"])
    assert {name: attached[name] for name in ("title", "title_link", "text", "color", "fields", "actions")} == {
        "title": "*pay*",
        "title_link": "http://mon:9810",
        "text": "<!here> it failed",
        "color": "danger",
        "fields": [{"title": "at", "value": "firing", "short": True}],
        "actions": [{"type": "button", "text": "look", "url": "http://mon:9810"}],
    }


async def test_what_is_not_written_stays_ours(fake):
    """With a colour alone title and text are ours; with a name alone the message is as without it."""
    taken = await sent(fake, "slack-color", told())
    (attached,) = taken.raw["attachments"]
    assert (attached["color"], attached["title"]) == ("firing", make_notification().title)
    assert "owner: payments" in attached["text"]
    taken = await sent(fake, "slack-user", told())
    assert (taken.raw["username"], "attachments" in taken.raw, "owner: payments" in taken.text) == ("me", False, True)


async def test_discord_and_telegram(fake):
    """An embed beside what is said; a page whose values are escaped, and a text without markup."""
    taken = await sent(fake, "discord", told())
    (embed,) = taken.raw["embeds"]
    assert (taken.raw["content"], embed["title"], embed["description"]) == ("@here", "pay", "it failed")
    assert taken.called == ["here"]
    taken = await sent(fake, "telegram", told("a < b & c"))
    assert (taken.raw["text"], taken.raw["parse_mode"]) == ("<b>pay</b> a &lt; b &amp; c", "HTML")
    taken = await sent(fake, "telegram-plain", told("a < b & c"))
    assert (taken.raw["text"], "parse_mode" in taken.raw) == ("a < b & c", False)


async def test_pagerduty_and_mail(fake):
    """Summary, severity, class, links and details with their types; subject, text and headers."""
    taken = await sent(fake, "pagerduty", told())
    inner = taken.raw["payload"]
    assert (inner["summary"], inner["severity"], inner["class"]) == ("pay it failed", "warning", "DeadLetter")
    assert (inner["custom_details"]["n"], inner["custom_details"]["summary"]) == (1, "it failed")
    assert {"href": "https://mon/", "text": "default"} in taken.raw["links"]
    taken = await sent(fake, "mail", told())
    assert (taken.raw["headers"]["Subject"], taken.raw["headers"]["X-Team"]) == ("pay", "ops")
    assert "it failed" in taken.text


async def test_those_that_are_like_slack(fake):
    """Attachments with what is each one's own, and a page of Webex."""
    taken = await sent(fake, "mattermost", told())
    (attached,) = taken.raw["attachments"]
    assert (attached["text"], attached["author_name"], attached["color"]) == ("it failed", "default", "danger")
    assert taken.raw["priority"] == {"priority": "urgent", "requested_ack": True}
    taken = await sent(fake, "rocketchat", told())
    assert (taken.raw["channel"], taken.raw["emoji"], taken.raw["attachments"][0]["text"]) == (
        "a",
        ":fire:",
        "it failed",
    )
    taken = await sent(fake, "webex", told())
    assert (taken.raw["roomId"], taken.raw["markdown"]) == ("r1", "**pay** it failed")


@pytest.mark.parametrize("name", NAMES)
async def test_nobody_is_called_by_a_value_and_all_is_taken(fake, name):
    """Whatever labels and annotations hold, of whatever length, is taken, and calls nobody whom the author does not."""
    for size in (10, 1_999, 10_000):
        for text in (
            "@everyone <!channel> <@U12> @all ",
            "<b>&\"'`*_~|>[]()#\\",
            "\U0001f469\u200d\U0001f467",
            "line\n",
        ):
            value = (text * size)[:size]
            taken = await sent(fake, name, told(value, value[:300]))
            assert set(taken.called) <= {"here"}


@pytest.mark.parametrize("name", CHATS)
async def test_once_more_in_our_own_words(fake, name):
    """A message that the service does not take is said once more, plainly, and in our own words."""
    fake.moods[name].append("bad markup")
    taken = await sent(fake, name, told())
    assert "DeadLetter" in taken.text
    assert not {"attachments", "embeds"} & taken.raw.keys()


async def test_a_webhook_with_a_payload_of_its_own(service):
    """The JSON is the author's: texts where they read like numbers or lists are such, as in Alertmanager."""
    text = """
route: {receiver: hook}
receivers:
- name: hook
  webhook_configs:
  - url: 'http://127.0.0.1:PORT/S3CR3T'
    payload: {text: '{{ .CommonAnnotations.summary }}', n: '{{ len .Alerts }}', all: ['{{ .Status }}', '[1, x]']}
"""
    configs, _ = targets.understood(load("routes.yaml", text.replace("PORT", str(service.port))))
    channel = configs[0].open()
    await channel.send(told())
    await channel.close()
    assert service.bodies == [{"text": "it failed", "n": 1, "all": ["firing", [1, "x"]]}]


@pytest.mark.parametrize("name", CHATS)
async def test_no_secret_is_shown(fake, caplog, name):
    """A refusal that quotes the request shows nothing of what is secret of a target."""
    fake.moods[name].append("403")
    with pytest.raises(ChannelError) as refused:
        await sent(fake, name, told())
    assert "S3CR3T" not in caplog.text + str(refused.value)


async def test_ten_thousand_alerts(fake):
    """A message about very many alerts is put together beside the loop; what is too much for a template is ours."""
    many = make_notification(count=10_000)
    taken = await sent(fake, "discord", msgspec.structs.replace(many, common_labels=(("task", "pay"),)))
    assert taken.raw["embeds"][0]["title"] == "pay"
