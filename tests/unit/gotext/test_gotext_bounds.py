"""What a hostile or mistaken template may cost, and how its mistakes are told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.gotext import Template, TemplateError

ENDLESS = {
    "a loop over loops": "{{ range 1000 }}{{ range 1000 }}{{ end }}{{ end }}",
    "a template that includes itself": '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" 1 }}',
    "a text that doubles": '{{ $x := "ab" }}{{ range 40 }}{{ $x = print $x $x }}{{ end }}',
    "a long output": '{{ range 9000 }}{{ printf "%20d" . }}{{ end }}',
    "a wide number": '{{ range 20 }}{{ printf "%9999d" 1 }}{{ end }}',
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_execution_is_bounded(text):
    """A template that would run or write without end fails instead."""
    with pytest.raises(TemplateError):
        Template(text, {}).execute(None, {})


@pytest.mark.parametrize("text", ["{{ if 1 }}" * 60 + "{{ end }}" * 60, "{{ " + "(" * 60 + "1" + ")" * 60 + " }}"])
def test_nesting_is_bounded(text):
    """Deep nesting is refused when it is parsed, not met as an exhausted stack."""
    with pytest.raises(TemplateError, match="nested more than 50 levels"):
        Template(text, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb {{ foo }}", "2:6: function `foo` is not defined"),
        ("{{ $x }}", "1:4: undefined variable `$x`"),
        ("x {{ if true }}", "1:6: {{if}} without {{end}}: close it"),
        ("{{ 1", "1:1: unclosed action: end it with }}"),
        ("{{ len 1 }}", "1:4: error calling len: len of type int"),
        ("{{ printf 1 }}", "1:11: wrong type for value; expected string; got int"),
    ],
)
def test_mistakes_have_a_place(text, message):
    """The message of a mistake starts with its line and column in the template."""
    with pytest.raises(TemplateError) as raised:
        Template(text, {}).execute(None, {})
    assert str(raised.value) == message


PIECES = st.sampled_from(
    [
        "{{",
        "}}",
        "{{-",
        " -}}",
        "if ",
        "else",
        "end",
        "range ",
        "with ",
        "define ",
        "template ",
        "$x",
        ":=",
        "=",
        ",",
        "|",
        ".",
        ".a",
        "(",
        ")",
        '"s"',
        "`r`",
        "'c'",
        "1",
        "-2.5",
        "nil",
        "true",
        "print ",
        "eq ",
        " ",
        "\n",
        "/*",
        "*/",
        "é",
        "\\",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_only_one_kind_of_failure(text):
    """Whatever stands in a template, it gives text or a TemplateError."""
    try:
        written, message = Template(text, {}).execute({"a": "b"}, {}), ""
    except TemplateError as error:
        written, message = None, str(error)
    assert isinstance(written, str) or message[0].isdigit()
