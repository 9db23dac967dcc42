"""Where things stand in a file, kept by the structs that were read from it."""

from __future__ import annotations

import yaml

from collector.documents.nodes import is_merge, mark
from collector.model.errors import Problem


class Place:
    """A value's place in its file, and through `at` the places of the values inside it.

    A struct that declares a field of this type gets it filled in; the field is no key of the document.
    """

    __slots__ = ("_node", "_text", "column", "file", "line")

    def __init__(self, file: str, line: int, column: int, *, node: yaml.Node | None = None, text: str = "") -> None:
        self.file = file
        self.line = line
        self.column = column
        self._node = node
        self._text = text

    @classmethod
    def of(cls, file: str, node: yaml.Node, text: str) -> Place:
        """The place of a node of the document `text`."""
        line, column = mark(node)
        return cls(file, line, column, node=node, text=text)

    def __repr__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def problem(self, message: str) -> Problem:
        """What is wrong here, and what to do."""
        return Problem(self.file, self.line, self.column, message)

    def holds(self, problem: Problem) -> bool:
        """Whether a problem of the same file stands inside this value."""
        if self._node is None or problem.file != self.file:
            return False
        end = self._node.end_mark
        return (self.line, self.column) <= (problem.line, problem.column) < (end.line + 1, end.column + 1)

    def has(self, key: str) -> bool:
        """Whether the mapping that stands here has this key with anything written behind it, well or badly."""
        pair = self._pair(key)
        return pair is not None and not (isinstance(pair[1], yaml.ScalarNode) and not pair[1].value.strip())

    def at(self, *path: str | int) -> Place:
        """The place of a value inside, by keys and indexes; where the path ends early, the last that is there."""
        here = self
        for step in path:
            inner = here._inner(step)
            if inner is None:
                break
            here = inner
        return here

    def key(self, name: str) -> Place:
        """The place of a key itself; of the mapping where it has no such key."""
        pair = self._pair(name)
        return self if pair is None else Place.of(self.file, pair[0], self._text)

    def content(self) -> Place:
        """The place of a text's first own character: after the quote, or on the line after a `|` or `>`."""
        node = self._node
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            return self
        if node.style in ("'", '"'):
            return Place(self.file, self.line, self.column + 1)
        if node.style in ("|", ">"):
            for number, line in enumerate(self._text.split("\n")[self.line :], self.line + 1):
                if line.strip():
                    return Place(self.file, number, len(line) - len(line.lstrip()) + 1)
        return self

    def _inner(self, step: str | int) -> Place | None:
        node = self._node
        if isinstance(step, int):
            if isinstance(node, yaml.SequenceNode) and 0 <= step < len(node.value):
                return Place.of(self.file, node.value[step], self._text)
            return None
        pair = self._pair(step)
        return None if pair is None else Place.of(self.file, pair[1], self._text)

    def _pair(self, name: str) -> tuple[yaml.Node, yaml.Node] | None:
        if not isinstance(self._node, yaml.MappingNode):
            return None
        return next(((key, value) for key, value in pairs(self._node) if key.value == name), None)


def pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    """Own pairs first, then those of merge keys: the first of a name is the one that holds."""
    own: list[tuple[yaml.Node, yaml.Node]] = []
    merged: list[tuple[yaml.Node, yaml.Node]] = []
    for key, value in node.value:
        if is_merge(key):
            for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(part, yaml.MappingNode):
                    merged += pairs(part)
        else:
            own.append((key, value))
    return own + merged
