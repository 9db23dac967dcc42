"""A real HTTP server on the loopback, in the modes that chat services have, and a notification to send to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from collector.model.alert import Alert, Evidence, Notification, Offender
from collector.model.labels import fingerprint, labels_of


class Service:
    """Answers each request by the next of `answers` (the last one stays), and keeps what it was sent."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], str] | str] = [(200, {}, "")]
        self.requests: list[tuple[str, dict[str, str], str]] = []
        self.port = 0
        self.released = asyncio.Event()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What was posted, decoded."""
        return [json.loads(body) for _, _, body in self.requests]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
            self.requests.append((head[0], headers, body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if answer == "close":
                return
            if answer == "hang":
                await self.released.wait()
                return
            if answer == "slow":
                await asyncio.sleep(0.3)
                answer = (200, {}, "")
            status, more, text = answer
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text)}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in more.items()]
            writer.write(("\r\n".join(lines) + "\r\n\r\n" + text).encode())
            await writer.drain()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """A running service that takes everything, until told otherwise."""
    service = Service()
    server = await asyncio.start_server(service.handle, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    yield service
    service.released.set()
    server.close()
    await server.wait_closed()


def make_notification(status: str = "firing", count: int = 1) -> Notification:
    """A notification of one group with so many alerts."""
    alerts = []
    for number in range(count):
        labels = labels_of({"alertname": "DeadLetter", "task": "pay.settle", "owner": "payments", "n": f"{number}"})
        alerts.append(
            Alert(
                labels=labels,
                annotations=labels_of({"summary": "a dead letter"}),
                fingerprint=fingerprint(labels),
                state=status,
                value=1.0,
                active_at=1_790_000_000.0,
                fired_at=1_790_000_000.25,
                resolved_at=1_790_000_060.0 if status == "resolved" else None,
                evidence=Evidence(
                    offenders=(Offender(task_id="d1", error="ValueError", attempts=3),), top_errors=(("ValueError", 1),)
                ),
            )
        )
    return Notification(
        key="0123456789abcdef",
        at=1_790_000_001.0,
        receiver="default",
        status=status,
        group_labels=labels_of({"alertname": "DeadLetter"}),
        common_labels=labels_of({"alertname": "DeadLetter", "task": "pay.settle"}),
        common_annotations=labels_of({"summary": "a dead letter"}),
        alerts=tuple(alerts),
        title="[FIRING] DeadLetter (page, owner payments)",
        text="severity: page   owner: payments\nrunbook: http://mon/runbooks/dead-letters",
        external_url="http://mon:9810",
        group_key='{}:{alertname="DeadLetter"}',
    )


@pytest.fixture
def notification() -> Callable[..., Notification]:
    """The maker of notifications."""
    return make_notification
