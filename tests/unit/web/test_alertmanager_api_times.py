"""Times that nobody can write again are refused, before anything is kept."""

from __future__ import annotations

import pytest

from collector.web import v2


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-23:00", "0001-01-01T23:00:00+23:59", "10000-01-01T00:00:00Z"])
def test_times_beyond_the_calendar_are_refused(text):
    """With 422 and the text; what is let in can be written."""
    with pytest.raises(v2.Refused) as caught:
        v2.instant(text, "startsAt")
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:01Z", "1969-01-01T00:00:00Z", "2026-11-29T22:00:00.5+01:00"]
)
def test_other_times_can_be_written_again(text):
    """However odd."""
    at = v2.instant(text, "startsAt")
    assert at is not None
    assert v2.instant(v2.written(at), "startsAt") == at
