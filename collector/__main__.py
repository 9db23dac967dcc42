"""`python -m collector` is `tasktrail`."""

from __future__ import annotations

import sys

from collector.cli.main import main

sys.exit(main())
