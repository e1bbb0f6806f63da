"""Sessions in tasks: `exec`, `open` and `run --pty`, by a pseudo-terminal, and by requests.
TEST_WHOLE=1: 1000 sessions that end in every way, 5000 entries beside a hostile task; else fewer."""
import contextlib
import fcntl
import glob
import http.client
import json
import os
import pty
import re
import shlex
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import time

from commands import Here
from harness import BINARY, PATIENCE, USER, run, wait_until
from images import image, prepare
from machine import Machine, job as job_text, processes_with, role
from serving import FORBID, as_user

WHOLE = os.environ.get("TEST_WHOLE") == "1"
ENDS, ENTRIES = (1000, 5000) if WHOLE else (24, 60)
FRAME, STREAM = {"Content-Type": "application/octet-stream"}, 65000
OUT, ERR, STATUS, SIZE, CLOSE = 1, 2, 3, 4, 255


def frame(channel, data=b""):
    return bytes([channel]) + struct.pack(">I", len(data))[1:] + data


class Terminal:
    """A program with a terminal, and all that it has written there."""

    def __init__(self, *words, rows=24, columns=80, **more):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.mode = termios.tcgetattr(slave)
        self.slave = slave

        def controls():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        more["env"] = {**os.environ, **more.pop("env", {}), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, preexec_fn=controls, **more)  # noqa: PLW1509
        self.out, self.seen = b"", 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 65536):
                self.out += data

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            data = data[os.write(self.master, data):]

    def says(self, pattern):
        """The match of the next output, in time."""
        found = []

        def look():
            m = re.search(pattern.encode(), self.out[self.seen:])
            if m:
                self.seen += m.end()
                found.append(m)
            return m
        return found[0] if wait_until(look) and found else None

    def ask(self, command, pattern):
        """Types a line, whose echo does not count."""
        self.type(command + "\r")
        return self.says(pattern)

    def begin(self, command):
        """Types a command, and waits until the shell has left the terminal to it."""
        self.ask(f"echo =in=; {command}", "=in=\r\n")
        time.sleep(0.2)

    def is_as_before(self):
        return termios.tcgetattr(self.slave) == self.mode

    def end(self):
        """The exit status."""
        try:
            return self.process.wait(PATIENCE * 6)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "no end"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)


class Session:
    """A session by its three requests."""

    def __init__(self, m, job, headers=None, **body):
        self.m, self.headers = m, headers or {}
        self.start = m.request("POST", f"/api/v2/jobs/{job}/exec", json.dumps(body).encode(),
                               {"Content-Type": "application/json", **self.headers})
        self.output = self.input = None
        if self.start.status == 201:
            self.path = f"/api/v2/sessions/{self.start.json['id']}"
            self.output = self.get()
            self.input = self.put()

    def get(self):
        c = http.client.HTTPConnection("127.0.0.1", self.m.port, timeout=PATIENCE * 6)
        c.request("GET", self.path, headers=self.headers)
        return c.getresponse()

    def put(self):
        s = socket.create_connection(("127.0.0.1", self.m.port))
        lines = {"Host": f"127.0.0.1:{self.m.port}", "Transfer-Encoding": "chunked", **FRAME, **self.headers}
        head = "".join(f"{k}: {v}\r\n" for k, v in lines.items())
        s.sendall(f"PUT {self.path} HTTP/1.1\r\n{head}\r\n".encode())
        return s

    def raw(self, data):
        with contextlib.suppress(OSError):
            self.input.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def send(self, channel, data=b""):
        self.raw(frame(channel, data))

    def take(self, n):
        data = b""
        while len(data) < n and (piece := self.output.read1(n - len(data))):
            data += piece
        return data

    def next(self):
        """The next frame; None at the end."""
        head = self.take(4)
        return (head[0], self.take(int.from_bytes(head[1:], "big"))) if len(head) == 4 else None

    def rest(self):
        """What is left, by channel, and the last status."""
        found, last = {}, None
        while one := self.next():
            found[one[0]] = found.get(one[0], b"") + one[1]
            last = one[1].decode() if one[0] == STATUS else last
        return found, last

    def close(self):
        for one in (self.output, self.input):
            if one:
                one.close()


def words_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read().split(b"\0")


def sessions_of(m):
    """Pids of the helpers of this machine, and of `shim --inside` in its tasks."""
    found, spaces = {"--enter": [], "--inside": []}, set()
    for path in glob.glob(os.path.join(m.where, "pods", "*", "pid")):
        with contextlib.suppress(OSError):
            with open(path, encoding="ascii") as f:
                spaces.add(os.readlink(f"/proc/{f.read().split()[0]}/ns/mnt"))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = words_of(pid)
            if b"--enter" in words and m.where.encode() in words[-2]:
                found["--enter"].append(int(pid))
            elif b"--inside" in words and os.readlink(f"/proc/{pid}/ns/mnt") in spaces:
                found["--inside"].append(int(pid))
    return found


class Ground:
    """A machine with a job of one task that goes on until it is told to end; `name` by exec."""

    def __init__(self, *arguments, commands=("sleep 3600",), job=None, **more):
        identity = {} if "inside" in more else as_user() or {}
        self.m = Machine(*arguments, **{**identity, **more})
        self.m.start("task", {"main": role(*commands)}, **(job or {}))
        self.m.wait("task", "RUNNING")
        wait_until(lambda: self.exec("true")[0] == 0)

    def words(self, *words, options=(), target="task"):
        return [BINARY, "exec", "--server", f"http://127.0.0.1:{self.m.port}", *options, target, *(["--", *words] if words else [])]

    def exec(self, *words, text=b"", **more):
        """(code, stdout, stderr)"""
        done = subprocess.run(self.words(*words, **more), input=text, capture_output=True, check=False, timeout=PATIENCE * 12)
        return done.returncode, done.stdout, done.stderr.decode()

    def sessions(self):
        return sessions_of(self.m)

    def is_quiet(self):
        """No session is left, in time."""
        return wait_until(lambda: self.sessions() == {"--enter": [], "--inside": []}, 30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.m.close()


# ---- a command --------------------------------------------------------------------------------------
def test_exec_runs_a_command_in_a_task(check):
    """With its files, variables and directory; streams, exit status and all bytes arrive as they are."""
    with Ground() as g:
        code, out, err = g.exec("sh", "-c", 'echo "$PAI_TASK_ROLE_TASK_COUNT_main"; echo oops >&2; [ -t 0 ] || echo none; exit 9')
        check.equal("streams and code", (code, out, err), (9, b"1\nnone\n", "oops\n"))
        check.equal("a command that is not there", g.exec("nope")[::2], (127, "rest-lit: cannot start nope: No such file or directory\n"))
        check.equal("a signal", g.exec("sh", "-c", "kill -9 $$")[0], 137)
        check.equal("a broken pipe is the default", g.exec("sh", "-c", "kill -13 $$")[0], 141)
        data = os.urandom(3000017)
        check.ok("any bytes, both ways", g.exec("cat", text=data)[:2] == (0, data))
        check.equal("its input ends", g.exec("wc", "-c", text=b"x" * 70000)[:2], (0, b"70000\n"))
        check.ok("one that does not read its input", g.exec("sh", "-c", "exec <&-; sleep .2; echo end", text=data)[:2] == (0, b"end\n"))
        check.equal("named in full", g.exec("true", target=f"{USER}~task/main/0")[0], 0)
        for target, words in (("task/other", "does not run"), ("task/main/7", "task 7 of main"), ("task/main/x", "JOB/ROLE/INDEX"),
                              ("tusk", "did you mean")):
            code, _, err = g.exec("true", target=target)
            check.ok(f"{target}: it is said", code == 125 and words in err, (code, err))
        check.equal("nothing is left", g.is_quiet(), True)
        events = [e["message"] for e in g.m.request("GET", f"/api/v2/jobs/{USER}~task/events").json["data"] if e["reason"] == "Session"]
        check.ok("Events say who and where", events and all(re.fullmatch(rf"{USER} has had a session of \d+ s in main\[0\]", e) for e in events), events)
        for body, words in (({"comand": []}, "comand"), ({"command": "x"}, "list"), ({"command": [""]}, "first word"), ({"connect": 1, "command": ["x"]}, "connect"),
                            ({"index": -1}, "index"), ({"terminal": "a b"}, "terminal"), ({"rows": 70000}, "rows")):
            reply = Session(g.m, f"{USER}~task", **body).start
            check.ok(f"refused: {body}", reply.status == 400 and words in reply.message, reply)
        g.m.start("over", {"main": role("true")})
        g.m.wait("over")
        check.equal("an ended job", g.exec("true", target="over")[0], 125)


def test_exec_enters_an_image(check):
    """Its files, as its user; with a terminal, too."""
    registry, _ = prepare()
    if registry is None:
        return
    try:
        with Ground("--images", "oci", commands=("echo task >/own", "sleep 3600"), job=image(f"{registry.open}/team/programs:1")) as g:
            check.equal("files and user", g.exec("bash", "-c", "cat /etc/hello /own; id -u; echo $GREETING")[:2],
                        (0, b"hello from the image\ntask\n0\nfrom its configuration\n"))
            with Terminal(*g.words("bash", "-c", "[ -t 0 ] && echo terminal; exit 4")) as t:
                check.equal("a terminal", (t.says("terminal") is not None, t.end()), (True, 4))
            check.ok("nothing is left", g.is_quiet(), g.sessions())
    finally:
        registry.close()


def test_exec_works_with_the_rights_of_the_unit(check):
    """packaging/rest-lit-local.service: no capability can come back, and no program gives rights."""
    if as_user() is None or os.getuid() != 0:
        return
    less = 'shift 4; exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all "$@"'
    with Ground(inside=("sh", "-c", less, "sh")) as g, Terminal(*g.words("sh", "-c", "grep CapEff /proc/self/status; exit 4")) as t:
        check.equal("without capabilities", (t.says("CapEff:\\s+0000000000000000") is not None, t.end()), (True, 4))


def test_exec_without_a_sandbox_is_beside_the_task(check):
    """With its variables and directory; nothing is left, whatever the command has started."""
    with Ground(inside=("python3", FORBID, "clone,unshare")) as g:
        code, out, err = g.exec("sh", "-c", "echo $PAI_TASK_ROLE_TASK_COUNT_main; (setsid sleep 212002 &) ; exit 6")
        check.equal("its variables", (code, out, err), (6, b"1\n", ""))
        check.ok("nothing is left", wait_until(lambda: not processes_with("212002"), 30), processes_with("212002"))
        t = subprocess.Popen(g.words("sleep", "212003"), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: processes_with("sleep 212003"))
        time.sleep(0.5)
        g.m.stop_job("task")
        check.equal("it ends with the task", (g.m.wait("task"), t.wait(PATIENCE * 12)), ("STOPPED", 137))
        check.ok("all of it", wait_until(lambda: not processes_with("212003"), 30), processes_with("212003"))


def table(check, t, name):
    """What people do at a shell with a terminal."""
    check.ok(f"{name}: a prompt", t.says(r"[$#] "))
    t.type("PS1='> '; unset PROMPT_COMMAND\r")
    check.ok(f"{name}: tty", t.ask("tty", r"/dev/pts/\d+\r"))
    check.ok(f"{name}: TERM", t.ask("echo =$TERM=", "=xterm-256color="))
    check.ok(f"{name}: its size", t.ask("stty size", r"\D33 99\r"))
    t.resize(40, 120)
    check.ok(f"{name}: another size", wait_until(lambda: t.ask("stty size", r"\D(\d+ \d+)\r").group(1) == b"40 120"))
    t.begin("sleep 1000")
    t.type(b"\x03")
    check.ok(f"{name}: Ctrl-C", t.ask("echo =$?=", "=130="))
    t.begin("cat")
    t.type(b"word\r\x04")
    check.ok(f"{name}: Ctrl-D", t.says("word\r\nword\r\n") and t.ask("echo =$?=", "=0="))
    t.begin("sleep 1000")
    t.type(b"\x1a")
    check.ok(f"{name}: Ctrl-Z", t.says("Stopped") and t.ask("jobs", r"\[1\].*Stopped"))
    t.begin("fg")
    t.says("sleep 1000\r\n")
    t.type(b"\x03")
    check.ok(f"{name}: fg", t.ask("echo =$?=", "=130="))
    t.type("printf '\\033[?1049hX\\033[?1049l'; echo\r")
    check.ok(f"{name}: the alternate screen", t.says(r"\x1b\[\?1049hX\x1b\[\?1049l"))
    size = 10 << 20 if WHOLE else 1 << 20
    t.type(f"stty raw -echo; echo =go=; head -c {size} | md5sum; stty sane\r")
    check.ok(f"{name}: ready for a paste", t.says("=go=\r?\n"))
    data = os.urandom(size)
    threading.Thread(target=t.type, args=(data,), daemon=True).start()
    digest = subprocess.run(["md5sum"], input=data, capture_output=True, check=True).stdout.split()[0].decode()
    check.ok(f"{name}: all of a paste", t.says(digest))
    t.type("\r")
    check.ok(f"{name}: exit", t.says("> ") and (t.type("exit 9\r") or True))
    check.equal(f"{name}: its code", t.end(), 9)
    check.ok(f"{name}: the terminal is as before", t.is_as_before())


def test_exec_gives_a_terminal(check):
    """A shell behaves as at any terminal, by exec and by run --pty."""
    with Ground() as g, Terminal(*g.words(), rows=33, columns=99, env={"SHELL": "/bin/bash"}) as t:
        table(check, t, "exec")
        for words, code in ((("sh", "-c", "exit 0"), 0), (("sh", "-c", "kill -9 $$"), 137), (("nope",), 127)):
            with Terminal(*g.words(*words)) as one:
                check.equal(f"{words[-1]}: code and mode", (one.end(), one.is_as_before()), (code, True))
        for signo in (signal.SIGTERM, signal.SIGHUP):
            with Terminal(*g.words()) as one:
                one.says(r"[$#] ")
                one.process.send_signal(signo)
                check.equal(f"ended by signal {signo}", (one.end(), one.is_as_before()), (128 + signo, True))
        with Terminal(*g.words("tty", options=["-T"])) as one:
            check.equal("-T: none", (one.says("not a tty") is not None, one.end()), (True, 1))
        code, out, _ = g.exec("tty", options=["-t"])
        check.ok("-t: also without one here", code == 0 and b"/dev/pts/" in out, (code, out))


def test_run_gives_a_terminal(check):
    """`run --pty` is a task with a terminal of its own; without a terminal, its input goes to the command."""
    with Here() as p:
        words = [BINARY, "run", *p.arguments, "--pty", "--"]
        env = {**p.more["environment"], "SHELL": "/bin/bash"}
        with Terminal(*words, "bash", rows=33, columns=99, cwd=p.cwd, env=env) as t:
            table(check, t, "run")
        with Terminal(*words, "sh", "-c", "tty; exit 5", cwd=p.cwd, env=env) as t:
            check.equal("code and mode", (t.says("/dev/pts") is not None, t.end(), t.is_as_before()), (True, 5, True))
        check.equal("its input", p.command("cat", text="hi\n")[:2], (0, "hi\n"))
        check.equal("nothing is left", p.left(), [])
        done = subprocess.run([*words[:-2], "--pty", "x.yaml"], capture_output=True, check=False, text=True)
        check.ok("not for a file", done.returncode == 2 and "--pty" in done.stderr, done)


# ---- the ends of sessions ---------------------------------------------------------------------------
def end_session(g, how, t):
    """Ends the session of this client in this way."""
    h = g.sessions()
    both = {"helper": h["--enter"], "inside": h["--inside"]}
    if how == "exit":
        t.stdin.close()
    elif how == "client":
        t.kill()
    elif how.startswith("kill "):
        for pid in both[how.split()[1]]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    elif how.startswith("stop "):
        for pid in both[how.split()[1]]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        t.kill()
        time.sleep(1)
        for pid in both[how.split()[1]]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)


def test_exec_ends_leave_nothing(check):
    """However a session ends, nothing of it is left, and the task goes on, and ends as it would."""
    ways = ["exit", "client", "kill helper", "kill inside", "stop helper", "stop inside"]
    with Ground(commands=("while ! [ -e /tmp/end ]; do sleep .1; done", "exit 7")) as g:
        fds = f"/proc/{g.m.process.pid}/fd"
        before = len(os.listdir(fds)) if os.access(fds, os.R_OK) else 0
        for i in range(ENDS):
            way = ways[i % len(ways)]
            words = ("sh", "-c", "sleep 212000 & cat") if i % 2 else ("sh", "-c", "trap '' HUP; sleep 212001 & cat")
            t = subprocess.Popen(g.words(*words), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(lambda: g.sessions()["--inside"])
            end_session(g, way, t)
            gone = g.is_quiet()
            if not gone or i < len(ways):
                check.ok(f"{way}: helper and inside have ended", gone, g.sessions())
            t.kill()
            t.wait()
        if before:
            check.ok("no descriptor", wait_until(lambda: len(os.listdir(fds)) <= before + 2, 30), (before, len(os.listdir(fds))))
        check.equal("the task goes on", g.m.state("task"), "RUNNING")
        g.exec("touch", "/tmp/end")
        check.equal("and ends as it would", (g.m.wait("task"), g.m.exit("task")), ("FAILED", 7))
        check.ok("with all processes", wait_until(lambda: not processes_with("212000") + processes_with("212001")), processes_with("212000"))


def test_exec_session_ends_with_its_task(check):
    """The job is not held by a session, not even by one whose helper is stopped."""
    for stopped in (False, True):
        with Ground(commands=("while ! [ -e /tmp/end ]; do sleep .1; done",)) as g:
            t = subprocess.Popen(g.words("sh", "-c", "sleep 2002; sleep 2003"), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            wait_until(lambda: g.sessions()["--inside"])
            held = g.sessions()["--enter"]
            for pid in held if stopped else []:
                os.kill(pid, signal.SIGSTOP)
            g.exec("touch", "/tmp/end")
            check.equal(f"the job has ended{' beside a stopped helper' * stopped}", g.m.wait("task"), "SUCCEEDED")
            for pid in held if stopped else []:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGCONT)
            err = t.communicate(timeout=PATIENCE * 12)[1]
            check.ok("and it is said", t.returncode == 137 and "the task has ended" in err, (t.returncode, err))
    with Ground() as g:
        t = subprocess.Popen(g.words("sleep", "2004"), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        wait_until(lambda: g.sessions()["--inside"])
        g.m.stop_job("task")
        check.equal("stopped", g.m.wait("task"), "STOPPED")
        check.equal("so is the session", (t.wait(PATIENCE * 12), g.is_quiet()), (137, True))
    with Ground() as g:
        t = subprocess.Popen(g.words("sleep", "2005"), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: g.sessions()["--inside"])
        g.m.kill()
        err = t.communicate(timeout=PATIENCE * 12)[1]
        check.ok("a killed server ends it", t.returncode == 125 and "the task goes on" in err, (t.returncode, err))
        check.ok("all of it", g.is_quiet(), g.sessions())
        with g.m.again() as m:
            check.equal("the task goes on", m.wait("task", "RUNNING"), "RUNNING")


# ---- refusals ---------------------------------------------------------------------------------------
def test_exec_is_refused_to_others(check):
    """Sessions are for the owner of the job and administrators; each side has one connection."""
    identity = as_user()
    if identity is None:
        return
    base = os.path.dirname(identity.get("where") or tempfile.mkdtemp(prefix="rest-lit-local."))
    secret = os.path.join(base, "secret")
    with open(secret, "w", encoding="ascii") as f:
        f.write(os.urandom(30).hex())
    if os.getuid() == 0:
        os.chown(secret, 65534, 65534)
    os.chmod(secret, 0o600)
    mine, other = ({"Authorization": "Bearer " + run("token", "--jwt-secret-file", secret, "--user", user).stdout.decode().strip()}
                   for user in (USER, "bob"))
    with Machine(who=["--jwt-secret-file", secret], **identity) as m:
        check.equal("submitted", m.submit(job_text("task", {"main": role("sleep 3600")}), mine).status, 202)
        job = f"{USER}~task"

        def starts(headers):
            return Session(m, job, headers, command=["cat"])

        def begins():
            with contextlib.closing(starts(mine)) as s:
                return s.start.status == 201 and s.next() == (STATUS, b"0")
        check.ok("the owner", wait_until(begins))
        check.equal("another user", starts(other).start.status, 403)
        check.equal("nobody", starts({}).start.status, 401)
        with contextlib.closing(starts(mine)) as s:
            check.equal("it begins", s.next(), (STATUS, b"0"))
            check.equal("a second side", (s.get().status, m.request("PUT", s.path, b"", {**FRAME, **mine}).status), (409, 409))
            check.equal("of another user", m.request("GET", s.path, None, other).status, 404)
            check.equal("a guessed one", m.request("GET", s.path[:-32] + "0" * 32, None, mine).status, 404)
            s.send(0, b"still\n")
            check.equal("it goes on", s.next(), (OUT, b"still\n"))
        wait_until(lambda: not sessions_of(m)["--enter"], 30)
        many = [starts(mine) for _ in range(9)]
        check.equal("eight of a user", sorted(s.start.status for s in many), [201] * 8 + [429])
        for s in many:
            s.close()
        check.ok("all end", wait_until(lambda: not sessions_of(m)["--enter"], 30), sessions_of(m))


def test_exec_refuses_malformed_frames(check):
    """Such a session ends; a client that sends nothing, too."""
    with Ground() as g:
        job = f"{USER}~task"
        for name, data in (("an unknown channel", frame(9, b"x")), ("output", frame(OUT, b"x")), ("status", frame(STATUS, b"0")),
                           ("too long a size", frame(SIZE, b"1" * 5000)), ("no size", frame(SIZE, b"10")), ("noise", os.urandom(3000))):
            with contextlib.closing(Session(g.m, job, command=["cat"])) as s:
                check.equal(f"{name}: it begins", s.next(), (STATUS, b"0"))
                s.send(0)
                s.raw(data)
                last = s.rest()[1] if name != "noise" else "125 a frame of the client is malformed"
                check.equal(f"{name}: it ends", last, "125 a frame of the client is malformed")
        with contextlib.closing(Session(g.m, job, command=["cat"])) as s:
            begun = time.monotonic()
            last = s.rest()[1]
            check.ok("no frame: within 6 s, and says why", "proxy_request_buffering off" in (last or "") and time.monotonic() - begun < 10, last)
        with contextlib.closing(Session(g.m, job, command=["sh", "-c", "sleep 1; echo end"])) as s:
            for i in range(100):
                s.raw(frame(0, b"x")[:3] if i % 2 else frame(0, b"x")[3:])
            check.ok("noise is an end", s.rest()[1] is not None)
        check.ok("nothing is left", g.is_quiet(), g.sessions())


def test_exec_foreign_page_may_not_ask(check):
    """--no-auth: a page of another origin starts nothing."""
    with Ground() as g:
        reply = g.m.request("POST", f"/api/v2/jobs/{USER}~task/exec", b"{}", {"Content-Type": "application/json", "Origin": "https://evil.example"})
        check.equal("refused", reply.status, 403)


# ---- a hostile task ---------------------------------------------------------------------------------
WATCH = r"""
import os
def enters(p):
    try: return b'\0--enter\0' in open(f'/proc/{p}/cmdline', 'rb').read()
    except OSError: return False
got = {'looks': 0}
while not os.path.exists('/tmp/end'):
    for p in os.listdir('/proc'):
        if not p.isdigit() or int(p) == os.getpid() or not enters(p): continue
        for what, look in (('exe', lambda: os.open(f'/proc/{p}/exe', os.O_RDONLY)), ('fd', lambda: os.listdir(f'/proc/{p}/fd')),
                           ('mem', lambda: open(f'/proc/{p}/mem', 'rb+')), ('root', lambda: os.listdir(f'/proc/{p}/root/'))):
            got['looks'] += 1
            try: look()
            except OSError: continue
            if enters(p): got[what] = got.get(what, 0) + 1  # else it has become the sandbox's program meanwhile
open('/tmp/got', 'w').write(repr(got))
"""


def test_exec_is_safe_beside_a_hostile_task(check):
    """The task cannot look into the process that enters, nor have it execute a file of the machine, nor
    fill the memory of the server."""
    if as_user() is None:
        return
    watcher = f"python3 -c {shlex.quote(WATCH)}"
    with Ground(commands=(f"{watcher} & {watcher} & wait; cat /tmp/got; sleep 3600",)) as g:
        for _ in range(ENTRIES):
            g.exec("true")
        g.exec("touch", "/tmp/end")
        wait_until(lambda: g.exec("test", "-s", "/tmp/got")[0] == 0)
        got = g.exec("cat", "/tmp/got")[1].decode()
        check.ok("it looks, and finds nothing", got.startswith("{'looks': ") and "looks': 0" not in got and "," not in got, got)
        g.exec("sh", "-c", "printf '#!/proc/self/exe\\n' >/tmp/s; chmod +x /tmp/s")
        code, out, err = g.exec("/tmp/s")
        check.ok("a script of itself is not one of the machine", code != 0 and b"rest-lit" not in out, (code, out, err))
        before = g.m.rss_kib()
        with contextlib.closing(Session(g.m, f"{USER}~task", command=["yes"])) as s:
            s.send(0)
            s.next()
            time.sleep(1)
            check.equal("others are answered while nobody reads it", g.m.request("GET", f"/api/v2/jobs/{USER}~task").status, 200)
            check.ok("the memory is bounded", g.m.rss_kib() - before < 2048, (before, g.m.rss_kib()))
        with contextlib.closing(Session(g.m, f"{USER}~task", command=["sleep", "1000"])) as s:
            s.next()
            s.input.settimeout(3)
            sent = 0
            with contextlib.suppress(OSError):
                while sent < 64 << 20:
                    data = frame(0, bytes(STREAM))
                    s.input.sendall(b"%x\r\n%s\r\n" % (len(data), data))
                    sent += STREAM
            check.ok("input that nobody reads waits at the client", sent < 16 << 20, sent)


# ---- open -------------------------------------------------------------------------------------------
SERVE = ("import http.server, socketserver, sys; "
         "H = http.server.SimpleHTTPRequestHandler; "
         "s = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H); "
         "print('Jupyter is at http://vm.example:%s/lab?token=abc' % sys.argv[1], flush=True); s.serve_forever()")


def test_open_leads_to_a_port_of_the_task(check):
    """To its ports only; the link is that of its log."""
    with socket.socket() as free, socket.socket() as foreign:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        free.close()
        size = 100 << 20 if WHOLE else 20 << 20
        with Ground(commands=("cd $(mktemp -d); head -c %d /dev/zero >big; echo hello >small" % size, f"python3 -c {shlex.quote(SERVE)} {port}")) as g:
            wait_until(lambda: b"200 " in (Session(g.m, f"{USER}~task", connect=0).next() or (0, b""))[1] and
                       str(port).encode() in Session(g.m, f"{USER}~task", connect=0).next()[1])
            words = [BINARY, "open", "--server", f"http://127.0.0.1:{g.m.port}", "task"]
            t = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            link = t.stdout.readline().strip()
            check.ok("the link", re.fullmatch(r"http://127\.0\.0\.1:\d+/lab\?token=abc", link), link)
            here = int(re.search(r":(\d+)/", link).group(1)) if ":" in link[7:] else 0

            def get(path):
                c = http.client.HTTPConnection("127.0.0.1", here, timeout=PATIENCE * 6)
                c.request("GET", path)
                return c.getresponse().read()
            check.equal("a file", get("/small"), b"hello\n")
            check.equal("a large one", len(get("/big")), size)
            got = []
            threads = [threading.Thread(target=lambda: got.append(get("/small"))) for _ in range(32)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            check.equal("32 at once", got, [b"hello\n"] * 32)
            t.send_signal(signal.SIGINT)
            check.equal("Ctrl-C ends it", t.wait(PATIENCE), 0)
            check.equal("not the task", g.m.state("task"), "RUNNING")
            g.is_quiet()
            for other in (g.m.port, foreign.getsockname()[1], 1, 22, 65535):
                with contextlib.closing(Session(g.m, f"{USER}~task", connect=other)) as s:
                    said = s.next()
                    check.ok(f"port {other}: refused", said and said[0] == STATUS and said[1].startswith(b"403 "), said)
            done = subprocess.run([*words, "1"], capture_output=True, text=True, check=False)
            check.ok("and by the command", done.returncode == 2 and f"its ports are {port}" in done.stderr, done)
        with Ground() as g:
            done = subprocess.run([BINARY, "open", "--server", f"http://127.0.0.1:{g.m.port}", "task"], capture_output=True, text=True, check=False)
            check.ok("a task without a port", done.returncode == 2 and "listens" in done.stderr, done)
