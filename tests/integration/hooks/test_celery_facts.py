"""What Celery's hook says of each odd end, and what it knows that Celery's own events do not."""

from __future__ import annotations

import json

import pytest
import redis

from tests.brokers.process import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]

ENDS = {
    "traced": ["succeeded"], "rejected": ["rejected", "failed"], "limited": ["failed"], "dead": ["failed"],
    "late": ["expired"], "unknown": ["failed"], "member": ["succeeded"],
    "first": ["succeeded"], "second": ["succeeded"],
}  # fmt: skip
"""A task that rejects its message fails, too, since Celery 5.7: so do its own events say."""
ERRORS = {"limited": "TimeLimitExceeded", "dead": "WorkerLostError", "unknown": "NotRegistered"}


def test_odd_ends_and_hidden_facts(site):
    """Each odd end has its kind and error; queue, trace, group, parent, root, attempt and worker are told."""
    app = site("celery", "redis-stream://{redis}/events")
    app.start()
    ids = json.loads(app.run("import json, app_celery as app; print(json.dumps(app.produce_odd()))").splitlines()[-1])
    client = redis.Redis.from_url(app.redis.address)

    def told(names) -> bool:
        return wait_until(lambda: all(len(ends(name)) >= len(ENDS[name]) for name in names), 30)

    def events(name: str) -> list[dict]:
        told = [json.loads(fields[b"data"]) for _, fields in client.xrange("events")]
        return [event for event in told if event.get("task_id") == ids[name]]

    def ends(name: str) -> list[dict]:
        return [one for one in events(name) if one["kind"] not in ("sent", "received", "started", "requeued")]

    assert told(ids.keys() & ENDS.keys()), {name: events(name) for name in ids}
    # The process that dies takes along what its sender had not sent yet: nobody else's.
    ids["dead"] = app.run('import app_celery as app; print(app.die.apply_async(queue="hooks").id)').split()[-1]
    assert told(["dead"]), events("dead")
    app.stop()
    assert {name: sorted({one["kind"] for one in ends(name)}) for name in ENDS} == {
        name: sorted(kinds) for name, kinds in ENDS.items()
    }
    assert {name: ends(name)[0]["error"] for name in ERRORS} == ERRORS
    kinds = [one["kind"] for one in events("requeued")]
    assert (kinds.count("started"), kinds.count("requeued"), kinds.count("rejected")) == (2, 1, 1)
    for one in events("traced"):
        assert (one["queue"], one["attempt"], one["traceparent"][3:5]) == ("hooks", 1, "aa")
        assert one["task"] == "app.fine"
        assert (one["worker"] or "celery@").startswith("celery@")
    assert {one["labels"]["group"] for one in events("member")} == {ids["group"]}
    assert {(one["root_id"], one["parent_id"]) for one in events("second")} == {(ids["first"], ids["first"])}
    kinds = {json.loads(fields[b"data"])["kind"] for _, fields in client.xrange("events")}
    assert {"online", "heartbeat", "offline"} <= kinds
    client.close()
