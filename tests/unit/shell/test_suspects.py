"""A record that ends the process: found by what each life notes, stepped over, and told of; no innocent one is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.formats import Decoded, native
from collector.model.clock import ManualClock
from collector.model.record import Batch
from collector.shell.axis import Axis
from collector.shell.intake import Lane
from collector.shell.suspects import FILE, MOST, NOTE, PAGE, Suspects
from tests.unit.parts import T0, batch, event, pipeline


class Died(BaseException):
    """Stands for what is no exception."""


def life(folder: Path, bodies: list[bytes], poison: bytes | None, first: int = 1) -> tuple[Lane, bool]:
    """One process that reads the same records from their stored position; whether it lived through them."""
    made = pipeline()

    def decode(wanted: Batch) -> Decoded:
        if poison in wanted.bodies:
            raise Died
        return native.decode(wanted)

    lane = Lane(Axis(name="s", application=""), decode, made.ingest, ManualClock(T0), made.telemetry, lambda: None)
    lane.suspects = Suspects(folder)
    taken = lane.take(batch(bodies, place="t/0", position=first + len(bodies)))
    try:
        taken.send(None)
        while True:
            taken.send(None)
    except StopIteration:
        return lane, True
    except Died:
        return lane, False


def bodies(count: int = 5) -> list[bytes]:
    """So many events."""
    return [event("started", f"{number}", T0) for number in range(count)]


def test_the_third_death_at_one_position_is_the_last(tmp_path: Path) -> None:
    """Two whole steps, then one record: from the fourth life on it is stepped over, kept and told, the others count."""
    written = bodies()
    for _ in range(3):
        assert not life(tmp_path, written, written[2])[1]
    for _ in range(2):  # also where a crash of another kind comes before the next checkpoint
        lane, lived = life(tmp_path, written, written[2])
        assert lived
        assert (lane.axis.totals.accepted, lane.axis.totals.malformed) == (4, 1)
        assert lane.axis.place("t/0").position == 6
        (kept,) = lane._telemetry.rejected
        assert (kept.reason, kept.place) == ("internal_error", "t/0")
        assert "record 3: the process has ended 3 times" in kept.detail
        assert '"task_id":"2"' in kept.first_bytes


def test_a_last_record_that_is_stepped_over_moves_the_position(tmp_path: Path) -> None:
    """Reading goes on behind it, though nothing else of its batch is left."""
    written = bodies(1)
    for _ in range(3):
        assert not life(tmp_path, written, written[0])[1]
    lane, lived = life(tmp_path, written, written[0])
    assert lived
    assert lane.axis.place("t/0").position == 2


def test_whoever_gets_on_is_not_suspected(tmp_path: Path) -> None:
    """Kills at random leave notes, too, but never three of the same records: nothing is left out."""
    for step in range(8):
        suspects = Suspects(tmp_path)
        one = batch([b"x"], place="t/0")
        one.receipts = [step]
        assert not suspects.wants_care(one)
        suspects.begin(one)
    other = batch([b"x"], place="t/1")
    other.receipts = [7]
    for _ in range(4):
        suspects = Suspects(tmp_path)
        assert not suspects.is_guilty(one, 0)
        assert not suspects.wants_care(other)
        suspects.begin(one)
        suspects.end()


def test_entry_ids_are_compared_by_their_numbers(tmp_path: Path) -> None:
    """999-2 lies between 999-1 and 999-10."""
    step = batch([b"x"] * 3, place="s")
    step.receipts = ["999-1", "999-2", "999-10"]
    for _ in range(2):
        Suspects(tmp_path).begin(step)
    within, behind = batch([b"x"], place="s"), batch([b"x"], place="s")
    within.receipts, behind.receipts = ["999-9"], ["1000-0"]
    suspects = Suspects(tmp_path)
    assert suspects.wants_care(within)
    assert not suspects.wants_care(behind)


@pytest.mark.parametrize("noise", [b"", b"\xff" * 10_000, b"\x05\0\0\0junk!", b"\x03\0\0\0\x91\xa1a"])
def test_notes_that_say_nothing_accuse_nobody(tmp_path: Path, noise: bytes) -> None:
    """Whatever lies where the notes should be: it starts, and remembers from then on."""
    for name in (NOTE, FILE):
        (tmp_path / name).write_bytes(noise)
    assert Suspects(tmp_path).died_in is None
    Suspects(tmp_path).begin(batch([b"x"]))
    assert Suspects(tmp_path).died_in is not None
    assert (tmp_path / NOTE).stat().st_size == PAGE


def test_a_note_that_is_no_file_is_an_error_at_once(tmp_path: Path) -> None:
    """A named pipe in its place does not hang the start."""
    os.mkfifo(tmp_path / NOTE)
    with pytest.raises(OSError, match="Invalid argument"):
        Suspects(tmp_path)


def test_suspects_are_bounded(tmp_path: Path) -> None:
    """Only the last places are remembered, and a name too long for a page is not noted."""
    for number in range(MOST + 20):
        Suspects(tmp_path).begin(batch([b"x"], place=f"t/{number}"))
    suspects = Suspects(tmp_path)
    assert len(suspects._known) == MOST
    suspects.begin(batch([b"x"], place="p" * PAGE))
    assert Suspects(tmp_path).died_in is None
