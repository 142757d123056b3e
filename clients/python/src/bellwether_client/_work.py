"""Attempts and operations of a charm: failed calls, and work that the next hook continues."""

from __future__ import annotations

import functools
import os
import time

from . import _classify, _texts, errors
from ._log import Log
from ._secrets import masked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Dict, List, Optional, Type, TypeVar

    from ._deliver import Courier
    from ._roles import Working

    Function = TypeVar("Function", bound=Callable[..., Any])

logger = Log(__name__)

#: The server considers an operation interrupted after this time without a `save`.
LEASE_SECONDS = 1800.0
PAYLOAD_BYTES_MAX = 262_144
CHECKPOINT_BYTES_MAX = 65_536
PROGRESS_BYTES_MAX = 256
#: The shape of the end of an id, which is random.
UNIQUE = "0" * 8
#: Kinds of operations, by the word that a name begins with. A rollback is one of an operation that
#: said before that it can be undone, which this package does not.
KINDS = {
    "upgrade": "OPERATION_KIND_UPGRADE",
    "install": "OPERATION_KIND_INSTALL",
    "configure": "OPERATION_KIND_CONFIGURE",
    "other": "OPERATION_KIND_OTHER",
}
#: States of operations that have ended.
CLOSED = tuple(
    "OPERATION_STATE_" + state for state in ("SUCCEEDED", "FAILED", "SUPERSEDED", "ABANDONED")
)
#: Calls that end an operation for good. They are made without a fence too.
ENDS = ("complete_operation", "cancel_operation")


class Attempt:
    """One call of something outside. As a context manager it suppresses the exception.

    As a decorator it also skips the call while it is not due, and repeats it for at most `wait`
    seconds; the result of a call that failed or was skipped is None.
    """

    def __init__(
        self,
        reporter: Working,
        component: str,
        target: str,
        wait: float,
        action: str,
        needs: List[Any],
    ) -> None:
        self._reporter = reporter
        self.component, self.target = _texts.name(component), _texts.target(target)
        self._wait, self._action, self._needs = wait, action, needs
        #: The exception of the last attempt, or None.
        self.error: Optional[BaseException] = None
        #: What to do next, a `Verdict` of the protos; empty after a success.
        self.verdict: Dict[str, Any] = {}

    @property
    def failed(self) -> bool:
        """Whether the last attempt failed."""
        return self.error is not None

    def __enter__(self) -> Attempt:
        self.error, self.verdict = None, {}
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> bool:
        if error is None:
            self._reporter.resolve(self.component, self.target)
            return False
        if not isinstance(error, Exception):
            return False
        self.error = error
        # Only a call that is repeated in place can try again at once.
        least = {} if not self._wait else {"shortest_wait": 0.0}
        self.verdict = self._reporter.report_error(
            self.component,
            self.target,
            error,
            action=self._action,
            needs=self._needs,
            **least,
        )
        logger.warning("%s: %s failed: %s", self.component, self.target, type(error).__name__)
        return True

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def attempted(*given: Any, **named: Any) -> Any:
            if not self._reporter.due(self.component, self.target):
                return None
            end = time.monotonic() + self._wait
            while True:
                with self:
                    return function(*given, **named)
                wait = self.verdict.get("retry_after")
                if wait is None or time.monotonic() + wait > end:
                    return None
                time.sleep(wait)

        return attempted  # type: ignore[return-value]


def _check_bytes(name: str, value: Any, bytes_max: int) -> None:
    """Refuses what the record of the unit cannot hold, before it is stored."""
    if not isinstance(value, bytes):
        raise TypeError("the {} is bytes, not {!r}".format(name, type(value).__name__))
    if len(value) > bytes_max:
        raise ValueError("the {} has more than {} bytes".format(name, bytes_max))


def public_report(error: BaseException) -> Dict[str, Any]:
    """Returns the report of an exception as others may read it, the traceback included."""
    report = _classify.report_of(error)
    report["message"] = _texts.public(report["message"])
    detail = masked(_texts.visible(report["internal_detail"])).encode("utf-8")
    # The end of a traceback says most.
    report["internal_detail"] = detail[-_classify.DETAIL_BYTES_MAX :].decode("utf-8", "ignore")
    return report


def _kind(name: str, given: Optional[str]) -> str:
    """Returns the kind of an operation: the given one, else that of the first word of its name."""
    if given is None:
        return KINDS.get(name.split("-")[0], KINDS["other"])
    if given not in KINDS:
        known = ", ".join(KINDS)
        raise ValueError("the kind of an operation is {}, not {!r}".format(known, given))
    return KINDS[given]


def _id_end(unit: str, unique: str) -> str:
    """Returns what follows the name of an operation in its id at the server."""
    return "-{}-{}".format(unit.replace("/", "-")[:80], unique)


def _let_go(record: Dict[str, Any]) -> None:
    """Notes that this unit does not hold an operation any more, and the fence that it had."""
    record["last_fence"], record["fence"] = record["fence"] or record.get("last_fence", 0), 0


def open_operations(courier: Courier, listed: List[Any]) -> Dict[str, Dict[str, Any]]:
    """Returns the records of the operations at the server that this package began, by name."""
    found = {}
    for one in listed:
        whole_id, end = one["operation_id"], _id_end(one["unit"], UNIQUE)
        name = whole_id[: -len(end)]
        is_ours = whole_id == name + _id_end(one["unit"], whole_id[-len(UNIQUE) :])
        if one["state"] in CLOSED or not is_ours:
            continue
        answer = courier.call("get_operation", operation_id=whole_id)
        whole = answer["operation"]
        found[name] = {
            "id": whole["operation_id"],
            "to": whole["target_version"],
            "payload": whole["payload"],
            "checkpoint": whole["checkpoint"],
            "progress": whole["progress"],
            # A hook of this unit that held the operation is over.
            "fence": whole["fence"] if whole["holder"] == whole["unit"] else 0,
            "last_fence": whole["fence"],
            "begun": True,
            "pushed": False,
        }
    return found


class Operation:
    """Work of this unit that survives the end of its hook.

    The payload and the checkpoint are stored in the state of the unit before anything else, so
    that they need no server. The server has a copy, as an operation of the unit, or as a kept
    status while another operation of the unit is open.
    """

    def __init__(
        self, reporter: Working, name: str, to: str, payload: bytes, kind: Optional[str]
    ) -> None:
        _check_bytes("payload", payload, PAYLOAD_BYTES_MAX)
        self._reporter = reporter
        self.name = _texts.name(name) or "operation"
        self._kind = _kind(self.name, kind)
        self.to = _texts.public(to, PROGRESS_BYTES_MAX)
        self._given = payload
        #: Whether an earlier hook began this operation.
        self.resumed = False
        #: Whether an operator asked at the server that the work stops.
        self.cancelled = False

    @property
    def payload(self) -> bytes:
        """The payload of the hook that began the operation."""
        return bytes(self._record["payload"])

    @property
    def checkpoint(self) -> bytes:
        """What the last `save` stored; empty at the start."""
        return bytes(self._record["checkpoint"])

    @property
    def _record(self) -> Dict[str, Any]:
        record = self._reporter.state.operations.get(self.name)
        if record is None:
            raise RuntimeError("operation {} is not open: use it in `with`".format(self.name))
        return record

    def save(self, checkpoint: bytes, progress: str = "") -> None:
        """Stores how far the work is, before it goes on."""
        _check_bytes("checkpoint", checkpoint, CHECKPOINT_BYTES_MAX)
        record = self._record
        record["checkpoint"] = checkpoint
        record["progress"] = _texts.public(progress, PROGRESS_BYTES_MAX) or record["progress"]
        self._reporter.save()
        self._show()

    def __enter__(self) -> Operation:
        self._reporter.restore()
        known = self._reporter.state.operations.get(self.name)
        self.resumed = known is not None and known["to"] == self.to
        if known is not None and not self.resumed:
            # The older target is given up; its record at the server ends with it.
            self._end(known, "cancel_operation", {})
        if not self.resumed:
            self._reporter.state.operations[self.name] = {
                "id": self.name[:150] + _id_end(self._reporter.names["unit"], os.urandom(4).hex()),
                "to": self.to,
                "payload": self._given,
                "checkpoint": b"",
                "progress": "",
                "fence": 0,
                "last_fence": 0,
                "begun": False,
                "pushed": False,
            }
        self._reporter.save()
        self._hold()
        self._show()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        record = self._record
        if error is None:
            done = {"fence": record["fence"]}
            if not record["fence"]:
                # Of the last attempt: the server takes it while no attempt is due, too.
                done["last_fence"] = record.get("last_fence", 0)
            self._end(record, "complete_operation", done)
            del self._reporter.state.operations[self.name]
        elif isinstance(error, Exception):
            report = dict(public_report(error), component="operation", target=self.name)
            request = {"fence": record["fence"], "error": report, "touched": True}
            self._end(record, "fail_operation", request)
            _let_go(record)
            record["progress"] = _texts.public(report["message"], PROGRESS_BYTES_MAX)
        else:
            self._end(record, "release_operation", {"fence": record["fence"]})
            _let_go(record)
        self._reporter.save()

    def _hold(self) -> None:
        """Begins the operation at the server, or takes it up again."""
        record, courier = self._record, self._reporter.courier
        # What an earlier hook said of this operation comes first.
        self._reporter.flush()
        if not courier.spare:
            return
        names = {"unit": self._reporter.names["unit"], "operation_id": record["id"]}
        try:
            if record["fence"]:
                # The process that had this fence is gone: hooks of a unit run one at a time.
                courier.call("release_operation", fence=record["fence"], **names)
            _let_go(record)
            was_begun, record["begun"] = record["begun"], True
            begun = courier.call(
                "begin_operation",
                kind=self._kind,
                target_version=self.to,
                payload=record["payload"],
                deterministic=True,
                for_unit=self._reporter.names["unit"],
                lease_duration=LEASE_SECONDS,
                **names,
            )
            if not begun["begun"]:
                was_begun = True
                record["last_fence"] = begun["operation"]["fence"]
                begun = courier.call("acquire_operation", **names)
            record["fence"] = begun["operation"]["fence"]
        except errors.Error as error:
            logger.info("the unit alone keeps the operation %s: %s", self.name, error)
            if error.reason in ("OPERATION_HELD", "RESUME_FIRST") and not was_begun:
                record["begun"] = False
        self._reporter.save()

    def _show(self) -> None:
        record = self._record
        if record["fence"] and self._reporter.courier.spare:
            try:
                answer = self._reporter.courier.call(
                    "heartbeat_operation",
                    unit=self._reporter.names["unit"],
                    operation_id=record["id"],
                    fence=record["fence"],
                    checkpoint=record["checkpoint"],
                    progress=record["progress"],
                )
                self.cancelled = answer["operation"]["state"] == "OPERATION_STATE_CANCELLING"
            except errors.Aborted:
                # Another hook of this unit cannot run, so an operator took the operation away.
                record["fence"] = 0
            except errors.Error as error:
                logger.info("the progress of %s is not delivered: %s", self.name, error)
        if record["fence"]:
            self._hide(record)
            return
        shown = "{} to {}".format(self.name, self.to)
        if record["progress"]:
            shown += " ({})".format(record["progress"])
        record["pushed"] = True
        status = self._reporter.maintenance("operation", shown)
        self._reporter.push("operation", status, key=self.name)

    def _hide(self, record: Dict[str, Any]) -> None:
        """Clears the status that stood for the operation."""
        if record["pushed"]:
            record["pushed"] = False
            self._reporter.clear("operation", key=self.name)

    def _end(self, record: Dict[str, Any], method: str, request: Dict[str, Any]) -> None:
        """Ends the operation at the server, now or later, and the status that stood for it."""
        if method in ENDS:
            self._hide(record)
        if not record["begun"] or (method not in ENDS and not record["fence"]):
            return
        request = dict(request, operation_id=record["id"])
        if method != "cancel_operation":
            request["unit"] = self._reporter.names["unit"]
        self._reporter.say(["operation", record["id"]], method, request)
