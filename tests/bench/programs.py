#!/usr/bin/env python3
"""Short runs of rest-lit for docs/BENCH-LOG.md, in turn, so that other load meets all:

    programs.py [RUNS]

The yardstick is `rest-lit version`; the server has a stub as API server and is killed when it has
answered."""
import os
import socket
import statistics
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from service import PROGRAM, free_port, stub

YARDSTICK = "`rest-lit version`"


def end_of(pid, begin):
    """(ms until now, ms of CPU until its end) of this process."""
    wall = time.perf_counter() - begin
    _, status, usage = os.wait4(pid, 0)
    return (wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3), status


def spawn(*arguments):
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    return os.posix_spawn(PROGRAM, [PROGRAM, *arguments], os.environ, file_actions=nothing)


def run(*arguments):
    begin = time.perf_counter()
    pid = spawn(*arguments)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    took, status = end_of(pid, begin)
    if status:
        sys.exit(f"rest-lit {' '.join(arguments)}: status {status}")
    return took


def is_healthy(port):
    with socket.socket() as s:
        try:
            s.connect(("127.0.0.1", port))
            s.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            return s.recv(4096).startswith(b"HTTP/1.1 200 ")
        except ConnectionError:
            return False


def serve(store):
    """From the start to the first 200 of /healthz."""
    port, begin = free_port(), time.perf_counter()
    pid = spawn("serve", "--listen", f"127.0.0.1:{port}", "--no-auth", "--user", "alice", *store)
    while not is_healthy(port):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) or time.perf_counter() - begin > 10:
            os.kill(pid, 9)
            sys.exit("rest-lit serve does not answer")
        time.sleep(0.0005)
    os.kill(pid, 9)
    return end_of(pid, begin)[0]


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seen = {YARDSTICK: []}
    with stub() as upstream:
        ways = {YARDSTICK: lambda: run("version"),
                "`rest-lit serve` to the first 200 of `/healthz`": lambda: serve(upstream.store)}
        for size in ("small", "large"):
            path = os.path.join(HERE, size + ".yaml")
            name = f"`rest-lit translate -o json`, {size}, {os.path.getsize(path)} bytes"
            ways[name] = lambda path=path: run("translate", "-o", "json", path)
        for _ in range(runs):
            for name, way in ways.items():
                seen.setdefault(name, []).append(way())
    print(f"Programs, median ms of {runs} runs in turn:\n")
    print("| | time | CPU | time above `version` | CPU above `version` |\n|---|--:|--:|--:|--:|")
    for name, rows in seen.items():
        median = [statistics.median(column) for column in zip(*rows)]
        above = [statistics.median(a - b for a, b in zip(*both)) for both in zip(zip(*rows), zip(*seen[YARDSTICK]))]
        print(f"| {name} | {median[0]:.1f} | {median[1]:.1f} | {above[0]:.1f} | {above[1]:.1f} |")


main()
