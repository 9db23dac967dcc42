"""Texts from outside as people may see them: what looks like a secret or personal is replaced by stars."""

from __future__ import annotations

import re

from collector.model.secret import STARS, mask

_MAIL = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")
_PHONE = re.compile(r"(?<![\w+])\+\d[\d ().-]{6,16}\d\b")
_SOCIAL = re.compile(r"\b\d{3}-\d{2}-\d{4}\b")
_CARD = re.compile(r"\b\d(?:[ -]?\d){12,18}\b")


def masked(text: str) -> str:
    """The text without secrets and without what tells who somebody is."""
    return mask_personal(mask(text))


def mask_personal(text: str) -> str:
    """The text without mail addresses, telephone, social security, card and account numbers."""
    text = _MAIL.sub(STARS, text)
    if not any(map(str.isdigit, text)):
        return text
    for pattern in (_IBAN, _PHONE, _SOCIAL):
        text = pattern.sub(STARS, text)
    return _CARD.sub(_card, text)


def _card(found: re.Match[str]) -> str:
    """Stars for a number whose check digit is right: any other is likely the id of something."""
    digits = [int(char) for char in found.group() if char.isdigit()]
    doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(reversed(digits))]
    return STARS if sum(doubled) % 10 == 0 else found.group()
