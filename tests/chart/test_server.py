"""Holds the arguments and files of every scenario to what the server accepts, and the test pod to passing."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from chart import OPEN, SCENARIOS, SECURED, one, pod_of, render, workloads
from server import Server, arguments_in, run


class Configuration(unittest.TestCase):
    def test_the_server_accepts_what_each_scenario_gives_it(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario=scenario.name), tempfile.TemporaryDirectory() as folder:
                objects = render("helm4", "--values", scenario)
                serve, *arguments = arguments_in(objects, folder)
                self.assertEqual(serve, "serve")
                known = [argument for argument in arguments if not argument.startswith("--print")]
                variables = {"BELLWETHER_STORE": "redis://redis"} if "BELLWETHER_STORE" in str(objects) else {}
                code, text = run("config", "check", *known, **variables)
                self.assertEqual(code, 0, text)

    def test_settings_arrive(self):
        settings = {"connections_max": 4321, "record_bytes_total_max": 1 << 48}
        with tempfile.TemporaryDirectory() as folder:
            objects = render("helm4", settings__limits=settings, settings__drainDeadlineSeconds=12)
            _, *arguments = arguments_in(objects, folder)
            code, text = run("config", "print", "-o", "json", *arguments)
        self.assertEqual(code, 0, text)
        printed = json.loads(text)
        found = {key: printed[f"limits.{key}"]["value"] for key in settings}
        self.assertEqual(found, settings)
        self.assertEqual(printed["drain_deadline_seconds"]["value"], 12)

    def test_the_server_would_refuse_the_address_of_the_pod(self):
        with tempfile.TemporaryDirectory() as folder:
            _, *arguments = arguments_in(render("helm4", **OPEN), folder)
            self.assertEqual(run("config", "check", *arguments)[0], 0)
            arguments.remove("--insecure")
            code, text = run("config", "check", *arguments)
            self.assertEqual(code, 2)
            self.assertIn("--grpc-listen 0.0.0.0:50051 can be reached from other machines", text)

    def test_a_secured_pod_needs_all_that_the_chart_gives_it(self):
        with tempfile.TemporaryDirectory() as folder:
            _, *arguments = arguments_in(render("helm4", **SECURED), folder)
            self.assertEqual(run("config", "check", *arguments)[0], 0)
            for part in ("--ops-tls", "--tls-key", "--tokens", "--roles", "--tls-certificate"):
                less = [argument for argument in arguments if not argument.startswith(part)]
                self.assertLess(len(less), len(arguments))
                self.assertEqual(run("config", "check", *less)[0], 2, part)


class Protected(unittest.TestCase):
    """The server with the arguments and files of a secured pod, apart from its addresses."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        folder = self.folder
        operator = {"role": "operator", "to": ["token:test"], "namespace": "helm-test", "application": "helm-test"}
        grants = [operator, {**operator, "role": "worker", "unit": "helm-test/*"}]
        self.values = {**SECURED, "auth__roles__secret": "", "auth__grants": grants, "helmTest__tokenSecret": "t",
                       "tls__clientCA__secret": "clients", "tls__clientCertificates": "optional"}  # fmt: skip
        self.objects = render("helm4", **self.values)
        _, *arguments = arguments_in(self.objects, folder)
        self.arguments = [part for part in arguments if "-listen=" not in part]
        files = pathlib.Path(folder, "etc/bellwether")
        tls, clients, self.token = files / "tls", files / "client-ca", files / "token"
        certificates(tls)
        (clients / "ca.crt").write_text((tls / "ca.crt").read_text())
        code, token = run("token", "create", "test", "--tokens", f"{folder}/etc/bellwether/tokens/tokens.toml")
        self.assertEqual(code, 0, token)
        self.token.write_text(token.splitlines()[0])
        self.authority = tls / "ca.crt"

    def test_probes_need_neither_a_certificate_nor_a_token(self):
        container = pod_of(self.objects)["containers"][0]
        with Server(*self.arguments) as server:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                call = container[probe]["httpGet"]
                self.assertEqual(server.get(call["path"], call["scheme"].lower()), "ok\n")

    def test_the_test_pod_passes_with_its_token_alone(self):
        spec = one(self.objects, "Pod", "-test")["spec"]
        with Server(*self.arguments) as server:
            for step in [*spec["initContainers"], *spec["containers"]]:
                variables = {variable["name"]: variable["value"] for variable in step["env"]}
                self.assertEqual(variables["BELLWETHER_TOKEN_FILE"], "/etc/bellwether/token/token")
                variables |= {
                    "BELLWETHER_SERVER": f"https://{server.addresses['grpc']}",
                    "BELLWETHER_CA": str(self.authority), "BELLWETHER_TOKEN_FILE": str(self.token),
                }  # fmt: skip
                code, text = run(*step["args"], **variables)
                self.assertEqual(code, 0, f"{step['name']}: {text}")
                del variables["BELLWETHER_TOKEN_FILE"]
                self.assertEqual(run(*step["args"], **variables)[0], 4, step["name"])


def certificates(folder):
    """An authority and a certificate for 127.0.0.1, as a secret of TLS has them."""
    made = f"""
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=ca \\
            -addext basicConstraints=critical,CA:TRUE -keyout ca.key -out ca.crt
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout tls.key -out tls.csr
        printf subjectAltName=IP:127.0.0.1 > names
        openssl x509 -req -days 9 -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names -out tls.crt
    """
    subprocess.run(["sh", "-ec", made], cwd=folder, check=True, capture_output=True, timeout=60)


class Programs(unittest.TestCase):
    def test_the_probe_of_a_pod_on_loopback_passes(self):
        probe = pod_of(render("helm4"))["containers"][0]["livenessProbe"]["exec"]["command"]
        with Server() as server:
            code, text = run(*probe[1:], BELLWETHER_SERVER=f"http://{server.addresses['grpc']}")
            self.assertEqual((code, text), (0, "serving\n"))
        self.assertNotEqual(run(*probe[1:], BELLWETHER_SERVER=f"http://{server.addresses['grpc']}")[0], 0)

    def test_the_steps_of_helm_test_pass_and_leave_nothing(self):
        spec = one(render("helm4", **OPEN), "Pod", "-test")["spec"]
        with Server() as server:
            for step in [*spec["initContainers"], *spec["containers"]]:
                variables = {variable["name"]: variable["value"] for variable in step["env"]}
                variables["BELLWETHER_SERVER"] = f"http://{server.addresses['grpc']}"
                code, text = run(*step["args"], **variables)
                self.assertEqual(code, 0, f"{step['name']}: {text}")
            self.assertNotIn("helm-test", server.cli("status", "-A"))

    def test_the_steps_of_helm_test_fail_without_a_server(self):
        spec = one(render("helm4", **OPEN), "Pod", "-test")["spec"]
        for step in spec["initContainers"]:
            self.assertNotEqual(run(*step["args"], BELLWETHER_SERVER="http://127.0.0.1:1")[0], 0)

    def test_every_container_of_the_chart_is_known(self):
        names = {container["name"] for values in SCENARIOS for _, pod in workloads(render("helm4", "--values", values))
                 for container in pod["containers"]}  # fmt: skip
        self.assertEqual(names, {"bellwether", "valkey", "delete", "proxy", "notify", "relay"})
