"""Hooks for workers: each file tells Tasktrail what a framework does, and works when it is copied alone.

Nothing of the rest of the package imports them, nor do they import it: they run in the workers' processes, on
Python 3.8 or later, with nothing but their framework installed. The lines of the sender are the same in every file,
which a test holds; to change them, change `tasktrail_emit.py` and run `python -m tests.hooks.sender`.
"""
