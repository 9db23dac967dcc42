"""The probes of a running daemon: one task for each source that has one."""

from __future__ import annotations

import asyncio

from collector.config.settings import Settings
from collector.model.clock import Clock
from collector.shell.pipeline import Pipeline
from collector.shell.probing import Inventory, Probing
from collector.shell.retention import Retention
from collector.state.queues import Queues
from collector.state.store import Store
from collector.wiring import probe_urls


def probing(settings: Settings, pipeline: Pipeline, clock: Clock, store: Store | None) -> list[asyncio.Task[None]]:
    """Start the probes of all sources. Reads from the state file which queues there were."""
    memory = None if store is None else Queues(store)
    found = [(url, probe) for url in settings.sources if (probe := probe_urls.probe(url)) is not None]
    at_work = [
        Probing(
            source=url.name,
            probe=probe,
            every=probe_urls.every(url),
            inventory=Inventory(url.name, memory),
            named=pipeline.queues,
            put=pipeline.store.put,
            unseen=pipeline.unseen,
            telemetry=pipeline.telemetry,
            clock=clock,
            is_celery=url.scheme.startswith("celery+"),
        )
        for url, probe in found
    ]
    keepers = [
        Retention(
            source=url.name,
            asks=asks,
            every=probe_urls.every(url),
            undertaker=pipeline.undertaker,
            telemetry=pipeline.telemetry,
            clock=clock,
        )
        for url in settings.sources
        if (asks := probe_urls.keeping(url)) is not None
    ]
    return [
        *(asyncio.create_task(one.run(), name=f"probe {one.source}") for one in at_work),
        *(asyncio.create_task(one.run(), name=f"retention {one.source}") for one in keepers),
    ]
