"""The class of an error by the tables of the server, for the time without one.

The rows are in `_classes`; the choice of a row is that of `src/domain/classify` in the repository.
"""

from __future__ import annotations

import re

from . import _classes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Tuple

WORDS_MAX = 16
#: Classes that are credible without an answer of the target.
UNANSWERED = ("TRANSIENT", "THROTTLED", "CONFLICT", "INTERRUPTED")
#: Exceptions whose detail is the exit status of a command.
EXITS = ("pebble.ExecError", "subprocess.CalledProcessError")
ORIGINS = {
    "ERROR_ORIGIN_PEER": "PEER",
    "ERROR_ORIGIN_TRANSPORT": "TRANSPORT",
    "ERROR_ORIGIN_LOCAL": "LOCAL",
}
_MARKS = re.compile(r"[\W_]+")
_STATUS = re.compile(r"[1-9][0-9][0-9]$")


class Row:
    """A row of a table."""

    def __init__(self, line: str) -> None:
        kind, facts, codes, messages, reasons = line.split("~")
        self.kind = kind.rstrip("-")
        #: Whether the class holds the component.
        self.holds = self.kind in ("BLOCKED", "GONE", "FATAL") and not kind.endswith("-")
        self.facts = facts.split()
        self.codes = codes.split()
        self.messages = [part.split("\u2026") for part in messages.split("|") if part]
        self.reasons = reasons.split()

    def applies(self, report: Dict[str, Any], text: str) -> bool:
        """Returns whether the conditions beside the code hold."""
        origin = ORIGINS.get(report.get("origin", ""), "PEER")
        for fact in self.facts:
            if fact in ORIGINS.values():
                if fact != origin:
                    return False
            elif not _is_given(fact, report):
                return False
        reason = report.get("reason") or ""
        if self.reasons and not any(_has_end(reason, one) for one in self.reasons):
            return False
        return not self.messages or any(_has(text, part) for part in self.messages)


class Table:
    """The rows of one system."""

    def __init__(self, head: str, lines: List[str]) -> None:
        names = [part.split() for part in head.split("~")]
        self.systems, self.domains, self.packages, self.texts_of = names
        self.rows = [Row(line) for line in lines]
        self.texts = [row for row in self.rows if not row.codes]
        self.by_code: Dict[str, List[Row]] = {}
        self.ranges: List[Tuple[int, int, Row]] = []
        self.patterns: List[Tuple[str, str, Row]] = []
        for row in self.rows:
            for code in row.codes:
                if ".." in code:
                    first, last = code.split("..")
                    self.ranges.append((int(first), int(last), row))
                elif "*" in code:
                    head, tail = code.split("*", 1)
                    end = plain(tail) + ("*" if tail.endswith("*") else "")
                    self.patterns.append((plain(head), end, row))
                else:
                    self.by_code.setdefault(plain(code), []).append(row)

    def rows_of(self, code: str) -> List[Row]:
        """Returns the rows of a code: those that name it, else those of a range or a pattern."""
        key = plain(code)
        if not key or key in self.by_code:
            return self.by_code.get(key, [])
        number = int(code) if code.isdigit() and len(code) < 10 else -1
        found = [row for first, last, row in self.ranges if first <= number <= last]
        return found + [row for head, end, row in self.patterns if _fits(key, head, end)]

    def find(self, code: str) -> List[Row]:
        """Returns the rows of a code alone, or as a word of a text."""
        rows = self.rows_of(code)
        words = re.findall(r"\w+", code)[:WORDS_MAX]
        return rows or next((own for own in map(self.rows_of, words) if own), [])


def plain(code: str) -> str:
    """Returns a code in lower case, with its letters and digits alone."""
    return _MARKS.sub("", code).lower()


def short_name(name: str) -> str:
    """Returns the short name of an exception: the package and the class."""
    parts = name.split(".")
    kind = parts[-1]
    if len(parts) == 1 or len(parts) == 2 and parts[0] == "builtins":
        return kind
    if parts[:2] == ["ops", "pebble"]:
        return "pebble." + kind
    if parts[0] == "charms" and 2 < len(parts):
        return "{}.{}".format(parts[-2], kind)
    if parts[0] == "charmlibs":
        return "{}.{}".format(parts[1], kind)
    return "{}.{}".format(parts[0], kind)


def tables() -> List[Table]:
    """Returns the tables. They are read when they are needed first."""
    if not _tables:
        for part in _classes.TABLES.strip("\n").split("\n\n"):
            head, *lines = part.split("\n")
            _tables.append(Table(head, lines))
    return _tables


_tables: List[Table] = []


def is_known(name: str) -> bool:
    """Returns whether a row names an exception."""
    short = short_name(name)
    package, _, kind = short.rpartition(".")
    if _of("python").by_code.get(plain(short)):
        return True
    service = _of_package(package)
    return service is not None and plain(kind) in service.by_code


def verdict(report: Dict[str, Any]) -> Tuple[str, bool]:
    """Returns the class of an error, and whether it holds its component."""
    row = _choose(report)
    kind, holds = (row.kind, row.holds) if row else ("UNCLASSIFIED", False)
    system, asks = report["system"], report.get("retry_after") is not None
    is_http = system == "http" or row is not None and row in _of("http").rows
    if is_http and asks and kind in ("TRANSIENT", "UNCLASSIFIED"):
        kind = "THROTTLED"
    if report.get("origin") == "ERROR_ORIGIN_TRANSPORT" and kind not in UNANSWERED:
        return "TRANSIENT", False
    # Only the server knows the registered pairs of a target that is gone.
    return ("DEPENDENCY", False) if kind == "GONE" else (kind, holds)


def _choose(report: Dict[str, Any]) -> Optional[Row]:
    code, said = report["code"], report.get("message") or ""
    text = (code + "\n" + said if re.search(r"\s", code) else said).lower()
    found: Optional[Row] = _by_reason(report, text)
    if found is None and report["system"] == "python":
        return _of_exception(report, code, text)
    return found or _in_table(report, report["system"], code, text)


def _by_reason(report: Dict[str, Any], text: str) -> Optional[Row]:
    domain, reason = report.get("domain") or "", report.get("reason") or ""
    for table in tables() if reason else []:
        if table.domains and (not domain or domain in table.domains):
            named = table.by_code.get(plain(reason), [])
            found = _first(table.rows_of(reason) if domain else named, report, text)
            if found:
                return found
    return None


def _in_table(report: Dict[str, Any], system: str, code: str, text: str) -> Optional[Row]:
    own = next((table for table in tables() if system in table.systems), None)
    if own is None:
        return None
    shared = [row for table in tables() if system in table.texts_of for row in table.texts]
    return _first(own.texts + shared + own.find(code), report, text)


def _of_exception(report: Dict[str, Any], code: str, text: str) -> Optional[Row]:
    name, _, given = code.partition("/")
    short = short_name(name)
    package, _, kind = short.rpartition(".")
    python, service = _of("python"), _of_package(package)
    found: Optional[Row] = None
    if given:
        rows = python.rows_of("{}/{}".format(short, _detail(short, given)))
        found = _first(rows + (service.rows_of(given) if service else []), report, text)
        if not found and _STATUS.match(given) and short not in EXITS and package != "pebble":
            found = _in_table(report, "http", given, text)
    rows = list(service.texts if service else [])
    rows += python.rows_of(short) + (service.rows_of(kind) if service else [])
    return found or _first(rows, report, text)


def _detail(short: str, given: str) -> str:
    if short == "pebble.APIError" and _STATUS.match(given):
        return given[0] + "xx" if given[0] in "45" else given
    if short in EXITS and re.match(r"-?[0-9]{1,9}$", given):
        status = int(given)
        return "signal" if -64 <= status <= -1 or 129 <= status <= 192 else given
    return given


def _of(system: str) -> Table:
    return next(table for table in tables() if system in table.systems)


def _of_package(package: str) -> Optional[Table]:
    return next((table for table in tables() if package in table.packages), None)


def _first(rows: Iterable[Row], report: Dict[str, Any], text: str) -> Optional[Row]:
    return next((row for row in rows if row.applies(report, text)), None)


def _is_given(fact: str, report: Dict[str, Any]) -> bool:
    if fact == "GONE":
        return False
    if fact == "OUR_INPUT":
        return report.get("own_request") is True or report.get("user_input") is False
    if fact == "PERSON_RESOLVABLE":
        return report.get("machine_resolvable") is False
    return report.get(fact.lower()) is True


def _has_end(reason: str, wanted: str) -> bool:
    return reason.endswith(wanted[1:]) if wanted.startswith("*") else reason == wanted


def _has(text: str, pieces: List[str]) -> bool:
    at = 0
    for piece in pieces:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _fits(key: str, head: str, end: str) -> bool:
    if not key.startswith(head):
        return False
    rest = key[len(head) :]
    return end[:-1] in rest if end.endswith("*") else rest.endswith(end)
