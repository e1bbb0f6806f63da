"""Several jobs that share GPUs and CPUs."""
import os
import re
import shutil
import tempfile

from harness import wait_until
from machine import NOBODY, Machine, job, role
from tokens import SECRET, bearer, token, write_file


def held(m, name, index=0):
    """The GPUs that were locked, by a task's own look."""
    return re.findall(r"^locked \S*gpu(\d+)$", m.log(name, "main", index), re.M)


def looks(m):
    """Says of each GPU that the task sees whether it is locked, as it is by the shim."""
    return f"for f in {m.pattern}; do [ -e $f ] || continue; flock -n $f true && echo free $f || echo locked $f; done"


def test_turns(check):
    """Three jobs on two GPUs take turns: never more than there are, each with its own."""
    with Machine(gpus=2) as m:
        for name in ("one", "two"):
            m.start(name, {"main": role(looks(m), "while [ ! -e /nowhere ]; do sleep 0.1; done", gpu=1)})
        for name in ("one", "two"):
            check.ok(f"{name} has started", wait_until(lambda: held(m, name)), m.log(name, "main"))
        m.start("three", {"main": role(looks(m), gpu=2)})
        check.ok("the third one waits", wait_until(lambda: "queue" in m.waiting_reason("three")), m.waiting_reason("three"))
        check.equal("... in state", m.state("three"), "WAITING")
        seen = [held(m, name) for name in ("one", "two")]
        check.ok("each has its own", all(len(s) >= 1 for s in seen), seen)
        m.stop_job("one")
        check.equal("one is stopped", m.wait("one"), "STOPPED")
        check.equal("one GPU is not enough for the third one", m.state("three"), "WAITING")
        m.stop_job("two")
        check.equal("the third one", m.wait("three"), "SUCCEEDED")
        check.equal("it had both", sorted(held(m, "three")), ["0", "1"])


def test_gang(check):
    """All tasks of a job or none."""
    with Machine(gpus=2) as m:
        m.start("small", {"main": role("echo on", "while :; do sleep 0.1; done", gpu=1)})
        check.ok("it runs", wait_until(lambda: "on" in m.log("small", "main")))
        m.start("gang", {"main": role("echo member $PAI_TASK_INDEX", instances=2, gpu=1)})
        check.ok("it waits", wait_until(lambda: "queue" in m.waiting_reason("gang")), m.waiting_reason("gang"))
        check.ok("no task of it has started", not m.log("gang", "main", 0) and not m.log("gang", "main", 1))
        m.stop_job("small")
        check.equal("then all run", m.wait("gang"), "SUCCEEDED")
        check.ok("both", all(f"member {i}" in m.log("gang", "main", i) for i in (0, 1)))


def test_too_large(check):
    """A job that needs more than there is waits, and says so."""
    with Machine(gpus=1) as m:
        m.start("huge", {"main": role("true", gpu=5)})
        check.ok("a reason", wait_until(lambda: "5 GPUs" in m.waiting_reason("huge")), m.waiting_reason("huge"))
        m.start("small", {"main": role("true", gpu=1)})
        check.equal("others run", m.wait("small"), "SUCCEEDED")


def test_two_servers(check):
    """A GPU that another program of the machine has is not given away."""
    with Machine(gpus=1) as first:
        first.start("holds", {"main": role("echo on", "while :; do sleep 0.1; done", gpu=1)})
        check.ok("it runs", wait_until(lambda: "on" in first.log("holds", "main")))
        with Machine(pattern=first.pattern) as second:
            second.start("wants", {"main": role("echo mine", gpu=1)})
            check.ok("the other one waits", wait_until(lambda: "null" != second.waiting_reason("wants")),
                     second.waiting_reason("wants"))
            check.equal("... in state", second.state("wants"), "WAITING")
            first.stop_job("holds")
            check.equal("then it runs", second.wait("wants"), "SUCCEEDED")


def test_many(check):
    """Fifty jobs at once: each ends with its own code."""
    with Machine(gpus=3) as m:
        for i in range(50):
            m.start(f"job{i}", {"main": role(f"exit {i % 3}", gpu=i % 4, cpu=1, memory=16)})
        for i in range(50):
            if i % 4 == 3:
                continue
            m.wait(f"job{i}")
        check.equal("codes", [m.exit(f"job{i}") for i in range(50)], [i % 3 for i in range(50)])
        check.ok("nothing is left", wait_until(lambda: not m.pods() and not m.shims()), m.pods())


def test_machine(check):
    """What the machine has, and who has and wants it: GET /api/v2/machine."""
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chmod(base, 0o755)
    secret = write_file(base, "jwt-secret", SECRET)
    os.chown(secret, NOBODY, NOBODY) if os.geteuid() == 0 else None
    with Machine("--visibility", "owner", gpus=3, who=["--jwt-secret-file", secret, "--token-check", "signature"]) as m:
        def machine(who):
            return m.request("GET", "/api/v2/machine", headers=bearer(token(who))).json

        def start(who, name, gpus, instances=1):
            text = job(name, {"main": role("while :; do sleep 0.1; done", gpu=gpus, instances=instances)})
            check.equal(f"{name}: submitted", m.submit(text, {"Content-Type": "text/yaml", **bearer(token(who))}).status, 202)

        def stop(who, name):
            headers = {"Content-Type": "application/json", **bearer(token(who))}
            m.request("PUT", f"/api/v2/jobs/{who}~{name}/executionType", '{"value": "STOP"}', headers)

        def names(who, rows):
            return [row["name"] for row in machine(who)[rows]]

        empty = machine("alice")
        check.equal("nothing yet", [empty[k] for k in ("gpus", "gpusHeld", "gpusForeign", "cpus", "cpusHeld", "running", "queue",
                                                        "jobsRunning", "jobsWaiting")], [3, 0, 0, 64, 0, [], [], 0, 0])
        start("alice", "has-two", 1, instances=2)
        check.ok("it runs", wait_until(lambda: names("bob", "running") == ["has-two"]), machine("bob"))
        start("bob", "wants-three", 3)
        check.ok("it waits", wait_until(lambda: names("bob", "queue") == ["wants-three"]), machine("bob"))
        start("alice", "wants-two", 2)
        check.ok("in order", wait_until(lambda: names("bob", "queue") == ["wants-three", "wants-two"]), machine("bob"))
        seen = {who: machine(who) for who in ("alice", "bob")}
        check.equal("held", [seen["bob"][k] for k in ("gpus", "gpusHeld", "cpusHeld", "memoryMBHeld", "jobsRunning", "jobsWaiting")],
                    [3, 2, 2, 128, 1, 2])
        row = seen["bob"]["running"][0]
        check.equal("who has what", [row[k] for k in ("username", "tasks", "gpus", "gpuIndexes", "cpus", "memoryMB")],
                    ["alice", 2, 2, [0, 1], 2, 128])
        check.equal("the queue", [[r[k] for k in ("position", "username", "tasks", "gpus")] for r in seen["bob"]["queue"]],
                    [[1, "bob", 1, 3], [2, "alice", 1, 2]])
        reasons = {who: [bool(r["message"]) for r in seen[who]["queue"]] for who in seen}
        check.equal("reasons of own jobs only", reasons, {"alice": [False, True], "bob": [True, False]})
        check.ok("the reason", "3 GPUs wanted" in seen["bob"]["queue"][0]["message"], seen["bob"]["queue"])
        stop("alice", "has-two")
        check.ok("the next one", wait_until(lambda: (names("bob", "running"), names("bob", "queue")) == (["wants-three"], ["wants-two"])),
                 machine("bob"))
        check.equal("it has all", machine("bob")["running"][0]["gpuIndexes"], [0, 1, 2])
        check.equal("without a token", m.request("GET", "/api/v2/machine").status, 401)
        stop("alice", "wants-two")
        stop("bob", "wants-three")
        check.ok("nothing is left", wait_until(lambda: machine("bob") == empty), machine("bob"))
    shutil.rmtree(base)


TESTS = [test_turns, test_gang, test_too_large, test_two_servers, test_many, test_machine]
