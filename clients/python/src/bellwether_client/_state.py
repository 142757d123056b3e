"""What a unit remembers between its hooks: a JSON file with the calls that wait, and a journal."""

from __future__ import annotations

import json
import os
import time

from ._log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence

    Entry = Dict[str, Any]

logger = Log(__name__)

#: Calls that wait at most; the oldest ones are dropped first, and the log counts them.
CALLS_MAX = 2048
CALL_BYTES_MAX = 1024 * 1024
VERSION = 1
#: A set is fresh for so many distances of the hooks `update-status`, and at least 15 minutes:
#: Juju may run one of them late.
TTL_DISTANCES, TTL_MIN_SECONDS, TTL_MAX_SECONDS = 3.0, 900.0, 30 * 86400.0
#: Distances of which the least counts: one of them may have the time of a unit that was off.
DISTANCES_MAX = 3


class State:
    """The record of one unit. A file that cannot be read counts as empty and is kept aside."""

    def __init__(self, path: str) -> None:
        self.path = path
        #: The last pull set, for the identities of the next one and for `status-detail`.
        self.pull: List[Dict[str, Any]] = []
        #: The last status of the application that this unit reported as leader, in one slot.
        self.application: Dict[str, Any] = {}
        #: The last set of statuses of the application that this unit reported as leader.
        self.application_set: List[Dict[str, Any]] = []
        #: Statuses that are kept over hooks, by `component key`.
        self.pushes: Dict[str, Dict[str, Any]] = {}
        #: Open errors, by `component target`.
        self.faults: Dict[str, Dict[str, Any]] = {}
        #: Operations in flight, by name.
        self.operations: Dict[str, Dict[str, Any]] = {}
        #: Callbacks that were requested, by key.
        self.callbacks: Dict[str, Dict[str, Any]] = {}
        #: The data of the application as of the last read, and the last writes.
        self.data: Dict[str, bytes] = {}
        #: Whether a hook has announced that the unit stops, and none has begun a new life.
        self.stopping = False
        #: Whether a new life of the unit was begun since the record began.
        self.registered = False
        #: Whether a failed hook was reported and is not resolved. None: not known.
        self.hook_failed: Any = None
        #: Calls whose success was said since the record began, by `component target`.
        self.resolved: List[str] = []
        #: Whether the kept statuses were read from the server.
        self.restored = False
        #: When the last hook `update-status` began, and the last distances of two of them.
        self.updated = 0.0
        self.distances: List[float] = []
        #: Calls that wait for delivery, in order.
        self.spool: List[Entry] = []
        self._saved = ""
        #: Bytes of each waiting call, by its request id.
        self._sizes: Dict[str, int] = {}
        #: Whether the journal beside the file has something.
        self._journaled = False
        self._load()

    def save(self) -> None:
        """Replaces the file in one step, if anything is different, and ends the journal."""
        values = {name: getattr(self, name) for name in _fields(self)}
        text = json.dumps(dict(values, version=VERSION), default=_to_json, sort_keys=True)
        if text == self._saved and not self._journaled:
            return
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        written = "{}.{}".format(self.path, os.getpid())
        # The file has messages and payloads: only its owner reads it.
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(written, self.path)
        except OSError:
            # On a full disk each hook would leave a part of a file with another name.
            os.unlink(written)
            raise
        self._saved = text
        if self._journaled:
            os.unlink(self._journal)
            self._journaled = False

    @property
    def _journal(self) -> str:
        return self.path + ".log"

    def note_push(self, name: str, kept: Dict[str, Any], request: Dict[str, Any]) -> None:
        """Keeps a status over hooks and adds its call, by one line instead of a whole file."""
        self.pushes[name] = kept
        self.put(["push", kept["component"], kept["key"]], "report_status", request)
        self._note({"push": [name, kept, self.spool[-1]]})

    def note_done(self, entry: Entry) -> None:
        """Removes a waiting call that is done with."""
        self.spool = [one for one in self.spool if one is not entry]
        self._sizes.pop(entry["request_id"], None)
        if self._journaled:
            self._note({"done": entry["request_id"]})

    def _note(self, change: Dict[str, Any]) -> None:
        text = json.dumps(change, default=_to_json) + "\n"
        try:
            os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
            descriptor = os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._journaled = True
            with os.fdopen(descriptor, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            logger.error("the journal of the statuses is not written: %s", error)

    def _replay(self) -> None:
        """Applies the journal of a hook that was killed. A line that is cut ends it."""
        try:
            with open(self._journal, encoding="utf-8") as file:
                lines = file.read().splitlines()
        except (OSError, ValueError):
            return
        self._journaled = True
        for text in lines:
            try:
                change = json.loads(text, object_hook=_from_json)
                if "done" in change:
                    found = [one for one in self.spool if one["request_id"] != change["done"]]
                    self.spool = found
                    continue
                name, kept, entry = change["push"]
                _check_member("pushes", kept)
                _check_member("spool", entry)
            except (ValueError, TypeError, KeyError, RecursionError):
                return
            self.pushes[name] = kept
            self.spool = [one for one in self.spool if one["identity"] != entry["identity"]]
            self.spool.append(entry)

    def _load(self) -> None:
        self._load_file()
        if self.path:
            self._replay()

    def _load_file(self) -> None:
        try:
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            logger.warning("the state %s cannot be read and counts as empty: %s", self.path, error)
            return
        try:
            found = json.loads(text, object_hook=_from_json)
            # An earlier version of the package did not have every field.
            known = [name for name in _fields(self) if name in found or name not in LATER_FIELDS]
            checked = {name: _checked(found, name) for name in known}
            if found["version"] != VERSION:
                raise ValueError("version {!r}".format(found["version"]))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            logger.warning("the state %s is damaged and counts as empty: %r", self.path, error)
            try:
                os.replace(self.path, self.path + ".damaged")
            except OSError:
                pass
            return
        self.__dict__.update(checked)
        self._saved = text

    def put(
        self,
        identity: Sequence[str],
        method: str,
        request: Dict[str, Any],
        replaces: Sequence[str] = (),
    ) -> None:
        """Adds a call for delivery.

        It replaces a waiting call with the same identity, and those whose identity begins with
        `replaces`: the server would show the newest one only.
        """
        wanted, begin = list(identity), list(replaces)
        kept = []
        for entry in self.spool:
            is_same = entry["identity"] == wanted
            if not is_same and not (begin and entry["identity"][: len(begin)] == begin):
                kept.append(entry)
        entry = {"identity": wanted, "method": method, "request": request, "said": time.time()}
        # A repeat after a lost answer has the same id, so the server applies the call once.
        entry["request_id"] = os.urandom(16).hex()
        self._sizes[entry["request_id"]] = len(json.dumps(entry, default=_to_json))
        self.spool = kept + [entry]
        self._bound()

    def note_update(self) -> None:
        """Notes the begin of a hook `update-status`. Another run of one hook has no distance."""
        now = time.time()
        if self.updated and 1.0 <= now - self.updated:
            self.distances = (self.distances + [now - self.updated])[-DISTANCES_MAX:]
        self.updated = now

    def learned_ttl(self) -> float:
        """Returns the seconds for which a set is fresh without another hook; 0: not known yet."""
        if not self.distances:
            return 0.0
        learned = TTL_DISTANCES * min(self.distances)
        return min(max(learned, TTL_MIN_SECONDS), TTL_MAX_SECONDS)

    def forget(self, identity: Sequence[str]) -> None:
        """Removes a waiting call that a newer one has overtaken."""
        self.spool = [one for one in self.spool if one["identity"] != list(identity)]

    def end_life(self) -> None:
        """Forgets what the unit said, which goes with its removal. Calls that wait stay."""
        empty = State("")
        for name in _fields(self):
            if name != "spool":
                setattr(self, name, getattr(empty, name))

    def find(self, identity: Sequence[str]) -> Entry:
        """Returns a waiting call, or an empty one."""
        for entry in self.spool:
            if entry["identity"] == list(identity):
                return entry
        return {}

    def _bound(self) -> None:
        # The calls that describe the present stay, and their size does not count: there is one of
        # each, they alone say how the unit is, and a large set would push out all others.
        others = [one for one in self.spool if one["identity"][0] not in CURRENT]
        total = sum(self._size(one) for one in others)
        dropped = 0
        while len(others) > CALLS_MAX or (total > CALL_BYTES_MAX and len(others) > 1):
            oldest = others.pop(0)
            total -= self._size(oldest)
            self.spool = [one for one in self.spool if one is not oldest]
            dropped += 1
        if dropped:
            logger.warning("%s calls to Bellwether do not fit into the spool: dropped", dropped)


    def _size(self, entry: Entry) -> int:
        known = self._sizes.get(entry["request_id"])
        if known is None:
            known = self._sizes[entry["request_id"]] = len(json.dumps(entry, default=_to_json))
        return known


_NUMBER = (int, float)
_STATUS: Dict[str, Any] = {
    "component": str,
    "key": str,
    "level": str,
    "message": str,
    "observe_time": _NUMBER,
}
#: The types of the fields of a state, and of what every member of a field has.
SHAPES: Dict[str, Any] = {
    "pull": list,
    "application": dict,
    "pushes": dict,
    "faults": dict,
    "operations": dict,
    "callbacks": dict,
    "data": dict,
    "application_set": list,
    "stopping": bool,
    "registered": bool,
    "hook_failed": (bool, type(None)),
    "resolved": list,
    "restored": bool,
    "updated": _NUMBER,
    "distances": list,
    "spool": list,
}
SHAPES_OF_MEMBERS: Dict[str, Dict[str, Any]] = {
    "pull": _STATUS,
    "application_set": _STATUS,
    "pushes": dict(_STATUS, expires=(int, float, type(None))),
    "faults": {
        "component": str,
        "target": str,
        "count": int,
        "first": _NUMBER,
        "next": (int, float, type(None)),
        "report": dict,
        "verdict": dict,
    },
    "operations": {
        "id": str,
        "to": str,
        "payload": bytes,
        "checkpoint": bytes,
        "progress": str,
        "fence": int,
        "begun": bool,
        "pushed": bool,
    },
    "callbacks": {"due": _NUMBER, "reason": str},
    "spool": {
        "identity": list,
        "method": str,
        "request": dict,
        "said": _NUMBER,
        "request_id": str,
    },
}
#: Fields that a record of an earlier version does not have.
LATER_FIELDS = (
    "application_set",
    "stopping",
    "registered",
    "updated",
    "distances",
    "callbacks",
)
#: Identities of the calls that describe the present.
CURRENT = ("pull", "application", "register", "stopping")


def _checked(found: Dict[str, Any], name: str) -> Any:
    """Returns a value of a file, or raises ValueError: a file of another hand must not fail a hook."""
    value, expected = found[name], SHAPES[name]
    members = SHAPES_OF_MEMBERS.get(name)
    if not isinstance(value, expected):
        raise ValueError("{} is {!r}".format(name, type(value)))
    if members is not None:
        for one in value.values() if isinstance(value, dict) else value:
            _check_member(name, one)
    return value


def _check_member(name: str, one: Any) -> None:
    for key, kind in SHAPES_OF_MEMBERS[name].items():
        if not isinstance(one[key], kind):
            raise ValueError("{} has {!r} as {}".format(name, one[key], key))


def pair(first: str, second: str) -> str:
    """Returns the name of two names in the records of a state."""
    return "{} {}".format(first, second)


def state_path(folder: str, model: str, unit: str) -> str:
    """Returns the path of the state of a unit, without characters that a file name cannot have."""
    name = "-".join(part.replace("/", "-") for part in (model, unit) if part)
    return os.path.join(folder, ".bellwether-{}.json".format(name))


def _fields(state: State) -> List[str]:
    return [name for name in vars(state) if not name.startswith("_") and name != "path"]


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        import base64

        return {"$bytes": base64.b64encode(value).decode("ascii")}
    raise TypeError("{!r} has no place in the state".format(type(value)))


def _from_json(value: Dict[str, Any]) -> Any:
    if len(value) == 1 and isinstance(value.get("$bytes"), str):
        import base64

        return base64.b64decode(value["$bytes"])
    return value
