"""The README's table of frameworks, made from what the formats declare: `python -m tests.readme_facts` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap

from collector.formats import FORMATS, Format
from collector.formats.decoded import FACTS

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- facts: made by python -m tests.readme_facts -->", "<!-- end of facts -->"


def table(formats: Mapping[str, Format]) -> str:
    """One row per fact, one column per format that declares any; what a fact takes is a note below."""
    told = {name: form.facts for name, form in formats.items() if form.facts}
    notes: dict[str, int] = {}
    lines = [f"| fact | {' | '.join(told)} |", "|---" * (1 + len(told)) + "|"]
    for fact in FACTS:
        cells = [_cell(facts.get(fact, ""), notes) for facts in told.values()]
        lines.append(f"| {fact.replace('_', ' ')} | {' | '.join(cells)} |")
    said = " · ".join(f"({number}) {note}" for note, number in notes.items())
    return "\n".join([*lines, "", *wrap(said, 120, break_long_words=False, break_on_hyphens=False)])


def _cell(said: str, notes: dict[str, int]) -> str:
    if said in ("", "yes"):
        return said or "–"  # noqa: RUF001 as people read it
    return f"({notes.setdefault(said, len(notes) + 1)})"


def updated(text: str) -> str:
    """The README with the table of today between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(FORMATS)}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
