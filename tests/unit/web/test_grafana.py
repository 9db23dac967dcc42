"""The calls of Grafana's Prometheus data source, in the shapes in which it makes them.

It posts forms unless told otherwise, sends every start, end and step as text in seconds, repeats `match[]`, and adds
parameters that only some servers know.
"""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from tests.unit.parts import T0

FORM = {"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "Grafana/12.1.0", "X-Grafana-Org-Id": "1"}
GRID = {"start": str(int(T0) - 300), "end": str(int(T0) + 10), "step": "5"}


async def call(asked, method: str, path: str, pairs: list[tuple[str, str]]):
    """Status and body of one call."""
    body = {"data": urlencode(pairs), "headers": FORM} if method == "POST" else {"params": pairs}
    async with asked.http.request(method, f"{asked.run.url}/api/v1/{path}", **body) as answer:
        return answer.status, json.loads(await answer.text())


async def test_save_and_test(asked) -> None:
    """The health check: an instant query of `1+1`, the version, and whether there are rules."""
    status, body = await call(asked, "POST", "query", [("query", "1+1"), ("time", f"{T0 + 10:.3f}")])
    assert (status, body["data"]) == (200, {"resultType": "scalar", "result": [T0 + 10, "2"]})
    status, body = await call(asked, "GET", "status/buildinfo", [])
    assert (status, int(body["data"]["version"].split(".")[0])) == (200, 3)
    status, body = await call(asked, "GET", "rules", [])
    assert (status, len(body["data"]["groups"])) == (200, 2)


async def test_a_panel(asked) -> None:
    """A range query as a panel makes it, and the instant one of a table or stat panel."""
    expr = 'sum by (task) (rate(task_started_total{task=~"a|b"}[1m0s]))'
    status, body = await call(asked, "POST", "query_range", [("query", expr), *GRID.items()])
    assert (status, body["status"], body["data"]["resultType"]) == (200, "success", "matrix")
    assert [one["metric"] for one in body["data"]["result"]] == [{"task": "a"}, {"task": "b"}]
    assert body["data"]["result"][0]["values"][-1] == [T0 + 10, "0.016666666666666666"]
    status, body = await call(asked, "POST", "query", [("query", expr), ("time", str(T0 + 10))])
    assert (status, len(body["data"]["result"])) == (200, 2)


async def test_exemplars_of_a_panel(asked) -> None:
    """With exemplars switched on a panel asks for them too, and gets none."""
    pairs = [("query", "task_started_total"), ("start", GRID["start"]), ("end", GRID["end"])]
    assert await call(asked, "POST", "query_exemplars", pairs) == (200, {"status": "success", "data": []})


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_query_builder(asked, method) -> None:
    """Metric names, labels of a metric with filters set, and values of one of them."""
    span = [("start", GRID["start"]), ("end", GRID["end"]), ("limit", "40000")]
    status, body = await call(asked, method, "labels", [*span, ("match[]", '{__name__="task_started_total",task="a"}')])
    assert (status, body["data"]) == (200, ["__name__", "queue", "source", "task"])
    status, body = await call(asked, "GET", "label/__name__/values", span)
    assert status == 200
    assert "task_started_total" in body["data"]
    pairs = [*span, ("match[]", '{__name__="task_started_total"}')]
    assert await call(asked, "GET", "label/task/values", pairs) == (200, {"status": "success", "data": ["a", "b"]})
    status, body = await call(asked, "GET", "metadata", [("limit", "40000"), ("limit_per_metric", "1")])
    assert (status, body["data"]["task_started_total"][0]["type"]) == (200, "counter")


async def test_template_variables(asked) -> None:
    """`label_values(metric, label)`, `query_result(...)` and `metrics(...)` of dashboards."""
    span = [("start", GRID["start"]), ("end", GRID["end"])]
    status, body = await call(asked, "GET", "label/queue/values", [*span, ("match[]", "task_started_total{task='b'}")])
    assert (status, body["data"]) == (200, ["r"])
    status, body = await call(asked, "POST", "series", [*span, ("match[]", "task_started_total")])
    assert (status, [one["task"] for one in body["data"]]) == (200, ["a", "b"])
    pairs = [("query", "sum by (task) (task_failed_total)"), ("time", GRID["end"])]
    status, body = await call(asked, "GET", "query", pairs)
    assert (status, body["data"]["result"][0]["metric"]) == (200, {"task": "b"})


async def test_annotations_and_alerts(asked) -> None:
    """Annotations are range queries with a step as text; alert lists read the rules with their alerts."""
    pairs = [("query", "task_failed_total > 0"), *GRID.items()]
    status, body = await call(asked, "GET", "query_range", [*pairs[:-1], ("step", "60s")])
    assert (status, len(body["data"]["result"])) == (200, 1)
    status, body = await call(asked, "GET", "rules", [("type", "alert")])
    assert [rule["state"] for group in body["data"]["groups"] for rule in group["rules"]] == ["firing", "inactive"]


async def test_dashboards_of_celery_exporter(asked) -> None:
    """Variables and panels of the exporter's own dashboards find its names, labels and job."""
    chosen = 'cluster="", namespace="", job=~"celery-exporter"'
    for label, values in (("job", ["celery-exporter"]), ("queue_name", ["q", "r"]), ("name", ["a", "b"])):
        pairs = [("match[]", f'celery_task_started_total{{{chosen}, queue_name!~"None"}}')]
        assert (await call(asked, "GET", f"label/{label}/values", pairs))[1]["data"] == values
    panel = f"round(sum(increase(celery_task_failed_total{{{chosen}}}[6h])) by (job, exception))"
    status, body = await call(asked, "POST", "query_range", [("query", panel), *GRID.items()])
    assert body["data"]["result"][0]["metric"] == {"job": "celery-exporter", "exception": "ValueError"}
    quantile = f"histogram_quantile(0.95, sum(irate(celery_task_runtime_bucket{{{chosen}}}[5m])) by (job, le))"
    status, body = await call(asked, "POST", "query_range", [("query", quantile), *GRID.items()])
    assert (status, body["status"]) == (200, "success")
