"""Jobs that vary: --set, --env, --secret, --tag, --sweep; commands about the jobs of a tag; the end of a
log."""
import json
import os
import pty
import re
import signal
import subprocess
import tempfile

from cli import Cli, cli, keeper
from fakeserver import JOB, FakeServer
from harness import BINARY, job_v1, job_v2, wait_until

YAML = """# a job
protocolVersion: 2
name: mnist   # its name
type: job
parameters:
  lr: 0.1     # the rate
  text: 'it''s'
  on: true
prerequisites:
  - {name: image, type: dockerimage, uri: ubuntu}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 0}
    commands: ['echo <% $parameters.lr %>']
"""
FLOW = json.dumps({**json.loads(job_v2("flow")), "parameters": {"lr": 1, "seed": 2}})


def show(at, *options, text=YAML, **more):
    return cli("submit", *at, "--dry-run", "-o", "job", *options, "-", text=text, **more)


def test_submit_changes_what_the_options_name(check):
    """The text has the values, its comments stay if there are no secrets, and secrets are hidden."""
    with keeper() as (s, at):
        check.equal("nothing", show(at), (0, YAML, ""))
        for options, old, new in (
                (["--set", "lr=0.5"], "lr: 0.1", "lr: 0.5"), (["--set", "lr=1e-4"], "lr: 0.1", "lr: 0.0001"),
                (["--set", 'lr="0.5"'], "lr: 0.1", 'lr: "0.5"'), (["--set", "lr=true"], "lr: 0.1", "lr: true"),
                (["--set", "lr=null"], "lr: 0.1", "lr: null"), (["--set", "lr=a b: #c"], "lr: 0.1", 'lr: "a b: #c"'),
                (["--set", "lr="], "lr: 0.1", 'lr: ""'), (["--set", "text=x=y"], "'it''s'", '"x=y"'),
                (["--set", "on=false"], "on: true", "on: false"), (["--name", "other"], "name: mnist", 'name: "other"'),
                (["--set", "lr=2", "--set", "lr=3"], "lr: 0.1", "lr: 3"),
                (["--env", "A=b c"], "protocolVersion", 'extras: {"env": {"A": "b c"}}\nprotocolVersion'),
                (["--env", "HERE"], "protocolVersion", 'extras: {"env": {"HERE": "x=\\"y\\""}}\nprotocolVersion')):
            code, out, err = show(at, *options, environment={"HERE": 'x="y"'})
            check.equal(f"{options}", (code, out), (0, YAML.replace(old, new, 1)))
        code, out, err = show(at, "--secret", "KEY=geheim")
        check.ok("--secret", code == 0 and out.startswith('extras:\n  secretEnv:\n    - KEY\nsecrets: "******"\nprotocolVersion: 2\nname: mnist\n')
                 and "text: \"it's\"\n" in out and "geheim" not in out, (code, out, err))
        code, out, err = show(at, "--set", "seed=7", "--env", "A=1", "--env", "B=2", text=FLOW)
        job = json.loads(out)
        check.equal("JSON stays JSON", (code, job["parameters"], job["extras"]),
                    (0, {"lr": 1, "seed": 7}, {"env": {"A": "1", "B": "2"}}))
        code, out, err = cli("submit", *at, "--secret", "KEY=geheim", "--secret", "FROM", "--env", "A=1", "-", text=YAML,
                             environment={"FROM": "anders"})
        check.equal("submitted", (code, out), (0, "alice~mnist\n"))
        config = s.request("GET", "/api/v2/jobs/alice~mnist/config").body
        check.ok("stored without secrets", b"******" in config and b"geheim" not in config and b"anders" not in config, config)
        check.ok("not in the log", "geheim" not in s.log(), s.log()[-300:])


def test_secret_without_a_placeholder_is_a_variable(check):
    """In a file: one that a placeholder names is none, one in extras.secretEnv stays once; text that no YAML has is base64."""
    filled = YAML.replace("echo <%", "echo <% $secrets.WORD %> <%$secrets.a-b%> <%")
    listed = "secrets: {KEY: x}\nextras:\n  secretEnv:\n  - KEY\n"
    with keeper() as (s, at):
        for i, (text, options, variables) in enumerate((
                (YAML, ["KEY=geheim"], ["KEY"]), (YAML, ["KEY=geheim", "FROM"], ["FROM", "KEY"]), (YAML, ["B=geheim<% $secrets.A %>", "A=geheim"], ["A", "B"]), (filled, ["WORD=geheim", "a-b=geheim"], None),
                (filled, ["WORD=geheim", "KEY=geheim", "a-b=geheim"], ["KEY"]), (YAML + listed, ["KEY=geheim"], ["KEY"]),
                (YAML + listed, ["A=geheim"], ["A", "KEY"]), (FLOW, ["KEY=geheim"], ["KEY"]), (YAML, [os.fsdecode(b"KEY=\xffgeheim\x7f\x01")], ["KEY"]))):
            code, out, err = cli("submit", *at, "--name", f"n{i}", *[w for one in options for w in ("--secret", one)], "-", text=text,
                                 environment={"FROM": "geheim"})
            reply = s.request("GET", f"/api/v2/jobs/alice~n{i}/config")
            check.equal(f"{options}", (code, err, reply.json.get("extras", {}).get("secretEnv")), (0, "", variables))
            check.ok("hidden", "geheim" not in reply.body.decode() + s.log(), reply.body)
        code, out, err = cli("submit", *at, "--secret", os.fsdecode(b"WORD=\xffgeheim"), "-", text=filled)
        check.ok("no text for a placeholder", code == 2 and not out and "secrets.WORD" in err and "geheim" not in err, (code, out, err))


def test_submit_refuses_wrong_options_before_sending(check):
    """Each error names the option and what is allowed; no error has the value of a secret."""
    with FakeServer() as fake:
        at = ("--server", fake.url)
        for options, text, words in (
                (["--set", "lrr=1"], YAML, ["--set", "no parameter lrr", "did you mean lr?", "lr, text, on"]),
                (["--set", "lr"], YAML, ["--set", "lr=VALUE"]), (["--set", "=1"], YAML, ["--set", "name"]),
                (["--set", "lr=[1]"], YAML, ["--set", "one value"]), (["--set", "lr=.nan"], YAML, ["one value"]),
                (["--set", "lr=*a"], YAML, ["one value"]), (["--set", 'lr="a" b'], YAML, ["one value"]),
                (["--set", "lr=1"], job_v2("x"), ["no `parameters`", "$parameters.lr"]),
                (["--set", "lr=1"], job_v1("x"), ["v2", "rest-lit convert"]),
                (["--env", "A=1"], job_v1("x"), ["--env", "rest-lit convert"]),
                (["--secret", "A=geheim"], job_v1("x"), ["--secret", "rest-lit convert"]),
                (["--env", "PAI_X=1"], YAML, ["PAI_X", "belongs to the system"]), (["--env", "FC_X=1"], YAML, ["FC_X"]),
                (["--env", "KUBERNETES_X=1"], YAML, ["KUBERNETES_X"]), (["--env", "NOT_HERE"], YAML, ["NOT_HERE=VALUE"]),
                (["--secret", "2=geheim"], YAML, ["--secret", '"2"']), (["--secret", "=geheim"], YAML, ["--secret"]),
                (["--secret", "A=geheim"], "secrets: &a {x: geheim}\n" + YAML, ["<stdin>:1:10", "secrets.A", "by hand"]),
                (["--secret", "PATH=geheim"], YAML, ["--secret", "$secrets.PATH %>", "variable PATH", "LD_"]),
                (["--secret", "LD_X=geheim"], YAML, ["variable LD_X"]), (["--secret", "PAI_X=geheim"], YAML, ["variable PAI_X"]),
                (["--secret", "a-b=geheim"], YAML, ["variable a-b", "letters"]),
                (["--secret", "A=geheim"], YAML + "extras: {secretEnv: &a [B]}\nsecrets: {B: 1}\n", ["extras.secretEnv", "by hand"]),
                (["--set", "lr=1"], YAML.replace("lr: 0.1", "lr: &a 0.1"), ["<stdin>:6", "parameters.lr", "by hand"]),
                (["--env", "A=1"], "a: [\n", ["<stdin>:"]), (["-o", "job"], YAML, ["--dry-run"]),
                (["--sweep", "lr=1", "--logs"], YAML, ["--wait"])):
            code, out, err = cli("submit", *at, *options, "-", text=text)
            check.ok(f"{options}", code == 2 and not out and all(w in err for w in words) and "geheim" not in err,
                     (code, out, err))
        check.equal("nothing was sent", fake.count("POST", ".*"), 0)
    with keeper() as (s, at):
        broken = YAML.replace("instances: 1", "instances: none")
        code, out, err = cli("submit", *at, "-", text=broken)
        check.ok("with its line", code == 2 and re.search(r"<stdin>:13:\d+: /taskRoles/worker/instances", err), err)
        code, out, err = cli("submit", *at, "--env", "A=1", "-", text=broken)
        check.ok("lines that moved are not named", code == 2 and "/taskRoles/worker/instances" in err and
                 ":13:" not in err and ":14:" not in err, err)


def names(out):
    return [line.removeprefix("alice~") for line in out.splitlines()]


def test_sweep_submits_each_combination_once(check):
    """The number first; names, tags and values; the same command again submits nothing."""
    with keeper() as (s, at):
        sweep = ("submit", *at, "--sweep", "lr=0.1,1e-4", "--sweep", "seed=3..1", "--yes", "-")
        text = YAML.replace("  lr:", "  seed: 0\n  day: 2026-01-01\n  big: 12345678901234567890\n  lr:")
        wanted = [f"mnist-lr{lr}-seed{n}" for lr in ("0_1", "1e-4") for n in (3, 2, 1)]
        code, out, err = cli(*sweep, text=text)
        check.equal("names", (code, names(out)), (0, wanted))
        check.equal("the number first", err.splitlines()[0],
                    "rest-lit: 6 jobs, mnist-lr0_1-seed3 to mnist-lr1e-4-seed1, with the tag mnist")
        job = s.request("GET", "/api/v2/jobs/alice~mnist-lr1e-4-seed2").json
        config = json.loads(s.request("GET", "/api/v2/jobs/alice~mnist-lr1e-4-seed2/config").body)
        check.equal("values", (job["tags"], config["parameters"]["lr"], config["parameters"]["seed"]), (["mnist"], 0.0001, 2))
        for name, again in (("again", text), ("another comment", text.replace("# a job", "# the job"))):
            code, out, err = cli(*sweep, text=again)
            check.equal(name, (code, names(out), err.count("is submitted already")), (0, wanted, 6))
        # What an Idempotency-Key no longer knows after a day is compared.
        old = json.loads(job_v2("old-lr1", parameters={"lr": 1}))
        new = json.dumps({**old, "name": "old", "parameters": {"lr": 0}})
        for tag in ("?tag=old&tag=more", "?tag=more", ""):
            check.equal(f"made {tag}", s.request("POST", "/api/v2/jobs" + tag, json.dumps(old)).status, 202)
            code, out, err = cli("submit", *at, "--sweep", "lr=1", "--yes", "-", text=new)
            if "=old" in tag:
                check.ok("of another key", code == 0 and out == "alice~old-lr1\n" and "already" in err, (code, out, err))
            else:
                check.ok("another tag", code == 2 and not out and "old-lr1" in err, (code, out, err))
            cli("delete", *at, "old-lr1")
        for name, options, changed in (
                ("another configuration", (), text.replace("memoryMB: 100", "memoryMB: 200")),
                ("another tag", ("--tag", "x"), text)):
            code, out, err = cli(*sweep[:-1], *options, "-", text=changed)
            check.ok(name, code == 2 and not out and "there is a job alice~mnist-lr0_1-seed3 with another" in err and
                     "rest-lit delete alice~mnist-lr0_1-seed3" in err, (code, out, err))
        secret = ("submit", *at, "--name", "s", "--sweep", "lr=1", "--yes", "--secret")
        check.equal("with a secret", cli(*secret, "K=eins", "-", text=YAML)[:2], (0, "alice~s-lr1\n"))
        check.equal("the same secret", cli(*secret, "K=eins", "-", text=YAML)[:2], (0, "alice~s-lr1\n"))
        code, out, err = cli(*secret, "K=zwei", "-", text=YAML)
        check.ok("another secret", code == 2 and "there is a job alice~s-lr1 with another configuration, code, secret" in err and "eins" not in err and "zwei" not in err, err)
        code, out, err = cli(*sweep[:-1], "--dry-run", "-o", "job", "-", text=text)
        check.ok("dry run", code == 0 and out.count("---\n# a job") == 6 and 'name: "mnist-lr0_1-seed2"' in out, out)


def test_sweep_refuses_what_it_cannot_name_or_count(check):
    """Refused before anything is sent, at once also for 10^9 jobs and more."""
    with FakeServer() as fake:
        at = ("--server", fake.url, "--yes")
        text = YAML.replace("  lr:", "  seed: 0\n  lr:")
        for options, words in (
                (["lr=1..201"], ["201", "200"]), (["lr=1..1000000000"], ["1000000000 jobs", "200"]),
                (["lr=-9223372036854775807..9223372036854775807", "seed=1..9", "text=1..9"], ["more than", "200"]),
                (["lr=0..9223372036854775807", "seed=0..1"], ["jobs, at most 200"]), (["lr=1.5,1_5"], ["two jobs", "mnist-lr1_5"]),
                (["lr=1,1"], ["two jobs", "mnist-lr1"]), (["lr=" + 95 * "x"], ["103 bytes", "100", "--name"]),
                (["lr"], ["NAME=VALUE"]), (["lr="], ["NAME=VALUE"]), (["lr=0.1..0.5"], ["NAME=1..5"]), (["lr=1,,2"], ["NAME=VALUE"]), (["lr=1,"], ["NAME=VALUE"]),
                (["lr=1", "lr=2"], ["lr is given twice"]), (["lx=1"], ["no parameter lx", "did you mean lr?"]),
                (["lr=[1]"], ["one value"])):
            code, out, err = cli("submit", *at, *(f"--sweep={o}" for o in options), "-", text=text)
            check.ok(f"{options}"[:80], code == 2 and not out and all(w in err for w in words), (code, out, err))
        code, out, err = cli("submit", *at, "--sweep", "lr=1,2", "--set", "lr=3", "-", text=text)
        check.ok("set and swept", code == 2 and "lr is set by --set, too" in err, (code, out, err))
        code, out, err = cli("submit", *at[:2], "--sweep", "lr=1,2", "-", text=text)
        check.ok("asks nobody", code == 2 and "--yes" in err and "2 jobs" in err, (code, out, err))
        check.equal("nothing was sent", fake.count("POST", ".*"), 0)


def test_sweep_asks_on_a_terminal(check):
    """Without --yes, only an answer that begins with y submits."""
    with keeper() as (s, at), tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(YAML)
        f.flush()
        for answer, wanted in (("n\n", (2, "")), ("\n", (2, "")), ("y\n", (0, "alice~mnist-lr1\nalice~mnist-lr2\n"))):
            master, slave = pty.openpty()
            os.write(master, answer.encode())
            run = subprocess.run([BINARY, "submit", *at, "--sweep", "lr=1,2", f.name], stdin=slave, capture_output=True,
                                 text=True, check=False)
            os.close(master)
            os.close(slave)
            check.equal(f"{answer!r}", (run.returncode, run.stdout), wanted)
            check.ok("asked", "Submit them? [y/N]" in run.stderr, run.stderr)


def test_sweep_is_completed_after_a_kill(check):
    """SIGKILL in the middle: the same command submits the others, and each job once."""
    with keeper() as (s, at), tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(YAML)
        f.flush()
        command = ("submit", *at, "--sweep", "lr=1..120", "--yes", f.name)
        with Cli(*command) as c:
            check.ok("begins", c.says("mnist-lr3\n"), c.stderr)
            c.process.send_signal(signal.SIGKILL)
            c.process.wait()
        code, out, err = cli(*command)
        check.equal("completed", (code, names(out)), (0, [f"mnist-lr{i}" for i in range(1, 121)]))
        done = err.count("is submitted already")
        check.ok("some were there", 3 <= done <= 120, err[-300:])
        rows = s.request("GET", "/api/v2/jobs?tagsContain=mnist").json
        check.equal("each once", sorted(r["name"] for r in rows), sorted(f"mnist-lr{i}" for i in range(1, 121)))
    with FakeServer() as fake:
        busy = (429, {"Retry-After": "1"}, {"code": "TooManyRequests", "message": "later"})
        fake.answers = [busy, (202, {"Location": f"/api/v2/jobs/{JOB}"}, {"tags": ["x"]}),
                        (400, {}, {"code": "InvalidProtocolError", "message": "no"})]
        code, out, err = cli("submit", "--server", fake.url, "--sweep", "lr=1,2,3", "--yes", "-", text=YAML)
        check.ok("stops at a refusal", code == 2 and out == "alice~mnist-lr1\n" and
                 "1 of 3 jobs are submitted; the same command goes on with mnist-lr2" in err, (code, out, err))
        keys = [h["Idempotency-Key"] for m, _, h, _ in fake.requests if m == "POST"]
        check.ok("the key of a job stays", len(keys) == 3 and keys[0] == keys[1] != keys[2], keys)


def test_tags_of_a_submission_follow_the_rules_of_tags(check):
    """The query of the submission: the rules of the route for tags; not compared by a key."""
    with keeper() as (s, at):
        def post(query, name="one", version=2, **headers):
            text = job_v2(name) if version == 2 else job_v1(name)
            return s.request("POST", f"/api/v{version}/jobs{query}", text, headers)

        def tags(name="one"):
            return s.request("GET", f"/api/v2/jobs/alice~{name}").json["tags"]
        for bad in ("?tag=", "?tag", "?tag=a,b", "?tag=" + 64 * "x", "?tag=%0a", "?tag=%e2%80%ae", "?tag=%ff", "?tag=a%c3", "?tag=%ed%a0%80"):
            check.refused(bad, post(bad), 400, "InvalidParametersError", "tag must be a tag")
            check.refused(f"{bad}: dry run", post(bad + "&dryRun=true"), 400, "InvalidParametersError", "tag must be a tag")
        many = "".join(f"&tag=t{i}" for i in range(33))
        check.refused("too many", post("?" + many[1:]), 400, "InvalidParametersError", "at most 32")
        shown = s.request("POST", "/api/v2/jobs?tag=b&dryRun=true", job_v2("one"))
        check.equal("dry run", (shown.status, shown.json["tags"]), (200, ["b"]))
        first = post("?tag=b&tag=a%20%22&tag=b", **{"Idempotency-Key": "k"})
        check.equal("taken", (first.status, first.json["tags"], tags()), (202, ["b", 'a "'], ["b", 'a "']))
        again = post("?tag=other", **{"Idempotency-Key": "k"})
        check.equal("a repetition", (again.status, again.headers.get("idempotency-replayed"), tags()),
                    (202, "true", ["b", 'a "']))
        check.equal("v1", (post("?tag=x", "two", 1).status, tags("two")), (202, ["x"]))
        check.equal("none", ("tags" in post("", "three").json, tags("three")), (False, []))
        check.equal("listed", [r["name"] for r in s.request("GET", "/api/v2/jobs?tagsContain=x,b&order=jobName,ASC").json],
                    ["one", "two"])
        check.equal("--tag", cli("submit", *at, "--tag", "u v", "--tag", "w", "-", text=job_v2("four")),
                    (0, "alice~four\n", ""))
        check.equal("of it", tags("four"), ["u v", "w"])


def test_stop_and_delete_take_several_jobs_or_a_tag(check):
    """Each job is tried; the exit code is the worst."""
    with keeper() as (s, at):
        for name, tag in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z")):
            cli("submit", *at, "--tag", tag, "-", text=job_v2(name))
        code, out, err = cli("cancel", *at, "a", "nothing", "alice~c")
        check.ok("each is tried", code == 2 and "alice~a is being stopped" in err and "alice~c is being stopped" in err and
                 "no job alice~nothing" in err, (code, err))
        code, out, err = cli("stop", *at, "--tag", "x", "--tag", "z")
        check.ok("any of the tags", code == 0 and "alice~b is" in err and "alice~d is" in err and "alice~c" not in err, err)
        for command in ("stop", "delete", "wait"):
            code, out, err = cli(command, *at, "--tag", "none")
            check.ok(f"{command}: no such tag", code == 2 and "has the tag none" in err, (code, err))
            code, out, err = cli(command, *at, "--tag", "x", "a")
            check.ok(f"{command}: both", code == 2 and "--help" in err, (code, err))
            code, out, err = cli(command, *at)
            check.ok(f"{command}: neither", code == 2 and "--tag" in err, (code, err))
        code, out, err = cli("delete", *at, "--tag", "x", "--tag", "y")
        check.equal("deleted", (code, sorted(err.splitlines())), (0, [f"alice~{n} is deleted" for n in "abc"]))
        check.equal("the rest", [r["name"] for r in s.request("GET", "/api/v2/jobs").json], ["d"])
    with FakeServer() as fake:
        cli("stop", "--server", fake.url, "--tag", "a&b", "--tag", "ü")
        check.equal("of the client's user only", [p for m, p, _, _ in fake.requests if "tagsContain" in p],
                    ["/api/v2/jobs?limit=50000&state=WAITING,RUNNING&username=alice&tagsContain=a%26b,%C3%BC"])


def rows(**states):
    return 200, {}, [{"name": n, "username": "alice", "state": s} for n, s in states.items()]


def test_wait_for_a_tag_ends_with_the_worst(check):
    """One job after the other, until all have ended."""
    with FakeServer() as fake:
        def ended(**states):
            fake.lists = [rows(**states)]
            fake.files = {f"/api/v2/jobs/alice~{n}": json.dumps({"name": n, "jobStatus": {
                "username": "alice", "state": s, "submissionTime": 1, "completedTime": 2}, "taskRoles": {}}).encode()
                          for n, s in states.items() if s}
        for name, states, wanted, words in (
                ("all well", {"a": "SUCCEEDED", "b": "SUCCEEDED"}, 0, ["alice~a SUCCEEDED", "alice~b SUCCEEDED"]),
                ("one failed", {"a": "FAILED", "b": "SUCCEEDED"}, 1, ["alice~a FAILED", "alice~b SUCCEEDED"]),
                ("one was deleted", {"a": "", "b": "SUCCEEDED"}, 1, ["alice~a was deleted", "alice~b SUCCEEDED"])):
            ended(**states)
            code, out, err = cli("wait", "--server", fake.url, "--tag", "t")
            check.ok(name, code == wanted and all(w in out + err for w in words), (code, out, err))
        fake.answers = [(202, {"Location": f"/api/v2/jobs/{JOB}"}, {"tags": []})] * 2
        ended(**{"mnist-lr1": "FAILED", "mnist-lr2": "SUCCEEDED"})
        code, out, err = cli("submit", "--server", fake.url, "--sweep", "lr=1,2", "--yes", "--wait", "-", text=YAML)
        check.ok("--wait of a sweep", code == 1 and "alice~mnist-lr1 FAILED" in out + err and "alice~mnist-lr2 SUCCEEDED" in out + err,
                 (code, out, err))
        fake.set("RUNNING", {"worker": ["RUNNING"]})
        fake.lists = [rows(job="RUNNING", b="RUNNING")] * 2
        code, out, err = cli("wait", "--server", fake.url, "--tag", "t", "--timeout", "1")
        check.ok("--timeout", code == 3 and "b" not in fake.files and "alice~b" not in out + err, (code, out, err))
        with Cli("wait", "--server", fake.url, "--tag", "t") as c:
            check.ok("waits", c.says("RUNNING"), c.stderr)
            c.process.send_signal(signal.SIGINT)
            check.equal("Ctrl-C ends all", c.end(), 3)


def test_jobs_are_sorted_chosen_by_tag_and_watched(check):
    """--sort and --tag ask the server; --watch prints the table again and again."""
    with keeper() as (s, at):
        for name in ("b", "c", "a"):
            cli("submit", *at, "--tag", f"of-{name}", "-", text=job_v2(name))

        def listed(*options):
            return "".join(line[0] for line in cli("jobs", *at, *options)[1].splitlines()[1:])
        check.equal("newest first", (listed(), listed("--sort", "age")), ("acb", "acb"))
        for column in ("name", "user", "state", "gpus", "vc"):
            check.equal(f"by {column}", sorted(listed("--sort", column)), ["a", "b", "c"])
        check.equal("by name", listed("--sort", "name"), "abc")
        check.equal("--tag", listed("--tag", "of-a", "--tag", "of-b"), "ab")
        code, out, err = cli("jobs", *at, "--sort", "x")
        check.ok("unknown column", code == 2 and "name, state" in err, err)
        with Cli("jobs", *at, "--watch") as c:
            check.ok("again and again", wait_until(lambda: c.stdout.count("NAME ") >= 2), (c.stdout, c.stderr))
            c.process.send_signal(signal.SIGTERM)
            c.end()
        with Cli("jobs", *at, "--watch", columns=80, both=True) as c:
            check.ok("redrawn", wait_until(lambda: c.stderr.count("\x1b[H\x1b[J") >= 2), c.stderr)
            c.process.send_signal(signal.SIGTERM)
            c.end()


def test_logs_print_the_last_lines_only(check):
    """-n cuts each log; what is written later follows."""
    lines = b"".join(b"line %d\n" % i for i in range(1000))
    with FakeServer() as fake:
        at = ("--server", fake.url)
        fake.set("RUNNING", {"worker": ["RUNNING", "RUNNING"]})
        fake.log("worker", 0, lines + b"part")
        fake.log("worker", 1, b"other\n")
        for n, wanted in ((2, ["line 999", "part"]), (1, ["part"]), (0, [])):
            check.equal(f"-n {n}", cli("logs", *at, "-n", str(n), "job", "worker-0")[1].splitlines(), wanted)
        check.equal("all", len(cli("logs", *at, "-n", "2000", "job", "worker-0")[1].splitlines()), 1001)
        check.equal("of each task", cli("logs", *at, "--tail", "1", "job")[1].splitlines(),
                    ["worker[0] | part", "worker[1] | other"])
        with Cli("logs", "-f", "-n", "2", *at, "job", "worker-0") as c:
            check.ok("the last", c.says("line 999"), c.stderr)
            fake.log("worker", 0, b"ial\nnew\n")
            check.ok("what follows", c.says("new"), (c.stdout, c.stderr))
            fake.cut()
            fake.log("worker", 0, b"after a cut\n")
            check.ok("after a cut", c.says("after a cut"), (c.stdout, c.stderr))
            fake.end_log("worker", 0)
            fake.set("SUCCEEDED", {"worker": ["SUCCEEDED", "SUCCEEDED"]})
            check.equal("ends", (c.end(), c.stdout), (0, "line 998\nline 999\npartial\nnew\nafter a cut\n"))
        for since in ("90s", "5m", "2h", "1d", "2026-01-31T12:00:00Z"):
            check.equal(f"--since {since}", cli("logs", *at, "--since", since, "job", "worker-1")[:2], (0, "other\n"))
        check.ok("asks for a time", fake.requests[-1][1].endswith("?follow=false&since=2026-01-31T12:00:00.000Z"),
                 fake.requests[-1][1])
        for since in ("x", "5", "m", "-5m", "2026-01-32", "2026-01-31T12:00:00+01:00"):
            code, out, err = cli("logs", *at, f"--since={since}", "job")
            check.ok(f"--since {since}", code == 2 and "--since" in err and "90s" in err, err)
        fake.dropped["worker", 1, 0] = 100
        code, out, err = cli("logs", *at, "--since", "5m", "job", "worker-1")
        check.ok("a kept output has no times", code == 0 and out == "other\n" and "kept without times" in err, (out, err))


def test_resubmit_takes_the_changes_of_submit(check):
    """--set, --env, --tag and --secret change the job that is submitted again; all secrets must be given."""
    with keeper() as (s, at):
        def config(name):
            return s.request("GET", f"/api/v2/jobs/alice~{name}/config").json
        check.equal("submitted", cli("submit", *at, "-", text=FLOW)[:2], (0, "alice~flow\n"))
        code, out, err = cli("resubmit", *at, "--set", "lr=0.5", "--env", "A=b", "--tag", "second", "flow")
        check.equal("changed", (code, out, err), (0, "alice~flow-2\n", ""))
        check.equal("its configuration", (config("flow-2")["parameters"], config("flow-2")["extras"]["env"]), ({"lr": 0.5, "seed": 2}, {"A": "b"}))
        check.equal("its tag", s.request("GET", "/api/v2/jobs/alice~flow-2").json["tags"], ["second"])
        code, out, err = cli("resubmit", *at, "--set", "no=1", "flow")
        check.ok("an unknown parameter", code == 2 and not out and "alice~flow has no parameter no" in err, (code, out, err))
        text = YAML.replace("echo <%", "echo <% $secrets.WORD %> <%") + "secrets: {KEY: geheim, WORD: anders}\nextras: {secretEnv: [KEY]}\n"
        check.equal("with secrets", cli("submit", *at, "-", text=text)[:2], (0, "alice~mnist\n"))
        for options in ([], ["--secret", "KEY=geheim"], ["--secret", "OTHER=geheim", "--secret", "KEY=x"]):
            code, out, err = cli("resubmit", *at, *options, "mnist")
            missing = "--secret WORD" if options else "--secret KEY --secret WORD"
            check.ok(f"{options}", code == 2 and not out and f"give {missing}" in err and "geheim" not in err, (code, out, err))
        code, out, err = cli("resubmit", *at, "--secret", "KEY=geheim", "--secret", "WORD", "mnist", environment={"WORD": "neu"})
        check.equal("all of them", (code, out, err), (0, "alice~mnist-2\n", ""))
        seen = json.dumps(config("mnist-2")) + s.log()
        check.ok("stay hidden", "geheim" not in seen and "******" in seen, seen)
