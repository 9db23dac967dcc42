"""A link to one of our own runbook pages that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from collector.alerting.checks.ground import Subject
from collector.model.errors import Problem

_LOCAL = re.compile(
    r"\s*(?:\{\{-?\s*(?:\$externalURL|\$?\.ExternalURL|externalURL)\s*-?\}\}|https?://(?:localhost|127\.0\.0\.1)(?::\d+)?)?"
    r"/runbooks/(?P<name>[^{}/?#\s]+)\s*"
)


def dead_runbook(subject: Subject) -> Iterator[Problem]:
    """A `runbook_url` on this daemon whose page is neither shipped nor in `runbooks` beside the rule file."""
    pages = subject.ground.pages.get(subject.rule.place.file, frozenset())
    for name, template in subject.rule.annotations:
        link = _LOCAL.fullmatch(template.text) if name == "runbook_url" else None
        if link and link["name"] not in pages:
            close = get_close_matches(link["name"], pages, n=1)
            advice = f"did you mean `{close[0]}`?" if close else f"write `runbooks/{link['name']}.md` beside the file"
            yield subject.wrong_at("annotations", name, f"there is no runbook page `{link['name']}`: {advice}")
