"""Rule files: Prometheus' format, read whole. Gives compiled groups, or every problem in the file at its place."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from collector.alerting.expression import Compiler, Expression
from collector.alerting.template import compile_template
from collector.documents import Duration, Place, read
from collector.gotext import Template, TemplateError
from collector.model.errors import Problem, ProblemsError, TasktrailError
from collector.model.labels import Labels

_Templates: TypeAlias = dict[str, Template]


class _RuleDocument(msgspec.Struct, kw_only=True, rename={"hold": "for"}):
    place: Place
    alert: str = ""
    record: str = ""
    expr: str = ""
    hold: Duration = Duration(0)
    keep_firing_for: Duration = Duration(0)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _GroupDocument(msgspec.Struct, kw_only=True):
    place: Place
    name: str = ""
    interval: Duration | None = None
    query_offset: Duration = Duration(0)
    limit: Annotated[int, msgspec.Meta(ge=0)] = 0
    labels: dict[str, str] = {}
    rules: list[_RuleDocument] = []


class _FileDocument(msgspec.Struct):
    groups: list[_GroupDocument] = []


class RuleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One rule as written, compiled."""

    kind: Literal["alert", "record"]
    name: str
    """The alert's name, or the metric that is recorded."""
    expr: Expression
    hold: float = 0.0
    """`for`, in seconds."""
    keep_firing_for: float = 0.0
    written_labels: Labels = ()
    """As written, with those of the group; an empty one takes the label away from what is recorded."""
    labels: tuple[tuple[str, Template], ...] = ()
    """The same as templates; of a recording rule none, as its labels are taken word for word."""
    annotations: tuple[tuple[str, Template], ...] = ()
    place: Place
    """Of the rule in its file; `place.at("expr")` and so on for its parts."""


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One group as written, compiled."""

    file: str
    name: str
    interval: float | None
    """Seconds between slots; None: the default of whoever evaluates."""
    query_offset: float
    limit: int
    """The most alerts or series that a rule of the group may give; 0: no limit."""
    rules: tuple[RuleSpec, ...]


class RuleFile(msgspec.Struct, frozen=True):
    """A rule file, or what of it is right."""

    path: str
    groups: tuple[GroupSpec, ...]
    half_known: frozenset[str] = frozenset()
    """The metrics that rules with problems record: they are there, and nobody can say how they look."""


def load(path: str, text: str, compile_expr: Compiler) -> RuleFile:
    """The groups of a rule file. Raises ProblemsError with every problem in it."""
    file, problems = load_parts(path, text, compile_expr)
    if problems:
        raise ProblemsError(problems)
    return file


def load_parts(path: str, text: str, compile_expr: Compiler) -> tuple[RuleFile, list[Problem]]:
    """Every problem of a rule file, and its groups with the rules that have none: to look at, not to be used."""
    document, problems = read(path, text, _FileDocument)
    reader = _Reader(path, compile_expr, problems)
    groups = [reader.group(group) for group in document.groups]
    reader.refuse_repeated_names(document.groups)
    recording = [rule for group in document.groups for rule in group.rules if rule.record]
    half_known = frozenset(rule.record for rule in recording if _is_wrong(rule.place, problems))
    return RuleFile(path, tuple(_right(group, problems) for group in groups), half_known), problems


def _right(group: GroupSpec, problems: list[Problem]) -> GroupSpec:
    right = tuple(rule for rule in group.rules if not _is_wrong(rule.place, problems))
    return msgspec.structs.replace(group, rules=right)


def _is_wrong(place: Place, problems: list[Problem]) -> bool:
    return any(map(place.holds, problems))


class _Reader:
    """What the format's types cannot say: names, expressions, templates, and which keys go together."""

    def __init__(self, path: str, compile_expr: Compiler, problems: list[Problem]) -> None:
        self.path = path
        self.compile_expr = compile_expr
        self.problems = problems

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(place.problem(message))

    def group(self, document: _GroupDocument) -> GroupSpec:
        if not document.name and not document.place.has("name"):
            self.wrong(document.place, "the group has no name: add `name: ...`")
        self.check_label_names(document.place.at("labels"), document.labels)
        shared = self.templates(document.place, "labels", document.labels)
        rules = [self.rule(rule, document.labels, shared) for rule in document.rules]
        return GroupSpec(
            file=self.path,
            name=document.name,
            interval=document.interval or None,
            query_offset=document.query_offset,
            limit=document.limit,
            rules=tuple(rule for rule in rules if rule is not None),
        )

    def refuse_repeated_names(self, groups: list[_GroupDocument]) -> None:
        first: dict[str, int] = {}
        for group in groups:
            if group.name in first:
                message = f"the group name `{group.name}` is used twice, first on line {first[group.name]}: rename one"
                self.wrong(group.place.at("name"), message)
            elif group.name:
                first[group.name] = group.place.at("name").line

    def rule(self, document: _RuleDocument, group_labels: dict[str, str], shared: _Templates) -> RuleSpec | None:
        """The rule, or None where its problems leave nothing to evaluate."""
        place = document.place
        has_alert, has_record = place.has("alert"), place.has("record")
        if has_alert and has_record:
            self.wrong(place.key("record"), "a rule is either `alert` or `record`: make two rules of it")
        elif not has_alert and not has_record:
            self.wrong(place, "the rule is neither an alert nor a recording rule: add `alert: Name` or `record: name`")
        self.check_label_names(place.at("labels"), document.labels)
        expr = self.expression(document)
        # of a rule that says both, what follows is checked as an alert
        is_alert = has_alert or not has_record
        labels: _Templates = {}
        annotations: _Templates = {}
        if is_alert:
            labels = {**shared, **self.templates(place, "labels", document.labels)}
            annotations = self.templates(place, "annotations", document.annotations)
        else:
            self.check_recording(document)
        if expr is None:
            return None
        return RuleSpec(
            kind="alert" if is_alert else "record",
            name=document.alert if is_alert else document.record,
            expr=expr,
            hold=document.hold,
            keep_firing_for=document.keep_firing_for,
            written_labels=tuple(sorted({**group_labels, **document.labels}.items())),
            labels=tuple(labels.items()),
            annotations=tuple(annotations.items()),
            place=place,
        )

    def expression(self, document: _RuleDocument) -> Expression | None:
        place = document.place
        if not document.expr.strip():
            if not place.has("expr"):
                self.wrong(place, "the rule has no expression: add `expr: ...`")
            return None
        start = place.at("expr").content()
        try:
            expr = self.compile_expr(document.expr)
        except TasktrailError as error:
            self.wrong(start, f"the expression cannot be used: {_one_line(error)}")
            return None
        if expr.type in ("matrix", "string"):
            article = "a range vector" if expr.type == "matrix" else "text"
            self.wrong(start, f"the expression gives {article}: a rule needs an instant vector or a scalar")
            return None
        return expr

    def check_recording(self, document: _RuleDocument) -> None:
        for key in ("for", "keep_firing_for", "annotations"):
            if document.place.has(key):
                self.wrong(document.place.key(key), f"a recording rule has no `{key}`: remove it")
        if {"{", "}"} & set(document.record):
            message = f"`{document.record}` is no metric name: put matchers into `expr`, labels into `labels`"
            self.wrong(document.place.at("record"), message)

    def check_label_names(self, place: Place, labels: dict[str, str]) -> None:
        for name in labels:
            if name == "__name__":
                self.wrong(place.key(name), "the label `__name__` cannot be set: the metric's name is `record`")
            elif not name:
                self.wrong(place.key(name), "a label has an empty name: give it one, or remove it")

    def templates(self, place: Place, key: str, texts: dict[str, str]) -> _Templates:
        compiled: _Templates = {}
        for name, text in texts.items():
            try:
                compiled[name] = compile_template(text)
            except TemplateError as error:
                self.wrong(place.at(key, name), f"the template of {key[:-1]} `{name}` does not parse: {error}")
        return compiled


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
