"""The hand-over, both ways: Frameworks as FrameworkController 1.0.1 has left them go on under this controller, and the
other way round, without a restarted pod and without a counted attempt; `rest-lit check --hand-back`.

FrameworkController itself does not run here.  Its objects are those of its recorded traces (tests/machine), each with the
uids of this cluster; its writes after the way back are made from what it has recorded and from what it is known to do."""
import json
import os
import re
import tarfile
import time
import uuid

from cluster import FRAMEWORKS
from ends import all_run, end_is, leader
from harness import ROOT, run, wait_until
from scene import CONFIGMAPS, JSON_PATCH, MERGE, PODS, framework, part, role, tasks

MANAGER = "?fieldManager=frameworkcontroller"
TRACES = ("run-one-succeeds", "policy-ps-worker", "policy-two-roles-done", "retry-task-2", "retry-framework-2",
          "retry-task-then-framework", "gang-barrier")
AT_WORK = ("AttemptPreparing", "AttemptRunning")
OURS = {"alikeCount", "lastCompletionStatus"}  # members of a retryPolicyStatus that FrameworkController does not have


# ---- recorded objects -------------------------------------------------------------------
def traces():
    with tarfile.open(os.path.join(ROOT, "tests/machine/traces.tar.xz")) as archive:
        for member in archive:
            name = os.path.basename(member.name)[:-len(".json")]
            if member.name.startswith("systematic/") and name in TRACES:
                yield name, json.load(archive.extractfile(member))


def moments(trace):
    """(step, after, {uid: object as it was created}) of each step at whose end pods wait or run, and of the end."""
    made = {}
    for step in trace["steps"]:
        for request in step["requests"]:
            if request["verb"] == "create" and request["code"] == 201:
                made[request["uid"]] = request["object"]
        after = step["after"]
        status = part(after, "framework", "status")
        if step["stimulus"]["op"].startswith("framework.") and step["step"] or not status:
            continue
        states = {status["state"], *(s for s, _, _ in tasks(after["framework"]).values() if s != "Completed")}
        if status["state"] == "Completed" or after["pods"] and states <= set(AT_WORK) and not any(
                o.get("deletionTimestamp") for o in (after["framework"], *after["configMaps"], *after["pods"])):
            yield step["step"], after, made


class Recorded:
    """One moment of a trace, put into the cluster under this name."""

    def __init__(self, scene, name, trace, step, after, made):
        self.scene, self.name, self.uids, self.start_s = scene, name, {}, time.time() - step - 60
        self.put(FRAMEWORKS, after["framework"]["uid"], trace["framework"])
        for kept in after["configMaps"]:
            self.put(CONFIGMAPS, kept["uid"], made[kept["uid"]])
        for kept in after["pods"]:
            pod = json.loads(json.dumps(made[kept["uid"]]))
            pod["metadata"]["annotations"]["stand/run-ms"] = "never"
            if kept.get("node"):
                pod["spec"]["nodeName"] = kept["node"]
            self.put(PODS, kept["uid"], pod)
            if kept["phase"] == "Running":  # the stand-in goes on with those that wait
                status = {"phase": "Running", "podIP": kept["ip"], "hostIP": kept["hostIP"], "podIPs": [{"ip": kept["ip"]}]}
                self.sent("PATCH", f"{PODS}/{self.local(kept['name'])}/status", {"status": status}, MERGE)
        status = self.local(after["framework"]["status"])
        self.sent("PATCH", f"{FRAMEWORKS}/{name}{MANAGER}", [put_status(status)], JSON_PATCH)
        self.before = status
        self.pods = {n: p["metadata"]["uid"] for n, p in scene.pods(name).items()}

    def local(self, value):
        """With the names, uids and times of this cluster."""
        text = json.dumps(value).replace('"ns"', '"default"')
        text = re.sub(r'"job(?=["-])', f'"{self.name}', text)
        text = re.sub(r"uid\([^)]*\)", lambda m: self.uids.get(m[0]) or str(uuid.uuid5(uuid.NAMESPACE_URL, self.name + m[0])), text)
        return json.loads(re.sub(r'"@(\d+)(?:\+(\d+))?"', lambda m: json.dumps(time.strftime(
            "%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.start_s + int(m[1]) + int(m[2] or 0)))), text))

    def sent(self, verb, path, body, kind="application/json"):
        code, value = self.scene.api(verb, path, body, kind)
        if code not in (200, 201):
            raise RuntimeError(f"{verb} {path}: {code} {value}")
        return value

    def put(self, path, uid, value):
        value = self.local(value)
        kind = {FRAMEWORKS: {}, CONFIGMAPS: {"kind": "ConfigMap", "apiVersion": "v1"}, PODS: {"kind": "Pod", "apiVersion": "v1"}}[path]
        for one in (value.get("spec") or {}).get("taskRoles", []):  # pods of later attempts would run on, too
            one["task"]["pod"].setdefault("metadata", {})["annotations"] = {"stand/run-ms": "never"}
        self.uids[uid] = self.sent("POST", path, {**kind, **value})["metadata"]["uid"]


def put_status(status):
    return {"op": "add", "path": "/status", "value": status}


def counted(status):
    """What has been tried again so far, of the Framework and of each task."""
    policies = {"": status["retryPolicyStatus"]}
    for r in status["attemptStatus"]["taskRoleStatuses"]:
        policies.update({f"{r['name']}/{t['index']}": t["retryPolicyStatus"] for t in r["taskStatuses"]})
    return {who: (p["totalRetriedCount"], p["accountableRetriedCount"]) for who, p in policies.items()}


def uids(scene, name):
    return {n: p["metadata"]["uid"] for n, p in scene.pods(name).items()}


# ---- from FrameworkController -----------------------------------------------------------
def test_frameworks_of_frameworkcontroller_go_on(check, scene):
    """At each moment of its traces at which pods wait or run: these stay, and no attempt is counted."""
    for c in scene.controllers:
        c.stop()
    found = []
    for trace_name, trace in traces():
        for step, after, made in moments(trace):
            name = f"hand{len(found)}"
            found.append((f"{trace_name}, step {step}", Recorded(scene, name, trace, step, after, made)))
    working = [(what, r) for what, r in found if r.before["state"] != "Completed"]
    ended = [(r.name, scene.framework(r.name)["metadata"]["resourceVersion"]) for _, r in found if r.before["state"] == "Completed"]
    check.ok("moments are recorded", len(working) >= 20 and ended, (len(working), len(ended)))
    scene.requests()
    for c in scene.controllers:
        c.start()
    check.ok("one leads", wait_until(lambda: leader(scene.controllers)))
    for what, r in working:
        left = [s for s, _, _ in tasks({"status": r.before}).values() if s != "Completed"]
        check.ok(f"{what}: all run", all_run(scene, r.name, len(left)), scene.framework(r.name)["status"])
        check.equal(f"{what}: the pods stay", uids(scene, r.name), r.pods)
        check.equal(f"{what}: nothing is counted", counted(scene.framework(r.name)["status"]), counted(r.before))
    seen = [q for q in scene.requests() if q[0] in ("create", "delete") and q[1] in ("pods", "configmaps", "frameworks")]
    check.equal("nothing is created or deleted", seen, [])
    for what, r in working:
        scene.succeed(r.name)
    for what, r in working:
        end_is(check, scene, r.name, 0, r.before["retryPolicyStatus"]["totalRetriedCount"])
    check.equal("the ended ones are not touched", [(n, scene.framework(n)["metadata"]["resourceVersion"]) for n, _ in ended], ended)
    check.ok("no controller is passive", all(v == 0 for c in scene.controllers for (n, _), v in c.metrics().items()
                                             if n == "rest_lit_controller_passive"))
    for _, r in found:
        scene.remove(r.name)


# ---- and back ---------------------------------------------------------------------------
def look(scene):
    """(exit status, lines) of `rest-lit check --hand-back`, whose remedies are joined to their lines."""
    done = run("check", "--hand-back", "--apiserver", scene.url, "--apiserver-ca", scene.ca, "--apiserver-token-file",
               scene.settings["TOKEN_FILE"], "--no-auth", "--user", "alice")
    text = done.stdout.decode().replace("\n         -> ", " -> ")
    return done.returncode, [line[9:] for line in text.splitlines() if line[9:].startswith("hand-back: ")]


def shape(value, at=""):
    """{path: types} of all members, those of a list's items together."""
    found = {}
    if isinstance(value, dict):
        found[at] = {"object"}
        for key in value.keys() - OURS:
            for path, types in shape(value[key], f"{at}/{key}").items():
                found.setdefault(path, set()).update(types)
    elif isinstance(value, list):
        found[at] = {"list"}
        for one in value:
            for path, types in shape(one, at + "/*").items():
                found.setdefault(path, set()).update(types)
    elif value is not None:
        found[at] = {type(value).__name__}
    else:
        found[at] = set()  # a null fits each type
    return found


def is_alike(check, what, ours, recorded):
    """The same members, of the same types."""
    ours, recorded = shape(ours), shape(recorded)
    check.equal(f"{what}: its members", sorted(ours), sorted(recorded))
    check.equal(f"{what}: their types", {p: (sorted(ours[p]), sorted(t)) for p, t in recorded.items()
                                         if ours.get(p) and t and ours[p] != t}, {})


def test_frameworks_are_handed_back(check, scene):
    """What this controller leaves is as FrameworkController's, which goes on with it; then once more the other way."""
    scene.create(framework("back", role("ps", 2, run="never"), role("worker", 2, failed=1, succeeded=2, retries=1, run="never")))
    check.ok("back: all run", all_run(scene, "back", 4))
    scene.api("DELETE", f"{PODS}/back-worker-1")  # an attempt that counts
    check.ok("back: it is tried again", wait_until(lambda: tasks(scene.framework("back"))["worker", 1][2] == 1))
    check.ok("back: all run again", all_run(scene, "back", 4))
    for c in scene.controllers:
        c.stop()
    value, pods = scene.framework("back"), uids(scene, "back")
    recorded = {name: list(moments(trace)) for name, trace in traces()}
    _, after, made = next(m for m in recorded["policy-ps-worker"] if m[0] == 7)
    is_alike(check, "back, its status", value["status"], after["framework"]["status"])
    created = {kept["name"].replace("job", "back"): made[kept["uid"]] for kept in (*after["configMaps"], *after["pods"])}
    for name, pod in {**scene.pods("back"), "back-attempt": scene.get("ConfigMap", "back-attempt")}.items():
        wanted = created[name]["metadata"]
        pod["metadata"].get("annotations", {}).pop("stand/run-ms", None)
        is_alike(check, f"{name}, its metadata", {k: pod["metadata"].get(k) for k in wanted}, wanted)
    check.equal("back: nothing would be lost", look(scene), (0, [f"hand-back: {len(scene.names('Framework'))} Frameworks lose nothing"]))

    # FrameworkController sees that a worker has succeeded, deletes its pod, and completes the task.
    def writes(change):
        """Its PUT: the object as its types have it, with another status."""
        now = scene.framework("back")
        for r in now["status"]["attemptStatus"]["taskRoleStatuses"]:
            for t in r["taskStatuses"]:
                t["retryPolicyStatus"] = {k: v for k, v in t["retryPolicyStatus"].items() if k not in OURS}
        now["status"]["retryPolicyStatus"] = {k: v for k, v in now["status"]["retryPolicyStatus"].items() if k not in OURS}
        for r in now["spec"]["taskRoles"]:
            r["task"]["pod"].setdefault("metadata", {})["creationTimestamp"] = None
        now["spec"].setdefault("description", "")
        task = now["status"]["attemptStatus"]["taskRoleStatuses"][1]["taskStatuses"][0]
        change(task)
        code, answer = scene.api("PUT", f"{FRAMEWORKS}/back{MANAGER}", now)
        check.equal("back: FrameworkController writes", code, 200)
        check.equal("back: foreign annotations stay", answer["metadata"]["annotations"], value["metadata"]["annotations"])

    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    success = {"code": 0, "phrase": "Succeeded", "type": {"name": "Succeeded", "attributes": []}, "diagnostics": ""}

    def pending(task):
        task["attemptStatus"]["completionStatus"] = success
        task.update({"state": "AttemptDeletionRequested", "transitionTime": now})

    def completed(task):
        task["attemptStatus"].update({"completionTime": now})
        task.update({"state": "Completed", "completionTime": now, "transitionTime": now})
    writes(pending)
    scene.api("DELETE", f"{PODS}/back-worker-0")
    check.ok("back: its pod goes", wait_until(lambda: "back-worker-0" not in scene.pods()))
    writes(completed)
    left = scene.framework("back")["status"]
    for c in scene.controllers:
        c.start()
    check.ok("one leads again", wait_until(lambda: leader(scene.controllers)))
    scene.create(framework("behind", role(run=50)))
    end_is(check, scene, "behind", 0)  # it was created after the others were listed
    check.equal("back: the other pods stay", uids(scene, "back"), {n: u for n, u in pods.items() if n != "back-worker-0"})
    check.equal("back: nothing is counted", counted(scene.framework("back")["status"]), counted(left))
    scene.api("PATCH", f"{PODS}/back-worker-1/status", {"status": {"phase": "Succeeded"}}, MERGE)
    end = end_is(check, scene, "back", 0)
    check.equal("back: its workers", [tasks(end)["worker", i] for i in range(2)], [("Completed", 0, 0), ("Completed", 0, 1)])
    for name in ("back", "behind"):
        scene.remove(name)
