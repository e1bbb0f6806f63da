"""The commands for one job: logs, wait, events, delete, resubmit; and wrong names."""
import json
import re
import signal
import tempfile
import time

from cli import ESCAPE, Cli, cli, keeper
from cli_follow import plain
from fakeserver import JOB, FakeServer
from harness import job_v1, job_v2, wait_until


def test_cli_suggests_the_nearest_job_name(check):
    """For a wrong name, the nearest name of the same user's jobs is suggested, and none of another user."""
    with FakeServer() as fake:
        at = ("--server", fake.url)
        others = (("other", "rest-lit jobs lists"), ("nothing", "rest-lit jobs lists"))
        for command in ("show", "logs", "wait", "events", "delete", "resubmit"):
            for name, near in (("jbo", "did you mean alice~job?"), *(others if command == "show" else ())):
                code, out, err = cli(command, *at, name)
                check.ok(f"{command} {name}", code == 2 and near in err and "404" in err and "bob~" not in err and not out, (code, out, err))
            code, out, err = cli(command, *at)
            check.ok(f"{command}: which one", code == 2 and "--help" in err, (code, err))
            check.equal(f"{command} --help", cli(command, "--help")[0], 0)
    with keeper() as (s, at):
        cli("submit", *at, "-", text=job_v2("mnist"))
        code, out, err = cli("stop", *at, "mnsit")
        check.ok("a real server", code == 2 and "did you mean alice~mnist?" in err, (code, err))


def test_cli_hints_for_a_taken_name_work(check):
    """The hints of a 409 work."""
    with keeper() as (s, at), tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        yaml = "protocolVersion: 2\nname: 'one'   # a name\ntype: job\n" + "".join(
            f"{k}: {json.dumps(v)}\n" for k, v in json.loads(job_v2("x")).items()
            if k in ("prerequisites", "taskRoles", "extras", "defaults"))
        f.write(yaml)
        f.flush()
        check.equal("first", cli("submit", *at, f.name)[:2], (0, "alice~one\n"))
        code, out, err = cli("submit", *at, f.name)
        check.ok("taken", code == 2 and f"rest-lit submit --name NAME {f.name}" in err and
                 "rest-lit delete alice~one" in err, (code, err))
        check.equal("another name", cli("submit", *at, "--name", "two", f.name), (0, "alice~two\n", ""))
        check.equal("of JSON", cli("submit", *at, "--name", "three", "-", text=job_v2("one"))[:2], (0, "alice~three\n"))
        check.equal("of v1", cli("submit", *at, "--name", "four", "-", text=job_v1("one"))[:2], (0, "alice~four\n"))
        code, out, err = cli("submit", *at, "--name", "six", "-", text=yaml.replace("'one'", "&a one"))
        check.ok("not a plain name", code == 2 and ":2:7: name cannot be changed here" in err and not out, (code, out, err))
        code, out, err = cli("submit", *at, "--name", "a/b", f.name)
        check.ok("no name", code == 2 and "--name" in err, (code, err))
        code, out, err = cli("delete", *at, "one")
        check.ok("deleted", code == 0 and "alice~one is deleted" in err, (code, err))
        check.equal("free again", cli("submit", *at, f.name)[:2], (0, "alice~one\n"))


def test_cli_resubmits_the_job_with_the_next_name(check):
    """The same job with the next number or a given name; never with redacted values."""
    with keeper() as (s, at):
        for text in (job_v2("new"), job_v1("old")):
            cli("submit", *at, "-", text=text)
        for job, wanted in (("new", "new-2"), ("new", "new-3"), ("new-2", "new-4"), ("alice~old", "old-2")):
            code, out, err = cli("resubmit", *at, job)
            check.equal(f"{job} again", (code, out), (0, f"alice~{wanted}\n"))
        check.equal("by name", cli("resubmit", *at, "--name", "other", "new")[:2], (0, "alice~other\n"))
        code, out, err = cli("resubmit", *at, "--name", "other", "new")
        check.ok("taken", code == 2 and "--name" in err and "rest-lit delete alice~other" in err, (code, err))
        shown = [json.loads(s.request("GET", f"/api/v2/jobs/alice~{name}/config").body) for name in ("new", "new-3")]
        check.ok("the same job", {**shown[1], "name": "new"} == shown[0], shown)
        secret = json.loads(job_v2("hidden"))
        secret["secrets"] = {"key": "value"}
        cli("submit", *at, "-", text=json.dumps(secret))
        code, out, err = cli("resubmit", *at, "hidden")
        check.ok("secrets", code == 2 and "alice~hidden has secrets" in err and "--name NAME FILE" in err and not out,
                 (code, out, err))
    with FakeServer() as fake:
        for config in ([], {}, {"protocolVersion": 2, "name": 1}):
            fake.config = config
            code, out, err = cli("resubmit", "--server", fake.url, "job")
            check.ok("no configuration", code == 3 and "configuration" in err, (code, err))
        fake.config = {"protocolVersion": 2, "name": "job", "prerequisites": [{"auth": {"password": "******"}}]}
        code, out, err = cli("resubmit", "--server", fake.url, "job")
        check.ok("a registry's password", code == 2 and "has secrets" in err, (code, err))
        fake.config = {"protocolVersion": 2, "name": "job"}
        with Cli("resubmit", "--server", fake.url, "--wait", "job") as c:
            check.ok("waits", c.says("WAITING"), c.stderr)
            fake.set("FAILED", {})
            check.equal("ends as the job", c.end(), 1)
        posted = [json.loads(b) for m, _, _, b in fake.requests if m == "POST"]
        check.equal("posted", posted, [{"protocolVersion": 2, "name": "job-2"}])


def test_cli_delete_refuses_a_running_job(check):
    """A running job is not deleted by mistake."""
    with FakeServer() as fake:
        for state, status, code in (("RUNNING", {}, 2), ("RUNNING", {"executionType": "STOP"}, 0), ("WAITING", {}, 0),
                                    ("SUCCEEDED", {}, 0)):
            fake.requests.clear()
            fake.set(state, {}, **status)
            seen = cli("delete", "--server", fake.url, JOB)
            check.equal(f"{state} {status}", (seen[0], fake.count("DELETE", "/api/v1/user/alice/jobs/job")),
                        (code, int(code == 0)))
            check.ok("what to do", code == 0 or f"rest-lit stop {JOB}" in seen[2], seen)


def test_cli_events_end_with_the_latest(check):
    """The last event is the last line."""
    with FakeServer() as fake:
        at = ("--server", fake.url)
        code, out, err = cli("events", *at, "job")
        check.ok("none", code == 0 and not out and f"{JOB} has no events" in err, (code, out, err))

        def event(kind, role, reason, message, ago):
            then = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - ago))
            return {"type": kind, "taskroleName": role, "taskIndex": 3, "reason": reason, "message": message, "count": 12,
                    "lastTimestamp": then}
        fake.happened = [event("Normal", "worker", "Started", "Started container\x1b[2J", 130),
                         event("Warning", "", "FailedScheduling", "0/3 nodes", 7300)]
        code, out, err = cli("events", *at, "job")
        rows = [line.split(None, 5) for line in out.splitlines()]
        check.equal("head", rows[0], ["AGE", "TYPE", "TASK", "REASON", "COUNT", "MESSAGE"])
        check.ok("first", rows[1] == ["2h1m", "Warning", "-", "FailedScheduling", "12", "0/3 nodes"], rows)
        check.ok("last", re.fullmatch("2m1?[0-9]s", rows[2][0]) and
                 rows[2][1:] == ["Normal", "worker[3]", "Started", "12", "Started container\\x1b[2J"], rows)
        code, out, err = cli("events", *at, "-o", "json", "job")
        check.equal("json", json.loads(out), fake.happened)


def test_cli_show_tells_tries_and_tasks_that_are_removed(check):
    """show has the tries that have ended, the end of the last one, and a task with an exit code is not RUNNING."""
    last = {"appExitCode": -1000, "appExitSpec": {"phrase": "PodEvicted", "reason": "The node has evicted it"}, "alike": 3,
            "appExitDiagnostics": "Pod failed: low on memory", "appExitMessages": None}
    with FakeServer() as fake:
        at = ("--server", fake.url)
        fake.set("WAITING", {"worker": ["WAITING"]}, retries=4, previousEnd=last)
        out = cli("show", *at, "job")[1]
        for line in ("tries:    4 have ended, the last with exit code -1000 (PodEvicted); the last 3 ended alike",
                     "reason:   The node has evicted it", "details:  Pod failed: low on memory"):
            check.ok(line, f"  {line}\n" in out, out)
        check.equal("the column of retries", out.split()[-2:], ["4", "-"])
        fake.set("WAITING", {"worker": ["WAITING"]}, retries=1)
        check.ok("another controller", "tries:    1 has ended\n" in cli("show", *at, "job")[1])
        fake.set("RUNNING", {"worker": ["RUNNING", "RUNNING"]})
        fake.detail["taskRoles"]["worker"]["taskStatuses"][0].update(containerExitCode=-101)
        fake.detail["taskRoles"]["worker"]["taskStatuses"][1].update(previousExitCode=137, retries=2)
        rows = [line.split() for line in cli("show", *at, "job")[1].splitlines()[-2:]]
        check.equal("an evicted task", rows[0], ["worker[0]", "STOPPING", "node-0", "10.0.0.0", "0", "-101"])
        check.equal("one that is tried again", rows[1][-2:], ["2", "(137)"])
        for due, line in ((1600000000000, "  node:     node-0 does not answer since 2020-09-13T12:26:40Z: the pod of worker[0] was to be gone then"),
                          (4102444800000, None)):
            fake.detail["taskRoles"]["worker"]["taskStatuses"][0].update(deletionDue=due)
            lines = cli("show", *at, "job")[1].splitlines()
            check.equal("its node", [x for x in lines if "does not answer" in x], [line] if line else [])
        with Cli("wait", *at, "job") as c:
            check.ok("progress", c.says("1/2 running, 1 stopping"), c.stderr)
            fake.set("WAITING", {"worker": ["WAITING"]}, retries=4, previousEnd=last)
            check.ok("progress of retries", c.says("retry 4 after exit code -1000"), c.stderr)
            fake.set("FAILED", {})
            c.end()


def test_cli_jobs_cut_long_reasons(check):
    """The reason in the table has at most 100 columns, and begins with the try."""
    with FakeServer() as fake:
        row = {"name": "one", "username": "alice", "state": "WAITING", "retries": 40, "previousExitCode": 137,
               "waitingReason": {"reason": "FailedCreatePodSandBox", "message": "rpc error: code = Unknown desc = " + 20 * "failed to set up "}}
        rows = [row, {**row, "retries": 0, "waitingReason": None}]
        fake.lists = [(200, {}, {"totalCount": 2, "data": rows})]
        lines = cli("jobs", "--server", fake.url)[1].splitlines()
        reason = lines[1][lines[0].index("REASON"):]
        check.ok("the try", reason.startswith("try 41 after ContainerSigKillReceived (137); FailedCreatePodSandBox: rpc error"), lines)
        check.ok("cut", reason.endswith("...") and len(reason) == 103, len(reason))
        check.ok("nothing to say", lines[2].endswith("-"), lines)


def test_cli_wait_behaves_like_submit_wait(check):
    """wait behaves like submit --wait."""
    for state, code in (("SUCCEEDED", 0), ("FAILED", 1)):
        with FakeServer() as fake, Cli("wait", "--server", fake.url, "job") as c:
            check.ok("waits", c.says("WAITING"), c.stderr)
            fake.set(state, {"worker": [state]})
            check.equal(state, c.end(), code)
            check.ok("result", f"{JOB} {state}" in c.stderr and not c.stdout, (c.stdout, c.stderr))
    with FakeServer() as fake:
        with Cli("wait", "--server", fake.url, "job") as c:
            check.ok("waits", c.says("WAITING"), c.stderr)
            c.process.send_signal(signal.SIGINT)
            check.ok("interrupted", c.end() == 3 and f"{JOB} goes on" in c.stderr, c.stderr)
        check.equal("--timeout", cli("wait", "--server", fake.url, "--timeout", "1", "job")[0], 3)


def test_cli_logs_show_the_existing_output(check):
    """The log of one task is printed unchanged; logs of several tasks follow each other, with
    names."""
    with FakeServer() as fake:
        at = ("--server", fake.url)
        code, out, err = cli("logs", *at, "job")
        check.ok("no tasks", code == 2 and "no tasks yet" in err, (code, err))
        fake.set("RUNNING", {"worker": ["RUNNING", "RUNNING"], "ps": ["SUCCEEDED"]})
        fake.log("worker", 0, b"a0\nb0\n")
        fake.log("worker", 1, b"a1\n\xffb1")
        fake.log("ps", 0, b"p\n")
        code, out, err = cli("logs", *at, "job", "ps")
        check.equal("one task", (code, out, err), (0, "p\n", ""))
        for name in ("worker-1", "worker[1]", "1"):
            with Cli("logs", *at, "job", name) as c:
                check.equal(f"named {name}", (c.end(), c.out), (0, b"a1\n\xffb1\n"))
        code, out, err = cli("logs", *at, "job", "worker")
        check.equal("a role", (code, out.splitlines()[:3]), (0, ["worker[0] | a0", "worker[0] | b0", "worker[1] | a1"]))
        code, out, err = cli("logs", *at, "job")
        check.equal("all", (code, len(out.splitlines()), out.splitlines()[-1]), (0, 5, "ps[0] | p"))
        code, out, err = cli("logs", *at, "job", "0")
        check.ok("ambiguous", code == 2 and "several roles" in err and "worker[0], worker[1], ps[0]" in err, (code, err))
        code, out, err = cli("logs", *at, "job", "worker[2]")
        check.ok("unknown", code == 2 and "no task worker[2]; the tasks are worker[0], worker[1], ps[0]" in err, (code, err))
        fake.set("RUNNING", {"worker": ["RUNNING"] * 3})
        code, out, err = cli("logs", *at, "job")
        check.ok("one is missing", code == 1 and "no log of worker[2]" in err and len(out.splitlines()) == 4, (code, out, err))
        check.ok("no log is followed", fake.count("GET", ".*follow=true") == 0)


def test_cli_logs_follow_until_the_tasks_end(check):
    """-f continues until the tasks have ended, and prints only the output."""
    with FakeServer() as fake:
        at = ("--server", fake.url)
        with Cli("logs", "-f", *at, "job", columns=80, both=True) as c:
            check.ok("says why nothing comes", c.says("WAITING"), c.stderr)
            fake.set("RUNNING", {"worker": ["RUNNING"], "ps": ["RUNNING"]})
            fake.log("worker", 0, b"one\n")
            check.ok("comes", wait_until(lambda: "worker[0] | one" in plain(c.stderr)), c.stderr)
            fake.log("worker", 0, b"two\n")
            check.ok("more", wait_until(lambda: "worker[0] | two" in plain(c.stderr)), c.stderr)
            fake.log("ps", 0, b"")
            fake.end_log("worker", 0)
            fake.end_log("ps", 0)
            fake.set("FAILED", {"worker": ["FAILED"], "ps": ["STOPPED"]})
            check.equal("all was printed", c.end(), 0)
            check.ok("no more than that", "FAILED" not in c.stderr and ESCAPE not in plain(c.stderr), c.stderr)
    with FakeServer() as fake:
        fake.set("RUNNING", {"worker": ["RUNNING"], "ps": ["RUNNING"]})
        with Cli("logs", "-f", "--server", fake.url, "job", "ps") as c:
            fake.log("ps", 0, b"one\n")
            check.ok("comes", c.says("one"), (c.stdout, c.stderr))
            fake.end_log("ps", 0)
            fake.set("RUNNING", {"worker": ["RUNNING"], "ps": ["SUCCEEDED"]})
            check.equal("ends with its task", (c.end(), c.stdout, c.stderr), (0, "one\n", ""))
        with Cli("logs", "-f", "--server", fake.url, "job") as c:
            check.ok("the log", c.says("ps[0] | one"), (c.stdout, c.stderr))
            c.process.send_signal(signal.SIGINT)
            check.equal("Ctrl-C", c.end(), 3)
        check.ok("logs are followed", wait_until(lambda: fake.count("GET", ".*follow=true") > 0))


def test_cli_takes_habits_or_names_the_way(check):
    """What people type from habit works, or the answer says what to type."""
    check.equal("help submit", cli("help", "submit"), cli("submit", "--help"))
    check.ok("help", cli("help")[1] == cli("--help")[1] and "FrameworkController" not in cli("help")[1])
    check.equal("help of nothing", cli("help", "nonsense")[0], 2)
    with FakeServer() as fake:
        at = fake.url.removeprefix("http://")
        code, out, err = cli("show", "--server", at, "job")
        check.ok("a server without a scheme", code == 0 and "alice~job" in out, (code, out, err))
        code, out, err = cli("show", "--server", fake.url, "alice/job")
        check.ok("a slash", code == 2 and "alice~job" in err and "USER~NAME" in err and not out, (code, out, err))
        code, out, err = cli("submit", "--server", fake.url, "-f", "job.yaml")
        check.ok("-f", code == 2 and "-f is not an option of this command; a file is named without one" in err, (code, out, err))
        for option in ("--name", "--image", "--code"):
            code, out, err = cli("submit", "--server", fake.url, option, "", "--", "true")
            check.ok(f"{option} without a value", code == 2 and f"{option} needs a value that is not empty" in err, (code, out, err))
    code, out, err = cli("show", "--server", "pai.invalid", "--timeout", "1", "job")
    check.ok("elsewhere it is https", code == 3 and "https://pai.invalid" in err, (code, out, err))


def test_cli_names_each_job_of_a_tag_while_it_waits(check):
    """The lines of `wait --tag` say of which job they are."""
    with keeper() as (s, at):
        for name in ("one", "two"):
            cli("submit", *at, "--tag", "both", "-", text=job_v2(name))
        with Cli("wait", *at, "--tag", "both") as c:
            check.ok("the first", c.says("alice~two WAITING") or c.says("alice~one WAITING"), c.stderr)
