"""The cache of jobs during thousands of changes, closed connections, two kills of the API server
and a compaction of etcd: at the end, the list of jobs equals a new LIST."""
import calendar
import collections
import http.client
import json
import os
import threading
import time
import urllib.request

from cluster import FRAMEWORKS
from faultproxy import Proxy
from harness import SLOW, framework_name, wait_until
from promise import remove_all, serve

JOBS, WRITERS = 120, 6
# WATCH_CHANGES=10000 takes more than a minute, most of it the API server's.
CHANGES = int(os.environ.get("WATCH_CHANGES", "2000"))
MERGE = "application/merge-patch+json"
STATES = ("AttemptCreationPending", "AttemptPreparing", "AttemptRunning", "AttemptDeletionPending", "Completed")


def framework(job):
    return {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "metadata": {"name": framework_name(job), "labels": {"userName": "alice", "jobName": job},
                         "annotations": {"jobName": job}},
            "spec": {"executionType": "Start", "retryPolicy": {}, "taskRoles": [{
                "name": "a", "taskNumber": 1,
                "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": 1},
                "task": {"retryPolicy": {}, "pod": {"spec": {"containers": [{"name": "app", "image": "x"}]}}}}]}}


class Writers:
    """Threads that create, change and delete separate Frameworks as fast as possible and retry
    during outages."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.lock = threading.Lock()
        self.made = collections.Counter()
        self.threads = [threading.Thread(target=self.go, args=(i,)) for i in range(WRITERS)]

    def send(self, *request):
        end = time.monotonic() + 300
        while time.monotonic() < end:
            try:
                if self.cluster.api(*request)[0] < 500:
                    break
            except (OSError, ValueError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        with self.lock:
            self.made["all"] += 1

    def change(self, job, n):
        path = f"{FRAMEWORKS}/{framework_name(job)}"
        if n % 50 == 49:
            self.send("DELETE", path)
            self.send("POST", FRAMEWORKS, framework(job))
        status = {"state": STATES[n % len(STATES)], "retryPolicyStatus": {"totalRetriedCount": n}}
        self.send("PATCH", path, {"status": status}, MERGE)

    def go(self, writer):
        jobs = [f"w{writer}-{i}" for i in range(JOBS // WRITERS)]
        for job in jobs:
            self.send("POST", FRAMEWORKS, framework(job))
        n = 0
        while self.count() < CHANGES:
            self.change(jobs[n % len(jobs)], n)
            n += 1
        for job in jobs[::7]:
            self.send("DELETE", f"{FRAMEWORKS}/{framework_name(job)}")

    def count(self):
        with self.lock:
            return self.made["all"]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        for t in self.threads:
            t.join()


class Cutter:
    """Closes watches repeatedly."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.cuts = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go)

    def go(self):
        while not self.over.wait(0.3):
            self.cuts += self.proxy.cut_watches()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def listed(server):
    reply = server.request("GET", "/api/v2/jobs")
    if reply.status != 200:
        return None
    return {row["name"]: (row["debugId"], row["subState"], row["retries"], row["createdTime"]) for row in reply.json}


def there(cluster):
    found = {}
    for o in cluster.api("GET", FRAMEWORKS)[1]["items"]:
        status = o.get("status", {})
        made = time.strptime(o["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
        found[o["metadata"]["annotations"]["jobName"]] = (
            o["metadata"]["name"], status.get("state", STATES[0]),
            status.get("retryPolicyStatus", {}).get("totalRetriedCount", 0), calendar.timegm(made) * 1000)
    return found


def difference(cluster, server):
    ours, theirs = listed(server) or {}, there(cluster)
    return {job: (ours.get(job), theirs.get(job)) for job in ours.keys() | theirs.keys() if ours.get(job) != theirs.get(job)}


def same(check, what, cluster, server):
    ok = wait_until(lambda: not difference(cluster, server), 60)
    wrong = {} if ok else difference(cluster, server)
    check.ok(f"{what}: the list is what is there", not wrong, f"{len(wrong)}: {list(wrong.items())[:3]}")


def compact(cluster):
    """Compacts etcd, which happens every five minutes in a cluster."""
    etcd = cluster.settings["ETCD"]

    def ask(path, body):
        request = urllib.request.Request(etcd + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60 * SLOW) as reply:
            return json.loads(reply.read())
    revision = ask("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    ask("/v3/kv/compaction", {"revision": revision, "physical": True})


def test_watch_of_many_changes_equals_a_new_list(check, cluster):
    proxy = Proxy(cluster)
    with proxy, serve(cluster, "--watch-page", "50", url=proxy.url) as server:
        check.ok("watch: ready", server.ready())
        start = time.monotonic()
        with Writers(cluster) as writers, Cutter(proxy) as cutter:
            wait_until(lambda: writers.count() >= CHANGES / 2, 600)
            cluster.kill()
            cluster.start_again()
            wait_until(lambda: writers.count() >= CHANGES, 600)
        seconds = time.monotonic() - start
        same(check, "many changes", cluster, server)
        lists = proxy.count("GET", "Framework", None)
        print(f"     {writers.count()} changes in {seconds:.1f} s, {cutter.cuts} watches cut, "
              f"{proxy.count('WATCH', 'Framework', None)} watches, {lists} pages of lists", flush=True)
        check.ok("many changes: watches were cut", cutter.cuts >= 3, cutter.cuts)
        missed_and_compacted(check, cluster, server, proxy)
        check.equal("watch: exit status", server.stop(), 0)
        check.equal("watch: nothing was taken for broken", server.log_lines("unknown"), [])
    remove_all(cluster)


def missed_and_compacted(check, cluster, server, proxy):
    """Missed changes are no longer available as events; a new LIST contains them."""
    away = proxy.fault("WATCH", "Framework", None, times=None, status=503)
    proxy.cut_watches()
    check.ok("missed: it is away", wait_until(away.struck))
    for job in list(there(cluster))[:20]:
        cluster.api("DELETE", f"{FRAMEWORKS}/{framework_name(job)}")
    cluster.api("POST", FRAMEWORKS, framework("late"))
    compact(cluster)
    cluster.kill()  # discards its watch cache, too
    cluster.start_again()
    before = proxy.count("GET", "Framework", None)
    with proxy.lock:
        proxy.faults.remove(away)
    same(check, "after 410", cluster, server)
    check.ok("after 410: by a list", proxy.count("GET", "Framework", None) > before, proxy.requests[-20:])
