"""A log that fails no hook: `juju-log` is a program, and an argument of a program has no NUL."""

from __future__ import annotations

import logging

from . import _secrets, _texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: `juju-log` gets the text as one argument, of which Linux takes 128 KiB.
TEXT_BYTES_MAX = 16_384


class Log:
    """Writes sentences with facts. Texts of peers and programs become visible first.

    A handler of ops starts `juju-log`, which can be missing or fail; no method raises.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, text: str, *facts: Any) -> None:
        self._write(logging.DEBUG, text, facts)

    def info(self, text: str, *facts: Any) -> None:
        self._write(logging.INFO, text, facts)

    def warning(self, text: str, *facts: Any) -> None:
        self._write(logging.WARNING, text, facts)

    def error(self, text: str, *facts: Any) -> None:
        self._write(logging.ERROR, text, facts)

    def exception(self, text: str, *facts: Any) -> None:
        """Writes an error with the traceback of the exception that is handled."""
        try:
            import traceback

            shown = _texts.visible(traceback.format_exc())
        except Exception:
            shown = "its traceback cannot be read"
        self._write(logging.ERROR, text + "\n%s", facts, shown)

    def _write(self, level: int, text: str, facts: Any, *blocks: str) -> None:
        try:
            lines = [_texts.line(one) for one in facts]
            shown = _secrets.masked(text % (*lines, *blocks))
            self._logger.log(level, "%s", _texts.cut(shown, TEXT_BYTES_MAX))
        except Exception:
            # What cannot be logged must not fail the hook.
            pass
