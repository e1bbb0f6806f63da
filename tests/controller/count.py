"""A watch of its own on all pods and Frameworks, which sees what a controller does twice, loses or
takes back.

It reads etcd, not the API server: in order, each state of each object, without a gap while the API
server restarts.  The API server must store JSON (--storage-media-type=application/json)."""
import base64
import collections
import gzip
import http.client
import json
import threading
import time
from urllib.parse import urlsplit

from harness import Closing, wait_until

# The second one is that of an apiextensions-apiserver.
PREFIXES = ("/registry/", "/extensions/")
WATCHED = ("/pods/", "/frameworkcontroller.microsoft.com/frameworks/")
LIVE = ("Running", "Succeeded", "Failed")
# Of the attempt of a Framework, and of a task, in their order.
STATES = ("AttemptCreationPending", "AttemptCreationRequested", "AttemptPreparing", "AttemptRunning",
          "AttemptDeletionPending", "AttemptDeletionRequested", "AttemptDeleting", "AttemptCompleted", "Completed")


def text64(value):
    return base64.b64encode(value.encode()).decode()


class Pod:
    """One pod, by uid."""

    def __init__(self, value, at):
        metadata = value["metadata"]
        annotations = metadata.get("annotations") or {}
        self.uid, self.name, self.made = metadata["uid"], metadata["name"], at
        self.framework = annotations.get("FC_FRAMEWORK_UID")
        self.task, self.attempt = annotations.get("FC_TASK_UID"), annotations.get("FC_TASK_ATTEMPT_ID")
        self.ran = self.ended = self.dying = self.gone = None  # times
        self.phase = None

    def see(self, value, at):
        self.phase = (value.get("status") or {}).get("phase")
        if self.phase in LIVE and self.ran is None:
            self.ran = at
        if self.phase in LIVE[1:] and self.ended is None:
            self.ended = at
        if value["metadata"].get("deletionTimestamp") and self.dying is None:
            self.dying = at


def tasks_of(attempt):
    roles = attempt.get("taskRoleStatuses")
    if roles is None and attempt.get("taskRoleStatusesCompressed"):
        roles = json.loads(gzip.decompress(base64.b64decode(attempt["taskRoleStatusesCompressed"])))
    return [(r["name"], t) for r in roles or [] for t in r["taskStatuses"]]


class Followed:
    """One Framework, by uid: what its statuses may not take back."""

    def __init__(self, value, at):
        self.uid, self.name, self.made = value["metadata"]["uid"], value["metadata"]["name"], at
        self.state, self.status, self.writes, self.gone = None, None, 0, None
        self.completed = None
        self.known = {}   # what: a value that stays
        self.counts = {}  # what: a number that grows
        self.states = {}  # what: a state
        self.wrong = []

    def keep(self, what, value):
        if value is None:
            return
        if self.known.setdefault(what, value) != value:
            self.wrong.append(f"{self.name}: {what} was {self.known[what]!r}, is {value!r}")
            self.known[what] = value

    def grow(self, what, n):
        if n < self.counts.get(what, 0):
            self.wrong.append(f"{self.name}: {what} goes from {self.counts[what]} back to {n}")
        self.counts[what] = n

    def move(self, what, state):
        """A state only goes on, except from Running to Preparing: its pod is Pending again."""
        was, self.states[what] = self.states.get(what, state), state
        if STATES.index(state) < STATES.index(was) and (was, state) != ("AttemptRunning", "AttemptPreparing"):
            self.wrong.append(f"{self.name}: {what} goes from {was} back to {state}")

    def retries(self, what, status):
        policy = status.get("retryPolicyStatus") or {}
        self.grow(f"retries of {what}", policy.get("totalRetriedCount") or 0)
        self.grow(f"counted retries of {what}", policy.get("accountableRetriedCount") or 0)

    def see(self, value, at):
        try:
            self.take(value, at)
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            self.wrong.append(f"{self.name}: a status that cannot be read: {e!r}")

    def take(self, value, at):
        status = value.get("status") or None
        if status == self.status:
            return
        self.status, self.state = status, (status or {}).get("state")
        if status is None:
            self.wrong.append(f"{self.name}: the status is gone")
            return
        self.writes += 1
        if self.state == "Completed" and self.completed is None:
            self.completed = at
        elif self.completed is not None:
            self.wrong.append(f"{self.name}: was Completed, and is written again: {self.state}")
        attempt = status.get("attemptStatus") or {}
        number = attempt.get("id")
        self.retries("the Framework", status)
        self.grow("attempt", number or 0)
        self.move(f"attempt {number}", self.state)
        self.keep(f"ConfigMap of attempt {number}", attempt.get("configMapUID"))
        self.keep(f"outcome of attempt {number}", (attempt.get("completionStatus") or {}).get("code"))
        for name, task in tasks_of(attempt):
            # A task that is scaled away and comes again is another one.
            which = f"{name}[{task['index']}] {task.get('instanceUID')}"
            self.retries(which, task)
            inner = task.get("attemptStatus") or {}
            which = f"attempt {inner.get('id')} of {which}"
            self.move(which, task["state"])
            self.keep(f"pod of {which}", inner.get("podUID"))
            self.keep(f"outcome of {which}", (inner.get("completionStatus") or {}).get("code"))


class Count(Closing):
    """Counts from now on; `cluster` has etcd's address."""

    def __init__(self, cluster):
        self.address = urlsplit(cluster.settings["ETCD"])
        self.lock = threading.Lock()
        self.pods, self.frameworks = {}, {}  # by uid
        self.by_key, self.trouble = {}, None
        self.events = self.revision = 0
        self.forgiven = set()  # names of Frameworks whose statuses a test edits
        self.late = set()  # uids of pods whose POST a proxy has executed late
        self.over = False
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()
        if not wait_until(lambda: self.revision or self.trouble) or self.trouble:
            raise RuntimeError(f"no watch on etcd: {self.trouble}")

    def close(self):
        self.over = True
        self.connection.sock.close()

    # ---- the watch ----------------------------------------------------------------------
    def follow(self):
        try:
            self.connection = http.client.HTTPConnection(self.address.hostname, self.address.port)
            creates = [{"create_request": {"key": text64(p), "range_end": text64(p[:-1] + "0")}} for p in PREFIXES]
            self.connection.request("POST", "/v3/watch", "".join(map(json.dumps, creates)),
                                    {"Content-Type": "application/json"})
            reply = self.connection.getresponse()
            for line in iter(reply.readline, b""):
                result = json.loads(line)["result"]
                with self.lock:
                    for event in result.get("events") or []:
                        self.take(event, time.monotonic())
                    self.revision = int(result["header"]["revision"])
            raise RuntimeError("etcd ended the watch")
        except Exception as e:
            if not self.over:
                self.trouble = repr(e)

    def take(self, event, at):
        key = base64.b64decode(event["kv"]["key"]).decode()
        if not any(w in key for w in WATCHED):
            return
        self.events += 1
        if event.get("type") == "DELETE":
            thing = self.by_key.pop(key, None)
            if thing:
                thing.gone = at
            return
        value = json.loads(base64.b64decode(event["kv"]["value"]))
        table, kind = (self.pods, Pod) if WATCHED[0] in key else (self.frameworks, Followed)
        thing = table.get(value["metadata"]["uid"])
        if thing is None:
            thing = table[value["metadata"]["uid"]] = kind(value, at)
        self.by_key[key] = thing
        thing.see(value, at)

    # ---- verdicts -----------------------------------------------------------------------
    def attempts(self):
        """{(task, attempt): pods}"""
        found = collections.defaultdict(list)
        for pod in self.pods.values():
            if pod.task:
                found[pod.task, pod.attempt].append(pod)
        return found

    def doubled(self):
        """Attempts of tasks of which two pods have run.  A POST of a pod tests nothing but its name: if it is executed
        when the pod of its attempt is gone, and nobody leads, that pod runs until the next leader deletes it."""
        found = []
        for (_, attempt), pods in self.attempts().items():
            first = min(pods, key=lambda p: p.made)
            ran = [p.uid for p in pods if p.ran is not None and (p is first or p.uid not in self.late)]
            found += [f"{first.name}, attempt {attempt}: {ran}"] if len(ran) > 1 else []
        return found

    def strays(self):
        """Pods beyond the first of an attempt: (name, seconds of its life, whether it ran)."""
        found = []
        for pods in self.attempts().values():
            for pod in sorted(pods, key=lambda p: p.made)[1:]:
                found.append((pod.name, round((pod.gone or time.monotonic()) - pod.made, 2), pod.ran is not None))
        return found

    def lost(self):
        """Frameworks that have not ended, and pods that are left though their Framework has ended or
        is gone."""
        ended = {f.uid for f in self.frameworks.values() if f.gone or f.state == "Completed"}
        frameworks = [f"{f.name}: {f.state}" for f in self.frameworks.values() if f.uid not in ended]
        pods = [f"pod {p.name} {p.phase}" for p in self.pods.values()
                if not p.gone and p.task and (p.framework in ended or p.framework not in self.frameworks)]
        return frameworks + pods

    def taken_back(self):
        return [w for f in self.frameworks.values() if f.name not in self.forgiven for w in f.wrong]

    def pods_of_nobody(self):
        """Pods that are there and that no task of their Framework's status names."""
        named = {(t.get("attemptStatus") or {}).get("podUID") for f in self.frameworks.values()
                 if not f.gone and f.status for _, t in tasks_of(f.status.get("attemptStatus") or {})}
        return [p.name for p in self.pods.values() if p.task and not p.gone and p.uid not in named]

    def check(self, check, what):
        """0 doubled, 0 lost, nothing taken back."""
        with self.lock:
            check.equal(f"{what}: the count goes on", self.trouble, None)
            check.equal(f"{what}: no attempt runs twice", self.doubled(), [])
            check.equal(f"{what}: nothing is lost", self.lost(), [])
            check.equal(f"{what}: nothing is taken back", self.taken_back(), [])

    def named(self, name):
        """The latest Framework of this name."""
        with self.lock:
            found = [f for f in self.frameworks.values() if f.name == name]
        return max(found, key=lambda f: f.made) if found else None
