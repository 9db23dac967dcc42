"""Known faults of what is installed here, where the advisory service answers; else the one line why they are not known.

`python -m tests.audit`. Exit code 1 for a known fault, never for want of a network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SECONDS = 60.0
ANSWER_SECONDS = 3
CALL = (
    *("-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner", "off"),
    *("--timeout", str(ANSWER_SECONDS), "--format", "json"),
)


def asked() -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each package, or why it says nothing."""
    try:
        done = subprocess.run([sys.executable, *CALL], capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [], f"no answer within {SECONDS:.0f} s"
    try:
        return json.loads(done.stdout)["dependencies"], ""
    except ValueError:
        return [], (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]


def verdict(packages: list[dict[str, Any]], why: str) -> tuple[list[str], bool]:
    """The lines to print, and whether a fault is known."""
    known = [one for one in packages if "vulns" in one]
    if not known:
        reasons = [str(one.get("skip_reason", "")).partition(":")[0] for one in packages]
        return [f"dependencies were not audited: {why or next(filter(None, reasons), 'there are none')}"], False
    faults = [
        f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}"
        for one in known
        for fault in one["vulns"]
    ]
    return faults or [f"{len(known)} of {len(packages)} dependencies audited, no known fault"], bool(faults)


def main() -> None:
    """Ask, and print."""
    lines, is_faulty = verdict(*asked())
    print("\n".join(lines))
    sys.exit(is_faulty)


if __name__ == "__main__":
    main()
