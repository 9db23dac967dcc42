"""Delivery in a time that jumps: hours of retries in milliseconds, on a real loop whose clock is set by hand."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import pytest

from collector.model.alert import Alert, Notification
from collector.model.errors import ChannelError
from collector.model.labels import labels_of
from collector.shell.delivery import Delivery, DeliverySettings

START = 1_790_000_000.0


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop that never waits: when nothing is ready its clock goes to the next timer."""

    def __init__(self):
        super().__init__()
        self.at = 0.0

    def time(self):
        """Seconds, as far as the loop has come."""
        return self.at

    def _run_once(self):
        if not self._ready:
            times = [timer.when() for timer in self._scheduled if not timer.cancelled()]
            assert times, "the loop waits for something that never comes"
            self.at = max(self.at, min(times))
        super()._run_once()


class LoopClock:
    """The loop's time as the daemon's clock."""

    def now(self):
        """Unix seconds."""
        return START + asyncio.get_running_loop().time()

    def monotonic(self):
        """Seconds of the loop."""
        return asyncio.get_running_loop().time()


class Target:
    """A channel with a script: None takes, an error refuses, a number hangs for so long. The last one stays."""

    def __init__(self, name, *script, spacing=0.0):
        self.name = name
        self.spacing_seconds = spacing
        self.script = list(script) or [None]
        self.got = []  # (second, key) of each try
        self.taken = []
        self.closed = False

    async def send(self, notification):
        """One try."""
        self.got.append((round(asyncio.get_running_loop().time(), 3), notification.key))
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            await asyncio.sleep(answer)
        self.taken.append(notification.key)

    async def close(self):
        """Closed."""
        self.closed = True


class Ledger:
    """Book and report in one: keeps everything that it is told."""

    def __init__(self):
        self.lines = []
        self.confirmed = []
        self.released = []

    def sent(self, target, notification, tries, seconds):
        """Kept."""
        self.lines.append(("sent", target, notification.key, tries, round(seconds, 3)))

    def retrying(self, target, notification, error, wait_seconds):  # noqa: ARG002
        """Kept."""
        self.lines.append(("retrying", target, notification.key, wait_seconds))

    def dropped(self, target, notification, reason):
        """Kept."""
        self.lines.append((reason, target, notification.key))

    def broken(self, target, error):  # noqa: ARG002
        """Kept."""
        self.lines.append(("broken", target))

    def mended(self, target):
        """Kept."""
        self.lines.append(("mended", target))

    def confirm(self, notification, now):  # noqa: ARG002
        """Kept."""
        self.confirmed.append((notification.target, notification.key))

    def release(self, notification, now, *, refused=False):  # noqa: ARG002
        """Kept."""
        self.released.append((notification.target, notification.key, refused))

    def said(self, *kinds):
        """The lines of these kinds."""
        return [line for line in self.lines if line[0] in kinds]


class World:
    """Targets, their delivery and its ledger, running."""

    def __init__(self, *targets, chance=1.0, **settings):
        self.targets = {target.name: target for target in targets}
        self.ledger = Ledger()
        self.delivery = Delivery(
            self.targets,
            self.ledger,
            self.ledger,
            clock=LoopClock(),
            settings=DeliverySettings(**settings),
            chance=lambda: chance,
        )

    def submit(self, key, group="g", status="firing", severity="page", to=None):
        """A notification for one target, or a copy for each."""
        labels = labels_of({"alertname": "A", "severity": severity})
        alert = Alert(labels=labels, annotations=(), fingerprint=key, state=status, value=1, active_at=START)
        notification = Notification(
            key=key,
            at=START,
            receiver="default",
            status=status,
            group_labels=(),
            common_labels=labels,
            common_annotations=(),
            alerts=(alert,),
            title=key,
            text=key,
            group_key=group,
        )
        for target in [to] if to else self.targets:
            self.delivery.submit(msgspec.structs.replace(notification, target=target))

    async def __aenter__(self):
        self.running = asyncio.create_task(self.delivery.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        if self.delivery.closes_at is None:
            await self.delivery.drain(0)
        await self.running


def told(story):
    """Turn a story in virtual time into a plain test."""

    def run():
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(story())

    run.__name__, run.__doc__ = story.__name__, story.__doc__
    return run


def busy(seconds=None):
    """A refusal for now."""
    return ChannelError("busy", retryable=True, retry_after=seconds)


def gone():
    """A refusal for good."""
    return ChannelError("404", retryable=False)


@told
async def test_sent_and_written_down():
    """What a target takes is reported and confirmed once, with the time it took."""
    async with World(Target("a")) as world:
        world.submit("n1")
        await asyncio.sleep(1)
        assert world.ledger.lines == [("sent", "a", "n1", 1, 0.0)]
        assert world.ledger.confirmed == [("a", "n1")]
        assert world.delivery.waiting() == {"a": 0}


@pytest.mark.case("K02.2")
@told
async def test_four_targets():
    """A takes it once, B after the 20 s that it asks for, D at the third try; C refuses, and the others are told."""
    a, b, c, d = Target("a"), Target("b", busy(20), None), Target("c", gone()), Target("d", busy(), busy(), None)
    async with World(a, b, c, d) as world:
        world.submit("n1")
        await asyncio.sleep(3600)
        others = [key for key in a.taken if key != "n1"]
        assert a.taken == ["n1", *others]
        assert [at for at, key in b.got if key == "n1"] == [0.0, 20.0]
        assert [key for _, key in c.got] == ["n1"]
        assert [at for at, _ in d.got][:3] == [0.0, 1.0, 3.0]
        assert d.taken.count("n1") == 1
        assert len(others) == 1
        assert b.taken.count(others[0]) == d.taken.count(others[0]) == 1
        assert world.ledger.said("broken", "refused") == [("refused", "c", "n1"), ("broken", "c")]
        assert world.ledger.released == [("c", "n1", True)]


@told
async def test_broken_target_is_told_on_once():
    """However often a target refuses, the others hear of it once, and once more when it takes something again."""
    a, c = Target("a"), Target("c", gone(), gone(), None)
    async with World(a, c) as world:
        for number in range(3):
            world.submit(f"n{number}", group=f"g{number}", to="c")
            await asyncio.sleep(600)
        assert len(a.taken) == 2
        assert world.ledger.said("broken", "mended") == [("broken", "c"), ("mended", "c")]
        assert c.taken == ["n2"]


@told
async def test_hanging_target_delays_nobody():
    """One target hangs for hours; the other gets every notification at once."""
    a, b = Target("a"), Target("b", 10_000.0)
    async with World(a, b, try_seconds=20) as world:
        for second in range(60):
            world.submit(f"n{second}", group=f"g{second}")
            await asyncio.sleep(1)
        assert [at for at, _ in a.got] == list(range(60))
        assert b.taken == []
        assert world.ledger.said("retrying")[0] == ("retrying", "b", "n0", 1.0)


@pytest.mark.case("K04.2")
@told
async def test_down_for_two_hours():
    """A target that is away is not hammered, and keeps none from another, which has each within two seconds.

    What is too old leaves by its deadline and goes back to its group.
    """
    a, b = Target("a"), Target("b", busy())
    async with World(a, b) as world:
        for minute in range(120):
            world.submit(f"n{minute}", group=f"g{minute}")
            await asyncio.sleep(60)
        assert len(a.taken) == 120
        assert all(at <= 60 * minute + 2 for minute, (at, _) in enumerate(a.got))
        assert len(b.got) < 200
        expired = [key for _, _, key in world.ledger.said("expired")]
        assert expired == [f"n{minute}" for minute in range(len(expired))]
        assert len(expired) >= 59
        assert world.ledger.released == [("b", key, False) for key in expired]
        b.script = [None]
        await asyncio.sleep(120)
        expired = [key for _, _, key in world.ledger.said("expired")]
        assert set(b.taken) == {f"n{minute}" for minute in range(len(expired), 120)}
        assert world.delivery.waiting() == {"a": 0, "b": 0}


@told
async def test_who_reaches_nobody():
    """One that refuses for good is broken at once, one that is away after a minute; neither once it takes again."""
    a, b, c = Target("a"), Target("b", busy()), Target("c", gone())
    async with World(a, b, c) as world:
        world.submit("n")
        await asyncio.sleep(30)
        assert world.delivery.broken() == {"c"}
        await asyncio.sleep(31)
        assert world.delivery.broken() == {"b", "c"}
        b.script, c.script = [None], [None]
        world.submit("m")
        await asyncio.sleep(120)
        assert world.delivery.broken() == set()


@pytest.mark.case("K04.2")
@told
async def test_comes_back_in_order():
    """When a target is back the rest goes out at once and in order."""
    b = Target("b", busy())
    async with World(b) as world:
        for number in range(20):
            world.submit(f"n{number}", group=f"g{number}")
        await asyncio.sleep(300)
        b.script = [None]
        await asyncio.sleep(120)
        first, *rest = b.taken
        assert rest == [f"n{number}" for number in range(20) if f"n{number}" != first]
        assert len({at for at, key in b.got if key in rest and at > 300}) <= 2


@told
async def test_waits_grow_to_a_limit():
    """The waits double up to the longest, and each is a random part of that."""
    for chance, waits in ((1.0, [1, 2, 4, 8, 16, 32, 60, 60]), (0.5, [0.5, 1, 2, 4, 8, 16, 30, 30])):
        async with World(Target("a", busy()), chance=chance) as world:
            world.submit("n1")
            await asyncio.sleep(600)
            assert [line[3] for line in world.ledger.said("retrying")][:8] == waits


@told
async def test_newer_replaces_older_after_a_failure():
    """While a target fails only the newest word of each group waits, at the older one's place."""
    a = Target("a", busy(30), None)
    async with World(a) as world:
        world.submit("n1", group="g1")
        world.submit("other", group="g2")
        await asyncio.sleep(1)
        world.submit("n2", group="g1", status="resolved")
        assert world.ledger.said("superseded") == [("superseded", "a", "n1")]
        await asyncio.sleep(60)
        assert a.taken == ["n2", "other"]
        assert world.ledger.released == []


@told
async def test_newer_that_came_during_the_try():
    """A notification that fails while its group has said something newer is not tried again."""
    a = Target("a", 5.0, None)
    async with World(a, try_seconds=1) as world:
        world.submit("n1")
        await asyncio.sleep(0.5)
        world.submit("n2")
        await asyncio.sleep(60)
        assert [key for _, key in a.got] == ["n1", "n2"]
        assert world.ledger.said("superseded") == [("superseded", "a", "n1")]


@told
async def test_healthy_target_hears_every_word():
    """A target that only is slow hears start and end of a group, both, in order."""
    a = Target("a", 5.0)
    async with World(a) as world:
        world.submit("n0", group="g0")
        world.submit("n1")
        world.submit("n2", status="resolved")
        await asyncio.sleep(60)
        assert a.taken == ["n0", "n1", "n2"]


@told
async def test_full_queue():
    """A full queue drops the least urgent first, then what has ended, then the oldest, and gives each back."""
    a = Target("a", 10.0)
    async with World(a, queue_size=3) as world:
        world.submit("on the wire", group="w")
        await asyncio.sleep(1)
        world.submit("ended", group="g1", status="resolved")
        world.submit("info", group="g2", severity="info")
        world.submit("old", group="g3")
        for number in range(3):
            world.submit(f"n{number}", group=f"h{number}")
        assert [key for _, _, key in world.ledger.said("overflow")] == ["info", "ended", "old"]
        assert [key for _, key, _ in world.ledger.released] == ["info", "ended", "old"]
        world.submit("newer", group="h0")
        assert world.ledger.said("superseded") == [("superseded", "a", "n0")]
        assert world.delivery.waiting() == {"a": 4}


@pytest.mark.case("K04.2")
@told
async def test_full_queue_of_pairs():
    """Before anything is lost for want of room, the oldest start whose end waits too is merged into that end."""
    a = Target("a", 10.0)
    async with World(a, queue_size=3) as world:
        world.submit("on the wire", group="w")
        await asyncio.sleep(1)
        world.submit("alone", group="g0", severity="info")
        world.submit("began", group="g1")
        world.submit("ended", group="g1", status="resolved")
        world.submit("other", group="g2")
        assert world.ledger.said("merged", "overflow") == [("merged", "a", "began")]
        assert world.ledger.released == []
        await asyncio.sleep(60)
        assert a.taken == ["on the wire", "alone", "ended", "other"]


@told
async def test_one_that_the_target_cannot_stand():
    """A message that fails again and again does not hold up the others."""

    class Picky(Target):
        async def send(self, notification):
            """Cannot stand one of them."""
            if notification.key == "poison":
                self.got.append((0, "poison"))
                raise busy()
            await super().send(notification)

    a = Picky("a")
    async with World(a) as world:
        world.submit("poison", group="p")
        for number in range(100):
            world.submit(f"n{number}", group=f"g{number}")
        await asyncio.sleep(60)
        assert len(a.taken) == 100
        assert 2 <= a.got.count((0, "poison")) <= 20


@told
async def test_spacing():
    """Sends to one target keep its distance, and nothing is lost by that."""
    a = Target("a", spacing=1.0)
    async with World(a) as world:
        for number in range(60):
            world.submit(f"n{number}", group=f"g{number}")
            await asyncio.sleep(10 / 60)
        await asyncio.sleep(60)
        assert len(a.taken) == 60
        assert all(later - earlier >= 1.0 for (earlier, _), (later, _) in itertools.pairwise(a.got))


@told
async def test_no_target():
    """A notification for nobody is dropped, and its group does not offer it again and again."""
    async with World() as world:
        world.submit("n1", to="nobody")
        assert world.ledger.lines == [("no_target", "nobody", "n1")]
        assert world.ledger.released == [("nobody", "n1", True)]


@told
async def test_drain_sends_what_is_queued():
    """Draining tries what is queued, takes nothing more, closes the channels and leaves nothing."""
    a = Target("a", 1.0)
    async with World(a) as world:
        for number in range(3):
            world.submit(f"n{number}", group=f"g{number}")
        assert await world.delivery.drain(10) == {"a": 0}
        assert a.taken == ["n0", "n1", "n2"]
        assert a.closed
        assert asyncio.get_running_loop().time() < 4
        world.submit("late")
        assert world.ledger.said("stopping") == [("stopping", "a", "late")]


@told
async def test_drain_has_a_deadline():
    """A hanging target and a failing one end with the deadline; what is left is reported, and not as told."""
    a, b = Target("a", 10_000.0), Target("b", busy(5))
    async with World(a, b) as world:
        world.submit("n1", group="g1")
        world.submit("n2", group="g2")
        await asyncio.sleep(1)
        assert await world.delivery.drain(3) == {"a": 2, "b": 2}
        assert asyncio.get_running_loop().time() == pytest.approx(4)
        assert len(world.ledger.said("stopping")) == 4
        assert world.ledger.confirmed == []


@told
async def test_drain_does_not_wait_in_vain():
    """Where the next try would come after the deadline, draining ends at once."""
    async with World(Target("a", busy(300))) as world:
        world.submit("n1")
        await asyncio.sleep(1)
        assert await world.delivery.drain(8) == {"a": 1}
        assert asyncio.get_running_loop().time() == pytest.approx(1)


@told
async def test_drain_survives_a_channel_that_does_not_close():
    """A channel that hangs while it is closed holds up the end by a second, not more."""

    class Clinging(Target):
        async def close(self):
            """Never ends."""
            await asyncio.sleep(10_000)

    async with World(Clinging("a")) as world:
        await world.delivery.drain(5)
        assert asyncio.get_running_loop().time() == pytest.approx(1)


@told
async def test_bug_is_loud():
    """An error that no channel may raise ends delivery; it is not retried."""
    world = World(Target("a", KeyError("bug")))
    running = asyncio.create_task(world.delivery.run())
    await asyncio.sleep(0)
    world.submit("n1")
    with pytest.raises(ExceptionGroup) as caught:
        await running
    assert caught.group_contains(KeyError)
    assert await world.delivery.drain(1) == {"a": 1}


@told
async def test_tasks_are_named_and_end():
    """Every worker's task has its target's name, and none is left when delivery has ended."""
    async with World(Target("a"), Target("b")):
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert {"deliver a", "deliver b"} <= names
    assert len(asyncio.all_tasks()) == 1
