"""Functions that change labels and leave values alone. What they make is kept while their input's labels stay."""

from __future__ import annotations

from typing import Any

from collector.model.labels import Labels, labels_of
from collector.promql.errors import PromqlError
from collector.promql.frame import Distinct, Frame, Instant, Relabel, label_value
from collector.promql.matchers import regex
from collector.promql.selectors import Constant, FrameNode


class _Relabelled:
    """A vector with other labels."""

    def __init__(self, vector: FrameNode, destination: str, function: str) -> None:
        if not destination:
            raise PromqlError(f"invalid destination label name in {function}(): {destination}")
        self._vector = vector
        self._destination = destination
        self._relabel = Relabel(self.change)
        self._distinct = Distinct()

    def eval(self, now: Instant) -> Frame:
        """The same values under the changed labels."""
        frame = self._vector.eval(now)
        labels = self._relabel(frame.labels)
        return self._distinct(Frame(labels, frame.values, frame.present, frame.order))

    def change(self, labels: Labels) -> Labels:
        """The labels of one element."""
        raise NotImplementedError

    def _with(self, labels: Labels, value: str) -> Labels:
        return labels_of({**dict(labels), self._destination: value})


class LabelReplace(_Relabelled):
    """`label_replace(vector, destination, replacement, source, regex)`."""

    def __init__(
        self, vector: FrameNode, destination: Constant, replacement: Constant, source: Constant, pattern: Constant
    ) -> None:
        super().__init__(vector, destination.value, "label_replace")
        self._source = str(source.value)
        try:
            self._regex = regex(pattern.value)
        except PromqlError as error:
            raise PromqlError(f"invalid regular expression in label_replace(): {pattern.value}") from error
        self._pieces = template(replacement.value, self._regex)

    def change(self, labels: Labels) -> Labels:
        """The destination label set where the source label matches."""
        found = self._regex.search(label_value(labels, self._source))
        if found is None:
            return labels
        groups = (found.group(0), *found.groups(""))
        return self._with(labels, "".join(piece if isinstance(piece, str) else groups[piece] for piece in self._pieces))


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


class LabelJoin(_Relabelled):
    """`label_join(vector, destination, separator, source...)`."""

    def __init__(self, vector: FrameNode, destination: Constant, separator: Constant, *sources: Constant) -> None:
        super().__init__(vector, destination.value, "label_join")
        self._separator = str(separator.value)
        self._sources = [str(source.value) for source in sources]
        if "" in self._sources:
            raise PromqlError("invalid source label name in label_join(): ")

    def change(self, labels: Labels) -> Labels:
        """The destination label set to the sources' values, joined."""
        return self._with(labels, self._separator.join(label_value(labels, name) for name in self._sources))
