"""The frameworks whose work is watched, each in a virtual environment of its own: their clients pin one another out."""

from __future__ import annotations

import subprocess
import sys

from tests.brokers.install import alone, cache
from tests.brokers.process import Unavailable


def python(name: str, *requirements: str) -> str:
    """The interpreter of the environment `name`, made where it is missing or has other requirements.

    Raises Unavailable where pip cannot get them.
    """
    home = cache() / "venvs" / name
    program = home / "bin" / "python"
    marker = home / "requirements.txt"
    wanted = "\n".join(requirements)
    with alone(f"venv-{name}"):
        if marker.exists() and marker.read_text() == wanted:
            return str(program)
        install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements]
        for call in ([sys.executable, "-m", "venv", str(home)], [str(program), *install]):
            done = subprocess.run(call, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode:
                raise Unavailable(f"no environment {name}: {(done.stdout + done.stderr).strip()[-300:]}")
        marker.write_text(wanted)
    return str(program)
