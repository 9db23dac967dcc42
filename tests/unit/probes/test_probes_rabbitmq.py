"""RabbitMQ's queues: by the management API, or by passive declares."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from collector.model.errors import SourceError
from collector.model.secret import Secret
from collector.probes import rabbitmq
from collector.probes.rabbitmq import MOST_DECLARED, DeclaredProbe, ManagementProbe
from collector.probes.reading import CONSUMERS, OLDEST
from tests.unit.probes.looks import NOW, lengths, values


@asynccontextmanager
async def management(rows: Any, status: int = 200) -> AsyncIterator[tuple[str, list[web.Request]]]:
    """A management API that knows these queues; its address, and what it was asked."""
    asked: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request)
        return web.json_response(rows, status=status)

    app = web.Application()
    app.router.add_get("/api/queues/{vhost}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}", asked
    finally:
        await runner.cleanup()


async def ask(base: str, place: rabbitmq.Place = rabbitmq.plain) -> Any:
    """One look."""
    probe = ManagementProbe(base, "a/b", ("ann", Secret("geheim")), place)
    try:
        return await probe.look((), NOW)
    finally:
        await probe.close()


def row(
    name: str, ready: int | None, unacked: int | None = 0, consumers: int | None = 1, **more: Any
) -> dict[str, Any]:
    """A queue as the API has it."""
    numbers = {"messages_ready": ready, "messages_unacknowledged": unacked, "consumers": consumers}
    return {"name": name, **numbers, **more}


async def test_one_question_tells_of_all_queues_of_a_virtual_host():
    """With our login; queues of workers' own talk, and our own, are left out."""
    rows = [row(f"q{number}", number, number % 3) for number in range(1_000)]
    plumbing = ["celeryev.1", "w@a.celery.pidbox", "celery_delayed_27", "tasktrail.events.x", "amq.gen-1"]
    async with management([*rows, *(row(name, 5) for name in plumbing)]) as (base, asked):
        reading = await ask(base)
    assert lengths(reading) == {f"q{number}": {"ready": number, "unacked": number % 3} for number in range(1_000)}
    (request,) = asked
    assert request.match_info["vhost"] == "a/b"
    assert base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")) == b"ann:geheim"


async def test_numbers_that_the_api_does_not_know_yet_are_unknown():
    """In the first seconds of a queue's life they are null."""
    async with management([row("new", None, None, None), row("old", 0)]) as (base, _):
        reading = await ask(base)
    assert lengths(reading) == {"old": {"ready": 0, "unacked": 0}}
    assert reading.unknown == {"new"}
    assert values(reading, CONSUMERS) == {"old": 1}


async def test_an_age_is_told_where_publishers_say_when():
    """The first message's time stamp, where there is one; an empty queue has nothing old."""
    rows = [row("dated", 2, head_message_timestamp=NOW - 90), row("undated", 2), row("empty", 0)]
    async with management(rows) as (base, _):
        reading = await ask(base)
    assert values(reading, OLDEST) == {"dated": pytest.approx(90), "empty": 0}


async def test_dramatiqs_queues_beside_are_states_of_one():
    """What is put off is delayed work of the queue; what is dead is no work."""
    async with management([row("mail", 3, 1), row("mail.DQ", 2, 2), row("mail.XQ", 9)]) as (base, _):
        reading = await ask(base, rabbitmq.dramatiq)
    assert lengths(reading) == {"mail": {"ready": 3, "unacked": 1, "delayed": 2}}


@pytest.mark.parametrize(
    ("rows", "status", "is_final"),
    [([], 401, True), ([], 404, True), ([], 503, False), ({"error": "x"}, 200, False), ([{"name": 3}], 200, False)],
)
async def test_an_api_that_fails_is_no_empty_broker(rows, status, is_final):
    """It raises, and says whether waiting may help; the password is in no message."""
    async with management(rows, status) as (base, _):
        with pytest.raises(SourceError) as raised:
            await ask(base)
    assert raised.value.retryable is not is_final
    assert "geheim" not in str(raised.value)


class Broker:
    """Passive declares: queue → messages and consumers; None: not to be known."""

    def __init__(self, queues: dict[str, tuple[int, int] | None]) -> None:
        self.queues = queues
        self.asked: list[str] = []

    async def lengths(self, queues: Sequence[str]) -> dict[str, tuple[int, int] | None]:
        """Those that are there."""
        self.asked += queues
        return {queue: self.queues[queue] for queue in queues if queue in self.queues}

    async def close(self) -> None:
        """Nothing to close."""


async def test_without_the_api_known_queues_are_declared_passively():
    """A queue that is not there is not 0, one that is another's is unknown; what is handed over cannot be seen."""
    broker = Broker({"mail": (3, 2), "locked": None})
    reading = await DeclaredProbe(broker).look(["mail", "locked", "gone", "w@a.celery.pidbox"], NOW)
    assert lengths(reading) == {"mail": {"ready": 3}}
    assert values(reading, CONSUMERS) == {"mail": 2}
    assert reading.unknown == {"locked"}
    assert sorted(broker.asked) == ["gone", "locked", "mail"]


async def test_a_queue_beside_is_asked_for_with_its_queue():
    """Dramatiq's delayed messages; a dead-letter queue that events name is no work."""
    broker = Broker({"mail": (3, 2), "mail.DQ": (1, 2), "mail.XQ": (9, 0)})
    reading = await DeclaredProbe(broker, (), rabbitmq.dramatiq, ".DQ").look(["mail", "mail.XQ"], NOW)
    assert lengths(reading) == {"mail": {"ready": 3, "delayed": 1}}


async def test_more_queues_than_are_asked_for_are_not_passed_over_in_silence():
    """The first ones are told, and how to see them all is said."""
    queues = [f"q{number:05}" for number in range(MOST_DECLARED + 5)]
    reading = await DeclaredProbe(Broker(dict.fromkeys(queues, (1, 1)))).look(queues, NOW)
    assert len(lengths(reading)) == MOST_DECLARED
    assert "management=URL" in reading.says
