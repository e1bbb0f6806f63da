"""Logs and events of tasks: rest-lit, a real API server, and a fake kubelet."""
import http.client
import shutil
import tempfile
import time

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


def test_logs_can_be_followed(check, cluster):
    with Place(cluster) as p:
        start(check, p)
        p.log.data, p.log.over = b"", False
        r = p.open(p.link() + "&follow=true")
        check.equal("silent: begun all the same", r.status, 200)
        for i in range(3):
            p.log.write(b"line %d\n" % i)
            check.equal(f"follow: line {i}", r.read(7), b"line %d\n" % i)
        check.equal("follow: the kubelet has a reader", p.log.readers, 1)
        r.close()
        check.ok("follow: no reader is left", wait_until(lambda: p.log.readers == 0))
        r = p.open(p.link("?tail-mode=true") + "&follow=true")
        check.equal("follow its end", r.read(21), b"line 0\nline 1\nline 2\n")
        p.log.write(b"the last\n", over=True)
        check.equal("follow to its end", r.read(), b"the last\n")


def test_events_of_a_task_are_shown(check, cluster):
    with Place(cluster) as p:
        uid = start(check, p)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        made = cluster.api("POST", "/api/v1/namespaces/default/events", {
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e-1", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": POD, "namespace": "default", "uid": uid},
            "type": "Warning", "reason": "BackOff", "message": "Back-off restarting", "firstTimestamp": now,
            "lastTimestamp": now, "count": 2, "source": {"component": "kubelet", "host": "node0"}})
        check.equal("event made", made[0], 201)
        path = f"/api/v2/jobs/alice~{JOB}/events"
        check.ok("event shown", wait_until(lambda: (p.ask(path).json or {}).get("totalCount") == 1), p.ask(path))
        e = p.ask(path).json["data"][0]
        check.equal("event", (e["reason"], e["taskName"], e["podUid"], e["count"]), ("BackOff", POD, uid, 2))


TESTS = [test_logs_are_read_as_by_a_portal, test_logs_can_be_followed, test_events_of_a_task_are_shown]
