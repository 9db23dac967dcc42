"""Targets of a route file to channels: which kind is served by what, as one table, and what to write where none is.

Secret files are read here, relative to the route file. Most of Alertmanager's own kinds become an apprise URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from collector.channels import ChannelConfig
from collector.documents import Place
from collector.documents.reader import Plain
from collector.gotext import Library
from collector.model.errors import ChannelError, Problem, ProblemsError
from collector.model.files import read_text, why
from collector.routing.group import Target
from collector.routing.kinds import Http, Options
from collector.routing.receivers import TargetSpec
from collector.routing.routefile import Routing
from collector.wiring import ownwords, translated
from collector.wiring.ownwords import Worded, Words


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind is served, and by which of its options; without `build`, what to write in its place."""

    build: Callable[[translated.Given], ChannelConfig] | None = None
    used: str = ""
    fixed: str = ""
    """Options that are used where no template stands in them."""
    words: str = ""
    """Options that are templates."""
    more: Mapping[str, Any] = {}
    """Of Words."""
    instead: str = ""


_WHERE = "webhook_url webhook_url_file"
_BY_HTTP = "http_config"
_WHOLE = {"title": "", "body": "", "is_whole": True}

KINDS: Mapping[str, _Kind] = {
    "apprise": _Kind(build=translated.apprise, used="url url_file", words="title body"),
    "webhook": _Kind(
        build=translated.webhook_target,
        used=f"url url_file max_alerts timeout {_BY_HTTP}",
        words="payload",
        more={**_WHOLE, "typed": frozenset(("payload",))},
    ),
    "slack": _Kind(
        build=translated.slack,
        used="api_url api_url_file app_token app_token_file app_url channel",
        words="username icon_emoji icon_url color title title_link pretext text message_text fields short_fields "
        "footer fallback callback_id image_url thumb_url link_names mrkdwn_in actions",
        more=_WHOLE,
    ),
    "discord": _Kind(
        build=translated.discord, used=_WHERE, words="content title message username avatar_url", more=_WHOLE
    ),
    "msteams": _Kind(build=translated.connector, used=_WHERE, words="title text", more={"body": "text"}),
    "msteamsv2": _Kind(build=translated.workflow, used=_WHERE, words="title text", more={"body": "text"}),
    "telegram": _Kind(
        build=translated.telegram,
        used="bot_token bot_token_file chat_id chat_id_file message_thread_id api_url",
        words="message parse_mode disable_notifications",
        more=_WHOLE,
    ),
    "email": _Kind(
        build=translated.email,
        used="to from smarthost auth_username auth_password auth_password_file require_tls force_implicit_tls",
        fixed="headers",
        words="html text",
        more={"title": translated.SUBJECT, "body": "text", "pages": frozenset(("html",))},
    ),
    "pagerduty": _Kind(
        build=translated.pagerduty,
        used="routing_key routing_key_file url",
        words="description details client client_url source severity class component group images links",
        more={**_WHOLE, "typed": frozenset(("details",))},
    ),
    "opsgenie": _Kind(
        build=translated.opsgenie,
        used="api_key api_key_file api_url",
        fixed="details entity responders tags priority",
        words="message description",
        more={"title": "message", "body": "description"},
    ),
    "pushover": _Kind(
        build=translated.pushover,
        used="user_key user_key_file token token_file retry expire",
        fixed="device sound priority url url_title",
        words="title message",
        more={"body": "message"},
    ),
    "victorops": _Kind(
        build=translated.victorops,
        used="api_key api_key_file routing_key",
        words="entity_display_name state_message",
        more={"title": "entity_display_name", "body": "state_message"},
    ),
    "alertmanager": _Kind(build=translated.alertmanager_target, used=f"url url_file {_BY_HTTP}"),
    "sns": _Kind(instead="`apprise_configs` with url: sns://ACCESS_KEY/SECRET/REGION/TOPIC"),
    "wechat": _Kind(instead="`apprise_configs` with url: wecombot://BOT_KEY"),
    "jira": _Kind(instead="`webhook_configs` to what makes issues of alerts"),
    "webex": _Kind(build=translated.webex, used=f"api_url room_id {_BY_HTTP}", words="message", more=_WHOLE),
    "incidentio": _Kind(
        build=translated.incidentio,
        used=f"url url_file alert_source_token alert_source_token_file max_alerts timeout {_BY_HTTP}",
    ),
    "rocketchat": _Kind(
        build=translated.rocketchat,
        used="api_url token token_file token_id token_id_file channel",
        words="color title title_link text message_text fields short_fields emoji icon_url image_url thumb_url actions",
        more=_WHOLE,
    ),
    "mattermost": _Kind(
        build=translated.mattermost,
        used="webhook_url webhook_url_file channel",
        words="username text fallback color pretext author_name author_link author_icon title title_link fields "
        "thumb_url footer footer_icon image_url icon_url icon_emoji attachments type props priority",
        more={**_WHOLE, "typed": frozenset(("props", "priority"))},
    ),
}
_HTTP_DONE = frozenset(("authorization", "basic_auth", "bearer_token", "bearer_token_file", "http_headers"))
"""What of `http_config` a webhook is given; the rest is named."""


def undone(routing: Routing, *, reads_secrets: bool = False) -> list[Problem]:
    """What targets ask for and do not get, each with what to write instead.

    Of files those of templates are read, and with `reads_secrets` those of secrets that can be read here.
    """
    read_file = partial(_read_here, Path(routing.path).parent) if reads_secrets else None
    found: list[Problem] = []
    try:
        library = ownwords.templates_of(routing.path, routing.templates)
    except ProblemsError as error:
        found, library = list(error.problems), None
    for spec in _specs(routing):
        kind = KINDS[spec.kind]
        if kind.build is None:
            found.append(_unserved(spec))
            continue
        try:
            kind.build(translated.Given(spec.options, read_file))
        except translated.NoFileError:
            pass
        except ChannelError as error:
            found.append(_problem(spec, error))
            continue
        found += _unused(spec, kind)
        try:
            words, _ = _words(spec, kind, library or ownwords.DEFAULT)
        except ChannelError as error:
            if library is not None:
                found.append(_problem(spec, error))
        else:
            misread = words.misread() if words else []
            found += [
                spec.place.problem(f"a template of this target asks for what no message has: {one}") for one in misread
            ]
    return found


def unserved(routing: Routing) -> list[Place]:
    """The targets of kinds that are not served; `undone` says it, and nothing else of them needs a word."""
    return [spec.place for spec in _specs(routing) if KINDS[spec.kind].build is None]


def lacking(routing: Routing) -> list[Problem]:
    """The targets whose secrets stand in files that are not here. What else is wrong with targets is in `undone`."""
    read_file = partial(_read_here, Path(routing.path).parent)
    found: list[Problem] = []
    for spec in _specs(routing):
        build = KINDS[spec.kind].build
        try:
            if build is not None:
                build(translated.Given(spec.options, read_file))
        except translated.NoFileError as error:
            found.append(_problem(spec, error))
        except ChannelError:
            continue
    return found


def understood(routing: Routing) -> tuple[list[ChannelConfig], dict[str, list[Target]]]:
    """The channels of a routing, and by receiver whom it tells.

    Raises ProblemsError with every target that cannot be served; problems show no secret.
    """
    library = ownwords.templates_of(routing.path, routing.templates)
    problems: list[Problem] = []
    configs: dict[str, ChannelConfig] = {}
    told: dict[str, list[Target]] = {}
    read_file = partial(_read, Path(routing.path).parent)
    for receiver in routing.receivers.values():
        targets: dict[str, Target] = {}
        for spec in receiver.targets:
            kind = KINDS[spec.kind]
            if kind.build is None:
                problems.append(_unserved(spec))
                continue
            try:
                config = _worded(kind.build(translated.Given(spec.options, read_file)), _words(spec, kind, library))
            except ChannelError as error:
                problems.append(_problem(spec, error))
                continue
            name, number = f"{config.name} of {receiver.name}", 1
            while configs.setdefault(config.name, config) != config:  # the same place, asked for in another way
                config = msgspec.structs.replace(config, name=name if number == 1 else f"{name} ({number})")  # type: ignore[type-var]
                number += 1
            # Nobody else tells an Alertmanager of an end, and it is the one to decide who hears of it.
            targets[config.name] = Target(config.name, spec.send_resolved or spec.kind == "alertmanager")
        told[receiver.name] = list(targets.values())
    if problems:
        raise ProblemsError(problems)
    return list(configs.values()), told


def _words(spec: TargetSpec, kind: _Kind, library: Library) -> tuple[Words | None, str]:
    """What the target's author has it say, and the same as written. Raises ChannelError."""
    options: Any = spec.options
    keys = [key for key in kind.words.split() if options.place.has(key)]
    written = {key: _plain(getattr(options, _FIELDS.get(key, key))) for key in keys}
    if spec.kind == "email":
        written |= {
            name.title(): value for name, value in options.headers.items() if name.title() == translated.SUBJECT
        }
    if translated.TEMPLATED in (getattr(options, "channel", None) or ""):
        written["channel"] = options.channel
    more = dict(kind.more)
    if spec.kind == "telegram" and written:
        written["parse_mode"] = "HTML" if options.parse_mode is None else options.parse_mode
        more["pages"] = frozenset(("message",) if written["parse_mode"] == "HTML" else ())
    return ownwords.of_options(written, library, **more), str(written)


_FIELDS = {"class": "class_"}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Plain) else value


def _worded(config: ChannelConfig, said: tuple[Words | None, str]) -> ChannelConfig:
    words, source = said
    return config if words is None else Worded(inner=config, words=words, name=config.name, source=source)


def _specs(routing: Routing) -> list[TargetSpec]:
    return [spec for receiver in routing.receivers.values() for spec in receiver.targets]


def _unserved(spec: TargetSpec) -> Problem:
    return spec.place.problem(f"`{spec.kind}_configs` is not served by this version: use {KINDS[spec.kind].instead}")


def _problem(spec: TargetSpec, error: ChannelError | translated.NoFileError) -> Problem:
    return spec.place.problem(f"this target of `{spec.kind}_configs` cannot be used: {error}")


def _unused(spec: TargetSpec, kind: _Kind) -> list[Problem]:
    """Options that are written and have no effect."""
    options: Options = spec.options
    used = {*kind.used.split(), *kind.words.split(), *kind.fixed.split(), "send_resolved"}
    keys = [field.encode_name for field in msgspec.structs.fields(type(options)) if field.encode_name != "place"]
    found = [
        options.place.key(key).problem(
            f"`{key}` has no effect in this version: remove it, messages have texts of our own"
        )
        for key in keys
        if key not in used and options.place.has(key)
    ]
    found += [
        options.place.at(key).problem(f"`{key}` takes no template here: write it without {{{{ }}}}")
        for key in kind.fixed.split()
        if translated.TEMPLATED in str(_fixed(spec, key))
    ]
    if _BY_HTTP in used and options.place.has(_BY_HTTP):
        place = options.place.at(_BY_HTTP)
        found += [
            place.key(key).problem(f"`{key}` has no effect in this version: remove it from `http_config`")
            for key in Http.__struct_fields__
            if key not in _HTTP_DONE and place.has(key)
        ]
    return found


def _fixed(spec: TargetSpec, key: str) -> Any:
    value = getattr(spec.options, key)
    if spec.kind == "email":
        return [one for name, one in value.items() if name.title() != translated.SUBJECT]
    return [msgspec.to_builtins(one) for one in value] if key == "responders" else value


def _read(folder: Path, path: str) -> str:
    return read_text(folder / path)


def _read_here(folder: Path, path: str) -> str:
    """Raises NoFileError where it cannot be read: it may be elsewhere."""
    try:
        return _read(folder, path)
    except OSError as error:
        message = f"the secret file {path} cannot be used: {why(error)}: check the path and its rights"
        raise translated.NoFileError(message) from None
