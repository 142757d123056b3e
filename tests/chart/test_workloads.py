"""The manifests of examples/kubernetes on a kube-apiserver: what it takes, and what their containers report.

No controller and no kubelet run here. The test makes the pod that a controller would make, asks the API server for the
token that a kubelet would project, and starts the commands of the containers as processes, which report to a server with
the configuration of the chart.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

import cluster
import yaml
from chart import KUBERNETES, ROOT, StrictLoader, one, pod_of, render
from schemas import validate
from server import Server, arguments_in, program, run
from test_cluster import InCluster

EXAMPLES = ROOT / "examples/kubernetes"
PLUGINS = pathlib.Path("/usr/lib/nagios/plugins")
HOME = "shop"
WAIT_SECONDS = 30
# What the images of the example have beside `bellwether`.
PROGRAMS = {
    "fill-cache": "#!/bin/sh\nexit 0\n",
    "dump-database": '#!/bin/sh\necho "dumped under fence $BELLWETHER_FENCE"\n',
    "web-server": '#!/bin/sh\nexec python3 -m http.server --bind 127.0.0.1 "$2"\n',
}


def objects_of(name):
    return list(yaml.load_all((EXAMPLES / name).read_text(), Loader=StrictLoader))


class Manifests(unittest.TestCase):
    """What can be said of the manifests without an API server."""

    def test_they_follow_the_schemas_of_kubernetes(self):
        for version in KUBERNETES:
            # A sidecar is a field of 1.29; before that it is refused, as the page says.
            if int(version.split(".")[1]) >= 29:
                for name in ("web.yaml", "backup.yaml"):
                    for made in objects_of(name):
                        with self.subTest(version=version, name=name, kind=made["kind"]):
                            validate(made, version)

    def test_the_page_shows_parts_of_the_manifests(self):
        page = (ROOT / "docs/kubernetes.md").read_text()
        shown = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        kept = "\n".join(path.read_text() for path in EXAMPLES.glob("*.yaml"))
        self.assertTrue(shown)
        for block in shown:
            self.assertIn(block, kept)


class Kubelet:
    """Starts the containers of a pod as processes, with their variables and the files of their volumes."""

    def __init__(self, control, folder, server, ca, port):
        self.control, self.folder, self.server, self.ca, self.port = control, folder, server, ca, port
        programs = folder / "programs"
        programs.mkdir()
        for name, text in PROGRAMS.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.path = f"{programs}:{program().parent}:{PLUGINS}:{os.environ['PATH']}"

    def token(self, account, audience, pod=None, home=HOME):
        bound = {} if pod is None else {"boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                   "spec": {"audiences": [audience], "expirationSeconds": 3600, **bound}}
        path = f"/api/v1/namespaces/{home}/serviceaccounts/{account}/token"
        return yaml.safe_load(self.control.call("POST", path, request))["status"]["token"]

    def project(self, pod, volume):
        """Writes the files of a projected volume, and returns their folder."""
        place = self.folder / pod["metadata"]["name"] / volume["name"]
        place.mkdir(parents=True, exist_ok=True)
        for source in volume["projected"]["sources"]:
            if wanted := source.get("serviceAccountToken"):
                token = self.token(pod["spec"]["serviceAccountName"], wanted["audience"], pod)
                (place / wanted["path"]).write_text(token)
            if wanted := source.get("configMap"):
                kept = self.control.object("ConfigMap", wanted["name"], home=HOME)["data"]
                for item in wanted["items"]:
                    (place / item["path"]).write_text(kept[item["key"]])
        return place

    def start(self, pod, name, **changed):
        """Starts a container. A variable of `changed` takes the place of its own."""
        spec = pod["spec"]
        (container,) = (one for one in spec.get("initContainers", []) + spec["containers"] if one["name"] == name)
        volumes = {volume["name"]: self.project(pod, volume) for volume in spec["volumes"]}
        facts = {"metadata.name": pod["metadata"]["name"], "metadata.namespace": pod["metadata"]["namespace"]}
        variables = {}
        for variable in container["env"]:
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            variables[variable["name"]] = facts[field] if field else variable["value"]
        for mount in container["volumeMounts"]:
            for key, value in variables.items():
                variables[key] = value.replace(mount["mountPath"], str(volumes[mount["name"]]))
        variables |= {"BELLWETHER_SERVER": f"https://{self.server.addresses['grpc']}", **changed}
        line = [*container["command"], *container.get("args", [])]
        line = [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], word) for word in line]
        line = [word.replace("8080", str(self.port)) for word in line]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("BELLWETHER_", "OTEL_"))}
        return subprocess.Popen(
            line, cwd=container.get("workingDir", self.folder), env={**clean, **variables, "PATH": self.path},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def finish(self, pod, name, **changed):
        process = self.start(pod, name, **changed)
        text, _ = process.communicate(timeout=WAIT_SECONDS)
        return process.returncode, text


class Workloads(InCluster):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.post(cluster.namespace(HOME))
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        objects = cls.chart()
        # The names of the pods do not resolve here, so the certificate is for this machine.
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                   "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "tls.key", "-out", "tls.crt"]
        subprocess.run(command, cwd=cls.folder, check=True, capture_output=True)
        arguments = arguments_in(objects, f"{cls.folder}/server")
        cls.give_the_server_its_files(objects)
        listening = [argument for argument in arguments if "-listen=" in argument]
        _, *arguments = [argument for argument in arguments if argument not in listening]
        cls.server = cls.enterClassContext(Server(*arguments))
        ca = (cls.folder / "tls.crt").read_text()
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bellwether-ca", "namespace": HOME}}
        cls.cluster.post({**made, "data": {"ca.crt": ca}})
        (cls.port,) = cluster.free_ports(1)
        cls.kubelet = Kubelet(cls.cluster, cls.folder, cls.server, ca, cls.port)
        for name in ("web.yaml", "backup.yaml"):
            for made in objects_of(name):
                cls.cluster.post(made)
        people = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "people", "namespace": "status"}}
        cls.cluster.post(people)

    @classmethod
    def chart(cls):
        """The objects of the chart with the values of the example; the issuer is that of the test's API server."""
        issuer = {"auth__serviceAccounts__issuer": "https://kubernetes.default.svc"}
        objects = render("helm4", "--values", EXAMPLES / "values.yaml", release="bellwether", **issuer)
        service = one(objects, "Service", "bellwether")
        ports = [port["port"] for port in service["spec"]["ports"]]
        assert service["metadata"]["name"] == "bellwether" and 50051 in ports, service
        return objects

    @classmethod
    def give_the_server_its_files(cls, objects):
        """The certificate of cert-manager, and what the kubelet mounts for calls of the API server."""
        root = cls.folder / "server"
        files = {
            "tls": {name: (cls.folder / name).read_text() for name in ("tls.crt", "tls.key")},
            "cluster": {"ca.crt": cls.cluster.authority(), "token": cluster.TOKEN},
        }
        for mount in pod_of(objects)["containers"][0]["volumeMounts"]:
            for name, text in files.get(mount["name"], {}).items():
                (pathlib.Path(f"{root}{mount['mountPath']}") / name).write_text(text)
        for path in root.rglob("bellwether.toml"):
            path.write_text(path.read_text().replace("https://kubernetes.default.svc/openid", f"{cls.cluster.url}/openid"))

    def as_people(self, *arguments):
        token = self.folder / "people"
        token.write_text(self.kubelet.token("people", "bellwether", home="status"))
        at = ("--server", f"https://{self.server.addresses['grpc']}", "--ca", self.folder / "tls.crt")
        code, text = run(*at, "--token-file", token, "-n", HOME, *arguments)
        self.assertEqual(code, 0, text)
        return text

    def until(self, expected, *arguments):
        end = time.monotonic() + WAIT_SECONDS
        while True:
            text = self.as_people(*arguments)
            if re.search(expected, text):
                return text
            self.assertLess(time.monotonic(), end, f"{expected} is not in:\n{text}")
            time.sleep(0.1)

    def pod(self, owner, name):
        """Makes the pod that a controller makes of a template."""
        template = owner["spec"]["template"]
        labels = {**template.get("metadata", {}), "name": name, "namespace": HOME}
        return self.cluster.post({"apiVersion": "v1", "kind": "Pod", "metadata": labels, "spec": template["spec"]})

    def deployment(self):
        return self.cluster.object("Deployment", "web", "apps/v1", home=HOME)

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=WAIT_SECONDS)
        return process.returncode, text

    def test_a_workload_and_its_sidecar_report_as_their_pod(self):
        if not (PLUGINS / "check_tcp").exists():
            self.skipTest("monitoring-plugins-basic is not installed")
        pod = self.pod(self.deployment(), "web-5d9-a")
        self.assertEqual(self.kubelet.finish(pod, "register")[0], 0)
        sidecar = self.kubelet.start(pod, "checks")
        self.addCleanup(sidecar.kill)
        self.until(r"web-5d9-a .*error", "status", "web")
        web = self.kubelet.start(pod, "web")
        self.addCleanup(web.kill)
        self.until("the cache is warm", "why", "web")
        # The first check found no server; the next one is 30 s later, or when a person asks.
        self.assertEqual(self.stop(sidecar)[0], 0)
        sidecar = self.kubelet.start(pod, "checks")
        self.addCleanup(sidecar.kill)
        shown = self.until(r"web is active", "why", "web")
        self.assertIn("web-5d9-a port", shown)
        unit = self.as_people("status", "web", "-o", "json")
        self.assertIn('"web-5d9-a"', unit)
        self.assertEqual(self.stop(sidecar)[0], 0)
        self.stop(web)

    def test_a_pod_is_no_other_pod(self):
        pod = self.pod(self.deployment(), "web-5d9-b")
        code, text = self.kubelet.finish(pod, "register", POD_NAME="web-5d9-c")
        self.assertEqual(code, 0, "a refusal stops no pod")
        self.assertRegex(text, "error: .*web-5d9-c")
        self.assertNotIn("web-5d9-c", self.as_people("status", "-o", "json"))

    def test_a_token_for_another_audience_is_refused(self):
        pod = self.pod(self.deployment(), "web-5d9-d")
        other = self.folder / "other"
        other.write_text(self.kubelet.token("web", "https://kubernetes.default.svc", pod))
        _, text = self.kubelet.finish(pod, "register", BELLWETHER_TOKEN_FILE=str(other))
        self.assertRegex(text, "CREDENTIALS_INVALID")
        self.assertNotIn("web-5d9-d", self.as_people("status", "-o", "json"), text)

    def test_a_cron_job_is_an_operation_that_another_pod_finds_done(self):
        cron = self.cluster.object("CronJob", "backup", "batch/v1", home=HOME)
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "backup-29500000", "namespace": HOME}}
        job = self.cluster.post({**job, "spec": cron["spec"]["jobTemplate"]["spec"]})
        code, text = self.kubelet.finish(self.pod(job, "backup-29500000-q"), "backup")
        self.assertEqual(code, 0, text)
        self.assertIn("dumped under fence 1", text)
        self.assertRegex(self.as_people("ops", "list", "backup"), "succeeded")
        code, text = self.kubelet.finish(self.pod(job, "backup-29500000-r"), "backup")
        self.assertEqual(code, 0, text)
        self.assertNotIn("dumped", text)


if __name__ == "__main__":
    unittest.main()
