"""A stand-in for Kueue 0.19.2: it answers as the traces beside it say (replay.py), and nothing else.  Its resources are
those of the real API server; quota of one resource by flavours, priorities with preemption, admission checks, stops."""
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bad import HOOKS, certificate
from harness import Closing, wait_until

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/namespaces/default/workloads"
LOCAL_QUEUES = f"{API}/namespaces/default/localqueues"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPLY = "application/apply-patch+yaml"
GUARD = "rest-lit/pods"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
NAME = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}


def members(required=(), **properties):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def listing(item, key=None, **more):
    return {"type": "array", "items": item, **({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
                                               if key else {}), **more}


SPEC = members(
    ["podSets"], queueName=TEXT, priority=NUMBER, active={"type": "boolean", "default": True}, priorityClassRef=OPEN,
    maximumExecutionTimeSeconds=NUMBER,
    podSets=listing(members(["name", "count", "template"], name={**NAME, "default": "main"}, count=NUMBER, template=OPEN),
                    "name", maxItems=18))
CONDITION = members(["type", "status", "reason", "message", "lastTransitionTime"], type=TEXT, status=TEXT,
                    reason={**TEXT, "minLength": 1}, message=TEXT, observedGeneration=NUMBER, lastTransitionTime=TEXT)
STATUS = members(admission=OPEN, conditions=listing(CONDITION, "type"), requeueState=OPEN,
                 reclaimablePods=listing(members(["name", "count"], name=TEXT, count=NUMBER), "name"),
                 admissionChecks=listing(OPEN))
KINDS = {"workloads": ("Workload", True, SPEC, STATUS), "resourceflavors": ("ResourceFlavor", False, OPEN, OPEN),
         "clusterqueues": ("ClusterQueue", False, OPEN, OPEN), "localqueues": ("LocalQueue", True, OPEN, OPEN),
         "workloadpriorityclasses": ("WorkloadPriorityClass", False, None, None)}


def definition(plural, kind, namespaced, spec, status):
    schema = members(spec=spec, status=status) if spec else members(value=NUMBER)
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.kueue.x-k8s.io"},
            "spec": {"group": "kueue.x-k8s.io", "scope": "Namespaced" if namespaced else "Cluster",
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": kind + "List"},
                     "versions": [{"name": "v1beta2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
                                   **({"subresources": {"status": {}}} if status else {})}]}}


def cpu(text):
    """In thousandths."""
    text = str(text)
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def shown(milli):
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def condition(workload, kind):
    workload = workload or {}
    return next((c for c in workload.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def is_true(workload, kind):
    return condition(workload, kind).get("status") == "True"


def requests(workload):
    """[(podSet, count, {resource: thousandths of one pod})]"""
    found = []
    for s in workload["spec"]["podSets"]:
        each = {}
        for container in s["template"].get("spec", {}).get("containers", []):
            for name, value in container.get("resources", {}).get("requests", {}).items():
                each[name] = each.get(name, 0) + (cpu(value) if name == "cpu" else 1)
        found.append((s["name"], s["count"], each))
    return found


def validate(request):
    """The validating webhook, and the rules of the real definition: (code, message) of what is wrong, or None."""
    new, old = request["object"], request.get("oldObject") or {}
    denied = 'admission webhook "vworkload.kb.io" denied the request: '
    if new["spec"].get("priorityClassRef") and new["spec"].get("priority") is None:
        return 422, "spec: Invalid value: priority should not be nil when priorityClassRef is set"
    if not old or not (is_true(old, "QuotaReserved") and old.get("status", {}).get("admission")):
        return None
    if new["spec"].get("queueName") != old["spec"].get("queueName"):
        return 422, "<nil>: Invalid value: queueName is immutable while workload quota reserved"
    for i, (a, b) in enumerate(zip(new["spec"]["podSets"], old["spec"]["podSets"])):
        if a != b:
            return 403, f"{denied}spec.podSets.{i}: Invalid value: {json.dumps(a)}: field is immutable"
    counts = {r["name"]: r["count"] for r in new.get("status", {}).get("reclaimablePods") or []}
    for r in (old["status"].get("reclaimablePods") or []) if is_true(new, "QuotaReserved") else []:
        if counts.get(r["name"], 0) < r["count"]:
            return 403, (f"{denied}status.reclaimablePods[{r['name']}].count: Invalid value: {counts.get(r['name'], 0)}: "
                         f"cannot be less than {r['count']}")
    return None


class Review(BaseHTTPRequestHandler):
    """The webhooks; that of pods admits all."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        wrong = None if request["kind"]["kind"] == "Pod" else validate(request)
        response = {"uid": request["uid"], "allowed": not wrong, **({"status": {
            "message": wrong[1], "code": wrong[0], "reason": "Forbidden" if wrong[0] == 403 else "Invalid"}} if wrong else {})}
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Kueue(Closing):
    """`checks`: {admission check: podSetUpdates, or None while it is pending}; `ready_s`: waitForPodsReady."""

    def __init__(self, scene):
        self.scene, self.checks, self.ready_s, self.recovery_s = scene, {}, None, None
        self.classes, self.backoff_s, self.over, self.paused = {}, 60, threading.Event(), threading.Event()
        self.evictions = {}  # of each Workload, by name
        self.first, self.trouble = {}, []  # of each Workload: when it was admitted or lost its pods
        for plural, row in KINDS.items():
            scene.apply_objects(definition(plural, *row))
        wait_until(lambda: all(scene.api("GET", f"{API}/{p}")[0] == 200 for p in KINDS))
        self.hook()
        self.thread = threading.Thread(target=self.go, daemon=True)
        self.thread.start()

    # ---- webhooks ----
    def hook(self, port=0):
        context, bundle = certificate()
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Review)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        rules = {"workload": ("kueue.x-k8s.io", "v1beta2", ["workloads", "workloads/status"], ["CREATE", "UPDATE"]),
                 "pod": ("", "v1", ["pods"], ["CREATE"])}
        for name, (group, version, resources, operations) in rules.items():
            self.scene.apply_objects({
                "kind": "ValidatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1",
                "metadata": {"name": f"kueue-{name}"},
                "webhooks": [{"name": f"v{name}.kb.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                              "failurePolicy": "Fail", "timeoutSeconds": 10,
                              "clientConfig": {"url": f"https://127.0.0.1:{self.port}/validate", "caBundle": bundle},
                              "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": operations,
                                         "resources": resources}]}]})
        probe = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "probe"},
                 "spec": {"podSets": [{"name": "m", "count": 1, "template": {}}]}}
        wait_until(lambda: self.scene.api("POST", WORKLOADS + "?dryRun=All", probe)[0] == 201)

    def away(self):
        """The manager is stopped; its webhook configurations stay."""
        self.paused.set()
        self.server.shutdown()
        self.server.server_close()

    def back(self):
        self.hook(self.port)
        self.paused.clear()

    def close(self):
        self.over.set()
        self.thread.join()
        for name in ("workload", "pod"):
            self.scene.api("DELETE", HOOKS.replace("mutating", "validating") + f"/kueue-{name}")
        self.server.shutdown()
        self.server.server_close()

    # ---- the queue ----
    def make(self, path, kind, name, spec=None, **more):
        value = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **more}
        if spec is not None:
            value["spec"] = spec
        self.scene.api("POST", f"{API}/{path}", value)

    def queue(self, cpus, name="lq", cluster_queue="cq", flavor="default", labels=None, tolerations=None):
        self.make("resourceflavors", "ResourceFlavor", flavor, {
            **({"nodeLabels": labels} if labels else {}), **({"tolerations": tolerations} if tolerations else {})})
        self.make("clusterqueues", "ClusterQueue", cluster_queue, {
            "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
                {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}]}]})
        self.make("namespaces/default/localqueues", "LocalQueue", name, {"clusterQueue": cluster_queue})

    def items(self, path):
        code, value = self.scene.api("GET", f"{API}/{path}")
        return value.get("items", []) if code == 200 else []

    def workload(self, name):
        code, value = self.scene.api("GET", f"{WORKLOADS}/{name}")
        return value if code == 200 else None

    def write(self, workload, *conditions, admission=None, **more):
        """Server-side apply of all that is Kueue's."""
        has = {c["type"]: c for c in workload.get("status", {}).get("conditions", [])
               if c["type"] in ("QuotaReserved", "Admitted", "Evicted", "Preempted", "DeactivationTarget", "Requeued")}
        for kind, status, reason, message in conditions:
            was = has.get(kind, {})
            if (was.get("status"), was.get("reason"), was.get("message")) != (status, reason, message):
                has[kind] = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime":
                             was["lastTransitionTime"] if was.get("status") == status else now(),
                             "observedGeneration": workload["metadata"]["generation"]}
        before = workload.get("status", {})
        status = {"conditions": list(has.values())}
        for key, value in {"admission": admission or before.get("admission"), "requeueState": before.get("requeueState"),
                           **more}.items():
            if value:
                status[key] = value
        if all(before.get(k) == v for k, v in status.items()):
            return
        code, said = self.scene.api("PATCH", f"{WORKLOADS}/{workload['metadata']['name']}/status?fieldManager=kueue-admission"
                                    "&force=true", {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
                                                    "metadata": {"name": workload["metadata"]["name"],
                                                                 "uid": workload["metadata"]["uid"],
                                                                 "resourceVersion": workload["metadata"]["resourceVersion"]},
                                                    "status": status}, APPLY)
        if code == 200 and any(c[:2] == ("Evicted", "True") for c in conditions) and not is_true(workload, "Evicted"):
            name = workload["metadata"]["name"]
            self.evictions[name] = self.evictions.get(name, 0) + 1
        if code not in (200, 404, 409):
            self.trouble.append((code, said.get("message")))

    @staticmethod
    def usage(workload):
        """{flavour: thousandths}: of one that counts."""
        status, total = workload.get("status", {}), {}
        if not (status.get("admission") and is_true(workload, "QuotaReserved")) or is_true(workload, "Finished"):
            return {}
        if not workload["spec"].get("active", True) and is_true(workload, "Evicted"):
            return {}
        less = {r["name"]: r["count"] for r in status.get("reclaimablePods") or []}
        each = {name: per for name, _, per in requests(workload)}
        for a in status["admission"]["podSetAssignments"]:
            for resource, flavor in a.get("flavors", {}).items():
                total[flavor] = total.get(flavor, 0) + each[a["name"]].get(resource, 0) * (a["count"] - less.get(a["name"], 0))
        return total

    def clear(self):
        """No Workload is left."""
        for w in self.items("namespaces/default/workloads"):
            name = f"{WORKLOADS}/{w['metadata']['name']}"
            self.scene.api("PATCH", name, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            self.scene.api("DELETE", name)
        wait_until(lambda: not self.items("namespaces/default/workloads"))

    def used(self):
        total = 0
        for w in self.items("namespaces/default/workloads"):
            total += sum(self.usage(w).values())
        return total

    def go(self):
        while not self.over.wait(0.05):
            if self.paused.is_set():
                continue
            try:
                self.turn()
            except (OSError, ValueError, KeyError) as e:
                self.trouble.append(repr(e))

    def turn(self):
        workloads = self.items("namespaces/default/workloads")
        flavors = {f["metadata"]["name"]: f for f in self.items("resourceflavors")}
        clusters = {q["metadata"]["name"]: q for q in self.items("clusterqueues")}
        locals_ = {q["metadata"]["name"]: q for q in self.items("namespaces/default/localqueues")}
        classes = {c["metadata"]["name"]: c["value"] for c in self.items("workloadpriorityclasses")}
        for w in workloads:
            self.follow_class(w, classes)
            self.evict_if(w, locals_, clusters)
        self.classes = classes
        for w in sorted(workloads, key=lambda w: (-w["spec"].get("priority", 0), w["metadata"]["creationTimestamp"],
                                                  int(w["metadata"]["resourceVersion"]))):
            if is_true(w, "QuotaReserved"):
                self.admit_checked(w)
            elif w["spec"].get("active", True) and not is_true(w, "Finished") and not is_true(w, "Admitted") and \
                    "deletionTimestamp" not in w["metadata"]:
                self.schedule(w, workloads, flavors, clusters, locals_)
                workloads = self.items("namespaces/default/workloads")

    def follow_class(self, w, classes):
        reference = w["spec"].get("priorityClassRef", {})
        value = classes.get(reference.get("name"))
        if reference.get("kind") == "WorkloadPriorityClass" and value != self.classes.get(reference["name"], value):
            self.scene.api("PATCH", f"{WORKLOADS}/{w['metadata']['name']}", {"spec": {"priority": value}},
                           "application/merge-patch+json")

    def evict_if(self, w, locals_, clusters):
        name, uid = w["metadata"]["name"], w["metadata"]["uid"]
        if is_true(w, "Evicted") or is_true(w, "Finished"):
            return
        if not w["spec"].get("active", True):
            self.write(w, ("Evicted", "True", "Deactivated", "The workload is deactivated"))
            return
        if not is_true(w, "Admitted") or not is_true(w, "QuotaReserved"):
            self.first.pop(uid, None)
            return
        queue = clusters.get(locals_.get(w["spec"].get("queueName"), {}).get("spec", {}).get("clusterQueue"), {})
        if queue.get("spec", {}).get("stopPolicy") == "HoldAndDrain":
            self.write(w, ("Evicted", "True", "ClusterQueueStopped", "The ClusterQueue is stopped"))
            return
        longest = w["spec"].get("maximumExecutionTimeSeconds")
        begun = self.first.setdefault(uid, [time.monotonic(), time.monotonic()])
        if longest and time.monotonic() - begun[0] >= longest:
            self.scene.api("PATCH", f"{WORKLOADS}/{name}", {"spec": {"active": False}}, "application/merge-patch+json")
            self.write(self.workload(name), ("Evicted", "True", "DeactivatedDueToMaximumExecutionTimeExceeded",
                                             "The workload is deactivated due to exceeding the maximum execution time"),
                       ("DeactivationTarget", "True", "MaximumExecutionTimeExceeded", "exceeding the maximum execution time"))
            return
        if is_true(w, "PodsReady"):
            begun[1] = None
        elif begun[1] is None:
            begun[1] = time.monotonic()
        recovers = condition(w, "PodsReady").get("reason") == "WaitForRecovery"
        limit = self.recovery_s if recovers else self.ready_s
        if limit and begun[1] is not None and time.monotonic() - begun[1] >= limit:
            later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.backoff_s))
            self.write(w, ("Evicted", "True", "PodsReadyTimeout", f"Exceeded the PodsReady timeout default/{name}"),
                       requeueState={"count": 1, "requeueAt": later})

    def admit_checked(self, w):
        """An admission check may still be pending."""
        if is_true(w, "Admitted") or is_true(w, "Evicted") or is_true(w, "Finished") or not self.checks:
            return
        states = [{"name": n, "state": "Pending" if u is None else "Ready", "message": "it is being looked at" if u is None else "",
                   "lastTransitionTime": now(), **({"podSetUpdates": u} if u else {})} for n, u in self.checks.items()]
        if any(u is None for u in self.checks.values()):
            if not w["status"].get("admissionChecks"):
                self.write(w, admissionChecks=states)
        else:
            self.write(w, ("Admitted", "True", "Admitted", "The workload is admitted"), admissionChecks=states)

    def wait(self, w, reason, message):
        self.write(w, ("QuotaReserved", "False", reason, message))

    def schedule(self, w, workloads, flavors, clusters, locals_):
        gated = w["metadata"].get("annotations", {}).get("kueue.x-k8s.io/admission-gated-by")
        local = locals_.get(w["spec"].get("queueName", ""))
        if gated:
            return self.wait(w, "AdmissionGated", f"Admission is gated by: {gated}")
        if not local:
            return self.wait(w, "Inadmissible", f"LocalQueue {w['spec'].get('queueName', '')} doesn't exist")
        name = local["spec"]["clusterQueue"]
        if name not in clusters:
            return self.wait(w, "Inadmissible", f"ClusterQueue {name} doesn't exist")
        if clusters[name]["spec"].get("stopPolicy", "None") != "None":
            return self.wait(w, "Inadmissible", f"ClusterQueue {name} is inactive")
        requeue = w["status"].get("requeueState", {}).get("requeueAt") if "status" in w else None
        if is_true(w, "Evicted") and requeue and requeue > now():
            return None
        if w.get("status", {}).get("admission"):
            return self.reserve(w, name, None)
        flavor = clusters[name]["spec"]["resourceGroups"][0]["flavors"][0]
        quota = cpu(flavor["resources"][0]["nominalQuota"])
        free = quota - sum(self.usage(o).get(flavor["name"], 0) for o in workloads)
        before, lacking = 0, None
        for part, count, each in requests(w):
            other = [r for r in each if r != "cpu"]
            total = each.get("cpu", 0) * count
            if other:
                return self.wait(w, "Pending", f"couldn't assign flavors to pod set {part}: resource {other[0]} "
                                               "unavailable in ClusterQueue")
            if before + total > quota:
                return self.wait(w, "Pending", f"couldn't assign flavors to pod set {part}: insufficient quota for cpu in "
                                 f"flavor {flavor['name']}, previously considered podsets requests ({shown(before)}) + current "
                                 f"podset request ({shown(total)}) > maximum capacity ({shown(quota)})")
            before += total
            if lacking is None and before > free:
                lacking = (f"couldn't assign flavors to pod set {part}: insufficient unused quota for cpu in flavor "
                           f"{flavor['name']}, {shown(before - free)} more needed")
        if lacking is not None:
            return self.wait(w, "Pending", lacking + self.preempt(w, workloads, flavor["name"], before - free, name))
        return self.reserve(w, name, flavor["name"])

    def preempt(self, w, workloads, flavor, needed, queue):
        """Evicts those of lower priority, if that is enough."""
        victims = []
        for o in sorted(workloads, key=lambda o: o["spec"].get("priority", 0)):
            if needed > 0 and o["spec"].get("priority", 0) < w["spec"].get("priority", 0) and self.usage(o).get(flavor):
                victims.append(o)
                needed -= self.usage(o)[flavor]
        if needed > 0 or not victims:
            return ""
        why = (f"Preempted to accommodate a workload (UID: {w['metadata']['uid']}, JobUID: UNKNOWN) due to prioritization in "
               f"the ClusterQueue; preemptor path: /{queue}; preemptee path: /{queue}")
        for o in victims:
            if not is_true(o, "Evicted"):
                self.write(o, ("Evicted", "True", "Preempted", why), ("Preempted", "True", "InClusterQueue", why))
        return f". Pending the preemption of {len(victims)} workload(s)"

    def reserve(self, w, queue, flavor):
        odd = flavor is None  # a release by apply has left its admission: it is admitted with empty usage
        sets = []
        for part, count, each in requests(w):
            sets.append({"name": part, "count": count, **({} if odd else {
                "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": shown(each.get("cpu", 0) * count)}})})
        previous = []
        for kind in ("Evicted", "Preempted"):
            if is_true(w, kind):
                previous.append((kind, "False", "QuotaReserved", "Previously: " + condition(w, kind)["message"]))
        admitted = [] if self.checks else [("Admitted", "True", "Admitted", "The workload is admitted")]
        self.write(w, ("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {queue}"), *previous,
                   *admitted, admission={"clusterQueue": queue, "podSetAssignments": sets}, requeueState=None)
