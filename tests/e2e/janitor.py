"""The janitor removes incomplete submissions of killed servers from a real API server, with only
the rights of k8s/deploy/rbac."""
import json
import time

from cluster import FRAMEWORKS
from faultproxy import Proxy
from harness import framework_name, job_v2_secret, wait_until

MARKER = "Marker-of-a-secret-314159"
# The minimum: janitor-age must be at least the deadline plus ten seconds.  For servers without
# submissions.
AGE = 11
ROUNDS = ("--janitor-interval", "1", "--priority-class")
QUICK = ("--deadline", "1", "--janitor-age", str(AGE), *ROUNDS)
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/rest-lit"
MERGE = "application/merge-patch+json"


def half_made(name, **more):
    return {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
            "metadata": {"name": framework_name(name),
                         "labels": {"rest-lit/instance": more.get("instance", "default"),
                                    "rest-lit/creating": "true"},
                         "annotations": {"rest-lit/submission": more.get("submission", "ab" * 16)}},
            "spec": {"executionType": more.get("type", "Create"), "taskRoles": [],
                     "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0}},
            **more.get("other", {})}


def priority_class(name, **more):
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": more.get("full", framework_name(name) + "-priority"),
                         "labels": {"rest-lit/instance": more.get("instance", "default"),
                                    "rest-lit/namespace": more.get("namespace", "default")},
                         "annotations": {"rest-lit/submission": "cd" * 16}},
            "value": -1, "globalDefault": False}


def deep(levels):
    """Metadata that a client with permission to write Frameworks can set."""
    fields = {}
    for _ in range(levels):
        fields = {"f:a": fields}
    return [{"manager": "deep", "operation": "Update", "apiVersion": "frameworkcontroller.microsoft.com/v1",
             "time": "2023-11-14T20:13:20Z", "fieldsType": "FieldsV1", "fieldsV1": fields}]


STAY = [half_made("other-instance", instance="elsewhere"), half_made("no-id", submission="x"),
        half_made("is-started", type="Start"),
        half_made("has-status", other={"status": {"state": "AttemptRunning"}})]
STAY_CLASSES = [priority_class("other-class", instance="elsewhere"),
                priority_class("other-jobs", namespace="elsewhere"),
                priority_class("odd-name", full="odd-name-priority")]


def make(check, cluster, path, *objects):
    for value in objects:
        status, reply = cluster.api("POST", path, value)
        check.equal(f"made {value['metadata']['name']}", status, 201 if status != 409 else reply)


def remove(cluster, job):
    """All objects except its PriorityClass."""
    cluster.delete("Framework", framework_name(job))
    for suffix in ("-configcred", "-regcred"):
        cluster.delete("Secret", framework_name(job) + suffix)


def removed(*servers):
    """Numbers of removed Frameworks and PriorityClasses in the logs of these servers."""
    lines = [json.loads(line) for server in servers for line in server.log_lines('"msg":"removed leftovers')]
    return tuple(sum(line[key] for line in lines) for key in ("frameworks", "priority_classes"))


def test_janitor_removes_each_left_object_once(check, cluster):
    """Two concurrent servers remove each left-over object once and no other objects."""
    gone = [half_made(f"left-{i}") for i in range(25)]
    gone_classes = [priority_class(f"class-{i}") for i in range(5)]
    hostile = half_made("deep-fields")
    hostile["metadata"]["managedFields"] = deep(100)
    with cluster.serve("--priority-class") as server:
        for job in ("of-today", "of-old"):
            check.equal(f"a job {job}", server.submit(job_v2_secret(job, MARKER)).status, 202)
    remove(cluster, "of-old")
    with cluster.serve(*QUICK) as first, cluster.serve(*QUICK) as second:
        start = time.monotonic()
        make(check, cluster, FRAMEWORKS, hostile, *gone, *STAY)
        make(check, cluster, CLASSES, *gone_classes, *STAY_CLASSES)
        names = {v["metadata"]["name"] for v in gone}
        classes = {v["metadata"]["name"] for v in gone_classes}
        classes.add(framework_name("of-old") + "-priority")
        check.ok("all that is left over goes", wait_until(
            lambda: not names & set(cluster.names("Framework")) and
            not classes & set(cluster.names("PriorityClass")), 120),
            (sorted(names & set(cluster.names("Framework"))), first.log()[-2000:]))
        check.ok("... and not before its time", time.monotonic() - start > AGE - 1)
        # A round logs its result at its end.
        check.ok("each thing is counted once", wait_until(
            lambda: removed(first, second) in ((25, 6), (26, 6))), removed(first, second))
        for server in (first, second):
            check.ok("no trouble", "cannot look" not in server.settled_log(), server.log()[-2000:])
        for value in STAY:
            check.ok(f"{value['metadata']['name']} stays",
                     cluster.get("Framework", value["metadata"]["name"]))
        for value in STAY_CLASSES:
            check.ok(f"{value['metadata']['name']} stays",
                     cluster.get("PriorityClass", value["metadata"]["name"]))
        name = framework_name("of-today")
        framework = cluster.get("Framework", name)
        check.ok("the job of these days stays, and carries no label of what is being made",
                 framework and "rest-lit/creating" not in framework["metadata"]["labels"], framework)
        check.ok("... and its class", cluster.get("PriorityClass", name + "-priority"))
        check.ok("classes of the system stay", cluster.get("PriorityClass", "system-node-critical"))
        for value in STAY + [hostile]:
            cluster.delete("Framework", value["metadata"]["name"])
        for value in STAY_CLASSES:
            cluster.delete("PriorityClass", value["metadata"]["name"])
    remove(cluster, "of-today")
    cluster.delete("PriorityClass", name + "-priority")


def test_janitor_without_rights_is_logged_once(check, cluster):
    """A missing verb is logged once; jobs are accepted; the log reports when the verb is
    granted."""
    whole = cluster.api("GET", ROLE)[1]["rules"]
    rules = json.loads(json.dumps(whole))
    for rule in rules:
        rule["verbs"] = [v for v in rule["verbs"] if v != "list"]
    cluster.set_rules(ROLE, rules)
    with Proxy(cluster) as proxy, cluster.serve(*ROUNDS, url=proxy.url) as server:
        check.ok("without list: is named",
                 server.logged('\\"list\\" on frameworks.frameworkcontroller'), server.log())
        check.equal("... jobs are taken", server.submit(job_v2_secret("unlisted", MARKER)).status, 202)
        before = proxy.count("GET", "Framework", None)
        check.ok("... several rounds without changes", wait_until(lambda: proxy.count("GET", "Framework", None) > before + 3))
        check.equal("... and it is said once", server.log().count("cannot look for"), 1)
        cluster.set_rules(ROLE, whole)
        check.ok("with it again: that is said", wait_until(
            lambda: server.log_lines("leftovers of a killed server again"), 300), server.log()[-2000:])
    name = framework_name("unlisted")
    remove(cluster, "unlisted")
    cluster.delete("PriorityClass", name + "-priority")
