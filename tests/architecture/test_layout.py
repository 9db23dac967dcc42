"""The house as files: small modules with names that say something, and a contract check nobody has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "collector").rglob("*.py"))
LONGEST = 400
NAMELESS = {"utils", "util", "common", "misc", "helper", "helpers"}
ORIGINAL = ROOT.parent / "shared" / "contract" / "check.py"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_short_and_says_what_it_takes_and_gives(module):
    """A module fits in a head: under 400 lines, opened by a docstring."""
    text = module.read_text()
    assert len(text.splitlines()) < LONGEST
    assert text.startswith('"""')


def test_no_module_is_named_for_nothing():
    """A name like utils collects what belongs nowhere."""
    names = {part for module in MODULES for part in module.relative_to(ROOT).with_suffix("").parts}
    assert not {name for name in names if name in NAMELESS or name.rpartition("_")[2] in NAMELESS}


@pytest.mark.skipif(not ORIGINAL.exists(), reason="the original is not beside this repository")
def test_the_contract_check_is_the_original():
    """The outside is held against the same script everywhere."""
    assert (ROOT / "tests" / "contract" / "check.py").read_bytes() == ORIGINAL.read_bytes()
