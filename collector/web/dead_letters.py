"""`/api/dead-letters`: the ledger by filter, a page at a time; one with its history; causes; verdicts; export."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web

from collector.deadletter.ledger import Ledger
from collector.deadletter.listing import MOST_LISTED, STEP, Wanted, causes, pages
from collector.deadletter.record import STATES, VERDICTS, DeadLetter, Entry, Verdict, checked, state_of
from collector.web import answers, v2
from collector.web.asked import limit, since
from collector.web.view import VIEW

FILTERS = ("state", "task", "queue", "source", "owner", "error", "fingerprint", "task_id", "since")
PARAMETERS = frozenset((*FILTERS, "after", "limit", "by", "format"))
MOST_JUDGED = 10_000
"""Records of one verdict."""
COLUMNS: tuple[str, ...] = (
    "id", "state", "task", "queue", "source", "owner", "task_id", "at", "error", "message", "attempts",
    "first_failed_at", "last_failed_at", "sent_at", "worker", "trace_id", "fingerprint", "place", "receipt", "origin",
    "size", "preview", "expires_at", "expires_by", "review_by", "is_virtual", "state_at", "actor", "reason", "ticket",
)  # fmt: skip
"""Of an export as CSV."""
_encode = msgspec.json.encode


def listed(one: DeadLetter) -> dict[str, Any]:
    """A record as plain data, what its place tells beside the rest; times in Unix seconds."""
    whole = msgspec.to_builtins(one)
    found = whole.pop("found")
    del found["error"], found["message"], whole["home"], whole["when"]
    return {**whole, **found}


def lined(one: DeadLetter, history: Sequence[Entry]) -> bytes:
    """A line of an export: the record with its history."""
    return _encode({**listed(one), "history": history}) + b"\n"


def row(one: DeadLetter) -> bytes:
    """A row of an export as CSV. A cell that a spreadsheet would compute begins with an apostrophe."""
    said = listed(one)
    said["origin"] = _encode(said["origin"]).decode() if said["origin"] else ""
    out = io.StringIO()
    csv.writer(out).writerow([_cell(said[name]) for name in COLUMNS])
    return out.getvalue().encode()


def heading() -> bytes:
    """The first row of an export as CSV."""
    return (",".join(COLUMNS) + "\r\n").encode()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value[:1] in "=+-@\t\r" and value else value
    return "" if value is None else value


async def dead_letters(request: web.Request) -> web.StreamResponse:
    """The records that the filters let through, newest first; `next` begins the next page, null at the end.

    `by=fingerprint` counts their causes instead.
    """
    view = request.app[VIEW]
    wanted = _wanted(request.query, view.now())
    ledger = view.ledger
    if request.query.get("by", "") == "fingerprint":
        return answers.json({"causes": await answers.walked(causes(ledger, wanted))})
    if "by" in request.query:
        raise v2.Refused({"error": "`by` is `fingerprint`, or not there"})
    page = await answers.walked(pages(ledger, wanted))
    following = None if page.after is None else ":".join((repr(page.after[0]), page.after[1]))
    return answers.json({"dead_letters": [listed(one) for one in page.records], "next": following})


async def dead_letter(request: web.Request) -> web.StreamResponse:
    """One with all that ever happened to it."""
    ledger, name = request.app[VIEW].ledger, request.match_info["id"]
    one = ledger.records.get(name)
    if one is None:
        return answers.not_found(f"no dead letter {name!r} is remembered")
    return answers.json({**listed(one), "history": ledger.history.get(name, [])})


async def export(request: web.Request) -> web.StreamResponse:
    """All that the filters let through, oldest first, one line each: `format=ndjson` with histories, or `csv`."""
    view = request.app[VIEW]
    wanted, form = _wanted(request.query, view.now()), request.query.get("format", "ndjson")
    ledger = view.ledger
    kinds: dict[str, tuple[str, bytes, Callable[[DeadLetter], bytes]]] = {
        "ndjson": ("application/x-ndjson", b"", lambda one: lined(one, ledger.history.get(one.id, []))),
        "csv": ("text/csv", heading(), row),
    }
    if form not in kinds:
        raise v2.Refused({"error": f"`{form}` is no format: there are ndjson and csv"})
    content_type, first, write = kinds[form]
    response = web.StreamResponse(headers={"Content-Type": f"{content_type}; charset=utf-8"})
    await response.prepare(request)
    piece = [first]
    for number, name in enumerate(list(ledger.records), 1):
        one = ledger.records.get(name)
        if one is not None and wanted.takes(one):
            piece.append(write(one))
        if number % STEP == 0:
            await response.write(b"".join(piece))
            piece.clear()
            await asyncio.sleep(0)
    await response.write(b"".join(piece))
    await response.write_eof()
    return response


class _Judged(msgspec.Struct, forbid_unknown_fields=True):
    """What is posted. `ids` or a filter of the open ones; `state` only to resolve."""

    actor: str = ""
    reason: str = ""
    ticket: str = ""
    state: str = ""
    ids: list[str] = []
    filter: dict[str, str] = {}
    dry_run: bool = False


async def ack(request: web.Request) -> web.StreamResponse:
    """Somebody looks at these: the clock of the review stops, and they stay open."""
    given = await v2.body(request, _Judged)
    if given.state:
        raise v2.Refused({"error": "`state` belongs to resolve"})
    return await _judge(request, given, "acknowledged")


async def resolve(request: web.Request) -> web.StreamResponse:
    """Somebody says what becomes of these: they are open no longer."""
    given = await v2.body(request, _Judged)
    if given.state not in VERDICTS:
        raise v2.Refused({"error": f"`state` says what becomes of them: it is one of {', '.join(VERDICTS)}"})
    return await _judge(request, given, given.state)


async def _judge(request: web.Request, given: _Judged, state: str) -> web.StreamResponse:
    """Take a verdict down, and answer once it is on the disk. 404 where there is none such, 409 where one cannot.

    `corrected`: what those had ended as before that had a verdict already.
    """
    view = request.app[VIEW]
    try:
        verdict = checked(Verdict(state=state_of(state), actor=given.actor, reason=given.reason, ticket=given.ticket))
    except ValueError as error:
        raise v2.Refused({"error": str(error)}) from error
    names = await _names(view.ledger, given, state, view.now())
    before = {one.id: one.state for one in map(view.ledger.records.__getitem__, names) if one.is_ended}
    if given.dry_run:
        return answers.json({"dead_letters": names, "is_kept": False, "corrected": before})
    judged: list[DeadLetter] = []
    for number, name in enumerate(names, 1):
        try:
            judged.append(view.judge(name, verdict))
        except (ValueError, KeyError) as error:  # it changed meanwhile; what was judged before it stays
            if len(names) == 1:
                raise v2.Refused({"error": str(error)}, 409) from error
        if number % STEP == 0:
            await asyncio.sleep(0)
    view.woken()
    unkept = await view.unkept()
    corrected = {one.id: before[one.id] for one in judged if one.id in before}
    said = {"is_kept": not unkept, "unkept": unkept, "corrected": corrected}
    return answers.json({"dead_letters": [listed(one) for one in judged], **said})


async def _names(ledger: Ledger, given: _Judged, state: str, now: float) -> list[str]:
    """The ids that are meant, each once. Raises Refused."""
    names = dict.fromkeys(given.ids)
    if given.filter:
        names |= dict.fromkeys(await _matching(ledger, _wanted(given.filter, now), state))
    elif not names:
        raise v2.Refused({"error": "which? name ids or a filter"})
    if len(names) > MOST_JUDGED:
        raise v2.Refused({"error": f"{len(names)} at once, at most {MOST_JUDGED}: narrow the filter"})
    missing = [name for name in names if name not in ledger.records]
    if missing:
        raise v2.Refused({"error": f"no dead letter {missing[0]!r} is remembered"}, 404)
    return list(names)


async def _matching(ledger: Ledger, wanted: Wanted, state: str) -> list[str]:
    """The ids of what a filter lets through and is not so already; what has ended is left out, unless it is named."""
    found: list[str] = []
    for number, one in enumerate(list(ledger.records.values()), 1):
        if wanted.takes(one) and one.state != state and (wanted.states or not one.is_ended):
            found.append(one.id)
        if number % STEP == 0:
            await asyncio.sleep(0)
    return found


def _wanted(asked: Any, now: float) -> Wanted:
    """The filter of a query or of a posted object. Raises Refused."""
    if unknown := sorted(set(asked) - PARAMETERS):
        raise v2.Refused({"error": f"`{unknown[0]}` is no filter: there are {', '.join(FILTERS)}"})
    try:
        states = frozenset(filter(None, asked.get("state", "").split(",")))
        if wrong := sorted(states - {*STATES, "unresolved"}):
            state_of(wrong[0])
        if "unresolved" in states:
            states = states - {"unresolved"} | {"open", "acknowledged", "expired"}
        return Wanted(
            states=states,
            since=since(asked.get("since", ""), now),
            after=_after(asked.get("after", "")),
            limit=limit(asked.get("limit", "100"), MOST_LISTED),
            **{name: asked.get(name, "") for name in FILTERS if name not in ("state", "since")},
        )
    except ValueError as error:
        raise v2.Refused({"error": str(error)}) from error


def _after(text: str) -> tuple[float, str] | None:
    if not text:
        return None
    at, colon, name = text.partition(":")
    if not colon:
        msg = "`after` is the `next` of the page before"
        raise ValueError(msg)
    return float(at), name
