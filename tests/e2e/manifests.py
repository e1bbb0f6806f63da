"""FrameworkController's manifests on a real API server: all are accepted, and its account has
exactly the permissions of the controller."""
import copy
import itertools
import json
import os

from harness import ROOT, wait_until

FOLDER = os.path.join(ROOT, "k8s/deploy/options/frameworkcontroller")
POLICY = os.path.join(ROOT, "k8s/deploy/options/framework-policy.yaml")
OURS = "frameworkcontroller.microsoft.com"
ACCOUNT = "system:serviceaccount:frameworkcontroller:frameworkcontroller"
CRD = "frameworks.frameworkcontroller.microsoft.com"

# (verb, group, resource, name, allowed)
RIGHTS = (
    [(verb, OURS, "frameworks", "", True) for verb in ("get", "list", "watch", "update", "delete")] +
    [(verb, "", kind, "", True) for kind in ("pods", "configmaps") for verb in ("get", "list", "watch", "create", "delete")] +
    [("update", OURS, "frameworks/finalizers", "", True), ("update", "", "configmaps/finalizers", "", True),
     ("create", "apiextensions.k8s.io", "customresourcedefinitions", "", True),
     ("get", "apiextensions.k8s.io", "customresourcedefinitions", CRD, True),
     ("update", "apiextensions.k8s.io", "customresourcedefinitions", CRD, True),
     ("update", "apiextensions.k8s.io", "customresourcedefinitions", "others.example.com", False),
     ("create", OURS, "frameworks", "", False), ("get", "", "secrets", "", False), ("create", "", "pods/exec", "", False),
     ("create", "rbac.authorization.k8s.io", "clusterrolebindings", "", False)])


def may(cluster, user, verb, group, resource, name, namespace="some"):
    resource, _, part = resource.partition("/")
    status, review = cluster.api("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": user, "resourceAttributes": {"namespace": namespace, "verb": verb, "group": group, "resource": resource,
                                                 "subresource": part, "name": name}}})
    return status == 201 and review["status"]["allowed"]


def test_controller_manifests_give_exactly_its_rights(check, cluster):
    for what in ("once", "again"):
        result = cluster.kubectl("apply", "-k", FOLDER)
        check.ok(f"kubectl apply -k k8s/deploy/options/frameworkcontroller, {what}", result.returncode == 0, result.stderr.decode())
    check.ok("again: nothing is changed", b"configured" not in result.stdout, result.stdout.decode())
    wait_until(lambda: may(cluster, ACCOUNT, *RIGHTS[0][:4]))
    for *what, wanted in RIGHTS:
        check.equal(f"the controller may {what}", may(cluster, ACCOUNT, *what), wanted)
    check.ok("rest-lit may read the configuration", wait_until(lambda: may(
        cluster, "system:serviceaccount:rest-lit:rest-lit", "get", "", "configmaps", "frameworkcontroller", "frameworkcontroller")))
    status, pod = cluster.api("GET", "/apis/apps/v1/namespaces/frameworkcontroller/statefulsets/frameworkcontroller")
    check.equal("the controller is there", status, 200)
    template = {"metadata": {"name": "frameworkcontroller-0"}, "spec": pod["spec"]["template"]["spec"]}
    status, said = cluster.api("POST", "/api/v1/namespaces/frameworkcontroller/pods?dryRun=All", template)
    check.equal("its pod is accepted", status, 201)
    cluster.kubectl("delete", "namespace", "frameworkcontroller", "--wait=false")
    cluster.forget_crd()


def test_policy_manifest_is_accepted_or_unknown(check, cluster):
    """If the API server does not know the kinds, kubectl reports only that."""
    known = cluster.api("GET", "/apis/admissionregistration.k8s.io/v1")[1].get("resources", [])
    result = cluster.kubectl("apply", "-f", POLICY)
    if any(r["name"] == "validatingadmissionpolicies" for r in known):
        check.ok("kubectl apply -f k8s/deploy/options/framework-policy.yaml", result.returncode == 0, result.stderr.decode())
        return
    said = result.stderr.decode()
    check.ok("an older API server does not know the kind", "no matches for kind \"ValidatingAdmissionPolicy\"" in said, said)


# Accepted and refused Frameworks: names of task roles (None: without a name), or whole objects.
FINE = [None, {"spec": {"executionType": "Create"}}, [], ["a"], ["a", "b"], ["a", "aa", "aaa"], ["a", None], {"status": None},
        [f"r{i}" for i in range(100)]]
REFUSED = [["a", "a"], ["a", "b", "a"], ["b", "a", "a"], [None, None], [f"r{i}" for i in range(99)] + ["r0"],
           {"status": {}}, {"status": {"state": "AttemptCompleted"}}]


def expressions():
    """The expressions of the policy, in order; each is on the line of its key, or folded below
    it."""
    with open(POLICY, encoding="utf-8") as f:
        lines = f.read().splitlines()
    for i, line in enumerate(lines):
        key, found, value = line.partition("expression: ")
        if found and value == ">-":
            below = itertools.takewhile(lambda more: more.startswith(" " * (len(key) + 1)), lines[i + 1:])
            yield " ".join(more.strip() for more in below)
        elif found:
            yield value.strip('"')


def rules():
    """The policy as validation rules of a CustomResourceDefinition, which have no variables."""
    names, *all_of_them = expressions()
    for rule in all_of_them:
        if "variables.names" in rule:
            rule = f"[{names}].all(names, {rule.replace('variables.names', 'names')})"
        yield {"rule": rule.replace("object.", "self.")}


def framework(what):
    body = {"apiVersion": f"{OURS}/v1", "kind": "Framework", "metadata": {"name": "tried"}}
    if isinstance(what, list):
        body["spec"] = {"executionType": "Create", "taskRoles": [{} if name is None else {"name": name} for name in what]}
    return {**body, **what} if isinstance(what, dict) else body


def test_policy_expressions_accept_and_refuse(check, cluster):
    """Evaluates the expressions on an API server that supports CEL, if there is one: KIT_EXTENSIONS,
    see apiserver.sh."""
    check.equal("expressions", len(list(expressions())), 3)
    if "EXTENSIONS" not in cluster.settings:
        print("     without KIT_EXTENSIONS: expressions are read, and not evaluated", flush=True)
        return
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
    before = json.loads(cluster.kubectl("--context", "kit-extensions", "get", "--raw", path).stdout)
    crd = copy.deepcopy(before)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    roles = schema["properties"]["spec"]["properties"]["taskRoles"]
    roles["maxItems"] = 100  # API servers estimate the cost of rules in advance and require limits.
    roles["items"]["properties"]["name"]["maxLength"] = 10
    schema["x-kubernetes-validations"] = list(rules())
    replace = ("--context", "kit-extensions", "replace", "--raw", path, "-f", "-")
    result = cluster.kubectl(*replace, text=json.dumps(crd).encode())
    if not check.ok("the rules are taken", result.returncode == 0, result.stderr.decode()):
        return

    def status(what):
        return cluster.api("POST", "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks?dryRun=All",
                           framework(what))[0]
    check.ok("the rules are in force", wait_until(lambda: status(REFUSED[0]) == 422))
    for wanted, cases in ((201, FINE), (422, REFUSED)):
        for what in cases:
            check.equal(f"{str(what)[:80]}", status(what), wanted)
    now = json.loads(cluster.kubectl("--context", "kit-extensions", "get", "--raw", path).stdout)
    cluster.kubectl(*replace, text=json.dumps({**now, "spec": before["spec"]}).encode())
