"""Needs: what must be so before a status can get better, from texts such as `infra/dns=active`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

    from .messages import NeedInput

    One = Union[str, NeedInput]
    Needs = Union[One, Sequence[One]]

NEEDS_MAX = 8
#: Limit of a name, and of the words for something outside, in UTF-8.
BYTES_MAX = 253
LEVELS = ("error", "blocked", "maintenance", "waiting", "active", "terminated", "unknown")
FORMS = "NAME, NAMESPACE/NAME or NAME=LEVEL,LEVEL"
_FIRST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_LATER = _FIRST | frozenset("._-")


def need(text: str) -> NeedInput:
    """Returns the need of another application: `postgresql`, or `infra/dns=active,waiting`.

    Without a namespace it is in that of the status; without levels it must be active. Raises
    ValueError for any other text.
    """
    if not isinstance(text, str):
        raise TypeError("a need is a text, as {}, not {!r}".format(FORMS, text))
    whole, equals, words = text.partition("=")
    namespace, slash, application = whole.rpartition("/")
    if slash and not namespace:
        raise ValueError("the need {!r} has an empty namespace: write {}".format(text, FORMS))
    if namespace and application.isdigit():
        what = "the need {!r} is a unit: an application is needed as a whole, {}"
        raise ValueError(what.format(text, namespace))
    levels = [one.strip().upper() for one in words.split(",")] if equals else []
    return _of_application(text, namespace, application, levels)


def outside(words: str) -> NeedInput:
    """Returns the need of something that is no application of Bellwether: `quota cpu of prod`.

    Equal words are one thing. Raises ValueError if they are empty, longer than 253 bytes, or have
    control characters.
    """
    if not isinstance(words, str):
        raise TypeError("a need outside is a text, not {!r}".format(words))
    if not words.strip():
        raise ValueError("a need outside has no words: say what is needed")
    if any(one < " " or "\x7f" <= one <= "\x9f" for one in words):
        raise ValueError("the need {!r} has control characters: leave them out".format(words))
    if len(words.encode("utf-8", "replace")) > BYTES_MAX:
        what = "the need {!r}... has more than {} bytes: say it shorter"
        raise ValueError(what.format(words[:40], BYTES_MAX))
    return {"outside": words}


def needs(given: Optional[Needs], names: Optional[Mapping[str, str]] = None) -> List[NeedInput]:
    """Returns needs as messages, each once: those of one text or message, or of a list of them.

    `names` has the namespace and the application of the status, which is no need of its own.
    Raises ValueError or TypeError for what the server would refuse.
    """
    if given is None:
        return []
    # A text is one need and not a list of letters.
    each = [given] if isinstance(given, (str, dict)) else list(given)
    found: Dict[Tuple[Any, ...], NeedInput] = {}
    for one in each:
        made = need(one) if isinstance(one, str) else _of_message(one)
        found.setdefault(_identity(made, names), made)
    if len(found) > NEEDS_MAX:
        what = "a status has at most {} needs, not {}: name those that come first"
        raise ValueError(what.format(NEEDS_MAX, len(found)))
    return list(found.values())


def text_of(given: NeedInput) -> str:
    """Returns a need as a text for people: the one that `need` takes, or the words."""
    application = given.get("application")
    if not application:
        return given.get("outside", "")
    parts = [application.get("namespace", ""), application["application"]]
    levels = ",".join(one[len("LEVEL_") :].lower() for one in application.get("levels", ()))
    return "=".join(part for part in ("/".join(filter(None, parts)), levels) if part)


def _is_name(text: str) -> bool:
    is_short = 0 < len(text) <= BYTES_MAX
    return is_short and text[0] in _FIRST and _LATER.issuperset(text)


def _of_application(
    text: str, namespace: str, application: str, levels: Sequence[str]
) -> NeedInput:
    """Returns the need that a text or a message gives, with the words of its levels."""
    for level in levels:
        if level.lower() not in LEVELS:
            what = "the need {!r} has a level that does not exist: use {}"
            raise ValueError(what.format(text, ", ".join(LEVELS)))
    for one in (application, namespace or "default"):
        if not _is_name(one):
            what = "the need {!r} names no application: write {}, or outside({!r})"
            raise ValueError(what.format(text, FORMS, text))
    made: Dict[str, Any] = {"application": application}
    if namespace:
        made["namespace"] = namespace
    if levels:
        made["levels"] = ["LEVEL_" + level for level in dict.fromkeys(levels)]
    return {"application": made}  # type: ignore[typeddict-item]


def _of_message(message: Any) -> NeedInput:
    """Returns a message `Need`, as given or as an answer has it, without empty fields."""
    if not isinstance(message, dict):
        what = "a need is a text, as {}, or a message Need, not {!r}"
        raise TypeError(what.format(FORMS, message))
    application, words = message.get("application"), message.get("outside")
    unknown = sorted(set(message) - {"application", "outside"})
    if application is not None and not unknown and isinstance(application, dict):
        unknown = sorted(set(application) - {"namespace", "application", "levels"})
    if unknown:
        raise TypeError("a need has no field {!r}".format(unknown[0]))
    if bool(application) == bool(words):
        what = "the need {!r} is not one thing: give either `application` or `outside`"
        raise ValueError(what.format(message))
    if words:
        return outside(words)
    if not isinstance(application, dict):
        what = "the application of a need is a message, not {!r}: use need({!r})"
        raise TypeError(what.format(application, application))
    names = [str(application.get(name) or "") for name in ("namespace", "application")]
    levels = [str(one).replace("LEVEL_", "", 1) for one in application.get("levels") or []]
    return _of_application("/".join(filter(None, names)), names[0], names[1], levels)


def _identity(made: NeedInput, names: Optional[Mapping[str, str]]) -> Tuple[Any, ...]:
    """Returns what equal needs have in common. Raises ValueError for a need of one's own."""
    application = made.get("application")
    if not application:
        return (made.get("outside"),)
    own = (names or {}).get("namespace") or "default"
    name = application["application"]
    namespace = application.get("namespace") or own
    if names and (namespace, name) == (own, names["application"]):
        what = "the need {!r} is the application of the status itself: name another one"
        raise ValueError(what.format(name))
    return (namespace, name, frozenset(application.get("levels") or ("LEVEL_ACTIVE",)))
