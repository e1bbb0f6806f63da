"""Incomplete submissions of killed servers: the janitor removes them on an API server with other objects
of the same kinds; the same request takes them over.  On one machine there are none."""
import collections
import json
import os
import random
import threading
import time

from fakeapi import FakeApi
from harness import SLOW, Server, database_objects, framework_name, job_v2_secret, request_bytes, wait_until

# The minimum: --janitor-age must be at least --deadline plus ten seconds.
QUICK = ("--deadline", "5", "--janitor-age", "15", "--janitor-interval", "1")


def of_job(where, job):
    return database_objects(where, framework_name(job))


def kinds(objects):
    return [value["kind"] for value in objects]


def test_repetition_on_one_machine_creates_nothing(check):
    """A job with random parts, by its key, also after the server was killed."""
    key = {"Idempotency-Key": "local"}
    text = json.dumps({**json.loads(job_v2_secret("twice", "m")), "extras": {"distributed": {"framework": "mpi"}}})
    options = ("--priority-class", "--max-env-inline", "0")
    with Server("--engine=none", "--local", "jobs", *options) as server:
        where = os.path.join(server.directory, "jobs")
        check.equal("submitted", server.submit(text, key).status, 202)
        server.kill()
        made = of_job(where, "twice")
        check.equal("its objects", kinds(made), ["Framework", *3 * ["Secret"], "ConfigMap"])
        with Server("--engine=none", "--local", where, *options) as again:
            check.equal("another body", again.submit(text + " ", key).status, 422)
            check.equal("without a key", again.submit(text).code, "ConflictJobError")
            reply = again.submit(text, key)
            check.equal("repeated", (reply.status, reply.headers.get("idempotency-replayed")), (202, "true"))
            again.stop()
        check.equal("nothing has changed", of_job(where, "twice"), made)


def test_killed_server_leaves_whole_jobs_or_none(check):
    """On one machine, each job is whole and started or absent, whenever the server is killed."""
    pick, promised = random.Random(5), set()
    with Server("--engine=none", "--local", "jobs") as server:
        where, turns = os.path.join(server.directory, "jobs"), 8
        for turn in range(turns):
            running = Server("--engine=none", "--local", where) if turn else server

            def submit(thread):
                for i in range(10000):
                    name = f"job{turn}x{thread}x{i}"
                    try:
                        reply = running.submit(job_v2_secret(name, "m"))
                    except OSError:
                        return
                    if reply is None:
                        return
                    if reply.status == 202:
                        promised.add(framework_name(name))
            threads = [threading.Thread(target=submit, args=(i,)) for i in range(4)]
            for t in threads:
                t.start()
            time.sleep(0.15 * pick.random() * SLOW)
            running.kill()
            for t in threads:
                t.join()
            objects = database_objects(where, "")
            started = {o["metadata"]["name"]: o["metadata"]["uid"] for o in objects
                       if o["kind"] == "Framework" and o["spec"]["executionType"] == "Start"}
            owned = collections.Counter(o["metadata"]["ownerReferences"][0]["uid"] for o in objects if o["kind"] == "Secret")
            check.equal("all are started, and have their Secrets", (owned, len(objects)),
                        ({uid: 2 for uid in started.values()}, 3 * len(started)))
            check.ok("none is lost", promised <= set(started), promised - set(started))


def test_sweep_after_a_kill_removes_incomplete_jobs(check):
    """The next server removes the Frameworks of a server that was killed after their creation, and
    clients may repeat their requests meanwhile."""
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
