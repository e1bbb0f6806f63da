"""A real API server, the stand-in for scheduler, kubelets and garbage collector (stand.c), controllers
with the rights of the manifests, and a count of what happens (count.py)."""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(TESTS, "e2e"), os.path.join(TESTS, "http")]

from cluster import FRAMEWORKS, Cluster, tools
from harness import BINARY, COMPLAINTS, SANITIZERS, SLOW, Closing, free_port, wait_until

STAND = os.path.join(os.path.dirname(BINARY), "tests", "controller", "stand")
ACCOUNT = "/api/v1/namespaces/rest-lit-controller/serviceaccounts/rest-lit-controller"
USER = "system:serviceaccount:rest-lit-controller:rest-lit-controller"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rest-lit-controller"
PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
# All requests of the controllers, without bodies.
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
         "rules": [{"level": "Metadata", "users": [USER]}, {"level": "None"}]}


class Stand(Closing):
    """The program stand with these arguments."""

    def __init__(self, cluster, *arguments):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [STAND, "--apiserver", cluster.url, "--ca", cluster.ca, "--token-file", cluster.settings["TOKEN_FILE"],
             *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log)
        if self.process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"stand: {self.errors()}")

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode()

    def lose(self, lost=True):
        """node0 does not answer any more, or again."""
        self.process.send_signal(signal.SIGUSR1 if lost else signal.SIGUSR2)
        if self.process.stdout.readline() != (b"lost\n" if lost else b"back\n"):
            raise RuntimeError(f"stand: {self.errors()}")

    def stop(self):
        """{what: number of its requests}"""
        self.process.send_signal(signal.SIGTERM)
        text = self.process.stdout.read().decode()
        self.process.wait()
        return {name: int(n) for name, n in (line.split() for line in text.splitlines())}

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Controller(Closing):
    """`rest-lit controller` with the account of the manifests; `url`: of a proxy."""

    def __init__(self, cluster, *arguments, url=None, namespace="default", wait=True, config=None):
        self.port, self.is_down = free_port(), False
        self.directory = tempfile.mkdtemp(prefix="rest-lit-controller.")
        self.log_file = os.path.join(self.directory, "log")
        words = list(arguments)
        if config is not None:
            file = os.path.join(self.directory, "frameworkcontroller.yaml")
            with open(file, "w", encoding="utf-8") as f:
                f.write(config)
            words += ["--controller-config", file]
        self.command = [BINARY, "controller", "--namespace", namespace, "--listen", f"127.0.0.1:{self.port}",
                        "--apiserver", url or cluster.url, *([] if url else ["--apiserver-ca", cluster.ca]),
                        "--apiserver-token-file", cluster.controller_token, *words]
        self.log_stream = open(self.log_file, "ab")
        self.start()
        if wait and not wait_until(lambda: self.process.poll() is not None or self.status("/readyz") == 200):
            raise RuntimeError(f"the controller is not ready: {self.log()[-800:]}")
        if wait and self.process.poll() is not None:
            raise RuntimeError(f"the controller ended: {self.log()[-800:]}")

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log_stream,
                                        stderr=subprocess.STDOUT, cwd=self.directory)

    def status(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60 * SLOW) as reply:
                return reply.status
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return None

    def metrics(self):
        """{(name, labels as written): value}"""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60 * SLOW) as reply:
            lines = reply.read().decode().splitlines()
        return {(m[1], m[2] or ""): float(m[3]) for m in (
            re.match(r"(\w+)(?:\{(.*)\})? (\S+)$", line) for line in lines if not line.startswith("#")) if m}

    def leads(self):
        try:
            return any(name.endswith("_leader") and value == 1 for (name, _), value in self.metrics().items())
        except OSError:
            return False

    def log(self):
        with open(self.log_file, encoding="utf-8", errors="replace") as f:
            return f.read()

    def alive(self):
        return self.process.poll() is None

    def cpu_s(self):
        return cpu_s(self.process.pid)

    def memory(self):
        """The peak, in MiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) // 1024

    def kill(self, by=signal.SIGKILL):
        self.process.send_signal(by)
        self.process.wait()

    def stop(self):
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60 * SLOW)

    def close(self):
        if self.alive():
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.log_stream.close()
        if found := SANITIZERS.search(self.log()):
            COMPLAINTS.append(found.group(0)[:600])


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Scene(Cluster):
    """The cluster, with an audit log of the controller's requests.  `counted`: count.py can read
    etcd, which needs objects in JSON."""

    def __init__(self, counted=True, audited=True):
        self.audit_directory = tempfile.mkdtemp(prefix="rest-lit-audit.")
        policy, self.audit_file = (os.path.join(self.audit_directory, n) for n in ("policy.json", "log"))
        with open(policy, "w", encoding="utf-8") as f:
            json.dump(AUDIT, f)
        os.environ["KIT_APISERVER_ARGS"] = " ".join([
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement,ResourceQuota",
            *([f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_file}", "--audit-log-maxsize=10000"]
              if audited else []),
            *(["--storage-media-type=application/json"] if counted else [])])
        super().__init__(tools())
        self.audit_at = 0
        self.controller_token = os.path.join(self.directory, "controller.token")
        self.apply("controller/namespace.yaml", "controller/rbac.yaml")
        self.login(self.controller_token)

    def login(self, file, account=ACCOUNT):
        token = self.api("POST", account + "/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400}})[1]["status"]["token"]
        with open(file, "w", encoding="utf-8") as f:
            f.write(token)
        os.chmod(file, 0o600)

    def requests(self):
        """The controllers' requests that have ended since the last call, watches left out:
        (verb, resource, name, code, time in s)."""
        found = []
        with contextlib.suppress(FileNotFoundError), open(self.audit_file, encoding="utf-8") as f:
            f.seek(self.audit_at)
            for line in iter(f.readline, ""):
                if not line.endswith("\n"):
                    break
                self.audit_at = f.tell()
                try:
                    event = json.loads(line)
                except ValueError:  # cut off by SIGKILL
                    continue
                reference = event.get("objectRef", {})
                if event["verb"] != "watch":
                    found.append((event["verb"], reference.get("resource"), reference.get("name"),
                                  event.get("responseStatus", {}).get("code"), event["stageTimestamp"]))
        return found

    def framework(self, name):
        return self.get("Framework", name)

    def state(self, name):
        value = self.framework(name)
        return value and (value.get("status") or {}).get("state")

    def create(self, framework):
        code, value = self.api("POST", FRAMEWORKS, framework)
        if code != 201:
            raise RuntimeError(f"POST of a Framework: {code} {value}")
        return value["metadata"]["uid"]

    def patch(self, name, body, kind=MERGE):
        return self.api("PATCH", f"{FRAMEWORKS}/{name}", body, kind)

    def remove(self, name, how="Background"):
        return self.api("DELETE", f"{FRAMEWORKS}/{name}", {
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": how})[0]

    def pods(self, name=None):
        """{name: pod}"""
        items = self.api("GET", PODS)[1]["items"]
        return {p["metadata"]["name"]: p for p in items if name is None or p["metadata"]["name"].startswith(name + "-")}

    def succeed(self, name):
        """The pods of a Framework, which run for ever, end with success."""
        done = {"status": {"phase": "Succeeded", "containerStatuses": [{
            "name": "app", "image": "stand", "imageID": "", "ready": False, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}
        for pod in self.pods(name):
            self.api("PATCH", f"{PODS}/{pod}/status", done, MERGE)

    def events_of(self, name):
        """Reasons of the Events on this Framework."""
        items = self.api("GET", EVENTS + "?limit=5000")[1]["items"]
        return sorted({e["reason"] for e in items if e["involvedObject"].get("name") == name})

    def events_text(self, name):
        items = self.api("GET", EVENTS + "?limit=5000")[1]["items"]
        return [f"{e['reason']}: {e.get('message')}" for e in items if e["involvedObject"].get("name") == name]

    def ends(self, name, seconds=60):
        return wait_until(lambda: self.state(name) == "Completed", seconds)

    def empty_but_frameworks(self):
        """No pod and ConfigMap of a Framework is left."""
        return wait_until(lambda: not self.pods() and
                          not [n for n in self.names("ConfigMap") if n.endswith("-attempt")])

    def empty(self):
        return wait_until(lambda: not self.names("Framework")) and self.empty_but_frameworks()

    def clear(self):
        for name in self.names("Framework"):
            self.remove(name)
        return self.empty()


# ---- Frameworks -------------------------------------------------------------------------
def role(name="w", number=1, failed=1, succeeded=-1, retries=0, fancy=False, pod=None, **stand):
    """A task role; further arguments are annotations of the stand-in: exit="1,0", run="500" (ms), node."""
    template = pod or {"spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "x"}]}}
    names = {name: f"stand/{name}" for name in ("exit", "reason", "node")}
    annotations = {names.get(k, f"stand/{k}-ms"): str(v) for k, v in stand.items()}
    if annotations:
        template = {**template, "metadata": {"annotations": annotations}}
    return {"name": name, "taskNumber": number,
            "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": failed, "minSucceededTaskCount": succeeded},
            "task": {"retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": retries}, "pod": template}}


def framework(name, *roles, retries=0, fancy=False, start="Start", labels=None):
    return {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "metadata": {"name": name, **({"labels": labels} if labels else {})},
            "spec": {"executionType": start, "retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": retries},
                     "taskRoles": list(roles or [role()])}}


def part(value, *keys):
    """A member of members; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def outcome(value):
    """(state, code, retries) of a Framework."""
    status = part(value, "status")
    return (part(status, "state"), part(status, "attemptStatus", "completionStatus", "code"),
            part(status, "retryPolicyStatus", "totalRetriedCount"))


def tasks(value):
    """{(role, index): (state, code, retries)}"""
    found = {}
    for r in ((value.get("status") or {}).get("attemptStatus") or {}).get("taskRoleStatuses") or []:
        for t in r["taskStatuses"]:
            completion = t["attemptStatus"].get("completionStatus") or {}
            found[r["name"], t["index"]] = (t["state"], completion.get("code"), t["retryPolicyStatus"]["totalRetriedCount"])
    return found
