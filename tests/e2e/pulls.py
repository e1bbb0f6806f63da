"""Jobs whose image cannot be pulled, on a real API server, with Events as the kubelet posts them."""
import time

from cluster import FRAMEWORKS
from harness import framework_name, job_v2, run, wait_until
from states import MERGE

EVENTS = "/api/v1/namespaces/default/events"
IMAGE = "docker.io/library/debain:12"
GONE = (f'Failed to pull image "debain:12": rpc error: code = NotFound desc = failed to pull and unpack image "{IMAGE}": '
        f'failed to resolve reference "{IMAGE}": {IMAGE}: not found')
BUSY = (f'Failed to pull image "debain:12": failed to pull and unpack image "{IMAGE}": failed to copy: httpReadSeeker: failed '
        "open: unexpected status code 429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit")
STAMP = "%Y-%m-%dT%H:%M:%SZ"


def uid_of(job, role="worker", pod=0):
    return f"{framework_name(job)[:8]}-0000-4000-8000-{len(role):06}{pod:06}"


def post(cluster, job, reason, message, count, role="worker", pod=0, age=1):
    """The kubelet's Event about a pod of task 0, which was last seen `age` seconds ago; returns its path."""
    name = f"{framework_name(job)}-{role}-0"
    at = time.strftime(STAMP, time.gmtime(time.time() - age))
    status, made = cluster.api("POST", EVENTS, {
        "kind": "Event", "apiVersion": "v1", "metadata": {"generateName": f"{name}.", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": name, "namespace": "default", "uid": uid_of(job, role, pod), "apiVersion": "v1",
                           "fieldPath": "spec.containers{app}"},
        "type": "Normal" if reason in ("Pulled", "BackOff") else "Warning", "reason": reason, "message": message,
        "firstTimestamp": at, "lastTimestamp": at, "count": count, "source": {"component": "kubelet", "host": "node0"}})
    assert status == 201, made
    return f"{EVENTS}/{made['metadata']['name']}"


def status_of(job, pod=0, **tasks):
    """Writes a status like FrameworkController: the state of task 0 of each role, and its pod."""
    running = "AttemptRunning" in tasks.values()
    return {"status": {"state": "AttemptRunning" if running else "AttemptPreparing", "attemptStatus": {
        "id": 0, "taskRoleStatuses": [{"name": role, "taskStatuses": [{"index": 0, "state": state, "attemptStatus": {
            "id": 0, "podName": f"{framework_name(job)}-{role}-0", "podUID": uid_of(job, role, pod), "podNodeName": "node0"}}]}
            for role, state in tasks.items()]}}}


def begin(check, cluster, server, job, pod=0, **tasks):
    tasks = tasks or {"worker": "AttemptPreparing"}
    role = {"dockerImage": "image", "commands": ["true"], "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 0}}
    check.equal(f"{job}: is taken", server.submit(job_v2(job, taskRoles=dict.fromkeys(tasks, role))).status, 202)
    path = f"{FRAMEWORKS}/{framework_name(job)}"
    check.equal(f"{job}: has pods", cluster.api("PATCH", path, status_of(job, pod, **tasks), MERGE)[0], 200)


def stopped(cluster, job):
    return cluster.get("Framework", framework_name(job))["spec"]["executionType"] == "Stop"


def reason_of(cluster, job):
    return cluster.get("Framework", framework_name(job))["metadata"]["annotations"].get("rest-lit/stop-reason", "")


def waiting_for(server, job):
    why = server.request("GET", f"/api/v2/jobs/alice~{job}").json["jobStatus"].get("waitingReason") or {}
    return why.get("kind"), why.get("message")


def shown(check, cluster, server, job):
    """The end of the job, as FrameworkController writes it, in details and list, and for people."""
    end = {"code": -210, "phrase": "StopFrameworkRequested", "diagnostics": "User has requested to stop the Framework",
           "type": {"name": "Failed", "attributes": ["Permanent"]}}
    now = time.strftime(STAMP, time.gmtime())
    cluster.api("PATCH", f"{FRAMEWORKS}/{framework_name(job)}", {"status": {
        "state": "Completed", "completionTime": now, "attemptStatus": {"completionStatus": end, "completionTime": now}}}, MERGE)
    why = f"The job was stopped, because worker[0] cannot pull its image: {GONE}"

    def status():
        return server.request("GET", f"/api/v2/jobs/alice~{job}").json["jobStatus"]
    check.ok("details: ended", wait_until(lambda: status()["state"] == "STOPPED"), status())
    check.equal("details: why", (status()["stopReason"], status()["appExitDiagnostics"]), (why, why))
    row = next(r for r in server.request("GET", f"/api/v2/jobs?keyword={job}").json if r["name"] == job)
    check.equal("list", row["state"], "STOPPED")
    done = run("show", "--server", f"http://127.0.0.1:{server.port}", f"alice~{job}")
    out = done.stdout.decode()
    check.ok("show", "STOPPED" in out and f"reason:   {why}" in out, done)


def test_failed_pulls_stop_only_jobs_with_a_final_cause(check, cluster):
    """A job is stopped after three failed pulls of a current pod for a final cause; no other job is."""
    jobs = ("gone", "in-parts", "beside", "twice", "busy", "earlier", "runs", "came", "held-back", "unnamed")
    with cluster.serve() as server, cluster.serve() as other:
        for job in jobs:
            roles = {"beside": {"worker": "AttemptPreparing", "main": "AttemptRunning"}, "runs": {"worker": "AttemptRunning"}}
            begin(check, cluster, server, job, pod=int(job == "earlier"), **roles.get(job, {}))
        cluster.api("PATCH", f"{FRAMEWORKS}/{framework_name('unnamed')}", {"metadata": {"annotations": {"rest-lit/submission": None}}}, MERGE)
        post(cluster, "busy", "Failed", BUSY, 9)
        post(cluster, "earlier", "Failed", GONE, 5)
        post(cluster, "runs", "Failed", GONE, 5)
        post(cluster, "came", "Failed", GONE, 3, age=9)
        post(cluster, "came", "Pulled", 'Successfully pulled image "debain:12" in 2s', 1)
        post(cluster, "held-back", "BackOff", f'Back-off pulling image "debain:12": ErrImagePull: {GONE}', 9)
        post(cluster, "held-back", "Failed", "Error: ErrImagePull", 9)
        post(cluster, "unnamed", "Failed", GONE, 3)
        twice = post(cluster, "twice", "Failed", GONE, 2)
        post(cluster, "in-parts", "Failed", GONE, 1, age=9)
        post(cluster, "in-parts", "Failed", GONE.replace("debain:12\":", "debain:12\" :"), 2)
        post(cluster, "beside", "Failed", GONE, 3)
        post(cluster, "gone", "Failed", GONE, 3)
        for job in ("gone", "in-parts", "beside"):
            check.ok(f"{job}: is stopped", wait_until(lambda j=job: stopped(cluster, j)), server.log()[-2000:])
            check.ok(f"{job}: why", reason_of(cluster, job).startswith("The job was stopped, because worker[0] cannot pull its image: Failed"),
                     reason_of(cluster, job))
        check.ok("another cause is said", wait_until(lambda: waiting_for(server, "busy") == ("image", BUSY)), waiting_for(server, "busy"))
        cluster.api("PATCH", twice, {"count": 3, "lastTimestamp": time.strftime(STAMP, time.gmtime())}, MERGE)
        check.ok("the third time counts", wait_until(lambda: stopped(cluster, "twice")))  # so all have been looked at once more
        check.equal("the others go on", [j for j in jobs[4:] if stopped(cluster, j)], [])
        def lines(text):
            return server.log_lines(text) + other.log_lines(text)
        check.ok("each was stopped once, and logged afterwards", wait_until(lambda: len(lines("an image cannot be pulled")) == 4))
        check.equal("no trouble", lines("cannot be stopped"), [])
        shown(check, cluster, server, "gone")
    for job in jobs:
        cluster.delete("Framework", framework_name(job))
