"""Which time a Kafka record gets, without a broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from collector.sources.kafka_tail import _times

NOW = 1_800_000_000.0
CREATE, LOG_APPEND = 0, 1


def record(at: float | None, kind: int | None) -> SimpleNamespace:
    """A record with a time in Unix seconds, as the client gives it."""
    return SimpleNamespace(timestamp=None if at is None else int(at * 1000), timestamp_type=kind)


@pytest.mark.parametrize(
    ("ats", "kind", "is_fresh", "expected"),
    [
        ([NOW - 600, NOW - 1], CREATE, False, [NOW - 600, NOW - 1]),
        ([NOW - 600, NOW - 1], CREATE, True, [NOW, NOW - 1]),
        ([NOW - 30, NOW - 31], CREATE, True, [NOW - 30, NOW]),
        ([NOW - 600, NOW - 1], LOG_APPEND, True, [NOW - 600, NOW - 1]),
        ([NOW + 60, NOW], CREATE, False, [NOW, NOW]),
        ([NOW + 60, NOW - 60], LOG_APPEND, False, [NOW, NOW - 60]),
        ([-0.001, NOW - 60], CREATE, False, [NOW, NOW - 60]),
        ([None, None], None, False, [NOW, NOW]),
    ],
)
def test_the_axis_time_of_a_record(ats: list, kind: int | None, *, is_fresh: bool, expected: list[float]) -> None:
    """The broker's time as it is; the sender's while catching up; arrival for old and missing ones; never ahead."""
    assert _times([record(at, kind) for at in ats], NOW, is_fresh=is_fresh) == expected
