"""Who may ask what: the table of doors."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from collector.model.secret import Secret
from collector.web.attempts import MOST_WRONG
from collector.web.guard import guard, is_foreign, is_loopback

TOKEN = Secret("s3cret")
HERE, THERE = "127.0.0.1", "10.0.0.9"
GIVEN = {"Authorization": "Bearer s3cret"}
WRONG = {"Authorization": "Bearer other"}
BASIC = {"Authorization": "Basic s3cret"}
OURS = {"Origin": "http://127.0.0.1:9810"}
OTHERS = {"Origin": "https://evil.example"}


async def ask(
    method: str, path: str, remote: str, headers: dict[str, str], token: Secret | None, *, public: bool = False
) -> int:
    """The status that a request gets."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=200)

    host = {"Host": "127.0.0.1:9810"}
    request = make_mocked_request(method, path, headers={**host, **headers}).clone(remote=remote)
    try:
        reads = frozenset({"/api/v1/query"})
        return (await guard(token, public_metrics=public, posted_reads=reads)(request, handler)).status
    except web.HTTPException as refused:
        return refused.status


@pytest.mark.parametrize(
    ("method", "path", "remote", "headers", "token", "status"),
    [
        # without a token: this machine only, and no other site's page may write
        ("GET", "/api/sources", HERE, {}, None, 200),
        ("GET", "/api/sources", "::1", {}, None, 200),
        ("GET", "/api/sources", "::ffff:127.0.0.1", {}, None, 200),
        ("GET", "/api/sources", THERE, {}, None, 403),
        ("GET", "/metrics", THERE, {}, None, 403),
        ("POST", "/v1/events", HERE, {}, None, 200),
        ("POST", "/v1/events", HERE, OURS, None, 200),
        ("POST", "/v1/events", HERE, OTHERS, None, 403),
        ("POST", "/v1/events", HERE, {"Origin": "null"}, None, 403),
        ("POST", "/v1/events", HERE, {"Origin": "http://["}, None, 403),
        ("POST", "/v1/events", HERE, {"Host": "evil.example", "Origin": "http://evil.example"}, None, 403),
        ("POST", "/v1/events", THERE, {}, None, 403),
        ("GET", "/api/v1/alerts", HERE, OTHERS, None, 200),
        # with one: writes and reads from elsewhere need it
        ("GET", "/api/sources", HERE, {}, TOKEN, 200),
        ("GET", "/api/sources", THERE, {}, TOKEN, 401),
        ("GET", "/api/sources", THERE, GIVEN, TOKEN, 200),
        ("GET", "/api/sources", THERE, WRONG, TOKEN, 401),
        ("GET", "/api/sources", THERE, BASIC, TOKEN, 401),
        ("GET", "/metrics", THERE, {}, TOKEN, 401),
        ("HEAD", "/metrics", THERE, GIVEN, TOKEN, 200),
        ("POST", "/v1/events", HERE, {}, TOKEN, 401),
        ("POST", "/v1/events", HERE, GIVEN, TOKEN, 200),
        ("POST", "/v1/events", THERE, GIVEN, TOKEN, 200),
        ("POST", "/v1/events", THERE, {**GIVEN, **OTHERS}, TOKEN, 403),
        ("POST", "/-/reload", HERE, {}, TOKEN, 401),
        (
            "POST",
            "/-/reload",
            THERE,
            {**GIVEN, "Host": "tasktrail.example", "Origin": "https://tasktrail.example"},
            TOKEN,
            200,
        ),
        # a form that only asks is a read
        ("POST", "/api/v1/query", HERE, {}, TOKEN, 200),
        ("POST", "/api/v1/query", THERE, {}, TOKEN, 401),
        ("POST", "/api/v1/query", THERE, GIVEN, TOKEN, 200),
        ("POST", "/api/v1/query", THERE, {}, None, 403),
        # health is never asked for it
        *[("GET", path, THERE, {}, TOKEN, 200) for path in ("/-/healthy", "/-/ready", "/healthz", "/readyz")],
        ("GET", "/-/healthy", THERE, {}, None, 200),
        ("POST", "/-/healthy", THERE, {}, TOKEN, 401),
    ],
)
async def test_the_doors(
    method: str, path: str, remote: str, headers: dict[str, str], token: Secret | None, status: int
) -> None:
    """Each request is let in or refused by where it comes from, what it does, and its token."""
    assert await ask(method, path, remote, headers, token) == status


async def test_public_metrics() -> None:
    """/metrics may be made public for reading, and nothing else with it."""
    assert await ask("GET", "/metrics", THERE, {}, TOKEN, public=True) == 200
    assert await ask("POST", "/metrics", THERE, {}, TOKEN, public=True) == 401
    assert await ask("GET", "/api/sources", THERE, {}, TOKEN, public=True) == 401


@pytest.mark.parametrize(
    ("address", "expected"),
    [(None, True), ("", True), ("127.9.9.9", True), ("fe80::1%eth0", False), ("localhost", True), ("host", False)],
)
def test_what_this_machine_is(address: str | None, *, expected: bool) -> None:
    """Loopback addresses and unix sockets are this machine."""
    assert is_loopback(address) is expected


def test_a_request_without_an_origin_is_no_browsers() -> None:
    """Only browsers send an Origin."""
    assert not is_foreign(None, "h", is_open=False)


async def test_guesses_from_elsewhere_are_cut_short() -> None:
    """After so many wrong tokens an address hears 429, also with the right one; this machine is never barred."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=200)

    doors = guard(TOKEN, public_metrics=False)

    async def status(remote: str, headers: dict[str, str]) -> int:
        try:
            return (
                await doors(make_mocked_request("POST", "/v1/events", headers=headers).clone(remote=remote), handler)
            ).status
        except web.HTTPException as refused:
            return refused.status

    for remote in (HERE, THERE):
        assert [await status(remote, WRONG) for _ in range(MOST_WRONG)] == [401] * MOST_WRONG
    assert [await status(THERE, headers) for headers in (WRONG, GIVEN)] == [429, 429]
    assert [await status("10.0.0.8", GIVEN), await status(HERE, GIVEN)] == [200, 200]
