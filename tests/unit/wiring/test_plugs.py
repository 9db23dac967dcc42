"""What the table of plugs says of each kind of source."""

from __future__ import annotations

from collector.wiring.plugs import SOURCES

KEPT = {"kafka", "redis-stream", "bullmq+redis", "bullmq+rediss", "file", "stdin", "unix"}
"""Where a source that was away goes on where it was, or never goes away."""


def test_a_source_is_fleeting_unless_its_place_is_kept() -> None:
    """Whatever publishes to those who listen, and to no others, is tried again soon."""
    assert {scheme for scheme, plug in SOURCES.items() if not plug.is_fleeting} == KEPT
