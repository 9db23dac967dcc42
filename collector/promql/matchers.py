"""Label matchers of a selector, as Prometheus has them: regular expressions hold for the whole value, `.` for any sign.

The engine is re2: linear in the text, whatever pattern a user writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

import re2

from collector.model.labels import NO_LABELS, Labels, Matcher, labels_of
from collector.promql.errors import PromqlError

NAME = "__name__"

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


def regex(pattern: str) -> Any:
    """A compiled pattern that must match the whole text. Raises PromqlError for what re2 refuses."""
    try:
        return re2.compile(f"^(?s:{pattern})$", _OPTIONS)
    except re2.error as error:
        raise PromqlError(f"invalid regular expression {pattern!r}: {_reason(error)}") from error


_NOT_LINEAR = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]")


def regex_fault(pattern: str) -> str:
    """Why a pattern cannot be used, and what to do; "" where it can."""
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        if _NOT_LINEAR.search(pattern):
            return "looks around or back, which takes time without bound: write it without, as RE2 and Prometheus do"
        return (
            f"is no regular expression that RE2 takes ({_reason(error)}): mend it, or put a backslash before its signs"
        )
    return ""


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode() if isinstance(reason, bytes) else str(reason)


def _equal(value: str) -> Callable[[str], bool]:
    return value.__eq__


def _not_equal(value: str) -> Callable[[str], bool]:
    return value.__ne__


def _match(value: str) -> Callable[[str], bool]:
    found = regex(value).search
    return lambda text: found(text) is not None


def _not_match(value: str) -> Callable[[str], bool]:
    found = regex(value).search
    return lambda text: found(text) is None


_TESTS: dict[str, Callable[[str], Callable[[str], bool]]] = {
    "=": _equal,
    "!=": _not_equal,
    "=~": _match,
    "!~": _not_match,
}


def matcher(name: str, op: Literal["=", "!=", "=~", "!~"], value: str) -> Matcher:
    """One condition, ready to test. Raises PromqlError for a bad regular expression."""
    return Matcher(name, op, value, _TESTS[op](value))


def fixed_labels(matchers: tuple[Matcher, ...]) -> Labels:
    """The labels that absent() gives: those fixed by one equality that no other matcher of the label comes after.

    They stand as in a rule of Prometheus, which writes them sorted, and its storage puts last what takes series away.
    """
    fixed: dict[str, str] = {}
    seen: set[str] = set()
    needed = {one.name for one in matchers if not one.matches("")}

    def place(one: Matcher) -> tuple[bool, str]:
        return one.name not in needed or (one.op[0] == "!" and one.matches("")), f'{one.name}{one.op}"{one.value}"'

    for one in sorted(matchers, key=place):
        if one.name == NAME:
            continue
        if one.op == "=" and one.name not in seen:
            fixed[one.name] = one.value
            seen.add(one.name)
        else:
            fixed.pop(one.name, None)
    return labels_of(fixed) if fixed else NO_LABELS
