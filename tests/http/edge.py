"""Client addresses, rate limits, and cross-origin requests.

Clients use the addresses 127.0.0.2, 127.0.0.3, ..., which Linux permits."""
import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from harness import PATIENCE, SLOW, Connection, Server, job_v2, parse_replies, request_bytes, route_table, wait_until
from tokens import SECRET, bearer, token, write_file

PATH = "/api/v1"  # a route without authentication


class From(Connection):
    """A connection from one of this machine's other addresses."""

    def __init__(self, server, source, timeout=PATIENCE, port=None):
        self.socket = socket.create_connection(("127.0.0.1", port or server.port), timeout=timeout * SLOW,
                                               source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Guarded(Server):
    """A server that requires tokens, on a directory."""

    def __init__(self, *arguments):
        directory = tempfile.mkdtemp(prefix="rest-lit-edge.")
        secret = write_file(directory, "jwt-secret", SECRET)
        super().__init__("--engine=none", "--local", "jobs", *arguments, directory=directory,
                         who=["--jwt-secret-file", secret])

    def ask(self, source="127.0.0.2", path=PATH, method="GET", body=None, **headers):
        """Sends one request from that address. Headers are arguments such as X_Forwarded_For=..."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        with From(self, source) as c:
            c.send(request_bytes(self.port, method, path, body, headers))
            return c.reply()


def statuses(server, count, source="127.0.0.2", **headers):
    """The statuses of several requests on one connection."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    with From(server, source) as c:
        c.send(request_bytes(server.port, "GET", PATH, headers=headers) * count)
        data, _ = c.read(PATIENCE, lambda d: len(parse_replies(d)) >= count)
        return [r.status for r in parse_replies(data)]


def is_refusal(check, what, ask, most_s):
    """429, at once or at the next request, because the limit may have permitted one more
    meanwhile."""
    for _ in range(3):
        reply = ask()
        if reply and reply.status == 429:
            break
    if not check.ok(f"{what}: 429", reply and reply.status == 429, reply):
        return
    check.equal(f"{what}: code", reply.code, "TooManyRequestsError")
    check.ok(f"{what}: message", "please try again" in reply.message, reply.message)
    check.ok(f"{what}: Retry-After", 1 <= int(reply.headers.get("retry-after", 0)) <= most_s, reply)
    check.ok(f"{what}: request id", reply.headers.get("x-request-id"), reply)


# ---- limits of rate ---------------------------------------------------------------------
def test_rate_address_limits_requests_of_an_address(check):
    with Guarded("--rate-address", "6") as server:
        check.equal("a limit of 6: all of 6", statuses(server, 6), [200] * 6)
        is_refusal(check, "the seventh", server.ask, 10)
        is_refusal(check, "before authentication", lambda: server.ask(path="/api/v2/user"), 10)
        is_refusal(check, "an unknown route", lambda: server.ask(path="/nothing"), 10)
        is_refusal(check, "a preflight", lambda: server.ask(method="OPTIONS"), 10)
        is_refusal(check, "a job", lambda: server.ask(path="/api/v2/jobs", method="POST", body=b"x"), 10)
        check.equal("another address", server.ask("127.0.0.3").status, 200)
        for path in ("/healthz", "/readyz", "/healthz/", "/rest-server/healthz"):
            check.equal(f"{path} is never limited", server.ask(path=path).status, 200)
        is_refusal(check, "what only looks like it", lambda: server.ask(path="/healthz/x"), 10)
        is_refusal(check, "an untrusted forwarded address", lambda: server.ask(X_Forwarded_For="10.0.0.1"), 10)
        said = "X-Forwarded-For is ignored"
        check.ok("it is said in the log", server.logged(said), server.log())
        server.ask(X_Forwarded_For="10.0.0.1")
        check.equal("... once", server.settled_log().count(said), 1)
    with Guarded("--rate-address", "120") as server:
        # The limit permits two more per second.
        check.ok("120 per minute", wait_until(lambda: 429 in statuses(server, 130)))
        with From(server, "127.0.0.2") as c:
            c.send(request_bytes(server.port, "GET", PATH) * 130)
            data, _ = c.read(PATIENCE, lambda d: len(parse_replies(d)) >= 130)
            refused = [r for r in parse_replies(data) if r.status == 429]
            is_refusal(check, "... says so", lambda: refused[0] if refused else None, 1)
        check.ok("... and after Retry-After", wait_until(lambda: server.ask().status == 200))


def test_rate_limits_can_be_turned_off(check):
    with Guarded("--rate-address", "0") as server:
        check.equal("0: no limit", statuses(server, 700).count(200), 700)
    with Server("--engine=none", "--local", "jobs", "--rate-address", "1", "--rate-submit", "1") as server:
        for i in range(3):
            check.equal("--no-auth: no limit", server.submit(job_v2(f"free-{i}")).status, 202)


def test_rate_submit_limits_jobs_of_a_user(check):
    with Guarded("--rate-submit", "3", "--rate-address", "0") as server:
        def submit(name, user):
            return server.submit(job_v2(name), bearer(token(user)))
        for i in range(3):
            check.equal(f"job {i} of 3 per hour", submit(f"a{i}", "alice").status, 202)
        is_refusal(check, "the fourth", lambda: submit("a3", "alice"), 1200)
        check.equal("another user", submit("b", "bob").status, 202)
        reply = server.request("GET", "/api/v2/jobs/alice~a0", headers=bearer(token("alice")))
        check.equal("to read is no submission", reply.status, 200)
        check.equal("unknown user", submit("c", "carol").status, 202)
        reply = server.submit(job_v2("d"), bearer("no token"))
        check.equal("without a token it is 401", reply.status, 401)


def test_trusted_proxy_tells_the_client_address(check):
    proxy = "127.0.0.9"
    with Guarded("--rate-address", "1", "--trusted-proxy", f"{proxy}, 127.0.1.0/24") as server:
        def ask(forwarded):
            return server.ask(proxy, X_Forwarded_For=forwarded).status
        check.equal("a client behind it", [ask("10.1.1.1") for _ in range(2)], [200, 429])
        check.equal("another client behind it", ask("10.1.1.2"), 200)
        check.equal("what the client says itself is not believed", ask("10.7.7.7, 10.1.1.1"), 429)
        check.equal("... with any number of blanks", ask("10.7.7.8 ,  10.1.1.1 "), 429)
        check.equal("with a port", ask("10.1.1.1:5555"), 429)
        check.equal("IPv4 in IPv6", ask("::ffff:10.1.1.1"), 429)
        with From(server, proxy) as c:
            c.send(b"GET %s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.9.9.9\r\n"
                   b"x-forwarded-for: 10.1.1.1\r\n\r\n" % PATH.encode())
            check.equal("the last of two headers", c.reply().status, 429)
        check.equal("a network of proxies",
                    server.ask("127.0.1.77", X_Forwarded_For="10.1.1.1").status, 429)
        check.equal("an IPv6 client", ask("2001:db8:1:2::1"), 200)
        check.equal("... is its /64", ask("2001:db8:1:2:ffff::9"), 429)
        check.equal("... and no other", ask("2001:db8:1:3::1"), 200)
        # With an invalid address, the proxy itself is the client.
        odd = ["unknown", "", "10.1.1", "10.1.1.1; x", "evil\tname"]
        check.equal("no address", [ask(text) for text in odd], [200] + [429] * 4)


# ---- connections of an address -----------------------------------------------------------
def served(server, c):
    c.send(request_bytes(server.port, "GET", "/healthz"))
    reply = c.reply()
    return bool(reply) and reply.status == 200


def connect(server, source, count):
    """Opens this number of connections: (served connections first, number of served ones)."""
    crowd = [From(server, source) for _ in range(count)]
    fine = [c for c in crowd if served(server, c)]
    return fine + [c for c in crowd if c not in fine], len(fine)


def test_connections_per_address_are_limited(check):
    with Guarded("--connections-per-address", "5", "--trusted-proxy", "127.0.0.9") as server:
        crowd, fine = connect(server, "127.0.0.2", 8)
        check.equal("8 of one address, 5 allowed", fine, 5)
        check.ok("... said in the log", server.logged("too many connections from one address"))
        others, fine = connect(server, "127.0.0.3", 5)
        check.equal("another address", fine, 5)
        proxies, fine = connect(server, "127.0.0.9", 20)
        check.equal("a trusted proxy", fine, 20)
        crowd[0].close()
        check.ok("once one has left, the next may come",
                 wait_until(lambda: connect(server, "127.0.0.2", 1)[1] == 1))
        for c in crowd + others + proxies:
            c.close()
        check.ok("all places are free again",
                 wait_until(lambda: connect(server, "127.0.0.2", 5)[1] == 5))
    with Server("--engine=none", "--local", "jobs", "--connections-per-address", "2") as server:
        _, fine = connect(server, "127.0.0.2", 8)
        check.equal("--no-auth: no limit", fine, 8)


def burst(server, source):
    """Eight connections at the same moment; the number of those that are served."""
    crowd = []
    for _ in range(8):
        crowd.append(socket.socket())
        crowd[-1].bind((source, 0))
        crowd[-1].setblocking(False)
        crowd[-1].connect_ex(("127.0.0.1", server.port))
    fine = 0
    for c in crowd:
        c.settimeout(PATIENCE * SLOW)
        try:
            c.sendall(request_bytes(server.port, "GET", "/healthz"))
        except OSError:
            pass  # it was refused
    for c in crowd:
        with contextlib.suppress(OSError):
            fine += b" 200 " in c.recv(4096)
    for c in crowd:  # not before: each that is closed makes room for another
        c.close()
    return fine


def test_connections_per_address_hold_for_all_loops_together(check):
    with Guarded("--connections-per-address", "5", "--loops", "4") as server:
        # Two addresses can share a counter, so that fewer are served.
        check.equal("served of 8 at once, the most in 200 times", max(burst(server, f"127.0.1.{n + 2}") for n in range(200)), 5)


FLOOD = """
import socket, sys
source = ("127.0.0.1", int(sys.argv[1]))
crowd = [socket.create_connection(source) for _ in range(8)]
for c in crowd:
    c.sendall(b"GET /api/v1 HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
answers = []
for c in crowd:
    try:
        answers.append(c.recv(4096)[9:12].decode())
    except OSError:
        answers.append("")
print(" ".join(answers), flush=True)
sys.stdin.read()
"""


def test_accounts_of_this_machine_have_limits_of_their_own(check):
    """On loopback, a flood of connections or requests by one account of the machine, or of one user,
    refuses nothing to others."""
    if os.geteuid() != 0:
        print("     skipped: only root can use another account", flush=True)
        return
    # A rate permits more after some seconds.
    for option, value, fine in (("--connections-per-address", "5", (5,)), ("--rate-address", "6", (6, 7))):
        with Guarded(option, value) as server:
            other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", FLOOD, str(server.port)]
            with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as flood:
                answers = flood.stdout.readline().rstrip("\n").split(" ")
                check.ok(f"{option}: the flood is refused", answers.count("200") in fine and len(answers) == 8, answers)
                check.equal(f"{option}: other accounts are not", [server.ask("127.0.0.1").status for _ in range(3)], [200] * 3)
                flood.stdin.close()
    with Guarded("--rate-address", "6") as server:
        alice, bob = bearer(token("alice")), bearer(token("bob"))
        path = "/api/v2/jobs"

        def ask(headers):
            return server.request("GET", path, headers=headers).status
        check.ok("a user's requests are limited", 429 in [ask(alice) for _ in range(9)])
        check.equal("another user's of the same account are not", [ask(bob) for _ in range(3)], [200] * 3)
        check.equal("... and not those without a token", [server.ask("127.0.0.1").status for _ in range(3)], [200] * 3)
        check.ok("invalid tokens count for the account", 429 in [ask({"Authorization": "Bearer x"}) for _ in range(9)])


# ---- refusals are read --------------------------------------------------------------------
def test_refusals_can_be_read_by_clients(check):
    """A client that sends a body and then reads gets the response, not a closed connection."""
    body = b"#" * (100 * 1024)
    with Guarded("--rate-address", "0") as server:
        rows = [("no token", "/api/v2/jobs", {}, 401), ("no route", "/nothing", {}, 404),
                ("wrong type", "/api/v2/jobs", {"Content-Type": "image/png"}, 415)]
        for what, path, headers, status in rows:
            c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE * SLOW)
            seen = []
            for _ in range(10):
                c.request("POST", path, body, headers)
                reply = c.getresponse()
                reply.read()
                seen.append(reply.status)
            check.equal(f"{what}: ten bodies of 100 KiB on one connection", seen, [status] * 10)
            c.close()
    with Guarded("--rate-address", "1") as server:
        server.ask()
        is_refusal(check, "a body of 100 KiB",
                   lambda: server.ask(path="/api/v2/jobs", method="POST", body=body), 60)
    with Guarded("--rate-address", "0") as server:
        with server.connect() as c:
            c.send(b"POST /api/v2/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: text/yaml\r\n"
                   b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n")
            data, closed = c.read(PATIENCE)
            check.ok("Expect: 100-continue is refused at once",
                     data.startswith(b"HTTP/1.1 401") and closed, data[:200])


# ---- CORS -----------------------------------------------------------------------------------
PREFLIGHT = {"Access_Control_Request_Method": "POST",
             "Access_Control_Request_Headers": "authorization,content-type"}


def cors_of(reply):
    return {name[len("access-control-"):]: value for name, value in reply.headers.items()
            if name.startswith("access-control-")}


def refusals(server):
    """Answers of many kinds, early and late."""
    large = b"#" * (1 << 20)
    return [server.ask(path="/nothing"), server.ask(path="/api/v2/jobs", method="POST", body=b"x"),
            server.ask(path="/api/v2/jobs", method="POST", body=large, Authorization="Bearer x"),
            server.ask(path="/api/v2/jobs", method="POST", body=b"x", Content_Type="image/png"),
            server.ask(path="/api/v2/user"), server.ask(path="/healthz"), server.ask(path="/"),
            server.raw(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\nAuthorization: y\r\n\r\n", answers=1)[0][0],
            server.ask(path="/api/v2/jobs", method="POST",
                       body=job_v2("cors").encode(), Authorization=bearer(token())["Authorization"])]


def test_cors_any_allows_all_origins_without_credentials(check):
    with Guarded() as server:
        codes = []
        for reply in refusals(server):
            codes.append(reply.status)
            cors = cors_of(reply)
            check.equal(f"{reply.status}: origin", cors.get("allow-origin"), "*")
            check.ok(f"{reply.status}: what pages may read", all(
                h in cors.get("expose-headers", "") for h in ("X-Request-Id", "Content-Range", "Retry-After",
                                                               "X-Warning", "X-Log-Start", "X-Log-Times")), cors)
            check.ok(f"{reply.status}: no credentials", "allow-credentials" not in cors, cors)
            check.ok(f"{reply.status}: request id", reply.headers.get("x-request-id"), reply)
            check.ok(f"{reply.status}: no Server header", "server" not in reply.headers, reply)
            check.equal(f"{reply.status}: no guess of the type", reply.headers.get("x-content-type-options"), "nosniff")
        check.equal("of all kinds", codes, [404, 401, 413, 415, 401, 200, 200, 400, 202])
        for path in ("/api/v2/jobs", "/nothing", "/rest-server/api/v2/jobs"):
            reply = server.ask(path=path, method="OPTIONS", Origin="https://pai.example", **PREFLIGHT)
            cors = cors_of(reply)
            check.equal(f"preflight of {path}", reply.status, 204)
            check.equal("... origin", cors.get("allow-origin"), "*")
            check.equal("... methods", cors.get("allow-methods"), "GET,HEAD,PUT,PATCH,POST,DELETE")
            check.equal("... headers", cors.get("allow-headers"), "authorization,content-type")
            check.ok("... is good for a while", int(cors.get("max-age", 0)) > 0, cors)
            check.ok("... no credentials", "allow-credentials" not in cors, cors)
        for what, text in (("control characters", "a\tb"), ("a colon", "a: b"), ("long", "a" * 201),
                           ("markup", "<script>"), ("nothing", "")):
            cors = cors_of(server.ask(method="OPTIONS", Access_Control_Request_Headers=text))
            check.ok(f"preflight with {what}: not said again", "allow-headers" not in cors, cors)
        cors = cors_of(server.ask(method="OPTIONS", Origin="https://pai.example",
                                  Access_Control_Request_Private_Network="true", **PREFLIGHT))
        check.ok("private network: not granted", "allow-private-network" not in cors, cors)
    with Guarded("--rate-address", "1") as server:
        server.ask()
        check.equal("429: origin", cors_of(server.ask()).get("allow-origin"), "*")


def test_cors_list_allows_only_its_origins(check):
    with Guarded("--cors", "https://pai.example, http://localhost:3000") as server:
        for origin, fine in (("https://pai.example", True), ("http://localhost:3000", True),
                             ("http://pai.example", False), ("https://pai.example.evil", False),
                             ("https://evil.example", False), ("null", False),
                             ("https://pai.example:443", False), ("https://pai.exampl", False)):
            for method, path in (("GET", PATH), ("OPTIONS", PATH), ("GET", "/api/v2/user")):
                reply = server.ask(method=method, path=path, Origin=origin, **PREFLIGHT)
                cors = cors_of(reply)
                what = f"{method} {path} from {origin}"
                check.equal(what, cors.get("allow-origin"), origin if fine else None)
                check.equal(f"{what}: methods", "allow-methods" in cors, fine and method == "OPTIONS")
                check.equal(f"{what}: Vary", reply.headers.get("vary"), "Origin")
        check.equal("without an origin", cors_of(server.ask()), {})
        check.equal("... Vary", server.ask().headers.get("vary"), "Origin")


def test_cors_none_sends_no_headers(check):
    with Guarded("--cors", "none") as server:
        for reply in refusals(server):
            check.equal(f"{reply.status}: none", cors_of(reply), {})
        reply = server.ask(method="OPTIONS", Origin="https://pai.example", **PREFLIGHT)
        check.equal("preflight: none", (reply.status, cors_of(reply)), (204, {}))


# ---- headers of all responses ---------------------------------------------------------------
def test_every_route_has_the_common_headers(check):
    with Guarded("--rate-address", "0", "--rate-login", "0") as server:
        table = [("GET" if method == "any" else method, re.sub(r"\{[^}]*\}", "alice", path)) for method, path, *_ in route_table()]
        check.ok("there are routes", len(table) > 15, table)
        for method, path in table:
            for headers in ({}, {"Authorization": "Bearer x"}, bearer(token())):
                body = None if method in ("GET", "DELETE") else b"{}"
                reply = server.ask(path=path, method=method, body=body, **headers)
                what = f"{method} {path} {reply and reply.status}"
                if not check.ok(f"{what}: is answered", reply is not None):
                    continue
                check.ok(f"{what}: no 5xx", reply.status < 500 or path == "/readyz", reply)
                cached = "no-cache" if path == "/llms.txt" else "no-store"
                for header, value in (("x-content-type-options", "nosniff"), ("cache-control", cached),
                                      ("referrer-policy", "no-referrer"),
                                      ("access-control-allow-origin", "*")):
                    check.equal(f"{what}: {header}", reply.headers.get(header), value)
                check.ok(f"{what}: request id", re.fullmatch(
                    r"[0-9a-f]{16}", reply.headers.get("x-request-id", "")), reply)
                for header in ("server", "access-control-allow-credentials", "set-cookie"):
                    check.ok(f"{what}: no {header}", header not in reply.headers, reply)
                kind = reply.headers.get("content-type", "")
                check.ok(f"{what}: HTML is confined", "html" not in kind or
                         "default-src 'none'" in reply.headers.get("content-security-policy", ""), reply)
                if method == "GET":
                    bare = server.request("HEAD", path, headers=headers)
                    check.equal(f"HEAD {path}: as GET", bare and (bare.status, bare.body), (reply.status, b""))


def test_request_id_is_kept_if_valid_or_replaced(check):
    with Guarded("--rate-address", "0") as server:
        def given(text, path=PATH):
            return server.ask(path=path, X_Request_Id=text).headers.get("x-request-id")
        for text in ("a", "ABC-123", "f" * 64):
            check.equal(f"{text[:20]} is taken", given(text), text)
            check.equal(f"{text[:20]} is taken by a refusal", given(text, "/api/v2/user"), text)
            check.ok(f"{text[:20]} is in the log", server.logged(f'"id":"{text}"'))
        for text in ("", "a b", "a_b", "f" * 65, "a\"b", "\xe4", "../x"):
            seen = given(text)
            check.ok(f"{text[:20]!r} is replaced", re.fullmatch(r"[0-9a-f]{16}", seen or ""), seen)
        ids = {given("") for _ in range(50)}
        check.equal("those that are made differ", len(ids), 50)


def test_mistakes_in_cors_and_proxies_prevent_the_start(check):
    directory = tempfile.mkdtemp(prefix="rest-lit-edge.")
    secret = write_file(directory, "jwt-secret", SECRET)
    for option, value, word in (
            ("--cors", "pai.example", "is not an origin"), ("--cors", "https://pai.example/", "is not an origin"),
            ("--cors", "https://*.pai.example", "is not an origin"), ("--cors", "*,https://a", "is not an origin"),
            ("--cors", "https://PAI.example", "is not an origin"), ("--cors", "://a", "is not an origin"),
            ("--trusted-proxy", "10.0.0.1/8", "10.0.0.1/8"), ("--trusted-proxy", "10.0.0", "10.0.0")):
        server = Server("--engine=none", "--local", "jobs", option, value, wait=False,
                        who=["--jwt-secret-file", secret])
        check.equal(f"{option} {value}: does not start", server.process.wait(PATIENCE * SLOW), 2)
        check.ok(f"{option} {value}: says why", option in server.log() and word in server.log(), server.log())
        server.remove()
    shutil.rmtree(directory)
