#!/usr/bin/python3
"""Which goals are met, from build/bench.txt, the output of tests/tools/bench.

    tests/bench/report.py [--write]

The first table has the ratios to something in the same run, the second one absolute figures.  With
--write, the sections of build/bench.txt, bench-long.txt and bench-machine.txt replace those of
docs/BENCH.md, which stand between <!-- NAME --> and <!-- end -->."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(TOP, "docs", "BENCH.md")

# What; the text above its table, the first cells of its row, the column, the number in the cell; the
# limit; and, if the goal is for a ratio of two cells, the column of the other one.
RATIOS = [
    ("translation / libyaml, large", "Profile openpai", "large", 8, 0, 1.6),
    ("the same with secrets", "Profile openpai", r"large \+ secrets", 8, 0, 1.8),
    ("CPU, ours / API server and etcd, %", "Through a real API server", "rest-lit", 5, 0, 4),
    ("CPU of the watch for a job of another client, ours / API server and etcd, %", "The watch for a job", None, 0, 1, 1),
    ("start with 30 000 jobs: peak of memory / what remains", "From the start until", "30000", 4, 0, 1.3, 3),
    ("p99 of submissions, polled / alone", "p99 of submissions", None, 0, 1, 2),
]
FIGURES = [
    ("POST with 8 clients, p99 ms", "POST /api/v2/jobs against", r"token \| 8", 3, 1, 2),
    ("POST with 8 clients, system calls per job", "POST /api/v2/jobs against", r"token \| 8", 5, 0, 10),
    ("the watch for a job of another client, CPU µs", "The watch for a job", None, 0, 0, 43),
    ("start to the first 200 of /healthz, ms", "Programs, median", "`rest-lit serve`.*", 1, 0, 20),
    ("translate -o json above version, small, CPU ms", "Programs, median", ".*json`, small.*", 4, 0, 3),
    ("translate -o json above version, large, CPU ms", "Programs, median", ".*json`, large.*", 4, 0, 3),
    ("a page of 30 000 jobs by name, from the middle, ms", "A page of 100 jobs", "by name, from the middle", 3, 0, 5),
    ("a page of 100 000 jobs by name, from the middle, ms", "A page of 100 jobs", "by name, from the middle", 4, 0, 8),
    ("count of one state of 100 000 jobs, ms", "A page of 100 jobs", "count of one state", 4, 0, 0.2),
    ("30 000 Frameworks in memory, MiB", r"\d+ Frameworks are kept", None, 0, 1, 64),
    ("a change to the event, 200 clients, p99 ms", "From the PATCH", "from sending it", 1, 1, 50),
    ("a start with 30 000 jobs, CPU seconds", "From the start until", "30000", 2, 1, 3),
    ("500 connections, a list each: MiB afterwards", "Each connection has read", "500", 5, 0, 20),
    ("2000 connections, a list each: MiB afterwards", "Each connection has read", "2000", 5, 0, 100),
    ("pai-runtime init, CPU ms", "pai-runtime:", "init, a simple task", 1, 0, 5),
    ("environment of 2000 tasks, CPU ms", "pai-runtime:", "environment of 2000 tasks", 1, 0, 20),
    ("exit with a log of 10 MiB, CPU ms", "pai-runtime:", "exit, 10 MiB log, no match", 1, 0, 500),
    ("run with 150 MB of output, CPU ms", "pai-runtime:", "run, 150 MB of output", 1, 0, 800),
]


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


def measured(rows, above, row, column, index, per=None):
    """The largest number in that place, or None."""
    values = []
    for text, cells in rows:
        here = re.match(above, text) and (len(cells) == 1 if row is None else re.match(row + r"( \||$)", " | ".join(cells)))
        if here and column < len(cells):
            value = number_in(cells[column], index)
            values.append(value / number_in(cells[per], 0) if per else value)
    return max((v for v in values if v is not None), default=None)


def goals(text):
    """Both tables."""
    rows, out = tables(text), []
    for title, wanted in (("Ratios", RATIOS), ("Figures", FIGURES)):
        out += ["", f"{title}:", "", "| | measured | goal | |", "|---|--:|--:|---|"]
        for what, above, row, column, index, limit, *per in wanted:
            value = measured(rows, above, row, column, index, *per)
            verdict = "not measured" if value is None else "met" if value <= limit else "missed"
            out.append(f"| {what} | {'' if value is None else f'{value:g}'} | {limit} | {verdict} |")
    return "\n".join(out) + "\n"


def sections(name):
    """{name: text} of an output."""
    path = os.path.join(TOP, "build", name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        parts = re.split(r"^## (\S+)\n", file.read(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def main():
    short = sections("bench.txt")
    if short:
        short["goals"] = goals("".join(short.values()))
        print(short["goals"], end="")
    found = {**short, **sections("bench-long.txt"), **sections("bench-machine.txt")}
    if sys.argv[1:] != ["--write"]:
        return
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    for name, text in found.items():
        begin, end = f"<!-- {name} -->", "<!-- end -->"
        if begin not in page:
            sys.exit(f"{PAGE}: there is no {begin}")
        head, rest = page.split(begin, 1)
        page = head + begin + "\n\n" + text.strip() + "\n\n" + end + rest.split(end, 1)[1]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)


main()
