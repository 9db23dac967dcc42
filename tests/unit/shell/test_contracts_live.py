"""Contracts in the whole pipeline: their series, what exists from 0, deadlines that fire, files read again."""

from __future__ import annotations

import asyncio
import logging
import math
from argparse import Namespace

import aiohttp
import msgspec

from collector.cli.client import Client
from collector.cli.main import main
from collector.cli.top import look
from collector.config.settings import Settings
from collector.formats import native
from collector.model.contract import Contract, Contracts
from collector.series.expose import families
from collector.shell.pipeline import Pipeline
from collector.shell.ticker import Target
from tests.unit.parts import FAILING, T0, Kept, batch, event, pipeline, running, until

OVERDUE = """
groups:
- name: g
  interval: 5s
  rules:
  - alert: Late
    expr: sum by (task) (increase(task_overdue_total[1m])) > 0
"""
PAY = Contract(match="pay", semantics="must_complete", owner="payments", deadline=60.0)
TASKS = """
tasks:
- {match: a, semantics: must_complete, owner: OWNER, deadline: 1m}
"""


def series(made: Pipeline, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The series of a metric with their values."""
    found = {one.name: one for one in families(made.store)}.get(name)
    return dict(zip(found.labels, found.values.tolist(), strict=True)) if found else {}


def walk(made: Pipeline, at: float) -> list[object]:
    """To an instant; the alerts that changed."""
    return [one for changed in made.advance(Target(at, at), at) for one in changed]


def test_a_contract_is_a_series_to_join_with() -> None:
    """One a task, declared without a glob or seen; a deadline where there is one; still there an hour later."""
    glob = Contract(match="mail.*", semantics="best_effort", owner="growth")
    made = pipeline(contracts=Contracts((PAY, glob)))
    for offset in (0, 3_600):
        feed = event("sent", f"{offset}", T0 + offset, task="mail.x"), event("sent", f"b{offset}", T0 + offset)
        made.ingest.count(made.axes[0], native.decode, batch(feed, is_head=True), math.inf)
        walk(made, T0 + offset)
        told = {dict(labels)["task"]: dict(labels) for labels in series(made, "task_contract_info")}
        assert told == {
            "pay": {"task": "pay", "semantics": "must_complete", "owner": "payments"},
            "mail.x": {"task": "mail.x", "semantics": "best_effort", "owner": "growth"},
            "a": {"task": "a", "semantics": "undeclared", "owner": "unassigned"},
        }
        assert series(made, "task_deadline_seconds") == {(("task", "pay"),): 60.0}


def test_the_time_for_a_review_is_a_series_to_compare_with() -> None:
    """Where a contract says one."""
    made = pipeline(contracts=Contracts((msgspec.structs.replace(PAY, review_within=600.0),)))
    walk(made, T0)
    assert series(made, "task_review_within_seconds") == {(("task", "pay"),): 600.0}


def test_what_is_no_longer_declared_ends() -> None:
    """Its series is stale at once, and the new one is there."""
    made = pipeline(contracts=Contracts((PAY,)))
    walk(made, T0)
    made.promise(Contracts((msgspec.structs.replace(PAY, owner="others", deadline=None),)))
    walk(made, T0 + 5)
    assert [dict(labels)["owner"] for labels in series(made, "task_contract_info")] == ["others"]
    assert series(made, "task_deadline_seconds") == {}


def test_series_of_a_declared_task_exist_from_0_until_real_ones_come() -> None:
    """Whatever queue they come with."""
    made = pipeline(contracts=Contracts((PAY,)))
    walk(made, T0)
    assert series(made, "task_failed_total") == {(("task", "pay"),): 0.0}
    feed = [event("failed", "1", T0 + 1, task="pay", error="E")]
    made.ingest.count(made.axes[0], native.decode, batch(feed, is_head=True), math.inf)
    walk(made, T0 + 10)
    assert [dict(labels)["queue"] for labels in series(made, "task_failed_total")] == ["q"]


def test_a_missed_deadline_fires_with_its_task_as_evidence(caplog) -> None:
    """At the deadline and grace, to the owner of the contract, whom the log names, too; and the gauge holds it."""
    caplog.set_level(logging.INFO, "tasktrail")
    made = pipeline(OVERDUE, contracts=Contracts((PAY,)))
    made.ingest.count(made.axes[0], native.decode, batch([event("sent", "x", T0, task="pay")], is_head=True), math.inf)
    assert walk(made, T0 + 64.9) == []
    (alert,) = walk(made, T0 + 65)
    assert [one.task_id for one in alert.evidence.offenders] == ["x"]
    assert "owner" not in dict(alert.labels)
    (said,) = made.notifications(T0 + 65)
    assert dict(said.common_labels)["owner"] == "payments"
    assert caplog.messages == ["alert firing alertname=Late owner=payments semantics=must_complete task=pay"]
    assert list(series(made, "tasks_overdue").values()) == [1.0]


def test_a_side_effect_is_known_by_the_key_of_its_contract() -> None:
    """Two successes of a task about one order are one too many; of another task or without a contract they are not."""
    keyed = Contract(match="pay*", semantics="best_effort", idempotency_key="labels.order")
    by_root = Contract(match="ship", queue="q", semantics="best_effort", idempotency_key="root_id")
    made = pipeline(contracts=Contracts((keyed, by_root)))
    feed = [
        event("succeeded", f"{task}{number}", T0 + number, task=task, labels={"order": "7"}, root_id="r")
        for task in ("pay", "pay.card", "ship", "other")
        for number in range(2)
    ]
    feed += [
        event("sent", "p9", T0, task="pay", labels={"order": "9"}),
        event("succeeded", "p9", T0 + 3, task="pay"),
        event("succeeded", "p10", T0 + 4, task="pay", queue=None, labels={"order": "9"}),
        event("succeeded", "own", T0 + 5, task="pay", idempotency_key="k", labels={"order": "9"}),
    ]
    made.ingest.count(made.axes[0], native.decode, batch(feed, is_head=True), math.inf)
    walk(made, T0 + 90)
    found = {
        dict(labels)["task"]: value for labels, value in series(made, "task_duplicate_success_total").items() if value
    }
    assert found == {"pay": 2.0, "pay.card": 1.0, "ship": 1.0}


async def test_zeros_of_contracts_are_no_rows(tmp_path) -> None:
    """`top` shows what a source has told, and not what only begins with 0."""
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text(TASKS.replace("OWNER", "me") + "- {match: never, semantics: best_effort}\n")
    settings = Settings(tasks=str(tasks), state="none")
    async with running(settings) as made, aiohttp.ClientSession() as session:
        body = event("started", "x", made.clock.now())
        async with session.post(f"{made.url}/v1/events", data=body) as answer:
            assert answer.status == 200
        daemon = Client(Namespace(url=made.url, token_file=None))

        async def rows() -> list[tuple[str, str]]:
            made.clock.at += 1.0
            made.daemon.woken()
            return [(row["task"], row["queue"]) for row in (await asyncio.to_thread(look, daemon))["tasks"]]

        found: list[tuple[str, str]] = []
        async with asyncio.timeout(60):
            while not found:
                found = await rows()
        assert found == [("a", "q")]


async def test_contracts_are_read_again_with_the_rules(tmp_path) -> None:
    """A broken file keeps the old ones and says where; a whole one holds from the next turn on."""
    rules, tasks = tmp_path / "rules.yaml", tmp_path / "tasks.yaml"
    rules.write_text(FAILING.replace(", owner: me", ""))
    tasks.write_text(TASKS.replace("OWNER", "first"))
    channel = Kept()
    settings = Settings(rules=(str(rules),), tasks=str(tasks), state="none")
    async with running(settings, channels=(channel,)) as made, aiohttp.ClientSession() as session:
        tasks.write_text("tasks:\n- {match: a}\n")
        async with session.post(f"{made.url}/-/reload") as answer:
            assert answer.status == 400
            assert f"{tasks}:2:" in await answer.text()
        tasks.write_text(TASKS.replace("OWNER", "second"))
        async with session.post(f"{made.url}/-/reload") as answer:
            assert answer.status == 200
        made.clock.at += 1.0  # the instant that the clock stood at may have been evaluated
        body = event("failed", "x", made.clock.now(), error="E")
        async with session.post(f"{made.url}/v1/events", data=body) as answer:
            assert answer.status == 200
        made.clock.at += 5.0
        made.daemon.woken()
        await until(lambda: channel.sent)
    assert dict(channel.sent[0].common_labels)["owner"] == "second"


def test_a_replay_holds_recorded_tasks_to_contracts(tmp_path, capsys) -> None:
    """`--tasks` gives it their deadlines, and a file that is wrong is refused."""
    tasks, rules, events = tmp_path / "tasks.yaml", tmp_path / "rules.yaml", tmp_path / "events.jsonl"
    tasks.write_text(TASKS.replace("OWNER", "me"))
    rules.write_text(OVERDUE)
    events.write_bytes(event("sent", "x", T0) + b"\n" + event("sent", "y", T0 + 70) + b"\n")
    arguments = ["replay", str(events), "--rules", str(rules), "--tasks", str(tasks), "--task", "x", "--json"]
    assert main(arguments) == 0
    result = msgspec.json.decode(capsys.readouterr().out)
    assert (result["tasks"]["a"]["overdue"], result["alerts"][0]["alertname"]) == (1, "Late")
    assert result["task"]["events"][-1]["kind"] == "overdue"
    tasks.write_text("tasks: [{}]\n")
    assert main(arguments) == 2
    assert str(tasks) in capsys.readouterr().err


def test_nothing_is_overdue_while_its_source_is_down() -> None:
    """Nobody knows whether it was done; when the source is back and has told of no success, it is, at its time."""
    made = pipeline(OVERDUE, contracts=Contracts((PAY,)))
    feed = [event("sent", name, T0, task="pay") for name in "xy"]
    made.ingest.count(made.axes[0], native.decode, batch(feed, is_head=True), math.inf)
    walk(made, T0 + 30)
    made.axes[0].is_up = False
    assert walk(made, T0 + 100) == []
    made.axes[0].is_up = True
    done = [event("succeeded", "y", T0 + 50, task="pay")]
    made.ingest.count(
        made.axes[0], native.decode, batch(done, received_at=T0 + 101, times=[T0 + 50], is_head=True), math.inf
    )
    walk(made, T0 + 120)
    assert sum(series(made, "task_overdue_total").values()) == 1
    assert sum(series(made, "task_in_time_total").values()) == 1
    assert [one.at for one in made.stitcher.reader.find("x").events if one.kind == "overdue"] == [T0 + 65]


def test_a_dead_letter_that_nobody_keeps_has_its_task_as_evidence() -> None:
    """What must complete and failed for good is named by the alert that says so."""
    rule = OVERDUE.replace("increase(task_overdue_total[1m])", "dead_letters_open")
    made = pipeline(rule, contracts=Contracts((PAY,)))
    feed = [event("failed", name, T0, task=task, error="E") for name, task in (("x", "pay"), ("y", "other"))]
    made.ingest.count(made.axes[0], native.decode, batch(feed, is_head=True), math.inf)
    (alert,) = walk(made, T0)
    assert [(one.task_id, one.error) for one in alert.evidence.offenders] == [("x", "E")]
    assert alert.evidence.top_errors == (("E", 1),)
