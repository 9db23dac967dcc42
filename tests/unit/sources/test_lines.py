"""The line splitter against the obvious way of splitting, and its limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collector.sources.lines import LineSplitter


def split(chunks: list[bytes], limit: int = 1 << 20) -> list[bytes]:
    """All lines of a stream that comes in these chunks, with what is left at its end."""
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, splitter.rest()]


@given(st.lists(st.binary().map(lambda data: data.replace(b"\x01", b"\n").replace(b"\r", b"r"))))
def test_chunks_do_not_matter(chunks: list[bytes]) -> None:
    """Lines are those of the whole stream, wherever its chunks end."""
    assert split(chunks) == b"".join(chunks).split(b"\n")


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b"bc\r\nd"]), max_size=12))
def test_carriage_returns_before_line_ends_go(parts: list[bytes]) -> None:
    """Both kinds of line end end a line; a carriage return elsewhere stays."""
    stream = b"".join(parts)
    *whole, rest = stream.split(b"\n")
    expected = [line.removesuffix(b"\r") for line in whole] + [rest]
    assert split([stream]) == expected
    assert split([stream[at : at + 1] for at in range(len(stream))]) == expected


def test_a_line_over_the_limit_is_a_marker() -> None:
    """A line that is too long comes as its first bytes and a note no decoder accepts; its neighbours come whole."""
    for size in (1, 700, 100_000):
        stream = b"first\n" + b"x" * 50_000 + b"\nlast\n" + b"y" * 20_001
        chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
        first, marker, last, rest = split(chunks, limit=20_000)
        assert [first, last] == [b"first", b"last"]
        for line, letter in ((marker, b"x"), (rest, b"y")):
            assert line.startswith(letter * 1024 + b"\x00")
            assert len(line) < 1100


def test_a_line_at_the_limit_is_whole() -> None:
    """The limit itself is allowed."""
    assert split([b"x" * 2000 + b"\n"], limit=2000) == [b"x" * 2000, b""]


def test_a_long_line_is_not_kept() -> None:
    """Memory does not grow with a line that is over the limit."""
    splitter = LineSplitter(10_000)
    for _ in range(1000):
        splitter.feed(b"x" * 10_000)
    assert sum(map(len, splitter._parts)) <= 10_000
