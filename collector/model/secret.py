"""What must never be shown: a wrapper that prints as stars, and one filter for text that goes out."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

STARS = "***"


class Secret:
    """A password or token. Prints and formats as stars; `reveal()` is the only way to the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the client library that needs it."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return STARS

    __str__ = __repr__


_NAMES = r"pass(?:word|wd|phrase)?|secret|token|(?:api|access|private)[_-]?key|authorization|credentials?|cookie"
# Secret by form alone: keys of AWS, GitHub, GitLab, Google, Slack and Stripe, and JWT.
_FORMS = (
    r"A[KS]IA[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|AIza[\w-]{35}|xox[a-z]-[\w-]{10,}"
    r"|[rs]k_live_\w{10,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]+)?"
)
# Each begins with fixed words: what may begin anywhere in a long word costs the square of its length.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Authorization: Bearer x, before the names below would take "Bearer" for the value
    (re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), STARS),
    # "password": "x" / password=x / token: x, also inside JSON that was cut in the middle
    (
        re.compile(rf"""(?i)((?:{_NAMES})[\w.-]*+["']?\s*+[:=]\s*)("(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&"'}}\]]+)"""),
        rf"\1{STARS}",
    ),
    # scheme://user:password@host, also of a password with an @
    (re.compile(r"(://[^\s/:@]*):[^\s/]+@"), rf"\1:{STARS}@"),
    (re.compile(rf"(?<![\w-])(?:{_FORMS})"), STARS),
    # also where it was cut off
    (re.compile(r"(?s)-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,20}PRIVATE KEY-----|\Z)"), STARS),
)


# Every match of the patterns has one of these in it; most texts have none, and to see that is a hundred times cheaper.
_HINTS = (
    "pass", "secret", "token", "key", "authorization", "credential", "cookie", "bearer", "basic", "://",
    "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "aiza", "xox", "k_live_", "eyj",
)  # fmt: skip


def mask(text: str) -> str:
    """The text with everything that looks like a secret replaced by stars."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def mask_url(url: str) -> str:
    """The URL without user, password, query and fragment: scheme, host and path are all that may be shown."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
