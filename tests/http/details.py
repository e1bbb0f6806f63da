"""Details, attempts and tasks of a job for clients of OpenPAI: each Framework of
tests/data/frameworks, compared with a reference implementation (detail_reference.py)."""
import base64
import copy
import glob
import gzip
import json
import os
import random
import re
import tempfile
import threading

import yaml

from changes import Yard
from detail_reference import Detail, differences
from fakeapi import FakeApi, fake_server, served
from harness import ROOT, framework_name, job_v2, request_bytes, wait_until

DATA = os.path.join(ROOT, "tests", "data", "frameworks")


def snapshot(name):
    with open(glob.glob(os.path.join(DATA, f"{name}*.json"))[0]) as f:
        return json.load(f)


def renamed(framework, job, user="alice"):
    """The same Framework as if this server had created it."""
    framework = copy.deepcopy(framework)
    framework["metadata"]["name"] = framework_name(job, user)
    framework["metadata"].setdefault("annotations", {})["jobName"] = job
    framework["metadata"].setdefault("labels", {}).setdefault("userName", user)
    return framework


def exit_specs():
    """The table of exit codes without patterns."""
    with open(os.path.join(ROOT, "runtime-assets", "k8s-job-exit-spec.yaml")) as f:
        return {entry["code"]: {k: v for k, v in entry.items() if k != "pattern"} for entry in yaml.safe_load(f)["spec"]}


SPECS = exit_specs()


def plain(value):
    """Returns the specification without the exit code patterns, which the reference does not
    have."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if not (k == "pattern" and "phrase" in value)}
    return [plain(v) for v in value] if isinstance(value, list) else value


def same(check, what, want, reply):
    if not check.equal(f"{what}: status", reply.status, 200):
        return
    found = list(differences(want, plain(reply.json)))
    check.ok(what, not found, "; ".join(found[:5]) + f" and {len(found)} in all")


def warm(server):
    """Waits until the server has listed all jobs and watches them."""
    return server.becomes("/api/v2/jobs", 200)


def known(server, job):
    return server.becomes(f"/api/v2/jobs/{job}", 200)


def seen(server, framework):
    """Waits until the server knows this state of the job."""
    want = Detail(framework, SPECS)
    whole = want.whole()

    def looks():
        reply = server.request("GET", f"/api/v2/jobs/{want.id}")
        return reply.status == 200 and not any(differences(whole, plain(reply.json)))
    return wait_until(looks)


def put(api, framework):
    """The stored object after the server has received its event."""
    kept = api.put("frameworks", framework)
    api.settle()
    return kept


def test_details_tell_how_the_attempt_before_ended(check):
    """If the controller has kept it, details and lists have the end of the attempt before the latest one; so have tasks."""
    ended = {"code": 137, "phrase": "ContainerSigKillReceived", "type": {"name": "Failed", "attributes": ["Transient"]},
             "diagnostics": "Pod failed: PodPattern matched: " + json.dumps({"containers": [{"name": "app", "code": 137, "message":
             "[PAI_RUNTIME_ERROR_START]\nexitCode: 137\nerrorLogs:\n  user: \"step 7\"\n[PAI_RUNTIME_ERROR_END]"}]})}
    kept, plain_one = renamed(snapshot("18"), "kept"), renamed(snapshot("18"), "plain")
    kept["status"]["retryPolicyStatus"].update(lastCompletionStatus=ended, alikeCount=2)
    task = kept["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
    task["retryPolicyStatus"].update(lastCompletionStatus=ended)
    api = FakeApi()
    for framework in (kept, plain_one):
        api.put("frameworks", framework)
    with fake_server(api) as server:
        check.ok("ready", server.ready())
        shown = {name: server.request("GET", f"/api/v2/jobs/alice~{name}").json for name in ("kept", "plain")}
        end = shown["kept"]["jobStatus"]["previousEnd"]
        check.equal("its code", (end["appExitCode"], end["appExitSpec"]["phrase"], end["alike"]), (137, "ContainerSigKillReceived", 2))
        check.equal("its lines", end["appExitMessages"]["runtime"]["errorLogs"], {"user": "step 7"})
        check.equal("of a task", [t.get("previousExitCode") for role in shown["kept"]["taskRoles"].values() for t in role["taskStatuses"]][:2], [137, None])
        check.ok("nothing is kept", "previousEnd" not in shown["plain"]["jobStatus"], shown["plain"]["jobStatus"])
        rows = {row["name"]: row for row in server.request("GET", "/api/v2/jobs").json}
        check.equal("in the list", {name: row.get("previousExitCode") for name, row in rows.items()}, {"kept": 137, "plain": None})


def test_details_of_every_state_match_the_reference(check):
    """Every state in v2 and v1, with each attempt and task."""
    check.ok("codes of the table", len(SPECS) >= 62 and SPECS[-210]["phrase"] == "StopFrameworkRequested")
    with served() as (api, server):
        warm(server)
        for path in sorted(glob.glob(os.path.join(DATA, "*.json"))):
            name = os.path.basename(path)[:-5]
            with open(path) as f:
                framework = json.load(f)
            many = name.startswith("23")  # takes long
            for what, f in ((name, framework), (f"{name} as ours", renamed(framework, name)))[many:]:
                one(check, server, what, put(api, f))


def one(check, server, what, framework):
    want = Detail(framework, SPECS)
    seen(server, framework)
    reply = server.request("GET", f"/api/v2/jobs/{want.id}")
    same(check, what, want.whole(), reply)
    same(check, f"{what}: as v1", Detail(framework, SPECS, v1=True).whole(),
         server.request("GET", f"/api/v1/jobs/{want.id}"))
    n = want.attempt.get("id", 0)
    for attempt in ("latest", n):
        check.equal(f"{what}: attempt {attempt}", server.request("GET", f"/api/v2/jobs/{want.id}/attempts/{attempt}").body,
                    reply.body)
    same(check, f"{what}: job-attempts", [want.job_attempt(True)],
         server.request("GET", f"/api/v2/jobs/{want.id}/job-attempts"))
    same(check, f"{what}: job-attempts/{n}", want.job_attempt(True),
         server.request("GET", f"/api/v2/jobs/{want.id}/job-attempts/{n}"))
    for role, tasks in want.roles().items():
        for task in tasks["taskStatuses"][::400] + tasks["taskStatuses"][-1:]:
            index = task["taskIndex"]
            same(check, f"{what}: {role} {index}", want.one_task(role, index), server.request(
                "GET", f"/api/v2/jobs/{want.id}/attempts/{n}/taskRoles/{role}/taskIndex/{index}/attempts"))


def test_details_of_unknown_attempts_are_refused(check):
    with served() as (api, server):
        warm(server)
        put(api, renamed(snapshot("19"), "x"))
        job = "/api/v2/jobs/alice~x"

        def ask(path):
            return server.request("GET", path)
        for path in (f"{job}/attempts/2", f"{job}/job-attempts/2", "/api/v2/jobs/alice~y",
                     "/api/v2/jobs/alice~y/job-attempts", f"{job}/attempts/0",
                     f"{job}/attempts/1/taskRoles/none/taskIndex/0/attempts",
                     f"{job}/attempts/1/taskRoles/worker/taskIndex/99/attempts",
                     f"{job}/attempts/7/taskRoles/worker/taskIndex/0/attempts"):
            check.refused(path, ask(path), 404, "NoJobError")
        for path in (f"{job}/attempts/x", f"{job}/attempts/-1", f"{job}/attempts/1.0",
                     f"{job}/job-attempts/first", f"{job}/attempts/99999999999999999999",
                     f"{job}/attempts/1/taskRoles/worker/taskIndex/x/attempts"):
            check.refused(path, ask(path), 400, "InvalidParametersError")
        check.equal("attempts are kept", (ask(f"{job}/job-attempts/healthz").status,
                                          ask(f"{job}/job-attempts/healthz").body), (200, b"ok"))
    with fake_server(api, "--history", "0") as server:
        warm(server)
        reply = server.request("GET", f"{job}/job-attempts/healthz")
        check.equal("attempts are not kept", (reply.status, reply.body), (501, b"Not healthy"))


def test_details_of_earlier_attempts_are_kept(check):
    """The attempt that was stored when the second one began."""
    first, second = snapshot("17"), snapshot("19")
    with served() as (api, server):
        warm(server)
        kept = put(api, renamed(first, "again"))
        name = kept["metadata"]["name"]
        check.ok("the first one is seen", seen(server, kept))
        earlier = copy.deepcopy(kept["status"]["attemptStatus"])
        now = api.update("frameworks", name, {**renamed(second, "again"), "metadata": {}})
        api.settle()
        job = "/api/v2/jobs/alice~again"
        path = f"{job}/attempts/0"
        seen(server, now)  # before, this path is the present attempt
        check.ok("it is there in time", wait_until(lambda: server.request("GET", path).status == 200))
        want = Detail(now, SPECS, attempt=earlier)
        same(check, "the first attempt", want.whole(), server.request("GET", path))
        same(check, "both", [Detail(now, SPECS).job_attempt(True), want.job_attempt(False)],
             server.request("GET", f"{job}/job-attempts"))
        same(check, "the first of both", want.job_attempt(True),
             server.request("GET", f"{job}/job-attempts/0"))
        same(check, "a task of it", want.one_task("worker", 1), server.request(
            "GET", f"{path}/taskRoles/worker/taskIndex/1/attempts"))


# ---- access to the reason for waiting; conditional requests --------------------------------------

def event_of(framework, reason, message, role="worker", index=0, **what):
    tasks = next(r for r in framework["status"]["attemptStatus"]["taskRoleStatuses"]
                 if r["name"] == role)["taskStatuses"]
    pod = f"{framework['metadata']['name']}-{role}-{index}"
    at = what.get("at", "2026-11-22T01:00:00Z")
    return {"metadata": {"name": f"{pod}.{what.get('n', 1)}"}, "type": what.get("type", "Warning"),
            "reason": reason, "message": message, "count": 3, "firstTimestamp": at,
            "lastTimestamp": at, "source": {"component": "default-scheduler"},
            "involvedObject": {"kind": "Pod", "name": pod, "namespace": "default",
                               "uid": what.get("uid", tasks[index]["attemptStatus"]["podUID"])}}


def test_details_of_too_many_attempts_do_not_fill_the_log(check):
    """Modified Frameworks cannot fill the log."""
    api = FakeApi()
    gate = threading.Event()
    api.fault("POST", "configmaps", until=gate)
    with fake_server(api) as server:
        warm(server)
        job = {"metadata": {"name": framework_name("mad"), "annotations": {"jobName": "mad"}}, "spec": {}}
        api.put("frameworks", job)
        for i in range(4000):
            api.update("frameworks", framework_name("mad"),
                       {**copy.deepcopy(job), "status": {"attemptStatus": {"id": i}}})
            if i == 2000:
                gate.set()
        api.settle()
        check.ok("lost attempts: are said", server.logged("too many attempts ended at once"))
        api.put("frameworks", {**job, "metadata": {"name": framework_name("last")}})
        api.settle()
        check.equal("... once", len(server.log_lines("too many attempts ended at once")), 1)


def test_details_show_the_waiting_reason_to_permitted_users(check):
    with Yard() as yard:
        yard.warm()
        framework = renamed(snapshot("04"), "waits")
        for role in framework["status"]["attemptStatus"]["taskRoleStatuses"]:
            for task in role["taskStatuses"]:
                task["attemptStatus"]["podNodeName"] = ""
        kept = put(yard.api, framework)
        kept = yard.api.update("frameworks", kept["metadata"]["name"], {
            **framework, "metadata": {"creationTimestamp": "2026-11-20T10:26:32Z"}})
        yard.warm()
        path = "/api/v2/jobs/alice~waits"

        def reason(who="alice"):
            return yard.ask(who, "GET", path).json["jobStatus"].get("waitingReason")

        def row(who="alice"):
            return yard.ask(who, "GET", "/api/v2/jobs").json[0].get("waitingReason")
        check.equal("no event, no reason", (reason(), row()), (None, None))
        yard.api.put("events", event_of(kept, "Other", "of a pod that was there before", uid="x", n=2,
                                        at="2026-11-22T03:00:00Z"))
        yard.api.put("events", event_of(kept, "Scheduled", "fine", type="Normal", n=3,
                                        at="2026-11-22T02:00:00Z"))
        tag = yard.ask("alice", "GET", path).headers["etag"]
        yard.api.put("events", event_of(kept, "FailedScheduling", "0/3 nodes are available", index=1))
        check.ok("it comes to be known", wait_until(lambda: reason() is not None))
        check.equal("the reason", reason(), {
            "kind": "unschedulable", "reason": "FailedScheduling", "type": "Warning",
            "message": "0/3 nodes are available", "taskRoleName": "worker", "taskIndex": 1,
            "count": 3, "lastTimestamp": 1795309200000})
        check.equal("it is another answer", yard.ask("alice", "GET", path, headers={
            "If-None-Match": tag}).status, 200)
        for who, sees in (("root", True), ("bob", True), ("carol", False)):
            check.equal(f"{who} sees it", (reason(who) is not None, row(who) is not None), (sees, sees))
        check.equal("the row has it as well", row(), {
            "kind": "unschedulable", "reason": "FailedScheduling", "message": "0/3 nodes are available"})
        yard.api.put("events", event_of(kept, "Failed", "Failed to pull image \"x\"", n=4,
                                        at="2026-11-22T02:30:00Z"))
        check.ok("the last one counts", wait_until(lambda: reason()["kind"] == "image"))
        running = {**renamed(snapshot("06"), "waits"), "metadata": {}}
        yard.api.update("frameworks", kept["metadata"]["name"], running)
        yard.api.settle()
        check.ok("none of a job that runs", wait_until(lambda: reason() is None and row() is None))


def test_details_report_that_no_controller_handles_the_job(check):
    """No status for half a minute: no controller handles the job."""
    with Yard() as yard:
        yard.warm()
        job = renamed(snapshot("00"), "left")
        job["metadata"].pop("creationTimestamp", None)
        kept = put(yard.api, job)
        check.ok("not for half a minute yet", "waitingReason" not in yard.ask("carol", "GET", "/api/v2/jobs/alice~left").json["jobStatus"])
        yard.api.update("frameworks", kept["metadata"]["name"], {**job, "metadata": {"creationTimestamp": "2026-11-20T10:26:32Z"}})
        yard.api.settle()

        def of(name):
            return yard.ask("carol", "GET", f"/api/v2/jobs/alice~{name}").json["jobStatus"]
        check.ok("it comes to be known", wait_until(lambda: "waitingReason" in of("left")))
        status = of("left")
        check.equal("it waits", status["state"], "WAITING")
        check.equal("the reason", (status["waitingReason"]["kind"], status["waitingReason"]["reason"]), ("controller", "NoController"))
        check.ok("in words", "no controller has looked at this job" in status["waitingReason"]["message"], status)
        tag = yard.ask("alice", "GET", "/api/v2/jobs/alice~left").headers["etag"]
        check.equal("the same again", yard.ask("alice", "GET", "/api/v2/jobs/alice~left", headers={"If-None-Match": tag}).status, 304)

        def bookmarks_until(text):
            """Sends bookmarks, since the server checks its clock only when it receives data."""
            return wait_until(lambda: yard.api.bookmark() or yard.server.log_lines(text))
        check.ok("it is in the log", bookmarks_until("no controller processes jobs"))
        seen = renamed(snapshot("01"), "left")
        yard.api.update("frameworks", job["metadata"]["name"], {**seen, "metadata": {}})
        check.ok("it was looked at", wait_until(lambda: "waitingReason" not in of("left")))
        check.ok("and that it is over", yard.server.logged("a controller processes jobs again"))
        check.equal("once", len(yard.server.log_lines("no controller processes jobs")), 1)
        put(yard.api, renamed(snapshot("17"), "later"))
        check.ok("it is known", wait_until(lambda: yard.ask("carol", "GET", "/api/v2/jobs?keyword=later").json))
        status = of("later")
        check.equal("between two attempts", status["waitingReason"], {
            "kind": "retry", "reason": "RetryDelay", "message": "next attempt at 10:27 UTC", "nextAttemptTime": 1795170472000})
        check.equal("rows say the same", [row.get("waitingReason") for row in yard.ask("carol", "GET", "/api/v2/jobs").json],
                    [status["waitingReason"], None])
        check.ok("rows of v1 do not", not any("waitingReason" in row for row in yard.ask("carol", "GET", "/api/v1/jobs").json))
        half = renamed(snapshot("00"), "half")
        half["metadata"]["labels"]["rest-lit/creating"] = "true"
        half["spec"]["executionType"] = "Create"
        put(yard.api, half)
        check.equal("what is being made is in no list", sorted(row["name"] for row in yard.ask("alice", "GET", "/api/v2/jobs").json),
                    ["later", "left"])
    with Yard(api=False) as yard:
        yard.submit(job_v2("kept"))
        check.ok("standalone: is in the log", yard.server.logged("nothing runs them"))
        status = yard.ask("alice", "GET", "/api/v2/jobs/alice~kept").json["jobStatus"]
        check.equal("standalone: the reason", status.get("waitingReason"), {
            "kind": "controller", "reason": "NoEngine",
            "message": "this server only keeps jobs (--engine=none); nothing runs them"})


def test_job_in_a_queue_of_kueue_says_why_it_waits(check):
    """The label of its virtual cluster or of extras.queue; the sentence that the controller has written."""
    facts = {"virtualClusters": {"default": {"queue": "research", "queues": ["night"]}, "free": {}}, "users": {"alice": {}}}
    with Yard(facts=facts) as yard:
        yard.warm()

        def queue_of(name, **more):
            yard.submit(json.dumps({**json.loads(job_v2(name)), **more}))
            made = yard.object(name)
            return made, made["metadata"]["labels"].get("kueue.x-k8s.io/queue-name")
        made, queue = queue_of("usual")
        check.equal("that of the virtual cluster", queue, "research")
        check.equal("that of the job", queue_of("chosen", extras={"queue": "night"})[1], "night")
        check.equal("none", queue_of("free", defaults={"virtualCluster": "free"})[1], None)
        refused = yard.ask("alice", "POST", "/api/v2/jobs", json.dumps({
            **json.loads(job_v2("refused")), "defaults": {"virtualCluster": "free"}, "extras": {"queue": "night"}}))
        check.equal("one of another virtual cluster", refused.status, 403)
        refused = yard.ask("alice", "POST", "/api/v2/jobs",
                           json.dumps({**json.loads(job_v2("refused")), "extras": {"queue": "other"}}))
        check.equal("another one", refused.status, 403)
        check.ok("says where", "/extras/queue" in str(refused.json) and "`other` is not one of the virtual cluster" in str(refused.json),
                 refused.json)
        text = "waits for the queue research: 2 more needed"
        waiting = {**made, "metadata": {"annotations": {**made["metadata"]["annotations"], "rest-lit/waiting": text}}}
        yard.api.update("frameworks", made["metadata"]["name"], waiting)
        yard.api.settle()
        wanted = {"kind": "queue", "reason": "Queued", "message": text}
        check.ok("details", wait_until(lambda: yard.ask("alice", "GET", "/api/v2/jobs/alice~usual").json["jobStatus"].get(
            "waitingReason") == wanted))
        check.equal("the row", [r.get("waitingReason") for r in yard.ask("alice", "GET", "/api/v2/jobs?keyword=usual").json], [wanted])


def test_details_are_304_for_the_current_etag(check):
    """A client with the current response gets 304."""
    with Yard() as yard:
        yard.warm()
        kept = put(yard.api, renamed(snapshot("06"), "same"))
        path = "/api/v2/jobs/alice~same"

        def status(tag, query="", who="alice"):
            return yard.ask(who, "GET", path + query, headers={"If-None-Match": tag}).status
        first = yard.ask("alice", "GET", path)
        tag = first.headers["etag"]
        check.ok("weak", re.fullmatch(r'W/"[0-9a-f]{32}"', tag), tag)
        check.equal("the same", status(tag), 304)
        for text in (f'"x", {tag}', tag[2:], "*"):
            check.equal(f"the same as {text}", status(text), 304)
        for text in ('"x"', "x", tag[:20] + '"'):
            check.equal(f"not {text}", status(text), 200)
        check.equal("no body", yard.ask("alice", "GET", path, headers={"If-None-Match": tag}).body, b"")
        check.equal("waiting requests get a response", status(tag, "?wait=0"), 200)
        yard.api.update("frameworks", kept["metadata"]["name"], {
            **renamed(snapshot("07"), "same"), "metadata": {}})
        yard.api.settle()
        check.ok("another", wait_until(lambda: status(tag) == 200))


# ---- Frameworks of other origin ------------------------------------------------------------------

def forged():
    """A Framework with all errors that kubectl permits."""
    f = renamed(snapshot("06"), "forged")
    roles = f["status"]["attemptStatus"]["taskRoleStatuses"]
    roles[0]["taskStatuses"][0].update(index=-1, state=7, retryPolicyStatus="none", startTime="soon")
    roles[0]["taskStatuses"][1]["attemptStatus"].update(
        podIP="169.254.169.254/latest?", podHostIP="169.254.169.254/latest?", podUID={"a": 1},
        completionStatus={"code": "1", "diagnostics": 7, "type": []}, id="../../x")
    roles[1]["taskStatuses"] = {"0": roles[1]["taskStatuses"]}
    f["status"]["attemptStatus"]["taskRoleStatuses"] += [
        copy.deepcopy(roles[0]), {"name": "../x", "taskStatuses": []}, {"name": 7}, None, "worker",
        {"name": "odd", "taskStatuses": [1, None, "x", [], {}]}]
    f["spec"]["taskRoles"].append({"name": "odd", "taskNumber": 1, "task": {"pod": "none"}})
    return f


def test_details_of_forged_frameworks_are_answered(check):
    with served() as (api, server):
        warm(server)
        put(api, forged())
        reply = server.request("GET", "/api/v2/jobs/alice~forged")
        if not check.equal("forged: status", reply.status, 200):
            return
        roles = reply.json["taskRoles"]
        check.equal("roles, once each", list(roles), ["ps", "worker", "odd"])
        first, second = roles["ps"]["taskStatuses"]
        check.equal("a task of no index", [first[k] for k in (
            "taskIndex", "taskState", "retries", "createdTime", "containerLog", "containerPorts")],
            [None, "UNKNOWN", None, None, None, {}])
        check.equal("an address that is none", [second[k] for k in (
            "containerIp", "containerId", "containerExitCode", "containerExitSpec",
            "containerExitDiagnostics", "attemptId", "containerLog")], [None] * 7)
        check.equal("tasks that are none", roles["worker"]["taskStatuses"], [])
        check.equal("an empty task", [t["taskState"] for t in roles["odd"]["taskStatuses"]], ["UNKNOWN"])
        f = renamed(snapshot("23"), "bomb")
        f["status"]["attemptStatus"]["taskRoleStatusesCompressed"] = "AAAA"
        put(api, f)
        check.refused("what is no gzip", server.request("GET", "/api/v2/jobs/alice~bomb"), 500,
              "UnknownError", "compressed")


def test_details_of_foreign_frameworks_are_answered(check):
    """Frameworks of others: without labels and annotations."""
    with served() as (api, server):
        warm(server)
        f = snapshot("06")
        for key in ("labels", "annotations"):
            del f["metadata"][key]
        f["metadata"]["name"] = "myjob1"
        kept = put(api, f)
        known(server, "myjob1")
        same(check, "by its name", Detail(kept, SPECS).whole(), server.request("GET", "/api/v2/jobs/myjob1"))
        reply = server.request("GET", "/api/v1/jobs/myjob1")
        check.equal("as v1", (reply.json["name"], reply.json["jobStatus"]["virtualCluster"]),
                    ("myjob1", "unknown"))
        # The user is in the environment only.
        f = copy.deepcopy(f)
        f["metadata"]["name"] = "mnistdemo1"
        f["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["env"] = [
            {"name": "PAI_USER_NAME", "value": "bob"}]
        kept = put(api, f)
        known(server, "mnistdemo1")
        reply = server.request("GET", "/api/v1/user/bob/jobs/mnist-demo_1")
        check.equal("by user and name", (reply.status, (reply.json or {}).get("jobStatus", {}).get("username")),
                    (200, "bob"))
        check.equal("not as another's", server.request("GET", "/api/v1/user/eve/jobs/mnist-demo_1").status, 404)
        check.equal("in his list", [row["name"] for row in server.request("GET", "/api/v1/user/bob/jobs").json],
                    ["mnistdemo1"])
        check.equal("in a list", {row["name"]: row["username"] for row in server.request("GET", "/api/v1/jobs").json},
                    {"myjob1": "alice", "mnistdemo1": "bob"})
        check.equal("it is not his to stop", server.request(
            "PUT", "/api/v1/user/bob/jobs/mnistdemo1/executionType", b'{"value":"STOP"}',
            {"Content-Type": "application/json"}).status in (403, 404), True)


def test_details_of_new_jobs_are_complete_at_once(check):
    """New jobs of this server, with ports."""
    with served() as (api, server):
        warm(server)
        reply = server.submit(job_v2("fresh"))
        check.equal("submitted", reply.status, 202)
        kept = api.objects["frameworks", framework_name("fresh")]
        same(check, "at once", Detail(kept, SPECS).whole(), server.request("GET", "/api/v2/jobs/alice~fresh"))
        status = copy.deepcopy(snapshot("06")["status"])
        role = kept["spec"]["taskRoles"][0]["name"]
        status["attemptStatus"]["taskRoleStatuses"] = [
            {**status["attemptStatus"]["taskRoleStatuses"][0], "name": role}]
        now = api.update("frameworks", kept["metadata"]["name"], {**kept, "status": status, "metadata": {}})
        api.settle()
        check.ok("running", wait_until(lambda: server.request(
            "GET", "/api/v2/jobs/alice~fresh").json["jobStatus"]["state"] == "RUNNING"))
        reply = server.request("GET", "/api/v2/jobs/alice~fresh")
        same(check, "running, with ports", Detail(now, SPECS).whole(), reply)
        first = reply.json["taskRoles"][role]["taskStatuses"][0]
        check.ok("ssh for the JS SDK, VS Code and the portal", re.fullmatch(
            r"\d+", first["containerPorts"]["ssh"]), first)
        check.equal("the address is the pod's", first["containerIp"],
                    status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]["attemptStatus"]["podIP"])


def test_details_use_the_exit_spec_file(check):
    with open(os.path.join(ROOT, "runtime-assets", "k8s-job-exit-spec.yaml")) as f, tempfile.NamedTemporaryFile("w") as ours:
        ours.write(f.read().replace(SPECS[256]["phrase"], "OursForUnknown"))
        ours.flush()
        with Yard("--exit-spec", ours.name) as yard:
            yard.warm()
            put(yard.api, renamed(snapshot("12"), "spec"))
            spec = yard.ask("alice", "GET", "/api/v2/jobs/alice~spec").json["jobStatus"]["appExitSpec"]
            check.equal("a code of no entry", (spec["code"], spec["phrase"]), (1, "OursForUnknown"))


def test_details_of_large_jobs_share_a_memory_limit(check):
    """Large responses, and the limit of concurrent ones."""
    with served("--detail-memory", "1048576", "--loops", "1") as (api, server):
        warm(server)
        f = renamed(snapshot("23"), "large")
        status = f["status"]["attemptStatus"]
        roles = Detail(f, SPECS).attempt
        roles = json.loads(gzip.decompress(base64.b64decode(roles["taskRoleStatusesCompressed"])))
        for task in (task for role in roles for task in role["taskStatuses"]):
            task["attemptStatus"]["completionStatus"] = {"code": 137}
        status["taskRoleStatusesCompressed"] = base64.b64encode(
            gzip.compress(json.dumps(roles).encode())).decode()
        put(api, f)
        for _ in range(3):
            reply = server.request("GET", "/api/v2/jobs/alice~large")
            check.ok("more than a MiB", reply.status == 200 and len(reply.body) > 1 << 20,
                     (reply.status, len(reply.body)))
        slow = server.connect()
        # One connection requests several responses, because the kernel buffers less than one of
        # them for a client that does not read.
        slow.send(request_bytes(server.port, "GET", "/api/v2/jobs/alice~large") * 30)
        check.ok("while another is sent", server.becomes("/api/v2/jobs/alice~large", 503))
        check.refused("why", server.request("GET", "/api/v2/jobs/alice~large"), 503,
              "UnavailableError", "large answers")
        slow.close()
        check.ok("and then again", server.becomes("/api/v2/jobs/alice~large", 200))


def gzipped(text):
    return base64.b64encode(gzip.compress(text.encode(), 1)).decode()


def packed(value):
    return gzipped(json.dumps(value, separators=(",", ":")))


def keep(api, framework, attempt, status):
    """A stored attempt with arbitrary content."""
    meta = framework["metadata"]
    api.put("configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": f"{meta['name']}-attempt-{attempt}", "ownerReferences": [{
            "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "name": meta["name"], "uid": meta["uid"]}]},
        "binaryData": {"attempt.json.gz": packed({"id": attempt, **status})}})


def test_details_of_large_attempts_stay_within_the_limits(check):
    """Earlier attempts are read within the memory limit and shown within the response limit."""
    with served("--deadline", "200") as (api, server):
        warm(server)
        framework = renamed(snapshot("19"), "many")
        framework["status"]["attemptStatus"]["id"] = 9
        framework = put(api, framework)
        noise = base64.b64encode(random.Random(1).randbytes(150000)).decode()
        unseen = gzipped('[{"name":"No Role","x":[' + "1," * 13999999 + f'1]}},"{noise}"]')
        for attempt in range(9):
            keep(api, framework, attempt, {"taskRoleStatusesCompressed": unseen})
        path = "/api/v2/jobs/alice~many/job-attempts"
        known(server, "alice~many")

        def listed():
            reply = server.request("GET", path)
            return [a["attemptIndex"] for a in reply.json] if reply.status == 200 else reply
        check.equal("as far as there is memory", listed(), [9, 8, 7])
        tasks = packed([{"name": "worker", "taskStatuses": [{"index": 0}] * 19000}])
        keep(api, framework, 8, {"completionStatus": {"code": 1}})
        for attempt in (5, 6, 7):
            keep(api, framework, attempt, {"taskRoleStatusesCompressed": tasks})
        check.equal("as far as it fits", listed()[:2], [9, 8])
    with fake_server(api, "--deadline", "2") as server:
        known(server, "alice~many")
        api.fault("GET", "configmaps", status=503)
        check.refused("the store does not answer", server.request("GET", path), 503, "UnavailableError")
