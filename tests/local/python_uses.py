"""What people do with the client rest_lit of a server with --no-auth, for the user alice; run by each Python:
python_uses.py SERVER."""
import contextlib
import io
import json
import os
import sys
import tempfile

import rest_lit

JOB = {"protocolVersion": 2, "name": "dict", "type": "job", "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "host"}],
       "taskRoles": {"worker": {"instances": 2, "dockerImage": "image", "commands": ["echo $PAI_TASK_INDEX"],
                                "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}}}}


def refused(call, code, status):
    try:
        call()
    except rest_lit.Error as error:
        assert (error.code, error.status) == (code, status) and error.message, (error.code, error.status, error)
        return error
    raise AssertionError(f"not refused: {code}")


def main(server):
    client = rest_lit.Client(server)
    # A command.
    with open("given", "w", encoding="utf-8") as f:
        f.write("é\n")
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        command = client.submit(["sh", "-c", "cat given; printf 'a\\rb\\n'; mkdir results/d; cp given results/d; echo $A >results/a; exit 7"],
                                name="command", tag=["one", "two"], env={"A": "x y"})
    assert command == "alice~command" and "as the code of the job" in said.getvalue(), (command, said.getvalue())
    job = client.wait("command")
    assert (job.jobStatus.state, sorted(job.tags)) == ("FAILED", ["one", "two"]), job
    assert job.jobStatus.firstFailure.taskRole == "main" and job.jobStatus.appExitSpec.phrase, job
    lines = list(client.logs("command"))
    assert "é" in lines and "a\rb" in lines, lines
    with contextlib.redirect_stderr(said):
        client.fetch("command", "all")
        client.fetch(command, "part", "d")
    with open("all/a", encoding="utf-8") as f:
        assert f.read() == "x y\n"
    assert os.listdir("all") != os.listdir("part") and os.listdir("part/d") == ["given"]
    # A job, and a file of one.
    assert client.submit(JOB) == "alice~dict" and client.wait("dict").jobStatus.state == "SUCCEEDED"
    assert {"0", "1"} <= {line.rpartition(" | ")[2] for line in client.logs("dict")}
    assert "1" in list(client.logs("dict", "worker[1]", follow=False))
    assert list(client.show("dict").taskRoles["worker"].taskStatuses)[1].containerExitCode == 0
    with open("-job.yaml", "w", encoding="utf-8") as f:
        json.dump({**JOB, "name": "file", "extras": {"env": {"B": "$A"}}}, f)
    with contextlib.redirect_stderr(said):
        assert client.submit("-job.yaml") == "alice~file" and "warning: " in said.getvalue(), said.getvalue()
        assert client.submit("-job.yaml", name="varied", tag="one") == "alice~varied"
        assert client.submit(["true"], name="plain", no_results=True, cpus=1) == "alice~plain"
        assert client.submit({**JOB, "name": "no"}, name="varied2") == "alice~varied2"
    # Lists, what runs, and its end.
    assert {row.name for row in client.jobs(tagsContain=["one", "none"], username="alice")} == {"command", "varied"}
    assert [row.name for row in client.jobs(order="submissionTime,ASC", limit=1)] == ["command"]
    runs = {**JOB, "name": "runs", "taskRoles": {"main": {**JOB["taskRoles"]["worker"], "instances": 1, "commands": ["echo up; sleep 1000"]}}}
    client.submit(runs)
    follows = client.logs("runs")
    assert any(line.endswith("up") for line in follows)  # if it had no task yet, there is "main[0] | " before
    follows.close()
    try:
        raise AssertionError(client.wait("runs", 0.1))
    except TimeoutError as error:
        assert "runs" in str(error)
    client.stop("runs")
    assert client.wait("runs").jobStatus.state == "STOPPED" and client.show("alice~runs").jobStatus.executionType == "STOP"
    # Refusals.
    for call in (client.show, client.wait, client.stop, lambda j: next(client.logs(j)), lambda j: client.fetch(j, "none")):
        refused(lambda call=call: call("none"), "NoJobError", 404)
    refused(lambda: client.show("x~../../info"), "NoApiError", 404)
    refused(lambda: client.show("x~a b"), "NoJobError", 404)
    refused(lambda: client.submit(JOB), "ConflictJobError", 409)
    refused(lambda: client.submit(["true"], name="command"), "", 409)
    refused(lambda: client.jobs(limit=-1), "InvalidParametersError", 400)
    error = refused(lambda: client.submit({**JOB, "name": "a b", "type": "jib"}), "InvalidProtocolError", 400)
    assert len(error.notes) == 2 and error.notes[0].line == 1 and "InvalidProtocolError" in str(error), error.notes
    refused(lambda: client.submit(["true"], colour="red"), "", 0)
    assert not os.path.exists("none")


with tempfile.TemporaryDirectory() as where:
    os.chdir(where)
    main(sys.argv[1])
    os.chdir("/")
print("done")
