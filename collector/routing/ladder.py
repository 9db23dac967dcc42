"""The steps of escalation as groups: each step that a group reaches is a group of its own, for the step's receiver.

It hears of the same alerts from then on, and so of their ends, by the same rules as every group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence

import msgspec

from collector.routing import escalation
from collector.routing.acks import Acks
from collector.routing.group import Group, Target
from collector.routing.route import Route


class Ladder:
    """Works on the groups of a grouping: `groups` by receiver and key; `schedule` lets one be looked at at a time."""

    def __init__(
        self,
        groups: MutableMapping[tuple[str, str], Group],
        receivers: Mapping[str, Sequence[Target]],
        acks: Acks,
        schedule: Callable[[Group, float], None],
    ) -> None:
        self._groups = groups
        self._receivers = receivers
        self._acks = acks
        self._schedule = schedule
        self._broken: frozenset[str] = frozenset()

    def heed(self, broken: frozenset[str]) -> bool:
        """These targets take nothing now; whether that is news."""
        was, self._broken = self._broken, broken
        return was != broken

    def climb(self, group: Group, now: float) -> None:
        """Who waits for an ack, after it is known who is muted; and whom else that concerns by now."""
        if not group.route.escalate or group.away:
            return
        waits = [token for token in group.unmuted() if self._acks.of(token, now) is None]
        former, group.waiting = group.waiting, escalation.follow(group.waiting, waits, now)
        if group.waiting is None or (former is not None and former.since != group.waiting.since):
            group.reached = 0
        if group.waiting is None:
            return
        stage = escalation.stage(group.route, group.waiting, now, self._is_broken)
        for number in range(group.reached, stage.reached):
            step = self._step(group, number, now)
            for token in waits:
                step.put(token, group.alerts[token])
            step.why = stage.reason
            self._schedule(step, now)
        group.reached = stage.reached
        if stage.next_at is not None:
            self._step(group, stage.reached, stage.next_at)

    def stays(self, group: Group) -> bool:
        """Whether a group without alerts is still to be escalated to, and so waits with its group."""
        parent = group.parent
        if parent is None:
            return False
        number = group.number
        if parent.waiting is not None and parent.alerts and number >= parent.reached:
            self._schedule(group, parent.waiting.since + parent.route.escalate[number].after)
            return True
        parent.steps.pop(number, None)
        return False

    def _step(self, group: Group, number: int, at: float) -> Group:
        """The group of a step, that looks at what is waiting not later than `at`."""
        receiver = group.route.escalate[number].receiver
        key = f"{group.key}/escalation {number + 1}"
        step = self._groups.get((receiver, key))
        if step is None:
            step = self._groups[receiver, key] = Group(of_step(group.route, receiver), group.labels, key, away=False)
            self._schedule(step, at)
        elif step.flush_at > at:
            self._schedule(step, at)
        hang(step, group, number)
        return step

    def _is_broken(self, receiver: str) -> bool:
        """Whether a receiver has targets, and none of them takes anything."""
        targets = self._receivers.get(receiver, ())
        return bool(targets) and all(target.name in self._broken for target in targets)


def of_step(route: Route, receiver: str) -> Route:
    """The route by which the receiver of a step hears of a group."""
    return msgspec.structs.replace(route, receiver=receiver, escalate=(), group_wait=0.0)


def hang(step: Group, group: Group, number: int) -> None:
    """This is the group's step of that number."""
    step.parent, step.number, group.steps[number] = group, number, step
