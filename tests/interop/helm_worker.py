#!/usr/bin/env python3
"""A worker that upgrades with Helm, one release after the other, and may be killed at any moment.

usage: helm_worker.py HOST:PORT UNIT TARGET CHART WORLD LEASE [STOP_BEFORE]

Continues an open operation, or begins an upgrade to TARGET. The payload lists the releases; a heartbeat after each one
stores the progress. Each upgrade adds a line to WORLD. Before step STOP_BEFORE the worker waits for a signal. SIGTERM
releases the operation. Prints one JSON object for each step.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # of `client`
# Imported first: it finds grpc, or reports that grpc is missing.
from client import WHOLE_SECONDS, Server, say

import grpc  # isort: skip

OPERATIONS = "bellwether.v1.OperationService"
APPLICATION = "shop"
RELEASES = ["config", "database", "web", "ingress"]


class Stop(Exception):
    """SIGTERM."""


def stop(_signal, _frame):
    raise Stop


class Worker:
    def __init__(self, server, unit):
        self.server = server
        self.unit = unit
        self.operation = None

    def call(self, method, **fields):
        named = {"application": APPLICATION, "unit": self.unit, **fields}
        return self.server.call(OPERATIONS, method, named)["operation"]

    def write(self, method, **fields):
        """Makes a call with the fence of the holder."""
        fence = self.operation["fence"]
        return self.call(method, operation_id=self.operation["operationId"], fence=fence, **fields)

    def take_up(self, operation_id):
        """Acquires an operation. Waits while another worker holds it."""
        deadline = time.monotonic() + WHOLE_SECONDS
        while True:
            try:
                self.operation = self.call("AcquireOperation", operation_id=operation_id)
                return
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.ABORTED or deadline < time.monotonic():
                    raise
                time.sleep(0.05)

    def begin(self, target, lease):
        payload = json.dumps({"version": target, "releases": RELEASES}).encode()
        self.operation = self.call(
            "BeginOperation",
            operation_id=f"up-{target}",
            target_version=target,
            payload=base64.b64encode(payload).decode(),
            deterministic=True,
            lease_duration=lease,
        )

    def work(self, chart, world, stop_before):
        payload = json.loads(base64.b64decode(self.operation["payload"]))
        done = int(base64.b64decode(self.operation.get("checkpoint", "")) or 0)
        steps = len(payload["releases"])
        for step in range(done + 1, steps + 1):
            if step == stop_before:
                say("waiting", before=step)
                signal.pause()
            release = payload["releases"][step - 1]
            upgrade(chart, release, payload["version"])
            with open(world, "a", encoding="utf-8") as log:
                log.write(f"{payload['version']} {release} by {self.unit} fence {self.operation['fence']}\n")
            checkpoint = base64.b64encode(str(step).encode()).decode()
            self.write("HeartbeatOperation", checkpoint=checkpoint, progress=f"step {step}/{steps}")
        done = self.write("CompleteOperation")
        say("done", target=payload["version"], next=done.get("nextTargetVersion", ""))


def upgrade(chart, release, version):
    """Renders the release with Helm. There is no cluster, so nothing is applied."""
    empty = f"{chart}/releases.yaml"
    with open(empty, "w", encoding="utf-8") as releases:
        releases.write("[]\n")
    subprocess.run(
        ["helm4", "upgrade", "--install", release, chart, "--dry-run=client", "--set", f"version={version}"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HELM_DRIVER": "memory", "HELM_MEMORY_DRIVER_DATA": empty, "HOME": chart},
    )


def main():
    address, unit, target, chart, world, lease = sys.argv[1:7]
    stop_before = int(sys.argv[7]) if 7 < len(sys.argv) else 0
    worker = Worker(Server(address), unit)
    named = {"application": APPLICATION, "unit": unit}
    registered = worker.server.call("bellwether.v1.WorkerService", "RegisterUnit", named)
    signal.signal(signal.SIGTERM, stop)
    try:
        left = registered.get("operations", [])
        if left:
            say("found", operation=left[0]["operationId"], payload=len(left[0].get("payload", "")) > 0)
            worker.take_up(left[0]["operationId"])
        else:
            worker.begin(target, lease)
        say("holds", operation=worker.operation["operationId"], fence=worker.operation["fence"])
        worker.work(chart, world, stop_before)
    except Stop:
        worker.write("ReleaseOperation")
        say("released")


main()
