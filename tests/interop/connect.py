"""A client by the standard library of Python alone: a call, an error, the health and a link by GET."""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request

BASE = f"http://{sys.argv[1]}"


def call(method, message):
    request = urllib.request.Request(
        f"{BASE}/bellwether.v1.{method}",
        data=json.dumps(message).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


status = {"level": "LEVEL_ACTIVE", "message": "ready", "ttl": "90s"}
call("ReportService/ReportStatus", {"application": "web", "unit": "web/0", "status": status})
application = call("ApplicationService/GetApplication", {"application": "web"})["application"]
assert application["status"]["level"] == "LEVEL_ACTIVE", application

try:
    call("ReportService/ReportStatus", {"application": "web", "unti": "web/0"})
    sys.exit("a wrong field was accepted")
except urllib.error.HTTPError as refused:
    error = json.load(refused)
    assert refused.code == 400 and "unti" in error["message"], error

query = urllib.parse.urlencode({"message": json.dumps({"application": "web"})})
url = f"{BASE}/bellwether.v1.ApplicationService/ExplainApplication?{query}"
with urllib.request.urlopen(url, timeout=10) as answer:
    assert json.load(answer)["winner"]["ref"]["unit"] == "web/0"

with urllib.request.urlopen(f"{BASE}/health/default/web", timeout=10) as answer:
    assert answer.read() == b"default/web is active: web/0: ready\n"
