"""The use of jobs, without a machine: refusals of servers that run no jobs, and the commands top, usage
and report.  tests/local/usage.py has real jobs."""
import csv
import io
import re

from cli import Cli, ESCAPE, cli, keeper
from changes import Yard
from clients import documented
from fakeserver import JOB, FakeServer
from harness import job_v2, run, wait_until

ROUTES = ("/api/v2/jobs/alice~x/usage", "/api/v2/report?since=2026-11-01", "/api/v2/machine")
HOSTILE = "a\x1b[31m‮\nb,\"c\""


def test_usage_routes_need_the_machine_that_runs_the_jobs(check):
    with Yard() as yard:
        yard.submit(job_v2("x"))
        yard.warm()
        for path in ROUTES:
            check.refused(f"a cluster: {path}", yard.ask("alice", "GET", path), 404, "NoMachineError",
                          "does not run jobs on its own machine", "--local")
            check.equal(f"without a token: {path}", yard.ask(None, "GET", path).status, 401)
        check.refused("no such job", yard.ask("alice", "GET", "/api/v2/jobs/alice~none/usage"), 404, "NoJobError")
        check.refused("another user's", yard.ask("carol", "GET", ROUTES[0]), 403, "ForbiddenUserError")
        documented(check, yard.server)


def test_usage_commands_say_that_the_server_runs_no_jobs(check):
    with keeper() as (server, at):
        server.submit(job_v2("training"))
        for words in (("top", "-n", "1"), ("usage", "training"), ("report", "--since", "30d")):
            code, out, err = cli(words[0], *at, *words[1:])
            check.ok(f"{words[0]}", code == 2 and not out and "does not run jobs on its own machine" in err, (code, out, err))
        code, out, err = cli("usage", *at, "trainin")
        check.ok("the nearest name", code == 2 and "did you mean alice~training?" in err, err)


def gpu(index, **more):
    return {"index": index, "name": f"nvidia.com/gpu={index}", "uuid": None, "job": None, "known": True, "busy": 0,
            "memoryMB": 0, "totalMB": 40960, "powerW": 50, "idleSince": None, "outside": [], **more}


def row(name, user="alice", **used):
    return {"name": name, "username": user, "tasks": 1, "gpus": 2, "cpus": 4, "memoryMB": 16384, "gpuIndexes": [0, 1],
            "used": {"cpus": None, "memoryMB": None, "memoryAtMost": False, "busy": None, "gpuMemoryMB": None,
                     "gpuIdleSince": None, **used}}


def test_top_shows_jobs_and_the_gpus_of_others(check):
    with FakeServer() as fake:
        at = ("--server", fake.url)
        outside = [{"pid": 4711, "user": "bob", "program": HOSTILE, "memoryMB": 12390},
                   {"pid": 4712, "user": "12", "program": "x", "memoryMB": None}]
        fake.files["/api/v2/machine"] = machine = {
            "gpuFigures": None, "gpuStates": [gpu(0, job="alice~train"), gpu(1, job="alice~train"),
                                              gpu(2, busy=99.6, memoryMB=12400, outside=outside),
                                              gpu(3, known=False, busy=None, memoryMB=None, totalMB=None)],
            "running": [row("train", cpus=1.62, memoryMB=3174, memoryAtMost=True, busy=68.2, gpuMemoryMB=2048, gpuIdleSince=1),
                        row("none", user="bob")]}
        code, out, err = cli("top", *at, "-n", "1")
        lines = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
        check.equal("top", (code, err), (0, ""))
        check.equal("a job", lines[1][:-1], ["alice~train", "0, 1", "68 %", "2.0 GiB", "1.6 of 4", "at most 3.1 of 16.0 GiB"])
        check.ok("idle since", re.fullmatch(r"\d+d", lines[1][-1]), lines[1])
        check.equal("nothing is known", lines[2], ["bob~none", "0, 1", "-", "-", "-", "-", "-"])
        check.equal("only the GPUs of no job", [line[0] for line in lines[5:]], ["2", "3"])
        check.ok("the programs outside", "(pid 4711, bob, 12.1 GiB), x (pid 4712, 12)" in out, out)
        check.ok("... visible", ESCAPE not in out and "‮" not in out and "\\x1b[31m" in out and len(lines) == 7, out)
        check.equal("unknown", lines[6], ["3", "-", "-", "-"])
        code, out, _ = cli("top", *at, "-n", "1", "--user", "bob")
        check.ok("of a user", "bob~none" in out and "alice~train" not in out, out)
        before = fake.count("GET", "/api/v2/machine")
        code, out, _ = cli("top", *at, "-n", "2")
        check.equal("twice", (code, out.count("alice~train"), fake.count("GET", "/api/v2/machine") - before), (0, 2, 2))
        with Cli("top", *at, columns=100, both=True) as c:
            check.ok("a terminal is drawn again", wait_until(lambda: c.stderr.count(ESCAPE + "[H" + ESCAPE + "[J") > 1), c.stderr)
        machine["gpuFigures"] = "no figures of GPUs: there is no nvidia-smi\n" + ESCAPE
        machine["gpuStates"] = []
        out = cli("top", *at, "-n", "1")[1]
        check.ok("why not", out.endswith("no figures of GPUs: there is no nvidia-smi\\x0a\\x1b\n"), out)
        fake.files["/api/v2/machine"] = {"running": [{}], "gpuStates": [{"outside": [{}]}]}  # of another server
        check.equal("without members", cli("top", *at, "-n", "1")[0], 0)
        check.equal("no times", cli("top", *at, "-n", "0")[0], 2)


def task(index, figures, **more):
    return {"taskRole": "worker", "taskIndex": index, "jobAttempt": 0, "taskAttempt": 0, "running": False, "boundTime": 1767225600000,
            "heldSeconds": 3600, "exitCode": 0, "gpuNumber": 2, "cpuNumber": 4, "memoryMB": 16384, "figures": figures,
            "curves": None, **more}


def test_usage_command_shows_bars_and_notes(check):
    with FakeServer() as fake:
        at = ("--server", fake.url)
        gpus = [{"index": 0, "busy": 68.2, "memoryMostMB": 2048, "totalMB": 40960, "energyWh": 12.3, "used": True},
                {"index": 5, "busy": 0, "memoryMostMB": None, "totalMB": None, "used": False},
                {"index": 6, "busy": None, "memoryMostMB": None, "totalMB": None, "used": None}]
        figures = {"cpuSeconds": 5832, "memoryMostMB": 3174, "memoryAtMost": True, "gpus": gpus}
        fake.files[f"/api/v2/jobs/{JOB}/usage"] = answer = {
            "tasks": [task(0, figures), task(1, {**figures, "memoryAtMost": False, "gpus": []}, running=True, jobAttempt=2), task(2, None)],
            "tasksTotal": 5, "notes": [HOSTILE]}
        code, out, err = cli("usage", *at, "job")
        check.equal("usage", (code, err), (0, ""))
        lines = out.splitlines()
        check.equal("its lines", lines[:6], [
            JOB, "  worker[0], attempt 0.0: ran for 3600 s",
            "    CPUs    [||||||||            ] 1.6 of 4",
            "    memory  [||||                ] at most 3.1 of 16.0 GiB",
            "    GPU 0   [||||||||||||||      ] 68 % busy, 2.0 of 40.0 GiB",
            "    GPU 5   [                    ] 0 % busy, never used"])
        check.equal("unknown", lines[6], "    GPU 6   [                    ] unknown")
        check.equal("exact memory", lines[7:10:2], ["  worker[1], attempt 2.0: runs for 3600 s",
                                                    "    memory  [||||                ] 3.1 of 16.0 GiB"])
        check.equal("no figures", lines[11:13], ["    CPUs    [                    ] unknown", "    memory  [                    ] unknown"])
        check.equal("more", lines[13], "  and 2 more")
        check.ok("a note, visible", lines[14].startswith("note: a\\x1b[31m") and len(lines) == 15, lines)
        check.ok("as JSON", '"tasksTotal": 5' in cli("usage", *at, "job", "-o", "json")[1])
        answer.update(tasks=[], tasksTotal=0, notes=[])
        check.ok("nothing yet", "has had nothing" in cli("usage", *at, "job")[1])
        fake.files[f"/api/v2/jobs/{JOB}/usage"] = [1]
        check.equal("another answer", cli("usage", *at, "job")[0], 0)


def test_report_command_prints_a_table_or_safe_csv(check):
    with FakeServer() as fake:
        at = ("--server", fake.url, "--since", "2026-11-01")
        sums = {"gpuHours": 12.5, "gpuIdleHours": 3.25, "cpuHours": 1.5, "energyWh": None, "attempts": 12, "failed": 2}
        names = ["=1+1", "+a", "-a", "@a", "\tb", 'a,"b"', "plain", "a\nb"]
        fake.files["/api/v2/report?since=2026-11-01T00:00:00.000Z&until=&by=virtualCluster%2Cweek"] = answer = {
            "since": 1, "until": 2, "more": False, "rows": [{"virtualCluster": v, "week": 1793577600000, **sums} for v in names]}
        code, out, err = cli("report", *at, "--by", "virtualCluster,week", "--csv")
        check.equal("csv", (code, err), (0, ""))
        rows = list(csv.reader(io.StringIO(out)))
        check.equal("columns", rows[0], ["virtualCluster", "week", "gpuHours", "gpuIdleHours", "cpuHours", "energyWh", "attempts", "failed"])
        check.equal("no formulas", [r[0] for r in rows[1:]], ["'=1+1", "'+a", "'-a", "'@a", "'\tb".replace("\t", " "), 'a,"b"', "plain", "a\\x0ab"])
        check.equal("a row", rows[7], ["plain", "2026-11-02", "12.5", "3.25", "1.5", "", "12", "2"])
        answer["more"] = True
        code, out, err = cli("report", *at, "--by", "virtualCluster,week")
        lines = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
        check.equal("a table", lines[0], ["VC", "WEEK", "GPU HOURS", "IDLE", "CPU HOURS", "WH", "ATTEMPTS", "FAILED"])
        check.equal("... its row", lines[1], ["=1+1", "2026-11-02", "12.5", "3.25", "1.5", "-", "12", "2"])
        check.ok("more", code == 0 and "more rows" in err, err)
        fake.files["/api/v2/report?since=2026-11-01T00:00:00.000Z&until=2026-12-01T00:00:00.000Z&by="] = {"rows": []}
        check.equal("no rows", cli("report", *at, "--until", "2026-12-01", "--csv")[1],
                    "user,gpuHours,gpuIdleHours,cpuHours,energyWh,attempts,failed\n")
        for words in (("--since", ""), ("--since", "soon"), ("--since", "1d", "--until", "x"), ()):
            code, out, err = cli("report", "--server", fake.url, *words)
            check.ok(f"refused: {words}", code == 2 and not out and "--" in err, (code, out, err))


def test_usage_commands_are_in_completion_and_manuals(check):
    words = run("complete", "").stdout.decode()
    for name in ("top", "usage", "report"):
        check.ok(f"completed: {name}", re.search(rf"^{name}\t\w", words, re.M), words)
        check.ok(f"manual: {name}", f"rest-lit {name}".encode() in run("page", "man", name).stdout.replace(b"\\-", b"-"), name)
    check.ok("columns", b"virtualCluster" in run("complete", "report", "--by", "").stdout)
