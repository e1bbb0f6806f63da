"""Frameworks in queues of Kueue, whose place kueue/kueue.py takes.  What is counted is not ours: the requests of the pods
that exist, by the administrator's own look at them."""
import collections
import os
import random
import re
import threading
import time

from bad import BINDING
from ends import STOPPED, all_run, end_is
from harness import Closing, run, wait_until
from kueue.kueue import GUARD, LOCAL_QUEUES, WORKLOADS, Kueue, condition, cpu, is_true
from faultproxy import Proxy
from late import Pause, behind
from scene import LEASES, PODS, framework, outcome, role, tasks
from tokens import write_file

QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
EVICTED = -130
QUICK = {"bind": 20, "start": 20, "linger": 20}


def pod(cpus="1", **more):
    return {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **more, "containers": [
        {"name": "app", "image": "x", "resources": {"requests": {"cpu": cpus}}}]}}


def job(name, number=2, queue="lq", priority=None, cpus="1", roles=None, template=None, **stand):
    labels = {QUEUE: queue, **({CLASS: priority} if priority else {})}
    return framework(name, *(roles or [role(number=number, failed=1, pod=template or pod(cpus), **{**QUICK, **stand})]),
                     labels=labels)


class Quota(Closing):
    """Counts, again and again, what the existing pods request."""

    def __init__(self, scene, limit):
        self.scene, self.limit, self.most, self.looks, self.wrong = scene, limit, 0, 0, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)
        self.thread.start()

    def go(self):
        while not self.over.wait(0.2):
            try:
                items = self.scene.api("GET", PODS)[1].get("items", [])
            except (OSError, ValueError, AttributeError):
                continue
            used = sum(cpu(c["resources"].get("requests", {}).get("cpu", 0)) for p in items if p["metadata"].get("labels")
                       for c in p["spec"]["containers"])
            self.looks, self.most = self.looks + 1, max(self.most, used)
            if used > self.limit * 1000:
                self.wrong.append((used, sorted(p["metadata"]["name"] for p in items)))

    def close(self):
        self.over.set()
        self.thread.join()

    def check(self, check, what):
        self.close()
        print(f"     {what}: {self.looks} looks, at most {self.most / 1000} of {self.limit} cpu", flush=True)
        check.equal(f"{what}: the quota holds", self.wrong[:3], [])


class Collector(Closing):
    """The garbage collector of Workloads: those whose Framework is gone."""

    def __init__(self, scene, kueue):
        self.scene, self.kueue, self.over = scene, kueue, threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)
        self.thread.start()

    def go(self):
        while not self.over.wait(0.3):
            try:
                uids = {f["metadata"]["uid"] for f in self.scene.api("GET", self.scene.collection(
                    "frameworkcontroller.microsoft.com/v1", "Framework", "default"))[1]["items"]}
                for w in self.kueue.items("namespaces/default/workloads"):
                    owner = w["metadata"].get("ownerReferences", [{"uid": None}])[0]["uid"]
                    if owner and owner not in uids and "deletionTimestamp" not in w["metadata"]:
                        self.scene.api("DELETE", f"{WORKLOADS}/{w['metadata']['name']}")
            except (OSError, ValueError, KeyError, TypeError):
                pass

    def close(self):
        self.over.set()
        self.thread.join()


class Queues(Closing):
    """Kueue, its garbage collector, and the rights of the option."""

    def __init__(self, scene, cpus=4, queue=True, **more):
        scene.apply("options/kueue/rbac.yaml")
        self.scene, self.kueue = scene, Kueue(scene)
        self.collector = Collector(scene, self.kueue)
        if queue:
            self.kueue.queue(cpus, **more)

    def close(self):
        for name in self.scene.names("Framework"):
            self.scene.remove(name)
        wait_until(lambda: not self.kueue.items("namespaces/default/workloads"))
        self.collector.close()
        for path in ("namespaces/default/localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses"):
            for item in self.kueue.items(path):
                self.scene.api("DELETE", f"/apis/kueue.x-k8s.io/v1beta2/{path}/{item['metadata']['name']}")
        self.kueue.close()


def why(scene, name):
    return (scene.framework(name) or {"metadata": {}})["metadata"].get("annotations", {}).get("rest-lit/waiting", "")


def waits(scene, name, part):
    """Its reason has this part."""
    return wait_until(lambda: part in why(scene, name))


def settled(check, kueue, name, reason):
    """Its Workload is finished, and can be collected."""
    w = {}

    def now():
        w.update(kueue.workload(name) or {})
        return is_true(w, "Finished") and GUARD not in w["metadata"].get("finalizers", [])
    check.ok(f"{name}: its Workload is finished", wait_until(now), w)
    check.equal(f"{name}: as", condition(w, "Finished").get("reason"), reason)


def test_two_jobs_of_which_one_fits(check, scene):
    """The second one starts within 5 s of the first one's last pod."""
    with Queues(scene) as q, Quota(scene, 4) as quota:
        roles = [role("ps", 2, failed=1, pod=pod(), run=9000, **QUICK), role("worker", 2, failed=1, pod=pod(), run=9000, **QUICK)]
        scene.create(job("first", roles=roles))
        check.ok("first: all run", all_run(scene, "first", 4))
        scene.create(job("second", roles=roles))
        check.ok("second: it waits, and says for what", waits(scene, "second", "waits for the queue lq: couldn't assign flavors"),
                 why(scene, "second"))
        check.equal("second: nothing of it is there", (scene.pods("second"), scene.state("second")), ({}, "AttemptCreationPending"))
        check.ok("first: Kueue knows that its pods run", wait_until(lambda: is_true(q.kueue.workload("first"), "PodsReady")))
        check.ok("first: its pods go", wait_until(lambda: not scene.pods("first")))
        gone = time.monotonic()
        check.ok("second: a pod", wait_until(lambda: scene.pods("second")))
        print(f"     the second one starts {time.monotonic() - gone:.2f} s after the last pod of the first one", flush=True)
        for name in ("first", "second"):
            end_is(check, scene, name, 0)
            settled(check, q.kueue, name, "Succeeded")
        check.equal("second: it does not wait any more", why(scene, "second"), "")
        w = q.kueue.workload("first")
        check.equal("its podSets", [(s["name"], s["count"]) for s in w["spec"]["podSets"]], [("ps", 2), ("worker", 2)])
        quota.check(check, "two jobs")
        check.equal("the stand-in had no trouble", q.kueue.trouble, [])


def test_preempted_job_keeps_its_place(check, scene):
    """It gives the quota back when its pods are gone, and is tried again without counting that."""
    with Queues(scene) as q, Quota(scene, 4) as quota:
        classes(q.kueue)
        scene.create(job("lower", 3, priority="low", run="never"))
        check.ok("lower: runs", all_run(scene, "lower", 3))
        scene.create(job("higher", 3, priority="high", run=9000))
        check.ok("higher: runs", all_run(scene, "higher", 3))
        check.ok("lower: waits", waits(scene, "lower", "insufficient unused quota"), why(scene, "lower"))
        check.equal("lower: it was released", (condition(q.kueue.workload("lower"), "Requeued").get("reason"),
                                               q.kueue.workload("lower")["status"].get("admission")), ("Preempted", None))
        end_is(check, scene, "higher", 0)
        check.ok("lower: runs again", all_run(scene, "lower", 3))
        status = scene.framework("lower")["status"]["retryPolicyStatus"]
        check.equal("lower: that does not count", (status["totalRetriedCount"], status["accountableRetriedCount"],
                                                   status["lastCompletionStatus"]["code"]), (1, 0, EVICTED))
        scene.patch("lower", {"spec": {"executionType": "Stop"}})
        end_is(check, scene, "lower", STOPPED, 1)
        settled(check, q.kueue, "lower", "Failed")
        quota.check(check, "preemption")


def classes(kueue):
    for name, value in (("low", 1), ("middle", 5), ("high", 10)):
        kueue.make("workloadpriorityclasses", "WorkloadPriorityClass", name, value=value)


def test_what_cannot_be_admitted_says_why(check, scene):
    """A missing queue, a stopped one, one without the resource, 19 roles, LimitRange's sentence."""
    with Queues(scene) as q:
        many = [role(f"r{i}", 1, pod=pod("10m"), run=50, **QUICK) for i in range(19)]
        rows = {"noqueue": (job("noqueue", queue="none"), "LocalQueue none doesn't exist"),
                "nolist": (job("nolist", template={"spec": {"restartPolicy": "Never", "containers": [
                    {"name": "app", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}),
                           "resource memory unavailable in ClusterQueue"),
                "toolarge": (job("toolarge", 5), "> maximum capacity (4)"),
                "manyroles": (job("manyroles", roles=many), "at most 18 items"),
                "noclass": (job("noclass", priority="nothing"), "WorkloadPriorityClass nothing does not exist")}
        for value, _ in rows.values():
            scene.create(value)
        for name, (_, part) in rows.items():
            check.ok(f"{name}: {part}", waits(scene, name, part), why(scene, name))
            check.equal(f"{name}: nothing runs", (scene.pods(name), scene.state(name)), ({}, "AttemptCreationPending"))
        check.ok("manyroles: an Event", wait_until(lambda: "AdmissionFails" in scene.events_of("manyroles")))
        q.kueue.make("workloadpriorityclasses", "WorkloadPriorityClass", "nothing", value=3)
        end_is(check, scene, "noclass", 0, seconds=120)
        q.kueue.make("namespaces/default/localqueues", "LocalQueue", "none", {"clusterQueue": "cq"})
        end_is(check, scene, "noqueue", 0)
        scene.patch("toolarge", {"spec": {"executionType": "Stop"}})
        end_is(check, scene, "toolarge", STOPPED)
        settled(check, q.kueue, "toolarge", "Failed")


def test_stopped_queue_and_deactivation(check, scene):
    """The attempt ends, the quota goes back; what follows is as Kueue says."""
    with Queues(scene) as q, Quota(scene, 4) as quota:
        path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cq"
        scene.create(job("drained", run="never"))
        check.ok("drained: runs", all_run(scene, "drained", 2))
        scene.api("PATCH", path, {"spec": {"stopPolicy": "HoldAndDrain"}}, "application/merge-patch+json")
        check.ok("drained: its pods go", wait_until(lambda: not scene.pods("drained")))
        check.ok("drained: says why", waits(scene, "drained", "ClusterQueue cq is inactive"), why(scene, "drained"))
        scene.api("PATCH", path, {"spec": {"stopPolicy": "None"}}, "application/merge-patch+json")
        check.ok("drained: runs again", all_run(scene, "drained", 2))
        scene.api("PATCH", f"{WORKLOADS}/drained", {"spec": {"active": False}}, "application/merge-patch+json")
        check.ok("inactive: its pods go", wait_until(lambda: not scene.pods("drained")))
        check.ok("inactive: says why", waits(scene, "drained", "deactivated"), why(scene, "drained"))
        check.ok("inactive: released", wait_until(lambda: not q.kueue.workload("drained")["status"].get("admission")))
        check.equal("inactive: with this very word", condition(q.kueue.workload("drained"), "Requeued").get("reason"), "Deactivated")
        scene.api("PATCH", f"{WORKLOADS}/drained", {"spec": {"active": True}}, "application/merge-patch+json")
        check.ok("active: runs again", all_run(scene, "drained", 2))
        quota.check(check, "stops")
        check.equal("three attempts", outcome(scene.framework("drained"))[2], 2)


def test_workload_is_deleted_by_hand(check, scene):
    """Its quota stays until no pod is left; then there is another one."""
    with Queues(scene, 2) as q, Quota(scene, 2) as quota:
        scene.create(job("bereft", run="never"))
        check.ok("bereft: runs", all_run(scene, "bereft", 2))
        scene.create(job("next", run=200))
        check.ok("next: waits", waits(scene, "next", "insufficient unused quota"))
        before = q.kueue.workload("bereft")["metadata"]["uid"]
        scene.api("DELETE", f"{WORKLOADS}/bereft")
        end_is(check, scene, "next", 0)
        check.ok("bereft: another Workload", wait_until(
            lambda: (q.kueue.workload("bereft") or {"metadata": {"uid": before}})["metadata"]["uid"] != before))
        check.ok("bereft: runs again", all_run(scene, "bereft", 2))
        quota.check(check, "deletion")
        for how in ("Background", "Foreground"):
            scene.remove("bereft", how)
            check.ok(f"{how}: Framework, pods and Workload go", wait_until(
                lambda: not scene.framework("bereft") and not scene.pods("bereft") and not q.kueue.workload("bereft")))
            scene.create(job("bereft", run="never"))
            check.ok(f"{how}: the same name again", all_run(scene, "bereft", 2))


def test_flavors_and_checks_reach_the_pods(check, scene):
    """Node labels, tolerations, what checks add; a contradiction is final."""
    tolerations = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    with Queues(scene, labels={"kind": "gpu"}, tolerations=tolerations) as q:
        scene.create(job("flavoured", 1, run=50, template=pod(nodeSelector={"disk": "ssd"})))
        check.ok("flavoured: a pod", wait_until(lambda: scene.pods("flavoured")))
        spec = next(iter(scene.pods("flavoured").values()), {"spec": {}})["spec"]
        check.equal("flavoured: node labels", spec.get("nodeSelector"), {"disk": "ssd", "kind": "gpu"})
        check.ok("flavoured: tolerations", tolerations[0] in spec.get("tolerations", []), spec)
        end_is(check, scene, "flavoured", 0)
        q.kueue.checks = {"budget": None}
        scene.create(job("checked", 1, run=50))
        check.ok("checked: says what it waits for", waits(scene, "checked", "the admission check budget is Pending"),
                 why(scene, "checked"))
        q.kueue.checks = {"budget": [{"name": "w", "labels": {"paid": "yes"}, "annotations": {"by": "alice"}}]}
        check.ok("checked: a pod", wait_until(lambda: scene.pods("checked")))
        meta = next(iter(scene.pods("checked").values()), {"metadata": {}})["metadata"]
        check.equal("checked: its label and annotation", (meta.get("labels", {}).get("paid"), meta.get("annotations", {}).get("by")),
                    ("yes", "alice"))
        end_is(check, scene, "checked", 0)
        q.kueue.checks = {"budget": [{"name": "w", "nodeSelector": {"kind": "cpu"}}]}
        scene.create(job("contradicts", 1, run=50))
        scene.ends("contradicts")
        check.equal("contradicts: its end", outcome(scene.framework("contradicts"))[:2], ("Completed", -200))
        settled(check, q.kueue, "contradicts", "FailedToStart")
        check.ok("contradicts: says why", any("the node label kind would have two values" in t for t in scene.events_text("contradicts")),
                 scene.events_text("contradicts"))


def test_parts_that_end_free_their_quota(check, scene):
    """Tasks that have ended for good, and those that are scaled away; more than were admitted do not start."""
    with Queues(scene, 3) as q, Quota(scene, 3) as quota:
        scene.create(job("parts", roles=[role("a", 2, failed=-1, pod=pod(), run=300, **QUICK),
                                         role("b", 1, failed=-1, pod=pod(), run="never", **QUICK)]))
        check.ok("parts: one task runs on", all_run(scene, "parts", 1))
        check.ok("parts: two are given back", wait_until(lambda: q.kueue.workload("parts")["status"].get("reclaimablePods") == [
            {"name": "a", "count": 2}]), q.kueue.workload("parts"))
        scene.create(job("uses", 2, run=300))
        end_is(check, scene, "uses", 0)
        value = framework("parts", role("a", 2, failed=-1, pod=pod(), run=300), role("b", 3, failed=-1, pod=pod(), run="never"))
        scene.patch("parts", {"spec": {"taskRoles": value["spec"]["taskRoles"]}})
        check.ok("parts: more is refused, with a sentence", waits(scene, "parts", "submit a second job"), why(scene, "parts"))
        check.equal("parts: no more pods", sorted(scene.pods("parts")), ["parts-b-0"])
        quota.check(check, "parts")


def test_too_many_tasks_of_a_role_hinder_no_other_role(check, scene):
    """One that was scaled beyond its admission; a task of the role behind it is tried again."""
    with Queues(scene, 3):
        def roles(number):
            return [role("a", number, failed=-1, pod=pod(), run="never", **QUICK),
                    role("b", 1, failed=-1, retries=1, pod=pod(), exit="1,0", run=5000, **QUICK)]
        scene.create(job("uneven", roles=roles(1)))
        check.ok("uneven: all run", all_run(scene, "uneven", 2))
        scene.patch("uneven", {"spec": {"taskRoles": framework("uneven", *roles(3))["spec"]["taskRoles"]}})
        check.ok("uneven: says so", waits(scene, "uneven", "submit a second job"), why(scene, "uneven"))
        check.ok("uneven: the other one is tried again, and ends", wait_until(
            lambda: tasks(scene.framework("uneven"))["b", 0] == ("Completed", 0, 1)), tasks(scene.framework("uneven")))


def test_pods_ready_is_what_kueue_waits_for(check, scene):
    """Without it a job is evicted; a task that is tried again is a recovery."""
    with Queues(scene) as q:
        q.kueue.ready_s, q.kueue.recovery_s, q.kueue.backoff_s = 6, 6, 1
        scene.create(job("ready", roles=[role(number=1, retries=3, failed=1, pod=pod(), exit="1,0", run=1500, **{**QUICK, "start": 2500})]))
        scene.create(job("never", 1, start="never"))
        check.ok("ready: PodsReady", wait_until(lambda: is_true(q.kueue.workload("ready"), "PodsReady")))
        check.ok("ready: not any more", wait_until(
            lambda: condition(q.kueue.workload("ready"), "PodsReady").get("reason") in ("WaitForRecovery", "Recovered")))
        end_is(check, scene, "ready", 0)
        check.ok("never: it is evicted", wait_until(lambda: outcome(scene.framework("never"))[2]))
        check.equal("never: for that", condition(q.kueue.workload("never"), "Requeued").get("reason"), "PodsReadyTimeout")


def test_kueue_goes_and_returns(check, scene):
    """Nothing can be created meanwhile; after that all goes on."""
    with Queues(scene) as q:
        scene.create(job("before", 1, run="never"))
        check.ok("before: runs", all_run(scene, "before", 1))
        q.kueue.away()
        scene.create(job("meanwhile", 1, run=50))
        check.ok("meanwhile: says why", waits(scene, "meanwhile", "failed calling webhook"), why(scene, "meanwhile"))
        check.ok("meanwhile: an Event", wait_until(lambda: "AdmissionFails" in scene.events_of("meanwhile")))
        check.equal("before: it runs on", scene.state("before"), "AttemptRunning")
        q.kueue.back()
        end_is(check, scene, "meanwhile", 0, seconds=120)
        scene.patch("before", {"spec": {"executionType": "Stop"}})
        end_is(check, scene, "before", STOPPED)
        settled(check, q.kueue, "before", "Failed")


def test_without_kueue_a_job_says_so(check, scene):
    """A job with a queue says so; one without asks nothing."""
    scene.api("DELETE", BINDING + "-kueue")
    for plural in ("workloads", "localqueues"):
        scene.api("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kueue.x-k8s.io")
    def served():
        try:
            return scene.api("GET", WORKLOADS)[0] == 200
        except ValueError:  # 404 page not found
            return False
    wait_until(lambda: not served())
    with behind(check, scene, proxy := Proxy(scene)):
        scene.create(framework("free", role(run=50)))
        end_is(check, scene, "free", 0)
        check.equal("no request of Kueue", [r for r in proxy.requests if r[1] in ("Workload", "ResourceFlavor")], [])
        scene.create(job("without", 1, run=50))
        check.ok("without: the right is missing", waits(scene, "without", "k8s/deploy/options/kueue has the rights"),
                 why(scene, "without"))
        scene.apply("options/kueue/rbac.yaml")
        check.ok("without: says so", waits(scene, "without", "Kueue 0.15 or later is not installed"), why(scene, "without"))
        with Queues(scene):
            end_is(check, scene, "without", 0, seconds=180)
    for name in ("free", "without"):
        scene.remove(name)


MANAGER = """integrations:
  frameworks: [batch/job, pod]
managedJobsNamespaceSelector:
  matchExpressions:
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}
"""


def test_check_looks_at_kueue_with_the_rights_of_the_option(check, scene):
    facts = write_file(scene.directory, "facts.yaml", "virtualClusters: {default: {queue: lq}, night: {queue: other}}")
    at = ("--apiserver", scene.url, "--apiserver-ca", scene.ca, "--apiserver-token-file", scene.user_token,
          "--namespace", "default", "--no-auth", "--user", "alice", "--facts", facts)

    def says(*wanted):
        """Its lines about Kueue begin with these words."""
        found = []

        def now():
            text = run("check", *at).stdout.decode().replace("\n         -> ", " -> ")
            found[:] = [line for line in text.splitlines() if line[9:].startswith("Kueue: ")]
            return len(found) == len(wanted) and all(re.match(w, line) for w, line in zip(wanted, found))
        check.ok(" | ".join(wanted), wait_until(now), found)
    with Queues(scene):
        scene.bind(check)
        says("skipped  Kueue: list localqueues.* -> sed .* k8s/deploy/options/kueue/check.yaml")
        scene.apply_objects({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
        scene.apply("options/kueue/check.yaml")
        night = "warning  Kueue: virtual cluster night: there is no LocalQueue other in namespace default"
        says(night, "skipped  Kueue: the ConfigMap kueue-manager-config .* 404")
        scene.apply_objects({"apiVersion": "v1", "kind": "ConfigMap", "data": {"controller_manager_config.yaml": MANAGER},
                             "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"}})
        says(night, "ok       Kueue: version v1beta2 leaves pods of jobs alone; LocalQueues in namespace default: 1$")
        for name in ("default", "other"):
            scene.api("POST", LOCAL_QUEUES, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                                             "metadata": {"name": name}, "spec": {"clusterQueue": "cq"}})
        says("failed   Kueue: Kueue takes each pod in namespace default for a job of its own, by the LocalQueue default")
        scene.apply_objects({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "kueue-manager-config", "namespace": "kueue-system"}, "data": {
                "controller_manager_config.yaml": MANAGER.replace("kube-system", "default")}})
        says("ok       Kueue: version v1beta2 leaves .*: 3$" if scene.api("GET", "/api/v1/namespaces/default")[1][
            "metadata"].get("labels") else "failed   Kueue: Kueue takes")  # namespaces have this label since 1.21
    scene.api("DELETE", "/api/v1/namespaces/kueue-system")


class Strikes(Proxy):
    """At chosen requests of each sort, `kill`s, or gives no answer.  Of a sort are those with the same verb and kind; of
    each the `numbers`-th, once for each of `faults`."""

    def __init__(self, cluster, faults, numbers, kill=None):
        self.left = collections.defaultdict(lambda: [(f, n) for n in numbers for f in faults])
        self.seen, self.kill, self.struck = collections.Counter(), kill, collections.Counter()
        self.whole = False
        super().__init__(cluster)

    def find(self, step):
        what = super().find(step)
        sort = step[:2]
        with self.lock:
            if sort[0] == "WATCH" or self.whole or sort[1] is None:
                return what
            self.seen[sort] += 1
            due = next((f for f in self.left[sort] if f[1] <= self.seen[sort]), None)
            if not due:
                return what
            self.left[sort].remove(due)
            self.seen[sort] = 0
            self.struck[sort] += 1
        if self.kill:
            self.kill()
        return dict(due[0]())


def storm(check, scene, q, proxy, what):
    """20 jobs of three priorities, of which those of high priority come last."""
    rng = random.Random(what)
    names = [f"{what}{i}" for i in range(20)]
    with Quota(scene, 4) as quota:
        for i, name in enumerate(names):
            priority = ("low", "middle", "high")[min(2, i // 6)]
            scene.create(job(name, rng.choice((1, 2, 3)), priority=priority, run=rng.choice((300, 1500, 4000))))
            time.sleep(rng.uniform(0, 1.2))
        check.ok(f"{what}: all end", wait_until(lambda: all(scene.state(n) == "Completed" for n in names), 600),
                 [(n, scene.state(n), why(scene, n)) for n in names if scene.state(n) != "Completed"])
        proxy.whole = True
        ends = {n: scene.framework(n) for n in names}
        check.equal(f"{what}: each succeeds", {n: outcome(v)[1] for n, v in ends.items()}, dict.fromkeys(names, 0))
        tried = {n: v["status"]["retryPolicyStatus"] for n, v in ends.items()}
        check.equal(f"{what}: preemptions do not count", [n for n in names if tried[n]["accountableRetriedCount"]], [])
        check.equal(f"{what}: no attempt without one", [
            (n, tried[n]["totalRetriedCount"], q.kueue.evictions.get(n, 0)) for n in names
            if tried[n]["totalRetriedCount"] > q.kueue.evictions.get(n, 0)], [])
        check.ok(f"{what}: all Workloads are finished", wait_until(lambda: all(
            is_true(w, "Finished") and GUARD not in w["metadata"].get("finalizers", [])
            for w in q.kueue.items("namespaces/default/workloads"))))
        check.equal(f"{what}: no quota is used", q.kueue.used(), 0)
        check.ok(f"{what}: no pod is left", wait_until(lambda: not scene.pods(what)))
        print(f"     {sum(q.kueue.evictions.values())} evictions, {sum(t['totalRetriedCount'] for t in tried.values())} attempts "
              f"more; struck: {dict(proxy.struck)}", flush=True)
        quota.check(check, what)
    check.equal("the stand-in had no trouble", q.kueue.trouble, [])


def test_storm_of_kills_in_queues(check, scene):
    """SIGKILL of the controller at requests of each sort, before they are executed and after."""
    numbers = (1, 2, 5) if os.environ.get("TEST_WHOLE") == "1" else (1,)
    faults = [lambda: {"cut": 0, "reset": True}, lambda: {"cut": 0, "passed": True}]
    lock = threading.Lock()

    def kill():
        with lock:
            c = scene.controllers[0]
            c.process.kill()
            c.process.wait()
            scene.api("DELETE", f"{LEASES}/rest-lit-controller")  # so that nobody waits for its end
            c.start()
    with Queues(scene) as q, behind(check, scene, proxy := Strikes(scene, faults, numbers, kill)):
        classes(q.kueue)
        storm(check, scene, q, proxy, "killed")


def test_storm_of_lost_answers_in_queues(check, scene):
    """Requests of each sort that are executed without an answer, late, or never."""
    numbers = (1, 3) if os.environ.get("TEST_WHOLE") == "1" else (1,)
    faults = [lambda: {"status": 504}, lambda: {"status": 504, "passed": True},
              *(lambda s=s: {"status": 504, "late": Pause(s)} for s in (1, 12))]
    with Queues(scene) as q, behind(check, scene, proxy := Strikes(scene, faults, numbers)):
        classes(q.kueue)
        storm(check, scene, q, proxy, "lost")
