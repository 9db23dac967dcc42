"""The steady clock: what it gives while the machine's clock is set about."""

from __future__ import annotations

import pytest

from collector.model.clock import SteadyClock
from tests.unit.parts import T0, Machine


def test_a_clock_that_is_right_is_followed() -> None:
    """Also over a sleep of the machine, in which its wall clock alone goes on."""
    machine = Machine(T0)
    clock = SteadyClock(machine)
    for _ in range(3):
        machine.at += 1.0
        assert clock.now() == machine.now()
    machine.set_by = 7200.0
    assert (clock.now(), clock.ahead) == (machine.now(), 0.0)


def test_a_clock_that_is_set_back_goes_on_until_the_machine_has_caught_up() -> None:
    """It never goes back, and no faster than time does; what it is ahead melts."""
    machine = Machine(T0)
    clock = SteadyClock(machine)
    before = clock.now()
    machine.set_by = -10.0
    machine.at += 1.0
    assert clock.now() == pytest.approx(before + 0.9)
    assert clock.ahead == pytest.approx(9.9)
    seen = [before]
    for _ in range(120):
        machine.at += 1.0
        seen.append(clock.now())
    assert seen == sorted(seen)
    assert (clock.now(), clock.ahead) == (machine.now(), 0.0)


def test_it_goes_on_from_where_a_former_process_was() -> None:
    """Where that was later than it is now by the machine; an earlier one says nothing."""
    machine = Machine(T0)
    clock = SteadyClock(machine)
    clock.go_on_from(T0 - 60.0)
    assert clock.now() == T0
    clock.go_on_from(T0 + 60.0)
    machine.at += 1.0
    assert clock.now() == pytest.approx(T0 + 60.9)
