"""A compiled template, and its execution: one walk over the tree, with a bound on steps and on what it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, NoReturn

import msgspec

from collector.gotext.builtins import BUILTINS, PARAMETERS, Function, Parameter
from collector.gotext.lexer import place
from collector.gotext.library import Library, merged, undefined
from collector.gotext.methods import METHODS
from collector.gotext.parser import parse
from collector.gotext.times import Span
from collector.gotext.tree import (
    Action,
    Branch,
    Call,
    Chain,
    Command,
    Constant,
    Dot,
    Field,
    Include,
    Nil,
    Node,
    Operand,
    Pipe,
    Text,
    Variable,
    walk,
)
from collector.gotext.values import (
    NO_VALUE,
    AnyMap,
    FieldError,
    Markup,
    Native,
    Pairs,
    Slice,
    Structure,
    TemplateError,
    is_true,
    type_name,
)
from collector.gotext.verbs import format_value

MAX_STEPS = 50_000
MAX_OUTPUT = 65_536
"""Characters, of the whole text and of every value on the way."""
_MAX_DEPTH = 100
"""Of bodies and included templates inside one another."""

_MISSING = object()
"""No value came through the pipe, which is not the same as nil."""


class Template:
    """Parsed once; `execute` as often as there are alerts."""

    __slots__ = ("_defined", "_functions", "_parsed", "_variables", "plain", "text")

    def __init__(
        self,
        text: str,
        functions: Mapping[str, Function],
        variables: tuple[str, ...] = (),
        library: Library | None = None,
    ) -> None:
        """Raises TemplateError (`line:column: what is wrong`). `variables` are set from outside, with their `$`.

        `library`: templates that stand elsewhere and may be included.
        """
        self.text = text
        self._functions = {**BUILTINS, **functions}
        self._variables = variables
        self._parsed = parse(text, self._functions, variables)
        self._defined = merged(library or {}, text, self._parsed.defined)
        nodes = self._parsed.nodes
        texts = [node.text for node in nodes if isinstance(node, Text)]
        self.plain = "".join(texts) if len(texts) == len(nodes) else None
        """The text that every execution gives, where no action stands in it."""

    @property
    def called(self) -> frozenset[str]:
        """The functions that stand in it: who calls none that looks outside gives the same text for the same data."""
        return self._parsed.called

    def parts(self) -> Iterator[Any]:
        """Every node of it, and of the templates it defines."""
        return walk((*self._parsed.nodes, *chain.from_iterable(self._parsed.defined.values())))

    @property
    def undefined(self) -> list[str]:
        """Names of templates that it includes, itself or through others, and that nobody defines."""
        return undefined(self._parsed.nodes, self._defined)

    def execute(
        self,
        data: Any,
        variables: Mapping[str, Any],
        context: Any = None,
        escape: Callable[[str], str] | None = None,
    ) -> str:
        """The text for `data` (the dot). `context` is handed to functions that need it. Raises TemplateError.

        `escape` goes over what actions write, but for Markup.
        """
        if self.plain is not None:
            return self.plain
        names = [("$", data), *((name, variables[name]) for name in self._variables)]
        run = _Run(self.text, self._functions, self._defined, names, context, escape)
        run.walk(self._parsed.nodes, data)
        return "".join(run.output)


class _Leaving(Exception):  # noqa: N818 - no error: `break` and `continue` on their way out
    def __init__(self, word: str) -> None:
        self.word = word


class _Run:
    """One execution. Variables are a stack: a body pops what it declared."""

    def __init__(  # noqa: PLR0913, PLR0917  all that an execution touches
        self,
        source: str,
        functions: Mapping[str, Function],
        defined: Library,
        variables: list[tuple[str, Any]],
        context: Any,
        escape: Callable[[str], str] | None,
    ) -> None:
        self.source = source
        self.functions = functions
        self.defined = defined
        self.variables = variables
        self.context = context
        self.escape = escape
        self.output: list[str] = []
        self.written = 0
        self.steps = 0
        self.depth = 0

    def fail(self, at: int, message: str, kind: type[TemplateError] = TemplateError) -> NoReturn:
        raise kind(f"{place(self.source, at)}: {message}")

    def no_field(self, at: int, name: str, owner: Any) -> NoReturn:
        self.fail(at, f"can't evaluate field {name} in type {type_name(owner)}", FieldError)

    def step(self, at: int) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            self.fail(at, f"the template takes over {MAX_STEPS} steps")

    def write(self, at: int, text: str) -> None:
        self.written += len(text)
        if self.written > MAX_OUTPUT:
            self.fail(at, f"the template writes over {MAX_OUTPUT} characters")
        self.output.append(text)

    # nodes

    def walk(self, nodes: tuple[Node, ...], dot: Any) -> None:
        self.depth += 1
        for node in nodes:
            self.step(node.at)
            if self.depth > _MAX_DEPTH:
                self.fail(node.at, f"nested more than {_MAX_DEPTH} levels deep")
            if isinstance(node, Text):
                self.write(node.at, node.text)
            elif isinstance(node, Action):
                value = self.pipe(node.pipe, dot)
                if not node.pipe.variables:
                    text = NO_VALUE if value is None else format_value(value)
                    is_raw = self.escape is None or isinstance(value, Markup)
                    self.write(node.at, text if is_raw or self.escape is None else self.escape(text))
            elif isinstance(node, Branch):
                self.branch(node, dot)
            elif isinstance(node, Include):
                self.include(node, dot)
            else:
                raise _Leaving(node.word)
        self.depth -= 1

    def branch(self, node: Branch, dot: Any) -> None:
        mark = len(self.variables)
        if node.word == "range":
            self.loop(node, dot)
        else:
            value = self.pipe(node.pipe, dot)
            if is_true(value):
                self.walk(node.body, value if node.word == "with" else dot)
            else:
                self.walk(node.otherwise, dot)
        del self.variables[mark:]

    def loop(self, node: Branch, dot: Any) -> None:
        names = node.pipe.variables
        start = len(self.variables)
        items = self.items(node, self.pipe(node.pipe, dot, is_range=True))
        mark, depth = len(self.variables), self.depth
        for key, item in items:
            self.step(node.at)
            if names:
                for name, value in zip(names, (key, item) if len(names) > 1 else (item,), strict=True):
                    self.set(name, value, start if not node.pipe.is_assignment else 0)
            try:
                self.walk(node.body, item)
            except _Leaving as leaving:
                if leaving.word == "break":
                    break
            finally:
                self.depth = depth
                del self.variables[mark:]
        if not items:
            self.walk(node.otherwise, dot)

    def items(self, node: Branch, value: Any) -> list[tuple[Any, Any]]:
        if value is None:
            return []
        if isinstance(value, dict):
            return [(key, value[key]) for key in sorted(value)]
        if isinstance(value, list):
            return list(enumerate(value))
        if isinstance(value, int) and not isinstance(value, bool):
            if len(node.pipe.variables) > 1:
                self.fail(node.at, f"can't use {value} to iterate over more than one variable")
            return [(None, number) for number in range(min(value, MAX_STEPS + 1))]
        return self.fail(node.at, f"range can't iterate over {format_value(value)}")

    def include(self, node: Include, dot: Any) -> None:
        body = self.defined.get(node.name)
        if body is None:
            self.fail(node.at, f'template "{node.name}" not defined')
        inner = self.pipe(node.pipe, dot) if node.pipe else None
        kept, self.variables = self.variables, [("$", inner)]
        including, (self.source, nodes) = self.source, body
        self.walk(nodes, inner)
        self.variables, self.source = kept, including

    # variables

    def set(self, name: str, value: Any, start: int) -> None:
        """Give the innermost variable of that name a new value, looking no further out than `start`."""
        for index in range(len(self.variables) - 1, start - 1, -1):
            if self.variables[index][0] == name:
                self.variables[index] = (name, value)
                return

    def get(self, name: str) -> Any:
        return next(value for known, value in reversed(self.variables) if known == name)

    # pipelines

    def pipe(self, pipe: Pipe, dot: Any, *, is_range: bool = False) -> Any:
        value: Any = _MISSING
        for command in pipe.commands:
            value = self.command(command, dot, value)
        for name in pipe.variables:
            if pipe.is_assignment and not is_range:
                self.set(name, value, 0)
            elif not pipe.is_assignment:
                self.variables.append((name, value))
        return value

    def command(self, command: Command, dot: Any, final: Any) -> Any:
        first, *rest = command.operands
        self.step(first.at)
        if isinstance(first, Call):
            return self.call(first, tuple(rest), dot, final)
        if rest or final is not _MISSING:
            if isinstance(first, (Field, Variable, Chain)) and first.fields:
                return self.method(first, tuple(rest), dot, final)
            what = self.source[first.at :].split(maxsplit=1)[0] if not isinstance(first, Pipe) else "(...)"
            self.fail(first.at, f"can't give argument to non-function {what}")
        if isinstance(first, Nil):
            self.fail(first.at, "nil is not a command")
        return self.operand(first, dot)

    def operand(self, operand: Operand, dot: Any) -> Any:
        """The value of an operand that takes no arguments."""
        self.step(operand.at)
        value: Any = None
        if isinstance(operand, Constant):
            value = operand.value
        elif isinstance(operand, Dot):
            value = dot
        elif isinstance(operand, Variable):
            value = self.fields(self.get(operand.name), operand.fields, operand.at)
        elif isinstance(operand, Field):
            value = self.fields(dot, operand.fields, operand.at)
        elif isinstance(operand, Pipe):
            value = self.pipe(operand, dot)
        elif isinstance(operand, Call):
            value = self.call(operand, (), dot, _MISSING)
        elif isinstance(operand, Chain):
            value = self.fields(self.operand(operand.inner, dot), operand.fields, operand.at)
        return value

    def fields(self, value: Any, names: tuple[str, ...], at: int) -> Any:
        for name in names:
            if isinstance(value, Native):
                value = self.apply(at, name, self.method_of(value, name, at), (), None, _MISSING, (value,))
            elif isinstance(value, Structure | Slice | Pairs) and name in value.fields:
                value = value.fields[name]
            elif isinstance(value, dict):
                value = value.get(name, None if isinstance(value, AnyMap) else "")
            elif value is not None:
                self.no_field(at, name, value)
        return value

    # calls

    def call(self, node: Call, operands: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        function = self.functions[node.name]
        before = (self.context,) if function.needs_context else ()
        return self.apply(node.at, node.name, function, operands, dot, final, before)

    def method(self, operand: Field | Variable | Chain, operands: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        """A call of what the last field of an operand names, with arguments."""
        *fields, name = operand.fields
        owner = self.operand(msgspec.structs.replace(operand, fields=tuple(fields)), dot)
        if not isinstance(owner, Native | Pairs) or (isinstance(owner, Pairs) and name not in METHODS[Pairs]):
            self.fail(operand.at, f"can't give argument to non-function {name}")
        function = self.method_of(owner, name, operand.at)
        return self.apply(operand.at, name, function, operands, dot, final, (owner,))

    def method_of(self, owner: Native | Pairs, name: str, at: int) -> Function:
        function = METHODS[type(owner)].get(name)
        return function or self.no_field(at, name, owner)

    def apply(  # noqa: PLR0913, PLR0917 - all of a call
        self,
        at: int,
        name: str,
        function: Function,
        operands: tuple[Operand, ...],
        dot: Any,
        final: Any,
        before: tuple[Any, ...],
    ) -> Any:
        """What the function gives for `before` and the arguments, once their number and types are right."""
        wanted = len(function.parameters)
        given = len(operands) + (final is not _MISSING)
        if given < wanted or (given > wanted and function.rest is None):
            least = "at least " if function.rest else ""
            self.fail(at, f"wrong number of args for {name}: want {least}{wanted} got {given}")
        if name in ("and", "or"):
            return self.decide(name, operands, dot, final)
        kinds = (*function.parameters, *(function.rest or "any",) * (given - wanted))
        values = [self.argument(operand, kind, dot) for operand, kind in zip(operands, kinds, strict=False)]
        if final is not _MISSING:
            values.append(self.checked(at, final, kinds[-1]))
        try:
            result = function.call(*before, *values)
        except TemplateError as error:
            self.fail(at, f"error calling {name}: {error}")
        if isinstance(result, str) and len(result) > MAX_OUTPUT:
            self.fail(at, f"{name} gives over {MAX_OUTPUT} characters")
        return result

    def decide(self, name: str, operands: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        value: Any = None
        for operand in operands:
            value = self.argument(operand, "any", dot)
            if is_true(value) == (name == "or"):
                return value
        return value if final is _MISSING else final

    def argument(self, operand: Operand, kind: Parameter, dot: Any) -> Any:
        value = self.operand(operand, dot)
        if isinstance(operand, Constant) and isinstance(value, (int, float)) and not isinstance(value, bool):
            # a literal number takes the type that is wanted, where it fits
            if kind == "float":
                return float(value)
            if kind in {"int", "span"} and isinstance(value, float) and value.is_integer():
                value = int(value)
            if kind == "span" and isinstance(value, int):
                return Span(value)
        return self.checked(operand.at, value, kind)

    def checked(self, at: int, value: Any, kind: Parameter) -> Any:
        fits, name = PARAMETERS[kind]
        if not fits(value):
            if value is None:
                self.fail(at, f"invalid value; expected {name}")
            self.fail(at, f"wrong type for value; expected {name}; got {type_name(value)}")
        return value
