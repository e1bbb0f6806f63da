"""What the controller needs: requests per Framework, beside those of FrameworkController in the recorded
traces; the time until many pods exist, beside the same requests alone; CPU time and memory; and its start
beside many finished Frameworks.

    tests/controller/run figures [--frameworks N] [--large N] [--finished N]"""
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

from scene import CONFIGMAPS, PODS, STAND, TESTS, Controller, Scene, Stand, cpu_s, framework, role  # first: it sets the path

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


def cut(value):
    """The JSON of an object up to its name, which is the last member of its metadata."""
    value = {**{k: v for k, v in value.items() if k != "metadata"}, "metadata": {**value.get("metadata", {}), "name": ""}}
    return json.dumps(value)[:-len('"}}')]


def raw(scene, number, what, text):
    """So many requests at AT_ONCE (raw.c); their seconds."""
    out = subprocess.run([RAW, "--apiserver", scene.url, "--ca", scene.ca, "--token-file", scene.settings["TOKEN_FILE"],
                          str(number), str(AT_ONCE), what], input=text.encode(), check=True, stdout=subprocess.PIPE).stdout.split()
    if int(out[0]) != number:
        raise RuntimeError(f"{number} requests ({what}): {out[0].decode()} succeed")
    return float(out[1])


def wipe(scene, *paths):
    for path in paths:
        scene.api("DELETE", path, {"gracePeriodSeconds": 0})
        until(lambda path=path: not number_of(scene, path), 300)


def owned(kind, version):
    """Metadata as those of the controller; the API server does not look whether the owner exists."""
    return {"labels": {"FC_FRAMEWORK_NAME": "raw"}, "annotations": {"FC_FRAMEWORK_NAMESPACE": "default", "FC_TASKROLE_NAME": "w"},
            "ownerReferences": [{"apiVersion": version, "kind": kind, "name": "raw", "uid": "raw",
                                 "controller": True, "blockOwnerDeletion": True}]}


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": owned("ConfigMap", "v1"),
       "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "x"}]}}
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap",
             "metadata": owned("Framework", "frameworkcontroller.microsoft.com/v1")}


def rates(scene, usage, number, status):
    """{kind of request: seconds of one, of so many in a row}; pods as the first."""
    patch = json.dumps([{"op": "add", "path": "/status", "value": status}])
    seconds = {"pods": raw(scene, 4 * number, "pod", cut(POD)) / (4 * number)}
    print(f"raw POSTs of pods: {4 * number} in {4 * number * seconds['pods']:.1f} s, {1 / seconds['pods']:.0f}/s; "
          f"CPU: {usage.since()}", flush=True)
    seconds["configmaps"] = raw(scene, number, "configmap", cut(CONFIGMAP)) / number
    raw(scene, number, "framework", cut(framework("", role(number=4, failed=-1))))
    usage.since()
    seconds["statuses"] = raw(scene, number, "patch", patch) / number
    print(f"raw POSTs of ConfigMaps: {1 / seconds['configmaps']:.0f}/s; raw PATCHes of statuses of {len(patch)} bytes: "
          f"{1 / seconds['statuses']:.0f}/s; CPU of these: {usage.since()}", flush=True)
    wipe(scene, PODS, CONFIGMAPS, FRAMEWORKS)
    return seconds


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


def sample_status(scene, finished):
    """The status of a Framework of four tasks whose pods were just created, or that has ended."""
    with Stand(scene, "--run-ms", "500-2000"), Controller(scene) as c:
        scene.create(framework("sample", role(number=4, failed=-1, **({} if finished else {"run": "never"}))))
        wanted = "Completed" if finished else "AttemptRunning"
        until(lambda: scene.state("sample") == wanted, 60)
        status = scene.framework("sample")["status"]
        scene.clear()
        c.stop()  # gives the Lease back
    return status


def create_many(scene, number):
    def create(client):
        for i in range(client, number, CLIENTS):
            scene.create(framework(f"many{i}", role(number=4, failed=-1)))
    in_threads(CLIENTS, create)


def sent(controller):
    """Requests that had their effect: {verb: number}"""
    return {labels.split('"')[1]: int(n) for (name, labels), n in controller.metrics().items()
            if name == "rest_lit_controller_requests_total" and n and 'outcome="ok"' in labels}


def until_pods_exist(scene, usage, number, seconds):
    """The controller starts beside Frameworks that wait; returns it, and the seconds."""
    usage.since()
    start = time.monotonic()
    usage.controller = c = Controller(scene, wait=False)

    def in_flight():
        try:
            return c.metrics().get(("rest_lit_controller_requests_in_flight", ""), 0)
        except OSError:
            return 0
    mean = until(lambda: number_of(scene, PODS) >= 4 * number, seconds, in_flight)
    took = time.monotonic() - start
    print(f"{number} Frameworks wait, the controller starts: {4 * number} pods exist after {took:.1f} s, "
          f"{4 * number / took:.0f} pods/s; CPU: {usage.since()}; in the mean {mean:.0f} of 64 requests wait for the "
          f"API server; memory {c.memory()} MiB; requests {sent(c)}", flush=True)
    return c, took, in_flight


def many(number):
    scene = Scene(counted=False, audited=False)
    try:
        status = sample_status(scene, False)
        usage = Usage(scene)
        seconds = rates(scene, usage, number, status)
        create_many(scene, number)
        c, took, in_flight = until_pods_exist(scene, usage, number, 600)
        with c:
            requests = sent(c)
            patches = requests.get("patch", 0)
            alone = 4 * number * seconds["pods"]
            same = alone + number * seconds["configmaps"] + patches * seconds["statuses"]
            least = alone + number * seconds["configmaps"] + 2 * number * seconds["statuses"]
            print(f"... {took / alone:.2f} of the POSTs of the pods alone ({alone:.1f} s); {took / same:.2f} of all requests "
                  f"that it has sent, alone ({same:.1f} s). Two statuses a Framework must be stored before its pods: "
                  f"with these the least is {least / alone:.2f}", flush=True)
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


def large(number):
    """Memory with many pods."""
    scene = Scene(counted=False, audited=False)
    try:
        create_many(scene, number)
        until_pods_exist(scene, Usage(scene), number, 3600)[0].close()
    finally:
        scene.close()


def pages(scene):
    """Reads all Frameworks as a list of 500 at a time; their number, the seconds."""
    start, number, after = time.monotonic(), 0, ""
    while True:
        value = scene.api("GET", f"{FRAMEWORKS}?limit=500{after}")[1]
        number += len(value["items"])
        if not value["metadata"].get("continue"):
            return number, time.monotonic() - start
        after = "&continue=" + value["metadata"]["continue"]


def until_it_leads(scene):
    """Seconds from the Lease until all objects are known; CPU seconds; memory in MiB."""
    with Controller(scene, wait=False) as c:
        def known():
            return "all objects are known" in c.log()
        while "this process has the Lease" not in c.log():
            time.sleep(0.01)
        start = time.monotonic()
        while not known():
            time.sleep(0.01)
        took = time.monotonic() - start
        time.sleep(1)
        found = took, c.cpu_s(), c.memory()
        if c.stop():
            raise RuntimeError(f"the controller ended: {c.log()[-800:]}")
        return found


def start_beside_finished(number):
    scene = Scene(counted=False, audited=False)
    try:
        done = {**framework("", role(number=4, failed=-1)), "status": sample_status(scene, True)}
        empty = until_it_leads(scene)
        raw(scene, number, "framework", cut(done))
        listed, seconds = pages(scene)
        took, cpu, memory = until_it_leads(scene)
        print(f"{listed} finished Frameworks: a list of them takes {seconds:.1f} s; from the Lease until all are known "
              f"{took:.1f} s ({empty[0]:.1f} s without them), {cpu:.1f} s of CPU, {memory} MiB", flush=True)
    finally:
        scene.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--frameworks", type=int, default=1000)
    parser.add_argument("--large", type=int, default=0, help="so many Frameworks of four tasks: memory")
    parser.add_argument("--finished", type=int, default=0, help="so many finished Frameworks: the start")
    options = parser.parse_args()
    end_in_order()
    if options.finished:
        start_beside_finished(options.finished)
    elif options.large:
        large(options.large)
    else:
        requests_per_framework()
        many(options.frameworks)


main()
