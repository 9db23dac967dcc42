"""A long queue: what of it is in memory, what on the disk, and what leaves where there is no room."""

from __future__ import annotations

import random

import pytest

from collector.model.alert import Alert, Notification
from collector.model.labels import labels_of
from collector.shell.sendqueue import AT_HAND, Item, SendQueue


def item(number: int, severity: str = "page", *, row: bool = True) -> Item:
    """One of its own group."""
    labels = labels_of({"alertname": "A", "severity": severity})
    alert = Alert(labels=labels, annotations=(), fingerprint=f"{number}", state="firing", value=1, active_at=0)
    said = Notification(
        key=f"{number}",
        at=0,
        receiver="r",
        status="firing",
        group_labels=labels,
        common_labels=labels,
        common_annotations=(),
        alerts=(alert,),
        title=f"title {number}",
        text="text",
        group_key=f"{number}",
        target="t",
    )
    made = Item(said, number, 0.0, 3_600.0)
    made.row = number if row else None
    return made


def whole(queue: SendQueue) -> int:
    """How many are held whole."""
    return sum(one.is_whole for one in queue.items)


def test_only_the_first_are_held_whole() -> None:
    """Ten thousand wait, of a thousand alerts and texts are in memory; of the others what is said when they leave."""
    queue = SendQueue(20_000)
    for number in range(10_000):
        assert queue.put(item(number), is_only_word=False) == []
        queue.shorten(lambda row, number=number: row < number)  # the disk has all but the last
    assert (len(queue), whole(queue)) == (10_000, AT_HAND + 1)
    assert all(one.is_whole for one in queue.items[:AT_HAND])
    last = queue.items[-2].notification
    assert (last.key, last.target, last.group_key, last.title, last.alerts) == ("9998", "t", "9998", "title 9998", ())


@pytest.mark.parametrize("row", [True, False])
def test_what_the_disk_has_not_stays_whole(*, row: bool) -> None:
    """Nothing is left to a disk that has not taken it, or to none."""
    queue = SendQueue(20_000)
    for number in range(AT_HAND + 500):
        queue.put(item(number, row=row), is_only_word=False)
        queue.shorten(lambda _: not row)
    assert whole(queue) == AT_HAND + 500


def test_the_one_that_is_under_way_stays_whole() -> None:
    """What is taken out to be sent keeps its alerts, though the disk has it."""
    queue = SendQueue(20_000)
    for number in range(AT_HAND + 2):
        queue.put(item(number), is_only_word=False)
    sent = queue.items[-1]
    queue.remove(sent)
    queue.shorten(lambda _: True)
    assert (sent.is_whole, queue.items[-1].is_whole) == (True, False)


def test_the_least_leaves_whatever_came_and_went() -> None:
    """Where there is no room the least urgent of those that wait leaves, then the oldest, also after many moves."""
    chance = random.Random(5)
    queue = SendQueue(50)
    for number in range(2_000):
        before = list(queue.items)
        made = item(number, chance.choice(("page", "warning", "info")))
        left = queue.put(made, is_only_word=False)
        if left:
            ((gone, reason),) = left
            assert (gone, reason) == (min([*before, made], key=lambda one: one.worth), "overflow")
        if len(queue) > 40 and chance.random() < 0.3:
            taken = chance.choice(queue.items)
            queue.remove(taken)
            if chance.random() < 0.5:
                queue.add(taken)
    assert len(queue) <= 50


def test_many_that_expire_at_once_leave_in_parts() -> None:
    """No step of the loop is as long as the queue."""
    queue = SendQueue(20_000)
    for number in range(250):
        queue.put(item(number), is_only_word=False)
    assert queue.expire(3_599.0) == []
    assert [len(queue.expire(3_600.0)) for _ in range(4)] == [100, 100, 50, 0]
