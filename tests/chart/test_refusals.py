"""Holds the chart to refusing what cannot be: by the schema of its values, or with a sentence."""

import json
import unittest

import jsonschema
from chart import CHART, HELMS, REDIS, Refused, default_values, render


class Refusals(unittest.TestCase):
    """What cannot be is refused, with the key or a sentence."""

    # Value, what is given, and what Helm says of it.
    VALUES = [
        ("replicas", "many", "at '/replicas': got string, want integer"),
        ("replicas", -1, "at '/replicas': minimum: got -1, want 0"),
        ("image__digest", "sha256:beef", "at '/image/digest': 'sha256:beef' does not match"),
        ("image__pullPolicy", "Sometimes", "at '/image/pullPolicy': value must be one of"),
        ("image__tag", 1.5, "at '/image/tag': got number, want string"),
        ("imagePullSecrets", ["registry"], "at '/imagePullSecrets/0': got string, want object"),
        ("persistence__enabled", "yes", "at '/persistence/enabled': got string, want"),
        ("persistence__size", "1 GB", "at '/persistence/size': '1 GB' does not match"),
        ("persistence__accessModes", [], "at '/persistence/accessModes': minItems: got 0, want 1"),
        ("redis__existingSecret", "redis", "at '/redis/existingSecret': got string, want object"),
        ("redis__existingSecret__key", "", "at '/redis/existingSecret/key': '' does not match"),
        ("listenAddress", "127.0.0.1", "at '/listenAddress': value must be one of"),
        ("extraEnv", {"A": "b"}, "at '/extraEnv': got object, want array"),
        ("extraEnv", [{"value": "b"}], "at '/extraEnv/0': missing property 'name'"),
        ("commonLabels", {"a": 1}, "at '/commonLabels/a': got number, want string"),
        ("podAnnotations", {"a": True}, "at '/podAnnotations/a': got boolean, want string"),
        ("probes__liveness__periodSeconds", 0, "at '/probes/liveness/periodSeconds': minimum"),
        ("podDisruptionBudget__maxUnavailable", "half", "at '/podDisruptionBudget/maxUnavailable': 'half'"),
        ("fullnameOverride", "Status", "at '/fullnameOverride': 'Status' does not match"),
    ]

    # Values (or what else `render` takes), and the whole sentence.
    COMBINATIONS = [
        (
            {"replicas": 3},
            "replicas is 3, but the embedded store belongs to one process: set redis.enabled=true and "
            "redis.existingSecret.name, or replicas=1.",
        ),
        (
            {"redis__enabled": True},
            "redis.enabled is true, but redis.existingSecret.name is empty: create a secret with the URL of your "
            "Redis or Valkey and give its name.",
        ),
        (
            {"redis__existingSecret__name": "redis"},
            'redis.existingSecret.name is "redis", but redis.enabled is false, so Redis would not be used: set '
            "redis.enabled=true, or leave the secret out.",
        ),
        (
            {**REDIS, "persistence__enabled": True},
            "persistence.enabled is true, but with redis.enabled nothing is kept in the pod: leave one of them out.",
        ),
        (
            {"persistence__enabled": False, "persistence__existingClaim": "mine"},
            'persistence.existingClaim is "mine", but the pod keeps nothing on a claim: leave it out, or use neither '
            "redis.enabled nor persistence.enabled=false.",
        ),
        (
            {"terminationGracePeriodSeconds": 15, "preStopSleepSeconds": 5},
            "terminationGracePeriodSeconds is 15, but the server drains for 10 s after preStopSleepSeconds=5: give "
            "more than 15, or it is killed while it drains.",
        ),
        (
            {"preStopSleepSeconds": 5, "kubernetes": "1.29"},
            "preStopSleepSeconds is 5, but Kubernetes v1.29.0 cannot sleep by itself: leave it at 0, or upgrade to "
            "1.30.",
        ),
        (
            {"extraEnv": [{"name": "BELLWETHER_STORE", "value": "memory"}]},
            "extraEnv has BELLWETHER_STORE, but the chart sets that itself: use listenAddress, persistence or redis.",
        ),
        (
            {"commonLabels": {"helm.sh/chart": "other"}},
            "commonLabels has helm.sh/chart, but the chart sets that itself: take another label, or nameOverride.",
        ),
        (
            {"release": "1.status"},
            'the objects would be called "1.status-bellwether", but the name of a service starts with a letter and '
            "has only small letters, digits and hyphens: set fullnameOverride.",
        ),
    ]

    def refused(self, expected, helm, **values):
        with self.subTest(helm=helm, **values), self.assertRaises(Refused) as refused:
            render(helm, **values)
        self.assertIn(expected, str(refused.exception))

    def test_a_bad_value_is_refused_by_its_name(self):
        for helm in HELMS:
            for key, value, expected in self.VALUES:
                self.refused(expected, helm, **{key: value})

    def test_an_unknown_key_is_refused_in_every_map_of_ours(self):
        for helm in HELMS:
            for path in closed_maps(schema()):
                at = "".join(f"/{part}" for part in path)
                key = "__".join((*path, "surprise"))
                self.refused(f"at '{at}': additional properties 'surprise' not allowed", helm, **{key: 1})

    def test_a_combination_that_cannot_work_is_refused_with_a_sentence(self):
        for helm in HELMS:
            for values, expected in self.COMBINATIONS:
                self.refused(expected, helm, **values)

    def test_every_sentence_is_tested(self):
        sentences = (CHART / "templates/validate.yaml").read_text().count("append $wrong")
        self.assertEqual(sentences, len(self.COMBINATIONS))

    def test_all_that_is_wrong_is_said_at_once(self):
        with self.assertRaises(Refused) as refused:
            render("helm4", replicas=2, terminationGracePeriodSeconds=1)
        self.assertRegex(str(refused.exception), "(?s)replicas is 2.*terminationGracePeriodSeconds is 1")

    def test_an_old_kubernetes_is_refused(self):
        for helm in HELMS:
            self.refused("chart requires kubeVersion: >=1.25.0-0", helm, kubernetes="1.24")


def schema():
    return json.loads((CHART / "values.schema.json").read_text())


def closed_maps(part, path=()):
    """Paths of the maps whose keys the chart knows."""
    if part.get("additionalProperties") is False and "items" not in part:
        yield path
    for key, inner in part.get("properties", {}).items():
        if inner.get("type") == "object":
            yield from closed_maps(inner, (*path, key))


class Schema(unittest.TestCase):
    # Maps whose keys are Kubernetes' or the user's.
    OPEN = {
        "global", "commonLabels", "resources", "podAnnotations", "nodeSelector", "affinity", "service.annotations",
    }  # fmt: skip

    def test_it_is_draft_7(self):
        self.assertEqual(schema()["$schema"], "http://json-schema.org/draft-07/schema#")
        jsonschema.Draft7Validator.check_schema(schema())

    def test_it_has_every_value_and_no_other(self):
        self.assertEqual(list(self.differences(schema(), default_values())), [])

    def test_a_difference_would_be_seen(self):
        values = default_values()
        values["image"]["arch"] = values["surprise"] = "a"
        del values["redis"]["enabled"]
        found = list(self.differences(schema(), values))
        self.assertEqual(found, ["lacks image.arch", "invents redis.enabled", "lacks surprise"])
        opened = schema()
        del opened["properties"]["probes"]["additionalProperties"]
        self.assertEqual(list(self.differences(opened, default_values())), ["probes is open"])

    def differences(self, part, values, path=()):
        name = ".".join(path)
        if name in self.OPEN:
            return
        if part.get("additionalProperties") is not False:
            yield f"{name} is open"
            return
        known = part["properties"]
        for key in sorted({*known, *values}):
            inner = ".".join((*path, key))
            if key not in known:
                yield f"lacks {inner}"
            elif key not in values:
                if inner != "global":
                    yield f"invents {inner}"
            elif known[key]["type"] == "object":
                yield from self.differences(known[key], values[key], (*path, key))
