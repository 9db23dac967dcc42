"""What a command says where the daemon cannot be asked: what is wrong, and never a traceback."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from collector.cli.main import main, parser


@pytest.mark.parametrize(
    "url",
    [
        "h:9810",
        "ftp://h",
        "http://",
        "http://h:port",
        "http://h:0",
        "http://[::1",
        "http://a b",
        "http://a%20b",
        "http://h/\u00e4",
        "http://h?\u00e4=1",
        "http://a..b:80",
        f"http://{'a' * 64}.h",
    ],
)
def test_what_is_no_address_is_said(capsys, url: str) -> None:
    """It is the call that is wrong: nobody is asked."""
    assert main(["alerts", "--url", url]) == 2
    assert capsys.readouterr().err == f"tasktrail alerts: --url {url}: write http://HOST:PORT\n"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"-ERR unknown command\r\n", "what answers there is no tasktrail"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html></html>", "what answers there is no tasktrail"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n[]", "the answer ended before its end"),
        (b"", "no daemon answers there"),
    ],
)
def test_what_answers_otherwise_is_said(capsys, answer: bytes, says: str) -> None:
    """Another program on that port is told from a daemon, and an answer that ends early from one that does not come."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        pool.submit(_answer_once, server, answer)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert main(["alerts", "--url", url]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "json"),
    [
        (("alerts",), "{}"),
        (("alerts",), '[{"labels": {}}]'),
        (("alerts",), "[1]"),
        (("silence", "list"), '"x"'),
        (("silence", "list"), "[null]"),
        (("tasks",), "[]"),
        (("tasks",), '{"status": "ok"}'),
        (("top", "--once"), '"x"'),
        (("top", "--once"), '{"data": {}}'),
        (("ack", "--list"), "[" * 50_000),
        (("ack", "--list"), ""),
        (("ack", "--end", "0" * 16), "{"),
    ],
)
def test_json_of_another_shape_is_said(capsys, command: tuple[str, ...], json: str) -> None:
    """A program that answers with JSON of its own is told from a daemon, too."""
    assert _asked(command, json) == 2
    err = capsys.readouterr().err
    assert "what answers there is no tasktrail of this version" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "json", "says"),
    [
        (("ack", "a=b"), '{"acks": []}', "no ack holds\n"),
        (("dead-letters", "ack", "1"), '{"dead_letters": ["1"], "is_kept": true}', "1 acknowledged\n"),
    ],
)
def test_a_daemon_that_does_not_say_what_it_keeps_is_understood(capsys, command, json: str, says: str) -> None:
    """The version before did not; what was asked for is done, and is said to be."""
    assert _asked(command, json) == 0
    assert capsys.readouterr() == (says, "")


@pytest.mark.parametrize("command", [("silence", "expire", "1"), ("ack", "--end", "0" * 16)])
def test_what_is_taken_back_and_not_kept_is_said(capsys, command: tuple[str, ...]) -> None:
    """It is done, and a restart forgets it."""
    assert _asked(command, "", "Tasktrail-Unkept: a restart forgets it\r\n") == 0
    assert capsys.readouterr() == ("", "but a restart forgets it\n")


@pytest.mark.parametrize("action", [("silence", "list"), ("dead-letters", "list"), ("drill", "alert-path")])
@pytest.mark.parametrize("where", [1, 2])
def test_how_to_ask_stands_before_or_behind_an_action(action: tuple[str, ...], where: int) -> None:
    """The daemon's address, its token and the form of the answer; an action leaves alone what stands before it."""
    asked = parser().parse_args([*action[:where], "--url=u", "--token-file=t", "--json", *action[where:]])
    assert (asked.url, asked.token_file, asked.json) == ("u", "t", True)
    unsaid = parser().parse_args(action)
    assert (unsaid.url, unsaid.token_file, unsaid.json) == ("http://127.0.0.1:9810", None, False)


def _asked(command: tuple[str, ...], json: str, headers: str = "") -> int:
    """The exit code of a command that is answered with this."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        pool.submit(_answer_once, server, f"HTTP/1.0 200 OK\r\n{headers}\r\n{json}".encode())
        return main([*command, "--url", f"http://127.0.0.1:{server.getsockname()[1]}"])


def _answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):  # to its end: what is closed with a question unread is a broken connection
            pass


def test_a_token_file_of_two_lines_is_refused_unseen(capsys, tmp_path) -> None:
    """The call ends with what a token is, before anybody is asked, and without what the file holds."""
    path = tmp_path / "token"
    path.write_text("geheim\r\nx\n")
    assert main(["alerts", "--token-file", str(path), "--url", "http://127.0.0.1:1"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{path}:1:1: a token is one line")
    assert "geheim" not in err


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (("-d", "-2h"), "expected one argument; a value that begins with - is written as --name=-value\n"),
        (("--duration=-2h",), "silence: `-2h` is not a duration: write whole numbers with units"),
    ],
)
def test_a_time_below_zero_is_said_to_be_none(capsys, written: tuple[str, ...], says: str) -> None:
    """What begins like an option is said to need another form, and in that form to be no duration."""
    try:
        code = main(["silence", "add", *written, "-c", "x", "a=b"])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert says in capsys.readouterr().err
