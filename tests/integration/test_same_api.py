"""Our API v2 beside a real Alertmanager's: the same questions in the same order, and the same answers but for times."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests import alertmanager
from tests.brokers.process import Broker, free_port, spawn, tried
from tests.integration.live import Daemon

pytestmark = pytest.mark.slow

ROUTES = """global: {resolve_timeout: 5m}
route:
  receiver: default
  group_by: [alertname]
  group_wait: 1s
  routes:
  - {matchers: ['severity="page"'], receiver: pager, continue: true}
  - {matchers: ['team=~"a.*"'], receiver: a-team, group_by: [team]}
receivers: [{name: default}, {name: pager}, {name: a-team}]
inhibit_rules:
- {source_matchers: [alertname=Big], target_matchers: [alertname=Small], equal: [team]}
"""
OURS = frozenset(("mutedBy", "untold"))
"""Fields of newer versions than some distribution's, and one of our own: its receivers have no targets here."""
TIMES = frozenset(("endsAt", "startsAt", "updatedAt"))


def at(seconds: float) -> str:
    """A time from now, as clients write it."""
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def alerts() -> list[dict[str, Any]]:
    """What is posted."""
    sets = (
        {"alertname": "Big", "team": "alpha", "severity": "page"},
        {"alertname": "Small", "team": "alpha", "severity": "info"},
        {"alertname": "Small", "team": "beta", "severity": "page"},
        {"alertname": "Odd", "empty": ""},
        {"alertname": 'Qu"ote', "path": "a\\b"},
    )
    return [{"labels": one, "annotations": {"summary": one["alertname"]}, "generatorURL": "http://x/g"} for one in sets]


def silence(*matchers: tuple[str, str, bool, bool], **more: Any) -> dict[str, Any]:
    """One for an hour: name, value, whether it is a regular expression, whether it is equal."""
    listed = [{"name": n, "value": v, "isRegex": r, "isEqual": e} for n, v, r, e in matchers]
    given = {"matchers": listed, "startsAt": at(-1), "endsAt": at(3600), "createdBy": "me", "comment": "known"}
    return {name: value for name, value in {**given, **more}.items() if value is not None}


QUERIES = [
    f"/api/v2/{kind}{query}"
    for kind in ("alerts", "alerts/groups")
    for query in (
        "", "?active=false", "?silenced=false", "?inhibited=false", "?silenced=false&inhibited=false",
        "?filter=team=alpha", "?filter=team!=alpha", "?filter=team=", "?filter=team!=", "?filter=alertname=~S.*",
        "?filter=alertname!~S.*", "?filter=%7Bteam=%22alpha%22,severity=%22page%22%7D", "?filter=empty=",
        "?receiver=pager", "?receiver=pag", "?receiver=.*r", "?filter=nobody", "?receiver=(", "?active=perhaps",
    )
]  # fmt: skip
QUERIES += [f"/api/v2/{path}" for path in ("receivers", "silences", "silences?filter=team=alpha", "silences?filter=a")]

WRITES: tuple[tuple[str, Callable[[], Any]], ...] = (
    ("silences", lambda: silence(("team", "alpha", False, True))),
    ("silences", lambda: silence(("team", "b.*", True, True), ("severity", "info", False, False))),
    ("silences", lambda: silence(("alertname", "Odd", False, True), startsAt=at(600))),
    ("silences", silence),
    ("silences", lambda: silence(("team", "", False, True))),
    ("silences", lambda: silence(("team", ".*", True, True))),
    ("silences", lambda: silence(("team", "(", True, True))),
    ("silences", lambda: silence(("", "x", False, True))),
    ("silences", lambda: silence(("a", "b", False, True), endsAt=at(-2))),
    ("silences", lambda: silence(("a", "b", False, True), startsAt=at(-100), endsAt=at(-50))),
    ("silences", lambda: silence(("a", "b", False, True), comment=None)),
    ("silences", lambda: silence(("a", "b", False, True), createdBy=None)),
    ("silences", lambda: silence(("a", "b", False, True), endsAt=None)),
    ("silences", lambda: silence(("a", "b", False, True), id="7d1d7e2d-0000-4000-8000-000000000000")),
    ("silences", dict),
    ("silences", lambda: "text"),
    ("alerts", lambda: [{"labels": {}}]),
    ("alerts", lambda: [{"annotations": {"a": "b"}}]),
    ("alerts", lambda: {"labels": {"a": "b"}}),
    ("alerts", lambda: [{"labels": {"alertname": "Back"}, "startsAt": at(100), "endsAt": at(50)}]),
    ("alerts", lambda: [{"labels": {"alertname": "Over"}, "startsAt": at(-100), "endsAt": at(-50)}]),
    ("alerts", list),
)


class Api:
    """One of the two."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            try:
                return answer.status, json.loads(text)
            except ValueError:
                return answer.status, None
        finally:
            connection.close()


@pytest.fixture
def both(run: Callable[..., Daemon], tmp_path: Path) -> Iterator[tuple[Api, Api]]:
    """A real Alertmanager and ours, on the same file, with the same alerts."""
    path = tmp_path / "routes.yml"
    path.write_text(ROUTES)
    program = alertmanager.program("alertmanager")
    port = free_port()

    def start(folder: str) -> tuple[Broker, Callable[[], bool]]:
        call = [program, f"--config.file={path}", f"--storage.path={folder}/data", "--cluster.listen-address="]
        pid = spawn([*call, f"--web.listen-address=127.0.0.1:{port}"], folder, detached=False)
        return Broker("alertmanager", f"127.0.0.1:{port}", [pid]), lambda: is_ready(port)

    theirs = tried("alertmanager", start)
    try:
        rules = tmp_path / "none.yml"
        rules.write_text("groups: []\n")
        ours = run("--routes", str(path), "--rules", str(rules))
        apis = Api(port), Api(ours.port)
        for api in apis:
            assert api.ask("POST", "/api/v2/alerts", alerts())[0] == 200
        time.sleep(1.5)  # they group
        yield apis
    finally:
        theirs.stop()


def is_ready(port: int) -> bool:
    """Whether it answers."""
    try:
        return Api(port).ask("GET", "/api/v2/status")[0] == 200
    except OSError:
        return False


def plain(value: Any, ids: dict[str, str]) -> Any:
    """An answer without times, with the ids of silences numbered as they came, and without the words of errors."""
    if isinstance(value, dict):
        if value.keys() == {"code", "message"}:
            return "an error"
        return {name: plain(one, ids) for name, one in value.items() if name not in TIMES | OURS}
    if isinstance(value, list):  # in groups alerts come in the order of a map
        listed = [plain(one, ids) for one in value]
        is_unordered = bool(listed) and isinstance(listed[0], dict) and "fingerprint" in listed[0]
        return sorted(listed, key=lambda one: str(one["fingerprint"])) if is_unordered else listed
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{8}-[0-9a-f-]{27}", value):
        return ids.setdefault(value, f"silence {len(ids)}")
    return value


def answered(answer: tuple[int, Any], ids: dict[str, str]) -> tuple[int, Any]:
    """What is compared: of a refusal only that it is one, as the words are each one's own."""
    status, body = answer
    return status, plain(body, ids) if status < 400 else None


def test_the_same_answers(both: tuple[Api, Api]) -> None:
    """Alerts, groups, receivers and silences are listed alike, written alike, and refused with the same status."""
    names: tuple[dict[str, str], dict[str, str]] = ({}, {})
    wrong: list[Any] = []

    def same(method: str, path: str, body: Any = None) -> None:
        paths = [path] if "{" not in path else [path.format(*ids) for ids in names]
        theirs, ours = (
            answered(api.ask(method, paths[number % len(paths)], body), names[number])
            for number, api in enumerate(both)
        )
        if theirs != ours:
            wrong.append((method, path, body, theirs, ours))

    for path in QUERIES:
        same("GET", path)
    for kind, make in WRITES:
        same("POST", f"/api/v2/{kind}", make())
    for path in QUERIES:
        same("GET", path)
    for method in ("GET", "DELETE", "DELETE", "GET"):
        same(method, "/api/v2/silence/{0}")
    for path in QUERIES:
        same("GET", path)
    assert not wrong, "\n".join(map(str, (f"{len(wrong)} differ, the first:", *wrong[:4])))
