#!/usr/bin/python3
"""Curves of docs/BENCH-LOG.md: what grows with roles, jobs, connections and followers.

    tests/bench/curves.py [NAME...]     a table for each, and docs/bench/NAME.svg"""
import http.client
import os
import re
import resource
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from follow import Ears, World, percentile, status_of
from service import BUILD, TOP, Program, Server, free_port

MANY = os.path.join(TOP, "tests/bench/manyapi.py")
EVENTS = 40      # changes of a job
LIST = 1000      # jobs of a list that each connection reads


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=TOP).stdout.decode()


def cells(text, pattern):
    """The cells of the rows of a Markdown table whose first cell matches."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return [(match, row) for row in rows if (match := re.fullmatch(pattern, row[0]))]


def roles():
    """CPU time of a translation, and that of libyaml for the same text."""
    rows = cells(output(os.path.join(BUILD, "tests/bench/bench"), "0.3"), r"(\d+) roles?")
    return "roles", "µs", ["libyaml", "translation"], [
        (int(n[1]), float(row[2].split(" /")[0]), float(row[7].split(" /")[0])) for n, row in rows]


def jobs():
    """CPU time of a page of 100 jobs."""
    queries = ["count of one state", "of all, the latest first", "by name, from the middle"]
    numbers = [1000, 3000, 10000, 30000, 100000]
    lists = os.path.join(BUILD, "tests/bench/lists/lists")
    text = [output(lists, str(n)) for n in numbers]
    return "jobs", "ms", queries, [(n, *(float(cells(t, re.escape(q))[0][1][1]) for q in queries)) for n, t in zip(numbers, text)]


def connections():
    """Memory of the server with connections that stay open after each has read a list of 1000 jobs."""
    port, rows = free_port(), []
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    with Program(sys.executable, MANY, str(port), str(LIST), ready=b"ready"):
        store = ["--apiserver", f"http://127.0.0.1:{port}", "--namespace", "default"]
        for n in (10, 100, 500, 1000, 2000):
            with Server("--connections", "4000", "--rate-list", "0", "--streams-per-user", "4000", store=store) as server:
                headers = dict(line.split(": ", 1) for line in server.headers)
                known(server)
                held = []
                for _ in range(n):
                    held.append(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60))
                    held[-1].request("GET", f"/api/v2/jobs?limit={LIST}", headers=headers)
                    reply = held[-1].getresponse()
                    if reply.status != 200:
                        sys.exit(f"a list: {reply.status} {reply.read()}")
                    reply.read()
                time.sleep(1)
                rows.append((n, server.memory(), server.memory("VmRSS")))
                for connection in held:
                    connection.close()
    return "connections", "MiB", ["at the peak", "afterwards"], rows


def known(server):
    while b'"all jobs are known"' not in server.said():
        time.sleep(0.01)


def followers():
    """From the change of a job to the event at the last client, through a real API server."""
    rows, ears = [], []
    with World() as world:
        world.submit(world.connect(), "watched")
        for n in (10, 30, 100, 300, 1000):
            ears.append(Ears(world, ["/api/v2/jobs/watch"] * (n - sum(some.n for some in ears))))
            ears[-1].start()
            took, before = [], world.server.cpu()
            for i in range(EVENTS):
                for some in ears:
                    some.heard, some.mark = {}, f'"retries":{n}{i:03},'.encode()
                sent = time.perf_counter()
                world.patch("job_watched", status_of(int(f"{n}{i:03}")))
                while sum(len(some.heard) for some in ears) < n:
                    time.sleep(0.001)
                took.append((max(t for some in ears for t in some.heard.values()) - sent) * 1e3)
            rows.append((n, percentile(took, 50), (world.server.cpu() - before) / (n * EVENTS) * 1e6))
    return "clients", "ms; µs", ["ms, median", "CPU µs for each event and client"], rows


CURVES = {"roles": roles, "jobs": jobs, "connections": connections, "followers": followers}


def draw(name, what, x, y, names, rows):
    """docs/bench/NAME.svg, by gnuplot."""
    data = "$data << END\n" + "\n".join(" ".join(map(str, row)) for row in rows) + "\nEND\n"
    lines = ", ".join(f"$data using 1:{i + 2} with linespoints linewidth 2 title '{title}'" for i, title in enumerate(names))
    script = f"""{data}set terminal svg size 640,320 font 'sans-serif,12' background 'white'
set output '{os.path.join(TOP, "docs", "bench", name + ".svg")}'
set title '{what}' noenhanced
set xlabel '{x}'; set ylabel '{y}'; set logscale xy; set grid; set key left top
plot {lines}
"""
    subprocess.run(["gnuplot"], input=script.encode(), check=True)


def main():
    os.makedirs(os.path.join(TOP, "docs", "bench"), exist_ok=True)
    for name in sys.argv[1:] or CURVES:
        what = CURVES[name].__doc__
        x, y, names, rows = CURVES[name]()
        print(f"\n{what}\n\n| {x} | {' | '.join(names)} |\n|--:|{'--:|' * len(names)}")
        for row in rows:
            print(f"| {row[0]} | {' | '.join(f'{value:.3g}' for value in row[1:])} |", flush=True)
        draw(name, what.rstrip("."), x, y, names, rows)


if __name__ == "__main__":
    main()
