"""`tasktrail notify test`: sends a sample of each kind of message, and says what became of it."""

from __future__ import annotations

import argparse
import asyncio
import sys

from collector import channels
from collector.cli import options, samples
from collector.model.errors import ChannelError

TRY_SECONDS = 20.0


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `notify`."""
    parser.add_argument("action", choices=["test"], help="send one sample of each kind of message")
    parser.add_argument("--notify", action="append", required=True, metavar="URL", help="the target; may be repeated")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where every target took every sample, 1 where one did not, 2 where a URL is not understood."""
    try:
        configs = [channels.from_url(options.secret(url).reveal()) for url in arguments.notify]
    except (ChannelError, ValueError) as error:
        print(f"--notify: {error}", file=sys.stderr)
        return 2
    return 1 if asyncio.run(_send(configs)) else 0


async def _send(configs: list[channels.ChannelConfig]) -> int:
    """Send all samples to all targets in order; gives how many were not taken."""
    failures = 0
    for config in configs:
        channel = config.open()
        print(f"{config.name}: {config.description}")
        for kind, notification in samples.notifications():
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    await channel.send(notification)
            except (ChannelError, TimeoutError) as error:
                failures += 1
                print(f"  {kind}: not taken, {str(error) or 'no answer'}")
            else:
                print(f"  {kind}: taken")
            await asyncio.sleep(channel.spacing_seconds)
        await channel.close()
    return failures
