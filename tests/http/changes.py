"""Changes of submitted jobs: stop, remove, tag, scale; the job configuration and access to it."""
import copy
import json
import os
import time
from urllib.parse import urlencode

from fakeapi import Scene
from harness import Server, database_objects, framework_name, in_threads, job_v2, job_v2_secret, wait_until
from place import NO_LIMITS
from tokens import SECRET, bearer, token, write_file

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain;charset=UTF-8"}
MARKER = "Marker-of-a-password-0815"
# bob shares a virtual cluster with alice, carol does not.
FACTS = {
    "virtualClusters": ["default", "v100"],
    "groups": {"admins": {"admin": True}},
    "users": {
        "alice": {"virtualClusters": ["default", "v100"]},
        "bob": {"virtualClusters": ["default"]},
        "carol": {"virtualClusters": ["v100"]},
        "root": {"groups": ["admins"]},
    }}


class Yard(Scene):
    """A server for these users with a fake API server, or (api=False) on a directory."""

    def __init__(self, *arguments, api=True, facts=None):
        self.facts = facts or FACTS
        super().__init__(api)
        self.server = self.serve(*arguments)

    def serve(self, *arguments):
        who = ("--facts", write_file(self.directory, "facts.json", json.dumps(self.facts)),
               "--jwt-secret-file", write_file(self.directory, "jwt-secret", SECRET),
               "--token-check", "signature", *NO_LIMITS, *arguments)
        if self.api:
            return super().serve(*who, who=[])
        self.servers.append(Server("--engine=none", "--local", "jobs", *who, who=[], directory=self.directory))
        return self.servers[-1]

    def ask(self, who, method, path, body=None, headers=None):
        headers = {**(bearer(token(who)) if who else {}), **(headers or {})}
        return self.server.request(method, path, body, headers)

    def change(self, who, method, path, value):
        return self.ask(who, method, path, json.dumps(value), JSON)

    def submit(self, body, who="alice"):
        reply = self.ask(who, "POST", "/api/v2/jobs", body)
        assert reply.status == 202, reply
        return f"/api/v2/jobs/{who}~{json.loads(body)['name']}"

    def object(self, job, who="alice"):
        """The Framework as it is stored."""
        name = framework_name(job, who)
        if self.api:
            with self.api.lock:
                return copy.deepcopy(self.api.objects.get(("frameworks", name)))
        found = database_objects(os.path.join(self.directory, "jobs"), name)
        return found[0] if found else None

    def secretly(self, job, change, who="alice"):
        """Changes the stored object without an event."""
        with self.api.lock:
            change(self.api.objects["frameworks", framework_name(job, who)])

    def warm(self, hidden=0):
        """Waits until lists contain all jobs except hidden ones."""
        def all_listed():
            reply = self.ask("root", "GET", "/api/v2/jobs?withTotalCount=true&limit=0")
            with self.api.lock:
                there = sum(kind == "frameworks" for kind, _ in self.api.objects)
            return reply.status == 200 and reply.json["totalCount"] == there - hidden
        assert wait_until(all_listed), self.ask("root", "GET", "/api/v2/jobs?withTotalCount=true&limit=0")

    def count(self, method):
        return self.api.count(method, "frameworks")


def equal(check, what, reply, status, code=None, message=None):
    check.equal(f"{what}: status and code", (reply.status, reply.code), (status, code))
    if message is not None:
        check.equal(f"{what}: message", reply.message, message)


def stops(check, yard, where):
    job = yard.submit(job_v2("one"))
    path = f"{job}/executionType"
    for value in ({}, {"value": "stop"}, {"value": ["STOP"]}, {"value": None}, []):
        equal(check, f"{where}: {value} before all else",
              yard.change("carol", "PUT", "/api/v2/jobs/alice~none/executionType", value), 400,
              "InvalidParametersError")
    equal(check, f"{where}: no such job", yard.change("carol", "PUT", path.replace("one", "two"),
                                                      {"value": "STOP"}), 404, "NoJobError")
    equal(check, f"{where}: another's", yard.change("bob", "PUT", path, {"value": "STOP"}), 403,
          "ForbiddenUserError")
    check.equal(f"{where}: nothing came of it", yard.object("one")["spec"]["executionType"], "Start")
    done = "Execute job alice~one successfully."
    equal(check, f"{where}: START", yard.change("alice", "PUT", path, {"value": "START"}), 202, None, done)
    check.equal(f"{where}: START changes nothing", yard.object("one")["spec"]["executionType"], "Start")
    for who, body, headers in (("alice", '{"value": "STOP"}', JSON), ("alice", '{"value":"STOP"}', TEXT),
                               ("root", urlencode({"value": "STOP"}), FORM)):
        reply = yard.ask(who, "PUT", path, body, headers)
        equal(check, f"{where}: STOP as {headers}", reply, 202, None, done)
        check.equal(f"{where}: status in it", reply.json["status"], 202)
        check.equal(f"{where}: stopped", yard.object("one")["spec"]["executionType"], "Stop")
    equal(check, f"{where}: START is taken", yard.change("alice", "PUT", path, {"value": "START"}), 202)
    check.equal(f"{where}: and starts nothing", yard.object("one")["spec"]["executionType"], "Stop")
    yard.submit(job_v2("v1"))
    reply = yard.change("alice", "PUT", "/api/v1/user/alice/jobs/v1/executionType", {"value": "STOP"})
    check.equal(f"{where}: as v1 has it", (reply.status, reply.json),
                (202, {"message": "execute job v1 successfully"}))
    check.equal(f"{where}: stopped by v1", yard.object("v1")["spec"]["executionType"], "Stop")
    check.equal(f"{where}: as anybody sees", yard.ask("carol", "GET", job).json["jobStatus"]["executionType"], "STOP")


def removes(check, yard, where):
    yard.submit(job_v2_secret("old", MARKER))
    path = "/api/v1/user/alice/jobs/old"
    equal(check, f"{where}: no such job", yard.ask("alice", "DELETE", path + "er"), 404, "NoJobError")
    equal(check, f"{where}: a ~ is in no name", yard.ask("alice", "DELETE", "/api/v1/user/alice~old/jobs/x"),
          404, "NoJobError")
    equal(check, f"{where}: another's", yard.ask("bob", "DELETE", path), 403, "ForbiddenUserError")
    reply = yard.ask("root", "DELETE", path)
    check.equal(f"{where}: removed", (reply.status, reply.json),
                (202, {"message": "deleted job old successfully"}))
    check.equal(f"{where}: gone", yard.object("old"), None)
    equal(check, f"{where}: gone at once", yard.ask("alice", "DELETE", path), 404, "NoJobError")
    equal(check, f"{where}: also for others", yard.ask("alice", "GET", "/api/v2/jobs/alice~old/config"),
          404, "NoJobError")
    yard.submit(job_v2("old"))
    equal(check, f"{where}: made anew", yard.ask("alice", "GET", "/api/v2/jobs/alice~old/config"), 200)


def tags_of(framework):
    return json.loads(framework["metadata"].get("annotations", {}).get("rest-lit/tags", "[]"))


def tags(check, yard, where):
    path = yard.submit(job_v2("tagged")) + "/tag"
    none = path.replace("tagged", "none")
    for value in ("", "a,b", "x" * 64, "ä" * 32, "tab\t", "line\n", "\u007f"):
        equal(check, f"{where}: {value!r} is no tag", yard.change("carol", "PUT", none, {"value": value}),
              400, "InvalidParametersError")
    equal(check, f"{where}: no value", yard.change("alice", "DELETE", path, {}), 400, "InvalidParametersError")
    equal(check, f"{where}: no such job", yard.change("bob", "PUT", none, {"value": "x"}), 404, "NoJobError")
    equal(check, f"{where}: another's", yard.change("bob", "PUT", path, {"value": "x"}), 403, "ForbiddenUserError")
    equal(check, f"{where}: none yet", yard.change("alice", "DELETE", path, {"value": "x"}), 404, "NoTagError")
    wanted = ["dev", 'say "hi" \\ ü', "x" * 63]
    for value in (*wanted, wanted[1]):
        reply = yard.change("alice", "PUT", path, {"value": value})
        equal(check, f"{where}: put {value}", reply, 200, None,
              f"Add tag {value} for job alice~tagged successfully.")
    check.equal(f"{where}: stored", tags_of(yard.object("tagged")), wanted)
    equal(check, f"{where}: removed", yard.change("root", "DELETE", path, {"value": wanted[1]}), 200, None,
          f"Delete tag {wanted[1]} from job alice~tagged successfully.")
    check.equal(f"{where}: the others are left", tags_of(yard.object("tagged")), [wanted[0], wanted[2]])
    equal(check, f"{where}: removed once", yard.change("alice", "DELETE", path, {"value": wanted[1]}), 404, "NoTagError")
    # Concurrent changes: none is lost.
    replies = in_threads(8, lambda i: yard.change("alice", "PUT", path, {"value": f"t{i}"}))
    good = [f"t{i}" for i in range(8) if replies[i].status == 200]
    check.ok(f"{where}: at a time", len(good) > 2, str(replies))
    check.equal(f"{where}: what was said to be there is", sorted(tags_of(yard.object("tagged"))),
                sorted([wanted[0], wanted[2], *good]))
    for i in range(32):
        yard.change("alice", "PUT", path, {"value": f"t{i}"})
    check.equal(f"{where}: as many as may be", len(tags_of(yard.object("tagged"))), 32)
    equal(check, f"{where}: one more", yard.change("alice", "PUT", path, {"value": "more"}), 400,
          "InvalidParametersError")
    equal(check, f"{where}: one of them again", yard.change("alice", "PUT", path, {"value": wanted[0]}), 200)
    for tag in tags_of(yard.object("tagged")):
        yard.change("alice", "DELETE", path, {"value": tag})
    check.ok(f"{where}: none is left", "rest-lit/tags" not in yard.object("tagged")["metadata"]["annotations"])


def two_roles(name, **more):
    job = json.loads(job_v2(name, **more))
    worker = job["taskRoles"].pop("worker")
    worker["resourcePerInstance"]["gpu"] = 2
    job["taskRoles"] = {"ps": {**worker, "instances": 2}, "My_Worker": {
        **worker, "instances": 3, "completion": {"minSucceededInstances": 2}}}
    return json.dumps(job)


def scale_of(framework):
    return ({r["name"]: r["taskNumber"] for r in framework["spec"]["taskRoles"]},
            framework["metadata"]["annotations"]["totalGpuNumber"])


def scales(check, yard, where):
    path = yard.submit(two_roles("big")) + "/taskRoles/"
    check.equal(f"{where}: to begin with", scale_of(yard.object("big")), ({"ps": 2, "myworker": 3}, "10"))
    for value in ({}, {"instances": 0}, {"instances": -1}, {"instances": 1.5}, {"instances": "many"},
                  {"instances": 10001}):
        equal(check, f"{where}: {value}", yard.change("carol", "PATCH", "/api/v2/jobs/a~b/taskRoles/c", value),
              400, "InvalidParametersError")
    equal(check, f"{where}: no such job", yard.change("bob", "PATCH", "/api/v2/jobs/a~b/taskRoles/c",
                                                      {"instances": 2}), 404, "NoJobError")
    equal(check, f"{where}: another's", yard.change("bob", "PATCH", path + "ps", {"instances": 4}), 403,
          "ForbiddenUserError")
    reply = yard.change("alice", "PATCH", path + "master", {"instances": 4})
    equal(check, f"{where}: no such role", reply, 404, "NoJobError")
    check.ok(f"{where}: which there are", "ps, myworker" in reply.message, reply.message)
    reply = yard.change("alice", "PATCH", path + "ps", {"instances": 4})
    check.equal(f"{where}: scaled", (reply.status, reply.json),
                (202, {"status": 202, "message": "Scale task role ps of job alice~big to 4 instances.",
                       "instances": 4}))
    check.equal(f"{where}: also the GPUs", scale_of(yard.object("big")), ({"ps": 4, "myworker": 3}, "14"))
    equal(check, f"{where}: by its own name", yard.change("root", "PATCH", path + "My_Worker",
                                                          {"instances": 2}), 202)
    equal(check, f"{where}: the same again", yard.change("alice", "PATCH", path + "myworker",
                                                         {"instances": "2"}), 202)
    check.equal(f"{where}: fewer", scale_of(yard.object("big")), ({"ps": 4, "myworker": 2}, "12"))
    reply = yard.change("alice", "PATCH", path + "myworker", {"instances": 1})
    equal(check, f"{where}: it would never complete", reply, 400, "InvalidParametersError")
    check.ok(f"{where}: says why", "minSucceededInstances" in reply.message, reply.message)
    reply = yard.change("alice", "PATCH", path + "ps", {"instances": 9})
    equal(check, f"{where}: too many in all", reply, 400, "InvalidParametersError")
    check.ok(f"{where}: says how many", "10" in reply.message and "11" in reply.message, reply.message)
    yard.change("alice", "PUT", "/api/v2/jobs/alice~big/executionType", {"value": "STOP"})
    equal(check, f"{where}: it is being stopped", yard.change("alice", "PATCH", path + "ps", {"instances": 3}),
          409, "ConflictJobError")


def configs(check, yard, where):
    job = yard.submit(job_v2_secret("secret", MARKER))
    reply = yard.ask("bob", "GET", job + "/config")
    check.equal(f"{where}: type", (reply.status, reply.headers.get("content-type")),
                (200, "text/yaml; charset=utf-8"))
    wanted = json.loads(job_v2_secret("secret", MARKER))
    wanted["secrets"] = wanted["prerequisites"][0]["auth"]["username"] = "******"
    check.equal(f"{where}: as it was submitted", reply.json, wanted)
    check.ok(f"{where}: no secret", MARKER.encode() not in reply.body, repr(reply))
    equal(check, f"{where}: of another virtual cluster", yard.ask("carol", "GET", job + "/config"), 403,
          "ForbiddenUserError")
    for path in (job + "x", job.replace("alice", "bob"), "/api/v2/jobs/nobody", "/api/v2/jobs/~"):
        equal(check, f"{where}: {path}", yard.ask("alice", "GET", path + "/config"), 404, "NoJobError")
    yaml = ("protocolVersion: 2\nname: text\ntype: job\nprerequisites:\n- {type: dockerimage, name: i, uri: u,"
            " version: 1.10}\ntaskRoles:\n  w: &w {dockerImage: i, commands: ['true'],"
            " resourcePerInstance: {cpu: 1, memoryMB: 512, gpu: 0}}\n  v: *w\n")
    reply = yard.ask("alice", "POST", "/api/v2/jobs", yaml)
    check.ok(f"{where}: YAML is taken", reply.status == 202, repr(reply))
    reply = yard.ask("alice", "GET", "/api/v2/jobs/alice~text/config")
    check.ok(f"{where}: YAML", reply.json and reply.json["taskRoles"]["v"]["commands"] == ["true"] and
             reply.json["prerequisites"][0]["version"] == 1.1, repr(reply))
    reply = yard.ask("alice", "POST", "/api/v1/user/alice/jobs",
                     urlencode({"jobName": "form.v1", "image": "i", "taskRoles[0][name]": "main",
                                "taskRoles[0][taskNumber]": "2", "taskRoles[0][command]": "true"}), FORM)
    check.equal(f"{where}: a form is taken", reply.status, 202)
    reply = yard.ask("alice", "GET", "/api/v1/user/alice/jobs/form.v1/config")
    check.ok(f"{where}: v1", reply.json and reply.json["jobName"] == "form.v1" and
             reply.json["taskRoles"][0]["taskNumber"] == 2, repr(reply))
    for path in (job + "/ssh", "/api/v2/jobs/a~b/ssh", "/api/v1/user/alice/jobs/x/ssh"):
        equal(check, f"{where}: {path}", yard.ask("carol", "GET", path), 404, "NoJobSshInfoError")


PARTS = [stops, removes, tags, scales, configs]
LIMITS = ("--max-tasks", "10")


def test_cluster_jobs_can_be_changed(check):
    with Yard(*LIMITS) as yard:
        for part in PARTS:
            part(check, yard, part.__name__)


def test_local_jobs_can_be_changed(check):
    with Yard(*LIMITS, api=False) as yard:
        for part in PARTS:
            part(check, yard, part.__name__ + " in a directory")


STOP = {"value": "STOP"}


def annotations(yard, name):
    return yard.object(name)["metadata"]["annotations"]


def test_keeping_a_job_adds_hours_and_removes_the_warning(check):
    """On a directory: the owner up to a limit, an administrator beyond it, a stranger never."""
    hour = 3600 * 1000
    with Yard("--gpu-idle-stop", "30m", api=False) as yard:
        path = yard.submit(job_v2("kept")) + "/keep"

        def keep(who, hours, **more):
            return yard.change(who, "PUT", path, {"hours": hours, **more})

        def kept():
            status = yard.ask("alice", "GET", path.removesuffix("/keep")).json["jobStatus"]
            return status.get("gpuKeptUntil"), status.get("gpuKeepReason")
        check.equal("not kept", kept(), (None, None))
        began = time.time() * 1000
        reply = keep("alice", 2, reason='until "tonight" <b>')
        equal(check, "kept", reply, 200, None, "Keep job alice~kept for 2 hours more.")
        until = reply.json["keptUntil"]
        check.ok("from now", int(began) <= until - 2 * hour <= time.time() * 1000, until)
        check.equal("stored", annotations(yard, "kept")["rest-lit/gpu-keep"], f'{until} 2 until "tonight" <b>')
        check.equal("shown", kept(), (until, 'until "tonight" <b>'))
        check.equal("from its end", keep("alice", 3).json["keptUntil"], until + 3 * hour)
        check.equal("the last reason counts", kept(), (until + 3 * hour, ""))
        check.equal("the sum, the last reason", annotations(yard, "kept")["rest-lit/gpu-keep"], f"{until + 3 * hour} 5 ")
        reply = keep("alice", 1)
        equal(check, "more than ten times --gpu-idle-stop", reply, 400, "InvalidParametersError")
        check.ok("it says how much, and what to do", "at most 5" in reply.message and "had 5" in reply.message and
                 "administrator" in reply.message, reply.message)
        equal(check, "an administrator", keep("root", 100, reason="x" * 200), 200)
        for who, status in (("bob", 403), ("carol", 403), (None, 401)):
            check.equal(f"{who}", keep(who, 1).status, status)
        for hours in (0, -1, 10**9, 10**30, 1.5, "many", "", None, [1], {"a": 1}, 87601):
            for who in ("alice", "root"):
                equal(check, f"{who}: {hours} hours", keep(who, hours), 400, "InvalidParametersError")
        for reason in ("x" * 201, "ä" * 101, "a\nb", "a\u0007", "a\u202eb"):
            equal(check, f"reason {reason!r}", keep("root", 1, reason=reason), 400, "InvalidParametersError")
        equal(check, "no such job", yard.change("alice", "PUT", path.replace("kept", "none"), {"hours": 1}), 404, "NoJobError")
        check.equal("nothing came of it", annotations(yard, "kept")["rest-lit/gpu-keep"].split(" ", 2)[1:], ["105", "x" * 200])
    with Yard(api=False) as yard:
        path = yard.submit(job_v2("kept")) + "/keep"
        equal(check, "without --gpu-idle-stop", yard.change("alice", "PUT", path, {"hours": 721}), 400, "InvalidParametersError")
        equal(check, "720 hours", yard.change("alice", "PUT", path, {"hours": "720"}), 200)
    with Yard() as yard:
        path = yard.submit(job_v2("kept")) + "/keep"
        equal(check, "a cluster", yard.change("alice", "PUT", path, {"hours": 1}), 404, "NoMachineError")
        check.ok("nothing is stored", "rest-lit/gpu-keep" not in annotations(yard, "kept"))


def idle(ms, warned=None, boot="other", boot_ms=1):
    return f"{ms} {warned or ms} {boot} {boot_ms}"


def put_state(yard, name, state, code=None, **notes):
    """A job of alice with this state and these annotations."""
    yard.submit(job_v2(name))
    framework = yard.object(name)
    framework["metadata"]["annotations"].update({f"rest-lit/{k.replace('_', '-')}": v for k, v in notes.items()})
    outcome = {"completionStatus": {"code": code, "diagnostics": "", "type": {"name": "", "attributes": []}}} if code is not None else {}
    framework["status"] = {"state": state, "runTime": "2026-01-01T00:00:00Z", "startTime": "2026-01-01T00:00:00Z",
                           "transitionTime": "2026-01-01T00:00:00Z", "attemptStatus": {"id": 0, "taskRoleStatuses": [], **outcome}}
    yard.api.update("frameworks", framework["metadata"]["name"], framework)


def test_idle_gpus_are_shown_while_the_job_lives(check):
    """gpuIdleSince in lists and details, only of a job that has the annotation and has not ended."""
    since = 1767225600123
    with Yard() as yard:
        put_state(yard, "idle", "AttemptRunning", gpu_idle=idle(since))
        put_state(yard, "busy", "AttemptRunning", gpu_keep=f"{since} 24 it is over")
        put_state(yard, "ended", "Completed", 0, gpu_idle=idle(since), gpu_keep=f"{int(time.time() * 2000)} 24 it has ended")
        put_state(yard, "wrong", "AttemptRunning", gpu_idle="yesterday")
        yard.warm()

        def listed():
            return {row["name"]: row for row in yard.ask("alice", "GET", "/api/v2/jobs").json}
        check.ok("the last change has come", wait_until(lambda: listed()["wrong"]["state"] == "RUNNING"), listed())
        rows = listed()
        check.equal("rows", {name: row.get("gpuIdleSince") for name, row in rows.items()},
                    {"idle": since, "busy": None, "ended": None, "wrong": None})
        check.ok("absent, not null", all("gpuIdleSince" not in rows[name] for name in ("busy", "ended", "wrong")))
        for name in rows:
            status = yard.ask("alice", "GET", f"/api/v2/jobs/alice~{name}").json["jobStatus"]
            check.equal(f"details of {name}", status.get("gpuIdleSince"), since if name == "idle" else None)
            check.ok("not kept any more", "gpuKeptUntil" not in status, status)
        check.ok("not in v1", "gpuIdleSince" not in yard.ask("alice", "GET", "/api/v1/jobs").body.decode())
        check.equal("with the same state", rows["idle"]["state"], rows["busy"]["state"])


def test_idle_jobs_are_stopped_after_the_warning_only(check):
    """--gpu-idle-stop: kept, ended and waiting jobs, and those without a warning, go on; also one
    whose warning is of another boot, until this server has known it for that time."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    now, boot_ms = int(time.time() * 1000), int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)
    day = 86400 * 1000
    old = idle(now - day, now - day, boot, 1)
    later = f"{now + day} 24 why"
    with Yard("--gpu-idle-stop", "1h") as yard:
        for i in range(20):
            put_state(yard, f"kept{i}", "AttemptRunning", gpu_idle=old, gpu_keep=later)
            put_state(yard, f"ended{i}", "Completed", 0, gpu_idle=old)
            put_state(yard, f"unknown{i}", "Unheard", gpu_idle=old)
            put_state(yard, f"silent{i}", "AttemptRunning", gpu_idle=("", "x", f"{now - day}", f"0 1 {boot} 1")[i % 4])
            # The clocks were set by a day, in both directions.
            put_state(yard, f"young{i}", "AttemptRunning",
                      gpu_idle=idle(now, now + (i % 3 - 1) * day, boot if i % 2 else "other", boot_ms if i % 2 else 1))
        put_state(yard, "stopped", "AttemptRunning", gpu_idle=old, gpu_keep=f"{now - day} 1 over")
        put_state(yard, "future", "AttemptRunning", gpu_idle=idle(now + day, now + day, boot, 1))
        yard.warm()
        for name in ("stopped", "future"):
            check.ok(f"{name}: by the boot clock it is time", wait_until(lambda n=name: yard.object(n)["spec"]["executionType"] == "Stop"),
                     yard.object(name)["spec"]["executionType"])
        reason = annotations(yard, "stopped")["rest-lit/stop-reason"]
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((now - day) // 1000))
        check.equal("reason", reason, f"GPUs idle since {at}, warned at {at}; `rest-lit keep JOB` prevents this.")
        time.sleep(3)  # more rounds
        names = [f"{kind}{i}" for kind in ("kept", "ended", "unknown", "silent", "young") for i in range(20)]
        check.equal("0 of 100 others", [n for n in names if yard.object(n)["spec"]["executionType"] != "Start"], [])
        check.ok("the log says so", "--gpu-idle-stop" in yard.server.log())
    with Yard("--gpu-idle-stop", "2") as yard:
        put_state(yard, "other", "AttemptRunning", gpu_idle=idle(now - day))
        yard.warm()
        began = time.monotonic()
        check.ok("of another boot", wait_until(lambda: yard.object("other")["spec"]["executionType"] == "Stop"))
        check.ok("after it was known so long", time.monotonic() - began > 1, time.monotonic() - began)
    for options in ((), ("--gpu-idle", "1h")):
        with Yard(*options) as yard:
            put_state(yard, "goes-on", "AttemptRunning", gpu_idle=old)
            yard.warm()
            time.sleep(3)
            check.equal(f"{options}: without --gpu-idle-stop", yard.object("goes-on")["spec"]["executionType"], "Start")


def test_refused_changes_name_the_value_and_the_choices(check):
    """A refusal contains the given value and the allowed values."""
    with Yard(api=False) as yard:
        path = yard.submit(job_v2("found"))
        for method, what, body, words in (
                ("PUT", "/executionType", {"value": "stop"}, ["START or STOP", '"stop"']),
                ("PUT", "/executionType", {}, ["value", "not there"]),
                ("PUT", "/tag", {"value": "a,b"}, ["commas", '"a,b"']),
                ("PUT", "/tag", {"value": ["a"]}, ["value", "a list"]),
                ("PATCH", "/taskRoles/worker", {"instances": "many"}, ["from 1 to", '"many"']),
                ("PATCH", "/taskRoles/worker", {"instances": 0}, ["from 1 to", '"0"'])):
            reply = yard.change("alice", method, path + what, body)
            check.equal(f"{what} {body}: refused", (reply.status, reply.code), (400, "InvalidParametersError"))
            for word in words:
                check.ok(f"{what} {body}: says {word}", word in reply.message, reply.message)
        reply = yard.ask("alice", "GET", path + "/events?type=Bad")
        check.ok("type of events: says what was found", reply.status == 400 and '"Bad"' in reply.message, reply)


def test_changes_never_touch_a_recreated_job(check):
    """A job that was created again in the meantime is another job."""
    with Yard() as yard:
        for name in ("stop", "tag", "scale", "remove"):
            yard.submit(job_v2(name))
        yard.warm()
        for name in ("stop", "tag", "scale", "remove"):
            yard.secretly(name, lambda f: f["metadata"].update(uid="other"))
        before = {name: yard.object(name) for name in ("stop", "tag", "scale", "remove")}
        for name, method, path, value in (
                ("stop", "PUT", "/api/v2/jobs/alice~stop/executionType", STOP),
                ("tag", "PUT", "/api/v2/jobs/alice~tag/tag", {"value": "x"}),
                ("scale", "PATCH", "/api/v2/jobs/alice~scale/taskRoles/worker", {"instances": 2}),
                ("remove", "DELETE", "/api/v1/user/alice/jobs/remove", None)):
            equal(check, name, yard.change("alice", method, path, value), 404, "NoJobError")
            check.equal(f"{name}: left alone", yard.object(name), before[name])


def test_changes_handle_conflicts_and_api_server_faults(check):
    with Yard() as yard:
        for i in range(8):
            yard.submit(job_v2(f"j{i}"))
        api = yard.api
        tag = {"value": "x"}
        api.fault("PATCH", "frameworks", framework_name("j0"), times=2, status=409)
        equal(check, "two conflicts", yard.change("alice", "PUT", "/api/v2/jobs/alice~j0/tag", tag), 200)
        check.equal("it is there", tags_of(yard.object("j0")), ["x"])
        api.fault("PATCH", "frameworks", framework_name("j1"), status=409)
        seen = yard.count("PATCH")
        equal(check, "conflicts for ever", yard.change("alice", "PUT", "/api/v2/jobs/alice~j1/tag", tag), 503,
              "UnavailableError")
        check.ok("an end of it", yard.count("PATCH") - seen <= 8, str(yard.count("PATCH") - seen))
        api.fault("PATCH", "frameworks", framework_name("j2"), status=403)
        reply = yard.change("alice", "PUT", "/api/v2/jobs/alice~j2/executionType", STOP)
        equal(check, "forbidden", reply, 500, "UnknownError")
        check.ok("what is missing", 'RBAC verb "patch" on frameworks.frameworkcontroller.microsoft.com' in
                 reply.message, reply.message)
        api.fault("PATCH", "frameworks", framework_name("j3"), times=1, status_done=503)
        equal(check, "done, and not known", yard.change("alice", "PUT", "/api/v2/jobs/alice~j3/tag", tag), 200)
        check.equal("once", tags_of(yard.object("j3")), ["x"])
        api.fault("PATCH", "frameworks", framework_name("j4"), times=1, cut="done")
        equal(check, "scaled, and no answer", yard.change(
            "alice", "PATCH", "/api/v2/jobs/alice~j4/taskRoles/worker", {"instances": 5}), 202)
        check.equal("scaled once", scale_of(yard.object("j4")), ({"worker": 5}, "0"))
        api.fault("PATCH", "frameworks", framework_name("j5"), status=422)
        seen = yard.count("PATCH")
        equal(check, "refused for good", yard.change("alice", "PUT", "/api/v2/jobs/alice~j5/executionType",
                                                     STOP), 500, "UnknownError")
        check.equal("asked twice", yard.count("PATCH") - seen, 2)
        api.fault("DELETE", "frameworks", framework_name("j6"), times=1, cut="done")
        equal(check, "removed, and no answer", yard.ask("alice", "DELETE", "/api/v1/user/alice/jobs/j6"), 202)
        with api.lock:
            del api.objects["frameworks", framework_name("j7")]
        equal(check, "removed by others", yard.change("alice", "PUT", "/api/v2/jobs/alice~j7/executionType",
                                                      STOP), 404, "NoJobError")


def test_stop_is_visible_without_a_watch_event(check):
    """The next response shows the change even without a watch event, so it is not repeated."""
    with Yard() as yard:
        yard.submit(job_v2("seen"))
        yard.warm()
        yard.api.fault("WATCH", "frameworks", hang="before")
        path = "/api/v2/jobs/alice~seen/executionType"
        equal(check, "stop", yard.change("alice", "PUT", path, STOP), 202)
        rows = yard.ask("alice", "GET", "/api/v2/jobs").json
        check.equal("in the list", [r.get("executionType") for r in rows], ["STOP"])
        seen = yard.count("PATCH")
        equal(check, "again", yard.change("alice", "PUT", path, STOP), 202)
        check.equal("nothing to do", yard.count("PATCH"), seen)
        equal(check, "remove", yard.ask("alice", "DELETE", "/api/v1/user/alice/jobs/seen"), 202)
        check.equal("gone from the list", yard.ask("alice", "GET", "/api/v2/jobs").json, [])


def foreign(name, annotations=None, labels=None):
    return {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
            "spec": {"executionType": "Start", "taskRoles": []}}


def test_config_hides_secrets_of_jobs_of_any_origin(check):
    """For jobs of any origin, no secret is shown; an unreadable configuration is 404."""
    with Yard() as yard:
        config = json.dumps({"secrets": {"a": MARKER}, "prerequisites": [{"auth": {"password": MARKER, "registryuri": "r"}}]})
        for job, text in (("open", config), ("none", None), ("broken", "{"), ("deep", "[" * 200)):
            yard.api.put("frameworks", foreign(framework_name(job), {"jobName": job, "config": text},
                                               {"userName": "alice", "virtualCluster": "default"}))
        check.equal("masked", yard.ask("alice", "GET", "/api/v2/jobs/alice~open/config").json, {
            "secrets": "******", "prerequisites": [{"auth": {"password": "******", "registryuri": "r"}}]})
        for job in ("none", "broken", "deep"):
            equal(check, job, yard.ask("alice", "GET", f"/api/v2/jobs/alice~{job}/config"), 404, "NoJobConfigError")


def test_stored_object_determines_the_owner(check):
    """The stored object, not the id, determines the job's owner."""
    with Yard() as yard:
        alice = {"userName": "alice", "virtualCluster": "default"}
        config = json.dumps({"name": "x"})
        yard.submit(job_v2("edge"))
        md5 = framework_name("edge")
        # The Frameworks: of other origin, with an owner and without one; with the job name of
        # another job; without a user. No list contains them, so they precede the jobs that warm()
        # waits for.
        yard.api.put("frameworks", foreign("other", {"config": config}))
        yard.api.put("frameworks", foreign("owned", {"config": config}, alice))
        yard.api.put("frameworks", foreign(framework_name("forged"), {"jobName": "edge", "config": config}, alice))
        yard.api.put("frameworks", foreign(framework_name("taken", "bob"), {"jobName": "taken", "config": config}, alice))
        yard.warm(hidden=2)
        for who, path, wanted in (
                ("alice", "alice~edge", 200), ("alice", "alice~forged", 404), ("bob", "bob~taken", 404),
                ("alice", "alice~taken", 404), ("alice", f"unknown~{md5}", 404), ("alice", f"unknown{md5}", 404),
                ("alice", md5, 404), ("root", md5, 404), ("alice", "other", 403), ("root", "other", 200),
                ("root", "unknownOther", 200), ("root", "Ot-her", 200), ("root", "unknown~other", 404),
                ("alice", "owned", 200), ("bob", "owned", 200), ("carol", "owned", 403),
                ("root", "nothing", 404)):
            check.equal(f"{who} {path}", yard.ask(who, "GET", f"/api/v2/jobs/{path}/config").status, wanted)
        for user, name, wanted in (("alice", "owned", 200), ("unknown", "other", 200), ("bob", "owned", 404),
                                   ("bob", "other", 404), ("alice", "edge", 200)):
            check.equal(f"v1 {user} {name}", yard.ask("root", "GET", f"/api/v1/user/{user}/jobs/{name}/config").status,
                        wanted)
        # Changes require its own name.
        for who, path, wanted in (("alice", "other", 403), ("root", "unknownother", 404), ("root", "Other", 404),
                                  ("root", "other", 202), ("bob", "owned", 403), ("alice", "owned", 202)):
            reply = yard.change(who, "PUT", f"/api/v2/jobs/{path}/executionType", STOP)
            check.equal(f"{who} stops {path}", reply.status, wanted)
        check.equal("no list was asked for", yard.count("LIST"), 1)


def test_look_ups_of_unknown_jobs_are_rate_limited(check):
    """Jobs of another server: the server asks the API server, at a limited rate."""
    with Yard("--rate-lookup", "4") as yard:
        yard.submit(job_v2("there"))
        yard.warm()
        with yard.api.lock:
            one = copy.deepcopy(yard.api.objects["frameworks", framework_name("there")])
            one["metadata"].update(name=framework_name("new"), uid="new-uid",
                                   resourceVersion=str(yard.api.version + 1000))
            one["metadata"]["annotations"]["jobName"] = "new"
            yard.api.objects["frameworks", framework_name("new")] = one
        there, start = "/frameworks/" + framework_name("there"), time.monotonic()

        def asked():
            with yard.api.lock:
                return sum(1 for r in yard.api.requests if r[0] == "GET" and "/frameworks/" in r[1] and there not in r[1])
        for _ in range(3):
            equal(check, "made by another", yard.ask("alice", "GET", "/api/v2/jobs/alice~new/config"), 200)
        check.equal("known from then on", asked(), 1)
        for i in range(12):
            equal(check, "not there", yard.ask("alice", "GET", f"/api/v2/jobs/alice~no{i}/config"), 404, "NoJobError")
        four = asked()
        check.ok("asked for four", 4 <= four <= 4 + (time.monotonic() - start) // 15, four)  # one a quarter of a minute
        equal(check, "another user", yard.ask("bob", "GET", "/api/v2/jobs/alice~no/config"), 404, "NoJobError")
        check.equal("has a share of his own", asked(), four + 1)


def test_look_ups_work_before_the_first_list(check):
    """Before the first complete list, each look-up is a GET of one job, or 429."""
    with Yard("--rate-lookup", "3") as yard:
        yard.submit(job_v2("early"))
        yard.warm()
        yard.api.fault("LIST", "frameworks", status=503)
        server = yard.serve("--rate-lookup", "3")
        early, *codes = [server.request("GET", f"/api/v2/jobs/alice~{name}/config", headers=bearer(token("alice")))
                         for name in ("early", "no0", "no1", "no2", "no3")]
        check.equal("cold: early", early.status, 200)
        check.equal("cold: not there, then later", [r.status for r in codes[:2] + codes[-1:]], [404, 404, 429])
        check.ok("cold: when", codes[-1].headers.get("retry-after", "").isdigit(), repr(codes[-1]))
