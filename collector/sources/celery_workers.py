"""What a Celery channel says of its workers, and what of it is switched off. Pure: takes messages, gives sentences.

Only heartbeats are opened, one per worker and two seconds; of everything else the channel's name is enough.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from collector.sources.redis_pubsub import Messages

_SILENT = 30.0
"""Seconds after its last heartbeat in which a worker counts as there."""
_MOST = 500
"""Workers that are kept in mind."""
_FIRST = 5.0
"""Seconds in which a worker that is there has been heard."""
_ENOUGH = 20
"""Messages of task events after which a `task-sent` would have been among them."""
_EVENTS = 3
"""Of a task that a worker has processed: received, started, and its end."""

_HOW_ON = "start workers with `-E` (`worker_send_task_events = True`), or set `enable_events: true` on this source"
_HOW_SENT = "set `task_send_sent_event = True` where tasks are published"


class _Envelope(msgspec.Struct, gc=False):
    body: str


class _Beat(msgspec.Struct, gc=False):
    hostname: str
    pid: int = 0
    processed: int = 0


_envelope = msgspec.json.Decoder(_Envelope).decode
_beat = msgspec.json.Decoder(_Beat).decode


class Worker(msgspec.Struct, frozen=True):
    """A worker's process, as its last heartbeat told."""

    pid: int
    processed: int
    heard_at: float


class Kinds(msgspec.Struct):
    """How many messages of task events came, and how many of them were `task-sent`: on whatever connection."""

    all: int = 0
    sent: int = 0


def missed(before: Mapping[str, Worker], after: Mapping[str, Worker], seconds: float) -> int | None:
    """About how many events were published in so many seconds between two sets of heartbeats; None: unknown.

    Those of workers, by their own counts. What nobody works on has none, so where no worker has moved nothing is known.
    """
    tasks = 0.0
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        if new.pid == old.pid and new.processed > old.processed and new.heard_at > old.heard_at:
            tasks += (new.processed - old.processed) * seconds / max(seconds, new.heard_at - old.heard_at)
    return round(_EVENTS * tasks) or None


class Workers:
    """Who was heard on one connection."""

    def __init__(self, exchange: str, began: float, kinds: Kinds) -> None:
        self._mark = exchange.encode()
        self._began = began
        self._kinds = kinds
        self._unasked: set[str] = set()
        self._mute: set[str] = set()
        self.known: dict[str, Worker] = {}
        """By name."""
        self.is_asked = False
        """Whether the workers were asked to send events."""

    def take_wish(self, mute: Sequence[str]) -> bool:
        """Whether to ask the workers for events now: one is new, or has become mute since the last time."""
        is_wished = bool(self._unasked or set(mute) - self._mute)
        self._unasked, self._mute = set(), set(mute)
        self.is_asked = self.is_asked or is_wished
        return is_wished

    def hear(self, messages: Messages, counts: Mapping[bytes, int], now: float) -> None:
        """Note what a batch says of workers; `counts`: how many messages came on each channel."""
        for channel, count in counts.items():
            kind = channel.partition(self._mark)[2][1:6]
            if kind == b"task.":
                self._kinds.all += count
                self._kinds.sent += count * channel.endswith(b"task.sent")
            elif kind == b"worke":
                for place, body in zip(messages.channels, messages.bodies, strict=True):
                    if place == channel:
                        self._heard(body, now)

    def _heard(self, body: bytes, now: float) -> None:
        try:
            beat = _beat(base64.b64decode(_envelope(body).body))
        except (msgspec.MsgspecError, ValueError, RecursionError, binascii.Error):
            return  # the format counts it
        worker = self.known.get(beat.hostname)
        if worker is None or worker.pid != beat.pid:
            if len(self.known) >= _MOST:
                self.known.pop(next(iter(self.known)))
            self._unasked.add(beat.hostname)
        self.known[beat.hostname] = Worker(beat.pid, beat.processed, now)

    def said(self, now: float, mute: Sequence[str] = ()) -> list[str]:
        """What people should know, and how to switch on what is off. `mute`: who works and tells nothing of it."""
        there = [name for name, worker in self.known.items() if now - worker.heard_at < _SILENT]
        if not there:
            waited = now - self._began >= _FIRST
            return ["no worker is heard: they send a heartbeat every 2 s"] if waited else ["no worker was heard yet"]
        said = [f"hears {_count(len(there), 'worker')} ({_named(sorted(there))})"]
        if self._kinds.all == 0 and self.is_asked:
            said.append("task events were off, and the workers were asked to send them")
        elif mute:
            where = f" at {_named(mute)}" if self._kinds.all else ""
            said.append(f"task events are off{where} although workers are busy: {_HOW_ON}")
        elif self._kinds.all == 0:
            said.append(f"no task event yet; if none comes while tasks run, {_HOW_ON}")
        elif self._kinds.sent == 0 and self._kinds.all >= _ENOUGH:
            said.append(f"`task-sent` is off, so waiting times are unknown: {_HOW_SENT}")
        else:
            said.append("task events are on" + (", with `task-sent`" if self._kinds.sent else ""))
        return said


def _named(names: Sequence[str]) -> str:
    return f"{', '.join(names[:5])}{', ...' if names[5:] else ''}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def switch_on(now: float) -> bytes:
    """The broadcast that asks every running worker to send task events, as Celery publishes it; void after 10 s."""
    command: dict[str, Any] = {
        "method": "enable_events",
        "arguments": {},
        "destination": None,
        "pattern": None,
        "matcher": None,
    }
    return msgspec.json.encode(
        {
            "body": base64.b64encode(msgspec.json.encode(command)).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"clock": 1, "expires": now + 10.0},
            "properties": {
                "delivery_mode": 2,
                "delivery_info": {"exchange": "celery.pidbox", "routing_key": ""},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": str(uuid.uuid4()),
            },
        }
    )
