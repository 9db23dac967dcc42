"""What `run` would refuse of a configuration file that is right in itself: what it names, and what is not done yet."""

from __future__ import annotations

from functools import partial

from collector import app
from collector.config import contractfile, rulefiles
from collector.config.settings import Overrides, Settings, override
from collector.documents import Place
from collector.documents.nodes import parse
from collector.model.errors import Problem, ProblemsError
from collector.wiring import doors


def refused(path: str, text: str, settings: Settings) -> list[Problem]:
    """Every problem that a start with this file alone ends with. Those of files that it names stand in those."""
    top = parse(path, text)
    place = Place(path, 1, 1) if top is None else Place.of(path, top, text)
    found: list[Problem] = []
    for what in (partial(override, settings, Overrides()), partial(_read, settings)):
        try:
            what()
        except ProblemsError as error:
            found += error.problems
    return [_placed(problem, place, settings) for problem in found]


def _read(settings: Settings) -> None:
    """As `run` reads it. Raises ProblemsError."""
    app.checked(
        partial(rulefiles.load, settings.rules),
        partial(contractfile.load, settings.tasks),
        partial(app.audience_of, settings),
        partial(doors.read, settings),
    )


def _placed(problem: Problem, place: Place, settings: Settings) -> Problem:
    """At its setting, where the problem names one or a path that stands behind one."""
    if problem.file == "notify":
        return place.at("notify", problem.line - 1).problem(problem.message)
    if place.has(problem.file):
        return place.at(problem.file).problem(problem.message)
    if (problem.line, problem.column) != (1, 1):
        return problem
    for name in ("tasks", "routes", "token_file", "tls_cert_file", "tls_key_file"):
        if getattr(settings, name) == problem.file:
            return place.at(name).problem(f"{problem.file}: {problem.message}")
    if problem.file in settings.rules:
        at = place.at("rules", settings.rules.index(problem.file))
        return at.problem(f"{problem.file}: {problem.message}")
    return problem
