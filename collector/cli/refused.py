"""What `run` would refuse of a configuration besides its own faults: what it names, and what is not done yet."""

from __future__ import annotations

from functools import partial

from collector import app
from collector.config import contractfile, rulefiles
from collector.config.settings import Overrides, Settings, override_parts
from collector.documents import Place
from collector.documents.nodes import parse
from collector.model.errors import Problem, ProblemsError
from collector.wiring import doors


def refused(path: str, text: str, settings: Settings, known: list[Problem]) -> list[Problem]:
    """Every further problem that a start with this file alone ends with. Those of files that it names stand in those.

    `known`: what is wrong in the file itself, so that it is not in `settings`, and not held against them.
    """
    top = parse(path, text)
    place = Place(path, 1, 1) if top is None else Place.of(path, top, text)
    found = unusable(settings) + ([] if known else override_parts(settings, Overrides())[1])
    if any(map(place.at("notify").holds, known)):  # which of the targets that are left is which cannot be told
        found = [problem for problem in found if problem.file != "notify"]
    return [_placed(problem, place, settings) for problem in found]


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
