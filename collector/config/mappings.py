"""The `mapping:` of a source as people write it, checked and compiled: documents to `formats.mapping`."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from collector.documents import Place
from collector.documents.reader import unknown
from collector.formats.mapping import FIELDS, NUMBERS, OTHERWISE, TIMES, Mapped, Rule, Unit, parse_path
from collector.model.errors import Problem
from collector.model.event import KINDS, TASK_KINDS


class RuleDocument(msgspec.Struct, kw_only=True):
    """One field: a path alone, or where it comes from and how it is read."""

    SHORTHAND: ClassVar[str] = "path"
    place: Place
    path: str | None = None
    header: str | None = None
    value: str | None = None
    values: dict[str, str] = {}
    otherwise: str | None = None
    unit: Unit | None = None
    add: int | None = None


class MappingDocument(msgspec.Struct, kw_only=True):
    """The whole mapping: the event's fields, and labels."""

    place: Place
    kind: RuleDocument | None = None
    task_id: RuleDocument | None = None
    time: RuleDocument | None = None
    task: RuleDocument | None = None
    queue: RuleDocument | None = None
    worker: RuleDocument | None = None
    caller: RuleDocument | None = None
    trace_id: RuleDocument | None = None
    span_id: RuleDocument | None = None
    traceparent: RuleDocument | None = None
    parent_id: RuleDocument | None = None
    root_id: RuleDocument | None = None
    attempt: RuleDocument | None = None
    error: RuleDocument | None = None
    error_message: RuleDocument | None = None
    run_seconds: RuleDocument | None = None
    eta: RuleDocument | None = None
    expires: RuleDocument | None = None
    idempotency_key: RuleDocument | None = None
    labels: dict[str, RuleDocument] = {}

    @property
    def fields(self) -> dict[str, RuleDocument]:
        """The fields of the event that are mapped."""
        return {name: rule for name in FIELDS if (rule := getattr(self, name)) is not None}


def compiled(document: MappingDocument, problems: list[Problem]) -> Mapped | None:
    """The mapping; None where it has problems, which are appended with their places."""
    before = len(problems)
    fields: dict[str, Rule] = {}
    for name, one in document.fields.items():
        rule = _rule(name, one, problems)
        if rule is not None:
            fields[name] = rule
    labels = {name: rule for name, one in document.labels.items() if (rule := _rule("labels", one, problems))}
    problems += _missing(document)
    return Mapped(fields, labels) if len(problems) == before else None


def _missing(document: MappingDocument) -> list[Problem]:
    if "kind" not in document.fields:
        return [document.place.problem("a mapping needs `kind`: where it stands, or `kind: {value: succeeded}`")]
    kind = document.fields["kind"]
    wrong = [word for word in (*kind.values.values(), *([kind.value] if kind.value else [])) if word not in KINDS]
    problems = [kind.place.problem(unknown("kind", word, KINDS)) for word in wrong]
    told = {*kind.values.values(), kind.value}
    if "task_id" not in document.fields and (not told - {None} or told & {*TASK_KINDS}):
        problems.append(document.place.problem("a mapping needs `task_id`: the path of the id that stays the same"))
    return problems


def _rule(name: str, one: RuleDocument, problems: list[Problem]) -> Rule | None:
    """One rule; None where it has problems."""
    before = len(problems)
    wrong = problems.append
    ways = [way for way in ("path", "header", "value") if getattr(one, way) is not None]
    if len(ways) != 1:
        wrong(one.place.problem("a field comes from one of `path`, `header` and `value`: write exactly one of them"))
    if one.otherwise is not None and one.otherwise not in OTHERWISE:
        wrong(one.place.at("otherwise").problem(f"`otherwise` is one of {', '.join(OTHERWISE)}"))
    if one.otherwise is not None and not one.values:
        wrong(one.place.at("otherwise").problem("`otherwise` says what happens beside `values`: there are none"))
    if one.unit is not None and name not in NUMBERS - {"attempt"}:
        wrong(one.place.at("unit").problem(f"only {', '.join(sorted(TIMES))} and run_seconds have a unit"))
    if one.add is not None and name != "attempt":
        wrong(one.place.at("add").problem("only `attempt` is counted on: attempts from 0 need `add: 1`"))
    path = None
    if one.path is not None:
        try:
            path = parse_path(one.path)
        except ValueError as error:
            wrong(one.place.problem(str(error)))
    if len(problems) > before:
        return None
    return Rule(
        path=path,
        header=one.header,
        value=one.value,
        values=one.values,
        otherwise=one.otherwise or ("reject" if name == "kind" else "keep"),
        unit=one.unit or "s",
        add=one.add or 0,
    )
