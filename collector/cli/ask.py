"""Questions of commands to a running daemon, over HTTP."""

from __future__ import annotations

import argparse
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from collector.model.errors import TasktrailError

DAEMON = "http://127.0.0.1:9810"
PATIENCE = 60.0
"""Seconds that an answer may take: a list may go through a million trails."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of whatever asks a daemon."""
    parser.add_argument("--url", default=DAEMON, metavar="URL", help=f"the daemon that is asked ({DAEMON})")
    parser.add_argument("--token-file", metavar="FILE", help="the bearer token of its listener")
    parser.add_argument("--json", action="store_true", help="as JSON")


def get(arguments: argparse.Namespace, path: str, asked: Mapping[str, str] | None = None) -> Any:
    """The answer's JSON; None where there is no such thing. Raises TasktrailError where there is no good answer."""
    base = arguments.url.rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise TasktrailError(f"--url {base}: write http://host:port of the daemon")
    query = urllib.parse.urlencode({name: value for name, value in (asked or {}).items() if value})
    request = urllib.request.Request(f"{base}{path}{f'?{query}' if query else ''}")  # noqa: S310  checked above
    if arguments.token_file:
        request.add_header("Authorization", f"Bearer {_token(arguments.token_file)}")
    try:
        # never by way of a proxy: it is a daemon of one's own, and a token goes along
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=PATIENCE) as answer:
            return msgspec.json.decode(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.client.NOT_FOUND:
                return None
            raise TasktrailError(f"{base} refuses: {_refusal(error)}") from error
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        why = getattr(error, "reason", error)
        raise TasktrailError(
            f"no daemon answers at {base}: {why}; start `tasktrail run`, or name it with --url"
        ) from error


def _token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TasktrailError(f"--token-file {path}: the token cannot be read: {error}") from error


def _refusal(error: urllib.error.HTTPError) -> str:
    body = error.read(2_000)
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return f"{error.code} {body.decode(errors='replace').strip()}"
