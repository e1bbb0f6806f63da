"""Logs and events of tasks: rest-lit, a real API server, and a fake kubelet."""
import http.client
import shutil
import tempfile

from cluster import FRAMEWORKS, PATHS
from harness import PATIENCE, SLOW, framework_name, job_v2, wait_until
from kubelet import Kubelet, Log
from tokens import SECRET, bearer, token, write_file

JOB = "logged"
NAME = framework_name(JOB)
POD = f"{NAME}-worker-0"


class Place:
    """The running job alice~logged on a separate node, and a server."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.kubelet = Kubelet(cluster)
        self.directory = tempfile.mkdtemp(prefix="rest-lit-logs.")
        file = write_file(self.directory, "jwt-secret", SECRET)
        self.server = cluster.serve("--jwt-secret-file", file, "--loops", "1",
                                    "--rate-address", "0", who=[])
        self.log = Log(b"first line\nsecond \xff line\n")
        self.kubelet.logs[POD, "app"] = self.log

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for kind, name in (("Framework", NAME), ("Pod", POD)):
            self.cluster.delete(kind, name)
        self.server.remove()
        self.kubelet.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def make_pod(self):
        """Creates the pod as FrameworkController does."""
        return self.kubelet.pod(POD, {"FC_FRAMEWORK_NAME": NAME, "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0"},
                                [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"{NAME}-attempt", "uid": "c-1",
                                  "controller": True, "blockOwnerDeletion": True}])

    def runs(self, uid):
        """Writes a status with this pod of the task."""
        return self.cluster.api("PATCH", f"{FRAMEWORKS}/{NAME}", {"status": {
            "state": "AttemptRunning", "attemptStatus": {"id": 0, "configMapName": f"{NAME}-attempt", "taskRoleStatuses": [
                {"name": "worker", "taskStatuses": [{"index": 0, "state": "AttemptRunning", "attemptStatus": {
                    "id": 0, "podName": POD, "podUID": uid, "podNodeName": "node0"}}]}]}}},
            "application/merge-patch+json")[0]

    @staticmethod
    def path():
        return f"/rest-server/api/v2/jobs/alice~{JOB}/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs"

    def ask(self, path=None, query=""):
        return self.server.request("GET", (path or self.path()) + query, headers=bearer(token()))

    def link(self, query="", name="all"):
        wait_until(lambda: self.ask().status == 200)
        reply = self.ask(query=query)
        return {l["name"]: l["uri"] for l in reply.json["locations"]}[name]

    def open(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2 * PATIENCE * SLOW)
        c.request("GET", path)
        return c.getresponse()

    def read(self, path):
        r = self.open(path)
        return r.status, r.read()


def start(check, place):
    check.equal("submitted", place.server.submit(job_v2(JOB), bearer(token())).status, 202)
    check.equal("node", place.kubelet.made[0], 201)
    refused = place.ask()
    check.equal("no pod yet", (refused.status, refused.code), (404, "NoTaskLogError"))
    uid = place.make_pod()
    check.equal("it runs", place.runs(uid), 200)
    return uid


def test_logs_are_read_as_by_a_portal(check, cluster):
    with Place(cluster) as p:
        start(check, p)
        link = p.link()
        check.equal("log", p.read(link), (200, p.log.data))
        check.equal("init container that waits", p.read(p.link(name="runtime"))[0], 404)
        check.equal("the kubelet was asked for it", p.kubelet.asked[-1][:2], (POD, "init"))
        p.log.data = b"".join(b"line %d\n" % i for i in range(5000))
        check.equal("its end", p.read(p.link("?tail-mode=true")), (200, p.log.data[-16384:]))
        check.equal("its end: asked for", p.kubelet.asked[-1][2].get("tailLines"), "2000")
        check.equal("since a time", p.read(p.link() + "&since=2026-01-31T12:00:00.5Z"), (200, p.log.data))
        check.equal("since: asked for", p.kubelet.asked[-1][2].get("sinceTime"), "2026-01-31T12:00:00Z")
        p.cluster.api("DELETE", f"{PATHS['Pod']}/{POD}", {"gracePeriodSeconds": 0})
        status, body = p.read(link)
        check.ok("pod deleted", status == 404 and b"NoTaskLogError" in body, (status, body))
