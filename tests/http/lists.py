"""Lists of jobs: members, filters and order, large lists, and slow readers."""
import copy
import functools
import http.client
import json
import os
import time
from urllib.parse import quote

from edge import Guarded, is_refusal
from fakeapi import FakeApi, Scene, fake_server
from harness import PATIENCE, ROOT, SLOW, Closing, Server, framework_name, job_v2, request_bytes, run, wait_until
from place import submit
from tokens import bearer, token

SNAPSHOTS = os.path.join(ROOT, "tests/data/frameworks")
ALICE = bearer(token("alice"))
# Members of a v2 row that the portal, the VS Code extension, the JavaScript SDK and its CLI use.
ROW = {"debugId", "name", "username", "state", "subState", "executionType", "virtualCluster", "tags", "retries",
       "retryDetails", "retryDelayTime", "submissionTime", "createdTime", "launchedTime", "completedTime", "appExitCode",
       "totalGpuNumber", "totalTaskNumber", "totalTaskRoleNumber", "jobPriority"}
ROW_V1 = {"name", "username", "state", "subState", "executionType", "retries", "createdTime", "completedTime",
          "appExitCode", "virtualCluster"}


def snapshot(file, user, job, cluster="default", **annotations):
    """A job in that state, of this user."""
    with open(os.path.join(SNAPSHOTS, file + ".json"), encoding="utf-8") as f:
        o = json.load(f)
    o["metadata"]["name"] = framework_name(job, user)
    o["metadata"]["labels"] = {"userName": user, "virtualCluster": cluster}
    o["metadata"]["annotations"].update({"jobName": job, **annotations})
    return o


class World(Scene):
    """A server and a fake API server with some jobs."""

    def __init__(self, *arguments):
        super().__init__()
        for o in self.jobs():
            self.api.put("frameworks", o)
        self.server = self.serve(*arguments)
        if not self.server.ready():
            raise RuntimeError(self.server.log()[-400:])

    @staticmethod
    def jobs():
        hived = {"config": "extras: {hivedScheduler: {jobPriorityClass: prod}}\n"}
        return [snapshot("11-Completed-succeeded", "alice", "done", "vision", **{"rest-lit/tags": '["best","b c"]'}),
                snapshot("12-Completed-failed", "bob", "failed", **hived),
                snapshot("06-AttemptRunning", "alice", "runs", totalGpuNumber="8"),
                snapshot("09-AttemptDeleting", "carol", "stopping"),
                snapshot("17-retry-waiting", "bob", "again"),
                {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
                 "metadata": {"name": "others-framework"}, "spec": {"executionType": "Create", "taskRoles": []}}]

    def get(self, path):
        return self.server.request("GET", path)

    def names(self, query, path="/api/v2/jobs"):
        reply = self.get(f"{path}?{query}")
        return [row["name"] for row in reply.json] if reply.status == 200 else reply


# ---- members of a row -------------------------------------------------------------------
def test_list_memory_is_freed(check):
    """Many lists at once; their connections stay open."""
    with Large("--streams-per-user", "1000", "--rate-list", "0", "--connections-per-address", "0") as large:
        server = large.server
        ask = request_bytes(server.port, "GET", "/api/v2/jobs?limit=2000")
        begin = server.rss_kib()
        crowd = [server.connect() for _ in range(100)]
        for c in crowd:
            c.send(ask)
            check.ok("it begins", c.socket.recv(1))
        check.ok("they are held", server.rss_kib() - begin > 25000, f"{begin} KiB, {server.rss_kib()} KiB")
        for c in crowd:
            check.ok("it is whole", c.read(PATIENCE, lambda data: data.endswith(b"\r\n0\r\n\r\n"))[0].endswith(b"]\n\r\n0\r\n\r\n"))
        if SLOW == 1:  # sanitizers keep what is freed
            check.ok("... and given back", wait_until(lambda: server.rss_kib() - begin < 12000), f"{begin} KiB, {server.rss_kib()} KiB")
        for c in crowd:
            c.close()


def test_list_rows_have_the_members_that_clients_use(check):
    with World() as w:
        rows = {row["name"]: row for row in w.get("/api/v2/jobs").json}
        check.equal("all jobs, but not others' Frameworks", sorted(rows), ["again", "done", "failed", "runs", "stopping"])
        for name, row in rows.items():
            check.equal(f"{name}: members", set(row), ROW | {"waitingReason"} if name == "again" else ROW)
        done = rows["done"]
        check.equal("debugId", done["debugId"], framework_name("done"))
        check.equal("state", {n: r["state"] for n, r in rows.items()},
                    {"again": "RUNNING", "done": "SUCCEEDED", "failed": "FAILED", "runs": "RUNNING", "stopping": "RUNNING"})
        check.equal("subState", (done["subState"], rows["again"]["subState"]), ("Completed", "AttemptCompleted"))
        check.equal("username, virtualCluster", (done["username"], done["virtualCluster"]), ("alice", "vision"))
        check.equal("executionType", done["executionType"], "START")
        check.equal("tags", (done["tags"], rows["runs"]["tags"]), (["best", "b c"], []))
        check.equal("exit codes", [rows[n]["appExitCode"] for n in ("done", "failed", "runs")], [0, 1, None])
        check.equal("completedTime", (done["completedTime"] % 1000, rows["runs"]["completedTime"]), (0, None))
        check.ok("times are milliseconds", abs(done["submissionTime"] / 1000 - time.time()) < 3600 * SLOW, done)
        check.equal("submissionTime is that of creation", done["submissionTime"], done["createdTime"])
        check.ok("launchedTime", 0 < done["launchedTime"] <= done["completedTime"], done)
        check.equal("tasks, roles", (done["totalTaskNumber"], done["totalTaskRoleNumber"]), (4, 2))
        check.equal("GPUs", rows["runs"]["totalGpuNumber"], 8)
        check.equal("jobPriority", (rows["failed"]["jobPriority"], done["jobPriority"]), ("prod", None))
        check.equal("retries", (done["retries"], done["retryDetails"]), (0, {"user": 0, "platform": 0, "resource": 0}))
        schemas = json.loads(run("page", "openapi").stdout)["components"]["schemas"]
        check.equal("the API for programs says so", (set(schemas["JobRow"]["required"]), set(schemas["JobRowV1"]["required"])), (ROW, ROW_V1))
        check.ok("retryDelayTime", rows["again"]["retryDelayTime"] > 0 and done["retryDelayTime"] is None, rows["again"])


def test_list_keeps_the_order_within_a_second(check):
    """Objects have times in seconds; jobs of the same second are listed in order of submission, which is
    known in milliseconds."""
    with Server("--engine=none", "--local", "jobs") as server:
        names = [f"job{i}" for i in range(20)]
        for name in names:
            check.equal(name, server.submit(job_v2(name)).status, 202)
            time.sleep(0.002)
        for query, wanted in (("", names[::-1]), ("order=submissionTime,ASC", names),
                              ("order=username,ASC&limit=5&offset=3", names[::-1][3:8])):
            check.equal(query or "the latest first",
                        [row["name"] for row in server.request("GET", f"/api/v2/jobs?{query}").json], wanted)


def test_list_rows_of_v1_have_their_members(check):
    with World() as w:
        reply = w.get("/api/v1/jobs")
        rows = {row["name"]: row for row in reply.json}
        check.equal("v1: others' Frameworks, too", sorted(rows), sorted(["again", "done", "failed", "runs", "stopping", "others-framework"]))
        others = rows.pop("others-framework")
        check.equal("v1: legacy", (others.get("legacy"), others["username"], others["executionType"]), (True, "unknown", "CREATE"))
        for name, row in rows.items():
            check.equal(f"v1: {name}: members", set(row), ROW_V1)
        check.equal("v1: a user by path", w.names("", "/api/v1/user/alice/jobs"), w.names("username=alice", "/api/v1/jobs"))
        check.equal("v1: ... has these", sorted(w.names("", "/api/v1/user/alice/jobs")), ["done", "runs"])
        check.equal("v1: the path counts", sorted(w.names("username=bob", "/api/v1/user/alice/jobs")), ["done", "runs"])
        check.equal("v1: unknown user", w.names("", "/api/v1/user/nobody/jobs"), [])
        check.ok("v1: no total", isinstance(w.get("/api/v1/jobs?withTotalCount=true").json, list))
        # A job that was asked to stop is STOPPING in v2, a state that v1 does not have.
        name = framework_name("stopping", "carol")
        stopping = copy.deepcopy(w.api.objects["frameworks", name])
        stopping["status"]["attemptStatus"]["completionStatus"]["code"] = -210
        w.api.update("frameworks", name, stopping)
        check.ok("STOPPING", wait_until(lambda: w.names("state=STOPPING") == ["stopping"]), w.names("state=STOPPING"))
        states = {row["name"]: row["state"] for row in w.get("/api/v1/jobs").json}
        check.equal("v1: ... is RUNNING", states["stopping"], "RUNNING")


# ---- filters and order ------------------------------------------------------------------
def test_list_requests_of_the_portal_work(check):
    """The requests of the portal's list and home page."""
    with World() as w:
        for prefix in ("", "/rest-server"):
            reply = w.get(f"{prefix}/api/v2/jobs?offset=0&limit=200&withTotalCount=true&order=submissionTime%2CDESC")
            check.ok("its list", reply.status == 200 and reply.json["totalCount"] == len(reply.json["data"]) == 5, reply)
            check.equal("type", reply.headers["content-type"], "application/json; charset=utf-8")
        counts = {}
        for state in ("WAITING", "RUNNING", "STOPPED", "FAILED", "SUCCEEDED"):
            reply = w.get(f"/api/v2/jobs?limit=0&withTotalCount=true&state={state}")
            check.equal(f"count of {state}: no rows", reply.json["data"], [])
            counts[state] = reply.json["totalCount"]
        check.equal("counts", counts, {"WAITING": 0, "RUNNING": 3, "STOPPED": 0, "FAILED": 1, "SUCCEEDED": 1})
        reply = w.get("/api/v2/jobs?username=alice%2Cbob&vc=default&state=RUNNING%2CFAILED&jobPriority=default&keyword=a"
                      "&order=completionTime%2CASC&offset=0&limit=20&withTotalCount=true")
        check.equal("all at once", (sorted(r["name"] for r in reply.json["data"]), reply.json["totalCount"]), (["again", "runs"], 2))


def test_list_parameters_are_those_of_both_versions(check):
    """Which jobs they select, and in which order: tests/unit/server/jobs/test_job_list.c and test_job_page.c."""
    with World() as w:
        check.equal("a page", w.names("tagsNotContain=best&order=jobName,ASC&offset=1&limit=2"), ["failed", "runs"])
        reply = w.get("/api/v2/jobs?offset=1000000&withTotalCount=true").json
        check.equal("beyond the end", reply, {"totalCount": 5, "data": []})
        for name in ("a-7", "a-x", "ab-9"):
            w.api.put("frameworks", snapshot("06-AttemptRunning", "alice", name))
        check.ok("more jobs", wait_until(lambda: len(w.names("username=alice")) == 5))
        for name, wanted in (("runs", "runs-2"), ("a", "a-8"), ("a-3", "a-8"), ("ab-9", "ab-10"), ("-1", "-1-2"), ('\u00e4"-7', '\u00e4"-2')):
            reply = w.get(f"/api/v2/jobs?username=alice&limit=0&nextName={quote(name)}").json
            check.equal(f"the next name behind {name}", reply, {"nextName": wanted, "totalCount": 5, "data": []})
        check.equal("of another user", w.get("/api/v2/jobs?username=bob&limit=1&nextName=a").json["nextName"], "a-2")
        check.ok("not in v1", isinstance(w.get("/api/v1/jobs?nextName=a").json, list))
        reply = w.get("/api/v2/jobs?limit=50001")
        check.refused("a limit", reply, 400, "InvalidParametersError", 'limit must be a whole number from 0 to 50000, is "50001"')
        check.equal("in v1, too", w.get("/api/v1/jobs?limit=50001").status, 400)
        check.equal("HEAD", w.server.request("HEAD", "/api/v2/jobs").status, 200)


def test_list_is_503_until_all_jobs_are_known(check):
    api = FakeApi()
    api.fault("LIST", "frameworks", status=500)
    server = fake_server(api)
    try:
        for path in ("/api/v2/jobs?limit=0", "/api/v1/jobs"):
            reply = server.request("GET", path)
            check.equal(f"{path}: status", (reply.status, reply.code), (503, "UnavailableError"))
            check.ok(f"{path}: Retry-After", int(reply.headers.get("retry-after", 0)) >= 1, reply)
            check.ok(f"{path}: says why", "not all jobs are known yet" in reply.message, reply.message)
        api.clear()
        check.ok("later it is answered", server.becomes("/api/v2/jobs", 200))
    finally:
        server.remove()
        api.close()


def test_rate_list_limits_lists_of_a_user(check):
    with Guarded("--rate-list", "3", "--rate-address", "0") as server:
        def ask(path, user="alice"):
            return server.request("GET", path, headers=bearer(token(user)))
        for path in ("/api/v2/jobs", "/api/v1/jobs", "/api/v1/user/bob/jobs"):
            check.equal(f"{path}: one of 3", ask(path).status, 200)
        is_refusal(check, "the fourth", lambda: ask("/api/v2/jobs?limit=0"), 20)
        is_refusal(check, "... of v1", lambda: ask("/api/v1/jobs"), 20)
        check.equal("another user", ask("/api/v2/jobs", "bob").status, 200)
        check.equal("to submit is no list", submit(server, "a", ALICE).status, 202)


# ---- large lists ------------------------------------------------------------------------
MANY = 30000


class ManyApi(FakeApi):
    """A fast API server with many jobs."""

    def __init__(self):
        super().__init__()
        self.many = self.jobs()

    @classmethod
    @functools.cache
    def jobs(cls):
        return [cls.job(i) for i in range(MANY)]

    @staticmethod
    def job(i):
        return {"metadata": {"name": framework_name(f"job{i}", f"user{i % 7}"), "uid": f"uid-{i}", "resourceVersion": str(i % 90 + 1),
                             "creationTimestamp": f"2026-11-{i % 28 + 1:02}T00:00:00Z",
                             "labels": {"userName": f"user{i % 7}", "virtualCluster": "default"},
                             "annotations": {"jobName": f"job{i}", "totalGpuNumber": str(i % 9)}},
                "spec": {"executionType": "Start", "taskRoles": [{"name": "w", "taskNumber": 1}]},
                "status": {"state": "AttemptRunning"}}

    def list(self, kind, query):
        if kind != "frameworks":
            return super().list(kind, query)
        first = int(query.get("continue", ["0"])[0])
        end = first + int(query["limit"][0])
        meta = {"resourceVersion": str(self.version)}
        if end < MANY:
            meta["continue"] = str(end)
        return 200, {"kind": "List", "metadata": meta, "items": self.many[first:end]}


class Large(Closing):
    """A server with many jobs."""

    def __init__(self, *arguments):
        self.api = ManyApi()
        self.server = fake_server(self.api, "--watch-page", "10000", "--max-object-read", "64MiB", "--loops", "1", *arguments)
        self.close = self.server.remove
        if not wait_until(lambda: self.server.request("GET", "/api/v2/jobs?limit=0").status == 200, 4 * PATIENCE):
            raise RuntimeError(self.server.log()[-400:])

    def ask(self, path):
        """(status, body), decoded from chunks."""
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2 * PATIENCE * SLOW)
        try:
            c.request("GET", path)
            reply = c.getresponse()
            return reply.status, reply.read()
        finally:
            c.close()


def test_large_lists_are_complete_and_use_little_memory(check):
    with Large() as large:
        begin = large.server.rss_kib()
        status, body = large.ask("/api/v2/jobs?limit=50000&withTotalCount=true&order=jobName,ASC")
        answer = json.loads(body)
        names = [row["name"] for row in answer["data"]]
        check.equal("all rows", (status, answer["totalCount"], len(names)), (200, MANY, MANY))
        check.equal("... in order", names, sorted(f"job{i}" for i in range(MANY)))
        check.ok("... whole", all(set(row) == ROW for row in answer["data"]))
        status, body = large.ask("/api/v2/jobs")
        check.equal("default limit 5000", (status, len(json.loads(body))), (200, 5000))
        status, body = large.ask("/api/v1/jobs")
        check.equal("v1 has them all", (status, len(json.loads(body))), (200, MANY))
        status, body = large.ask("/api/v1/user/user3/jobs")
        check.equal("... of one user", (status, {row["username"] for row in json.loads(body)}), (200, {"user3"}))
        first = [large.ask(f"/api/v2/jobs?order=state,ASC&limit=100&offset={at}")[1] for at in (0, 100, 200)]
        pages = [row["name"] for page in first for row in json.loads(page)]
        check.equal("pages fit together", pages, [row["name"] for row in json.loads(large.ask("/api/v2/jobs?order=state,ASC&limit=300")[1])])
        check.ok("memory did not grow by such a list", large.server.rss_kib() - begin < 24 * 1024 * SLOW,
                 f"{begin} KiB, {large.server.rss_kib()} KiB")


def test_list_readers_that_are_slow_use_few_resources(check):
    """A client that does not read its response uses few resources, for a limited time."""
    with Large("--list-rows", "40000", "--idle-timeout", "600", "--connections-per-address", "0") as large:
        server = large.server
        ask = request_bytes(server.port, "GET", "/api/v2/jobs?limit=50000")
        begin = server.rss_kib()
        with server.connect() as slow:
            slow.send(ask)
            check.ok("it begins", slow.socket.recv(1))
            reply = server.request("GET", "/api/v2/jobs?limit=20000")
            check.equal("--list-rows: no more at once", (reply.status, reply.code), (503, "UnavailableError"))
            check.ok("... says so", "too many large lists" in reply.message and reply.headers.get("retry-after"), reply)
            check.equal("a small one is answered", server.request("GET", "/api/v2/jobs?limit=10").status, 200)
            check.equal("... and others", server.request("GET", "/healthz").status, 200)
            check.ok("it is not all in memory", server.rss_kib() - begin < 8 * 1024 * SLOW, f"{begin} KiB, {server.rss_kib()} KiB")
        check.ok("then there is room again", wait_until(lambda: large.ask("/api/v2/jobs?limit=20000")[0] == 200))
        for _ in range(3):
            with server.connect() as c:
                c.send(ask)
                check.ok("a client that disconnects", c.socket.recv(1))
        check.ok("disconnected clients use no memory", wait_until(lambda: large.ask("/api/v2/jobs?limit=20000")[0] == 200))


def test_list_readers_that_stall_are_cut_off(check):
    with Large("--idle-timeout", "2") as large:
        server = large.server
        with server.connect() as slow:
            slow.send(request_bytes(server.port, "GET", "/api/v2/jobs?limit=50000"))
            check.ok("it begins", slow.socket.recv(1))
            check.ok("it is cut off", server.logged(lambda line: '"path":"/api/v2/jobs"' in line and "it was cut off before its end" in line),
                     server.log()[-1000:])
            data, closed = slow.read(PATIENCE)
            check.ok("... and its client sees that", closed and not data.endswith(b"0\r\n\r\n"), data[-100:])
