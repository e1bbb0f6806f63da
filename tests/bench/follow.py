#!/usr/bin/env python3
"""Figures of following jobs for docs/BENCH-LOG.md, before a real kube-apiserver with etcd:

    follow.py [SECONDS] [PART]...

watch  latency from a change of a job to its event at watching clients
load   cost of submissions while other clients poll lists and a job of 2000 tasks

Clients, server, API server and etcd share the cores of this machine."""
import base64
import gzip
import http.client
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from service import JOB, TOP, Server

sys.path.insert(0, os.path.join(TOP, "tests/e2e"))
from cluster import FRAMEWORKS, Cluster
from harness import framework_name

STREAMS, LISTENERS, POLLERS, SUBMISSIONS, TASKS = 200, 10, 100, 50, 2000
POLL_S = 1.0
# All clients have the same user.
OPTIONS = ("--rate-list", "0", "--streams-per-user", "1000", "--connections", "4000")


def percentile(values, p):
    return sorted(values)[min(int(len(values) * p / 100), len(values) - 1)]


def figures(ms):
    return f"{percentile(ms, 50):.1f}, {percentile(ms, 99):.1f}, {max(ms):.1f}"


class World:
    """A context manager: a cluster, a server, and operations on both."""

    def __enter__(self):
        kit = subprocess.run([os.path.join(TOP, "tests/tools/kit")], check=True, stdout=subprocess.PIPE).stdout
        self.cluster = Cluster(kit.decode().strip().splitlines()[-1])
        self.server = Server("--kubeconfig", self.cluster.kubeconfig, *OPTIONS, store=["--namespace", "default"])
        while b'"all jobs are known"' not in self.server.said():
            time.sleep(0.01)
        self.headers = dict(line.split(": ", 1) for line in self.server.headers)
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.cluster.close()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)

    def ask(self, connection, method, path, body=None):
        """The duration in ms; the request must succeed."""
        begin = time.perf_counter()
        connection.request(method, path, body, self.headers)
        reply = connection.getresponse()
        data = reply.read()
        if reply.status not in (200, 202, 304):
            sys.exit(f"{method} {path}: {reply.status} {data[:300]}")
        return (time.perf_counter() - begin) * 1e3

    def submit(self, connection, name, body=JOB):
        return self.ask(connection, "POST", "/api/v2/jobs", body.replace("@@", name))

    def patch(self, name, status):
        """Write a status like FrameworkController."""
        code, reply = self.cluster.api("PATCH", f"{FRAMEWORKS}/{framework_name(name, 'alice')}", {"status": status},
                                       "application/merge-patch+json")
        if code != 200:
            sys.exit(f"PATCH: {code} {reply}")


def status_of(retries, roles=None):
    packed = base64.b64encode(gzip.compress(json.dumps(roles or []).encode())).decode()
    return {"startTime": "2026-11-22T00:00:00Z", "state": "AttemptRunning", "transitionTime": "2026-11-22T00:00:01Z",
            "retryPolicyStatus": {"totalRetriedCount": retries, "accountableRetriedCount": 0},
            "attemptStatus": {"id": retries, "startTime": "2026-11-22T00:00:00Z", "instanceUID": "1_x",
                              "configMapName": "x", "taskRoleStatusesCompressed": packed}}


class Ears(threading.Thread):
    """Streams, and the times at which each received the expected mark."""

    def __init__(self, world, paths):
        super().__init__(daemon=True)
        self.sockets, self.mark, self.heard = selectors.DefaultSelector(), b"", {}
        for path in paths:
            s = socket.create_connection(("127.0.0.1", world.server.port))
            head = "".join(f"{k}: {v}\r\n" for k, v in world.headers.items())
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
            if b" 200 " not in s.recv(4096).split(b"\r\n")[0]:
                sys.exit(f"{path}: refused")
            self.sockets.register(s, selectors.EVENT_READ, {"rest": b""})
        self.n = len(paths)

    def run(self):
        while True:
            for key, _ in self.sockets.select():
                data = key.data["rest"] + key.fileobj.recv(1 << 16)
                if self.mark and self.mark in data:
                    self.heard.setdefault(key.fd, time.perf_counter())
                key.data["rest"] = data[-512:]


def part_watch(seconds):
    with World() as world:
        c = world.connect()
        world.submit(c, "watched")
        world.patch("job_watched", status_of(0))
        ears = Ears(world, ["/api/v2/jobs/watch"] * (STREAMS // 2) +
                    ["/api/v2/jobs/alice~job_watched/watch"] * (STREAMS // 2))
        ears.start()
        since_answer, since_sent, last = [], [], []
        end, i, cpu = time.monotonic() + seconds, 1000, world.server.cpu()
        while time.monotonic() < end:
            i += 1
            ears.heard, ears.mark = {}, f'"retries":{i},'.encode()
            sent = time.perf_counter()
            world.patch("job_watched", status_of(i))
            answered = time.perf_counter()
            while len(ears.heard) < ears.n:
                if time.perf_counter() - sent > 30:
                    sys.exit(f"{len(ears.heard)} of {ears.n} have heard")
                time.sleep(0.001)
            times = list(ears.heard.values())
            since_sent += [(t - sent) * 1e3 for t in times]
            since_answer += [max(t - answered, 0) * 1e3 for t in times]
            last.append((max(times) - sent) * 1e3)
            time.sleep(0.02)
        n = i - 1000
        print(f"\nFrom the PATCH of a Framework's status to the event, {STREAMS} streams (half of them of all jobs, half of "
              f"that one), {n} changes, {(world.server.cpu() - cpu) / n * 1e3:.1f} ms CPU of ours for each:\n")
        print("| | p50, p99, max ms |\n|---|--:|")
        print(f"| from sending it | {figures(since_sent)} |")
        print(f"| from the API server's answer to it | {figures(since_answer)} |")
        print(f"| from sending it, to the last client | {figures(last)} |", flush=True)


def tasks(n):
    return [{"name": "worker", "taskStatuses": [
        {"index": i, "startTime": "2026-11-22T00:00:00Z", "state": "TaskAttemptRunning",
         "transitionTime": "2026-11-22T00:00:01Z", "retryPolicyStatus": {"totalRetriedCount": 0},
         "attemptStatus": {"id": 0, "startTime": "2026-11-22T00:00:00Z", "podName": f"x-worker-{i}",
                           "podUID": f"6d4b3b0e-1111-4222-8333-{i:012d}", "podNodeName": f"node-{i % 100}",
                           "podIP": f"10.1.{i // 256}.{i % 256}", "podHostIP": f"10.0.0.{i % 256}"}}
        for i in range(n)]}]


class Paced(threading.Thread):
    """One request each `every` seconds until stopped; returns the durations."""

    def __init__(self, world, every, begin, request):
        super().__init__(daemon=True)
        self.world, self.every, self.begin, self.request = world, every, begin, request
        self.over, self.ms = threading.Event(), []

    def run(self):
        c, due = self.world.connect(), time.monotonic() + self.begin
        while not self.over.wait(max(due - time.monotonic(), 0)):
            self.ms.append(self.request(c, len(self.ms)))
            due = max(due + self.every, time.monotonic() - 1)


def run(threads, seconds):
    for t in threads:
        t.start()
    time.sleep(seconds)
    for t in threads:
        t.over.set()
    for t in threads:
        t.join()


def part_load(seconds):
    with World() as world:
        c = world.connect()
        world.submit(c, "large", JOB.replace("instances: 4", f"instances: {TASKS}"))
        world.patch("job_large", status_of(1, tasks(TASKS)))
        for i in range(500):
            world.submit(c, f"old_{i}")
        print(f"\n{SUBMISSIONS} submissions a second, through a real API server; alone, and while {LISTENERS} clients ask for a job "
              f"of {TASKS} tasks and {POLLERS} for a list, each once a second:\n")
        print("| run | submissions: p50, p99, max ms | that job | lists | CPU of ours |\n|---|--:|--:|--:|--:|")
        p99 = {}
        for turn, way in enumerate(("alone", "polled", "polled", "alone")):
            cpu, begin = world.server.cpu(), time.monotonic()
            senders = [Paced(world, 5 / SUBMISSIONS, k / SUBMISSIONS,
                             lambda c, i, k=k: world.submit(c, f"t{turn}_{k}_{i}")) for k in range(5)]
            details = [Paced(world, POLL_S, k * POLL_S / LISTENERS,
                             lambda c, _: world.ask(c, "GET", "/api/v2/jobs/alice~job_large")) for k in range(LISTENERS)]
            lists = [Paced(world, POLL_S, k * POLL_S / POLLERS,
                           lambda c, _: world.ask(c, "GET", "/api/v2/jobs?limit=100")) for k in range(POLLERS)]
            run(senders if way == "alone" else senders + details + lists, seconds)
            ms = [x for t in senders for x in t.ms]
            used = (world.server.cpu() - cpu) / (time.monotonic() - begin)
            others = [figures([x for t in group for x in t.ms]) if way == "polled" else "" for group in (details, lists)]
            p99.setdefault(way, []).append(percentile(ms, 99))
            print(f"| {way} | {figures(ms)} | {others[0]} | {others[1]} | {100 * used:.0f} % |", flush=True)
        mean = {way: sum(v) / len(v) for way, v in p99.items()}
        print(f"\np99 of submissions, polled / alone: {mean['polled'] / mean['alone']:.2f}", flush=True)


PARTS = {"watch": part_watch, "load": part_load}


def main():
    arguments = sys.argv[1:]
    seconds = float(arguments.pop(0)) if arguments and arguments[0][0].isdigit() else 5
    for name in arguments or PARTS:
        PARTS[name](seconds)


if __name__ == "__main__":
    main()
