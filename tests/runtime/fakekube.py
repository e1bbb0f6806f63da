"""A fake Kubernetes API server, with or without TLS, whose response bytes come from the test; and
its certificates."""
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

NAME = "kubernetes.default.svc"


class Pki:
    """An authority, and certificates for servers."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="pai-runtime-pki-")
        self.ca = self.file("ca.crt")
        self.openssl("req", "-x509", *self.key("ca"), "-days", "30", "-subj", "/CN=fake-authority",
                     "-out", self.ca)

    def file(self, name):
        return os.path.join(self.directory, name)

    @staticmethod
    def openssl(*arguments, text=None):
        return subprocess.run(["openssl", *arguments], input=text, check=True,
                              capture_output=True).stdout

    def key(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                self.file(name + ".key"))

    def context(self, name, san="DNS:" + NAME, days=30):
        """Creates a certificate with these names."""
        self.openssl("req", *self.key(name), "-subj", "/CN=server", "-out", self.file("request"))
        with open(self.file("extensions"), "w", encoding="utf-8") as f:
            f.write(f"extendedKeyUsage=serverAuth\nsubjectAltName={san}\n")
        self.openssl("x509", "-req", "-in", self.file("request"), "-CA", self.ca, "-CAkey",
                     self.file("ca.key"), "-CAcreateserial", "-days", str(days), "-extfile",
                     self.file("extensions"), "-out", self.file(name + ".crt"))
        if days == 0:
            time.sleep(1.1)  # a certificate is still valid in the second of its creation
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file(name + ".crt"), self.file(name + ".key"))
        return context

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def authority(self):
        with open(self.ca, "rb") as f:
            return f.read()


class Request:
    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ")
        self.path, _, self.query = self.target.partition("?")
        self.headers = {n.lower(): v.strip() for n, _, v in (l.partition(":") for l in lines[1:])}
        self.at = time.monotonic()


def reply(status, body=b"", *headers):
    """Bytes of a response; a body other than bytes is encoded as JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} X", "Content-Type: application/json",
            f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def status(code, message="no", **details):
    """An error response of an API server."""
    return reply(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                        "message": message, "details": details})


HANG = object()  # never answer


class FakeKube:
    """`answer` gets each Request and returns bytes, a list of bytes and pauses (numbers), or
    HANG."""

    def __init__(self, answer, context=None):
        self.answer, self.context = answer, context
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.gone = threading.Event()
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            peer.settimeout(600)
            if self.context:
                peer = self.context.wrap_socket(peer, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = peer.recv(65536)
                if not piece:
                    return
                head += piece
            request = Request(head[:head.index(b"\r\n\r\n")])
            self.requests.append(request)
            self.send(peer, self.answer(request))
            if self.context:
                peer = peer.unwrap()
        except OSError:
            pass
        finally:
            peer.close()

    def send(self, peer, what):
        if what is HANG:
            self.gone.wait(600)
            return
        for piece in what if isinstance(what, list) else [what]:
            if isinstance(piece, bytes):
                peer.sendall(piece)
            else:
                time.sleep(piece)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gone.set()
        # close() does not end accept(), and the next listener may get the same descriptor.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()
