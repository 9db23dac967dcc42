"""Alerts handed over to a real Alertmanager."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.request

import msgspec
import pytest

from collector.channels import alertmanager
from collector.model.alert import Alert, Notification
from collector.model.labels import fingerprint, labels_of
from tests import alertmanager as real
from tests.brokers.process import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def address(tmp_path):
    """Of a running Alertmanager that tells nobody."""
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n", encoding="utf-8")
    port = free_port()
    process = subprocess.Popen(
        [
            real.program("alertmanager"),
            f"--config.file={tmp_path / 'am.yml'}",
            f"--storage.path={tmp_path}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1).status == 200)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def wait_for(holds):
    """Wait for what comes within seconds."""
    for _ in range(300):
        try:
            if holds():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("it never came")


def alerts(address):
    """What the Alertmanager holds as active, by name."""
    with urllib.request.urlopen(f"{address}/api/v2/alerts", timeout=5) as answer:
        return {alert["labels"]["alertname"]: alert for alert in json.load(answer)}


async def test_handed_over(address):
    """An alert is there while it fires, with its start and text, and is gone when it has ended."""
    now = time.time()
    labels = labels_of({"alertname": "DeadLetter", "task": "pay.settle", "severity": "page", "empty": ""})
    alert = Alert(
        labels=labels,
        annotations=labels_of({"summary": "a dead letter"}),
        fingerprint=fingerprint(labels),
        state="firing",
        value=1.0,
        active_at=now - 30,
        fired_at=now - 30,
    )
    told = Notification(
        key="k",
        at=now,
        receiver="am",
        status="firing",
        group_labels=(),
        common_labels=labels,
        common_annotations=(),
        alerts=(alert,),
        title="t",
        text="t",
        external_url="http://mon.example:9810",
    )
    channel = alertmanager.at_address(address).open()
    await channel.send(told)
    await asyncio.to_thread(wait_for, lambda: "DeadLetter" in alerts(address))
    held = alerts(address)["DeadLetter"]
    assert held["annotations"] == {"summary": "a dead letter"}
    assert held["generatorURL"] == "http://mon.example:9810"
    over = msgspec.structs.replace(alert, state="resolved", resolved_at=time.time() - 1)
    await channel.send(msgspec.structs.replace(told, status="resolved", alerts=(over,)))
    await asyncio.to_thread(wait_for, lambda: not alerts(address))
    await channel.close()
