"""The Python client of Bellwether: standard library only, JSON over HTTP/1.1.

This is the package bellwether-client 0.1.0 as one file. Copy it into `lib/` of a charm.
"""

# Made by tools/vendor.py from src/bellwether_client; change the package instead.
# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors

from __future__ import annotations

import sys
import types

__version__ = "0.1.0"


def _add(name, define):
    """Makes a module of the package from the function that defines it."""
    module = types.ModuleType("{}.{}".format(__name__, name), define.__doc__)
    for key, value in define().items():
        if isinstance(value, type) and "<locals>" in value.__qualname__:
            value.__qualname__ = value.__qualname__.rpartition("<locals>.")[2]
            value.__module__ = module.__name__
        setattr(module, key, value)
    sys.modules[module.__name__] = module
    globals()[name] = module


def _define_secrets():
    """Credentials in texts, which are masked before a text leaves the unit.

    Addresses in targets, messages and tracebacks of drivers often have a user and a password. Each
    reader of the application could read them too.
    """


    import re


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
    return locals()


_add("_secrets", _define_secrets)


def _define_texts():
    """Texts and names of a charm, cut to what the server takes, and stable identities of statuses."""


    import re

    masked = _secrets.masked


    TEXT_BYTES_MAX = 4096
    NAME_BYTES_MAX = 253
    SHORT_MAX = 40
    HASH_MAX = 8
    STATUSES_MAX = 1000
    #: Limit of the texts of a whole set in UTF-8; the server takes 4 MiB with names and labels.
    SET_BYTES_MAX = 2 * 1024 * 1024
    TEXT_BYTES_OF_LARGE_SETS = 256
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
    return locals()


_add("_texts", _define_texts)


def _define_errors():
    """The errors of calls: one class for each code, with the reason that the server gives."""


    line = _texts.line


    class Error(Exception):
        """A call that failed. Programs decide by `reason`; the message is for people.

        The reasons of the server are in docs/errors.md. The client itself gives the reasons
        UNREACHABLE, TLS_FAILED, NO_ANSWER and INVALID_ANSWER.
        """

        code = "unknown"

        def __init__(
            self,
            message: str,
            *,
            reason: str = "",
            metadata: Optional[Mapping[str, str]] = None,
            retry_after: Optional[float] = None,
            violations: Optional[List[Tuple[str, str]]] = None,
        ) -> None:
            # The texts of a peer can have any characters, and errors are printed and logged.
            self.message = line(message)
            super().__init__(self.message)
            self.reason = line(reason) or self.code.upper()
            #: Whether the peer gave a reason, as a server of Bellwether does with each error.
            self.has_reason = bool(reason)
            #: Facts of the message, by name.
            self.metadata: Dict[str, str] = {
                line(name): line(value) for name, value in dict(metadata or {}).items()
            }
            #: Seconds after which the call may be repeated, or None.
            self.retry_after = retry_after
            #: Each wrong field of the request with its description.
            self.violations: List[Tuple[str, str]] = [
                (line(field), line(description)) for field, description in violations or []
            ]

        def __str__(self) -> str:
            return "{} [{}]".format(self.message, self.reason)


    class Canceled(Error):
        """The call was cancelled."""

        code = "canceled"


    class Unknown(Error):
        """An error without a code."""

        code = "unknown"


    class InvalidArgument(Error):
        """The request is wrong; `violations` names the fields."""

        code = "invalid_argument"


    class DeadlineExceeded(Error):
        """There was no answer in time; a mutation may have been applied."""

        code = "deadline_exceeded"


    class NotFound(Error):
        """The application, the unit or the operation does not exist."""

        code = "not_found"


    class AlreadyExists(Error):
        """The object exists already."""

        code = "already_exists"


    class PermissionDenied(Error):
        """The caller is known, but has no grant for this call."""

        code = "permission_denied"


    class ResourceExhausted(Error):
        """A limit is reached, or requests arrive too fast."""

        code = "resource_exhausted"


    class FailedPrecondition(Error):
        """The state of the application does not allow this call now, for example NOT_LEADER."""

        code = "failed_precondition"


    class Aborted(Error):
        """Another client was faster: read again, then decide again."""

        code = "aborted"


    class OutOfRange(Error):
        """A value is beyond what the server has, for example an expired resume token."""

        code = "out_of_range"


    class Unimplemented(Error):
        """The server does not have this method."""

        code = "unimplemented"


    class Internal(Error):
        """The server or the client has a defect."""

        code = "internal"


    class Unavailable(Error):
        """The server was not reached, or cannot answer now."""

        code = "unavailable"


    class DataLoss(Error):
        """A stored record cannot be read."""

        code = "data_loss"


    class Unauthenticated(Error):
        """The credentials are missing, wrong or expired."""

        code = "unauthenticated"


    class Unreachable(Unavailable):
        """No connection to the server, or the connection was lost. Reason UNREACHABLE."""


    class TlsFailed(Unavailable):
        """The certificate of the server or of this client is refused. Reason TLS_FAILED; no retry."""


    _CLASSES = {
        one.code: one
        for one in (
            Canceled,
            Unknown,
            InvalidArgument,
            DeadlineExceeded,
            NotFound,
            AlreadyExists,
            PermissionDenied,
            ResourceExhausted,
            FailedPrecondition,
            Aborted,
            OutOfRange,
            Unimplemented,
            Internal,
            Unavailable,
            DataLoss,
            Unauthenticated,
        )
    }
    # The codes of answers without an error of Connect, for example from a proxy.
    _STATUSES = {
        400: "internal",
        401: "unauthenticated",
        403: "permission_denied",
        404: "unimplemented",
        429: "unavailable",
        502: "unavailable",
        503: "unavailable",
        504: "unavailable",
    }


    def from_wire(error: Mapping[str, Any]) -> Error:
        """Returns the exception for an error of Connect in JSON. Never raises."""
        kind: Type[Error] = _CLASSES.get(str(error.get("code")), Unknown)
        reason, retry_after = "", None
        metadata: Dict[str, str] = {}
        violations: List[Tuple[str, str]] = []
        details = error.get("details")
        for detail in details if isinstance(details, list) else ():
            shown = detail.get("debug") if isinstance(detail, dict) else None
            if not isinstance(shown, dict):
                continue
            name = str(detail.get("type")).rpartition("/")[2]
            if name == "google.rpc.ErrorInfo":
                facts = shown.get("metadata")
                reason, metadata = str(shown.get("reason", "")), facts if isinstance(facts, dict) else {}
            elif name == "google.rpc.RetryInfo":
                retry_after = _seconds(shown.get("retryDelay"))
            elif name == "google.rpc.BadRequest":
                fields = shown.get("fieldViolations")
                for one in fields if isinstance(fields, list) else ():
                    if isinstance(one, dict):
                        violations.append((str(one.get("field")), str(one.get("description"))))
        return kind(
            str(error.get("message") or "the server gave no message"),
            reason=reason,
            metadata=metadata,
            retry_after=retry_after,
            violations=violations,
        )


    def _seconds(text: Any) -> Optional[float]:
        """Returns a duration of proto JSON; None if it is none."""
        try:
            found = float(str(text).rstrip("s"))
        except ValueError:
            return None
        return found if 0 <= found < 1e9 else None


    def from_status(status: int, body: bytes) -> Error:
        """Returns the exception for an answer of HTTP whose status is not 200."""
        import json

        try:
            error = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError):
            error = None
        if isinstance(error, dict) and "code" in error:
            return from_wire(error)
        text = body[:200].decode("utf-8", "replace").strip()
        kind: Type[Error] = _CLASSES[_STATUSES.get(status, "unknown")]
        return kind("the answer has the status {} of HTTP: {}".format(status, text))
    return locals()


_add("errors", _define_errors)


def _define_table():
    """The methods and the fields of the messages."""

    # Generated by tools/generate.py from proto/bellwether/v1; change the protos instead.

    # Name in Python: path, request, answer, may be repeated without a request id.
    METHODS = {
        "get_app_data": (
            "/bellwether.v1.AppDataService/GetAppData",
            "GetAppDataRequest",
            "GetAppDataResponse",
            True,
        ),
        "update_app_data": (
            "/bellwether.v1.AppDataService/UpdateAppData",
            "UpdateAppDataRequest",
            "UpdateAppDataResponse",
            False,
        ),
        "get_application": (
            "/bellwether.v1.ApplicationService/GetApplication",
            "GetApplicationRequest",
            "GetApplicationResponse",
            True,
        ),
        "list_applications": (
            "/bellwether.v1.ApplicationService/ListApplications",
            "ListApplicationsRequest",
            "ListApplicationsResponse",
            True,
        ),
        "explain_application": (
            "/bellwether.v1.ApplicationService/ExplainApplication",
            "ExplainApplicationRequest",
            "ExplainApplicationResponse",
            True,
        ),
        "list_statuses": (
            "/bellwether.v1.ApplicationService/ListStatuses",
            "ListStatusesRequest",
            "ListStatusesResponse",
            True,
        ),
        "list_units": (
            "/bellwether.v1.ApplicationService/ListUnits",
            "ListUnitsRequest",
            "ListUnitsResponse",
            True,
        ),
        "list_faults": (
            "/bellwether.v1.ApplicationService/ListFaults",
            "ListFaultsRequest",
            "ListFaultsResponse",
            True,
        ),
        "resolve_hold": (
            "/bellwether.v1.ApplicationService/ResolveHold",
            "ResolveHoldRequest",
            "ResolveHoldResponse",
            False,
        ),
        "collect_application": (
            "/bellwether.v1.ApplicationService/CollectApplication",
            "CollectApplicationRequest",
            "CollectApplicationResponse",
            False,
        ),
        "list_status_events": (
            "/bellwether.v1.ApplicationService/ListStatusEvents",
            "ListStatusEventsRequest",
            "ListStatusEventsResponse",
            True,
        ),
        "configure_application": (
            "/bellwether.v1.ApplicationService/ConfigureApplication",
            "ConfigureApplicationRequest",
            "ConfigureApplicationResponse",
            False,
        ),
        "set_application_status": (
            "/bellwether.v1.ApplicationService/SetApplicationStatus",
            "SetApplicationStatusRequest",
            "SetApplicationStatusResponse",
            False,
        ),
        "replace_application_statuses": (
            "/bellwether.v1.ApplicationService/ReplaceApplicationStatuses",
            "ReplaceApplicationStatusesRequest",
            "ReplaceApplicationStatusesResponse",
            False,
        ),
        "clear_application_status": (
            "/bellwether.v1.ApplicationService/ClearApplicationStatus",
            "ClearApplicationStatusRequest",
            "ClearApplicationStatusResponse",
            False,
        ),
        "remove_unit": (
            "/bellwether.v1.ApplicationService/RemoveUnit",
            "RemoveUnitRequest",
            "RemoveUnitResponse",
            False,
        ),
        "delete_application": (
            "/bellwether.v1.ApplicationService/DeleteApplication",
            "DeleteApplicationRequest",
            "DeleteApplicationResponse",
            False,
        ),
        "claim_leadership": (
            "/bellwether.v1.LeaderService/ClaimLeadership",
            "ClaimLeadershipRequest",
            "ClaimLeadershipResponse",
            False,
        ),
        "renew_leadership": (
            "/bellwether.v1.LeaderService/RenewLeadership",
            "RenewLeadershipRequest",
            "RenewLeadershipResponse",
            False,
        ),
        "release_leadership": (
            "/bellwether.v1.LeaderService/ReleaseLeadership",
            "ReleaseLeadershipRequest",
            "ReleaseLeadershipResponse",
            False,
        ),
        "get_leader": (
            "/bellwether.v1.LeaderService/GetLeader",
            "GetLeaderRequest",
            "GetLeaderResponse",
            True,
        ),
        "transfer_leadership": (
            "/bellwether.v1.LeaderService/TransferLeadership",
            "TransferLeadershipRequest",
            "TransferLeadershipResponse",
            False,
        ),
        "begin_operation": (
            "/bellwether.v1.OperationService/BeginOperation",
            "BeginOperationRequest",
            "BeginOperationResponse",
            False,
        ),
        "acquire_operation": (
            "/bellwether.v1.OperationService/AcquireOperation",
            "AcquireOperationRequest",
            "AcquireOperationResponse",
            False,
        ),
        "heartbeat_operation": (
            "/bellwether.v1.OperationService/HeartbeatOperation",
            "HeartbeatOperationRequest",
            "HeartbeatOperationResponse",
            False,
        ),
        "release_operation": (
            "/bellwether.v1.OperationService/ReleaseOperation",
            "ReleaseOperationRequest",
            "ReleaseOperationResponse",
            False,
        ),
        "complete_operation": (
            "/bellwether.v1.OperationService/CompleteOperation",
            "CompleteOperationRequest",
            "CompleteOperationResponse",
            False,
        ),
        "fail_operation": (
            "/bellwether.v1.OperationService/FailOperation",
            "FailOperationRequest",
            "FailOperationResponse",
            False,
        ),
        "verify_operation": (
            "/bellwether.v1.OperationService/VerifyOperation",
            "VerifyOperationRequest",
            "VerifyOperationResponse",
            False,
        ),
        "cancel_operation": (
            "/bellwether.v1.OperationService/CancelOperation",
            "CancelOperationRequest",
            "CancelOperationResponse",
            False,
        ),
        "retry_operation": (
            "/bellwether.v1.OperationService/RetryOperation",
            "RetryOperationRequest",
            "RetryOperationResponse",
            False,
        ),
        "get_operation": (
            "/bellwether.v1.OperationService/GetOperation",
            "GetOperationRequest",
            "GetOperationResponse",
            True,
        ),
        "list_operations": (
            "/bellwether.v1.OperationService/ListOperations",
            "ListOperationsRequest",
            "ListOperationsResponse",
            True,
        ),
        "report_status": (
            "/bellwether.v1.ReportService/ReportStatus",
            "ReportStatusRequest",
            "ReportStatusResponse",
            False,
        ),
        "replace_statuses": (
            "/bellwether.v1.ReportService/ReplaceStatuses",
            "ReplaceStatusesRequest",
            "ReplaceStatusesResponse",
            False,
        ),
        "clear_status": (
            "/bellwether.v1.ReportService/ClearStatus",
            "ClearStatusRequest",
            "ClearStatusResponse",
            False,
        ),
        "report_error": (
            "/bellwether.v1.ReportService/ReportError",
            "ReportErrorRequest",
            "ReportErrorResponse",
            False,
        ),
        "resolve_error": (
            "/bellwether.v1.ReportService/ResolveError",
            "ResolveErrorRequest",
            "ResolveErrorResponse",
            False,
        ),
        "get_server_info": (
            "/bellwether.v1.ServerService/GetServerInfo",
            "GetServerInfoRequest",
            "GetServerInfoResponse",
            True,
        ),
        "register_unit": (
            "/bellwether.v1.WorkerService/RegisterUnit",
            "RegisterUnitRequest",
            "RegisterUnitResponse",
            False,
        ),
        "announce_stop": (
            "/bellwether.v1.WorkerService/AnnounceStop",
            "AnnounceStopRequest",
            "AnnounceStopResponse",
            False,
        ),
        "request_callback": (
            "/bellwether.v1.WorkerService/RequestCallback",
            "RequestCallbackRequest",
            "RequestCallbackResponse",
            False,
        ),
    }

    # Fields as `name:type`: see `_codec.fields_of`.
    MESSAGES = {
        "AppData": (
            "data:{y etag:s revision:l"
        ),
        "GetAppDataRequest": (
            "namespace:s application:s min_revision:l"
        ),
        "GetAppDataResponse": (
            "app_data:m=AppData"
        ),
        "UpdateAppDataRequest": (
            "namespace:s application:s unit:s lease_epoch:l set:{y delete:*s etag:?s request_id:s "
            "decided_outside:b"
        ),
        "UpdateAppDataResponse": (
            "etag:s changed:b deleted_count:i revision:l"
        ),
        "WatchAppDataRequest": (
            "namespace:s application:s"
        ),
        "WatchAppDataResponse": (
            "app_data:m=AppData drain:m=Drain"
        ),
        "GetApplicationRequest": (
            "namespace:s application:s min_revision:l"
        ),
        "GetApplicationResponse": (
            "application:m=Application"
        ),
        "ListApplicationsRequest": (
            "namespace:s page_size:i page_token:s levels:*e=LEVEL_UNSPECIFIED"
        ),
        "ListApplicationsResponse": (
            "applications:*m=Application next_page_token:s"
        ),
        "ExplainApplicationRequest": (
            "namespace:s application:s page_size:i min_revision:l"
        ),
        "Contribution": (
            "ref:m=StatusRef level:e=LEVEL_UNSPECIFIED message:s reason:s action:s priority:i "
            "precedence:i since_time:t freshness:e=FRESHNESS_UNSPECIFIED leader:b beaten_by:s "
            "check:s held:s short_message:s while_stopping:b end_time:t"
        ),
        "ExplainApplicationResponse": (
            "application:m=Application winner:m=Contribution rule:s beaten:*m=Contribution "
            "beaten_count:i silent_count:i observer_suspect:b faults:*m=Fault fault_count:i "
            "holds:*m=Hold operations:*m=Operation holds_rest_count:i"
        ),
        "ListStatusesRequest": (
            "namespace:s application:s unit:s page_size:i page_token:s min_revision:l"
        ),
        "ListStatusesResponse": (
            "statuses:*m=StatusRecord next_page_token:s"
        ),
        "ListUnitsRequest": (
            "namespace:s application:s page_size:i page_token:s min_revision:l"
        ),
        "ListUnitsResponse": (
            "units:*m=Unit next_page_token:s"
        ),
        "WatchApplicationsRequest": (
            "namespace:s applications:*s min_level:e=LEVEL_UNSPECIFIED levels:*e=LEVEL_UNSPECIFIED "
            "stable_for:d resume_token:s include_units:b"
        ),
        "WatchApplicationsResponse": (
            "upserted:m=Application removed:m=ApplicationRemoved "
            "snapshot_complete:m=SnapshotComplete bookmark:m=Bookmark drain:m=Drain store_epoch:s "
            "coalesced_count:i resume_token:s units:*m=Unit units_rest_count:i"
        ),
        "ApplicationRemoved": (
            "namespace:s name:s"
        ),
        "SnapshotComplete": (
            "application_count:i"
        ),
        "Bookmark": (
            "digest:s application_count:i"
        ),
        "Drain": (
            "reconnect_after:d"
        ),
        "CollectApplicationRequest": (
            "namespace:s application:s deadline:d recompute:b component:?s"
        ),
        "UnitAnswer": (
            "unit:m=Unit answered:b age:d statuses:*m=StatusRecord"
        ),
        "CollectApplicationResponse": (
            "answers:*m=UnitAnswer asked_count:i answered_count:i revision:l answers_rest_count:i"
        ),
        "ListStatusEventsRequest": (
            "namespace:s application:s unit:s page_size:i page_token:s after_time:t"
        ),
        "ListStatusEventsResponse": (
            "events:*m=StatusEvent next_page_token:s"
        ),
        "ConfigureApplicationRequest": (
            "namespace:s application:s config:m=ApplicationConfig update_mask:f request_id:s"
        ),
        "ConfigureApplicationResponse": (
            "revision:l config:m=ApplicationConfig"
        ),
        "SetApplicationStatusRequest": (
            "namespace:s application:s unit:s lease_epoch:l level:e=LEVEL_UNSPECIFIED message:s "
            "mode:e=APPLICATION_STATUS_MODE_UNSPECIFIED ttl:d reason:s action:s observe_time:t "
            "request_id:s decided_outside:b cut_long_texts:b"
        ),
        "SetApplicationStatusResponse": (
            "revision:l changed:b advice:*s"
        ),
        "ReplaceApplicationStatusesRequest": (
            "namespace:s application:s unit:s lease_epoch:l component:?s statuses:*m=StatusReport "
            "request_id:s decided_outside:b cut_long_texts:b"
        ),
        "ReplaceApplicationStatusesResponse": (
            "revision:l changed:b removed_count:i advice:*s"
        ),
        "ClearApplicationStatusRequest": (
            "namespace:s application:s unit:s lease_epoch:l request_id:s decided_outside:b"
        ),
        "ClearApplicationStatusResponse": (
            "revision:l changed:b"
        ),
        "RemoveUnitRequest": (
            "namespace:s application:s unit:s request_id:s"
        ),
        "RemoveUnitResponse": (
            "revision:l removed_count:i"
        ),
        "DeleteApplicationRequest": (
            "namespace:s application:s request_id:s"
        ),
        "DeleteApplicationResponse": (
            "revision:l"
        ),
        "ListFaultsRequest": (
            "namespace:s application:s unit:s page_size:i page_token:s min_revision:l "
            "include_internal_detail:b"
        ),
        "ListFaultsResponse": (
            "faults:*m=Fault next_page_token:s"
        ),
        "ResolveHoldRequest": (
            "namespace:s application:s unit:s component:s resolution:e=HOLD_RESOLUTION_UNSPECIFIED "
            "reason:s request_id:s"
        ),
        "ResolveHoldResponse": (
            "revision:l released_count:i"
        ),
        "ErrorReport": (
            "component:s target:s system:s code:s origin:e=ERROR_ORIGIN_UNSPECIFIED "
            "outcome:e=ERROR_OUTCOME_UNSPECIFIED domain:s reason:s message:s internal_detail:s "
            "retry_after:d user_input:?b own_request:?b quota:?b machine_resolvable:?b "
            "deadline_passed:?b own_shutdown:?b operation_id:s attempt:i action:s generation:s "
            "class:e=ERROR_CLASS_UNSPECIFIED shortest_wait:d"
        ),
        "Verdict": (
            "class:e=ERROR_CLASS_UNSPECIFIED action:e=VERDICT_ACTION_UNSPECIFIED retry_after:d "
            "retry_time:t attempt:i attempts_left:i rule:s explanation:s held:b"
        ),
        "Fault": (
            "unit:s component:s target:s class:e=ERROR_CLASS_UNSPECIFIED count:i first_time:t "
            "last_time:t next_retry_time:t last:m=ErrorReport verdict:m=Verdict "
            "level:e=LEVEL_UNSPECIFIED since_time:t"
        ),
        "Lease": (
            "unit:s incarnation:l lease_epoch:l duration:d acquire_time:t expire_time:t"
        ),
        "ClaimLeadershipRequest": (
            "namespace:s application:s unit:s incarnation:?l lease_duration:d request_id:s"
        ),
        "ClaimLeadershipResponse": (
            "lease:m=Lease revision:l"
        ),
        "RenewLeadershipRequest": (
            "namespace:s application:s unit:s lease_epoch:l"
        ),
        "RenewLeadershipResponse": (
            "lease:m=Lease revision:l"
        ),
        "ReleaseLeadershipRequest": (
            "namespace:s application:s unit:s lease_epoch:l request_id:s"
        ),
        "ReleaseLeadershipResponse": (
            "revision:l changed:b"
        ),
        "GetLeaderRequest": (
            "namespace:s application:s min_revision:l page_size:i"
        ),
        "GetLeaderResponse": (
            "lease:m=Lease lease_epoch:l candidates:*s candidate_count:i revision:l"
        ),
        "TransferLeadershipRequest": (
            "namespace:s application:s to_unit:s request_id:s"
        ),
        "TransferLeadershipResponse": (
            "lease:m=Lease revision:l"
        ),
        "OperationEvent": (
            "time:t from_state:e=OPERATION_STATE_UNSPECIFIED state:e=OPERATION_STATE_UNSPECIFIED "
            "unit:s reason:s fence:l"
        ),
        "Operation": (
            "namespace:s application:s operation_id:s kind:e=OPERATION_KIND_UNSPECIFIED "
            "from_version:s target_version:s state:e=OPERATION_STATE_UNSPECIFIED fence:l holder:s "
            "lease_expire_time:t lease_duration:d attempts_failed:i max_attempts:i interruptions:i "
            "max_interruptions:i checkpoint:y payload:y payload_uri:s payload_digest:s "
            "next_target_version:s last_error:m=ErrorReport reason:s deterministic:b reversible:b "
            "create_time:t update_time:t deadline:t retry_time:t history:*m=OperationEvent "
            "progress:s touched:b next_step:s next_time:t note:s unit:s"
        ),
        "BeginOperationRequest": (
            "namespace:s application:s unit:s operation_id:s kind:e=OPERATION_KIND_UNSPECIFIED "
            "from_version:s target_version:s payload:y payload_uri:s payload_digest:s "
            "deterministic:b reversible:b max_attempts:i max_interruptions:?i deadline:t "
            "lease_duration:d supersede:b reason:s request_id:s for_unit:s"
        ),
        "BeginOperationResponse": (
            "operation:m=Operation revision:l begun:b advice:*s"
        ),
        "AcquireOperationRequest": (
            "namespace:s application:s unit:s operation_id:s verify:b "
            "payload_state:e=PAYLOAD_STATE_UNSPECIFIED request_id:s"
        ),
        "AcquireOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "HeartbeatOperationRequest": (
            "namespace:s application:s unit:s operation_id:s fence:l checkpoint:?y progress:?s "
            "request_id:s"
        ),
        "HeartbeatOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "ReleaseOperationRequest": (
            "namespace:s application:s unit:s operation_id:s fence:l request_id:s"
        ),
        "ReleaseOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "CompleteOperationRequest": (
            "namespace:s application:s unit:s operation_id:s fence:l request_id:s"
        ),
        "CompleteOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "FailOperationRequest": (
            "namespace:s application:s unit:s operation_id:s fence:l error:m=ErrorReport touched:b "
            "request_id:s"
        ),
        "FailOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "VerifyOperationRequest": (
            "namespace:s application:s unit:s operation_id:s fence:l "
            "observed:e=OBSERVED_UNSPECIFIED request_id:s"
        ),
        "VerifyOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "CancelOperationRequest": (
            "namespace:s application:s unit:s operation_id:s request_id:s"
        ),
        "CancelOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "RetryOperationRequest": (
            "namespace:s application:s unit:s operation_id:s request_id:s"
        ),
        "RetryOperationResponse": (
            "operation:m=Operation revision:l"
        ),
        "GetOperationRequest": (
            "namespace:s application:s operation_id:s min_revision:l"
        ),
        "GetOperationResponse": (
            "operation:m=Operation"
        ),
        "ListOperationsRequest": (
            "namespace:s application:s states:*e=OPERATION_STATE_UNSPECIFIED page_size:i "
            "page_token:s min_revision:l unit:?s"
        ),
        "ListOperationsResponse": (
            "operations:*m=Operation next_page_token:s"
        ),
        "ReportStatusRequest": (
            "namespace:s application:s unit:s incarnation:?l status:m=StatusReport request_id:s "
            "cut_long_texts:b"
        ),
        "ReportStatusResponse": (
            "revision:l changed:b advice:*s"
        ),
        "ReplaceStatusesRequest": (
            "namespace:s application:s unit:s incarnation:?l component:?s statuses:*m=StatusReport "
            "request_id:s cut_long_texts:b"
        ),
        "ReplaceStatusesResponse": (
            "revision:l changed:b removed_count:i advice:*s"
        ),
        "ClearStatusRequest": (
            "namespace:s application:s unit:s incarnation:?l component:?s key:?s "
            "kind:e=STATUS_KIND_UNSPECIFIED request_id:s"
        ),
        "ClearStatusResponse": (
            "revision:l cleared_count:i"
        ),
        "ReportErrorRequest": (
            "namespace:s application:s unit:s incarnation:?l error:m=ErrorReport request_id:s "
            "cut_long_texts:b"
        ),
        "ReportErrorResponse": (
            "verdict:m=Verdict revision:l advice:*s"
        ),
        "ResolveErrorRequest": (
            "namespace:s application:s unit:s incarnation:?l component:s target:?s generation:s "
            "request_id:s all_components:b"
        ),
        "ResolveErrorResponse": (
            "revision:l resolved_count:i held_count:i"
        ),
        "GetServerInfoRequest": "",
        "GetServerInfoResponse": (
            "version:s commit:s store_kind:e=STORE_KIND_UNSPECIFIED limits:{l time:t replica_id:s "
            "store_epoch:s features:*s"
        ),
        "StatusReport": (
            "component:s key:s kind:e=STATUS_KIND_UNSPECIFIED level:e=LEVEL_UNSPECIFIED message:s "
            "short_message:s reason:s check:s action:s priority:i precedence:i labels:{s "
            "observe_time:t ttl:d end_after:d"
        ),
        "StatusRecord": (
            "namespace:s application:s unit:s report:m=StatusReport since_time:t update_time:t "
            "expire_time:t incarnation:l freshness:e=FRESHNESS_UNSPECIFIED contributing:b "
            "held:m=HeldStatus while_stopping:b end_time:t"
        ),
        "HeldStatus": (
            "cause:e=HOLD_CAUSE_UNSPECIFIED latest_level:e=LEVEL_UNSPECIFIED latest_message:s "
            "good_count:i good_needed:i flapping_time:t calm_time:t description:s"
        ),
        "StatusRef": (
            "unit:s component:s key:s kind:e=STATUS_KIND_UNSPECIFIED target:s"
        ),
        "AggregatedStatus": (
            "level:e=LEVEL_UNSPECIFIED message:s reason:s action:s since_time:t winner:m=StatusRef "
            "rule:s action_count:i more_count:i stale_units:i lost_units:i leader_set:b "
            "uncertain_units:i flapping_count:i flapping:b fault_count:i short_message:s"
        ),
        "LevelCount": (
            "level:e=LEVEL_UNSPECIFIED count:i"
        ),
        "Policy": (
            "name:s order:*e=LEVEL_UNSPECIFIED"
        ),
        "Ttls": (
            "default_ttl:d lost_after:d replaced_after:d"
        ),
        "ExternalLeader": (
            "unit:s"
        ),
        "Latch": (
            "component:s good_count:i"
        ),
        "Damping": (
            "components:*s start_percent:i stop_percent:i calm_after:d"
        ),
        "ApplicationConfig": (
            "policy:m=Policy lost_units:e=LOST_UNITS_UNSPECIFIED ttls:m=Ttls "
            "serving_levels:*e=LEVEL_UNSPECIFIED external_leader:m=ExternalLeader "
            "collect_interval:d hand_over:m=HandOver latches:*m=Latch damping:m=Damping "
            "lease_duration:d drop_leader_status:?b"
        ),
        "HandOver": (
            "label:s"
        ),
        "Application": (
            "namespace:s name:s status:m=AggregatedStatus unit_count:i units_by_level:*m=LevelCount "
            "leader:s lease_epoch:l revision:l create_time:t update_time:t "
            "config:m=ApplicationConfig"
        ),
        "Hold": (
            "component:s reason:s since_time:t unit:s target:s"
        ),
        "Unit": (
            "name:s incarnation:l freshness:e=FRESHNESS_UNSPECIFIED level:e=LEVEL_UNSPECIFIED "
            "message:s leader:b connected:b last_seen_time:t holds:*m=Hold component:s stale_time:t "
            "short_message:s holds_rest_count:i stopping_time:t"
        ),
        "StatusEvent": (
            "time:t revision:l status:m=StatusRef from_level:e=LEVEL_UNSPECIFIED "
            "level:e=LEVEL_UNSPECIFIED message:s reason:s freshness:e=FRESHNESS_UNSPECIFIED cause:s "
            "kind:e=EVENT_KIND_UNSPECIFIED changes:*m=EventChange actor:e=EVENT_ACTOR_UNSPECIFIED"
        ),
        "EventChange": (
            "field:s from:s to:s"
        ),
        "RegisterUnitRequest": (
            "namespace:s application:s unit:s previous_incarnation:?l ttl:d stateless:b labels:{s "
            "request_id:s"
        ),
        "RegisterUnitResponse": (
            "incarnation:l retained:*m=StatusReport operations:*m=Operation heartbeat_interval:d "
            "revision:l retained_rest_count:i"
        ),
        "AnnounceStopRequest": (
            "namespace:s application:s unit:s incarnation:?l request_id:s"
        ),
        "AnnounceStopResponse": (
            "revision:l changed:b"
        ),
        "RequestCallbackRequest": (
            "namespace:s application:s unit:s incarnation:?l component:s key:s after:d reason:s "
            "request_id:s"
        ),
        "RequestCallbackResponse": (
            "revision:l changed:b"
        ),
    }
    return locals()


_add("_table", _define_table)


def _define_codec():
    """Plain values of Python to proto JSON and back, by the table of the fields."""


    MESSAGES = _table.MESSAGES


    _DEFAULTS = {"s": "", "b": False, "y": b"", "i": 0, "l": 0}
    # The fields of a message, once they were needed. They follow from the table alone.
    _parsed: Dict[str, Fields] = {}


    def fields_of(message: str) -> Fields:
        """Returns each field with its name in JSON, its label and its type.

        The label is `?` (optional), `*` (repeated), `{` (map) or empty. The type is `s` (text), `b`
        (bool), `y` (bytes), `i` and `l` (32 and 64 bits), `d` (duration), `t` (time), `f` (field mask),
        `e=DEFAULT` (enum) or `m=NAME` (message).
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
    return locals()


_add("_codec", _define_codec)


def _define_transport():
    """Connections of HTTP/1.1 in which each wait ends at a deadline, TLS and slow peers included."""


    import http.client
    import io
    import socket
    import time

    DeadlineExceeded = errors.DeadlineExceeded
    Error = errors.Error
    TlsFailed = errors.TlsFailed
    Unreachable = errors.Unreachable


    class Deadline:
        """A moment after which nothing is waited for."""

        def __init__(self, seconds: float) -> None:
            self.seconds = seconds
            self._end = time.monotonic() + seconds

        def left(self) -> float:
            """Returns the seconds that are left; raises socket.timeout if there are none."""
            left = self.remaining()
            if left <= 0:
                raise socket.timeout("the deadline has passed")
            return left

        def remaining(self) -> float:
            return self._end - time.monotonic()


    class _Reader(io.RawIOBase):
        """Reads from a socket. Each read waits for the rest of the deadline, not for a time anew."""

        def __init__(self, channel: _Channel) -> None:
            self._channel = channel

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self._channel.socket.settimeout(self._channel.deadline.left())
            return self._channel.socket.recv_into(buffer)


    class _Channel:
        """What http.client needs of a socket."""

        def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
            self.socket = connected
            self.deadline = deadline

        def makefile(self, mode: str, *_: Any) -> io.BufferedReader:
            return io.BufferedReader(_Reader(self))

        def sendall(self, data: Any) -> None:
            rest = memoryview(data)
            while rest:
                self.socket.settimeout(self.deadline.left())
                rest = rest[self.socket.send(rest) :]

        def close(self) -> None:
            """Does nothing: http.client closes before the body of the last answer was read."""


    class Connection:
        """One connection to the server."""

        def __init__(self, host: str, port: int, make_tls: Callable[[], Optional[ssl.SSLContext]]):
            self.host, self.port = host, port
            self._make_tls = make_tls
            self._http = http.client.HTTPConnection(host, port)
            self._http.auto_open = 0
            self._channel: Optional[_Channel] = None

        def open(self, deadline: Deadline) -> None:
            """Connects. Raises Unreachable, TlsFailed or DeadlineExceeded."""
            where = "{}:{}".format(self.host, self.port)
            try:
                tls = self._make_tls()
                connected = _connect(self.host, self.port, deadline)
            except socket.timeout:
                raise no_answer(deadline, "no connection to " + where)
            except OSError as error:
                raise Unreachable(
                    "cannot reach {}: {}".format(where, error), reason="UNREACHABLE"
                ) from error
            try:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if tls is not None:
                    connected = _handshake(tls, connected, self.host, deadline)
            except socket.timeout:
                connected.close()
                raise no_answer(deadline, "no TLS handshake with " + where)
            except (OSError, ValueError) as error:
                connected.close()
                raise _broken(where, error) from error
            self._channel = _Channel(connected, deadline)
            # The type of the attribute is socket.socket; http.client uses three methods of it.
            setattr(self._http, "sock", self._channel)

        def is_usable(self) -> bool:
            """Returns False if the server has closed the connection, or has sent what fits no call."""
            if self._channel is None or self._http.sock is None:
                return False
            import select

            try:
                if hasattr(select, "poll"):
                    poll = select.poll()
                    poll.register(self._channel.socket, select.POLLIN)
                    return not poll.poll(0)
                return not select.select([self._channel.socket], [], [], 0)[0]
            except (OSError, ValueError):
                return False

        def send(
            self, path: str, body: bytes, headers: List[Tuple[str, str]], deadline: Deadline
        ) -> http.client.HTTPResponse:
            """Sends a request and returns the answer up to its body."""
            channel = self._channel
            if channel is None:
                raise Unreachable("the connection is closed", reason="UNREACHABLE")
            channel.deadline = deadline
            with self.failures(deadline):
                self._http.request("POST", path, body, dict(headers))
                return self._http.getresponse()

        def failures(self, deadline: Deadline) -> _Failures:
            """Returns a context that turns the exceptions of sockets into those of the package."""
            return _Failures(self, deadline)

        def extend(self, deadline: Deadline) -> None:
            """Replaces the deadline of the reads."""
            if self._channel is not None:
                self._channel.deadline = deadline

        def interrupt(self) -> None:
            """Ends a read of another thread."""
            if self._channel is not None:
                try:
                    self._channel.socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        def close(self) -> None:
            self._http.close()
            if self._channel is not None:
                self._channel.socket.close()
                self._channel = None

        def __del__(self) -> None:
            channel = getattr(self, "_channel", None)
            if channel is not None:
                channel.socket.close()


    class _Failures:
        def __init__(self, connection: Connection, deadline: Deadline) -> None:
            self._connection = connection
            self._deadline = deadline

        def __enter__(self) -> None:
            return None

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            if error is None or isinstance(error, Error):
                return
            where = "{}:{}".format(self._connection.host, self._connection.port)
            self._connection.close()
            if isinstance(error, socket.timeout):
                raise no_answer(self._deadline, "no answer from " + where) from error
            if isinstance(error, OSError):
                raise _broken(where, error) from error
            if isinstance(error, (http.client.HTTPException, ValueError, AssertionError)):
                # The cause has bytes of the peer, which a traceback would print.
                raise _broken(where, error) from None


    def no_answer(deadline: Deadline, what: str) -> DeadlineExceeded:
        return DeadlineExceeded("{} within {:g} s".format(what, deadline.seconds), reason="NO_ANSWER")


    def _broken(where: str, error: Exception) -> Error:
        shown = str(error) or type(error).__name__
        # The module is imported with the first connection of TLS only.
        if any(one.__module__ == "ssl" for one in type(error).__mro__):
            # A peer that closes without a word is a lost connection.
            if type(error).__name__ not in ("SSLEOFError", "SSLZeroReturnError"):
                return TlsFailed("no TLS with {}: {}".format(where, shown), reason="TLS_FAILED")
        return Unreachable(
            "the connection to {} is lost: {}".format(where, shown), reason="UNREACHABLE"
        )


    def _connect(host: str, port: int, deadline: Deadline) -> socket.socket:
        addresses = _resolve(host, port, deadline)
        last: OSError = OSError("no address")
        for index, (family, kind, protocol, _, address) in enumerate(addresses):
            one = socket.socket(family, kind, protocol)
            try:
                # An address that does not answer leaves time for the others.
                one.settimeout(deadline.left() / (len(addresses) - index))
                one.connect(address)
                return one
            except OSError as error:
                one.close()
                last = error
        raise last


    def _resolve(host: str, port: int, deadline: Deadline) -> List[Any]:
        """Resolves a name in a thread, because getaddrinfo has no timeout."""
        try:
            return socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except socket.gaierror:
            pass
        import threading

        found: List[Any] = []
        failed: List[OSError] = []

        def resolve() -> None:
            try:
                found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=resolve, daemon=True)
        thread.start()
        thread.join(deadline.left())
        if failed:
            raise failed[0]
        if thread.is_alive():
            raise socket.timeout("the name was not resolved")
        return found


    def _handshake(
        tls: ssl.SSLContext, connected: socket.socket, host: str, deadline: Deadline
    ) -> socket.socket:
        wrapped = tls.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
        try:
            wrapped.settimeout(deadline.left())
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()
            raise
        return wrapped
    return locals()


_add("_transport", _define_transport)


def _define_methods():
    """One method for each unary RPC."""

    # Generated by tools/generate.py from proto/bellwether/v1; change the protos instead.


    class Methods:
        """The methods of all services. `timeout` replaces the deadline of the client."""

        def _call(self, name: str, request: Dict[str, Any], timeout: Optional[float]) -> Any:
            raise NotImplementedError

        def get_app_data(
            self,
            *,
            application: str,
            namespace: str = "",
            min_revision: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.GetAppDataResponse:
            """Returns all data. An application that does not exist has empty data; their etag is valid
            for the first update.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "min_revision": min_revision,
            }
            answer: messages.GetAppDataResponse = self._call("get_app_data", request, timeout)
            return answer

        def update_app_data(
            self,
            *,
            application: str,
            namespace: str = "",
            unit: str = "",
            lease_epoch: int = 0,
            set: Optional[Mapping[str, bytes]] = None,
            delete: Optional[Sequence[str]] = None,
            etag: Optional[str] = None,
            request_id: str = "",
            decided_outside: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.UpdateAppDataResponse:
            """Changes the data: either all named keys or, if refused, none. A change that leaves the
            data as they are commits nothing and notifies no watch. NOT_LEADER (FAILED_PRECONDITION;
            metadata leader, lease_epoch) unless the unit leads under this epoch; ETAG_MISMATCH
            (ABORTED; metadata etag); VALUE_TOO_LARGE (INVALID_ARGUMENT) above 256 bytes of a key, 64
            KiB of a value, 2 MiB of all keys and values; LIMIT_EXCEEDED (RESOURCE_EXHAUSTED) above
            10,000 keys.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "unit": unit,
                "lease_epoch": lease_epoch,
                "set": set,
                "delete": delete,
                "etag": etag,
                "request_id": request_id,
                "decided_outside": decided_outside,
            }
            answer: messages.UpdateAppDataResponse = self._call("update_app_data", request, timeout)
            return answer

        def get_application(
            self,
            *,
            application: str,
            namespace: str = "",
            min_revision: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.GetApplicationResponse:
            """Returns one application."""
            request = {
                "application": application,
                "namespace": namespace,
                "min_revision": min_revision,
            }
            answer: messages.GetApplicationResponse = self._call("get_application", request, timeout)
            return answer

        def list_applications(
            self,
            *,
            namespace: str = "",
            page_size: int = 0,
            page_token: str = "",
            levels: Optional[Sequence[messages.Level]] = None,
            timeout: Optional[float] = None,
        ) -> messages.ListApplicationsResponse:
            """Lists applications by name."""
            request = {
                "namespace": namespace,
                "page_size": page_size,
                "page_token": page_token,
                "levels": levels,
            }
            answer: messages.ListApplicationsResponse = self._call(
                "list_applications", request, timeout
            )
            return answer

        def explain_application(
            self,
            *,
            application: str,
            namespace: str = "",
            page_size: int = 0,
            min_revision: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.ExplainApplicationResponse:
            """Explains the status of an application: the winner, the rule, and the other contributions.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "page_size": page_size,
                "min_revision": min_revision,
            }
            answer: messages.ExplainApplicationResponse = self._call(
                "explain_application", request, timeout
            )
            return answer

        def list_statuses(
            self,
            *,
            application: str,
            namespace: str = "",
            unit: str = "",
            page_size: int = 0,
            page_token: str = "",
            min_revision: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.ListStatusesResponse:
            """Lists every status of an application: first those of the application itself, which its
            leader set, then those of its units. Both are ordered by unit, component, key and kind.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "unit": unit,
                "page_size": page_size,
                "page_token": page_token,
                "min_revision": min_revision,
            }
            answer: messages.ListStatusesResponse = self._call("list_statuses", request, timeout)
            return answer

        def list_units(
            self,
            *,
            application: str,
            namespace: str = "",
            page_size: int = 0,
            page_token: str = "",
            min_revision: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.ListUnitsResponse:
            """Lists the units of an application in natural order."""
            request = {
                "application": application,
                "namespace": namespace,
                "page_size": page_size,
                "page_token": page_token,
                "min_revision": min_revision,
            }
            answer: messages.ListUnitsResponse = self._call("list_units", request, timeout)
            return answer

        def list_faults(
            self,
            *,
            application: str,
            namespace: str = "",
            unit: str = "",
            page_size: int = 0,
            page_token: str = "",
            min_revision: int = 0,
            include_internal_detail: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.ListFaultsResponse:
            """Lists open errors by unit, component and target."""
            request = {
                "application": application,
                "namespace": namespace,
                "unit": unit,
                "page_size": page_size,
                "page_token": page_token,
                "min_revision": min_revision,
                "include_internal_detail": include_internal_detail,
            }
            answer: messages.ListFaultsResponse = self._call("list_faults", request, timeout)
            return answer

        def resolve_hold(
            self,
            *,
            application: str,
            unit: str,
            resolution: messages.HoldResolution,
            namespace: str = "",
            component: str = "",
            reason: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.ResolveHoldResponse:
            """Releases a held component, or lets a component retry immediately instead of at its next
            retry time. For operators. Further errors: UNIT_NOT_FOUND (NOT_FOUND).
            """
            request = {
                "application": application,
                "unit": unit,
                "resolution": resolution,
                "namespace": namespace,
                "component": component,
                "reason": reason,
                "request_id": request_id,
            }
            answer: messages.ResolveHoldResponse = self._call("resolve_hold", request, timeout)
            return answer

        def collect_application(
            self,
            *,
            application: str,
            namespace: str = "",
            deadline: Optional[float] = None,
            recompute: bool = False,
            component: Optional[str] = None,
            timeout: Optional[float] = None,
        ) -> messages.CollectApplicationResponse:
            """Collects the pull sets of all connected units, on every replica, and waits for the
            answers. Units that do not answer, or are not connected, are returned with their last
            known statuses. Concurrent calls share one collection.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "deadline": deadline,
                "recompute": recompute,
                "component": component,
            }
            answer: messages.CollectApplicationResponse = self._call(
                "collect_application", request, timeout
            )
            return answer

        def list_status_events(
            self,
            *,
            application: str,
            namespace: str = "",
            unit: str = "",
            page_size: int = 0,
            page_token: str = "",
            after_time: Optional[datetime] = None,
            timeout: Optional[float] = None,
        ) -> messages.ListStatusEventsResponse:
            """Lists the transitions of an application, newest first. They outlive the units, and also
            the application until their retention ends.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "unit": unit,
                "page_size": page_size,
                "page_token": page_token,
                "after_time": after_time,
            }
            answer: messages.ListStatusEventsResponse = self._call(
                "list_status_events", request, timeout
            )
            return answer

        def configure_application(
            self,
            *,
            application: str,
            namespace: str = "",
            config: Optional[messages.ApplicationConfigInput] = None,
            update_mask: Optional[List[str]] = None,
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.ConfigureApplicationResponse:
            """Changes the configuration of an application, and creates the application if it does not
            exist.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "config": config,
                "update_mask": update_mask,
                "request_id": request_id,
            }
            answer: messages.ConfigureApplicationResponse = self._call(
                "configure_application", request, timeout
            )
            return answer

        def set_application_status(
            self,
            *,
            application: str,
            level: messages.Level,
            namespace: str = "",
            unit: str = "",
            lease_epoch: int = 0,
            message: str = "",
            mode: messages.ApplicationStatusMode = "APPLICATION_STATUS_MODE_UNSPECIFIED",
            ttl: Optional[float] = None,
            reason: str = "",
            action: str = "",
            observe_time: Optional[datetime] = None,
            request_id: str = "",
            decided_outside: bool = False,
            cut_long_texts: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.SetApplicationStatusResponse:
            """Sets the status of the application as a whole. Only for its leader. Further errors:
            NOT_LEADER (FAILED_PRECONDITION).
            """
            request = {
                "application": application,
                "level": level,
                "namespace": namespace,
                "unit": unit,
                "lease_epoch": lease_epoch,
                "message": message,
                "mode": mode,
                "ttl": ttl,
                "reason": reason,
                "action": action,
                "observe_time": observe_time,
                "request_id": request_id,
                "decided_outside": decided_outside,
                "cut_long_texts": cut_long_texts,
            }
            answer: messages.SetApplicationStatusResponse = self._call(
                "set_application_status", request, timeout
            )
            return answer

        def replace_application_statuses(
            self,
            *,
            application: str,
            namespace: str = "",
            unit: str = "",
            lease_epoch: int = 0,
            component: Optional[str] = None,
            statuses: Optional[Sequence[messages.StatusReportInput]] = None,
            request_id: str = "",
            decided_outside: bool = False,
            cut_long_texts: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.ReplaceApplicationStatusesResponse:
            """Replaces the set of statuses that the leader keeps for the application itself, beside the
            status of SetApplicationStatus: statuses that are missing in the set are removed. Each
            status is one contribution, of unit "". Only for the leader. Further errors: NOT_LEADER
            (FAILED_PRECONDITION); UNKNOWN_LEVEL, MESSAGE_TOO_LONG (INVALID_ARGUMENT); LIMIT_EXCEEDED
            (RESOURCE_EXHAUSTED) above 1,024 statuses.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "unit": unit,
                "lease_epoch": lease_epoch,
                "component": component,
                "statuses": statuses,
                "request_id": request_id,
                "decided_outside": decided_outside,
                "cut_long_texts": cut_long_texts,
            }
            answer: messages.ReplaceApplicationStatusesResponse = self._call(
                "replace_application_statuses", request, timeout
            )
            return answer

        def clear_application_status(
            self,
            *,
            application: str,
            namespace: str = "",
            unit: str = "",
            lease_epoch: int = 0,
            request_id: str = "",
            decided_outside: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.ClearApplicationStatusResponse:
            """Withdraws the status of SetApplicationStatus. Only for the leader. Further errors:
            NOT_LEADER (FAILED_PRECONDITION).
            """
            request = {
                "application": application,
                "namespace": namespace,
                "unit": unit,
                "lease_epoch": lease_epoch,
                "request_id": request_id,
                "decided_outside": decided_outside,
            }
            answer: messages.ClearApplicationStatusResponse = self._call(
                "clear_application_status", request, timeout
            )
            return answer

        def remove_unit(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.RemoveUnitResponse:
            """Removes a unit with its statuses. Possible in every state. For 10 s, reports without an
            incarnation are refused with STALE_INCARNATION (ABORTED), so that a late one does not
            bring the unit back. Further errors: UNIT_NOT_FOUND (NOT_FOUND).
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "request_id": request_id,
            }
            answer: messages.RemoveUnitResponse = self._call("remove_unit", request, timeout)
            return answer

        def delete_application(
            self,
            *,
            application: str,
            namespace: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.DeleteApplicationResponse:
            """Removes an application with everything except its history. Possible in every state."""
            request = {
                "application": application,
                "namespace": namespace,
                "request_id": request_id,
            }
            answer: messages.DeleteApplicationResponse = self._call(
                "delete_application", request, timeout
            )
            return answer

        def claim_leadership(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            incarnation: Optional[int] = None,
            lease_duration: Optional[float] = None,
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.ClaimLeadershipResponse:
            """Claims leadership. Creates the application and the unit if they do not exist. Granted if
            there is no leader. A leader that claims again keeps its epoch, and its lease is renewed.
            While another unit leads: LEASE_HELD (FAILED_PRECONDITION; metadata holder, lease_epoch,
            expires), and the unit joins the queue, at most once. It becomes leader as soon as the
            lease is released or expires and its turn comes, unless it is stale or lost then. Claim
            again, or call GetLeader, to find out. Further errors: STALE_INCARNATION (ABORTED).
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "incarnation": incarnation,
                "lease_duration": lease_duration,
                "request_id": request_id,
            }
            answer: messages.ClaimLeadershipResponse = self._call("claim_leadership", request, timeout)
            return answer

        def renew_leadership(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            lease_epoch: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.RenewLeadershipResponse:
            """Renews the lease, for a leader without a session. A third of the lease duration is a good
            interval. Further errors: NOT_LEADER (FAILED_PRECONDITION; metadata leader, lease_epoch):
            the unit no longer leads.
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "lease_epoch": lease_epoch,
            }
            answer: messages.RenewLeadershipResponse = self._call("renew_leadership", request, timeout)
            return answer

        def release_leadership(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            lease_epoch: int = 0,
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.ReleaseLeadershipResponse:
            """Gives up leadership. The first candidate in the queue becomes leader immediately. Further
            errors: NOT_LEADER (FAILED_PRECONDITION). Without a leader the call changes nothing and
            succeeds.
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "lease_epoch": lease_epoch,
                "request_id": request_id,
            }
            answer: messages.ReleaseLeadershipResponse = self._call(
                "release_leadership", request, timeout
            )
            return answer

        def get_leader(
            self,
            *,
            application: str,
            namespace: str = "",
            min_revision: int = 0,
            page_size: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.GetLeaderResponse:
            """Returns the leader and the candidates. For an application that does not exist: no leader
            and epoch 0.
            """
            request = {
                "application": application,
                "namespace": namespace,
                "min_revision": min_revision,
                "page_size": page_size,
            }
            answer: messages.GetLeaderResponse = self._call("get_leader", request, timeout)
            return answer

        def transfer_leadership(
            self,
            *,
            application: str,
            to_unit: str,
            namespace: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.TransferLeadershipResponse:
            """Makes a unit the leader, for operators. The queue stays as it is. INVALID_VALUE if the
            unit is lost or has left. Further errors: LEASE_HELD (FAILED_PRECONDITION) where
            leadership is decided outside.
            """
            request = {
                "application": application,
                "to_unit": to_unit,
                "namespace": namespace,
                "request_id": request_id,
            }
            answer: messages.TransferLeadershipResponse = self._call(
                "transfer_leadership", request, timeout
            )
            return answer

        def begin_operation(
            self,
            *,
            application: str,
            operation_id: str,
            target_version: str,
            namespace: str = "",
            unit: str = "",
            kind: messages.OperationKind = "OPERATION_KIND_UNSPECIFIED",
            from_version: str = "",
            payload: bytes = b"",
            payload_uri: str = "",
            payload_digest: str = "",
            deterministic: bool = False,
            reversible: bool = False,
            max_attempts: int = 0,
            max_interruptions: Optional[int] = None,
            deadline: Optional[datetime] = None,
            lease_duration: Optional[float] = None,
            supersede: bool = False,
            reason: str = "",
            request_id: str = "",
            for_unit: str = "",
            timeout: Optional[float] = None,
        ) -> messages.BeginOperationResponse:
            """Records an operation and holds it: RUNNING with fence 1. Without a unit it has no holder
            yet: READY. If the operation_id is already recorded, the answer is that record, and
            nothing is acquired. While another operation is unfinished or FAILED, the call is
            refused: OPERATION_HELD (ABORTED, with RetryInfo; metadata `operation_id`, `holder`,
            `expires`) if that operation has a holder, else RESUME_FIRST (FAILED_PRECONDITION;
            metadata `operation_id`, `target_version`). The refused target is stored as
            `next_target_version` of that operation. A rollback of an operation that is not
            `reversible`: OPERATION_STATE. Creates the application if it does not exist. Further
            errors: VALUE_TOO_LARGE, MESSAGE_TOO_LONG (INVALID_ARGUMENT), LIMIT_EXCEEDED
            (RESOURCE_EXHAUSTED).
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "target_version": target_version,
                "namespace": namespace,
                "unit": unit,
                "kind": kind,
                "from_version": from_version,
                "payload": payload,
                "payload_uri": payload_uri,
                "payload_digest": payload_digest,
                "deterministic": deterministic,
                "reversible": reversible,
                "max_attempts": max_attempts,
                "max_interruptions": max_interruptions,
                "deadline": deadline,
                "lease_duration": lease_duration,
                "supersede": supersede,
                "reason": reason,
                "request_id": request_id,
                "for_unit": for_unit,
            }
            answer: messages.BeginOperationResponse = self._call("begin_operation", request, timeout)
            return answer

        def acquire_operation(
            self,
            *,
            application: str,
            unit: str,
            operation_id: str,
            namespace: str = "",
            verify: bool = False,
            payload_state: messages.PayloadState = "PAYLOAD_STATE_UNSPECIFIED",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.AcquireOperationResponse:
            """Acquires an operation without a holder: RUNNING with the next fence, or VERIFYING if the
            new holder must first check how far the previous one came. OPERATION_HELD (ABORTED, with
            RetryInfo) while a unit holds it; OPERATION_STATE with RetryInfo before its next attempt
            is due. A payload that differs from the recorded one: OPERATION_STATE, and the operation
            becomes BLOCKED or ABANDONED.
            """
            request = {
                "application": application,
                "unit": unit,
                "operation_id": operation_id,
                "namespace": namespace,
                "verify": verify,
                "payload_state": payload_state,
                "request_id": request_id,
            }
            answer: messages.AcquireOperationResponse = self._call(
                "acquire_operation", request, timeout
            )
            return answer

        def heartbeat_operation(
            self,
            *,
            application: str,
            operation_id: str,
            fence: int,
            namespace: str = "",
            unit: str = "",
            checkpoint: Optional[bytes] = None,
            progress: Optional[str] = None,
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.HeartbeatOperationResponse:
            """Renews the lease, and stores the checkpoint. STALE_FENCE (ABORTED): stop working. Further
            errors: VALUE_TOO_LARGE, MESSAGE_TOO_LONG (INVALID_ARGUMENT).
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "fence": fence,
                "namespace": namespace,
                "unit": unit,
                "checkpoint": checkpoint,
                "progress": progress,
                "request_id": request_id,
            }
            answer: messages.HeartbeatOperationResponse = self._call(
                "heartbeat_operation", request, timeout
            )
            return answer

        def release_operation(
            self,
            *,
            application: str,
            operation_id: str,
            fence: int,
            namespace: str = "",
            unit: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.ReleaseOperationResponse:
            """Reports that the holder stopped on purpose: INTERRUPTED, and nothing is counted. A
            cancelled operation becomes ABANDONED. Call it only after the work has stopped.
            STALE_FENCE (ABORTED).
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "fence": fence,
                "namespace": namespace,
                "unit": unit,
                "request_id": request_id,
            }
            answer: messages.ReleaseOperationResponse = self._call(
                "release_operation", request, timeout
            )
            return answer

        def complete_operation(
            self,
            *,
            application: str,
            operation_id: str,
            fence: int,
            namespace: str = "",
            unit: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.CompleteOperationResponse:
            """Reports that the work is done: SUCCEEDED. Also accepted after the lease or the deadline
            has passed, if no other unit acquired the operation. STALE_FENCE (ABORTED).
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "fence": fence,
                "namespace": namespace,
                "unit": unit,
                "request_id": request_id,
            }
            answer: messages.CompleteOperationResponse = self._call(
                "complete_operation", request, timeout
            )
            return answer

        def fail_operation(
            self,
            *,
            application: str,
            operation_id: str,
            fence: int,
            error: Optional[messages.ErrorReportInput],
            namespace: str = "",
            unit: str = "",
            touched: bool = False,
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.FailOperationResponse:
            """Reports that an attempt failed. The class of the error determines the new state:
            RETRY_WAIT, BLOCKED or FAILED; class INTERRUPTED acts as a release. STALE_FENCE
            (ABORTED). Further errors: MESSAGE_TOO_LONG (INVALID_ARGUMENT).
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "fence": fence,
                "error": error,
                "namespace": namespace,
                "unit": unit,
                "touched": touched,
                "request_id": request_id,
            }
            answer: messages.FailOperationResponse = self._call("fail_operation", request, timeout)
            return answer

        def verify_operation(
            self,
            *,
            application: str,
            operation_id: str,
            fence: int,
            observed: messages.Observed,
            namespace: str = "",
            unit: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.VerifyOperationResponse:
            """Reports how far the previous holder of a VERIFYING operation came. STALE_FENCE (ABORTED).
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "fence": fence,
                "observed": observed,
                "namespace": namespace,
                "unit": unit,
                "request_id": request_id,
            }
            answer: messages.VerifyOperationResponse = self._call("verify_operation", request, timeout)
            return answer

        def cancel_operation(
            self,
            *,
            application: str,
            operation_id: str,
            namespace: str = "",
            unit: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.CancelOperationResponse:
            """Gives the operation up, for operators: CANCELLING until the holder has stopped or its
            lease has expired; without a holder ABANDONED immediately. Also accepts a FAILED
            operation: the application then no longer shows it.
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "namespace": namespace,
                "unit": unit,
                "request_id": request_id,
            }
            answer: messages.CancelOperationResponse = self._call("cancel_operation", request, timeout)
            return answer

        def retry_operation(
            self,
            *,
            application: str,
            operation_id: str,
            namespace: str = "",
            unit: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.RetryOperationResponse:
            """Continues a BLOCKED or FAILED operation, for operators: READY, with new counters, and
            with a new deadline if the old one has passed. Refused after a cancel. OPERATION_HELD or
            RESUME_FIRST if another operation has begun since.
            """
            request = {
                "application": application,
                "operation_id": operation_id,
                "namespace": namespace,
                "unit": unit,
                "request_id": request_id,
            }
            answer: messages.RetryOperationResponse = self._call("retry_operation", request, timeout)
            return answer

        def get_operation(
            self,
            *,
            application: str,
            operation_id: str,
            namespace: str = "",
            min_revision: int = 0,
            timeout: Optional[float] = None,
        ) -> messages.GetOperationResponse:
            """Returns one operation with its payload."""
            request = {
                "application": application,
                "operation_id": operation_id,
                "namespace": namespace,
                "min_revision": min_revision,
            }
            answer: messages.GetOperationResponse = self._call("get_operation", request, timeout)
            return answer

        def list_operations(
            self,
            *,
            application: str,
            namespace: str = "",
            states: Optional[Sequence[messages.OperationState]] = None,
            page_size: int = 0,
            page_token: str = "",
            min_revision: int = 0,
            unit: Optional[str] = None,
            timeout: Optional[float] = None,
        ) -> messages.ListOperationsResponse:
            """Lists the operations of an application, the latest first; without payloads and
            checkpoints. Further errors: APPLICATION_NOT_FOUND (NOT_FOUND), INVALID_PAGE_TOKEN
            (INVALID_ARGUMENT).
            """
            request = {
                "application": application,
                "namespace": namespace,
                "states": states,
                "page_size": page_size,
                "page_token": page_token,
                "min_revision": min_revision,
                "unit": unit,
            }
            answer: messages.ListOperationsResponse = self._call("list_operations", request, timeout)
            return answer

        def report_status(
            self,
            *,
            application: str,
            unit: str,
            status: Optional[messages.StatusReportInput],
            namespace: str = "",
            incarnation: Optional[int] = None,
            request_id: str = "",
            cut_long_texts: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.ReportStatusResponse:
            """Sets one status. Further errors: UNKNOWN_LEVEL, MESSAGE_TOO_LONG (INVALID_ARGUMENT)."""
            request = {
                "application": application,
                "unit": unit,
                "status": status,
                "namespace": namespace,
                "incarnation": incarnation,
                "request_id": request_id,
                "cut_long_texts": cut_long_texts,
            }
            answer: messages.ReportStatusResponse = self._call("report_status", request, timeout)
            return answer

        def replace_statuses(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            incarnation: Optional[int] = None,
            component: Optional[str] = None,
            statuses: Optional[Sequence[messages.StatusReportInput]] = None,
            request_id: str = "",
            cut_long_texts: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.ReplaceStatusesResponse:
            """Replaces the whole pull set of a unit, or of one of its components: statuses that are
            missing in the set are removed. Push statuses stay. Further errors: UNKNOWN_LEVEL,
            MESSAGE_TOO_LONG (INVALID_ARGUMENT).
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "incarnation": incarnation,
                "component": component,
                "statuses": statuses,
                "request_id": request_id,
                "cut_long_texts": cut_long_texts,
            }
            answer: messages.ReplaceStatusesResponse = self._call("replace_statuses", request, timeout)
            return answer

        def clear_status(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            incarnation: Optional[int] = None,
            component: Optional[str] = None,
            key: Optional[str] = None,
            kind: messages.StatusKind = "STATUS_KIND_UNSPECIFIED",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.ClearStatusResponse:
            """Removes statuses. Clearing statuses that do not exist succeeds, and is no sign of life of
            the unit. Further errors: APPLICATION_NOT_FOUND, UNIT_NOT_FOUND (NOT_FOUND).
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "incarnation": incarnation,
                "component": component,
                "key": key,
                "kind": kind,
                "request_id": request_id,
            }
            answer: messages.ClearStatusResponse = self._call("clear_status", request, timeout)
            return answer

        def report_error(
            self,
            *,
            application: str,
            unit: str,
            error: Optional[messages.ErrorReportInput],
            namespace: str = "",
            incarnation: Optional[int] = None,
            request_id: str = "",
            cut_long_texts: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.ReportErrorResponse:
            """Reports an error, and returns the next step of the worker. One fault is open for each
            (unit, component, target) until it is resolved; its class and the thresholds determine
            what it contributes to the status of the application. Further errors: MESSAGE_TOO_LONG
            (INVALID_ARGUMENT).
            """
            request = {
                "application": application,
                "unit": unit,
                "error": error,
                "namespace": namespace,
                "incarnation": incarnation,
                "request_id": request_id,
                "cut_long_texts": cut_long_texts,
            }
            answer: messages.ReportErrorResponse = self._call("report_error", request, timeout)
            return answer

        def resolve_error(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            incarnation: Optional[int] = None,
            component: str = "",
            target: Optional[str] = None,
            generation: str = "",
            request_id: str = "",
            all_components: bool = False,
            timeout: Optional[float] = None,
        ) -> messages.ResolveErrorResponse:
            """Reports that a failed call works again. Resolving an error that is not open succeeds, and
            is no sign of life of the unit; the unit and the application need not exist.
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "incarnation": incarnation,
                "component": component,
                "target": target,
                "generation": generation,
                "request_id": request_id,
                "all_components": all_components,
            }
            answer: messages.ResolveErrorResponse = self._call("resolve_error", request, timeout)
            return answer

        def get_server_info(
            self,
            *,
            timeout: Optional[float] = None,
        ) -> messages.GetServerInfoResponse:
            """Returns version, store, limits and features of the server that answers. Behind a load
            balancer each call may reach another replica.
            """
            answer: messages.GetServerInfoResponse = self._call("get_server_info", {}, timeout)
            return answer

        def register_unit(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            previous_incarnation: Optional[int] = None,
            ttl: Optional[float] = None,
            stateless: bool = False,
            labels: Optional[Mapping[str, str]] = None,
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.RegisterUnitResponse:
            """Starts a new incarnation of a unit or continues one, for workers without a stream."""
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "previous_incarnation": previous_incarnation,
                "ttl": ttl,
                "stateless": stateless,
                "labels": labels,
                "request_id": request_id,
            }
            answer: messages.RegisterUnitResponse = self._call("register_unit", request, timeout)
            return answer

        def announce_stop(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            incarnation: Optional[int] = None,
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.AnnounceStopResponse:
            """Announces that the worker of a unit is about to stop, for workers without a stream. What
            the unit reports from now on, statuses and errors alike, is shown as usual and ends with
            this incarnation: it does not pass to a successor, and the next incarnation does not get
            it as `retained`. RegisterUnit without `previous_incarnation`, or a session with a new
            incarnation, ends the announcement. A repeat changes nothing. Further errors:
            APPLICATION_NOT_FOUND, UNIT_NOT_FOUND (NOT_FOUND).
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "incarnation": incarnation,
                "request_id": request_id,
            }
            answer: messages.AnnounceStopResponse = self._call("announce_stop", request, timeout)
            return answer

        def request_callback(
            self,
            *,
            application: str,
            unit: str,
            namespace: str = "",
            incarnation: Optional[int] = None,
            component: str = "",
            key: str = "",
            after: Optional[float] = None,
            reason: str = "",
            request_id: str = "",
            timeout: Optional[float] = None,
        ) -> messages.RequestCallbackResponse:
            """Requests a callback of a unit, replaces it, or cancels it. When its time has come, the
            session of the unit gets `callback_due`, and so does each later session, until the
            callback is cancelled or replaced. A callback outlives sessions, incarnations and
            servers, and ends with its unit. The time counts on while no server is up. Cancelling
            what is not there changes nothing. A unit has at most 1,024 of them, besides the retries
            that the server plans: LIMIT_EXCEEDED (`callbacks_per_unit_max`).
            """
            request = {
                "application": application,
                "unit": unit,
                "namespace": namespace,
                "incarnation": incarnation,
                "component": component,
                "key": key,
                "after": after,
                "reason": reason,
                "request_id": request_id,
            }
            answer: messages.RequestCallbackResponse = self._call("request_callback", request, timeout)
            return answer
    return locals()


_add("_methods", _define_methods)


def _define_watch():
    """Watches that continue across lost connections and restarts of the server.

    A reader that applies the events has a correct copy: the bookmarks of the server have a digest of
    what is watched, and a copy that differs is replaced by a new snapshot.
    """


    import struct
    import time

    pass
    Deadline = _transport.Deadline


    #: Silence after which a connection counts as lost.
    SILENCE_MAX = 20.0
    FIRST_PAUSE = 0.1
    PAUSE_MAX = 5.0
    #: How often in a row a token is sent again to a server that is behind it, 5 s each.
    BEHIND_MAX = 3
    #: Pause before a snapshot from a server that cannot resume the watch.
    FRESH_START = 0.05
    MESSAGE_BYTES_MAX = 64 * 1024 * 1024
    PASSING = (
        errors.Unavailable,
        errors.ResourceExhausted,
        errors.Aborted,
        errors.DeadlineExceeded,
        errors.Canceled,
        errors.Unknown,
        errors.Internal,
    )


    class Event:
        """An event of a watch. `kind` is one of:

        - `upserted`: `application` is the newest state, `units` its units if they were asked for; after
          `disconnected` a state may come again
        - `removed`: the application `namespace`/`name` was deleted or has left the filter
        - `current`: the copy is complete: after the snapshot, and again after `disconnected`
        - `bookmark`: the digest of the server agrees with the copy
        - `disconnected`: `error` is the cause; the next step waits for `pause` seconds and reconnects
        - `data`: `app_data` has all data of the watched application (`Client.watch_app_data`)
        """

        __slots__ = ("kind", "namespace", "name", "application", "units", "error", "pause", "app_data")

        def __init__(
            self,
            kind: str,
            namespace: str = "",
            name: str = "",
            application: Optional[messages.Application] = None,
            units: Optional[List[messages.Unit]] = None,
            error: Optional[errors.Error] = None,
            pause: float = 0.0,
            app_data: Optional[messages.AppData] = None,
        ) -> None:
            self.kind = kind
            self.namespace = namespace
            self.name = name
            self.application = application
            self.units: List[messages.Unit] = units or []
            self.error = error
            self.pause = pause
            self.app_data = app_data

        def __repr__(self) -> str:
            shown = "{}/{}".format(self.namespace, self.name) if self.name else self.error or ""
            return "<Event {} {}>".format(self.kind, shown)


    class Watch:
        """The iterator of `Client.watch`, for one thread; `close` may be called from any."""

        _path = "/bellwether.v1.ApplicationService/WatchApplications"
        _message = "WatchApplications"

        def __init__(self, client: Client, request: Dict[str, Any]) -> None:
            self._client = client
            self._request = request
            self._token = ""
            self._connection: Optional[Connection] = None
            self._response: Optional[http.client.HTTPResponse] = None
            self._copy = Copy()
            self._copy.begin_snapshot(False)
            self._epoch = ""
            self._is_current = False
            self._failures = 0
            self._behind = 0
            self._start = 0.0
            self._events: List[Event] = []
            self._closed = False

        def __iter__(self) -> Watch:
            return self

        def __enter__(self) -> Watch:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            """Ends the watch. A read of another thread ends with StopIteration."""
            self._closed = True
            connection = self._connection
            if connection is not None:
                connection.interrupt()

        def __next__(self) -> Event:
            """Returns the next event. Raises only errors that a new connection cannot heal."""
            while not self._events:
                if self._closed:
                    self._hang_up()
                    raise StopIteration
                try:
                    self._step()
                except errors.OutOfRange as error:
                    if error.reason != "RESUME_TOKEN_EXPIRED":
                        raise
                    self._behind += 1
                    if error.metadata.get("cause") == "behind" and self._behind <= BEHIND_MAX:
                        # Another server, or this one later, has what the token covers.
                        pause = self._disconnect(error.retry_after)
                        self._events.append(Event("disconnected", error=error, pause=pause))
                    else:
                        self._start_over(FRESH_START)
                except errors.Error as error:
                    self._hang_up()
                    if self._closed:
                        continue
                    if not isinstance(error, PASSING) and error.reason != "CREDENTIALS_EXPIRED":
                        raise
                    pause = self._disconnect(error.retry_after)
                    self._events.append(Event("disconnected", error=error, pause=pause))
            return self._events.pop(0)

        def _step(self) -> None:
            if self._response is None:
                self._open()
                return
            message = self._read()
            if message is None:
                self._disconnect(None)
            else:
                self._take(_codec.decode(self._message + "Response", message))

        def _open(self) -> None:
            import json

            wait = self._start - time.monotonic()
            while wait > 0 and not self._closed:
                time.sleep(min(wait, 0.1))
                wait = self._start - time.monotonic()
            if self._closed:
                return
            request = dict(self._request, resume_token=self._token) if self._token else self._request
            body = json.dumps(_codec.encode(self._message + "Request", request)).encode("utf-8")
            headers = self._client._headers("application/connect+json")
            deadline = Deadline(SILENCE_MAX)
            self._connection = self._client._connection()
            self._connection.open(Deadline(min(SILENCE_MAX, max(self._client.timeout, 1.0))))
            framed = struct.pack(">BI", 0, len(body)) + body
            response = self._connection.send(self._path, framed, headers, deadline)
            if response.status != 200:
                with self._connection.failures(deadline):
                    raise errors.from_status(response.status, response.read())
            self._response = response

        def _read(self) -> Optional[Dict[str, Any]]:
            """Returns one message; None at the end of the stream without an error."""
            import json

            flags, size = struct.unpack(">BI", self._read_exactly(5))
            if size > MESSAGE_BYTES_MAX:
                raise errors.Internal("a message has {} bytes".format(size), reason="INVALID_ANSWER")
            try:
                message = json.loads(self._read_exactly(size).decode("utf-8"))
            except ValueError as error:
                raise errors.Internal("a message is no JSON", reason="INVALID_ANSWER") from error
            if not flags & 2:
                return dict(message)
            if message.get("error"):
                raise errors.from_wire(message["error"])
            return None

        def _read_exactly(self, size: int) -> bytes:
            connection, response = self._connection, self._response
            if connection is None or response is None:
                raise errors.Unreachable("the watch is not connected", reason="UNREACHABLE")
            deadline = Deadline(SILENCE_MAX)
            connection.extend(deadline)
            found = b""
            with connection.failures(deadline):
                while len(found) < size:
                    part = response.read(size - len(found))
                    if not part:
                        raise errors.Unreachable("the stream broke off", reason="UNREACHABLE")
                    found += part
            return found

        def _take(self, message: Dict[str, Any]) -> None:
            self._behind = 0
            epoch = message["store_epoch"]
            if epoch and epoch != self._epoch:
                known_before, self._epoch = bool(self._epoch), epoch
                if known_before:
                    # The store may have lost acknowledged writes: the copy may be newer than it.
                    self._start_over(FRESH_START)
                    return
            self._token = message["resume_token"] or self._token
            if message["upserted"] is not None:
                self._upsert(message["upserted"], message["units"])
            elif message["removed"] is not None:
                self._remove(message["removed"]["namespace"], message["removed"]["name"])
            elif message["snapshot_complete"] is not None:
                for namespace, name in self._copy.end_snapshot():
                    self._events.append(Event("removed", namespace, name))
                self._copy.cover()
                self._send_current()
            elif message["bookmark"] is not None:
                self._compare(message["bookmark"]["digest"])
            elif message["drain"] is not None:
                self._disconnect(message["drain"]["reconnect_after"])

        def _upsert(self, application: Any, units: Any) -> None:
            if self._copy.upsert(application):
                namespace, name = application["namespace"], application["name"]
                self._events.append(Event("upserted", namespace, name, application, units))

        def _remove(self, namespace: str, name: str) -> None:
            if self._copy.remove(namespace, name):
                self._events.append(Event("removed", namespace, name))

        def _compare(self, digest: str) -> None:
            if digest == self._copy.digest():
                # Only a verified copy resets the pause, not a mere answer.
                self._failures = 0
                self._copy.cover()
                self._send_current()
                self._events.append(Event("bookmark"))
            else:
                # A snapshot costs the server much, so repeated differences increase the pause.
                self._start_over(self._pause(None))

        def _send_current(self) -> None:
            if not self._is_current:
                self._is_current = True
                self._events.append(Event("current"))

        def _start_over(self, pause: float) -> None:
            """Starts again with a snapshot, after a pause. The store may have lost what the copy has."""
            self._hang_up()
            self._is_current = False
            self._behind = 0
            self._token = ""
            self._copy.begin_snapshot(True)
            self._start = time.monotonic() + pause

        def _disconnect(self, asked: Optional[float]) -> float:
            pause = self._pause(asked)
            self._hang_up()
            self._is_current = False
            self._start = time.monotonic() + pause
            self._copy.resume()
            if not self._token:
                # The interrupted snapshot starts again.
                self._copy.begin_snapshot(False)
            return pause

        def _pause(self, asked: Optional[float]) -> float:
            _fraction = _client._fraction

            full = min(FIRST_PAUSE * float(1 << min(self._failures, 10)), PAUSE_MAX)
            self._failures += 1
            fraction = _fraction()
            return max(full * (0.5 + fraction / 2), min(asked or 0.0, 3600.0) * (1 + fraction / 4))

        def _hang_up(self) -> None:
            self._response = None
            if self._connection is not None:
                self._connection.close()
                self._connection = None


    class DataWatch(Watch):
        """The iterator of `Client.watch_app_data`: `data` for each new state, and `disconnected`."""

        _path = "/bellwether.v1.AppDataService/WatchAppData"
        _message = "WatchAppData"
        _etag: Optional[str] = None

        def _step(self) -> None:
            try:
                super()._step()
            except errors.DeadlineExceeded:
                if self._response is None:
                    raise
                # Data may stay the same for long. A new connection finds out whether they did.
                self._hang_up()

        def _take(self, message: Dict[str, Any]) -> None:
            if message["drain"] is not None:
                self._disconnect(message["drain"]["reconnect_after"])
            elif message["app_data"] is not None:
                self._failures = 0
                if message["app_data"]["etag"] != self._etag:
                    self._etag = message["app_data"]["etag"]
                    namespace, name = self._request["namespace"], self._request["application"]
                    found = message["app_data"]
                    self._events.append(Event("data", namespace, name, app_data=found))


    class Copy:
        """What the reader has received: revision and level of each application, and their digest."""

        def __init__(self) -> None:
            self._known: Dict[Name, Tuple[int, str]] = {}
            self._sum = 0
            self._unseen: Set[Name] = set()
            # Applications that were received after the resume token.
            self._after_token: Set[Name] = set()

        def upsert(self, application: Any) -> bool:
            """Stores the newest state. Returns False if it was known already."""
            name = (application["namespace"], application["name"])
            status = application["status"]
            level = status["level"] if status else "LEVEL_UNSPECIFIED"
            now = (application["revision"], level)
            self._unseen.discard(name)
            if self._known.get(name) == now:
                return False
            self._forget(name)
            self._store(name, now)
            self._after_token.add(name)
            return True

        def remove(self, namespace: str, name: str) -> bool:
            """Removes an application. Returns False if it was not known."""
            self._unseen.discard((namespace, name))
            return self._forget((namespace, name))

        def cover(self) -> None:
            """Records that the resume token covers everything so far."""
            self._after_token.clear()

        def resume(self) -> None:
            """Prepares for a resume from the token.

            What was received after it may be lost, and the store may have given its revision to another
            state. So an equal revision counts as a change.
            """
            after, self._after_token = self._after_token, set()
            for name in after:
                self._distrust(name)

        def begin_snapshot(self, distrust: bool) -> None:
            """Starts a snapshot. With `distrust`, every application in it counts as changed."""
            self._unseen = set(self._known)
            if distrust:
                for name in self._unseen:
                    self._distrust(name)

        def end_snapshot(self) -> List[Name]:
            """Completes the snapshot: removes and returns what it did not contain."""
            gone, self._unseen = sorted(self._unseen), set()
            for name in gone:
                self._forget(name)
            return gone

        def digest(self) -> str:
            """Returns the digest as `Bookmark.digest` defines it."""
            return "{:016x}".format(self._sum)

        def _distrust(self, name: Name) -> None:
            """Replaces the state of an application by one that no application has."""
            if self._forget(name):
                self._store(name, (0, "LEVEL_UNSPECIFIED"))

        def _store(self, name: Name, state: Tuple[int, str]) -> None:
            self._known[name] = state
            self._sum = (self._sum + _hash(name, state)) % 2**64

        def _forget(self, name: Name) -> bool:
            before = self._known.pop(name, None)
            if before is None:
                return False
            self._sum = (self._sum - _hash(name, before)) % 2**64
            return True


    def _hash(name: Name, state: Tuple[int, str]) -> int:
        level = state[1][len("LEVEL_") :].lower()
        text = "{}/{}@{}={}".format(name[0], name[1], state[0], level)
        value = 0xCBF29CE484222325
        for byte in text.encode("utf-8"):
            value = (value ^ byte) * 0x100000001B3 % 2**64
        return value
    return locals()


_add("_watch", _define_watch)


def _define_client():
    """The client: settings, deadlines and retries of single calls."""


    import os
    import threading
    import time

    pass
    Methods = _methods.Methods
    METHODS = _table.METHODS
    Connection = _transport.Connection
    Deadline = _transport.Deadline


    DEFAULT_ADDRESS = "http://127.0.0.1:50051"
    DEFAULT_PORT = 50051
    FIRST_PAUSE = 0.05
    PAUSE_MAX = 1.0
    #: The server's largest answer is a page of records with texts of at most 4 KiB each.
    ANSWER_BYTES_MAX = 64 * 1024 * 1024
    #: Seconds for which a token is used before its file is read again.
    TOKEN_AGE_MAX = 10.0


    class Client(Methods):
        """A client of one server. Threads may share it; nothing is sent before the first call.

        What is not given comes from BELLWETHER_SERVER, BELLWETHER_TOKEN_FILE, BELLWETHER_CA,
        BELLWETHER_CERT and BELLWETHER_CERT_KEY. `timeout` is for a whole call: name lookup,
        connection, TLS, retries and pauses. `retries` is the number of repeats after an error that
        passes; a mutation is repeated with the same `request_id`, so it is applied once.
        """

        def __init__(
            self,
            address: Optional[str] = None,
            *,
            token: Optional[str] = None,
            token_file: Optional[str] = None,
            ca: Optional[str] = None,
            cert: Optional[str] = None,
            cert_key: Optional[str] = None,
            timeout: float = 2.0,
            retries: int = 4,
        ) -> None:
            given = address or os.environ.get("BELLWETHER_SERVER") or DEFAULT_ADDRESS
            self._is_tls, self._host, self._port = _parse(given)
            self._token = token
            self._token_file = None if token else token_file or _file("BELLWETHER_TOKEN_FILE")
            self._ca = ca or _file("BELLWETHER_CA")
            self._cert = cert or _file("BELLWETHER_CERT")
            self._cert_key = cert_key or _file("BELLWETHER_CERT_KEY")
            self._check()
            self.timeout, self.retries = timeout, retries
            self._lock = threading.Lock()
            self._idle: Optional[Connection] = None
            self._closed = False
            self._token_read: Optional[Tuple[float, str]] = None

        def close(self) -> None:
            """Closes the connection that is kept. Further calls are an error."""
            with self._lock:
                self._closed = True
                connection, self._idle = self._idle, None
            if connection is not None:
                connection.close()

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def watch(
            self,
            *,
            namespace: str = "",
            applications: Sequence[str] = (),
            min_level: messages.Level = "LEVEL_UNSPECIFIED",
            levels: Sequence[messages.Level] = (),
            stable_for: Optional[float] = None,
            include_units: bool = False,
        ) -> Watch:
            """Returns an iterator over the applications and their changes. Never ends by itself."""
            Watch = _watch.Watch

            request = {
                "namespace": namespace,
                "applications": applications,
                "min_level": min_level,
                "levels": levels,
                "stable_for": stable_for,
                "include_units": include_units,
            }
            return Watch(self, request)

        def watch_app_data(self, *, application: str, namespace: str = "") -> Watch:
            """Returns an iterator over the data of an application, which need not exist yet.

            The first event `data` has what is stored now. Never ends by itself.
            """
            DataWatch = _watch.DataWatch

            return DataWatch(self, {"application": application, "namespace": namespace})

        def _call(self, name: str, request: Dict[str, Any], timeout: Optional[float]) -> Any:
            import json

            path, asked, answered, is_read = METHODS[name]
            has_id = "request_id" in request
            if has_id and not request["request_id"]:
                request = dict(request, request_id=os.urandom(16).hex())
            body = json.dumps(_codec.encode(asked, request)).encode("utf-8")
            deadline = Deadline(self.timeout if timeout is None else timeout)
            answer = self._repeat(path, body, deadline, is_read or has_id)
            try:
                return _codec.decode(answered, json.loads(answer.decode("utf-8")))
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                # The cause has bytes of the peer, which a traceback would print.
                raise errors.Internal(
                    "the answer is not a {}: {}".format(answered, error), reason="INVALID_ANSWER"
                ) from None

        def _repeat(self, path: str, body: bytes, deadline: Deadline, may_repeat: bool) -> bytes:
            pause, repeats = FIRST_PAUSE, 0
            last: Optional[errors.Error] = None
            while True:
                attempt = _Attempt()
                try:
                    return self._attempt(path, body, deadline, attempt)
                except errors.TlsFailed:
                    raise
                except errors.Unavailable as error:
                    last = error
                except errors.ResourceExhausted as error:
                    if error.reason != "RATE_LIMITED":
                        raise
                    # The server has refused the call before it did anything.
                    last, attempt.sent = error, False
                except errors.DeadlineExceeded as error:
                    if last is None:
                        raise
                    # The error before says more than the end of the time.
                    raise last from error
                # A call that was not sent can always be sent again.
                if repeats >= self.retries or (attempt.sent and not may_repeat):
                    raise last
                wait = pause * (0.5 + _fraction() / 2)
                wait = max(wait, (last.retry_after or 0.0) * (1 + _fraction() / 4))
                if wait >= deadline.remaining():
                    raise last
                time.sleep(wait)
                pause, repeats = min(2 * pause, PAUSE_MAX), repeats + 1

        def _attempt(self, path: str, body: bytes, deadline: Deadline, attempt: _Attempt) -> bytes:
            headers = self._headers("application/json")
            connection = self._take()
            try:
                if connection is None:
                    connection = self._connection()
                    connection.open(deadline)
                headers.append(("Connect-Timeout-Ms", str(max(1, int(1000 * deadline.remaining())))))
                attempt.sent = True
                response = connection.send(path, body, headers, deadline)
                with connection.failures(deadline):
                    answer = response.read(ANSWER_BYTES_MAX + 1)
                if len(answer) > ANSWER_BYTES_MAX:
                    connection.close()
                    said = "the answer has more than {} bytes".format(ANSWER_BYTES_MAX)
                    raise errors.Internal(said, reason="INVALID_ANSWER")
                if response.status != 200:
                    raise errors.from_status(response.status, answer)
            except errors.Unavailable:
                if connection is not None:
                    connection.close()
                raise
            except errors.Error:
                self._keep(connection)
                raise
            except BaseException:
                if connection is not None:
                    connection.close()
                raise
            self._keep(connection)
            return answer

        def _connection(self) -> Connection:
            return Connection(self._host, self._port, self._tls)

        def _take(self) -> Optional[Connection]:
            with self._lock:
                if self._closed:
                    raise ValueError("the client is closed")
                connection, self._idle = self._idle, None
            if connection is not None and not connection.is_usable():
                connection.close()
                return None
            return connection

        def _keep(self, connection: Optional[Connection]) -> None:
            """Keeps one connection for the next call; those of other threads at the time are closed."""
            if connection is None or not connection.is_usable():
                spare = connection
            else:
                with self._lock:
                    spare = connection
                    if self._idle is None and not self._closed:
                        self._idle, spare = connection, None
            if spare is not None:
                spare.close()

        def _headers(self, content_type: str) -> List[Tuple[str, str]]:
            headers = [("Content-Type", content_type), ("Connect-Protocol-Version", "1")]
            token = self._token or self._token_from_file()
            if token:
                headers.append(("Authorization", "Bearer " + token))
            return headers

        def _token_from_file(self) -> str:
            if self._token_file is None:
                return ""
            held = self._token_read
            if held is not None and time.monotonic() - held[0] < TOKEN_AGE_MAX:
                return held[1]
            try:
                with open(self._token_file, encoding="utf-8") as file:
                    token = file.read().strip()
            except (OSError, ValueError) as error:
                message = "cannot read the token: {}".format(error)
                raise errors.Unauthenticated(message, reason="CREDENTIALS_MISSING") from error
            self._token_read = (time.monotonic(), token)
            return token

        def _tls(self) -> Optional[ssl.SSLContext]:
            """Reads the files for each connection, because they may be replaced at any time."""
            if not self._is_tls:
                return None
            import ssl

            try:
                context = ssl.create_default_context(cafile=self._ca)
                context.set_alpn_protocols(["http/1.1"])
                if self._cert is not None:
                    context.load_cert_chain(self._cert, self._cert_key)
            except OSError as error:
                message = "the certificates cannot be used: {}".format(error)
                raise errors.TlsFailed(message, reason="TLS_FAILED") from error
            return context

        def _check(self) -> None:
            if (self._cert is None) != (self._cert_key is None):
                raise ValueError("a certificate and its key belong together")
            if self._is_tls:
                return
            if self._cert or self._ca:
                raise ValueError("certificates need an https address")
            if (self._token or self._token_file) and not _is_local(self._host):
                raise ValueError("the token would be readable on the network; use https")


    class _Attempt:
        """Whether the server may have received the request."""

        sent = False


    def _parse(address: str) -> Tuple[bool, str, int]:
        scheme, separator, rest = address.rpartition("://")
        if separator and scheme not in ("http", "https"):
            raise ValueError("{!r} is neither http nor https".format(address))
        rest = rest.rstrip("/")
        host, colon, port = rest.rpartition(":")
        if not colon or rest.endswith("]"):
            host, port = rest, str(DEFAULT_PORT)
        if not host or not port.isdigit() or not 0 < int(port) < 65536 or set("/@?# ") & set(host):
            raise ValueError("{!r} is not an address as http://HOST:PORT".format(address))
        return scheme == "https", host.strip("[]"), int(port)


    def _file(variable: str) -> Optional[str]:
        return os.environ.get(variable) or None


    def _is_local(host: str) -> bool:
        if host == "localhost":
            return True
        import ipaddress

        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False


    def _fraction() -> float:
        """Returns a number from 0 to 1, so that the clients of a server do not repeat at once."""
        return int.from_bytes(os.urandom(4), "big") / float(2**32)
    return locals()


_add("_client", _define_client)


def _define_log():
    """A log that fails no hook: `juju-log` is a program, and an argument of a program has no NUL."""


    import logging

    pass


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
    return locals()


_add("_log", _define_log)


def _define_state():
    """What a unit remembers between its hooks: a JSON file with the calls that wait, and a journal."""


    import json
    import os
    import time

    Log = _log.Log


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
    return locals()


_add("_state", _define_state)


def _define_classes():
    """The rows by which errors are classified, as the server has them."""

    # Made by `UPDATE=1 cargo test --lib the_python_package_has` from
    # src/domain/classify/tables; change the tables instead.
    #: Tables with an empty line between. The first line of a table has its systems, the
    #: domains of reasons, packages of Python, and systems whose texts it explains. A row
    #: has its class, with - if it does not hold; conditions; codes; texts; reasons.
    TABLES = (
        "grpc~~~\n"
        "TRANSIENT~~UNIMPLEMENTED 12~code received from server: 404|unexpected "
        "content-type|malformed header: missing http content-type~\n"
        "TRANSIENT~~UNIMPLEMENTED 12~http status code 404|http2 header with status: 404~\n"
        "TRANSIENT~~~code received from server: 50|code received from server: 429|http status code "
        "50|http status code 429|http2 header with status: 50|http2 header with status: 429~\n"
        "TRANSIENT~~~upstream connect error or disconnect|no healthy upstream|upstream request "
        "timeout|upstream max stream duration reached~\n"
        "FATAL~~~larger than max|message length too large|a size larger than|message exceeds maximum "
        "size|request is too large~\n"
        "THROTTLED~~~bandwidth exhausted|enhance_your_calm|too_many_pings~\n"
        "TRANSIENT~~INTERNAL 13 UNKNOWN 2~rst_stream|stream terminated by|goaway|connection "
        "reset|broken pipe|unexpected eof|error reading from server|h2 protocol error|transport "
        "error~\n"
        "TRANSIENT~~UNKNOWN 2~transport is closing|keepalive ping|connection error|connection "
        "refused|connection closed|no such host|i/o timeout|dns error~\n"
        "BLOCKED~~UNAVAILABLE 14~certificate signed by unknown authority|certificate has "
        "expired|certificate is not valid|certificate is valid for|certificate verify "
        "failed|certificate_verify_failed|unknownissuer|certificate required|bad certificate~\n"
        "INTERRUPTED~OWN_SHUTDOWN~CANCELLED 1 CANCELED~~\n"
        "TRANSIENT~~CANCELLED 1 CANCELED~~\n"
        "UNCLASSIFIED~~UNKNOWN 2~~\n"
        "FATAL~OUR_INPUT~INVALID_ARGUMENT 3~~\n"
        "BLOCKED~USER_INPUT~INVALID_ARGUMENT 3~~\n"
        "BLOCKED-~~INVALID_ARGUMENT 3~~\n"
        "TRANSIENT~~DEADLINE_EXCEEDED 4~~\n"
        "GONE~GONE~NOT_FOUND 5~~\n"
        "DEPENDENCY~~NOT_FOUND 5~~\n"
        "CONFLICT~~ALREADY_EXISTS 6~~\n"
        "BLOCKED~~PERMISSION_DENIED 7~~\n"
        "BLOCKED~~UNAUTHENTICATED 16~~\n"
        "FATAL~OWN_REQUEST~RESOURCE_EXHAUSTED 8~~\n"
        "BLOCKED~QUOTA~RESOURCE_EXHAUSTED 8~~\n"
        "THROTTLED~~RESOURCE_EXHAUSTED 8~~\n"
        "DEPENDENCY~MACHINE_RESOLVABLE~FAILED_PRECONDITION 9~~\n"
        "BLOCKED~PERSON_RESOLVABLE~FAILED_PRECONDITION 9~~\n"
        "BLOCKED-~~FAILED_PRECONDITION 9~~\n"
        "TRANSIENT~TRANSPORT~ABORTED 10~~\n"
        "CONFLICT~~ABORTED 10~~\n"
        "TRANSIENT~LOCAL~OUT_OF_RANGE 11~~\n"
        "CONFLICT~~OUT_OF_RANGE 11~~\n"
        "BLOCKED-~~UNIMPLEMENTED 12~~\n"
        "UNCLASSIFIED~~INTERNAL 13~~\n"
        "TRANSIENT~~UNAVAILABLE 14~~\n"
        "FATAL~~DATA_LOSS 15~~\n"
        "\n"
        "http~~~\n"
        "TRANSIENT~~connect_refused~~\n"
        "TRANSIENT~~connection_reset~~\n"
        "TRANSIENT~~dns~~\n"
        "TRANSIENT~~tls_handshake~~\n"
        "FATAL~OUR_INPUT~400~~\n"
        "BLOCKED~USER_INPUT~400~~\n"
        "BLOCKED-~~400~~\n"
        "BLOCKED~~401~~\n"
        "BLOCKED~~403~~\n"
        "GONE~GONE~404~~\n"
        "DEPENDENCY~~404~~\n"
        "TRANSIENT~~408~~\n"
        "CONFLICT~~409~~\n"
        "GONE~GONE~410~~\n"
        "CONFLICT~~410~~\n"
        "CONFLICT~~412~~\n"
        "FATAL~OUR_INPUT~422~~\n"
        "BLOCKED~USER_INPUT~422~~\n"
        "BLOCKED-~~422~~\n"
        "TRANSIENT~~425~~\n"
        "THROTTLED~~429~~\n"
        "UNCLASSIFIED~~500~~\n"
        "BLOCKED-~~501~~\n"
        "TRANSIENT~~502~~\n"
        "THROTTLED~~503~~*CHANNEL_FULL\n"
        "TRANSIENT~~503~~\n"
        "TRANSIENT~~504~~\n"
        "BLOCKED-~~505~~\n"
        "BLOCKED~QUOTA~507~~\n"
        "DEPENDENCY~~507~~\n"
        "BLOCKED~~402~~\n"
        "FATAL~OUR_INPUT~405~~\n"
        "BLOCKED-~~405~~\n"
        "BLOCKED-~~406~~\n"
        "BLOCKED~~407~~\n"
        "FATAL~OUR_INPUT~411~~\n"
        "BLOCKED-~~411~~\n"
        "FATAL~OUR_INPUT~413~~\n"
        "BLOCKED-~~413~~\n"
        "BLOCKED-~~414~~\n"
        "BLOCKED-~~415~~\n"
        "CONFLICT~~416~~\n"
        "BLOCKED-~~417~~\n"
        "TRANSIENT~~421~~\n"
        "CONFLICT~~423~~\n"
        "DEPENDENCY~~424~~\n"
        "BLOCKED-~~426~~\n"
        "CONFLICT~~428~~\n"
        "BLOCKED-~~431~~\n"
        "BLOCKED~~451~~\n"
        "THROTTLED~~420~~\n"
        "BLOCKED~~419~~\n"
        "THROTTLED~~509 529~~\n"
        "BLOCKED~~440~~\n"
        "TRANSIENT~~444 499~~\n"
        "TRANSIENT~~460~~\n"
        "BLOCKED~~495 496~~\n"
        "BLOCKED~~497~~\n"
        "BLOCKED-~~494~~\n"
        "BLOCKED-~~463~~\n"
        "UNCLASSIFIED~~506 508~~\n"
        "BLOCKED-~~510~~\n"
        "BLOCKED~~511~~\n"
        "TRANSIENT~~520 521 522 523 524 530~~\n"
        "BLOCKED-~~561~~\n"
        "BLOCKED-~~525 526~~\n"
        "TRANSIENT~~599~~\n"
        "UNCLASSIFIED~~300 301 302 303 304 305 307 308~~\n"
        "UNCLASSIFIED~~100 101 102 103 200 201 202 203 204 205 206 207 208 226~~\n"
        "\n"
        "redis valkey~~redis valkey aioredis coredis~\n"
        "THROTTLED~~~max number of clients~\n"
        "BLOCKED~~~protected mode~\n"
        "BLOCKED~~~invalid password|invalid username-password pair|without any password "
        "configured|authentication required~\n"
        "BLOCKED~~~operation not permitted|no permissions to~\n"
        "BLOCKED-~~ERR~unknown command|unknown subcommand|unsupported option|not supported~\n"
        "TRANSIENT~~ERR~failover|loading|background save|shutting down|try again|link with master~\n"
        "DEPENDENCY~~ERR~no such key|no such master|no such master with that name~\n"
        "BLOCKED-~~ERR~syntax error|wrong number of arguments|invalid|is not an integer|out of "
        "range|not a valid|must be|not a float|index out of range~\n"
        "TRANSIENT~~connection_lost~~\n"
        "TRANSIENT~~LOADING~~\n"
        "TRANSIENT~~CLUSTERDOWN~~\n"
        "TRANSIENT~~READONLY~~\n"
        "TRANSIENT~~MASTERDOWN~~\n"
        "TRANSIENT~~TRYAGAIN~~\n"
        "BLOCKED~~OOM~~\n"
        "BLOCKED~~NOAUTH~~\n"
        "BLOCKED~~NOPERM~~\n"
        "FATAL~~WRONGTYPE~~\n"
        "BLOCKED~~WRONGPASS~~\n"
        "BLOCKED~~DENIED~~\n"
        "TRANSIENT~~NOREPLICAS~~\n"
        "TRANSIENT~~NOQUORUM NOGOODSLAVE INPROG~~\n"
        "TRANSIENT~~MOVED ASK CROSSSLOT_MOVED~~\n"
        "TRANSIENT~~NOMASTERLINK~~\n"
        "TRANSIENT~~BUSY~~\n"
        "CONFLICT~~NOTBUSY~~\n"
        "TRANSIENT~~UNKILLABLE~~\n"
        "TRANSIENT~~UNBLOCKED~~\n"
        "CONFLICT~~NOSCRIPT NOTREADY~~\n"
        "UNCLASSIFIED~~EXECABORT~~\n"
        "TRANSIENT~~IOERR~~\n"
        "BLOCKED-~~MISCONF~~\n"
        "CONFLICT~~BUSYGROUP BUSYKEY~~\n"
        "DEPENDENCY~~NOGROUP NOKEY UNKNOWN~~\n"
        "FATAL~~CROSSSLOT~~\n"
        "BLOCKED-~~NOPROTO~~\n"
        "FATAL~~INVALIDOBJ TESTFAILED~~\n"
        "UNCLASSIFIED~~ERR~~\n"
        "\n"
        "postgresql postgres sqlstate~postgresql~psycopg psycopg2 asyncpg pg8000~\n"
        "BLOCKED~~~password authentication failed|no pg_hba.conf entry|authentication failed for "
        "user|role \"\u2026\" does not exist|is not permitted to log in|no password supplied|must be "
        "superuser|permission denied for~\n"
        "BLOCKED~~~certificate verify failed|root certificate file|server certificate "
        "for|certificate has expired~\n"
        "DEPENDENCY~~~database \"\u2026\" does not exist~\n"
        "THROTTLED~~~too many clients already|remaining connection slots are reserved|too many "
        "connections for|no more connections allowed~\n"
        "TRANSIENT~~~the database system is|not yet accepting connections|terminating "
        "connection|cannot accept connections|pgbouncer cannot connect|server login failed~\n"
        "TRANSIENT~~~connection refused|could not connect to server|connection to server|server "
        "closed the connection|could not translate host name|could not receive data|could not send "
        "data|connection timed out|timeout expired|no route to host|connection reset|ssl connection "
        "has been closed|ssl syscall error|connection already closed|consuming input failed~\n"
        "UNCLASSIFIED~~00000 successful_completion 01000 warning 0100C dynamic_result_sets_returned "
        "01008 implicit_zero_bit_padding 01003 null_value_eliminated_in_set_function 01007 "
        "privilege_not_granted 01006 privilege_not_revoked 01004 string_data_right_truncation 01P01 "
        "deprecated_feature 02000 no_data 02001 no_additional_dynamic_result_sets_returned 03000 "
        "sql_statement_not_yet_complete~~\n"
        "TRANSIENT~~08000 connection_exception 08003 connection_does_not_exist 08006 "
        "connection_failure 08001 sqlclient_unable_to_establish_sqlconnection 08004 "
        "sqlserver_rejected_establishment_of_sqlconnection 08007 transaction_resolution_unknown~~\n"
        "UNCLASSIFIED~~08P01 protocol_violation~~\n"
        "TRANSIENT~~25006 read_only_sql_transaction~~\n"
        "TRANSIENT~~25P01 no_active_sql_transaction 25P02 in_failed_sql_transaction 25P03 "
        "idle_in_transaction_session_timeout 24000 invalid_cursor_state 26000 "
        "invalid_sql_statement_name undefined_pstatement 34000 invalid_cursor_name undefined_cursor "
        "2D000 invalid_transaction_termination 0B000 invalid_transaction_initiation 3B000 "
        "savepoint_exception 3B001 invalid_specification~~\n"
        "UNCLASSIFIED~~25000 invalid_transaction_state 25001 active_sql_transaction 25002 "
        "branch_transaction_already_active 25008 held_cursor_requires_same_isolation_level 25003 "
        "inappropriate_access_mode_for_branch_transaction 25004 "
        "inappropriate_isolation_level_for_branch_transaction 25005 "
        "no_active_sql_transaction_for_branch_transaction 25007 "
        "schema_and_data_statement_mixing_not_supported~~\n"
        "CONFLICT~~23505 unique_violation 23503 foreign_key_violation 23001 restrict_violation 23P01 "
        "exclusion_violation~~\n"
        "BLOCKED-~~23000 integrity_constraint_violation 23502 not_null_violation 23514 "
        "check_violation 44000 with_check_option_violation 27000 triggered_data_change_violation~~\n"
        "BLOCKED~~28000 invalid_authorization_specification 28P01 invalid_password~~\n"
        "BLOCKED~~42501 insufficient_privilege 0L000 invalid_grantor 0LP01 invalid_grant_operation "
        "0P000 invalid_role_specification 2F002 modifying_sql_data_not_permitted 2F004 "
        "reading_sql_data_not_permitted~~\n"
        "DEPENDENCY~~3D000 invalid_catalog_name undefined_database 3F000 invalid_schema_name "
        "undefined_schema 42P01 undefined_table 42703 undefined_column 42704 undefined_object 42883 "
        "undefined_function 57P04 database_dropped~~\n"
        "CONFLICT~~42P04 duplicate_database 42P06 duplicate_schema 42P07 duplicate_table 42710 "
        "duplicate_object 42723 duplicate_function 42P03 duplicate_cursor 42P05 "
        "duplicate_pstatement~~\n"
        "CONFLICT~~40000 transaction_rollback 40002 40001 serialization_failure 40P01 "
        "deadlock_detected 72000 snapshot_too_old~~\n"
        "TRANSIENT~~40003 statement_completion_unknown~~\n"
        "CONFLICT~~55P03 lock_not_available 55006 object_in_use F0001 lock_file_exists~~\n"
        "DEPENDENCY~~55000 object_not_in_prerequisite_state 55P04 unsafe_new_enum_value_usage~~\n"
        "BLOCKED~~55P02 cant_change_runtime_param 53400 configuration_limit_exceeded F0000 "
        "config_file_error~~\n"
        "BLOCKED~~53100 disk_full~~\n"
        "THROTTLED~~53300 too_many_connections~~\n"
        "TRANSIENT~~53000 insufficient_resources 53200 out_of_memory~~\n"
        "TRANSIENT~~57P01 admin_shutdown 57P02 crash_shutdown 57P03 cannot_connect_now 57P05 "
        "idle_session_timeout~~\n"
        "TRANSIENT~~57014 query_canceled 57000 operator_intervention~~\n"
        "BLOCKED-~~54000 program_limit_exceeded 54001 statement_too_complex 54011 too_many_columns "
        "54023 too_many_arguments~~\n"
        "BLOCKED-~~2B000 dependent_privilege_descriptors_still_exist 2BP01 "
        "dependent_objects_still_exist~~\n"
        "DEPENDENCY~~58P01 undefined_file~~\n"
        "CONFLICT~~58P02 duplicate_file~~\n"
        "UNCLASSIFIED~~58000 system_error 58030 io_error~~\n"
        "BLOCKED-~~0A000 feature_not_supported~~\n"
        "TRANSIENT~~HV00N fdw_unable_to_establish_connection HV00L fdw_unable_to_create_execution "
        "HV00M fdw_unable_to_create_reply HV001 fdw_out_of_memory~~\n"
        "DEPENDENCY~~HV00P fdw_no_schemas HV00J fdw_option_name_not_found HV00Q fdw_schema_not_found "
        "HV00R fdw_table_not_found HV005 fdw_column_name_not_found~~\n"
        "BLOCKED-~~HV000 fdw_error HV002 fdw_dynamic_parameter_value_needed HV010 "
        "fdw_function_sequence_error HV021 fdw_inconsistent_descriptor_information HV024 "
        "fdw_invalid_attribute_value HV007 fdw_invalid_column_name HV008 fdw_invalid_column_number "
        "HV004 fdw_invalid_data_type HV006 fdw_invalid_data_type_descriptors HV091 "
        "fdw_invalid_descriptor_field_identifier HV00B fdw_invalid_handle HV00C "
        "fdw_invalid_option_index HV00D fdw_invalid_option_name HV090 "
        "fdw_invalid_string_length_or_buffer_length HV00A fdw_invalid_string_format HV009 "
        "fdw_invalid_use_of_null_pointer HV014 fdw_too_many_handles HV00K fdw_reply_handle~~\n"
        "FATAL~~XX001 data_corrupted XX002 index_corrupted~~\n"
        "UNCLASSIFIED~~XX000 internal_error P0000 plpgsql_error P0001 raise_exception P0002 "
        "no_data_found P0003 too_many_rows P0004 assert_failure 38000 external_routine_exception "
        "38001 containing_sql_not_permitted 38002 38003 prohibited_sql_statement_attempted 38004 "
        "39000 external_routine_invocation_exception 39001 invalid_sqlstate_returned 39004 "
        "null_value_not_allowed 39P01 trigger_protocol_violated 39P02 srf_protocol_violated 39P03 "
        "event_trigger_protocol_violated 2F000 sql_routine_exception 2F005 "
        "function_executed_no_return_statement 2F003 09000 triggered_action_exception 0F000 "
        "locator_exception 0F001 0Z000 diagnostics_exception 0Z002 "
        "stacked_diagnostics_accessed_without_active_handler~~\n"
        "BLOCKED-~~22000 data_exception 2202E array_element_error array_subscript_error 22021 "
        "character_not_in_repertoire 22008 datetime_field_overflow datetime_value_out_of_range 22012 "
        "division_by_zero 22005 error_in_assignment 2200B escape_character_conflict 22022 "
        "indicator_overflow 22015 interval_field_overflow 2201E invalid_argument_for_log 22014 "
        "invalid_argument_for_ntile 22016 invalid_argument_for_nth_value 2201F "
        "invalid_argument_for_power_function 2201G invalid_argument_for_width_bucket_function 22018 "
        "invalid_character_value_for_cast 22007 invalid_datetime_format 22019 "
        "invalid_escape_character 2200D invalid_escape_octet 22025 invalid_escape_sequence 22P06 "
        "nonstandard_use_of_escape_character 22010 invalid_indicator_parameter_value 22023 "
        "invalid_parameter_value 22013 invalid_preceding_or_following_size 2201B "
        "invalid_regular_expression 2201W invalid_row_count_in_limit_clause 2201X "
        "invalid_row_count_in_result_offset_clause 2202H invalid_tablesample_argument 2202G "
        "invalid_tablesample_repeat 22009 invalid_time_zone_displacement_value 2200C "
        "invalid_use_of_escape_character 2200G most_specific_type_mismatch 22004 22002 "
        "null_value_no_indicator_parameter 22003 numeric_value_out_of_range 2200H "
        "sequence_generator_limit_exceeded 22026 string_data_length_mismatch 22001 22011 "
        "substring_error 22027 trim_error 22024 unterminated_c_string 2200F "
        "zero_length_character_string 22P01 floating_point_exception 22P02 "
        "invalid_text_representation 22P03 invalid_binary_representation 22P04 bad_copy_file_format "
        "22P05 untranslatable_character 2200L not_an_xml_document 2200M invalid_xml_document 2200N "
        "invalid_xml_content 2200S invalid_xml_comment 2200T invalid_xml_processing_instruction "
        "22030 duplicate_json_object_key_value 22031 invalid_argument_for_sql_json_datetime_function "
        "22032 invalid_json_text 22033 invalid_sql_json_subscript 22034 more_than_one_sql_json_item "
        "22035 no_sql_json_item 22036 non_numeric_sql_json_item 22037 "
        "non_unique_keys_in_a_json_object 22038 singleton_sql_json_item_required 22039 "
        "sql_json_array_not_found 2203A sql_json_member_not_found 2203B sql_json_number_not_found "
        "2203C sql_json_object_not_found 2203D too_many_json_array_elements 2203E "
        "too_many_json_object_members 2203F sql_json_scalar_required 2203G "
        "sql_json_item_cannot_be_cast_to_target_type 21000 cardinality_violation 20000 "
        "case_not_found~~\n"
        "BLOCKED-~~42000 syntax_error_or_access_rule_violation 42601 syntax_error 42846 "
        "cannot_coerce 42803 grouping_error 42P20 windowing_error 42P19 invalid_recursion 42830 "
        "invalid_foreign_key 42602 invalid_name 42622 name_too_long 42939 reserved_name 42804 "
        "datatype_mismatch 42P18 indeterminate_datatype 42P21 collation_mismatch 42P22 "
        "indeterminate_collation 42809 wrong_object_type 428C9 generated_always 42P02 "
        "undefined_parameter 42701 duplicate_column 42712 duplicate_alias 42702 ambiguous_column "
        "42725 ambiguous_function 42P08 ambiguous_parameter 42P09 ambiguous_alias 42P10 "
        "invalid_column_reference 42611 invalid_column_definition 42P11 invalid_cursor_definition "
        "42P12 invalid_database_definition 42P13 invalid_function_definition 42P14 "
        "invalid_pstatement_definition 42P15 invalid_schema_definition 42P16 "
        "invalid_table_definition 42P17 invalid_object_definition~~\n"
        "\n"
        "mysql mariadb~mysql~mysql pymysql MySQLdb aiomysql asyncmy mariadb~\n"
        "BLOCKED~~~access denied for user~\n"
        "TRANSIENT~~~can't connect to|lost connection to|server has gone away|connection "
        "refused|unknown mysql server host|is not connected|read-only option~\n"
        "TRANSIENT~~1042 ER_BAD_HOST_ERROR 1043 ER_HANDSHAKE_ERROR 1053 ER_SERVER_SHUTDOWN 1076 "
        "ER_READY 1079 ER_SHUTDOWN_COMPLETE 1080 ER_FORCING_CLOSE 1081 ER_IPSOCK_ERROR 1152 "
        "ER_ABORTING_CONNECTION 1153 ER_NET_PACKET_TOO_LARGE 1154 ER_NET_READ_ERROR_FROM_PIPE 1155 "
        "ER_NET_FCNTL_ERROR 1156 ER_NET_PACKETS_OUT_OF_ORDER 1157 ER_NET_UNCOMPRESS_ERROR 1158 "
        "ER_NET_READ_ERROR 1159 ER_NET_READ_INTERRUPTED 1160 ER_NET_ERROR_ON_WRITE 1161 "
        "ER_NET_WRITE_INTERRUPTED 1184 ER_NEW_ABORTING_CONNECTION 1408 ER_STARTUP 2001 "
        "CR_SOCKET_CREATE_ERROR 2002 CR_CONNECTION_ERROR 2003 CR_CONN_HOST_ERROR 2004 "
        "CR_IPSOCK_ERROR 2005 CR_UNKNOWN_HOST 2006 CR_SERVER_GONE_ERROR 2011 CR_TCP_CONNECTION 2012 "
        "CR_SERVER_HANDSHAKE_ERR 2013 CR_SERVER_LOST 2015 CR_NAMEDPIPE_CONNECTION 2016 "
        "CR_NAMEDPIPEWAIT_ERROR 2017 CR_NAMEDPIPEOPEN_ERROR 2018 CR_NAMEDPIPESETSTATE_ERROR 2037 "
        "CR_SHARED_MEMORY_CONNECTION 2038 CR_SHARED_MEMORY_CONNECT_REQUEST_ERROR 2039 "
        "CR_SHARED_MEMORY_CONNECT_ANSWER_ERROR 2040 CR_SHARED_MEMORY_CONNECT_FILE_MAP_ERROR 2041 "
        "CR_SHARED_MEMORY_CONNECT_MAP_ERROR 2042 CR_SHARED_MEMORY_FILE_MAP_ERROR 2043 "
        "CR_SHARED_MEMORY_MAP_ERROR 2044 CR_SHARED_MEMORY_EVENT_ERROR 2045 "
        "CR_SHARED_MEMORY_CONNECT_ABANDONED_ERROR 2046 CR_SHARED_MEMORY_CONNECT_SET_ERROR 2047 "
        "CR_CONN_UNKNOW_PROTOCOL 2055 CR_SERVER_LOST_EXTENDED 3032 ER_SERVER_OFFLINE_MODE 3068 "
        "ER_NET_OK_PACKET_TOO_LARGE 3168 ER_SERVER_ISNT_AVAILABLE 4031 "
        "ER_CLIENT_INTERACTION_TIMEOUT~~\n"
        "TRANSIENT~~1036 ER_OPEN_AS_READONLY 1207 ER_READ_ONLY_TRANSACTION 1290 "
        "ER_OPTION_PREVENTS_STATEMENT 1792 ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION 1836 "
        "ER_READ_ONLY_MODE 1874 ER_INNODB_READ_ONLY~~\n"
        "CONFLICT~~1015 ER_CANT_LOCK 1020 ER_CHECKREAD 1027 ER_FILE_USED 1093 ER_UPDATE_TABLE_USED "
        "1192 ER_LOCK_OR_ACTIVE_TRANSACTION 1205 ER_LOCK_WAIT_TIMEOUT 1206 ER_LOCK_TABLE_FULL 1213 "
        "ER_LOCK_DEADLOCK 1378 ER_LOG_IN_USE 1402 ER_XA_RBROLLBACK 1412 ER_TABLE_DEF_CHANGED 1556 "
        "ER_CANT_LOCK_LOG_TABLE 1613 ER_XA_RBTIMEOUT 1614 ER_XA_RBDEADLOCK 1615 ER_NEED_REPREPARE "
        "1622 ER_WARN_ENGINE_TRANSACTION_ROLLBACK 1689 ER_LOCK_ABORTED 1725 ER_TABLE_IN_FK_CHECK "
        "1807 ER_DISCARD_FK_CHECKS_RUNNING 1867 ER_WARN_PURGE_LOG_IN_USE 3058 ER_USER_LOCK_DEADLOCK "
        "3101 ER_TRANSACTION_ROLLBACK_DURING_COMMIT 3131 ER_LOCKING_SERVICE_WRONG_NAME 3132 "
        "ER_LOCKING_SERVICE_DEADLOCK 3133 ER_LOCKING_SERVICE_TIMEOUT 3572 ER_LOCK_NOWAIT 3656 "
        "ER_RESOURCE_GROUP_BUSY 3874 ER_CLONE_IN_PROGRESS~~\n"
        "THROTTLED~~1040 ER_CON_COUNT_ERROR 1041 ER_OUT_OF_RESOURCES 1135 ER_CANT_CREATE_THREAD 1203 "
        "ER_TOO_MANY_USER_CONNECTIONS 1226 ER_USER_LIMIT_REACHED 1461 "
        "ER_MAX_PREPARED_STMT_COUNT_REACHED 1637 ER_TOO_MANY_CONCURRENT_TRXS 3170 "
        "ER_CAPACITY_EXCEEDED 3171 ER_CAPACITY_EXCEEDED_IN_RANGE_OPTIMIZER 3186 "
        "ER_CAPACITY_EXCEEDED_IN_PARSER 3634 ER_CLONE_TOO_MANY_CONCURRENT_CLONES 3985 "
        "ER_MDL_OUT_OF_RESOURCES~~\n"
        "BLOCKED~~1044 ER_DBACCESS_DENIED_ERROR 1045 ER_ACCESS_DENIED_ERROR 1095 "
        "ER_KILL_DENIED_ERROR 1129 ER_HOST_IS_BLOCKED 1130 ER_HOST_NOT_PRIVILEGED 1131 "
        "ER_PASSWORD_ANONYMOUS_USER 1132 ER_PASSWORD_NOT_ALLOWED 1133 ER_PASSWORD_NO_MATCH 1141 "
        "ER_NONEXISTING_GRANT 1142 ER_TABLEACCESS_DENIED_ERROR 1143 ER_COLUMNACCESS_DENIED_ERROR "
        "1145 ER_GRANT_WRONG_HOST_OR_USER 1147 ER_NONEXISTING_TABLE_GRANT 1148 "
        "ER_NOT_ALLOWED_COMMAND 1211 ER_NO_PERMISSION_TO_CREATE_USER 1227 "
        "ER_SPECIFIC_ACCESS_DENIED_ERROR 1251 ER_NOT_SUPPORTED_AUTH_MODE 1275 "
        "OBSOLETE_ER_SERVER_IS_IN_SECURE_AUTH_MODE 1370 ER_PROCACCESS_DENIED_ERROR 1399 "
        "ER_XAER_RMFAIL 1403 ER_NONEXISTING_PROC_GRANT 1419 ER_BINLOG_CREATE_ROUTINE_NEED_SUPER 1698 "
        "ER_ACCESS_DENIED_NO_PASSWORD_ERROR 1699 ER_SET_PASSWORD_AUTH_PLUGIN 1819 "
        "ER_NOT_VALID_PASSWORD 1820 ER_MUST_CHANGE_PASSWORD 1827 ER_PASSWORD_FORMAT 1862 "
        "ER_MUST_CHANGE_PASSWORD_LOGIN 1873 ER_ACCESS_DENIED_CHANGE_USER_ERROR 2026 "
        "CR_SSL_CONNECTION_ERROR 2059 CR_AUTH_PLUGIN_CANNOT_LOAD 2061 CR_AUTH_PLUGIN_ERR 2064 "
        "CR_SSL_FIPS_MODE_ERR 2072 CR_INVALID_FACTOR_NO 3016 ER_PASSWORD_EXPIRE_ANONYMOUS_USER 3056 "
        "ER_CHANGE_MASTER_PASSWORD_LENGTH 3118 ER_ACCOUNT_HAS_BEEN_LOCKED 3159 "
        "ER_SECURE_TRANSPORT_REQUIRED 3160 ER_NO_SECURE_TRANSPORTS_CONFIGURED 3202 "
        "ER_KEYRING_ACCESS_DENIED_ERROR 3207 "
        "OBSOLETE_ER_AUDIT_LOG_ENCRYPTION_PASSWORD_HAS_NOT_BEEN_SET 3209 "
        "OBSOLETE_ER_AUDIT_LOG_ENCRYPTION_PASSWORD_CANNOT_BE_FETCHED 3211 "
        "OBSOLETE_ER_AUDIT_LOG_UDF_INSUFFICIENT_PRIVILEGE 3212 "
        "OBSOLETE_ER_AUDIT_LOG_SUPER_PRIVILEGE_REQUIRED 3523 ER_UNKNOWN_AUTHID 3530 "
        "ER_ROLE_NOT_GRANTED 3619 ER_ILLEGAL_PRIVILEGE_LEVEL 3630 "
        "ER_PERSIST_ONLY_ACCESS_DENIED_ERROR 3631 ER_CMD_NEED_SUPER 3638 "
        "ER_CREDENTIALS_CONTRADICT_TO_HISTORY 3639 ER_WARNING_PASSWORD_HISTORY_CLAUSES_VOID 3671 "
        "ER_PASSWORD_EXPIRATION_NOT_SUPPORTED_BY_AUTH_METHOD 3836 "
        "ER_UKNOWN_AUTH_ID_OR_ACCESS_DENIED_FOR_GRANT_AS 3878 ER_SECOND_PASSWORD_CANNOT_BE_EMPTY "
        "3879 ER_DB_ACCESS_DENIED 3880 ER_DA_AUTH_ID_WITH_SYSTEM_USER_PRIV_IN_MANDATORY_ROLES 3891 "
        "ER_INCORRECT_CURRENT_PASSWORD 3892 ER_MISSING_CURRENT_PASSWORD 3893 "
        "ER_CURRENT_PASSWORD_NOT_REQUIRED 3894 ER_PASSWORD_CANNOT_BE_RETAINED_ON_PLUGIN_CHANGE 3895 "
        "ER_CURRENT_PASSWORD_CANNOT_BE_RETAINED 3914 ER_AUDIT_LOG_INSUFFICIENT_PRIVILEGE 3915 "
        "OBSOLETE_ER_AUDIT_LOG_PASSWORD_HAS_BEEN_COPIED 3925 "
        "ER_CLIENT_PRIVILEGE_CHECKS_USER_CANNOT_BE_ANONYMOUS 3926 "
        "ER_CLIENT_PRIVILEGE_CHECKS_USER_DOES_NOT_EXIST 3927 ER_CLIENT_PRIVILEGE_CHECKS_USER_CORRUPT "
        "3928 ER_CLIENT_PRIVILEGE_CHECKS_USER_NEEDS_RPL_APPLIER_PRIV 3929 "
        "ER_WARN_DA_PRIVILEGE_NOT_REGISTERED 3955 "
        "ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK 3972 "
        "ER_GROUP_REPLICATION_PASSWORD_LENGTH 4052 ER_INVALID_MFA_PLUGIN_SPECIFIED 4056 "
        "ER_MFA_METHOD_EXISTS 4057 ER_MFA_METHOD_NOT_EXISTS 4058 ER_AUTHENTICATION_POLICY_MISMATCH "
        "4062 ER_MFA_METHODS_INVALID_ORDER 4063 ER_MFA_METHODS_IDENTICAL 4064 "
        "ER_INVALID_MFA_OPERATIONS_FOR_PASSWORDLESS_USER~~\n"
        "BLOCKED~~1021 OBSOLETE_ER_DISK_FULL 1114 ER_RECORD_FILE_FULL 1197 ER_TRANS_CACHE_FULL 1467 "
        "ER_AUTOINC_READ_FAILED 1530 ER_TABLESPACE_AUTO_EXTEND_ERROR 1705 ER_STMT_CACHE_FULL 1775 "
        "ER_GNO_EXHAUSTED 3015 ER_ENGINE_OUT_OF_MEMORY 3675 ER_DISK_FULL_NOWAIT 4036 "
        "ER_SDI_GET_KEYS_INVALID_TABLESPACE~~\n"
        "TRANSIENT~~1037 ER_OUTOFMEMORY 1038 ER_OUT_OF_SORTMEMORY 1119 ER_STACK_OVERRUN 1257 "
        "ER_ZLIB_Z_MEM_ERROR 1436 ER_STACK_OVERRUN_NEED_MORE 2008 CR_OUT_OF_MEMORY 3650 "
        "ER_RESOURCE_GROUP_EXISTS 3651 ER_RESOURCE_GROUP_NOT_EXISTS 3657 ER_RESOURCE_GROUP_DISABLED "
        "3661 ER_RESOURCE_GROUP_BIND_FAILED~~\n"
        "CONFLICT~~1007 ER_DB_CREATE_EXISTS 1008 ER_DB_DROP_EXISTS 1022 ER_DUP_KEY 1050 "
        "ER_TABLE_EXISTS_ERROR 1062 ER_DUP_ENTRY 1086 ER_FILE_EXISTS_ERROR 1125 ER_UDF_EXISTS 1169 "
        "ER_DUP_UNIQUE 1216 ER_NO_REFERENCED_ROW 1217 ER_ROW_IS_REFERENCED 1304 ER_SP_ALREADY_EXISTS "
        "1359 ER_TRG_ALREADY_EXISTS 1396 ER_CANNOT_USER 1451 ER_ROW_IS_REFERENCED_2 1452 "
        "ER_NO_REFERENCED_ROW_2 1476 ER_FOREIGN_SERVER_EXISTS 1537 ER_EVENT_ALREADY_EXISTS 1557 "
        "ER_FOREIGN_DUPLICATE_KEY_OLD_UNUSED 1569 ER_DUP_ENTRY_AUTOINCREMENT_CASE 1586 "
        "ER_DUP_ENTRY_WITH_KEY_NAME 1700 OBSOLETE_ER_GRANT_PLUGIN_USER_EXISTS 1706 "
        "ER_MULTI_UPDATE_KEY_CONFLICT 1761 ER_FOREIGN_DUPLICATE_KEY_WITH_CHILD_INFO 1762 "
        "ER_FOREIGN_DUPLICATE_KEY_WITHOUT_CHILD_INFO 1813 ER_TABLESPACE_EXISTS 1859 "
        "ER_DUP_UNKNOWN_IN_INDEX 1869 ER_AUTO_INCREMENT_CONFLICT 2033 CR_NO_PARAMETERS_EXISTS 3163 "
        "ER_USER_ALREADY_EXISTS 3222 OBSOLETE_ER_AUDIT_LOG_JSON_FILTER_DOES_NOT_EXISTS 3610 "
        "ER_IMP_TABLE_ALREADY_EXISTS 3678 ER_SCHEMA_DIR_EXISTS 3712 ER_SRS_ID_ALREADY_EXISTS 3713 "
        "ER_WARN_SRS_ID_ALREADY_EXISTS 3789 ER_RPL_ENCRYPTION_KEY_EXISTS_UNEXPECTED 3901 "
        "ER_PARTIAL_REVOKE_AND_DB_GRANT_BOTH_EXISTS 4006 ER_CANNOT_USER_REFERENCED_AS_DEFINER 5122 "
        "ER_X_CURSOR_EXISTS 5168 ER_X_EXPECT_FIELD_EXISTS_FAILED 5181 "
        "ER_X_COLLECTION_OPTION_DOESNT_EXISTS~~\n"
        "DEPENDENCY~~1012 ER_CANT_FIND_SYSTEM_REC 1017 ER_FILE_NOT_FOUND 1029 "
        "OBSOLETE_ER_FORM_NOT_FOUND 1032 ER_KEY_NOT_FOUND 1049 ER_BAD_DB_ERROR 1051 "
        "ER_BAD_TABLE_ERROR 1054 ER_BAD_FIELD_ERROR 1082 ER_NO_SUCH_INDEX 1094 ER_NO_SUCH_THREAD "
        "1106 ER_UNKNOWN_PROCEDURE 1109 ER_UNKNOWN_TABLE 1122 ER_CANT_FIND_UDF 1127 "
        "ER_CANT_FIND_DL_ENTRY 1128 ER_FUNCTION_NOT_DEFINED 1146 ER_NO_SUCH_TABLE 1176 "
        "ER_KEY_DOES_NOT_EXITS 1177 ER_CHECK_NO_SUCH_TABLE 1191 ER_FT_MATCHING_KEY_NOT_FOUND 1193 "
        "ER_UNKNOWN_SYSTEM_VARIABLE 1243 ER_UNKNOWN_STMT_HANDLER 1278 ER_MISSING_SKIP_SLAVE 1286 "
        "ER_UNKNOWN_STORAGE_ENGINE 1305 ER_SP_DOES_NOT_EXIST 1339 ER_SP_CASE_NOT_FOUND 1360 "
        "ER_TRG_DOES_NOT_EXIST 1363 ER_TRG_NO_SUCH_ROW_IN_TRG 1431 "
        "ER_FOREIGN_DATA_SOURCE_DOESNT_EXIST 1449 ER_NO_SUCH_USER 1459 ER_TABLE_NEEDS_UPGRADE 1477 "
        "ER_FOREIGN_SERVER_DOESNT_EXIST 1488 ER_FIELD_NOT_FOUND_PART_ERROR 1498 "
        "ER_PARTITION_NOT_DEFINED_ERROR 1507 ER_DROP_PARTITION_NON_EXISTENT 1516 "
        "ER_REORG_PARTITION_NOT_EXIST 1524 ER_PLUGIN_IS_NOT_LOADED 1539 ER_EVENT_DOES_NOT_EXIST 1630 "
        "ER_FUNC_INEXISTENT_NAME_COLLISION 1643 ER_SIGNAL_NOT_FOUND 1707 ER_TABLE_NEEDS_REBUILD 1735 "
        "ER_UNKNOWN_PARTITION 1741 OBSOLETE_ER_NO_SUCH_KEY_VALUE 1749 "
        "OBSOLETE_ER_NO_SUCH_PARTITION__UNUSED 1812 ER_TABLESPACE_MISSING 1814 "
        "ER_TABLESPACE_DISCARDED 1886 ER_MISSING_KEY 2067 CR_KERBEROS_USER_NOT_FOUND 2071 "
        "CR_MANDATORY_TRACKER_NOT_FOUND 3003 ER_STORAGE_ENGINE_NOT_LOADED 3011 "
        "ER_REFERENCED_TRG_DOES_NOT_EXIST 3014 ER_MISSING_HA_CREATE_OPTION 3070 "
        "ER_INVALID_GEOJSON_MISSING_MEMBER 3074 ER_SLAVE_CHANNEL_DOES_NOT_EXIST 3137 "
        "ER_VTOKEN_PLUGIN_TOKEN_NOT_FOUND 3162 ER_USER_DOES_NOT_EXIST 3172 "
        "OBSOLETE_ER_TABLE_NEEDS_UPG_PART 3503 ER_NO_SUCH_DB 3510 ER_TABLESPACE_MISSING_WITH_NAME "
        "3518 ER_SRS_PROJ_PARAMETER_MISSING 3519 ER_WARN_SRS_NOT_FOUND 3537 "
        "ER_COMPONENTS_UNLOAD_NOT_LOADED 3548 ER_SRS_NOT_FOUND 3565 ER_WARN_SRS_NOT_FOUND_AXIS_ORDER "
        "3579 ER_WINDOW_NO_SUCH_WINDOW 3605 ER_ENGINE_CANT_DROP_MISSING_TABLE 3609 "
        "ER_IMP_SCHEMA_DOES_NOT_EXIST 3615 ER_VAR_DOES_NOT_EXIST 3629 ER_MISSING_TABLESPACE_FILE "
        "3665 ER_MISSING_JSON_TABLE_VALUE 3679 ER_SCHEMA_DIR_MISSING 3696 "
        "ER_REGEXP_MISSING_CLOSE_BRACKET 3708 ER_SRS_MISSING_MANDATORY_ATTRIBUTE 3743 "
        "ER_TRANSFORM_SOURCE_SRS_MISSING_TOWGS84 3744 ER_TRANSFORM_TARGET_SRS_MISSING_TOWGS84 3785 "
        "ER_RPL_ENCRYPTION_KEY_NOT_FOUND 3821 ER_CHECK_CONSTRAINT_NOT_FOUND 3842 "
        "ER_INNODB_REDO_LOG_ARCHIVE_LABEL_NOT_FOUND 3844 ER_INNODB_REDO_LOG_ARCHIVE_NO_SUCH_DIR 3902 "
        "ER_UNIT_NOT_FOUND 3940 ER_CONSTRAINT_NOT_FOUND 3958 ER_SDI_OPERATION_FAILED_MISSING_RECORD "
        "3966 ER_MISSING_JSON_VALUE 5002 ER_X_CAPABILITY_NOT_FOUND 5013 ER_X_MISSING_ARGUMENT 5113 "
        "ER_X_BAD_TABLE 5115 ER_X_DOC_ID_MISSING 5117 ER_X_DOC_REQUIRED_FIELD_MISSING 5152 "
        "ER_X_EXPR_MISSING_ARG 5167 ER_X_MYSQLX_ACCOUNT_MISSING_PERMISSIONS 5179 "
        "ER_X_CAPABILITY_COMPRESSION_MISSING_REQUIRED_FIELDS~~\n"
        "TRANSIENT~~1317 ER_QUERY_INTERRUPTED 1544 ER_EVENT_EXEC_TIME_IN_THE_PAST 1639 "
        "ER_DEBUG_SYNC_TIMEOUT 1875 ER_STOP_SLAVE_SQL_THREAD_TIMEOUT 1876 "
        "ER_STOP_SLAVE_IO_THREAD_TIMEOUT 3024 ER_QUERY_TIMEOUT 3095 "
        "ER_GROUP_REPLICATION_STOP_APPLIER_THREAD_TIMEOUT 3169 ER_SESSION_WAS_KILLED 3781 "
        "ER_GR_HOLD_WAIT_TIMEOUT 3782 ER_GR_HOLD_KILLED 3840 "
        "ER_INNODB_REDO_LOG_ARCHIVE_START_TIMEOUT 4011 ER_STOP_REPLICA_MONITOR_IO_THREAD_TIMEOUT~~\n"
        "FATAL~~1033 ER_NOT_FORM_FILE 1034 ER_NOT_KEYFILE 1035 ER_OLD_KEYFILE 1194 "
        "ER_CRASHED_ON_USAGE 1195 ER_CRASHED_ON_REPAIR 1244 ER_CORRUPT_HELP_DB 1457 "
        "OBSOLETE_ER_SP_PROC_TABLE_CORRUPT 1547 OBSOLETE_ER_COL_COUNT_DOESNT_MATCH_CORRUPTED 1602 "
        "ER_TRG_CORRUPTED_FILE 1610 ER_SLAVE_CORRUPT_EVENT 1712 ER_INDEX_CORRUPT 1805 "
        "ER_COL_COUNT_DOESNT_MATCH_CORRUPTED_V2 1817 ER_INNODB_INDEX_CORRUPT 1866 "
        "ER_BINLOG_LOGICAL_CORRUPTION 1877 ER_TABLE_CORRUPT 3000 ER_FILE_CORRUPT 3649 "
        "ER_CORRUPTED_JSON_DIFF~~\n"
        "DEPENDENCY~~1186 OBSOLETE_ER_FLUSH_MASTER_BINLOG_CLOSED 1188 ER_MASTER 1189 "
        "ER_MASTER_NET_READ 1190 ER_MASTER_NET_WRITE 1198 OBSOLETE_ER_SLAVE_MUST_STOP 1199 "
        "ER_SLAVE_NOT_RUNNING 1200 ER_BAD_SLAVE 1201 ER_MASTER_INFO 1202 ER_SLAVE_THREAD 1218 "
        "ER_CONNECT_TO_MASTER 1219 OBSOLETE_ER_QUERY_ON_MASTER 1236 "
        "ER_MASTER_FATAL_ERROR_READING_BINLOG 1237 ER_SLAVE_IGNORED_TABLE 1254 "
        "OBSOLETE_ER_SLAVE_WAS_RUNNING 1255 OBSOLETE_ER_SLAVE_WAS_NOT_RUNNING 1274 "
        "ER_SLAVE_IGNORED_SSL_PARAMS 1277 ER_BAD_SLAVE_UNTIL_COND 1371 ER_RELAY_LOG_FAIL 1373 "
        "ER_UNKNOWN_TARGET_BINLOG 1375 ER_BINLOG_PURGE_PROHIBITED 1377 ER_BINLOG_PURGE_FATAL_ERR "
        "1379 ER_LOG_PURGE_UNKNOWN_ERR 1380 ER_RELAY_LOG_INIT 1397 ER_XAER_NOTA 1398 ER_XAER_INVAL "
        "1400 ER_XAER_OUTSIDE 1401 ER_XAER_RMERR 1417 OBSOLETE_ER_FAILED_ROUTINE_BREAK_BINLOG 1418 "
        "ER_BINLOG_UNSAFE_ROUTINE 1440 ER_XAER_DUPID 1518 ER_NO_BINLOG_ERROR 1534 "
        "ER_BINLOG_ROW_LOGGING_FAILED 1535 OBSOLETE_ER_BINLOG_ROW_WRONG_TABLE_DEF 1536 "
        "OBSOLETE_ER_BINLOG_ROW_RBR_TO_SBR 1560 ER_STORED_FUNCTION_PREVENTS_SWITCH_BINLOG_FORMAT "
        "1561 OBSOLETE_ER_NDB_CANT_SWITCH_BINLOG_FORMAT 1587 ER_BINLOG_PURGE_EMFILE 1590 "
        "OBSOLETE_ER_SLAVE_INCIDENT 1592 ER_BINLOG_UNSAFE_STATEMENT 1593 ER_BINLOG_FATAL_ERROR 1594 "
        "OBSOLETE_ER_SLAVE_RELAY_LOG_READ_FAILURE 1595 OBSOLETE_ER_SLAVE_RELAY_LOG_WRITE_FAILURE "
        "1596 OBSOLETE_ER_SLAVE_CREATE_EVENT_FAILURE 1597 OBSOLETE_ER_SLAVE_MASTER_COM_FAILURE 1598 "
        "ER_BINLOG_LOGGING_IMPOSSIBLE 1609 ER_NO_FORMAT_DESCRIPTION_EVENT_BEFORE_BINLOG_STATEMENT "
        "1612 ER_LOG_PURGE_NO_FILE 1617 WARN_NO_MASTER_INFO 1623 OBSOLETE_ER_SLAVE_HEARTBEAT_FAILURE "
        "1624 ER_SLAVE_HEARTBEAT_VALUE_OUT_OF_RANGE 1625 ER_NDB_REPLICATION_SCHEMA_ERROR 1650 "
        "ER_SLAVE_IGNORE_SERVER_IDS 1661 ER_BINLOG_ROW_ENGINE_AND_STMT_ENGINE 1662 "
        "ER_BINLOG_ROW_MODE_AND_STMT_ENGINE 1663 ER_BINLOG_UNSAFE_AND_STMT_ENGINE 1664 "
        "ER_BINLOG_ROW_INJECTION_AND_STMT_ENGINE 1665 ER_BINLOG_STMT_MODE_AND_ROW_ENGINE 1666 "
        "ER_BINLOG_ROW_INJECTION_AND_STMT_MODE 1667 "
        "ER_BINLOG_MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE 1668 ER_BINLOG_UNSAFE_LIMIT 1670 "
        "ER_BINLOG_UNSAFE_SYSTEM_TABLE 1671 ER_BINLOG_UNSAFE_AUTOINC_COLUMNS 1672 "
        "ER_BINLOG_UNSAFE_UDF 1673 ER_BINLOG_UNSAFE_SYSTEM_VARIABLE 1674 "
        "ER_BINLOG_UNSAFE_SYSTEM_FUNCTION 1675 ER_BINLOG_UNSAFE_NONTRANS_AFTER_TRANS 1677 "
        "OBSOLETE_ER_SLAVE_CONVERSION_FAILED 1678 ER_SLAVE_CANT_CREATE_CONVERSION 1679 "
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_FORMAT 1685 "
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_BINLOG_DIRECT 1686 "
        "ER_STORED_FUNCTION_PREVENTS_SWITCH_BINLOG_DIRECT 1692 "
        "ER_BINLOG_UNSAFE_MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE 1693 "
        "ER_BINLOG_UNSAFE_MIXED_STATEMENT 1703 ER_SLAVE_HEARTBEAT_VALUE_OUT_OF_RANGE_MIN 1704 "
        "ER_SLAVE_HEARTBEAT_VALUE_OUT_OF_RANGE_MAX 1714 ER_BINLOG_UNSAFE_INSERT_IGNORE_SELECT 1715 "
        "ER_BINLOG_UNSAFE_INSERT_SELECT_UPDATE 1716 ER_BINLOG_UNSAFE_REPLACE_SELECT 1717 "
        "ER_BINLOG_UNSAFE_CREATE_IGNORE_SELECT 1718 ER_BINLOG_UNSAFE_CREATE_REPLACE_SELECT 1719 "
        "ER_BINLOG_UNSAFE_UPDATE_IGNORE 1722 ER_BINLOG_UNSAFE_WRITE_AUTOINC_SELECT 1723 "
        "ER_BINLOG_UNSAFE_CREATE_SELECT_AUTOINC 1724 ER_BINLOG_UNSAFE_INSERT_TWO_KEYS 1727 "
        "ER_BINLOG_UNSAFE_AUTOINC_NOT_FIRST 1729 ER_MASTER_DELAY_VALUE_OUT_OF_RANGE 1730 "
        "ER_ONLY_FD_AND_RBR_EVENTS_ALLOWED_IN_BINLOG_STATEMENT 1738 "
        "ER_BINLOG_CACHE_SIZE_GREATER_THAN_MAX 1742 ER_RPL_INFO_DATA_TOO_LONG 1744 "
        "OBSOLETE_ER_BINLOG_READ_EVENT_CHECKSUM_FAILURE 1745 "
        "ER_BINLOG_STMT_CACHE_SIZE_GREATER_THAN_MAX 1750 ER_CHANGE_RPL_INFO_REPOSITORY_FAILURE 1753 "
        "ER_MTS_FEATURE_IS_NOT_SUPPORTED 1754 ER_MTS_UPDATED_DBS_GREATER_MAX 1755 "
        "ER_MTS_CANT_PARALLEL 1756 ER_MTS_INCONSISTENT_DATA 1760 ER_INSECURE_CHANGE_MASTER 1763 "
        "ER_SQLTHREAD_WITH_SECURE_SLAVE 1767 OBSOLETE_ER_GTID_NEXT_IS_NOT_IN_GTID_NEXT_LIST 1768 "
        "OBSOLETE_ER_CANT_CHANGE_GTID_NEXT_IN_TRANSACTION 1770 "
        "ER_GTID_NEXT_CANT_BE_AUTOMATIC_IF_GTID_NEXT_LIST_IS_NON_NULL 1772 "
        "ER_MALFORMED_GTID_SET_SPECIFICATION 1773 ER_MALFORMED_GTID_SET_ENCODING 1774 "
        "ER_MALFORMED_GTID_SPECIFICATION 1776 ER_BAD_SLAVE_AUTO_POSITION 1777 "
        "ER_AUTO_POSITION_REQUIRES_GTID_MODE_NOT_OFF 1778 "
        "ER_CANT_DO_IMPLICIT_COMMIT_IN_TRX_WHEN_GTID_NEXT_IS_SET 1779 "
        "ER_GTID_MODE_ON_REQUIRES_ENFORCE_GTID_CONSISTENCY_ON 1780 "
        "OBSOLETE_ER_GTID_MODE_REQUIRES_BINLOG 1781 "
        "ER_CANT_SET_GTID_NEXT_TO_GTID_WHEN_GTID_MODE_IS_OFF 1782 "
        "ER_CANT_SET_GTID_NEXT_TO_ANONYMOUS_WHEN_GTID_MODE_IS_ON 1783 "
        "ER_CANT_SET_GTID_NEXT_LIST_TO_NON_NULL_WHEN_GTID_MODE_IS_OFF 1784 "
        "OBSOLETE_ER_FOUND_GTID_EVENT_WHEN_GTID_MODE_IS_OFF__UNUSED 1785 "
        "ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE 1786 ER_GTID_UNSAFE_CREATE_SELECT 1787 "
        "OBSOLETE_ER_GTID_UNSAFE_CREATE_DROP_TEMP_TABLE_IN_TRANSACTION 1788 "
        "ER_GTID_MODE_CAN_ONLY_CHANGE_ONE_STEP_AT_A_TIME 1789 ER_MASTER_HAS_PURGED_REQUIRED_GTIDS "
        "1790 ER_CANT_SET_GTID_NEXT_WHEN_OWNING_GTID 1794 ER_SLAVE_CONFIGURATION 1802 "
        "ER_MTS_CHANGE_MASTER_CANT_RUN_WITH_GAPS 1803 ER_MTS_RECOVERY_FAILURE 1804 "
        "ER_MTS_RESET_WORKERS 1806 ER_SLAVE_SILENT_RETRY_TRANSACTION 1837 "
        "ER_GTID_NEXT_TYPE_UNDEFINED_GTID 1839 "
        "OBSOLETE_ER_CANT_SET_GTID_PURGED_WHEN_GTID_MODE_IS_OFF 1840 "
        "ER_CANT_SET_GTID_PURGED_WHEN_GTID_EXECUTED_IS_NOT_EMPTY 1841 "
        "ER_CANT_SET_GTID_PURGED_WHEN_OWNED_GTIDS_IS_NOT_EMPTY 1842 ER_GTID_PURGED_WAS_CHANGED 1843 "
        "ER_GTID_EXECUTED_WAS_CHANGED 1844 ER_BINLOG_STMT_MODE_AND_NO_REPL_TABLES 1858 "
        "OBSOLETE_ER_SQL_REPLICA_SKIP_COUNTER_NOT_SETTABLE_IN_GTID_MODE 1864 "
        "ER_MTS_EVENT_BIGGER_PENDING_JOBS_SIZE_MAX 1871 ER_SLAVE_MI_INIT_REPOSITORY 1872 "
        "ER_SLAVE_RLI_INIT_REPOSITORY 1884 "
        "ER_GTID_UNSAFE_BINLOG_SPLITTABLE_STATEMENT_AND_ASSIGNED_GTID 1885 "
        "ER_SLAVE_HAS_MORE_GTIDS_THAN_MASTER 2022 CR_PROBE_SLAVE_STATUS 2023 CR_PROBE_SLAVE_HOSTS "
        "2024 CR_PROBE_SLAVE_CONNECT 2025 CR_PROBE_MASTER_CONNECT 3001 ER_ERROR_ON_MASTER 3006 "
        "ER_BINLOG_UNSAFE_FULLTEXT_PLUGIN 3017 ER_SLAVE_SQL_THREAD_MUST_STOP 3021 "
        "ER_SLAVE_CHANNEL_IO_THREAD_MUST_STOP 3023 ER_WARN_ONLY_MASTER_LOG_FILE_NO_POS 3030 "
        "ER_SLAVE_WORKER_STOPPED_PREVIOUS_THD_ERROR 3031 "
        "ER_DONT_SUPPORT_REPLICA_PRESERVE_COMMIT_ORDER 3062 ER_GTID_MODE_OFF 3063 "
        "OBSOLETE_ER_UNSUPPORTED_BY_REPLICATION_THREAD 3067 ER_INVALID_RPL_WILD_TABLE_FILTER_PATTERN "
        "3075 OBSOLETE_ER_SLAVE_MULTIPLE_CHANNELS_HOST_PORT 3076 "
        "ER_SLAVE_CHANNEL_NAME_INVALID_OR_TOO_LONG 3077 ER_SLAVE_NEW_CHANNEL_WRONG_REPOSITORY 3078 "
        "OBSOLETE_ER_SLAVE_CHANNEL_DELETE 3079 ER_SLAVE_MULTIPLE_CHANNELS_CMD 3080 "
        "ER_SLAVE_MAX_CHANNELS_EXCEEDED 3081 ER_SLAVE_CHANNEL_MUST_STOP 3082 "
        "ER_SLAVE_CHANNEL_NOT_RUNNING 3083 ER_SLAVE_CHANNEL_WAS_RUNNING 3084 "
        "ER_SLAVE_CHANNEL_WAS_NOT_RUNNING 3085 ER_SLAVE_CHANNEL_SQL_THREAD_MUST_STOP 3086 "
        "ER_SLAVE_CHANNEL_SQL_SKIP_COUNTER 3091 ER_CANNOT_LOG_PARTIAL_DROP_DATABASE_WITH_GTID 3092 "
        "ER_GROUP_REPLICATION_CONFIGURATION 3093 ER_GROUP_REPLICATION_RUNNING 3094 "
        "ER_GROUP_REPLICATION_APPLIER_INIT_ERROR 3096 "
        "ER_GROUP_REPLICATION_COMMUNICATION_LAYER_SESSION_ERROR 3097 "
        "ER_GROUP_REPLICATION_COMMUNICATION_LAYER_JOIN_ERROR 3100 ER_RUN_HOOK_ERROR 3111 "
        "ER_CANT_SET_GTID_MODE 3112 ER_CANT_USE_AUTO_POSITION_WITH_GTID_MODE_OFF 3113 "
        "OBSOLETE_ER_CANT_REPLICATE_ANONYMOUS_WITH_AUTO_POSITION 3114 "
        "OBSOLETE_ER_CANT_REPLICATE_ANONYMOUS_WITH_GTID_MODE_ON 3115 "
        "OBSOLETE_ER_CANT_REPLICATE_GTID_WITH_GTID_MODE_OFF 3116 "
        "ER_CANT_ENFORCE_GTID_CONSISTENCY_WITH_ONGOING_GTID_VIOLATING_TX 3117 "
        "ER_ENFORCE_GTID_CONSISTENCY_WARN_WITH_ONGOING_GTID_VIOLATING_TX 3129 "
        "ER_WARN_ON_MODIFYING_GTID_EXECUTED_TABLE 3138 ER_CANT_SET_VARIABLE_WHEN_OWNING_GTID 3139 "
        "ER_SLAVE_CHANNEL_OPERATION_NOT_ALLOWED 3173 "
        "ER_CANT_WAIT_FOR_EXECUTED_GTID_SET_WHILE_OWNING_A_GTID 3176 "
        "ER_ERROR_ON_MODIFYING_GTID_EXECUTED_TABLE 3179 ER_MASTER_KEY_ROTATION_NOT_SUPPORTED_BY_SE "
        "3180 OBSOLETE_ER_MASTER_KEY_ROTATION_ERROR_BY_SE 3181 ER_MASTER_KEY_ROTATION_BINLOG_FAILED "
        "3182 ER_MASTER_KEY_ROTATION_SE_UNAVAILABLE 3190 ER_CANT_RESET_MASTER 3191 "
        "ER_GROUP_REPLICATION_MAX_GROUP_SIZE 3199 ER_BINLOG_UNSAFE_XA 3226 "
        "OBSOLETE_ER_XA_REPLICATION_FILTERS 3546 ER_CANT_SET_GTID_PURGED_DUE_SETS_CONSTRAINTS 3567 "
        "ER_RESET_MASTER_TO_VALUE_OUT_OF_RANGE 3570 ER_BINLOG_UNSAFE_SKIP_LOCKED 3571 "
        "ER_BINLOG_UNSAFE_NOWAIT 3633 ER_CLONE_DDL_IN_PROGRESS 3645 "
        "ER_WARN_BINLOG_PARTIAL_UPDATES_DISABLED 3646 ER_WARN_BINLOG_V1_ROW_EVENTS_DISABLED 3647 "
        "ER_WARN_BINLOG_PARTIAL_UPDATES_SUGGESTS_PARTIAL_IMAGES 3663 "
        "ER_GROUP_REPLICATION_COMMAND_FAILURE 3683 ER_BINLOG_EXPIRE_LOG_DAYS_AND_SECS_USED_TOGETHER "
        "3725 ER_SLAVE_POSSIBLY_DIVERGED_AFTER_DDL 3741 ER_TRANSFORM_SOURCE_SRS_NOT_SUPPORTED 3745 "
        "ER_TEMP_TABLE_PREVENTS_SWITCH_SESSION_BINLOG_FORMAT 3746 "
        "ER_TEMP_TABLE_PREVENTS_SWITCH_GLOBAL_BINLOG_FORMAT 3747 "
        "ER_RUNNING_APPLIER_PREVENTS_SWITCH_GLOBAL_BINLOG_FORMAT 3748 "
        "ER_CLIENT_GTID_UNSAFE_CREATE_DROP_TEMP_TABLE_IN_TRX_IN_SBR 3775 "
        "ER_GTID_UNSAFE_ALTER_ADD_COL_WITH_DEFAULT_EXPRESSION 3784 "
        "ER_RPL_ENCRYPTION_FAILED_TO_FETCH_KEY 3786 ER_RPL_ENCRYPTION_KEYRING_INVALID_KEY 3787 "
        "ER_RPL_ENCRYPTION_HEADER_ERROR 3788 ER_RPL_ENCRYPTION_FAILED_TO_ROTATE_LOGS 3790 "
        "ER_RPL_ENCRYPTION_FAILED_TO_GENERATE_KEY 3791 ER_RPL_ENCRYPTION_FAILED_TO_STORE_KEY 3792 "
        "ER_RPL_ENCRYPTION_FAILED_TO_REMOVE_KEY 3793 ER_RPL_ENCRYPTION_UNABLE_TO_CHANGE_OPTION 3794 "
        "ER_RPL_ENCRYPTION_MASTER_KEY_RECOVERY_FAILED 3801 ER_RPL_ENCRYPTION_FAILED_TO_ENCRYPT 3805 "
        "ER_RPL_ENCRYPTION_CANNOT_ROTATE_BINLOG_MASTER_KEY 3806 "
        "ER_BINLOG_MASTER_KEY_RECOVERY_OUT_OF_COMBINATION 3807 "
        "ER_BINLOG_MASTER_KEY_ROTATION_FAIL_TO_OPERATE_KEY 3808 "
        "ER_BINLOG_MASTER_KEY_ROTATION_FAIL_TO_ROTATE_LOGS 3809 "
        "ER_BINLOG_MASTER_KEY_ROTATION_FAIL_TO_REENCRYPT_LOG 3810 "
        "ER_BINLOG_MASTER_KEY_ROTATION_FAIL_TO_CLEANUP_UNUSED_KEYS 3811 "
        "ER_BINLOG_MASTER_KEY_ROTATION_FAIL_TO_CLEANUP_AUX_KEY 3857 "
        "ER_RPL_CANT_STOP_SLAVE_WHILE_LOCKED_BACKUP 3862 ER_CLONE_DONOR 3863 ER_CLONE_PROTOCOL 3864 "
        "ER_CLONE_DONOR_VERSION 3865 ER_CLONE_OS 3866 ER_CLONE_PLATFORM 3867 ER_CLONE_CHARSET 3868 "
        "ER_CLONE_CONFIG 3869 ER_CLONE_SYS_CONFIG 3870 ER_CLONE_PLUGIN_MATCH 3871 ER_CLONE_LOOPBACK "
        "3872 ER_CLONE_ENCRYPTION 3873 ER_CLONE_DISK_SPACE 3875 ER_CLONE_DISALLOWED 3881 "
        "ER_DA_RPL_GTID_TABLE_CANNOT_OPEN 3898 ER_XA_REPLICATION_FILTERS 3910 ER_GRP_RPL_UDF_ERROR "
        "3911 ER_UPDATE_GTID_PURGED_WITH_GR 3916 ER_DA_GRP_RPL_STARTED_AUTO_REJOIN 3919 "
        "ER_GRP_RPL_MESSAGE_SERVICE_INIT_FAILURE 3920 "
        "ER_CHANGE_MASTER_WRONG_COMPRESSION_ALGORITHM_CLIENT 3921 "
        "ER_CHANGE_MASTER_WRONG_COMPRESSION_LEVEL_CLIENT 3924 "
        "ER_CHANGE_MASTER_WRONG_COMPRESSION_ALGORITHM_LIST_CLIENT 3957 ER_CLONE_NETWORK_PACKET 3970 "
        "ER_GROUP_REPLICATION_USER_EMPTY_MSG 3971 ER_GROUP_REPLICATION_USER_MANDATORY_MSG 3974 "
        "ER_DA_GRP_RPL_RECOVERY_ENDPOINT_FORMAT 3975 ER_DA_GRP_RPL_RECOVERY_ENDPOINT_INVALID 3990 "
        "ER_RPL_ASYNC_RECONNECT_GTID_MODE_OFF 3991 ER_RPL_ASYNC_RECONNECT_AUTO_POSITION_OFF 3992 "
        "ER_DISABLE_GTID_MODE_REQUIRES_ASYNC_RECONNECT_OFF 4010 "
        "ER_BINLOG_UNSAFE_ACL_TABLE_READ_IN_DML_DDL 4012 ER_STARTING_REPLICA_MONITOR_IO_THREAD 4013 "
        "ER_CANT_USE_ANONYMOUS_TO_GTID_WITH_GTID_MODE_NOT_ON 4014 "
        "ER_CANT_COMBINE_ANONYMOUS_TO_GTID_AND_AUTOPOSITION 4015 "
        "ER_ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_REQUIRES_GTID_MODE_ON 4016 "
        "ER_SQL_REPLICA_SKIP_COUNTER_USED_WITH_GTID_MODE_ON 4017 "
        "ER_USING_ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_AS_LOCAL_OR_UUID 4018 "
        "ER_CANT_SET_ANONYMOUS_TO_GTID_AND_WAIT_UNTIL_SQL_THD_AFTER_GTIDS 4019 "
        "ER_CANT_SET_SQL_AFTER_OR_BEFORE_GTIDS_WITH_ANONYMOUS_TO_GTID 4020 "
        "ER_ANONYMOUS_TO_GTID_UUID_SAME_AS_GROUP_NAME 4022 ER_GRP_RPL_RECOVERY_CHANNEL_STILL_RUNNING "
        "4037 ER_CHANGE_RPL_SRC_WRONG_COMPRESSION_ALGORITHM_SIZE 4038 "
        "ER_WARN_DEPRECATED_TLS_VERSION_FOR_CHANNEL_CLI 4040 "
        "ER_ANONYMOUS_TO_GTID_UUID_SAME_AS_VIEW_CHANGE_UUID 4041 "
        "ER_GRP_RPL_VIEW_CHANGE_UUID_FAIL_GET_VARIABLE 4047 "
        "ER_WARN_SQL_AFTER_MTS_GAPS_GAP_NOT_CALCULATED 4050 "
        "ER_GRP_RPL_FAILOVER_CHANNEL_STATUS_PROPAGATION 4065 "
        "ER_CHANGE_REPLICATION_SOURCE_NO_OPTIONS_FOR_GTID_ONLY 4066 "
        "ER_CHANGE_REP_SOURCE_CANT_DISABLE_REQ_ROW_FORMAT_WITH_GTID_ONLY 4067 "
        "ER_CHANGE_REP_SOURCE_CANT_DISABLE_AUTO_POSITION_WITH_GTID_ONLY 4068 "
        "ER_CHANGE_REP_SOURCE_CANT_DISABLE_GTID_ONLY_WITHOUT_POSITIONS 4069 "
        "ER_CHANGE_REP_SOURCE_CANT_DISABLE_AUTO_POS_WITHOUT_POSITIONS 4070 "
        "ER_CHANGE_REP_SOURCE_GR_CHANNEL_WITH_GTID_MODE_NOT_ON 4071 "
        "ER_CANT_USE_GTID_ONLY_WITH_GTID_MODE_NOT_ON 4072 "
        "ER_WARN_C_DISABLE_GTID_ONLY_WITH_SOURCE_AUTO_POS_INVALID_POS~~\n"
        "UNCLASSIFIED~~1004 ER_CANT_CREATE_FILE 1005 ER_CANT_CREATE_TABLE 1006 ER_CANT_CREATE_DB "
        "1009 OBSOLETE_ER_DB_DROP_DELETE 1010 ER_DB_DROP_RMDIR 1011 OBSOLETE_ER_CANT_DELETE_FILE "
        "1013 ER_CANT_GET_STAT 1014 OBSOLETE_ER_CANT_GET_WD 1016 ER_CANT_OPEN_FILE 1018 "
        "ER_CANT_READ_DIR 1019 OBSOLETE_ER_CANT_SET_WD 1023 OBSOLETE_ER_ERROR_ON_CLOSE 1024 "
        "ER_ERROR_ON_READ 1025 ER_ERROR_ON_RENAME 1026 ER_ERROR_ON_WRITE 1030 ER_GET_ERRNO 1039 "
        "OBSOLETE_ER_UNEXPECTED_EOF 1085 ER_TEXTFILE_NOT_READABLE 1105 ER_UNKNOWN_ERROR 1123 "
        "ER_CANT_INITIALIZE_UDF 1124 ER_UDF_NO_PATHS 1126 ER_CANT_OPEN_LIBRARY 1137 "
        "ER_CANT_REOPEN_TABLE 1180 ER_ERROR_DURING_COMMIT 1181 ER_ERROR_DURING_ROLLBACK 1182 "
        "ER_ERROR_DURING_FLUSH_LOGS 1183 OBSOLETE_ER_ERROR_DURING_CHECKPOINT 1215 "
        "ER_CANNOT_ADD_FOREIGN 1258 ER_ZLIB_Z_BUF_ERROR 1259 ER_ZLIB_Z_DATA_ERROR 1296 ER_GET_ERRMSG "
        "1306 ER_SP_DROP_FAILED 1307 ER_SP_STORE_FAILED 1315 ER_UPDATE_LOG_DEPRECATED_IGNORED 1316 "
        "ER_UPDATE_LOG_DEPRECATED_TRANSLATED 1369 ER_VIEW_CHECK_FAILED 1374 ER_IO_ERR_LOG_INDEX_READ "
        "1376 ER_FSEEK_FAIL 1383 OBSOLETE_ER_WSAS_FAILED 1388 OBSOLETE_ER_NO_FILE_MAPPING 1404 "
        "ER_PROC_AUTO_GRANT_FAIL 1405 ER_PROC_AUTO_REVOKE_FAIL 1410 ER_CANT_CREATE_USER_WITH_GRANT "
        "1416 ER_CANT_CREATE_GEOMETRY_OBJECT 1432 ER_FOREIGN_DATA_STRING_INVALID_CANT_CREATE 1434 "
        "OBSOLETE_ER_CANT_CREATE_FEDERATED_TABLE 1445 ER_SP_CANT_SET_AUTOCOMMIT 1455 "
        "ER_OLD_FILE_FORMAT 1501 ER_CANT_CREATE_HANDLER_FILE 1513 ER_ADD_PARTITION_SUBPART_ERROR "
        "1514 ER_ADD_PARTITION_NO_NEW_PARTITION 1521 ER_PARTITION_FUNCTION_FAILURE 1528 "
        "ER_CREATE_FILEGROUP_FAILED 1529 ER_DROP_FILEGROUP_FAILED 1533 ER_ALTER_FILEGROUP_FAILED "
        "1538 OBSOLETE_ER_EVENT_STORE_FAILED 1541 OBSOLETE_ER_EVENT_DROP_FAILED 1545 "
        "OBSOLETE_ER_EVENT_OPEN_TABLE_FAILED 1555 OBSOLETE_ER_CANT_WRITE_LOCK_LOG_TABLE 1565 "
        "OBSOLETE_ER_DDL_LOG_ERROR_UNUSED 1579 ER_UNSUPORTED_LOG_ENGINE 1580 ER_BAD_LOG_STATEMENT "
        "1581 ER_CANT_RENAME_LOG_TABLE 1606 ER_TRG_CANT_OPEN_TABLE 1607 "
        "OBSOLETE_ER_CANT_CREATE_SROUTINE 1619 ER_PLUGIN_DELETE_BUILTIN 1620 WARN_PLUGIN_BUSY 1694 "
        "ER_INSIDE_TRANSACTION_PREVENTS_SWITCH_SQL_LOG_BIN 1695 "
        "ER_STORED_FUNCTION_PREVENTS_SWITCH_SQL_LOG_BIN 1696 ER_FAILED_READ_FROM_PAR_FILE 1702 "
        "ER_PLUGIN_IS_PERMANENT 1720 ER_PLUGIN_NO_UNINSTALL 1721 ER_PLUGIN_NO_INSTALL 1743 "
        "OBSOLETE_ER_NETWORK_READ_EVENT_CHECKSUM_FAILURE 1795 ER_INNODB_FT_LIMIT 1796 "
        "ER_INNODB_NO_FT_TEMP_TABLE 1797 ER_INNODB_FT_WRONG_DOCID_COLUMN 1798 "
        "ER_INNODB_FT_WRONG_DOCID_INDEX 1799 ER_INNODB_ONLINE_LOG_TOO_BIG 1810 ER_IO_READ_ERROR 1811 "
        "ER_IO_WRITE_ERROR 1815 ER_INTERNAL_ERROR 1816 ER_INNODB_IMPORT_ERROR 1823 "
        "ER_FK_FAIL_ADD_SYSTEM 1865 OBSOLETE_ER_INNODB_NO_FT_USES_PARSER 1868 "
        "ER_WARN_PURGE_LOG_IS_ACTIVE 1878 ER_TEMP_FILE_WRITE_FAILURE 1879 "
        "ER_INNODB_FT_AUX_NOT_HEX_ID 1881 ER_INNODB_FORCED_RECOVERY 1883 "
        "ER_PLUGIN_CANNOT_BE_UNINSTALLED 2000 CR_UNKNOWN_ERROR 2014 CR_COMMANDS_OUT_OF_SYNC 2019 "
        "CR_CANT_READ_CHARSET 2027 CR_MALFORMED_PACKET 2063 CR_FILE_NAME_TOO_LONG 2068 "
        "CR_LOAD_DATA_LOCAL_INFILE_REJECTED 2069 CR_LOAD_DATA_LOCAL_INFILE_REALPATH_FAIL 2070 "
        "CR_DNS_SRV_LOOKUP_FAILED 3019 ER_INNODB_UNDO_LOG_FULL 3035 ER_GIS_UNKNOWN_ERROR 3119 "
        "ER_WRONG_TABLESPACE_NAME 3120 ER_TABLESPACE_IS_NOT_EMPTY 3121 ER_WRONG_FILE_NAME 3136 "
        "ER_VTOKEN_PLUGIN_TOKEN_MISMATCH 3174 ER_CANNOT_ADD_FOREIGN_BASE_COL_VIRTUAL 3183 "
        "ER_TABLESPACE_CANNOT_ENCRYPT 3184 ER_INVALID_ENCRYPTION_OPTION 3185 "
        "ER_CANNOT_FIND_KEY_IN_KEYRING 3187 ER_UNSUPPORTED_ALTER_ENCRYPTION_INPLACE 3188 "
        "ER_KEYRING_UDF_KEYRING_SERVICE_ERROR 3192 ER_CANNOT_ADD_FOREIGN_BASE_COL_STORED 3194 "
        "OBSOLETE_ER_PARTITION_ENGINE_DEPRECATED_FOR_TABLE 3198 ER_KEYRING_AWS_UDF_AWS_KMS_ERROR "
        "3200 ER_UDF_ERROR 3201 ER_KEYRING_MIGRATION_FAILURE 3203 ER_KEYRING_MIGRATION_STATUS 3204 "
        "OBSOLETE_ER_PLUGIN_FAILED_TO_OPEN_TABLES 3205 OBSOLETE_ER_PLUGIN_FAILED_TO_OPEN_TABLE 3206 "
        "OBSOLETE_ER_AUDIT_LOG_NO_KEYRING_PLUGIN_INSTALLED 3208 "
        "OBSOLETE_ER_AUDIT_LOG_COULD_NOT_CREATE_AES_KEY 3210 "
        "OBSOLETE_ER_AUDIT_LOG_JSON_FILTERING_NOT_ENABLED 3213 "
        "OBSOLETE_ER_COULD_NOT_REINITIALIZE_AUDIT_LOG_FILTERS 3214 "
        "OBSOLETE_ER_AUDIT_LOG_UDF_INVALID_ARGUMENT_TYPE 3215 "
        "OBSOLETE_ER_AUDIT_LOG_UDF_INVALID_ARGUMENT_COUNT 3216 "
        "OBSOLETE_ER_AUDIT_LOG_HAS_NOT_BEEN_INSTALLED 3217 "
        "OBSOLETE_ER_AUDIT_LOG_UDF_READ_INVALID_MAX_ARRAY_LENGTH_ARG_TYPE 3218 "
        "ER_AUDIT_LOG_UDF_READ_INVALID_MAX_ARRAY_LENGTH_ARG_VALUE 3219 "
        "OBSOLETE_ER_AUDIT_LOG_JSON_FILTER_PARSING_ERROR 3220 "
        "OBSOLETE_ER_AUDIT_LOG_JSON_FILTER_NAME_CANNOT_BE_EMPTY 3221 "
        "OBSOLETE_ER_AUDIT_LOG_JSON_USER_NAME_CANNOT_BE_EMPTY 3223 "
        "OBSOLETE_ER_AUDIT_LOG_USER_FIRST_CHARACTER_MUST_BE_ALPHANUMERIC 3224 "
        "OBSOLETE_ER_AUDIT_LOG_USER_NAME_INVALID_CHARACTER 3225 "
        "OBSOLETE_ER_AUDIT_LOG_HOST_NAME_INVALID_CHARACTER 3227 OBSOLETE_ER_CANT_OPEN_ERROR_LOG 3501 "
        "ER_ACL_OPERATION_FAILED 3506 ER_INVALID_DD_OBJECT 3507 ER_UPDATING_DD_TABLE 3508 "
        "ER_INVALID_DD_OBJECT_ID 3509 ER_INVALID_DD_OBJECT_NAME 3512 ER_SP_LOAD_FAILED 3516 "
        "ER_UNEXPECTED_GEOMETRY_TYPE 3524 ER_FAILED_ROLE_GRANT 3526 ER_FAILED_DEFAULT_ROLES 3527 "
        "ER_COMPONENTS_NO_SCHEME 3528 ER_COMPONENTS_NO_SCHEME_SERVICE 3529 ER_COMPONENTS_CANT_LOAD "
        "3531 ER_FAILED_REVOKE_ROLE 3533 ER_COMPONENTS_CANT_ACQUIRE_SERVICE_IMPLEMENTATION 3534 "
        "ER_COMPONENTS_CANT_SATISFY_DEPENDENCY 3535 "
        "ER_COMPONENTS_LOAD_CANT_REGISTER_SERVICE_IMPLEMENTATION 3536 "
        "ER_COMPONENTS_LOAD_CANT_INITIALIZE 3538 ER_COMPONENTS_UNLOAD_CANT_DEINITIALIZE 3539 "
        "ER_COMPONENTS_CANT_RELEASE_SERVICE 3540 ER_COMPONENTS_UNLOAD_CANT_UNREGISTER_SERVICE 3541 "
        "ER_COMPONENTS_CANT_UNLOAD 3543 ER_COMPONENT_TABLE_INCORRECT 3544 "
        "ER_COMPONENT_MANIPULATE_ROW_FAILED 3545 ER_COMPONENTS_UNLOAD_DUPLICATE_IN_GROUP 3553 "
        "ER_NO_SYSTEM_TABLESPACE_ACCESS 3603 ER_TOO_LONG_TABLESPACE_COMMENT 3604 "
        "ER_ENGINE_CANT_DROP_TABLE 3606 ER_TABLESPACE_DUP_FILENAME 3607 ER_DB_DROP_RMDIR2 3608 "
        "ER_IMP_NO_FILES_MATCHED 3611 ER_IMP_INCOMPATIBLE_MYSQLD_VERSION 3612 "
        "ER_IMP_INCOMPATIBLE_DD_VERSION 3613 ER_IMP_INCOMPATIBLE_SDI_VERSION 3621 "
        "ER_COMPONENT_FILTER_FLABBERGASTED 3623 ER_UDF_DROP_DYNAMICALLY_REGISTERED 3635 "
        "ER_APPLIER_LOG_EVENT_VALIDATION_ERROR 3642 ER_TABLESPACE_ENGINE_MISMATCH 3664 "
        "ER_SDI_OPERATION_FAILED 3680 ER_SCHEMA_DIR_CREATE_FAILED 3687 ER_REGEXP_INTERNAL_ERROR 3701 "
        "ER_CANT_SET_ERROR_LOG_SERVICE 3702 ER_EMPTY_PIPELINE_FOR_ERROR_LOG_SERVICE 3703 "
        "ER_COMPONENT_FILTER_DIAGNOSTICS 3707 ER_RESTART_SERVER_FAILED 3722 "
        "ER_UNABLE_TO_COLLECT_LOG_STATUS 3723 ER_RESERVED_TABLESPACE_NAME 3735 "
        "ER_CANT_SET_ERROR_SUPPRESSION_LIST 3749 OBSOLETE_ER_XA_CANT_CREATE_MDL_BACKUP 3795 "
        "ER_SLOW_LOG_MODE_IGNORED_WHEN_NOT_LOGGING_TO_FILE 3825 ER_INVALID_ENCRYPTION_REQUEST 3826 "
        "ER_CANNOT_SET_TABLE_ENCRYPTION 3827 ER_CANNOT_SET_DATABASE_ENCRYPTION 3828 "
        "ER_CANNOT_SET_TABLESPACE_ENCRYPTION 3829 ER_TABLESPACE_CANNOT_BE_ENCRYPTED 3830 "
        "ER_TABLESPACE_CANNOT_BE_DECRYPTED 3831 ER_TABLESPACE_TYPE_UNKNOWN 3832 "
        "ER_TARGET_TABLESPACE_UNENCRYPTED 3833 ER_CANNOT_USE_ENCRYPTION_CLAUSE 3838 "
        "ER_PLUGIN_NOT_EARLY 3839 ER_INNODB_REDO_LOG_ARCHIVE_START_SUBDIR_PATH 3841 "
        "ER_INNODB_REDO_LOG_ARCHIVE_DIRS_INVALID 3843 ER_INNODB_REDO_LOG_ARCHIVE_DIR_EMPTY 3845 "
        "ER_INNODB_REDO_LOG_ARCHIVE_DIR_CLASH 3846 ER_INNODB_REDO_LOG_ARCHIVE_DIR_PERMISSIONS 3847 "
        "ER_INNODB_REDO_LOG_ARCHIVE_FILE_CREATE 3848 ER_INNODB_REDO_LOG_ARCHIVE_ACTIVE 3849 "
        "ER_INNODB_REDO_LOG_ARCHIVE_INACTIVE 3850 ER_INNODB_REDO_LOG_ARCHIVE_FAILED 3851 "
        "ER_INNODB_REDO_LOG_ARCHIVE_SESSION 3877 ER_SECONDARY_ENGINE_PLUGIN 3883 "
        "ER_DA_PLUGIN_INSTALL_ERROR 3885 ER_DA_UNKNOWN_ERROR_NUMBER 3890 ER_SECONDARY_ENGINE_DDL "
        "3930 ER_CLIENT_KEYRING_UDF_KEY_INVALID 3931 ER_CLIENT_KEYRING_UDF_KEY_TYPE_INVALID 3932 "
        "ER_CLIENT_KEYRING_UDF_KEY_TOO_LONG 3933 ER_CLIENT_KEYRING_UDF_KEY_TYPE_TOO_LONG 3935 "
        "ER_DA_UDF_INVALID_CHARSET_SPECIFIED 3936 ER_DA_UDF_INVALID_CHARSET 3937 "
        "ER_DA_UDF_INVALID_COLLATION 3938 ER_DA_UDF_INVALID_EXTENSION_ARGUMENT_TYPE 3944 "
        "ER_CLIENT_QUERY_FAILURE_INVALID_NON_ROW_FORMAT 3946 "
        "ER_FAILED_TO_DETERMINE_IF_ROLE_IS_MANDATORY 3947 ER_FAILED_TO_FETCH_MANDATORY_ROLE_LIST "
        "3949 ER_IMP_INCOMPATIBLE_CFG_VERSION 3951 ER_DA_UDF_INVALID_ARGUMENT_TO_SET_CHARSET 3952 "
        "ER_DA_UDF_INVALID_RETURN_TYPE_TO_SET_CHARSET 3961 "
        "ER_WARN_DEPRECATED_JSON_TABLE_ON_ERROR_ON_EMPTY 3981 ER_ENGINE_ATTRIBUTE_NOT_SUPPORTED 3983 "
        "ER_INNODB_REDO_DISABLED 3984 ER_INNODB_REDO_ARCHIVING_ENABLED 4001 "
        "ER_DA_NO_ERROR_LOG_PARSER_CONFIGURED 4002 ER_DA_ERROR_LOG_TABLE_DISABLED 4003 "
        "ER_DA_ERROR_LOG_MULTIPLE_FILTERS 4004 ER_DA_CANT_OPEN_ERROR_LOG 4023 "
        "ER_INNODB_INVALID_AUTOEXTEND_SIZE_VALUE 4024 ER_INNODB_INCOMPATIBLE_WITH_TABLESPACE 4025 "
        "ER_INNODB_AUTOEXTEND_SIZE_OUT_OF_RANGE 4029 ER_INNODB_COMPRESSION_FAILURE 4035 "
        "ER_RELOAD_KEYRING_FAILURE 4042 ER_WARN_ADUIT_LOG_MAX_SIZE_AND_PRUNE_SECONDS 4043 "
        "ER_WARN_ADUIT_LOG_MAX_SIZE_CLOSE_TO_ROTATE_ON_SIZE 4045 ER_INSTALL_PLUGIN_CONFLICT_CLIENT "
        "4046 ER_DA_ERROR_LOG_COMPONENT_FLUSH_FAILED 4051 "
        "ER_WARN_AUDIT_LOG_FORMAT_UNIX_TIMESTAMP_ONLY_WHEN_JSON 4054 "
        "ER_INVALID_PLUGIN_FOR_REGISTRATION 4055 ER_PLUGIN_REQUIRES_REGISTRATION 4059 "
        "ER_PLUGIN_REGISTRATION_DONE 4061 ER_USER_REGISTRATION_FAILED 5001 "
        "ER_X_CAPABILITIES_PREPARE_FAILED 5010 ER_X_SERVICE_ERROR 5159 ER_X_EXPECT_NO_ERROR_FAILED "
        "5171 ER_X_DECOMPRESSION_FAILED~~\n"
        "UNCLASSIFIED~~1000..1003 1028 1077..1078 1087..1088 1092 1120 1134 1150..1151 1165 1174 "
        "1185 1187 1196 1208..1209 1212 1245 1261..1266 1268 1276 1282 1285 1287 1293 1299 1301 1346 "
        "1349 1354..1355 1358 1372 1384..1387 1389 1420 1438 1446 1468..1469 1482..1483 1487 1489 "
        "1522 1540 1546 1548..1550 1552 1554 1559 1570 1573..1574 1577 1601 1608 1611 1616 1618 "
        "1631..1636 1638 1642 1647 1651 1669 1681 1684 1691 1708 1739 1751..1752 1771 1834 1852 1870 "
        "1887 2009 2049 2065 3002 3005 3010 3022 3027 3089..3090 3123..3127 3195..3196 3228..3229 "
        "3515 3542 3597 3600 3614 3674 3715 3719..3720 3751..3752 3777..3779 3824 3856 3858..3861 "
        "3909 3956 3962..3965 3969 3996 4000 4009 4030~~\n"
        "BLOCKED-~~1031 1046..1048 1052 1055..1061 1063..1075 1083..1084 1089..1091 1096..1104 "
        "1107..1108 1110..1113 1115..1118 1121 1136 1138..1140 1144 1149 1162..1164 1166..1168 "
        "1170..1173 1175 1178..1179 1204 1210 1214 1220..1225 1228..1235 1238..1242 1246..1250 "
        "1252..1253 1256 1260 1267 1269..1273 1279..1281 1283..1284 1288..1289 1291..1292 1294..1295 "
        "1297..1298 1300 1302..1303 1308..1314 1318..1338 1340..1345 1347..1348 1350..1353 "
        "1356..1357 1361..1362 1364..1368 1381..1382 1390..1395 1406..1407 1409 1411 1413..1415 "
        "1421..1430 1433 1435 1437 1439 1441..1444 1447..1448 1450 1453..1454 1456 1458 1460 "
        "1462..1466 1470..1475 1478..1481 1484..1486 1490..1497 1499..1500 1502..1506 1508..1512 "
        "1515 1517 1519..1520 1523 1525..1527 1531..1532 1542..1543 1551 1553 1558 1562..1564 "
        "1566..1568 1571..1572 1575..1576 1578 1582..1585 1588..1589 1591 1599..1600 1603..1605 1621 "
        "1626..1629 1640..1641 1644..1646 1648..1649 1652..1660 1676 1680 1682..1683 1687..1688 1690 "
        "1697 1701 1709..1711 1713 1726 1728 1731..1734 1736..1737 1740 1746..1748 1757..1759 "
        "1764..1766 1769 1791 1793 1800..1801 1808..1809 1818 1821..1822 1824..1826 1828..1833 1835 "
        "1838 1845..1851 1853..1857 1860..1861 1863 1880 1882 2007 2010 2020..2021 2028..2032 "
        "2034..2036 2048 2050..2054 2056..2058 2060 2062 2066 3004 3007..3009 3012..3013 3018 3020 "
        "3025..3026 3028..3029 3033..3034 3036..3055 3057 3059..3061 3064..3066 3069 3071..3073 "
        "3087..3088 3098..3099 3102..3110 3122 3128 3130 3134..3135 3140..3158 3161 3164..3167 3175 "
        "3177..3178 3189 3193 3197 3230 3500 3502 3504..3505 3511 3513..3514 3517 3520..3522 3525 "
        "3532 3547 3549..3552 3554..3564 3566 3568..3569 3573..3578 3580..3596 3598..3599 3601..3602 "
        "3616..3618 3620 3622 3624..3628 3632 3636..3637 3640..3641 3643..3644 3648 3652..3655 "
        "3658..3660 3662 3666..3670 3672..3673 3676..3677 3681..3682 3684..3686 3688..3695 "
        "3697..3700 3704..3706 3709..3711 3714 3716..3718 3721 3724 3726..3734 3736..3740 3742 3750 "
        "3753..3774 3776 3780 3783 3796..3800 3802..3804 3812..3820 3822..3823 3834..3835 3837 "
        "3852..3855 3876 3882 3884 3886..3889 3896..3897 3899..3900 3903..3908 3912..3913 3917..3918 "
        "3922..3923 3934 3939 3941..3943 3945 3948 3950 3953..3954 3959..3960 3967..3968 3973 "
        "3976..3980 3982 3986..3989 3993..3995 3997..3999 4005 4007..4008 4021 4026..4028 4032..4034 "
        "4039 4044 4048..4049 4053 4060 4073 5000 5003..5009 5011..5012 5014..5053 5110..5112 5114 "
        "5116 5120..5121 5123..5151 5153..5158 5160..5165 5169..5170 5174..5178 5180 5182~~\n"
        "\n"
        "aws~aws amazonaws.com~botocore boto3 aiobotocore~\n"
        "THROTTLED~~Throttling ThrottlingException ThrottledException RequestThrottledException "
        "TooManyRequestsException ProvisionedThroughputExceededException RequestLimitExceeded "
        "BandwidthLimitExceeded LimitExceededException RequestThrottled SlowDown "
        "PriorRequestNotComplete EC2ThrottledException TransactionInProgressException~~\n"
        "THROTTLED~~*Throttl* TooManyRequests* *RateExceeded* *RequestLimit* *ThroughputExceeded* "
        "*TooBusy* *Busy *BusyException *420Exception *RequestRate* RateLimit* *RateLimit* "
        "TooManyRequest* TooManyConcurrent* *ConcurrentRuns* *Capacity*Unavailable* *SendingRate* "
        "KmsThrottled*~~\n"
        "TRANSIENT~~RequestTimeout RequestTimeoutException InternalError BadDigest *Timeout* "
        "*TimedOut*~~\n"
        "BLOCKED~~ExpiredToken* *TokenExpired* InvalidClientTokenId SignatureDoesNotMatch "
        "InvalidSignature* UnrecognizedClient* IncompleteSignature* AuthFailure *Authentication* "
        "*Unauthenticated* RequestTimeTooSkewed RequestExpired NotAuthorized* InvalidAccessKeyId "
        "InvalidToken* InvalidIdentityToken* AuthException Unauthorized* UnauthorizedOperation "
        "OAuth* IDPRejected* PasswordReset* *Credential* InvalidSecret* InvalidRefreshToken* *MFA* "
        "*SigningKey*~~\n"
        "BLOCKED~~AccessDenied* *AccessDenied* *Forbidden* *NotAuthorized* *Unauthorized* "
        "*Permission* *Denied* OptInRequired *Subscription* *SubscriptionRequired* *NotSubscribed* "
        "*OptIn* OptedOut* *Suspended* *Authoriz* *Blocked* *AccountSendingPaused* *SendingPaused* "
        "*KMSAccess* KMSDisabled* KMSInvalidState* KMSNotFound* KMSInvalidKeyUsage* KMSOptIn* "
        "*KmsKey* *TermsAndConditions* *EndUserLicense* *Uninitialized* *LicenseUsage* *Entitlement* "
        "*UserDeleted*~~\n"
        "BLOCKED-~~*LimitExceeded* *QuotaExceeded* *Quota* *LimitReached* *Limit *LimitException "
        "*MaxNumber* *Exceeds* *ExceededException *Exceeded *TooMany* *Maximum* "
        "*Insufficient*Balance* *LimitsExceeded* *Full *FullException *LimitExceed* *MaximumLimit* "
        "*MaxLimit* *ExceedsLimit* *CapacityExceeded* *SizeLimit*~~\n"
        "CONFLICT~~ConditionalCheckFailed* TransactionConflict* TransactionCanceled* *Conflict* "
        "*AlreadyExist* *AlreadyIn* *Exists *ExistsException *ExistsFault *Duplicate* *Concurrent* "
        "*AlreadyOwned* *Idempoten* *OptimisticLock* PreconditionFailed* *PreconditionFailed* "
        "*Stale* *OutOfSync* *Mismatch* *Contention* *Outdated* *VersionMismatch* *Already* "
        "*StillReferenced* *LockedException *Locked *LockException *Collision* *Changed* "
        "*ControllerMoved* *OperationAborted* *TipOfSource* *Unchanged* *NoChange* ExpiredIterator* "
        "ExpiredNextToken* *IteratorExpired* *InvalidSequenceToken* *TokenMismatch* TrimmedData* "
        "*ResourceModified* *RevisionMismatch*~~\n"
        "DEPENDENCY~~*InUse* *InProgress* *Pending* DependencyViolation *NotReady* *NotAvailable* "
        "*NotYet* *IncorrectInstanceState *Incorrect*State* *Invalid*State *Invalid*StateFault "
        "*InvalidStateException *Invalid*StateException *StateException *StatusException *HasAssoc* "
        "*Associated* *NotEmpty* *NonEmpty* *NotInitialized* *Inactive* *NotActive* *Running* "
        "*Stopping* *Starting* *Transition* *Restoring* *Deleting* *Deleted* *Resuming* *Updating* "
        "*Creating* *Propagation* *Maintenance* *Executing* *Offline* *Ongoing* *Busy* *HasChild* "
        "*HasDepend* *Contains* *Dependen* *NotStabilized* *Not*State* *Attached* *IsNot*State* "
        "*Disabled*State* *Temporarily* *InvalidClusterState* *Finalizing* *NotStarted* *Paused* "
        "*Unmodifiable* *ActiveException *Deactivat* *Frozen* *Referenced* *Active "
        "InvalidLifecycleTransition*~~\n"
        "DEPENDENCY~~*NotFound* NoSuch* *NoSuch* *DoesNotExist* *DoesntExist* *NotExist* *Nonexist* "
        "*Unknown* *.NotFound *Missing* *NotRegistered* NoAvailable* NoRunning* *HasNo* "
        "NoAssociated* NoPublished* *Undefined* *NoLonger* *NotDefined* GoneException *Gone "
        "NoUpdate* NoSchedule* NoFree* *NoData* *NotAssociated* *NotConfigured* *Detached* "
        "*NotAttached* *NotLocated* *NotPresent* *UnableToFind* *Inaccessible* *NotConnected* *Ended "
        "*OutOfBounds* *Archived*~~\n"
        "DEPENDENCY~~*Insufficient* *Capacity* *ResourceNotAvailable* *OutOfCapacity* "
        "*Unavailab*Resource*~~\n"
        "TRANSIENT~~ServiceUnavailable* *Unavailable* InternalFailure *InternalServer* "
        "*InternalService* *InternalError* *Internal* *ServerException *ServerError* "
        "*ServerErrorException *ServiceException ServiceFailure* *ServiceFailure* *Connectivity* "
        "*Connection* *Unreachable* *Retryable* *Outage* *DependencyFailure* *IOException "
        "*EngineException *ServiceFault* *Network* *BadGateway* *Transient* *ServiceError*~~\n"
        "BLOCKED-~~*TooLarge* *TooLong* *TooBig* *Oversized* *TooSmall* *BatchRequest* *TooFew* "
        "*TooOld*~~\n"
        "BLOCKED-~~*Invalid* *Validation* *Malformed* *Unsupported* *NotSupported* *BadRequest* "
        "*Incompatible* *Illegal* *NotAllowed* *NotPermitted* *Unprocessable* *Required* *Parameter* "
        "*Argument* *Constraint* *Violation* *Policy* *Cannot* *Bad* *Disabled* *Reserved* "
        "*NotEnabled* *Enabled* *Incorrect* *Prohibited* *Restricted* *Disallowed* *Inconsistent* "
        "*Same* *Parse* *Parsing* *Unrecognized* *Empty* *Multiple* *Rejected* *Ambiguous* *Expir* "
        "*Not* *Unable* *Loop* *Recursive* *Last* *Protected* *Protection* *Undeletable* "
        "*Encryption* *Schema* *Expression* *Overlap* *Limit* *Confidence* *Immutable* *Encoding* "
        "*Format* *Type* *Name* *Incomplete* *Exclusive* *ReadOnly* *OutOf* *Unresolvable* "
        "*Override* *Syntax* *Irreversible* *Default*User* *PublicZone* *PartiallyDelegated* *Fips* "
        "*SnapStart* *Escalation* *Rules* *Registration* *Claim* *TLD* *ApiKey* *Specified* "
        "*Include* *Exclude*~~\n"
        "UNCLASSIFIED~~*Failed* *Failure* *Error* *Fault* *Exception *Aborted* *Cancel* *Lambda* "
        "*DryRun*~~\n"
        "\n"
        "kubernetes~kubernetes k8s.io~kubernetes lightkube kubernetes_asyncio kr8s pykube~http helm "
        "kubernetes\n"
        "DEPENDENCY~~~is being terminated|is being deleted|namespaceterminating~\n"
        "BLOCKED~~~exceeded quota|failed quota~\n"
        "BLOCKED~~~maximum \u2026 usage per|minimum \u2026 usage per~\n"
        "BLOCKED~~~is forbidden: user|\" cannot \u2026 resource \"|\" cannot \u2026 path \"~\n"
        "BLOCKED~~~violates podsecurity|is attempting to grant rbac permissions~\n"
        "BLOCKED~~~unable to validate against any security context~\n"
        "BLOCKED~~~the server has asked for the client to provide credentials~\n"
        "DEPENDENCY~~~failed calling webhook|failed to call webhook|no endpoints available for "
        "service~\n"
        "DEPENDENCY~~~conversion webhook for~\n"
        "BLOCKED~~~admission webhook \"\u2026\" denied the request|validatingadmissionpolicy "
        "'\u2026denied request~\n"
        "CONFLICT~~~the object has been modified|operation cannot be fulfilled on|apply failed with "
        "\u2026 conflict|storageerror: invalid object|precondition failed: uid~\n"
        "CONFLICT~~~the resourceversion for the provided|too old resource version|the provided "
        "continue parameter is too old~\n"
        "BLOCKED~~~field is immutable|may not change once set|cannot be modified once set|cannot be "
        "cleared once set|updates may not change fields other than|spec is immutable after creation~\n"
        "CONFLICT~~~\" already exists~\n"
        "DEPENDENCY~~~no matches for kind|could not find the requested resource|ensure crds are "
        "installed~\n"
        "BLOCKED~~~\" is invalid:|unknown field \"|unable to decode|failed to decode|strict decoding "
        "error~\n"
        "BLOCKED~~~error validating data|cannot unmarshal|must validate~\n"
        "TRANSIENT~~~the server is currently unable to handle the request|the server was unable to "
        "return a response in the time allotted|apiserver is shutting down|too large resource "
        "version~\n"
        "TRANSIENT~~~unable to connect to the server|cluster unreachable|client rate limiter "
        "wait|http2: client connection lost|net/http: tls handshake timeout~\n"
        "THROTTLED~~~too many requests, please try again later|the server has received too many "
        "requests|violate the pod's disruption budget~\n"
        "BLOCKED~~Unauthorized~~\n"
        "BLOCKED~~Forbidden~~\n"
        "GONE~GONE~NotFound~~\n"
        "DEPENDENCY~~NotFound~~\n"
        "CONFLICT~~AlreadyExists Conflict Gone Expired FieldManagerConflict~~\n"
        "TRANSIENT~~ServerTimeout Timeout ServiceUnavailable StorageReadError "
        "ResourceVersionTooLarge~~\n"
        "THROTTLED~~TooManyRequests~~\n"
        "DEPENDENCY~~NamespaceTerminating~~\n"
        "FATAL~OUR_INPUT~Invalid BadRequest RequestEntityTooLarge~~\n"
        "BLOCKED-~~Invalid BadRequest~~\n"
        "BLOCKED~~RequestEntityTooLarge~~\n"
        "BLOCKED-~~MethodNotAllowed NotAcceptable UnsupportedMediaType~~\n"
        "UNCLASSIFIED~~InternalError~~\n"
        "\n"
        "acme~acme~~http\n"
        "BLOCKED-~~~too many certificates|too many failed authorizations|too many new orders|too "
        "many new registrations~\n"
        "CONFLICT~~~acme:error:badnonce~\n"
        "CONFLICT~~badNonce urn:ietf:params:acme:error:badNonce urn:acme:error:badNonce~~\n"
        "THROTTLED~~~acme:error:ratelimited~\n"
        "THROTTLED~~rateLimited urn:ietf:params:acme:error:rateLimited urn:acme:error:rateLimited~~\n"
        "TRANSIENT~~~acme:error:serverinternal~\n"
        "TRANSIENT~~serverInternal urn:ietf:params:acme:error:serverInternal "
        "urn:acme:error:serverInternal~~\n"
        "DEPENDENCY~~~acme:error:connection|acme:error:dns|acme:error:tls|acme:error:incorrectresponse|acme:error:unauthorized|acme:error:ordernotready|acme:error:compound~\n"
        "DEPENDENCY~~connection urn:ietf:params:acme:error:connection urn:acme:error:connection dns "
        "urn:ietf:params:acme:error:dns urn:acme:error:dns tls urn:ietf:params:acme:error:tls "
        "urn:acme:error:tls incorrectResponse urn:ietf:params:acme:error:incorrectResponse "
        "urn:acme:error:incorrectResponse unauthorized urn:ietf:params:acme:error:unauthorized "
        "urn:acme:error:unauthorized orderNotReady urn:ietf:params:acme:error:orderNotReady "
        "urn:acme:error:orderNotReady compound urn:ietf:params:acme:error:compound "
        "urn:acme:error:compound~~\n"
        "BLOCKED~~~acme:error:caa|acme:error:rejectedidentifier|acme:error:unsupportedidentifier|acme:error:useractionrequired|acme:error:externalaccountrequired|acme:error:accountdoesnotexist|acme:error:unsupportedcontact|acme:error:invalidcontact|acme:error:badpublickey|acme:error:badcsr|acme:error:badrevocationreason|acme:error:badsignaturealgorithm|acme:error:alreadyrevoked~\n"
        "BLOCKED~~caa urn:ietf:params:acme:error:caa urn:acme:error:caa rejectedIdentifier "
        "urn:ietf:params:acme:error:rejectedIdentifier urn:acme:error:rejectedIdentifier "
        "unsupportedIdentifier urn:ietf:params:acme:error:unsupportedIdentifier "
        "urn:acme:error:unsupportedIdentifier userActionRequired "
        "urn:ietf:params:acme:error:userActionRequired urn:acme:error:userActionRequired "
        "externalAccountRequired urn:ietf:params:acme:error:externalAccountRequired "
        "urn:acme:error:externalAccountRequired accountDoesNotExist "
        "urn:ietf:params:acme:error:accountDoesNotExist urn:acme:error:accountDoesNotExist "
        "unsupportedContact urn:ietf:params:acme:error:unsupportedContact "
        "urn:acme:error:unsupportedContact invalidContact urn:ietf:params:acme:error:invalidContact "
        "urn:acme:error:invalidContact badPublicKey urn:ietf:params:acme:error:badPublicKey "
        "urn:acme:error:badPublicKey badCSR urn:ietf:params:acme:error:badCSR urn:acme:error:badCSR "
        "badRevocationReason urn:ietf:params:acme:error:badRevocationReason "
        "urn:acme:error:badRevocationReason badSignatureAlgorithm "
        "urn:ietf:params:acme:error:badSignatureAlgorithm urn:acme:error:badSignatureAlgorithm "
        "alreadyRevoked urn:ietf:params:acme:error:alreadyRevoked urn:acme:error:alreadyRevoked~~\n"
        "BLOCKED-~~~acme:error:malformed~\n"
        "BLOCKED-~~malformed urn:ietf:params:acme:error:malformed urn:acme:error:malformed~~\n"
        "CONFLICT~~~acme:error:autorenewalcanceled|acme:error:autorenewalexpired|acme:error:autorenewalcancellationinvalid~\n"
        "CONFLICT~~autoRenewalCanceled urn:ietf:params:acme:error:autoRenewalCanceled "
        "autoRenewalExpired urn:ietf:params:acme:error:autoRenewalExpired "
        "autoRenewalCancellationInvalid urn:ietf:params:acme:error:autoRenewalCancellationInvalid~~\n"
        "CONFLICT~~~acme:error:alreadyreplaced|acme:error:conflict~\n"
        "CONFLICT~~alreadyReplaced urn:ietf:params:acme:error:alreadyReplaced conflict "
        "urn:ietf:params:acme:error:conflict~~\n"
        "BLOCKED~~~acme:error:autorenewalrevocationnotsupported|acme:error:unknowndelegation|acme:error:onioncaarequired|acme:error:invalidprofile~\n"
        "BLOCKED~~autoRenewalRevocationNotSupported "
        "urn:ietf:params:acme:error:autoRenewalRevocationNotSupported unknownDelegation "
        "urn:ietf:params:acme:error:unknownDelegation onionCAARequired "
        "urn:ietf:params:acme:error:onionCAARequired invalidProfile "
        "urn:ietf:params:acme:error:invalidProfile~~\n"
        "\n"
        "etcd~~~grpc http go kubernetes helm\n"
        "TRANSIENT~~~etcdserver: not leader|etcdserver: no leader|etcdserver: leader "
        "changed|etcdserver: bad leader transferee|leadership transfer~\n"
        "TRANSIENT~~~etcdserver: request timed out|etcdserver: unhealthy cluster|etcdserver: server "
        "stopped|etcdserver: stopped by|etcdserver: not capable|rpc not supported for "
        "learner|etcdserver: watch canceled|etcdserver: request cancelled|in sync with leader~\n"
        "CONFLICT~~~has been compacted|is a future revision|duplicate watch id~\n"
        "BLOCKED~~~database space exceeded|etcdserver: no space~\n"
        "THROTTLED~~~etcdserver: too many requests~\n"
        "FATAL~~~etcdserver: request is too large|too many operations in txn|duplicate key given|key "
        "is not provided|value is provided|lease is provided|too large lease ttl|user name is "
        "empty|role name is empty|invalid sort option|range end~\n"
        "CONFLICT~~~requested lease not found|etcdserver: lease already exists~\n"
        "CONFLICT~~~member id already exist|peer urls already exists|user name already exists|role "
        "name already exists~\n"
        "DEPENDENCY~~~etcdserver: key not found|member not found|user name not found|role name not "
        "found|root user does not|role is not granted|permission is not granted to the role|not "
        "enough started members|can only promote a learner|too many learner~\n"
        "TRANSIENT~~~etcdserver: invalid auth token|revision of auth store is old~\n"
        "BLOCKED~~~etcdserver: authentication failed|etcdserver: permission denied|invalid auth "
        "management|authentication is not enabled|given member urls are invalid~\n"
        "FATAL~~~etcdserver: corrupt cluster|mvcc: revision corrupt~\n"
        "\n"
        "io~errno~~\n"
        "TRANSIENT~TRANSPORT~~~\n"
        "TRANSIENT~~ECONNREFUSED 111 ECONNRESET 104 ECONNABORTED 103 EPIPE 32 ETIMEDOUT 110 "
        "EHOSTUNREACH 113 EHOSTDOWN 112 ENETUNREACH 101 ENETDOWN 100 ENETRESET 102 ENOTCONN 107 "
        "ESHUTDOWN 108 ENONET 64 ENOLINK 67 ECOMM 70 EPROTO 71 EREMOTEIO 121 EREMCHG 78 ESTRPIPE 86 "
        "EREMOTE 66 EADV 68 ESRMNT 69 ELNRNG 48 ENOSTR 60 ENOSR 63 ETIME 62 ENODATA 61~~\n"
        "TRANSIENT~~UNEXPECTED_EOF INVALID_DATA~~\n"
        "TRANSIENT~~EINTR 4 EAGAIN 11 EINPROGRESS 115 EALREADY 114 ERESTART 85 EBUSY 16 ETXTBSY 26 "
        "ESTALE 116 ECHILD 10 ESRCH 3 EWOULDBLOCK~~\n"
        "TRANSIENT~~ECANCELED 125~~\n"
        "TRANSIENT~~ENOMEM 12 ENFILE 23 EMFILE 24 ENOBUFS 105 EUSERS 87~~\n"
        "UNCLASSIFIED~~EIO 5 ENXIO 6 ENODEV 19 ENOTBLK 15 EUCLEAN 117 EBADMSG 74 EMEDIUMTYPE 124 "
        "ENOMEDIUM 123 ERFKILL 132 EHWPOISON EL2HLT 51 EXDEV 18 ENOTUNIQ 76 EMULTIHOP 72 EDOTDOT 73~~\n"
        "BLOCKED~~EACCES 13 EPERM 1~~\n"
        "BLOCKED~~EROFS 30~~\n"
        "BLOCKED~~ENOSPC 28 EDQUOT 122~~\n"
        "BLOCKED-~~EADDRNOTAVAIL 99 EAFNOSUPPORT 97 EPFNOSUPPORT 96 EPROTONOSUPPORT 93 "
        "ESOCKTNOSUPPORT 94~~\n"
        "CONFLICT~~EADDRINUSE 98~~\n"
        "BLOCKED~~ENOKEY 126 EKEYEXPIRED 127 EKEYREVOKED 128 EKEYREJECTED 129~~\n"
        "DEPENDENCY~~ENOENT 2 ENOTDIR 20~~\n"
        "CONFLICT~~EEXIST 17 ENOTEMPTY 39 EISCONN 106~~\n"
        "CONFLICT~~EDEADLK 35 ENOLCK 37 EOWNERDEAD 130 ENOTRECOVERABLE 131~~\n"
        "BLOCKED~~ENOEXEC 8 ELIBACC 79 ELIBBAD 80 ELIBSCN 81 ELIBMAX 82 ELIBEXEC 83 ENOPKG 65~~\n"
        "BLOCKED-~~ENOSYS 38 EOPNOTSUPP 95 ENOTSUP ENOPROTOOPT 92~~\n"
        "BLOCKED-~~EISDIR 21 ELOOP 40 ENAMETOOLONG 36 EFBIG 27 EOVERFLOW 75 EMLINK 31~~\n"
        "UNCLASSIFIED~~EINVAL 22 EFAULT 14 EBADF 9 E2BIG 7 ENOTTY 25 ESPIPE 29 EDOM 33 ERANGE 34 "
        "ENOMSG 42 EIDRM 43 ECHRNG 44 EL2NSYNC 45 EL3HLT 46 EL3RST 47 EUNATCH 49 ENOCSI 50 EBADE 52 "
        "EBADR 53 EXFULL 54 ENOANO 55 EBADRQC 56 EBADSLT 57 EBFONT 59 ENOTSOCK 88 EDESTADDRREQ 89 "
        "EMSGSIZE 90 EPROTOTYPE 91 EILSEQ 84 EBADFD 77 ETOOMANYREFS 109 ENOTNAM 118 ENAVAIL 119 "
        "EISNAM 120~~\n"
        "\n"
        "python~~~\n"
        "TRANSIENT~~pebble.ConnectionError~~\n"
        "TRANSIENT~~pebble.APIError/5xx~~\n"
        "TRANSIENT~~pebble.APIError/empty~~\n"
        "FATAL~OUR_INPUT~pebble.APIError/4xx~~\n"
        "BLOCKED-~~pebble.APIError/4xx~~\n"
        "TRANSIENT~~pebble.TimeoutError~~\n"
        "UNCLASSIFIED~~pebble.ChangeError~~\n"
        "TRANSIENT~~pebble.ExecError/69~~\n"
        "TRANSIENT~~pebble.ExecError/75~~\n"
        "TRANSIENT~~pebble.ExecError/124~~\n"
        "BLOCKED~~pebble.ExecError/126~~\n"
        "DEPENDENCY~~pebble.ExecError/127~~\n"
        "TRANSIENT~~pebble.ExecError/signal~~\n"
        "UNCLASSIFIED~~pebble.ExecError~~\n"
        "DEPENDENCY~~pebble.PathError/not-found~~\n"
        "BLOCKED~~pebble.PathError/permission-denied~~\n"
        "UNCLASSIFIED~~pebble.ProtocolError~~\n"
        "TRANSIENT~~httpx.ConnectError httpx.ConnectTimeout httpx.PoolTimeout~~\n"
        "TRANSIENT~~httpx.ReadError httpx.ReadTimeout httpx.WriteError httpx.WriteTimeout "
        "httpx.RemoteProtocolError~~\n"
        "FATAL~~httpx.LocalProtocolError httpx.UnsupportedProtocol httpx.InvalidURL~~\n"
        "FATAL~~httpx.DecodingError~~\n"
        "TRANSIENT~~requests.ConnectionError requests.ConnectTimeout~~\n"
        "TRANSIENT~~requests.Timeout requests.ReadTimeout requests.ChunkedEncodingError~~\n"
        "FATAL~~requests.InvalidURL requests.InvalidSchema requests.MissingSchema "
        "requests.InvalidHeader~~\n"
        "UNCLASSIFIED~~lightkube.ConditionError~~\n"
        "GONE~GONE~lightkube.ObjectDeleted~~\n"
        "DEPENDENCY~~lightkube.ObjectDeleted~~\n"
        "DEPENDENCY~~lightkube.NotReadyError~~\n"
        "FATAL~~lightkube.LoadResourceError~~\n"
        "BLOCKED~~requests.SSLError~~\n"
        "TRANSIENT~~requests.JSONDecodeError~~\n"
        "UNCLASSIFIED~~requests.HTTPError~~\n"
        "UNCLASSIFIED~~httpx.HTTPStatusError~~\n"
        "UNCLASSIFIED~~urllib.HTTPError~~\n"
        "TRANSIENT~~urllib.URLError~~\n"
        "TRANSIENT~~urllib3.MaxRetryError urllib3.NewConnectionError urllib3.ProtocolError~~\n"
        "TRANSIENT~~urllib3.ReadTimeoutError~~\n"
        "UNCLASSIFIED~~lightkube.ApiError~~\n"
        "BLOCKED~~lightkube.ConfigError~~\n"
        "UNCLASSIFIED~~kubernetes.ApiException~~\n"
        "UNCLASSIFIED~~pebble.APIError~~\n"
        "UNCLASSIFIED~~pebble.PathError~~\n"
        "TRANSIENT~~ops.ModelError ops.Error~~\n"
        "DEPENDENCY~~ops.SecretNotFoundError~~\n"
        "DEPENDENCY~~ops.RelationNotFoundError~~\n"
        "BLOCKED~~ops.TooManyRelatedAppsError~~\n"
        "DEPENDENCY~~ops.RelationDataAccessError~~\n"
        "TRANSIENT~~ConnectionRefusedError socket.gaierror~~\n"
        "TRANSIENT~~ConnectionError ConnectionResetError ConnectionAbortedError BrokenPipeError "
        "TimeoutError socket.timeout asyncio.TimeoutError~~\n"
        "DEPENDENCY~~FileNotFoundError~~\n"
        "BLOCKED~~PermissionError~~\n"
        "TRANSIENT~~OSError~~\n"
        "UNCLASSIFIED~~KeyError IndexError AttributeError TypeError ValueError AssertionError "
        "NotImplementedError UnboundLocalError NameError ZeroDivisionError~~\n"
        "UNCLASSIFIED~~RuntimeError~~\n"
        "TRANSIENT~~MemoryError~~\n"
        "FATAL~~ImportError ModuleNotFoundError~~\n"
        "INTERRUPTED~~asyncio.CancelledError KeyboardInterrupt SystemExit~~\n"
        "BLOCKED~~ssl.SSLCertVerificationError~~\n"
        "TRANSIENT~~ssl.SSLError~~\n"
        "TRANSIENT~~json.JSONDecodeError~~\n"
        "TRANSIENT~~subprocess.CalledProcessError/69~~\n"
        "TRANSIENT~~subprocess.CalledProcessError/75~~\n"
        "TRANSIENT~~subprocess.CalledProcessError/124~~\n"
        "BLOCKED~~subprocess.CalledProcessError/126~~\n"
        "DEPENDENCY~~subprocess.CalledProcessError/127~~\n"
        "TRANSIENT~~subprocess.CalledProcessError/signal~~\n"
        "UNCLASSIFIED~~subprocess.CalledProcessError~~\n"
        "TRANSIENT~~subprocess.TimeoutExpired~~\n"
        "UNCLASSIFIED~~tenacity.RetryError~~\n"
        "TRANSIENT~~psycopg2.OperationalError psycopg.OperationalError mysql.OperationalError "
        "mysql.InterfaceError pymongo.ServerSelectionTimeoutError pymongo.AutoReconnect "
        "cassandra.NoHostAvailable kafka.NoBrokersAvailable redis.ConnectionError redis.TimeoutError "
        "valkey.ConnectionError valkey.TimeoutError~~\n"
        "TRANSIENT~~botocore.EndpointConnectionError botocore.ConnectTimeoutError~~\n"
        "DEPENDENCY~~psycopg2.UndefinedTable~~\n"
        "UNCLASSIFIED~~botocore.ClientError~~\n"
        "UNCLASSIFIED~~grpc._InactiveRpcError grpc.RpcError grpc.AioRpcError~~\n"
        "TRANSIENT~~apt.PackageError snap.SnapError snap.SnapAPIError snap.SnapChangeError "
        "snap.SnapTimeoutError~~\n"
        "BLOCKED~~apt.PackageNotFoundError snap.SnapNotFoundError~~\n"
        "BLOCKED~~subprocess.CalledProcessError/78 pebble.ExecError/78~~\n"
        "BLOCKED~~subprocess.CalledProcessError/77 pebble.ExecError/77~~\n"
        "BLOCKED-~~subprocess.CalledProcessError/64 pebble.ExecError/64~~\n"
        "TRANSIENT~~aiohttp.ClientConnectorError aiohttp.ClientConnectionError aiohttp.ClientOSError "
        "aiohttp.ClientConnectorDNSError aiohttp.ServerConnectionError aiohttp.ServerTimeoutError "
        "aiohttp.ConnectionTimeoutError aiohttp.SocketTimeoutError "
        "aiohttp.ClientConnectionResetError~~\n"
        "TRANSIENT~~aiohttp.ServerDisconnectedError aiohttp.ClientPayloadError~~\n"
        "BLOCKED~~aiohttp.ClientConnectorCertificateError aiohttp.ClientConnectorSSLError "
        "aiohttp.ServerFingerprintMismatch~~\n"
        "UNCLASSIFIED~~aiohttp.ClientResponseError aiohttp.ContentTypeError "
        "aiohttp.WSServerHandshakeError~~\n"
        "FATAL~~aiohttp.InvalidURL aiohttp.NonHttpUrlClientError~~\n"
        "UNCLASSIFIED~~requests.TooManyRedirects httpx.TooManyRedirects aiohttp.TooManyRedirects~~\n"
        "TRANSIENT~~requests.ProxyError httpx.ProxyError urllib3.ProxyError requests.RetryError "
        "urllib3.ResponseError~~\n"
        "TRANSIENT~~requests.ContentDecodingError urllib3.IncompleteRead http.IncompleteRead "
        "urllib3.DecodeError http.RemoteDisconnected http.BadStatusLine urllib3.ConnectTimeoutError "
        "urllib3.NameResolutionError httpx.CloseError httpx.NetworkError httpx.TimeoutException "
        "httpx.TransportError httpx.StreamError requests.RequestException~~\n"
        "BLOCKED~~botocore.SSLError~~\n"
        "TRANSIENT~~botocore.HTTPClientError botocore.ConnectionError "
        "botocore.InvalidIMDSEndpointError botocore.InvalidIMDSEndpointModeError "
        "botocore.ConnectionClosedError botocore.ReadTimeoutError botocore.ProxyConnectionError "
        "botocore.ResponseStreamingError botocore.ChecksumError botocore.IncompleteReadError "
        "botocore.EventStreamError botocore.MetadataRetrievalError "
        "botocore.CapacityNotAvailableError botocore.FlexibleChecksumError~~\n"
        "BLOCKED~~botocore.NoCredentialsError botocore.NoAuthTokenError botocore.TokenRetrievalError "
        "botocore.UnknownTokenProviderError botocore.PartialCredentialsError "
        "botocore.CredentialRetrievalError botocore.ProfileNotFound botocore.UnknownCredentialError "
        "botocore.RefreshWithMFAUnsupportedError botocore.SSOError botocore.SSOTokenLoadError "
        "botocore.UnauthorizedSSOTokenError botocore.LoginError botocore.LoginRefreshRequired "
        "botocore.LoginInsufficientPermissions botocore.LoginTokenLoadError "
        "botocore.LoginAuthorizationCodeError~~\n"
        "BLOCKED~~botocore.DataNotFoundError botocore.UnknownServiceError "
        "botocore.UnknownRegionError botocore.UnknownSignatureVersionError "
        "botocore.ServiceNotInRegionError botocore.BaseEndpointResolverError botocore.NoRegionError "
        "botocore.EndpointVariantError botocore.UnknownEndpointError "
        "botocore.UnknownFIPSEndpointError botocore.ConfigParseError botocore.ConfigNotFound "
        "botocore.InvalidRegionError botocore.UnknownServiceStyle botocore.InvalidExpressionError "
        "botocore.WaiterConfigError botocore.UnsupportedSignatureVersionError "
        "botocore.UnsupportedTLSVersionWarning botocore.InvalidDNSNameError "
        "botocore.InvalidS3AddressingStyleError botocore.UnsupportedS3ArnError "
        "botocore.UnsupportedS3ControlArnError botocore.InvalidHostLabelError "
        "botocore.UnsupportedOutpostResourceError botocore.UnsupportedS3ConfigurationError "
        "botocore.UnsupportedS3AccesspointConfigurationError "
        "botocore.InvalidEndpointDiscoveryConfigurationError "
        "botocore.UnsupportedS3ControlConfigurationError botocore.InvalidRetryConfigurationError "
        "botocore.InvalidMaxRetryAttemptsError botocore.InvalidRetryModeError "
        "botocore.InvalidS3UsEast1RegionalEndpointConfigError "
        "botocore.InvalidSTSRegionalEndpointsConfigError botocore.StubResponseError "
        "botocore.StubAssertionError botocore.UnStubbedResponseError botocore.InvalidConfigError "
        "botocore.InfiniteLoopConfigError botocore.MissingDependencyException "
        "botocore.InvalidProxiesConfigError botocore.InvalidDefaultsMode "
        "botocore.InvalidEndpointConfigurationError botocore.EndpointProviderError "
        "botocore.EndpointResolutionError botocore.UnknownEndpointResolutionBuiltInName "
        "botocore.InvalidChecksumConfigError botocore.UnsupportedServiceProtocolsError~~\n"
        "FATAL~~botocore.MissingParametersError botocore.ValidationError "
        "botocore.ParamValidationError botocore.UnknownKeyError botocore.RangeError "
        "botocore.UnknownParameterError botocore.AliasConflictParameterError "
        "botocore.PaginationError botocore.OperationNotPageableError "
        "botocore.UnknownClientMethodError botocore.UndefinedModelAttributeError "
        "botocore.MissingServiceIdError~~\n"
        "DEPENDENCY~~botocore.WaiterError~~\n"
        "UNCLASSIFIED~~botocore.BotoCoreError botocore.ApiVersionNotFoundError "
        "botocore.UnseekableStreamError botocore.ImminentRemovalWarning botocore.MD5UnavailableError "
        "botocore.AwsChunkedWrapperError~~\n"
        "TRANSIENT~~kafka.KafkaConnectionError kafka.KafkaTimeoutError kafka.NodeNotReadyError "
        "kafka.LeaderNotAvailableError kafka.NotLeaderForPartitionError "
        "confluent_kafka.KafkaException pika.AMQPConnectionError pika.ConnectionClosed "
        "pika.StreamLostError amqp.ConnectionForced pymongo.NetworkTimeout pymongo.NotPrimaryError "
        "pymongo.ConnectionFailure elasticsearch.ConnectionError elasticsearch.ConnectionTimeout "
        "opensearchpy.ConnectionError opensearchpy.ConnectionTimeout paramiko.SSHException "
        "docker.DockerException zmq.Again kazoo.ConnectionLoss kazoo.SessionExpiredError "
        "hvac.VaultDown etcd3.ConnectionFailedError etcd3.ConnectionTimeoutError~~\n"
        "BLOCKED~~pika.ProbableAuthenticationError paramiko.AuthenticationException "
        "elasticsearch.AuthenticationException opensearchpy.AuthenticationException "
        "hvac.Unauthorized hvac.Forbidden keystoneauth1.Unauthorized keystoneauth1.MissingAuthPlugin "
        "keystoneauth1.AuthorizationFailure kafka.AuthenticationFailedError~~\n"
        "BLOCKED~~redis.AuthenticationError valkey.AuthenticationError "
        "redis.AuthenticationWrongNumberOfArgsError valkey.AuthenticationWrongNumberOfArgsError "
        "redis.NoPermissionError valkey.NoPermissionError redis.AuthorizationError "
        "valkey.AuthorizationError~~\n"
        "BLOCKED~~redis.OutOfMemoryError valkey.OutOfMemoryError~~\n"
        "TRANSIENT~~redis.BusyLoadingError valkey.BusyLoadingError redis.ReadOnlyError "
        "valkey.ReadOnlyError redis.ClusterDownError valkey.ClusterDownError redis.ClusterError "
        "valkey.ClusterError redis.MasterDownError valkey.MasterDownError redis.TryAgainError "
        "valkey.TryAgainError redis.MasterNotFoundError valkey.MasterNotFoundError "
        "redis.SlaveNotFoundError valkey.SlaveNotFoundError redis.SlotNotCoveredError "
        "valkey.SlotNotCoveredError redis.ClusterTransactionError valkey.ClusterTransactionError "
        "redis.MovedError valkey.MovedError redis.AskError valkey.AskError redis.AskingError "
        "valkey.AskingError redis.ChildDeadlockedError valkey.ChildDeadlockedError "
        "redis.InvalidResponse valkey.InvalidResponse redis.ExternalAuthProviderError "
        "valkey.ExternalAuthProviderError~~\n"
        "THROTTLED~~redis.MaxConnectionsError valkey.MaxConnectionsError~~\n"
        "CONFLICT~~redis.WatchError valkey.WatchError redis.LockError valkey.LockError "
        "redis.LockNotOwnedError valkey.LockNotOwnedError redis.NoScriptError valkey.NoScriptError~~\n"
        "UNCLASSIFIED~~redis.ResponseError valkey.ResponseError redis.DataError valkey.DataError "
        "redis.ExecAbortError valkey.ExecAbortError redis.RedisError valkey.RedisError "
        "redis.PubSubError valkey.PubSubError redis.ModuleError valkey.ModuleError "
        "redis.CrossSlotTransactionError valkey.CrossSlotTransactionError "
        "redis.ClusterCrossSlotError valkey.ClusterCrossSlotError redis.RedisClusterException "
        "valkey.RedisClusterException~~\n"
        "UNCLASSIFIED~~sqlalchemy.OperationalError sqlalchemy.InterfaceError "
        "sqlalchemy.ProgrammingError sqlalchemy.IntegrityError sqlalchemy.DataError "
        "sqlalchemy.InternalError sqlalchemy.NotSupportedError sqlalchemy.DatabaseError "
        "sqlalchemy.DBAPIError~~\n"
        "TRANSIENT~~sqlalchemy.TimeoutError sqlalchemy.DisconnectionError "
        "sqlalchemy.PendingRollbackError sqlalchemy.InvalidatePoolError~~\n"
        "TRANSIENT~~keystoneauth1.ConnectFailure keystoneauth1.ConnectTimeout "
        "keystoneauth1.DiscoveryFailure keystoneauth1.RetriableConnectionFailure "
        "keystoneauth1.UnknownConnectionError~~\n"
        "BLOCKED~~keystoneauth1.SSLFailure~~\n"
        "DEPENDENCY~~openstack.ResourceNotFound openstack.NotFoundException "
        "keystoneauth1.EndpointNotFound keystoneauth1.CatalogException keystoneauth1.NotFound~~\n"
        "DEPENDENCY~~openstack.ResourceTimeout~~\n"
        "CONFLICT~~openstack.ConflictException openstack.PreconditionFailedException "
        "openstack.DuplicateResource~~\n"
        "BLOCKED~~openstack.ForbiddenException openstack.ConfigException~~\n"
        "UNCLASSIFIED~~openstack.HttpException openstack.SDKException openstack.ResourceFailure "
        "openstack.BadRequestException openstack.InvalidRequest openstack.MethodNotSupported~~\n"
        "UNCLASSIFIED~~docker.APIError~~\n"
        "DEPENDENCY~~docker.NotFound docker.ImageNotFound~~\n"
        "UNCLASSIFIED~~jubilant.TaskError~~\n"
        "DEPENDENCY~~jubilant.WaitError~~\n"
        "BLOCKED-~~IsADirectoryError~~\n"
        "DEPENDENCY~~NotADirectoryError~~\n"
        "CONFLICT~~FileExistsError~~\n"
        "TRANSIENT~~BlockingIOError InterruptedError ChildProcessError ProcessLookupError EOFError "
        "http.HTTPException concurrent.TimeoutError queue.Full queue.Empty~~\n"
        "UNCLASSIFIED~~ArithmeticError BufferError LookupError OverflowError FloatingPointError "
        "RecursionError ReferenceError StopIteration StopAsyncIteration SystemError UnicodeError "
        "UnicodeDecodeError UnicodeEncodeError UnicodeTranslateError Exception Warning "
        "yaml.YAMLError yaml.ParserError yaml.ScannerError pydantic.ValidationError "
        "pydantic_core.ValidationError jsonschema.ValidationError jinja2.UndefinedError "
        "jinja2.TemplateError~~\n"
        "FATAL~~SyntaxError IndentationError TabError~~\n"
        "DEPENDENCY~~ops.RelationDataTypeError ops.RelationDataError~~\n"
        "TRANSIENT~~pebble.Error~~\n"
        "FATAL~~ops.InvalidStatusError~~\n"
    )
    return locals()


_add("_classes", _define_classes)


def _define_rules():
    """The class of an error by the tables of the server, for the time without one.

    The rows are in `_classes`; the choice of a row is that of `src/domain/classify` in the repository.
    """


    import re

    pass


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
    return locals()


_add("_rules", _define_rules)


def _define_evidence():
    """What an exception carries of the answer of a service: its status, and the service's own code."""


    import json
    import re


    GRPC_UNANSWERED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN")
    #: Packages whose exceptions have the number of MySQL as their first argument, or as `errno`.
    MYSQL = ("pymysql", "mysql", "MySQLdb", "aiomysql", "asyncmy", "mariadb")
    #: Numbers of the client of MySQL: no server answered.
    MYSQL_OF_CLIENT = range(2000, 3000)
    #: Body of an answer that is read: a longer one is no document about an error.
    BODY_BYTES_MAX = 65_536
    _REASON = re.compile(r"[!-~]{1,253}$")
    _SQLSTATE = re.compile(r"[0-9A-Z]{5}$")


    class Found:
        """The facts of one exception."""

        def __init__(self) -> None:
            #: The system and its code, if they are not those of Python.
            self.system = self.code = ""
            #: The HTTP status.
            self.status = ""
            #: The service's own code, and whose it is.
            self.domain = self.reason = ""
            #: Whether the target answered.
            self.answered = False
            #: Seconds that the target asks to wait.
            self.retry_after: Optional[float] = None

        def say(self, domain: str, reason: Any) -> None:
            """Keeps the code of a service, if it can be one."""
            text = str(reason) if isinstance(reason, (str, int)) else ""
            if _REASON.match(text) and not isinstance(reason, bool):
                self.domain, self.reason = domain, text


    def read(error: BaseException) -> Found:
        """Reads what an exception carries."""
        found = Found()
        code = getattr(error, "code", None)
        if callable(code) and hasattr(error, "details"):
            _read_grpc(error, found, code)
            return found
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            _read_aws(response, found)
            if found.answered:
                return found
        _read_database(error, found)
        if not found.reason:
            found.status = _status(error, response)
            found.answered = bool(found.status) or isinstance(getattr(error, "kind", None), str)
            _read_document(error, response, found)
        if not found.reason and not found.status:
            _read_errno(error, found)
        return found


    def _read_grpc(error: BaseException, found: Found, code: Any) -> None:
        found.system, found.code = "grpc", getattr(code(), "name", "UNKNOWN")
        found.answered = found.code not in GRPC_UNANSWERED
        metadata = getattr(error, "trailing_metadata", None)
        for key, value in (metadata() if callable(metadata) else None) or ():
            if key == "grpc-status-details-bin" and isinstance(value, bytes):
                _read_details(value, found)


    def _read_details(status: bytes, found: Found) -> None:
        """Reads the ErrorInfo and the RetryInfo of a google.rpc.Status."""
        for number, detail in _fields(status):
            if number != 3 or not isinstance(detail, bytes):
                continue
            parts = dict(_fields(detail))
            kind, value = parts.get(1), parts.get(2)
            if not isinstance(kind, bytes) or not isinstance(value, bytes):
                continue
            inner = dict(_fields(value))
            if kind.endswith(b"google.rpc.ErrorInfo"):
                found.say(_text(inner.get(2)), _text(inner.get(1)))
            elif kind.endswith(b"google.rpc.RetryInfo") and isinstance(inner.get(1), bytes):
                delay = dict(_fields(inner[1]))
                seconds, nanos = delay.get(1, 0), delay.get(2, 0)
                if isinstance(seconds, int) and isinstance(nanos, int):
                    found.retry_after = min(seconds + nanos / 1e9, 86400.0)


    def _text(value: Any) -> str:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


    def _fields(message: bytes) -> Iterator[Tuple[int, Any]]:
        """Yields the fields of a message: bytes, or a number. Ends where the message is malformed."""
        at = 0
        while at < len(message):
            key, at = _varint(message, at)
            if key & 7 == 0:
                value, at = _varint(message, at)
                yield key >> 3, value
            elif key & 7 == 2:
                size, at = _varint(message, at)
                yield key >> 3, message[at : at + size]
                at += size
            else:
                at += {1: 8, 5: 4}.get(key & 7, len(message))


    def _varint(message: bytes, at: int) -> Tuple[int, int]:
        number = shift = 0
        while at < len(message) and shift < 64:
            byte = message[at]
            number |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        return number, at


    def _read_aws(response: Dict[str, Any], found: Found) -> None:
        status = (response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
        code = (response.get("Error") or {}).get("Code")
        found.say("aws", code)
        if _is_status(status):
            found.system, found.code = "http", str(status)
        elif found.reason:
            found.system, found.code = "aws", found.reason
        found.answered = bool(found.system)


    def _read_database(error: BaseException, found: Found) -> None:
        """Reads the SQLSTATE of PostgreSQL, or the number of MySQL."""
        package = type(error).__module__.split(".")[0]
        bases = {one.__module__.split(".")[0] for one in type(error).__mro__}
        if bases.intersection(MYSQL):
            first = error.args[0] if error.args else None
            for number in (getattr(error, "errno", None), first):
                if isinstance(number, int) and not isinstance(number, bool) and 0 < number:
                    found.say("mysql", number)
                    found.answered = number not in MYSQL_OF_CLIENT
                    return
            return
        for field in ("sqlstate", "pgcode"):
            state = getattr(error, field, None)
            if isinstance(state, str) and _SQLSTATE.match(state) and package != "sqlalchemy":
                found.say("postgresql", state)
                found.answered = not state.startswith("08")
                return


    def _status(error: BaseException, response: Any) -> str:
        status = getattr(error, "status", None)
        given = (
            getattr(response, "status_code", None),
            getattr(response, "status", None),
            getattr(error, "status_code", None),
            getattr(error, "http_status", None),
            getattr(error, "code", None),
            getattr(status, "code", status),
        )
        return next((str(one) for one in given if _is_status(one)), "")


    def _is_status(given: Any) -> bool:
        return isinstance(given, int) and not isinstance(given, bool) and 100 <= given < 600


    def _read_document(error: BaseException, response: Any, found: Found) -> None:
        """Reads the reason of Kubernetes, the type of problem+json, or that of ACME."""
        status = getattr(error, "status", None)
        if getattr(status, "kind", None) == "Status" or hasattr(status, "reason"):
            found.say("kubernetes", getattr(status, "reason", None))
        kind = getattr(error, "typ", None)
        if isinstance(kind, str) and "acme:error:" in kind:
            found.say("acme", kind)
            found.answered = True
        for body in (getattr(error, "body", None), getattr(response, "_content", None)):
            if not found.reason:
                _read_body(body, found)


    def _read_body(body: Any, found: Found) -> None:
        if not isinstance(body, (str, bytes)) or not 0 < len(body) <= BODY_BYTES_MAX:
            return
        try:
            document = json.loads(body)
        except ValueError:
            return
        if not isinstance(document, dict):
            return
        kind = document.get("type")
        if document.get("kind") == "Status" and document.get("reason"):
            found.say("kubernetes", document["reason"])
        elif isinstance(kind, str) and kind not in ("", "about:blank") and ":" in kind:
            parts = kind.split("/")
            host = parts[2] if kind.startswith(("http://", "https://")) and 2 < len(parts) else ""
            found.say("acme" if "acme:error:" in kind else host, kind)


    def _read_errno(error: BaseException, found: Found) -> None:
        """Reads the name of the number of the system, of the exceptions that Python itself raises."""
        if not isinstance(error, OSError) or type(error).__module__ not in ("builtins", "socket"):
            return
        import errno

        name = errno.errorcode.get(error.errno or 0)
        if name and type(error).__name__ != "gaierror":
            found.say("errno", name)
    return locals()


_add("_evidence", _define_evidence)


def _define_classify():
    """What an exception says about a failed call: a report, and a verdict if no server answers."""


    import time

    pass


    DETAIL_BYTES_MAX = 60_000
    CODE_BYTES_MAX = 253
    #: Classes whose instances had no answer of the target, by name: their packages are not imported.
    UNANSWERED = (
        "ChunkedEncodingError",
        "ConnectError",
        "ConnectTimeout",
        "ConnectTimeoutError",
        "ConnectionError",
        "EndpointConnectionError",
        "MaxRetryError",
        "NewConnectionError",
        "NoBrokersAvailable",
        "NoHostAvailable",
        "PoolTimeout",
        "ProtocolError",
        "ReadError",
        "ReadTimeout",
        "ReadTimeoutError",
        "RemoteProtocolError",
        "ServerSelectionTimeoutError",
        "Timeout",
        "TimeoutError",
        "URLError",
        "WriteError",
        "WriteTimeout",
        "timeout",
    )
    #: Failed commands, with the field that has the exit status; the server knows common ones.
    EXIT_STATUSES = {
        "subprocess.CalledProcessError": "returncode",
        "ops.pebble.ExecError": "exit_code",
    }
    #: Longest chain of exceptions that is searched for its cause.
    CAUSES_MAX = 16
    #: First and longest wait between two attempts, as the server has them.
    FIRST_WAIT, THROTTLED_WAIT, WAIT_MAX, DEPENDENCY_WAIT = 0.25, 1.0, 180.0, 30.0
    ACTIONS = {
        "TRANSIENT": "RETRY",
        "UNCLASSIFIED": "RETRY",
        "THROTTLED": "RETRY_AFTER",
        "CONFLICT": "REREAD",
        "INTERRUPTED": "RESUME",
        "DEPENDENCY": "DEFER",
        "BLOCKED": "BLOCK",
        "FATAL": "HALT",
    }


    def report_of(error: BaseException) -> Dict[str, Any]:
        """Returns an `ErrorReport` without component and target. Never raises."""
        try:
            return _report_of(_last_attempt(error))
        except Exception as odd:
            # An exception may have any attributes, and texts that cannot be read.
            kind = type(error)
            code = _texts.cut("{}.{}".format(kind.__module__, kind.__qualname__), CODE_BYTES_MAX)
            said = "{} ({} while it was read)".format(kind.__name__, type(odd).__name__)
            report = {"system": "python", "code": code, "origin": "ERROR_ORIGIN_LOCAL"}
            return dict(report, message=_texts.cut(said), internal_detail="")


    def _report_of(error: BaseException) -> Dict[str, Any]:
        distrust = _distrust(error)
        if distrust is not None and not _evidence.read(error).answered:
            # The libraries of HTTP show an untrusted certificate as a lost connection.
            report: Dict[str, Any] = {
                "system": "python",
                "code": _name(distrust),
                "origin": "ERROR_ORIGIN_LOCAL",
                "message": _said(error),
            }
        else:
            report = _of_cause(error)
        report["code"] = _texts.cut(report["code"], CODE_BYTES_MAX)
        report["message"] = _texts.cut(report["message"] or type(error).__name__)
        report["internal_detail"] = _traceback(error)
        return report


    def _of_cause(error: BaseException) -> Dict[str, Any]:
        """Returns the report on the first exception of a chain that has a class, else on the first."""
        first: Dict[str, Any] = {}
        for one in _chain(error):
            report = _of_one(one)
            first = first or report
            if _rules.verdict(report)[0] != "UNCLASSIFIED":
                said = _said(error)
                if report["message"] not in said:
                    report["message"] = ": ".join(part for part in (said, report["message"]) if part)
                return report if report is first or not _is_answer(first) else first
        return first


    def _is_answer(report: Dict[str, Any]) -> bool:
        return bool(report["origin"] == "ERROR_ORIGIN_PEER")


    def _of_one(error: BaseException) -> Dict[str, Any]:
        """Returns the report on one exception: what it carries, and who answered."""
        found = _evidence.read(error)
        system, code = found.system or "python", found.code
        if system == "python":
            name = _name(error)
            code = _with_detail(error, name, found)
        report: Dict[str, Any] = {"system": system, "code": code, "message": _said(error)}
        if found.reason:
            report.update(domain=found.domain, reason=found.reason)
        wait = _retry_after(error) if found.retry_after is None else found.retry_after
        if wait is not None:
            report["retry_after"] = wait
        report["origin"] = "ERROR_ORIGIN_PEER"
        if not found.answered:
            report["origin"] = _origin(error, report)
        return report


    def _origin(error: BaseException, report: Dict[str, Any]) -> str:
        """Returns the origin of an error without a status: a refusal of the caller is an answer."""
        if report["system"] == "grpc":
            return "ERROR_ORIGIN_TRANSPORT"
        if not _is_unanswered(error):
            return "ERROR_ORIGIN_LOCAL"
        kind = _rules.verdict(report)[0]
        is_path = kind in _rules.UNANSWERED or kind == "UNCLASSIFIED"
        return "ERROR_ORIGIN_TRANSPORT" if is_path else "ERROR_ORIGIN_PEER"


    def _with_detail(error: BaseException, name: str, found: _evidence.Found) -> str:
        """Returns the name of an exception with its status, exit status or kind."""
        if found.status:
            return "{}/{}".format(name, found.status)
        exit_status = getattr(error, EXIT_STATUSES.get(name, ""), None)
        if isinstance(exit_status, int):
            return "{}/{}".format(name, int(exit_status))
        kind = getattr(error, "kind", None)
        if isinstance(kind, str) and kind:
            return "{}/{}".format(name, _texts.name(kind))
        return name


    def _said(error: BaseException) -> str:
        return " ".join(str(error).split())


    def _chain(error: BaseException) -> List[BaseException]:
        """Returns an exception and its causes: that of the driver of a database, and `__cause__`."""
        found: List[BaseException] = []
        left: List[Any] = [error]
        while left and len(found) < CAUSES_MAX:
            one = left.pop(0)
            if isinstance(one, BaseException) and one not in found:
                found.append(one)
                left += [getattr(one, "orig", None), getattr(one, "reason", None), one.__cause__]
        return found


    def verdict_of(report: Dict[str, Any], attempt: int) -> Dict[str, Any]:
        """Returns a verdict without a server: its classes, and its waits without jitter."""
        kind, holds = _rules.verdict(report)
        action = ACTIONS[kind]
        base = THROTTLED_WAIT if kind == "THROTTLED" else FIRST_WAIT
        wait: Optional[float] = min(base * float(2 ** min(attempt - 1, 20)), WAIT_MAX)
        if action == "DEFER":
            wait = DEPENDENCY_WAIT
        elif action == "RESUME":
            wait = 0.0
        elif action in ("BLOCK", "HALT"):
            wait = None if holds else WAIT_MAX
        if wait is not None and report.get("retry_after") is not None:
            wait = max(wait, report["retry_after"])
        if wait is not None:
            wait = max(wait, report.get("shortest_wait") or 0.0)
        has_retry_after = report.get("retry_after") is not None
        if action == "RETRY" and has_retry_after:
            action = "RETRY_AFTER"
        return {
            "class": "ERROR_CLASS_" + kind,
            "action": "VERDICT_ACTION_" + action,
            "retry_after": wait,
            "retry_time": None,
            "attempt": attempt,
            "attempts_left": max(0, 10 - attempt),
            "rule": "local",
            "explanation": "the server was not reached; this is the class by the tables alone",
            "held": holds,
        }


    def level_of(fault: Dict[str, Any]) -> str:
        """Returns the level that an open error shows, as the server decides it; empty: none."""
        kind = fault["verdict"]["class"]
        if kind in ("ERROR_CLASS_BLOCKED", "ERROR_CLASS_GONE", "ERROR_CLASS_FATAL"):
            return "blocked"
        if kind == "ERROR_CLASS_DEPENDENCY":
            return "waiting"
        if kind in ("ERROR_CLASS_TRANSIENT", "ERROR_CLASS_UNCLASSIFIED"):
            lasts = time.time() - fault["first"]
            return "waiting" if fault["count"] >= 3 or lasts >= 30 else ""
        return ""


    def _name(error: BaseException) -> str:
        """Returns the full name of the class, or of the first of its bases that a row names.

        Classes of the charm itself name nothing.
        """
        outside: List[str] = []
        for one in type(error).__mro__:
            if one in (Exception, BaseException, object):
                break
            name = "{}.{}".format(one.__module__, one.__qualname__)
            if _rules.is_known(name):
                return name
            if one.__module__.split(".")[0] not in ("__main__", "charm", "charms"):
                outside.append(name)
        kind = type(error)
        return outside[0] if outside else "{}.{}".format(kind.__module__, kind.__qualname__)


    def _is_unanswered(error: BaseException) -> bool:
        if isinstance(error, (ConnectionError, TimeoutError)):
            return True
        names = [one.__name__ for one in type(error).__mro__]
        return "gaierror" in names or any(name in UNANSWERED for name in names)


    def _last_attempt(error: BaseException) -> BaseException:
        """Returns the exception inside of tenacity.RetryError."""
        last = getattr(error, "last_attempt", None)
        try:
            inner = last.exception() if last is not None else None
        except Exception:
            inner = None
        return inner if isinstance(inner, BaseException) else error


    def _distrust(error: BaseException) -> Optional[BaseException]:
        """Returns the exception of an untrusted certificate among the causes of an exception."""
        one: Any = error
        for _ in range(CAUSES_MAX):
            if not isinstance(one, BaseException):
                return None
            if type(one).__name__ == "SSLCertVerificationError":
                return one
            # urllib and urllib3 have the cause as a reason, requests and urllib3 as an argument.
            inner = one.args[0] if one.args else None
            given = (getattr(one, "reason", None), inner, one.__cause__)
            one = next((cause for cause in given if isinstance(cause, BaseException)), None)
        return None


    def _retry_after(error: BaseException) -> Optional[float]:
        given: Any = getattr(error, "retry_after", None)
        headers: Any = getattr(getattr(error, "response", None), "headers", None)
        if given is None and hasattr(headers, "get"):
            given = headers.get("Retry-After")
        try:
            wait = float(given)
        except (TypeError, ValueError):
            return None
        return min(wait, 86400.0) if wait > 0 else None


    def _traceback(error: BaseException) -> str:
        import traceback

        lines = traceback.format_exception(type(error), error, error.__traceback__)
        text = "".join(lines).encode("utf-8", "replace")
        # The end of a traceback says most.
        return text[-DETAIL_BYTES_MAX:].decode("utf-8", "ignore")
    return locals()


_add("_classify", _define_classify)


def _define_deliver():
    """Delivery of waiting calls in their order, within the time that a hook has for it."""


    import time

    pass
    Log = _log.Log


    logger = Log(__name__)

    #: A later call cannot succeed either: the server is away, or the caller is refused.
    AWAY = (errors.Unavailable, errors.DeadlineExceeded, errors.Unauthenticated, errors.Canceled)
    #: This call can succeed later; others may succeed now.
    LATER = (
        errors.ResourceExhausted,
        errors.Unimplemented,
        errors.PermissionDenied,
        errors.Internal,
        errors.Unknown,
        errors.DataLoss,
    )
    #: A call that waited longer than this is not of this hook; its ttl and its end have run since.
    LATE_SECONDS = 5.0
    #: Fields of a status that have a time from its report on. Pushes of an earlier version have a ttl.
    SPANS = ("ttl", "end_after")
    #: A page has fewer if its texts are long.
    PAGE_SIZE = 1000
    #: Calls of the leader.
    OF_LEADER = (
        "set_application_status",
        "replace_application_statuses",
        "clear_application_status",
        "update_app_data",
    )

    #: A method that an older server does not have.
    CALLBACK = "request_callback"
    #: Calls whose answer can be empty, so that another service can give it too.
    READS = ("list_statuses", "list_operations", "list_faults", "get_app_data")
    #: The field that the answer of a server of Bellwether always has; of all others it is `revision`.
    REQUIRED = {
        "get_server_info": "version",
        "get_operation": "operation",
        "begin_operation": "operation",
        "acquire_operation": "operation",
        "heartbeat_operation": "operation",
        "report_error": "verdict",
    }


    class Stranger(errors.Unavailable):
        """Another service answers at the address of the server."""


    class Courier:
        """Makes the calls of one process. All of them together wait for `seconds` at most."""

        def __init__(
            self, connect: Callable[[], Optional[Client]], seconds: float, names: Dict[str, str]
        ) -> None:
            self._connect = connect
            self._client: Optional[Client] = None
            self._left = self._given = seconds
            #: Why no further call is made; empty: calls are made.
            self.closed = ""
            #: Namespace, application and unit of the calls.
            self.names = names
            #: Whether the peer has given an answer that only a server of Bellwether gives.
            self._is_known = False

        @property
        def spare(self) -> float:
            """Seconds that are left for calls."""
            return 0.0 if self.closed else max(0.0, self._left)

        @property
        def spent(self) -> float:
            """Seconds that the calls have taken."""
            return self._given - self._left

        def call(self, method: str, **request: Any) -> Any:
            """Calls the server. Raises an error of the package only."""
            if self.closed or self._left < 0.01:
                raise errors.Unavailable(self.closed or "the time of this hook is used up")
            started = time.monotonic()
            try:
                client = self._client = self._client or self._connect()
                if client is None:
                    self.closed = "no address of a server is given"
                    raise errors.Unavailable(self.closed)
                if (method in READS or method == CALLBACK) and not self._is_known:
                    _check("get_server_info", client.get_server_info(timeout=self._left))
                    self._is_known = True
                request["timeout"] = max(0.01, self._left - (time.monotonic() - started))
                request.setdefault("namespace", self.names["namespace"])
                request.setdefault("application", self.names["application"])
                answer = self._made(getattr(client, method), request)
                _check(method, answer)
                self._is_known = True
                return answer
            except AWAY as error:
                if not self.closed:
                    self.closed = str(error)
                    logger.warning("Bellwether is not reached: %s", error)
                raise
            except errors.Error:
                raise
            except Exception as error:
                # A wrong address or a missing file must not fail the hook.
                self.closed = "{}: {}".format(type(error).__name__, error)
                logger.warning("Bellwether cannot be called: %s", self.closed)
                raise errors.Unavailable(self.closed) from error
            finally:
                self._left -= time.monotonic() - started

        def _made(self, method: Callable[..., Any], request: Dict[str, Any]) -> Any:
            """Makes a call, and makes it again without what an older server does not take."""
            try:
                return method(**request)
            except errors.InvalidArgument as refused:
                plain = _for_older(request, refused)
                if plain is None:
                    raise
            return method(**plain)

        def all(self, method: str, field: str, **request: Any) -> List[Any]:
            """Calls a method that lists, and returns the members of all pages."""
            found: List[Any] = []
            request["page_size"] = PAGE_SIZE
            while True:
                answer = self.call(method, **request)
                found += answer[field]
                request["page_token"] = answer["next_page_token"]
                if not request["page_token"]:
                    return found

        def close(self) -> None:
            client, self._client = self._client, None
            self.closed = self.closed or "the hook is over"
            if client is not None:
                client.close()

        def flush(self, state: State, is_leader: Callable[[], bool]) -> None:
            """Delivers what waits, in order. What stays, stays in order too."""
            for entry in list(state.spool):
                if self.closed or self._left < 0.01:
                    return
                if self._deliver(entry, is_leader):
                    state.note_done(entry)

        def _deliver(self, entry: Entry, is_leader: Callable[[], bool]) -> bool:
            """Returns whether the call is done with."""
            method = entry["method"]
            try:
                if method in OF_LEADER and not is_leader():
                    logger.info("%s is dropped: the unit does not lead any more", method)
                    return True
                self._send(entry)
                return True
            except AWAY:
                return False
            except LATER as error:
                if method == CALLBACK and self._is_known and isinstance(error, errors.Unimplemented):
                    logger.debug("the server has no callbacks: %s", error)
                    return True
                logger.warning("%s is refused now and is repeated later: %s", method, error)
                return False
            except errors.NotFound as error:
                # What does not exist needs no removal, if it is a server of Bellwether that says so.
                return error.has_reason
            except errors.Error as error:
                if not error.has_reason:
                    logger.warning("%s is refused by another service: %s", method, error)
                    return False
                logger.error("%s is refused and dropped: %s %s", method, error, error.violations)
                return True

        def _send(self, entry: Entry) -> None:
            if entry["method"] == "complete_operation" and not entry["request"]["fence"]:
                self._complete(entry)
                return
            self._once(entry)

        def _complete(self, entry: Entry) -> None:
            """Completes an operation that has no holder at the server."""
            names = {name: entry["request"][name] for name in ("unit", "operation_id")}
            try:
                held = self.call("acquire_operation", **names)
                self.call("complete_operation", fence=held["operation"]["fence"], **names)
            except errors.FailedPrecondition as error:
                if error.retry_after is not None:
                    # Its next attempt is not due yet.
                    raise errors.ResourceExhausted(str(error)) from error
                # It failed or is blocked there, but the work is done.
                self.call("cancel_operation", operation_id=names["operation_id"])

        def _once(self, entry: Entry) -> None:
            request = dict(entry["request"], request_id=entry["request_id"])
            late = time.time() - entry["said"]
            if late > LATE_SECONDS:
                status = request.get("status")
                if status is not None:
                    if _is_over(status, late):
                        return
                    request["status"] = _aged(status, late)
                if "after" in request:
                    request["after"] = max(1.0, request["after"] - late)
                if "statuses" in request:
                    request["statuses"] = [_aged(one, late) for one in request["statuses"]]
            if entry["method"] in OF_LEADER:
                # Juju decided so: the write itself makes this unit the leader at the server.
                request["decided_outside"] = True
            self.call(entry["method"], **with_times(request))


    def _check(method: str, answer: Any) -> None:
        """Raises Stranger for an answer that a server of Bellwether does not give."""
        field = REQUIRED.get(method, "" if method in READS else "revision")
        if field and not answer.get(field):
            what = "another service answers: the answer to {} has no {}"
            raise Stranger(what.format(method, field), reason="INVALID_ANSWER")


    def _for_older(
        request: Dict[str, Any], refused: errors.InvalidArgument
    ) -> Optional[Dict[str, Any]]:
        """Returns a refused request as an older server takes it; None if that does not help."""
        error, status = request.get("error") or {}, request.get("status") or {}
        if error.get("reason") and "error.reason" in [field for field, _ in refused.violations]:
            # It takes fewer texts as the reason of an error.
            plain = {name: one for name, one in error.items() if name not in ("domain", "reason")}
            return dict(request, error=plain)
        if status.get("end_after") is not None and "endAfter" in str(refused):
            # It has no end of a status, which becomes stale there instead.
            plain = {name: one for name, one in status.items() if name != "end_after"}
            return dict(request, status=dict(plain, ttl=status["end_after"]))
        return None


    def _is_over(status: Dict[str, Any], late: float) -> bool:
        """Returns whether a pushed status has ended while it waited for its delivery."""
        return any(status.get(span) is not None and status[span] - late < 1.0 for span in SPANS)


    def _aged(status: Dict[str, Any], late: float) -> Dict[str, Any]:
        """Returns a status whose times have run while it waited."""
        given = [span for span in SPANS if status.get(span) is not None]
        return dict(status, **{span: max(1.0, status[span] - late) for span in given})


    def with_times(request: Dict[str, Any]) -> Dict[str, Any]:
        """Returns the request with seconds since 1970 as times."""
        from datetime import datetime, timezone

        def turned(value: Any) -> Any:
            if isinstance(value, dict):
                found = {name: turned(one) for name, one in value.items()}
                if isinstance(found.get("observe_time"), float):
                    moment = datetime.fromtimestamp(found["observe_time"], timezone.utc)
                    found["observe_time"] = moment
                return found
            return [turned(one) for one in value] if isinstance(value, list) else value

        return dict(turned(request))
    return locals()


_add("_deliver", _define_deliver)


def _define_raised():
    """A status that a handler raises: the handler ends, the hook goes on, and the status is shown."""


    import functools
    import types


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


    def watch(framework: Any, reporter: StatusReporter) -> None:
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


    def _replace(handler: Any, reporter: StatusReporter) -> None:
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
    return locals()


_add("_raised", _define_raised)


def _define_charm():
    """The points at which ops is watched, and its statuses as reports."""


    import functools
    import os
    import sys
    import weakref

    pass


    #: The attribute of a status of ops that has its details.
    DETAIL = "bellwether"
    #: The details of a status, besides its component and message.
    DETAILS = ("key", "action", "check", "short", "reason", "priority", "precedence", "labels")
    ACTION = "status-detail"
    LABELS_MAX = 64
    LABEL_BYTES_MAX = 63
    PRIORITY_MAX = 1_000_000

    _reporters: Any = weakref.WeakSet()
    _observers: Dict[str, Any] = {}


    def hook_name() -> str:
        """Returns the name of the hook: `config-changed`, or `backup-action` for an action."""
        path = os.environ.get("JUJU_DISPATCH_PATH") or os.environ.get("JUJU_HOOK_NAME") or ""
        folder, _, name = path.rpartition("/")
        name = name.replace("_", "-")
        return name + "-action" if folder.endswith("actions") else name


    def watch(reporter: StatusReporter) -> Any:
        """Observes the end of the hook, and returns the observer, which must be kept."""
        import ops

        charm = reporter.charm
        framework = charm.framework
        if not _observers:
            _observers["class"] = _make_observer()
            _watch_collection(ops)
        _reporters.add(reporter)
        observer = _observers["class"](charm, "bellwether-status-reporter")
        observer.reporter = reporter
        framework.observe(framework.on.commit, observer.on_commit)
        framework.observe(charm.on.collect_unit_status, observer.on_collect)
        if ACTION in charm.meta.actions:
            framework.observe(charm.on[ACTION].action, observer.on_detail)
        _raised.watch(framework, reporter)
        _watch_close(framework, reporter)
        return observer


    def _make_observer() -> Any:
        import ops

        class Observer(ops.Object):  # type: ignore[misc, unused-ignore]
            """Receives the events for a reporter; ops calls methods of its own objects only."""

            reporter: StatusReporter

            def on_commit(self, _: ops.EventBase) -> None:
                self.reporter.commit()

            def on_collect(self, event: ops.CollectStatusEvent) -> None:
                for one in self.reporter.raised:
                    event.add_status(one)

            def on_detail(self, event: ops.ActionEvent) -> None:
                self.reporter.detail(event)

        return Observer


    def _watch_collection(ops: Any) -> None:
        """Notes each status that a charm collects or sets for the application.

        ops keeps the collected list to itself, so its public methods are extended, once for a process.
        """
        add_status = ops.CollectStatusEvent.add_status

        @functools.wraps(add_status)
        def add(event: Any, status: Any) -> Any:
            done = add_status(event, status)
            scope = "app" if event.handle.kind == "collect_app_status" else "unit"
            for reporter in list(_reporters):
                if reporter.charm.framework is event.framework:
                    reporter.collected[scope].append(status)
            return done

        ops.CollectStatusEvent.add_status = add
        status = ops.Application.status

        def set_status(application: Any, value: Any) -> None:
            status.__set__(application, value)
            for reporter in list(_reporters):
                if reporter.charm.app is application:
                    reporter.application_set = True

        ops.Application.status = status.setter(set_status)


    def _watch_close(framework: Any, reporter: StatusReporter) -> None:
        """Extends the end of the framework, which follows a crash of the hook too."""
        close = framework.close

        @functools.wraps(close)
        def closed() -> None:
            try:
                reporter.close(sys.exc_info()[1])
            finally:
                close()

        framework.close = closed
        # Older versions of ops do not close the framework if the charm cannot be made.
        hook = sys.excepthook

        def excepted(kind: Any, error: BaseException, trace: Any) -> None:
            reporter.close(error)
            hook(kind, error, trace)

        sys.excepthook = excepted


    def is_failure(error: BaseException) -> bool:
        """Returns whether Juju counts the hook as failed after this exception."""
        if isinstance(error, SystemExit):
            return error.code not in (None, 0)
        # ops ends a hook early and well with an exception of its own.
        return getattr(error, "exit_code", 1) != 0


    def make(level: str, message: str, details: Dict[str, Any]) -> Any:
        """Returns a status of ops with details."""
        import ops

        # `StatusBase.from_name` returns classes of ops[testing] if that is imported.
        kinds = {
            "active": ops.ActiveStatus,
            "waiting": ops.WaitingStatus,
            "maintenance": ops.MaintenanceStatus,
            "blocked": ops.BlockedStatus,
        }
        # Juju shows the text, and `status-set` is a program.
        status = kinds[level](_texts.public(message))
        setattr(status, DETAIL, details)
        return status


    def report_of(status: Any) -> Dict[str, Any]:
        """Returns a status of ops as a `StatusReport`."""
        if not hasattr(status, "name") or not hasattr(status, "message"):
            raise TypeError("{!r} is no status of ops, such as ops.ActiveStatus".format(status))
        details = dict(getattr(status, DETAIL, None) or {})
        return report(status.name, status.message, **details)


    def report(level: str, message: Any, **details: Any) -> Dict[str, Any]:
        """Returns a `StatusReport` that the server takes: names cleaned, texts cut."""
        known = "LEVEL_" + level.upper()
        made: Dict[str, Any] = {
            "component": _texts.name(details.get("component", "")),
            "key": _texts.name(details.get("key", "")),
            "level": known if known in _texts.RANKS else "LEVEL_UNKNOWN",
            "message": _texts.public(message or ""),
        }
        texts = {
            "short_message": _texts.short(details.get("short") or ""),
            "check": _texts.public(details.get("check") or ""),
            "action": _texts.public(details.get("action") or ""),
            "reason": _texts.cut(details.get("reason") or "", _texts.NAME_BYTES_MAX),
            "labels": labels(details.get("labels") or {}),
        }
        made.update({name: text for name, text in texts.items() if text})
        for name in ("priority", "precedence"):
            number = int(details.get(name) or 0)
            if number:
                made[name] = max(-PRIORITY_MAX, min(number, PRIORITY_MAX))
        return made


    def labels(given: Any) -> Dict[str, str]:
        """Returns the labels that the server takes."""
        found: Dict[str, str] = {}
        for name, value in list(dict(given).items())[:LABELS_MAX]:
            name = _texts.cut(name, LABEL_BYTES_MAX)
            if name:
                found[name] = _texts.public(value, LABEL_BYTES_MAX)
        return found


    def table(rows: List[List[str]]) -> str:
        """Returns rows of text as columns. `action-set` is a program, so the texts are visible."""
        rows = [[_texts.line(cell) for cell in row] for row in rows]
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = []
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)
    return locals()


_add("_charm", _define_charm)


def _define_data():
    """The data that the leader of an application shares with its units, for a charm."""


    pass


    KEY_BYTES_MAX = 256
    VALUE_BYTES_MAX = 64 * 1024
    #: Data above this size are not kept for hooks without a server.
    KEPT_BYTES_MAX = 256 * 1024


    class NotLeader(Exception):
        """Only the leader of the application writes its data."""


    class LeaderData:
        """Reads come from the server once in a hook; without it, from the last hook that reached it."""

        def __init__(self, reporter: StatusReporter) -> None:
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
    return locals()


_add("_data", _define_data)


def _define_work():
    """Attempts and operations of a charm: failed calls, and work that the next hook continues."""


    import functools
    import os
    import time

    pass
    Log = _log.Log
    masked = _secrets.masked


    logger = Log(__name__)

    #: The server considers an operation interrupted after this time without a `save`.
    LEASE_SECONDS = 1800.0
    PAYLOAD_BYTES_MAX = 262_144
    CHECKPOINT_BYTES_MAX = 65_536
    PROGRESS_BYTES_MAX = 256
    #: The shape of the end of an id, which is random.
    UNIQUE = "0" * 8
    #: Kinds of operations, by the word that a name begins with. A rollback is one of an operation that
    #: said before that it can be undone, which this package does not.
    KINDS = {
        "upgrade": "OPERATION_KIND_UPGRADE",
        "install": "OPERATION_KIND_INSTALL",
        "configure": "OPERATION_KIND_CONFIGURE",
        "other": "OPERATION_KIND_OTHER",
    }
    #: States of operations that have ended.
    CLOSED = tuple(
        "OPERATION_STATE_" + state for state in ("SUCCEEDED", "FAILED", "SUPERSEDED", "ABANDONED")
    )
    #: Calls that end an operation for good. They are made without a fence too.
    ENDS = ("complete_operation", "cancel_operation")


    class Attempt:
        """One call of something outside. As a context manager it suppresses the exception.

        As a decorator it also skips the call while it is not due, and repeats it for at most `wait`
        seconds; the result of a call that failed or was skipped is None.
        """

        def __init__(
            self, reporter: StatusReporter, component: str, target: str, wait: float, action: str
        ) -> None:
            self._reporter = reporter
            self.component, self.target = _texts.name(component), _texts.target(target)
            self._wait, self._action = wait, action
            #: The exception of the last attempt, or None.
            self.error: Optional[BaseException] = None
            #: What to do next, a `Verdict` of the protos; empty after a success.
            self.verdict: Dict[str, Any] = {}

        @property
        def failed(self) -> bool:
            """Whether the last attempt failed."""
            return self.error is not None

        def __enter__(self) -> Attempt:
            self.error, self.verdict = None, {}
            return self

        def __exit__(
            self,
            kind: Optional[Type[BaseException]],
            error: Optional[BaseException],
            trace: Optional[TracebackType],
        ) -> bool:
            if error is None:
                self._reporter.resolve(self.component, self.target)
                return False
            if not isinstance(error, Exception):
                return False
            self.error = error
            # Only a call that is repeated in place can try again at once.
            least = {} if not self._wait else {"shortest_wait": 0.0}
            self.verdict = self._reporter.report_error(
                self.component, self.target, error, action=self._action, **least
            )
            logger.warning("%s: %s failed: %s", self.component, self.target, type(error).__name__)
            return True

        def __call__(self, function: Function) -> Function:
            @functools.wraps(function)
            def attempted(*given: Any, **named: Any) -> Any:
                if not self._reporter.due(self.component, self.target):
                    return None
                end = time.monotonic() + self._wait
                while True:
                    with self:
                        return function(*given, **named)
                    wait = self.verdict.get("retry_after")
                    if wait is None or time.monotonic() + wait > end:
                        return None
                    time.sleep(wait)

            return attempted  # type: ignore[return-value]


    def _check_bytes(name: str, value: Any, bytes_max: int) -> None:
        """Refuses what the record of the unit cannot hold, before it is stored."""
        if not isinstance(value, bytes):
            raise TypeError("the {} is bytes, not {!r}".format(name, type(value).__name__))
        if len(value) > bytes_max:
            raise ValueError("the {} has more than {} bytes".format(name, bytes_max))


    def public_report(error: BaseException) -> Dict[str, Any]:
        """Returns the report of an exception as others may read it, the traceback included."""
        report = _classify.report_of(error)
        report["message"] = _texts.public(report["message"])
        detail = masked(_texts.visible(report["internal_detail"])).encode("utf-8")
        # The end of a traceback says most.
        report["internal_detail"] = detail[-_classify.DETAIL_BYTES_MAX :].decode("utf-8", "ignore")
        return report


    def _kind(name: str, given: Optional[str]) -> str:
        """Returns the kind of an operation: the given one, else that of the first word of its name."""
        if given is None:
            return KINDS.get(name.split("-")[0], KINDS["other"])
        if given not in KINDS:
            known = ", ".join(KINDS)
            raise ValueError("the kind of an operation is {}, not {!r}".format(known, given))
        return KINDS[given]


    def _id_end(unit: str, unique: str) -> str:
        """Returns what follows the name of an operation in its id at the server."""
        return "-{}-{}".format(unit.replace("/", "-")[:80], unique)


    def open_operations(courier: Courier, listed: List[Any]) -> Dict[str, Dict[str, Any]]:
        """Returns the records of the operations at the server that this package began, by name."""
        found = {}
        for one in listed:
            whole_id, end = one["operation_id"], _id_end(one["unit"], UNIQUE)
            name = whole_id[: -len(end)]
            is_ours = whole_id == name + _id_end(one["unit"], whole_id[-len(UNIQUE) :])
            if one["state"] in CLOSED or not is_ours:
                continue
            answer = courier.call("get_operation", operation_id=whole_id)
            whole = answer["operation"]
            found[name] = {
                "id": whole["operation_id"],
                "to": whole["target_version"],
                "payload": whole["payload"],
                "checkpoint": whole["checkpoint"],
                "progress": whole["progress"],
                # A hook of this unit that held the operation is over.
                "fence": whole["fence"] if whole["holder"] == whole["unit"] else 0,
                "begun": True,
                "pushed": False,
            }
        return found


    class Operation:
        """Work of this unit that survives the end of its hook.

        The payload and the checkpoint are stored in the state of the unit before anything else, so
        that they need no server. The server has a copy, as an operation of the unit, or as a kept
        status while another operation of the unit is open.
        """

        def __init__(
            self, reporter: StatusReporter, name: str, to: str, payload: bytes, kind: Optional[str]
        ) -> None:
            _check_bytes("payload", payload, PAYLOAD_BYTES_MAX)
            self._reporter = reporter
            self.name = _texts.name(name) or "operation"
            self._kind = _kind(self.name, kind)
            self.to = _texts.public(to, PROGRESS_BYTES_MAX)
            self._given = payload
            #: Whether an earlier hook began this operation.
            self.resumed = False
            #: Whether an operator asked at the server that the work stops.
            self.cancelled = False

        @property
        def payload(self) -> bytes:
            """The payload of the hook that began the operation."""
            return bytes(self._record["payload"])

        @property
        def checkpoint(self) -> bytes:
            """What the last `save` stored; empty at the start."""
            return bytes(self._record["checkpoint"])

        @property
        def _record(self) -> Dict[str, Any]:
            record = self._reporter.state.operations.get(self.name)
            if record is None:
                raise RuntimeError("operation {} is not open: use it in `with`".format(self.name))
            return record

        def save(self, checkpoint: bytes, progress: str = "") -> None:
            """Stores how far the work is, before it goes on."""
            _check_bytes("checkpoint", checkpoint, CHECKPOINT_BYTES_MAX)
            record = self._record
            record["checkpoint"] = checkpoint
            record["progress"] = _texts.public(progress, PROGRESS_BYTES_MAX) or record["progress"]
            self._reporter.save()
            self._show()

        def __enter__(self) -> Operation:
            self._reporter.restore()
            known = self._reporter.state.operations.get(self.name)
            self.resumed = known is not None and known["to"] == self.to
            if known is not None and not self.resumed:
                # The older target is given up; its record at the server ends with it.
                self._end(known, "cancel_operation", {})
            if not self.resumed:
                self._reporter.state.operations[self.name] = {
                    "id": self.name[:150] + _id_end(self._reporter.names["unit"], os.urandom(4).hex()),
                    "to": self.to,
                    "payload": self._given,
                    "checkpoint": b"",
                    "progress": "",
                    "fence": 0,
                    "begun": False,
                    "pushed": False,
                }
            self._reporter.save()
            self._hold()
            self._show()
            return self

        def __exit__(
            self,
            kind: Optional[Type[BaseException]],
            error: Optional[BaseException],
            trace: Optional[TracebackType],
        ) -> None:
            record = self._record
            if error is None:
                self._end(record, "complete_operation", {"fence": record["fence"]})
                del self._reporter.state.operations[self.name]
            elif isinstance(error, Exception):
                report = dict(public_report(error), component="operation", target=self.name)
                request = {"fence": record["fence"], "error": report, "touched": True}
                self._end(record, "fail_operation", request)
                record["fence"] = 0
                record["progress"] = _texts.public(report["message"], PROGRESS_BYTES_MAX)
            else:
                self._end(record, "release_operation", {"fence": record["fence"]})
                record["fence"] = 0
            self._reporter.save()

        def _hold(self) -> None:
            """Begins the operation at the server, or takes it up again."""
            record, courier = self._record, self._reporter.courier
            # What an earlier hook said of this operation comes first.
            self._reporter.flush()
            if not courier.spare:
                return
            names = {"unit": self._reporter.names["unit"], "operation_id": record["id"]}
            try:
                if record["fence"]:
                    # The process that had this fence is gone: hooks of a unit run one at a time.
                    courier.call("release_operation", fence=record["fence"], **names)
                record["fence"], was_begun, record["begun"] = 0, record["begun"], True
                begun = courier.call(
                    "begin_operation",
                    kind=self._kind,
                    target_version=self.to,
                    payload=record["payload"],
                    deterministic=True,
                    for_unit=self._reporter.names["unit"],
                    lease_duration=LEASE_SECONDS,
                    **names,
                )
                if not begun["begun"]:
                    was_begun = True
                    begun = courier.call("acquire_operation", **names)
                record["fence"] = begun["operation"]["fence"]
            except errors.Error as error:
                logger.info("the unit alone keeps the operation %s: %s", self.name, error)
                if error.reason in ("OPERATION_HELD", "RESUME_FIRST") and not was_begun:
                    record["begun"] = False
            self._reporter.save()

        def _show(self) -> None:
            record = self._record
            if record["fence"] and self._reporter.courier.spare:
                try:
                    answer = self._reporter.courier.call(
                        "heartbeat_operation",
                        unit=self._reporter.names["unit"],
                        operation_id=record["id"],
                        fence=record["fence"],
                        checkpoint=record["checkpoint"],
                        progress=record["progress"],
                    )
                    self.cancelled = answer["operation"]["state"] == "OPERATION_STATE_CANCELLING"
                except errors.Aborted:
                    # Another hook of this unit cannot run, so an operator took the operation away.
                    record["fence"] = 0
                except errors.Error as error:
                    logger.info("the progress of %s is not delivered: %s", self.name, error)
            if record["fence"]:
                self._hide(record)
                return
            shown = "{} to {}".format(self.name, self.to)
            if record["progress"]:
                shown += " ({})".format(record["progress"])
            record["pushed"] = True
            status = self._reporter.maintenance("operation", shown)
            self._reporter.push("operation", status, key=self.name)

        def _hide(self, record: Dict[str, Any]) -> None:
            """Clears the status that stood for the operation."""
            if record["pushed"]:
                record["pushed"] = False
                self._reporter.clear("operation", key=self.name)

        def _end(self, record: Dict[str, Any], method: str, request: Dict[str, Any]) -> None:
            """Ends the operation at the server, now or later, and the status that stood for it."""
            if method in ENDS:
                self._hide(record)
            if not record["begun"] or (method not in ENDS and not record["fence"]):
                return
            request = dict(request, operation_id=record["id"])
            if method != "cancel_operation":
                request["unit"] = self._reporter.names["unit"]
            self._reporter.say(["operation", record["id"]], method, request)
    return locals()


_add("_work", _define_work)


def _define_hook():
    """The end of a hook: what a charm has said of itself becomes calls, after a crash too."""


    import os
    import time

    pass
    Log = _log.Log
    public_report = _work.public_report


    logger = Log(__name__)

    #: The component of hooks that failed.
    HOOK = "hook"
    #: The event with which `bellwether attend` starts a hook because of a callback, and the variable
    #: with the component of the callback: those of a charm have none.
    EVENT, COMPONENT = "callback-due", "BELLWETHER_COMPONENT"
    MODES = {
        "contribute": "APPLICATION_STATUS_MODE_CONTRIBUTE",
        "override": "APPLICATION_STATUS_MODE_OVERRIDE",
    }


    class HookEnd:
        """Turns the statuses of one hook into calls."""

        def __init__(
            self, reporter: StatusReporter, application_status: str, set_ttl: Optional[float]
        ) -> None:
            self._reporter = reporter
            #: Seconds, 0 for none; None: learned from the distance of the hooks `update-status`.
            self._set_ttl = set_ttl
            if application_status not in MODES:
                known = " or ".join(MODES)
                raise ValueError("application_status is {}, not {!r}".format(known, application_status))
            self._mode = MODES[application_status]
            #: Components of advanced_statuses, in their order of priority.
            self.managers: Sequence[Any] = ()
            self._is_done = False
            self._began = time.time()
            #: Keys of the callbacks that this hook has requested.
            self._requested: Set[str] = set()

        def request(self, key: str, after: float, reason: str) -> None:
            """Requests a callback, which replaces an earlier one with the same key."""
            reporter = self._reporter
            self._requested.add(key)
            reporter.state.callbacks[key] = {"due": time.time() + after, "reason": reason}
            request = {"unit": reporter.names["unit"], "key": key, "after": after, "reason": reason}
            reporter.state.put(["callback", key], _deliver.CALLBACK, request)

        def _end_callbacks(self) -> None:
            """Cancels the callbacks that were due when this hook began: the charm had its chance."""
            state = self._reporter.state
            due = {key for key, one in state.callbacks.items() if one["due"] <= self._began}
            if os.environ.get("BELLWETHER_EVENT") == EVENT and not os.environ.get(COMPONENT):
                # The clock of the server decides, and the record of the unit may be lost.
                due.add(os.environ.get("BELLWETHER_KEY", ""))
            for key in sorted(due - self._requested):
                state.callbacks.pop(key, None)
                request = {"unit": self._reporter.names["unit"], "key": key}
                state.put(["callback", key], _deliver.CALLBACK, request)

        def commit(self) -> None:
            """Reports the hook, after ops has evaluated the statuses. Never raises."""
            self._is_done = True
            reporter = self._reporter
            try:
                if reporter.hook == "remove":
                    reporter.state.spool = []
                    # A unit with the same name and disk begins a new life.
                    reporter.state.end_life()
                    reporter.state.put(["remove"], "remove_unit", {"unit": reporter.names["unit"]})
                else:
                    reporter.restore()
                    self._end_hook_fault()
                    self._put_unit()
                    self._put_application()
                    self._end_callbacks()
                reporter.flush()
            except Exception:
                logger.exception("the statuses are not reported")
                # The next hook compares with nothing of this one.
                reporter.state.pull, reporter.state.application = [], {}

        def close(self, error: Optional[BaseException]) -> None:
            """Reports the exception that ends a hook before its commit. Never raises."""
            if error is not None and not self._is_done:
                if _charm.is_failure(error):
                    self._crash(error)
                else:
                    self.commit()
            self._is_done = True
            self._reporter.courier.close()

        def _crash(self, error: BaseException) -> None:
            reporter, target = self._reporter, self._reporter.hook or HOOK
            try:
                # Juju shows the error after one failure, and so does this.
                text = public_report(error)["message"]
                said = "{} failed: {}: {}".format(target, type(error).__name__, text)
                status = _charm.report("error", said, reason="HookFailed")
                status.update(component=HOOK, key=_texts.name(target), kind="STATUS_KIND_PUSH")
                status["observe_time"] = time.time()
                request = {"unit": reporter.names["unit"], "status": status}
                reporter.state.hook_failed = True
                reporter.state.put(["push", HOOK, status["key"]], "report_status", request)
                reporter.report_error(HOOK, target, error)
                reporter.flush()
            except Exception:
                logger.exception("the failure of the hook is not reported")

        def _end_hook_fault(self) -> None:
            """Ends what an earlier hook that failed has left: Juju runs a hook only after that."""
            state, names = self._reporter.state, {"unit": self._reporter.names["unit"]}
            if state.hook_failed is False:
                return
            state.faults = {name: one for name, one in state.faults.items() if one["component"] != HOOK}
            names["component"] = HOOK
            cleared = dict(names, kind="STATUS_KIND_PUSH")
            state.put(["clear", HOOK], "clear_status", cleared, ["push", HOOK])
            resolved = dict(names, generation=self._reporter.generation())
            state.put(["resolve", HOOK], "resolve_error", resolved, ["fault", HOOK])
            state.hook_failed = False

        def _put_unit(self) -> None:
            reporter = self._reporter
            if self.managers:
                reports = advanced_statuses.reports

                found = reports(self.managers, "unit")
            elif reporter.collected["unit"]:
                own = [one for one in reporter.collected["unit"] if not _is_kept(one)]
                found = [_charm.report_of(one) for one in own]
            else:
                found = self._slot()
            found = _texts.fit(found)
            if self.managers or reporter.collected["unit"]:
                _texts.identify(found, reporter.state.pull)
            _set_times(found, reporter.state.pull)
            reporter.state.pull = found
            reporter.state.put(["pull"], "replace_statuses", self._set(found))

        def _set(self, found: List[Dict[str, Any]]) -> Dict[str, Any]:
            """Returns the request of a set, whose statuses are fresh for the time of the reporter."""
            ttl = self._reporter.state.learned_ttl() if self._set_ttl is None else self._set_ttl
            statuses = [dict(one, ttl=ttl) for one in found] if ttl else found
            unit = self._reporter.names["unit"]
            return {"unit": unit, "statuses": statuses, "cut_long_texts": True}

        def begin(self) -> None:
            """Says at the start of a hook that the unit stops, or that a new life of it begins.

            What the hook `stop` says is about the life that ends: it does not pass to the next one.
            """
            state, unit = self._reporter.state, {"unit": self._reporter.names["unit"]}
            if self._reporter.hook == "update-status":
                state.note_update()
            if self._reporter.hook == "stop":
                if not state.stopping:
                    state.stopping = True
                    state.put(["stopping"], "announce_stop", unit)
                return
            if self._reporter.hook == "remove" or state.registered and not state.stopping:
                return
            # A record that begins is that of a new disk, which is a new life too.
            state.registered, state.stopping = True, False
            for kept in (state.pushes, state.faults):
                for name in [name for name, one in kept.items() if one.get("while_stopping")]:
                    del kept[name]
            state.put(["register"], "register_unit", unit)

        def _slot(self) -> List[Dict[str, Any]]:
            """Returns the one status that Juju has of the unit."""
            status = self._reporter.charm.unit.status
            report = _charm.report_of(status)
            if status.name == "error":
                # A failed hook is reported by itself.
                return self._reporter.state.pull
            for known in self._reporter.state.pull:
                same = (known["level"], known["message"]) == (report["level"], report["message"])
                if same and not getattr(status, _charm.DETAIL, None):
                    # Juju has the text only; the details are those of the hook that set it.
                    return [known]
            return [report]

        def _put_application(self) -> None:
            reporter = self._reporter
            if self.managers and reporter.is_leader():
                reports = advanced_statuses.reports

                found = reports(self.managers, "app")
            elif reporter.collected["app"]:
                found = [_charm.report_of(one) for one in reporter.collected["app"]]
            elif reporter.application_set:
                found = [_charm.report_of(reporter.charm.app.status)]
            else:
                return
            found = _texts.fit([one for one in found if one["level"] != "LEVEL_UNKNOWN"])
            if self._mode == MODES["override"]:
                # Only the slot can win over the units; Juju shows one status too.
                worst = min(found, key=lambda one: _texts.RANKS.get(one["level"], 9), default={})
                if reporter.collected["app"] and not self.managers:
                    worst = _charm.report_of(reporter.charm.app.status)
                self._put_slot(worst)
                return
            if reporter.state.application:
                # An earlier version of the package used the slot.
                reporter.state.application = {}
                cleared = {"unit": reporter.names["unit"]}
                reporter.state.put(["application"], "clear_application_status", cleared)
            if not found and not reporter.state.application_set:
                return
            _texts.identify(found, reporter.state.application_set)
            _set_times(found, reporter.state.application_set)
            reporter.state.application_set = found
            request = self._set(found)
            reporter.state.put(["application", "set"], "replace_application_statuses", request)

        def _put_slot(self, report: Dict[str, Any]) -> None:
            reporter = self._reporter
            names = ("level", "message", "reason", "action")
            request = {name: report[name] for name in names if report.get(name)}
            if request.get("level", "LEVEL_UNKNOWN") == "LEVEL_UNKNOWN":
                return
            before = reporter.state.application
            is_same = before.get("level") == request["level"]
            request["observe_time"] = before["observe_time"] if is_same else time.time()
            reporter.state.application = dict(request)
            request.update(unit=reporter.names["unit"], mode=self._mode)
            reporter.state.put(["application"], "set_application_status", request)


    def _set_times(found: List[Dict[str, Any]], before: List[Dict[str, Any]]) -> None:
        """Gives each status the start of its level, so that a late delivery shows it."""
        now, known = time.time(), {}
        for one in before:
            known[(one["component"], one["key"], one["level"])] = one["observe_time"]
        for one in found:
            one["observe_time"] = known.get((one["component"], one["key"], one["level"]), now)


    def detail(reporter: StatusReporter, event: Any) -> None:
        """Answers the action `status-detail` with what the unit knows, without a server too."""
        import json

        state = reporter.state
        rows = [["LEVEL", "COMPONENT", "MESSAGE", "ACTION", "CHECK"]]
        statuses = state.pull + list(reporter.pushes())
        statuses.sort(key=lambda one: _texts.RANKS.get(one["level"], 9))
        for one in statuses:
            named = "/".join(part for part in (one["component"], one["key"]) if part)
            row = [one["level"][len("LEVEL_") :].lower(), named or "-", one["message"] or "-"]
            rows.append(row + [one.get("action") or "-", one.get("check") or "-"])
        for fault in state.faults.values():
            level = _classify.level_of(fault) or "-"
            said = "{}: {}".format(fault["target"], fault["report"]["message"])
            rows.append([level, fault["component"] or "-", said, "-", fault["report"]["code"]])
        for name, one in state.operations.items():
            said = "to {} {}".format(one["to"], one["progress"]).strip()
            rows.append(["maintenance", "operation/" + name, said, "-", "-"])
        answer = {
            "statuses": statuses,
            "application": state.application,
            "application-statuses": state.application_set,
            "errors": list(state.faults.values()),
            "operations": {name: one["to"] for name, one in state.operations.items()},
            "waiting-calls": len(state.spool),
        }
        results = {
            "table": _charm.table(rows),
            "json": json.dumps(answer, sort_keys=True),
            "delivered": "no" if state.spool else "yes",
        }
        try:
            event.set_results(results)
        except Exception:
            # `action-set` is a program, which can be missing or fail.
            logger.exception("the statuses are not shown by the action")


    def _is_kept(status: Any) -> bool:
        return bool((getattr(status, _charm.DETAIL, None) or {}).get("kept"))
    return locals()


_add("_hook", _define_hook)


def _define_ops():
    """The statuses of a charm: reported to Bellwether at the end of each hook, and complete without it.

        from bellwether_client.ops import StatusReporter

        class Charm(ops.CharmBase):
            def __init__(self, framework):
                super().__init__(framework)
                self.status = StatusReporter(self)

    The module imports `ops` when a reporter is made, so that the package itself needs nothing.
    """


    import math
    import os
    import time

    pass
    LeaderData = _data.LeaderData
    NotLeader = _data.NotLeader
    HOOK = _hook.HOOK
    HookEnd = _hook.HookEnd
    Log = _log.Log
    StatusError = _raised.StatusError
    Attempt = _work.Attempt
    Operation = _work.Operation
    open_operations = _work.open_operations
    public_report = _work.public_report


    logger = Log(__name__)

    #: The option of a charm that has the address.
    ADDRESS_OPTION = "bellwether-address"
    #: The settings of `Client` that a reporter passes on.
    SETTINGS = ("token", "token_file", "ca", "cert", "cert_key", "retries")
    SETTABLE = ("active", "waiting", "maintenance", "blocked")
    #: All calls of a hook; with the files and the last return it stays below 2 s.
    CALLS_SECONDS = 1.9
    #: A hook that ends cannot try again sooner: the next one starts after some seconds.
    SHORTEST_WAIT_SECONDS = 10.0
    #: The attribute of a charm that has its reporter.
    REPORTER = "_bellwether_reporter"
    #: Hooks in which a person may have removed the cause of an error.
    CHANGED = ("config-changed", "upgrade-charm", "secret-changed")

    __all__ = ["Attempt", "LeaderData", "NotLeader", "Operation", "StatusError", "StatusReporter"]


    class StatusReporter:
        """Reports what a charm says of itself. No method fails because of the server.

        `address` is the address of the server; without it the option `bellwether-address` of the
        charm, then BELLWETHER_SERVER. Without any, everything works inside of the unit only.
        `namespace` is that of the application; without it the name of the model, which several
        controllers can have. `timeout` is for all calls of a hook together. `application_status` is
        `contribute` or `override`: how a status of the application takes part. `set_ttl` is the time
        in seconds after which the set of the unit is stale without another hook: 0 for never, None
        for three distances of the hooks `update-status`. `settings` are those of `Client`.

        A charm has one reporter: a library that makes another one gets the first, with its settings.
        """

        def __new__(cls, charm: ops.CharmBase, *_: Any, **__: Any) -> StatusReporter:
            known = getattr(charm, REPORTER, None)
            return known if isinstance(known, cls) else super().__new__(cls)

        def __init__(
            self,
            charm: ops.CharmBase,
            address: Optional[str] = None,
            *,
            namespace: Optional[str] = None,
            application_status: str = "contribute",
            timeout: float = CALLS_SECONDS,
            set_ttl: Optional[float] = None,
            state_dir: Optional[str] = None,
            **settings: Any,
        ) -> None:
            if getattr(charm, REPORTER, None) is self:
                return
            unknown = sorted(set(settings) - set(SETTINGS))
            if unknown:
                known = ", ".join(SETTINGS)
                raise TypeError("a reporter has no setting {!r}; it has {}".format(unknown[0], known))
            self.charm = charm
            self._address, self._settings = address, settings
            self.names = {
                "namespace": charm.model.name or "" if namespace is None else namespace,
                "application": charm.app.name,
                "unit": charm.unit.name,
            }
            self.hook = _charm.hook_name()
            folder = state_dir or os.environ.get("BELLWETHER_STATE_DIR") or str(charm.charm_dir)
            path = _state.state_path(folder, self.names["namespace"], self.names["unit"])
            self.state = _state.State(path)
            self._unsaved = ""
            self.courier = _deliver.Courier(self._connect, timeout, self.names)
            self.data = LeaderData(self)
            #: The statuses that this hook has collected, and whether it set one of the application.
            self.collected: Dict[str, List[Any]] = {"unit": [], "app": []}
            self.application_set = False
            #: Statuses of `StatusError` that handlers of this hook have raised.
            self.raised: List[Any] = []
            self._end = HookEnd(self, application_status, set_ttl)
            self._end.begin()
            self._observer = _charm.watch(self)
            # ops keeps no observer alive, and a charm may not keep its reporter.
            setattr(charm, REPORTER, self)

        # Statuses with details, for `event.add_status` or `unit.status`.

        def blocked(self, component: str, message: str, *, action: str, **more: Any) -> Any:
            """Returns a blocked status. `action` is what a person has to do: a sentence or command."""
            return self._status("blocked", component, message, dict(more, action=action))

        def waiting(self, component: str, message: str, **more: Any) -> Any:
            """Returns a waiting status.

            `more`: key, action, check, short, reason, priority, labels.
            """
            return self._status("waiting", component, message, more)

        def maintenance(self, component: str, message: str, **more: Any) -> Any:
            """Returns a maintenance status; `more` as for `waiting`."""
            return self._status("maintenance", component, message, more)

        def active(self, component: str, message: str = "", **more: Any) -> Any:
            """Returns an active status; `more` as for `waiting`."""
            return self._status("active", component, message, more)

        # Statuses that are kept over hooks.

        def push(
            self, component: str, status: Any, *, key: str = "", ttl: Optional[float] = None
        ) -> None:
            """Keeps a status until `clear`, or for `ttl` seconds (1 s to 30 days).

            After that it ends here and at the server; another push of the same status moves the end.
            """
            report = dict(
                _charm.report_of(status), component=_texts.name(component), key=_texts.name(key)
            )
            before = self.state.pushes.get(_state.pair(report["component"], report["key"]), {})
            now = time.time()
            is_same = before.get("level") == report["level"]
            report["observe_time"] = before["observe_time"] if is_same else now
            if ttl is not None:
                if math.isnan(float(ttl)):
                    raise ValueError("the ttl of a status is a number of seconds, not {!r}".format(ttl))
                report["end_after"] = min(max(float(ttl), 1.0), 30 * 86400.0)
            expires = now + report["end_after"] if ttl is not None else None
            kept = dict(report, expires=expires, while_stopping=self.state.stopping)
            request = {"unit": self.names["unit"], "cut_long_texts": True}
            request["status"] = dict(report, kind="STATUS_KIND_PUSH")
            # The end of the hook writes the file; until then the journal has the status.
            self.state.note_push(_state.pair(report["component"], report["key"]), kept, request)
            self._deliver()

        def clear(self, component: str, key: Optional[str] = None) -> None:
            """Ends the kept statuses of a component, or the one with the key."""
            component = _texts.name(component)
            for pair, one in list(self.state.pushes.items()):
                if one["component"] == component and key in (None, one["key"]):
                    del self.state.pushes[pair]
            request = {"unit": self.names["unit"], "component": component}
            request["kind"] = "STATUS_KIND_PUSH"
            if key is None:
                self.say(["clear", component], "clear_status", request, ["push", component])
            else:
                request["key"] = _texts.name(key)
                self.say(["push", component, request["key"]], "clear_status", request)

        def kept(self) -> List[Any]:
            """Returns the kept statuses and the open errors as statuses of ops, the worst first.

            Add them in the handler of collect-status to see them in `juju status` too; the server
            has them already.
            """
            self.restore()
            found = []
            for one in self.pushes():
                found.append((one["level"][len("LEVEL_") :].lower(), one["message"]))
            for fault in self.state.faults.values():
                level = _classify.level_of(fault)
                # The failure of an earlier hook ends with this one, which is good up to now.
                if level and fault["component"] != HOOK:
                    text = fault["report"]["message"]
                    found.append((level, "{}: {}".format(fault["component"], text)))
            ranked = sorted(found, key=lambda one: _texts.RANKS.get("LEVEL_" + one[0].upper(), 9))
            statuses = []
            for level, message in ranked:
                known = level if level in SETTABLE else "blocked"
                statuses.append(_charm.make(known, message, {"kept": True}))
            return statuses

        # Another hook.

        def later(self, seconds: float, reason: str = "", key: str = "") -> None:
            """Requests a hook in so many seconds (1 s to 7 days): `bellwether attend` starts it.

            Another request with the same key replaces it. It ends with the first hook that begins
            after its time and ends well, unless that hook requests it again.
            """
            if math.isnan(float(seconds)):
                raise ValueError("a hook comes after a number of seconds, not {!r}".format(seconds))
            after = min(max(float(seconds), 1.0), 7 * 86400.0)
            key, reason = _texts.name(key), _texts.public(reason, _texts.NAME_BYTES_MAX)
            self._end.request(key, after, reason)
            self.flush()

        # Errors and work.

        def attempt(
            self, component: str, target: str, *, wait: float = 0.0, action: str = ""
        ) -> Attempt:
            """Returns a context manager and decorator for a call that may fail.

            An exception is reported with its class, and suppressed; a success ends the error.
            `wait` is for the decorator: seconds for which it repeats the call as the verdict says.
            """
            return Attempt(self, component, target, wait, action)

        def due(self, component: str, target: str) -> bool:
            """Returns whether the last verdict allows an attempt now. Always true in a removal."""
            fault = self.state.faults.get(_state.pair(_texts.name(component), _texts.target(target)))
            if fault is None or self.hook in ("stop", "remove"):
                return True
            kind = fault["verdict"]["class"]
            if kind == "ERROR_CLASS_BLOCKED" and fault["verdict"].get("held", True):
                return self.hook != "update-status"
            if kind in ("ERROR_CLASS_GONE", "ERROR_CLASS_FATAL") and fault["next"] is None:
                return self._is_released(fault)
            return time.time() >= float(fault["next"] or 0)

        def report_error(
            self,
            component: str,
            target: str,
            error: BaseException,
            *,
            action: str = "",
            shortest_wait: float = SHORTEST_WAIT_SECONDS,
        ) -> Dict[str, Any]:
            """Reports a failed call, and returns the verdict: that of the server if it is reached.

            The next attempt waits at least `shortest_wait` seconds: another hook makes it.
            """
            component, target = _texts.name(component), _texts.target(target)
            pair, now = _state.pair(component, target), time.time()
            report = dict(public_report(error), component=component, target=target)
            report["action"] = _texts.public(action)
            report["shortest_wait"] = shortest_wait
            fault = self.state.faults.get(pair)
            if fault is None:
                fault = {"first": now, "count": 0, "while_stopping": self.state.stopping}
            fault.update(component=component, target=target, count=fault["count"] + 1)
            tried = (pair, _state.pair(component, ""))
            self.state.resolved = [one for one in self.state.resolved if one not in tried]
            fault["report"] = {"message": report["message"], "code": report["code"]}
            verdict = self._verdict(report) or _classify.verdict_of(report, fault["count"])
            wait = verdict["retry_after"]
            fault["verdict"] = {name: verdict[name] for name in ("class", "action", "held")}
            fault["next"] = None if wait is None else now + wait
            self.state.faults[pair] = fault
            self.save()
            return verdict

        def resolve(self, component: str, target: Optional[str] = None) -> None:
            """Says that a failed call works again."""
            component = _texts.name(component)
            plain = None if target is None else _texts.target(target)
            open_ones = [
                pair
                for pair, fault in self.state.faults.items()
                if fault["component"] == component and plain in (None, fault["target"])
            ]
            tried = _state.pair(component, plain or "")
            if not open_ones and tried in self.state.resolved:
                return
            # A unit that lost its record cannot know what is open: it says the first success.
            self.state.resolved = self.state.resolved[-_state.CALLS_MAX :] + [tried]
            for pair in open_ones:
                del self.state.faults[pair]
            request = {"unit": self.names["unit"], "component": component}
            request["generation"] = self.generation()
            if plain is None:
                self.say(["resolve", component], "resolve_error", request, ["fault", component])
            else:
                request["target"] = plain
                self.say(["fault", component, plain], "resolve_error", request)

        def resolve_all(self) -> None:
            """Says that everything works: ends the open errors of all components and targets.

            One that is GONE or FATAL stays until an operator releases it.
            """
            held = ("ERROR_CLASS_GONE", "ERROR_CLASS_FATAL")
            for pair, fault in list(self.state.faults.items()):
                if fault["verdict"]["class"] not in held:
                    del self.state.faults[pair]
            request = {"unit": self.names["unit"], "all_components": True}
            request["generation"] = self.generation()
            self.say(["resolve-all"], "resolve_error", request, ["fault"])

        def operation(
            self, name: str, to: str, payload: bytes = b"", *, kind: Optional[str] = None
        ) -> Operation:
            """Returns a context manager for work that the next hook continues if this one ends.

            An exception is reported and raised again; the record stays for the next hook. `kind` is
            `upgrade`, `install`, `configure` or `other`, and gives the words for people;
            without it, it is the first word of the name, or else `other`.
            """
            return Operation(self, name, to, payload, kind)

        def operations(self) -> Dict[str, str]:
            """Returns the target of each operation that an earlier hook began and did not end."""
            self.restore()
            return {name: one["to"] for name, one in self.state.operations.items()}

        def use_advanced_statuses(self, *managers: Any) -> None:
            """Reports the statuses of advanced_statuses; the components in their order of priority."""
            self._end.managers = managers

        # Delivery.

        def flush(self) -> None:
            """Delivers now what waits. Without this, the end of the hook does it."""
            self._deliver()
            self.save()

        def _deliver(self) -> None:
            try:
                self.courier.flush(self.state, self.is_leader)
            except Exception:
                # A call that cannot even be made must not stop those of all later hooks.
                logger.exception("what waits for Bellwether cannot be delivered, and is dropped")
                self.state.spool = []

        def say(
            self,
            identity: Sequence[str],
            method: str,
            request: Dict[str, Any],
            replaces: Sequence[str] = (),
        ) -> None:
            """Adds a call to those that wait, and delivers them if a server is reached."""
            self.state.put(identity, method, request, replaces)
            self.flush()

        def save(self) -> None:
            """Stores the state. A full disk does not fail the hook."""
            try:
                self.state.save()
            except OSError as error:
                # Each call stores the state; one line for a hook says it.
                if str(error) != self._unsaved:
                    logger.error("the state of the statuses is not stored: %s", error)
                self._unsaved = str(error)

        # Called by the observer of the hook.

        def commit(self) -> None:
            """Reports the hook that ends well."""
            self._end.commit()

        def close(self, error: Optional[BaseException]) -> None:
            """Reports the exception with which the hook ends, if there is one."""
            self._end.close(error)

        def detail(self, event: ops.ActionEvent) -> None:
            """Answers the action `status-detail`."""
            if not self._end.managers:
                detail = _hook.detail

                detail(self, event)

        def restore(self) -> None:
            """Reads from the server what the unit kept there, if its own record was lost."""
            if self.state.restored:
                return
            try:
                records = self._listed("list_statuses", "statuses")
                begun = open_operations(self.courier, self._listed("list_operations", "operations"))
            except errors.Error:
                return
            except Exception:
                logger.exception("what the server keeps of this unit cannot be read")
                return
            self.state.restored = True
            for record in records:
                one = record["report"]
                name = _state.pair(one["component"], one["key"])
                if one["kind"] != "STATUS_KIND_PUSH" or one["component"] == HOOK:
                    continue
                if record["while_stopping"]:
                    # It was said of the life that has ended.
                    continue
                if name not in self.state.pushes and not self.state.find(_push(one)):
                    self.state.pushes[name] = _restored(record)
            for name, operation in begun.items():
                operation["pushed"] = _state.pair("operation", name) in self.state.pushes
                self.state.operations.setdefault(name, operation)

        def _listed(self, method: str, field: str) -> List[Any]:
            """Returns what the server has of the unit: nothing before the first report."""
            try:
                return self.courier.all(method, field, unit=self.names["unit"])
            except (errors.NotFound, errors.Unimplemented):
                return []

        # Details.

        def _status(self, level: str, component: str, message: str, more: Mapping[str, Any]) -> Any:
            unknown = sorted(set(more) - set(_charm.DETAILS))
            if unknown:
                known = ", ".join(_charm.DETAILS)
                raise TypeError("a status has no detail {!r}; it has {}".format(unknown[0], known))
            for name in ("priority", "precedence"):
                if not isinstance(more.get(name, 0), int):
                    what = "the {} of a status is a whole number, not {!r}"
                    raise TypeError(what.format(name, more[name]))
            if not isinstance(more.get("labels", {}), dict):
                raise TypeError("the labels of a status are a dict, not {!r}".format(more["labels"]))
            return _charm.make(level, message, dict(more, component=component))

        def pushes(self) -> Iterator[Dict[str, Any]]:
            """Yields the kept statuses that have not expired."""
            now = time.time()
            for pair, one in list(self.state.pushes.items()):
                if one["expires"] is not None and one["expires"] <= now:
                    del self.state.pushes[pair]
                else:
                    yield one

        def _verdict(self, report: Dict[str, Any]) -> Optional[Dict[str, Any]]:
            """Reports an error; returns None if the server is not reached, which gets it later."""
            request = {"unit": self.names["unit"], "cut_long_texts": True}
            error = dict(report, generation=self.generation())
            identity = ["fault", report["component"], report["target"]]
            self.flush()
            try:
                answer = self.courier.call("report_error", error=error, **request)
            except errors.Error as refused:
                # A server of Bellwether that refuses the report would do so again.
                if not (isinstance(refused, errors.InvalidArgument) and refused.has_reason):
                    self.state.put(identity, "report_error", dict(request, error=error))
                return None
            self.state.forget(identity)
            verdict = dict(answer["verdict"])
            verdict["explanation"] = _texts.line(verdict["explanation"])
            return verdict

        def _is_released(self, fault: Dict[str, Any]) -> bool:
            """Asks the server whether an operator released the component."""
            try:
                listed = self.courier.all("list_faults", "faults", unit=self.names["unit"])
            except errors.Error:
                return self.hook in CHANGED or self.hook.endswith("-action")
            for one in listed:
                if (one["component"], one["target"]) == (fault["component"], fault["target"]):
                    return not one["verdict"]["held"]
            return True

        def is_leader(self) -> bool:
            """Returns whether Juju has this unit as the leader."""
            try:
                return bool(self.charm.unit.is_leader())
            except Exception as error:
                logger.warning("Juju does not say whether this unit leads: %s", error)
                return False

        def generation(self) -> str:
            """Returns the name of this run of a hook: a later success ends every error."""
            return _texts.cut(os.environ.get("JUJU_CONTEXT_ID") or str(os.getpid()), 253)

        def _connect(self) -> Optional[Client]:
            address = self._address
            # Older versions of ops do not list the options of a charm.
            options = getattr(self.charm.meta, "config", (ADDRESS_OPTION,))
            if not address and ADDRESS_OPTION in options:
                address = str(self.charm.config.get(ADDRESS_OPTION) or "")
            address = address or os.environ.get("BELLWETHER_SERVER")
            if not address:
                return None
            Client = _client.Client

            return Client(address, **dict({"retries": 1}, **self._settings))


    def _push(report: Any) -> List[str]:
        return ["push", report["component"], report["key"]]


    def _restored(record: Any) -> Dict[str, Any]:
        """Returns a kept status of the server as the state has it."""
        report = record["report"]
        texts = ("short_message", "check", "action", "reason")
        kept: Dict[str, Any] = {name: _texts.public(report[name]) for name in texts if report[name]}
        for name in ("component", "key", "level"):
            kept[name] = report[name]
        kept["message"] = _texts.public(report["message"])
        # An earlier version of the package pushed statuses that are stale in place of an end.
        since, expires = record["since_time"], record["end_time"] or record["expire_time"]
        kept["observe_time"] = since.timestamp() if since else time.time()
        kept["expires"] = expires.timestamp() if expires else None
        return kept
    return locals()


_add("ops", _define_ops)


def _define_advanced_statuses():
    """The statuses of `advanced_statuses` (data-platform-helpers), in the order of its own code.

        self.statuses = StatusHandler(self, self.tls, self.backups)     # as before
        self.reporter = StatusReporter(self)
        self.reporter.use_advanced_statuses(self.tls, self.backups)     # the same components

    | StatusObject | StatusReport |
    |---|---|
    | status, message, short_message, check, action | level, message, short_message, check, action |
    | running | label `running`: `async` or `blocking` |
    | approved_critical_component | precedence 1: it wins over every level |
    | component name, place of the component | component, place in the set |

    The module does not import `advanced_statuses`; it reads the attributes of its objects.
    """


    pass


    #: The order of the levels in `advanced_statuses.components.PRIORITIES`.
    PRIORITIES = {"error": 50, "blocked": 40, "maintenance": 30, "waiting": 20, "active": 10}


    def reports(managers: Sequence[Any], scope: str) -> List[Dict[str, Any]]:
        """Returns the statuses of the components as a set for `ReplaceStatuses`, the winner first.

        `managers` are the arguments of `StatusHandler`, in its order. A status has no identity in
        `advanced_statuses`; the reporter gives it one that lasts.
        """
        return [report_of(component, one) for component, one in in_order(managers, scope)]


    def in_order(managers: Sequence[Any], scope: str) -> List[Tuple[str, Any]]:
        """Returns the statuses with their components: critical ones, then by level and component."""
        found = [(one.name, status) for one in managers for status in one.get_statuses(scope)]
        places = {one.name: place for place, one in reversed(list(enumerate(managers)))}
        return sorted(
            found,
            key=lambda one: (
                not one[1].approved_critical_component,
                -PRIORITIES.get(one[1].status, 0),
                places[one[0]],
            ),
        )


    def report_of(component: str, status: Any) -> Dict[str, Any]:
        """Returns a StatusObject as a `StatusReport`."""
        return _charm.report(
            status.status,
            status.message,
            component=component,
            short=status.short_message,
            check=status.check,
            action=status.action,
            precedence=int(status.approved_critical_component),
            labels={"running": status.running} if status.running else {},
        )
    return locals()


_add("advanced_statuses", _define_advanced_statuses)


def _define_testing():
    """The real server in the tests of a charm or of another client.

        with testing.Server() as server:
            context.run(context.on.install(), state)          # ops[testing]: the charm reports to it
            assert server.application("web")["status"]["level"] == "LEVEL_BLOCKED"

    The program is `binary`, BELLWETHER_BINARY, or `bellwether` in the path. Each server has its own
    folder, port and data. `Fault` plays servers and networks that a charm must survive.
    """


    import json
    import os
    import shutil
    import signal
    import socket
    import subprocess
    import tempfile
    import threading
    import time

    Client = _client.Client


    #: Long enough for a loaded machine; a condition that holds ends a wait at once.
    DEADLINE = 30.0


    class ServerNotFound(Exception):
        """There is no program to start."""


    def find_binary(binary: Optional[str] = None) -> str:
        """Returns the path of the program, or raises ServerNotFound."""
        found = binary or os.environ.get("BELLWETHER_BINARY") or shutil.which("bellwether")
        if not found or not os.path.exists(found):
            raise ServerNotFound("set BELLWETHER_BINARY to the program, or install `bellwether`")
        return found


    class Server:
        """A running server. As a context manager it also sets the environment of the charm:

        BELLWETHER_SERVER, and BELLWETHER_STATE_DIR for what a unit remembers between its hooks.
        `arguments` are those of `bellwether serve`. With `durable`, data survive `restart`.
        """

        def __init__(
            self,
            *arguments: str,
            binary: Optional[str] = None,
            durable: bool = False,
            scheme: str = "http",
        ) -> None:
            self._binary = find_binary(binary)
            self._arguments, self._scheme = list(arguments), scheme
            self._folder = tempfile.TemporaryDirectory(prefix="bellwether-")
            self.state_dir = os.path.join(self._folder.name, "state")
            data = ["--data-dir", os.path.join(self._folder.name, "data")]
            self._arguments += data if durable else ["--ephemeral"]
            self._before: Dict[str, Optional[str]] = {}
            self._process: Optional[subprocess.Popen[bytes]] = None
            self._port = 0
            self.address = ""
            self.start()

        def start(self, *arguments: str) -> None:
            """Starts the server, at its port of before if it had one."""
            command = [self._binary, "serve", "--print-addresses", "json"]
            command += ["--grpc-listen", "127.0.0.1:{}".format(self._port)]
            command += ["--ops-listen", "127.0.0.1:0"]
            clean = {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")}
            log = os.path.join(self._folder.name, "log")
            with open(log, "ab") as errors:
                self._process = subprocess.Popen(
                    [*command, *self._arguments, *arguments],
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=clean,
                )
            line = self._process.stdout.readline() if self._process.stdout else b""
            if not line:
                self.kill()
                with open(log, encoding="utf-8", errors="replace") as file:
                    raise AssertionError("the server did not start: " + file.read())
            listens = json.loads(line.decode())["grpc"]
            self._port = int(listens.rpartition(":")[2])
            self.address = "{}://{}".format(self._scheme, listens)

        def kill(self, how: int = signal.SIGKILL) -> None:
            """Ends the process without a chance to finish."""
            process, self._process = self._process, None
            if process is None:
                return
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(how)
                process.wait(DEADLINE)
            if process.stdout:
                process.stdout.close()

        def restart(self, *arguments: str) -> None:
            """Kills the server and starts it again at the same address, with further arguments."""
            self.kill()
            self.start(*arguments)

        def freeze(self) -> None:
            """Stops the process; its port still accepts connections."""
            if self._process is not None:
                self._process.send_signal(signal.SIGSTOP)

        def thaw(self) -> None:
            """Continues the process after `freeze`."""
            if self._process is not None:
                self._process.send_signal(signal.SIGCONT)

        def close(self) -> None:
            """Ends the server and removes its data."""
            self.kill()
            self._folder.cleanup()

        def __enter__(self) -> Server:
            given = {"BELLWETHER_SERVER": self.address, "BELLWETHER_STATE_DIR": self.state_dir}
            for name, value in given.items():
                self._before[name] = os.environ.get(name)
                os.environ[name] = value
            return self

        def __exit__(self, *_: object) -> None:
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            self.close()

        def client(self, **settings: Any) -> Client:
            """Returns a client of this server."""
            return Client(self.address, **dict({"timeout": DEADLINE}, **settings))

        def application(self, name: str, namespace: str) -> Dict[str, Any]:
            """Returns an application: its status, its leader and its configuration."""
            with self.client() as client:
                answer = client.get_application(application=name, namespace=namespace)
                return dict(answer["application"] or {})

        def statuses(self, unit: str, namespace: str) -> List[Dict[str, Any]]:
            """Returns the reports that the server has of a unit, by component and key."""
            names: Dict[str, Any] = {"application": unit.partition("/")[0], "namespace": namespace}
            found: List[Dict[str, Any]] = []
            with self.client() as client:
                while True:
                    answer = client.list_statuses(unit=unit, page_size=1000, **names)
                    found += [dict(one["report"] or {}) for one in answer["statuses"]]
                    names["page_token"] = answer["next_page_token"]
                    if not names["page_token"]:
                        return found

        def faults(self, application: str, namespace: str) -> List[Dict[str, Any]]:
            """Returns the open errors of an application."""
            with self.client() as client:
                answer = client.list_faults(application=application, namespace=namespace)
                return [dict(one) for one in answer["faults"]]


    class Fault:
        """A peer at an address of its own that is not a healthy server.

        `Fault.slow` passes bytes on to a server after a pause, `Fault.silent` accepts and says
        nothing, `Fault.old` answers every call with UNIMPLEMENTED.
        """

        def __init__(self, serve: Callable[[socket.socket], None]) -> None:
            self._serve = serve
            self._listener = socket.socket()
            self._listener.bind(("127.0.0.1", 0))
            self._listener.listen(16)
            self._open: List[socket.socket] = []
            self.address = "http://127.0.0.1:{}".format(self._listener.getsockname()[1])
            threading.Thread(target=self._accept, daemon=True).start()

        @classmethod
        def slow(cls, server: Server, seconds: float) -> Fault:
            """Returns the way to a server on which each part of an answer takes this long."""
            port = int(server.address.rpartition(":")[2])

            def serve(connection: socket.socket) -> None:
                with socket.create_connection(("127.0.0.1", port)) as far:
                    back = threading.Thread(target=_pass_on, args=(far, connection, seconds))
                    back.daemon = True
                    back.start()
                    _pass_on(connection, far, 0.0)
                    back.join(DEADLINE)

            return cls(serve)

        @classmethod
        def silent(cls) -> Fault:
            """Returns a peer that accepts connections and never answers."""
            return cls(lambda connection: None)

        @classmethod
        def old(cls) -> Fault:
            """Returns a server that has none of the methods."""
            body = b'{"code":"unimplemented","message":"no such method"}'
            head = "HTTP/1.1 501 Not Implemented\r\nContent-Type: application/json\r\n"
            head += "Content-Length: {}\r\n\r\n".format(len(body))

            def serve(connection: socket.socket) -> None:
                while _read_request(connection):
                    connection.sendall(head.encode() + body)

            return cls(serve)

        def close(self) -> None:
            """Closes the address and all connections."""
            self._listener.close()
            for one in self._open:
                one.close()

        def __enter__(self) -> Fault:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def _accept(self) -> None:
            while True:
                try:
                    connection, _ = self._listener.accept()
                except OSError:
                    return
                self._open.append(connection)
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

        def _run(self, connection: socket.socket) -> None:
            try:
                self._serve(connection)
            except OSError:
                pass


    def _pass_on(source: socket.socket, sink: socket.socket, pause: float) -> None:
        try:
            while True:
                data = source.recv(65536)
                if pause:
                    time.sleep(pause)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
        except OSError:
            return


    def _read_request(connection: socket.socket) -> bool:
        """Reads one request; returns False at the end of the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                return False
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        size = 0
        for line in head.decode("latin-1").lower().split("\r\n"):
            if line.startswith("content-length:"):
                size = int(line.partition(":")[2])
        while len(body) < size:
            part = connection.recv(65536)
            if not part:
                return False
            body += part
        return True
    return locals()


_add("testing", _define_testing)

Client = _client.Client
Aborted = errors.Aborted
AlreadyExists = errors.AlreadyExists
Canceled = errors.Canceled
DataLoss = errors.DataLoss
DeadlineExceeded = errors.DeadlineExceeded
Error = errors.Error
FailedPrecondition = errors.FailedPrecondition
Internal = errors.Internal
InvalidArgument = errors.InvalidArgument
NotFound = errors.NotFound
OutOfRange = errors.OutOfRange
PermissionDenied = errors.PermissionDenied
ResourceExhausted = errors.ResourceExhausted
TlsFailed = errors.TlsFailed
Unauthenticated = errors.Unauthenticated
Unavailable = errors.Unavailable
Unimplemented = errors.Unimplemented
Unknown = errors.Unknown
Unreachable = errors.Unreachable
Event = _watch.Event
Watch = _watch.Watch
StatusReporter = ops.StatusReporter

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Canceled",
    "Client",
    "DataLoss",
    "DeadlineExceeded",
    "Error",
    "Event",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "ResourceExhausted",
    "StatusReporter",
    "TlsFailed",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "Unreachable",
    "Watch",
]
