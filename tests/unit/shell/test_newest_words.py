"""A message says what is known when it is sent: words, value and evidence. When it is sent does not change by that."""

from __future__ import annotations

import pytest

from collector.model.contract import Contract, Contracts
from collector.routing.grouping import MOST_NEWEST, Target
from collector.routing.routefile import load
from collector.shell.pipeline import Pipeline
from tests.unit.parts import FAILING, T0, pipeline
from tests.unit.shell.test_pipeline import failed, feed, live, said

ROUTES = """
route: {receiver: r, group_by: [alertname], group_wait: 7s, group_interval: 20s, repeat_interval: 1h}
receivers: [{name: r}]
"""
RULES = FAILING.replace("interval: 5s", "interval: 15s").replace("[10s]", "[5m]")
"""Slots are at T0 and every 15 s on: what fires at T0 + 1 is told at T0 + 8, before the next."""


def made(rules: str = RULES, routes: str = ROUTES, **options: object) -> Pipeline:
    """A pipeline whose groups of alerts wait for 7 s."""
    return pipeline(rules, routing=load("routes.yaml", routes), receivers={"r": [Target("kept")]}, **options)


@pytest.mark.parametrize(
    "contracts", [None, Contracts((Contract(match="a", semantics="must_complete", owner="o", runbook_url="/r"),))]
)
def test_what_came_while_a_group_waited_is_in_its_message(contracts: Contracts | None) -> None:
    """One failure fires, 14 follow before the group speaks: it speaks of 15, and no later than it would have."""
    one = made(contracts=contracts)
    feed(one, failed("0", T0 + 1))
    live(one, T0 + 1)
    feed(one, *(failed(str(number), T0 + 2) for number in range(1, 15)))
    live(one, T0 + 2)
    live(one, T0 + 7.9)
    assert said(one, T0 + 7.9) == []
    live(one, T0 + 8)
    (told,) = said(one, T0 + 8)
    (alert,) = told.alerts
    assert dict(alert.annotations) == {"summary": "15 failed"} | ({"runbook_url": "/r"} if contracts else {})
    assert (alert.value, alert.lowest, alert.highest) == (15, 1, 15)
    assert (len(alert.evidence.offenders), alert.evidence.top_errors) == (5, (("E", 15),))
    assert "15 failed" in told.text
    assert "E 15" in told.text


def test_newer_words_alone_are_no_reason_to_speak() -> None:
    """What a group has told it tells again after repeat_interval only, however often its words change; then newly."""
    one = made()
    feed(one, failed("0", T0 + 1))
    live(one, T0 + 1)
    live(one, T0 + 8)
    assert [dict(told.alerts[0].annotations)["summary"] for told in said(one, T0 + 8)] == ["1 failed"]
    for number in range(1, 120):
        feed(one, failed(str(number), T0 + 30 * number), received_at=T0 + 30 * number)
        live(one, T0 + 30 * number)
        assert said(one, T0 + 30 * number) == []
    at = T0 + 3_625
    feed(one, *(failed(f"x{number}", at - 1) for number in range(3)), received_at=at)
    live(one, at)
    (told,) = said(one, at)
    assert dict(told.alerts[0].annotations)["summary"] == "12 failed"
    assert [offender.task_id for offender in told.alerts[0].evidence.offenders[:3]] == ["x2", "x1", "x0"]


def test_an_end_says_what_was_last_known() -> None:
    """An alert that is told of as it was between slots ends in those words, not in those of the slot before."""
    one = pipeline(RULES.replace("[5m]", "[10s]"), receivers={"default": [Target("kept")]})
    feed(one, failed("0", T0 + 1))
    live(one, T0 + 1)
    feed(one, failed("1", T0 + 2), failed("2", T0 + 2))
    live(one, T0 + 2)
    (ended,) = live(one, T0 + 15)
    assert (ended.state, dict(ended.annotations)["summary"], ended.highest) == ("resolved", "3 failed", 3)


def test_an_alert_is_counted_as_fired_once_however_often_it_is_told() -> None:
    """To be looked at again for a message is not to fire again."""
    one = made()
    feed(one, failed("0", T0 + 1))
    live(one, T0 + 1)
    live(one, T0 + 8)
    (told,) = said(one, T0 + 8)
    assert told.alerts[0].evidence.fired_24h == 1
    assert [alert.evidence.fired_24h for alert in one.alerts()] == [1]


def test_of_a_large_message_the_first_alerts_are_looked_at_again() -> None:
    """What does not fit into a step is told in the words of its rule's last slot."""
    one = made()
    names = [f"t{number}" for number in range(MOST_NEWEST + 10)]
    feed(one, *(failed(name, T0 + 1, task=name) for name in names))
    live(one, T0 + 1)
    feed(one, *(failed(f"{name}b", T0 + 2, task=name) for name in names))
    live(one, T0 + 8)
    (told,) = said(one, T0 + 8)
    words = [dict(alert.annotations)["summary"] for alert in told.alerts]
    assert (words.count("2 failed"), words.count("1 failed")) == (MOST_NEWEST, 10)


def test_many_messages_are_looked_at_in_short_steps() -> None:
    """However many groups are ripe at once, about as many alerts are looked at in a step as one message may have."""
    by_queue = RULES.replace("by (task)", "by (task, queue)"), ROUTES.replace("alertname", "queue")
    one = made(*by_queue)
    feed(one, *(failed(f"{queue}{n}", T0 + 1, task=f"t{n}", queue=queue) for queue in "abc" for n in range(30)))
    live(one, T0 + 1)
    live(one, T0 + 8)
    assert [[len(told.alerts) for told in said(one, T0 + 8)] for _ in range(3)] == [[30, 30], [30], []]
