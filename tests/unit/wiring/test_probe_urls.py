"""Which sources are asked for their queues, and how often."""

from __future__ import annotations

import pytest

from collector.config.schemes import SCHEMES
from collector.config.settings import Overrides, Settings, override
from collector.config.source_urls import SourceUrl
from collector.probes.kafka import LagProbe
from collector.probes.rabbitmq import DeclaredProbe, ManagementProbe
from collector.probes.redis import RedisProbe
from collector.wiring import probe_urls

URLS = {
    "amqp": "amqp://h/v/queue/q",
    "amqps": "amqps://h/v/queue/q",
    "celery+redis+socket": "celery+redis+socket:///run/redis.sock?db=3",
    "file": "file:///tmp/x",
    "kafka": "kafka://h/t",
    "redis-stream": "redis-stream://h/0/s",
    "stdin": "stdin:",
    "unix": "unix:///tmp/x.sock",
    "http": "http://127.0.0.1:9810/v1/events",
}
UNASKED = {"file", "stdin", "unix", "http"}


def source(url: str) -> SourceUrl:
    """A source as configured."""
    (parsed,) = override(Settings(), Overrides(sources=(url,))).sources
    return parsed


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_every_source_on_a_broker_is_asked(scheme):
    """A source URL switches on the probe of its framework; one without a broker has nothing to ask."""
    default = f"{scheme}://h/0" if "redis" in scheme else f"{scheme}://h/v"
    url = source(URLS.get(scheme, default))
    made = probe_urls.probe(url)
    assert (made is None) == (scheme in UNASKED)
    assert isinstance(made, RedisProbe) == ("redis" in scheme)
    assert isinstance(made, DeclaredProbe) == ("amqp" in scheme)
    assert isinstance(made, LagProbe) == (scheme == "kafka")
    assert probe_urls.every(url) == 10


def test_an_exchange_has_no_queue_but_ours():
    """Its source reads through a queue of its own, whose length nobody asks for."""
    assert probe_urls.probe(source("amqp://h/v/exchange/e")) is None


def test_the_management_api_is_asked_where_it_is_named():
    """With the source's user."""
    made = probe_urls.probe(source("celery+amqp://ann:geheim@h/v?management=http://h:15672"))
    assert isinstance(made, ManagementProbe)
    assert "geheim" not in repr(made.__dict__)


@pytest.mark.parametrize(("text", "seconds"), [("1m", 60.0), ("500ms", 0.5), ("0s", 0.0)])
def test_the_pace_is_an_option(text, seconds):
    """0s switches it off."""
    url = source(f"rq+redis://h/0?probe_every={text}")
    assert probe_urls.every(url) == seconds
    assert (probe_urls.probe(url) is None) == (seconds == 0)
