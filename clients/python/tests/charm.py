"""A charm for the tests of the ops layer, and hooks that it runs."""

import contextlib
import logging
import unittest

from server import DEADLINE, ROOT, binary

try:
    import ops
    from ops import testing as scenario
except ImportError as error:
    raise unittest.SkipTest("ops[testing] is missing: {}".format(error))

from bellwether_client import testing
from bellwether_client.ops import StatusReporter

assert ROOT

META = {"name": "web", "peers": {"peers": {"interface": "web"}}}
ACTIONS = {"status-detail": {"description": "Show all statuses."}}
CONFIG = {"options": {"bellwether-address": {"type": "string", "default": ""}}}
#: The model of the tests; it is the namespace.
MODEL = "shop"


def charm(body=None, collect_unit=None, collect_app=None, setup=None, event=None, **settings):
    """Returns a charm whose hooks run `body(charm, event)`."""
    # The calls of a hook must succeed on a loaded machine too; tests of faults have their own.
    settings.setdefault("timeout", DEADLINE)

    class Charm(ops.CharmBase):
        def __init__(self, framework):
            super().__init__(framework)
            self.status = StatusReporter(self, **settings)
            if setup:
                setup(self)
            for bound in (
                self.on.install,
                self.on.config_changed,
                self.on.update_status,
                self.on.start,
                self.on.stop,
                self.on.remove,
                self.on.upgrade_charm,
            ):
                framework.observe(bound, self._run)
            if collect_unit:
                framework.observe(self.on.collect_unit_status, self._collect_unit)
            if collect_app:
                framework.observe(self.on.collect_app_status, self._collect_app)

        def _run(self, event):
            if body:
                body(self, event)

        def _collect_unit(self, event):
            collect_unit(self, event)

        def _collect_app(self, event):
            collect_app(self, event)

    return Charm


def run(kind, event="update_status", leader=False, unit=0, **state):
    """Runs one hook of a charm, and returns the state after it."""
    context = scenario.Context(
        kind, meta=META, actions=ACTIONS, config=CONFIG, unit_id=unit, app_name="web"
    )
    happens = event if not isinstance(event, str) else getattr(context.on, event)()
    given = scenario.State(leader=leader, model=scenario.Model(name=MODEL), **state)
    with handlers_of_hook():
        return context.run(happens, given)


@contextlib.contextmanager
def handlers_of_hook():
    """Removes the log handlers that a hook adds: ops 2 keeps one of each hook, with all records."""
    logger = logging.getLogger()
    before = logger.handlers[:]
    try:
        yield
    finally:
        logger.handlers = before


def run_action(kind, name):
    """Runs an action, and returns its results."""
    context = scenario.Context(
        kind, meta=META, actions=ACTIONS, config=CONFIG, unit_id=0, app_name="web"
    )
    with handlers_of_hook():
        context.run(context.on.action(name), scenario.State(model=scenario.Model(name=MODEL)))
    return context.action_results


class OpsCase(unittest.TestCase):
    """Hooks of a charm with a server of their own."""

    def start(self, *arguments, **settings):
        server = testing.Server(*arguments, binary=binary(), **settings)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def unit(self, server, name="web/0"):
        """Returns (component, key, level, message) of each status of a unit."""
        found = []
        for one in server.statuses(name, MODEL):
            level = one["level"][len("LEVEL_") :].lower()
            found.append((one["component"], one["key"], level, one["message"]))
        return found

    def shown(self, server):
        status = server.application("web", MODEL)["status"]
        return status["level"][len("LEVEL_") :].lower(), status["message"]
