"""Pickles as plain values, without executing anything: classes and functions are names, objects are what they hold.

Takes bytes, walks their opcodes as `pickletools` reads them, and builds dicts, lists, strings and numbers. What a
pickle would import, call or build becomes a `Made` with its name and arguments; nothing is imported or called. Bounded
in bytes and opcodes; since every opcode makes at most one new value, memory is bounded by them.
Source: Python's `pickletools`, protocols 0 to 5.
"""

from __future__ import annotations

import pickletools
from typing import Any

import msgspec

MOST_BYTES = 1 << 20
MOST_OPCODES = 50_000


class PickleError(ValueError):
    """Not a pickle, a larger one than is read, or one with an opcode that no plain value needs."""


class Made(msgspec.Struct):
    """What a pickle would make by calling or importing: never made, only named."""

    name: str
    """`module.name`."""
    arguments: tuple[Any, ...] = ()
    state: Any = None
    """What would be set on it."""


class _Mark:
    pass


_MARK = _Mark()
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    (
        *("INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_SKIPPED = frozenset(["PROTO", "FRAME"])


def plain(data: bytes) -> Any:
    """The value of a pickle, with `Made` for what is no plain value. Raises PickleError."""
    if len(data) > MOST_BYTES:
        raise PickleError(f"{len(data)} bytes, at most {MOST_BYTES} are read")
    machine = _Machine()
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number >= MOST_OPCODES:
                raise PickleError(f"more than {MOST_OPCODES} opcodes")
            if opcode.name == "STOP":
                return machine.stack[-1]
            machine.step(opcode.name, argument)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise PickleError(str(error) or type(error).__name__) from error
    raise PickleError("it ends too early")


class _Machine:
    """The stack and the memo. Methods are named for the opcodes they do."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        """One opcode."""
        if name in _SKIPPED:
            return
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _LITERALS:
            self.stack.append(argument)
        elif name in _TUPLES:
            self._replace(_TUPLES[name], tuple)
        else:
            todo = getattr(self, f"do_{name.lower()}", None)
            if todo is None:
                raise PickleError(f"the opcode {name} is not read")
            todo(argument)

    def _replace(self, count: int, make: Any) -> None:
        items = self.stack[-count:]
        if len(items) < count:
            raise IndexError("the stack is empty")
        self.stack[-count:] = [make(items)]

    def _since_mark(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                items = self.stack[index + 1 :]
                del self.stack[index:]
                return items
        raise IndexError("no mark")

    def do_mark(self, _: Any) -> None:
        self.stack.append(_MARK)

    def do_pop(self, _: Any) -> None:
        self.stack.pop()

    def do_pop_mark(self, _: Any) -> None:
        self._since_mark()

    def do_dup(self, _: Any) -> None:
        self.stack.append(self.stack[-1])

    def do_empty_list(self, _: Any) -> None:
        self.stack.append([])

    do_empty_set = do_empty_list

    def do_empty_dict(self, _: Any) -> None:
        self.stack.append({})

    def do_empty_tuple(self, _: Any) -> None:
        self.stack.append(())

    def do_tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def do_list(self, _: Any) -> None:
        self.stack.append(self._since_mark())

    do_frozenset = do_list

    def do_dict(self, _: Any) -> None:
        items = self._since_mark()
        self.stack.append({})
        self._set(items)

    def do_append(self, _: Any) -> None:
        item = self.stack.pop()
        self._extend([item])

    def do_appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    do_additems = do_appends

    def do_setitem(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def do_setitems(self, _: Any) -> None:
        self._set(self._since_mark())

    def _extend(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)

    def _set(self, items: list[Any]) -> None:
        """Keys that are no text or number are of no use to anybody here."""
        if isinstance(self.stack[-1], dict):
            pairs = zip(items[::2], items[1::2], strict=True)
            self.stack[-1].update((key, value) for key, value in pairs if isinstance(key, str | int | bytes))

    def do_global(self, argument: str) -> None:
        self.stack.append(Made(argument.replace(" ", ".", 1)))

    def do_stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(Made(f"{module:s}.{name:s}"))

    def do_inst(self, argument: str) -> None:
        self.stack.append(Made(argument.replace(" ", ".", 1), tuple(self._since_mark())))

    def do_obj(self, _: Any) -> None:
        kind, *arguments = self._since_mark()
        self.stack.append(_called(kind, arguments))

    def do_reduce(self, _: Any) -> None:
        arguments, kind = self.stack.pop(), self.stack.pop()
        self.stack.append(_called(kind, arguments))

    do_newobj = do_reduce

    def do_newobj_ex(self, _: Any) -> None:
        self.stack.pop()
        self.do_reduce(None)

    def do_build(self, _: Any) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Made):
            self.stack[-1].state = state

    def do_put(self, argument: int) -> None:
        self._memo[argument] = self.stack[-1]

    do_binput = do_long_binput = do_put

    def do_memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self.stack[-1]

    def do_get(self, argument: int) -> None:
        self.stack.append(self._memo[argument])

    do_binget = do_long_binget = do_get


def _called(kind: Any, arguments: Any) -> Any:
    """What a call would have made; another instance for each, since a name may be used by many."""
    name = kind.name if isinstance(kind, Made) else type(kind).__name__
    return Made(name, tuple(arguments) if isinstance(arguments, list | tuple) else (arguments,))
