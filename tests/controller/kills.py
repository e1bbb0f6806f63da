"""Two controllers, of which the leader is killed, or stopped for 20 to 25 s and then its successor killed,
every 45 to 60 s, while Frameworks of four tasks run and the API server is restarted twice.

    tests/controller/run kills [--seed N] [--frameworks N] [--seconds S] [--every A-B] [--restarts N]

Half of the Frameworks begin evenly spread, the others shortly before a kill, so that it comes between
two requests.  Counted by a watch on etcd: no attempt of a task runs twice, nothing is lost, each
Framework ends as it must, and no status takes back what was stored."""
import argparse
import collections
import http.client
import os
import random
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scene import Controller, Scene, Stand, framework, outcome, role, tasks  # first: it sets the path

from cluster import FRAMEWORKS, end_in_order
from count import Count
from ends import STOPPED, leader
from harness import SLOW, Checks, wait_until

STOP_S = (20, 25)
OUTAGES = (signal.SIGTERM, signal.SIGKILL)


class Shapes:
    """Frameworks of four tasks: (object, what is done to it later, the end: code and retries)."""

    def __init__(self, rng):
        self.rng = rng

    def run(self):
        return self.rng.choice((50, 400, 2000, 8000, 25000))

    def plain(self, name):
        return framework(name, role(number=4, failed=-1, run=self.run())), None, (0, 0)

    def task_retries(self, name):
        return framework(name, role(number=4, retries=2, exit="1,1,0", run=self.run() // 3)), None, (0, 0)

    def job_retries(self, name):
        return framework(name, role(number=4, exit="9;8;0", run=self.run() // 3), retries=2), None, (0, 2)

    def free_retries(self, name):
        return framework(name, role(number=4, exit="200;0", fancy=False, run=self.run() // 2), fancy=True), None, (0, 1)

    def fails(self, name):
        return framework(name, role("a", 2, run="never"), role("b", 2, exit=7, run=self.run())), None, (7, 0)

    def gang(self, name):
        return framework(name, role("ps", 2, run="never"), role("worker", 2, succeeded=2, run=self.run())), None, (0, 0)

    def stopped(self, name):
        return framework(name, role(number=4, run="never")), ("stop", self.rng.uniform(0.5, 30)), (STOPPED, 0)

    def deleted(self, name):
        return framework(name, role(number=4, run="never")), (self.rng.choice(("Background", "Foreground")),
                                                              self.rng.uniform(0.1, 30)), None

    def scaled(self, name):
        return framework(name, role("a", 2, run="never"), role("b", 2, succeeded=1, failed=1, run=30000)), \
            ("scale", self.rng.uniform(0.5, 20)), (0, 0)

    def any(self, name):
        kinds = [self.plain, self.plain, self.task_retries, self.job_retries, self.free_retries, self.fails, self.gang,
                 self.stopped, self.deleted, self.scaled]
        return self.rng.choice(kinds)(name)


class Storm:
    def __init__(self, scene, options):
        self.scene, self.options = scene, options
        self.rng = random.Random(options.seed)
        self.shapes = Shapes(random.Random(f"{options.seed} shapes"))
        self.start = time.monotonic()
        self.end = self.start + options.seconds * SLOW
        self.made, self.wanted, self.failures = 0, {}, []
        self.lock = threading.Lock()
        self.later = []  # threads that change Frameworks
        self.over = False
        self.done = collections.Counter()
        # Seconds from SIGKILL of the leader until the other one leads: one that stands by, or that has lost
        # the Lease and starts itself anew.
        self.taken_over = {"standing by": [], "starting anew": []}

    def patiently(self, *request):
        """A request that an outage does not hinder: the status."""
        while True:
            try:
                code = self.scene.api(*request)[0]
                if code < 500 and code != 429:
                    return code
            except (OSError, ValueError, http.client.HTTPException):
                pass
            time.sleep(0.2)

    def one(self):
        with self.lock:
            if self.made >= self.options.frameworks:
                return
            name = f"storm{self.made}"
            self.made += 1
            value, change, self.wanted[name] = self.shapes.any(name)
        self.patiently("POST", FRAMEWORKS, value)
        if change:
            thread = threading.Thread(target=self.guarded, args=(self.change, name, *change))
            thread.start()
            self.later.append(thread)

    def change(self, name, what, after):
        time.sleep(after)
        path = f"{FRAMEWORKS}/{name}"
        if what == "stop":
            self.patiently("PATCH", path, {"spec": {"executionType": "Stop"}}, "application/merge-patch+json")
        elif what == "scale":
            roles = [role("a", 4, run="never"), role("b", 2, succeeded=1, failed=1, run=30000)]
            self.patiently("PATCH", path, {"spec": {"taskRoles": roles}}, "application/merge-patch+json")
            time.sleep(after / 2)
            self.patiently("PATCH", path, {"spec": {"taskRoles": [{**roles[0], "taskNumber": 1}, roles[1]]}},
                           "application/merge-patch+json")
        else:
            self.patiently("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": what})

    def guarded(self, function, *arguments):
        try:
            function(*arguments)
        except Exception as e:
            self.failures.append(f"{function.__name__}: {e!r}")

    def create(self):
        """Evenly spread; the other half belongs to the kills."""
        number = self.options.frameworks // 2
        for i in range(number):
            time.sleep(max(0, self.start + (self.end - self.start) * 0.9 * i / number - time.monotonic()))
            self.one()

    def kill(self):
        least, most = self.options.every
        kills = max(1, int((self.end - self.start) / SLOW / ((least + most) / 2)))
        each = self.options.frameworks // 2 // kills
        stops = 0
        while time.monotonic() < self.end:
            next_at = time.monotonic() + self.rng.uniform(least, most) * SLOW
            if not wait_until(lambda: leader(self.scene.controllers), 90):
                self.failures.append("nobody leads")
                return
            first = leader(self.scene.controllers)
            for _ in range(each):
                self.one()
            time.sleep(self.rng.uniform(0, 0.5))
            if stops % 2:
                self.hold(first)
                if wait_until(lambda: leader(self.scene.controllers), 90):
                    self.kill_one(leader(self.scene.controllers) or first, "starting anew")
            else:
                self.kill_one(first, "standing by")
            stops += 1
            time.sleep(max(0, next_at - time.monotonic()))

    def kill_one(self, first, the_other_is):
        """It is started again when the other one leads."""
        at = time.monotonic()
        first.is_down = True
        first.kill()
        self.done["killed"] += 1
        if wait_until(lambda: leader(self.scene.controllers), 90):
            self.taken_over[the_other_is].append(time.monotonic() - at)
        first.start()
        first.is_down = False

    def hold(self, first):
        first.process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.uniform(*STOP_S))
        first.process.send_signal(signal.SIGCONT)
        self.done["stopped"] += 1
        wait_until(lambda: not first.leads())

    def outage(self):
        for i in range(self.options.restarts):
            at = self.start + (self.end - self.start) * (i + 1) / (self.options.restarts + 1)
            time.sleep(max(0, at - time.monotonic()))
            self.scene.kill(OUTAGES[i % 2])
            time.sleep(self.rng.uniform(0, 5))
            self.scene.start_again()
            self.done["API server restarted"] += 1

    def supervise(self):
        """A controller that ends by itself is started again, as a Deployment does."""
        while not self.over:
            for c in self.scene.controllers:
                if not c.alive() and not c.is_down:
                    self.done["ended by themselves"] += 1
                    print(f"     a controller ended: {c.log()[-200:]!r}", flush=True)
                    c.start()
            time.sleep(0.5)

    def run(self):
        threads = [threading.Thread(target=self.guarded, args=(f,)) for f in (self.create, self.kill, self.outage)]
        threading.Thread(target=self.guarded, args=(self.supervise,), daemon=True).start()
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        while self.made < self.options.frameworks:
            self.one()
        for t in self.later:
            t.join()

    def ended(self):
        followed = {f.name: f for f in self.scene.count.frameworks.values()}
        return all(n in followed and (followed[n].gone or followed[n].state == "Completed") for n in self.wanted)


def tell(scene, name, requests):
    """All that is known of a Framework that went wrong."""
    print(f"     ---- {name}: {tasks(scene.framework(name) or {})}")
    for pod in sorted((p for p in scene.count.pods.values() if p.name.startswith(name + "-")), key=lambda p: p.made):
        print(f"     {pod.name} {pod.uid} attempt {pod.attempt}: {pod.phase}, made {pod.made:.2f}, ran {pod.ran}, "
              f"ended {pod.ended}, dying {pod.dying}, gone {pod.gone}")
    for request in requests:
        if (request[2] or "").partition("-")[0] == name:
            print("     ", *request)


def report(storm, scene, took):
    count = scene.count
    pods = [p for p in count.pods.values() if p.task]
    all_requests = scene.requests()
    requests = collections.Counter((verb, resource) for verb, resource, _, _, _ in all_requests)
    work = sum(n for (_, resource), n in requests.items() if resource != "leases")
    print(f"     {storm.made} Frameworks, {len(pods)} pods in {took:.0f} s; {dict(storm.done)}")
    for the_other_is, seconds in storm.taken_over.items():
        print(f"     taken over by one that is {the_other_is} after", " ".join(f"{s:.1f}" for s in sorted(seconds)), "s")
    print(f"     status writes {sum(f.writes for f in count.frameworks.values())}, requests of the controllers {work}, "
          f"{work / storm.made:.1f} per Framework, {work / len(pods):.1f} per pod, and for Leases {sum(requests.values()) - work}")
    print("     " + ", ".join(f"{v} {r} {n}" for (v, r), n in requests.most_common()))
    for name in [text.partition(":")[0] for text in count.lost() + count.doubled()][:3]:
        tell(scene, name.removeprefix("pod ").partition("-")[0], all_requests)
    strays = count.strays()
    print(f"     second pods of an attempt: {len(strays)}, of which ran {sum(s[2] for s in strays)}; {strays[:5]}")
    print(f"     doubled {len(count.doubled())}, lost {len(count.lost())}, taken back {len(count.taken_back())}", flush=True)


def judge(check, storm, scene):
    check.equal("all went on to the end", storm.failures, [])
    check.ok("all have ended", wait_until(storm.ended, 120), [
        f"{f.name}: {f.state}" for f in scene.count.frameworks.values() if not f.gone and f.state != "Completed"])
    scene.empty_but_frameworks()
    storm.over = True
    report(storm, scene, time.monotonic() - storm.start)
    for name, wanted in storm.wanted.items():
        value = scene.framework(name)
        if wanted is None:
            check.equal(f"{name}: is gone", value, None)
        else:
            check.equal(f"{name}: its end", outcome(value), ("Completed", *wanted))
    scene.count.check(check, "storm")
    check.equal("no pod of nobody", scene.count.pods_of_nobody(), [])


def between(text):
    least, _, most = text.partition("-")
    return float(least), float(most or least)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--frameworks", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--every", type=between, default=(45, 60))
    parser.add_argument("--restarts", type=int, default=2)
    options = parser.parse_args()
    print(f"     seed {options.seed}", flush=True)
    end_in_order()
    check = Checks()
    scene = Scene()
    try:
        with Stand(scene, "--seed", str(options.seed % 1000 + 1)) as scene.stand, Count(scene) as scene.count, \
                Controller(scene) as one, Controller(scene) as two:
            scene.controllers = [one, two]

            def test_storm_of_kills(check):
                storm = Storm(scene, options)
                storm.run()
                judge(check, storm, scene)
            check.run(test_storm_of_kills)
    finally:
        scene.close()
    check.finish()


if __name__ == "__main__":
    main()
