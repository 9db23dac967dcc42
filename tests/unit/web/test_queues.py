"""`/api/queues`: what waits where, and how far groups are."""

from __future__ import annotations

import aiohttp
import pytest

from collector.config.settings import Settings
from collector.model.labels import labels_of
from collector.model.stale import STALE
from tests.unit.parts import T0, running


@pytest.fixture
async def asked():
    """A daemon with shipped rules, and what it answers once some samples are in its store."""
    async with running(Settings()) as made, aiohttp.ClientSession() as http:

        async def ask(*samples: tuple[str, dict[str, str], float]):
            for metric, labels, value in samples:
                made.daemon.store.put(metric, labels_of({**labels, "source": "s"}), T0, value)
            await made.daemon.turn()
            async with http.get(f"{made.url}/api/queues") as answer:
                assert answer.status == 200
                return await answer.json()

        yield ask


async def test_queues_are_listed_the_longest_first(asked):
    """By state, with age and consumers where they are known; what has ended is not there."""
    body = await asked(
        ("queue_length", {"queue": "a", "state": "ready"}, 3),
        ("queue_length", {"queue": "a", "state": "unacked"}, 1),
        ("queue_length", {"queue": "b", "state": "ready"}, 9),
        ("queue_length", {"queue": "gone", "state": "ready"}, STALE),
        ("queue_oldest_age_seconds", {"queue": "a"}, 2.5),
        ("queue_consumers", {"queue": "b"}, 0),
        ("queue_consumers", {"queue": "unknown"}, 4),
    )
    trend = {"growth": None, "drain_seconds": None}
    assert body["queues"] == [
        {"queue": "b", "source": "s", "length": {"ready": 9}, "oldest_age_seconds": None, "consumers": 0, **trend},
        {
            "queue": "a",
            "source": "s",
            "length": {"ready": 3, "unacked": 1},
            "oldest_age_seconds": 2.5,
            "consumers": None,
            **trend,
        },
    ]
    assert body["groups"] == []


async def test_groups_are_listed_those_furthest_behind_first(asked):
    """With records and seconds; seconds that are not known are null."""
    place = {"group": "g", "topic": "t"}
    body = await asked(
        ("consumer_lag", {**place, "partition": "0"}, 3),
        ("consumer_lag", {**place, "partition": "1"}, 8),
        ("consumer_lag_seconds", {**place, "partition": "0"}, 1.5),
    )
    assert body["groups"] == [
        {"group": "g", "topic": "t", "partition": "1", "source": "s", "lag": 8, "lag_seconds": None},
        {"group": "g", "topic": "t", "partition": "0", "source": "s", "lag": 3, "lag_seconds": 1.5},
    ]


async def test_nothing_known_is_nothing_listed(asked):
    """A daemon whose sources have no queues."""
    assert await asked() == {"queues": [], "groups": []}
