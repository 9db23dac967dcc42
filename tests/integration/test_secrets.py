"""No secret of any configured target or source is printed, served or told to others, whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.process import free_port
from tests.fakes.chat import Chat
from tests.integration.live import ROOT, Daemon, died, hook, ndjson

MARK = "S3CR3T"
MODES = ("401", "429", "500", "400", "hang")

ROUTES = """
global: {{smtp_from: a@example.org, smtp_smarthost: '127.0.0.1:{mail}', smtp_require_tls: false}}
route: {{receiver: told, group_wait: 0s, group_interval: 1s, routes: [{{receiver: all, continue: true}},
  {{receiver: files, continue: true}}, {{receiver: lost, continue: true}}, {{receiver: told}}]}}
receivers:
- name: told
- name: all
  slack_configs:
  - {{api_url: '{base}/slack/services/S3CR3Ta/S3CR3Tb/S3CR3Tc'}}
  - {{app_token: xoxb-S3CR3Td, app_url: '{base}/slack/api/chat.postMessage', channel: C1}}
  discord_configs: [{{webhook_url: '{base}/discord/api/webhooks/S3CR3Te/S3CR3Tf'}}]
  telegram_configs: [{{bot_token: '12:S3CR3Tg', chat_id: -1, api_url: '{base}/telegram'}}]
  pagerduty_configs: [{{routing_key: S3CR3Th, url: '{base}/pagerduty/v2/enqueue'}}]
  alertmanager_configs: [{{url: '{base}/S3CR3Ti', http_config: {{basic_auth: {{username: u, password: S3CR3Tj}}}}}}]
  webhook_configs:
  - {{url: 'http://u:S3CR3Tk@127.0.0.1:{port}/S3CR3Tl?token=S3CR3Tm'}}
  - {{url: '{base}/x', http_config: {{authorization: {{credentials: S3CR3Tn}}}}}}
  email_configs: [{{to: b@example.org, auth_username: me, auth_password: S3CR3To}}]
  apprise_configs:
  - {{url: 'ntfy://me:S3CR3Tp@127.0.0.1:{port}/ops'}}
  - {{url: 'ntfy://me:S3CR3Tq@127.0.0.1:{port}/ops?priority=high'}}
  - {{url: 'json://me:S3CR3Tr@127.0.0.1:{port}/S3CR3Ts?+X-Key=S3CR3Tt'}}
- name: files
  apprise_configs: [{{url_file: apprise}}]
  webhook_configs: [{{url_file: webhook, http_config: {{bearer_token_file: bearer}}}}]
  discord_configs: [{{webhook_url_file: discord}}]
  pagerduty_configs: [{{routing_key_file: key, url: '{base}/pagerduty/v2/enqueue'}}]
- name: lost
  webhook_configs:
  - {{url: 'http://u:S3CR3Tu@127.0.0.1:{closed}/S3CR3Tv'}}
  - {{url: 'http://S3CR3Tw:x@nowhere.invalid/S3CR3Tx'}}
  slack_configs: [{{api_url: 'http://nowhere.invalid/services/S3CR3Ty'}}]
  opsgenie_configs: [{{api_key: S3CR3Tz}}]
  pushover_configs: [{{user_key: S3CR3Tabcdefghijklmnopqrstuvw0, token: S3CR3Tabcdefghijklmnopqrstuvw1}}]
  apprise_configs: [{{url: 'json://me:S3CR3T1@nowhere.invalid/S3CR3T2'}}]
"""
FILES = {
    "apprise": "json://me:S3CR3T3@127.0.0.1:{port}/S3CR3T4",
    "webhook": "{base}/S3CR3T5",
    "bearer": "S3CR3T6",
    "discord": "{base}/discord/api/webhooks/S3CR3T7/S3CR3T8",
    "key": "S3CR3T9",
    "token": "S3CR3T0",
}
CONFIG = """
log: {{level: debug, format: {form}}}
routes: routes.yaml
rules: [shipped, rules.yaml]
notify: ['{told}', 'webhook+http://127.0.0.1:{port}/S3CR3TA']
sources:
- redis-stream://:S3CR3TB@127.0.0.1:{closed}/0/s
- amqp://user:S3CR3TC@127.0.0.1:{closed}/v/queue/q
"""
RULES = """
groups:
- name: wrong
  rules:
  - alert: BadTemplate
    expr: increase(task_dead_lettered_total[5m]) > 0
    labels: {severity: page, owner: payments}
    annotations: {summary: '{{ index .Nothing 3 }} {{ query "x" | first }}', runbook_url: /runbooks/dead-letters}
"""
PAGES = (
    "/", "/metrics", "/api/sources", "/api/v1/alerts", "/api/v1/rules", "/api/v1/status/buildinfo", "/-/ready",
    "/api/tasks/d1", "/runbooks/dead-letters", "/api/v2/status", "/api/v2/receivers", "/api/v2/alerts", "/nowhere",
    "/api/v1/query?query=tasktrail_notifications_total", "/api/v1/series?match[]={__name__=~%22tasktrail.*%22}",
)  # fmt: skip

# every library may say what it likes, as in the worst of debugging
LOUD = """
import logging, sys
from collector.cli import run
quiet = run.log_to_stderr
def loud(wanted):
    quiet(wanted)
    logging.getLogger().setLevel(logging.DEBUG)
run.log_to_stderr = loud
from collector.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


class Loud(Daemon):
    """A daemon whose libraries log all they have, with a configuration file."""

    def __init__(self, folder: Path, script: str = LOUD) -> None:
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log_path = folder / "daemon.log"
        proxies = dict.fromkeys(("https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")  # nothing leaves the machine
        arguments = ["run", "-c", "config.yaml", "--listen", f"127.0.0.1:{self.port}", "--state", "none"]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", script, *arguments],
                cwd=folder,
                env={**os.environ, **proxies, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )


def plant(folder: Path, chat: Chat, told: str, form: str = "text") -> None:
    """Write all files, with their secrets."""
    closed = free_port()
    known = {"base": chat.base, "port": chat.port, "mail": chat.mail_port, "closed": closed}
    (folder / "routes.yaml").write_text(ROUTES.format(**known), encoding="utf-8")
    (folder / "rules.yaml").write_text(RULES, encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG.format(**known, told=told, form=form), encoding="utf-8")
    for name, text in FILES.items():
        (folder / name).write_text(text.format(**known), encoding="utf-8")


def shown(text: str) -> list[str]:
    """The secrets in a text, each with what stands around it."""
    return sorted(set(re.findall(rf".{{0,60}}{MARK}\w*.{{0,20}}", text)))


@pytest.mark.case("K11.1")
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_nothing_shows_a_secret(mode, tmp_path):
    """Logs of all libraries at DEBUG, every page, the metrics and what other targets are told hold no secret."""
    chat = Chat()
    await chat.start()
    services = ("slack", "discord", "telegram", "pagerduty", "ntfy", "mail")
    for service in services:
        chat.moods[service] = [mode] * 1_000
    with hook() as told:
        plant(tmp_path, chat, told.url, form="json" if mode == "500" else "text")
        daemon = Loud(tmp_path)
        try:
            await asyncio.to_thread(daemon.wait, lambda: daemon.ask("/-/healthy")[0] == 200, 30, "it is not up")
            await asyncio.to_thread(daemon.ask, "/v1/events", ndjson(died("d1", password=MARK + "ignored")))
            needed = 3 if mode == "hang" else 6
            done = lambda: len(told.got) >= 2 and daemon.log.count("target ") > 20 + needed  # noqa: E731
            await asyncio.to_thread(daemon.wait, done, 40, "the targets were not tried")
            answers = [(page, await asyncio.to_thread(daemon.ask, page)) for page in PAGES]
            assert answers[1][1][0] == 200
            await asyncio.to_thread(daemon.stop, signal.SIGTERM, 30)
        finally:
            daemon.end()
            await chat.stop()
        assert "answered" in daemon.log or mode == "hang"
        assert shown(daemon.log) == []
        for page, (_, body) in answers:
            assert (page, shown(body.decode(errors="replace"))) == (page, [])
        assert shown(json.dumps([body for _, body in told.got])) == []


CRASH = LOUD.replace(
    "from collector.cli.main import main",
    """
from collector.channels.chat import ChatChannel
def broken(self, answer): raise RuntimeError(f"cannot use {self._config} {self._config.options} {answer}")
ChatChannel._judge = broken
from collector.cli.main import main
""",
)


@pytest.mark.case("K11.1")
@pytest.mark.slow
async def test_a_crash_shows_none(tmp_path):
    """A bug of ours that quotes the whole configuration of a target ends the daemon, and shows no secret."""
    chat = Chat()
    await chat.start()
    with hook() as told:
        plant(tmp_path, chat, told.url)
        daemon = Loud(tmp_path, CRASH)
        try:
            code = await asyncio.to_thread(daemon.process.wait, 90)  # the first that is told of the watchdog ends it
        finally:
            daemon.end()
            await chat.stop()
    assert code == 70
    assert "RuntimeError: cannot use ChatConfig" in daemon.log
    assert shown(daemon.log) == []
