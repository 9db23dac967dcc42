"""When a group speaks: Alertmanager's timing and notification log, told as small stories with their times."""

from __future__ import annotations

import pytest

from collector.model.labels import labels_of
from collector.routing import grouping as module
from collector.routing.grouping import Grouping, Target, group_key
from collector.routing.route import BUILT_IN, Route

SLOW = Route(receiver="default", group_by=("alertname",), group_wait=30, group_interval=300, repeat_interval=3600)


class Story:
    """A grouping whose every notification is taken at once, unless told otherwise."""

    def __init__(self, route=BUILT_IN, *, takes=True, targets=("a",)):
        self.grouping = Grouping(route, {"default": [t if isinstance(t, Target) else Target(t) for t in targets]})
        self.takes = takes

    def insert(self, now, *alerts, **how):
        """Hand over alerts."""
        self.grouping.insert(alerts, now, **how)

    def due(self, now):
        """The notifications due now, taken where this story takes them."""
        ripe = self.grouping.due(now)
        for notification in ripe if self.takes else ():
            self.grouping.confirm(notification, now)
        return ripe

    def said(self, now):
        """Status and how many fire and are resolved, of each notification due now."""
        return [(n.status, *count(n)) for n in self.due(now)]


def count(notification):
    """How many of its alerts fire, and how many are resolved."""
    states = [alert.state for alert in notification.alerts]
    return states.count("firing"), states.count("resolved")


def test_first_at_once(alert):
    """The built-in route tells the first alert of a group at once, and says nothing more while nothing changes."""
    story = Story()
    story.insert(0, alert())
    assert story.said(0) == [("firing", 1, 0)]
    assert [story.said(now) for now in (10, 20, 3600)] == [[], [], []]


def test_group_wait(alert):
    """A new group waits group_wait, so that alerts that come together are told together."""
    story = Story(SLOW)
    story.insert(0, alert(at=0))
    story.insert(20, alert(at=20, task="b"))
    assert story.said(29.9) == []
    assert story.grouping.next_due() == 30
    assert story.said(30) == [("firing", 2, 0)]


def test_group_wait_is_over(alert):
    """An alert that has fired for longer than group_wait when its group learns of it does not wait again."""
    story = Story(SLOW)
    story.insert(100, alert(at=10))
    assert story.said(100) == [("firing", 1, 0)]


def test_changes_wait_for_group_interval(alert):
    """A further alert of a group that has spoken is told at the next group_interval, with all the others."""
    story = Story()
    story.insert(0, alert())
    story.said(0)
    story.insert(1, alert(at=1, error="E"))
    assert story.said(9.9) == []
    assert story.said(10) == [("firing", 2, 0)]


def test_storm_is_one_message_per_interval(alert):
    """60 alerts of one group in 10 s: the first at once, all others in the one message that follows."""
    story = Story()
    sent = []
    for tick in range(101):
        if tick < 60:
            story.insert(tick / 6, alert(at=tick / 6, error=f"E{tick}"))
        sent += story.said(tick / 6)
    assert sent == [("firing", 1, 0), ("firing", 60, 0)]


def test_repeat(alert):
    """What is unchanged is told again when repeat_interval has passed."""
    story = Story()
    story.insert(0, alert())
    story.said(0)
    assert [now for now in range(10, 30_000, 10) if story.said(now)] == [14_400, 28_800]


def test_resolved_once(alert):
    """An end is told once, at the next interval, and the group is forgotten."""
    story = Story()
    story.insert(0, alert())
    story.said(0)
    story.insert(3, alert("resolved", end=3))
    assert story.said(3) == []
    assert story.said(10) == [("resolved", 0, 1)]
    assert story.said(20) == []
    assert len(story.grouping) == 0
    assert story.grouping.next_due() is None


def test_one_of_two_resolved(alert):
    """A group in which one alert ends and one stays tells both, as firing, and the end only once."""
    story = Story()
    story.insert(0, alert(), alert(error="E"))
    story.said(0)
    story.insert(3, alert("resolved", end=3, error="E"))
    assert story.said(10) == [("firing", 1, 1)]
    story.insert(12, alert(error="F"))
    assert story.said(20) == [("firing", 2, 0)]


def test_over_before_told(alert):
    """An alert that fired and ended within group_wait was never told, so neither is its end."""
    story = Story(SLOW)
    story.insert(0, alert())
    story.insert(10, alert("resolved", end=10))
    assert [story.said(now) for now in (30, 330)] == [[], []]
    assert len(story.grouping) == 0


def test_end_without_start(alert):
    """The end of an alert that nobody knows makes no group."""
    story = Story()
    story.insert(0, alert("resolved", end=0))
    assert len(story.grouping) == 0


def test_pending_is_no_news(alert):
    """Pending alerts go nowhere."""
    story = Story()
    story.insert(0, alert("pending"))
    assert len(story.grouping) == 0


def test_fires_again(alert):
    """A new episode after a told end is told as a start, with another dedup key."""
    story = Story()
    story.insert(0, alert())
    (first,) = story.due(0)
    story.insert(3, alert("resolved", end=3))
    (second,) = story.due(10)
    story.insert(11, alert(at=11))
    assert story.due(11) == []
    (third,) = story.due(20)
    assert [first.status, second.status, third.status] == ["firing", "resolved", "firing"]
    assert len({first.key, second.key, third.key}) == 3


def test_flap_within_an_interval(alert):
    """An alert that ends and fires again between two looks is told nothing new about, as in Alertmanager."""
    story = Story()
    story.insert(0, alert())
    story.said(0)
    story.insert(3, alert("resolved", end=3))
    story.insert(6, alert(at=6))
    assert story.said(10) == []


def test_more_urgent_speaks_at_once(alert):
    """An alert more urgent than all that its group has told does not wait for group_interval."""
    story = Story()
    story.insert(0, alert(severity="warning"))
    story.said(0)
    story.insert(2, alert(severity="page", error="E"))
    assert story.said(2) == [("firing", 2, 0)]
    story.insert(3, alert(severity="page", error="F"))
    assert story.said(3) == []


def test_alerts_are_copied(alert):
    """What a rule does to its alert later does not change what a notification says."""
    story = Story()
    mine = alert()
    story.insert(0, mine)
    (notification,) = story.due(0)
    mine.state = "resolved"
    assert notification.alerts[0].state == "firing"


def test_not_said_twice_while_under_way(alert):
    """Between `due` and `confirm` a notification counts as told."""
    story = Story(takes=False)
    story.insert(0, alert())
    (notification,) = story.due(0)
    assert [story.said(now) for now in (10, 20, 600)] == [[], [], []]
    story.grouping.confirm(notification, 601)
    assert story.said(610) == []
    story.insert(611, alert("resolved", end=611))
    assert story.said(620) == [("resolved", 0, 1)]


def test_released_is_offered_again(alert):
    """What nobody took before its deadline is offered again a minute later, for as long as it fires."""
    story = Story(takes=False)
    story.insert(0, alert())
    (notification,) = story.due(0)
    story.grouping.release(notification, 3600)
    assert story.said(3610) == []
    (again,) = story.due(3660)
    assert again.key == notification.key
    assert again.status == "firing"


def test_released_and_over(alert):
    """What nobody took and what is over by then is not told: its start never was."""
    story = Story(takes=False)
    story.insert(0, alert())
    (notification,) = story.due(0)
    story.grouping.release(notification, 5)
    story.insert(6, alert("resolved", end=6))
    assert [story.said(now) for now in (10, 70, 80)] == [[], [], []]
    assert len(story.grouping) == 0


def test_over_while_under_way(alert):
    """What ends before its start could be delivered is told as over, instead of being forgotten."""
    story = Story(takes=False)
    story.insert(0, alert())
    story.said(0)
    story.insert(3, alert("resolved", end=3))
    assert story.said(10) == [("resolved", 0, 1)]


def test_released_end_is_owed(alert):
    """An end that could not be delivered stays owed to the target that was told of the start."""
    story = Story(takes=False)
    story.insert(0, alert())
    (start,) = story.due(0)
    story.grouping.confirm(start, 0)
    story.insert(3, alert("resolved", end=3))
    (end,) = story.due(10)
    story.grouping.release(end, 100)
    (again,) = story.due(160)
    assert (again.key, again.status) == (end.key, "resolved")


def test_refused_is_not_offered_again(alert):
    """What a target will not have is not offered again until something changes."""
    story = Story(takes=False)
    story.insert(0, alert())
    (notification,) = story.due(0)
    story.grouping.release(notification, 1, refused=True)
    assert [story.said(now) for now in (10, 70, 600)] == [[], [], []]
    story.insert(601, alert(error="E"))
    assert story.said(610) == [("firing", 2, 0)]


def test_late_answers(alert):
    """An answer about a notification that its group has spoken past neither hides the newer one nor gives it back."""
    story = Story(takes=False)
    story.insert(0, alert())
    (old,) = story.due(0)
    story.insert(1, alert(error="E"))
    (new,) = story.due(10)
    story.grouping.release(old, 11)
    story.grouping.confirm(old, 12)
    assert story.said(20) == []
    story.grouping.release(new, 21)
    assert story.said(81) == [("firing", 2, 0)]


def test_strange_answers(alert):
    """An answer about a group or target that is not known changes nothing."""
    story = Story(takes=False)
    story.insert(0, alert())
    (notification,) = story.due(0)
    other = Grouping()
    other.confirm(notification, 0)
    other.release(notification, 0)
    assert len(other) == 0


def test_targets_have_their_own_log(alert):
    """A target that did not take a notification is offered it again, and the one that took it is not."""
    story = Story(takes=False, targets=("a", "b"))
    story.insert(0, alert())
    to_a, to_b = story.due(0)
    assert (to_a.target, to_b.target) == ("a", "b")
    assert to_a.key == to_b.key
    story.grouping.confirm(to_a, 0)
    story.grouping.release(to_b, 5)
    assert [n.target for n in story.due(70)] == ["b"]


def test_without_send_resolved(alert):
    """A target that wants no ends hears none, and hears of the next start."""
    story = Story(targets=(Target("a", send_resolved=False), "b"))
    story.insert(0, alert(), alert(error="E"))
    assert [n.target for n in story.due(0)] == ["a", "b"]
    story.insert(1, alert("resolved", end=1))
    assert [(n.target, count(n)) for n in story.due(10)] == [("b", (1, 1))]
    story.insert(11, alert("resolved", end=1, error="E"))
    assert [n.target for n in story.due(20)] == ["b"]
    story.insert(21, alert(at=21))
    assert [n.target for n in story.due(30)] == ["a", "b"]


def test_receiver_without_targets(alert):
    """A receiver without targets still decides, for replay and for the record."""
    grouping = Grouping()
    grouping.insert([alert()], 0)
    (notification,) = grouping.due(0)
    assert (notification.receiver, notification.target) == ("default", "")


def test_notification(alert):
    """A notification carries what its alerts share, the urgent ones first, and Alertmanager's name of its group."""
    story = Story()
    story.insert(0, alert(severity="warning", error="A"), alert(severity="page", error="B"))
    (notification,) = story.due(0)
    assert notification.group_labels == labels_of(
        {"alertname": "DeadLetter", "task": "pay.settle", "queue": "payments"}
    )
    assert notification.common_labels == notification.group_labels
    assert notification.common_annotations == labels_of({"summary": "a dead letter"})
    assert [dict(a.labels)["severity"] for a in notification.alerts] == ["page", "warning"]
    assert notification.group_key == '{}:{alertname="DeadLetter", queue="payments", task="pay.settle"}'


def test_group_key_is_quoted():
    """Quotes, backslashes and line ends in a label's value are written as Go writes them."""
    assert group_key(BUILT_IN, (("task", 'a"b\\c\nd'),)) == '{}:{task="a\\"b\\\\c\\nd"}'


def test_key_is_the_same_everywhere(alert):
    """Two daemons that see the same alerts, in whatever order, give a notification the same key."""
    one, two = Story(), Story(targets=("elsewhere",))
    one.insert(0, alert(), alert(error="E"))
    two.insert(0.2, alert(error="E"), alert())
    assert one.due(0)[0].key == two.due(0.2)[0].key


def test_groups_are_apart(alert):
    """Two tasks are two groups, each with its own time."""
    story = Story()
    story.insert(0, alert())
    assert story.said(0) == [("firing", 1, 0)]
    story.insert(4, alert(at=4, task="b"))
    assert story.grouping.next_due() == 4
    assert story.said(4) == [("firing", 1, 0)]
    assert story.grouping.next_due() == 10


def test_due_is_bounded(alert):
    """A storm of groups is told in pieces, so that no step of the loop is long, and nothing is left out."""
    story = Story()
    story.insert(0, *(alert(task=f"t{n}") for n in range(450)))
    sizes = []
    while (at := story.grouping.next_due()) is not None and at <= 0:
        sizes.append(len(story.due(0)))
    assert max(sizes) <= 100
    assert sum(sizes) == 450


def test_past_is_one_summary(alert):
    """What fired and ended while nobody watched is one message, told once."""
    story = Story()
    for n in range(5):
        story.insert(100, alert(at=n, task=f"t{n}"), live=False)
        story.insert(100, alert("resolved", at=n, end=n + 1, task=f"t{n}"), live=False)
    story.insert(100, alert(at=50, task="t0"), live=False)
    story.insert(100, alert("resolved", at=50, end=51, task="t0"), live=False)
    assert story.due(100) == []
    story.grouping.go_live(101)
    (summary,) = story.due(101)
    assert (summary.status, len(summary.alerts)) == ("resolved", 6)
    assert "while the monitor was away: 6 alerts" in summary.title
    assert [story.said(now) for now in (111, 121)] == [[], []]
    assert len(story.grouping) == 0


def test_past_summary_is_owed(alert):
    """A summary that was not taken is offered again, and a further one to come is told whole."""
    story = Story(takes=False)
    story.insert(100, alert("resolved", at=1, end=2), live=False)
    story.grouping.go_live(100)
    (summary,) = story.due(100)
    story.grouping.release(summary, 101)
    (again,) = story.due(161)
    assert again.key == summary.key
    story.insert(200, alert("resolved", at=150, end=151), live=False)
    story.grouping.go_live(200)
    (both,) = story.due(200)
    assert len(both.alerts) == 2
    story.grouping.confirm(both, 201)
    assert story.said(211) == []
    assert len(story.grouping) == 0


def test_past_that_still_fires(alert):
    """An alert that still fires when the backlog is read is told like a new one, though its start is long ago."""
    story = Story()
    story.insert(100, alert(at=5), live=False)
    story.grouping.go_live(101)
    (notification,) = story.due(101)
    assert (notification.status, notification.alerts[0].active_at) == ("firing", 5)


def test_past_that_pages(alert):
    """What a rule on dead letters found in the past pages once per group, and is told as over at the next interval."""
    story = Story()
    for n in range(3):
        story.insert(100, alert(at=n, error=f"E{n}"), live=False, pages=True)
        story.insert(100, alert("resolved", at=n, end=n + 1, error=f"E{n}"), live=False, pages=True)
    story.grouping.go_live(100)
    assert story.said(100) == [("firing", 3, 0)]
    assert story.said(110) == [("resolved", 0, 3)]
    assert story.said(120) == []


def test_past_that_pages_again_and_again(alert):
    """Of one alert's episodes the last pages, and the others are in the summary: none is lost."""
    story = Story()
    for n in range(3):
        story.insert(100, alert(at=n * 10), live=False, pages=True)
        story.insert(100, alert("resolved", at=n * 10, end=n * 10 + 1), live=False, pages=True)
    story.grouping.go_live(100)
    told = {told.status: [one.active_at for one in told.alerts] for told in story.due(100)}
    assert told == {"firing": [20], "resolved": [0, 10]}


def test_past_end_of_what_was_told(alert):
    """An alert that was told before the outage and ended in it resolves as usual."""
    story = Story()
    story.insert(0, alert())
    story.said(0)
    story.insert(500, alert("resolved", end=100), live=False)
    assert story.said(500) == [("resolved", 0, 1)]


def test_past_is_bounded(alert, monkeypatch):
    """A backlog of more episodes than are kept leaves out the oldest, and the summary counts them all the same."""
    monkeypatch.setattr(module, "MOST_PAST", 3)
    story = Story()
    for n in range(10):
        story.insert(100, alert("resolved", at=n, end=n + 1, task=f"t{n}"), live=False)
    story.grouping.go_live(100)
    (summary,) = story.due(100)
    assert [a.active_at for a in summary.alerts] == [7, 8, 9]
    assert "10 alerts" in summary.title


@pytest.mark.case("K14.1")
@pytest.mark.parametrize("size", [1, 5000])
def test_storm_names_its_size(alert, size):
    """One group of thousands is one message of bounded length that gives the full count."""
    story = Story()
    story.insert(0, *(alert(error=f"E{n}") for n in range(size)))
    (notification,) = story.due(0)
    assert len(notification.alerts) == size
    assert len(notification.text) < 7000
    assert (f"{size:,}" in notification.title) == (size > 1)
    assert ("and 4,990 more" in notification.text) == (size > 1)
