"""Jobs that run, fail, are tried again, and are stopped."""
import json
import os
import tempfile

from harness import framework_name, wait_until
from machine import Machine, processes_with, role


def test_job_of_one_task_runs_and_is_described(check):
    """The output of a task, its end, and the stored details."""
    with Machine() as m:
        m.start("hello", {"main": role("echo Hello from $PAI_USER_NAME, task $PAI_TASK_INDEX")})
        check.equal("state", m.wait("hello"), "SUCCEEDED")
        check.equal("code", m.code("hello"), 0)
        check.ok("output", "Hello from alice, task 0\n" in m.log("hello", "main"), m.log("hello", "main"))
        task = m.tasks("hello")["main", 0]["attemptStatus"]
        check.ok("the task had an address", task["podIP"] and task["podIP"] == task["podHostIP"], task)
        check.ok("... and a node", task["podNodeName"], task)
        check.ok("... and ran", task["runTime"], task)
        check.ok("its directory is removed", wait_until(lambda: not m.pods()), m.pods())
        detail = m.request("GET", "/api/v2/jobs/alice~hello").json
        check.equal("by HTTP", detail["jobStatus"]["state"], "SUCCEEDED")
        check.equal("exit code by HTTP", detail["jobStatus"]["appExitCode"], 0)


def test_job_roles_reach_each_other_by_variables(check):
    """A parameter server and two workers connect by PAI_HOST_IP_* and PAI_PORT_LIST_*."""
    serve = ("perl -MIO::Socket::INET -e '$| = 1; my $s = IO::Socket::INET->new(Listen => 9, ReuseAddr => 1, "
             "LocalPort => $ENV{PAI_PORT_LIST_ps_0_grpc}) or die $@; "
             "while (my $c = $s->accept) { print \"got \" . <$c>; print $c \"weight\\n\" }'")
    work = ("perl -MIO::Socket::INET -e 'my $s; for (1 .. 600) { $s = IO::Socket::INET->new(PeerAddr => "
            "\"$ENV{PAI_HOST_IP_ps_0}:$ENV{PAI_PORT_LIST_ps_0_grpc}\") and last; select undef, undef, undef, 0.1 } "
            "$s or die $@; print $s \"gradient $ENV{PAI_TASK_INDEX}\\n\"; print \"received \" . <$s>'")
    ports = {"cpu": 1, "memoryMB": 64, "gpu": 0, "ports": {"grpc": 1}}
    with Machine() as m:
        m.start("talk", {
            "ps": {**role(serve, completion={"minFailedInstances": 1, "minSucceededInstances": -1}),
                   "resourcePerInstance": ports},
            "worker": {**role(work, instances=2, completion={"minFailedInstances": 1, "minSucceededInstances": 2}),
                       "resourcePerInstance": ports}})
        check.equal("state", m.wait("talk"), "SUCCEEDED")
        for index in (0, 1):
            check.ok(f"worker {index} has an answer", "received weight" in m.log("talk", "worker", index),
                     m.log("talk", "worker", index))
            check.ok(f"... and was heard", f"got gradient {index}" in m.log("talk", "ps"), m.log("talk", "ps"))
        check.equal("the server of parameters was stopped", m.task_code("talk", "ps"), -220)


def test_job_deletion_leaves_nothing_behind(check):
    """A deleted job: no process, no directory, no log."""
    with Machine() as m:
        m.start("gone", {"main": role("echo here; exec sleep 98765")})
        check.ok("it runs", wait_until(lambda: "here" in m.log("gone", "main")))
        uid = m.framework("gone")["metadata"]["uid"]
        check.equal("deleted", m.request("DELETE", "/api/v1/user/alice/jobs/gone").status, 202)
        check.ok("no directory", wait_until(lambda: not m.pods()), m.pods())
        check.ok("no process", wait_until(lambda: not processes_with("sleep 98765")))
        m.start("gone", {"main": role("echo the second")})
        check.equal("the name can be used again", m.wait("gone"), "SUCCEEDED")
        check.ok("another object", m.framework("gone")["metadata"]["uid"] != uid)


def test_job_waits_for_a_missing_secret(check):
    """A task whose Secret does not exist waits until it does."""
    m = Machine(gpus=1)
    try:
        m.start("holds", {"main": role("echo on", "while :; do sleep 0.1; done", gpu=1)})
        check.ok("another job has the GPU", wait_until(lambda: "on" in m.log("holds", "main")))
        m.start("wants", {"main": role("x='<% $secrets.word %>'; echo ${#x}", gpu=1)}, secrets={"word": "Sesame-4711"})
        check.ok("the job waits", wait_until(lambda: "queue" in m.waiting_reason("wants")), m.waiting_reason("wants"))
        m.kill()
        mine = f"name GLOB '{framework_name('wants')}*'"
        m.change("CREATE TABLE away AS SELECT * FROM object WHERE kind = 1 AND " + mine)
        m.change("DELETE FROM object WHERE kind = 1 AND " + mine)
        m = m.again()
        m.stop_job("holds")
        check.ok("a reason", wait_until(lambda: "does not exist" in m.waiting_reason("wants")), m.waiting_reason("wants"))
        check.equal("the state", m.state("wants"), "WAITING")
        m.kill()
        m.change("INSERT INTO object SELECT * FROM away")
        m.change("DROP TABLE away")
        m = m.again()
        check.equal("then it runs", m.wait("wants"), "SUCCEEDED")
        check.ok("with its secret", "11\n" in m.log("wants", "main"), m.log("wants", "main"))
    finally:
        m.remove()


def test_job_failure_names_a_storage_that_cannot_be_mounted(check):
    """The message names the storage and what is wrong with its directory."""
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chmod(base, 0o755)
    os.mkdir(os.path.join(base, "closed"), 0o555)
    os.mkdir(os.path.join(base, "file"))
    with open(os.path.join(base, "file", "alice"), "wb"):
        pass
    cases = (("absent", False, "it does not exist"), ("absent", True, "it does not exist"),
             ("closed", False, "/alice of this machine cannot be made: Permission denied"), ("file/alice", True, "Not a directory"))
    for i, (path, share, why) in enumerate(cases):
        facts = os.path.join(base, "facts.json")
        with open(facts, "w", encoding="ascii") as f:
            json.dump({"storages": [{"name": "homes", "path": os.path.join(base, path), "share": share}]}, f)
        with Machine("--facts", facts) as m:
            m.start(f"mounts{i}", {"main": role("true")}, extras={"storages": [{"name": "homes"}]})
            check.equal(f"{path}, {share}: state", m.wait(f"mounts{i}"), "FAILED")
            check.equal(f"{path}, {share}: code", m.code(f"mounts{i}"), -1204)
            said = m.request("GET", f"/api/v2/jobs/alice~mounts{i}").json["jobStatus"]["appExitDiagnostics"]
            check.ok(f"{path}, {share}: says which and why", all(word in said for word in (
                "storage `homes` cannot be mounted at /mnt/homes", os.path.join(base, path), why)), said)
