"""The loop over events: what is counted, what is rejected, and what becomes of a record that our own code fails on."""

from __future__ import annotations

import pytest

from collector.formats import Decoded, native
from collector.model.record import Batch, Outcome, Refusals
from collector.series.expose import totals
from collector.shell.ingest import CHUNK, CHUNK_BYTES, MOST_TOLD, chunks
from collector.shell.pipeline import Pipeline
from collector.trail.stitcher import Stitcher
from tests.unit.parts import T0, batch, event, pipeline

DECODE = native.decode
NOW = T0 + 10


def count(made: Pipeline, bodies: list[bytes]) -> Outcome:
    """Ingest bodies of one place."""
    return made.ingest.count(made.axes[0], DECODE, batch(bodies), NOW)


def numbers(outcome: Outcome) -> tuple[int, int, int, int, int]:
    """The five numbers of an outcome."""
    return outcome.read, outcome.accepted, outcome.duplicate, outcome.malformed, outcome.ignored


def test_every_event_has_one_outcome() -> None:
    """What was read is accepted, duplicate, malformed or ignored, and the totals of the source add it up."""
    made = pipeline()
    sent = event("sent", "1", T0)
    bodies = [sent, sent, b"{", b'{"kind":"heartbeat","worker":"w"}', b"[%b,%b]" % (sent, event("started", "1", T0))]
    assert numbers(count(made, bodies)) == (6, 2, 2, 1, 1)
    count(made, [event("succeeded", "1", T0)])
    assert numbers(made.axes[0].totals) == (7, 3, 2, 1, 1)
    assert made.telemetry.get("tasktrail_events", ("s", "accepted")) == 3


def test_what_a_worker_had_to_drop_is_a_gap() -> None:
    """The label `dropped` of a heartbeat puts a hole with its size on record; what is no number of events does not."""
    made = pipeline()
    told = [{"dropped": "12"}, {"dropped": "-3"}, {"dropped": "1" * 30}, {"dropped": "x"}, {"other": "4"}, None]
    count(made, [event("heartbeat", "", worker="w1", labels=labels) for labels in told])
    count(made, [event("started", "1", T0, labels={"dropped": "5"})])
    ((gap, size),) = [(gap, gap.estimate) for gap in made.axes[0].gaps]
    assert (gap.reason, gap.place, size) == ("dropped_by_worker", "p from w1", 12)
    assert made.telemetry.get("tasktrail_source_missed_records", ("s",)) == 12


def test_a_rejected_record_is_kept_with_its_place_and_beginning() -> None:
    """A record that is no event is set aside by reason, with its receipt and first bytes, secrets masked."""
    made = pipeline()
    count(made, [event("sent", "1", T0), b'{"kind":"sent","password":"hunter2"}'])
    (rejected,) = made.telemetry.rejected
    assert (rejected.source, rejected.place, rejected.receipt, rejected.reason) == ("s", "p", "2", "missing_id")
    assert "hunter2" not in rejected.first_bytes
    assert rejected.first_bytes.startswith('{"kind":"sent"')
    assert made.telemetry.get("tasktrail_rejected", ("s", "missing_id")) == 1


def test_a_rejected_record_without_a_body_begins_with_its_fields() -> None:
    """Of a stream entry of plain fields they are shown, secrets masked, whatever bytes are in them."""
    made = pipeline()
    fields = {"status": "begun", "password": "hunter2", "who": "\udcff"}
    made.ingest.count(
        made.axes[0],
        native.decode,
        Batch(source="s", place="p", bodies=[b""], receipts=["1-0"], received_at=T0, fields=[fields]),
        NOW,
    )
    (rejected,) = made.telemetry.rejected
    assert rejected.first_bytes == '{"status": "begun", "password": ***, "who": "?"}'


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline whose stitcher fails on the task `poison`."""
    stitch = Stitcher.stitch

    def failing(self, source, application, events, ats, out, channel=""):
        for number, one in enumerate(events):
            if one.task_id.startswith("poison"):
                stitch(self, source, application, events[:number], ats[:number], out)
                raise ZeroDivisionError(f"on token=abcdef123 of {one.task_id}")
        return stitch(self, source, application, events, ats, out)

    monkeypatch.setattr(Stitcher, "stitch", failing)
    return pipeline()


def test_a_record_that_our_own_code_fails_on_is_stepped_over(poisoned: Pipeline) -> None:
    """The culprit is set aside as internal_error; all others of its batch count once and are reported as accepted."""
    bodies = [event("started", name, T0) for name in ("1", "poison-a", "2", "poison-b", "3")]
    assert numbers(count(poisoned, [b"{", *bodies])) == (6, 3, 0, 3, 0)
    poisoned.ingest.observe()
    assert totals(poisoned.store)["a"]["started"] == 3
    reasons = [(one.reason, one.receipt) for one in poisoned.telemetry.rejected]
    assert reasons == [("not_json", "1"), ("internal_error", "3"), ("internal_error", "5")]


def test_a_culprit_of_a_list_is_found_by_its_body(poisoned: Pipeline) -> None:
    """Where events are not one to one with bodies the culprit's own body is set aside."""
    listed = b"[%b,%b]" % (event("sent", "1", T0), event("sent", "2", T0))
    count(poisoned, [listed, event("sent", "poison", T0)])
    assert [one.receipt for one in poisoned.telemetry.rejected] == ["2"]


def test_a_culprit_has_its_traceback_without_secrets(poisoned: Pipeline) -> None:
    """What is set aside as internal_error has the error and the traceback, and shows no secret."""
    count(poisoned, [event("sent", "poison", T0)])
    (rejected,) = poisoned.telemetry.rejected
    assert "Traceback" in rejected.traceback
    assert "ZeroDivisionError" in rejected.detail
    assert "abcdef123" not in rejected.traceback + rejected.detail


def test_duplicates_behind_a_culprit_stay_duplicates(poisoned: Pipeline) -> None:
    """The second time through a batch an event that was there before the batch is a duplicate."""
    count(poisoned, [event("sent", "1", T0)])
    assert numbers(count(poisoned, [event("sent", "poison", T0), event("sent", "1", T0)])) == (2, 0, 1, 1, 0)


def failing(batch: Batch) -> Decoded:
    """A decoder with a bug."""
    if any(b"bug" in body for body in batch.bodies):
        raise ZeroDivisionError("on token=abcdef123")
    return DECODE(batch)


def test_a_record_that_a_decoder_fails_on_is_stepped_over() -> None:
    """The culprit is set aside as internal_error with its traceback; all others of its batch have their outcome."""
    made = pipeline()
    sent = event("sent", "1", T0)
    listed = b"[%b,%b]" % (event("started", "1", T0), event("sent", "2", T0))
    bodies = [sent, b"bug-a", b"{", listed, b"bug-b", sent, b'{"kind":"heartbeat","worker":"w"}']
    refusals = Refusals()
    whole = batch(bodies, position=7)
    outcome = made.ingest.count(made.axes[0], failing, whole, NOW, refusals)
    assert numbers(outcome) == numbers(made.axes[0].totals) == (8, 3, 1, 3, 1)
    reasons = {one.receipt: (one.reason, "ZeroDivisionError" in one.traceback) for one in made.telemetry.rejected}
    assert reasons == {"2": ("internal_error", True), "3": ("not_json", False), "5": ("internal_error", True)}
    assert refusals.reasons == {"internal_error": 2, "not_json": 1}
    assert "abcdef123" not in "".join(one.traceback + one.detail for one in made.telemetry.rejected)
    assert made.axes[0].places["p"].position == 7


def test_decisions_are_observed() -> None:
    """What trails decide when the frontier comes is counted like what events say."""
    made = pipeline()
    count(made, [event("succeeded", "1", T0), event("started", "1", T0 + 1, attempt=1)])
    while made.ingest.expire(T0 + 60):
        pass
    assert totals(made.store)["a"]["redelivered"] == 1


def test_what_was_not_read_whole_counts_as_malformed() -> None:
    """A body that was refused before it was read counts as one malformed event with its first bytes."""
    made = pipeline()
    from_axis = made.axes[0]
    made.ingest.refuse(from_axis, "push", b'{"kind"', DECODE(batch([b""])).rejects[0], NOW)
    assert numbers(from_axis.totals) == (1, 0, 0, 1, 0)
    assert made.telemetry.rejected[0].first_bytes == '{"kind"'


def test_a_large_batch_is_counted_in_short_steps() -> None:
    """Chunks hold all records in order with what belongs to each; only the last one has the head and the position."""
    size = 2 * CHUNK + 1
    fields = [{"n": str(number)} for number in range(size)]
    whole = batch(
        [b"%d" % number for number in range(size)],
        times=[float(number) for number in range(size)],
        fields=fields,
        is_head=True,
        position=99,
    )
    parts = list(chunks(whole))
    assert [len(part.bodies) for part in parts] == [CHUNK, CHUNK, 1]
    assert [body for part in parts for body in part.bodies] == whole.bodies
    assert [one for part in parts for one in part.fields or ()] == fields
    assert [at for part in parts for at in part.times or ()] == whole.times
    assert [receipt for part in parts for receipt in part.receipts] == whole.receipts
    assert [(part.is_head, part.position) for part in parts] == [(False, None), (False, None), (True, 99)]


def test_a_small_batch_is_one_chunk() -> None:
    """A batch of at most a chunk is taken as it is."""
    small = batch([b"x"])
    assert list(chunks(small)) == [small]
    bare = batch([b"x"] * (CHUNK + 1))
    assert [part.times for part in chunks(bare)] == [None, None]


def test_large_records_are_counted_a_few_at_a_time() -> None:
    """A step is bounded in bytes, too; a record beyond that is a step by itself, and nothing is left out."""
    sizes = [CHUNK_BYTES // 2, CHUNK_BYTES // 2, 1, 3 * CHUNK_BYTES, *[1] * (CHUNK + 1)]
    whole = batch([b"x" * size for size in sizes], is_head=True)
    parts = list(chunks(whole))
    assert [body for part in parts for body in part.bodies] == whole.bodies
    assert [len(part.bodies) for part in parts] == [2, 1, 1, CHUNK, 1]
    assert [part.is_head for part in parts] == [False] * 4 + [True]


def test_of_many_bad_records_the_first_are_told_and_all_are_counted() -> None:
    """What is wrong with ten thousand elements of one list is said of a hundred of them, and counted of all."""
    made, refusals = pipeline(), Refusals()
    body = b"[" + b"{}," * 998 + b'{},{"kind":"x","task_id":"1"}]'
    outcome = made.ingest.count(made.axes[0], native.decode, batch([body]), T0, refusals)
    assert outcome == Outcome(read=1000, malformed=1000)
    assert refusals.reasons == {"missing_kind": 999, "unknown_kind": 1}
    assert len(refusals.first) == Refusals.MOST
    assert made.telemetry.get("tasktrail_rejected", ("s", "missing_kind")) == 999
    assert len(made.telemetry.rejected) == MOST_TOLD
