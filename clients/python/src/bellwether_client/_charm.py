"""The points at which ops is watched, and its statuses as reports."""

from __future__ import annotations

import functools
import os
import sys
import weakref

from . import _needs, _raised, _texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from ._roles import Observed

#: The attribute of a status of ops that has its details.
DETAIL = "bellwether"
#: The details of a status, besides its component and message.
DETAILS = (
    "key",
    "action",
    "check",
    "short",
    "reason",
    "needs",
    "priority",
    "precedence",
    "labels",
)
ACTION = "status-detail"
LABELS_MAX = 64
LABEL_BYTES_MAX = 63
PRIORITY_MAX = 1_000_000

_reporters: Any = weakref.WeakSet()
_observers: Dict[str, Any] = {}


def hook_name() -> str:
    """Returns the name of the hook: `config-changed`, or `backup-action` for an action."""
    path = os.environ.get("JUJU_DISPATCH_PATH") or os.environ.get("JUJU_HOOK_NAME") or ""
    folder, _, name = path.rpartition("/")
    name = name.replace("_", "-")
    return name + "-action" if folder.endswith("actions") else name


def watch(reporter: Observed) -> Any:
    """Observes the end of the hook, and returns the observer, which must be kept."""
    import ops

    charm = reporter.charm
    framework = charm.framework
    if not _observers:
        _observers["class"] = _make_observer()
        _watch_collection(ops)
    _reporters.add(reporter)
    observer = _observers["class"](charm, "bellwether-status-reporter")
    observer.reporter = reporter
    framework.observe(framework.on.commit, observer.on_commit)
    framework.observe(charm.on.collect_unit_status, observer.on_collect)
    if ACTION in charm.meta.actions:
        framework.observe(charm.on[ACTION].action, observer.on_detail)
    _raised.watch(framework, reporter)
    _watch_close(framework, reporter)
    return observer


def _make_observer() -> Any:
    import ops

    class Observer(ops.Object):  # type: ignore[misc, unused-ignore]
        """Receives the events for a reporter; ops calls methods of its own objects only."""

        reporter: Observed

        def on_commit(self, _: ops.EventBase) -> None:
            self.reporter.commit()

        def on_collect(self, event: ops.CollectStatusEvent) -> None:
            for one in self.reporter.raised:
                event.add_status(one)

        def on_detail(self, event: ops.ActionEvent) -> None:
            self.reporter.detail(event)

    return Observer


def _watch_collection(ops: Any) -> None:
    """Notes each status that a charm collects or sets for the application.

    ops keeps the collected list to itself, so its public methods are extended, once for a process.
    """
    add_status = ops.CollectStatusEvent.add_status

    @functools.wraps(add_status)
    def add(event: Any, status: Any) -> Any:
        done = add_status(event, status)
        scope = "app" if event.handle.kind == "collect_app_status" else "unit"
        for reporter in list(_reporters):
            if reporter.charm.framework is event.framework:
                reporter.collected[scope].append(status)
        return done

    ops.CollectStatusEvent.add_status = add
    status = ops.Application.status

    def set_status(application: Any, value: Any) -> None:
        status.__set__(application, value)
        for reporter in list(_reporters):
            if reporter.charm.app is application:
                reporter.application_set = True

    ops.Application.status = status.setter(set_status)


def _watch_close(framework: Any, reporter: Observed) -> None:
    """Extends the end of the framework, which follows a crash of the hook too."""
    close = framework.close

    @functools.wraps(close)
    def closed() -> None:
        try:
            reporter.close(sys.exc_info()[1])
        finally:
            close()

    framework.close = closed
    # Older versions of ops do not close the framework if the charm cannot be made.
    hook = sys.excepthook

    def excepted(kind: Any, error: BaseException, trace: Any) -> None:
        reporter.close(error)
        hook(kind, error, trace)

    sys.excepthook = excepted


def is_failure(error: BaseException) -> bool:
    """Returns whether Juju counts the hook as failed after this exception."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    # ops ends a hook early and well with an exception of its own.
    return getattr(error, "exit_code", 1) != 0


def make(level: str, message: str, details: Dict[str, Any]) -> Any:
    """Returns a status of ops with details."""
    import ops

    # `StatusBase.from_name` returns classes of ops[testing] if that is imported.
    kinds = {
        "active": ops.ActiveStatus,
        "waiting": ops.WaitingStatus,
        "maintenance": ops.MaintenanceStatus,
        "blocked": ops.BlockedStatus,
    }
    # Juju shows the text, and `status-set` is a program.
    status = kinds[level](_texts.public(message))
    setattr(status, DETAIL, details)
    return status


def report_of(status: Any) -> Dict[str, Any]:
    """Returns a status of ops as a `StatusReport`."""
    if not hasattr(status, "name") or not hasattr(status, "message"):
        raise TypeError("{!r} is no status of ops, such as ops.ActiveStatus".format(status))
    details = dict(getattr(status, DETAIL, None) or {})
    return report(status.name, status.message, **details)


def report(level: str, message: Any, **details: Any) -> Dict[str, Any]:
    """Returns a `StatusReport` that the server takes: names cleaned, texts cut."""
    known = "LEVEL_" + level.upper()
    made: Dict[str, Any] = {
        "component": _texts.name(details.get("component", "")),
        "key": _texts.name(details.get("key", "")),
        "level": known if known in _texts.RANKS else "LEVEL_UNKNOWN",
        "message": _texts.public(message or ""),
    }
    texts = {
        "short_message": _texts.short(details.get("short") or ""),
        "check": _texts.public(details.get("check") or ""),
        "action": _texts.public(details.get("action") or ""),
        "reason": _texts.cut(details.get("reason") or "", _texts.NAME_BYTES_MAX),
        "labels": labels(details.get("labels") or {}),
        "needs": public_needs(details.get("needs")),
    }
    made.update({name: text for name, text in texts.items() if text})
    for name in ("priority", "precedence"):
        number = int(details.get(name) or 0)
        if number:
            made[name] = max(-PRIORITY_MAX, min(number, PRIORITY_MAX))
    return made


def public_needs(given: Any) -> List[Dict[str, Any]]:
    """Returns needs as others may read them."""
    made: List[Dict[str, Any]] = [dict(one) for one in _needs.needs(given)]
    for one in made:
        if one.get("outside"):
            one["outside"] = _texts.public(one["outside"], _needs.BYTES_MAX)
    return made


def labels(given: Any) -> Dict[str, str]:
    """Returns the labels that the server takes."""
    found: Dict[str, str] = {}
    for name, value in list(dict(given).items())[:LABELS_MAX]:
        name = _texts.cut(name, LABEL_BYTES_MAX)
        if name:
            found[name] = _texts.public(value, LABEL_BYTES_MAX)
    return found


def table(rows: List[List[str]]) -> str:
    """Returns rows of text as columns. `action-set` is a program, so the texts are visible."""
    rows = [[_texts.line(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
