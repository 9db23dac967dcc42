"""Applications under test: each with a Redis of its own and all its workers ended afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import brokers
from tests.integration.hooks.rig import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[str, str], Site]]:
    """Makes the application of a framework; `url`: where its hook sends, with `{redis}` for its own Redis."""
    with ExitStack() as ends:

        def make(name: str, url: str) -> Site:
            try:
                redis = brokers.launch("redis")
                ends.callback(redis.stop)
                folder = tmp_path / name
                folder.mkdir()
                made = Site(name, folder, redis, url.format(redis=redis.address.removeprefix("redis://")))
            except brokers.Unavailable as why:
                if os.environ.get("CI") == "true":
                    pytest.fail(f"CI must run against the real frameworks: {why}", pytrace=False)
                pytest.skip(str(why))
            ends.callback(made.stop)
            return made

        yield make
