"""A proxy in front of a real server: it behaves as an older one, or notes the calls."""

import json
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


def between(test, behind, change):
    """Starts a proxy of the server at the address `behind` for a test, and returns its address.

    `change(path, request)` gets each call, and returns the path that the server gets, or the error
    that answers in its place.
    """
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    proxy.behind, proxy.change = behind, change
    Thread(target=proxy.serve_forever, daemon=True).start()
    test.addCleanup(proxy.server_close)
    test.addCleanup(proxy.shutdown)
    return "http://127.0.0.1:{}".format(proxy.server_port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.server.change(self.path, json.loads(body.decode()))
        if isinstance(path, dict):
            return self.give(400, json.dumps(path).encode())
        call = urllib.request.Request(self.server.behind + path, body)
        call.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(call) as answer:
                self.give(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            self.give(error.code, error.read())

    def give(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
