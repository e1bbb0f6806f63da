"""What a task of tests/local/security.py does: `python3 attacks.py NAME ARGUMENTS`, inside a job.

Each line of output is `WHAT: no REASON`, or `WHAT: YES ...` if the attack has succeeded."""
import contextlib
import ctypes
import fcntl
import glob
import itertools
import os
import platform
import signal
import stat
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
OWN = ("/tmp", "/usr/local/pai", "/usr/local/pai/logs", "/memfd:pai-failed-line")
SMALL = 1 << 16


def tell(what, attack):
    """attack() returns what it has got, nothing, or fails."""
    try:
        got = attack()
    except (OSError, subprocess.SubprocessError) as e:
        got, why = None, getattr(e, "strerror", None) or type(e).__name__
    else:
        why = "nothing"
    print(f"{what}: YES {got!r}"[:300] if got else f"{what}: no {why}", flush=True)


def failed(name, result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return f"{name} {result}"


def read(path):
    with open(path, "rb") as f:
        return f.read(SMALL) or None


def create(path):
    with open(path, "x", encoding="ascii"):
        return path


def shell(command):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def find(marker):
    """Every small file that can be read, and every process, in search of a text."""
    def in_files():
        places = ("/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr/local", "/var/lib", "/var/tmp")
        for top, _, files in itertools.chain(*map(os.walk, places)):
            for name in files:
                path = os.path.join(top, name)
                try:
                    if stat.S_ISREG(os.stat(path).st_mode) and marker in read(path):
                        return path
                except (OSError, TypeError):
                    pass
        return None

    def in_processes():
        for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
            try:
                if marker in read(path):
                    return path
            except (OSError, TypeError):
                pass
        return None
    tell("a file with it", in_files)
    tell("a process with it", in_processes)


def keys():
    numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine())
    if numbers:
        # KEYCTL_SEARCH in the session keyring
        tell("a key of the server", lambda: failed("key", LIBC.syscall(numbers[1], 10, -3, b"user", b"rest-lit-test", 0)))


def others(marker, pid, *paths):
    """Another job: its secret, processes and GPU; the server's and the machine's files."""
    pid, marker = int(pid), marker[::-1].encode()
    for path in paths:
        tell(f"read {path}", lambda p=path: os.listdir(p) if os.path.isdir(p) else read(p))
        # In an empty directory in its place this has no effect; the test looks.
        for change in (lambda p: create(os.path.join(p, "new")), lambda p: open(p, "ab").write(b"x"), lambda p: os.rename(p, p + "2"),
                       lambda p: os.unlink(p), lambda p: os.chmod(p, 0o777)):
            with contextlib.suppress(OSError):
                change(path)
    find(marker)
    keys()
    tell("signal", lambda: os.kill(pid, 0) or pid)
    tell("group", lambda: os.killpg(pid, 0) or pid)
    tell("trace", lambda: failed("ptrace", LIBC.ptrace(16, pid, 0, 0)))
    tell("memory", lambda: read(f"/proc/{pid}/mem"))
    tell("descriptors", lambda: os.listdir(f"/proc/{pid}/fd"))
    tell("root of another", lambda: os.listdir(f"/proc/{pid}/root"))
    tell("own descriptors", lambda: [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                                     if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}")])
    tell("first process's descriptors", lambda: [d for d in (os.readlink(f"/proc/1/fd/{n}") for n in os.listdir("/proc/1/fd"))
                                                 if d.startswith("/") and d != "/dev/null" and not d.startswith(OWN)])


def gpus(own, *foreign):
    """GPUs of others: opened, locked, made anew."""
    def locked(path):
        with open(path, "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return path
    print(f"own GPU {own}: {os.path.exists(own) and 'there'}")
    tell("lock of the own GPU", lambda: locked(own))
    for path in foreign:
        tell(f"GPU {path}", lambda p=path: open(p, "rb") and p)
        tell(f"lock of {path}", lambda p=path: locked(p))
    tell("device node", lambda: os.mknod("/tmp/node", 0o666 | stat.S_IFCHR, os.makedev(1, 5)) or "made")
    tell("device in /dev", lambda: os.mknod("/dev/node", 0o666 | stat.S_IFCHR, os.makedev(1, 5)) or "made")
    tell("devices", lambda: [d for d in os.listdir("/dev") if d not in (
        "null", "zero", "full", "random", "urandom", "tty", "console", "pts", "ptmx", "shm", "core", "fd", "stdin", "stdout",
        "stderr", "termination-log", "mqueue", os.path.basename(own))])


def privileges(*paths):
    """Capabilities, set-user-id programs, namespaces, what may not be written."""
    with open("/proc/self/status", encoding="ascii") as f:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in f)}
    tell("capabilities", lambda: [n for n in ("CapEff", "CapPrm", "CapAmb") if int(status[n], 16)])
    tell("new privileges", lambda: status["NoNewPrivs"] != "1")
    tell("root", lambda: os.getuid() and not os.setuid(0) and "uid 0")
    tell("another user", lambda: os.setresuid(4711, 4711, 4711) or "uid 4711")
    tell("su", lambda: shell("su root -c id </dev/null"))
    tell("host name", lambda: shell("hostname stolen"))
    for path in ("/etc/new", "/usr/new", "/new", "/sys/new", "/var/new", "/proc/sys/kernel/new"):
        tell(f"create {path}", lambda p=path: create(p))
    for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/profiling", "/sys/power/state", "/etc/passwd"):
        tell(f"write {path}", lambda p=path: open(p, "ab") and p)
    for path in ("/etc/shadow", "/root/.bashrc", "/proc/kcore", "/proc/1/root/root/.bashrc"):
        tell(f"read {path}", lambda p=path: read(p))
    tell("mount", lambda: shell("mount -t tmpfs none /mnt && echo mounted"))
    tell("remount", lambda: shell("mount -o remount,rw / && echo remounted"))
    # With namespaces of its own, what is hidden stays so.
    for path in paths:
        tell(f"uncover {path}", lambda p=path: shell(f"unshare -Urm sh -c 'umount {p} || umount -l {p}; cat {p}/file'"))
        tell(f"uncover above {path}", lambda p=path: shell(
            f"unshare -Urm sh -c 'mkdir /tmp/u; mount --bind / /tmp/u || mount --rbind / /tmp/u; umount -l /tmp/u{p}; "
            f"cat /tmp/u{p}/file'"))
    tell("write with namespaces", lambda: shell("unshare -Urm sh -c 'mount -o remount,rw,bind /; touch /etc/new' && echo written"))


def daemon(word, own):
    """A process that shall outlive the job, with the GPU."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if os.fork() == 0:
            held = os.open(own, os.O_RDONLY)
            os.set_inheritable(held, True)
            os.close(0), os.close(1), os.close(2)
            os.execve("/bin/sleep", ["sleep", word], {})
        os._exit(0)
    print("left", flush=True)


def mess(many, *targets):
    """Links, fifos, hard links, deep and wide trees, directories without permissions."""
    for own in ("/tmp", "/usr/local/pai"):
        for i, target in enumerate(targets):
            os.symlink(target, f"{own}/link{i}")
            tell(f"hard link to {target}", lambda: os.link(target, f"{own}/hard{i}") or "linked")
        os.symlink("/" + "../" * 40 + targets[0], f"{own}/far")
        os.symlink("self", f"{own}/self")
        os.mkfifo(f"{own}/fifo")
        os.mkdir(f"{own}/" + "n" * 255)
        create(f"{own}/new\nline \x1b[31m")
        create(f"{own}/linked")
        os.link(f"{own}/linked", f"{own}/again")
        tell("device", lambda: os.mknod(f"{own}/node", stat.S_IFBLK | 0o666, os.makedev(7, 0)) or "made")
        tell("socket", lambda: os.mknod(f"{own}/socket", stat.S_IFSOCK | 0o666) and "made")
        tell("hard link out", lambda: os.link(f"{own}/linked", "/etc/linked") or "linked")
        os.makedirs(f"{own}/closed/inner/deep")
        create(f"{own}/closed/inner/file")
        for path in ("closed/inner/deep", "closed/inner", "closed"):
            os.chmod(f"{own}/{path}", 0)
    # Deeper than a path may be long.
    os.chdir("/tmp")
    for _ in range(5000):
        os.mkdir("d" * 20)
        os.chdir("d" * 20)
    os.chdir("/tmp")
    # Many directories below the depth from which on they are moved.
    wide = "/tmp/" + "w/" * 20
    os.makedirs(wide)
    for i in range(3000):
        os.makedirs(f"{wide}{i}/x")
    os.mkdir("/tmp/many")
    os.chdir("/tmp/many")
    for i in range(int(many)):
        os.close(os.open(str(i), os.O_CREAT))
    # Places of the server: in a sandbox they are mounts.
    for path in ("/tmp/pai-termination-log", "/usr/local/pai/runtime"):
        tell(f"replace {path}", lambda p=path: os.rename("/tmp/self", p) or p)
        tell(f"remove {path}", lambda p=path: os.unlink(p) or p)
    os.chmod("/tmp/many", 0)
    print("all is made", flush=True)


if __name__ == "__main__":
    {f.__name__: f for f in (others, gpus, privileges, daemon, mess)}[sys.argv[1]](*sys.argv[2:])
