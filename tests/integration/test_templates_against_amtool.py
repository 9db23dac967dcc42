"""Templates of routing files beside `amtool template render`: the same text for the same data."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from collector.channels import webhook
from collector.gotext.defaults import DEFAULTS
from collector.model.alert import Notification
from collector.wiring import ownwords
from tests import alertmanager
from tests.unit.channels.conftest import make_notification

pytestmark = pytest.mark.slow

FILE = """{{ define "team.title" }}{{ .Status | title }} {{ template "inner" .GroupLabels }}{{ end }}
{{ define "inner" }}<{{ range .SortedPairs }}{{ .Name }}={{ .Value }}{{ end }}>{{ end }}
{{ define "slack.default.footer" }}ours{{ end }}
{{ define "slack.default.title" }}  {{ end }}
on top
"""
TEXTS = [
    '{{ template "slack.default.title" . }}',
    '{{ template "slack.default.fallback" . }}',
    '{{ template "slack.default.footer" . }}',
    '{{ template "pagerduty.default.instances" .Alerts.Firing }}',
    '{{ template "opsgenie.default.description" . }}',
    '{{ template "pushover.default.message" . }}',
    '{{ template "telegram.default.message" . }}',
    '{{ template "discord.default.message" . }}',
    '{{ template "victorops.default.state_message" . }}',
    '{{ template "team.title" . }} {{ template "a.tmpl" . }}',
    "{{ with .CommonLabels.Remove .GroupLabels.Names }}{{ .Values | join `, ` }}{{ end }}",
    '{{ range .Alerts }}{{ .Labels.n }}: {{ .Annotations.summary }} {{ .StartsAt.Format "15:04:05" }}\n{{ end }}',
    "{{ (index .Alerts 0).Labels.SortedPairs.Names | join `+` }}{{ .Alerts.Resolved | len }}",
    '{{ if eq .Status "firing" }}danger{{ else }}good{{ end }} {{ .CommonAnnotations.nothing }}',
    '{{ reReplaceAll "e(.)" "<$1>" .CommonAnnotations.summary }} {{ .ExternalURL | urlquery }}',
]
PAGES = [
    "<b>{{ .CommonAnnotations.summary }}</b>",
    "{{ .CommonLabels.task | safeHtml }} & {{ .CommonLabels.task }}",
    "{{ range .Alerts }}<li>{{ .Labels.n }} {{ .Annotations.summary }}</li>{{ end }}",
    '{{ template "telegram.default.message" . }}',
]


def told(status: str) -> Notification:
    """A notification whose values hold what escaping is about."""
    made = make_notification(status, 3)
    summary = (("summary", 'a <dead> & "late" letter\'s + end'),)
    alerts = tuple(msgspec.structs.replace(alert, annotations=summary) for alert in made.alerts)
    labels = (("alertname", "DeadLetter"), ("task", "pay<settle>"), ("zone", "1"))
    return msgspec.structs.replace(made, alerts=alerts, common_labels=labels, common_annotations=summary)


@pytest.mark.parametrize("status", ["firing", "resolved"])
def test_the_same_texts(tmp_path: Path, status: str) -> None:
    """Templates of one's own and Alertmanager's defaults give what Alertmanager makes of them; HTML is escaped."""
    amtool = alertmanager.program("amtool")
    (tmp_path / "a.tmpl").write_text(FILE)
    (tmp_path / "_.tmpl").write_text(DEFAULTS)  # which the older amtool does not bring along
    (tmp_path / "data.json").write_bytes(webhook.body(told(status)))
    library = ownwords.templates_of(str(tmp_path / "routes.yaml"), ["*.tmpl"])

    def theirs(kind: str, text: str) -> str:
        where = [f"--template.glob={tmp_path}/*.tmpl", f"--template.data={tmp_path / 'data.json'}"]
        call = [amtool, "template", "render", *where, f"--template.type={kind}", f"--template.text={text}"]
        done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip("\n")  # of which some versions add one

    cases = [("text", text) for text in TEXTS] + [("html", text) for text in PAGES]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda case: theirs(*case), cases))
    for (kind, text), answer in zip(cases, answers, strict=True):
        pages = frozenset(("text",) if kind == "html" else ())
        words = ownwords.of_options({"text": text}, library, body="text", pages=pages)
        assert words is not None
        said = words.said(msgspec.structs.replace(told(status), text=""))
        assert json.dumps(said.text.rstrip("\n")) == json.dumps(answer), text
