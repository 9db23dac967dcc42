"""The ledger: one record for each death, verdicts by a table, a history to which lines are only added."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.deadletter.ledger import DELETED, Bounds
from collector.deadletter.record import ENDED, FOLLOWING, OBSERVED, STATES, Found, Origin
from collector.model.death import SENT_AGAIN, SUCCEEDED_LATER, Ending
from tests.unit.deadletter.deaths import Kept, T, death, verdict

MINE = Found(place="pay-dlt/0", receipt="7", origin=Origin(topic="pay", partition=0, offset=3), size=12)


def test_a_death_becomes_an_open_record_with_an_owner_and_a_clock(ledger):
    """All that is known of it is in one place."""
    name, told = ledger.die(found=MINE, review_within=3600.0, attempts=3, message="no row 17", trace_id="f" * 32)
    one = ledger.records[name]
    assert told == "new"
    assert (one.state, one.owner, one.review_by, one.attempts) == ("open", "payments", T + 3600.0, 3)
    assert one.found == MINE
    assert [(e.state, e.actor, e.at) for e in ledger.history[name]] == [("open", OBSERVED, T)]


def test_the_same_death_told_again_is_no_second_record(ledger):
    """Another channel, another process or another look at the place adds what was missing, and nothing else."""
    name, _ = ledger.die(error="")
    assert ledger.die(found=msgspec.structs.replace(MINE, error="KeyError"))[1] == "known"
    assert len(ledger) == len(ledger.history[name]) == 1
    assert (ledger.records[name].found.place, ledger.records[name].error) == ("pay-dlt/0", "KeyError")


def test_what_is_known_is_not_overwritten(ledger):
    """The first place that told stays, and so does the fingerprint."""
    name, _ = ledger.die(found=MINE)
    before = ledger.records[name]
    ledger.fill("s", "a", Found(place="elsewhere", error="KeyError", size=1))
    one = ledger.records[name]
    assert (one.error, one.fingerprint, one.found.place, one.found.size) == (
        "ValueError",
        before.fingerprint,
        "pay-dlt/0",
        12,
    )
    ledger.changes()
    ledger.fill("s", "a", MINE)
    assert ledger.changes() is None


@pytest.mark.parametrize("receipt", ["5", "1690000000000-0"])
def test_the_place_of_one_record_never_gets_the_receipt_of_another(ledger, receipt):
    """An event tells of a death before its message is read, or after: place, receipt and times are the message's."""
    message = msgspec.structs.replace(MINE, receipt="900", read_by="k", written_at=T, preview="{}")
    ledger.die("a", found=Found(receipt=receipt, frame="pay.py:settle"))
    ledger.fill("s", "a", message)
    ledger.die("b", found=message)
    ledger.fill("s", "b", Found(receipt=receipt, frame="pay.py:settle"))
    expected = msgspec.structs.replace(message, frame="pay.py:settle")
    assert [one.found for one in ledger.records.values()] == [expected, expected]


def test_of_a_second_place_nothing_is_taken_that_belongs_to_it(ledger):
    """Not who read it there, nor until when it is kept; what the same place tells later is filled in."""
    known = Found(place="pay-dlq", receipt="1690000000000-0")
    name, _ = ledger.die(found=known)
    other = Found(place="pay-dlt/0", receipt="7", read_by="k", written_at=T, size=3, expires_at=T + 60.0)
    ledger.fill("s", "a", other)
    assert ledger.records[name].found == known
    ledger.fill("s", "a", msgspec.structs.replace(known, size=12))
    assert ledger.records[name].found.size == 12


def test_a_death_after_the_end_of_the_last_one_is_another(ledger):
    """An id that is used again may die again."""
    first, _ = ledger.die()
    ledger.end(Ending("s", "a", T + 5.0, SENT_AGAIN))
    second, told = ledger.die(at=9.0)
    assert (told, first != second) == ("new", True)
    assert [one.state for one in ledger.records.values()] == ["redriven", "open"]


def test_an_end_that_is_told_again_does_not_end_the_next_death(ledger):
    """After a crash what ended the first one comes again, when the second is on record."""
    ledger.die()
    ledger.end(Ending("s", "a", T + 5.0, SENT_AGAIN))
    ledger.die(at=9.0)
    ledger.end(Ending("s", "a", T + 5.0, SENT_AGAIN))
    assert [one.state for one in ledger.records.values()] == ["redriven", "open"]


def test_ids_of_two_homes_are_two(ledger):
    """The same id in another application is another task."""
    assert ledger.die()[0] != ledger.die(home="=shop")[0]


@pytest.mark.parametrize("why", [SUCCEEDED_LATER, SENT_AGAIN])
def test_a_later_success_or_life_ends_it(ledger, why):
    """What was seen to be made good needs nobody's verdict."""
    name, _ = ledger.die()
    ledger.end(Ending("s", "a", T + 5.0, why))
    one = ledger.records[name]
    assert (one.state, one.actor, one.reason, one.state_at) == ("redriven", OBSERVED, why, T + 5.0)


def test_what_happens_after_a_verdict_is_written_down(ledger):
    """Whether a redriven item was done is in its history, once."""
    name, _ = ledger.die()
    ledger.judge(name, verdict("redriven", ticket="OPS-7"), T + 1.0)
    for _ in range(2):
        ledger.end(Ending("s", "a", T + 5.0, SUCCEEDED_LATER))
    assert [(e.actor, e.reason) for e in ledger.history[name]][1:] == [
        ("ann", "not needed"),
        (OBSERVED, SUCCEEDED_LATER),
    ]
    assert ledger.records[name].ticket == "OPS-7"


def test_a_verdict_stands_when_the_death_is_told_again(ledger):
    """After a crash the source tells the same once more: whoever counts it is told that it has ended."""
    name, _ = ledger.die()
    assert ledger.judge(name, verdict(), T + 1.0) is True
    assert ledger.die()[1] == "ended"
    assert ledger.records[name].state == "discarded"


def test_what_turns_out_not_to_have_ended_is_open_again(ledger):
    """The success was of another life; a person's verdict would stand."""
    name, _ = ledger.die()
    ledger.end(Ending("s", "a", T + 5.0, SUCCEEDED_LATER))
    assert ledger.die(is_again=True)[1] == "known"
    assert ledger.records[name].state == "open"


@pytest.mark.parametrize("state", STATES)
def test_each_verdict_holds_where_the_table_says_so(state):
    """Ack before a verdict, a verdict at any time; from one verdict to another is a correction."""
    for wanted in ("acknowledged", "redriven", "discarded", "compensated"):
        kept = Kept()
        name, _ = kept.die()
        kept.records[name] = msgspec.structs.replace(kept.records[name], state=state)
        if wanted in FOLLOWING[state]:
            assert kept.judge(name, verdict(wanted), T) is (state not in ENDED and wanted in ENDED)
            assert kept.records[name].state == wanted
        else:
            with pytest.raises(ValueError, match=f"is {state}, and cannot become {wanted}"):
                kept.judge(name, verdict(wanted), T)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"actor": " "}, "actor: say who decides"),
        ({"reason": ""}, "reason: say why"),
        ({"reason": "x" * 1001}, "reason: 1001 characters, at most 1000"),
        ({"ticket": "x" * 201}, "ticket: 201 characters"),
        ({"state": "expired"}, "`expired` is no verdict"),
        ({"state": "open"}, "`open` is no verdict"),
    ],
)
def test_a_verdict_without_name_or_reason_is_refused(ledger, wrong, said):
    """Whoever reads it later was not there."""
    name, _ = ledger.die()
    with pytest.raises(ValueError, match=said):
        ledger.judge(name, verdict(**wrong), T)
    assert ledger.records[name].state == "open"


def test_a_verdict_on_nothing_is_refused(ledger):
    """There is no such record."""
    with pytest.raises(KeyError):
        ledger.judge("0" * 16, verdict(), T)


def test_a_history_has_an_end():
    """A script that judges for ever fills no disk; what is seen to end it is still taken down."""
    kept = Kept(Bounds(entries=3))
    name, _ = kept.die()
    for _ in range(2):
        kept.judge(name, verdict("acknowledged"), T)
    with pytest.raises(ValueError, match="has 3 entries in its history"):
        kept.judge(name, verdict(), T)
    kept.end(Ending("s", "a", T + 5.0, SUCCEEDED_LATER))
    assert (len(kept.history[name]), kept.records[name].state) == (4, "redriven")


def test_what_its_place_deletes_is_marked_and_still_owed(ledger):
    """A deleted message is no verdict: somebody has to say what becomes of the work."""
    name, _ = ledger.die(found=msgspec.structs.replace(MINE, expires_at=T + 60.0))
    assert ledger.expire(T + 59.0) == []
    assert [one.id for one in ledger.expire(T + 60.0)] == [name]
    assert ledger.expire(T + 61.0) == []
    one = ledger.records[name]
    assert (one.state, one.reason, one.is_ended) == ("expired", DELETED, False)
    assert ledger.judge(name, verdict("compensated"), T + 70.0) is True


def test_what_is_deleted_at_once_is_marked_in_short_steps():
    """So many in one step, and the rest in the next ones; none is left out, and none is marked twice."""
    kept = Kept()
    for number in range(5):
        kept.die(str(number), found=msgspec.structs.replace(MINE, expires_at=T + 60.0))
    assert [len(kept.expire(T + 60.0, 2)) for _ in range(4)] == [2, 2, 1, 0]
    assert set(kept.states().values()) == {"expired"}
    for name in list(kept.records):
        kept.judge(name, verdict(), T + 70.0)
    kept.expire(T + 70.0 + kept.bounds.ended_seconds, 2)
    assert len(kept) == 3


def test_ended_records_leave_after_their_time():
    """Only then; an open one never leaves by time."""
    kept = Kept(Bounds(ended_seconds=100.0))
    first, _ = kept.die("a")
    kept.die("b")
    kept.judge(first, verdict(), T + 10.0)
    kept.expire(T + 109.0)
    assert len(kept) == 2
    kept.expire(T + 110.0)
    assert kept.states() == {"b": "open"}
    assert first not in kept.history


def test_the_bound_lets_ended_ones_go_first():
    """What nobody owes anything for leaves before what is open; each exit has a name."""
    kept = Kept(Bounds(records=2))
    names = [kept.die(task_id)[0] for task_id in "ab"]
    kept.judge(names[1], verdict(), T)
    kept.die("c")
    assert (kept.states(), kept.evictions) == ({"a": "open", "c": "open"}, {"ledger_ended": 1, "ledger_open": 0})
    kept.die("d")
    assert (list(kept.states()), kept.evictions) == (["c", "d"], {"ledger_ended": 1, "ledger_open": 1})
    assert set(kept.changes().gone) == set(names)


def test_changes_are_given_once_and_make_the_same_ledger_again(ledger):
    """What a process has written is all that the next one needs."""
    names = [ledger.die(task_id, at=number)[0] for number, task_id in enumerate("abc")]
    ledger.judge(names[1], verdict("acknowledged"), T + 9.0)
    ledger.end(Ending("s", "c", T + 9.0, SUCCEEDED_LATER))
    changes = ledger.changes()
    assert ledger.changes() is None
    other = Kept()
    other.restore(reversed(changes.records), reversed(changes.entries))
    assert (other.records, other.history) == (ledger.records, ledger.history)
    assert other.changes() is None
    assert other.die("a")[1] == "known"
    other.die("d")
    assert max(e.number for e in other.changes().entries) == 6


VERDICTS = {"ack": "acknowledged", "discard": "discarded", "redrive": "redriven"}


class Story:
    """A ledger that is told things in any order, and begun anew from what it gave to be written."""

    def __init__(self):
        self.kept = Kept()
        self.saved = {}, {}
        self.lines = {}

    def step(self, what, task_id, at):
        """One thing happens."""
        one = self.kept.latest("s", task_id)
        if what in ("die", "again"):
            when = at if what == "die" or one is None else one.when - T
            found = msgspec.structs.replace(MINE, expires_at=T + at + 3.0)
            self.kept.die(task_id, at=when, found=found, is_again=what == "again")
        elif what == "expire":
            self.kept.expire(T + at)
        elif what == "restart":
            self.restart()
        elif what == "succeed":
            self.kept.end(Ending("s", task_id, T + at, SUCCEEDED_LATER))
        elif one is not None and VERDICTS[what] in FOLLOWING[one.state]:
            self.kept.judge(one.id, verdict(VERDICTS[what]), T + at)

    def restart(self):
        """Another process goes on with what was written."""
        changed = self.kept.changes()
        if changed is not None:
            self.saved[0].update((one.id, one) for one in changed.records)
            self.saved[1].update((entry.number, entry) for entry in changed.entries)
        self.kept = Kept()
        self.kept.restore(self.saved[0].values(), self.saved[1].values())

    def check(self):
        """What holds at every time."""
        for name, record in self.kept.records.items():
            history, before = self.kept.history[name], self.lines.get(name, [])
            assert history[-1].state == record.state
            assert history[: len(before)] == before
            assert [e.number for e in history] == sorted({e.number for e in history})
            self.lines[name] = list(history)
        open_ones = [(one.home, one.task_id) for one in self.kept.records.values() if not one.is_ended]
        assert len(open_ones) == len(set(open_ones))
        lying = sum(standing.lying for _, standing in self.kept.clocks.standings())
        assert lying == sum(not one.is_ended and one.state != "expired" for one in self.kept.records.values())


WHAT = ["die", "again", "succeed", "ack", "discard", "redrive", "expire", "restart"]


@given(st.lists(st.tuples(st.sampled_from(WHAT), st.sampled_from("ab")), max_size=30))
def test_however_it_came_the_history_tells_the_state_and_only_grows(steps):
    """Its last line is the record's state, nothing is taken back from it, and no task has two open records."""
    story = Story()
    for number, (what, task_id) in enumerate(steps):
        story.step(what, task_id, float(number))
        story.check()


def test_a_death_has_one_name_everywhere():
    """What another process calls it is the same, so that a link still leads there."""
    one, other = Kept(), Kept()
    assert one.die(at=0.25)[0] == other.die(at=0.25, error="", attempts=9)[0]
    assert death(at=0.25).when == T + 0.25
