"""Texts and names of a charm, cut to what the server takes, and stable identities of statuses."""

from __future__ import annotations

import re

from ._secrets import masked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

TEXT_BYTES_MAX = 4096
NAME_BYTES_MAX = 253
SHORT_MAX = 40
HASH_MAX = 8
STATUSES_MAX = 1000
#: Limit of the texts of a whole set in UTF-8; the server takes 4 MiB with names and labels.
SET_BYTES_MAX = 2 * 1024 * 1024
TEXT_BYTES_OF_LARGE_SETS = 256
#: Limit of the needs of a whole set. The server shows the first 32 of an application.
NEEDS_BYTES_MAX = 256 * 1024
RANKS = {
    "LEVEL_ERROR": 0,
    "LEVEL_BLOCKED": 1,
    "LEVEL_MAINTENANCE": 2,
    "LEVEL_WAITING": 3,
    "LEVEL_ACTIVE": 4,
}
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9._/-]+")
#: Control characters but tab and line feed, marks of direction, separators, halves of characters.
_CONTROL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b\\u200e\\u200f\\u2028-\\u202e"
    "\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff]"
)
REPLACEMENT = "\ufffd"


def visible(text: Any) -> str:
    """Returns the text without characters that steer a terminal or that no program takes.

    A program cannot be started with NUL in an argument, and `juju-log` and `status-set` are
    programs. Each such character becomes U+FFFD; tabs and line feeds stay.
    """
    return _CONTROL.sub(REPLACEMENT, str(text).replace("\r\n", "\n"))


def line(text: Any) -> str:
    """Returns the text as one visible line."""
    return " ".join(visible(text).split())


def cut(text: Any, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Returns the visible text with at most so many bytes; a cut text ends with three dots."""
    whole = visible(text).encode("utf-8", "replace")
    if len(whole) <= bytes_max:
        return whole.decode("utf-8")
    return whole[: bytes_max - 3].decode("utf-8", "ignore") + "..."


def public(text: Any, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Returns the text as others may read it: visible, without credentials, cut."""
    return cut(masked(visible(text)), bytes_max)


def short(text: Any) -> str:
    """Returns the text with at most 40 characters, as others may read it."""
    whole = public(text)
    return whole if len(whole) <= SHORT_MAX else whole[: SHORT_MAX - 3] + "..."


def name(text: Any) -> str:
    """Returns a name that the server takes; characters that it refuses become `-`.

    A name that loses letters, or is too long, ends with a hash, so that it differs from others.
    """
    given = str(text)
    cleaned = _NOT_OF_NAMES.sub("-", given).lstrip("._/-")
    if given.isascii() and len(cleaned) <= NAME_BYTES_MAX and (cleaned or not given.strip()):
        return cleaned
    import hashlib

    digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_MAX]
    return "{}-{}".format(cleaned[: NAME_BYTES_MAX - HASH_MAX - 1].rstrip("-"), digest).lstrip("-")


def target(text: Any) -> str:
    """Returns the object of a call as one line, without a query and without credentials."""
    return cut(masked(line(text).split("?", 1)[0].strip()), NAME_BYTES_MAX)


def identify(statuses: List[Dict[str, Any]], before: List[Dict[str, Any]]) -> None:
    """Gives each status of a set an identity that it keeps from one set to the next.

    A status with a component or a key has that identity; a repeated one gets a number. One
    without both is the status of the set before with the same text, then the one at the same
    place if the number of statuses is the same, else a new one. So a status keeps its identity,
    and the start of its level, when another one before it goes.
    """
    given = [one for one in statuses if one["component"] or one["key"]]
    taken = set()
    for one in given:
        plain, number = one["key"], 2
        while (one["component"], one["key"]) in taken:
            one["key"] = name("{}-{}".format(plain, number) if plain else str(number))
            number += 1
        taken.add((one["component"], one["key"]))
    nameless = [one for one in statuses if not one["component"] and not one["key"]]
    old = [one for one in before if not one["component"] and one["key"].isdigit()]
    is_same_size = len(old) == len(nameless)
    pairs = _paired(nameless, old, lambda one: (one["level"], one["message"]))
    pairs += _paired(
        _others(nameless, pairs, 0), _others(old, pairs, 1), lambda one: one["message"] or None
    )
    if is_same_size:
        pairs += zip(_others(nameless, pairs, 0), _others(old, pairs, 1))
    for one, known in pairs:
        if ("", known["key"]) not in taken:
            one["key"] = known["key"]
            taken.add(("", one["key"]))
    number = 1
    for one in nameless:
        while not one["key"]:
            if ("", str(number)) not in taken:
                one["key"] = str(number)
                taken.add(("", one["key"]))
            number += 1


def fit(statuses: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Returns the statuses that fit into one set, in their order; the worst ones are kept."""
    if len(statuses) > STATUSES_MAX:
        worst = sorted(range(len(statuses)), key=lambda n: RANKS.get(statuses[n]["level"], 5))
        kept = set(worst[:STATUSES_MAX])
        statuses = [one for n, one in enumerate(statuses) if n in kept]
    texts = ("message", "check", "action")
    size = sum(len(one.get(text, "").encode("utf-8")) for one in statuses for text in texts)
    if size > SET_BYTES_MAX:
        for one in statuses:
            for text in texts:
                one[text] = cut(one.get(text, ""), TEXT_BYTES_OF_LARGE_SETS)
    left = NEEDS_BYTES_MAX
    for one in sorted(statuses, key=lambda one: RANKS.get(one["level"], 5)):
        left -= len(str(one.get("needs", "")).encode("utf-8", "replace"))
        if left < 0:
            one.pop("needs", None)
    return statuses


def _paired(
    new: List[Dict[str, Any]], old: List[Dict[str, Any]], by: Any
) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
    found: Dict[Any, List[Dict[str, Any]]] = {}
    for one in old:
        found.setdefault(by(one), []).append(one)
    pairs = []
    for one in new:
        same = found.get(by(one)) if by(one) is not None else None
        if same:
            pairs.append((one, same.pop(0)))
    return pairs


def _others(
    statuses: List[Dict[str, Any]], pairs: List[Tuple[Dict[str, Any], Dict[str, Any]]], side: int
) -> List[Dict[str, Any]]:
    paired = {id(pair[side]) for pair in pairs}
    return [one for one in statuses if id(one) not in paired]
