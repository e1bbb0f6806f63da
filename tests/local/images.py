"""--images oci: images of a real registry on this machine, pulled, shared and run, by `serve` and `run`."""
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading

from cli import cli
from foreground import Place
from harness import BINARY, PATIENCE, SLOW, Threads, wait_until
from machine import Machine, job, role
from serving import as_user

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ["bash", "cat", "ls", "id", "sleep"]


def missing():
    """The first program that is not installed."""
    return next((p for p in ("skopeo", "umoci", "bwrap") if not shutil.which(p)), None)


class Registry:
    """Debian's registry with the image team/programs:1, open and with a login (alice, geheim); and a
    proxy that stops within a layer until `gate` is set."""

    def __init__(self):
        self.where = tempfile.mkdtemp(prefix="rest-lit-registry.", dir="/var/tmp")
        script = os.path.join(TOP, "tests", "unit", "machine", "images", "registry")
        self.pushed = os.path.join(tempfile.gettempdir(), "registry-of-programs")
        if os.path.exists(self.pushed):
            shutil.copytree(self.pushed, os.path.join(self.where, "data"))
        self.process = subprocess.Popen(["bash", script, self.where, "empty"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, cwd=TOP)
        ports = self.process.stdout.readline().split()
        self.works = len(ports) == 2
        if self.works:
            self.open, self.closed = (f"127.0.0.1:{port}" for port in ports)
            if not os.path.exists(os.path.join(self.where, "data")):
                self.push("team/programs:1")
                self.keep()
            self.gate, self.asked = threading.Event(), []
            self.server = self.proxy()
            self.slow = f"127.0.0.1:{self.server.server_address[1]}"

    def push(self, name):
        """An image with a shell and a few programs of this machine, and the libraries of pai-runtime: it has
        some only under AddressSanitizer."""
        root = os.path.join(self.where, "root")
        files = {os.path.realpath(shutil.which(p)) for p in PROGRAMS}
        for program in sorted(files) + [os.path.join(os.path.dirname(BINARY), "pai-runtime")]:
            found = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
            files |= set(re.findall(r"(/\S+) \(0x", found))
        for file in files:
            os.makedirs(root + os.path.dirname(file), exist_ok=True)
            shutil.copy(file, root + file)
        for name_of in PROGRAMS:
            os.makedirs(root + "/bin", exist_ok=True)
            if not os.path.exists(f"{root}/bin/{name_of}"):
                shutil.copy(os.path.realpath(shutil.which(name_of)), f"{root}/bin/{name_of}")
        os.symlink("bash", root + "/bin/sh")
        os.makedirs(root + "/etc")
        with open(root + "/etc/hello", "w", encoding="ascii") as f:
            f.write("hello from the image\n")
        with open(root + "/ballast", "wb") as f:
            f.write(os.urandom(8 << 20))
        policy = [] if os.path.exists("/etc/containers/policy.json") else ["--insecure-policy"]
        for command in (["tar", "-C", root, "-cf", "programs.tar", "."], ["umoci", "init", "--layout", "oci"],
                        ["umoci", "new", "--image", "oci:programs"],
                        ["umoci", "raw", "add-layer", "--image", "oci:programs", "programs.tar"],
                        ["umoci", "config", "--image", "oci:programs", "--config.env", "GREETING=from its configuration",
                         "--config.env", "PATH=/bin"],
                        ["skopeo", *policy, "copy", "-q", "--dest-tls-verify=false", "oci:oci:programs",
                         f"docker://{self.open}/{name}"]):
            subprocess.run(command, cwd=self.where, check=True, capture_output=True, env={**os.environ, "HOME": self.where})

    def keep(self):
        """Keeps the image for the registries of later tests."""
        copy = tempfile.mkdtemp(prefix="rest-lit-registry.")
        shutil.copytree(os.path.join(self.where, "data"), copy, dirs_exist_ok=True)
        try:
            os.rename(copy, self.pushed)
        except OSError:  # another test was first
            shutil.rmtree(copy)

    def proxy(self):
        registry = self

        class Slow(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                connection = http.client.HTTPConnection(registry.open, timeout=10 * PATIENCE * SLOW)
                connection.request(self.command, self.path, headers={"Accept": self.headers.get("Accept", "*/*")})
                reply = connection.getresponse()
                body = reply.read()
                self.send_response(reply.status)
                for key, value in reply.getheaders():
                    if key.lower() in ("content-type", "content-length", "docker-content-digest"):
                        self.send_header(key, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                large = len(body) > 1 << 20
                if large:
                    registry.asked.append(self.path)
                    self.wfile.write(body[:1 << 20])
                    registry.gate.wait(10 * PATIENCE * SLOW)
                self.wfile.write(body[1 << 20:] if large else body)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass
        return Threads(Slow)

    def close(self):
        if self.works:
            self.gate.set()
            self.server.shutdown()
            self.server.server_close()
        self.process.stdin.close()
        self.process.wait(PATIENCE * SLOW)
        shutil.rmtree(self.where, ignore_errors=True)


def prepare():
    """A registry, and arguments of a Machine; None: something is not here."""
    mine, lacks = as_user(), missing()
    if lacks or mine is None:
        print(f"     not tested: {lacks or 'bubblewrap'} is missing", flush=True)
        return None, None
    registry = Registry()
    if not registry.works:
        print("     not tested: docker-registry cannot be had", flush=True)
        registry.close()
        return None, None
    return registry, mine


def image(uri, login=None):
    """A part of a job."""
    auth = {"auth": {"username": login[0], "password": login[1], "registryuri": uri.split("/")[0]}} if login else {}
    return {"prerequisites": [{"name": "image", "type": "dockerimage", "uri": uri, **auth}]}


def reasons(m, name):
    """The messages of its events, by reason."""
    return {e["reason"]: e["message"] for e in m.request("GET", f"/api/v2/jobs/alice~{name}/events").json["data"]}


def test_images_are_pulled_once_and_shared(check):
    """An image is pulled once for two tasks, with progress; tasks have its files and Env, and a
    writable layer each."""
    registry, mine = prepare()
    if registry is None:
        return
    try:
        with Machine("--cpus", "8", "--images", "oci", **mine) as m:
            uri = f"{registry.slow}/team/programs:1"
            look = ["cat /etc/hello", "echo Env $GREETING", "echo mine >/own-$PAI_TASK_INDEX", "echo changed >/etc/hello",
                    "ls -d /own-*", "echo home $HOME, user $(id -u)", "ls -d /usr/local/pai >/dev/null && echo runtime"]
            reply = m.submit(job("two", {"main": role(*look, instances=2)}, **image(uri)))
            check.ok("nothing is said of this machine's files", reply.status == 202 and "warnings" not in reply.json, reply)
            check.equal("... by the machine neither", m.request("GET", "/api/v2/machine").json["hostFiles"], False)
            check.ok("progress", wait_until(lambda: re.search(f"{uri}: [1-9] MB", m.waiting_reason("two"))),
                     m.waiting_reason("two"))
            check.equal("meanwhile", m.state("two"), "WAITING")
            registry.gate.set()
            check.equal("state", m.wait("two"), "SUCCEEDED")
            check.ok("... nor later", "imageUnused" not in json.dumps(m.request("GET", "/api/v2/jobs/alice~two").json))
            for i in (0, 1):
                lines = m.log("two", "main", i)
                wanted = ["hello from the image", "Env from its configuration", f"/own-{i}", "runtime"]
                check.ok(f"task {i}", all(f"{w}\n" in lines for w in wanted) and f"/own-{1 - i}" not in lines, lines)
            check.equal("the layer is fetched once", len(registry.asked), 1)
            check.equal("and unpacked once", len(os.listdir(os.path.join(m.where, "images", "unpacked"))), 1)
            seen = reasons(m, "two")
            check.ok("events", uri in seen.get("Pulling", "") and "Pulled" in seen, seen)
            m.start("later", {"main": role("cat /etc/hello", "ls -d /own-* || echo none")}, **image(uri))
            check.equal("a later job", m.wait("later"), "SUCCEEDED")
            check.ok("sees the image as it was", "from the image\n" in m.log("later", "main") and "none\n" in m.log("later", "main"),
                     m.log("later", "main"))
            check.equal("nothing is fetched again", len(registry.asked), 1)
    finally:
        registry.close()


def test_image_that_comes_late_gives_the_resources_back(check):
    """A job that has passed the first in the queue and does not get its image in time gives its
    resources back."""
    registry, mine = prepare()
    if registry is None:
        return
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent, Machine("--cpus", "2", "--images", "oci", **mine) as m:
            uri, slow = f"{registry.open}/team/programs:1", f"127.0.0.1:{silent.getsockname()[1]}/team/programs:1"
            m.start("holds", {"main": role("exec sleep 1000")}, **image(uri), extras={"maxDurationSec": 1000})
            check.equal("one runs", m.wait("holds", "RUNNING"), "RUNNING")
            m.start("all", {"main": role("true", cpu=2)}, **image(uri))
            check.ok("the first waits", wait_until(lambda: "1st in the queue" in m.waiting_reason("all")), m.waiting_reason("all"))
            m.start("late", {"main": role("true")}, **image(slow), extras={"maxDurationSec": 980})
            check.ok("another passes", wait_until(lambda: slow in reasons(m, "late").get("Pulling", "")), reasons(m, "late"))
            check.ok("not for ever", wait_until(lambda: "2nd in the queue" in m.waiting_reason("late")), m.waiting_reason("late"))
            m.stop_job("holds")
            check.equal("the first runs", m.wait("all"), "SUCCEEDED")
            check.ok("the other one pulls again", wait_until(lambda: slow in m.waiting_reason("late")), m.waiting_reason("late"))
            check.ok("a silent registry is given up", wait_until(lambda: "cannot be pulled" in m.waiting_reason("late")),
                     m.waiting_reason("late"))
    finally:
        registry.close()


def test_images_use_the_login_of_their_job_only(check):
    """The login of a job is used for this job only; a missing image ends the job, and the reason
    names it."""
    registry, mine = prepare()
    if registry is None:
        return
    try:
        with Machine("--cpus", "8", "--images", "oci", **mine) as m:
            uri = f"{registry.closed}/team/programs:1"
            m.start("mine", {"main": role("cat /etc/hello")}, **image(uri, ("alice", "geheim")))
            check.equal("with the login", m.wait("mine"), "SUCCEEDED")
            m.start("other", {"main": role("cat /etc/hello")}, **image(uri))
            m.start("false", {"main": role("cat /etc/hello")}, **image(uri, ("alice", "falsch")))
            for name in ("other", "false"):
                def fails(name=name):
                    return m.state(name) == "FAILED" or uri in m.waiting_reason(name)
                check.ok(f"{name}: refused, by name", wait_until(fails), m.waiting_reason(name))
                check.ok(f"{name}: did not run", "hello" not in m.log(name, "main"))
                check.ok(f"{name}: no password", "geheim" not in m.waiting_reason(name) + json.dumps(m.status(name)))
            check.ok("no login is left", not subprocess.run(["grep", "-rlE", "geheim|YWxpY2U6Z2VoZWlt", os.path.join(m.where, "images")],
                                                            capture_output=True, check=False).stdout)
            absent = f"{registry.open}/team/absent:1"
            m.start("absent", {"main": role("true")}, **image(absent))
            check.equal("absent: state", m.wait("absent"), "FAILED")
            end = m.status("absent")["attemptStatus"]["completionStatus"]
            check.ok("absent: named", absent in end["diagnostics"], end)
            seen = reasons(m, "absent")
            check.ok("absent: event", absent in seen.get("Failed", ""), seen)
            check.equal("absent: code", (m.code("absent"), end["phrase"]), (254, "ContainerImageNotExists"))
    finally:
        registry.close()


def test_images_on_the_machine_need_no_registry(check):
    """If the registry of a stored image is gone, the image is used, and the log of the task and an
    event report that."""
    registry, mine = prepare()
    if registry is None:
        return
    try:
        with Machine("--cpus", "8", "--images", "oci", **mine) as m:
            uri = f"{registry.open}/team/programs:1"
            m.start("first", {"main": role("cat /etc/hello")}, **image(uri))
            check.equal("pulled", m.wait("first"), "SUCCEEDED")
            digest = os.listdir(os.path.join(m.where, "images", "unpacked"))[0]
            registry.close()
            m.start("tag", {"main": role("cat /etc/hello")}, **image(uri))
            m.start("digest", {"main": role("cat /etc/hello")}, **image(f"{registry.open}/team/programs@sha256:{digest}"))
            note = f"the registry cannot be asked about the image {uri}: "
            for name, noted in (("tag", True), ("digest", False)):
                check.equal(f"{name}: state", m.wait(name), "SUCCEEDED")
                log = m.log(name, "main")
                check.ok(f"{name}: log", "hello from the image\n" in log and (f"[{note}" in log) == noted, log)
                check.equal(f"{name}: event", note in reasons(m, name).get("Pulled", ""), noted)
    finally:
        registry.close()


def reset_connections(server):
    """Reads a request, then resets the connection: skopeo's message has another port each time."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.recv(4096)
        connection.close()


def test_images_without_registry_end_a_run(check):
    """`rest-lit run` ends after the third failed pull in a row for the same reason; tasks that run are stopped."""
    if missing():
        print(f"     not tested: {missing()} is missing", flush=True)
        return
    with socket.create_server(("127.0.0.1", 0)) as server, Place() as p:
        threading.Thread(target=reset_connections, args=(server,), daemon=True).start()
        name = f"127.0.0.1:{server.getsockname()[1]}/team/programs:1"
        text = json.dumps({
            "protocolVersion": 2, "name": "pulls", "type": "job", **image(name),
            "taskRoles": {"main": {"instances": 2, "dockerImage": "image", "commands": ["true"],
                                   "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}}}})
        code, out, err = p.run(text, "--images", "oci")
        check.equal("ends", (code, out), (3, ""))
        check.ok("names the image and the cause", re.search(
            rf"^pulls: the image {name} cannot be pulled: .*; three pulls have failed for this reason, so the job ends$", err, re.M), err)
        check.equal("nothing is left", p.left(), [])
        server.shutdown(socket.SHUT_RDWR)


def test_images_of_commands_win_for_their_variables(check):
    """`rest-lit run --image IMAGE -- COMMAND`: files, PATH, HOME and variables of the image, the caller's
    other variables, and the current directory at the same path."""
    registry, _ = prepare()
    if registry is None:
        return
    try:
        with Place() as p:
            uri = f"{registry.open}/team/programs:1"
            p.write("data", "from here\n")
            p.more["environment"] |= {"GREETING": "mine", "MINE": "too", "HOME": p.root}
            script = 'cat /etc/hello data; echo "$GREETING $MINE $HOME"; [ "$PATH" = "$0" ] || echo its own; echo new >new; echo err >&2; exit 5'
            code, out, err = cli("run", "--image", uri, "--", "bash", "-c", script, os.environ["PATH"], **p.more)
            check.equal("in the image", (code, out.splitlines(), err[-4:]),
                        (5, ["hello from the image", "from here", "from its configuration too /root", "its own"], "err\n"))
            check.ok("the directory is writable", os.path.exists(os.path.join(p.cwd, "new")))
            code, out, err = cli("run", "--image", uri.replace("programs", "absent"), "--", "true", **p.more)
            check.ok("no image", code == 125 and not out and "team/absent:1" in err, (code, out, err))
            check.equal("nothing is left", p.left(), [])
    finally:
        registry.close()
