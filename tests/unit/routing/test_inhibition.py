"""Inhibition: who is quiet because of whom."""

from __future__ import annotations

import pytest

from collector.model.labels import labels_of
from collector.routing.inhibition import Inhibition, InhibitRule, inhibited_by
from collector.routing.matchers import parse_matchers

RULE = InhibitRule(
    name="down",
    sources=parse_matchers("kind=~source|both"),
    targets=parse_matchers("kind=~target|both"),
    equal=("zone",),
)


@pytest.mark.parametrize(
    ("source", "target", "quiet"),
    [
        ({"kind": "source", "zone": "a"}, {"kind": "target", "zone": "a"}, True),
        ({"kind": "source", "zone": "a"}, {"kind": "target", "zone": "b"}, False),
        ({"kind": "source"}, {"kind": "target"}, True),
        ({"kind": "source"}, {"kind": "target", "zone": "a"}, False),
        ({"kind": "source", "zone": "a"}, {"kind": "other", "zone": "a"}, False),
        ({"kind": "both", "zone": "a"}, {"kind": "target", "zone": "a"}, True),
        ({"kind": "both", "zone": "a"}, {"kind": "both", "zone": "a", "x": "y"}, False),
        ({"kind": "source", "zone": "a"}, {"kind": "both", "zone": "a"}, True),
    ],
)
def test_who_is_inhibited(alert, source, target, *, quiet: bool) -> None:
    """Both sides hold and the equal labels agree, an absent one being empty; not where both are on both sides."""
    found = inhibited_by([RULE], labels_of(target), [alert(**source)])
    assert (found is not None) is quiet
    if found:
        assert str(found) == "inhibited by DeadLetter (down)"


def test_it_ends_with_the_last_source(alert) -> None:
    """While one of several sources fires the target is quiet; after the last one's end it is not."""
    index = Inhibition([RULE])
    target = labels_of({"kind": "target", "zone": "a"})
    index.note(alert(kind="source", zone="a", n="1"))
    index.note(alert(kind="source", zone="a", n="2"))
    index.note(alert("resolved", end=1, kind="source", zone="a", n="1"))
    assert index.by(target) is not None
    index.note(alert("resolved", end=2, kind="source", zone="a", n="2"))
    assert index.by(target) is None
    index.note(alert("resolved", end=3, kind="source", zone="b", n="3"))
    assert index.by(target) is None
