"""A call continues the trace in which it is made."""

import importlib.util
import os
import unittest
from unittest import mock

from server import DEADLINE, Listener, read_request, write_answer

from bellwether_client import Client

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
REPORT = {"application": "web", "unit": "web/0", "status": {"level": "LEVEL_ACTIVE"}}


class Traces(unittest.TestCase):
    def sent(self, **variables):
        """Returns the headers of a trace that a call sent with these variables."""
        heads = []

        def answer(connection):
            heads.append(read_request(connection)[0])
            write_answer(connection, "200 OK", {"revision": "1"})

        listener = Listener(answer)
        self.addCleanup(listener.close)
        with mock.patch.dict(os.environ, variables):
            Client(listener.address, timeout=DEADLINE).report_status(**REPORT)
        lines = [line.split(": ", 1) for line in heads[0].split("\r\n")[1:]]
        return {name.lower(): value for name, value in lines if name.lower().startswith("trace")}

    def test_the_environment_names_the_trace(self):
        self.assertEqual(self.sent(TRACEPARENT=PARENT), {"traceparent": PARENT})
        both = self.sent(TRACEPARENT=PARENT, TRACESTATE="vendor=1")
        self.assertEqual(both, {"traceparent": PARENT, "tracestate": "vendor=1"})

    def test_what_is_no_trace_is_not_sent(self):
        wrong = ["", "00-1-2-3", PARENT + "\r\nauthorization: x", PARENT.upper(), "é"]
        for parent in wrong:
            self.assertEqual(self.sent(TRACEPARENT=parent, TRACESTATE="vendor=1"), {}, parent)
        state = self.sent(TRACEPARENT=PARENT, TRACESTATE="a=1\nb: 2")
        self.assertEqual(state, {"traceparent": PARENT})

    @unittest.skipUnless(importlib.util.find_spec("opentelemetry"), "opentelemetry is not installed")
    def test_the_current_span_is_sent_before_that_of_the_environment(self):
        from opentelemetry import context, propagate, trace

        self.assertTrue(propagate.inject)
        span = trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, True, trace.TraceFlags(1)))
        token = context.attach(trace.set_span_in_context(span))
        self.addCleanup(context.detach, token)
        own = "00-{:032x}-{:016x}-01".format(0xABC, 0xDEF)
        self.assertEqual(self.sent(TRACEPARENT=PARENT), {"traceparent": own})


if __name__ == "__main__":
    unittest.main()
