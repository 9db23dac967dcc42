"""The functions that Go's templates have by themselves, as one table: name, code, parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias
from urllib.parse import quote_plus

import msgspec

from collector.gotext.times import Moment, Span
from collector.gotext.values import AnyMap, Named, Samples, Structure, TemplateError, is_true, type_name
from collector.gotext.verbs import sprint, sprintf, sprintln

Parameter: TypeAlias = Literal["any", "string", "int", "float", "bool", "samples", "sample", "moment", "span"]

PARAMETERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    # what fits, and Go's name of it for messages
    "any": (lambda _: True, "interface {}"),
    "string": (lambda value: isinstance(value, str), "string"),
    "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "int"),
    "float": (lambda value: isinstance(value, float), "float64"),
    "bool": (lambda value: isinstance(value, bool), "bool"),
    "moment": (lambda value: isinstance(value, Moment), "time.Time"),
    "span": (lambda value: isinstance(value, Span), "time.Duration"),
    "samples": (lambda value: value is None or isinstance(value, Samples), "template.queryResult"),
    "sample": (lambda value: isinstance(value, Structure) and "Labels" in value.fields, "*template.sample"),
}


class Function(msgspec.Struct, frozen=True):
    """What a template may call. `call` gets checked arguments, and raises TemplateError without a place."""

    call: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    rest: Parameter | None = None
    """The type of any number of further arguments."""
    needs_context: bool = False
    """Whether `call` takes the context of the execution before all else."""


_HTML = {"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
_JS = {"\\": "\\\\", "'": "\\'", '"': '\\"'} | {mark: f"\\u{ord(mark):04X}" for mark in "<>&="}
_JS_SPECIAL = re.compile("[\\\\'\"<>&=\x00-\x1f\x7f]")


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if isinstance(value, (dict, list)):
        return len(value)
    raise TemplateError(f"len of type {type_name(value)}" if value is not None else "len of nil pointer")


def _position(value: Any, length: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TemplateError(f"cannot index slice/array with type {type_name(value)}")
    if not 0 <= value < length:
        raise TemplateError(f"index out of range: {value}")
    return value


def _index(value: Any, *keys: Any) -> Any:
    if value is None:
        raise TemplateError("index of untyped nil")
    for key in keys:
        if isinstance(value, dict):
            if not isinstance(key, str):
                raise TemplateError(f"value has type {type_name(key)}; should be string")
            value = value.get(key, None if isinstance(value, AnyMap) else "")
        elif isinstance(value, str):
            data = value.encode("utf-8", "replace")
            value = data[_position(key, len(data))]
        elif isinstance(value, list):
            value = value[_position(key, len(value))]
        else:
            raise TemplateError(f"can't index item of type {type_name(value)}")
    return value


def _slice(value: Any, *bounds: Any) -> Any:
    data: Any = value.encode("utf-8", "replace") if isinstance(value, str) else value
    if not isinstance(data, (bytes, list)):
        raise TemplateError(f"can't slice item of type {type_name(value)}")
    if len(bounds) > (2 if isinstance(value, str) else 3):
        raise TemplateError("too many slice indexes")
    ends = [_position(bound, len(data) + 1) for bound in bounds]
    start, end = (*ends, *(0, len(data))[len(ends) :])[:2]
    if start > end:
        raise TemplateError(f"invalid slice index: {start} > {end}")
    return data[start:end].decode("utf-8", "replace") if isinstance(data, bytes) else data[start:end]


def _kind(value: Any) -> str:
    if isinstance(value, (bool, int, float, str)):
        return "int" if isinstance(value, Named) else type_name(value)
    return "nil" if value is None else "other"


def _equal(first: Any, *others: Any) -> bool:
    if not others:
        raise TemplateError("missing argument for comparison")
    for other in others:
        kinds = {_kind(first), _kind(other)}
        if len(kinds) > 1 and "nil" not in kinds:
            raise TemplateError(f"incompatible types for comparison: {type_name(first)} and {type_name(other)}")
        if kinds == {"other"} and not (isinstance(first, Structure) and isinstance(other, Structure)):
            raise TemplateError(f"non-comparable type {type_name(first)}")
        if first is other or (len(kinds) == 1 and first == other):
            return True
    return False


def _less(first: Any, second: Any) -> bool:
    kinds = (_kind(first), _kind(second))
    if not set(kinds) <= {"int", "float64", "string", "bool"}:
        raise TemplateError("invalid type for comparison")
    if kinds[0] != kinds[1]:
        raise TemplateError(f"incompatible types for comparison: {kinds[0]} and {kinds[1]}")
    if kinds[0] == "bool":
        raise TemplateError("invalid type for comparison")
    return bool(first < second)


def _less_or_equal(first: Any, second: Any) -> bool:
    return _less(first, second) or _equal(first, second)


def _text(values: tuple[Any, ...]) -> str:
    return values[0] if len(values) == 1 and isinstance(values[0], str) else sprint(list(values))


def html(*values: Any) -> str:
    """The values as text, with what HTML takes for markup written as references."""
    return "".join(_HTML.get(character, character) for character in _text(values))


def _js(*values: Any) -> str:
    return _JS_SPECIAL.sub(lambda match: _JS.get(match.group(), f"\\u{ord(match.group()):04X}"), _text(values))


def _unreachable(*_: Any) -> Any:
    raise TemplateError("evaluated by the executor")


BUILTINS: dict[str, Function] = {
    # `and` and `or` stop at the first argument that decides: the executor does it
    "and": Function(_unreachable, ("any",), "any"),
    "or": Function(_unreachable, ("any",), "any"),
    "not": Function(lambda value: not is_true(value), ("any",)),
    "len": Function(_length, ("any",)),
    "index": Function(_index, ("any",), "any"),
    "slice": Function(_slice, ("any",), "any"),
    "print": Function(lambda *values: sprint(list(values)), (), "any"),
    "printf": Function(lambda text, *values: sprintf(text, list(values)), ("string",), "any"),
    "println": Function(lambda *values: sprintln(list(values)), (), "any"),
    "html": Function(html, (), "any"),
    "js": Function(_js, (), "any"),
    "urlquery": Function(lambda *values: quote_plus(_text(values), safe="-_.~"), (), "any"),
    "eq": Function(_equal, ("any",), "any"),
    "ne": Function(lambda first, second: not _equal(first, second), ("any", "any")),
    "lt": Function(_less, ("any", "any")),
    "le": Function(_less_or_equal, ("any", "any")),
    "gt": Function(lambda first, second: not _less_or_equal(first, second), ("any", "any")),
    "ge": Function(lambda first, second: not _less(first, second), ("any", "any")),
}
