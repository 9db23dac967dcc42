"""Matchers: what each of Alertmanager's two grammars makes of a text."""

from __future__ import annotations

import pytest

from collector.routing.matchers import parse_matcher, parse_matchers, written


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a=b", '{a="b"}'),
        (' a = "b c" ', '{a="b c"}'),
        ("a=b c", '{a="b c"}'),
        ("{a=b,c!=d}", '{a="b",c!="d"}'),
        ('{a="b", c=~"d|e", }', '{a="b",c=~"d|e"}'),
        ('a="x,y",b=z', '{a="x,y",b="z"}'),
        (r'a="say \"hi\""', r'{a="say \"hi\""}'),
        (r'a="\d"', r'{a="\\d"}'),  # a lone backslash: only the older grammar reads it
        (r'a="\x41"', r'{a="\\x41"}'),  # both read it, and differ: the older one holds
        (r'"a b"="\t\\\u0001\u00a0\U000e0001ä"', r'{"a b"="\t\\\x01\u00a0\U000e0001ä"}'),
        (r'"a"="\x41\101\u00e4\t"', '{a="AAä\t"}'),  # a quoted name: only the newer one reads it
        ('"team name"="x"', '{"team name"="x"}'),
        ("ünit=x", '{ünit="x"}'),
        ("a=b=c", '{a="b=c"}'),
        ("", "{}"),
        ("{}", "{}"),
        ("a=", '{a=""}'),
        ("{a=b}}", '{a="b}"}'),
    ],
)
def test_read(text: str, shown: str) -> None:
    """A text that either grammar takes is read, and shown as Alertmanager shows it."""
    assert written(parse_matchers(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "=b",
        "a=b,,c=d",
        'a="b',
        'a=b"c',
        '"team name"=x,,',
        '"a"="\\q"',
        '"a"="\\xff"',
        "a=~(",
        '"a="b',
        "1a",
    ],
)
def test_refused(text: str) -> None:
    """A text that neither grammar takes is refused with a message."""
    with pytest.raises(ValueError, match=r".+"):
        parse_matchers(text)


def test_one() -> None:
    """A command line gives one matcher, without braces."""
    assert parse_matcher('"team name"="x"').name == "team name"
    assert parse_matcher("a=b,c").value == "b,c"
    for text in ("{a=b}", "a", '"a"=b,"c"=d'):
        with pytest.raises(ValueError, match=r".+"):
            parse_matcher(text)


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("a=x", "x", True),
        ("a=x", "", False),
        ("a!=x", "", True),
        ("a=~x|y", "y", True),
        ("a=~x", "xy", False),
        ("a!~x", "xy", True),
        ("a=~.*", "", True),
        ("a=~.*", "a\nb", False),
    ],
)
def test_holds(text: str, value: str, *, holds: bool) -> None:
    """Patterns are anchored at both ends, and a dot is no line end."""
    (one,) = parse_matchers(text)
    assert one.matches(value) is holds
