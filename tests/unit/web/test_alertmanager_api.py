"""Alertmanager's API v2, acks and signed pages, asked of a whole running daemon."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest

from collector.cli import alerts
from collector.cli.main import main
from collector.config.settings import Settings
from collector.documents import Url
from collector.model.errors import ChannelError
from collector.web import v2_alerts
from tests.unit.parts import T0, Kept, running, until

SETTINGS = Settings(state="none", rules=(), external_url=Url("https://tasktrail.invalid"))
OUT = [{"labels": {"alertname": "Out", "severity": "page"}, "annotations": {"summary": "<b>out</b>"}}]
NOBODY = "7d1d7e2d-0000-4000-8000-000000000000"


@pytest.fixture
async def run(tmp_path):
    """A running daemon without rules, with one target."""
    channel = Kept()
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: []\n")
    async with running(msgspec.structs.replace(SETTINGS, rules=(str(rules),)), channels=(channel,)) as made:
        made.channel = channel
        yield made


@pytest.fixture
async def ask(run):
    """Asks; gives status and body, from JSON where it is."""
    async with aiohttp.ClientSession() as session:

        async def asked(method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
            async with session.request(method, run.url + path, json=body, headers=headers) as answer:
                text = await answer.text()
                return answer.status, json.loads(text) if answer.content_type == "application/json" else text

        asked.session = session
        yield asked


async def test_an_alert_from_outside_is_listed_grouped_and_told(run, ask) -> None:
    """It joins the groups, is listed with all that Alertmanager says of one, and is told."""
    assert (await ask("POST", "/api/v2/alerts", OUT))[0] == 200
    await until(lambda: run.channel.sent)
    status, (alert,) = await ask("GET", "/api/v2/alerts")
    assert status == 200
    assert alert.keys() == {
        "annotations", "endsAt", "fingerprint", "generatorURL", "labels", "receivers", "startsAt", "status",
        "updatedAt",
    }  # fmt: skip
    assert alert["status"] == {"state": "active", "silencedBy": [], "inhibitedBy": [], "mutedBy": []}
    assert alert["receivers"] == [{"name": "default"}]
    status, (group,) = await ask("GET", "/api/v2/alerts/groups")
    assert (group["labels"], group["receiver"]) == ({"alertname": "Out"}, {"name": "default"})
    assert group["alerts"] == [alert]
    assert (await ask("GET", "/api/v2/receivers"))[1] == [{"name": "default"}]
    status, about = await ask("GET", "/api/v2/status")
    assert about["cluster"]["status"] == "disabled"
    assert "receiver: default" in about["config"]["original"]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2),
        ("?filter=severity=page", 1),
        ("?filter=severity=~p.*&filter=alertname=Out", 1),
        ("?filter=team!=", 1),
        ("?filter=team=", 1),
        ("?filter=alertname!~Out|Other", 0),
        ("?receiver=def.*", 2),
        ("?receiver=def", 0),
        ("?active=false", 0),
        ("?silenced=false", 2),
        ("?active=perhaps", 0),
    ],
)
async def test_filters(ask, query: str, count: int) -> None:
    """Matchers, receivers and states choose, in a list and in groups."""
    other = [{"labels": {"alertname": "Other", "team": "t"}}]
    await ask("POST", "/api/v2/alerts", [*OUT, *other])
    assert len((await ask("GET", f"/api/v2/alerts{query}"))[1]) == count
    groups = (await ask("GET", f"/api/v2/alerts/groups{query}"))[1]
    assert sum(len(group["alerts"]) for group in groups) == count


async def test_a_long_list_comes_in_pieces(ask, monkeypatch) -> None:
    """However it is cut it is one JSON array, by fingerprint."""
    monkeypatch.setattr(v2_alerts, "PIECE", 3)
    await ask("POST", "/api/v2/alerts", [{"labels": {"alertname": f"A{number}"}} for number in range(10)])
    _, listed = await ask("GET", "/api/v2/alerts")
    assert len(listed) == 10
    assert listed == sorted(listed, key=lambda one: one["fingerprint"])
    assert len((await ask("GET", "/api/v2/alerts?filter=alertname=A5"))[1]) == 1


SILENCE = {
    "matchers": [{"name": "alertname", "value": "Out", "isRegex": False}],
    "startsAt": "2025-06-15T15:06:45Z",
    "endsAt": "2025-06-15T16:06:45Z",
    "createdBy": "me",
    "comment": "known",
}
"""From T0 on, for an hour."""


async def test_a_silence_is_made_looked_at_and_ended(run, ask) -> None:
    """With its id and state, found by its matchers; what it quiets is suppressed, and is listed when asked for."""
    await ask("POST", "/api/v2/alerts", OUT)
    status, made = await ask("POST", "/api/v2/silences", SILENCE)
    assert status == 200
    name = made["silenceID"]
    status, found = await ask("GET", f"/api/v2/silence/{name}")
    assert (found["status"]["state"], found["comment"]) == ("active", "known")
    assert found["matchers"] == [{"name": "alertname", "value": "Out", "isRegex": False, "isEqual": True}]
    assert (await ask("GET", "/api/v2/alerts?silenced=false"))[1] == []
    (alert,) = (await ask("GET", "/api/v2/alerts"))[1]
    assert (alert["status"]["state"], alert["status"]["silencedBy"]) == ("suppressed", [name])
    assert len((await ask("GET", "/api/v2/silences?filter=alertname=Out"))[1]) == 1
    assert (await ask("GET", "/api/v2/silences?filter=alertname=Other"))[1] == []
    run.clock.at += 5
    for _ in range(2):
        assert (await ask("DELETE", f"/api/v2/silence/{name}"))[0] == 200
    assert (await ask("GET", f"/api/v2/silence/{name}"))[1]["status"]["state"] == "expired"
    assert (await ask("GET", f"/api/v2/silence/{NOBODY}"))[0] == 404
    assert (await ask("DELETE", f"/api/v2/silence/{NOBODY}"))[0] == 404


def without(key: str) -> dict[str, Any]:
    """The silence without a field."""
    return {name: value for name, value in SILENCE.items() if name != key}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "silences", without("comment"), 422, "comment in body is required"),
        ("POST", "silences", without("endsAt"), 422, "endsAt in body is required"),
        ("POST", "silences", {**SILENCE, "matchers": [{"name": "a"}]}, 422, "matchers.0.value"),
        ("POST", "silences", {**SILENCE, "matchers": []}, 422, "at least 1 item"),
        ("POST", "silences", {**SILENCE, "endsAt": "2025-06-15T15:06:45Z"}, 400, "start time must be before end time"),
        ("POST", "silences", {**SILENCE, "endsAt": "soon"}, 422, "date-time"),
        ("POST", "silences", {**SILENCE, "id": NOBODY}, 404, "not found"),
        ("POST", "silences", {**SILENCE, "matchers": [{"name": "a", "value": "(", "isRegex": True}]}, 400, "matcher"),
        (
            "POST",
            "silences",
            {**SILENCE, "startsAt": "2020-01-01T00:00:00Z", "endsAt": "2020-01-02T00:00:00Z"},
            400,
            "can't be in the past",
        ),
        ("POST", "silences", [], 400, "failed"),
        ("POST", "alerts", [{"labels": {}}], 400, "at least one label pair"),
        ("POST", "alerts", [{}], 422, "labels in body is required"),
        ("POST", "alerts", {}, 400, "failed"),
        ("GET", "alerts?filter=a", None, 400, "bad matcher format"),
        ("GET", "alerts?receiver=(", None, 400, "receiver"),
        ("GET", "silences?filter=a", None, 400, "bad matcher format"),
    ],
)
async def test_errors_are_alertmanagers(ask, method: str, path: str, body: Any, status: int, said: str) -> None:
    """A JSON string, or a code with its message, and the status that Alertmanager gives."""
    got, answer = await ask(method, f"/api/v2/{path}", body)
    assert got == status
    assert said in (answer["message"] if isinstance(answer, dict) else answer)


async def test_one_bad_alert_does_not_keep_the_others(ask) -> None:
    """What is an alert is taken, and the answer says what was none."""
    assert (await ask("POST", "/api/v2/alerts", [*OUT, {"labels": {}}]))[0] == 400
    assert len((await ask("GET", "/api/v2/alerts"))[1]) == 1


async def test_a_foreign_page_writes_nothing(ask) -> None:
    """A browser on another site's page is refused, whatever it writes."""
    for path, body in (("/api/v2/silences", SILENCE), ("/api/v2/alerts", OUT), ("/api/acks", {}), ("/api/drills", {})):
        assert (await ask("POST", path, body, Origin="http://evil.invalid"))[0] == 403
    assert (await ask("GET", "/api/v2/silences"))[1] == []


async def test_what_is_not_kept_is_said_in_a_header(run, ask) -> None:
    """A daemon without a state forgets at a restart what was silenced and acked, and what was taken back."""

    async def said(method: str, path: str, body: Any = None) -> tuple[str | None, Any]:
        async with ask.session.request(method, run.url + path, json=body) as answer:
            found = await answer.json() if answer.content_type == "application/json" else None
            return answer.headers.get("Tasktrail-Unkept"), found

    await ask("POST", "/api/v2/alerts", OUT)
    forgets = "the daemon keeps no state: a restart forgets it"
    unkept, made = await said("POST", "/api/v2/silences", SILENCE)
    assert unkept == forgets
    assert (await said("DELETE", f"/api/v2/silence/{made['silenceID']}"))[0] == forgets
    _, made = await said("POST", "/api/acks", {"matchers": ["severity=page"], "author": "ann", "seconds": 60})
    assert (await said("DELETE", f"/api/acks/{made['acks'][0]['fingerprint']}"))[0] == forgets


async def test_acks_over_http(ask) -> None:
    """By fingerprint or matchers, listed, shown with the alert, taken back; 404 where nothing fires."""
    await ask("POST", "/api/v2/alerts", OUT)
    status, made = await ask("POST", "/api/acks", {"matchers": ["severity=page"], "author": "ann", "seconds": 60})
    (ack,) = made["acks"]
    assert (status, ack["author"], ack["expires_at"]) == (200, "ann", T0 + 60)
    assert (await ask("GET", "/api/v2/alerts"))[1][0]["ack"]["author"] == "ann"
    assert (await ask("GET", "/api/acks"))[1] == {"acks": made["acks"]}
    assert (await ask("DELETE", f"/api/acks/{ack['fingerprint']}"))[0] == 204
    assert (await ask("DELETE", f"/api/acks/{ack['fingerprint']}"))[0] == 404
    assert (await ask("POST", "/api/acks", {"matchers": ["a=b"], "author": "ann"}))[0] == 404
    assert (await ask("POST", "/api/acks", {"fingerprints": [ack["fingerprint"]]}))[0] == 400
    for wrong in ("{", "a"):  # the first means everything to Alertmanager
        assert (await ask("POST", "/api/acks", {"matchers": [wrong], "author": "ann"}))[0] == 400


@pytest.mark.parametrize("seconds", [-1, 0, 1e9, 1e12, 1e300])
async def test_an_ack_has_a_reasonable_end(ask, seconds: float) -> None:
    """An ack for no time, or for longer than a time can be written, is refused, and alerts are listed as before."""
    await ask("POST", "/api/v2/alerts", OUT)
    asked = {"matchers": ["severity=page"], "author": "ann", "seconds": seconds}
    assert (await ask("POST", "/api/acks", asked))[0] == 400
    status, listed = await ask("GET", "/api/v2/alerts")
    assert (status, len(listed)) == (200, 1)
    assert (await ask("GET", "/api/acks"))[1] == {"acks": []}


async def test_an_alert_that_nobody_took_is_not_said_to_be_told(run, ask, capsys, monkeypatch) -> None:
    """While its target does not take it, the API and `tasktrail alerts` name that; afterwards the receiver was told."""

    async def away(_notification) -> None:
        raise ChannelError("away", retryable=True)

    async def told() -> str:
        assert await asyncio.to_thread(main, ["alerts", "--json", f"--url={run.url}"]) == 0
        (one,) = json.loads(capsys.readouterr().out)["alerts"]
        return alerts.told(one)

    with monkeypatch.context() as patch:
        patch.setattr(run.channel, "send", away)
        await ask("POST", "/api/v2/alerts", OUT)
        assert await told() == "default (not yet kept)"
        (group,) = (await ask("GET", "/api/v2/alerts/groups"))[1]
        assert group["alerts"][0]["untold"] == {"default": ["kept"]}
    run.clock.at += 10
    run.daemon.woken()
    await until(lambda: run.channel.sent)
    assert await told() == "default"


async def linked(run, ask, which: Callable[[Any], str]) -> str:
    """The path of a link of the message about an alert that was posted."""
    await ask("POST", "/api/v2/alerts", OUT)
    await until(lambda: run.channel.sent)
    return urlsplit(which(run.channel.sent[0])).path


async def test_a_link_shows_a_form_and_a_post_does_it(run, ask) -> None:
    """Looking at it does nothing, needs no script and runs none; the form acks what it showed, in a person's name."""
    path = await linked(run, ask, lambda one: one.ack_url)
    async with ask.session.get(run.url + path) as answer:
        page, headers = await answer.text(), answer.headers
    assert "<b>" not in page.replace("<b>out", "")
    assert "&lt;b&gt;out" in page
    assert "script" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert (await ask("GET", "/api/acks"))[1] == {"acks": []}
    (shown,) = re.findall(r"name=alert value='(\w+)'", page)
    form = {"author": "ann", "reason": "on it", "lasts": "1h", "alert": shown}
    for wrong in ({**form, "author": " "}, {**form, "lasts": "for ever"}):
        async with ask.session.post(run.url + path, data=wrong) as answer:
            assert answer.status == 400
    async with ask.session.post(run.url + path, data=form, headers={"Origin": "http://evil.invalid"}) as answer:
        assert answer.status == 403
    async with ask.session.post(run.url + path, data={**form, "alert": "f" * 16}) as answer:
        assert answer.status == 409
    for origin in ("https://tasktrail.invalid", run.url):
        async with ask.session.post(run.url + path, data=form, headers={"Origin": origin}) as answer:
            assert (answer.status, "acknowledged by ann" in await answer.text()) == (200, True)
    ((ack,),) = (await ask("GET", "/api/acks"))[1].values()
    assert (ack["author"], ack["reason"], ack["expires_at"]) == ("ann", "on it", T0 + 3600)


async def test_a_link_silences_its_group(run, ask) -> None:
    """The silence is of the group's labels, for the time that was chosen."""
    path = await linked(run, ask, lambda one: one.silence_url)
    form = {"author": "ann", "reason": "known", "lasts": "4h"}
    async with ask.session.post(run.url + path, data=form) as answer:
        assert answer.status == 200
    (silence,) = (await ask("GET", "/api/v2/silences"))[1]
    assert (silence["createdBy"], silence["comment"]) == ("ann", "known")
    assert [(one["name"], one["value"]) for one in silence["matchers"]] == [("alertname", "Out")]


async def test_a_link_that_does_not_hold_is_refused(run, ask) -> None:
    """Forged or expired it is 403; of a group that has ended it says so and does nothing."""
    path = await linked(run, ask, lambda one: one.ack_url)
    assert (await ask("GET", path[:-3] + "abc"))[0] == 403
    await ask("POST", "/api/v2/alerts", [{**OUT[0], "endsAt": "2020-01-01T00:00:00Z"}])
    async with ask.session.post(run.url + path, data={"author": "ann", "lasts": "1h"}) as answer:
        assert "ended" in await answer.text()
    run.clock.at += 8 * 86_400
    async with ask.session.get(run.url + path) as answer:
        assert answer.status == 403


async def test_a_drill_over_http(run, ask) -> None:
    """Its way is told while it goes, and it ends when asked to."""
    status, drill = await ask("POST", "/api/drills", {"labels": {"severity": "info"}})
    assert (status, drill["receivers"], drill["targets"]) == (201, ["default"], ["kept"])
    await until(lambda: run.channel.sent)
    assert run.channel.sent[0].title.startswith("[DRILL]")
    _, drilled = await ask("GET", f"/api/drills/{drill['id']}")
    assert [told[:2] for told in drilled["told"]] == [["default", "kept"]]
    assert (await ask("DELETE", f"/api/drills/{drill['id']}"))[0] == 204
    assert (await ask("DELETE", f"/api/drills/{drill['id']}"))[0] == 404
    assert (await ask("GET", f"/api/drills/{drill['id']}"))[0] == 404


async def test_the_signs_of_life(run, ask) -> None:
    """A source that is down is a sign until somebody was told, or has silenced it; all else is well."""
    signs = run.daemon.signs()
    assert (signs.trouble, signs.late, signs.stuck, signs.blind) == ("", (), frozenset(), frozenset())
    (axis,) = run.daemon.axes
    axis.is_up = False
    assert (run.daemon.signs().blind, run.daemon.signs().told) == ({"http"}, frozenset())
    run.channel.spacing_seconds = 0.0
    blind = [{"labels": {"alertname": "SourceBlind", "source": "http"}}]
    await ask("POST", "/api/v2/alerts", blind)
    await until(lambda: run.daemon.signs().told == {"http"})


async def test_a_broken_target_escalates(tmp_path) -> None:
    """The daemon tells routing whom nobody reaches, and the next step is told at once."""
    path = tmp_path / "routes.yaml"
    path.write_text(
        "route: {receiver: a, group_wait: 0s, escalate: [{after: 1h, receiver: b}]}\n"
        "receivers: [{name: a, webhook_configs: [{url: 'http://127.0.0.1:1/'}]}, {name: b}]\n"
    )
    settings = msgspec.structs.replace(SETTINGS, rules=("shipped",), routes=str(path))
    async with running(settings) as made, aiohttp.ClientSession() as session:
        made.daemon.delivery.broken = lambda: frozenset(made.daemon.delivery.waiting())
        assert len(made.daemon.signs().stuck) == 1
        async with session.post(made.url + "/api/v2/alerts", json=OUT) as answer:
            assert answer.status == 200
        key = "{}:{}/escalation 1"
        await until(lambda: (group := made.daemon.desk.grouping.find("b", key)) is not None and group.alerts)


async def test_what_people_did_is_counted(run, ask) -> None:
    """/metrics says how many alerts fire, by where they come from, and how many silences and acks there are."""
    await ask("POST", "/api/v2/alerts", OUT)
    await ask("POST", "/api/v2/silences", SILENCE)
    await ask("POST", "/api/acks", {"matchers": ["severity=page"], "author": "ann"})
    run.clock.at += 2
    run.daemon.woken()
    await until(lambda: run.daemon.pipeline.telemetry.get("tasktrail_acks") == 1)
    _, text = await ask("GET", "/metrics")
    for line in (
        'tasktrail_alerts{from="outside"} 1.0',
        'tasktrail_alerts{from="rules"} 0.0',
        "tasktrail_silences 1.0",
    ):
        assert line in text


async def test_a_link_needs_no_token_and_all_else_does(tmp_path) -> None:
    """With a token, the signature of a link is enough for what it says, and for nothing else."""
    (tmp_path / "token").write_text("hunter2")
    channel = Kept()
    settings = msgspec.structs.replace(SETTINGS, rules=("shipped",), token_file=str(tmp_path / "token"))
    async with running(settings, channels=(channel,)) as made, aiohttp.ClientSession() as session:
        token = {"Authorization": "Bearer hunter2"}
        for headers, status in (({}, 401), (token, 200)):
            async with session.post(made.url + "/api/v2/alerts", json=OUT, headers=headers) as answer:
                assert answer.status == status
        await until(lambda: channel.sent)
        path = urlsplit(channel.sent[0].silence_url).path
        form = {"author": "ann", "reason": "known", "lasts": "1h"}
        async with session.post(made.url + path, data=form) as answer:
            assert answer.status == 200
        async with session.post(made.url + path[:-2] + "AA", data=form) as answer:
            assert answer.status == 403
        async with session.post(made.url + "/api/v2/silences", json=SILENCE) as answer:
            assert answer.status == 401
    assert made.daemon.desk.silences.listed(T0)[0].created_by == "ann"


@pytest.mark.parametrize(("encoding", "code"), [("zstd", 415), ("gzip", 400)])
async def test_a_broken_body_is_refused_as_all_else_is(run, ask, encoding, code) -> None:
    """In JSON, and as the last thing on its connection."""
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    for path in ("/api/v2/alerts", "/api/v2/silences", "/api/acks"):
        async with ask.session.post(run.url + path, data=b"[]", headers=headers) as answer:
            told = await answer.json()
            assert (answer.status, told["code"], answer.headers["Connection"]) == (code, code, "close")
            assert told["message"]
