"""--webhook with two servers on a real API server: the holder of the Lease sends; the other server
takes over, also when a stopped server has released the Lease."""
import json
import shutil
import tempfile

from cluster import FRAMEWORKS
from durations import rfc3339
from harness import framework_name, job_v2, wait_until
from receiver import SECRET, Receiver
from states import MERGE
from tokens import write_file

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/rest-lit-webhook-default"
HOLDS, SECONDS = "this server reports ends of jobs", 8  # a machine may stall for half of that


def ended(cluster, job, code):
    return cluster.api("PATCH", f"{FRAMEWORKS}/{framework_name(job)}", {"status": {
        "state": "Completed", "startTime": rfc3339(1e9), "runTime": rfc3339(1e9 + 1), "completionTime": rfc3339(1e9 + 2),
        "retryPolicyStatus": {"totalRetriedCount": 2, "accountableRetriedCount": 1},
        "attemptStatus": {"id": 2, "completionStatus": {"code": code}}}}, MERGE)[0]


def marked(cluster, job):
    return "rest-lit/webhook-sent" in cluster.get("Framework", framework_name(job))["metadata"]["annotations"]


def end_all(check, cluster, server, to, jobs):
    for i, job in enumerate(jobs):
        check.equal(f"{job}: is taken", server.submit(job_v2(job)).status, 202)
        check.equal(f"{job}: ends", ended(cluster, job, i % 2), 200)
    check.ok("they are reported", wait_until(lambda: set(jobs) <= set(to.names())), to.names())
    check.ok("and marked", wait_until(lambda: all(marked(cluster, j) for j in jobs)))


def test_webhook_is_sent_by_the_holder_of_the_lease(check, cluster):
    cluster.apply("options/webhook.yaml")
    directory = tempfile.mkdtemp(prefix="rest-lit-webhook.")
    secret = write_file(directory, "secret", SECRET)
    first, second, third, fourth = ([f"told-{n}-{i}" for i in range(10)] for n in ("one", "two", "three", "four"))
    with Receiver() as to:
        words = ("--webhook", to.url, "--webhook-secret-file", secret, "--webhook-allow-private", "--webhook-lease", str(SECONDS))
        servers = [cluster.serve(*words), cluster.serve(*words)]

        def holders():
            return [s for s in servers if HOLDS in s.log()]
        check.ok("one holds the Lease", wait_until(holders))
        end_all(check, cluster, servers[0], to, first)
        end_all(check, cluster, servers[1], to, second)
        check.equal("each once", sorted(to.names()), sorted(first + second))
        check.equal("genuine", to.forged, [])
        check.equal("what is said", {k: to.got[0][k] for k in ("state", "retries", "launchedTime", "completedTime", "exitCode")},
                    {"state": "FAILED" if to.got[0]["exitCode"] else "SUCCEEDED", "retries": 2, "launchedTime": 1000000001000,
                     "completedTime": 1000000002000, "exitCode": to.got[0]["exitCode"]})
        check.equal("one of two has sent", len(holders()), 1)
        holder = holders()[0]
        other = servers[1 - servers.index(holder)]
        identity = cluster.api("GET", LEASE)[1]["spec"]["holderIdentity"]
        holder.kill()
        end_all(check, cluster, other, to, third)
        check.equal("the other one has taken over, and nothing came twice", sorted(to.names()), sorted(first + second + third))
        check.ok("the Lease says so", cluster.api("GET", LEASE)[1]["spec"]["holderIdentity"] not in ("", identity))
        check.equal("it is stopped", other.stop(), 0)
        check.equal("and gives the Lease back", cluster.api("GET", LEASE)[1]["spec"].get("holderIdentity", ""), "")
        servers.append(cluster.serve(*words))
        end_all(check, cluster, servers[2], to, fourth)
        check.equal("the next one takes it", sorted(to.names()), sorted(first + second + third + fourth))
        cluster.freeze()
        check.equal("it stops also if the API server is silent", servers[2].stop(), 0)
        cluster.thaw()
        check.ok("no secret", all(SECRET not in s.log() for s in servers)
                 and SECRET not in json.dumps(cluster.api("GET", FRAMEWORKS)[1]))
        for server in servers:
            server.remove()
    for job in first + second + third + fourth:
        cluster.delete("Framework", framework_name(job))
    shutil.rmtree(directory, ignore_errors=True)
