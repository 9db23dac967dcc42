"""A hundred thousand torn inputs over everything that reads bytes of others."""

from __future__ import annotations

import logging
import os
import random

import pytest

from collector.formats import FORMATS, mapping
from collector.formats.decoded import MalformedError
from tests import fuzz

INPUTS = 100_000


def test_no_input_breaks_or_holds_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """None raises what is not declared, none takes more than its share of CPU, and every reader had its part."""
    monkeypatch.setattr(logging.getLogger("tasktrail"), "disabled", True)
    seed = 6 if os.environ.get("CI") else random.SystemRandom().randrange(1 << 32)
    counts = fuzz.fuzz(INPUTS, seed)
    assert sum(counts.values()) >= INPUTS
    assert min(counts.values()) >= INPUTS // (2 * len(fuzz.READERS))


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_torn_is_read_as_well(name: str) -> None:
    """The fuzzer reaches behind the first look at a body: of every format some of its torn records are events."""
    decode = FORMATS[name].new()
    events = [event for turn in range(10) for event in decode(fuzz.batch_of(random.Random(turn), name, 100)).events]
    assert len(events) > 10


@pytest.mark.parametrize("field", ["time", "attempt"])
def test_a_number_beyond_all_measure_is_malformed(field: str) -> None:
    """A mapping refuses a number of four hundred digits, whatever its unit; as an id it is none."""
    path = mapping.parse_path("n")
    mapped = mapping.Mapped(fields={"kind": mapping.Rule(value="sent"), field: mapping.Rule(path=path, unit="ms")})
    body = b'{"n":' + b"9" * 400 + b"}"
    with pytest.raises(MalformedError, match="beyond all measure"):
        mapping.mapped_event(mapped, body, {})
    named = mapping.Mapped(fields={"kind": mapping.Rule(value="sent"), "task_id": mapping.Rule(path=path)})
    with pytest.raises(MalformedError) as refused:
        mapping.mapped_event(named, b'{"n":' + b"9" * 400 + b"}", {})
    assert refused.value.reason == "missing_id"
