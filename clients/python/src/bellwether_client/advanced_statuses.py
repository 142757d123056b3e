"""The statuses of `advanced_statuses` (data-platform-helpers), in the order of its own code.

    self.statuses = StatusHandler(self, self.tls, self.backups)     # as before
    self.reporter = StatusReporter(self)
    self.reporter.use_advanced_statuses(self.tls, self.backups)     # the same components

| StatusObject | StatusReport |
|---|---|
| status, message, short_message, check, action | level, message, short_message, check, action |
| running | label `running`: `async` or `blocking` |
| approved_critical_component | precedence 1: it wins over every level |
| component name, place of the component | component, place in the set |

The module does not import `advanced_statuses`; it reads the attributes of its objects.
"""

from __future__ import annotations

from . import _charm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Tuple

#: The order of the levels in `advanced_statuses.components.PRIORITIES`.
PRIORITIES = {"error": 50, "blocked": 40, "maintenance": 30, "waiting": 20, "active": 10}


def reports(managers: Sequence[Any], scope: str) -> List[Dict[str, Any]]:
    """Returns the statuses of the components as a set for `ReplaceStatuses`, the winner first.

    `managers` are the arguments of `StatusHandler`, in its order. A status has no identity in
    `advanced_statuses`; the reporter gives it one that lasts.
    """
    return [report_of(component, one) for component, one in in_order(managers, scope)]


def in_order(managers: Sequence[Any], scope: str) -> List[Tuple[str, Any]]:
    """Returns the statuses with their components: critical ones, then by level and component."""
    found = [(one.name, status) for one in managers for status in one.get_statuses(scope)]
    places = {one.name: place for place, one in reversed(list(enumerate(managers)))}
    return sorted(
        found,
        key=lambda one: (
            not one[1].approved_critical_component,
            -PRIORITIES.get(one[1].status, 0),
            places[one[0]],
        ),
    )


def report_of(component: str, status: Any) -> Dict[str, Any]:
    """Returns a StatusObject as a `StatusReport`."""
    return _charm.report(
        status.status,
        status.message,
        component=component,
        short=status.short_message,
        check=status.check,
        action=status.action,
        precedence=int(status.approved_critical_component),
        labels={"running": status.running} if status.running else {},
    )
