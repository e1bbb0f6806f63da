"""A fake of HiveD's web service for the status of virtual clusters, with fault injection, and a
configuration file of HiveD."""
import http.server
import json
import os
import shutil
import ssl
import tempfile
import threading

from certificates import make_certificates
from harness import Closing, Threads

PATH = "/v1/inspect/clusterstatus/virtualclusters/"

# `default` has 8 cells of DT, `research` 2 of K80.
CONFIG = """\
physicalCluster:
  skuTypes:
    DT: {gpu: 1, cpu: 5, memory: 56334Mi}
    K80: {gpu: 1, cpu: 4, memory: 8192Mi}
  cellTypes:
    DT-NODE: {childCellType: DT, childCellNumber: 4, isNodeLevel: true}
    DT-POOL: {childCellType: DT-NODE, childCellNumber: 3}
    K80-NODE: {childCellType: K80, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - cellType: DT-POOL
    cellChildren: [{cellAddress: a}, {cellAddress: b}, {cellAddress: c}]
  - {cellType: K80-NODE, cellAddress: d}
virtualClusters:
  default:
    virtualCells:
    - {cellType: DT-POOL.DT-NODE, cellNumber: 2}
  research:
    virtualCells:
    - {cellType: K80-NODE, cellNumber: 1}
"""


def cells(kind, n, priority=-2):
    """A virtual cell with n leaf cells."""
    leaf = {"leafCellType": kind, "cellState": "Free", "cellHealthiness": "Healthy", "cellPriority": priority}
    return {**leaf, "cellType": f"{kind}-NODE",
            "cellChildren": [{**leaf, "cellType": kind, "cellAddress": f"0/{i}"} for i in range(n)]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service = None

    def setup(self):
        self.service.connections += 1
        if self.service.tls:
            self.request = self.service.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.service.requests.append((self.path, dict(self.headers)))
        BEHAVIOURS[self.service.mode](self)

    def answer(self, status, body, *headers, length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def well(self):
        self.answer(200, json.dumps(self.service.status).encode(), ("Content-Type", "application/json"))

    def fail(self):
        self.answer(500, b"{}")

    def fail_once(self):
        self.service.mode = "well"
        self.fail()

    def redirect(self):
        self.answer(307, b"", ("Location", f"http://127.0.0.1:{self.service.port}/elsewhere"))

    def garbage(self):
        self.answer(200, b'{"default": [{]')

    def list(self):
        self.answer(200, b"[1, 2]")

    def cut(self):
        self.answer(200, b'{"default": []', length=1000)
        self.close_connection = True

    def huge(self):
        self.answer(200, b'{"default": []' + b" " * (1 << 20) + b"}")

    def endless(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not self.service.ended.is_set():
            self.wfile.write(b"400\r\n" + b" " * 1024 + b"\r\n")

    def hang(self):
        self.service.ended.wait(300)
        self.close_connection = True

    def drip(self):
        self.send_response(200)
        self.end_headers()
        while not self.service.ended.wait(0.2):
            self.wfile.write(b" ")


BEHAVIOURS = {name: getattr(Handler, name) for name in
              ("well", "fail", "fail_once", "redirect", "garbage", "list", "cut", "huge", "endless", "hang", "drip")}


class Hived(Closing):
    """`mode` is one of BEHAVIOURS.  `status` is the answer without a fault."""

    def __init__(self, tls=False, mode="well"):
        self.folder = tempfile.mkdtemp(prefix="fake-hived.")
        self.config = self.write("hived.yaml", CONFIG)
        self.mode, self.requests, self.connections = mode, [], 0
        self.status = {"default": [cells("DT", 3)], "research": [cells("K80", 2)]}
        self.ended = threading.Event()
        self.tls = None
        if tls:
            make_certificates(self.folder)
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(self.file("server.crt"), self.file("server.key"))
        self.server = Threads(type("OneHandler", (Handler,), {"service": self}))
        self.port = self.server.server_address[1]
        self.url = f"http{'s' if tls else ''}://localhost:{self.port}"

    def file(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        """Replaces the file atomically."""
        with open(self.file(name + ".new"), "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(self.file(name + ".new"), self.file(name))
        return self.file(name)

    def close(self):
        self.ended.set()
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)
