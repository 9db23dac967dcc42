"""Random rule files for differential tests: recording rules, alerts with `for` and `keep_firing_for`, templates."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from differential_expressions import Expression, Maker
from differential_series import COUNTERS, GAUGES

DURATIONS = ("30s", "1m", "90s", "2m", "3m", "5m")
LABELS = (
    "{{ $labels.job }}", "page", "{{ $labels.nothing }}", "{{ .Labels.instance }}-{{ $labels.job | toUpper }}", "",
    '{{ if eq $labels.job "api" }}front{{ else }}back{{ end }}', "{{ $externalLabels.region }}", "{{ $value }}",
    '{{ first (query "no_such_series") }}',
)  # fmt: skip
_NUMBERS = (
    "humanize", "humanize1024", "humanizeDuration", "humanizePercentage", "humanizeTimestamp", 'printf "%.2f"',
    'printf "%v"', 'printf "%g"', 'printf "%e"', 'printf "%5.1f|"', 'printf "%d"', "toTime", "toDuration", "print",
    "html", 'printf "%s"', 'printf "%q"', 'printf "%08.3f"', 'printf "%+.1e"', 'printf "%x"', 'printf "%T"',
    'printf "%t"',
)  # fmt: skip
TEMPLATES = (
    *(f"{{{{ $value | {function} }}}}" for function in _NUMBERS),
    *(f"{{{{ with $x := {number} }}}}{{{{ $x | {function} }}}}{{{{ end }}}}"
      for number in ("1234567.891", "0.00123", "-61.5", "86400", '"3601"', "1e20", '"x"')
      for function in ("humanize", "humanize1024", "humanizeDuration", "humanizeTimestamp", "toTime", "toDuration")),
    *Path(__file__).with_name("differential_templates.txt").read_text(encoding="utf-8").splitlines(),
)  # fmt: skip
"""Every function of Prometheus' list, and what people write wrong: those fail at run time, not at load.

Left out are `externalURL` and `pathPrefix`, on which promtool fails for lack of a URL.
"""


class RuleMaker:
    """Makes rule files and tests of them."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.expressions = Maker(chance)

    def rules(self, templates: tuple[str, ...]) -> dict[str, Any]:
        """A rule file of two groups; the second reads what the first records."""
        recording = [self._recording(f"made:{number}") for number in range(3)]
        alerts = [self._alert(f"Alert{number}", templates[number::4]) for number in range(4)]
        reader = {"record": "made:again", "expr": self.chance.choice(("sum(made:0)", "made:1 + 1", "count(ALERTS)"))}
        late = {"name": "late", "query_offset": self.chance.choice(("0s", "1m")), "rules": [reader, *alerts]}
        return {"groups": [{"name": "early", "labels": {"from": "group"}, "rules": recording}, late]}

    def cases(self) -> dict[str, Any]:
        """What is asked of these rules."""
        times = [self._time() for _ in range(3)]
        names = [f"Alert{number}" for number in range(4)]
        series = ("made:0", "made:1", "made:2", "made:again", "ALERTS", "ALERTS_FOR_STATE", "rate(made:0[5m])",
                  'count_over_time(ALERTS{alertstate="firing"}[10m])')  # fmt: skip
        return {
            "external_labels": {"region": self.chance.choice(("eu", "us"))},
            "external_url": self.chance.choice(("http://here/prefix", "", "https://x:9090")),
            "alert_rule_test": [{"alertname": name, "eval_time": at} for at in times for name in names],
            "promql_expr_test": [{"expr": text, "eval_time": self._time()} for text in series],
        }

    def _time(self) -> str:
        return f"{self.chance.randint(2, 25)}m{self.chance.choice(('', '', '30s', '7s'))}"

    def _expression(self) -> Expression:
        """One that seldom fails: a failure ends the test on both sides."""
        chance = self.chance
        inner = self.expressions.selector((*COUNTERS, *GAUGES))
        forms = (
            "{0}", "{0} > 1", "{0} != 0", "sum by (job) ({0})", "rate({1}[5m]) > 0", "max by (instance) ({0}) > 0",
            "{0} >= bool 2", "avg_over_time({1}[3m])", "count({0}) > 2", "absent({1})", "{0} < 50 and on (job) info",
        )  # fmt: skip
        bare = inner.text.split(" @ ")[0].split(" offset ")[0]
        return Expression(chance.choice(forms).format(inner.text, bare), "vector", (inner,))

    def _recording(self, name: str) -> dict[str, Any]:
        rule: dict[str, Any] = {"record": name, "expr": self._expression().text}
        if self.chance.random() < 0.4:
            rule["labels"] = self.chance.choice(
                ({"kind": "x"}, {"kind": "y"}, {"instance": "one"}, {"kind": "z", "from": "rule"}, {"instance": ""})
            )
        return rule

    def _alert(self, name: str, templates: tuple[str, ...]) -> dict[str, Any]:
        chance = self.chance
        rule: dict[str, Any] = {"alert": name, "expr": self._expression().text}
        if chance.random() < 0.6:
            rule["for"] = chance.choice(DURATIONS)
        if chance.random() < 0.4:
            rule["keep_firing_for"] = chance.choice(DURATIONS)
        rule["labels"] = {f"l{number}": chance.choice(LABELS) for number in range(chance.randint(0, 2))}
        rule["annotations"] = {f"a{number}": text for number, text in enumerate(templates)}
        return rule
