#!/usr/bin/python3
"""Jobs of one machine beside what they are made of: bubblewrap alone, SQLite alone and, if slurmrestd
answers at $SLURMREST (a URL), Slurm.

    one_machine.py [ROUNDS] [PART]...     parts: life, post, growth, rest, flat; default: all, 5 rounds

The numbers are medians of the rounds, in which the programs take turns.  Everything runs on this
machine and shares its cores."""
import collections
import http.client
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "local"), os.path.join(os.path.dirname(HERE), "http")]
from harness import USER, wait_until
from local import kib, sandbox_alone
from machine import Machine, job, role
from service import Load

TICK = os.sysconf("SC_CLK_TCK")
JOBS, CLIENTS, ALONE, IDLE = 200, 8, 60, 15
POST_S, SQLITE_S, BODY = 4, 2, 6000
SIZES = (10, 1000, 10000, 30000)
RUNNING = (10, 100, 400)
PROBES = 400
FLAT, THOUSAND = (2000, 16000, 64000), 1000


def machine_cpu():
    """Seconds of CPU of the whole machine, also of what the kernel cleans up."""
    with open("/proc/stat", encoding="ascii") as f:
        fields = [int(n) for n in f.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:7])) / TICK


def table(*head):
    print(f"\n| {' | '.join(head)} |\n|---|{'--:|' * (len(head) - 1)}", flush=True)


def row(*cells):
    print(f"| {' | '.join(str(c) for c in cells)} |", flush=True)


def medians(taken):
    return {name: statistics.median(values) for name, values in taken.items()}


class Client:
    """One connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        reply = self.connection.getresponse()
        text = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path}: {reply.status} {text[:300]}")
        return json.loads(text or "null")

    def unended(self):
        return sum(self.ask("GET", f"/api/v2/jobs?state={s}&limit=1&withTotalCount=true")["totalCount"] for s in ("WAITING", "RUNNING"))


# ---- life: jobs of `true` to their ends --------------------------------------------------------
def submit_all(port, names, body):
    def one(mine):
        client = Client(port)
        for name in mine:
            client.ask("POST", "/api/v2/jobs", body(name))
    threads = [threading.Thread(target=one, args=(names[i::CLIENTS],)) for i in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def true_job(name):
    return job(name, {"main": role("true", memory=16)})


def life_of_jobs(m, run, taken, others=0):
    client = Client(m.port)
    names = [f"r{run}x{i}" for i in range(JOBS)]
    begin, server, machine = time.monotonic(), m.cpu_seconds(), machine_cpu()
    submit_all(m.port, names, true_job)
    while client.unended() > others:
        time.sleep(0.05)
    seconds = time.monotonic() - begin
    taken["jobs a second"].append(JOBS / seconds)
    time.sleep(0.5)  # what ended jobs leave to do
    taken["machine, CPU ms a job"].append((machine_cpu() - machine) / JOBS * 1000)
    taken["server, CPU ms a job"].append((m.cpu_seconds() - server) / JOBS * 1000)
    failed = [j["name"] for j in client.ask("GET", "/api/v2/jobs?state=FAILED&limit=5")]
    if failed:
        raise RuntimeError(f"failed: {failed}")


def one_at_a_time(m, run, taken):
    client = Client(m.port)
    for i in range(IDLE):
        name = f"i{run}x{i}"
        begin = time.monotonic()
        client.ask("POST", "/api/v2/jobs", true_job(name))
        while client.ask("GET", f"/api/v2/jobs/{USER}~{name}")["jobStatus"]["state"] not in ("SUCCEEDED", "FAILED"):
            time.sleep(0.002)
        taken["POST to ended, ms"].append((time.monotonic() - begin) * 1000)
        time.sleep(0.2)


def bwrap_alone(words, taken):
    machine, walls = machine_cpu(), []
    for _ in range(ALONE):
        begin = time.monotonic()
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        walls.append((time.monotonic() - begin) * 1000)
    time.sleep(0.2)
    taken["bwrap, CPU ms"].append((machine_cpu() - machine) / ALONE * 1000)
    taken["bwrap, wall ms"].append(statistics.median(walls))


def slurm_life(url, taken, wanted=JOBS):
    """Runs JOBS jobs, before them so many that `wanted` have ended afterwards; takes what the JOBS need."""
    address, headers = url.removeprefix("http://"), {"Content-Type": "application/json"}
    for name in ("SLURM_JWT", "SLURM_USER"):
        if name in os.environ:
            headers["X-SLURM-USER-TOKEN" if name == "SLURM_JWT" else "X-SLURM-USER-NAME"] = os.environ[name]

    def ask(method, path, body=None):
        while True:
            try:
                connection = http.client.HTTPConnection(address, timeout=300)
                connection.request(method, f"/slurm/v0.0.38/{path}", body, headers)
                return json.load(connection.getresponse())
            except ConnectionResetError:  # slurmrestd does that with some
                time.sleep(0.01)

    def submit(count):
        for i in range(count):
            ask("POST", "job/submit", json.dumps({"script": "#!/bin/sh\ntrue\n", "job": {
                "name": f"j{i}", "tasks": 1, "cpus_per_task": 1, "current_working_directory": "/tmp",
                "environment": {"PATH": "/bin:/usr/bin"}, "standard_output": "/dev/null"}}))

    def ended():
        return ask("GET", "diag/")["statistics"]["jobs_completed"]

    def all_of(count):
        before = ended()
        threads = [threading.Thread(target=submit, args=(count // CLIENTS,)) for _ in range(CLIENTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        wait_until(lambda: ended() - before >= count // CLIENTS * CLIENTS, 3600)
    while ended() + JOBS < wanted:
        all_of(min(THOUSAND, wanted - JOBS - ended()))
    begin, machine = time.monotonic(), machine_cpu()
    all_of(JOBS)
    taken["Slurm, jobs a second"].append(JOBS / (time.monotonic() - begin))
    taken["Slurm, CPU ms a job"].append((machine_cpu() - machine) / JOBS * 1000)


def part_life(rounds):
    taken = collections.defaultdict(list)
    keeper, words = sandbox_alone()
    with keeper, Machine() as m:
        life_of_jobs(m, "warm", collections.defaultdict(list))
        for i in range(rounds):
            bwrap_alone(words, taken)
            life_of_jobs(m, i, taken)
            one_at_a_time(m, i, taken)
            if "SLURMREST" in os.environ:
                slurm_life(os.environ["SLURMREST"], taken)
    t = medians(taken)
    print(f"\n{JOBS} jobs of `true`, submitted over HTTP by {CLIENTS} clients, to their ends, in their sandboxes; bubblewrap alone "
          "with the arguments of such a task. CPU is that of the whole machine, by /proc/stat.")
    table("", "measured", "goal")
    row("jobs a second", f"{t['jobs a second']:.0f}", "100")
    row("CPU ms a job: the machine", f"{t['machine, CPU ms a job']:.1f}", f"{3.5 * t['bwrap, CPU ms']:.1f}")
    row("... / bwrap alone", f"{t['machine, CPU ms a job'] / t['bwrap, CPU ms']:.2f}", "3.5")
    row("... of it the server", f"{t['server, CPU ms a job']:.1f}", "4")
    row("bwrap alone: CPU ms; wall ms", f"{t['bwrap, CPU ms']:.1f}; {t['bwrap, wall ms']:.1f}", "")
    row("an idle machine: POST to ended, ms", f"{t['POST to ended, ms']:.0f}", f"{t['bwrap, wall ms'] + 20:.0f}")
    if "SLURMREST" in os.environ:
        row("Slurm: jobs a second; CPU ms a job", f"{t['Slurm, jobs a second']:.0f}; {t['Slurm, CPU ms a job']:.1f}", "")


# ---- post: jobs that wait ----------------------------------------------------------------------
def waiting_machine():
    m = Machine("--cpus", "1")
    m.start("holds", {"main": role("exec sleep 100000")})
    m.wait("holds", "RUNNING")
    return m


def waiting_body():
    bare = len(job("w_@@", {"main": role("true", memory=16)}, extras={"filler": ""}))
    return job("w_@@", {"main": role("true", memory=16)}, extras={"filler": "x" * (BODY - bare)})


def post(m, clients, seconds=POST_S):
    server = m.cpu_seconds()
    r = Load(f"http://127.0.0.1:{m.port}/api/v2/jobs", waiting_body(), ["Content-Type: application/json"], clients, seconds).result()
    if r["refused"] or r["errors"]:
        raise RuntimeError(f"{clients} clients: {r}")
    return r, (m.cpu_seconds() - server) / r["requests"] * 1e6


def sqlite_alone(where, group):
    """Rows a second."""
    base = sqlite3.connect(os.path.join(where, f"alone{group}"), isolation_level=None)
    for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
        base.execute(f"PRAGMA {pragma}").fetchall()
    base.execute("CREATE TABLE IF NOT EXISTS object (id INTEGER PRIMARY KEY, name TEXT UNIQUE, uid TEXT UNIQUE, body TEXT)")
    body, n, begin = "x" * BODY, 0, time.monotonic()
    while time.monotonic() - begin < SQLITE_S:
        base.execute("BEGIN IMMEDIATE")
        for _ in range(group):
            base.execute("INSERT INTO object (name, uid, body) VALUES (?, ?, ?)", (os.urandom(16).hex(), os.urandom(16).hex(), body))
            n += 1
        base.execute("COMMIT")
    seconds = time.monotonic() - begin
    base.close()
    return n / seconds


def fdatasync_ms(where):
    took = []
    with open(os.path.join(where, "synced"), "wb") as f:
        for _ in range(200):
            f.write(bytes(4096))
            f.flush()
            begin = time.monotonic()
            os.fdatasync(f.fileno())
            took.append((time.monotonic() - begin) * 1000)
    return statistics.median(took)


def part_post(rounds):
    taken = collections.defaultdict(list)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as where:
            for group in (1, 8, 64):
                taken[f"sqlite {group}"].append(sqlite_alone(where, group))
            taken["fdatasync"].append(fdatasync_ms(where))
        with waiting_machine() as m:
            for clients in (1, 8, 64):
                r, cpu = post(m, clients)
                for name, value in (("rate", r["rate"]), ("p50", r["p50"]), ("p99", r["p99"]), ("cpu", cpu)):
                    taken[f"{name} {clients}"].append(value)
    t = medians(taken)
    print(f"\nPOST of jobs of {BODY // 1000} KB that wait, since a sleeping job holds the machine; SQLite alone with rows of this size in "
          f"groups of as many. fdatasync of 4 KiB takes {t['fdatasync']:.2f} ms.")
    table("clients", "jobs a second", "SQLite alone", "ratio", "p50, p99 ms", "CPU µs a job")
    for n in (1, 8, 64):
        row(n, f"{t[f'rate {n}']:.0f}", f"{t[f'sqlite {n}']:.0f}", f"{t[f'rate {n}'] / t[f'sqlite {n}']:.2f}",
            f"{t[f'p50 {n}']:.1f}, {t[f'p99 {n}']:.1f}", f"{t[f'cpu {n}']:.0f}")


# ---- growth ------------------------------------------------------------------------------------
def fill(m, wanted):
    """Submits until that many jobs are known."""
    client = Client(m.port)
    while True:
        there = client.ask("GET", "/api/v2/jobs?limit=1&withTotalCount=true")["totalCount"]
        if there >= wanted:
            return there
        submit_all(m.port, [f"f{there}x{i}" for i in range(min(wanted - there, 2000))], lambda name: waiting_body().replace("w_@@", name))


def probe(m):
    """CPU µs of a POST."""
    before = m.cpu_seconds()
    submit_all(m.port, [f"p{time.monotonic_ns()}x{i}" for i in range(PROBES)], lambda name: waiting_body().replace("w_@@", name))
    return (m.cpu_seconds() - before) / PROBES * 1e6


def growth_waiting():
    with waiting_machine() as m:
        empty = kib(m.process.pid, "Pss")
        for size in SIZES:
            there = fill(m, size)
            time.sleep(1)
            memory = (kib(m.process.pid, "Pss") - empty) / there
            row(f"{size} wait", f"{probe(m):.0f}", "", f"{memory:.1f}")


def growth_running():
    with Machine("--cpus", "1000", "--memory", "1000GiB") as m:
        there, empty = 0, kib(m.process.pid, "Pss")
        for size in RUNNING:
            submit_all(m.port, [f"s{i}" for i in range(there, size)], lambda name: job(name, {"main": role("exec sleep 100000", memory=1, cpu=1)}))
            there = size
            client = Client(m.port)
            wait_until(lambda: not client.ask("GET", "/api/v2/jobs?state=WAITING&limit=5"), 600)
            time.sleep(2)
            shims = list(m.shims().values())
            memory = (kib(m.process.pid, "Pss") - empty + sum(kib(pid, "Pss") for pid in shims)) / size
            taken = collections.defaultdict(list)
            life_of_jobs(m, f"s{size}", taken, size)
            row(f"{size} run", "", f"{taken['server, CPU ms a job'][0]:.1f}; {taken['machine, CPU ms a job'][0]:.1f}", f"{memory:.0f}")


def growth_ended():
    with Machine() as m:
        run = 0
        for size in SIZES[:3]:
            taken = collections.defaultdict(list)
            while run * JOBS < size:
                taken.clear()
                life_of_jobs(m, f"e{run}", taken)
                run += 1
            row(f"{run * JOBS} have ended", f"{probe(m):.0f}", f"{taken['server, CPU ms a job'][0]:.1f}; {taken['machine, CPU ms a job'][0]:.1f}", "")
            wait_until(lambda: not Client(m.port).unended(), 600)


def part_growth(_):
    print("\nWhat one more job costs beside those that are there already.")
    table("jobs", "POST: server, CPU µs", "life: CPU ms of the server; of the machine", "KiB a job")
    growth_waiting()
    growth_running()
    growth_ended()


# ---- rest: lists and memory --------------------------------------------------------------------
def tree_kib(pid):
    """Pss of a process and of all below it."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return kib(pid, "Pss") + sum(tree_kib(int(child)) for child in f.read().split())


def part_rest(rounds):
    print("\nThe memory of a server of few jobs and of all processes of 40 sleeping jobs (Pss), and a list of 2000 jobs.")
    table("", "measured")
    with Machine() as m:
        server = kib(m.process.pid, "Pss")
        submit_all(m.port, [f"s{i}" for i in range(40)], lambda name: job(name, {"main": role("exec sleep 100000", memory=16)}))
        wait_until(lambda: Client(m.port).ask("GET", "/api/v2/jobs?limit=1&withTotalCount=true&state=RUNNING")["totalCount"] == 40, 60)
        time.sleep(2)
        row("the server, MiB", f"{server / 1024:.1f}")
        row("the server and 40 sleeping jobs, MiB", f"{(kib(m.process.pid, 'Pss') + sum(map(tree_kib, m.shims().values()))) / 1024:.0f}")
    with waiting_machine() as m:
        fill(m, 2000)
        client, walls = Client(m.port), []
        for _ in range(20 * rounds):
            begin = time.monotonic()
            client.connection.request("GET", "/api/v2/jobs?limit=2000")
            client.connection.getresponse().read()
            walls.append((time.monotonic() - begin) * 1000)
        row("a list of 2000 jobs, ms", f"{statistics.median(walls):.1f}")


# ---- flat: many ended jobs -----------------------------------------------------------------------
def stored_mib(directory):
    """Size of the store: the database and its log."""
    return sum(os.stat(os.path.join(directory, name)).st_size for name in os.listdir(directory) if name.startswith("store.db")) / 2**20


def answer_ms(port, path):
    client, walls = Client(port), []
    for _ in range(5):
        begin = time.monotonic()
        client.connection.request("GET", path)
        client.connection.getresponse().read()
        walls.append((time.monotonic() - begin) * 1000)
    return statistics.median(walls)


def thousand(m, n, taken):
    """Jobs n * 1000 and following, from the first submission to the last end."""
    client, begin, server, machine = Client(m.port), time.monotonic(), m.cpu_seconds(), machine_cpu()
    submit_all(m.port, [f"t{n}x{i}" for i in range(THOUSAND)], true_job)
    while client.unended():
        time.sleep(0.25)  # each of these lists costs the server time
    taken["rate"].append(THOUSAND / (time.monotonic() - begin))
    taken["server"].append((m.cpu_seconds() - server) / THOUSAND * 1000)
    taken["machine"].append((machine_cpu() - machine) / THOUSAND * 1000)


def part_flat(_):
    print(f"\nJobs of `true` from HTTP to their ends, beside all that have ended before: each column is of the last {THOUSAND} jobs.")
    names = ["rate", "server", "machine", *(["Slurm, jobs a second", "Slurm, CPU ms a job"] if "SLURMREST" in os.environ else [])]
    table("ended", "jobs a second", "CPU ms a job: the server", "... the machine", *names[3:], "server, MiB (Pss)", "store, KiB a job",
          "the latest 50, ms", "of one state, ms", "a restart, s")
    m, taken = Machine(), collections.defaultdict(list)
    for n in range(FLAT[-1] // THOUSAND):
        thousand(m, n, taken)
        if n == 0 or (n + 1) * THOUSAND in FLAT:
            if "SLURMREST" in os.environ:
                slurm_life(os.environ["SLURMREST"], taken, (n + 1) * THOUSAND)
            memory = kib(m.process.pid, "Pss") / 1024
            answers = [answer_ms(m.port, f"/api/v2/jobs?{query}") for query in ("limit=50", "limit=50&state=FAILED&withTotalCount=true")]
            m.stop()
            begin = time.monotonic()
            m = m.again()
            row((n + 1) * THOUSAND, f"{taken['rate'][-1]:.0f}", *(f"{taken[name][-1]:.1f}" for name in names[1:]), f"{memory:.1f}",
                f"{stored_mib(m.where) * 1024 / (n + 1) / THOUSAND:.2f}", *(f"{a:.1f}" for a in answers), f"{time.monotonic() - begin:.2f}")
    m.remove()
    few = min(5, len(taken["rate"]) // 2)
    first, last = (statistics.median(taken["rate"][at]) for at in (slice(1, few + 1), slice(-few, None)))
    print(f"\nThe rate of each thousand: {' '.join(f'{rate:.0f}' for rate in taken['rate'])}; the median of the last {few} / of those "
          f"after the first one: {last / first:.2f}.")


PARTS = {"life": part_life, "post": part_post, "growth": part_growth, "rest": part_rest, "flat": part_flat}

if __name__ == "__main__":
    chosen = sys.argv[1:]
    ROUNDS = int(chosen.pop(0)) if chosen and chosen[0].isdigit() else 5
    for part in chosen or PARTS:
        PARTS[part](ROUNDS)
