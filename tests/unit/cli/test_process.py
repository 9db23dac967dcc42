"""The daemon as a process: signals, exit codes, and what is on stderr when it ends."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from collector.cli.core import is_compiled
from tests.unit.parts import FAILING, T0, event

ROOT = Path(__file__).parents[3]

# Puts a source with a fault in the place of `stdin:`, then is `tasktrail`.
FAULTY = """
import asyncio, sys
from collector import app
from collector.wiring.plugs import Feed

class Stubborn:
    async def run(self, intake):
        intake.connected("hangs")
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

class Broken:
    async def run(self, intake):
        raise RuntimeError("failed on redis://u:hunter2@h")

feed = app.feed
app.feed = lambda url, **more: Feed(name="faulty", build={}) if url.scheme == "stdin" else feed(url, **more)
from collector.cli.main import main
sys.exit(main())
"""


class Process:
    """`tasktrail run`, with its stderr read as it comes."""

    def __init__(self, *arguments: str, source: str | None = None, **options: object) -> None:
        code = ["-m", "collector"] if source is None else ["-c", FAULTY.replace("{}", source)]
        self.popen = subprocess.Popen(
            [sys.executable, *code, *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.popen.stderr:
            self._queue.put(line)
        self._queue.put(None)

    def line(self, word: str) -> str:
        """The next line on stderr with a word in it."""
        while (line := self._queue.get(timeout=20)) is not None:
            self.lines.append(line)
            if word in line:
                return line
        pytest.fail(f"no line with {word!r} in {self.lines}")

    def end(self) -> int:
        """Its exit code, once it has ended; it is given as long as a service manager gives."""
        code = self.popen.wait(timeout=10)
        self._reader.join()
        while (line := self._queue.get()) is not None:
            self.lines.append(line)
        return code

    def close(self) -> None:
        """Whatever is left is ended."""
        self.popen.kill()
        self.popen.wait()
        self._reader.join()
        self.popen.stdout.close()
        self.popen.stderr.close()


@pytest.fixture
def start() -> Iterator[object]:
    """Starts processes, and ends what is left of them."""
    started: list[Process] = []

    def begin(*arguments: str, **options: object) -> Process:
        started.append(Process(*arguments, **options))
        return started[-1]

    yield begin
    for process in started:
        process.close()


@pytest.fixture
def rules(tmp_path) -> Path:
    """A rule file."""
    path = tmp_path / "rules.yaml"
    path.write_text(FAILING)
    return path


RUN = ("run", "--state", "none", "--listen", "127.0.0.1:0")


def address(process: Process) -> str:
    """Where the daemon listens."""
    return process.line("listens on").split("listens on ")[1].strip()


def test_it_says_whether_its_loops_are_compiled(start) -> None:
    """Whoever wonders why it is slow finds it in the first lines of the log."""
    one = start(*RUN)
    word = "compiled" if is_compiled() else "plain Python"
    assert f"hot loops: {word}" in one.line("hot loops")
    one.popen.terminate()
    assert one.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(start, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end the daemon in order, with exit code 0."""
    process = start(*RUN)
    address(process)
    process.line("no --external-url")
    process.popen.send_signal(number)
    assert process.end() == 0
    assert "stopped" in process.lines[-1]


@pytest.mark.parametrize("later", [0.0, 0.6])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_within_the_start_ends_it_cleanly(start, number: signal.Signals, later: float) -> None:
    """From the first instants on, before it has read or opened anything, a stop is exit code 0 and a reload no end."""
    process = start(*RUN)
    status = Path(f"/proc/{process.popen.pid}/status")
    caught = re.compile(r"SigCgt:\t([0-9a-f]+)")
    while not int(caught.search(status.read_text())[1], 16) & 1 << signal.SIGTERM - 1:
        assert process.popen.poll() is None
    time.sleep(later)
    process.popen.send_signal(signal.SIGHUP)
    process.popen.send_signal(number)
    assert process.end() == 0
    assert "Traceback" not in "".join(process.lines)


def test_a_source_that_hangs_does_not_keep_it_alive(start) -> None:
    """A source that does not end when it is told to is left behind: the process ends in the time that is given."""
    process = start(*RUN, "--source", "stdin:", source="Stubborn")
    process.line("connected, hangs")
    process.popen.terminate()
    assert process.end() == 0


def test_a_second_signal_ends_it_at_once(start) -> None:
    """A second signal does not wait for what the first one waits for."""
    process = start(*RUN, "--source", "stdin:", source="Stubborn")
    process.line("connected, hangs")
    process.popen.terminate()
    process.line("stopping")
    process.popen.terminate()
    assert process.end() == 0
    assert not any("did not end" in line for line in process.lines)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_bug_ends_it_loudly(start, tmp_path, form: str) -> None:
    """An error that nobody declared ends the process non-zero, with a traceback in the log and no secret in it."""
    config = tmp_path / "tasktrail.yaml"
    config.write_text(f"log: {{format: {form}}}\n")
    process = start("run", "-c", str(config), *RUN[1:], "--source", "stdin:", source="Broken")
    assert process.end() == 70
    text = "".join(process.lines)
    assert "Traceback" in text
    assert "RuntimeError" in text
    assert "hunter2" not in text
    if form == "json":
        parsed = [json.loads(line) for line in process.lines]
        assert parsed[-1]["level"] == "critical"
        assert "RuntimeError" in parsed[-1]["traceback"]


def test_a_busy_port_is_one_line(start) -> None:
    """A second daemon on the same port exits with 2 and one line that says what to do."""
    port = address(start(*RUN)).rpartition(":")[2]
    second = start("run", "--state", "none", "--listen", f"127.0.0.1:{port}")
    assert second.end() == 2
    assert [line for line in second.lines if "choose another --listen" in line] == second.lines


def silent() -> tuple[subprocess.Popen, int, int]:
    """A daemon whose stderr is a full pipe that nobody reads; the pipe's other end, and where it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    command = [sys.executable, "-m", "collector", *RUN[:-1], f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=writer, stdout=subprocess.DEVNULL)
    os.close(writer)
    return process, reader, port


def test_a_reader_of_stderr_that_stops_holds_nothing_up() -> None:
    """With a full pipe behind stderr the daemon answers, counts, and ends in time; the lines wait for a reader."""
    process, reader, port = silent()
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with suppress(OSError):
                body = b"\n".join(event("failed", str(n), None, task=f"t{n}") for n in range(300))
                assert post(f"http://127.0.0.1:{port}/v1/events", body)[0] == 200
                break
            time.sleep(0.1)
        assert post(f"http://127.0.0.1:{port}/-/reload")[0] == 200
        process.terminate()
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reader)


def test_names_make_no_lines_of_their_own(start, rules) -> None:
    """What stands in a name neither begins a line of the log nor moves a terminal's cursor."""
    process = start(*RUN, "--rules", str(rules))
    url = address(process)
    process.line("no --external-url")
    assert post(f"{url}/v1/events", event("failed", "1", None, task="a\n2026 CRITICAL \x1b[2Jfake"))[0] == 200
    process.line("alert firing")
    assert process.line("CRITICAL").startswith("  2026 CRITICAL \\x1b[2Jfake")


def test_a_peer_that_speaks_no_http_is_not_our_trouble(start) -> None:
    """A request that is none, and a peer that goes away in the middle of a push, are no tracebacks in the log."""
    process = start(*RUN)
    port = int(address(process).rpartition(":")[2])
    process.line("no --external-url")
    for words in (b"\x16\x03\x01 hello\r\n\r\n", b"POST /v1/events HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(words)
            peer.settimeout(0.3)
            with suppress(TimeoutError):
                peer.recv(100)
    assert post(f"http://127.0.0.1:{port}/-/reload")[0] == 200
    process.popen.terminate()
    assert process.end() == 0
    assert not any("Traceback" in line for line in process.lines)


def post(url: str, body: bytes = b"") -> tuple[int, str]:
    """Status and text of a POST."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method="POST"), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_sighup_reads_the_rules_again(start, rules) -> None:
    """SIGHUP takes new rules; where they are broken the old ones are kept, and it is said why."""
    process = start(*RUN, "--rules", str(rules))
    url = address(process)
    process.line("no --external-url")
    assert post(f"{url}/v1/events", event("failed", "1", None, error="E"))[0] == 200
    process.line("alert firing")
    rules.write_text("groups: 7\n")
    process.popen.send_signal(signal.SIGHUP)
    process.line("kept the old rules")
    process.line(f"{rules}:1:9")
    rules.write_text(FAILING.replace("alert: Failing", "alert: Renamed"))
    process.popen.send_signal(signal.SIGHUP)
    process.line("the new rules hold")
    process.line("alert resolved alertname=Failing")
    process.line("alert firing alertname=Renamed")


def test_pipes_in_place_of_files_hold_nothing_up(start, tmp_path, rules) -> None:
    """At a start each is a problem where it is named, and exit code 2; at a reload the old rules are kept."""
    names = ("rules", "tasks", "routes")
    for name in names:
        os.mkfifo(tmp_path / f"{name}.pipe")
    text = "\n".join(f"{name}: {[f'{name}.pipe'] if name == 'rules' else f'{name}.pipe'}" for name in names)
    (tmp_path / "config.yaml").write_text(text)
    call = [sys.executable, "-m", "collector", *RUN, "-c", "config.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    for name in names:
        assert f": {name}.pipe: cannot be read: is a pipe" in done.stderr
    process = start(*RUN, "--rules", str(rules))
    address(process)
    process.line("no --external-url")
    rules.unlink()
    os.mkfifo(rules)
    process.popen.send_signal(signal.SIGHUP)
    process.line("kept the old rules")
    process.popen.send_signal(signal.SIGTERM)
    assert process.end() == 0


def test_standard_input_is_a_source(start, rules, tmp_path) -> None:
    """A file on standard input is read to its end, and the daemon goes on."""
    events = tmp_path / "events"
    events.write_bytes(event("sent", "1", T0) + b"\n")
    process = start(*RUN, "--rules", str(rules), "--source", f"file://{events}", "--source", "stdin:")
    process.line("read to its end")
    process.line("read to its end")
    process.popen.terminate()
    assert process.end() == 0


def test_a_reader_that_goes_away_is_no_error(tmp_path) -> None:
    """`tasktrail replay ... | head` ends without a word."""
    events = tmp_path / "events"
    events.write_bytes(b"\n".join(event("sent", str(number), T0, task=f"t{number}") for number in range(3000)))
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "collector", "replay", str(events), "--json"]
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(command, cwd=ROOT, stdout=closed, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_the_demo_fires_and_resolves() -> None:
    """The demo prints alerts as they fire and resolve, with owner and runbook, on a free port, and exits with 0."""
    done = subprocess.run(
        [sys.executable, "-m", "collector", "demo", "--seconds", "20"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    lowered = done.stdout.lower()
    assert all(word in lowered for word in ("firing", "resolved", "owner", "runbook"))
    assert done.stderr == ""


def test_module_and_command_are_the_same() -> None:
    """`python -m collector` is `tasktrail`."""
    done = subprocess.run(
        [sys.executable, "-m", "collector", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("tasktrail ")
