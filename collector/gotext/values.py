"""How Go's values look in Python, and the three questions a template asks of any of them: type, truth, text.

nil is None; bool, int, float64 and string are themselves; a map[string]string is a dict, where a missing key is "";
a map[string]any is an AnyMap, where it is nil; a slice is a list; a struct is a Structure; what has methods is Native.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

NO_VALUE = "<no value>"
"""What a template prints for nil."""


class TemplateError(Exception):
    """A template that does not parse, or failed while it ran. The message names line and column in the template."""


class FieldError(TemplateError):
    """It asks for what this kind of data never has."""


class AnyMap(dict[str, Any]):
    """A map[string]any."""


class Structure:
    """A struct: fields by name, in order. A field that it does not have is an error, unlike a missing key of a map."""

    __slots__ = ("fields", "type_name")

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        self.type_name = type_name
        self.fields = fields


class Native:
    """A value of a type with methods (`methods.py`); `str()` of it is what Go prints."""

    __slots__ = ()
    type_name: ClassVar[str]


class Named(int):
    """A whole number that prints as a name: a month, a day of the week."""

    text: str
    type_name: str

    def __new__(cls, value: int, text: str, type_name: str) -> Self:
        """The number, its name, and its type's name."""
        made = super().__new__(cls, value)
        made.text, made.type_name = text, type_name
        return made


class Slice(list[Any]):
    """A slice of a named type with methods; `fields` holds what they give."""

    fields: Mapping[str, Any] = {}


class Pairs(dict[str, str]):
    """Alertmanager's `template.KV`: texts by name, with methods that go before keys of their names."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """What its methods without arguments give."""
        # Alertmanager puts `alertname` first
        names = sorted(self, key=lambda name: (name != "alertname", name))
        pairs = Slice(Structure("template.Pair", {"Name": name, "Value": self[name]}) for name in names)
        pairs.fields = {"Names": names, "Values": [self[name] for name in names]}
        return {"SortedPairs": pairs, **pairs.fields}


class Samples(list[Structure]):
    """What `query` gives: a list of `Labels` and `Value`."""


_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    # bool before int: Python's bool is one
    (bool, "bool"),
    (int, "int"),
    (float, "float64"),
    (str, "string"),
    (AnyMap, "map[string]interface {}"),
    (dict, "map[string]string"),
    (Samples, "template.queryResult"),
    (list, "[]interface {}"),
)


class Markup(str):
    """Text that is written as it is, also where others are escaped."""

    __slots__ = ()


def type_name(value: Any) -> str:
    """The name that Go has for the value's type."""
    if value is None:
        return "<nil>"
    if isinstance(value, (Structure, Native, Named)):
        return value.type_name
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), type(value).__name__)


def is_true(value: Any) -> bool:
    """Go's truth: not the zero of its type. Structs are always true, and so is NaN."""
    if isinstance(value, (str, dict, list)):
        return len(value) > 0
    if isinstance(value, (bool, int, float)):
        return value != 0
    return value is not None
