"""Stitching: events of any order become one trail per task id, and the transitions that feed every series."""
