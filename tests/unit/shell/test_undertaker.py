"""Dead letters of a running daemon: told once, judged once, whatever became of the process in between."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from collector.config.settings import Settings
from collector.deadletter.record import Verdict
from collector.formats import FORMATS
from collector.model.clock import ManualClock
from collector.model.contract import Contract, Contracts
from collector.series.expose import families
from collector.shell.ticker import Target
from collector.shell.undertaker import EXPIRES, LENGTH, OLDEST_AGE, UNREVIEWED_AGE, WRITE_SECONDS
from tests.unit.parts import T0, batch, event, pipeline, running, until

DISCARD = Verdict(state="discarded", actor="ann", reason="not needed")
DAY = 86_400.0


class Life:
    """One daemon after the other on one directory and one clock."""

    def __init__(self, folder: Path) -> None:
        (folder / "tasks.yaml").write_text(
            "tasks:\n- {match: a, semantics: must_complete, owner: shop, review_within: 1h}\n"
        )
        self.settings = Settings(state=str(folder / "state"), rules=("shipped",), tasks=str(folder / "tasks.yaml"))
        self.clock = ManualClock(T0)
        self.database = folder / "state" / "state.db"

    def start(self):
        """The next daemon."""
        return running(self.settings, clock=self.clock)

    def lose_windows(self) -> None:
        """As a crash before the first checkpoint would."""
        for checkpoint in Path(self.settings.state).glob("checkpoint*"):
            checkpoint.unlink()

    async def push(self, made, *bodies: bytes) -> None:
        """Count events, and let the daemon take them to the disk."""
        await made.daemon.push(b"\n".join(bodies), "application/x-ndjson")
        await made.daemon.turn()

    async def settle(self, made) -> None:
        """Time goes on until the sources have had their time to tell again what they had told."""
        self.clock.at += 31.0
        made.daemon.woken()
        await until(lambda: made.daemon._keeper._settles_until is None)
        await made.daemon.turn()


@pytest.fixture
def life(tmp_path):
    """A directory to live in."""
    return Life(tmp_path)


def died(task_id: str, at: float = T0, **fields) -> list[bytes]:
    """A task that was sent and dead-lettered."""
    return [event("sent", task_id, at), event("dead_lettered", task_id, at, error="ValueError", **fields)]


def open_count(made) -> float:
    """The gauge that rules read."""
    made.daemon.pipeline.ingest.observe()
    found = [one for one in families(made.daemon.pipeline.store) if one.name == "dead_letters_open"]
    return float(sum(one.values.sum() for one in found))


def told(made, name: str) -> list[str]:
    """What the history of a record says, after the next look at what became of it."""
    made.daemon.pipeline.undertaker.write(made.daemon.now() + 2 * WRITE_SECONDS)
    return [entry.reason for entry in made.daemon.ledger.history[name]]


def states(made) -> dict[str, str]:
    """State by task id."""
    return {one.task_id: one.state for one in made.daemon.ledger.records.values()}


def named(made, task_id: str) -> str:
    """The id of a task's record."""
    return next(one.id for one in made.daemon.ledger.records.values() if one.task_id == task_id)


async def test_a_death_is_on_record_with_owner_and_clock(life) -> None:
    """By the contract of its task; the error is that of the event."""
    async with life.start() as made:
        await life.push(made, *died("x", error_message="no row 7"))
        (one,) = made.daemon.ledger.records.values()
        assert (one.task, one.owner, one.review_by, one.error) == ("a", "shop", T0 + 3600.0, "ValueError")
        assert open_count(made) == 1


async def test_a_verdict_lowers_what_is_open_and_is_on_the_disk_when_it_is_answered(life) -> None:
    """Whoever has the answer can pull the plug."""
    async with life.start() as made:
        await life.push(made, *died("x"), *died("y"))
        made.daemon.judge(named(made, "x"), DISCARD)
        assert await made.daemon.unkept() == ""
        assert open_count(made) == 1
        with closing(sqlite3.connect(life.database)) as file:
            rows = file.execute("SELECT state, actor, reason FROM dead_letter_history ORDER BY number").fetchall()
        assert rows[-1] == ("discarded", "ann", "not needed")
        assert len(rows) == 3


@pytest.mark.parametrize("loses", [False, True], ids=["windows kept", "windows lost"])
async def test_after_a_restart_each_is_there_once_and_verdicts_hold(life, loses) -> None:
    """Also where what was counted is lost, and where the source tells all of it again."""
    async with life.start() as made:
        await life.push(made, *died("x"), *died("y"), *died("z"))
        made.daemon.judge(named(made, "x"), DISCARD)
        before = dict(made.daemon.ledger.records)
    if loses:
        life.lose_windows()
    async with life.start() as made:
        assert made.daemon.ledger.records == before
        await life.push(made, *died("x"), *died("y"))
        assert states(made) == {"x": "discarded", "y": "open", "z": "open"}
        await life.settle(made)
        assert made.daemon.ledger.records == before
        assert open_count(made) == 2
        await life.push(made, event("succeeded", "z", T0 + 40.0))
        assert (open_count(made), states(made)["y"]) == (1, "open")
    async with life.start() as made:
        assert (open_count(made), states(made)) == (1, {"x": "discarded", "y": "open", "z": "redriven"})


async def test_what_only_the_windows_know_is_taken_down_at_the_start(life) -> None:
    """A ledger that is lost, or that came with a newer version, begins with what is open."""
    async with life.start() as made:
        await life.push(made, *died("x"))
    with closing(sqlite3.connect(life.database)) as file, file:
        file.execute("DELETE FROM dead_letters")
        file.execute("DELETE FROM dead_letter_history")
    async with life.start() as made:
        assert states(made) == {"x": "open"}
        (one,) = made.daemon.ledger.records.values()
        assert (one.task, one.owner, one.error) == ("a", "shop", "ValueError")
        assert open_count(made) == 1


async def test_a_damaged_row_costs_no_other(life) -> None:
    """What cannot be read is passed over."""
    async with life.start() as made:
        await life.push(made, *died("x"), *died("y"))
        bad = named(made, "x")
    with closing(sqlite3.connect(life.database)) as file, file:
        file.execute("UPDATE dead_letters SET value = x'00' WHERE id = ?", (bad,))
        file.execute("UPDATE dead_letter_history SET state = 'nonsense' WHERE id = ?", (bad,))
    life.lose_windows()
    async with life.start() as made:
        assert states(made) == {"y": "open"}


NAMES = (UNREVIEWED_AGE, LENGTH, OLDEST_AGE, EXPIRES)


def samples(made, at: float) -> dict[str, float]:
    """What rules read of ages and times at an instant, by metric."""
    found = {}
    for series in (one for name in NAMES for one in made.store.select(name, ())):
        values, there = made.store.value(series, at)
        if there is None or there.any():
            found[series.name] = float(values[0])
    return found


def test_ages_and_times_are_written_for_rules_and_end_with_their_reason() -> None:
    """How long the oldest has waited, how many lie there, and when the first is deleted; absent once there is none."""
    made = pipeline(contracts=Contracts([Contract(match="*", semantics="must_complete")]))
    message = msgspec.json.encode(
        {"queue_name": "q", "actor_name": "a", "message_id": "m", "message_timestamp": T0 * 1000, "args": [],
         "kwargs": {}, "options": {}}
    )  # fmt: skip
    about = {"queue": "q.XQ", "exchange": "", "routing_key": "q.XQ",
             "headers": {"x-death": [{"queue": "q", "reason": "rejected", "count": 1}]}}  # fmt: skip
    decode = FORMATS["dramatiq"].new()
    made.ingest.count(made.axes[0], decode, batch([message], tap="amqp-get", about=[about]), T0)
    made.undertaker.write(T0 + 100.0)
    assert samples(made, T0 + 100.0) == {
        UNREVIEWED_AGE: 100.0,
        LENGTH: 1.0,
        OLDEST_AGE: 100.0,
        EXPIRES: 7 * DAY - 100.0,
    }
    (name,) = made.undertaker.ledger.records
    made.undertaker.judge(name, DISCARD, T0 + 101.0)
    made.undertaker.write(T0 + 100.0 + WRITE_SECONDS)
    assert samples(made, T0 + 100.0 + WRITE_SECONDS) == {}


def test_many_tasks_are_written_some_at_a_time(monkeypatch) -> None:
    """So that no step is long; each of them gets its turn, and its end."""
    monkeypatch.setattr("collector.shell.undertaker.MOST_WRITTEN", 2)
    made = pipeline()
    bodies = [event("dead_lettered", f"t{number}", T0, task=f"a{number}") for number in range(5)]
    made.ingest.count(made.axes[0], FORMATS["native"].new(), batch(bodies), T0)

    def waiting(at: float) -> int:
        for _ in range(3):
            made.undertaker.write(at)
        (series,) = made.store.select(UNREVIEWED_AGE, ())
        values, there = made.store.value(series, at)
        return len(values) if there is None else int(there.sum())

    assert waiting(T0 + 1.0) == 5
    for name in list(made.undertaker.ledger.records)[:4]:
        made.undertaker.judge(name, DISCARD, T0 + 2.0)
    assert waiting(T0 + 1.0 + WRITE_SECONDS) == 1


def test_what_is_open_is_counted_again_some_at_a_time(monkeypatch) -> None:
    """So that the first turn of a process with many of them is as short as others; each counts once."""
    monkeypatch.setattr("collector.shell.undertaker.MOST_RECOUNTED", 2)
    made = pipeline()
    bodies = [event("dead_lettered", f"t{number}", T0) for number in range(5)]
    made.ingest.count(made.axes[0], FORMATS["native"].new(), batch(bodies), T0)
    names = list(made.undertaker.ledger.records)
    made.undertaker.judge(names[0], DISCARD, T0)
    other = pipeline()
    kept = made.undertaker.ledger
    other.undertaker.ledger.restore(kept.records.values(), [one for each in kept.history.values() for one in each])
    assert [other.undertaker.recount() for _ in range(4)] == [False, False, True, False]
    assert {death.task_id for death in other.undertaker._deaths.open()} == {f"t{number}" for number in range(1, 5)}
    assert len(other.undertaker.out.codes) == 4


async def test_a_task_that_died_again_after_its_verdict_counts_again(life) -> None:
    """The verdict was about the first time."""
    async with life.start() as made:
        await life.push(made, *died("x"))
        made.daemon.judge(named(made, "x"), DISCARD)
        await life.push(made, *died("x", T0 + 2.0))
        life.clock.at += 10.0
        await made.daemon.turn()
        assert [one.state for one in made.daemon.ledger.records.values()] == ["discarded", "open"]
        assert open_count(made) == 1


@pytest.mark.case("K13.1")
def test_one_message_that_dies_again_and_again_is_one_record() -> None:
    """Each time put back by a client, so that the broker's own count stays at 1: our counter has all three."""
    made = pipeline()
    bodies = [event("dead_lettered", "m", T0 + number, error="ValueError", attempt=1) for number in range(3)]
    for body in bodies:
        made.ingest.count(made.axes[0], FORMATS["native"].new(), batch([body]), T0)
    for _ in made.advance(Target(T0 + 60.0)):
        pass
    made.store.advance(T0 + 60.0)
    assert [one.state for one in made.undertaker.ledger.records.values()] == ["open"]
    found = {one.name: float(one.values.sum()) for one in families(made.store)}
    assert (found["task_dead_lettered_total"], found["dead_letters_open"]) == (3.0, 1.0)


def test_what_ended_is_told_again_together_with_the_next_death() -> None:
    """After a crash a whole batch comes again: the death whose end is on record does not take the later one down."""
    lives = [*died("x"), event("sent", "x", T0 + 2.0), *died("x", T0 + 2.0, attempt=1)[1:]]
    before = pipeline()
    for body in lives[:3]:
        before.ingest.count(before.axes[0], FORMATS["native"].new(), batch([body]), T0 + 3.0)
    kept = before.undertaker.ledger
    assert [one.state for one in kept.records.values()] == ["redriven"]
    made = pipeline()
    made.undertaker.ledger.restore(kept.records.values(), [one for each in kept.history.values() for one in each])
    made.ingest.count(made.axes[0], FORMATS["native"].new(), batch(lives), T0 + 3.0)
    for _ in made.advance(Target(T0 + 60.0)):
        pass
    made.store.advance(T0 + 60.0)
    assert [one.state for one in made.undertaker.ledger.records.values()] == ["redriven", "open"]
    assert {one.name: float(one.values.sum()) for one in families(made.store)}["dead_letters_open"] == 1.0


async def test_the_time_for_a_review_pages_and_an_ack_ends_it(life) -> None:
    """By the shipped rules and the contract of the task: nobody has to write anything."""
    async with life.start() as made:
        await life.push(made, *died("x"))

        def firing() -> list[str]:
            return [dict(one.labels)["alertname"] for one in made.daemon.alerts() if one.state == "firing"]

        async def later(seconds: float) -> None:
            life.clock.at = T0 + seconds
            made.daemon.woken()
            await until(lambda: made.daemon._sampled_at == life.clock.at)
            await made.daemon.turn()

        await later(3_500.0)
        assert "DeadLettersUnreviewed" not in firing()
        await later(3_630.0)
        await until(lambda: "DeadLettersUnreviewed" in firing())
        made.daemon.judge(named(made, "x"), msgspec.structs.replace(DISCARD, state="acknowledged"))
        await later(3_660.0)
        await later(3_690.0)
        await until(lambda: "DeadLettersUnreviewed" not in firing())
        assert "DeadLetter" in firing()


async def test_what_becomes_of_a_redriven_one_is_written_down(life) -> None:
    """That it succeeded, though its trail was forgotten when it was sent; that it died once more; each once."""
    redriven = Verdict(state="redriven", actor="ann", reason="fixed")
    async with life.start() as made:
        await life.push(made, *died("m1"), *died("m2"))
        stitcher = made.daemon.pipeline.stitcher
        first, second = (made.daemon.ledger.latest("http", name).id for name in ("m1", "m2"))
        await life.settle(made)
        life.clock.at += 2_000.0
        made.daemon.woken()
        await until(lambda: stitcher.reader.find("m1") is None)
        for name in (first, second):
            made.daemon.judge(name, redriven)
        at = life.clock.at
        await life.push(made, event("sent", "m1", at), event("sent", "m2", at))
        assert told(made, first) == ["dead-lettered", "fixed"]
        again = event("dead_lettered", "m2", at + 1, error="ValueError")
        await life.push(made, event("succeeded", "m1", at + 1), again)
    async with life.start() as made:
        for _ in range(2):
            assert told(made, first) == ["dead-lettered", "fixed", "its task succeeded later"]
            assert told(made, second) == ["dead-lettered", "fixed", "its task died once more"]
        assert [one.state for one in made.daemon.ledger.records.values()] == ["redriven", "redriven", "open"]


def test_where_a_nameless_one_lies_is_kept_until_it_has_a_name() -> None:
    """Its place tells no name; a second word about it, from no place, does not take the place away."""
    made = pipeline()
    nameless = msgspec.json.encode({"kind": "dead_lettered", "task_id": "n", "time": T0})
    message = nameless.replace(b"_", b"\\u005f", 1)  # no word of an event in it: it passes for the message itself
    from_place = batch([message], place="jobs.dlt/0", tap="kafka", about=[{}])
    made.ingest.count(made.axes[0], FORMATS["native"].new(), from_place, T0)
    made.ingest.count(made.axes[0], FORMATS["native"].new(), batch([nameless]), T0)
    made.ingest.count(made.axes[0], FORMATS["native"].new(), batch([event("sent", "n", T0 - 1.0)]), T0)
    for _ in made.advance(Target(T0 + 60.0)):
        pass
    (one,) = made.undertaker.ledger.records.values()
    assert (one.task, one.found.place, one.found.receipt) == ("a", "jobs.dlt/0", "1")
