"""A kube-apiserver with its etcd, on free ports. No controller runs, so objects are stored and no pod starts.

It tells what schemas cannot: admission, defaults, what cannot change, and what Helm does with a release.
"""

import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import yaml
from chart import HELMS, ROOT, Refused
from schemas import definitions

SERVER = ROOT / ".tools/bin/kube-apiserver"
ETCD = shutil.which("etcd")
START_SECONDS = 120
TOKEN = "of-this-test"

# What objects of scenarios refer to, and the API server looks up.
BEFORE = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "important"}, "value": 1},
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gvisor"}, "handler": "runsc"},
]


class Denied(Exception):
    """The API server said no; what it said is the message."""


def can_run():
    return SERVER.exists() and ETCD is not None


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


class Cluster:
    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.processes = []
        try:
            self.start()
            for made in (*map(namespace, ("prod", "status", "monitoring")), *BEFORE, *definitions()):
                self.post(made)
            self.wait(lambda: self.get("/apis/gateway.networking.k8s.io/v1"))
            self.wait(lambda: self.get("/apis/cert-manager.io/v1"))
            self.wait(lambda: len(self.get("/apis/monitoring.coreos.com/v1")["resources"]) >= 3 or None)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)
        self.folder.cleanup()

    def start(self):
        folder = self.folder.name
        etcd, peer, port = free_ports(3)
        self.url = f"https://127.0.0.1:{port}"
        key, public = f"{folder}/sa.key", f"{folder}/sa.pub"
        quiet = {"check": True, "capture_output": True}
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], **quiet)
        subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], **quiet)
        pathlib.Path(folder, "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self.spawn(
            ETCD, f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        )  # fmt: skip
        self.spawn(
            SERVER, f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder}/certificates",
            "--service-cluster-ip-range=10.0.0.0/16", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={public}", f"--service-account-signing-key-file={key}",
            f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
        )  # fmt: skip
        self.wait(lambda: self.call("GET", "/readyz"))
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "prod"}}],
        }  # fmt: skip
        self.kubeconfig = pathlib.Path(folder, "kubeconfig")
        self.kubeconfig.write_text(yaml.safe_dump(config))
        self.kubeconfig.chmod(0o600)

    def spawn(self, *command):
        log = open(f"{self.folder.name}/{pathlib.Path(command[0]).name}.log", "w")
        with log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def wait(self, condition):
        """Waits until the condition gives something. What is not there yet is asked for again."""
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                if (found := condition()) is not None:
                    return found
                last = "nothing"
            except (OSError, Denied) as error:
                last = error
            ended = [process.args[0] for process in self.processes if process.poll() is not None]
            if ended or until < time.monotonic():
                logs = "".join(file.read_text()[-2000:] for file in pathlib.Path(self.folder.name).glob("*.log"))
                raise AssertionError(f"{last}; ended: {ended}\n{logs}")
            time.sleep(0.1)

    def call(self, verb, path, made=None, kind="application/json"):
        request = urllib.request.Request(self.url + path, method=verb)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        request.add_header("Content-Type", kind)
        context = ssl._create_unverified_context()
        body = None if made is None else json.dumps(made).encode()
        try:
            with urllib.request.urlopen(request, body, timeout=60, context=context) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            raise Denied(json.loads(text)["message"] if text.startswith("{") else text) from None

    def authority(self):
        """The certificate of the API server, which it has made and signed itself, as PEM."""
        return pathlib.Path(self.folder.name, "certificates/apiserver.crt").read_text()

    def get(self, path):
        return json.loads(self.call("GET", path))

    def path(self, made, home="prod"):
        """The path of the collection that an object belongs to."""
        version = made["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = self.get(root)["resources"]
        (kind,) = (one for one in resources if one["kind"] == made["kind"] and "/" not in one["name"])
        place = f"/namespaces/{made['metadata'].get('namespace', home)}" if kind["namespaced"] else ""
        return f"{root}{place}/{kind['name']}"

    def post(self, made, dry=False):
        """Makes an object, or asks whether it could be made. Unknown and doubled fields are refused."""
        query = "?fieldValidation=Strict" + ("&dryRun=All" if dry else "")
        return json.loads(self.call("POST", self.path(made) + query, made))

    def apply_as_helm(self, made):
        """Changes an object in the name of Helm 4, which refuses to change fields that another client has set."""
        kept = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
        own = {key: value for key, value in made.items() if key != "metadata"}
        path = f"{self.path(made)}/{kept['name']}?fieldManager=helm&force=true"
        self.call("PATCH", path, {**own, "metadata": kept}, kind="application/apply-patch+yaml")

    def object(self, kind, name, version="v1", home="prod"):
        made = {"apiVersion": version, "kind": kind, "metadata": {"namespace": home}}
        return self.get(f"{self.path(made)}/{name}")

    def helm(self, name, *arguments):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HELM_")}
        homes = {f"HELM_{part}_HOME": f"{self.folder.name}/helm/{part}" for part in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [HELMS[name], *map(str, arguments), "--kubeconfig", self.kubeconfig, "--namespace", "prod"],
            capture_output=True, text=True, timeout=300, check=False, env={**clean, **homes},
        )  # fmt: skip
        if done.returncode != 0:
            raise Refused(done.stdout + done.stderr)
        return done.stdout


def namespace(name):
    """A namespace in which only restricted pods may be made."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
