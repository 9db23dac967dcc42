"""`tasktrail routes`, and the other commands with a routes file: what is printed, and the exit codes."""

from __future__ import annotations

import json

import pytest

from collector.cli.main import main
from tests.unit.parts import FAILING, T0, event

ROUTES = """route:
  receiver: default
  group_wait: 0s
  group_interval: 10s
  routes:
  - {matchers: ['severity="page"'], receiver: pager, continue: true, group_by: [alertname]}
  - {matchers: ['owner=~"pay.*"'], receiver: payments, escalate: [{after: 5m, receiver: pager}]}
receivers: [{name: default}, {name: pager}, {name: payments}]
"""
TREE = """Routing tree:
.
└── default-route  receiver: default
    ├── {severity="page"}  continue: true  receiver: pager
    └── {owner=~"pay.*"}  receiver: payments

"""


@pytest.fixture
def call(capsys):
    """Calls a command; gives exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(one) for one in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def routes(tmp_path):
    """A routes file."""
    path = tmp_path / "routes.yaml"
    path.write_text(ROUTES)
    return path


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        (("severity=page", "owner=payments"), "pager,payments"),
        (("severity=info",), "default"),
        ((), "default"),
        (("owner=x", 'owner="payroll"'), "payments"),
    ],
)
def test_receivers(call, routes, labels, receivers) -> None:
    """The receivers are printed in order, with commas; of a label that is given twice the last counts."""
    assert call("routes", "test", "--routes", routes, *labels) == (0, f"{receivers}\n", "")


def test_receivers_as_json(call, routes) -> None:
    """With each route's place, timers and the group that the alert would be in."""
    code, out, _ = call("routes", "test", "--json", "--routes", routes, "severity=page", "alertname=A")
    (found,) = json.loads(out)["routes"]
    assert code == 0
    assert (found["receiver"], found["matchers"], found["group_interval"]) == ("pager", ['severity="page"'], 10)
    assert found["group_key"] == '{}/{severity="page"}:{alertname="A"}'
    assert found["place"] == f"{routes}:6:5"


def test_verify(call, routes) -> None:
    """Where other receivers are expected the exit code is 1."""
    assert call("routes", "test", "--routes", routes, "--verify", "pager,default", "severity=page")[0] == 1
    assert call("routes", "test", "--routes", routes, "--verify", "pager", "severity=page")[0] == 0


def test_show(call, routes) -> None:
    """The tree as amtool draws it; as JSON with all that a route has."""
    assert call("routes", "show", "--routes", routes) == (0, TREE, "")
    tree = json.loads(call("routes", "show", "--json", "--routes", routes)[1])
    assert tree["routes"][1]["escalate"] == [{"after": 300, "receiver": "pager"}]
    assert tree["routes"][0]["group_wait"] == 0


def test_without_a_file(call, tmp_path, routes) -> None:
    """The built-in route holds, or the file that the configuration names."""
    assert call("routes", "test", "a=b")[1] == "default\n"
    config = tmp_path / "tasktrail.yaml"
    config.write_text(f"routes: {routes}\n")
    assert call("routes", "test", "-c", config, "owner=payments")[1] == "payments\n"


def test_wrong(call, tmp_path, routes) -> None:
    """A file with problems is 1, with all of them; one that is not there, and what is no label, is 2."""
    broken = tmp_path / "broken.yaml"
    broken.write_text(ROUTES.replace("receiver: pager,", "receiver: pagr,").replace("10s", "soon"))
    code, out, err = call("routes", "test", "--routes", broken)
    assert (code, out, err.count("broken.yaml:")) == (1, "", 2)
    assert call("routes", "show", "--routes", tmp_path / "missing.yaml")[0] == 2
    for label in ("a", "a!=b", "{a=b}"):
        assert call("routes", "test", "--routes", routes, label)[0] == 2


def test_an_answer_in_spite_of_what_cannot_be_done(call, routes) -> None:
    """A file that asks for a target that is not served is answered for all the same, and the target is named."""
    jira = "jira_configs: [{project: P, issue_type: Bug, api_url: 'http://h/'}]"
    routes.write_text(ROUTES.replace("{name: pager}", f"{{name: pager, {jira}}}"))
    code, out, err = call("routes", "test", "--routes", routes, "severity=page")
    assert (code, out) == (0, "pager\n")
    assert f"{routes}:8:" in err
    assert "`jira_configs` is not served" in err
    assert call("check", routes)[0] == 1


def test_check(call, routes) -> None:
    """Routes that no alert reaches are findings; receivers that nobody uses are remarks."""
    assert call("check", routes)[:2] == (0, "1 file, no problem\n")
    routes.write_text(ROUTES.replace("receivers: [", "receivers: [{name: lonely}, "))
    code, out, _ = call("check", routes)
    assert (code, f"{routes}:8:13: no route names the receiver `lonely`" in out) == (0, True)
    for label, count in (("queu", 1), ("queue", 0), ("severity", 0), ("customer", 0)):
        routes.write_text(ROUTES.replace("group_by: [alertname]", f"group_by: [{label}]"))
        code, out, _ = call("check", routes)
        assert (code, out.count(f"a label `{label}`: did you mean")) == (0, count)
    routes.write_text(
        ROUTES.replace("continue: true", "continue: false").replace("pay.*", "x").replace("owner", "severity")
    )
    assert call("check", routes)[0] == 0
    routes.write_text(ROUTES.replace("  - {matchers: ['owner", "  - {matchers: ['severity=page', 'owner").replace(
        "continue: true", "continue: false"))  # fmt: skip
    code, _, err = call("check", routes)
    assert (code, f"{routes}:7:5: no alert reaches this route" in err) == (1, True)


@pytest.fixture
def events(tmp_path):
    """A failure."""
    path = tmp_path / "events.ndjson"
    path.write_bytes(event("failed", "1", T0 + 1) + b"\n" + event("sent", "2", T0 + 60))
    (tmp_path / "rules.yaml").write_text(FAILING.replace("owner: me", "owner: payments"))
    return path


def test_replay(call, tmp_path, routes, events) -> None:
    """Notifications are recorded for each receiver that the file gives the alert to, grouped as it says."""
    code, out, _ = call("replay", events, "--rules", tmp_path / "rules.yaml", "--routes", routes, "--json")
    said = json.loads(out)["notifications"]
    assert code == 0
    assert sorted((one["receiver"], one["status"]) for one in said) == [
        ("pager", "firing"),
        ("pager", "resolved"),
        ("payments", "firing"),
        ("payments", "resolved"),
    ]
    assert {tuple(one["group_labels"]) for one in said} == {("alertname",), ()}
    assert call("replay", events, "--routes", tmp_path / "missing.yaml")[0] == 2


TESTS = """rule_files: [rules.yaml]
route_file: routes.yaml
evaluation_interval: 5s
tests:
  - input_events: [{at: 1s, kind: failed, task_id: a, task: t, queue: q}]
    notification_test:
      - eval_time: 1m
        receiver: %s
        exp_notifications:
          - {at: 5s, status: firing, group_labels: {alertname: Failing}}
          - {status: resolved}
      - {eval_time: 1m, receiver: default}
"""


def test_rule_tests_go_by_a_routes_file(call, tmp_path, routes, events) -> None:
    """`notification_test` names receivers of the file; one that it does not have is a problem, as is a missing file."""
    path = tmp_path / "some_test.yaml"
    path.write_text(TESTS % "pager")
    assert call("test", path) == (0, f"ok    {path}: unnamed#0 (2 cases)\n2 passed, 0 failed\n", "")
    assert call("check", path)[0] == 0
    path.write_text(TESTS % "pagers")
    code, _, err = call("test", path)
    assert (code, f"{path}:8:19: unknown receiver `pagers`: did you mean `pager`?" in err) == (1, True)
    routes.unlink()
    code, _, err = call("check", path)
    assert (code, f"{path}:2:13: there is no file `routes.yaml`" in err) == (1, True)
