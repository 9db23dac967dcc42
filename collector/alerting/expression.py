"""What alerting needs of a compiled expression: `collector.promql.Expr` fits, and so does a test's stand-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from collector.model.errors import TasktrailError
from collector.model.labels import Labels, Matcher

Rows: TypeAlias = list[tuple[Labels, float]]
"""An instant vector."""


class RuleError(TasktrailError):
    """A rule could not be evaluated at an instant: it is unhealthy and says so, the others go on."""


class Selector(Protocol):
    """One selector of an expression.

    `name` is None where the metric's name is matched by a matcher; `reach` is how far back it reads, in seconds.
    """

    @property
    def name(self) -> str | None: ...  # noqa: D102
    @property
    def matchers(self) -> tuple[Matcher, ...]: ...  # noqa: D102
    @property
    def reach(self) -> float: ...  # noqa: D102


class Expression(Protocol):
    """A compiled expression."""

    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def type(self) -> str: ...  # noqa: D102
    @property
    def windows(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def selectors(self) -> Sequence[Selector]: ...  # noqa: D102

    def evaluate(self, querier: Any, at: float, step: float) -> Any:
        """A frame, a float or a text. Raises TasktrailError."""
        ...


Compiler: TypeAlias = Callable[[str], Expression]
"""Text to expression; raises TasktrailError for what does not parse or is not supported."""

Put: TypeAlias = Callable[[str, Labels, float, float], None]
"""Where recording rules write: metric name, labels without it, instant, value."""


def rows_of(result: Any) -> Rows:
    """The elements of a result; a scalar is one element without labels, as in Prometheus. Raises RuleError."""
    if isinstance(result, float | int):
        return [((), float(result))]
    if isinstance(result, str):
        raise RuleError("the expression gives text, not a vector or a scalar")
    rows: Rows = result.rows()
    return rows
