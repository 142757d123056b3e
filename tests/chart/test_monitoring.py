"""Holds alerts and dashboard to promtool, to the metrics of a running server, and to docs/runbooks.md."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.request

import yaml
from chart import CHART, HELMS, OPEN, ROOT, SECURED, one, render, workload
from server import Server, program, run

ALERTS = CHART / "files/alerts.yaml"
PROMTOOL = ROOT / ".tools/bin/promtool"


def alerts():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard():
    return json.loads((CHART / "files/dashboard.json").read_text())


def queries():
    """Every expression of the dashboard, without its variables."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")


def metrics_in(expression):
    """Names of metrics. Words in braces are labels, words before a parenthesis functions."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\b(?:by|on) \([^)]*\)", "", expression)
    return set(re.findall(r"\b((?:bellwether|rpc|process)_\w+)\b(?!\()", bare))


def promtool(*arguments):
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


class Alerts(unittest.TestCase):
    def test_promtool_takes_them(self):
        promtool("check", "rules", ALERTS)

    def test_each_fires_and_stays_silent_when_it_should(self):
        file = pathlib.Path(__file__).parent / "alerts.test.yaml"
        promtool("test", "rules", file)
        tested = set(re.findall(r'alertname="(\w+)"', file.read_text()))
        self.assertEqual(tested, {rule["alert"] for rule in alerts()})

    def test_each_has_a_runbook(self):
        headings = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.MULTILINE)
        self.assertEqual(headings, [rule["alert"] for rule in alerts()])
        for rule in alerts():
            self.assertEqual(rule["annotations"]["runbook_url"], f"docs/runbooks.md#{rule['alert'].lower()}")
            self.assertEqual(list(rule["annotations"]), ["summary", "description", "runbook_url"])
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))

    def test_the_commands_of_the_runbooks_exist(self):
        texts = [(ROOT / "docs/runbooks.md").read_text(), ALERTS.read_text()]
        commands = set(re.findall(r"`bellwether ([^`]*)`", "\n".join(texts)))
        self.assertGreaterEqual(len(commands), 10)
        words = {"APP/UNIT": "web/0", "APP": "web", "NAMESPACE": "a", "REASON": "A", "ADDRESS": "127.0.0.1:1"}
        with tempfile.TemporaryDirectory() as folder:
            receivers = pathlib.Path(folder, "notify.toml")
            receivers.write_text('[[to]]\nname = "NAME"\nexec = ["true"]\n[[route]]\nto = "NAME"\n')
            words["notify.toml"] = receivers
            for command in commands - {"doctor"}:  # which would look for a store
                arguments = [words.get(word, word) for word in command.split()]
                code, text = run(*arguments, BELLWETHER_SERVER="http://127.0.0.1:1", BELLWETHER_DATA_DIR=folder)
                self.assertNotEqual(code, 2, f"{command}: {text}")

    def test_the_rule_is_the_file(self):
        for helm in HELMS:
            made = one(render(helm, prometheusRule__enabled=True), "PrometheusRule")["spec"]
            expected = yaml.safe_load(ALERTS.read_text())
            for group in expected["groups"]:
                for rule in group["rules"]:
                    rule["expr"] = rule["expr"].strip()
            self.assertEqual(made, expected)

    def test_each_can_be_changed_and_switched_off(self):
        changes = {"BellwetherDown": {"enabled": False}, "BellwetherMassSilence": {"for": "1h", "severity": "info"}}
        values = {
            "prometheusRule__enabled": True, "prometheusRule__alerts": changes, "prometheusRule__namespace": "other",
            "prometheusRule__alertLabels": {"team": "a"}, "prometheusRule__labels": {"release": "p"},
            "prometheusRule__runbookURL": "https://r", "prometheusRule__extraRules": [{"record": "a", "expr": "1"}],
        }  # fmt: skip
        rule = one(render("helm4", **values), "PrometheusRule")
        self.assertEqual(rule["metadata"]["namespace"], "other")
        self.assertEqual(rule["metadata"]["labels"]["release"], "p")
        made = {part.get("alert"): part for group in rule["spec"]["groups"] for part in group["rules"]}
        self.assertNotIn("BellwetherDown", made)
        self.assertEqual(len(made), len(alerts()), "one less, and the one of the user")
        silence = made["BellwetherMassSilence"]
        self.assertEqual((silence["for"], silence["labels"]), ("1h", {"severity": "info", "team": "a"}))
        self.assertEqual(silence["annotations"]["runbook_url"], "https://r#bellwethermasssilence")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(rule["spec"], file)
            file.flush()
            promtool("check", "rules", file.name)


class Dashboard(unittest.TestCase):
    def test_promtool_takes_every_expression(self):
        rules = [{"record": f"panel:{at}", "expr": expr} for at, (_, expr) in enumerate(queries())]
        self.assertGreaterEqual(len(rules), 20)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            promtool("check", "rules", "--lint=none", file.name)

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in dashboard()["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24)
            taken |= cells
        ids = [panel["id"] for panel in dashboard()["panels"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_it_is_in_a_config_map_that_grafana_finds(self):
        for helm in HELMS:
            made = one(render(helm, dashboard__enabled=True, dashboard__annotations={"grafana_folder": "a"}),
                       "ConfigMap", "-dashboard")  # fmt: skip
            self.assertEqual(made["metadata"]["labels"]["grafana_dashboard"], "1")
            self.assertEqual(made["metadata"]["annotations"], {"grafana_folder": "a"})
            self.assertEqual(json.loads(made["data"]["bellwether.json"]), dashboard())


def metrics_of_notify(folder):
    """Names of the metrics of `bellwether notify`."""
    file = pathlib.Path(folder) / "notify.toml"
    file.write_text('listen = "127.0.0.1:0"\n[[to]]\nname = "a"\nexec = ["true"]\n[[route]]\nto = "a"\n')
    command = [program(), "notify", "--config", file]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as notify:
        try:
            url = re.search(r"http://\S+", notify.stderr.readline()).group()
            with urllib.request.urlopen(url, timeout=60) as answer:
                return set(re.findall(r"^(\w+)[{ ]", answer.read().decode(), re.MULTILINE))
        finally:
            notify.kill()


class Names(unittest.TestCase):
    def test_every_metric_is_one_of_the_server(self):
        with tempfile.TemporaryDirectory() as data, Server("--data-dir", data) as server:
            server.cli("report", "web/0", "--level", "blocked")
            server.cli("ack", "web", "--during", "1h", "--message", "known")
            known = set(re.findall(r"^(\w+)[{ ]", server.get("/metrics"), re.MULTILINE))
            known |= metrics_of_notify(data)
        used = {name for rule in alerts() for name in metrics_in(rule["expr"])}
        used |= {name for _, expr in queries() for name in metrics_in(expr)}
        self.assertGreaterEqual(len(used), 18)
        self.assertEqual(used - known, set(), "the server has no such metric")

    def test_an_unknown_metric_would_be_seen(self):
        found = metrics_in('sum by (job) (rate(bellwether_a_total{b="c"}[5m])) > on (job) rpc_d{e="bellwether_f"}')
        self.assertEqual(found, {"bellwether_a_total", "rpc_d"})


class Monitors(unittest.TestCase):
    KINDS = (("ServiceMonitor", "serviceMonitor", "endpoints"), ("PodMonitor", "podMonitor", "podMetricsEndpoints"))

    def test_they_find_the_port(self):
        for kind, value, endpoints in self.KINDS:
            objects = render("helm4", **{f"{value}__enabled": True, f"{value}__labels": {"release": "p"}}, **OPEN)
            made = one(objects, kind)
            self.assertEqual(made["metadata"]["labels"]["release"], "p")
            wanted = made["spec"]["selector"]["matchLabels"].items()
            (endpoint,) = made["spec"][endpoints]
            if kind == "ServiceMonitor":
                services = [part for part in objects if part["kind"] == "Service"]
                found = [part for part in services if wanted <= part["metadata"]["labels"].items()]
                self.assertEqual([part["metadata"]["name"] for part in found], ["test-bellwether-metrics"])
                self.assertIn(endpoint["port"], [port["name"] for port in found[0]["spec"]["ports"]])
            else:
                self.assertLessEqual(wanted, workload(objects)["spec"]["template"]["metadata"]["labels"].items())
            self.assertEqual(made["spec"]["namespaceSelector"], {"matchNames": ["prod"]})
            self.assertNotIn("scheme", endpoint)

    def test_they_verify_the_server_and_prove_who_they_are(self):
        for kind, value, endpoints in self.KINDS:
            values = {f"{value}__enabled": True, "scrape__tokenSecret__name": "token", **SECURED}
            (endpoint,) = one(render("helm4", **values), kind)["spec"][endpoints]
            self.assertEqual(endpoint["scheme"], "https")
            self.assertEqual(endpoint["tlsConfig"]["serverName"], "test-bellwether-metrics.prod.svc")
            self.assertEqual(endpoint["tlsConfig"]["ca"]["secret"], {"name": "tls", "key": "ca.crt"})
            self.assertEqual(endpoint["authorization"]["credentials"], {"name": "token", "key": "token"})

    def test_how_often_and_what_they_read_is_as_asked_for(self):
        wanted = {"interval": "15s", "scrapeTimeout": "5s", "relabelings": [{"action": "drop"}],
                  "metricRelabelings": [{"action": "keep"}]}  # fmt: skip
        for kind, value, endpoints in self.KINDS:
            values = {f"{value}__{key}": part for key, part in wanted.items()}
            (endpoint,) = one(render("helm4", **{f"{value}__enabled": True}, **values, **OPEN), kind)["spec"][endpoints]
            self.assertLessEqual(wanted.keys(), endpoint.keys())
            for key, part in wanted.items():
                self.assertEqual(endpoint[key], part)
