"""Tokens to a tree: one method per rule of Go's grammar. All names are checked here, so that a typo shows at load."""

from __future__ import annotations

import math
import re
from collections.abc import Container
from typing import NoReturn

import msgspec

from collector.gotext.lexer import Token, place, tokens
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
    Leave,
    Nil,
    Node,
    Operand,
    Pipe,
    Text,
    Variable,
)
from collector.gotext.values import TemplateError

MAX_DEPTH = 50
"""Of control structures and parentheses inside one another."""
MAX_CHARACTERS = 100_000

_BRANCHES = frozenset(("if", "with", "range"))
_RESERVED = _BRANCHES | {"else", "end", "break", "continue", "define", "block", "template"}
_OPERANDS = frozenset(("string", "rune", "number", "field", "variable", "word"))
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIMPLE_ESCAPES |= {mark: mark for mark in "\\'\""}
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\d[\d_]*)")
_END = Token("close", "the end of the template", -1)


class Parsed(msgspec.Struct, frozen=True):
    """A template's own nodes, and those that it defines by name."""

    nodes: tuple[Node, ...]
    defined: dict[str, tuple[Node, ...]]
    called: frozenset[str]
    """The functions that stand in it."""


def parse(source: str, functions: Container[str], variables: tuple[str, ...]) -> Parsed:
    """The tree of a template. Raises TemplateError with line and column."""
    if len(source) > MAX_CHARACTERS:
        raise TemplateError(f"1:1: a template of over {MAX_CHARACTERS} characters: shorten it")
    return _Parser(source, functions, variables).whole()


class _Parser:
    def __init__(self, source: str, functions: Container[str], variables: tuple[str, ...]) -> None:
        self.source = source
        self.functions = functions
        self.variables = ["$", *variables]
        self.tokens = list(tokens(source))
        self.next = 0
        self.depth = 0
        self.range_depth = 0
        self.defined: dict[str, tuple[Node, ...]] = {}
        self.called: set[str] = set()

    def whole(self) -> Parsed:
        nodes, end = self.nodes()
        if end.kind != "close" or end.at >= 0:
            self.fail(end, f"unexpected {{{{{end.text}}}}}: there is nothing open that it belongs to")
        return Parsed(nodes, self.defined, frozenset(self.called))

    # tokens

    def fail(self, token: Token, message: str) -> NoReturn:
        at = token.at if token.at >= 0 else len(self.source)
        raise TemplateError(f"{place(self.source, at)}: {message}")

    def peek(self) -> Token:
        return self.tokens[self.next] if self.next < len(self.tokens) else _END

    def take(self) -> Token:
        token = self.peek()
        self.next += 1
        return token

    def skip_space(self) -> bool:
        had_space = False
        while self.peek().kind == "space":
            self.next += 1
            had_space = True
        return had_space

    def close(self, context: str) -> None:
        self.skip_space()
        token = self.take()
        if token.kind != "close" or token.at < 0:
            self.fail(token, f"unexpected `{token.text}` in {context}")

    def deeper(self, token: Token) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(token, f"nested more than {MAX_DEPTH} levels deep: flatten it")

    # text and actions

    def nodes(self) -> tuple[tuple[Node, ...], Token]:
        """Nodes up to `end`, `else` or the end of the text, and the token that ended them."""
        found: list[Node] = []
        while True:
            token = self.take()
            if token is _END:
                return tuple(found), token
            if token.kind == "text":
                found.append(Text(token.at, token.text))
                continue
            self.skip_space()
            word = self.peek()
            if word.kind == "word" and word.text in ("end", "else"):
                self.next += 1
                if word.text == "end":
                    self.close("{{end}}")
                return tuple(found), word
            node = self.action(word)
            if node is not None:
                found.append(node)

    def action(self, word: Token) -> Node | None:
        if word.kind != "word" or word.text not in _RESERVED:
            pipe = self.pipe("an action")
            self.close("an action")
            return Action(word.at, pipe)
        self.next += 1
        if word.text in _BRANCHES:
            return self.branch(word)
        if word.text in ("break", "continue"):
            self.close(f"{{{{{word.text}}}}}")
            if not self.range_depth:
                self.fail(word, f"{{{{{word.text}}}}} outside of a range")
            return Leave(word.at, word.text)
        return self.named(word)

    def branch(self, word: Token) -> Branch:
        self.deeper(word)
        mark = len(self.variables)
        pipe = self.pipe(word.text)
        self.close(word.text)
        self.range_depth += word.text == "range"
        body, end = self.nodes()
        self.range_depth -= word.text == "range"
        otherwise: tuple[Node, ...] = ()
        if end.text == "else":
            self.skip_space()
            inner = self.peek()
            if word.text in ("if", "with") and inner.kind == "word" and inner.text == word.text:
                self.next += 1
                otherwise, end = (self.branch(inner),), inner
            else:
                self.close("{{else}}")
                otherwise, end = self.nodes()
                if end.text == "else":
                    self.fail(end, f"a second {{{{else}}}} in one {{{{{word.text}}}}}")
        if end is _END:
            self.fail(word, f"{{{{{word.text}}}}} without {{{{end}}}}: close it")
        del self.variables[mark:]
        self.depth -= 1
        return Branch(word.at, word.text, pipe, body, otherwise)

    def named(self, word: Token) -> Include | None:
        """`template`, `define` and `block`."""
        self.skip_space()
        token = self.take()
        if token.kind != "string":
            self.fail(token, f"{{{{{word.text}}}}} needs a name in quotes")
        name = self.text_of(token)
        self.skip_space()
        pipe = None
        if word.text != "define" and self.peek().kind != "close":
            pipe = self.pipe(word.text)
        self.close(word.text)
        if word.text == "template":
            return Include(word.at, name, pipe)
        self.deeper(word)
        kept, self.variables = self.variables, ["$"]
        kept_ranges, self.range_depth = self.range_depth, 0
        self.defined[name], end = self.nodes()
        self.variables, self.range_depth = kept, kept_ranges
        self.depth -= 1
        if end.text != "end":
            self.fail(word, f"{{{{{word.text}}}}} without {{{{end}}}}: close it")
        return Include(word.at, name, pipe) if word.text == "block" else None

    # pipelines

    def pipe(self, context: str) -> Pipe:
        self.skip_space()
        start = self.peek()
        names, is_assignment = self.declarations(context)
        commands = [self.command(context)]
        while self.peek().text == "|" and self.peek().kind == "mark":
            bar = self.take()
            command = self.command(context)
            if isinstance(command.operands[0], (Constant, Dot, Nil)):
                self.fail(bar, f"stage {len(commands) + 1} of the pipeline cannot be called: it needs a function")
            commands.append(command)
        self.variables.extend(names if not is_assignment else ())
        return Pipe(start.at, tuple(commands), tuple(names), is_assignment)

    def declarations(self, context: str) -> tuple[list[str], bool]:
        """`$x :=`, `$x =`, and in a range `$i, $x :=`."""
        mark = self.next
        names: list[str] = []
        while self.peek().kind == "variable":
            names.append(self.take().text)
            self.skip_space()
            token = self.take()
            if token.kind == "declare" or (token.kind == "mark" and token.text == "="):
                for name in names if token.kind == "mark" else ():
                    self.known_variable(name, token)
                return names, token.kind == "mark"
            if token.kind != "mark" or token.text != ",":
                break
            if context != "range" or len(names) > 1:
                self.fail(token, f"too many variables in {context}")
            self.skip_space()
        self.next = mark
        return [], False

    def command(self, context: str) -> Command:
        self.skip_space()
        start = self.peek()
        operands: list[Operand] = []
        while (operand := self.operand()) is not None:
            operands.append(operand)
            if not self.skip_space():
                break
        self.skip_space()
        token = self.peek()
        ends = token.kind == "close" or (token.kind == "mark" and token.text in "|)")
        if not operands:
            if ends and token.at >= 0:
                self.fail(token, f"a value is missing in {context}")
            self.fail(token, f"unexpected `{token.text}` in {context}")
        if not ends:
            self.fail(token, f"unexpected `{token.text}` in {context}")
        return Command(start.at, tuple(operands))

    def operand(self) -> Operand | None:
        token = self.peek()
        if token.kind not in _OPERANDS and token.text not in (".", "("):
            return None
        if token.kind == "space" or (token.kind == "word" and token.text in _RESERVED):
            return None
        self.next += 1
        inner = self.term(token)
        fields = []
        while self.peek().kind == "field":
            fields.append(self.take().text[1:])
        if not fields:
            return inner
        if isinstance(inner, (Field, Variable)):
            return msgspec.structs.replace(inner, fields=(*inner.fields, *fields))
        if isinstance(inner, (Constant, Dot, Nil)):
            self.fail(token, f"unexpected . after `{token.text}`")
        return Chain(inner.at, inner, tuple(fields))

    def term(self, token: Token) -> Operand:
        if token.kind == "field":
            return Field(token.at, (token.text[1:],))
        if token.kind == "variable":
            self.known_variable(token.text, token)
            return Variable(token.at, token.text, ())
        if token.kind == "word":
            return self.word(token)
        if token.kind == "mark":
            return Dot(token.at) if token.text == "." else self.parentheses(token)
        return Constant(token.at, self.literal(token))

    def parentheses(self, token: Token) -> Pipe:
        self.deeper(token)
        pipe = self.pipe("parentheses")
        if self.take().text != ")":
            self.fail(token, "unclosed ( : close it")
        self.depth -= 1
        return pipe

    def word(self, token: Token) -> Operand:
        if token.text in ("true", "false"):
            return Constant(token.at, token.text == "true")
        if token.text == "nil":
            return Nil(token.at)
        if token.text not in self.functions:
            self.fail(token, f"function `{token.text}` is not defined")
        self.called.add(token.text)
        return Call(token.at, token.text)

    def known_variable(self, name: str, token: Token) -> None:
        if name not in self.variables:
            self.fail(token, f"undefined variable `{name}`")

    # literals

    def literal(self, token: Token) -> str | int | float:
        if token.kind == "number":
            return self.number(token)
        text = self.text_of(token)
        if token.kind == "string":
            return text
        if len(text) != 1:
            self.fail(token, f"{token.text} is not one character")
        return ord(text)

    def text_of(self, token: Token) -> str:
        body = token.text[1:-1]
        if token.text[0] == "`":
            return body.replace("\r", "")

        def plain(match: re.Match[str]) -> str:
            code = match.group(1)
            if code in _SIMPLE_ESCAPES and code != ("'" if token.text[0] == '"' else '"'):
                return _SIMPLE_ESCAPES[code]
            number = int(code, 8) if code.isdigit() and len(code) == 3 else -1
            if code[0] in "xuU" and len(code) > 1:
                number = int(code[1:], 16)
            if not 0 <= number <= 0x10FFFF or 0xD800 <= number < 0xE000:
                self.fail(token, f"\\{code} is no escape in {token.text}: write \\\\ for a backslash")
            return chr(number)

        return _ESCAPE.sub(plain, body)

    def number(self, token: Token) -> int | float:
        text = token.text
        try:
            if _INTEGER.fullmatch(text):
                digits = text.replace("_", "")
                is_octal = digits.lstrip("+-").startswith("0") and digits.lstrip("+-").isdigit()
                whole = int(digits, 8 if is_octal else 0)
                if -(1 << 63) <= whole < 1 << 63:
                    return whole
            elif "_" not in text and math.isfinite(float(text)):
                return float(text)
        except ValueError:
            pass
        return self.fail(token, f"`{text}` is not a number")
