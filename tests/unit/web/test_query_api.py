"""The query API over a running daemon: what is asked, and what is answered, in Prometheus' form."""

from __future__ import annotations

import io
import math
from types import SimpleNamespace

import msgspec
import pytest

from collector.web import answers, budget, prometheus, query
from tests.unit.parts import T0, event

SENT = {"queue": "q", "source": "http", "task": "a"}
FAILED = {"error": "ValueError", "queue": "r", "source": "http", "task": "b"}


@pytest.mark.parametrize(
    ("text", "kind", "result"),
    [
        ("task_sent_total", "vector", [{"metric": {"__name__": "task_sent_total", **SENT}, "value": [T0 + 10, "1"]}]),
        ("sum(increase(task_started_total[1m]))", "vector", [{"metric": {}, "value": [T0 + 10, "2"]}]),
        ("rate(task_failed_total[1m])", "vector", [{"metric": FAILED, "value": [T0 + 10, "0.016666666666666666"]}]),
        ("nothing_like_it", "vector", []),
        ("1 / 0", "scalar", [T0 + 10, "+Inf"]),
        ("-1e-7", "scalar", [T0 + 10, "-1e-07"]),
        ('"a\\"b"', "string", [T0 + 10, 'a"b']),
        (
            "task_sent_total[20s]",
            "matrix",
            [{"metric": {"__name__": "task_sent_total", **SENT}, "values": [[T0 + 10, "1"]]}],
        ),
        (
            "celery_task_failed_total",
            "vector",
            [
                {
                    "metric": {
                        "__name__": "celery_task_failed_total",
                        "exception": "ValueError",
                        "hostname": "None",
                        "job": "celery-exporter",
                        "name": "b",
                        "queue_name": "r",
                        "source": "http",
                    },
                    "value": [T0 + 10, "1"],
                }
            ],
        ),
        ('sum(task_run_seconds_bucket{le="1.0"})', "vector", [{"metric": {}, "value": [T0 + 10, "1"]}]),
    ],
)
async def test_an_instant_query(asked, text, kind, result) -> None:
    """Each type of result has Prometheus' shape, and its numbers are spelled as Prometheus spells them."""
    assert await asked.data("query", query=text) == {"resultType": kind, "result": result}


async def test_buckets_sums_and_counts_of_event_fed_histograms(asked) -> None:
    """Bare buckets are cumulative and complete; means and quantiles come out of the same observations."""
    buckets = await asked.result('task_run_seconds_bucket{task="a"}')
    assert [one["metric"]["le"] for one in buckets][:3] == ["0.005", "0.01", "0.025"]
    assert (len(buckets), buckets[-1]["value"][1]) == (20, "1")
    (mean,) = await asked.result("sum(rate(task_run_seconds_sum[1m])) / sum(rate(task_run_seconds_count[1m]))")
    assert float(mean["value"][1]) == pytest.approx(1.25, rel=0.01)
    (median,) = await asked.result("histogram_quantile(0.5, sum by (le) (max_over_time(task_run_seconds_bucket[1m])))")
    assert median["value"][1] == "0.5"


async def test_time_is_now_or_what_is_asked_for(asked) -> None:
    """An instant comes as seconds or as RFC 3339; before its first event a series is not there."""
    for time in (T0 - 1, "2025-06-15T15:06:44Z", "2025-06-15T17:06:44.000+02:00"):
        assert await asked.result("task_sent_total", time=time) == []
    ((stamp, _),) = [one["value"] for one in await asked.result("vector(1)", time=T0 + 0.25)]
    assert stamp == T0 + 0.25


async def test_a_range_query(asked) -> None:
    """Every step from start to end, series ordered by their labels, instants without a value left out."""
    await asked.to(T0 + 12)
    await asked.push(event("sent", "3", T0 + 12))
    await asked.to(T0 + 20)
    data = await asked.data("query_range", query="task_started_total", start=T0 - 5, end=T0 + 20, step="5s")
    assert data["resultType"] == "matrix"
    assert [one["metric"]["task"] for one in data["result"]] == ["a", "b"]
    assert data["result"][0]["values"] == [[T0 + step, "1"] for step in (0, 5, 10, 15, 20)]
    data = await asked.data("query_range", query="sum(task_sent_total) > 1", start=T0, end=T0 + 20, step=5)
    assert data["result"] == [{"metric": {}, "values": [[T0 + 15, "2"], [T0 + 20, "2"]]}]
    data = await asked.data("query_range", query="time() - 1750000000", start=T0, end=T0 + 2, step="1")
    assert data["result"] == [{"metric": {}, "values": [[T0, "5"], [T0 + 1, "6"], [T0 + 2, "7"]]}]
    data = await asked.data("query_range", query="task_sent_total @ end()", start=T0, end=T0 + 15, step=15)
    assert data["result"][0]["values"] == [[T0, "2"], [T0 + 15, "2"]]


async def test_a_range_query_takes_series_that_come_and_go(asked) -> None:
    """Elements that change from instant to instant are each their own series, in the order of their labels."""
    text = 'topk(1, task_failed_total or label_replace(vector(time() % 10), "task", "a", "", ""))'
    data = await asked.data("query_range", query=text, start=T0, end=T0 + 10, step=5)
    assert [(one["metric"].get("task"), [value for _, value in one["values"]]) for one in data["result"]] == [
        ("b", ["1"]),
        ("a", ["5", "5"]),
    ]


async def test_limits_cut_results_with_a_warning(asked) -> None:
    """`limit` gives the first ones and says so."""
    for path, more in (
        ("query", {"query": "task_started_total"}),
        ("query", {"query": "task_started_total[1m]"}),
        ("query_range", {"query": "task_started_total", "start": T0, "end": T0 + 10, "step": 5}),
    ):
        status, body = await asked.answer(path, limit=1, **more)
        assert (status, body["warnings"], len(body["data"]["result"])) == (200, [prometheus.TRUNCATED], 1)
        assert len((await asked.data(path, limit=2, **more))["result"]) == 2
    status, body = await asked.answer("labels", limit=2)
    assert (body["data"], body["warnings"]) == (["__name__", "bound"], [prometheus.TRUNCATED])
    status, body = await asked.answer("series", match="task_run_seconds_bucket", limit=3)
    assert (len(body["data"]), body["warnings"]) == (3, [prometheus.TRUNCATED])


async def test_posted_forms_ask_the_same(asked) -> None:
    """The five endpoints that clients post to read their parameters from the form."""
    for path, more in (
        ("query", {"query": "task_sent_total", "time": T0 + 5}),
        ("query_range", {"query": "task_sent_total", "start": T0, "end": T0 + 5, "step": 5}),
        ("series", {"match": ["task_sent_total", "task_failed_total"]}),
        ("labels", {"match": "task_sent_total"}),
        ("format_query", {"query": "sum( a )by(b)"}),
    ):
        posted = await asked.answer(path, "POST", **more)
        assert posted == await asked.answer(path, **more)
        assert posted[0] == 200


async def test_series_labels_and_values(asked) -> None:
    """What there is, by its labels; histograms as their buckets; views of celery-exporter when they are named."""
    sent, failed = {"__name__": "task_sent_total", **SENT}, {"__name__": "task_failed_total", **FAILED}
    assert await asked.data("series", match=['{__name__=~"task_(sent|failed)_total"}']) == [sent, failed]
    assert await asked.data("series", match=["task_sent_total", "task_sent_total{task=~'a|b'}"]) == [sent]
    assert len(await asked.data("series", match="task_run_seconds_bucket")) == 40
    assert await asked.data("labels", match="task_failed_total") == ["__name__", "error", "queue", "source", "task"]
    assert await asked.data("labels", match="celery_task_sent_total") == [
        "__name__",
        "hostname",
        "job",
        "name",
        "queue_name",
        "source",
    ]
    assert await asked.data("label/task/values") == ["a", "b"]
    assert await asked.data("label/task/values", match=["task_sent_total", "task_failed_total"]) == ["a", "b"]
    assert await asked.data("label/task/values", match="task_failed_total") == ["b"]
    names = await asked.data("label/__name__/values")
    assert {"task_sent_total", "task:failed:rate1m", "tasktrail_source_up"} <= set(names)
    assert not [name for name in names if name.startswith("celery")]
    assert len(await asked.data("label/le/values", match="task_run_seconds_bucket")) == 20
    assert await asked.data("label/nobody/values") == []


async def test_series_are_there_from_their_first_event_on(asked) -> None:
    """A time before it finds nothing; samples are found where they lie."""
    assert await asked.data("series", match="task_sent_total", end=T0 - 1) == []
    assert await asked.data("label/task/values", match="task_sent_total", start=T0 + 100) == []
    assert await asked.data("label/kind/values", start=T0, end=T0 + 10) == ["recorded"]
    assert await asked.data("label/kind/values", start=T0 + 11, end=T0 + 20) == []


async def test_metadata(asked) -> None:
    """Type and help by metric, ours about ourselves too."""
    data = await asked.data("metadata")
    assert data["task_sent_total"] == [{"type": "counter", "help": "Tasks sent.", "unit": ""}]
    assert data["task_run_seconds"][0]["type"] == "histogram"
    assert data["tasktrail_events_total"][0]["type"] == "counter"
    assert list(await asked.data("metadata", metric="dead_letters_open")) == ["dead_letters_open"]
    assert len(await asked.data("metadata", limit=2)) == 2


async def test_what_clients_ask_to_know_us(asked) -> None:
    """The version is one of Prometheus 3 that clients can compare, with ours in it; no exemplars are kept."""
    build = await asked.data("status/buildinfo")
    assert build["version"].startswith("3.")
    assert "tasktrail" in build["version"]
    assert (await asked.data("status/runtimeinfo"))["startTime"] == "2025-06-15T15:06:45Z"
    assert await asked.data("query_exemplars", query="task_sent_total", start=T0, end=T0) == []
    assert await asked.data("format_query", query="sum( a )by(b)") == "sum by (b) (a)"


BAD = [
    ("query", {"query": "sum("}, 'invalid parameter "query": unclosed left parenthesis'),
    ("query", {}, 'invalid parameter "query": no expression found in input'),
    ("query", {"query": "1", "time": "noon"}, 'invalid parameter "time": cannot parse "noon" to a valid timestamp'),
    ("query", {"query": "1", "timeout": "soon"}, 'invalid parameter "timeout": cannot parse "soon" to a valid'),
    ("query", {"query": "1", "limit": "-1"}, 'invalid parameter "limit": limit must be non-negative'),
    ("query", {"query": "1", "limit": "x"}, 'invalid parameter "limit": strconv.Atoi: parsing "x": invalid syntax'),
    ("query", {"query": "sort_by_label(up)"}, 'invalid parameter "query": sort_by_label() is an experimental'),
    ("query_range", {"query": "1"}, 'invalid parameter "start": cannot parse "" to a valid timestamp'),
    ("query_range", {"query": "1", "start": 1}, 'invalid parameter "end": cannot parse "" to a valid timestamp'),
    ("query_range", {"query": "1", "start": 1, "end": 2}, 'invalid parameter "step": cannot parse "" to a valid'),
    ("query_range", {"query": "1", "start": 2, "end": 1, "step": 1}, 'invalid parameter "end": end timestamp must not'),
    ("query_range", {"query": "1", "start": 1, "end": 2, "step": 0}, 'invalid parameter "step": zero or negative'),
    ("query_range", {"query": "1", "start": 1, "end": 2, "step": "-5m"}, 'invalid parameter "step": cannot parse'),
    ("query_range", {"query": "1", "start": 1, "end": 2, "step": "1e99"}, 'invalid parameter "step": cannot parse'),
    ("query_range", {"query": "1", "start": 0, "end": 11001, "step": 1}, "exceeded maximum resolution of 11,000"),
    (
        "query_range",
        {"query": "up[5m]", "start": 1, "end": 2, "step": 1},
        'invalid parameter "query": invalid expression type "range vector" for range query',
    ),
    ("query_range", {"query": '"a"', "start": 1, "end": 2, "step": 1}, 'invalid parameter "query": invalid expression'),
    ("series", {}, "no match[] parameter provided"),
    ("series", {"match": "up["}, 'invalid parameter "match[]": '),
    ("series", {"match": "rate(up[5m])"}, 'invalid parameter "match[]": not a series selector'),
    ("series", {"match": "up offset 5m"}, 'invalid parameter "match[]": not a series selector'),
    ("series", {"match": "up[5m]"}, 'invalid parameter "match[]": not a series selector'),
    ("series", {"match": '{a=~".*"}'}, 'invalid parameter "match[]": '),
    ("series", {"match": "up", "start": "x"}, 'invalid parameter "start": cannot parse "x"'),
    ("labels", {"match": "{}"}, 'invalid parameter "match[]": '),
    ("labels", {"end": "2020-13-01T00:00:00Z"}, 'invalid parameter "end": cannot parse "2020-13-01T00:00:00Z"'),
    ("label/task/values", {"limit": "1.5"}, 'invalid parameter "limit": '),
    ("metadata", {"limit": "many"}, 'invalid parameter "limit": '),
    ("format_query", {"query": "sum("}, 'invalid parameter "query": unclosed'),
    ("query_exemplars", {"query": "sum("}, 'invalid parameter "query": unclosed'),
    ("rules", {"type": "all"}, 'invalid parameter "type": not supported value "all"'),
    ("rules", {"exclude_alerts": "maybe"}, 'invalid parameter "exclude_alerts": '),
    ("rules", {"match": "("}, 'invalid parameter "match[]": '),
    ("rules", {"group_next_token": "x"}, 'invalid parameter "group_next_token": group_limit needs to be present'),
    ("rules", {"group_limit": "0"}, 'invalid parameter "group_limit": group_limit needs to be greater than 0'),
    (
        "rules",
        {"group_limit": "1", "group_next_token": "x"},
        "invalid parameter \"group_next_token\": invalid group_next_token 'x'. were rule groups changed?",
    ),
]


@pytest.mark.parametrize(("path", "parameters", "message"), BAD)
async def test_bad_requests(asked, path, parameters, message) -> None:
    """What cannot be understood is 400 and `bad_data`, in Prometheus' words."""
    status, body = await asked.answer(path, **parameters)
    assert (status, body["status"], body["errorType"]) == (400, "error", "bad_data")
    assert body["error"].startswith(message)


async def test_a_query_that_fails_on_the_series_it_meets(asked) -> None:
    """An error of the evaluation is 422 and `execution`."""
    for path, more in (("query", {}), ("query_range", {"start": T0, "end": T0 + 5, "step": 5})):
        status, body = await asked.answer(path, query="task_started_total * on (source) task_started_total", **more)
        assert (status, body["errorType"]) == (422, "execution")
        assert "many-to-many" in body["error"] or "duplicate series" in body["error"]


async def test_a_form_that_is_too_large(asked) -> None:
    """A posted form has a bound."""
    form = io.BytesIO(b"query=" + b"1-" * 600_000 + b"1")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with asked.http.post(f"{asked.run.url}/api/v1/query", data=form, headers=headers) as answer:
        assert (answer.status, (await answer.json())["errorType"]) == (400, "bad_data")


class Stepping:
    """A monotonic clock that goes on with every look at it."""

    def __init__(self, step: float) -> None:
        self.at, self.step = 0.0, step

    def __call__(self) -> float:
        """The next instant."""
        self.at += self.step
        return self.at


@pytest.mark.parametrize(("step", "wanted"), [(0.02, "0.5"), (0.02, "500ms"), (0.12, "1h")])
async def test_a_query_has_a_time(asked, monkeypatch, step, wanted) -> None:
    """A query that is not done in its time is 503 and `timeout`; no client can ask for more than 30 s."""
    monkeypatch.setattr(asked.run.daemon, "monotonic", Stepping(step))
    grid = {"start": T0, "end": T0 + 300, "step": 1}
    status, body = await asked.answer("query_range", query="task_sent_total", timeout=wanted, **grid)
    assert (status, body["errorType"], body["error"]) == (503, "timeout", budget.TOO_LATE)


async def test_one_instant_has_a_time(asked, monkeypatch) -> None:
    """An evaluation that holds the loop for long is given up, and the answer says what to do."""
    monkeypatch.setattr(asked.run.daemon, "monotonic", Stepping(0.001))
    status, body = await asked.answer("query", query="max_over_time(sum(task_sent_total)[1h:1s])")
    assert (status, body["errorType"]) == (422, "execution")
    assert "narrow its selectors" in body["error"]
    assert await asked.result("sum(task_sent_total)")


@pytest.mark.parametrize("inner", ["vector(1)", "task_sent_total", "max_over_time(vector(1)[1h:1s])"])
async def test_a_subquery_has_a_size(asked, inner) -> None:
    """Steps that are evaluated in one go are bounded, also where they read nothing."""
    status, body = await asked.answer("query", query=f"max_over_time({inner}[2d:1s])")
    assert (status, body["errorType"]) == (422, "execution")
    assert "steps" in body["error"]


@pytest.mark.parametrize("transport", [None, SimpleNamespace(is_closing=lambda: True)])
async def test_a_client_that_went_away_ends_its_query(transport) -> None:
    """Nobody computes what nobody reads."""
    pace = budget.Pace(SimpleNamespace(transport=transport), SimpleNamespace(monotonic=Stepping(0.01)))
    with pytest.raises(prometheus.ApiError) as error:
        await pace.rest()
    assert prometheus.STATUS[error.value.kind] == 499


async def test_a_query_has_a_size(asked, monkeypatch) -> None:
    """Too many samples in one instant, or points in all, are refused with Prometheus' words."""
    monkeypatch.setattr(budget, "MOST_SAMPLES", 10)
    status, body = await asked.answer("query", query="max_over_time(task_started_total[5m])")
    assert (status, body["errorType"], body["error"]) == (422, "execution", budget.TOO_MANY)
    assert await asked.result("max_over_time(task_started_total[1m])")
    status, body = await asked.answer("query", query="max_over_time({__name__=~'tasktrail_.*'}[1m])")
    assert (status, body["error"]) == (422, budget.TOO_MANY)
    monkeypatch.setattr("collector.web.results.MOST_POINTS", 10)
    grid = {"start": T0, "end": T0 + 10}
    status, body = await asked.answer("query_range", query="task_started_total", step=1, **grid)
    assert (status, body["error"]) == (422, budget.TOO_MANY)
    assert await asked.data("query_range", query="task_started_total", step=5, **grid)


async def test_what_reaches_further_back_than_is_kept(asked) -> None:
    """The answer is made of what is kept, with a warning; an instant about which nothing is known is not there."""
    for minute in range(1, 31):
        await asked.push(event("sent", f"m{minute}", T0 + 60 * minute))
        await asked.to(T0 + 60 * minute)
    end = T0 + 1800
    status, body = await asked.answer("query", query="sum(increase(task_sent_total[1h]))")
    assert status == 200
    assert body["warnings"][0].startswith("task_sent_total: nothing is kept from before ")
    assert 5 <= float(body["data"]["result"][0]["value"][1]) <= 8
    assert "warnings" not in (await asked.answer("query", query="sum(increase(task_sent_total[5m]))"))[1]
    for text in ("task_sent_total", "increase(task_sent_total[1m])", "max_over_time(task_sent_total[1m])"):
        asking = {"query": text, "start": end - 1200, "end": end, "step": 60}
        status, body = await asked.answer("query_range", **asking)
        (series,) = body["data"]["result"]
        assert (status, len(body["warnings"])) == (200, 1)
        assert 5 <= len(series["values"]) <= 9
        assert series["values"][-1][0] == end
    status, body = await asked.answer("query", query="task_sent_total", time=T0 + 60)
    assert (body["data"]["result"], len(body["warnings"])) == ([], 1)


async def test_the_future_is_not_known(asked) -> None:
    """Event-fed series hold their last value for five minutes, as samples do."""
    assert await asked.result("task_sent_total", time=T0 + 300)
    assert await asked.result("task_sent_total", time=T0 + 400) == []


async def test_queries_leave_no_series_behind(asked) -> None:
    """Whatever is asked, nothing new exists afterwards."""
    before = asked.run.daemon.store.catalogue.size, set(asked.run.daemon.store.sampled.metrics)
    for text in ("nobody_total", "task_sent_total{task='new',queue='new'}", "x:y[1m]"):
        await asked.data("query", query=text)
    assert (asked.run.daemon.store.catalogue.size, set(asked.run.daemon.store.sampled.metrics)) == before


async def test_a_name_of_celery_exporter_is_counted_by_host_once_it_was_asked_for(asked) -> None:
    """The first query sees what was counted before, under no host; then hosts are told apart; asking is free."""
    store = asked.run.daemon.store
    assert [one["value"][1] for one in await asked.result("celery_task_failed_total")] == ["1"]
    size = store.catalogue.size
    assert await asked.result("celery_task_failed_total{name='nobody'}") == []
    assert store.catalogue.size == size
    await asked.push(event("failed", "9", T0 + 9, task="b", queue="r", error="ValueError", worker="celery@box"))
    await asked.to(T0 + 11)
    found = await asked.result("sum by (hostname) (celery_task_failed_total{name='b'})")
    assert {one["metric"]["hostname"]: one["value"][1] for one in found} == {"None": "1", "box": "1"}
    assert (await asked.result("sum(task_failed_total)"))[0]["value"][1] == "2"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (0.25, "0.25"),
        (1e-6, "0.000001"),
        (9.99e-7, "9.99e-07"),
        (123456789012345680.0, "123456789012345680"),
        (1e21, "1e+21"),
        (1e300, "1e+300"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_values_are_spelled_as_prometheus_does(value, text) -> None:
    """An exponent only below 1e-6 and from 1e21 on."""
    assert answers.number(value) == text


@pytest.mark.parametrize(("at", "text"), [(0, "0"), (1500, "1.500"), (1007, "1.007"), (-500, "-0.5"), (-2000, "-2")])
def test_instants_are_spelled_as_prometheus_does(at, text) -> None:
    """Seconds, with three digits where they are not whole."""
    assert prometheus.timestamp(at) == text
    assert msgspec.json.decode(text) == at / 1000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15", 15), ("0.5", 0.5), ("1e2", 100), ("5m", 300), ("1h30m", 5400), ("100ms", 0.1), (".5", 0.5), ("0", 0)],
)
def test_durations(text, seconds) -> None:
    """Seconds, or Prometheus' spelling."""
    assert prometheus.parse_span(text) == seconds


@pytest.mark.parametrize("text", ["1_000", " 1", "nan", "inf", "0x10", "1e400", "2020-01-01", "2020-01-01 00:00:00Z"])
def test_what_is_no_time(text) -> None:
    """Python's own liberties are none of Prometheus'."""
    with pytest.raises(ValueError, match="cannot parse"):
        prometheus.parse_time(text)


def test_the_bounds_of_time() -> None:
    """How Go writes the first and the last instant is understood."""
    assert prometheus.parse_time("-292273086-05-16T16:47:06Z") == -prometheus.FOREVER
    assert query.MOST_INSTANTS == 11_000
