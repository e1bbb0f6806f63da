"""The promises of docs/FOLLOWING.md, each checked on jobs that really run on this machine.

tests/http checks the same routes against a false API server into which states are put.  Here
nothing is put: the engine runs the jobs, so each promise is about what the task itself saw or did.
PROMISES names them; a promise without a test fails `every_promise_is_checked`."""
import json
import re
import threading

from harness import wait_until
from machine import job as job_text, role as role_of
from users import Site

PROMISES = {
    "list-202": "a job that was answered 202 is in the next list",
    "list-row": "a row has state, times in order, numbers of tasks and GPUs, and the exit code",
    "list-choice": "filters, order, pages and totalCount select the same jobs as their states do",
    "list-v1": "the lists of v1 have the same jobs",
    "detail-task": "details have the address, node and ports that the task itself sees",
    "detail-exit": "details explain an exit code, and have the runtime's message and the last lines",
    "detail-etag": "an unchanged job is 304, a changed one is not",
    "waiting": "a job that waits says why, with its place in the queue; a running one does not",
    "log-streams": "stdout, stderr, all and runtime have what the task wrote to each, in order",
    "log-links": "a link works without a token, for this log only",
    "log-follow": "a followed log delivers lines when they are written and ends with the task",
    "log-ended": "the log of an ended task is the same as before, with tails and ranges",
    "events": "the job's events name what happened to its pods, and can be selected by type",
    "watch-one": "a watched job delivers its state at once, each change, and its end",
    "watch-all": "a watch of all jobs delivers new ones and continues from the last id",
    "wait": "?wait= answers when the job has ended, ?for=running when it runs, or at the time-out",
    "stop": "a stopped job's tasks get SIGTERM and their grace, and the job ends STOPPED",
    "remove": "a removed job's processes end, its files go, and its name is free",
    "attempts": "each attempt of a job is kept, with its tasks, codes and logs",
    "retries": "a task that is retried says so, and its earlier log stays readable",
    "scale": "more tasks start, fewer tasks end from the highest index, with -230",
    "config": "the configuration is the submitted job, without its secrets",
    "tags": "tags are set and removed while the job runs",
    "submit-wait": "submit --wait --logs prints the output and has the job's exit status",
}

def role(command, ports=None, **more):
    """A task role of one command; minSucceededInstances and the like go to its completion."""
    completion = {key: more.pop(key) for key in ("minFailedInstances", "minSucceededInstances") if key in more}
    made = role_of(command, **more, **({"completion": completion} if completion else {}))
    made["resourcePerInstance"].update({"ports": ports} if ports else {})
    return made


def job(name, jobRetryCount=0, extras=None, secrets=None, **roles):
    more = {key: value for key, value in (("extras", extras), ("secrets", secrets)) if value}
    return job_text(name, roles, jobRetryCount=jobRetryCount, **more)


def promise(check, name):
    """Returns a check whose names contain the promise."""
    assert name in PROMISES, name
    return lambda what, fact, seen="": check.ok(f"{name}: {what}", fact, seen)


# ---- lists and details ------------------------------------------------------------------
def test_promises_about_lists_are_kept(check):
    with Site() as m:
        ok = promise(check, "list-202")
        m.submit(job("good", worker=role("echo $PAI_TASK_INDEX", instances=2)))
        ok("at once", "good" in [row["name"] for row in m.get("/api/v2/jobs").json])
        m.submit(job("bad", worker=role("exit 3")))
        for name in ("good", "bad"):
            m.ends(name)
        ok = promise(check, "list-row")
        rows = {row["name"]: row for row in m.get("/api/v2/jobs").json}
        good, bad = rows["good"], rows["bad"]
        ok("states", (good["state"], bad["state"]) == ("SUCCEEDED", "FAILED"), rows)
        ok("times", good["createdTime"] <= good["launchedTime"] <= good["completedTime"], good)
        ok("numbers", (good["totalTaskNumber"], good["totalGpuNumber"], good["appExitCode"]) == (2, 0, 0), good)
        ok("code", bad["appExitCode"] not in (0, None), bad)
        ok = promise(check, "list-choice")
        for query, want in (("state=FAILED", ["bad"]), ("keyword=goo", ["good"]), ("state=RUNNING", []),
                            ("order=jobName,ASC", ["bad", "good"]), ("order=jobName,ASC&limit=1&offset=1", ["good"])):
            ok(query, [row["name"] for row in m.get(f"/api/v2/jobs?{query}").json] == want)
        total = m.get("/api/v2/jobs?limit=1&withTotalCount=true").json
        ok("total", total["totalCount"] == 2 and len(total["data"]) == 1, total)
        ok = promise(check, "list-v1")
        old = {row["name"]: row["state"] for row in m.get("/api/v1/jobs").json}
        ok("states", old == {"good": "SUCCEEDED", "bad": "FAILED"}, old)


def test_promises_about_details_are_kept(check):
    say = "echo at=$PAI_HOST_IP_worker_0 port=$PAI_PORT_LIST_worker_0_grpc on=$(hostname); "
    with Site() as m:
        m.submit(job("talks", worker=role(say + m.gate("talks"), ports={"grpc": 1})))
        m.runs("talks")
        ok = promise(check, "detail-task")
        ok("the task has said it", wait_until(lambda: "at=" in m.read("talks", "worker", 0)))
        seen = dict(p.split("=", 1) for p in m.read("talks", "worker", 0).split() if "=" in p)
        task = m.task("talks", "worker", 0)
        ok("address", task["containerIp"] == seen["at"] and task["containerIp"], (task, seen))
        ok("port", str(task["containerPorts"]["grpc"]) == seen["port"], (task, seen))
        ok("node", task["containerNodeName"], task)
        ok("not ended", task["containerExitCode"] is None and task["taskState"] == "RUNNING", task)
        ok = promise(check, "detail-etag")
        first = m.get(m.path("talks"))
        again = m.get(m.path("talks"), {"If-None-Match": first.headers["etag"]})
        ok("unchanged", again.status == 304, again)
        m.open("talks")
        m.ends("talks")
        after = m.get(m.path("talks"), {"If-None-Match": first.headers["etag"]})
        ok("changed", after.status == 200 and after.headers["etag"] != first.headers["etag"], after)
        ok = promise(check, "detail-exit")
        m.submit(job("fails", worker=role("echo working; echo 'RuntimeError: CUDA error: out of memory' >&2; exit 1")))
        m.ends("fails")
        status = m.get(m.path("fails")).json["jobStatus"]
        ok("state", status["state"] == "FAILED", status)
        ok("code of the exit specification", status["appExitCode"] == 226, status)
        ok("explained", status["appExitSpec"]["code"] == 226 and status["appExitSpec"].get("phrase"), status)
        messages = status["appExitMessages"]
        ok("the runtime's report", "out of memory" in json.dumps(messages.get("runtime")), messages)
        task = m.task("fails", "worker", 0)
        ok("of the task", task["containerExitCode"] == 226 and task["taskState"] == "FAILED", task)


def test_promises_about_waiting_reasons_are_kept(check):
    ok = promise(check, "waiting")
    with Site(gpus=2) as m:
        m.submit(job("first", worker=role(m.gate("first"), gpu=2)))
        m.runs("first")
        m.submit(job("second", worker=role(m.gate("second"), gpu=1, instances=2)))
        never = m.submit(job("never", worker=role("true", gpu=3)))

        def reason(name):
            return m.get(m.path(name)).json["jobStatus"].get("waitingReason")
        ok("in the queue", wait_until(lambda: reason("second")), m.get(m.path("second")))
        ok("what is missing", "GPU" in reason("second")["message"], reason("second"))
        ok("too large", never.status == 400 and "3 GPUs" in never.json["message"] and "has 2" in never.json["message"], never)
        ok("not of a running one", reason("first") is None, reason("first"))
        ok("in the list", any(row.get("waitingReason") for row in m.get("/api/v2/jobs?state=WAITING").json))
        m.open("first")
        ok("then it runs", m.runs("second"))
        ok("without a reason", wait_until(lambda: reason("second") is None), reason("second"))
        m.open("second")
        m.ends("second")


# ---- logs and events --------------------------------------------------------------------
def test_promises_about_logs_are_kept(check):
    with Site() as m:
        command = f"echo one; echo two >&2; echo three; {m.gate('writes')}; echo four"
        m.submit(job("writes", worker=role(command)))
        # A job runs from the start of its first pod; the log begins with the command.
        wait_until(lambda: "one" in m.read("writes", "worker", 0, "stdout"))
        ok = promise(check, "log-follow")
        lines, ended = [], threading.Event()

        def follow():
            for line in m.follow("writes", "worker", 0):
                lines.append(line)
            ended.set()
        threading.Thread(target=follow, daemon=True).start()
        ok("lines as they are written", wait_until(lambda: any("three" in line for line in lines)), lines)
        ok("not yet the next", not any("four" in line for line in lines) and not ended.is_set(), lines)
        m.open("writes")
        ok("the next", wait_until(lambda: any("four" in line for line in lines)), lines)
        ok("ends with the task", wait_until(ended.is_set), lines)
        m.ends("writes")
        ok = promise(check, "log-streams")
        logs = {name: m.read("writes", "worker", 0, name) for name in ("stdout", "stderr", "all", "runtime")}
        ok("stdout", logs["stdout"].split() == ["one", "three", "four"], logs)
        ok("stderr", "two" in logs["stderr"] and "three" not in logs["stderr"], logs)
        ok("all", {"one", "two", "three", "four"} <= set(logs["all"].split()) and
           logs["all"].index("one") < logs["all"].index("four"), logs)
        ok("runtime", logs["runtime"].strip(), logs)
        ok = promise(check, "log-links")
        links = m.links("writes", "worker", 0)
        ok("without a token", m.request("GET", links["stdout"]).body == logs["stdout"].encode())
        other = links["stdout"].replace("/logs/stdout", "/logs/all")
        ok("of this log only", m.request("GET", other).status == 403)
        ok = promise(check, "log-ended")
        part = m.request("GET", links["stdout"], headers={"Range": "bytes=-5"})
        ok("range", part.status == 206 and part.body == b"four\n", part)
        tail = m.get(m.logs_path("writes", "worker", 0) + "?tail-mode=true").json
        link = next(l["uri"] for l in tail["locations"] if l["name"] == "stdout")
        ok("tail", m.request("GET", link).body.endswith(b"four\n"))


def test_promises_about_events_are_kept(check):
    ok = promise(check, "events")
    with Site() as m:
        m.submit(job("eventful", worker=role("exit 1")))
        m.ends("eventful")
        events = m.get(m.path("eventful") + "/events").json["data"]
        reasons = {e["reason"] for e in events}
        ok("what happened", {"Scheduled", "Started"} <= reasons, events)
        ok("to the task", all(e["taskroleName"] == "worker" and e["taskIndex"] == 0 for e in events), events)
        normal = m.get(m.path("eventful") + "/events?type=Normal").json["data"]
        ok("by type", normal and all(e["type"] == "Normal" for e in normal), normal)


# ---- watching and waiting ---------------------------------------------------------------
def test_promises_about_watches_are_kept(check):
    with Site() as m:
        ok = promise(check, "watch-one")
        m.submit(job("seen", worker=role(m.gate("seen"))))
        stream = m.watch(m.path("seen") + "/watch")
        ok("at once", stream.until(lambda row: row["name"] == "seen"))
        ok("RUNNING", stream.until(lambda row: row["state"] == "RUNNING"))
        m.open("seen")
        ok("SUCCEEDED", stream.until(lambda row: row["state"] == "SUCCEEDED"))
        ok("end", stream.next("end")["reason"] == "completed")
        ok = promise(check, "watch-all")
        stream = m.watch("/api/v2/jobs/watch")
        m.submit(job("later", worker=role("true")))
        ok("a new job", stream.until(lambda row: row["name"] == "later"))
        ok("its end", stream.until(lambda row: row["name"] == "later" and row["state"] == "SUCCEEDED"))
        last = stream.last_id
        stream.close()
        m.submit(job("away", worker=role("true")))
        m.ends("away")
        stream = m.watch("/api/v2/jobs/watch", {"Last-Event-ID": last})
        ok("what changed meanwhile", stream.until(lambda row: row["name"] == "away"))
        ok = promise(check, "wait")
        m.submit(job("waited", worker=role(m.gate("waited"))))
        ran = m.get(m.path("waited") + "?wait=60&for=running")
        ok("runs", ran.headers["x-wait"] == "reached" and ran.json["jobStatus"]["state"] == "RUNNING", ran)
        ok("time-out", m.get(m.path("waited") + "?wait=1").headers["x-wait"] == "timeout")
        m.open("waited")
        done = m.get(m.path("waited") + "?wait=60")
        ok("ended", done.headers["x-wait"] == "reached" and done.json["jobStatus"]["state"] == "SUCCEEDED", done)


# ---- changes ----------------------------------------------------------------------------
def test_promises_about_stops_and_removals_are_kept(check):
    with Site() as m:
        ok = promise(check, "stop")
        trap = "trap 'echo saving; sleep 0.2; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
        m.submit(job("stopped", worker=role(trap)))
        ok("runs", wait_until(lambda: "ready" in m.read("stopped", "worker", 0)))
        for _ in range(2):
            put = m.put(m.path("stopped") + "/executionType", {"value": "STOP"})
            ok("202", put.status == 202, put)
        m.ends("stopped")
        status = m.get(m.path("stopped")).json["jobStatus"]
        ok("STOPPED", status["state"] == "STOPPED" and status["appExitCode"] == -210, status)
        ok("with its grace", "saved" in m.read("stopped", "worker", 0), m.read("stopped", "worker", 0))
        ok("no process is left", wait_until(lambda: not m.processes("stopped")), m.processes("stopped"))
        ok = promise(check, "remove")
        m.submit(job("removed", worker=role("echo here; " + m.gate("removed"))))
        m.runs("removed")
        pods = {t["attemptStatus"]["podUID"] for t in m.tasks("removed").values()}
        ok("it has a pod", len(pods) == 1 and pods <= set(m.pods()), pods)
        gone = m.request("DELETE", "/api/v1/user/alice/jobs/removed")
        ok("202", gone.status == 202, gone)
        ok("404", wait_until(lambda: m.get(m.path("removed")).status == 404))
        ok("no process is left", wait_until(lambda: not m.processes("removed")), m.processes("removed"))
        ok("no pod is left", wait_until(lambda: not pods & set(m.pods())), m.pods())
        ok("the name is free", m.submit(job("removed", worker=role("true"))).status == 202)
        m.ends("removed")


def test_promises_about_attempts_are_kept(check):
    with Site() as m:
        ok = promise(check, "attempts")
        m.submit(job("again", jobRetryCount=1, worker=role("echo attempt $FC_FRAMEWORK_ATTEMPT_ID; exit 7")))
        m.ends("again")
        status = m.get(m.path("again")).json["jobStatus"]
        ok("two attempts", status["retries"] == 1 and status["state"] == "FAILED", status)
        old = m.get(m.path("again") + "/attempts/0").json
        ok("the first is kept", wait_until(lambda: m.get(m.path("again") + "/attempts/0").status == 200), old)
        ok("job-attempts", len(m.get(m.path("again") + "/job-attempts").json) == 2)
        for attempt in (0, 1):
            text = m.read("again", "worker", 0, attempt=attempt)
            ok(f"log of attempt {attempt}", f"attempt {attempt}" in text, text)
        ok = promise(check, "retries")
        command = m.meeting.visit("visit:retried") + "; echo try $((VISIT - 1)); test $VISIT = 2"
        m.submit(job("retried", extras={"gangAllocation": False}, worker=role(command, taskRetryCount=1)))
        m.ends("retried")
        task = m.task("retried", "worker", 0)
        ok("counted", task["retries"] == 1 and task["taskState"] == "SUCCEEDED", task)
        for retry in (0, 1):
            text = m.read("retried", "worker", 0, retry=retry)
            ok(f"log of retry {retry}", f"try {retry}" in text, text)


def test_promises_about_scaling_are_kept(check):
    ok = promise(check, "scale")
    with Site() as m:
        m.submit(job("grows", worker=role(f"echo $PAI_TASK_INDEX; {m.gate('grows')}", minSucceededInstances=-1)))
        m.runs("grows")
        more = m.patch(m.path("grows") + "/taskRoles/worker", {"instances": 3})
        ok("202", more.status == 202, more)
        ok("three run", wait_until(lambda: m.states("grows", "worker") == ["RUNNING"] * 3), m.states("grows", "worker"))
        m.patch(m.path("grows") + "/taskRoles/worker", {"instances": 1})
        ok("one is left", wait_until(lambda: m.states("grows", "worker") == ["RUNNING"]), m.states("grows", "worker"))
        ok("the first", m.task("grows", "worker", 0)["taskState"] == "RUNNING")
        ok("one process", wait_until(lambda: len(m.tasks_alive("grows")) == 1), m.tasks_alive("grows"))
        m.open("grows")
        m.ends("grows")
        ok("refused at the end", m.patch(m.path("grows") + "/taskRoles/worker", {"instances": 2}).status == 409)


def test_promises_about_configuration_and_tags_are_kept(check):
    with Site() as m:
        ok = promise(check, "config")
        m.submit(job("secret", secrets={"key": "hunter2"},
                     worker=role("x='<% $secrets.key %>'; echo ${#x} letters; " + m.gate("secret"))))
        m.runs("secret")
        config = m.get(m.path("secret") + "/config")
        ok("the job", config.json["name"] == "secret" and b"hunter2" not in config.body, config)
        ok("the task has the secret", wait_until(lambda: "7 letters" in m.read("secret", "worker", 0)))
        ok = promise(check, "tags")
        ok("set", m.put(m.path("secret") + "/tag", {"value": "mine"}).status == 200)
        ok("shown", wait_until(lambda: m.get(m.path("secret")).json["tags"] == ["mine"]))
        m.request("DELETE", m.path("secret") + "/tag", json.dumps({"value": "mine"}),
                         {"Content-Type": "application/json"})
        ok("removed", wait_until(lambda: m.get(m.path("secret")).json["tags"] == []))
        m.open("secret")
        m.ends("secret")
        ok("still runs to its end", m.get(m.path("secret")).json["jobStatus"]["state"] == "SUCCEEDED")


def test_promises_about_submit_wait_are_kept(check):
    ok = promise(check, "submit-wait")
    with Site() as m:
        good = m.client("submit", "--wait", "--logs", "-", text=job("cligood", worker=role("echo Hello")))
        ok("0", good.returncode == 0 and "Hello" in good.stdout, good)
        bad = m.client("submit", "--wait", "--logs", "-", text=job("clibad", worker=role("echo Oops; exit 4")))
        ok("1", bad.returncode == 1 and "Oops" in bad.stdout, bad)
        listed = m.client("jobs")
        ok("jobs", re.search(r"clibad.*FAILED", listed.stdout) and re.search(r"cligood.*SUCCEEDED", listed.stdout), listed)


def test_every_promise_is_checked(check):
    with open(__file__, encoding="utf-8") as source:
        checked = set(re.findall(r'promise\(check, "([a-z0-9-]+)"\)', source.read()))
    check.equal("promises", sorted(checked), sorted(PROMISES))
