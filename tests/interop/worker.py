#!/usr/bin/env python3
"""A worker in another language. It has only the address: all message types come from server reflection.

usage: worker.py HOST:PORT

Connects, receives the welcome, answers questions, reports, checks a refusal, and sends a goodbye.
Prints one JSON object for each step. Exits with 1 and a message if an answer violates the contract.
"""

import queue
import signal
import sys
import threading

sys.dont_write_bytecode = True  # of `client`
# Imported first: it finds grpc, or reports that grpc is missing.
from client import APPLICATIONS, CALL_SECONDS, NAMESPACE, WHOLE_SECONDS, Mismatch, Server, check, say

import grpc  # isort: skip
from google.protobuf import json_format, message_factory  # isort: skip

WORKERS = "bellwether.v1.WorkerService"
APPLICATION = "worker"
UNIT = "worker/0"


class Session:
    """A stream to the server. Messages pass through a queue, because grpc for Python takes an iterator."""

    def __init__(self, server):
        method = server.pool.FindServiceByName(WORKERS).FindMethodByName("Connect")
        self.pool = server.pool
        self.question = message_factory.GetMessageClass(method.input_type)
        answer = message_factory.GetMessageClass(method.output_type)
        rpc = server.channel.stream_stream(
            f"/{WORKERS}/Connect",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        self.said = queue.SimpleQueue()
        self.told = rpc(iter(self.said.get, None), timeout=WHOLE_SECONDS)

    def say(self, **message):
        self.said.put(json_format.ParseDict(message, self.question(), descriptor_pool=self.pool))

    def next(self, wanted):
        """Returns the next message of this kind. Skips questions, which arrive at any time."""
        for told in self.told:
            (kind, value), = json_format.MessageToDict(told, descriptor_pool=self.pool).items()
            if kind == wanted:
                return value
            check(kind == "collect", f"received {kind} instead of {wanted}: {value}")
        raise Mismatch(f"the stream ended before {wanted}")


def connect(server):
    session = Session(server)
    # Many clients wait for the response headers before they send a message.
    head = threading.Event()
    threading.Thread(target=lambda: (session.told.initial_metadata(), head.set()), daemon=True).start()
    check(head.wait(CALL_SECONDS), "the response headers do not arrive before hello")
    session.say(hello={"namespace": NAMESPACE, "application": APPLICATION, "unit": UNIT})
    welcome = session.next("welcome")
    check(int(welcome["incarnation"]) >= 1, f"no incarnation: {welcome}")
    check(welcome["heartbeatInterval"], f"no interval: {welcome}")
    say("welcome", session=welcome["sessionId"], incarnation=welcome["incarnation"])
    return session


def answer(session, seq, level, message):
    question = session.next("collect")
    statuses = [{"component": "database", "level": level, "message": message}]
    session.say(replace={"seq": seq, "collectId": question["collectId"], "statuses": statuses})
    check(int(session.next("ack")["seq"]) == seq, "another message is acknowledged")


def collect(server, session):
    answer(session, 1, "LEVEL_ACTIVE", "new here")
    result = queue.SimpleQueue()
    request = {"namespace": NAMESPACE, "application": APPLICATION, "deadline": "5s"}
    call = threading.Thread(
        target=lambda: result.put(server.call(APPLICATIONS, "CollectApplication", request)), daemon=True
    )
    call.start()
    answer(session, 2, "LEVEL_WAITING", "for postgresql")
    collected = result.get(timeout=CALL_SECONDS)
    check(collected["answeredCount"] == 1, f"no unit answered: {collected}")
    unit = collected["answers"][0]
    report = unit["statuses"][0]["report"]
    check(unit["answered"] and report["message"] == "for postgresql", f"another answer: {unit}")
    say("collect", answered=collected["answeredCount"], message=report["message"])


def report_and_be_refused(session):
    session.say(heartbeat={})
    session.say(report={"seq": 3, "statuses": [{"level": "LEVEL_BLOCKED", "message": "no volume"}]})
    check(int(session.next("ack")["seq"]) == 3, "another message is acknowledged")
    session.say(report={"seq": 4, "statuses": [{"message": "without a level"}]})
    refused = session.next("reject")
    check(int(refused["seq"]) == 4, f"another message is refused: {refused}")
    check("level" in refused["status"]["message"], f"the field is not named: {refused}")
    check(int(session.next("ack")["seq"]) == 4, "what was refused is not acknowledged")
    say("reject", message=refused["status"]["message"])


def leave(server, session):
    session.say(goodbye={"removed": True})
    left = [message for message in session.told if message.WhichOneof("message") != "collect"]
    check(not left, f"received after the goodbye: {left}")
    check(session.told.code() == grpc.StatusCode.OK, f"the stream ends with {session.told.code()}")
    which = {"namespace": NAMESPACE, "application": APPLICATION}
    units = server.call(APPLICATIONS, "ListUnits", which).get("units", [])
    check(not units, f"the unit is still there: {units}")
    say("goodbye")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    signal.alarm(WHOLE_SECONDS)  # ends this program even if the server hangs
    try:
        server = Server(sys.argv[1])
        session = connect(server)
        collect(server, session)
        report_and_be_refused(session)
        leave(server, session)
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
