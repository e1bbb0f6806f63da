"""A job that is tried twice on a real API server: submitted by rest-lit, with statuses of
FrameworkController (tests/data/frameworks), read like clients do; and earlier attempts."""
import gzip
import base64
import json

from cluster import FRAMEWORKS
from detail_reference import Detail, differences
from details import SPECS, plain, same, snapshot
from harness import framework_name, job_v2, wait_until

MERGE = "application/merge-patch+json"
# Of a job that runs, is tried again, and fails.  The other states: tests/http/details.py.
TRIED_TWICE = ["02", "06", "17", "18", "19", "22"]


def write(cluster, name, status):
    """Replaces the whole status, like a PUT."""
    return cluster.api("PATCH", f"{FRAMEWORKS}/{name}", [{"op": "add", "path": "/status", "value": status}],
                       "application/json-patch+json")[1]


def reached(server, job, want):
    """Checks that the job reaches this state."""
    def looks():
        reply = server.request("GET", f"/api/v2/jobs/alice~{job}")
        return reply.status == 200 and not any(differences(want, plain(reply.json)))
    return wait_until(looks)


def row_of(server, job):
    rows = server.request("GET", f"/api/v2/jobs?keyword={job}").json
    return next((row for row in rows if row["name"] == job), {})


def one_state(check, cluster, server, job, number):
    what = f"{job}: {number}"
    path = f"{FRAMEWORKS}/{framework_name(job)}"
    # The roles of the snapshot and its ports; the other members are those of the submission.
    given = snapshot(number)
    cluster.api("PATCH", path, {"spec": {"taskRoles": given["spec"]["taskRoles"]}}, MERGE)
    now = write(cluster, framework_name(job), given["status"])
    want = Detail(now, SPECS).whole()
    reached(server, job, want)
    same(check, what, want, server.request("GET", f"/api/v2/jobs/alice~{job}"))
    keys = ("state", "subState", "retries", "completedTime", "virtualCluster")
    status = {k: want["jobStatus"][k] for k in keys}
    check.ok(f"{what}: the same in the list", wait_until(
        lambda: {k: row_of(server, job).get(k) for k in keys} == status),
        (row_of(server, job), status))


def test_states_of_a_job_are_shown_as_the_controller_writes_them(check, cluster):
    job = "is-tried-twice"
    with cluster.serve() as server:
        check.ok("lists are answered", server.ready())
        check.equal("is taken", server.submit(job_v2(job)).status, 202)
        check.equal("is there at once", server.request("GET", f"/api/v2/jobs/alice~{job}").status, 200)
        check.equal("and in the list", row_of(server, job).get("state"), "WAITING")
        for number in TRIED_TWICE:
            one_state(check, cluster, server, job, number)
        check.equal("the state in which it ended", row_of(server, job).get("state"), "FAILED")
        earlier(check, cluster, server, job)
    cluster.delete("Framework", framework_name(job))


# ---- earlier attempts -------------------------------------------------------------------------
def kept(cluster, job, n):
    return cluster.get("ConfigMap", f"{framework_name(job)}-attempt-{n}")


def earlier(check, cluster, server, job):
    """A server that did not run before also knows the first attempt of a retried job."""
    if not check.ok("the first attempt is kept", wait_until(lambda: kept(cluster, job, 0))):
        return
    uid = cluster.get("Framework", framework_name(job))["metadata"]["uid"]
    owners = kept(cluster, job, 0)["metadata"]["ownerReferences"]
    check.equal("... and belongs to the job", [o["uid"] for o in owners], [uid])
    now = cluster.get("Framework", framework_name(job))
    want = Detail(now, SPECS, attempt=snapshot("17")["status"]["attemptStatus"])
    path = f"/api/v2/jobs/alice~{job}"
    for what, s in (("here", server), ("elsewhere", cluster.serve())):
        wait_until(lambda s=s: s.request("GET", "/readyz").status == 200)
        same(check, f"{what}: the first attempt", want.whole(), s.request("GET", f"{path}/attempts/0"))
        same(check, f"{what}: both", [Detail(now, SPECS).job_attempt(True), want.job_attempt(False)],
             s.request("GET", f"{path}/job-attempts"))
        if s is not server:
            s.remove()


def attempt_of(job, n, cluster):
    """It runs for the n-th time."""
    status = snapshot("06")["status"]
    status["attemptStatus"]["id"] = n
    return Detail(write(cluster, framework_name(job), status), SPECS).whole()


def test_history_is_bounded(check, cluster):
    """The oldest attempts are removed; replaced objects are kept but not trusted."""
    job = "many-times"
    with cluster.serve("--history", "2") as server:
        check.equal("is taken", server.submit(job_v2(job)).status, 202)
        foreign = {"metadata": {"name": f"{framework_name(job)}-attempt-1"}, "binaryData": {
            "attempt.json.gz": base64.b64encode(gzip.compress(json.dumps({"id": 1}).encode())).decode()}}
        cluster.api("POST", "/api/v1/namespaces/default/configmaps", {
            "apiVersion": "v1", "kind": "ConfigMap", **foreign})
        for n in range(6):
            reached(server, job, attempt_of(job, n, cluster))
        check.ok("the last two are kept", wait_until(lambda: kept(cluster, job, 4) and kept(cluster, job, 3)))
        check.ok("the first ones are gone", wait_until(
            lambda: not any(kept(cluster, job, n) for n in (0, 2))),
            [n for n in range(6) if kept(cluster, job, n)])
        check.ok("what is not the job's stays", kept(cluster, job, 1))
        path = f"/api/v2/jobs/alice~{job}"
        check.equal("what can be read", [server.request("GET", f"{path}/attempts/{n}").status for n in range(7)],
                    [404, 404, 404, 200, 200, 200, 404])
        check.equal("and is listed", [a["attemptIndex"] for a in server.request("GET", f"{path}/job-attempts").json],
                    [5, 4, 3])
        cluster.delete("ConfigMap", f"{framework_name(job)}-attempt-4")
        check.equal("what is gone is not there", server.request("GET", f"{path}/attempts/4").status, 404)
    cluster.delete("Framework", framework_name(job))
    cluster.delete("ConfigMap", f"{framework_name(job)}-attempt-1")
