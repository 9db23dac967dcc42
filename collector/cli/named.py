"""The rule files and contracts that a configuration names, as far as they are right: faults are told elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from collector.alerting.rulefile import RuleFile, load_parts
from collector.config import contractfile, rulefiles
from collector.config.settings import Settings
from collector.model.contract import Contracts
from collector.model.errors import TasktrailError
from collector.model.files import read_text
from collector.promql import compile_expr


def rules(settings: Settings) -> Iterator[RuleFile]:
    """The rule files; none where there are only the shipped ones, which are right."""
    if settings.rules == ("shipped",):
        return
    with suppress(TasktrailError):
        for path in rulefiles.files(settings.rules):
            with suppress(TasktrailError, OSError, UnicodeDecodeError):
                yield load_parts(str(path), read_text(path), compile_expr)[0]


def contracts(settings: Settings) -> Iterator[Contracts]:
    """Its contracts, where it names some."""
    with suppress(TasktrailError):
        found = contractfile.load(settings.tasks)
        if found is not None:
            yield found
