"""The configuration: whole, typed, and refused with every problem at its place."""

from __future__ import annotations

import os

import pytest

from collector.config.settings import Overrides, Settings, load, override
from collector.model.errors import ProblemsError


def problems(text, environ=None):
    """The messages of a file that is refused."""
    with pytest.raises(ProblemsError) as raised:
        load("c.yaml", text, environ or {})
    return [str(problem) for problem in raised.value.problems]


def refused(settings, **overrides):
    """The messages of a command line that is refused."""
    with pytest.raises(ProblemsError) as raised:
        override(settings, Overrides(**overrides))
    return [str(problem) for problem in raised.value.problems]


def test_empty_file_is_the_defaults():
    """An empty file gives the defaults of the contract."""
    assert load("c.yaml", "", {}) == Settings()
    assert (Settings().rules, Settings().listen, Settings().grace) == (("shipped",), "127.0.0.1:9810", 5)
    assert (Settings().bounds.finished_ids, Settings().bounds.finished_age) == (1_000_000, 900)
    assert Settings().address == ("127.0.0.1", 9810)


def test_every_problem_at_once():
    """All mistakes of a file are told in one go, each with its place and what to do."""
    text = (
        "sources:\n"
        "- kafka://u:pw@h:1/t?start=oldst&bogus=1\n"
        "- resque+redis://h/0\n"
        "- url: kafka://h\n"
        "  topics: a\n"
        "  sasl_pasword: x\n"
        "listen: here\n"
        "grace: soon\n"
        "bounds: {series: 0}\n"
        "stat: x\n"
    )
    found = problems(text)
    assert [line.split(": ", 1)[0] for line in found] == [
        f"c.yaml:{at}" for at in ("2:3", "2:3", "3:3", "6:3", "7:9", "8:8", "9:18", "10:1")
    ]
    assert "did you mean `sasl_password`?" in found[3]
    assert not any("pw" in line for line in found)


def test_secrets(tmp_path):
    """Secrets come from the environment or from files beside the configuration, and are never shown."""
    (tmp_path / "token").write_text("from-a-file\n")
    text = (
        "sources:\n- url: kafka://h/t\n  sasl_password: file:token\n  sasl_username: u\n"
        "- redis-stream://u:${PW}@r/0/s\nnotify: ['${HOOK}', file:token]\n"
    )
    settings = load(str(tmp_path / "c.yaml"), text, {"PW": "from-env", "HOOK": "slack://from-env"})
    kafka, redis = settings.sources
    assert kafka.secrets["sasl_password"].reveal() == "from-a-file"
    assert (redis.user, redis.password.reveal()) == ("u", "from-env")
    assert [target.reveal() for target in settings.notify] == ["slack://from-env", "from-a-file"]
    assert "from-" not in repr(settings)


def test_missing_secret_file():
    """A secret file that is not there is a problem at its place."""
    assert problems("notify:\n- file:/none") == [
        "c.yaml:2:3: the secret file /none cannot be used: No such file or directory: check the path and its rights"
    ]


def test_paths_are_relative_to_the_file():
    """A configuration names files beside it, wherever one is; words that are no paths stay, and so do whole paths."""
    text = (
        "sources: ['kafka://h/t?ssl_cafile=ca.pem', 'unix:///run/s', 'file:in/x.ndjson', 'stdin:']\n"
        "rules: [shipped, rules.yaml, /etc/r]\ntasks: ../tasks.yaml\nroutes: ''\nstate: none\n"
        "token_file: token\ntls_cert_file: tls.pem\n"
    )
    found = load("conf/c.yaml", text, {})
    assert (found.rules, found.state, found.routes) == (("shipped", "conf/rules.yaml", "/etc/r"), "none", "")
    assert (found.tasks, found.token_file, found.tls_cert_file) == ("conf/../tasks.yaml", "conf/token", "conf/tls.pem")
    assert load("conf/c.yaml", "state: here", {}).state == "conf/here"
    kafka, unix, file, stdin = found.sources
    assert kafka.options["ssl_cafile"] == "conf/ca.pem"
    assert (unix.path, file.path, stdin.path) == (("/run/s",), ("conf/in/x.ndjson",), ())
    assert file.name == "file://in/x.ndjson"
    assert override(found, Overrides(rules=("mine.yaml",), tasks="t.yaml")).rules == ("mine.yaml",)


def test_a_pipe_has_no_folder(tmp_path):
    """What a shell hands over as a pipe names files from where it was called."""
    pipe = tmp_path / "c.yaml"
    os.mkfifo(pipe)
    assert load(str(pipe), "tasks: t.yaml", {}).tasks == "t.yaml"


def test_names_are_unique():
    """Two sources of one name are refused, as their metrics could not be told apart."""
    assert problems("sources:\n- kafka://h/t\n- url: kafka://h/t\n") == [
        "c.yaml:3:3: two sources are named `kafka://h/t`: give one another `name`"
    ]


def test_command_line():
    """The command line adds sources and targets, replaces rules and single values, and keeps the rest."""
    settings = load(
        "c.yaml", "sources: ['stdin:']\nnotify: ['log:']\nrules: [a.yaml]\ntasks: t.yaml\nlisten: 127.0.0.1:1", {}
    )
    merged = override(
        settings,
        Overrides(
            sources=("file:///x",), rules=("b.yaml",), notify=("log:json",), listen="[::1]:2", public_metrics=True
        ),
    )
    assert [source.scheme for source in merged.sources] == ["stdin", "file"]
    assert (merged.rules, merged.tasks, merged.public_metrics) == (("b.yaml",), "t.yaml", True)
    assert [target.reveal() for target in merged.notify] == ["log:", "log:json"]
    assert merged.address == ("::1", 2)
    assert override(settings, Overrides()) == settings


def test_command_line_problems():
    """Problems of the command line carry the option's name and the number of its use."""
    found = refused(
        Settings(), sources=("stdin:", "kafk://h/t"), listen="x", external_url="tt.example", notify=("file:/none",)
    )
    assert [line.split(": ", 1)[0] for line in found] == [
        "--external-url:1:1",
        "--listen:1:1",
        "--notify:1:1",
        "--source:2:1",
    ]


@pytest.mark.parametrize("listen", ["0.0.0.0:9810", "[::]:9810", "10.0.0.1:80", "example.net:80"])
def test_open_listener_needs_a_token(listen):
    """Without a token file nothing but loopback is listened on."""
    assert "open to others" in refused(Settings(), listen=listen)[0]
    assert override(Settings(), Overrides(listen=listen, token_file="t")).listen == listen


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:9810", "[::1]:9810", "127.8.8.8:1"])
def test_loopback(listen):
    """Loopback needs no token."""
    assert override(Settings(), Overrides(listen=listen)).listen == listen
