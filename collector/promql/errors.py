"""The one error of this part: an expression that cannot be read, is not supported, or fails on the series it meets."""

from __future__ import annotations

from collector.model.errors import TasktrailError


class PromqlError(TasktrailError):
    """Says what is wrong with an expression, in the parser's or in Prometheus' words where they have some."""


SAME_LABELSET = "vector cannot contain metrics with the same labelset"
