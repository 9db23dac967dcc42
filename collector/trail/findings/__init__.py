"""What trails are found to be beyond their counts: lost, stuck, against their retry policy, and the like.

`table.py` names the kinds that are found on one trail, each a pure function over one life of it; `judge.py` looks at
trails when something about them may be due, and finds each thing once. `schedule.py`, `storm.py` and `skew.py` find
what no single trail shows.
"""
