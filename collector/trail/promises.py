"""Deadlines of declared tasks, held against their trails: done in time, overdue, or done after all.

A deadline runs from the first `sent` of a life (or its eta) to its success, retries included. It is decided once for
each life: in time when the success is seen, overdue when the axis has passed the deadline by `grace`. A success after
that is recovered, and takes nothing back: it is found `grace` after it came, since a `sent` between the two would make
it another life's. What the sender's times tell goes before those of the axis.

Costs nothing without contracts; with them, a look-up per trail of a declared task. Emits into its own `out`.
"""

from __future__ import annotations

import heapq

from collector.model.contract import Contracts
from collector.trail.findings.holes import Holes
from collector.trail.keep import Home, Keep
from collector.trail.lifecycle import IS_FINAL, REVOKED, SENT, SUCCEEDED
from collector.trail.rows import Errors, Rows
from collector.trail.settle import Settler
from collector.trail.tally import Life, Placed, lives_of
from collector.trail.terms import Terms
from collector.trail.trail import (
    IN_TIME_LINE,
    M_IRREGULAR,
    M_SENT,
    M_SUCCEEDED,
    Finding,
    Trail,
    facts_of,
    origin,
)
from collector.trail.transitions import (
    IN_TIME,
    LATE_DOWN,
    LATE_UP,
    MEASURES,
    OVERDUE,
    RECOVERED,
    STRIDE,
    TOTAL,
    Array,
    Transitions,
)

_MOST_FOUND = 400
"""Of one trail: more than it has lives whose facts are kept, so that none is judged twice."""
_SKIMMED = 50


class Promises:
    """The deadlines of one stitcher's trails."""

    def __init__(self, rows: Rows, errors: Errors, keep: Keep, settler: Settler, grace: float) -> None:
        self.is_asked = False
        """Whether any task has a deadline."""
        self.out = Transitions()
        """What was decided since it was last cleared."""
        self.holes = Holes()
        self.unseen = 0
        """Deadlines that were not judged: there were too many, or their trail had left or overlaps a hole."""
        self._rows = rows
        self._errors = errors
        self._keep = keep
        self._settler = settler
        self._grace = grace
        self._terms = Terms(rows)
        self._heap: list[tuple[float, int, str]] = []
        self._failed: dict[tuple[int, str], tuple[int, float]] = {}
        """Finished without success, and not judged when they were frozen: row, and when they are due."""
        self._decided = 0.0

    def use(self, contracts: Contracts | None) -> None:
        """Hold what is sent from now on to these contracts. Earlier deadlines are judged by them when they are due."""
        self.is_asked = any(one.deadline is not None for one in self._terms.use(contracts))
        if contracts is not None:
            self._keep.leave = self.leave
        self._settler.is_must = self.is_must if contracts else None

    def is_must(self, row: int) -> bool:
        """Whether what is counted under a row must be completed."""
        return self._terms.of(row).semantics == "must_complete"

    # What the stitcher tells

    def welcome(self, trails: list[Trail]) -> None:
        """New trails: those that have a deadline are looked at when it has passed."""
        for trail in trails:
            deadline = self._terms.of(trail.row).deadline
            if deadline is None or not trail.marks & M_SENT or trail.marks & M_IRREGULAR:
                continue  # of irregular ones `judge` sees to it
            sent_time, sent_at = origin(trail)
            self._arm(trail, sent_at + max(0.0, trail.eta - (sent_time or sent_at)) + deadline + self._grace)

    def watch(self, codes: Array, witnesses: list[str], home: Home) -> None:
        """Look at what was measured: a total tells of an end."""
        totals = (codes % len(MEASURES) == TOTAL).nonzero()[0].tolist()
        for place in totals:
            if self._terms.of(int(codes[place]) // len(MEASURES)).deadline is not None:
                trail = home.open.get(witnesses[place])
                if trail is not None and not trail.marks & M_IRREGULAR and not self._is_flatly_in_time(trail):
                    self.judge(trail)

    def _is_flatly_in_time(self, trail: Trail) -> bool:
        """Whether a flat trail is done in time, which is counted; it is what most of them are."""
        sent_time, sent_at = origin(trail)
        deadline = self._terms.of(trail.row).deadline
        if trail.judged or trail.facts or not trail.marks & M_SUCCEEDED or deadline is None or not sent_time:
            return False
        if not trail.end_time or trail.end_time - max(sent_time, trail.eta) > deadline:
            return False
        trail.judged = trail.end_time
        self.out.count(trail.row, IN_TIME, max(trail.end_at, sent_at))
        return True

    def expire(self, at: float, most: int) -> int:
        """Judge up to so many trails whose deadline has passed by `at`; gives how many were looked at."""
        self._decided = max(self._decided, at)
        looked = 0
        while looked < most and self._heap and self._heap[0][0] <= at:
            _, index, task_id = heapq.heappop(self._heap)
            looked += 1
            self._come_due(index, task_id)
        return looked

    def next_due(self) -> float | None:
        """When the next deadline is judged, axis time; of those that are met, some are passed over."""
        for _ in range(_SKIMMED):
            if not self._heap or not self._is_met(*self._heap[0][1:]):
                break
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_met(self, index: int, task_id: str) -> bool:
        """Whether a trail is over and done in time, as nearly all are."""
        trail = self._keep.look(self._keep.homes[index], task_id)
        return trail is not None and self._is_done(trail)

    def _is_done(self, trail: Trail) -> bool:
        """Whether nothing of a trail is left to decide, nor to follow."""
        if not trail.marks & M_IRREGULAR and not trail.found:
            return trail.judged > 0.0
        if any(one.name != IN_TIME_LINE for one in trail.found or ()):
            return False
        lives = lives_of(facts_of(trail), self._grace)
        return all(sent is None or self._is_decided(trail, life, sent) for life in lives for sent in [_sent(life)])

    def _come_due(self, index: int, task_id: str) -> None:
        home, failed = self._keep.homes[index], self._failed.pop((index, task_id), None)
        trail = self._keep.look(home, task_id)
        if trail is None:
            if failed is None:
                self.unseen += 1
            else:
                self._settler.emit_finding(task_id, index, OVERDUE, failed[0], failed[1], self.out)
            return
        if self._is_done(trail):
            return
        held = home.open.get(task_id) or self._keep.thaw(home, task_id, self._decided)
        if held is not None:
            if self._keep.is_saved:
                home.touched[task_id] = True
            self.judge(held)

    def leave(self, trail: Trail, at: float) -> None:
        """A trail is frozen or goes: what it holds up comes down, and a deadline it has yet to miss is remembered."""
        for finding in trail.found or ():
            self._land(finding, at)
        if not self.is_asked or self._terms.of(trail.row).deadline is None or self._is_done(trail):
            return
        self.judge(trail)
        due = self._waits_until(trail)
        if due and len(self._failed) < self._keep.bounds.deadlines:
            self._failed[trail.home, trail.task_id] = trail.row, due

    def _waits_until(self, trail: Trail) -> float:
        """When a finished trail without success will be overdue; 0.0: never."""
        lives = lives_of(facts_of(trail), self._grace)
        sent = _sent(lives[-1]) if lives else None
        if sent is None or lives[-1].final_when is None or self._is_decided(trail, lives[-1], sent):
            return 0.0
        if any(placed.kind == REVOKED for placed in lives[-1].order):
            return 0.0
        return self._due(sent, self._terms.of(trail.row).deadline or 0.0)

    # Over a restart

    def saved(self) -> list[tuple[int, str, int, float]]:
        """What is finished and waits for its deadline: home, task id, row, and when it is due."""
        return [(*key, *due) for key, due in self._failed.items()]

    def restore(self, saved: list[tuple[int, str, int, float]], decided: float) -> None:
        """Go on with what was saved, after the trails were restored: each is judged when it is due.

        `decided`: the axis time up to which there is nothing more to decide.
        """
        self._decided = decided
        for home, task_id, row, due in saved:
            self._failed[home, task_id] = row, due
            heapq.heappush(self._heap, (due, home, task_id))
        if not self.is_asked:
            return
        for each in self._keep.homes:
            trails = list(each.open.values())
            self.welcome(trails)
            for trail in trails:
                if trail.marks & M_IRREGULAR:
                    self.judge(trail)

    # The verdict

    def judge(self, trail: Trail) -> None:
        """Decide what can be decided of a trail's lives, and see to the rest when it is due."""
        lives = lives_of(facts_of(trail), self._grace)
        for life in lives:
            sent = _sent(life)
            row = sent.fact.row if sent and sent.fact.row >= 0 else trail.row
            deadline = self._terms.of(row).deadline
            if sent is None or deadline is None:
                continue
            if not self._is_decided(trail, life, sent):
                self._decide(trail, life, sent, row, deadline)
            elif finding := _finding(trail, sent):
                self._follow(trail, life, finding)
        known = {sent.when for life in lives if (sent := _sent(life))}
        for finding in trail.found or ():
            if finding.life not in known:
                self._land(finding, finding.at)
        if len(trail.found or ()) > _MOST_FOUND:
            trail.found = (trail.found or [])[-_MOST_FOUND:]

    @staticmethod
    def _is_decided(trail: Trail, life: Life, sent: Placed) -> bool:
        """Whether a life was found overdue, or one of its successes was counted as in time."""
        if _finding(trail, sent):
            return True
        counted = {trail.judged, *(one.life for one in trail.found or () if one.name == IN_TIME_LINE)}
        return any(placed.kind == SUCCEEDED and placed.when in counted for placed in life.order)

    def _decide(self, trail: Trail, life: Life, sent: Placed, row: int, deadline: float) -> None:
        due, source = self._due(sent, deadline), self._settler.sources[sent.fact.source]
        success = _success(life)
        if success is not None and _took(sent, success) <= deadline:
            at = max(success.fact.at, sent.fact.at)
            trail.found = [*(trail.found or ()), Finding(IN_TIME_LINE, at, success.when, row)]
            self.out.count(row, IN_TIME, at)
        elif self._decided < due:
            self._arm(trail, due)
        elif any(placed.kind == REVOKED and placed.fact.at <= due - self._grace for placed in life.order):
            pass  # taken back in time: nothing is owed
        elif not self.holes.is_known(source):
            self.unseen += not self.holes.wait(source, self._come_due, trail.home, trail.task_id)
        elif self.holes.over(source, sent.fact.at, due) is not None:
            trail.found = [*(trail.found or ()), Finding("unknown", due, sent.when, row)]
            self.unseen += 1
        else:
            finding = Finding("overdue", due, sent.when, row)
            trail.found = [*(trail.found or ()), finding]
            self._settler.emit_finding(trail.task_id, trail.home, OVERDUE, row, due, self.out)
            if life.final_when is None:
                finding.is_up = True
                self.out.count(row, LATE_UP, due)
            self._follow(trail, life, finding)

    def _follow(self, trail: Trail, life: Life, finding: Finding) -> None:
        """What became of an overdue life since: done after all, or over in another way."""
        success = _success(life)
        if finding.name == "overdue" and success is not None and not finding.recovered_at:
            at = max(finding.at, success.fact.at + self._grace)
            if self._decided < at:
                self._arm(trail, at)
            else:
                finding.recovered_at = at
                cause = self._errors.intern(finding.name, is_ours=True)
                self.out.errors.append((finding.row * STRIDE + RECOVERED, cause, at))
        if finding.is_up and life.final_when is not None:
            self._land(finding, max(finding.at, *(p.fact.at for p in life.order if IS_FINAL[p.kind])))

    def _land(self, finding: Finding, at: float) -> None:
        if finding.is_up:
            finding.is_up = False
            self.out.count(finding.row, LATE_DOWN, max(at, finding.at))

    def _due(self, sent: Placed, deadline: float) -> float:
        """When a deadline is judged: on the axis, with `grace`."""
        return sent.fact.at + max(0.0, sent.fact.eta - sent.when) + deadline + self._grace

    def _arm(self, trail: Trail, due: float) -> None:
        if len(self._heap) >= self._keep.bounds.deadlines:
            self.unseen += 1
            return
        heapq.heappush(self._heap, (due, trail.home, trail.task_id))


def _finding(trail: Trail, sent: Placed) -> Finding | None:
    """What the life that was sent then was found to be, besides in time."""
    found = (one for one in trail.found or () if one.life == sent.when and one.name != IN_TIME_LINE)
    return next(found, None)


def _sent(life: Life) -> Placed | None:
    """The first `sent` of a life."""
    return next((placed for placed in life.order if placed.kind == SENT), None)


def _success(life: Life) -> Placed | None:
    return next((placed for placed in life.order if placed.kind == SUCCEEDED), None)


def _took(sent: Placed, success: Placed) -> float:
    """Seconds from `sent` (or its eta) to the success: by the senders where both tell, else on the axis."""
    has_times = sent.fact.time and success.fact.time
    wait = max(0.0, sent.fact.eta - sent.when)
    return (success.when - sent.when if has_times else success.fact.at - sent.fact.at) - wait
