"""`pai-runtime run` as process 1 of a container: namespaces of its own (unshare) and three root file
systems (chroot): that of this machine, one with nothing but busybox, one without any shell."""
import os
import re
import shutil
import signal
import subprocess
import tempfile

from checks import PATIENCE, RUNTIME, check, equal, eventually, finish, may_unshare, tests

UID = "22222222-0000-0000-0000-000000000000"
LOGS = f"/usr/local/pai/logs/{UID}/"
HEADER = """#!/bin/bash
set -o errexit
set -o nounset
if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi

"""
BUSYBOX = shutil.which("busybox")


def skip(name, why):
    print(f"SKIPPED {name}: {why}")


class Container:
    """A root file system.  `mounts` are lines of shell that run in the namespace before chroot; $R is
    the root."""

    def __init__(self, mounts=""):
        self.path = tempfile.mkdtemp(prefix="pai-pid1-")
        os.chmod(self.path, 0o755)
        for folder in (LOGS, "/usr/local/pai/runtime.d", "/tmp", "/proc", "/dev", "/bin"):
            os.makedirs(self.path + folder, exist_ok=True)
        os.chmod(self.path + LOGS, 0o777)
        os.chmod(self.path + "/tmp", 0o1777)
        open(self.path + "/dev/null", "w").close()
        shutil.copy(RUNTIME, self.path + "/usr/local/pai/runtime")
        os.chmod(self.path + "/usr/local/pai/runtime", 0o755)
        self.mounts = "mount -t proc proc $R/proc && mount --bind /dev/null $R/dev/null && " + mounts
        self.write("runtime_env", "PAI_NAME=it's\0")
        self.write("precommands.sh", HEADER)
        self.write("postcommands.sh", HEADER)

    def write(self, name, text):
        with open(f"{self.path}/usr/local/pai/runtime.d/{name}", "w") as f:
            f.write(text)

    def user(self, text):
        self.write("user.sh", HEADER + text)
        return self

    def start(self, *args, **env):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "FC_POD_UID": UID,
               "R": self.path, **env}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        self.chroot = getattr(self, "chroot", "chroot")
        script = f'{self.mounts} : && exec {self.chroot} "$R" /usr/local/pai/runtime "$@"'
        return subprocess.Popen(["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script, "sh",
                                 *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run(self, *args, **env):
        p = self.start(*args, **env)
        self.out, self.err = p.communicate(timeout=PATIENCE)
        self.code = p.returncode
        return self

    def read(self, path):
        try:
            with open(self.path + path, "rb") as f:
                return f.read()
        except OSError:
            return b""

    def origin(self):
        found = re.search(rb"originUserExitCode: (\d+)", self.read("/tmp/pai-termination-log"))
        return int(found.group(1)) if found else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def process_1(p):
    """Process 1 of the container, by its number outside."""
    def children():
        with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
            return f.read().split()
    return int(children()[0]) if eventually(children) else None


def debian():
    mounts = "for d in usr/bin usr/lib usr/lib64 usr/sbin etc; do mkdir -p $R/$d; mount --rbind /$d $R/$d || exit; done && "
    c = Container(mounts)
    for d in ("bin", "lib", "lib64", "sbin"):
        if os.path.isdir(f"{c.path}/{d}"):
            os.rmdir(f"{c.path}/{d}")
        if os.path.islink("/" + d):
            os.symlink("usr/" + d, f"{c.path}/{d}")
    return c


def busybox():
    c = Container()
    shutil.copy(BUSYBOX, c.path + "/bin/busybox")
    for name in ("sh", "cat", "echo", "sleep", "id", "seq", "env", "grep", "kill", "touch", "ls"):
        os.symlink("busybox", f"{c.path}/bin/{name}")
    return c


def no_shell():
    c = Container()
    shutil.copy(BUSYBOX, c.path + "/busybox1")  # selects its program by the first argument, and is no shell by itself
    return c


def wait_for(c, mark, times=1):
    return eventually(lambda: c.read(LOGS + "user-all/current").count(mark) >= times)


def test_command_runs_with_shell_and_environment(name, make, shell):
    with make() as c:
        c.user("echo $$ $PAI_SHELL \"$PAI_NAME\"; echo err >&2; echo said >$RUNTIME_LOG_PIPE; cat /proc/1/comm")
        c.run()
        lines = c.out.decode().split("\n")
        equal(f"{name}: code", c.code, 0)
        equal(f"{name}: shell and environment", lines[0].split(" ", 1)[1:], [f"{shell} it's"])
        equal(f"{name}: the runtime is process 1", lines[1], "runtime")
        equal(f"{name}: log", c.read(LOGS + "user-stdout/current"), c.out)
        check(f"{name}: RUNTIME_LOG_PIPE", b"] said\n" in c.read(LOGS + "runtime.log"), c.err)
        c.user("echo again; exit 3").run()
        equal(f"{name}: starts again in the same volume", (c.code, c.origin()), (255, 3))
        check(f"{name}: no files of ours but the logs",
              sorted(os.listdir(c.path + LOGS)) == ["pai-termination-log", "runtime.log", "user-all", "user-stderr",
                                                    "user-stdout"], os.listdir(c.path + LOGS))
    with make() as c:
        c.write("precommands.sh", HEADER + "echo from precommands; \"${PAI_SHELL:-/bin/bash}\" /usr/local/pai/runtime.d/p.sh\n")
        c.write("p.sh", "set -o errexit\necho from plugin\n")
        c.write("postcommands.sh", HEADER + "exit 7\n")
        c.user("echo user").run()
        equal(f"{name}: postcommands that fail", (c.code, c.origin()), (255, 7))
        check(f"{name}: scripts of plugins", b"from plugin\n" in c.read(LOGS + "runtime.log"))


def test_signals_reach_the_command(name, make):
    with make() as c:
        c.user("trap 'echo got term; exit 9' TERM; echo ready; sleep 1000 & wait")
        p = c.start()
        wait_for(c, b"ready")
        os.kill(process_1(p), signal.SIGTERM)
        out, _ = p.communicate(timeout=PATIENCE)
        equal(f"{name}: SIGTERM reaches the command", (out, c.origin()), (b"ready\ngot term\n", 9))


# The program takes 8 s to save its state; a second SIGTERM would end that.
TRAINER = "#!/bin/sh\ntrap 'sleep 8; echo saved $1 >>/tmp/saved; exit 0' TERM\n" \
          "echo ready $1\nwhile :; do sleep 0.1; done\n"
# Lines of user.sh, and how many trainers they start.
OWN_CHILD = ("/tmp/train 1\necho not reached\n", 1)
DASH_CHILD = ("echo '/tmp/train 1; echo not reached' >/tmp/outer; exec dash /tmp/outer\n", 1)
OWN_GROUPS = ("set -m; /tmp/train 1 & /tmp/train 2 & set +m\n(/tmp/train 3 &)\n/tmp/train 4\n", 4)
OWN_SESSIONS = ("setsid /tmp/train 1 &\n(setsid /tmp/train 2 &)\n/tmp/train 3\n", 3)
# The session that sshd makes for a rank; both its streams are a file, for the connection ends at once.
SSHD = ("""
d=/tmp/ssh; mkdir -m 700 $d; mkdir -p /run/sshd
for k in host user; do ssh-keygen -q -t ed25519 -N "" -f $d/$k; done
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
until p=$(port) && /usr/sbin/sshd -f /dev/null -p $p -h $d/host -o AuthorizedKeysFile=$d/user.pub -o StrictModes=no \\
    -o ListenAddress=127.0.0.1 -o PidFile=none -o UsePAM=no -o PermitRootLogin=yes &&
  ssh -F /dev/null -f -p $p -i $d/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@127.0.0.1 \\
    '/tmp/train 1 >/tmp/rank 2>&1'
do sleep 0.2; done
until grep ready /tmp/rank; do sleep 0.1; done
/tmp/train 2
""", 2)


def start_trainers(make, lines):
    c = make()
    with open(f"{c.path}/tmp/train", "w") as f:
        f.write(TRAINER)
    os.chmod(f"{c.path}/tmp/train", 0o755)
    c.user(lines)
    return c, c.start(PAI_TERM_GRACE_SEC="60")


def test_grace_period_applies_to_all_processes(kinds):
    """A shell ends at once on SIGTERM, but its children have the grace period, in any group or
    session. All containers run concurrently, because each takes as long as a checkpoint."""
    cases = []
    for name, make, _ in kinds:
        cases += [(f"{name}, the shell's child", make, OWN_CHILD), (f"{name}, own groups", make, OWN_GROUPS)]
    cases.append(("own sessions", debian, OWN_SESSIONS))
    if shutil.which("dash"):
        cases.append(("dash, the shell's child", debian, DASH_CHILD))
    if os.access("/usr/sbin/sshd", os.X_OK):
        cases.append(("a rank below sshd", debian, SSHD))
    else:
        skip("grace: a rank below sshd", "openssh-server is not installed")
    running = [(name, n, *start_trainers(make, lines)) for name, make, (lines, n) in cases]
    for name, n, c, p in running:
        ready = wait_for(c, b"ready", n)
        said = c.read(LOGS + "user-all/current")
        check(f"grace: {name}: starts", ready, said if p.poll() is None else (said, p.communicate()))
        if ready:
            os.kill(process_1(p), signal.SIGTERM)
        else:
            p.kill()
    for name, n, c, p in running:
        with c:
            out, err = p.communicate(timeout=PATIENCE)
            equal(f"grace: {name}: checkpoints that were saved", c.read("/tmp/saved").count(b"saved"), n)
            check(f"grace: {name}: nothing was killed", b"SIGKILL" not in err and b"not reached" not in out, err)


def test_orphans_of_process_1_do_not_stay_zombies(name, make):
    with make() as c:
        # No subshell outlives its start: all of them become children of process 1.
        c.user("for i in $(seq 100); do (sh -c ': &' &); done; sleep 0.5\n"
               "for again in $(seq 120); do z=0\n"
               "for f in /proc/[0-9]*/stat; do read -r a b s rest <$f 2>/dev/null || continue; "
               "[ \"$s\" = Z ] && z=$((z + 1)); done 2>/dev/null\n"
               "[ $z = 0 ] && break; sleep 0.5; done; echo zombies $z")
        c.run()
        equal(f"{name}: 100 orphans, none stays a zombie", c.out, b"zombies 0\n")


def test_read_only_root_is_supported(name, make):
    with make() as c:
        c.user("echo hello; touch /x 2>/dev/null || echo read-only; exit 4")
        c.mounts += "mount --bind $R $R; mount --rbind $R/proc $R/proc; "
        c.mounts = ("mount --bind $R $R && " + c.mounts.replace("mount --bind $R $R; mount --rbind $R/proc $R/proc; ", "") +
                    "mount --bind $R/usr/local/pai $R/usr/local/pai && mount --bind $R/tmp $R/tmp && "
                    "mount -o remount,bind,ro $R && ")
        c.run()
        equal(f"{name}: read-only root", (c.code, c.out, c.origin()), (255, b"hello\nread-only\n", 4))
        equal(f"{name}: read-only root: log", c.read(LOGS + "user-all/current"), b"hello\nread-only\n")


def test_root_without_proc_is_supported():
    if not static():
        skip("no /proc", "sanitizers need it")
        return
    with debian() as c:
        c.mounts = c.mounts.replace("mount -t proc proc $R/proc && ", "").replace("mount --bind /dev/null $R/dev/null && ", "")
        os.remove(c.path + "/dev/null")
        os.rmdir(c.path + "/proc")
        c.user("echo hello; echo said >$RUNTIME_LOG_PIPE; exit 5").run()
        equal("no /proc and no /dev: output and origin", (c.out, c.origin()), (b"hello\n", 5))
        check("no /proc and no /dev: what is lost is told", b"there is no /proc" in c.read(LOGS + "runtime.log"), c.err)


def test_single_command_runs_without_a_shell():
    name = "without a shell"
    with no_shell() as c:
        c.user("/busybox1 echo 'one  word' \"and $\" x=1 # said\n").run()
        check(f"{name}: what needs one is refused", c.code == 255 and c.origin() == 127, c.err)
        check(f"{name}: the message is clear", b"neither /bin/bash nor /bin/sh" in c.err, c.err)
        c.user("/busybox1 echo 'one  word' \"and more\" x=1 \\\n  last # a comment\n").run()
        equal(f"{name}: a single command is run", (c.code, c.out), (0, b"one  word and more x=1 last\n"))
        c.user("/busybox1 false").run()
        equal(f"{name}: its code", c.origin(), 1)
        c.user("busybox1 echo by name").run("run", PATH="/usr/sbin:/usr/bin:/bin:/")
        equal(f"{name}: it is looked for in PATH", (c.code, c.out), (0, b"by name\n"))
        c.user("cd /tmp").run()
        equal(f"{name}: what only a shell can do is refused", c.origin(), 127)
        c.run("run", "--", "/busybox1", "echo", "$x; y")
        equal(f"{name}: -- PROGRAM", (c.code, c.out), (0, b"$x; y\n"))
        c.write("precommands.sh", HEADER + "/busybox1 echo before\n")
        c.user("/busybox1 env").run()
        check(f"{name}: precommands, too", b"] before\n" in c.read(LOGS + "runtime.log"))
        check(f"{name}: environment", b"PAI_NAME=it's\n" in c.out and b"PAI_SHELL" not in c.out, c.out)


def static():
    with open(RUNTIME, "rb") as f:
        return b"/ld-linux" not in f.read()


def main():
    if os.geteuid() != 0:
        skip("run as process 1", "only root can make namespaces and chroot")
        return
    if not may_unshare("run as process 1", "--pid", "--mount", "--fork"):
        return
    kinds = [("machine's own root", debian, "/bin/bash")]
    if not BUSYBOX:
        skip("busybox alone, and no shell", "busybox-static is not installed")
    elif not static():
        skip("busybox alone, and no shell", "this build of pai-runtime is not static")
    else:
        kinds.append(("busybox alone", busybox, "/bin/sh"))
        tests(test_single_command_runs_without_a_shell)
    tests(test_root_without_proc_is_supported)
    tests(test_grace_period_applies_to_all_processes, args=(kinds,))
    for name, make, shell in kinds:
        tests(test_command_runs_with_shell_and_environment, args=(name, make, shell))
        tests(test_signals_reach_the_command, test_orphans_of_process_1_do_not_stay_zombies,
              test_read_only_root_is_supported, args=(name, make))


main()
finish()
