"""A regular expression in a template that does not compile: the text is lost when the alert fires."""

from __future__ import annotations

from collections.abc import Iterator

from collector.alerting.checks.ground import Subject
from collector.gotext import Template
from collector.gotext.tree import Call, Command, Constant
from collector.model.errors import Problem
from collector.promql.matchers import regex_fault

_TAKING_REGEX = frozenset(("match", "reReplaceAll"))


def template_regex(subject: Subject) -> Iterator[Problem]:
    """Patterns written out in `match` and `reReplaceAll`; those of expressions are refused at load."""
    for key, texts in (("labels", subject.rule.labels), ("annotations", subject.rule.annotations)):
        for name, template in texts:
            for pattern in _patterns(template):
                fault = regex_fault(pattern)
                if fault:
                    message = f"the template of {key[:-1]} `{name}` cannot be expanded: `{pattern}` {fault}"
                    yield subject.wrong_at(key, name, message)


def _patterns(template: Template) -> Iterator[str]:
    for part in template.parts():
        match part:
            case Command(operands=(Call(name=name), Constant(value=str(pattern)), *_)) if name in _TAKING_REGEX:
                yield pattern
            case _:
                pass
