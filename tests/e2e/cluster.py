"""A real kube-apiserver with etcd (apiserver.sh), and an administrator's view of it."""
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, "tests/http"))

from harness import SLOW, Server, free_port, wait_until

# The limits are long enough for slow machines. Tests of the deadline or the janitor set their own
# values.
PATIENT = ("--deadline", "600", "--janitor-age", "3600")
DEPLOY = os.path.join(ROOT, "k8s/deploy")
FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
PATHS = {
    "Framework": FRAMEWORKS,
    "Secret": "/api/v1/namespaces/default/secrets",
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Pod": "/api/v1/namespaces/default/pods",
    "PodTemplate": "/api/v1/namespaces/default/podtemplates",
}

# The rights with which all servers of these tests run; tests of other options add theirs.
RIGHTS = ("base/namespace.yaml", "rbac/rbac.yaml", "options/priority-classes.yaml", "options/dialects.yaml")
ACCOUNT = "/api/v1/namespaces/rest-lit/serviceaccounts/rest-lit"
REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
    "resourceAttributes": {"namespace": "default", "verb": "patch", "resource": "frameworks",
                           "group": "frameworkcontroller.microsoft.com"}}}


def end_in_order():
    """Makes SIGTERM raise an exception, so that child processes are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


def tools():
    """The directory with kube-apiserver, etcd and kubectl; with KIT_MODERN also an
    apiextensions-apiserver."""
    which = ["modern"] if os.environ.get("KIT_MODERN") else []
    return subprocess.run([os.path.join(ROOT, "tests/tools/kit"), *which], check=True,
                          stdout=subprocess.PIPE).stdout.decode().strip()


def rule_text(rule):
    return repr([sorted(rule.get(key) or []) for key in ("verbs", "apiGroups", "resources", "resourceNames")])


class Cluster:
    def __init__(self, tools):
        self.environment = {**os.environ, "KUBEBUILDER_ASSETS": tools}
        extensions = os.path.join(tools, "apiextensions-apiserver")
        if os.path.exists(extensions):
            self.environment["KIT_EXTENSIONS"] = extensions
        # etcd is in memory, because it syncs every write to disk.
        if os.access("/dev/shm", os.W_OK):
            self.environment["TMPDIR"] = "/dev/shm"
        self.kubectl_program = os.path.join(tools, "kubectl")
        # Reserve the ports against concurrent tests.
        for name in ("KIT_PORT", "KIT_ETCD_PORT", "KIT_EXTENSIONS_PORT"):
            self.environment.setdefault(name, str(free_port()))
        # The output is no pipe: both servers would inherit it and keep it open.
        text = subprocess.run([os.path.join(HERE, "apiserver.sh"), "start"], check=True,
                              stdout=subprocess.PIPE, env=self.environment).stdout.decode()
        self.settings = dict(line.split("=", 1) for line in text.splitlines())
        self.directory = self.settings["KIT_DIR"]
        self.url = self.settings["APISERVER"]
        self.ca = self.settings["CA_FILE"]
        self.kubeconfig = self.settings["KUBECONFIG"]
        self.user_token = self.settings["USER_TOKEN_FILE"]
        with open(self.settings["TOKEN_FILE"], encoding="utf-8") as f:
            self.token = f.read().strip()
        self.local = threading.local()
        self.known = {}  # kinds, by version
        with open(os.path.join(self.directory, "kube-apiserver.pid"), encoding="utf-8") as f:
            self.pid = int(f.read())
        with open(f"/proc/{self.pid}/cmdline", "rb") as f:
            self.command = f.read().decode().split("\0")[:-1]
        self.child = None

    def serve(self, *arguments, url=None, kind=Server, **more):
        """A server with the account `rest-lit`, once bind() has created it; `url` is that of a proxy,
        if any."""
        ca = () if url else ("--apiserver-ca", self.ca)
        patient = () if "--deadline" in arguments else PATIENT
        return kind("--apiserver", url or self.url, *ca, "--apiserver-token-file", self.user_token,
                    *patient, *arguments, **more)

    def close(self):
        subprocess.run([os.path.join(HERE, "apiserver.sh"), "stop", self.directory], check=False,
                       env=self.environment, stderr=sys.stderr)
        if self.child:
            self.child.wait()

    # ---- the administrator --------------------------------------------------------------
    def api(self, method, path, body=None, kind="application/json", token=None,
            accept="application/json"):
        """(status, object) of one request."""
        for attempt in (1, 2):
            connection = getattr(self.local, "connection", None)
            if connection is None:
                address = urlsplit(self.url)
                connection = http.client.HTTPSConnection(
                    address.hostname, address.port, timeout=60 * SLOW,
                    context=ssl.create_default_context(cafile=self.ca))
                self.local.connection = connection
            try:
                text = body if body is None or isinstance(body, bytes) else json.dumps(body)
                connection.request(method, path, text,
                                   {"Authorization": f"Bearer {token or self.token}",
                                    "Content-Type": kind, "Accept": accept})
                reply = connection.getresponse()
                return reply.status, json.loads(reply.read() or b"null")
            except (http.client.HTTPException, OSError):
                connection.close()
                self.local.connection = None
                if attempt == 2:
                    raise
        return None

    def get(self, kind, name):
        """The object, or None."""
        status, value = self.api("GET", f"{PATHS[kind]}/{name}")
        return value if status == 200 else None

    def names(self, kind):
        return {o["metadata"]["name"] for o in self.api("GET", PATHS[kind])[1].get("items", [])}

    def delete(self, kind, name):
        return self.api("DELETE", f"{PATHS[kind]}/{name}")[0]

    def dry_run(self, kind, body):
        """Returns None if the API server accepts the object, else its message."""
        status, value = self.api("POST", PATHS[kind] + "?dryRun=All", body)
        return None if status == 201 else f"{status} {value.get('message')}"

    def kubectl(self, *arguments, text=None):
        return subprocess.run([self.kubectl_program, "--kubeconfig", self.kubeconfig, "--cache-dir",
                               os.path.join(self.directory, "cache"), *arguments], input=text,
                              capture_output=True, timeout=60 * SLOW, check=False)

    def apply(self, *files):
        """Applies these files of k8s/deploy, for jobs in the namespace `default`.  Without kubectl, each
        start of which costs more than all of the requests."""
        for file in files:
            with open(os.path.join(DEPLOY, file), encoding="utf-8") as f:
                text = f.read().replace("namespace: pai-jobs", "namespace: default")
            for document in re.split(r"^---\n", text, flags=re.M):
                version, kind, meta = (re.search(pattern, document, re.M) for pattern in (
                    r"^apiVersion: (\S+)$", r"^kind: (\w+)$", r"^metadata:\n((?:  .*\n)+)"))
                if kind:
                    namespace, name = (re.search(rf"^  {key}: (\S+)$", meta[1], re.M) for key in ("namespace", "name"))
                    self.apply_one(file, kind[1], namespace and namespace[1], name[1], version[1], document.encode())

    def apply_one(self, file, kind, namespace, name, version, text):
        """Server-side apply of an object in YAML."""
        path = f"{self.collection(version, kind, namespace)}/{name}?fieldManager=tests&force=true"
        status, said = self.api("PATCH", path, text, "application/apply-patch+yaml")
        if status not in (200, 201):
            raise RuntimeError(f"apply {file}: {status} {said}")

    def apply_objects(self, *objects):
        """Creates these objects, or changes those that are there."""
        for o in objects:
            path, name = self.collection(o["apiVersion"], o["kind"], o["metadata"].get("namespace")), o["metadata"]["name"]
            for _ in range(600):
                status, said = self.api("POST", path, o)
                if status != 409:
                    break
                status, said = self.api("PATCH", f"{path}/{name}", o, "application/merge-patch+json")
                if status != 404 and not (status == 200 and "deletionTimestamp" in said["metadata"]):
                    break
                time.sleep(0.1)  # it is being deleted
            if status not in (200, 201):
                raise RuntimeError(f"{o['kind']} {name}: {status} {said}")

    def collection(self, version, kind, namespace=None):
        """The path of the collection of a kind, or None if the API server does not know it."""
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self.known:
            status, found = self.api("GET", group)
            self.known[version] = {r["kind"]: r["name"] for r in reversed(found["resources"]) if "/" not in r["name"]} \
                if status == 200 else {}
        plural = self.known[version].get(kind)
        return plural and group + (f"/namespaces/{namespace}" if namespace else "") + f"/{plural}"

    def forget_crd(self):
        """With an apiextensions-apiserver, remove a definition of Frameworks that was applied to
        kube-apiserver: it would serve them itself for a moment after each restart."""
        if "EXTENSIONS" in self.settings:
            self.api("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
                               "frameworks.frameworkcontroller.microsoft.com")

    def account_token(self, space, name, seconds=86400):
        """A token of this service account."""
        return self.api("POST", f"/api/v1/namespaces/{space}/serviceaccounts/{name}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds}})[1]["status"]["token"]

    def use_account(self, file):
        """Writes a token of the account `rest-lit` to this file, as the kubelet does.  Returns it."""
        token = self.account_token("rest-lit", "rest-lit")
        with open(file + ".new", "w", encoding="utf-8") as f:
            f.write(token)
        os.replace(file + ".new", file)
        return token

    def bind(self, check):
        """Applies RIGHTS; from now on, servers have the account `rest-lit`.  Waits until the role is
        effective."""
        self.apply(*RIGHTS)
        token = self.use_account(self.user_token)
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        check.ok("the role is in force", wait_until(lambda: self.api(
            "POST", path, REVIEW, token=token)[1].get("status", {}).get("allowed")))

    def set_rules(self, role, rules):
        """Sets the rules of the Role or ClusterRole at this path; waits until they are effective for
        the user `rest-lit`.  Returns the old rules."""
        before = self.api("GET", role)[1]["rules"]
        self.api("PATCH", role, {"rules": rules}, "application/merge-patch+json")
        with open(self.user_token, encoding="utf-8") as f:
            token = f.read().strip()

        def in_force():
            review = self.api("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                              {"spec": {"namespace": "default"}}, token=token)[1]
            seen = [rule_text(rule) for rule in review["status"]["resourceRules"]]
            return all(rule_text(r) in seen for r in rules) and \
                not any(rule_text(r) in seen for r in before if r not in rules)
        if not wait_until(in_force):
            raise RuntimeError(f"{role}: the rules are not in force")
        return before

    # ---- its health ---------------------------------------------------------------------
    def kill(self, by=signal.SIGKILL):
        os.kill(self.pid, by)
        if self.child:
            self.child.wait()
        # A process can be a zombie before its last thread has closed the sockets.
        if not wait_until(lambda: not self.listens(), 300):
            raise RuntimeError("the API server does not end")

    def listens(self):
        address = urlsplit(self.url)
        try:
            socket.create_connection((address.hostname, address.port), timeout=60 * SLOW).close()
            return True
        except OSError:
            return False

    def start_again(self):
        with open(os.path.join(self.directory, "kube-apiserver.log"), "ab") as log:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=log, start_new_session=True)
        self.pid = self.child.pid
        with open(os.path.join(self.directory, "kube-apiserver.pid"), "w", encoding="utf-8") as f:
            f.write(str(self.pid))

        def serves():
            try:
                # The CRD is available a moment later.
                return self.api("GET", FRAMEWORKS)[0] == 200
            except (OSError, ValueError, http.client.HTTPException):
                return False
        if not wait_until(serves, 300):
            raise RuntimeError("the API server does not come up again")

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)


def step(function, cluster):
    """A test of the cluster as Checks.run() takes it."""
    def call(check):
        function(check, cluster)
    call.__name__ = function.__name__
    return call
