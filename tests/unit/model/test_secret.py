"""Secrets: what must never be shown."""

from __future__ import annotations

import pytest

from collector.model.secret import mask


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer HUNTER2abc",
        "basic HUNTER2abc",
        "PassWord=HUNTER2",
        "passwd: HUNTER2",
        "passphrase = 'HUNTER2'",
        '{"client_secret": "HUNTER2',
        "access_token=HUNTER2",
        "api-key: HUNTER2",
        "PRIVATE_KEY=HUNTER2",
        "credential=HUNTER2",
        "amqp://u:HUNTER2@host/vhost",
    ],
)
def test_secrets_become_stars(text):
    """Every kind of secret that the patterns know is masked, in any case of letters."""
    assert "HUNTER2" not in mask(text)


def test_other_text_stays():
    """A text without anything that looks like a secret is left as it is."""
    assert mask("timeout: 3 s on host:9092, attempt=2") == "timeout: 3 s on host:9092, attempt=2"
