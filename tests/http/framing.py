"""Request smuggling: requests that a proxy and the server may frame differently; and paths whose
meaning changes by decoding.

libmicrohttpd 0.9.75 accepts most of these requests and appends the text of a folded header to its
name; 1.0 refuses most of them.  All cases pass with both; LD_LIBRARY_PATH selects one."""
import socket

from harness import PATIENCE, Server, job_v1, job_v2, parse_replies

INNER = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = b"%d" % len(INNER)
CHUNKED = b"0\r\n\r\n" + INNER

# Name, head after the Host line, body, expected result:
#   400    one response (400; 413, 431 or 501 by the library), then the connection is closed
#   one    one response with any status; the inner request is not a request
#   two    valid framing: the inner request is a second request (404)
#   last   one response, then the connection is closed, whatever follows the body
CASES = [
    # Cases with one response: the body is not a second request.
    ("GET with a body", "GET", b"Content-Length: " + LENGTH, INNER, "one"),
    ("OPTIONS with a body", "OPTIONS", b"Content-Length: " + LENGTH, INNER, "one"),
    ("DELETE with a body", "DELETE", b"Content-Length: " + LENGTH, INNER, "one"),
    ("POST with a body", "POST", b"Content-Length: " + LENGTH, INNER, "one"),
    ("length and blanks", "POST", b"Content-Length:    " + LENGTH + b"  ", INNER, "one"),
    # Two responses.
    ("a whole body", "POST", b"Content-Length: 5", b"hello" + INNER, "two"),
    # Chunks: a proxy may find another end.
    ("chunked", "POST", b"Transfer-Encoding: chunked", CHUNKED, "last"),
    ("Chunked", "POST", b"Transfer-Encoding: Chunked", CHUNKED, "last"),
    ("chunk line ends in bare LF", "POST", b"Transfer-Encoding: chunked",
     b"5\nhello\r\n" + CHUNKED, "last"),
    ("extension ends in bare LF", "POST", b"Transfer-Encoding: chunked",
     b"5;x=y\nhello\r\n" + CHUNKED, "last"),
    ("chunk ends in bare LF", "POST", b"Transfer-Encoding: chunked", b"5\r\nhello\n" + CHUNKED, "last"),
    ("a chunk within an extension", "POST", b"Transfer-Encoding: chunked",
     b"2;\nxx\r\n%x\r\n0\r\n\r\n" % (len(INNER) + 5) + INNER + b"\r\n0\r\n\r\n" + INNER, "last"),
    ("last chunk and trailer end in bare LF", "POST", b"Transfer-Encoding: chunked",
     b"0\nX: y\n\n" + INNER, "last"),
    ("last chunk with an extension", "POST", b"Transfer-Encoding: chunked",
     b"0;x=y\n\n" + INNER, "last"),
    # Content-Length and Transfer-Encoding.
    ("both", "POST", b"Content-Length: 4\r\nTransfer-Encoding: chunked", CHUNKED, "400"),
    ("both, other order", "POST", b"Transfer-Encoding: chunked\r\nContent-Length: 4", CHUNKED, "400"),
    ("both, encoding with a blank before the colon", "POST",
     b"Transfer-Encoding : chunked\r\nContent-Length: " + LENGTH, INNER, "400"),
    ("length with a blank before the colon", "POST", b"Content-Length : " + LENGTH, INNER, "400"),
    ("length with a tab before the colon", "POST", b"Content-Length\t: " + LENGTH, INNER, "400"),
    ("two lengths", "POST", b"Content-Length: 0\r\nContent-Length: " + LENGTH, INNER, "400"),
    ("two equal lengths", "POST", b"Content-Length: " + LENGTH + b"\r\nContent-Length: " + LENGTH,
     INNER, "400"),
    ("length in two cases", "POST", b"Content-Length: 0\r\ncontent-length: " + LENGTH, INNER, "400"),
    ("length 5, 5", "POST", b"Content-Length: 5, 5", b"hello", "400"),
    ("length +5", "POST", b"Content-Length: +5", b"hello", "400"),
    ("length -1", "POST", b"Content-Length: -1", b"hello", "400"),
    ("length 0x5", "POST", b"Content-Length: 0x5", b"hello", "400"),
    ("length 5a", "POST", b"Content-Length: 5a", b"hello", "400"),
    ("length 2^64+5", "POST", b"Content-Length: 18446744073709551621", b"hello", "400"),
    ("empty length", "POST", b"Content-Length:", b"", "400"),
    ("chunked twice in one", "POST", b"Transfer-Encoding: chunked, chunked", CHUNKED, "400"),
    ("identity and chunked", "POST", b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
     CHUNKED, "400"),
    ("gzip, chunked", "POST", b"Transfer-Encoding: gzip, chunked", CHUNKED, "400"),
    ("xchunked", "POST", b"Transfer-Encoding: xchunked\r\nContent-Length: 5", b"hello", "400"),
    ("encoding after a form feed", "POST", b"Transfer-Encoding: \x0cchunked", CHUNKED, "400"),
    ("underscore", "POST", b"Content_Length: 5\r\nContent-Length: 0", b"", "one"),
    # Names and values of headers.
    ("two hosts", "GET", b"Host: localhost", b"", "400"),
    ("two authorizations", "GET", b"Authorization: Bearer a\r\nAuthorization: Bearer b", b"", "400"),
    ("two content types", "POST", b"Content-Type: text/yaml\r\nContent-Type: text/html", b"", "400"),
    ("no name", "GET", b": x", b"", "400"),
    ("no colon", "GET", b"foo", b"", "400"),
    ("blank in a name", "GET", b"a b: c", b"", "400"),
    ("bracket in a name", "GET", b"a(b: c", b"", "400"),
    ("umlaut in a name", "GET", b"\xc3\xa4: c", b"", "400"),
    ("control character in a value", "GET", b"X: a\x01b", b"", "400"),
    ("DEL in a value", "GET", b"X: a\x7fb", b"", "400"),
    ("bare CR in a value", "GET", b"X: a\rTransfer-Encoding: chunked", b"", "400"),
    ("NUL in a value", "GET", b"Authorization: Bearer a\x00b", b"", "400"),
    ("NUL in a name", "GET", b"Content-Len\x00gth: 5", b"", "400"),
    # Folded headers.
    ("fold builds a length", "POST", b"Content-Len: " + LENGTH + b"\r\n gth", INNER, "400"),
    ("fold builds an encoding", "POST", b"Transfer-Enc: chunked\r\n oding", CHUNKED, "400"),
    ("fold builds a forwarded address", "GET", b"X-Forwarded: 6.6.6.6\r\n -For", b"", "400"),
    ("fold builds an authorization", "GET", b"Auth: Bearer t\r\n orization", b"", "400"),
    ("fold of one letter", "GET", b"Authorizatio: Bearer t\r\n n", b"", "400"),
    ("fold by a tab", "GET", b"Authorizatio: Bearer t\r\n\tn", b"", "400"),
    ("empty fold", "GET", b"Authorization: Bearer t\r\n ", b"", "400"),
    ("two folds", "GET", b"Auth: Bearer t\r\n oriza\r\n tion", b"", "400"),
    ("fold in a value", "POST", b"X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 5", b"hello",
     "400"),
    ("fold after the colon", "POST", b"Transfer-Encoding:\r\n chunked", CHUNKED, "400"),
    ("many folds", "GET", b"A: b" + b"\r\n x" * 4000, b"", "400"),
]

# Whole requests.
WHOLE = [
    ("fold in the first header", b"GET /healthz HTTP/1.1\r\nHo: localhost\r\n st\r\n\r\n", "400"),
    ("fold with bare line feeds", b"GET /healthz HTTP/1.1\nHost: localhost\nAuthorizatio: Bearer t\n\tn\n\n",
     "400"),
    ("chunks with HTTP/1.0", b"POST /api/v2/jobs HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
     b"Connection: keep-alive\r\n\r\n" + CHUNKED, "400"),
    ("version 9.9", b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n", "refused"),
    ("no version", b"GET /healthz\r\n\r\n", "refused"),
    ("version 0.9", b"GET /healthz HTTP/0.9\r\n\r\n", "refused"),
    ("no host", b"GET /healthz HTTP/1.1\r\n\r\n", "refused"),
    ("blank before the first header", b"GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n", "refused"),
    ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200, "silence"),
    ("PRI", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "refused"),
]

CHUNKS = [
    ("extension", b"5;x=y\r\nhello\r\n0\r\n\r\n"), ("0x5", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("-1", b"-1\r\nhello\r\n0\r\n\r\n"), ("junk after", b"5\r\nhelloXX0\r\n\r\n"),
    ("huge", b"FFFFFFFFFFFFFFFF0\r\nhello"), ("empty", b"\r\n\r\n"), ("trailer",
     b"5\r\nhello\r\n0\r\nContent-Length: 9\r\nX: y\r\n\r\n"),
]

# As a path segment, each of these must be refused with 400, 403 or 404.
PATHS = [
    "//healthz", "/./healthz", "/../healthz", "/healthz/.", "/healthz/..", "/healthz//",
    "/x/../healthz", "/%2e/healthz", "/%2e%2e/healthz", "/healthz%00", "/healthz%2f", "/healthz%20",
    "/healthz\x00", "/healthz\x00/api", "/healthz;x", "/healthz/x", "/HEALTHZ", "/healthz\\",
    "/healthz.json", "/%2fhealthz", "http://evil/healthz", "http://localhost/healthz", "healthz", "*",
    "/rest-server", "/rest-server//healthz", "/rest-server/../healthz", "/rest-serverhealthz",
    "/rest-server%2fhealthz", "/healthz#x", "/a b c",
]
# Number of responses in cases where the server need not close the connection.
ANSWERS = {"one": 1, "two": 2, "silence": 0}
USERS = [
    "user/alice%2fjobs/jobs/{}", "user/alice%00/jobs/{}", "user/alice%0a/jobs/{}", "user//jobs/{}",
    "user/./jobs/{}", "user/%2e%2e/jobs/{}", "user/bob/../alice/jobs/{}", "user/alice/../bob/jobs/{}",
    "user/alice/jobs/../{}", "user/alice/jobs/%2e%2e", "user/alice%/jobs/{}", "user/alice%zz/jobs/{}",
    "user/alice%c3%28/jobs/{}", "user/Alice/jobs/{}", "user/%2561lice/jobs/{}", "user/alice /jobs/{}",
    "user/alice/jobs/{}%00", "user/alice/jobs/{}%2f", "user/alice/jobs/{}/x",
]


def smuggled(replies):
    """True if the inner request got a response."""
    return len(replies) > 1


def judge(check, what, expected, replies, closed):
    statuses = [r.status for r in replies]
    if expected == "400":
        check.ok(what, len(statuses) == 1 and statuses[0] in (400, 413, 431, 501) and closed,
                 f"{statuses}, closed {closed}")
    elif expected == "refused":
        check.ok(what, len(statuses) <= 1 and closed and all(400 <= s < 600 for s in statuses),
                 f"{statuses}, closed {closed}")
    elif expected == "silence":
        check.equal(what, statuses, [])
    elif expected == "one":
        check.ok(what, len(statuses) == 1, statuses)
    elif expected == "last":
        check.ok(what, len(statuses) == 1 and statuses[0] >= 400 and closed, f"{statuses}, closed {closed}")
    elif expected == "two":
        check.ok(what, len(statuses) == 2 and statuses[1] == 404, statuses)
    else:
        check.ok(f"{what}: there is no verdict {expected}", False)


def head(server, method, lines):
    path = b"/healthz" if method in ("GET", "OPTIONS", "HEAD") else b"/api/v2/jobs"
    return (b"%s %s HTTP/1.1\r\nHost: localhost:%d\r\n" % (method.encode(), path, server.port) +
            lines + b"\r\n\r\n")


def local(server, data):
    """Replaces all Hosts by the one that a server without authentication requires."""
    return data.replace(b"Host: localhost\r", b"Host: localhost:%d\r" % server.port).replace(
        b"Host: localhost\n", b"Host: localhost:%d\n" % server.port)


def read_all(server, data, slowly=False, answers=None):
    """(responses, closed).  If the server need not close, the client shuts down its side after the
    expected number of responses and reads the rest."""
    with server.connect() as c:
        if slowly:
            c.send_slowly(data)
        else:
            c.send(data)
        got, closed = c.read(PATIENCE, lambda d: answers is not None and len(parse_replies(d)) >= answers)
        if not closed:
            try:
                c.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            got += c.read(PATIENCE)[0]
        return parse_replies(got), closed


class Framing:
    def __init__(self, server):
        self.server = server

    def test_framing_cases_have_one_meaning(self, check):
        for what, method, lines, body, expected in CASES:
            data = head(self.server, method, lines) + local(self.server, body)
            judge(check, what, expected, *read_all(self.server, data, answers=ANSWERS.get(expected)))

    def test_whole_requests_have_one_meaning(self, check):
        for what, data, expected in WHOLE:
            judge(check, what, expected, *read_all(self.server, local(self.server, data),
                                                   answers=ANSWERS.get(expected)))

    def test_framing_cases_byte_by_byte_have_one_meaning(self, check):
        """The same with a head in pieces, so that the library moves its buffers."""
        for what, method, lines, body, expected in CASES:
            if len(lines) > 2000:
                continue
            data = head(self.server, method, lines) + local(self.server, body)
            judge(check, f"{what}, byte by byte", expected, *read_all(self.server, data, True,
                                                                      ANSWERS.get(expected)))

    def test_valid_request_byte_by_byte_is_served(self, check):
        data = b"GET /healthz HTTP/1.1\r\nHost: localhost:%d\r\nX-Forwarded-For: 6\r\nA:b\r\n" \
               b"C:    d\r\nE: \r\nF:\r\nB: %s\r\nD: e\r\n\r\n" % (self.server.port, b"c" * 3000)
        replies, _ = read_all(self.server, data, True, 1)
        check.equal("honest headers, byte by byte", [r.status for r in replies], [200])

    def test_head_response_has_no_body(self, check):
        """A HEAD response has no body, whatever its Content-Length."""
        with self.server.connect() as c:
            c.send(head(self.server, "HEAD", b"Content-Length: " + LENGTH) + local(self.server, INNER))
            c.socket.shutdown(socket.SHUT_WR)
            data, _ = c.read(PATIENCE)
        check.equal("HEAD with a body: one answer", data.count(b"HTTP/1.1 "), 1)

    def test_invalid_chunks_are_refused(self, check):
        for what, body in CHUNKS:
            replies, _ = read_all(self.server, head(
                self.server, "POST", b"Content-Type: text/yaml\r\nTransfer-Encoding: chunked") + body,
                answers=1)
            check.ok(f"chunk {what}", all(400 <= r.status < 500 for r in replies), replies)

    def test_ambiguous_paths_are_refused(self, check):
        for path in PATHS:
            data = b"GET " + path.encode("latin-1") + b" HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % \
                self.server.port
            replies, closed = read_all(self.server, data, answers=1)
            refused = replies[0].status // 100 == 4 if len(replies) == 1 else not replies and closed
            check.ok(f"path {path!r}", refused, replies)

    def test_ambiguous_user_paths_create_no_job(self, check):
        for i, path in enumerate(USERS):
            name = f"path-{i}"
            body = job_v1(name).encode()
            data = (b"PUT /api/v1/" + path.format(name).encode() + b" HTTP/1.1\r\nHost: localhost:%d\r\n"
                    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
                    (self.server.port, len(body))) + body
            with self.server.connect() as c:
                c.send(data)
                reply = c.reply()
            check.ok(f"path {path}", not reply or reply.status in (400, 403, 404), reply)
        check.equal("no job was made by any of them", self.server.settled_log().count('"status":202'), 0)

    def test_invalid_head_is_refused_before_the_body(self, check):
        """A request with an invalid head gets a response before its body, and the connection is
        closed."""
        with self.server.connect() as c:
            c.send(head(self.server, "POST", b"Content-Length: 10\r\nAuthorization: x\r\nAuthorization: x"))
            reply = c.reply()
            check.equal("refused before the body", reply and reply.status, 400)
            check.ok("... in JSON", reply and reply.message, reply)


# More of them: tests/unit/server/http/test_request_check.c.
ORIGINS = [("http://evil.example", 403), ("null", 403), ("http://localhost:1", 403), ("http://localhost:{}", 202)]
HOSTS = [("evil.example:{}", 403), ("localhost:1", 403), ("", 403), ("192.168.0.1:{}", 403), ("[::1]:{}", 202),
         ("LOCALHOST:{}", 202)]
SITES = [("cross-site", 403), ("CROSS-SITE", 403), ("x", 403), ("same-origin", 202)]


def test_foreign_web_pages_cannot_submit(check):
    """Without authentication, access to the port permits submissions; web pages must not have
    it."""
    with Server("--engine=none", "--local", "jobs") as server:
        count = 0
        for header, rows in (("Origin", ORIGINS), ("Host", HOSTS), ("Sec-Fetch-Site", SITES)):
            for value, status in rows:
                count += 1
                value = value.format(server.port)
                reply = server.submit(job_v2(f"browser-{count}"), {header: value,
                                                                   "Content-Type": "text/plain"})
                check.equal(f"{header}: {value}", reply and reply.status, status)
                cors = [h for h in (reply.headers if reply else {}) if h.startswith("access-control")]
                check.ok(f"{header}: {value}: no CORS header", not cors, cors)
        reply = server.request("GET", "/", headers={"Origin": "http://evil.example"})
        check.equal("GET from another page", reply.status, 403)


def test_framing_of_requests_is_never_ambiguous(check):
    with Server("--engine=none", "--local", "jobs") as server:
        framing = Framing(server)
        check.run(*(getattr(framing, n) for n in dir(framing) if n.startswith("test_")))
        check.equal("alive after all that", server.request("GET", "/healthz").status, 200)
        check.equal("exit status", server.stop(), 0)
