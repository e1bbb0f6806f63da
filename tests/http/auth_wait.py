"""Suspension after the header: the server authenticates a request before it receives the body.
While it waits for the API server, the connection is suspended in the middle of the request.  The
tests send bodies in all ways."""
import base64
import time

from harness import PATIENCE, framework_name, job_v2, parse_replies, request_bytes, tests_of, wait_until
from place import STORED, Place
from tokens import bearer, token


def padded(name, size):
    """A job with this number of bytes."""
    body = job_v2(name)
    return body + " " * max(0, size - len(body))


def chunked(body, size):
    data = b""
    for i in range(0, len(body), size):
        piece = body[i:i + size]
        data += b"%x\r\n%s\r\n" % (len(piece), piece)
    return data + b"0\r\n\r\n"


def head(port, method, path, lines):
    text = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    return (text + "".join(f"{n}: {v}\r\n" for n, v in lines.items()) + "\r\n").encode()


class Waits:
    """Each test uses a new token, so that the request waits for a look-up."""

    def __init__(self, place, server):
        self.place, self.server = place, server
        self.count = 0

    def fresh(self):
        """The header with a new, stored token."""
        self.count += 1
        text = token("alice", jti=f"waits-{self.count}")
        with self.place.api.lock:
            stored = self.place.api.objects["secrets", b"alice".hex()]
            stored["data"][f"t{self.count}"] = base64.b64encode(text.encode()).decode()
        return bearer(text)

    def name(self):
        self.count += 1
        return f"waits-{self.count}"

    def accepted(self, check, what, reply, name):
        check.ok(f"{what}: accepted", reply is not None and reply.status == 202, reply)
        check.ok(f"{what}: is there", self.place.api.of(framework_name(name)), name)

    def test_body_with_length_is_received_after_the_look_up(self, check):
        for size in (0, 4000, 15000, 17000, 60000, 102400):
            name = self.name()
            body = padded(name, size).encode()
            reply = self.server.submit(body, self.fresh())
            self.accepted(check, f"Content-Length {len(body)}", reply, name)

    def test_chunked_body_is_received_after_the_look_up(self, check):
        for size, piece in ((0, 1), (0, 7), (0, 4096), (100000, 1000), (100000, 70000)):
            name = self.name()
            body = padded(name, size).encode()
            lines = {**self.fresh(), "Content-Type": "text/yaml", "Transfer-Encoding": "chunked"}
            with self.server.connect() as c:
                c.send(head(self.server.port, "POST", "/api/v2/jobs", lines) +
                       chunked(body, piece))
                self.accepted(check, f"chunks of {piece}", c.reply(), name)

    def test_body_in_pieces_is_received_during_the_look_up(self, check):
        """The header first, the body during or after the wait, in pieces."""
        for pause in (0, 0.05, 0.4):
            name = self.name()
            body = padded(name, 50000).encode()
            lines = {**self.fresh(), "Content-Type": "text/yaml",
                     "Content-Length": str(len(body))}
            with self.server.connect() as c:
                c.send(head(self.server.port, "POST", "/api/v2/jobs", lines))
                for i in range(0, len(body), 13000):
                    time.sleep(pause)
                    c.send(body[i:i + 13000])
                self.accepted(check, f"pieces, {pause} s between", c.reply(), name)

    def test_continue_is_sent_after_the_look_up(self, check):
        for size in (0, 90000):
            name = self.name()
            body = padded(name, size).encode()
            lines = {**self.fresh(), "Content-Type": "text/yaml", "Expect": "100-continue",
                     "Content-Length": str(len(body))}
            with self.server.connect() as c:
                start = time.monotonic()
                c.send(head(self.server.port, "POST", "/api/v2/jobs", lines))
                data, _ = c.read(PATIENCE, lambda d: b"\r\n\r\n" in d)
                check.ok("Expect: 100 comes", data.startswith(b"HTTP/1.1 100"), data)
                check.ok("Expect: not before the token is known",
                         time.monotonic() - start > 0.15, time.monotonic() - start)
                c.send(body)
                self.accepted(check, f"Expect, {len(body)} bytes", c.reply(), name)

    def test_continue_is_not_sent_without_a_valid_token(self, check):
        """Without a valid token, the server sends no 100 Continue."""
        lines = {**bearer(token("alice", jti="never stored")), "Content-Type": "text/yaml",
                 "Expect": "100-continue", "Content-Length": "50000"}
        with self.server.connect() as c:
            c.send(head(self.server.port, "POST", "/api/v2/jobs", lines))
            data, _ = c.read(PATIENCE, lambda d: parse_replies(d))
            check.ok("Expect, refused: 401 at once", data.startswith(b"HTTP/1.1 401"), data)

    def test_pipelined_requests_each_wait_for_their_token(self, check):
        """Several requests in one packet, each with a new token."""
        names = [self.name() for _ in range(4)]
        data = b""
        for i, name in enumerate(names):
            body = padded(name, 3000 * i).encode()
            data += request_bytes(self.server.port, "POST", "/api/v2/jobs", body, self.fresh())
        data += request_bytes(self.server.port, "GET", "/healthz")
        replies, _ = self.server.raw(data, answers=5)
        check.equal("pipelined: answers", [r.status for r in replies], [202] * 4 + [200])
        for name in names:
            check.ok(f"pipelined: {name} is there", self.place.api.of(framework_name(name)))

    def test_client_that_sends_all_first_gets_its_401(self, check):
        """A client that sends the whole body first gets its 401, whatever the size."""
        for size in (0, 30000, 102400):
            for again in range(5):
                bad = bearer(token("alice", jti=f"not stored {size} {again}"))
                reply = self.server.submit(padded(self.name(), size), bad)
                check.ok(f"refused, {size} bytes", reply is not None and reply.status == 401,
                         reply)

    def test_slow_client_gets_its_401(self, check):
        """The same with a slow client, like Python's http.client."""
        for pause in (0.01, 0.1, 0.3):
            body = padded(self.name(), 60000).encode()
            bad = bearer(token("alice", jti=f"not stored {pause}"))
            with self.server.connect() as c:
                c.send(head(self.server.port, "POST", "/api/v2/jobs",
                            {**bad, "Content-Length": str(len(body))}))
                for i in range(0, len(body), 20000):
                    time.sleep(pause)
                    check.ok("refused in pieces: may be sent", c.send(body[i:i + 20000]))
                reply = c.reply()
                check.ok("refused in pieces", reply is not None and reply.status == 401, reply)

    def test_disconnected_clients_create_no_partial_job(self, check):
        """The client disconnects during the look-up: no job is created, other clients work."""
        names = [self.name() for _ in range(6)]
        for i, name in enumerate(names):
            body = padded(name, 20000).encode()
            data = request_bytes(self.server.port, "POST", "/api/v2/jobs", body, self.fresh())
            with self.server.connect() as c:
                # The whole, half of it, or the header only.
                c.send(data if i < 2 else data[:len(data) // 2] if i < 4 else data[:-len(body)])
        check.ok("gone: their connections are, too", wait_until(lambda: self.server.connections() == 0))
        check.equal("gone: still serves", self.server.request("GET", "/healthz").status, 200)
        for name in names[2:]:
            check.ok("gone: nothing came of half a job",
                     not self.place.api.of(framework_name(name)), name)

    def test_routes_without_a_body_wait_too(self, check):
        """Routes without a body also wait."""
        for method, body in (("GET", None), ("GET", b"{}"), ("HEAD", None)):
            headers = self.fresh()
            reply = self.server.request(method, "/api/v2/users/alice", body, headers)
            check.ok(f"{method} with {body}: known", reply is not None and reply.status == 200,
                     reply)


def test_bodies_arrive_whole_while_tokens_are_looked_up(check):
    with Place() as place:
        place.store("alice")
        place.api.fault("GET", "secrets", delay=0.2)
        server = place.server(*STORED)
        waits = Waits(place, server)
        for test in tests_of(Waits):
            check.run(lambda c, t=test: t(waits, c))
