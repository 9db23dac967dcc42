"""What is said, in which order: a real Alertmanager with a webhook beside our grouping under a stepped clock.

Both get the same configuration and the same alerts at the same times. Alertmanager has to be watched in real time, so
its times are short and alerts come between its flushes; all stories run beside one another in one Alertmanager.
Compared is, for each group, the sequence of notifications: receiver, status, who fires, who has ended. Where we differ
on purpose the story says so, with both sequences. One difference cannot be shown: where repeat_interval is a multiple
of group_interval, as it is by default, it is chance whether Alertmanager repeats in time or one group_interval later,
since it compares two readings of its clock; ours repeats in time.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.channels import webhook
from collector.config.routefiles import load
from collector.model.alert import Alert, Notification
from collector.model.labels import fingerprint, labels_of
from collector.routing.group import Target
from collector.routing.grouping import Grouping
from tests import alertmanager
from tests.brokers.process import free_port

pytestmark = pytest.mark.slow

LONG = 9.0
"""Seconds that the stories take."""
STEP = 0.05
BODIES: list[dict[str, Any]] = []
"""All that the real Alertmanager has posted."""
Said = tuple[str, str, str, str]
"""Receiver, status, names of those that fire, names of those that have ended."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """`alerts`: at which second the alert of a name and further labels fires (True) or ends (False)."""

    route: dict[str, Any]
    alerts: Sequence[tuple[float, str, bool, dict[str, str]]]
    why: str = ""
    """Where we differ on purpose: why."""
    theirs: Sequence[Said] = ()
    ours: Sequence[Said] = ()


def fires(at: float, name: str, **labels: str) -> tuple[float, str, bool, dict[str, str]]:
    """An alert begins."""
    return at, name, True, labels


def ends(at: float, name: str, **labels: str) -> tuple[float, str, bool, dict[str, str]]:
    """An alert ends."""
    return at, name, False, labels


# Flushes are at 1, 3, 5, 7 and 9 s where the first alert comes at 0.
STEADY = {"group_wait": "1s", "group_interval": "2s", "repeat_interval": "1h"}
STORIES = {
    "together": Story(route=STEADY, alerts=[fires(0, "a"), fires(0.5, "b")]),
    "later": Story(route=STEADY, alerts=[fires(0, "a"), fires(2, "b"), fires(4, "c")]),
    "ends": Story(route=STEADY, alerts=[fires(0, "a"), fires(0, "b"), ends(2, "a"), ends(4, "b")]),
    "short": Story(route=STEADY, alerts=[fires(0, "a"), ends(0.5, "a")]),
    "short beside another": Story(route=STEADY, alerts=[fires(0, "a"), fires(0, "b"), ends(0.5, "b"), fires(2, "c")]),
    "blinks": Story(route=STEADY, alerts=[fires(0, "a"), ends(1.6, "a"), fires(2.4, "a"), ends(4, "a")]),
    "again": Story(route=STEADY, alerts=[fires(0, "a"), fires(0, "b"), ends(2, "a"), fires(4, "a"), ends(6, "a")]),
    "no ends": Story(
        route={**STEADY, "receiver": "no-ends"},
        alerts=[fires(0, "a"), fires(0, "b"), ends(2, "a"), ends(4, "b")],
    ),
    "repeats": Story(
        route={"group_wait": "500ms", "group_interval": "1s", "repeat_interval": "2500ms"}, alerts=[fires(0, "a")]
    ),
    "repeats after news": Story(
        route={"group_wait": "500ms", "group_interval": "1s", "repeat_interval": "3500ms"},
        alerts=[fires(0, "a"), fires(2, "b")],
    ),
    "two groups": Story(
        route={**STEADY, "group_by": ["task"]},
        alerts=[fires(0, "a", task="x"), fires(0.2, "b", task="y"), ends(2, "a", task="x"), fires(2, "c", task="y")],
    ),
    "each alone": Story(route={**STEADY, "group_by": ["..."]}, alerts=[fires(0, "a"), fires(0, "b"), ends(2, "b")]),
    "children": Story(
        route={
            **STEADY,
            "routes": [
                {"matchers": ["task=x"], "receiver": "other", "continue": True},
                {"matchers": ["task=~'x|y'".replace("'", '"')], "group_wait": "2s", "receiver": "third"},
            ],
        },
        alerts=[fires(0, "a", task="x"), fires(0, "b", task="y"), fires(0, "c", task="z"), ends(4, "a", task="x")],
    ),
    "inhibited": Story(
        route=STEADY,
        alerts=[
            fires(0, "source", side="source", task="x"),
            fires(0, "a", side="target", task="x"),
            fires(0, "b", side="target", task="y"),
            ends(4, "source", side="source", task="x"),
        ],
    ),
    "inhibited without a label": Story(
        route=STEADY,
        alerts=[
            fires(0, "source", side="source"),
            fires(0, "a", side="target"),
            fires(0, "b", side="target", task="y"),
        ],
    ),
    "both sides": Story(
        route=STEADY,
        alerts=[fires(0, "a", side="both", task="x"), fires(0, "b", side="both", task="x")],
    ),
    "inhibited later": Story(
        route={**STEADY, "group_by": ["side"]},
        alerts=[
            fires(0, "a", side="target", task="x"),
            fires(2, "source", side="source", task="x"),
            ends(6, "source", side="source", task="x"),
        ],
    ),
    "muted": Story(route={**STEADY, "mute_time_intervals": ["always"]}, alerts=[fires(0, "a"), ends(4, "a")]),
    "not muted": Story(route={**STEADY, "mute_time_intervals": ["never"]}, alerts=[fires(0, "a"), ends(4, "a")]),
    "active": Story(route={**STEADY, "active_time_intervals": ["never", "always"]}, alerts=[fires(0, "a")]),
    "not active": Story(route={**STEADY, "active_time_intervals": ["never"]}, alerts=[fires(0, "a")]),
    "ends while inhibited": Story(
        route={**STEADY, "group_by": ["side"]},
        alerts=[
            fires(0, "a", side="target", task="x"),
            fires(2, "source", side="source", task="x"),
            ends(4, "a", side="target", task="x"),
            ends(6, "source", side="source", task="x"),
        ],
        why="the end of an alert that was told is owed, also where it was muted when it ended",
        theirs=[("hook", "firing", "a", ""), ("hook", "firing", "source", ""), ("hook", "resolved", "", "source")],
        ours=[
            ("hook", "firing", "a", ""),
            ("hook", "firing", "source", ""),
            ("hook", "resolved", "", "a"),
            ("hook", "resolved", "", "source"),
        ],
    ),
    "more urgent": Story(
        route=STEADY,
        alerts=[fires(0, "a", severity="info"), fires(1.5, "b", severity="page"), fires(2.5, "c", severity="info")],
        why="an alert more urgent than all that its group has told does not wait for group_interval",
        theirs=[("hook", "firing", "a", ""), ("hook", "firing", "a b c", "")],
        ours=[("hook", "firing", "a", ""), ("hook", "firing", "a b", ""), ("hook", "firing", "a b c", "")],
    ),
}  # fmt: skip


def configuration(url: str) -> str:
    """The file that both read: JSON, which is YAML."""
    routes = [{"receiver": "hook", "matchers": [f'story="{name}"'], **story.route} for name, story in STORIES.items()]
    receivers = [
        {"name": name, "webhook_configs": [{"url": f"{url}/{name}", "send_resolved": name != "no-ends"}]}
        for name in ("hook", "no-ends", "other", "third")
    ]
    rules = [{"source_matchers": ['side=~"source|both"'], "target_matchers": ['side=~"target|both"'],
              "equal": ["story", "task"]}]  # fmt: skip
    intervals = [
        {"name": "always", "time_intervals": [{"years": ["2000:2999"]}]},
        {"name": "never", "time_intervals": [{"years": ["1999"]}]},
    ]
    route = {"receiver": "hook", "routes": routes}
    whole = {"route": route, "receivers": receivers, "inhibit_rules": rules, "time_intervals": intervals}
    return json.dumps(whole)


def timeline() -> list[tuple[float, str, bool, dict[str, str]]]:
    """All that happens, in order: second, name, whether it fires, labels."""
    found = [
        (at, name, firing, {"story": story, "n": name, **labels})
        for story, one in STORIES.items()
        for at, name, firing, labels in one.alerts
    ]
    return sorted(found, key=lambda one: one[0])


def said(groups: dict[tuple[str, str], list[Said]], receiver: str, story: str, group: str, alerts: Any) -> None:
    """Write down one notification; `group` is its groupKey, `alerts` are pairs of name and whether it fires."""
    firing = sorted(name for name, fires in alerts if fires)
    ended = sorted(name for name, fires in alerts if not fires)
    status = "firing" if firing else "resolved"
    groups[story, f"{receiver} {group}"].append((receiver, status, " ".join(firing), " ".join(ended)))


class _Hook(BaseHTTPRequestHandler):
    groups: dict[tuple[str, str], list[Said]]
    bodies: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        alerts = [(one["labels"]["n"], one["status"] == "firing") for one in body["alerts"]]
        said(self.groups, body["receiver"], body["alerts"][0]["labels"]["story"], body["groupKey"], alerts)
        self.bodies.append(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def hook() -> Iterator[tuple[str, dict[tuple[str, str], list[Said]]]]:
    """A webhook target: its address, and what it was told."""
    groups: dict[tuple[str, str], list[Said]] = defaultdict(list)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Hook", (_Hook,), {"groups": groups, "bodies": BODIES}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", groups
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def theirs(hook: Any) -> dict[tuple[str, str], list[Said]]:
    """What the webhook of the real Alertmanager was told, by story and group."""
    url, groups = hook
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "alertmanager.yml").write_text(configuration(url), encoding="utf-8")
        with Path(folder, "log").open("wb") as log:
            running = subprocess.Popen(
                [alertmanager.program("alertmanager"), f"--config.file={folder}/alertmanager.yml",
                 f"--storage.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
                 "--cluster.listen-address="],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        try:
            wait_ready(base, Path(folder, "log"))
            began = time.monotonic()
            for at, _, firing, labels in timeline():
                time.sleep(max(0.0, began + at - time.monotonic()))
                post(base, labels, is_firing=firing)
            time.sleep(max(0.0, began + LONG - time.monotonic()))
        finally:
            running.terminate()
            running.wait(20)
    return groups


def wait_ready(base: str, log: Path) -> None:
    """Until it answers."""
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{base}/-/ready", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"Alertmanager did not start: {log.read_text(errors='replace')[-2000:]}")


def post(base: str, labels: dict[str, str], *, is_firing: bool) -> None:
    """Hand an alert to Alertmanager."""
    now = time.time()
    alert = {"labels": labels, "startsAt": moment(now - (0 if is_firing else 60))}
    alert["endsAt"] = moment(now + 3600 if is_firing else now)
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/api/v2/alerts", json.dumps([alert]).encode(), headers)
    with urllib.request.urlopen(request, timeout=10):
        pass


def moment(at: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(at, UTC).isoformat()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Said]]:
    """What our grouping says over the same file and the same alerts, step by step."""
    path = tmp_path_factory.mktemp("routes") / "alertmanager.yml"
    path.write_text(configuration("http://127.0.0.1:1"), encoding="utf-8")
    routing = load(str(path))
    grouping = Grouping(
        routing.route,
        {name: [Target("one", one.targets[0].send_resolved)] for name, one in routing.receivers.items()},
        inhibit_rules=routing.inhibit_rules,
        intervals=routing.intervals,
    )
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    groups: dict[tuple[str, str], list[Said]] = defaultdict(list)
    waiting = timeline()
    began: dict[str, float] = {}
    for step in range(int(LONG / STEP)):
        now = start + step * STEP
        while waiting and waiting[0][0] <= step * STEP:
            _, _, firing, labels = waiting.pop(0)
            grouping.insert([changed(labels, now, began, is_firing=firing)], now)
        for one in grouping.due(now):
            grouping.confirm(one, now)
            alerts = [(dict(alert.labels)["n"], alert.state == "firing") for alert in one.alerts]
            story = dict(one.alerts[0].labels)["story"]
            said(groups, one.receiver, story, one.group_key, alerts)
    return groups


def changed(labels: dict[str, str], now: float, began: dict[str, float], *, is_firing: bool) -> Alert:
    """An alert that began or ended now."""
    pairs = labels_of(labels)
    key = fingerprint(pairs)
    if is_firing:
        began[key] = now
    return Alert(
        labels=pairs,
        annotations=(),
        fingerprint=key,
        state="firing" if is_firing else "resolved",
        value=1.0,
        active_at=began[key],
        fired_at=began[key],
        resolved_at=None if is_firing else now,
    )


@pytest.mark.parametrize("name", STORIES)
def test_the_same_is_said(theirs: Any, ours: Any, name: str) -> None:
    """Every group of a story says the same in the same order as Alertmanager's, or differs as the story says."""
    story = STORIES[name]
    sides = [{key: told for (one, key), told in side.items() if one == name} for side in (theirs, ours)]
    if not story.why:
        assert sides[1] == sides[0]
        return
    flat = [sorted((one for told in side.values() for one in told), key=str) for side in sides]
    assert flat == [sorted(story.theirs, key=str), sorted(story.ours, key=str)]


def test_something_was_said(theirs: Any) -> None:
    """The stories are heard: all but those that are to be silent have notifications of the real Alertmanager."""
    silent = {"short", "muted", "not active"}
    assert {name for name in STORIES if any(story == name for story, _ in theirs)} == set(STORIES) - silent


def test_the_same_fields_are_posted(theirs: Any) -> None:
    """Our webhook's JSON has the fields of Alertmanager's with values of the same kinds, and one more in each alert."""
    assert theirs
    body = next(body for body in BODIES if body["status"] == "resolved")
    alert = changed({"n": "a"}, 1_790_000_000.0, {}, is_firing=True)
    notification = Notification(
        key="k", at=1.0, receiver="hook", status="firing", group_labels=(), common_labels=(), common_annotations=(),
        alerts=(alert,), title="", text="", group_key="{}:{}", external_url="http://h",
    )  # fmt: skip
    ours = json.loads(webhook.body(notification))
    assert {key: type(value) for key, value in ours.items()} == {key: type(value) for key, value in body.items()}
    (said_alert,) = ours["alerts"]
    assert set(said_alert) - set(body["alerts"][0]) == {"evidence"}
    assert set(body["alerts"][0]) <= set(said_alert)
    assert (ours["version"], ours["truncatedAlerts"]) == (body["version"], body["truncatedAlerts"]) == ("4", 0)
