"""Which receivers an alert goes to: Alertmanager's answers."""

from __future__ import annotations

import pytest

from collector.model.labels import Matcher, labels_of
from collector.routing.route import BUILT_IN, Route, match


def equals(name, value):
    """A matcher."""
    return Matcher(name=name, op="=", value=value, test=lambda text: text == value)


TREE = Route(
    receiver="default",
    routes=(
        Route(receiver="pager", matchers=(equals("severity", "page"),), continues=True),
        Route(
            receiver="payments",
            matchers=(equals("owner", "payments"),),
            routes=(Route(receiver="night", matchers=(equals("task", "close"),)),),
        ),
        Route(receiver="rest", matchers=(equals("owner", "payments"),)),
        Route(receiver="nobody", matchers=(equals("owner", ""), equals("severity", "none"))),
    ),
)


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({}, ["default"]),
        ({"severity": "page"}, ["pager"]),
        ({"severity": "page", "owner": "payments"}, ["pager", "payments"]),
        ({"owner": "payments"}, ["payments"]),
        ({"owner": "payments", "task": "close"}, ["night"]),
        ({"severity": "none"}, ["nobody"]),
        ({"severity": "none", "owner": "x"}, ["default"]),
    ],
)
def test_match(labels, receivers):
    """The first child that matches takes the alert, unless it continues; a label that is not there is empty."""
    assert [route.receiver for route in match(TREE, labels_of(labels))] == receivers


def test_root_that_does_not_match():
    """A route whose own matchers do not hold takes nothing."""
    assert match(TREE.routes[1], labels_of({"owner": "x"})) == ()


@pytest.mark.parametrize(
    ("group_by", "group"),
    [
        ((), {}),
        (("task", "absent"), {"task": "t"}),
        (None, {"task": "t", "queue": "q"}),
    ],
)
def test_group_labels(group_by, group):
    """Alerts share a group by the labels that group_by names and they have; None means all of them."""
    assert Route(receiver="r", group_by=group_by).group_labels(labels_of({"task": "t", "queue": "q"})) == labels_of(
        group
    )


def test_built_in():
    """Without a routes file: by name, task and queue; at once, then every 10 s, again after 4 h."""
    labels = labels_of({"alertname": "A", "task": "t", "queue": "q", "error": "E"})
    assert match(BUILT_IN, labels) == (BUILT_IN,)
    assert BUILT_IN.group_labels(labels) == labels_of({"alertname": "A", "task": "t", "queue": "q"})
    assert (BUILT_IN.group_wait, BUILT_IN.group_interval, BUILT_IN.repeat_interval) == (0, 10, 4 * 3600)
