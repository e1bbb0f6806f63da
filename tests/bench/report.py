#!/usr/bin/python3
"""Results of the benchmarks, with their goals: docs/BENCH.md, from the tables of docs/BENCH-LOG.md.

    tests/bench/report.py           print the results of the last runs, from build/bench.txt,
                                    bench-long.txt and bench-machine.txt
    tests/bench/report.py --write   put the sections of these files into docs/BENCH-LOG.md, and the
                                    results of that page into docs/BENCH.md
    tests/bench/report.py --check   compare docs/BENCH.md with the results of docs/BENCH-LOG.md

A section stands between <!-- NAME --> and <!-- end -->."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE, LOG = (os.path.join(TOP, "docs", name) for name in ("BENCH.md", "BENCH-LOG.md"))


def most(limit=None):
    """A goal; without a limit it is the number in the last cell of the row."""
    return "at most", limit


def least(limit=None):
    return "at least", limit


# Sections of BENCH.md.  A row: the figure; the section of BENCH-LOG.md, the text above its table, the
# first cells of its row, the column, the index of the number in the cell; the goal or None; and, for
# the ratio of two cells, the column of the other one.
RESULTS = {
    "translation": [
        ("small job (1 KB), CPU µs, median", "translation", "Profile openpai", "small", 7, 1, None),
        ("medium job (4 KB), CPU µs, median", "translation", "Profile openpai", "medium", 7, 1, None),
        ("large job (40 KB), CPU µs, median", "translation", "Profile openpai", "large", 7, 1, None),
        ("large job / libyaml for the same text", "translation", "Profile openpai", "large", 8, 0, most(1.6)),
        ("large job with secrets / libyaml", "translation", "Profile openpai", r"large \+ secrets", 8, 0, most(1.8)),
        ("large job / libyaml, instructions", "instructions", "Instructions per job", "large", 7, 0, None),
    ],
    "programs": [
        ("`rest-lit version`, ms", "programs", "Programs, median", "`rest-lit version`", 1, 0, None),
        ("start to the first 200 of `/healthz`, ms", "programs", "Programs, median", "`rest-lit serve`.*", 1, 0, most(20)),
        ("`translate -o json`, small job, CPU ms above `version`", "programs", "Programs, median", ".*json`, small.*", 4, 0, most(3)),
        ("`translate -o json`, large job, CPU ms above `version`", "programs", "Programs, median", ".*json`, large.*", 4, 0, most(3)),
    ],
    "runtime": [
        ("size of the program, bytes", "runtime", "pai-runtime:", None, 0, 0, None),
        ("`init`, a simple task, CPU ms", "runtime", "pai-runtime:", "init, a simple task", 1, 0, most(5)),
        ("`init`, a simple task, MiB", "runtime", "pai-runtime:", "init, a simple task", 2, 0, most(3)),
        ("`init`, six plugins, CPU ms", "runtime", "pai-runtime:", "init, six plugins", 1, 0, None),
        ("environment of 2000 tasks, CPU ms", "runtime", "pai-runtime:", "environment of 2000 tasks", 1, 0, most(20)),
        ("`exit` with a log of 10 MiB, CPU ms", "runtime", "pai-runtime:", "exit, 10 MiB log, no match", 1, 0, most(500)),
        ("`exit` with 10 MiB and hostile patterns, CPU ms", "runtime", "pai-runtime:", "exit, 10 MiB, hostile patterns", 1, 0, None),
        ("`run` with 150 MB of output, CPU ms", "runtime", "pai-runtime:", "run, 150 MB of output", 1, 0, most(800)),
        ("`run` alone with that output, at most, MiB", "runtime", "pai-runtime:", "run alone, in that flood, at its largest", 2, 0, most()),
    ],
    "memory": [
        ("30 000 Frameworks in the watch cache, MiB", "frameworks", r"\d+ Frameworks are kept", None, 0, 1, most(64)),
        ("one Framework in the watch cache, bytes", "frameworks", r"\d+ Frameworks are kept", "all that is kept", 1, 0, None),
        ("500 connections, a list each: MiB afterwards", "service", "Each connection has read", "500", 5, 0, most()),
        ("2000 connections, a list each: MiB afterwards", "service", "Each connection has read", "2000", 5, 0, most()),
        ("an idle connection, KiB", "service", "Connections that do nothing", "5000 idle", 4, 0, None),
        ("start with 30 000 jobs, peak of memory / what remains", "service", "From the start until", "30000", 4, 0, most(1.3), 3),
    ],
    "answers": [
        ("a page of 30 000 jobs by name, from the middle, CPU ms", "lists", "A page of 100 jobs", "by name, from the middle", 3, 0, most(5)),
        ("a page of 100 000 jobs by name, from the middle, CPU ms", "lists", "A page of 100 jobs", "by name, from the middle", 4, 0, most(8)),
        ("count of one state of 100 000 jobs, CPU ms", "lists", "A page of 100 jobs", "count of one state", 4, 0, most(0.2)),
        ("5000 of 30 000 jobs, the default, CPU ms", "lists", "A page of 100 jobs", "5000 jobs, the default", 3, 0, None),
        ("details of a job of 2000 tasks, CPU ms without inflating", "details", "", r"2000 \| ended \| yes", 6, 0, most(10)),
        ("details of a job of 2000 tasks / jansson parses the same status", "details", "", r"2000 \| ended \| yes", 8, 0, None),
        ("`GET /metrics` with 30 000 jobs, CPU ms, median", "metrics", "", "30000", 3, 1, most(2)),
    ],
    "submissions": [
        ("8 clients, submissions per second", "service", "POST /api/v2/jobs against", r"token \| 8", 2, 0, least(12000)),
        ("8 clients, p99 ms", "service", "POST /api/v2/jobs against", r"token \| 8", 3, 1, most(2)),
        ("8 clients, CPU µs per job", "service", "POST /api/v2/jobs against", r"token \| 8", 4, 0, None),
        ("8 clients, system calls per job", "service", "POST /api/v2/jobs against", r"token \| 8", 5, 0, most(10)),
        ("256 clients, p99 ms", "service", "POST /api/v2/jobs against", r"token \| 256", 3, 1, None),
        ("1000 clients, API server takes 1 s (`in-flight=500`), submissions per second", "service", "1000 clients at once", "takes 1 s.*500.", 1, 0, least(800)),
        ("1000 clients, p99 of `/healthz` meanwhile, ms", "service", "1000 clients at once", "takes 1 s.*500.", 3, 0, most(20)),
        ("real API server, rate / that of ready-made Frameworks", "service", "rest-lit / direct", None, 0, 0, least(0.95)),
        ("real API server, CPU, server / API server and etcd, %", "service", "Through a real API server", "rest-lit", 5, 0, most(4)),
        ("the watch for a job of another client, CPU µs", "service", "The watch for a job", None, 0, 0, most(43)),
        ("the watch for a job of another client, CPU, server / API server and etcd, %", "service", "The watch for a job", None, 0, 1, most(1)),
        ("a start with 30 000 jobs, CPU seconds", "service", "From the start until", "30000", 2, 1, most(3)),
    ],
    "following": [
        ("from a change to the event, 200 clients, p99 ms", "following", "From the PATCH", "from sending it", 1, 1, most(50)),
        ("p99 of submissions, while 110 clients poll / alone", "following", "p99 of submissions", None, 0, 1, most(2)),
    ],
    "machine": [
        ("jobs of `true` per second, 8 clients", "jobs", "200 jobs of", "jobs a second", 1, 0, least(100)),
        ("CPU of the machine per job, ms", "jobs", "200 jobs of", "CPU ms a job: the machine", 1, 0, most()),
        ("CPU of the machine per job / bubblewrap alone", "jobs", "200 jobs of", r"\.\.\. / bwrap alone", 1, 0, most()),
        ("CPU of the server per job, ms", "jobs", "200 jobs of", r"\.\.\. of it the server", 1, 0, most(4)),
        ("one job on an idle machine, from its submission to its end, ms", "jobs", "200 jobs of", "an idle machine.*", 1, 0, most()),
        ("submissions of 6 KB per second, 8 clients", "jobs", "POST of jobs", "8", 1, 0, least(3000)),
        ("submissions of 6 KB per second, 64 clients", "jobs", "POST of jobs", "64", 1, 0, least(6000)),
        ("submissions of 6 KB, 64 clients / rows of SQLite alone", "jobs", "POST of jobs", "64", 3, 0, least(0.5)),
        ("submissions of 6 KB, 64 clients, p99 ms", "jobs", "POST of jobs", "64", 4, 1, most(20)),
        ("a job that waits, beside 30 000, KiB", "jobs", "What one more job", "30000 wait", 3, 0, most(12)),
        ("server, 100 idle tasks: CPU ticks in 30 s", "local", "", r"server, \d+ tasks: CPU ticks.*", 1, 0, most()),
        ("100 shims: CPU ticks in 30 s", "local", "", r"all \d+ shims: CPU ticks.*", 1, 0, most()),
        ("the server's look at all of 100 tasks, CPU ms", "local", "", r"a look at all tasks.*", 1, 0, most()),
        ("server, 100 idle tasks: memory, MiB (Pss)", "local", "", "server: memory.*", 1, 0, most()),
        ("a shim: private memory, KiB, largest", "local", "", "a shim: private memory.*", 1, 1, most()),
        ("`rest-lit run` to the first line, ms above `true` in bubblewrap, p95", "local", "", r"\*\*difference to `true`\*\*", 2, 0, most()),
    ],
    "ended": [
        ("`fetch` of 1 GiB in 4 files and 5000 of 2 kB / `tar` into `tar`", "results", ".*fetch", "throughput of .*", 1, 0, least(0.6)),
        ("`/healthz` meanwhile, ms, worst", "results", ".*fetch", "`/healthz` meanwhile.*", 1, 0, most(50)),
        ("memory of the server meanwhile, above rest, KiB", "results", ".*fetch", "memory of the server.*", 1, 0, most(8192)),
        ("`jobs --metric` of 200 jobs, requests", "results", ".*metric", "requests.*", 1, 0, most(401)),
        ("`jobs --metric` of 200 jobs, s, median", "results", ".*metric", "seconds.*", 1, 0, most(2)),
    ],
    "queue": [
        ("GPUs that two tasks held at once", "local", "", "GPUs held twice.*", 1, 0, most()),
        ("GPUs at work, %", "local", "", "GPUs at work.*", 1, 0, None),
        ("smallest share of a user with waiting jobs in 20 s, of GPUs / users", "local", "", "smallest share of a user.*", 1, 0, least()),
        ("a job of 8 GPUs under a stream of small jobs waits, s, longest of 5", "local", "", "a job of 8 GPUs.*", 1, 1, None),
    ],
    "page": [
        ("list of 10 000 jobs, first paint, ms", "page", "", "10000 jobs, first paint", 1, 0, most()),
        ("list of 10 000 jobs, rows in the document, at most", "page", "", r"\.\.\. rows in the document.*", 1, 0, most()),
        ("log of 200 MB, heap afterwards, MB", "page", "", r"\.\.\. heap afterwards", 1, 0, most()),
        ("from a keystroke to its mark, job of 40 KB, p95, ms", "keystrokes", "", r"\.\.\. p95 of 100", 1, 0, most()),
    ],
}
# The machine of the log's section; of all others `machine`.
RUNS = {"jobs": "machine-jobs", "local": "machine-long", "results": "machine-long", "page": "machine-long", "keystrokes": "machine-long"}
YARDSTICK = 308  # µs: that of the machine for which times and rates are goals
MACHINES = (("`make bench`", "machine"), ("`make bench-machine`", "machine-jobs"), ("`make bench-long`", "machine-long"))


def tables(text):
    """(the text above, the cells of a row), also for lines that are in no table."""
    above, found = "", []
    for line in text.splitlines():
        if line.startswith("|"):
            found.append((above, [cell.strip() for cell in line.split("|")[1:-1]]))
        elif line.strip():
            above = line
            found.append((above, [line]))
    return found


def number_in(cell, index):
    """A number of a cell, or None."""
    found = re.findall(r"\d+(?:\.\d+)?", cell)
    return float(found[index]) if index < len(found) else None


def measured(text, above, row, column, index, goal, per=None):
    """(the number in that place, the goal); of several rows the number that is farthest from the goal."""
    word, limit = goal or ("at most", None)
    values = []
    for title, cells in tables(text):
        here = re.match(above, title) and (len(cells) == 1 if row is None else re.match(row + r"( \||$)", " | ".join(cells)))
        if here and column < len(cells) and number_in(cells[column], index) is not None:
            value = number_in(cells[column], index)
            values.append(value / number_in(cells[per], 0) if per else value)
            limit = number_in(cells[-1], 0) if goal and goal[1] is None else limit
    return (max if word == "at most" else min)(values, default=None), limit


def scaled(sections, section, figure, limit):
    """The goal on the machine of this run.  Only times and rates depend on the machine."""
    stick = re.search(r"Yardstick: (\d+) µs", sections.get(RUNS.get(section, "machine"), ""))
    figure = re.sub(r"\(.*?\)", "", figure)
    if limit is None or not stick or " / " in figure or "%" in figure:
        return limit
    slower = int(stick[1]) / YARDSTICK
    if "per second" in figure:
        return limit / slower
    return limit * slower if re.search(r"\b(ms|µs|seconds|ticks|s)\b", figure) else limit


def result(sections, figure, section, above, row, column, index, goal, per=None):
    """A row of a table of results."""
    value, limit = measured(sections.get(section, ""), above, row, column, index, goal, per)
    if value is None:
        return f"| {figure} | | | not measured |"
    here = scaled(sections, section, figure, limit) if goal and goal[1] else limit
    wanted = verdict = ""
    if limit is not None:
        wanted = f"{goal[0]} {limit:g}" + ("" if here == limit else f", here {here:.3g}")
        verdict = "met" if (value <= here if goal[0] == "at most" else value >= here) else "**missed**"
    return f"| {figure} | {value:.10g} | {wanted} | {verdict} |"


def results(sections):
    """{name: text} of all sections of BENCH.md."""
    found = {name: [result(sections, *row) for row in rows] for name, rows in RESULTS.items()}
    missed = [row for rows in found.values() for row in rows if "**missed**" in row]
    head = ["| | measured | goal | |", "|---|--:|--:|---|"]
    found = {name: "\n".join(head + rows) for name, rows in found.items()}
    found["missed"] = "\n".join(head[:2] + missed)
    found["machines"] = "\n".join(["| command | date, machine |", "|---|---|"] +
                                  [f"| {command} | {sections[name].strip()} |" for command, name in MACHINES if name in sections])
    return found


def outputs():
    """{name: text} of the outputs in build."""
    found = {}
    for name in ("bench.txt", "bench-long.txt", "bench-machine.txt"):
        path = os.path.join(TOP, "build", name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                parts = re.split(r"^## (\S+)\n", file.read(), flags=re.M)
            found.update(zip(parts[1::2], parts[2::2]))
    return found


def read_page(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sections_of(page):
    return dict(re.findall(r"^<!-- (\S+) -->\n\n(.*?)\n\n<!-- end -->", page, re.M | re.S))


def with_sections(path, found):
    """The page with these sections."""
    page = read_page(path)
    for name, text in found.items():
        begin, end = f"<!-- {name} -->", "<!-- end -->"
        if begin not in page:
            sys.exit(f"{path}: there is no {begin}")
        head, rest = page.split(begin, 1)
        page = head + begin + "\n\n" + text.strip() + "\n\n" + end + rest.split(end, 1)[1]
    return page


def main():
    if sys.argv[1:] == ["--write"]:
        log = with_sections(LOG, outputs())
        with open(LOG, "w", encoding="utf-8") as file:
            file.write(log)
        page = with_sections(PAGE, results(sections_of(log)))
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page)
    elif sys.argv[1:] == ["--check"]:
        if with_sections(PAGE, results(sections_of(read_page(LOG)))) != read_page(PAGE):
            sys.exit("docs/BENCH.md has other results than docs/BENCH-LOG.md: tests/bench/report.py --write")
    else:
        found = results(outputs())
        print("\n\n".join(f"{name}:\n\n{found[name]}" for name in RESULTS if found[name].count("not measured") < len(RESULTS[name])))


if __name__ == "__main__":
    main()
