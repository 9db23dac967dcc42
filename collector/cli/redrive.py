"""`tasktrail dead-letters redrive`: put dead messages back to where they came from. Off unless a target is named.

The daemon only reads brokers; this command is what writes, with credentials of its own, and only to the topics or
streams that `--target` names. It counts first, sends one, sees it succeed, then the rest at a rate. What it sends it
notes on the broker in the same step, so that the same command goes on where a killed one has stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from collector.cli import client, options
from collector.cli.redriven_on import KINDS, redriven_on
from collector.config.source_urls import SourceUrl, UrlError, parse_source
from collector.deadletter import redrive
from collector.deadletter.redrive import Kind, Letter, Plan
from collector.documents.scalars import parse_duration
from collector.model.errors import SourceError, TasktrailError
from collector.model.redrive import mark_of
from collector.model.shown import shown
from collector.redrive.message import GONE, Broker, Message, Place

PATH = "/api/dead-letters"
POLL_SECONDS = 1.0
AT_ONCE = 1_000
"""Records per page, and ids per verdict."""
_DEAD = ("dead_lettered", "failed")
"""States of a task in which it died: when it was sent, or again."""
_ENDS = {"succeeded": True, "rejected": False, "expired": False}
"""Other states in which it is known whether a redrive has helped, once the trail has been told of it since."""
_Ends: TypeAlias = frozenset[tuple[str, float, float]]
"""Kind, time and axis time of each fact of a trail that is its state: when it has ended."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `redrive`, besides ids and filters."""
    target = (
        "kafka://, redis-stream://, amqp://, dramatiq+redis:// or rq+redis://, with credentials that may write, and "
        "the topics, streams or queues to write to (globs)"
    )
    parser.add_argument("--target", required=True, metavar="URL", help=target)
    lies = "RabbitMQ: the queue in which messages lie whose record names only an exchange"
    parser.add_argument("--from", dest="lies_in", default="", metavar="QUEUE", help=lies)
    parser.add_argument("--rate", type=_rate, default=10.0, metavar="N", help="a second (%(default)g); 0: no limit")
    back = "a message that came back so often is left (%(default)d)"
    parser.add_argument("--limit", type=int, default=redrive.LIMIT, metavar="N", help=back)
    hand = "at most so many under way: sent, and not ended by their trails (%(default)d: no limit)"
    parser.add_argument("--concurrency", type=_count, default=0, metavar="N", help=hand)
    first = "send one, and wait so long for its success before the rest (%(default)s); 0s: do not"
    parser.add_argument("--canary", default="5m", metavar="TIME", help=first)


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 <= rate < math.inf:
        raise argparse.ArgumentTypeError("a rate is a number from 0")
    return rate


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError("a number from 0")
    return count


class Result(msgspec.Struct, kw_only=True):
    """What became of it."""

    sent: int = 0
    """By this call."""
    known: int = 0
    """Sent before, by a call that did not come to its end."""
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    canary: str = ""
    """The dead letter that was sent first; "" for none."""
    is_dry: bool = False
    stopped: str = ""
    """Why the rest was not sent; "" where it was."""


def main(arguments: argparse.Namespace, asked: dict[str, str]) -> int:
    """Exit code 0 where all that was meant is sent; 1 where some of it is not. `asked`: the filter."""
    url = _target(arguments.target)
    work = _Work(arguments, client.Client(arguments), asked)
    try:
        result = asyncio.run(work.run(redriven_on(url), KINDS[url.scheme], _targets(url)))
    except SourceError as error:
        raise TasktrailError(f"--target: {error}; the same command goes on from here") from error
    if arguments.json:
        client.show(msgspec.to_builtins(result))
    else:
        _tell(result)
    return 1 if result.stopped or (result.refused and not result.is_dry) else 0


def _tell(result: Result) -> None:
    done = "would be" if result.is_dry else "was" if result.sent == 1 else "were"
    print(f"{result.sent} {done} redriven")
    if result.known:
        print(f"{result.known} had been sent before, and are not sent again")
    for why, count in result.refused.most_common():
        print(f"{count} not: {shown(why)}")
    if result.stopped:
        print(shown(result.stopped), file=sys.stderr)


class _Work:
    """One call."""

    def __init__(self, arguments: argparse.Namespace, daemon: client.Client, asked: dict[str, str]) -> None:
        self._arguments = arguments
        self._daemon = daemon
        self._asked = asked
        self._result = Result(is_dry=arguments.dry_run)
        self._hand: dict[str, tuple[Letter, _Ends]] = {}
        """What is under way, where that is limited, and how its trail had ended before."""
        try:
            self._patience = parse_duration(arguments.canary)
        except ValueError as error:
            raise TasktrailError(f"--canary {arguments.canary}: {error}") from error
        if arguments.concurrency and self._patience <= 0:
            raise TasktrailError(
                "--concurrency waits until some have ended, for as long as --canary says: not with --canary 0s"
            )

    async def run(self, broker: Broker, kind: Kind, targets: Sequence[str]) -> Result:
        """Count, send one, then the rest. `targets`: globs. Raises SourceError and TasktrailError."""
        plan = redrive.plan(
            self._records(),
            kind,
            lambda name: any(fnmatchcase(name, glob) for glob in targets),
            self._arguments.lies_in,
            targets[0] if len(targets) == 1 else "",
        )
        self._result.refused = plan.refused
        try:
            await broker.open(writes=not self._arguments.dry_run)
            await self._send(broker, plan)
        finally:
            await broker.close()
        return self._result

    async def _send(self, broker: Broker, plan: Plan) -> None:
        sent = await broker.sent()
        known = [letter for letter in plan.letters if letter.id in sent]
        letters = [letter for letter in plan.letters if letter.id not in sent]
        self._result.known = len(known)
        if self._arguments.dry_run:
            for start in range(0, len(letters), redrive.LARGEST_BATCH):
                self._result.sent += len(await self._readable(broker, letters[start : start + redrive.LARGEST_BATCH]))
            return
        self._resolve(known)
        if self._patience > 0 and letters:
            letters = await self._canary(broker, letters)
        await self._rest(broker, letters)

    async def _rest(self, broker: Broker, letters: list[Letter]) -> None:
        """At the rate, and never more under way than are allowed."""
        rate, start = self._arguments.rate, 0
        while start < len(letters):
            began = time.monotonic()
            size = min(redrive.batch_size(rate), await self._room())
            if not size:
                self._result.stopped = (
                    f"stopped: of {len(self._hand)} under way none has ended within {self._arguments.canary}; "
                    f"{len(letters) - start} are left"
                )
                return
            part = letters[start : start + size]
            ready = await self._readable(broker, part)
            if ready:
                sent = {message.at.id for message, _ in ready}
                going = [letter for letter in part if letter.id in sent]
                if self._arguments.concurrency:
                    self._hand |= {letter.id: (letter, _ends(self._trail(letter))) for letter in going}
                await broker.send(ready)
                self._result.sent += len(going)
                self._resolve(going)
            start += size
            if rate > 0:
                await asyncio.sleep(max(0.0, len(part) / rate - (time.monotonic() - began)))

    async def _room(self) -> int:
        """How many may go now, once any may; 0: none of those under way has ended in time."""
        most = self._arguments.concurrency or math.inf
        until = time.monotonic() + self._patience
        while len(self._hand) >= most:
            self._hand = {name: one for name, one in self._hand.items() if self._became(*one) is None}
            if len(self._hand) >= most:
                if time.monotonic() >= until:
                    return 0
                await asyncio.sleep(POLL_SECONDS)
        return int(min(most - len(self._hand), redrive.LARGEST_BATCH))

    async def _canary(self, broker: Broker, letters: list[Letter]) -> list[Letter]:
        """Send the first that can be; the rest, once it has succeeded, else nothing."""
        while letters:
            first, *letters = letters
            ready = await self._readable(broker, [first])
            if ready:
                break
        else:
            return []
        before = _ends(self._trail(first))
        await broker.send(ready)
        self._result.sent, self._result.canary = 1, first.id
        is_good = await self._outcome(first, before)
        self._resolve([first])
        if is_good:
            return letters
        became = "has not succeeded yet" if is_good is None else "failed again"
        self._result.stopped = (
            f"stopped after one: {first.id} (task {first.task_id}) {became}; "
            f"{len(letters)} are left. Repair the cause, or call again with --canary 0s"
            f"{' and without --concurrency' if self._arguments.concurrency else ''}"
        )
        return []

    async def _outcome(self, letter: Letter, before: _Ends) -> bool | None:
        """Whether the canary has succeeded, once that is known; None where it is not in time."""
        until = time.monotonic() + self._patience
        while time.monotonic() < until:
            if (became := self._became(letter, before)) is not None:
                return became
            await asyncio.sleep(POLL_SECONDS)
        return None

    def _trail(self, letter: Letter) -> dict[str, Any]:
        return self._get(f"/api/tasks/{quote(letter.task_id, safe='')}") or {"state": "unknown", "events": []}

    def _became(self, letter: Letter, before: _Ends) -> bool | None:
        """Whether a redriven one has succeeded; None while that is not known. `before`: how it had ended when sent.

        A task that has succeeded and came again may lie there with the state of its success.
        """
        trail = self._trail(letter)
        state = trail["state"]
        if state in _ENDS and _ends(trail) - before:
            return _ENDS[state]
        if state not in _ENDS and state not in _DEAD:
            return None
        asked = urlencode({"task_id": letter.task_id, "source": letter.source, "limit": 1})
        newest = self._get(f"{PATH}?{asked}")["dead_letters"]
        has_died_again = bool(newest) and newest[0]["id"] != letter.id
        return False if has_died_again else None

    async def _readable(self, broker: Broker, letters: Sequence[Letter]) -> list[tuple[Message, str]]:
        """The messages that can be sent, with their marks; the others are counted by reason."""
        places = [
            Place(
                id=one.id,
                place=one.place,
                receipt=one.receipt,
                target=one.target,
                partition=one.partition,
                task_id=one.task_id,
            )
            for one in letters
        ]
        found = await broker.read(places)
        ready = []
        for letter in letters:
            message = found.get(letter.id)
            mark = redrive.mark(letter, mark_of(message.marked), self._arguments.limit) if message else GONE
            mark = message.refused if message and message.refused else mark
            if message is None or isinstance(mark, str):
                self._result.refused[str(mark)] += 1
            else:
                ready.append((message, str(mark)))
        return ready

    def _records(self) -> Iterator[dict[str, Any]]:
        """The records that are meant."""
        for name in self._arguments.ids:
            record = self._get(f"{PATH}/{quote(name, safe='')}")
            if record is None:
                raise TasktrailError(f"no dead letter {name} is remembered")
            yield record
        if not self._asked and self._arguments.ids:
            return
        if not self._asked:
            raise TasktrailError("which? name ids, or a filter such as --fingerprint, --task or --state unresolved")
        asked = {"state": "unresolved", **self._asked, "limit": str(AT_ONCE)}
        while True:
            page = self._get(f"{PATH}?{urlencode(asked)}") or {}
            yield from page["dead_letters"]
            if not page["next"]:
                return
            asked["after"] = page["next"]

    def _resolve(self, letters: Sequence[Letter]) -> None:
        """Tell the daemon. What it has forgotten meanwhile, or takes no verdict any more, is sent all the same."""
        said = {"actor": self._arguments.actor, "reason": self._arguments.reason, "ticket": self._arguments.ticket}
        ids = [letter.id for letter in letters]
        parts = [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
        while parts:
            part = parts.pop()
            try:
                self._daemon.ask("POST", f"{PATH}/resolve", {**said, "ids": part, "state": "redriven"})
            except client.RefusedError as error:
                if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                    raise
                if len(part) > 1:
                    parts += [[name] for name in part]

    def _get(self, path: str) -> Any:
        """The answer; None where there is no such thing."""
        try:
            return self._daemon.ask("GET", path)
        except client.RefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise


def _ends(trail: dict[str, Any]) -> _Ends:
    return frozenset((one["kind"], one["time"], one["at"]) for one in trail["events"] if one["kind"] == trail["state"])


def _target(text: str) -> SourceUrl:
    if text.partition(":")[0].lower() not in KINDS:
        message = f"only {', '.join(f'{name}://' for name in KINDS)} are redriven on"
        raise TasktrailError(f"--target: {message}; the runbook says what to do by hand elsewhere")
    try:
        return parse_source(text, {}, options.secret)
    except UrlError as error:
        raise TasktrailError(f"--target: {error}") from error


def _targets(url: SourceUrl) -> tuple[str, ...]:
    """Globs of the topics, streams or queues that may be written to."""
    return url.items or (tuple(url.path[-1].split(",")) if url.scheme.startswith("amqp") else ())
