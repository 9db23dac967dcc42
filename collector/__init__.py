"""Tasktrail: a sidecar that knows whether the work handed to a queue was done, once, in time, and who repairs it."""

import os

# Nothing here multiplies matrices, and OpenBLAS would keep a thread for each processor, waiting busily. It reads this
# when numpy is loaded, so it has to be said before.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
