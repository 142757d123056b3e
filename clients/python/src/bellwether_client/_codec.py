"""Plain values of Python to proto JSON and back, by the table of the fields."""

from __future__ import annotations

from ._table import MESSAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Dict, List, Mapping, Tuple

    Fields = Dict[str, Tuple[str, str, str]]

_DEFAULTS = {"s": "", "b": False, "y": b"", "i": 0, "l": 0, "r": 0.0}
# The fields of a message, once they were needed. They follow from the table alone.
_parsed: Dict[str, Fields] = {}


def fields_of(message: str) -> Fields:
    """Returns each field with its name in JSON, its label and its type.

    The label is `?` (optional), `*` (repeated), `{` (map) or empty. The type is `s` (text), `b`
    (bool), `y` (bytes), `i` and `l` (32 and 64 bits), `r` (a real number), `d` (duration), `t`
    (time), `f` (field mask), `e=DEFAULT` (enum) or `m=NAME` (message).
    """
    if message not in _parsed:
        fields = {}
        for text in MESSAGES[message].split():
            name, _, kind = text.partition(":")
            label = kind[0] if kind[0] in "?*{" else ""
            first, *rest = name.split("_")
            json_name = first + "".join(part.capitalize() for part in rest)
            fields[name] = (json_name, label, kind[len(label) :])
        _parsed[message] = fields
    return _parsed[message]


def encode(message: str, value: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns a message as proto JSON. None, and a default that means the same, is left out."""
    fields = fields_of(message)
    encoded: Dict[str, Any] = {}
    for name, given in value.items():
        if name not in fields:
            raise TypeError("{} has no field {!r}".format(message, name))
        json_name, label, kind = fields[name]
        if given is None:
            continue
        if label == "*":
            if isinstance(given, (str, bytes)):
                raise TypeError("{}.{} takes a list".format(message, name))
            encoded[json_name] = [_encode_one(kind, one) for one in given]
        elif label == "{":
            encoded[json_name] = {key: _encode_one(kind, one) for key, one in given.items()}
        elif label or kind[0] in "mdtf" or given != _default(kind):
            encoded[json_name] = _encode_one(kind, given)
    return encoded


def decode(message: str, value: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns a message of proto JSON with every field; fields that are not known are left out."""
    decoded: Dict[str, Any] = {}
    for name, (json_name, label, kind) in fields_of(message).items():
        given = value.get(json_name)
        if label == "*":
            decoded[name] = [_decode_one(kind, one) for one in given or ()]
        elif label == "{":
            decoded[name] = {key: _decode_one(kind, one) for key, one in (given or {}).items()}
        elif given is None:
            decoded[name] = None if label or kind[0] in "mdtf" else _default(kind)
        else:
            decoded[name] = _decode_one(kind, given)
    return decoded


def _default(kind: str) -> Any:
    return kind[2:] if kind[0] == "e" else _DEFAULTS.get(kind)


def _encode_one(kind: str, value: Any) -> Any:
    first = kind[0]
    if first == "m":
        return encode(kind[2:], value)
    if first == "l":
        return str(int(value))
    if first == "y":
        import base64

        return base64.b64encode(value).decode("ascii")
    if first == "d":
        seconds = value.total_seconds() if hasattr(value, "total_seconds") else float(value)
        return "{:.9f}".format(seconds).rstrip("0").rstrip(".") + "s"
    if first == "t":
        return _encode_time(value)
    if first == "f":
        return ",".join(_camel(path) for path in value)
    return value


def _decode_one(kind: str, value: Any) -> Any:
    first = kind[0]
    if first == "m":
        return decode(kind[2:], value)
    if first in "il":
        return int(value)
    if first == "r":
        return float(value)
    if first == "y":
        import base64

        return base64.b64decode(value)
    if first == "d":
        return float(value.rstrip("s"))
    if first == "t":
        return _decode_time(value)
    return str(value) if first == "e" else value


def _camel(path: str) -> str:
    first, *rest = path.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _encode_time(value: datetime) -> str:
    from datetime import timezone

    if value.tzinfo is None:
        raise ValueError("a time needs a time zone: {!r}".format(value))
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _decode_time(text: str) -> datetime:
    from datetime import datetime, timezone

    whole, _, fraction = text.rstrip("Z").partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return moment.replace(microsecond=int((fraction + "000000")[:6]))
