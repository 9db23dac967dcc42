"""Titles and bodies of a routes file: templates with Alertmanager's data."""

from __future__ import annotations

import pytest

from collector.model.errors import ChannelError
from collector.wiring import ownwords
from tests.unit.channels.conftest import make_notification


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ .Status | toUpper }} {{ .GroupLabels.alertname }}", "FIRING DeadLetter"),
        ("{{ range .Alerts }}{{ .Labels.n }}:{{ .Annotations.summary }} {{ end }}", "0:a dead letter 1:a dead letter "),
        ("{{ len .Alerts.Firing }}/{{ len .Alerts.Resolved }} {{ .Receiver }} {{ .ExternalURL }}", "2/0 default http://mon:9810"),
        ("{{ (index .Alerts 0).StartsAt }}|{{ .CommonLabels.nothing }}", "2026-09-21 14:13:20.25 +0000 UTC|"),
        ('{{ (index .Alerts 0).StartsAt.Format "15:04" }} {{ (index .Alerts 0).EndsAt.IsZero }}', "14:13 true"),
        ("{{ range .GroupLabels.SortedPairs }}{{ .Name }}={{ .Value }};{{ end }}", "alertname=DeadLetter;"),
        ('{{ .GroupLabels.Values | join "," }} {{ .CommonLabels.SortedPairs.Names | len }}', "DeadLetter 2"),
        ("hear: {{ .Title }}", "hear: [FIRING] DeadLetter (page, owner payments)"),
    ],
)  # fmt: skip
def test_data(template, text):
    """A template sees Alertmanager's data, and our own title and text."""
    assert ownwords.compiled(template, None).said(make_notification(count=2)).title == text


def test_a_template_that_fails():
    """Our own text stands in the place of one that fails, with what failed; the other is expanded all the same."""
    told = make_notification()
    said = ownwords.compiled("{{ .Nothing }}", "in short: {{ .Status }}").said(told)
    assert said.title == told.title
    assert said.text.startswith("in short: firing\n(the template of `title` failed: 1:")


def test_only_one_of_them():
    """What is not written stays ours."""
    told = make_notification()
    assert ownwords.compiled(None, "x").said(told).title == told.title
    assert ownwords.compiled(None, None) is None


def test_no_template():
    """What does not parse is refused when it is read, with its place."""
    with pytest.raises(ChannelError, match="`body` is no template: 1:"):
        ownwords.compiled(None, "{{ .Status ")
