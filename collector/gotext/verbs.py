"""Go's fmt: `printf` with its verbs and flags, `print`, `println`, and the error texts they put in place of a crash."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from collector.gotext.floats import format_float, hex_float
from collector.gotext.values import AnyMap, Named, Native, Structure, type_name

_DIRECTIVE = re.compile(r"%([#0+\- ]*)(\[[^\]]*\])?(\*|\d+)?(?:\.(\[[^\]]*\])?(\*|\d+)?)?(\[[^\]]*\])?(.?)", re.DOTALL)
_MAX_WIDTH = 10_000
"""Go allows a million; nobody reads an alert that wide."""
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}
_BASES = {"d": "d", "v": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
_PREFIXES = {"b": "0b", "o": "0", "x": "0x", "X": "0X"}


class Spec(msgspec.Struct, frozen=True):
    """Flags, width and precision of one directive; -1 is not given."""

    flags: str = ""
    width: int = -1
    precision: int = -1

    def pad(self, text: str, *, with_zeros: bool = False) -> str:
        """The text brought to the width."""
        if "-" in self.flags:
            return text.ljust(self.width)
        if with_zeros and "0" in self.flags:
            sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-", " ") else ("", text)
            return sign + rest.rjust(self.width - len(sign), "0")
        return text.rjust(self.width)


PLAIN = Spec()


def quote(text: str, mark: str = '"', *, is_ascii: bool = False) -> str:
    """The text as a Go literal, with `is_ascii` all of it in ASCII."""
    parts = []
    for character in text:
        code = ord(character)
        if character == mark:
            parts.append("\\" + mark)
        elif character in _ESCAPES:
            parts.append(_ESCAPES[character])
        elif character.isprintable() and (code < 0x80 or not is_ascii):
            parts.append(character)
        elif code < 0x80:
            parts.append(f"\\x{code:02x}")
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return mark + "".join(parts) + mark


def format_value(value: Any, verb: str = "v", spec: Spec = PLAIN) -> str:
    """One value by one verb; a verb that does not fit gives Go's `%!d(string=x)`."""
    if verb == "T":
        return spec.pad(type_name(value))
    if value is None:
        return spec.pad("<nil>") if verb == "v" else _bad_verb(value, verb)
    layout = next((layout for kind, layout in _LAYOUTS if isinstance(value, kind)), None)
    return _format_text(str(value), verb, spec) if layout is None else layout(value, verb, spec)


def sprint(values: list[Any]) -> str:
    """`print`: a space between two values of which neither is text."""
    parts: list[str] = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            parts.append(" ")
        parts.append(format_value(value))
    return "".join(parts)


def sprintln(values: list[Any]) -> str:
    """`println`: spaces between all, and a line end."""
    return " ".join(format_value(value) for value in values) + "\n"


def sprintf(template: str, values: list[Any]) -> str:
    """`printf`: never fails; what does not fit is said in the text, as in Go."""
    arguments = _Arguments(values)
    parts: list[str] = []
    end = 0
    for match in _DIRECTIVE.finditer(template):
        parts.append(template[end : match.start()])
        parts.append(_directive(match, arguments))
        end = match.end()
    parts.append(template[end:])
    if not arguments.is_reordered and arguments.next < len(values):
        rest = ", ".join(
            "<nil>" if value is None else f"{type_name(value)}={format_value(value)}"
            for value in values[arguments.next :]
        )
        parts.append(f"%!(EXTRA {rest})")
    return "".join(parts)


class _Arguments:
    """Which operand comes next."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.next = 0
        self.is_reordered = False
        self.is_bad = False

    def jump(self, index: str | None) -> None:
        """`[2]` makes the second operand the next."""
        if index is None:
            return
        self.is_reordered = True
        number = index[1:-1]
        if number.isascii() and number.isdigit() and len(number) < 7 and 1 <= int(number) <= len(self.values):
            self.next = int(number) - 1
        else:
            self.is_bad = True

    def size(self, text: str | None, name: str) -> tuple[int, str]:
        """A width or precision: digits, `*` for the next operand, or nothing; and what to say where it is none."""
        if text is None:
            return -1, ""
        if text != "*":
            return (int(text), "") if len(text) < 6 and int(text) <= _MAX_WIDTH else (-1, "")
        value = self.values[self.next] if self.next < len(self.values) else None
        self.next += self.next < len(self.values)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_WIDTH:
            return value, ""
        return -1, f"%!(BAD{name})"


def _directive(match: re.Match[str], arguments: _Arguments) -> str:
    flags, first_index, width_text, precision_index, precision_text, last_index, verb = match.groups()
    arguments.is_bad = False
    arguments.jump(first_index)
    width, complaint = arguments.size(width_text, "WIDTH")
    if width_text == "*" and width < -1:
        width, flags = -width, flags.replace("0", "") + "-"
    arguments.jump(precision_index)
    precision, more = arguments.size(precision_text, "PREC")
    if "." in match.group()[len(flags) + 1 :] and precision_text is None:
        precision = 0
    arguments.jump(last_index)
    if not verb:
        return complaint + more + "%!(NOVERB)"
    if verb == "%":
        return complaint + more + "%"
    if arguments.is_bad:
        return f"{complaint}{more}%!{verb}(BADINDEX)"
    if arguments.next >= len(arguments.values):
        return f"{complaint}{more}%!{verb}(MISSING)"
    value = arguments.values[arguments.next]
    arguments.next += 1
    return complaint + more + format_value(value, verb, Spec(flags, max(width, -1), max(precision, -1)))


def _bad_verb(value: Any, verb: str) -> str:
    inner = "<nil>" if value is None else f"{type_name(value)}={format_value(value)}"
    return f"%!{verb}({inner})"


def _format_bool(value: bool, verb: str, spec: Spec) -> str:  # noqa: FBT001 - it is what is formatted
    return spec.pad("true" if value else "false") if verb in "vt" else _bad_verb(value, verb)


def _format_int(value: int, verb: str, spec: Spec) -> str:
    if verb in ("c", "q", "U"):
        character = chr(value) if 0 <= value <= 0x10FFFF and not 0xD800 <= value < 0xE000 else "\ufffd"
        texts = {"c": character, "q": quote(character, "'"), "U": f"U+{value:04X}"}
        return spec.pad(texts[verb])
    if verb not in _BASES:
        return _bad_verb(value, verb)
    digits = format(abs(value), _BASES[verb])
    sign = "-" if value < 0 else "+" if "+" in spec.flags and verb != "v" else " " if " " in spec.flags else ""
    if spec.precision >= 0:
        digits = "" if spec.precision == 0 and value == 0 else digits.rjust(spec.precision, "0")
    elif "0" in spec.flags and "-" not in spec.flags:
        digits = digits.rjust(spec.width - len(sign), "0")
    prefix = _PREFIXES.get(verb, "") if "#" in spec.flags else ""
    if verb == "o" and digits.startswith("0"):
        prefix = ""
    return spec.pad(sign + ("0o" if verb == "O" else prefix) + digits)


def _format_named(value: Named, verb: str, spec: Spec) -> str:
    return _format_text(value.text, verb, spec) if verb in "vsq" else _format_int(value, verb, spec)


def _format_native(value: Native, verb: str, spec: Spec) -> str:
    return _format_text(str(value), verb, spec)


def _format_float(value: float, verb: str, spec: Spec) -> str:
    if verb in "xX":
        return spec.pad(hex_float(value, verb, spec.precision))
    if verb not in "veEfFgG":
        return _bad_verb(value, verb)
    precision = 6 if spec.precision < 0 and verb in "eEfF" else spec.precision
    text = format_float(value, "g" if verb == "v" else verb, precision)
    if text[0] in "0123456789N":
        text = ("+" if "+" in spec.flags and verb != "v" else " " if " " in spec.flags else "") + text
    return spec.pad(text, with_zeros=text.lstrip("+- ")[0].isdigit())


def _format_text(value: str, verb: str, spec: Spec) -> str:
    if verb in "xX":
        data = value.encode("utf-8", "replace")
        digits = (data[: spec.precision] if spec.precision >= 0 else data).hex()
        return spec.pad(digits.upper() if verb == "X" else digits)
    if verb not in "vsq":
        return _bad_verb(value, verb)
    cut = value[: spec.precision] if spec.precision >= 0 else value
    if verb == "q" or (verb == "v" and "#" in spec.flags):
        is_raw = verb == "q" and "#" in spec.flags and "`" not in cut and all(c.isprintable() or c == "\t" for c in cut)
        return spec.pad(f"`{cut}`" if is_raw else quote(cut, is_ascii="+" in spec.flags))
    return spec.pad(cut, with_zeros=True)


def _format_map(value: dict[str, Any], verb: str, spec: Spec) -> str:
    def inner(item: Any) -> str:
        return "<nil>" if item is None and isinstance(value, AnyMap) else format_value(item, verb, spec)

    return "map[" + " ".join(f"{inner(key)}:{inner(value[key])}" for key in sorted(value)) + "]"


def _format_structure(value: Structure, verb: str, spec: Spec) -> str:
    with_names = verb == "v" and "+" in spec.flags
    texts = (
        (f"{name}:" if with_names else "") + format_value(field, verb, spec) for name, field in value.fields.items()
    )
    return "{" + " ".join(texts) + "}"


def _format_list(value: list[Any], verb: str, spec: Spec) -> str:
    return "[" + " ".join(format_value(item, verb, spec) for item in value) + "]"


_LAYOUTS: tuple[tuple[type, Callable[[Any, str, Spec], str]], ...] = (
    # before int: these are ints, too
    (bool, _format_bool),
    (Named, _format_named),
    (Native, _format_native),
    (int, _format_int),
    (float, _format_float),
    (str, _format_text),
    (dict, _format_map),
    (list, _format_list),
    (Structure, _format_structure),
)
