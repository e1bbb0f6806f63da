"""Common parts of the HTTP and end-to-end tests: the server under test, an HTTP client that can
also send invalid requests, and counters.

The environment variable REST_LIT names the program; the default is build/rest-lit."""
import base64
import collections
import hashlib
import http.server
import json
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import answers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.abspath(os.environ.get("REST_LIT", os.path.join(ROOT, "build", "rest-lit")))
# Factor for all time limits, for sanitizers and valgrind.
SLOW = float(os.environ.get("TEST_SLOW", "1"))
# Time limit for expected events.  Machines may stall, and suites run concurrently.
PATIENCE = 60
USER = "alice"
with open(os.path.join(ROOT, "docs", "OPTIONS.md"), encoding="utf-8") as options_page:
    FIXED_LIMITS = set(re.findall(r"^\| `([a-z][a-z-]+)` \|", options_page.read(), re.M))


# Fake API servers that the end of a test closes.
OPEN = []
# Sanitizer reports of the servers.
COMPLAINTS = []
SANITIZERS = re.compile(r"(ERROR: \w+Sanitizer|runtime error:).*", re.S)


# ---- counting ---------------------------------------------------------------------------
class Checks:
    """Counts tests and their checks.  A failed check is printed at once, with the actual value, and
    fails its test."""

    def __init__(self):
        self.passed = self.failed = 0  # tests
        self.checks = self.wrong = 0
        self.running = False

    def ok(self, name, fact, seen=""):
        self.checks += 1
        if not fact:
            self.wrong += 1
            text = seen if isinstance(seen, str) else repr(seen)
            print(f"FAIL {name}" + (f": {text[:600]}" if text else ""), flush=True)
        return bool(fact)

    def equal(self, name, seen, wanted):
        return self.ok(name, seen == wanted, f"{seen!r}, not {wanted!r}")

    def refused(self, name, reply, status, code, *words):
        """The reply is this error, in JSON, and its message has these words.  code None: any."""
        seen = reply and (reply.status, code and reply.code)
        if not self.equal(name, seen, (status, code)):
            return
        self.equal(f"{name}: content type", reply.headers.get("content-type"), "application/json; charset=utf-8")
        self.ok(f"{name}: has a message", reply.message, reply)
        for word in words:
            self.ok(f"{name}: says {word}", word in reply.message, reply)

    def run(self, *functions):
        """Runs these tests.  Exceptions and sanitizer reports also fail a test."""
        for function in functions:
            wrong, start, cpu = self.wrong, time.monotonic(), sum(os.times()[:4])
            nested, self.running = self.running, True
            try:
                function(self)
            except Exception:
                self.ok(function.__name__, False, "Traceback, its end: " + traceback.format_exc()[-570:])
            self.running = nested
            while OPEN and not nested:  # some tests run others, also in threads
                OPEN.pop().close()
            while COMPLAINTS:
                self.ok("sanitizer", False, COMPLAINTS.pop())
            good = self.wrong == wrong
            self.passed += good
            self.failed += not good
            print(f"     {function.__name__}{'' if good else ' FAILED'}: {time.monotonic() - start:.1f} s, "
                  f"CPU {sum(os.times()[:4]) - cpu:.1f} s", flush=True)

    def finish(self):
        print(f"{self.checks} checks\n{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)


def tests_of(module):
    """The functions of a module, or class, that are tests, in their order."""
    return [f for name, f in vars(module).items()
            if name.startswith("test_") and f.__module__ == getattr(module, "__module__", module.__name__)]


def choose(tests, names):
    """The tests whose names contain one of these words; without words, all."""
    return [t for t in tests if not names or any(name in t.__name__ for name in names)]


class Closing:
    """A context manager whose end is close()."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ---- small things -----------------------------------------------------------------------
# Abstract sockets that reserve the ports of the last servers for this process.
HELD = collections.deque(maxlen=256)


def free_port():
    """A port without a listener, below the range of ephemeral ports.  Concurrent tests do not use
    it."""
    while True:
        port = random.randrange(20000, 32000)
        held = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind(f"\0rest-lit-test-port-{port}")
                s.bind(("127.0.0.1", port))
                HELD.append(held)
                return port
            except OSError:
                held.close()


def split_limits(arguments):
    """(environment, other arguments).  Tests write fixed limits (docs/OPTIONS.md) as flags; the program
    reads them from an environment variable."""
    limits, rest, words = [], [], iter(arguments)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in FIXED_LIMITS:
            limits.append(f"{name}={value if equals else next(words)}")
        else:
            rest.append(word)
    return {"REST_LIT_TEST_LIMITS": " ".join(limits)} if limits else {}, rest


def command_line(program, arguments):
    """The command that runs `program` with these arguments."""
    limits, rest = split_limits(arguments)
    return [*(["env", *(f"{name}={value}" for name, value in limits.items())] if limits else []), *program, *rest]


def wait_until(condition, seconds=PATIENCE):
    """True if `condition` becomes true in time.  The time limit is at least PATIENCE.  The longer it
    takes, the longer are the pauses: each look may cost a request."""
    start, limit = time.monotonic(), max(seconds, PATIENCE) * SLOW
    while (waited := time.monotonic() - start) < limit:
        if condition():
            return True
        time.sleep(min(max(0.02, waited / 10), 0.2))
    return bool(condition())


def in_threads(rows, function):
    """The results of concurrent calls of `function(row)`, or their OSErrors; a number instead of rows: from
    0 on.  Raises other exceptions."""
    rows = range(rows) if isinstance(rows, int) else rows
    results, raised = [None] * len(rows), []

    def one(i, row):
        try:
            results[i] = function(row)
        except OSError as e:
            results[i] = e
        except Exception as e:
            raised.append(e)

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(rows)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if raised:
        raise raised[0]
    return results


def framework_name(job, user=USER):
    return hashlib.md5(f"{user}~{job}".encode()).hexdigest()


def database_rows(where, sql, *values):
    """Returns the rows of a query on a copy of the database of `--local`, which the server has
    locked."""
    files = [os.path.join(where, f"store.db{end}") for end in ("", "-wal")]
    def seen():
        return [(os.stat(f).st_size, os.stat(f).st_mtime_ns) for f in files if os.path.exists(f)]
    while True:
        with tempfile.TemporaryDirectory(prefix="rest-lit-copy.") as copy:
            before = seen()
            for f in files:
                if os.path.exists(f):
                    shutil.copy(f, copy)
            if seen() != before:
                continue
            database = sqlite3.connect(os.path.join(copy, "store.db"))
            try:
                return database.execute(sql, values).fetchall()
            finally:
                database.close()


def database_objects(where, name):
    """The objects with this prefix of their names, the Framework first."""
    return [json.loads(body) for body, in database_rows(
        where, "SELECT body FROM object WHERE name LIKE ? ORDER BY kind, name", name + "%")]


def job_v2(name, **more):
    """A small valid job as JSON, which is also YAML."""
    job = {
        "protocolVersion": 2, "name": name, "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "ubuntu:22.04"}],
        "taskRoles": {"worker": {
            "instances": 1, "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 0},
            "commands": ["true"]}},
    }
    job.update(more)
    return json.dumps(job)


def job_v2_secret(name, marker):
    """A job with a `secrets` section and a private image: two Secrets."""
    job = json.loads(job_v2(name, secrets={"key": marker, "password": marker}))
    job["prerequisites"][0]["auth"] = {
        "username": "robot", "password": "<% $secrets.password %>",
        "registryuri": "registry.example.com"}
    return json.dumps(job)


def job_v1(name, **more):
    job = {"jobName": name, "image": "ubuntu:22.04",
           "taskRoles": [{"name": "main", "taskNumber": 1, "command": "true"}]}
    job.update(more)
    return json.dumps(job)


def route_table():
    """(method, path, callers, owners) of each route of docs/ROUTES.md."""
    with open(os.path.join(ROOT, "docs", "ROUTES.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| ([A-Za-z*]+) \| `([^`]+)` \| ([^|]*) \| ([^|]*) \|", f.read(), re.M)
    return [(method, path, who.strip(), whose.strip()) for method, path, who, whose in rows]


# ---- replies ----------------------------------------------------------------------------
class Reply:
    """An HTTP response.  Header names are in lower case; the last of repeated headers wins."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def code(self):
        return self.json.get("code") if isinstance(self.json, dict) else None

    @property
    def message(self):
        text = self.json.get("message") if isinstance(self.json, dict) else None
        return text if isinstance(text, str) else ""

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:400]!r}"


def unchunked(data, at):
    """(the body of the chunks that begin there, their end), or None if they are incomplete."""
    body = bytearray()
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end], 16)
        at = end + 2 + size + 2
        if len(data) < at:
            break
        if size == 0:
            return bytes(body), at
        body += data[end + 2:at - 2]
    return None


def parse_replies(data):
    """All responses in the bytes of a connection, parsed by their framing, up to the first
    incomplete one."""
    replies, at = [], 0
    while True:
        end = data.find(b"\r\n\r\n", at)
        head = bytes(data[at:max(end, at)])
        match = re.match(rb"HTTP/1\.[01] (\d{3})", head)
        if not match:
            return replies
        headers = {}
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            headers[name.decode("latin-1").strip().lower()] = value.decode("latin-1").strip()
        status = int(match.group(1))
        length = int(headers.get("content-length", 0))
        if status < 200 or status in (204, 304):
            length = 0
        at = end + 4 + length
        body = bytes(data[end + 4:at])
        if headers.get("transfer-encoding") == "chunked" and "json" in headers.get("content-type", ""):  # a long list, no stream
            body, at = unchunked(data, end + 4) or (None, len(data) + 1)
        if len(data) < at:
            return replies
        if status >= 200:
            replies.append(Reply(status, headers, body))


class Connection(Closing):
    """A TCP connection for arbitrary bytes."""

    def __init__(self, port, timeout=PATIENCE):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout * SLOW)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        """False if the server has closed the connection."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def send_slowly(self, data, pause=0.0):
        for i in range(len(data)):
            if not self.send(data[i:i + 1]):
                return False
            if pause:
                time.sleep(pause)
        return True

    def read(self, seconds, until=None):
        """(bytes, closed): the bytes received within `seconds` or until `until(data)`."""
        data, end = bytearray(), time.monotonic() + seconds * SLOW
        closed = False
        while not (closed or until and until(data)):
            left = end - time.monotonic()
            if left <= 0:
                break
            self.socket.settimeout(left)
            try:
                piece = self.socket.recv(1 << 20)
            except socket.timeout:
                break
            except OSError:
                piece = b""
            closed = not piece
            data += piece
        return bytes(data), closed

    def reply(self, seconds=PATIENCE):
        """The next response, or None."""
        data, _ = self.read(max(seconds, PATIENCE), lambda d: parse_replies(d))
        replies = parse_replies(data)
        return replies[0] if replies else None

    def close(self):
        self.socket.close()


def request_bytes(port, method, path, body=None, headers=None, version="HTTP/1.1"):
    lines = {"Host": f"127.0.0.1:{port}"}
    if body is not None:
        lines["Content-Length"] = str(len(body))
        lines["Content-Type"] = "text/yaml"
    lines.update(headers or {})
    head = f"{method} {path} {version}\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return head.encode("latin-1") + b"\r\n" + (body or b"")


# ---- servers of our own ----------------------------------------------------------------
class Threads(http.server.ThreadingHTTPServer):
    """A fake server on a free loopback port, with a thread per client.  The constructor starts
    it; `tls` is its SSLContext.  The port is none that the kernel gives to others: a client of another
    test, whose own fake has gone, would try again here."""
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, handler, tls=None):
        super().__init__(("127.0.0.1", free_port()), handler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.over = False
        self.thread = threading.Thread(target=self.accept_all, daemon=True)
        self.thread.start()

    def accept_all(self):
        """Accepts clients until close(); unlike serve_forever, it does not look around meanwhile."""
        while not self.over:
            self._handle_request_noblock()

    def shutdown(self):
        if not self.over:
            self.over = True
            self.socket.shutdown(socket.SHUT_RDWR)  # ends accept()
            self.thread.join()

    def close(self):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """Disconnected clients are part of the tests."""


# ---- the server -------------------------------------------------------------------------
class Server(Closing):
    """`rest-lit serve` with these arguments on a free loopback port, for the user alice or with the
    arguments `who` for authentication."""

    def __init__(self, *arguments, user=USER, who=None, environment=None, wait=True, port=None,
                 directory=None, program=None):
        self.port = port or free_port()
        self.directory = directory or tempfile.mkdtemp(prefix="rest-lit-test.")
        self.log_file = os.path.join(self.directory, "server.log")
        # Test clients may stall between connecting and sending.
        slowly = () if "--read-timeout" in arguments else ("--read-timeout", str(int(60 * SLOW)))
        self.arguments = [*slowly, *(["--no-auth", "--user", user] if who is None else who), *arguments]
        limits, rest = split_limits(["serve", "--listen", f"127.0.0.1:{self.port}", *self.arguments])
        self.command = [*(program or [BINARY]), *rest]
        self.environment = {**os.environ, **limits, **(environment or {})}
        self.terminated = False
        self.log_stream = open(self.log_file, "ab")
        self.launch()
        if wait and not self.comes_up():
            self.kill()
            raise RuntimeError(f"does not come up: {self.log()[-400:]}")

    def launch(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log_stream,
                                        stderr=subprocess.STDOUT, cwd=self.directory, env=self.environment)

    def comes_up(self):
        return wait_until(lambda: self.answers() or self.process.poll() is not None) and \
            self.process.poll() is None

    def answers(self):
        if self.process.poll() is not None:
            return False
        try:
            return self.request("GET", "/healthz").status == 200
        except (OSError, AttributeError):
            return False

    def ready(self):
        """Waits until /readyz answers 200, for example after the list of all jobs."""
        return self.becomes("/readyz", 200)

    def becomes(self, path, status):
        """Waits until a GET of this path has this status."""
        return wait_until(lambda: self.request("GET", path).status == status)

    def connect(self):
        return Connection(self.port)

    def request(self, method, path, body=None, headers=None, seconds=2 * PATIENCE):
        """One request on a new connection."""
        if isinstance(body, str):
            body = body.encode()
        with self.connect() as c:
            c.send(request_bytes(self.port, method, path, body,
                                 {"Connection": "close", **(headers or {})}))
            if method == "HEAD":
                # Content-Length of a HEAD response is that of the GET response.
                data, _ = c.read(seconds, lambda d: b"\r\n\r\n" in d)
                data = re.sub(rb"(?i)\r\ncontent-length:[^\r]*", b"", data, count=1)
                return parse_replies(data)[0] if parse_replies(data) else None
            reply = c.reply(seconds)
        if reply is not None:
            answers.compare(method, path, reply.status, reply.headers.get("content-type", ""), reply.body)
        return reply

    def submit(self, body, headers=None, path="/api/v2/jobs", method="POST", seconds=3 * PATIENCE):
        return self.request(method, path, body, headers, seconds)

    def raw(self, data, seconds=PATIENCE, answers=None):
        """Sends raw bytes.  Returns (responses, closed); with a known number of responses, waits for
        all of them."""
        with self.connect() as c:
            c.send(data)
            if answers:
                seconds = max(seconds, PATIENCE)
            got, closed = c.read(seconds, answers and (lambda d: len(parse_replies(d)) >= answers))
            return parse_replies(got), closed

    def log(self):
        """The current log.  A response is logged after it is sent: use logged() for expected lines,
        settled_log() for forbidden lines."""
        self.log_stream.flush()
        with open(self.log_file, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def log_lines(self, what=""):
        """The lines that contain this text, or for which `what(line)` is true."""
        fits = what if callable(what) else lambda line: what in line
        return [line for line in self.log().splitlines() if fits(line)]

    def logged(self, what, n=1):
        """log_lines(what), after there are `n` lines or the time limit is over."""
        wait_until(lambda: len(self.log_lines(what)) >= n or self.process.poll() is not None)
        return self.log_lines(what)

    def settled_log(self):
        """The log, after a later request is in it.  Other loops may still write lines."""
        if self.process.poll() is None:
            mark = f"settled-{random.randrange(1 << 48):x}"
            self.request("GET", "/healthz", headers={"X-Request-Id": mark})
            self.logged(mark)
        return self.log()

    def connections(self):
        """Number of the server's TCP connections, including those of disconnected clients."""
        with open(f"/proc/{self.process.pid}/net/tcp", encoding="ascii") as f:
            lines = [line.split() for line in f.read().splitlines()[1:]]
        return sum(line[1].endswith(f":{self.port:04X}") and line[3] in ("01", "08") for line in lines)

    def cpu_seconds(self):
        """CPU time of the server."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            return sum(int(x) for x in f.read().rpartition(")")[2].split()[11:13]) / os.sysconf("SC_CLK_TCK")

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def terminate(self):
        """Sends SIGTERM once.  A second one would stop the server immediately."""
        if not self.terminated and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.terminated = True

    def stop(self, seconds=2 * PATIENCE):
        """Sends SIGTERM, unless it was sent before.  Returns the exit status."""
        self.terminate()
        try:
            return self.process.wait(max(seconds, PATIENCE) * SLOW)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def remove(self):
        self.stop()
        found = SANITIZERS.search(self.log())
        if found:
            COMPLAINTS.append(found.group(0)[:3000])
        self.log_stream.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def close(self):
        self.remove()


def run(*arguments, text=None, seconds=2 * PATIENCE):
    """Runs rest-lit with these arguments until it exits."""
    return subprocess.run(command_line([BINARY], arguments), input=text, capture_output=True,
                          timeout=max(seconds, PATIENCE) * SLOW, cwd=ROOT, check=False)


def secret_forms(marker):
    """All encodings of a marker, for searches in outputs."""
    plain = marker.encode()
    return {plain, base64.b64encode(plain), plain.hex().encode()}
