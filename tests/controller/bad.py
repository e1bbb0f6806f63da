"""Bad input: each time an Event says so, the controller goes on, no other Framework suffers, and the
number of requests is bounded."""
import base64
import json
import os
import ssl
import subprocess
import tempfile
import time
from http.server import BaseHTTPRequestHandler

from cluster import DEPLOY, FRAMEWORKS
from ends import STOPPED, all_run, end_is, leader
from harness import Closing, Threads, wait_until
from manifests import may
from scene import CONFIGMAPS, JSON_PATCH, PODS, ROLE, USER, Controller, framework, outcome, role

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
BINDING = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/rest-lit-controller"
SECONDS, MOST = 8, 60  # requests in so many seconds


def is_bounded(check, scene, what, most=MOST, about=None):
    """Counts the controllers' requests for a while (about: of objects with this in their names)."""
    scene.requests()
    time.sleep(SECONDS)
    seen = [r[:4] for r in scene.requests() if r[1] != "leases" and (not about or about in (r[2] or ""))]
    print(f"     {what}: {len(seen)} requests in {SECONDS} s", flush=True)
    check.ok(f"{what}: at most {most} requests in {SECONDS} s", len(seen) <= most, (len(seen), seen[:12]))


def others_go_on(check, scene, what):
    """A new Framework runs to its end, and no controller has ended."""
    name = "other" + "".join(c for c in what if c.isalnum())[:40]
    scene.create(framework(name, role(run=50)))
    end_is(check, scene, name, 0)
    scene.remove(name)
    check.ok(f"{what}: the controllers live", all(c.alive() for c in scene.controllers),
             [c.log()[-400:] for c in scene.controllers if not c.alive()])


def says_so(check, scene, what, name):
    """There is an Event on this Framework, or with its name."""
    check.ok(f"{what}: an Event", wait_until(lambda: scene.events_text(name)))
    print(f"     {what}: {scene.events_text(name)[:3]}", flush=True)


def edited(scene, name, *operations):
    """Edits by hand, as an administrator does."""
    scene.count.forgiven.add(name)
    return scene.api("PATCH", f"{FRAMEWORKS}/{name}", list(operations), JSON_PATCH)[0]


def put(path, value):
    return {"op": "add", "path": path, "value": value}


TASK = "/status/attemptStatus/taskRoleStatuses/0/taskStatuses/0"
EDITS = {
    "negative": put("/status/retryPolicyStatus/totalRetriedCount", -5),
    "negativetask": put(TASK + "/retryPolicyStatus/accountableRetriedCount", -2147483648),
    "huge": put("/status/retryPolicyStatus/totalRetriedCount", 2 ** 62),
    "unknownstate": put("/status/state", "AttemptDreaming"),
    "unknowntask": put(TASK + "/state", "AttemptDreaming"),
    "typewrong": put("/status/attemptStatus", "text"),
    "tasksgone": put("/status/attemptStatus/taskRoleStatuses", None),
    "nostatus": put("/status", {}),
    "nullstatus": put("/status", None),
    "forgedpod": put(TASK + "/attemptStatus/podUID", "00000000-0000-0000-0000-000000000000"),
    "forgedmap": put("/status/attemptStatus/configMapUID", "00000000-0000-0000-0000-000000000000"),
    "olderstate": put("/status/state", "AttemptCreationPending"),
    "notgzip": put("/status/attemptStatus/taskRoleStatusesCompressed", "AAAA"),
    "large": put("/status/more", "x" * (1 << 20)),
}


def test_statuses_edited_by_hand(check, scene):
    """While they run.  Whatever becomes of these, each can be stopped, and ends."""
    for name in EDITS:
        scene.create(framework(name, role(number=2, run="never")))
    for name in EDITS:
        check.ok(f"{name}: runs", all_run(scene, name, 2))
    before = {n: p["metadata"]["uid"] for n, p in scene.pods().items()}
    for name, operation in EDITS.items():
        check.equal(f"{name}: is edited", edited(scene, name, operation), 200)
    is_bounded(check, scene, "edited statuses", MOST + 15 * len(EDITS))
    for name in EDITS:
        says_so(check, scene, name, name)
        check.equal(f"{name}: its pods stay", {n: p["metadata"]["uid"] for n, p in scene.pods(name).items()},
                    {n: u for n, u in before.items() if n.startswith(name + "-")})
    is_bounded(check, scene, "edited statuses, later", MOST)
    others_go_on(check, scene, "edited statuses")
    for name in EDITS:
        scene.patch(name, {"spec": {"executionType": "Stop"}})
    for name in EDITS:
        scene.ends(name, 90)
        check.equal(f"{name}: is stopped", outcome(scene.framework(name))[:2], ("Completed", STOPPED))
        scene.remove(name)


def test_statuses_of_frameworks_that_nobody_drove(check, scene):
    """A client sends a Framework with a status: MACHINE.md has those that end FrameworkController."""
    statuses = {
        "sentcompleted": {"state": "AttemptCompleted"}, "sentrequested": {"state": "AttemptCreationRequested"},
        "sentempty": {}, "sentwild": {"state": 5, "attemptStatus": [1]}, "sentdone": {"state": "Completed"}}
    for name, status in statuses.items():
        scene.count.forgiven.add(name)
        scene.create({**framework(name, role(run=50), start="Stop" if name == "sentrequested" else "Start"), "status": status})
    is_bounded(check, scene, "sent statuses", MOST + 10 * len(statuses))
    for name in statuses:
        value = scene.framework(name)
        print(f"     {name}: {value and outcome(value)} {scene.events_text(name)[:1]}", flush=True)
        check.ok(f"{name}: ends, or an Event", not value or outcome(value)[0] == "Completed" or scene.events_text(name))
    others_go_on(check, scene, "sent statuses")
    for name in statuses:
        scene.remove(name)


def test_statuses_edited_while_no_controller_runs(check, scene):
    """What the next leader cannot read has an Event, and can be deleted; what it can read ends."""
    for name in EDITS:
        scene.create(framework(f"down{name}", role(number=2, run="never")))
    for name in EDITS:
        check.ok(f"down{name}: runs", all_run(scene, f"down{name}", 2))
    for c in scene.controllers:
        c.stop()
    for name, operation in EDITS.items():
        check.equal(f"down{name}: is edited", edited(scene, f"down{name}", operation), 200)
    for c in scene.controllers:
        c.start()
    check.ok("one leads", wait_until(lambda: leader(scene.controllers)))
    is_bounded(check, scene, "edited while down", MOST + 15 * len(EDITS))
    others_go_on(check, scene, "edited while down")
    for name in EDITS:
        scene.patch(f"down{name}", {"spec": {"executionType": "Stop"}})
    check.ok("edited while down: each is stopped, or has an Event", wait_until(lambda: all(
        scene.state(f"down{name}") == "Completed" or scene.events_text(f"down{name}") for name in EDITS)))
    for name in EDITS:
        value = scene.framework(f"down{name}")
        print(f"     down{name}: {outcome(value)} {scene.events_text(f'down{name}')[:1]}", flush=True)
        check.ok(f"down{name}: a readable one leaves no pod",
                 outcome(value)[0] != "Completed" or wait_until(lambda n=name: not scene.pods(f"down{n}")))
        scene.remove(f"down{name}")
    check.ok("edited while down: nothing is left", wait_until(lambda: not [n for n in scene.pods() if n.startswith("down")]))


def test_status_with_uids_of_foreign_pods(check, scene):
    """A status that names pods and ConfigMaps of others: these stay."""
    victim = framework("victim", role(run="never"))
    scene.create(victim)
    check.ok("victim: runs", all_run(scene, "victim", 1))
    pod = scene.pods("victim")["victim-w-0"]["metadata"]["uid"]
    configmap = scene.get("ConfigMap", "victim-attempt")["metadata"]["uid"]
    scene.create(framework("thief", role(run="never")))
    check.ok("thief: runs", all_run(scene, "thief", 1))
    edited(scene, "thief", put(TASK + "/attemptStatus/podUID", pod), put(TASK + "/attemptStatus/podName", "victim-w-0"),
           put("/status/attemptStatus/configMapName", "victim-attempt"),
           put("/status/attemptStatus/configMapUID", configmap))
    others_go_on(check, scene, "thief")  # the controller has looked at the thief's status meanwhile
    scene.patch("thief", {"spec": {"executionType": "Stop"}})
    scene.ends("thief", 90)
    check.equal("thief: ends", outcome(scene.framework("thief"))[:2], ("Completed", STOPPED))
    check.equal("victim: its pod stays", scene.pods("victim")["victim-w-0"]["metadata"]["uid"], pod)
    check.equal("victim: it runs", scene.state("victim"), "AttemptRunning")
    for name in ("victim", "thief"):
        scene.remove(name)


def test_annotation_of_the_controller_is_edited(check, scene):
    """The annotation that says which controller writes, set to anything, again and again."""
    scene.create(framework("marked", role(number=2, run=6000)))
    check.ok("marked: runs", all_run(scene, "marked", 2))
    scene.requests()
    for value in ("", "somebody", "x" * 100000, None, "rest-lit-controller"):
        edit = {"metadata": {"annotations": {"rest-lit/controller": value}}}
        check.equal("marked: is edited", scene.patch("marked", edit)[0], 200)
        time.sleep(0.7)
    seen = [r[:4] for r in scene.requests() if r[1] != "leases"]
    check.ok("marked: bounded requests", len(seen) <= MOST, (len(seen), seen[:12]))
    end_is(check, scene, "marked", 0, seconds=90)
    others_go_on(check, scene, "marked")
    scene.remove("marked")


def test_configmap_of_that_name_belongs_to_another(check, scene):
    """Nothing is adopted and nothing deleted; the Framework runs when it is gone."""
    scene.api("POST", CONFIGMAPS, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "taken-attempt"},
                                   "data": {"mine": "1"}})
    scene.create(framework("taken", role(run=50)))
    says_so(check, scene, "taken", "taken")
    is_bounded(check, scene, "taken", about="taken")
    check.equal("taken: the other's stays", scene.get("ConfigMap", "taken-attempt")["data"], {"mine": "1"})
    others_go_on(check, scene, "taken")
    scene.delete("ConfigMap", "taken-attempt")
    end_is(check, scene, "taken", 0, seconds=90)
    scene.remove("taken")


def pod_of(name, labels=None, owners=None):
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {
        "name": name, "labels": labels or {}, "ownerReferences": owners or [],
        "annotations": {"stand/run-ms": "never"}},
        "spec": {"containers": [{"name": "app", "image": "x"}]}}


def test_pods_with_our_labels_that_are_not_ours(check, scene):
    """They stay, whether the Framework is there or not; a pod of that name delays its task."""
    labels = {"FC_FRAMEWORK_NAME": "labels", "FC_TASKROLE_NAME": "w", "FC_TASK_INDEX": "0"}
    for name in ("labels-x-7", "labels-w-0", "lonely-w-0"):
        check.equal(f"{name}: is created", scene.api("POST", PODS, pod_of(name, labels))[0], 201)
    scene.create(framework("labels", role(number=2, failed=-1, run=50)))
    says_so(check, scene, "labels", "labels")
    is_bounded(check, scene, "labels", about="labels")
    check.equal("labels: they stay", sorted(n for n in scene.pods() if n in ("labels-x-7", "labels-w-0", "lonely-w-0")),
                ["labels-w-0", "labels-x-7", "lonely-w-0"])
    scene.api("DELETE", f"{PODS}/labels-w-0")
    scene.ends("labels", 90)
    check.equal("labels: ends when the name is free", outcome(scene.framework("labels")), ("Completed", 0, 0))
    check.ok("labels: the others stay", {"labels-x-7", "lonely-w-0"} <= scene.pods().keys(), sorted(scene.pods()))
    scene.remove("labels")
    for name in ("labels-x-7", "lonely-w-0"):
        scene.api("DELETE", f"{PODS}/{name}")


def test_pod_owned_by_our_configmap_that_nobody_knows(check, scene):
    """A stray pod of a Framework's ConfigMap is deleted soon."""
    scene.create(framework("stray", role(run="never")))
    check.ok("stray: runs", all_run(scene, "stray", 1))
    configmap = scene.get("ConfigMap", "stray-attempt")["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": configmap["name"], "uid": configmap["uid"],
             "controller": True, "blockOwnerDeletion": True}
    check.equal("stray: is created", scene.api("POST", PODS, pod_of(
        "stray-w-9", {"FC_FRAMEWORK_NAME": "stray", "FC_TASKROLE_NAME": "w", "FC_TASK_INDEX": "9"}, [owner]))[0], 201)
    start = time.monotonic()
    check.ok("stray: is deleted", wait_until(lambda: "stray-w-9" not in scene.pods()))
    print(f"     a stray pod lives for {time.monotonic() - start:.1f} s", flush=True)
    check.equal("stray: its Framework runs", scene.state("stray"), "AttemptRunning")
    scene.remove("stray")


def test_namespace_that_is_being_deleted(check, scene):
    """With a controller of that namespace: creations are refused, which is not the user's failure."""
    with open(os.path.join(DEPLOY, "controller", "rbac.yaml"), encoding="utf-8") as f:
        text = f.read().replace("namespace: pai-jobs", "namespace: doomed")
    scene.api("POST", "/api/v1/namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "doomed"}})
    check.equal("doomed: rights", scene.kubectl("apply", "-f", "-", text=text.encode()).returncode, 0)
    path = FRAMEWORKS.replace("/default/", "/doomed/")
    with Controller(scene, namespace="doomed") as c:
        scene.api("POST", path, framework("waits", role(run="never"), start="Create"))
        check.ok("doomed: a status", wait_until(lambda: scene.api("GET", path + "/waits")[1].get("status")))
        scene.api("DELETE", "/api/v1/namespaces/doomed")
        scene.api("PATCH", path + "/waits", {"spec": {"executionType": "Start"}}, "application/merge-patch+json")
        is_bounded(check, scene, "doomed", about="waits")
        value = scene.api("GET", path + "/waits")[1]
        check.equal("doomed: it waits", outcome(value), ("AttemptCreationPending", None, 0))
        check.ok("doomed: the controller lives", c.alive())
        scene.api("DELETE", path + "/waits")
    others_go_on(check, scene, "doomed")


def quota(scene, pods):
    """The status is that of the quota controller, which is not here."""
    hard = {"pods": str(pods)}
    scene.api("POST", QUOTAS, {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}, "spec": {"hard": hard}})
    scene.api("PATCH", f"{QUOTAS}/q", {"spec": {"hard": hard}}, "application/merge-patch+json")
    return scene.api("PATCH", f"{QUOTAS}/q/status", {"status": {"hard": hard, "used": {"pods": "0"}}},
                     "application/merge-patch+json")[0]


def test_quota_of_no_pods(check, scene):
    """The tasks wait, with few requests, and run when the quota is raised."""
    check.equal("quota: is there", quota(scene, 0), 200)
    check.ok("quota: holds", wait_until(lambda: scene.api("POST", PODS + "?dryRun=All", pod_of("probe"))[0] == 403))
    scene.create(framework("quota", role(number=8, failed=-1, run=50)))
    says_so(check, scene, "quota", "quota")
    is_bounded(check, scene, "quota", 20, about="quota")
    check.equal("quota: it waits", outcome(scene.framework("quota"))[1:], (None, 0))
    check.equal("quota: is raised", quota(scene, 100), 200)
    end_is(check, scene, "quota", 0, seconds=120)
    scene.remove("quota")
    scene.api("DELETE", f"{QUOTAS}/q")
    others_go_on(check, scene, "quota")


def certificate():
    """(context of a server on loopback, its caBundle)"""
    directory = tempfile.mkdtemp(prefix="rest-lit-admission.")
    key, cert = (os.path.join(directory, n) for n in ("key", "cert"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with open(cert, "rb") as f:
        return context, base64.b64encode(f.read()).decode()


class Webhook(Closing):
    """Admission of pods: `answer(pod)` gives (allowed, message, JSON Patch or None)."""

    def __init__(self, scene, answer):
        context, bundle = certificate()

        class Handler(_Review):
            decide = staticmethod(answer)

        self.scene, self.server = scene, Threads(Handler, context)
        code, value = scene.api("POST", HOOKS, {
            "kind": "MutatingWebhookConfiguration", "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": "pods"},
            "webhooks": [{"name": "pods.example.org", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                          "failurePolicy": "Fail", "timeoutSeconds": 10,
                          "clientConfig": {"url": f"https://127.0.0.1:{self.server.server_address[1]}/", "caBundle": bundle},
                          "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                     "resources": ["pods"]}]}]})
        if code != 201:
            raise RuntimeError(value)

    def holds(self, test):
        """Waits until it is in force for a dry run."""
        return wait_until(lambda: test(self.scene.api("POST", PODS + "?dryRun=All", pod_of("probe"))))

    def close(self):
        self.scene.api("DELETE", f"{HOOKS}/pods")
        wait_until(lambda: self.scene.api("POST", PODS + "?dryRun=All", pod_of("probe"))[1].get(
            "metadata", {}).get("labels", {}).get("changed") is None)
        self.server.close()


class _Review(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        allowed, message, patch = self.decide(request["object"])
        response = {"uid": request["uid"], "allowed": allowed}
        if message:
            response["status"] = message
        if patch:
            response.update({"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()})
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_admission_that_refuses_pods(check, scene):
    """403 and 422 of admission are the job's failure, with FrameworkController's codes; 500 is not."""
    refusals = {"refused403": (403, "Forbidden", -310), "refused422": (422, "Invalid", -200),
                "refused500": (500, "InternalError", None)}

    def answer(pod):
        for name, (code, reason, _) in refusals.items():
            if pod["metadata"]["name"].startswith(name + "-"):
                return False, {"code": code, "reason": reason, "message": "the policy says no"}, None
        return True, None, None
    with Webhook(scene, answer):
        for name in refusals:
            scene.create(framework(name, role(number=2, run=50)))
        for name, (_, _, code) in refusals.items():
            if code:
                end_is(check, scene, name, code)
                check.ok(f"{name}: an Event says why", wait_until(lambda name=name: [t for t in scene.events_text(name) if t.startswith(
                    "PodRefused: The cluster's policy forbids the pod; ask the administrator of the cluster: admission webhook")]))
        says_so(check, scene, "refused500", "refused500")
        is_bounded(check, scene, "refused500", about="refused500")
        check.equal("refused500: it waits", outcome(scene.framework("refused500"))[1:], (None, 0))
    end_is(check, scene, "refused500", 0, seconds=120)
    others_go_on(check, scene, "refused")
    for name in refusals:
        scene.remove(name)


def test_admission_that_changes_pods(check, scene):
    """What it adds stays; labels and annotations of FrameworkController that it takes away do no harm."""
    def answer(pod):
        if not pod["metadata"]["name"].startswith("changed-"):
            return True, None, None
        patch = [{"op": "add", "path": "/metadata/labels/changed", "value": "yes"},
                 {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "s"}},
                 {"op": "remove", "path": "/metadata/labels/FC_TASK_INDEX"}]
        if pod["metadata"]["name"].endswith("-1"):
            patch.append({"op": "remove", "path": "/metadata/annotations/FC_TASK_UID"})
        return True, None, patch
    with Webhook(scene, answer):
        scene.create(framework("changed", role(number=2, failed=-1, run="never")))
        check.ok("changed: they run", all_run(scene, "changed", 2))
        pods = scene.pods("changed")
        check.equal("changed: as admission has them",
                    [p["metadata"]["labels"].get("changed") for p in pods.values()], ["yes"] * 2)
        scene.succeed("changed")
        end_is(check, scene, "changed", 0)
    others_go_on(check, scene, "changed")
    scene.remove("changed")


def test_role_binding_is_taken_away(check, scene):
    """403 of our own account fails no job; all goes on when the rights are back."""
    rules = scene.api("GET", ROLE)[1]["rules"]
    scene.create(framework("before", role(number=2, run="never")))
    check.ok("before: runs", all_run(scene, "before", 2))
    pods = {n: p["metadata"]["uid"] for n, p in scene.pods("before").items()}

    def without(*resources):
        left = [{**r, "verbs": [v for v in r["verbs"] if v != "create"] or ["get"]} if set(resources) & set(r["resources"])
                and "pods" in r["resources"] else r for r in rules]
        return left
    scene.api("PATCH", ROLE, {"rules": without("pods")}, "application/merge-patch+json")
    check.ok("no right to create: in force", wait_until(lambda: not may(scene, USER, "create", "", "pods", "", "default")))
    scene.create(framework("during", role(number=2, run=50)))
    says_so(check, scene, "no right to create", "during")
    is_bounded(check, scene, "no right to create", about="during")
    check.equal("during: it waits", outcome(scene.framework("during"))[1:], (None, 0))
    scene.api("PATCH", ROLE, {"rules": rules}, "application/merge-patch+json")
    end_is(check, scene, "during", 0, seconds=120)
    binding = scene.api("GET", BINDING)[1]
    scene.api("DELETE", BINDING)
    scene.create(framework("dark", role(run=50)))
    is_bounded(check, scene, "no rights")
    check.ok("no rights: the controllers live or start again", True)
    for c in scene.controllers:
        if not c.alive():
            print(f"     no rights: a controller ended: {c.log()[-300:]}", flush=True)
            c.start()
    for key in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        binding["metadata"].pop(key, None)
    check.equal("the rights are back", scene.api("POST", BINDING.rpartition("/")[0], binding)[0], 201)
    end_is(check, scene, "dark", 0, seconds=180)
    check.equal("before: its pods stay", {n: p["metadata"]["uid"] for n, p in scene.pods("before").items()}, pods)
    check.equal("before: it runs", scene.state("before"), "AttemptRunning")
    others_go_on(check, scene, "rights")
    for name in ("before", "during", "dark"):
        scene.remove(name)
    scene.requests()  # these were forbidden


def test_frameworks_that_cannot_be_read(check, scene):
    """Two roles of one name, templates that are no pods, a deep one, a large one."""
    twice = framework("twice", role("w", 1, run=50), role("w", 2, run=50))
    wild = framework("wild", role(run=50))
    wild["spec"]["taskRoles"][0]["task"]["pod"] = {"spec": {"containers": "x"}}
    wild2 = framework("wildtoo", role(run=50))
    wild2["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": 5}]
    deep = framework("deep", role(run=50))
    inner = {}
    for _ in range(200):
        inner = {"a": inner}
    deep["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["future"] = inner
    large = framework("largespec", role(run=50))
    large["spec"]["taskRoles"][0]["task"]["pod"]["metadata"] = {"annotations": {"a": "x" * 200000}}
    values = (twice, wild, wild2, deep, large)
    for value in values:
        scene.create(value)
    is_bounded(check, scene, "unreadable", MOST + 60)
    for value in values:
        name = value["metadata"]["name"]
        now = scene.framework(name)
        print(f"     {name}: {outcome(now)} {scene.events_text(name)[:1]}", flush=True)
        check.ok(f"{name}: ends, or an Event", outcome(now)[0] == "Completed" or scene.events_text(name))
    others_go_on(check, scene, "unreadable")
    for value in values:
        scene.remove(value["metadata"]["name"])


def test_foreign_writer_of_a_status(check, scene):
    """Somebody puts an old status back, as a client does that PUTs what it has read earlier."""
    scene.create(framework("overwritten", role(number=2, run="never")))
    check.ok("overwritten: has a status", wait_until(lambda: scene.state("overwritten")))
    old = scene.framework("overwritten")["status"]
    check.ok("overwritten: runs", all_run(scene, "overwritten", 2))
    check.equal("overwritten: is edited", edited(scene, "overwritten", put("/status", old)), 200)
    scene.succeed("overwritten")
    end_is(check, scene, "overwritten", 0, seconds=90)
    print(f"     overwritten: {scene.events_text('overwritten')[:2]}", flush=True)
    scene.remove("overwritten")
