"""`notify test` for the receivers of a routes file, and what would be sent without sending it."""

from __future__ import annotations

import json

import pytest

from collector.cli.main import main

ROUTES = """
route: {receiver: chat}
receivers:
- name: chat
  slack_configs: [{api_url: 'http://127.0.0.1:1/services/S3CR3T'}]
  telegram_configs: [{bot_token: '1:S3CR3T', chat_id: -5, api_url: 'http://127.0.0.1:1'}]
- name: call
  pagerduty_configs: [{routing_key: S3CR3T, url: 'http://127.0.0.1:1/v2/enqueue'}]
  alertmanager_configs: [{url: 'http://127.0.0.1:1'}]
  webhook_configs: [{url: 'http://127.0.0.1:1/S3CR3T'}]
  apprise_configs: [{url: 'json://127.0.0.1:1/S3CR3T'}]
"""


@pytest.fixture
def routes(tmp_path):
    """A routes file of two receivers at which nobody listens."""
    path = tmp_path / "routes.yaml"
    path.write_text(ROUTES, encoding="utf-8")
    return str(path)


def test_preview_of_all(routes, capsys):
    """Without names every target of every receiver is shown, each with its three messages, and no secret."""
    assert main(["notify", "test", "--routes", routes, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "S3CR3T" not in shown
    assert [shown.count(f"  {kind}:\n") for kind in ("firing", "resolved", "summary")] == [6, 6, 6]
    for word in ("<b>[FIRING]", '"event_action": "trigger"', '"startsAt"', '"groupKey"', '"mrkdwn": false'):
        assert word in shown


@pytest.mark.parametrize("order", [("call", "--routes"), ("--routes", "call")])
def test_preview_of_one_is_what_is_sent(order, routes, capsys):
    """The preview of a webhook is its whole JSON, under the receiver's name, which may stand behind the options."""
    named = [part for word in order for part in ((word, routes) if word == "--routes" else (word,))]
    assert main(["notify", "test", *named, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    body = shown.partition("call: webhook+")[2].partition("  firing:\n")[2].partition("  resolved:\n")[0]
    assert json.loads(body)["receiver"] == "call"
    assert "slack" not in shown


def test_sending_says_what_became_of_it(routes, capsys):
    """Where nobody listens each message is told as not taken, and the exit code is 1."""
    assert main(["notify", "test", "chat", "--routes", routes]) == 1
    assert capsys.readouterr().out.count("not taken") == 6


@pytest.mark.parametrize(
    ("arguments", "says"), [(["nobody"], "nobody"), ([], "no target"), (["x", "--routes", "/missing"], "/missing")]
)
def test_wrong_calls(arguments, says, routes, capsys):
    """A receiver that there is not, no target at all, and a file that there is not are wrong calls."""
    routed = ["--routes", routes] if arguments == ["nobody"] else []
    assert main(["notify", "test", *arguments, *routed]) == 2
    assert says in capsys.readouterr().err
