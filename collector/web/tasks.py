"""`/api/tasks` and what belongs to it: trails by filter, a page at a time; what of them nobody has declared."""

from __future__ import annotations

from urllib.parse import quote, unquote

from aiohttp import web

from collector.trail.lifecycle import STATES
from collector.trail.listing import MOST_LISTED, Mark, Wanted
from collector.web import answers
from collector.web.asked import limit, since
from collector.web.view import VIEW

PARAMETERS = frozenset(("state", "task", "queue", "error", "since", "after", "limit"))


async def tasks(request: web.Request) -> web.Response:
    """The trails that the filters let through, latest to begin first; `next` begins the next page, null at the end.

    Where the filters let few of very many through, a page may be short, or empty, and have a `next` all the same.

    `state` (several with commas), `task`, `queue` (globs), `error` (part of the class, or a glob), `since` (a duration
    back, or Unix seconds), `limit`, `after` (the `next` of the page before).
    """
    view = request.app[VIEW]
    try:
        wanted = _wanted(request, view.now())
    except ValueError as error:
        return answers.json({"error": str(error)}, status=400)
    page = await view.with_kept(wanted, await answers.walked(view.listing(wanted)))
    following = None
    if page.after is not None:
        at, home, task_id = page.after
        following = f"{at!r}:{quote(home, safe='')}:{task_id}"
    return answers.json({"tasks": page.tasks, "next": following})


async def coverage(request: web.Request) -> web.Response:
    """Each task name that was seen and what it lacks; and a draft of a tasks file."""
    return answers.json(await answers.walked(request.app[VIEW].coverage()))


def _wanted(request: web.Request, now: float) -> Wanted:
    """The filter. Raises ValueError for what cannot be understood."""
    asked = request.query
    if unknown := sorted(set(asked) - PARAMETERS):
        raise ValueError(f"`{unknown[0]}` is no filter: there are {', '.join(sorted(PARAMETERS))}")
    states = frozenset(filter(None, ",".join(asked.getall("state", [])).split(",")))
    if wrong := sorted(states - set(STATES)):
        raise ValueError(f"`{wrong[0]}` is no state: there are {', '.join(STATES)}")
    return Wanted(
        states=states,
        task=asked.get("task", ""),
        queue=asked.get("queue", ""),
        error=asked.get("error", ""),
        since=since(asked.get("since", ""), now),
        after=_after(asked.get("after", "")),
        limit=limit(asked.get("limit", "100"), MOST_LISTED),
    )


def _after(text: str) -> Mark | None:
    if not text:
        return None
    try:
        at, home, task_id = text.split(":", 2)
        return float(at), unquote(home), task_id
    except ValueError as error:
        raise ValueError("`after` is the `next` of the page before") from error
