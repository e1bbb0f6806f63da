#!/usr/bin/python3
"""Figures of the web page in Chromium, for docs/BENCH-LOG.md: the list of 10 000 jobs, a log of 200 MB.

    tests/bench/page.py [jobs] [log]     both by default: two minutes"""
import os
import re
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.path.dirname(HERE), name) for name in ("page", "local", "http")]
sys.path.insert(0, HERE)
from browser import Browser, Page
from harness import Checks, Server, free_port, wait_until
from machine import Machine, role
from service import Program

JOBS, RUNS, LINES = 10000, 5, 2000000
LINE = "step %07d  loss 0.%04d  \\033[32mok\\033[0m  a line of the output of a task, of about a hundred bytes\\n"
WRITE = ("perl -e '$| = 1; for (1 .. %d) { printf \"%s\", $_, $_ %% 10000; select undef, undef, undef, 0.25 unless $_ %% 10000 }'"
         % (LINES, LINE))
LAST = "return [...document.querySelectorAll('.line')].slice(-4).map((e) => e.textContent).join()"
PAINT = """
const begin = performance.now(), found = { rows: 0 };
location.hash = "#/jobs";
for (;;) {
	await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
	const rows = document.querySelectorAll("table[aria-label=Jobs] tbody tr").length;
	found.rows = Math.max(found.rows, rows);
	if (rows > 10 && !found.first) found.first = performance.now() - begin;
	if (document.querySelector(`[aria-rowcount="${args[0] + 1}"]`)) return { ...found, all: performance.now() - begin };
}"""


def show(what, value, goal=""):
    print(f"| {what} | {value} | {goal} |", flush=True)


def heap(page):
    """Bytes of the heap after a collection."""
    page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    return page.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]


def part_jobs(check):
    port, runs = free_port(), []
    with Program(sys.executable, os.path.join(HERE, "manyapi.py"), str(port), str(JOBS), ready=b"ready"), \
            Server("--apiserver", f"http://127.0.0.1:{port}", "--namespace", "default") as server:
        server.becomes("/api/v2/jobs?limit=1", 200)
        for _ in range(RUNS):
            with Page(check, server, "#/sign-in") as page:
                page.find("heading", "Sign in")
                runs.append(page.js_async(PAINT, JOBS))
                memory = heap(page)
    for name, member in (("first paint", "first"), ("all rows known", "all")):
        show(f"{JOBS} jobs, {name}", f"{statistics.median(run[member] for run in runs):.0f} ms", "1000 ms" if member == "first" else "")
    show("... rows in the document, at most", max(run["rows"] for run in runs), "200")
    show("... heap", f"{memory / 1e6:.0f} MB")


def part_log(check):
    with Machine() as server:
        server.start("long", {"main": role(WRITE, memory=256)})
        with Page(check, server, "#/jobs/alice~long") as page:
            begin, most = time.monotonic(), 0
            server.wait("long", "RUNNING")
            while server.state("long") == "RUNNING":
                most = max(most, page.js("return performance.memory.usedJSHeapSize"))
                time.sleep(0.5)
            show("log of 200 MB, written in", f"{time.monotonic() - begin:.0f} s")
            wait_until(lambda: "USER COMMAND END" in page.js(LAST), 120)
            show("... shown completely after", f"{time.monotonic() - begin:.0f} s")
            show("... heap afterwards", f"{heap(page) / 1e6:.0f} MB", "60 MB")
            show("... heap meanwhile, with garbage, at most", f"{most / 1e6:.0f} MB")
            dropped = re.search(r"first (\d+) lines", page.body())
            show("... lines of 2 000 000 that were shown and dropped", dropped[1] if dropped else "0")


def main():
    check, names = Checks(), sys.argv[1:] or ["jobs", "log"]
    print("| the page in Chromium | | goal |\n|---|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="rest-lit-page.", ignore_cleanup_errors=True) as tempfile.tempdir:
        os.chmod(tempfile.tempdir, 0o755)
        try:
            for name in names:
                {"jobs": part_jobs, "log": part_log}[name](check)
        finally:
            Browser.close()


main()
