"""Who may ask what: one table of doors, one middleware that reads it.

Without a token, writes are taken only over loopback and without a foreign Origin. With one, writes and all reads off
loopback need it as a bearer token; health never does, /metrics not where it was made public. An address that guesses
at it is not listened to for a while.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from collector.model.secret import Secret
from collector.web.attempts import WITHIN, Attempts

HEALTH = frozenset({"/-/healthy", "/-/ready", "/healthz", "/readyz"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_loopback(address: str | None) -> bool:
    """Whether an address is this machine; a unix socket (no address) is."""
    if not address:
        return True
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address == "localhost"
    mapped = known.ipv4_mapped if isinstance(known, ipaddress.IPv6Address) else None
    return (mapped or known).is_loopback


def is_foreign(origin: str | None, host: str, *, is_open: bool) -> bool:
    """Whether a browser sent this from a page that is not ours.

    Ours has the host that was asked; where only this machine may ask (not `is_open`) it has a name of this machine too,
    else a name that somebody points at 127.0.0.1 would do.
    """
    if origin is None:
        return False
    try:
        page = urlsplit(origin)
        return page.netloc != host or not (is_open or is_loopback(page.hostname))
    except ValueError:
        return True


def has_token(request: web.Request, token: Secret) -> bool:
    """Whether the request carries the bearer token; compared in constant time."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    sent = given.strip().encode(errors="surrogateescape")  # whatever bytes the header has
    return scheme.lower() == "bearer" and hmac.compare_digest(sent, token.reveal().encode())


def guard(
    token: Secret | None,
    *,
    public_metrics: bool,
    posted_reads: frozenset[str] = frozenset(),
    signed: str = "",
    external_host: str = "",
) -> Middleware:
    """The middleware. A POST to one of `posted_reads` only asks: its parameters come as a form.

    Paths that begin with `signed` carry what allows them, and need no token; a page of ours may also have the name that
    `external_host` gives, as a proxy in front of us has.
    """
    attempts = Attempts()
    free = HEALTH | {"/metrics"} if public_metrics else HEALTH

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_write = request.method not in SAFE_METHODS and request.path not in posted_reads
        is_signed = bool(signed) and request.path.startswith(signed)
        is_open = token is not None or is_signed
        origin = request.headers.get("Origin")
        hosts = [request.host, external_host] if is_signed and external_host else [request.host]
        if is_write and all(is_foreign(origin, host, is_open=is_open) for host in hosts):
            raise web.HTTPForbidden(text="refused: this request comes from another site's page\n")
        if is_signed and (token is not None or is_loopback(request.remote)):
            return await handler(request)
        if request.path in free and not is_write:
            return await handler(request)
        here = is_loopback(request.remote)
        if token is None:
            if not here:
                raise web.HTTPForbidden(text="refused: without --token-file only this machine may ask\n")
        elif is_write or not here:
            _let_in(request, token, None if here else attempts)
        return await handler(request)

    return middleware


def _let_in(request: web.Request, token: Secret, attempts: Attempts | None) -> None:
    """Raises what is answered where the token is missing, wrong, or was guessed at too often from there.

    `attempts`: None for this machine, of which nobody is to be barred by another.
    """
    address, now = request.remote or "", asyncio.get_running_loop().time()
    if attempts is not None and attempts.is_barred(address, now):
        text = "too many wrong tokens from this address: wait a minute\n"
        raise web.HTTPTooManyRequests(text=text, headers={"Retry-After": f"{WITHIN:.0f}"})
    if not has_token(request, token):
        if attempts is not None and "Authorization" in request.headers:  # without one, nobody has guessed
            attempts.wrong(address, now)
        raise web.HTTPUnauthorized(text="a bearer token is needed\n", headers={"WWW-Authenticate": "Bearer"})
    if attempts is not None:
        attempts.right(address)
