"""`pai-runtime run` as a process: all statements of docs/RUNTIME-RUN.md."""
import datetime
import hashlib
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time

from checks import EMULATED, PATIENCE, RUNTIME, Root, check, equal, eventually, finish, may_unshare, tests

HEADER = """#!/bin/bash
set -o errexit
set -o nounset
if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi

"""
D = "/usr/local/pai/runtime.d/"
ROOT_USER = os.geteuid() == 0
PREFIX = re.compile(rb"^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\] \[openpai-runtime\] ", re.M)


class Pod(Root):
    """A root after init."""

    def __init__(self, user=None, before=None, after=None, environ=b"", **env):
        super().__init__(**env)
        os.makedirs(self.at(self.logs()))
        os.chmod(self.at(self.logs()), 0o777)
        os.chmod(self.path, 0o755)
        os.chmod(self.at("tmp"), 0o1777)
        self.write(D + "runtime_env", environ)
        self.write(D + "precommands.sh", HEADER + (before or ""), 0o755)
        self.write(D + "postcommands.sh", HEADER + (after or ""), 0o755)
        if user is not None:
            self.write(D + "user.sh", (HEADER if isinstance(user, str) else HEADER.encode()) + user, 0o755)

    def log(self, name):
        """The older and the current file of user-* together."""
        folder = self.at(self.logs(name))
        try:
            found = os.listdir(folder)
        except FileNotFoundError:  # not yet
            return b""
        except NotADirectoryError:
            return self.read(self.logs(name)) or b""
        names = sorted(n for n in found if n.startswith("@")) + ["current"]
        return b"".join(self.read(self.logs(f"{name}/{n}")) or b"" for n in names)

    def runtime_log(self):
        """The lines of runtime.log without their prefixes."""
        return PREFIX.sub(b"", self.log("runtime.log"))

    def message(self):
        return (self.read("/tmp/pai-termination-log") or b"").decode(errors="replace")

    def origin(self):
        """The code of the task as the termination message has it."""
        found = re.search(r"originUserExitCode: (\d+)", self.message())
        return int(found.group(1)) if found else None

    def stopped(self):
        """A run that gets SIGTERM when its command has printed that it is ready."""
        run = self.start("run")
        started(self)
        run.terminate()
        run.communicate(timeout=PATIENCE)
        return run


def skip(name, why):
    print(f"SKIPPED {name}: {why}")


def mounts(name):
    """True if this test may mount a file system of its own."""
    if not ROOT_USER:
        skip(name, "only root can mount")
    return ROOT_USER and may_unshare(name, "-m")


ME = os.getpid()  # in command lines: another run of these tests has others


def sleepers(mark):
    """Processes whose command line has this text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if mark.encode() in f.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found


# ---- codes and phases ------------------------------------------------------------------------

def test_successful_command_is_zero():
    with Pod("echo hello") as p:
        r = p.run("run")
        equal("success: code", r.returncode, 0)
        equal("success: container's standard output", r.stdout, b"hello\n")
        check("success: no termination message", not p.exists("/tmp/pai-termination-log"))
        lines = p.runtime_log()
        for line in (b"[INFO] Starting to exec precommands\n", b"USER COMMAND START\n", b"USER COMMAND END\n"):
            check(f"success: runtime.log has {line!r}", line in lines, lines)
        equal("success: lines of runtime.log are copied to standard error", r.stderr, p.log("runtime.log"))


def test_exit_codes_are_in_the_message():
    for command, origin in (("exit 1", 1), ("exit 42", 42), ("exit 255", 255), ("no-such-program", 127),
                            ("/etc/passwd", 126), ("false | true", 1), ("kill -9 $$", 137),
                            ("kill -TERM $$", 143), ("kill -SEGV $$", 139), ("kill -USR1 $$", 138)):
        with Pod(command) as p:
            r = p.run("run")
            equal(f"code of `{command}` for the container", r.returncode, 255)
            equal(f"code of `{command}` in the message", p.origin(), origin)
    for code in (200, 201, 210, 219):
        with Pod(f"exit {code}") as p:
            check(f"code {code} of a task is not the container's", p.run("run").returncode == 255)
    with Pod() as p:
        r = p.run("run")
        equal("no user.sh: code in the message", p.origin(), 127)
        check("no user.sh: runtime.log says so", b"there is no" in p.runtime_log())


def test_message_is_copied_to_the_logs():
    with Pod("exit 3") as p:
        p.run("run")
        equal("the message is also in the log directory", p.read(p.logs("pai-termination-log")),
              p.read("/tmp/pai-termination-log"))
        check("the message has both markers", p.message().startswith("[PAI_RUNTIME_ERROR_START]\n") and
              p.message().endswith("[PAI_RUNTIME_ERROR_END]"), p.message())


def test_end_time_is_that_of_the_command():
    """The time is that of the end of the command, not of its remaining processes or of the
    precommands."""
    with Pod("date +%s.%3N; sleep 60 & exit 3", before="sleep 0.1") as p:
        p.run("run")
        said = float(p.log("user-all"))
        found = re.search(r'^endTime: "(\S{23})Z"$', p.message(), re.M)
        check("the message has the end of the command", found, p.message())
        end = datetime.datetime.fromisoformat(found.group(1) + "+00:00").timestamp()
        written = os.stat(p.at("/tmp/pai-termination-log")).st_mtime
        check("that of its process", said - 0.01 < end < written - 0.1, (said, end, written))


def test_phases_run_in_their_order():
    with Pod("echo user", before="echo before", after="echo after") as p:
        r = p.run("run")
        equal("phases: code", r.returncode, 0)
        order = [p.runtime_log().find(t) for t in (b"before\n", b"USER COMMAND START", b"USER COMMAND END", b"after\n")]
        check("phases: in their order", -1 not in order and order == sorted(order), p.runtime_log())
    with Pod("echo user", before="exit 10", after="echo after") as p:
        p.run("run")
        equal("precommands fail: their code", p.origin(), 10)
        equal("precommands fail: no user command", p.log("user-all"), b"")
        check("precommands fail: no postcommands", b"after\n" not in p.runtime_log())
    with Pod("exit 3", after="echo after") as p:
        p.run("run")
        check("user command fails: no postcommands", b"after\n" not in p.runtime_log())
    with Pod("true; exit 0", after="exit 7") as p:
        r = p.run("run")
        equal("postcommands fail: their code", (r.returncode, p.origin()), (255, 7))
        check("postcommands fail: the message says that it was them", "trigger: " in p.message() and
              "postCommands" in p.message(), p.message())


# ---- output ------------------------------------------------------------------------------------

def test_output_bytes_are_unchanged():
    data = bytes(range(256)) * 40 + b"\r\n\0\0 no newline at the end"
    with Pod("cat \"$DATA\"; cat \"$DATA\" >&2") as p:
        p.write("/data", data)
        p.env["DATA"] = p.at("/data")
        r = p.run("run")
        equal("bytes: container's standard output", r.stdout, data)
        check("bytes: container's standard error", data in r.stderr)
        equal("bytes: user-stdout", p.log("user-stdout"), data)
        equal("bytes: user-stderr", p.log("user-stderr"), data)
        equal("bytes: user-all", p.log("user-all"), data + data)


def test_output_order_is_kept_in_user_all():
    pairs = b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 101))
    with Pod("for i in $(seq 100); do echo o$i; echo e$i >&2; done") as p:
        p.run("run")
        equal("order: user-all has 100 pairs as they were written", p.log("user-all"), pairs)
    script = "import os\nfor i in range(1, 101):\n os.write(1, b'o%d\\n' % i)\n os.write(2, b'e%d\\n' % i)"
    with Pod(f"python3 -c \"{script}\"") as p:
        p.run("run")
        equal("order: also when they come as fast as can be", p.log("user-all"), pairs)


def test_output_flood_is_complete():
    script = """
import os, threading
def flood(fd, letter):
    line = letter * 99 + b"\\n"
    for i in range(100):
        os.write(fd, line * 1000)
t = threading.Thread(target=flood, args=(2, b"e"))
t.start(); flood(1, b"o"); t.join()
"""
    with Pod("exec python3 \"$SCRIPT\"") as p:
        p.write("/flood.py", script)
        p.env["SCRIPT"] = p.at("/flood.py")
        r = p.run("run")
        o, e = b"o" * 99 + b"\n", b"e" * 99 + b"\n"
        want = hashlib.sha256(o * 100000).hexdigest()
        equal("flood: code", r.returncode, 0)
        equal("flood: container's standard output", hashlib.sha256(r.stdout).hexdigest(), want)
        equal("flood: user-stdout", hashlib.sha256(p.log("user-stdout")).hexdigest(), want)
        equal("flood: user-stderr", hashlib.sha256(p.log("user-stderr")).hexdigest(),
              hashlib.sha256(e * 100000).hexdigest())
        equal("flood: user-all has all bytes", len(p.log("user-all")), 20000000)
        equal("flood: user-all has as many of each", (p.log("user-all").count(b"o"), p.log("user-all").count(b"e")),
              (9900000, 9900000))
    # Packets and plain writes on one pipe: the program opens its output once more.
    script = """
import os
again = os.open("/dev/stdout", os.O_WRONLY)
for i in range(20000):
    os.write(1, b"o%06d" % i + b"x" * (i % 5000) + b"\\n")
    os.write(again, b"o%06dagain\\n" % i)
"""
    with Pod("exec python3 \"$SCRIPT\"") as p:
        p.write("/mixed.py", script)
        p.env["SCRIPT"] = p.at("/mixed.py")
        r = p.run("run")
        want = b"".join(b"o%06d" % i + b"x" * (i % 5000) + b"\no%06dagain\n" % i for i in range(20000))
        check("flood: two ways into one pipe lose nothing", r.stdout == want, f"{len(r.stdout)} of {len(want)} bytes")
        check("flood: nor in the log", p.log("user-all") == want)


SPIN = """import os
os.set_blocking(1, False)
n = 0
while n < 2000:
    try:
        n += os.write(1, b"x" * 99 + b"\\n") // 100
    except BlockingIOError:
        pass
"""


def test_output_of_repeated_writes_is_complete():
    """Each write is announced, also one that does not fit; without a place in the signal queue, by
    SIGIO alone."""
    for limit in (0, 3):
        with Pod('for i in 1 2 3 4; do python3 -c "$SPIN" & done; wait', SPIN=SPIN) as p:
            run = p.start("run", preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_SIGPENDING, (n, n)))
            try:
                out, _ = run.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                run.kill()
                out, _ = run.communicate()
            equal(f"four writers that try again and again, {limit} announcements: all arrives", len(out), 800000)


def test_runtime_log_has_exact_lines():
    with Pod("true; true", before="""for i in $(seq 1000); do printf '  line %d \\\\t\\\\ "x" \\n' $i; done
printf 'to stderr\\n' >&2
printf 'no end'""") as p:
        p.run("run")
        want = b"".join(b'  line %d \\t\\ "x" \n' % i for i in range(1, 1001)) + b"to stderr\nno end\n"
        check("runtime.log: 1000 lines of precommands as they were", want in p.runtime_log(), p.runtime_log()[-300:])
        check("runtime.log: each of them has its prefix",
              len(PREFIX.findall(p.log("runtime.log"))) == p.log("runtime.log").count(b"\n"))


def test_runtime_pipe_accepts_lines_of_all_shells():
    shells = [s for s in ("/bin/bash", "/bin/dash", "/bin/sh") if os.path.exists(s)]
    script = "".join(f"{s} -c 'echo said by {s} > $RUNTIME_LOG_PIPE'\n" for s in shells)
    script += "python3 -c 'import os,subprocess; subprocess.run(\"echo from afar > $RUNTIME_LOG_PIPE\", shell=True)'\n"
    if os.path.exists("/usr/bin/busybox"):
        script += "busybox sh -c 'echo said by busybox > $RUNTIME_LOG_PIPE'\n"
        shells.append("busybox")
    with Pod(script) as p:
        r = p.run("run")
        equal("RUNTIME_LOG_PIPE: code", r.returncode, 0)
        for s in shells:
            check(f"RUNTIME_LOG_PIPE: from {s}", f"said by {s}\n".encode() in p.runtime_log())
        check("RUNTIME_LOG_PIPE: also without inherited descriptors", b"from afar\n" in p.runtime_log())
        equal("RUNTIME_LOG_PIPE: nothing of it in the user's log", p.log("user-all"), b"")


# ---- environment -------------------------------------------------------------------------------

def test_environment_of_init_is_added():
    pairs = {"PAI_A": "it's", "PAI_B": "a\nb", "PAI_C": "`id` $(id) $HOME \\", "PAI_D": "", "FROM_POD": "init"}
    text = b"".join(f"{k}={v}".encode() + b"\0" for k, v in pairs.items())
    text += b"bad-name=1\0" + b"=2\0" + b"no equals\0" + b"9x=3\0" + b"PAI_LONG=" + b"x" * 140000 + b"\0" + b"PAI_CUT=1"
    with Pod("env -0", environ=text, FROM_POD="pod", ONLY_POD="yes") as p:
        r = p.run("run")
        got = dict(v.split(b"=", 1) for v in r.stdout.split(b"\0") if b"=" in v)
        for k, v in pairs.items():
            equal(f"environment: {k}", got.get(k.encode()), v.encode())
        equal("environment: what the container has", got.get(b"ONLY_POD"), b"yes")
        equal("environment: PAI_WORK_DIR", got.get(b"PAI_WORK_DIR"), os.getcwd().encode())
        equal("environment: PAI_SHELL", got.get(b"PAI_SHELL"), b"/bin/bash")
        for name in (b"bad-name", b"", b"9x", b"PAI_LONG", b"PAI_CUT"):
            check(f"environment: {name!r} is left out", name not in got)
        check("environment: runtime.log names what is left out",
              b"bad-name" in p.runtime_log() and b"PAI_LONG" in p.runtime_log())
        equal("environment: each name once", len(got), len([v for v in r.stdout.split(b"\0") if v]))
    with Pod("true; true", FC_TASKROLE_NAME="worker") as p:
        p.run("run")
        check("environment: an address that is not known is named", b"PAI_CURRENT_CONTAINER_IP" in p.runtime_log())


def test_home_that_the_command_makes_is_kept():
    with Pod('mkdir -p "$HOME" && cd && pwd') as p:
        home = p.at("/made/by/the/command")
        p.env["HOME"] = home
        equal("HOME that is not there yet", p.run("run").stdout.decode(), home + "\n")


def test_working_directory_gets_a_link_to_the_results():
    """Unless something has the name, which stays; runtime.log says so, unless it leads to the results."""
    with tempfile.TemporaryDirectory() as results:
        for made, says in ((None, b""), ("link", b""), ("directory", b"there can be no link `results`"), ("read-only", b"what is written to")):
            with tempfile.TemporaryDirectory() as here, Pod('echo x >"$PAI_RESULTS_DIR/x"; cat results/x || true', PAI_RESULTS_DIR=results,
                                                            PAI_RESULTS_LINK="results") as p:
                if made == "link":
                    os.symlink(results, os.path.join(here, "results"))
                elif made == "directory":
                    os.mkdir(os.path.join(here, "results"))
                elif made == "read-only":
                    p.env["PAI_RESULTS_LINK"] = "results" + 300 * "x"  # root can write anywhere
                r = p.run("run", cwd=here)
                equal(f"results, {made}: the file", (r.returncode, r.stdout), (0, b"x\n" if not says else b""))
                check(f"results, {made}: runtime.log", says in p.runtime_log() and (says or b"results:" not in p.runtime_log()), p.runtime_log())
        for name in ("", "a/b"):
            with tempfile.TemporaryDirectory() as here, Pod("ls -A", PAI_RESULTS_DIR=results, PAI_RESULTS_LINK=name) as p:
                equal(f"results, {name!r}: no link", p.run("run", cwd=here).stdout, b"")


def test_environment_of_4000_variables_is_passed():
    text = b"".join(b"PAI_PORT_LIST_worker_%d_ssh=%d\0" % (i, i) for i in range(4000))
    with Pod("env | grep -c PAI_PORT", environ=text) as p:
        equal("environment of 4000 variables", p.run("run").stdout, b"4000\n")


def test_command_starts_with_a_clean_state():
    with Pod("readlink /proc/self/fd/0; [ $(cut -d' ' -f5 /proc/$$/stat) = $$ ] && echo leader; echo core $(ulimit -c)") as p:
        equal("start: no descriptors of ours (3 is its own)", p.run("run", "--", "ls", "/proc/self/fd").stdout,
              b"0\n1\n2\n3\n")
        out = p.run("run", "--", "grep", "Sig", "/proc/self/status").stdout
        check("start: no signal blocked", b"SigBlk:\t0000000000000000" in out, out)
        # Signals 32 to 34 belong to the C library; the caller of the tests may have left them
        # ignored.
        ignored = int(re.search(rb"SigIgn:\t([0-9a-f]+)", out).group(1), 16) & ~(7 << 31)
        equal("start: no signal ignored", ignored, 0)
        out = p.run("run").stdout.decode()
        check("start: nothing to read", "/dev/null\n" in out, out)
        check("start: a process group of its own", "leader\n" in out, out)
        limit = subprocess.run(["bash", "-c", "ulimit -c"], capture_output=True, text=True).stdout
        check("start: the limit of core files as it was", f"core {limit}" in out, out)
    with Pod("echo hello") as p:
        r = subprocess.run(["bash", "-c", f"exec {RUNTIME} run --root {p.path} <&- >&- 2>&-"], env=p.env)
        equal("start: without descriptors 0 to 2: code", r.returncode, 0)
        equal("start: without descriptors 0 to 2: log", p.log("user-all"), b"hello\n")


# ---- signals -----------------------------------------------------------------------------------

def started(p, mark=b"ready\n"):
    """True if the command has printed this."""
    return eventually(lambda: mark in p.log("user-all") or mark in p.runtime_log())


def test_signals_are_forwarded():
    names = ("INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "TERM")
    # No shell: bash ends its loop when SIGINT ended what it waited for.
    script = """
import os, signal, sys, time
for n in sys.argv[1:]:
    signal.signal(getattr(signal, "SIG" + n), lambda *_, n=n: os.write(1, f"got {n}\\n".encode()))
os.write(1, b"ready\\n")
while not os.path.exists(os.environ["STOP"]):
    time.sleep(0.05)
sys.exit(5)
"""
    with Pod('exec python3 "$SCRIPT" ' + " ".join(names)) as p:
        p.write("/signals.py", script)
        p.env.update(STOP=p.at("/stop"), SCRIPT=p.at("/signals.py"))
        run = p.start("run")
        started(p)
        for n in names:
            run.send_signal(getattr(signal, "SIG" + n))
            check(f"signal {n} is forwarded", eventually(lambda: f"got {n}\n".encode() in p.log("user-all")))
        p.write("/stop", "")
        out, _ = run.communicate(timeout=PATIENCE)
        equal("signals: what comes after them still counts", p.origin(), 5)
        check("signals: output goes on after SIGTERM", b"got TERM" in out)


def test_sigterm_gives_the_grace_period():
    with Pod("echo ready; sleep 1000") as p:
        run = p.stopped()
        equal("SIGTERM: code", (run.returncode, p.origin()), (255, 143))
    with Pod("trap 'echo cleaning; exit 0' TERM\necho ready\nsleep 1000 & wait\n", after="echo after") as p:
        run = p.stopped()
        equal("SIGTERM, trapped: its own code", run.returncode, 0)
        check("SIGTERM, trapped: what it still says", b"cleaning" in p.log("user-all"))
    with Pod("trap '' TERM\necho ready\nwhile :; do sleep 0.1; done", PAI_TERM_GRACE_SEC="2") as p:
        run = p.start("run")
        started(p)
        begin = time.monotonic()
        run.terminate()
        run.communicate(timeout=PATIENCE)
        took = time.monotonic() - begin
        equal("SIGTERM, ignored: killed and told", (run.returncode, p.origin()), (255, 137))
        check("SIGTERM, ignored: not before its time", took > 0.9, took)
        check("SIGTERM, ignored: before the pod is killed", took < PATIENCE, took)
    with Pod("sh -c 'trap \"sleep 4; echo saved; exit 0\" TERM; echo ready; while :; do sleep 0.1; done'\necho after") as p:
        p.stopped()
        check("SIGTERM, the shell ends at once: its child has the grace period", b"saved\n" in p.log("user-stdout"),
              p.log("user-all"))
        equal("SIGTERM, the shell ends at once: code", p.origin(), 143)
    with Pod("trap 'echo cleaning; exit 0' TERM\necho ready\nsleep 1000 & wait\n", PAI_TERM_GRACE_SEC="60",
             after="(trap 'echo asked; exit 0' TERM; : >$SET; while :; do sleep 0.1; done) & "
                   "until [ -e $SET ]; do sleep 0.1; done") as p:
        p.env["SET"] = p.at("/set")
        p.stopped()
        check("SIGTERM: what a later phase leaves running is asked to end", b"asked\n" in p.runtime_log(),
              p.runtime_log())
    with Pod("echo user", before="echo ready; sleep 1000") as p:
        p.stopped()
        equal("SIGTERM during precommands: code", p.origin(), 143)
        equal("SIGTERM during precommands: the command is not started", p.log("user-all"), b"")
    with Pod("echo user", before="trap 'exit 0' TERM; echo ready; sleep 1000 & wait") as p:
        p.stopped()
        equal("SIGTERM, precommands end well: code", p.origin(), 143)
        equal("SIGTERM, precommands end well: the command is not started", p.log("user-all"), b"")
    with Pod("echo ready; kill -STOP $$; sleep 1000") as p:
        run = p.start("run")
        started(p)
        check("SIGTERM to a stopped command: it is", eventually(lambda: "T" in states_below(run.pid)))
        run.terminate()
        run.communicate(timeout=PATIENCE)
        equal("SIGTERM to a stopped command: code", p.origin(), 143)


def states_below(pid):
    """The states of the children of a process."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        children = f.read().split()
    found = set()
    for child in children:
        try:
            with open(f"/proc/{child}/stat", encoding="ascii", errors="replace") as f:
                found.add(f.read().rpartition(")")[2].split()[0])
        except OSError:
            pass
    return found


def is_roots(pid):
    """Returns True if every uid of a process is 0, so that no other user may signal it. While
    setuid takes effect, its real uid is still that of its starter."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
            uids = next(line for line in f if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return False
    return set(uids.split()[1:]) == {"0"}


def test_sigterm_ends_a_run_that_cannot_kill():
    """The command survives SIGKILL: it is blocked in the kernel or, in this test, belongs to
    another user."""
    if not ROOT_USER or not shutil.which("setpriv"):
        skip("a command that cannot be killed", "needs root and setpriv")
        return
    # Memory may be mounted without setuid.
    with Pod(PAI_TERM_GRACE_SEC="3") as p, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        as_root = shutil.copy(shutil.which("setpriv"), folder)
        os.chmod(folder, 0o755)
        os.chmod(as_root, 0o4755)
        mark = f"1007.{ME}"
        p.write(D + "user.sh", HEADER + f"echo ready; exec {as_root} --reuid 0 sleep {mark}")
        run = p.start("run", user=65534, group=65534, extra_groups=[])
        if not eventually(lambda: any(is_roots(pid) for pid in sleepers(mark))):
            skip("a command that cannot be killed", "no setuid here")
            run.kill()
        else:
            run.terminate()
            run.wait(timeout=PATIENCE)
            equal("SIGKILL in vain: told all the same", (run.returncode, p.origin()), (255, 137))
            check("SIGKILL in vain: runtime.log says so", b"does not end by SIGKILL" in p.runtime_log())
        for pid in sleepers(mark):
            os.kill(pid, signal.SIGKILL)
        run.communicate(timeout=PATIENCE)


def test_signals_of_terminals_are_ignored():
    with Pod("echo ready; until [ -e $STOP ]; do sleep 0.1; done; echo done") as p:
        p.env["STOP"] = p.at("/stop")
        run = p.start("run")
        started(p)
        for n in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP, signal.SIGPIPE):
            run.send_signal(n)
        p.write("/stop", "")
        out, _ = run.communicate(timeout=PATIENCE)
        equal("signals of terminals and pipes do not matter", (run.returncode, out), (0, b"ready\ndone\n"))


# ---- processes -----------------------------------------------------------------------------------

def test_background_processes_are_ended():
    with Pod(f"sleep 1111.{ME} & echo done") as p:
        begin = time.monotonic()
        r = p.run("run")
        took = time.monotonic() - begin
        equal("background process: the main one decides", (r.returncode, r.stdout), (0, b"done\n"))
        check("background process: has two seconds", 1.9 < took < PATIENCE, took)
        check("background process: is ended", eventually(lambda: not sleepers(f"sleep\x001111.{ME}")))
    with Pod(f"sleep 1112.{ME} >/dev/null 2>&1 & echo done") as p:
        def seconds(*command):
            begin = time.monotonic()
            p.run("run", *command)
            return time.monotonic() - begin
        more = []
        while len(more) < 20 and min(more, default=9) >= 1.9:  # the machine may be busy
            more.append(seconds() - seconds("--", "true"))
        # qemu-user knows no PR_SET_CHILD_SUBREAPER: there, init of this machine reaps it, maybe late.
        check("background process without the streams: is not waited for", EMULATED or min(more) < 1.9, more)
        check("background process without the streams: is ended", eventually(lambda: not sleepers(f"sleep\x001112.{ME}")))
    with Pod(f"(trap '' TERM; sleep 1113.{ME}; sleep 1113.{ME}) & echo done") as p:
        r = p.run("run")
        equal("background process that ignores SIGTERM: code", r.returncode, 0)
        check("background process that ignores SIGTERM: is ended", eventually(lambda: not sleepers(f"sleep\x001113.{ME}")))
    with Pod("(sleep 0.1; echo late) & echo done") as p:
        for _ in range(10):  # the two seconds may not be enough for it
            r = p.run("run")
            if r.stdout == b"done\nlate\n":
                break
        equal("background process: what it says in time is kept", r.stdout, b"done\nlate\n")
    with Pod(f"setsid sh -c 'while :; do echo x; done #{ME}' & sleep 0.1; echo done") as p:
        r = p.run("run")
        equal("flooding daemon: the main one decides", r.returncode, 0)
        for pid in sleepers(f"done #{ME}"):
            os.kill(pid, signal.SIGKILL)
    with Pod(f"until pgrep -f 'sleep 1114.{ME}' >/dev/null; do sleep 0.1; done; echo alive", before=f"sleep 1114.{ME} & echo started") as p:
        r = p.run("run")
        equal("service of precommands: lives while the command runs", (r.returncode, r.stdout), (0, b"alive\n"))
        check("service of precommands: is ended with it", eventually(lambda: not sleepers(f"sleep\x001114.{ME}")))


def test_command_is_the_only_child():
    """The command is a direct child of the runtime."""
    with Pod(f"exec sleep 1115.{ME}") as p:
        run = p.start("run")
        check("one process: the command is there", eventually(lambda: sleepers(f"sleep\x001115.{ME}")))
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as f:
            equal("one process: has one child, the command", list(map(int, f.read().split())), sleepers(f"sleep\x001115.{ME}"))
        if not EMULATED:  # the emulator has one of its own
            equal("one process: and one thread", os.listdir(f"/proc/{run.pid}/task"), [str(run.pid)])
        run.terminate()
        run.communicate(timeout=PATIENCE)


def test_killed_run_leaves_complete_logs():
    """The runtime is killed, as on a node without memory: the logs have all output until then, also
    half a line."""
    with Pod(f"for i in $(seq 200); do echo line $i; done; printf half; exec sleep 1116.{ME}") as p:
        run = p.start("run")
        read = b""
        while not read.endswith(b"half"):
            read += os.read(run.stdout.fileno(), 65536)
        # Output that the container's stream has is in the logs, or will be in the same turn.
        check("killed: the log is written through", eventually(lambda: p.log("user-all") == read),
              p.log("user-all")[-100:])
        run.kill()
        run.communicate(timeout=PATIENCE)
        want = b"".join(b"line %d\n" % i for i in range(1, 201)) + b"half"
        for name in ("user-all", "user-stdout"):
            equal(f"killed: {name} is complete", p.log(name), want)
        for pid in sleepers(f"sleep\x001116.{ME}"):
            os.kill(pid, signal.SIGKILL)


# ---- readers and disks that do not do what they should -----------------------------------------------

def test_reader_that_is_gone_does_not_stop_the_command():
    with Pod("for i in $(seq 2000); do echo line $i; done; echo end >&2") as p:
        run = p.start("run")
        run.stdout.close()
        err = run.stderr.read()
        run.wait(timeout=PATIENCE)
        equal("reader is gone: the command does not notice", run.returncode, 0)
        check("reader is gone: the logs are complete", p.log("user-stdout").endswith(b"line 2000\n"))
        check("reader is gone: it is told", b"did not reach the container's standard output" in err, err)
        check("reader is gone: the other stream goes on", b"end\n" in err)


def test_reader_that_is_slow_delays_one_stream():
    # More than all pipes and queues hold: the command has to wait, the other stream does not.
    script = "head -c 20000000 /dev/zero & wait $!; touch $DONE"
    with Pod("for i in $(seq 5); do echo err $i >&2; sleep 0.1; done & " + script) as p:
        p.env["DONE"] = p.at("/done")
        run = p.start("run")
        check("slow reader: the other stream goes on", eventually(lambda: b"err 5" in p.log("user-stderr")))
        check("slow reader: meanwhile the command waits for it", not p.exists("/done"))
        run.send_signal(signal.SIGUSR2)
        out, _ = run.communicate(timeout=PATIENCE)
        check("slow reader: signals come through all the same", p.origin() == 140, p.message())
        check("slow reader: what was taken arrives", set(out) <= {0} and len(out) >= 65536, len(out))
    with Pod("head -c 3000000 /dev/zero; echo end") as p:
        run = p.start("run")
        eventually(lambda: len(p.log("user-all")) >= 65536)  # the pipe is full
        out, _ = run.communicate(timeout=PATIENCE)
        equal("late reader: gets everything", (run.returncode, len(out), out[-4:]), (0, 3000004, b"end\n"))
        equal("late reader: so do the logs", len(p.log("user-all")), 3000004)


def test_reader_that_takes_nothing_does_not_delay_the_end():
    with Pod("head -c 10000000 /dev/zero") as p:
        p.env["PAI_TERM_GRACE_SEC"] = "3"
        run = p.start("run")
        eventually(lambda: len(p.log("user-all")) >= 65536)
        begin = time.monotonic()
        run.terminate()
        run.wait(timeout=PATIENCE)
        took = time.monotonic() - begin
        equal("reader that takes nothing, SIGTERM: it is told how it ended", p.origin(), 143)
        check("reader that takes nothing, SIGTERM: soon", took < PATIENCE, took)
        run.communicate()
    with Pod("head -c 100000 /dev/zero") as p:
        run = p.start("run")
        equal("reader that takes nothing: the end does not wait for ever", run.wait(timeout=PATIENCE), 0)
        out, err = run.communicate()
        check("reader that takes nothing: what it missed is told",
              b"did not reach the container's standard output" in err, err)
        equal("reader that takes nothing: the log is complete", len(p.log("user-all")), 100000)


def test_sockets_and_files_can_be_streams():
    import socket
    ours, theirs = socket.socketpair()
    with Pod("head -c 1000000 /dev/zero; echo end") as p:
        run = p.start("run", stdout=theirs, stderr=subprocess.DEVNULL)
        theirs.close()
        out = b""
        while piece := ours.recv(65536):
            out += piece
        run.wait()
        equal("a socket as standard output", (run.returncode, len(out)), (0, 1000004))
    with Pod("echo one; echo two") as p, tempfile.TemporaryFile() as f:
        f.write(b"before\n")
        f.flush()
        p.start("run", stdout=f, stderr=subprocess.DEVNULL).wait()
        f.seek(0)
        equal("a file as standard output goes on where it is", f.read(), b"before\none\ntwo\n")


def test_full_disk_is_reported_once_per_log():
    if not mounts("full disk"):
        return
    with Pod("head -c 3000000 /dev/zero; echo end; sleep 0.2; rm -f \"$LOGS\"/filler; echo more") as p:
        logs = p.at(p.logs())
        p.env["LOGS"] = logs
        script = (f"mount -t tmpfs -o size=1m none {logs} && {RUNTIME} run --root {p.path}; rc=$?; "
                  f"cat {logs}/runtime.log >{p.path}/saved; exit $rc")
        r = subprocess.run(["unshare", "-m", "sh", "-c", script], env=p.env, capture_output=True,
                           timeout=PATIENCE)
        equal("full disk: the task does not notice", r.returncode, 0)
        equal("full disk: the container's stream has everything", len(r.stdout), 3000009)
        check("full disk: it is told once per log",
              r.stderr.count(b"user-stdout cannot be written (No space left on device)") == 1, r.stderr)
        check("full disk: how much is missing is told at the end",
              re.search(rb"the logs are not complete: \d{7} bytes are missing in user-stdout", r.stderr), r.stderr)


def test_read_only_logs_are_reported():
    if not mounts("read-only log directory"):
        return
    with Pod("echo hello; echo oops >&2; exit 4") as p:
        logs = p.at(p.logs())
        script = (f"mount -t tmpfs -o ro none {logs} && exec {RUNTIME} run --root {p.path}")
        r = subprocess.run(["unshare", "-m", "sh", "-c", script], env=p.env, capture_output=True,
                           timeout=PATIENCE)
        equal("read-only log directory: the container's stream", r.stdout, b"hello\n")
        check("read-only log directory: the other one", b"oops\n" in r.stderr)
        check("read-only log directory: it is told", b"Read-only file system" in r.stderr, r.stderr)
        check("read-only log directory: what is missing", b"6 bytes are missing in user-stdout" in r.stderr, r.stderr)
        equal("read-only log directory: the message is written", p.origin(), 4)


def test_another_user_can_run_commands():
    if not ROOT_USER:
        skip("another user", "only root can become one")
        return
    with Pod("id -u; echo by another user >$RUNTIME_LOG_PIPE; exit 3", before="echo before") as p:
        r = p.run("run", user=65534, group=65534, extra_groups=[])
        equal("another user: output", r.stdout, b"65534\n")
        equal("another user: log", p.log("user-all"), b"65534\n")
        check("another user: RUNTIME_LOG_PIPE", b"by another user\n" in p.runtime_log(), p.runtime_log())
        equal("another user: the message", p.origin(), 3)
        # Its standard output is a pipe of root's, which it cannot open anew.
        p.write(D + "user.sh", HEADER + "head -c 3000000 /dev/zero; echo end")
        run = p.start("run", stderr=subprocess.DEVNULL, user=65534, group=65534, extra_groups=[])
        eventually(lambda: len(p.log("user-all")) >= 65536)
        out, _ = run.communicate(timeout=PATIENCE)
        equal("another user: a slow reader of somebody else's pipe gets everything", (run.returncode, len(out)),
              (0, 3000004))
        p.write(D + "user.sh", HEADER + "id -u; exit 3")
        os.chmod(p.at(p.logs()), 0o555)
        r = p.run("run", user=65533, group=65533, extra_groups=[])
        equal("another user without write permission: output", r.stdout, b"65533\n")
        check("yet another user: it is told", b"Permission denied" in r.stderr, r.stderr)


# ---- what is in the way -----------------------------------------------------------------------------

def planted(name, plant, victim=b"precious\n"):
    with Pod("echo hello") as p:
        p.write("/victim", victim)
        plant(p)
        r = p.run("run")
        equal(f"{name}: the task does not notice", (r.returncode, r.stdout), (0, b"hello\n"))
        equal(f"{name}: it is not followed", p.read("/victim"), victim)
        equal(f"{name}: the log is a new one", p.log("user-all"), b"hello\n")
        check(f"{name}: runtime.log is there", b"USER COMMAND END" in p.runtime_log())
        check(f"{name}: it is told", b"is not a log" in r.stderr, r.stderr)
        return p


def test_planted_files_are_not_followed():
    def under(make, path="user-all/current"):
        def plant(p):
            os.makedirs(os.path.dirname(p.at(p.logs(path))), exist_ok=True)
            make(p, p.at(p.logs(path)))
        return plant
    def link(p, path):
        os.symlink(p.at("/victim"), path)
    def hard(p, path):
        os.link(p.at("/victim"), path)
    def fifo(p, path):
        os.mkfifo(path)
    def folder(p, path):
        os.makedirs(path)
    def file(p, path):
        open(path, "w").close()
    def folder_link(p, path):
        os.makedirs(p.at("/elsewhere"), exist_ok=True)
        os.symlink(p.at("/elsewhere"), path)
    for name, make in (("link", link), ("second name", hard), ("fifo", fifo), ("directory", folder)):
        planted(f"{name} as current", under(make))
        planted(f"{name} as runtime.log", under(make, "runtime.log"))
    planted("file as user-all", under(file, "user-all"))
    planted("link as user-all", under(folder_link, "user-all"))
    planted("fifo as user-all", under(fifo, "user-all"))

    def log_directory(p):
        os.rmdir(p.at(p.logs()))
        folder_link(p, p.at(p.logs()).rstrip("/"))
    planted("link as the log directory", log_directory)
    with Pod("rm /tmp/x 2>/dev/null; ln -s $VICTIM $TARGET; exit 3") as p:
        p.write("/victim", "precious")
        p.env.update(VICTIM=p.at("/victim"), TARGET=p.at("/tmp/pai-termination-log"))
        p.run("run")
        equal("link as termination file, by the command: is not followed", p.read("/victim"), b"precious")
    with Pod("mv $LOGS/user-all/current $LOGS/user-all/x; ln -s $VICTIM $LOGS/user-all/current; exit 3") as p:
        p.write("/victim", "precious")
        p.env.update(VICTIM=p.at("/victim"), LOGS=p.at(p.logs()))
        p.run("run")
        equal("current replaced by the command: is not followed", p.read("/victim"), b"precious")


# ---- rotation and restart ------------------------------------------------------------------------------

LIMIT = 256 << 20


def test_logs_are_rotated_at_line_ends():
    """The logs of an earlier run, which are nearly full, are sparse files."""
    lines, before = 3000, LIMIT // 100 * 100 - 100000
    with Pod(f"seq -f '%099.0f' {lines}") as p:  # 100 bytes each
        for name in ("user-stdout", "user-stderr", "user-all"):
            p.write(p.logs(f"{name}/current"), "")
            with open(p.at(p.logs(f"{name}/current")), "r+b") as f:
                f.seek(before - 1)
                f.write(b"\n")
        p.start("run", stdout=subprocess.DEVNULL).communicate(timeout=PATIENCE)
        for name in ("user-stdout", "user-all"):
            folder = p.at(p.logs(name))
            names = sorted(os.listdir(folder))
            check(f"rotation: {name} has two files", len(names) == 2 and names[1] == "current", names)
            check(f"rotation: {name}: name of the older", re.fullmatch(r"@[0-9a-f]{24}\.s", names[0]), names)
            old, new = (os.stat(os.path.join(folder, n)) for n in names)
            check(f"rotation: {name}: modes", (stat.S_IMODE(old.st_mode), stat.S_IMODE(new.st_mode)) == (0o744, 0o644))
            check(f"rotation: {name}: changed at the end of a line", LIMIT - 2000 <= old.st_size <= LIMIT - 1900 and
                  old.st_size % 100 == 0, old.st_size)
            equal(f"rotation: {name}: nothing is lost", old.st_size + new.st_size, before + lines * 100)
            with open(os.path.join(folder, "current"), "rb") as f:
                equal(f"rotation: {name}: goes on with the next line", f.read(100),
                      b"%099d\n" % ((old.st_size - before) // 100 + 1))


def test_restart_continues_the_logs():
    with Pod("echo run; printf 'no end'; exit 3") as p:
        for _ in range(3):
            r = p.run("run")
            equal("restart in one volume: code", r.returncode, 255)
        equal("restart in one volume: logs go on, each run on a line of its own", p.log("user-all"),
              b"run\nno end\nrun\nno end\nrun\nno end")


# ---- command line ------------------------------------------------------------------------------------

def test_command_line_is_run_as_it_is():
    with Pod() as p:
        r = p.run("run", "--", "printf", "%s|", "a b", "$HOME", "*")
        equal("-- PROGRAM: is run as it stands", (r.returncode, r.stdout), (0, b"a b|$HOME|*|"))
        r = p.run("run", "--", "no-such-program")
        equal("-- PROGRAM that is not there", (r.returncode, p.origin()), (255, 127))
        check("-- PROGRAM that is not there: runtime.log says so",
              b"cannot start no-such-program: No such file or directory" in p.runtime_log())
        equal("unknown option", p.run("run", "--nonsense").returncode, 2)


if __name__ == "__main__":
    tests(*(test for name, test in list(globals().items()) if name.startswith("test_")))
    finish()
