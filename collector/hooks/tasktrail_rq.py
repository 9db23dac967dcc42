"""Tells Tasktrail what RQ (2 and 3) does: `rq worker --worker-class tasktrail_rq.Worker ...`, or `.SimpleWorker`."""

# Own classes: `class Mine(tasktrail_rq.Hooked, rq.Worker)`. Python 3.8 or later; copy it anywhere; to TASKTRAIL_URL.
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
import mmap
import pickletools
import sys

import rq


class Hooked:  # fresh from a fork every line is dear: a work horse notes, in shared memory, only what went wrong
    slate, say = mmap.mmap(-1, 16384), staticmethod(lambda facts: SENDER.put(events, *facts))  # outside of `work`
    tell = lambda self, *facts: self.say((self.name, time.time(), *facts))

    def work(self, *args, **kwargs):
        self.slate, said = mmap.mmap(-1, 16384), collections.deque()
        self.say = said.append
        threading.Thread(target=self.relay, args=(said,), name="tasktrail-relay").start()
        try:
            return super().work(*args, **kwargs)
        finally:
            self.say = Hooked.say

    def relay(self, said):  # looks by itself what there is: to be woken costs who wakes
        while (self.say == said.append and threading.main_thread().is_alive()) or said:
            SENDER.put(events, *said.popleft()) if said else time.sleep(SENDER.linger)

    def execute_job(self, job, *args, **kwargs):
        self.slate[0], repeats = 0, getattr(job, "repeats_left", None)  # then it is sent anew, under the same id
        self.tell(job, "started", not job.ended_at and (job.enqueued_at or job.created_at))
        super().execute_job(job, *args, **kwargs)
        self.tell(job, "succeeded", bytes(self.slate) if self.slate[0] else repeats)

    def handle_job_failure(self, job, *args, **kwargs):
        super().handle_job_failure(job, *args, **kwargs)
        self.note(job, sys.exc_info()[1] or ChildProcessError("its work horse was killed"))

    handle_job_retry = lambda self, job, *args, **kwargs: self.note(job, super().handle_job_retry(job, *args, **kwargs))

    def note(self, job, error=None):
        try:
            self.slate[:2] = b"?\n"  # unless the rest is there, it is a drop
            kind = {"queued": "retried", "scheduled": "retried", "stopped": "revoked"}.get(job._status, "failed")
            why = {"error": error and type(error).__name__, "error_message": error and str(error)[:1000]}
            self.slate[:] = SENDER.line({"kind": kind, "time": job.ended_at.timestamp(), **why}).ljust(16384)
        except Exception:
            next(SENDER.drops)


def events(worker, at, job, kind, news):  # of a pickle only the first text is read: no code is loaded here
    said = json.loads(news[: news.index(b"\n")]) if isinstance(news, bytes) else {"kind": kind, "time": at}
    words = json.loads(job.data) if job.data[:1] == b"[" else (word for _, word, _ in pickletools.genops(job.data))
    fact = {"task_id": job.id, "task": next(word for word in words if isinstance(word, str)), "queue": job.origin}
    fact.update(worker=worker, traceparent=(job.meta or {}).get("traceparent"))
    if news and "error" not in said:
        yield {**fact, "kind": "sent", "worker": None, "time": at + 1e-6 if kind == "succeeded" else news.timestamp()}
    yield {**fact, **said}


Worker, SimpleWorker = (type(base.__name__, (Hooked, base), {}) for base in (rq.Worker, rq.SimpleWorker))
