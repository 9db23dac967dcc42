"""Hand-written consumers on Kafka and Redis Streams: what their topics and groups tell, against what they logged."""

from __future__ import annotations

import pytest

from tests.replay.truth import Unseen, captures, stale, unexplained

KAFKA, STREAMS = captures("kafka"), captures("redis streams")
UNSEEN = [Unseen(fact="started", got=(0,), reason="started cannot be seen")]


@pytest.mark.parametrize("name", KAFKA)
def test_topics_and_commits_tell_what_the_consumers_did(name):
    """Sent, retried, dead-lettered and done are the truth for every message, whichever convention moved it on."""
    assert unexplained(name, UNSEEN) == []


@pytest.mark.parametrize("name", STREAMS)
def test_streams_and_their_groups_tell_what_the_consumers_did(name):
    """Every start, retry, redelivery, success and dead letter is the truth, from polls alone."""
    assert unexplained(name, []) == []


def test_nothing_is_excused_that_is_seen():
    """Each excuse is needed."""
    assert stale(KAFKA, UNSEEN) == []
