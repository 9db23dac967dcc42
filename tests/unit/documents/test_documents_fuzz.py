"""Whatever bytes stand in a file, reading it gives a value or problems with a place, never another exception."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.documents import Duration, Place, read
from collector.model.errors import ProblemsError
from collector.model.secret import Secret


class Leaf(msgspec.Struct, kw_only=True):
    """One value of every kind."""

    place: Place
    name: str
    hold: Duration = Duration(0)
    number: int = 0
    share: float = 0.0
    flag: bool = False
    hidden: Secret | None = None


class Tree(msgspec.Struct, kw_only=True):
    """Lists, mappings, and itself."""

    place: Place
    leaves: list[Leaf] = []
    labels: dict[str, str] = {}
    tree: Tree | None = None


PIECES = st.sampled_from(
    [
        "leaves:",
        "labels:",
        "tree:",
        "name:",
        "hold:",
        "number:",
        "share:",
        "flag:",
        "hidden:",
        "\n",
        "\n  ",
        "\n- ",
        "  ",
        " ",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "&a ",
        "*a",
        "<<: ",
        "|",
        ">",
        "'",
        '"',
        "#",
        "? ",
        "!!str ",
        "!x ",
        "~",
        "1",
        "5m",
        "true",
        "x",
        "${A}",
        "${B:-c}",
        "$${",
        "file:x",
        "%YAML 1.1",
        "---",
        "...",
        "\t",
        "\u2028",
        "\ufeff",
        "é",
    ]
)


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=80)))
def test_any_text(text):
    """Random text of YAML's own pieces is read or refused with places inside the file."""

    def read_file(path):
        raise OSError(2, "No such file", path)

    try:
        _, problems = read("f", text, Tree, environ={"A": "1"}, read_file=read_file)
    except ProblemsError as error:
        problems = error.problems
        assert problems
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
