"""The client rest_lit of packaging/python: what people do with it, by each Python at hand, and what goes wrong."""
import ast
import contextlib
import glob
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from unittest import mock

from harness import BINARY, ROOT, SLOW, USER, run
from machine import Machine, job, role
from tls import TlsServer
from tokens import SECRET, token, write_file

PACKAGE = os.path.join(ROOT, "packaging", "python")
sys.path.insert(0, PACKAGE)

import rest_lit  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OLDEST, NEWEST = 9, 20  # Python 3.N
ROW = {"name": "one", "state": "RUNNING", "tags": [], "ofTomorrow": {"a": [1]}}


def pythons():
    """This one, and others on the PATH that run."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(OLDEST, NEWEST):
        path = shutil.which(f"python3.{minor}")
        if path and subprocess.run([path, "-c", "import ssl"], capture_output=True, check=False).returncode == 0:
            found.setdefault((3, minor), path)
    return dict(sorted(found.items()))


def test_python_client_does_its_work_with_each_python(check):
    for version, python in pythons().items():
        with Machine() as m:
            environment = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", "http_proxy": "http://127.0.0.1:1",
                           "PATH": f"{os.path.dirname(BINARY)}:{os.environ['PATH']}"}
            done = subprocess.run([python, "-W", "error", os.path.join(HERE, "python_uses.py"), f"http://127.0.0.1:{m.port}"], env=environment,
                                  capture_output=True, text=True, check=False, timeout=600 * SLOW)
            check.ok(f"Python {version}", (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr[-300:])


def test_python_client_is_python_3_9(check):
    """The oldest Python may not be at hand: the grammar at least."""
    for path in glob.glob(f"{PACKAGE}/rest_lit/*.py"):
        with open(path, encoding="utf-8") as f:
            check.ok(path, ast.parse(f.read(), feature_version=(3, OLDEST)))


# ---- secrets ----
def shown(error):
    """All that a traceback can show, with the values of the client's local variables."""
    text = ""
    while error:
        text += f"{error!r} {error}\n"
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename.startswith(PACKAGE):
                known = {k: v for k, v in frame.f_locals.items() if k != "self" or hasattr(v, "server")}
                text += f"{frame.f_code.co_name}: {known!r}\n"
        error = error.__context__
    return text


@contextlib.contextmanager
def failing(check, what, code, words, secret=None):
    try:
        yield
        check.ok(what, False, "no error")
    except (rest_lit.Error, ValueError) as error:
        check.equal(f"{what}: code", getattr(error, "code", ""), code)
        check.ok(f"{what}: message", words in str(error), str(error))
        check.ok(f"{what}: no secret", not secret or secret not in shown(error), shown(error))


def test_python_client_shows_no_token(check):
    folder = tempfile.mkdtemp(prefix="rest-lit-local.")
    secret = write_file(folder, "secret", SECRET)
    os.chmod(folder, 0o755)
    os.chmod(secret, 0o644)
    mine, others = token(USER), token("bob")
    with Machine("--visibility", "owner", who=["--jwt-secret-file", secret, "--token-check", "signature"]) as m, \
            mock.patch.dict(os.environ, {"PATH": f"{os.path.dirname(BINARY)}:{os.environ['PATH']}"}):
        path = write_file(folder, "token", f"{mine}\n")
        client = rest_lit.Client(f"http://127.0.0.1:{m.port}", path)
        check.equal("repr", repr(client), f"Client('http://127.0.0.1:{m.port}')")
        check.ok("no token in it", mine not in repr(vars(client)), vars(client))
        check.equal("submit", client.submit(json.loads(job("one", {"main": role("true")}))), f"{USER}~one")
        check.equal("wait", client.wait("one").jobStatus.state, "SUCCEEDED")
        check.ok("logs", any("USER COMMAND END" in line for line in client.logs("one")))
        write_file(folder, "token", others)
        with failing(check, "the token is replaced", "ForbiddenUserError", "", others):
            client.stop(f"{USER}~one")
        write_file(folder, "token", mine[:-2])
        with failing(check, "a wrong token", "UnauthorizedUserError", "", mine[:-2]):
            client.jobs()
        for text in (f"{mine}\n{others}", f"{mine}\r\nX: y", "", " \n", "é" + mine):
            write_file(folder, "token", text)
            with failing(check, repr(text)[-20:], "", "has no token", mine):
                client.jobs()
    shutil.rmtree(folder)


# ---- HTTPS ----
def test_python_client_verifies_certificates(check):
    with TlsServer() as server:
        mine = token(USER)
        path = write_file(server.folder, "token", mine)
        there = f"https://localhost:{server.port}"
        check.equal("with its CA", rest_lit.Client(there, path, server.file("ca.crt")).jobs(), [])
        with failing(check, "the system's CAs", "", "CERTIFICATE_VERIFY_FAILED", mine):
            rest_lit.Client(there, path).jobs()
        with failing(check, "... which is not tried again", "", "CERTIFICATE_VERIFY_FAILED", mine), \
                mock.patch("rest_lit.time.sleep", side_effect=RuntimeError):
            rest_lit.Client(there, path).submit({})
        here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
        with mock.patch("socket.getaddrinfo", lambda *_, **__: here), failing(check, "another name", "", "CERTIFICATE_VERIFY_FAILED", mine):
            rest_lit.Client("https://rest-lit.example", path, server.file("ca.crt")).jobs()
        with failing(check, "without TLS", "", f"http://localhost:{server.port}", mine):
            rest_lit.Client(f"http://localhost:{server.port}", path).jobs()
    for address, words in (("http://example.com", "http is for this machine only"), ("http://alice:secret@localhost", "must be https"),
                           ("https://alice:secret@example.com", "must be https"), ("ftp://localhost", "must be https"), ("https://", "must be https"),
                           ("https://example.com/?token=secret", "must be https")):
        with failing(check, address, "", words):
            rest_lit.Client(address)
    for address, is_ in (("localhost:1", "http://localhost:1"), ("example.com", "https://example.com"), ("https://[::1]:9/a/", "https://[::1]:9/a")):
        check.equal(address, rest_lit.Client(address).server, is_)


# ---- servers that answer otherwise ----
class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with the next of server.answers: (status, headers, body); None: closes the connection."""

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        answer = self.server.answers.pop(0)
        if answer:
            status, headers, text = answer
            self.send_response(status)
            for name, value in {"Content-Length": len(text), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(text)

    do_POST = do_PUT = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def answering(*answers):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.answers, server.seen = list(answers), []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Clock:
    """Time goes on only while somebody sleeps."""
    now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def error_body(code, message="no"):
    return json.dumps({"code": code, "message": message}).encode()


ACCEPTED = (202, {"Location": "/api/v2/jobs/alice~one"}, b"{}")


def test_python_client_repeats_what_may_be_repeated(check):
    """A submission whose answer is lost has the same Idempotency-Key; a refusal is not repeated."""
    with mock.patch("rest_lit.time", Clock()):
        with answering(None, (503, {}, b"<html>"), (429, {"Retry-After": "soon"}, error_body("TooManyRequestsError")),
                       (409, {}, error_body("IdempotencyError")), ACCEPTED) as (server, there):
            check.equal("accepted", rest_lit.Client(there).submit({"name": "one"}), "alice~one")
            check.equal("one key, one body", len({(h["Idempotency-Key"], body) for _, _, h, body in server.seen}), 1)
            check.equal("requests", len(server.seen), 5)
        with answering(ACCEPTED, ACCEPTED) as (server, there):
            for _ in range(2):
                rest_lit.Client(there).submit({"name": "one"})
            check.equal("two submissions", len({h["Idempotency-Key"] for _, _, h, _ in server.seen}), 2)
        with answering((409, {}, error_body("ConflictJobError"))) as (server, there), failing(check, "a refusal", "ConflictJobError", "no"):
            rest_lit.Client(there).submit({"name": "one"})
        with answering((503, {}, b"")) as (server, there), failing(check, "a list", "", "answers 503"):
            rest_lit.Client(there).jobs()
        with answering(*[None] * 100) as (server, there):
            with failing(check, "patience ends", "", there):
                rest_lit.Client(there).submit({"name": "one"})
            check.ok("with growing pauses", 6 <= len(server.seen) <= 9, len(server.seen))


def test_python_client_reads_answers_of_others(check):
    """Older and newer servers, and what is no rest-lit."""
    with answering((200, {}, json.dumps([ROW, {**ROW, "waitingReason": {"kind": "machine", "new": 1}}]).encode())) as (server, there):
        one, two = rest_lit.Client(there).jobs(tagsContain=["a b", "c&d"], limit=2)
        check.equal("known and unknown members", (one.name, one.createdTime, two.waitingReason.kind), ("one", None, "machine"))
        check.equal("the query", server.seen[0][1], "/api/v2/jobs?tagsContain=a+b%2Cc%26d&limit=2")
    deep = b"[" * 100000 + b"]" * 100000
    for text in (b"", b"<html>", b"{}", b"null", b"[1]", b"[[]]", b'[{"a": 1}]', b'"jobs"', b"\xff", deep, b'[{"name": "x", "tags": 5}]'):
        with answering((200, {}, text)) as (server, there), failing(check, f"jobs: {text[:30]!r}", "", "rest-lit"):
            rest_lit.Client(there).jobs()
    for text in (b"", b"[]", b"{}", b'{"jobStatus": 5}', b"null"):
        with answering((200, {}, text)) as (server, there), failing(check, f"show: {text!r}", "", "rest-lit"):
            rest_lit.Client(there).show("alice~one")
    for text in (b"", b"[]", b'{"message": 5}', b'{"code": []}', b'{"message": "m", "errors": 7}'):
        with answering((400, {}, text)) as (server, there), failing(check, f"an error: {text!r}", "", "answers 400"):
            rest_lit.Client(there).jobs()
    with mock.patch("rest_lit.ANSWER_MAX", 10), answering((200, {}, b"[]" + b" " * 100)) as (server, there), \
            failing(check, "too large", "", "too large"):
        rest_lit.Client(there).jobs()
    with answering((202, {}, b"{}")) as (server, there), failing(check, "no Location", "", "rest-lit"):
        rest_lit.Client(there).submit({})
    with answering((200, {"Content-Length": 100}, b"[]")) as (server, there), failing(check, "cut off", "", there):
        rest_lit.Client(there).jobs()


def test_python_client_follows_no_redirect(check):
    """The token goes to its server alone."""
    folder = tempfile.mkdtemp(prefix="rest-lit-local.")
    path = write_file(folder, "token", "of-alice")
    with answering((200, {}, b"[]")) as (other, elsewhere):
        for status in (301, 302, 303, 307, 308):
            with answering((status, {"Location": f"{elsewhere}/api/v2/jobs"}, b"")) as (server, there), \
                    failing(check, f"{status}", "", f"answers {status}", "of-alice"):
                rest_lit.Client(there, path).jobs()
            check.equal("it had the token", [h["Authorization"] for _, _, h, _ in server.seen], ["Bearer of-alice"])
        check.equal("the other one", other.seen, [])
    shutil.rmtree(folder)


def test_python_client_names_a_missing_program(check):
    with mock.patch.dict(os.environ, {"PATH": "/nowhere"}), failing(check, "submit", "", "the program rest-lit is not installed"):
        rest_lit.Client("http://127.0.0.1:1").submit(["true"])
    with failing(check, "options", "", "one job at a time"):
        try:
            rest_lit.Client("http://127.0.0.1:1").submit(["true"], sweep="a=1,2")
        except TypeError as error:
            raise ValueError(str(error)) from None
    check.equal("the generator reads the document", subprocess.run([sys.executable, f"{PACKAGE}/generate"], input=run("page", "openapi").stdout,
                                                                   capture_output=True, check=True).stdout.decode().count("class Job:"), 1)
