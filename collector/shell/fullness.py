"""How full each bound is: what a person wants to know before something has to leave, and not only once it has."""

from __future__ import annotations

from collections.abc import Mapping

from collector.shell.pipeline import Pipeline


def used(pipeline: Pipeline, waiting: Mapping[str, int], most_waiting: int) -> dict[str, float]:
    """The part of each bound that is in use, 0 to 1. `waiting`: notifications by target, of `most_waiting` each."""
    parts, store = pipeline.stitcher.parts, pipeline.store
    keep = parts.keep
    bounds = keep.bounds
    rows: dict[str, tuple[float, float]] = {
        "open_trails": (keep.count(), bounds.open_trails),
        "trail_bytes": (keep.bytes(), bounds.bytes),
        "finished_ids": (max((len(home.finished) for home in keep.homes), default=0), bounds.finished_ids),
        "dead_letters": (len(parts.settler.dead), bounds.dead_letters),
        "idempotency_keys": (len(parts.keys), bounds.keys),
        "names": (len(parts.rows), parts.rows.cap),
        "error_names": (len(parts.errors), parts.errors.cap),
        "series": (store.catalogue.size, store.catalogue.cap),
        "connections": (max((axis.filled for axis in pipeline.axes), default=0.0), 1.0),
        "outbox": (max(waiting.values(), default=0), most_waiting),
    }
    return {bound: min(1.0, count / most) if most else 0.0 for bound, (count, most) in rows.items()}
