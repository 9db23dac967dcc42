"""Templates that stand in files of their own, by name: what a text may include, and what nobody defines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from collector.gotext.builtins import BUILTINS, Function
from collector.gotext.parser import parse
from collector.gotext.tree import Include, Node, Text, walk

Library: TypeAlias = Mapping[str, tuple[str, tuple[Node, ...]]]
"""Templates by name, each as the text in which it stands, and its nodes."""


def merged(library: Library, text: str, defined: Mapping[str, tuple[Node, ...]]) -> Library:
    """With what a text defines. As in Go, a body of nothing but space takes the place of no other."""
    added = {name: nodes for name, nodes in defined.items() if name not in library or not _is_empty(nodes)}
    return {**library, **{name: (text, nodes) for name, nodes in added.items()}}


def library_of(text: str, functions: Mapping[str, Function], library: Library, name: str = "") -> Library:
    """The library with the templates of a text; under `name` the text itself. Raises TemplateError."""
    parsed = parse(text, {**BUILTINS, **functions}, ())
    return merged(library, text, {**({name: parsed.nodes} if name else {}), **parsed.defined})


def undefined(nodes: tuple[Node, ...], library: Library) -> list[str]:
    """Names of templates that these nodes include, themselves or through others, and that nobody defines."""
    known: set[str] = set()
    missing: list[str] = []
    waiting = [nodes]
    while waiting:
        for node in walk(waiting.pop()):
            if not isinstance(node, Include) or node.name in known:
                continue
            known.add(node.name)
            if node.name in library:
                waiting.append(library[node.name][1])
            else:
                missing.append(node.name)
    return missing


def _is_empty(nodes: tuple[Node, ...]) -> bool:
    return all(isinstance(node, Text) and not node.text.strip() for node in nodes)
