"""Texts are cut between characters as they are seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.model.graphemes import boundary, cut

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
FLAGS = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"
WAVE = "\U0001f44b\U0001f3fd"
ACCENT = "e\u0301"
HEART = "\u2764\ufe0f"


@pytest.mark.parametrize("seen", [FAMILY, FLAGS[:2], WAVE, ACCENT, HEART])
def test_no_character_is_split(seen):
    """A cut inside of a character moves before it; one at its end stays."""
    text = f"ab{seen}{seen}c"
    places = {boundary(text, index) for index in range(len(text) + 1)}
    assert places == {0, 1, 2, 2 + len(seen), 2 + 2 * len(seen), len(text)}


def test_a_heap_of_marks():
    """Marks without an end are cut all the same: a text must fit."""
    text = "a" + "\u0301" * 500
    assert boundary(text, 300) == 300
    assert len(cut(text, 100)) == 100


@given(st.text(max_size=60), st.integers(4, 60))
def test_it_fits(text, most):
    """A text that was cut is no longer than asked for, and says that it was cut."""
    done = cut(text, most)
    assert len(done) <= most
    assert done == text or done.endswith("...")
