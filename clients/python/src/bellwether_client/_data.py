"""The data that the leader of an application shares with its units, for a charm."""

from __future__ import annotations

from . import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Union

    from ._roles import Shared

KEY_BYTES_MAX = 256
VALUE_BYTES_MAX = 64 * 1024
#: Data above this size are not kept for hooks without a server.
KEPT_BYTES_MAX = 256 * 1024


class NotLeader(Exception):
    """Only the leader of the application writes its data."""


class LeaderData:
    """Reads come from the server once in a hook; without it, from the last hook that reached it."""

    def __init__(self, reporter: Shared) -> None:
        self._reporter = reporter
        self._read: Optional[Dict[str, bytes]] = None

    def get(self, key: str, default: str = "") -> str:
        """Returns a value as text."""
        found = self._all().get(key)
        return default if found is None else found.decode("utf-8", "replace")

    def get_bytes(self, key: str) -> Optional[bytes]:
        """Returns a value, or None if there is none."""
        return self._all().get(key)

    def keys(self) -> List[str]:
        """Returns the keys in order."""
        return sorted(self._all())

    def update(self, values: Mapping[str, Union[str, bytes]]) -> None:
        """Writes values; an empty one deletes its key. Raises NotLeader.

        What the server does not take now is delivered by a later hook, if the unit then leads.
        """
        if not self._reporter.is_leader():
            raise NotLeader("{} does not lead".format(self._reporter.names["unit"]))
        changes = {}
        for key, value in values.items():
            if not isinstance(key, str) or not isinstance(value, (str, bytes)):
                # `bytes` makes as many zeros of a number.
                what = "keys are text and values text or bytes, not {!r}: {!r}"
                raise TypeError(what.format(key, value))
            changes[key] = value.encode("utf-8") if isinstance(value, str) else bytes(value)
            if not 0 < len(key.encode("utf-8")) <= KEY_BYTES_MAX:
                raise ValueError("a key has 1 to {} bytes".format(KEY_BYTES_MAX))
            if len(changes[key]) > VALUE_BYTES_MAX:
                raise ValueError("{} has more than {} bytes".format(key, VALUE_BYTES_MAX))
        if not changes:
            return
        waiting = self._reporter.state.find(["data"])
        merged = dict(waiting["request"]["set"] if waiting else {}, **changes)
        unit = self._reporter.names["unit"]
        self._keep({**self._all(), **changes})
        self._reporter.say(["data"], "update_app_data", {"unit": unit, "set": merged})

    def _all(self) -> Dict[str, bytes]:
        if self._read is None:
            self._reporter.flush()
            try:
                answer = self._reporter.courier.call("get_app_data")
                self._keep(answer["app_data"]["data"] if answer["app_data"] else {})
            except errors.Error:
                self._read = self._reporter.state.data
            waiting = self._reporter.state.find(["data"])
            if waiting:
                self._keep({**(self._read or {}), **waiting["request"]["set"]})
        return self._read or {}

    def _keep(self, values: Dict[str, bytes]) -> None:
        self._read = {key: value for key, value in values.items() if value}
        size = sum(len(key) + len(value) for key, value in self._read.items())
        self._reporter.state.data = self._read if size <= KEPT_BYTES_MAX else {}
