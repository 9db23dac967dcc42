"""The desk: what people and other programs do about alerts, on top of the groups. Synchronous; time is an argument.

Silences and acks decide whether routing speaks of an alert; alerts from outside join ours; a drill is an alert that
says so. Everything here changes values and returns; whoever owns the loop turns it afterwards.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from collector.model.alert import Alert
from collector.model.labels import Labels, fingerprint, labels_of
from collector.model.shown import shown
from collector.routing import links as signed
from collector.routing.acks import Acks
from collector.routing.draft import group_key
from collector.routing.external import External, Posted
from collector.routing.flapping import Flapping
from collector.routing.group import Group, Target
from collector.routing.grouping import Grouping
from collector.routing.inhibition import InhibitRule
from collector.routing.keeping import Ack, Keep, Silence
from collector.routing.links import Link
from collector.routing.matchers import matcher, written
from collector.routing.message import Wording, iso
from collector.routing.route import BUILT_IN, DRILL, Route, destinations, drill_of, muted, walk
from collector.routing.routefile import Routing
from collector.routing.silences import Silences
from collector.routing.standing import Standing

ONE_OUTAGE = InhibitRule(
    name="one outage, one page",
    sources=(matcher("alertname", "=~", "SourceBlind|BrokerDown"), matcher("source", "!=", "")),
    targets=(matcher("alertname", "!~", "SourceBlind|BrokerDown"),),
    equal=("source",),
)
"""Holds besides those of the route file: what a source that is not seen would say need not be said."""
DRILL_NAME = "TasktrailDrill"
TIDY_SECONDS = 60.0
"""How often what has expired is let go."""


class Drill(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a drill so far: who is to hear, who has confirmed and when, and why nobody may."""

    id: str
    at: float
    receivers: tuple[str, ...]
    targets: tuple[str, ...]
    """Those that are to be told."""
    told: tuple[tuple[str, str, float], ...]
    """Receiver, target, and when it took it."""
    muted: str = ""


class Desk:
    """Silences, acks, alerts from outside and drills of one routing."""

    def __init__(  # noqa: PLR0913  all that it touches is given to it
        self,
        routing: Routing | None = None,
        receivers: Mapping[str, Sequence[Target]] | None = None,
        wording: Wording | None = None,
        *,
        keep: Keep | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """`say` is told, in a line each, what people have done: there must be a record of who quieted what."""
        keep = keep or Keep()
        self.silences = Silences(keep)
        self.acks = Acks(keep)
        self.flapping = Flapping()
        self.external = External(routing.resolve_timeout if routing else 300.0)
        self.routing = routing
        self.route: Route = routing.route if routing else BUILT_IN
        self.receivers = receivers or {}
        self._wording = wording or Wording()
        self._intervals = routing.intervals if routing else {}
        self._keep = keep
        self._link_key = keep.link_key()
        self._new_id = new_id
        self._say = say
        self._tidied_at = 0.0
        self._drills: dict[str, tuple[Alert, float]] = {}
        self.grouping = Grouping(
            self.route,
            receivers,
            self._wording,
            inhibit_rules=(*(routing.inhibit_rules if routing else ()), ONE_OUTAGE),
            intervals=self._intervals,
            gates=(self.silences.why,),
            acks=self.acks,
            flapping=self.flapping,
            links=self.links,
        )

    def tend(self, now: float) -> None:
        """What time itself does: alerts from outside end, and what has expired is let go."""
        ended = [one for one in self.external.due(now) if not self._is_of_others(one)]
        if ended:
            self.grouping.insert(ended, now)
        if now - self._tidied_at >= TIDY_SECONDS:
            self._tidied_at = now
            self.silences.forget(now)
            self.acks.forget(now)
            self.flapping.forget(now)
            for drill_id in [drill_id for drill_id, (_, end) in self._drills.items() if end <= now]:
                self.end_drill(drill_id, now)

    def save_all(self, now: float) -> None:
        """Let silences and acks be kept anew: what was kept is not to be relied on."""
        self._keep.save_all(self.silences.listed(now), self.acks.listed(now))

    def next_due(self) -> float | None:
        """When `tend` has something to do next, besides tidying up."""
        return self.external.next_due()

    # Alerts

    def post(self, posted: Sequence[Posted], now: float) -> None:
        """Take alerts from outside. Raises ValueError."""
        self.grouping.insert(self.external.take(posted, now, self.grouping.firing), now)

    def resume(self, alerts: Iterable[Alert], now: float) -> None:
        """Go on with what fired in the groups of a former process and no rule knows of.

        Whoever has said it is given resolve_timeout to say it again, or that it has ended; drills end with the first
        `tend`.
        """
        outside: list[Alert] = []
        for alert in alerts:
            if drill_id := drill_of(alert.labels):
                self._drills[drill_id] = alert, now
            else:
                outside.append(alert)
            self.grouping.insert([alert], now)
        self.external.resume(outside, now)

    def _is_of_others(self, ended: Alert) -> bool:
        """Whether one of our rules has begun to say the same, so that the word from outside ends nothing."""
        firing = self.grouping.firing.get(ended.fingerprint)
        return firing is not None and firing[0].active_at != ended.active_at

    def standing(self, alert: Alert, now: float) -> Standing:
        """How an alert stands."""
        routes = destinations(self.route, alert.labels)
        reasons = [muted(route, self._intervals, now) for route in routes]
        inhibited = self.grouping.why_inhibited(alert.labels)
        return Standing(
            receivers=tuple(dict.fromkeys(route.receiver for route in routes)),
            untold=self._untold(alert, routes),
            silenced_by=tuple(one.id for one in self.silences.of(alert.fingerprint, alert.labels, now)),
            inhibited_by=(inhibited.fingerprint,) if inhibited else (),
            muted_by=tuple(dict.fromkeys(reasons)) if reasons and all(reasons) else (),
            ack=self.acks.of(alert.fingerprint, now),
            is_flapping=self.flapping.of(alert.fingerprint, now) is not None,
        )

    def _untold(self, alert: Alert, routes: Iterable[Route]) -> dict[str, tuple[str, ...]]:
        """By receiver the targets that have not taken it; a receiver that has no target has none."""
        untold: dict[str, tuple[str, ...]] = {}
        for route in routes:
            group = self.grouping.find(route.receiver, group_key(route, route.group_labels(alert.labels)))
            took = {target for _, target, _ in group.heard(alert.fingerprint)} if group else set()
            targets = [target.name for target in self.receivers.get(route.receiver, ())]
            missing = [name for name in targets if name not in took]
            if missing or not targets:
                untold[route.receiver] = tuple(dict.fromkeys((*untold.get(route.receiver, ()), *missing)))
        return untold

    # What people do

    def silence(self, wanted: Silence, now: float) -> Silence:
        """Make or change a silence. Raises Unknown or ValueError."""
        made = self.silences.set(wanted, now, self._new_id())
        who, why = shown(made.created_by), shown(made.comment)
        self._say(f"silence {made.id} of {written(made.matchers)} until {iso(made.ends_at)} by {who}: {why}")
        return made

    def end_silence(self, silence_id: str, now: float) -> None:
        """End one now. Raises Unknown."""
        made = self.silences.expire(silence_id, now)
        self._say(f"silence {made.id} of {written(made.matchers)} was ended")

    def ack(self, fingerprints: Iterable[str], author: str, reason: str, now: float, seconds: float) -> list[Ack]:
        """Ack what fires of these. Raises ValueError where none does, or for what is no ack."""
        made = []
        for name in fingerprints:
            if name in self.grouping.firing:
                alert, _ = self.grouping.firing[name]
                one = Ack(
                    fingerprint=name,
                    author=author,
                    reason=reason,
                    created_at=now,
                    expires_at=now + seconds,
                    labels=alert.labels,
                )
                self.acks.set(one)
                made.append(one)
                about = " ".join(f"{key}={value}" for key, value in alert.labels)
                self._say(f"ack of {shown(about)} until {iso(one.expires_at)} by {shown(author)}: {shown(reason)}")
        if not made:
            raise ValueError("no such alert fires")
        return made

    # Links in messages

    def links(self, receiver: str, group_key: str, now: float) -> tuple[str, str]:
        """The links of a group's message: to ack, to silence."""
        base = self._wording.external_url.rstrip("/")
        if not base:
            return "", ""
        name, end = signed.group_id(receiver, group_key), int(now + signed.LASTS)
        ack, silence = (signed.sign(Link(action, name, end), self._link_key) for action in ("ack", "silence"))
        return f"{base}/act/{ack}", f"{base}/act/{silence}"

    def allowed(self, text: str, now: float) -> tuple[Link, Group | None]:
        """What a signed link allows, and of which group; None where that has ended. Raises ValueError."""
        link = signed.verify(text, self._link_key, now)
        for group in self.grouping.groups():
            if signed.group_id(group.route.receiver, group.key) == link.group:
                return link, group
        return link, None

    # Drills

    def drill(self, labels: Labels, now: float, seconds: float) -> Drill:
        """An alert that says that it is none, on its way to whoever hears of these labels; it ends after so long."""
        drill_id = secrets.token_hex(4)
        pairs = labels_of({"alertname": DRILL_NAME, "severity": "page", **dict(labels), DRILL: drill_id})
        wait = max(route.group_wait for route in walk(self.route))
        alert = Alert(
            labels=pairs,
            annotations=labels_of({"summary": "[DRILL] the way of an alert is tried out"}),
            fingerprint=fingerprint(pairs),
            state="firing",
            value=1.0,
            active_at=now,
            fired_at=now - wait,  # it speaks at once: it has waited already, as far as groups know
        )
        self._drills[drill_id] = alert, now + seconds
        self.grouping.insert([alert], now)
        return self._drilled(alert, now)

    def drilled(self, drill_id: str, now: float) -> Drill | None:
        """What became of a drill; None of one that has ended."""
        found = self._drills.get(drill_id)
        return self._drilled(found[0], now) if found else None

    def end_drill(self, drill_id: str, now: float) -> None:
        """The drill's alert ends."""
        alert, _ = self._drills.pop(drill_id)
        self.grouping.insert([msgspec.structs.replace(alert, state="resolved", resolved_at=now)], now)

    def _drilled(self, alert: Alert, now: float) -> Drill:
        standing = self.standing(alert, now)
        why = [self.silences.why(alert, now), *standing.muted_by]
        return Drill(
            id=dict(alert.labels)[DRILL],
            at=alert.active_at,
            receivers=standing.receivers,
            targets=tuple(target.name for name in standing.receivers for target in self.receivers.get(name, ())),
            told=tuple(self.grouping.heard(alert.fingerprint)),
            muted="; ".join(filter(None, why)),
        )
