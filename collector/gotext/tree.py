"""The parts of a parsed template. `at` is the offset in its text, for messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec


class Dot(msgspec.Struct, frozen=True, gc=False):
    """`.` in a pipeline."""

    at: int


class Nil(msgspec.Struct, frozen=True, gc=False):
    """`nil` in a pipeline."""

    at: int


class Constant(msgspec.Struct, frozen=True, gc=False):
    """A literal. A number fits int and float parameters alike where it is whole."""

    at: int
    value: bool | int | float | str


class Variable(msgspec.Struct, frozen=True):
    """`$name`, with fields of it: `$name.a.b`."""

    at: int
    name: str
    fields: tuple[str, ...]


class Field(msgspec.Struct, frozen=True):
    """`.a.b` in a pipeline."""

    at: int
    fields: tuple[str, ...]


class Chain(msgspec.Struct, frozen=True):
    """Fields of something else: `(pipe).a.b`."""

    at: int
    inner: Operand
    fields: tuple[str, ...]


class Call(msgspec.Struct, frozen=True, gc=False):
    """A function's name."""

    at: int
    name: str


class Command(msgspec.Struct, frozen=True):
    """Operands side by side: the first one is called, or is all there is."""

    at: int
    operands: tuple[Operand, ...]


class Pipe(msgspec.Struct, frozen=True):
    """Commands that hand on their value, and the variables that take the last one."""

    at: int
    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    is_assignment: bool = False


class Text(msgspec.Struct, frozen=True, gc=False):
    """What stands between actions."""

    at: int
    text: str


class Action(msgspec.Struct, frozen=True):
    """A pipeline whose value is printed, unless it goes into a variable."""

    at: int
    pipe: Pipe


class Branch(msgspec.Struct, frozen=True):
    """`if`, `with` or `range`, by `word`."""

    at: int
    word: str
    pipe: Pipe
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


class Leave(msgspec.Struct, frozen=True, gc=False):
    """`break` or `continue`."""

    at: int
    word: str


class Include(msgspec.Struct, frozen=True):
    """`template "name" pipe`, and the place of a `block`."""

    at: int
    name: str
    pipe: Pipe | None


Operand: TypeAlias = Dot | Nil | Constant | Variable | Field | Chain | Call | Pipe
Node: TypeAlias = Text | Action | Branch | Leave | Include


def walk(nodes: Iterable[Any]) -> Iterator[Any]:
    """Every part of these nodes, themselves included."""
    for node in nodes:
        yield node
        for field in node.__struct_fields__:
            value = getattr(node, field)
            parts = value if isinstance(value, tuple) else (value,)
            yield from walk(part for part in parts if isinstance(part, msgspec.Struct))
