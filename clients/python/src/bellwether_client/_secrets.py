"""Credentials in texts, which are masked before a text leaves the unit.

Addresses in targets, messages and tracebacks of drivers often have a user and a password. Each
reader of the application could read them too.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Match

MASK = "***"
#: Names of values that are credentials, also as the end of a longer name.
_NAMES = (
    r"[a-z]{0,32}passwords?|passwd|passphrase|pwd|secrets?|tokens?|api[-_]?keys?|access[-_]?keys?"
    r"|access[-_]?key[-_]?id|secret[-_]?keys?|private[-_]?keys?|credentials?|signature|sig|sas"
    r"|session[-_]?id|cookie|auth"
)
#: Names of accounts, which are masked beside a password or in an address only.
_ACCOUNTS = r"user|username|userid|user[-_]?name|uid|login|account"
_VALUE = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^\s"'&;,<>(){}\[\]]+)"""
_PEM = re.compile(
    r"-----BEGIN ([A-Z ]{0,32}PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL
)
#: `scheme://user:password@host`, and `user:password@host` without a scheme.
_USERINFO = re.compile(
    r"(?<![\w@/:])([A-Za-z][A-Za-z0-9+.-]{0,31}://)?([^\s/@:?#'\"<>]{0,256}):(?!//)([^\s@'\"<>]{0,1024})"
    r"@(?!sha\d+:)(?=[^\s@])"
)
_USER_ALONE = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.-]{0,31}://)([^\s/@?#'\"<>]{1,1024})@(?=[^\s@])"
)
_SCHEME = re.compile(
    r"\b(bearer|basic|digest|negotiate)\s+(?=\S{0,64}\d|\S{20})([A-Za-z0-9+/=._~-]{6,})", re.IGNORECASE
)
_PAIR = re.compile(
    r"(?<![A-Za-z0-9])((?:[A-Za-z0-9]{1,40}[-_.]){0,8}(?:" + _NAMES + r"))"
    r"([\"']?\s*(?:=|:(?!//))\s*)(" + _VALUE + r")",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"(--(?:[a-z0-9]{1,40}-){0,8}(?:" + _NAMES + r"))(\s+)(?!-)(" + _VALUE + r")", re.IGNORECASE
)
_ACCOUNT = re.compile(
    r"(?<![A-Za-z0-9])((?:" + _ACCOUNTS + r"))(\s*=\s*)(" + _VALUE + r")", re.IGNORECASE
)
#: Tokens that show by themselves: JWT, Bellwether, AWS, GitHub, Slack.
_TOKEN = re.compile(
    r"\b(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*|bw_[A-Za-z0-9]+_[A-Za-z0-9_-]{16,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{20,}|xox[abprs]-[A-Za-z0-9-]{10,})"
)
#: Values that stand for one: `<password>`, `$PASSWORD`, `PASSWORD`, `...`.
_PLACEHOLDER = re.compile(r"[<$%{*.].*|[A-Z][A-Z_]{0,30}|None|null|true|false", re.DOTALL)
#: Words of a sentence after a colon, as in `token: expired`.
_PROSE = re.compile(
    r"(?:a|access|an|bad|cannot|could|denied|does|empty|expired|failed|failure|has|incorrect"
    r"|invalid|is|missing|must|needs|no|none|not|permission|refused|rejected|required|revoked"
    r"|the|too|unauthorized|unknown|was|wrong)[.!:]*",
    re.IGNORECASE,
)
#: Texts without any of these have nothing to mask.
_HINT = re.compile(
    r"[@]|pass|pwd|secret|token|key|cred|sig|sas|cookie|auth|bearer|basic|eyJ|bw_|AKIA|ASIA|gh[pousr]_"
    r"|xox|session|digest|negotiate",
    re.IGNORECASE,
)


def masked(text: Any) -> str:
    """Returns the text with `***` in place of users, passwords, tokens and private keys."""
    found = str(text)
    if _HINT.search(found) is None:
        return found
    found = _PEM.sub(r"-----BEGIN \1----- " + MASK, found)
    found = _USERINFO.sub(_without_userinfo, found)
    found = _USER_ALONE.sub(r"\1" + MASK + "@", found)
    found = _SCHEME.sub(r"\1 " + MASK, found)
    with_pairs = _OPTION.sub(_without_value, _PAIR.sub(_without_value, found))
    if with_pairs != found:
        # The account of a connection string with a password.
        with_pairs = _ACCOUNT.sub(_without_value, with_pairs)
    return _TOKEN.sub(MASK, with_pairs)


def _without_userinfo(match: Match[str]) -> str:
    scheme, user, password = match.group(1) or "", match.group(2), match.group(3)
    if not scheme and (not user or not password):
        return match.group(0)
    return "{}{}@".format(scheme, MASK)


def _without_value(match: Match[str]) -> str:
    name, between, value = match.groups()
    plain = value.strip("\"'")
    if not plain or plain == MASK or _PLACEHOLDER.fullmatch(plain):
        return match.group(0)
    if ":" in between and _PROSE.fullmatch(value):
        return match.group(0)
    quote = value[0] if value[0] in "\"'" else ""
    return "{}{}{}{}{}".format(name, between, quote, MASK, quote)
