"""Silences as Alertmanager keeps them: states, what may be changed in place, how long they are kept."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.model.labels import fingerprint, labels_of
from collector.routing.keeping import Silence
from collector.routing.matchers import parse_matchers
from collector.routing.silences import RETAINED, Silences, Unknown

LABELS = labels_of({"alertname": "A", "task": "pay.settle"})


def silence(text: str = "task=pay.settle", start: float = 0, end: float = 100, **more: str) -> Silence:
    """A silence from `start` to `end`."""
    given = {"id": "", "created_by": "me", "comment": "known"} | more
    return Silence(matchers=parse_matchers(text), starts_at=start, ends_at=end, **given)


def quiet(silences: Silences, now: float) -> bool:
    """Whether the alert is silenced."""
    return bool(silences.of(fingerprint(LABELS), LABELS, now))


def test_a_silence_is_pending_then_active_then_expired() -> None:
    """It holds from its start, up to and without its end; then it is kept for 120 hours, and forgotten."""
    silences = Silences()
    made = silences.set(silence(start=10, end=100), 5, "1")
    assert [made.state(now) for now in (5, 10, 99.9, 100)] == ["pending", "active", "active", "expired"]
    assert [quiet(silences, now) for now in (9.9, 10, 99.9, 100)] == [False, True, True, False]
    assert silences.forget(99 + RETAINED) == 0
    assert silences.forget(100 + RETAINED) == 1
    assert silences.get("1") is None


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("task=~pay.*", True),
        ("task=~ay.*", False),
        ("alertname=A,task!=pay.settle", False),
        ("alertname=A,task!~mail.*", True),
        ("task=pay.settle,queue=", True),
        ("task=pay.settle,queue!=", False),
    ],
)
def test_matchers_are_those_of_routes(text: str, holds: bool) -> None:  # noqa: FBT001
    """Regular expressions are anchored, negative ones exclude, and a label that is not there is empty."""
    silences = Silences()
    silences.set(silence(text), 0, "1")
    assert quiet(silences, 1) is holds


def test_a_change_that_keeps_the_past_is_in_place() -> None:
    """A later end and another comment keep the id; other matchers, or another start, make a new one and end the old."""
    silences = Silences()
    silences.set(silence(), 0, "1")
    assert silences.set(silence(id="1", end=200, comment="longer"), 50, "2").id == "1"
    changed = silences.set(silence("task=other", id="1", end=200), 60, "3")
    assert (changed.id, changed.starts_at) == ("3", 60)
    assert (silences.get("1").state(60), silences.get("1").ends_at) == ("expired", 60)
    assert silences.set(silence("task=other", id="3", start=90, end=200), 70, "4").id == "4"
    assert [one.id for one in silences.listed(95)] == ["4", "3", "1"]


def test_an_expired_silence_comes_back_as_a_new_one() -> None:
    """What has ended is not changed: setting it again makes another."""
    silences = Silences()
    silences.set(silence(), 0, "1")
    silences.expire("1", 10)
    assert silences.expire("1", 20).ends_at == 10
    assert silences.set(silence(id="1", end=300), 30, "2").id == "2"
    assert silences.get("1").ends_at == 10


def test_ending_one_that_is_pending_leaves_no_time_in_it() -> None:
    """It never holds."""
    silences = Silences()
    silences.set(silence(start=50), 0, "1")
    silences.expire("1", 10)
    assert not any(quiet(silences, now) for now in (9, 10, 50, 60))


def test_what_is_no_silence_is_refused() -> None:
    """Without matchers, with only such as the empty value fulfils, with an end before its start, of no known id."""
    silences = Silences()
    for wrong, why in (
        (Silence(id="", matchers=(), starts_at=0, ends_at=1, created_by="", comment=""), "at least one matcher"),
        (silence("task=~.*"), "must not match the empty"),
        (silence(start=5, end=4), "end time"),
    ):
        with pytest.raises(ValueError, match=why):
            silences.set(wrong, 0, "1")
    with pytest.raises(Unknown):
        silences.set(silence(id="nobody"), 0, "1")
    with pytest.raises(Unknown):
        silences.expire("nobody", 0)
    assert len(silences) == 0


TASKS = {"a": "pay.settle", "b": "pay.settle", "x": "other"}


@given(st.lists(st.tuples(st.sampled_from("abx"), st.integers(0, 50), st.integers(1, 50)), max_size=8), st.data())
def test_an_alert_is_quiet_exactly_while_one_holds(spans, data) -> None:
    """Whatever silences there are, and whenever each was ended, one holds exactly where its time says so."""
    silences, counter = Silences(), itertools.count(1)
    made = [
        silences.set(
            silence(f"task={'pay.settle' if name != 'x' else name}", start, start + length), 0, str(next(counter))
        )
        for name, start, length in spans
    ]
    for one in made:
        if data.draw(st.booleans()):
            silences.expire(one.id, data.draw(st.integers(0, int(one.ends_at) - 1)))
    for now in range(0, 101, 5):
        wanted = any(
            one.starts_at <= now < one.ends_at and one.matchers[0].value == "pay.settle"
            for one in map(silences.get, [one.id for one in made])
        )
        assert quiet(silences, now) is wanted
