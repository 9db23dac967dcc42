"""Asking a running daemon: one request, its JSON; what is wrong with it as one sentence."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from argparse import SUPPRESS
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import BadStatusLine, HTTPException, InvalidURL
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from collector.config.settings import DEFAULT_LISTEN
from collector.model.errors import TasktrailError
from collector.wiring.doors import token_of

TIMEOUT = 30.0
_LONGEST_ERROR = 500
_STRANGER = "what answers there is no tasktrail of this version: give the daemon's --url"
_PIECE = 64 * 1024


class RefusedError(TasktrailError):
    """The daemon answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Answer(dict[str, Any]):
    """An object of an answer. What it has not, no daemon of this version has sent."""

    def __missing__(self, key: str) -> Any:
        raise TasktrailError(f"`{key}` is missing in the answer: {_STRANGER}")


def configure(parser: argparse.ArgumentParser, *actions: argparse.ArgumentParser) -> None:
    """The options of every command that asks a daemon: before and behind its action, where it has some."""
    address = f"http://{DEFAULT_LISTEN}"
    parser.set_defaults(url=address, token_file=None, json=False)
    for each in (parser, *actions):
        each.add_argument("--url", default=SUPPRESS, metavar="URL", help=f"the daemon ({address})")
        each.add_argument("--token-file", default=SUPPRESS, metavar="FILE", help="its bearer token, where it wants one")
        each.add_argument("--json", action="store_true", default=SUPPRESS, help="one JSON object")


def author() -> str:
    """Who calls, unless they say otherwise."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


class Client:
    """The daemon behind `--url`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._base = arguments.url.rstrip("/")
        if not _is_address(self._base):
            raise _no_address(arguments.url)
        self._headers = {"Content-Type": "application/json"}
        self.unkept = ""
        """Why what the last answer is about is not on the disk, where that is said beside it."""
        if arguments.token_file:
            self._headers["Authorization"] = f"Bearer {token_of(arguments.token_file).reveal()}"

    def copy(self, path: str, out: BinaryIO) -> None:
        """An answer that is no JSON, as it comes, to its end. Raises as `ask` does."""
        with self._open("GET", path, None) as answer:
            while piece := answer.read(_PIECE):
                out.write(piece)

    def ask(self, method: str, path: str, body: Any = None, kind: type = dict) -> Any:
        """The answer's JSON, an object or a list of them (`kind`); None where something is deleted.

        Raises RefusedError, or TasktrailError where nobody answers, or a stranger.
        """
        with self._open(method, path, body) as answer:
            text, self.unkept = answer.read(), answer.headers.get("Tasktrail-Unkept", "")
        if method == "DELETE" and not text:
            return None
        try:
            found = json.loads(text, object_hook=_Answer)
        except (ValueError, RecursionError):
            found = None
        items = found if isinstance(found, list) else []
        if not isinstance(found, kind) or not all(isinstance(one, _Answer) for one in items):
            raise TasktrailError(f"{self._base}: {_STRANGER}")
        return found

    @contextmanager
    def _open(self, method: str, path: str, body: Any) -> Iterator[Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data=data, headers=self._headers, method=method)  # noqa: S310  checked above
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
                yield answer
        except urllib.error.HTTPError as error:
            raise RefusedError(error.code, f"{self._base}: {_said(error.read(), error.code)}") from error
        except OSError as error:
            why = getattr(error, "reason", error)
            if isinstance(why, ssl.SSLCertVerificationError):
                raise TasktrailError(
                    f"{self._base}: its certificate is not trusted ({why.verify_message}); "
                    "name the file of its authority in the environment variable SSL_CERT_FILE"
                ) from error
            if isinstance(why, OSError) and why.errno and not isinstance(why, ssl.SSLError):
                why = os.strerror(why.errno)
            raise TasktrailError(
                f"{self._base}: no daemon answers there ({why}); start it, or give its --url"
            ) from error
        except (UnicodeError, InvalidURL) as error:
            raise _no_address(self._base) from error
        except BadStatusLine as error:
            raise TasktrailError(f"{self._base}: {_STRANGER}") from error
        except HTTPException as error:
            raise TasktrailError(f"{self._base}: the answer ended before its end; try again") from error


def _is_address(url: str) -> bool:
    """Whether somebody can be asked there, as far as its form says; the rest is seen at the first question."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _no_address(url: str) -> TasktrailError:
    return TasktrailError(f"--url {url}: write http://HOST:PORT")


def _said(body: bytes, status: int) -> str:
    """The sentence in an error's answer."""
    text = body.decode(errors="replace").strip()
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    if isinstance(found, dict):
        found = found.get("error") or found.get("message") or text
    return str(found)[:_LONGEST_ERROR] or f"it answers {status}"


def seconds_of(text: str) -> float:
    """Unix seconds of a time as the API writes it."""
    return datetime.fromisoformat(text).timestamp()


def time_of(at: float) -> str:
    """A time as the API reads it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def warn(unkept: str) -> None:
    """What was done, and is not kept: on standard error, beside the answer."""
    if unkept:
        print(f"but {unkept}", file=sys.stderr)


def show(value: Any) -> None:
    """One JSON object on standard output."""
    print(json.dumps(value, ensure_ascii=False))
