"""Lists of dead letters and of their causes."""

from __future__ import annotations

import pytest

from collector.deadletter.listing import STEP, Wanted, causes, pages
from tests.unit.deadletter.deaths import Kept, T, verdict


@pytest.fixture
def four():
    """Four of two causes, the last of them discarded."""
    kept = Kept()
    for number in range(3):
        kept.die(f"o{number}", at=number, message=f"order {number} not found")
    name, _ = kept.die("m", at=3.0, task="mail.send", queue="bulk", source="t", error="smtplib.Down")
    kept.judge(name, verdict(), T + 9.0)
    return kept


def last(steps):
    """What a walk gives at its end."""
    return [step for step in steps if step is not None][-1]


def ids(kept, **wanted):
    """Task ids of a page."""
    return [one.task_id for one in last(pages(kept, Wanted(**wanted))).records]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["m", "o2", "o1", "o0"]),
        ({"states": frozenset(("open",))}, ["o2", "o1", "o0"]),
        ({"task": "mail.*"}, ["m"]),
        ({"queue": "q"}, ["o2", "o1", "o0"]),
        ({"source": "t"}, ["m"]),
        ({"owner": "pay*", "limit": 1}, ["m"]),
        ({"owner": "nobody"}, []),
        ({"error": "Down"}, ["m"]),
        ({"error": "Value*"}, ["o2", "o1", "o0"]),
        ({"task_id": "o1"}, ["o1"]),
        ({"since": T + 2.0}, ["m", "o2"]),
    ],
)
def test_each_filter_lets_through_what_it_names(four, wanted, found):
    """Newest first."""
    assert ids(four, **wanted) == found


def test_pages_follow_one_another_without_gap_or_repeat(four):
    """Each begins behind the last of the one before."""
    seen, after = [], None
    while True:
        page = last(pages(four, Wanted(limit=3, after=after)))
        seen += [one.task_id for one in page.records]
        after = page.after
        if after is None:
            break
    assert seen == ["m", "o2", "o1", "o0"]


def test_causes_are_counted_largest_first(four):
    """Three orders that are not found are one cause, and what was discarded is no longer open."""
    found = last(causes(four, Wanted()))
    assert [(one.total, one.open, one.task, one.message) for one in found] == [
        (3, 3, "pay", "order <n> not found"),
        (1, 0, "mail.send", ""),
    ]
    assert (found[0].first_at, found[0].last_at) == (T, T + 2.0)
    assert ids(four, fingerprint=found[0].fingerprint) == ["o2", "o1", "o0"]


def test_a_long_list_is_walked_in_steps():
    """Others have a turn while it is looked through."""
    kept = Kept()
    for number in range(2 * STEP):
        kept.die(str(number), at=number)
    steps = list(pages(kept, Wanted(limit=2)))
    assert steps[:-1] == [None, None]
    assert [one.task_id for one in steps[-1].records] == [str(2 * STEP - 1), str(2 * STEP - 2)]
