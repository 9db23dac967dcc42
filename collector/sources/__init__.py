"""Edges that read: bytes off the wire, in batches with receipts. They know the vocabulary and their own client only."""
