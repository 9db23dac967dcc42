"""The commands as users call them: what they print, and their exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest
import zstandard

from collector.cli import main as cli
from collector.model.shown import counted
from tests.truth.generator import generate
from tests.unit.parts import FAILING, T0, event

BROKEN = FAILING.replace("> 0", "> ((").replace("name: g", "nam: g")
FAILED = event("failed", "bad", T0 + 1, error="E", worker="w", trace_id="ab" * 16)


@pytest.fixture
def call(capsys):
    """Calls a command; gives exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = cli.main([str(one) for one in arguments])
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def rules(tmp_path) -> Path:
    """A rule file."""
    path = tmp_path / "rules.yaml"
    path.write_text(FAILING)
    return path


@pytest.fixture
def events(tmp_path) -> Path:
    """A file of events."""
    path = tmp_path / "events.ndjson"
    path.write_bytes(FAILED + b"\n{\n" + event("sent", "2", T0 + 60) + b"\n")
    return path


# The whole


def test_the_version_and_the_commands(call) -> None:
    """`--version` and `--help` say what this is, and every command is named."""
    assert call("--version")[1].startswith("tasktrail ")
    code, out, _ = call("--help")
    assert code == 0
    assert all(name in out for name in ("demo", "run", "check", "replay", "record", "notify", "bench"))


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_says_what_it_does(call, command: str) -> None:
    """`--help` of each command has a text for each of its options."""
    code, out, _ = call(command, "--help")
    assert code == 0
    for name, (_, configure, _) in cli.COMMANDS.items():
        if name == command:
            parser = cli.argparse.ArgumentParser()
            configure(parser)
            assert [action.dest for action in parser._actions if not action.help] == []
    assert "usage: tasktrail " + command in out


@pytest.mark.parametrize("arguments", [(), ("unknown",), ("run", "--unknown"), ("replay",)])
def test_a_wrong_call_is_2(call, arguments: tuple[str, ...]) -> None:
    """A call that is not understood exits with 2 and says so on stderr."""
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert "usage: tasktrail" in err


def test_ctrl_c(call, monkeypatch) -> None:
    """Ctrl-C exits as a shell expects it."""

    def interrupted(_arguments) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "check", ("c", cli.check.configure, interrupted))
    assert call("check", "x")[0] == 130


# check


@pytest.mark.parametrize(
    "paths", [("shipped",), ("rules/shipped.yaml",), ("systemd/tasktrail.example.yaml",), ("rules",)]
)
def test_what_we_ship_is_fine(call, paths: tuple[str, ...]) -> None:
    """Shipped rules and the example configuration have no problem, named, as a file, or as a folder."""
    code, out, err = call("check", *paths)
    assert (code, err) == (0, "")
    assert "no problem" in out


def test_check_reports_every_problem_with_its_place(call, tmp_path) -> None:
    """All problems of all files are listed as file:line:column, and the exit code is 1."""
    (tmp_path / "rules.yaml").write_text(BROKEN)
    (tmp_path / "tasktrail.yaml").write_text("sources:\n- kafka:/h\nlissten: 1\n")
    (tmp_path / "not.yaml").write_text("a: [")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep.yaml").write_text("[" * 5000)
    code, out, err = call("check", tmp_path)
    assert (code, out) == (1, "")
    lines = err.splitlines()
    for name in ("rules.yaml", "tasktrail.yaml", "not.yaml", "binary.yml", "deep.yaml"):
        assert any(line.startswith(f"{tmp_path / name}:") for line in lines), name
    assert sum(f"{tmp_path / 'tasktrail.yaml'}:" in line for line in lines) == 2
    assert "Traceback" not in err
    assert lines[-1].endswith("problems in 5 files")


def test_check_finds_pages_without_an_owner(call, rules) -> None:
    """A rule that pages nobody in particular is a finding."""
    rules.write_text(FAILING.replace(", owner: me", ""))
    code, _, err = call("check", rules)
    assert code == 1
    assert "owner" in err


def test_check_of_nothing_is_a_wrong_call(call, tmp_path) -> None:
    """A path that is not there, or an empty folder, exits with 2."""
    for path in (tmp_path / "missing", tmp_path):
        code, _, err = call("check", path)
        assert (code, str(path) in err) == (2, True)


# replay


def test_replay_as_json(call, rules, events) -> None:
    """One JSON object: events by what became of them, counts per task, episodes and notifications."""
    code, out, _ = call("replay", events, "--rules", rules, "--json", "--trails", "--task", "bad", "--trace", "ab" * 16)
    result = json.loads(out)
    assert code == 0
    assert result["events"] == {"read": 3, "accepted": 2, "duplicate": 0, "malformed": 1, "ignored": 0}
    assert (result["tasks"]["a"]["failed"], result["tasks"]["a"]["sent"]) == (1, 1)
    assert [(one["alertname"], one["state"]) for one in result["alerts"]] == [("Failing", "resolved")]
    assert [one["status"] for one in result["notifications"]] == ["firing", "resolved"]
    assert result["trails"]["bad"]["state"] == "failed"
    assert result["task"]["attempts"][0]["worker"] == "w"
    assert "bad" in json.dumps(result["trace"])


def test_replay_of_junk(call, tmp_path) -> None:
    """A file of which nothing can be used is no file to replay: exit code 2, with its name; an empty one is."""
    path = tmp_path / "junk"
    path.write_text("hello\nworld\n")
    code, _, err = call("replay", path, "--json")
    assert (code, f"{path}:1:1: nothing in it can be used" in err) == (2, True)
    path.write_text("")
    assert call("replay", path)[0] == 0


def test_replay_for_people(call, rules, events, monkeypatch) -> None:
    """Without --json the same is printed as lines and tables, without colours where NO_COLOR is set."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = call("replay", events, "--rules", rules, "--task", "bad", "--trails")
    assert code == 0
    for word in (
        "3 read",
        "1 malformed",
        "Failing",
        "task=a",
        "failed",
        "2 notifications",
        "task bad: a in queue q, failed",
    ):
        assert word in out
    assert "\x1b[3" not in out
    lines = [line for line in out.splitlines() if "Failing" in line]
    assert any("firing" in line for line in lines)
    assert any("resolved" in line for line in lines)


TOLD = """\
task bad: a in queue q, failed
  trace {trace}, sent by web
  children: child
  error: E: it broke\\x1b
  attempt 1 on w retried after 1.500 s with E
  attempt 2 on worker-2 failed after 0.250 s with E
    2025-06-15 15:06:45.000  +0.000 s  sent     attempt 1
    2025-06-15 15:06:46.000  +1.000 s  started  attempt 1  w
    2025-06-15 15:06:47.500  +2.500 s  retried  attempt 1  w         E
    2025-06-15 15:06:48.000  +3.000 s  started  attempt 2  worker-2
    2025-06-15 15:06:48.250  +3.250 s  failed   attempt 2  worker-2  E
"""


def test_replay_tells_the_story_of_a_task(call, rules, tmp_path) -> None:
    """--task and --trace print timelines that a person can read, one line per attempt and fact."""
    trace = {"trace_id": "ab" * 16}
    path = tmp_path / "story.ndjson"
    lines = [
        event("sent", "bad", T0, caller="web", **trace),
        event("started", "bad", T0 + 1, worker="w", attempt=1),
        event("retried", "bad", T0 + 2.5, worker="w", attempt=1, error="E"),
        event("started", "bad", T0 + 3, worker="worker-2", attempt=2),
        event("failed", "bad", T0 + 3.25, worker="worker-2", attempt=2, error="E", error_message="it broke\x1b"),
        event("sent", "child", T0 + 3.5, parent_id="bad", **trace),
    ]
    path.write_bytes(b"\n".join(lines))
    told = TOLD.format(trace="ab" * 16)
    assert call("replay", path, "--rules", rules, "--task", "bad")[1].endswith(f"1 notification\n\n{told}")
    code, out, err = call("replay", path, "--rules", rules, "--trace", "ab" * 16)
    assert (code, err) == (0, "")
    assert f"trace {'ab' * 16}: 2 tasks\n\n{told}\ntask child: a in queue q, sent\n" in out


@pytest.mark.parametrize("option", ["--task", "--trace"])
def test_replay_says_that_a_task_is_not_there(call, rules, events, option: str) -> None:
    """An id that no event names is a sentence on stderr and exit code 1; for programs it is null."""
    code, out, err = call("replay", events, "--rules", rules, option, "nobody")
    assert (code, err) == (1, f"no event of {option[2:]} nobody is in {events}\n")
    assert "null" not in out
    code, out, _ = call("replay", events, "--rules", rules, "--json", option, "nobody")
    assert (code, json.loads(out)[option[2:]]) == (0, None)


def test_replay_cuts_nothing_that_is_piped(call, rules, tmp_path, monkeypatch) -> None:
    """Without a terminal a table is as wide as what stands in it, and names stay whole, whatever they are."""
    monkeypatch.setenv("COLUMNS", "40")
    name = "shop.orders.[bold]" + "very_long_" * 30
    path = tmp_path / "long.ndjson"
    path.write_bytes(event("failed", "1", T0, task=name, queue="q" * 100, error="E"))
    out = call("replay", path, "--rules", rules)[1]
    assert out.count(name) == 3
    assert "…" not in out


def test_one_is_not_several(call, rules, tmp_path) -> None:
    """What there is one of is not said in the plural."""
    path = tmp_path / "one.ndjson"
    path.write_bytes(FAILED + b"\n")
    _, out, _ = call("replay", str(path), "--rules", rules)
    assert "\n1 notification\n" in out
    assert [counted(count, "retry", "retries") for count in (0, 1, 1200)] == ["0 retries", "1 retry", "1,200 retries"]


def test_replay_without_an_alert(call, rules, tmp_path) -> None:
    """A file in which nothing went wrong says so; an empty one too."""
    path = tmp_path / "quiet.ndjson"
    path.write_bytes(event("sent", "1", T0))
    assert "no alert fired" in call("replay", path, "--rules", rules)[1]
    path.write_bytes(b"")
    assert "0 read" in call("replay", path, "--rules", rules)[1]


@pytest.mark.parametrize(("form", "squeeze"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_squeezed_files_are_read(call, rules, events, tmp_path, form: str, squeeze) -> None:
    """Compressed files give what plain ones give."""
    path = tmp_path / f"events.{form}"
    path.write_bytes(squeeze(events.read_bytes()))
    assert json.loads(call("replay", path, "--json", "--rules", rules)[1])["events"]["read"] == 3


def test_several_files_are_one_story(call, rules, events, tmp_path) -> None:
    """Files that overlap in time give the same as one file with all of it."""
    lines = events.read_bytes().splitlines(keepends=True)
    (tmp_path / "one").write_bytes(lines[2])
    (tmp_path / "two").write_bytes(b"".join(lines[:2]))
    whole = json.loads(call("replay", events, "--json", "--rules", rules)[1])
    parts = json.loads(call("replay", tmp_path / "one", tmp_path / "two", "--json", "--rules", rules)[1])
    assert parts == whole


@pytest.mark.parametrize(("until", "resolved"), [(None, None), ("+10m", T0 + 15), ("1m", T0 + 15)])
def test_replay_goes_on_after_the_last_record(call, rules, tmp_path, until: str | None, resolved: float | None) -> None:
    """--until lets recorded time go on, so that what fired may end."""
    path = tmp_path / "one.ndjson"
    path.write_bytes(FAILED)
    more = [] if until is None else ["--until", until]
    (alert,) = json.loads(call("replay", path, "--json", "--rules", rules, *more)[1])["alerts"]
    assert alert["resolved_at"] == resolved


def test_replay_says_how_to_see_what_waits_for_its_group(call, rules, tmp_path) -> None:
    """Where the recording ends before a group speaks, a word on standard error says which --until lets it speak."""
    path, routes = tmp_path / "one.ndjson", tmp_path / "routes.yaml"
    path.write_bytes(FAILED)
    routes.write_text("route: {receiver: r, group_wait: 1s}\nreceivers: [{name: r}]\n")
    waiting = ["replay", path, "--rules", rules, "--routes", routes, "--json"]
    _, out, err = call(*waiting)
    hint = "1 alert had not been told of when the recording ended: --until +1s shows what would be sent\n"
    assert (json.loads(out)["notifications"], hint in err) == ([], True)
    _, out, err = call(*waiting, "--until", "+1s")
    assert ([one["receiver"] for one in json.loads(out)["notifications"]], "--until" in err) == (["r"], False)


def test_replay_at_a_speed_takes_its_time(call, rules, events, monkeypatch) -> None:
    """With --speed the stops are waited for, at that multiple of the recorded time."""
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("collector.cli.replay.asyncio.sleep", sleep)
    monkeypatch.setattr("collector.cli.replay.time.monotonic", lambda: 0.0)
    assert call("replay", events, "--rules", rules, "--json", "--speed", "2")[0] == 0
    waited = [seconds for seconds in slept if seconds]  # the others are turns for others
    assert waited[-1] == pytest.approx(60 / 2, abs=1)
    assert waited == sorted(waited)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("missing.ndjson",), "missing.ndjson"),
        (("{events}", "--until", "soon"), "--until soon"),
        (("{events}", "--rules", "missing.yaml"), "missing.yaml"),
        (("{events}", "--speed", "0"), "above 0"),
        (("{events}", "--speed", "fast"), "--speed"),
    ],
)
def test_replay_refuses_what_it_cannot_use(call, events, arguments: tuple[str, ...], word: str) -> None:
    """A missing file, a wrong time or missing rules exit with 2 and one sentence."""
    code, out, err = call("replay", *(one.format(events=events) for one in arguments))
    assert (code, out) == (2, "")
    assert word in err
    assert "Traceback" not in err


# record


@pytest.mark.parametrize("source", ["file://{path}", "stdin:"])
def test_what_was_recorded_replays_the_same(call, tmp_path, monkeypatch, source: str) -> None:
    """A recording of a file, or of standard input, gives the counts and alerts of the original."""
    original, copy = tmp_path / "original.ndjson", tmp_path / "copy.ndjson"
    lines, _ = generate(3, 1500)
    last = max(line.time for line in lines)  # in order: what is later than grace is seen when it comes
    packed = msgspec.msgpack.encode({"kind": "sent", "task_id": "packed", "task": "a", "time": last})
    bodies = [line.body for line in lines if b"\n" not in line.body]
    original.write_bytes(b"\n".join([*bodies, packed, b"\xff\x00"]) + b"\n")
    with original.open("rb") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        real = cli.os.dup(0)
        cli.os.dup2(stdin.fileno(), 0)
        try:
            code, _, err = call("record", "--source", source.format(path=original), "-o", copy)
        finally:
            cli.os.dup2(real, 0)
            cli.os.close(real)
    assert code == 0
    assert "records" in err
    results = [json.loads(call("replay", path, "--json", "--trails")[1]) for path in (original, copy)]
    assert results[0]["events"]["read"] > 1500
    assert results[1] == results[0]


def test_record_to_standard_output(events, capfdbinary) -> None:
    """With `-o -` the capture goes to standard output, and what is said of it to stderr."""
    assert cli.main(["record", "--source", f"file://{events}", "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert len(out.splitlines()) == 3
    assert json.loads(out.splitlines()[0])["source"] == "native"
    assert b"3 records" in err


def test_record_ends_after_its_time(call, tmp_path) -> None:
    """With --seconds a source that goes on for ever is recorded for so long."""
    code, _, err = call("record", "--source", f"unix://{tmp_path}/s", "-o", tmp_path / "x", "--seconds", "0.05")
    assert (code, "0 records" in err) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--source", "file:///nowhere", "-o", "{tmp}/x"), "nowhere"),
        (("--source", "kafka:/x", "-o", "{tmp}/x"), "--source"),
        (("--source", "http://127.0.0.1:9810/v1/events", "-o", "{tmp}/x"), "pushed to"),
        (("--source", "stdin:", "-o", "{tmp}/no/x"), "cannot write"),
    ],
)
def test_record_refuses_what_it_cannot_use(call, tmp_path, arguments: tuple[str, ...], word: str) -> None:
    """A source or a file that cannot be had exits with 2 and one sentence."""
    code, _, err = call("record", *(one.format(tmp=tmp_path) for one in arguments))
    assert (code, word in err, "Traceback" in err) == (2, True, False)


# notify


class Channels:
    """Targets that take or refuse what they are sent."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = errors
        self.sent: list[tuple[str, str]] = []

    def open(self):
        """The channel of a configuration."""
        return self

    name, description, spacing_seconds = "kept", "keeps", 0.0

    async def send(self, notification) -> None:
        """Take it, or raise what stands at its place."""
        self.sent.append((notification.status, notification.title))
        error = self.errors[(len(self.sent) - 1) % len(self.errors)]
        if error is not None:
            raise error

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (None, 0, "firing: taken"),
        (cli.notify.ChannelError("refused", retryable=False), 1, "not taken, refused"),
        (TimeoutError(), 1, "not taken, no answer"),
    ],
)
def test_a_sample_of_each_kind_is_sent(call, monkeypatch, error: Exception | None, code: int, word: str) -> None:
    """One start, one end and one summary go to each target; the exit code says whether all were taken."""
    target = Channels(error)
    monkeypatch.setattr(cli.notify.channels, "from_url", lambda _url: target)
    got, out, _ = call("notify", "test", "--notify", "x://")
    assert (got, word in out) == (code, True)
    assert [status for status, _ in target.sent] == ["firing", "resolved", "resolved"]
    assert "away" in target.sent[2][1]


def test_a_target_that_is_not_understood_is_a_wrong_call(call) -> None:
    """A URL that names no target exits with 2, and shows no secret."""
    code, _, err = call("notify", "test", "--notify", "nonsense://user:hunter2@h")
    assert (code, "hunter2" in err) == (2, False)
    assert "--notify" in err


def test_a_target_may_stand_in_a_file(call, monkeypatch, tmp_path) -> None:
    """As for `run`, `file:` names a file with the URL; one that is not there is a wrong call."""
    path = tmp_path / "url"
    path.write_text("x://secret\n")
    asked = []
    monkeypatch.setattr(cli.notify.channels, "from_url", lambda url: asked.append(url) or Channels(None))
    assert call("notify", "test", "--notify", f"file:{path}")[0] == 0
    assert asked == ["x://secret"]
    code, _, err = call("notify", "test", "--notify", f"file:{tmp_path}/missing")
    assert (code, "missing" in err) == (2, True)


# run


def test_a_start_says_every_problem_at_once(call, tmp_path) -> None:
    """Sources, targets, files and the configuration itself: all are told together, and none of them twice."""
    path = tmp_path / "c.yaml"
    path.write_text("grace: soon\nlisten: here\nsources: ['stdin:', 'stdin:']\n")
    options = ("--source", "foo://x", "--source", "stdin:", "--notify", "nonsense", "--rules", "/none/rules")
    code, out, err = call("run", "-c", path, *options, "--token-file", "/none/token")
    assert (code, out) == (2, "")
    assert [line.split(": ")[0] for line in err.splitlines()] == [
        *("--notify:1:1", "--source:1:1", "--source:2:1", "/none/rules:1:1", "/none/token:1:1"),
        *(f"{path}:{at}" for at in ("1:8", "2:9", "3:21")),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-c", "missing.yaml"), ("missing.yaml",)),
        (("--listen", "9810"), ("--listen",)),
        (("--listen", "0.0.0.0:9810"), ("--token-file",)),
        (("--source", "kafka:/x", "--source", "nonsense://h"), ("--source:1", "--source:2")),
        (("--rules", "missing.yaml", "--notify", "nonsense://u:hunter2@h"), ("missing.yaml", "notify:1")),
        (("--tasks", "t.yaml", "--routes", "r.yaml"), ("t.yaml:1:1", "r.yaml:1:1")),
        (("--external-url", "ftp://x"), ("--external-url",)),
        (("--external-url", "https:///no-host"), ("--external-url",)),
    ],
)
def test_run_refuses_what_it_cannot_use(call, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    """Every problem of the call and of its files is said with its place, and the exit code is 2."""
    code, out, err = call("run", "--state", "none", *arguments)
    assert (code, out) == (2, "")
    assert all(word in err for word in words)
    assert "hunter2" not in err
    assert "Traceback" not in err
