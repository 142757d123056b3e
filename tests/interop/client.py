#!/usr/bin/env python3
"""A client in another language. It has only the address: all message types come from server reflection.

usage: client.py HOST:PORT

Reports, gets, explains, watches, compares the bookmark's digest with its own copy, and reads an error.
Prints one JSON object for each step. Exits with 1 and a message if an answer violates the contract.
"""

import json
import os
import signal
import sys
from pathlib import Path

try:
    import grpc
    from google.protobuf import descriptor_pool, json_format, message_factory
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
        ProtoReflectionDescriptorDatabase,
    )
except ImportError:
    python = Path(__file__).resolve().parents[2] / ".tools" / "venv" / "bin" / "python"
    if python.exists() and "BELLWETHER_VENV" not in os.environ:
        # The full path, because Python finds its packages by the path of its executable.
        os.environ["BELLWETHER_VENV"] = str(python.parent.parent)
        os.execv(python, [str(python), *sys.argv])
    print("!!! SKIPPED: Python's grpcio is missing; run tools/install", file=sys.stderr)
    sys.exit(1 if os.environ.get("CI") else 77)

NAMESPACE = "python"
CALL_SECONDS = 10
WATCH_SECONDS = 30
WHOLE_SECONDS = 60


class Mismatch(Exception):
    """An answer that violates the contract."""


def check(holds, sentence):
    if not holds:
        raise Mismatch(sentence)


def say(step, **facts):
    print(json.dumps({"step": step, **facts}), flush=True)


class Server:
    """Calls methods by name, with requests and answers as JSON-like values."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=CALL_SECONDS)
        self.reflection = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.reflection)

    def services(self):
        return sorted(self.reflection.get_services())

    def message(self, full_name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(full_name))

    def call(self, service, method, request):
        rpc, message = self._prepare(service, method, request)
        return self._plain(rpc(message, timeout=CALL_SECONDS))

    def stream(self, service, method, request):
        rpc, message = self._prepare(service, method, request)
        for answer in rpc(message, timeout=WATCH_SECONDS):
            yield self._plain(answer)

    def _prepare(self, service, method, request):
        described = self.pool.FindServiceByName(service).FindMethodByName(method)
        opener = self.channel.unary_stream if described.server_streaming else self.channel.unary_unary
        answer = message_factory.GetMessageClass(described.output_type)
        rpc = opener(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        question = message_factory.GetMessageClass(described.input_type)()
        return rpc, json_format.ParseDict(request, question, descriptor_pool=self.pool)

    def _plain(self, message):
        return json_format.MessageToDict(message, descriptor_pool=self.pool)

    def details(self, error):
        """Returns the typed details of an error, by message name."""
        packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        check(packed is not None, f"{error.code().name} came without details")
        found = {}
        for detail in self.message("google.rpc.Status").FromString(packed).details:
            name = detail.type_url.rsplit("/", 1)[-1]
            found[name] = self._plain(self.message(name).FromString(detail.value))
        return found


def digest(copy):
    """Returns the digest of a copy, as `Bookmark.digest` defines it."""
    total = 0
    for (namespace, name), (revision, level) in copy.items():
        value = 0xCBF29CE484222325
        for byte in f"{namespace}/{name}@{revision}={level}".encode():
            value = (value ^ byte) * 0x100000001B3 % 2**64
        total = (total + value) % 2**64
    return f"{total:016x}"


REPORTS = "bellwether.v1.ReportService"
APPLICATIONS = "bellwether.v1.ApplicationService"


def report(server, unit, level, **fields):
    application = unit.split("/")[0]
    answer = server.call(
        REPORTS,
        "ReportStatus",
        {
            "namespace": NAMESPACE,
            "application": application,
            "unit": unit,
            "status": {"level": level, **fields},
        },
    )
    return int(answer["revision"])


def list_services(server):
    services = server.services()
    for wanted in (REPORTS, APPLICATIONS, "grpc.health.v1.Health"):
        check(wanted in services, f"reflection does not list {wanted}: {services}")
    say("list", services=services)


def report_and_read(server):
    action = "juju integrate web postgresql"
    report(server, "web/1", "LEVEL_ACTIVE")
    revision = report(
        server,
        "web/0",
        "LEVEL_BLOCKED",
        component="database",
        message="add a database relation",
        action=action,
        ttl="90s",
    )
    say("report", unit="web/0", level="blocked", revision=revision)

    which = {"namespace": NAMESPACE, "application": "web", "minRevision": str(revision)}
    application = server.call(APPLICATIONS, "GetApplication", which)["application"]
    status = application["status"]
    check(int(application["revision"]) >= revision, f"older than what was reported: {application}")
    check(status["level"] == "LEVEL_BLOCKED", f"web is not blocked: {status}")
    check(status["action"] == action, f"the action is lost: {status}")
    check(application["unitCount"] == 2, f"not two units: {application}")
    say("get", level=status["level"], message=status["message"], revision=application["revision"])

    why = server.call(APPLICATIONS, "ExplainApplication", which)
    winner = why["winner"]["ref"]
    beaten = [one["ref"]["unit"] for one in why.get("beaten", [])]
    check(winner["unit"] == "web/0" and winner["component"] == "database", f"wrong winner: {winner}")
    check(why["rule"], "the rule is missing")
    check(beaten == ["web/1"], f"beaten are {beaten}, not web/1")
    say("explain", winner=winner["unit"], rule=why["rule"], beaten=beaten)


def watch(server):
    """Keeps a copy, makes a change after the snapshot, and waits for a bookmark after that change."""
    copy = {}
    waited_for = None
    request = {"namespace": NAMESPACE}
    for event in server.stream(APPLICATIONS, "WatchApplications", request):
        if "upserted" in event:
            one = event["upserted"]
            level = one["status"]["level"].removeprefix("LEVEL_").lower()
            copy[one["namespace"], one["name"]] = (int(one["revision"]), level)
        elif "removed" in event:
            copy.pop((event["removed"]["namespace"], event["removed"]["name"]), None)
        elif "snapshotComplete" in event:
            count = event["snapshotComplete"].get("applicationCount", 0)
            check(count == len(copy), f"the snapshot has {count} applications, its copy {len(copy)}")
            check(event["resumeToken"], "snapshot_complete has no resume token")
            say("snapshot", applications=count)
            waited_for = report(server, "db/0", "LEVEL_WAITING", message="for web")
        elif "bookmark" in event:
            told, own = event["bookmark"]["digest"], digest(copy)
            check(told == own, f"the bookmark's digest is {told}, that of the copy {own}: {copy}")
            check(event["resumeToken"], "the bookmark has no resume token")
            if waited_for and copy.get((NAMESPACE, "db"), (0, ""))[0] >= waited_for:
                say("bookmark", digest=told, applications=len(copy))
                return
    raise Mismatch("the watch ended without a bookmark after a change")


def bad_request(server):
    try:
        report(server, "web/not a name", "LEVEL_ACTIVE")
    except grpc.RpcError as error:
        info = server.details(error).get("google.rpc.ErrorInfo")
        check(error.code() == grpc.StatusCode.INVALID_ARGUMENT, f"the code is {error.code()}")
        check(info is not None, "the error came without google.rpc.ErrorInfo")
        check(info["reason"] == "INVALID_NAME", f"the reason is {info['reason']}")
        check(info["domain"] == "bellwether", f"the domain is {info['domain']}")
        say("error", code=error.code().name, reason=info["reason"], message=error.details())
    else:
        raise Mismatch("a unit named `web/not a name` was accepted")


def large_error(server):
    """Sends a set with 25 mistakes through gRPC's C core, which drops some errors above 8 KiB and all above 16 KiB."""
    mistake = {"level": "LEVEL_ACTIVE", "component": "c" * 100}
    request = {"namespace": NAMESPACE, "application": "web", "unit": "web/0", "statuses": [mistake] * 25}
    for _ in range(20):
        try:
            server.call(REPORTS, "ReplaceStatuses", request)
        except grpc.RpcError as error:
            check(error.code() == grpc.StatusCode.INVALID_ARGUMENT, f"{error.code()}: {error.details()}")
            size = sum(len(key) + len(value) + 32 for key, value in error.trailing_metadata())
            size += 3 * len(error.details().encode())
            check(size <= 6144, f"the error has {size} bytes")
            check(error.details().endswith(" more"), f"the rest is not counted: {error.details()}")
            check("google.rpc.BadRequest" in server.details(error), "the fields are not named")
        else:
            raise Mismatch("a set with the same component 25 times was accepted")
    say("large_error", bytes=size)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    signal.alarm(WHOLE_SECONDS)  # ends this program even if the server hangs
    try:
        server = Server(sys.argv[1])
        for step in (list_services, report_and_read, watch, bad_request, large_error):
            step(server)
    except Mismatch as mismatch:
        sys.exit(str(mismatch))
    except grpc.FutureTimeoutError:
        sys.exit(f"no server answers at {sys.argv[1]}")
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
    except KeyError as missing:
        sys.exit(f"reflection or an answer lacks {missing}")


if __name__ == "__main__":
    main()
