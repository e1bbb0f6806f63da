"""Logs of tasks: locations, links that need no token, streaming; and Events of pods."""
import http.client
import socket
import threading
import time

from fakeapi import FakeApi, Scene, fake_server, status
from harness import PATIENCE, SLOW, Server, framework_name, job_v2, wait_until
from tokens import SECRET, bearer, token, write_file

JOB = "sleep"
HEADERS = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff",
           "content-security-policy": "sandbox", "content-disposition": "inline",
           "cache-control": "no-store", "referrer-policy": "no-referrer", "accept-ranges": "none"}


def pod_of(framework, uid, role="worker", index=0):
    labels = {"FC_FRAMEWORK_NAME": framework, "FC_TASKROLE_NAME": role, "FC_TASK_INDEX": str(index)}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{framework}-attempt", "uid": "c-1",
             "controller": True}
    return {"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": f"{framework}-{role}-{index}", "uid": uid, "labels": labels,
                         "namespace": "default", "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "sidecar"}, {"name": "app"}],
                     "initContainers": [{"name": "init"}]}}


def framework_of(name, user, job, pods, attempt=0):
    """A running job; `pods`: {(role, index): (task attempt, uid)}."""
    roles = {}
    for (role, index), (retry, uid) in pods.items():
        roles.setdefault(role, []).append(
            {"index": index, "state": "AttemptRunning",
             "attemptStatus": {"id": retry, "podName": "coredns-0", "podUID": uid,
                               "podNodeName": "node0", "completionStatus": None}})
    return {"kind": "Framework", "apiVersion": "frameworkcontroller.microsoft.com/v1",
            "metadata": {"name": name, "namespace": "default", "annotations": {"jobName": job},
                         "labels": {"userName": user, "virtualCluster": "default"}},
            "spec": {"executionType": "Start", "taskRoles": []},
            "status": {"state": "AttemptRunning", "attemptStatus": {
                "id": attempt, "configMapName": f"{name}-attempt", "taskRoleStatuses": [
                    {"name": role, "taskStatuses": tasks} for role, tasks in roles.items()]}}}


class Log:
    """The log of a container on the API server."""

    def __init__(self):
        self.asked = []      # (pod, query), but for the first lines
        self.time = b"2026-01-31T12:00:00.000000001+01:00"  # of the first line
        self.then = lambda: None  # when the first line was given
        self.text = b"one\ntwo \xff\x00<script>\n"
        self.act = None      # replaces the default handler: act(handler, pod, query) ...
        self.first = b""     # ... with this first line, if any
        self.closed = threading.Event()

    def __call__(self, handler, pod, query):
        if "limitBytes" in query:
            line = self.first if self.act else self.text[:self.text.find(b"\n") + 1]
            self.head(handler)
            if line:
                self.chunk(handler, (self.time + b" " + line)[:int(query["limitBytes"][0])])
            self.chunk(handler, b"")
            self.then()
            return
        self.asked.append((pod, query))
        if self.act:
            self.act(handler, pod, query)
        else:
            self.head(handler)
            self.chunk(handler, self.timed() if "timestamps" in query else self.text)
            self.chunk(handler, b"")

    def timed(self):
        """The text with the time of each line; that of the first line is `time`."""
        lines = self.text.splitlines(keepends=True)
        return b"".join((b"2026-01-31T12:00:0%d.5+01:00" % i if i else self.time) + b" " + line for i, line in enumerate(lines))

    @staticmethod
    def head(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n")

    @staticmethod
    def chunk(handler, data):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


class Place(Scene):
    """A server and the job alice~sleep on a fake API server."""

    def __init__(self, *arguments, task=("worker", 0)):
        super().__init__()
        self.api.logs = self.log = Log()
        self.name = framework_name(JOB)
        self.pod = self.api.put("pods", pod_of(self.name, "", *task))
        self.uid = self.pod["metadata"]["uid"]
        self.framework = self.api.put("frameworks", framework_of(
            self.name, "alice", JOB, {task: (0, self.uid)}))
        file = write_file(self.directory, "jwt-secret", SECRET)
        self.server = self.serve("--jwt-secret-file", file, "--deadline", "5", "--loops", "1",
                                 "--rate-address", "0", *arguments, who=[])

    def path(self, role="worker", index=0, attempt=0, retry=0, job=f"alice~{JOB}"):
        return (f"/rest-server/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}"
                f"/attempts/{retry}/logs")

    def ask(self, path=None, user="alice", query=""):
        return self.server.request("GET", (path or self.path()) + query, headers=bearer(token(user)))

    def link(self, name="all", query="", path=None):
        """The uri of one of the locations, as the portal requests it."""
        found = {}

        def offered():
            found["reply"] = reply = self.ask(path, query=query)  # 503 at first: a short --deadline
            found.update((l["name"], l["uri"]) for l in (reply.json or {}).get("locations", []))
            return name in found
        if not wait_until(offered):
            raise RuntimeError(f"no {name} in {found['reply']}")
        return found[name]

    def open(self, path, headers=None, receive=None):
        """A response with an unread body."""
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE * SLOW)
        if receive:
            c.connect()
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        c.request("GET", path, headers=headers or {})
        return c.getresponse()

    def read(self, path, headers=None):
        """(status, headers, body, complete); 0, {}, b"", False without a head, because a reset may
        discard it."""
        try:
            r = self.open(path, headers)
        except ConnectionError:
            return 0, {}, b"", False
        found = {k.lower(): v for k, v in r.getheaders()}
        try:
            return r.status, found, r.read(), True
        except (http.client.IncompleteRead, ConnectionError) as problem:
            return r.status, found, getattr(problem, "partial", b""), False


# ---- locations -------------------------------------------------------------------------------
def test_logs_are_read_by_links_without_a_token(check):
    with Place() as p:
        reply = p.ask()
        check.equal("locations: status", reply.status, 200)
        check.equal("locations: names", [l["name"] for l in reply.json["locations"]], 
                    ["stdout", "stderr", "all", "runtime"])
        uri = p.link("all")
        check.ok("locations: relative to the page", uri.startswith(p.path() + "/all?token="), uri)
        code, headers, body, whole = p.read(uri)
        check.equal("log: status", code, 200)
        check.equal("log: bytes", (body, whole), (p.log.text, True))
        part = p.read(uri, {"Range": "bytes=0-2"})
        check.equal("log: a part of it is not given, but all", (part[0], part[2]), (200, p.log.text))
        for header, value in HEADERS.items():
            check.equal(f"log: {header}", headers.get(header), value)
        check.equal("log: asked for", p.log.asked[-1], (p.name + "-worker-0", {"container": ["app"]}))
        check.equal("log: runtime", p.read(p.link("runtime"))[2], p.log.text)
        check.equal("log: runtime asked for", p.log.asked[-1][1], {"container": ["init"]})
        log = p.server.settled_log()
        check.ok("log: no link in ours", uri.split("token=")[1][:40] not in log and "token=" not in log, log)


def test_log_tail_mode_returns_the_end(check):
    with Place("--log-tail", "1KiB") as p:
        for n in (0, 5, 1023, 1024, 1025, 4096, 100000):
            p.log.text = (b"%09d\n" * (n // 10 + 1) % tuple(range(n // 10 + 1)))[:n]
            if not n:
                p.log.act = lambda h, *_: (Log.head(h), Log.chunk(h, b""))
            code, headers, body, whole = p.read(p.link(query="?tail-mode=true"))
            p.log.act = None
            check.equal(f"tail of {n}: status", (code, whole), (200, True))
            check.equal(f"tail of {n}: bytes", body, p.log.text[-1024:])
            check.equal(f"tail of {n}: headers", {k: headers.get(k) for k in HEADERS}, HEADERS)
        check.equal("tail: asked for", p.log.asked[-1][1], {"container": ["app"], "tailLines": ["2000"]})
        for n, lines in ((1, 2000), (65536, 8000), (262144, 32000)):
            body = p.read(p.link(query="?tail-mode=true") + f"&tail-bytes={n}")[2]
            check.equal(f"tail-bytes={n}", (body == p.log.text[-n:], p.log.asked[-1][1]["tailLines"]), (True, [str(lines)]))
        check.refused("tail-bytes: too many", p.server.request("GET", f"{p.link()}&tail-bytes=262145"), 400,
                      "InvalidParametersError", "tail-bytes must be a whole number from 0 to 262144")
        p.read(p.link() + "&since=2026-01-31T12:00:00.5Z")
        check.equal("since: asked for", p.log.asked[-1][1], {"container": ["app"], "sinceTime": ["2026-01-31T12:00:00Z"]})
        for bad in ("", "5m", "2026-01-31T12:00:00%2b01:00"):
            check.refused(f"since={bad}", p.server.request("GET", f"{p.link()}&since={bad}"), 400,
                          "InvalidParametersError", "since must be a time")
        check.equal("tail: by token", p.read(p.path() + "/all?tail-mode=true", bearer(token()))[2],
                    p.log.text[-1024:])


FIRST = b"[2026-01-31 12:00:00] [openpai-runtime] [INFO] Starting to exec precommands\n"


def test_log_is_continued_at_an_offset(check):
    """The log of a pod: counted from its first line, in the middle of lines and characters; after a
    rotation from the first line of the newest file, which X-Log-Start tells from others."""
    with Place() as p:
        def part(at, start="", more=""):
            code, headers, body, whole = p.read(f"{p.link()}&from={at}&start={start}{more}")
            check.equal(f"from {at}: status", (code, whole), (200, True))
            return headers.get("x-log-offset"), headers.get("x-log-start"), body
        p.log.text = FIRST + "one\nth\u00e9\n".encode()
        for at in (0, 1, len(FIRST), len(FIRST) + 7, len(p.log.text)):
            check.equal(f"from {at}", part(at), (str(at), None, p.log.text[at:]))
            check.equal(f"from {at}: followed", part(at, more="&follow=true"), (str(at), None, p.log.text[at:]))
        check.equal("without start", p.read(f"{p.link()}&from=3")[2], p.log.text[3:])
        tail = p.read(p.link(query="?tail-mode=true") + "&from=5")
        check.equal("the end: not known", (tail[1].get("x-log-offset"), tail[2]), (None, p.log.text))
        p.log.text = b"later\nlines\n"
        start = "202601311200000000000010100"
        check.equal("rotated: from its beginning", part(len(FIRST)), ("0", start, p.log.text))
        for more in ("", "&since=2026-01-31T12:00:00Z"):
            check.equal(f"... and from there {more}", part(3, start, more), ("3", start, p.log.text[3:]))
        p.log.time = b"2026-01-31T12:00:00.000000002+01:00"
        check.equal("rotated again", part(3, start), ("0", start.replace("10100", "20100"), p.log.text))
        for bad in ("", "x", "-1", "1.5", str(1 << 63)):
            check.refused(f"from={bad}", p.server.request("GET", f"{p.link()}&from={bad}"), 400,
                          "InvalidParametersError", "from must be a whole number")
        p.log.then = lambda: setattr(p.log, "text", b"another\n")
        check.refused("rotated between the two requests", p.server.request("GET", p.link()), 503,
                      "UnavailableError", "rotated just now")


def test_log_of_a_pod_has_times_from_any_offset(check):
    """Each line, also the rest of one, has its time before it, however the kubelet's answer is divided; offsets are those
    of the text. Messages of the kubelet are found as without times."""
    with Place() as p:
        p.log.text = FIRST + "one\n\nth\u00e9\nlast".encode()
        times = [line.partition(b" ")[0] for line in p.log.timed().split(b"\n")]

        def wanted(at):
            line = p.log.text[:at].count(b"\n")
            rest = p.log.text[at:].splitlines(keepends=True)
            return b"".join(time + b" " + text for time, text in zip(times[line:], rest))

        def divided(size):
            def act(handler, _, query):
                text = p.log.timed() if "timestamps" in query else p.log.text
                Log.head(handler)
                for i in range(0, len(text), size):
                    Log.chunk(handler, text[i:i + size])
                Log.chunk(handler, b"")
            return act
        p.log.first, end = FIRST, len(p.log.text)
        for size, offsets in ((1000, range(end + 2)), (1, (0, 3, len(FIRST), end - 6)), (7, (0, 3, len(FIRST) + 1, end - 5))):
            p.log.act = divided(size)
            for at in offsets:
                code, headers, body, whole = p.read(f"{p.link()}&times=true&from={at}")
                check.equal(f"{size}, from {at}", (code, whole, body), (200, True, wanted(at)))
                check.equal(f"{size}, from {at}: headers", [headers.get(f"x-log-{name}") for name in ("offset", "times", "start")], [str(at), "true", None])
        check.equal("asked for", p.log.asked[-1][1], {"container": ["app"], "timestamps": ["true"]})
        p.log.act = None
        check.equal("followed", p.read(f"{p.link()}&times=true&follow=true&from=3")[2], wanted(3))
        headers, body = p.read(p.link(query="?tail-mode=true") + "&times=true")[1:3]
        check.equal("the end", (body, headers.get("x-log-times"), headers.get("x-log-offset")), (p.log.timed(), "true", None))
        for more in ("", "&times=false"):
            check.equal(f"without {more}", (p.read(p.link() + more)[1].get("x-log-times"), p.read(p.link() + more)[2]), (None, p.log.text))
        p.log.text = b"later\nlines\n"
        headers, body = p.read(f"{p.link()}&times=true&from=3&start=202601311200000000000010100")[1:3]
        first, rest = p.log.timed().splitlines(keepends=True)
        check.equal("rotated: from there on", (body, headers["x-log-offset"]), (first.replace(b"later", b"er") + rest, "3"))
        p.log.then = lambda: setattr(p.log, "text", b"another\n")
        check.refused("rotated between the two requests", p.server.request("GET", p.link() + "&times=true"), 503, "UnavailableError", "rotated just now")
    with Place() as p:
        with_ids(p)
        p.log.act = lambda h, *_: (Log.head(h), Log.chunk(h, b"%s one\n" % p.log.time + kubelet_texts(p.uid)[0]), Log.chunk(h, b""))
        p.log.first = b"one\n"
        check.equal("a message at the end", p.read(p.link() + "&times=true")[2], b"%s one\n" % p.log.time)


def test_logs_need_a_token_of_a_permitted_user_or_a_link(check):
    with Place("--visibility", "owner") as p:
        path = p.path() + "/all"
        check.equal("owner by token", p.read(path, bearer(token()))[2], p.log.text)
        check.refused("no token", p.server.request("GET", path), 401, "UnauthorizedUserError")
        check.refused("locations without a token", p.server.request("GET", p.path()), 401, "UnauthorizedUserError")
        check.refused("another", p.ask(path, "bob"), 403, "ForbiddenUserError")
        check.refused("another asks where", p.ask(user="bob"), 403, "ForbiddenUserError")
        check.refused("a token is no link", p.server.request("GET", f"{path}?token={token()}"), 403,
                "ForbiddenUserError")
        check.refused("an empty link", p.server.request("GET", f"{path}?token="), 403, "ForbiddenUserError")
        check.refused("a link, beside a good token", p.ask(f"{path}?token=x"), 403, "ForbiddenUserError")
        link = p.link().split("token=")[1]
        check.refused("a link is no token", p.server.request("GET", path, headers=bearer(link)), 401,
                "UnauthorizedUserError")
        check.equal("the store is not asked", len(p.log.asked), 1)


def test_log_links_that_are_altered_are_refused(check):
    with Place() as p:
        uri = p.link()
        before = p.api.count("GET", "pods")
        query = uri.partition("?")[2]
        # Each part of the path: tests/unit/server/logs/test_log_link.c.
        for path in (p.path() + "/runtime", p.path(job=f"bob~{JOB}") + "/all"):
            check.refused(f"link for {path}", p.server.request("GET", f"{path}?{query}"), 403,
                    "ForbiddenUserError", "not valid for this log")
        check.equal("altered links: nothing is asked", p.api.count("GET", "pods"), before)
    with Place("--log-link-lifetime", "1") as p:
        uri = p.link()
        check.ok("it expires", wait_until(lambda: p.server.request("GET", uri).status == 403))
        check.refused("expired", p.server.request("GET", uri), 403, "ForbiddenUserError", "expired")


def test_log_links_end_with_their_keys(check):
    with Place() as p:
        uri = p.link()
        write_file(p.directory, "jwt-secret", SECRET + b" another")
        p.server.process.send_signal(1)
        check.ok("links of old keys end", wait_until(lambda: p.server.request("GET", uri).status == 403))


def test_log_links_work_without_a_secret(check):
    api = FakeApi()
    api.logs = Log()
    name = framework_name(JOB)
    uid = api.put("pods", pod_of(name, ""))["metadata"]["uid"]
    api.put("frameworks", framework_of(name, "alice", JOB, {("worker", 0): (0, uid)}))
    with fake_server(api) as server:
        path = Place.path(None)
        uri = server.request("GET", path).json["locations"][0]["uri"]
        with http_get(server, uri) as r:
            check.equal("no-auth: by link", (r.status, r.read()), (200, api.logs.text))
        check.refused("no-auth: altered", server.request("GET", uri[:-3] + "abc"), 403, "ForbiddenUserError")


def http_get(server, path):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE * SLOW)
    c.request("GET", path)
    return c.getresponse()


# ---- the right pod -----------------------------------------------------------------------------
def test_logs_of_unknown_tasks_are_404(check):
    with Place() as p:
        for what, reply in (("job", p.ask(p.path(job="alice~other"))), ("user", p.ask(p.path(job=f"bob~{JOB}")))):
            check.refused(f"no such {what}", reply, 404, "NoJobError")
        for what, path in (("role", p.path(role="ps")), ("index", p.path(index=1)),
                           ("attempt", p.path(attempt=1)), ("task attempt", p.path(retry=1)),
                           ("index that is no number", p.path(index="x")), ("index 00", p.path(index="00")),
                           ("large index", p.path(index=10 ** 30)), ("file", p.path() + "/stdin")):
            check.refused(f"no such {what}", p.ask(path), 404, "NoTaskLogError")
        check.equal("nothing is asked for", p.log.asked, [])


def test_log_of_a_forged_status_reaches_no_foreign_pod(check):
    """The status is not trusted for pods."""
    with Place() as p:
        def change(**more):
            body = framework_of(p.name, "alice", JOB, {("worker", 0): (0, p.uid)})
            body["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]["attemptStatus"].update(more)
            p.api.update("frameworks", p.name, body)
        system = p.api.put("pods", {"kind": "Pod", "metadata": {"name": "coredns-0"}, "spec": {
            "containers": [{"name": "app"}]}})
        before = p.link()
        change(podUID=system["metadata"]["uid"], podName="coredns-0")

        def reaches(uid):
            return wait_until(lambda: p.ask().status == 200 and
                              p.read(p.link())[0] == (200 if uid == p.uid else 404))
        check.ok("uid of another pod: refused", reaches(system["metadata"]["uid"]))
        reply = p.server.request("GET", p.link())
        check.refused("uid of another pod", reply, 404, "NoTaskLogError", "gone")
        check.equal("a link of before is for the pod of then", p.read(before)[2], p.log.text)
        for what, value in (("none", None), ("a number", 5), ("empty", ""), ("odd", "../../x"),
                            ("long", "a" * 5000), ("an object", {"a": 1})):
            change(podUID=value)
            check.ok(f"uid {what}: refused", wait_until(
                lambda: p.ask().status == 404 and p.ask().code == "NoTaskLogError"), p.ask())
        change(podUID=p.uid)
        check.ok("the right uid", reaches(p.uid))
        check.ok("coredns was never asked for", all(pod != "coredns-0" for pod, _ in p.log.asked), p.log.asked)
        # A pod that differs from the task's pod in one property.
        for label in ("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX"):
            labels = dict(pod_of(p.name, "")["metadata"]["labels"], **{label: "other"})
            p.api.update("pods", p.pod["metadata"]["name"], {**p.pod, "metadata": {"labels": labels}})
            check.refused(f"pod with another {label}", p.server.request("GET", p.link()), 404, "NoTaskLogError")
        p.api.update("pods", p.pod["metadata"]["name"], {**p.pod, "metadata": {
            "labels": pod_of(p.name, "")["metadata"]["labels"], "ownerReferences": []}})
        check.refused("pod without an owner", p.server.request("GET", p.link()), 404, "NoTaskLogError")
        for odd in ({"metadata": 5}, {"spec": 5, "metadata": {"ownerReferences": 5, "labels": []}}):
            with p.api.lock:
                p.api.objects["pods", p.pod["metadata"]["name"]] = {**p.pod, **odd}
            check.refused(f"pod {odd}", p.server.request("GET", before), 404, "NoTaskLogError")


def test_log_of_a_deleted_pod_is_404(check):
    with Place() as p:
        uri = p.link()
        with p.api.lock:
            p.api.remove("pods", p.pod["metadata"]["name"])
        check.refused("pod gone", p.server.request("GET", uri), 404, "NoTaskLogError", "gone")
        again = p.api.put("pods", pod_of(p.name, ""))
        check.refused("pod of another uid", p.server.request("GET", uri), 404, "NoTaskLogError", "gone")
        p.api.update("frameworks", p.name, framework_of(p.name, "alice", JOB, {
            ("worker", 0): (1, again["metadata"]["uid"])}))
        check.ok("a link to the new one", wait_until(lambda: p.ask(p.path(retry=1)).status == 200))
        check.equal("its log", p.read(p.link(path=p.path(retry=1)))[2], p.log.text)
        check.refused("the one before", p.ask(), 404, "NoTaskLogError", "not kept")


def test_log_of_a_foreign_framework_is_its_first_container(check):
    """For Frameworks of other origin, the server shows the first container, because none is named
    `app`."""
    with Place() as p:
        p.api.update("pods", p.pod["metadata"]["name"], {
            **p.pod, "spec": {"containers": [{"name": 7}, {"name": "main"}, {"name": "side"}]}})
        check.equal("first container", p.read(p.link())[0], 200)
        check.equal("first container: asked for", p.log.asked[-1][1], {"container": ["main"]})
        check.refused("no init container", p.server.request("GET", p.link("runtime")), 404, "NoTaskLogError",
                "no such container")


# ---- faults --------------------------------------------------------------------------------------
def test_log_refusals_of_the_api_server_are_translated(check):
    with Place() as p:
        for code, ours, name, words in ((400, 404, "NoTaskLogError", ["not started"]),
                                        (403, 500, "UnknownError", ["pods/log", "get"]),
                                        (404, 404, "NoTaskLogError", ["gone"]),
                                        (401, 500, "UnknownError", ["401"]),
                                        (500, 500, "UnknownError", ["500", "kubelet"]),
                                        (429, 503, "UnavailableError", ["again"]),
                                        (503, 503, "UnavailableError", ["again"]),
                                        (302, 500, "UnknownError", ["302"])):
            secret = "words of the API server"
            p.log.act = lambda h, *_: h.answer(*status(code, "Some", message=secret))  # noqa: B023
            reply = p.server.request("GET", p.link())
            check.refused(f"API server says {code}", reply, ours, name, *words)
            check.ok(f"API server says {code}: its words stay there", secret not in reply.message, reply)
        p.log.act = lambda h, *_: h.cut(reset=True)
        check.refused("connection lost", p.server.request("GET", p.link()), 503, "UnavailableError")
        p.log.act = None
        p.api.fault("GET", "pods", status=403)
        check.refused("may not see pods", p.server.request("GET", p.link()), 500, "UnknownError", "pods/log", "pods")


def test_log_that_is_truncated_can_be_detected(check):
    """The client can detect that the response is incomplete."""
    with Place() as p:
        def half(h, *_):
            Log.head(h)
            Log.chunk(h, b"a" * 5000)
            h.cut()
        p.log.act = half
        code, _, body, whole = p.read(p.link())
        check.ok("cut: status", code in (200, 0), code)
        check.ok("cut: seen", not whole and len(body) <= 5000 and set(body) <= {97}, (len(body), whole))
        check.refused("cut: the end of it", p.server.request("GET", p.link(query="?tail-mode=true")), 503,
                "UnavailableError")


def test_log_that_hangs_has_a_time_limit(check):
    """A missing or stalled response has a time limit, except with follow."""
    with Place("--deadline", "1") as p:
        def hang(h, *_):
            h.connection.settimeout(120)
            h.connection.recv(1)
        p.log.act = hang
        check.refused("no answer", p.server.request("GET", p.link()), 503, "UnavailableError")

        def some(h, *_):
            Log.head(h)
            Log.chunk(h, b"some")
            hang(h)
        p.log.act = some
        check.equal("no more", p.read(p.link())[3], False)
        check.equal("alive", p.server.request("GET", "/healthz").status, 200)


# ---- messages of the kubelet instead of a log ----------------------------------------------------
CONTAINER, INIT = "3f" * 32, "4e" * 32
RPC = b'rpc error: code = NotFound desc = an error occurred when try to find container "%s": not found'


def with_ids(p):
    """Sets a pod status with container ids."""
    def of(name, uid):
        return [{"name": "sidecar", "containerID": "containerd://" + "5d" * 32},
                {"name": name, "containerID": f"containerd://{uid}"}]
    p.api.update("pods", p.pod["metadata"]["name"], {**p.pod, "status": {
        "containerStatuses": of("app", CONTAINER), "initContainerStatuses": of("init", INIT)}})


def kubelet_texts(uid, name="app", container=CONTAINER):
    """The kubelet's messages, without a newline at the end."""
    path = f"/var/log/pods/default_pod_{uid}/{name}/0.log".encode()
    return [b"unable to retrieve container logs for containerd://%s" % container.encode(),
            b'failed to try resolving symlinks in path "%s": lstat %s: no such file or directory' % (path, path),
            b'failed to open log file "%s": open %s: no such file or directory' % (path, path),
            RPC % container.encode(), b"rpc error: code = Unknown desc = Error: No such container: " + container.encode()]


def test_log_error_texts_of_the_kubelet_are_404(check):
    """The kubelet has answered 200 before it finds that there is no log."""
    with Place() as p:
        with_ids(p)
        for text in kubelet_texts(p.uid):
            p.log.text = text
            for query in ("", "?tail-mode=true", "?follow=true", "?follow=true&tail-mode=true"):
                reply = p.ask(p.path() + "/all" + query)
                check.refused(f"{text[:30]} {query}", reply, 404, "NoTaskLogError", "gone")
                check.ok(f"{text[:30]} {query}: not handed on", "rpc" not in reply.message and
                         "/var/log" not in reply.message, reply.message)
        for text in kubelet_texts(p.uid, "init", INIT):
            p.log.text = text
            check.refused(f"runtime: {text[:30]}", p.ask(p.path() + "/runtime"), 404, "NoTaskLogError", "gone")

        def in_pieces(h, *_):
            Log.head(h)
            for at in range(0, len(p.log.text), 20):
                Log.chunk(h, p.log.text[at:at + 20])
                time.sleep(0.02)
            Log.chunk(h, b"")
        p.log.act = in_pieces
        check.refused("in pieces", p.ask(p.path() + "/runtime"), 404, "NoTaskLogError", "gone")
        check.equal("in pieces, of another container", p.read(p.link())[2], p.log.text)


def test_log_that_looks_like_a_kubelet_text_is_unchanged(check):
    """The task's output is never changed, even if it looks like such a message."""
    with Place() as p:
        def read(query=""):
            return p.read(p.path() + "/all" + query, bearer(token()))[2]
        with_ids(p)
        texts = kubelet_texts(p.uid)
        for text in kubelet_texts("another-uid", container="ab" * 32) + [t + b"\n" for t in texts] + [
                b"says: " + t for t in texts] + [t + b"\nand goes on" for t in texts] + [
                b"r", b"rpc error", b"rpc error: code = ", b"unable to " * 1000, p.uid.encode(), b"log of " + CONTAINER.encode(),
                b"rpc error: code = Unavailable desc = closing", b"failed to open log"]:
            p.log.text = text
            for query in ("", "?tail-mode=true", "?follow=true"):
                check.equal(f"{text[:40]} {len(text)} {query}", read(query), text)
        p.log.text = kubelet_texts(p.uid)[1]
        check.equal("no ids, but the uid", p.ask(p.path() + "/all").status, 404)
        p.api.update("pods", p.pod["metadata"]["name"], p.pod)
        p.log.text = texts[0]
        check.equal("no ids", read(), texts[0])


def test_log_loses_a_kubelet_text_at_its_end(check):
    """The kubelet appends a message when a container is removed while its log is followed."""
    with Place() as p:
        def read(query=""):
            return p.read(p.path() + "/all" + query, bearer(token()))[2:]
        with_ids(p)
        lines = b"".join(b"line %d\n" % n for n in range(3000))
        for begin in (b"one\n", lines):
            p.log.text = begin + RPC % CONTAINER.encode()
            for query in ("", "?follow=true"):
                check.equal(f"behind {len(begin)} bytes {query}", read(query), (begin, True))
            check.equal(f"behind {len(begin)} bytes: the end", read("?tail-mode=true"), (begin[-16384:], True))
        p.log.text = b"half a line " + RPC % CONTAINER.encode()
        check.equal("within a line", read(), (p.log.text, True))
        go_on = threading.Event()

        def act(h, *_):
            Log.head(h)
            go_on.wait(PATIENCE * SLOW)
            Log.chunk(h, RPC % CONTAINER.encode())
            Log.chunk(h, b"")
        p.log.act = act
        r = p.open(p.path() + "/all?follow=true", bearer(token()))
        check.equal("silent, and gone: begun", r.status, 200)
        go_on.set()
        check.equal("silent, and gone: ends", r.read(), b"")


# ---- streaming -----------------------------------------------------------------------------------
def test_log_that_is_followed_arrives_in_pieces(check):
    """Each piece arrives at once; when the client disconnects, the server disconnects, too."""
    with Place("--deadline", "1") as p:
        go_on, left = threading.Semaphore(0), threading.Event()

        def act(h, *_):
            Log.head(h)
            for i in range(3):
                Log.chunk(h, b"line %d\n" % i)
                go_on.acquire()
            h.connection.settimeout(PATIENCE * SLOW)
            left.set() if not h.connection.recv(1) else None
            h.close_connection = True
        p.log.act = act
        r = p.open(p.link() + "&follow=true")
        for i in range(3):
            check.equal(f"follow: line {i}", r.read(7), b"line %d\n" % i)
            if i == 1:
                time.sleep(1.5)  # longer than --deadline: nothing comes, and that is no fault
            go_on.release()
        check.equal("follow: asked for", p.log.asked[-1][1], {"container": ["app"], "follow": ["true"]})
        r.close()
        check.ok("follow: the reader leaves", left.wait(PATIENCE * SLOW))


def test_log_can_be_followed_before_its_first_line(check):
    """API servers send no head before the first byte of a log."""
    with Place() as p:
        go_on = threading.Event()

        def act(h, *_):
            go_on.wait(PATIENCE * SLOW)
            Log.head(h)
            Log.chunk(h, b"at last")
            Log.chunk(h, b"")
        p.log.act = act
        r = p.open(p.link() + "&follow=true")
        check.equal("silent: begun", r.status, 200)
        go_on.set()
        check.equal("silent: bytes", r.read(), b"at last")


def test_log_reader_that_is_slow_uses_no_server_memory(check):
    """Unread data stays in the kernel and in the API server, not in this server."""
    most, block = 256 << 20, 8192

    def blocks(first, last):
        return b"".join((b"%07d\n" % n) * (block // 8) for n in range(first, last + 1))
    with Place() as p:
        sent, size = [0], [20 << 20]

        def act(h, *_):
            Log.head(h)
            h.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
            while sent[0] < size[0]:
                Log.chunk(h, blocks(sent[0] // block, sent[0] // block))
                sent[0] += block
            Log.chunk(h, b"")
        p.log.act = act
        p.read(p.link("runtime", "?tail-mode=true"))
        before = p.server.rss_kib()
        sent[0], size[0] = 0, most
        r = p.open(p.link(), receive=65536)
        check.ok("slow: it stops", wait_until(lambda: still(sent)))
        size[0] = sent[0] + (1 << 20)
        check.ok("slow: not all of it was taken", size[0] < most, sent[0])
        grown = p.server.rss_kib() - before
        # Sanitizers keep what is freed.
        check.ok("slow: memory", grown < 2048 or SLOW > 1, grown)
        check.equal("slow: others are answered", p.server.request("GET", "/healthz").status, 200)
        n = 0
        while True:
            piece = r.read(1 << 20)
            if not piece:
                break
            want = blocks(n // block, (n + len(piece)) // block)
            if piece != want[n % block:n % block + len(piece)]:
                check.ok("slow: bytes", False, (n, piece[:40]))
                break
            n += len(piece)
        check.equal("slow: all of it", n, sent[0])
        grown = p.server.rss_kib() - before
        check.ok("slow: memory afterwards", grown < 4096 or SLOW > 1, grown)


def still(counter):
    seen = counter[0]
    time.sleep(0.5)
    return seen > 0 and counter[0] == seen


def held(place):
    """Each log is one byte, and ends when this event is set."""
    end = threading.Event()

    def act(h, *_):
        Log.head(h)
        Log.chunk(h, b"x")
        end.wait(PATIENCE * SLOW)
        Log.chunk(h, b"")
    place.log.act = act
    return end


def test_log_streams_are_limited(check):
    with Place("--log-streams", "3", "--streams-per-user", "2") as p:
        end = held(p)
        uri = p.link()
        path = p.path() + "/all"
        first = [p.open(uri) for _ in range(2)]
        check.equal("too many: those of before", [r.read(1) for r in first], [b"x"] * 2)
        check.refused("too many of one user", p.server.request("GET", uri), 429, "TooManyRequestsError")
        root = p.open(path, bearer(token("bob")))
        check.equal("too many: another's", (root.status, root.read(1)), (200, b"x"))
        check.refused("too many of all", p.ask(path, "carol"), 503, "UnavailableError")
        # Job routes are not affected.
        check.equal("too many: the store", p.ask("/api/v2/jobs/alice~other").status, 404)
        end.set()
        for r in first + [root]:
            r.read()
        check.ok("too many: no more", wait_until(lambda: p.read(uri)[0] == 200))


def test_log_links_count_for_their_users(check):
    """Links count for the users that they are for, not for the address of the clients."""
    with Place("--streams-per-user", "1") as p:
        end = held(p)
        link = p.link() + "&follow=true"
        theirs = [l["uri"] for l in p.ask(user="bob").json["locations"] if l["name"] == "all"][0]
        followed = [p.open(link), p.open(theirs + "&follow=true")]
        check.equal("too many followed: one of each user", [(r.status, r.read(1)) for r in followed], [(200, b"x")] * 2)
        check.refused("too many followed: of one user", p.server.request("GET", link), 429, "TooManyRequestsError")
        end.set()
        for r in followed:
            r.read()


def test_log_streams_end_with_the_server(check):
    """A shutdown ends followed logs, which do not delay it."""
    with Place("--drain-timeout", "1") as p:
        def act(h, *_):
            Log.head(h)
            Log.chunk(h, b"x")
            h.connection.settimeout(PATIENCE * SLOW)
            h.connection.recv(1)
            h.close_connection = True
        p.log.act = act
        followed_one, whole_one = p.open(p.link() + "&follow=true"), p.open(p.link())
        check.equal("stop: begun", (followed_one.read(1), whole_one.read(1)), (b"x", b"x"))
        p.server.terminate()
        check.equal("stop: the followed one ends", followed_one.read(), b"")
        try:
            whole_one.read()
            check.ok("stop: the other is cut", False)
        except (http.client.IncompleteRead, ConnectionError):
            check.ok("stop: the other is cut", True)
        check.equal("stop: exit status", p.server.stop(), 0)


def test_logs_without_an_engine_are_404(check):
    with Server("--engine=none", "--local", "jobs") as server:
        check.equal("directory: submitted", server.submit(job_v2(JOB)).status, 202)
        check.refused("directory: where", server.request("GET", Place.path(None)), 404, "NoTaskLogError", "--engine=none")
        check.refused("directory: log", server.request("GET", Place.path(None) + "/all"), 404, "NoTaskLogError")


# ---- events -------------------------------------------------------------------------------------------
def event_of(p, name, index=0, kind="Warning", at=None, **more):
    pod = f"{p.name}-worker-{index}"
    at = at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"kind": "Event", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": pod, "namespace": "default", "uid": p.uid},
            "type": kind, "reason": name, "message": f"what {name} says", "firstTimestamp": at, "lastTimestamp": at,
            "count": 3, "source": {"component": "kubelet", "host": "node0"}, **more}


def test_events_of_a_job_are_listed_newest_first(check):
    with Place("--visibility", "owner") as p:
        path = f"/api/v2/jobs/alice~{JOB}/events"
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
        p.api.put("events", event_of(p, "failed", at=later))
        p.api.put("events", event_of(p, "pulled", kind="Normal"))
        p.api.put("events", event_of(p, "old", at="2020-01-01T00:00:00Z", involvedObject={
            "kind": "Pod", "name": p.name + "-worker-0", "uid": "of-another"}))
        p.api.put("events", event_of(p, "foreign", involvedObject={"kind": "Pod", "name": "coredns-0", "uid": "x"}))
        check.ok("events: they come", wait_until(lambda: (p.ask(path).json or {}).get("totalCount") == 2), p.ask(path))
        data = p.ask(path).json["data"]
        check.equal("events: newest first", [e["reason"] for e in data], ["failed", "pulled"])
        first = dict(data[0])
        check.ok("events: uid", first.pop("uid"), data)
        check.equal("events: members", first, {
            "frameworkName": p.name, "podUid": p.uid, "taskroleName": "worker", "taskName": p.name + "-worker-0",
            "taskIndex": 0, "type": "Warning", "reason": "failed", "message": "what failed says",
            "firstTimestamp": later[:-1] + ".000Z", "lastTimestamp": later[:-1] + ".000Z", "count": 3,
            "sourceComponent": "kubelet", "sourceHost": "node0"})
        check.equal("events: warnings", [e["reason"] for e in p.ask(path, query="?type=Warning").json["data"]], ["failed"])
        check.equal("events: normal", [e["reason"] for e in p.ask(path, query="?type=Normal").json["data"]], ["pulled"])
        check.refused("events: other types", p.ask(path, query="?type=Odd"), 400, "InvalidParametersError", "type")
        check.refused("events: another user", p.ask(path, "bob"), 403, "ForbiddenUserError")
        check.refused("events: no job", p.ask("/api/v2/jobs/alice~other/events"), 404, "NoJobError")
        check.refused("events: no token", p.server.request("GET", path), 401, "UnauthorizedUserError")


def test_events_that_are_forbidden_are_503(check):
    api = FakeApi()
    api.put("frameworks", framework_of(framework_name(JOB), "alice", JOB, {}))
    api.fault("LIST", "events", status=403)
    api.fault("GET", "events", status=403)
    api.fault("WATCH", "events", status=403)
    with fake_server(api) as server:
        path = f"/api/v2/jobs/alice~{JOB}/events"
        check.ok("events forbidden: 503", wait_until(lambda: server.request("GET", path).status == 503))
        check.ok("events forbidden: says so", wait_until(
            lambda: "403" in server.request("GET", path).message), server.request("GET", path))
