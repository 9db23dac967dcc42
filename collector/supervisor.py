"""What systemd is told: ready, alive, stopping. Without systemd nothing is said.

The watchdog ping is earned by the loop's own progress, never by a broker's: an outage there must not restart the
monitor.
"""

from __future__ import annotations

import asyncio
import os
import socket

from collector.web.view import View

_PING_SECONDS = 5.0
_READY_SECONDS = 0.1


def notify(message: str) -> None:
    """One message to the service manager (sd_notify(3)); nothing where there is none, or where it does not listen."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(message.encode(), "\0" + address[1:] if address[0] == "@" else address)
        except OSError:
            return  # the manager went away: there is nobody to tell


async def watch(view: View) -> None:
    """READY once every source was tried; WATCHDOG at half the interval that the manager gives, while the loop turns."""
    wait = int(os.environ.get("WATCHDOG_USEC", "0")) / 2e6 or _PING_SECONDS
    is_told = False
    while True:
        if not is_told and view.is_ready:
            notify("READY=1")
            is_told = True
        if not view.trouble:
            notify("WATCHDOG=1")
        await asyncio.sleep(wait if is_told else min(wait, _READY_SECONDS))
