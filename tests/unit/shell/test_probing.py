"""Probes at work: unknown is stale, and blinds rules; queues stay known; nothing is decided here."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

import pytest

from collector.model.clock import ManualClock
from collector.model.errors import SourceError
from collector.model.labels import Labels, labels_of
from collector.probes.reading import LAG, METRICS, Reading
from collector.series import celery
from collector.series.expose import HELP, families
from collector.shell.pipeline import Pipeline
from collector.shell.probing import BLIND_SECONDS, FORGET_SECONDS, REFUSED_SECONDS, Inventory, Probing
from collector.shell.ticker import Target
from collector.state.queues import Queues
from collector.state.store import open_store
from tests.unit.parts import T0, batch, event, pipeline

LONG = """
groups:
- name: g
  interval: 5s
  rules:
  - alert: Long
    expr: queue_length{state="ready"} > 10
    labels: {severity: page, owner: me}
"""


class Scripted:
    """A probe that says what it is told to; an exception in the place of lengths is raised."""

    def __init__(self, *looks: dict[str, int | None] | Exception) -> None:
        self.looks = list(looks)
        self.known: list[set[str]] = []
        self.closed = 0

    async def look(self, known: Iterable[str], now: float) -> Reading:  # noqa: ARG002
        """The next of its looks."""
        self.known.append(set(known))
        said = self.looks.pop(0)
        if isinstance(said, Exception):
            raise said
        reading = Reading()
        for queue, length in said.items():
            reading.depth(queue, {"ready": length})
        return reading

    async def close(self) -> None:
        """Note it."""
        self.closed += 1


def at_work(made: Pipeline, probe: Scripted, clock: ManualClock, **more: object) -> Probing:
    """A probe of source `s` on a pipeline."""
    given = {"inventory": Inventory("s", None), "named": made.queues, "is_celery": False, **more}
    return Probing(
        source="s",
        probe=probe,
        put=made.store.put,
        unseen=made.unseen,
        telemetry=made.telemetry,
        clock=clock,
        **given,
    )


def shown(made: Pipeline, name: str = "queue_length") -> dict[str, float]:
    """Queue → present value, of those that have one."""
    found: dict[str, float] = {}
    for series in made.store.select(name, ()):
        values, there = made.store.value(series, made.store.frontier)
        for number, labels in enumerate(series.labels):
            if there is None or there[number]:
                own = dict(labels)
                found[own.get("queue", own.get("queue_name", ""))] = float(values[number])
    return found


def turn(made: Pipeline, at: float) -> list[tuple[str, str]]:
    """Walk to an instant; the alerts that changed on the way."""
    return [
        (dict(alert.labels)["queue"], alert.state) for changed in made.advance(Target(at, at), at) for alert in changed
    ]


async def test_what_is_no_longer_said_ends():
    """A queue that is gone, and one whose length is not known this time, are stale at once, and not 0."""
    made, clock = pipeline(LONG), ManualClock(T0)
    probing = at_work(made, Scripted({"a": 1, "b": 2, "c": 3}, {"a": 4, "b": None}), clock)
    await probing.look()
    made.store.advance(T0)
    assert shown(made) == {"a": 1, "b": 2, "c": 3}
    clock.at += 10
    await probing.look()
    made.store.advance(T0 + 10)
    assert shown(made) == {"a": 4}
    assert made.unseen.queues == {"s": frozenset({"b"})}


async def test_a_rule_does_not_resolve_on_what_cannot_be_asked():
    """While the broker does not answer, the alert stays; once it is known that the queue is short, it ends."""
    made, clock = pipeline(LONG), ManualClock(T0)
    probing = at_work(made, Scripted({"a": 50}, SourceError("gone"), {"a": 0}), clock)
    await probing.look()
    assert turn(made, T0) == [("a", "firing")]
    clock.at += 10
    await probing.look()
    assert (shown(made), made.unseen.queues) == ({"a": 50}, {"s": frozenset({""})})
    assert turn(made, T0 + 10) == [("a", "firing")]  # as before, and blind
    assert shown(made) == {}
    assert [alert.state for alert in made.alerts()] == ["firing"]
    clock.at += 10
    await probing.look()
    assert turn(made, T0 + 20) == [("a", "resolved")]


async def test_nothing_ends_before_it_is_said_to_be_unknown():
    """Rules are evaluated between any two samples: none of them sees a queue that has ended and is believed."""
    made, clock = pipeline(LONG), ManualClock(T0)
    seen: list[frozenset[str]] = []
    probing = at_work(made, Scripted({"a": 1}, {"a": None}, {"a": 2}, SourceError("gone"), {"a": 2}), clock)
    put = probing.put

    def spy(name: str, labels: Labels, at: float, value: float) -> None:
        if name == "queue_length":
            seen.append(made.unseen.queues["s"])
        put(name, labels, at, value)

    probing.put = spy
    for _ in range(5):
        await probing.look()
    assert seen == [{""}, {"a"}, {"a"}, {""}, {""}]
    assert made.unseen.queues["s"] == set()


@pytest.mark.parametrize(
    ("expression", "is_blind"),
    [
        ("queue_length > 1", True),
        ('queue_length{source="s"} > 1', True),
        ('queue_length{source="other"} > 1', False),
        ('consumer_lag{queue="a"} > 1', True),
        ('celery_queue_length{queue_name="a"} > 1', True),
        ("tasktrail_probe_up == 0", False),
        ("task_contract_info > 1", False),
    ],
)
async def test_only_rules_that_could_read_what_is_unknown_are_blind(expression, is_blind):
    """By source, and by queue where only one is unknown."""
    rule = LONG.replace('queue_length{state="ready"} > 10', expression)
    made = pipeline(rule)
    (only,) = [one for group in made.ticker.groups for one in group.rules]
    assert not made.is_blind(only)
    made.unseen.queues["s"] = frozenset({""})
    assert made.is_blind(only) is is_blind
    made.unseen.queues["s"] = frozenset({"z"})
    assert made.is_blind(only) is (is_blind and '"a"' not in expression)
    made.unseen.queues["s"] = frozenset()
    assert not made.is_blind(only)


async def test_before_the_first_look_nothing_is_known():
    """An alert that was restored must not end because nobody has asked yet."""
    made, clock = pipeline(LONG), ManualClock(T0)
    started = asyncio.Event()

    class Slow(Scripted):
        async def look(self, known: Iterable[str], now: float) -> Reading:
            started.set()
            await asyncio.Event().wait()
            return await super().look(known, now)

    probe = Slow()
    running = asyncio.create_task(at_work(made, probe, clock).run())
    await started.wait()
    assert made.unseen.queues == {"s": frozenset({""})}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert probe.closed == 1


async def test_a_refusal_holds_up_no_rule():
    """Where asking is not allowed, it is said and asked seldom; rules of other sources resolve."""
    made, clock = pipeline(LONG), ManualClock(T0)
    probing = at_work(made, Scripted(SourceError("NOPERM", retryable=False), SourceError("gone"), {}), clock)
    assert await probing.look() == REFUSED_SECONDS
    assert made.unseen.queues == {"s": frozenset()}
    assert probing.says == "lengths of queues are not known: NOPERM"
    assert await probing.look() == probing.every
    assert made.unseen.queues == {"s": frozenset({""})}
    await probing.look()
    made.store.advance(T0)
    assert shown(made, "tasktrail_probe_up") == {"": 1}
    assert probing.says == ""


async def test_a_bug_of_ours_ends_one_probe_and_not_the_daemon():
    """What nobody expected is said with its place, counts as unknown, and is tried again."""
    made, clock = pipeline(LONG), ManualClock(T0)
    probe = Scripted(KeyError("odd"), {"a": 1})
    probing = at_work(made, probe, clock)
    assert await probing.look() == probing.every
    assert "KeyError('odd')" in probing.says
    assert "test_probing.py" in probing.says
    assert (made.unseen.queues, probe.closed) == ({"s": frozenset({""})}, 1)
    await probing.look()
    made.store.advance(T0)
    assert shown(made) == {"a": 1}


async def test_one_queue_that_stays_unknown_does_not_hold_rules_for_ever():
    """For an hour; when it was known again, the hour begins anew. A source that is down has no such end."""
    made, clock = pipeline(LONG), ManualClock(T0)
    odd: dict[str, int | None] = {"a": None, "b": 1}
    probing = at_work(made, Scripted(odd, odd, odd, {"a": 1}, odd, SourceError("gone")), clock)
    held = []
    for _ in range(5):
        await probing.look()
        held.append(made.unseen.queues["s"])
        clock.at += BLIND_SECONDS / 2
    assert held == [{"a"}, {"a"}, set(), set(), {"a"}]
    await probing.look()
    assert made.unseen.queues["s"] == {""}


async def test_celery_exporters_names_are_for_celery_and_for_what_waits():
    """`celery_queue_length` is the ready ones by `queue_name`; on /metrics only where that is asked for."""
    made, clock = pipeline(LONG), ManualClock(T0)
    await at_work(made, Scripted({"a": 7}), clock, is_celery=True).look()
    made.store.advance(T0)
    assert shown(made, "celery_queue_length") == {"a": 7}
    (series,) = made.store.select("celery_queue_length", ())
    assert series.labels == (labels_of({"queue_name": "a", "source": "s", "job": "celery-exporter"}),)
    assert "celery_queue_length" not in {family.name for family in families(made.store)}
    made.store.hosts.is_exposed = True
    assert "celery_queue_length" in {family.name for family in families(made.store)}
    assert METRICS | set(celery.PROBED.values()) <= HELP.keys()
    other = pipeline(LONG)
    await at_work(other, Scripted({"a": 7}), clock).look()
    assert shown(other, "celery_queue_length") == {}


async def test_queues_stay_known_over_a_restart(tmp_path):
    """A queue that held something is asked for by the next process, until a week after it was last found."""
    clock = ManualClock(T0)
    store = open_store(tmp_path, "x")
    memory = Queues(store)
    await at_work(pipeline(LONG), Scripted({"a": 7, "idle": 0}), clock, inventory=Inventory("s", memory)).look()
    assert await store.durable()
    store.close()

    store = open_store(tmp_path, "x")
    memory = Queues(store)
    probe = Scripted({"a": 0}, {"a": 0})
    clock.at += FORGET_SECONDS - 1
    assert Inventory("other", memory).queues == []
    again = at_work(pipeline(LONG), probe, clock, inventory=Inventory("s", memory))
    await again.look()
    clock.at += 2
    await again.look()
    assert probe.known == [{"a"}, {"a"}]
    assert await store.durable()
    assert Inventory("s", memory).queues == []
    store.close()


async def test_a_queue_that_events_name_is_asked_for():
    """Nobody needs to configure what tasks say themselves; other sources' queues are theirs."""
    made, clock = pipeline(LONG), ManualClock(T0)
    axis = made.axes[0]
    from collector.formats import native  # noqa: PLC0415

    made.ingest.count(axis, native.decode, batch([event("sent", "1", T0, queue="mail"), event("sent", "2", T0)]), T0)
    probe = Scripted({})
    await at_work(made, probe, clock).look()
    assert probe.known == [{"mail", "q"}]
    assert made.queues("other") == []


async def test_a_number_of_samples_is_put_in_steps():
    """Thousands of queues do not hold the loop: others have their turn between two steps."""
    made, clock = pipeline(LONG), ManualClock(T0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    before = turns
    await at_work(made, Scripted({f"q{number}": number for number in range(5_000)}), clock).look()
    counting.cancel()
    assert turns - before >= 5
    made.store.advance(T0)
    assert len(shown(made)) == 5_000


def test_unknown_is_not_zero():
    """A reading has no sample of what is not known, and none that is negative."""
    reading = Reading()
    reading.depth("a", {"ready": None, "unacked": 0}, oldest=-3.0)
    assert sorted((name, value) for (name, _), value in reading.samples.items()) == [
        ("queue_length", 0),
        ("queue_oldest_age_seconds", 0),
    ]
    assert reading.unknown == {"a"}
    assert not reading.queues
    assert LAG not in {name for name, _ in reading.samples}
    assert not any(math.isnan(value) for value in reading.samples.values())
