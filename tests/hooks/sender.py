"""Copies the sender's lines out of `tasktrail_emit.py` into the other hooks: `python -m tests.hooks.sender`."""

from __future__ import annotations

from pathlib import Path

HOOKS = Path(__file__).resolve().parents[2] / "collector" / "hooks"
FILES = sorted(HOOKS.glob("tasktrail_*.py"))
_FIRST, _LAST = "# --- sender", "atexit.register("


def sender_of(text: str) -> str:
    """The lines that are the same in every hook. ValueError where they are not there."""
    start = text.index(_FIRST)
    return text[start : text.index("\n", text.index(_LAST, start)) + 1]


def main() -> None:
    """Write the sender of `tasktrail_emit.py` into all files."""
    block = sender_of((HOOKS / "tasktrail_emit.py").read_text())
    for path in FILES:
        text = path.read_text()
        path.write_text(text.replace(sender_of(text), block))


if __name__ == "__main__":
    main()
