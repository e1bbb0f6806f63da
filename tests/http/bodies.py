"""All bodies of the translation tests and fuzzers over HTTP: each response is a 2xx or 4xx with
JSON, and the server does not crash."""
import glob
import gzip
import http.client
import json
import os
import random

from harness import PATIENCE, ROOT, SLOW, Server

TYPES = ["text/yaml", "application/json", "application/x-www-form-urlencoded", "text/plain;charset=UTF-8", None]
PATHS = ["/api/v2/jobs", "/api/v1/jobs", "/rest-server/api/v1/user/alice/jobs"]
FOLDERS = ["tests/hostile", "tests/corpus", "tests/fuzz/seeds", "tests/fuzz/finds", "tests/data", "examples"]
LARGEST = 120_000  # above the limit of 100 KiB; a few of these are enough
TOO_MANY_BYTES = 4_000_000


def bodies():
    found = []
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "**"), recursive=True)):
            if os.path.isfile(path):
                with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
                    found.append((os.path.relpath(path, ROOT), f.read(LARGEST)))
    return found


class Client:
    """A keep-alive connection that reconnects after the server has closed it."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def post(self, path, body, kind):
        for last in (False, True):
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE * SLOW)
            try:
                headers = {} if kind is None else {"Content-Type": kind}
                self.connection.request("POST", path, body, headers)
                reply = self.connection.getresponse()
                return reply.status, reply.read()
            except (http.client.HTTPException, ConnectionError):
                self.connection.close()
                self.connection = None
                if last:
                    raise


def wrong_with(status, body):
    """Returns a description of the fault in a response, or None."""
    if not 200 <= status < 300 and not 400 <= status < 500:
        return f"{status} {body[:200]!r}"
    try:
        answer = json.loads(body)
    except ValueError:
        return f"{status} is not JSON: {body[:200]!r}"
    if status >= 400 and not (isinstance(answer.get("message"), str) and answer.get("code")):
        return f"{status} without code and message: {body[:200]!r}"
    return None


def mangled(body, r):
    """The same with some bytes changed, removed or repeated."""
    data = bytearray(body)
    for _ in range(r.randrange(1, 6)):
        at = r.randrange(len(data) + 1)
        what = r.randrange(4)
        if what == 0:
            data[at:at + 1] = bytes([r.randrange(256)])
        elif what == 1:
            del data[at:at + r.randrange(1, 20)]
        elif what == 2:
            data[at:at] = data[at:at + r.randrange(1, 50)]
        else:
            data[at:at] = r.choice([b"<%", b"%>", b"&a ", b"*a", b": ", b"- ", b"{", b"[", b"\xff", b"\0", b"!!binary ", b"&x[0]="])
    return bytes(data)


def test_every_body_gets_a_json_response(check):
    """Each body unchanged, with varying transfer, then corrupted."""
    r = random.Random(4711)
    with Server("--engine=none", "--local", "jobs", "--queue-per-user", "1000") as server:
        client, sent, accepted, size = Client(server.port), 0, 0, 0
        for name, body in bodies():
            for again in range(2):
                data = mangled(body, r) if again else body
                size += len(data)
                if size > TOO_MANY_BYTES and len(data) > 2000 and again:
                    continue
                status, answer = client.post(r.choice(PATHS), data, r.choice(TYPES))
                wrong = wrong_with(status, answer)
                sent, accepted = sent + 1, accepted + (status == 202)
                if wrong:
                    check.ok(f"{name} (variant {again})", False, wrong)
        check.ok(f"{sent} bodies, {accepted} of them jobs", sent > 1000 and accepted > 100, f"{sent}, {accepted}")
        check.equal("the server lives", server.request("GET", "/healthz").status, 200)
        check.equal("and stops", server.stop(), 0)
