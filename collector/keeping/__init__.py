"""What outlives the process: checkpoints, alerts and what was told of them, kept trails, decisions, dead letters."""
