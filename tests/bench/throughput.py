#!/usr/bin/python3
"""`rest-lit fetch` of 1 GiB in 4 files and 5000 files of 2 kB beside `tar | tar` of the same files.

    throughput.py [ROUNDS]     default: 3

The programs take turns, and the numbers are medians.  While fetch runs, GET /healthz is asked again and
again, and the memory of the server is read.  Ends with 1 if fetch has less than 0.6 of the throughput of
tar, if an answer took 50 ms, or if the server needed 8 MiB more than at rest."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "local"), os.path.join(os.path.dirname(HERE), "http")]
from harness import BINARY
from local import kib
from machine import Machine
from one_machine import Client
from fetching import ended

LARGE, LARGES, SMALL, SMALLS = 256 << 20, 4, 2000, 5000
LEAST, MOST_MS, MOST_KIB = 0.6, 50, 8 << 10


class Watch:
    """Asks for /healthz, and reads the memory, until the end of the block."""

    def __init__(self, m):
        self.m, self.stop, self.ms, self.kib = m, threading.Event(), [], 0

    def run(self):
        client = Client(self.m.port)
        while not self.stop.is_set():
            begun = time.perf_counter()
            client.connection.request("GET", "/healthz")
            client.connection.getresponse().read()
            self.ms.append(1000 * (time.perf_counter() - begun))
            self.kib = max(self.kib, kib(self.m.process.pid, "Rss"))
            self.stop.wait(0.05)

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


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
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
        tar, fetch, waits, most = [], [], [], 0
        for _ in range(rounds):
            tar.append(turn(by_tar))
            with Watch(m) as watch:
                fetch.append(turn(by_fetch))
            waits += watch.ms
            most = max(most, watch.kib)
    share = statistics.median(tar) / statistics.median(fetch)
    print(f"tar | tar {statistics.median(tar):.2f} s, fetch {statistics.median(fetch):.2f} s: {share:.2f} of its throughput")
    print(f"/healthz: {len(waits)} answers, median {statistics.median(waits):.1f} ms, worst {max(waits):.1f} ms")
    print(f"memory of the server: {rest} KiB at rest, {most - rest} KiB more")
    shutil.rmtree(there)
    return 0 if share >= LEAST and max(waits) < MOST_MS and most - rest < MOST_KIB else 1


if __name__ == "__main__":
    sys.exit(main())
