"""What a configuration may leave out of the file: `${NAME}` from the environment, `file:/path` for secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from collector.model.secret import Secret

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")
_FILE = "file:"


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """The text with `${NAME}` and `${NAME:-default}` replaced; `$${` stands for `${` itself.

    The default holds where the variable is not set or empty, as in a shell. Raises ValueError for a variable that
    is not set and has no default, and for a reference that is not one.
    """

    def value(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        name, default = match.group(1), match.group(2)
        if name is None:
            raise ValueError("`${` starts an environment variable, as ${NAME}: write $${ for the characters themselves")
        found = environ.get(name)
        if default is not None:
            return found or default
        if found is None:
            raise ValueError(f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}")
        return found

    return _REFERENCE.sub(value, text)


def secret(text: str, read_file: Callable[[str], str]) -> Secret:
    """The text itself, or with `file:/path` what that file holds, without the line end.

    Raises ValueError, which names the path and never the value.
    """
    if not text.startswith(_FILE):
        return Secret(text)
    path = text.removeprefix(_FILE)
    try:
        content = read_file(path).rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it cannot be read as text"
        raise ValueError(f"the secret file {path} cannot be used: {reason}: check the path and its rights") from None
    if not content:
        raise ValueError(f"the secret file {path} is empty: write the secret into it")
    return Secret(content)
