"""What polls of Redis consumer groups may say, and what comes of it."""

from __future__ import annotations

import pytest

from collector.formats.groups import RedisGroups

AT = 1.79e9


def polled(info: object, **pending: object) -> list[str]:
    """The kinds of the facts of one entry after a poll that says this of its group and of its delivery."""
    groups = RedisGroups()
    groups.sent("orders", "5-0", "t")
    one = {"message_id": "5-0", "consumer": "c", "time_since_delivered": 10, "times_delivered": 1, **pending}
    told = {"groups": [{"info": info, "consumers": [{"name": "c", "idle": 0}], "pending": [one]}]}
    return [moved.kind for moved in groups.polled("orders", told, AT)]


READ = {"last-delivered-id": "5-0"}


@pytest.mark.parametrize("count", [5_000, 3_000_000])
def test_deliveries_are_bounded(count: int) -> None:
    """However often an entry is said to have been delivered, only so many of its tries are told of."""
    assert polled(READ, times_delivered=count).count("started") == 1000


@pytest.mark.parametrize("count", ["3000000", "9" * 5000])
def test_deliveries_of_the_dead_are_bounded(count: str) -> None:
    """So it is with what a dead letter says of its deliveries, however long the number is."""
    groups = RedisGroups()
    groups.sent("orders", "5-0", "t")
    kinds = [moved.kind for moved in groups.died("orders", "5-0", count, AT)]
    assert kinds.count("started") == 1000


@pytest.mark.parametrize("info", [None, "x", 7, ["last-delivered-id", "5-0"], True])
def test_a_group_without_its_description_says_nothing(info: object) -> None:
    """Where the description is no mapping it is not known what was delivered."""
    assert polled(info) == []


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e300, None, "7", []])
@pytest.mark.parametrize("field", ["times_delivered", "time_since_delivered"])
def test_what_is_no_number_of_ours_counts_as_0(field: str, value: object) -> None:
    """Numbers that are too large to reckon with, and what is none, are read as 0."""
    assert polled(READ, **{field: value}) == ([] if field == "times_delivered" else ["started"])
