"""Blocking work off the loop: one thread after the other's work, as many as there are calls under way."""

from __future__ import annotations

import threading

import pytest

from collector.channels import thread


def test_a_thread_is_used_again(monkeypatch):
    """Calls that follow each other have one thread, whether they give something or raise."""
    monkeypatch.setattr(thread, "_idle", [])
    first = thread.start("one", threading.current_thread).result(60)
    with pytest.raises(ZeroDivisionError):
        thread.start("two", lambda: 1 // 0).result(60)
    assert thread.start("three", threading.current_thread).result(60) is first
    assert first.name == "three"


def test_a_call_waits_for_no_other(monkeypatch):
    """As many calls as are under way have threads of their own, some of which stay for those to come."""
    monkeypatch.setattr(thread, "_idle", [])
    everybody = threading.Barrier(thread.MOST_IDLE + 3)
    calls = [thread.start(str(number), lambda: everybody.wait(60)) for number in range(thread.MOST_IDLE + 3)]
    assert sorted(call.result(60) for call in calls) == list(range(thread.MOST_IDLE + 3))
    assert len(thread._idle) >= thread.MOST_IDLE
