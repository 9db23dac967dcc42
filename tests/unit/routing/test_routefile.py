"""What a route file becomes: routes with what they inherit, receivers with what `global` adds, what never plays."""

from __future__ import annotations

import pytest

from collector.routing import kinds
from collector.routing.routefile import load
from collector.routing.unreachable import misspelt, unreachable, unused

TREE = """
route:
  receiver: default
  group_by: [alertname]
  group_wait: 5s
  routes:
  - matchers: [team=a]
    receiver: a
    group_by: ['...']
    repeat_interval: 1d
    routes:
    - matchers: [severity=page]
      group_by: []
      mute_time_intervals: [night]
      escalate: [{after: 5m, receiver: default}]
    - match_re: {severity: info|debug}
      continue: true
receivers:
- name: default
- name: a
time_intervals:
- name: night
  time_intervals: [{times: [{start_time: '00:00', end_time: '06:00'}]}]
"""


def test_what_a_route_inherits() -> None:
    """Receiver, grouping and times come from the parent where they are not written; matchers, mutes, steps do not."""
    root = load("routes.yaml", TREE).route
    (a,) = root.routes
    page, info = a.routes
    assert (root.group_by, root.group_wait, root.group_interval, root.repeat_interval) == (
        ("alertname",),
        5,
        300,
        14400,
    )
    assert (a.receiver, a.group_by, a.group_wait, a.repeat_interval) == ("a", None, 5, 86400)
    assert (page.receiver, page.group_by, page.mute_intervals) == ("a", (), ("night",))
    assert [(step.after, step.receiver) for step in page.escalate] == [(300, "default")]
    assert (info.group_by, info.mute_intervals, info.escalate, info.continues) == (None, (), (), True)


def test_keys_are_alertmanagers() -> None:
    """A route's key is the matchers from the top down, as in Alertmanager's groupKey."""
    a = load("routes.yaml", TREE).route.routes[0]
    assert a.key == '{}/{team="a"}'
    assert a.routes[1].key == '{}/{team="a"}/{severity=~"^(?:info|debug)$"}'


GLOBAL = """
global:
  smtp_smarthost: mail:587
  smtp_from: a@example.org
  smtp_auth_password_file: /secret
  slack_api_url: https://hooks.slack.com/services/A/B/hunter2
  http_config: {proxy_url: 'http://proxy'}
route: {receiver: all}
receivers:
- name: all
  email_configs: [{to: b@example.org, auth_password: own}, {to: c@example.org, from: d@example.org}]
  slack_configs: [{channel: x}, {api_url_file: /own}]
  webhook_configs: [{url: 'http://hook/', http_config: {}}]
"""


def test_what_global_adds() -> None:
    """An option that is not written comes from `global`, unless a rival of it is; defaults are Alertmanager's."""
    receiver = load("routes.yaml", GLOBAL).receivers["all"]
    hook, one, two, slack, filed = (spec.options for spec in receiver.targets)
    assert [spec.kind for spec in receiver.targets] == ["webhook", "email", "email", "slack", "slack"]
    assert isinstance(one, kinds.Email)
    assert isinstance(two, kinds.Email)
    assert isinstance(slack, kinds.Slack)
    assert isinstance(filed, kinds.Slack)
    assert (one.smarthost, one.from_, one.auth_password_file) == ("mail:587", "a@example.org", None)
    assert one.require_tls
    assert (two.from_, two.auth_password_file) == ("d@example.org", "/secret")
    assert slack.api_url is not None
    assert slack.api_url.reveal().endswith("hunter2")
    assert (filed.api_url, filed.api_url_file) == (None, "/own")
    assert [spec.send_resolved for spec in receiver.targets] == [True, False, False, False, False]
    assert hook.http_config is not None
    assert hook.http_config.proxy_url is None
    assert slack.http_config is not None
    assert slack.http_config.proxy_url == "http://proxy"
    assert "hunter2" not in repr(receiver)


def routes(*children: str) -> str:
    """A file with these children at the top."""
    lines = "".join(f"  - {child}\n" for child in children)
    return f"route:\n  receiver: default\n  routes:\n{lines}receivers: [{{name: default}}]\n"


@pytest.mark.parametrize(
    "children",
    [
        ("{receiver: default}", "{matchers: [a=b]}"),
        ("{matchers: [a=b]}", "{matchers: [a=b]}"),
        ("{matchers: [a=~b.*]}", "{matchers: [a=bc]}"),
        ("{matchers: [a=~b.*]}", "{matchers: [a=~b.*, c=d]}"),
        ("{matchers: [a=~b.*]}", "{matchers: [a=~bc|bd]}"),
        ("{matchers: [a!=b]}", "{matchers: [a=c]}"),
        ("{matchers: [a!~b|c]}", "{matchers: [a=~d|e, a!=d]}"),
        ("{matchers: [a=b]}", "{matchers: [a=~b]}"),
        ("{matchers: [c=d]}", "{matchers: [a=b, a=c]}"),
        ("{matchers: [c=d]}", "{matchers: [a=~b|c, 'a!~[a-c]']}"),
    ],
)
def test_unreachable(children: tuple[str, ...]) -> None:
    """A route whose every alert a sibling before it takes, or whose matchers exclude one another, is found."""
    (problem,) = unreachable(load("routes.yaml", routes(*children)))
    assert str(problem).startswith("routes.yaml:5:5: no alert reaches this route: ")


@pytest.mark.parametrize(
    "children",
    [
        ("{matchers: [a=b], continue: true}", "{matchers: [a=b]}"),
        ("{matchers: [a=b]}", "{matchers: [a=c]}"),
        ("{matchers: [a=b, c=d]}", "{matchers: [a=b]}"),
        ("{matchers: [a=~b.*]}", "{matchers: [a=~b.*|c]}"),
        ("{matchers: [a=~.*]}", "{matchers: [b=c]}"),  # not where a's value has two lines
        ("{matchers: [a=~bc|bd]}", "{matchers: [a=~b.*]}"),
        ("{matchers: [a=b]}", "{receiver: default}"),
    ],
)
def test_reachable(children: tuple[str, ...]) -> None:
    """Nothing is said of a route that some alert may reach, as far as can be proven."""
    assert unreachable(load("routes.yaml", routes(*children))) == []


def test_unreachable_below() -> None:
    """What stands above a route counts, and what is below one that is not reached needs no word of its own."""
    inner = "{matchers: [a=b], routes: [{matchers: [a=c], routes: [{matchers: [d=e]}]}, {matchers: [a=~b|x]}]}"
    (problem,) = unreachable(load("routes.yaml", routes(inner)))
    assert "exclude one another" in problem.message


def test_unused() -> None:
    """Receivers and time intervals that no route names are listed; a step of an escalation names one."""
    text = TREE.replace("- name: a\n", "- name: a\n- name: lonely\n").replace(
        "- name: night", "- name: day\n- name: night"
    )
    assert [str(one) for one in unused(load("routes.yaml", text))] == [
        "routes.yaml:21:3: no route names the receiver `lonely`",
        "routes.yaml:23:3: no route names the time interval `day`",
    ]


def test_misspelt_labels_are_named_once() -> None:
    """One that is nearly a known label is named where it is written; any other may come with alerts from outside."""
    text = """route:
  receiver: a
  group_by: [alertname, tsk, customer, taks, tsak]
  routes: [{matchers: [x=y]}, {matchers: [y=z], group_by: [task, queu]}]
receivers: [{name: a}]
"""
    assert [str(one) for one in misspelt(load("routes.yaml", text), {"alertname", "task", "queue", "cluster"})] == [
        "routes.yaml:3:25: no rule or metric has a label `tsk`: did you mean `task`?",
        "routes.yaml:3:40: no rule or metric has a label `taks`: did you mean `task`?",
        "routes.yaml:3:46: no rule or metric has a label `tsak`: did you mean `task`?",
        "routes.yaml:4:66: no rule or metric has a label `queu`: did you mean `queue`?",
    ]


def test_what_is_not_done_is_named() -> None:
    """What Alertmanager has and is not done here is no problem of the file: it is named, with what to write instead."""
    text = """route: {receiver: a, routes: [{labels: {x: y}}]}
receivers: [{name: a}]
templates: ['*.tmpl']
tracing: {a: [b]}
"""
    found = load("routes.yaml", text).undone
    assert sorted((one.line, one.message.split()[0]) for one in found) == [
        (1, "`labels`"),
        (4, "`tracing`"),
    ]
