#!/usr/bin/env python3
"""The cost of GET /metrics with many jobs in the cache, as rows of docs/BENCH-LOG.md.

    scrape.py [N...]     with N jobs (1000 and 30000)

CPU time of the loop that answers, and of all other threads, by the scheduler's clock
(/proc/PID/task/TID/schedstat); of 200 scrapes.  Before, clients have used every route."""
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "http"))

from harness import Connection, Server, free_port, parse_replies, request_bytes, wait_until

SCRAPES = 200


def spent(pid):
    """Nanoseconds on a CPU, by thread."""
    out = {}
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as f:
            out[path] = int(f.read().split()[0])
    return out


def is_idle(pid):
    """After a start the main thread works on for seconds."""
    before = sum(spent(pid).values())
    time.sleep(1)
    return sum(spent(pid).values()) - before < 20e6


def use_all_routes(server):
    """Each route is answered with two codes at least."""
    routes = re.findall(r"^    (\w+) +(/\S*)$", server.request("GET", "/").body.decode(), re.M)
    for method, path in routes:
        if path.endswith("/watch"):
            continue
        path = re.sub(r"\{\w+\}", "x", path)
        server.request("GET" if method == "any" else method, path)
        server.request("GET" if method == "any" else method, path, b"x", {"Content-Encoding": "gzip"})


def measure(jobs):
    api, metrics, directory = free_port(), free_port(), tempfile.mkdtemp(prefix="rest-lit-bench.")
    token = os.path.join(directory, "token")
    with open(token, "w", encoding="ascii") as f:
        f.write("x\n")
    os.chmod(token, 0o600)
    fake = subprocess.Popen([sys.executable, os.path.join(HERE, "manyapi.py"), str(api), str(jobs)])
    try:
        wait_until(lambda: is_open(api))
        with Server("--apiserver", f"http://127.0.0.1:{api}", "--apiserver-token-file", token, "--metrics-listen",
                    f"127.0.0.1:{metrics}", directory=directory) as server:
            wait_until(lambda: f'rest_lit_cache_jobs{{state="SUCCEEDED"}} 0\n' not in scrape(metrics), 600)
            wait_until(lambda: '"all jobs are known"' in server.log(), 600)
            use_all_routes(server)
            wait_until(lambda: is_idle(server.process.pid), 600)
            return (jobs, *scrapes(server, metrics))
    finally:
        fake.kill()
        fake.wait()


def is_open(port):
    try:
        Connection(port).close()
        return True
    except OSError:
        return False


def scrape(port, connection=None):
    c = connection or Connection(port)
    c.send(request_bytes(port, "GET", "/metrics"))
    data, _ = c.read(60, parse_replies)
    if not connection:
        c.close()
    return parse_replies(data)[0].body.decode()


def scrapes(server, port):
    """Series, KiB, ms of CPU of the loop (least, median) and of the other threads, ms of time."""
    loop, others, wall = [], [], []
    with Connection(port) as c:
        text = scrape(port, c)
        for _ in range(SCRAPES):
            before, start = spent(server.process.pid), time.perf_counter()
            scrape(port, c)
            wall.append(1000 * (time.perf_counter() - start))
            time.sleep(0.005)  # the loop goes to sleep
            after = spent(server.process.pid)
            ms = sorted((after[t] - before.get(t, 0)) / 1e6 for t in after)
            loop.append(ms[-1])
            others.append(sum(ms[:-1]))
    return (sum(not line.startswith("#") for line in text.splitlines()), len(text) / 1024, min(loop),
            statistics.median(loop), statistics.median(others), statistics.median(wall))


def main():
    print("| jobs | series | KiB | CPU of the loop, min / med ms | other threads, ms | time, ms |")
    print("|--:|--:|--:|--:|--:|--:|")
    for jobs in [int(n) for n in sys.argv[1:]] or (1000, 30000):
        print("| %d | %d | %.0f | %.2f / %.2f | %.2f | %.2f |" % measure(jobs), flush=True)


main()
