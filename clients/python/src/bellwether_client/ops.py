"""The statuses of a charm: reported to Bellwether at the end of each hook, and complete without it.

    from bellwether_client.ops import StatusReporter

    class Charm(ops.CharmBase):
        def __init__(self, framework):
            super().__init__(framework)
            self.status = StatusReporter(self)

The module imports `ops` when a reporter is made, so that the package itself needs nothing.
"""

from __future__ import annotations

import math
import os
import time

from . import _charm, _classify, _deliver, _needs, _state, _texts, errors
from ._data import LeaderData, NotLeader
from ._hook import HOOK, HookEnd, is_met
from ._log import Log
from ._raised import StatusError
from ._work import Attempt, Operation, open_operations, public_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

    import ops

    from ._client import Client
    from ._needs import Needs

logger = Log(__name__)

#: The option of a charm that has the address.
ADDRESS_OPTION = "bellwether-address"
#: The settings of `Client` that a reporter passes on.
SETTINGS = ("token", "token_file", "ca", "cert", "cert_key", "retries")
SETTABLE = ("active", "waiting", "maintenance", "blocked")
#: All calls of a hook; with the files and the last return it stays below 2 s.
CALLS_SECONDS = 1.9
#: A hook that ends cannot try again sooner: the next one starts after some seconds.
SHORTEST_WAIT_SECONDS = 10.0
#: The attribute of a charm that has its reporter.
REPORTER = "_bellwether_reporter"
#: Hooks in which a person may have removed the cause of an error.
CHANGED = ("config-changed", "upgrade-charm", "secret-changed")

__all__ = ["Attempt", "LeaderData", "NotLeader", "Operation", "StatusError", "StatusReporter"]


class StatusReporter:
    """Reports what a charm says of itself. No method fails because of the server.

    `address` is the address of the server; without it the option `bellwether-address` of the
    charm, then BELLWETHER_SERVER. Without any, everything works inside of the unit only.
    `namespace` is that of the application; without it the name of the model, which several
    controllers can have. `timeout` is for all calls of a hook together. `application_status` is
    `contribute` or `override`: how a status of the application takes part. `set_ttl` is the time
    in seconds after which the set of the unit is stale without another hook: 0 for never, None
    for three distances of the hooks `update-status`. `settings` are those of `Client`.

    A charm has one reporter: a library that makes another one gets the first, with its settings.
    """

    def __new__(cls, charm: ops.CharmBase, *_: Any, **__: Any) -> StatusReporter:
        known = getattr(charm, REPORTER, None)
        return known if isinstance(known, cls) else super().__new__(cls)

    def __init__(
        self,
        charm: ops.CharmBase,
        address: Optional[str] = None,
        *,
        namespace: Optional[str] = None,
        application_status: str = "contribute",
        timeout: float = CALLS_SECONDS,
        set_ttl: Optional[float] = None,
        state_dir: Optional[str] = None,
        **settings: Any,
    ) -> None:
        if getattr(charm, REPORTER, None) is self:
            return
        unknown = sorted(set(settings) - set(SETTINGS))
        if unknown:
            known = ", ".join(SETTINGS)
            raise TypeError("a reporter has no setting {!r}; it has {}".format(unknown[0], known))
        self.charm = charm
        self._address, self._settings = address, settings
        self.names = {
            "namespace": charm.model.name or "" if namespace is None else namespace,
            "application": charm.app.name,
            "unit": charm.unit.name,
        }
        self.hook = _charm.hook_name()
        folder = state_dir or os.environ.get("BELLWETHER_STATE_DIR") or str(charm.charm_dir)
        path = _state.state_path(folder, self.names["namespace"], self.names["unit"])
        self.state = _state.State(path)
        self._unsaved = ""
        self.courier = _deliver.Courier(self._connect, timeout, self.names)
        self.data = LeaderData(self)
        #: The statuses that this hook has collected, and whether it set one of the application.
        self.collected: Dict[str, List[Any]] = {"unit": [], "app": []}
        self.application_set = False
        #: Statuses of `StatusError` that handlers of this hook have raised.
        self.raised: List[Any] = []
        self._end = HookEnd(self, application_status, set_ttl)
        self._end.begin()
        self._observer = _charm.watch(self)
        # ops keeps no observer alive, and a charm may not keep its reporter.
        setattr(charm, REPORTER, self)

    # Statuses with details, for `event.add_status` or `unit.status`.

    def blocked(self, component: str, message: str, *, action: str, **more: Any) -> Any:
        """Returns a blocked status. `action` is what a person has to do: a sentence or command."""
        return self._status("blocked", component, message, dict(more, action=action))

    def waiting(self, component: str, message: str, **more: Any) -> Any:
        """Returns a waiting status.

        `more`: key, action, check, short, reason, needs, priority, labels. `needs` is what must be
        so before the status can get better: a text such as `postgresql` or `infra/dns=active`, what
        `outside` returns, or a list of them. Raises ValueError for any other text.
        """
        return self._status("waiting", component, message, more)

    def maintenance(self, component: str, message: str, **more: Any) -> Any:
        """Returns a maintenance status; `more` as for `waiting`."""
        return self._status("maintenance", component, message, more)

    def active(self, component: str, message: str = "", **more: Any) -> Any:
        """Returns an active status; `more` as for `waiting`."""
        return self._status("active", component, message, more)

    # Statuses that are kept over hooks.

    def push(
        self, component: str, status: Any, *, key: str = "", ttl: Optional[float] = None
    ) -> None:
        """Keeps a status until `clear`, or for `ttl` seconds (1 s to 30 days).

        After that it ends here and at the server; another push of the same status moves the end.
        """
        report = dict(
            _charm.report_of(status), component=_texts.name(component), key=_texts.name(key)
        )
        before = self.state.pushes.get(_state.pair(report["component"], report["key"]), {})
        now = time.time()
        is_same = before.get("level") == report["level"]
        report["observe_time"] = before["observe_time"] if is_same else now
        if ttl is not None:
            if math.isnan(float(ttl)):
                raise ValueError("the ttl of a status is a number of seconds, not {!r}".format(ttl))
            report["end_after"] = min(max(float(ttl), 1.0), 30 * 86400.0)
        expires = now + report["end_after"] if ttl is not None else None
        kept = dict(report, expires=expires, while_stopping=self.state.stopping)
        request = {"unit": self.names["unit"], "cut_long_texts": True}
        request["status"] = dict(report, kind="STATUS_KIND_PUSH")
        # The end of the hook writes the file; until then the journal has the status.
        self.state.note_push(_state.pair(report["component"], report["key"]), kept, request)
        self._deliver()

    def clear(self, component: str, key: Optional[str] = None) -> None:
        """Ends the kept statuses of a component, or the one with the key."""
        component = _texts.name(component)
        for pair, one in list(self.state.pushes.items()):
            if one["component"] == component and key in (None, one["key"]):
                del self.state.pushes[pair]
        request = {"unit": self.names["unit"], "component": component}
        request["kind"] = "STATUS_KIND_PUSH"
        if key is None:
            self.say(["clear", component], "clear_status", request, ["push", component])
        else:
            request["key"] = _texts.name(key)
            self.say(["push", component, request["key"]], "clear_status", request)

    def kept(self) -> List[Any]:
        """Returns the kept statuses and the open errors as statuses of ops, the worst first.

        Add them in the handler of collect-status to see them in `juju status` too; the server
        has them already.
        """
        self.restore()
        found = []
        for one in self.pushes():
            found.append((one["level"][len("LEVEL_") :].lower(), one["message"]))
        for fault in self.state.faults.values():
            level = _classify.level_of(fault)
            # The failure of an earlier hook ends with this one, which is good up to now.
            if level and fault["component"] != HOOK:
                text = fault["report"]["message"]
                found.append((level, "{}: {}".format(fault["component"], text)))
        ranked = sorted(found, key=lambda one: _texts.RANKS.get("LEVEL_" + one[0].upper(), 9))
        statuses = []
        for level, message in ranked:
            known = level if level in SETTABLE else "blocked"
            statuses.append(_charm.make(known, message, {"kept": True}))
        return statuses

    # Another hook.

    def later(self, seconds: float, reason: str = "", key: str = "") -> None:
        """Requests a hook in so many seconds (1 s to 7 days): `bellwether attend` starts it.

        Another request with the same key replaces it. It ends with the first hook that begins
        after its time and ends well, unless that hook requests it again.
        """
        if math.isnan(float(seconds)):
            raise ValueError("a hook comes after a number of seconds, not {!r}".format(seconds))
        after = min(max(float(seconds), 1.0), 7 * 86400.0)
        key, reason = _texts.name(key), _texts.public(reason, _texts.NAME_BYTES_MAX)
        self._end.request(key, after, reason)
        self.flush()

    # Errors and work.

    def attempt(
        self,
        component: str,
        target: str,
        *,
        wait: float = 0.0,
        action: str = "",
        needs: Optional[Needs] = None,
    ) -> Attempt:
        """Returns a context manager and decorator for a call that may fail.

        An exception is reported with its class, and suppressed; a success ends the error.
        `wait` is for the decorator: seconds for which it repeats the call as the verdict says.
        `needs` is what must be so before the call can succeed, as for `waiting`.
        """
        needed = list(_needs.needs(needs, self.names))
        return Attempt(self, component, target, wait, action, needed)

    def due(self, component: str, target: str) -> bool:
        """Returns whether the last verdict allows an attempt now. Always true in a removal."""
        fault = self.state.faults.get(_state.pair(_texts.name(component), _texts.target(target)))
        if fault is None or self.hook in ("stop", "remove"):
            return True
        kind = fault["verdict"]["class"]
        if kind in ("ERROR_CLASS_GONE", "ERROR_CLASS_FATAL") and fault["next"] is None:
            return self._is_released(fault)
        if is_met(fault):
            return True
        if kind == "ERROR_CLASS_BLOCKED" and fault["verdict"].get("held", True):
            return self.hook != "update-status"
        return time.time() >= float(fault["next"] or 0)

    def report_error(
        self,
        component: str,
        target: str,
        error: BaseException,
        *,
        action: str = "",
        needs: Optional[Needs] = None,
        shortest_wait: float = SHORTEST_WAIT_SECONDS,
    ) -> Dict[str, Any]:
        """Reports a failed call, and returns the verdict: that of the server if it is reached.

        The next attempt waits at least `shortest_wait` seconds: another hook makes it. `needs` is
        what must be so before the call can succeed, as for `waiting`.
        """
        needed = _charm.public_needs(_needs.needs(needs, self.names))
        component, target = _texts.name(component), _texts.target(target)
        pair, now = _state.pair(component, target), time.time()
        report = dict(public_report(error), component=component, target=target)
        report["action"] = _texts.public(action)
        report["shortest_wait"] = shortest_wait
        if needed:
            report["needs"] = needed
        fault = self.state.faults.get(pair)
        if fault is None:
            fault = {"first": now, "count": 0, "while_stopping": self.state.stopping}
        fault.update(component=component, target=target, count=fault["count"] + 1)
        tried = (pair, _state.pair(component, ""))
        self.state.resolved = [one for one in self.state.resolved if one not in tried]
        fault["report"] = {"message": report["message"], "code": report["code"], "needs": needed}
        verdict = self._verdict(report) or _classify.verdict_of(report, fault["count"])
        wait = verdict["retry_after"]
        fault["verdict"] = {name: verdict[name] for name in ("class", "action", "held")}
        fault["next"] = None if wait is None else now + wait
        self.state.faults[pair] = fault
        self.save()
        return verdict

    def resolve(self, component: str, target: Optional[str] = None) -> None:
        """Says that a failed call works again."""
        component = _texts.name(component)
        plain = None if target is None else _texts.target(target)
        open_ones = [
            pair
            for pair, fault in self.state.faults.items()
            if fault["component"] == component and plain in (None, fault["target"])
        ]
        tried = _state.pair(component, plain or "")
        if not open_ones and tried in self.state.resolved:
            return
        # A unit that lost its record cannot know what is open: it says the first success.
        self.state.resolved = self.state.resolved[-_state.CALLS_MAX :] + [tried]
        for pair in open_ones:
            del self.state.faults[pair]
        request = {"unit": self.names["unit"], "component": component}
        request["generation"] = self.generation()
        if plain is None:
            self.say(["resolve", component], "resolve_error", request, ["fault", component])
        else:
            request["target"] = plain
            self.say(["fault", component, plain], "resolve_error", request)

    def resolve_all(self) -> None:
        """Says that everything works: ends the open errors of all components and targets.

        One that is GONE or FATAL stays until an operator releases it.
        """
        held = ("ERROR_CLASS_GONE", "ERROR_CLASS_FATAL")
        for pair, fault in list(self.state.faults.items()):
            if fault["verdict"]["class"] not in held:
                del self.state.faults[pair]
        request = {"unit": self.names["unit"], "all_components": True}
        request["generation"] = self.generation()
        self.say(["resolve-all"], "resolve_error", request, ["fault"])

    def operation(
        self, name: str, to: str, payload: bytes = b"", *, kind: Optional[str] = None
    ) -> Operation:
        """Returns a context manager for work that the next hook continues if this one ends.

        An exception is reported and raised again; the record stays for the next hook. `kind` is
        `upgrade`, `install`, `configure` or `other`, and gives the words for people;
        without it, it is the first word of the name, or else `other`.
        """
        return Operation(self, name, to, payload, kind)

    def operations(self) -> Dict[str, str]:
        """Returns the target of each operation that an earlier hook began and did not end."""
        self.restore()
        return {name: one["to"] for name, one in self.state.operations.items()}

    def use_advanced_statuses(self, *managers: Any) -> None:
        """Reports the statuses of advanced_statuses; the components in their order of priority."""
        self._end.managers = managers

    # Delivery.

    def flush(self) -> None:
        """Delivers now what waits. Without this, the end of the hook does it."""
        self._deliver()
        self.save()

    def _deliver(self) -> None:
        try:
            self.courier.flush(self.state, self.is_leader)
        except Exception:
            # A call that cannot even be made must not stop those of all later hooks.
            logger.exception("what waits for Bellwether cannot be delivered, and is dropped")
            self.state.spool = []

    def say(
        self,
        identity: Sequence[str],
        method: str,
        request: Dict[str, Any],
        replaces: Sequence[str] = (),
    ) -> None:
        """Adds a call to those that wait, and delivers them if a server is reached."""
        self.state.put(identity, method, request, replaces)
        self.flush()

    def save(self) -> None:
        """Stores the state. A full disk does not fail the hook."""
        try:
            self.state.save()
        except OSError as error:
            # Each call stores the state; one line for a hook says it.
            if str(error) != self._unsaved:
                logger.error("the state of the statuses is not stored: %s", error)
            self._unsaved = str(error)

    # Called by the observer of the hook.

    def commit(self) -> None:
        """Reports the hook that ends well."""
        self._end.commit()

    def close(self, error: Optional[BaseException]) -> None:
        """Reports the exception with which the hook ends, if there is one."""
        self._end.close(error)

    def detail(self, event: ops.ActionEvent) -> None:
        """Answers the action `status-detail`."""
        if not self._end.managers:
            from ._hook import detail

            detail(self, event)

    def restore(self) -> None:
        """Reads from the server what the unit kept there, if its own record was lost."""
        if self.state.restored:
            return
        try:
            records = self._listed("list_statuses", "statuses")
            begun = open_operations(self.courier, self._listed("list_operations", "operations"))
        except errors.Error:
            return
        except Exception:
            logger.exception("what the server keeps of this unit cannot be read")
            return
        self.state.restored = True
        for record in records:
            one = record["report"]
            name = _state.pair(one["component"], one["key"])
            if one["kind"] != "STATUS_KIND_PUSH" or one["component"] == HOOK:
                continue
            if record["while_stopping"]:
                # It was said of the life that has ended.
                continue
            if name not in self.state.pushes and not self.state.find(_push(one)):
                self.state.pushes[name] = _restored(record)
        for name, operation in begun.items():
            operation["pushed"] = _state.pair("operation", name) in self.state.pushes
            self.state.operations.setdefault(name, operation)

    def _listed(self, method: str, field: str) -> List[Any]:
        """Returns what the server has of the unit: nothing before the first report."""
        try:
            return self.courier.all(method, field, unit=self.names["unit"])
        except (errors.NotFound, errors.Unimplemented):
            return []

    # Details.

    def _status(self, level: str, component: str, message: str, more: Mapping[str, Any]) -> Any:
        unknown = sorted(set(more) - set(_charm.DETAILS))
        if unknown:
            known = ", ".join(_charm.DETAILS)
            raise TypeError("a status has no detail {!r}; it has {}".format(unknown[0], known))
        for name in ("priority", "precedence"):
            if not isinstance(more.get(name, 0), int):
                what = "the {} of a status is a whole number, not {!r}"
                raise TypeError(what.format(name, more[name]))
        if not isinstance(more.get("labels", {}), dict):
            raise TypeError("the labels of a status are a dict, not {!r}".format(more["labels"]))
        # The server would refuse the whole set because of a need that it does not take.
        needs = _needs.needs(more.get("needs"), self.names)
        return _charm.make(level, message, dict(more, component=component, needs=needs))

    def pushes(self) -> Iterator[Dict[str, Any]]:
        """Yields the kept statuses that have not expired."""
        now = time.time()
        for pair, one in list(self.state.pushes.items()):
            if one["expires"] is not None and one["expires"] <= now:
                del self.state.pushes[pair]
            else:
                yield one

    def _verdict(self, report: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """Reports an error; returns None if the server is not reached, which gets it later."""
        request = {"unit": self.names["unit"], "cut_long_texts": True}
        error = dict(report, generation=self.generation())
        identity = ["fault", report["component"], report["target"]]
        self.flush()
        try:
            answer = self.courier.call("report_error", error=error, **request)
        except errors.Error as refused:
            # A server of Bellwether that refuses the report would do so again.
            if not (isinstance(refused, errors.InvalidArgument) and refused.has_reason):
                self.state.put(identity, "report_error", dict(request, error=error))
            return None
        self.state.forget(identity)
        verdict = dict(answer["verdict"])
        verdict["explanation"] = _texts.line(verdict["explanation"])
        return verdict

    def _is_released(self, fault: Dict[str, Any]) -> bool:
        """Asks the server whether an operator released the component."""
        try:
            listed = self.courier.all("list_faults", "faults", unit=self.names["unit"])
        except errors.Error:
            return self.hook in CHANGED or self.hook.endswith("-action")
        for one in listed:
            if (one["component"], one["target"]) == (fault["component"], fault["target"]):
                return not one["verdict"]["held"]
        return True

    def is_leader(self) -> bool:
        """Returns whether Juju has this unit as the leader."""
        try:
            return bool(self.charm.unit.is_leader())
        except Exception as error:
            logger.warning("Juju does not say whether this unit leads: %s", error)
            return False

    def generation(self) -> str:
        """Returns the name of this run of a hook: a later success ends every error."""
        return _texts.cut(os.environ.get("JUJU_CONTEXT_ID") or str(os.getpid()), 253)

    def _connect(self) -> Optional[Client]:
        address = self._address
        # Older versions of ops do not list the options of a charm.
        options = getattr(self.charm.meta, "config", (ADDRESS_OPTION,))
        if not address and ADDRESS_OPTION in options:
            address = str(self.charm.config.get(ADDRESS_OPTION) or "")
        address = address or os.environ.get("BELLWETHER_SERVER")
        if not address:
            return None
        from ._client import Client

        return Client(address, **dict({"retries": 1}, **self._settings))


def _push(report: Any) -> List[str]:
    return ["push", report["component"], report["key"]]


def _restored(record: Any) -> Dict[str, Any]:
    """Returns a kept status of the server as the state has it."""
    report = record["report"]
    texts = ("short_message", "check", "action", "reason")
    kept: Dict[str, Any] = {name: _texts.public(report[name]) for name in texts if report[name]}
    for name in ("component", "key", "level"):
        kept[name] = report[name]
    kept["message"] = _texts.public(report["message"])
    if report["needs"]:
        kept["needs"] = _charm.public_needs(report["needs"])
    # An earlier version of the package pushed statuses that are stale in place of an end.
    since, expires = record["since_time"], record["end_time"] or record["expire_time"]
    kept["observe_time"] = since.timestamp() if since else time.time()
    kept["expires"] = expires.timestamp() if expires else None
    return kept
