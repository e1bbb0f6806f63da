"""Several jobs that share GPUs and CPUs."""
import re

from harness import wait_until
from machine import Machine, role

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


TESTS = [test_turns, test_gang, test_too_large, test_two_servers, test_many]
