"""Validates objects strictly: those of Kubernetes by its schemas, all others by their CRDs, see tools/go-crds."""

import functools

import jsonschema
import kubernetes_validate
import yaml
from chart import ROOT

CRDS = ROOT / ".tools/crds"


def validate(made, kubernetes):
    group = made["apiVersion"].split("/")[0]
    if group in ("monitoring.coreos.com", "cert-manager.io", "gateway.networking.k8s.io"):
        validator_of(made["apiVersion"], made["kind"]).validate(made)
    else:
        kubernetes_validate.validate(made, kubernetes, strict=True)


@functools.cache
def definitions():
    """Every definition of a resource in .tools/crds."""
    found = [yaml.load(file.read_text(), Loader=yaml.CSafeLoader) for file in sorted(CRDS.glob("*.yaml"))]
    if not found:
        raise AssertionError(f"{CRDS} has no definition; run tools/install chart")
    return found


@functools.cache
def validator_of(version, kind):
    return jsonschema.Draft202012Validator(schema_of(version, kind))


def schema_of(version, kind):
    group, name = version.split("/")
    for definition in definitions():
        spec = definition["spec"]
        if (spec["group"], spec["names"]["kind"]) == (group, kind):
            (served,) = (one for one in spec["versions"] if one["name"] == name)
            return closed(served["schema"]["openAPIV3Schema"], is_root=True)
    raise AssertionError(f"no definition of {kind} in {version}")


def closed(part, is_root=False):
    """The schema without room for unknown keys, as the API server reads it with strict validation."""
    if not isinstance(part, dict):
        return part
    made = dict(part)
    for key in ("items", "additionalProperties"):
        if key in made:
            made[key] = closed(made[key])
    if isinstance(made.get("pattern"), str):
        # Go takes flags anywhere, Python at the start.
        made["pattern"] = made["pattern"].replace("^(?i)", "(?i)^")
    if "properties" in made:
        made["properties"] = {key: closed(inner) for key, inner in made["properties"].items()}
        if "additionalProperties" not in made and not made.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    if is_root:
        made["properties"]["metadata"] = {"type": "object"}
    return made
