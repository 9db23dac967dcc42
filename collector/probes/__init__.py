"""Probes: what waits in queues, and how far consumers are, by asking. Each only reads, and changes nothing."""
