"""An outage of the API server for two seconds: no waiting request is lost or refused, and the
number of connections during and after the outage is limited."""
import os
import selectors
import shutil
import socket
import ssl
import struct
import tempfile
import threading
import time

from fakeapi import FakeApi
from certificates import make_certificates
from harness import Server, framework_name, in_threads, job_v2, wait_until

OUTAGE = 2
PATIENT = ("--deadline", "200")
JOBS = 60


class Door:
    """A proxy of an API server with these modes:

    open     forwards all data
    refused  does not listen; existing connections are reset
    reset    accepts connections and resets them at their first byte (in the TLS handshake)
    hang     accepts connections, but forwards no data in either direction
    """

    def __init__(self, api, tls=False):
        self.api, self.token, self.mode = api, api.token, "open"
        self.folder, self.tls = None, None
        if tls:
            self.folder = tempfile.mkdtemp(prefix="rest-lit-test.")
            make_certificates(self.folder)
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(os.path.join(self.folder, "server.crt"),
                                     os.path.join(self.folder, "server.key"))
        self.pairs, self.lock, self.accepted, self.closed = set(), threading.Lock(), 0, False
        self.port = 0
        self.listen()
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept_all, daemon=True).start()

    def listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(256)

    @staticmethod
    def reset(s):
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        except OSError:
            pass

    def set(self, mode):
        """Sets the mode."""
        if self.mode == "refused" and mode != "refused":
            self.listen()
        self.mode = mode
        if mode == "refused":
            # close() alone keeps the listener alive while a thread is in accept().
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
        if mode in ("refused", "reset"):
            with self.lock:
                pairs, self.pairs = self.pairs, set()
            for pair in pairs:
                for s in pair:
                    self.reset(s)

    def accept_all(self):
        while not self.closed:
            try:
                s, _ = self.listener.accept()
            except OSError:
                time.sleep(0.01)
                continue
            self.accepted += 1
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        try:
            s.recv(1, socket.MSG_PEEK)
            if self.mode == "reset":
                return self.reset(s)
            while self.mode == "hang":
                time.sleep(0.02)
            if self.tls:
                s = self.tls.wrap_socket(s, server_side=True)
            inside = socket.create_connection(("127.0.0.1", self.api.port))
            pair = (s, inside)
            with self.lock:
                self.pairs.add(pair)
            self.pipe(*pair)
        except (OSError, ValueError):
            pass
        self.reset(s)

    def pipe(self, outside, inside):
        other = {outside: inside, inside: outside}
        with selectors.DefaultSelector() as events:
            for s in other:
                events.register(s, selectors.EVENT_READ)
            while True:
                for key, _ in events.select():
                    while self.mode == "hang":
                        time.sleep(0.02)
                    data = key.fileobj.recv(65536)
                    while isinstance(key.fileobj, ssl.SSLSocket) and key.fileobj.pending():
                        data += key.fileobj.recv(65536)
                    if not data:
                        other[key.fileobj].close()
                        return
                    other[key.fileobj].sendall(data)

    def close(self):
        self.closed = True
        self.set("refused")
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def behind(door, *arguments):
    """rest-lit with this proxy as its API server."""
    directory = tempfile.mkdtemp(prefix="rest-lit-test.")
    token = os.path.join(directory, "token")
    with open(token, "w") as f:
        f.write(door.token + "\n")
    os.chmod(token, 0o600)
    if door.tls:
        arguments += ("--apiserver-ca", os.path.join(door.folder, "ca.crt"))
    return Server("--apiserver", door.url, "--apiserver-token-file", token, "--loops", "1",
                  *arguments, directory=directory)


def one_outage(check, mode, tls):
    what = f"{mode}{' before TLS' if tls else ''}"
    api = FakeApi()
    door = Door(api, tls)
    with behind(door, *PATIENT) as server:
        check.equal(f"{what}: before", server.submit(job_v2("before")).status, 202)
        door.set(mode)
        counted = []

        def outage():
            time.sleep(OUTAGE)
            counted.append(door.accepted)
            door.set("open")
        before = door.accepted
        over = threading.Thread(target=outage)
        over.start()
        replies = in_threads(JOBS, lambda i: server.submit(job_v2(f"job-{i}")))
        over.join()
        counted.append(door.accepted)
        check.equal(f"{what}: all are taken", sorted({getattr(r, "status", r) for r in replies}), [202])
        check.ok(f"{what}: all exist", all(
            ("frameworks", framework_name(f"job-{i}")) in api.objects for i in range(JOBS)))
        # First the limit of concurrent requests (16), then two at a time with growing pauses.
        check.ok(f"{what}: few connections while it lasts", counted[0] - before <= 40,
                 counted[0] - before)
        check.ok(f"{what}: few connections afterwards", counted[1] - counted[0] <= 40,
                 counted[1] - counted[0])
        check.equal(f"{what}: health", server.request("GET", "/healthz").status, 200)
    door.close()


def test_outages_lose_no_waiting_request(check):
    rows = (("refused", False), ("hang", False), ("reset", True), ("hang", True))
    in_threads(rows, lambda row: one_outage(check, *row))


def test_outage_during_responses_executes_nothing_twice(check):
    """The outage begins during responses: these requests are resolved, and none is executed
    twice."""
    for mode in ("refused", "hang"):
        api = FakeApi()
        door = Door(api)
        api.every(delay=0.05)
        with behind(door, *PATIENT) as server:
            def outage():
                wait_until(lambda: api.count("POST", "frameworks") > 20)
                door.set(mode)
                time.sleep(OUTAGE)
                door.set("open")
            over = threading.Thread(target=outage)
            over.start()
            replies = in_threads(JOBS, lambda i: server.submit(job_v2(f"amidst-{i}")))
            over.join()
            check.equal(f"{mode} amidst: all are taken",
                        sorted({getattr(r, "status", r) for r in replies}), [202])
            check.equal(f"{mode} amidst: all exist", len(api.objects), JOBS)
        door.close()
        api.close()


def test_busy_api_server_is_retried_at_a_limited_rate(check):
    """429 or 503 for two seconds, without Retry-After or with one minute from a proxy."""
    def one(row):
        status, retry_after = row
        api = FakeApi()
        door = Door(api)
        with behind(door, *PATIENT) as server:
            api.every(status=status, retry_after=retry_after)
            asked, start = [], time.monotonic()

            def outage():
                time.sleep(OUTAGE)
                asked.append(api.count("POST", "frameworks") / (time.monotonic() - start))
                api.every()
            over = threading.Thread(target=outage)
            over.start()
            replies = in_threads(JOBS, lambda i: server.submit(job_v2(f"busy-{i}")))
            over.join()
            check.equal(f"{status}, Retry-After {retry_after}: all are taken",
                        sorted({getattr(r, "status", r) for r in replies}), [202])
            # 16 at once, then fewer, each half a second at least.
            check.ok(f"{status}, Retry-After {retry_after}: not asked all the time", asked[0] <= 30, asked)
        door.close()
        api.close()
    in_threads(((429, 1), (429, None), (503, None)), one)


def while_it_waits(check, api, count, refused, submit):
    """The responses to many submissions; some are refused before the API server responds."""
    go_on, replies = threading.Event(), []
    api.fault("POST", "frameworks", until=go_on)
    crowd = threading.Thread(target=in_threads, args=(count, lambda i: replies.append(submit(i))))
    crowd.start()
    check.ok(f"{refused} are refused at once", wait_until(lambda: len(replies) >= refused), len(replies))
    go_on.set()
    crowd.join()
    return replies


def test_one_user_does_not_delay_others(check):
    """With one concurrent request and a queue full of alice's requests, further ones of alice are
    refused; the places for other users stay free."""
    api = FakeApi()
    door = Door(api)
    with behind(door, *PATIENT, "--in-flight", "1", "--queue", "40", "--queue-per-user", "10") as server:
        replies = while_it_waits(check, api, 30, 15, lambda i: server.submit(job_v2(f"mine-{i}")))
        taken = [r for r in replies if r.status == 202]
        check.ok("ten at a time are taken", 10 <= len(taken) <= 15, len(taken))
        refused = [r for r in replies if r.status != 202]
        check.equal("the others are told so", {(r.status, r.code) for r in refused},
                    {(503, "UnavailableError")})
        check.ok("... and when to come again", all("retry-after" in r.headers for r in refused))
    door.close()


def test_bytes_of_waiting_jobs_are_bounded(check):
    """Jobs that wait for a hanging API server use limited memory."""
    api = FakeApi()
    door = Door(api)
    with behind(door, *PATIENT, "--queue-bytes", "1MiB", "--max-body", "200KiB") as server:
        note = {"extras": {"note": "x" * 100000}}
        replies = while_it_waits(check, api, 30, 15, lambda i: server.submit(job_v2(f"large-{i}", **note)))
        check.equal("refused or taken", {r.status for r in replies}, {503, 202})
        check.equal("room again when they are done", server.submit(job_v2("large", **note)).status,
                    202)
    door.close()
