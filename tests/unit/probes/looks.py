"""One look of a kind of queue at given keys."""

from __future__ import annotations

from collections.abc import Collection

from collector.probes.reading import LENGTH, Reading
from collector.probes.redis import Kind, RedisProbe
from tests.fakes.redis_keys import RedisKeys

NOW = 1_750_000_000.0


async def look(kind: Kind, server: RedisKeys, known: Collection[str] = (), now: float = NOW) -> Reading:
    """What it says."""
    return await RedisProbe(kind, server.connect).look(known, now)


def lengths(reading: Reading) -> dict[str, dict[str, float]]:
    """Queue → state → length."""
    found: dict[str, dict[str, float]] = {}
    for (name, labels), value in reading.samples.items():
        if name == LENGTH:
            own = dict(labels)
            found.setdefault(own["queue"], {})[own["state"]] = value
    return found


def values(reading: Reading, metric: str, label: str = "queue") -> dict[str, float]:
    """Label → value of a metric."""
    return {dict(labels).get(label, ""): value for (name, labels), value in reading.samples.items() if name == metric}
