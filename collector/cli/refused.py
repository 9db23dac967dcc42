"""What `run` would refuse of a configuration besides its own faults: what it names, and what is not done yet."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from collector import app
from collector.config import contractfile, rulefiles
from collector.config.settings import Overrides, Settings, override_parts
from collector.documents import Place
from collector.documents.nodes import parse
from collector.model.errors import Problem, ProblemsError
from collector.wiring import doors

_FILES = ("tasks", "routes", "token_file", "tls_cert_file", "tls_key_file")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a configuration file the settings stand; without a file they stand nowhere."""

    place: Place | None = None
    settings: Settings = Settings()
    """What of the file is right."""
    known: list[Problem] = []
    """What is wrong in the file itself, so that it is not in `settings`, and not held against them."""

    def placed(self, problems: Iterable[Problem]) -> list[Problem]:
        """The same, each that names a setting of the file, or a path that stands behind one, at its place there."""
        place = self.place
        if place is not None and place.has("notify") and any(map(place.at("notify").holds, self.known)):
            # which of the targets that are left is which cannot be told
            problems = [problem for problem in problems if problem.file != "notify"]
        return [self._placed(problem) for problem in problems]

    def _placed(self, problem: Problem) -> Problem:
        place, further = self.place, problem.line - len(self.settings.notify)
        if problem.file == "notify" and further > 0:  # the file's come first, then those of the command line
            return Problem("--notify", further, 1, problem.message)
        if place is None:
            return problem
        if problem.file == "notify":
            return place.at("notify", problem.line - 1).problem(problem.message)
        if place.has(problem.file):
            return place.at(problem.file).problem(problem.message)
        steps = self._behind().get(problem.file) if (problem.line, problem.column) == (1, 1) else None
        return problem if steps is None else place.at(*steps).problem(f"{problem.file}: {problem.message}")

    def _behind(self) -> dict[str | None, tuple[str | int, ...]]:
        """Path → the setting that names it."""
        rules = {path: ("rules", index) for index, path in enumerate(self.settings.rules)}
        return {**rules, **{getattr(self.settings, name): (name,) for name in _FILES}}


def layout(path: str, text: str, settings: Settings, known: list[Problem]) -> Layout:
    """The layout of a configuration file; `settings` and `known`: what of it is right, and what is not."""
    top = parse(path, text)
    return Layout(place=Place(path, 1, 1) if top is None else Place.of(path, top, text), settings=settings, known=known)


def refused(path: str, text: str, settings: Settings, known: list[Problem]) -> list[Problem]:
    """Every further problem that a start with this file alone ends with. Those of files it names stand in those."""
    found = unusable(settings) + ([] if known else override_parts(settings, Overrides())[1])
    return layout(path, text, settings, known).placed(found)


def unusable(settings: Settings) -> list[Problem]:
    """What `run` would say of the targets and files that settings name."""
    try:
        app.checked(
            partial(rulefiles.load, settings.rules),
            partial(contractfile.load, settings.tasks),
            partial(app.audience_of, settings),
            partial(doors.read, settings),
        )
    except ProblemsError as error:
        return list(error.problems)
    return []
