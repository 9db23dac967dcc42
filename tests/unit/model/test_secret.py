"""Secrets: what must never be shown."""

from __future__ import annotations

import time

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
        "amqp://u:my@HUNTER2@host/vhost",
        "Set-Cookie: session=HUNTER2",
        "denied for AKIAHUNTER2ABCDEFGHI",
        "ghp_HUNTER2abcdefghijklmnop is revoked",
        "invalid xoxb-123456-HUNTER2",
        "sk_live_abcdHUNTER2abcd",
        "bad jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.HUNTER2",
        "-----BEGIN RSA PRIVATE KEY-----\nHUNTER2\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMII\nHUNTER2",
    ],
)
def test_secrets_become_stars(text):
    """Every kind of secret that the patterns know is masked, in any case of letters."""
    assert "HUNTER2" not in mask(text)


def test_other_text_stays():
    """A text without anything that looks like a secret is left as it is."""
    assert mask("timeout: 3 s on host:9092, attempt=2") == "timeout: 3 s on host:9092, attempt=2"


@pytest.mark.parametrize(
    "piece", ["eyJabcdefgh-", "eyJ-a", "://a:b", "://:", "-----BEGIN A", "-----BEGIN PRIVATE KEY-----", "xoxb-", "AKIA"]
)
def test_a_long_text_of_beginnings_costs_no_more_than_its_length(piece):
    """What begins as a secret again and again, and is none, is looked at once."""
    began = time.process_time()
    mask(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 0.5
