"""Functions that change labels and leave values alone. What they make is kept while their input's labels stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collector.model.labels import Labels, labels_of
from collector.promql.errors import PromqlError
from collector.promql.frame import Distinct, Frame, Instant, Relabel, label_value
from collector.promql.matchers import regex
from collector.promql.selectors import Constant, FrameNode

LONGEST = 10_000
"""Characters of a label's value that a function makes: it makes as many values as there are series."""


class Relabelled:
    """A vector with one label set anew: to what `value` makes of an element's labels, left alone where that is None."""

    def __init__(
        self, function: str, vector: FrameNode, destination: Constant, value: Callable[[Labels], str | None]
    ) -> None:
        name = str(destination.value)
        if not name:
            raise PromqlError(f"invalid destination label name in {function}(): {name}")

        def change(labels: Labels) -> Labels:
            text = value(labels)
            if text is None:
                return labels
            if len(text) > LONGEST:
                raise PromqlError(f"{function}() gives a label of over {LONGEST} characters")
            return labels_of({**dict(labels), name: text})

        self._vector = vector
        self._relabel = Relabel(change)
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """The same values under the changed labels."""
        frame = self._vector.eval(now)
        labels = self._relabel(frame.labels)
        return self._distinct(Frame(labels, frame.values, frame.present, frame.order))


def label_replace(
    vector: FrameNode, destination: Constant, replacement: Constant, source: Constant, pattern: Constant
) -> Relabelled:
    """`label_replace(vector, destination, replacement, source, regex)`: set where the source label matches."""
    try:
        compiled = regex(pattern.value)
    except PromqlError as error:
        raise PromqlError(f"invalid regular expression in label_replace(): {pattern.value}") from error
    pieces = template(replacement.value, compiled)

    def value(labels: Labels) -> str | None:
        found = compiled.search(label_value(labels, source.value))
        if found is None:
            return None
        groups = (found.group(0), *found.groups(""))
        return "".join(piece if isinstance(piece, str) else groups[piece] for piece in pieces)

    return Relabelled("label_replace", vector, destination, value)


def label_join(vector: FrameNode, destination: Constant, separator: Constant, *sources: Constant) -> Relabelled:
    """`label_join(vector, destination, separator, source...)`: set to the sources' values, joined."""
    names = [str(source.value) for source in sources]
    if "" in names:
        raise PromqlError("invalid source label name in label_join(): ")
    return Relabelled(
        "label_join",
        vector,
        destination,
        lambda labels: separator.value.join(label_value(labels, name) for name in names),
    )


def template(text: str, pattern: Any) -> list[str | int]:
    """A replacement in Go's form as literal text and group numbers.

    `$1`, `$name`, `${1}`, `${name}`; `$$` is a dollar; a group that is not there is empty; what is not a reference
    stays as it is.
    """
    pieces: list[str | int] = []
    while True:
        literal, dollar, text = text.partition("$")
        pieces.append(literal)
        if not dollar:
            return pieces
        if text.startswith("$"):
            pieces.append("$")
            text = text[1:]
            continue
        name, rest = _reference(text)
        if not name:
            pieces.append("$")
            continue
        text = rest
        number = int(name) if name.isdecimal() else pattern.groupindex.get(name)
        if number is not None and number <= pattern.groups:
            pieces.append(number)


def _reference(text: str) -> tuple[str, str]:
    """The name at the start of what follows a dollar, and the rest; no name where it is malformed."""
    is_braced = text.startswith("{")
    body = text[1:] if is_braced else text
    length = next((i for i, char in enumerate(body) if not (char.isalnum() or char == "_")), len(body))
    name, rest = body[:length], body[length:]
    if not is_braced:
        return name, rest
    return (name, rest[1:]) if rest.startswith("}") else ("", text)
