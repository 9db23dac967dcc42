"""Tells Tasktrail what a hand-written consumer does. Standard library only, Python 3.8 or later; copy it anywhere.

    from tasktrail_emit import emit, task

    emit("sent", message.id, task="mail.send", queue="mail")
    with task(message.id, task="mail.send", queue="mail", attempt=2, retried=(ConnectionError,)):
        ...  # started; at the end succeeded, retried (one of these errors: another try comes) or failed

Where events go: the URL in TASKTRAIL_URL, or `SENDER.to`: a URL, or a function that is given a list of lines (bytes):

    SENDER.to = lambda lines: [producer.send("task-events", line) for line in lines]
    SENDER.to = lambda lines: [redis.xadd("task-events", {"data": line}, maxlen=100_000) for line in lines]

It is called in the sender's thread; where it raises, it gets the same lines again.
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
import contextlib


def emit(kind, task_id=None, **fields):
    """Tell one fact: a kind and the fields of an event. `error`: an exception, or the name of its class."""
    SENDER.put(_fact, kind, task_id, **fields)


@contextlib.contextmanager
def task(task_id, *, retried=(), **fields):
    """The run of one task. `retried`: errors after which the consumer will try it again."""
    emit("started", task_id, **fields)
    try:
        yield
    except BaseException as error:
        emit("retried" if isinstance(error, retried) else "failed", task_id, error=error, **fields)
        raise
    emit("succeeded", task_id, **fields)


def _fact(kind, task_id, error=None, labels=None, **fields):
    if isinstance(error, BaseException):
        error, fields["error_message"] = type(error).__name__, str(error)[:1000]
    fields.update(kind=kind, task_id=task_id, error=error)
    yield {
        "labels": {str(name): str(value) for name, value in (labels or {}).items()},
        **{
            name: value if isinstance(value, (int, float, type(None))) else str(value) for name, value in fields.items()
        },
        "task_id": None if task_id is None else str(task_id),
    }
