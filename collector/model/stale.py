"""The sample that ends a series, as Prometheus writes it: who writes rules' results and who keeps samples share it."""

from __future__ import annotations

import struct

STALE: float = struct.unpack(">d", bytes.fromhex("7ff0000000000002"))[0]
"""A NaN with bits of its own; compared by its bits or by identity, since it equals nothing."""
