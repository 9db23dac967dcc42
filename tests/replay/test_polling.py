"""Frameworks in Redis are polled: what a capture with fewer looks, or without notifications, still tells."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.replay import truth
from tests.replay.truth import CAPTURES, Difference, differences

NAMES = ("rq-redis.jsonl", "rq2-redis.jsonl", "saq-redis.jsonl", "arq-redis.jsonl", "streaq-redis.jsonl")
Row = dict[str, Any]


@pytest.fixture
def thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Difference]]:
    """Replays what is left of a capture against the truth."""

    def replay(name: str, is_kept: Callable[[Row, bool], bool]) -> list[Difference]:
        rows = [json.loads(line) for line in (CAPTURES / name).read_text(encoding="utf-8").splitlines()]
        last = {row["key"]: number for number, row in enumerate(rows) if row["source"] == "redis-key"}
        kept = [row for number, row in enumerate(rows) if is_kept(row, last.get(row.get("key", "")) == number)]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        assert len(kept) < len(rows)
        truth.manifest()
        truth.replayed.cache_clear()
        monkeypatch.setattr(truth, "CAPTURES", tmp_path)
        found = differences(name)
        truth.replayed.cache_clear()
        return found

    return replay


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_seldom_looks_tell_the_same(thinned: Callable[..., list[Difference]], name: str, share: float) -> None:
    """With a share of the looks at keys, down to the last one at each, messages and streams tell the rest."""
    chance = random.Random(7)
    assert thinned(name, lambda row, is_last: row["source"] != "redis-key" or is_last or chance.random() < share) == []


@pytest.mark.parametrize("name", NAMES)
def test_without_notifications_looks_tell_the_same(thinned: Callable[..., list[Difference]], name: str) -> None:
    """With the server's notifications off, which is usual, nothing of these runs is lost."""
    assert thinned(name, lambda row, _: not row.get("channel", "").startswith("__keyspace")) == []


def test_without_messages_looks_tell_the_same(thinned: Callable[..., list[Difference]]) -> None:
    """SAQ's JSON counts attempts: those whose words were lost are known by it."""
    assert thinned("saq-redis.jsonl", lambda row, _: row["source"] == "redis-key") == []
