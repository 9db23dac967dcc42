"""Acks and escalation at the groups: who is told, and when, told as stories with their times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.routing.acks import Acks
from collector.routing.escalation import Waiting, follow, stage
from collector.routing.grouping import Grouping, Target
from collector.routing.inhibition import InhibitRule
from collector.routing.keeping import Ack
from collector.routing.matchers import parse_matchers
from collector.routing.route import Route, Step
from tests.unit.routing.conftest import make_alert

ROUTE = Route(
    receiver="first",
    group_by=("alertname",),
    group_wait=0,
    group_interval=10,
    repeat_interval=3600,
    escalate=(Step(300, "second"), Step(900, "third")),
)
RECEIVERS = {name: [Target(name)] for name in ("first", "second", "third")}


class Story:
    """A grouping with acks; everything is taken at once. Time only goes on."""

    def __init__(self, route: Route = ROUTE, **how: object) -> None:
        self.acks = Acks()
        self.grouping = Grouping(route, RECEIVERS, acks=self.acks, **how)

    def ack(self, alert, now: float, seconds: float = 86_400) -> None:
        """Somebody takes it."""
        self.acks.set(Ack(fingerprint=alert.fingerprint, author="ann", created_at=now, expires_at=now + seconds))

    def insert(self, now: float, *alerts) -> None:
        """Alerts change."""
        self.grouping.insert(alerts, now)

    def until(self, end: float) -> list[tuple[float, str, str, str]]:
        """What is said up to a time: when, to whom, the errors that fire, those that have ended."""
        said = []
        while (due := self.grouping.next_due()) is not None and due <= end:
            for one in self.grouping.due(due):
                self.grouping.confirm(one, due)
                states = [
                    "".join(sorted(dict(each.labels)["error"] for each in one.alerts if each.state == state))
                    for state in ("firing", "resolved")
                ]
                said.append((due, one.receiver, *states))
        return said


def test_steps_are_told_until_somebody_acks(alert) -> None:
    """Nobody acks: the second is told after 5 minutes, the third after 15, each once; all hear of the end."""
    story = Story()
    story.insert(0, alert(error="A"))
    assert story.until(1000) == [(0, "first", "A", ""), (300, "second", "A", ""), (900, "third", "A", "")]
    story.insert(1001, alert("resolved", end=1001, error="A"))
    assert {said[1:] for said in story.until(1100)} == {(name, "", "A") for name in ("first", "second", "third")}
    assert len(story.grouping) == 0


def test_an_ack_stops_the_escalation_and_the_reminders(alert) -> None:
    """After an ack nobody else is told and nobody is reminded; the end is told to those who heard of the start."""
    story = Story()
    story.insert(0, alert(error="A"))
    assert story.until(299) == [(0, "first", "A", "")]
    story.ack(alert(error="A"), 299)
    assert story.until(8000) == []
    story.insert(8001, alert("resolved", end=8001, error="A"))
    assert [said[1:] for said in story.until(8100)] == [("first", "", "A")]
    assert len(story.acks) == 0


def test_an_ack_that_expires_lets_the_clock_begin_anew(alert) -> None:
    """When it has expired the group waits again, from then on."""
    story = Story()
    story.insert(0, alert(error="A"))
    story.until(5)
    story.ack(alert(error="A"), 5, seconds=600)
    assert story.until(909) == []
    assert {said[:2] for said in story.until(930)} == {(610 + 300, "second")}


def test_a_new_member_speaks_and_restarts_the_escalation(alert) -> None:
    """A group is quiet while all that fires is acked; what is new is told, and its 5 minutes begin with it."""
    story = Story()
    story.insert(0, alert(error="A"))
    story.until(100)
    story.ack(alert(error="A"), 100)
    assert story.until(249) == []
    story.insert(250, alert(at=250, error="B"))
    assert story.until(540) == [(250, "first", "AB", "")]
    assert [said[:2] for said in story.until(560)] == [(550, "second")]


def test_new_members_do_not_set_a_waiting_group_back(alert) -> None:
    """In a storm the second is told 5 minutes after the first alert that nobody has acked."""
    story = Story()
    for number in range(30):
        story.insert(number * 10, alert(at=number * 10, error=f"{number:02}"))
        said = story.until(number * 10 + 9)
        assert {one[1] for one in said} == {"first"}
    assert (300, "second") in {one[:2] for one in story.until(305)}


@pytest.mark.parametrize("how", ["resolved", "silenced", "inhibited"])
def test_what_needs_nobody_is_not_escalated(alert, how: str) -> None:
    """An alert that has ended, or that a silence or another alert keeps quiet, calls no second person."""
    held: set[str] = set()
    rule = InhibitRule(sources=parse_matchers("alertname=Big"), targets=parse_matchers("alertname!=Big"))
    story = Story(gates=[lambda one, _now: "silenced" * (one.fingerprint in held)], inhibit_rules=(rule,))
    story.insert(0, alert(error="A"))
    story.until(200)
    if how == "resolved":
        story.insert(200, alert("resolved", end=200, error="A"))
    elif how == "silenced":
        held.add(alert(error="A").fingerprint)
    else:
        story.insert(200, alert(alertname="Big", error="B"))
        story.ack(alert(alertname="Big", error="B"), 200)
    assert "second" not in {said[1] for said in story.until(2000)}


def test_nobody_to_be_reached_escalates_at_once(alert) -> None:
    """Where every target of a step is broken the next step does not wait; a target that heals changes nothing told."""
    story = Story()
    story.insert(0, alert(error="A"))
    story.until(10)
    story.grouping.heed(frozenset({"first"}), 20)
    assert story.until(20) == [(20, "second", "A", "")]
    story.grouping.heed(frozenset({"first", "second"}), 30)
    assert story.until(30) == [(30, "third", "A", "")]
    story.grouping.heed(frozenset(), 40)
    assert story.until(1000) == []


def test_an_escalation_says_that_it_is_one_and_why(alert) -> None:
    """Title and text say so; the dedup key stays a function of receiver, labels and alerts."""
    story = Story()
    story.insert(0, alert(error="A"))
    story.until(10)
    (one,) = [each for at in (100, 300) for each in story.grouping.due(at)]
    assert one.title.startswith("[ESCALATED] [FIRING]")
    assert one.text.startswith("escalated: nobody has acked it for 5m\n")


TOKENS = st.frozensets(st.sampled_from("abc"))


@given(st.lists(TOKENS, max_size=12))
def test_the_wait_goes_on_as_long_as_anybody_of_it_waits(present) -> None:
    """Whatever comes and goes, a wait begins where none of the former ones waits any longer, and ends with the last."""
    waiting, began = None, None
    for now, tokens in enumerate(present):
        former = waiting
        waiting = follow(former, tokens, now)
        if not tokens:
            assert waiting is None
            continue
        if former is None or not former.tokens & tokens:
            began = now
        assert waiting == Waiting(began, tokens)


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=4, unique=True),
    st.sets(st.sampled_from(["r0", "r1", "r2", "r3", "top"])),
    st.lists(st.integers(0, 1200), min_size=2, max_size=10),
)
def test_steps_are_reached_in_order_and_never_given_up(afters, broken, instants) -> None:
    """With time the reached steps only grow, none is reached late, and the next instant is the next step's."""
    steps = tuple(Step(after, f"r{number}") for number, after in enumerate(sorted(afters)))
    route = Route(receiver="top", escalate=steps)
    reached = 0
    for now in sorted(instants):
        found = stage(route, Waiting(0, frozenset("a")), now, broken.__contains__)
        assert found.reached >= max(reached, sum(step.after <= now for step in steps))
        assert found.next_at == (steps[found.reached].after if found.reached < len(steps) else None)
        reached = found.reached


@given(
    st.lists(
        st.tuples(st.integers(1, 120), st.sampled_from("ABC"), st.sampled_from(["fire", "end", "ack"])), max_size=30
    )
)
def test_no_alert_that_nobody_took_is_kept_from_the_second_person(steps) -> None:
    """However alerts come, go and are acked: who has waited for 5 minutes without a break is known to the second."""
    story, now = Story(), 0.0
    since: dict[str, float] = {}  # of what fires and is not acked
    acked: set[str] = set()
    heard: dict[str, set[str]] = {name: set() for name in RECEIVERS}

    def listen(end: float) -> None:
        for _, receiver, firing, resolved in story.until(end):
            heard[receiver] = (heard[receiver] | set(firing)) - set(resolved)

    for wait, name, what in steps:
        now += wait
        listen(now)
        one = make_alert(
            "resolved" if what == "end" else "firing", at=now, end=now if what == "end" else None, error=name
        )
        if what == "ack":
            if name in since:
                story.ack(one, now)
                acked.add(name)
                del since[name]
            continue
        story.insert(now, one)
        if what == "end":
            since.pop(name, None)
            acked.discard(name)
        elif name not in acked:
            since.setdefault(name, now)
    listen(now + 340)
    for name in since:
        assert name in heard["first"]
        assert name in heard["second"]
