"""`tasktrail notify test`: sends a sample of each kind of message, or shows it, and says what became of it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import msgspec

from collector import channels
from collector.cli import options, samples
from collector.config import routefiles
from collector.model.alert import Notification
from collector.model.errors import ChannelError, ProblemsError
from collector.wiring import targets

TRY_SECONDS = 20.0
_NONE = "no target is named: write --notify URL, or the name of a receiver of --routes FILE"


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `notify`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, help="what to do")
    text = "send one sample of each kind of message"
    test = actions.add_parser("test", help=text, description=text.capitalize() + ".")
    test.add_argument(
        "receivers", nargs="*", metavar="RECEIVER", help="all targets of this receiver of the routes file"
    )
    test.add_argument("--notify", action="append", default=[], metavar="URL", help="a target; may be repeated")
    test.add_argument("--routes", metavar="FILE", help="a file in Alertmanager's format, with its receivers")
    test.add_argument("-c", "--config", metavar="FILE", help="take `routes` from this configuration file")
    test.add_argument("--dry-run", action="store_true", help="send nothing: show what would be sent, secrets as stars")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 where every target took every sample, 1 where one did not, 2 where a target is not understood."""
    try:
        configs = [channels.from_url(options.secret(url).reveal()) for url in arguments.notify]
    except (ChannelError, ValueError) as error:
        print(f"--notify: {error}", file=sys.stderr)
        return 2
    try:
        told = {"": configs, **_of_receivers(arguments)}
    except ProblemsError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyError as error:
        print(f"no receiver has the name {error}", file=sys.stderr)
        return 2
    if not any(told.values()):
        print(_NONE, file=sys.stderr)
        return 2
    if arguments.dry_run:
        _show(told)
        return 0
    return 1 if asyncio.run(_send(told)) else 0


def _of_receivers(arguments: argparse.Namespace) -> dict[str, list[channels.ChannelConfig]]:
    """The targets of the receivers that are named; without names, and without --notify, of all. Raises KeyError."""
    path = arguments.routes
    if path is None and arguments.config:
        path = options.read(arguments.config).routes
    if path is None:
        return {name: [] for name in arguments.receivers}
    configs, told = targets.understood(routefiles.load(path))
    by_name = {config.name: config for config in configs}
    names = arguments.receivers or ([] if arguments.notify else list(told))
    return {name: [by_name[target.name] for target in told[name]] for name in names}


def _samples(receiver: str) -> list[tuple[str, Notification]]:
    found = list(samples.notifications())
    return [(kind, msgspec.structs.replace(one, receiver=receiver)) for kind, one in found] if receiver else found


def _show(told: dict[str, list[channels.ChannelConfig]]) -> None:
    """Print what each target would be sent."""
    for receiver, configs in told.items():
        for config in configs:
            print(f"{_headed(receiver)}{config.name}: {config.description}")
            for kind, notification in _samples(receiver):
                print(f"  {kind}:")
                print("\n".join(f"    {line}".rstrip() for line in config.preview(notification).splitlines()))


def _headed(receiver: str) -> str:
    return f"{receiver}: " if receiver else ""


async def _send(told: dict[str, list[channels.ChannelConfig]]) -> int:
    """Send all samples to all targets in order; gives how many were not taken."""
    failures = 0
    for receiver, configs in told.items():
        for config in configs:
            print(f"{_headed(receiver)}{config.name}: {config.description}")
            failures += await _sent(config, _samples(receiver))
    return failures


async def _sent(config: channels.ChannelConfig, messages: Sequence[tuple[str, Notification]]) -> int:
    failures = 0
    channel = config.open()
    for kind, notification in messages:
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
