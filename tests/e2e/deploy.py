"""k8s/deploy on a real API server: every overlay is built, each of its objects is accepted, and the
server does its jobs with the account, the rights, the files and the arguments of its Deployment.  The
controller has exactly its rights, and makes pods."""
import concurrent.futures
import copy
import functools
import itertools
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.request

from archives import archive
from cluster import DEPLOY
from code_kept import put as put_code
from delivery import real_program
from ended import Stage, of_task
from program import configmaps_of
from deployed import Deployed, DeployedController, Pod
from manifests import OURS, may
from harness import PATIENCE, ROOT, SLOW, framework_name, job_v2, job_v2_secret, wait_until
from openpai import group_object, user_object
from pod_security import broken
from tokens import SECRET, bearer, token

OVERLAYS = ("standalone-cluster", "try-out", "beside-openpai")
# Instead of ../controller in standalone-cluster.
INSTEAD = ("options/frameworkcontroller", "options/controller-all-namespaces")
# The files of a release, by overlay.
FILES = {"standalone-cluster": "install.yaml", "try-out": "try.yaml"}
# On top of standalone-cluster.
RESTRICTED = "options/restricted"
IMAGES = {"rest-lit:0.2.0", "frameworkcontroller/frameworkcontroller:v1.0.1"}
SCHEMAS = os.path.join(ROOT, "tests/data/kubernetes")
MARKER = "Marker-of-a-secret-173205"
# Kinds without a namespace.
CLUSTER_KINDS = {"Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "ValidatingAdmissionPolicy",
                 "ValidatingAdmissionPolicyBinding"}
LOGS = 20 if os.environ.get("TEST_WHOLE") else 5  # jobs whose logs are read after their end
# The command for kubectl exec in standalone-cluster/kustomization.yaml.
TOKEN = "rest-lit token --user alice --jwt-secret-file /var/run/secrets/rest-lit/jwt/secret"


# ---- reading ----------------------------------------------------------------------------------
def kubectls(cluster):
    """kubectl, and that of Debian if it is another one."""
    found = [cluster.kubectl_program]
    debian = subprocess.run([os.path.join(ROOT, "tests/tools/kit"), "debian-kubectl"], stdout=subprocess.PIPE,
                            check=False).stdout.decode().strip()
    if not debian:
        print("     Debian's kubectl is not at hand", flush=True)
    elif os.path.realpath(debian) != os.path.realpath(found[0]):
        found.append(debian)
    return found


def objects(kubectl, text):
    """The objects in this YAML, read by kubectl without a server."""
    done = subprocess.run([kubectl, "annotate", "--local", "-f", "-", "-o", "json", "read=1"], input=text,
                          capture_output=True, check=True, timeout=PATIENCE * SLOW)
    text, found = done.stdout.decode(), []
    while text.strip():
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        meta = value["metadata"]
        del meta["annotations"]["read"]
        value["metadata"] = {k: v for k, v in meta.items() if v or k not in ("annotations", "labels")}
        found.append(value)
    return found


def kustomized(kubectl, overlay):
    """The YAML of an overlay; with a folder of INSTEAD, of standalone-cluster with it.  The hash in the
    name of the generated ConfigMap depends on the version of kubectl, and is removed."""
    with tempfile.TemporaryDirectory(prefix="rest-lit-deploy.") as directory:
        folder = os.path.join(DEPLOY, overlay)
        if overlay in INSTEAD:
            shutil.copytree(DEPLOY, os.path.join(directory, "deploy"))
            folder = os.path.join(directory, "deploy", "standalone-cluster")
            with open(os.path.join(folder, "kustomization.yaml"), "r+", encoding="utf-8") as f:
                text = f.read()
                assert text.count("- ../controller\n") == 1
                f.seek(0)
                f.write(text.replace("- ../controller\n", f"- ../{overlay}\n"))
        done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, check=False, timeout=PATIENCE * SLOW)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    text, n = re.subn(rb"name: rest-lit-(?!controller)[a-z0-9]{10}\n", b"name: rest-lit\n", done.stdout)
    assert n == 2, n
    return text


@functools.lru_cache(maxsize=None)
def all_built(kubectl):
    """The objects of all overlays, read at once, because each start of kubectl takes long."""
    texts = {overlay: kustomized(kubectl, overlay) for overlay in (*OVERLAYS, *INSTEAD, RESTRICTED)}
    found = iter(objects(kubectl, b"---\n".join(texts.values())))
    return {overlay: [next(found) for _ in range(text.count(b"\n---\n") + 1)] for overlay, text in texts.items()}


def built(kubectl, overlay):
    return copy.deepcopy(all_built(kubectl)[overlay])


def name_of(value):
    meta = value["metadata"]
    return f"{value['apiVersion']} {value['kind']} {meta.get('namespace', '')}/{meta['name']}"


def only(values, kind, name="rest-lit"):
    found = [v for v in values if v["kind"] == kind and v["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name, len(found))
    return found[0]


# ---- objects that an old API server does not know ---------------------------------------------
def violation(schema, value, root, at=""):
    """Returns the position where the value violates the schema, or None. Supports the keywords that
    the schemas here use."""
    while "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    types = {"object": dict, "array": list, "string": str, "integer": int}
    if "type" in schema and (not isinstance(value, types[schema["type"]]) or isinstance(value, bool)):
        return f"{at}: not of the type {schema['type']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"{at}: {value!r} does not match {schema['pattern']}"
    if value.__class__ is int and value < schema.get("minimum", value):
        return f"{at}: too small"
    if len(value) < schema.get("minItems", schema.get("minLength", 0)) if isinstance(value, (str, list)) else False:
        return f"{at}: too short"
    if "oneOf" in schema and sum(violation(s, value, root) is None for s in schema["oneOf"]) != 1:
        return f"{at}: not exactly one of the alternatives"
    found = []
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        found = [f"{at}.{key}: missing" for key in schema.get("required", ()) if key not in value]
        for key, member in value.items():
            below = properties.get(key, more)
            found.append(f"{at}.{key}: unknown" if below is False else violation(below, member, root, f"{at}.{key}"))
    elif isinstance(value, list):
        found = [violation(schema.get("items", {}), item, root, f"{at}[{i}]") for i, item in enumerate(value)]
    return next((f for f in found if f), None)


def schema_of(value):
    path = os.path.join(SCHEMAS, f"{value['apiVersion'].replace('/', '.')}.{value['kind']}.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return json.load(f)


# ---- dry runs ---------------------------------------------------------------------------------
def resource_path(cluster, value):
    """The path of the collection of this object, or None if the API server does not know the kind."""
    return cluster.collection(value["apiVersion"], value["kind"], value["metadata"].get("namespace"))


def dry_run(check, cluster, what, values):
    """Every object is accepted by the API server, or by its schema if the server is too old."""
    for value in values:
        path = resource_path(cluster, value)
        schema = schema_of(value)
        if schema:
            check.equal(f"{what}: {name_of(value)}: by its schema", violation(schema, value, schema), None)
        if path:
            status, said = cluster.api("POST", path + "?dryRun=All", value)
            check.ok(f"{what}: {name_of(value)}: accepted", status == 201 or
                     (status == 409 and said["reason"] == "AlreadyExists"), said)
        else:
            check.ok(f"{what}: {name_of(value)}: unknown to this API server, so there is a schema", schema)


def make_namespaces(cluster, names):
    for name in names:
        cluster.api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def test_deploy_objects_are_accepted_and_unique(check, cluster):
    """All kubectls build the same objects; each object is accepted and occurs once."""
    programs = kubectls(cluster)
    make_namespaces(cluster, ("rest-lit", "rest-lit-controller", "pai-jobs", "frameworkcontroller", "pai-user-v2", "pai-group",
                              "pai-user-token"))
    for overlay in (*OVERLAYS, *INSTEAD, RESTRICTED):
        one, *others = [built(kubectl, overlay) for kubectl in programs]
        by_name = {name_of(v): v for v in one}
        check.equal(f"{overlay}: each object once", len(by_name), len(one))
        for other in others:
            check.equal(f"{overlay}: the same objects by each kubectl", {name_of(v): v for v in other}, by_name)
        for value in one:
            check.equal(f"{overlay}: {name_of(value)} has a namespace", "namespace" in value["metadata"],
                        value["kind"] not in CLUSTER_KINDS)
        kinds = [v["kind"] for v in one]
        check.ok(f"{overlay}: namespaces first", "Namespace" not in kinds[kinds.count("Namespace"):], kinds)
        dry_run(check, cluster, overlay, one)
    folder = os.path.join(DEPLOY, "options")
    texts = []
    for name in sorted(n for n in os.listdir(folder) if n.endswith(".yaml")):
        with open(os.path.join(folder, name), "rb") as f:
            texts.append(f.read())
    dry_run(check, cluster, "options", objects(programs[0], b"\n---\n".join(texts)))


def test_deploy_files_repeat_no_object_or_image(check, cluster):
    """No object is in two files, and the name of the image is the same for server and controller."""
    texts, images = [], []
    for folder, _, files in os.walk(DEPLOY):
        for name in files:
            with open(os.path.join(folder, name), "rb") as f:
                text = f.read()
            images += [b":".join(image) for image in re.findall(rb"newName: (\S+)\n +newTag: (\S+)", text)]
            if b"\nkind: Kustomization" not in text and b"\nkind: " in text:
                texts.append(text)
    names = [name_of(v) for v in objects(cluster.kubectl_program, b"\n---\n".join(texts))]
    check.equal("twice: only what patches change", {n for n in names if names.count(n) > 1},
                {"apps/v1 Deployment rest-lit/rest-lit", "apps/v1 Deployment rest-lit-controller/rest-lit-controller",
                 "v1 Namespace /pai-jobs"})
    check.ok("many objects", len(names) > 40, len(names))
    check.equal("the image of both programs", images, [b"rest-lit:0.2.0"] * 2)


def test_deploy_schemas_find_mistakes(check, cluster):
    """The schemas find mistakes."""
    broken = (
        ("options/disruption-budget.yaml", b"maxUnavailable: 1", b"maxUnavailable: few", "alternatives"),
        ("options/disruption-budget.yaml", b"maxUnavailable: 1", b"maxUnavailable: 1\n  minAvailable: 1", "exactly one"),
        ("options/disruption-budget.yaml", b"matchLabels", b"matchLabel", "unknown"),
        ("options/framework-policy.yaml", b"failurePolicy: Fail", b"failurePolicy: Faill", "none of"),
        ("options/framework-policy.yaml", b"operations: [CREATE]", b"operations: []", "too short"),
        ("options/framework-policy.yaml", b"validationActions", b"actions", "validationActions: missing"))
    for file, old, new, word in broken:
        with open(os.path.join(DEPLOY, file), "rb") as f:
            text = f.read()
        assert text.count(old) == 1, (file, old)
        said = [violation(schema_of(v), v, schema_of(v)) for v in objects(cluster.kubectl_program, text.replace(old, new))]
        check.ok(f"{file}: {new.decode()}: {word}", any(s and word in s for s in said), said)


# ---- hardening --------------------------------------------------------------------------------
def test_deploy_pods_are_hardened(check, cluster):
    """The pods satisfy the level `restricted` of Pod Security; the server has further
    restrictions."""
    for overlay in (*OVERLAYS, *INSTEAD, RESTRICTED):
        values = built(cluster.kubectl_program, overlay)
        spaces = {v["metadata"]["name"]: v["metadata"]["labels"] for v in values if v["kind"] == "Namespace"}
        check.equal(f"{overlay}: namespaces", {n: v["pod-security.kubernetes.io/enforce"] for n, v in spaces.items()}, {
            "rest-lit": "restricted", **({} if overlay == "beside-openpai" else {
                "pai-jobs": "restricted" if overlay == RESTRICTED else "baseline", (
                "frameworkcontroller" if overlay == INSTEAD[0] else "rest-lit-controller"): "restricted"})})
        pods = [v for v in values if v["kind"] in ("Deployment", "StatefulSet")]
        check.ok(f"{overlay}: images", {c["image"] for v in pods for c in v["spec"]["template"]["spec"]["containers"]} <= IMAGES)
        for value in pods:
            spec, what = value["spec"]["template"]["spec"], f"{overlay}: {value['metadata']['name']}"
            check.equal(f"{what}: Pod Security", broken(value["spec"]["template"]), {})
            check.ok(f"{what}: its user is set", spec["securityContext"]["runAsUser"] > 0)
            check.ok(f"{what}: volumes", all(set(v) & {"configMap", "secret", "projected"} for v in spec["volumes"]), spec["volumes"])
            container, = spec["containers"]
            if value["kind"] == "Deployment":
                check.ok(f"{what}: read-only root", container["securityContext"]["readOnlyRootFilesystem"])
                check.equal(f"{what}: limits", sorted(container["resources"]["limits"]), ["cpu", "memory"])
                check.equal(f"{what}: its token only", spec["automountServiceAccountToken"], False)


# ---- running ----------------------------------------------------------------------------------
@functools.lru_cache(maxsize=None)
def rendered(kubectl):
    """The files of make manifests, with the image of the overlays, and the former bytes for a second time."""
    def once():
        with tempfile.TemporaryDirectory(prefix="rest-lit-deploy.") as folder:
            subprocess.run([os.path.join(ROOT, "packaging/manifests"), "rest-lit:0.2.0", "0.2.0", folder], check=True,
                           env={**os.environ, "KUBECTL": kubectl}, timeout=4 * PATIENCE * SLOW)
            return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}
    return once(), once()


def test_deploy_files_of_a_release_are_the_overlays(check, cluster):
    """The same bytes each time: a comment, and what kubectl kustomize writes.  Settings are patched on top, as OPERATE.md says."""
    one, two = rendered(cluster.kubectl_program)
    check.equal("files", sorted(one), sorted(FILES.values()))
    check.ok("the same bytes", one == two, {name: len(text) for name, text in two.items()})
    for overlay, name in FILES.items():
        done = subprocess.run([cluster.kubectl_program, "kustomize", os.path.join(DEPLOY, overlay)], capture_output=True, check=True)
        comment, _, rest = one[name].partition(b"make manifests.\n")
        check.ok(f"{name}: a comment", all(line.startswith(b"#") for line in comment.splitlines()), comment)
        check.ok(f"{name}: {overlay}", rest == done.stdout, len(rest))
    with open(os.path.join(ROOT, "docs/OPERATE.md"), encoding="utf-8") as f:
        patches = dict(re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)^```", f.read(), re.M | re.S))
    with tempfile.TemporaryDirectory(prefix="rest-lit-deploy.") as folder:
        shutil.copy2(os.path.join(DEPLOY, "standalone-cluster", "config.yaml"), folder)
        for name, text in {**one, **{name: text.encode() for name, text in patches.items()}}.items():
            with open(os.path.join(folder, name), "wb") as f:
                f.write(text)
        done = subprocess.run([cluster.kubectl_program, "kustomize", folder], capture_output=True, check=False)
    check.equal("the patches of OPERATE.md", done.returncode, 0)
    found = objects(cluster.kubectl_program, done.stdout)
    server = only(found, "Deployment")["spec"]
    settings, = [v for v in found if v["kind"] == "ConfigMap" and v["metadata"]["name"].startswith("rest-lit-settings-")]
    used = [v["configMap"]["name"] for v in server["template"]["spec"]["volumes"] if v["name"] == "config"]
    check.equal("the server has them", (used, server["replicas"]), ([settings["metadata"]["name"]], 3))
    check.equal("all else is there", len(found), len(objects(cluster.kubectl_program, one["install.yaml"])) + 1)


def test_deploy_files_take_names_of_images_only(check, cluster):
    for image, good in (("registry.example:5000/a/rest-lit@sha256:0123", True), ("rest-lit", False),
                        ("registry.example:5000/rest-lit", False), ("", False), ("a:", False), ("a@", False), (":b", False), ("a b:1", False)):
        with tempfile.TemporaryDirectory(prefix="rest-lit-deploy.") as folder:
            done = subprocess.run([os.path.join(ROOT, "packaging/manifests"), image, "1", folder], capture_output=True, check=False,
                                  env={**os.environ, "KUBECTL": cluster.kubectl_program})
            check.equal(f"IMAGE={image}", done.returncode, 0 if good else 2)
            made = {name: open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder)}
        check.equal(f"IMAGE={image}: both programs", {text.count(f"image: {image}\n".encode()) for text in made.values()}, {2} if good else set())


def install(check, cluster, overlay):
    """kubectl apply -f of the file, if a release has one, and apply -k; the objects."""
    first = ("-k", os.path.join(DEPLOY, overlay))
    if overlay in FILES:
        first = ("-f", "-")
    done = cluster.kubectl("apply", *first, text=rendered(cluster.kubectl_program)[0].get(FILES.get(overlay)))
    values = built(cluster.kubectl_program, overlay)
    said = [line for line in done.stderr.decode().splitlines() if line.strip() and not line.startswith(("Warning", "# Warning"))]
    check.equal(f"{overlay}: kubectl apply {first[0]} succeeds", (done.returncode, said), (0, []))
    again = cluster.kubectl("apply", "-k", os.path.join(DEPLOY, overlay)).stdout.decode().splitlines()
    check.equal(f"{overlay}: kubectl apply -k changes nothing", [line for line in again if not line.endswith(" unchanged")], [])
    missing = [name_of(v) for v in values if v["kind"] != "ConfigMap" and
               cluster.api("GET", f"{resource_path(cluster, v)}/{v['metadata']['name']}")[0] != 200]
    check.equal(f"{overlay}: all objects are there", missing, [])
    return values


def uninstall(cluster, values):
    """Removes all objects except the definition of Frameworks and the namespaces, which this cluster
    cannot empty."""
    for value in values:
        path = resource_path(cluster, value)
        if path and value["kind"] not in ("Namespace", "CustomResourceDefinition"):
            cluster.api("DELETE", f"{path}/{value['metadata']['name']}")


def rule_set(rules):
    return {(verb, group, resource, tuple(r.get("resourceNames") or ())) for r in rules for verb in r["verbs"]
            for group in r["apiGroups"] for resource in r["resources"]}


def rights(cluster, account, space):
    """The rules of this account in the namespace, without those of every account."""
    review = cluster.api("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                         {"spec": {"namespace": space}}, token=account)[1]
    return {r for r in rule_set(review["status"]["resourceRules"]) if r[1] != "authorization.k8s.io" and
            r[2] != "selfsubjectreviews"}  # since 1.28; its group has tokenreviews, too


def check_rights(check, cluster, account, values, jobs, name="rest-lit"):
    """Exactly the rules that the overlay gives to this account, in these namespaces.  Returns those for the
    whole cluster."""
    bound = {(b["roleRef"]["kind"], b["metadata"].get("namespace", ""), b["roleRef"]["name"]) for b in values
             if b["kind"] in ("RoleBinding", "ClusterRoleBinding") and b["subjects"] == [
                 {"kind": "ServiceAccount", "name": name, "namespace": name}]}
    wide = set()
    for kind, space, role in bound:
        if kind == "ClusterRole":
            wide |= rule_set(only(values, kind, role)["rules"])
    for space in (jobs, "frameworkcontroller", "rest-lit", "rest-lit-controller", "kube-system"):
        wanted = set(wide)
        for value in values:
            meta = value["metadata"]
            if value["kind"] == "Role" and ("Role", space, meta["name"]) in bound and meta["namespace"] == space:
                wanted |= rule_set(value["rules"])
        check.ok(f"rights of {name} in {space}", wait_until(lambda space=space, wanted=wanted: rights(cluster, account, space) == wanted),
                 rights(cluster, account, space) ^ wanted)
    return wide


# Of the controller in the namespace of the jobs: (verb, group, resource, name).
MAY = [(verb, OURS, "frameworks", "") for verb in ("get", "list", "watch", "patch", "delete")] + \
    [(verb, "", kind, "") for kind in ("configmaps", "pods") for verb in ("get", "list", "watch", "create", "delete")] + \
    [("update", OURS, "frameworks/finalizers", ""), ("update", "", "configmaps/finalizers", ""),
     ("create", "coordination.k8s.io", "leases", ""), ("get", "coordination.k8s.io", "leases", "rest-lit-controller"),
     ("patch", "coordination.k8s.io", "leases", "rest-lit-controller"), ("create", "", "events", ""), ("patch", "", "events", "")]
MAY_NOT = [("create", OURS, "frameworks", ""), ("update", OURS, "frameworks", ""), ("patch", "", "pods", ""),
           ("update", "", "pods", ""), ("patch", "", "configmaps", ""), ("create", "", "pods/exec", ""), ("get", "", "pods/log", ""),
           ("get", "", "secrets", ""), ("list", "", "secrets", ""), ("get", "coordination.k8s.io", "leases", "other"),
           ("list", "coordination.k8s.io", "leases", ""), ("delete", "", "pods", "x", "rest-lit"),
           ("get", OURS, "frameworks", "x", "default"), ("deletecollection", "", "pods", "")]


def apply_built(cluster, overlay):
    """The objects of built(), applied."""
    values = built(cluster.kubectl_program, overlay)
    cluster.apply_objects(*values)
    return values


def test_deploy_controller_has_exactly_its_rights(check, cluster):
    """In the namespace of the jobs alone; with the option, in all."""
    for overlay in ("standalone-cluster", INSTEAD[1]):
        values = apply_built(cluster, overlay)
        try:
            token = cluster.account_token("rest-lit-controller", "rest-lit-controller")
            wide = check_rights(check, cluster, token, values, "pai-jobs", "rest-lit-controller")
            check.equal(f"{overlay}: rights in all namespaces", wide, set() if overlay == OVERLAYS[0] else {
                (verb, group, kind, ()) for verb, group, kind, _ in MAY if kind != "leases"})
            user = "system:serviceaccount:rest-lit-controller:rest-lit-controller"
            if overlay == OVERLAYS[0]:
                for what in MAY:
                    check.ok(f"may {what}", may(cluster, user, *what, namespace="pai-jobs"))
                for verb, group, kind, name, *space in MAY_NOT:
                    check.ok(f"may not {(verb, group, kind, name, *space)}", not may(
                        cluster, user, verb, group, kind, name, namespace=space[0] if space else "pai-jobs"))
        finally:
            uninstall(cluster, values)
            cluster.forget_crd()


def does_its_jobs(check, cluster, what, server, jobs, headers):
    """The requests of users work with the rights of the account alone."""
    frameworks = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{jobs}/frameworks"
    name = framework_name("deployed")
    path = "/api/v2/jobs/alice~deployed"
    yaml = {"Content-Type": "text/yaml", **headers}
    # The probe of try-out, a command, does not wait for the ConfigMap with pai-runtime.
    check.ok(f"{what}: ready", server.ready(), server.log()[-2000:])
    check.equal(f"{what}: dry run", server.submit(job_v2_secret("deployed", MARKER), yaml, "/api/v2/jobs?dryRun=server").status, 200)
    reply = server.submit(job_v2_secret("deployed", MARKER), yaml)
    check.equal(f"{what}: job is taken", reply.status, 202 if reply.status == 202 else reply.body)
    framework = cluster.api("GET", f"{frameworks}/{name}")[1]
    check.equal(f"{what}: started", framework.get("spec", {}).get("executionType"), "Start")
    volumes = configmaps_of(framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"])
    check.equal(f"{what}: with the runtime in this ConfigMap", [cluster.api(
        "GET", f"/api/v1/namespaces/{jobs}/configmaps/{v}")[0] for v in volumes], [200])
    for method, more, body in (("GET", "", None), ("GET", "/config", None), ("GET", "/events", None),
                               ("GET", "/job-attempts", None), ("PUT", "/tag", '{"value":"t"}'),
                               ("PUT", "/executionType", '{"value":"STOP"}')):
        reply = server.request(method, path + more, body, {"Content-Type": "application/json", **headers})
        check.ok(f"{what}: {method} {more}", reply.status in (200, 201, 202), reply)
    check.ok(f"{what}: in the list", wait_until(lambda: b"deployed" in server.request(
        "GET", "/api/v2/jobs", headers=headers).body))
    check.equal(f"{what}: deleted", server.request("DELETE", "/api/v1/user/alice/jobs/deployed", headers=headers).status, 202)
    check.ok(f"{what}: is gone", wait_until(lambda: cluster.api("GET", f"{frameworks}/{name}")[0] == 404))
    for suffix in ("-configcred", "-regcred"):
        cluster.api("DELETE", f"/api/v1/namespaces/{jobs}/secrets/{name}{suffix}")
    for word in ("RBAC", "cannot", MARKER):
        check.equal(f"{what}: the log is without {word}", [line for line in server.settled_log().splitlines() if word in line], [])


def logs_outlive_their_pods(check, cluster, what, server, jobs, headers):
    """Pods get an address that needs no resolver, since those in the network of their node have none
    for Services, and a certificate; they upload by the real pai-runtime with a token of their own."""
    # The certificate of the former server is replaced.
    certificate = ssl.get_server_certificate((server.output_address, 9188))
    check.ok(f"{what}: the certificate for uploads is there", wait_until(lambda: cluster.api(
        "GET", f"/api/v1/namespaces/{jobs}/configmaps/rest-lit-output-ca")[1].get("data", {}).get(
            "ca.crt", "").strip() == certificate.strip()), server.log()[-2000:])
    # Each overlay has jobs with other names, because this cluster does not collect the objects of
    # jobs.
    with Stage(cluster, server, jobs, {"Content-Type": "application/json", **headers}) as stage:
        def one(i):
            value = json.loads(job_v2(f"{what}-{i}"))
            value["taskRoles"]["worker"]["commands"] = [f"echo out {i}", f"echo err {i} >&2"]
            return stage.submit(check, json.dumps(value))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = list(pool.map(one, range(LOGS)))
        tasks = [task for job in done for task in job.tasks]
        check.equal(f"{what}: the address of the Service", {task.url for task in tasks}, {
            f"https://{server.output_address}:9188"})
        check.equal(f"{what}: no task waits at its end", [task.log.data[-200:] for task in tasks if b"uploaded" in task.log.data], [])
        for name, word in (("stdout", "out"), ("stderr", "err")):
            check.equal(f"{what}: {LOGS} of {LOGS}: {name}", [of_task(stage.portal(f"{what}-{i}", "worker", name)) for i in range(LOGS)], [
                (200, f"{word} {i}\n".encode()) for i in range(LOGS)])
    status, _ = cluster.api("DELETE", f"/api/v1/namespaces/{jobs}/configmaps?labelSelector=rest-lit%2Fhistory")
    check.equal(f"{what}: outputs are deleted, as with their jobs", status, 200)


def picks_a_ready_pod(check, cluster):
    """Tests the command of QUICKSTART.md and of the overlay while an older pod is ending."""
    pods, commands = "/api/v1/namespaces/rest-lit/pods", set()
    for file in ("docs/QUICKSTART.md", "k8s/deploy/standalone-cluster/kustomization.yaml"):
        with open(os.path.join(ROOT, file), encoding="utf-8") as f:
            text = f.read().replace("\n#", "\n")
        commands.add(" ".join(re.search(r"^ *(pod=\$\(.*?\))$", text, re.M | re.S).group(1).replace("\\\n", " ").split()))
    command, = commands
    made = []
    for name in ("z-ends", "a-ready"):  # in the order of age, not of names
        def make(name=name):
            status, pod = cluster.api("POST", pods, {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "rest-lit"}},
                "spec": {"nodeName": "none", "serviceAccountName": "rest-lit", "automountServiceAccountToken": False,
                         "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                         "containers": [{"name": "rest-lit", "image": "x", "securityContext": {
                             "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}})
            check.equal(f"{name}: as its namespace demands", broken(pod), {})
            assert status == 201, pod
            if pod["metadata"]["creationTimestamp"] in made:
                cluster.api("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})
                return False
            return not made.append(pod["metadata"]["creationTimestamp"])
        check.ok(f"{name}: made in a later second", wait_until(make))
    cluster.api("DELETE", f"{pods}/z-ends", {"gracePeriodSeconds": 45})
    script = f'kubectl() {{ {cluster.kubectl_program} --kubeconfig {cluster.kubeconfig} "$@"; }}; {command}; echo "$pod"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=60 * SLOW)
    check.equal("the pod that is ready", (done.stdout, done.stderr), (b"pod/a-ready\n", b""))
    for name in ("z-ends", "a-ready"):
        cluster.api("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})


def revokes(check, cluster, what, server, headers):
    """With the shipped files, a logout revokes the token; a second kubectl apply -k preserves the
    list."""
    check.equal(f"{what}: the token is good", server.request("GET", "/api/v2/tokens/check", headers=headers).status, 200)
    check.equal(f"{what}: logout", server.request("DELETE", "/api/v2/authn/basic/logout", headers=headers).status, 200)
    before = server.request("GET", "/api/v2/tokens/check", headers=headers).status
    done = cluster.kubectl("apply", "-k", os.path.join(DEPLOY, what))
    check.equal(f"{what}: applied again", done.returncode, 0)
    listed = cluster.api("GET", "/api/v1/namespaces/rest-lit/secrets/rest-lit-revoked")[1].get("data") or {}
    check.equal(f"{what}: the token is revoked", (before, len(listed)), (401, 1 if what == "standalone-cluster" else 0))


def probed(check, what, server, probe):
    """The probe succeeds; as the kubelet does it, but at the port of this test."""
    if "httpGet" in probe:
        check.equal(f"{what}: port", probe["httpGet"]["port"], 9186)
        check.ok(f"{what}: {probe['httpGet']['path']}", wait_until(
            lambda: server.request("GET", probe["httpGet"]["path"]).status == 200), server.log()[-2000:])
        return
    command = [*probe["exec"]["command"], "--server", f"http://127.0.0.1:{server.port}"]
    check.ok(f"{what}: {command}", wait_until(lambda: server.run_beside(command).returncode == 0), server.log()[-2000:])


def run_overlay(check, cluster, overlay, jobs, secrets, headers):
    values = install(check, cluster, overlay)
    try:
        with Deployed(cluster, values, secrets) as server:
            container, = server.pod["containers"]
            for probe in ("livenessProbe", "readinessProbe"):
                if probe in container:
                    probed(check, f"{overlay}: {probe}", server, container[probe])
            if "metrics" in (p["name"] for p in container["ports"]) and overlay != "try-out":
                with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics", timeout=60 * SLOW) as reply:
                    check.ok(f"{overlay}: /metrics", b"rest_lit_build_info" in reply.read())
            if "jwt" in (v["name"] for v in server.pod["volumes"]) and not headers:
                picks_a_ready_pod(check, cluster)
                made = server.run_beside(TOKEN.split())
                headers = bearer(made.stdout.decode().strip())
                check.equal(f"{overlay}: {TOKEN}", made.returncode, 0)
            wide = check_rights(check, cluster, server.token, values, jobs)
            check.equal(f"{overlay}: rights in the whole cluster", wide, {
                ("create", "authentication.k8s.io", "tokenreviews", ()), *((
                    ("get", "", "persistentvolumes", ()), ("list", "", "nodes", ()),
                    ("get", "scheduling.k8s.io", "priorityclasses", ("pai-job-minimal-priority",)))
                    if overlay == "beside-openpai" else ())})
            does_its_jobs(check, cluster, overlay, server, jobs, headers or {})
            logs_outlive_their_pods(check, cluster, overlay, server, jobs, headers or {})
            done = cluster.kubectl("delete", "--dry-run=server", "-k", os.path.join(DEPLOY, overlay))
            check.equal(f"{overlay}: kubectl delete -k", done.returncode, 0)
            if headers:
                revokes(check, cluster, overlay, server, headers)
            if "exec" in container["readinessProbe"]:
                with socket.socket() as silent:
                    # Bound and not listening, so that no other program answers there.
                    silent.bind(("127.0.0.1", 0))
                    command = [*container["readinessProbe"]["exec"]["command"], "--server",
                               f"http://127.0.0.1:{silent.getsockname()[1]}"]
                    check.ok(f"{overlay}: the probe fails without a server", server.run_beside(command).returncode != 0)
    finally:
        uninstall(cluster, values)
        cluster.forget_crd()
        # The ConfigMap with pai-runtime.
        cluster.api("DELETE", f"/api/v1/namespaces/{jobs}/configmaps?labelSelector=app.kubernetes.io/name=pai-runtime")


def can_run(what):
    reason = Pod.obstacle() or (None if real_program() else "this pai-runtime is linked dynamically")
    if reason:
        print(f"     {what}: not run, {reason}", flush=True)
    return not reason


def has_pod_made(check, cluster, what, name):
    """A Framework gets its ConfigMap and pod, whose owners need rights to finalizers."""
    spec = {"executionType": "Start", "taskRoles": [{"name": "main", "taskNumber": 1, "task": {
        "pod": {"spec": {"containers": [{"name": "app", "image": "x"}]}}}}]}
    paths = {"frameworks": f"/apis/{OURS}/v1/namespaces/pai-jobs/frameworks", **{
        kind: f"/api/v1/namespaces/pai-jobs/{kind}" for kind in ("configmaps", "pods")}}
    status, said = cluster.api("POST", paths["frameworks"], {
        "apiVersion": f"{OURS}/v1", "kind": "Framework", "metadata": {"name": name}, "spec": spec})
    check.equal(f"{what}: {name}: created", status, 201 if status == 201 else said)
    check.ok(f"{what}: {name}: pod", wait_until(lambda: cluster.api("GET", f"{paths['pods']}/{name}-main-0")[0] == 200))
    check.ok(f"{what}: {name}: state", wait_until(lambda: cluster.api("GET", f"{paths['frameworks']}/{name}")[1].get(
        "status", {}).get("state") == "AttemptPreparing"))
    # This cluster collects no objects.
    for kind, object_name in (("frameworks", name), ("configmaps", f"{name}-attempt"), ("pods", f"{name}-main-0")):
        path = f"{paths[kind]}/{object_name}"
        cluster.api("DELETE", path, {"gracePeriodSeconds": 0})
        cluster.api("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
        check.ok(f"{what}: {object_name} is gone", wait_until(lambda path=path: cluster.api("GET", path)[0] == 404))


def test_deploy_of_the_controller_works(check, cluster):
    """Two pods: one leads, and when it ends, the other one."""
    for overlay in ("standalone-cluster", INSTEAD[1]) if can_run("controller") else ():
        values = apply_built(cluster, overlay)
        try:
            with DeployedController(cluster, values) as first:
                check.ok(f"{overlay}: leads", first.leads(), first.log()[-2000:])
                with DeployedController(cluster, values) as second:
                    for pod, probe in itertools.product((first, second), ("livenessProbe", "readinessProbe")):
                        get = pod.place.container[probe]["httpGet"]
                        check.equal(f"{overlay}: {probe}: port", get["port"], 9187)
                        check.ok(f"{overlay}: {probe}", wait_until(
                            lambda pod=pod, get=get: pod.get(get["path"])[0] == 200), second.log()[-2000:])
                    check.ok(f"{overlay}: one leads", "\nrest_lit_controller_leader 0\n" in second.get("/metrics")[1])
                    has_pod_made(check, cluster, overlay, "first")
                    check.equal(f"{overlay}: ends", first.stop(), 0)
                    check.ok(f"{overlay}: the other leads", second.leads(), second.log()[-2000:])
                    has_pod_made(check, cluster, overlay, "second")
                    for log in (first.log(), second.log()):
                        check.equal(f"{overlay}: no warning", [line for line in log.splitlines() if '"warn"' in line], [])
        finally:
            uninstall(cluster, values)
            cluster.forget_crd()


def test_deploy_of_the_profile_restricted_makes_pods_of_its_level(check, cluster):
    """Server and controller as deployed: the pods that the API server stores pass `restricted`."""
    if not can_run(RESTRICTED):
        return
    values = install(check, cluster, RESTRICTED)
    pods = "/api/v1/namespaces/pai-jobs/pods"
    sha, body = archive({"train.py": b"print()\n"})
    role = json.loads(job_v2("x"))["taskRoles"]["worker"]
    job = json.loads(job_v2_secret("restricted", MARKER))
    job.update(taskRoles={"ps": role, "worker": {**role, "instances": 2}}, extras={"code": {"sha256": sha}})
    try:
        with Deployed(cluster, values, {"rest-lit-jwt": {"secret": SECRET}}) as server, DeployedController(cluster, values) as controller:
            check.ok("ready", server.ready() and controller.leads(), server.log()[-2000:])
            headers = bearer(token())
            check.equal("code", put_code(server, sha, body, headers).status, 201)
            reply = server.submit(json.dumps(job), {"Content-Type": "application/json", **headers})
            check.equal("job", reply.status, 202 if reply.status == 202 else reply.body)
            name = framework_name("restricted")
            names = [f"{name}-{task}" for task in ("ps-0", "worker-0", "worker-1")]
            check.ok("pods", wait_until(lambda: all(cluster.api("GET", f"{pods}/{n}")[0] == 200 for n in names)), controller.log()[-2000:])
            for n in names:
                pod = cluster.api("GET", f"{pods}/{n}")[1]
                check.equal(f"{n}: its level", broken(pod), {})
                check.ok(f"{n}: code, secrets, output", {"code", "job-secrets", "output-access"} <= {
                    v["name"] for v in pod["spec"]["volumes"]})
            done = server.run_beside(["rest-lit", "check", "--config", "/etc/rest-lit/config.yaml"])
            check.ok("check", b"namespace pai-jobs enforces restricted, which admits the profiles restricted" in done.stdout, done.stdout)
            server.request("DELETE", "/api/v1/user/alice/jobs/restricted", headers=headers)
            for n in names:
                cluster.api("DELETE", f"{pods}/{n}", {"gracePeriodSeconds": 0})
    finally:
        uninstall(cluster, values)
        cluster.forget_crd()


def test_deploy_of_a_standalone_cluster_works(check, cluster):
    if can_run("standalone-cluster"):
        run_overlay(check, cluster, "standalone-cluster", "pai-jobs", {"rest-lit-jwt": {"secret": SECRET}}, None)


def test_deploy_of_the_try_out_works(check, cluster):
    if can_run("try-out"):
        run_overlay(check, cluster, "try-out", "pai-jobs", {}, None)


def test_deploy_beside_openpai_works(check, cluster):
    """The overlay works beside the objects of OpenPAI: users, groups, tokens, and objects that pods
    reference."""
    if not can_run("beside-openpai"):
        return
    make_namespaces(cluster, ("pai-user-v2", "pai-group", "pai-user-token"))
    mine = token()
    cluster.apply_objects(
        user_object("alice", "alice-password", ["default"]), group_object("default", {"virtualClusters": ["default"]}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "616c696365", "namespace": "pai-user-token"},
         "stringData": {"e2e": mine}},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "pai-job-minimal-priority"},
         "value": -2147483648})
    cluster.apply("jobs/runtime-account.yaml", "jobs/exit-spec-configmap.yaml")
    run_overlay(check, cluster, "beside-openpai", "default", {"rest-lit-jwt": {"secret": SECRET}}, bearer(mine))
    for path in ("/apis/scheduling.k8s.io/v1/priorityclasses/pai-job-minimal-priority",
                 "/api/v1/namespaces/pai-user-v2/secrets/616c696365", "/api/v1/namespaces/pai-user-token/secrets/616c696365",
                 "/api/v1/namespaces/default/serviceaccounts/runtime-account",
                 "/api/v1/namespaces/default/configmaps/runtime-exit-spec-configuration"):
        cluster.api("DELETE", path)
