"""?dryRun=server with a real API server: accepted and refused jobs; no object remains."""
import json

from cluster import PATHS
from harness import job_v2, job_v2_secret, wait_until

MARKER = "Marker-of-a-secret-141421"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rest-lit"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MERGE = "application/merge-patch+json"


def everything(cluster):
    return {kind: cluster.names(kind) for kind in PATHS}


def try_job(server, body, how="server"):
    return server.submit(body, path=f"/api/v2/jobs?dryRun={how}")


def test_dry_run_list_is_accepted_by_kubectl(check, cluster):
    before = everything(cluster)
    with cluster.serve("--priority-class") as server:
        body = json.dumps({**json.loads(job_v2_secret("list", MARKER)), "contributor": "x"})
        reply = try_job(server, body)
        check.equal("with secrets: 200", reply.status, 200)
        check.ok("no secret", MARKER.encode() not in reply.body, reply)
        for text in (reply.body, json.dumps({**reply.json, "warnings": [{"message": "m"}]}).encode()):
            result = cluster.kubectl("create", "--dry-run=server", "-f", "-", text=text)
            check.ok("kubectl create takes the List", result.returncode == 0, result.stderr.decode())
    check.equal("nothing is there", everything(cluster), before)


def test_dry_run_refuses_as_a_submission_does(check, cluster):
    """Refusals by RBAC, quota and validation are the same as for a submission; no object
    remains."""
    before = everything(cluster)
    whole = cluster.api("GET", ROLE)[1]["rules"]
    with cluster.serve() as server:
        def said(what, body, status, code, *words):
            seen = []

            def is_so():
                seen[:] = [try_job(server, body)]
                return seen[0].status == status
            check.ok(f"{what}: {status}", wait_until(is_so), seen)
            check.equal(f"{what}: code", seen[0].code, code)
            check.ok(f"{what}: says why", all(w in seen[0].message for w in words), seen[0].message)
            check.ok(f"{what}: no secret", MARKER.encode() not in seen[0].body)
            check.equal(f"{what}: nothing is there", everything(cluster), before)

        fewer = json.loads(json.dumps(whole))
        for rule in fewer:
            if "secrets" in rule["resources"]:
                rule["verbs"] = [v for v in rule["verbs"] if v != "create"] or ["watch"]
        cluster.api("PATCH", ROLE, {"rules": fewer}, MERGE)
        said("rights", job_v2_secret("r", MARKER), 500, "UnknownError", '"create"', "secrets")
        cluster.api("PATCH", ROLE, {"rules": whole}, MERGE)
        check.ok("with all rights", wait_until(lambda: try_job(server, job_v2_secret("r", MARKER)).status == 200))

        status, quota = cluster.api("POST", QUOTAS, {
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
            "spec": {"hard": {"count/secrets": "0"}}})
        if check.equal("a quota", status, 201):
            cluster.api("PUT", f"{QUOTAS}/none/status", {**quota, "status": {
                "hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}}})
            said("quota", job_v2_secret("q", MARKER), 500, "UnknownError", "a quota or an admission rule")
            cluster.api("DELETE", f"{QUOTAS}/none")
            check.ok("without a quota", wait_until(lambda: try_job(server, job_v2_secret("q", MARKER)).status == 200))
    with cluster.serve("--namespace", "nowhere") as server:
        reply = try_job(server, job_v2("n"))
        check.ok("in a namespace without rights or that is not there", reply.status == 500, reply)
    check.equal("nothing is there", everything(cluster), before)
