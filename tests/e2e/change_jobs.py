"""Stop, remove, tag and scale jobs on a real API server: like tests/http/changes.py with the fake
API server, and the assumptions of the fake one."""
import json
import threading

import changes
from harness import framework_name, job_v2
from fakeapi import Scene
from place import NO_LIMITS
from tokens import SECRET, write_file

FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks/"
MERGE, PATCH = "application/merge-patch+json", "application/json-patch+json"


class RealYard(changes.Yard):
    """The same users on this cluster."""

    def __init__(self, cluster, *arguments):
        Scene.__init__(self, api=False)
        self.cluster = cluster
        self.server = cluster.serve(
            "--facts", write_file(self.directory, "facts.json", json.dumps(changes.FACTS)),
            "--jwt-secret-file", write_file(self.directory, "jwt-secret", SECRET),
            "--token-check", "signature", *NO_LIMITS, *arguments, who=[])
        self.servers.append(self.server)
        self.jobs = set()

    def submit(self, body, who="alice"):
        self.jobs.add(framework_name(json.loads(body)["name"], who))
        return super().submit(body, who)

    def object(self, job, who="alice"):
        return self.cluster.get("Framework", framework_name(job, who))

    def close(self):
        super().close()
        for kind in ("Framework", "Secret"):
            for name in self.cluster.names(kind):
                if name[:32] in self.jobs or name in {framework_name(j) for j in ("text", "form.v1")}:
                    self.cluster.delete(kind, name)


def what_it_says(check, cluster, job):
    """Behaviour of the API server that jobs/store/store.h and server/jobs/job_change.c
    require."""
    path = FRAMEWORKS + framework_name(job)
    other = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}}
    check.equal("a merge patch of another uid", cluster.api("PATCH", path, {
        **other, "spec": {"executionType": "Stop"}}, MERGE)[0], 422)
    check.equal("a merge patch of an old version", cluster.api("PATCH", path, {
        "metadata": {"resourceVersion": "1"}}, MERGE)[0], 409)
    check.equal("a JSON patch of an old version", cluster.api("PATCH", path, [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}], PATCH)[0], 409)
    check.equal("a test that fails", cluster.api("PATCH", path, [
        {"op": "test", "path": "/metadata/uid", "value": "x"},
        {"op": "replace", "path": "/spec/executionType", "value": "Stop"}], PATCH)[0], 422)
    check.equal("removing another uid", cluster.api("DELETE", path, {
        "preconditions": other["metadata"]})[0], 409)
    check.equal("nothing came of it", cluster.get("Framework", framework_name(job))["spec"]["executionType"], "Start")


def tag_while_it_changes(check, yard, job):
    """Concurrent writes of FrameworkController: neither tags nor its changes are lost."""
    path = FRAMEWORKS + framework_name(job)
    stop = threading.Event()
    written = []

    def controller():
        while not stop.is_set():
            n = len(written) + 1
            yard.cluster.api("PATCH", path, {"status": {"retryPolicyStatus": {"totalRetriedCount": n}}}, MERGE)
            written.append(n)
            stop.wait(0.03)

    thread = threading.Thread(target=controller)
    thread.start()

    def tag(name):
        path = f"/api/v2/jobs/alice~{job}/tag"
        return name, yard.change("alice", "PUT", path, {"value": name}).status
    said = [tag(f"t{i}") for i in range(6)]
    stop.set()
    thread.join()
    said.append(tag("after"))
    framework = yard.object(job)
    # The server gives up after some tries and reports that.
    check.ok("tags while it changes", {s for _, s in said} <= {200, 503}, str(said))
    check.equal("and after that", said[-1][1], 200)
    check.equal("none is lost", changes.tags_of(framework), [t for t, s in said if s == 200])
    check.equal("nor a status", framework["status"]["retryPolicyStatus"]["totalRetriedCount"], written[-1])


def test_jobs_can_be_changed_on_a_real_api_server(check, cluster):
    with RealYard(cluster, *changes.LIMITS) as yard:
        made = yard.ask("alice", "POST", "/api/v2/jobs?tag=first&tag=%C3%BC%22", job_v2("with-tags"))
        yard.jobs.add(framework_name("with-tags"))
        check.equal("tags of a submission", (made.status, changes.tags_of(yard.object("with-tags"))), (202, ["first", 'ü"']))
        yard.submit(job_v2("told"))
        what_it_says(check, cluster, "told")
        tag_while_it_changes(check, yard, "told")
        for part in changes.PARTS:
            part(check, yard, f"{part.__name__} in a cluster")
