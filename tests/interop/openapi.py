"""A client that a generator made of docs/reference/openapi.json calls every operation of the file.

usage: openapi.py HOST:PORT
"""

import base64
import importlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone

FILE = pathlib.Path("docs/reference/openapi.json")
# The generator knows the media type of files, and not that of Connect's streams.
CONFIGURATION = """
package_name_override: generated
post_hooks: []
content_type_overrides:
  application/connect+json: application/octet-stream
"""

scratch = tempfile.TemporaryDirectory()
folder = pathlib.Path(scratch.name)
(folder / "config.yml").write_text(CONFIGURATION)
made = subprocess.run(
    [sys.executable, "-m", "openapi_python_client", "generate", "--path", FILE, "--meta", "none",
     "--config", folder / "config.yml", "--output-path", folder / "generated", "--fail-on-warning"],
    capture_output=True, text=True, check=False,
)
assert made.returncode == 0, made.stdout + made.stderr
sys.path.insert(0, str(folder))
generated = importlib.import_module("generated")
models = importlib.import_module("generated.models")
files = importlib.import_module("generated.types")

address = sys.argv[1]
H2 = {"http1": False, "http2": True}
client = generated.Client(base_url=f"http://{address}", timeout=30)
# A method that streams both ways needs HTTP/2.
h2_client = generated.Client(base_url=f"http://{address}", timeout=30, httpx_args=H2)
operations = {
    operation["operationId"]: operation
    for path in json.loads(FILE.read_text())["paths"].values()
    for operation in path.values()
}
modules = {
    re.sub(r"[^a-z0-9]", "", path.stem): f"generated.api.{path.parent.name}.{path.stem}"
    for path in (folder / "generated" / "api").glob("*/*.py")
}
called = set()


def module(identity):
    """Returns the module of an operation, and notes the call."""
    called.add(identity)
    return importlib.import_module(modules[re.sub(r"[^a-z0-9]", "", identity.lower())])


def model(reference):
    name = re.sub(r"[^A-Za-z0-9]", "", reference["$ref"].rsplit("/", 1)[1])
    return next(getattr(models, known) for known in dir(models) if known.lower() == name.lower())


def fully_described(value):
    """Checks that the file describes each field of an answer."""
    if isinstance(value, list):
        for item in value:
            fully_described(item)
    if not hasattr(value, "to_dict"):
        return
    extra = getattr(value, "additional_properties", {})
    fields = {name for name in value.__attrs_attrs__ if name.name != "additional_properties"}
    # An object without fields of its own is a map.
    if fields and type(value).__name__ not in {"GoogleProtobufAny"}:
        assert not extra, f"{type(value).__name__} lacks {sorted(extra)}"
    for name in fields:
        fully_described(getattr(value, name.name))
    for item in extra.values():
        fully_described(item)


def request_of(identity, message):
    body = operations[identity]["requestBody"]["content"]["application/json"]["schema"]
    request = model(body).from_dict(message)
    sent = request.to_dict()
    assert sent.keys() == message.keys(), f"{identity}: {sent} of {message}"
    return request


def call(identity, message, *expected):
    """Calls an operation; its answer must have each text."""
    answer = module(identity).sync_detailed(client=client, body=request_of(identity, message))
    return checked(identity, answer, expected)


def read(identity, message, *expected):
    """Calls an operation that changes nothing, by POST and by GET."""
    call(identity, message, *expected)
    by_get = f"{identity}_get"
    answer = module(by_get).sync_detailed(client=client, message=json.dumps(message))
    checked(by_get, answer, expected)


def checked(identity, answer, expected):
    text = answer.content.decode()
    assert answer.status_code == 200, f"{identity}: {text}"
    for part in expected:
        assert part in text, f"{identity}: no {part} in {text}"
    fully_described(answer.parsed)
    return answer.parsed


def refuse(identity, message, code, reason):
    """An error is the type that the file has for it."""
    answer = module(identity).sync_detailed(client=client, body=request_of(identity, message))
    refused = answer.parsed
    assert isinstance(refused, models.ConnectError), f"{identity}: {answer.content}"
    assert refused.code == code, f"{identity}: {refused}"
    assert refused.details[0].debug["reason"] == reason, f"{identity}: {refused}"


def stream(identity, messages, *expected, by=client, ends=False):
    """Sends messages in frames; the answers must have each text. A stream that does not end has a deadline."""
    frames = b"".join(frame(json.dumps(message).encode()) for message in messages)
    timeout = files.UNSET if ends else 1500
    body = files.File(payload=frames)
    answer = module(identity).sync_detailed(client=by, body=body, connect_timeout_ms=timeout)
    assert answer.status_code == 200, f"{identity}: {answer.content}"
    answers = list(unframed(answer.content))
    assert answers[-1][0] == 2, f"{identity}: {answers}"
    error = json.loads(answers[-1][1]).get("error", {}).get("code", "")
    assert error == ("" if ends else "deadline_exceeded"), f"{identity}: {answers[-1]}"
    named = model(operations[identity]["x-response"])
    for _, text in answers[:-1]:
        fully_described(named.from_dict(json.loads(text)))
    text = b"".join(text for _, text in answers).decode()
    for part in expected:
        assert part in text, f"{identity}: no {part} in {text}"


def frame(message):
    return b"\0" + len(message).to_bytes(4, "big") + message


def unframed(content):
    while content:
        length = int.from_bytes(content[1:5], "big")
        yield content[0], content[5 : 5 + length]
        content = content[5 + length :]


def events(identity, message, *expected):
    """Reads Server-Sent Events until the deadline."""
    of_events = client.with_headers({"accept": "text/event-stream"})
    answer = module(identity).sync_detailed(
        client=of_events, message=json.dumps(message), connect_timeout_ms=1500
    )
    assert answer.status_code == 200, f"{identity}: {answer.content}"
    for part in (*expected, "event: end"):
        assert part in answer.parsed, f"{identity}: no {part} in {answer.parsed}"


def before(**ago):
    return (datetime.now(timezone.utc) - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%S+00:00")


app = {"namespace": "openapi", "application": "web"}
status = {
    "component": "database",
    "level": "LEVEL_BLOCKED",
    "message": "add a database relation",
    "ttl": "90s",
    "labels": {"by": "openapi"},
    "needs": [{"application": {"application": "postgresql"}}, {"outside": "quota cpu of prod"}],
}
call("ReportService_ReportStatus", {**app, "unit": "web/0", "status": status}, '"changed":true')
set_of = [{"component": "http", "level": "LEVEL_ACTIVE"}, {"component": "cache", "level": "LEVEL_MAINTENANCE"}]
call("ReportService_ReplaceStatuses", {**app, "unit": "web/1", "statuses": set_of}, '"changed":true')

read("ApplicationService_GetApplication", app, "LEVEL_BLOCKED")
read("ApplicationService_ListApplications", {"namespace": "-"}, '"name":"web"')
read("ApplicationService_ListNamespaces", {"pageSize": 1000}, '"name":"openapi"')
read("ApplicationService_ExplainApplication", app, '"winner"', '"beaten"')
read("ApplicationService_ListBlockers", {"namespace": "openapi"}, "CAUSE_STATE_OUTSIDE")
read("ApplicationService_GetUptime", {**app, "start": before(days=1)}, '"episodeCount":1')
past = {"namespace": "openapi", "slot": "3600s", "slotCount": 24, "startTime": before(hours=23)}
read("ApplicationService_ListPast", past, '"application":"web"')
read("ApplicationService_ListStatuses", {**app, "unit": "web/1"}, "STATUS_KIND_PULL")
read("ApplicationService_ListUnits", {**app, "pageSize": 1}, '"nextPageToken"')
watch = {"namespace": "openapi"}
stream("ApplicationService_WatchApplications", [watch], '"upserted"', '"snapshotComplete"')
events("ApplicationService_WatchApplications_get", watch, '"upserted"', '"snapshotComplete"')
create, cancel = {"create": {"watchId": "7", "watch": watch}}, {"cancel": {"watchId": "7"}}
stream("ApplicationService_MultiplexWatches", [create], '"upserted"', by=h2_client)
stream("ApplicationService_MultiplexWatches", [create, cancel], '"ended"', by=h2_client, ends=True)

config = {"policy": {"name": "openstack"}, "externalLeader": {"unit": "web/0"}}
call("ApplicationService_ConfigureApplication", {**app, "config": config}, "openstack")
override = {**app, "unit": "web/0", "level": "LEVEL_MAINTENANCE", "message": "migrating", "ttl": "60s"}
override["mode"] = "APPLICATION_STATUS_MODE_OVERRIDE"
call("ApplicationService_SetApplicationStatus", override, '"changed":true')
call("ApplicationService_ClearApplicationStatus", {**app, "unit": "web/0"}, '"changed":true')
own = [{"component": "tls", "level": "LEVEL_WAITING", "shortMessage": "no key"}]
call("ApplicationService_ReplaceApplicationStatuses", {**app, "unit": "web/0", "statuses": own}, '"changed":true')
call("ReportService_ClearStatus", {**app, "unit": "web/0", "component": "database"}, '"clearedCount":1')
read("ApplicationService_ListStatusEvents", app, '"events"', "LEVEL_BLOCKED")

lease = {**app, "config": {"leaseDuration": "60s"}, "updateMask": "externalLeader,leaseDuration"}
call("ApplicationService_ConfigureApplication", lease, '"leaseDuration":"60s"')
leader = {**app, "unit": "web/0"}
call("LeaderService_ClaimLeadership", leader, '"leaseEpoch":"1"')
refuse("LeaderService_ClaimLeadership", {**app, "unit": "web/1"}, "failed_precondition", "LEASE_HELD")
call("LeaderService_RenewLeadership", {**leader, "leaseEpoch": "1"}, '"leaseEpoch":"1"')
read("LeaderService_GetLeader", app, '"candidateCount":1')
data = {**leader, "leaseEpoch": "1", "set": {"database": base64.b64encode(b"web").decode()}}
call("AppDataService_UpdateAppData", data, '"etag"')
read("AppDataService_GetAppData", app, '"database":"d2Vi"')
stream("AppDataService_WatchAppData", [app], '"database":"d2Vi"')
events("AppDataService_WatchAppData_get", app, '"database":"d2Vi"')
call("LeaderService_ReleaseLeadership", {**leader, "leaseEpoch": "1"}, '"changed":true')
call("LeaderService_TransferLeadership", {**app, "toUnit": "web/0"}, '"leaseEpoch":"3"')

call("grpc.health.v1.Health_Check", {"service": ""}, "SERVING")
call("grpc.health.v1.Health_List", {}, '"openapi/web"')
stream("grpc.health.v1.Health_Watch", [{"service": "openapi/web"}], '"status"')
reflected = [{"listServices": ""}]
for version in ("v1", "v1alpha"):
    identity = f"grpc.reflection.{version}.ServerReflection_ServerReflectionInfo"
    stream(identity, reflected, "bellwether.v1.ReportService", by=h2_client, ends=True)

call("WorkerService_RegisterUnit", {**app, "unit": "web/2", "ttl": "30s"}, '"incarnation":"1"')
call("WorkerService_AnnounceStop", {**app, "unit": "web/2"}, '"changed":true')
call("WorkerService_RequestCallback", {**app, "unit": "web/2", "after": "30s"}, '"changed":true')
session = [
    {"hello": {**app, "unit": "web/3"}},
    {"report": {"seq": "1", "statuses": [{"level": "LEVEL_ACTIVE"}]}},
    {"goodbye": {"removed": True}},
]
stream("WorkerService_Connect", session, '"welcome"', '"ack"', by=h2_client, ends=True)
call("ApplicationService_CollectApplication", {**app, "deadline": "1s"}, '"answers"', '"name":"web/2"')

operation = {**app, "unit": "web/2", "operationId": "up-v2"}
begun = {**operation, "targetVersion": "v2", "payload": base64.b64encode(b"bundle").decode()}
call("OperationService_BeginOperation", begun, '"begun":true', "OPERATION_STATE_RUNNING")
call("OperationService_HeartbeatOperation", {**operation, "fence": "1", "progress": "step 3/7"}, "step 3/7")
call("OperationService_ReleaseOperation", {**operation, "fence": "1"}, "OPERATION_STATE_INTERRUPTED")
call("OperationService_AcquireOperation", {**operation, "verify": True}, "OPERATION_STATE_VERIFYING")
refuse("OperationService_CompleteOperation", {**operation, "fence": "1"}, "aborted", "STALE_FENCE")
observed = {**operation, "fence": "2", "observed": "OBSERVED_NOT_APPLIED"}
call("OperationService_VerifyOperation", observed, "OPERATION_STATE_RUNNING")
error = {"class": "ERROR_CLASS_BLOCKED", "message": "forbidden: cannot patch deployments"}
call("OperationService_FailOperation", {**operation, "fence": "2", "error": error}, "OPERATION_STATE_BLOCKED")
of_operator = {**app, "operationId": "up-v2"}
call("OperationService_RetryOperation", of_operator, "OPERATION_STATE_READY")
call("OperationService_AcquireOperation", operation, '"fence":"3"')
call("OperationService_CompleteOperation", {**operation, "fence": "3"}, "OPERATION_STATE_SUCCEEDED")
call("OperationService_BeginOperation", {**app, "operationId": "up-v3", "targetVersion": "v3"}, "OPERATION_STATE_READY")
call("OperationService_CancelOperation", {**app, "operationId": "up-v3"}, "OPERATION_STATE_ABANDONED")
read("OperationService_GetOperation", of_operator, '"history"')
read("OperationService_ListOperations", app, '"up-v3"', '"up-v2"')

failed = {"component": "db", "target": "pg", "system": "grpc", "origin": "ERROR_ORIGIN_PEER", "code": "UNAVAILABLE"}
call("ReportService_ReportError", {**leader, "error": failed}, "VERDICT_ACTION_RETRY")
call("ReportService_ResolveError", {**leader, "component": "db"}, '"resolvedCount":1')
call("ReportService_ReportError", {**leader, "error": {**failed, "code": "DATA_LOSS"}}, '"held":true')
read("ApplicationService_ListFaults", app, "ERROR_CLASS_FATAL")
read("ApplicationService_ListFaults", {"namespace": "openapi", "groupByTarget": True}, '"targets"')
resolution = {**leader, "component": "db", "resolution": "HOLD_RESOLUTION_SKIP"}
call("ApplicationService_ResolveHold", resolution, '"releasedCount":1')

mark = {"markId": "m", "kind": "MARK_KIND_PLANNED", "unit": "web/0", "reason": "new disks"}
call("ApplicationService_SetMark", {**app, "mark": mark, "during": "3600s"}, '"inForce":true')
read("ApplicationService_ListMarks", app, '"markId":"m"')
read("ApplicationService_ExplainApplication", app, '"winner"')
call("ApplicationService_RemoveMark", {**app, "markId": "m"}, '"revision"')
call("ApplicationService_RemoveUnit", {**app, "unit": "web/1"}, '"removedCount":2')
read("ServerService_GetServerInfo", {}, '"version"', '"storeEpoch"')
call("ApplicationService_DeleteApplication", app, '"revision"')
refuse("ApplicationService_GetApplication", app, "not_found", "APPLICATION_NOT_FOUND")

left = sorted(set(operations) - called)
assert not left, f"in the file and not called here: {left}"
print(f"called all {len(operations)} operations of {FILE}")
