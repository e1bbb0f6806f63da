"""Benchmarks of the service for docs/BENCH-LOG.md: cost of a submission, slow clients, a slow API
server.

    service.py [SECONDS] [PART]...     parts: see PARTS; default: all

Load comes from wrk, the API server is tests/bench/stub (answers at once, late or never) or, for
`real`, a real kube-apiserver with etcd.  All of it runs on this machine and shares its cores."""
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests/http"))

from harness import command_line, free_port
from tokens import SECRET, token

BUILD = os.path.join(TOP, "build")
PROGRAM = os.environ.get("REST_LIT", os.path.join(BUILD, "rest-lit"))
STUB = os.environ.get("STUB", os.path.join(BUILD, "tests/bench/stub/stub"))
TICK = os.sysconf("SC_CLK_TCK")
# All clients have the same address and user.
FEW_LIMITS = ["--rate-address", "0", "--rate-submit", "0", "--connections-per-address", "0"]

JOB = """protocolVersion: 2
name: job_@@
type: job
prerequisites:
  - {type: dockerimage, name: image, uri: "registry.example/train:1"}
taskRoles:
  worker:
    instances: 4
    dockerImage: image
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
    commands:
      - python train.py --epochs <% $parameters.epochs %>
parameters: {epochs: 10}
"""
SECRETS = JOB + "secrets: {key: hunter2}\n"


class Program:
    """A process that is stopped at the end, and its resource usage."""

    def __init__(self, *command, ready):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command_line(command[:1], command[1:]), stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        while self.process.poll() is None and ready not in self.said():
            time.sleep(0.01)
        if self.process.poll() is not None:
            sys.exit(f"{command[0]} did not start: {self.said().decode()}")

    def said(self):
        return os.pread(self.log.fileno(), 1 << 16, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self, name="VmHWM"):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(name)) / 1024


class Server(Program):
    def __init__(self, *options, store=None, no_auth=False):
        self.port = free_port()
        self.folder = tempfile.TemporaryDirectory()
        secret = os.path.join(self.folder.name, "secret")
        with open(secret, "wb") as f:
            f.write(SECRET)
        who = ["--no-auth", "--user", "alice"] if no_auth else ["--jwt-secret-file", secret, *FEW_LIMITS]
        super().__init__(PROGRAM, "serve", "--listen", f"127.0.0.1:{self.port}", *who, *store, *options,
                         ready=b'"listening"')
        self.headers = ["Content-Type: text/yaml"]
        if not no_auth:
            self.headers.append(f"Authorization: Bearer {token('alice', application=True)}")


def stub(delay_ms=0):
    port = free_port()
    program = Program(STUB, str(port), str(delay_ms), ready=b"ready")
    program.store = ["--apiserver", f"http://127.0.0.1:{port}", "--namespace", "default"]
    return program


class Load:
    """wrk, which submits.  Several may run concurrently."""

    def __init__(self, url, body, headers, connections, seconds, timeout=60):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.file.write(body)
        self.file.flush()
        self.wrk = subprocess.Popen(
            ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{timeout}s", "-s",
             os.path.join(HERE, "service.lua"), url, "--", self.file.name, *headers],
            stdout=subprocess.PIPE)

    def result(self):
        out = self.wrk.communicate()[0].decode()
        line = next((line for line in out.splitlines() if line.startswith("RESULT")), None)
        if line is None:
            sys.exit(f"wrk: {out}")
        fields = line.split()[1:]
        self.file.close()
        return {"requests": int(fields[0]), "rate": int(fields[0]) / float(fields[1]),
                "p50": int(fields[2]) / 1000, "p99": int(fields[3]) / 1000, "max": int(fields[4]) / 1000,
                "refused": int(fields[5]), "errors": int(fields[6])}


class Health(threading.Thread):
    """Requests /healthz every 10 ms over a separate connection."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ms, self.failed, self.over = port, [], 0, threading.Event()

    def run(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        while not self.over.wait(0.01):
            begin = time.perf_counter()
            try:
                c.request("GET", "/healthz")
                ok = c.getresponse().read() == b"ok\n"
            except OSError:
                ok, c = False, http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            self.failed += not ok
            self.ms.append((time.perf_counter() - begin) * 1000)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        self.ms.sort()

    def text(self):
        failed = f", {self.failed} FAILED" if self.failed else ""
        return f"{self.ms[len(self.ms) * 99 // 100]:.1f} / {self.ms[-1]:.1f}{failed}"


def submit_url(server):
    return f"http://127.0.0.1:{server.port}/api/v2/jobs"


def trouble(r):
    return f"{r['refused']} refused, {r['errors']} errors" if r["refused"] or r["errors"] else "none"


def calls_per_job(server, body, connections):
    """System calls for a job, counted by perf; "" if it is not there or may not."""
    event = ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter"]
    try:
        if subprocess.run([*event, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
            return ""
    except OSError:
        return ""
    perf = subprocess.Popen([*event, "-p", str(server.process.pid)], stderr=subprocess.PIPE)
    time.sleep(0.3)
    r = Load(submit_url(server), body, server.headers, connections, 2).result()
    perf.send_signal(signal.SIGINT)
    return f"{int(perf.communicate()[1].split(b',')[0]) / r['requests']:.1f}"


def part_post(seconds):
    """The stub answers immediately: the result is the server's own cost."""
    print("\nPOST /api/v2/jobs against a stub that answers at once (wrk, stub and server share the cores):\n")
    print("| job | clients | per second | p50, p99 ms | CPU µs per job | system calls per job | MiB, peak | trouble |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    rows = [("token", JOB, False, 8), ("--no-auth", JOB, True, 8), ("token, with secrets (3 calls)", SECRETS, False, 8),
            ("token", JOB, False, 64), ("token", JOB, False, 256)]
    for name, body, no_auth, connections in rows:
        with stub() as upstream, Server(store=upstream.store, no_auth=no_auth) as server:
            Load(submit_url(server), body, server.headers, connections, 1).result()
            before = server.cpu()
            r = Load(submit_url(server), body, server.headers, connections, seconds).result()
            used = (server.cpu() - before) / r["requests"] * 1e6
            memory = server.memory()
            calls = calls_per_job(server, body, connections)
            print(f"| {name} | {connections} | {r['rate']:.0f} | {r['p50']:.2f}, {r['p99']:.2f} | {used:.0f} | {calls} | "
                  f"{memory:.1f} | {trouble(r)} |", flush=True)


def part_slow(seconds):
    print("\n1000 clients at once:\n")
    print("| API server | submissions per second | p50, p99 ms | /healthz p99 / max ms | MiB, peak | trouble |")
    print("|---|--:|--:|--:|--:|---|")
    wide = ["--in-flight", "500", "--queue", "2000", "--queue-per-user", "2000"]
    for name, delay, options in (("takes 1 s for each call (in-flight=500)", 1000, wide),
                                 ("takes 1 s for each call (default)", 1000, ["--queue-per-user", "1000"]),
                                 ("never answers (deadline=5)", -1, wide + ["--deadline", "5"])):
        with stub(delay) as upstream, Server(*options, store=upstream.store) as server, Health(server.port) as health:
            r = Load(submit_url(server), JOB, server.headers, 1000, max(seconds, 12)).result()
            memory = server.memory()
        accepted = r["requests"] - r["refused"]
        rate = accepted / r["requests"] * r["rate"] if r["requests"] else 0
        print(f"| {name} | {rate:.0f} | {r['p50']:.0f}, {r['p99']:.0f} | {health.text()} | {memory:.1f} | "
              f"{trouble(r)} |", flush=True)


def part_idle(_):
    """Idle and very slow connections."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    print("\nConnections that do nothing:\n")
    print("| | /healthz p99 / max ms | MiB before | MiB with them | KiB each |")
    print("|---|--:|--:|--:|--:|")
    options = ["--connections", "8000", "--read-timeout", "120", "--idle-timeout", "600"]
    for name, n, text in (("5000 idle", 5000, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
                          ("1000 trickling, a byte per second", 1000, None)):
        with stub() as upstream, Server(*options, store=upstream.store) as server:
            before = server.memory("VmRSS")
            sockets = []
            for _ in range(n):
                s = socket.create_connection(("127.0.0.1", server.port))
                s.sendall(text or b"POST /api/v2/jobs HTTP/1.1\r\nHost: x\r\nX-Slow: ")
                sockets.append(s)
            with Health(server.port) as health:
                for _ in range(5):
                    time.sleep(1)
                    for s in sockets if text is None else []:
                        s.send(b"x")
            after = server.memory("VmRSS")
            print(f"| {name} | {health.text()} | {before:.1f} | {after:.1f} | {(after - before) * 1024 / n:.1f} |", flush=True)
            for s in sockets:
                s.close()


def part_start(_):
    """The first of five starts is not counted, because it waits for the stub."""
    print("\nFrom the start until all jobs are known (best and median of four), with a fake API server on the same cores:\n")
    print("| jobs | seconds | CPU seconds | MiB, ready | MiB, peak |")
    print("|--:|--:|--:|--:|--:|")
    for n in (0, 1000, 30000):
        port, rows = free_port(), []
        with Program(sys.executable, os.path.join(HERE, "manyapi.py"), str(port), str(n), ready=b"ready"):
            for _ in range(5):
                begin = time.monotonic()
                with Server(store=["--apiserver", f"http://127.0.0.1:{port}", "--namespace", "default"]) as server:
                    while b'"all jobs are known"' not in server.said():
                        time.sleep(0.002)
                    rows.append((time.monotonic() - begin, server.cpu(), server.memory("VmRSS"), server.memory()))
        wall, cpu, memory, peak = (sorted(column) for column in zip(*rows[1:]))
        print(f"| {n} | {wall[0]:.2f}, {wall[2]:.2f} | {cpu[0]:.2f}, {cpu[2]:.2f} | {memory[2]:.0f} | {peak[2]:.0f} |", flush=True)


def read_lists(connections, request):
    """Each sends the request, then each reads its answer, in chunks, to the end."""
    for c in connections:
        c.sendall(request)
    for c in connections:
        data = c.recv(65536)
        assert data.startswith(b"HTTP/1.1 200 "), data[:200]
        while not data.endswith(b"\r\n0\r\n\r\n"):
            data = data[-10:] + c.recv(65536)


def part_keep(_):
    """Connections that stay open after each has read one list of 1000 jobs, 500 at once."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    port = free_port()
    store = ["--apiserver", f"http://127.0.0.1:{port}", "--namespace", "default"]
    print("\nEach connection has read a list of 1000 jobs, 500 at once, and stays open; MiB:\n")
    print("| connections | before | with them | peak of the lists | afterwards | more than before | goal |")
    print("|--:|--:|--:|--:|--:|--:|---|")
    with Program(sys.executable, os.path.join(HERE, "manyapi.py"), str(port), "1000", ready=b"ready"):
        for n, goal in ((500, 20), (2000, 100)):
            with Server("--rate-list", "0", "--streams-per-user", "2000", store=store) as server:
                while b'"all jobs are known"' not in server.said():
                    time.sleep(0.02)
                before = server.memory("VmRSS")
                open_ones = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(n)]
                time.sleep(1)
                connected = server.memory("VmRSS")
                head = ["GET /api/v2/jobs?limit=1000 HTTP/1.1", "Host: x", *server.headers[1:], "", ""]
                for i in range(0, n, 500):
                    read_lists(open_ones[i:i + 500], "\r\n".join(head).encode())
                time.sleep(3)
                after = server.memory("VmRSS")
                met = "met" if after - before <= goal else "missed"
                print(f"| {n} | {before:.1f} | {connected:.1f} | {server.memory():.1f} | {after:.1f} | {after - before:.1f} | {goal}: {met} |", flush=True)
                for c in open_ones:
                    c.close()


def framework_for(body):
    """The prepared requests of the server for this job, with @@ for its name."""
    out = subprocess.run([PROGRAM, "translate", "--user", "alice", "-o", "json", "-"], check=True,
                         input=body.replace("@@", "0123456789abcdef").encode(), stdout=subprocess.PIPE).stdout
    framework = json.loads(out)["items"][-1]
    text = json.dumps(framework, separators=(",", ":"))
    return text.replace(framework["metadata"]["name"], "@@").replace("0123456789abcdef", "@@")


def cpu_of(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def part_real(seconds):
    sys.path.insert(0, os.path.join(TOP, "tests/e2e"))
    from cluster import FRAMEWORKS, Cluster
    kit = subprocess.run([os.path.join(TOP, "tests/tools/kit")], check=True, stdout=subprocess.PIPE).stdout
    cluster = Cluster(kit.decode().strip().splitlines()[-1])
    pids = []
    for name in ("kube-apiserver", "etcd"):
        with open(os.path.join(cluster.directory, name + ".pid"), encoding="utf-8") as f:
            pids.append(int(f.read()))
    print("\nThrough a real API server, beside sending it ready-made Frameworks (8 clients; runs in the order A B B A):\n")
    print("| run | per second | p50, p99 ms | CPU µs per job: ours | API server and etcd | ours / theirs |")
    print("|---|--:|--:|--:|--:|--:|")
    direct = [f"Authorization: Bearer {cluster.token}", "Content-Type: application/json"]
    totals = {}
    try:
        with Server("--kubeconfig", cluster.kubeconfig, store=["--namespace", "default"]) as server:
            for way in ("direct", "rest-lit", "rest-lit", "direct") * 2:
                ours, theirs = server.cpu(), cpu_of(pids)
                if way == "direct":
                    r = Load(cluster.url + FRAMEWORKS, framework_for(JOB), direct, 8, seconds).result()
                else:
                    r = Load(submit_url(server), JOB, server.headers, 8, seconds).result()
                used = [server.cpu() - ours, cpu_of(pids) - theirs]
                us = [seconds_of / r["requests"] * 1e6 for seconds_of in used]
                totals.setdefault(way, []).append((r["rate"], r["requests"], *used))
                share = f"{100 * us[0] / us[1]:.1f} %"
                print(f"| {way} | {r['rate']:.0f} | {r['p50']:.1f}, {r['p99']:.1f} | {us[0]:.0f} | {us[1]:.0f} | {share} | "
                      + (trouble(r) if trouble(r) != "none" else ""), flush=True)
        totals = {way: [sum(column) for column in zip(*v)] for way, v in totals.items()}
        _, n, ours, theirs = totals["direct"]
        _, jobs, of_ours, _ = totals["rest-lit"]
        print(f"\nrest-lit / direct, by rate: {totals['rest-lit'][0] / totals['direct'][0]:.3f}")
        print(f"\nThe watch for a job of another client (direct), CPU: {ours / n * 1e6:.0f} µs, {100 * ours / theirs:.2f} % of that of the "
              f"API server and etcd, {100 * (ours / n) / (of_ours / jobs):.0f} % of ours for a submission")
    finally:
        cluster.close()


PARTS = {"post": part_post, "start": part_start, "keep": part_keep, "slow": part_slow, "idle": part_idle, "real": part_real}


def main():
    seconds = 8.0
    names = sys.argv[1:]
    if names and names[0].replace(".", "").isdigit():
        seconds = float(names.pop(0))
    for name in names or PARTS:
        PARTS[name](int(seconds))


if __name__ == "__main__":
    main()
