"""Uploads of code to a server of one machine: what is kept, what is refused, what is left."""
import contextlib
import gzip
import hashlib
import http.client
import os
import resource
import stat
import tempfile
import time

from archives import archive, header, tar_of
from clients import TokenServer
from fakeapi import FakeApi, fake_server, served
from harness import BINARY, Server, job_v2, wait_until
from tokens import SECRET, bearer, token, write_file

GZIP = {"Content-Type": "application/gzip"}
ROUNDS = ("--janitor-interval", "1")


def put(server, sha, body, headers=()):
    return server.request("PUT", f"/api/v2/code/{sha}", body, {**GZIP, **dict(headers)})


def get(server, sha, headers=None):
    return server.request("GET", f"/api/v2/code/{sha}", headers=headers)


def name_of(sha, user="alice"):
    return "code-" + hashlib.sha256(f"{user}\0{sha}".encode()).hexdigest()[:40]


def kept(server):
    return sorted(os.listdir(os.path.join(server.directory, "jobs", "code")))


def job(name, sha):
    return job_v2(name, extras={"code": {"sha256": sha}})


def download(server, name, headers):
    """(status, ETag, body) of the code of a job; the answer has chunks."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/api/v2/jobs/{name}/code", headers=headers)
    reply = connection.getresponse()
    return reply.status, reply.headers["ETag"], reply.read()


def test_code_is_kept_in_a_file_and_given_back(check):
    sha, body = archive({"train.py": b"print()\n", "data": os.urandom(600_000)})
    with TokenServer("--visibility", "owner") as server:
        alice, bob, root = (bearer(token(user)) for user in ("alice", "bob", "root"))
        check.equal("without a token", put(server, sha, body).status, 401)
        check.equal("not there", get(server, sha, alice).status, 404)
        path = os.path.join(server.directory, "jobs", "code", name_of(sha))
        os.mkdir(path, 0o700)  # by a server that was killed before it wrote the ConfigMap
        with open(os.open(os.path.join(path, "part"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(body)
        first = put(server, sha, body, alice)
        check.equal("kept", (first.status, first.json["bytes"], first.json["entries"]), (201, len(body), 2))
        check.equal("again", put(server, sha, body, alice).status, 200)
        check.equal("it is there", get(server, sha, alice).json, first.json)
        check.equal("one directory", kept(server), [name_of(sha)])
        modes = [stat.S_IMODE(os.stat(p).st_mode) for p in (path, os.path.join(path, "part"))]
        check.equal("private", modes, [0o700, 0o600])
        check.equal("another user's is not found", get(server, sha, bob).status, 404)
        check.equal("... nor used", server.submit(job("not-mine", sha), bob).json["code"], "NoCodeError")
        check.equal("a job of it", server.submit(job("mine", sha), alice).status, 202)
        for headers in (alice, root):
            check.ok("given back, also to an admin", download(server, "alice~mine", headers) == (200, f'"{sha}"', body))
        check.equal("not to another user", download(server, "alice~mine", bob)[0], 403)
        check.equal("a job without code", server.submit(job_v2("none"), alice).status, 202)
        check.equal("... has none", server.request("GET", "/api/v2/jobs/alice~none/code", headers=alice).json["code"], "NoCodeError")
        os.unlink(os.path.join(path, "part"))
        check.equal("a file that is lost is told", get(server, sha, alice).status, 404)
        check.equal("... to a submission, too", server.submit(job("lost", sha), alice).status, 400)
        check.equal("sent again, it is kept again", put(server, sha, body, alice).status, 201)
        check.ok("... for its jobs, too", download(server, "alice~mine", alice) == (200, f'"{sha}"', body))


def test_bad_archives_leave_nothing(check):
    sha, body = archive({"a": b"1"})
    other = archive({"b": b"1"})[0]
    outside = archive({"../a": b"1"})
    with TokenServer() as server:
        alice = bearer(token("alice"))

        def refused(what, status, code, *arguments):
            reply = put(server, *arguments)
            check.ok(what, reply.status == status and reply.json["code"] == code and reply.json["message"], reply)
        refused("another hash", 400, "InvalidCodeError", other, body, alice)
        refused("a path above", 400, "InvalidCodeError", *outside, alice)
        refused("cut off", 400, "InvalidCodeError", sha, body[:-9], alice)
        refused("more behind it", 400, "InvalidCodeError", sha, body + b"more", alice)
        refused("no gzip", 400, "InvalidCodeError", sha, tar_of({"a": b"1"}), alice)
        refused("empty", 400, "InvalidCodeError", sha, b"", alice)
        refused("a name that is none", 400, "InvalidParametersError", "A" * 64, body, alice)
        bomb = header("zeros", b"0", 0o644, (1 << 30) + 1, "")  # refused before its content is read
        refused("a bomb", 413, "PayloadTooLargeError", sha, gzip.compress(bomb), alice)
        refused("without its length", 411, "LengthRequiredError", sha, b"", {**alice, "Content-Length": None, "Transfer-Encoding": "chunked"})
        refused("another type", 415, "UnsupportedMediaTypeError", sha, body, {**alice, "Content-Type": "text/plain"})
        refused("too large by its head", 413, "PayloadTooLargeError", sha, b"", {**alice, "Content-Length": str(5 << 30), "Expect": "100-continue"})
        check.equal("nothing is kept", kept(server), [])
        check.equal("the right one is", put(server, sha, body, alice).status, 201)


def head(sha, n, **more):
    lines = {"Host": "localhost", "Content-Type": "application/gzip", "Content-Length": str(n), **more}
    return (f"PUT /api/v2/code/{sha} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode()


def test_stopped_uploads_leave_nothing(check):
    """A client that leaves, one that stalls, and a server that is killed; a slow one succeeds."""
    sha, body = archive({"data": os.urandom(1_500_000)})
    with TokenServer("--read-timeout", "2") as server:
        access = bearer(token("alice"))

        def begin(n):
            connection = server.connect()
            connection.send(head(sha, len(body), **access) + body[:n])
            check.ok("it is being written", wait_until(lambda: len(kept(server)) == 1 and kept(server)[0].startswith("upload-")), kept(server))
            return connection
        begin(500_000).close()
        check.ok("a client that left leaves nothing", wait_until(lambda: kept(server) == []), kept(server))
        stalled = begin(500_000)
        check.ok("one that stalls is cut", wait_until(lambda: kept(server) == []), kept(server))
        stalled.close()
        for _ in range(5):  # a pause of the machine can be as long as the limit
            slow = begin(0)
            started = time.monotonic()
            try:
                for at in range(0, len(body), 300_000):
                    slow.send(body[at:at + 300_000])
                    time.sleep(0.6)
                reply, _ = slow.read(60, lambda data: b"\r\n\r\n" in data)
            except OSError:
                reply = b"cut"
            slow.close()
            if reply.startswith(b"HTTP/1.1 201"):
                break
            wait_until(lambda: kept(server) == [])
        check.ok("one that goes on may take longer", reply.startswith(b"HTTP/1.1 201") and time.monotonic() - started > 2, reply[:200])
        half = server.connect()
        half.send(head("0" * 64, len(body), **access) + body[:500_000])
        check.ok("another one", wait_until(lambda: len(kept(server)) == 2))
        server.kill()
        half.close()
        again = type(server)(*server.arguments, who=[], directory=server.directory)
        check.equal("a start removes what a killed server has left", kept(again), [name_of(sha)])
        check.equal("... and has what was kept", get(again, sha, access).status, 200)
        again.kill()


def test_full_disk_leaves_nothing_of_an_upload(check):
    """A limit of the size of files fails as a full disk does."""
    sha, body = archive({"data": os.urandom(900_000)})
    with Server("--engine=none", "--local", "jobs", program=["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh", BINARY]) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (800_000, resource.RLIM_INFINITY))
        full = put(server, sha, body)
        check.ok("it is told", full.status == 503 and "the code cannot be stored: File too large" in full.json["message"], full)
        check.ok("nothing is left", wait_until(lambda: kept(server) == []), kept(server))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        check.equal("with room, it is kept", put(server, sha, body).status, 201)


def trickle(server, body, access):
    """An upload whose body does not end."""
    connection = server.connect()
    connection.send(head("0" * 64, len(body), **access) + body[:1000])
    return connection


def places_are_shared(check, server, body, sha):
    """A user has four uploads at a time, all users together 16."""
    users = [bearer(token(f"user{i}")) for i in range(5)]
    opened = [trickle(server, body, users[0]) for _ in range(24)]

    def busy(user):
        time.sleep(0.2)  # the place of an answered request is free a moment later
        return put(server, sha, body, user).status == 429

    def fill(user):
        while not (busy(user) and busy(user)) and len(opened) < 200:
            opened.append(trickle(server, body, user))
    fill(users[0])
    more = put(server, sha, body, users[0])
    check.ok("one more of the same user is told to come later", more.status == 429 and more.headers["retry-after"] == "2" and
             "4 uploads of code of this user are under way" in more.json["message"], more)
    check.equal("another user's is taken", put(server, sha, body, users[1]).status, 201)
    for user in users[1:4]:
        fill(user)
    full = put(server, sha, body, users[4])
    check.ok("all places are taken", full.status == 503 and "retry-after" in full.headers and
             "16 uploads of code are under way" in full.json["message"], full)
    for connection in opened:
        connection.close()
    for user in (users[0], users[4]):
        check.ok("then it is taken", wait_until(lambda user=user: put(server, sha, body, user).status in (200, 201)))


def test_uploads_at_once_are_bounded_per_user(check):
    sha, body = archive({"data": os.urandom(300_000)})
    facts = {"virtualClusters": ["default"], "users": {f"user{i}": {"virtualClusters": ["default"]} for i in range(5)}}
    with TokenServer("--read-timeout", "600", "--idle-timeout", "600", facts=facts) as server:
        places_are_shared(check, server, body, sha)
        check.ok("nothing is left", wait_until(lambda: not [n for n in kept(server) if n.startswith("upload-")]), kept(server))
    directory = tempfile.mkdtemp(prefix="rest-lit-code.")
    secret = write_file(directory, "jwt-secret", SECRET)
    with contextlib.closing(FakeApi()) as api, fake_server(
            api, "--jwt-secret-file", secret, "--token-check", "signature", "--rate-address", "0", "--connections-per-address", "0",
            "--read-timeout", "600", "--idle-timeout", "600", who=[], directory=directory) as server:
        places_are_shared(check, server, body, sha)


def test_unused_code_of_a_machine_goes(check):
    """The ConfigMap and the file, also a file without one; not that of a job."""
    used, unused = archive({"a": b"1"}), archive({"a": b"2"})
    with TokenServer(*ROUNDS, "--code-age", "3600") as server:
        access = bearer(token("alice"))
        for sha, body in (used, unused):
            check.equal("kept", put(server, sha, body, access).status, 201)
        check.equal("a job", server.submit(job("uses", used[0]), access).status, 202)
        server.kill()
        left = os.path.join(server.directory, "jobs", "code", "code-" + "0" * 40)
        os.mkdir(left)
        os.utime(left, (0, 0))
        arguments = [a for a in server.arguments if a not in ("--code-age", "3600")]
        again = type(server)(*arguments, "--code-age", "0", who=[], directory=server.directory)
        check.ok("what no job names goes", wait_until(lambda: kept(again) == [name_of(used[0])]), kept(again))
        check.equal("it is not there", get(again, unused[0], access).status, 404)
        check.equal("that of a job is", get(again, used[0], access).status, 200)
        check.equal("the job goes", again.request("DELETE", "/api/v1/user/alice/jobs/uses", headers=access).status, 202)
        check.ok("then its code", wait_until(lambda: kept(again) == []), kept(again))
        again.kill()


def test_limits_of_a_machine_name_jobs(check):
    sha, body = archive({"a": os.urandom(200_000)})
    with TokenServer("--machine-code-user", "300000") as server:
        access = bearer(token("alice"))
        check.equal("kept", put(server, sha, body, access).status, 201)
        check.equal("a job", server.submit(job("large", sha), access).status, 202)
        full = put(server, *archive({"b": os.urandom(200_000)}), access)
        check.ok("no more", full.status == 413 and full.json["code"] == "CodeQuotaError" and "KiB: large)" in full.json["message"], full)
        check.equal("another user may", put(server, sha, body, bearer(token("bob"))).status, 201)
        check.equal("nothing is left of it", len(kept(server)), 2)


def test_last_use_that_others_write_does_not_refuse_a_job(check):
    """The API server gives up on a write among many of the same object."""
    sha, body = archive({"a": b"1"})
    for status, times, wanted, deadline in ((409, 1, 202, 200), (403, None, 500, 200), (503, None, 503, 2)):
        with served("--deadline", "200") as (api, server), fake_server(api, "--deadline", str(deadline)) as other:
            check.equal("kept", put(server, sha, body).status, 201)
            api.fault("PATCH", "configmaps", times=times, status=status)
            reply = other.submit(job(f"fails-{status}", sha))
            check.ok(f"{status}", reply.status == wanted and (wanted == 202 or reply.json["message"]), reply)
