"""A machine as its users see it: requests, streams and logs over HTTP.

Tasks meet the test over the loopback: they share the network with it, and no directory."""
import collections
import itertools
import json
import os
import socketserver
import subprocess
import threading
import urllib.request

from harness import BINARY, PATIENCE, SLOW, framework_name, wait_until
from machine import DONE, Machine

JSON = {"Content-Type": "application/json"}
Result = collections.namedtuple("Result", "returncode stdout stderr")


class Meeting(socketserver.ThreadingTCPServer):
    """A directory where tasks wait for the test (`gate`) and count their starts (`visits`)."""
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self):
        meeting = self
        self.opened, self.visits = set(), collections.Counter()
        self.changed = threading.Condition()

        class Visit(socketserver.StreamRequestHandler):
            def handle(self):
                kind, _, name = self.rfile.readline().decode().strip().partition(":")
                with meeting.changed:
                    if kind == "visit":
                        meeting.visits[name] += 1
                    elif not meeting.changed.wait_for(lambda: name in meeting.opened, 10 * PATIENCE * SLOW):
                        return
                self.wfile.write(f"{meeting.visits[name]}\n".encode())
        super().__init__(("127.0.0.1", 0), Visit)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def open(self, name):
        with self.changed:
            self.opened.add(name)
            self.changed.notify_all()

    def visit(self, what):
        """A command that leaves in $VISIT how often tasks have come: "visit:NAME"; or waits: "gate:NAME"."""
        return f"exec 3<>/dev/tcp/127.0.0.1/{self.server_address[1]}; echo {what} >&3; read -r VISIT <&3; exec 3>&-"


class Stream:
    """Server-sent events, read by a thread that curl feeds.  They begin before the constructor returns: changes
    from then on are in them."""

    def __init__(self, url, headers):
        flags = [f"-H{name}: {value}" for name, value in (headers or {}).items()]
        self.curl = subprocess.Popen(["curl", "-siN", "--noproxy", "*", *flags, url], stdout=subprocess.PIPE, text=True)
        self.events, self.last_id, self.ready = [], None, threading.Condition()
        self.taken, self.row = 0, None
        head = list(itertools.takewhile(lambda line: line != "\n", self.curl.stdout))
        assert head and head[0].startswith("HTTP/1.1 200"), (url, head)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        event = {}
        for line in self.curl.stdout:
            name, _, value = line.rstrip("\n").partition(": ")
            if line == "\n" and event:
                with self.ready:
                    self.events.append(event)
                    self.last_id = event.get("id", self.last_id)
                    self.ready.notify_all()
                event = {}
            elif name:
                event[name] = value

    def next(self, kind):
        """The data of the next event of this kind; {} if none comes."""
        with self.ready:
            def found():
                while self.taken < len(self.events):
                    self.taken += 1
                    if self.events[self.taken - 1].get("event") == kind:
                        return True
                return False
            if not self.ready.wait_for(found, PATIENCE * SLOW):
                return {}
            return json.loads(self.events[self.taken - 1]["data"])

    def until(self, fits):
        """Returns True if a job arrives that `fits`, or was the last to arrive: states are not sent
        one by one."""
        while not (self.row and fits(self.row)):
            self.row = self.next("job")
            if not self.row:
                return False
        return True

    def close(self):
        self.curl.kill()
        self.curl.wait()


class Site(Machine):
    """A machine of alice, with many CPUs."""

    def __init__(self, *arguments, **more):
        self.meeting, self.streams = Meeting(), []
        super().__init__("--cpus", "64", *arguments, **more)

    def remove(self):
        for stream in self.streams:
            stream.close()
        super().remove()
        self.meeting.shutdown()
        self.meeting.server_close()

    # ---- what a task does ----
    def gate(self, name):
        """A command that ends when the test opens this gate."""
        return self.meeting.visit(f"gate:{name}")

    def open(self, name):
        self.meeting.open(name)

    # ---- requests ----
    @staticmethod
    def path(name):
        return f"/api/v2/jobs/alice~{name}"

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def put(self, path, value):
        return self.request("PUT", path, json.dumps(value), JSON)

    def patch(self, path, value):
        return self.request("PATCH", path, json.dumps(value), JSON)

    def client(self, *arguments, text=None):
        """rest-lit as a client of the server."""
        done = subprocess.run([BINARY, *arguments], input=text, capture_output=True, text=True, check=False,
                              env={**os.environ, "REST_LIT_SERVER": f"http://127.0.0.1:{self.port}"},
                              timeout=10 * PATIENCE * SLOW)
        return Result(done.returncode, done.stdout, done.stderr)

    def watch(self, path, headers=None):
        self.streams.append(Stream(f"http://127.0.0.1:{self.port}{path}", headers))
        return self.streams[-1]

    # ---- states ----
    def runs(self, name):
        return wait_until(lambda: self.state(name) == "RUNNING")

    def ends(self, name):
        ended = wait_until(lambda: self.state(name) in DONE, 3 * PATIENCE)
        assert ended, f"{name} does not end: {self.get(self.path(name)).body[:1500]}\n{self.log()[-1500:]}"
        return self.state(name)

    def task(self, name, of, index):
        tasks = self.get(self.path(name)).json["taskRoles"][of]["taskStatuses"]
        return next(t for t in tasks if t["taskIndex"] == index)

    def states(self, name, of):
        return [t["taskState"] for t in self.get(self.path(name)).json["taskRoles"][of]["taskStatuses"]]

    # ---- logs ----
    def logs_path(self, name, of, index, attempt=0, retry=0):
        return f"{self.path(name)}/attempts/{attempt}/taskRoles/{of}/taskIndex/{index}/attempts/{retry}/logs"

    def links(self, *of, **which):
        reply = self.get(self.logs_path(*of, **which))
        return {l["name"]: l["uri"] for l in reply.json["locations"]} if reply.status == 200 else {}

    def read(self, name, of, index, file="stdout", **which):
        """The text of a log; "" while there is none."""
        link = self.links(name, of, index, **which).get(file)
        if not link:
            return ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{link}") as reply:
                return reply.read().decode()
        except OSError:
            return ""

    def follow(self, name, of, index):
        """The lines of a log, as they come, until it ends."""
        link = self.links(name, of, index)["stdout"]
        url = f"http://127.0.0.1:{self.port}{link}&follow=true"
        with subprocess.Popen(["curl", "-sN", "--noproxy", "*", url], stdout=subprocess.PIPE, text=True) as curl:
            yield from curl.stdout

    # ---- processes and files ----
    def tasks_alive(self, name):
        """The pids of the processes whose environment names this job, by pod."""
        wanted = f"FC_FRAMEWORK_NAME={framework_name(name)}".encode()
        found = collections.defaultdict(list)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    environment = f.read().split(b"\0")
            except OSError:
                continue
            if wanted in environment:
                pod = next((e for e in environment if e.startswith(b"FC_POD_NAME=")), b"")
                found[pod.decode()].append(int(pid))
        return found
