"""A source's time axis: which time places its events, and up to when the source is complete."""

from __future__ import annotations

import math

import pytest

from collector.model.event import Event
from collector.model.record import Gap, Outcome
from collector.shell.axis import Axis, SavedAxis
from tests.unit.parts import T0, batch

NOW = T0 + 100


def axis(clock: str = "broker", **fields: object) -> Axis:
    """A source that is up."""
    return Axis(name="s", application="", clock=clock, is_up=True, was_tried=True, **fields)


def events(*times: float | None) -> list[Event]:
    """An event for each sender's time."""
    return [Event(kind="sent", task_id=str(number), time=time) for number, time in enumerate(times)]


BROKER = [T0 + 1, T0 + 2]
OWN = (T0 - 7, None)


@pytest.mark.parametrize(
    ("clock", "times", "expected"),
    [
        ("broker", BROKER, BROKER),
        ("broker", None, [T0, T0]),
        ("broker", [NOW + 5, T0], [NOW, T0]),
        ("arrival", BROKER, [T0, T0]),
        ("event", BROKER, [T0 - 7, T0 - 7]),
        ("event", None, [T0 - 7, T0 - 7]),
    ],
)
def test_the_clock_setting_says_which_time_counts(clock: str, times: list[float] | None, expected: list[float]) -> None:
    """Events lie at the broker's, the sender's or the arrival's time, as set, and never ahead of now."""
    assert axis(clock).times(batch([b"", b""], times=times), events(*OWN), None, NOW) == expected


@pytest.mark.parametrize(("times", "expected"), [(BROKER, T0 + 1), (None, T0), ([NOW + 9, T0], NOW)])
def test_before_the_first_sender_time_the_record_has_one(times: list[float] | None, expected: float) -> None:
    """On sender's time an event without one takes its record's, where none came before it in its place."""
    assert axis("event").times(batch([b"", b""], times=times), events(None), [0], NOW) == [expected]


def test_an_event_without_a_time_does_not_push_the_watermark() -> None:
    """On sender's time an event without one happened with the newest before it, also of an earlier batch."""
    one = axis("event")
    first = batch([b""])
    one.advance(first, one.times(first, events(T0 - 50), None, NOW))
    later = batch([b"", b""], times=[NOW, NOW])
    assert one.times(later, events(None, T0 - 60), None, NOW) == [T0 - 50, T0 - 60]


@pytest.mark.case("K19.1")
def test_sender_times_are_never_ahead_of_now() -> None:
    """A sender whose clock is fast does not place events in the future."""
    assert axis("event").times(batch([b""]), events(NOW + 3600), None, NOW) == [NOW]


def test_times_follow_the_bodies_that_events_were_in() -> None:
    """Several events of one body share its record's time, and a rejected body takes none away."""
    times = [T0 + 1, T0 + 2, T0 + 3]
    found = axis().times(batch([b"", b"", b""], times=times), events(None, None, None), [0, 2, 2], NOW)
    assert found == [T0 + 1, T0 + 3, T0 + 3]


def test_a_batch_without_events_moves_the_place_on() -> None:
    """Where no record could be used the place was still read so far: on the broker's time, else on arrival."""
    one = axis()
    one.advance(batch([b"x", b"y"], times=BROKER), [])
    assert one.places["p"].newest == T0 + 2
    one.advance(batch([b"x"], place="other"), [])
    assert one.places["other"].newest == T0


def test_malformed_records_do_not_move_a_sender_watermark() -> None:
    """On sender's time only events that were read move the watermark."""
    one = axis("event")
    one.advance(batch([b"x"], times=[NOW]), [])
    assert one.places["p"].newest == -math.inf


def test_positions_and_heads_are_those_of_the_last_batch() -> None:
    """A place's position goes on with each batch that names one; it is at its head when the last batch says so."""
    one = axis()
    one.advance(batch([b"x"], position=7), [T0])
    one.advance(batch([], is_head=True), [])
    assert (one.places["p"].position, one.places["p"].is_head) == (7, True)
    assert one.read_at == T0


def place(one: Axis, name: str, newest: float | None, *, is_head: bool) -> None:
    """A batch of one place was counted: of one record, or empty."""
    ats = [] if newest is None else [newest]
    one.advance(batch([b"x"] * len(ats), place=name, is_head=is_head), ats)


def test_a_source_is_complete_up_to_its_slowest_place() -> None:
    """While a place is behind, nothing later than its newest record is complete."""
    one = axis()
    place(one, "fast", NOW, is_head=False)
    place(one, "slow", T0, is_head=False)
    assert one.complete_until(NOW, 5) == T0
    assert one.lag_seconds(NOW) == 100
    place(one, "slow", None, is_head=True)
    assert one.complete_until(NOW, 5) == NOW


def test_a_source_at_its_head_is_complete_now() -> None:
    """A source that was read to its end has nothing older to say."""
    one = axis()
    place(one, "p", None, is_head=True)
    assert one.complete_until(NOW, 5) == NOW
    assert one.lag_seconds(NOW) == 0


def test_a_tailed_source_that_falls_silent_lags() -> None:
    """What says every second that it is at its end, and then says nothing, lags since it was last heard."""
    one = axis(is_tailed=True)
    place(one, "p", None, is_head=True)
    assert one.lag_seconds(T0 + 2) == 0
    assert one.lag_seconds(T0 + 7) == 7
    place(one, "p", T0 - 50, is_head=False)
    assert one.lag_seconds(T0 + 7) == 57


def test_silence_of_what_need_not_speak_is_no_lag() -> None:
    """A push endpoint, and a file that was read to its end, have nothing to say."""
    one = axis(is_pushed=True)
    place(one, "p", T0, is_head=True)
    assert one.lag_seconds(NOW) == 0


def test_time_stands_with_sender_s_time_while_a_source_is_silent() -> None:
    """An idle source lets time go on, a silent one does not: it may have more of the past to tell."""
    one = axis("event", is_tailed=True)
    place(one, "p", T0 - 50, is_head=True)
    assert one.complete_until(NOW, 5) == T0 - 55
    one.advance(batch([], received_at=NOW - 1, is_head=True), [])
    assert one.complete_until(NOW, 5) == NOW - 5


def test_a_place_that_was_asked_for_is_waited_for() -> None:
    """A place whose position was asked for, and of which nothing has come, holds the source back."""
    one = axis()
    place(one, "p", NOW, is_head=True)
    one.place("next")
    assert one.complete_until(NOW, 5) == -math.inf
    assert not one.has_said


def test_a_source_that_is_down_says_nothing() -> None:
    """A source that is down, or of which no place is known, holds nobody back and completes nothing."""
    one = axis()
    assert one.complete_until(NOW, 5) is None
    place(one, "p", T0, is_head=False)
    one.is_up = False
    assert one.complete_until(NOW, 5) is None


def test_sender_time_waits_for_grace() -> None:
    """On sender's time an instant is complete when the lowest watermark has passed it by grace."""
    one = axis("event")
    place(one, "a", T0 + 20, is_head=False)
    place(one, "b", T0 + 10, is_head=False)
    assert one.complete_until(NOW, 5) == T0 + 5
    place(one, "b", None, is_head=True)  # read to its end: it does not hold the others back
    assert one.complete_until(NOW, 5) == T0 + 15


def test_sender_time_at_rest_follows_the_wall() -> None:
    """A source on sender's time that is at its end, and silent for longer than grace, is complete but for grace."""
    one = axis("event")
    place(one, "a", T0 - 50, is_head=True)
    assert one.complete_until(T0 + 4, 5) == T0 - 55
    assert one.complete_until(T0 + 6, 5) == T0 + 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"is_pushed": True}, True),
        ({"is_up": False, "was_tried": True}, True),
        ({"is_up": False, "was_tried": False}, False),
        ({}, False),
    ],
)
def test_what_has_no_past_or_is_down_need_not_be_waited_for(fields: dict[str, bool], *, said: bool) -> None:
    """Before any record it is known where a source stands if it is pushed to, or was tried and is down."""
    one = Axis(**{"name": "s", "application": "", "is_up": True, "was_tried": True, **fields})
    assert one.has_said is said


def test_what_was_read_past_an_instant() -> None:
    """An instant was read past where every known place has a record at it or behind it."""
    one = axis()
    assert not one.is_read_past(T0)
    place(one, "a", T0 + 5, is_head=False)
    assert one.is_read_past(T0 + 5)
    place(one, "b", T0, is_head=False)
    assert not one.is_read_past(T0 + 5)


def saved(newest: float = T0) -> SavedAxis:
    """A source with one place as a checkpoint has it."""
    gap = Gap(source="s", place="p", start=T0, end=T0, estimate=3, reason="trimmed")
    return SavedAxis("s", [("p", newest, 7)], Outcome(read=9), [gap], T0)


def test_a_hole_that_goes_on_is_one_hole() -> None:
    """However often it is told, the older ones stay on record; the sizes add up, as long as all of them are known."""
    one = axis()

    def miss(reason: str, start: float, end: float, estimate: int | None = 2) -> None:
        one.miss(Gap(source="s", place="p", start=T0 + start, end=T0 + end, estimate=estimate, reason=reason))

    miss("trimmed", 0, 1)
    for number in range(150):
        miss("full", 5 * number, 5 * number + 5)
        miss("trimmed", 5 * number + 3, 5 * number + 4)
    assert [(gap.reason, gap.start - T0, gap.end - T0, gap.estimate) for gap in one.gaps[-2:]] == [
        ("full", 0, 750, 300),
        ("trimmed", 748, 749, 2),
    ]
    assert [gap.is_rough for gap in one.gaps] == [False] * len(one.gaps)
    one.miss(Gap(source="s", place="p", start=T0, end=T0, estimate=3, is_rough=True, reason="full"))
    assert (one.gaps[-1].estimate, one.gaps[-1].is_rough) == (303, True)
    miss("full", 750, 755, None)
    assert [(gap.end - T0, gap.estimate) for gap in one.gaps if gap.reason == "full"] == [(755, None)]


def test_a_restored_place_goes_on_where_it_was_once_it_is_asked_for() -> None:
    """Its position and its newest time hold; time waits for it from then on, and until the source has come back."""
    one = axis()
    one.restore(saved())
    assert (one.totals.read, one.gaps[0].estimate) == (9, 3)
    one.is_up = one.was_tried = False
    assert one.place("p").position == 7
    assert not one.has_said
    one.is_up = one.was_tried = True
    assert one.complete_until(NOW, 5) == T0
    assert not one.has_said
    one.advance(batch([], received_at=NOW), [])
    assert one.has_said


def test_a_restored_place_that_nobody_asks_for_holds_nothing_back() -> None:
    """A topic that is read no more stays saved, and time does not wait for it."""
    one = axis()
    one.restore(saved())
    place(one, "other", NOW, is_head=True)
    assert one.complete_until(NOW, 5) == NOW
    assert one.has_said
    assert {name for name, _, _ in one.saved().places} == {"p", "other"}


def test_what_is_pushed_has_no_past_to_go_on_from() -> None:
    """After a restart a source that is pushed to keeps its numbers, and holds nothing back."""
    one = axis(is_pushed=True)
    one.restore(saved())
    assert one.totals.read == 9
    assert one.saved().places == []
    assert one.has_said
