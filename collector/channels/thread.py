"""Blocking work off the loop, in threads that never hold up the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start(name: str, call: Callable[[], T]) -> Future[T]:
    """Run `call` in a thread of its own.

    Not an executor's: the interpreter waits for those at its end, and a call that hangs in a name server or on a full
    pipe would hang the whole process. Each channel has at most one such thread at a time, so targets bound them.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody can cancel it: a thread cannot be stopped

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  handed to whoever awaits it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
