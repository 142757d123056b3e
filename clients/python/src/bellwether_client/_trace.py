"""The trace in which a call is made, as headers: a collector then shows the call where it belongs."""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

# W3C Trace Context, version 00; later versions may have more parts.
_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?\Z")
_STATE = re.compile(r"[ -~]{1,512}\Z")


def trace_headers() -> List[Tuple[str, str]]:
    """Returns the headers of the current span, else those of the variable TRACEPARENT, else none.

    The package needs no OpenTelemetry: a program with spans has loaded it already.
    """
    propagate = sys.modules.get("opentelemetry.propagate")
    if propagate is not None:
        carrier: Dict[str, str] = {}
        try:
            propagate.inject(carrier)
        except Exception:  # A trace never fails a call.
            carrier = {}
        if "traceparent" in carrier:
            return [(str(name), str(value)) for name, value in carrier.items()]
    parent = os.environ.get("TRACEPARENT", "")
    if not _PARENT.match(parent):
        return []
    headers = [("traceparent", parent)]
    state = os.environ.get("TRACESTATE", "")
    if _STATE.match(state):
        headers.append(("tracestate", state))
    return headers
