"""Time limits of jobs, kept by two servers on a real API server; statuses as FrameworkController
writes them."""
import time

from cluster import FRAMEWORKS
from harness import framework_name, job_v2, wait_until
from states import MERGE


def rfc3339(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def runs(cluster, job, since):
    """The job is in its second attempt; its first task started then."""
    return cluster.api("PATCH", f"{FRAMEWORKS}/{framework_name(job)}", {"status": {
        "state": "AttemptRunning", "startTime": rfc3339(since), "runTime": rfc3339(since),
        "attemptStatus": {"id": 1, "startTime": rfc3339(time.time()), "runTime": rfc3339(time.time())}}}, MERGE)[0]


def test_time_limits_stop_each_job_once(check, cluster):
    """At least one of two servers stops a job at its limit, once; a job below its limit
    continues."""
    with cluster.serve("--max-duration", "86400") as one, cluster.serve() as two:
        for job, server, seconds in (("over", one, 60), ("below", one, 3600), ("by-default", one, None), ("without", two, None)):
            check.equal(f"{job}: is taken", server.submit(job_v2(job, extras={"maxDurationSec": seconds} if seconds else {})).status, 202)
        now = time.time()
        for job, since in (("over", 61), ("below", 61), ("by-default", 86401), ("without", 864000)):
            check.equal(f"{job}: runs", runs(cluster, job, now - since), 200)

        def stopped(job):
            return cluster.get("Framework", framework_name(job))["spec"]["executionType"] == "Stop"
        for job, reason in (("over", "after 60 seconds"), ("by-default", "after 86400 seconds")):
            check.ok(f"{job}: is stopped", wait_until(lambda j=job: stopped(j)))
            annotations = cluster.get("Framework", framework_name(job))["metadata"]["annotations"]
            check.ok(f"{job}: why", reason in annotations.get("rest-lit/stop-reason", ""), annotations)
            for server in (one, two):
                check.ok(f"{job}: details say why", wait_until(lambda s=server, j=job, r=reason: r in s.request(
                    "GET", f"/api/v2/jobs/alice~{j}").json["jobStatus"].get("stopReason", "")))
        # A job that a later round stops.
        check.equal("later: is taken", two.submit(job_v2("later", extras={"maxDurationSec": 60})).status, 202)
        check.equal("later: runs", runs(cluster, "later", now - 61), 200)
        check.ok("later: is stopped", wait_until(lambda: stopped("later")))
        check.equal("the others run on", [j for j in ("below", "without") if stopped(j)], [])

        def said():
            return [s for t in (one, two) for s in t.log_lines("reached its time limit")]
        check.ok("each was stopped once", wait_until(lambda: len(said()) >= 3) and len(said()) == 3, said())
        check.equal("no trouble", one.log_lines("cannot be stopped") + two.log_lines("cannot be stopped"), [])
    for job in ("over", "below", "by-default", "without", "later"):
        cluster.delete("Framework", framework_name(job))
