"""From what is configured to what runs: tables of plugs, and what makes each one's client, probe, channel."""
