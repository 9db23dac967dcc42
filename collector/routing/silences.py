"""Silences: who is to be quiet, from when until when, as Alertmanager keeps them. Values in, values out.

A silence is pending, active or expired by the instant that is asked about. What was expired is kept for RETAINED
seconds, so that people can see what was quiet and why. Changing one in place is possible as far as it does not rewrite
the past; else the old one ends now and a new one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from collector.model.alert import Alert
from collector.model.labels import Labels
from collector.routing.keeping import Keep, Silence, SilenceState
from collector.routing.matchers import hold, order

RETAINED = 120 * 3600.0
"""Seconds that an expired silence is kept, as in Alertmanager."""
MOST = 10_000
"""Silences that are kept; beyond, nobody can make one before others have gone."""
LONGEST_TEXT = 10_000
"""Characters of a comment or an author."""
REMEMBERED = 50_000
"""Alerts for which it is remembered which silences match."""


class Unknown(Exception):  # noqa: N818  a word of the protocol: there is none of that id
    """No silence has this id."""


def problem(silence: Silence) -> str:
    """What is wrong with one, in Alertmanager's words; "" for nothing."""
    if not silence.matchers:
        return "at least one matcher required"
    if all(one.matches("") for one in silence.matchers):
        return "at least one matcher must not match the empty string"
    if silence.ends_at < silence.starts_at:
        return "end time must not be before start time"
    if max(len(silence.comment), len(silence.created_by)) > LONGEST_TEXT:
        return f"comment and creator have at most {LONGEST_TEXT} characters"
    return ""


def can_change(former: Silence, wanted: Silence, now: float) -> bool:
    """Whether the former one can become the wanted one without another past than it had."""
    if order(former.matchers) != order(wanted.matchers) and _written(former) != _written(wanted):
        return False
    state = former.state(now)
    if state == "active":
        return int(wanted.starts_at) == int(former.starts_at) and wanted.ends_at >= now
    return state == "pending" and wanted.starts_at >= now


def _written(silence: Silence) -> list[tuple[str, str, str]]:
    return [(one.name, one.op, one.value) for one in order(silence.matchers)]


class Silences:
    """All silences; `keep` is where they outlive the process."""

    def __init__(self, keep: Keep | None = None) -> None:
        self._keep = keep or Keep()
        self._all: dict[str, Silence] = {one.id: one for one in self._keep.silences()}
        self._matching: dict[str, tuple[Silence, ...]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def get(self, silence_id: str) -> Silence | None:
        """One by its id."""
        return self._all.get(silence_id)

    def listed(self, now: float) -> list[Silence]:
        """All in Alertmanager's order: active by their end, pending by their start, expired by the latest end."""
        keys: dict[SilenceState, Callable[[Silence], tuple[float, str]]] = {
            "active": lambda one: (one.ends_at, one.id),
            "pending": lambda one: (one.starts_at, one.id),
            "expired": lambda one: (-one.ends_at, one.id),
        }
        by_state: dict[SilenceState, list[Silence]] = {state: [] for state in keys}
        for one in self._all.values():
            by_state[one.state(now)].append(one)
        return [one for state, key in keys.items() for one in sorted(by_state[state], key=key)]

    def set(self, wanted: Silence, now: float, new_id: str) -> Silence:
        """Make or change one; gives it as it is kept, with `new_id` where it is a new one.

        Raises Unknown for an id that nobody has, ValueError for what is no silence.
        """
        if fault := problem(wanted):
            raise ValueError(f"invalid silence: {fault}")
        former = self._all.get(wanted.id)
        if wanted.id and former is None:
            raise Unknown(wanted.id)
        if former is not None and can_change(former, wanted, now):
            return self._put(msgspec.structs.replace(wanted, updated_at=now))
        if len(self._all) >= MOST:
            raise ValueError(f"there are {MOST} silences already; those that end are let go after 120 h")
        if former is not None and former.state(now) != "expired":
            self.expire(former.id, now)
        starts_at = max(wanted.starts_at, now)
        return self._put(msgspec.structs.replace(wanted, id=new_id, starts_at=starts_at, updated_at=now))

    def expire(self, silence_id: str, now: float) -> Silence:
        """End one now; one that has ended stays as it is. Raises Unknown."""
        former = self._all.get(silence_id)
        if former is None:
            raise Unknown(silence_id)
        if former.state(now) == "expired":
            return former
        starts_at = min(former.starts_at, now)
        return self._put(msgspec.structs.replace(former, starts_at=starts_at, ends_at=now, updated_at=now))

    def forget(self, now: float) -> int:
        """Let go of what expired long ago; gives how many."""
        old = [one.id for one in self._all.values() if one.ends_at + RETAINED <= now]
        for silence_id in old:
            del self._all[silence_id]
            self._keep.forget_silence(silence_id)
        if old:
            self._matching.clear()
        return len(old)

    def of(self, fingerprint: str, labels: Labels, now: float) -> list[Silence]:
        """The active silences of an alert."""
        return [one for one in self._candidates(fingerprint, labels) if one.state(now) == "active"]

    def why(self, alert: Alert, now: float) -> str:
        """Why an alert is not spoken of, as a gate of routing asks."""
        if not self._all:
            return ""
        ids = [one.id for one in self.of(alert.fingerprint, alert.labels, now)]
        return f"silenced by {', '.join(sorted(ids))}" if ids else ""

    def _candidates(self, fingerprint: str, labels: Labels) -> Iterable[Silence]:
        found = self._matching.get(fingerprint)
        if found is None:
            if len(self._matching) >= REMEMBERED:
                self._matching.clear()
            found = self._matching[fingerprint] = tuple(one for one in self._all.values() if hold(one.matchers, labels))
        return found

    def _put(self, silence: Silence) -> Silence:
        self._all[silence.id] = silence
        self._matching.clear()
        self._keep.save_silence(silence)
        return silence
