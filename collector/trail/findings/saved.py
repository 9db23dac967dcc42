"""What is saved of findings besides the trails that they are on."""

from __future__ import annotations

import msgspec

from collector.trail.findings.crew import Worker
from collector.trail.findings.schedule import Turn


class SavedFindings(msgspec.Struct, array_like=True):
    """What is saved of them besides the trails."""

    workers: list[Worker] = []
    usual: list[tuple[int, list[tuple[int, int]]]] = []
    turns: list[tuple[tuple[str, str, str], Turn]] = []
    storms: list[tuple[int, int]] = []
    telling: dict[str, float] = {}
    """Source → since when it tells of starts."""
    prompt: dict[str, float] = {}
    """Source → when a heartbeat came last that was not late."""
