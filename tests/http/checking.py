"""`rest-lit check`: its lines for a complete cluster and for clusters that lack objects or
rights."""
import base64
import json
import os
import pty
import re
import subprocess
import time

from delivery import EXIT_SPEC, controller_config
from fakeapi import Scene
from harness import BINARY, SLOW, command_line, run
from program import configmap_name, program
from tokens import SECRET, write_file

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
GROUP = "/apis/frameworkcontroller.microsoft.com"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/rest-lit-controller"
SET = "/apis/apps/v1/namespaces/frameworkcontroller/statefulsets/frameworkcontroller"
ALICE = ("--no-auth", "--user", "alice")


def allow(*missing):
    """An answer to reviews: everything is allowed but these (verb, resource)."""
    def answer(body):
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        return 201, {**body, "status": {"allowed": (asked["verb"], resource) not in missing}}
    return answer


class Place(Scene):
    """A fake API server to which nothing is missing."""

    def __init__(self):
        super().__init__()
        self.token = write_file(self.directory, "token", self.api.token)
        self.api.answers = {
            **{f"/api/v1/namespaces/{name}": (200, {"metadata": {"name": name}}) for name in ("default", "jobs")}, REVIEWS: allow(), SET: (200, {"status": {"readyReplicas": 1}}),
            GROUP: (200, {"kind": "APIGroup", "versions": [{"version": "v1"}]})}
        self.api.put("serviceaccounts", {"metadata": {"name": "runtime-account"}})
        self.api.put("configmaps", {"metadata": {"name": EXIT_SPEC}})
        self.api.put("configmaps", controller_config())

    def check(self, *arguments, login=None):
        return look(*(login or ("--apiserver", self.api.url, "--apiserver-token-file", self.token)),
                    *(arguments or ALICE))


class Found:
    """The lines of a check: [(state, item, found, mend)]."""

    def __init__(self, done):
        self.text, self.code = done.stdout.decode(), done.returncode
        self.errors = done.stderr.decode()
        self.lines = []
        for line in self.text.splitlines()[:-1]:
            if line.startswith("         -> "):
                self.lines[-1][3] = line[12:]
            else:
                item, _, found = line[9:].partition(": ")
                self.lines.append([line[:9].strip(), item, found, ""])

    def of(self, item):
        return [line for line in self.lines if line[1] == item]

    def bad(self):
        """The lines that are not ok. Tests may run as root and without --output-listen, which are
        warnings."""
        return [line for line in self.lines if line[0] != "ok" and line[1] != "output" and not
                (line[1] == "process" and "runs as root" in line[2])]


def look(*arguments):
    return Found(run("check", *arguments))


def says(check, name, found, state, item, *words, mend=None):
    """Exactly one line is not ok, of this state and item, and has these words."""
    bad = found.bad()
    check.equal(f"{name}: one line", [line[:2] for line in bad], [[state, item]])
    text = " ".join(bad[0][2:]) if bad else ""
    check.ok(f"{name}: its words", all(w in text for w in words), text or found.text + found.errors)
    check.ok(f"{name}: the remedy", mend is None or (bad and mend in bad[0][3]), found.text)
    check.equal(f"{name}: exit status", found.code, 1 if state == "failed" else 0)


def test_check_reports_a_complete_cluster_as_ok(check):
    with Place() as p:
        found = p.check()
        check.equal("all is well", (found.bad(), found.code, found.errors), ([], 0, ""))
        check.ok("the items", {"options", "login", "templates", "API server", "clock", "right", "Frameworks", "controller",
                               "controller's codes", "pods", "runtime"} <= {line[1] for line in found.lines}, found.text)
        check.ok("the version", "version v1.20.2" in found.of("API server")[0][2], found.text)
        check.ok("the sum", re.fullmatch(r"\d+ ok, [12] warning, 0 failed, 0 skipped", found.text.splitlines()[-1]), found.text)
        writes = [r for r in p.api.requests if r[0] not in ("GET", "LIST") and r[1] != REVIEWS]
        check.equal("nothing is written", writes, [])
        check.ok("no token is shown", p.api.token not in found.text, found.text)


def test_check_names_missing_rights_and_the_remedy(check):
    with Place() as p:
        p.api.answers[REVIEWS] = allow(("delete", "frameworks"))
        says(check, "no delete", p.check(), "failed", "right", "delete frameworks.frameworkcontroller.microsoft.com",
             "in namespace default", "is not allowed", mend="k8s/deploy/rbac/rbac.yaml | kubectl apply -f -")
        p.api.answers[REVIEWS] = allow(("get", "pods/log"))
        says(check, "no logs", p.check(), "warning", "right", "get pods/log", "needed to show logs")
        p.api.answers[REVIEWS] = allow(("create", "podtemplates"))
        check.equal("options that need no more", p.check().bad(), [])
        says(check, "--dialects", p.check(*ALICE, "--dialects", "mxjob", "--namespace", "jobs"), "failed", "right",
             "create podtemplates in namespace jobs", mend="sed -e 's/namespace: pai-jobs/namespace: jobs/' "
             "k8s/deploy/options/dialects.yaml | kubectl apply -f -")
        # The remedies work as they are: by sed only if a file has another name.
        p.api.answers[REVIEWS] = allow(("list", "secrets"), ("get", "persistentvolumeclaims"))
        people = ["--jwt-secret-file", write_file(p.directory, "jwt-secret", SECRET), "--users", "openpai", "--token-check", "signature"]
        users, rights = "k8s/deploy/options/manage-users.yaml", "k8s/deploy/beside-openpai/rbac.yaml"
        for what, more, wanted in (
                ("as OpenPAI", (), {f"kubectl apply -f {users}", f"kubectl apply -f {rights}"}),
                ("others", ("--user-namespace", "people", "--namespace", "jobs"), {
                    f"sed -e 's/namespace: pai-user-v2/namespace: people/' {users} | kubectl apply -f -",
                    f"sed -e 's/namespace: default/namespace: jobs/' -e 's/namespace: pai-user-v2/namespace: people/' {rights}"
                    " | kubectl apply -f -"})):
            check.equal(f"remedies, {what}", {line[3] for line in p.check(*people, *more).bad() if line[1] == "right"}, wanted)
        p.api.answers[REVIEWS] = 403, {"kind": "Status", "reason": "Forbidden"}
        says(check, "no reviews", p.check(), "skipped", "right", "does not tell", "403")


def test_check_describes_the_output_options(check):
    with Place() as p:
        (state, _, found, mend), = p.check().of("output")
        check.ok("off: a warning", state == "warning" and "logs of ended tasks are lost" in found and "5 seconds" in found and
                 "--output-listen" in mend, (state, found, mend))
        (state, _, found, _), = p.check(*ALICE, "--output-listen", "127.0.0.1:0", "--output-url", "https://10.0.0.7:9188").of("output")
        check.ok("on", state == "ok" and "https://10.0.0.7:9188" in found, (state, found))
        (state, _, found, _), = p.check(*ALICE, "--output-listen", "127.0.0.1:0").of("options")
        check.ok("without the Service", state == "failed" and "REST_LIT_OUTPUT_PORT" in found, (state, found))


def test_check_reports_version_clock_and_crd_faults(check):
    with Place() as p:
        for version, words in (("18", "oldest version"), ("40+", "newest version"), ("x", "oldest version")):
            p.api.answers["/version"] = 200, {"major": "1", "minor": version, "gitVersion": f"v1.{version}.0"}
            says(check, f"1.{version}", p.check(), "warning", "API server", f"v1.{version}.0", words)
        p.api.answers["/version"] = 200, {"major": "1", "minor": "28+", "gitVersion": "v1.28.3-eks"}
        check.equal("1.28+", p.check().bad(), [])
        for ahead, state in ((20, "warning"), (-400, "failed")):
            p.api.clock = ahead
            says(check, f"a clock {ahead} s ahead", p.check(), state, "clock",
                 "behind" if ahead > 0 else "ahead of", "the API server's", mend="NTP")
        p.api.clock = 0
        p.api.answers[GROUP] = 404, {"kind": "Status"}
        says(check, "no CRD", p.check(), "failed", "Frameworks", "no version", mend="k8s/deploy/crd/crd.yaml")
        p.api.answers[GROUP] = 200, {"versions": [{"version": "v2"}]}
        says(check, "another version", p.check(), "failed", "Frameworks", "but v2")
        for what, login in (("401", ("--apiserver", p.api.url)), ("down", ("--apiserver", "http://127.0.0.1:1"))):
            found = p.check(login=login)
            states = {line[1]: line[0] for line in found.bad()}
            check.equal(f"{what}: failed", (states.pop("API server"), found.code), ("failed", 1))
            check.equal(f"{what}: the rest is skipped", set(states.values()), {"skipped"})
            check.ok(f"{what}: why", ("Unauthorized" if what == "401" else "connect to server") in found.of("API server")[0][2], found.text)


def jwt(seconds):
    claims = json.dumps({"exp": int(time.time()) + seconds}).encode()
    return "e30." + base64.urlsafe_b64encode(claims).decode().rstrip("=") + ".c2ln"


KUEUE = "/apis/kueue.x-k8s.io"
QUEUES = f"{KUEUE}/v1beta2/namespaces/default/localqueues"
MANAGER = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
TAKES = "Kueue takes each pod in namespace default for a job of its own, by "
# (what, LocalQueues, integrations, other lines of the configuration, by which it takes pods; None: it does not)
TAKING = (
    ("a default queue", ["default"], "[batch/job, pod]", "", "the LocalQueue default"),
    ("every job", ["research"], "[pod]", "manageJobsWithoutQueueName: true", "manageJobsWithoutQueueName"),
    ("no default queue", ["research"], "[pod]", "manageJobsWithoutQueueName: false", None),
    ("no pods", ["default"], "[batch/job]", "manageJobsWithoutQueueName: true", None),
    ("a label of another namespace", ["default"], "[pod]", "managedJobsNamespaceSelector: {matchLabels: {team: b}}", None),
    ("a label of this one", ["default"], "[pod]", "managedJobsNamespaceSelector: {matchLabels: {team: a}}", "the LocalQueue default"),
    *((f"{expression}", ["default"], "[pod]", f"managedJobsNamespaceSelector: {{matchExpressions: [{{{expression}}}]}}",
       "the LocalQueue default" if taken else None) for expression, taken in (
           ("key: team, operator: In, values: [a, b]", True), ("key: team, operator: In, values: [b]", False),
           ("key: none, operator: In, values: [a]", False), ("key: team, operator: NotIn, values: [a]", False),
           ("key: team, operator: NotIn, values: [b]", True), ("key: none, operator: NotIn, values: [a]", True),
           ("key: team, operator: Exists", True), ("key: none, operator: Exists", False),
           ("key: team, operator: DoesNotExist", False), ("key: none, operator: DoesNotExist", True))),
    *((f"another type: {kinds} {more}", ["default"], kinds, more, None) for kinds, more in (
        ("3", ""), ("[3]", ""), ("{pod: pod}", ""), ("[pod]", "managedJobsNamespaceSelector: {matchLabels: {team: 1}}"))),
    ("other types", ["default"], "[pod]", "managedJobsNamespaceSelector: {matchLabels: [team], matchExpressions: [3, {operator: 3, "
     "key: 4, values: {a: b}}]}", "the LocalQueue default"))


def test_check_sees_whether_kueue_takes_pods(check):
    with Place() as p:
        p.api.answers[KUEUE] = 404, {"kind": "Status", "reason": "NotFound"}
        check.equal("no Kueue: no line", p.check().of("Kueue"), [])
        facts = write_file(p.directory, "facts.yaml", "virtualClusters: {default: {queue: research, queues: [night]}, free: {}}")
        with_queues = (*ALICE, "--facts", facts)
        says(check, "no Kueue, but queues", p.check(*with_queues), "failed", "Kueue", "virtual cluster default has a queue",
             "does not serve version v1beta2 of Kueue, but no version", mend="install Kueue 0.15 or later")
        p.api.answers[KUEUE] = 200, {"versions": [{"version": "v1beta1"}]}
        says(check, "an old Kueue", p.check(*with_queues), "failed", "Kueue", "but v1beta1")
        says(check, "an old Kueue, no queues", p.check(), "skipped", "Kueue", "the API server serves v1beta1 of Kueue", mend="0.15")
        p.api.answers[KUEUE] = 200, {"versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]}
        p.api.answers["/api/v1/namespaces/default"] = 200, {"metadata": {"name": "default", "labels": {"team": "a"}}}
        for what, queues, kinds, more, taken in TAKING:
            p.api.answers[QUEUES] = 200, {"items": [{"metadata": {"name": name}} for name in queues]}
            p.api.answers[MANAGER] = 200, {"data": {"controller_manager_config.yaml":
                                                    f"integrations:\n  frameworks: {kinds}\n{more}\n"}}
            if taken:
                says(check, what, p.check(), "failed", "Kueue", TAKES + taken, mend="managedJobsNamespaceSelector")
            else:
                check.equal(what, [(line[0], "leaves pods of jobs alone" in line[2]) for line in p.check().of("Kueue")], [("ok", True)])
        for answer in ((403, {"kind": "Status", "reason": "Forbidden"}), (500, {"kind": "Status"})):
            space, p.api.answers["/api/v1/namespaces/default"] = p.api.answers["/api/v1/namespaces/default"], answer
            check.equal(f"no labels: {answer[0]}", [line[0] for line in p.check().of("Kueue")], ["skipped"])
            p.api.answers["/api/v1/namespaces/default"] = space
        p.api.answers[QUEUES] = 200, {"items": [{"metadata": {"name": "research"}}]}
        says(check, "a missing queue", p.check(*with_queues), "warning", "Kueue",
             "virtual cluster default: there is no LocalQueue night in namespace default", mend="options/kueue/queues.yaml")
        for what, answer in (("missing", (404, {"kind": "Status"})), ("empty", (200, {"data": {}})),
                             ("no YAML", (200, {"data": {"controller_manager_config.yaml": "{"}}))):
            p.api.answers[MANAGER] = answer
            p.api.answers[QUEUES] = 200, {"items": []}
            says(check, f"configuration: {what}", p.check(), "skipped", "Kueue", "does not tell whether Kueue takes pods")
            p.api.answers[QUEUES] = 200, {"items": [{"metadata": {"name": "default"}}]}
            says(check, f"configuration: {what}, a default queue", p.check(), "warning", "Kueue", "there is a LocalQueue default, and",
                 mend="managedJobsNamespaceSelector")
        p.api.answers[MANAGER] = p.api.answers[QUEUES] = 403, {"kind": "Status", "reason": "Forbidden"}
        says(check, "no right to list", p.check(), "skipped", "Kueue", "localqueues",
             mend="sed -e 's/namespace: pai-jobs/namespace: default/' k8s/deploy/options/kueue/check.yaml | kubectl apply -f -")
        p.api.answers[QUEUES] = 200, {"items": []}
        says(check, "no right to read", p.check(), "skipped", "Kueue", "kueue-manager-config", mend="k8s/deploy/options/kueue/check.yaml")


def test_check_warns_before_the_login_token_expires(check):
    with Place() as p:
        for seconds, state in ((-5, "failed"), (1800, "warning")):
            p.api.token = jwt(seconds)
            write_file(p.directory, "token", p.api.token)
            says(check, f"{seconds} s left", p.check(), state, "login token", "minutes", mend="replace its file")
        p.api.token = jwt(200000)
        write_file(p.directory, "token", p.api.token)
        check.equal("days left", [line[0] for line in p.check().of("login token")], ["ok"])


def framework(name, **status):
    value = {"metadata": {"name": name}, "spec": {"executionType": "Start", "taskRoles": []}}
    return {**value, "status": status} if status else value


def clock(ago):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))


def test_check_reports_a_controller_that_does_not_work(check):
    with Place() as p:
        p.api.answers[SET] = 200, {"status": {"replicas": 1}}
        says(check, "no pod is ready", p.check(), "failed", "controller", "no ready pod")
        p.api.answers[SET] = 403, {"kind": "Status", "reason": "Forbidden"}
        says(check, "no sign", p.check(), "skipped", "controller", "no Framework has changed", mend="submit a job")
        p.api.put("frameworks", framework("new"))
        says(check, "a new Framework is no sign", p.check(), "skipped", "controller")
        p.api.put("frameworks", framework("done", state="Completed", transitionTime=clock(86400)))
        says(check, "nor is an old one", p.check(), "skipped", "controller")
        p.api.put("frameworks", framework("stuck"))["metadata"]["creationTimestamp"] = clock(100)
        says(check, "a Framework without status", p.check(), "failed", "controller", "Framework stuck has had no status",
             mend="kubectl -n rest-lit-controller get pods")
        p.api.put("frameworks", framework("runs", state="AttemptRunning", transitionTime=clock(20)))
        check.equal("a Framework that has changed since", p.check().bad(), [])


def lease(renewed, acquired=3600, holder="pod-1_ab"):
    """The Lease of `rest-lit controller`, renewed and acquired so many seconds ago."""
    return 200, {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": clock(renewed),
                          "acquireTime": clock(acquired)}}


def written_by(manager, ago):
    """A Framework that this manager wrote so many seconds ago."""
    value = framework("moved", state="AttemptRunning", transitionTime=clock(ago))
    value["metadata"]["managedFields"] = [{"manager": "deep", "time": clock(1)}, {"manager": manager, "time": clock(ago)}]
    return value


def test_check_says_who_drives_the_frameworks(check):
    """Ours, FrameworkController, both, or nobody."""
    fc, both, nobody = "frameworkcontroller", "two controllers: pod-1_ab holds the Lease", "nobody holds the Lease"

    def aged(*ages, **more):  # when it is asked for
        return lambda: lease(*ages, **more)

    for what, held, ready, manager, ago, state, words in (
            ("nobody: it was killed", aged(17), None, "rest-lit-controller", 20, "failed", f"{nobody} rest-lit-controller"),
            ("ours", aged(5), None, None, 0, "ok", "rest-lit controller: pod-1_ab leads, and renewed its Lease [5-9] s ago"),
            ("ours, the other is at 0 replicas", aged(3), 0, "rest-lit-controller", 20, "ok", "pod-1_ab leads"),
            ("ours since a minute", aged(3, 60), None, fc, 100, "ok", "pod-1_ab leads"),
            ("ours, a clock that is ahead", aged(-4), None, None, 0, "ok", "renewed its Lease 0 s ago"),
            ("both, by the StatefulSet", aged(3), 1, None, 0, "failed", both),
            ("both, by a Framework", aged(3, 300), None, fc, 100, "failed", both + ".*, and FrameworkController writes Framework moved"),
            ("the other one", lambda: (404, {}), 1, None, 0, "ok", "FrameworkController: its StatefulSet has 1 ready pods"),
            ("the other one, by a Framework", aged(100), None, fc, 100, "ok", "FrameworkController changed Framework moved"),
            ("one that is unknown", lambda: (403, {}), None, "x", 100, "ok", "a controller changed Framework moved"),
            ("nobody", aged(100), None, "rest-lit-controller", 100, "failed", f"{nobody} rest-lit-controller, last renewed 10. s ago"),
            ("nobody, given back", aged(3, holder=""), 0, None, 0, "failed", nobody)):
        with Place() as p:
            p.api.answers[LEASE] = held()
            p.api.answers[SET] = (404, {}) if ready is None else (200, {"status": {"readyReplicas": ready}})
            if manager:
                p.api.put("frameworks", written_by(manager, ago))
            found = p.check()
            (is_state, _, text, _), = found.of("controller")
            check.ok(what, is_state == state and re.search(words, text), (is_state, text))
            asked = any("in namespace frameworkcontroller" in line[2] for line in found.of("right"))
            check.equal(f"{what}: rights for FrameworkController", asked, "pod-1_ab" not in text)
            (_, _, text, _), = found.of("controller's codes")
            check.ok(f"{what}: its codes", ("rest-lit controller knows" in text) != asked, text)
    with Place() as p:
        p.api.answers[LEASE] = lease(3)
        p.api.put("frameworks", framework("stuck"))["metadata"]["creationTimestamp"] = clock(100)
        says(check, "a leader that does nothing", p.check(), "failed", "controller", "stuck has had no status",
             "although this one holds the Lease: pod-1_ab")


def test_check_names_codes_that_the_controller_lacks(check):
    with Place() as p:
        p.api.put("configmaps", controller_config(248, 251))
        says(check, "unknown codes", p.check(), "warning", "controller's codes", "(248, 251)", mend="config.yaml")
        p.api.remove("configmaps", "frameworkcontroller")
        says(check, "no ConfigMap", p.check(), "skipped", "controller's codes", "can read no ConfigMap")


def test_check_names_missing_objects_of_pods(check):
    with Place() as p:
        p.api.remove("serviceaccounts", "runtime-account")
        says(check, "no account", p.check(), "failed", "pods", "there is no ServiceAccount runtime-account in namespace default",
             "no pod can be created", mend="runtime-account.yaml")
        p.api.fault("GET", "serviceaccounts", status=403)
        says(check, "no right", p.check(), "skipped", "pods", "403")
    with Place() as p:
        p.api.remove("configmaps", EXIT_SPEC)
        says(check, "no exit specification", p.check(), "warning", "pods", EXIT_SPEC, "failures are not explained")
        p.api.put("configmaps", {"metadata": {"name": EXIT_SPEC}})
        openpai = (*ALICE, "--profile", "openpai")
        found = {line[2]: line for line in p.check(*openpai).bad() if line[0] == "failed"}
        check.equal("profile openpai", sorted(found), [
            "no node has the label that pods ask for: pai-worker=true",
            "there is no PriorityClass pai-job-minimal-priority: no pod can be created, and each job fails with -310"])
        check.ok("the remedies", any("kubectl create priorityclass" in line[3] for line in found.values()), found)


def test_check_names_labels_and_devices_that_no_node_has(check):
    """The profile openpai requires a node label; every pod requests one device, jobs another."""
    gpu, fuse = "nvidia.com/gpu", "github.com/fuse"
    with Place() as p:
        p.api.put("priorityclasses", {"metadata": {"name": "pai-job-minimal-priority"}})
        for nodes, lacks in (([[]], [fuse, gpu]), ([[], [gpu]], [fuse]), ([[fuse], [gpu]], [])):
            for i, devices in enumerate(nodes):
                p.api.put("nodes", {"metadata": {"name": f"n{i}"}, "status": {"allocatable": {"cpu": "4", **{d: "8" for d in devices}}}})
            bad = [line for line in p.check(*ALICE, "--profile", "openpai").bad() if line[1] == "pods"]
            check.equal(f"nodes with {nodes}", [line[:3] for line in bad], [
                ["warning", "pods", f"no node with the label that pods ask for has the device: pai-worker=true, {d}"] for d in lacks])
            check.equal("what all pods ask for", ["no pod is ever scheduled" in line[3] for line in bad], [d == fuse for d in lacks])
        check.ok("nodes are asked for by their label", all(r[2].get("labelSelector") == ["pai-worker=true"]
                                                           for r in p.api.requests if r[1] == "/api/v1/nodes"), p.api.requests)


def test_check_verifies_the_runtime_configmap(check):
    arguments = (*ALICE, "--runtime", "configmap", "--runtime-binary", program())
    with Place() as p:
        says(check, "no node of this architecture", p.check(*arguments), "failed", "pods", "no node has the label", "kubernetes.io/arch=")
        p.api.fault("GET", "nodes", status=403)
        says(check, "no right to see nodes", p.check(*arguments), "skipped", "pods", "list nodes")
        p.api.faults.clear()
        p.api.put("nodes", {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}})
        found = p.check(*arguments)
        check.equal("not yet there", (found.bad(), found.of("runtime")[0][2]),
                    ([], f"serve creates the ConfigMap {configmap_name(program())} at start"))
        p.api.put("configmaps", {"metadata": {"name": configmap_name(program())}, "binaryData": {}, "immutable": True})
        says(check, "other content", p.check(*arguments), "failed", "runtime", "other content", mend="delete configmap")
        text = p.check(*ALICE, "--runtime", "configmap", "--runtime-binary", "/nowhere/pai-runtime")
        check.ok("no program", any(line[:2] == ["failed", "templates"] and "/nowhere" in line[2] for line in text.lines), text.text)


def test_check_continues_after_mistakes_in_files(check):
    """Each step of serve has a line; a failed step does not prevent the following checks."""
    with Place() as p:
        found = p.check("--user", "alice")
        check.equal("no authentication", ([line[:2] for line in found.lines], found.code), ([["failed", "options"]], 1))
        check.ok("the rule", "no authentication is configured" in found.text, found.text)
        facts = write_file(p.directory, "facts.yaml", "users:\n  alice: 7\n")
        secret = write_file(p.directory, "jwt-secret", SECRET)
        short = write_file(p.directory, "short", "short")
        found = p.check("--jwt-secret-file", short, "--facts", facts, "--templates", "/nowhere", "--hived-config", "/nowhere")
        failed = {line[1]: line[2] for line in found.lines if line[0] == "failed"}
        check.equal("all mistakes", sorted(failed), ["HiveD", "templates", "token keys", "users"])
        check.ok("their places", f"{facts}:2:10: " in failed["users"] and short in failed["token keys"], failed)
        check.equal("the cluster is checked", found.of("controller")[0][0], "ok")
        found = p.check("--jwt-secret-file", secret)
        check.equal("a good secret", (found.bad(), found.of("token keys")[0][2]), ([], f"--jwt-secret-file {secret}"))
        os.chmod(secret, 0o644)
        says(check, "a readable secret", p.check("--jwt-secret-file", secret), "warning", "process", "unsafe", secret)
        config = write_file(p.directory, "config.yaml", "no-auth: true\nuser: alice\n")
        check.equal("--config", p.check("--config", config).bad(), [])
        check.equal("an unknown option", run("check", "--nothing").returncode, 2)
        check.equal("a file", run("check", *ALICE, "x").returncode, 2)


def test_check_wraps_lines_on_a_terminal(check):
    """Lines have at most 80 columns there."""
    with Place() as p:
        p.api.answers[REVIEWS] = allow(("delete", "frameworks"))
        master, slave = pty.openpty()
        command = command_line([BINARY], ["check", "--apiserver", p.api.url, "--apiserver-token-file", p.token, *ALICE])
        done = subprocess.Popen(command, stdout=slave, stdin=slave, stderr=slave)
        os.close(slave)
        text = b""
        try:
            while piece := os.read(master, 65536):
                text += piece
        except OSError:
            pass  # the end of a terminal
        os.close(master)
        check.equal("exit status", done.wait(60 * SLOW), 1)
        lines = text.decode().replace("\r", "").splitlines()
        check.ok("80 columns", lines and max(map(len, lines)) < 80, text)
        check.ok("long lines go on below their text", all(
            re.match(r"(ok|warning|failed|skipped) +\S| {9}( {3})?\S|\d+ ok,", line) for line in lines), text)


# ---- --hand-back ------------------------------------------------------------------------
APP = {"name": "app", "image": "x"}
# All these are in Kubernetes 1.16.
KNOWN = {
    "containers": [{**APP, "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}],
                    "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": "web"}}, "startupProbe": {"tcpSocket": {"port": 80}},
                    "resources": {"limits": {"cpu": 2, "memory": "1.5Gi", "n.com/gpu": "-1", "x": "10n"}, "requests": {"cpu": "1e3"}},
                    "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsUser": 4294967296}}],
    "volumes": [{"name": "v", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 9}}]}},
                {"name": "w", "csi": {"driver": "d", "volumeAttributes": {"x": "y"}}}, {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "labelSelector": {"matchLabels": {"a": "b"}}}],
    "privileged": False, "overhead": {"cpu": "1"}, "nodeSelector": None, "tolerations": [{"key": "k", "tolerationSeconds": 5}]}
YOUNG = {"hostUsers": False, "os": {"name": "linux"}, "schedulingGates": [{"name": "g"}],
         "initContainers": [{**APP, "restartPolicy": "Always"}], "containers": [{**APP, "resources": {"claims": [{"name": "c"}]}}],
         "volumes": [{"name": "v", "image": {"reference": "r"}}], "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
YOUNG_PLACES = ["containers/0/resources/claims", "hostUsers", "initContainers/0/restartPolicy", "os", "schedulingGates",
                "securityContext/seccompProfile", "volumes/0/image"]
WRONG = {"list": ({"containers": "x"}, "/containers", "list"),
         "text": ({"containers": [{**APP, "env": [{"name": "A", "value": 5}]}]}, "/containers/0/env/0/value", "string"),
         "cpu": ({"containers": [{**APP, "resources": {"limits": {"a.b/c": "abc"}}}]}, "/containers/0/resources/limits/a.b~1c", "quantity"),
         "grace": ({"terminationGracePeriodSeconds": 1.5}, "/terminationGracePeriodSeconds", "int64"),
         "port": ({"containers": [{**APP, "ports": [{"containerPort": 2 ** 31}]}]}, "/containers/0/ports/0/containerPort", "int32")}
POD = "/spec/taskRoles/0/task/pod/spec"


def with_pod(name, pod, state="AttemptRunning", retries=0):
    return {"metadata": {"name": name}, "status": {"state": state, "myOwn": 1}, "spec": {
        "executionType": "Start", "retryPolicy": {"maxRetryCount": retries}, "later": 1,
        "taskRoles": [{"name": "w", "taskNumber": 1, "task": {"pod": {"spec": pod}}}]}}


def test_check_lists_what_a_return_to_frameworkcontroller_loses(check):
    """Younger fields of pods that have not ended, and values that do not fit, by their places; page by page."""
    def lines(p):
        found = p.check("--hand-back", *ALICE)
        check.equal("only this is looked at", {line[1] for line in found.lines} & {"right", "controller", "pods", "output"}, set())
        return found.code, [[line[0], *line[2:]] for line in found.of("hand-back")]
    with Place() as p:
        for n in range(23):
            p.api.put("frameworks", with_pod(f"known{n}", KNOWN))
        p.api.put("frameworks", with_pod("ended", YOUNG, "Completed"))
        check.equal("nothing is lost", lines(p), (0, [["ok", "24 Frameworks lose nothing", ""]]))
        p.api.put("frameworks", with_pod("young", YOUNG))
        code, found = lines(p)
        check.equal("younger fields", (code, sorted(found)), (1, [
            ["failed", f"Framework young: {POD}/{at} is lost: Kubernetes 1.16 does not know it",
             "wait until the job has ended, or stop it; else the pods of its later attempts lack it"] for at in YOUNG_PLACES]))
        p.api.objects.pop(("frameworks", "young"))
        wanted = [("retries", "/spec/retryPolicy/maxRetryCount", "int32"), ("status", "/status/state", "string")]
        p.api.put("frameworks", with_pod("retries", KNOWN, "Completed", 2 ** 40))
        p.api.put("frameworks", with_pod("status", KNOWN, 5))
        for name, (pod, at, what) in WRONG.items():
            p.api.put("frameworks", with_pod(name, pod, "Completed"))
            wanted.append((name, POD + at, what))
        code, found = lines(p)
        check.equal("values that do not fit", (code, sorted(found)), (1, sorted(
            ["failed", f"Framework {name}: {at} is no {what}: FrameworkController cannot decode it, and sees no Framework at all",
             f"kubectl -n default delete framework {name}"] for name, at, what in wanted)))
        p.api.answers["/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"] = 403, {"kind": "Status", "reason": "Forbidden"}
        code, found = lines(p)
        check.ok("no list", code == 1 and "not all Frameworks could be read" in found[0][1], found)
    found = look("--local", "jobs", "--hand-back", *ALICE)
    check.ok("not with --local", found.code and "--hand-back is for a cluster" in found.text + found.errors, found.text)
    check.equal("not of serve", run("serve", "--hand-back", *ALICE).returncode, 2)
