"""A receiver of --webhook: an HTTP server on loopback that keeps what it is sent."""
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import free_port

SECRET = "a secret of thirty-two characters"
PATH = "/hooks/token-in-the-path"


def is_genuine(secret, headers, body):
    """The signature is verified as docs/WEBHOOK.md describes."""
    stamp = headers["X-Rest-Lit-Timestamp"]
    mac = hmac.new(secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return (hmac.compare_digest("sha256=" + mac, headers["X-Rest-Lit-Signature"])
            and abs(time.time() - int(stamp)) < 300)


class Receiver:
    """answers: by name of a job, statuses of the next answers; then 200.  0: no answer."""

    def __init__(self, port=None, answers=None, headers=()):
        self.port, self.answers, self.headers = port or free_port(), answers or {}, headers
        self.got, self.forged, self.paths = [], [], set()
        self.lock, self.silent = threading.Lock(), threading.Event()
        self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}{PATH}"

    def names(self):
        with self.lock:
            return [body["name"] for body in self.got]

    def take(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        value = json.loads(body)
        with self.lock:
            self.paths.add(request.path)
            if not is_genuine(SECRET.encode(), request.headers, body):
                self.forged.append(value)
            self.got.append(value)
            left = self.answers.get(value["name"]) or [200]
            return left.pop(0) if len(left) > 1 or self.answers.get(value["name"]) else 200

    def start(self):
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                status = receiver.take(self)
                if status == 0:
                    receiver.silent.wait()
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in receiver.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 128

        self.server = Quiet(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        self.silent.set()
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
