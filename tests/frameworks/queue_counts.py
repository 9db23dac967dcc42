"""Fills queues, takes some out of them, and says what the framework's own tool counts. Runs in its environment.

`python queue_counts.py FRAMEWORK URL` prints one line of JSON, {queue: {state: count}}, and holds what it has taken
until its standard input ends. A count `sum` is that of all states together.
"""

import asyncio
import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone


def celery(url):
    """Priorities, and messages that are taken and not acknowledged, with and without an ETA."""
    from celery import Celery  # noqa: PLC0415

    app = Celery(broker=url)
    app.conf.task_default_queue = "mail"
    later = datetime.now(timezone.utc) + timedelta(hours=1)  # noqa: UP017
    with app.connection() as connection:
        for number, more in enumerate([{}, {}, {"eta": later}, *({"priority": step} for step in (0, 3, 5, 6, 9, 9))]):
            app.send_task("shop.charge", [number], queue="mail", connection=connection, **more)
        app.send_task("shop.render", queue="pages", connection=connection)
        channel = connection.channel()
        for _ in range(7):  # the more important ones come first
            channel.basic_get("mail")
        counts = {}
        for queue in ("mail", "pages"):
            counts[queue] = {"ready": channel.queue_declare(queue, passive=True).message_count}
        held = json.loads(json.dumps(channel.client.hvals("unacked"), default=bytes.decode))
        waiting = [one for one in map(json.loads, held) if one[0]["headers"]["eta"]]
        counts["mail"] |= {"unacked": len(held) - len(waiting), "scheduled": len(waiting)}
        say(counts)


def rq(url):
    """A queue with every registry; its count is that of `rq info`."""
    from redis import Redis  # noqa: PLC0415
    from rq import Queue  # noqa: PLC0415
    from rq.registry import DeferredJobRegistry, ScheduledJobRegistry, StartedJobRegistry  # noqa: PLC0415

    connection = Redis.from_url(url)
    queue = Queue("mail", connection=connection)
    first, *_ = [queue.enqueue(print, number) for number in range(5)]
    queue.enqueue(print, depends_on=first)
    queue.enqueue_in(timedelta(hours=1), print)
    Queue("pages", connection=connection).enqueue(print)
    info = [sys.executable, "-m", "rq.cli", "info", "--raw", "--only-queues", "--url", url]
    lines = map(str.split, subprocess.run(info, capture_output=True, text=True, check=True).stdout.split("\n"))
    counts = {words[1]: {"ready": int(words[2].rstrip(","))} for words in lines if words[:1] == ["queue"]}
    for state, kind in (
        ("unacked", StartedJobRegistry),
        ("scheduled", ScheduledJobRegistry),
        ("delayed", DeferredJobRegistry),
    ):
        counts["mail"][state] = kind(queue=queue).count
    say(counts)


def dramatiq(url):
    """Its qsize is the sum of what waits, is held and is put off."""
    import dramatiq as library  # noqa: PLC0415
    from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415

    broker = RedisBroker(url=url)
    library.set_broker(broker)
    actor = library.actor(print, queue_name="mail", broker=broker)
    for number in range(4):
        actor.send(number)
    actor.send_with_options(args=(9,), delay=3_600_000)
    held = next(broker.consume("mail", prefetch=1, timeout=100))
    # qsize counts what is held twice: among the messages, and as taken
    say({"mail": {"sum": broker.do_qsize("mail") - 1, "unacked": 1 if held else 0, "delayed": 1}})


def saq(url):
    """Its own count of each kind."""
    from saq import Queue  # noqa: PLC0415

    async def fill():
        queue = Queue.from_url(url, name="mail")
        await queue.connect()
        for _ in range(4):
            await queue.enqueue("ok")
        await queue.enqueue("ok", scheduled=int(datetime.now().timestamp()) + 3600)  # noqa: DTZ005
        await queue.dequeue(timeout=1)
        ready, active, incomplete = [await queue.count(kind) for kind in ("queued", "active", "incomplete")]
        say({"mail": {"ready": ready, "unacked": active, "scheduled": incomplete - ready - active}})

    asyncio.run(fill())


def huey(url):
    """Lists and sorted sets."""
    from huey import PriorityRedisHuey, RedisHuey  # noqa: PLC0415

    counts = {}
    for name, kind in (("mail", RedisHuey), ("pages", PriorityRedisHuey)):
        one = kind(name, url=url)
        task = one.task()(print)
        for number in range(3):
            task(number)
        one.storage.add_to_schedule(b"later", datetime.now() + timedelta(hours=1))  # noqa: DTZ005
        counts[name] = {"ready": one.pending_count(), "scheduled": one.scheduled_count()}
    say(counts)


def arq(url):
    """Its own list of jobs, those that are put off among them; one is taken as a worker takes it."""
    from arq import create_pool  # noqa: PLC0415
    from arq.connections import RedisSettings  # noqa: PLC0415

    async def fill():
        pool = await create_pool(RedisSettings.from_dsn(url))
        jobs = [await pool.enqueue_job("ok", number) for number in range(4)]
        await pool.enqueue_job("ok", _defer_by=3600)
        await pool.psetex(f"arq:in-progress:{jobs[0].job_id}", 60_000, b"1")
        listed = len(await pool.queued_jobs())
        say({"arq:queue": {"sum": listed, "unacked": 1, "delayed": 1}})

    asyncio.run(fill())


def taskiq(url):
    """As its group has it: what was not given to a worker yet, and what is not acknowledged."""
    from taskiq_redis import RedisStreamBroker  # noqa: PLC0415

    async def fill():
        broker = RedisStreamBroker(url)
        await broker.startup()
        task = broker.register_task(lambda number: number, task_name="ok")
        for number in range(4):
            await task.kiq(number)
        taken = await anext(broker.listen())
        say({"taskiq": {"sum": 4, "unacked": 4 if taken else 0}})

    asyncio.run(fill())


def say(counts):
    """Print what was counted, and hold it."""
    print(json.dumps(counts), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
