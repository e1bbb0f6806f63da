"""A fake Kubernetes API server in a thread of the test, with fault injection.  It stores objects
and supports 409, ownerReferences (deleting a Framework deletes its dependents, like the garbage
collector), merge and JSON patches, dryRun, LIST in pages and WATCH (optionally with a streaming
list).

For faults and counts, LIST and WATCH are separate methods."""
import contextlib
import copy
import itertools
import json
import os
import re
import select
import shutil
import socket
import struct
import tempfile
import threading
import time
import uuid
from collections import deque
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from harness import OPEN, PATIENCE, SLOW, Closing, Server, Threads

PATHS = re.compile(
    r"^/(?:apis/frameworkcontroller\.microsoft\.com/v1/namespaces/[^/]+/(?P<f>frameworks)"
    r"|api/v1/namespaces/(?P<n>[^/]+)/(?P<c>secrets|configmaps|podtemplates|serviceaccounts|"
    r"persistentvolumeclaims|events|pods)"
    r"|api/v1/(?P<v>persistentvolumes|nodes)"
    r"|apis/scheduling\.k8s\.io/v1/(?P<p>priorityclasses)"
    r"|apis/coordination\.k8s\.io/v1/namespaces/[^/]+/(?P<l>leases)"
    r"|apis/authentication\.k8s\.io/v1/(?P<t>tokenreviews))(?:/(?P<name>[^/]+))?$")


LOG = re.compile(r"^/api/v1/namespaces/[^/]+/pods/(?P<pod>[^/]+)/log$")


class Fault:
    """A fault for matching requests, `times` of them.

    delay        wait for these seconds first
    until        wait for this Event first
    status       answer with this status, without executing the request
    status_done  execute the request, then answer with this status
    cut          close the connection: "before": after the head of the request; "body": after its
                 body, without executing it; "done": after executing it; "half": after executing it
                 and sending half of the response
    hang         never answer: "before" without executing the request, "done" after executing it
    raw          send these bytes as the response; for WATCH, after the head, instead of events
    """

    def __init__(self, method, kind, name="", times=None, **what):
        self.method, self.kind, self.name, self.times = method, kind, name, times
        self.what = what
        self.seen = 0

    def matches(self, method, kind, name):
        return (method == self.method and kind == self.kind and
                (name or "").startswith(self.name) and
                (self.times is None or self.seen < self.times))


class FakeApi:
    def __init__(self, token="the-token"):
        self.token = token
        self.lock = threading.RLock()
        self.objects = {}
        self.faults = []
        self.reviews = {}
        self.apart = set()     # namespaces whose objects are stored as "namespace/name"
        self.requests = []     # (method, path, query, headers, body)
        self.all_faults = {}   # faults of every request: hang, status, delay
        self.version = 100
        self.open = threading.Event()
        self.open.set()
        # Events for watches: (version, kind or None, line), from version `oldest` on.
        self.changes = deque()
        self.changed = threading.Condition(self.lock)
        self.oldest = 0
        self.watching = {}     # last version that each watch has sent
        self.epoch = 0         # watches of earlier epochs end
        self.streams = False   # supports sendInitialEvents
        self.logs = None       # answers GET pods/NAME/log: logs(handler, pod, query)
        self.lists = {}        # token: (version, remaining items)
        self.answers = {}      # path: (status, object), or a function of the body that returns it
        self.clock = 0         # seconds that the Date of answers is ahead
        api = self

        class Handler(_Handler):
            server_api = api

        self.server = Threads(Handler)
        self.close = self.server.close
        OPEN.append(self)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    # Methods for tests.
    def fault(self, *arguments, **what):
        with self.lock:
            self.faults.append(Fault(*arguments, **what))

    def every(self, **what):
        """Applies a fault to all requests, readiness included; without arguments, removes it."""
        self.all_faults = what

    def clear(self):
        with self.lock:
            self.faults.clear()
            for key in list(self.objects):
                self.forget(key)
            self.requests.clear()
            self.all_faults = {}

    def of(self, framework):
        """The objects of one job: {(kind, name): object}."""
        with self.lock:
            return {k: v for k, v in self.objects.items() if k[1].startswith(framework)}

    def put(self, kind, body):
        with self.lock:
            return self.store(kind, body)

    def update(self, kind, name, body):
        """Replaces an object."""
        with self.lock:
            self.version += 1
            there = self.objects[kind, name]
            body["metadata"] = {**there["metadata"], **body.get("metadata", {}),
                                "resourceVersion": str(self.version)}
            self.objects[kind, name] = body
            self.tell("MODIFIED", kind, body)
            return body

    def bookmark(self):
        with self.lock:
            self.version += 1
            self.tell("BOOKMARK", None, {"metadata": {"resourceVersion": str(self.version)}})
        self.settle()

    def settle(self):
        """Waits until all watches have sent all events."""
        with self.lock:
            return self.changed.wait_for(lambda: all(v >= self.version for v in self.watching.values()), PATIENCE * SLOW)

    def compact(self):
        """Discard the history: watches from earlier versions and unfinished lists get 410."""
        with self.lock:
            self.oldest = self.version
            self.lists.clear()

    def cut_watches(self):
        with self.lock:
            self.epoch += 1
            self.changed.notify_all()

    def count(self, method, kind):
        with self.lock:
            return sum(1 for r in self.requests if r[0] == method and f"/{kind}" in r[1])

    # Implementation.
    def key(self, namespace, name):
        return f"{namespace}/{name}" if namespace in self.apart else name

    def store(self, kind, body):
        self.version += 1
        body.setdefault("metadata", {}).update(
            uid=str(uuid.uuid4()), resourceVersion=str(self.version),
            creationTimestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        namespace = body["metadata"].get("namespace")
        self.objects[kind, self.key(namespace, body["metadata"]["name"])] = body
        self.tell("ADDED", kind, body)
        return body

    def tell(self, what, kind, body):
        with self.lock:
            self.changes.append((self.version, kind, watch_line(what, kind, body)))
            if len(self.changes) > CHANGES_MAX:
                self.oldest = self.changes.popleft()[0]
            self.changed.notify_all()

    def forget(self, key):
        with self.lock:
            self.version += 1
            there = self.objects.pop(key)
            there["metadata"]["resourceVersion"] = str(self.version)
            self.tell("DELETED", key[0], there)
            return there["metadata"]["uid"]

    def remove(self, kind, name):
        uid = self.forget((kind, name))
        for key, value in list(self.objects.items()):
            owners = value["metadata"].get("ownerReferences", [])
            if any(owner.get("uid") == uid for owner in owners):
                self.forget(key)

    def all_of(self, kind):
        return [v for k, v in sorted(self.objects.items()) if k[0] == kind]

    def list(self, kind, query):
        """(status, list) of one page."""
        token = query.get("continue", [None])[0]
        if token is None:
            version, items = str(self.version), self.all_of(kind)
        elif token in self.lists:
            version, items = self.lists[token]
        else:
            return status(410, "Expired", kind)
        limit = int(query.get("limit", ["0"])[0]) or len(items)
        meta = {"resourceVersion": version}
        if len(items) > limit:
            # The tokens resemble those of Kubernetes 1.20, which sometimes end with `=`.
            meta["continue"] = uuid.uuid4().hex + "/+=="
            self.lists[meta["continue"]] = version, json.loads(json.dumps(items[limit:]))
        return 200, {"kind": "List", "metadata": meta, "items": json.loads(json.dumps(items[:limit]))}

    def execute(self, method, kind, name, query, body):
        """Executes a request: (status, object)."""
        with self.lock:
            # Options in the body of a DELETE override the query.
            dry = (body if method == "DELETE" and body else query).get("dryRun") == ["All"]
            if method in ("GET", "LIST") and not name:
                return self.list(kind, query)
            if kind == "tokenreviews":
                # `reviews` has the status for each known token.
                said = self.reviews.get(body["spec"]["token"], {"error": "invalid bearer token"})
                return 201, {**body, "metadata": {}, "status": said}
            if method == "POST":
                name = self.key(body["metadata"].get("namespace"), body["metadata"]["name"])
                if (kind, name) in self.objects:
                    return status(409, "AlreadyExists", kind, name)
                if dry:
                    return 201, {**body, "metadata": {**body["metadata"], "uid": "dry"}}
                return 201, self.store(kind, body)
            if (kind, name) not in self.objects:
                return status(404, "NotFound", kind, name)
            there = self.objects[kind, name]
            if method == "GET":
                return 200, there
            if method == "DELETE":
                wanted = (body or {}).get("preconditions") or {}
                for field in ("uid", "resourceVersion"):
                    if wanted.get(field, there["metadata"][field]) != there["metadata"][field]:
                        return status(409, "Conflict", kind, name)
                if not dry:
                    self.remove(kind, name)
                return 200, {"kind": "Status", "status": "Success"}
            if method == "PATCH":
                after = copy.deepcopy(there)
                try:
                    (json_patch if isinstance(body, list) else merge)(after, body)
                except (LookupError, ValueError, TypeError):
                    return status(422, "Invalid", kind, name)
                for field, code, reason in (("uid", 422, "Invalid"), ("resourceVersion", 409, "Conflict")):
                    if after["metadata"][field] != there["metadata"][field]:
                        return status(code, reason, kind, name)
                there.clear()
                there.update(after)
                self.version += 1
                there["metadata"]["resourceVersion"] = str(self.version)
                self.tell("MODIFIED", kind, there)
                return 200, there
            return status(405, "MethodNotAllowed", kind, name)


KINDS = {"frameworks": ("Framework", "frameworkcontroller.microsoft.com/v1"), "events": ("Event", "v1")}
CHANGES_MAX = 20000
# Intervals at which a hanging request looks whether it goes on, and a watch whether its client is there.
LOOK, WATCH_LOOK = 0.2, 1


def watch_line(what, kind, body):
    name, version = KINDS.get(kind, ("Object", "v1"))
    return json.dumps({"type": what, "object": {"apiVersion": version, "kind": name, **body}}).encode() + b"\n"


def merge(into, patch):
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def json_patch(into, operations):
    """RFC 6902: test, replace, remove, and add to an object."""
    for operation in operations:
        *path, last = [key.replace("~1", "/").replace("~0", "~")
                       for key in operation["path"].split("/")[1:]]
        at = into
        for key in path:
            at = at[int(key) if isinstance(at, list) else key]
        last = int(last) if isinstance(at, list) else last
        if operation["op"] == "add" and isinstance(at, dict):
            at[last] = operation["value"]
            continue
        before = at[last]
        if operation["op"] == "test" and before != operation["value"]:
            raise ValueError("a test fails")
        if operation["op"] == "remove":
            del at[last]
        if operation["op"] == "replace":
            at[last] = operation["value"]


def status(code, reason, kind="", name="", message=None):
    """A Status object with the wording of the API server."""
    name = name.rpartition("/")[2]
    return code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                  "message": message or f'{kind} "{name}" {reason}', "reason": reason,
                  "details": {"name": name, "kind": kind}, "code": code}


REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
           409: "AlreadyExists", 410: "Expired", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
           503: "ServiceUnavailable", 504: "Timeout"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are separate writes
    server_api = None
    epoch = 0

    def log_message(self, *_):
        pass

    def cut(self, reset=False):
        """Closes the connection, with or without an RST."""
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                       struct.pack("ii", 1, 0))
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def answer(self, code, body, retry_after=None):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(data)

    def handle_one(self):
        api = self.server_api
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        length = int(self.headers.get("Content-Length") or 0)
        found = PATHS.match(url.path)
        kind = found and (found["f"] or found["c"] or found["p"] or found["t"] or
                          found["v"] or found["l"])
        name = key = found and found["name"] and api.key(found["n"], found["name"])

        self.method = self.command
        if self.method == "GET" and kind and not name:
            paged = "limit" in query and "labelSelector" not in query
            self.method = "WATCH" if query.get("watch") == ["true"] else "LIST" if paged else "GET"
        early = self.find_fault(kind, name) if self.command != "POST" else None
        if self.command == "POST" and self.any_cut_before(kind):
            return self.cut(reset=True)
        body = self.rfile.read(length) if length else b""
        if len(body) < length:
            return self.cut()
        value = json.loads(body) if body else None
        with api.lock:
            api.requests.append((self.method, url.path, query, dict(self.headers), body))
        if self.headers.get("Authorization") != f"Bearer {api.token}":
            return self.answer(*status(401, "Unauthorized", message="Unauthorized"))
        log = LOG.match(url.path)
        if log and api.logs:
            return api.logs(self, log["pod"], query)
        if not kind or url.path in api.answers:
            return self.other(url.path, value)
        if self.command == "POST":
            name = value.get("metadata", {}).get("name")
            early = self.find_fault(kind, name)
        what = {**api.all_faults, **(early.what if early else {})}
        return self.act(what, kind, key, query, value)

    def date_time_string(self, timestamp=None):
        return super().date_time_string((timestamp or time.time()) + self.server_api.clock)

    def other(self, path, body):
        """Readiness and discovery."""
        what = self.server_api.all_faults
        answer = self.server_api.answers.get(path)
        if self.wait(what) or what.get("cut"):
            return self.cut()
        if what.get("status"):
            return self.refuse(what, "", "")
        if answer:
            return self.answer(*(answer(body) if callable(answer) else answer))
        if path in ("/readyz", "/healthz", "/livez", "/version", "/api", "/apis"):
            return self.answer(200, {"major": "1", "minor": "20", "gitVersion": "v1.20.2"})
        return self.answer(*status(404, "NotFound"))

    def any_cut_before(self, kind):
        """Finds a fault before the body is read.  The name of a POST is in its body, so these faults
        match by kind and count only."""
        with self.server_api.lock:
            for fault in self.server_api.faults:
                if fault.what.get("cut") == "before" and fault.matches("POST", kind, fault.name):
                    fault.seen += 1
                    return True
        return self.server_api.all_faults.get("cut") == "before"

    def find_fault(self, kind, name):
        with self.server_api.lock:
            # The lock is held, so that faults added later end this watch.
            self.epoch = self.server_api.epoch
            for fault in self.server_api.faults:
                if fault.matches(self.method, kind, name):
                    fault.seen += 1
                    return fault
        return None

    def wait(self, what):
        """Waits as long as the fault requires. Returns True if the request gets no response."""
        if what.get("hang") == "before":
            # The handler waits until the client disconnects; clients that follow logs wait longer.
            while self.method in ("LIST", "WATCH") and self.server_api.all_faults.get("hang"):
                if select.select([self.connection], [], [], LOOK)[0]:
                    break
            self.connection.settimeout(120 if self.method not in ("LIST", "WATCH") else 0)
            try:
                self.connection.recv(1)
            except OSError:
                pass
            return True
        time.sleep(what.get("delay", 0))
        if what.get("until"):
            what["until"].wait()
        return False

    def refuse(self, what, kind, name):
        code = what["status"]
        body = status(code, what.get("reason", REASONS.get(code, "Unknown")), kind, name or "",
                      what.get("message"))[1]
        return self.answer(code, body, what.get("retry_after"))

    def act(self, what, kind, name, query, value):
        api = self.server_api
        if self.wait(what):
            return self.cut()
        if "status" in what:
            return self.refuse(what, kind, name)
        if what.get("cut") == "body":
            return self.cut(reset=True)
        if self.method == "WATCH":
            return self.watch(what, kind, query)
        code, body = api.execute(self.method, kind, name, query, value)
        if what.get("hang") == "done":
            self.wait({"hang": "before"})
            return self.cut()
        if what.get("cut") == "done":
            return self.cut()
        if what.get("cut") == "half":
            data = json.dumps(body).encode()
            self.wfile.write(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
                             b"Content-Length: %d\r\n\r\n" % (code, len(data)) +
                             data[:len(data) // 2])
            return self.cut()
        if "raw" in what:
            self.wfile.write(what["raw"])
            return self.cut()
        if "status_done" in what:
            return self.refuse({"status": what["status_done"]}, kind, name)
        return self.answer(code, body if code >= 300 else self.as_asked(body))

    # ---- WATCH ----
    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def watch(self, what, kind, query):
        api = self.server_api
        stream = query.get("sendInitialEvents") == ["true"]
        if stream and not api.streams:
            return self.answer(*status(422, "Invalid", kind))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if "raw" in what:
            self.piece(what["raw"])
            return self.cut()
        return self.watch_from(kind, query, stream, what)

    def beginning(self, kind, query, stream):
        """The initial events of a watch, and their version."""
        api = self.server_api
        version = int(query.get("resourceVersion", ["0"])[0])
        if version and version < api.oldest:
            return watch_line("ERROR", None, status(410, "Expired", kind)[1]), None
        if version:
            return b"", version
        lines = [watch_line("ADDED", kind, v) for v in api.all_of(kind)]
        if stream:
            lines.append(watch_line("BOOKMARK", kind, {"metadata": {
                "resourceVersion": str(api.version),
                "annotations": {"k8s.io/initial-events-end": "true"}}}))
        return b"".join(lines), api.version

    def watch_from(self, kind, query, stream, what):
        api = self.server_api
        end = time.monotonic() + int(query.get("timeoutSeconds", ["300"])[0])
        with api.lock:
            data, version = self.beginning(kind, query, stream)
        if data:
            self.piece(data[:what.get("half", len(data))])
        if version is None or "half" in what:
            return self.cut()
        try:
            while time.monotonic() < end:
                version = self.watch_on(kind, version)
                if api.epoch != self.epoch or select.select([self.connection], [], [], 0)[0]:
                    return self.cut()
            return self.wfile.write(b"0\r\n\r\n")
        finally:
            with api.lock:
                api.watching.pop(self, None)
                api.changed.notify_all()

    def watch_on(self, kind, version):
        """Sends new events; returns the last version."""
        api = self.server_api
        with api.lock:
            news = list(itertools.takewhile(lambda c: c[0] > version, reversed(api.changes)))[::-1]
            told = version if news else api.version
            if api.watching.get(self) != told:
                api.watching[self] = told
                api.changed.notify_all()
            if not news:
                api.changed.wait(WATCH_LOOK)
        for number, of, line in news:
            version = number
            if of in (kind, None):
                self.piece(line)
        return version

    def as_asked(self, body):
        """Returns only the metadata, if the client requested that."""
        def part(value):
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": value["metadata"]}
        accept = self.headers.get("Accept", "")
        if "as=PartialObjectMetadataList;" in accept and "items" in body:
            return {**body, "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "items": [part(value) for value in body["items"]]}
        if "as=PartialObjectMetadata;" in accept and "metadata" in body:
            return part(body)
        return body

    def do_any(self):
        try:
            self.handle_one()
        except (OSError, ValueError):
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = do_any


def fake_server(api, *arguments, directory=None, kind=Server, **more):
    """rest-lit with this fake API server as its store."""
    directory = directory or tempfile.mkdtemp(prefix="rest-lit-test.")
    token = os.path.join(directory, "token")
    with open(token, "w") as f:
        f.write(api.token + "\n")
    os.chmod(token, 0o600)
    return kind("--apiserver", api.url, "--apiserver-token-file", token, *arguments,
                directory=directory, **more)


@contextlib.contextmanager
def served(*arguments, **more):
    """(a fake API server, rest-lit with it as its store); the end of the test closes the first."""
    api = FakeApi()
    with fake_server(api, *arguments, **more) as server:
        yield api, server


class Scene(Closing):
    """Servers, their fake API server if they have one, and a directory for files. The end stops and
    removes all of them."""

    def __init__(self, api=True):
        self.api, self.servers = FakeApi() if api else None, []
        self.directory = tempfile.mkdtemp(prefix="rest-lit-test.")

    def serve(self, *arguments, **more):
        self.servers.append(fake_server(self.api, *arguments, **more))
        return self.servers[-1]

    def close(self):
        for server in self.servers:
            server.remove()
        if self.api:
            self.api.close()
        shutil.rmtree(self.directory, ignore_errors=True)
