"""Flapping: what begins and ends again and again is told as that, once, until it has been quiet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.routing.flapping import QUIET, WINDOW, Flapping
from collector.routing.grouping import Grouping, Target
from collector.routing.route import BUILT_IN
from tests.unit.routing.conftest import make_alert


class Story:
    """A grouping on the built-in route that knows of flapping; everything is taken at once."""

    def __init__(self) -> None:
        self.grouping = Grouping(BUILT_IN, {"default": [Target("a")]}, flapping=Flapping())

    def turn(self, at: float, *, is_start: bool) -> None:
        """The alert begins or ends."""
        self.grouping.insert(
            [make_alert("firing" if is_start else "resolved", at=at, end=None if is_start else at)], at
        )

    def until(self, end: float) -> list[tuple[float, str]]:
        """What is said, up to a time."""
        said = []
        while (due := self.grouping.next_due()) is not None and due <= end:
            for one in self.grouping.due(due):
                self.grouping.confirm(one, due)
                said.append((due, one.title.split("]")[0][1:]))
        return said


def test_twice_and_then_once_as_flapping() -> None:
    """Its first start and end are told, the second start as flapping, then nothing until it was quiet: the end."""
    story, said = Story(), []
    for number in range(20):
        story.turn(number * 60, is_start=number % 2 == 0)
        said += story.until(number * 60 + 59)
    assert [what for _, what in said] == ["FIRING", "RESOLVED", "FLAPPING"]
    last = 19 * 60
    ((at, what),) = story.until(last + 3600)
    assert what == "RESOLVED"
    assert last + QUIET <= at <= last + QUIET + 10
    assert len(story.grouping) == 0


def test_one_that_goes_on_firing_is_not_told_again() -> None:
    """When it fires through the quiet, everybody knows that it does; its end is told as it comes."""
    story = Story()
    for at, is_start in ((0, True), (60, False), (120, True), (180, False), (240, True)):
        story.turn(at, is_start=is_start)
        story.until(at + 59)
    assert story.until(240 + QUIET + 60) == []
    story.turn(2000, is_start=False)
    assert [what for _, what in story.until(2100)] == ["RESOLVED"]


def test_one_that_comes_again_after_a_while_is_no_flapping() -> None:
    """Starts that lie more than half an hour apart are each told, with their ends."""
    story, said = Story(), []
    for number in range(4):
        at = number * (WINDOW + 60)
        story.turn(at, is_start=True)
        said += story.until(at + 30)
        story.turn(at + 30, is_start=False)
        said += story.until(at + WINDOW)
    assert [what for _, what in said] == ["FIRING", "RESOLVED"] * 4


def test_an_end_that_nobody_heard_of_is_none() -> None:
    """When it begins anew before its group has spoken it only goes on: its end, later, is told as it comes."""
    story = Story()
    story.turn(0, is_start=True)
    assert [what for _, what in story.until(1)] == ["FIRING"]
    for at in (12, 13, 24, 25):
        story.turn(at, is_start=at % 2 == 1)
    assert story.until(39) == []
    story.turn(40, is_start=False)
    assert [what for _, what in story.until(60)] == ["RESOLVED"]


@given(st.lists(st.integers(5, 400), min_size=1, max_size=60))
def test_however_it_comes_and_goes(waits) -> None:
    """In no 30 minutes is it told as flapping twice; when it has come to rest, what was told last is how it is."""
    story, now, is_firing, said = Story(), 0.0, False, []
    for wait in waits:
        is_firing = not is_firing
        story.turn(now, is_start=is_firing)
        said += story.until(now + wait - 0.001)
        now += wait
    for at, _ in said:
        assert sum(at <= other < at + WINDOW for other, _ in said) <= 4
        assert sum(at <= other < at + WINDOW and what == "FLAPPING" for other, what in said) <= 1
    said += story.until(now + 2 * QUIET)
    assert (said[-1][1] != "RESOLVED") is is_firing
