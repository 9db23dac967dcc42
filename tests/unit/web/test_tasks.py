"""`/api/tasks`, `/api/coverage`, and the commands that ask them."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import pytest

from collector.cli.main import main
from collector.config import taskfile
from collector.config.settings import Settings
from collector.model.errors import ProblemsError
from tests.unit.parts import FAILING, T0, event, running

TRACE = "0af7651916cd43dd8448eb211c80319c"
EVENTS = [
    event("sent", "a1", T0 - 50, task="pay.card", trace_id=TRACE),
    event("started", "a1", T0 - 49, task="pay.card", worker="w1", attempt=1),
    event("retried", "a1", T0 - 48, task="pay.card", worker="w1", attempt=1, error="TimeoutError"),
    event("started", "a1", T0 - 40, task="pay.card", worker="w2", attempt=2),
    event("succeeded", "a1", T0 - 30, task="pay.card", worker="w2", attempt=2),
    event("sent", "b1", T0 - 45, task="mail", parent_id="a1", trace_id=TRACE),
    event("started", "b1", T0 - 44, task="mail"),
    event("failed", "b1", T0 - 43, task="mail", error="ValueError"),
    event("sent", "c/1?", T0 - 10, task="pay.slow", queue="other"),
]
TASKS = "tasks:\n- {match: mail, semantics: best_effort, owner: growth, runbook_url: 'https://wiki'}\n"


@pytest.fixture
async def asked(tmp_path):
    """A daemon that has seen them, and what asks it: path and parameters to status and body."""
    rules, tasks = tmp_path / "rules.yaml", tmp_path / "tasks.yaml"
    rules.write_text(FAILING.replace("task_failed_total[", 'task_failed_total{task=~"pay.*"}['))
    tasks.write_text(TASKS)
    settings = Settings(rules=(str(rules),), tasks=str(tasks), state="none")
    async with running(settings) as made, aiohttp.ClientSession() as http:
        made.daemon.pushed_to().axis.clock = "event"
        async with http.post(f"{made.url}/v1/events", data=b"\n".join(EVENTS)) as answer:
            assert answer.status == 200

        async def ask(path: str, **params: str):
            async with http.get(f"{made.url}{path}", params=params) as answer:
                return answer.status, msgspec.json.decode(await answer.read())

        ask.url = made.url
        yield ask


async def ids(asked, **params: str) -> list[str]:
    """The ids of a page."""
    status, body = await asked("/api/tasks", **params)
    assert status == 200, body
    return [one["task_id"] for one in body["tasks"]]


async def test_tasks_are_listed_newest_first(asked) -> None:
    """With their state, attempts, error and where they ran."""
    status, body = await asked("/api/tasks")
    assert (status, body["next"]) == (200, None)
    assert [one["task_id"] for one in body["tasks"]] == ["c/1?", "b1", "a1"]
    card = body["tasks"][2]
    assert (card["state"], card["attempts"], card["worker"], card["error"]) == ("succeeded", 2, "w2", "TimeoutError")
    assert (card["first_at"], card["last_at"]) == (T0 - 50, T0 - 30)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"state": "failed"}, ["b1"]),
        ({"state": "failed,sent"}, ["c/1?", "b1"]),
        ({"task": "pay*"}, ["c/1?", "a1"]),
        ({"queue": "other"}, ["c/1?"]),
        ({"error": "Timeout"}, ["a1"]),
        ({"error": "*Error", "state": "failed"}, ["b1"]),
        ({"since": "20s"}, ["c/1?"]),
        ({"since": str(T0 - 30)}, ["c/1?", "a1"]),
        ({"state": "lost"}, []),
    ],
)
async def test_filters_let_through_what_fits_all_of_them(asked, params, expected) -> None:
    """States, globs, a part of the error class, and since when something happened."""
    assert await ids(asked, **params) == expected


async def test_pages_follow_one_another(asked) -> None:
    """`next` of one begins the other; the last has none."""
    found, after = [], ""
    while True:
        _, body = await asked("/api/tasks", limit="1", **({"after": after} if after else {}))
        found += [one["task_id"] for one in body["tasks"]]
        if body["next"] is None:
            break
        after = body["next"]
    assert found == ["c/1?", "b1", "a1"]


@pytest.mark.parametrize(
    "params", [{"state": "gone"}, {"since": "soon"}, {"limit": "0"}, {"limit": "x"}, {"after": "1"}, {"tsak": "x"}]
)
async def test_what_is_no_filter_is_refused(asked, params) -> None:
    """With what is wrong about it."""
    status, body = await asked("/api/tasks", **params)
    assert status == 400
    assert body["error"]


@pytest.mark.parametrize("path", ["tasks/p1", "tasks", "dead-letters", "dead-letters/export"])
async def test_who_somebody_is_is_shown_nowhere(asked, path) -> None:
    """Of an error message, or what a sender writes in the place of a class, as in notifications."""
    body = event(
        "dead_lettered", "p1", T0, task="pay.card", error="No bob@example.com", error_message="card 4111 1111 1111 1111"
    )
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{asked.url}/v1/events", data=body) as answer:
            assert answer.status == 200
        async with http.get(f"{asked.url}/api/{path}") as answer:
            said = await answer.text()
    assert "No ***" in said
    assert "4111" not in said
    assert "bob" not in said
    assert ("card ***" in said) == (path != "tasks")


async def test_coverage_names_what_is_missing_and_drafts_it(asked) -> None:
    """Per task; the draft leaves out what is declared, and is refused as long as nobody has put an owner into it."""
    _, body = await asked("/api/coverage")
    missing = {one["task"]: one["missing"] for one in body["tasks"]}
    assert missing == {
        "mail": ["rule"],
        "pay.card": ["contract", "owner", "runbook", "dead_letters"],
        "pay.slow": ["contract", "owner", "runbook", "dead_letters"],
    }
    with pytest.raises(ProblemsError) as refused:
        taskfile.load("draft", body["draft"])
    assert {problem.message for problem in refused.value.problems} == {
        "what must be completed needs an `owner` who repairs it"
    }
    contracts = taskfile.load("draft", body["draft"].replace("unassigned", "me"))
    card = contracts.of("pay.card", "q")
    assert (card.deadline, card.max_attempts, card.retryable) == (60.0, 2, ("TimeoutError",))
    assert not contracts.of("mail", "q").is_declared


async def call(asked, capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that asks the daemon."""
    code = await asyncio.to_thread(main, [*arguments, "--url", asked.url])
    out, err = capsys.readouterr()
    return code, out, err


async def test_commands_ask_the_daemon(asked, capsys) -> None:
    """A list, a timeline, a waterfall; as text and as JSON."""
    code, out, _ = await call(asked, capsys, "tasks", "--task", "pay*", "--limit", "1")
    assert (code, "c/1?" in out, "a1" in out, "more: --after" in out) == (0, True, False, True)
    _, out, _ = await call(asked, capsys, "tasks")
    heads, rows = ([line.split(bar) for line in out.splitlines() if bar in line] for bar in "┃│")
    first = [cell.strip() for cell in heads[0]].index("first")
    assert [row[first] for row in rows] == sorted({row[first] for row in rows}, reverse=True)  # as they are in order
    code, out, _ = await call(asked, capsys, "tasks", "--state", "failed", "--json")
    assert [one["task_id"] for one in msgspec.json.decode(out)["tasks"]] == ["b1"]
    code, out, _ = await call(asked, capsys, "task", "c/1?")
    assert (code, out.startswith("task c/1?: pay.slow in queue other, sent")) == (0, True)
    code, out, _ = await call(asked, capsys, "trace", TRACE)
    first, parent, child = out.splitlines()
    assert (code, first) == (0, f"trace {TRACE}: 2 tasks in 20.000 s")
    assert parent.startswith("pay.card  |···███")
    assert child.startswith("  mail    |")
    assert "!" in child
    code, out, _ = await call(asked, capsys, "tasks", "coverage")
    assert (code, "pay.card" in out) == (0, True)


async def test_a_draft_is_written_once(asked, capsys, tmp_path) -> None:
    """With a word about what is left to do; a file that is there already is somebody's work."""
    path = tmp_path / "draft.yaml"
    code, _, err = await call(asked, capsys, "tasks", "coverage", "--draft", str(path))
    assert (code, err.startswith(f"{path}: write an owner in place of each `unassigned`")) == (0, True)
    assert 'match: "pay.card"' in path.read_text()
    code, _, err = await call(asked, capsys, "tasks", "coverage", "--draft", str(path))
    assert (code, f"--draft {path}: cannot be written: File exists: remove it, or name another" in err) == (2, True)


async def test_what_is_not_there_is_said(asked, capsys) -> None:
    """An unknown task is 1, a filter that is refused and a daemon that does not answer are 2."""
    assert (await call(asked, capsys, "task", "nobody"))[0] == 1
    assert (await call(asked, capsys, "trace", "0" * 32))[0] == 1
    code, _, err = await call(asked, capsys, "tasks", "--state", "gone")
    assert (code, "`gone` is no state" in err) == (2, True)
    assert main(["tasks", "--url", "http://127.0.0.1:1"]) == 2
    assert "no daemon answers" in capsys.readouterr().err
