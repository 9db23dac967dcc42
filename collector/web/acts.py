"""`/act/{link}`: the pages behind the signed links of messages. GET shows a form and does nothing; POST does it.

The signature is what allows it, so that a phone needs no token; link previews of chats only ever GET. No scripts.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from aiohttp import web

from collector.model.alert import Alert
from collector.model.labels import Labels, Matcher
from collector.model.shown import counted
from collector.routing.group import Group
from collector.routing.keeping import Silence
from collector.routing.links import Action, Link
from collector.routing.matchers import matcher, written
from collector.routing.message import common
from collector.web.view import VIEW

PREFIX = "/act/"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
DURATIONS: dict[str, float] = {"1h": 3600.0, "4h": 4 * 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0}
MOST_SHOWN = 50
LONGEST_NAME, LONGEST_REASON = 100, 1_000
_VERBS: dict[Action, str] = {"ack": "Acknowledge", "silence": "Silence"}


async def show(request: web.Request) -> web.Response:
    """The form."""
    link, group = _allowed(request)
    alerts = _firing(group)
    if group is None or not alerts:
        return _page("Nothing fires here any longer", "<p>What this message was about has ended.</p>", 200)
    options = "".join(
        f"<option value='{name}'{' selected' * (name == ('24h' if link.action == 'ack' else '4h'))}>{name}</option>"
        for name in DURATIONS
    )
    required = " required" * (link.action == "silence")
    fields = (
        f"<p><label>Your name <input name=author required maxlength={LONGEST_NAME} autocomplete=username></label></p>"
        f"<p><label>Why <input name=reason maxlength={LONGEST_REASON}{required}></label></p>"
        f"<p><label>For at most <select name=lasts>{options}</select></label></p>"
        + "".join(f"<input type=hidden name=alert value='{alert.fingerprint}'>" for alert in alerts)
    )
    verb = _VERBS[link.action]
    what = "" if link.action == "ack" else f"<p>Quiet will be <code>{html.escape(written(_matchers(group)))}</code></p>"
    form = f"<form method=post>{what}{fields}<button>{verb}</button></form>"
    return _page(f"{verb} {counted(len(alerts), 'alert')}", _list(alerts) + form, 200)


async def act(request: web.Request) -> web.Response:
    """Do it. Acks only what the form showed, and what still fires of it."""
    link, group = _allowed(request)
    view = request.app[VIEW]
    now = view.now()
    form = await request.post()
    author = str(form.get("author", "")).strip()[:LONGEST_NAME]
    reason = str(form.get("reason", "")).strip()[:LONGEST_REASON]
    seconds = DURATIONS.get(str(form.get("lasts", "")))
    if not author or seconds is None:
        return _page("Not done", "<p>Go back, and say who you are and for how long.</p>", 400)
    if group is None or not _firing(group):
        return _page("Nothing fires here any longer", "<p>What this message was about has ended.</p>", 200)
    try:
        if link.action == "ack":
            shown = {str(one) for one in form.getall("alert", [])} & {one.fingerprint for one in _firing(group)}
            made = view.desk.ack(sorted(shown), author, reason, now, seconds)
            done = f"{len(made)} acknowledged by {author}"
        else:
            wanted = Silence(
                id="",
                matchers=_matchers(group),
                starts_at=now,
                ends_at=now + seconds,
                created_by=author,
                comment=reason or "by the link in a message",
            )
            done = f"Silenced by {author}, silence {view.desk.silence(wanted, now).id}"
    except ValueError as error:
        return _page("Not done", f"<p>{html.escape(str(error))}</p>", 409)
    view.woken()
    unkept = await view.unkept()
    return _page(done, f"<p>{html.escape(f'But {unkept}' if unkept else 'You can close this page')}.</p>", 200)


def _allowed(request: web.Request) -> tuple[Link, Group | None]:
    """Raises HTTPForbidden for a link that allows nothing."""
    view = request.app[VIEW]
    try:
        return view.desk.allowed(request.match_info["link"], view.now())
    except ValueError as error:
        raise web.HTTPForbidden(text=f"refused: {error}\n", headers=HEADERS) from error


def _firing(group: Group | None) -> list[Alert]:
    return [] if group is None else [alert for alert in group.alerts.values() if alert.state == "firing"]


def _matchers(group: Group) -> tuple[Matcher, ...]:
    """What a silence of the group is about: the labels that make it, else those that all its alerts share."""
    labels: Labels = group.labels or common(alert.labels for alert in _firing(group))
    return tuple(matcher(name, "=", value) for name, value in labels)


def _list(alerts: Iterable[Alert]) -> str:
    lines = [
        f"<li>{html.escape(', '.join(f'{name}={value}' for name, value in alert.labels))}"
        f"<br>{html.escape(dict(alert.annotations).get('summary', ''))}</li>"
        for alert in alerts
    ]
    more = f"<p>and {len(lines) - MOST_SHOWN} more</p>" if len(lines) > MOST_SHOWN else ""
    return f"<ul>{''.join(lines[:MOST_SHOWN])}</ul>{more}"


def _page(title: str, body: str, status: int) -> web.Response:
    name = html.escape(title)
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{name}</title><style>body{{font:16px sans-serif;max-width:40em;margin:2em auto;padding:0 1em}}</style>"
        f"<h1>{name}</h1>{body}</html>"
    )
    return web.Response(text=page, content_type="text/html", status=status, headers=HEADERS)
