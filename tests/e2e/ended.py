"""The output of ended tasks: rest-lit, a real API server, pai-runtime as a process with a real
token of its pod, and fakes of the kubelet and FrameworkController that delete pod and log
immediately."""
import base64
import json
import os
import re
import shutil
import sys
import tempfile
import threading

from cli import Cli
from cluster import PATHS, ROOT
from harness import PATIENCE, SLOW, framework_name, free_port, in_threads, job_v2, wait_until
from kubelet import Kubelet, Log
from tokens import SECRET, bearer, token, write_file
from uploading import OUT, frames, upload

sys.path.append(os.path.join(ROOT, "tests/runtime"))

from pods import Pod

MOUNT = "/var/run/secrets/rest-lit/"
HEADER = "#!/bin/bash\nset -o errexit\n"
HELLOS = 100 if os.environ.get("TEST_WHOLE") else 10


def in_space(path, space):
    """The path of the namespace `default`, in this one."""
    return path.replace("/namespaces/default/", f"/namespaces/{space}/")


def account_path(space="default"):
    return f"/api/v1/namespaces/{space}/serviceaccounts/runtime-account"


def bound_token(cluster, pod=None, audience="rest-lit-output", space="default"):
    """Request a token like the kubelet."""
    spec = {"expirationSeconds": 3600, **({"audiences": [audience]} if audience else {})}
    if pod:
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod[0], "uid": pod[1]}
    code, value = cluster.api("POST", account_path(space) + "/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
    if code != 201:
        raise RuntimeError(f"no token: {code} {value}")
    return value["status"]["token"]


class Task:
    """A task and the life of its pod."""

    def __init__(self, job, role, index):
        self.job, self.role, self.index = job, role, index
        self.name = f"{job.name}-{role['name']}-{index}"
        self.uid, self.code, self.state = None, None, "AttemptCreationPending"
        self.process = self.url = self.log = None

    def status(self):
        return {"index": self.index, "state": self.state, "attemptStatus": {
            "id": 0, "podName": self.name, "podUID": self.uid, "podNodeName": self.uid and "node0",
            "completionStatus": None if self.code is None else {
                "code": self.code, "type": {"name": "Failed" if self.code else "Succeeded", "attributes": []}}}}

    def make(self):
        cluster, pods = self.job.place.cluster, self.job.place.path("Pod")
        spec = {"nodeName": "node0", "serviceAccountName": "runtime-account", "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "containers": [{"name": "app", "image": "x"}], "initContainers": [{"name": "init", "image": "x"}]}
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{self.job.name}-attempt", "uid": "c-1",
                 "controller": True}
        code, value = cluster.api("POST", pods, {
            "kind": "Pod", "apiVersion": "v1", "spec": spec, "metadata": {
                "name": self.name, "ownerReferences": [owner], "labels": {
                    "FC_FRAMEWORK_NAME": self.job.name, "FC_TASKROLE_NAME": self.role["name"],
                    "FC_TASK_INDEX": str(self.index)}}})
        if code != 201:
            raise RuntimeError(f"pod {self.name}: {code} {value}")
        self.uid = value["metadata"]["uid"]

    def mount(self, pod):
        """The projected volume of the template."""
        place, cluster = self.job.place, self.job.place.cluster
        volume = next(v for v in pod.spec["volumes"] if v["name"] == "output-access")
        for source in volume["projected"]["sources"]:
            if "serviceAccountToken" in source:
                pod.write(MOUNT + source["serviceAccountToken"]["path"], bound_token(
                    cluster, (self.name, self.uid), source["serviceAccountToken"]["audience"], place.space), 0o600)
                continue
            status, found = cluster.api("GET", f"{place.path('ConfigMap')}/{source['configMap']['name']}")
            for item in source["configMap"]["items"] if status == 200 else ():
                pod.write(MOUNT + item["path"], found["data"][item["key"]])

    def run(self):
        """The function of the kubelet.  Deletes pod and log at the end of the container."""
        place = self.job.place
        pod = Pod(self.job.framework, self.role, self.index, "10.0.0.1", "10.0.0.2")
        pod.base["FC_POD_UID"] = self.uid
        command = pod.environment("initContainers", "init")["USER_CMD"]
        pod.env = pod.environment("containers", "app")
        pod.write("/usr/local/pai/runtime.d/user.sh", HEADER + command, 0o755)
        self.mount(pod)
        self.url = pod.env.get("PAI_OUTPUT_URL")
        log = self.log = place.kubelet.logs[self.name, "app"] = Log(over=False)
        process = self.process = pod.start("run")
        pumps = [threading.Thread(target=self.pump, args=(stream, log)) for stream in (process.stdout, process.stderr)]
        for pump in pumps:
            pump.start()
        self.code = process.wait()
        for pump in pumps:
            pump.join()
        place.cluster.api("DELETE", f"{place.path('Pod')}/{self.name}", {"gracePeriodSeconds": 0})
        place.kubelet.logs.pop((self.name, "app"))
        log.write(b"", over=True)
        pod.remove()

    @staticmethod
    def pump(stream, log):
        while data := os.read(stream.fileno(), 65536):
            log.write(data)
        stream.close()


class Job(threading.Thread):
    """The function of FrameworkController for one job."""

    def __init__(self, place, job):
        super().__init__(daemon=True)
        self.place, self.name = place, framework_name(job)
        self.lock, self.tasks, self.framework, self.failure = threading.Lock(), [], None, None
        self.start()

    def run(self):
        try:
            self.drive()
        except Exception as e:  # The test reports the exception.
            self.failure = repr(e)

    def started(self):
        status, found = self.place.cluster.api("GET", f"{self.place.path('Framework')}/{self.name}")
        self.framework = found if status == 200 else None
        return self.framework and self.framework["spec"]["executionType"] == "Start"

    def drive(self):
        if not wait_until(self.started):
            raise RuntimeError("it was never started")
        self.tasks = [Task(self, role, i) for role in self.framework["spec"]["taskRoles"]
                      for i in range(role["taskNumber"])]
        for task in self.tasks:
            task.make()
            task.state = "AttemptPreparing"
        self.tell()
        in_threads(self.tasks, self.one)
        self.tell(over=True)

    def one(self, task):
        with self.lock:
            task.state = "AttemptRunning"
        self.tell()
        try:
            task.run()
        except Exception as e:
            self.failure, task.code = repr(e), -1
        with self.lock:
            task.state = "Completed"
        self.tell()

    def tell(self, over=False):
        """The current status."""
        with self.lock:
            roles = {}
            for task in self.tasks:
                roles.setdefault(task.role["name"], []).append(task.status())
            attempt = {"id": 0, "configMapName": f"{self.name}-attempt", "taskRoleStatuses": [
                {"name": name, "taskStatuses": tasks} for name, tasks in roles.items()]}
            if over:
                code = max((t.code for t in self.tasks), key=abs)
                attempt["completionStatus"] = {"code": code, "type": {
                    "name": "Failed" if code else "Succeeded", "attributes": []}}
            code, value = self.place.cluster.api("PATCH", f"{self.place.path('Framework')}/{self.name}", {"status": {
                "state": "Completed" if over else "AttemptRunning", "attemptStatus": attempt}},
                "application/merge-patch+json")
            if code != 200:
                raise RuntimeError(f"status: {code} {value}")


def of_task(answer):
    """(status, text) without the lines of pai-runtime, which are in stderr."""
    return answer[0], re.sub(rb"\[[^\]\n]*\] \[openpai-runtime\] [^\n]*\n", b"", answer[1])


class Stage:
    """The nodes of a cluster with a server: jobs that are submitted run here."""

    def __init__(self, cluster, server=None, space="default", headers=None):
        self.cluster, self.server, self.space = cluster, server, space
        self.headers = bearer(token()) if headers is None else headers
        self.kubelet = Kubelet(cluster)
        self.jobs = []

    def path(self, kind):
        return in_space(PATHS[kind], self.space)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for job in self.jobs:
            self.cluster.api("DELETE", f"{self.path('Framework')}/{job.name}")
        self.kubelet.close()

    def expect(self, job):
        self.jobs.append(Job(self, job))
        return self.jobs[-1]

    def submit(self, check, text):
        """Submits over HTTP, runs the job, and waits until the server knows its end."""
        name = json.loads(text)["name"]
        job = self.expect(name)
        check.equal(f"{name}: submitted", self.server.submit(text, self.headers).status, 202)
        job.join(4 * PATIENCE * SLOW)
        check.equal(f"{name}: driven", (job.failure, job.is_alive()), (None, False))
        check.ok(f"{name}: has ended", wait_until(lambda: self.get(f"/api/v2/jobs/alice~{name}").json[
            "jobStatus"]["state"] in ("SUCCEEDED", "FAILED")))
        return job

    def get(self, path):
        return self.server.request("GET", path, headers=self.headers)

    def portal(self, job, role, name, index=0, tail="?tail-mode=true"):
        """Like the portal's buttons: (status, text)."""
        task = self.get(f"/api/v2/jobs/alice~{job}").json["taskRoles"][role]["taskStatuses"][index]
        reply = self.get(task["containerLog"] + tail)
        if reply.status != 200:
            return reply.status, reply.body
        uri = {l["name"]: l["uri"] for l in reply.json["locations"]}.get(name)
        if not uri:
            return 0, b""
        reply = self.server.request("GET", uri)
        return reply.status, reply.body


class Place(Stage):
    """A stage with its own server."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.directory = tempfile.mkdtemp(prefix="rest-lit-ended.")
        self.output_port = free_port()
        self.token_file = write_file(self.directory, "token", token().encode())
        cluster.apply("jobs/runtime-account.yaml")
        wait_until(lambda: cluster.api("GET", account_path())[0] == 200)
        self.server = cluster.serve(
            "--jwt-secret-file", write_file(self.directory, "jwt-secret", SECRET), "--loops", "1", "--rate-address",
            "0", "--output-listen", f"127.0.0.1:{self.output_port}", "--output-url",
            f"http://127.0.0.1:{self.output_port}", who=[])

    def __exit__(self, *_):
        super().__exit__()
        self.server.remove()
        shutil.rmtree(self.directory, ignore_errors=True)


def hello_text(i):
    with open(os.path.join(ROOT, "examples/hello-world.yaml"), encoding="utf-8") as f:
        return f.read().replace("name: hello-world", f"name: hello-{i}")


def test_output_of_hello_world_is_always_shown(check, cluster):
    """rest-lit submit --wait --logs examples/hello-world.yaml"""
    with Place(cluster) as p:
        heard = 0
        for i in range(HELLOS):
            job = p.expect(f"hello-{i}")
            c = Cli("submit", "--server", f"http://127.0.0.1:{p.server.port}", "--token-file", p.token_file,
                    "--wait", "--logs", "-", text=hello_text(i))
            code = c.process.wait(4 * PATIENCE * SLOW)
            for t in filter(None, c.threads):
                t.join()
            job.join(PATIENCE * SLOW)
            good = code == 0 and c.stdout.count("hello[0] | Hello from alice, task 0 of ") == 1
            heard += check.ok(f"hello {i}", good, (code, c.stdout, c.stderr, job.failure))
        print(f"     Hello in {heard} of {HELLOS}", flush=True)
        check.equal("each time", heard, HELLOS)


def test_output_of_a_failed_task_is_kept(check, cluster):
    """The output of a failed task is available, up to 1 MiB, with separate streams."""
    with Place(cluster) as p:
        value = json.loads(job_v2("fails"))
        value["taskRoles"]["worker"]["commands"] = [
            "seq -f 'line %.0f' 150000", "echo what went wrong >&2", "exit 3"]
        p.submit(check, json.dumps(value))
        whole = "".join(f"line {i}\n" for i in range(1, 150001)).encode()
        code, text = p.portal("fails", "worker", "stdout", tail="")
        check.ok("stdout: the end", code == 200 and len(text) > 1000000 and whole.endswith(text), (code, text[:200]))
        check.equal("stderr", of_task(p.portal("fails", "worker", "stderr")), (200, b"what went wrong\n"))
        check.equal("tail mode", p.portal("fails", "worker", "stdout"), (200, whole[-16384:]))
        code, text = p.portal("fails", "worker", "all", tail="")
        # The order of what is written into two pipes at nearly the same time is not known.
        check.ok("all", code == 200 and b"what went wrong\n" in text and len(text) <= 1 << 20, len(text))
        check.equal("no link to what is gone", p.portal("fails", "worker", "runtime")[0], 0)
        kept = cluster.get("ConfigMap", framework_name("fails") + "-output-worker-0-0-0")
        check.ok("kept compressed", kept and len(base64.b64decode(kept["binaryData"]["output.gz"])) < 512 << 10, str(kept)[:999])


def test_output_needs_a_valid_token_of_the_cluster(check, cluster):
    """Tokens are accepted or refused by the results of the API server's TokenReviews."""
    with Place(cluster) as p:
        job = p.expect("tokens")
        value = json.loads(job_v2("tokens"))
        value["taskRoles"]["worker"]["commands"] = ["sleep 600"]
        check.equal("submitted", p.server.submit(json.dumps(value), bearer(token())).status, 202)
        check.ok("it runs", wait_until(lambda: job.tasks and job.tasks[0].process))
        task = job.tasks[0]
        code, other = cluster.api("POST", PATHS["Pod"], {
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "foreign-0"}, "spec": {
                "nodeName": "node0", "serviceAccountName": "runtime-account", "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False, "containers": [{"name": "app", "image": "x"}]}})
        check.equal("a pod of no job", code, 201)
        uid = other["metadata"]["uid"]
        good = bound_token(cluster, (task.name, task.uid))
        body = frames((OUT, b"forged\n"))
        for what, text, wanted in (
                ("for the API server", bound_token(cluster, (task.name, task.uid), None), 401),
                ("for logins", bound_token(cluster, (task.name, task.uid), "rest-lit"), 401),
                ("bound to nothing", bound_token(cluster), 403),
                ("of a pod of no job", bound_token(cluster, ("foreign-0", uid)), 403),
                ("altered", good[:-4] + ("AAAA" if good[-4:] != "AAAA" else "BBBB"), 401)):
            check.equal(f"token {what}", upload(p.output_port, text, body)[0], wanted)
        check.equal("nothing is kept", [n for n in cluster.names("ConfigMap") if "-output" in n and job.name in n], [])
        check.equal("the API server does not take it", cluster.api("GET", PATHS["Pod"], token=good)[0], 401)
        check.equal("nor do other routes", p.server.request(
            "GET", "/api/v2/jobs", headers=bearer(good)).status, 401)
        check.equal("the right one", upload(p.output_port, good, body)[0], 204)
        cluster.api("DELETE", f"{PATHS['Pod']}/{task.name}", {"gracePeriodSeconds": 0})
        cluster.api("DELETE", f"{PATHS['Pod']}/foreign-0", {"gracePeriodSeconds": 0})
        check.ok("when the pod is gone, it is no token any more", wait_until(
            lambda: upload(p.output_port, good, body)[0] == 401))
        task.process.terminate()
        job.join(PATIENCE * SLOW)


TESTS = [test_output_of_hello_world_is_always_shown, test_output_of_a_failed_task_is_kept,
         test_output_needs_a_valid_token_of_the_cluster]
