"""The example that is shipped: it loads, names every setting, and every line of it works when switched on."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from collector.config.schemes import COMMON, SCHEMES
from collector.config.settings import Settings, load

EXAMPLE = (Path(__file__).parents[3] / "systemd" / "tasktrail.example.yaml").read_text(encoding="utf-8")
SWITCHED_ON = re.sub(r"(?m)^#(?=[^ ]|  +[-a-z#])", "", EXAMPLE)


def names(struct, prefix=""):
    """Every setting, with those of the structs inside."""
    for field in msgspec.structs.fields(struct):
        yield field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from names(field.type)


def test_it_loads():
    """The file works as it is shipped."""
    settings = load("example", EXAMPLE, {})
    assert [source.scheme for source in settings.sources] == ["unix"]


def test_all_of_it_loads():
    """With everything switched on it works, too, and shows the defaults that the code has."""
    settings = load("example", SWITCHED_ON, {})
    schemes = {
        "unix",
        "kafka",
        "redis-stream",
        "file",
        "amqp",
        "celery+amqp",
        "dramatiq+amqp",
        "dramatiq+redis",
        "bullmq+redis",
        "rq+redis",
        "celery+redis",
    }
    assert {source.scheme for source in settings.sources} == schemes
    assert settings.bounds == Settings().bounds
    assert settings.log == Settings().log
    assert (settings.listen, settings.grace) == (Settings().listen, Settings().grace)
    assert settings.external_labels == {"region": "eu-1"}


@pytest.mark.parametrize("name", sorted(set(names(Settings))))
def test_every_setting_is_named(name):
    """No setting exists that the example does not show."""
    assert re.search(rf"(?m)^#? *(- )?{name}:", EXAMPLE)


@pytest.mark.parametrize("option", sorted({*COMMON, *(name for scheme in SCHEMES.values() for name in scheme.options)}))
def test_every_option_of_sources_is_named(option):
    """No option of a source exists that the example does not show."""
    assert re.search(rf"(?m)^# +(- )?{option}:", EXAMPLE)
