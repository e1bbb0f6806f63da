#!/usr/bin/python3
"""Which goals of docs/BENCH.md are met, from the output of tests/tools/bench.

    tests/bench/goals.py FILE

The first table has the ratios to something in the same run, the second one absolute figures."""
import re
import sys

# What; the text above its table, the first cells of its row, the column, the number in the cell; the limit.
RATIOS = [
    ("translation / libyaml, large", "Profile openpai", "large", 8, 0, 1.6),
    ("the same with secrets", "Profile openpai", r"large \+ secrets", 8, 0, 1.8),
    ("CPU, ours / API server and etcd, %", "Through a real API server", "rest-lit", 5, 0, 4),
    ("p99 of submissions, polled / alone", "p99 of submissions", None, 0, 1, 2),
]
FIGURES = [
    ("POST with 8 clients, p99 ms", "POST /api/v2/jobs against", r"token \| 8", 3, 1, 2),
    ("a page of 30 000 jobs by name, from the middle, ms", "A page of 100 jobs", "by name, from the middle", 3, 0, 5),
    ("a page of 100 000 jobs by name, from the middle, ms", "A page of 100 jobs", "by name, from the middle", 4, 0, 5),
    ("count of one state of 100 000 jobs, ms", "A page of 100 jobs", "count of one state", 4, 0, 0.2),
    ("30 000 Frameworks in memory, MiB", r"\d+ Frameworks are kept", None, 0, 1, 64),
    ("a change to the event, 200 clients, p99 ms", "From the PATCH", "from sending it", 1, 1, 50),
    ("a start with 30 000 jobs, CPU seconds", "From the start until", "30000", 2, 1, 3),
    ("the same, MiB at the peak", "From the start until", "30000", 4, 0, None),
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


def measured(rows, above, row, column, number):
    """The worst number in that place, or None."""
    values = []
    for text, cells in rows:
        here = re.match(above, text) and (len(cells) == 1 if row is None else re.match(row + r"( \||$)", " | ".join(cells)))
        if here and column < len(cells):
            numbers = re.findall(r"\d+(?:\.\d+)?", cells[column])
            values += numbers[number:number + 1]
    return max(map(float, values), default=None)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = tables(file.read())
    for title, goals in (("Ratios", RATIOS), ("Figures", FIGURES)):
        print(f"\n{title}, and the goals for them:\n\n| | measured | goal | |\n|---|--:|--:|---|")
        for what, above, row, column, number, limit in goals:
            value = measured(rows, above, row, column, number)
            verdict = "not measured" if value is None else "" if limit is None else "met" if value <= limit else "missed"
            print(f"| {what} | {'' if value is None else f'{value:g}'} | {'' if limit is None else limit} | {verdict} |")


main()
