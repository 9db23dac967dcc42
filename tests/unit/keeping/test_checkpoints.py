"""A checkpoint and what comes of it: the same answers, and the same behaviour for whatever comes next."""

from __future__ import annotations
