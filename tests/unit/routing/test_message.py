"""What a person reads at 3 a.m."""

from __future__ import annotations

import pytest

from collector.model.alert import Evidence, Offender
from collector.model.labels import labels_of
from collector.routing.message import MOST_TEXT, Wording, common, compose, compose_away, duration, iso, order, rank

AT = 1_790_000_000.0
PAGE = "# Dead letters\n\nSomebody must decide.\n\n1. Look at the error class.\n" + "more\n" * 50


def evidence(count=1, **more):
    """Evidence of so many tasks."""
    fields = {
        "task": "pay.settle",
        "queue": "payments",
        "state": "dead_lettered",
        "error": "ValueError",
        "error_message": "no such account:\n  password=hunter2",
        "attempts": 3,
        "worker": "w9",
        "caller": "web",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
    } | more
    offenders = tuple(Offender(task_id=f"d{n}", at=AT + n, **fields) for n in range(count))
    return Evidence(offenders=offenders, top_errors=(("ValueError", count), ("KeyError", 1)))


def paged(alert, state="firing", *, at=AT, end=None, notes=None, proof=None, **labels):
    """An alert with an owner, a summary and a runbook."""
    made = alert(state, at, end, **({"owner": "payments-team"} | labels))
    made.annotations = labels_of({"summary": "1 dead letter", "runbook_url": "/runbooks/dead-letters"} | (notes or {}))
    made.evidence = proof
    return made


def test_firing(alert):
    """A firing alert says name, severity, owner and runbook first, then what, since when, how much, and which tasks."""
    one = paged(alert, proof=evidence(), notes={"description": "Nobody has looked\nat it."}, source="kafka")
    title, text = compose([one], Wording(external_url="http://mon:9810/"))
    assert title == "[FIRING] DeadLetter (page, owner payments-team): pay.settle on payments"
    assert text.splitlines() == [
        "severity: page   owner: payments-team",
        "runbook: http://mon:9810/runbooks/dead-letters",
        "pay.settle on payments",
        "source: kafka",
        "",
        "1 dead letter",
        "Nobody has looked at it.",
        "firing since 2026-09-21T14:13:20Z, value 1",
        "",
        "offending tasks, newest first:",
        "- d0: dead_lettered, ValueError, 3 attempts",
        "  worker w9  caller web  trace 0af7651916cd43dd8448eb211c80319c",
        "  no such account: password=***",
        "  http://mon:9810/api/tasks/d0",
        "",
        "top errors: ValueError 1 (50%), KeyError 1 (50%)",
    ]


def test_resolved(alert):
    """A resolved alert is short and says how long it lasted."""
    one = paged(alert, "resolved", end=AT + 250, proof=evidence(), notes={"description": "Nobody has looked."})
    one.resolve_reason = "source taken out of the configuration"
    title, text = compose([one], Wording(runbooks={"dead-letters": PAGE}))
    assert title.startswith("[RESOLVED] DeadLetter")
    assert text.splitlines() == [
        "severity: page   owner: payments-team",
        "runbook: dead-letters",
        "pay.settle on payments",
        "",
        "it was: 1 dead letter",
        "resolved: lasted 4m 10s, 2026-09-21T14:13:20Z to 2026-09-21T14:17:30Z",
        "ended because: source taken out of the configuration",
    ]


def test_blind(alert):
    """An alert that is kept because its source says nothing says so."""
    one = paged(alert)
    one.blind = True
    assert "blind: a source of this rule says nothing" in compose([one], Wording())[1]


@pytest.mark.parametrize(
    ("url", "external", "first"),
    [
        ("", "", "runbook: none given"),
        ("https://wiki/x", "", "runbook: https://wiki/x"),
        ("https://wiki/x", "http://mon", "runbook: https://wiki/x"),
        ("/runbooks/dead-letters", "http://mon/", "runbook: http://mon/runbooks/dead-letters"),
        ("/runbooks/dead-letters", "", "runbook: dead-letters"),
        ("/runbooks/dead-letters.md", "", "runbook: dead-letters"),
        ("/runbooks/unknown", "", "runbook: unknown"),
    ],
)
def test_runbook_line(alert, url, external, first):
    """The runbook is a link where one can be built, else the page's name."""
    one = paged(alert, notes={"runbook_url": url})
    assert compose([one], Wording(external_url=external, runbooks={"dead-letters": PAGE}))[1].splitlines()[1] == first


def test_runbook_text(alert):
    """Without an external URL the first lines of the runbook are in the message, without its title."""
    text = compose([paged(alert)], Wording(runbooks={"dead-letters": PAGE}))[1]
    assert "from the runbook:\n  Somebody must decide.\n  1. Look at the error class.\n  more\n" in text
    assert "# Dead letters" not in text
    assert text.count("  more") == 6


def test_many(alert):
    """A group names its first alerts by what sets them apart, counts the others, and merges the evidence."""
    alerts = [paged(alert, error=f"E{n:02}", proof=evidence(3, task=f"t{n}", worker="")) for n in range(12)]
    alerts.append(paged(alert, "resolved", end=AT + 1, error="E12"))
    alerts[1].annotations = labels_of({"summary": "another"})
    title, text = compose(order(alerts), Wording(external_url="http://mon"))
    assert title == "[FIRING 12] DeadLetter (page, owner payments-team): pay.settle on payments"
    assert "12 firing, 1 resolved:\n- error=E00\n  firing since" in text
    assert "- error=E01\n  another\n" in text
    assert "and 3 more: http://mon" in text
    assert text.count("- d2: ") == 5
    assert "  task t0  caller web" in text
    assert "top errors: ValueError 30 (75%), KeyError 10 (25%)" in text


def test_many_that_differ_in_nothing(alert):
    """Alerts without labels of their own are listed by their summary."""
    text = compose([paged(alert), paged(alert)], Wording())[1]
    assert text.count("- 1 dead letter\n") == 2


def test_many_names(alert):
    """A group of several rules names up to three of them."""
    alerts = [paged(alert, alertname=name, task="", queue="") for name in "ABCD"]
    assert compose(alerts, Wording())[0] == "[FIRING 4] A, B, C ... (page, owner payments-team)"


def test_bare(alert):
    """An alert without any word of its own still makes a message."""
    one = alert(alertname="", task="", severity="", queue="q")
    one.annotations = ()
    title, text = compose([one], Wording())
    assert title == "[FIRING] alert without a name (none, owner unassigned): queue q"
    assert text.startswith("severity: none   owner: unassigned\nrunbook: none given\nqueue q\n\nalert without a name\n")


def test_owner_is_team(alert):
    """The owner is the label `owner`, else the label `team`."""
    assert "owner: crew" in compose([alert(team="crew")], Wording())[1]


def test_text_is_bounded(alert):
    """However long its parts are, a text keeps its head and says that it was cut."""
    long = "x y" * 5000
    one = paged(alert, proof=evidence(5, error_message=long), notes={"summary": long, "description": long})
    text = compose([one], Wording(runbooks={"dead-letters": (long + "\n") * 30}))[1]
    assert len(text) <= MOST_TEXT + len("\n(cut)")
    many = [paged(alert, notes={"summary": f"{n}{long}"}, **dict.fromkeys("abcdef", f"{n}{long}")) for n in range(20)]
    cut = compose(many, Wording())[1]
    assert cut.startswith("severity: page   owner: payments-team\nrunbook: ")
    assert cut.endswith("(cut)")
    assert len(cut) <= MOST_TEXT + len("\n(cut)")


def test_away(alert):
    """The summary of a backlog lists what fired and ended, with times, and counts the rest."""
    alerts = [paged(alert, "resolved", at=AT + n, end=AT + n + 5, task=f"t{n}") for n in range(25)]
    title, text = compose_away(alerts, 3, Wording())
    assert title == "[RESOLVED] while the monitor was away: 28 alerts fired and ended"
    assert text.startswith(
        "These fired and ended between 2026-09-21T14:13:20Z and 2026-09-21T14:13:49Z:\n\n- DeadLetter"
    )
    assert "- DeadLetter (page, owner payments-team) t0 on payments\n  lasted 5s, 2026-09-21T14:13:20Z to" in text
    assert text.endswith("and 8 more")
    assert compose_away(alerts[:1], 0, Wording())[0].endswith("1 alert fired and ended")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0s"), (0.25, "0.2s"), (1, "1s"), (250, "4m 10s"), (3600, "1h"), (100_000, "1d 3h"), (-1, "0.0s")],
)
def test_duration(seconds, text):
    """Durations are told in their two largest units."""
    assert duration(seconds) == text


def test_iso():
    """Times are UTC, to the second."""
    assert iso(AT + 0.9) == "2026-09-21T14:13:20Z"


@pytest.mark.parametrize(
    ("severity", "expected"), [("page", 0), ("Critical", 0), ("warning", 2), ("odd", 2), ("info", 3)]
)
def test_rank(alert, severity, expected):
    """Severities have an order, and an unknown word is a warning."""
    assert rank(alert(severity=severity)) == expected


def test_common():
    """Common are the pairs that all label sets have; of none, nothing."""
    assert common([]) == ()
    assert common([(("a", "1"), ("b", "2")), (("a", "1"), ("b", "3"))]) == (("a", "1"),)


def test_what_is_not_seen_is_written_out(alert):
    """Control characters and marks that turn the writing around do nothing in a message, and begin no line in it."""
    one = paged(alert, task="a\x1b[2J\u202eb\nFAKE", notes={"runbook_url": "https://r/\nowner: nobody"})
    title, text = compose([one], Wording())
    assert title.endswith(": a\\x1b[2J\\u202eb FAKE on payments")
    assert "runbook: https://r/ owner: nobody" in text.splitlines()
