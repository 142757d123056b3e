"""A status that a handler raises: the handler ends, the hook goes on, and the status is shown."""

from __future__ import annotations

import functools
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._roles import Raised


class StatusError(Exception):
    """Ends the handler of an event with statuses of the unit, such as `status.blocked(...)`.

    The hook does not fail. Other handlers of the event run, and all other statuses are kept.
    """

    def __init__(self, *statuses: Any) -> None:
        if not statuses:
            raise TypeError("a StatusError needs a status, such as ops.BlockedStatus")
        for one in statuses:
            if not hasattr(one, "name") or not hasattr(one, "message"):
                raise TypeError("{!r} is no status of ops, such as ops.ActiveStatus".format(one))
        super().__init__("; ".join("{}: {}".format(one.name, one.message) for one in statuses))
        self.statuses = statuses


def watch(framework: Any, reporter: Raised) -> None:
    """Catches the exception in each handler that is observed after the reporter was made.

    ops keeps the name of a handler and looks it up for each event, so the handler is replaced on
    its object. An exception that passed through ops would leave the event for the next hook.
    """
    observe = framework.observe

    @functools.wraps(observe)
    def observed(event: Any, handler: Any, *more: Any, **named: Any) -> Any:
        done = observe(event, handler, *more, **named)
        _replace(handler, reporter)
        return done

    framework.observe = observed


def _replace(handler: Any, reporter: Raised) -> None:
    holder, name = getattr(handler, "__self__", None), getattr(handler, "__name__", "")
    function = getattr(handler, "__func__", None)
    if holder is None or function is None or getattr(function, "catches_status_errors", False):
        return

    @functools.wraps(function)
    def caught(self: Any, event: Any, *more: Any, **named: Any) -> Any:
        try:
            return function(self, event, *more, **named)
        except StatusError as error:
            if hasattr(event, "add_status"):
                for one in error.statuses:
                    event.add_status(one)
            else:
                reporter.raised.extend(error.statuses)
            return None

    setattr(caught, "catches_status_errors", True)
    try:
        setattr(holder, name, types.MethodType(caught, holder))
    except AttributeError:
        # An object with fixed attributes keeps its handler, whose exception fails the hook.
        pass
