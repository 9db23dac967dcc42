"""The exception in a Python traceback."""

from __future__ import annotations

import pytest

from collector.formats.tracebacks import exception_of

FRAME = 'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    raise x\n    ^^^^^^^\n'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FRAME + "KeyError: 'missing'\n", ("KeyError", "'missing'")),
        (FRAME + "shop.errors.Gone: a\nb: c\n\nd\n", ("Gone", "a\nb: c\n\nd")),
        (FRAME + "shop.f.<locals>.Gone\n", ("Gone", "")),
        (FRAME + "ValueError: one\n\nDuring handling of ...:\n\n" + FRAME + "KeyError: two\n", ("KeyError", "two")),
        (FRAME + "not a class: x\n", None),
        (FRAME, None),
        ("KeyError: 'missing'", None),
        ("", None),
    ],
)
def test_class_and_message(text: str, found: tuple[str, str] | None) -> None:
    """The class is on the first line without indent after the last frame; all that follows is its message."""
    assert exception_of(text) == found


def test_a_long_one_is_read_from_its_end() -> None:
    """Only so much of it is looked at, and what matters stands at the end."""
    assert exception_of("x" * 10_000_000 + "\n" + FRAME + "KeyError: a") == ("KeyError", "a")
