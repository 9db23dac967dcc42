"""What looks like personal data goes out as stars; what does not stays."""

from __future__ import annotations

import pytest

from collector.model.personal import mask_personal


@pytest.mark.parametrize(
    "personal",
    [
        "jo.doe+x@mail.example.co.uk",
        "4111 1111 1111 1111",
        "+49 (30) 1234-5678",
        "078-05-1120",
        "DE89 3704 0044 0532 0130 00",
    ],
)
def test_personal(personal):
    """Mail addresses, cards, telephones, social security and account numbers are masked where they stand."""
    assert mask_personal(f"no account for {personal}, giving up") == "no account for ***, giving up"


@pytest.mark.parametrize(
    "text",
    ["order 4111111111111112 failed", "timed out after 30.5 s at 2026-09-21T14:13:20Z", "user@host", "12-34"],
)
def test_not_personal(text):
    """Ids, times and names of machines are what the reader needs."""
    assert mask_personal(text) == text
