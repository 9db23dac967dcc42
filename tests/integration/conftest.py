"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.live import Daemon, Hook, hook


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for other people's brokers and workers is tried twice more before it fails; the summary names it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons with the arguments given, waits until each is ready, and ends them all."""
    running: list[Daemon] = []

    def start(*arguments: str) -> Daemon:
        running.append(Daemon(tmp_path, *arguments))
        return running[-1].wait_ready()

    yield start
    for one in running:
        one.end()


@pytest.fixture
def told() -> Iterator[Hook]:
    """A webhook target."""
    with hook() as target:
        yield target
