"""A disk that is really full, and a state that somebody has cut or flipped: it starts, says so, and loses no more."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.config.settings import Settings
from collector.model.clock import ManualClock
from tests.integration.live import Daemon, Hook, died, ndjson
from tests.unit.parts import T0, event, running

SIZE = "2m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "tmpfs", str(place)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def durable(daemon: Daemon) -> float:
    """Whether state is on the disk."""
    ((_, value),) = daemon.metrics()["tasktrail_state_durable"]
    return value


@pytest.mark.case("K18.1")
@pytest.mark.slow
def test_a_full_disk_that_is_freed_again(run: Callable[..., Daemon], told: Hook, small_disk: Path) -> None:
    """What happens meanwhile is told as ever, is on the disk once there is room, and survives a kill after that."""
    state = small_disk / "state"
    daemon = run("--state", str(state), "--notify", told.url)
    daemon.ask("/v1/events", ndjson(died("before", task="a.before")))
    daemon.wait(lambda: bool(daemon.firing("DeadLetter")), 60, "the first dead letter does not alert")
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    tasks = [f"a.task{number}" for number in range(5)]
    for task in tasks:
        assert daemon.ask("/v1/events", ndjson(died(task, task=task)))[0] == 200
    daemon.wait(lambda: durable(daemon) == 0, 60, "nobody says that the disk is full")
    heard = lambda: {one["labels"].get("task") for one in told.alerts}  # noqa: E731
    daemon.wait(lambda: heard() >= set(tasks), 60, "not all is told while the disk is full")
    assert daemon.ask("/-/healthy")[0] == 200
    ballast.unlink()
    daemon.wait(lambda: durable(daemon) == 1, 60, "it does not come back")
    written = ndjson(died("after", task="a.after"))
    assert daemon.ask("/v1/events", written)[0] == 200
    daemon.wait(lambda: "a.after" in heard(), 60, "the last is not told")
    daemon.wait(lambda: _taken(daemon, state), 60, "the last is on no checkpoint")
    daemon.end()

    again = run("--state", str(state), "--notify", told.url)
    dead = {one["labels"]["task"] for one in again.firing("DeadLetter")}
    assert dead >= {"a.before", "a.after", *tasks}
    counted = {labels["task"]: value for labels, value in again.metrics()["task_dead_lettered_total"]}
    assert counted == dict.fromkeys(["a.before", "a.after", *tasks], 1.0)


def _taken(daemon: Daemon, state: Path) -> bool:
    """Whether a checkpoint was written behind the last event: two more than there were."""
    del state
    metrics = daemon.metrics()
    ((_, at),) = metrics["tasktrail_checkpoint_time_seconds"]
    return at > daemon.source("http")["last_record_at"]


@pytest.mark.case("K18.1")
async def test_a_state_that_was_cut_or_flipped(tmp_path: Path) -> None:
    """Whatever was done to which of its files: it is up, healthy, ends in order, and what it kept makes sense."""
    whole = tmp_path / "whole"
    for life in range(2):
        async with running(Settings(state=str(whole)), clock=ManualClock(T0 + life)) as made:
            bodies = [event("started", f"{life}.{number}", T0, worker="w") for number in range(50)]
            bodies += [event("dead_lettered", f"{life}.0", T0, error="E")]
            await made.daemon.push(b"\n".join(bodies), "")
    chance = random.Random(8)
    for number in range(6):
        state = tmp_path / f"{number}"
        shutil.copytree(whole, state)
        victims = sorted(path for path in state.iterdir() if path.stat().st_size and path.name != "lock")
        for victim in chance.sample(victims, k=chance.randint(1, len(victims))):
            _harm(chance, victim)
        async with running(Settings(state=str(state)), clock=ManualClock(T0 + 2)) as made:
            assert made.daemon.trouble == ""
            await made.daemon.push(event("started", "new", T0 + 2, worker="w"), "")
            assert await made.daemon.task("new") is not None
            assert len(made.daemon.pipeline.stitcher) in {1, 51, 101}, "it is one of the states that there were"
        assert made.ended.result() == 0


def _harm(chance: random.Random, path: Path) -> None:
    """Cut its end off, empty it, or flip a few bits in it."""
    size = path.stat().st_size
    kind = chance.random()
    if kind < 0.4:
        os.truncate(path, chance.randrange(size))
    elif kind < 0.5:
        os.truncate(path, 0)
    else:
        content = bytearray(path.read_bytes())
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(size)] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
