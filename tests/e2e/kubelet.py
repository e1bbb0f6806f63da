"""A fake kubelet from which a real API server reads logs of pods: HTTPS with a self-signed
certificate, because kube-apiserver does not verify it by default."""
import os
import select
import shutil
import ssl
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from harness import PATIENCE, SLOW, Threads

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


class Log:
    """The log of a container."""

    def __init__(self, data=b"", over=True):
        self.data, self.over = data, over  # over: the log is complete
        self.changed = threading.Condition()
        self.readers = 0                   # connected clients
        self.sent = 0                      # bytes sent to the last client

    def write(self, data, over=False):
        with self.changed:
            self.data += data
            self.over = over
            self.changed.notify_all()

    def start(self, lines):
        """Offset of the last lines."""
        at = len(self.data)
        for _ in range(lines + 1):
            at = self.data.rfind(b"\n", 0, at)
            if at < 0:
                return 0
        return at + 1

    def wait(self, at):
        """Waits for more data than that, for a limited time: (data, complete)."""
        with self.changed:
            if len(self.data) == at and not self.over:
                self.changed.wait(0.1)
            return self.data[at:at + 65536], self.over and len(self.data) <= at + 65536


class Kubelet:
    """`logs`: {(pod, container): Log}; all other containers are waiting to start."""

    def __init__(self, cluster, node="node0"):
        self.logs, self.asked, self.node = {}, [], node
        self.directory = tempfile.mkdtemp(prefix="rest-lit-kubelet.")
        key, cert = (os.path.join(self.directory, n) for n in ("key", "cert"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "1", "-subj", "/CN=kubelet", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        kubelet = self

        class Handler(_Handler):
            owner = kubelet

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.server = Threads(Handler, context)
        self.port = self.server.server_address[1]
        self.cluster = cluster
        status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                  "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}}}
        self.made = cluster.api("POST", NODES, {"kind": "Node", "apiVersion": "v1",
                                                "metadata": {"name": node}, "status": status})

    def pod(self, name, labels=None, owners=None, containers=("app",), init=("init",)):
        """Creates a running pod on this node; returns its uid."""
        def of(names):
            return [{"name": n, "image": "x"} for n in names]
        code, value = self.cluster.api("POST", PODS, {
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": name, "labels": labels or {}, "ownerReferences": owners or []},
            "spec": {"nodeName": self.node, "containers": of(containers), "initContainers": of(init),
                     "terminationGracePeriodSeconds": 0}})
        if code != 201:
            raise RuntimeError(f"pod {name}: {code} {value}")
        return value["metadata"]["uid"]

    def close(self):
        self.cluster.api("DELETE", f"{NODES}/{self.node}")
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.directory, ignore_errors=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urlsplit(self.path)
        parts = url.path.split("/")
        query = {k: v[0] for k, v in parse_qs(url.query).items()}
        if len(parts) != 5 or parts[1] != "containerLogs":
            return self.refuse(404, b"404 page not found")
        self.owner.asked.append((parts[3], parts[4], query))
        log = self.owner.logs.get((parts[3], parts[4]))
        if not log:
            return self.refuse(400, b"container is waiting to start: ContainerCreating")
        log.readers += 1
        try:
            self.give(log, query)
        except OSError:
            self.close_connection = True
        finally:
            log.readers -= 1
        return None

    def refuse(self, code, text):
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def left(self):
        """Waits until all clients have disconnected."""
        return bool(select.select([self.connection], [], [], 0)[0])

    def give(self, log, query):
        """A kubelet sends no head before the first byte or the end."""
        if "timestamps" in query:
            line = log.data[:log.data.find(b"\n") + 1]
            text = (b"2026-01-31T12:00:00.000000001Z " + line if line else b"")[:int(query["limitBytes"])]
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        self.connection.settimeout(4 * PATIENCE * SLOW)
        at = log.start(int(query["tailLines"])) if "tailLines" in query else 0
        follow = query.get("follow") == "true"
        begun, log.sent = False, 0
        while True:
            data, over = log.wait(at)
            if not begun and (data or over or not follow):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                begun = True
            if data:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                at += len(data)
                log.sent += len(data)
            elif not follow or over:
                break
            elif self.left():
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")
