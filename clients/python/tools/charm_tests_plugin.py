"""A plugin of pytest for charm-tests: notes after each hook what the charm and the server show."""

import json
import os

from bellwether_client import Client, errors
from bellwether_client._hook import HookEnd

commit = HookEnd.commit


def compared(end):
    """Reports the hook, then compares the status of the unit with that of the server."""
    reporter = end._reporter
    commit(end)
    if reporter.hook == "remove":
        return
    status = reporter.charm.unit.status
    with Client(timeout=30.0) as client:
        names = {key: reporter.names[key] for key in ("namespace", "application")}
        try:
            units = client.list_units(page_size=1000, **names)["units"]
        except errors.NotFound:
            units = []
    shown = [
        (one["level"][len("LEVEL_") :].lower(), one["message"])
        for one in units
        if one["name"] == reporter.names["unit"]
    ]
    note = {
        "charm": [status.name, status.message],
        "server": shown,
        "comparisons": 1,
        "agree": int(shown == [(status.name, status.message)]),
        "waiting": len(reporter.state.spool),
    }
    with open(os.environ["BELLWETHER_COMPARED"], "a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")


HookEnd.commit = compared
