"""A registry of OCI in memory: enough of its protocol for Helm to push a chart and to install it."""

import hashlib
import http.server
import re
import threading


class Registry:
    def __enter__(self):
        self.blobs, self.manifests = {}, {}
        handler = type("OfThisRegistry", (Handler,), {"registry": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def read(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        if self.path == "/v2/":
            return self.answer(200)
        kind, name = re.fullmatch(r"/v2/.+/(blobs|manifests)/([^/]+)", self.path).groups()
        kind, body = getattr(self.registry, kind).get(name, (None, None))
        if body is None:
            return self.answer(404)
        return self.answer(200, body, Content_Type=kind, Docker_Content_Digest=digest(body))

    do_HEAD = do_GET

    def do_POST(self):
        self.answer(202, Location=f"http://{self.registry.address}{self.path}1")

    def do_PUT(self):
        body, kind = self.read(), self.headers.get("Content-Type", "application/octet-stream")
        if "/manifests/" in self.path:
            for name in (self.path.rsplit("/", 1)[1], digest(body)):
                self.registry.manifests[name] = (kind, body)
        else:
            self.registry.blobs[digest(body)] = (kind, body)
        self.answer(201, Docker_Content_Digest=digest(body))

    def log_message(self, *_):
        """Prints nothing: the test says what failed."""


def digest(body):
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
