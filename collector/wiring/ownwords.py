"""What a receiver's author wrote of its messages: Go templates with Alertmanager's data, around any channel.

Compiled when the routes are read; expanded at every send. Where one fails our own text stands in its place, and says
so: a message that is not worded as wished is better than none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from collector.alerting.functions import FUNCTIONS, Scene
from collector.channels import ChannelConfig, thread
from collector.channels.texts import uncalled
from collector.gotext import (
    FieldError,
    Library,
    Moment,
    Pairs,
    Slice,
    Structure,
    Template,
    TemplateError,
    library_of,
    undefined,
)
from collector.gotext.defaults import DEFAULTS
from collector.gotext.times import ZERO
from collector.model.alert import Alert, Channel, Notification
from collector.model.errors import ChannelError, Problem, ProblemsError
from collector.model.files import unread
from collector.model.labels import Labels


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The templates of one target, by option: texts, or lists and mappings with texts in them."""

    templates: Mapping[str, Any]
    title: str = "title"
    """The option that stands for our title; where the target has none, what it says is among `words`."""
    body: str = "body"
    pages: frozenset[str] = frozenset()
    """Options that are HTML: what comes from data is escaped there."""
    typed: frozenset[str] = frozenset()
    """Options whose texts are numbers and the like where they read like such, as in Alertmanager."""
    is_whole: bool = False
    """Where one template fails the whole message is ours: its parts belong together."""

    def said(self, notification: Notification) -> Notification:
        """The notification in these words."""
        words: dict[str, Any] = {}
        problems: list[str] = []
        for option, grown in self._expanded(notification):
            if isinstance(grown, TemplateError):
                problems.append(f"(the template of `{option}` failed: {grown})")
            else:
                words[option] = _typed(grown) if option in self.typed else grown
        if problems and self.is_whole:
            words = {}
        title, text = words.pop(self.title, notification.title), words.pop(self.body, notification.text)
        text = "\n".join(part for part in (text, *problems) if part)
        return msgspec.structs.replace(notification, title=title, text=text, words=words or None)

    def misread(self) -> list[str]:
        """The options that ask for fields which no message has, each with the first; as far as one message shows."""
        expanded = self._expanded(_ORDINARY)
        return [f"`{option}`, at {grown}" for option, grown in expanded if isinstance(grown, FieldError)]

    def _expanded(self, notification: Notification) -> Iterator[tuple[str, Any]]:
        """Each option with its tree of texts, or with the TemplateError that they ended in."""
        scene = Scene(at=notification.at, external_url=notification.external_url)
        data = _data(notification)
        for option, tree in self.templates.items():
            escape = _escaped if option in self.pages else None
            expand = partial(Template.execute, data=data, variables={}, context=scene, escape=escape)
            try:
                grown = _grown(tree, expand)
            except TemplateError as error:
                grown = error
            yield option, grown


_LABELS = (("alertname", "Ordinary"), ("severity", "page"), ("task", "a"))
_FIRING = Alert(
    labels=_LABELS, annotations=(("summary", "s"),), fingerprint="0" * 16, state="firing", value=1.0, active_at=0.0
)
_ORDINARY = Notification(
    key="",
    at=1.0,
    receiver="default",
    status="firing",
    group_labels=_LABELS,
    common_labels=_LABELS,
    common_annotations=_FIRING.annotations,
    alerts=(_FIRING, msgspec.structs.replace(_FIRING, state="resolved", resolved_at=1.0)),
    title="t",
    text="t",
)
"""A message in which something fires and something has ended: most of a template is run for it."""
MOST_ON_THE_LOOP = 50
"""Alerts of a notification; more would hold up everybody else."""
DEFAULT: Library = library_of(DEFAULTS, FUNCTIONS, {})
"""Alertmanager's own templates."""


def compiled(title: str | None, body: str | None, library: Library = DEFAULT) -> Words | None:
    """The templates of a target; None where it has none. Raises ChannelError with the place inside of the template."""
    return of_options({"title": title, "body": body}, library)


def of_options(options: Mapping[str, Any], library: Library, **more: Any) -> Words | None:
    """The templates of a target's options, without those that are None; None where that leaves none.

    Raises ChannelError with the option and the place inside of its template.
    """
    found = {option: _compiled(option, value, library) for option, value in options.items() if value is not None}
    return Words(templates=found, **more) if found else None


def templates_of(path: str, patterns: Sequence[str]) -> Library:
    """Alertmanager's templates and those of the files behind `templates`, as they stand beside a routes file.

    Raises ProblemsError with every file that cannot be read, and every place where one is no template.
    """
    library, problems, files = DEFAULT, list[Problem](), dict[str, str]()
    for pattern in patterns:
        for file in _behind(Path(path).parent / pattern):
            name = str(file)
            try:
                text = file.read_text(encoding="utf-8")
                library = library_of(text, FUNCTIONS, library, file.name)
            except (OSError, UnicodeDecodeError) as error:
                problems.append(unread(name, error))
            except TemplateError as error:
                line, column, message = str(error).split(":", 2)
                problems.append(Problem(name, int(line), int(column), f"this is no template:{message}"))
            else:
                files[text] = name
    for text, nodes in library.values():
        for missing in undefined(nodes, library) if text in files else ():
            problems.append(Problem(files[text], 1, 1, f'it includes the template "{missing}", which nobody defines'))
    if problems:
        raise ProblemsError(list(dict.fromkeys(problems)))
    return library


def _behind(pattern: Path) -> list[Path]:
    """The files behind a path with wildcards, as Go's Glob has them; none where there are none."""
    anchor = Path(pattern.anchor or ".")
    return sorted(file for file in anchor.glob(str(pattern.relative_to(pattern.anchor))) if file.is_file())


class Worded(msgspec.Struct, frozen=True, kw_only=True):
    """A target that is told in its own words."""

    inner: ChannelConfig
    words: Words
    name: str
    source: str
    """The templates as written: two targets are the same only where these are."""

    @property
    def description(self) -> str:
        """The target's own."""
        return f"{self.inner.description}, in words of the routes file"

    def open(self) -> Channel:
        """A channel to the target."""
        return WordedChannel(self.inner.open(), self.words, self.name)

    def preview(self, notification: Notification) -> str:
        """What would be sent."""
        return self.inner.preview(self.words.said(notification))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Worded) and (self.inner, self.source) == (other.inner, other.source)

    def __hash__(self) -> int:
        return hash((self.name, self.source))


class WordedChannel:
    """Words every notification anew, and hands it on."""

    def __init__(self, inner: Channel, words: Words, name: str) -> None:
        self._inner = inner
        self._words = words
        self.name = name

    @property
    def spacing_seconds(self) -> float:
        """The target's own."""
        return self._inner.spacing_seconds

    async def send(self, notification: Notification) -> None:
        """As the target does. The words for many alerts are put together off the loop."""
        if len(notification.alerts) > MOST_ON_THE_LOOP:
            words = thread.start(f"words of {self.name}", partial(self._words.said, notification))
            said = await asyncio.wrap_future(words)
        else:
            said = self._words.said(notification)
        await self._inner.send(said)

    async def close(self) -> None:
        """As the target does."""
        await self._inner.close()


def _compiled(option: str, value: Any, library: Library) -> Any:
    if isinstance(value, dict):
        return {name: _compiled(option, one, library) for name, one in value.items()}
    if isinstance(value, list):
        return [_compiled(option, one, library) for one in value]
    if not isinstance(value, str):
        return value
    try:
        template = Template(value, FUNCTIONS, (), library)
    except TemplateError as error:
        raise ChannelError(f"`{option}` is no template: {error}", retryable=False) from None
    if template.undefined:
        names = ", ".join(f'"{name}"' for name in template.undefined)
        message = f"`{option}` includes the template {names}, which nobody defines: add its file under `templates`"
        raise ChannelError(message, retryable=False)
    return template


def _grown(tree: Any, expand: Callable[[Template], str]) -> Any:
    """The tree with texts in place of templates."""
    if isinstance(tree, dict):
        return {name: _grown(one, expand) for name, one in tree.items()}
    if isinstance(tree, list):
        return [_grown(one, expand) for one in tree]
    return expand(tree) if isinstance(tree, Template) else tree


def _typed(value: Any) -> Any:
    """The tree with numbers, booleans, lists and mappings in place of texts that read like such."""
    if isinstance(value, dict):
        return {name: _typed(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_typed(one) for one in value]
    try:
        read = yaml.load(value, Loader=yaml.CSafeLoader) if isinstance(value, str) else value
        msgspec.json.encode(read)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return value
    return value if isinstance(read, str | date) else read


_HTML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;", "\0": "\ufffd"}
)


def _escaped(text: str) -> str:
    """As Go escapes what stands in the text of a page."""
    return text.translate(_HTML)


def _tame(labels: Labels) -> Pairs:
    """Labels or annotations that call nobody: whom a message calls its author decides, and no task's name."""
    return Pairs((name, uncalled(value)) for name, value in labels)


def _data(notification: Notification) -> Structure:
    """Alertmanager's `template.Data`, and our own texts as `Title` and `Text`."""
    alerts = Slice(_alert(alert, notification.external_url) for alert in notification.alerts)
    alerts.fields = {
        name: Slice(one for one in alerts if one.fields["Status"] == state)
        for name, state in (("Firing", "firing"), ("Resolved", "resolved"))
    }
    return Structure(
        "template.Data",
        {
            "Receiver": notification.receiver,
            "Status": notification.status,
            "Alerts": alerts,
            "GroupLabels": _tame(notification.group_labels),
            "CommonLabels": _tame(notification.common_labels),
            "CommonAnnotations": _tame(notification.common_annotations),
            "ExternalURL": notification.external_url,
            "Title": uncalled(notification.title),
            "Text": uncalled(notification.text),
        },
    )


def _alert(alert: Alert, external_url: str) -> Structure:
    starts = alert.active_at if alert.fired_at is None else alert.fired_at
    return Structure(
        "template.Alert",
        {
            "Status": alert.state,
            "Labels": _tame(alert.labels),
            "Annotations": _tame(alert.annotations),
            "StartsAt": _time(starts),
            "EndsAt": Moment(ZERO) if alert.resolved_at is None else _time(alert.resolved_at),
            "GeneratorURL": alert.generator_url or external_url,
            "Fingerprint": alert.fingerprint,
        },
    )


def _time(at: float) -> Moment:
    return Moment(round(at * 1e6) * 1000)
