"""The parts together: alerts with their evidence, blindness, what is news and what is the past, rules read again."""

from __future__ import annotations

import math

import pytest

from collector.formats import native
from collector.model.alert import Alert, Notification
from collector.routing.grouping import Target as Receiver
from collector.shell.axis import Axis
from collector.shell.pipeline import Pipeline, matching_rows, metric_of
from collector.shell.ticker import Target
from collector.trail.rows import Rows
from tests.unit.parts import FAILING, T0, batch, event, groups, pipeline


def feed(made: Pipeline, *bodies: bytes, received_at: float = T0) -> None:
    """Count events on the sender's time, at the head."""
    made.axes[0].clock = "event"
    made.ingest.count(made.axes[0], native.decode, batch(bodies, received_at=received_at, is_head=True), math.inf)


def failed(task_id: str, at: float, **fields: object) -> bytes:
    """A final failure."""
    return event("failed", task_id, at, error="E", **fields)


def live(made: Pipeline, at: float, wall: float | None = None) -> list[Alert]:
    """Walk to an instant at a time of the wall; the alerts that changed."""
    wall = at if wall is None else wall
    return [one for changed in made.advance(Target(at, wall), wall) for one in changed]


def states(alerts: list[Alert]) -> list[tuple[str, bool]]:
    """State and blindness of alerts."""
    return [(one.state, one.blind) for one in alerts]


def test_an_alert_carries_its_evidence_while_it_is_listed() -> None:
    """Which tasks and which errors an alert is about is kept with it, also when it has ended."""
    made = pipeline()
    feed(made, failed("bad-1", T0 + 1, worker="w", attempt=2))
    (alert,) = live(made, T0 + 1)
    (offender,) = alert.evidence.offenders
    assert (offender.task_id, offender.error, offender.worker) == ("bad-1", "E", "w")
    assert alert.evidence.top_errors == (("E", 1),)
    live(made, T0 + 20)
    (listed,) = made.alerts()
    assert listed.state == "resolved"
    assert listed.evidence.offenders[0].task_id == "bad-1"


def test_evidence_is_of_the_rows_that_the_alert_is_about() -> None:
    """An alert with a task label shows tasks of that name only."""
    made = pipeline()
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1, task="b"))
    shown = {dict(one.labels)["task"]: one.evidence.offenders for one in live(made, T0 + 1)}
    assert {task: [one.task_id for one in offenders] for task, offenders in shown.items()} == {"a": ["1"], "b": ["2"]}


def test_an_alert_without_a_name_is_about_tasks_without_one() -> None:
    """Where the rule tells tasks apart by name, one without a name is not about all of them."""
    made = pipeline()
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1, task=""))
    shown = {dict(one.labels).get("task"): one.evidence for one in live(made, T0 + 7)}
    assert {task: [one.task_id for one in evidence.offenders] for task, evidence in shown.items()} == {
        "a": ["1"],
        None: ["2"],
    }


READ = "sum by (task) (increase(task_failed_total[10s]))"
EITHER = "sum by (task) (tasks_overdue > 0) or sum by (queue) (task_failed_total)"
FIRST = "topk(1, sum by (task, queue) (task_failed_total))"


@pytest.mark.parametrize(
    "change",
    [
        (READ, "sum by (queue) (task_failed_total)"),
        (READ, f"({EITHER})"),
        (READ, f"abs({EITHER})"),
        (READ, f"-(-({EITHER}))"),
        (READ, f"sum by (task, queue) ({EITHER})"),
        (READ, f"(({EITHER}) and on () vector(1))"),
        (READ, f"(({EITHER}) * on (task, queue) ({EITHER}))"),
        (READ, f"({FIRST} * on (queue) group_left (task) sum by (queue) (task_failed_total))"),
        (READ, f'label_replace({FIRST}, "task", "", "task", ".*")'),
        (READ, f'label_replace({FIRST}, ("task"), "", "task", ".*")'),
        (f"{READ} > 0\n    labels: {{", f"{FIRST} > 0\n    labels: {{task: '', "),
        ("interval:", "limit: 1\n  interval:"),
    ],
)
def test_an_alert_that_stands_for_many_is_about_all_of_them(change: tuple[str, str]) -> None:
    """What the rule does not tell apart, and what is new over the group's limit, is shown whatever its name."""
    made = pipeline(FAILING.replace(*change))
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1, task="b"))
    (alert,) = live(made, T0 + 1)
    assert {one.task_id for one in alert.evidence.offenders} == {"1", "2"}


@pytest.mark.parametrize("later", [FAILING, FAILING.replace("interval:", "limit: 1\n  interval:")])
def test_one_over_the_limit_is_about_all_after_a_restart_or_a_reload(later: str) -> None:
    """What stood for many when it began is shown so when it ends, whichever process or limit ends it."""
    former = pipeline(FAILING.replace("interval:", "limit: 1\n  interval:"))
    feed(former, failed("1", T0 + 1), failed("2", T0 + 1, task="b"))
    live(former, T0 + 1)
    ((_, saved),) = former.ticker.groups[0].rules[0].changes()
    made = pipeline(later)
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1, task="b"))
    made.ticker.groups[0].rules[0].restore(saved, 0.0)
    former.use(groups(later))
    for one in (former, made):
        ended = [alert for alert in live(one, T0 + 20) if alert.labels == saved.alert.labels]
        assert [(alert.state, {of.task_id for of in alert.evidence.offenders}) for alert in ended] == [
            ("resolved", {"1", "2"})
        ]


@pytest.mark.parametrize(
    "read",
    [
        f"abs({READ})",
        f"sum by (task) (sum by (task, queue) (task_failed_total) or {READ})",
        f"({READ} and on () vector(1))",
        f"({READ} unless on (queue) tasks_overdue > 5)",
        f"({READ} * on (task) group_left () {READ})",
    ],
)
def test_what_an_expression_leaves_to_each_tells_apart_below_any_node(read: str) -> None:
    """An alert without a name is about tasks without one also where its labels come through calls and operators."""
    made = pipeline(FAILING.replace(READ, read))
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1, task=""))
    shown = {dict(one.labels).get("task"): one.evidence for one in live(made, T0 + 7) if one.state == "firing"}
    assert [one.task_id for one in shown[None].offenders] == ["2"]


CELERY = """
groups:
- name: celery
  interval: 5s
  rules:
  - alert: CeleryTaskFails
    expr: |
      sum by (job, namespace, queue_name, name) (
        increase(celery_task_failed_total{job=~".*celery.*", queue_name!~"None", name!~"None"}[10m])
      ) > 0
"""


def test_rules_on_the_names_of_celery_exporter_have_evidence_and_are_blind() -> None:
    """They fire on the first event, show the tasks that they are about, and do not resolve while nothing is seen."""
    made = pipeline(CELERY)
    feed(made, failed("1", T0 + 1), failed("2", T0 + 1, task="b"), failed("3", T0 + 1, queue=""))
    shown = {dict(one.labels)["name"]: one for one in live(made, T0 + 1)}
    assert {name: [one.task_id for one in alert.evidence.offenders] for name, alert in shown.items()} == {
        "a": ["1"],
        "b": ["2"],
    }
    assert dict(shown["a"].labels) == {
        "alertname": "CeleryTaskFails",
        "job": "celery-exporter",
        "name": "a",
        "queue_name": "q",
    }
    made.axes[0].is_up = False
    live(made, T0 + 700)
    assert states(made.alerts()) == [("firing", True), ("firing", True)]
    made.axes[0].is_up = True
    live(made, T0 + 705)
    assert states(made.alerts()) == [("resolved", False), ("resolved", False)]


def test_a_forgotten_alert_leaves_no_evidence_behind() -> None:
    """Fifteen minutes after its end an alert is gone with all that was kept of it, whether or not anybody listed it."""
    made = pipeline()
    feed(made, failed("1", T0 + 1))
    live(made, T0 + 1)
    for minute in range(1, 20):
        live(made, T0 + 60 * minute)
    assert made.alerts() == []


@pytest.mark.parametrize(
    ("metric", "kind", "fields"),
    [
        ("dead_letters_open", "dead_lettered", {}),
        ("tasks_in_flight", "started", {}),
        ("task_run_seconds_count", "succeeded", {"run_seconds": 9}),
    ],
)
def test_gauges_and_durations_have_evidence(metric: str, kind: str, fields: dict[str, object]) -> None:
    """Alerts on gauges and latencies name the tasks behind them too."""
    made = pipeline(FAILING.replace("sum by (task) (increase(task_failed_total[10s]))", f"sum by (task) ({metric})"))
    feed(made, event(kind, "1", T0 + 1, **fields))
    (alert,) = live(made, T0 + 1)
    assert [one.task_id for one in alert.evidence.offenders] == ["1"]


def test_a_blind_rule_does_not_resolve() -> None:
    """While the source of a rule is down its alerts stay as they are, marked blind; when it is back they may end."""
    made = pipeline()
    feed(made, failed("1", T0 + 1))
    live(made, T0 + 1)
    made.axes[0].is_up = False
    assert states(live(made, T0 + 60)) == [("firing", True)]
    assert states(made.alerts()) == [("firing", True)]
    made.axes[0].is_up = True
    assert states(live(made, T0 + 65)) == [("resolved", False)]


def test_a_blind_rule_may_start() -> None:
    """What is seen of a source that lags fires all the same."""
    made = pipeline()
    feed(made, failed("1", T0 + 1))
    made.axes[0].is_up = False
    assert states(live(made, T0 + 1)) == [("firing", True)]


def test_a_source_that_never_delivered_blinds() -> None:
    """A second source that was never up blinds the rules that could read it."""
    made = pipeline()
    made.axes.append(Axis(name="other", application=""))
    feed(made, failed("1", T0 + 1))
    assert states(live(made, T0 + 1)) == [("firing", True)]


def test_rules_of_other_sources_are_not_blind() -> None:
    """A rule that names its source, or reads none of the event-fed metrics, does not care about another one."""
    text = FAILING.replace("task_failed_total[10s]", 'task_failed_total{source="s"}[10s]')
    text += "  - alert: Own\n    expr: tasktrail_x > 0\n  - alert: All\n    expr: '{__name__=~\"t.*x\"} > 0'\n"
    made = pipeline(text)
    made.axes.append(Axis(name="other", application=""))
    made.store.put("tasktrail_x", (), T0 + 1, 1.0)
    feed(made, failed("1", T0 + 1))
    assert [(dict(one.labels)["alertname"], one.blind) for one in live(made, T0 + 1)] == [
        ("Failing", False),
        ("Own", False),
        ("All", True),
    ]


@pytest.mark.parametrize(("lag", "blind"), [(4.0, False), (6.0, True)])
def test_a_lagging_source_blinds_at_half_the_window(lag: float, *, blind: bool) -> None:
    """Live, a source that lags by more than half the shortest window cannot be believed."""
    made = pipeline()
    made.axes.append(Axis(name="slow", application="", is_up=True, was_tried=True))
    made.axes[1].advance(batch([b"x"]), [T0 + 1 - lag])
    feed(made, failed("1", T0 + 1))
    assert states(live(made, T0 + 1)) == [("firing", blind)]


def test_along_a_backlog_a_lag_blinds_nobody() -> None:
    """Where the source was read past the instant an alert resolves along the backlog, however far behind the wall."""
    made = pipeline()
    feed(made, failed("1", T0 + 1), event("sent", "2", T0 + 60))
    assert states(live(made, T0 + 60, T0 + 5000)) == [("firing", False), ("resolved", False)]


def test_along_a_backlog_a_dead_source_blinds_beyond_what_was_read() -> None:
    """A second source that is down blinds from the instant on up to which it was read."""
    made = pipeline()
    made.axes.append(Axis(name="dead", application="", was_tried=True))
    made.axes[1].advance(batch([b"x"]), [T0 + 7])
    feed(made, failed("1", T0 + 1), event("sent", "2", T0 + 60))
    assert states(live(made, T0 + 60, T0 + 5000)) == [("firing", False), ("firing", True)]


def receivers() -> dict[str, list[Receiver]]:
    """One target behind the built-in route."""
    return {"default": [Receiver("kept")]}


def said(made: Pipeline, at: float) -> list[Notification]:
    """What is ripe, taken by its target."""
    ripe = made.notifications(at)
    for one in ripe:
        made.grouping.confirm(one, at)
    return ripe


def test_what_fired_and_ended_in_the_past_is_one_summary() -> None:
    """Alerts that fired and ended along a backlog are told once, in one message, when the present is reached."""
    made = pipeline(receivers=receivers())
    feed(made, *(failed(name, T0 + number * 30, task=name) for number, name in enumerate("abc")))
    live(made, T0 + 300, T0 + 5000)
    assert said(made, T0 + 5000) == []
    live(made, T0 + 5000)
    (summary,) = said(made, T0 + 5000)
    assert "away" in summary.title.lower() + summary.text.lower()
    assert len(summary.alerts) == 3


def test_what_still_fires_at_the_present_is_news() -> None:
    """An alert that began along the backlog and has not ended is told like any other."""
    made = pipeline(receivers=receivers())
    feed(made, failed("1", T0 + 4999))
    live(made, T0 + 4000, T0 + 5000)
    live(made, T0 + 5000)
    assert [one.status for one in said(made, T0 + 5000)] == ["firing"]


def test_past_dead_letters_page() -> None:
    """What a rule on dead letters found along a backlog is told as firing, though it is over."""
    made = pipeline(FAILING.replace("task_failed_total", "task_dead_lettered_total"), receivers=receivers())
    feed(made, event("dead_lettered", "1", T0 + 1, error="E"))
    live(made, T0 + 300, T0 + 5000)
    live(made, T0 + 5000)
    assert [one.status for one in said(made, T0 + 5000)] == ["firing"]


def test_without_a_wall_nothing_is_the_past() -> None:
    """In a replay each alert is told at its own instant."""
    made = pipeline(receivers=receivers())
    feed(made, failed("1", T0 + 1), event("sent", "2", T0 + 600))
    instants = []
    for _ in made.advance(Target(T0 + 600)):
        instants += [(one.status, one.at - T0) for one in said(made, made.store.frontier)]
    assert [status for status, _ in instants] == ["firing", "resolved"]
    assert instants[0][1] == pytest.approx(1)


FOREVER = FAILING.replace("increase(task_failed_total[10s])", "task_failed_total")


def reread(made: Pipeline, text: str, file: str = "rules.yaml") -> list[Alert]:
    """Read rule files again, and evaluate at the next slot."""
    made.use(groups(text, file))
    return live(made, made.store.frontier + 15)


@pytest.fixture
def firing() -> Pipeline:
    """An alert fires since T0 + 1, and its expression holds for ever."""
    made = pipeline(FOREVER, receivers=receivers())
    feed(made, failed("1", T0 + 1))
    live(made, T0 + 1)
    said(made, T0 + 1)
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("groups:", "# a comment\n\ngroups:"), ("interval: 5s", "interval: 15s")],
)
def test_rules_read_again_keep_their_alerts(firing: Pipeline, before: str, after: str) -> None:
    """A rule that is the same goes on with its alerts, wherever it stands in its file now: nothing is told again."""
    reread(firing, FOREVER.replace(before, after, 1) if before else FOREVER)
    (alert,) = firing.alerts()
    assert (alert.state, alert.active_at) == ("firing", T0 + 1)
    assert alert.evidence.offenders[0].task_id == "1"
    assert said(firing, T0 + 16) == []


def test_a_rule_with_new_texts_keeps_its_alerts(firing: Pipeline) -> None:
    """New annotations of the same rule are those of its alerts from the next slot on."""
    reread(firing, FOREVER.replace("failed'", "have failed'"))
    (alert,) = firing.alerts()
    assert (alert.active_at, dict(alert.annotations)) == (T0 + 1, {"summary": "1 have failed"})


def test_a_rule_with_another_expression_keeps_its_alerts_while_they_hold(firing: Pipeline) -> None:
    """As in Prometheus a changed expression goes on with the alerts of the rule, and ends those that no longer hold."""
    reread(firing, FOREVER.replace("> 0", "> 0.5"))
    assert [one.active_at for one in firing.alerts()] == [T0 + 1]
    (ended,) = reread(firing, FOREVER.replace("> 0", "> 2"))
    assert (ended.state, ended.resolve_reason) == ("resolved", "")


@pytest.mark.parametrize(
    ("text", "file"),
    [
        (FOREVER.replace("alert: Failing", "alert: Renamed").replace("> 0", "> 5"), "rules.yaml"),
        (FOREVER.replace("name: g", "name: h").replace("> 0", "> 5"), "rules.yaml"),
        (FOREVER.replace("severity: page", "severity: warn").replace("> 0", "> 5"), "rules.yaml"),
        (FOREVER.replace("> 0", "> 5"), "others.yaml"),
        ("groups: []", "rules.yaml"),
    ],
)
def test_a_rule_that_went_away_resolves_its_alerts_with_a_reason(firing: Pipeline, text: str, file: str) -> None:
    """What a rule that is no more had alerted is told as resolved, and why."""
    firing.use(groups(text, file))
    assert firing.alerts() == []
    (resolved,) = said(firing, T0 + 12)
    (alert,) = resolved.alerts
    assert (resolved.status, alert.state) == ("resolved", "resolved")
    assert "taken out" in alert.resolve_reason


@pytest.mark.case("K09.1")
def test_a_pending_alert_keeps_its_clock_over_a_reload() -> None:
    """The time that an alert has been pending counts on when rule files are read again."""
    text = FOREVER.replace("    labels:", "    for: 20s\n    labels:", 1)
    made = pipeline(text)
    feed(made, failed("1", T0 + 1))
    live(made, T0 + 1)
    live(made, T0 + 10)
    made.use(groups(text))
    assert states(live(made, T0 + 20)) == []
    assert states(live(made, T0 + 25)) == [("firing", False)]


def test_two_rules_of_one_name_keep_their_own_alerts() -> None:
    """Rules with the same name and labels are told apart by their order."""
    rule = "  - alert: Twice\n    expr: sum by (task) (task_failed_total) > {}\n"
    text = "groups:\n- name: g\n  interval: 5s\n  rules:\n" + rule.format(0) + rule.format(5)
    made = pipeline(text)
    feed(made, failed("1", T0 + 1))
    live(made, T0 + 1)
    assert reread(made, text) == []
    assert [one.active_at for one in made.alerts()] == [T0 + 1]


def test_a_recording_rule_that_went_away_ends_its_series() -> None:
    """Series of a recording rule that is no more are stale at once; those of one that stays go on."""
    record = "groups:\n- name: g\n  interval: 5s\n  rules:\n  - record: kept\n    expr: vector(1)\n"
    made = pipeline(record + "  - record: gone\n    expr: vector(1)\n")
    live(made, T0 + 5)
    made.use(groups(record))
    live(made, T0 + 6)
    present = {}
    for name in ("kept", "gone"):
        (series,) = made.store.select(name, ())
        values, there = made.store.value(series, T0 + 6)
        present[name] = bool(there is None or there.all()) and len(values) == 1
    assert present == {"kept": True, "gone": False}


def test_series_that_rules_name_in_full_exist_from_the_start() -> None:
    """A counter whose task and queue a rule names is there with 0 before any event, so that its first event counts."""
    made = pipeline(FAILING.replace("task_failed_total[10s]", 'task_failed_total{task="a",queue="q"}[10s]'))
    (series,) = made.store.select("task_failed_total", ())
    assert series.labels == ((("queue", "q"), ("task", "a")),)


def test_rows_of_an_alert() -> None:
    """A label that an alert lacks stands for all; the others must be the row's."""
    rows = Rows()
    for names in (("a", "q", "s"), ("a", "r", "s"), ("b", "q", "t")):
        rows.row(*names)
    assert matching_rows(rows, {"task": "a"}) == [0, 1]
    assert matching_rows(rows, {"queue": "q"}) == [0, 2]
    assert matching_rows(rows, {"task": "a", "queue": "r", "source": "s", "severity": "page"}) == [1]
    assert matching_rows(rows, {}) == [0, 1, 2]
    assert matching_rows(rows, {"task": "unknown"}) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("task_run_seconds_bucket", "task_run_seconds"),
        ("task_run_seconds_sum", "task_run_seconds"),
        ("task_failed_total", "task_failed_total"),
        ("tasktrail_events_total", None),
        ("other_count", None),
        (None, None),
    ],
)
def test_the_metric_behind_a_name(name: str | None, expected: str | None) -> None:
    """The parts of a histogram stand for the histogram; what is not fed by events is none of ours."""
    assert metric_of(name) == expected
