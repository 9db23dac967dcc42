"""Label sets, as Prometheus has them: sorted pairs without empty values, and their fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Sorted by name; a label with an empty value is a label that is not there. Hashable, so it is its own key."""

NO_LABELS: Labels = ()

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = 0xFFFFFFFFFFFFFFFF


def labels_of(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> Labels:
    """The canonical form of a mapping or of pairs (the last of two equal names wins)."""
    return tuple(sorted((name, value) for name, value in dict(pairs).items() if value != ""))


def fingerprint(labels: Labels) -> str:
    """16 hex digits: FNV-1a 64 over `name 0xff value 0xff`, in name order.

    The same number that Prometheus' `model.LabelSet.Fingerprint` gives, so that an alert has one
    identity here, in Alertmanager and in amtool.
    """
    state = _FNV_OFFSET
    for name, value in labels:
        for byte in b"%b\xff%b\xff" % (name.encode(), value.encode()):
            state = ((state ^ byte) * _FNV_PRIME) & _MASK
    return f"{state:016x}"


class Matcher(msgspec.Struct, frozen=True):
    """One condition of a selector. `test` is compiled once, by a linear-time engine where `op` is a regular one."""

    name: str
    op: Literal["=", "!=", "=~", "!~"]
    value: str
    test: Callable[[str], bool]

    def matches(self, text: str) -> bool:
        """Whether a label's value satisfies the condition; a label that is not there has the value ""."""
        return self.test(text)
