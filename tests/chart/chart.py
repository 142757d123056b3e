"""Renders the chart by real Helm, and reads what comes out."""

import base64
import functools
import json
import pathlib
import shutil
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "helm-chart"
SCENARIOS = sorted(CHART.glob("ci/*-values.yaml"))

# The newest Helm of each major version, and the oldest that the chart promises.
NEWEST = ("helm4", "helm3")
HELMS = {name: ROOT / ".tools/bin" / name for name in (*NEWEST, "helm3-oldest")}

# From what Chart.yaml says is enough to the newest with a schema.
KUBERNETES = tuple(f"1.{minor}" for minor in range(25, 38))

# Where the pod writes, and values that make it write nothing there.
DATA = "/var/lib/bellwether"
REDIS = {"redis__enabled": True, "redis__urlSecret__name": "redis"}
# Values that make the ports reachable: without protection, and with it.
OPEN = {"insecure": True}
TOKENS = {"auth__tokens__secret": "tokens", "auth__roles__secret": "roles"}
SECURED = {"tls__existingSecret": "tls", **TOKENS}


class Refused(Exception):
    """Helm said no; what it said is the message."""


@functools.cache
def run(helm, *arguments):
    command = [HELMS[helm], *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


def render(helm, *arguments, release="test", kubernetes="1.34", chart=CHART, **values):
    """Objects of the chart. Values are given as `a__b=1` for `a.b`."""
    sets = [part for key, value in values.items() for part in ("--set-json", as_json(key, value))]
    version = f"{kubernetes}.0"
    text = run(helm, "template", release, chart, "--namespace", "prod", "--kube-version", version, *arguments, *sets)
    return [made for made in yaml.load_all(text, Loader=StrictLoader) if made]


def as_json(key, value):
    return f"{key.replace('__', '.')}={json.dumps(value)}"


def notes_of(helm, **values):
    """Notes, as an object, because Helm 3 prints them only where there is a cluster."""
    template = (CHART / "templates/NOTES.txt").read_text()
    object_of_notes = (
        '{{- define "notes" -}}' + template + "{{- end -}}\n"
        'kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | toJson }}\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        chart = pathlib.Path(shutil.copytree(CHART, f"{folder}/chart"))
        (chart / "templates/notes.yaml").write_text(object_of_notes)
        return one(render(helm, chart=chart, **values), "Notes")["text"]


def reporter_of(notes):
    """The pod of a trial that the notes print between the marks of a shell."""
    _, rest = notes.split("apply -f - <<'EOF'\n")
    text, _ = rest.split("\nEOF\n")
    return yaml.load(text, Loader=StrictLoader)


def files_of(objects):
    """What ConfigMaps and secrets have, by their name."""
    files = {}
    for made in objects:
        if made["kind"] in ("ConfigMap", "Secret"):
            texts = made.get("data", {})
            if made["kind"] == "Secret":
                texts = {key: base64.b64decode(value).decode() for key, value in texts.items()}
            files[made["metadata"]["name"]] = texts
    return files


def one(objects, kind, suffix=""):
    """The only object of a kind whose name has this ending."""
    found = [made for made in objects if made["kind"] == kind and made["metadata"]["name"].endswith(suffix)]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} of {kind} {suffix}, not one")
    return found[0]


def workload(objects):
    """What makes the pods of the server; the trial Valkey, notifiers and relays are not meant."""
    kinds = ("StatefulSet", "Deployment")
    others = ("-valkey", "-notify", "-relay")
    (found,) = (made for made in objects if made["kind"] in kinds and not made["metadata"]["name"].endswith(others))
    return found


def pod_of(objects):
    return workload(objects)["spec"]["template"]["spec"]


def container_of(objects):
    """The server, which is the first container."""
    return pod_of(objects)["containers"][0]


def arguments_of(objects):
    return container_of(objects)["args"]


def workloads(objects):
    """Everything that makes pods, and pods themselves, as pairs of a name and the pod's spec."""
    for made in objects:
        if made["kind"] in ("StatefulSet", "Deployment"):
            yield made["metadata"]["name"], made["spec"]["template"]["spec"]
        elif made["kind"] == "Pod":
            yield made["metadata"]["name"], made["spec"]


def default_values():
    return yaml.safe_load((CHART / "values.yaml").read_text())


def chart_yaml():
    return yaml.safe_load((CHART / "Chart.yaml").read_text())


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that is there twice, as Kubernetes does when it looks closely."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise AssertionError(f"twice in one map: {twice}\n{node.start_mark}")
        return super().construct_mapping(node, deep)
