"""Each framework's queues by state, the age of the oldest, and consumers, where they can be seen."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from collector.probes.arq import ArqQueues
from collector.probes.bullmq import BullmqQueues
from collector.probes.dramatiq import DramatiqQueues
from collector.probes.huey import HueyQueues
from collector.probes.reading import CONSUMERS, OLDEST
from collector.probes.rq import RqQueues
from collector.probes.saq import SaqQueues
from tests.fakes.redis_keys import Ranked, RedisKeys
from tests.unit.probes.looks import NOW, lengths, look, values


def iso(at: float) -> str:
    """As RQ writes times."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


async def test_rq_tells_states_ages_and_living_workers():
    """A worker that has died, or left only its name, consumes nothing."""
    keys = {
        "rq:queues": {"rq:queue:mail", "rq:queue:idle"},
        "rq:queue:mail": ["a", "b", "c"],
        "rq:job:a": {"enqueued_at": iso(NOW - 40)},
        "rq:wip:mail": Ranked({"d:1": NOW}),
        "rq:scheduled:mail": Ranked(e=NOW, f=NOW),
        "rq:deferred:mail": Ranked(g=NOW),
        "rq:workers": {"rq:worker:w1", "rq:worker:w2", "rq:worker:gone"},
        "rq:worker:w1": {"queues": "mail,idle"},
        "rq:worker:w2": {"queues": "mail", "death": iso(NOW)},
    }
    reading = await look(RqQueues(), RedisKeys(keys))
    assert lengths(reading)["mail"] == {"ready": 3, "unacked": 1, "scheduled": 2, "delayed": 1}
    assert values(reading, OLDEST) == {"mail": pytest.approx(40), "idle": 0}
    assert values(reading, CONSUMERS) == {"mail": 1, "idle": 1}


async def test_the_age_of_a_job_that_cannot_be_read_is_not_told():
    """Unknown is not 0."""
    keys = {"rq:queues": {"rq:queue:mail"}, "rq:queue:mail": ["a"], "rq:job:a": {"enqueued_at": "long ago"}}
    reading = await look(RqQueues(), RedisKeys(keys))
    assert lengths(reading)["mail"]["ready"] == 1
    assert values(reading, OLDEST) == {}


BULLMQ = {
    "bull:mail:meta": {"opts.maxLenEvents": "10000"},
    "bull:mail:wait": ["3", "2", "1"],
    "bull:mail:1": {"timestamp": str(int((NOW - 30) * 1000))},
    "bull:mail:prioritized": Ranked(p=1),
    "bull:mail:active": ["4"],
    "bull:mail:delayed": Ranked(d=1, e=2),
    "bull:mail:waiting-children": Ranked(w=1),
}


async def test_bullmq_tells_states_ages_and_workers_by_the_names_of_their_connections():
    """As getJobCounts and getWorkers do; other clients, and workers of other queues, are none of them."""
    mail, other = (base64.b64encode(name).decode() for name in (b"mail", b"mailbox"))
    clients = f"id=1 name=bull:{mail} db=0\nid=2 name=bull:{mail}:w:w1 db=0\nid=3 name=bull:{other}\nid=4 name= db=0\n"
    reading = await look(BullmqQueues(), RedisKeys(dict(BULLMQ), clients))
    assert lengths(reading)["mail"] == {"ready": 4, "unacked": 1, "delayed": 3}
    assert values(reading, OLDEST) == {"mail": pytest.approx(30)}
    assert values(reading, CONSUMERS) == {"mail": 2}


async def test_what_wakes_bullmqs_workers_is_no_job():
    """A marker in the list of what waits is neither counted nor the oldest."""
    keys = {**BULLMQ, "bull:mail:wait": ["2", "1", "0:4"]}
    reading = await look(BullmqQueues(), RedisKeys(keys))
    assert lengths(reading)["mail"]["ready"] == 3
    assert values(reading, OLDEST) == {"mail": pytest.approx(30)}


async def test_a_bullmq_queue_without_a_meta_key_is_invisible_and_not_empty():
    """It may be kept in PostgreSQL: no length is told, and it is said why; one that was seen before is unknown."""
    reading = await look(BullmqQueues(queues=("mail", "bills")), RedisKeys(dict(BULLMQ)))
    assert lengths(reading).keys() == {"mail"}
    assert not reading.unknown
    assert "invisible, and not empty: bull:bills" in reading.says
    again = await look(BullmqQueues(queues=("bills",)), RedisKeys(), ["bills"])
    assert (lengths(again), again.unknown) == ({}, {"bills"})


async def test_dramatiq_tells_what_is_held_and_what_is_tried_again():
    """Messages less waiting ids are held; delayed messages with retries are retrying; dead letters are no queue."""
    message = json.dumps({"message_timestamp": (NOW - 12) * 1000, "options": {}})
    again = json.dumps({"message_timestamp": 1, "options": {"retries": 2}})
    keys = {
        "dramatiq:mail": ["a", "b"],
        "dramatiq:mail.msgs": {"a": message, "b": message, "c": message},
        "dramatiq:mail.DQ.msgs": {"d": message, "e": again, "f": "odd"},
        "dramatiq:mail.XQ": Ranked(x=1),
        "dramatiq:mail.XQ.msgs": {"x": message},
        "dramatiq:__heartbeats__": Ranked(w=1),
    }
    reading = await look(DramatiqQueues(), RedisKeys(keys), ["mail.DQ", "mail.XQ"])
    assert lengths(reading) == {"mail": {"ready": 2, "unacked": 1, "delayed": 2, "retrying": 1}}
    assert values(reading, OLDEST) == {"mail": pytest.approx(12)}


async def test_arq_tells_running_jobs_from_those_that_wait():
    """Both are due in the same sorted set; the age is that of the one that waits longest."""
    jobs = {"run": NOW - 100, "old": NOW - 50, "new": NOW - 5, "later": NOW + 60}
    keys = {
        "arq:queue": Ranked({name: at * 1000 for name, at in jobs.items()}),
        "arq:in-progress:run": "1",
    }
    reading = await look(ArqQueues(), RedisKeys(keys))
    assert lengths(reading) == {"arq:queue": {"ready": 2, "unacked": 1, "delayed": 1}}
    assert values(reading, OLDEST) == {"arq:queue": pytest.approx(50)}


async def test_saq_tells_states_ages_and_workers():
    """Scheduled are the incomplete ones whose time has not come; a worker counts until its sign of life runs out."""
    keys = {
        "saq:mail:queued": ["saq:job:mail:a", "saq:job:mail:b"],
        "saq:mail:active": ["saq:job:mail:c"],
        "saq:mail:incomplete": Ranked(a=0, b=0, c=0, d=NOW + 60),
        "saq:mail:stats": Ranked({"w1": (NOW + 30) * 1000, "w2": (NOW - 30) * 1000}),
        "saq:job:mail:a": json.dumps({"queued": (NOW - 7) * 1000}),
    }
    reading = await look(SaqQueues(), RedisKeys(keys))
    assert lengths(reading) == {"mail": {"ready": 2, "unacked": 1, "scheduled": 1}}
    assert values(reading, OLDEST) == {"mail": pytest.approx(7)}
    assert values(reading, CONSUMERS) == {"mail": 1}


async def test_huey_is_read_with_and_without_priorities():
    """A queue is a list, or a sorted set."""
    keys = {
        "huey.redis.mail": ["a", "b"],
        "huey.redis.bills": Ranked(a=1),
        "huey.schedule.mail": Ranked(c=1),
        "huey.results.idle": {"t": "x"},
    }
    assert lengths(await look(HueyQueues(), RedisKeys(keys))) == {
        "mail": {"ready": 2, "scheduled": 1},
        "bills": {"ready": 1, "scheduled": 0},
        "idle": {"ready": 0, "scheduled": 0},
    }
