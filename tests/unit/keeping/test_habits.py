"""How alerts behave, over a restart: what was noted is known again, in the same order and within the same bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.keeping import habits
from collector.keeping.habits import Saver, take
from collector.routing import flapping
from collector.routing.flapping import Flapping
from collector.shell import casebook
from collector.shell.casebook import Casebook
from tests.unit.parts import T0, pipeline

NOTES = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 2000), st.booleans(), st.sampled_from(["", "save", "begin"])),
    max_size=60,
)


def books() -> tuple[Casebook, Flapping]:
    """Empty ones."""
    made = pipeline()
    return made.casebook, made.desk.flapping


@given(NOTES)
def test_what_was_noted_is_known_again(notes) -> None:
    """Whatever is noted between checkpoints, and wherever a generation begins: all is there again, in its order."""
    (fired, flaps), parts, now = books(), [], T0
    saver = Saver(fired, flaps)
    for name, seconds, is_start, what in notes:
        now += seconds
        flaps.note(name, now, is_start=is_start)
        if is_start:
            fired._times(name, now)
        if what == "begin":
            saver.restart()
            parts.clear()
        if what:
            parts += saver.parts()
    parts += saver.parts()
    assert not saver.is_touched
    again = books()
    for part in parts:
        take(part, *again)
    assert list(again[0].fired.items()) == list(fired.fired.items())
    assert list(again[1].changes.items()) == list(flaps.changes.items())


def test_bounds_hold_over_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is known again than may be known, and parts are small; what is oldest goes."""
    fired, flaps = books()
    for number in range(10):
        flaps.note(str(number), T0, is_start=True)
        fired._times(str(number), T0)
    monkeypatch.setattr(habits, "CHUNK", 3)
    parts = list(Saver(fired, flaps).parts())
    assert len(parts) == 8
    monkeypatch.setattr(casebook, "MOST_REMEMBERED", 4)
    monkeypatch.setattr(flapping, "MOST", 2)
    again = books()
    for part in parts:
        take(part, *again)
    assert list(again[0].fired) == ["6", "7", "8", "9"]
    assert list(again[1].changes) == ["8", "9"]
