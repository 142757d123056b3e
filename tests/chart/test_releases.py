"""`bellwether import helm` of what real Helm 3 and 4 print: a helm that is killed leaves what the import says."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

from chart import HELMS, NEWEST
from server import Server, run
from test_cluster import InCluster

WAIT_SECONDS = 60
# Many objects, so that there is time for a kill.
MAPS = 400
TEMPLATE = (
    "{{- range until (int .Values.count) }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    "  name: {{ $.Release.Name }}-{{ . }}\ndata:\n  version: {{ $.Chart.Version | quote }}\n{{- end }}\n"
)


class Releases(InCluster):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "maps/templates").mkdir(parents=True)
        (self.folder / "maps/templates/maps.yaml").write_text(TEMPLATE)
        self.server = self.enterContext(Server())

    def chart(self, version):
        (self.folder / "maps/Chart.yaml").write_text(f"apiVersion: v2\nname: maps\nversion: {version}\n")
        return self.folder / "maps"

    def upgrade(self, helm, release, version, count=1):
        chart = self.chart(version)
        return self.cluster.helm(helm, "upgrade", "--install", release, chart, "--set", f"count={count}")

    def kill_while_pending(self, helm, release, version):
        """Starts an upgrade, and kills it once its revision is recorded."""
        command = [HELMS[helm], "upgrade", "--install", release, self.chart(version), "--set", f"count={MAPS}"]
        command += ["--kubeconfig", self.cluster.kubeconfig, "--namespace", "prod"]
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        end = time.monotonic() + WAIT_SECONDS
        path = "/api/v1/namespaces/prod/secrets?labelSelector=" + f"name%3D{release},status+in+(pending-upgrade,pending-install)"
        while not self.cluster.get(path)["items"]:
            self.assertIsNone(process.poll(), f"it was too fast: {process.stderr.read() if process.poll() else ''}")
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    def imported(self, helm, *more):
        """Imports what this helm lists, and returns what is said."""
        document = self.folder / "releases.json"
        # Helm 4 lists all releases, and has no flag for it.
        states = [] if helm == "helm4" else ["-a"]
        document.write_text(self.cluster.helm(helm, "list", "-A", *states, "-m", "0", "-o", "json"))
        at = ("--server", f"http://{self.server.addresses['grpc']}")
        code, text = run(*at, "import", "helm", document, *more)
        self.assertEqual(code, 0, text)
        return text

    def shown(self, *arguments):
        return self.server.cli("-n", "prod", *arguments)

    def test_a_helm_that_was_killed_is_an_interrupted_operation_until_its_release_is_mended(self):
        for helm in NEWEST:
            with self.subTest(helm=helm):
                release = f"cut-{helm}"
                self.upgrade(helm, release, "1.0.0")
                self.imported(helm)
                self.assertIn(f"{release} is active", self.shown("why", release))
                self.kill_while_pending(helm, release, "1.1.0")
                self.imported(helm)
                self.assertIn("upgrading to maps-1.1.0, revision 2", self.shown("why", release))
                cut_off = ("--pending-after", "0")
                self.imported(helm, *cut_off)
                self.assertIn("nothing changed", self.imported(helm, *cut_off))
                why = self.shown("why", release)
                self.assertIn("upgrade to maps-1.1.0 was cut off at revision 2", why)
                self.assertRegex(self.shown("ops", "list", release), f"helm-{release}-2 .*interrupted")
                # What Helm itself says of it, and what the action of the status says.
                with self.assertRaises(Exception) as refused:
                    self.upgrade(helm, release, "1.1.0")
                self.assertIn("another operation", str(refused.exception))
                self.assertIn(f"helm -n prod rollback {release}", why)
                self.cluster.helm(helm, "rollback", release)
                self.imported(helm, *cut_off)
                self.assertIn(f"{release} is active", self.shown("why", release))
                self.assertRegex(self.shown("ops", "list", release), f"helm-{release}-2 .*abandoned")
                self.cluster.helm(helm, "uninstall", release)
                self.imported(helm, "--prune")
                self.assertNotIn(release, self.shown("status", "-o", "json"))

    def test_an_installation_that_was_killed_names_what_mends_it(self):
        for helm in NEWEST:
            with self.subTest(helm=helm):
                release = f"first-{helm}"
                self.kill_while_pending(helm, release, "1.0.0")
                self.imported(helm, "--pending-after", "0")
                why = self.shown("why", release)
                self.assertIn("installation of maps-1.0.0 was cut off at revision 1", why)
                self.assertIn(f"helm -n prod uninstall {release}", why)
                self.cluster.helm(helm, "uninstall", release)
                self.upgrade(helm, release, "1.0.0")
                self.imported(helm, "--pending-after", "0")
                self.assertIn(f"{release} is active", self.shown("why", release))
                self.assertRegex(self.shown("ops", "list", release), f"helm-{release}-1 .*succeeded")

    def test_a_release_that_failed_and_one_with_its_history_kept(self):
        for helm in NEWEST:
            with self.subTest(helm=helm):
                failed, kept = f"failed-{helm}", f"kept-{helm}"
                self.upgrade(helm, failed, "1.0.0")
                (self.folder / "maps/templates/bad.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_B}\n")
                with self.assertRaises(Exception):
                    self.upgrade(helm, failed, "1.1.0")
                os.remove(self.folder / "maps/templates/bad.yaml")
                self.upgrade(helm, kept, "1.0.0")
                self.cluster.helm(helm, "uninstall", kept, "--keep-history")
                self.imported(helm)
                why = self.shown("why", failed)
                self.assertIn("revision 2 of maps-1.1.0 failed", why)
                self.assertIn(f"helm -n prod rollback {failed}", why)
                self.assertIn(f"{kept} is terminated", self.shown("why", kept))
                self.cluster.helm(helm, "rollback", failed)
                self.imported(helm)
                self.assertIn(f"{failed} is active", self.shown("why", failed))


if __name__ == "__main__":
    import unittest

    unittest.main()
