"""Jobs that attack other jobs, the server, its user and the machine; and the files that they leave.

The attacks are in attacks.py, which runs inside a job; a task reports what it has got."""
import base64
import contextlib
import ctypes
import fcntl
import glob
import json
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import zlib

from harness import BINARY, PATIENCE, ROOT, SLOW, run, wait_until
from machine import DONE, Machine, job, processes_with, role
from serving import as_user, links

NOBODY = 65534
# The number of files that a job creates; a million with TEST_WHOLE, except under sanitizers, where
# that takes minutes.
MESS = 1000000 if os.environ.get("TEST_WHOLE") == "1" and SLOW == 1 else 20000

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacks.py"), "rb") as f:
    ATTACKS = base64.b64encode(zlib.compress(f.read(), 9)).decode()


def attack(name, *arguments):
    """A command of a task."""
    words = " ".join(f"'{a}'" for a in arguments)
    return (f"python3 -c 'import base64, zlib, sys; sys.argv[0] = \"attacks\"; "
            f"exec(zlib.decompress(base64.b64decode(\"{ATTACKS}\")))' {name} {words}")


def sandboxed(*names):
    """Identities of servers with which bubblewrap works: by name, arguments of Machine; {} if there is none."""
    mine = as_user()
    known = {"a user": mine} | ({"root": {"root": True}} if os.getuid() == 0 else {})
    return {} if mine is None else {name: known[name] for name in names or ("a user",) if name in known}


class Ground:
    """A directory that tasks would see if it were not hidden, with the server's and its user's files;
    `mark` is in each of them."""

    def __init__(self, identity):
        self.mark = base64.b16encode(os.urandom(8)).decode()
        self.as_nobody = bool(identity) and os.getuid() == 0 and not identity.get("root")
        place = next((p for p in ("/srv", "/opt", os.path.join(ROOT, "build")) if os.access(p, os.W_OK)), None)
        self.top = os.path.realpath(tempfile.mkdtemp(prefix="rest-lit-ground.", dir=place))
        os.chmod(self.top, 0o755)
        self.own(self.top)
        self.identity = {**identity, "where": self.path("jobs")}
        for name in ("home/.ssh/id", "granted/file", "other/file", "private/file", "key"):
            self.put(name)
        for name in ("gpu0", "gpu1"):
            self.put(name, "a GPU\n")
        os.mkdir(self.path("granted/alice"))
        self.own(self.path("granted/alice"))
        self.put("key", f"# {self.mark}\n")  # a file of options, which may have secrets
        self.put("facts", json.dumps({"storages": [
            {"name": "granted", "path": self.path("granted")}, {"name": "other", "path": self.path("other")},
            {"name": "own", "path": self.path("granted"), "share": False},
            {"name": "read", "path": self.path("private"), "readOnly": True}]}))

    def own(self, path):
        if self.as_nobody:
            os.chown(path, NOBODY, NOBODY)

    def path(self, name):
        return os.path.join(self.top, name)

    def put(self, name, text=None):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text or f"{self.mark}\n")
        while path != self.top:
            self.own(path)
            path = os.path.dirname(path)

    def machine(self, *arguments, **more):
        environment = {"HOME": self.path("home"), **more.pop("environment", {})}
        m = Machine("--cpus", "64", "--facts", self.path("facts"), *arguments,
                    **{**self.identity, **more, "environment": environment})
        if "without a sandbox" in m.log():  # then attacks would succeed
            m.remove()
            raise RuntimeError("there is no sandbox")
        return m

    def state(self):
        """The parts that must not change, as text."""
        found = []
        for name in ("home", "other", "private", "key", "gpu0", "gpu1"):
            for top, _, files in os.walk(self.path(name)):
                found.append(f"{top} {os.stat(top).st_mode:o}")
                found += [f"{top}/{f} {os.stat(os.path.join(top, f)).st_mode:o}" for f in sorted(files)]
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top, ignore_errors=True)


def with_storages(*names):
    return {"extras": {"com.microsoft.pai.runtimeplugin": [
        {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": list(names)}}]}}


def prevented(check, what, m, name, *needed):
    """Checks that no line of the job's output reports a success."""
    state = m.wait(name)
    output = m.log(name, "main")
    check.equal(f"{what}: {name} has ended", state, "SUCCEEDED")
    check.equal(f"{what}: nothing was got by {name}", [x for x in output.splitlines() if ": YES " in x], [])
    for line in needed:
        check.ok(f"{what}: {line}", re.search(line, output), output)
    if state != "SUCCEEDED" or not output:
        check.ok("its output", False, output)


def started(m, name, *words):
    return wait_until(lambda: all(w in m.log(name, "main") for w in words) or m.state(name) in DONE)


def put_key(mark):
    """A key in a session keyring, which the server inherits; false if there are no keys here."""
    add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine(), (-1, -1))
    libc = ctypes.CDLL(None)
    if libc.syscall(control, 1, None) < 0:
        return False
    return libc.syscall(add, b"user", b"rest-lit-test", mark.encode(), len(mark), -3) > 0


def victim_pid(m, word):
    """The pid, as the machine sees it, of a process of a task."""
    for path in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{path}/cmdline", "rb") as f:
            if f.read().split(b"\0")[:2] == [b"sleep", word.encode()]:
                return path
    return None


def test_sandbox_hides_other_jobs_and_the_server(check):
    """A job can see no file, socket, process, memory or GPU of another job, of the server, or of
    its user."""
    for what, identity in sandboxed("a user", "root").items():
        with Ground(identity) as g, contextlib.ExitStack() as stack:
            put_key(g.mark)
            shown = [f"/run/rest-lit-test.{os.getpid()}"] if os.access("/run", os.W_OK) else []
            stack.callback(lambda: [os.unlink(p) for path in shown for p in glob.glob(f"{path}*")])
            for path in shown:
                with open(path, "w", encoding="ascii") as f:
                    f.write(g.mark)
            sockets = [g.path("home/agent"), g.path("other/socket"), *(p + ".socket" for p in shown)]
            for path in sockets:
                stack.enter_context(socket.socket(socket.AF_UNIX)).bind(path)
                os.chmod(path, 0o777)
            with g.machine("--gpus", "auto", "--gpu-devices", g.path("gpu[0-9]"), "--config", g.path("key"),
                           environment={"A_SECRET": g.mark}) as m:
                word = f"1000.{os.getpid()}"
                m.start("victim", {"main": role("x='<% $secrets.word %>'; export x; echo $x >/tmp/mine", attack("victim"),
                                                f"sleep {word}", gpu=1)}, secrets={"word": g.mark})
                check.ok(f"{what}: the victim runs", started(m, "victim", "ready"), m.log("victim", "main"))
                paths = [g.path(n) for n in ("jobs", "jobs/store.db", "jobs/store.db-wal", "jobs/pods", "jobs/logs", "home",
                                             "home/.ssh/id", "other", "other/file", "private", "key", "gpu0")]
                wait_until(lambda: victim_pid(m, word))
                before = g.state()
                m.start("thief", {"main": role(
                    "cat /mnt/granted/file >/dev/null && echo granted: here",
                    attack("change", *paths, m.pods() and g.path(f"jobs/pods/{m.pods()[0]}"), *shown),
                    attack("attempts", "others", g.mark[::-1], victim_pid(m, word), g.top, *sockets), gpu=1)}, **with_storages("granted"))
                prevented(check, what, m, "thief", "granted: here")
                check.ok(f"{what}: all was tried", m.log("thief", "main").count(": no ") > 40, m.log("thief", "main"))
                check.equal(f"{what}: nothing has changed", g.state(), before)
                check.equal(f"{what}: the victim still runs", m.state("victim"), "RUNNING")


def device_nodes(stack):
    """Two devices that all users may read and write, until the stack ends; [] without the right to make them."""
    nodes = [f"/dev/rest-lit-test{os.getpid()}.{n}" for n in "01"]
    try:
        for node in nodes:
            os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
            stack.callback(os.unlink, node)
            os.chmod(node, 0o666)
    except OSError:
        return []
    return nodes


def test_sandbox_shows_only_the_own_gpu(check):
    """A job can use its own GPU only, whether GPUs are files in a visible directory or devices."""
    for what, identity in sandboxed().items():
        for kind in ("files", "devices"):
            with contextlib.ExitStack() as stack:
                g, nodes = stack.enter_context(Ground(identity)), device_nodes(stack)
                found = nodes if kind == "devices" else [g.path("gpu0"), g.path("gpu1")]
                if found:
                    pattern = found[0][:-1] + "[0-9]"
                    m = stack.enter_context(g.machine("--gpus", "auto", "--gpu-devices", pattern))
                    own_gpu_only(check, f"{what}: {kind}", m, found, nodes)


def own_gpu_only(check, what, m, found, nodes):
    m.start("holds", {"main": role("echo ready; sleep 1000", gpu=1)})
    check.ok(f"{what}: holds", started(m, "holds", "ready"))
    m.start("wants", {"main": role(attack("gpus", found[1], found[0], *nodes[:1]), gpu=1)})
    prevented(check, what, m, "wants", "own GPU .*: there")
    m.start("none", {"main": role(attack("gpus", "/nowhere", *found, *nodes))})
    prevented(check, what, m, "none")
    m.stop_job("holds")
    m.wait("holds")
    # A process that a job leaves behind does not keep its GPU.
    word = f"2000.{os.getpid()}"
    m.start("daemon", {"main": role(attack("daemon", word, found[0]), gpu=1)})
    m.start("daemon2", {"main": role(attack("daemon", word, found[1]), gpu=2)})
    check.equal(f"{what}: ends", [m.wait("daemon"), m.wait("daemon2")][0], "SUCCEEDED")
    check.ok(f"{what}: no daemon", wait_until(lambda: not processes_with(f"sleep {word}")))
    for path in found:
        with open(path, "rb") as f:
            check.ok(f"{what}: {path} is free", wait_until(lambda f=f: free(f)))


def free(f):
    with contextlib.suppress(OSError):
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(f, fcntl.LOCK_UN)
        return True
    return False


def test_sandbox_gives_no_privileges(check):
    """A job has no capabilities, cannot get any, and cannot remove the mounts that hide files."""
    for what, identity in sandboxed("a user", "root").items():
        with Ground(identity) as g, g.machine("--gpus", "none") as m:
            m.start("climbs", {"main": role(attack("attempts", "climbs", g.path("other"), g.path("jobs"), g.path("home"),
                                                   "/root", "/run"))})
            prevented(check, what, m, "climbs", "capabilities: no", "new privileges: no")
            check.ok(f"{what}: all was tried", m.log("climbs", "main").count(": no ") > 50, m.log("climbs", "main"))
            check.ok(f"{what}: a warning", what != "root" or "user id of root" in m.log(), m.log())


def test_sandbox_protects_storages(check):
    """A read-only storage cannot be written; a subPath cannot be replaced by another directory."""
    for what, identity in sandboxed().items():
        with Ground(identity) as g:
            m_path = g.path("bin")
            os.mkdir(m_path)
            # The place of a job that has the whole storage: it acts just before the directory is mounted.
            g.put("bin/bwrap", "#!/bin/sh\n"
                  f"if [ -e {g.path('swap')} ] && [ -d {g.path('granted/alice')} ]; then\n"
                  f"rm -rf {g.path('granted/alice')}; ln -s ../jobs {g.path('granted/alice')}; fi\n"
                  f"exec {shutil.which('bwrap')} \"$@\"\n")
            os.chmod(g.path("bin/bwrap"), 0o755)
            with g.machine("--gpus", "none", environment={"PATH": f"{m_path}:{os.environ['PATH']}"}) as m:
                m.start("reads", {"main": role("cat /mnt/read/file; touch /mnt/read/new || echo read-only")}, **with_storages("read"))
                check.equal(f"{what}: reads", m.wait("reads"), "SUCCEEDED")
                check.ok(f"{what}: ... only", "read-only" in m.log("reads", "main") and not os.path.exists(g.path("private/new")),
                         m.log("reads", "main"))
                m.start("own", {"main": role("echo mine >/mnt/own/new; ls -A /mnt/own; ls -A /mnt/own/..")}, **with_storages("own"))
                check.equal(f"{what}: its part", m.wait("own"), "SUCCEEDED")
                check.ok(f"{what}: ... of a storage", os.path.exists(g.path("granted/alice/new")), m.log("own", "main"))
                g.put("swap", "now")
                m.start("swapped", {"main": role("ls -A /mnt/own")}, **with_storages("own"))
                check.equal(f"{what}: exchanged", m.wait("swapped"), "FAILED")
                check.ok(f"{what}: ... not seen", "store.db" not in m.log("swapped", "main"), m.log("swapped", "main"))
                reason = json.dumps(m.status("swapped"))
                check.ok(f"{what}: ... and said", "another directory is there now" in reason or "leads out" in reason or
                         "sandbox cannot be made" in reason, reason)
                m.start("after", {"main": role("true")}, **with_storages("own"))
                check.equal(f"{what}: a link", m.wait("after"), "FAILED")
                check.ok(f"{what}: ... is refused", "leads out of" in json.dumps(m.status("after")), json.dumps(m.status("after")))


def test_sandbox_mounts_nothing_inside_of_a_storage(check):
    """A task that can write a storage cannot put a link where another task mounts something: nothing
    is mounted, or made, inside of a storage, so that no file appears elsewhere."""
    for what, identity in sandboxed().items():
        with Ground(identity) as g:
            os.mkdir(g.path("victim"))
            g.own(g.path("victim"))
            os.symlink(g.path("victim"), g.path("granted/absolute"))
            os.symlink("/oldroot" + g.path("victim"), g.path("granted/outside"))
            with g.machine("--gpus", "none") as m:
                for path in ("/mnt/granted/new", "/mnt/granted/absolute/new", "/mnt/granted/outside/new"):
                    more = {"extras": {"storages": [{"name": "granted"}, {"name": "read", "mountPath": path}]}}
                    reply = m.submit(job("nested", {"main": role(f"ls {path}")}, **more))
                    check.ok(f"{what}: {path}", reply.status == 400 and "would be in the storage at /mnt/granted" in reply.json["message"], reply)
                check.equal(f"{what}: nothing was made", (os.listdir(g.path("victim")), sorted(os.listdir(g.path("granted")))),
                            ([], ["absolute", "alice", "file", "outside"]))


def test_sandbox_files_of_a_job_are_removed(check):
    """All files that a job creates in its directories are removed, and no others."""
    for what, identity in sandboxed().items():
        with Ground(identity) as g, g.machine("--gpus", "none") as m:
            targets = [g.path("jobs"), g.path("jobs/store.db"), g.path("other/file"), "/etc/passwd", "/etc"]
            before = [os.stat(t).st_mode for t in targets]
            m.start("mess", {"main": role(attack("mess", MESS, *targets),
                                          "head -c 20000000 /dev/zero >/tmp/pai-termination-log", "exit 7")})
            wait_until(lambda: m.state("mess") in DONE, 600)
            check.equal(f"{what}: state", m.wait("mess"), "FAILED")
            output = m.log("mess", "main")
            check.ok(f"{what}: code", "USER COMMAND failed with exit code 7" in output, (m.code("mess"), output))
            check.ok(f"{what}: all was made", "all is made" in output, output)
            check.equal(f"{what}: nothing was got", [x for x in output.splitlines() if ": YES " in x], [])
            check.equal(f"{what}: it answers", m.request("GET", "/api/v2/jobs").status, 200)
            served = b"".join(m.request("GET", link).body for link in links(m, "mess", "main").values()) + output.encode()
            check.ok(f"{what}: links in place of logs are not followed", g.mark.encode() not in served, served)
            trash = os.path.join(m.where, "trash")
            check.ok(f"{what}: all is removed", wait_until(lambda: not m.pods() and not os.listdir(trash), 600), os.listdir(trash))
            check.equal(f"{what}: nothing outside has changed", [os.stat(t).st_mode for t in targets], before)
            m.start("next", {"main": role("true")})
            check.equal(f"{what}: the next one", m.wait("next"), "SUCCEEDED")


def test_log_of_a_job_is_bounded_and_unchanged(check):
    """A log has a size limit, and is served unchanged."""
    with Machine() as m:
        m.start("odd", {"main": role(r"printf 'a\000b\033[31m\377\r\nc%s\n' $(printf %0100000d 7)")})
        check.equal("state", m.wait("odd"), "SUCCEEDED")
        path = "/api/v2/jobs/alice~odd/attempts/0/taskRoles/main/taskIndex/0/attempts/0/logs/stdout"
        body = m.request("GET", path).body
        check.ok("bytes", b"a\0b\x1b[31m\xff\r\nc" in body and b"0" * 99999 + b"7\n" in body, body[-300:])
        m.start("flood", {"main": role("yes flood | head -c 30000000 || :", "tr '\\0' x </dev/zero | head -c 60000000 || :", "exit 5")})
        check.equal("flood", m.wait("flood"), "FAILED")
        check.ok("code", m.code("flood") in (5, 255), m.code("flood"))
        size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(os.path.join(m.where, "logs")) for f in files)
        check.ok("bounded", size < 80 << 20, size)
        reply = m.request("GET", path.replace("odd", "flood") + "?tail-mode=true")
        check.ok("its end", reply.status == 200 and b"x" * 5000 in reply.body, reply)
        check.equal("it answers", m.request("GET", "/api/v2/jobs/alice~flood").status, 200)


@contextlib.contextmanager
def small_disk(identity):
    """A file system of 24 MB; None: it cannot be made here."""
    top = tempfile.mkdtemp(prefix="rest-lit-small.")
    os.chmod(top, 0o755)
    disk = os.path.join(top, "disk")
    os.mkdir(disk)
    mounted = os.getuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m,nr_inodes=4000,mode=755", "none", disk], capture_output=True, check=False).returncode
    try:
        if mounted and identity:
            os.chown(disk, NOBODY, NOBODY)
        yield disk if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", disk], check=False)
        shutil.rmtree(top, ignore_errors=True)


def test_sandbox_that_fills_the_disk_affects_no_other_job(check):
    """A job that fills the disk ends with its code; its files are removed, and the next job
    runs."""
    for what, identity in sandboxed().items():
        with small_disk(identity) as disk:
            if not disk:
                print("     skipped: no file system can be mounted here", flush=True)
                return
            with Machine(**{**identity, "where": os.path.join(disk, "jobs")}) as m:
                for name, fill in {"bytes": "cat /dev/zero >/tmp/full; cat /dev/zero >/tmp/more",
                                   "files": "i=0; while : >/tmp/$i; do i=$((i + 1)); done"}.items():
                    m.start(name, {"main": role("echo begins", f"({fill}) 2>/dev/null || :", "seq 100000", "exit 9")})
                    check.equal(f"{what}: {name}: state", m.wait(name), "FAILED")
                    check.equal(f"{what}: {name}: code", (m.code(name), m.exit(name)), (255, 9))
                    check.ok(f"{what}: {name}: removed", wait_until(lambda: not m.pods()), m.pods())
                    check.equal(f"{what}: {name}: it answers", m.request("GET", f"/api/v2/jobs/alice~{name}").status, 200)
                m.start("next", {"main": role("echo fine")})
                check.equal(f"{what}: the next one", m.wait("next"), "SUCCEEDED")
                check.ok(f"{what}: ... with its log", "fine" in m.log("next", "main"))


def run_as(ground, *arguments, text=None, cwd=None, home=None):
    """rest-lit run as the ground's user, in a sandbox."""
    program = ground.identity.get("program") or [BINARY]
    environment = {**os.environ, "HOME": home or ground.path("home"), "XDG_STATE_HOME": ground.path("home/state"), "USER": "alice"}
    done = subprocess.run([*program, "run", *arguments], input=text, cwd=cwd, capture_output=True, text=True,
                          env=environment, timeout=4 * PATIENCE * SLOW, check=False)
    return done.returncode, done.stdout, done.stderr


def run_job(ground, text, *arguments, **more):
    return run_as(ground, *arguments, "-", text=text, **more)


def run_command(ground, *words, **more):
    return run_as(ground, "--", *words, **more)


def test_sandbox_shows_no_home_directory(check):
    """`run` in the home directory, or above it, shows no file of it; directories of the server
    cannot be mounted."""
    for what, identity in sandboxed().items():
        with Ground(identity) as g:
            g.put("home/project/file", "project\n")
            text = job("home", {"main": role("pwd; ls -A; cat file .ssh/id home/.ssh/id project/file 2>/dev/null || true")})
            for place in ("home",):
                cwd = g.path(place)
                code, out, err = run_job(g, text, cwd=cwd)
                check.ok(f"{what}: {place}: not shown", code == 0 and g.mark not in out and "project" not in out.split(), (code, out, err))
                check.ok(f"{what}: {place}: said", f"tasks do not see the files in {cwd}" in err and "--mount" in err, err)
                check.ok(f"{what}: {place}: starts there", cwd in out, out)
            code, out, err = run_job(g, text, cwd="/")
            check.ok(f"{what}: /", code == 0 and g.mark not in out, (code, out, err))
            code, out, err = run_job(g, text, cwd=g.path("home/project"))
            check.ok(f"{what}: a directory in it", code == 0 and "project" in out and "do not see" not in err, (code, out, err))
            code, out, err = run_job(g, text, "--mount", g.path("home/state/rest-lit/run"), cwd=g.path("home/project"))
            check.ok(f"{what}: files of other runs", code == 2 and "choose another directory" in err, (code, out, err))
            code, out, err = run_job(g, text.replace("ls -A", f"ls -A {g.path('home/state/rest-lit/run')}/; ls -A"),
                                     "--mount", g.path("home"), cwd=g.path("home/project"))
            check.ok(f"{what}: ... also in a mount", code == 0 and g.mark not in out, (code, out, err))
            # A storage that contains the server's directory could be moved by a task.
            for path in (g.top, g.path("jobs/pods")):
                g.put("facts", json.dumps({"storages": [{"name": "all", "path": path}]}))
                with contextlib.suppress(RuntimeError):
                    with g.machine("--gpus", "none") as m:
                        check.ok(f"{what}: a storage at {path} is refused", False)
                        m.stop()
            check.equal(f"{what}: refused", run("version").returncode, 0)


def close(path):
    """Makes a directory that can be entered, but not read."""
    os.chmod(path, 0o711 if os.geteuid() == 0 else 0o311)
    if os.geteuid() == 0:
        os.chown(path, 0, 0)


def test_sandbox_shows_what_is_in_closed_directories(check):
    """Directories that can only be entered may be above the current directory, a mount, a storage,
    the server's directory and the home directory, whichever version bubblewrap has."""
    for what, identity in sandboxed().items():
        with Ground(identity) as g:
            for name in ("closed/inner/project/file", "closed/data/file", "closed/storage/file", "closed/second/file"):
                g.put(name, "shown\n")
            g.put("closed/beside", "beside\n")
            close(g.path("closed/inner"))
            close(g.path("closed"))
            project, data = g.path("closed/inner/project"), g.path("closed/data")
            text = job("closed", {"main": role(f"cat file ../*/file; cd {g.path('closed')}; ls -A; touch new 2>/dev/null || echo fixed")})
            for mount, where, shown in ((".", project, ["inner"]), (".:rw", project, ["inner"]), (data, project, ["data", "inner"]),
                                        (f"{project}:{g.path('closed/other')}", data, ["data", "other", "shown"])):
                code, out, err = run_job(g, text, "--mount", mount, cwd=where)
                check.equal(f"{what}: {mount} in {where}", (code, sorted(out.split())), (0, sorted([*shown, "fixed", "shown", "shown"])))
            code, out, err = run_job(g, text, cwd=data, home=g.path("closed"))
            check.equal(f"{what}: the home", (code, sorted(out.split())), (0, ["data", "shown", "shown"]))
            code, out, err = run_command(g, "sh", "-c", "pwd; touch made; cat file", cwd=project)
            check.equal(f"{what}: a command", (code, out.split()), (0, [project, "shown"]))
            code, out, err = run_command(g, "pwd", cwd=project, home=g.path("closed"))
            check.ok(f"{what}: a home that is to be shown is refused", code == 125 and
                     f"{g.path('closed')} cannot be read by this user" in err and "chmod o+r" in err and "administrator of the cluster" not in err, (code, err))
            g.put("facts", json.dumps({"storages": [{"name": n, "path": g.path(f"closed/{n}")} for n in ("storage", "second")]}))
            os.mkdir(g.path("closed/state"))
            with g.machine("--gpus", "none", where=g.path("closed/state/jobs")) as m:
                m.start("reads", {"main": role(f"cat /mnt/storage/file; echo more >/mnt/storage/new; ls -A {g.path('closed')}/*")}, **with_storages("storage"))
                check.equal(f"{what}: a storage", m.wait("reads"), "SUCCEEDED")
                check.ok(f"{what}: ... is shown", "shown\n" in m.log("reads", "main") and os.path.exists(g.path("closed/storage/new")), m.log("reads", "main"))
                check.ok(f"{what}: ... and others are not", "file" not in m.log("reads", "main"), m.log("reads", "main"))


# Programs and files of the machine that tasks use with --images host. Missing ones fail alike
# inside and outside.
PROGRAMS = {
    "loader": "ldconfig -p | sort", "users": "getent passwd; getent group", "hosts": "getent hosts localhost", "services": "getent services http",
    "locales": "locale -a; LC_ALL=C.UTF-8 locale charmap", "time zones": "TZ=Europe/Berlin date -d @0", "terminals": "infocmp -1 xterm",
    "python": "python3 -c 'import sys, ssl, sqlite3, json; print(sys.path, ssl.OPENSSL_VERSION)'",
    "authorities": "python3 -c 'import ssl; print(len(ssl.create_default_context().get_ca_certs()))'; openssl version -d",
    "numpy": "python3 -c 'import numpy as n; print(n.dot(n.ones((9, 9)), n.ones((9, 9))).sum(), n.__version__)'",
    "alternatives": "readlink -f /etc/alternatives/*", "pip": "python3 -m pip --version; python3 -m pip config list", "curl": "curl --version",
    "compiler": "echo 'int main(void) { return 7; }' >/tmp/c.$$.c; gcc -o /tmp/c.$$ /tmp/c.$$.c && /tmp/c.$$; echo $?; rm -f /tmp/c.$$*",
    "git": "git --version; git config --system --list", "perl": "perl -MPOSIX -MFile::Temp -e 'print \"@INC\"'", "java": "java -version",
    "mpirun": "mpirun --version", "conda": "/opt/conda/bin/conda --version; /opt/conda/bin/python -c 'import torch'",
    "CUDA": "ls -d /usr/local/cuda*; /usr/local/cuda/bin/nvcc --version", "OpenCL": "cat /etc/OpenCL/vendors/*; clinfo -l",
    "NCCL": "cat /etc/nccl.conf", "environment": "cat /etc/environment /etc/profile /etc/os-release", "shell": "bash -lc 'type ls'",
}


def test_sandbox_runs_programs_as_outside(check):
    """Programs of the machine have the same output in a task as outside."""
    for what, identity in sandboxed("a user").items():
        with Ground(identity) as g:
            clean = "env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp LC_ALL=C bash -c"
            g.put("home/project/programs", "\n".join(
                f"echo '== {name}'; {clean} '{command.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}' 2>&1" for name, command in PROGRAMS.items()))
            cwd = g.path("home/project")
            alone = subprocess.run([*g.identity.get("program", [BINARY])[:-1], "bash", "programs"], cwd=cwd, capture_output=True, text=True, check=False)
            code, out, err = run_job(g, job("programs", {"main": role("bash programs")}), cwd=cwd)
            outside, inside = (dict(part.split("\n", 1) for part in text.split("== ")[1:]) for text in (alone.stdout, out))
            check.equal(f"{what}: all have run", (code, list(inside)), (0, list(PROGRAMS)))
            for name in PROGRAMS:
                check.equal(f"{what}: {name}", inside.get(name), outside.get(name))
            check.ok("some are there", sum("not found" not in text for text in outside.values()) > 8, err)
