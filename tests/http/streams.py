"""Changes of jobs: server-sent events and ?wait=; order of events, eviction, and freed
resources."""
import contextlib
import json
import os
import re
import resource
import socket
import threading
import time

from fakeapi import Scene, fake_server
from harness import (PATIENCE, SLOW, USER, Closing, Connection, framework_name, job_v2, request_bytes,
                     wait_until)
from place import SIGNATURE, Place
from tls import TlsServer
from tokens import bearer, token

WATCH = "/api/v2/jobs/watch"
ONE_LOOP = ("--loops", "1")


# ---- a client ---------------------------------------------------------------------------
class Stream(Closing):
    """A streamed response."""

    def __init__(self, server, path=WATCH, headers=None, method="GET", version="HTTP/1.1", connection=None):
        self.connection = connection or server.connect()
        self.data, self.body, self.whole, self.closed = b"", bytearray(), False, False
        self.head = None
        self.connection.send(request_bytes(server.port, method, path, None, headers, version))

    def take(self):
        """Decodes the received bytes."""
        if self.head is None and b"\r\n\r\n" in self.data:
            self.head, _, self.data = self.data.partition(b"\r\n\r\n")
        if self.head is None:
            return
        if b"transfer-encoding: chunked" not in self.head.lower():
            self.body += self.data
            self.data = b""
            return
        at = 0
        while not self.whole:
            end = self.data.find(b"\r\n", at)
            size = int(self.data[at:end], 16) if end >= 0 else 0
            if end < 0 or len(self.data) < end + size + 4:
                break
            self.whole = size == 0
            self.body += self.data[end + 2:end + 2 + size]
            at = end + size + 4
        self.data = self.data[at:]

    def until(self, condition, seconds=PATIENCE):
        """Reads until `condition(self)`; returns True if it became true."""
        end = time.monotonic() + max(seconds, PATIENCE) * SLOW
        while not condition(self):
            left = end - time.monotonic()
            if left <= 0 or self.closed:
                return False
            try:
                self.connection.socket.settimeout(left)
                piece = self.connection.socket.recv(1 << 20)
            except OSError:
                piece = b""
            self.closed = self.closed or not piece
            self.data += piece
            self.take()
        return True

    def ended(self):
        return self.until(lambda s: s.whole or s.closed)

    @property
    def status(self):
        self.until(lambda s: s.head is not None)
        return int(self.head.split()[1]) if self.head else None

    def header(self, name):
        self.until(lambda s: s.head is not None)
        found = re.search(rb"\r\n%s: ([^\r]*)" % name.encode(), self.head or b"", re.I)
        return found and found.group(1).decode()

    @property
    def events(self):
        """(event, id, data) of each complete event."""
        found = []
        for block in self.body.decode().split("\n\n")[:-1]:
            lines = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            if "data" in lines:
                found.append((lines["event"], int(lines.get("id", 0)), json.loads(lines["data"])))
        return found

    def names(self, event="job"):
        return [e[2]["name"] for e in self.events if e[0] == event]

    @property
    def last_id(self):
        return ([int(n) for n in re.findall(r"^id: (\d+)$", self.body.decode(), re.M)] or [0])[-1]

    def close(self):
        self.connection.close()


class Jobs(Scene):
    """rest-lit with a fake API server."""

    def __init__(self, *arguments, many=0, **more):
        super().__init__()
        self.put_many(many)
        self.server = self.serve(*ONE_LOOP, *arguments, wait=True, **more)
        self.server.ready()

    def submit(self, name):
        return self.server.submit(job_v2(name)).status

    def put(self, name, user):
        """A job of another server."""
        self.api.put("frameworks", {"metadata": {"name": framework_name(name, user), "annotations": {"jobName": name},
                                                 "labels": {"userName": user}}, "spec": {"taskRoles": []}})

    def change(self, name, state=None, code=None, annotations=None, user=USER):
        """Writes a status like FrameworkController."""
        key = framework_name(name, user)
        with self.api.lock:
            body = json.loads(json.dumps(self.api.objects["frameworks", key]))
            if state:
                done = {"completionStatus": {"code": code}} if code is not None else {}
                body["status"] = {"state": state, "startTime": "2026-11-22T00:00:00Z",
                                  "attemptStatus": {"id": 0, "taskRoleStatuses": [
                                      {"name": "worker", "taskStatuses": [{"index": 0, "state": "TaskAttemptRunning"}]}
                                  ], **done}}
            body["metadata"].setdefault("annotations", {}).update(annotations or {})
            return self.api.update("frameworks", key, body)

    def put_many(self, n):
        """Creates jobs of other origin."""
        with self.api.lock:
            for i in range(n):
                name = f"many{i}"
                self.api.put("frameworks", {
                    "metadata": {"name": framework_name(name, "crowd"), "annotations": {"jobName": name},
                                 "labels": {"userName": "crowd", "virtualCluster": "default"}},
                    "spec": {"executionType": "Start", "taskRoles": []}})

    def watch(self, query="", **more):
        return Stream(self.server, WATCH + query, **more)

    def one(self, name, what="/watch", **more):
        return Stream(self.server, f"/api/v2/jobs/{USER}~{name}{what}", **more)

    def files(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))


# ---- lists ------------------------------------------------------------------------------
def test_list_stream_sends_changes_in_order(check):
    with Jobs("--stream-heartbeat", "1") as jobs, jobs.watch() as s:
        check.equal("status", s.status, 200)
        check.equal("type", s.header("Content-Type"), "text/event-stream")
        check.equal("not cached", s.header("Cache-Control"), "no-store")
        check.equal("nosniff", s.header("X-Content-Type-Options"), "nosniff")
        check.equal("pages may read it", Stream(jobs.server, headers={"Origin": "http://a"}).header(
            "Access-Control-Allow-Origin"), None)  # --no-auth: none may
        check.ok("when to come again", s.until(lambda s: s.body.startswith(b"retry: 2000\n")), s.body)
        for name in ("one", "two", "three"):
            check.equal("submitted", jobs.submit(name), 202)
        check.ok("each", s.until(lambda s: {"one", "two", "three"} <= set(s.names())), s.events)
        check.equal("in order", list(dict.fromkeys(s.names())), ["one", "two", "three"])
        jobs.change("two", "AttemptRunning")
        check.ok("a change", s.until(
            lambda s: s.events[-1][2]["name"] == "two" and s.events[-1][2]["state"] == "RUNNING"), s.events)
        heard = len(s.events)
        jobs.change("two", "AttemptRunning", annotations={"of": "no row"})
        jobs.change("three", "AttemptRunning")
        check.ok("another", s.until(lambda s: s.events[-1][2]["name"] == "three"), s.events)
        check.equal("what no row shows is not told", s.names()[heard:], ["three"])
        jobs.change("two", "AttemptPreparing")
        check.ok("again", s.until(lambda s: s.events[-1][2]["name"] == "two"), s.events)
        ids = [e[1] for e in s.events if e[1]]
        check.ok("ids grow", ids and ids == sorted(ids), ids)
        row = s.events[-1][2]
        listed = jobs.server.request("GET", "/api/v2/jobs?keyword=two")
        if listed.status == 200:
            check.equal("as in the list", row, listed.json[0])
        jobs.api.execute("DELETE", "frameworks", framework_name("one"), {}, None)
        check.ok("gone", s.until(lambda s: s.events[-1][0] == "gone"), s.events)
        check.equal("... who", s.events[-1][2], {"name": "one", "username": USER})
        check.ok("it lives", s.until(lambda s: b"\n: ping\n\n" in s.body), s.body)


def test_list_stream_tells_what_leaves_the_selection(check):
    """A job that the filters no longer take is sent once more, with a mark."""
    with Jobs() as jobs, jobs.watch("?state=WAITING") as s:
        check.equal("status", s.status, 200)
        jobs.submit("one")
        check.ok("it is taken", s.until(lambda s: s.names()) and not any("left" in e[2] for e in s.events), s.events)
        jobs.change("one", "AttemptRunning")
        check.ok("it has left", s.until(lambda s: s.events[-1][2]["state"] == "RUNNING") and s.events[-1][2]["left"] is True, s.events)
        jobs.change("one", "AttemptCreationPending")
        check.ok("it is taken again", s.until(lambda s: s.events[-1][2]["state"] == "WAITING") and "left" not in s.events[-1][2], s.events)


def test_list_stream_continues_from_an_id(check):
    """A client that reconnects misses no event."""
    with Jobs() as jobs:
        with jobs.watch() as s:
            s.until(lambda s: s.head)
            for name in ("a", "b", "c"):
                jobs.submit(name)
            s.until(lambda s: len(set(s.names())) == 3)
            # A bookmark confirms that the stream has sent all events up to b.
            jobs.api.bookmark()
            seen = [e for e in s.events if e[2]["name"] == "b"]
        with jobs.api.lock:
            after_b = int(jobs.api.objects["frameworks", framework_name("b")]["metadata"]["resourceVersion"])
        check.ok("b was told", seen, s.events)
        jobs.change("a", "AttemptRunning")
        wait_until(lambda: jobs.one("a", "").status == 200)
        with jobs.watch(headers={"Last-Event-ID": str(after_b)}) as s:
            check.ok("what came after", s.until(lambda s: set(s.names()) == {"c", "a"}), s.events)
            check.equal("... the earlier first", s.names()[:1], ["c"])
            jobs.submit("d")
            check.ok("... and goes on", s.until(lambda s: "d" in s.names()), s.events)
            check.ok("b is not told again", "b" not in s.names(), s.names())


def test_list_stream_at_another_server_repeats_nothing(check):
    """Another server repeats no event: neither that of a job without id, nor if it is behind."""
    with Jobs() as jobs, fake_server(jobs.api, *ONE_LOOP) as other:
        check.ok("the other is ready", other.ready())
        with jobs.watch(f"?username={USER}") as s, jobs.watch() as all_users:
            s.until(lambda s: s.head)
            all_users.until(lambda s: s.head)
            check.equal("submitted", jobs.submit("a"), 202)
            check.ok("told", s.until(lambda s: "a" in s.names()), s.events)
            check.ok("both know it", wait_until(lambda: other.request("GET", "/api/v2/jobs").json ==
                                                jobs.server.request("GET", "/api/v2/jobs").json))
            jobs.put("x", "another")
            check.ok("it has heard all", all_users.until(lambda s: "x" in s.names()), all_users.events)
            jobs.server.terminate()
            check.ok("it ends", s.ended(), s.body)
            last = s.last_id
            check.equal("... with an id", s.events[-1], ("end", last, {"reason": "shutdown"}))
        with jobs.api.lock:
            made = int(jobs.api.objects["frameworks", framework_name("a")]["metadata"]["resourceVersion"])
            ahead = jobs.api.version + 2
        check.ok("... that covers the job", last >= made, (last, made))
        with Stream(other, headers={"Last-Event-ID": str(ahead)}) as s:
            s.until(lambda s: s.head)
            for name in ("b", "c", "d"):  # the client has seen the first two
                jobs.put(name, USER)
            check.ok("the next one is told", s.until(lambda s: "d" in s.names()), s.events)
            check.equal("... and nothing again", s.names(), ["d"])
        with Stream(other, headers={"Last-Event-ID": str(1 << 40)}) as s:
            check.ok("an id of another etcd: all anew", s.until(lambda s: "d" in s.names()), s.events)
            check.equal("... after a reset", s.events[0][0], "reset")


def test_job_stream_at_another_server_sends_nothing_older(check):
    """A server that is behind does not send an older state."""
    with Jobs() as jobs:
        jobs.submit("a")
        jobs.change("a", "AttemptPreparing")
        with jobs.one("a") as s:
            check.ok("told", s.until(lambda s: s.events and s.events[-1][2]["subState"] == "AttemptPreparing"), s.events)
            last = s.last_id
        with jobs.one("a", headers={"Last-Event-ID": str(last)}) as s:
            check.ok("the same state at once", s.until(lambda s: s.events), s.body)
        with jobs.one("a", headers={"Last-Event-ID": str(last + 1)}) as s:
            s.until(lambda s: s.head)
            jobs.change("a", "AttemptRunning")
            check.ok("the next state", s.until(lambda s: s.events), s.body)
            check.equal("... alone", [e[2]["subState"] for e in s.events], ["AttemptRunning"])
        with jobs.one("a", headers={"Last-Event-ID": str(1 << 40)}) as s:
            check.ok("an id of another etcd", s.until(lambda s: s.events), s.body)


def test_list_stream_loses_no_change(check):
    """The client gets many changes although its connection is closed repeatedly."""
    with Jobs("--streams-per-user", "1000", "--stream-heartbeat", "1") as jobs:
        names = [f"job{i}" for i in range(8)]
        for name in names:
            jobs.submit(name)
        with jobs.watch("?initial=true") as s:
            check.ok("all at first", s.until(lambda s: set(s.names()) == set(names)), s.events)
            last = s.last_id
        done = threading.Event()

        state, times = {}, 0

        def change():
            i = 0
            while i < 300 or (times <= 3 and i < 20000):  # as long as the client needs to be cut off
                jobs.change(names[i % 8], "AttemptRunning", annotations={"rest-lit/tags": f'["t{i}"]'})
                time.sleep(0.002)
                i += 1
            for name in names:
                jobs.change(name, "Completed", 0)
            done.set()

        thread = threading.Thread(target=change)
        thread.start()
        while times < 5000 and not (len(state) == 8 and set(state.values()) == {"SUCCEEDED"}):
            with jobs.watch(headers={"Last-Event-ID": str(last)}) as s:
                s.until(lambda s: s.last_id > last or (done.is_set() and s.events))
                state.update({e[2]["name"]: e[2]["state"] for e in s.events if e[0] == "job"})
                check.ok("ids never go back", s.last_id >= last or not s.last_id, (last, s.last_id))
                last = s.last_id or last
            times += 1
        thread.join()
        check.equal("how it is at last", state, {name: "SUCCEEDED" for name in names})
        check.ok("it was cut off a few times", times > 3, times)


def test_list_stream_of_many_jobs_reaches_slow_clients(check):
    """A slow client of a list that is larger than all buffers, during changes."""
    with Jobs(many=6000) as jobs:
        with Connection(jobs.server.port) as c:
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            s = Stream(jobs.server, WATCH + "?initial=true&username=crowd", connection=c)
            check.ok("it begins", s.until(lambda s: len(s.body) > 4096))
            jobs.change("many5999", "AttemptRunning", user="crowd")
            jobs.api.execute("DELETE", "frameworks", framework_name("many5998", "crowd"), {}, None)
            jobs.submit("other")
            check.ok("all", s.until(lambda s: b'"many5997"' in s.body and b"event: gone" in s.body), (s.closed, s.body[-300:]))
            names = s.names()
            check.equal("each", set(names) | {"many5998"}, {f"many{i}" for i in range(6000)})
            check.ok("once, but for what changed", len(names) <= 6001, len(names))
            check.equal("as it is now", [e[2]["state"] for e in s.events if e[2]["name"] == "many5999"][-1],
                        "RUNNING")
            check.ok("others are not in it", "other" not in names)
        check.ok("ids grow", (lambda ids: ids == sorted(ids))([e[1] for e in s.events if e[1]]))


def test_stream_requests_that_are_invalid_are_refused(check):
    with Jobs() as jobs:
        jobs.submit("here")
        for query, headers in (("?initial=perhaps", {}), ("", {"Last-Event-ID": "x"}),
                               ("", {"Last-Event-ID": "-1"}), ("?state=ODD", {})):
            with jobs.watch(query, headers=headers) as s:
                if query != "?state=ODD":
                    check.equal(f"{query} {headers}", s.status, 400)
        check.equal("no such job", jobs.one("nobody").status, 404)
        with jobs.watch(method="HEAD") as s:
            check.equal("HEAD", s.status, 200)
            check.equal("... its type", s.header("Content-Type"), "text/event-stream")
            check.ok("... and nothing else", not s.body and not s.data, s.body)
        with jobs.one("here", method="HEAD") as s:
            check.equal("HEAD of one", s.status, 200)


# ---- one job ------------------------------------------------------------------------------
def test_job_stream_follows_a_job_to_its_end(check):
    with Jobs() as jobs:
        jobs.submit("solo")
        with jobs.one("solo") as s:
            # The stream sends the job at its creation, and perhaps again for the event of the API
            # server.
            check.ok("how it is", s.until(lambda s: set(s.names()) == {"solo"}), s.body)
            check.equal("... waiting", s.events[0][2]["state"], "WAITING")
            jobs.change("solo", "AttemptRunning")
            check.ok("it runs", s.until(lambda s: s.events[-1][2]["state"] == "RUNNING"), s.events)
            check.equal("... how many tasks of what", list(s.events[-1][2]["taskRoles"]), ["worker"])
            n = len(s.events)
            jobs.change("solo", annotations={"nobody": "cares"})
            jobs.change("solo", "Completed", 0)
            check.ok("it has ended", s.until(lambda s: s.whole), s.events)
            check.equal("... and said so", [e[0] for e in s.events[n:]], ["job", "end"])
            check.equal("... how", s.events[-2][2]["state"], "SUCCEEDED")
            check.equal("... why", s.events[-1][2], {"reason": "completed"})
            # The connection can be reused.
            s.connection.send(request_bytes(jobs.server.port, "GET", "/healthz"))
            check.equal("the same connection", s.connection.reply().status, 200)
        with jobs.one("solo") as s:
            check.ok("of what has ended", s.ended() and [e[0] for e in s.events] == ["job", "end"], s.body)
        jobs.submit("brief")
        with jobs.one("brief") as s:
            s.until(lambda s: s.names())
            jobs.api.execute("DELETE", "frameworks", framework_name("brief"), {}, None)
            check.ok("removed", s.ended() and [e[0] for e in s.events if e[0] != "job"] == ["gone", "end"], s.body)
        with jobs.one("solo", version="HTTP/1.0") as s:
            check.ok("HTTP/1.0: until it is closed", s.until(lambda s: s.closed))
            check.equal("... with all of it", [e[0] for e in s.events], ["job", "end"])


def test_job_stream_omits_too_large_members(check):
    """Members that are larger than the buffer are omitted from the event; the stream continues."""
    with Jobs() as jobs:
        jobs.submit("wide")
        key = framework_name("wide")
        with jobs.api.lock:
            body = json.loads(json.dumps(jobs.api.objects["frameworks", key]))
            body["status"] = {"state": "AttemptRunning", "attemptStatus": {"id": 0, "taskRoleStatuses": [
                {"name": f"{i:063}", "taskStatuses": [{"index": 0, "state": "TaskAttemptRunning"}]} for i in range(1000)]}}
            jobs.api.update("frameworks", key, body)
        with jobs.one("wide") as s:
            check.ok("it runs", s.until(lambda s: s.events and s.events[-1][2]["state"] == "RUNNING"), s.body)
            check.ok("without its roles", s.events and "taskRoles" not in s.events[-1][2])
            jobs.change("wide", "Completed", 0)
            check.ok("to its end", s.ended() and [e[0] for e in s.events[-2:]] == ["job", "end"], s.body)


# ---- limits -------------------------------------------------------------------------------
def test_streams_of_a_user_are_limited(check):
    with Jobs("--streams-per-user", "2", "--stream-heartbeat", "1") as jobs:
        jobs.submit("here")
        a, b = jobs.watch(), jobs.one("here")
        check.equal("as many as there may be", (a.status, b.status), (200, 200))
        with jobs.watch() as s:
            check.equal("one more", s.status, 429)
            check.ok("... when to come again", s.header("Retry-After"))
        check.equal("HEAD does not count", jobs.watch(method="HEAD").status, 200)
        b.close()
        check.ok("one has left", wait_until(lambda: jobs.watch().status == 200))
        check.ok("the log does not say that it was cut", "too long" not in jobs.server.log())
        a.close()
    with Jobs("--connections", "8", "--streams-per-user", "100") as jobs:
        both = [jobs.watch(), jobs.watch()]
        check.equal("a quarter of the connections", [s.status for s in both], [200, 200])
        with jobs.watch() as s:
            check.equal("no more", s.status, 503)
            check.ok("... when to come again", s.header("Retry-After"))
        check.equal("others are served", jobs.server.request("GET", "/healthz").status, 200)


def test_stream_without_data_is_not_idle(check):
    """A stream without pending data is not idle."""
    with Jobs("--idle-timeout", "1", "--stream-heartbeat", "300") as jobs, jobs.watch() as s:
        s.until(lambda s: s.body)
        time.sleep(3)  # in which it must not be closed
        jobs.submit("late")
        check.ok("it is still there", s.until(lambda s: "late" in s.names()), s.body)


def test_stream_of_a_slow_reader_is_closed(check):
    """The server closes streams of clients that do not read, without effect on others."""
    with Jobs("--idle-timeout", str(int(3 * SLOW) + 3), many=300) as jobs:
        with Connection(jobs.server.port) as c, jobs.watch() as other:
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s = Stream(jobs.server, connection=c)
            other.until(lambda s: s.body)
            before = jobs.server.rss_kib()
            heard = []

            # Continuously: on a busy machine, changes take longer than --idle-timeout.
            def hear():
                heard.append(other.until(lambda s: b"after" in s.body[-20000:] and "after" in s.names(), 20 * PATIENCE))
            hearing = threading.Thread(target=hear)
            hearing.start()

            def change():
                for i in range(300):
                    jobs.change(f"many{i}", annotations={"jobPriority": "x"}, state="AttemptRunning", user="crowd")
                for i in range(300):
                    jobs.change(f"many{i}", state="AttemptPreparing", user="crowd")
            turns = 0
            while turns < 60 and not jobs.server.log_lines("it was cut off before its end"):
                change()
                n = len(other.body)
                wait_until(lambda n=n: len(other.body) > n or not hearing.is_alive())
                turns += 1
                if turns > 4:  # the buffers of most machines are full
                    time.sleep(1)
            check.ok("cut off", jobs.server.logged("it was cut off before its end"), turns)
            check.ok("... so that it is seen", s.until(lambda s: s.closed) and not s.whole)
            if SLOW == 1:  # sanitizers keep what is freed
                check.ok("no memory for it", jobs.server.rss_kib() - before < 30000)
            jobs.submit("after")
            hearing.join()
            check.equal("others hear on", heard, [True])


def test_streams_of_disconnected_clients_free_descriptors(check):
    """All descriptors and places are freed."""
    with Jobs("--streams-per-user", "60", "--stream-heartbeat", "300") as jobs:
        jobs.submit("here")
        jobs.watch().status
        wait_until(lambda: jobs.server.logged(WATCH))
        before = jobs.files()
        for _ in range(3):
            crowd = [jobs.watch() if i % 2 else jobs.one("here") for i in range(59)]
            check.equal("all in", {s.status for s in crowd}, {200})
            for s in crowd:
                s.close()
            check.ok("all out", wait_until(lambda: jobs.files() <= before + 2), (before, jobs.files()))
        check.equal("there is room", jobs.watch().status, 200)


def test_streams_of_many_clients_do_not_affect_others(check):
    """A thousand waiting clients, and as many refused ones, do not affect others."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(
        8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with Jobs("--connections", "8000", "--streams-per-user", "1000") as jobs:
        crowd = [jobs.watch() for _ in range(2000)]
        check.equal("a thousand may", [s.status for s in crowd].count(200), 1000)
        check.equal("... no more", [s.status for s in crowd].count(429), 1000)
        took = []
        for _ in range(20):
            start = time.monotonic()
            check.equal("healthz", jobs.server.request("GET", "/healthz").status, 200)
            took.append(time.monotonic() - start)
        check.ok("... soon", sorted(took)[10] < 20 * SLOW, took)
        jobs.submit("news")
        heard = [s for s in crowd if s.status == 200 and s.until(lambda s: "news" in s.names())]
        check.equal("all hear", len(heard), 1000)
        for s in crowd:
            s.close()


# ---- ends ----------------------------------------------------------------------------------
def test_drain_ends_streams_with_a_reason(check):
    with Jobs("--drain-timeout", "600") as jobs:
        jobs.submit("here")
        both = [jobs.watch(), jobs.one("here")]
        waits = jobs.one("here", "?wait=250")
        check.equal("there", [s.status for s in both], [200, 200])
        # The server has received it when it answers a later request.
        jobs.server.request("GET", "/healthz")
        jobs.server.terminate()
        for s in both:
            check.ok("the last words", s.ended() and s.events[-1][:1] + s.events[-1][2:] ==
                     ("end", {"reason": "shutdown"}), s.body)
        check.equal("waiting requests get a response", waits.status, 200)
        check.equal("it ends well, and soon", jobs.server.stop(), 0)


def test_drain_does_not_wait_for_unread_streams(check):
    """The shutdown does not wait for clients that do not read; a current list is finished."""
    with Jobs("--drain-timeout", "600", "--idle-timeout", "600", many=3000) as jobs:
        with Connection(jobs.server.port) as c, Connection(jobs.server.port) as d:
            for each, path, room in ((c, WATCH + "?initial=true", 4096), (d, "/api/v2/jobs?limit=3000", 65536)):
                each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
                each.send(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{jobs.server.port}\r\nConnection: close\r\n\r\n".encode())
                check.ok(f"{path} has begun", each.socket.recv(100).startswith(b"HTTP/1.1 200"))
            for _ in range(20): # until the buffers are full
                jobs.server.request("GET", "/healthz")
            jobs.server.terminate()
            check.ok("it stops", jobs.server.logged("stopping"))
            rest = b""
            while part := d.socket.recv(65536):
                rest += part
            check.ok("the list is whole", rest.endswith(b"\r\n0\r\n\r\n"), rest[-100:])
            check.ok("... and the shutdown waits for no other stream", jobs.server.logged("it was cut off before its end"))
            check.equal("it ends well", jobs.server.stop(), 0)


def test_stream_ends_when_its_token_expires(check):
    """A stream ends when its token expires."""
    with Place() as place:
        place.api.put("secrets", {"kind": "Secret", "metadata": {"name": "revoked"}})
        server = place.server(*SIGNATURE, *ONE_LOOP, "--stream-heartbeat", "1", "--deny-list", "rest-lit/revoked",
                              "--token-namespace", "rest-lit")
        server.ready()
        with Stream(server) as s:
            check.equal("without one", s.status, 401)
        for lifetime in (3, 12, 60):  # it may end before it is looked at
            s = Stream(server, headers=bearer(token(lifetime=lifetime)))
            if s.status == 200:
                break
        with s:
            check.equal("while it is good", s.status, 200)
            check.ok("it has expired", s.ended() and s.events[-1][2] == {"reason": "token"}, s.body)
        good = token()
        with Stream(server, headers=bearer(good)) as s, Stream(server, headers=bearer(token(jti="x"))) as other:
            check.equal("another", (s.status, other.status), (200, 200))
            gone = server.request("DELETE", f"/api/v2/tokens/{good}", headers=bearer(good))
            check.equal("revoked", gone.status, 200)
            check.ok("it ends", s.ended() and s.events[-1][2] == {"reason": "token"}, s.body)
            n = len(other.body)
            check.ok("others do not", other.until(lambda s: len(s.body) > n) and not other.events, other.body)


def test_stream_works_over_tls(check):
    with TlsServer(*ONE_LOOP, "--stream-heartbeat", "1", "--stream-lifetime", "3") as server:
        with Stream(server, headers=bearer(token())) as s:
            check.equal("status", s.status, 200)
            check.ok("heartbeat", s.until(lambda s: b": ping" in s.body), s.body)
            check.ok("to its end", s.until(lambda s: s.whole), s.body)
            check.equal("why", [e[2] for e in s.events], [{"reason": "lifetime"}])
    # A TLS close_notify of the client is pending input.
    with TlsServer(*ONE_LOOP, "--stream-heartbeat", "300", "--streams-per-user", "1") as server:
        with Stream(server, headers=bearer(token())) as s:
            check.equal("the only one", s.status, 200)
            check.ok("it begins", s.until(lambda s: s.body.endswith(b"\n\n")), s.body)
            s.connection.socket.setblocking(False)
            with contextlib.suppress(OSError):  # it does not wait for the server's
                s.connection.socket.unwrap()
        check.ok("has left", wait_until(lambda: Stream(server, headers=bearer(token())).status == 200))


# ---- ?wait= -------------------------------------------------------------------------------
def state_of(stream):
    stream.until(lambda s: s.body.endswith(b"}\n") or s.closed)
    try:
        return json.loads(stream.body)["jobStatus"]["state"]
    except (ValueError, KeyError):
        return stream.body


def test_wait_parameter_delays_the_answer_until_a_change(check):
    with Jobs() as jobs:
        jobs.submit("slow")

        def answered(stream, wait, state):
            return check.equal("answered", (stream.status, stream.header("X-Wait"), state_of(stream)),
                               (200, wait, state))

        answered(jobs.one("slow", "?wait=0"), "timeout", "WAITING")
        answered(jobs.one("slow", "?wait=1"), "timeout", "WAITING")
        check.equal("without it", jobs.one("slow", "").header("X-Wait"), None)
        runs, ends = jobs.one("slow", "?wait=200&for=running"), jobs.one("slow", "?wait=200")
        old = Stream(jobs.server, f"/api/v1/user/{USER}/jobs/slow?wait=99999999999")
        jobs.server.request("GET", "/healthz")
        check.ok("they wait", not runs.data and not ends.data)
        jobs.change("slow", "AttemptRunning")
        answered(runs, "reached", "RUNNING")
        jobs.change("slow", "Completed", 0)
        answered(ends, "reached", "SUCCEEDED")
        answered(old, "reached", "SUCCEEDED")
        answered(jobs.one("slow", "?wait=200&for=running"), "reached", "SUCCEEDED")
        jobs.submit("removed")
        waits = jobs.one("removed", "?wait=200")
        jobs.server.request("GET", "/healthz")
        jobs.api.execute("DELETE", "frameworks", framework_name("removed"), {}, None)
        check.equal("removed meanwhile", waits.status, 404)
        for query in ("?wait=x", "?wait=-1", "?wait=", "?wait=1&for=ever"):
            check.equal(query, jobs.one("slow", query).status, 400)
        check.equal("no such job", jobs.one("nobody", "?wait=200").status, 404)
        check.equal("HEAD does not wait", jobs.one("slow", "?wait=200", method="HEAD").status, 200)


def test_wait_requests_count_as_streams(check):
    with Jobs("--streams-per-user", "2", "--stream-lifetime", "200") as jobs:
        jobs.submit("slow")
        waits = [jobs.one("slow", "?wait=200") for _ in range(2)]
        check.ok("too many", wait_until(lambda: jobs.one("slow", "?wait=1").status == 429))
        for s in waits:
            s.close()
        check.ok("disconnected clients do not count", wait_until(lambda: jobs.one("slow", "?wait=1").status == 200))
        # A client that disconnects after another request does not count either.
        waits = [jobs.one("slow", "?wait=200") for _ in range(2)]
        check.ok("too many again", wait_until(lambda: jobs.one("slow", "?wait=1").status == 429))
        for s in waits:
            s.connection.send(request_bytes(jobs.server.port, "GET", "/healthz"))
            s.close()
        check.ok("nor with more to read", wait_until(lambda: jobs.one("slow", "?wait=1").status == 200))
