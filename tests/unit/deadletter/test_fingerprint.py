"""Which failures have one cause."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.deadletter.fingerprint import fingerprint, normalised, top_frame

PYTHON = """Traceback (most recent call last):
  File "/srv/app/run.py", line 10, in main
    pay()
  File "/srv/app/pay.py", line 41, in settle
    raise ValueError("x")
ValueError: x
"""
JAVA = "java.lang.IllegalStateException: boom\n\tat com.example.Orders.handle(Orders.java:41)\n\tat a.B.c(B.java:1)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 not found", "order 99871 not found"),
        ("user 'ann' is gone", "user 'bob' is gone"),
        ("no row 8f14e45f-ceea-467f-a0e6-1f2a3b4c5d6e", "no row 45c48cce-2e2d-4fbd-a1f8-0a1b2c3d4e5f"),
        ("timeout after 3.2 s at 2026-11-29T10:00:00Z", "timeout after 30 s at 2026-11-30 01:02:03"),
        ("cannot reach https://a.example/x?id=1", "cannot reach https://b.example/y"),
        ("mail to ann@example.org bounced", "mail to bob.b@example.com bounced"),
        ("object at 0x7f00aa", "object at 0x7f11bb"),
        ("commit 9c1185a5c5e9 missing", "commit 8277e0910d75 missing"),
        ("peer  went\naway", "peer went away"),
    ],
)
def test_what_differs_from_one_message_to_the_next_is_no_other_cause(one, other):
    """Numbers, ids, times, addresses and quoted words do not tell two causes apart."""
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "ValueError", "x", ""), ("b", "ValueError", "x", "")),
        (("a", "ValueError", "x", ""), ("a", "KeyError", "x", "")),
        (("a", "ValueError", "no row", ""), ("a", "ValueError", "no column", "")),
        (("a", "ValueError", "x", "pay.py:settle"), ("a", "ValueError", "x", "pay.py:refund")),
        (("a", "b", "", ""), ("ab", "", "", "")),
    ],
)
def test_task_error_words_and_place_tell_causes_apart(one, other):
    """Each of the four parts makes another fingerprint."""
    assert fingerprint(*one) != fingerprint(*other)


def test_the_name_of_a_cause_is_the_same_in_every_version():
    """What people have written down finds the same cause later."""
    assert fingerprint("pay", "ValueError", "order 17 not found", "pay.py:settle") == "4a4e8e2a0dfe"


@pytest.mark.parametrize(
    ("trace", "frame"),
    [
        (PYTHON, "pay.py:settle"),
        ('{"traceback":"' + PYTHON.replace('"', '\\"').replace("\n", "\\n") + '"}', "pay.py:settle"),
        (JAVA, "com.example.Orders.handle"),
        ("no trace", ""),
        ("", ""),
    ],
)
def test_the_top_frame_is_where_the_error_was_raised(trace, frame):
    """Python's innermost call comes last, Java's first; a traceback may stand within JSON."""
    assert top_frame(trace) == frame


@pytest.mark.parametrize("piece", ["\n", "\n\t", "\\n", "\nat a", 'File "', 'File "a", line 9'])
def test_a_long_body_of_one_piece_is_little_work(piece):
    """What repeats the beginning of a frame is gone over once: CPU seconds, of which the square would take a minute."""
    began = time.process_time()
    assert top_frame(piece * (64 * 1024)) == ""
    assert time.process_time() - began < 5


@given(st.text(max_size=2_000))
def test_any_text_has_a_fingerprint(text):
    """Whatever a message or trace holds, it is neither refused nor changed by being normalised twice."""
    assert len(fingerprint(text, text, text, top_frame(text))) == 12
    once = normalised(text)
    assert len(once) <= 20 * 300
