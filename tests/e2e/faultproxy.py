"""A proxy of the API server that injects faults at single requests of a job.

The server under test uses it as an API server without TLS on loopback.  The proxy forwards requests
to the real one with the server's token.  It forwards the data of a WATCH until it cuts it."""
import http.client
import json
import re
import socket
import ssl
import struct
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from harness import SLOW, Closing, Threads

KINDS = {"frameworks": "Framework", "secrets": "Secret", "configmaps": "ConfigMap", "priorityclasses": "PriorityClass",
         "pods": "Pod", "workloads": "Workload", "resourceflavors": "ResourceFlavor",
         "workloadpriorityclasses": "WorkloadPriorityClass"}
PATH = re.compile(rf"/({'|'.join(KINDS)})(?:/([^/?]+)(?:/status)?)?(?:\?|$)")
# These headers concern one connection only, or the proxy creates them.
HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "host", "date", "server")
WHOLE = 1 << 30


class Fault:
    """A fault for `times` requests (method, kind, name) after the first `skip` (None: all).

    passed     True if the API server gets the request (default: False)
    status     answer with this status, with a Status or `text` as body, and with `headers`
    cut        close the connection after this number of response bytes, by FIN; with `reset`, RST
    hang       stop sending after this number of response bytes
    close      close the connection after a complete response without `Connection: close`
    gate       a pair of events: set the first, wait for the second, then forward the request; the
               second may be None, then it is not forwarded
    executed   an event: set it when the API server has answered the forwarded request
    late       an event: answer with `status`, wait for it, then forward the request; `reply` is then
               its (status, headers, body)
    twice      forward the request twice, and answer with the second reply (False: with the first)
    """

    def __init__(self, step, times=1, skip=0, **what):
        self.step, self.times, self.skip = step, times, skip
        self.what = what
        self.seen = 0

    def strikes(self, step):
        if step != self.step:
            return False
        self.seen += 1
        return self.seen > self.skip and (self.times is None or self.seen <= self.skip + self.times)

    def struck(self):
        return self.seen > self.skip


class Proxy(Closing):
    def __init__(self, cluster):
        self.lock = threading.Lock()
        self.faults = []
        self.requests = []  # (method, kind, name)
        self.address = urlsplit(cluster.url)
        self.tls = ssl.create_default_context(cafile=cluster.ca)
        self.over = threading.Event()
        self.watches = set()  # handlers of current watches
        proxy = self

        class Handler(_Handler):
            front = proxy

        self.server = Threads(Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def fault(self, method, kind, name, **more):
        fault = Fault((method, kind, name), **more)
        with self.lock:
            self.faults.append(fault)
        return fault

    def find(self, step):
        """The fault for this request, or None."""
        with self.lock:
            self.requests.append(step)
            found = [f for f in self.faults if f.strikes(step)]
            return found[0].what if found else {}

    def record(self, method, path, body):
        """Called before each request is passed on."""

    def cut_watches(self):
        """Closes all watches immediately."""
        with self.lock:
            watches, self.watches = self.watches, set()
        for watch in watches:
            try:
                watch.upstream.sock.shutdown(socket.SHUT_RDWR)
                watch.end(reset=True)
            except OSError:
                pass  # it has just ended
        return len(watches)

    def count(self, method, kind, name):
        with self.lock:
            return self.requests.count((method, kind, name))

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def refusal(what, step):
    """(status, headers, body) of a response by the proxy."""
    code, (_, kind, name) = what["status"], step
    headers = dict(what.get("headers", {}))
    if "text" in what:
        headers.setdefault("Content-Type", "text/plain; charset=utf-8")
        return code, headers, what["text"].encode()
    headers.setdefault("Content-Type", "application/json")
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "reason": what.get("reason", http.client.responses[code].replace(" ", "")),
            "message": what.get("message", "as the test has it"), "details": {"name": name, "kind": kind}}
    return code, headers, json.dumps(body).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front = None
    upstream = None

    def log_message(self, *_):
        pass

    def finish(self):
        if self.upstream:
            self.upstream.close()
        try:
            super().finish()
        except OSError:
            pass

    def ask(self, body):
        if self.upstream is None:
            self.upstream = http.client.HTTPSConnection(
                self.front.address.hostname, self.front.address.port, timeout=60 * SLOW, context=self.front.tls)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
        self.upstream.request(self.command, self.path, body or None, headers)
        return self.upstream.getresponse()

    def pass_on(self, body):
        reply = self.ask(body)
        return reply.status, {k: v for k, v in reply.getheaders() if k.lower() not in HOP[:5]}, reply.read()

    def end(self, reset=False):
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def hang(self):
        """Waits until the client disconnects."""
        self.connection.settimeout(1)
        while not self.front.over.is_set():
            try:
                if not self.connection.recv(1):
                    break
            except socket.timeout:
                continue
            except OSError:
                break
        self.close_connection = True

    def answer(self, code, headers, body, limit=WHOLE):
        head = f"HTTP/1.1 {code} {http.client.responses.get(code, '')}\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        self.wfile.write((head.encode("latin-1") + b"\r\n" + body)[:limit])
        self.wfile.flush()

    def step(self, body):
        found = PATH.search(self.path)
        if not found:
            return (self.command, None, None)
        name = json.loads(body)["metadata"]["name"] if self.command == "POST" else found[2]
        return ("WATCH" if "watch=true" in self.path else self.command, KINDS[found[1]], name)

    def watch(self):
        """Forwards data until either side closes the connection."""
        reply = self.ask(b"")
        self.send_response(reply.status)
        self.send_header("Connection", "close")
        self.end_headers()
        with self.front.lock:
            self.front.watches.add(self)
        try:
            while data := reply.read1(65536):
                self.wfile.write(data)
        finally:
            with self.front.lock:
                self.front.watches.discard(self)
            self.close_connection = True

    def act(self, what, step, body):
        if "late" in what:
            self.answer(*refusal({**what, "headers": {"Connection": "close"}}, step))
            self.end()
            what["late"].wait(60 * SLOW)
            what["reply"] = self.pass_on(body)
            what["executed"].set()
            return
        if "gate" in what:
            arrived, go = what["gate"]
            arrived.set()
            if go:
                go.wait(60 * SLOW)
        if "watch=true" in self.path and not what:
            return self.watch()
        passed = not what or what.get("passed") or what.get("gate", (0, 0))[1] or "twice" in what
        reply = self.pass_on(body) if passed else (500, {}, b"{}")
        if "twice" in what:
            reply = (reply, self.pass_on(body))[what["twice"]]
        if passed and "executed" in what:
            what["executed"].set()
        if "status" in what:
            reply = refusal(what, step)
        limit = min(what.get("cut", WHOLE), what.get("hang", WHOLE))
        if limit:
            self.answer(*reply, limit)
        if "hang" in what:
            self.hang()
        elif "cut" in what or "close" in what:
            self.end(what.get("reset"))

    def do_any(self):
        try:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            self.front.record(self.command, self.path, body)
            step = self.step(body)
            self.act(self.front.find(step), step, body)
        except (OSError, ValueError, http.client.HTTPException):
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = do_any
