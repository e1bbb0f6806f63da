"""The program of the tasks of tests/local/security.py: `python3 attacks.py NAME ARGUMENTS`, inside
a job.

Each line of output is `WHAT: no REASON`, or `WHAT: YES ...` if the attack has succeeded."""
import contextlib
import ctypes
import fcntl
import glob
import itertools
import os
import platform
import re
import signal
import socket
import stat
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
OWN = ("/tmp", "/usr/local/pai", "/usr/local/pai/logs", "/memfd:pai-failed-line")
SMALL = 1 << 16


def tell(what, attack, wanted="."):
    """attack() returns what it has got, nothing, or fails; `wanted`: a pattern of the reasons for which it may have nothing."""
    try:
        got, why = attack(), "nothing"
    except (OSError, subprocess.SubprocessError) as e:
        got, why = None, getattr(e, "strerror", None) or str(e)
    if not got and not re.search(wanted, why):
        got = f"another outcome: {why}"
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
    if done.returncode and done.stderr:
        raise OSError(0, "; ".join(done.stderr.split("\n")))
    return done.stdout.strip() if done.returncode == 0 else None


def file_with(marker):
    """A small file that can be read and has a text, but not in the storage that is granted."""
    places = ("/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/usr/local", "/var/lib", "/var/tmp")
    for top, _, files in itertools.chain(*map(os.walk, places)):
        for path in (os.path.join(top, name) for name in files if not top.startswith("/mnt/granted")):
            with contextlib.suppress(OSError, TypeError):
                if stat.S_ISREG(os.stat(path).st_mode) and marker in read(path):
                    return path
    return None


def process_with(marker):
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError, TypeError):
            if marker in read(path):
                return path
    return None


def call(number, *arguments):
    """A system call by its number: of x86_64 and aarch64, or of both."""
    number = number[platform.machine() == "aarch64"] if isinstance(number, tuple) else number
    return failed("call", LIBC.syscall(number, *arguments))


def connect(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        return path


def devices():
    return [d for d in os.listdir("/dev") if d not in (
        "null", "zero", "full", "random", "urandom", "tty", "console", "pts", "ptmx", "shm", "core", "fd", "stdin", "stdout",
        "stderr", "termination-log", "mqueue")]


def inject():
    """Writes a character to the terminal of the user who started the server."""
    for path in ("/dev/tty", "/dev/console", *glob.glob("/dev/pts/[0-9]*")):
        with contextlib.suppress(OSError), open(path, "rb") as f:
            fcntl.ioctl(f, 0x5412, b"x")  # TIOCSTI
            return path
    return fcntl.ioctl(0, 0x5412, b"x")


def set_user_id():
    shell("cp /bin/sh /tmp/setuid; chmod 6755 /tmp/setuid")
    return [x for x in shell("/tmp/setuid -p -c 'id -u; id -ru; grep CapEff /proc/self/status'").split()
            if x not in (str(os.getuid()), "CapEff:", "0" * 16)]


def status(*names):
    with open("/proc/self/status", encoding="ascii") as f:
        found = {name: value.strip() for name, _, value in (line.partition(":") for line in f)}
    return [n for n in names if int(found[n], 16)]


# Outcomes: it is not there; it is refused; there is nothing; one of these.
GONE = "No such file|No such process|Required key not available"
REFUSED = "not permitted|ermission denied|Read-only|Invalid argument|ross-device|must be|Function not implemented|Inappropriate ioctl"
NOTHING = "^nothing$"
ANY = "."
KEY = 0x526C6974
SOCKETS = ("/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "/run/systemd/private")


def others(mark, pid, ground, *sockets):
    """Attempts to reach another job, its processes, memory and files; and the server's."""
    pid, mark, jobs = int(pid), mark[::-1].encode(), ground + "/jobs"
    size = ctypes.create_string_buffer(64)
    memory = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(size), 64))
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0))  # the inode of a root
    return [
        ("processes of others", NOTHING, lambda: [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 1000]),
        ("signal", GONE, lambda: os.kill(pid, 0) or pid),
        ("signal to a group", GONE, lambda: os.killpg(pid, 0) or pid),
        ("ptrace", GONE, lambda: failed("ptrace", LIBC.ptrace(16, pid, 0, 0))),
        ("process_vm_readv", GONE, lambda: failed("read", LIBC.process_vm_readv(pid, memory, 1, memory, 1, 0))),
        ("pidfd_open", GONE, lambda: call(434, pid, 0)),
        ("limits of a process", GONE, lambda: failed("prlimit", LIBC.prlimit(pid, 7, None, size))),
        *[(f"{name} of a process", GONE, lambda n=name: os.open(f"/proc/{pid}/{n}", os.O_RDONLY))
          for name in ("mem", "environ", "fd", "root", "ns/mnt")],
        ("own descriptors", NOTHING, lambda: [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                                              if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}")]),
        ("first process's descriptors", NOTHING, lambda: [
            d for d in (os.readlink(f"/proc/1/fd/{n}") for n in os.listdir("/proc/1/fd"))
            if d.startswith("/") and d != "/dev/null" and not d.startswith(OWN)]),
        ("shared memory", GONE, lambda: failed("shmget", LIBC.shmget(KEY, 0, 0))),
        ("shared memory by name", NOTHING, lambda: os.listdir("/dev/shm")),
        ("message queue", GONE, lambda: failed("mq_open", LIBC.mq_open(b"/rest-lit-test", 0))),
        ("key of the server", GONE + "|not implemented", lambda: call((250, 219), 10, -3, b"user", b"rest-lit-test", 0)),
        *[(f"file {name}", GONE, lambda n=name: os.stat(n)) for name in (
            f"{jobs}/store.db", f"{jobs}/pods/{os.environ['FC_POD_UID']}", "/" + "../" * 40 + f"proc/1/root{jobs}/store.db")],
        ("file by its number", REFUSED, lambda: failed("file", LIBC.open_by_handle_at(os.open("/usr", os.O_RDONLY), handle, 0))),
        ("link to what is hidden", GONE, lambda: os.symlink(f"{ground}/other/file", "/tmp/link") or read("/tmp/link")),
        ("link in a storage", GONE, lambda: os.symlink(f"{ground}/other/file", "/mnt/granted/link") or read("/mnt/granted/link")),
        ("hard link", REFUSED, lambda: os.link("/etc/passwd", "/tmp/hard") or "linked"),
        *[(f"socket {path}", GONE, lambda p=path: connect(p)) for path in (*SOCKETS, *sockets)],
        ("a file with it", NOTHING, lambda: file_with(mark)),
        ("a process with it", NOTHING, lambda: process_with(mark)),
    ]


def climbs(*hidden):
    """Attempts to get capabilities, identities, devices, kernel settings, mounts and namespaces."""
    new = "unshare -Urm sh -c"
    return [
        ("capabilities", NOTHING, lambda: status("CapEff", "CapPrm", "CapAmb")),
        ("new privileges", NOTHING, lambda: not status("NoNewPrivs")),
        ("root", REFUSED + "|nothing", lambda: os.getuid() and not os.setuid(0) and "uid 0"),
        ("another user", REFUSED, lambda: os.setresuid(4711, 4711, 4711) or "uid 4711"),
        ("set-user-id file", NOTHING, set_user_id),
        ("su", ANY, "su root -c id </dev/null"),
        ("host name", REFUSED, "hostname stolen"),
        ("terminal", REFUSED, inject),
        ("raw socket", REFUSED, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
        ("packet socket", REFUSED, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)),
        ("device node", REFUSED, lambda: os.mknod("/tmp/node", 0o666 | stat.S_IFCHR, os.makedev(1, 5)) or "made"),
        ("devices of the machine", NOTHING, devices),
        *[(f"create {path}", GONE + "|" + REFUSED, lambda p=path: create(p))
          for path in ("/etc/new", "/usr/new", "/new", "/sys/new", "/var/new", "/proc/sys/kernel/new", "/sys/fs/cgroup/new")],
        *[(f"write {path}", GONE + "|" + REFUSED, lambda p=path: open(p, "ab"))
          for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/sys/kernel/profiling",
                       "/sys/power/state", "/sys/fs/cgroup/cgroup.procs", "/etc/passwd", "/etc/hosts")],
        *[(f"read {path}", GONE + "|" + REFUSED, lambda p=path: read(p))
          for path in ("/etc/shadow", "/root/.bashrc", "/proc/kcore", "/proc/1/root/root/.bashrc")],
        ("release agent", NOTHING, lambda: [f for f in glob.glob("/sys/fs/cgroup/*/release_agent") if os.access(f, os.W_OK)]),
        ("program of the kernel", REFUSED, lambda: call((321, 280), 13, ctypes.create_string_buffer(64), 64)),  # bpf
        ("module", REFUSED, lambda: call((313, 273), 0, b"", 0)),
        ("reboot", REFUSED, lambda: failed("reboot", LIBC.reboot(0))),
        ("clock", REFUSED, lambda: failed("clock", LIBC.settimeofday(ctypes.create_string_buffer(16), None))),
        ("real time", REFUSED, lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) or "real time"),
        ("priority", REFUSED, lambda: os.setpriority(os.PRIO_PROCESS, 0, -5) or "priority"),
        ("mount", REFUSED, "mount -t tmpfs none /mnt && echo mounted"),
        ("remount", REFUSED, "mount -o remount,rw / && echo remounted"),
        ("chroot", REFUSED, lambda: os.chroot("/tmp") or "root"),
        ("namespace of the first process", REFUSED, lambda: failed("setns", LIBC.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))),
        # Hidden files stay hidden in namespaces that the task creates.
        *[(f"uncover {path}", ANY, f"{new} 'umount {path} || umount -l {path}; cat {path}/file'") for path in hidden],
        *[(f"uncover above {path}", ANY, f"{new} 'mkdir -p /tmp/u; mount --bind / /tmp/u || mount --rbind / /tmp/u; "
           f"umount -l /tmp/u{path}; cat /tmp/u{path}/file'") for path in hidden],
        ("write with namespaces", ANY, f"{new} 'mount -o remount,rw,bind /; touch /etc/new' && echo written"),
        ("processes with namespaces", NOTHING + "|" + REFUSED,
         "unshare -Urmpf sh -c 'mount -t proc none /proc && ls /proc' | grep -x '[0-9]\\{4,\\}'"),
        ("limits with namespaces", ANY,
         "unshare -UrmC sh -c 'mkdir -p /tmp/c; mount -t cgroup2 none /tmp/c; echo max >/tmp/c/memory.max' && echo lifted"),
    ]


def attempts(kind, *arguments):
    """The rows of a table: name, expected outcome, function or command."""
    for name, wanted, how in {"others": others, "climbs": climbs}[kind](*arguments):
        tell(name, how if callable(how) else lambda h=how: shell(h), wanted)


def victim():
    """The attempts look for this text in other jobs."""
    create("/dev/shm/mine")
    failed("shmget", LIBC.shmget(KEY, 4096, 0o1666))
    failed("mq_open", LIBC.mq_open(b"/rest-lit-test", os.O_CREAT | os.O_RDWR, 0o666, None))
    print("ready", flush=True)


def change(*paths):
    """Reads and changes hidden files. Changes in the empty directory in their place have no effect,
    which the test checks."""
    for path in paths:
        tell(f"read {path}", lambda p=path: os.listdir(p) if os.path.isdir(p) else read(p))
        for how in (lambda p: create(os.path.join(p, "new")), lambda p: open(p, "ab").write(b"x"), lambda p: os.rename(p, p + "2"),
                    lambda p: os.unlink(p), lambda p: os.chmod(p, 0o777), lambda p: os.truncate(p, 0)):
            with contextlib.suppress(OSError):
                how(path)


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
    tell("device in /dev", lambda: os.mknod("/dev/node", 0o666 | stat.S_IFCHR, os.makedev(1, 5)) or "made")
    tell("devices", lambda: [d for d in devices() if d != os.path.basename(own)])


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
    # Logs and the message, which are served later.
    for path in glob.glob("/usr/local/pai/logs/*/*") + glob.glob("/usr/local/pai/logs/*/*/*") + ["/tmp/pai-termination-log"]:
        tell(f"link at {path}", lambda p=path: (os.path.isdir(p) or os.unlink(p) or os.symlink(targets[2], p)) and None)
    # Places of the server: in a sandbox they are mounts.
    for path in ("/tmp/pai-termination-log", "/usr/local/pai/runtime"):
        tell(f"replace {path}", lambda p=path: os.rename("/tmp/self", p) or p)
        tell(f"remove {path}", lambda p=path: os.unlink(p) or p)
    os.chmod("/tmp/many", 0)
    print("all is made", flush=True)


if __name__ == "__main__":
    {f.__name__: f for f in (attempts, change, daemon, gpus, mess, victim)}[sys.argv[1]](*sys.argv[2:])
