"""Routing files by chance: trees, matchers in every spelling, and label sets that are likely to meet them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

NAMES = ("severity", "owner", "task", "queue", "region", "_x")
VALUES = ("page", "info", "pay", "payments", "mail send", "a.b", 'say "hi"', "back\\slash", "ä", "a,b", "x=y", "")
PATTERNS = (
    "pay.*", "page|info", ".*", ".+", "", "(?i)PAGE", "a.b", "[a-c].*", "mail\\s+send", "\\w+", "^pay$", "pay|",
    "(x)?=y", "ä", "(?:page)", "\\Apage\\z", "[^a]*",
)  # fmt: skip
RECEIVERS = ("default", "pager", "payments", "team a", "null", "mail")
STRANGE = ("team name", "ünit", "a.b", "1st")
"""Label names that only the newer grammar takes."""


class Files:
    """One source of chance; `newer`: also what Alertmanager takes from 0.27 on."""

    def __init__(self, seed: int, *, newer: bool) -> None:
        self.random = Random(seed)
        self.newer = newer

    def text(self) -> str:
        """A whole file: JSON, which is YAML."""
        route = {"receiver": "default", "routes": self.routes(3)}
        receivers = [{"name": name} for name in RECEIVERS]
        return json.dumps({"route": route, "receivers": receivers}, ensure_ascii=False)

    def routes(self, depth: int) -> list[dict[str, Any]]:
        """The children of a node, so many levels deep."""
        count = self.random.choice((0, 1, 2, 3, 4)) if depth < 3 else self.random.randint(1, 5)
        return [self.route(depth - 1) for _ in range(count if depth else 0)]

    def route(self, depth: int) -> dict[str, Any]:
        """One node, and what is below it."""
        chance = self.random.random
        found: dict[str, Any] = {}
        if chance() < 0.8:
            found["receiver"] = self.random.choice(RECEIVERS)
        if chance() < 0.8:
            found["matchers"] = [self.matchers() for _ in range(self.random.choice((0, 1, 1, 1, 2)))]
        if chance() < 0.2:
            found["match"] = {self.random.choice(NAMES): self.random.choice(VALUES)}
        if chance() < 0.2:
            found["match_re"] = {self.random.choice(NAMES): self.random.choice(PATTERNS)}
        if chance() < 0.4:
            found["continue"] = chance() < 0.8
        if chance() < 0.2:
            found["group_by"] = self.random.choice((["..."], [], ["severity", "task"]))
        if routes := self.routes(depth):
            found["routes"] = routes
        return found

    def matchers(self) -> str:
        """One text of `matchers`: mostly one condition, sometimes more, with braces or without."""
        is_strange = self.newer and self.random.random() < 0.3
        count = self.random.choice((1, 1, 1, 2, 3))
        text = ",".join(self.matcher(is_strange=is_strange) for _ in range(count))
        form = self.random.random()
        if form < 0.1:
            return "{" + text + "}"
        return f"{{ {text} , }}" if form < 0.15 else text

    def matcher(self, *, is_strange: bool) -> str:
        """One condition; a strange name makes both grammars necessary, so that its text has to be right for one."""
        name = self.random.choice((*NAMES, *STRANGE) if is_strange else NAMES)
        op = self.random.choice(("=", "=", "!=", "=~", "=~", "!~"))
        value = self.random.choice(PATTERNS if "~" in op else VALUES)
        gap = self.random.choice(("", "", " "))
        if name in STRANGE:
            name = f'"{name}"'
        return f"{gap}{name}{gap}{op}{gap}{self.written(value, is_strange=is_strange)}"

    def written(self, value: str, *, is_strange: bool) -> str:
        """A value bare, where it can be, or in quotes with its escapes, or with a backslash that stands alone."""
        form = self.random.random() if not is_strange or self.random.random() < 0.02 else 1.0
        if form < 0.35 and '"' not in value and "," not in value and value:
            return value
        quoted = value.replace('"', '\\"')
        return f'"{quoted}"' if form < 0.5 else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def labels(self) -> list[str]:
        """Arguments of a command line."""
        names = (*NAMES, *STRANGE) if self.newer else NAMES
        found = []
        for name in self.random.sample(names, self.random.randint(0, 4)):
            value = self.random.choice((*VALUES, "PAGE", "x", "pay|"))
            shown = f'"{name}"' if name in STRANGE else name
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            found.append(f'{shown}="{escaped}"')
        return found
