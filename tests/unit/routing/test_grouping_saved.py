"""Groups over a restart: what `changes` gives, taken back by `restore`, goes on as if nothing had been."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from collector.model.alert import Alert
from collector.model.labels import Matcher, fingerprint, labels_of
from collector.model.saved import GroupChange
from collector.routing.group import Target
from collector.routing.grouping import Grouping
from collector.routing.route import Route, Step

ROUTE = Route(receiver="r", group_by=("alertname",), group_wait=2.0, group_interval=5.0, repeat_interval=40.0)
RECEIVERS = {"r": [Target("a"), Target("b", send_resolved=False)], "second": [Target("c")], "third": [Target("d")]}
decoder = msgspec.msgpack.Decoder(list[GroupChange])


def alert(name: str, number: int, at: float, *, ends: bool = False) -> Alert:
    """One alert that began, or ended."""
    labels = labels_of({"alertname": name, "n": str(number), "severity": "page"})
    return Alert(
        labels=labels,
        annotations=(),
        fingerprint=fingerprint(labels),
        state="resolved" if ends else "firing",
        value=float("nan"),
        active_at=0.0 if ends else at,
        fired_at=0.0 if ends else at,
        resolved_at=at if ends else None,
    )


class Disk:
    """Keeps what `changes` gives, as the state file does."""

    def __init__(self) -> None:
        self.groups = {}
        self.members = {}

    def take(self, grouping: Grouping) -> None:
        """All that changed."""
        for change in decoder.decode(msgspec.msgpack.encode(grouping.changes())):
            place = change.receiver, change.key
            if change.group is None:
                self.groups.pop(place, None)
                self.members.pop(place, None)
                continue
            self.groups[place] = change.group
            members = self.members.setdefault(place, {})
            for member in change.members:
                members[member.token] = member
                if member.alert is None and member.later is None:
                    del members[member.token]

    def give(self, grouping: Grouping, now: float) -> Grouping:
        """To the groups of a new process."""
        grouping.restore(
            [(group, list(self.members.get(place, {}).values())) for place, group in self.groups.items()], now
        )
        return grouping


def said(grouping: Grouping, now: float, *, takes: bool) -> list[tuple]:
    """What is told at an instant, by target and key; the targets take it, or will not."""
    told = []
    for notification in grouping.due(now):
        told.append((notification.target, notification.key, notification.status, len(notification.alerts)))
        if takes:
            grouping.confirm(notification, now)
        else:
            grouping.release(notification, now)
    return sorted(told)


STEPS = st.lists(
    st.tuples(
        st.sampled_from("AB"), st.integers(0, 2), st.booleans(), st.integers(0, 12), st.booleans(), st.booleans()
    ),
    max_size=25,
)


REFUSED_BY_A_STEP = [
    *[("A", 0, False, seconds, takes, False) for seconds, takes in ((0, False), (2, False), (6, True))],
    ("A", 1, False, 0, False, False),
    ("A", 1, True, 0, False, False),
    ("A", 0, True, 5, False, False),
    ("B", 0, False, 5, False, True),
]
"""The end that a step of an escalation did not take outlives the group that escalated to it."""
ESCALATING = msgspec.structs.replace(ROUTE, escalate=(Step(6.0, "second"), Step(20.0, "third")))


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sampled_from([ROUTE, ESCALATING]))
@example(REFUSED_BY_A_STEP, ESCALATING)
def test_a_restart_changes_nothing(steps, route) -> None:
    """Whatever begins, ends, is told or refused, and wherever it is cut: the same is said with restarts as without."""
    whole, cut, disk = Grouping(route, RECEIVERS), Grouping(route, RECEIVERS), Disk()
    now = 0.0
    began: dict[tuple[str, int], float] = {}
    for name, number, ends, seconds, takes, restarts in steps:
        now += seconds
        if ends and (name, number) in began:
            one = msgspec.structs.replace(
                alert(name, number, began.pop((name, number))), state="resolved", resolved_at=now
            )
        else:
            one = alert(name, number, began.setdefault((name, number), now))
        for grouping in (whole, cut):
            grouping.insert([one], now)
        assert said(cut, now, takes=takes) == said(whole, now, takes=takes)
        disk.take(cut)
        if restarts:
            cut = disk.give(Grouping(route, RECEIVERS), now)
    for later in (now + 50, now + 120, now + 200):
        assert said(cut, later, takes=True) == said(whole, later, takes=True)


def test_what_was_handed_out_is_not_handed_out_again() -> None:
    """Between `due` and `confirm` a restart says nothing twice; the confirmation that comes after it counts."""
    grouping, disk = Grouping(ROUTE, {"r": [Target("a")]}), Disk()
    grouping.insert([alert("A", 1, 0.0)], 0.0)
    (notification,) = grouping.due(2.0)
    disk.take(grouping)
    again = disk.give(Grouping(ROUTE, {"r": [Target("a")]}), 3.0)
    assert again.due(20.0) == []
    again.confirm(notification, 20.0)
    ended = alert("A", 1, 21.0, ends=True)
    again.insert([ended], 21.0)
    assert [one.status for one in again.due(30.0)] == ["resolved"]


def test_a_route_that_is_gone_leaves_what_was_told() -> None:
    """Under another route of the same receiver nothing is told twice, and the end is told."""
    grouping, disk = Grouping(ROUTE, {"r": [Target("a")]}), Disk()
    grouping.insert([alert("A", 1, 0.0)], 0.0)
    (notification,) = grouping.due(2.0)
    grouping.confirm(notification, 2.0)
    disk.take(grouping)
    pages = Matcher(name="severity", op="=", value="page", test="page".__eq__)
    below = msgspec.structs.replace(ROUTE, matchers=(pages,), key='{}/{severity="page"}', group_by=("severity",))
    other = Route(receiver="nobody", routes=(below,))
    again = disk.give(Grouping(other, {"r": [Target("a")]}), 3.0)
    again.insert([alert("A", 1, 0.0)], 3.0)
    assert again.due(20.0) == []
    again.insert([alert("A", 1, 21.0, ends=True)], 21.0)
    assert [(one.receiver, one.status) for one in again.due(40.0)] == [("r", "resolved")]
    disk.take(again)
    assert {group.route for group in disk.groups.values()} <= {'{}/{severity="page"}'}


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_what_moved_into_a_group_that_is_there_stays_there(order) -> None:
    """Where the group of now is an old one too, a second restart still knows what it has taken over."""
    pages = Matcher(name="n", op="=", value="1", test="1".__eq__)
    below = msgspec.structs.replace(ROUTE, matchers=(pages,), key='{}/{n="1"}')
    both, one = msgspec.structs.replace(ROUTE, routes=(below,)), ROUTE
    grouping, disk = Grouping(both, {"r": [Target("a")]}), Disk()
    grouping.insert([alert("A", number, 0.0) for number in order], 0.0)
    for notification in grouping.due(2.0):
        grouping.confirm(notification, 2.0)
    assert len(grouping.groups()) == 2
    disk.take(grouping)
    for now in (3.0, 4.0):
        grouping = disk.give(Grouping(one, {"r": [Target("a")]}), now)
        disk.take(grouping)
    (group,) = grouping.groups()
    assert len(group.alerts) == 2
    assert grouping.due(20.0) == []
