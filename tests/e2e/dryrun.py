"""?dryRun=server with a real API server: accepted and refused jobs; no object remains."""
import json
import os

from cluster import PATHS
from harness import ROOT, framework_name, job_v2, job_v2_secret, run, wait_until
from jobs import FACTS, content_type, difference, is_v1, job_files, normal

MARKER = "Marker-of-a-secret-141421"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rest-lit"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MERGE = "application/merge-patch+json"


def everything(cluster):
    return {kind: cluster.names(kind) for kind in PATHS}


def try_job(server, body, how="server", path="/api/v2/jobs", kind="text/yaml"):
    return server.submit(body, {"Content-Type": kind}, f"{path}?dryRun={how}")


def test_dry_run_of_examples_equals_translate(check, cluster):
    """Every example and a part of the corpus: the result equals `rest-lit translate`, and no object
    remains."""
    files = job_files("examples/*.json", "examples/*.yaml") + \
        job_files("tests/corpus/v2-valid/*", "tests/corpus/v1-valid/*")[::8]
    before, tried = everything(cluster), 0
    with cluster.serve("--facts", FACTS, "--priority-class") as server:
        for path in files:
            name = os.path.relpath(path, ROOT)
            translated = run("translate", "--user", "alice", "--facts", FACTS, "--priority-class", path)
            with open(path, "rb") as f:
                reply = try_job(server, f.read(), path="/api/v1/jobs" if is_v1(path) else "/api/v2/jobs",
                                kind=content_type(path))
            if translated.returncode:
                check.ok(f"{name}: refused by both", 400 <= reply.status < 500, reply)
                continue
            if not check.ok(f"{name}: 200", reply.status == 200, reply):
                continue
            tried += 1
            wanted = [v for v in json.loads(translated.stdout)["items"] if v["kind"] != "Secret"]
            found = difference([normal(v) for v in wanted],
                               [normal(v) for v in reply.json["items"] if v["kind"] != "Secret"])
            check.ok(f"{name}: as translated", found is None, found)
    check.ok("many were tried", tried > 20, tried)
    check.equal("nothing is there", everything(cluster), before)


def test_dry_run_list_is_accepted_by_kubectl(check, cluster):
    with cluster.serve("--priority-class") as server:
        body = json.dumps({**json.loads(job_v2_secret("list", MARKER)), "contributor": "x"})
        reply = try_job(server, body)
        check.equal("with secrets: 200", reply.status, 200)
        check.ok("no secret", MARKER.encode() not in reply.body, reply)
        for text in (reply.body, json.dumps({**reply.json, "warnings": [{"message": "m"}]}).encode()):
            result = cluster.kubectl("create", "--dry-run=server", "-f", "-", text=text)
            check.ok("kubectl create takes the List", result.returncode == 0, result.stderr.decode())


def test_dry_run_reports_existing_objects(check, cluster):
    name = framework_name("met")
    with cluster.serve("--priority-class") as server:
        check.equal("submitted", server.submit(job_v2_secret("met", MARKER)).status, 202)
        before = everything(cluster)
        reply = try_job(server, job_v2_secret("met", MARKER))
        check.equal("the name is taken", (reply.status, reply.code), (409, "ConflictJobError"))
        check.equal("dryRun=true: without the API server", try_job(server, job_v2_secret("met", MARKER), "true").status, 200)
        check.equal("all is as it was", everything(cluster), before)
        cluster.delete("Framework", name)
        for suffix in ("-configcred", "-regcred"):
            cluster.delete("Secret", name + suffix)
        uid = cluster.get("PriorityClass", name + "-priority")["metadata"]["uid"]
        check.equal("a PriorityClass left over is no obstacle", try_job(server, job_v2_secret("met", MARKER)).status, 200)
        check.equal("and stays", cluster.get("PriorityClass", name + "-priority")["metadata"]["uid"], uid)
        cluster.delete("PriorityClass", name + "-priority")


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
