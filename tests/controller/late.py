"""Requests of the controller that a proxy executes late, twice or never, or answers wrongly: an end is
final, nothing that was stored is taken back, no attempt of a task runs twice.

count.py is the checker: it sees each status that was ever stored.

    tests/controller/run late                      single requests, each of a job of its own
    TEST_SEED=7 tests/controller/run storm         40 Frameworks (TEST_WHOLE=1: 200), two controllers, kills of
                                                   the leader, 12 % of all requests"""
import argparse
import collections
import contextlib
import json
import os
import random
import threading
import time

from cluster import FRAMEWORKS
from ends import STOPPED, end_is
from faultproxy import Proxy
from harness import SLOW, wait_until
from kills import Storm, judge
from scene import Controller, framework, role, tasks

QUICK = {"bind": 20, "start": 20, "run": 50, "linger": 20}
# The first PATCH, the second, the one before Completed.
PLACES = {"first": 1, "middle": 2, "last": "AttemptDeletionPending"}
WHOLE = os.environ.get("TEST_WHOLE") == "1"
PERCENT = 12
LATE_S = (9, 11, *((20, 60) if WHOLE else ()))
PAGE = {"status": 200, "text": "<html><body>Please log in</body></html>", "headers": {"Content-Type": "text/html"}}
EMPTY = {"status": 200, "text": ""}
SUCCESS = {"status": 200, "headers": {"Content-Type": "application/json"}, "text": json.dumps(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {"kind": "pods"}})}


class Pause:
    """In the place of an event: a time from the answer on, in s."""

    def __init__(self, seconds):
        self.seconds = seconds

    def wait(self, _):
        time.sleep(self.seconds)


def late(when):
    """Answered 504, and executed `when` (an event, or seconds)."""
    return {"status": 504, "late": Pause(when) if isinstance(when, (int, float)) else when, "executed": threading.Event()}


def state_of(body):
    """The state of the Framework in the status that a PATCH writes, or None."""
    values = [o["value"] for o in json.loads(body) if o["path"] == "/status"]
    return values[0].get("state") if values else None


class Chooser(Proxy):
    """Faults of a PATCH of a Framework, by its number or as the first that writes a state."""

    def __init__(self, cluster):
        self.chosen = {}  # (Framework, number or state): what
        self.states = collections.defaultdict(list)  # of each Framework: the states that were written
        self.body, self.first = threading.local(), {}  # of each request: its first time
        super().__init__(cluster)

    def record(self, method, path, body):
        self.body.text = body

    def find(self, step):
        what, (method, kind, name) = super().find(step), step
        self.first.setdefault(step, time.monotonic())
        if (method, kind) != ("PATCH", "Framework"):
            return what
        state = state_of(self.body.text)
        with self.lock:
            self.states[name].append(state)
            number = (name, len(self.states[name]))
            return self.chosen.pop(number if number in self.chosen else (name, state), what)


@contextlib.contextmanager
def behind(check, scene, proxy, number=1):
    """Controllers whose requests the proxy has, in the place of those of the scene."""
    resting = scene.controllers
    for c in resting:
        c.stop()
    try:
        with proxy, contextlib.ExitStack() as stack:
            scene.controllers = [stack.enter_context(Controller(scene, url=proxy.url)) for _ in range(number)]
            yield
            for c in scene.controllers:
                if c.alive():
                    c.stop()
    finally:
        scene.controllers = resting
        for c in resting:
            c.start()
    check.ok("the controllers are there again", wait_until(
        lambda: all(c.status("/readyz") == 200 for c in scene.controllers)))


def seen_by_the_count(scene):
    """It has all that was stored before this call."""
    version = int(scene.api("GET", FRAMEWORKS + "?limit=1")[1]["metadata"]["resourceVersion"])
    return wait_until(lambda: scene.count.revision >= version)


# ---- one request ------------------------------------------------------------------------
def faults(ended):
    """{word: what}: of one PATCH."""
    return {**{f"late{s}": late(s) for s in LATE_S}, "lateend": late(ended),
            "lost": {"status": 504}, "done": {"status": 504, "passed": True},
            "hangs": {"hang": 0}, "hangsdone": {"hang": 0, "passed": True},
            "twice": {"twice": True}, "twicefirst": {"twice": False},
            "page": PAGE, "empty": {**EMPTY, "passed": True}}


def remove_without_effect(scene, proxy):
    """{Framework: (kind, name)}: the first DELETE of this object is not executed."""
    rows = {}
    for word, what in (("page", PAGE), ("empty", EMPTY), ("success", SUCCESS)):
        for i in range(3):
            name = f"void{word}{i}"
            rows[name] = ("Pod", f"{name}-w-0") if i else ("ConfigMap", f"{name}-attempt")
            proxy.fault("DELETE", *rows[name], **what)
            scene.create(framework(name, role(**QUICK)))
    return rows


def test_one_late_or_lost_request_changes_no_end(check, scene):
    """Of one PATCH of a status, or one DELETE, for each job another one.  A task is tried again, and ends as
    its row says."""
    rows, ended = {}, threading.Event()
    with behind(check, scene, proxy := Chooser(scene)):
        for place, state in PLACES.items():
            for word, what in faults(ended).items():
                rows[f"late{place}{word}"] = proxy.chosen[f"late{place}{word}", state] = what
        start = time.monotonic()
        removed = remove_without_effect(scene, proxy)
        # A GET that settles a POST without an answer: what is answered is not the pod.
        proxy.fault("POST", "Pod", "settled-w-0", status=504, passed=True)
        proxy.fault("GET", "Pod", "settled-w-0", **SUCCESS)
        scene.create(framework("settled", role(**QUICK)))
        for i, name in enumerate(rows):
            scene.create(framework(name, role(retries=1, exit=f"1,{i % 2}", **QUICK)))
        for i, name in enumerate(rows):
            check.equal(f"{name}: its tasks", tasks(end_is(check, scene, name, i % 2)), {("w", 0): ("Completed", i % 2, 1)})
        print(f"     {len(rows)} PATCHes: all have ended after {time.monotonic() - start:.1f} s", flush=True)
        ended.set()
        for name, (kind, what) in removed.items():
            # The second one comes 10 s after the first, a third would come 20 s later.
            end_is(check, scene, name, 0)
            check.equal(f"{name}: DELETEs", proxy.count("DELETE", kind, what), 2)
        check.ok("late: all is seen", seen_by_the_count(scene))
        took = [scene.count.named(name).completed - proxy.first["DELETE", *what] for name, what in removed.items()]
        print(f"     {len(removed)} DELETEs: all is gone after {time.monotonic() - start:.1f} s; from a DELETE without effect "
              f"to the end {min(took):.1f} to {max(took):.1f} s", flush=True)
        end_is(check, scene, "settled", 0)
        check.equal("settled: each pod was created once", [s for s in scene.count.strays() if s[0] == "settled-w-0"], [])
        check.equal("late: all faults were done", list(proxy.chosen), [])
        for name, what in rows.items():
            if "late" in what and check.ok(f"{name}: was executed late", what["executed"].wait(90 * SLOW)):
                check.ok(f"{name}: is refused", what["late"] is not ended or what["reply"][0] == 422, what["reply"][0])
        check.ok("late: all is seen", seen_by_the_count(scene))
        scene.count.check(check, "late")
    for name in (*rows, *removed, "settled"):
        scene.remove(name)


def test_removal_without_effect_is_repeated_by_the_next_leader(check, scene):
    """No DELETE of this leader has an effect.  It is killed."""
    with behind(check, scene, proxy := Proxy(scene)):
        for kind, name in (("Pod", "voidkill-w-0"), ("ConfigMap", "voidmap-attempt")):
            proxy.fault("DELETE", kind, name, times=None, **SUCCESS)
        for name in ("voidkill", "voidmap"):
            scene.create(framework(name, role(failed=-1, run=50), role("other", run="never")))
        check.ok("voidkill: the pod that has ended stays", wait_until(
            lambda: proxy.count("DELETE", "Pod", "voidkill-w-0") and
            tasks(scene.framework("voidkill"))["w", 0][0] == "AttemptDeletionRequested"))
        for name in ("voidkill", "voidmap"):
            scene.patch(name, {"spec": {"executionType": "Stop"}})
        check.ok("voidmap: its ConfigMap stays", wait_until(
            lambda: proxy.count("DELETE", "ConfigMap", "voidmap-attempt") and
            scene.state("voidmap") == "AttemptDeletionRequested"))
        scene.controllers[0].kill()
    for name in ("voidkill", "voidmap"):
        end_is(check, scene, name, STOPPED)
        scene.remove(name)


# ---- a storm ----------------------------------------------------------------------------
class Weather(Proxy):
    """Of all requests, `percent` have a fault."""
    DRAWN = {
        "late": lambda rng: late(rng.uniform(0.2, 30)), "lost": lambda _: {"status": 504},
        "done and 504": lambda _: {"status": 504, "passed": True}, "cut": lambda _: {"cut": 0, "reset": True},
        "done and cut": lambda _: {"cut": 0, "passed": True}, "hangs": lambda _: {"hang": 0},
        "done and hangs": lambda _: {"hang": 0, "passed": True}, "twice": lambda rng: {"twice": rng.random() < 0.5},
        "html": lambda _: PAGE, "empty": lambda _: EMPTY, "success": lambda _: SUCCESS, "busy": lambda _: {"status": 429}}
    OF_WATCHES = ("lost", "cut", "busy")

    def __init__(self, cluster, seed):
        self.rng, self.percent, self.struck = random.Random(f"{seed} weather"), 0, []
        super().__init__(cluster)

    def find(self, step):
        what = super().find(step)
        with self.lock:
            if self.rng.random() * 100 < self.percent:
                kinds = [k for k in self.DRAWN if step[0] != "WATCH" or k in self.OF_WATCHES]
                kind = self.rng.choice(kinds)
                what = dict(self.DRAWN[kind](self.rng))
                self.struck.append((kind, step, what))
        return what

    def clears(self):
        """No more faults; all late requests are executed."""
        self.percent = 0
        return [step for _, step, what in self.struck if "late" in what and not what["executed"].wait(60 * SLOW)]


def test_storm_of_faults_and_kills(check, scene):
    """Frameworks of four tasks that are stopped, deleted and scaled (kills.py)."""
    seed = int(os.environ.get("TEST_SEED") or random.randrange(1 << 32))
    number, seconds = (200, 240) if WHOLE else (40, 60)
    print(f"     TEST_SEED={seed}", flush=True)
    with behind(check, scene, proxy := Weather(scene, seed), 2):
        storm = Storm(scene, argparse.Namespace(frameworks=number, seconds=seconds, every=(20, 25), restarts=0, seed=seed))
        proxy.percent = PERCENT
        storm.run()
        check.ok("storm: all end", wait_until(storm.ended, 300))
        check.equal("storm: all late requests were executed", proxy.clears(), [])
        replies = [what["reply"] for kind, step, what in proxy.struck if kind == "late" and step[:2] == ("POST", "Pod")]
        scene.count.late |= {json.loads(text)["metadata"]["uid"] for code, _, text in replies if code == 201}
        kinds = collections.Counter(kind for kind, _, _ in proxy.struck)
        print(f"     {len(proxy.struck)} of {len(proxy.requests)} requests had a fault: {dict(kinds)}", flush=True)
        judge(check, storm, scene)
        for name in {text.partition(",")[0] for text in scene.count.doubled()}:
            print(f"     faults of {name}: {[(kind, step[0]) for kind, step, _ in proxy.struck if step[2] == name]}", flush=True)
