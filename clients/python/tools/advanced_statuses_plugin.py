"""A plugin of pytest for advanced-statuses-tests: the adapter beside each StatusHandler."""

import functools
import json
import os

import handler_truth as truth
from data_platform_helpers.advanced_statuses.handler import StatusHandler

from bellwether_client import Client, errors
from bellwether_client._hook import HookEnd
from bellwether_client.ops import StatusReporter

commit = HookEnd.commit
make_handler = StatusHandler.__init__


@functools.wraps(make_handler)
def make(handler, charm, *components):
    """Makes the handler, and the reporter as docs/charms.md says."""
    make_handler(handler, charm, *components)
    reporter = StatusReporter(charm)
    reporter.use_advanced_statuses(*components)
    reporter.theirs = handler


def compared(end):
    """Reports the hook, then compares what the handler and the server say of it."""
    commit(end)
    reporter = end._reporter
    scopes = {"unit": reporter.names["unit"]}
    if reporter.charm.unit.is_leader():
        scopes["app"] = ""
    theirs = {scope: reporter.theirs._get_sorted_statuses(scope) for scope in scopes}
    names = {key: reporter.names[key] for key in ("namespace", "application")}
    with Client(timeout=30.0) as client:
        try:
            explained = client.explain_application(page_size=1000, **names)
            stored = client.list_statuses(page_size=1000, **names)["statuses"]
        except errors.NotFound:
            explained, stored = {"winner": None, "beaten": [], "application": None}, []
    pairs = []
    for scope, unit in scopes.items():
        shown = [words for of, words in truth.ranked_shown(explained) if of == unit]
        wanted = truth.ranked(theirs[scope])
        reports = [one["report"] for one in stored if one["unit"] == unit]
        pairs.append([scope + " winner", wanted[:1], shown[:1]])
        pairs.append([scope + " order", wanted, shown])
        pairs.append([scope + " fields", truth.fields(theirs[scope]), truth.fields_shown(reports)])
    every = [one for statuses in theirs.values() for _, one in statuses]
    status = (explained["application"] or {}).get("status") or {}
    shown = [words for _, words in truth.ranked_shown(explained)]
    pairs.append(["actions", sum(one.action is not None for one in every), status.get("action_count", 0)])
    counted = [one for one in every if one.status != "active"]
    others = len(counted) - (shown[:1] != [] and shown[0][1] != "LEVEL_ACTIVE")
    pairs.append(["others", others, status.get("more_count", 0)])
    wrong = [pair for pair in pairs if pair[1] != pair[2]]
    note = {"comparisons": len(pairs), "agree": len(pairs) - len(wrong), "wrong": wrong}
    with open(os.environ["BELLWETHER_COMPARED"], "a", encoding="utf-8") as file:
        file.write(json.dumps(note) + "\n")


HookEnd.commit = compared
StatusHandler.__init__ = make
