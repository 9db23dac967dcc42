"""Random series for differential tests, in promtool's notation: counters, gauges, buckets; gaps, stale marks, resets.

One seed gives one file's series. Few label values, so that matching finds partners, none and several.
"""

from __future__ import annotations

import random

JOBS = ("api", "db", "web.1")
INSTANCES = ("a", "b", "c")
BOUNDS = ("0.1", "0.5", "1", "2.5", "+Inf")
COUNTERS = ("hits_total", "errors_total")
GAUGES = ("temp", "level", "odd")
METRICS = (*COUNTERS, *GAUGES, "info")
BUCKETS = "latency_bucket"
SAMPLES = 24
INTERVALS = (15, 30, 60, 90)


def series(chance: random.Random) -> list[dict[str, str]]:
    """`input_series` of one test; never empty, never one series twice."""
    found = []
    for name in COUNTERS:
        found += [_one(name, labels, _counter(chance)) for labels in _labels(chance)]
    for name in GAUGES:
        found += [_one(name, labels, _gauge(chance, name)) for labels in _labels(chance)]
    found += [
        _one("info", {"job": job, "team": chance.choice(("red", "blue"))}, f"{chance.choice((1, 1, 2))}x{SAMPLES}")
        for job in JOBS
        if chance.random() < 0.8
    ]
    for job in chance.sample(JOBS, 2):
        found += [_one(BUCKETS, {"job": job, "le": bound}, values) for bound, values in _histogram(chance)]
    return found


def _one(name: str, labels: dict[str, str], values: str) -> dict[str, str]:
    inside = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def _labels(chance: random.Random) -> list[dict[str, str]]:
    pairs = [{"job": job, "instance": instance} for job in JOBS for instance in INSTANCES]
    chosen = chance.sample(pairs, chance.randint(2, 4))
    return [*chosen, {"job": "api"}] if chance.random() < 0.2 else chosen


def _holes(chance: random.Random, values: list[str], stale: float) -> str:
    """Some samples missing, some marked as the end of the series."""
    for at in range(len(values)):
        if chance.random() < 0.08:
            values[at] = "_"
        elif chance.random() < stale:
            values[at] = "stale"
    return " ".join(values)


def _counter(chance: random.Random) -> str:
    """Whole or broken steps, a reset now and then; or the expanding notation."""
    if chance.random() < 0.25:
        return f"{chance.randint(0, 9)}+{chance.choice((0, 1, 2.5, 0.1, 7))}x{SAMPLES}"
    if chance.random() < 0.2:
        return f"0+{chance.randint(1, 9)}x{SAMPLES // 2} _x3 stale {chance.randint(0, 5)}+3x{SAMPLES // 3}"
    value, values = float(chance.randint(0, 50)), []
    for _ in range(SAMPLES):
        step = chance.choice((0, 0, 1, 1, 2, 5, 0.25, 13, chance.random()))
        value = 0.0 if chance.random() < 0.06 else value + step
        values.append(_number(value))
    return _holes(chance, values, 0.03)


def _gauge(chance: random.Random, name: str) -> str:
    """`temp` is any float, `level` a small whole number, `odd` has what is hard: infinite, no number, huge, tiny."""
    if name == "level" and chance.random() < 0.3:
        return f"{chance.randint(-3, 3)}{chance.choice('+-')}{chance.randint(1, 3)}x{SAMPLES}"
    makers = {
        "temp": lambda: chance.gauss(10, 30),
        "level": lambda: chance.randint(-3, 4),
        "odd": lambda: chance.choice(("Inf", "-Inf", "NaN", 0, -0.0, 1e300, -1e17, 1e-12, 1e16, 1, 3, 0.1)),
    }
    return _holes(chance, [_number(makers[name]()) for _ in range(SAMPLES)], 0.02)


def _histogram(chance: random.Random) -> list[tuple[str, str]]:
    """Buckets that count up, at times wrongly; at times one of them is not there."""
    per_step = [chance.randint(0, 4) for _ in BOUNDS]
    found, total = [], 0
    for bound, step in zip(BOUNDS, per_step, strict=True):
        total += step
        noise = chance.choice((0, 0, 0, 0, -1, 2)) if bound != "+Inf" else 0
        if chance.random() < 0.9:
            found.append((bound, f"{max(0, noise)}+{max(0, total + min(0, noise))}x{SAMPLES}"))
    return found


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value!r}"
