"""`rules/tasks.yaml`: what each class of tasks promises, read whole. Gives contracts, or every problem at its place."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec

from collector.documents import Duration, Place, Url, read
from collector.model.contract import KEY_FIELDS, KEY_LABELS, UNASSIGNED, Backoff, Contract, Contracts
from collector.model.errors import Problem, ProblemsError

Share = Annotated[float | None, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int | None, msgspec.Meta(ge=1)]
Factor = Annotated[float, msgspec.Meta(ge=1)]


class _BackoffDocument(msgspec.Struct, kw_only=True):
    place: Place
    min: Duration = Duration(0)
    max: Duration | None = None
    factor: Factor = 1.0


class _Terms(msgspec.Struct, kw_only=True):
    """What a contract and the defaults may say."""

    place: Place
    semantics: Literal["must_complete", "best_effort"] | None = None
    deadline: Duration | None = None
    objective: Share = None
    max_attempts: Count = None
    backoff: _BackoffDocument | None = None
    retryable: list[str] | None = None
    not_retryable: list[str] | None = None
    idempotency_key: str | None = None
    owner: str | None = None
    runbook_url: Url | None = None
    keep_success: Share = None
    review_within: Duration | None = None
    time_limit: Duration | None = None
    period: Duration | None = None


class _TaskDocument(_Terms, kw_only=True):
    match: str
    queue: str = "*"


class _FileDocument(msgspec.Struct, kw_only=True):
    place: Place
    defaults: _Terms | None = None
    tasks: list[_TaskDocument] = []


def load(path: str, text: str) -> Contracts:
    """The contracts of a file. Raises ProblemsError with every problem in it.

    Of the terms that a task leaves out those of `defaults` hold. A task that no entry matches is undeclared, whatever
    the defaults say: they are terms of contracts, not a contract.
    """
    document, problems = read(path, text, _FileDocument)
    defaults = document.defaults
    declared = [_contract(task, defaults, problems) for task in document.tasks]
    problems += _unreachable(document.tasks)
    if problems:
        raise ProblemsError(sorted(problems))
    return Contracts(declared)


def _contract(task: _TaskDocument, defaults: _Terms | None, problems: list[Problem]) -> Contract:
    terms = {name: _term(task, defaults, name) for name in _Terms.__struct_fields__ if name != "place"}
    contract = Contract(
        match=task.match,
        queue=task.queue,
        **{name: _value(value) for name, value in terms.items() if value is not None},
    )
    is_silent = terms["semantics"] is None and not any(
        _is_misread(one.place, "semantics", problems) for one in (task, defaults) if one is not None
    )
    problems += [task.place.at(key).problem(message) for key, message in _wrong(contract, is_silent=is_silent)]
    return contract


def _is_misread(place: Place, key: str, problems: list[Problem]) -> bool:
    """Whether what is written there is a problem already."""
    return place.has(key) and any(map(place.at(key).holds, problems))


def _term(task: _TaskDocument, defaults: _Terms | None, name: str) -> object:
    value = getattr(task, name)
    return getattr(defaults, name) if value is None and defaults is not None else value


def _value(value: object) -> Any:
    if isinstance(value, _BackoffDocument):
        return Backoff(min=float(value.min), max=None if value.max is None else float(value.max), factor=value.factor)
    if isinstance(value, list):
        return tuple(value)
    return float(value) if isinstance(value, Duration) else value


def _wrong(contract: Contract, *, is_silent: bool) -> list[tuple[str, str]]:
    """Key and message of what only the whole contract can tell; `is_silent`: of its semantics nothing is written."""
    found = []
    if is_silent:
        found.append(("match", "no `semantics`: write must_complete, or best_effort for what may be dropped"))
    if contract.semantics == "must_complete" and contract.owner == UNASSIGNED:
        found.append(("semantics", "what must be completed needs an `owner` who repairs it"))
    if contract.objective is not None and contract.deadline is None:
        found.append(("objective", "an objective is a share in time: add the `deadline` that it is about"))
    path = contract.idempotency_key
    if path is not None and path not in KEY_FIELDS and path.removeprefix(KEY_LABELS) in ("", path):
        fields = ", ".join(sorted(KEY_FIELDS))
        found.append(("idempotency_key", f"`{path}` is no path into an event: write `labels.NAME`, or one of {fields}"))
    both = sorted({*contract.retryable} & {*contract.not_retryable})
    if both:
        found.append(("not_retryable", f"{', '.join(both)} cannot be both retryable and not: remove one"))
    backoff = contract.backoff
    if backoff is not None and backoff.max is not None and backoff.max < backoff.min:
        found.append(("backoff", f"the longest wait ({backoff.max:g} s) is below the shortest ({backoff.min:g} s)"))
    return found


def _unreachable(tasks: list[_TaskDocument]) -> list[Problem]:
    """Entries that an earlier one leaves nothing for, as far as that is certain: equal, or the earlier takes all."""
    problems = []
    for index, task in enumerate(tasks):
        for earlier in tasks[:index]:
            if _covers(earlier.match, task.match) and _covers(earlier.queue, task.queue):
                line = earlier.place.line
                message = f"never used: `{earlier.match}` on line {line} matches first; put this one before it"
                problems.append(task.place.at("match").problem(message))
                break
    return problems


def _covers(earlier: str, later: str) -> bool:
    """Whether all that the later glob matches is matched by the earlier one, where that is certain."""
    is_plain = not set(later) & set("*?[")
    return earlier in ("*", later) or (is_plain and fnmatchcase(later, earlier)) or _is_longer_prefix(earlier, later)


def _is_longer_prefix(earlier: str, later: str) -> bool:
    """`shop.*` takes all that `shop.pay.*` could."""
    prefix = earlier.removesuffix("*")
    return earlier.endswith("*") and not set(prefix) & set("*?[") and later.startswith(prefix)
