"""How urgent a `severity` label is."""

from __future__ import annotations

from collections.abc import Mapping

from collector.model.labels import Labels

SEVERITIES: Mapping[str, int] = {
    **dict.fromkeys(("page", "critical", "emergency", "fatal"), 0),
    **dict.fromkeys(("error", "high", "major"), 1),
    **dict.fromkeys(("warn", "warning", "ticket", "medium", "minor"), 2),
    **dict.fromkeys(("info", "low", "none"), 3),
}
"""The rank of each word, 0 being the most urgent. A word that is not here ranks as a warning."""


def urgency(labels: Labels) -> int:
    """The rank of an alert with these labels; lower is more urgent."""
    word = next((value for name, value in labels if name == "severity"), "")
    return SEVERITIES.get(word.lower(), 2)
