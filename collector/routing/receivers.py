"""Receivers: whom a route tells, as typed values. Documents and `global` in, receivers and problems out.

Nothing is opened and no file is read: what becomes of a target is decided by whoever has the channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from collector.documents import Duration, Place, Url
from collector.documents.scalars import parse_url
from collector.model.errors import Problem
from collector.model.secret import Secret
from collector.routing.kinds import Http, Options, Tls
from collector.routing.kinds_more import KINDS, SUFFIX, ReceiverDocument

_URLS = ("slack_api_url", "mattermost_webhook_url")
_TEMPLATED = "{{"
_HIDDEN = "<secret>"
"""Stands for a secret in what a running Alertmanager shows of its own configuration."""


class TargetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One place to tell, as it was written, with what `global` adds to it."""

    kind: str
    """One of `KINDS`; `options` is of its class."""
    options: Options

    @property
    def send_resolved(self) -> bool:
        """Whether it hears of ends."""
        return self.options.send_resolved

    @property
    def place(self) -> Place:
        """Of the target in its file."""
        return self.options.place


class Receiver(msgspec.Struct, frozen=True, kw_only=True):
    """A name and its targets; one without any speaks to nobody, which is how alerts are dropped on purpose."""

    name: str
    targets: tuple[TargetSpec, ...] = ()
    place: Place | None = None


class GlobalDocument(msgspec.Struct, kw_only=True):
    """`global` as written."""

    resolve_timeout: Duration = Duration(300)
    http_config: Http | None = None
    jira_api_url: Url | None = None
    smtp_from: str | None = None
    smtp_hello: str = "localhost"
    smtp_smarthost: str | None = None
    smtp_auth_username: str | None = None
    smtp_auth_password: Secret | None = None
    smtp_auth_password_file: str | None = None
    smtp_auth_secret: Secret | None = None
    smtp_auth_secret_file: str | None = None
    smtp_auth_identity: str | None = None
    smtp_require_tls: bool = True
    smtp_tls_config: Tls | None = None
    smtp_force_implicit_tls: bool | None = None
    slack_api_url: Secret | None = None
    slack_api_url_file: str | None = None
    slack_app_token: Secret | None = None
    slack_app_token_file: str | None = None
    slack_app_url: Url = Url("https://slack.com/api/chat.postMessage")
    pagerduty_url: Url = Url("https://events.pagerduty.com/v2/enqueue")
    opsgenie_api_url: Url = Url("https://api.opsgenie.com/")
    opsgenie_api_key: Secret | None = None
    opsgenie_api_key_file: str | None = None
    wechat_api_url: Url = Url("https://qyapi.weixin.qq.com/cgi-bin/")
    wechat_api_secret: Secret | None = None
    wechat_api_secret_file: str | None = None
    wechat_api_corp_id: str | None = None
    victorops_api_url: Url = Url("https://alert.victorops.com/integrations/generic/20131114/alert/")
    victorops_api_key: Secret | None = None
    victorops_api_key_file: str | None = None
    telegram_api_url: Url = Url("https://api.telegram.org")
    telegram_bot_token: Secret | None = None
    telegram_bot_token_file: str | None = None
    webex_api_url: Url = Url("https://webexapis.com/v1/messages")
    rocketchat_api_url: Url = Url("https://open.rocket.chat/")
    rocketchat_token: Secret | None = None
    rocketchat_token_file: str | None = None
    rocketchat_token_id: Secret | None = None
    rocketchat_token_id_file: str | None = None
    mattermost_webhook_url: Secret | None = None
    mattermost_webhook_url_file: str | None = None


def receivers_of(
    documents: Sequence[ReceiverDocument], shared: GlobalDocument, place: Place, problems: list[Problem]
) -> dict[str, Receiver]:
    """The receivers by name, in the file's order. `place` is the file's, for what `global` holds."""
    _check_global(shared, place.at("global"), problems)
    found: dict[str, Receiver] = {}
    for document in documents:
        name = document.name
        if not name:
            problems.append(document.place.problem("the receiver has no name: add `name: ...`"))
        elif name in found:
            first = found[name].place
            message = f"two receivers are named `{name}`, the first on line {first.line if first else 0}: rename one"
            problems.append(document.place.at("name").problem(message))
            continue
        targets = [
            TargetSpec(kind=kind, options=_completed(kind, options, shared, problems))
            for kind in KINDS
            for options in getattr(document, kind + SUFFIX)
        ]
        found[name] = Receiver(name=name, targets=tuple(targets), place=document.place)
    return found


def _completed(kind: str, options: Options, shared: GlobalDocument, problems: list[Problem]) -> Options:
    """The options with what `global` has for those that are not written, checked."""
    place = options.place
    for group in options.excluding:
        _refuse_several(options, group, place, problems)
    added: dict[str, Any] = {}
    for name, key in options.inherits.items():
        rivals = next((group for group in (*options.excluding, *options.needed) if name in group), (name,))
        if all(getattr(options, rival) is None for rival in rivals):
            added[name] = getattr(shared, key)
    if options.http_config is None:
        added["http_config"] = shared.http_config
    for name in options.urls:
        _check_url(getattr(options, name), place.at(name), problems)
    whole = msgspec.structs.replace(options, **added)
    lacking = [group for group in options.needed if all(getattr(whole, name) in (None, "") for name in group)]
    problems += [place.problem(_missing(kind, group, options)) for group in lacking]
    return whole


def _missing(kind: str, group: Sequence[str], options: Options) -> str:
    keys = [name.rstrip("_") for name in group]
    shared = [f"`{options.inherits[name]}`" for name in group if name in options.inherits]
    there = f", or {' or '.join(shared)} under `global`" if shared else ""
    return (
        f"the target of `{kind}_configs` has no {' or '.join(f'`{key}`' for key in keys)}: add `{keys[0]}: ...`{there}"
    )


def _check_global(shared: GlobalDocument, place: Place, problems: list[Problem]) -> None:
    pairs = [(name, f"{name}_file") for name in GlobalDocument.__struct_fields__ if hasattr(shared, f"{name}_file")]
    for pair in pairs:
        _refuse_several(shared, pair, place, problems)
    token = [name for name in ("slack_app_token", "slack_app_token_file") if getattr(shared, name) is not None]
    hook = [name for name in ("slack_api_url", "slack_api_url_file") if getattr(shared, name) is not None]
    if token and hook:
        problems.append(place.key(token[0]).problem(f"`{hook[0]}` and `{token[0]}` exclude one another: keep one"))
    for name in _URLS:
        _check_url(getattr(shared, name), place.at(name), problems)


def _refuse_several(options: Any, group: Sequence[str], place: Place, problems: list[Problem]) -> None:
    there = [name for name in group if getattr(options, name) is not None]
    if len(there) > 1:
        names = " and ".join(f"`{name}`" for name in there)
        problems.append(place.key(there[1]).problem(f"{names} exclude one another: keep one"))


def _check_url(value: Secret | str | None, place: Place, problems: list[Problem]) -> None:
    """Whether it is an http URL; what Alertmanager fills in later (a template) or hides is taken as it is."""
    if value is None:
        return
    text = value.reveal() if isinstance(value, Secret) else value
    if _TEMPLATED in text or text == _HIDDEN:
        return
    try:
        parse_url(text)
    except ValueError as error:
        # of a secret not even the part that may be shown elsewhere is sure to be harmless
        shown = "this is not an http or https URL: write it as https://host/path"
        problems.append(place.problem(shown if isinstance(value, Secret) else str(error)))
