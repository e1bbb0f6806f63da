#!/usr/bin/python3
"""What people wait for when jobs have ended, as tables of docs/BENCH-LOG.md.

    throughput.py [ROUNDS] [PART]...     parts: fetch, metric; default: all, 3 rounds

fetch: `rest-lit fetch` of 1 GiB in 4 files and 5000 files of 2 kB beside `tar | tar` of the same files,
in turns.  While fetch runs, GET /healthz is asked again and again, and the memory of the server is read.
metric: `rest-lit jobs --metric` of 200 jobs with logs of 3000 lines.  The files are below $TMPDIR."""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "local"), os.path.join(os.path.dirname(HERE), "http")]
from harness import BINARY, free_port
from local import kib
from machine import Machine, job, role
from one_machine import Client, row, submit_all, table
from fetching import ended

LARGE, LARGES, SMALL, SMALLS = 256 << 20, 4, 2000, 5000
JOBS, LINES = 200, 3000


class Watch:
    """Asks for /healthz, and reads the memory, until the end of the block."""

    def __init__(self, m):
        self.m, self.stop, self.ms, self.kib = m, threading.Event(), [], 0

    def run(self):
        client = Client(self.m.port)
        while not self.stop.wait(0.05):
            begun = time.perf_counter()
            client.connection.request("GET", "/healthz")
            client.connection.getresponse().read()
            self.ms.append(1000 * (time.perf_counter() - begun))
            self.kib = max(self.kib, kib(self.m.process.pid, "Rss"))

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def seconds(act, *arguments):
    begun = time.perf_counter()
    act(*arguments)
    return time.perf_counter() - begun


def fetch(rounds):
    there = tempfile.mkdtemp(prefix="rest-lit-bench.")
    to = os.path.join(there, "to")
    with Machine() as m:
        left = ended(m)
        for n in range(LARGES):
            left.write(f"large-{n}", os.urandom(LARGE))
        for n in range(SMALLS):
            left.write(f"small/{n}", os.urandom(SMALL))
        left.give()

        def by_tar():
            os.mkdir(to)
            subprocess.run(f"tar -C {left.path} -cf - . | tar -C {to} -xf -", shell=True, check=True)

        def by_fetch():
            subprocess.run([BINARY, "fetch", "--server", f"http://127.0.0.1:{m.port}", "job", "-o", to], check=True,
                           stderr=subprocess.DEVNULL)

        def turn(act):
            taken = seconds(act)
            subprocess.run(["diff", "-r", left.path, to], check=True)
            shutil.rmtree(to)
            os.sync()
            return taken

        turn(by_tar)
        turn(by_fetch)
        rest = kib(m.process.pid, "Rss")
        tars, fetches, waits, most = [], [], [], 0
        for _ in range(rounds):
            tars.append(turn(by_tar))
            with Watch(m) as watch:
                fetches.append(turn(by_fetch))
            waits += watch.ms
            most = max(most, watch.kib)
    shutil.rmtree(there)
    kind = subprocess.run(["stat", "-f", "-c", "%T", tempfile.gettempdir()], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    tar, mine = statistics.median(tars), statistics.median(fetches)
    print(f"\n`rest-lit fetch` of {LARGES} files of {LARGE >> 20} MiB and {SMALLS} of {SMALL} bytes over loopback, beside "
          f"`tar` into `tar`, on {kind}; medians of {rounds} rounds. Load average: {os.getloadavg()[0]:.1f}.")
    table("", "measured", "goal")
    row("seconds: `fetch`; `tar` into `tar`", f"{mine:.2f}; {tar:.2f}", "")
    row("throughput of `fetch` / `tar` into `tar`", f"{tar / mine:.2f}", 0.6)
    row("`/healthz` meanwhile, ms: worst; median", f"{max(waits):.1f}; {statistics.median(waits):.1f}", 50)
    row("memory of the server above rest, KiB", most - rest, 8 << 10)


def metric(rounds):
    port = free_port()
    with Machine("--metrics-listen", f"127.0.0.1:{port}") as m:
        submit_all(m.port, [f"j{i}" for i in range(JOBS)], lambda name: job(
            name, {"main": role(f"for i in $(seq {LINES}); do echo step $i loss 0.$i; done", memory=16)}, parameters={"name": name}))
        client, taken = Client(m.port), []
        while client.unended():
            time.sleep(0.1)

        def requests():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
                text = reply.read().decode()
            return sum(int(n) for n in re.findall(r'^rest_lit_http_requests_total\{.*route="/api/.* (\d+)$', text, re.M))

        def ask():
            out = subprocess.run([BINARY, "jobs", "--server", f"http://127.0.0.1:{m.port}", "--metric", "loss"], check=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            if out.count(f"0.{LINES}\n") != JOBS:
                raise RuntimeError(out)
        for _ in range(rounds + 1):
            before = requests()
            taken.append((seconds(ask), requests() - before))
    print(f"\n`rest-lit jobs --metric` of {JOBS} jobs with logs of {LINES} lines. Load average: {os.getloadavg()[0]:.1f}.")
    table("", "measured", "goal")
    row("requests, with the list", max(n for _, n in taken), 2 * JOBS + 1)
    row("seconds: median; longest", f"{statistics.median(s for s, _ in taken):.2f}; {max(s for s, _ in taken):.2f}", 2)


if __name__ == "__main__":
    words = sys.argv[1:]
    chosen = [w for w in words if not w.isdigit()]
    for part in (fetch, metric):
        if not chosen or part.__name__ in chosen:
            part(int(next((w for w in words if w.isdigit()), 3)))
