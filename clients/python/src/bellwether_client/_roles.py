"""What the parts of a reporter need of it, as types; only a type checker reads this module.

`ops.StatusReporter` is above its parts. A part takes a role here, so that it does not import the
reporter.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Protocol, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ops

    from ._deliver import Courier
    from ._state import State


class Raised(Protocol):
    """Takes the statuses that handlers raise."""

    raised: List[Any]


class Observed(Raised, Protocol):
    """Follows a hook of ops: its statuses, its action and its end."""

    charm: ops.CharmBase
    collected: Dict[str, List[Any]]
    application_set: bool

    def commit(self) -> None: ...
    def close(self, error: Optional[BaseException]) -> None: ...
    def detail(self, event: ops.ActionEvent) -> None: ...


class Unit(Protocol):
    """Has the names of a unit, its record, and its way to the server."""

    names: Dict[str, str]
    state: State
    courier: Courier

    def flush(self) -> None: ...


class Shared(Unit, Protocol):
    """Writes the data of the application if the unit leads."""

    def is_leader(self) -> bool: ...
    def say(self, identity: Sequence[str], method: str, request: Dict[str, Any]) -> None: ...


class Failing(Unit, Protocol):
    """Reports errors, and restores what an earlier hook left."""

    def restore(self) -> None: ...
    def report_error(
        self,
        component: str,
        target: str,
        error: BaseException,
        *,
        action: str = ...,
        needs: Any = ...,
        shortest_wait: float = ...,
    ) -> Dict[str, Any]: ...


class Working(Failing, Protocol):
    """Keeps the record of attempts and operations, and shows them."""

    def due(self, component: str, target: str) -> bool: ...
    def resolve(self, component: str, target: Optional[str] = ...) -> None: ...
    def save(self) -> None: ...
    def say(self, identity: Sequence[str], method: str, request: Dict[str, Any]) -> None: ...
    def maintenance(self, component: str, message: str) -> Any: ...
    def push(self, component: str, status: Any, *, key: str = ...) -> None: ...
    def clear(self, component: str, key: Optional[str] = ...) -> None: ...


class Ending(Failing, Protocol):
    """Has what a hook has collected until its end."""

    charm: ops.CharmBase
    hook: str
    collected: Dict[str, List[Any]]
    application_set: bool

    def is_leader(self) -> bool: ...
    def generation(self) -> str: ...


class Shown(Protocol):
    """Has what the action `status-detail` shows."""

    state: State

    def pushes(self) -> Iterator[Dict[str, Any]]: ...
