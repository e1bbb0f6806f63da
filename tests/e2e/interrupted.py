"""A server is killed, or stopped for a while, at each request of a submission.  The same request,
with the same Idempotency-Key, then gets 202 from another server without a long wait, and every job
exists once, whole, and is started once."""
import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from urllib.parse import urlsplit

from cluster import FRAMEWORKS, PATHS
from faultproxy import Proxy
from harness import BINARY, SLOW, USER, framework_name, in_threads, wait_until
from promise import Collector, Seen, collect, incomplete, items, job_text, post, remove_all, serve
from steps import CONFIGCRED, ENV, FRAMEWORK, PRIORITY, REFUSED, REGCRED, learn_marks, old_class

WAIT = 60  # seconds that a repeated request may take, which is usually less than 5
AT_ONCE = 8
USERCRED = ("Secret", "-usercred")
UNDOING = [("PATCH", FRAMEWORK, REFUSED)]

# The request at which the server is interrupted: method, object, number of such requests before it;
# earlier faults, or "old" for a PriorityClass that an older job has left.
STEPS = [
    ("POST", FRAMEWORK, 0, []),
    ("POST", CONFIGCRED, 0, []),
    ("POST", REGCRED, 0, []),
    ("POST", USERCRED, 0, []),
    ("POST", PRIORITY, 0, []),
    ("POST", ENV, 0, []),
    ("PATCH", FRAMEWORK, 0, []),
    ("GET", PRIORITY, 0, ["old"]),
    ("GET", FRAMEWORK, 0, ["old"]),
    ("DELETE", PRIORITY, 0, ["old"]),
    ("GET", FRAMEWORK, 0, UNDOING),
    ("GET", FRAMEWORK, 1, UNDOING),
    ("DELETE", FRAMEWORK, 0, UNDOING),
    ("DELETE", PRIORITY, 0, UNDOING),
]
# A second server is interrupted while it takes over the submission that the first one had prepared
# up to its start; a third one continues.
AGAIN = [
    ("GET", FRAMEWORK, 0, ["interrupted"]),
    ("DELETE", FRAMEWORK, 0, ["interrupted"]),
    ("POST", FRAMEWORK, 1, ["interrupted"]),
    ("POST", USERCRED, 0, ["interrupted"]),
    ("PATCH", FRAMEWORK, 0, ["interrupted"]),
]
# The API server gets the request at which the server is interrupted never, before, or later.
MODES = ("never", "before", "later")


class Frameworks:
    """Watches Frameworks: the uids with which each was started.  When one is deleted, its Secrets and
    ConfigMaps are, as the garbage collector of Kubernetes does by its watches."""

    def __init__(self, cluster):
        self.cluster, self.uids = cluster, {}
        address = urlsplit(cluster.url)
        version = cluster.api("GET", FRAMEWORKS)[1]["metadata"]["resourceVersion"]
        self.connection = http.client.HTTPSConnection(
            address.hostname, address.port, context=ssl.create_default_context(cafile=cluster.ca))
        self.connection.request("GET", f"{FRAMEWORKS}?watch=true&timeoutSeconds=7200&resourceVersion={version}",
                                headers={"Authorization": f"Bearer {cluster.token}"})
        self.reply = self.connection.getresponse()
        threading.Thread(target=self.go, daemon=True).start()

    def go(self):
        try:
            for line in self.reply:
                event = json.loads(line)
                o = event["object"]
                if event["type"] == "DELETED":
                    self.collect(o["metadata"])
                elif o["spec"].get("executionType") == "Start":
                    self.uids.setdefault(o["metadata"]["name"], set()).add(o["metadata"]["uid"])
        except (OSError, ValueError, KeyError, AttributeError, http.client.HTTPException):
            pass  # a check misses its uids then

    def close(self):
        self.connection.sock.shutdown(socket.SHUT_RDWR)

    def collect(self, owner):
        for kind, suffix in (CONFIGCRED, REGCRED, USERCRED, ENV):
            o = self.cluster.get(kind, owner["name"] + suffix)
            if o and [x["uid"] for x in o["metadata"]["ownerReferences"]] == [owner["uid"]]:
                self.cluster.api("DELETE", f"{PATHS[kind]}/{owner['name']}{suffix}", {
                    "preconditions": {"uid": o["metadata"]["uid"]}})

    def of(self, job):
        wait_until(lambda: framework_name(job) in self.uids)
        return self.uids.get(framework_name(job), set())


def stop(pid):
    """Returns when all threads have stopped: until one of them has seen the signal, the others
    continue."""
    def states():
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as f:
                yield f.read().rpartition(") ")[2][0]
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: set(states()) == {"T"})


class Row:
    """One job, interrupted once; held: it is not to be started."""

    def __init__(self, number, step, mode, stop=False, held=False):
        self.number, self.step, self.mode, self.stop, self.held = number, step, mode, stop, held
        self.query = "?hold=true&tag=t&maxRunning=1" if held else ""
        self.job = f"interrupted-{'s' if stop else 'k'}{'h' if held else ''}{number}"
        self.text, self.key = job_text(self.job, "random"), f"key-{self.job}"
        self.what = f"{self.job}: {step[0]} {''.join(step[1])} {step[2]} {step[3]}, executed {mode}"
        self.arrived, self.go, self.executed = threading.Event(), threading.Event(), threading.Event()
        self.reply = self.first = self.error = None
        self.took = 0.0

    def prepare(self, cluster, proxy):
        name = framework_name(self.job)
        method, (kind, suffix), before, earlier = self.step
        for one in earlier:
            if one == "old":
                old_class(cluster, name + PRIORITY[1])
            elif one == "interrupted":
                self.interrupt_another(cluster)
            else:
                proxy.fault(one[0], one[1][0], name + one[1][1], times=None, **one[2])
        gate = (self.arrived, None if self.mode == "never" else self.go)
        what = {} if self.stop else {"hang": 0}
        proxy.fault(method, kind, name + suffix, skip=before, gate=gate, executed=self.executed, **what)

    def interrupt_another(self, cluster):
        """A server is killed before it starts the job."""
        arrived = threading.Event()
        with Proxy(cluster) as proxy:
            proxy.fault("PATCH", "Framework", framework_name(self.job), gate=(arrived, None), hang=0)
            server, thread = self.begin(cluster, proxy)
            arrived.wait(120 * SLOW)
            self.end(server, thread)

    def begin(self, cluster, proxy):
        """A server gets the request."""
        server = serve(cluster, "--loops", "1", url=proxy.url)

        def client():
            self.first = post(server, self.text, self.key, self.query)
        thread = threading.Thread(target=client)
        thread.start()
        return server, thread

    def end(self, server, thread):
        server.kill()
        thread.join()
        server.remove()

    def interrupt(self, server, thread):
        if self.mode == "before" and not self.stop:
            self.go.set()
            self.executed.wait(120 * SLOW)
        if self.stop:
            stop(server.process.pid)
            if self.mode == "before":
                self.go.set()
                self.executed.wait(120 * SLOW)
        else:
            self.end(server, thread)

    def retry(self, another):
        """The same request at another server, during which the late one may arrive."""
        if self.mode == "later" and self.number % 2:
            threading.Timer(random.Random(self.number).uniform(0, 4) * SLOW, self.go.set).start()
        start = time.monotonic()
        self.reply = post(another, self.text, self.key, self.query)
        self.took = time.monotonic() - start

    def run(self, check, cluster, proxy, another):
        self.cluster, self.last = cluster, another
        self.prepare(cluster, proxy)
        server, thread = self.begin(cluster, proxy)
        check.ok(f"{self.what}: the request was reached", self.arrived.wait(120 * SLOW), self.first)
        self.interrupt(server, thread)
        self.retry(another)
        if self.mode != "never":
            self.go.set()
            check.ok(f"{self.what}: it was executed", self.executed.wait(120 * SLOW))
        if self.stop:
            self.go_on(check, server, thread)
        seen = self.reply
        check.equal(f"{self.what}: the repetition", (seen.status, seen.message[:200]) if seen else None, (
            202, f"Update job {self.job} for user alice successfully."))

    def go_on(self, check, server, thread):
        os.kill(server.process.pid, signal.SIGCONT)
        thread.join()
        first = self.first
        # The response has the result of the other server, or the reason for the end before that.
        refused = (400, 503) if self.step[3] == UNDOING else (503,)
        replayed = None if self.step[0] == "PATCH" and self.mode == "before" else "true"
        check.ok(f"{self.what}: the first answer", first and (
            first.status in refused or (first.status, first.headers.get("idempotency-replayed")) == (202, replayed)), first)
        last = post(server, self.text, self.key, self.query)
        check.equal(f"{self.what}: the first server, once more", last and (
            last.status, last.headers.get("idempotency-replayed")), (202, "true"))
        server.remove()

    def judge(self, check, seen, frameworks):
        wrong = incomplete(seen.of(self.job), self.job, "random", self.held)
        check.ok(f"{self.what}: it is whole", wrong is None, wrong or "")
        made = [o["metadata"] for o in seen.of(self.job).values()]
        check.equal(f"{self.what}: of one submission", len({m["annotations"]["rest-lit/submission"] for m in made}), 1)
        uid = seen.of(self.job).get("Framework", {}).get("metadata", {}).get("uid")
        if self.held:
            last = post(self.last, self.text, self.key, self.query)
            check.equal(f"{self.what}: repeated once more", (last.status, last.headers.get("idempotency-replayed")), (202, "true"))
            check.equal(f"{self.what}: never started, nor made anew", (
                frameworks.uids.get(framework_name(self.job), set()), self.last_uid(uid)), (set(), uid))
            return
        check.equal(f"{self.what}: started once", frameworks.of(self.job), {uid})

    def last_uid(self, uid):
        framework = self.cluster.get("Framework", framework_name(self.job))
        return framework["metadata"]["uid"] if framework else f"gone: {uid}"


def other_templates(directory):
    """A template of another version: its Frameworks have a label more."""
    with open(os.path.join(directory, "site-framework.yaml"), "w", encoding="utf-8") as f:
        f.write("metadata:\n  labels:\n    version: another\n")
    return ("--templates", directory)


def run_batch(check, cluster, rows, one):
    """Runs rows concurrently; afterwards, all existing objects belong to them."""
    def guarded(row):
        try:
            one(row)
        except Exception as e:
            check.ok(row.what, False, repr(e))
    frameworks = Frameworks(cluster)
    with Collector(cluster, 1.0):
        in_threads(rows, guarded)
    while collect(cluster):
        pass
    seen = Seen(cluster)
    for row in rows:
        row.judge(check, seen, frameworks)
    check.equal("nothing else is left", set(seen.objects), {framework_name(row.job) for row in rows})
    check.equal("... nor dependents without an owner", len(items(cluster, "Secret")), 3 * len(rows))
    frameworks.close()
    remove_all(cluster)
    return sum(parts["Framework"]["metadata"]["labels"].get("version") == "another" for parts in seen.objects.values())


def run_rows(check, cluster, rows):
    learn_marks(cluster)
    with tempfile.TemporaryDirectory(prefix="rest-lit-templates.") as directory, Proxy(cluster) as proxy, \
            serve(cluster) as same, serve(cluster, *other_templates(directory)) as newer:
        def one(row):
            row.run(check, cluster, proxy, newer if row.number % 2 else same)
        others = sum(run_batch(check, cluster, rows[i:i + AT_ONCE], one) for i in range(0, len(rows), AT_ONCE))
        check.ok("no secret in the log", not any("Marker-of-a-secret" in s.settled_log() for s in (same, newer)))
    took = sorted(row.took for row in rows)
    # A slow machine may delay a few of them.
    check.ok("without a long wait", took[len(took) * 9 // 10] <= WAIT * SLOW, took)
    print(f"     {len(rows)} interrupted: the repetition took {took[len(took) // 2]:.1f} s, at most {took[-1]:.1f} s; "
          f"{others} jobs have other templates", flush=True)


def rows_of(steps, modes, n, stop=False, held=False):
    """n rows: all pairs of a step and a mode, again and again."""
    pairs = [(step, mode) for mode in modes for step in steps]
    return [Row(i, *pairs[i % len(pairs)], stop, held) for i in range(n)]


def test_server_killed_at_each_request_is_replaced(check, cluster):
    run_rows(check, cluster, rows_of(STEPS + AGAIN, MODES, 200 if SLOW == 1 else 57))


def test_server_stopped_at_each_request_is_replaced(check, cluster):
    run_rows(check, cluster, rows_of(STEPS, MODES[1:], 2 * len(STEPS), True))


def test_server_killed_at_each_request_of_a_held_job_is_replaced(check, cluster):
    run_rows(check, cluster, rows_of(STEPS + AGAIN, MODES, 57, held=True))


def test_server_interrupted_at_some_requests_is_replaced(check, cluster):
    """A sample of the rows of the two tests above."""
    some = [STEPS[i] for i in (0, 3, 6, 9, 12)] + AGAIN[1:2]
    run_rows(check, cluster, [Row(i, step, MODES[i % 3]) for i, step in enumerate(some)] + [
        Row(i, STEPS[i], MODES[1 + i % 2], True) for i in (2, 4, 6, 9)] + [
        Row(i, STEPS[i], MODES[i % 3], held=True) for i in (0, 5, 6, 10, 12)] + [Row(30, AGAIN[4], MODES[1], held=True)])


# What a client asks the server for: method, path behind that of the job, body; the request that this
# becomes at the API server.
CHANGES = {
    "stop": ("PUT", "/executionType", {"value": "STOP"}, "PATCH"),
    "scale to 3": ("PATCH", "/taskRoles/worker", {"instances": 3}, "PATCH"),
    "scale to 1": ("PATCH", "/taskRoles/worker", {"instances": 1}, "PATCH"),
    "tag x": ("PUT", "/tag", {"value": "x"}, "PATCH"),
    "untag x": ("DELETE", "/tag", {"value": "x"}, "PATCH"),
    "tag y": ("PUT", "/tag", {"value": "y"}, "PATCH"),
    "delete": ("DELETE", "", None, "DELETE"),
    "submit": ("POST", "", None, "PATCH"),  # its PATCH starts the job
}
# Changes; the one that is executed once more, late; newer ones; type, tasks and tags after them, and
# after the late one.
LATE = [
    ([], "submit", ["stop"], ("Stop", 1, [])),
    (["submit"], "stop", ["tag x"], ("Stop", 1, ["x"])),
    (["submit", "tag y"], "stop", ["delete", "submit"], ("Start", 1, [])),
    (["submit"], "scale to 3", ["scale to 1"], ("Start", 1, [])),
    (["submit", "scale to 3"], "scale to 1", ["scale to 3"], ("Start", 3, [])),
    (["submit"], "scale to 3", ["scale to 1", "stop"], ("Stop", 1, [])),
    (["submit"], "tag x", ["untag x", "tag y"], ("Start", 1, ["y"])),
    (["submit", "tag x"], "untag x", ["tag x"], ("Start", 1, ["x"])),
    (["submit"], "delete", ["submit", "tag x"], ("Start", 1, ["x"])),
]


class LateRow:
    def __init__(self, number, cluster, proxy, server):
        self.job, self.cluster, self.proxy, self.server = f"late-{number}", cluster, proxy, server
        self.name, self.keys = framework_name(self.job), 0

    def change(self, what):
        method, path, body, _ = CHANGES[what]
        self.keys += 1
        if what == "submit":
            return post(self.server, job_text(self.job), f"{self.job}-{self.keys}").status
        path = f"/api/v2/jobs/{USER}~{self.job}{path}" if path else f"/api/v1/user/{USER}/jobs/{self.job}"
        return self.server.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"}).status

    def state(self):
        framework = self.cluster.get("Framework", self.name)
        return framework and (framework["spec"]["executionType"], framework["spec"]["taskRoles"][0]["taskNumber"],
                              json.loads(framework["metadata"]["annotations"].get("rest-lit/tags", "[]")))

    def run(self, check, before, late, newer, state):
        what = f"{' and '.join(newer)} after a late {late}"
        go, executed, method = threading.Event(), threading.Event(), CHANGES[late][3]
        check.ok(f"{what}: what is before", all(self.change(one) in (200, 202) for one in before))
        seen = self.proxy.count(method, "Framework", self.name)
        self.proxy.fault(method, "Framework", self.name, status=504, late=go, executed=executed)
        check.ok(f"{what}: it is done", self.change(late) in (200, 202))
        check.equal(f"{what}: it was repeated", self.proxy.count(method, "Framework", self.name) - seen, 2)
        check.ok(f"{what}: what is newer", all(self.change(one) in (200, 202) for one in newer))
        check.equal(f"{what}: is there", self.state(), state)
        go.set()
        check.ok(f"{what}: it is executed once more", executed.wait(60 * SLOW))
        check.equal(f"{what}: nothing is taken back", self.state(), state)


def test_late_changes_take_nothing_newer_back(check, cluster):
    """A change is answered 504, repeated, and executed once more after newer ones."""
    with Proxy(cluster) as proxy, serve(cluster, url=proxy.url) as server, Collector(cluster, 0.5):
        for i, row in enumerate(LATE):
            LateRow(i, cluster, proxy, server).run(check, *row)
    remove_all(cluster)


def test_submit_command_survives_a_killed_server(check, cluster):
    """`rest-lit submit` ends with its job although the server is killed before it starts the job."""
    arrived = threading.Event()
    with Proxy(cluster) as proxy, serve(cluster, url=proxy.url) as server, Collector(cluster, 0.5):
        proxy.fault("PATCH", "Framework", framework_name("persistent"), gate=(arrived, None), hang=0)
        with subprocess.Popen([BINARY, "submit", "--server", f"http://127.0.0.1:{server.port}", "-"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
            client.stdin.write(job_text("persistent", "random"))
            client.stdin.close()
            client.stdin = None
            check.ok("submit: about to be started", arrived.wait(60 * SLOW))
            server.kill()
            server.launch()
            out, err = client.communicate(timeout=120 * SLOW)
        check.equal("submit", (client.returncode, out), (0, "alice~persistent\n"))
        check.ok("submit: it says what it does", "trying again for 60 s" in err, err)
        wrong = incomplete(Seen(cluster).of("persistent"), "persistent", "random")
        check.ok("submit: it is whole", wrong is None, wrong or "")
    remove_all(cluster)


SHORT = [test_server_interrupted_at_some_requests_is_replaced, test_late_changes_take_nothing_newer_back,
         test_submit_command_survives_a_killed_server]
TESTS = [test_server_killed_at_each_request_is_replaced, test_server_killed_at_each_request_of_a_held_job_is_replaced, test_server_stopped_at_each_request_is_replaced]
