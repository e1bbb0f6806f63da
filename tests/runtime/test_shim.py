"""`pai-runtime shim`: exit codes, signals, the log, what survives and what is killed."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from checks import EMULATED, PATIENCE, RUNTIME, SLOW, check, equal, eventually, finish, for_everybody, tests

PROGRAM = for_everybody(RUNTIME)
LINE = re.compile(rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr|before) ([FP]) (.*)$")


def document(*lists):
    """The format is described in base/lists.h."""
    body = "".join(f"{len(words)}\0" + "".join(word + "\0" for word in words) for words in lists)
    return f"{len(body.encode())}\0{body}"


class Task:
    """A directory with a specification, and its shim."""

    def __init__(self, script, init=None, grace=10, argv=None, message="root/message"):
        self.dir = tempfile.mkdtemp(prefix="shim-")
        os.mkdir(self.dir + "/root")
        self.argv = [PROGRAM, "shim", "--exec", self.dir + "/root"]
        variables = ["PATH=/usr/bin:/bin", "MARK=" + self.dir]
        self.containers = (document([*variables, "OF=app"], argv or ["sh", "-c", script], []) +
                           document([*variables, "OF=init"], ["sh", "-c", init] if init else [], ["{}"]))
        self.command(self.argv, grace, "init" if init else "", message)
        self.shim = None

    def command(self, words, grace=10, init="", message="root/message", sandbox="", note="", whole=""):
        with open(self.dir + "/spec", "w", encoding="utf-8") as f:
            f.write(document(["shim 6", str(grace), sandbox, init, "", message, "MARK=" + self.dir, note, whole, ""], words) + self.containers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.shim and self.shim.poll() is None:
            self.shim.kill()
            self.shim.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.dir)

    def start(self, *args, **how):
        self.shim = subprocess.Popen([PROGRAM, "shim", self.dir, *args], stderr=subprocess.DEVNULL,
                                     env={"SECRET": "of the server"}, **how)
        return self

    def end(self):
        self.shim.wait(PATIENCE)
        return self.state()

    def run(self):
        return self.start().end()

    def read(self, name):
        try:
            with open(f"{self.dir}/{name}", "rb") as f:
                return f.read()
        except FileNotFoundError:
            return b""

    def state(self):
        return json.loads(self.read("state") or b"null")

    def lines(self, name="log"):
        found = [LINE.match(line) for line in self.read(name).splitlines()]
        return [(m.group(1).decode(), m.group(2).decode(), m.group(3)) if m else None for m in found]

    def wait(self, text, name="log"):
        return eventually(lambda: text in self.read(name))

    def processes(self):
        """All processes with the mark of this task."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if f"MARK={self.dir}\0".encode() in f.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found


def test_exit_code_is_that_of_the_app():
    for script, code in (("exit 0", 0), ("exit 77", 77), ("kill -9 $$", 137), ("kill -15 $$", 143)):
        with Task(script) as t:
            app = t.run()["app"]
            equal(script, (t.shim.returncode, app["code"], app["reason"]), (0, code, "Error" if code else "Completed"))
    with Task("exit 7", init="exit 0") as t:  # the shim learns of start and end at the same time
        shim = t.start().shim
        shim.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        shim.send_signal(signal.SIGCONT)
        state = t.end()
        equal("the code is that of app", (state["init"]["code"], state["app"]["code"], state["app"]["started"]), (0, 7, True))
    with tempfile.TemporaryFile() as lock, Task(f"[ -e /proc/$$/fd/{lock.fileno()} ] || exit 6") as t:
        equal("descriptors stay in the shim", t.start(pass_fds=[lock.fileno()]).end()["app"]["code"], 6)
    with Task("", argv=["/no/such"]) as t:
        app = t.run()["app"]
        equal("a command that is not there", (app["started"], app["code"], app["reason"]), (False, 128, "ContainerCannotRun"))
        check("the message names it", "/no/such: No such file" in app["message"], app)
    with Task("echo app", init="echo first; exit 3") as t:
        state = t.run()
        equal("init fails", (state["init"]["code"], state["app"]["started"], t.read("log")), (3, False, b""))
    with Task("echo $OF >&2; umask; echo ${SECRET-none}", init="echo first; echo $OF >&2; (sleep 0.2; echo late >&2) &") as t:
        state = t.run()
        equal("the log of init", [line[2] for line in t.lines("init.log")], [b"first", b"init"])
        check("the log of app", ("stderr", "F", b"app") in t.lines(), t.lines())
        equal("init has ended", (state["init"]["ended"], state["init"]["reason"], state["init"]["code"]), (True, "Completed", 0))
        check("the environment is that of the specification", b"F none" in t.read("log"), t.read("log"))


def fails_first(t, times, how):
    """The command becomes one of a sandbox whose creation fails so often."""
    script = f"echo >>{t.dir}/tries; [ $(wc -l <{t.dir}/tries) -gt {times} ] || {{ {how}; }}; exec \"$@\""
    t.command(["/bin/sh", "-c", script, "bwrap", *t.argv], sandbox="sandbox")
    return t


def test_start_without_resources_is_retried():
    """A program that lacks resources for its start, or is killed before it, is tried again."""
    clone = "echo 'bwrap: Creating new namespace failed: Resource temporarily unavailable' >&2; exit 1"
    for how in (clone, "kill -9 $$"):
        with Task("echo ran; exit 7") as t:
            app = fails_first(t, 2, how).run()["app"]
            equal(how, (app["code"], app["reason"], t.read("tries")), (7, "Error", b"\n" * 3))
    short = "No space left on device"  # the name of a missing program looks like a lack of space
    with Task("", init=f"[ -e ../ran ] && printf '#!/bin/sh\\nexit 7' >'{short}' && chmod +x '{short}'; touch ../ran", argv=["./" + short]) as t:
        app = t.run()["app"]
        equal("nothing of the first try is left", (app["code"], app["reason"], app["message"]), (7, "Error", ""))
    with Task("echo ran") as t:
        app = fails_first(t, 100, "kill -9 $$").run()["app"]
        equal("not for ever", (app["code"], app["reason"], t.read("tries")), (128, "OutOfResources", b"\n" * 8))
        equal("the reason", app["message"], "the sandbox was killed by signal 9 while it was made")
    with Task("echo ran") as t:
        app = fails_first(t, 1, "echo 'bwrap: Permission denied' >&2; exit 1").run()["app"]
        equal("other failures are not", (app["reason"], app["message"]),
              ("ContainerCannotRun", "the sandbox cannot be made: bwrap: Permission denied"))
    with Task("exit 7") as t:
        fails_first(t, 100, clone).start().wait(b"unavailable")
        t.shim.send_signal(signal.SIGTERM)
        equal("stopped meanwhile", t.end()["stopped"], True)
    if os.getuid() or EMULATED or not shutil.which("prlimit"):
        return
    nobody = ["setpriv", "--reuid=64321", "--clear-groups", "prlimit"]
    with Task("exit 7") as t:
        for path in (t.dir, *(os.path.join(t.dir, n) for n in os.listdir(t.dir))):
            os.chown(path, 64321, -1)
        t.shim = subprocess.Popen([*nobody, "--nproc=1:1000", PROGRAM, "shim", t.dir])
        check("the shim is there", t.wait(b" ", "shim"), t.read("shim"))
        time.sleep(0.5)
        equal("no process yet", (t.shim.poll(), t.state()), (None, None))
        subprocess.run([*nobody, f"--pid={t.shim.pid}", "--nproc=1000:1000"], check=True)
        equal("processes later", t.end()["app"]["code"], 7)


def test_stop_gives_the_grace_period():
    with Task("trap 'echo asked; exit 4' TERM; echo ready; while :; do sleep 0.05; done") as t:
        t.start().wait(b"ready")
        t.shim.send_signal(signal.SIGTERM)
        state = t.end()
        equal("SIGTERM", (state["stopped"], state["app"]["code"]), (True, 4))
    with Task("trap '' TERM; echo ready; sleep 600", grace=1) as t:
        t.start().wait(b"ready")
        t.shim.send_signal(signal.SIGTERM)
        equal("SIGKILL after the grace", t.end()["app"]["code"], 137)
        if not EMULATED:  # as in test_daemons_are_killed_at_the_end
            equal("nothing is left", t.processes(), [])
    with Task("trap '' TERM; echo ready; sleep 600", grace=600) as t:
        t.start().wait(b"ready")
        t.shim.send_signal(signal.SIGUSR1)
        equal("SIGUSR1 kills at once", t.end()["app"]["code"], 137)
    with Task("echo ready; sleep 600") as t:
        with subprocess.Popen(["sh", "-c", f"{PROGRAM} shim {t.dir} --parent $$ & wait"]) as parent:
            t.wait(b"ready")
            parent.kill()
        check("ends with its parent", t.wait(b'"ended",', "state"), t.read("state"))
        equal("as by SIGTERM", (t.state()["stopped"], t.state()["app"]["code"]), (True, 143))


def test_shim_survives_its_parent():
    with Task("echo ready; exec sleep 600") as t:
        # The parent dies; a process that had this pid before has left a file.
        script = f"sh -c 'echo a longer text {'x' * 200} >{t.dir}/shim.$$; exec {PROGRAM} shim {t.dir}' & wait"
        parent = subprocess.Popen(["setsid", "sh", "-c", script])
        t.wait(b"ready")
        parent.kill()
        parent.wait()
        pid = int(t.read("shim").split()[0])
        check("lives on", os.path.exists(f"/proc/{pid}") and t.state()["phase"] == "run")
        check("its identity", re.fullmatch(rb"\d+ \d+ [0-9a-f-]{36}", t.read("shim")), t.read("shim"))
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            private = sum(int(line.split()[1]) for line in f if line.startswith("Private_"))
        sanitized = SLOW > 1
        check("at most 1 MiB of its own", private <= 1024 or sanitized, private)
        second = subprocess.run([PROGRAM, "shim", t.dir], check=False, capture_output=True)
        equal("no second one", second.returncode, 3)
        os.kill(pid, signal.SIGKILL)
        check("SIGKILL of the shim ends the command", eventually(lambda: not t.processes()), t.processes())
        equal("the state says that it ran", t.state()["phase"], "run")

        def says_so():
            second = subprocess.run([PROGRAM, "shim", t.dir], check=False, capture_output=True)
            return second.returncode == 3 and b"before" in second.stderr
        # The lock of the first one goes with its last thread.
        check("nothing runs twice", eventually(says_so))


def test_daemons_are_killed_at_the_end():
    if EMULATED:
        print("skipped: qemu-user has no PR_SET_CHILD_SUBREAPER")
        return
    with Task("for i in 1 2 3 4 5; do (setsid sh -c 'trap \"\" TERM HUP; sleep 600; sleep 600' &) ; done; exit 6") as t:
        equal("code", t.run()["app"]["code"], 6)
        equal("daemons are killed", t.processes(), [])
    with Task("exec >&- 2>&-; sleep 0.1; exit 2") as t:
        equal("closed streams", t.run()["app"]["code"], 2)


def test_log_lines_are_split_and_bounded():
    with Task("printf 'a\\nb' ; echo err >&2; head -c 40000 /dev/zero | tr '\\0' x; echo; printf tail") as t:
        t.run()
        out = [line for line in t.lines() if line and line[0] == "stdout"]
        equal("lines", [(line[1], len(line[2])) for line in out], [("F", 1), ("P", 16384), ("P", 16384), ("F", 7233), ("F", 4)])
        check("stderr", ("stderr", "F", b"err") in t.lines(), t.lines())
    with Task("head -c 36000000 /dev/zero | tr '\\0' 'y' | fold -w 1000; echo; echo last") as t:
        equal("a flood: code", t.run()["app"]["code"], 0)
        sizes = [len(t.read("log")), len(t.read("log.1"))]
        check("bounded", max(sizes) <= 16 << 20 and sizes[1] > 15 << 20, sizes)
        check("the end is there", t.read("log").endswith(b" F last\n"), t.read("log")[-100:])
        check("whole lines", all(t.lines()) and all(t.lines("log.1")))
    with Task("head -c 17000000 /dev/zero | tr '\\0' 'y' | fold -w 1000") as t:
        t.command(t.argv, whole="whole")
        t.run()
        check("not bounded if it shall be whole", len(t.read("log")) > 17000000 and not os.path.exists(t.dir + "/log.1"))


def test_note_precedes_the_output():
    """The note is a line before the output of app, also if init fails."""
    for init, lines in (("true", [b"[a note]", b"app"]), ("exit 3", [b"[a note]"])):
        with Task("echo app", init=init) as t:
            t.command(t.argv, init="init", note="[a note]")
            t.run()
            equal(init, [line[2] for line in t.lines()], lines)


def test_message_is_read_safely():
    for name, script, wanted in (
            ("a message", "printf 'because\\nof' > message", "because\nof"),
            ("too long", "head -c 100000 /dev/zero | tr '\\0' z > message", "z" * 4096),
            ("not UTF-8", "printf 'a\\377b' > message", "a?b"),
            ("any byte", "awk 'BEGIN { for (i = 0; i < 256; i++) printf \"%c\", i }' > message",
             "".join("?" if i == 0 or i > 127 else chr(i) for i in range(256))),
            ("a link", "ln -s /etc/passwd message", ""),
            ("a fifo", "mkfifo message", ""),
            ("a directory", "mkdir message", ""),
            ("a link above", "cd ..; rm -rf root; ln -s /etc root", "")):
        path = "root/passwd" if name == "a link above" else "root/message"
        with Task(script, message=path) as t:
            equal(name, t.run()["app"]["message"], wanted)


def test_short_lines_share_a_time():
    """Lines that were read together have the same time, which is computed once."""
    with Task("yes | head -c 700000") as t:
        t.run()
        log = t.read("log.1") + t.read("log")
        times = [line[:30] for line in log.splitlines()]
        check("lines are there", len(times) > 300000, len(times))
        check("few times", len(set(times)) < len(times) / 10, (len(set(times)), len(times)))
        check("in order", times == sorted(times))


def test_full_disk_keeps_the_exit_code():
    """The task runs in a small file system; without the right to mount, nothing is tested."""
    with Task("head -c 3000000 /dev/zero | tr '\\0' q | fold -w 100 > fill; echo full; exit 5") as t:
        script = (f"mount -t tmpfs -o size=400k tmpfs {t.dir}/mnt && cp {t.dir}/spec {t.dir}/mnt/ && mkdir {t.dir}/mnt/root && "
                  f"{PROGRAM} shim {t.dir}/mnt; echo $?; cat {t.dir}/mnt/state; cat {t.dir}/mnt/log")
        t.command([*t.argv[:-1], t.dir + "/mnt/root"])
        os.mkdir(t.dir + "/mnt")
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], check=False, capture_output=True, timeout=PATIENCE)
        if b"phase" not in done.stdout:
            print("SKIPPED full disk: no mounts here", done.stderr)
            return
        state = json.loads(done.stdout.split(b"\n")[1])
        equal("the exit code is kept", (done.stdout.split(b"\n")[0], state["phase"], state["app"]["code"]), (b"0", "ended", 5))


def test_invalid_specifications_are_refused():
    for args in ([], ["/no/such"], ["--bad"], ["/", "--parent", "x"], ["/", "--parent", "1"]):
        done = subprocess.run([PROGRAM, "shim", *args], check=False, capture_output=True)
        check(f"{args}", done.returncode in (2, 3) and done.stderr, done)
    done = subprocess.run([PROGRAM, "--help"], check=False, capture_output=True)
    check("hidden from users", b"shim" not in done.stdout, done.stdout)
    good = [document(["shim 6", "1", "", "", "", "", "", "", "", ""], ["x"]), document([], ["x"], []), document([], [], [])]
    for spec in ("", "x", "9\0", "-1\0", "99999999999\0", "shim 3\0" + "1\0\0\0\0app\0\0x\0", good[1],
                 document(["shim 3", "1", "", "", "", "", "", "", "", ""], ["x"]), document(["shim 6", "1"], ["x"]),
                 document(["shim 6", "x", "", "", "", "", "", "", "", ""], ["x"]), document(["shim 6", "1", "", "", "", "", "", "", "", ""], []),
                 good[0][:-2], good[0].replace("1\0x", "2\0x")):
        with Task("true") as t:
            with open(t.dir + "/spec", "w", encoding="utf-8") as f:
                f.write(spec)
            done = subprocess.run([PROGRAM, "shim", t.dir], check=False, capture_output=True)
            equal(f"{spec!r}", (done.returncode, t.read("state")), (3, b""))


def test_damaged_containers_cannot_be_executed():
    """Damaged commands count as commands that cannot be executed."""
    for more in ("", document([], [], []), document([], ["true"], []), document([], ["true"], []) + "7\0"):
        with Task("true") as t:
            t.containers = more
            t.command(t.argv)
            app = t.run()["app"]
            equal(f"{more!r}", (app["started"], app["reason"], "file spec" in app["message"]), (False, "ContainerCannotRun", True))


def test_sessions_are_refused_with_a_reason():
    """`--enter`: of a task that has ended, has not begun, is of another version, or another process has its pid."""
    head = ["1", "", "", "", "", "MARK=x", "", "", ""]

    def said(spec=None, pid=None):
        with tempfile.TemporaryDirectory() as where, tempfile.TemporaryFile() as asked:
            for name, text in (("spec", spec), ("pid", pid)):
                if text is not None:
                    with open(os.path.join(where, name), "w", encoding="ascii") as f:
                        f.write(text)
            asked.write(document(["true"], ["", "", ""]).encode())
            asked.flush()

            def third():
                os.dup2(os.dup2(asked.fileno(), 50), 3)
            done = subprocess.run([RUNTIME, "shim", "--enter", where], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                  preexec_fn=third, close_fds=False)  # noqa: PLW1509
        equal("a frame of status", (done.stdout[0], done.returncode), (3, 0))
        return done.stdout[4:].decode()

    now = document(["shim 6", *head], ["x"])
    equal("no specification", said(), "409 the task has ended")
    equal("an empty one", said(""), "409 the task has ended")
    equal("that of an earlier version", said(document(["shim 5", *head[:-1]], ["x"])), "409 the task was started by another version of rest-lit")
    equal("no process yet", said(now), "409 the task has not started its command yet")
    for pid in ("", "1", "0 0 x", f"{os.getpid()} 1 x", "999999999 1 x"):
        equal(f"another process: {pid!r}", said(now, pid), "409 the task has ended")


tests(test_sessions_are_refused_with_a_reason, test_damaged_containers_cannot_be_executed, test_exit_code_is_that_of_the_app,
      test_start_without_resources_is_retried, test_stop_gives_the_grace_period, test_shim_survives_its_parent,
      test_daemons_are_killed_at_the_end, test_log_lines_are_split_and_bounded, test_note_precedes_the_output,
      test_message_is_read_safely, test_short_lines_share_a_time, test_full_disk_keeps_the_exit_code,
      test_invalid_specifications_are_refused)
finish()
