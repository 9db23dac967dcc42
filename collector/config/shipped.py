"""The files that travel with the package: rules, and their runbook pages."""

from __future__ import annotations

from pathlib import Path

import collector


def shipped() -> Path:
    """The folder of the shipped rules: inside an installed package, or `rules/` of a checkout."""
    package = Path(collector.__file__).parent
    inside = package / "shipped"
    return inside if inside.is_dir() else package.parent / "rules"


def runbooks() -> dict[str, str]:
    """The shipped runbook pages: name → Markdown."""
    return {page.stem: page.read_text(encoding="utf-8") for page in sorted((shipped() / "runbooks").glob("*.md"))}
