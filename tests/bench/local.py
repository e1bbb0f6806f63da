"""Figures of jobs on this machine, for docs/BENCH-LOG.md: the start of `rest-lit run`, a server with idle
tasks, a queue of jobs on eight fake GPUs.

    tests/bench/local.py [start] [idle] [queue]     all by default: six minutes"""
import collections
import json
import os
import random
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "local"), os.path.join(os.path.dirname(HERE), "http")]
from foreground import Place, role as run_role, job as run_job
from harness import BINARY, run, wait_until
from machine import AS_NOBODY, NOBODY, Machine, job, role

RUNS, IDLE_TASKS, IDLE_S = 30, 100, 30
ROUND_S = 5  # machine/usage/usage.h
GPUS, JOBS, WINDOW_S = 8, 500, 20
USERS = {"alice": 0.5, "bob": 0.3, "carol": 0.2}  # share of the jobs


def row(what, *values, goal=""):
    print(f"| {what} | {' | '.join(values)} | {goal} |", flush=True)


def percentiles(seconds):
    ordered = sorted(seconds)
    return f"{statistics.median(ordered) * 1000:.0f}", f"{ordered[int(0.95 * len(ordered))] * 1000:.0f}"


# ---- start --------------------------------------------------------------------------------------
def first_line(command, **more):
    """Seconds from the start of a program to its first byte on standard output, or its end."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more) as p:
        p.stdout.read(1)
        return time.monotonic() - begin


def sandbox_alone():
    """The words of bubblewrap for a task's sandbox with `true` in it; None without sandbox.  The machine
    must live while they are used."""
    m = Machine()
    m.start("sleeps", {"main": role("exec sleep 1000")})
    m.wait("sleeps", "RUNNING")
    with open(os.path.join(m.where, "pods", m.pods()[0], "spec"), encoding="utf-8") as f:
        texts = f.read().split("\0")[1:]  # see base/lists.h: the number of texts of a list, and the texts
    words = texts[int(texts[0]) + 2:]
    if "--" not in words:
        return m, None
    words = words[:words.index("--")]
    return m, [*m.command[:m.command.index(BINARY)], *words, "--", "true"]


def start():
    as_user = AS_NOBODY if os.getuid() == 0 else ()
    m, alone = sandbox_alone()
    with m, Place() as p:
        p.write("job.json", run_job("first", main=run_role("echo first")))
        environment = {**os.environ, **p.more["environment"]}
        if os.getuid() == 0:
            for path in (p.root, p.cwd):
                os.chown(path, NOBODY, NOBODY)
        command = [*as_user, BINARY, "run", *p.arguments, "job.json"]
        taken = collections.defaultdict(list)
        for _ in range(RUNS + 1):  # in turn, so that other load meets all
            taken["run"].append(first_line(command, cwd=p.cwd, env=environment))
            taken["version"].append(first_line([*as_user, BINARY, "--version"]))
            if alone:
                taken["true"].append(first_line(alone))
        for name, label in (("run", "`rest-lit run` to the first line of output"), ("true", "`true` in the same sandbox by bwrap alone"),
                            ("version", "`rest-lit --version`")):
            row(label, *(percentiles(taken[name][1:]) if taken[name] else ("no sandbox", "")))
        if alone:
            row("**difference to `true`**", *percentiles([a - b for a, b in zip(taken["run"][1:], taken["true"][1:])]), goal="150")


# ---- idle ---------------------------------------------------------------------------------------
def kib(pid, *names):
    """The sum of these fields of smaps_rollup."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if line.split(":")[0] in names)


def ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return sum(int(n) for n in f.read().rpartition(")")[2].split()[11:13])


def busiest_ms(pid, seconds):
    """The CPU time of the thread that uses most of it in so many seconds."""
    def spent():
        found = {}
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as f:
                found[thread] = int(f.read().split()[0]) / 1e6
        return found
    before = spent()
    time.sleep(seconds)
    return max(ms - before.get(thread, 0) for thread, ms in spent().items())


def settled(pid):
    """Waits until the starts are over: no tick of CPU in two seconds."""
    def quiet():
        before = ticks(pid)
        time.sleep(2)
        return ticks(pid) == before
    wait_until(quiet)


def idle():
    with Machine("--cpus", "200") as m:
        for i in range(IDLE_TASKS // 10):
            m.start(f"idle{i}", {"main": role("exec sleep 1000", instances=10, memory=16)})
        for i in range(IDLE_TASKS // 10):
            wait_until(lambda i=i: m.state(f"idle{i}") == "RUNNING")
        wait_until(lambda: len(m.shims()) == IDLE_TASKS)
        server, shims = m.process.pid, list(m.shims().values())
        settled(server)
        before = {pid: ticks(pid) for pid in (server, *shims)}
        time.sleep(IDLE_S)
        spent = {pid: ticks(pid) - n for pid, n in before.items()}
        processes = sum(name.isdigit() for name in os.listdir("/proc"))
        round_ms = busiest_ms(server, IDLE_S) / (IDLE_S / ROUND_S)
        private = [kib(pid, "Private_Clean", "Private_Dirty") for pid in shims]
        row(f"server, {IDLE_TASKS} tasks: CPU ticks in {IDLE_S} s", str(spent[server]), goal="6")
        row(f"a look at all tasks, {processes} processes on the machine: CPU ms", f"{round_ms:.1f}", goal="10")
        row(f"all {len(shims)} shims: CPU ticks in {IDLE_S} s", str(sum(spent.values()) - spent[server]), goal="0")
        row("server: memory, MiB (Pss; private)", f"{kib(server, 'Pss') / 1024:.1f}; {kib(server, 'Private_Clean', 'Private_Dirty') / 1024:.1f}", goal="12")
        row("a shim: private memory, KiB (median; largest)", f"{statistics.median(private):.0f}; {max(private)}", goal="1024")


# ---- queue --------------------------------------------------------------------------------------
class Watcher(socketserver.ThreadingTCPServer):
    """Each task holds a connection while it lives."""
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512

    def __init__(self):
        watcher = self
        self.held = {}                                    # task: [begin, end, GPUs]
        self.collisions = []

        class Visit(socketserver.StreamRequestHandler):
            def handle(self):
                name, pod, gpus = self.rfile.readline().decode().split()
                task = watcher.held[pod] = [time.monotonic(), None, name, 0 if gpus == "void" else len(gpus.split(","))]
                self.wfile.write(b"seen\n")
                watcher.collisions += [line for line in self.rfile.read().decode().splitlines() if line]
                task[1] = time.monotonic()
        super().__init__(("127.0.0.1", 0), Visit)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def command(self, locks, seconds):
        return [f"exec 3<>/dev/tcp/127.0.0.1/{self.server_address[1]}",
                "echo $PAI_JOB_NAME $FC_POD_UID $NVIDIA_VISIBLE_DEVICES >&3; read -r SEEN <&3",
                f"for g in ${{NVIDIA_VISIBLE_DEVICES//,/ }}; do eval \"exec 1$g<{locks}/$g\"; "
                "flock -n 1$g || echo GPU $g of $FC_POD_UID is held by another task >&3; done", f"sleep {seconds}"]


class Shared:
    """A machine of three users with tokens."""

    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="rest-lit-bench.", dir="/var/tmp")
        os.chmod(self.base, 0o755)
        secret, facts, locks = (os.path.join(self.base, name) for name in ("secret", "facts.yaml", "locks"))
        with open(secret, "w", encoding="ascii") as f:
            f.write(os.urandom(30).hex())
        os.mkdir(locks)
        for i in range(GPUS):
            with open(os.path.join(locks, str(i)), "w", encoding="ascii"):
                pass
        with open(facts, "w", encoding="ascii") as f:
            f.write(f"storages:\n- {{name: locks, path: {locks}}}\n")
        if os.getuid() == 0:
            os.chown(secret, NOBODY, NOBODY)
            os.chown(self.base, NOBODY, NOBODY)
        os.chmod(secret, 0o600)
        self.auth = {}
        for user in USERS:
            token = run("token", "--jwt-secret-file", secret, "--user", user).stdout.decode().strip()
            self.auth[user] = {"Authorization": f"Bearer {token}"}
        self.watcher = Watcher()
        self.machine = Machine("--cpus", "200", "--facts", facts, who=["--jwt-secret-file", secret],
                               where=os.path.join(self.base, "jobs"), gpus=GPUS)
        self.submitted = {}  # by name of the job: time, user

    def submit(self, user, name, seconds, gpu, tasks=1):
        plugin = {"com.microsoft.pai.runtimeplugin": [{"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["locks"]}}]}
        roles = {"main": role(*self.watcher.command("/mnt/locks", seconds), instances=tasks, gpu=gpu, memory=16)}
        while True:
            reply = self.machine.submit(job(name, roles, extras=plugin, jobRetryCount=0), self.auth[user])
            if reply.status == 202:
                self.submitted[name] = time.monotonic(), user
                return
            if reply.status not in (429, 503):
                raise RuntimeError(f"{name}: {reply}")
            time.sleep(0.2)

    def states(self):
        """How many jobs are in each state."""
        url = f"http://127.0.0.1:{self.machine.port}/api/v2/jobs?limit=5000"
        with urllib.request.urlopen(urllib.request.Request(url, headers=self.auth["alice"])) as reply:
            return collections.Counter(item["state"] for item in json.load(reply))

    def wait(self):
        while set(self.states()) - {"SUCCEEDED", "FAILED"}:
            time.sleep(1)
        return self.states()

    def begun(self, name):
        return [h[0] for h in list(self.watcher.held.values()) if h[2].endswith(f"~{name}") or h[2] == name]


def shares(held, submitted, first, last):
    """The smallest share of a user with waiting jobs in any window, in parts of GPUS / users."""
    begin = {}
    for h in held:
        name = h[2].rpartition("~")[2]
        begin[name] = min(begin.get(name, h[0]), h[0])
    smallest = None
    at = first
    while at + WINDOW_S <= last:
        end = at + WINDOW_S
        for user in USERS:
            waits = all(any(owner == user and since <= t <= begin.get(name, last) for name, (since, owner) in submitted.items())
                        for t in (at, at + WINDOW_S / 2, end))
            got = sum(max(0, min(h[1], end) - max(h[0], at)) * h[3] for h in held if submitted[h[2].rpartition("~")[2]][1] == user)
            if waits:
                share = got / (GPUS * WINDOW_S / len(USERS))
                smallest = min(smallest if smallest is not None else share, share)
        at += 1
    return smallest


def queue():
    shared, pick = Shared(), random.Random(1)
    begin = time.monotonic()
    for i in range(JOBS):
        user = pick.choices(list(USERS), USERS.values())[0]
        gpu, tasks = pick.choices([(1, 1), (2, 1), (4, 1), (8, 1), (1, 3), (3, 2), (5, 1)], [40, 20, 10, 6, 10, 8, 6])[0]
        shared.submit(user, f"job{i}", f"{pick.uniform(0.1, 1.2):.2f}", gpu, tasks)
    all_in = time.monotonic()
    states = shared.wait()
    held = [h for h in shared.watcher.held.values() if h[1]]
    last = max(h[1] for h in held)
    gangs = collections.defaultdict(list)
    for h in held:
        gangs[h[2]].append(h[0])
    apart = max(max(b) - min(b) for b in gangs.values())
    row(f"{JOBS} jobs, {len(held)} tasks", f"{last - begin:.0f} s; {dict(states)}")
    row("GPUs held twice, by flock from inside", str(len(shared.watcher.collisions)), goal="0")
    row("GPUs at work inside of tasks", f"{100 * sum((h[1] - h[0]) * h[3] for h in held) / GPUS / (last - begin):.0f} %")
    row("tasks of a gang: largest distance of their starts", f"{apart:.1f} s")
    smallest = shares(held, shared.submitted, all_in, last)
    row(f"smallest share of a user with waiting jobs in {WINDOW_S} s, of GPUs / users", f"{smallest:.2f}" if smallest is not None else "-", goal="0.5")
    waits = []
    for turn in range(5):
        for i in range(40):
            shared.submit("alice", f"small{turn}x{i}", f"{pick.uniform(0.2, 1.0):.2f}", 1)
        time.sleep(2)
        since = time.monotonic()
        shared.submit("bob", f"large{turn}", "0.1", 8)
        wait_until(lambda turn=turn: shared.begun(f"large{turn}"), 600)
        waits.append(shared.begun(f"large{turn}")[0] - since)
    row("a job of 8 GPUs under a stream of jobs of 1 GPU (0.2 to 1 s) waits (median; longest of 5)",
        f"{statistics.median(waits):.1f}; {max(waits):.1f} s")
    shared.wait()
    shared.machine.stop()


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["start", "idle", "queue"]
    if "start" in chosen:
        print("\n| ms | p50 | p95 | goal |\n|---|--:|--:|--:|")
        start()
    if "idle" in chosen:
        print("\n| | | goal |\n|---|--:|--:|")
        idle()
    if "queue" in chosen:
        print("\n| | | goal |\n|---|--:|--:|")
        queue()
