"""`check --explain SAMPLE`: what the mappings of a configuration make of sample messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from collector.config.settings import Settings
from collector.formats import capture
from collector.formats.mapping import told
from collector.model.errors import TasktrailError
from collector.model.files import read_bytes, why
from collector.model.record import Batch

MOST_SAMPLES = 100


def explained(path: str, configurations: list[Settings]) -> int:
    """Prints a line per mapping and sample. Exit code 1 where a sample is rejected; raises TasktrailError."""
    mapped = [(source.name, source.mapping) for one in configurations for source in one.sources if source.mapping]
    if not mapped:
        raise TasktrailError("--explain: no source in these files has a `mapping`")
    try:
        lines = read_bytes(path).splitlines()
    except OSError as error:
        raise TasktrailError(f"--explain: cannot read {path}: {why(error)}") from error
    is_wrong = False
    for name, one in mapped:
        tell = told(one)
        for number, (body, headers) in enumerate(islice(_samples(lines), MOST_SAMPLES), 1):
            said = tell(body, headers)
            is_wrong |= said.startswith("rejected")
            print(f"{name} {path}:{number}: {said}")
    return 1 if is_wrong else 0


def _samples(lines: list[bytes]) -> Iterator[tuple[bytes, Mapping[str, str]]]:
    """Messages with their headers: the lines of a capture, or bodies alone."""
    if not lines or not capture.is_capture(lines[0]):
        yield from ((line, {}) for line in lines if line.strip())
        return
    whole = Batch(source="", place="", bodies=lines, receipts=[*range(len(lines))], received_at=0.0)
    for batch in capture.unpack(whole):
        for index, body in enumerate(batch.bodies):
            yield body, (batch.fields[index] if batch.fields else None) or {}
