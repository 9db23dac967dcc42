"""Rule files: loaded whole, evaluated at instants, giving the alerts that changed. Never reads the clock."""

from collector.alerting.dependencies import connect
from collector.alerting.group import Failure, Group, next_slot
from collector.alerting.lifecycle import AlertRule
from collector.alerting.recording import RecordRule
from collector.alerting.rulefile import GroupSpec, RuleFile, RuleSpec, load

__all__ = [
    "AlertRule",
    "Failure",
    "Group",
    "GroupSpec",
    "RecordRule",
    "RuleFile",
    "RuleSpec",
    "connect",
    "load",
    "next_slot",
]
