"""The janitor removes incomplete submissions of killed servers, in a directory and on an API server
with other objects of the same kinds."""
import json
import os

from directory import files_below
from fakeapi import FakeApi
from harness import Server, framework_name, job_v2_secret, request_bytes, wait_until

# The minimum: --janitor-age must be at least --deadline plus ten seconds.
QUICK = ("--deadline", "5", "--janitor-age", "15", "--janitor-interval", "1")


def of_job(where, job):
    return [path for name, path in files_below(where).items() if framework_name(job) in name]


def unstart(where, job):
    """Create the state of a server that was killed before it started this job."""
    for path in of_job(where, job):
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
        if value["kind"] == "Framework":
            value["spec"]["executionType"] = "Create"
            value["metadata"]["labels"]["rest-lit/creating"] = "true"
            with open(path, "w", encoding="utf-8") as f:
                json.dump(value, f)


def test_sweep_directory(check):
    with Server("--standalone", "jobs") as server:
        where = os.path.join(server.directory, "jobs")
        for job in ("whole", "half"):
            check.equal(f"{job}: submitted", server.submit(job_v2_secret(job, "m")).status, 202)
        check.equal("stopped", server.stop(), 0)
        unstart(where, "half")
        check.equal("half a job and its Secrets", len(of_job(where, "half")), 3)
        with Server("--standalone", where, *QUICK) as again:
            check.ok("it goes, and its Secrets with it",
                     wait_until(lambda: not of_job(where, "half")), of_job(where, "half"))
            check.equal("a whole job stays", len(of_job(where, "whole")), 3)
            check.ok("the log says so", again.logged(
                lambda line: "removed leftovers" in line and json.loads(line)["frameworks"] == 1), again.log())
            check.equal("the name can be used again",
                        again.submit(job_v2_secret("half", "m")).status, 202)


def test_sweep_after_kill(check):
    """A server is killed after it created the Framework.  Checks what the next server does, and the
    responses to clients that repeat their request meanwhile."""
    key = {"Idempotency-Key": "one-two-three"}
    job = job_v2_secret("cut-off", "m")
    api = FakeApi()
    token = os.path.join("/tmp", f"sweep-token.{os.getpid()}")
    with open(token, "w", encoding="utf-8") as f:
        f.write(api.token)
    os.chmod(token, 0o600)
    where = ("--apiserver", api.url, "--apiserver-token-file", token)
    try:
        api.fault("POST", "secrets", hang="before")
        server = Server(*where)
        with server.connect() as c:
            c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job.encode(), key))
            check.ok("there is half a job", wait_until(
                lambda: api.of(framework_name("cut-off"))))
            server.kill()
        server.remove()
        api.faults.clear()
        api.put("frameworks", {"kind": "Framework", "metadata": {
            "name": framework_name("of-others"), "labels": {
                "rest-lit/instance": "others", "rest-lit/creating": "true"}},
            "spec": {"executionType": "Create"}})
        with Server(*where) as again, Server(*where, *QUICK):
            reply = again.submit(job, key)
            check.equal("the same request: still under way", (reply.status, reply.code),
                        (409, "IdempotencyError"))
            check.ok("... that is what it says", "the server removes an interrupted job" in reply.message, reply)
            check.equal("the same key, another job", again.submit(
                job_v2_secret("cut-off", "n"), key).status, 422)
            check.equal("without a key: taken", again.submit(job).code, "ConflictJobError")
            check.ok("it is removed", wait_until(
                lambda: ("frameworks", framework_name("cut-off")) not in api.objects))
            reply = again.submit(job, key)
            check.equal("then the same request is taken", reply.status, 202)
            check.equal("... and its answer repeated", again.submit(job, key).status, 202)
            check.ok("what belongs to others stays",
                     ("frameworks", framework_name("of-others")) in api.objects)
    finally:
        os.unlink(token)
        api.close()


TESTS = [test_sweep_directory, test_sweep_after_kill]
