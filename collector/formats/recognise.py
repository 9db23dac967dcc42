"""A capture's records to the formats that read them: by how each was tapped, its place and its content.

Takes batches of one tap, whose records may be of several forms; gives what their formats give, in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from collector.formats.decoded import Decode, Decoded, Format
from collector.model.record import Batch


def recognising(formats: Mapping[str, Format], counts: Counter[str] | None = None) -> Decode:
    """A decoder of all `formats` at once. What is in none of them is ignored.

    `counts`: takes in how many records of captures were read in each form ("" for none).
    """
    decoders: dict[str, Decode] = {}

    def decode(batch: Batch) -> Decoded:
        if batch.about is None:
            return _decoder("native")(batch)
        out = Decoded([], [], [], channels=[])
        for name, start, end in _runs(formats, batch, batch.about):
            if counts is not None:
                counts[name] += end - start
            if name:
                append(out, _decoder(name)(part(batch, start, end)), start)
            else:
                out.ignored += end - start
        return out

    def _decoder(name: str) -> Decode:
        if name not in decoders:
            decoders[name] = formats[name].new()
        return decoders[name]

    return decode


def _runs(
    formats: Mapping[str, Format], batch: Batch, about: list[Mapping[str, Any]]
) -> Iterator[tuple[str, int, int]]:
    """Runs of records of one form: its name ("" for none), and from where to where."""

    def form(index: int) -> str:
        mine = (name for name, one in formats.items() if one.is_mine(batch.tap, about[index], batch.bodies[index]))
        return next(mine, "")

    for name, run in groupby(range(len(batch.bodies)), key=form):
        indexes = list(run)
        yield name, indexes[0], indexes[-1] + 1


def part(batch: Batch, start: int, end: int) -> Batch:
    """Some of a batch's records, as a batch."""
    return Batch(
        source=batch.source,
        place=batch.place,
        bodies=batch.bodies[start:end],
        receipts=batch.receipts[start:end],
        received_at=batch.received_at,
        times=None if batch.times is None else batch.times[start:end],
        fields=None if batch.fields is None else batch.fields[start:end],
        tap=batch.tap,
        about=None if batch.about is None else batch.about[start:end],
    )


def append(out: Decoded, decoded: Decoded, offset: int) -> None:
    """Add what was decoded of the records from `offset` on; `out` has lists of its own for sources and channels."""
    count = len(decoded.events)
    indexes = range(count) if decoded.sources is None else decoded.sources
    out.events += decoded.events
    assert out.sources is not None and out.channels is not None  # noqa: S101, PT018 it is ours
    out.sources += [index + offset for index in indexes]
    out.channels += decoded.channels or [""] * count
    out.rejects += [type(reject)(reject.index + offset, reject.reason, reject.detail) for reject in decoded.rejects]
    out.ignored += decoded.ignored
    if decoded.arguments:
        out.arguments = {**(out.arguments or {}), **decoded.arguments}
