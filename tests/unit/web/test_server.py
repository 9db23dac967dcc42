"""Every route, asked as clients ask, of a whole running daemon."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import zlib
from unittest.mock import Mock

import aiohttp
import msgspec
import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collector.config.settings import Settings
from collector.model.clock import ManualClock
from collector.model.errors import SourceError
from collector.model.record import Gap, Refusal, Refusals
from collector.web import bodies, partial, server
from collector.web.server import ROUTES
from collector.wiring.plugs import Feed
from tests.unit.parts import FAILING, T0, Kept, batch, event, running, until

SETTINGS = Settings(state="none")


@pytest.fixture
def rules(tmp_path):
    """A rule file."""
    path = tmp_path / "rules.yaml"
    path.write_text(FAILING)
    return path


@pytest.fixture
async def run(rules):
    """A running daemon without sources of its own, with one target."""
    channel = Kept()
    async with running(msgspec.structs.replace(SETTINGS, rules=(str(rules),)), channels=(channel,)) as made:
        made.channel = channel
        yield made


@pytest.fixture
async def http():
    """A client."""
    async with aiohttp.ClientSession() as session:
        yield session


async def push(http, run, body: bytes, **headers: str) -> tuple[int, dict[str, int]]:
    """Status and outcome of a push."""
    async with http.post(f"{run.url}/v1/events", data=body, headers=headers) as answer:
        return answer.status, await answer.json()


async def get(http, run, path: str, **headers: str) -> tuple[int, str]:
    """Status and text of an answer."""
    async with http.get(run.url + path, headers=headers) as answer:
        return answer.status, await answer.text()


SENT = event("sent", "1", T0)
STARTED = event("started", "1", T0, worker="w", trace_id="ab" * 16)
COUNTED = {"read": 2, "accepted": 2, "duplicate": 0, "malformed": 0, "ignored": 0}
PACKED = msgspec.msgpack.encode([json.loads(SENT), json.loads(STARTED)])


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (SENT + b"\n" + STARTED + b"\n", {"Content-Type": "application/x-ndjson"}),
        (b"[%b,%b]" % (SENT, STARTED), {"Content-Type": "application/json"}),
        (PACKED, {"Content-Type": "application/msgpack"}),
        (SENT + b"\r\n" + STARTED, {"Content-Type": "application/x-www-form-urlencoded"}),
        (PACKED, {"Content-Type": "application/octet-stream"}),
        (gzip.compress(SENT + b"\n" + STARTED), {"Content-Encoding": "gzip"}),
        (gzip.compress(SENT + b"\n") + gzip.compress(STARTED), {"Content-Encoding": "GZIP"}),
        (zlib.compress(SENT + b"\n" + STARTED), {"Content-Encoding": "deflate"}),
        (zlib.compress(SENT + b"\n" + STARTED, wbits=-15), {"Content-Encoding": "deflate"}),
        (SENT + b"\n" + STARTED, {"Content-Encoding": "identity"}),
    ],
)
async def test_a_push_is_answered_when_it_is_counted(http, run, body: bytes, headers: dict[str, str]) -> None:
    """NDJSON, JSON arrays and msgpack count, plain and compressed, whatever type they are sent as."""
    assert await push(http, run, body, **headers) == (200, COUNTED)
    assert run.daemon.axes[0].totals.accepted == 2


async def test_a_push_with_a_bad_event_counts_the_good_ones(http, run) -> None:
    """Where some can be used the answer is 200 and says how many could not."""
    status, outcome = await push(http, run, SENT + b"\n{\n")
    assert (status, outcome["accepted"], outcome["malformed"]) == (200, 1, 1)


async def test_a_push_is_told_what_could_not_be_used(http, run) -> None:
    """The answer counts what was rejected by reason, and shows the first few with their places and details."""
    bad = [b'{"kind":"sent"}'] * 1200 + [b"{"]
    status, outcome = await push(http, run, b"\n".join([SENT, *bad, STARTED]))
    assert (status, outcome["accepted"], outcome["malformed"]) == (200, 2, 1201)
    reasons, first = outcome["rejected"]["reasons"], outcome["rejected"]["first"]
    assert sorted(reasons.values()) == [1, 1200]
    assert [one["index"] for one in first] == list(range(1, 11))
    assert {one["reason"] for one in first} == {max(reasons, key=reasons.get)}
    assert all("task_id" in one["detail"] for one in first)
    assert await push(http, run, event("sent", "9", T0)) == (200, {**COUNTED, "read": 1, "accepted": 1})


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"kind":"sent"}', b"null"])
async def test_a_push_without_any_event_is_a_bad_request(http, run, body: bytes) -> None:
    """Where nothing can be used the answer is 400, and it is counted with its reason; the next one counts."""
    status, outcome = await push(http, run, body)
    assert (status, outcome["malformed"]) == (400, 1)
    assert len(run.daemon.rejected) == 1
    assert await push(http, run, SENT + b"\n" + STARTED) == (200, COUNTED)


@pytest.mark.parametrize("is_squeezed", [False, True])
async def test_too_large_a_push_is_refused_and_counted(http, run, monkeypatch, *, is_squeezed: bool) -> None:
    """A body over the bound is answered 413 as soon as that is known, inflated or not, and is counted."""
    monkeypatch.setattr(server, "LARGEST_BODY", 100_000)
    body = SENT + b" " * 1_000_000
    headers = {"Content-Encoding": "gzip"} if is_squeezed else {}
    data = gzip.compress(body) if is_squeezed else body
    async with http.post(f"{run.url}/v1/events", data=data, headers=headers) as answer:
        assert answer.status == 413
    (rejected,) = run.daemon.rejected
    assert (rejected.source, rejected.place, rejected.reason) == ("http", "push", "too_large")
    assert rejected.first_bytes.startswith('{"kind":"sent"')
    assert run.daemon.axes[0].totals.malformed == 1


async def test_pushes_hold_so_much_at_once_and_no_more(http, run, monkeypatch) -> None:
    """Bodies that are on their way in have one bound together; what was held by those that went away is free again."""
    monkeypatch.setattr(server, "LARGEST_HELD", 100_000)
    url = run.url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(url[0], int(url[2]))
    writer.write(b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + b" " * 90_000)

    async def answered(status: int) -> None:
        async with asyncio.timeout(10):
            while True:
                async with http.post(f"{run.url}/v1/events", data=SENT + b" " * 50_000) as answer:
                    if answer.status == status:
                        return

    await answered(503)
    assert (await push(http, run, SENT))[0] == 200
    writer.close()
    await answered(200)


async def test_a_push_that_does_not_come_is_not_waited_for(run, monkeypatch) -> None:
    """A body has a time in which it must be there."""
    monkeypatch.setattr(server, "SLOWEST_BODY", 0.1)
    url = run.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(url[0], int(url[2]))
    writer.write(b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_connections_that_ask_nothing_leave_room_for_others(http, run, monkeypatch) -> None:
    """Past the bound the connection that has been silent for longest is closed, and a new one is answered."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    host, _, port = run.url.removeprefix("http://").partition(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
    assert (await get(http, run, "/-/healthy"))[0] == 200
    for reader, _ in silent[:3]:
        async with asyncio.timeout(5):
            assert await reader.read() == b""
    for _, writer in silent:
        writer.close()


async def test_an_id_may_hold_anything(http, run) -> None:
    """A task is found by its id, whatever characters that is made of."""
    assert (await push(http, run, event("sent", "a/b\nc", T0)))[0] == 200
    assert (await get(http, run, "/api/tasks/a%2Fb%0Ac"))[0] == 200


@pytest.mark.parametrize(
    ("body", "encoding", "status", "reason", "words"),
    [
        (b"no gzip", "gzip", 400, "bad_encoding", "not encoded as its headers say"),
        (gzip.compress(SENT + b"\n")[:-9], "gzip", 400, "bad_encoding", "ends before its gzip stream"),
        (gzip.compress(SENT + b"\n") + b"more", "gzip", 400, "bad_encoding", "not encoded as its headers say"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd", 415, "unknown_encoding", "send gzip or deflate, or the body as it is"),
    ],
)
async def test_a_push_that_is_not_encoded_as_it_says(http, run, body, encoding, status, reason, words) -> None:
    """A body that is not what its headers say, or that ends too early, is refused whole, and counted by its reason."""
    async with http.post(f"{run.url}/v1/events", data=body, headers={"Content-Encoding": encoding}) as answer:
        assert (answer.status, words in await answer.text()) == (status, True)
    assert [one.reason for one in run.daemon.rejected] == [reason]
    assert run.daemon.axes[0].totals.accepted == 0


def test_a_body_is_inflated_in_short_steps() -> None:
    """However it is cut on its way, and however much comes of little, no step gives more than its bound."""
    body = b"".join(b"%d" % number for number in range(300_000)) + b"x" * 3 * bodies.STEP
    for encoding, wire in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body, wbits=-15))):
        for size in (997, len(wire)):
            inflating = bodies.Inflating(encoding)
            steps = [part for at in range(0, len(wire), size) for part in inflating.feed(wire[at : at + size])]
            assert b"".join(steps) == body
            assert inflating.is_whole
            assert max(map(len, steps)) <= bodies.STEP


async def test_a_client_that_is_gone_before_its_turn_has_hung_up() -> None:
    """Nothing is read of its body: the library would call that an error of ours."""
    protocol = BaseProtocol(asyncio.get_running_loop())
    gone = Mock(headers={}, transport=protocol.transport, content=StreamReader(protocol, 2**16))
    with pytest.raises(bodies.BrokenError) as caught:
        await anext(bodies.pieces(gone))
    assert caught.value.reason == "cut_off"


async def test_a_client_that_hangs_up_is_no_fault_of_ours(run, caplog) -> None:
    """It is counted by its reason, and is no error of ours."""
    address = run.url.removeprefix("http://").split(":")
    for _ in range(50):
        with socket.create_connection((address[0], int(address[1]))) as client:
            client.sendall(b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
    await until(lambda: run.daemon.axes[0].totals.malformed == 50)
    assert {one.reason for one in run.daemon.rejected} == {"cut_off"}
    assert not [one for one in caplog.records if one.exc_info or one.levelname == "ERROR"]


async def test_a_pushed_failure_alerts(http, run) -> None:
    """A failure that is pushed fires at once, is sent, and is listed as Prometheus lists it, with evidence."""
    run.clock.at = T0 + 1
    await push(http, run, event("failed", "bad", T0, error="E"))
    run.daemon.woken()
    await until(lambda: run.channel.sent)
    status, text = await get(http, run, "/api/v1/alerts")
    answer = json.loads(text)
    (alert,) = answer["data"]["alerts"]
    assert (status, answer["status"], alert["state"], alert["value"]) == (200, "success", "firing", "1e+00")
    assert alert["labels"]["alertname"] == "Failing"
    assert alert["activeAt"].endswith("Z")
    assert alert["blind"] is False
    assert alert["evidence"]["offenders"][0]["task_id"] == "bad"


async def test_a_timeline_and_a_trace_can_be_asked_for(http, run) -> None:
    """A task id and a trace id give what is remembered of them, ids with slashes too; else 404 with a sentence."""
    await push(http, run, STARTED + b"\n" + event("sent", "queue/with/slashes", T0))
    status, text = await get(http, run, "/api/tasks/1")
    assert (status, json.loads(text)["state"]) == (200, "started")
    status, text = await get(http, run, "/api/tasks/queue%2Fwith%2Fslashes")
    assert (status, json.loads(text)["task_id"]) == (200, "queue/with/slashes")
    status, text = await get(http, run, "/api/traces/" + "AB" * 16)
    assert status == 200
    assert "1" in text
    for path in ("/api/tasks/unknown", "/api/traces/unknown", "/runbooks/unknown"):
        status, text = await get(http, run, path)
        assert status == 404
        assert "unknown" in json.loads(text)["error"]


async def test_runbooks_are_served_as_they_are_written(http, run) -> None:
    """A shipped page is Markdown, and for a browser a page with the same text."""
    status, text = await get(http, run, "/runbooks/dead-letters.md")
    assert (status, text[0]) == (200, "#")
    status, page = await get(http, run, "/runbooks/dead-letters", Accept="text/html")
    assert status == 200
    assert page.startswith("<!doctype html>")


async def test_the_metrics_have_every_number_once(http, run) -> None:
    """Event-fed families and our own numbers are on /metrics, each series once, in the text format."""
    await push(http, run, SENT + b"\n" + STARTED + b"\n" + event("succeeded", "1", T0, run_seconds=0.5))
    run.clock.at = T0 + 2
    run.daemon.woken()
    await until(lambda: "tasktrail_source_up" in run.daemon.pipeline.store.sampled.metrics)
    await until(lambda: run.daemon.pipeline.store.frontier >= T0 + 2)
    async with http.get(f"{run.url}/metrics") as answer:
        text = await answer.text()
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    names = [line.rpartition(" ")[0] for line in lines]
    assert len(names) == len(set(names))
    assert 'task_started_total{queue="q",source="http",task="a"} 1.0' in lines
    assert 'task_run_seconds_bucket{le="0.5",queue="q",source="http",task="a"} 1.0' in lines
    assert 'tasktrail_source_up{source="http"} 1.0' in lines
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


async def test_the_index_lists_every_route(http, run) -> None:
    """The first page says what there is to ask."""
    _, text = await get(http, run, "/")
    assert [path for _, path, _ in ROUTES if path not in text] == []


@pytest.mark.parametrize("path", ["/-/healthy", "/healthz"])
async def test_health_is_about_our_own_loop(http, run, path: str) -> None:
    """The daemon is healthy while its loop moves, and not when it has not moved for long."""
    assert await get(http, run, path) == (200, "ok\n")
    run.daemon._moved_at = run.clock.at - 60
    status, text = await get(http, run, path)
    assert status == 503
    assert "not moved" in text


class Gate:
    """A source that is lost until it is let through."""

    def __init__(self) -> None:
        self.begin, self.up = asyncio.Event(), asyncio.Event()

    async def run(self, intake) -> None:
        """Wait, fail, or deliver one record and rest."""
        await self.begin.wait()
        if not self.up.is_set():
            raise SourceError("no answer of amqp://u:secret@h/")
        intake.connected("reads")
        intake.gap(Gap(source="gated", place="p", start=T0 - 5, end=T0, estimate=3, reason="trimmed"))
        await intake.take(batch([SENT, b"{"], is_head=True, position=2))
        await asyncio.Event().wait()


@pytest.mark.case("K01.1")
async def test_ready_and_sources_follow_the_sources(http, rules, monkeypatch) -> None:
    """Ready once every source was tried; /api/sources is 503 while one is down, whose outage is no matter of health."""
    monkeypatch.setattr("collector.shell.intake.FIRST_WAIT", 0.01)
    gate = Gate()
    feeds = (Feed(name="gated", build=lambda: gate),)
    async with running(msgspec.structs.replace(SETTINGS, rules=(str(rules),)), feeds=feeds) as made:
        for path in ("/-/ready", "/readyz"):
            assert (await get(http, made, path))[0] == 503
        gate.begin.set()
        await until(lambda: made.daemon.axes[0].was_tried)
        assert await get(http, made, "/-/ready") == (200, "ready\n")
        status, text = await get(http, made, "/api/sources")
        first = json.loads(text)["sources"][0]
        assert (status, first["up"], first["error"]) == (503, False, "no answer of amqp://u:***@h/")
        assert first["last_record_at"] is None
        assert (await get(http, made, "/-/healthy"))[0] == 200
        gate.up.set()
        await until(lambda: made.daemon.axes[0].totals.read)
        status, text = await get(http, made, "/api/sources")
        first = json.loads(text)["sources"][0]
        assert (status, first["up"], first["detail"], first["lag_seconds"]) == (200, True, "reads", 0)
        assert first["places"] == {"p": {"position": 2, "head": True}}
        assert first["events"]["accepted"] == 1
        assert first["gaps"][0]["estimate"] == 3
        assert first["rejected"][0]["reason"] == "not_json"
        assert first["last_record_at"] == T0


async def test_a_reload_takes_new_rules_and_keeps_alerts(http, run, rules) -> None:
    """POST /-/reload reads the files again; the alerts of rules that are the same go on."""
    run.clock.at = T0 + 1
    await push(http, run, event("failed", "bad", T0, error="E"))
    run.daemon.woken()
    await until(run.daemon.alerts)
    rules.write_text(FAILING + "  - alert: Other\n    expr: task_failed_total > 0\n")
    async with http.post(f"{run.url}/-/reload") as answer:
        assert (answer.status, await answer.text()) == (200, "reloaded\n")
    run.clock.at = T0 + 2
    await until(lambda: len(run.daemon.alerts()) == 2)
    assert {one.active_at for one in run.daemon.alerts() if dict(one.labels)["alertname"] == "Failing"} == {T0 + 1}


@pytest.mark.case("K16.1")
async def test_a_reload_of_broken_rules_keeps_the_old_ones(http, run, rules) -> None:
    """Where a file has problems all are listed with their places, and the rules stay as they were."""
    rules.write_text(FAILING.replace("> 0", "> ((").replace("name: g", "nam: g"))
    async with http.post(f"{run.url}/-/reload") as answer:
        text = await answer.text()
        assert answer.status == 400
    assert text.startswith("kept the old rules:\n")
    assert text.count(f"{rules}:") >= 2
    assert run.daemon.pipeline.telemetry.get("tasktrail_reload_success") == 0
    assert [group.name for group in run.daemon.pipeline.ticker.groups] == ["g"]


async def test_reading_is_not_writing(http, run) -> None:
    """A reload is asked for with POST only."""
    assert (await get(http, run, "/-/reload"))[0] == 405


def test_a_manual_clock_drives_the_whole_process() -> None:
    """The clock that tests inject stands where it was put."""
    assert ManualClock(T0).monotonic() == T0


OTLP = {"Content-Type": "application/json"}
SPANS = json.dumps(
    {"resourceSpans": [{"scopeSpans": [{"spans": [{
        "kind": 5, "traceId": "ab" * 16, "spanId": "cd" * 8,
        "startTimeUnixNano": str(int(T0) * 10**9), "endTimeUnixNano": str(int(T0 + 1) * 10**9),
        "attributes": [{"key": "messaging.message.id", "value": {"stringValue": "77"}}],
    }]}]}]}
).encode()  # fmt: skip


async def test_exported_spans_are_counted(run, http):
    """An export is answered as OTLP says, and its spans are a trail."""
    async with http.post(f"{run.url}/v1/traces", data=SPANS, headers=OTLP) as answer:
        assert (answer.status, await answer.json()) == (200, {})
    status, text = await get(http, run, "/api/tasks/77")
    assert (status, json.loads(text)["state"]) == (200, "succeeded")


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [(b"{", "application/json", 400), (b"\xff", "application/x-protobuf", 400), (SPANS, "text/plain", 415)],
)
async def test_what_is_no_export_is_refused(run, http, body, content_type, status):
    """Broken bodies are 400 and say what is wrong with them, other types 415; neither ends anything."""
    async with http.post(f"{run.url}/v1/traces", data=body, headers={"Content-Type": content_type}) as answer:
        text = await answer.text()
    assert answer.status == status
    rejected = [f"1 {one.reason}: {one.detail}\n" for one in run.daemon.rejected]
    assert [text.partition("no span in the body could be read: ")[2]] == (rejected or [""])


@pytest.mark.parametrize(
    ("path", "content_type", "piece"),
    [
        ("/v1/events", "application/x-ndjson", b"{}\n"),
        ("/v1/events", "application/json", b"[,,"),
        ("/v1/traces", "application/x-protobuf", b"\x0a\x00"),
        ("/v1/traces", "application/json", b'{"a":'),
    ],
)
async def test_a_small_body_with_millions_of_parts_is_refused(run, http, path, content_type, piece):
    """What is 15 KB on the wire and millions of nothings behind it is 413, counted, and none of it is read."""
    body = gzip.compress(piece * 2_000_000)
    headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
    assert len(body) < 50_000
    async with http.post(f"{run.url}{path}", data=body, headers=headers) as answer:
        assert answer.status == 413
        assert "send fewer" in await answer.text()
    assert run.daemon.pipeline.telemetry.get("tasktrail_rejected", ("http", "too_large")) == 1


async def test_a_span_of_megabytes_is_refused_alone(run, http):
    """The spans beside it count, and it is one that could not be read."""
    export = json.loads(SPANS)
    export["resourceSpans"][0]["scopeSpans"][0]["spans"].append({"name": "x" * 300_000})
    async with http.post(f"{run.url}/v1/traces", json=export, headers=OTLP) as answer:
        assert (answer.status, await answer.json()) == (
            200,
            {
                "partialSuccess": {
                    "rejectedSpans": "1",
                    "errorMessage": "1 too_large: a span of more than 262144 bytes",
                }
            },
        )
    totals = run.daemon.pushed.axis.totals
    assert (totals.accepted, totals.malformed) == (2, 1)


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_partial_success_is_what_the_protocol_calls_so(count) -> None:
    """What exporters decode is how many spans were rejected and why, and nothing where none was."""
    refusals = Refusals()
    for _ in range(count):
        refusals.add(Refusal(0, "bad_time", "span a: ü"))
    response = ExportTraceServiceResponse.FromString(partial.answer(refusals, is_json=False))
    said = response.partial_success
    assert (said.rejected_spans, "bad_time" in said.error_message) == (count, count > 0)
    assert response.HasField("partial_success") == (count > 0)


async def test_every_answer_forbids_what_pages_could_be_used_for(run, http):
    """Nothing in an answer runs or is framed: whatever is asked for has a policy that allows no script."""
    for method, path, _ in ROUTES:
        async with http.request(method, run.url + path.replace("{name}", "dead-letter").replace("{", "x")) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy, path
            assert "script-src" not in policy, path
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.content_type != "text/html" or b"<script" not in await answer.read()
