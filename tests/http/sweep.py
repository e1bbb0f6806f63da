"""Incomplete submissions of killed servers: the janitor removes them, in a directory and on an API
server with other objects of the same kinds; the same request takes them over."""
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


def test_take_over_in_a_directory(check):
    """A job of this machine with random parts and a PriorityClass is repeated after each point of its
    submission."""
    key = {"Idempotency-Key": "local"}
    text = json.dumps({**json.loads(job_v2_secret("half", "m")), "extras": {"distributed": {"framework": "mpi"}}})
    options = ("--priority-class", "--max-env-inline", "0")
    with Server("--standalone", "jobs", *options) as server:
        where = os.path.join(server.directory, "jobs")
        check.equal("submitted", server.submit(text, key).status, 202)
        server.stop()
        made = sorted(of_job(where, "half"))
        check.equal("its objects", len(made), 6)
        for missing in range(len(made)):
            unstart(where, "half")
            for path in [p for p in sorted(of_job(where, "half")) if "frameworks" not in p.lower()][:missing]:
                os.unlink(path)
            before = submissions(where)
            with Server("--standalone", where, *options) as again:
                check.equal("another body", again.submit(text + " ", key).status, 422)
                check.equal("without a key", again.submit(text).code, "ConflictJobError")
                reply = again.submit(text, key)
                check.equal("taken over", (reply.status, reply.headers.get("idempotency-replayed")), (202, None))
                reply = again.submit(text, key)
                check.equal("repeated", (reply.status, reply.headers.get("idempotency-replayed")), (202, "true"))
            check.equal("all its objects", sorted(of_job(where, "half")), made)
            check.ok("of one new submission", len(submissions(where)) == 1 and not submissions(where) & before,
                     (before, submissions(where)))


def submissions(where):
    found = set()
    for path in of_job(where, "half"):
        with open(path, encoding="utf-8") as f:
            found.add(json.load(f)["metadata"]["annotations"]["rest-lit/submission"])
    return found


def test_sweep_after_kill(check):
    """A server is killed after it created the Frameworks.  Checks what the next server does, and the
    responses to clients that repeat their request meanwhile."""
    key = {"Idempotency-Key": "one-two-three"}
    job, left = job_v2_secret("cut-off", "m"), job_v2_secret("left", "m")
    api = FakeApi()
    token = os.path.join("/tmp", f"sweep-token.{os.getpid()}")
    with open(token, "w", encoding="utf-8") as f:
        f.write(api.token)
    os.chmod(token, 0o600)
    where = ("--apiserver", api.url, "--apiserver-token-file", token)
    try:
        api.fault("POST", "secrets", hang="before")
        server = Server(*where)
        with server.connect() as c, server.connect() as d:
            c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job.encode(), key))
            d.send(request_bytes(server.port, "POST", "/api/v2/jobs", left.encode(), {"Idempotency-Key": "left"}))
            check.ok("there are two halves of jobs", wait_until(
                lambda: api.of(framework_name("cut-off")) and api.of(framework_name("left"))))
            server.kill()
        server.remove()
        api.faults.clear()
        api.put("frameworks", {"kind": "Framework", "metadata": {
            "name": framework_name("of-others"), "labels": {
                "rest-lit/instance": "others", "rest-lit/creating": "true"}},
            "spec": {"executionType": "Create"}})
        with Server(*where) as again, Server(*where, *QUICK):
            check.equal("the same key, another job", again.submit(
                job_v2_secret("cut-off", "n"), key).status, 422)
            check.equal("without a key: taken", again.submit(job).code, "ConflictJobError")
            reply = again.submit(job, key)
            check.equal("the same request", (reply.status, reply.headers.get("idempotency-replayed")), (202, None))
            check.equal("... and its answer repeated", again.submit(job, key).headers.get("idempotency-replayed"), "true")
            check.ok("the other one is removed", wait_until(
                lambda: ("frameworks", framework_name("left")) not in api.objects))
            check.equal("... and can be submitted again", again.submit(left, {"Idempotency-Key": "left"}).status, 202)
            check.ok("the first one stays", ("frameworks", framework_name("cut-off")) in api.objects)
            check.ok("what belongs to others stays",
                     ("frameworks", framework_name("of-others")) in api.objects)
    finally:
        os.unlink(token)
        api.close()
