"""The Python client of Bellwether: standard library only, JSON over HTTP/1.1.

    from bellwether_client import Client

    with Client("http://127.0.0.1:50051") as client:
        client.report_status(application="web", unit="web/0", status={"level": "LEVEL_ACTIVE"})
"""

from ._client import Client
from ._needs import need, outside
from .errors import (
    Aborted,
    AlreadyExists,
    Canceled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    TlsFailed,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Unknown,
    Unreachable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._watch import Event, Watch

__version__ = "0.1.0"

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
    "TlsFailed",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "Unreachable",
    "Watch",
    "need",
    "outside",
]


def __getattr__(name: str) -> object:
    """Imports the watch when it is used first, so that a short program does not pay for it."""
    if name in ("Event", "Watch"):
        from . import _watch

        return getattr(_watch, name)
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
