"""Routing: changed alerts in, ripe notifications out, as Alertmanager decides it. Pure; time is an argument."""
