"""Clients with the addresses of two servers: they try the other one if a connection is refused or
cut, or the answer is 503.  Submissions at a given rate; followers of lists, jobs and logs, which
resume where they were.

A follower records every violation of docs/FOLLOWING.md in `wrong`; nothing depends on the clock."""
import http.client
import json
import threading
import time
import uuid

from harness import PATIENCE, SLOW
from promise import job_text

TIMEOUT = 2 * PATIENCE * SLOW
BROKEN = (OSError, http.client.HTTPException)


def percentile(values, p):
    return sorted(values)[min(int(len(values) * p / 100), len(values) - 1)] if values else 0


class Addresses:
    """The ports of the servers, and the one in use.  Not for concurrent use."""

    def __init__(self, ports, first):
        self.ports, self.at = ports, first % len(ports)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.ports[self.at], timeout=TIMEOUT)

    def next(self):
        self.at = (self.at + 1) % len(self.ports)


class Worker(threading.Thread):
    """A thread; an exception in it is a violation."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over, self.wrong = threading.Event(), []

    def run(self):
        try:
            self.go()
        except Exception as e:
            self.wrong.append(f"{type(self).__name__}: {e!r}")


# ---- submissions ------------------------------------------------------------------------
SHAPES = ["bare"] * 8 + ["secrets", "whole"]


class Submitter(Worker):
    """Submits `rate` jobs per second.  A submission is tried once at each server, and
    once more on a new connection if the server has closed the old one."""

    def __init__(self, ports, number, rate):
        super().__init__()
        self.addresses = Addresses(ports, number)
        self.number, self.rate = number, rate
        self.connection = None
        self.done = []   # (job, shape, seconds, tries)

    def ask(self, body, headers):
        """The response, or None after one try at the present server."""
        reused = self.connection is not None
        connection = self.connection or self.addresses.connect()
        self.connection = None
        try:
            connection.request("POST", "/api/v2/jobs", body, headers)
            reply = connection.getresponse()
            text = reply.read()
        except BROKEN:
            connection.close()
            return self.ask(body, headers) if reused else None
        if reply.will_close:
            connection.close()
        else:
            self.connection = connection
        return None if reply.status == 503 else (reply.status, text)

    def submit(self, job, shape):
        headers = {"Content-Type": "text/yaml", "Idempotency-Key": str(uuid.uuid4())}
        body, begin = job_text(job, shape).encode(), time.monotonic()
        for tries in range(1, len(self.addresses.ports) + 1):
            answer = self.ask(body, headers)
            if answer:
                break
            if self.connection:
                self.connection.close()
                self.connection = None
            self.addresses.next()
        if not answer or answer[0] != 202:
            self.wrong.append(f"{job}: {answer or 'no server has taken it'}")
            return
        self.done.append((job, shape, time.monotonic() - begin, tries))

    def go(self):
        due, n = time.monotonic(), 0
        while not self.over.wait(max(due - time.monotonic(), 0)):
            self.submit(f"load-{self.number}-{n}", SHAPES[n % len(SHAPES)])
            n += 1
            due = max(due + 1 / self.rate, time.monotonic() - 1)


# ---- followers --------------------------------------------------------------------------
class Follower(Worker):
    """A long answer that is continued at another server when it ends."""

    def __init__(self, ports, number, path):
        super().__init__()
        self.addresses = Addresses(ports, number)
        self.headers, self.path = {}, path
        self.ends = []   # how the answers ended
        self.pauses = []  # seconds from an end to the next answer

    def request(self):
        """The open connection and its response."""
        connection = self.addresses.connect()
        connection.request("GET", self.path, headers=self.headers)
        return connection, connection.getresponse()

    def open(self):
        """Tries each server once, like a submission."""
        said = []
        for _ in self.addresses.ports:
            try:
                connection, reply = self.request()
                if reply.status == 200:
                    return connection, reply
                said.append(f"{reply.status} {reply.read()[:200]}")
                connection.close()
                if reply.status != 503:
                    break
            except BROKEN as e:
                said.append(repr(e))
            self.addresses.next()
        raise RuntimeError(f"{self.path}: {said}")

    def go(self):
        ended = None
        while not self.over.is_set():
            connection, reply = self.open()
            if ended:
                self.pauses.append(time.monotonic() - ended)
            self.begun()
            try:
                end = self.read(reply)
            except BROKEN as e:
                end = type(e).__name__
            ended = time.monotonic()
            self.ends.append(end)
            connection.close()

    def begun(self):
        pass


class EventFollower(Follower):
    """Server-sent events of jobs."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.id = 0     # the highest one
        self.rows = {}  # the last row of each job

    def summary(self):
        return f"{len(self.rows)} rows, the last id is {self.id}"

    def begun(self):
        self.fresh = True

    def request(self):
        if self.id:
            self.headers = {"Last-Event-ID": str(self.id)}
        return super().request()

    def read(self, reply):
        """The reason of the end."""
        event, number, data = None, 0, None
        while not self.over.is_set():
            line = reply.readline().decode()
            if not line:
                return "without end"
            field, _, value = line.rstrip("\n").partition(": ")
            if field == "event":
                event = value
            elif field == "id":
                number = int(value)
            elif field == "data":
                data = json.loads(value)
            elif not line.strip():
                if event == "end":
                    self.seen(number)
                    return data["reason"]
                if event:
                    self.take(event, number, data)
                else:
                    self.seen(number)
                event, number, data = None, 0, None
        return "over"

    def take(self, event, number, row):
        if event != "job":
            self.wrong.append(f"{self.path}: {event} {row}")
            return
        job = f"{row['username']}~{row['name']}"
        before = self.rows.get(job)
        older = bool(number) and self.older_than(number)
        if older:
            self.wrong.append(f"{self.path}: {job}: id {number} after {self.id}")
        behind = before and row["retries"] < before["retries"]
        if behind and not older:
            self.wrong.append(f"{self.path}: {job}: {row['retries']} after {before['retries']}")
        if not older:
            self.repeated(job, number, row == before)
        self.rows[job] = row
        self.seen(number)
        self.fresh = False

    def seen(self, number):
        self.id = max(self.id, number)


class ListFollower(EventFollower):
    """The stream does not repeat a job with an id without a change."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.sure = set()

    def older_than(self, number):
        return number <= self.id

    def repeated(self, job, number, same):
        if same and job in self.sure:
            self.wrong.append(f"{self.path}: {job} is repeated, id {number}, last id {self.id}")
        if number:
            self.sure.add(job)
        else:
            self.sure.discard(job)


class JobFollower(EventFollower):
    """The first event of a stream is the current state."""

    def older_than(self, number):
        return number < self.id

    def repeated(self, job, number, same):
        if same and not self.fresh:
            self.wrong.append(f"{self.path}: {job} is repeated, id {number}")


class LogFollower(Follower):
    """A log, which is continued from the first byte that the client does not have."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.data = b""

    def summary(self):
        return f"{len(self.data)} of {len(self.log.data)} bytes"

    def request(self):
        connection = self.addresses.connect()
        connection.request("GET", self.path)
        reply = connection.getresponse()
        if reply.status != 200:
            return connection, reply
        links = {link["name"]: link["uri"] for link in json.loads(reply.read())["locations"]}
        connection.request("GET", links["all"] + "&follow=true")
        return connection, connection.getresponse()

    def read(self, reply):
        at = 0
        while not self.over.is_set():
            piece = reply.read1(65536)
            if not piece:
                return "whole"
            known = self.data[at:at + len(piece)]
            if piece[:len(known)] != known:
                self.wrong.append(f"{self.path}: another log at {at}: {piece[:80]}")
            self.data += piece[len(known):]
            at += len(piece)
        return "over"
