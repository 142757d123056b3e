#!/usr/bin/env python3
"""A shop with a database: what a charm says to Bellwether, and how."""

import socket

import ops
from bellwether_client.ops import StatusReporter

STEPS = ("stop", "migrate", "start")


class ShopCharm(ops.CharmBase):
    """Each hook checks everything again; work that takes long continues in the next hook."""

    def __init__(self, framework):
        super().__init__(framework)
        self.status = StatusReporter(self)
        framework.observe(self.on.collect_unit_status, self._on_collect_unit)
        framework.observe(self.on.collect_app_status, self._on_collect_app)
        for event in (self.on.config_changed, self.on.update_status, self.on.leader_elected):
            framework.observe(event, self._on_change)
        framework.observe(self.on.upgrade_charm, self._on_upgrade)
        framework.observe(self.on.stop, self._on_stop)
        framework.observe(self.on.backup_action, self._on_backup)
        framework.observe(self.on.backup_done_action, self._on_backup_done)

    def _on_change(self, _):
        if self.unit.is_leader() and not self.status.data.get("database.name"):
            # Written once for all units; it outlives this leader.
            self.status.data.update({"database.name": "shop"})
        if self.status.operations():
            # A hook before this one was interrupted.
            self._upgrade()
        self._connect()

    def _on_upgrade(self, _):
        self._upgrade()
        self._connect()

    def _connect(self):
        """Tries the database; a refusal is reported and retried, and fails no hook."""
        target = str(self.config["database"])
        if target:
            attempt = self.status.attempt("database", target, wait=1.0)
            attempt(lambda: open_connection(target).close())()

    def _upgrade(self):
        version = str(self.config["version"])
        with self.status.operation("upgrade", version, payload=version.encode()) as work:
            for place in range(int(work.checkpoint or b"0"), len(STEPS)):
                self.run_step(STEPS[place])
                done = place + 1
                work.save(str(done).encode(), "step {}/{}".format(done, len(STEPS)))

    def run_step(self, step):
        """Does one step of an upgrade. A repetition does no harm."""

    def _on_stop(self, _):
        # A removal waits for nothing: no attempt is held, and no error keeps the unit. What this
        # hook says ends with the unit, and the unit that follows does not inherit it.
        self.status.push("relation", self.status.blocked("", "no relation", action="none"))
        target = str(self.config["database"])
        if target:
            self.status.attempt("database", target)(lambda: open_connection(target).close())()

    def _on_backup(self, event):
        # Only this action knows of the backup: no later check can find it out. Without a word of
        # its end it ends after an hour, here and at the server.
        self.status.push("backup", ops.MaintenanceStatus("backup runs"), ttl=3600)
        event.set_results({"started": "yes"})

    def _on_backup_done(self, event):
        self.status.clear("backup")
        event.set_results({"noted": "yes"})

    def _on_collect_unit(self, event):
        if not self.config["database"]:
            action = "juju config {} database=HOST:PORT".format(self.app.name)
            event.add_status(self.status.blocked("database", "no database", action=action))
        if not self.status.data.get("database.name"):
            event.add_status(self.status.waiting("schema", "waits for the leader's choice"))
        event.add_status(self.check_page())
        for status in self.status.kept():
            event.add_status(status)

    def _on_collect_app(self, event):
        # The server keeps all of them, with what to do about each; Juju shows the worst one.
        if not self.config["database"]:
            action = "juju config {} database=HOST:PORT".format(self.app.name)
            event.add_status(self.status.blocked("database", "no database", action=action))
        event.add_status(self.status.active("shop", "shop of {}".format(self.model.name)))

    def check_page(self):
        """Looks at the page of the workload: a check that fails now and then."""
        return self.status.active("page")


def open_connection(target):
    """Connects to HOST:PORT."""
    host, _, port = target.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=1.0)


if __name__ == "__main__":
    ops.main(ShopCharm)
