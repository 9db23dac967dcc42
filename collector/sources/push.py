"""Pushed events: a unix socket for workers on this host, and the splitting of bodies that HTTP uses too.

The socket takes NDJSON. A connection that sends faster than events are counted is not read: that is the backpressure.
Nothing is acknowledged and nothing can be read again, so a place here has no position; it is at its head whenever
what came has been handed over.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from collector.model.clock import Clock, SystemClock
from collector.model.errors import SourceError, TooManyError
from collector.model.record import Batch, Gap, Intake, Receipt
from collector.sources.lines import LineSplitter

_CHUNK = 256 * 1024
_RECORDS = 500
_LONGEST_LINE = 256 * 1024  # one event each; every connection may hold the beginning of one
_GATHER = 0.01  # seconds: a worker that writes line by line makes one batch per 10 ms, not one per line
_REFUSED_TOGETHER = 5.0
"""Seconds after which refused connections are told as a gap. Where more come so soon after it, it is one that goes on:
clients that come again and again must not push out older gaps."""
_MODE = 0o660
_MSGPACK = frozenset({"application/msgpack", "application/x-msgpack", "application/vnd.msgpack"})
_RAW_JSON = msgspec.json.Decoder(msgspec.Raw)
_RAW_JSON_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_RAW_MSGPACK_LIST = msgspec.msgpack.Decoder(list[msgspec.Raw])


PLACE = "push"
"""What all pushes over HTTP come from, over whichever connection."""
MOST_EVENTS = 100_000
"""Events of one push."""
MOST_COMMAS = 500_000
"""Commas of one JSON list: the longest that is taken, full of events, has fewer, and they bound its elements."""
_LONG_LISTS = {0xDC: 2, 0xDD: 4}
"""First byte of a long msgpack list to the size of its length."""


def split(body: bytes, content_type: str = "") -> list[bytes]:
    """A pushed body as one body per event: a JSON array, a msgpack array or one map, one JSON value, else NDJSON.

    Never fails otherwise: what cannot be split is handed on whole, for the decoder to reject and to count.
    Raises TooManyError for more than `MOST_EVENTS`.
    """
    bodies = _split(body, content_type.partition(";")[0].strip().lower())
    _bound(len(bodies), MOST_EVENTS)
    return bodies


def _bound(count: int, most: int) -> None:
    if count > most:
        raise TooManyError(f"more than {MOST_EVENTS} events in one push: send fewer at once")


def _split(body: bytes, kind: str) -> list[bytes]:
    """Looks first where a look that costs next to nothing says that there is too much."""
    try:
        if kind in _MSGPACK:
            size = _LONG_LISTS.get(body[0] if body else 0, 0)
            said = int.from_bytes(body[1 : 1 + size], "big")
            _bound(said if said < len(body) else 0, MOST_EVENTS)  # else it is cut off, and the decoder says so
            return [bytes(raw) for raw in _RAW_MSGPACK_LIST.decode(body)]
        start = body.lstrip()
        if start.startswith(b"[") and kind != "application/x-ndjson":
            _bound(body.count(b","), MOST_COMMAS)
            return [bytes(raw) for raw in _RAW_JSON_LIST.decode(start)]
        if kind == "application/json":  # also one pretty-printed object over several lines
            return [bytes(_RAW_JSON.decode(start))]
    except (msgspec.DecodeError, RecursionError):  # the latter where it is nested too deeply
        if kind in _MSGPACK or b"\n" not in body.strip():
            return [body]
    text = body.strip()
    _bound(text.count(b"\n"), MOST_EVENTS)
    return [line for line in map(bytes.strip, text.split(b"\n")) if line] or [body]


def batches(bodies: Sequence[bytes], *, source: str, place: str, received_at: float, first: int = 1) -> Iterator[Batch]:
    """Bodies of one push as batches of at most 500; receipts count on from `first`; the last one is the head."""
    for start in range(0, len(bodies), _RECORDS):
        part = list(bodies[start : start + _RECORDS])
        receipts: list[Receipt] = [*range(first + start, first + start + len(part))]
        yield Batch(
            source=source,
            place=place,
            bodies=part,
            receipts=receipts,
            received_at=received_at,
            is_head=start + _RECORDS >= len(bodies),
        )


class UnixOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One listening socket."""

    name: str
    path: str
    line_limit: int = _LONGEST_LINE
    most_connections: int = 1000
    """Further ones are closed at once, and what they send is a gap."""


class UnixSource:
    """Listens on a unix socket (mode 0660) until it is cancelled. Raises SourceError where it cannot."""

    def __init__(self, options: UnixOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._receipt = 1
        self._open: set[asyncio.Task[None]] = set()
        self._refused: tuple[float, asyncio.TimerHandle] | None = None
        """Since when connections were refused of which nothing is said yet, and what will say it."""
        self._told = -math.inf
        """When the last gap ended."""

    async def run(self, intake: Intake) -> None:
        """Hand over what connections send. Ends only by cancellation, or by an error of the intake."""
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._open) >= self._options.most_connections:
                writer.close()
                self._refuse(intake)
                return
            task = asyncio.ensure_future(self._serve(reader, writer, intake))
            self._open.add(task)
            self._say_used(intake)
            task.add_done_callback(self._open.discard)
            task.add_done_callback(lambda _: self._say_used(intake))
            task.add_done_callback(lambda done: _pass_on(done, failed))

        with _listening(self._options.path) as listener:
            server = await asyncio.start_unix_server(accept, sock=listener, limit=_CHUNK)
            try:
                intake.connected(f"listens on {self._options.path}")
                await failed
            finally:
                server.close()
                for task in self._open:
                    task.cancel()
                await asyncio.gather(*self._open, return_exceptions=True)
                self._tell_refused(intake)

    def _say_used(self, intake: Intake) -> None:
        intake.filled(len(self._open) / self._options.most_connections)

    def _refuse(self, intake: Intake) -> None:
        """A connection more than there may be: what it sends is not read."""
        if self._refused is None:
            timer = asyncio.get_running_loop().call_later(_REFUSED_TOGETHER, self._tell_refused, intake)
            now = self._clock.now()
            self._refused = self._told if 0 <= now - self._told <= _REFUSED_TOGETHER else now, timer

    def _tell_refused(self, intake: Intake) -> None:
        """Put on record what refused connections have sent, if there were any."""
        if self._refused is None:
            return
        (start, timer), self._refused = self._refused, None
        timer.cancel()
        name, place = self._options.name, self._options.path
        end = self._told = self._clock.now()
        gap = Gap(source=name, place=place, start=start, end=end, estimate=None, reason="too_many_connections")
        intake.gap(gap)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, intake: Intake) -> None:
        splitter = LineSplitter(self._options.line_limit)
        try:
            while data := await reader.read(_CHUNK):
                await self._take(intake, splitter.feed(data))
                if len(data) < _CHUNK:
                    await asyncio.sleep(_GATHER)
            await self._take(intake, [splitter.rest()])
        except ConnectionError:
            await self._take(intake, [splitter.rest()])
        finally:
            writer.close()

    async def _take(self, intake: Intake, lines: list[bytes]) -> None:
        bodies = [line for line in lines if line]
        options, first = self._options, self._receipt
        self._receipt += len(bodies)
        for batch in batches(
            bodies,
            source=options.name,
            place=options.path,
            received_at=self._clock.now(),
            first=first,
        ):
            await intake.take(batch)
            await asyncio.sleep(0)


def _pass_on(done: asyncio.Task[None], failed: asyncio.Future[None]) -> None:
    """An error of a connection's task is the source's error: it comes from the intake."""
    if not done.cancelled() and (error := done.exception()) and not failed.done():
        failed.set_exception(error)


@contextmanager
def _listening(path: str) -> Iterator[socket.socket]:
    """A bound unix socket, its file removed afterwards. A file that a dead process left is replaced."""
    _clear(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o777 & ~_MODE)
    try:
        listener.bind(path)
    except OSError as error:
        listener.close()
        folder = Path(path).parent
        why = str(error.strerror or error) if folder.is_dir() else f"the folder {folder} is not there: make it"
        raise SourceError(f"{path}: {why}", retryable=False) from error
    finally:
        os.umask(mask)
    made = os.stat(path).st_ino  # noqa: PTH116
    try:
        yield listener
    finally:
        listener.close()
        remaining = Path(path)
        if remaining.exists() and remaining.stat().st_ino == made:
            remaining.unlink()


def _clear(path: str) -> None:
    """Remove a socket on which nobody listens; refuse where somebody does, or where it is no socket."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return
    if not stat.S_ISSOCK(mode):
        raise SourceError(f"{path}: exists and is no socket; name another path", retryable=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            Path(path).unlink(missing_ok=True)
            return
    raise SourceError(f"{path}: another process listens there", retryable=False)
