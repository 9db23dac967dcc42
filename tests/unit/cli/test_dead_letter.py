"""One dead letter as a person reads it."""

from __future__ import annotations

import pytest

from collector.cli.dead_letter import lines

ROW = {
    "id": "d", "state": "open", "task": "pay", "queue": "orders", "source": "s", "task_id": "t", "error": "Boom",
    "message": "no row", "frame": "", "fingerprint": "f", "attempts": 1, "worker": "", "first_failed_at": None,
    "last_failed_at": None, "at": 1.0, "sent_at": None, "trace_id": "", "owner": "me", "review_by": None, "origin": {},
    "place": "rq:failed:orders", "receipt": "t", "is_virtual": False, "expires_at": None, "expires_by": "",
    "size": None, "preview": "", "history": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no row", "Boom: no row"),
        ("Boom", "Boom"),
        ("Boom: no row", "Boom: no row"),
        ("", "Boom"),
        ("Boomer", "Boom: Boomer"),
    ],
)
def test_the_class_of_an_error_is_said_once(message, said):
    """Some brokers tell of one text that begins with it."""
    assert f"  error        {said}" in lines({**ROW, "message": message})


def test_what_was_redriven_lies_there_no_longer():
    """It is said where it lay."""
    assert "  lies in      rq:failed:orders at t" in lines(ROW)
    told = list(lines({**ROW, "state": "redriven"}))
    assert "  lay in       rq:failed:orders at t" in told
    assert not any("lies in" in line for line in told)
