"""Blocking work off the loop, in threads that never hold up the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
_Calls: TypeAlias = SimpleQueue[tuple[str, Future[Any], Callable[[], Any]]]

MOST_IDLE = 4
"""Threads that wait for another call: to start one costs more CPU time than most of what it does."""
_idle: list[_Calls] = []


def start(name: str, call: Callable[[], T]) -> Future[T]:
    """Run `call` in a thread that has nothing else to do.

    Not an executor's: the interpreter waits for those at its end, and a call that hangs in a name server or on a full
    pipe would hang the whole process. Each channel has at most one such thread at a time, so targets bound them.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody can cancel it: a thread cannot be stopped
    try:
        calls = _idle.pop()
    except IndexError:
        calls = SimpleQueue()
        threading.Thread(target=_work, args=(calls,), name=name, daemon=True).start()
    calls.put((name, future, call))
    return future


def _work(calls: _Calls) -> None:
    while _next(calls):
        pass


def _next(calls: _Calls) -> bool:
    """One call; whether there may be another. What it was of is let go of with it."""
    threading.current_thread().name, future, call = calls.get()
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  handed to whoever awaits it
        is_idle = _rest(calls)
        future.set_exception(error)
    else:
        is_idle = _rest(calls)
        future.set_result(result)
    return is_idle


def _rest(calls: _Calls) -> bool:
    """Wait for another call, where not enough do so; told before the result is, so that the next one finds us."""
    if len(_idle) >= MOST_IDLE:
        return False
    _idle.append(calls)
    return True
