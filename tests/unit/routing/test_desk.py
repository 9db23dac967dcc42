"""The desk: alerts from outside, drills, links, standing, and that one outage is one page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.model.labels import fingerprint, labels_of
from collector.routing import links
from collector.routing.desk import Desk
from collector.routing.external import External, Posted
from collector.routing.group import Target
from collector.routing.keeping import Silence
from collector.routing.links import Link, sign, verify
from collector.routing.matchers import matcher
from collector.routing.message import Wording
from collector.routing.original import masked
from collector.routing.routefile import load
from tests.unit.routing.conftest import make_alert

LABELS = labels_of({"alertname": "Out", "severity": "page"})
NAME = fingerprint(LABELS)


def desk(**how) -> Desk:
    """On the built-in route, with one target."""
    return Desk(receivers={"default": [Target("a")]}, **how)


def say(made: Desk, now: float) -> list[tuple[str, str]]:
    """What is told at an instant, and taken: state and name of the first alert."""
    said = []
    while ripe := made.grouping.due(now):
        for one in ripe:
            made.grouping.confirm(one, now)
            said.append((one.status, dict(one.alerts[0].labels)["alertname"]))
    return said


def test_an_alert_from_outside_ends_by_its_end_or_by_silence() -> None:
    """With an end it ends there; without one resolve_timeout after the last word about it."""
    outside = External(300)
    (begun,) = outside.take([Posted(labels=LABELS, starts_at=5)], 10, {})
    assert (begun.state, begun.active_at, outside.next_due()) == ("firing", 5, 310)
    assert outside.take([Posted(labels=LABELS, starts_at=5)], 200, {}) == []  # nothing new to tell
    assert outside.due(499) == []
    (ended,) = outside.due(500)
    assert (ended.state, ended.resolved_at) == ("resolved", 500)
    outside.take([Posted(labels=LABELS, ends_at=650)], 600, {})
    (ended,) = outside.take([Posted(labels=LABELS, starts_at=600, ends_at=620)], 630, {})
    assert (ended.state, ended.resolved_at, len(outside)) == ("resolved", 620, 0)
    assert outside.take([Posted(labels=LABELS, ends_at=620)], 640, {}) == []


def test_what_our_own_rules_say_is_not_changed_from_outside(alert) -> None:
    """A foreign end of an alert that one of our rules keeps firing is passed over."""
    made, own = desk(), alert()
    made.grouping.insert([own], 0)
    made.post([Posted(labels=own.labels, ends_at=1)], 5)
    assert own.fingerprint in made.grouping.firing
    assert len(made.external) == 0


def test_what_our_own_rules_begin_to_say_is_not_ended_from_outside(alert) -> None:
    """Where nobody outside says it any longer, an alert goes on that one of our rules has begun to fire since."""
    made, own = desk(), alert(at=7.0)
    made.post([Posted(labels=own.labels, starts_at=1)], 5)
    made.grouping.insert([own], 7)
    made.tend(1000)
    assert len(made.external) == 0
    assert own.fingerprint in made.grouping.firing


@given(st.lists(st.tuples(st.integers(1, 200), st.sampled_from("abc"), st.none() | st.integers(-50, 400)), max_size=30))
def test_outside_alerts_fire_exactly_as_long_as_was_said(words) -> None:
    """Whatever is posted and when: an alert fires from a word on until the end that the last one gave."""
    outside, now, ends, firing = External(100), 0, {}, set()
    for wait, name, length in words:
        now += wait
        for one in outside.due(now):
            firing.discard(dict(one.labels)["n"])
        assert firing == {each for each, end in ends.items() if end > now}
        end = None if length is None else now + length
        changed = outside.take([Posted(labels=labels_of({"n": name}), ends_at=end)], now, {})
        if changed:
            (firing.add if changed[0].state == "firing" else firing.discard)(name)
        ends[name] = now + 100 if end is None else end
        assert firing == {each for each, until in ends.items() if until > now}


def test_who_has_not_taken_an_alert_is_known(alert) -> None:
    """Each target until it has taken it; one that refused it has not; a receiver without targets tells nobody."""
    made, one = Desk(receivers={"default": [Target("a"), Target("b")]}), alert()
    made.grouping.insert([one], 0)
    assert made.standing(one, 0).untold == {"default": ("a", "b")}
    to_a, to_b = made.grouping.due(0)
    assert made.standing(one, 0).untold == {"default": ("a", "b")}
    made.grouping.confirm(to_a, 1)
    made.grouping.release(to_b, 1, refused=True)
    assert made.standing(one, 1).untold == {"default": ("b",)}
    assert made.grouping.heard(one.fingerprint) == [("default", "a", 1)]
    assert Desk(receivers={"default": []}).standing(one, 1).untold == {"default": ()}
    said = desk()
    said.grouping.insert([one], 0)
    say(said, 0)
    assert said.standing(one, 0).untold == {}


def test_one_outage_is_one_page(alert) -> None:
    """While a source is not seen, what carries its name is not told; other sources and what names none are."""
    made = desk()
    made.grouping.insert([alert(alertname="SourceBlind", source="kafka")], 0)
    made.grouping.insert(
        [
            alert(alertname="Lag", source="kafka"),
            alert(alertname="Lag", source="redis", task="x"),
            alert(alertname="Plain", task="y"),
        ],
        0,
    )
    assert sorted(name for _, name in say(made, 0)) == ["Lag", "Plain", "SourceBlind"]
    lag = alert(alertname="Lag", source="kafka")
    blind = alert(alertname="SourceBlind", source="kafka")
    assert made.standing(lag, 0).inhibited_by == (blind.fingerprint,)
    made.grouping.insert([alert("resolved", end=5, alertname="SourceBlind", source="kafka")], 5)
    assert ("firing", "Lag") in say(made, 10)


def test_the_end_of_a_silence_tells_the_difference(alert) -> None:
    """What ended under it is told as resolved, what began as firing, and what is as it was told is not told again."""
    made = desk(new_id=lambda: "s")
    for name in "AB":
        made.grouping.insert([alert(task=name, alertname=name)], 0)
    assert len(say(made, 0)) == 2
    conditions = (matcher("alertname", "=~", "A|B|C"),)
    wanted = Silence(id="", matchers=conditions, starts_at=1, ends_at=100, created_by="me", comment="x")
    made.silence(wanted, 1)
    made.grouping.insert([alert("resolved", end=50, task="A", alertname="A"), alert(task="C", alertname="C")], 50)
    assert [said for now in range(10, 100, 10) for said in say(made, now)] == []
    assert made.standing(alert(task="B", alertname="B"), 60).silenced_by == ("s",)
    assert sorted(said for now in (100, 110) for said in say(made, now)) == [("firing", "C"), ("resolved", "A")]


def test_the_watchdog_is_told_only_by_a_route_of_its_own(alert) -> None:
    """The built-in route and the one at the top of a file say nothing of it; a route that takes it does."""
    watchdog = alert(alertname="Watchdog", severity="none")
    made = desk()
    made.grouping.insert([watchdog], 0)
    assert say(made, 0) == []
    assert watchdog.fingerprint in made.grouping.firing
    text = "route: {receiver: a, group_wait: 0s, routes: [{matchers: [alertname=Watchdog], receiver: b}]}\n"
    routing = load("r.yaml", text + "receivers: [{name: a}, {name: b}]\n")
    named = Desk(routing, {"a": [Target("a")], "b": [Target("b")]})
    named.grouping.insert([watchdog], 0)
    assert [one.receiver for one in named.grouping.due(0)] == ["b"]


def test_a_drill_goes_the_real_way_and_says_so() -> None:
    """It is told at once though its route waits, apart from real alerts, marked; who took it is on record; it ends."""
    text = "route: {receiver: a, group_by: [], group_wait: 5m}\nreceivers: [{name: a}]\n"
    made = Desk(load("r.yaml", text), {"a": [Target("t")]})
    made.grouping.insert([make_alert()], 0)
    drill = made.drill((), 10, 60)
    assert (drill.receivers, drill.targets, drill.told) == (("a",), ("t",), ())
    (one,) = made.grouping.due(10)
    assert one.title.startswith("[DRILL] [FIRING]")
    assert "This is a drill" in one.text
    assert len(one.alerts) == 1
    made.grouping.confirm(one, 11)
    assert made.drilled(drill.id, 12).told == (("a", "t", 11),)
    made.tend(100)
    assert made.drilled(drill.id, 100) is None
    assert not any(dict(each.labels)["alertname"] == "TasktrailDrill" for each, _ in made.grouping.firing.values())


def test_a_link_allows_what_it_says_until_it_expires() -> None:
    """Another key, another byte, a later time: each is refused."""
    link = Link("ack", "0" * 16, 100)
    text = sign(link, b"k" * 32)
    assert verify(text, b"k" * 32, 99.9) == link
    with pytest.raises(ValueError, match="expired"):
        verify(text, b"k" * 32, 100)
    with pytest.raises(ValueError, match="no link"):
        verify(text, b"j" * 32, 0)
    for place in range(len(text)):
        forged = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        with pytest.raises(ValueError, match="link"):
            verify(forged, b"k" * 32, 0)
    for wrong in ("", "x", "é", "ab" * 100):
        with pytest.raises(ValueError, match="link"):
            verify(wrong, b"k" * 32, 0)


def test_messages_carry_links_where_there_is_something_to_build_on(alert) -> None:
    """With an external URL, below owner and runbook; they lead to the group; an end has none."""
    made = desk(wording=Wording(external_url="https://x.invalid/t/"))
    made.grouping.insert([alert()], 0)
    (one,) = made.grouping.due(0)
    assert one.text.split("\n")[2:4] == [f"ack: {one.ack_url}", f"silence: {one.silence_url}"]
    assert one.ack_url.startswith("https://x.invalid/t/act/")
    link, group = made.allowed(one.ack_url.rpartition("/")[2], 0)
    assert (link.action, group.key) == ("ack", one.group_key)
    assert link.group == links.group_id("default", one.group_key)
    made.grouping.confirm(one, 0)
    made.grouping.insert([alert("resolved", end=5)], 5)
    (end,) = made.grouping.due(10)
    assert (end.ack_url, "silence:" in end.text) == ("", False)


def test_who_quieted_what_is_on_record(alert) -> None:
    """Each silence, its end and each ack is one line with its author and reason, whatever characters they hold."""
    said: list[str] = []
    made = desk(new_id=lambda: "s", say=said.append)
    made.grouping.insert([alert()], 0)
    conditions = (matcher("task", "=", "x"),)
    made.silence(Silence(id="", matchers=conditions, starts_at=0, ends_at=9, created_by="me", comment="a\nb"), 0)
    made.end_silence("s", 5)
    made.ack([alert().fingerprint], "ann", "on it", 0, 60)
    assert [line.split()[0] for line in said] == ["silence", "silence", "ack"]
    assert "by me: " in said[0]
    assert "by ann: on it" in said[2]
    assert not any("\n" in line for line in said)


def test_only_what_fires_is_acked(alert) -> None:
    """An ack of nothing is refused; the ack goes with the alert's end."""
    made = desk()
    with pytest.raises(ValueError, match="no such alert"):
        made.ack(["f" * 16], "ann", "", 0, 60)
    made.grouping.insert([alert()], 0)
    with pytest.raises(ValueError, match="author"):
        made.ack([alert().fingerprint], " ", "", 0, 60)
    (ack,) = made.ack([alert().fingerprint, "f" * 16], "ann", "on it", 0, 60)
    assert made.standing(alert(), 1).ack == ack
    made.grouping.insert([alert("resolved", end=5)], 5)
    assert made.acks.listed(5) == []


def test_a_file_is_shown_without_its_secrets() -> None:
    """Tokens, keys, passwords and the addresses of webhooks are hidden; names, matchers and hosts stay."""
    text = """
global: {smtp_auth_password: hunter2, slack_api_url: 'https://hooks.slack.com/hunter2', opsgenie_api_url: 'https://o/'}
route: {receiver: a, routes: [{matchers: [key="value"], receiver: a}]}
receivers:
- name: a
  webhook_configs:
  - {url: 'https://me:hunter2@host:8/hunter2?hunter2', http_config: {authorization: {credentials: hunter2}}}
  pagerduty_configs: [{routing_key: hunter2}]
  telegram_configs: [{bot_token: hunter2, chat_id: 5}]
  apprise_configs: [{url: 'slack://hunter2/a/b'}]
"""
    shown = masked(text)
    assert "hunter2" not in shown
    for kept in ("https://host:8/", 'key="value"', "https://o/", "name: a"):
        assert kept in shown
