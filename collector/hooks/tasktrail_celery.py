"""Tells Tasktrail what Celery does: `import tasktrail_celery; tasktrail_celery.install()` beside the Celery app.

Standard library only, Python 3.8 or later; copy it anywhere. Where to send is in TASKTRAIL_URL.
"""

# --- sender: the same lines in every file of this folder, so that each works when it is copied alone ---
import atexit
import collections
import itertools
import json
import logging
import os
import queue
import socket
import threading
import time
import urllib.request
from urllib.parse import unquote, urlsplit


class Sender:  # a bounded buffer that a thread empties; without a lock, and made anew in a forked child
    to, token = os.getenv("TASKTRAIL_URL") or "http://127.0.0.1:9810/v1/events", os.getenv("TASKTRAIL_TOKEN", "")
    limit, batch, linger = 10_000, 500, 0.05  # events that wait, events sent at once, seconds between two sendings
    code = json.JSONEncoder(ensure_ascii=False, default=str, skipkeys=True).encode
    line = lambda self, event: (self.code(event) + "\n").encode("utf-8", "replace")

    def __init__(self):
        self.waiting, self.bell, self.drops = collections.deque(), queue.SimpleQueue(), itertools.count()
        self.start = iter([threading.Thread(target=self.run, name="tasktrail", daemon=True).start])
        self.worker = f"{socket.gethostname()}:{os.getpid()}"

    def put(self, make, *args, **kwargs):  # buffers or drops the events that `make` gives; never waits, never raises
        try:
            for fields in make(*args, **kwargs) or ():
                event = {"time": time.time(), "worker": self.worker, **fields}
                next(self.drops) if len(self.waiting) >= self.limit else self.waiting.append(event)
            next(self.start, int)()  # the thread, the first time
            self.bell.qsize() or self.bell.put(None)
        except Exception:
            next(self.drops)

    def flush(self, seconds=1.0):  # waits until all is sent, but no longer than this
        end = time.monotonic() + seconds
        while self.waiting and time.monotonic() < end:
            time.sleep(0.01)

    def run(self):
        send, failures, told = None, 0, 0
        while self.waiting or self.bell.get() is None:
            time.sleep(self.linger)
            dropped = next(self.drops) - told  # the counter also counts each look at it
            lost = {"kind": "heartbeat", "worker": self.worker, "labels": {"dropped": f"{dropped}"}}
            try:
                lines = [self.line(self.waiting[index]) for index in range(min(self.batch, len(self.waiting)))]
                send = send or (self.to if callable(self.to) else self.connect(urlsplit(self.to)))
                (lines or dropped > 0) and send(lines + [self.line(lost)] * (dropped > 0))
            except Exception as error:
                if getattr(error, "code", 0) not in (400, 413):  # HTTP: not readable, and never will be
                    send, failures, told = None, failures + 1, told + 1
                    if failures == 2:  # one alone may mean no more than that the connection was idle for too long
                        logging.getLogger("tasktrail").warning("events wait, they cannot be sent: %r", error)
                    time.sleep(0.1 * 2 ** min(failures, 6))
                    continue
            failures, told = 0, told + dropped + 1
            [self.waiting.popleft() for _ in lines]

    def connect(self, url):  # a function that sends lines over a new connection
        if url.scheme in ("http", "https"):
            post = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
            head = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {self.token}"}
            return lambda lines: post(urllib.request.Request(self.to, b"".join(lines), head), timeout=30).close()
        if url.scheme == "unix":
            wire = socket.socket(socket.AF_UNIX)
            wire.connect(unquote(url.path))
            return lambda lines: wire.sendall(b"".join(lines))
        wire = socket.create_connection((url.hostname, url.port or 6379), 30)  # redis-stream
        replies, (database, _, stream) = wire.makefile("rb"), url.path[1:].partition("/")

        def ask(*words):
            wire.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            reply = replies.readline()
            if reply[:1] not in (b"+", b"$"):
                raise OSError(reply)
            return reply[:1] == b"+" or replies.readline()

        url.password and ask(b"AUTH", *(unquote(word).encode() for word in (url.username, url.password) if word))
        ask(b"SELECT", database.encode())
        add = [b"XADD", unquote(stream).encode(), b"MAXLEN", b"~", b"100000", b"*", b"data"]
        return lambda lines: [ask(*add, line) for line in lines]


SENDER = Sender()
os.register_at_fork(after_in_child=SENDER.__init__)
atexit.register(SENDER.flush)

ENDS = {"SUCCESS": "succeeded", "RETRY": "retried", "REJECTED": "rejected"}
publishing = threading.local()  # when and into which queue: known before a message is published, told afterwards


def fact(kind, request, raised=None, **more):
    get = (request if isinstance(request, dict) else vars(request)).get  # Context.get is a slow one
    where, group = get("delivery_info") or {}, get("group")
    fields = {name: get(name) for name in ("parent_id", "root_id", "eta", "expires", "traceparent", "task")}
    fields.update(kind=kind, task_id=get("id"), worker=get("hostname"), attempt=(get("retries") or 0) + 1)
    is_queue = where.get("exchange") in ("", None, where.get("routing_key"))
    fields.update(queue=where.get("routing_key") if is_queue else None, labels=group and {"group": group})
    name = getattr(raised, "exc_cls_name", type(raised).__name__)  # Celery wraps an error that cannot be pickled
    return [{**fields, "error": raised and name, "error_message": raised and str(raised)[:1000], **more}]


def ended(task, state, retval, **_):
    kind = "requeued" if state == "REJECTED" and retval.requeue else ENDS.get(state)
    error = None if state == "SUCCESS" else getattr(retval, "exc", None) or retval
    return kind and fact(kind, task.request, error)


def failed(sender, task_id, exception, **_):  # also told by the main process, of time limits and dead pool processes
    request = sender.request if sender.request.id == task_id else {"id": task_id, "task": sender.name}
    return fact("failed", request, exception, **({} if request is sender.request else {"attempt": None}))


def published(sender, headers, body, **_):
    told, into = headers if "id" in headers else body, [one.name for one in publishing.declare or ()][:1]
    is_new = not told.get("retries") and not told.get("replaced_task_nesting")  # else the same task goes on
    return is_new and fact("sent", told, task=sender, worker=None, time=publishing.time, queue="".join(into))


HOOKS = {
    "before_task_publish": lambda declare=None, **_: vars(publishing).update(time=time.time(), declare=declare),
    "after_task_publish": published,
    "task_received": lambda request, **_: fact("received", request.request_dict, worker=request.hostname),
    "task_prerun": lambda task, **_: fact("started", task.request),
    "task_postrun": ended,
    "task_failure": failed,
    "task_revoked": lambda request, expired, **_: fact("expired" if expired else "revoked", request),
    "task_unknown": lambda name, id, **_: fact("failed", {"id": id}, task=name, error="NotRegistered"),
    "worker_ready": lambda sender, **_: [{"kind": "online", "worker": sender.hostname}],
    "heartbeat_sent": lambda sender, **_: [{"kind": "heartbeat", "worker": sender.eventer.hostname}],
    "worker_shutdown": lambda sender, **_: [{"kind": "offline", "worker": sender.hostname}],
    "worker_process_shutdown": lambda **_: SENDER.flush(),
}


def install():
    from celery import signals

    for name, make in HOOKS.items():  # each is connected once, however often asked
        tell = lambda make=make, **told: SENDER.put(make, **told)
        getattr(signals, name).connect(tell, weak=False, dispatch_uid="tasktrail")
