"""Compiles the core where that is possible: the modules that have a `.pxd` with types beside them.

The same lines run without it, slower: an installation without a C compiler is no failure. A wheel gets what was
compiled; an editable installation has it beside its source, where Python prefers it, so it is made anew with it
(`make` does).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

CORE = (
    "collector.formats.celery_envelope",
    "collector.formats.celery_events",
    "collector.sources.redis_messages",
    "collector.trail.flat",
)
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # the types are those of the .pxd: Python's do not say what fits into a machine word
    "boundscheck": False,
    "wraparound": False,
}


def source(module: str) -> str:
    """Where a module stands, below the root."""
    return module.replace(".", "/") + ".py"


class CustomBuildHook(BuildHookInterface[Any]):
    """What hatchling calls."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and let the wheel have it."""
        if self.target_name != "wheel":
            return
        self._made = TemporaryDirectory()
        made = Path(self._made.name)
        extensions = cythonize(
            [Extension(module, [source(module)]) for module in CORE],
            build_dir=str(made / "c"),
            compiler_directives=DIRECTIVES,
            quiet=True,
        )
        for extension in extensions:  # of what it is given `cythonize` keeps less than that
            extension.optional = True
        command = Distribution({"name": "tasktrail", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(made / "lib"), str(made / "temp")
        command.ensure_finalized()
        command.run()
        for module in CORE:
            built = Path(command.get_ext_fullpath(module))
            if not built.exists():
                self.app.display_warning(f"{module} is not compiled (is there a C compiler?): it runs as Python")
                continue
            place = str(Path(source(module)).parent / built.name)
            if version == "editable":
                # Not over one that is loaded: whoever runs it would call into the middle of the other.
                beside = Path(shutil.copy(built, f"{Path(self.root) / place}.new"))
                beside.replace(Path(self.root) / place)
            else:
                build_data["force_include"][str(built)] = place
                build_data["infer_tag"], build_data["pure_python"] = True, False

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is made."""
        del version, build_data, artifact_path
        if self.target_name == "wheel":
            self._made.cleanup()
