"""A fuzzer of everything that reads bytes of others: records of the captures, torn, swollen and mixed.

`python -m tests.fuzz 1000000 [SEED]` for people (`make fuzz`); the tests run a smaller number. What it holds: nothing
but what a decoder declares is raised, every reject has a reason of the closed list, no record becomes events without
bound, and none takes more than its share of CPU.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import msgspec

from collector.bench.load import messages
from collector.formats import FORMATS, REASONS, Decode, mapping
from collector.formats.arguments import READERS as CALLS
from collector.formats.arguments import showing
from collector.formats.capture import lines, unpack
from collector.formats.recognise import recognising
from collector.model.errors import TooManyError
from collector.model.record import Batch
from collector.shell.axis import Axis
from collector.shell.pipeline import Limits, Pipeline
from collector.shell.telemetry import Telemetry
from collector.shell.ticker import Target
from collector.sources import push, push_spans
from collector.sources.lines import LineSplitter
from collector.trail.keep import Bounds
from tests.unit.formats import mangled
from tests.unit.formats.mangled import AT, Record

AT_ONCE = 100
"""Inputs that are read together."""
MOST_SECONDS = 0.05
"""CPU of one input; on machines of others (`CI`) with a margin for what they do besides."""
MARGIN = 5 if os.environ.get("CI") else 2
MOST_TOLD = 2000
"""Events and rejects of one record, but for lists of ours."""
SWELLINGS = (50_000, 200_000, 1_000_000)
"""Bytes to which a piece of a body is repeated."""
COLLECTING = (50_000, 20, 100)
"""When the garbage collector has its turn: as in the daemon."""

MAPPED = mapping.decoder(
    mapping.Mapped(
        fields={
            "kind": mapping.Rule(path=mapping.parse_path("kind"), values={"done": "succeeded"}, otherwise="keep"),
            "task_id": mapping.Rule(path=mapping.parse_path("task_id")),
            "time": mapping.Rule(path=mapping.parse_path("time"), unit="ms"),
            "attempt": mapping.Rule(path=mapping.parse_path("opts.attempts"), add=1),
            "task": mapping.Rule(header="ce_type"),
        }
    )
)


def torn(chance: random.Random, record: Record) -> Record:
    """The record with something wrong in its bytes, or now and then in what they say, or grown without measure."""
    kind = chance.random()
    if kind < 0.3:
        return mangled.mangle(chance, record)
    tap, about, body, fields, at = record
    if fields and kind < 0.6:
        name = chance.choice(list(fields))
        fields = {
            **fields,
            name: bytes_wrong(chance, fields[name].encode("utf-8", "replace")).decode("utf-8", "surrogateescape"),
        }
        return tap, about, body, fields, at
    return tap, about, (swollen if kind > 0.995 else bytes_wrong)(chance, body), fields, at


def bytes_wrong(chance: random.Random, raw: bytes) -> bytes:
    """One to three cuts, insertions, flips or doublings."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(raw) + 1)
        to = min(len(raw), at + chance.choice((0, 1, 1, 2, 8, 40)))
        raw = (
            raw[:at] + chance.choice((b"", chance.randbytes(to - at), raw[at:to] * 2, chance.choice(PIECES))) + raw[to:]
        )
    return raw


PIECES = (b'"', b"{", b"[", b"]", b"}", b"\\", b"\\u0000", b"\0", b"\xff", b"null", b"1e999", b"-", b",", b":",
          b"9" * 40, b"9" * 400, b"\x80\x04", b"\x95", b"\xdd\x7f\xff\xff\xff", b"\x0a\x00", b"\n", b"NaN",
          b"\\ud800", b"[1],", b'{"a":1},', b'"k":1,', b"password=x ")  # fmt: skip


def swollen(chance: random.Random, raw: bytes) -> bytes:
    """A piece of it, repeated until it is large: deep nesting, long texts, lists and maps of the same."""
    at = chance.randrange(len(raw) + 1)
    piece = chance.choice((raw[at : at + chance.randint(1, 60)], *PIECES)) or b"["
    return raw[:at] + piece * (chance.choice(SWELLINGS) // len(piece)) + raw[at:]


def batch_of(chance: random.Random, name: str, count: int) -> Batch:
    """So many records of one tap of a format: in their order and a few of them torn, or in none and most of them."""
    listed = native() if name == "native" else chance.choice(mangled.records()[name])
    tap = chance.choice(listed)[0]
    whole = [one for one in listed if one[0] == tap]
    if chance.random() < 0.5:
        start, share = chance.randrange(len(whole)), 0.2
        several = [whole[(start + number) % len(whole)] for number in range(count)]
    else:
        share = 0.9
        several = chance.choices(whole, k=count)
    several = [torn(chance, one) if chance.random() < share else one for one in several]
    _, abouts, bodies, fields, times = (list(column) for column in zip(*several, strict=True))
    return Batch(
        source="s",
        place="p/0",
        bodies=bodies,
        receipts=list(range(count)),
        received_at=AT,
        times=times,
        fields=fields,
        tap=tap,
        about=abouts,
    )


@cache
def native() -> list[Record]:
    """Events of ours, as a hook writes them."""
    bodies = [*messages(200, AT), *(msgspec.msgpack.encode(msgspec.json.decode(one)) for one in messages(50, AT))]
    return [("native", {}, body, None, AT) for body in [*bodies, b"[" + b",".join(bodies[:5]) + b"]"]]


def decoded(decode: Decode, batch: Batch, where: str) -> None:
    """What the format makes of it is within its promises."""
    out = decode(batch)
    unknown = {reject.reason for reject in out.rejects} - set(REASONS)
    assert not unknown, (where, unknown)
    told = len(out.events) + len(out.rejects)
    assert told <= MOST_TOLD * len(batch.bodies), (where, told)


def captured(batch: Batch) -> None:
    """The records as lines of a capture, torn once more and unpacked."""
    chance = random.Random(len(batch.bodies[0]))
    with suppress(UnicodeEncodeError, ValueError):  # what cannot be written down is none of the reader's
        written = [bytes_wrong(chance, line) for line in lines(batch)]
        unpack(Batch(source="s", place="p", bodies=written, receipts=range(len(written)), received_at=AT))


def mapped(batch: Batch) -> None:
    """Any JSON, by a mapping."""
    decoded(MAPPED, batch, "mapping")


def pushed(batch: Batch) -> None:
    """The bodies as pushes, in every way that a push may come."""
    splitter = LineSplitter(1000)
    for body in batch.bodies:
        splitter.feed(body)
        for content_type in ("", "application/json", "application/msgpack"):
            with suppress(TooManyError):
                push.split(body, content_type)
        for is_json in (False, True):
            with suppress(TooManyError):
                export = push_spans.taken_apart(body, is_json=is_json)
                for bodies in export.steps() if export else ():
                    assert bodies
    splitter.rest()


class Whole:
    """All of it, as in the daemon: decoded, stitched, observed, and let go in time."""

    def __init__(self) -> None:
        self._pipeline = Pipeline(Limits(bounds=Bounds(open_trails=2000)), (), telemetry=Telemetry())
        self._pipeline.axes.append(Axis(name="s", application="", is_up=True, was_tried=True))
        self._decode = recognising(FORMATS)
        self._at = AT

    def __call__(self, batch: Batch) -> None:
        """Nothing of our own code fails on it, whatever it says."""
        batch.received_at = self._at = self._at + 1.0
        pipeline = self._pipeline
        pipeline.ingest.count(pipeline.axes[0], self._decode, batch, self._at)
        for _ in pipeline.advance(Target(self._at - 10.0)):
            pass
        failed = [one for one in pipeline.telemetry.rejected if one.reason == "internal_error"]
        assert not failed, failed[0]


READERS: dict[str, tuple[str, Callable[[Batch], None]]] = {
    **{name: (name, lambda batch, name=name: decoded(FORMATS[name].new(), batch, name)) for name in FORMATS},
    **{
        f"arguments {name}": (name, lambda batch, name=name: decoded(showing(FORMATS[name].new(), name), batch, name))
        for name in CALLS
    },
    "mapping": ("native", mapped),
    "capture": ("celery", captured),
    "push": ("otlp", pushed),
    **{f"whole {name}": (name, Whole()) for name in FORMATS},
}
"""What is read by whom: a name → the format whose records are torn for it, and the reader."""


def spent(read: Callable[[Batch], None], batch: Batch) -> float:
    """CPU seconds."""
    began = time.process_time()
    read(batch)
    return time.process_time() - began


def slow(read: Callable[[Batch], None], batch: Batch) -> list[bytes]:
    """The bodies that take too long by themselves, time and again."""
    found = []
    for index in range(len(batch.bodies)):
        alone = Batch(
            source="s",
            place=batch.place,
            bodies=batch.bodies[index : index + 1],
            receipts=[0],
            received_at=AT,
            times=batch.times[index : index + 1] if batch.times else None,
            fields=batch.fields[index : index + 1] if batch.fields else None,
            tap=batch.tap,
            about=batch.about[index : index + 1] if batch.about else None,
        )
        if min(spent(read, alone) for _ in range(3)) > MARGIN * MOST_SECONDS:
            found.append(alone.bodies[0])
    return found


def fuzz(inputs: int, seed: int) -> dict[str, int]:
    """Read so many inputs over all readers; how many each had. AssertionError, or what a reader raised."""
    counts = dict.fromkeys(READERS, 0)
    usual = gc.get_threshold()
    gc.set_threshold(*COLLECTING)
    try:
        for turn in range(-(-inputs // AT_ONCE)):
            name = list(READERS)[turn % len(READERS)]
            one_turn(name, turn, seed)
            counts[name] += AT_ONCE
    finally:
        gc.set_threshold(*usual)
    return counts


def one_turn(name: str, turn: int, seed: int) -> None:
    """Some inputs for one reader."""
    form, read = READERS[name]
    batch = batch_of(random.Random(f"{seed}/{turn}"), form, AT_ONCE)
    try:
        if spent(read, batch) > MOST_SECONDS:
            gc.collect()  # it was not the collector's turn that took the time
            assert not (found := slow(read, batch)), (name, [body[:200] for body in found])
    except BaseException:
        print(f"fuzz: seed {seed}, turn {turn}, {name}", file=sys.stderr)
        raise


def main() -> None:
    """As many as the command line says."""
    logging.getLogger("tasktrail").setLevel(logging.CRITICAL)
    inputs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    print(f"fuzz: {inputs} inputs, seed {seed}")
    for name, count in fuzz(inputs, seed).items():
        print(f"{name:16} {count}")


if __name__ == "__main__":
    main()
