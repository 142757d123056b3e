"""Holds a trial to safe credentials of its own, and a second pod to reporting with them."""

import hashlib
import json
import pathlib
import re
import ssl
import socket
import subprocess
import tempfile
import tomllib
import unittest

from chart import HELMS, arguments_of, files_of, notes_of, one, pod_of, render, reporter_of, workloads
from server import Server, arguments_in, run

TRIAL = {"trial__enabled": True}
SERVER, CLIENT, OPERATOR = (f"test-bellwether-trial-{of}" for of in ("server", "client", "operator"))
DAYS = 90
# Without credentials, and with those of a caller who may not.
EXIT_REFUSED = 4


def secrets_in(pod):
    return {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}


class Credentials(unittest.TestCase):
    def test_each_pod_gets_the_secret_that_it_needs(self):
        for helm in HELMS:
            objects = render(helm, **TRIAL)
            files = files_of(objects)
            self.assertEqual(set(files[SERVER]), {"ca.crt", "tls.crt", "tls.key", "tokens.toml"})
            for name in (CLIENT, OPERATOR):
                self.assertEqual(set(files[name]), {"ca.crt", "token"})
                self.assertEqual(files[name]["ca.crt"], files[SERVER]["ca.crt"])
            self.assertEqual(secrets_in(pod_of(objects)), {SERVER})
            self.assertEqual(secrets_in(one(objects, "Pod")["spec"]), {OPERATOR})
            self.assertEqual(secrets_in(reporter_of(notes_of(helm, **TRIAL))["spec"]), {CLIENT})

    def test_no_credential_is_elsewhere(self):
        objects = render("helm4", **TRIAL)
        files = files_of(objects)
        hidden = [files[CLIENT]["token"], files[OPERATOR]["token"], files[SERVER]["tls.key"]]
        self.assertEqual(len(set(hidden)), 3)
        others = json.dumps([made for made in objects if made["kind"] != "Secret"])
        for text in hidden:
            self.assertNotIn(text, others)
        # The key of the authority is kept nowhere.
        self.assertEqual(json.dumps(files).count("PRIVATE KEY-----\\n"), 2, "begin and end of one key")
        for token in hidden[:2]:
            self.assertNotIn(token, json.dumps(files[SERVER]), "the server has digests")

    def test_tokens_are_those_of_the_digests_and_end_with_the_certificate(self):
        files = files_of(render("helm4", **TRIAL))
        text = tomllib.loads(files[SERVER]["tokens.toml"])
        self.assertEqual(text["end"], {"entries": 2})
        tokens = {entry["id"]: entry for entry in text["token"]}
        for name, of in ((CLIENT, "trial"), (OPERATOR, "trial-operator")):
            token = files[name]["token"]
            self.assertRegex(token, f"^bw_{of}_[A-Za-z0-9]{{48}}$")
            self.assertEqual(tokens[of]["sha256"], hashlib.sha256(token.encode()).hexdigest())
            self.assertEqual(tokens[of]["not_after"] - tokens[of]["created"], DAYS * 86400)
        said = f"Certificate and tokens end {DAYS} days after they were made"
        self.assertIn(said, notes_of("helm4", **TRIAL))

    def test_the_certificate_is_of_the_server_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files_of(render("helm4", **TRIAL))[SERVER].items():
                pathlib.Path(folder, name).write_text(text)
            show = ["openssl", "x509", "-in", "tls.crt", "-noout", "-text"]
            shown = subprocess.run(show, cwd=folder, check=True, capture_output=True, text=True).stdout
            self.assertIn("id-ecPublicKey", shown)
            self.assertNotIn("CA:TRUE", shown)
            ends = ["openssl", "x509", "-in", "tls.crt", "-noout", "-checkend"]
            for seconds, lives in ((DAYS * 86400 - 3600, True), (DAYS * 86400 + 3600, False)):
                done = subprocess.run([*ends, str(seconds)], cwd=folder, check=False, capture_output=True)
                self.assertEqual(done.returncode == 0, lives)
            for host, fits in (("test-bellwether.prod.svc", True), ("test-bellwether-headless", True),
                               ("localhost", True), ("test-bellwether.other.svc", False)):  # fmt: skip
                verify = ["openssl", "verify", "-CAfile", "ca.crt", "-verify_hostname", host, "tls.crt"]
                done = subprocess.run(verify, cwd=folder, check=False, capture_output=True)
                self.assertEqual(done.returncode == 0, fits, host)

    def test_secrets_that_exist_are_left_out(self):
        with_them = render("helm4", **TRIAL)
        without = render("helm4", trial__makeSecrets=False, **TRIAL)
        self.assertEqual(without, [made for made in with_them if made["kind"] != "Secret"])
        self.assertGreater(len(with_them), len(without))

    def test_two_trials_share_no_credential(self):
        first, second = (files_of(render("helm4", release=name, **TRIAL)) for name in ("a", "b"))
        for of, key in (("client", "token"), ("operator", "token"), ("server", "tls.key"), ("server", "ca.crt")):
            here, there = (files[f"{name}-bellwether-trial-{of}"][key] for name, files in (("a", first), ("b", second)))
            self.assertNotEqual(here, there)

    def test_replicas_over_a_valkey_have_a_trial_too(self):
        objects = render("helm4", replicas=2, trialValkey__enabled=True, **TRIAL)
        self.assertEqual(secrets_in(pod_of(objects)), {SERVER})
        self.assertNotIn("--insecure", arguments_of(objects))
        self.assertEqual(len(dict(workloads(objects))), 3)


class Served(unittest.TestCase):
    """The server of a trial, with the arguments and files of its pod, apart from its addresses."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.objects = render("helm4", **TRIAL)
        self.files = files_of(self.objects)
        _, *arguments = arguments_in(self.objects, f"{self.folder}/server")
        self.server = self.enterContext(Server(*(part for part in arguments if "-listen=" not in part)))

    def cli(self, name, *arguments):
        """Runs a command with the credentials of a secret."""
        folder = pathlib.Path(self.folder, name)
        folder.mkdir(exist_ok=True)
        for file, text in self.files[name].items():
            (folder / file).write_text(text)
        at = f"https://{self.server.addresses['grpc']}"
        return run("--server", at, "--ca", folder / "ca.crt", "--token-file", folder / "token", *arguments)

    def test_a_second_pod_reports_and_is_seen(self):
        pod = reporter_of(notes_of("helm4", **TRIAL))
        self.server.run_as_pod(pod["spec"], self.files, f"{self.folder}/pod")
        for name in (OPERATOR, CLIENT):
            code, text = self.cli(name, "why", "hello")
            self.assertEqual(code, 0, text)
            self.assertIn("from a second pod", text)
            code, text = self.cli(name, "status", "-A")
            self.assertEqual(code, 0, text)
            self.assertRegex(text, r"hello\s.*active")

    def test_only_people_change_what_no_worker_may(self):
        self.assertEqual(self.cli(CLIENT, "report", "hello/0", "--level", "active")[0], 0)
        self.assertEqual(self.cli(CLIENT, "delete", "hello")[0], EXIT_REFUSED)
        self.assertEqual(self.cli(OPERATOR, "report", "hello/1", "--level", "active")[0], 0)
        code, text = self.cli(OPERATOR, "delete", "hello")
        self.assertEqual(code, 0, text)

    def test_strangers_are_refused(self):
        authority = pathlib.Path(self.folder, "ca.crt")
        authority.write_text(self.files[CLIENT]["ca.crt"])
        at = self.server.addresses["grpc"]
        self.assertEqual(run("--server", f"https://{at}", "--ca", authority, "status")[0], EXIT_REFUSED)
        self.assertNotEqual(run("--server", f"http://{at}", "status")[0], 0)
        self.assertNotEqual(run("--server", f"https://{at}", "status")[0], 0, "no authority of the system knows it")
        other = files_of(render("helm4", release="other", **TRIAL))["other-bellwether-trial-client"]
        self.files["other"] = {**other, "ca.crt": self.files[CLIENT]["ca.crt"]}
        self.assertEqual(self.cli("other", "status")[0], EXIT_REFUSED)

    def test_clients_verify_every_name_of_the_services(self):
        context = ssl.create_default_context(cadata=self.files[CLIENT]["ca.crt"])
        host, port = self.server.addresses["grpc"].rsplit(":", 1)
        services = [made["metadata"]["name"] for made in self.objects if made["kind"] == "Service"]
        self.assertEqual(len(services), 3)
        for service in services:
            for name in (service, f"{service}.prod", f"{service}.prod.svc", f"{service}.prod.svc.cluster.local"):
                with socket.create_connection((host, int(port)), timeout=10) as plain:
                    context.wrap_socket(plain, server_hostname=name).close()
        with socket.create_connection((host, int(port)), timeout=10) as plain:
            with self.assertRaises(ssl.SSLCertVerificationError):
                context.wrap_socket(plain, server_hostname="other.prod.svc")

    def test_the_test_pod_passes(self):
        self.server.run_as_pod(one(self.objects, "Pod")["spec"], self.files, f"{self.folder}/test")

    def test_probes_pass(self):
        container = pod_of(self.objects)["containers"][0]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            call = container[probe]["httpGet"]
            self.assertEqual(self.server.get(call["path"], call["scheme"].lower()), "ok\n")


class Notes(unittest.TestCase):
    def test_the_commands_name_secrets_and_keys_that_exist(self):
        for helm in HELMS:
            notes = notes_of(helm, **TRIAL)
            files = files_of(render(helm, **TRIAL))
            pattern = r"get secret (\S+) -o jsonpath='\{\.data\.(\S+?)\}' \| base64 -d > (\S+?)\)?$"
            read = re.findall(pattern, notes, re.MULTILINE)
            self.assertEqual([(name, key.replace("\\", ""), to) for name, key, to in read],
                             [(OPERATOR, "token", "token"), (OPERATOR, "ca.crt", "ca.crt")])  # fmt: skip
            for name, key, _ in read:
                self.assertIn(key.replace("\\", ""), files[name])
            self.assertIn("WARNING: this is a trial.", notes)
            self.assertIn("kubectl -n prod port-forward service/test-bellwether 50051:50051", notes)
