"""Each limit is an option: what passes by default is refused, or goes another way, once the
option says less.  (Those on clients, time and the queue are in slow.py and contract.py.)"""
import json
import time

from fakeapi import FakeApi
from harness import SLOW, Server, job_v2, request_bytes, run, wait_until
from slow import fake_server


def job(roles=1, **role):
    """A valid job with this in each role."""
    value = json.loads(job_v2("limits"))
    worker = {**value["taskRoles"]["worker"], **role}
    value["taskRoles"] = {f"role{i}": worker for i in range(roles)}
    return value


def with_extras(value):
    return {**job(), "extras": {"note": value}}


# option, less than its default, a job that the default takes, a word of the refusal
JOB_LIMITS = [
    ("--max-depth", "8", with_extras([[[[[[[[1]]]]]]]]), "8 levels"),
    ("--max-nodes", "100", with_extras(list(range(200))), "100 values"),
    ("--max-text", "1KiB", with_extras("x" * 2000), "1024"),
    ("--max-key", "64", with_extras({"k" * 100: 1}), "64 bytes"),
    ("--max-rendered", "1KiB", job(commands=["x" * 2000]), "1024"),
    ("--max-roles", "1", job(roles=2), "at most 1 task"),
    ("--max-instances", "1", job(instances=2), "at most 1, is 2"),
    ("--max-tasks", "1", job(roles=2), "at most 1 task"),
    ("--max-command", "1KiB", job(commands=["x" * 2000]), "1024"),
    ("--max-annotations", "1KiB", with_extras("x" * 2000), "1024"),
    ("--max-object", "1KiB", job(), "1024"),
]


def test_job_limits(check):
    for option, less, value, word in JOB_LIMITS:
        text = json.dumps(value).encode()
        check.equal(f"{option}: the default takes it", run("translate", "-", text=text).returncode, 0)
        done = run("translate", option, less, "-", text=text)
        check.equal(f"{option} {less}: is refused", done.returncode, 1)
        check.ok(f"{option} {less}: says how much is allowed", word in done.stderr.decode(), done.stderr)


def test_env_inline(check):
    """Beyond this limit the common environment moves to a ConfigMap."""
    def kinds(*arguments):
        done = run("translate", *arguments, "-", text=json.dumps(job()).encode())
        return [item["kind"] for item in json.loads(done.stdout)["items"]]
    check.equal("--max-env-inline: default", kinds(), ["Framework"])
    check.equal("--max-env-inline 0", kinds("--max-env-inline", "0"), ["ConfigMap", "Framework"])


def test_max_body(check):
    with Server("--standalone", "jobs", "--max-body", "2KiB") as server:
        for name, size, status in (("fits", 2048, 202), ("above", 2049, 413)):
            reply = server.submit(job_v2(name).ljust(size))
            check.equal(f"--max-body 2KiB: {size} bytes", reply and reply.status, status)


def test_max_answer(check):
    """An answer that is too long is none: what has become of the request is not known."""
    for arguments, status in ((), 202), (("--max-answer", "64KiB", "--deadline", "2"), 504):
        api = FakeApi()
        with fake_server(api, *arguments) as server:
            reply = server.submit(job_v2("long", extras={"note": "x" * 80000}))
            check.equal(f"--max-answer {arguments}", reply and reply.status, status)
        api.close()


def test_drain_timeout(check):
    """Whoever is not done by then is not waited for."""
    api = FakeApi()
    with fake_server(api, "--drain-timeout", "1", "--deadline", "100", "--janitor-age", "200") as server:
        api.every(hang="before")
        with server.connect() as c:
            c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job_v2("stuck").encode()))
            check.ok("the request is under way",
                     wait_until(lambda: api.count("POST", "frameworks") == 1))
            start = time.monotonic()
            server.stop()
            check.ok("--drain-timeout 1", time.monotonic() - start < 30 * SLOW)
    api.close()


def test_shown(check):
    """What `validate` prints does nothing to a terminal: keys of the job are escaped and shortened."""
    job_text = json.dumps({**job(), "\x1b[2J\n\u202e" + "k" * 200: 1}).encode()
    shown = run("validate", "-", text=job_text).stdout.decode()
    check.ok("validate: keys are escaped", "/\\u001b[2J\\n\\u202ekkk" in shown and shown.count("\n") == 1, shown)
    check.ok("validate: and shortened", "k" * 100 not in shown, shown)


TESTS = [test_job_limits, test_env_inline, test_max_body, test_max_answer, test_drain_timeout,
         test_shown]
