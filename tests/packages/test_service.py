"""Installs the .deb on a machine that systemd has booted, and lives with its service: start, reload, drain, upgrade."""

import os
import re
import unittest

from machine import Failed, Machine, lacks
from test_packages import ARTEFACTS, VERSION, first_screen

RULES = b"""[[rule]]
name = "index-is-rebuilding"
system = "http"
code = "409"
class = "%s"
explanation = "of this test"
"""


class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if (why := lacks()) is not None:
            assert not os.environ.get("CI"), why
            raise unittest.SkipTest(why)
        cls.machine = cls.enterClassContext(Machine())
        deb = (ARTEFACTS / f"bellwether_{VERSION}_amd64.deb").read_bytes()
        cls.machine.write("/run/bellwether.deb", deb)

    def setUp(self):
        self.dpkg("--install", "/run/bellwether.deb")
        self.addCleanup(self.dpkg, "--purge", "bellwether")

    def dpkg(self, *command):
        # The triggers are of man-db, and take seconds.
        return self.machine.run("dpkg", "--no-triggers", *command)

    def ctl(self, *command):
        return self.machine.run("systemctl", *command)

    def about(self, name):
        return self.ctl("show", "bellwether", "--value", f"--property={name}").strip()

    def cli(self, *command):
        return self.machine.run("bellwether", *command)

    def configure(self, text):
        self.machine.run("tee", "--append", "/etc/bellwether/bellwether.toml", content=text)

    def journal(self, unit="bellwether"):
        return self.machine.run("journalctl", f"--unit={unit}", "--output=cat", "--no-pager")

    def test_the_package_starts_the_service_and_the_first_screen_works(self):
        # The installation has returned, so the server is ready: nothing is awaited here.
        self.cli("health")
        self.assertEqual(self.about("ActiveState"), "active")
        self.assertEqual(self.about("UnitFileState"), "enabled")
        self.assertEqual(self.about("StatusText"), "serving http://127.0.0.1:50051")
        said = [self.machine.run("sh", "-ec", command) for command in first_screen()]
        self.assertIn("web is blocked", said[-1])

    def test_the_process_has_the_rights_of_the_unit(self):
        pid = self.about("MainPID")
        status = dict(re.findall(r"^(\w+):\s+(.*)$", self.machine.run("cat", f"/proc/{pid}/status"), re.MULTILINE))
        self.assertNotEqual(status["Uid"].split()[0], "0")
        self.assertEqual(int(status["CapEff"], 16) | int(status["CapBnd"], 16), 0)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        mounts = ["nsenter", f"--target={pid}", "--mount"]
        for path in ["/etc/of-this-test", "/usr/bin/of-this-test", "/var/log/of-this-test"]:
            with self.assertRaisesRegex(Failed, "Read-only file system"):
                self.machine.run(*mounts, "touch", path)
        user = ["setpriv", "--reuid=bellwether", "--regid=bellwether", "--clear-groups"]
        with self.assertRaisesRegex(Failed, "Permission denied"):
            self.machine.run(*mounts, *user, "touch", "/etc/bellwether/bellwether.toml")
        self.machine.run(*mounts, *user, "touch", "/var/lib/bellwether/of-this-test")

    def test_reload_reads_the_rules_again_in_the_same_process(self):
        rules = "/etc/bellwether/rules.toml"
        self.machine.write(rules, RULES % b"DEPENDENCY")
        self.configure(b'\nerror_rules = "/etc/bellwether/rules.toml"\n')
        self.ctl("restart", "bellwether")
        pid = self.about("MainPID")
        error = ["error", "web/0", "--target", "index", "--system", "http", "--code", "409", "-m", "wait"]
        self.assertIn("DEPENDENCY", self.cli(*error))
        self.machine.write(rules, RULES % b"BLOCKED")
        self.ctl("reload", "bellwether")
        self.machine.wait(lambda: True if "BLOCKED" in self.cli(*error) else None)
        self.assertEqual(self.about("MainPID"), pid)

    def test_a_stop_drains_and_a_start_has_the_statuses(self):
        self.cli("report", "web/0", "--level", "blocked", "-m", "kept")
        # A client that follows must not hold up the stop.
        self.machine.run("systemd-run", "--unit=watch", "bellwether", "watch")
        self.addCleanup(self.ctl, "stop", "watch")
        self.machine.wait(lambda: True if "kept" in self.journal("watch") else None)
        self.ctl("stop", "bellwether")
        self.assertEqual(self.about("Result"), "success")
        self.assertEqual(self.about("ExecMainStatus"), "0")
        self.assertIn('"message":"stopped"', self.journal())
        with self.assertRaises(Failed):
            self.cli("health")
        self.ctl("start", "bellwether")
        self.assertIn("kept", self.cli("status"))

    def test_a_killed_server_is_started_again_with_what_it_acknowledged(self):
        self.cli("report", "web/0", "--level", "active", "-m", "kept")
        pid = self.about("MainPID")
        self.ctl("kill", "--signal=KILL", "bellwether")
        is_active = lambda: self.about("ActiveState") == "active"
        self.machine.wait(lambda: True if is_active() and self.about("MainPID") != pid else None)
        self.assertEqual(self.about("NRestarts"), "1")
        self.assertIn("kept", self.cli("status"))

    def test_the_unit_for_a_start_of_the_host_takes_up_what_was_killed(self):
        unit = "bellwether-resume@" + self.machine.run("systemd-escape", "web/0").strip()
        # The first run waits; the one after it finds what lets it end.
        script = "echo once more >>/var/tmp/ran; [ -e /run/may-end ] || sleep 600"
        work = ["--operation", "web/0", "--to", "2", "--deterministic", "--store-command", "--lease", "30s", "--grace", "3s"]
        self.machine.run("systemd-run", "--unit=work", "bellwether", "run", *work, "--", "sh", "-c", script)
        self.addCleanup(self.machine.run, "rm", "-f", "/var/tmp/ran", "/run/may-end")
        self.machine.wait(lambda: True if self.machine.run("sh", "-c", "cat /var/tmp/ran || true") == "once more\n" else None)
        self.assertIn("running", self.cli("ops", "list", "web"))
        # All processes at once, as when the host loses its power.
        self.ctl("kill", "--signal=KILL", "work")
        self.machine.write("/run/may-end", b"")
        self.ctl("enable", unit)
        self.addCleanup(self.ctl, "disable", unit)
        self.ctl("start", "--no-block", unit)
        # It waits for the end of the lease, of 30 s.
        self.machine.wait(lambda: True if "succeeded" in self.cli("ops", "list", "web") else None)
        self.machine.wait(lambda: True if self.ctl("show", unit, "--value", "-p", "ActiveState").strip() == "inactive" else None)
        self.assertEqual(self.ctl("show", unit, "--value", "--property=Result").strip(), "success")
        self.assertEqual(self.machine.run("cat", "/var/tmp/ran"), "once more\n" * 2)
        # Another start finds nothing to do.
        self.ctl("start", unit)
        self.assertEqual(self.machine.run("cat", "/var/tmp/ran"), "once more\n" * 2)

    def test_an_upgrade_restarts_the_service(self):
        self.cli("report", "web/0", "--level", "active", "-m", "kept")
        pid = self.about("MainPID")
        self.dpkg("--install", "/run/bellwether.deb")
        self.assertNotEqual(self.about("MainPID"), pid)
        self.assertIn("kept", self.cli("status"))

    def test_a_wrong_configuration_fails_the_start_with_its_sentence(self):
        self.configure(b"\n[limits]\nunits_maxx = 7\n")
        with self.assertRaises(Failed):
            self.ctl("restart", "bellwether")
        self.assertEqual(self.about("Result"), "exit-code")
        self.assertIn("units_maxx", self.journal())

    def test_removal_keeps_the_data_and_purge_deletes_it(self):
        self.cli("report", "web/0", "--level", "active")
        self.dpkg("--remove", "bellwether")
        self.assertEqual(self.about("ActiveState"), "inactive")
        self.machine.run("test", "-e", "/var/lib/bellwether")
        self.dpkg("--purge", "bellwether")
        self.machine.run("test", "!", "-e", "/var/lib/bellwether")


if __name__ == "__main__":
    unittest.main()
