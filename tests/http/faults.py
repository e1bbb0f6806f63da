"""Faults of the API server of each kind at each step of a submission.

In all cases, 202 means that all objects exist and the job is started; 504 means that the result is
unknown; any other status means that no object is left.  A started Framework has all its objects."""
import threading
import time

from fakeapi import FakeApi, fake_server, served
from harness import SLOW, framework_name, in_threads, job_v2, job_v2_secret, secret_forms, wait_until

MARKER = "Marker-of-a-secret-1729"
# Deadlines for cases that succeed, and for cases that cannot.
DEADLINE, SHORT = 200, 5

# Each request for a job with secrets and a private image: method, kind, and the suffix of the
# object's name after the Framework's name.
STEPS = [("POST", "frameworks", ""), ("POST", "secrets", "-configcred"),
         ("POST", "secrets", "-regcred"), ("POST", "priorityclasses", "-priority"),
         ("PATCH", "frameworks", "")]

# Name, fault, allowed statuses.  The fault occurs `times` times; 0: always.
GOES_ON = {202}
GIVES_UP = {500, 502, 503, 504}
REFUSES = {400, 403, 409, 413, 422, 500, 502, 503}
FAULTS = [
    ("slow", {"delay": 0.7}, 0, GOES_ON),
    ("429 once", {"status": 429, "retry_after": 1}, 1, GOES_ON),
    ("429 without Retry-After", {"status": 429}, 2, GOES_ON),
    ("429 for ever", {"status": 429, "retry_after": 1}, 0, GIVES_UP),
    ("503 once", {"status": 503}, 1, GOES_ON),
    ("503 for ever", {"status": 503}, 0, GIVES_UP),
    ("500 once, not done", {"status": 500}, 1, GOES_ON),
    ("500 once, done", {"status_done": 500}, 1, GOES_ON),
    ("500 for ever, not done", {"status": 500}, 0, GIVES_UP),
    ("504 once, done", {"status_done": 504}, 1, GOES_ON),
    ("cut after the body, not done", {"cut": "body"}, 1, GOES_ON),
    ("cut after the body, done", {"cut": "done"}, 1, GOES_ON),
    ("half an answer", {"cut": "half"}, 1, GOES_ON),
    ("cut for ever, done", {"cut": "done"}, 0, GOES_ON | GIVES_UP),
    ("cut for ever, not done", {"cut": "body"}, 0, GIVES_UP),
    ("hangs, not done", {"hang": "before"}, 0, GIVES_UP),
    ("hangs, done", {"hang": "done"}, 0, GOES_ON | GIVES_UP),
    ("403", {"status": 403}, 0, REFUSES),
    ("422", {"status": 422, "message": f"Secret in version v1 cannot be handled: ...|{MARKER}|..."},
     0, REFUSES),
    ("401", {"status": 401}, 0, GIVES_UP | REFUSES),
    ("redirect", {"status": 302}, 0, GIVES_UP | REFUSES),
    ("not JSON", {"raw": b"HTTP/1.1 201 Created\r\nContent-Length: 6\r\n\r\n<html>"}, 1,
     GOES_ON | GIVES_UP),
    ("an answer without end", {"raw": b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n" +
                               (b"10000\r\n" + b" " * 65536 + b"\r\n") * 100}, 1,
     GOES_ON | GIVES_UP),
    ("not HTTP", {"raw": b"SSH-2.0-OpenSSH_9.2\r\n"}, 1, GOES_ON | GIVES_UP),
]


def collect(api):
    """Removes objects whose owner no longer exists, like the garbage collector."""
    with api.lock:
        uids = {o["metadata"]["uid"] for o in api.objects.values()}
        for key, value in list(api.objects.items()):
            owners = value["metadata"].get("ownerReferences", [])
            if owners and not any(o.get("uid") in uids for o in owners):
                del api.objects[key]


def complete(objects, name):
    """The missing or wrong parts of the job; None if it is complete."""
    framework = objects.get(("frameworks", name))
    if not framework:
        return "no Framework"
    if framework["spec"].get("executionType") != "Start":
        return "not started"
    for _, kind, suffix in STEPS[1:4]:
        value = objects.get((kind, name + suffix))
        if not value:
            return f"no {kind} {suffix}"
        owners = [o.get("uid") for o in value["metadata"].get("ownerReferences", [])]
        if kind == "secrets" and owners != [framework["metadata"]["uid"]]:
            return f"{suffix} is owned by {owners}"
    return None


def judge(check, what, api, job, reply, allowed):
    """Checks the contract at the top of this file."""
    if not check.ok(f"{what}: is answered", reply is not None):
        return
    check.ok(f"{what}: status", reply.status in allowed, f"{reply.status}, not {sorted(allowed)}: "
             f"{reply.message}")
    name = framework_name(job)
    collect(api)
    objects = api.of(name)
    framework = objects.get(("frameworks", name))
    if reply.status == 202:
        check.ok(f"{what}: 202 and everything exists", complete(objects, name) is None,
                 complete(objects, name))
    elif reply.status == 504:
        check.equal(f"{what}: 504 has the code", reply.code, "OutcomeUnknown")
        check.ok(f"{what}: a started Framework is complete", not framework or
                 framework["spec"].get("executionType") != "Start" or not complete(objects, name),
                 complete(objects, name))
    else:
        check.ok(f"{what}: {reply.status} and nothing is left", not objects, sorted(objects))
    check.ok(f"{what}: an answer for people", reply.status == 202 or len(reply.message) > 10, reply)
    check.ok(f"{what}: no secret in the answer",
             not any(form in reply.body for form in secret_forms(MARKER)), reply)


def one_fault(check, lock, number, row):
    """One kind of fault at every step, concurrently, each with a separate job."""
    what, fault, times, allowed = row
    api = FakeApi()
    deadline = SHORT if 504 in allowed else DEADLINE
    with fake_server(api, "--deadline", str(deadline), "--priority-class", "--loops", "1") as server:
        jobs = [f"fault-{number}-{i}" for i in range(len(STEPS))]
        for job, (method, kind, suffix) in zip(jobs, STEPS):
            api.fault(method, kind, framework_name(job) + suffix, times or None, **fault)
        replies = in_threads(len(jobs), lambda i: server.submit(job_v2_secret(jobs[i], MARKER)))
        with lock:
            for job, (method, kind, suffix), reply in zip(jobs, STEPS, replies):
                judge(check, f"{what} at {method} {kind}{suffix}", api, job, reply, allowed)
            check.equal(f"{what}: alive", server.request("GET", "/healthz").status, 200)
            log = server.settled_log().encode()
            check.ok(f"{what}: no secret in the log",
                     not any(form in log for form in secret_forms(MARKER)))
            check.equal(f"{what}: exit status", server.stop(), 0)


def test_faults_at_each_step_leave_whole_jobs_or_none(check):
    lock = threading.Lock()
    rows = list(enumerate(FAULTS))

    def worker(_):
        while rows:
            try:
                number, row = rows.pop()
            except IndexError:
                return
            try:
                one_fault(check, lock, number, row)
            except Exception as e:
                with lock:
                    check.ok(row[0], False, repr(e))
    in_threads(6, worker)


def test_connection_cut_before_the_body_is_retried(check):
    """The connection is reset after the head of a POST."""
    for _, kind, _ in STEPS[:4]:
        with served("--deadline", str(DEADLINE), "--priority-class") as (api, server):
            api.fault("POST", kind, times=1, cut="before")
            reply = server.submit(job_v2_secret("cut", MARKER))
            judge(check, f"cut before the body of {kind}", api, "cut", reply, GOES_ON)
        api.close()


def test_failed_cleanup_leaves_objects_only_with_504(check):
    """The cleanup fails, too.  Only then may objects be left, with 504."""
    def one(row):
        what, fault, times, allowed = row
        with served("--deadline", str(SHORT if 504 in allowed else DEADLINE)) as (api, server):
            name = framework_name("undo")
            api.fault("POST", "secrets", name, status=403)
            api.fault("DELETE", "frameworks", name, times, **fault)
            reply = server.submit(job_v2_secret("undo", MARKER))
            judge(check, f"DELETE fails {what}", api, "undo", reply, allowed)
            check.ok(f"DELETE fails {what}: never started", all(
                o["spec"]["executionType"] == "Create" for k, o in api.objects.items()
                if k[0] == "frameworks"))
        api.close()
    in_threads((("once", {"status": 500}, 1, {403, 500, 502, 503}),
                ("cut once, done", {"cut": "done"}, 1, {403, 500, 502, 503}),
                ("429 once", {"status": 429, "retry_after": 1}, 1, {403, 500, 502, 503}),
                ("for ever", {"status": 500}, None, {504})), one)


def test_foreign_objects_are_neither_used_nor_deleted(check):
    """Existing objects of other origin are neither used nor deleted."""
    with served("--deadline", "10") as (api, server):
        for i, (_, kind, suffix) in enumerate(STEPS[:3]):
            api.put(kind, {"metadata": {"name": framework_name(f"foreign-{i}") + suffix}, "data": {"theirs": "eA=="},
                           "spec": {"executionType": "Start"}})
        replies = in_threads(3, lambda i: server.submit(job_v2_secret(f"foreign-{i}", MARKER)))
        for i, (_, kind, suffix) in enumerate(STEPS[:3]):
            job, reply = f"foreign-{i}", replies[i]
            name = framework_name(job) + suffix
            # A dependent of an older Framework will be deleted with it: a retry succeeds.
            status, code, again = ((409, "ConflictJobError", None) if kind == "frameworks" else
                                   (503, "BeingDeletedError", "10"))
            check.equal(f"a foreign {kind}{suffix}: status", reply.status, status)
            check.equal(f"a foreign {kind}{suffix}: code", reply.code, code)
            check.equal(f"a foreign {kind}{suffix}: Retry-After", reply.headers.get("retry-after"), again)
            collect(api)
            left = api.of(framework_name(job))
            check.equal(f"a foreign {kind}{suffix}: alone is left", sorted(left), [(kind, name)])
            check.equal(f"a foreign {kind}{suffix}: as it was",
                        left and left[kind, name].get("data"), {"theirs": "eA=="})


def test_submission_waits_for_the_garbage_collector(check):
    """A Secret of an older job is deleted while the server waits; then the job is created."""
    with served("--deadline", str(DEADLINE)) as (api, server):
        name = framework_name("again")
        api.put("secrets", {"metadata": {"name": name + "-configcred"}, "data": {}})

        def later():
            wait_until(lambda: api.count("POST", "secrets") > 1)  # it waits, and asks again
            with api.lock:
                api.remove("secrets", name + "-configcred")
        threading.Thread(target=later).start()
        reply = server.submit(job_v2_secret("again", MARKER))
        check.equal("the older job's Secret goes in time", reply.status, 202)


def test_concurrent_identical_submissions_create_one_job(check):
    """Many clients submit the same job: one succeeds."""
    with served() as (api, server):
        replies = in_threads(16, lambda _: server.submit(job_v2_secret("race", MARKER)))
        statuses = sorted(r.status for r in replies)
        check.equal("one is taken, 15 are told 409", statuses, [202] + [409] * 15)
        check.ok("... and it is whole", len(api.of(framework_name("race"))) == 3)


def test_missing_right_is_named_in_message_and_log(check):
    """The message contains the missing permission."""
    with served() as (api, server):
        api.fault("POST", "frameworks", status=403)
        reply = server.submit(job_v2("forbidden"))
        check.ok("verb and resource are named", "create" in reply.message and
                 "frameworks" in reply.message, reply)
        check.ok("... and in the log, as a warning", server.logged(
            lambda line: '"status":500' in line and '"level":"warn"' in line and "needs the RBAC verb" in line),
            server.log())


def test_replaced_token_file_is_read_again(check):
    """The token file is replaced, like by the kubelet."""
    import os
    with served() as (api, server):
        check.equal("first token", server.submit(job_v2("token-1")).status, 202)
        token = os.path.join(server.directory, "token")
        with open(token + ".new", "w") as f:
            f.write("another-token")
        os.chmod(token + ".new", 0o600)
        os.rename(token + ".new", token)
        api.token = "another-token"
        end = time.monotonic() + 180 * SLOW
        i = 1
        while time.monotonic() < end:
            i += 1
            if server.submit(job_v2(f"token-{i}")).status == 202:
                break
            time.sleep(0.1)
        else:
            i = 0
        check.ok("second token, within a minute", i)
