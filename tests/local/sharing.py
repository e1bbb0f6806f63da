"""Several jobs that share GPUs and CPUs."""
import errno
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from harness import USER, wait_until
from machine import AS_NOBODY, NOBODY, Machine, job, role
from tokens import SECRET, bearer, token, write_file


def held(m, name, index=0):
    """The GPUs that were locked, by a task's own look."""
    return re.findall(r"^locked \S*gpu(\d+)$", m.log(name, "main", index), re.M)


def looks(m):
    """Reports for each visible GPU whether it is locked, as the shim locks it."""
    return f"for f in {m.pattern}; do [ -e $f ] || continue; flock -n $f true && echo free $f || echo locked $f; done"


def test_jobs_take_turns_on_the_gpus(check):
    """Three jobs on two GPUs take turns: each has its own GPUs, and never more than there are."""
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


def test_short_jobs_pass_the_first_in_the_queue(check):
    """A job that ends before the first one in the queue can start passes it; if its duration is
    unknown, the reason names the job that the queue waits for."""
    with Machine(gpus=2) as m:
        def waits(name, text):
            check.ok(f"{name} waits", wait_until(lambda: text in m.waiting_reason(name)), m.waiting_reason(name))

        m.start("holds", {"main": role("echo on", "exec sleep 1000", gpu=1)}, extras={"maxDurationSec": 2000})
        check.ok("one runs", wait_until(lambda: "on" in m.log("holds", "main")))
        m.start("all", {"main": role("true", instances=2, gpu=1)})
        waits("all", "1st in the queue: 2 GPUs wanted, 1 free")
        one = {"main": role("true", gpu=1)}
        m.start("endless", one)
        waits("endless", "kept for a larger job that is ahead, of alice; a job passes it whose time limit")
        m.start("long", one, extras={"maxDurationSec": 3000})
        waits("long", "a job passes it whose time limit (extras.maxDurationSec) ends before it can start")
        m.start("short", one, extras={"maxDurationSec": 1000})
        check.equal("a short one passes", m.wait("short"), "SUCCEEDED")
        check.equal("the first waits", m.state("all"), "WAITING")
        m.kill()
        m = m.again()
        m.start("short2", one, extras={"maxDurationSec": 1000})
        check.equal("also after a restart", m.wait("short2"), "SUCCEEDED")
        check.equal("the first waits", m.state("all"), "WAITING")
        m.stop_job("holds")
        for name in ("all", "endless", "long"):
            check.equal(name, m.wait(name), "SUCCEEDED")
        m.start("holds2", {"main": role("echo on", "exec sleep 1000", gpu=1)})
        check.ok("one runs", wait_until(lambda: "on" in m.log("holds2", "main")))
        m.start("all2", {"main": role("true", instances=2, gpu=1)})
        waits("all2", "1st in the queue: 2 GPUs wanted, 1 free")
        m.start("short3", one, extras={"maxDurationSec": 1})
        waits("short3", "of alice, which waits for jobs without a time limit, of alice")
        m.remove()


def test_too_large_jobs_are_refused_with_numbers(check):
    """A job that needs more resources than exist is refused with the numbers, and leaves no
    objects."""
    one, two = role("true", gpu=1), role("true", gpu=1, instances=2)
    cases = (
        ("a task", {"main": role("true", gpu=5)}, {}, "role main asks for 5 GPUs for a task; this machine has 4"),
        ("CPUs and memory", {"main": role("true", cpu=65, memory=1 << 24)}, {},
         "role main asks for 65 CPUs and 1.638e+04 GiB of memory for a task; this machine has 64 and "),
        ("a gang", {"main": two, "ps": role("true", gpu=1, instances=3)}, {},
         "the tasks of this job, which start together, ask for 5 GPUs; this machine has 4"),
        ("one by one", {"main": role("true", gpu=5)}, {"extras": {"gangAllocation": False}}, "asks for 5 GPUs"),
        ("ports", {"main": {**one, "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"a": 1400}},
                            "instances": 8}}, {}, "ask for 11216 ports; this machine has 10000"),
        ("open files", {"main": {**one, "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"a": 2100}},
                                 "instances": 2}}, {}, "ask for 4204 ports, of which 2 of each task are ssh and http; tasks that start together can have 4096"),
    )
    with Machine(gpus=4) as m:
        for what, roles, more, why in cases:
            text = json.dumps(json.loads(job("huge", roles, **more)), indent=1)
            for path in ("/api/v2/jobs", "/api/v2/jobs?dryRun=true", "/api/v2/jobs?dryRun=server"):
                reply = m.request("POST", path, text, {"Content-Type": "text/yaml"})
                check.ok(f"{what}: {path}", reply.status == 400 and reply.json["code"] == "InvalidProtocolError"
                         and why in reply.json["message"], reply)
                place = reply.json["errors"][0]
                check.ok(f"{what}: its place", re.fullmatch("/taskRoles/(main|ps)/resourcePerInstance", place["pointer"]) and
                         text.split("\n")[place["line"] - 1].strip() == '"resourcePerInstance": {', place)
        many = job("many", {"main": role("true", cpu=0, memory=1, instances=2000)})
        reply = m.request("POST", "/api/v2/jobs?dryRun=server", many, {"Content-Type": "text/yaml"})
        check.equal("2000 tasks that ask for no ports", (reply.status, reply.body[:200] if reply.status != 200 else b""), (200, b""))
        check.equal("nothing is left", m.rows("SELECT name FROM object WHERE kind < 2"), [])
        m.start("fits", {"main": two, "ps": two})
        check.equal("as much as there is", m.wait("fits"), "SUCCEEDED")
        m.start("after", {"main": role("true", gpu=1, instances=9)}, extras={"gangAllocation": False})
        check.equal("one after the other", m.wait("after"), "SUCCEEDED")
        m.start("grows", {"main": role("exec sleep 1000", gpu=1)})
        def scale(n):
            return m.request("PATCH", f"/api/v2/jobs/{USER}~grows/taskRoles/main", json.dumps({"instances": n}),
                             {"Content-Type": "application/json"})
        reply = scale(5)
        check.ok("scaled", reply.status == 400 and "ask for 5 GPUs; this machine has 4" in reply.json["message"], reply)
        check.equal("not so far", scale(4).status, 202)
        check.equal("all run", wait_until(lambda: len(m.shims()) == 4), True)


def test_stored_job_that_became_impossible_waits(check):
    """A stored job that has become impossible waits with a reason."""
    with Machine(gpus=2) as m:
        m.start("first", {"main": role("exec sleep 1000", gpu=2)})
        check.equal("runs", m.wait("first", "RUNNING"), "RUNNING")
        key = {"Content-Type": "text/yaml", "Idempotency-Key": "one"}
        second = job("second", {"main": role("true", gpu=2)})
        check.equal("second", m.request("POST", "/api/v2/jobs", second, key).status, 202)
        m.start("shrinks", {"large": role("true", gpu=2), "main": role("true", instances=2)})
        m.kill()
        with Machine("--gpus", "1", where=m.where, gpus=2) as less:
            check.ok("says so", wait_until(lambda: "can never start: 2 GPUs wanted, 1 on this machine"
                                           in less.waiting_reason("second")), less.waiting_reason("second"))
            check.equal("waits", less.state("second"), "WAITING")
            reply = less.request("POST", "/api/v2/jobs", second, key)
            check.equal("repeated", [reply.status, reply.headers.get("idempotency-replayed")], [202, "true"])
            check.equal("not with another key", less.request("POST", "/api/v2/jobs", second,
                                                             {**key, "Idempotency-Key": "two"}).status, 400)
            check.equal("the first goes on", less.state("first"), "RUNNING")
            reply = less.request("PATCH", f"/api/v2/jobs/{USER}~shrinks/taskRoles/main", json.dumps({"instances": 1}),
                                 {"Content-Type": "application/json"})
            check.equal("scaled down", reply.status, 202)
            less.stop_job("first")
            check.equal("ends", less.wait("first"), "STOPPED")


def is_unused(port):
    """Checks the port for UDP too, and for IPv6 if it exists."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as s:
                    s.bind(("", port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def unused_range(n):
    """The first of n ports that are free and that no other test uses."""
    while True:
        first = random.randrange(4000, 9900)
        if all(is_unused(port) for port in range(first, first + n)):
            return first


def test_ports_of_all_tasks_are_different(check):
    """24 tasks of two jobs share 48 ports with another server: all ports are different, in
    variables and in details."""
    first = unused_range(48)
    range_ = ("--port-start", str(first), "--port-end", str(first + 48))
    # Each task binds its ports and connects to a task of its role at the ports in its variables.
    talk = ("python3 -IS -c 'import os,socket,time\n"
            "mine=[int(os.environ[\"PAI_CONTAINER_\"+n+\"_PORT\"]) for n in (\"SSH\",\"HOST\")]\n"
            "held=[socket.create_server((\"\",p)) for p in mine]\n"
            "i=int(os.environ[\"PAI_TASK_INDEX\"])\n"
            "other=os.environ[\"PAI_PORT_LIST_main_\"+str(1-i%2+i//2*2)+\"_http\"]\n"
            "end=time.time()+120\n"
            "while True:\n"
            " try:\n  socket.create_connection((\"127.0.0.1\",int(other)),5)\n  break\n"
            " except OSError:\n  assert time.time()<end\n  time.sleep(0.05)\n"
            "print(\"ports\",*mine,flush=True)\n"
            "time.sleep(1000)\n'")
    with Machine(*range_) as m, Machine(*range_) as other:
        for server, n in ((m, 14), (other, 10)):
            server.start("talk", {"main": role(talk, instances=n)})
        def said(server, n):
            # The order of lines of stdout and stderr is not kept between the two pipes.
            return [re.findall(r"^ports (\d+) (\d+)$", server.log("talk", "main", i), re.M)[-1:] for i in range(n)]
        check.ok("all talk", wait_until(lambda: all(p for server, n in ((m, 14), (other, 10)) for p in said(server, n)), 200),
                 [[server.waiting_reason("talk"), said(server, n)] for server, n in ((m, 14), (other, 10))])
        told = said(m, 14) + said(other, 10)
        check.equal("all different", len({p for task in told for pair in task for p in pair}), 48)
        for server, n in ((m, 14), (other, 10)):
            shown = server.request("GET", f"/api/v2/jobs/{USER}~talk").json["taskRoles"]["main"]["taskStatuses"]
            check.equal("details", [[tuple(t["containerPorts"][k] for k in ("ssh", "http"))] for t in shown], said(server, n))
            check.ok("no retry", server.status("talk")["retryPolicyStatus"]["totalRetriedCount"] == 0)
        m.start("one", {"main": role("true")})
        check.ok("waits", wait_until(lambda: "2 ports wanted" in m.waiting_reason("one")), m.waiting_reason("one"))
        before = m.tasks("talk")
        m.kill()
        with m.again() as again:
            check.ok("still waits", wait_until(lambda: "2 ports wanted" in again.waiting_reason("one")),
                     again.waiting_reason("one"))
            check.equal("stay", [t["attemptStatus"]["podPorts"] for t in again.tasks("talk").values()],
                        [t["attemptStatus"]["podPorts"] for t in before.values()])
            other.stop_job("talk")
            check.equal("given back", again.wait("one"), "SUCCEEDED")
            again.stop_job("talk")
            check.equal("ends", again.wait("talk"), "STOPPED")


def test_ports_of_other_programs_are_not_given(check):
    """A port that another program has bound is not given to a task until it is free again."""
    first = unused_range(2)
    with socket.create_server(("127.0.0.1", first)) as held, \
            Machine("--port-start", str(first), "--port-end", str(first + 2)) as m:
        m.start("waits", {"main": role("echo $PAI_CONTAINER_HOST_PORT_LIST; true")})
        check.ok("why", wait_until(lambda: "waits for other programs of this machine: 2 ports wanted, 1 not held by them"
                                   in m.waiting_reason("waits")), m.waiting_reason("waits"))
        held.close()
        check.equal("then it runs", m.wait("waits"), "SUCCEEDED")
        check.ok("with both", str(first) in m.log("waits", "main") and str(first + 1) in m.log("waits", "main"),
                 m.log("waits", "main"))


def test_gpus_of_other_programs_are_not_given(check):
    """A GPU that another program of the machine holds is not given to a task."""
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


def test_machine_route_shows_use_by_permission(check):
    """GET /api/v2/machine returns the resources of the machine, their holders and the waiting
    jobs."""
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

        def tasks_gpus(who, name):
            detail = m.request("GET", f"/api/v2/jobs/{who}~{name}", headers=bearer(token(who))).json
            return [t.get("gpuIndexes") for t in detail["taskRoles"].get("main", {"taskStatuses": []})["taskStatuses"]]

        def names(who, rows):
            return [row["name"] for row in machine(who)[rows]]

        empty = machine("alice")
        check.equal("nothing yet", [empty[k] for k in ("gpus", "gpusHeld", "gpusForeign", "cpus", "cpusHeld", "running", "queue",
                                                        "jobsRunning", "jobsWaiting")], [3, 0, 0, 64, 0, [], [], 0, 0])
        start("alice", "has-two", 1, instances=2)
        check.ok("it runs", wait_until(lambda: names("bob", "running") == ["has-two"]), machine("bob"))
        check.ok("the GPU of each task", wait_until(lambda: tasks_gpus("alice", "has-two") == [[0], [1]]), tasks_gpus("alice", "has-two"))
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
        check.equal("an ended job's are still told", tasks_gpus("alice", "has-two"), [[0], [1]])
        check.equal("without a token", m.request("GET", "/api/v2/machine").status, 401)
        stop("alice", "wants-two")
        stop("bob", "wants-three")
        check.ok("nothing is left", wait_until(lambda: machine("bob") == empty), machine("bob"))
    shutil.rmtree(base)


def test_ports_wait_for_open_files(check):
    """A task that lacks open files for its ports waits with a reason; other tasks do not get its
    ports."""
    first = unused_range(320)
    with Machine("--port-start", str(first), "--port-end", str(first + 320)) as m:
        def allow(files):
            subprocess.run([*(AS_NOBODY if os.geteuid() == 0 else ()), "prlimit", "--pid", str(m.process.pid),
                            f"--nofile={files}:"], check=True)
        allow(256)
        many = role("true")
        many["resourcePerInstance"]["ports"] = {"a": 300}
        m.start("waits", {"main": many})
        check.ok("why", wait_until(lambda: "no more open files" in m.waiting_reason("waits")), m.waiting_reason("waits"))
        allow(1024)
        check.equal("then it runs", m.wait("waits"), "SUCCEEDED")


def test_ports_of_a_lost_note_are_replaced(check):
    """A task that lost the note of its ports in a power failure before its start gets other
    ports."""
    with Machine() as m:
        m.start("again", {"main": role("echo port=$PAI_CONTAINER_HOST_PORT_LIST.", "exec sleep 1000")})
        check.ok("runs", wait_until(lambda: "port=" in m.log("again", "main")))
        pod = m.tasks("again")["main", 0]["attemptStatus"]["podUID"]
        m.kill()
        where = os.path.join(m.where, "pods", pod)
        check.ok("a pod", os.path.isdir(where), os.listdir(m.where))
        for shim in m.shims().values():
            os.kill(shim, signal.SIGKILL)
        for name in os.listdir(where):
            if name in ("shim", "state"):
                os.unlink(os.path.join(where, name))
        with open(os.path.join(where, "spec"), "w", encoding="ascii"):
            pass
        with m.again() as second:
            check.ok("runs again", wait_until(lambda: second.shims()), second.waiting_reason("again"))
            check.ok("with ports", wait_until(
                lambda: second.tasks("again")["main", 0]["attemptStatus"].get("podPorts")), second.tasks("again"))
            second.stop_job("again")
            check.equal("stops", second.wait("again"), "STOPPED")
