"""Jobs that are compared: jobs --metric, and the line of counts of wait --tag."""
import csv
import io
import json
import re

from cli import cli, keeper
from fakeserver import FakeServer
from harness import job_v2

TAIL = "?tail-mode=true&tail-bytes=65536"
HOUR = 3600000


def row(name, state, launched=1795000000000, ran=60000, user="alice", **more):
    ended = state not in ("RUNNING", "WAITING", "STOPPING")
    return {"name": name, "username": user, "state": state, "retries": 0, "launchedTime": launched,
            "completedTime": launched + ran if launched and ended else None, **more}


def config(parameters, role="worker", **more):
    return {"protocolVersion": 2, "parameters": parameters, "taskRoles": {role: {"instances": 1, **more}}}


def log_path(job, role="worker", attempt=0, retry=0):
    return f"/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/0/attempts/{retry}/logs/all{TAIL}"


class Sweep(FakeServer):
    """jobs: (row, configuration or None, log or None, where the log is)."""

    def __init__(self, *jobs):
        super().__init__()
        self.jobs = jobs
        for r, text, log, *more in jobs:
            job = f"{r['username']}~{r['name']}"
            if text is not None:
                self.files[f"/api/v2/jobs/{job}/config"] = json.dumps(text).encode()
            if log is not None:
                self.files[log_path(job, **(more[0] if more else {}))] = log

    def run(self, *options, total=None):
        rows = [r for r, *_ in self.jobs]
        self.lists = [(200, {}, {"totalCount": total or len(rows), "data": rows})]
        return cli("jobs", "--server", self.url, "--tag", "t", *options)


def cells(out):
    return [line.split() for line in out.splitlines()]


def test_jobs_metric_shows_parameters_that_differ_and_the_last_value(check):
    """Also in the order of the metric, and as CSV; a job that has not started has no log to ask for."""
    with Sweep((row("a", "SUCCEEDED"), config({"rate": 0.3, "seed": 1, "opt": "a,\"b\""}), b"loss 0.9\nloss: 0.25\n"),
               (row("b", "SUCCEEDED", ran=3723500), config({"rate": 0.1, "seed": 1, "opt": "sgd"}), b"loss=nan\n"),
               (row("c", "RUNNING"), config({"rate": 1e-5, "seed": 1}), b"val_loss 3\n"),
               (row("d", "WAITING", launched=None), config({"rate": 3, "seed": 1, "opt": "sgd"}), None),
               (row("e", "SUCCEEDED"), config({"rate": 2, "seed": 1, "opt": "sgd"}), b"loss -1.5e2\n"),
               (row("f", "FAILED", retries=2), config({"rate": 2, "seed": 1, "opt": "sgd"}), b"loss inf",
                {"attempt": 2})) as fake:
        code, out, err = fake.run("--metric", "loss", "--sort", "loss")
        table = cells(out)
        check.equal("head", table[0], ["NAME", "rate", "opt", "STATE", "DURATION", "loss"])
        check.equal("order", [line[0] for line in table[1:]], ["e", "a", "f", "b", "c", "d"])
        check.equal("a row", table[2], ["a", "0.3", 'a,"b"', "SUCCEEDED", "1m", "0.25"])
        check.equal("nan, none, no parameter", [table[4][-1], table[5][2], table[5][-1], table[6][-2:]],
                    ["nan", "-", "-", ["-", "-"]])
        check.ok("the line of counts", code == 0 and re.fullmatch(
            r"6 jobs: 3 succeeded, 1 failed, 1 runs, 1 waits; done by about (\d{4}-\d\d-\d\d )?\d\d:\d\d\n", err), err)
        asked = [p for m, p, _, _ in fake.requests]
        check.equal("two requests a job, one for what has not started", len(asked), 1 + 2 * 6 - 1)
        check.ok("no log of it", not any("~d/attempts" in p for p in asked), asked)
        code, out, err = fake.run("--metric", "loss")
        check.equal("the order of the server", [line[0] for line in cells(out)[1:]], list("abcdef"))
        check.ok("which is asked for", fake.run("--metric", "loss", "--sort", "name")[0] == 0 and
                 any("order=jobName,ASC" in p for m, p, _, _ in fake.requests), fake.requests[-1])
        code, out, err = fake.run("--metric", "loss", "-o", "csv")
        table = list(csv.reader(io.StringIO(out)))
        check.equal("CSV: head", (code, err, table[0]), (0, "", ["name", "rate", "opt", "state", "seconds", "loss"]))
        check.equal("CSV: rows", [table[1], table[2][4:], table[4]],
                    [["a", "0.3", 'a,"b"', "SUCCEEDED", "60.000", "0.25"], ["3723.500", "nan"],
                     ["d", "3", "sgd", "WAITING", "", ""]])


def test_jobs_metric_finds_the_first_task_of_any_job(check):
    """A job of v1; one whose tasks are retried, or that is of another dialect: by the details, a request more."""
    def detail(path):
        return json.dumps({"name": "x", "jobStatus": {"username": "alice", "state": "SUCCEEDED"}, "taskRoles": {"m": {
            "taskRoleStatus": {"name": "m"}, "taskStatuses": [{"taskIndex": 0, "containerLog": path}]}}}).encode()
    with Sweep((row("v1", "SUCCEEDED"), {"jobName": "v1", "taskRoles": [{"name": "main"}]}, b"loss 1", {"role": "main"}),
               (row("often", "SUCCEEDED"), config({}, taskRetryCount=3), b"loss 2", {"retry": 3}),
               (row("named", "SUCCEEDED"), config({}, role="My_Role-2"), b"loss 5", {"role": "myrole2"}),
               (row("other", "SUCCEEDED"), {"kind": "PyTorchJob"}, b"loss 3", {"role": "m"}),
               (row("hidden", "SUCCEEDED", user="bob"), None, b"loss 4"),
               (row("gone", "SUCCEEDED"), config({}), None)) as fake:
        for name, role, retry in (("often", "worker", 3), ("other", "m", 0)):
            path = log_path(f"alice~{name}", role, 0, retry).removesuffix("/all" + TAIL)
            fake.files[f"/api/v2/jobs/alice~{name}"] = detail(path)
        code, out, err = fake.run("--metric", "loss")
        check.equal("each", [(line[0], line[-1]) for line in cells(out)[1:]],
                    [("alice~v1", "1"), ("alice~often", "2"), ("alice~named", "5"), ("alice~other", "3"), ("bob~hidden", "-"), ("alice~gone", "-")])
        check.ok("no warning of the two", code == 0 and err.startswith("6 jobs: 6 succeeded"), err)
        check.equal("the details of two", fake.count("GET", "/api/v2/jobs/[^/?]*"), 2)


def test_jobs_metric_reads_the_end_of_a_log_by_lines(check):
    """The first line of an end may be the end of another name; a whole short log counts as it is."""
    end = b"loss: 5\n" + b"x" * 65528
    with Sweep((row("cut", "SUCCEEDED"), config({}), end), (row("whole", "SUCCEEDED"), config({}), b"loss: 5\nx")) as fake:
        check.equal("cut", [line[-1] for line in cells(fake.run("--metric", "loss")[1])[1:]], ["-", "5"])
        check.equal("a name with other characters", cells(fake.run("--metric", "x[")[1])[1][-1], "-")


def test_jobs_metric_waits_or_ends_as_the_server_asks(check):
    """At 429 it goes on later; refusals end it; it says what cannot be combined."""
    with Sweep(*((row(f"j{i}", "SUCCEEDED"), config({"i": i}), b"loss %d" % i) for i in range(30))) as fake:
        fake.refusals = [(429, {"Retry-After": "1"}, {"code": "TooManyRequestsError", "message": "too many"})] * 5
        code, out, err = fake.run("--metric", "loss", "--sort", "loss")
        check.equal("429, then all", (code, [line[-1] for line in cells(out)[1:]], fake.refusals),
                    (0, [str(i) for i in range(30)], []))
        fake.down = True
        code, out, err = cli("jobs", "--server", fake.url, "--metric", "loss", "--timeout", "1")
        check.ok("no server", code == 3 and not out and err, (code, out, err))
    with Sweep((row("a", "SUCCEEDED"), config({}), b"")) as fake:
        for options, words in ((["-o", "csv"], "csv needs --metric"), (["--metric", "a", "--watch"], "--watch"), (["--metric", "a", "-o", "json"], "csv"),
                               (["--metric", "a", "--limit", "201"], "200"), (["--metric", "a", "--sort", "b"], "--metric has"),
                               (["--metric", ""], "not empty"), (["-o", "yaml"], "csv")):
            code, out, err = fake.run(*options)
            check.ok(f"{options}", code == 2 and words in err and not out, (code, out, err))
        code, out, err = fake.run("--metric", "a", total=300)
        check.ok("more than 200", "latest 200 of 300 jobs" in err, err)
        code, out, err = fake.run(total=300)
        check.ok("50 without it", code == 0 and "latest 50 of 300 jobs" in err, (code, err))
        lists = [p for m, p, _, _ in fake.requests if p.startswith("/api/v2/jobs?")]
        check.equal("what is asked for", [re.search(r"limit=(\d+)", p).group(1) for p in lists], ["200", "50"])


def test_jobs_metric_asks_two_requests_for_each_of_200(check):
    """400 requests for 200 jobs, beside the list; some at a time."""
    with Sweep(*((row(f"j{i:03}", "SUCCEEDED"), config({"i": i}), b"step 1 loss %d" % i) for i in range(200))) as fake:
        code, out, err = fake.run("--metric", "loss", "--sort", "loss")
        check.equal("rows", (code, [line[-1] for line in cells(out)[1:]]), (0, [str(i) for i in range(200)]))
        check.equal("requests", (fake.count("GET", "/api/v2/jobs[?].*"), fake.count("GET", "/api/v2/jobs/.*")), (1, 400))


def test_wait_for_a_tag_counts_its_jobs(check):
    """At the beginning and at the end, and not twice the same."""
    with FakeServer() as fake:
        states = ["SUCCEEDED", "SUCCEEDED", "FAILED"]
        rows = [row(f"j{i}", s) for i, s in enumerate(states)]
        for r in rows:
            fake.files[f"/api/v2/jobs/alice~{r['name']}"] = json.dumps({"name": r["name"], "jobStatus": {
                "username": "alice", "state": r["state"], "submissionTime": 1, "completedTime": 2}, "taskRoles": {}}).encode()
        before = [{**r, "state": "RUNNING", "completedTime": None} for r in rows[:1]] + rows[1:]
        fake.lists = [(200, {}, before), (200, {}, before), (200, {}, rows)]
        code, out, err = cli("wait", "--server", fake.url, "--tag", "t")
        lines = [line for line in err.splitlines() if re.match(r"\d+ jobs:", line)]
        check.equal("lines", (code, lines), (1, ["3 jobs: 1 succeeded, 1 failed, 1 runs", "3 jobs: 2 succeeded, 1 failed"]))
        fake.lists = [(200, {}, rows)] * 3
        code, out, err = cli("wait", "--server", fake.url, "--tag", "t")
        check.equal("once", err.count("3 jobs:"), 1)
        fake.lists = [(200, {}, rows)]
        fake.files.pop("/api/v2/jobs/alice~j0")
        code, out, err = cli("wait", "--server", fake.url, "j1")
        check.ok("not of one job", code == 0 and "jobs:" not in err, err)


def test_jobs_metric_works_with_a_real_server(check):
    """Configurations of the server; without an engine there is no log, and no value."""
    with keeper() as (s, at):
        for name, rate in (("a", 1), ("b", 2)):
            job = {**json.loads(job_v2(name)), "parameters": {"rate": rate, "same": 1}}
            cli("submit", *at, "--tag", "t", "-", text=json.dumps(job))
        code, out, err = cli("jobs", *at, "--tag", "t", "--metric", "loss", "--sort", "name")
        check.equal("table", (code, cells(out), err), (0, [["NAME", "rate", "STATE", "DURATION", "loss"],
                                                         ["a", "1", "WAITING", "-", "-"], ["b", "2", "WAITING", "-", "-"]],
                                                     "2 jobs: 2 wait\n"))
