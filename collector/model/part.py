"""What a checkpoint is made of: named pieces of bytes, in an order. Who writes one reads it; nobody else looks in."""

from __future__ import annotations

from typing import TypeAlias

Part: TypeAlias = tuple[str, bytes]
"""The name of what it is about, `owner.section`, and its content. A later part of a name goes on from earlier ones."""
