"""`rest-lit check` with exactly the rights of the files in k8s/deploy: nothing is missing, and each
right that is removed is named, with its file."""
import copy
import os
import re
import shutil
import tempfile
import time

from cluster import DEPLOY, FRAMEWORKS
from certificates import make_certificates
from harness import ROOT, run, wait_until
from tokens import SECRET, write_file

RIGHTS = ["rbac/rbac.yaml", "options/frameworkcontroller/rbac.yaml", "beside-openpai/rbac.yaml", "base/deny-list.yaml", *(
    f"options/{name}.yaml" for name in ("dialects", "manage-users", "priority-classes", "webhook"))]
SPACES = ("frameworkcontroller", "pai-user-v2", "pai-group", "pai-user-token", "pai-jobs")
# No options need all rights at once.
OPTIONS = (("--users", "openpai", "--token-check", "stored", "--dialects", "mxjob,launcher", "--priority-class",
            "--output-listen", "127.0.0.1:0", "--output-url", "http://127.0.0.1:1", "--webhook", "http://127.0.0.1:1",
            "--webhook-allow-private"),
           ("--token-check", "signature", "--deny-list", "rest-lit/rest-lit-revoked", "--profile", "openpai",
            "--output-listen", "127.0.0.1:0", "--output-url", "https://127.0.0.1:1"))
API = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = {"kind": "ServiceAccount", "name": "rest-lit", "namespace": "rest-lit"}
MERGE = "application/merge-patch+json"
SET = "/apis/apps/v1/namespaces/frameworkcontroller/statefulsets/frameworkcontroller"


def prepare(cluster):
    """Everything that pods need, and a controller that looks ready."""
    objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": s}} for s in SPACES]
    objects += [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "pai-job-minimal-priority"}, "value": -1},
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"pai-worker": "true"}}}]
    cluster.apply_objects(*objects)
    cluster.apply(*RIGHTS, "jobs/runtime-account.yaml", "jobs/exit-spec-configmap.yaml", "options/frameworkcontroller/config.yaml",
                  "options/frameworkcontroller/statefulset.yaml")
    has = {"nvidia.com/gpu": "8", "github.com/fuse": "8"}
    for path, status in (("/api/v1/nodes/n1", {"capacity": has, "allocatable": has}),
                         (SET, {"replicas": 1, "readyReplicas": 1})):
        assert cluster.api("PATCH", path + "/status", {"status": status}, MERGE)[0] == 200


class Looker:
    def __init__(self, cluster):
        self.directory = tempfile.mkdtemp(prefix="rest-lit-check.")
        secret = write_file(self.directory, "jwt-secret", SECRET)
        self.arguments = ("--apiserver", cluster.url, "--apiserver-ca", cluster.ca, "--apiserver-token-file", cluster.user_token,
                          "--namespace", "default", "--jwt-secret-file", secret)
        self.secret = secret

    def lines(self, options):
        """The lines, each with its remedy."""
        text = run("check", *self.arguments, *options, *(("--webhook-secret-file", self.secret) if "--webhook" in options else ())).stdout.decode()
        return text.replace("\n         -> ", " -> ").splitlines()[:-1]

    def all(self):
        return [line for options in OPTIONS for line in self.lines(options)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)


def roles_of_the_account(cluster):
    """{path: rules} of all roles that are bound to it."""
    roles = {}
    for kind in ("rolebindings", "clusterrolebindings"):
        for binding in cluster.api("GET", f"{API}/{kind}")[1]["items"]:
            if not any(ACCOUNT.items() <= s.items() for s in binding.get("subjects") or []):
                continue
            ref = binding["roleRef"]
            space = f"/namespaces/{binding['metadata']['namespace']}" if ref["kind"] == "Role" else ""
            if space.endswith("/pai-jobs"):  # of an overlay
                continue
            path = f"{API}{space}/{ref['kind'].lower()}s/{ref['name']}"
            roles[path] = cluster.api("GET", path)[1]["rules"]
    return roles


def units(roles):
    """Each right apart: (role, group, resource, object or None, verb)."""
    return [(path, rule["apiGroups"][0], resource, (rule.get("resourceNames") or [None])[0], verb)
            for path, rules in roles.items() for rule in rules for resource in rule["resources"] for verb in rule["verbs"]]


def rules_without(rights, path, removed):
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb], **({"resourceNames": [name]} if name else {})}
            for role, group, resource, name, verb in rights if role == path and (role, group, resource, name, verb) not in removed]


def space_of(right):
    """The namespace, or None."""
    return right[0].split("/")[5] if "/namespaces/" in right[0] else None


def words_of(right):
    """The right as `check` writes it."""
    path, group, resource, name, verb = right
    resource, slash, sub = resource.partition("/")
    space = space_of(right)
    return f"{verb} {resource}{'.' + group if group else ''}{slash}{sub}{' ' + name if name else ''}" \
        f"{' in namespace ' + space if space else ''}"


def file_of(path):
    """The file that has this role."""
    parts = path.split("/")
    space = f"  namespace: {parts[5].replace('default', '(default|pai-jobs)')}\n" if "/namespaces/" in path else "rules"
    pattern = f"kind: (Cluster)?Role\nmetadata:\n  name: {parts[-1]}\n{space}"
    for file in RIGHTS:
        with open(os.path.join(DEPLOY, file), encoding="utf-8") as f:
            if re.search(pattern, f.read()):
                return f"k8s/deploy/{file}"
    return path


def with_wider(group, rights):
    """The group, and rights to all objects that include its rights to one object."""
    return {*group, *(wide for wide in rights for right in group
                      if right[3] and wide[1:] == (*right[1:3], None, right[4]) and space_of(wide) == space_of(right))}


def groups_of(rights):
    """Each right once.  In the short test a group has one verb of each resource of each role; with
    TEST_WHOLE each right is removed alone."""
    if os.environ.get("TEST_WHOLE"):
        return [[right] for right in rights]
    rounds, seen = [], {}
    for right in rights:
        n = seen[right[:4]] = seen.get(right[:4], -1) + 1
        rounds += [[]] if n == len(rounds) else []
        rounds[n].append(right)
    return rounds


def named_rights(lines):
    """{right: file} of the lines about missing ones."""
    found = {}
    for line in lines:
        match = re.match(r"\w+ +right: (.+) is not allowed; needed to .* (k8s/deploy/\S+)", line)
        if match:
            found[match[1]] = match[2]
    return found


def test_each_right_is_named(check, cluster):
    prepare(cluster)
    roles = roles_of_the_account(cluster)
    rights = units(roles)
    with Looker(cluster) as looker:
        # Roles take a moment.
        wait_until(lambda: not named_rights(looker.all()))
        lines = looker.all()
        # Tests may run as root, and no controller has looked at the jobs of earlier tests.
        check.equal("nothing is missing", [line for line in lines if not line.startswith(("ok", "warning  process"))
                                           and "has had no status for" not in line], [])
        allowed = {f"{verb} {match[2]}" for line in lines
                   for match in [re.match(r"ok +right: (\w+(?:, \w+)*) (.*)", line)] if match for verb in match[1].split(", ")}
        check.equal("the rights of the files are those of the table", sorted(allowed), sorted(map(words_of, rights)))
        with open(os.path.join(ROOT, "server/check/rights.c"), encoding="utf-8") as f:
            rows = re.findall(r'^\t\t\{ [^"]*KIND_\w+, "[a-z ]+",', f.read(), re.M)
        check.equal("these options need all rows of the table", len({line for line in lines if " right: " in line}), len(rows))
        for group in groups_of(rights):
            group = with_wider(group, rights)
            wanted = {words_of(right): file_of(right[0]) for right in group}
            changed = {right[0] for right in group}
            for path in changed:
                cluster.api("PATCH", path, {"rules": rules_without(rights, path, group)}, MERGE)
            last = []

            def is_named(wanted=wanted, last=last):
                last[:] = [named_rights(looker.all())]
                return last[0] == wanted
            check.ok(f"removed: {', '.join(wanted)}", wait_until(is_named), f"{last}, not {wanted}")
            for path in changed:
                cluster.api("PATCH", path, {"rules": roles[path]}, MERGE)


def test_logins_of_check_are_explained(check, cluster):
    with Looker(cluster) as looker:
        base = list(looker.arguments)
        make_certificates(looker.directory)
        for what, option, value, words in (
                ("another CA", "--apiserver-ca", os.path.join(looker.directory, "ca.crt"), "certificate"),
                ("an invalid token", "--apiserver-token-file", write_file(looker.directory, "token", "nonsense"), "Unauthorized")):
            looker.arguments = copy.copy(base)
            looker.arguments[base.index(option) + 1] = value
            lines = [line for line in looker.lines(()) if line.startswith("failed")]
            check.ok(what, len(lines) == 1 and "API server: " in lines[0] and words in lines[0], lines)


def test_check_finds_both_controllers_or_one(check, cluster):
    """By the Lease, the StatefulSet, and the manager that has written a Framework."""
    lease, name = "/apis/coordination.k8s.io/v1/namespaces/default/leases", "driven"
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    for framework in cluster.names("Framework"):
        cluster.delete("Framework", framework)
    cluster.api("POST", lease, {"metadata": {"name": "rest-lit-controller"}, "spec": {
        "holderIdentity": "pod-1", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": "2026-01-01T00:00:00.000000Z"}})

    def says(state, words):
        line, = [line for line in looker.lines(OPTIONS[0]) if " controller: " in line]
        check.ok(words, line.startswith(state) and words in line, line)
    with Looker(cluster) as looker:
        cluster.api("PATCH", SET + "/status", {"status": {"readyReplicas": 1}}, MERGE)
        says("failed", "two controllers: pod-1 holds the Lease rest-lit-controller, and FrameworkController has a ready pod")
        cluster.api("PATCH", SET + "/status", {"status": {"readyReplicas": 0}}, MERGE)
        says("ok", "rest-lit controller: pod-1 leads")
        cluster.api("POST", FRAMEWORKS, {"apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
                                         "metadata": {"name": name}, "spec": {"executionType": "Start", "taskRoles": []}})
        cluster.api("PATCH", f"{FRAMEWORKS}/{name}?fieldManager=frameworkcontroller", {"status": {"state": "AttemptRunning"}}, MERGE)
        says("failed", f"two controllers: pod-1 holds the Lease rest-lit-controller, and FrameworkController writes Framework {name}")
        cluster.api("PATCH", f"{lease}/rest-lit-controller", {"spec": {"holderIdentity": ""}}, MERGE)
        says("ok", f"FrameworkController changed Framework {name}")
        cluster.delete("Framework", name)
        says("failed", "nobody holds the Lease")
        cluster.api("PATCH", SET + "/status", {"status": {"readyReplicas": 1}}, MERGE)
        says("ok", "FrameworkController: its StatefulSet has 1 ready pods")
        cluster.api("DELETE", f"{lease}/rest-lit-controller")


TESTS = [test_each_right_is_named, test_check_finds_both_controllers_or_one, test_logins_of_check_are_explained]
