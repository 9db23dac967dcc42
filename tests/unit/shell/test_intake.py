"""A source's way in: batches are counted with a turn for others, and a lost source is built anew for ever."""

from __future__ import annotations

import asyncio

import pytest

from collector.formats import native
from collector.model.clock import ManualClock
from collector.model.errors import SourceError
from collector.model.record import Gap
from collector.shell import intake
from collector.shell.axis import Axis
from collector.shell.ingest import CHUNK, EVENTS, Ingest
from collector.shell.intake import FIRST_PART, FIRST_STEP, SHORTEST_PART, SHORTEST_STEP, STEP_SECONDS, Lane
from tests.unit.parts import T0, batch, event, pipeline, until


@pytest.fixture
def made():
    """A pipeline."""
    return pipeline()


@pytest.fixture
def lane(made):
    """A lane into it; `lane.woken` counts how often the loop was woken."""
    lane = Lane(
        Axis(name="s", application=""),
        native.decode,
        made.ingest,
        ManualClock(T0),
        made.telemetry,
        lambda: setattr(lane, "woken", lane.woken + 1),
    )
    lane.woken = 0
    return lane


@pytest.fixture
def waits(monkeypatch):
    """The waits of the back-off, which take no time here; the random part is the longest."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if seconds:
            slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(intake.asyncio, "sleep", note)
    monkeypatch.setattr(intake.random, "uniform", lambda _low, high: high)
    return slept


def sources(lane, *deeds):
    """Builds a source that does one deed after the other: an error is raised, a body delivered, None ends."""
    left = list(deeds)

    class Source:
        async def run(self, to) -> None:
            to.connected("reads")
            while left and (deed := left.pop(0)) is not None:
                if isinstance(deed, Exception):
                    raise deed
                await to.take(batch([deed]))

    return Source


LOST = SourceError("the broker went away")


async def test_the_wait_grows_to_its_longest(lane, waits) -> None:
    """Every loss in a row doubles the wait, up to the longest one."""
    await lane.supervise(sources(lane, *[LOST] * 9, None))
    assert waits == [0.5, 1, 2, 4, 8, 15, 15, 15, 15]


async def test_a_source_that_nothing_is_kept_for_is_tried_again_soon(lane, waits) -> None:
    """What is published while it waits is lost: it waits two seconds at most."""
    lane.axis.is_fleeting = True
    await lane.supervise(sources(lane, *[LOST] * 5, None))
    assert waits == [0.5, 1, 2, 2, 2]


@pytest.mark.case("K01.1")
async def test_only_a_delivered_record_resets_the_wait(lane, waits) -> None:
    """To connect is not enough: the wait begins anew only after a record was delivered."""
    good = event("sent", "1", T0)
    await lane.supervise(sources(lane, LOST, LOST, LOST, good, LOST, LOST, None))
    assert waits == [0.5, 1, 2, 0.5, 1]


async def test_an_outage_of_days_is_survived(lane, waits) -> None:
    """A source is built anew for ever: after thousands of losses too."""
    await lane.supervise(sources(lane, *[LOST] * 3000, event("sent", "1", T0), None))
    assert lane.axis.totals.accepted == 1
    assert waits[-1] == 15


@pytest.mark.case("K01.1")
async def test_a_lost_source_is_down_until_it_connects(lane, made, waits, monkeypatch) -> None:
    """While it is waited the source is down, with the error, its secrets masked; nothing of it is at its head."""
    seen = []
    wait = lane._wait_after

    async def look(error, failures) -> None:
        await wait(error, failures)
        axis = lane.axis
        up = made.telemetry.get("tasktrail_source_up", ("s",))
        seen.append((axis.is_up, axis.was_tried, axis.error, axis.places["p"].is_head, up))

    monkeypatch.setattr(lane, "_wait_after", look)
    await lane.take(batch([event("sent", "1", T0)], is_head=True))
    await lane.supervise(sources(lane, SourceError("no answer of redis://u:secret@h"), None))
    assert seen == [(False, True, "no answer of redis://u:***@h", False, 0.0)]
    assert (lane.axis.is_up, lane.axis.error) == (True, "")
    assert made.telemetry.get("tasktrail_source_up", ("s",)) == 1


@pytest.mark.case("K01.1")
async def test_other_errors_are_not_survived(lane) -> None:
    """An error that is not the source's is a bug: it goes up."""
    with pytest.raises(ZeroDivisionError):
        await lane.supervise(sources(lane, ZeroDivisionError()))


async def test_a_source_starts_where_it_was_read_to(lane) -> None:
    """The position of a place is the one of its last counted batch; of a new place it is None, and it is waited for."""
    assert lane.position("p") is None
    assert not lane.axis.has_said
    await lane.take(batch([event("sent", "1", T0)], position=41))
    assert lane.position("p") == 41


async def test_others_have_a_turn_within_a_large_batch(lane) -> None:
    """Between the steps of a large batch the loop turns, and the outcome is of all of it."""
    turns = []

    async def other() -> None:
        while True:
            turns.append(lane.axis.totals.read)
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    outcome = await lane.take(batch([event("sent", str(number), T0) for number in range(3 * CHUNK)]))
    task.cancel()
    assert outcome.accepted == 3 * CHUNK
    assert {FIRST_STEP, FIRST_STEP + CHUNK, FIRST_STEP + 2 * CHUNK} <= set(turns)


async def test_others_have_a_turn_within_a_record_of_many_events(lane) -> None:
    """A list of thousands is counted some at a time, all of it also where it is cancelled; its position comes last."""
    seen = []

    async def other() -> None:
        while True:
            seen.append((lane.axis.totals.read, lane.position("p")))
            await asyncio.sleep(0)

    body = b"[%s]" % b",".join(event("dead_lettered", str(number), T0) for number in range(3 * EVENTS))
    task = asyncio.ensure_future(other())
    taking = asyncio.ensure_future(lane.take(batch([body], position=7)))
    await until(lambda: lane.axis.totals.read > FIRST_PART)
    taking.cancel()
    await asyncio.wait([taking])
    task.cancel()
    assert {(FIRST_PART, None), (FIRST_PART + EVENTS, None)} <= set(seen)
    assert (lane.axis.totals.accepted, lane.position("p")) == (3 * EVENTS, 7)


async def test_where_events_of_a_record_are_dear_steps_are_short(lane, monkeypatch) -> None:
    """By what the events before have cost, not by what decoding did; nothing is left out, and cheap ones go faster."""
    clock, sizes, costs, count = lane._clock, [], [], 8 * EVENTS
    stitch = Ingest._stitch

    def dear(self, axis, whole, step, *others):
        sizes.append(len(step.events))
        clock.spent += costs[-1] * sizes[-1]
        stitch(self, axis, whole, step, *others)

    def decode(whole):
        clock.spent += 5.0
        return native.decode(whole)

    monkeypatch.setattr(Ingest, "_stitch", dear)
    lane._decode = decode
    some = int(STEP_SECONDS * 2**12)
    for cost, first, most in (  # seconds of which sums are exact
        (2.0**-12, FIRST_PART, some),
        (2.0**-4, some, SHORTEST_PART),
        (0.0, SHORTEST_PART, EVENTS),
    ):
        costs.append(cost)
        sizes.clear()
        body = b"[%s]" % b",".join(event("sent", f"{cost}-{number}", T0) for number in range(count))
        assert (await lane.take(batch([body]))).accepted == count
        assert (sizes[0], max(sizes[1:]), sum(sizes)) == (first, most, count)


async def test_where_records_are_dear_steps_are_short(lane, monkeypatch) -> None:
    """By what the step before has cost, place by place; nothing is left out, and a cheap place has long steps again."""
    clock, sizes, cost = lane._clock, [], STEP_SECONDS / 100
    steps = Ingest.steps

    def dear(self, axis, decode, piece, *others):
        sizes.append(len(piece.bodies))
        clock.spent += cost * len(piece.bodies)
        return steps(self, axis, decode, piece, *others)

    monkeypatch.setattr(Ingest, "steps", dear)
    bodies = [event("sent", str(number), T0) for number in range(FIRST_STEP + 250)]
    assert (await lane.take(batch(bodies))).read == len(bodies)
    assert (sizes[0], sum(sizes)) == (FIRST_STEP, len(bodies))
    assert max(sizes[1:]) <= 100
    cost = STEP_SECONDS
    await lane.take(batch(bodies[:100]))
    sizes.clear()
    await lane.take(batch(bodies[:120]))
    assert sizes == [SHORTEST_STEP, SHORTEST_STEP, 120 - 2 * SHORTEST_STEP]
    sizes.clear()
    cost = 0.0
    await lane.take(batch([event("sent", f"x{number}", T0) for number in range(20 * CHUNK)]))
    assert (sizes[0], sizes[-2], sum(sizes)) == (SHORTEST_STEP, CHUNK, 20 * CHUNK)
    assert sizes[:-1] == sorted(sizes[:-1])


async def test_a_counted_batch_wakes_the_loop(lane) -> None:
    """What was counted is evaluated at once; an empty batch wakes nobody."""
    await lane.take(batch([], is_head=True))
    assert lane.woken == 0
    await lane.take(batch([event("sent", "1", T0)]))
    assert lane.woken == 1


def test_gaps_are_kept_and_bounded(lane, made) -> None:
    """Holes are on record with the source, the last hundred of them, and are counted with what was missed."""
    for number in range(150):
        lane.gap(Gap(source="s", place="p", start=T0 + number, end=T0 + number, estimate=2, reason="trimmed"))
    assert [gap.end - T0 for gap in lane.axis.gaps] == list(range(50, 150))
    assert made.telemetry.get("tasktrail_source_gaps", ("s", "trimmed")) == 150
    assert made.telemetry.get("tasktrail_source_missed_records", ("s",)) == 300
    lane.gap(Gap(source="s", place="p", start=T0, end=T0, estimate=None, reason="deleted"))
    assert made.telemetry.get("tasktrail_source_missed_records", ("s",)) == 300
