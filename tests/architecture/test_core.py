"""The compiled core: it is what its sources say, it knows where fields lie, and it gives what Python gives."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import shutil
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import hiredis
import msgspec
import pytest
from hypothesis import given, settings

from collector.cli.core import LOOPS
from collector.formats import FORMATS, celery
from collector.formats.celery_wire import Told
from collector.model.event import Event
from collector.model.record import Batch
from collector.trail import stitcher
from collector.trail.trail import Trail
from tests.bench import peers
from tests.conftest import CORE
from tests.unit.trail.test_order import fact_sets, result

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path.with_suffix(".py") for path in sorted((ROOT / "collector").rglob("*.pxd")) if path.stem != "layout"]
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES]


class _Member(ctypes.Structure):
    """The beginning of CPython's PyMemberDef."""

    _fields_ = (("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t))


def slots(of: type) -> list[str]:
    """Fields as they lie in memory, one word each behind the object's head."""
    found = {}
    for owner in of.__mro__:
        for name, descriptor in vars(owner).items():
            if type(descriptor).__name__ == "member_descriptor":
                # Behind the object's head: type, name, qualified name, then the member.
                place = ctypes.c_void_p.from_address(id(descriptor) + object.__basicsize__ + 3 * 8).value
                assert place is not None
                found[name] = _Member.from_address(place).offset
    ordered = sorted(found, key=found.__getitem__)
    assert [found[name] for name in ordered] == [object.__basicsize__ + 8 * number for number in range(len(ordered))]
    assert of.__basicsize__ == object.__basicsize__ + 8 * len(ordered)
    return ordered


def declared(layout: str) -> tuple[list[str], list[str]]:
    """The fields of a `layout.pxd`, as C and as Cython are told."""
    text = (ROOT / "collector" / layout / "layout.pxd").read_text()
    (struct,) = re.findall(r"PyObject (\*[^;]*);", text)
    return re.findall(r"\*(\w+)", struct), re.findall(r"\w+", " ".join(re.findall(r"cdef object (.*)", text)))


@pytest.mark.parametrize(("layout", "of", "base"), [("model", Event, 0), ("trail", Trail, 0), ("formats", Told, 20)])
def test_fields_lie_where_the_core_reads_them(layout: str, of: type, base: int) -> None:
    """CPython's own word for where each field is."""
    as_c, as_cython = declared(layout)
    assert as_c == as_cython == slots(of)[base:]
    assert base in {0, len(slots(Event))}


def test_what_has_types_is_what_is_compiled() -> None:
    """No list is behind the others."""
    assert sorted(MODULES) == sorted(CORE) == sorted(loop.__name__ for loop in LOOPS)
    hook = (ROOT / "hatch_build.py").read_text()
    (listed,) = re.findall(r"^CORE = \((.*?)\)$", hook, re.MULTILINE | re.DOTALL)
    assert re.findall(r'"([\w.]+)"', listed) == sorted(MODULES)


def compiled(name: str) -> ModuleType:
    """A module of the core as it was compiled; a skip where it was not."""
    module = importlib.import_module(name)
    if not isinstance(module.__loader__, SourceFileLoader):
        return module
    why = "the core is not compiled here (`make` does that where there is a C compiler)"
    if os.environ.get("CI") == "true" and shutil.which("cc"):
        pytest.fail(why)
    pytest.skip(why)


def plain(name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """The same module as Python runs it."""
    spec = spec_from_loader(name, SourceFileLoader(name, str(ROOT / (name.replace(".", "/") + ".py"))))
    assert spec is not None
    module = module_from_spec(spec)
    patch.setitem(sys.modules, name, module)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


@settings(max_examples=200, deadline=None)
@given(fact_sets(is_tidy=False))
def test_it_stitches_as_python_does(case: Any) -> None:
    """The same counts, states and flight, whatever comes."""
    facts, order = case
    assert stitcher.flat is compiled("collector.trail.flat")
    fast = result(facts, order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stitcher, "flat", plain("collector.trail.flat", patch))
        assert result(facts, order) == fast


def test_it_reads_celery_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same events, rejects and what is left out."""
    compiled("collector.formats.celery_events")
    compiled("collector.formats.celery_envelope")
    messages = peers.stream(5000, 7)[0]
    base = {"hostname": "w@h", "utcoffset": 0, "pid": 1, "clock": 1, "timestamp": 1.8e9}
    for told in (
        {"type": "task-failed", "uuid": "a", "exception": "reject requeue=True", **base},
        {"type": "task-started", **base},
        {"type": "task-revoked", "uuid": "a", "expired": True, **base},
        {"type": "task-cancelled", "uuid": "a", **base},
        {"type": "shop.own", "uuid": "a", **base},
        {"type": "worker-heartbeat", "freq": 2.0, "active": 3, "processed": 9, **base},
        {"type": "worker-online", "timestamp": 1.8e9},
    ):
        messages += [peers.message("task.multi", told), peers.message("task.multi", [told, told])]

    def decoded() -> Any:
        decode = FORMATS["celery"].new()
        out = []
        for start in range(0, len(messages), 300):
            part = messages[start : start + 300]
            batch = Batch(
                source="s",
                place="p",
                bodies=[body for _, body in part],
                receipts=range(start, start + len(part)),
                received_at=1.8e9,
                tap="redis-pubsub",
                about=[{"channel": channel.decode(), "pattern": "*"} for channel, _ in part],
            )
            found = decode(batch)
            out.append((list(map(msgspec.structs.asdict, found.events)), found.sources, found.rejects, found.ignored))
        return out

    fast = decoded()
    assert sum(len(events) for events, *_ in fast) > 4500
    assert sum(len(rejects) for _, _, rejects, _ in fast) == 6
    monkeypatch.setattr(celery, "take", plain("collector.formats.celery_events", monkeypatch).take)
    monkeypatch.setattr(celery, "opened", plain("collector.formats.celery_envelope", monkeypatch).opened)
    assert decoded() == fast


def test_it_takes_the_stream_apart_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same columns, and everything else in its order, wherever the stream is torn."""
    stream = b"".join(peers.packed(b"pmessage", b"*", b"c%d" % number, b"x" * number) for number in range(200))
    stream = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n" + stream + b"+OK\r\n*3\r\n$10\r\npsubscribe\r\n$1\r\na\r\n:1\r\n"

    def taken(module: ModuleType, size: int) -> Any:
        parser, columns, others = hiredis.Reader(), ([], [], []), []
        for start in range(0, len(stream), size):
            others += module.take_apart(parser, stream[start : start + size], *columns)
        return columns, others

    fast, slow = (of("collector.sources.redis_messages") for of in (compiled, lambda name: plain(name, monkeypatch)))
    for size in (1, 100, 40_000):
        columns, others = taken(fast, size)
        assert (columns, others) == taken(slow, size)
        assert (list(map(len, columns)), len(others)) == ([200] * 3, 3)
