"""`tasktrail dead-letters redrive` against a broker and a daemon that only exist here."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl

import pytest

from collector.cli import client, redrive
from collector.cli.main import main
from collector.model.errors import SourceError
from collector.model.redrive import Mark, mark_of
from collector.redrive.message import GONE, Message

RECORD = {
    "at": 1.0, "source": "s", "state": "open", "is_virtual": False, "place": "pay-dlt/0",
    "origin": {"topic": "pay", "partition": 0}, "queue": "pay",
}  # fmt: skip


class Daemon:
    """Answers as the daemon does; `become` is what a redriven task becomes, once it was asked for `slowness` times."""

    def __init__(self, count: int, become: str = "succeeded") -> None:
        self.records = {f"r{n}": {**RECORD, "id": f"r{n}", "task_id": f"t{n}", "receipt": str(n)} for n in range(count)}
        self.become = become
        self.fates: dict[str, str] = {}
        """What others become."""
        self.was = "dead_lettered"
        """The state of a task before it is redriven."""
        self.slowness = 0
        self.running: dict[str, int] = {}
        """Tasks that are under way, and how often each was asked for."""
        self.ended: set[str] = set()
        self.most = 0
        """So many were under way at once."""
        self.verdicts = []
        self.refuses = 0

    def begin(self, task_id):
        """It was sent again."""
        self.ended.discard(task_id)
        self.running[task_id] = 0
        self.most = max(self.most, len(self.running))

    def news(self, task_id):
        """What its trail has been told of since it died; a task gets on while it is asked for."""
        if task_id in self.running:
            self.running[task_id] += 1
            if self.running[task_id] <= self.slowness:
                return ["started"]
            del self.running[task_id]
            self.ended.add(task_id)
        return [self.fates.get(task_id, self.become)] if task_id in self.ended else []

    def ask(self, method, path, body=None):
        """One request."""
        if method == "POST":
            if self.refuses and len(body["ids"]) > 0:
                raise client.RefusedError(self.refuses, "no")
            self.verdicts.append(body)
            for name in body["ids"]:
                self.records[name]["state"] = "redriven"
            return {}
        place, _, query = path.partition("?")
        asked = dict(parse_qsl(query))
        name = place.rpartition("/")[2]
        if place.startswith("/api/tasks/"):
            told = [self.was, *self.news(name)]
            state = "succeeded" if "succeeded" in told else told[-1]
            return {"state": state, "events": [{"kind": kind, "time": at, "at": at} for at, kind in enumerate(told)]}
        if "task_id" in asked:
            assert (asked["source"], asked["limit"]) == ("s", "1")
            task_id = asked["task_id"]
            return {"dead_letters": [{"id": "newer" if task_id in self.ended else task_id.replace("t", "r")}]}
        if asked:
            found = [one for one in self.records.values() if one["state"] == "open"]
            start = int(asked.get("after", "0"))
            following = start + 2 if start + 2 < len(found) else None
            return {"dead_letters": found[start : start + 2], "next": following and str(following)}
        if name not in self.records:
            raise client.RefusedError(404, "none")
        return self.records[name]


class Broker:
    """Keeps what it is sent."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.before: set[str] = set()
        self.marks: dict[str, str] = {}
        self.gone: set[str] = set()
        self.written: list[tuple[str, Mark]] = []
        self.batches: list[int] = []
        self.opened: bool | None = None
        self.is_closed = False
        self.fails = False
        self.unseen: set[str] = set()
        """Tasks of which the daemon sees nothing more."""

    async def open(self, *, writes):
        """How it was opened."""
        self.opened = writes

    async def sent(self):
        """What was sent before."""
        return self.before

    async def read(self, places):
        """All that is not gone."""
        return {
            one.id: Message(at=one, marked=self.marks.get(one.id, ""), content=None)
            for one in places
            if one.id not in self.gone
        }

    async def send(self, messages):
        """The daemon sees it at once, where it does."""
        if self.fails:
            raise SourceError("Kafka: gone")
        listed = list(messages)
        self.batches.append(len(listed))
        for message, mark in listed:
            self.written.append((message.at.id, mark_of(mark)))
            if message.at.task_id not in self.unseen:
                self.daemon.begin(message.at.task_id)

    async def close(self):
        """At the end."""
        self.is_closed = True


@pytest.fixture
def stage(monkeypatch):
    """A daemon with five dead letters, a broker, and what calls the command."""
    daemon = Daemon(5)
    broker = Broker(daemon)
    monkeypatch.setattr(client, "Client", lambda _arguments: daemon)
    monkeypatch.setattr(redrive, "redriven_on", lambda _url: broker)
    monkeypatch.setattr(redrive, "POLL_SECONDS", 0.001)

    def call(*more: str) -> int:
        words = ["--target", "kafka://h:9092/pay", "--reason", "fixed", "--actor", "ann", "--rate", "0"]
        return main(["dead-letters", "redrive", *words, *more])

    return daemon, broker, call


def test_one_goes_ahead_and_the_rest_follows_its_success(stage, capsys):
    """All are sent once, in the order in which they died, each with its mark; the ledger hears of each."""
    daemon, broker, call = stage
    assert call("--task", "x") == 0
    assert broker.batches == [1, 4]
    assert broker.written == [(f"r{n}", Mark(f"r{n}", 1, f"t{n}")) for n in range(5)]
    assert Counter(name for one in daemon.verdicts for name in one["ids"]) == Counter(list(daemon.records))
    assert {(one["actor"], one["reason"], one["state"]) for one in daemon.verdicts} == {("ann", "fixed", "redriven")}
    assert (broker.opened, broker.is_closed) == (True, True)
    assert capsys.readouterr().out == "5 were redriven\n"


def test_a_canary_that_fails_again_keeps_the_rest_where_it_is(stage, capsys):
    """The call says which one it was, and what is left."""
    daemon, broker, call = stage
    daemon.become = "dead_lettered"
    assert call("--task", "x") == 1
    assert broker.batches == [1]
    assert "stopped after one: r0 (task t0) failed again; 4 are left" in capsys.readouterr().err


def test_a_canary_of_which_nothing_is_seen_keeps_the_rest_where_it_is(stage, capsys):
    """That the state of its task is still that of its death is no verdict on the redrive."""
    daemon, broker, call = stage
    broker.unseen = {"t0"}
    for daemon.was in ("dead_lettered", "succeeded", "rejected"):
        assert call("--task", "x", "--canary", "20ms") == 1
        assert "has not succeeded yet" in capsys.readouterr().err
        daemon.records["r0"]["state"] = "open"
    assert broker.batches == [1] * 3


@pytest.mark.parametrize(("become", "code", "sent"), [("succeeded", 0, 5), ("dead_lettered", 1, 1)])
def test_a_success_before_the_death_is_none_of_the_redrive(stage, capsys, become, code, sent):
    """A task that had succeeded, came again and died waits for its next success or death like any other."""
    daemon, broker, call = stage
    daemon.was, daemon.become, daemon.slowness = "succeeded", become, 3
    assert call("--task", "x", "--concurrency", "2") == code
    assert (daemon.most, len(broker.written)) == (min(sent, 2), sent)
    said = capsys.readouterr().err
    assert ("r0 (task t0) failed again" in said) == ("--canary 0s and without --concurrency" in said) == bool(code)


def test_no_more_are_under_way_at_once_than_are_allowed(stage, capsys):
    """The next one goes when one of those before it has ended, whatever it became; all go in the end."""
    daemon, broker, call = stage
    daemon.slowness = 3
    assert call("--task", "x", "--concurrency", "2") == 0
    assert (daemon.most, len(broker.written)) == (2, 5)
    assert broker.batches[0] == 1
    daemon.running.clear()
    daemon.ended.clear()
    daemon.fates = dict.fromkeys(("t1", "t2", "t3", "t4"), "dead_lettered")
    for one in daemon.records.values():
        one["state"] = "open"
    assert call("--task", "x", "--concurrency", "3") == 0
    assert (daemon.most, len(broker.written)) == (3, 10)
    assert capsys.readouterr().out == "5 were redriven\n" * 2


def test_what_never_ends_lets_no_more_through(stage, capsys):
    """The call says how many are under way, and what is left."""
    _, broker, call = stage
    broker.unseen = {"t1", "t2"}
    assert call("--task", "x", "--concurrency", "2", "--canary", "20ms") == 1
    assert len(broker.written) == 3
    assert "of 2 under way none has ended within 20ms; 2 are left" in capsys.readouterr().err


def test_a_dry_run_counts_what_would_be_sent_and_writes_nothing(stage, capsys):
    """The guard and what is gone are in the count; the daemon hears of nothing."""
    daemon, broker, call = stage
    broker.marks["r1"], broker.gone, broker.before = str(Mark("old", 3, "t1")), {"r2"}, {"r3"}
    assert call("--task", "x", "--dry-run") == 0
    assert (broker.opened, broker.written, daemon.verdicts) == (False, [], [])
    assert capsys.readouterr().out.splitlines() == [
        "2 would be redriven",
        "1 had been sent before, and are not sent again",
        "1 not: it came back 3 times: repair it, or resolve it otherwise",
        f"1 not: {GONE}",
    ]
    assert call("--task", "x", "--canary", "0s") == 1
    assert [name for name, _ in broker.written] == ["r0", "r4"]


def test_what_was_sent_before_is_told_and_not_sent_again(stage):
    """A call that was killed between the broker and the daemon is finished by the next."""
    daemon, broker, call = stage
    broker.before = {"r0", "r1"}
    assert call("--task", "x", "--canary", "0s") == 0
    assert [name for name, _ in broker.written] == ["r2", "r3", "r4"]
    assert Counter(name for one in daemon.verdicts for name in one["ids"]) == Counter(list(daemon.records))


def test_ids_may_be_named(stage, capsys):
    """Only these; one that is not there is an error, and so is naming nothing."""
    _, broker, call = stage
    assert call("r3", "--canary", "0s") == 0
    assert [name for name, _ in broker.written] == ["r3"]
    assert call("r9") == 2
    assert call() == 2
    assert "which? name ids, or a filter" in capsys.readouterr().err


@pytest.mark.parametrize("status", [404, 409])
def test_a_daemon_that_takes_no_verdict_does_not_stop_it(stage, status):
    """The messages are sent, and noted as sent."""
    daemon, broker, call = stage
    daemon.refuses = status
    assert call("--task", "x", "--canary", "0s") == 0
    assert len(broker.written) == 5


def test_a_broker_that_fails_ends_the_call_with_a_sentence(stage, capsys):
    """The same call can be made again."""
    _, broker, call = stage
    broker.fails = True
    assert call("--task", "x") == 2
    assert broker.is_closed
    assert "Kafka: gone; the same command goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--target", "celery+redis://h/0"), "only kafka://, redis-stream://"),
        (("--target", "redis://h/0/orders"), "only kafka://, redis-stream://"),
        (("--target", "kafka://h"), "--target: "),
        (("--canary", "soon"), "--canary soon: "),
        (("--concurrency", "2", "--canary", "0s"), "not with --canary 0s"),
    ],
)
def test_what_cannot_be_meant_is_refused(stage, capsys, more, said):
    """Before anything is asked or sent."""
    _, broker, call = stage
    assert call("--task", "x", *more) == 2
    assert said in capsys.readouterr().err
    assert broker.opened is None


@pytest.mark.parametrize(("target", "sent"), [("pay", 5), ("p*", 4), ("pay,other", 4)])
def test_a_target_that_is_one_name_is_an_origin(stage, capsys, target, sent):
    """What nothing tells the origin of goes to the queue of its task, where that alone is named."""
    daemon, broker, call = stage
    daemon.records["r1"]["origin"] = {}
    code = call("--task", "x", "--canary", "0s", "--target", f"kafka://h:9092/{target}")
    assert (code, len(broker.written)) == (int(sent < 5), sent)
    assert ("1 not: where it came from is not known" in capsys.readouterr().out) == (sent < 5)


def test_what_may_not_be_written_to_is_not(stage, capsys):
    """Only the topics that the target names."""
    daemon, broker, call = stage
    daemon.records["r1"]["origin"] = {"topic": "other", "partition": 0}
    assert call("--task", "x", "--canary", "0s") == 1
    assert len(broker.written) == 4
    assert "1 not: its origin other is not named in --target" in capsys.readouterr().out
