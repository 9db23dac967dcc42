"""The truth generator: what it promises of its lines, checked on the lines themselves."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from collector.formats import native
from collector.model.event import Event
from collector.model.record import Batch
from tests.truth import generator, malformed, scenarios
from tests.truth.generator import EPOCH, LATEST, Line, Truth, generate

EVENTS = 8000
FINAL = ("succeeded", "dead_lettered", "failed", "rejected", "revoked", "expired")  # the highest first
OPEN = ("sent", "received", "started", "retrying")


@pytest.fixture(scope="module")
def stream() -> tuple[list[Line], Truth]:
    """A small stream; all scenarios occur in it."""
    return generate(seed=7, events=EVENTS)


@pytest.fixture(scope="module")
def facts(stream) -> list[Event]:
    """The good lines, in delivery order, as the format reads them."""
    bodies = [line.body for line in stream[0] if line.key]
    batch = Batch(source="s", place="p", bodies=bodies, receipts=list(range(len(bodies))), received_at=EPOCH)
    out = native.decode(batch)
    assert not out.rejects
    assert len(out.events) == len(bodies)
    return out.events


def test_the_same_seed_gives_the_same_bytes(stream):
    """A failure can be run again; another seed is another stream."""
    assert generate(seed=7, events=EVENTS) == stream
    assert generate(seed=8, events=EVENTS)[0] != stream[0]


def test_it_has_the_shares_it_promises(stream):
    """So many lines, of them 5% repeats and 1% malformed."""
    lines, truth = stream
    assert len(lines) == truth.read == EVENTS
    assert (truth.duplicate, truth.malformed) == (400, 80)
    assert truth.accepted == EVENTS - 480
    assert sum(not line.key for line in lines) == 80


def test_every_task_runs_in_every_queue(stream):
    """40 tasks times 3 queues."""
    assert len(set(scenarios.TASKS)) == 40
    assert set(stream[1].series) == {(task, queue) for task in scenarios.TASKS for queue in scenarios.QUEUES}


def test_the_accepted_lines_are_the_distinct_ones(stream, facts):
    """A repeat is the same bytes again, and no two facts of one id have the same kind and time."""
    lines, truth = stream
    assert len({line.body for line in lines if line.key}) == truth.accepted
    assert len({(event.task_id, event.kind, event.time) for event in facts}) == truth.accepted


def test_counts_agree_with_the_lines(stream, facts):
    """Summed over all tasks, distinct lines of a kind are what the truth says of it; a success is first or further."""
    counted: Counter[str] = Counter()
    for counts in stream[1].tasks.values():
        counted.update(counts)
    redelivered = counted.pop("redelivered")
    counted["succeeded"] += counted.pop("duplicate_success")
    assert counted == Counter(kind for kind, _, _ in {(event.kind, event.task_id, event.time) for event in facts})
    assert 0 < redelivered < counted["started"] / 20


def test_tasks_and_series_say_the_same(stream):
    """The counts of a task are those of its queues."""
    truth = stream[1]
    for task, counts in truth.tasks.items():
        total: Counter[str] = Counter()
        for queue in scenarios.QUEUES:
            total.update(truth.series[task, queue])
        assert total == counts


def test_lines_come_late_by_less_than_the_grace(stream):
    """5% of the facts come behind later ones, none by more than the bound. Repeats may come later still."""
    newest, late, seen = 0.0, 0, set()
    for line in stream[0]:
        if line.key and line.body not in seen:
            seen.add(line.body)
            late += line.time < newest
            assert line.time > newest - LATEST
            newest = max(newest, line.time)
    assert 0.04 < late / stream[1].accepted < 0.06


def test_malformed_lines_have_their_reasons(stream):
    """At least twenty kinds, each on one line, each rejected by the reason in the truth."""
    assert len(malformed.KINDS) >= 20
    bodies = [line.body for line in stream[0] if not line.key]
    assert not any(b"\n" in body for body in bodies)
    batch = Batch(source="s", place="p", bodies=bodies, receipts=list(range(len(bodies))), received_at=EPOCH)
    out = native.decode(batch)
    assert not out.events
    assert Counter(reject.reason for reject in out.rejects) == stream[1].reasons


def test_states_agree_with_the_facts_of_the_last_life(stream, facts):
    """The highest final fact after the last `sent` decides; without one the task is under way."""
    by_id: dict[str, list[Event]] = {}
    for event in sorted(facts, key=lambda event: event.time or 0.0):
        by_id.setdefault(event.task_id, []).append(event)
    assert by_id.keys() == stream[1].states.keys()
    for task_id, events in by_id.items():
        kinds = [event.kind for event in events]
        life = kinds[len(kinds) - 1 - kinds[::-1].index("sent") :] if "sent" in kinds else kinds
        final = next((kind for kind in FINAL if kind in life), None)
        state = stream[1].states[task_id]
        assert state == final if final else state in OPEN, events
        assert stream[1].last[task_id] == events[-1].time


def test_every_scenario_occurs_and_phases_are_of_known_tasks(stream):
    """Nothing in the tables is dead."""
    assert {phase.task for phase in generator.PHASES} <= set(scenarios.TASKS)
    assert set(stream[1].states.values()) == {*FINAL, *OPEN}
    assert stream[1].dead_letters_open == sum(state == "dead_lettered" for state in stream[1].states.values())


def test_the_command_writes_the_lines_and_their_truth(tmp_path, capsys):
    """What the daemon reads from the file is the stream, in its order."""
    generator.main(["--seed", "7", "--events", "1000", "-o", str(tmp_path / "f"), "--truth", str(tmp_path / "t")])
    lines, truth = generate(seed=7, events=1000)
    assert (tmp_path / "f").read_bytes().splitlines() == [line.body for line in lines]
    assert json.loads((tmp_path / "t").read_text())["tasks"] == truth.tasks
    assert "1000 lines of seed 7" in capsys.readouterr().out
