"""A fake image registry over TLS on loopback for the image checks: HEAD of manifests, tokens, and
fault injection."""
import base64
import http.server
import json
import os
import shutil
import socketserver
import ssl
import subprocess
import tempfile
import threading

USER, PASSWORD, TOKEN = "robot", "registry-password-7", "registry-token-9"


def make_certificates(folder):
    """ca.crt, and server.crt with its key for localhost, 127.0.0.1 and [::1]."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new_key, "-days", "2", "-subj", "/CN=Registry CA", "-keyout", "ca.key",
            "-out", "ca.crt")
    openssl("req", *new_key, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    with open(os.path.join(folder, "names"), "w") as f:
        f.write("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "server.crt")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64
    block_on_close = False

    def handle_error(self, request, client_address):
        pass  # the tests include clients that disconnect or reject the certificate


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry = None

    def setup(self):
        self.registry.connections += 1
        if self.registry.tls:
            self.request = self.registry.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *_):
        pass

    def serve(self):
        status, headers, body = self.registry.serve(self.command, self.path, self.headers)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = serve


class Registry:
    """`login` is None, "token" or "basic".  With `open_to_all`, anonymous clients get tokens.
    `script` maps a path to the first responses, a list of (status, headers).  With `hang`, no
    request is answered before the end; `slow` is the delay of each response in seconds."""

    def __init__(self, images=("team/app:1",), login=None, open_to_all=False):
        self.folder = tempfile.mkdtemp(prefix="fake-registry.")
        make_certificates(self.folder)
        self.ca = os.path.join(self.folder, "ca.crt")
        self.images, self.login, self.open_to_all = set(images), login, open_to_all
        self.script, self.requests, self.hang, self.connections, self.slow = {}, [], False, 0, 0
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(os.path.join(self.folder, "server.crt"),
                                 os.path.join(self.folder, "server.key"))
        handler = type("OneHandler", (Handler,), {"registry": self})
        self.server = Server(("127.0.0.1", 0), handler)
        self.port = self.server.server_address[1]
        self.host = f"localhost:{self.port}"
        self.realm = f"https://{self.host}/token"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    # ---- what it answers ----
    def allowed(self, authorization):
        basic = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        wanted = {"token": "Bearer " + TOKEN, "basic": basic, None: authorization}[self.login]
        return authorization == wanted

    def challenge(self, path):
        if self.login == "basic":
            return [("WWW-Authenticate", 'Basic realm="a registry, really"')]
        repository = path[len("/v2/"):].partition("/manifests/")[0]
        scope = f',scope="repository:{repository}:pull"' if repository else ""
        return [("WWW-Authenticate", f'bearer realm="{self.realm}",service="fake"{scope}')]

    def give_token(self, authorization):
        basic = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if authorization == basic or (self.open_to_all and not authorization):
            return 200, [], json.dumps({"token": TOKEN}).encode()
        return 401, [], b"{}"

    def serve(self, method, path, headers):
        authorization = headers.get("Authorization")
        with self.lock:
            self.requests.append((method, path, authorization))
            scripted = self.script.get(path)
            if scripted:
                status, more = scripted.pop(0)
                return status, more, b""
        if self.hang or self.slow:
            self.ended.wait(120 if self.hang else self.slow)
        if path.startswith("/token"):
            return self.give_token(authorization)
        if not self.allowed(authorization):
            return 401, self.challenge(path), b""
        if path == "/v2/":
            return 200, [], b"{}"
        name = path[len("/v2/"):].replace("/manifests/", ":")
        return (200 if name in self.images else 404), [], b""

    # ---- what tests ask ----
    def image(self, name):
        return f"{self.host}/{name}"

    def seen(self):
        """Return and clear the requests, as "METHOD PATH"."""
        with self.lock:
            requests, self.requests = self.requests, []
        return [f"{method} {path.partition('?')[0]}" for method, path, _ in requests]

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
