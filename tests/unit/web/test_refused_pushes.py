"""Pushes that are refused leave nothing behind: no memory, and no word of a fault of ours."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from collector.config.settings import Settings
from collector.web import server
from tests.unit.parts import Kept, running

LARGE = 900_000
MOST = 100_000
"""Events of one push."""


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * (LARGE + 1), {}, 413),
        (b"{}\n" * (MOST + 2), {"Content-Type": "application/x-ndjson"}, 413),
        (b"x" * (LARGE // 2) + b"\n", {"Content-Type": "application/json"}, 400),
    ],
)
async def test_what_was_refused_is_let_go_at_once(
    monkeypatch: pytest.MonkeyPatch, body: bytes, headers: dict[str, str], status: int
) -> None:
    """Also before the garbage collector comes, which is seldom."""
    monkeypatch.setattr(server, "LARGEST_BODY", LARGE)
    async with running(Settings(), channels=(Kept(),)) as run, aiohttp.ClientSession() as http:

        async def refused() -> None:
            async with http.post(f"{run.url}/v1/events", data=body, headers=headers) as answer:
                assert answer.status == status
                await answer.read()

        await refused()
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(20):
                await refused()
            assert tracemalloc.get_traced_memory()[0] < 5 * len(body)
        finally:
            tracemalloc.stop()
            gc.enable()


async def test_a_broken_encoding_is_no_fault_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """It is a warning among the rejects, without a traceback, also where more of the body is on its way."""
    broken = gzip.compress(b"{}")[:12] + b"x" * 900_000
    async with running(Settings(), channels=(Kept(),)) as run, aiohttp.ClientSession() as http:
        async with http.post(f"{run.url}/v1/events", data=broken, headers={"Content-Encoding": "gzip"}) as answer:
            assert answer.status == 400
        async with http.get(f"{run.url}/-/healthy") as answer:
            assert answer.status == 200
    assert not [one for one in caplog.records if one.exc_info or one.levelname == "ERROR"]


async def test_a_token_of_any_bytes_is_a_wrong_one(tmp_path: Path) -> None:
    """Also where they are no text."""
    (tmp_path / "token").write_text("s3cret-s3cret-s3cret-s3cret-s3cret")
    async with running(Settings(token_file=str(tmp_path / "token")), channels=(Kept(),)) as run:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(run.url).port)
        head = b"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nAuthorization: Bearer \xff\xfe\r\n\r\n{}"
        writer.write(head)
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()
