"""Matchers as Alertmanager writes them: text in, conditions out.

Two grammars are read. The newer one takes any UTF-8 name and Go's escapes inside double quotes; the older one takes
bare values with spaces and lone backslashes. As Alertmanager does, a text is read by both: where only one
understands it that one counts, and where they disagree the older one does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, cast

from collector.documents import Regex
from collector.model.labels import Labels, Matcher

Op = Literal["=", "!=", "=~", "!~"]

_CLASSIC = re.compile(
    r"[ \t\n\f\r]*([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t\n\f\r]*(=~|=|!=|!~)[ \t\n\f\r]*(.*?)[ \t\n\f\r]*", re.DOTALL
)
_CLASSIC_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<op>=~|!=|!~|=)
  | (?P<mark>[{},])
  | (?P<quoted>"(?:[^"\\]|\\.)*")
  | (?P<word>[^\s{}!=~,\\"'`]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\\"])|x([0-9a-fA-F]{2})|([0-3][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))|(\\|\n)|([^\\\n]+)"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_WRITTEN = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_GO = str.maketrans({value: f"\\{name}" for name, value in _SIMPLE.items()})
_RESERVED = re.compile(r"[\s{}!=~,\\\"'`]")


def matcher(name: str, op: Op, value: str) -> Matcher:
    """One compiled condition. Raises ValueError for a regular expression that is none."""
    return Matcher(name, op, value, _test(op, value))


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """Conditions separated by commas, with braces around them or without. Raises ValueError."""
    try:
        return _classic_list(text)  # where both read it, they agree or this one holds
    except ValueError as error:
        return _newer(text, error)


def parse_matcher(text: str) -> Matcher:
    """Exactly one condition, without braces: what a command line gives. Raises ValueError."""
    if text.startswith("{") or text.endswith("}"):
        raise ValueError(f"`{text}` has a brace: write NAME=VALUE")
    try:
        return _classic(text)
    except ValueError as error:
        found = _newer(text, error)
        if len(found) != 1:
            raise error from None
        return found[0]


def is_classic_name(name: str) -> bool:
    """Whether a label has a name that every Prometheus knows."""
    return _CLASSIC_NAME.fullmatch(name) is not None


def order(matchers: Iterable[Matcher]) -> tuple[Matcher, ...]:
    """By name, value and operator: the order in which Alertmanager keeps and shows them."""
    return tuple(sorted(matchers, key=lambda one: (one.name, one.value, ("=", "!=", "=~", "!~").index(one.op))))


def written(matchers: Iterable[Matcher]) -> str:
    """As Alertmanager shows them: `{owner=~"pay.*",severity="page"}`."""
    return "{" + ",".join(map(_written, matchers)) + "}"


def hold(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Whether a label set fulfils all of them; a label that is not there is empty."""
    values = dict(labels)
    return all(one.matches(values.get(one.name, "")) for one in matchers)


def _written(one: Matcher) -> str:
    if _RESERVED.search(one.name):
        return f"{_quoted(one.name)}{one.op}{_quoted(one.value)}"
    return f'{one.name}{one.op}"{one.value.translate(_WRITTEN)}"'


def _quoted(text: str) -> str:
    """As Go quotes a text."""
    return (
        '"'
        + "".join(character if character.isprintable() else _escaped(character) for character in text.translate(_GO))
        + '"'
    )


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _test(op: Op, value: str) -> Callable[[str], bool]:
    if op == "=":
        return value.__eq__
    if op == "!=":
        return value.__ne__
    matches = Regex(value).matches
    return matches if op == "=~" else lambda text: not matches(text)


# The older grammar


def _classic_list(text: str) -> tuple[Matcher, ...]:
    return tuple(map(_classic, _split(text.removeprefix("{").removesuffix("}"))))


def _split(text: str) -> list[str]:
    """The parts between commas outside of double quotes; the last only where it is not blank."""
    parts, part, quoted, escaped = [], "", False, False
    for character in text:
        if character == "," and not quoted:
            parts.append(part)
            part = ""
            continue
        if character == '"':
            quoted, escaped = (quoted, False) if escaped else (not quoted, False)
        elif character != ",":  # after a comma inside quotes a backslash before it still counts, as it does there
            escaped = character == "\\" and not escaped
        part += character
    return [*parts, part.strip()] if part.strip() else parts


def _classic(text: str) -> Matcher:
    found = _CLASSIC.fullmatch(text)
    if found is None:
        raise ValueError(f'`{text}` is no matcher: write name="value", or with !=, =~ or !~')
    name, op, raw = found.groups()
    return matcher(name, cast("Op", op), _unescaped(raw))


def _unescaped(raw: str) -> str:
    opened = raw.startswith('"')
    text = raw[1:] if opened else raw
    value, escaped = "", False
    for place, character in enumerate(text, 1):
        is_last = place == len(text)
        if escaped:
            value += {"n": "\n", '"': '"', "\\": "\\"}.get(character, "\\" + character)
            escaped = False
        elif character == "\\" and not is_last:
            escaped = True
        elif character != '"':
            value += character
        elif opened and is_last:
            return value
        else:
            raise ValueError(f'`{raw}` has a double quote inside: write \\" for it')
    if opened:
        raise ValueError(f"`{raw}` begins with a double quote and does not end with one: close it")
    return value


# The newer grammar


def _newer(text: str, older: ValueError) -> tuple[Matcher, ...]:
    """Raises what the older one said, unless the text can only be meant for this one."""
    try:
        return _newer_list(text)
    except ValueError as error:
        raise (error if text.lstrip(" {").startswith('"') else older) from None


def _newer_list(text: str) -> tuple[Matcher, ...]:
    tokens = _tokens(text)
    opened = tokens[:1] == [("mark", "{")]
    closed = tokens[-1:] == [("mark", "}")] and (len(tokens) > 1 or not opened)
    if opened != closed:
        raise ValueError(f"`{text}` has one brace of two: write both, or none")
    inner = tokens[1:-1] if opened else tokens
    if inner[-1:] == [("mark", ",")] and len(inner) > 1:
        inner = inner[:-1]
    found = []
    for start in range(0, len(inner), 4):
        part, comma = inner[start : start + 3], inner[start + 3 : start + 4]
        kinds = [kind for kind, _ in part]
        if len(kinds) != 3 or kinds[1] != "op" or not {kinds[0], kinds[2]} <= {"word", "quoted"}:
            raise ValueError(f'`{text}` is no matcher: write name="value", or with !=, =~ or !~')
        if comma not in ([], [("mark", ",")]) or (comma and start + 4 >= len(inner)):
            raise ValueError(f"`{text}`: matchers are separated by single commas")
        (_, name), (_, op), (_, value) = part
        found.append(matcher(name, cast("Op", op), value))
    return tuple(found)


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"`{text}`: `{text[at]}` needs double quotes around it")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append((kind, _unquoted(match.group()) if kind == "quoted" else match.group()))
        at = match.end()
    return found


def _unquoted(quoted: str) -> str:
    """Go's reading of a double-quoted text. Raises ValueError for an escape that it does not know."""
    out, at, inner = b"", 0, quoted[1:-1]
    while at < len(inner):
        match = _ESCAPE.match(inner, at)
        if match is None or match.group(6):
            raise ValueError(f"`{quoted}` has a backslash that escapes nothing: write \\\\ for the character itself")
        simple, byte, octal, short, long, _, plain = match.groups()
        if byte or octal:
            out += bytes([int(byte, 16) if byte else int(octal, 8)])
        elif short or long:
            out += chr(int(short or long, 16)).encode()
        else:
            out += (_SIMPLE[simple] if simple else plain).encode()
        at = match.end()
    try:
        return out.decode()
    except UnicodeDecodeError:
        raise ValueError(f"`{quoted}` is no UTF-8") from None
