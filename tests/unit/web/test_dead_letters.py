"""`/api/dead-letters`, and the command that asks it."""

from __future__ import annotations

import asyncio
import csv
import io
import json

import aiohttp
import msgspec
import pytest

from collector.cli.main import main
from collector.config.settings import Settings
from collector.web.dead_letters import COLUMNS
from tests.unit.parts import T0, event, running

TASKS = "tasks:\n- {match: pay.*, semantics: must_complete, owner: payments, review_within: 1h}\n"
ONE_OF = "`state` says what becomes of them: it is one of redriven, discarded, compensated"
EVENTS = [
    *(event("dead_lettered", f"p{n}", T0 - n, task="pay.card", error="KeyError", error_message=f"no row {n}",
            attempt=3) for n in (1, 2, 3)),
    event("dead_lettered", "m1", T0 - 9, task="mail.send", queue="bulk", error="smtplib.Down", worker="w1"),
]  # fmt: skip


class Asked:
    """A daemon that has seen them, and what asks it."""

    def __init__(self, made, http, state) -> None:
        self.made, self.http, self.url, self.state = made, http, made.url, state

    async def get(self, path: str = "", **params: str):
        """Status and body of a GET below /api/dead-letters."""
        async with self.http.get(f"{self.url}/api/dead-letters{path}", params=params) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    async def post(self, verb: str, **body):
        """Status and body of a POST."""
        async with self.http.post(f"{self.url}/api/dead-letters/{verb}", json=body) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    async def ids(self, **params: str) -> list[str]:
        """Task ids of a page."""
        status, body = await self.get(**params)
        assert status == 200, body
        return [one["task_id"] for one in body["dead_letters"]]

    async def name(self, task_id: str) -> str:
        """The id of a task's record."""
        return (await self.get(task_id=task_id))[1]["dead_letters"][0]["id"]

    async def call(self, *arguments: str) -> int:
        """The command, against this daemon."""
        return await asyncio.to_thread(main, ["dead-letters", *arguments, "--url", self.url])


@pytest.fixture
async def asked(tmp_path):
    """With a state, so that what is answered is kept."""
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text(TASKS)
    settings = Settings(tasks=str(tasks), state=str(tmp_path / "state"))
    async with running(settings) as made, aiohttp.ClientSession() as http:
        made.daemon.pushed_to().axis.clock = "event"
        async with http.post(f"{made.url}/v1/events", data=b"\n".join(EVENTS)) as answer:
            assert answer.status == 200
        yield Asked(made, http, tmp_path / "state")


async def test_a_list_shows_what_is_needed_to_decide(asked) -> None:
    """Newest first, a page at a time."""
    status, body = await asked.get(limit="2")
    assert status == 200
    first = body["dead_letters"][0]
    expected = {
        "task_id": "p1", "task": "pay.card", "state": "open", "owner": "payments", "error": "KeyError",
        "message": "no row 1", "attempts": 3, "at": T0 - 1,
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert first["review_by"] == first["at"] + 3600.0
    assert await asked.ids(after=body["next"]) == ["p3", "m1"]
    assert (await asked.get())[1]["next"] is None


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"task": "mail.*"}, ["m1"]),
        ({"owner": "payments"}, ["p1", "p2", "p3"]),
        ({"state": "unresolved", "error": "Down"}, ["m1"]),
        ({"state": "discarded,compensated"}, []),
        ({"since": "8s"}, ["p1", "p2", "p3"]),
        ({"since": str(T0 - 1.5)}, ["p1"]),
    ],
)
async def test_filters_may_be_combined(asked, params, found) -> None:
    """As they are written in a query."""
    assert await asked.ids(**params) == found


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"colour": "red"}, "`colour` is no filter"),
        ({"state": "dead"}, "`dead` is no state: there are open, acknowledged"),
        ({"limit": "0"}, "`limit` is a number from 1 to 1000"),
        ({"limit": "0000019999999"}, "`limit` is a number from 1 to 1000"),
        ({"after": "x"}, "`after` is the `next`"),
        ({"since": "soon"}, "since: "),
        ({"since": "nan"}, "since: `nan` is not a duration"),
        ({"by": "task"}, "`by` is `fingerprint`"),
    ],
)
async def test_what_cannot_be_meant_is_refused_with_a_sentence(asked, params, said) -> None:
    """Nothing is passed over quietly."""
    status, body = await asked.get(**params)
    assert status == 400
    assert said in body["error"]


async def test_causes_are_counted(asked) -> None:
    """Three that differ only in a number are one."""
    causes = (await asked.get(by="fingerprint"))[1]["causes"]
    assert [(one["total"], one["open"], one["message"], one["owner"]) for one in causes] == [
        (3, 3, "no row <n>", "payments"),
        (1, 1, "", "unassigned"),
    ]


async def test_one_is_shown_with_its_history(asked) -> None:
    """Who, when, why; and 404 where there is none such."""
    name = await asked.name("p1")
    assert (await asked.post("ack", ids=[name], actor="ann"))[0] == 200
    assert (await asked.post("resolve", ids=[name], actor="bob", state="compensated", reason="paid", ticket="T-1"))[
        0
    ] == 200
    status, body = await asked.get(f"/{name}")
    assert (status, body["state"], body["ticket"]) == (200, "compensated", "T-1")
    assert [(one["state"], one["actor"], one["reason"]) for one in body["history"]] == [
        ("open", "tasktrail", "dead-lettered"),
        ("acknowledged", "ann", ""),
        ("compensated", "bob", "paid"),
    ]
    assert (await asked.get("/nothing"))[0] == 404


async def test_a_verdict_by_filter_spares_what_has_ended(asked) -> None:
    """What it would be about can be asked first; the answer says whether it is on the disk."""
    given = {"filter": {"task": "pay.*"}, "actor": "ann", "state": "discarded", "reason": "test data"}
    await asked.post("resolve", ids=[await asked.name("p2")], actor="bob", state="redriven", reason="by hand")
    status, body = await asked.post("resolve", **given, dry_run=True)
    assert (status, len(body["dead_letters"])) == (200, 2)
    assert await asked.ids(state="discarded") == []
    status, body = await asked.post("resolve", **given)
    assert (status, body["is_kept"], body["unkept"], len(body["dead_letters"])) == (200, True, "", 2)
    assert await asked.ids(state="discarded") == ["p1", "p3"]
    assert await asked.ids(state="open") == ["m1"]


@pytest.mark.parametrize(
    ("verb", "body", "status", "said"),
    [
        ("resolve", {"ids": ["?"], "actor": "ann", "reason": "x", "state": "discarded"}, 404, "no dead letter '?'"),
        ("resolve", {"ids": ["p1"], "actor": "ann", "state": "discarded"}, 400, "reason: say why"),
        ("resolve", {"ids": ["p1"], "reason": "x", "state": "discarded"}, 400, "actor: say who"),
        ("resolve", {"ids": ["p1"], "actor": "ann", "reason": "x"}, 400, ONE_OF),
        ("resolve", {"ids": ["p1"], "actor": "ann", "reason": "x", "state": "open"}, 400, ONE_OF),
        ("resolve", {"actor": "ann", "reason": "x", "state": "discarded"}, 400, "which?"),
        ("resolve", {"filter": {"x": "y"}, "actor": "a", "reason": "x", "state": "discarded"}, 400, "`x` is no filter"),
        ("ack", {"ids": ["p1"], "actor": "ann", "state": "open"}, 400, "`state` belongs to resolve"),
        (
            "ack",
            {"ids": ["p1"], "actor": "ann", "colour": "red"},
            400,
            "parsing the body failed, because Object contains unknown field `colour`",
        ),
    ],
)
async def test_a_verdict_that_says_too_little_changes_nothing(asked, verb, body, status, said) -> None:
    """It is refused with a sentence."""
    body = {**body, **({"ids": [await asked.name("p1")]} if body.get("ids") == ["p1"] else {})}
    got, answer = await asked.post(verb, **body)
    assert (got, len(await asked.ids(state="open"))) == (status, 4)
    assert said in (answer.get("error") or answer["message"])


async def test_what_has_ended_cannot_be_acked(asked) -> None:
    """There is nothing left to look at."""
    name = await asked.name("m1")
    await asked.post("resolve", ids=[name], actor="ann", state="discarded", reason="old")
    status, body = await asked.post("ack", ids=[name], actor="ann")
    assert (status, "is discarded, and cannot become acknowledged" in body["error"]) == (409, True)


async def test_a_verdict_on_a_verdict_says_what_it_corrects(asked, capsys) -> None:
    """What had ended is named with what it was, in the answer, in the command and before anything is written."""
    name, other = await asked.name("m1"), await asked.name("p1")
    await asked.post("resolve", ids=[name], actor="bob", state="compensated", reason="paid back")
    status, body = await asked.post(
        "resolve", ids=[name, other], actor="ann", state="discarded", reason="x", dry_run=True
    )
    assert (status, body["corrected"]) == (200, {name: "compensated"})
    assert await asked.call("resolve", name, other, "--as", "discarded", "-r", "old", "-a", "ann") == 0
    assert capsys.readouterr().out == "2 discarded\n1 of them had been compensated before\n"
    assert await asked.call("resolve", name, "--as", "redriven", "-r", "sent", "-a", "ann", "--json") == 0
    assert json.loads(capsys.readouterr().out)["corrected"] == {name: "discarded"}
    assert (await asked.post("resolve", ids=[await asked.name("p2")], actor="ann", state="redriven", reason="x"))[1][
        "corrected"
    ] == {}


async def test_verdicts_are_writes(asked) -> None:
    """Another site's page may not give them, as it may not make silences."""
    headers = {"Origin": "https://elsewhere.example"}
    async with asked.http.post(f"{asked.url}/api/dead-letters/ack", json={}, headers=headers) as answer:
        assert answer.status == 403


async def test_the_command_lists_shows_and_decides(asked, capsys) -> None:
    """For people, and as JSON."""
    name = await asked.name("m1")
    assert await asked.call("list", "--task", "mail.*") == 0
    assert "smtplib.Down" in capsys.readouterr().out
    assert await asked.call("list", "--limit", "1") == 0
    assert "more: --after" in capsys.readouterr().out
    assert await asked.call("list", "--by", "fingerprint") == 0
    assert "no row <n>" in capsys.readouterr().out
    assert await asked.call("ack", name, "--actor", "ann") == 0
    assert capsys.readouterr().out == "1 acknowledged\n"
    assert await asked.call("resolve", name, "--as", "discarded", "-r", "old", "-a", "ann", "--dry-run") == 0
    assert capsys.readouterr().out == f"1 would be discarded\n  {name}\n"
    assert await asked.call("resolve", name, "--as", "discarded", "-r", "old", "-a", "ann", "--ticket", "T-1") == 0
    assert capsys.readouterr().out == "1 discarded\n"
    assert await asked.call("show", name) == 0
    out = capsys.readouterr().out
    assert "discarded    ann  old (T-1)" in out
    assert out.startswith(f"dead letter {name} is discarded\n")
    assert "  error        smtplib.Down\n" in out
    assert "  task         mail." in out
    assert "_at" not in out
    assert await asked.call("show", name, "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "discarded"
    assert await asked.call("list", "--task-id", "m1", "--json") == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)["dead_letters"]] == [name]
    assert await asked.call("list", "--state", "expired") == 0
    assert capsys.readouterr().out == "no dead letter matches\n"
    assert await asked.call("show", "nothing") == 1
    assert await asked.call("resolve", "nothing", "--as", "discarded", "-r", "x") == 2


async def test_an_export_is_the_same_from_the_daemon_and_from_its_state(asked, tmp_path, capsysbinary) -> None:
    """All of it, oldest first, with histories; no trace of half a file."""
    await asked.post("resolve", ids=[await asked.name("p1")], actor="ann", state="discarded", reason="=1+1")
    assert await asked.call("export", "-o", str(tmp_path / "live")) == 0
    assert await asked.call("export", "--from", str(asked.state)) == 0
    left = capsysbinary.readouterr().out
    assert sorted((tmp_path / "live").read_bytes().splitlines()) == sorted(left.splitlines())
    lines = [json.loads(line) for line in left.splitlines()]
    assert [one["task_id"] for one in lines] == ["m1", "p3", "p2", "p1"]
    assert [entry["state"] for entry in lines[-1]["history"]] == ["open", "discarded"]
    assert await asked.call("export", "--format", "csv", "-o", str(tmp_path / "csv"), "--state", "discarded") == 0
    (row,) = csv.DictReader(io.StringIO((tmp_path / "csv").read_text()))
    assert list(row) == list(COLUMNS)
    assert (row["task_id"], row["reason"]) == ("p1", "'=1+1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csv", "live", "state", "tasks.yaml"]
    assert await asked.call("export", "--from", str(tmp_path)) == 2
    assert await asked.call("export", "--from", str(asked.state), "--state", "open") == 2
    assert await asked.call("export", "-o", str(tmp_path / "no" / "file")) == 2
