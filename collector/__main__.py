"""`python -m collector` is `tasktrail`."""

from __future__ import annotations

import sys

from collector.cli.entry import main

sys.exit(main())
