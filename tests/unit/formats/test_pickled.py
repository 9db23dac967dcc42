"""Pickles are read, never run."""

from __future__ import annotations

import contextlib
import os
import pickle
import pickletools
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.formats import pickled
from collector.formats.pickled import Made, PickleError, plain

# What pickletools says of strange escapes; it is said once and harms nobody.
pytestmark = pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@settings(max_examples=60)
@given(_VALUES, st.integers(0, 5))
def test_plain_values_come_out_as_they_went_in(value, protocol):
    """In every protocol."""
    assert plain(pickle.dumps(value, protocol)) == value or protocol < 3  # bytes are calls in the old ones
    if protocol >= 3:
        assert plain(pickletools.optimize(pickle.dumps(value, protocol))) == value


class Evil:
    """Would run a command."""

    def __reduce__(self):
        return os.system, ("touch /tmp/tasktrail-was-here",)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_ever_called(protocol, monkeypatch):
    """What a hostile pickle would call is a name with its arguments."""
    hostile = pickle.dumps({"x": Evil()}, protocol)
    monkeypatch.setattr(os, "system", lambda _: pytest.fail("called"))
    value = plain(hostile)
    made = value["x"]
    assert isinstance(made, Made)
    assert (made.name.rpartition(".")[2], made.arguments) == ("system", ("touch /tmp/tasktrail-was-here",))


def test_an_exception_is_its_class_and_message():
    """Which is what there is to know of it."""
    made = plain(pickle.dumps(KeyError("missing"), 4))
    assert made == Made("builtins.KeyError", ("missing",))


def test_objects_hold_their_state():
    """Dates, and instances with attributes."""
    made = plain(pickle.dumps({"at": datetime(2026, 1, 1)}, 5))["at"]  # noqa: DTZ001
    assert made.name == "datetime.datetime"


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_fail(data):
    """Whatever they are: a value, or PickleError."""
    with contextlib.suppress(PickleError):
        plain(data)


@settings(max_examples=300, deadline=None)
@given(_VALUES, st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_damaged_pickles_fail_in_the_declared_way(value, at, bytes_):
    """A flipped byte is a value or PickleError, nothing else."""
    data = pickle.dumps(value, 4)
    with contextlib.suppress(PickleError):
        plain(data[:at] + bytes_ + data[at + len(bytes_) :])


def test_large_ones_are_refused(monkeypatch):
    """By bytes and by opcodes."""
    with pytest.raises(PickleError, match="bytes"):
        plain(b"\x80\x04" + b"N" * pickled.MOST_BYTES)
    with pytest.raises(PickleError, match="opcodes"):
        plain(b"\x80\x04" + b"N" * (pickled.MOST_OPCODES + 10) + b".")


def test_ten_levels_of_doubling_do_not_double():
    """The billion laughs share what they repeat."""
    value = "x"
    for _ in range(60):
        value = (value, value)
    assert plain(pickle.dumps(value, 4))[0][0] is not None
