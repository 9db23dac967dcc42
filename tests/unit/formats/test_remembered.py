"""What decoders remember is bounded, and what is used stays."""

from __future__ import annotations

from collector.formats.remembered import Remembered


def test_what_is_used_stays_and_the_rest_leaves() -> None:
    """No more than the named number is there; what is asked for again and again is; what leaves is given, once."""
    kept: Remembered[int] = Remembered(10)
    gone: list[int] = []
    kept.put("used", -1)
    for number in range(100):
        gone += kept.put(str(number), number).values()
        assert kept.get("used") == -1
        assert kept.get(str(number)) == number
        assert len(kept) <= 10
    assert gone == list(range(len(gone)))
    assert len(gone) + len(kept) == 101


def test_what_is_forgotten_is_gone() -> None:
    """A key that is let go has no value, whatever generation it was of."""
    kept: Remembered[int] = Remembered(4)
    for number in range(4):
        kept.put(str(number), number)
    for number in range(4):
        kept.forget(str(number))
        assert kept.get(str(number)) is None
    assert len(kept) == 0
