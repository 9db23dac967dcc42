"""Who is told: the targets of `--notify` and those of a route file, as channels and as receivers of the routing."""

from __future__ import annotations

import msgspec

from collector import channels
from collector.channels import ChannelConfig
from collector.config import routefiles
from collector.config.settings import Settings
from collector.model.errors import ChannelError, Problem, ProblemsError
from collector.routing.group import Target
from collector.routing.route import BUILT_IN
from collector.routing.routefile import Routing
from collector.wiring import targets


class Audience(msgspec.Struct, frozen=True, kw_only=True):
    """`receivers`: by name whom each tells. Without a route file there is the built-in route's one."""

    routing: Routing | None
    configs: list[ChannelConfig]
    receivers: dict[str, list[Target]]

    @property
    def default(self) -> str:
        """The receiver at the top."""
        return self.routing.route.receiver if self.routing else BUILT_IN.receiver

    def add(self, name: str) -> None:
        """A further target is told by the receiver at the top, too."""
        top = self.receivers[self.default]
        if name not in {target.name for target in top}:
            top.append(Target(name))


def understood(settings: Settings) -> Audience:
    """The audience of a configuration. Raises ProblemsError with all problems; they show no secret."""
    problems: list[Problem] = []
    configs = _notified(settings, problems)
    routing, receivers = None, {BUILT_IN.receiver: list[Target]()}
    filed: list[ChannelConfig] = []
    if settings.routes:
        try:
            routing = routefiles.load(settings.routes)
            filed, receivers = targets.understood(routing)
        except ProblemsError as error:
            problems += error.problems
    if problems:
        raise ProblemsError(problems)
    names = {config.name for config in configs}
    audience = Audience(
        routing=routing,
        configs=[*configs, *(config for config in filed if config.name not in names)],
        receivers=receivers,
    )
    for config in configs:
        audience.add(config.name)
    return audience


def _notified(settings: Settings, problems: list[Problem]) -> list[ChannelConfig]:
    configs: list[ChannelConfig] = []
    for number, url in enumerate(settings.notify, 1):
        try:
            config = channels.from_url(url.reveal())
        except ChannelError as error:
            problems.append(Problem("notify", number, 1, str(error)))
            continue
        if any(config.name == other.name for other in configs):
            problems.append(Problem("notify", number, 1, f"the target {config.name} is named twice: remove one"))
            continue
        configs.append(config)
    return configs
