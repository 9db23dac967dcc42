"""`tasktrail check`: every problem at its place, exit code 1, and never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.cli import run
from collector.cli.main import main
from collector.cli.run import warn
from collector.config.settings import load as load_settings

UNIT = Path(__file__).parents[1]
BROKEN = sorted(
    (*UNIT.glob("*/broken/*.yaml"), *UNIT.glob("*/broken_tests/*.yaml"), *UNIT.glob("alerting/findings/*.bad.yaml"))
)


def check(capsys, *arguments):
    """The exit code, and the lines on stdout and stderr."""
    code = main(["check", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_a_broken_file_gives_its_message(path, capsys, monkeypatch):
    """A file named for its mistake gives what is expected, each line with its place, and the exit code 1."""
    monkeypatch.chdir(path.parent)
    expected = path.with_name(path.name.split(".")[0] + ".expected").read_text(encoding="utf-8").splitlines()
    code, out, err = check(capsys, path.name)
    assert (code, out) == (1, [])
    assert err[:-1] == expected
    assert all(line.startswith(f"{path.name}:") for line in expected)


def test_there_are_enough():
    """The folders hold the mistakes that people make in rules, their tests and configurations."""
    assert len(BROKEN) >= 150


def test_files_without_a_problem(capsys, tmp_path):
    """What is fine is counted, each file once however often it is named, with exit code 0."""
    path = tmp_path / "rules.yaml"
    path.write_text("groups: []\n")
    (tmp_path / "tasktrail.yaml").write_text("grace: 5s\n")
    assert check(capsys, path, tmp_path, "shipped")[::2] == (0, [])
    assert check(capsys, path, tmp_path)[1] == ["2 files, no problem"]


def test_an_empty_file_is_a_problem(capsys, tmp_path):
    """What was cut to nothing is not passed as fine; a configuration in which all is commented out is."""
    path = tmp_path / "rules.yaml"
    path.write_text(" \n")
    code, _, err = check(capsys, path)
    assert (code, err[0]) == (1, f"{path}:1:1: this file is empty: write into it what it is for, or remove it")
    path.write_text("# grace: 5s\n")
    assert check(capsys, path)[0] == 0


def test_secrets_that_are_not_here_are_named(capsys, tmp_path):
    """A routes file is right also where its secrets are elsewhere, and it is said that `run` needs them."""
    path = tmp_path / "routes.yaml"
    path.write_text(
        "route: {receiver: a}\nreceivers: [{name: a, webhook_configs: [{url_file: hook}, {url: 'http://h/'}]}]\n"
    )
    code, out, err = check(capsys, path)
    assert (code, err, len(out)) == (0, [], 2)
    assert out[0].startswith(f"{path}:2:41: this target of `webhook_configs` cannot be used: the secret file hook")
    assert out[0].endswith("(no problem here; `run` needs it)")


def test_secrets_that_are_not_here_are_named_beside_problems(capsys, tmp_path):
    """What `run` needs is said also where something else is wrong, in the same file or in another one."""
    path = tmp_path / "routes.yaml"
    path.write_text("route: {receiver: a, bogus: 1}\nreceivers: [{name: a, webhook_configs: [{url_file: hook}]}]\n")
    code, out, err = check(capsys, path)
    assert (code, len(err)) == (1, 2)
    assert "bogus" in err[0]
    assert [line.partition(": ")[0] for line in out] == [f"{path}:2:41"]


def test_what_a_configuration_names_is_looked_at_beside_its_own_mistakes(capsys, tmp_path):
    """A misspelt key hides neither a missing token file nor a missing rule file nor a target that is none."""
    path = tmp_path / "c.yaml"
    path.write_text("listn: x\ntoken_file: /none/token\nrules: [/none/rules]\nnotify: [nonsense]\n")
    assert [line.split(": ")[0] for line in check(capsys, path)[2]][:-1] == [
        f"{path}:{at}" for at in ("1:1", "2:13", "3:9", "4:10")
    ]


def test_targets_that_are_left_are_not_taken_for_one_another(capsys, tmp_path):
    """Beside a target whose secret is not here no place of another one can be wrong: only the first is told."""
    path = tmp_path / "c.yaml"
    path.write_text("notify: ['file:/none', nonsense]\n")
    code, _, err = check(capsys, path)
    assert (code, len(err)) == (1, 2)
    assert err[0].startswith(f"{path}:1:10: the secret file /none")


@pytest.mark.parametrize("held", ["no address", "", "\0"])
def test_a_secret_that_is_here_is_checked(capsys, tmp_path, held):
    """Where its file can be read, what `run` would refuse of it is a problem, at its place."""
    path = tmp_path / "routes.yaml"
    path.write_text("route: {receiver: a}\nreceivers: [{name: a, webhook_configs: [{url_file: hook}]}]\n")
    hook = tmp_path / "hook"
    hook.write_text(held)
    code, out, err = check(capsys, path)
    assert (code, out) == (1, [])
    assert err[0].startswith(f"{path}:2:41: this target of `webhook_configs` cannot be used: ")
    assert "no address" not in err[0]
    hook.write_text("http://127.0.0.1/S3CR3T\n")
    assert check(capsys, path) == (0, ["1 file, no problem"], [])
    (tmp_path / "hook").write_text("http://h/s3cret\n")
    assert check(capsys, path) == (0, ["1 file, no problem"], [])


def test_what_run_refuses(capsys, tmp_path, monkeypatch):
    """Paths that are not there, targets that cannot be used and an open listener are found, each at its setting."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "routes.yaml").write_text(
        "route: {receiver: a}\nreceivers: [{name: a, apprise_configs: [{url: 'no://'}]}]\n"
    )
    (tmp_path / "tasktrail.yaml").write_text(
        "rules: [shipped, there.yaml]\ntasks: tasks.yaml\ntoken_file: token\nnotify: ['log:', 'nonsense://hunter2']\n"
        "routes: routes.yaml\n"
    )
    (tmp_path / "open.yaml").write_text("listen: 0.0.0.0:9810\n")
    code, _, err = check(capsys, "tasktrail.yaml", "open.yaml")
    assert code == 1
    assert [line.split(": ")[0] for line in err[:-1]] == [
        "open.yaml:1:9",
        "routes.yaml:2:41",
        "tasktrail.yaml:1:18",
        "tasktrail.yaml:2:8",
        "tasktrail.yaml:3:13",
        "tasktrail.yaml:4:18",
    ]
    assert "hunter2" not in "".join(err)


@pytest.mark.parametrize(
    ("options", "further"),
    [([], []), (["--notify", "nonsense://x"], ["--notify:1:1"]), (["--listen", "x"], ["--listen:1:1"])],
)
def test_run_says_the_places_that_check_says(capsys, tmp_path, monkeypatch, options, further):
    """A start that is refused names the same places in the configuration, and the command line by its options."""
    monkeypatch.setattr(run, "log_to_stderr", lambda _wanted: None)  # it would outlive the test
    path = tmp_path / "c.yaml"
    path.write_text("labels: [tenant]\nnotify: ['log:', 'nonsense://']\nrules: [none]\ntasks: none.yaml\n")
    code, _, err = check(capsys, path)
    assert (code, [line.split(": ")[0] for line in err[:-1]]) == (
        1,
        [f"{path}:{at}" for at in ("1:9", "2:18", "3:9", "4:8")],
    )
    assert main(["run", "--state", "none", "-c", str(path), *options]) == 2
    told = capsys.readouterr().err.splitlines()
    assert {line.split(": ")[0] for line in told} == {line.split(": ")[0] for line in err[:-1]} | {*further}


def test_rules_and_their_configuration_together(capsys, tmp_path):
    """Labels that a configuration takes from events are known to the rules that are checked with it."""
    (tmp_path / "tasktrail.yaml").write_text("labels: [tenant]\n")
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups:\n- name: g\n  rules:\n  - {alert: A, expr: 'tasks_in_flight{tenant=\"a\"} > 1'}\n")
    code, _, err = check(capsys, tmp_path)
    assert (code, [line.split(": `")[0] for line in err]) == (
        1,
        [f"{tmp_path}/tasktrail.yaml:1:9", "1 problem in 1 file"],
    )
    code, _, err = check(capsys, rules)
    assert (code, err) == (
        1,
        [
            f"{rules}:4:23: `tasks_in_flight` has no label `tenant`: it has queue, source, task",
            "1 problem in 1 file",
        ],
    )


def test_the_rest_of_a_broken_file_is_checked(capsys, tmp_path):
    """Rules that are right are looked at though others of their file are wrong; what those record is there."""
    path = tmp_path / "rules.yaml"
    path.write_text(
        "groups:\n- name: g\n  rules:\n"
        "  - {record: 'task_a:b', expr: 'sum('}\n"
        "  - {alert: A, expr: 'task_a:b > tasks_in_fligth', for: soon}\n"
        "  - {alert: B, expr: 'task_a:b{x=\"y\"} > tasks_in_fligth'}\n"
    )
    code, _, err = check(capsys, path)
    assert code == 1
    assert [line.removeprefix(f"{path}:") for line in err[:-1]] == [
        "4:33: the expression cannot be used: unclosed left parenthesis",
        "5:57: `soon` is not a duration: write whole numbers with units, such as 30s, 5m or 1h30m",
        "6:23: nothing gives the metric `tasks_in_fligth`: did you mean `tasks_in_flight`?",
    ]


@pytest.mark.parametrize(
    "text",
    [b"\xff\xfe", b"? [a, b]\n: c\n", b"\x00", b"[" * 3000, b"a: &a [*a]\n", b"- 1\n", b"---\n---\n", b"!!python/x {}"],
)
def test_what_is_no_yaml_of_ours_is_a_problem(text, capsys, tmp_path):
    """Whatever a file holds, it is a line with a place."""
    path = tmp_path / "x.yaml"
    path.write_bytes(text)
    code, _, err = check(capsys, path)
    assert code == 1
    assert all(line.startswith(f"{path}:") for line in err[:-1])


def test_a_path_that_is_not_there(capsys, tmp_path):
    """A path without a file is a wrong call: exit code 2."""
    code, _, err = check(capsys, tmp_path / "none.yaml")
    assert (code, err) == (2, [f"{tmp_path}/none.yaml:1:1: there is no file to check here"])


def test_what_nothing_measures_is_said_and_is_no_finding(tmp_path, capsys):
    """A rule on queues or workers of celery-exporter is right, and silent: that is a remark, at its place."""
    path = tmp_path / "celery.yaml"
    path.write_text(
        "groups:\n- name: g\n  rules:\n  - alert: Down\n    expr: celery_worker_up == 0\n    for: 15m\n"
        "  - alert: Slow\n    expr: histogram_quantile(0.9, sum by (hostname, le) "
        "(rate(celery_task_queue_wait_time_bucket[5m]))) > 9\n"
    )
    assert main(["check", str(path)]) == 0
    out, err = capsys.readouterr()
    (remark, _) = out.splitlines()
    assert remark.startswith(f"{path}:5:11: remark: nothing measures `celery_worker_up`")
    assert err == ""


OWNED = "tasks:\n- {match: 'pay.*', semantics: must_complete, owner: payments, runbook_url: 'https://wiki/pay'}\n"


@pytest.mark.parametrize(
    ("expr", "tasks", "is_owned"),
    [
        ("sum by (task) (increase(task_failed_total[5m])) > 0", OWNED, True),
        ('tasks_in_flight{task="pay.settle"} > 5', OWNED, True),
        ('tasks_in_flight{task=~"pay.+"} > 5', OWNED, True),
        ('tasks_in_flight{task="mail.send"} > 5', OWNED, False),
        ("sum by (queue) (increase(task_failed_total[5m])) > 0", OWNED, False),
        (
            "sum by (task) (increase(task_failed_total[5m])) > 0",
            OWNED.replace("must_complete, owner: payments", "best_effort"),
            False,
        ),
        ("sum by (task) (increase(task_failed_total[5m])) > 0", OWNED.partition("runbook_url")[0] + "}\n", False),
    ],
)
def test_a_contract_owns_the_pages_of_its_tasks(capsys, caplog, tmp_path, expr, tasks, is_owned):
    """Beside its rules, through a configuration, and at the start of `run`: it is the same finding, or none."""
    rules, contracts, config = (tmp_path / name for name in ("rules.yaml", "tasks.yaml", "tasktrail.yaml"))
    rules.write_text(f"groups:\n- name: g\n  rules:\n  - alert: A\n    expr: {expr}\n    labels: {{severity: page}}\n")
    contracts.write_text(tasks)
    config.write_text(f"rules: ['{rules}']\ntasks: '{contracts}'\n")
    beside, named = check(capsys, rules, contracts), check(capsys, config)
    warn(load_settings(str(config), config.read_text(), {}))
    said = [line for line in beside[2] if "`A` pages but has no " in line]
    assert beside[0] == named[0] == (0 if is_owned else 1)
    assert beside[2][:-1] == named[2][:-1] == said == sorted(caplog.messages)
