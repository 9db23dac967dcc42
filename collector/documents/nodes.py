"""YAML text to a tree of nodes that know their line and column.

Takes text, gives the root node of its one document. Never builds Python objects from tags, and bounds what a hostile
file can ask for: nesting, and the size of what its aliases stand for.
"""

from __future__ import annotations

import re

import yaml

from collector.model.errors import Problem, ProblemsError

MAX_CHARACTERS = 8_000_000
MAX_DEPTH = 64
MAX_NODES = 500_000
"""Nodes of a document with every alias written out: what a walk over it will visit."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map"))
_HARMLESS_TAGS = _PLAIN_TAGS | {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"}
NULL = "tag:yaml.org,2002:null"
MERGE = "tag:yaml.org,2002:merge"

_REMEDIES: tuple[tuple[str, str], ...] = (
    # part of the parser's message -> what to do
    ("mapping values are not allowed", "put text that holds `: ` in quotes, or check the indentation"),
    ("cannot start any token", "indent with spaces, not tabs, and put text that starts with @ ` % or a tab in quotes"),
    ("'-' indicator", "check the indentation: items of one list stand in one column, each after `- `"),
    ("block end", "check the indentation: keys of one mapping and items of one list stand in one column"),
    ("block mapping", "check the indentation: keys of one mapping stand in one column"),
    ("could not find expected ':'", "write `key: value`, and indent lines that continue a text"),
    ("unexpected end of stream", "close the quote"),
    ("undefined alias", "define it first, as `&name`"),
    ("escape", "in double quotes write \\\\ for a backslash, or use single quotes"),
    ("',' or '}'", "close the { that was opened, or put text that starts with { in quotes"),
    ("',' or ']'", "close the [ that was opened, or put text that starts with [ in quotes"),
    ("flow node", "close the bracket that was opened, or put the text in quotes"),
    ("nesting depth", f"at most {MAX_DEPTH} levels can be read"),
    ("another document", "keep one document in a file: remove the line `---`"),
)


def parse(file: str, text: str) -> yaml.Node | None:
    """The root node, or None for a document without content.

    Raises ProblemsError where the text is not YAML, or asks for too much.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_CHARACTERS:
        raise ProblemsError([Problem(file, 1, 1, f"the file has over {MAX_CHARACTERS} characters: split it")])
    bad = _FORBIDDEN.search(text)
    if bad:
        line, column = _position(text, bad.start())
        message = f"the character U+{ord(bad.group()):04X} is not allowed in YAML: remove it"
        raise ProblemsError([Problem(file, line, column, message)])
    try:
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        raise ProblemsError([_syntax_problem(file, error)]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ProblemsError([Problem(file, 1, 1, f"not YAML that can be read: {type(error).__name__}")]) from None
    if root is not None:
        _refuse_excess(file, root)
    return root


def mark(node: yaml.Node) -> tuple[int, int]:
    """Line and column of a node, from 1."""
    return node.start_mark.line + 1, node.start_mark.column + 1


def is_null(node: yaml.Node) -> bool:
    """Whether nothing was written: an empty value, `~` or `null`."""
    return isinstance(node, yaml.ScalarNode) and node.tag == NULL


def is_merge(node: yaml.Node) -> bool:
    """Whether a key is `<<`."""
    return isinstance(node, yaml.ScalarNode) and node.tag == MERGE


def has_foreign_tag(node: yaml.Node) -> bool:
    """Whether a node asks for a type that plain data does not have (`!!python/...`, `!!binary`, `!own`)."""
    return node.tag not in _HARMLESS_TAGS


def _position(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _syntax_problem(file: str, error: yaml.MarkedYAMLError) -> Problem:
    where = error.problem_mark or error.context_mark
    line, column = (where.line + 1, where.column + 1) if where else (1, 1)
    said = ", ".join(str(part) for part in (error.context, error.problem) if part)
    remedy = next((remedy for part, remedy in _REMEDIES if part in said), "check the quotes and the indentation")
    return Problem(file, line, column, f"not valid YAML: {said}: {remedy}")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _refuse_excess(file: str, root: yaml.Node) -> None:
    """Measure the tree with its aliases written out, without writing them out and without recursion."""
    size: dict[int, int] = {}
    depth: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack: list[tuple[yaml.Node, bool]] = [(root, False)]
    while stack:
        node, is_measured = stack.pop()
        if is_measured:
            children = _children(node)
            size[id(node)] = 1 + sum(size[id(child)] for child in children)
            depth[id(node)] = 1 + max((depth[id(child)] for child in children), default=0)
            open_nodes.discard(id(node))
        elif id(node) in open_nodes:
            raise ProblemsError([Problem(file, *mark(node), "this anchor holds itself: write the value out")])
        elif id(node) not in size:
            open_nodes.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in _children(node))
    if depth[id(root)] > MAX_DEPTH:
        raise ProblemsError([Problem(file, *mark(root), f"nested more than {MAX_DEPTH} levels deep: flatten it")])
    if size[id(root)] > MAX_NODES:
        message = f"over {MAX_NODES} values with its aliases written out: use fewer aliases, or split the file"
        raise ProblemsError([Problem(file, *mark(root), message)])
