"""What a Celery channel says of its workers, and what of it is switched off. Pure: takes messages, gives sentences.

Only heartbeats are opened, one per worker and two seconds; of everything else the channel's name is enough.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping
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

_HOW_ON = "start workers with `-E` (`worker_send_task_events = True`), or set `enable_events: true` on this source"
_HOW_SENT = "set `task_send_sent_event = True` where tasks are published"


class _Envelope(msgspec.Struct, gc=False):
    body: str


class _Beat(msgspec.Struct, gc=False):
    hostname: str
    pid: int = 0
    active: int = 0
    processed: int = 0


_envelope = msgspec.json.Decoder(_Envelope).decode
_beat = msgspec.json.Decoder(_Beat).decode


class _Worker(msgspec.Struct):
    pid: int
    first: int
    """How many tasks it had processed when it was first heard."""
    processed: int
    active: int
    heard_at: float


class Workers:
    """Who was heard on one connection."""

    def __init__(self, exchange: str, began: float) -> None:
        self._mark = exchange.encode()
        self._began = began
        self._known: dict[str, _Worker] = {}
        self._task_events = 0
        self._sent = 0
        self._missing = 0
        self.is_asked = False
        """Whether the workers were asked to send events."""

    @property
    def processed(self) -> dict[str, tuple[int, int]]:
        """Worker → its process and how many tasks that has processed."""
        return {name: (worker.pid, worker.processed) for name, worker in self._known.items()}

    def take_wish(self) -> bool:
        """Whether to ask the workers for events now: one is new, or was busy without any since the last time."""
        is_wished, self._missing = self._missing > 0, 0
        self.is_asked = self.is_asked or is_wished
        return is_wished

    def hear(self, messages: Messages, counts: Mapping[bytes, int], now: float) -> None:
        """Note what a batch says of workers; `counts`: how many messages came on each channel."""
        for channel, count in counts.items():
            kind = channel.partition(self._mark)[2][1:6]
            if kind == b"task.":
                self._task_events += count
                self._sent += count * channel.endswith(b"task.sent")
                self._missing = 0
            elif kind == b"worke":
                for place, body in zip(messages.channels, messages.bodies, strict=True):
                    if place == channel:
                        self._heard(body, now)

    def _heard(self, body: bytes, now: float) -> None:
        try:
            beat = _beat(base64.b64decode(_envelope(body).body))
        except (msgspec.MsgspecError, ValueError, RecursionError, binascii.Error):
            return  # the format counts it
        worker = self._known.get(beat.hostname)
        if worker is None or worker.pid != beat.pid:
            if len(self._known) >= _MOST:
                self._known.pop(next(iter(self._known)))
            self._known[beat.hostname] = _Worker(beat.pid, beat.processed, beat.processed, beat.active, now)
            self._missing += 1
            return
        if beat.processed > worker.processed:
            self._missing += 1
        worker.processed, worker.active, worker.heard_at = beat.processed, beat.active, now

    def said(self, now: float) -> list[str]:
        """What people should know, and how to switch on what is off."""
        there = [name for name, worker in self._known.items() if now - worker.heard_at < _SILENT]
        if not there:
            waited = now - self._began >= _FIRST
            return ["no worker is heard: they send a heartbeat every 2 s"] if waited else ["no worker was heard yet"]
        said = [f"hears {_count(len(there), 'worker')} ({', '.join(sorted(there)[:5])}{', ...' if there[5:] else ''})"]
        moving = any(worker.processed > worker.first or worker.active for worker in self._known.values())
        if self._task_events == 0 and self.is_asked:
            said.append("task events were off, and the workers were asked to send them")
        elif self._task_events == 0 and moving:
            said.append(f"task events are off although workers are busy: {_HOW_ON}")
        elif self._task_events == 0:
            said.append(f"no task event yet; if none comes while tasks run, {_HOW_ON}")
        elif self._sent == 0 and self._task_events >= _ENOUGH:
            said.append(f"`task-sent` is off, so waiting times are unknown: {_HOW_SENT}")
        else:
            said.append("task events are on" + (", with `task-sent`" if self._sent else ""))
        return said


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
