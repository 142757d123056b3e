"""Starts the built server, as the pod does, for what only a running server knows."""

import json
import os
import pathlib
import ssl
import subprocess
import urllib.request

from chart import ROOT, arguments_of, files_of, pod_of


# Contents for the secrets and ConfigMaps that users bring.
BROUGHT = {
    "tokens.toml": "revoked_all = true\n", "jwks.json": '{"keys": []}', "password": "secret",
    "roles.toml": '[[grant]]\nrole = "reader"\nto = ["token:a"]\nnamespace = "*"\napplication = "*"\n',
}  # fmt: skip


def arguments_in(objects, folder):
    """The arguments of the server, with every file of the pod in a folder; data goes there too."""
    files = files_of(objects)
    volumes = {volume["name"]: volume for volume in pod_of(objects)["volumes"]}
    mounts = pod_of(objects)["containers"][0]["volumeMounts"]
    arguments = [argument.replace("=/", f"={folder}/") for argument in arguments_of(objects)]
    for mount in mounts:
        place = pathlib.Path(f"{folder}{mount['mountPath']}")
        place.mkdir(parents=True, exist_ok=True)
        volume = volumes.get(mount["name"], {})
        name = volume.get("configMap", {}).get("name") or volume.get("secret", {}).get("secretName")
        own = files.get(name, BROUGHT)
        for name, text in own.items():
            (place / name).write_text(text.replace('"/etc/', f'"{folder}/etc/'))
    return arguments


def program():
    """The program that `make chart` has built; BELLWETHER_BIN names another one."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = pathlib.Path(os.environ.get("BELLWETHER_BIN", target / "debug/bellwether"))
    if not found.exists():
        raise AssertionError(f"{found} is not built; run make chart, or set BELLWETHER_BIN")
    return found


def run(*arguments, **variables):
    """Runs a command of the program, and returns its exit code and what it printed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("BELLWETHER_", "OTEL_"))}
    done = subprocess.run(
        [program(), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
        env={**clean, **variables},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


class Server:
    """A server in memory on free ports."""

    def __init__(self, *arguments):
        self.arguments = arguments or ("--ephemeral",)

    def __enter__(self):
        ports = ("--grpc-listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--print-addresses=json")
        self.process = subprocess.Popen(
            [program(), "serve", *self.arguments, *ports], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended with {self.process.wait(10)}")
        self.addresses = json.loads(line)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()

    def cli(self, *arguments):
        code, text = run("--server", f"http://{self.addresses['grpc']}", *arguments)
        if code != 0:
            raise AssertionError(text)
        return text

    def get(self, path, scheme="http"):
        """Reads from the ops port; like the kubelet without verifying its certificate."""
        url = f"{scheme}://{self.addresses['ops']}{path}"
        context = ssl._create_unverified_context() if scheme == "https" else None
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:
            return answer.read().decode()

    def run_as_pod(self, spec, files, folder):
        """Runs the steps of a pod in their order, with its variables and the files of its secrets."""
        folder = pathlib.Path(folder)
        secrets = {volume["name"]: volume["secret"]["secretName"] for volume in spec.get("volumes", [])}
        for step in [*spec.get("initContainers", []), *spec["containers"]]:
            variables = {variable["name"]: variable["value"] for variable in step["env"]}
            for mount in step.get("volumeMounts", []):
                place = folder / mount["mountPath"].lstrip("/")
                place.mkdir(parents=True, exist_ok=True)
                for name, text in files[secrets[mount["name"]]].items():
                    (place / name).write_text(text)
            inside = {key: f"{folder}{value}" for key, value in variables.items() if value.startswith("/")}
            address = {"BELLWETHER_SERVER": f"https://{self.addresses['grpc']}"}
            code, text = run(*step["args"], **{**variables, **inside, **address})
            if code != 0:
                raise AssertionError(f"{step['name']} ended with {code}: {text}")
