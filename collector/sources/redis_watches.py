"""What there is to watch of each framework on Redis: one row each."""

from __future__ import annotations

from collector.model.redrive import HEADER
from collector.sources.redis_watch import Channel, Follow, Keys, Watch


def _notified(pattern: str, key: str) -> Channel:
    """The server notifies of keys (a glob): those that match (an expression) are read."""
    follow = Follow(name=f"__keyspace@.+?__:(?P<key>{key})", read=("{key}",))
    return Channel(pattern=f"__keyspace@{{db}}__:{pattern}", follow=(follow,))


_RQ_JOB = ("{prefix}:job:{id}",)
_RQ_RESULTS = ("{prefix}:results:{id}",)
_RQ_MEMBER = Follow(name="(?P<id>.+)", read=_RQ_JOB, entries=_RQ_RESULTS)
_RQ_QUEUE = (
    "{prefix}:queue:{queue}",
    "{prefix}:wip:{queue}",
    "{prefix}:finished:{queue}",
    "{prefix}:failed:{queue}",
    "{prefix}:scheduled:{queue}",
    "{prefix}:deferred:{queue}",
    "{prefix}:canceled:{queue}",
)

RQ = Watch(
    sees="sees what is waiting, running or kept with its result (`result_ttl` 0 keeps none); an attempt between two "
    "polls by its retries_left, without its error; for those add the RQ hook",
    prefix="rq",
    roots=("{prefix}:queues", "{prefix}:workers", *_RQ_QUEUE),
    keys=(
        Keys(
            match="{prefix}:queues",
            kind="set",
            follow=(Follow(name="{prefix}:queue:{queue}", poll=_RQ_QUEUE),),
        ),
        Keys(
            match="{prefix}:workers",
            kind="set",
            follow=(Follow(name="{prefix}:worker:(?P<worker>.+)", poll=("{prefix}:worker:{worker}",)),),
        ),
        Keys(match="{prefix}:queue:.+", kind="list", first=500, last=500, follow=(_RQ_MEMBER,)),
        Keys(
            match="{prefix}:wip:.+",
            kind="zset",
            follow=(
                Follow(
                    name="(?P<id>.+):(?P<execution>[^:]+)",
                    read=(*_RQ_JOB, "{prefix}:execution:{id}:{execution}"),
                    entries=_RQ_RESULTS,
                ),
            ),
        ),
        Keys(match="{prefix}:(finished|failed|scheduled|deferred|canceled):.+", kind="zset", follow=(_RQ_MEMBER,)),
        Keys(
            match="{prefix}:job:.+",
            kind="hash",
            fields=(
                "status",
                "origin",
                "description",
                "data",
                "created_at",
                "enqueued_at",
                "started_at",
                "ended_at",
                "worker_name",
                "retries_left",
                "repeats_left",
                "dependency_id",
                "dependency_ids",
                "group_id",
                "exc_info",
                HEADER,
            ),
            times=("created_at", "enqueued_at", "started_at", "ended_at"),
        ),
        Keys(match="{prefix}:execution:.+", kind="hash", times=("created_at",)),
        Keys(
            match="{prefix}:worker:.+",
            kind="hash",
            fields=("birth", "death", "last_heartbeat", "state", "queues", "hostname", "pid", "version"),
            times=("birth", "last_heartbeat", "death"),
        ),
    ),
    channels=(
        Channel(
            pattern="__keyspace@{db}__:{prefix}:execution:*",
            follow=(
                Follow(
                    name="__keyspace@.+?__:{prefix}:execution:(?P<id>.+):(?P<execution>[^:]+)",
                    read=_RQ_JOB,
                    entries=_RQ_RESULTS,
                ),
            ),
        ),
    ),
)

_SAQ_QUEUE = ("saq:{queue}:incomplete", "saq:{queue}:stats")

SAQ = Watch(
    sees="sees every job and attempt; a job with ttl -1 leaves nothing to read at its end, so that one quicker than a "
    "read has no name",
    roots=_SAQ_QUEUE,
    scan="saq:*",
    keys=(
        Keys(
            match="saq:(?!job:){queue}:incomplete",
            kind="zset",
            first=500,
            last=500,
            is_polled=True,
            follow=(Follow(name="(?P<id>saq:job:.+)", read=("{id}",)),),
        ),
        Keys(
            match="saq:(?!job:){queue}:stats",
            kind="zset",
            is_polled=True,
            follow=(Follow(name="(?P<id>saq:.+:worker_info:.+)", poll=("{id}",)),),
        ),
        Keys(match="saq:.+:worker_info:.+", kind="string"),
        Keys(match="saq:job:{queue}:.+", kind="string", times=("queued", "started", "completed", "touched")),
    ),
    channels=(
        Channel(
            pattern="saq:job:*",
            follow=(Follow(name="(?P<id>saq:job:{queue}:(?P<key>.+))", read=("{id}",)),),
        ),
    ),
)

DRAMATIQ = Watch(
    sees="sees what lies in a queue at a poll: sent, fetched by which worker, tried again with its error, dead; no "
    "starts and no successes: for those add the Dramatiq hook",
    prefix="dramatiq",
    scan="{prefix}:*",
    roots=(
        "{prefix}:__heartbeats__",
        "{prefix}:{queue}.msgs",
        "{prefix}:{queue}.DQ.msgs",
        "{prefix}:{queue}.XQ.msgs",
        "{prefix}:{queue}.XQ",
    ),
    keys=(
        Keys(match="{prefix}:__heartbeats__", kind="zset", is_polled=True),
        Keys(match=r"{prefix}:__acks__\.[^.]+\.{queue}(\.DQ)?", kind="set", is_polled=True),
        Keys(match=r"{prefix}:{queue}\.XQ", kind="zset", is_polled=True),
        Keys(match=r"{prefix}:{queue}(\.DQ|\.XQ)?\.msgs", kind="hash", is_polled=True),
    ),
    channels=(_notified("{prefix}:*.msgs", r"{prefix}:.+\.msgs"),),
)

ARQ = Watch(
    sees="sees every job and attempt; no worker, no error of an attempt that is tried again, no outcome with "
    "keep_result 0: for those add the arq hook",
    queues=("arq:queue",),
    roots=("{queue}",),
    scan="arq:*",
    keys=(
        Keys(match="arq:(job|in-progress|retry|result):.+", kind="string"),
        Keys(
            match="{queue}",
            kind="zset",
            first=400,
            last=0,
            follow=(
                Follow(
                    name="(?P<id>.+)",
                    read=("arq:job:{id}", "arq:result:{id}"),
                    poll=("arq:retry:{id}", "arq:in-progress:{id}"),
                ),
            ),
        ),
    ),
    channels=(_notified("arq:*", "arq:(job|result):.+"),),
)

TASKIQ = Watch(
    sees="sees every message and attempt; results where the backend is in this database (its `prefix_str` is the "
    "option `prefix`); no start and no error of an attempt that is quicker than a poll: for those add the taskiq hook",
    queues=("taskiq",),
    roots=("{queue}",),
    tails=("{queue}",),
    keys=(
        Keys(match="{queue}", kind="stream"),
        Keys(match="{namespace}.+", kind="string"),
    ),
    entries=(
        Follow(
            name=r'.+ data .*"task_id": ?"(?P<id>[^"\\]+)".*',
            until=("{namespace}{id}",),
        ),
    ),
)

HUEY = Watch(
    sees="sees what waits at a poll, stored values and errors; no start, no success with None, nothing of what a "
    "killed consumer had taken: for those add the Huey hook",
    roots=("huey.redis.{queue}", "huey.schedule.{queue}", "huey.results.{queue}"),
    scan="huey.*",
    keys=(
        Keys(match=r"huey\.redis\.{queue}", kind="list", first=500, last=500, is_polled=True),
        Keys(match=r"huey\.schedule\.{queue}", kind="zset", first=500, last=500, is_polled=True),
        Keys(match=r"huey\.results\.{queue}", kind="hash", is_polled=True, is_undated=True),
    ),
)

_STREAQ_QUEUE = ("streaq:{queue}:index:running", "streaq:{queue}:queues:delayed:normal")
_STREAQ_DATA = ("streaq:{queue}:task:data:{id}",)

STREAQ = Watch(
    sees="sees every task that ends and its attempts; no worker and no error of an attempt that is tried again",
    roots=_STREAQ_QUEUE,
    tails=("streaq:{queue}:queues:normal",),
    scan="streaq:*",
    keys=(
        Keys(match="streaq:{queue}:task:(data|retry|results):.+", kind="string"),
        Keys(match="streaq:{queue}:health:.+", kind="string", is_polled=True),
        Keys(
            match="streaq:{queue}:queues:delayed:[^:]+",
            kind="zset",
            first=500,
            last=0,
            is_polled=True,
            follow=(Follow(name="(?P<id>.+)", read=_STREAQ_DATA),),
        ),
        Keys(
            match="streaq:{queue}:index:running",
            kind="set",
            is_polled=True,
            follow=(Follow(name="(?P<id>.+)", read=_STREAQ_DATA, poll=("streaq:{queue}:task:retry:{id}",)),),
        ),
        Keys(match="streaq:{queue}:queues:[^:]+", kind="stream", is_tailed=True),
    ),
    channels=(
        Channel(
            pattern="streaq:*:channels:*",
            follow=(Follow(name="streaq:{queue}:channels:.+", poll=_STREAQ_QUEUE),),
        ),
        *(
            _notified(f"streaq:*:{key}", "streaq:.+:task:data:.+")
            for key in ("task:data:*", "task:retry:*", "index:running")
        ),
    ),
    entries=(Follow(name="streaq:{queue}:queues:[^: ]+ task_id (?P<id>.+)", read=_STREAQ_DATA),),
)

WATCHES: dict[str, Watch] = {
    "rq": RQ,
    "saq": SAQ,
    "dramatiq": DRAMATIQ,
    "arq": ARQ,
    "taskiq": TASKIQ,
    "huey": HUEY,
    "streaq": STREAQ,
}
"""By the name of the framework, which is also that of its format."""
