"""What a service takes of a text: how long, in which unit, with what written so that it is no markup and no mention.

Title and text in, the same as the service will take them out. A text is cut before it is escaped, so no cut splits an
escape; and between characters as they are seen. The first lines of a text (severity, owner, runbook) are cut last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from collector.model.graphemes import boundary

Unit = Literal["utf16", "bytes", "json"]
"""UTF-16 code units (never fewer than characters) · bytes of UTF-8 · bytes as they stand inside of a JSON string."""

MEASURES: Mapping[Unit, Callable[[str], int]] = {
    "utf16": lambda text: len(text.encode("utf-16-le")) // 2,
    "bytes": lambda text: len(text.encode()),
    "json": lambda text: len(msgspec.json.encode(text)) - 2,
}
CUT = "(cut)"
_ELLIPSIS = "..."
_HEAD = 2
"""So many first lines keep at least a quarter of the room each."""

_URL = re.compile(r"https?://[^\s<>@]+")
_ALL = re.compile(r"@(?=(?:everyone|everybody|here|channel|group|team|all|所有人|全体成员)\b)", re.IGNORECASE)
_TAG = re.compile(r"<(?=[@!#&:/a-zA-Z])")
_CALL = re.compile(r"<(?=[@!#])")
_NOTHING = "\u200b"
"""A space without width: after it nothing is what it would have been."""
_MARKDOWN = re.compile(r"[\\*_~`|<>\[\]]|^#", re.MULTILINE)
_MARKS = re.compile(r"[*_~`|<>\[\]{}#\\]")
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def as_it_is(text: str) -> str:
    """For services without markup and mentions."""
    return text


def unmentioned(text: str) -> str:
    """Nobody is called: neither by `@all` and its like nor by `<@name>`, `<!channel>` or `<at>`."""
    return _TAG.sub(f"<{_NOTHING}", _ALL.sub(f"@{_NOTHING}", text))


def uncalled(text: str) -> str:
    """As little of that as keeps a value from calling anybody inside of markup that somebody else wrote."""
    return _CALL.sub(f"<{_NOTHING}", _ALL.sub(f"@{_NOTHING}", text))


def entities(text: str) -> str:
    """As in HTML, which Slack and Telegram share; there is no mention without `<`."""
    return _ALL.sub(f"@{_NOTHING}", text).translate(_HTML)


def markdown(text: str) -> str:
    """Discord's markup with backslashes before it, but for addresses, which they would break."""
    parts, end = [], 0
    for url in _URL.finditer(text):
        parts += [_backslashes(text[end : url.start()]), url.group()]
        end = url.end()
    return "".join((*parts, _backslashes(text[end:])))


def webex(text: str) -> str:
    """Webex's Markdown with backslashes before it; its mentions are tags, and each line stands for itself."""
    return "  \n".join(markdown(line) for line in text.split("\n"))


def bare(text: str) -> str:
    """Without any character that markup is made of: for a service that has refused a text."""
    return unmentioned(_MARKS.sub(" ", text))


def _backslashes(text: str) -> str:
    return _ALL.sub(f"@{_NOTHING}", _MARKDOWN.sub(r"\\\g<0>", text))


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What one service takes. `limit` is of title and text together; with `title_limit` the title has its own."""

    limit: int
    unit: Unit = "utf16"
    escape: Callable[[str], str] = as_it_is
    title_limit: int = 0
    around: str = "{}"
    """Around the title: its markup."""

    def measure(self, text: str) -> int:
        """The length as the service counts it."""
        return MEASURES[self.unit](text)

    def plain(self) -> Form:
        """The same limits with half the room and no markup: for the one retry after a refusal of the content."""
        return msgspec.structs.replace(self, limit=self.limit // 2, escape=bare, around="{}")


def fit(title: str, text: str, form: Form) -> tuple[str, str]:
    """Title and text, escaped, both within the form's limits."""
    title, text = _sound(" ".join(title.split())), _sound(text)
    title = shorten(title, form, form.title_limit or form.limit // 4)
    shown = form.around.format(form.escape(title))
    return shown, _fit_lines(text, form, form.limit - (0 if form.title_limit else form.measure(f"{shown}\n")))


def message(title: str, text: str, form: Form) -> str:
    """Title and text in one, for services that know no title."""
    return "\n".join(fit(title, text, form)).rstrip("\n")


def shorten(text: str, form: Form, room: int) -> str:
    """The longest beginning of a text whose escaped form fits, with a mark where it is not all; not escaped."""
    if form.measure(form.escape(text)) <= room:
        return text
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits(text[:middle], form, room) else (low, middle - 1)
    end = boundary(text, low)
    while end and not _fits(text[:end], form, room):
        end = boundary(text, end - 1)
    return text[:end] + _ELLIPSIS if end else ""


def _fits(text: str, form: Form, room: int) -> bool:
    return form.measure(form.escape(text + _ELLIPSIS)) <= room


def _fit_lines(text: str, form: Form, room: int) -> str:
    """As many lines as there is room for; the one at the cut as far as it goes; then the mark."""
    whole = "\n".join(map(form.escape, text.split("\n")))
    if form.measure(whole) <= room:
        return whole
    lines = text.split("\n")
    least = room // 4
    newline = form.measure("\n")
    room -= form.measure(f"\n{CUT}")
    kept: list[str] = []
    for number, line in enumerate(lines):
        heads = lines[number + 1 : _HEAD]
        kept_free = sum(min(form.measure(form.escape(head)), least) + newline for head in heads)
        short = shorten(line, form, room - kept_free)
        if line and not short:
            break
        kept.append(form.escape(short))
        room -= form.measure(kept[-1]) + newline
        if (short != line and number + 1 >= _HEAD) or room <= 0:
            break
    return "\n".join((*kept, CUT))


def _sound(text: str) -> str:
    """Half a surrogate pair is no text, and no encoder takes it."""
    return text.encode("utf-8", "replace").decode()
