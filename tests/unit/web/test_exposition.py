"""/metrics in both formats: negotiated, in pieces, with when counters began."""

from __future__ import annotations

import aiohttp
import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from collector.config.settings import Settings
from collector.model.labels import labels_of
from collector.series.buckets import LE_TEXT
from collector.series.expose import Exposed
from collector.web import exposition
from collector.web.exposition import SAMPLES, negotiated, pieces, render
from tests.unit.parts import T0, event, running, until

OPEN = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6"
PROMETHEUS = f"{OPEN},text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"


@pytest.mark.parametrize(
    ("accept", "begins", "is_open"),
    [
        ("", "text/plain; version=0.0.4", False),
        ("*/*", "text/plain; version=0.0.4", False),
        ("text/html", "text/plain; version=0.0.4", False),
        ("application/openmetrics-text;version=x", "text/plain; version=0.0.4", False),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4", False),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0", True),
        (PROMETHEUS, "application/openmetrics-text; version=1.0.0", True),
    ],
)
def test_the_format_is_what_is_asked_for(accept, begins, is_open) -> None:
    """Text unless OpenMetrics is asked for, as Prometheus does."""
    _, content_type, found = negotiated(accept)
    assert (content_type[: len(begins)], found) == (begins, is_open)


async def scrape(asked, accept: str) -> str:
    """The whole exposition."""
    async with asked.http.get(f"{asked.run.url}/metrics", headers={"Accept": accept}) as answer:
        assert answer.headers["Content-Type"] == negotiated(accept)[1]
        return await answer.text()


async def test_a_scrape_as_openmetrics(asked) -> None:
    """It parses whole; counters and histograms say when they began: at their first event, our own with the process."""
    found = {family.name: family for family in read_openmetrics(await scrape(asked, PROMETHEUS))}
    sent = {one.name: one.value for one in found["task_sent"].samples}
    assert sent == {"task_sent_total": 1, "task_sent_created": T0}
    run = [one for one in found["task_run_seconds"].samples if one.labels["task"] == "a"]
    assert {one.name: one.value for one in run} == {
        "task_run_seconds_bucket": 1,
        "task_run_seconds_count": 1,
        "task_run_seconds_sum": 0.5,
        "task_run_seconds_created": T0,
    }
    own = {one.name: one.value for one in found["tasktrail_events"].samples if one.labels["outcome"] == "accepted"}
    assert own == {"tasktrail_events_total": 5, "tasktrail_events_created": T0}
    assert [one.name for one in found["tasks_in_flight"].samples] == ["tasks_in_flight"] * 2


async def test_a_scrape_as_text(asked) -> None:
    """The plain format has the same values, and no place for when they began."""
    text = await scrape(asked, "")
    assert "_created" not in text
    assert "# EOF" not in text
    found = {family.name: family for family in read_text(text)}
    assert [one.value for one in found["task_sent"].samples] == [1]
    assert found["task_run_seconds"].type == "histogram"


def exposed(kind: str, name: str, count: int) -> Exposed:
    """A family of many series, the last of which stood at 0 before its first event."""
    return Exposed(
        name=name,
        type=kind,
        help="Many.",
        labels=[labels_of({"n": str(number)}) for number in range(count)],
        born_at=np.append(np.full(count - 1, 5.0), -np.inf),
        values=np.arange(count, dtype=float),
        buckets=np.ones((count, len(LE_TEXT)), np.int64) if kind == "histogram" else None,
    )


@pytest.mark.parametrize(
    ("kind", "name", "lines"), [("counter", "m_total", 2), ("gauge", "m", 1), ("histogram", "m", 23)]
)
async def test_a_large_family_is_written_in_pieces(kind, name, lines) -> None:
    """Some lines at a time, one head, every series once; what began before its first event began with the process."""
    family = exposed(kind, name, 2 * SAMPLES)
    encoder, _, _ = negotiated(OPEN)
    parts = [piece async for piece in render(pieces(family, 1.0), encoder)]
    assert len(parts) > 2
    assert max(part.count(b"\n") for part in parts) <= SAMPLES * 2 + 2
    text = b"".join(parts).decode()
    assert text.count("# TYPE") == text.count("# HELP") == text.count("# EOF") == 1
    (read,) = read_openmetrics(text)
    assert len(read.samples) == 2 * SAMPLES * lines
    created = [one.value for one in read.samples if one.name == "m_created"]
    assert created == ([] if kind == "gauge" else [5.0] * (2 * SAMPLES - 1) + [1.0])


async def test_a_family_without_series_has_its_head() -> None:
    """An empty family is named all the same."""
    encoder, _, _ = negotiated("")
    metric = exposition.Metric("empty", "None.", "gauge")
    text = b"".join([piece async for piece in render([metric], encoder)])
    assert text == b"# HELP empty None.\n# TYPE empty gauge\n"


@pytest.mark.parametrize("compat", ["celery-exporter", None])
async def test_names_of_celery_exporter_are_shown_where_the_configuration_says_so(compat) -> None:
    """With `compat` they stand on /metrics with their labels, hosts among them; without it never."""
    settings = Settings(state="none", compat=compat, rules=())
    async with running(settings) as run, aiohttp.ClientSession() as http:
        body = event("started", "1", T0, worker="celery@box") + b"\n"
        body += event("succeeded", "1", T0 + 1, worker="celery@box", run_seconds=1.0)
        async with http.post(f"{run.url}/v1/events", data=body) as answer:
            assert answer.status == 200
        async with http.get(f"{run.url}/api/v1/query", params={"query": "celery_task_started_total"}) as answer:
            assert answer.status == 200
        run.clock.at = T0 + 2
        run.daemon.woken()
        await until(lambda: run.daemon.store.frontier >= T0 + 2)
        async with http.get(f"{run.url}/metrics") as answer:
            found = {one.name: one for one in read_text(await answer.text()) if one.name.startswith("celery_")}
    labels = {"hostname": "box", "job": "celery-exporter", "name": "a", "queue_name": "q", "source": "http"}
    if compat is None:
        assert not found
        return
    assert [(one.labels, one.value) for one in found["celery_task_succeeded"].samples] == [(labels, 1)]
    assert [one.value for one in found["celery_task_runtime"].samples if one.name.endswith("_count")] == [1]
    assert not {"celery_worker_up", "celery_queue_length"} & found.keys()
