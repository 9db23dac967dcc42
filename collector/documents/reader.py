"""One walker from YAML nodes to typed values, for every file that people write.

Takes a msgspec Struct class and text; gives the struct and every problem found on the way, each at its place. Keys
that the struct does not have, keys given twice, and values of another type are problems; nothing is skipped quietly.
A field that was read badly keeps its default, so that what can be checked besides still is.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from collector.documents.nodes import has_foreign_tag, is_merge, is_null, mark, parse
from collector.documents.place import Place
from collector.documents.scalars import READERS, WHOLE_NUMBER
from collector.documents.substitute import secret, substitute
from collector.model.errors import Problem, ProblemsError
from collector.model.secret import Secret, mask

T = TypeVar("T")
_Pairs: TypeAlias = dict[str, tuple[yaml.Node, yaml.Node]]

_SHOWN_CHARACTERS = 60
_TRUE = frozenset(("true", "yes", "on"))
_FALSE = frozenset(("false", "no", "off"))


class _Invalid:
    """What a bad value reads as: its problem is on the list already."""


INVALID: Final = _Invalid()


class Rest(dict[str, str]):
    """A struct field of this type takes the keys that are no fields, as text; a list of texts is joined by commas."""


class Plain:
    """A struct field of this type takes anything, as texts, lists and mappings: what is known and not looked into."""

    __slots__ = ("value",)

    def __init__(self, node: yaml.Node) -> None:
        self.value = _plain(node)


def read(
    file: str,
    text: str,
    kind: type[T],
    *,
    environ: Mapping[str, str] | None = None,
    read_file: Callable[[str], str] | None = None,
) -> tuple[T, list[Problem]]:
    """The struct `kind` of a file's text, and every problem in it; an empty file is a struct of defaults.

    With `environ`, `${NAME}` is replaced; with `read_file`, `file:/path` is read for secrets. Raises ProblemsError
    where nothing can be built at all: not YAML, not a mapping, a required key missing at the top.
    """
    root = parse(file, text)
    if root is None:
        root = yaml.MappingNode("tag:yaml.org,2002:map", [], yaml.Mark("", 0, 0, 0, None, 0))
    walk = _Walk(file, text, environ, read_file)
    value = walk.value(root, kind)
    if isinstance(value, _Invalid):
        raise ProblemsError(walk.problems)
    return value, walk.problems


class _Field(msgspec.Struct, frozen=True):
    name: str
    key: str
    kind: Any
    is_required: bool


@lru_cache(maxsize=256)
def _fields(struct: type) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            field.name,
            field.encode_name,
            field.type,
            field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT,
        )
        for field in msgspec.structs.fields(struct)
    )


class _Walk:
    """One pass over one document; `problems` grows on the way."""

    def __init__(
        self,
        file: str,
        text: str,
        environ: Mapping[str, str] | None,
        read_file: Callable[[str], str] | None,
    ) -> None:
        self.file = file
        self.text = text
        self.environ = environ
        self.read_file = read_file
        self.problems: list[Problem] = []

    def wrong(self, node: yaml.Node, message: str) -> _Invalid:
        self.problems.append(Problem(self.file, *mark(node), message))
        return INVALID

    def value(self, node: yaml.Node, kind: Any) -> Any:
        """The node as `kind`, or INVALID."""
        kind, bounds = _without_bounds(kind)
        kind, is_optional = _without_none(kind, node)
        if has_foreign_tag(node):
            return self.wrong(node, f"the tag `{node.tag}` is not allowed: write plain YAML")
        if is_null(node):
            if is_optional:
                return None
            return "" if kind is str else self.wrong(node, f"expected {_expected(kind)}, got nothing: write a value")
        form = _form(kind)
        if form == "scalar":
            return self._scalar(node, kind, bounds)
        if form == "sequence":
            return self._list(node, kind)
        return self._dict(node, kind) if get_origin(kind) is dict else self._struct(node, kind)

    def pairs(self, node: yaml.MappingNode) -> _Pairs:
        """Key and value nodes by name, merge keys resolved: own keys win over merged ones."""
        own: _Pairs = {}
        merged: _Pairs = {}
        for key, value in node.value:
            if is_merge(key):
                for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if isinstance(part, yaml.MappingNode):
                        merged = {**self.pairs(part), **merged}
                    else:
                        self.wrong(part, "`<<` takes a mapping or a list of mappings: write `<<: *name`")
            elif not isinstance(key, yaml.ScalarNode) or has_foreign_tag(key):
                self.wrong(key, "a key has to be plain text: check for a stray `?`, `[` or `{`")
            elif key.value in own:
                first = mark(own[key.value][0])[0]
                self.wrong(key, f"the key `{_shown(key.value)}` is given twice, first on line {first}: keep one")
            else:
                own[key.value] = (key, value)
        return {**merged, **own}

    def _struct(self, node: yaml.Node, struct: type) -> Any:
        if not isinstance(node, yaml.MappingNode):
            shorthand = getattr(struct, "SHORTHAND", None)
            if shorthand is None or not isinstance(node, yaml.ScalarNode):
                return self.wrong(node, f"expected {_expected(struct)}, got {_got(node)}")
            pairs: _Pairs = {shorthand: (node, node)}
        else:
            pairs = self.pairs(node)
        values: dict[str, Any] = {}
        known = {field.key: field for field in _fields(struct) if field.kind not in (Place, Rest)}
        others = self._others(struct, pairs.keys() - known.keys(), pairs, known)
        for field in _fields(struct):
            if field.kind is Place:
                values[field.name] = Place.of(self.file, node, self.text)
            elif field.kind is Rest:
                values[field.name] = others
            elif field.key in pairs and not (is_null(pairs[field.key][1]) and not field.is_required):
                values[field.name] = self.value(pairs[field.key][1], field.kind)
            elif field.is_required:
                values[field.name] = self.wrong(node, f"the key `{field.key}` is missing: add `{field.key}: ...`")
        bad = {field.name for field in _fields(struct) if values.get(field.name) is INVALID}
        if any(field.is_required and field.name in bad for field in _fields(struct)):
            return INVALID
        return struct(**{name: value for name, value in values.items() if name not in bad})

    def _others(
        self,
        struct: type,
        names: set[str],
        pairs: _Pairs,
        known: Mapping[str, _Field],
    ) -> Rest:
        """The keys that are no fields: gathered where the struct has a place for them, else problems."""
        others = Rest()
        takes_others = any(field.kind is Rest for field in _fields(struct))
        for name in names:
            key, value = pairs[name]
            if not takes_others:
                self.wrong(key, unknown("key", name, known))
                continue
            parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
            texts = [self.value(part, str) for part in parts]
            if INVALID not in texts:
                others[name] = ",".join(texts)
        return others

    def _list(self, node: yaml.Node, kind: Any) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            return self.wrong(node, f"expected {_expected(kind)}, got {_got(node)}")
        item_kind = get_args(kind)[0]
        items = [self.value(item, item_kind) for item in node.value]
        return get_origin(kind)(item for item in items if item is not INVALID)

    def _dict(self, node: yaml.Node, kind: Any) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return self.wrong(node, f"expected {_expected(kind)}, got {_got(node)}")
        value_kind = get_args(kind)[1]
        values = {name: self.value(value, value_kind) for name, (_, value) in self.pairs(node).items()}
        return {name: value for name, value in values.items() if value is not INVALID}

    def _scalar(self, node: yaml.Node, kind: Any, bounds: msgspec.Meta | None) -> Any:
        if kind is Plain:
            return Plain(node)
        if not isinstance(node, yaml.ScalarNode):
            return self.wrong(node, f"expected {_expected(kind)}, got {_got(node)}")
        raw = node.value
        try:
            text = raw if self.environ is None else substitute(raw, self.environ)
        except ValueError as error:
            return self.wrong(node, str(error))
        try:
            if kind is Secret:
                return secret(text, self.read_file) if self.read_file else Secret(text)
            is_plain = not node.style or text != raw
            return _bounded(_read_scalar(text, kind, is_plain=is_plain), bounds)
        except ValueError as error:
            # what came from the environment may be a secret in the wrong place
            message = str(error) if text == raw else str(error).replace(text, raw)
            return self.wrong(node, mask(message))


def unknown(what: str, name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    """The message about a name that is not one of `known`, with the one that was probably meant."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    if close:
        return f"unknown {what} `{_shown(name)}`: did you mean `{close[0]}`?"
    return f"unknown {what} `{_shown(name)}`: remove it, or use one of {', '.join(sorted(known))}"


def _read_scalar(text: str, kind: Any, *, is_plain: bool) -> Any:
    if kind is str:
        return text
    if kind in READERS:
        return READERS[kind][0](text)
    if get_origin(kind) is Literal:
        return _choice(text, get_args(kind))
    if kind is bool and is_plain and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if kind is int and is_plain and WHOLE_NUMBER.fullmatch(text) and len(text) < _SHOWN_CHARACTERS:
        return int(text)
    if kind is float and is_plain:
        try:
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            pass
    hint = ": remove the quotes" if not is_plain and kind in (bool, int, float) else ""
    raise ValueError(f"expected {_expected(kind)}, got `{_shown(text)}`{hint}")


def _choice(text: str, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if text == str(choice):
            return choice
    close = get_close_matches(text, [str(choice) for choice in choices], n=1)
    meant = f": did you mean `{close[0]}`?" if close else ""
    raise ValueError(f"expected {_expected(Literal[choices])}, got `{_shown(text)}`{meant}")


def _bounded(value: Any, bounds: msgspec.Meta | None) -> Any:
    if bounds is None:
        return value
    if bounds.ge is not None and not value >= bounds.ge:
        raise ValueError(f"{value:g} is too small: at least {bounds.ge:g}")
    if bounds.gt is not None and not value > bounds.gt:
        raise ValueError(f"{value:g} is too small: more than {bounds.gt:g}")
    if bounds.le is not None and not value <= bounds.le:
        raise ValueError(f"{value:g} is too large: at most {bounds.le:g}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number is needed")
    return value


def _without_bounds(kind: Any) -> tuple[Any, msgspec.Meta | None]:
    if get_origin(kind) is not Annotated:
        return kind, None
    inner, *extra = get_args(kind)
    return inner, next((meta for meta in extra if isinstance(meta, msgspec.Meta)), None)


def _without_none(kind: Any, node: yaml.Node) -> tuple[Any, bool]:
    """Of a union, the member that the node's form fits, and whether nothing is allowed, too."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind, False
    forms: dict[type[yaml.Node], str] = {yaml.MappingNode: "mapping", yaml.SequenceNode: "sequence"}
    written = forms.get(type(node), "scalar")
    members = [member for member in get_args(kind) if member is not types.NoneType]
    fitting = (member for member in members if _form(member) == written)
    return next(fitting, members[0]), len(members) < len(get_args(kind))


def _form(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if origin in (list, tuple):
        return "sequence"
    is_struct = isinstance(origin, type) and issubclass(origin, msgspec.Struct)
    return "mapping" if origin is dict or is_struct else "scalar"


_WORDS: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Secret: "text",
    dict: "a mapping (lines of `key: value`)",
    list: "a list (each item on its own line after `- `)",
    tuple: "a list (each item on its own line after `- `)",
}


def _plain(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return None if is_null(node) else node.value


def _expected(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if kind in READERS:
        return READERS[kind][1]
    return _WORDS.get(origin, _WORDS[dict])


def _got(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return f"`{_shown(mask(node.value))}`"


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
