"""Slow clients, many clients, clients that disconnect; a hanging store; graceful shutdown.

The time limits only distinguish "soon" from "never"."""
import base64
import itertools
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time

from fakeapi import FakeApi, fake_server, served
from harness import (PATIENCE, SLOW, Server, framework_name, in_threads, job_v2, job_v2_secret, parse_replies,
                     request_bytes, wait_until)

SOON = 60


def test_slow_clients_are_cut_off(check):
    with Server("--engine=none", "--local", "jobs", "--read-timeout", "2", "--idle-timeout", "3") as server:
        drip = request_bytes(server.port, "GET", "/healthz", headers={"X": "y" * 1000})
        body = request_bytes(server.port, "POST", "/api/v2/jobs", b"x" * 1000)
        half = request_bytes(server.port, "POST", "/api/v2/jobs", b"x" * 1000)[:-500]

        def slowly(data):
            start = time.monotonic()
            with server.connect() as c:
                alive = True
                for i in range(len(data)):
                    alive = c.send(data[i:i + 1])
                    _, closed = c.read(0.2 / SLOW)
                    if not alive or closed or time.monotonic() - start > 60 * SLOW:
                        break
            return time.monotonic() - start

        def silent(data):
            start = time.monotonic()
            with server.connect() as c:
                c.send(data)
                c.read(60, lambda d: False)
            return time.monotonic() - start

        # The clients send five bytes a second; half a body, then nothing; nothing at all; one
        # request, then nothing.
        jobs = [lambda: slowly(drip), lambda: slowly(body), lambda: silent(half),
                lambda: silent(b""), lambda: silent(drip)]
        names = ["head in drops", "body in drops", "half a body", "silence", "idle after a request"]
        for name, took in zip(names, in_threads(5, lambda i: jobs[i]())):
            check.ok(f"{name}: cut off in time", isinstance(took, float) and 1 < took < 60 * SLOW, took)
        check.equal("others are served", server.request("GET", "/healthz").status, 200)
        check.ok("the log has CutOff, not a disconnected client", server.logged('"code":"CutOff"'), server.log())


def test_many_incomplete_requests_do_not_affect_others(check):
    """A thousand incomplete requests do not affect other clients."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(
        8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with Server("--engine=none", "--local", "jobs", "--read-timeout", "600") as server:
        crowd = [server.connect() for _ in range(1000)]
        for c in crowd:
            c.send(b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nContent-Le" % server.port)
        start = time.monotonic()
        fine = sum(server.request("GET", "/healthz").status == 200 for _ in range(20))
        took = time.monotonic() - start
        check.equal("served beside 1000 half-sent requests", fine, 20)
        check.ok("... soon", took < SOON * SLOW, took)
        check.equal("... and so is a job", server.submit(job_v2("crowd")).status, 202)
        for c in crowd:
            c.close()
        check.equal("... and after they left", server.request("GET", "/healthz").status, 200)


def test_short_connections_do_not_block_submissions(check):
    """Many short connections do not block submissions."""
    with Server("--engine=none", "--local", "jobs", "--loops", "1") as server:
        crowd = subprocess.Popen(
            ["wrk", "-t16", "-c512", "-d600s", "-H", "Connection: close",
             f"http://127.0.0.1:{server.port}/healthz"], stdout=subprocess.DEVNULL)
        check.ok("the crowd has come", wait_until(lambda: server.connections() > 100))
        check.equal("a job in the crowd", server.submit(job_v2("crowd")).status, 202)
        check.ok("... is made while the crowd is there", crowd.poll() is None)
        crowd.terminate()
        crowd.wait()


def test_pipelined_requests_are_answered_in_order(check):
    with Server("--engine=none", "--local", "jobs") as server:
        get = request_bytes(server.port, "GET", "/healthz")
        post = request_bytes(server.port, "POST", "/api/v2/jobs", job_v2("pipelined").encode())
        lost = request_bytes(server.port, "GET", "/nothing")
        replies, _ = server.raw(get + post + get + post + lost, answers=5)
        check.equal("five requests in one packet, answered in order", [r.status for r in replies],
                    [200, 202, 200, 409, 404])
        check.equal("a refusal keeps the connection",
                    [r.status for r in server.raw(lost + get, answers=2)[0]], [404, 200])
        lost = request_bytes(server.port, "POST", "/nothing", b"x" * 1000)
        with server.connect() as c:
            c.send(lost + get)
            data, _ = c.read(PATIENCE, lambda d: len(parse_replies(d)) == 2)
            check.equal("... and takes the body that is on its way",
                        [r.status for r in parse_replies(data)], [404, 200])
            c.send(get)
            check.equal("... which may go on", getattr(c.reply(), "status", None), 200)


def test_half_closed_client_gets_its_answer(check):
    with served() as (api, server):
        def submit(name, delay):
            api.fault("POST", "frameworks", framework_name(name), delay=delay)
            with server.connect() as c:
                c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job_v2(name).encode()))
                c.socket.shutdown(socket.SHUT_WR)
                return c.reply()
        for delay in (0, 0.5):
            reply = submit(f"half-{delay}".replace(".", ""), delay)
            check.ok(f"half-closed by the client, store takes {delay} s: answered",
                     reply and reply.status == 202, reply)
        check.equal("alive", server.request("GET", "/healthz").status, 200)


def test_hanging_store_does_not_block_healthz(check):
    with served("--deadline", "200", "--drain-timeout", "1") as (api, server):
        api.every(hang="before")
        crowd = [server.connect() for _ in range(64)]
        for i, c in enumerate(crowd):
            c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job_v2(f"hang-{i}").encode()))
        check.ok("the store is asked", wait_until(lambda: api.count("POST", "frameworks") > 8))
        for _ in range(5):
            check.equal("/healthz is answered", server.request("GET", "/healthz").status, 200)
        check.equal("... before any of them", {c.read(0.01) for c in crowd}, {(b"", False)})
        for c in crowd:
            c.close()


def test_full_queue_is_503_with_retry_after(check):
    api, go_on = FakeApi(), threading.Event()
    with fake_server(api, "--deadline", "200", "--loops", "1", "--in-flight", "1", "--queue", "4") as server:
        api.fault("POST", "frameworks", until=go_on)
        results = []
        crowd = threading.Thread(target=in_threads, args=(
            20, lambda i: results.append(server.submit(job_v2(f"full-{i}")))))
        crowd.start()
        check.ok("a full queue answers before the store does", wait_until(lambda: len(results) >= 15), len(results))
        early = list(results)
        check.ok("... with 503 and Retry-After", all(
            r and r.status == 503 and int(r.headers.get("retry-after", 0)) > 0 for r in early), early)
        check.ok("... and a message", all(r and r.message for r in early))
        go_on.set()
        crowd.join()
        check.equal("the others are taken", [getattr(r, "status", r) for r in results[15:]], [202] * 5)


def test_bytes_of_waiting_jobs_are_bounded(check):
    """Jobs that wait for a hanging API server use limited memory."""
    api, go_on, replies = FakeApi(), threading.Event(), []
    with fake_server(api, "--deadline", "200", "--loops", "1", "--queue-bytes", "1MiB", "--max-body", "200KiB") as server:
        note = {"extras": {"note": "x" * 100000}}
        api.fault("POST", "frameworks", until=go_on)
        crowd = threading.Thread(target=in_threads, args=(
            30, lambda i: replies.append(server.submit(job_v2(f"large-{i}", **note)))))
        crowd.start()
        check.ok("15 are refused at once", wait_until(lambda: len(replies) >= 15), len(replies))
        go_on.set()
        crowd.join()
        check.equal("refused or taken", {r.status for r in replies}, {503, 202})
        check.equal("room again when they are done", server.submit(job_v2("large", **note)).status, 202)


def heavy_jobs():
    """Bodies near the size limit that repeat one element very often."""
    job = json.loads(job_v2("heavy"))
    image = job["prerequisites"][0]

    def with_images(more):
        return {**job, "prerequisites": [image, *more]}
    jobs = {"deployments": {**job, "deployments": [{"name": f"d{i}"} for i in range(6000)]},
            "members of auth": with_images([{**image, "name": "other", "auth": {
                f"a{i}": "b" for i in range(8000)}}]),
            "logins": with_images([{**image, "name": f"i{i}", "auth": {"password": "b"}}
                                   for i in range(1000)]),
            "parameters": {**job, "parameters": {f"p{i}": 1 for i in range(8000)}},
            "unknown keys": {**job, **{f"key{i}": 1 for i in range(8000)}}}
    bodies = {what: json.dumps(job, separators=(",", ":")) for what, job in jobs.items()}
    # U+0085, which only some parsers treat as a line break, and `!` make the reader compute
    # positions.
    numbers = json.dumps({**job, "parameters": {"p": [1] * 45000}}, separators=(",", ":"))
    return {**bodies, "places": "# \u0085 !\n" + numbers}


def test_heavy_jobs_do_not_block_their_loop(check):
    """No body blocks its loop, and the other clients of it, for long."""
    with Server("--engine=none", "--local", "jobs", "--loops", "1") as server:
        for what, body in heavy_jobs().items():
            before = server.cpu_seconds()
            reply = server.submit(body)
            took = server.cpu_seconds() - before
            check.ok(f"many {what}: answered", reply and reply.status in (202, 400, 409), reply)
            check.ok(f"many {what}: little work", took < 0.5 * SLOW, took)


def test_drain_finishes_current_requests(check):
    """SIGTERM: current requests finish, new ones are refused, exit status 0."""
    api, go_on = FakeApi(), threading.Event()
    with fake_server(api) as server:
        api.fault("POST", "frameworks", framework_name("last"), until=go_on)
        answers = []
        t = threading.Thread(target=lambda: answers.append(server.submit(job_v2("last"))))
        t.start()
        check.ok("the request is under way", wait_until(lambda: api.count("POST", "frameworks") == 1))
        idle = server.connect()
        server.terminate()
        check.ok("drains", server.logged('"stopping"'))
        try:
            refused = server.request("GET", "/readyz")
            check.ok("draining: no new work", refused is None or refused.status == 503, refused)
        except OSError:
            check.ok("draining: refused", True)
        go_on.set()
        t.join()
        check.equal("the request under way gets its answer", answers and answers[0] and
                    answers[0].status, 202)
        check.equal("exit status", server.stop(), 0)
        idle.close()


def test_drain_refuses_bodies_that_come_too_late(check):
    """A body that arrives when the store is closed and only responses are sent."""
    for seconds in (1.4, 5, 20):  # on a busy machine it may not be over by then
        if body_after_drain(check, seconds) != 202:
            break
    else:
        check.ok("a body that comes too late is refused", False)


def body_after_drain(check, seconds):
    with Server("--engine=none", "--local", "jobs", "--drain-timeout", "1") as server:
        whole = request_bytes(server.port, "POST", "/api/v2/jobs", job_v2("last").encode())
        with server.connect() as c:
            c.send(whole[:-10])
            check.ok("the request has begun", server.becomes("/healthz", 200))
            server.terminate()
            check.ok("drains", server.logged('"stopping"'))
            time.sleep(seconds)
            c.send(whole[-10:])
            reply = c.reply()
            check.ok("refused, if it is answered at all", reply is None or reply.status in (503, 202), reply)
        check.equal("exit status", server.stop(), 0)
        return reply and reply.status


def test_drain_delay_keeps_accepting_jobs(check):
    with Server("--engine=none", "--local", "jobs", "--drain-delay", "600") as server:
        server.terminate()
        check.ok("/readyz says 503 while the load balancer notices", server.becomes("/readyz", 503))
        check.equal("... and jobs are still taken", server.submit(job_v2("late")).status, 202)
        server.process.send_signal(signal.SIGTERM)  # which ends the delay
        check.equal("exit status", server.stop(), 0)


def test_second_signal_stops_at_once(check):
    with served("--deadline", "200", "--drain-timeout", "600") as (api, server):
        api.every(hang="before")
        c = server.connect()
        c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job_v2("stuck").encode()))
        check.ok("the request is under way", wait_until(lambda: api.count("POST", "frameworks") == 1))
        server.process.send_signal(signal.SIGTERM)
        check.ok("drains", server.logged('"stopping"'))
        check.ok("one signal: waits", server.process.poll() is None)
        server.process.send_signal(signal.SIGTERM)
        check.ok("two signals: goes at once", wait_until(lambda: server.process.poll() is not None))
        c.close()


def test_crash_writes_no_core_file(check):
    """The process holds job secrets: a crash must not write them to a file."""
    with Server("--engine=none", "--local", "jobs") as server:
        with open(f"/proc/{server.process.pid}/limits") as f:
            core = [line.split()[4:6] for line in f if line.startswith("Max core file size")]
        check.equal("limit of the core file", core, [["0", "0"]])
        server.submit(job_v2("core"))
        server.process.send_signal(signal.SIGABRT)
        server.process.wait(PATIENCE * SLOW)
        check.ok("no core file", not any("core" in f for f in os.listdir(server.directory)),
                 os.listdir(server.directory))


def memory_of(pid):
    """The writable memory of the process, in pieces."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            place, rights = line.split()[:2]
            start, end = (int(x, 16) for x in place.split("-"))
            if rights.startswith("rw") and end - start < 1 << 30:
                memory.seek(start)
                try:
                    yield memory.read(end - start)
                except OSError:
                    pass


def test_secrets_of_jobs_do_not_stay_in_memory(check):
    marker = "zq7MarkerThatNobodyElseHas"
    forms = [marker.encode(), base64.b64encode(f"key: {marker}".encode())[:24]]
    with served() as (api, server):
        for i in range(4):
            reply = server.submit(job_v2_secret(f"held{i}", marker))
            check.equal("a job with secrets", reply.status, 202)
        def found():
            return [form for piece in memory_of(server.process.pid) for form in forms if form in piece]
        numbers = itertools.count()

        def gone():
            """libcurl 8 keeps the last request of a loop until the next one."""
            server.submit(job_v2(f"plain{next(numbers)}", extras={"note": "x" * 2000}))
            return not found()
        try:
            wait_until(gone)
            check.equal("what is left of them", found(), [])
        except PermissionError:
            pass  # only root may look


def test_disconnected_requests_free_their_descriptors(check):
    """Connections of disconnected clients are closed long before the request timeout."""
    with Server("--engine=none", "--local", "jobs", "--read-timeout", "300") as server:
        def files():
            return len(os.listdir(f"/proc/{server.process.pid}/fd"))
        before = files()
        for i in range(40):
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.sendall([b"GET /heal", b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\na"][i % 2])
        check.ok("they are gone", wait_until(lambda: files() <= before), f"{before}, then {files()}")
