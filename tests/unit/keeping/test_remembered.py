"""Silences, acks and the key of links over a restart."""

from __future__ import annotations

from collector.keeping.remembered import Remembered
from collector.routing.acks import Acks
from collector.routing.keeping import Ack, Silence
from collector.routing.matchers import parse_matchers
from collector.routing.silences import Silences
from collector.state.store import open_store

SILENCE = Silence(
    id="",
    matchers=parse_matchers('task=~"pay.*",queue!="x"'),
    starts_at=10,
    ends_at=100,
    created_by="me",
    comment="known",
)


def test_they_are_there_again(tmp_path) -> None:
    """What was made is read back as it was, what was let go is gone, and links of before still hold."""
    store = open_store(tmp_path, "1")
    kept = Remembered(store)
    silences, acks = Silences(kept), Acks(kept)
    made = silences.set(SILENCE, 5, "one")
    silences.set(SILENCE, 5, "two")
    silences.expire("two", 20)
    for name in ("a", "b"):
        acks.set(Ack(fingerprint=name, author="ann", created_at=1, expires_at=50, labels=(("x", "y"),)))
    acks.end("b")
    key = kept.link_key()
    assert store.close()
    store = open_store(tmp_path, "2")
    kept = Remembered(store)
    silences, acks = Silences(kept), Acks(kept)
    again = silences.get("one")
    assert [(one.name, one.op, one.value) for one in again.matchers] == [
        (one.name, one.op, one.value) for one in made.matchers
    ]
    assert (again.starts_at, again.ends_at, again.comment) == (10, 100, "known")
    assert again.matchers[1].matches("pay.settle") or again.matchers[0].matches("pay.settle")
    assert silences.get("two").state(20) == "expired"
    assert [(one.fingerprint, one.author, one.labels) for one in acks.listed(2)] == [("a", "ann", (("x", "y"),))]
    assert kept.link_key() == key
    store.close()


def test_a_damaged_row_hides_no_other(tmp_path) -> None:
    """Rows that say nothing are passed over."""
    store = open_store(tmp_path, "1")
    kept = Remembered(store)
    Silences(kept).set(SILENCE, 5, "one")
    store.put("INSERT INTO silences VALUES ('bad', 1, ?)", b"{}")
    store.put("INSERT INTO acks VALUES ('bad', ?)", b"[")
    assert store.close()
    store = open_store(tmp_path, "2")
    assert [one.id for one in Remembered(store).silences()] == ["one"]
    assert list(Remembered(store).acks()) == []
    store.close()
