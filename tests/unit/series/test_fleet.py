"""Workers as series: counted by class, unknown while their source is, gone with their class."""

from __future__ import annotations

import math

import pytest

from collector.formats import native
from collector.model.event import Event
from collector.series.expose import families
from collector.series.fleet import class_of
from collector.shell.pipeline import Pipeline
from collector.shell.ticker import Target
from tests.unit.parts import T0, batch, pipeline


@pytest.mark.parametrize(
    ("worker", "kind"),
    [
        ("celery@host-1", "celery"),
        ("mailer-7d9f4-2", "mailer"),
        ("mailer-7d9f4-xk2lp", "mailer"),
        ("worker03", "worker"),
        ("rq:worker:9f3a", "rq:worker"),
        ("17", "17"),
        ("@a", "@a"),
        ("a-" * 500, "a-" * 499 + "a"),
    ],
)
def test_a_class_is_a_name_without_host_number_and_hash(worker, kind):
    """What differs from one replica to the next is no label."""
    assert class_of(worker) == kind


def told(made: Pipeline, name: str) -> dict[str, float]:
    """Class → value of a metric."""
    found = {one.name: one for one in families(made.store)}.get(name)
    return (
        {dict(labels)["class"]: value for labels, value in zip(found.labels, found.values.tolist(), strict=True)}
        if found
        else {}
    )


def sign(kind: str, worker: str, at: float, active: int | None = None) -> Event:
    """A sign of life, and how many tasks it has."""
    labels = None if active is None else {"active": str(active)}
    return Event(kind=kind, task_id="", worker=worker, time=T0 + at, labels=labels)


def test_workers_are_counted_by_class():
    """Those that are up, and the tasks that they say they have; one that leaves is no longer up."""
    made = pipeline()
    signs = [sign("heartbeat", f"pay-{n}@h{n}", at, n) for at in range(0, 20, 2) for n in (1, 2)]
    signs += [sign("online", "mail@h", 0), sign("offline", "pay-2@h2", 19)]

    def walk(at: float) -> None:
        for _ in made.advance(Target(T0 + at, T0 + at), T0 + at):
            pass

    feed = [b'{"kind": "sent", "task_id": "a", "task": "a", "queue": "q"}']
    made.ingest.count(made.axes[0], lambda _batch: native.Decoded(signs, None, []), batch(feed, is_head=True), math.inf)
    walk(20)
    assert (told(made, "worker_up"), told(made, "worker_active")) == ({"pay": 1.0, "mail": 1.0}, {"pay": 1.0})
    walk(400)
    assert (told(made, "worker_up"), told(made, "worker_active")) == ({"pay": 0.0, "mail": 1.0}, {})
