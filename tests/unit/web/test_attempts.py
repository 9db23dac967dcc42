"""Guesses at the token."""

from __future__ import annotations

from collector.web.attempts import MOST_ADDRESSES, MOST_WRONG, WITHIN, Attempts


def test_who_guesses_too_often_is_barred_for_a_while() -> None:
    """Only that address, only after so many, and not for ever; a right token forgets the wrong ones."""
    attempts = Attempts()
    for number in range(MOST_WRONG):
        assert not attempts.is_barred("a", number)
        attempts.wrong("a", number)
    assert attempts.is_barred("a", MOST_WRONG)
    assert not attempts.is_barred("b", MOST_WRONG)
    assert not attempts.is_barred("a", WITHIN + 1)
    attempts.wrong("a", WITHIN + 1)
    assert not attempts.is_barred("a", WITHIN + 1)
    for _ in range(MOST_WRONG - 1):
        attempts.wrong("b", 0)
    attempts.right("b")
    attempts.wrong("b", 0)
    assert not attempts.is_barred("b", 0)


def test_addresses_are_bounded() -> None:
    """Somebody with many addresses takes no memory for it."""
    attempts = Attempts()
    for number in range(MOST_ADDRESSES + 10):
        attempts.wrong(f"{number}", 0)
    assert len(attempts._wrong) == MOST_ADDRESSES
