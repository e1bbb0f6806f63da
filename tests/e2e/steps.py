"""Each kind of fault at each request of a submission or its cleanup."""
import threading
import time

from cluster import PATHS
from faultproxy import Proxy
from harness import SLOW, framework_name, in_threads, secret_forms
from promise import Seen, broken_promise, collect, incomplete, is_started, job_text, marker, remove_all, serve, wait_settled

# Deadlines of servers with a permanent or hanging fault; other servers have long ones.
DEADLINE = 15 if SLOW == 1 else 20
AGE = DEADLINE + 10
AT_ONCE = 8 if SLOW == 1 else 4  # kinds of faults

TEXT = "The server is currently unable to handle the request"
TOO_LARGE = "etcdserver: request is too large"
HALF = 150  # bytes of a response, within its head
MOST = 700  # bytes of a response, within its body

# Result of a fault at one of the first six steps:
#   GENTLE   the job is created
#   LOST_IT  likewise, if the server can read the object; otherwise the submission is undone
#   BITTER   undefined, within the contract
# At later steps, faults other than BITTER have no effect.
GENTLE, LOST_IT, BITTER = range(3)

# name; the fault; how often (None: for ever); what comes of it
FAULTS = [
    ("none", None, 1, GENTLE),
    ("slow to close", {"passed": True, "close": True}, 1, GENTLE),
    ("409", {"status": 409, "reason": "AlreadyExists"}, 1, BITTER),
    ("409 for ever", {"status": 409, "reason": "AlreadyExists"}, None, BITTER),
    ("429, Retry-After, text", {"status": 429, "headers": {"Retry-After": "1"}, "text": "Too many requests"}, 1, GENTLE),
    ("429 for ever", {"status": 429, "headers": {"Retry-After": "1"}, "text": "Too many requests"}, None, BITTER),
    ("500", {"status": 500}, 1, GENTLE),
    ("500, done", {"status": 500, "passed": True}, 1, LOST_IT),
    ("500 for ever", {"status": 500}, None, BITTER),
    ("500 too large", {"status": 500, "message": TOO_LARGE}, 1, BITTER),
    ("500 too large, for ever", {"status": 500, "message": TOO_LARGE}, None, BITTER),
    ("503 text", {"status": 503, "text": TEXT}, 1, GENTLE),
    ("504, done", {"status": 504, "passed": True}, 1, LOST_IT),
    ("403 for ever", {"status": 403}, None, BITTER),
    ("413", {"status": 413}, None, BITTER),
    ("cut before it is passed on", {"cut": 0}, 1, GENTLE),
    ("cut before it is passed on, RST", {"cut": 0, "reset": True}, 1, GENTLE),
    ("cut before the answer", {"passed": True, "cut": 0}, 1, LOST_IT),
    ("cut before the answer, RST", {"passed": True, "cut": 0, "reset": True}, 1, LOST_IT),
    ("cut before the answer, for ever", {"passed": True, "cut": 0}, None, BITTER),
    ("cut in the head of the answer", {"passed": True, "cut": HALF}, 1, LOST_IT),
    ("cut in the body of the answer", {"passed": True, "cut": MOST}, 1, LOST_IT),
    ("hangs, not passed on", {"hang": 0}, 1, BITTER),
    ("hangs for ever, not passed on", {"hang": 0}, None, BITTER),
    ("hangs before the answer", {"passed": True, "hang": 0}, 1, BITTER),
    ("hangs for ever before the answer", {"passed": True, "hang": 0}, None, BITTER),
    ("hangs in the answer", {"passed": True, "hang": MOST}, 1, BITTER),
]

MARKS = {}
LOST = {"passed": True, "cut": 0}
REFUSED = {"status": 422, "reason": "Invalid"}
FRAMEWORK, CONFIGCRED, REGCRED, ENV, PRIORITY = (
    ("Framework", ""), ("Secret", "-configcred"), ("Secret", "-regcred"), ("ConfigMap", "-env"),
    ("PriorityClass", "-priority"))

# Name; earlier faults that lead to this step; the step; number of similar requests before it; for
# later steps, the response without another fault.
STEPS = [
    ("POST Framework", [], ("POST", FRAMEWORK), 0),
    ("POST Secret configcred", [], ("POST", CONFIGCRED), 0),
    ("POST Secret regcred", [], ("POST", REGCRED), 0),
    ("POST ConfigMap", [], ("POST", ENV), 0),
    ("POST PriorityClass", [], ("POST", PRIORITY), 0),
    ("PATCH Framework", [], ("PATCH", FRAMEWORK), 0),
    ("GET Framework, whose answer was lost", [("POST", FRAMEWORK, LOST, 1)], ("GET", FRAMEWORK), 0, 202),

    ("GET Secret, whose answer was lost", [("POST", REGCRED, LOST, 1)], ("GET", REGCRED), 0, 503),

    ("GET PriorityClass, whose answer was lost", [("POST", PRIORITY, LOST, 1)], ("GET", PRIORITY), 0, 202),

    ("DELETE an old PriorityClass", ["old"], ("DELETE", PRIORITY), 0, 202),

    ("DELETE Framework, undoing", [("PATCH", FRAMEWORK, REFUSED, None)], ("DELETE", FRAMEWORK), 0, 400),

    ("DELETE PriorityClass, undoing", [("PATCH", FRAMEWORK, REFUSED, None)], ("DELETE", PRIORITY), 0, 400),

    ("GET PriorityClass, undoing", [("POST", PRIORITY, LOST, 1), ("GET", PRIORITY, {"status": 400}, 1)],
     ("GET", PRIORITY), 1, 503),
]
OLDER = "0" * 32


def old_class(cluster, name):
    """Creates the PriorityClass of an older job of this name, like that of a server, but of another
    submission."""
    cluster.api("POST", PATHS["PriorityClass"], {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1, "metadata": {
            "name": name, "labels": MARKS["labels"], "annotations": {
                **MARKS["annotations"], "rest-lit/submission": OLDER}}})


def learn_marks(cluster):
    """Reads the labels and annotations with which this version marks its PriorityClasses."""
    with serve(cluster) as server:
        server.submit(job_text("marks"))
    there = cluster.get("PriorityClass", framework_name("marks") + PRIORITY[1])["metadata"]
    MARKS.update(labels=there.get("labels", {}), annotations=there.get("annotations", {}))
    remove_all(cluster)


def without_older(parts):
    """The objects of the job."""
    return {k: o for k, o in parts.items() if o["metadata"].get("annotations", {}).get("rest-lit/submission") != OLDER}


def is_endless(fault):
    return fault[2] is None or "hang" in (fault[1] or ())


class Row:
    """One fault at one step, with a separate job."""

    def __init__(self, number, fault, step):
        self.what = f"{fault[0]} at {step[0]}"
        self.number, self.fault, self.step = number, fault, step
        self.job = f"step-{number}"
        self.reply = None
        self.error = ""
        self.struck = None
        self.took = 0.0

    def prepare(self, cluster, proxy):
        name = framework_name(self.job)
        for first in self.step[1]:
            if first == "old":
                old_class(cluster, name + PRIORITY[1])
            else:
                method, (kind, suffix), what, times = first
                proxy.fault(method, kind, name + suffix, times=times, **what)
        method, (kind, suffix) = self.step[2]
        if self.fault[1]:
            self.struck = proxy.fault(method, kind, name + suffix, times=self.fault[2], skip=self.step[3],
                                      **self.fault[1])

    def submit(self, server):
        start = time.monotonic()
        try:
            self.reply = server.submit(job_text(self.job), seconds=700)
        except OSError as e:
            self.error = repr(e)
        self.took = time.monotonic() - start

    def outcome(self):
        return self.reply.status if self.reply else 0

    def expected(self):
        """The only correct response, or None."""
        number, harm = STEPS.index(self.step), self.fault[3]
        if harm == BITTER:
            return None
        if number < 6:
            return 503 if harm == LOST_IT and self.step[2][1] in (CONFIGCRED, REGCRED) else 202
        return self.step[4]

    def judge(self, check, seen, server):
        reply = self.reply
        if not check.ok(f"{self.what}: is answered", reply is not None,
                        f"{self.error} after {self.took:.1f} s; " + "; ".join(server.log_lines(
                            lambda line: '"CutOff"' in line or '"ClientGone"' in line or self.job in line))):
            return
        if self.expected():
            check.equal(f"{self.what}: status ({reply.message})", reply.status, self.expected())
        wrong = broken_promise(without_older(seen.of(self.job)), self.job, [reply.status])
        check.ok(f"{self.what}: {reply.status} {reply.code}", wrong is None, f"{wrong}; {reply.message}")
        # The deadline may end the request before the fault.
        check.ok(f"{self.what}: the step was reached", self.struck is None or self.struck.struck() or
                 is_endless(self.fault) and self.took >= DEADLINE)
        check.ok(f"{self.what}: 504 says so", (reply.status == 504) == (reply.code == "OutcomeUnknown"), reply)
        check.ok(f"{self.what}: no secret in the answer",
                 not any(form in reply.body for form in secret_forms(marker(self.job))), reply)


def one_fault(check, lock, cluster, number, fault):
    """One kind of fault at every step, concurrently, each with a separate job.  With a separate
    server, because a busy API server affects all jobs."""
    rows = [Row(number * 100 + i, fault, step) for i, step in enumerate(STEPS)]
    limits = ("--deadline", str(DEADLINE)) if is_endless(fault) else ()
    with Proxy(cluster) as proxy, serve(cluster, *limits, "--loops", "1", "--in-flight", "32",
                                        url=proxy.url) as server:
        for row in rows:
            row.prepare(cluster, proxy)
        in_threads(rows, lambda row: row.submit(server))
        with lock:
            collect(cluster)
            seen = Seen(cluster)
            for row in rows:
                row.judge(check, seen, server)
            check.equal(f"{fault[0]}: alive", server.request("GET", "/healthz").status, 200)
            check.ok(f"{fault[0]}: no secret in the log", "Marker-of-a-secret" not in server.settled_log())
            check.equal(f"{fault[0]}: exit status", server.stop(), 0)
    return rows


def table(rows):
    """The responses as a table: a line per fault, a column per step."""
    width = max(len(fault[0]) for fault in FAULTS)
    for i, step in enumerate(STEPS):
        print(f"     {' ' * width} {'|  ' * i}{step[0]}")
    for fault in FAULTS:
        mine = [row.outcome() for row in rows if row.fault is fault]
        print(f"     {fault[0]:{width}} {' '.join(str(s or '-').ljust(3)[:3] for s in mine)}", flush=True)


def test_faults_at_each_step_keep_the_contract(check, cluster):
    learn_marks(cluster)
    lock = threading.Lock()
    waiting = list(enumerate(FAULTS))
    rows = []

    def worker(_):
        while True:
            with lock:
                if not waiting:
                    return
                number, fault = waiting.pop()
            try:
                mine = one_fault(check, lock, cluster, number, fault)
                with lock:
                    rows.extend(mine)
            except Exception as e:
                with lock:
                    check.ok(fault[0], False, repr(e))
    in_threads(AT_ONCE, worker)
    rows.sort(key=lambda row: row.number)
    table(rows)
    settle(check, cluster, rows)
    remove_all(cluster)


def settle(check, cluster, rows):
    """The janitor resolves unknown results."""
    before = Seen(cluster)
    started = {n for n, parts in before.objects.items() if is_started(parts)}
    with serve(cluster, "--deadline", str(DEADLINE), "--janitor-age", str(AGE), "--janitor-interval", "1"):
        start = time.monotonic()
        after = wait_settled(cluster, (3 * AGE + 30) * SLOW)
        print(f"     {len(before.unfinished())} unfinished: gone after {time.monotonic() - start:.1f} s", flush=True)
    check.equal("steps, after the janitor: nothing unfinished",
                [(n, sorted(after.objects[n])) for n in after.unfinished()], [])
    check.equal("steps, after the janitor: what was started", set(after.objects) ^ started, set())
    for row in rows:
        if row.outcome() == 202:
            wrong = incomplete(after.of(row.job), row.job)
            check.ok(f"{row.what}: whole after the janitor", wrong is None, wrong or "")
