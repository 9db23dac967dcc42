"""The mark on a redriven message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.model.redrive import Mark, mark_of


@given(st.from_regex(r"[0-9a-f]{16}", fullmatch=True), st.integers(1, 1_000_000), st.text(min_size=1))
def test_what_is_written_is_read_again(name, number, task_id):
    """Whatever stands in a task's id."""
    assert mark_of(str(Mark(name, number, task_id))) == Mark(name, number, task_id)


@pytest.mark.parametrize(
    "text", ["", "1", "id=a", "id=a;n=x;task=t", "id=a;n=0;task=t", "id=a;n=²;task=t", "n=1;task=t"]
)
def test_anything_else_is_no_mark(text):
    """A header of that name that somebody else wrote counts for nothing."""
    assert mark_of(text) is None


@given(st.text())
def test_any_text_is_read(text):
    """It is a mark or none."""
    mark_of(text)
