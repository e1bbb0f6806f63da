"""serve --dialects: MxJobs and manifests of the launcher, off unless named; the API server checks
their pods before the Framework exists."""
import json
import os
import subprocess
import tempfile
from contextlib import closing

from fakeapi import FakeApi, fake_server
from harness import BINARY, ROOT, Server, framework_name, job_v2, run
from openpai import group_object, user_object
from tokens import SECRET, bearer, token, write_file

MXJOB = os.path.join(ROOT, "tests", "corpus", "mxjob", "03-mxnet.mlkube-dist.yaml")
LAUNCHER = os.path.join(ROOT, "tests", "corpus", "launcher", "launcher-framework-1.yaml")


def text(path):
    with open(path) as f:
        return f.read()


def posted(api):
    """Kinds of the objects that were created, in order, and whether only in a dry run."""
    return [(path.split("/")[-1], "dryRun" in query) for method, path, query, _, _ in api.requests
            if method == "POST"]


def test_dialects_are_off_unless_named(check):
    with closing(FakeApi()) as api, fake_server(api, "--dialects", "launcher") as server:
        for path in ("/api/v1/jobs", "/api/v2/jobs"):
            reply = server.submit(text(MXJOB), path=path)
            check.equal(f"{path}: an MxJob is refused", reply.status, 400)
            check.ok(f"{path}: with the way out", "--dialects mxjob" in reply.message, reply.message)
        reply = server.submit("apiVersion: v1\nkind: Pod\n")
        check.ok("an unknown kind: the known ones", "known are MxJob, MXJob, of" in reply.message,
                 reply.message)
        check.equal("a manifest is taken", server.submit(text(LAUNCHER)).status, 202)
    wrong = subprocess.run([BINARY, "serve", "--dialects", "mxjob,v2", "--no-auth", "--user", "alice"],
                           capture_output=True, text=True, check=False)
    check.ok("a wrong name stops the start", wrong.returncode and 'there is no dialect "v2"' in wrong.stderr, wrong)


def test_dialects_have_their_pods_checked_first(check):
    with closing(FakeApi()) as api, fake_server(api, "--dialects", "mxjob,launcher") as server:
        check.equal("a v2 job", server.submit(job_v2("plain")).status, 202)
        check.equal("no check of its pods", posted(api), [("frameworks", False)])
        api.requests.clear()
        reply = server.submit(text(MXJOB))
        check.equal("an MxJob is taken", reply.status, 202)
        check.equal("the pods are checked first", posted(api), [("podtemplates", True)] * 3 + [("frameworks", False)])
        body = next(b for m, p, _, _, b in api.requests if m == "POST" and p.endswith("/podtemplates"))
        container = json.loads(body)["template"]["spec"]["containers"][0]
        check.equal("as they will be", (container["name"], container["workingDir"]),
                    ("app", "/mxnet/example/image-classification"))
        check.ok("nothing of them is kept", not any(kind == "podtemplates" for kind, _ in api.objects), api.objects)
        name = framework_name("example-dist-job")
        check.ok("the Framework exists", ("frameworks", name) in api.objects, list(api.objects))
        server.becomes("/api/v2/jobs/alice~example-dist-job", 200)
        config = server.request("GET", "/api/v2/jobs/alice~example-dist-job/config")
        check.equal("its configuration", (config.json or {}).get("kind"), "MxJob")
        again = run("resubmit", "--server", f"http://127.0.0.1:{server.port}", "example-dist-job")
        check.ok("it is submitted again", again.returncode == 0 and b"example-dist-job-2" in again.stdout, again)
        for how in ("true", "server"):
            tried = server.submit(text(LAUNCHER), path=f"/api/v2/jobs?dryRun={how}")
            check.equal(f"dryRun={how}", tried.status, 200)


def test_dialects_with_refused_pods_create_nothing(check):
    with closing(FakeApi()) as api, fake_server(api, "--dialects", "mxjob") as server:
        for status, wanted, word in ((422, 400, "the pod of task role scheduler"),
                                     (403, 500, 'needs the RBAC verb "create" on podtemplates')):
            api.faults.clear()
            api.fault("POST", "podtemplates", status=status)
            reply = server.submit(text(MXJOB))
            check.equal(f"{status}: refused", reply.status, wanted)
            check.ok(f"{status}: says why", word in reply.message, reply.message)
            check.ok(f"{status}: nothing is created", not api.objects, list(api.objects))


def test_dialects_need_no_check_on_one_machine(check):
    with Server("--engine=none", "--local", "jobs", "--dialects", "mxjob") as server:
        check.equal("an MxJob is taken without a check", server.submit(text(MXJOB)).status, 202)


def test_metadata_with_a_domain_needs_the_facts_file(check):
    """The server keeps labels and annotations with a domain only if the file of --facts lists them,
    and names the others in warnings."""
    pod = {"metadata": {"labels": {"team": "x", "example.com/team": "x", "other.example/a": "x"},
                        "annotations": {"sidecar.istio.io/inject": "true", "k8s.v1.cni.cncf.io/networks": "n",
                                        "vault.hashicorp.com/agent-inject": "true", "example.com/note": "y"}},
           "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}
    job = json.dumps({"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework", "metadata": {"name": "keys"},
                      "spec": {"executionType": "Start", "retryPolicy": {}, "taskRoles": [
                          {"name": "main", "taskNumber": 1, "task": {"retryPolicy": {}, "pod": pod}}]}})
    istio, team, note = "sidecar.istio.io/inject", "example.com/team", "example.com/note"
    names = {istio, team, note, "k8s.v1.cni.cncf.io/networks", "vault.hashicorp.com/agent-inject", "other.example/a"}
    with tempfile.TemporaryDirectory() as directory, closing(FakeApi()) as api:
        for facts, kept, users in (("{}", set(), "file"), ('{"podMetadata": ["example.com/*"]}', {team, note}, "file"),
                                   (json.dumps({"podMetadata": [istio, "other.example/b"]}), {istio}, "openpai")):
            file = write_file(directory, "facts.json", facts)
            secret = write_file(directory, "jwt-secret", SECRET)
            api.put("secrets", group_object("default", {"virtualClusters": ["default"]}))
            api.put("secrets", user_object("alice", "alice-password", ["default"]))
            with fake_server(api, "--dialects", "launcher", "--facts", file, "--users", users, "--jwt-secret-file", secret,
                             "--token-check", "signature", who=[]) as server:
                reply = server.submit(job, bearer(token("alice")), path="/api/v2/jobs?dryRun=true")
            if not check.equal(f"{facts}: tried", reply.status, 200):
                print(reply)
                continue
            framework = next(o for o in reply.json["items"] if o["kind"] == "Framework")
            metadata = framework["spec"]["taskRoles"][0]["task"]["pod"]["metadata"]
            found = {k for k in [*metadata["labels"], *metadata["annotations"]]} & names
            check.equal(f"{facts}: kept", found, kept)
            check.equal(f"{facts}: without a domain", metadata["labels"].get("team"), "x")
            said = {w["pointer"].rsplit("/", 1)[1].replace("~1", "/") for w in reply.json.get("warnings", [])
                    if "podMetadata" in w["message"]}
            check.equal(f"{facts}: said", said, names - kept)
            shown = run("translate", "--facts", file, "-", text=job.encode())
            check.ok(f"{facts}: translate", shown.returncode == 0 and all(
                (key.replace("/", "~1").encode() in shown.stderr) == (key not in kept) for key in names), shown)
