"""The upload of the end of a task's output to rest-lit; if it is impossible, `run` waits for
clients that follow the log."""
import gzip
import http.server
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import urllib.parse

from checks import PATIENCE, Root, check, equal, eventually, finish, tests

SECRETS = "/var/run/secrets/rest-lit/"
TOKEN = "token.of.pod"
HEADER = "#!/bin/bash\nset -o errexit\n"
KEPT, PACKED = 1 << 20, 512 << 10


class Receiver:
    """Answers PUT with these statuses in turn; the last one is repeated."""

    def __init__(self, *statuses, certificate=None):
        self.statuses, self.requests, self.sizes = list(statuses) or [204], [], []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.sizes.append(len(body))
                receiver.requests.append((self.path, self.headers, gzip.decompress(body)))
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                text = b"" if status == 204 else b'{"code": "X", "message": "said the receiver"}'
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://localhost:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Pod(Root):
    def __init__(self, user, url=None, framework=False, token=TOKEN, **env):
        super().__init__(**env)
        if framework:
            self.env["FC_TASKROLE_NAME"] = "worker"
        if url is not None:
            self.env["PAI_OUTPUT_URL"] = url
        if token:
            self.write(SECRETS + "token", token)
        self.write("/usr/local/pai/runtime.d/user.sh", HEADER + user, 0o755)

    def log(self, name):
        return self.read(self.logs(name)) or b""


def frames(body):
    """[(stream, text)]; None if the body has no valid frames."""
    found = []
    while body:
        if len(body) < 8 or body[0] not in (1, 2) or body[1:4] != b"\0\0\0":
            return None
        n = struct.unpack(">I", body[4:8])[0]
        if n == 0 or len(body) < 8 + n:
            return None
        found.append((body[0], body[8:8 + n]))
        body = body[8 + n:]
    return found


def query(path):
    url = urllib.parse.urlsplit(path)
    return url.path, {k: int(v[0]) for k, v in urllib.parse.parse_qs(url.query).items()}


# ---- requests ------------------------------------------------------------------------------------

RUNTIME = re.compile(rb"\[[^\]\n]*\] \[openpai-runtime\] [^\n]*\n")


def of_task(parts):
    """The frames without the lines of pai-runtime."""
    texts = [(stream, RUNTIME.sub(b"", text)) for stream, text in parts or []]
    return [(stream, text) for stream, text in texts if text]


def test_upload_has_frames_in_their_order():
    with Receiver() as r, Pod("for i in 1 2 3; do echo out$i; echo err$i >&2; done; echo a; echo b; exit 7", r.url) as p:
        done = p.run("run")
        equal("content: exit code of the container", done.returncode, 255)
        equal("content: one request", len(r.requests), 1)
        path, headers, body = r.requests[0]
        equal("content: path and query", query(path), ("/api/v2/task-output", {"exitCode": 255, "dropped": 0}))
        equal("content: token", headers["Authorization"], "Bearer " + TOKEN)
        equal("content: type", headers["Content-Type"], "application/octet-stream")
        equal("content: frames in the order of writing, neighbours of a stream in one",
              of_task(frames(body)), [(1, b"out1\n"), (2, b"err1\n"), (1, b"out2\n"), (2, b"err2\n"), (1, b"out3\n"),
                             (2, b"err3\n"), (1, b"a\nb\n")])
        equal("content: with the lines of pai-runtime, it is the log of the container",
              [b"".join(t for s, t in frames(body) if s == stream) for stream in (1, 2)], [done.stdout, done.stderr])
        check("content: the report was there before", p.read("/tmp/pai-termination-log"))
        check("content: nothing is said of it", b"output" not in p.log("runtime.log"), p.log("runtime.log"))
        check("content: the token is in no log", TOKEN.encode() not in done.stdout + done.stderr)


def sent(user):
    """The query, the frames, the body, and the output of the container."""
    with Receiver() as r, Pod(user, r.url) as p:
        done = p.run("run")
        if len(r.requests) != 1:
            return None, [], b"", done
        path, _, body = r.requests[0]
        return query(path)[1], frames(body), body, done


def size(parts):
    return sum(len(text) for _, text in parts)


def missing(parts, done):
    return {"exitCode": 0, "dropped": len(done.stdout + done.stderr) - size(parts)}


def test_upload_is_limited_to_the_end():
    asked, parts, body, done = sent("seq 1 600000")
    out, text = done.stdout, b"".join(t for _, t in of_task(parts))
    check("truncated: whole lines of the end", out.endswith(text) and out[-len(text) - 1:-len(text)] == b"\n", text[:20])
    check("truncated: as much as is kept", KEPT - 10 < size(parts) <= KEPT, size(parts))
    equal("truncated: what is missing is told", asked, missing(parts, done))
    asked, parts, body, done = sent("head -c 3000000 /dev/zero | tr '\\0' x")
    equal("truncated, one line: exactly what is kept", (asked, size(parts)), (missing(parts, done), KEPT))
    equal("truncated, one line: of the line", {text.strip(b"x") for _, text in of_task(parts)}, {b""})
    asked, parts, body, done = sent("exec python3 -c \"import os\nfor i in range(20000): os.write(1 + i % 2, b'x')\"")
    check("interleaved: number of frames", len(parts) <= 16384 and len(body) <= KEPT + 8 * 16384, len(parts))
    equal("interleaved: what is missing is told", asked, missing(parts, done))
    with Receiver() as r, Pod("head -c 2000000 /dev/urandom", r.url) as p:
        done = p.run("run")
        parts = frames(r.requests[0][2])
        text = b"".join(t for s, t in parts if s == 1)
        check("what cannot be compressed: as much as may be sent", r.sizes[0] <= PACKED and len(text) > PACKED * 7 // 8 and
              done.stdout.endswith(text), (r.sizes, len(text)))
        equal("what cannot be compressed: what is missing is told", query(r.requests[0][0])[1], missing(parts, done))
    asked, parts, body, done = sent(":")
    equal("empty: only lines of pai-runtime", (asked, of_task(parts)), ({"exitCode": 0, "dropped": 0}, []))


def certificate(folder, name):
    """A certificate of its own authority for localhost, with its key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"],
                   check=True, capture_output=True, cwd=folder)
    with open(f"{folder}/{name}.pem", "w", encoding="ascii") as out:
        for part in (f"{name}.key", f"{name}.crt"):
            with open(f"{folder}/{part}", encoding="ascii") as f:
                out.write(f.read())
    with open(f"{folder}/{name}.crt", encoding="ascii") as f:
        return f"{folder}/{name}.pem", f.read()


def test_upload_verifies_the_certificate():
    folder = tempfile.mkdtemp(prefix="pai-upload-")
    try:
        pem, crt = certificate(folder, "good")
        _, other = certificate(folder, "other")
        with Receiver(certificate=pem) as r:
            def log_of(authority):
                with Pod("echo hello", r.url) as p:
                    p.write(SECRETS + "ca.crt", authority)
                    p.run("run")
                    return p.log("runtime.log")
            # Again, if the receiver was too slow for the time limit of an upload.
            check("TLS: it arrives", eventually(lambda: log_of(crt) and r.requests))
            equal("TLS: what is sent", of_task(frames(r.requests[0][2])), [(1, b"hello\n")])
            r.requests.clear()
            check("TLS, another authority: that is said", eventually(lambda: b"is not signed by an authority" in log_of(other)))
            equal("TLS, another authority: nothing is sent", r.requests, [])
    finally:
        shutil.rmtree(folder)


# ---- answers ----------------------------------------------------------------------------------------

def test_upload_is_retried_by_status():
    with Receiver(503, 429, 500, 204) as r, Pod("echo hello", r.url) as p:
        p.run("run")
        equal("busy: tried again until it is stored", len(r.requests), 4)
        equal("busy: the same again", len({(path, body) for path, _, body in r.requests}), 1)
        check("busy: nothing is said of it", b"output" not in p.log("runtime.log"), p.log("runtime.log"))
    for status in (400, 401, 403, 404, 409, 413):
        with Receiver(status) as r, Pod("echo hello; exit 3", r.url) as p:
            done = p.run("run")
            equal(f"{status}: not tried again", len(r.requests), 1)
            equal(f"{status}: the task's own end", done.returncode, 255)
            lines = [line for line in p.log("runtime.log").splitlines() if b"not uploaded" in line]
            check(f"{status}: one line", len(lines) == 1 and str(status).encode() in lines[0] and
                  b"said the receiver" in lines[0], lines)
    with Receiver(503) as r, Pod("echo hello", r.url) as p:
        equal("always busy: ends all the same", p.run("run").returncode, 0)
        check("always busy: a few attempts", 2 <= len(r.requests) < 50, len(r.requests))


def test_upload_needs_token_and_https():
    with Receiver() as r:
        for name, url, token, word in (
                ("no token", r.url, None, b"token"), ("http to another machine", "http://192.0.2.1:1", TOKEN, b"https"),
                ("no address", "rest-lit:80", TOKEN, b"https://HOST"),
                ("https without an authority", "https://localhost:1", TOKEN, b"ca.crt")):
            with Pod("echo hello", url, token=token) as p:
                equal(f"{name}: the task's own end", p.run("run").returncode, 0)
                check(f"{name}: said", word in p.log("runtime.log"), p.log("runtime.log"))
        equal("nothing was sent", r.requests, [])


# ---- waiting for readers of the log --------------------------------------------------------------------

def ended(p):
    return b"USER COMMAND END" in p.log("runtime.log")


def order(first, *second):
    """Starts a pod, and another one when the command of the first has ended. Returns which run ends
    first. Repeats that, since a busy machine may delay either."""
    for _ in range(10):
        with Pod(":", **first) as a, Pod(":", **dict(*second)) as b:
            one = a.start("run")
            eventually(lambda: ended(a) or one.poll() is not None)
            two = b.start("run")
            eventually(lambda: one.poll() is not None or two.poll() is not None)
            second_is_first = two.poll() is not None and one.poll() is None
            one.communicate(timeout=PATIENCE)
            two.communicate(timeout=PATIENCE)
            if second_is_first:
                return True
    return False


def test_upload_that_fails_waits_for_log_readers():
    with Receiver() as good, Receiver(403) as bad:
        stored = {"url": good.url, "framework": True}
        check("no address: waits, while one that was stored ends", order({"framework": True}, stored))
        check("refused: waits, too", order({"url": bad.url, "framework": True}, stored))
        check("no Framework: does not wait", order({"framework": True}, {}))


def test_upload_follows_a_sigterm():
    with Receiver() as r, Pod("trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.1; done", r.url,
                              framework=True) as p:
        run = p.start("run")
        eventually(lambda: b"ready" in p.log("user-all/current"))
        run.terminate()
        run.communicate(timeout=PATIENCE)
        check("SIGTERM: what it said last arrives", len(r.requests) == 1 and of_task(frames(r.requests[0][2]))[-1][1].endswith(b"bye\n"),
              r.requests)
    silent = socket.create_server(("127.0.0.1", 0))
    with Pod("trap 'exit 4' TERM; echo ready; while :; do sleep 0.1; done", framework=True, PAI_TERM_GRACE_SEC="2",
             url=f"http://127.0.0.1:{silent.getsockname()[1]}") as p:
        run = p.start("run")
        eventually(lambda: b"ready" in p.log("user-all/current"))
        run.terminate()
        run.communicate(timeout=PATIENCE)
        equal("SIGTERM, a receiver that says nothing: its own end", run.returncode, 255)
        check("SIGTERM, a receiver that says nothing: said", b"no answer in time" in p.log("runtime.log"),
              p.log("runtime.log"))
    silent.close()
    for _ in range(10):
        with Pod(":", framework=True) as a, Pod(":", framework=True) as b:
            one = a.start("run")
            eventually(lambda a=a, one=one: ended(a) or one.poll() is not None)
            two = b.start("run")
            eventually(lambda b=b, two=two: ended(b) or two.poll() is not None)
            two.send_signal(signal.SIGTERM)
            eventually(lambda one=one, two=two: one.poll() is not None or two.poll() is not None)
            good = two.poll() == 0 and one.poll() is None
            one.communicate(timeout=PATIENCE)
            two.communicate(timeout=PATIENCE)
        if good:
            break
    check("SIGTERM ends the waiting", good)


tests(test_upload_has_frames_in_their_order, test_upload_is_limited_to_the_end, test_upload_verifies_the_certificate,
      test_upload_is_retried_by_status, test_upload_needs_token_and_https, test_upload_that_fails_waits_for_log_readers,
      test_upload_follows_a_sigterm, at_once=True)
finish()
