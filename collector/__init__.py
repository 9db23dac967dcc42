"""Tasktrail: a sidecar that knows whether the work handed to a queue was done, once, in time, and who repairs it."""

__version__ = "0.1.0"
