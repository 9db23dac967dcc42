"""Faults that people met in the tools around us: what was seen, and so what must not be seen here.

A test that would fail if one came back bears its name: `@pytest.mark.case("K02.1")`. Each has one at least
(tests/architecture/test_cases.py). To run them all: `make test ARGS="-m case"`.
"""

from __future__ import annotations

CASES = {
    # alive but deaf
    "K01.1": "A monitor stopped receiving until it was restarted: a good reconnect never set the retry delay back, and "
    "a capture task that had died left the page and the metrics answering with frozen numbers.",
    "K01.2": "After a broker's reboot, a frozen link or a group's rebalance a consumer stayed open, raised nothing and "
    "never read again.",
    # decided but never delivered
    "K02.1": "What had been sent was on disk, what was still to be sent was not: an alert that cleared around a "
    "restart stayed red for ever.",
    "K02.2": "One answer for all targets: callers lose a message for those that failed, or send it again to all; under "
    "rate limits a batch of messages is gone.",
    # no data read as good data
    "K03.1": "A firing alert was told as resolved because its data stopped coming, and one lost sample began a `for` "
    "clock anew.",
    # one slow or dead part stalls the rest
    "K04.1": "A subscriber that reads too slowly is cut off by the server; what was in the buffer is gone, and the "
    "client only sees a closed connection.",
    "K04.2": "One output that was down filled a shared store until all input was refused, also for the healthy output, "
    "and nothing said so.",
    # missing, late or unordered events
    "K05.1": "Tasks whose end was never told ran for ever, and a count of active ones made by subtraction went "
    "negative where the monitor had come in the middle.",
    "K05.2": "A started message behind the finished one put the job back to running; a start was before its trigger.",
    # the wrong place after restart, trim, failover or retention
    "K06.1": "A consumer that was away for longer than the retention came back to an offset that was gone, and stood "
    "still or jumped to the end without a word.",
    "K06.2": "Each restart replayed all old events as new, or missed what came meanwhile; a trimmed stream lost its "
    "oldest unread entries without notice.",
    # counted or sent twice
    "K07.1": "A job whose eta lay beyond the visibility time-out was given to several workers, which all ran it; a "
    "delayed message lay in two queues and was counted in both.",
    # without a ceiling
    "K08.1": "Ten times the kept tasks got small containers killed; waiters were left behind by every idle poll, and "
    "one endless trace pushed out all others.",
    # alert memory
    "K09.1": "A restart or a reload wiped what was firing: the same was paged again, and every `for` began anew.",
    # client-library traps
    "K10.1": "A client's new read time-out was shorter than a blocking read, which then raised on every idle queue.",
    # secrets shown
    "K11.1": "The password in a broker's URL, arguments of tasks and a chat's address stood in logs, errors and pages.",
    # offsets and lengths misread
    "K12.1": "With priorities one queue is several lists on Redis, of which only the one with the plain name was "
    "measured: a full backlog was nearly empty.",
    "K12.2": "A partition where a group never committed was taken for offset 0, or made all sums NaN.",
    # a failed try and a final failure
    "K13.1": "One channel tells a failure for each try, another only at the end, and a job given up for stalling tells "
    "none; a broker's death counter stood still: people page on what is tried again, or miss what is not.",
    # identity and noise
    "K14.1": "A storm put tens of thousands of alerts into one message, which broke receivers; or of a group only one "
    "was shown, and nothing said that others were in it.",
    # refused because of its content
    "K15.1": "Text and title together were beyond a service's limit, or a dash, a dot or a hash was bad markup, and "
    "the message was refused whole.",
    # configuration
    "K16.1": "A change of files was half applied, or a broken file left the process without rules.",
    # shutdown, signals, watchdog
    "K17.1": "A stop ended in a hard kill: a library took the signal over, a shell was process 1, or closing a client "
    "hung for ever.",
    # the store
    "K18.1": "A half-written record after a power cut made the process loop and ignore signals; a locked or full disk "
    "silently dropped records.",
    # wall clock, zone, sender's time
    "K19.1": "Healthy hosts in two time zones were warned of for hours of drift, and a reader that was behind took its "
    "own lag for their clocks.",
    # young series
    "K20.1": "A counter that is born with 1 shows no increase: the very first error never alerts.",
    # silences
    "K21.1": "What began or ended while it was silenced was never told when the silence was over.",
    # evaluation
    "K22.1": "A slow rule made others late, and passes that were left out were counted nowhere.",
    # harm to the observed
    "K23.1": "A listener's own queue outlived it and went on collecting, or grew under a reader that was too slow.",
    # hostile input
    "K24.1": "One message that could not be decoded stopped the reading for good, though the process looked healthy.",
}
