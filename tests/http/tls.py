"""HTTPS: protocol versions, replaced certificates, incomplete handshakes."""
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from certificates import authorities, make_authorities, make_certificate, openssl
from fakeapi import FakeApi, fake_server
from harness import PATIENCE, SLOW, Closing, Connection, Server, free_port, job_v2, parse_replies, request_bytes, wait_until
from tokens import SECRET, bearer, token, write_file


class Secure(Connection):
    def __init__(self, port, context, timeout=PATIENCE):
        super().__init__(port, timeout)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


class TlsServer(Server):
    """A TLS server that requires tokens, with the certificate `one`."""

    def __init__(self, *arguments, cert="one", **more):
        self.folder = tempfile.mkdtemp(prefix="rest-lit-tls.")
        make_authorities(self.folder)
        make_certificate(self.folder, "one", 101)
        secret = write_file(self.folder, "jwt-secret", SECRET)
        self.install(cert)
        self.context = ssl.create_default_context(cafile=self.file("ca.crt"))
        super().__init__("--engine=none", "--local", "jobs", "--tls-cert", self.file("live.crt"), "--tls-key",
                         self.file("live.key"), "--rate-address", "0", "--connections-per-address", "0",
                         *arguments, who=["--jwt-secret-file", secret], **more)

    def file(self, name):
        return os.path.join(self.folder, name)

    def install(self, cert, key=None):
        """Installs another certificate."""
        for name, kind in ((cert, "crt"), (key or cert, "key")):
            shutil.copy2(self.file(f"{name}.{kind}"), self.file("new"))
            os.replace(self.file("new"), self.file(f"live.{kind}"))

    def connect(self, context=None):
        return Secure(self.port, context or self.context)

    def serial(self):
        """Serial number of the server's current certificate."""
        with self.connect() as c:
            return int(c.socket.getpeercert()["serialNumber"], 16)

    def reload(self, words):
        """Sends SIGHUP; returns True if the log reports it."""
        before = self.log().count(words)
        self.process.send_signal(signal.SIGHUP)
        return wait_until(lambda: self.log().count(words) > before)

    def remove(self):
        super().remove()
        shutil.rmtree(self.folder, ignore_errors=True)


READ_AGAIN = "the certificate was read again"


# ---- protocol -------------------------------------------------------------------------------
def s_client(server, *arguments):
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", server.file("ca.crt"),
         "-servername", "localhost", *arguments], input=b"", capture_output=True, timeout=60 * SLOW, check=False)
    return done.returncode, (done.stdout + done.stderr).decode("latin-1")


def test_tls_accepts_only_secure_versions_and_ciphers(check):
    with TlsServer() as server:
        old = ("-cipher", "ALL:@SECLEVEL=0")
        for arguments, fine in ((("-tls1_3",), True), (("-tls1_2",), True), (("-tls1_1", *old), False),
                                (("-tls1", *old), False),
                                (("-tls1_2", "-cipher", "NULL:@SECLEVEL=0"), False),
                                (("-tls1_2", "-cipher", "DES-CBC3-SHA:@SECLEVEL=0"), False),
                                # These suites lack forward secrecy or AEAD.
                                (("-tls1_2", "-cipher", "kRSA:@SECLEVEL=0"), False),
                                (("-tls1_2", "-cipher", "AES128-SHA256:AES256-SHA:AES128-SHA:@SECLEVEL=0"), False),
                                (("-tls1_2", "-cipher", "ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA"
                                  ":ECDHE-ECDSA-AES128-CCM:ECDHE-RSA-AES128-SHA:DHE-RSA-AES128-SHA256:@SECLEVEL=0"), False),
                                (("-tls1_2", "-cipher", "ECDHE+AESGCM:ECDHE+CHACHA20"), True),
                                (("-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"), True)):
            code, text = s_client(server, *arguments)
            check.equal(f"s_client {' '.join(arguments)}: a handshake",
                        code == 0 and "Verify return code: 0 (ok)" in text, fine)
        _, text = s_client(server, "-showcerts")
        check.equal("the chain is shown: server and intermediate", text.count("BEGIN CERTIFICATE"), 2)
        _, text = s_client(server, "-alpn", "h2,http/1.1")
        check.ok("HTTP/1.1 is agreed on", "ALPN protocol: http/1.1" in text, text[-400:])


def test_tls_serves_requests_of_all_sizes(check):
    with TlsServer() as server:
        check.equal("a job", server.submit(job_v2("tls"), bearer(token())).status, 202)
        check.equal("without a token", server.submit(job_v2("tls")).status, 401)
        large = job_v2("large").encode()
        large += b" " * (100 * 1024 - len(large))
        check.equal("a body of 100 KiB", server.submit(large, bearer(token())).status, 202)
        with server.connect() as c:
            get = request_bytes(server.port, "GET", "/healthz")
            c.send(get * 300)
            data, _ = c.read(PATIENCE, lambda d: len(parse_replies(d)) >= 300)
            check.equal("300 requests in a row", [r.status for r in parse_replies(data)], [200] * 300)
        with server.connect() as c:
            c.send_slowly(get)
            check.equal("byte by byte, each a record", c.reply().status, 200)
        with server.connect() as c:
            c.send(request_bytes(server.port, "POST", "/api/v2/jobs", job_v2("half").encode(), bearer(token())))
            socket.socket.shutdown(c.socket, socket.SHUT_WR)
            reply = c.reply()
            check.equal("half-closed by the client", reply and reply.status, 202)
        with Connection(server.port) as c:
            c.send(get)
            data, closed = c.read(PATIENCE)
            check.ok("plain HTTP to this port gets none", closed and b"HTTP/1" not in data, data[:80])
        with Connection(server.port) as c:
            c.send(b"\x80" * 5000)
            check.ok("noise is cut off", c.read(PATIENCE)[1])
        check.equal("alive", server.request("GET", "/healthz").status, 200)


def test_tls_without_auth_accepts_its_own_origin(check):
    """Requests of the server's own page over TLS are same-origin."""
    with TlsServer() as other:
        server = Server("--engine=none", "--local", "jobs", "--tls-cert", other.file("live.crt"), "--tls-key",
                        other.file("live.key"), wait=False)
        server.connect = lambda: Secure(server.port, other.context)
        check.ok("--no-auth over TLS", wait_until(server.answers))
        for origin, status in ((f"https://localhost:{server.port}", 202), (f"http://localhost:{server.port}", 403),
                               ("https://evil.example", 403)):
            reply = server.submit(job_v2("own"), {"Origin": origin})
            check.equal(f"Origin {origin}", reply.status, status)
        server.remove()


# ---- other certificates -------------------------------------------------------------------
def test_tls_reload_replaces_the_certificate(check):
    with TlsServer() as server:
        make_certificate(server.folder, "two", 102)
        with server.connect() as old:
            check.equal("the first certificate", server.serial(), 101)
            server.install("two")
            check.ok("SIGHUP", server.reload(READ_AGAIN))
            check.equal("the second", server.serial(), 102)
            old.send(request_bytes(server.port, "GET", "/healthz"))
            check.equal("a connection from before goes on", old.reply().status, 200)
        server.install("one")
        check.ok("without a signal, after a while", len(server.logged(READ_AGAIN, 2)) == 2)
        check.equal("the first again", server.serial(), 101)


def test_tls_reload_under_load_fails_no_request(check):
    """No request fails during continuous replacement of certificates."""
    with TlsServer() as server:
        make_certificate(server.folder, "two", 102, kind=("RSA", "rsa_keygen_bits:2048"))
        done = threading.Event()
        seen, lost = set(), []

        def client():
            while not done.is_set():
                try:
                    with server.connect() as c:
                        c.send(request_bytes(server.port, "GET", "/healthz"))
                        reply = c.reply()
                        if not reply or reply.status != 200:
                            lost.append(reply)
                        seen.add(int(c.socket.getpeercert()["serialNumber"], 16))
                except OSError as e:
                    lost.append(e)
        clients = [threading.Thread(target=client) for _ in range(4)]
        for t in clients:
            t.start()
        for i in range(10):
            server.install(("two", "one")[i % 2])
            check.ok(f"reload {i}", server.reload(READ_AGAIN))
        done.set()
        for t in clients:
            t.join()
        check.equal("requests that failed", lost, [])
        check.equal("both certificates were shown", seen, {101, 102})


# ---- start ------------------------------------------------------------------------------------
def test_tls_mistakes_prevent_the_start(check):
    with TlsServer() as good:
        folder = good.folder
        make_certificate(folder, "two", 102)
        make_certificate(folder, "weak", 103, kind=("RSA", "rsa_keygen_bits:1024"))
        make_certificate(folder, "old", 104, days="0")
        time.sleep(1.1)  # a certificate is still valid in the second of its creation
        openssl(folder, "pkey", "-in", "one.key", "-aes256", "-passout", "pass:x", "-out", "locked.key")
        with open(good.file("one.crt")) as f:
            parts = re.findall(r"-----BEGIN.*?END CERTIFICATE-----\n", f.read(), re.S)
        write_file(folder, "turned.crt", parts[1] + parts[0])
        with open(good.file("ca.crt")) as f:
            write_file(folder, "many.crt", f.read() * 20)
        os.mkfifo(good.file("pipe"))

        def start(cert, key, *more):
            server = Server("--engine=none", "--local", "jobs", "--tls-cert", good.file(cert), "--tls-key",
                            good.file(key), *more, wait=False, who=["--jwt-secret-file", good.file("jwt-secret")])
            server.connect = lambda: Secure(server.port, good.context)
            return server
        for cert, key, word in (
                ("one.crt", "two.key", "is not the key of"), ("one.crt", "locked.key", "encrypted"),
                ("one.crt", "nowhere", "No such file"), (".", "one.key", "not a regular file"),
                ("pipe", "one.key", "not a regular file"), ("weak.crt", "weak.key", "too short"),
                ("turned.crt", "one.key", "not in order"), ("many.crt", "ca.key", "more than 16")):
            server = start(cert, key)
            check.equal(f"{cert} {key}: does not start", server.process.wait(PATIENCE * SLOW), 2)
            check.ok(f"{cert} {key}: says {word}", word in server.log(), server.log())
            check.ok(f"{cert} {key}: nothing of the key is shown", "BEGIN" not in server.log(), server.log())
            server.remove()
        os.chmod(good.file("two.key"), 0o644)
        for cert, word in (("two", "may read it"), ("old", "has expired")):
            server = start(f"{cert}.crt", f"{cert}.key")
            check.ok(f"{cert}: starts, and warns", server.logged(word), server.log())
            server.remove()


# ---- slow clients ---------------------------------------------------------------------------
def test_tls_half_handshakes_are_cut_off(check):
    with TlsServer("--read-timeout", str(int(3 * SLOW))) as server:
        bio_in, bio_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        handshake = server.context.wrap_bio(bio_in, bio_out, server_hostname="localhost")
        try:
            handshake.do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello = bio_out.read()
        crowd = [Connection(server.port) for _ in range(200)]
        for i, c in enumerate(crowd):
            c.send((b"", hello[:1], hello[:100], hello)[i % 4])
        start = time.monotonic()
        # The server also closes connections of stalled test clients.
        fine = sum(wait_until(server.answers) for _ in range(20))
        took = time.monotonic() - start
        check.equal("served beside 200 handshakes that do not go on", fine, 20)
        check.ok("... soon", took < 60 * SLOW, took)
        cut = sum(c.read(60, lambda d: False)[1] for c in crowd)
        check.equal("all of them are cut off", cut, 200)
        check.ok("... in time", time.monotonic() - start < 60 * SLOW)


def test_tls_slow_clients_are_cut_off(check):
    with TlsServer("--read-timeout", "2", "--idle-timeout", "2") as server:
        def lives(data, pause):
            """The lifetime of a connection that sends single bytes slowly."""
            start = time.monotonic()
            with server.connect() as c:
                for i in range(len(data)):
                    if not c.send(data[i:i + 1]) or c.read(pause)[1]:
                        break
                    if time.monotonic() - start > 60 * SLOW:
                        break
            return time.monotonic() - start
        took = lives(request_bytes(server.port, "GET", "/healthz", headers={"X": "y" * 500}), 0.2 / SLOW)
        check.ok("a head in drops is cut off", 1 < took < 60 * SLOW, took)
        start = time.monotonic()
        with server.connect() as c:
            c.send(request_bytes(server.port, "GET", "/healthz"))
            check.ok("idle is cut off", c.read(60)[1])
        check.ok("... in time", time.monotonic() - start < 60 * SLOW)


# ---- the port for output -------------------------------------------------------------------
class Output(Closing):
    """A server with a separate certificate for its output port, and the certificates that it has
    published."""

    def __init__(self, api, *arguments, who=None, environment=None):
        self.api, self.port = api, free_port()
        self.server = fake_server(api, "--output-listen", f"127.0.0.1:{self.port}", *arguments, who=who,
                                  environment=environment or {"REST_LIT_OUTPUT_PORT": f"tcp://127.0.0.1:{self.port}"})
        self.close = self.server.remove

    def shown(self):
        return ssl.get_server_certificate(("127.0.0.1", self.port)).strip()

    def published(self):
        with self.api.lock:
            return self.api.objects.get(("configmaps", "rest-lit-output-ca"), {}).get("data", {}).get("ca.crt", "").strip()

    def is_published(self):
        shown = self.shown()
        return wait_until(lambda: self.published() == shown)

    def is_trusted(self):
        """Its certificate is among those that are published."""
        shown = self.shown()
        return wait_until(lambda: shown in self.published())

    def upload(self, text, authority):
        """The status for a client that trusts this authority only; or the error of TLS."""
        context = ssl.create_default_context(cadata=authority)
        try:
            with context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), PATIENCE * SLOW),
                                     server_hostname="127.0.0.1") as s:
                s.sendall(f"PUT /api/v2/task-output?exitCode=0&dropped=0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                          f"Content-Type: application/octet-stream\r\nAuthorization: Bearer {text}\r\nContent-Length: 0\r\n\r\n".encode())
                return int(s.recv(4096).split()[1])
        except ssl.SSLCertVerificationError as e:
            return e.verify_message


def test_output_certificate_is_published_and_shared(check):
    """The API is plain HTTP, the port for output is not.  Servers with the same secret have the same
    certificate."""
    with tempfile.TemporaryDirectory() as folder:
        api = FakeApi()
        secret = write_file(folder, "secret", SECRET)
        who = ["--jwt-secret-file", secret]
        with Output(api, who=who) as one, Output(api, who=who) as two:
            check.ok("published", one.is_published(), one.server.log())
            check.equal("the same of both", one.shown(), two.shown())
            check.equal("an invalid token, over TLS", two.upload("x", one.published()), 401)
            check.ok("pods get the address", one.server.request("POST", "/api/v2/jobs?dryRun=true", job_v2("url"), {
                **bearer(token()), "Content-Type": "application/json"}).body.find(
                    f"https://127.0.0.1:{one.port}".encode()) > 0)
            before = one.shown()
            write_file(folder, "secret", SECRET + b"-another")
            one.server.process.send_signal(signal.SIGHUP)
            check.ok("another secret and SIGHUP: another certificate", wait_until(lambda: one.shown() != before))
            check.ok("is published", one.is_published(), one.server.log())
            check.ok("the old one is trusted no more", isinstance(one.upload("x", before), str))
        with Output(api, who=who) as three:
            check.ok("a server that starts has this one", three.is_published())
        api.close()


def test_output_certificate_without_secret_is_random(check):
    """It is random: a restart publishes another one; SIGHUP does not."""
    api = FakeApi()
    seen = set()
    for what in ("first", "restarted"):
        with Output(api) as one:
            check.ok(f"{what}: published", one.is_trusted(), one.server.log())
            check.equal(f"{what}: trusted", one.upload("x", one.published()), 401)
            before = one.shown()
            one.server.process.send_signal(signal.SIGHUP)
            check.ok(f"{what}: SIGHUP", wait_until(lambda s=one.server: "SIGHUP" in s.log()))
            check.equal(f"{what}: stays", one.shown(), before)
            seen.add(before)
    check.equal("two certificates", len(seen), 2)


def test_output_certificates_of_several_servers_are_trusted(check):
    """Keys from OpenPAI's default secret, which is public, are random, too.  Pods trust all of these servers;
    the oldest certificates are forgotten."""
    with tempfile.TemporaryDirectory() as folder:
        api = FakeApi()
        who = ["--jwt-secret-file", write_file(folder, "weak", b"pai-secret"), "--token-check", "stored"]
        with Output(api, who=who) as one:
            check.ok("published", one.is_published(), one.server.log())
            with Output(api, who=who) as two:
                check.ok("beside that of another server", two.is_trusted(), two.server.log())
                check.ok("not the same", two.shown() != one.shown())
                for n, server in enumerate((one, two)):
                    check.equal(f"server {n}: trusted", server.upload("x", one.published()), 401)
            old = "".join(authorities()[name].decode() for name in ("ca.crt", "middle.crt"))
            api.update("configmaps", "rest-lit-output-ca", {"data": {"ca.crt": f"{one.published()}\n{old}"}})
            with Output(api, who=who) as other:
                check.ok("one more", other.is_trusted(), other.server.log())
                check.equal("four at most", one.published().count("BEGIN"), 4)
                check.ok("... the newest", one.published().startswith(other.shown()) and one.shown() in one.published() and
                         old.strip() not in one.published())
        with Output(api, who=["--jwt-secret-file", write_file(folder, "secret", SECRET)]) as derived:
            check.ok("with a secret: its certificate alone", derived.is_published(), derived.server.log())
        with Output(api, who=who) as one:
            check.ok("without it again: that one is not kept", one.is_published(), one.server.log())
        api.close()


def test_output_certificate_can_come_from_files(check):
    """--output-ca: the port has the certificate of --tls-cert, and this authority is published."""
    with tempfile.TemporaryDirectory() as folder:
        api = FakeApi()
        make_authorities(folder)
        make_certificate(folder, "one", 7)
        paths = {n: os.path.join(folder, n) for n in ("ca.crt", "one.crt", "one.key")}
        tls = ["--tls-cert", paths["one.crt"], "--tls-key", paths["one.key"]]
        context = ssl.create_default_context(cafile=paths["ca.crt"])
        who = ["--jwt-secret-file", write_file(folder, "secret", SECRET), *tls]

        class Encrypted(Server):
            def connect(self):
                return Secure(self.port, context)
        port = free_port()
        url = ["--output-listen", f"127.0.0.1:{port}", "--output-url", f"https://localhost:{port}"]
        with fake_server(api, *url, "--output-ca", paths["ca.crt"], who=who, kind=Encrypted) as server:
            with open(paths["one.crt"]) as f, open(paths["ca.crt"]) as ca:
                check.ok("that of the file", ssl.get_server_certificate(("127.0.0.1", port)).strip() in f.read())
                authority = ca.read().strip()
            check.ok("its authority is published", wait_until(lambda: api.objects.get(
                ("configmaps", "rest-lit-output-ca"), {}).get("data", {}).get("ca.crt", "").strip() == authority), server.log())
        with fake_server(api, *url, who=who, kind=Encrypted) as server:
            with open(paths["one.crt"]) as f:
                check.ok("without it: one of its own", ssl.get_server_certificate(("127.0.0.1", port)).strip() not in f.read())
        api.close()
