"""What guards the listener, from its files: the token, and the certificate. Read at the start."""

from __future__ import annotations

import ssl

import msgspec

from collector.config.settings import Settings
from collector.model.errors import Problem, ProblemsError
from collector.model.files import is_regular, read_text, unread
from collector.model.secret import Secret


class Doors(msgspec.Struct, frozen=True):
    """The bearer token, and what the listener speaks TLS with; None: without."""

    token: Secret | None
    tls: ssl.SSLContext | None


def read(settings: Settings) -> Doors:
    """Both. Raises ProblemsError with the problems of both files."""
    problems: list[Problem] = []
    token = None
    if settings.token_file is not None:
        try:
            token = token_of(settings.token_file)
        except ProblemsError as error:
            problems += error.problems
    tls = _tls(settings.tls_cert_file, settings.tls_key_file, problems)
    if problems:
        raise ProblemsError(problems)
    return Doors(token, tls)


def token_of(path: str) -> Secret:
    """The bearer token in a file. Raises ProblemsError, which shows nothing of the file, where it holds no token."""
    try:
        text = read_text(path).strip()
    except OSError as error:
        raise ProblemsError([unread(path, error)]) from error
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isascii() or not text.isprintable():
        message = "a token is one line of ASCII characters: write it, and nothing else, into this file"
        raise ProblemsError([Problem(path, 1, 1, message)])
    return Secret(text)


def _tls(certificate: str | None, key: str | None, problems: list[Problem]) -> ssl.SSLContext | None:
    """TLS 1.2 and later; the key may stand in the certificate's file."""
    if certificate is None:
        if key is not None:
            problems.append(
                Problem(key, 1, 1, "a key without `tls_cert_file`: name the certificate that it belongs to")
            )
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        for path in (certificate, key or certificate):
            if not is_regular(path):  # the TLS library would wait for a pipe
                problems.append(Problem(path, 1, 1, "is no regular file"))
                return None
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ssl.SSLError, ValueError) as error:
        message = f"the certificate and its key cannot be used, {error}; both are PEM, the key has no password"
        problems.append(Problem(certificate, 1, 1, message))
    return context


def _no_password() -> str:
    """Instead of the library's question on the terminal."""
    raise ValueError("the key has a password")
