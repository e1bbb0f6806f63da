"""Processes killed for lack of memory: `run` reports it with a separate exit code."""
import os
import re
import subprocess
import uuid

from checks import TOP, Root, check, equal, finish, tests

KILLED, BY_SIGNAL, WORKER_DIED, UNKNOWN = 193, 137, 227, 255
MIB = 1 << 20
V1 = "/sys/fs/cgroup/memory"
WORKER = "echo 'RuntimeError: DataLoader worker (pid 117) is killed by signal: Killed.' >&2; exit 1"


class Pod(Root):
    def __init__(self, user, **env):
        super().__init__(**env)
        self.write("/usr/local/pai/runtime.d/user.sh", "#!/bin/bash\n" + user, 0o755)
        with open(os.path.join(TOP, "runtime-assets", "runtime-exit-spec.yaml"), "rb") as f:
            self.write("/usr/local/pai/runtime.d/runtime-exit-spec.yaml", f.read())

    def cgroup(self, version, folder, kills, hits, limit=60 * MIB, peak=60 * MIB):
        """The files of a cgroup; `folder` is in the mount.  kills None: a kernel that does not count them."""
        if version == 2:
            at = f"/sys/fs/cgroup/{folder}/"
            self.write(at + "memory.events", f"low 0\nhigh 0\nmax {hits}\noom {hits}\noom_kill {kills}\n")
            self.write(at + "memory.max", f"{limit}\n")
            self.write(at + "memory.peak", f"{peak}\n")
        else:
            at = f"{V1}/{folder}/"
            counted = "" if kills is None else f"oom_kill {kills}\n"
            self.write(at + "memory.oom_control", f"oom_kill_disable 0\nunder_oom 0\n{counted}")
            self.write(at + "memory.failcnt", f"{hits}\n")
            self.write(at + "memory.limit_in_bytes", f"{limit}\n")
            self.write(at + "memory.max_usage_in_bytes", f"{peak}\n")
        return self

    def log(self):
        return self.read(self.logs("runtime.log")) or b""


def later(p, version, folder, **more):
    """Lines of shell after which the kernel has counted an event."""
    with Root() as then:
        Pod.cgroup(then, version, folder, **more)
        lines = []
        for at, _, names in os.walk(then.at("/sys")):
            for name in names:
                path = os.path.join(at, name)
                with open(path, encoding="ascii") as f:
                    lines.append(f"printf '{f.read()}' >{p.at(path[len(then.path):])}\n".replace("\n'", "\\n'"))
        return "".join(lines)


def run(version, folder, end, **more):
    with Pod("") as p:
        p.cgroup(version, folder, more["kills"] and 3, 5)
        if folder:
            p.write("/proc/self/cgroup", f"4:memory:/{folder}\n1:name=systemd:/x\n0::/{folder}\n")
        p.write("/usr/local/pai/runtime.d/user.sh", "#!/bin/bash\n" + later(p, version, folder, **more) + end + "\n")
        return p.run("run").returncode, p.log(), p.read("/tmp/pai-termination-log") or b""


def test_memory_kills_are_found_by_counters():
    for version in (1, 2):
        for folder in ("", "kubepods/pod1/c1"):
            name = f"version {version}, {'own root' if not folder else 'the whole tree'}"
            code, log, message = run(version, folder, "kill -9 $$", kills=4, hits=9)
            equal(f"{name}: code", code, KILLED)
            check(f"{name}: sentence", b"killed for memory: limit 60 MiB, peak 60 MiB (1 process)" in log, log)
            check(f"{name}: in the message", b"matchedPlatformLogString: \"killed for memory: limit 60 MiB" in message,
                  message)
        name = f"version {version}"
        code, log, _ = run(version, "", WORKER, kills=5, hits=9)
        equal(f"{name}, a child: code", code, KILLED)
        check(f"{name}, a child: sentence", b"(2 processes)" in log, log)
        code, log, _ = run(version, "", "echo 'IndexError: list index out of range' >&2; exit 1", kills=4, hits=9)
        check(f"{name}, a child that was not missed: another reason", code not in (KILLED, UNKNOWN), code)
        check(f"{name}, a child that was not missed: told", b"killed for memory: " in log, log)
        code, log, _ = run(version, "", "exit 0", kills=4, hits=9)
        check(f"{name}: succeeded all the same", code == 0 and b"killed for memory: " in log, log)
        code, log, _ = run(version, "", "kill -9 $$", kills=3, hits=9)
        equal(f"{name}, another kill: code", code, BY_SIGNAL)
        check(f"{name}, another kill: nothing of memory", b"memory" not in log, log)
        code, log, _ = run(version, "", "kill -9 $$", kills=4, hits=5, peak=57 * MIB)
        equal(f"{name}, the node's memory: code", code, BY_SIGNAL)
        check(f"{name}, the node's memory: sentence", b"killed for memory of the node or pod" in log, log)
        code, log, _ = run(version, "", "kill -9 $$", kills=4, hits=5, peak=58 * MIB)
        equal(f"{name}, the pod's limit is that of the container: code", code, KILLED)
        check(f"{name}, the pod's limit is that of the container: sentence",
              b"killed for memory: limit 60 MiB, peak 58 MiB (1 process)" in log, log)
    for end, peak, expected in (("kill -9 $$", 60, KILLED), ("kill -9 $$", 57, BY_SIGNAL), (WORKER, 60, WORKER_DIED)):
        code, log, _ = run(1, "", end, kills=None, hits=5, peak=peak * MIB)
        name = f"kills are not counted, peak {peak} MiB, {end[:4]}"
        equal(f"{name}: code", code, expected)
        check(f"{name}: sentence", (b"killed for memory: limit 60 MiB" in log) == (expected == KILLED), log)
    code, log, _ = run(2, "", "kill -9 $$", kills=4, hits=6, limit=500000, peak=300000)
    check("a small limit", b"limit 488 KiB, peak 292 KiB" in log, log)
    code, log, _ = run(1, "", "kill -9 $$", kills=4, hits=6, limit=9223372036854771712)
    check("no limit", b"limit not known" in log and code == BY_SIGNAL, log)
    with Pod("kill -9 $$") as p:
        equal("no cgroup: as ever", p.run("run").returncode, BY_SIGNAL)


def own_cgroup(limit):
    """A cgroup of version 1 below the own one; None if it cannot be made."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as f:
            path = next(line.rstrip("\n").split(":", 2)[2] for line in f if ":memory:" in line)
    except (OSError, StopIteration):
        return None
    for above in (V1 + path, V1):
        at = f"{above.rstrip('/')}/pai-test-{uuid.uuid4()}"
        try:
            os.mkdir(at)
            limit_cgroup(at, limit)
            return at
        except OSError:
            continue
    return None


def limit_cgroup(at, limit):
    with open(at + "/memory.limit_in_bytes", "w", encoding="ascii") as f:
        f.write(str(limit))


def join(at):
    with open(at + "/cgroup.procs", "w", encoding="ascii") as f:
        f.write(str(os.getpid()))


def killed_in(at, name):
    with Pod("python3 -c 'x = bytearray(300 << 20); print(len(x))'\nexit $?\n") as p:
        os.makedirs(p.at("/sys/fs"))
        os.symlink("/sys/fs/cgroup", p.at("/sys/fs/cgroup"))
        os.symlink("/proc", p.at("/proc"))
        done = p.run("run", preexec_fn=lambda: join(at))
        equal(f"{name}: code", done.returncode, KILLED)
        check(f"{name}: sentence", re.search(rb"killed for memory: limit 60 MiB, peak (60|59|58) MiB \(1 process\)", p.log()),
              p.log())


def test_memory_kills_in_a_real_cgroup_are_found():
    at = own_cgroup(60 * MIB)
    if not at:
        print("skipped: a real cgroup: none of version 1 can be made here")
        return
    pause = None
    try:
        killed_in(at, "a real cgroup")
        os.mkdir(at + "/container")
        limit_cgroup(at + "/container", 60 * MIB)
        pause = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: join(at))
        killed_in(at + "/container", "the pod of a real cgroup")
    finally:
        if pause:
            pause.kill()
            pause.wait()
        subprocess.run(["sh", "-c", f"for i in 1 2 3 4 5 6 7 8 9; do rmdir {at}/container {at}; [ -d {at} ] || break; "
                        "sleep 0.2; done"], check=False, capture_output=True)


tests(test_memory_kills_are_found_by_counters, test_memory_kills_in_a_real_cgroup_are_found)
finish()
