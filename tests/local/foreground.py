"""rest-lit run: a job in one process, in a pipe and on a terminal; and how it is ended."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from cli import ESCAPE, Cli, cli
from cli_follow import plain, screen_of
from harness import BINARY, PATIENCE, SLOW, wait_until


def role(command, instances=1, gpu=0, **more):
    return {"instances": instances, "dockerImage": "image", "commands": [command],
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": gpu}, **more}


def job(name, **roles):
    return json.dumps({
        "protocolVersion": 2, "name": name, "type": "job", "taskRoles": roles,
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "debian:12-slim"}]})


class Place:
    """A directory to run jobs in, and one for the files of `run`."""

    def __init__(self, gpus=0):
        self.root = tempfile.mkdtemp(prefix="rest-lit-run.", dir="/var/tmp")
        self.cwd, self.state = os.path.join(self.root, "here"), os.path.join(self.root, "state")
        os.mkdir(self.cwd)
        for i in range(gpus):
            self.write(f"../gpu{i}", "")
        pattern = os.path.join(self.root, "gpu[0-9]*")
        self.arguments = ["--gpu-devices", pattern] if gpus else []
        self.more = {"cwd": self.cwd, "environment": {"XDG_STATE_HOME": self.state, "USER": "alice"}}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def write(self, name, text):
        with open(os.path.join(self.cwd, name), "w", encoding="utf-8") as f:
            f.write(text)

    def start(self, text, *arguments, **more):
        """It is on standard input, unless it is the name of a file."""
        name, text = ("-", text) if text.startswith("{") else (text, None)
        return Cli("run", *self.arguments, *arguments, name, text=text, **{**self.more, **more})

    def run(self, text, *arguments):
        with self.start(text, *arguments) as c:
            code = c.end()
            return code, c.stdout, c.stderr

    def left(self):
        """Directories of runs."""
        runs = os.path.join(self.state, "rest-lit", "run")
        return os.listdir(runs) if os.path.isdir(runs) else []

    def processes(self):
        """Processes of tasks: they have this in their environment."""
        return [pid for pid in filter(str.isdigit, os.listdir("/proc")) if self.mark in environment_of(pid)]

    @property
    def mark(self):
        return f"RUN_TEST={self.root}".encode()

    def marked(self, command):
        """A command whose processes can be found, also after their parents have ended."""
        return f"export RUN_TEST={self.root}; {command}"


def environment_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return f.read().split(b"\0")
    except OSError:
        return []


def test_run_prints_the_output_into_a_pipe(check):
    """The output of a single task is on standard output, unchanged; states are on standard error;
    no files remain."""
    with Place() as p:
        code, out, err = p.run(job("hello", worker=role("echo Hello $PAI_TASK_INDEX; echo oops >&2; sleep 0.5")))
        check.equal("output", (code, sorted(out.splitlines())), (0, ["Hello 0", "oops"]))
        check.ok("states", "RUNNING" in err and re.search(r"^hello SUCCEEDED after \d+s$", err, re.M), err)
        check.ok("the image is not used", err.startswith("<stdin>:1:") and ": warning: /taskRoles/worker: runs on this machine's files, not in debian:12-slim; --images oci pulls it\n" in err, err)
        check.ok("no escapes", ESCAPE not in out + err)
        check.equal("nothing is left", p.left(), [])
        every = {"completion": {"minSucceededInstances": -1}}  # else the first role that succeeds ends the job
        code, out, err = p.run(job("two", ps=role("echo I am $PAI_TASK_INDEX", instances=2, **every), worker=role("echo w", **every)))
        check.equal("two roles", (code, sorted(out.splitlines())), (0, ["ps[0] | I am 0", "ps[1] | I am 1", "worker[0] | w"]))


def test_run_explains_a_failed_job(check):
    """The exit code, the task, its last lines; and what is refused before anything runs."""
    with Place() as p:
        code, out, err = p.run(job("bad", good=role("sleep 1000"), worker=role("seq 30; echo the end; exit 7")))
        check.equal("failed", code, 1)
        check.ok("which task", re.search(r"^bad FAILED after .*exit code 255 .*of worker\[0\]; the command ended with 7$", err, re.M), err)
        check.ok("its last lines", re.search(r"^the last lines of worker\[0\]:\n(  .*\n)*  the end$", err, re.M), err)
        broken = json.loads(job("broken", worker=role("true")))
        broken["nonsense"] = 1
        p.write("broken.json", json.dumps(broken))
        _, same, _ = cli("validate", "broken.json", **p.more)
        code, out, err = p.run("broken.json")
        check.equal("invalid", (code, out, err.splitlines()), (2, "", same.splitlines()))
        for name, arguments in {"no such directory": ["--mount", "/nonexistent"], "not absolute": ["--mount", ".:here"],
                                "no mount point": ["--mount", ".:/"], "two files": ["x"], "no such file": []}.items():
            code, out, err = p.run("nonexistent.yaml" if not arguments else job("x", worker=role("true")), *arguments)
            check.ok(name, code == 2 and err and not out, (code, out, err))
        check.equal("nothing is left", p.left(), [])


def test_run_names_the_first_failure(check):
    """A server ends for lack of memory, and its peer gets a broken pipe, which ends the job."""
    connect = "socket.create_connection((os.environ['PAI_HOST_IP_server_0'], int(os.environ['PAI_PORT_LIST_server_0_feed'])))"
    serve = ["import os, socket", "s = socket.create_server(('', int(os.environ['PAI_CONTAINER_HOST_feed_PORT_LIST'])))",
             "print(s.accept()[0].recv(100).decode())", "raise MemoryError('no room for batch 3')"]
    feed = ["import os, socket, time", "c = None", "while not c:",
            f"    try: c = {connect}", "    except OSError: time.sleep(0.1)",
            "while True:", "    try: c.sendall(b'batch')",
            f"    except OSError: time.sleep({3 * SLOW}); raise",  # the server's end is seen first, also on a slow machine
            "    time.sleep(0.1)"]
    with Place() as p:
        p.write("serve.py", "\n".join(serve))
        p.write("feed.py", "\n".join(feed))
        server = role("exec python3 serve.py", completion={"minFailedInstances": -1, "minSucceededInstances": -1})
        server["resourcePerInstance"]["ports"] = {"feed": 1}
        code, out, err = p.run(job("pipe", server=server, worker=role("exec python3 feed.py")))
        check.ok("the job ends by the worker", code == 1 and " of worker[0]; " in err, (out, err))
        check.ok("the server failed first", re.search(
            r"^  first:    server\[0\] failed first \(\d\d:\d\d:\d\d(\.\d{3})?\): MemoryError: no room for batch 3$", err, re.M), err)
        check.ok("the worker followed", re.search(r"^ +worker\[0\] only followed \(broken pipe\)$", err, re.M), err)
        check.ok("the lines of the server", "the last lines of server[0]:\n" in err, err)


def test_run_shows_the_failed_line_without_secrets(check):
    """The verdict has the line as the job has it: without the secret, which is nowhere."""
    with Place() as p:
        failing = role("true; test <% $secrets.pw %> = x") | {"commands": ["true", "true\ntest <% $secrets.pw %> = x", "echo on"]}
        document = json.loads(job("line", worker=failing, other=role("sleep 1000"))) | {"secrets": {"pw": "S3CRET-VALUE"}}
        code, out, err = p.run(json.dumps(document))
        line = "line 3 of the commands ended with exit code 1: test <% $secrets.pw %> = x"
        check.ok("the line", code == 1 and f"\n            {line}\n" in err, (code, out, err))
        check.ok("the first failure", re.search(rf"^  first:    worker\[0\] failed first \(.*\): {re.escape(line)}$", err, re.M), err)
        check.ok("no secret", "S3CRET" not in out + err, (out, err))
        code, out, err = p.run(job("unset", worker=role("echo $GONE")))
        check.ok("a variable", code == 1 and "the variable GONE is not set: line 1 of the commands: echo $GONE\n" in err, (code, err))


def test_run_mounts_only_the_named_directories(check):
    """Tasks can read the current directory and use others as --mount permits; files that they write
    remain."""
    with Place() as p:
        p.write("data", "from here\n")
        for name in ("in", "out", "out/empty"):
            os.mkdir(os.path.join(p.root, name))
        p.write("../in/data", "from there\n")
        command = "echo late >/out/empty/x; cat data /in/data /data/empty/x; echo new >/out/new; echo x >data || :; echo x >/in/data || :; pwd"
        mounts = ("../in:/in", "../out:/out:rw", "../out:/data", "../out/empty:/data/empty", "../in:/data/new")
        code, out, err = p.run(job("dirs", worker=role(command)), "--mount", ",".join(mounts))
        if "without a sandbox" in err:
            check.equal("refused without a sandbox", (code, out), (2, ""))
            return
        check.ok("seen", code == 0 and all(text in out for text in ("from here", "from there", p.cwd)), (code, out, err))
        check.ok("what was empty, too", "late" in out, (out, err))
        check.ok("written", os.path.exists(os.path.join(p.root, "out", "new")))
        note = f"note: tasks start in {p.cwd} and cannot write there; --mount .:rw lets them"
        check.equal("that they cannot write is said once, first", (err.count(note), err.count("--mount"), err.find(note) < err.find("SUCCEEDED")), (1, 1, True))
        code, out, err = p.run(job("writes", worker=role("echo result >result")), "--mount", ".:rw")
        check.ok("nothing is said if they can", code == 0 and "cannot write" not in err and os.path.exists(os.path.join(p.cwd, "result")), (code, err))
        for name in ("data", "../in/data"):
            with open(os.path.join(p.cwd, name), encoding="utf-8") as f:
                check.ok("not changed", f.read().startswith("from"), (name, err))


def test_run_draws_a_block_on_a_terminal(check):
    """A block with the last lines, no wider than the terminal; its last state stays."""
    with Place() as p:
        until = "while [ ! -e %s ]; do sleep 0.1; done; "
        for columns in (40, 100):
            command = (f"for i in 1 2 3; do echo line $i $(printf %0200d 7); done; {until % f'lines{columns}'}"
                       "printf 'bar 10%%\\rbar 90%%'")
            with p.start(job("shown", worker=role(command, instances=2)), columns=columns, both=True) as c:
                check.ok("a bar", c.says("[==="), c.stderr)
                check.ok("the last line", c.says("worker[1]  line 3 000"), c.stderr)
                p.write(f"lines{columns}", "")
                check.ok("a line without end", c.says("worker[1]  bar 90%"), c.stderr)
                check.equal("ends", c.end(), 0)
                lines, written = screen_of(c.stderr)
                check.ok("no wider", max(len(line) for line in written if line[:5] in ("shown", "  wor")) < columns, written)
                check.ok("stays", lines[-4:-1] and lines[-2].startswith("  worker[1]  bar 90%") and
                         any(line.startswith("shown  SUCCEEDED") for line in lines), lines)
        both = job("logs", a=role("echo one; sleep 1000"), b=role(f"echo two; {until % 'one'} exit 3"))
        with p.start(both, "--logs", columns=100, both=True) as c:
            check.ok("a line", c.says("| \x1b[0mone"), c.stderr)
            p.write("one", "")
            check.equal("fails", c.end(), 1)
            lines, _ = screen_of(c.stderr)
            check.ok("all output", "a[0] | one" in lines and "b[0] | two" in lines, lines)
            check.ok("in colours", re.search(r"\x1b\[3[2-6]ma\[0\] \| \x1b\[0m", c.stderr), c.stderr)
            check.ok("why", any("the command ended with 3" in line for line in lines), lines)
            check.ok("no other escapes", ESCAPE not in re.sub(r"\x1b\[(\d*[AJ]|\d*m)", "", c.stderr), plain(c.stderr))


def test_run_shows_the_gpus_of_each_task(check):
    """The block has the GPUs of each task."""
    with Place(gpus=2) as p, p.start(
            job("held", worker=role("while [ ! -e go ]; do sleep 0.1; done", gpu=1, instances=2)), columns=100, both=True) as c:
        check.ok("GPUs", c.says("running, 1 GPU each"), c.stderr)
        p.write("go", "")
        check.equal("ends", c.end(), 0)


def test_run_hides_its_socket_from_others(check):
    """The server of a run answers no other user, and its tasks cannot see its socket."""
    with Place() as p:
        look = f"find {p.state} /all -name socket -o -name store.db 2>/dev/null || :; echo looked; sleep 1000"
        with p.start(job("mine", worker=role(look)), "--mount", f"{p.root}:/all") as c:
            check.ok("runs", wait_until(lambda: "looked" in c.stdout), (c.stdout, c.stderr))
            check.equal("hidden", c.stdout, "looked\n")
            where = os.path.join(p.state, "rest-lit", "run", p.left()[0])
            check.equal("modes", [os.stat(os.path.join(where, name)).st_mode & 0o077 for name in (".", "jobs")], [0, 0])
            for path in ("/api/v2/jobs", "/api/v2/jobs/alice~mine/executionType"):
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(os.path.join(where, "socket"))
                    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                    answer = s.makefile().read()
                    check.ok(path, answer.startswith("HTTP/1.1 403 ") and "only the process" in answer, answer)
            c.process.send_signal(signal.SIGINT)
            check.equal("ends", c.end(), 3)


def test_run_works_with_a_long_path(check):
    """The path of the files may be longer than that of a socket can be."""
    with Place() as p:
        p.more["environment"]["XDG_STATE_HOME"] = os.path.join(p.state, *["directory"] * 20)
        code, out, err = p.run(job("far", worker=role("echo far")))
        check.equal("runs", (code, out), (0, "far\n"))


def test_run_takes_its_tasks_with_it_when_killed(check):
    """Tasks end with their `run` if it is killed or its terminal closes; the next run removes the
    remaining files."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # of this worker and its children: the tests may run under nohup
    text = job("tied", worker=role("trap 'while [ ! -e gone ]; do sleep 0.1; done; exit 0' TERM; echo ready; while :; do sleep 0.1; done"))
    with Place() as p:
        tied = json.loads(text)
        tied["taskRoles"]["worker"]["commands"] = [p.marked(tied["taskRoles"]["worker"]["commands"][0])]
        text = json.dumps(tied)
        with p.start(text) as c:
            check.ok("runs", c.says("ready"), (c.stdout, c.stderr))
            c.process.kill()
            c.end()
            check.equal("another one meanwhile", p.run(job("next", worker=role("true")))[0], 0)
            check.ok("its files are left in the grace period", len(p.left()) == 1 and wait_until(p.processes), (p.left(), p.processes()))
            p.write("gone", "")
            check.ok("its task ends", wait_until(lambda: not p.processes()), p.processes())
        check.equal("its files are left", len(p.left()), 1)
        old = p.left()

        def cleaned():
            return p.run(job("next", worker=role("true")))[0] == 0 and not p.left()
        check.ok("... until the next one", wait_until(cleaned), (old, p.left()))
        with p.start(text, columns=80, both=True) as c:
            check.ok("runs", c.says("worker[0]  ready"), c.stderr)
            os.kill(c.process.pid, signal.SIGHUP)
            check.equal("the terminal closes", c.end(), 3)
            check.ok("nothing is left", not p.left() and not p.processes(), (p.left(), p.processes()))
        ending = job("on", worker=role("echo ready; while [ ! -e go ]; do sleep 0.1; done; echo end"))
        with subprocess.Popen(["nohup", BINARY, "run", *p.arguments, "-"], cwd=p.cwd, stdin=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env={**os.environ, **p.more["environment"]}) as process:
            process.stdin.write(ending)
            process.stdin.close()
            check.equal("nohup runs", process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGHUP)
            p.write("go", "")
            check.equal("nohup goes on", (process.stdout.read(), process.wait(2 * PATIENCE * SLOW)), ("end\n", 0))
        with p.start(job("full", worker=role(p.marked("while :; do echo more; sleep 0.1; done")))) as c:
            check.ok("runs", c.says("more"), (c.stdout, c.stderr))
    with Place() as p, subprocess.Popen(
            [BINARY, "run", *p.arguments, "-"], cwd=p.cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **p.more["environment"]}) as process:
        process.stdin.write(job("head", worker=role(p.marked("while :; do echo more; sleep 0.1; done"))).encode())
        process.stdin.close()
        process.stdout.readline()
        process.stdout.close()
        check.equal("nobody reads", process.wait(2 * PATIENCE * SLOW), 3)
        check.ok("nothing is left", not p.left() and not p.processes(), (p.left(), p.processes()))


def test_run_stops_jobs_at_their_time_limit(check):
    """extras.maxDurationSec and --max-duration stop the job; more than --max-duration is refused."""
    with Place() as p:
        limited = json.loads(job("limited", worker=role("sleep 1000")))
        limited["extras"] = {"maxDurationSec": 2}
        limited["jobRetryCount"] = 3
        code, out, err = p.run(json.dumps(limited))
        check.ok("stopped", code == 1 and re.search(r"^limited STOPPED after .*exit code -210", err, re.M), (code, err))
        check.ok("why", re.search(r"^  reason: .*after 2 seconds, its time limit", err, re.M), err)
        check.ok("said when it is being stopped", re.search(r" STOPPING  worker .* after 2 seconds, its time limit", err), err)
        code, out, err = p.run(job("bounded", worker=role("sleep 1000")), "--max-duration", "1")
        check.ok("by the option", code == 1 and "after 1 seconds, its time limit" in err, (code, err))
        code, out, err = p.run(json.dumps(limited), "--max-duration", "1")
        check.ok("refused", code == 2 and not out and re.search(
            r"extras.maxDurationSec: must be at most 1, the limit for all jobs \(--max-duration\), is 2$", err, re.M), (code, err))
