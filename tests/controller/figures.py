"""What the controller needs: requests per Framework, beside those of FrameworkController in the recorded
traces; the time until many pods exist, beside the rate of raw POSTs; CPU time and memory.

    tests/controller/run figures [--frameworks N]"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tarfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scene import PODS, STAND, TESTS, Controller, Scene, Stand, cpu_s, framework, role  # first: it sets the path

from cluster import FRAMEWORKS, end_in_order
from harness import in_threads, wait_until

RAW = os.path.join(os.path.dirname(STAND), "raw")
CLIENTS, AT_ONCE = 4, 32
# Recorded Frameworks that end without trouble: a step is one event, so that nothing is coalesced.
TRACES = ("run-one-succeeds", "policy-none-mixed", "policy-ps-worker")


def recorded():
    """{trace: (tasks, requests by verb and kind)} of TRACES, and the sum of requests of all but the large ones"""
    found, total = {}, collections.Counter()
    with tarfile.open(os.path.join(TESTS, "machine", "traces.tar.xz")) as traces:
        for member in traces:
            name = os.path.basename(member.name).removesuffix(".json")
            if not member.name.endswith(".json") or name.startswith("large-"):
                continue
            trace = json.load(traces.extractfile(member))
            requests = collections.Counter(f"{r['verb']} {r['kind']}" for s in trace["steps"] for r in s["requests"])
            total += requests
            if name in TRACES:
                found[name] = (sum(r["taskNumber"] for r in trace["framework"]["spec"]["taskRoles"]), requests)
    return found, total


def measured(scene, name, number, *roles):
    """Runs so many Frameworks of this shape together; returns the requests of one, by verb and kind."""
    scene.requests()
    for i in range(number):
        scene.create(framework(f"{name}{i}", *roles))
    if not wait_until(lambda: all(scene.state(f"{name}{i}") == "Completed" for i in range(number)), 120):
        raise RuntimeError(f"{name}: does not end")
    time.sleep(1)
    requests = collections.Counter(f"{verb} {resource}" for verb, resource, _, _, _ in scene.requests() if resource != "leases")
    scene.clear()
    return {k: n / number for k, n in requests.items()}


def shown(requests):
    return f"{sum(requests.values()):.1f}: " + ", ".join(f"{n:.1f} {k}" for k, n in sorted(requests.items()))


def requests_per_framework():
    print("Requests of FrameworkController 1.0.1 per Framework, in recorded traces (writes; its reads are watches):")
    traces, total = recorded()
    for name, (tasks, requests) in traces.items():
        print(f"  {name}, {tasks} tasks: {shown(requests)}")
    print(f"  all traces: {total.total() / total['create Pod']:.1f} requests per pod")
    print("Requests of this controller per Framework, counted by the audit log of kube-apiserver:")
    scene = Scene()
    try:
        with Stand(scene, "--run-ms", "500-2000"), Controller(scene):
            ps = [role("ps", 2, run="never"), role("worker", 2, succeeded=2)]
            one, four = [role(run=1000)], [role(number=4, failed=-1)]
            for title, number, roles, trace in (
                    ("1 task succeeds", 1, one, "run-one-succeeds"), ("1 task succeeds", 50, one, "run-one-succeeds"),
                    ("4 tasks succeed", 1, four, "policy-ps-worker"), ("4 tasks succeed", 50, four, "policy-ps-worker"),
                    ("as policy-ps-worker, 4 tasks", 1, ps, "policy-ps-worker"),
                    ("as policy-ps-worker, 4 tasks", 50, ps, "policy-ps-worker")):
                requests = measured(scene, "m", number, *roles)
                print(f"  {title}, {number} at a time: {shown(requests)}", flush=True)
                if sum(requests.values()) > traces[trace][1].total():
                    raise RuntimeError(f"{title}: more requests than {trace}")
    finally:
        scene.close()


class Usage:
    """CPU seconds of the programs since the last call."""

    def __init__(self, scene, stand=None):
        self.scene, self.stand = scene, stand
        with open(os.path.join(scene.directory, "etcd.pid"), encoding="ascii") as f:
            self.etcd = int(f.read())
        self.controller = None
        self.last = self.now()

    def now(self):
        pids = {"kube-apiserver": self.scene.pid, "etcd": self.etcd,
                "controller": self.controller and self.controller.process.pid,
                "stand-in": self.stand and self.stand.process.pid}
        return {name: cpu_s(pid) if pid else 0 for name, pid in pids.items()}

    def since(self):
        now = self.now()
        used = {k: now[k] - self.last[k] for k in now}
        self.last = now
        return ", ".join(f"{k} {v:.1f} s" for k, v in used.items() if v >= 0.05)


def number_of(scene, path):
    value = scene.api("GET", path + "?limit=1")[1]
    return len(value["items"]) + (value["metadata"].get("remainingItemCount") or 0)


def raw_posts(scene, number):
    """Pods per second."""
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "app", "image": "x"}]},
                      "metadata": {"labels": {"a": "b"}, "name": ""}})[:-len('"}}')]
    out = subprocess.run([RAW, "--apiserver", scene.url, "--ca", scene.ca, "--token-file", scene.settings["TOKEN_FILE"],
                          str(number), str(AT_ONCE)], input=pod.encode(), check=True, stdout=subprocess.PIPE).stdout.split()
    return int(out[0]), float(out[1])


def until(condition, seconds, sample=None):
    """As wait_until, but asks the API server twice a second only.  Returns the mean of the samples."""
    end, samples = time.monotonic() + seconds, []
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("does not come to its end")
        for _ in range(10 if sample else 1):
            time.sleep(0.05 if sample else 0.5)
            samples.append(sample() if sample else 0)
    return sum(samples) / max(1, len(samples))


def many(number):
    scene = Scene(counted=False, audited=False)
    try:
        usage = Usage(scene)
        created, seconds = raw_posts(scene, 4 * number)
        print(f"raw POSTs of pods: {created} in {seconds:.1f} s, {created / seconds:.0f}/s; CPU: {usage.since()}", flush=True)
        scene.api("DELETE", PODS, {"gracePeriodSeconds": 0})
        until(lambda: not number_of(scene, PODS), 60)

        def create(client):
            for i in range(client, number, CLIENTS):
                scene.create(framework(f"many{i}", role(number=4, failed=-1)))
        in_threads(CLIENTS, create)
        usage.since()
        start = time.monotonic()
        with Controller(scene, wait=False) as usage.controller:
            c = usage.controller

            def in_flight():
                try:
                    return c.metrics().get(("rest_lit_controller_requests_in_flight", ""), 0)
                except OSError:
                    return 0
            mean = until(lambda: number_of(scene, PODS) >= 4 * number, 600, in_flight)
            seconds = time.monotonic() - start
            print(f"{number} Frameworks wait, the controller starts: {4 * number} pods exist after {seconds:.1f} s, "
                  f"{4 * number / seconds:.0f} pods/s; CPU: {usage.since()}; in the mean {mean:.0f} of 64 requests wait "
                  "for the API server", flush=True)
            with Stand(scene) as usage.stand:
                start = time.monotonic()
                usage.last = usage.now()
                mean = until(lambda: number_of(scene, PODS) == 0, 900, in_flight)
                until(lambda: all((f.get("status") or {}).get("state") == "Completed"
                                  for f in scene.api("GET", FRAMEWORKS)[1]["items"]), 300)
                seconds = time.monotonic() - start
                print(f"... they end after {seconds:.1f} s more; CPU: {usage.since()}; in the mean {mean:.0f} requests "
                      f"wait; peak memory of the controller {c.memory()} MiB", flush=True)
    finally:
        scene.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--frameworks", type=int, default=1000)
    options = parser.parse_args()
    end_in_order()
    requests_per_framework()
    many(options.frameworks)


main()
