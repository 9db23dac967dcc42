"""The README's table of frameworks cannot drift from what the formats declare."""

from __future__ import annotations

from collector.formats import FORMATS
from collector.formats.decoded import FACTS
from tests.readme_facts import BEGIN, END, README, updated


def test_the_table_is_as_declared() -> None:
    """The README says what the formats declare; `python -m tests.readme_facts` writes it."""
    text = README.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert updated(text) == text


def test_formats_declare_facts_that_there_are() -> None:
    """No format declares a fact that the table has no row for."""
    assert {fact for form in FORMATS.values() for fact in form.facts} <= set(FACTS)
