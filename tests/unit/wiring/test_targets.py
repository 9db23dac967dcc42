"""From receivers of a route file to channels: what is served, what is named as not, and by whom it is told."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest

from collector.config.routefiles import load
from collector.config.settings import Settings
from collector.model.errors import ProblemsError
from collector.model.secret import Secret
from collector.wiring import audience, targets
from tests.unit.channels.conftest import make_notification


@pytest.fixture
def routing(tmp_path):
    """Makes the routing of a file with these targets in its one receiver."""

    def made(text: str, more: str = ""):
        path = tmp_path / "routes.yaml"
        path.write_text(f"route: {{receiver: all}}\nreceivers:\n- name: all\n{text}{more}", encoding="utf-8")
        return load(str(path))

    return made


HOOK = "https://discord.com/api/webhooks/123456789012345678/abcdefghij_ABCDEFGHIJ-012345678901234567890"
FLOW = (
    "https://prod-15.uksouth.logic.azure.com:443/workflows/3XXX5/triggers/manual/paths/invoke"
    "?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=iXXXU"
)
SLACK = "T0123ABCD/B0123ABCD/abcdefghij0123456789ABCD"
MAIL = "to: 'a@example.org, b@example.org', from: c@example.org, smarthost: 'mail:587'"
BOT = "123456789:ABCdefGhIJKlmNoPQRsTUVwxyZabcdefghi"
KEY = "0123456789abcdef0123456789abcdef"
# kind → as it is written, and the URL that it becomes
SERVED = {
    "slack": (
        f"{{api_url: 'https://hooks.slack.com/services/{SLACK}', channel: '#a'}}",
        f"https://hooks.slack.com/services/{SLACK}",
    ),
    "discord": (f"{{webhook_url: '{HOOK}'}}", f"{HOOK}?wait=true"),
    "telegram": (
        f"{{bot_token: '{BOT}', chat_id: -100123, message_thread_id: 7}}",
        f"https://api.telegram.org/bot{BOT}/sendMessage",
    ),
    "email": (
        f"{{{MAIL}, auth_username: u@x, auth_password: 'p/w', require_tls: true}}",
        "mailtos://u%40x:p%2Fw@mail:587/?from=c@example.org&to=a@example.org%2C%20b@example.org&mode=starttls",
    ),
    "pagerduty": (f"{{routing_key: {KEY}}}", "https://events.pagerduty.com/v2/enqueue"),
    "opsgenie": ("{api_key: a-1, api_url: 'https://api.eu.opsgenie.com/'}", "opsgenie://a-1/?region=eu"),
    "msteamsv2": (f"{{webhook_url: '{FLOW}'}}", FLOW),
    "pushover": (f"{{user_key: {KEY[:30]}, token: {KEY[:30]}}}", f"pover://{KEY[:30]}@{KEY[:30]}"),
    "opsgenie with more": (
        "{api_key: a-1, priority: P2, tags: 'a,b', details: {k: v}, responders: [{name: ops, type: team}]}",
        "opsgenie://a-1/%23ops?priority=P2&tags=a%2Cb&+k=v",
    ),
    "victorops": ("{api_key: 01234567-89ab, routing_key: team}", "splunk://team@01234567-89ab"),
    "mattermost": ("{webhook_url: 'http://h/hooks/x', channel: town}", "http://h/hooks/x"),
    "rocketchat": ("{api_url: 'http://h/', token: t, token_id: i, channel: a}", "http://h/api/v1/chat.postMessage"),
    "webex": (
        "{room_id: r, http_config: {authorization: {credentials: t}}}",
        "https://webexapis.com/v1/messages",
    ),
    "incidentio": ("{url: 'http://h/v2/alert_events', alert_source_token: t}", "http://h/v2/alert_events"),
    "apprise": ("{url: 'json://localhost:1/x'}", "json://localhost:1/x"),
    "alertmanager": ("{url: 'http://h:9093/am/'}", "http://h:9093/am/api/v2/alerts"),
}


@pytest.mark.parametrize("kind", SERVED)
def test_served(routing, kind: str) -> None:
    """Each kind becomes a channel to the same service, with the same address."""
    written, url = SERVED[kind]
    made = routing(f"  {kind.split(maxsplit=1)[0]}_configs: [{written}]\n")
    (config,), told = targets.understood(made)
    assert [target.name for target in told["all"]] == [config.name]
    assert targets.undone(made) == []
    assert config.url.reveal() == url


def test_an_alertmanager_hears_of_ends(routing) -> None:
    """Whatever the file says: there is nobody else to tell an Alertmanager that an alert has ended."""
    _, told = targets.understood(routing("  alertmanager_configs: [{url: 'http://h:9093', send_resolved: false}]\n"))
    assert [target.send_resolved for target in told["all"]] == [True]


def test_a_webhook_takes_its_headers_along(routing, tmp_path) -> None:
    """Basic auth, bearer tokens, also out of files beside the route file, and own headers are sent; so is the bound."""
    (tmp_path / "token").write_text("hunter2\n")
    made = routing("""  webhook_configs:
  - {url: 'http://h:1/a', max_alerts: 7, timeout: 3s, http_config: {basic_auth: {username: u, password: p}}}
  - {url: 'http://h:1/b', send_resolved: false, http_config: {authorization: {credentials_file: token}}}
  - {url_file: url, http_config: {http_headers: {X-Team: {values: [a], secrets: [b]}}}}
""")
    (tmp_path / "url").write_text("http://h:1/c\n")
    one, two, three = targets.understood(made)[0]
    assert (one.max_alerts, one.timeout_seconds) == (7, 3)
    assert one.headers["Authorization"].reveal() == f"Basic {base64.b64encode(b'u:p').decode()}"
    assert two.headers["Authorization"].reveal() == "Bearer hunter2"
    assert (three.url.reveal(), three.headers["X-Team"].reveal()) == ("http://h:1/c", "a, b")
    assert [target.send_resolved for target in targets.understood(made)[1]["all"]] == [True, False, True]


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("sns_configs: [{topic_arn: x}]", "sns://"),
        ("wechat_configs: [{api_secret: x, corp_id: y}]", "wecombot://"),
        ("webex_configs: [{room_id: x, http_config: {follow_redirects: true}}]", "http_config.authorization"),
        ("jira_configs: [{project: x, issue_type: y, api_url: 'http://h/'}]", "`webhook_configs`"),
        ("msteams_configs: [{webhook_url: 'http://h/hunter2'}]", "`msteamsv2_configs`"),
        ("pagerduty_configs: [{service_key: hunter2}]", "`routing_key`"),
        ("slack_configs: [{app_token: hunter2}]", "`channel`"),
        ("apprise_configs: [{url: 'nonsense://hunter2@h'}]", "nonsense://"),
    ],
)
def test_not_served(routing, written: str, instead: str) -> None:
    """What cannot be served is named by `check`, and refused at start, with its place and what to write instead."""
    made = routing(f"  {written}\n")
    with pytest.raises(ProblemsError) as refused:
        targets.understood(made)
    (problem,) = refused.value.problems
    assert targets.undone(made) == [problem]
    assert (problem.line, instead in problem.message, "hunter2" in problem.message) == (4, True, False)


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("{{ .Foo }}", ["can't evaluate field Foo in type template.Data"]),
        ("{{ range .Alerts }}{{ .Foo }}{{ end }}", ["can't evaluate field Foo in type template.Alert"]),
        ("{{ .CommonLabels.foo }} {{ len .Alerts.Firing }} {{ (index .Alerts 0).StartsAt.Unix }}", []),
        ("{{ index .Alerts 7 }}", []),
    ],
)
def test_a_template_that_asks_for_what_no_message_has_is_named(routing, title: str, said: list[str]) -> None:
    """By `check`, where its place is known; what depends on the alerts is left to them, and nobody is kept from it."""
    made = routing(f"  slack_configs: [{{api_url: 'https://hooks.slack.com/services/A/B/C', title: '{title}'}}]\n")
    assert [one.message.rpartition(": ")[2] for one in targets.undone(made)] == said
    assert len(targets.understood(made)[0]) == 1


def test_what_has_no_effect_is_named(routing) -> None:
    """Options that are read and not used are named one by one; those of a target that is served hinder nobody."""
    made = routing("""  webhook_configs:
  - {url: 'http://h:1/', payload: {a: b}, http_config: {proxy_url: 'http://p', follow_redirects: false}}
  pushover_configs:
  - user_key: uQiRzpo4DXghDmr9QzzfQu27cmVRsG
    token: azGDORePK8gMaC0QOYAMyEEuzJnyUi
    html: true
    sound: '{{ .Status }}'
""")
    assert [problem.message.split()[0] for problem in targets.undone(made)] == [
        "`proxy_url`",
        "`follow_redirects`",
        "`html`",
        "`sound`",
    ]
    assert len(targets.understood(made)[0]) == 2


def test_a_secret_file_that_is_missing(routing) -> None:
    """At start it is a problem that names the file; `check` looks into no secret file."""
    made = routing("  apprise_configs: [{url_file: missing}]\n")
    assert targets.undone(made) == []
    with pytest.raises(ProblemsError, match="missing"):
        targets.understood(made)


def test_one_place_in_two_receivers(routing) -> None:
    """The same target is one channel; where its options differ there are two, told apart by the receiver's name."""
    more = """- name: same
  webhook_configs: [{url: 'http://h:1/', send_resolved: false}]
- name: other
  webhook_configs: [{url: 'http://h:1/', max_alerts: 5}]
"""
    configs, told = targets.understood(routing("  webhook_configs: [{url: 'http://h:1/'}]\n", more))
    assert len(configs) == 2
    assert told["all"][0].name == told["same"][0].name != told["other"][0].name
    assert [told[name][0].send_resolved for name in ("all", "same", "other")] == [True, False, True]


def test_one_place_in_many_words(routing) -> None:
    """Targets that differ in their words alone are each told, in one receiver, too."""
    url = "https://hooks.slack.com/services/T0123ABCD/B0123ABCD/abcdefghij0123456789ABCD"
    each = ", ".join(f"{{api_url: '{url}', text: '{number}'}}" for number in (1, 2, 3, 1))
    configs, told = targets.understood(routing(f"  slack_configs: [{each}]\n"))
    assert len(configs) == len(told["all"]) == len({config.name for config in configs}) == 3


def test_notify_adds_to_the_default_receiver(routing) -> None:
    """`--notify` targets are told by the receiver at the top, beside its own; without a file by the built-in one."""
    path = routing("  webhook_configs: [{url: 'http://h:1/'}]\n", "- name: other\n").path
    both = audience.understood(Settings(routes=path, notify=(Secret("log:"),)))
    assert [target.name for target in both.receivers["all"]][1:] == ["log"]
    assert both.receivers["other"] == []
    assert [config.name for config in both.configs] == ["log", both.receivers["all"][0].name]
    alone = audience.understood(Settings(notify=(Secret("log:"),)))
    assert [target.name for target in alone.receivers["default"]] == ["log"]
    assert alone.routing is None


def test_words_of_the_file(routing, tmp_path) -> None:
    """An apprise target with a title of its own is served in these words, and one with a broken one is refused."""
    written = "  apprise_configs: [{url: 'json://h:1/', title: '%s'}, {url: 'json://h:1/'}]\n"
    configs, told = targets.understood(routing(written % "{{ .Status }}"))
    assert [config.description.endswith("in words of the routes file") for config in configs] == [True, False]
    assert len(told["all"]) == 2
    (problem,) = targets.undone(routing(written % "{{ .Status"))
    assert "`title` is no template" in problem.message


WORDS = """  slack_configs:
  - api_url: https://hooks.slack.com/services/T0123ABCD/B0123ABCD/abcdefghij0123456789ABCD
    title: '{{ template "team.title" . }}'
  email_configs:
  - to: a@example.org
    from: c@example.org
    smarthost: mail:587
    text: '{{ .Status }}'
    html: '<b>{{ .CommonLabels.n }}</b>'
    headers: {subject: 'about {{ .Receiver }}', X-Team: a}
templates: ['*.tmpl']
"""


def test_templates_beside_the_file(routing, tmp_path) -> None:
    """Files behind `templates` are read with Alertmanager's own, and what they define is used."""
    (tmp_path / "a.tmpl").write_text('{{ define "team.title" }}{{ template "slack.default.title" . }}!{{ end }}')
    made = routing(WORDS)
    assert targets.undone(made) == []
    mail, slack = (targets.understood(made)[0][number] for number in (0, 1))
    told = msgspec.structs.replace(make_notification(), common_labels=(("alertname", "DeadLetter"), ("n", "<1>")))
    attached = json.loads(slack.preview(told))["attachments"][0]
    assert attached["title"] == "[FIRING:1] DeadLetter (<1>)!"
    assert mail.inner.url.reveal().endswith("&%2BX-Team=a") or mail.inner.url.reveal().endswith("&+X-Team=a")
    assert mail.preview(told) == "about default\n<b>&lt;1&gt;</b>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{{ define "team.title" }}{{ nonsense }}{{ end }}', "a.tmpl:1:29: this is no template: function `nonsense`"),
        (
            '{{ define "team.title" }}{{ template "x" }}{{ end }}',
            'a.tmpl:1:1: it includes the template "x", which nobody',
        ),
        ('{{ define "other" }}{{ end }}', 'includes the template "team.title", which nobody defines'),
    ],
)
def test_templates_that_are_none(routing, tmp_path, text, message) -> None:
    """What is wrong with them is found by `check` and refused at start, at its place."""
    (tmp_path / "a.tmpl").write_text(text)
    made = routing(WORDS)
    assert message in "\n".join(map(str, targets.undone(made)))
    with pytest.raises(ProblemsError) as refused:
        targets.understood(made)
    assert message in str(refused.value)
