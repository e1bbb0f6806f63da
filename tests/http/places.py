"""Connection limits and eviction; clients that do not read; process limits; responses by the HTTP
library itself."""
import os
import re
import socket
import subprocess
import threading
import time

from fakeapi import FakeApi, fake_server
from harness import BINARY, PATIENCE, SLOW, Server, in_threads, job_v2, parse_replies, request_bytes, wait_until

LONG = "600"
FEW = ("--loops", "1", "--connections", "10", "--idle-timeout", LONG, "--read-timeout", LONG)


def is_served(server):
    try:
        reply = server.request("GET", "/healthz")
    except OSError:
        return False
    return bool(reply) and reply.status == 200


def test_idle_connections_are_evicted(check):
    with Server("--engine=none", "--local", "jobs", *FEW) as server:
        def visit(_):
            c = server.connect()
            c.send(request_bytes(server.port, "GET", "/healthz"))
            return c, c.reply()
        crowd = in_threads(30, visit)
        check.equal("30 clients that stay, 10 places: all are served",
                    sum(r is not None and r[1] is not None and r[1].status == 200 for r in crowd), 30)
        check.ok("the next one is served", is_served(server))

        def still():
            return sum(not c.read(0.01)[1] for c, _ in crowd)
        check.ok("no more than there are places are connected", wait_until(lambda: 0 < still() < 10), still())
        c, _ = visit(0)
        time.sleep(1.2)  # in which it must not be closed
        c.send(request_bytes(server.port, "GET", "/healthz"))
        check.ok("the last client is not evicted", c.reply())


def test_half_sent_requests_are_evicted(check):
    def one(row):
        what, data = row
        with Server("--engine=none", "--local", "jobs", *FEW) as server:
            crowd = [server.connect() for _ in range(40)]
            for c in crowd:
                c.send(data.replace(b"%d", b"%d" % server.port))
            check.ok(f"40 clients, {what}: others are served", is_served(server))
            check.ok(f"40 clients, {what}: again", is_served(server))
            for c in crowd:
                c.close()
    in_threads((("silent", b""), ("half a head", b"GET /healthz HTTP/1.1\r\nHo"),
                ("half a body", b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\n"
                 b"Content-Type: text/yaml\r\nContent-Length: 100\r\n\r\nabc")), one)


def test_connections_with_unread_answers_are_evicted(check):
    """A client that pipelines requests without reading does not block others."""
    with Server("--engine=none", "--local", "jobs", *FEW) as server:
        crowd = [server.connect() for _ in range(20)]
        many = request_bytes(server.port, "GET", "/") * 20000

        def ask(i):
            crowd[i].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            crowd[i].socket.settimeout(0.2)
            crowd[i].send(many)
        in_threads(len(crowd), ask)
        check.ok("20 clients that do not read, 10 places: others are served", is_served(server))
        check.ok("... again", is_served(server))
        for c in crowd:
            c.close()


def test_connections_at_work_are_not_evicted(check):
    """Connections that wait for a response are not evicted; new ones wait for a place."""
    api, go_on = FakeApi(), threading.Event()
    with fake_server(api, *FEW[:2], "--connections", "4", *FEW[4:], "--deadline", "200") as server:
        api.fault("POST", "frameworks", until=go_on)

        def submit(i):
            if i < 4:
                return server.submit(job_v2(f"work-{i}"))
            check.ok("all four are at work", wait_until(lambda: api.count("POST", "frameworks") == 4))
            with server.connect() as c:
                c.send(request_bytes(server.port, "GET", "/healthz"))
                check.equal("another one waits", c.read(0.3 / SLOW), (b"", False))
                go_on.set()
                return c.reply()
        replies = in_threads(5, submit)
        check.equal("4 places, 4 jobs that take long", [getattr(r, "status", r) for r in replies[:4]], [202] * 4)
        check.equal("clients that connected meanwhile are served", getattr(replies[4], "status", replies[4]), 200)


def test_fresh_connections_are_not_evicted(check):
    with Server("--engine=none", "--local", "jobs", *FEW) as server:
        replies = in_threads(60, lambda i: server.request("GET", "/healthz"))
        check.equal("60 at once, 10 places: all are served",
                    [getattr(r, "status", r) for r in replies].count(200), 60)


def test_half_closed_connections_free_their_place(check):
    """A half-closed client gets its response, then its place is free."""
    requests = [("GET", path, None) for path in ("/healthz", "/openapi.json", "/", "/api/v2/jobs", "/nothing")]
    requests.append(("POST", "/api/v2/jobs", job_v2("half-closed")))
    with Server("--engine=none", "--local", "jobs", *FEW) as server:
        for method, path, body in requests:
            with server.connect() as c:
                c.send(request_bytes(server.port, method, path, body and body.encode()) * 2)
                c.socket.shutdown(socket.SHUT_WR)
                data, closed = c.read(PATIENCE)
            check.equal(f"{method} {path}, twice, and the end: answers", len(parse_replies(data)), 2)
            check.ok(f"{method} {path}, twice, and the end: closed", closed)
        with server.connect() as c:
            c.send(request_bytes(server.port, "GET", "/openapi.json"))
            check.ok("a client that stays gets a response", c.reply())
            time.sleep(2.5)  # in which it must not be closed
            c.send(request_bytes(server.port, "GET", "/openapi.json"))
            check.ok("... and again, later", c.reply())


def test_connections_with_too_long_lines_are_cut(check):
    """Lines that are too long for the library, which then does not check the connection."""
    with Server("--engine=none", "--local", "jobs", "--read-timeout", "2", "--idle-timeout", LONG) as server:
        chunk = (b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nTransfer-Encoding: chunked\r\n\r\n5;" %
                 server.port)
        with server.connect() as c:
            c.send(chunk + b"x" * 20000)
            check.ok("a chunk's extension of 20 KB is cut off", c.read(PATIENCE)[1])
        check.equal("... and the shutdown does not wait for it", server.stop(), 0)


def test_connections_with_too_long_lines_use_no_cpu(check):
    """The server does not retry unreadable input in a loop until it closes the connection."""
    with Server("--engine=none", "--local", "jobs", "--loops", "1", "--read-timeout", LONG, "--drain-timeout", "1") as server:
        chunk = (b"POST /api/v2/jobs HTTP/1.1\r\nHost: localhost:%d\r\nTransfer-Encoding: chunked\r\n\r\n" %
                 server.port)
        for what, line in (("a chunk's extension", b"5;"), ("a trailer", b"0\r\nX: ")):
            with server.connect() as c:
                c.send(chunk + line + b"x" * 20000)
                time.sleep(0.2)
                before = server.cpu_seconds()
                time.sleep(1)  # a busy loop would use all its CPU time
                took = server.cpu_seconds() - before
                check.ok(f"{what} of 20 KB: the server sleeps", took < 0.25, f"{took} of 1 s")
                check.ok(f"{what} of 20 KB: others are served", is_served(server))


def test_connections_with_unread_answers_use_little_memory(check):
    """Unread responses use limited memory for a limited time."""
    with Server("--engine=none", "--local", "jobs", "--idle-timeout", "2", "--read-timeout", "2") as server:
        before = server.rss_kib()
        crowd = [server.connect() for _ in range(20)]
        for c in crowd:
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.socket.setblocking(False)
            try:
                c.socket.send(request_bytes(server.port, "GET", "/") * 20000)
            except OSError:
                pass
        time.sleep(0.5)  # in which memory must not grow
        check.ok("beside them others are served", is_served(server))
        grown = server.rss_kib() - before
        # Sanitizers do not give memory back at once.
        check.ok("unread responses do not use memory", grown < (8192 if SLOW == 1 else 1 << 18), grown)
        check.ok("they are cut off", wait_until(lambda: server.connections() == 0), server.connections())
        for c in crowd:
            c.close()


# ---- the process ----------------------------------------------------------------------------
def test_process_has_no_privileges_and_few_limits(check):
    environment = {"SSLKEYLOGFILE": "keys", "https_proxy": "http://127.0.0.1:1", "HOSTALIASES": "hosts"}
    os.umask(0)
    with Server("--engine=none", "--local", "jobs", "--connections", "3000", "--loops", "2",
                environment=environment) as server:
        with open(f"/proc/{server.process.pid}/status") as f:
            status = dict([part.strip() for part in line.split(":", 1)] for line in f if ":" in line)
        check.equal("no new privileges", status.get("NoNewPrivs"), "1")
        check.equal("no capabilities", [status[name] for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")], ["0" * 16] * 4)
        if os.geteuid() == 0:
            check.ok("root is told of", server.logged("runs as root"), server.log())
        check.equal("umask", status.get("Umask"), "0077")
        limits = {}
        with open(f"/proc/{server.process.pid}/limits") as f:
            for line in f:
                match = re.match(r"(Max [a-z ]+?) {2,}(\S+) +(\S+)", line)
                if match:
                    limits[match.group(1)] = match.groups()[1:]
        check.equal("no core file", limits.get("Max core file size"), ("0", "0"))
        files = int(limits["Max open files"][0])
        check.ok("files for all connections", files >= min(6000, int(limits["Max open files"][1])), limits)
        # In /proc, files of a process that is not dumpable belong to root.
        check.equal("not dumpable", os.stat(f"/proc/{server.process.pid}/environ").st_uid, 0)
        server.submit(job_v2("modes"))
        wrong = []
        for folder, _, names in os.walk(os.path.join(server.directory, "jobs")):
            wrong += [p for p in [folder, *(os.path.join(folder, n) for n in names)] if os.stat(p).st_mode & 0o77]
        check.equal("files that others may read", wrong, [])
        check.ok("the environment is spoken of", server.logged('"variable":"SSLKEYLOGFILE"'), server.log())
        check.ok("... and its values are not", "127.0.0.1:1\"" not in server.settled_log())
        check.ok("no keys are written", not os.path.exists(os.path.join(server.directory, "keys")))
    os.umask(0o022)


def test_clients_cannot_exhaust_descriptors(check):
    """Clients cannot exhaust the descriptors that jobs need."""
    few = ["prlimit", "--nofile=152:152", BINARY]
    with Server("--engine=none", "--local", "jobs", "--loops", "1", "--idle-timeout", LONG, "--read-timeout", LONG,
                program=few) as server:
        check.ok("few open files: said in the log", server.logged('"connections":40'), server.log())
        crowd = [server.connect() for _ in range(200)]
        for c in crowd:
            c.send(b"GET ")
        check.ok("200 clients that stay, 152 open files: others are served", is_served(server))
        reply = server.submit(job_v2("few"))
        check.equal("... and so is a job", reply and reply.status, 202)
        for c in crowd:
            c.close()


# ---- responses by the library -----------------------------------------------------------------
HOST = b"Host: localhost:%d\r\n"
LONG_WORD = b"a" * 40000
# Bytes, and the status of the library's response, which is HTML; None: it closes without one.
BY_LIBRARY = [
    ("no version", b"GET /\r\n\r\n", 400),
    ("no path", b"GET\r\n\r\n", None),
    ("malformed version", b"GET / HTTX/1.1\r\n\r\n", 400),
    ("blank behind the version", b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n", 400),
    ("HTTP/0.9", b"GET / HTTP/0.9\r\n\r\n", 505),
    ("HTTP/2.0", b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    ("header without a colon", b"GET / HTTP/1.1\r\n" + HOST + b"foo\r\n\r\n", 400),
    ("trailer without a colon", b"POST /nothing HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\n0\r\nfoo\r\n\r\n", 400),
    ("Content-Length: x", b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n", 400),
    ("malformed chunk", b"POST /nothing HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ("chunk above 2^64", b"POST /nothing HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF0\r\n", 413),
    ("path of 40 KB", b"GET /" + LONG_WORD + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("header of 40 KB", b"GET / HTTP/1.1\r\n" + HOST + b"X: " + LONG_WORD + b"\r\n\r\n", 431),
    ("5000 headers", b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 5000 + b"\r\n", 431),
]
# libmicrohttpd 1.0 also answers these; with older versions, the server answers in JSON.
BY_NEW_LIBRARY = [
    ("no Host", b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    ("blank in the path", b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("blank in the query", b"GET /a?b c HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("two blanks", b"GET  /healthz HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("blank before the first header", b"GET / HTTP/1.1\r\n " + HOST + b"\r\n", 400),
    ("folded header", b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n z\r\n\r\n", 400),
    ("bare LF", b"GET / HTTP/1.1\r\n" + HOST + b"X: y\n\r\n", 400),
    ("NUL in a header", b"GET / HTTP/1.1\r\n" + HOST + b"X: y\0z\r\n\r\n", 400),
    ("no name of a header", b"GET / HTTP/1.1\r\n" + HOST + b": y\r\n\r\n", 400),
]
# Detected by libmicrohttpd 1.0 only: docs/HTTP.md lists the proxies for older versions.
BY_NEW_LIBRARY_ONLY = [
    ("NUL before a bare LF", b"GET / HTTP/1.1\r\n" + HOST + b"X: y\0\n\r\n", 400),
    ("colon and bare LF for the empty line", b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n:\n", 400),
    ("chunk line with a bare LF", b"POST /nothing HTTP/1.1\r\n" + HOST +
     b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", 400),
]
BY_OLDER_LIBRARY = [
    ("Content-Length above 2^64", b"POST / HTTP/1.1\r\n" + HOST +
     b"Content-Length: 99999999999999999999\r\n\r\n", 413),
]
# Without the server's own checks, the library would answer these or close the connection.
BY_US = [
    ("control character in the path", b"GET /a\x1bb HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("HTTP/1.2", b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 400),
    ("path of 9 KB", b"GET /" + LONG_WORD[:9000] + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("query of 9 KB", b"GET /?" + LONG_WORD[:9000] + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("4000 parameters", b"GET /?" + b"a&" * 4000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("220 parameters", b"GET /?" + b"a&" * 220 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("header of 15 KB", b"GET / HTTP/1.1\r\n" + HOST + b"X: " + LONG_WORD[:15000] + b"\r\n\r\n", 431),
    ("210 headers", b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 210 + b"\r\n", 431),
]
FINE = [
    ("path of 8 KB", b"GET /" + LONG_WORD[:8000] + b" HTTP/1.1\r\n" + HOST + b"\r\n", 404),
    ("token of 8 KB and more", b"GET /healthz HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " +
     LONG_WORD[:8192] + b"\r\n" + b"X: " + b"y" * 100 + b"\r\n" * 1 + b"Y: z\r\n" * 40 + b"\r\n", 200),
    ("150 parameters", b"GET /healthz?" + b"a=b&" * 150 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 200),
    ("100 headers", b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 100 + b"\r\n", 200),
]


def library_version():
    """Reads the version from the program's output."""
    said = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.search(r"libmicrohttpd (\d+)\.(\d+)\.(\d+)", said).groups()))


def test_library_answers_are_those_of_the_documents(check):
    """docs/HTTP.md lists them."""
    version = library_version()
    new = version >= (1, 0, 0)
    by_library = BY_LIBRARY + (BY_NEW_LIBRARY + BY_NEW_LIBRARY_ONLY if new else [])
    if version < (1, 0, 10):
        by_library += BY_OLDER_LIBRARY
    with Server("--engine=none", "--local", "jobs") as server:
        for what, data, status in by_library:
            replies, closed = server.raw(data.replace(b"%d", b"%d" % server.port))
            check.equal(f"library, {what}: status", [r.status for r in replies], [status] if status else [])
            # After an invalid length, it sends the head twice.  The body has the stated length.
            check.ok(f"library, {what}: is HTML, and the end", closed and
                     all(r.body.startswith((b"<html>", b"HTTP/1.1 4")) for r in replies), replies)
        for what, data, status in BY_US + ([] if new else BY_NEW_LIBRARY):
            replies, closed = server.raw(data.replace(b"%d", b"%d" % server.port))
            check.equal(f"{what}: status", [r.status for r in replies], [status])
            check.ok(f"{what}: is JSON, with a request id, and the end", closed and replies and
                     replies[0].message and replies[0].code and "x-request-id" in replies[0].headers, replies)
        for what, data, status in FINE:
            replies, _ = server.raw(data.replace(b"%d", b"%d" % server.port), answers=1)
            check.equal(f"{what}: status", [r.status for r in replies], [status])
        check.ok("in the log it has its status", server.logged(
            lambda line: '"status":431' in line and '"code":"RefusedByLibrary"' in line), server.log()[-600:])
        lines = server.settled_log().count('"msg":"libmicrohttpd"')
        check.ok("the library's own words are few", lines <= 5 * 10, lines)
    with Server("--engine=none", "--local", "jobs", "--loops", "1") as server:
        start = time.monotonic()
        for _ in range(200):
            server.raw(b"GET / HTTX/1.1\r\n\r\n", answers=1)
        seconds = int(time.monotonic() - start) + 2
        lines = server.settled_log().count('"msg":"libmicrohttpd"')
        check.ok("a flood of malformed requests: 5 lines a second", lines <= 5 * seconds, lines)


def test_query_without_headers_does_not_crash(check):
    """A query before an empty head, which ends near the end of the library's buffer of 8 KiB."""
    with Server("--engine=none", "--local", "jobs") as server:
        for query in (b"?a", b"?a=b"):
            for length in range(6900, 8192, 30):
                server.raw(b"GET /" + b"x" * length + query + b" HTTP/1.0\r\n\r\n", answers=1)
            check.equal(f"{query}: alive", server.request("GET", "/healthz").status, 200)
