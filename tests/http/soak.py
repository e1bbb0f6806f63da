#!/usr/bin/env python3
"""Mixed load for a long time: memory and descriptors do not grow.

    tests/http/soak.py [SECONDS]     default: $SOAK_SECONDS, else 20

A few hundred requests a second: jobs (v1, v2, with secrets, as forms), invalid jobs, too large
bodies, missing and invalid tokens, GET requests, aborted and idle connections.  The API server is
tests/bench/stub."""
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokens
from harness import BINARY, SLOW, Checks, Server, free_port, job_v1, job_v2, job_v2_secret, wait_until

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else float(os.environ.get("SOAK_SECONDS", "20"))
STUB = os.path.join(os.path.dirname(BINARY), "tests/bench/stub/stub")
CLIENTS = 4
PAUSE = 0.02
GROWTH_KIB = 4096 * (8 if SLOW > 1 else 1)  # sanitizers delay the reuse of freed memory


class Client(threading.Thread):
    """A client that sends requests of changing kinds and counts the results."""

    def __init__(self, server, number, over):
        super().__init__(daemon=True)
        self.server, self.number, self.over = server, number, over
        self.random = random.Random(number)
        self.statuses, self.n, self.odd = {}, 0, []
        self.good = {"Authorization": f"Bearer {tokens.token(f'user{number}', application=True)}"}

    def post(self, path, body, headers, kind="text/yaml", method="POST"):
        reply = self.server.request(method, path, body, {"Content-Type": kind, **headers})
        status = reply.status if reply else 0
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 0 or status >= 500:
            self.odd.append(f"{method} {path}: {reply!r}"[:200])

    def cut(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as s:
            s.sendall(b"POST /api/v2/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nname: ")

    def sit(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as s:
            s.sendall(b"GET /heal")
            self.over.wait(1)

    def step(self):
        self.n += 1
        name = f"soak-{self.number}-{self.n}"
        form = f"jobName={name}&image=i&taskRoles[0][name]=m&taskRoles[0][taskNumber]=1&taskRoles[0][command]=true"
        forged = {"Authorization": f"Bearer {tokens.token('mallory', secret=b'another secret entirely')}"}
        kinds = [
            (8, lambda: self.post("/api/v2/jobs", job_v2(name), self.good)),
            (4, lambda: self.post("/api/v2/jobs", job_v2_secret(name, "a-secret"), self.good)),
            (2, lambda: self.post("/api/v1/jobs", job_v1(name), self.good, "application/json")),
            (1, lambda: self.post("/api/v1/jobs", form, self.good, "application/x-www-form-urlencoded")),
            (2, lambda: self.post("/api/v2/jobs", job_v2(name), {**self.good, "Idempotency-Key": name})),
            (2, lambda: self.post("/api/v2/jobs", "name: [" * self.n, self.good)),
            (1, lambda: self.post("/api/v2/jobs", b"x" * 150_000, self.good)),
            (2, lambda: self.post("/api/v2/jobs", job_v2(name), {})),
            (2, lambda: self.post("/api/v2/jobs", job_v2(name), forged)),
            (1, lambda: self.post("/api/v2/tokens", "username=a&password=secret-enough", {},
                                  "application/x-www-form-urlencoded")),
            (2, lambda: self.post(f"/api/v2/users/user{self.number}", None, self.good, method="GET")),
            (1, lambda: self.post("/openapi.json", None, {}, method="GET")),
            (1, lambda: self.post(f"/nowhere/{name}", None, self.good, method="GET")),
            (2, self.cut), (0.05, self.sit),
        ]
        self.random.choices([k[1] for k in kinds], [k[0] for k in kinds])[0]()

    def run(self):
        while not self.over.wait(PAUSE):
            try:
                self.step()
            except OSError as e:
                self.odd.append(repr(e))


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def test_soak_does_not_grow_memory_or_descriptors(check):
    port = free_port()
    directory = tempfile.mkdtemp(prefix="rest-lit-test.")
    secret = tokens.write_file(directory, "secret", tokens.SECRET)
    api = subprocess.Popen([STUB, str(port)], stdout=subprocess.DEVNULL)
    try:
        with Server("--apiserver", f"http://127.0.0.1:{port}", "--namespace", "default", "--rate-address", "0",
                    who=["--jwt-secret-file", secret]) as server:
            over = threading.Event()
            clients = [Client(server, i, over) for i in range(CLIENTS)]
            for c in clients:
                c.start()
            # The baseline, after the warm-up.
            time.sleep(SECONDS / 3)
            before, files = server.rss_kib(), descriptors(server)
            for i in range(10):
                time.sleep(SECONDS / 15)
                print(f"     {server.rss_kib()} KiB, {descriptors(server)} descriptors, "
                      f"{sum(c.n for c in clients)} requests", flush=True)
            after = server.rss_kib()
            over.set()
            for c in clients:
                c.join()
            statuses = {s: sum(c.statuses.get(s, 0) for c in clients) for c in clients for s in c.statuses}
            print(f"     statuses: {dict(sorted(statuses.items()))}")
            check.ok("memory does not grow", after - before < GROWTH_KIB, f"{before} KiB, then {after}")
            check.ok("descriptors go back", wait_until(lambda: descriptors(server) <= files + 4, 15),
                     f"{files}, then {descriptors(server)}")
            check.equal("nothing odd", [o for c in clients for o in c.odd][:3], [])
            check.ok("jobs are taken", statuses.get(202, 0) > SECONDS, statuses)
            check.equal("stops", server.stop(), 0)
    finally:
        api.kill()
        api.wait()


everything = Checks()
everything.run(test_soak_does_not_grow_memory_or_descriptors)
everything.finish()
