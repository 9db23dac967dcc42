"""Redrive: the only thing here that writes to the brokers of others. A file for each kind of broker."""
