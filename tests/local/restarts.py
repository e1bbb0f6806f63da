"""Servers and shims that are killed while jobs run."""
import json
import os
import signal
import time

from harness import USER, framework_name, wait_until
from machine import Machine, role
from users import Site


def test_server_killed_leaves_its_tasks_running(check):
    """Tasks continue without the server; the next server has their codes. No task runs twice."""
    first = Site(gpus=1)
    try:
        wait = first.gate("go")
        first.start("zero", {"main": role("echo begins", wait, "echo ends", gpu=1)})
        first.start("five", {"main": role("echo begins", wait, "exit 5")})
        first.start("long", {"main": role("echo begins", "exec sleep 1000")})
        for name in ("zero", "five", "long"):
            check.ok(f"{name} runs", wait_until(lambda: "begins" in first.log(name, "main")))
        first.kill()
        shims = first.shims()
        check.equal("the shims live", len(shims), 3)
        first.open("go")
        with first.again() as second:
            check.equal("zero", second.wait("zero"), "SUCCEEDED")
            check.equal("five", second.wait("five"), "FAILED")
            check.equal("its code", second.exit("five"), 5)
            check.equal("long", second.state("long"), "RUNNING")
            check.ok("the same shim", set(second.shims().items()) <= set(shims.items()), second.shims())
            for name in ("zero", "five", "long"):
                check.equal(f"{name} has run once", second.log(name, "main").count("begins"), 1)
            check.equal("stop", second.stop_job("long").status, 202)
            check.equal("long", second.wait("long"), "STOPPED")
            second.start("next", {"main": role("true", gpu=1)})
            check.equal("the GPU is free", second.wait("next"), "SUCCEEDED")
    finally:
        first.kill()


def test_server_starts_no_task_before_all_jobs_are_read(check):
    """After a restart, the server starts no task before it has read all jobs: a running job that is
    read last holds the machine."""
    holds, first = max((f"h{i}" for i in range(4000)), key=lambda name: framework_name(name)), Machine("--cpus", "1")
    try:
        first.start(holds, {"main": role("exec sleep 1000")})
        first.wait(holds, "RUNNING")
        for i in range(300):
            first.start(f"w{i}", {"main": role("exec sleep 1000")})
        first.kill()
        with first.again() as second:
            check.ok("all are read", wait_until(lambda: all("Waiting" in second.waiting_reason(f"w{i}") for i in range(300))))
            running = [j["name"] for j in second.request("GET", "/api/v2/jobs?state=RUNNING").json]
            check.equal("the others wait", running, [holds])
    finally:
        first.kill()


def test_lost_tasks_keep_their_place_before_younger_jobs(check):
    """After a reboot, tasks that ran start again before younger jobs that waited, and say that they were lost."""
    first = Machine("--cpus", "2")
    try:
        for name in ("old0", "old1"):
            first.start(name, {"main": role("exec sleep 1000")})
            first.wait(name, "RUNNING")
        for i in range(20):
            first.start(f"young{i}", {"main": role("exec sleep 1000")})
        first.kill()
        for pid in first.shims().values():
            os.kill(pid, signal.SIGKILL)
        with first.again() as second:
            check.ok("they were lost", wait_until(lambda: all(second.status(n)["retryPolicyStatus"]["totalRetriedCount"] for n in ("old0", "old1"))))
            check.ok("two run", wait_until(lambda: len(second.request("GET", "/api/v2/jobs?state=RUNNING").json) == 2))
            check.equal("these", sorted(j["name"] for j in second.request("GET", "/api/v2/jobs?state=RUNNING").json), ["old0", "old1"])
            check.equal("the lost try", second.request("GET", f"/api/v2/jobs/{USER}~old0").json["jobStatus"]["previousEnd"]["appExitCode"], -1001)
    finally:
        first.kill()


def test_shim_killed_retries_its_task(check):
    """A killed shim counts as a lost node: the task is retried."""
    with Machine() as m:
        m.start("lost", {"main": role("echo try $FC_FRAMEWORK_ATTEMPT_ID", "[ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] || exec sleep 1000")},
                jobRetryCount=0)
        check.ok("it runs", wait_until(lambda: "try 0" in m.log("lost", "main")))
        check.ok("there is a shim", wait_until(lambda: len(m.shims()) == 1), m.shims())
        os.kill(next(iter(m.shims().values())), signal.SIGKILL)
        check.equal("state", m.wait("lost"), "SUCCEEDED")
        check.equal("a second attempt", m.status("lost")["attemptStatus"]["id"], 1)
        check.equal("which was not counted", m.status("lost")["retryPolicyStatus"]["accountableRetriedCount"], 0)


def test_server_stops_tasks_of_deleted_jobs_at_start(check):
    """The server stops the tasks of jobs that no longer exist at its start."""
    first = Machine()
    try:
        first.start("stray", {"main": role("echo here", "exec sleep 1000")})
        check.ok("it runs", wait_until(lambda: "here" in first.log("stray", "main")))
        first.kill()
        first.change("DELETE FROM object")
        with first.again() as second:
            check.ok("its task is stopped", wait_until(lambda: not second.shims() and not second.pods()), second.pods())
    finally:
        first.kill()


def test_files_of_deleted_jobs_go_after_a_kill(check):
    """The server is killed when jobs are deleted, and their tasks still end: the next one removes their
    files, and sets nothing aside."""
    first = Machine()
    try:
        first.start("ended", {"main": role("echo begins")})
        first.wait("ended")
        first.start("tried", {"main": role("echo begins", "[ $FC_FRAMEWORK_ATTEMPT_ID = 1 ] || kill -9 $$",
                                           "trap '' TERM", "while :; do sleep 0.1; done")})
        check.ok("it runs", wait_until(lambda: first.state("tried") == "RUNNING" and first.log("tried", "main", 0, 1)))
        for name in ("ended", "tried"):
            first.forget(name)
        first.kill()
        with first.again() as second:
            check.ok("all is gone", wait_until(lambda: not second.pods() and not os.listdir(os.path.join(second.where, "logs")), 120),
                     os.listdir(os.path.join(second.where, "logs")))
            check.ok("nothing is set aside", not os.path.exists(os.path.join(second.where, "damaged")), second.log())
    finally:
        first.kill()


def test_ended_jobs_are_kept_for_their_time_over_a_restart(check):
    """Jobs that had ended before a restart: one is deleted a month after its end, also when that comes after the restart; one is
    deleted by its user at once; one stays.  Of those that are deleted no file stays."""
    first = Machine()
    names = ("old", "soon", "deleted", "stays")
    for name in names:
        first.start(name, {"main": role("echo ends")})
    for name in names:
        check.equal(name, first.wait(name), "SUCCEEDED")
    uid = {name: first.framework(name)["metadata"]["uid"] for name in names}
    first.stop()

    def ended_before(name, seconds):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
        status = {**first.status(name), "completionTime": at, "transitionTime": at}
        first.change("UPDATE status SET text = ? WHERE uid = ?", json.dumps(status, separators=(",", ":")), uid[name])
    month = 30 * 24 * 3600
    ended_before("old", month + 60)
    ended_before("soon", month - 15)
    due = time.time() + 15
    with first.again() as second:
        second.forget("deleted")
        logs = os.path.join(second.where, "logs")
        check.ok("a month ago, and deleted by its user", wait_until(lambda: not {uid["old"], uid["deleted"]} & set(os.listdir(logs))),
                 os.listdir(logs))
        check.ok("later", wait_until(lambda: os.listdir(logs) == [uid["stays"]]), os.listdir(logs))
        check.ok("not too early", time.time() > due - 2, due - time.time())
        check.equal("the list", [j["name"] for j in second.request("GET", "/api/v2/jobs").json], ["stays"])
        check.ok("its log", "\nends\n" in second.log("stays", "main"), second.log("stays", "main"))
        check.equal("a new one", (second.start("next", {"main": role("true")}), second.wait("next"))[1], "SUCCEEDED")


def test_server_stop_does_not_stop_its_tasks(check):
    """SIGTERM ends the server, not the tasks."""
    first = Machine()
    first.start("stays", {"main": role("echo begins", "exec sleep 1000")})
    check.ok("it runs", wait_until(lambda: "begins" in first.log("stays", "main")))
    check.equal("the server ends", first.stop(), 0)
    check.equal("its task does not", len(first.shims()), 1)
    with first.again() as second:
        check.equal("it is known", second.wait("stays", "RUNNING"), "RUNNING")


def test_server_fails_jobs_with_damaged_objects(check):
    """The text of a damaged object is moved into damaged/; its job is listed as failed if its name
    can be read; its tasks are ended; other jobs continue."""
    login = {"auth": {"username": "bob", "password": "hidden", "registryuri": "localhost:1"}}
    image = {"name": "image", "type": "dockerimage", "uri": "debian:12-slim", **login}
    damages = {"truncate": "body = substr(body, 1, length(body) * 2 / 3)",
               "zeros": "body = zeroblob(length(body))",
               "flip": "body = substr(body, 1, length(body) - 1) || '('"}
    for damage, change in damages.items():
        for kind in ("frameworks", "secrets"):
            what = f"{damage} {kind}"
            first = Machine()
            try:
                for name in ("lost", "kept"):
                    first.start(name, {"main": role("echo begins", "exec sleep 1000")}, prerequisites=[image])
                    check.ok(f"{what}: {name} runs", wait_until(lambda: "begins" in first.log(name, "main")))
                shims, pod = first.shims(), first.tasks("lost")["main", 0]["attemptStatus"]["podUID"]
                framework = framework_name("lost")
                first.kill()
                number = ("frameworks", "secrets").index(kind)
                (name,), = first.rows("SELECT name FROM object WHERE kind = ? AND name GLOB ?", number, f"{framework}*")
                first.change(f"UPDATE object SET {change} WHERE kind = ? AND name = ?", number, name)
                with first.again() as second:
                    check.ok(f"{what}: its task is ended", wait_until(lambda: pod not in second.pods()))
                    check.ok(f"{what}: the other one goes on", second.state("kept") == "RUNNING" and
                             set(second.shims().items()) <= set(shims.items()), second.shims())
                    name = f"{kind}/{name}.json"
                    check.ok(f"{what}: the log", f"{name} was damaged" in second.log(), second.log())
                    aside = os.listdir(os.path.join(second.where, "damaged"))
                    check.ok(f"{what}: aside", {name.replace("/", "-"), f"{USER}~lost", "LOST"} <= set(aside), aside)
                    check.ok(f"{what}: and the Secret", any(f.startswith("secrets-") for f in aside), aside)
                    reply = second.request("GET", f"/api/v2/jobs/{USER}~lost/attempts/0/taskRoles/main/taskIndex/0/attempts/0/logs")
                    check.ok(f"{what}: logs", reply.status == 404 and f"damaged/{USER}~lost" in reply.body.decode(), reply)
                    rows = {row["name"]: row["state"] for row in second.request("GET", "/api/v2/jobs").json}
                    known = kind != "frameworks" or damage != "zeros"
                    check.equal(f"{what}: listed", rows, {"kept": "RUNNING", **({"lost": "FAILED"} if known else {})})
                    if known:
                        reply = second.request("GET", f"/api/v2/jobs/{USER}~lost")
                        check.ok(f"{what}: why", reply.status == 200 and "was damaged" in reply.body.decode(), reply)
                        reply = second.request("DELETE", f"/api/v1/user/{USER}/jobs/lost")
                        check.ok(f"{what}: deleted", reply.status in (200, 202), reply)
                    check.ok(f"{what}: nothing is left", wait_until(lambda: not second.rows(
                        "SELECT 1 FROM object WHERE name GLOB ?", f"{framework}*")), os.listdir(second.where))
                    second.start("lost", {"main": role("true")})
                    check.equal(f"{what}: the name is free", second.wait("lost"), "SUCCEEDED")
                    second.stop_job("kept")
                    check.equal(f"{what}: stops", second.wait("kept"), "STOPPED")
            finally:
                first.kill()
