"""`python -m tests.brokers up [KIND...] | down | run [KIND...] -- COMMAND`: the brokers of the tests, by hand.

`up` prints the environment variables that name the brokers and leaves them running; `down` ends those, by pid.
`run` starts brokers for one command and ends them with it. KIND: kafka, redis, rabbitmq; all three if none is named.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.brokers import ENVIRONMENT, KINDS, Broker, Unavailable, launch

_RUNNING = Path(__file__).resolve().parents[2] / ".brokers" / "running.json"


def main(arguments: list[str]) -> int:
    """Exit codes: 0 fine, 1 a broker is missing, 2 the call is wrong; `run` gives its command's own."""
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    kinds = rest[: rest.index("--")] if "--" in rest else rest
    command = rest[len(kinds) + 1 :]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if verb not in {"up", "down", "run"} or unknown or bool(command) != (verb == "run"):
        print(__doc__, file=sys.stderr)
        return 2
    if verb == "down":
        return _down()
    brokers = _launch(kinds or list(KINDS), detached=verb == "up")
    if verb == "up":
        return _up(brokers, wanted=len(kinds or KINDS))
    try:
        return subprocess.call(command, env={**os.environ, **_variables(brokers)})
    finally:
        for broker in brokers.values():
            broker.stop()


def _launch(kinds: list[str], *, detached: bool) -> dict[str, Broker]:
    brokers = {}
    for kind in kinds:
        print(f"starting {kind} (what it needs is installed the first time)", file=sys.stderr)
        try:
            brokers[kind] = launch(kind, detached=detached)
        except Unavailable as why:
            print(f"no {kind}: {why}", file=sys.stderr)
        else:
            print(f"{brokers[kind].name} at {brokers[kind].address}", file=sys.stderr)
    return brokers


def _variables(brokers: dict[str, Broker]) -> dict[str, str]:
    return {ENVIRONMENT[kind]: broker.address for kind, broker in brokers.items()}


def _up(brokers: dict[str, Broker], wanted: int) -> int:
    _RUNNING.parent.mkdir(exist_ok=True)
    running = json.loads(_RUNNING.read_text()) if _RUNNING.exists() else []
    running += [[broker.name, broker.address, broker.pids, broker.folder] for broker in brokers.values()]
    _RUNNING.write_text(json.dumps(running))
    for variable, address in _variables(brokers).items():
        print(f"export {variable}={address}")
    return 0 if len(brokers) == wanted else 1


def _down() -> int:
    running = json.loads(_RUNNING.read_text()) if _RUNNING.exists() else []
    for name, address, pids, folder in running:
        Broker(name, address, [pid for pid in pids if _is_ours(pid, folder)], folder).stop()
        print(f"ended {name}", file=sys.stderr)
    _RUNNING.unlink(missing_ok=True)
    return 0


def _is_ours(pid: int, folder: str) -> bool:
    """Whether a noted pid is still the process we started: it works in its folder; after a reboot it is another's."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == Path(folder)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
