"""Go's own text/template (1.26, `missingkey=zero`) gave the expectations in go_cases.json, on the data below."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.gotext import AnyMap, Structure, Template, TemplateError

CASES = json.loads((Path(__file__).parent / "go_cases.json").read_text(encoding="utf-8"))
DATA = Structure(
    "main.data",
    {
        "Labels": {"a": "1", "b": "two"},
        "Value": 3.5,
        "L": ["x", "y", "z"],
        "E": [],
        "M": AnyMap({"k": 1, "s": "t", "n": None}),
        "N": None,
    },
)


def outcome(text: str) -> dict[str, str]:
    """The text, or where it fails."""
    try:
        template = Template(text, {})
    except TemplateError:
        return {"fails": "parse"}
    try:
        return {"text": template.execute(DATA, {})}
    except TemplateError:
        return {"fails": "execute"}


@pytest.mark.parametrize("case", CASES, ids=[case["template"][:60] for case in CASES])
def test_same_as_go(case):
    """A template gives the same text as in Go, or fails where Go fails: at parsing or at execution."""
    assert outcome(case["template"]) == {key: value for key, value in case.items() if key != "template"}
