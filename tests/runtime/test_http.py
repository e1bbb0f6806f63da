"""The HTTP client of pai-runtime (runtime-assets/net/http.c) with correct, faulty, slow and hanging
servers.  tests/runtime/http/fetch.c is the test program."""
import datetime
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import warnings

from checks import PATIENCE, RUNTIME, check, equal, finish, tests

FETCH = os.path.join(os.path.dirname(RUNTIME), "tests", "runtime", "fetch")
DNS, CONNECT, TLS, TIMEOUT, BROKEN, TOO_LARGE, _, NO_COMMON_TLS = range(1, 9)
NAME = "kubernetes.default.svc"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
warnings.simplefilter("ignore", DeprecationWarning)  # the test needs TLS 1.1
folder = tempfile.mkdtemp(prefix="pai-http-")


def at(name):
    return os.path.join(folder, name)


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=folder)


# ---- certificates ------------------------------------------------------------------------------

def new_key(name, kind):
    if kind == "rsa":
        openssl("genrsa", "-out", f"{name}.key", "2048")
    elif kind == "rsa1024":
        openssl("genrsa", "-out", f"{name}.key", "1024")
    elif kind == "ed25519":
        openssl("genpkey", "-algorithm", kind, "-out", f"{name}.key")
    else:
        openssl("ecparam", "-name", kind, "-genkey", "-noout", "-out", f"{name}.key")


def new_ca(name, kind):
    new_key(name, kind)
    openssl("req", "-x509", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-days", "3",
            "-out", f"{name}.crt", "-addext", "basicConstraints=critical,CA:TRUE")


def new_certificate(name, ca, kind="prime256v1", names=f"DNS:{NAME},IP:127.0.0.1", digest="sha256",
                    usage="serverAuth", **when):
    """Signed by a CA.  start, end: days from now.  Servers with RSA share a key, which takes long to make."""
    if kind == "rsa" and os.path.exists(at("server-rsa.key")):
        shutil.copy(at("server-rsa.key"), at(f"{name}.key"))
    else:
        new_key(name, kind)
    if kind == "rsa":
        shutil.copy(at(f"{name}.key"), at("server-rsa.key"))
    openssl("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
    os.makedirs(at("ca"), exist_ok=True)
    for file, text in (("index", ""), ("serial", "01"), ("index.attr", "unique_subject = no")):
        with open(at(f"ca/{file}"), "w", encoding="ascii") as f:
            f.write(text)
    with open(at("ca.cnf"), "w", encoding="ascii") as f:
        f.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase=ca/index\nserial=ca/serial\nnew_certs_dir=ca\n"
                f"policy=p\n[p]\ncommonName=supplied\n[x]\nsubjectAltName={names}\n"
                f"extendedKeyUsage={usage}\n")

    def day(n):
        now = datetime.datetime.now(datetime.timezone.utc)
        return (now + datetime.timedelta(days=n)).strftime("%Y%m%d%H%M%SZ")
    openssl("ca", "-batch", "-config", "ca.cnf", "-extensions", "x", "-notext", "-md", digest,
            "-cert", f"{ca}.crt", "-keyfile", f"{ca}.key", "-in", f"{name}.csr", "-out",
            f"{name}.crt", "-startdate", day(when.get("start", -1)), "-enddate", day(when.get("end", 2)))


def write(name, text):
    with open(at(name), "w", encoding="utf-8") as f:
        f.write(text)


def read(name):
    with open(at(name), encoding="ascii") as f:
        return f.read()


def make_certificates():
    new_ca("ca-ec", "prime256v1")
    new_ca("ca-rsa", "rsa")
    new_ca("ca-384", "secp384r1")
    new_certificate("good", "ca-ec")
    new_certificate("good-rsa", "ca-rsa", "rsa")
    new_certificate("good-384", "ca-384", "secp384r1", digest="sha384")
    new_certificate("mixed", "ca-ec", "rsa")
    new_certificate("wild", "ca-ec", names="DNS:*.default.svc")
    new_certificate("expired", "ca-ec", start=-9, end=-2)
    new_certificate("early", "ca-ec", start=1, end=3)
    new_certificate("other-name", "ca-ec", names="DNS:other.example")
    new_certificate("by-address", "ca-ec", names="IP:127.0.0.1,IP:::1")
    new_certificate("other-address", "ca-ec", names=f"DNS:{NAME},DNS:127.0.0.1,IP:127.0.0.2")
    new_certificate("client", "ca-ec", usage="clientAuth")
    new_certificate("ed25519", "ca-ec", "ed25519")
    new_certificate("short", "ca-rsa", "rsa1024")
    new_certificate("sha1", "ca-rsa", "rsa", digest="sha1")
    new_ca("ca-521", "secp521r1")
    new_key("ca-sha1", "rsa")
    openssl("req", "-x509", "-new", "-key", "ca-sha1.key", "-sha1", "-subj", "/CN=ca-sha1", "-days", "3",
            "-out", "ca-sha1.crt", "-addext", "basicConstraints=critical,CA:TRUE")
    new_certificate("by-sha1", "ca-sha1")
    new_certificate("by-521", "ca-521", digest="sha512")
    # The file has as many certificates as systems have, and one that cannot be read.
    write("large.crt", 70 * read("ca-rsa.crt") + read("ca-521.crt") + 70 * read("ca-384.crt") + read("ca-ec.crt"))
    all_three = read("ca-rsa.crt") + read("ca-384.crt") + read("ca-ec.crt")
    write("bundle.crt", "# system bundle\n\nsubject=äöü\n" + all_three.replace(
        "-----BEGIN", "text between\n-----BEGIN", 1))
    broken = read("ca-rsa.crt").splitlines()
    broken[3] = "!" + broken[3]
    write("mended.crt", read("good.key") + "\n".join(broken) + "\n" + read("ca-ec.crt").rstrip())
    write("crlf.crt", read("ca-ec.crt").replace("\n", "\r\n"))
    write("junk.crt", "this is no certificate\n")
    write("cut.crt", read("ca-ec.crt")[:200])
    write("empty.crt", "")


# ---- servers -----------------------------------------------------------------------------------

class Server:
    """Listens on a free port and calls `serve(connection)` for each connection; with a context,
    over TLS."""

    def __init__(self, serve, context=None, family=socket.AF_INET):
        self.serve, self.context, self.requests = serve, context, []
        self.socket = socket.socket(family)
        self.socket.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.socket.listen(8)
        self.port = str(self.socket.getsockname()[1])
        self.over = threading.Event()
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        try:
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            self.serve(self, connection)
            if self.context:
                connection.unwrap()
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def request(self, connection):
        """The head of a request, kept in requests."""
        text = b""
        while b"\r\n\r\n" not in text:
            more = connection.recv(65536)
            if not more:
                break
            text += more
        self.requests.append(text)
        return text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes accept, which would keep it open
        self.socket.close()


def replies(*parts, pause=0.0):
    def serve(server, connection):
        server.request(connection)
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
    return serve


def tls(name, **more):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.load_cert_chain(at(f"{name}.crt"), at(f"{name}.key"))
    for key, value in more.items():
        setattr(context, key, value)
    return context


def fetch(server, *args, target="/", host="127.0.0.1", port=None):
    """The result of fetch, (error, status, text), and its duration."""
    started = time.monotonic()
    done = subprocess.run([FETCH, "--ms", "60000", *args, host, port or server.port, target], capture_output=True,
                          timeout=PATIENCE, check=False)
    out = done.stdout
    first, _, rest = out.partition(b"\n")
    kind, _, number = first.decode().partition(" ")
    result = {"seconds": time.monotonic() - started, "text": rest.decode(errors="replace"), "trouble": 0,
              "status": 0, "stderr": done.stderr.decode(errors="replace")}
    if kind in ("trouble", "status"):
        result[kind] = int(number)
    else:
        result["trouble"] = f"exit status {done.returncode}: {result['stderr'][-2000:]}"
    result["body"] = rest[1:] if rest.startswith(b"\n") else rest.partition(b"\r\n\n")[2]
    return result


def refused(name, got, trouble, *words):
    text = got["text"]
    check(name, got["trouble"] == trouble and all(w in text for w in words), f"{got}, want {trouble} {words}")


SECURE = ("--name", NAME, "--ca")
MS = "8000"  # a deadline that is to be reached, after what comes before


# ---- facts -------------------------------------------------------------------------------------

def test_plain_requests_get_replies():
    with Server(replies(HELLO)) as s:
        got = fetch(s, "--header", "Authorization: Bearer secret", target="/a?b=c")
        equal("plain: status and body", (got["status"], got["body"]), (200, b"hello"))
        equal("plain: the request, as sent", s.requests[0],
              b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:" + s.port.encode() +
              b"\r\nConnection: close\r\nAccept-Encoding: identity\r\nAuthorization: Bearer secret\r\n\r\n")
        equal("a name that has IPv6 and IPv4", fetch(s, host="localhost")["status"], 200)
    try:
        with Server(replies(HELLO), family=socket.AF_INET6) as s:
            equal("IPv6", fetch(s, host="::1")["status"], 200)
            check("IPv6 stands in brackets", b"Host: [::1]:" in s.requests[0], s.requests)
            if "::1" in [a[4][0] for a in socket.getaddrinfo("localhost", 80)]:
                equal("a name with both where only IPv6 listens", fetch(s, host="localhost")["status"], 200)
    except OSError:
        print("   no IPv6 on this machine")
    proxy = dict(os.environ, http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1")
    with Server(replies(HELLO)) as s:
        done = subprocess.run([FETCH, "127.0.0.1", s.port, "/"], env=proxy, capture_output=True, check=False)
        check("no proxy of the environment", done.stdout.startswith(b"status 200"), done.stdout)


def test_certificates_are_verified_by_name():
    for name, ca in (("good", "ca-ec"), ("good-rsa", "ca-rsa"), ("good-384", "ca-384"), ("mixed", "ca-ec"),
                     ("wild", "ca-ec"), ("good", "bundle"), ("good-rsa", "bundle"), ("good", "mended"),
                     ("good", "crlf"), ("good", "large"), ("by-sha1", "ca-sha1")):
        with Server(replies(HELLO), tls(name)) as s:
            got = fetch(s, *SECURE, at(f"{ca}.crt"))
            equal(f"certificate {name} by {ca}", (got["trouble"], got["body"]), (0, b"hello"))
    with Server(replies(HELLO), tls("good")) as s:
        refused("another authority", fetch(s, *SECURE, at("ca-rsa.crt")), TLS,
                f"certificate of 127.0.0.1:{s.port} is not signed by an authority that is trusted here")
        equal("no request was sent to those", s.requests, [])
    new_ca("twin", "prime256v1")
    os.rename(at("ca-ec.crt"), at("ca-ec.old"))
    new_key("ca-twin", "prime256v1")
    openssl("req", "-x509", "-new", "-key", "ca-twin.key", "-subj", "/CN=ca-ec", "-days", "3", "-out",
            "twin.crt", "-addext", "basicConstraints=critical,CA:TRUE")
    os.rename(at("ca-ec.old"), at("ca-ec.crt"))
    for name, ca, words in (("other-name", "ca-ec", f"is not valid for {NAME}"),
                            ("expired", "ca-ec", "has expired or is not valid yet (our clock shows 20"),
                            ("early", "ca-ec", "has expired or is not valid yet"),
                            ("good", "twin", "is not signed by an authority that is trusted"),
                            ("short", "ca-rsa", "less than 2048 bits"),
                            ("client", "ca-ec", "is not one for servers"),
                            ("sha1", "ca-rsa", "not known here (SHA-1")):
        with Server(replies(HELLO), tls(name)) as s:
            refused(f"certificate {name} by {ca}", fetch(s, *SECURE, at(f"{ca}.crt")), TLS, "certificate of",
                    words)
            equal(f"certificate {name}: no request was sent", s.requests, [])
    for ca in ("junk", "empty", "cut"):
        refused(f"no certificate in {ca}.crt", fetch(None, *SECURE, at(f"{ca}.crt"), port="1"), 99,
                f"{ca}.crt: no certificate")
    refused("no file", fetch(None, *SECURE, at("nowhere.crt"), port="1"), 99, "is not there")


def test_certificates_are_verified_by_address():
    """The certificate must have the address, if that is the name of the server."""
    ca = at("ca-ec.crt")
    for name in ("good", "by-address"):
        with Server(replies(HELLO), tls(name)) as s:
            equal(f"{name}: asked by address", fetch(s, "--ca", ca)["body"], b"hello")
    with Server(replies(HELLO), tls("by-address")) as s:
        refused("asked by name", fetch(s, *SECURE, ca), TLS, f"is not valid for {NAME}")
        refused("another address", fetch(s, "--ca", ca, "--name", "127.0.0.2"), TLS, "is not valid for 127.0.0.2")
        equal("IPv6", fetch(s, "--ca", ca, "--name", "::1")["body"], b"hello")
        refused("another authority", fetch(s, "--ca", at("ca-rsa.crt")), TLS, "is not signed by an authority")
    with Server(replies(HELLO), tls("other-address")) as s:
        refused("the address as a name", fetch(s, "--ca", ca), TLS, "is not valid for 127.0.0.1")
        equal("with the other address", fetch(s, "--ca", ca, "--name", "127.0.0.2")["body"], b"hello")
        equal("one request", len(s.requests), 1)
    names = []
    context = tls("good")
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    with Server(replies(HELLO), context) as s:
        fetch(s, "--ca", ca)
        fetch(s, *SECURE, ca)
    equal("an address is not sent as the name of the server", names, [None, NAME])


class RealServer:
    """openssl s_server; it answers with a page about the connection."""

    def __init__(self, name, *options):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = str(s.getsockname()[1])
        self.process = subprocess.Popen(
            ["openssl", "s_server", "-accept", f"127.0.0.1:{self.port}", "-cert", f"{name}.crt", "-key",
             f"{name}.key", "-www", *options], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while b"ACCEPT" not in (line := self.process.stdout.readline()):
            if not line:
                raise OSError("openssl s_server does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_real_servers_of_each_kind_are_accepted():
    """Every version, kind of key and group, each alone."""
    for version in ("-tls1_2", "-tls1_3"):
        for name, ca in (("good", "ca-ec"), ("good-rsa", "ca-rsa"), ("good-384", "ca-384")):
            for group in ("X25519", "P-256", "P-384"):
                # The curve of a certificate is one of the groups of TLS 1.2.
                more = ["P-256", "P-384"] if version == "-tls1_2" else []
                groups = ":".join(dict.fromkeys([group, *more]))
                with RealServer(name, version, "-groups", groups) as s:
                    got = fetch(s, *SECURE, at(f"{ca}.crt"))
                    check(f"openssl {version} {name} {group}", got["status"] == 200 and
                          version.removeprefix("-tls").replace("_", ".") in got["text"], got)
        with RealServer("good", version) as s:
            got = fetch(s, "--ca", at("ca-ec.crt"))
            equal(f"openssl {version}, by address", got["status"], 200)
            check(f"openssl {version}: P-256 first, which is the fastest", "Supported groups: secp256r1:" in got["text"],
                  got)
            for name, ca in (("another.example", "ca-ec"), (NAME, "ca-rsa"), ("127.0.0.2", "ca-ec")):
                got = fetch(s, "--name", name, "--ca", at(f"{ca}.crt"))
                refused(f"openssl {version}: {name} by {ca}", got, TLS, "certificate of")
        with RealServer("expired", version) as s:
            refused(f"openssl {version}, expired", fetch(s, *SECURE, at("ca-ec.crt")), TLS, "has expired")
        with RealServer("good-rsa", version, "-Verify", "1") as s:
            got = fetch(s, *SECURE, at("ca-rsa.crt"))
            check(f"openssl {version}, wants a certificate", "wants a client certificate" in got["text"] or
                  "may want a client" in got["text"], got)
    # TLS 1.2 with each of the algorithms that RSA keys sign with.
    for algorithm in ("rsa_pss_rsae_sha256", "rsa_pss_rsae_sha512", "RSA+SHA256", "RSA+SHA512"):
        with RealServer("good-rsa", "-tls1_2", "-sigalgs", algorithm) as s:
            equal(f"openssl, TLS 1.2 with {algorithm}", fetch(s, *SECURE, at("ca-rsa.crt"))["status"], 200)
    with RealServer("by-521", "-cert_chain", "ca-521.crt") as s:
        refused("a key of P-521 in the chain", fetch(s, *SECURE, at("ca-ec.crt")), TLS,
                "a certificate cannot be read here")
    with RealServer("ed25519") as s:
        refused("a key of a kind that is not known", fetch(s, *SECURE, at("ca-ec.crt")), NO_COMMON_TLS,
                "no cipher in common")
    with RealServer("good", "-tls1_3", "-groups", "P-521") as s:
        refused("no group in common", fetch(s, *SECURE, at("ca-ec.crt")), NO_COMMON_TLS, "no cipher in common")


def test_versions_before_tls_1_2_are_refused():
    ca = at("ca-ec.crt")
    for only in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with Server(replies(HELLO), tls("good", minimum_version=only, maximum_version=only)) as s:
            equal(f"{only.name} only", fetch(s, *SECURE, ca)["body"], b"hello")
    old = tls("good")
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with Server(replies(HELLO), old) as s:
        refused("TLS 1.1 at most", fetch(s, *SECURE, ca), NO_COMMON_TLS, "does not speak TLS 1.2 or 1.3")
    for cipher, good in (("ECDHE-ECDSA-AES128-GCM-SHA256", True), ("ECDHE-ECDSA-AES256-GCM-SHA384", True),
                         ("ECDHE-ECDSA-CHACHA20-POLY1305", True), ("ECDHE-ECDSA-AES128-SHA", False)):
        context = tls("good", maximum_version=ssl.TLSVersion.TLSv1_2)
        context.set_ciphers(cipher)
        with Server(replies(HELLO), context) as s:
            got = fetch(s, *SECURE, ca)
            if good:
                equal(f"cipher {cipher}", got["body"], b"hello")
            else:
                refused(f"cipher {cipher}", got, NO_COMMON_TLS, "no cipher in common")
    optional = tls("good", verify_mode=ssl.CERT_OPTIONAL)
    optional.load_verify_locations(ca)
    with Server(replies(HELLO), optional) as s:
        equal("a client certificate that may be given", fetch(s, *SECURE, ca)["body"], b"hello")
    wanted = tls("good", verify_mode=ssl.CERT_REQUIRED)
    wanted.load_verify_locations(ca)
    with Server(replies(HELLO), wanted) as s:
        got = fetch(s, *SECURE, ca)
        check("a client certificate that must be given", got["trouble"] in (NO_COMMON_TLS, BROKEN), got)
    def plain_only(_server, connection):
        connection.recv(1)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with Server(plain_only) as s:
        refused("TLS to a port without", fetch(s, *SECURE, ca), TLS, "does not speak TLS")
    with Server(replies(HELLO), tls("good")) as s:
        refused("no TLS to a port with", fetch(s), BROKEN)


def waits_forever(stage):
    def serve(server, connection):
        if stage == "request":
            server.over.wait(600)
        server.request(connection)
        if stage == "head":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-")
        if stage == "body":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
        if stage == "chunk":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        server.over.wait(600)
    return serve


def drips(_server, connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


def in_time(name, got, words, ms=MS):
    refused(name, got, TIMEOUT, "no answer in time", words)
    # It must not give up before; and by far not wait for the other side.
    check(f"{name}: at the deadline", int(ms) / 1000 - 0.1 <= got["seconds"], got)


def test_deadlines_end_stalled_requests():
    secure = ("--ms", MS, *SECURE, at("ca-ec.crt"))
    plain_ones = [("request", "waiting for the reply"), ("reply", "waiting for the reply"),
                  ("head", "waiting for the reply"), ("body", "reading the reply"), ("chunk", "reading the reply")]
    cases = [(f"silent at: {stage}", waits_forever(stage), False, words) for stage, words in plain_ones]
    cases.append(("a byte now and then", drips, False, "reading the reply"))
    cases += [(f"{name}, TLS", serve, True, words) for name, serve, _, words in cases]

    def one(name, serve, with_tls, words):
        with Server(serve, tls("good") if with_tls else None) as s:
            in_time(name, fetch(s, *(secure if with_tls else ("--ms", MS))), words)
    # The cases run concurrently, because each needs much time on a busy machine.
    threads = [threading.Thread(target=one, args=case) for case in cases]
    for thread in threads:
        thread.start()
    with Server(waits_forever("request")) as s:
        in_time("silent at: handshake", fetch(s, *secure), "agreeing on TLS")
    for thread in threads:
        thread.join()
    # A listener whose queue is full does not answer.
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    port = full.getsockname()[1]
    waiting = []
    for _ in range(4):
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        waiting[-1].connect_ex(("127.0.0.1", port))
    in_time("silent at: connect", fetch(None, "--ms", MS, port=str(port)), "connecting")
    for one in [*waiting, full]:
        one.close()


def test_truncated_replies_are_faults():
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    for n in (0, 3, 20, len(whole) - 10, len(whole) - 2):
        for context in (None, tls("good")):
            secure = (*SECURE, at("ca-ec.crt")) if context else ()
            with Server(replies(whole[:n]), context) as s:
                refused(f"cut after {n} bytes{', TLS' if context else ''}", fetch(s, *secure), BROKEN)

    def drop(server, connection):  # without the end that TLS announces
        server.request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nhello")
        os.close(connection.detach())
    with Server(drop, tls("good")) as s:
        refused("until close, but not announced", fetch(s, *SECURE, at("ca-ec.crt")), BROKEN,
                "closed the connection")
    with Server(replies(b"HTTP/1.1 200 OK\r\n\r\nhello"), tls("good")) as s:
        equal("until close, announced", fetch(s, *SECURE, at("ca-ec.crt"))["body"], b"hello")

    def early(_server, connection):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno")
    for context in (None, tls("good")):
        secure = (*SECURE, at("ca-ec.crt")) if context else ()
        with Server(early, context) as s:
            got = fetch(s, *secure, "--header", "A: " + "x" * 100000)
            check(f"an answer before the request is complete{', TLS' if context else ''}",
                  got["status"] == 400 or got["trouble"] == BROKEN, got)

    def reset(_server, connection):
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    with Server(reset) as s:
        refused("reset", fetch(s), BROKEN)
        refused("reset in the handshake", fetch(s, *SECURE, at("ca-ec.crt")), BROKEN)


def test_sizes_of_replies_are_limited():
    large = b"x" * 300000
    chunks = b"".join(b"%x\r\n%s\r\n" % (n, b"y" * n) for n in (1, 10, 1000, 70000)) + b"0\r\n\r\n"
    for context in (None, tls("good")):
        secure = (*SECURE, at("ca-ec.crt")) if context else ()
        note = ", TLS" if context else ""
        with Server(replies(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + large), context) as s:
            refused(f"a body that is too large{note}", fetch(s, *secure, "--body-max", "299999"), TOO_LARGE,
                    "larger than is accepted")
            equal(f"a large body{note}", fetch(s, *secure, "--body-max", "300000")["body"], large)
        with Server(replies(b"HTTP/1.1 200 OK\r\n\r\n", large), context) as s:
            refused(f"without length, too large{note}", fetch(s, *secure, "--body-max", "299999"), TOO_LARGE)
        with Server(replies(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunks), context) as s:
            equal(f"chunks{note}", fetch(s, *secure, "--body-max", "80000")["body"], b"y" * 71011)
        with Server(replies(b"HTTP/1.1 200 OK\r\nA: " + large), context) as s:
            refused(f"headers without end{note}", fetch(s, *secure), TOO_LARGE, "more headers")
    with Server(replies(*[b"%c" % c for c in HELLO], pause=0.001)) as s:
        equal("byte by byte", fetch(s)["body"], b"hello")
    with Server(replies(b"SSH-2.0-OpenSSH_9.2\r\n")) as s:
        refused("another protocol", fetch(s), BROKEN, "does not begin as HTTP")


def test_silent_name_server_has_a_deadline():
    """The test runs in a mount namespace whose resolv.conf names a server that never answers.  The C library waits for
    it longer."""
    with open(at("resolv.conf"), "w", encoding="ascii") as f:
        f.write("nameserver 127.9.8.7\n")
    try:
        silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        silent.bind(("127.9.8.7", 53))
        subprocess.run(["unshare", "-m", "mount", "--bind", at("resolv.conf"), "/etc/resolv.conf"], check=True,
                       capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("   not tested: a silent name server (may not mount here)")
        return
    started = time.monotonic()
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"',
                           at("resolv.conf"), FETCH, "--ms", "4000", "some.where.example", "80", "/"],
                          capture_output=True, check=False)
    got = {"trouble": int(done.stdout.split()[1]), "text": done.stdout.decode(),
           "seconds": time.monotonic() - started}
    in_time("silent at: name server", got, "some.where.example:80: no answer in time, while looking", "4000")
    silent.close()


def test_unreachable_servers_are_named():
    with Server(replies(HELLO)) as s:
        port = s.port
    refused("no listener", fetch(None, port=port), CONNECT, f"127.0.0.1:{port}: cannot connect",
            "Connection refused")
    got = fetch(None, "--ms", "3000", host="no-such-name.invalid", port="1")
    check("no such name", got["trouble"] in (DNS, TIMEOUT) and "no-such-name.invalid:1: " in got["text"], got)


try:
    make_certificates()
    tests(test_plain_requests_get_replies, test_certificates_are_verified_by_name,
          test_certificates_are_verified_by_address, test_real_servers_of_each_kind_are_accepted,
          test_versions_before_tls_1_2_are_refused, test_deadlines_end_stalled_requests,
          test_silent_name_server_has_a_deadline, test_truncated_replies_are_faults, test_sizes_of_replies_are_limited,
          test_unreachable_servers_are_named)
finally:
    shutil.rmtree(folder)
finish()
