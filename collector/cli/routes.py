"""`tasktrail routes`: which receivers an alert goes to, and the tree as it stands; as amtool prints them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from collector.cli import options
from collector.config import routefiles
from collector.model.errors import Problem, ProblemsError, TasktrailError
from collector.model.labels import Labels, labels_of
from collector.routing.grouping import group_key
from collector.routing.matchers import parse_matcher, written
from collector.routing.route import BUILT_IN, Route, match
from collector.routing.routefile import Routing
from collector.routing.routefile import load as load_text
from collector.wiring import targets


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `routes`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, help="what to do")
    for name, text in (("test", "the receivers of an alert with these labels"), ("show", "the routing tree")):
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("--routes", metavar="FILE", help="a file in Alertmanager's format; else the built-in route")
        action.add_argument("-c", "--config", metavar="FILE", help="take `routes` from this configuration file")
        action.add_argument("--json", action="store_true", help="one JSON object")
        if name == "test":
            action.add_argument("--verify", metavar="NAMES", help="fail where the receivers are not these, as a,b")
            action.add_argument("labels", nargs="*", metavar="LABEL=VALUE")


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0; 1 where the file has problems or `--verify` does not hold; 2 where the call is wrong."""
    path = arguments.routes
    if path is None and arguments.config:
        path = options.read(arguments.config).routes
    text = None if path is None else routefiles.text_of(path)
    try:
        routing = None if text is None else load_text(path, text)
    except ProblemsError as error:
        print(error, file=sys.stderr)
        return 1
    for note in undone(routing):
        print(note, file=sys.stderr)
    route = BUILT_IN if routing is None else routing.route
    if arguments.action == "show":
        _show(route, is_json=arguments.json)
        return 0
    return _test(route, labels(arguments.labels), arguments)


def undone(routing: Routing | None) -> list[Problem]:
    """What a file asks for and does not get."""
    return [] if routing is None else sorted({*routing.undone, *targets.undone(routing)})


def labels(texts: Sequence[str]) -> Labels:
    """The label set of arguments. Raises TasktrailError for what is none."""
    pairs: dict[str, str] = {}
    for text in texts:
        try:
            one = parse_matcher(text)
        except ValueError as error:
            raise TasktrailError(f"{error}") from error
        if one.op != "=":
            raise TasktrailError(f"`{text}` is no label: write NAME=VALUE")
        pairs[one.name] = one.value
    return labels_of(pairs)


def _test(route: Route, alert: Labels, arguments: argparse.Namespace) -> int:
    found = match(route, alert)
    names = ",".join(one.receiver for one in found)
    if arguments.json:
        routes = [{**_node(one), "group_key": group_key(one, one.group_labels(alert))} for one in found]
        _print_json({"labels": dict(alert), "receivers": [one.receiver for one in found], "routes": routes})
    else:
        print(names)
    if arguments.verify is not None and arguments.verify != names:
        print(f"expected the receivers {arguments.verify}, got {names}", file=sys.stderr)
        return 1
    return 0


def _show(route: Route, *, is_json: bool) -> None:
    if is_json:
        _print_json(_tree(route))
    else:
        print("Routing tree:", ".", *_branches([route], ""), "", sep="\n")


def _branches(routes: Sequence[Route], indent: str) -> Iterator[str]:
    for number, route in enumerate(routes, 1):
        is_last = number == len(routes)
        matchers = written(route.matchers) if route.matchers else "default-route"
        go_on = "  continue: true" if route.continues else ""
        yield f"{indent}{'└' if is_last else '├'}── {matchers}{go_on}  receiver: {route.receiver}"
        yield from _branches(route.routes, indent + ("    " if is_last else "│   "))


def _tree(route: Route) -> dict[str, Any]:
    return {**_node(route), "routes": [_tree(child) for child in route.routes]}


def _node(route: Route) -> dict[str, Any]:
    """One route as plain data; times in seconds."""
    return {
        "receiver": route.receiver,
        "matchers": [written((one,))[1:-1] for one in route.matchers],
        "continue": route.continues,
        "group_by": ["..."] if route.group_by is None else list(route.group_by),
        "group_wait": route.group_wait,
        "group_interval": route.group_interval,
        "repeat_interval": route.repeat_interval,
        "mute_time_intervals": list(route.mute_intervals),
        "active_time_intervals": list(route.active_intervals),
        "escalate": [{"after": step.after, "receiver": step.receiver} for step in route.escalate],
        "place": str(route.place) if route.place else None,
    }


def _print_json(value: dict[str, Any]) -> None:
    print(msgspec.json.encode(value).decode())
