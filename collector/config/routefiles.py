"""Route files on disk: a path to a routing, or every problem in the file; and how replays and tests go by them."""

from __future__ import annotations

from pathlib import Path

from collector.alerting.ruletest import NotificationCase, TestFile
from collector.documents.reader import unknown
from collector.model.errors import ProblemsError
from collector.model.files import read_text, unread
from collector.routing.group import Target
from collector.routing.routefile import Routing
from collector.routing.routefile import load as load_text


def text_of(path: str) -> str:
    """The file's text. Raises ProblemsError where it cannot be read."""
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemsError([unread(path, error)]) from error


def load(path: str) -> Routing:
    """The routing of a file. Raises ProblemsError."""
    return load_text(path, text_of(path))


def of_tests(file: TestFile) -> Routing | None:
    """What the notifications of a test file go by. Raises ProblemsError, also for receivers that it does not have."""
    if file.route_file is None:
        return None
    name, place = file.route_file
    path = Path(file.path).parent / name
    if not path.is_file():
        raise ProblemsError([place.problem(f"there is no file `{name}` beside this one: check the path")])
    routing = load(str(path))
    problems = [
        case.place.at("receiver").problem(unknown("receiver", case.receiver, routing.receivers))
        for test in file.tests
        for case in test.cases
        if isinstance(case, NotificationCase) and case.receiver not in routing.receivers
    ]
    if problems:
        raise ProblemsError(problems)
    return routing


def receivers(routing: Routing | None) -> dict[str, list[Target]]:
    """Each receiver as one target without a name: it hears of ends where any of its targets would."""
    if routing is None:
        return {}
    return {
        name: [Target("", not receiver.targets or any(target.send_resolved for target in receiver.targets))]
        for name, receiver in routing.receivers.items()
    }
