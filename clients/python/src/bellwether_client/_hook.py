"""The end of a hook: what a charm has said of itself becomes calls, after a crash too."""

from __future__ import annotations

import os
import time

from . import _charm, _classify, _deliver, _needs, _texts
from ._log import Log
from ._work import public_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Set

    from ._roles import Ending, Shown

logger = Log(__name__)

#: The component of hooks that failed.
HOOK = "hook"
#: The event with which `bellwether attend` starts a hook because of a callback, and the variable
#: with the component of the callback: those of a charm have none.
EVENT, COMPONENT = "callback-due", "BELLWETHER_COMPONENT"
#: The event with which it starts a hook because all needs of a status or of an error are met.
MET = "need-met"
#: The begin of the key of its notices.
NOTICE = "bellwether.dev/"
MODES = {
    "contribute": "APPLICATION_STATUS_MODE_CONTRIBUTE",
    "override": "APPLICATION_STATUS_MODE_OVERRIDE",
}


class HookEnd:
    """Turns the statuses of one hook into calls."""

    def __init__(self, reporter: Ending, application_status: str, set_ttl: Optional[float]) -> None:
        self._reporter = reporter
        #: Seconds, 0 for none; None: learned from the distance of the hooks `update-status`.
        self._set_ttl = set_ttl
        if application_status not in MODES:
            known = " or ".join(MODES)
            raise ValueError("application_status is {}, not {!r}".format(known, application_status))
        self._mode = MODES[application_status]
        #: Components of advanced_statuses, in their order of priority.
        self.managers: Sequence[Any] = ()
        self._is_done = False
        self._began = time.time()
        #: Keys of the callbacks that this hook has requested.
        self._requested: Set[str] = set()

    def request(self, key: str, after: float, reason: str) -> None:
        """Requests a callback, which replaces an earlier one with the same key."""
        reporter = self._reporter
        self._requested.add(key)
        reporter.state.callbacks[key] = {"due": time.time() + after, "reason": reason}
        request = {"unit": reporter.names["unit"], "key": key, "after": after, "reason": reason}
        reporter.state.put(["callback", key], _deliver.CALLBACK, request)

    def _end_callbacks(self) -> None:
        """Cancels the callbacks that were due when this hook began: the charm had its chance."""
        state = self._reporter.state
        due = {key for key, one in state.callbacks.items() if one["due"] <= self._began}
        if os.environ.get("BELLWETHER_EVENT") == EVENT and not os.environ.get(COMPONENT):
            # The clock of the server decides, and the record of the unit may be lost.
            due.add(os.environ.get("BELLWETHER_KEY", ""))
        for key in sorted(due - self._requested):
            state.callbacks.pop(key, None)
            request = {"unit": self._reporter.names["unit"], "key": key}
            state.put(["callback", key], _deliver.CALLBACK, request)

    def commit(self) -> None:
        """Reports the hook, after ops has evaluated the statuses. Never raises."""
        self._is_done = True
        reporter = self._reporter
        try:
            if reporter.hook == "remove":
                reporter.state.spool = []
                # A unit with the same name and disk begins a new life.
                reporter.state.end_life()
                reporter.state.put(["remove"], "remove_unit", {"unit": reporter.names["unit"]})
            else:
                reporter.restore()
                self._end_hook_fault()
                self._put_unit()
                self._put_application()
                self._end_callbacks()
            reporter.flush()
        except Exception:
            logger.exception("the statuses are not reported")
            # The next hook compares with nothing of this one.
            reporter.state.pull, reporter.state.application = [], {}

    def close(self, error: Optional[BaseException]) -> None:
        """Reports the exception that ends a hook before its commit. Never raises."""
        if error is not None and not self._is_done:
            if _charm.is_failure(error):
                self._crash(error)
            else:
                self.commit()
        self._is_done = True
        self._reporter.courier.close()

    def _crash(self, error: BaseException) -> None:
        reporter, target = self._reporter, self._reporter.hook or HOOK
        try:
            # Juju shows the error after one failure, and so does this.
            text = public_report(error)["message"]
            said = "{} failed: {}: {}".format(target, type(error).__name__, text)
            status = _charm.report("error", said, reason="HookFailed")
            status.update(component=HOOK, key=_texts.name(target), kind="STATUS_KIND_PUSH")
            status["observe_time"] = time.time()
            request = {"unit": reporter.names["unit"], "status": status}
            reporter.state.hook_failed = True
            reporter.state.put(["push", HOOK, status["key"]], "report_status", request)
            reporter.report_error(HOOK, target, error)
            reporter.flush()
        except Exception:
            logger.exception("the failure of the hook is not reported")

    def _end_hook_fault(self) -> None:
        """Ends what an earlier hook that failed has left: Juju runs a hook only after that."""
        state, names = self._reporter.state, {"unit": self._reporter.names["unit"]}
        if state.hook_failed is False:
            return
        state.faults = {name: one for name, one in state.faults.items() if one["component"] != HOOK}
        names["component"] = HOOK
        cleared = dict(names, kind="STATUS_KIND_PUSH")
        state.put(["clear", HOOK], "clear_status", cleared, ["push", HOOK])
        resolved = dict(names, generation=self._reporter.generation())
        state.put(["resolve", HOOK], "resolve_error", resolved, ["fault", HOOK])
        state.hook_failed = False

    def _put_unit(self) -> None:
        reporter = self._reporter
        if self.managers:
            from .advanced_statuses import reports

            found = reports(self.managers, "unit")
        elif reporter.collected["unit"]:
            own = [one for one in reporter.collected["unit"] if not _is_kept(one)]
            found = [_charm.report_of(one) for one in own]
        else:
            found = self._slot()
        found = _texts.fit(found)
        if self.managers or reporter.collected["unit"]:
            _texts.identify(found, reporter.state.pull)
        _set_times(found, reporter.state.pull)
        reporter.state.pull = found
        reporter.state.put(["pull"], "replace_statuses", self._set(found))

    def _set(self, found: List[Dict[str, Any]]) -> Dict[str, Any]:
        """Returns the request of a set, whose statuses are fresh for the time of the reporter."""
        ttl = self._reporter.state.learned_ttl() if self._set_ttl is None else self._set_ttl
        statuses = [dict(one, ttl=ttl) for one in found] if ttl else found
        unit = self._reporter.names["unit"]
        return {"unit": unit, "statuses": statuses, "cut_long_texts": True}

    def begin(self) -> None:
        """Says at the start of a hook that the unit stops, or that a new life of it begins.

        What the hook `stop` says is about the life that ends: it does not pass to the next one.
        """
        state, unit = self._reporter.state, {"unit": self._reporter.names["unit"]}
        if self._reporter.hook == "update-status":
            state.note_update()
        if self._reporter.hook == "stop":
            if not state.stopping:
                state.stopping = True
                state.put(["stopping"], "announce_stop", unit)
            return
        if self._reporter.hook == "remove" or state.registered and not state.stopping:
            return
        # A record that begins is that of a new disk, which is a new life too.
        state.registered, state.stopping = True, False
        for kept in (state.pushes, state.faults):
            for name in [name for name, one in kept.items() if one.get("while_stopping")]:
                del kept[name]
        state.put(["register"], "register_unit", unit)

    def _slot(self) -> List[Dict[str, Any]]:
        """Returns the one status that Juju has of the unit."""
        status = self._reporter.charm.unit.status
        report = _charm.report_of(status)
        if status.name == "error":
            # A failed hook is reported by itself.
            return self._reporter.state.pull
        for known in self._reporter.state.pull:
            same = (known["level"], known["message"]) == (report["level"], report["message"])
            if same and not getattr(status, _charm.DETAIL, None):
                # Juju has the text only; the details are those of the hook that set it.
                return [known]
        return [report]

    def _put_application(self) -> None:
        reporter = self._reporter
        if self.managers and reporter.is_leader():
            from .advanced_statuses import reports

            found = reports(self.managers, "app")
        elif reporter.collected["app"]:
            found = [_charm.report_of(one) for one in reporter.collected["app"]]
        elif reporter.application_set:
            found = [_charm.report_of(reporter.charm.app.status)]
        else:
            return
        found = _texts.fit([one for one in found if one["level"] != "LEVEL_UNKNOWN"])
        if self._mode == MODES["override"]:
            # Only the slot can win over the units; Juju shows one status too.
            worst = min(found, key=lambda one: _texts.RANKS.get(one["level"], 9), default={})
            if reporter.collected["app"] and not self.managers:
                worst = _charm.report_of(reporter.charm.app.status)
            self._put_slot(worst)
            return
        if reporter.state.application:
            # An earlier version of the package used the slot.
            reporter.state.application = {}
            cleared = {"unit": reporter.names["unit"]}
            reporter.state.put(["application"], "clear_application_status", cleared)
        if not found and not reporter.state.application_set:
            return
        _texts.identify(found, reporter.state.application_set)
        _set_times(found, reporter.state.application_set)
        reporter.state.application_set = found
        request = self._set(found)
        reporter.state.put(["application", "set"], "replace_application_statuses", request)

    def _put_slot(self, report: Dict[str, Any]) -> None:
        reporter = self._reporter
        names = ("level", "message", "reason", "action")
        request = {name: report[name] for name in names if report.get(name)}
        if request.get("level", "LEVEL_UNKNOWN") == "LEVEL_UNKNOWN":
            return
        before = reporter.state.application
        is_same = before.get("level") == request["level"]
        request["observe_time"] = before["observe_time"] if is_same else time.time()
        reporter.state.application = dict(request)
        request.update(unit=reporter.names["unit"], mode=self._mode)
        reporter.state.put(["application"], "set_application_status", request)


def is_met(fault: Dict[str, Any]) -> bool:
    """Returns whether this hook was started because the needs of an error are met."""
    if os.environ.get("BELLWETHER_EVENT"):
        if os.environ["BELLWETHER_EVENT"] != MET:
            return False
        target = os.environ.get("BELLWETHER_TARGET", "")
        named = (os.environ.get(COMPONENT, ""), target or fault["target"])
        return named == (fault["component"], fault["target"])
    # Juju names the notice of Pebble, and not what the notice is about.
    notice = os.environ.get("JUJU_NOTICE_KEY", "")
    return notice == NOTICE + MET and bool(fault["report"].get("needs"))


def _set_times(found: List[Dict[str, Any]], before: List[Dict[str, Any]]) -> None:
    """Gives each status the start of its level, so that a late delivery shows it."""
    now, known = time.time(), {}
    for one in before:
        known[(one["component"], one["key"], one["level"])] = one["observe_time"]
    for one in found:
        one["observe_time"] = known.get((one["component"], one["key"], one["level"]), now)


def detail(reporter: Shown, event: Any) -> None:
    """Answers the action `status-detail` with what the unit knows, without a server too."""
    import json

    state = reporter.state
    rows = [["LEVEL", "COMPONENT", "MESSAGE", "ACTION", "CHECK", "NEEDS"]]
    statuses = state.pull + list(reporter.pushes())
    statuses.sort(key=lambda one: _texts.RANKS.get(one["level"], 9))
    for one in statuses:
        named = "/".join(part for part in (one["component"], one["key"]) if part)
        row = [one["level"][len("LEVEL_") :].lower(), named or "-", one["message"] or "-"]
        rows.append(row + [one.get("action") or "-", one.get("check") or "-", _needed(one)])
    for fault in state.faults.values():
        level = _classify.level_of(fault) or "-"
        said = "{}: {}".format(fault["target"], fault["report"]["message"])
        report = fault["report"]
        rows.append([level, fault["component"] or "-", said, "-", report["code"], _needed(report)])
    for name, one in state.operations.items():
        said = "to {} {}".format(one["to"], one["progress"]).strip()
        rows.append(["maintenance", "operation/" + name, said, "-", "-", "-"])
    answer = {
        "statuses": statuses,
        "application": state.application,
        "application-statuses": state.application_set,
        "errors": list(state.faults.values()),
        "operations": {name: one["to"] for name, one in state.operations.items()},
        "waiting-calls": len(state.spool),
    }
    results = {
        "table": _charm.table(rows),
        "json": json.dumps(answer, sort_keys=True),
        "delivered": "no" if state.spool else "yes",
    }
    try:
        event.set_results(results)
    except Exception:
        # `action-set` is a program, which can be missing or fail.
        logger.exception("the statuses are not shown by the action")


def _needed(one: Dict[str, Any]) -> str:
    return ", ".join(_needs.text_of(need) for need in one.get("needs", ())) or "-"


def _is_kept(status: Any) -> bool:
    return bool((getattr(status, _charm.DETAIL, None) or {}).get("kept"))
