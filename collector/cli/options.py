"""Options that several commands share, and how a command line becomes settings."""

from __future__ import annotations

import argparse
import os

from collector.cli.refused import Layout, layout
from collector.config.settings import Overrides, Settings, load_parts, override_parts
from collector.documents import substitute
from collector.model.errors import Problem, ProblemsError
from collector.model.files import read_text, unread
from collector.model.secret import Secret


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    parser.add_argument("-c", "--config", metavar="FILE", help="configuration file (YAML)")
    parser.add_argument("--source", action="append", default=[], metavar="URL", help="read this; may be repeated")
    parser.add_argument(
        "--rules", action="append", default=[], metavar="PATH|shipped", help="rule files in place of the shipped ones"
    )
    parser.add_argument("--tasks", metavar="FILE", help="what each class of task promises")
    parser.add_argument("--routes", metavar="FILE", help="routes and receivers, in Alertmanager's format")
    parser.add_argument(
        "--notify", action="append", default=[], metavar="URL", help="send alerts here; may be repeated"
    )
    parser.add_argument("--state", metavar="DIR|none", help="what must outlive a restart")
    parser.add_argument("--listen", metavar="ADDR", help="host:port of the listener (127.0.0.1:9810)")
    parser.add_argument("--external-url", metavar="URL", help="what links in messages are built on")
    parser.add_argument("--token-file", metavar="FILE", help="the bearer token of the listener")
    parser.add_argument("--public-metrics", action="store_true", default=None, help="/metrics needs no token")


def secret(text: str) -> Secret:
    """A secret of the command line: itself, or with `file:` what that file holds. Raises ValueError without it."""
    return substitute.secret(text, read_text)


def read(path: str) -> Settings:
    """The settings of a configuration file. Raises ProblemsError."""
    found = _read_parts(path)
    if found.known:
        raise ProblemsError(found.known)
    return found.settings


def _read_parts(path: str) -> Layout:
    """What of the file is right, what is not, and where it stands."""
    try:
        text = read_text(path)
        return layout(path, text, *load_parts(path, text, os.environ))
    except (OSError, UnicodeDecodeError) as error:
        return Layout(known=[unread(path, error)])
    except ProblemsError as error:
        return Layout(known=list(error.problems))


def settings(arguments: argparse.Namespace) -> tuple[Settings, list[Problem], Layout]:
    """The configuration file, if any, with the command line laid over it: what is right of both, and what is not.

    And the file's layout, for problems that are found later.
    """
    base = _read_parts(arguments.config) if arguments.config else Layout()
    merged, wrong = override_parts(
        base.settings,
        Overrides(
            sources=tuple(arguments.source),
            rules=tuple(arguments.rules),
            tasks=arguments.tasks,
            routes=arguments.routes,
            notify=tuple(arguments.notify),
            state=arguments.state,
            listen=arguments.listen,
            external_url=arguments.external_url,
            token_file=arguments.token_file,
            public_metrics=arguments.public_metrics,
        ),
    )
    return merged, [*base.known, *base.placed(wrong)], base
