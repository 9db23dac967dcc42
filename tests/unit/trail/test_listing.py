"""Lists of trails: right whatever happens between two pages, and no page looks at more than it shows."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.model.event import TASK_KINDS
from collector.trail import calendar, listing
from collector.trail.lifecycle import OPEN_STATES, STATES
from collector.trail.listing import Wanted
from collector.trail.trail import Trail
from tests.unit.trail.conftest import Bench, T

FILTERS = st.fixed_dictionaries({
    "states": st.sampled_from([frozenset(OPEN_STATES), frozenset(), *(frozenset([state]) for state in STATES)]),
    "task": st.sampled_from(["", "pay*", "mail"]),
    "queue": st.sampled_from(["", "q"]),
    "error": st.sampled_from(["", "", "Time", "*Error"]),
    "since": st.sampled_from([float("-inf"), T + 3, T + 200]),
})  # fmt: skip
FACTS = st.lists(
    st.fixed_dictionaries({
        "kind": st.sampled_from(["sent", "started", "succeeded", "failed", *TASK_KINDS]),
        "at": st.integers(0, 40).map(lambda n: n / 10),
        "task_id": st.sampled_from("abcdefgh"),
        "task": st.sampled_from(["pay", "mail", None]),
        "queue": st.sampled_from(["q", "p", None]),
        "attempt": st.sampled_from([1, 2, None]),
        "error": st.sampled_from(["TimeoutError", "KeyError", None]),
        "eta": st.sampled_from([None, T + 100]),
        "ahead": st.sampled_from([0.0, 0.0, 0.65, -0.65]),
    }),
    max_size=20,
)  # fmt: skip
ORDERLY = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from([0.65, 0.0]), st.sampled_from(["succeeded", "failed"])),
    max_size=4,
).map(
    lambda tasks: [
        {"kind": kind, "at": n / 4 + step / 10, "task_id": task_id, "ahead": ahead if kind == "sent" else 0.0}
        for n, (task_id, ahead, end) in enumerate(tasks)
        for step, kind in enumerate(("sent", "started", end))
    ]
)  # fmt: skip
"""Tasks that run as they should, sent by clocks that go wrong."""


def page(bench, **wanted):
    """The page, and in how many steps it was made."""
    *steps, found = bench.stitcher.listing.pages(Wanted(**wanted))
    return found, len(steps)


def walked(bench, limit, wanted, between=lambda: None):
    """The ids of all pages."""
    ids, after = [], None
    while True:
        found, _ = page(bench, limit=limit, after=after, **wanted)
        ids += [one.task_id for one in found.tasks]
        if found.after is None:
            return ids
        assert after is None or found.after < after
        after = found.after
        between()


def fits(line, view, wanted):
    """Whether a trail is what is wanted, said in another way."""
    return (
        (not wanted["states"] or view.state in wanted["states"])
        and (not wanted["task"] or view.task.startswith(wanted["task"].strip("*")))
        and (not wanted["queue"] or view.queue == wanted["queue"])
        and (not wanted["error"] or wanted["error"].strip("*") in view.error)
        and line.last_at >= wanted["since"]
    )


@settings(max_examples=300, deadline=None)
@given(
    FACTS | ORDERLY,
    FACTS | ORDERLY,
    FILTERS,
    st.integers(1, 4),
    st.sampled_from([5, 70]),
    st.sampled_from([-4 * listing._VIEW, listing._MOST_COST]),
)
def test_pages_have_all_that_fits_newest_first(before, after, wanted, limit, between, cost):
    """Each once, in the order of their beginnings; open ones and finished ones; however little one page may cost."""
    bench = Bench(finished_seconds=1e6)
    for facts, offset in ((before, 0), (after, between)):
        bench.expire(offset)
        for fact in facts:
            told = {name: value for name, value in fact.items() if name != "ahead"}  # how far its sender's clock is
            at = fact["at"] + offset
            bench.stitch(bench.event(**{**told, "at": at + fact["ahead"]}), ats=[at])
    everything, _ = page(bench, limit=1_000)
    views = {view.task_id: view for view in bench.stitcher.reader.trails()}
    assert [mark for mark, _, _ in everything.marks] == sorted((one.first_at for one in everything.tasks), reverse=True)
    assert sorted(one.task_id for one in everything.tasks) == sorted(views)
    expected = [one.task_id for one in everything.tasks if fits(one, views[one.task_id], wanted)]
    with patch.object(listing, "_MOST_COST", cost):
        assert walked(bench, limit, wanted) == expected


@pytest.mark.parametrize(
    "kinds", [("sent", "started", "succeeded"), ("sent", "failed"), ("sent", "received", "failed")]
)
@pytest.mark.parametrize("eta", [None, T + 100])
def test_what_was_sent_later_than_it_ended_is_found_under_the_state_it_is_shown_with(kinds, eta):
    """By a sender whose clock is ahead of its worker's; while it is open, and after it is over."""
    bench = Bench()
    for step, kind in enumerate(kinds):
        ahead = 2.0 if kind == "sent" else 0.0
        bench.stitch(bench.event(kind, step / 10 + ahead, eta=eta if kind == "sent" else None), ats=[step / 10])
    state = bench.state()
    assert state in {"sent", "deferred"}
    for at in (10, 150):
        bench.expire(at)
        assert [one.task_id for one in page(bench, states=frozenset([state]))[0].tasks] == ["a"]
    assert len(bench.stitcher) == 0


def test_pages_hold_while_trails_come_end_and_leave():
    """What is there all the while stands in the pages once, whatever becomes of it between two of them."""
    bench = Bench(finished_seconds=100)
    for number in range(60):
        bench.stitch(bench.event("sent", number, f"old{number:02}"))
    clock = iter(range(60, 1_000))

    def live():
        for at in (next(clock), next(clock)):
            bench.stitch(bench.event("succeeded", at, f"old{at % 60:02}"), bench.event("sent", at, f"new{at}"))
            bench.stitch(bench.event("sent", at, f"short{at}"), bench.event("revoked", at, f"short{at}"))
        bench.expire(at)

    assert walked(bench, 3, {}, live) == [f"old{number:02}" for number in reversed(range(60))]


@pytest.mark.parametrize(
    ("wanted", "views"),
    [
        ({}, 101),
        ({"states": frozenset(["succeeded"])}, 101),
        ({"states": frozenset(["failed"])}, 0),
        ({"states": frozenset(["lost"])}, 0),
        ({"states": frozenset(["retrying"])}, 0),
        ({"task": "mail"}, 0),
        ({"error": "Timeout"}, 0),
        ({"since": T + 1e6}, 0),
        ({"after": (T + 10.0, "s", "")}, 101),
    ],
)
def test_a_page_looks_at_no_more_than_it_shows(wanted, views):
    """Of 5,000 open trails and as many that are over; and what is not there is told without a look at histories."""
    bench = Bench()
    for start in range(0, 5_000, 100):
        numbers = [(number / 250, number) for number in range(start, start + 100)]
        bench.stitch(*(bench.event("sent", at, f"open{number}") for at, number in numbers))
        bench.stitch(*(bench.event("succeeded", at, f"done{number}") for at, number in numbers))
    bench.expire(150)
    with patch.object(listing, "view", wraps=listing.view) as viewed:
        found, steps = page(bench, **wanted)
    assert (viewed.call_count, found.after is not None) == (views, views > 0)
    is_thawed = {"task", "error", "since"} & wanted.keys()
    assert steps <= (4 if views else 10_000 * (listing._THAWED if is_thawed else 1) / listing.STEP)


def test_what_has_left_is_not_noted_for_ever():
    """However many have come and gone, no more ids are noted than twice those that are there, and some."""
    bench = Bench(finished_seconds=100)
    with patch.object(calendar, "_SLACK", 50):
        for number in range(0, 5_000, 10):
            names = [f"task{n}" for n in range(number, number + 10)]
            bench.stitch(*(bench.event(kind, number, name) for kind in ("sent", "succeeded") for name in names))
            bench.stitch(bench.event("sent", number, f"open{number}"), bench.event("sent", number, "again"))
            bench.expire(number)
        (home,) = bench.stitcher.parts.keep.homes
        held = len(home.open) + len(home.finished)
        assert held < 1_000
        assert sum(len(home.calendar.of(quarter).ids) for quarter in home.calendar.before(2**60)) <= 2 * held + 50
    assert len(page(bench, limit=1_000)[0].tasks) == held


def test_a_quarter_in_which_much_began_is_swept_in_steps():
    """No step looks at more than it may; what has left, or is noted twice, goes, and what is there stays."""
    trails = [Trail(0, 0, 1, task_id=f"{number}", born=T) for number in range(1_000)]
    there = {trail.task_id: trail for trail in trails[::100]}
    noted, looked = calendar.Calendar(), []
    for some in (trails, trails[:300]):
        noted.welcome(some, [T])
    (number,) = noted.before(2**60)
    with patch.object(calendar, "_SLACK", 0), patch.object(calendar, "_SWEPT", 40):
        for _ in range(30):
            before = len(looked)
            noted.sweep(len(there), lambda task_id: looked.append(task_id) or there.get(task_id))
            assert len(looked) - before <= 40
    assert len(noted.of(number).ids) <= 2 * len(there)
    assert there.keys() <= set(noted.of(number).ids)
    with patch.object(calendar, "_SLACK", 0):
        noted.sweep(0, dict[str, Trail]().get)
    assert (noted.before(2**60), noted.of(number).ids) == ([], [])
