"""What trails tell of dead letters: that one is there, and that it is over. Times are Unix seconds of the axis."""

from __future__ import annotations

import msgspec

SUCCEEDED_LATER = "its task succeeded later"
SENT_AGAIN = "its task was sent again under the same id"


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A life of a task that was dead-lettered, or failed for good and must not."""

    home: str
    """Whose ids it is one of: `=APPLICATION`, or the source."""
    task_id: str
    task: str
    queue: str
    source: str
    at: float
    when: float
    """When it died by the sender's clock, else on the axis: one id may die more than once."""
    is_virtual: bool = False
    """Nothing keeps its message: it failed for good, and must be completed."""
    is_again: bool = False
    """What had ended it turned out to be of another life."""
    attempts: int = 0
    error: str = ""
    message: str = ""
    """Of the newest failure, masked and cut."""
    worker: str = ""
    trace_id: str = ""
    sent_at: float | None = None
    first_failed_at: float | None = None
    last_failed_at: float | None = None


class Ending(msgspec.Struct, frozen=True):
    """Something ended a dead letter without anybody's verdict, or happened to it after one."""

    home: str
    task_id: str
    at: float
    why: str
    """SUCCEEDED_LATER or SENT_AGAIN."""
