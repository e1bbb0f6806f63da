"""A fake rest-lit for tests of the command line: one job with a state that the test sets, its
events and logs, and fault injection."""
import json
import re
import threading
from http.server import BaseHTTPRequestHandler

from harness import Closing, PATIENCE, SLOW, Threads

JOB = "alice~job"
LOGS = re.compile(r"^/api/v2/jobs/alice~job/attempts/0/taskRoles/(\w+)/taskIndex/(\d+)/attempts/(\d+)/logs/all"
                  r"\?follow=(true|false)(?:&from=(\d+)&start=(\d*))?(?:&since=[0-9TZ:.-]+)?$")


class FakeServer(Closing):
    def __init__(self):
        self.changed = threading.Condition()
        self.version = 0
        self.epoch = 0           # connections of earlier epochs are closed
        self.events = True       # supports event streams
        self.down = False        # closes every connection without a response
        self.answers = []        # responses to submissions: (status, headers, body), or "cut"
        self.details = []        # responses to GET of the job, likewise
        self.lists = []          # responses to GET of lists, likewise
        self.missing = False     # the job does not exist
        self.hold = None         # an Event that delays responses about the job
        self.told = 0            # the version of the last event
        self.logs = {}           # (role, index, attempt): bytes so far
        self.ended = set()       # logs that have ended
        self.dropped = {}        # (role, index, attempt): bytes before the stored ones
        self.starts = {}         # (role, index, attempt): which part of the log this is; None: unknown offsets
        self.pieces = {}         # length after which a log is cut, once
        self.happened = []       # the response to .../events
        self.config = {}         # the response to .../config
        self.files = {}          # path: bytes of a response
        self.refusals = []       # responses to .../config, before all others: (status, headers, body)
        self.requests = []       # (method, path, headers, body)
        self.detail = {}
        self.set("WAITING", {})
        server = self

        class Handler(_Handler):
            fake = server

        self.http = Threads(Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def close(self):
        self.cut()
        self.http.close()

    # ---- methods for tests
    def set(self, state, roles, **status):
        """Sets the job; roles: {"worker": ["RUNNING", "WAITING"]}, or (state, attempt)."""
        shown = {}
        for role, tasks in roles.items():
            shown[role] = {"taskRoleStatus": {"name": role}, "taskStatuses": []}
            for i, task in enumerate(tasks):
                task_state, attempt = task if isinstance(task, tuple) else (task, 0)
                shown[role]["taskStatuses"].append({
                    "taskIndex": i, "taskState": task_state, "containerExitCode": None, "retries": attempt,
                    "containerNodeName": f"node-{i}", "containerIp": f"10.0.0.{i}",
                    "containerLog": f"/api/v2/jobs/{JOB}/attempts/0/taskRoles/{role}/taskIndex/{i}/"
                                    f"attempts/{attempt}/logs"})
        with self.changed:
            self.detail = {"name": "job", "jobStatus": {
                "username": "alice", "state": state, "executionType": "START", "retries": 0,
                "submissionTime": 1795000000000, "completedTime": None, **status}, "taskRoles": shown}
            self.version += 1
            self.changed.notify_all()

    def log(self, role, index, data, attempt=0):
        with self.changed:
            key = (role, index, attempt)
            self.logs[key] = self.logs.get(key, b"") + data
            self.changed.notify_all()

    def end_log(self, role, index, attempt=0):
        with self.changed:
            self.ended.add((role, index, attempt))
            self.changed.notify_all()

    def cut(self):
        """Closes all waiting connections."""
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()

    def count(self, method, path):
        return sum(m == method and re.fullmatch(path, p) is not None for m, p, _, _ in self.requests)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake = None

    def log_message(self, *_):
        pass

    def take(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fake.requests.append((self.command, self.path, dict(self.headers), body))
        if self.fake.down:
            self.close_connection = True
            return False
        return True

    def answer(self, status, body, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def scripted(self, queue):
        """Sends the next response of the test, if there is one.  True if it was sent."""
        if not queue:
            return False
        what = queue.pop(0)
        if what == "cut":
            self.close_connection = True
        else:
            self.answer(what[0], what[2], what[1])
        return True

    def do_POST(self):
        if self.take() and not self.scripted(self.fake.answers):
            self.answer(202, {"status": 202, "message": "taken"}, {"Location": f"/api/v2/jobs/{JOB}"})

    def do_PUT(self):
        if self.take():
            self.answer(202, {"status": 202, "message": "stopped"})

    def do_DELETE(self):
        if self.take():
            self.answer(202, {"message": "deleted"})

    def do_GET(self):
        if not self.take():
            return
        if self.path in self.fake.files and not (self.fake.refusals and self.path.endswith("/config")):
            self.answer(200, self.fake.files[self.path])
        elif self.path == f"/api/v2/jobs/{JOB}":
            self.job()
        elif self.path == f"/api/v2/jobs/{JOB}/watch":
            self.watch()
        elif self.path == f"/api/v2/jobs/{JOB}/events":
            self.answer(200, {"totalCount": len(self.fake.happened), "data": self.fake.happened})
        elif self.path == f"/api/v2/jobs/{JOB}/config":
            self.answer(200, self.fake.config)
        elif self.path == "/api/v2/tokens/check":
            self.answer(200, {"username": "alice"})
        elif "nextName=job" in self.path:
            self.answer(200, {"nextName": "job-2", "totalCount": 1, "data": []})
        elif self.path.startswith("/api/v2/jobs?"):
            if not self.scripted(self.fake.lists):
                self.answer(200, [{"name": "job", "username": "alice"}, {"name": "other", "username": "bob"}])
        elif LOGS.match(self.path):
            role, index, attempt, follow, offset, start = LOGS.match(self.path).groups()
            key = role, int(index), int(attempt)
            if key not in self.fake.logs:
                self.answer(404, {"code": "NoTaskLogError", "message": "there is no log"})
                return
            known = self.fake.starts.get(key, "")
            at = int(offset or 0) if known == (start or "") else 0
            first = self.fake.dropped.get(key, 0)
            self.place = {"X-Log-Offset": str(max(at, first))} if known is not None else {}
            if known:
                self.place["X-Log-Start"] = known
            if first:
                self.place["X-Log-Dropped"] = str(first)
            self.follow(key, max(0, at - first), follow == "true")
        elif self.fake.refusals and self.path.endswith("/config"):
            status, headers, body = self.fake.refusals.pop()
            self.answer(status, body, headers)
        elif re.fullmatch(r"/api/v2/jobs/\w+~[^/]+(/events|/config)?", self.path):
            self.answer(404, {"code": "NoJobError", "message": "there is no such job"})
        else:
            self.answer(404, {"code": "NoApiError", "message": f"no {self.path}"})

    def job(self):
        if self.scripted(self.fake.details):
            return
        detail, hold = self.fake.detail, self.fake.hold
        if hold:
            hold.wait(PATIENCE * SLOW)
        if self.fake.missing:
            self.answer(404, {"code": "NoJobError", "message": "there is no such job"})
        else:
            self.answer(200, detail)

    def begin(self, kind, headers=()):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        for header, value in dict(headers).items():
            self.send_header(header, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def put(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def watch(self):
        fake = self.fake
        if not fake.events:
            self.answer(400, {"code": "NotImplementedError", "message": "no events"})
            return
        self.begin("text/event-stream")
        seen, epoch = 0, fake.epoch
        while True:
            with fake.changed:
                fake.changed.wait_for(lambda: fake.version > seen or fake.epoch != epoch, PATIENCE * SLOW)
                if fake.epoch != epoch:
                    self.close_connection = True
                    return
                seen = fake.version
            self.put(b": alive\n\nid: %d\nevent: job\ndata: {}\n\n" % seen)
            fake.told = seen

    def follow(self, key, sent, follows):
        fake = self.fake
        self.begin("text/plain", self.place)
        epoch = fake.epoch
        stop = fake.pieces.pop(key, None)
        while True:
            with fake.changed:
                fake.changed.wait_for(lambda: len(fake.logs[key]) > sent or key in fake.ended or
                                      fake.epoch != epoch or not follows, PATIENCE * SLOW)
                data, over, cut = fake.logs[key][sent:stop], key in fake.ended or not follows, fake.epoch != epoch
            if data and not cut:
                self.put(data)
                sent += len(data)
            if cut or (stop is not None and sent >= stop):
                self.close_connection = True
                return
            if over and sent >= len(fake.logs[key]):
                self.wfile.write(b"0\r\n\r\n")
                return
