"""Compiles the core where that is possible: the modules that have a `.pxd` with types beside them.

The same lines run without it, slower: an installation without a C compiler is no failure. A wheel gets what was
compiled; an editable installation has it beside its source, where Python prefers it, so it is made anew with it
(`make` does).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

CORE = ("collector.formats.celery_events", "collector.trail.flat")
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
        made = Path(self.directory) / "core"
        shutil.rmtree(made, ignore_errors=True)
        extensions = cythonize(
            [Extension(module, [source(module)], optional=True) for module in CORE],
            build_dir=str(made / "c"),
            compiler_directives=DIRECTIVES,
            quiet=True,
        )
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
                shutil.copy(built, Path(self.root) / place)
            else:
                build_data["force_include"][str(built)] = place
                build_data["infer_tag"], build_data["pure_python"] = True, False
