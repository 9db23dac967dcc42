"""The dead-letter ledger: one record for each, from whatever place, with an owner, a clock and a verdict."""
