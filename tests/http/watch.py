"""The cache of jobs during faults of the API server and the network: at the end, the list of jobs
is correct.  Requests of clients never cause a LIST on the API server."""
import json

from fakeapi import FakeApi, status, watch_line, fake_server
from harness import framework_name, in_threads, job_v2, job_v2_secret, wait_until

RUNNING, PENDING = "AttemptRunning", "AttemptCreationPending"


def framework(job, state=RUNNING, user="alice", pad=0):
    return {"metadata": {"name": framework_name(job, user), "labels": {"userName": user, "jobName": job},
                         "annotations": {"jobName": job}},
            "spec": {"executionType": "Start", "description": "x" * pad, "taskRoles": []},
            "status": {"state": state}}


def put(api, job, *more, **others):
    return api.put("frameworks", framework(job, *more, **others))


def change(api, job, state):
    return api.update("frameworks", framework_name(job), framework(job, state))


def remove(api, job):
    api.remove("frameworks", framework_name(job))


def there(api):
    with api.lock:
        return {v["metadata"]["annotations"]["jobName"]: v.get("status", {}).get("state", PENDING)
                for k, v in api.objects.items() if k[0] == "frameworks"}


def listed(server):
    reply = server.request("GET", "/api/v2/jobs")
    return {row["name"]: row["subState"] for row in reply.json} if reply.status == 200 else None


def follows(check, what, api, server):
    """Waits until the list is correct."""
    ok = wait_until(lambda: listed(server) == there(api))
    check.ok(f"{what}: the list is what is there", ok, f"{listed(server)}, not {there(api)}")


def changes(api, what):
    """Makes one change of each kind: a creation, an update and a deletion."""
    put(api, f"new-{what}")
    change(api, "j1", f"Attempt{what}")
    remove(api, "j2")
    put(api, "j2", "Completed")


def filled(n=6, **more):
    api = FakeApi()
    for i in range(n):
        put(api, f"j{i}", **more)
    return api


def count(api, method):
    return api.count(method, "frameworks")


# ---- start ----------------------------------------------------------------------------------
def test_jobs_are_listed_in_pages(check):
    api = filled(25)
    with fake_server(api, "--watch-page", "10") as server:
        check.ok("ready", server.ready())
        check.equal("all of them are listed", listed(server), there(api))
        check.equal("in pages", count(api, "LIST"), 3)
        changes(api, "A")
        follows(check, "changes", api, server)
        check.equal("without another list", count(api, "LIST"), 3)
        line = json.loads(server.logged('"all jobs are known"')[0])
        check.equal("how many there are is logged", line["frameworks"], 25)
        watches = [r[2] for r in api.requests if r[0] == "WATCH" and "frameworks" in r[1]]
        check.ok("bookmarks are asked for", all(w["allowWatchBookmarks"] == ["true"] for w in watches), watches)
        check.ok("no two watches end at once", all(240 <= int(w["timeoutSeconds"][0]) <= 480 for w in watches), watches)


def test_streaming_list_needs_no_pages(check):
    """The streaming list of Kubernetes 1.34 and later."""
    api = filled(25)
    api.streams = True
    with fake_server(api) as server:
        check.ok("streams: ready", server.ready())
        check.equal("streams: all of them are listed", listed(server), there(api))
        changes(api, "A")
        follows(check, "streams: changes", api, server)
        api.cut_watches()
        changes_while_away(check, api, server, "streams: away")
        check.equal("streams: no LIST", count(api, "LIST"), 0)


def test_streaming_list_that_is_cut_falls_back_to_pages(check):
    api = filled(25)
    api.streams = True
    api.fault("WATCH", "frameworks", times=1, half=2000)
    with fake_server(api) as server:
        check.ok("cut stream: ready all the same", server.ready())
        check.equal("cut stream: all of them are listed", listed(server), there(api))
        check.equal("cut stream: by LIST", count(api, "LIST"), 1)


# ---- watching -------------------------------------------------------------------------------
def changes_while_away(check, api, server, what, jobs="B"):
    api.fault("WATCH", "frameworks", status=503)
    api.cut_watches()
    changes(api, jobs)
    api.faults.clear()
    follows(check, what, api, server)


def test_watch_that_ends_is_continued(check):
    api = filled()
    with fake_server(api) as server:
        check.ok("ready", server.ready())
        for i in range(3):
            changes(api, f"A{i}")
            api.cut_watches()
        follows(check, "cut three times", api, server)
        changes_while_away(check, api, server, "away")
        api.bookmark()
        api.compact()  # the version of the bookmark is still valid
        api.cut_watches()
        follows(check, "with a bookmark", api, server)
        changes_while_away(check, api, server, "away again", "C")
        check.equal("one list", count(api, "LIST"), 1)


def test_watch_survives_a_restart_of_the_api_server(check):
    """A restarted API server loads its roles late and has no earlier versions: the log reports
    neither as another error."""
    api = filled()
    with fake_server(api) as server:
        check.ok("restart: ready", server.ready())
        api.fault("WATCH", "frameworks", status=503)
        api.cut_watches()
        check.ok("restart: it is away", server.logged("jobs cannot be followed"))
        api.fault("WATCH", "frameworks", times=1, status=403)
        api.faults.reverse()  # this one first
        wait_until(lambda: api.faults[0].seen == 1)
        changes(api, "A")
        api.compact()
        api.faults.clear()
        follows(check, "restart: 403, then 410", api, server)
        check.ok("restart: is followed again", server.logged("jobs are followed again"))
        lines = server.log_lines("jobs cannot be followed")
        check.ok("restart: 503 is all that is said", lines and all("HTTP status 503" in line for line in lines), lines)
        # The log reports repeated 410 as such.
        api.fault("WATCH", "frameworks", raw=watch_line("ERROR", None, status(410, "Expired")[1]))
        api.cut_watches()
        check.ok("410 in the stream: is called that", wait_until(
            lambda: any("HTTP status 410" in line for line in server.log_lines("jobs cannot be followed"))), server.log())
        lines = server.log_lines("jobs cannot be followed")
        check.ok("410 in the stream: no HTTP status 200", not any("HTTP status 200" in line for line in lines), lines)


# Faults of a watch; True if another LIST follows.
WATCH_FAULTS = [
    ("429", {"status": 429, "retry_after": 1}, False),
    ("403 for a moment", {"status": 403}, False),
    ("500", {"status": 500}, True),
    ("cut in a line", {"raw": watch_line("ADDED", "frameworks", framework("ghost"))[:200]}, False),
    ("no JSON", {"raw": b"<html>\n"}, True),
    ("half a line that ends", {"raw": b'{"type":"ADDED","object":{"metadata"\n'}, True),
    ("an unknown event", {"raw": b'{"type":"SURPRISE","object":{}}\n[]\n\n'}, False),
    ("ERROR", {"raw": watch_line("ERROR", None, status(500, "InternalError")[1])}, True),
    ("nothing", {"raw": b"\n"}, False),
    ("nameless", {"raw": b'{"type":"ADDED","object":{"metadata":{"name":7,"uid":[]}}}\n'}, False),
]


def test_watch_faults_lose_no_change(check):
    def one(i):
        what, fault, lists = WATCH_FAULTS[i]
        api = filled()
        with fake_server(api) as server:
            check.ok(f"{what}: ready", server.ready())
            api.fault("WATCH", "frameworks", times=1, **fault)
            api.cut_watches()
            changes(api, "A")
            follows(check, what, api, server)
            want = 2 if lists else 1
            wait_until(lambda: count(api, "LIST") >= want)
            check.equal(f"{what}: lists", count(api, "LIST"), want)
            check.ok(f"{what}: still ready", server.request("GET", "/readyz").status == 200)
        api.close()
    in_threads(len(WATCH_FAULTS), one)


def test_deep_frameworks_do_not_affect_others(check):
    """API servers accept 10000 levels in open fields: such objects do not affect others."""
    api = filled()

    def deep(job):
        nested = 1
        for _ in range(500):
            nested = {"a": nested}
        return {**framework(job), "spec": {"taskRoles": [], "deep": nested}}

    api.put("frameworks", deep("listed"))
    with fake_server(api) as server:
        check.ok("deep: ready", server.ready())
        api.put("frameworks", deep("watched"))
        put(api, "later")
        check.ok("deep: what comes behind is there", wait_until(lambda: "later" in listed(server)))
        check.equal("deep: all are listed", listed(server), there(api))
        check.equal("deep: one list", count(api, "LIST"), 1)


def test_broken_frameworks_are_logged_once(check):
    """The log names a Framework that FrameworkController cannot decode, once."""
    api = filled()
    with fake_server(api) as server:
        check.ok("broken: ready", server.ready())
        api.put("frameworks", {**framework("odd"), "status": "gone", "spec": {"taskRoles": 7}})
        for _ in range(3):
            api.update("frameworks", framework_name("odd"), {**framework("odd"), "status": 7})
        for i in range(40):
            api.put("frameworks", {**framework(f"odd{i}"), "status": []})
        put(api, "fine")
        check.ok("broken: what comes behind is there", wait_until(lambda: "fine" in listed(server)))
        rows = {row["name"]: row["state"] for row in server.request("GET", "/api/v2/jobs").json}
        check.equal("broken: listed", rows.get("odd"), "UNKNOWN")
        lines = server.log_lines("a Framework is invalid")
        check.equal("broken: lines", len(lines), 20)
        check.equal("broken: once", sum(framework_name("odd") in line for line in lines), 1)


# ---- rights ---------------------------------------------------------------------------------
def test_forbidden_watch_is_not_ready(check):
    api = filled()
    for method in ("LIST", "WATCH"):
        api.fault(method, "frameworks", status=403)
    with fake_server(api) as server:
        check.ok("forbidden: /readyz says why", wait_until(
            lambda: "lacks the verb list or watch" in server.request("GET", "/readyz").message))
        reply = server.request("GET", "/readyz")
        check.equal("forbidden: not ready", reply.status, 503)
        check.ok("forbidden: of what", "frameworks.frameworkcontroller" in reply.message and
                 "namespace default" in reply.message, reply)
        check.equal("forbidden: jobs are taken", server.submit(job_v2("x")).status, 202)
        check.ok("forbidden: is logged once", len(server.logged("jobs cannot be followed")) == 1, server.log())
        api.faults.clear()
        check.ok("allowed: ready", server.ready())
        check.ok("allowed: is logged", server.logged("jobs are followed again"), server.log())
        check.equal("allowed: listed", listed(server), there(api))


def test_missing_crd_is_not_an_empty_list(check):
    """Without the CustomResourceDefinition there are no jobs, which is not an empty list.  While an API
    server starts, it may not know the kind either: lists stay for some seconds."""
    api = filled()
    with fake_server(api) as server:
        check.ok("kind: ready", server.ready())
        for method in ("LIST", "WATCH"):
            api.fault(method, "frameworks", status=404)
        api.cut_watches()
        check.ok("kind: is logged", server.logged("jobs cannot be followed"))
        check.equal("kind: the list stays at first", listed(server), there(api))
        for path in ("/readyz", "/api/v2/jobs", "/api/v2/jobs?limit=1"):
            check.ok(f"kind: {path} says so", wait_until(lambda path=path: (lambda reply: reply.status == 503 and all(
                word in reply.message for word in ("CustomResourceDefinition", "kubectl apply -f k8s/deploy/crd/crd.yaml")))(
                    server.request("GET", path))), server.request("GET", path))
        api.faults.clear()
        check.ok("kind: it is back", server.ready())
        check.equal("kind: and the list", listed(server), there(api))


def test_forbidden_events_do_not_prevent_readiness(check):
    api = filled()
    for method in ("LIST", "WATCH"):
        api.fault(method, "events", status=403)
    with fake_server(api) as server:
        check.ok("no events: ready all the same", server.ready())
        lines = server.logged("events of pods cannot be followed")
        check.ok("no events: is said", lines and "lacks the verb" in lines[0], server.log())


# ---- requests of clients --------------------------------------------------------------------
def test_client_requests_cause_no_list(check):
    api = filled(20)
    with fake_server(api) as server:
        check.ok("ready", server.ready())
        before = count(api, "LIST")
        for path in ("/api/v2/jobs", "/api/v2/jobs?order=state,DESC", "/api/v1/jobs", "/api/v2/jobs/alice~j1",
                     "/api/v2/jobs/alice~none", "/api/v2/jobs?username=bob", "/readyz"):
            for _ in range(10):
                server.request("GET", path)
        check.equal("clients cause no lists", count(api, "LIST"), before)
        plain = [r for r in api.requests if r[0] == "GET" and r[1].endswith("/frameworks") and "labelSelector" not in r[2]]
        check.equal("of no kind", plain, [])


def test_accepted_job_is_listed_while_the_watch_is_behind(check):
    """An accepted job is in the next list, even if the watch is behind."""
    api = filled()
    with fake_server(api, "--loops", "4") as server:
        check.ok("ready", server.ready())
        api.fault("WATCH", "frameworks", status=503)
        api.cut_watches()
        for job, text in (("plain", job_v2("plain")), ("secret", job_v2_secret("secret", "m"))):
            check.equal(f"{job}: taken", server.submit(text).status, 202)
            seen = in_threads(12, lambda _: next((row for row in server.request("GET", "/api/v2/jobs").json
                                                  if row["name"] == job), {}))
            check.equal(f"{job}: is there at once", {(r.get("state"), r.get("executionType")) for r in seen},
                        {("WAITING", "START")})
            made = api.objects["frameworks", framework_name(job)]["metadata"]
            check.equal(f"{job}: its id", {r.get("debugId") for r in seen}, {made["name"]})
            check.ok(f"{job}: created", all(r.get("createdTime") for r in seen), seen[0])
            reply = server.request("GET", f"/api/v2/jobs/alice~{job}")
            check.equal(f"{job}: its details", reply.status, 200)
        change(api, "plain", "AttemptRunning")
        status = server.request("GET", "/api/v2/jobs/alice~plain").json["jobStatus"]
        check.equal("its state is that of its tasks, not of the list", status["state"], "RUNNING")
        api.faults.clear()
        change(api, "plain", "AttemptRunning")
        follows(check, "later", api, server)


# ---- ends -----------------------------------------------------------------------------------
def test_stop_does_not_wait_for_a_hanging_api_server(check):
    for method in ("LIST", "WATCH"):
        api = filled()
        api.fault(method, "frameworks", hang="before")
        server = fake_server(api, wait=method == "WATCH")
        wait_until(lambda: count(api, method) > 0)
        check.equal(f"stopped while {method} hangs", server.stop(), 0)
        server.remove()
        api.close()
