"""The command line: submit, jobs, show, stop.  cli_follow.py tests waiting for a job."""
import contextlib
import fcntl
import json
import os
import pty
import re
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import time

from fakeserver import JOB, FakeServer
from harness import BINARY, PATIENCE, SANITIZERS, SLOW, Server, command_line, in_threads, job_v1, job_v2, wait_until
from tls import TlsServer
from tokens import SECRET, token, write_file

ESCAPE = "\x1b"


class Cli:
    """A running rest-lit and its output so far.  With `columns`, stderr is a terminal, and with
    both=True also stdout."""

    def __init__(self, *arguments, text=None, columns=None, both=False, environment=None, cwd=None):
        self.out, self.err = bytearray(), bytearray()
        self.master = None
        env = {**os.environ, "TERM": "xterm", "TZ": "UTC", "NO_COLOR": "", **(environment or {})}
        stderr = subprocess.PIPE
        if columns:
            self.master, stderr = pty.openpty()
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            command_line([BINARY], arguments), stdin=subprocess.PIPE, stdout=stderr if both else subprocess.PIPE,
            stderr=stderr, env=env, cwd=cwd)
        with contextlib.suppress(BrokenPipeError):  # it may not read it, and end
            self.process.stdin.write((text or "").encode())
            self.process.stdin.close()
        if columns:
            os.close(stderr)
        self.threads = [threading.Thread(target=self.read, args=(self.process.stdout, "out"), daemon=True)
                        if not both else None,
                        threading.Thread(target=self.read, args=(self.process.stderr, "err"), daemon=True)]
        for t in filter(None, self.threads):
            t.start()

    def read(self, stream, name):
        fd = self.master if name == "err" and self.master is not None else stream.fileno()
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:  # closed terminal
                return
            if not data:
                return
            getattr(self, name).extend(data)

    @property
    def stdout(self):
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def stderr(self):
        return self.err.decode("utf-8", "surrogateescape")

    def says(self, text):
        """True if it prints this in time."""
        wait_until(lambda: text in self.stderr + self.stdout or self.process.poll() is not None)
        return text in self.stderr + self.stdout

    def end(self):
        """Its exit code."""
        try:
            code = self.process.wait(2 * PATIENCE * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = None
        for t in filter(None, self.threads):
            t.join(PATIENCE * SLOW)
        if self.master is not None:
            os.close(self.master)
            self.master = None
        found = SANITIZERS.search(self.stderr)
        return f"sanitizer: {found.group(0)[:2000]}" if found else code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.end()


def cli(*arguments, **more):
    """Runs it until it exits: (code, stdout, stderr)."""
    with Cli(*arguments, **more) as c:
        code = c.end()
        return code, c.stdout, c.stderr


@contextlib.contextmanager
def keeper(*options, **more):
    """A server that only keeps jobs, and the options of a command for it."""
    with Server("--engine=none", "--local", "jobs", *options, **more) as s:
        yield s, ("--server", f"http://127.0.0.1:{s.port}")


# ---- with a real server ---------------------------------------------------------------------
def test_cli_submits_lists_shows_and_stops_jobs(check):
    """Submit, list, show, stop; by name and by USER~NAME."""
    with keeper() as (s, at):
        code, out, err = cli("submit", *at, "-", text=job_v2("one"))
        check.equal("submit", (code, out, err), (0, "alice~one\n", ""))
        code, out, err = cli("submit", *at, "-", text=job_v1("two"))
        check.equal("submit v1", (code, out), (0, "alice~two\n"))
        code, out, err = cli("submit", *at, "-", text=job_v2("one"))
        check.ok("again", code == 2 and "already exists" in err and not out, (code, out, err))
        code, out, err = cli("jobs", *at)
        lines = out.splitlines()
        check.ok("jobs: head", lines[0].split() == ["NAME", "USER", "STATE", "AGE", "DURATION", "TASKS", "GPUS", "VC", "REASON"], out)
        check.ok("jobs: rows", re.fullmatch(
            r"two +alice +WAITING +\d+[sm] +- +1 +0 +default +NoEngine: .*nothing runs them", lines[1]) and
            lines[2].startswith("one ") and len(lines) == 3, out)
        for columns, end in ((100, "..."), (160, "nothing runs them")):
            with Cli("jobs", *at, columns=columns, both=True) as c:
                check.equal(f"jobs: on a terminal of {columns}", c.end(), 0)
                check.equal("jobs: states have colours", c.stderr.count("\x1b[33mWAITING\x1b[0m"), 2)
                rows = re.sub(r"\x1b\[\d+m", "", c.stderr).splitlines()
            check.equal("jobs: rows on a terminal", len(rows), 3)
            check.ok("jobs: no wider than it", all(len(row) < columns for row in rows), rows)
            check.ok("jobs: the reason, as much as fits", "NoEngine" in rows[1] and rows[1].endswith(end), rows)
        code, out, err = cli("jobs", *at, "-o", "json", "--limit", "1")
        check.ok("jobs: how many there are", "latest 1 of 2 jobs" in err and "--limit" in err, err)
        check.ok("jobs: json", code == 0 and [j["name"] for j in json.loads(out)] == ["two"], out)
        code, out, err = cli("jobs", *at, "--user", "bob", "--state", "running,waiting")
        check.ok("jobs: of others", code == 0 and len(out.splitlines()) == 1, (out, err))
        code, out, err = cli("jobs", *at, "--state", "nonsense")
        check.ok("jobs: no such state", code == 2 and "nonsense" in err and "SUCCEEDED" in err, (code, out, err))
        for name in ("one", "alice~one"):
            with Cli("show", *at, name, columns=80, both=True) as c:
                check.ok(f"show {name}: its state has a colour", c.end() == 0 and re.match("alice~one \x1b\\[3[35]m(WAITING|STOPPING)\x1b\\[0m\r\n", c.stderr), c.stderr)
            code, out, err = cli("show", *at, name)
            check.ok(f"show {name}", code == 0 and re.match("alice~one (WAITING|STOPPING)\n", out), (code, out, err))
            code, out, err = cli("stop", *at, name)
            check.ok(f"stop {name}", code == 0 and "alice~one" in err, (code, out, err))
        code, out, err = cli("show", *at, "-o", "json", "one")
        check.ok("stopped", json.loads(out)["jobStatus"].get("executionType", "STOP") == "STOP", out)
        for command in ("show", "stop"):
            code, out, err = cli(command, *at, "nothing")
            check.ok(f"{command}: there is none", code == 2 and "404" in err, (code, out, err))


def test_cli_converts_jobs_of_any_dialect(check):
    """A job of each dialect as a v2 job; mistakes look like those of validate.  tests/golden/converted.c and
    tests/fuzz/fuzz_read.c convert many jobs."""
    code, out, err = cli("convert", "-", text=job_v1("old"))
    check.ok("v1", code == 0 and out.startswith("# Written by") and "\nname: old\n" in out, (code, out))
    check.ok("what is lost", "<stdin>: warning: variables that only v1 jobs have" in err, err)
    code, same, err = cli("convert", "-", text=out)
    check.ok("v2", code == 0 and not err and out.endswith("\n" + same), (code, same, err))
    for name in ("mxjob/03-mxnet.mlkube-dist.yaml", "launcher/launcher-framework-1.yaml"):
        code, out, err = cli("convert", f"tests/corpus/{name}")
        check.ok(name, code == 0 and "\nprotocolVersion: 2\n" in out, (code, out, err))
    cases = [f"tests/hostile/cases/{name}" for name in sorted(os.listdir("tests/hostile/cases"))]
    said = cli("validate", *cases)[1]
    check.ok("no escapes", ESCAPE not in said, said)
    for path in [case for case in cases if f"{case}: valid\n" not in said][::20]:
        code, out, err = cli("convert", path)
        check.equal(f"{path}: status", (code, out), (1, ""))
        check.equal(f"{path}: as validate", sorted(err.splitlines()),
                    sorted(line for line in said.splitlines() if line.startswith(f"{path}:")))
    for arguments in ([], ["a", "b"], ["/nowhere"], ["--nonsense"]):
        check.equal(f"usage {arguments}", cli("convert", *arguments)[0], 2)


def test_cli_translate_indents_json_as_python_does(check):
    """A line for each member, as other programs write JSON with two spaces; strings are not touched."""
    odd = "\\\\ \" {\"a\": [1, 2], \\n\\u00e9} [] {} , : \u00e9 \U0001f600 \t \x7f \\"
    code, out, err = cli("translate", "-o", "json", "-", text=job_v2("odd", parameters={"a": odd}, extras={"x": [[], {}, [[]], odd]}))
    check.equal("translated", (code, err), (0, ""))
    check.equal("as Python writes it", out, json.dumps(json.loads(out), indent=2, ensure_ascii=False) + "\n")
    config = next(o for o in json.loads(out)["items"] if o["kind"] == "Framework")["metadata"]["annotations"]["config"]
    check.equal("the same text", json.loads(config)["parameters"]["a"], odd)
    code, out, err = cli("translate", "-o", "json", "tests/bench/large.yaml")
    check.ok("many pieces, deep levels", len(out) > 1 << 20 and "\n" + 34 * " " in out, len(out))
    check.ok("a large one as Python writes it", out == json.dumps(json.loads(out), indent=2, ensure_ascii=False) + "\n")


def test_cli_shows_refusals_like_validate(check):
    """Errors and warnings look like those of validate."""
    with keeper() as (s, at):
        broken = json.loads(job_v2("broken"))
        del broken["type"]
        broken["nonsense\x1b[2J"] = 1
        text = json.dumps(broken, indent=1)
        code, out, err = cli("submit", *at, "-", text=text)
        check.ok("refused", code == 2 and not out, (code, out))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            f.write(text)
            f.flush()
            _, same, _ = cli("validate", f.name)
            _, _, err = cli("submit", *at, f.name)
        check.equal("as validate", sorted(err.splitlines()), sorted(same.splitlines()))
        check.ok("no escapes", ESCAPE not in err, err)
        code, out, err = cli("submit", *at, "-", text="/* c */ " + job_v1("warned"))
        check.ok("warning", code == 0 and "<stdin>:1:1: warning: " in err and out == "alice~warned\n", (code, out, err))
        code, out, err = cli("submit", *at, "--dry-run", "-", text=job_v2("dry"))
        check.ok("dry run", code == 0 and json.loads(out)["kind"] == "List", (code, out[:200], err))
        code, out, err = cli("show", *at, "dry")
        check.equal("nothing was made", code, 2)
        with open("/dev/full", "w") as full:
            for command in (["submit", *at, "-"], ["jobs", *at]):
                done = subprocess.run([BINARY, *command], input=job_v2("full").encode(), stdout=full, stderr=subprocess.PIPE)
                check.equal("closed output", done.returncode, 3)
    with FakeServer() as fake:
        fake.answers = [(200, {}, b"<html>\n")]
        code, out, err = cli("submit", "--server", fake.url, "-", text=job_v2("job"))
        check.ok("no such server", code == 3 and "answers 200" in err and not out, (code, out, err))


def test_cli_finds_usage_errors_without_a_request(check):
    """Errors that are found without a request."""
    for name, arguments in {
            "no file": ["submit"], "two files": ["submit", "a", "b"], "no such file": ["submit", "/nonexistent"],
            "both on stdin": ["submit", "--token-file", "-", "-"], "dry run to wait for": ["submit", "--dry-run", "--wait", "-"],
            "jobs of a file": ["jobs", "x"], "yaml": ["jobs", "-o", "yaml"], "which job": ["show"], "two jobs": ["show", "a", "b"],
            "http to others": ["jobs", "--server", "http://pai.example"],
            "http to others, with a name like ours": ["jobs", "--server", "http://localhost.example"],
            "a password in the address": ["jobs", "--server", "https://alice:secret@pai.example"],
            "no address": ["jobs", "--server", "pai.example:x"], "no CA": ["jobs", "--ca-file", "/nonexistent"],
            "no token file": ["jobs", "--token-file", "/nonexistent"], "empty token": ["jobs", "--token-file", "-"]}.items():
        code, out, err = cli(*arguments)
        check.ok(name, code == 2 and err and not out and "secret" not in err, (code, out, err))
    code, out, err = cli("jobs", "--token-file", "-", text="two words")
    check.ok("no token", code == 2 and "two words" not in err, (code, err))
    for typed, meant in (("stpo", "stop"), ("lgos", "logs"), ("trans", "translate")):
        code, out, err = cli(typed)
        check.equal(f"{typed}: the nearest command", (code, out, err), (2, "", f"rest-lit: unknown command {typed}, did you mean {meant}? rest-lit --help lists all\n"))
    code, out, err = cli("\x1b[2J")
    check.ok("none is near: all are listed", code == 2 and not out and ESCAPE not in err and "did you mean" not in err and "\n  submit " in err, err)
    check.ok("the nearest option", "unknown option --wiat, did you mean --wait?" in cli("submit", "--wiat", "-")[2])
    check.ok("help", all(cli(c, "--help")[0] == 0 for c in ("submit", "jobs", "show", "stop")))


def test_cli_reads_tokens_from_files(check):
    """Tokens from a file; an invalid token is refused."""
    with tempfile.TemporaryDirectory() as folder:
        secret = write_file(folder, "jwt-secret", SECRET)
        with keeper(who=["--jwt-secret-file", secret]) as (s, at):
            good = token("alice")
            name = write_file(folder, "token", good + "\n")
            code, out, err = cli("submit", *at, "--token-file", name, "-", text=job_v2("mine"))
            check.equal("good", (code, out, err), (0, "alice~mine\n", ""))
            code, out, err = cli("jobs", *at, "--token-file", "-", text=good)
            check.ok("on standard input", code == 0 and "mine" in out, (code, err))
            code, out, err = cli("jobs", *at, environment={"REST_LIT_TOKEN_FILE": name})
            check.equal("by the environment", code, 0)
            bad = good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB")
            for arguments in (["submit", "-"], ["jobs"], ["show", "mine"], ["stop", "mine"]):
                wrong = write_file(folder, "wrong", bad)
                code, out, err = cli(*arguments[:1], *at, "--token-file", wrong, *arguments[1:], text=job_v2("x"))
                check.ok(f"bad: {arguments[0]}", code == 2 and "401" in err and bad not in err, (code, err))
            code, out, err = cli("submit", *at, "-", text=job_v2("x"))
            check.ok("none", code == 2 and "401" in err, (code, err))


def test_cli_always_verifies_certificates(check):
    """TLS verification uses the given CA or the system's, and cannot be disabled."""
    with TlsServer() as s:
        name = write_file(s.folder, "token", token("alice"))
        at = ("--server", f"https://localhost:{s.port}", "--token-file", name)
        code, out, err = cli("submit", *at, "--ca-file", s.file("ca.crt"), "-", text=job_v2("safe"))
        check.equal("own CA", (code, out), (0, "alice~safe\n"))
        before = time.monotonic()
        code, out, err = cli("submit", *at, "-", text=job_v2("unsafe"))
        check.ok("the machine's CAs do not know it", code == 3 and "cert" in err.lower() and "trying" not in err, (code, err))
        check.ok("... which is known at once", time.monotonic() - before < 60 * SLOW)
        code, out, err = cli("jobs", "--server", f"https://127.0.0.2:{s.port}", "--token-file", name, "--ca-file",
                             s.file("ca.crt"))
        check.ok("another name", code == 3, (code, err))
        code, out, err = cli("jobs", *at, "--ca-file", s.file("ca.crt"))
        check.ok("only one was submitted", "unsafe" not in out and "safe" in out, out)
        with Cutter(s.port, (1, 6, 200)) as cutter:
            at = ("--server", f"https://localhost:{cutter.port}", "--token-file", name, "--ca-file", s.file("ca.crt"))
            code, out, err = cli("submit", *at, "-", text=job_v2("persistent"))
            check.equal("the server dies during three handshakes", (code, out), (0, "alice~persistent\n"))
            check.ok("... which is said", "the server ended" in err and "trying again" in err, err)
    with FakeServer() as fake:
        code, out, err = cli("submit", "--server", fake.url.replace("http:", "https:"), "--patience", "1", "-", text=job_v2("x"))
        check.ok("a port without TLS", code == 3 and "does not speak TLS on this port" in err, (code, err))


class Cutter:
    """Forwards connections to a port.  It closes the first ones after so many bytes of the answer."""

    def __init__(self, port, cuts):
        self.to, self.cuts = port, list(cuts)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        try:
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.to))
                left = self.cuts.pop(0) if self.cuts else 1 << 30
                threading.Thread(target=self.copy, args=(client, server, 1 << 30), daemon=True).start()
                threading.Thread(target=self.copy, args=(server, client, left), daemon=True).start()
        except OSError:
            pass  # the end

    def copy(self, source, target, left):
        try:
            while left and (data := source.recv(min(left, 65536))):
                target.sendall(data)
                left -= len(data)
        except OSError:
            pass
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


# ---- with a fake server ---------------------------------------------------------------------
def test_cli_retries_submissions_with_the_same_key(check):
    """A submission with a lost response or 503 is retried with the same key."""
    def retried(answers):
        """The keys of a submission that is taken after these answers."""
        with FakeServer() as fake:
            fake.answers = list(answers)
            code, out, err = cli("submit", "--server", fake.url, "-", text=job_v2("job"))
            check.ok("taken at last", code == 0 and out == f"{JOB}\n", (code, out, err))
            keys = [h.get("Idempotency-Key") for m, _, h, _ in fake.requests if m == "POST"]
            check.ok("each time one key", len(keys) == len(answers) + 1 and len(set(keys)) == 1 and keys[0], keys)
            check.equal("said once", err.count("trying again"), 1)
            return keys[0]
    keys = in_threads((["cut", (503, {"Retry-After": "1"}, {"message": "not now"})], [(429, {}, {"message": "slowly"})],
                       [(502, {}, b"<html>")], [(409, {}, {"code": "IdempotencyError", "message": "in progress"})]), retried)
    check.equal("another key each time", len(set(keys)), 4)
    with FakeServer() as fake:
        fake.answers = [(500, {}, {"message": "broken"})]
        code, out, err = cli("submit", "--server", fake.url, "-", text=job_v2("job"))
        check.ok("500 is told", code == 3 and "broken" in err and len(fake.requests) == 1, (code, err))
        fake.answers = [(503, {}, {"message": "not now"})] * 50
        code, out, err = cli("submit", "--server", fake.url, "--patience", "1", "-", text=job_v2("job"))
        check.ok("patience ends", code == 3 and "not now" in err, (code, err))
        code, out, err = cli("submit", "--server", fake.url, "--timeout", "1", "-", text=job_v2("job"))
        check.ok("so does --timeout", code == 3, (code, err))
        fake.answers = [(307, {"Location": f"{fake.url}/elsewhere"}, b"")]
        code, out, err = cli("submit", "--server", fake.url, "-", text=job_v2("job"))
        check.ok("no redirects", code == 3 and fake.count("POST", "/elsewhere") == 0, (code, err))
        fake.answers = [(400, {}, {"message": "bad \x1b[2J"})]
        code, out, err = cli("submit", "--server", fake.url, "-", text=job_v2("job"))
        check.ok("refused, visibly", code == 2 and "bad \\x1b[2J" in err, (code, err))
    code, out, err = cli("submit", "--server", fake.url, "--patience", "3", "-", text=job_v2("job"))
    check.ok("no server", code == 3 and "trying again" in err, (code, err))
    for command in (("jobs",), ("show", "job"), ("stop", "job")):
        before = time.monotonic()
        code, out, err = cli(*command, "--server", fake.url)
        check.ok(f"{command[0]}: says so at once", code == 3 and "cannot connect" in err and "trying" not in err and
                 time.monotonic() - before < 60 * SLOW, (code, out, err))


def test_cli_list_shows_age_duration_and_reason(check):
    """Age, duration and reason of jobs; how many more there are."""
    minute = 60 * 1000
    now = int(time.time() * 1000) - minute // 30

    def row(name, state, submitted, launched, completed, code):
        return {"name": name, "username": "alice", "state": state, "submissionTime": submitted, "launchedTime": launched,
                "completedTime": completed, "appExitCode": code, "totalTaskNumber": 2, "totalGpuNumber": 8,
                "virtualCluster": "default"}
    rows = [row("fresh", "WAITING", now - 5000, None, None, None),
            row("runs", "RUNNING", now - 185 * minute, now - 61 * minute, None, None),
            row("broken", "FAILED", now - 4 * 1440 * minute - 361 * minute, now - 4000 * minute, now - 3988 * minute, 250),
            row("done", "SUCCEEDED", now - 40 * 1440 * minute, now - 3000 * minute, now - 3000 * minute + 7000, 0)]
    with FakeServer() as fake:
        fake.lists = [(200, {}, {"totalCount": 68, "data": rows})]
        code, out, err = cli("jobs", "--server", fake.url, "--limit", "4")
    lines = [line.split() for line in out.splitlines()]
    check.equal("running", lines[2], ["runs", "alice", "RUNNING", "3h5m", "1h1m", "2", "8", "default", "-"])
    check.equal("failed", lines[3], ["broken", "alice", "FAILED", "4d6h", "12m", "2", "8", "default",
                                     "FrameworkBarrierTransientFailed", "(250)"])
    check.equal("succeeded", lines[4], ["done", "alice", "SUCCEEDED", "40d", "7s", "2", "8", "default", "-"])
    check.ok("waiting", re.fullmatch(r"\d+[sm]\d*s?", lines[1][3]) and lines[1][4] == "-", out)
    check.ok("how many more", code == 0 and "latest 4 of 68 jobs" in err, (code, err))
